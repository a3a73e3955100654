"""Where the nodes of a drawn graph are, and the curves that its edges take."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import shortest_path

from .._utils._numbers import FloatArray
from ._checks import as_numbers, check_choice
from ._identified_graph import IdentifiedGraph, Pairs

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["edge_curves", "lay_out", "read_positions"]


def read_positions(pos: Any, names: Sequence[Any], argument: str) -> FloatArray:
    """Points of nodes from an array, or from a mapping from their names."""
    if isinstance(pos, Mapping):
        lacking = [name for name in names if name not in pos]
        if lacking:
            raise ValueError(
                f"{argument} has no entry for node {lacking[0]!r}; expected one for each of the {len(names)} nodes."
            )
        pos = [pos[name] for name in names]
    expected = f"({len(names)}, 2), a point for each node"
    positions = as_numbers(pos, argument, f"numbers of shape {expected}")
    if positions.shape != (len(names), 2):
        raise ValueError(f"{argument} has shape {positions.shape}; expected {expected}.")
    if not np.isfinite(positions).all():
        raise ValueError(f"{argument} holds {positions[~np.isfinite(positions)][0]}; expected finite numbers.")
    return positions


def lay_out(
    identified: IdentifiedGraph, layout: str | Callable[[nx.Graph], Mapping[Any, Any]], random_state: int | None
) -> FloatArray:
    """Place the nodes by all edges that are or should be there, so that a missed one does not change the picture."""
    import networkx as nx

    present, truth = identified.adjacency, identified.true_adjacency
    if truth is not None:
        present = present + truth
    graph = nx.from_numpy_array((present + present.T > 0).astype(int))
    nodes = range(identified.n_nodes)
    if callable(layout):
        return read_positions(layout(graph), nodes, "what layout returned")
    check_choice(layout, "layout", ("kamada_kawai", "spring", "spectral", "circular"), "a callable")
    if layout == "kamada_kawai":
        placed = nx.kamada_kawai_layout(graph, dist=_distances(graph))
    elif layout == "spring":
        placed = nx.spring_layout(graph, seed=random_state)
    else:
        placed = nx.spectral_layout(graph) if layout == "spectral" else nx.circular_layout(graph)
    return read_positions(placed, nodes, "layout")


def _distances(graph: nx.Graph) -> dict[int, dict[int, float]]:
    import networkx as nx

    # networkx puts parts that are not connected a million steps apart, which leaves each of them a dot; one step more
    # than the longest way is apart enough to be seen.
    steps = shortest_path(nx.to_scipy_sparse_array(graph), unweighted=True)
    steps[np.isinf(steps)] = steps[np.isfinite(steps)].max() + 1
    return {i: dict(enumerate(row)) for i, row in enumerate(steps.tolist())}


def edge_curves(
    positions: FloatArray, pairs: Pairs, *, straight: bool, bent: Collection[tuple[int, int]] = ()
) -> list[FloatArray]:
    """A straight line for each pair, or a bow where a third node lies on it or it is among those to be bent."""
    parameter = np.linspace(0, 1, 25)[:, None]
    curves = []
    for i, j in pairs:
        start, end = positions[i], positions[j]
        curve = start + parameter * (end - start)
        if not straight and ((int(i), int(j)) in bent or _passes_a_node(positions, i, j)):
            sideways = np.array([start[1] - end[1], end[0] - start[0]])
            curve = curve + 0.8 * parameter * (1 - parameter) * sideways
        curves.append(curve)
    return curves


def _passes_a_node(positions: FloatArray, i: int, j: int) -> bool:
    direction = positions[j] - positions[i]
    length = float(np.linalg.norm(direction))
    if length == 0:
        return False
    offsets = np.delete(positions, [i, j], axis=0) - positions[i]
    along = offsets @ direction / length**2
    across = np.abs(offsets[:, 0] * direction[1] - offsets[:, 1] * direction[0]) / length
    # Closer than this the node's disc, drawn at the default size, would cover the line.
    near = 0.015 * float(np.ptp(positions, axis=0).max())
    return bool(((along > 0) & (along < 1) & (across < near)).any())
