"""Where the names beside nodes go: off other names, nodes and edges as far as there is room, and inside the axes.

A name that there is room for only nearer to another node is joined to its own by a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._utils._numbers import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Picture", "fit_picture", "label_sizes", "leader_lines", "place_labels"]

_N_SWEEPS = 4  # of all names, each moved to its best place given the others; they settle in two or three
# What lies under a name, in shares of the name's area or width: leaving the picture or lying on another name makes it
# illegible, covering a node is nearly as bad, and an edge that passes beneath the plate costs little.
_OUTSIDE, _ON_NAME, _ON_NODE, _ON_EDGE = 100.0, 30.0, 10.0, 3.0
# Among equally free places the one above a node is the usual one, and a place further off is worse than a thin edge.
_UNUSUAL, _FURTHER = 0.3, 1.5
# A name that is nearer to another node needs a line to its own, which is worse than being crossed by an edge.
_NEAR_ANOTHER = 4.0
_MARGIN = 2.0  # points by which a name has to be nearer to its own node to be taken for its name


class Picture(NamedTuple):
    """Axes whose scale is settled, in points from the lower left corner."""

    positions: FloatArray  # (n_nodes, 2)
    size: FloatArray  # (2,), width and height
    scale: float  # points for a unit of the data
    origin: FloatArray  # (2,), the data at the lower left corner

    def points(self, data: FloatArray) -> FloatArray:
        """Data as points."""
        return np.asarray((data - self.origin) * self.scale)

    def data(self, points: FloatArray) -> FloatArray:
        """Points as data."""
        return np.asarray(points / self.scale + self.origin)


def label_sizes(labels: Sequence[str], font_size: float) -> FloatArray:
    """Width and height of each label in points, as drawn; (n_labels, 2)."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font, ruler = FontProperties(size=font_size), TextToPath()
    widths = [ruler.get_text_width_height_descent(label, font, ismath=False)[0] for label in labels]
    # matplotlib makes every line as high as "lp", whatever letters it holds.
    _, height, _ = ruler.get_text_width_height_descent("lp", font, ismath=False)
    return np.column_stack([widths, np.full(len(widths), height)])


def fit_picture(ax: Axes, positions: FloatArray, margin: FloatArray) -> Picture:
    """Scale the nodes so that they fill the axes but for a margin (width, height) in points, and fix the limits."""
    size = _room(ax)
    margin = np.minimum(margin, 0.35 * size)
    low, high = positions.min(0), positions.max(0)
    extent = np.maximum(high - low, 1e-9 * max(1.0, float(np.abs(positions).max())))
    scale = float(((size - 2 * margin) / extent).min())
    origin = (low + high) / 2 - size / 2 / scale
    end = origin + size / scale
    ax.set(xlim=(origin[0], end[0]), ylim=(origin[1], end[1]))
    return Picture((positions - origin) * scale, size, scale, origin)


def _room(ax: Any) -> FloatArray:
    """Width and height in points that the axes have once the figure is laid out."""
    # Equal scales would shrink the axes to the shape of the data, and everything beneath them would move.
    ax.set_aspect("auto")
    ax.figure.figure.draw_without_rendering()  # the figure of a subfigure is the whole one
    box = ax.get_position(original=True).transformed(ax.figure.transSubfigure)
    return np.array([box.width, box.height], dtype=np.float64) * (72 / float(ax.figure.dpi))


def place_labels(
    picture: Picture, labelled: Sequence[int], sizes: FloatArray, radius: float, lines: Sequence[FloatArray]
) -> FloatArray:
    """Centres of labels relative to their nodes, in points; (n_labels, 2).

    Parameters
    ----------
    picture : Picture
        The nodes.
    labelled : sequence of int
        The node of each label.
    sizes : ndarray of shape (n_labels, 2)
        Width and height of each label in points.
    radius : float
        Radius of a node in points.
    lines : sequence of ndarray of shape (n, 2)
        The curves that edges are drawn as, in points.
    """
    anchors = picture.positions[list(labelled)]
    samples, lengths = _along(lines)
    offsets = [_offsets(width, height, radius) for width, height in sizes]
    fixed = []
    for node, anchor, size, (places, reluctance) in zip(labelled, anchors, sizes, offsets, strict=True):
        boxes = _boxes(anchor + places, size)
        on_node = _overlap(boxes, _boxes(picture.positions, np.array([2 * radius, 2 * radius]))).sum(1)
        inside = _overlap(boxes, np.array([[0.0, 0.0, *picture.size]]))[:, 0]
        # Most points of a large graph are far off, and comparing them all with every place would take seconds.
        is_near = _holds(np.array([[*boxes[:, :2].min(0), *boxes[:, 2:].max(0)]]), samples)[0]
        on_edge = (_holds(boxes, samples[is_near]) * lengths[is_near]).sum(1)
        area, width = size.prod(), size[0]
        cost = _OUTSIDE * (1 - inside / area) + _ON_NODE * on_node / (2 * radius) ** 2 + _ON_EDGE * on_edge / width
        fixed.append(cost + reluctance + _NEAR_ANOTHER * _is_near_another(boxes, picture.positions, node))
    chosen = _settle(anchors, sizes, [places for places, _ in offsets], fixed)
    return np.array([places[place] for (places, _), place in zip(offsets, chosen, strict=True)])


