"""Resuming from the chains of an earlier fit (warm start)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from ..filters import GraphFilter
from ..graphs import KnownEdges
from ..graphs._nodes import Names
from ._draws import ChainDraws
from ._estimates import free_pairs, weight_matrices

__all__ = ["ChainStart", "SoughtSystem", "has_lost_evidence", "start_from"]


class ChainStart(NamedTuple):
    """Where chains start, in numpy, so that it can be sent anywhere."""

    pairs: FloatArray  # (chains, unknown pairs) zeros and ones; or (chains, free pairs) strengths
    theta: FloatArray  # (chains, parameters)
    noise_std: FloatArray  # (chains,)

    def of_chains(self, chains: slice) -> ChainStart:
        """The start of some of the chains."""
        return ChainStart(*(part[chains] for part in self))


class SoughtSystem(NamedTuple):
    """What a fit looks for; chains can go on only in a fit that looks for the same."""

    nodes: int | Names  # how many, or their names
    directed: bool
    edge_weights: str
    filter: str

    @classmethod
    def of(cls, known: KnownEdges, edge_weights: str, filter: GraphFilter) -> SoughtSystem:
        """The system of which some pairs are known, with edges of a kind, and a filter."""
        nodes = known.n_nodes if known.names is None else tuple(known.names)
        # A function's name, as its address is another one after pickling.
        settings = ", ".join(
            f"{name}={getattr(value, '__qualname__', None) or repr(value)}"
            for name, value in filter.get_params().items()
        )
        return cls(nodes, known.directed, edge_weights, f"{type(filter).__name__}({settings})")

    def check_same(self, earlier: SoughtSystem) -> None:
        """Refuse to go on from a fit that looked for something else, and name what differs."""
        for name in self._fields:
            now, before = getattr(self, name), getattr(earlier, name)
            if name == "nodes" and now != before and _are_reordered(now, before):
                raise ValueError(
                    "warm_start=True, but the columns of X are in another order than in the last fit; expected the "
                    "same order, or warm_start=False to start from scratch."
                )
            if now != before:
                raise ValueError(
                    f"warm_start=True, but {_said(name, now)} and the last fit had {_said(name, before, short=True)}; "
                    f"expected the same, or warm_start=False to start from scratch."
                )


def _are_reordered(now: int | Names, before: int | Names) -> bool:
    return isinstance(now, tuple) and isinstance(before, tuple) and set(now) == set(before)


def _said(name: str, value: Any, short: bool = False) -> str:
    if name == "nodes" and isinstance(value, tuple):
        listed = ", ".join(repr(node) for node in value[:3])
        value = f"{len(value)} ({listed}{', ...' if len(value) > 3 else ''})"
    elif name != "filter":
        value = repr(value)
    return str(value) if short else f"{name} is now {value}"


def has_lost_evidence(before: KnownEdges, known: KnownEdges, n_measured_before: int, n_measured: int) -> bool:
    """Whether there are fewer measurements than before, or pairs that are no longer known.

    The posterior is then wider than the draws of before, and chains that start from these take long to spread.
    """
    return n_measured < n_measured_before or bool((before.mask & ~known.mask).any())


def start_from(
    draws: ChainDraws, before: KnownEdges, known: KnownEdges, n_chains: int, has_strengths: bool
) -> ChainStart:
    """The last draws of an earlier fit as the start of chains, with what is known now in place of what was drawn.

    Parameters
    ----------
    draws : ChainDraws
        Those of the earlier fit.
    before, known : KnownEdges
        What was known then, and what is known now.
    n_chains : int
        How many chains to start. Where the earlier fit has kept fewer, or counts some of them more than others, chains
        share a start or take an earlier draw.
    has_strengths : bool
        Whether edges have strengths.
    """
    n_kept, n_draws = draws.log_likelihood.shape
    ends = np.cumsum(draws.weight) / draws.weight.sum()
    chains = np.minimum(np.searchsorted(ends, (np.arange(n_chains) + 0.5) / n_chains), n_kept - 1)
    # The last draw of a chain first, then earlier ones.
    chosen = chains, n_draws - 1 - _places_among_equals(chains) % n_draws
    if has_strengths:
        pairs = free_pairs(known).gather(weight_matrices(draws.strengths[chosen], before))
    else:
        pairs = known.space.gather(before.fill(draws.graphs[chosen]))
    return ChainStart(np.asarray(pairs, dtype=np.float64), draws.theta[chosen], draws.noise_std[chosen])


def _places_among_equals(numbers: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """How many equal numbers stand before each of ascending ones."""
    return np.arange(len(numbers)) - np.searchsorted(numbers, numbers)
