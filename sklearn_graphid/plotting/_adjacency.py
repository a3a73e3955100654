"""Display of the adjacency matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ..graphs import EdgeSpace
from ..graphs._nodes import Names, unless_numbers
from ._checks import check_choice, check_flags, check_names
from ._identified_graph import IdentifiedGraph, IdentifiedGraphDisplay
from ._labels import label_sizes
from ._names import LITERAL, drawable
from ._strengths import strength_colours
from ._style import BLACK, axes_or_new, needs_matplotlib
from ._tick_names import spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

__all__ = ["AdjacencyDisplay"]

_KNOWN_EDGE = "#7F7F7F"
_NO_EDGE = "#FFFFFF"
# In grey, an edge that is known and a pair of middling probability would look the same without it.
_HATCH = "////"
_HATCH_COLOUR = "#D9D9D9"
_HATCH_ON_PALE = "#808080"
_PALE = 0.6  # lightness
_UNKNOWN_WITHOUT_EDGE = "#ECECEC"  # where colours show strengths
_SOME_STRENGTH, _SOME_NEGATIVE_STRENGTH = "#3B8FCB", "#E58A4E"
_SMALLEST_HATCHED_CELL = 4.0  # in points; the lines are about as far apart
_SMALLEST_FONT, _END_FONT_SIZE = 6.0, 7.0  # in points: below the first, only some nodes are named, by the second
_LEADER = 10.0  # points between the matrix and such a name, for the line that joins them
_SMALLEST_ERROR = 5.0  # in points: a mark of an error is seen, however small the cells
# From a tint that tells an improbable pair from a known absence, to a blue darker than the grey of a known edge. The
# lightness falls evenly, so that print in grey keeps the order.
_PROBABILITY_COLOURS = ["#E3EEF9", "#9DC7E8", "#3B8FCB", "#0A4F93", "#06284F"]

# A decision is a mark in the middle of the cell: its shape tells what became of the pair.
_MARKS: dict[str, dict[str, Any]] = {
    "negative": {"label": "below zero", "marker": "_", "facecolor": "white", "edgecolor": None, "share": 0.6},
    "inferred": {"label": "inferred edge", "marker": "o", "facecolor": "white", "edgecolor": "none", "share": 0.35},
    "found": {"label": "found edge", "marker": "o", "facecolor": "white", "edgecolor": "none", "share": 0.35},
    "missed": {"label": "missed edge", "marker": "o", "facecolor": "none", "edgecolor": "#D55E00", "share": 0.75},
    "false": {"label": "false edge", "marker": "X", "facecolor": "#E69F00", "edgecolor": "black", "share": 0.85},
}


class AdjacencyDisplay(IdentifiedGraphDisplay):
    """Adjacency matrix with known pairs in grey and the probabilities of unknown pairs in blue.

    Known edges are hatched, so that they differ from probabilities in print without colour. A dot marks an inferred
    edge. If the true graph is given, a ring marks a missed edge and a cross a false one. In a directed graph, an edge
    is in the column of its source and the row of its target. If edges have strengths, the colours show these, and a bar
    marks a negative strength.

    Parameters
    ----------
    edge_probabilities : ndarray of shape (n_nodes, n_nodes)
        Probability of every edge, shown in blue for unknown pairs.
    adjacency : ndarray of shape (n_nodes, n_nodes)
        The identified graph; its edges at unknown pairs are marked.
    known : KnownEdges
        The known pairs, shown in grey.
    true_adjacency : ndarray of shape (n_nodes, n_nodes), default=None
        The true graph, to mark found, missed and false edges.
    node_names : sequence, default=None
        Names of the nodes, written above and to the left of the matrix. In a large matrix only nodes with an inferred
        or missed edge are named; if there is no room for all of these, those with the most probable edges.
    weights : ndarray of shape (n_nodes, n_nodes), default=None
        Strengths of the edges.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the matrix.
    figure_ : matplotlib Figure
        Figure containing the axes.
    known_image_ : AxesImage
        The known pairs.
    probability_image_ : AxesImage or None
        The probabilities of the unknown pairs; None if strengths are shown.
    strength_image_ : AxesImage or None
        The strengths of all edges; None if probabilities are shown.
    marks_ : dict of str to PathCollection
        The marks by kind: "inferred", or "found", "missed" and "false"; and "negative" for negative strengths.
    colorbar_ : matplotlib Colorbar or None
        The scale of the probabilities or strengths.
    node_order_ : ndarray of shape (n_nodes,)
        The node of each row.

    See Also
    --------
    GraphDisplay : The same graph, drawn as nodes and edges.

    Examples
    --------
    >>> import matplotlib, numpy as np
    >>> matplotlib.use("Agg")  # draws into memory; leave it out to see the picture
    >>> from sklearn_graphid.plotting import AdjacencyDisplay
    >>> partial = np.array([[0, 1, np.nan], [1, 0, np.nan], [np.nan, np.nan, 0]])
    >>> edge_probabilities = np.array([[0, 1, 0.8], [1, 0, 0.1], [0.8, 0.1, 0]])
    >>> display = AdjacencyDisplay.from_predictions(edge_probabilities, partial)
    >>> list(display.marks_)
    ['inferred']
    """

    @classmethod
    def _shown_names(cls, names: Names | None) -> Names | None:
        return names and unless_numbers(names)

    @needs_matplotlib
    def plot(
        self,
        ax: Axes | None = None,
        *,
        color_by: str | None = None,
        node_order: Any = None,
        colorbar: bool = True,
        legend: bool = True,
    ) -> Self:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is created.
        color_by : {"probability", "strength"} or None, default=None
            Whether colours show the probability of every unknown pair or the strength of every edge. If None,
            strengths if the edges have them, else probabilities.
        node_order : "bandwidth", array-like of int of shape (n_nodes,) or None, default=None
            The node of each row and column. "bandwidth" moves edges towards the diagonal (reverse Cuthill-McKee), which
            reveals chains and groups. If None, nodes are in their original order.
        colorbar : bool, default=True
            Whether to show the scale of the colours.
        legend : bool, default=True
            Whether to explain shades and marks below the matrix.

        Returns
        -------
        AdjacencyDisplay
            The display itself.
        """
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import LogLocator, StrMethodFormatter

        check_flags(colorbar=colorbar, legend=legend)
        shows_strengths = self._shows_strengths(color_by)
        graph = self._graph()
        names = None if self.node_names is None else check_names(self.node_names, graph.n_nodes, "node_names", "node")
        self.node_order_ = _resolve_order(node_order, graph)
        self.ax_, self.figure_ = axes_or_new(ax, (6.4, 6.0), layout="compressed")
        coloured = self._draw_cells(shows_strengths)
        self._draw_marks(graph)
        self._label_nodes(names)
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = self.figure_.colorbar(coloured, ax=self.ax_, fraction=0.045, pad=0.03)
            self.colorbar_.set_label("strength of an edge" if shows_strengths else "probability of an unknown edge")
            if isinstance(coloured.norm, LogNorm):
                self.colorbar_.locator, self.colorbar_.formatter = (
                    LogLocator(subs=(1, 2, 5)),
                    StrMethodFormatter("{x:g}"),
                )
                self.colorbar_.minorticks_off()
        if legend:
            self._draw_legend()
        return self

    def _shows_strengths(self, color_by: str | None) -> bool:
        if color_by is None:
            return self.weights is not None
        check_choice(color_by, "color_by", ("probability", "strength"), "None")
        if color_by == "strength" and self.weights is None:
            raise ValueError(
                "color_by='strength', but the edges have no strengths; expected color_by='probability', or weights."
            )
        return color_by == "strength"

    def _draw_cells(self, shows_strengths: bool) -> AxesImage:
        """The known pairs, and on them the colours, which are returned."""
        from matplotlib.colors import LinearSegmentedColormap, ListedColormap

        cells = np.ix_(self.node_order_, self.node_order_)
        known = self.known.mask[cells]
        values = np.ma.masked_array(self.known.values[cells], mask=~known)
        greys = ListedColormap([_NO_EDGE, _KNOWN_EDGE])
        self.known_image_ = self.ax_.imshow(values, cmap=greys, vmin=0, vmax=1)
        self.probability_image_: AxesImage | None = None
        self.strength_image_: AxesImage | None = None
        if shows_strengths and self.weights is not None:
            is_edge = self.adjacency[cells] == 1
            self.ax_.set_facecolor(_UNKNOWN_WITHOUT_EDGE)
            colours, scale = strength_colours(self._strengths())
            strengths = np.ma.masked_array(self.weights[cells], mask=~is_edge)
            coloured = self.strength_image_ = self.ax_.imshow(strengths, cmap=colours, norm=scale)
        else:
            probabilities = np.ma.masked_array(self.edge_probabilities[cells], mask=known)
            blues = LinearSegmentedColormap.from_list("edge probability", _PROBABILITY_COLOURS)
            coloured = self.probability_image_ = self.ax_.imshow(probabilities, cmap=blues, vmin=0, vmax=1)
        if self._is_hatched():
            self._hatch(known & (values.data == 1))
        return coloured

    def _is_hatched(self) -> bool:
        return bool(self.known.values.any()) and self._cell_in_points() > _SMALLEST_HATCHED_CELL

    def _hatch(self, is_hatched: npt.NDArray[np.bool_]) -> None:
        from matplotlib.collections import PolyCollection

        is_pale = np.zeros_like(is_hatched)
        if (image := self.strength_image_) is not None and (strengths := image.get_array()) is not None:
            is_pale = image.to_rgba(strengths)[..., :3].mean(-1) > _PALE
        corners = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
        for colour, cells in ((_HATCH_COLOUR, is_hatched & ~is_pale), (_HATCH_ON_PALE, is_hatched & is_pale)):
            if cells.any():
                squares = np.argwhere(cells)[:, None, ::-1] + corners
                look: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "linewidth": 0, "hatch": _HATCH}
                self.ax_.add_collection(PolyCollection(squares, **look), autolim=False)

    def _draw_marks(self, graph: IdentifiedGraph) -> None:
        from matplotlib.patheffects import withStroke

        row_of_node = np.argsort(self.node_order_)
        cell = self._cell_in_points()
        self.marks_ = {}
        kinds = graph.edges()
        if self.strength_image_ is not None and self.weights is not None:
            kinds = {"negative": np.column_stack(EdgeSpace.of_mask(self.weights < 0, graph.directed).ends()), **kinds}
        for kind, pairs in kinds.items():
            if kind not in _MARKS or not len(pairs):
                continue
            look = dict(_MARKS[kind])
            smallest = 0.0 if look["label"] in ("inferred edge", "found edge") else _SMALLEST_ERROR
            size = max(look.pop("share") * cell, smallest) ** 2
            label = f"{look.pop('label')} ({len(pairs)})"
            cells = pairs if graph.directed else np.concatenate([pairs, pairs[:, ::-1]])
            rows, columns = row_of_node[cells].T
            width = min(1.5, 0.12 * max(cell, smallest))
            mark = self.ax_.scatter(columns, rows, s=size, label=label, linewidth=width, zorder=3, **look)
            if kind in ("inferred", "found") and self.strength_image_ is not None:  # a weak edge is nearly white
                mark.set_edgecolor(BLACK)
                mark.set_linewidth(0.3 * width)
            if kind == "negative":
                mark.set_path_effects([withStroke(linewidth=2 * width, foreground=BLACK)])
            if kind == "missed":  # a ring lies on cells as dark as itself
                mark.set_path_effects([withStroke(linewidth=2.5 * width, foreground="white")])
            self.marks_[kind] = mark

    def _cell_in_points(self) -> float:
        extent = self.ax_.get_window_extent()
        return 72 * min(extent.width, extent.height) / self.figure_.dpi / len(self.node_order_)

    def _label_nodes(self, node_names: list[Any] | None) -> None:
        if self.known.directed:
            self.ax_.set(xlabel="from node", ylabel="to node")
        if node_names is None:
            if not self.known.directed:
                self.ax_.set(xlabel="node", ylabel="node")
            self.ax_.tick_params(labelbottom=False, labelleft=False, length=0)
            return
        names = [drawable(node_names[node]) for node in self.node_order_]
        # Names stand above, as in a table: the legend has the room beneath. A letter is a little over half as wide as
        # it is high, so a matrix whose side was n cells keeps n / (n + letters) of it, and a name fills most of a cell.
        letters = 0.55 * max(map(len, names), default=0)
        size = 0.85 * self._cell_in_points() * len(names) / (len(names) + letters)
        if size < _SMALLEST_FONT:
            self._name_ends(names)
            return
        look: dict[str, Any] = {"fontsize": min(10.0, size), **LITERAL}
        self.ax_.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=2, pad=2)
        self.ax_.set_xticks(range(len(names)), names, rotation=90, **look)
        self.ax_.set_yticks(range(len(names)), names, **look)

    def _name_ends(self, names: list[str]) -> None:
        """Name the ends of edges that were inferred, or missed: the names of all rows would be too small to read."""
        self.ax_.tick_params(bottom=False, left=False, labelbottom=False, labelleft=False)
        marked = np.zeros((len(names), len(names)))
        for kind, mark in self.marks_.items():
            if kind != "negative":
                columns, rows = np.asarray(mark.get_offsets()).astype(int).T
                nodes = self.node_order_
                marked[rows, columns] = 1 + self.edge_probabilities[nodes[rows], nodes[columns]]
        sizes = label_sizes(names, _END_FONT_SIZE)
        side = self._cell_in_points() * len(names) - float(sizes[:, 0].max()) - _LEADER
        distance = 1.15 * float(sizes[:, 1].max()) * len(names) / max(side, 1.0)  # in cells
        look: dict[str, Any] = {"fontsize": _END_FONT_SIZE, "annotation_clip": False, **LITERAL}
        leader: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.5, "color": "#7F7F7F", "shrinkA": 1, "shrinkB": 0}
        for axis in (0, 1):  # of the columns, above; of the rows, on the left
            importance = marked.max(axis)
            n_fit = int(len(names) / distance)
            ends = np.sort(np.argsort(-importance, kind="stable")[: min(n_fit, int((importance > 0).sum()))])
            for place, moved in zip(ends, spread(ends.astype(float), distance, -0.5, len(names) - 0.5), strict=True):
                text: dict[str, Any] = {"text": names[place], "xy": (place, -0.5), "xytext": (moved, _LEADER)}
                turn: dict[str, Any] = {"ha": "center", "va": "bottom", "rotation": 90}
                text["textcoords"], anchor = ("data", "offset points"), (0.5, 0.0)
                if axis == 1:
                    text |= {"xy": (-0.5, place), "xytext": (-_LEADER, moved), "textcoords": ("offset points", "data")}
                    turn, anchor = {"ha": "right", "va": "center"}, (1.0, 0.5)
                self.ax_.annotate(**text, **turn, **look, arrowprops={**leader, "relpos": anchor})

    def _draw_legend(self) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        patches = [Patch(facecolor=_NO_EDGE, edgecolor=BLACK, linewidth=0.5, label="known absence")]
        if self.known.values.any():
            hatch = _HATCH if self._is_hatched() else None
            look: dict[str, Any] = {"facecolor": _KNOWN_EDGE, "edgecolor": _HATCH_COLOUR, "linewidth": 0}
            if self.strength_image_ is not None:
                look["facecolor"] = _SOME_STRENGTH
            patches.insert(0, Patch(hatch=hatch, label="known edge", **look))
        if self.strength_image_ is not None and self.known.n_unknown:
            patches.append(Patch(facecolor=_UNKNOWN_WITHOUT_EDGE, linewidth=0, label="no edge inferred"))
        marks = [tuple(Line2D([], [], **layer) for layer in _legend_layers(kind)) for kind in self.marks_]
        labels = [str(entry.get_label()) for entry in (*patches, *self.marks_.values())]
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.06), "ncols": 3}
        self.ax_.legend([*patches, *marks], labels, frameon=False, **place)


