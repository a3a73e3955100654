"""Display of the graph as nodes and edges."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._utils._numbers import FloatArray
from ._checks import (
    check_choice,
    check_color,
    check_flags,
    check_linestyle,
    check_mapping,
    check_marker,
    check_names,
    check_number,
    check_seed,
    check_text,
)
from ._identified_graph import IdentifiedGraphDisplay, Pairs
from ._labels import fit_picture, label_sizes, leader_lines, place_labels
from ._layout import edge_curves, lay_out, read_positions
from ._names import LITERAL, drawable
from ._signal import Signal, check_signal
from ._strengths import NEGATIVE_LINE, strength_widths, usual_strengths
from ._style import BLACK, BLUE, GREY, PALE_GREY, PURPLE, VERMILLION, axes_or_new, needs_matplotlib

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.colorbar import Colorbar

__all__ = ["GraphDisplay"]

# How each kind of edge looks, from the bottom of the picture to its top. Where the width is None, the probability sets
# it. Line styles and the mark say the same as the colours, for print in grey and for colour-blind readers.
_STYLES: dict[str, dict[str, Any]] = {
    "unknown": {"label": "unknown pair", "color": PALE_GREY, "linewidth": 0.4, "linestyle": "-"},
    "known": {"label": "known edge", "color": GREY, "linewidth": 1.4, "linestyle": "-"},
    "missed": {"label": "missed edge", "color": VERMILLION, "linewidth": 2.0, "linestyle": (0, (2.5, 1.5))},
    "inferred": {"label": "inferred edge", "color": BLUE, "linewidth": None, "linestyle": "-"},
    "found": {"label": "found edge", "color": BLUE, "linewidth": None, "linestyle": "-"},
    "false": {"label": "false edge", "color": PURPLE, "linewidth": None, "linestyle": "-", "marker": "X"},
}

_LONGEST_NAME_INSIDE = 3  # of the usual size, a node holds so many characters
_FONT_SIZE = 8.0
_NECK = 4  # the point of a curve, of 25, from which its head takes the direction
_SIDES = (5.0, 10.0)  # inches
_SHARE_OF_NAMES = 0.1  # of the area
_SMALLEST_COLOURED = 60.0  # square points: of smaller discs the colour is hard to tell
_DISC = 18.0  # points; a node that holds its name
_PADDING = 2.0  # points that a name keeps free, half of them on either side


class GraphDisplay(IdentifiedGraphDisplay):
    """Graph with inferred edges in colour.

    Known edges are grey. Inferred edges are coloured; more probable edges are wider. If edges have strengths, the
    widths of all edges show these instead, and negative strengths are dotted. If the true graph is given, missed edges
    are dashed, and a cross marks false ones. An edge that would run through a third node is drawn as an arc. In a
    directed graph edges are arrows, and two edges between the same nodes are arcs.

    Parameters
    ----------
    edge_probabilities : ndarray of shape (n_nodes, n_nodes)
        Probability of every edge, shown as the width of inferred edges.
    adjacency : ndarray of shape (n_nodes, n_nodes)
        The identified graph, whose edges are drawn.
    known : KnownEdges
        The known pairs; known edges are grey.
    true_adjacency : ndarray of shape (n_nodes, n_nodes), default=None
        The true graph; if given, missed edges are drawn too.
    node_names : sequence, default=None
        Names of the nodes. If None, their indices.
    weights : ndarray of shape (n_nodes, n_nodes), default=None
        Strengths of the edges. Widths of edges grow with the square root of the strength, up to a limit.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the graph.
    figure_ : matplotlib Figure
        Figure containing the axes.
    positions_ : ndarray of shape (n_nodes, 2)
        Positions of the nodes; pass them as `pos` to draw another graph in the same layout.
    edges_ : dict of str to LineCollection
        The edges by kind: "known", and "inferred", or "found", "missed" and "false"; "unknown" if shown.
    arrows_ : dict of str to list of FancyArrowPatch
        The arrowheads of a directed graph, by kind of edge; empty for an undirected graph.
    nodes_ : PathCollection
        The nodes.
    leaders_ : LineCollection or None
        Lines from names to their nodes, where a name stands nearer to another node; None if there are none.
    colorbar_ : matplotlib Colorbar or None
        The scale of `node_values`, if these are drawn.

    See Also
    --------
    AdjacencyDisplay : The same graph as a matrix, which shows the probability of every pair.

    Examples
    --------
    >>> import matplotlib, networkx as nx
    >>> matplotlib.use("Agg")  # draws into memory; leave it out to see the picture
    >>> from sklearn_graphid import LangevinSystemIdentifier
    >>> from sklearn_graphid.datasets import hide_edges, make_system
    >>> from sklearn_graphid.plotting import GraphDisplay
    >>> ring = nx.to_numpy_array(nx.cycle_graph(8))
    >>> X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=20, random_state=0)
    >>> known = hide_edges(ring, fraction=0.5, random_state=0)
    >>> identifier = LangevinSystemIdentifier("heat", random_state=0).fit(X, Y, known)
    >>> display = GraphDisplay.from_estimator(identifier, true_adjacency=ring)
    >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
    ['known edge (4)', 'found edge (4)']
    """

    @needs_matplotlib
    def plot(
        self,
        ax: Axes | None = None,
        *,
        pos: Any = None,
        layout: str | Callable[[nx.Graph], Mapping[Any, Any]] = "kamada_kawai",
        random_state: int | None = 0,
        node_labels: bool | str = False,
        node_size: float | None = None,
        node_values: Any = None,
        value_range: tuple[float, float] | None = None,
        value_label: str | None = None,
        show_unknown: bool = False,
        styles: Mapping[str, Mapping[str, Any]] | None = None,
        legend: bool = True,
    ) -> Self:
        """Draw the graph.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is created.
        pos : array-like of shape (n_nodes, 2) or mapping from node names to pairs of numbers, default=None
            Positions of the nodes. If None, `layout` determines them.
        layout : {"kamada_kawai", "spring", "spectral", "circular"} or callable, default="kamada_kawai"
            Layout of the nodes if `pos` is None. A callable takes a networkx.Graph with the nodes 0, 1, ... and returns
            a mapping from these to positions.
        random_state : int or None, default=0
            Seed of the "spring" layout.
        node_labels : bool or "inferred", default=False
            Whether to write the names of the nodes: inside the nodes, or beside them if a name has more than three
            characters. "inferred" names only the ends of inferred edges; if the true graph is given, those of found,
            false and missed edges.
        node_size : float, default=None
            Area of a node in square points. If None, it is smaller the more nodes there are.
        node_values : array-like of shape (n_nodes,), default=None
            A signal, shown as the colours of the nodes, with a scale beside the graph. nan leaves a node white, for
            example because it was not measured.
        value_range : pair of float, default=None
            Values at the ends of the scale, to make several figures comparable. If None, the range of `node_values`.
        value_label : str, default=None
            Label of the scale.
        show_unknown : bool, default=False
            Whether to draw every unknown pair as a hairline.
        styles : mapping from str to dict, default=None
            Changes to the style of a kind of edge (see `edges_`): "color", "linewidth", "linestyle", "marker" and
            "label". A line width of None follows the probability or the strength.
        legend : bool, default=True
            Whether to explain the kinds of edges below the graph.

        Returns
        -------
        GraphDisplay
            The display itself.
        """
        check_flags(show_unknown=show_unknown, legend=legend)
        if not isinstance(node_labels, bool | np.bool_):
            check_choice(node_labels, "node_labels", ("inferred",), "a bool")
        if node_size is not None:
            check_number(node_size, "node_size", "an area of 0 or more square points, or None", lambda area: area >= 0)
        check_text(value_label, "value_label")
        graph = self._graph()
        signal = check_signal(node_values, value_range, graph.n_nodes)
        edges = {kind: pairs for kind, pairs in graph.edges().items() if kind != "unknown" or show_unknown}
        looks = _merged_styles(styles, has_strengths=self.weights is not None)
        numbers = range(graph.n_nodes)
        names = check_names(numbers if self.node_names is None else self.node_names, len(numbers), "node_names", "node")
        seed = check_seed(random_state)
        positions = lay_out(graph, layout, seed) if pos is None else read_positions(pos, names, "pos")
        labels = {node: drawable(names[node]) for node in _labelled(node_labels, edges, len(names))}
        side = _side_for(list(labels.values()))
        self.ax_, self.figure_ = axes_or_new(ax, (side, side + 0.4 * legend))
        self.positions_ = positions
        drawn = [kind for kind in looks if len(edges.get(kind, ()))]
        bent = _joined_twice(edges[kind] for kind in drawn if kind != "unknown")
        curves = {kind: edge_curves(positions, edges[kind], straight=kind == "unknown", bent=bent) for kind in drawn}
        self.edges_ = {kind: self._draw_edges(kind, edges[kind], curves[kind], looks[kind]) for kind in drawn}
        self.ax_.margins(0.05)
        self.ax_.set_axis_off()
        if legend:
            self._draw_legend(edges, looks)
        self.colorbar_: Colorbar | None = None
        self.leaders_: LineCollection | None = None
        self._draw_nodes(labels, node_size, signal)
        if self.colorbar_ is not None:
            self.colorbar_.set_label(value_label or "", **LITERAL)
        self.ax_.set_aspect("equal")
        self.arrows_ = {}
        if graph.directed:
            self.arrows_ = {
                kind: self._draw_heads(edges[kind], curves[kind], self.edges_[kind])
                for kind in drawn
                if kind != "unknown"
            }
        return self

    def _draw_heads(self, pairs: Pairs, curves: list[FloatArray], lines: Any) -> list[Any]:
        """A head at the end of each curve, where the disc of the target begins."""
        from matplotlib.patches import FancyArrowPatch

        radii = np.sqrt(self.nodes_.get_sizes()) / 2  # in points
        widths = np.broadcast_to(lines.get_linewidths(), len(pairs))
        heads = []
        for (target, _), curve, width in zip(pairs, curves, widths, strict=True):
            # A curve starts at its row, which receives.
            head = FancyArrowPatch(
                tuple(curve[_NECK]),
                tuple(curve[0]),
                arrowstyle="-|>",
                mutation_scale=8 + 4 * width,
                linewidth=0,
                color=lines.get_colors()[0],
                shrinkA=0,
                shrinkB=radii[target if len(radii) > 1 else 0],
                zorder=lines.get_zorder() + 0.05,
            )
            heads.append(self.ax_.add_patch(head))
        return heads

    def _draw_edges(self, kind: str, pairs: Pairs, curves: list[FloatArray], look: Mapping[str, Any]) -> Any:
        from matplotlib.collections import LineCollection

        drawing_order = list(_STYLES).index(kind)
        lines = LineCollection(
            curves,
            colors=look["color"],
            linestyles=self._linestyles(pairs, look["linestyle"]),
            linewidths=self._widths(pairs) if look["linewidth"] is None else look["linewidth"],
            capstyle="butt" if kind == "missed" else "round",
            zorder=1 + 0.1 * drawing_order,
            label=look["label"],
        )
        self.ax_.add_collection(lines)
        if look.get("marker"):
            x, y = np.array([curve[len(curve) // 2] for curve in curves]).T
            mark = {"marker": look["marker"], "color": look["color"], "edgecolor": "black", "linewidth": 0.8}
            self.ax_.scatter(x, y, s=70, zorder=4, **mark)
        return lines

    def _linestyles(self, pairs: Pairs, linestyle: Any) -> list[Any]:
        if self.weights is None:
            return [linestyle]
        is_negative = self.weights[tuple(pairs.T)] < 0
        return [NEGATIVE_LINE if negative else linestyle for negative in is_negative]

    def _widths(self, pairs: Pairs) -> FloatArray:
        if self.weights is not None:
            return strength_widths(self.weights[tuple(pairs.T)], self._strengths())
        # Even odds are a little wider than a known edge, and certainty is twice as wide again.
        widths: FloatArray = np.clip(4 * self.edge_probabilities[tuple(pairs.T)] - 0.4, 0.8, None)
        return widths

    def _draw_nodes(self, labels: Mapping[int, str], node_size: float | None, signal: Signal | None) -> None:
        """Full discs, coloured by the signal if there is one; those that hold their name are larger and empty."""
        fit_inside = signal is None and max(map(len, labels.values()), default=0) <= _LONGEST_NAME_INSIDE
        is_open = np.isin(np.arange(len(self.positions_)), list(labels)) & fit_inside
        full_size = float(np.clip(2500 / max(1, len(self.positions_)), 12, 120))
        sizes = np.where(is_open, 260.0, full_size) if node_size is None else np.full(len(is_open), node_size)
        faces = np.where(is_open, "white", "#444444")
        edges = np.where(is_open, "#444444", "white")
        x, y = self.positions_.T
        if signal is None:
            self.nodes_ = self.ax_.scatter(x, y, s=sizes, c=faces, edgecolor=edges, linewidth=0.8, zorder=3)
        else:
            if node_size is None:
                sizes = np.full(len(is_open), max(full_size, _SMALLEST_COLOURED))
            self.nodes_ = self.ax_.scatter(x, y, s=sizes, edgecolor=BLACK, linewidth=0.8, zorder=3, **signal.colours())
            # Before names are placed, as it takes room.
            self.colorbar_ = self.figure_.colorbar(self.nodes_, ax=self.ax_, fraction=0.045, pad=0.02, shrink=0.7)
        if fit_inside or not labels:
            offsets = np.zeros((len(labels), 2))
            look: dict[str, Any] = {"zorder": 5}
        else:
            offsets = self._places_beside(labels, math.sqrt(sizes[0]) / 2)
            # On a plate that keeps edges from running through the letters, but does not hide another node.
            plate = {"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
            look = {"zorder": 2.5, "bbox": plate}
        look |= {"ha": "center", "va": "center", "textcoords": "offset points", "fontsize": _FONT_SIZE}
        for (node, label), offset in zip(labels.items(), offsets, strict=True):
            self.ax_.annotate(label, self.positions_[node], xytext=tuple(offset), **LITERAL, **look)

    def _places_beside(self, labels: Mapping[int, str], radius: float) -> FloatArray:
        sizes = label_sizes(list(labels.values()), _FONT_SIZE) + _PADDING
        # Room for a name beside, above and beneath the nodes at the border of the picture.
        margin = np.array([sizes[:, 0].max() / 2, sizes[:, 1].max() + radius]) + radius
        picture = fit_picture(self.ax_, self.positions_, margin)
        shown = [lines for kind, lines in self.edges_.items() if kind != "unknown"]
        lines = [picture.points(np.asarray(curve)) for kind in shown for curve in kind.get_segments()]
        offsets = place_labels(picture, list(labels), sizes, radius, lines)
        leaders = [picture.data(line) for line in leader_lines(picture, list(labels), sizes, offsets)]
        if leaders:
            from matplotlib.collections import LineCollection

            # Above the edges and the plates of other names, beneath the nodes.
            self.leaders_ = LineCollection(leaders, colors=BLACK, linewidths=0.6, zorder=2.6)
            self.ax_.add_collection(self.leaders_, autolim=False)
        return offsets

    def _draw_legend(self, edges: Mapping[str, Pairs], looks: Mapping[str, Mapping[str, Any]]) -> None:
        from matplotlib.lines import Line2D

        handles = []
        for kind in self.edges_:
            look = dict(looks[kind])
            label = f"{look.pop('label')} ({len(edges[kind])})"
            # Hairlines would vanish here, and where widths differ a wide one stands for all.
            width = max(1.0, look.pop("linewidth") or 3.2)
            handles.append(Line2D([], [], label=label, linewidth=width, markeredgecolor="black", markersize=8, **look))
        strengths = self._strength_handles()
        # Blanks, so that strengths have a column of their own.
        handles += [Line2D([], [], linestyle="none", label=" ")] * (len(strengths) - len(handles))
        handles += strengths
        if handles:
            place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.02), "ncols": 2}
            self.ax_.legend(handles=handles, frameon=False, handlelength=2.6, **place)

    def _strength_handles(self) -> list[Any]:
        from matplotlib.lines import Line2D

        strengths = self._strengths()
        if not strengths.size:
            return []
        sizes = np.array(usual_strengths(strengths))
        widths = strength_widths(sizes, strengths)
        handles = [
            Line2D([], [], color=BLACK, linewidth=width, label=f"strength {size:g}")
            for size, width in zip(sizes, widths, strict=True)
        ]
        if (strengths < 0).any():
            dots: dict[str, Any] = {"linestyle": NEGATIVE_LINE, "dash_capstyle": "round", "linewidth": 3.0}
            handles.append(Line2D([], [], color=BLACK, label="strength below zero", **dots))
        return handles


def _side_for(labels: list[str]) -> float:
    """Inches of a new figure's side, in which names take up no more than a share of the area."""
    if not labels:
        return _SIDES[0]
    widths, heights = (label_sizes(labels, _FONT_SIZE) + _PADDING).T
    if max(map(len, labels)) <= _LONGEST_NAME_INSIDE:
        widths = heights = np.full(len(labels), _DISC)
    return float(np.clip(math.sqrt((widths * heights).sum() / _SHARE_OF_NAMES) / 72, *_SIDES))


