"""Geometry of a drawn graph: where its nodes are, the curves of its edges, and the places of names beside nodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.csgraph import shortest_path

from .._utils._numbers import FloatArray
from ._base import Pairs, check_array, check_choice

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["edge_curves", "lay_out", "place_labels", "read_positions"]


def read_positions(pos: Any, names: Sequence[Any], argument: str) -> FloatArray:
    """Points of nodes from an array, or from a mapping from their names."""
    if isinstance(pos, Mapping):
        lacking = [name for name in names if name not in pos]
        if lacking:
            raise ValueError(
                f"{argument} has no entry for node {lacking[0]!r}; expected one for each of the {len(names)} nodes."
            )
        pos = [pos[name] for name in names]
    positions: FloatArray = check_array(pos, argument, (len(names), 2))
    return positions


def lay_out(
    adjacency: FloatArray, layout: str | Callable[[nx.Graph], Mapping[Any, Any]], random_state: int | None
) -> FloatArray:
    """Place the nodes of a graph."""
    import networkx as nx

    graph = nx.from_numpy_array((adjacency + adjacency.T > 0).astype(int))
    nodes = range(len(adjacency))
    if callable(layout):
        return read_positions(layout(graph), nodes, "what layout returned")
    check_choice(layout, "layout", ("kamada_kawai", "spring", "spectral", "circular"), "a callable")
    if layout == "kamada_kawai":
        # networkx puts parts that are not connected a million steps apart, which leaves each of them a dot; one step
        # more than the longest way is apart enough to be seen.
        steps = shortest_path(nx.to_scipy_sparse_array(graph), unweighted=True)
        steps[np.isinf(steps)] = steps[np.isfinite(steps)].max() + 1
        placed = nx.kamada_kawai_layout(graph, dist={i: dict(enumerate(row)) for i, row in enumerate(steps.tolist())})
    elif layout == "spring":
        placed = nx.spring_layout(graph, seed=random_state)
    else:
        placed = nx.spectral_layout(graph) if layout == "spectral" else nx.circular_layout(graph)
    return read_positions(placed, nodes, "layout")


def edge_curves(
    positions: FloatArray, pairs: Pairs, *, straight: bool, bent: Collection[tuple[int, int]] = ()
) -> list[FloatArray]:
    """A straight line for each pair, or a bow where a third node lies on it or it is among those to be bent."""
    parameter = np.linspace(0, 1, 25)[:, None]
    curves = []
    for i, j in pairs.tolist():
        start, end = positions[i], positions[j]
        curve = start + parameter * (end - start)
        if not straight and ((i, j) in bent or _passes_a_node(positions, i, j)):
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


def place_labels(
    nodes: FloatArray,
    labelled: Sequence[int],
    sizes: FloatArray,
    radius: float,
    lines: Sequence[FloatArray],
    room: FloatArray,
) -> tuple[FloatArray, list[FloatArray]]:
    """Centres of labels relative to their nodes, and lines (2, 2) to the nodes of labels that stand nearer to another.

    All lengths are in points, from the lower left corner of the room (width, height). A label is moved to the best of
    some places given the others, again and again, by the cost of what lies under it, in shares of its area or width.
    """
    outside, on_name, on_node, near_another, on_line = 100.0, 30.0, 10.0, 4.0, 3.0
    samples, lengths = _sample_lines(lines)
    discs = _boxes(nodes, np.array([2 * radius, 2 * radius]))
    offsets, candidates, costs = [], [], []
    for node, size in zip(labelled, sizes, strict=True):
        places, cost = _places_around(size, radius)
        boxes = _boxes(nodes[node] + places, size)
        # Most points of a large graph are far off, and comparing them all with every place would take seconds.
        is_near = _holds(np.array([[*boxes[:, :2].min(0), *boxes[:, 2:].max(0)]]), samples)[0]
        cost += outside * (1 - _overlap(boxes, np.array([[0.0, 0.0, *room]]))[:, 0] / size.prod())
        cost += on_node * _overlap(boxes, discs).sum(1) / (2 * radius) ** 2
        cost += on_line * (_holds(boxes, samples[is_near]) * lengths[is_near]).sum(1) / size[0]
        cost += near_another * _is_near_another(boxes, nodes, node)
        offsets.append(places)
        candidates.append(boxes)
        costs.append(cost)
    chosen = [int(cost.argmin()) for cost in costs]
    placed = np.array([boxes[place] for boxes, place in zip(candidates, chosen, strict=True)])
    for _ in range(4):  # they settle in two or three sweeps
        before = list(chosen)
        for label, boxes in enumerate(candidates):
            covered = _overlap(boxes, np.delete(placed, label, axis=0)).sum(1) / sizes[label].prod()
            chosen[label] = int((costs[label] + on_name * covered).argmin())
            placed[label] = boxes[chosen[label]]
        if chosen == before:
            break
    leaders = [
        np.stack([np.clip(nodes[node], box[:2], box[2:]), nodes[node]])
        for node, box in zip(labelled, placed, strict=True)
        # By two points it has to be nearer to its own node to be taken for its name.
        if _is_near_another(box[None], nodes, node, margin=2.0)[0]
    ]
    return np.array([places[place] for places, place in zip(offsets, chosen, strict=True)]), leaders


def _places_around(size: FloatArray, radius: float) -> tuple[FloatArray, FloatArray]:
    """Places around a node, above it first, close by and up to three lines off, and what speaks against each."""
    (width, height), places, costs = size, [], []
    for n_lines in range(4):
        further = n_lines * height
        x, y = radius + width / 2 + further, radius + height / 2 + further
        aside, slant = width / 2 + 0.7 * (radius + further), height / 2 + 0.7 * (radius + further)
        around = [(0, y), (0, -y), (x, 0), (-x, 0), (aside, slant), (-aside, slant), (aside, -slant), (-aside, -slant)]
        around += [(width / 4, y), (-width / 4, y), (width / 4, -y), (-width / 4, -y)]
        places += around
        # Among equally free places the one above is the usual one; a place further off is worse than a thin edge.
        costs += [1.5 * n_lines + 0.3 * bool(rank) for rank in range(len(around))]
    return np.array(places), np.array(costs)


def _sample_lines(lines: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Points on all lines, a few points apart, and the length that each stands for."""
    points, lengths = [np.empty((0, 2))], [np.empty(0)]
    fractions = (np.arange(4) + 0.5)[:, None, None] / 4
    for line in lines:
        points.append((line[:-1] + fractions * np.diff(line, axis=0)).reshape(-1, 2))
        lengths.append(np.tile(np.linalg.norm(np.diff(line, axis=0), axis=1) / 4, 4))
    return np.concatenate(points), np.concatenate(lengths)


def _is_near_another(boxes: FloatArray, nodes: FloatArray, node: int, margin: float = 0.0) -> Any:
    """Which boxes are not nearer to a node than to all others, by a margin; (n_boxes,)."""
    distances = np.linalg.norm(np.clip(nodes, boxes[:, None, :2], boxes[:, None, 2:]) - nodes, axis=-1)
    own = distances[:, node].copy()
    distances[:, node] = np.inf
    return distances.min(1) <= own + margin


def _boxes(centres: FloatArray, size: FloatArray) -> FloatArray:
    """Left, bottom, right and top; (n, 4)."""
    return np.concatenate([centres - size / 2, centres + size / 2], axis=1)


def _overlap(first: FloatArray, second: FloatArray) -> FloatArray:
    """Areas that boxes share, (n_first, n_second)."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(-1))


def _holds(boxes: FloatArray, points: FloatArray) -> Any:
    """Which points lie in which box, (n_boxes, n_points)."""
    return ((points >= boxes[:, None, :2]) & (points <= boxes[:, None, 2:])).all(-1)
