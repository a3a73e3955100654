"""What chains have drawn, in numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray

__all__ = ["ChainDraws", "finite_chains", "joined_draws", "selected_chains"]


class ChainDraws(NamedTuple):
    """What a batch of chains has drawn, after what came before the kept draws was dropped."""

    graphs: npt.NDArray[np.int8]  # (chains, draws, unknown pairs), zeros and ones
    theta: FloatArray  # (chains, draws, parameters)
    noise_std: FloatArray  # (chains, draws)
    trust: FloatArray  # (chains, draws) in the prior
    density: FloatArray  # (chains, draws) of the unknown pairs; nan where it is not drawn
    log_likelihood: FloatArray  # (chains, draws)
    log_prior: FloatArray  # (chains, draws), up to a constant; zero where the kernel does not tell
    edge_probability: FloatArray  # (chains, unknown pairs)
    offset: FloatArray  # (chains, nodes) of the outputs, zero where none is drawn
    outlier_probability: FloatArray  # (chains, experiments, nodes), or no numbers where none is drawn
    # (chains, draws, unknown pairs and then known edges of unknown strength), zero where there is no edge; no numbers
    # where edges have no strengths
    strengths: FloatArray
    weight: FloatArray  # (chains,) how much each counts, by the mode it is in; their sum is one
    origin: npt.NDArray[np.int64]  # (chains,) the chain that each goes back to: itself, unless it was restarted
    trace_sigma: FloatArray  # (steps,) the annealing level of every step, the dropped ones included
    trace_log_likelihood: FloatArray  # (chains, steps)
    trace_theta: FloatArray  # (chains, steps, parameters)
    trace_kernel: npt.NDArray[np.int64]  # (steps,) which kernel a step is of

    def mean_of_chains(self, values: FloatArray) -> FloatArray:
        """The weighted mean of values (chains, ...)."""
        mean = np.tensordot(self.weight, values, 1)
        # Weights add up to one but for rounding, and a probability of one and a bit is none.
        return np.asarray(np.clip(mean, values.min(axis=0), values.max(axis=0)))

    def pooled(self, values: FloatArray) -> FloatArray:
        """Values (chains, draws, ...) as (chains x draws, ...), with more copies of what counts more."""
        flat = values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
        if np.ptp(self.weight) == 0:
            return flat
        ends = np.cumsum(np.repeat(self.weight, values.shape[1])) / values.shape[1]
        return flat[np.searchsorted(ends / ends[-1], (np.arange(len(flat)) + 0.5) / len(flat))]


_OF_STEPS = ("trace_sigma", "trace_kernel")  # all others are (chains, ...)
_OF_CHAINS = tuple(name for name in ChainDraws._fields if name not in _OF_STEPS)


def joined_draws(batches: Sequence[ChainDraws]) -> ChainDraws:
    """All chains; where a batch was stopped early, the others lose as many draws as it lacks."""
    n_draws = min(batch.log_likelihood.shape[1] for batch in batches)
    n_steps = min(len(batch.trace_sigma) for batch in batches)
    starts = np.cumsum([0, *(len(batch.origin) for batch in batches)])
    batches = [batch._replace(origin=batch.origin + start) for batch, start in zip(batches, starts[:-1], strict=True)]

    def part(batch: ChainDraws, name: str) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = getattr(batch, name)
        if name in ("edge_probability", "offset", "outlier_probability", "weight", "origin"):
            return values
        return values[:, :n_steps] if name.startswith("trace") else values[:, -n_draws:]

    joined = {name: np.concatenate([part(batch, name) for batch in batches]) for name in _OF_CHAINS}
    shared = {name: getattr(batches[0], name)[:n_steps] for name in _OF_STEPS}
    return ChainDraws(**joined, **shared)


def finite_chains(draws: ChainDraws) -> npt.NDArray[np.bool_]:
    """Which chains have not diverged."""
    checked = (draws.log_likelihood, draws.log_prior, draws.noise_std, draws.edge_probability, draws.theta)
    return np.asarray(np.all([np.isfinite(part).reshape(len(part), -1).all(1) for part in checked], axis=0))


def selected_chains(draws: ChainDraws, chains: npt.NDArray[np.bool_]) -> ChainDraws:
    """Some of the chains."""
    return draws._replace(**{name: getattr(draws, name)[chains] for name in _OF_CHAINS})
