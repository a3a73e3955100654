"""Displays of the graph as nodes and edges, and of the information expected from an input at each node."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._utils._numbers import FloatArray, check_flag, check_integer, check_number
from ._base import (
    BLUE,
    GREY,
    LITERAL,
    PALE_GREY,
    PURPLE,
    VERMILLION,
    Display,
    IdentifiedGraphDisplay,
    Pairs,
    check_array,
    check_choice,
    check_look,
    check_mapping,
    check_names,
    check_text,
    drawable,
    label_sizes,
    panels_on,
)
from ._layout import edge_curves, lay_out, place_labels, read_positions

if TYPE_CHECKING:
    import networkx as nx
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.colorbar import Colorbar

__all__ = ["GraphDisplay", "InformationDisplay"]

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
# Dots, as round ends of no length: neither colour nor grey takes them for the dashes of a missed edge.
_NEGATIVE_LINE: Any = (0, (0.01, 1.8))
_LONGEST_NAME_INSIDE = 3  # of the usual size, a node holds so many characters
_FONT_SIZE = 8.0
_PADDING = 2.0  # points that a name keeps free, half of them on either side


class GraphDisplay(IdentifiedGraphDisplay):
    """Graph with inferred edges in colour.

    Known edges are grey. Inferred edges are coloured; more probable edges are wider. If edges have strengths, the
    widths of all edges show these instead, and negative strengths are dotted. If the true graph is given, missed edges
    are dashed, and a cross marks false ones. An edge that would run through a third node is drawn as an arc. In a
    directed graph edges are arrows, and two edges between the same nodes are arcs.

    Parameters
    ----------
    edge_probabilities : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes)
        Probability of every edge, or zeros and ones.
    known : KnownEdges or array of shape (n_nodes, n_nodes), default=None
        The known pairs: a `KnownEdges`, an array with 0, 1 and nan where unknown, or a boolean array (True = known).
        If None, nothing is known.
    adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
        The identified graph. If None, its edges are the pairs whose probability is above one half.
    true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
        The true graph, to mark found, missed and false edges.
    node_names : sequence, default=None
        Names of the nodes. If None, their indices.
    weights : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
        Strengths of the edges; entries of other pairs are ignored.
    directed : bool or None, default=None
        Whether the graph is directed. If None, as `known` is.

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

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid.datasets import hide_edges
    >>> from sklearn_graphid.plotting import GraphDisplay
    >>> ring = nx.to_numpy_array(nx.cycle_graph(8))
    >>> known = hide_edges(ring, fraction=0.5, random_state=0)
    >>> display = GraphDisplay.from_predictions(0.9 * ring, known, true_adjacency=ring)
    >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
    ['known edge (4)', 'found edge (4)']
    """

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
        """
        check_flag(show_unknown, "show_unknown")
        check_flag(legend, "legend")
        if not isinstance(node_labels, bool | np.bool_):
            check_choice(node_labels, "node_labels", ("inferred",), "a bool")
        if node_size is not None:
            check_number(node_size, "node_size", low=0)
        if random_state is not None:
            random_state = check_integer(random_state, "random_state", low=0, high=2**32 - 1)
        check_text(value_label, "value_label")
        n_nodes = len(self.adjacency)
        signal = _signal_look(node_values, value_range, n_nodes)
        looks = _merged_styles(styles, has_strengths=self.weights is not None)
        names = check_names(self.node_names, n_nodes)
        if pos is not None:
            self.positions_ = read_positions(pos, names, "pos")
        else:  # by all edges that are or should be there, so that a missed one does not change the picture
            truth = 0.0 if self.true_adjacency is None else self.true_adjacency
            self.positions_ = lay_out(self.adjacency + truth, layout, random_state)
        edges = {kind: pairs for kind, pairs in self._edges().items() if kind != "unknown" or show_unknown}
        labelled = np.arange(n_nodes if node_labels else 0)
        if node_labels == "inferred":
            shown = [pairs.ravel() for kind, pairs in edges.items() if kind not in ("unknown", "known")]
            labelled = np.unique(np.concatenate(shown))
        labels = {node: drawable(names[node]) for node in labelled.tolist()}
        side = _side_for(list(labels.values()))
        (self.ax_,), self.figure_ = panels_on(ax, 1, (side, side + 0.4 * legend))
        edges = {kind: edges[kind] for kind in looks if len(edges.get(kind, ()))}
        curves = self._draw_edges(edges, looks)
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
        if self.directed:
            self.arrows_ = {kind: self._draw_heads(kind, edges[kind], curves[kind]) for kind in edges}
            self.arrows_.pop("unknown", None)
        return self

    def _draw_edges(
        self, edges: Mapping[str, Pairs], looks: Mapping[str, Mapping[str, Any]]
    ) -> dict[str, list[FloatArray]]:
        from matplotlib.collections import LineCollection

        drawn = {tuple(pair) for kind, pairs in edges.items() if kind != "unknown" for pair in pairs.tolist()}
        bent = {(i, j) for i, j in drawn if (j, i) in drawn}  # two edges of a directed graph
        self.edges_, all_curves = {}, {}
        for kind, pairs in edges.items():
            look, strengths = looks[kind], None if self.weights is None else self.weights[tuple(pairs.T)]
            widths, linestyles = look["linewidth"], [look["linestyle"]]
            if widths is None:
                # Even odds are a little wider than a known edge, and certainty is twice as wide again.
                widths = np.clip(4 * self.edge_probabilities[tuple(pairs.T)] - 0.4, 0.8, None)
                widths = widths if strengths is None else self._strength_widths(strengths)
            if strengths is not None:
                linestyles = [_NEGATIVE_LINE if strength < 0 else look["linestyle"] for strength in strengths]
            curves = all_curves[kind] = edge_curves(self.positions_, pairs, straight=kind == "unknown", bent=bent)
            lines = self.edges_[kind] = LineCollection(
                curves,
                colors=look["color"],
                linestyles=linestyles,
                linewidths=widths,
                capstyle="butt" if kind == "missed" else "round",
                zorder=1 + 0.1 * list(_STYLES).index(kind),
                label=look["label"],
            )
            self.ax_.add_collection(lines)
            if look.get("marker"):
                x, y = np.array([curve[len(curve) // 2] for curve in curves]).T
                mark = {"marker": look["marker"], "color": look["color"], "edgecolor": "black", "linewidth": 0.8}
                self.ax_.scatter(x, y, s=70, zorder=4, **mark)
        return all_curves

    def _strength_widths(self, strengths: FloatArray) -> FloatArray:
        """Widths in points: they grow with the root of a strength's size, the median of all being two points wide."""
        usual = np.median(np.abs(self._strengths()))
        # Conductances of pipes differ by factors of hundreds, and lines cannot.
        widths = np.clip(2.0 * np.sqrt(np.abs(strengths) / usual), 0.7, 6.0)
        return np.asarray(np.where(strengths < 0, np.maximum(widths, 1.3), widths))  # dots need more than a line

    def _draw_heads(self, kind: str, pairs: Pairs, curves: list[FloatArray]) -> list[Any]:
        """A head at the end of each curve, where the disc of the target begins."""
        from matplotlib.patches import FancyArrowPatch

        lines: Any = self.edges_[kind]
        radii = np.sqrt(np.broadcast_to(self.nodes_.get_sizes(), len(self.positions_))) / 2  # in points
        widths = np.broadcast_to(lines.get_linewidths(), len(pairs))
        look = {"arrowstyle": "-|>", "linewidth": 0, "color": lines.get_colors()[0], "shrinkA": 0}
        look["zorder"] = lines.get_zorder() + 0.05
        heads = []
        for (target, _), curve, width in zip(pairs, curves, widths, strict=True):
            # A curve starts at its row, which receives; the head has the direction of its end.
            ends: dict[str, Any] = {"posA": tuple(curve[4]), "posB": tuple(curve[0]), "shrinkB": radii[target]}
            heads.append(self.ax_.add_patch(FancyArrowPatch(**ends, mutation_scale=8 + 4 * width, **look)))
        return heads

    def _draw_nodes(self, labels: Mapping[int, str], node_size: float | None, signal: Mapping[str, Any] | None) -> None:
        """Full discs, coloured by the signal if there is one; those that hold their name are larger and empty."""
        n_nodes = len(self.positions_)
        fit_inside = signal is None and max(map(len, labels.values()), default=0) <= _LONGEST_NAME_INSIDE
        is_open = np.isin(np.arange(n_nodes), list(labels)) & fit_inside
        full_size = float(np.clip(2500 / max(1, n_nodes), 12, 120))
        sizes = np.where(is_open, 260.0, full_size)
        look: dict[str, Any] = {"c": np.where(is_open, "white", "#444444"), "edgecolor": "white"}
        look["edgecolor"] = np.where(is_open, "#444444", "white")
        if signal is not None:
            look = {**signal, "edgecolor": "black"}
            sizes = np.full(n_nodes, max(full_size, 60.0))  # of smaller discs the colour is hard to tell
        if node_size is not None:
            sizes = np.full(n_nodes, node_size)
        self.nodes_ = self.ax_.scatter(*self.positions_.T, s=sizes, linewidth=0.8, zorder=3, **look)
        if signal is not None:  # before names are placed, as it takes room
            self.colorbar_ = self.figure_.colorbar(self.nodes_, ax=self.ax_, fraction=0.045, pad=0.02, shrink=0.7)
        offsets = np.zeros((len(labels), 2))
        text: dict[str, Any] = {"zorder": 5}
        if labels and not fit_inside:
            offsets = self._places_beside(labels, math.sqrt(sizes[0]) / 2)
            # On a plate that keeps edges from running through the letters, but does not hide another node.
            plate = {"boxstyle": "square,pad=0.05", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
            text = {"zorder": 2.5, "bbox": plate}
        text |= {"ha": "center", "va": "center", "textcoords": "offset points", "fontsize": _FONT_SIZE, **LITERAL}
        for (node, label), offset in zip(labels.items(), offsets, strict=True):
            self.ax_.annotate(label, self.positions_[node], xytext=tuple(offset), **text)

    def _places_beside(self, labels: Mapping[int, str], radius: float) -> FloatArray:
        from matplotlib.collections import LineCollection

        sizes = label_sizes(list(labels.values()), _FONT_SIZE) + _PADDING
        # Equal scales would shrink the axes to the shape of the data, and everything beneath them would move.
        self.ax_.set_aspect("auto")
        self.figure_.figure.draw_without_rendering()  # the figure of a subfigure is the whole one
        room = np.array(self.ax_.bbox.size) * (72 / self.figure_.dpi)
        # The nodes fill the axes but for a name beside, above and beneath those at the border.
        margin = np.array([sizes[:, 0].max() / 2, sizes[:, 1].max() + radius]) + radius
        margin = np.minimum(margin, 0.35 * room)
        low, high = self.positions_.min(0), self.positions_.max(0)
        extent = np.maximum(high - low, 1e-9 * max(1.0, float(np.abs(self.positions_).max())))
        scale = float(((room - 2 * margin) / extent).min())  # points for a unit
        origin = (low + high) / 2 - room / 2 / scale
        self.ax_.set(xlim=(origin[0], origin[0] + room[0] / scale), ylim=(origin[1], origin[1] + room[1] / scale))
        shown = [lines for kind, lines in self.edges_.items() if kind != "unknown"]
        curves = [(np.asarray(curve) - origin) * scale for lines in shown for curve in lines.get_segments()]
        nodes = (self.positions_ - origin) * scale
        offsets, leaders = place_labels(nodes, list(labels), sizes, radius, curves, room)
        if leaders:
            # Above the edges and the plates of other names, beneath the nodes.
            lines = [line / scale + origin for line in leaders]
            self.leaders_ = LineCollection(lines, colors="black", linewidths=0.6, zorder=2.6)
            self.ax_.add_collection(self.leaders_, autolim=False)
        return offsets

    def _draw_legend(self, edges: Mapping[str, Pairs], looks: Mapping[str, Mapping[str, Any]]) -> None:
        from matplotlib.lines import Line2D

        handles, explained = [], []
        for kind, pairs in edges.items():
            look = dict(looks[kind])
            label = f"{look.pop('label')} ({len(pairs)})"
            # Hairlines would vanish here, and where widths differ a wide one stands for all.
            width = max(1.0, look.pop("linewidth") or 3.2)
            handles.append(Line2D([], [], label=label, linewidth=width, markeredgecolor="black", markersize=8, **look))
        strengths = self._strengths()
        if strengths.size:
            # A weak, a usual and a strong one, rounded.
            ends = np.quantile(np.abs(strengths), (0.05, 0.5, 0.95))
            sizes = np.array(sorted({float(f"{size:.1g}") for size in ends}))
            for size, width in zip(sizes, self._strength_widths(sizes), strict=True):
                explained.append(Line2D([], [], color="black", linewidth=width, label=f"strength {size:g}"))
        if (strengths < 0).any():
            dots: dict[str, Any] = {"linestyle": _NEGATIVE_LINE, "dash_capstyle": "round", "linewidth": 3.0}
            explained.append(Line2D([], [], color="black", label="strength below zero", **dots))
        # Blanks, so that strengths have a column of their own.
        handles += [Line2D([], [], linestyle="none", label=" ")] * (len(explained) - len(handles)) + explained
        if handles:
            place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.02), "ncols": 2}
            self.ax_.legend(handles=handles, frameon=False, handlelength=2.6, **place)


def _signal_look(node_values: Any, value_range: Any, n_nodes: int) -> dict[str, Any] | None:
    """How a scatter plot shows a value for each node, nan where there is none; None where no values are given."""
    from matplotlib import colormaps

    if node_values is None:
        if value_range is not None:
            raise ValueError("value_range is given without node_values; expected both, or neither.")
        return None
    values = check_array(node_values, "node_values", (n_nodes,), missing=True)
    low, high = np.nanmin(values), np.nanmax(values)
    if value_range is not None:
        low, high = check_array(value_range, "value_range", (2,))
        if low >= high:
            raise ValueError(f"value_range={value_range!r}; expected two finite numbers, the smaller first.")
    # Its lightness rises evenly, so that print in grey keeps the order; colour-blind readers see the same.
    colours = colormaps["cividis"].with_extremes(bad="white")
    return {"c": values, "vmin": low, "vmax": high, "cmap": colours, "plotnonfinite": True}


def _side_for(labels: list[str]) -> float:
    """Inches of a new figure's side, in which names take up no more than a tenth of the area."""
    if not labels:
        return 5.0
    widths, heights = (label_sizes(labels, _FONT_SIZE) + _PADDING).T
    if max(map(len, labels)) <= _LONGEST_NAME_INSIDE:
        widths = heights = np.full(len(labels), 18.0)  # points of a node that holds its name
    return float(np.clip(math.sqrt((widths * heights).sum() / 0.1) / 72, 5.0, 10.0))


def _merged_styles(
    changes: Mapping[str, Mapping[str, Any]] | None, has_strengths: bool = False
) -> dict[str, dict[str, Any]]:
    changes = {} if changes is None else changes
    check_mapping(changes, "styles", "a mapping from a kind of edge to a dict, or None")
    allowed = "color, linewidth, linestyle, marker, label"
    for kind, change in changes.items():
        if kind not in _STYLES:
            raise ValueError(f"styles names {kind!r}; expected kinds of edges among {', '.join(_STYLES)}.")
        check_mapping(change, f"styles[{kind!r}]", f"a dict with any of {allowed}")
        for key, value in change.items():
            name = f"styles[{kind!r}][{key!r}]"
            if key not in allowed.split(", "):
                raise ValueError(f"styles[{kind!r}] has the key {key!r}; expected any of {allowed}.")
            if key == "label":
                check_text(value, name)
            elif key == "linewidth" and value is not None:  # else the probability or the strength sets it
                check_number(value, name, low=0)
            elif key in ("color", "linestyle") or (key == "marker" and value is not None):
                check_look(value, name, key)
    usual = {**_STYLES, "known": {**_STYLES["known"], "linewidth": None}} if has_strengths else _STYLES
    return {kind: {**look, **changes.get(kind, {})} for kind, look in usual.items()}


@dataclass(kw_only=True, eq=False, repr=False)
class InformationDisplay(Display):
    """Information expected from driving each node alone, as bars and as colours of the nodes of the graph.

    Parameters
    ----------
    information : array-like of shape (n_nodes,)
        Expected information of an input at each node alone, in nats, 0 or more.
    graph : GraphDisplay, default=None
        The graph to draw beside the bars.
    node_names : sequence, default=None
        Names of the nodes. If None, their indices.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (2,) or (1,)
        Axes with the bars and, if there is one, with the graph.
    figure_ : matplotlib Figure
        Figure containing the axes.
    bars_ : BarContainer
        One bar for each listed node, the most informative on top.
    graph_ : GraphDisplay or None
        The display of the graph.

    Examples
    --------
    >>> from sklearn_graphid.plotting import InformationDisplay
    >>> display = InformationDisplay(information=[0.2, 1.3, 0.7], node_names=["a", "b", "c"]).plot()
    >>> [label.get_text() for label in display.ax_[0].get_yticklabels()]
    ['b', 'c', 'a']
    """

    information: Any
    graph: GraphDisplay | None = None
    node_names: Any = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, amplitude: float = 1.0, observed: Any = None, **plot_options: Any
    ) -> Self:
        """Draw the information that an identifier expects from inputs at single nodes.

        Parameters
        ----------
        estimator : fitted identifier
            An identifier with draws from a posterior, such as `LangevinSystemIdentifier`.
        amplitude : float, default=1.0
            The input at the driven node, in the units of X; the inputs of all other nodes are zero.
        observed : list or None, default=None
            Nodes at which outputs will be measured, as in `suggest_inputs`.
        **plot_options
            Arguments of `plot`, such as `ax`.
        """
        cls._read(estimator, "theta_samples_")  # those that draw from a posterior have them
        if check_number(amplitude, "amplitude") == 0:
            raise ValueError(f"amplitude={amplitude!r}; expected a number other than 0.")
        information = estimator._information_by_node(float(amplitude), observed)
        graph = GraphDisplay._found_by(estimator)
        return cls(information=information, graph=graph, node_names=graph.node_names).plot(**plot_options)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.information = check_array(self.information, "information", ("n_nodes",))
        if self.information.min() < 0:
            raise ValueError(f"information holds {self.information.min()}; expected finite numbers of 0 or more.")

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        max_bars: int = 30,
        show_graph: bool = True,
        graph_options: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the bars and the graph.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of these, default=None
            One Axes to divide into panels, or one for the bars and one for the graph. If None, a new figure is created.
        max_bars : int, default=30
            The largest number of nodes to list; the most informative ones are kept.
        show_graph : bool, default=True
            Whether to draw the graph too, if there is one.
        graph_options : dict, default=None
            Arguments of `GraphDisplay.plot`, such as `pos` or `node_labels`.
        """
        from matplotlib import colormaps
        from matplotlib.colors import to_rgba

        check_flag(show_graph, "show_graph")
        options = {} if graph_options is None else graph_options
        check_mapping(options, "graph_options", "a dict, or None")
        n_nodes = len(self.information)
        shown = np.argsort(-self.information, kind="stable")[: check_integer(max_bars, "max_bars", low=1)]
        names = check_names(self.node_names, n_nodes)
        graph = self.graph if show_graph else None
        height = min(9.0, max(3.6, 0.24 * len(shown) + 1.0))
        self.ax_, self.figure_ = panels_on(ax, 1 if graph is None else 2, (4.6, height))
        # Dark where there is much, and readable without colour; one colour where all nodes are equal.
        colours = np.tile(to_rgba(BLUE), (n_nodes, 1))
        if (span := np.ptp(self.information)) > 0:
            colours = colormaps["viridis_r"]((self.information - self.information.min()) / span)
        bars = self.ax_[0]
        self.bars_ = bars.barh(np.arange(len(shown)), self.information[shown], color=colours[shown])
        bars.set_yticks(np.arange(len(shown)), [drawable(names[node]) for node in shown], **LITERAL)
        bars.invert_yaxis()
        bars.set_xlabel("information of an input there, in nats")
        bars.set_ylabel("node" if len(shown) == n_nodes else f"node ({len(shown)} of {n_nodes})")
        self.graph_ = None
        if graph is not None:
            self.graph_ = graph.plot(self.ax_[1], **{"legend": False, "node_size": 90.0, **options})
            self.graph_.nodes_.set(facecolor=colours, edgecolor="black")
        return self
