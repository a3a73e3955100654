"""Strengths of edges in an identifier: validation of the arguments, and summaries of the draws."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from ..filters import GraphFilter
from ..graphs import EdgeSpace, KnownEdges
from ..samplers import GaussianSlab, LogNormalSlab, Slab
from ._estimates import central_interval

__all__ = [
    "SLABS",
    "WeightSummary",
    "check_edge_weights",
    "free_pairs",
    "summarize_weights",
    "weight_intervals",
    "weight_matrices",
]

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
