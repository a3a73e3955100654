"""Strengths of edges in an identifier: validation of the arguments, and summaries of the draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from .._utils._warnings import warn_caller
from ..filters import ARMAFilter, GraphFilter, PolynomialFilter
from ..graphs import EdgeSpace, KnownEdges
from ..samplers import GaussianSlab, LogNormalSlab, Slab
from ._estimates import central_interval
from ._result import Experiments

__all__ = [
    "SLABS",
    "WeightSummary",
    "check_edge_weights",
    "free_pairs",
    "summarize_weights",
    "warn_of_units",
    "weight_intervals",
    "weight_matrices",
]

# Units of nodes that differ by this factor are warned of. Directed graphs of ten nodes with positive strengths, order
# one, half of the pairs known, 20 experiments: F1 1.00, .99, .96, .78, .40 with factors of 1, 3, 10, 100, 10,000.
_LARGEST_UNIT = 30.0

#: The law of strengths for every value of `edge_weights`; None where edges have no strengths.
SLABS: dict[str, Slab | None] = {"binary": None, "positive": LogNormalSlab(), "signed": GaussianSlab()}


class WeightSummary(NamedTuple):
    """Strengths of the edges of a graph, zero where there is no edge."""

    mean: FloatArray  # (nodes, nodes)
    std: FloatArray  # (nodes, nodes), zero where the strength is known too


def check_edge_weights(edge_weights: str, known: KnownEdges, filter: GraphFilter) -> None:
    """Refuse strengths that do not go with what is known, or with the filter."""
    smallest = known.smallest_weight
    if edge_weights == "positive" and smallest is not None and smallest < 0:
        raise ValueError(
            f"a known edge has the strength {smallest:g}, but edge_weights='positive'; expected strengths above zero, "
            f"or edge_weights='signed'."
        )
    if edge_weights == "signed" and not filter.allows_negative_strengths:
        raise ValueError(
            f"edge_weights='signed' is inconsistent with {type(filter).__name__}, which is not defined for negative "
            f"strengths; expected edge_weights='positive'."
        )


def warn_of_units(experiments: Experiments) -> None:
    """Warn where nodes of a directed graph seem to be in different units, which strengths would have to make up for.

    With D the diagonal matrix of the units, inputs D x and outputs D y belong to strengths D A D^-1, if the filter is
    made of powers of A. Strengths then differ by as much as units do, and so does the noise.
    """
    filter = experiments.filter
    if not (isinstance(filter, ARMAFilter) or (isinstance(filter, PolynomialFilter) and filter.shift == "adjacency")):
        return
    sizes = np.stack([_log_sizes(experiments.inputs), _log_sizes(experiments.outputs)])
    sizes = sizes[:, np.isfinite(sizes).all(0)]
    # How much larger one node is than another, in inputs and outputs alike: what a unit changes, and dynamics do not.
    factor = float(np.exp((sizes[:, :, None] - sizes[:, None, :]).min(0).max(initial=0.0)))
    if factor >= _LARGEST_UNIT:
        warn_caller(
            f"inputs and outputs of some nodes are {factor:.2g} times as large as those of others. If nodes are "
            f"measured in different units, divide each node's columns of X and Y by the same number, such as the "
            f"standard deviation of its inputs: strengths are expected to be of similar size."
        )


def _log_sizes(signals: FloatArray) -> FloatArray:
    """Logarithms of the root mean squares of columns; infinite for nodes without a signal, and for extreme numbers."""
    with np.errstate(divide="ignore", over="ignore"):
        squares = np.nansum(signals**2, axis=0) / np.maximum((~np.isnan(signals)).sum(axis=0), 1)
        return np.asarray(0.5 * np.log(squares))


def free_pairs(known: KnownEdges) -> EdgeSpace:
    """The unknown pairs, then the known edges of unknown strength."""
    return known.space.joined(known.edges_without_weight())


def weight_matrices(strengths: FloatArray, known: KnownEdges) -> FloatArray:
    """Matrices (..., nodes, nodes) of drawn strengths (..., free pairs)."""
    matrices: FloatArray = free_pairs(known).filled(strengths, known.known_weights())
    return matrices


def summarize_weights(strengths: FloatArray, known: KnownEdges, adjacency: npt.NDArray[np.int64]) -> WeightSummary:
    """Mean and standard deviation of the strength of every edge of a graph, over the draws that have this edge.

    An edge that none of the draws has, which happens with few of them, gets the median and the standard deviation of
    all strengths that were drawn: probabilities are means over more graphs than are kept.

    Parameters
    ----------
    strengths : ndarray (draws, free pairs)
        Zero where a draw has no edge.
    known : KnownEdges
        What is known.
    adjacency : ndarray (nodes, nodes)
        The graph.
    """
    drawn = np.where(strengths == 0, np.nan, strengths)
    is_drawn = ~np.isnan(drawn).all(axis=0)
    usual = drawn[np.isfinite(drawn)]
    # The unit of strengths is one where nothing is known of them.
    mean = np.full(drawn.shape[1], float(np.median(usual)) if usual.size else 1.0)
    std = np.full(drawn.shape[1], float(usual.std()) if usual.size else 0.0)
    mean[mean == 0] = 1.0
    mean[is_drawn], std[is_drawn] = np.nanmean(drawn[:, is_drawn], axis=0), np.nanstd(drawn[:, is_drawn], axis=0)
    is_edge = adjacency == 1
    known_weights = known.known_weights()
    means, stds = (
        free_pairs(known).filled(mean, known_weights),
        free_pairs(known).filled(std, np.zeros_like(known_weights)),
    )
    return WeightSummary(np.where(is_edge, means, 0.0), np.where(is_edge, stds, 0.0))


def weight_intervals(
    strengths: FloatArray, known: KnownEdges, adjacency: npt.NDArray[np.int64], level: float
) -> FloatArray:
    """Ends (nodes, nodes, 2) of the central intervals of the strengths of a graph's edges; zero where there is none.

    They are nan for an edge that fewer than two draws have.
    """
    central_interval(strengths, level)  # refuses a level that is none, and a single draw
    space = free_pairs(known)
    ends = np.repeat(known.known_weights()[..., None], 2, axis=-1)
    lows, highs = np.zeros((2, strengths.shape[1]))
    is_wanted = space.gather(adjacency) == 1
    for pair in np.nonzero(is_wanted)[0]:
        drawn = strengths[strengths[:, pair] != 0, pair]
        lows[pair], highs[pair] = central_interval(drawn, level) if len(drawn) > 1 else (np.nan, np.nan)
    for place, values in enumerate((lows, highs)):
        space.write(ends[..., place], values)
    return ends