def _joined_twice(kinds: Iterable[Pairs]) -> set[tuple[int, int]]:
    """Pairs whose nodes are joined in both directions, which only those of a directed graph are."""
    pairs = {(int(i), int(j)) for kind in kinds for i, j in kind}
    return {(i, j) for i, j in pairs if (j, i) in pairs}


def _labelled(node_labels: bool | str, edges: Mapping[str, Pairs], n_nodes: int) -> list[int]:
    """The nodes whose names are written."""
    if node_labels == "inferred":
        ends = [edges[kind].ravel() for kind in ("inferred", "found", "false", "missed") if kind in edges]
        return [int(node) for node in np.unique(np.concatenate(ends))]
    return list(range(n_nodes)) if node_labels else []


def _check_linewidth(value: Any, name: str) -> None:
    if value is not None:  # which lets the probability or the strength set it
        check_number(value, name, "a width of 0 or more points, or None", lambda width: width >= 0)


def _check_marker_or_none(value: Any, name: str) -> None:
    if value is not None:
        check_marker(value, name)


_CHECKS: dict[str, Callable[[Any, str], None]] = {
    "color": check_color,
    "linewidth": _check_linewidth,
    "linestyle": check_linestyle,
    "marker": _check_marker_or_none,
    "label": check_text,
}


def _merged_styles(
    changes: Mapping[str, Mapping[str, Any]] | None, has_strengths: bool = False
) -> dict[str, dict[str, Any]]:
    changes = {} if changes is None else changes
    check_mapping(changes, "styles", "a mapping from a kind of edge to a dict, or None")
    for kind, change in changes.items():
        if kind not in _STYLES:
            raise ValueError(f"styles names {kind!r}; expected kinds of edges among {', '.join(_STYLES)}.")
        name = f"styles[{kind!r}]"
        check_mapping(change, name, f"a dict with any of {', '.join(_CHECKS)}")
        for key, value in change.items():
            if key not in _CHECKS:
                raise ValueError(f"{name} has the key {key!r}; expected any of {', '.join(_CHECKS)}.")
            _CHECKS[key](value, f"{name}[{key!r}]")
    usual = {**_STYLES, "known": {**_STYLES["known"], "linewidth": None}} if has_strengths else _STYLES
    return {kind: {**look, **changes.get(kind, {})} for kind, look in usual.items()}