def leader_lines(picture: Picture, labelled: Sequence[int], sizes: FloatArray, offsets: FloatArray) -> list[FloatArray]:
    """Lines (2, 2) in points from labels to their nodes, of those labels that are nearer, or nearly, to another node.

    The arguments are those of `place_labels`, and the offsets that it returned.
    """
    lines = []
    for node, size, offset in zip(labelled, sizes, offsets, strict=True):
        anchor = picture.positions[node]
        box = _boxes(anchor + offset, size)
        if _is_near_another(box, picture.positions, node, _MARGIN)[0]:
            lines.append(np.stack([np.clip(anchor, box[0, :2], box[0, 2:]), anchor]))
    return lines


def _is_near_another(boxes: FloatArray, positions: FloatArray, node: int, margin: float = 0.0) -> Any:
    """Which boxes are not nearer to a node than to all others, by a margin; (n_boxes,)."""
    nearest = np.clip(positions, boxes[:, None, :2], boxes[:, None, 2:])
    distances = np.linalg.norm(nearest - positions, axis=-1)
    own = distances[:, node].copy()
    distances[:, node] = np.inf
    return distances.min(1) <= own + margin


def _settle(
    anchors: FloatArray, sizes: FloatArray, offsets: Sequence[FloatArray], fixed: Sequence[FloatArray]
) -> list[int]:
    """The place of each label: the best one by itself, then again and again the best one given the others."""
    chosen = [int(cost.argmin()) for cost in fixed]
    boxes = np.array(
        [
            _boxes(anchor + places[place], size)[0]
            for anchor, places, place, size in zip(anchors, offsets, chosen, sizes, strict=True)
        ]
    )
    for _ in range(_N_SWEEPS):
        before = list(chosen)
        for label, (anchor, places, size) in enumerate(zip(anchors, offsets, sizes, strict=True)):
            candidates = _boxes(anchor + places, size)
            others = np.delete(boxes, label, axis=0)
            cost = fixed[label] + _ON_NAME * _overlap(candidates, others).sum(1) / size.prod()
            chosen[label] = int(cost.argmin())
            boxes[label] = candidates[chosen[label]]
        if chosen == before:
            break
    return chosen


def _offsets(width: float, height: float, radius: float) -> tuple[FloatArray, FloatArray]:
    """Places around a node, above it first, close by and up to three lines off, and what speaks against each."""
    places, reluctance = [], []
    for n_lines in range(4):
        further = n_lines * height
        x, y = radius + width / 2 + further, radius + height / 2 + further
        aside, slant = width / 2 + 0.7 * (radius + further), height / 2 + 0.7 * (radius + further)
        around = [(0, y), (0, -y), (x, 0), (-x, 0), (aside, slant), (-aside, slant), (aside, -slant), (-aside, -slant)]
        around += [(width / 4, y), (-width / 4, y), (width / 4, -y), (-width / 4, -y)]
        places += around
        reluctance += [_FURTHER * n_lines + _UNUSUAL * bool(rank) for rank in range(len(around))]
    return np.array(places), np.array(reluctance)


def _along(lines: Sequence[FloatArray]) -> tuple[FloatArray, FloatArray]:
    """Points on all lines, a few points apart, and the length that each stands for."""
    points, lengths = [np.empty((0, 2))], [np.empty(0)]
    for line in lines:
        steps = np.linalg.norm(np.diff(line, axis=0), axis=1)
        fractions = (np.arange(4) + 0.5)[:, None, None] / 4
        points.append((line[:-1] + fractions * np.diff(line, axis=0)).reshape(-1, 2))
        lengths.append(np.tile(steps / 4, 4))
    return np.concatenate(points), np.concatenate(lengths)


def _boxes(centres: FloatArray, size: FloatArray) -> FloatArray:
    """Left, bottom, right and top; (n, 4)."""
    centres = np.atleast_2d(centres)
    return np.concatenate([centres - size / 2, centres + size / 2], axis=1)


def _overlap(first: FloatArray, second: FloatArray) -> FloatArray:
    """Areas that boxes share, (n_first, n_second)."""
    low = np.maximum(first[:, None, :2], second[None, :, :2])
    high = np.minimum(first[:, None, 2:], second[None, :, 2:])
    return np.asarray(np.clip(high - low, 0, None).prod(-1))


def _holds(boxes: FloatArray, points: FloatArray) -> Any:
    """Which points lie in which box, (n_boxes, n_points)."""
    return ((points >= boxes[:, None, :2]) & (points <= boxes[:, None, 2:])).all(-1)