def _legend_layers(kind: str) -> list[dict[str, Any]]:
    """A cell and the mark on it, as they look in the picture: what is decided to be an edge is dark, a miss is pale."""
    look = _MARKS[kind]
    cell = {"missed": _PROBABILITY_COLOURS[0], "negative": _SOME_NEGATIVE_STRENGTH}.get(kind, _PROBABILITY_COLOURS[-2])
    mark = {
        "markerfacecolor": look["facecolor"],
        "markeredgecolor": look["edgecolor"],
        "markersize": 13 * look["share"],
    }
    return [
        {"linestyle": "none", "marker": "s", "color": cell, "markersize": 13},
        {"linestyle": "none", "marker": look["marker"], "markeredgewidth": 1.2, **mark},
    ]


def _resolve_order(node_order: Any, graph: IdentifiedGraph) -> npt.NDArray[np.intp]:
    n_nodes = graph.n_nodes
    if node_order is None:
        return np.arange(n_nodes)
    if isinstance(node_order, str):
        check_choice(node_order, "node_order", ("bandwidth",), "an order of the nodes")
        both_ways = graph.adjacency + graph.adjacency.T
        order = reverse_cuthill_mckee(sparse.csr_array(both_ways), symmetric_mode=True)
        return np.asarray(order, dtype=np.intp)
    order = np.asarray(node_order)
    is_numbers = order.shape == (n_nodes,) and order.dtype.kind in "iuf"
    if not is_numbers or not np.array_equal(np.sort(order), np.arange(n_nodes)):
        raise ValueError(
            f"node_order={node_order!r}; expected 'bandwidth', None, or each node from 0 to {n_nodes - 1} once."
        )
    return order.astype(np.intp)
