"""The network drawn as nodes and links."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import networkx as nx
import numpy as np
from scipy.sparse.csgraph import shortest_path

from .._validation import FloatArray
from ._checks import (
    as_numbers,
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
from ._names import LITERAL, drawable
from ._network import Network, Pairs
from ._style import BLUE, GREY, PALE_GREY, PURPLE, VERMILLION, axes_or_new, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["GraphDisplay"]

# How each kind of link looks, from the bottom of the picture to its top. Where the width is None, the probability sets
# it. Line styles and the mark say the same as the colours, for print in grey and for colour-blind readers.
_STYLES: dict[str, dict[str, Any]] = {
    "unknown": {"label": "unknown pair", "color": PALE_GREY, "linewidth": 0.4, "linestyle": "-"},
    "known": {"label": "known link", "color": GREY, "linewidth": 1.4, "linestyle": "-"},
    "missed": {"label": "missed link", "color": VERMILLION, "linewidth": 2.0, "linestyle": (0, (2.5, 1.5))},
    "inferred": {"label": "inferred link", "color": BLUE, "linewidth": None, "linestyle": "-"},
    "found": {"label": "found link", "color": BLUE, "linewidth": None, "linestyle": "-"},
    "false": {"label": "false link", "color": PURPLE, "linewidth": None, "linestyle": "-", "marker": "X"},
}

_LONGEST_NAME_INSIDE = 3  # of the usual size, a node holds so many characters


class GraphDisplay:
    """The network, with the links that were inferred in colour.

    Known links are grey. Inferred links are coloured, and the wider the more probable. Where the truth is given, missed
    links are dashed, and a cross marks false ones. A link that would run through a third node is drawn as a bow.

    Parameters
    ----------
    edge_probabilities : ndarray of shape (n_nodes, n_nodes)
        Probability of every edge.
    adjacency : ndarray of shape (n_nodes, n_nodes)
        The network that was decided on.
    known : KnownEdges
        What was known.
    true_adjacency : ndarray of shape (n_nodes, n_nodes), default=None
        The true network, where it is known.
    node_names : sequence, default=None
        Names of the nodes; their numbers by default.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where the network is drawn.
    figure_ : matplotlib Figure
        The figure that holds it.
    positions_ : ndarray of shape (n_nodes, 2)
        Where the nodes are; pass it as `pos` to draw another network in the same layout.
    links_ : dict of str to LineCollection
        The links by kind: "known", and "inferred", or "found", "missed" and "false"; "unknown" if shown.
    nodes_ : PathCollection
        The nodes.

    See Also
    --------
    AdjacencyDisplay : The same as a matrix, which shows the probability of every pair.

    Examples
    --------
    >>> import matplotlib, networkx as nx
    >>> matplotlib.use("Agg")  # draws into memory; leave it out to see the picture
    >>> from sklearn_graphid import LangevinSystemIdentifier
    >>> from sklearn_graphid.datasets import hide_edges, make_system
    >>> from sklearn_graphid.plotting import GraphDisplay
    >>> ring = nx.to_numpy_array(nx.cycle_graph(8))
    >>> X, Y = make_system(ring, "heat", theta=[0.5], n_pairs=20, random_state=0)
    >>> known = hide_edges(ring, fraction=0.5, random_state=0)
    >>> identifier = LangevinSystemIdentifier("heat", random_state=0).fit(X, Y, known)
    >>> display = GraphDisplay.from_estimator(identifier, true_adjacency=ring)
    >>> [text.get_text() for text in display.ax_.get_legend().get_texts()]
    ['known link (4)', 'found link (4)']
    """

    def __init__(
        self,
        *,
        edge_probabilities: FloatArray,
        adjacency: FloatArray,
        known: Any,
        true_adjacency: FloatArray | None = None,
        node_names: Sequence[Any] | None = None,
    ):
        self.edge_probabilities = edge_probabilities
        self.adjacency = adjacency
        self.known = known
        self.true_adjacency = true_adjacency
        self.node_names = node_names

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, true_adjacency: Any = None, ax: Axes | None = None, **plot_options: Any
    ) -> Self:
        """Draw what an identifier found.

        Parameters
        ----------
        estimator : fitted identifier
            Such as `LangevinSystemIdentifier`.
        true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
            The true network, to mark missed and false links.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **plot_options
            Passed on to `plot`.

        Returns
        -------
        GraphDisplay
            The display.
        """
        require_matplotlib(cls.__name__)
        network = Network.of(cls.__name__, estimator, true_adjacency)
        names = getattr(estimator, "feature_names_in_", None)
        return cls(**network._asdict(), node_names=names).plot(ax, **plot_options)

    @classmethod
    def from_predictions(
        cls,
        edge_probabilities: Any,
        known: Any = None,
        *,
        adjacency: Any = None,
        true_adjacency: Any = None,
        node_names: Sequence[Any] | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw a network that is given by its edge probabilities.

        Parameters
        ----------
        edge_probabilities : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes)
            Probability of every edge, or zeros and ones.
        known : KnownEdges or array of shape (n_nodes, n_nodes), default=None
            What was known: a `KnownEdges`, an array with 0, 1 and nan where unknown, or a boolean array (True = known).
            None: nothing.
        adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
            The network that was decided on; by default the edges whose probability is above one half.
        true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
            The true network, to mark missed and false links.
        node_names : sequence, default=None
            Names of the nodes; their numbers by default.
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        **plot_options
            Passed on to `plot`.

        Returns
        -------
        GraphDisplay
            The display.
        """
        require_matplotlib(cls.__name__)
        network = Network.check(edge_probabilities, adjacency, known, true_adjacency)
        return cls(**network._asdict(), node_names=node_names).plot(ax, **plot_options)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        pos: Any = None,
        layout: str | Callable[[nx.Graph], Mapping[Any, Any]] = "kamada_kawai",
        random_state: int | None = 0,
        node_labels: bool = False,
        node_size: float | None = None,
        show_unknown: bool = False,
        styles: Mapping[str, Mapping[str, Any]] | None = None,
        legend: bool = True,
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        pos : array-like of shape (n_nodes, 2) or mapping from node names to pairs of numbers, default=None
            Where the nodes are.
        layout : {"kamada_kawai", "spring", "spectral", "circular"} or callable, default="kamada_kawai"
            Places the nodes where `pos` is None; a callable takes a networkx.Graph with the nodes 0, 1, ... and returns
            their positions by number.
        random_state : int or None, default=0
            Seed of the "spring" layout.
        node_labels : bool, default=False
            Write the names into the nodes, or above them if there is one of more than three characters.
        node_size : float, default=None
            Area of a node in square points; by default smaller the more there are.
        show_unknown : bool, default=False
            Draw every unknown pair as a hairline.
        styles : mapping from str to dict, default=None
            Changes to the look of a kind of link (see `links_`): "color", "linewidth", "linestyle", "marker" and
            "label".
        legend : bool, default=True
            Explain the kinds of links beneath the network.

        Returns
        -------
        GraphDisplay
            The display itself.
        """
        require_matplotlib(type(self).__name__)
        check_flags(node_labels=node_labels, show_unknown=show_unknown, legend=legend)
        if node_size is not None:
            check_number(node_size, "node_size", "an area of 0 or more square points, or None", lambda area: area >= 0)
        network = Network(self.edge_probabilities, self.adjacency, self.known, self.true_adjacency)
        links = {kind: pairs for kind, pairs in network.links().items() if kind != "unknown" or show_unknown}
        looks = _merged_styles(styles)
        numbers = range(network.n_nodes)
        names = check_names(numbers if self.node_names is None else self.node_names, len(numbers), "node_names", "node")
        seed = check_seed(random_state)
        positions = _lay_out(network, layout, seed) if pos is None else _read_positions(pos, names, "pos")
        self.ax_, self.figure_ = axes_or_new(ax, (5.0, 5.4 if legend else 5.0))
        self.positions_ = positions
        self.links_ = {
            kind: self._draw_links(kind, links[kind], looks[kind]) for kind in looks if len(links.get(kind, ()))
        }
        self._draw_nodes(names if node_labels else [], node_size)
        self.ax_.set_aspect("equal")
        self.ax_.margins(0.05)
        self.ax_.set_axis_off()
        if legend:
            self._draw_legend(links, looks)
        return self

    def _draw_links(self, kind: str, pairs: Pairs, look: Mapping[str, Any]) -> Any:
        from matplotlib.collections import LineCollection

        curves = _curves(self.positions_, pairs, straight=kind == "unknown")
        drawing_order = list(_STYLES).index(kind)
        lines = LineCollection(
            curves,
            colors=look["color"],
            linestyles=[look["linestyle"]],
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

    def _widths(self, pairs: Pairs) -> FloatArray:
        # Even odds are a little wider than a known link, and certainty is twice as wide again.
        widths: FloatArray = np.clip(4 * self.edge_probabilities[tuple(pairs.T)] - 0.4, 0.8, None)
        return widths

    def _draw_nodes(self, names: Sequence[Any], node_size: float | None) -> None:
        labels = [drawable(name) for name in names]
        fit_inside = max(map(len, labels), default=0) <= _LONGEST_NAME_INSIDE
        is_open = bool(labels) and fit_inside
        if node_size is None:
            node_size = 260.0 if is_open else float(np.clip(2500 / max(1, len(self.positions_)), 12, 120))
        face, edge = ("white", "#444444") if is_open else ("#444444", "white")
        x, y = self.positions_.T
        self.nodes_ = self.ax_.scatter(x, y, s=node_size, color=face, edgecolor=edge, linewidth=0.8, zorder=3)
        look: dict[str, Any] = {"ha": "center", "va": "center", "textcoords": "offset points", "zorder": 5}
        above = 0.0
        if not fit_inside:  # above the node, on a plate that keeps links from running through the letters
            above = math.sqrt(node_size) / 2 + 6
            look["zorder"] = 2.5  # nor must the plate hide another node
            look["bbox"] = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
        for label, position in zip(labels, self.positions_, strict=False):
            self.ax_.annotate(label, position, xytext=(0, above), fontsize=8, **LITERAL, **look)

    def _draw_legend(self, links: Mapping[str, Pairs], looks: Mapping[str, Mapping[str, Any]]) -> None:
        from matplotlib.lines import Line2D

        handles = []
        for kind in self.links_:
            look = dict(looks[kind])
            label = f"{look.pop('label')} ({len(links[kind])})"
            # Hairlines would vanish here, and where widths differ a wide one stands for all.
            width = max(1.0, look.pop("linewidth") or 3.2)
            handles.append(Line2D([], [], label=label, linewidth=width, markeredgecolor="black", markersize=8, **look))
        if handles:
            place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0.02), "ncols": 2}
            self.ax_.legend(handles=handles, frameon=False, handlelength=2.6, **place)


def _check_linewidth(value: Any, name: str) -> None:
    if value is not None:  # which lets the probability set it
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


def _merged_styles(changes: Mapping[str, Mapping[str, Any]] | None) -> dict[str, dict[str, Any]]:
    changes = {} if changes is None else changes
    check_mapping(changes, "styles", "a mapping from a kind of edge to a dict, or None")
    for kind, change in changes.items():
        if kind not in _STYLES:
            raise ValueError(f"styles names {kind!r}; expected kinds of links among {', '.join(_STYLES)}.")
        name = f"styles[{kind!r}]"
        check_mapping(change, name, f"a dict with any of {', '.join(_CHECKS)}")
        for key, value in change.items():
            if key not in _CHECKS:
                raise ValueError(f"{name} has the key {key!r}; expected any of {', '.join(_CHECKS)}.")
            _CHECKS[key](value, f"{name}[{key!r}]")
    return {kind: {**look, **changes.get(kind, {})} for kind, look in _STYLES.items()}


def _read_positions(pos: Any, names: Sequence[Any], argument: str) -> FloatArray:
    if isinstance(pos, Mapping):
        lacking = [name for name in names if name not in pos]
        if lacking:
            raise ValueError(
                f"{argument} has no entry for node {lacking[0]!r}; expected one for each of {len(names)} nodes."
            )
        pos = [pos[name] for name in names]
    expected = f"({len(names)}, 2), a point for each node"
    positions = as_numbers(pos, argument, f"numbers of shape {expected}")
    if positions.shape != (len(names), 2):
        raise ValueError(f"{argument} has shape {positions.shape}; expected {expected}.")
    if not np.isfinite(positions).all():
        raise ValueError(f"{argument} holds {positions[~np.isfinite(positions)][0]}; expected finite numbers.")
    return positions


def _lay_out(
    network: Network, layout: str | Callable[[nx.Graph], Mapping[Any, Any]], random_state: int | None
) -> FloatArray:
    """Place the nodes by all links that are or should be there, so that a missed one does not change the picture."""
    present = network.adjacency if network.true_adjacency is None else network.adjacency + network.true_adjacency
    graph = nx.from_numpy_array((present > 0).astype(int))
    nodes = range(network.n_nodes)
    if callable(layout):
        return _read_positions(layout(graph), nodes, "what layout returned")
    check_choice(layout, "layout", ("kamada_kawai", "spring", "spectral", "circular"), "a callable")
    if layout == "kamada_kawai":
        placed = nx.kamada_kawai_layout(graph, dist=_distances(graph))
    elif layout == "spring":
        placed = nx.spring_layout(graph, seed=random_state)
    else:
        placed = nx.spectral_layout(graph) if layout == "spectral" else nx.circular_layout(graph)
    return _read_positions(placed, nodes, "layout")


def _distances(graph: nx.Graph) -> dict[int, dict[int, float]]:
    # networkx puts parts that are not connected a million steps apart, which leaves each of them a dot; one step more
    # than the longest way is apart enough to be seen.
    steps = shortest_path(nx.to_scipy_sparse_array(graph), unweighted=True)
    steps[np.isinf(steps)] = steps[np.isfinite(steps)].max() + 1
    return {i: dict(enumerate(row)) for i, row in enumerate(steps.tolist())}


def _curves(positions: FloatArray, pairs: Pairs, *, straight: bool) -> list[FloatArray]:
    """A straight line for each pair, or a bow where a third node lies on it."""
    parameter = np.linspace(0, 1, 25)[:, None]
    curves = []
    for i, j in pairs:
        start, end = positions[i], positions[j]
        curve = start + parameter * (end - start)
        if not straight and _passes_a_node(positions, i, j):
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
