"""The adjacency matrix as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ..graphs._names import Names, unless_numbers
from ._checks import check_choice, check_flags, check_names
from ._identified_graph import IdentifiedGraph, IdentifiedGraphDisplay
from ._names import LITERAL, drawable
from ._style import BLACK, axes_or_new, needs_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["AdjacencyDisplay"]

_KNOWN_EDGE = "#7F7F7F"
_NO_EDGE = "#FFFFFF"
# In grey, an edge that is known and a pair of middling probability would look the same without it.
_HATCH = "////"
_HATCH_COLOUR = "#D9D9D9"
_SMALLEST_HATCHED_CELL = 4.0  # in points; the lines are about as far apart
_SMALLEST_ERROR = 5.0  # in points: a mark of an error is seen, however small the cells
# From a tint that tells an improbable pair from a known absence, to a blue darker than the grey of a known edge. The
# lightness falls evenly, so that print in grey keeps the order.
_PROBABILITY_COLOURS = ["#E3EEF9", "#9DC7E8", "#3B8FCB", "#0A4F93", "#06284F"]

# A decision is a mark in the middle of the cell: its shape tells what became of the pair.
_MARKS: dict[str, dict[str, Any]] = {
    "inferred": {"label": "inferred edge", "marker": "o", "facecolor": "white", "edgecolor": "none", "share": 0.35},
    "found": {"label": "found edge", "marker": "o", "facecolor": "white", "edgecolor": "none", "share": 0.35},
    "missed": {"label": "missed edge", "marker": "o", "facecolor": "none", "edgecolor": "#D55E00", "share": 0.75},
    "false": {"label": "false edge", "marker": "X", "facecolor": "#E69F00", "edgecolor": "black", "share": 0.85},
}


class AdjacencyDisplay(IdentifiedGraphDisplay):
    """The adjacency matrix: what is known in grey, and the probability of every unknown pair in blue.

    Known edges are hatched, so that print without colour tells them from probabilities. A dot marks an inferred edge.
    Where the truth is given, a ring marks a missed edge and a cross a false one. In a directed graph, an edge stands in
    the column of its source and the row of its target.

    Parameters
    ----------
    edge_probabilities : ndarray of shape (n_nodes, n_nodes)
        Probability of every edge: the blue of an unknown pair.
    adjacency : ndarray of shape (n_nodes, n_nodes)
        The graph that was decided on; its unknown edges have a mark.
    known : KnownEdges
        What was known, in grey.
    true_adjacency : ndarray of shape (n_nodes, n_nodes), default=None
        The true graph, which decides what the marks look like.
    node_names : sequence, default=None
        Names of the nodes, written above the matrix and on its left.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Where the matrix is drawn.
    figure_ : matplotlib Figure
        The figure that holds it.
    known_image_, probability_image_ : AxesImage
        The two layers: known pairs, and probabilities of the others.
    marks_ : dict of str to PathCollection
        "inferred", or "found", "missed" and "false".
    colorbar_ : matplotlib Colorbar or None
        The scale of the probabilities.
    node_order_ : ndarray of shape (n_nodes,)
        The node of each row.

    See Also
    --------
    GraphDisplay : The same as nodes and edges.

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
        self, ax: Axes | None = None, *, node_order: Any = None, colorbar: bool = True, legend: bool = True
    ) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; a new figure by default.
        node_order : "bandwidth", array-like of int of shape (n_nodes,) or None, default=None
            The node of each row and column. "bandwidth" moves edges towards the diagonal (reverse Cuthill-McKee), which
            uncovers chains and groups. None: as they are numbered.
        colorbar : bool, default=True
            Show the scale of the probabilities.
        legend : bool, default=True
            Explain greys and marks beneath the matrix.

        Returns
        -------
        AdjacencyDisplay
            The display itself.
        """
        check_flags(colorbar=colorbar, legend=legend)
        graph = IdentifiedGraph(self.edge_probabilities, self.adjacency, self.known, self.true_adjacency)
        names = None if self.node_names is None else check_names(self.node_names, graph.n_nodes, "node_names", "node")
        self.node_order_ = _resolve_order(node_order, graph)
        self.ax_, self.figure_ = axes_or_new(ax, (6.4, 6.0), layout="compressed")
        self._draw_cells()
        self._draw_marks(graph)
        self._label_nodes(names)
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = self.figure_.colorbar(self.probability_image_, ax=self.ax_, fraction=0.045, pad=0.03)
            self.colorbar_.set_label("probability of an unknown edge")
        if legend:
            self._draw_legend()
        return self

    def _draw_cells(self) -> None:
        from matplotlib.colors import LinearSegmentedColormap, ListedColormap

        cells = np.ix_(self.node_order_, self.node_order_)
        known = self.known.mask[cells]
        values = np.ma.masked_array(self.known.values[cells], mask=~known)
        probabilities = np.ma.masked_array(self.edge_probabilities[cells], mask=known)
        scale = LinearSegmentedColormap.from_list("edge probability", _PROBABILITY_COLOURS)
        self.known_image_ = self.ax_.imshow(values, cmap=ListedColormap([_NO_EDGE, _KNOWN_EDGE]), vmin=0, vmax=1)
        self.probability_image_ = self.ax_.imshow(probabilities, cmap=scale, vmin=0, vmax=1)
        if self._is_hatched():
            self._hatch(np.argwhere(known & (values.data == 1)))

    def _is_hatched(self) -> bool:
        return bool(self.known.values.any()) and self._cell_in_points() > _SMALLEST_HATCHED_CELL

    def _hatch(self, cells: npt.NDArray[np.intp]) -> None:
        from matplotlib.collections import PolyCollection

        corners = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
        squares = cells[:, None, ::-1] + corners
        look: dict[str, Any] = {"facecolor": "none", "edgecolor": _HATCH_COLOUR, "linewidth": 0, "hatch": _HATCH}
        self.ax_.add_collection(PolyCollection(squares, **look), autolim=False)

    def _draw_marks(self, graph: IdentifiedGraph) -> None:
        from matplotlib.patheffects import withStroke

        row_of_node = np.argsort(self.node_order_)
        cell = self._cell_in_points()
        self.marks_ = {}
        for kind, pairs in graph.edges().items():
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
        size = min(10.0, max(3.0, 0.85 * self._cell_in_points() * len(names) / (len(names) + letters)))
        self.ax_.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=2, pad=2)
        self.ax_.set_xticks(range(len(names)), names, rotation=90, fontsize=size, **LITERAL)
        self.ax_.set_yticks(range(len(names)), names, fontsize=size, **LITERAL)

    def _draw_legend(self) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        patches = [Patch(facecolor=_NO_EDGE, edgecolor=BLACK, linewidth=0.5, label="known absence")]
        if self.known.values.any():
            hatch = _HATCH if self._is_hatched() else None
            look: dict[str, Any] = {"facecolor": _KNOWN_EDGE, "edgecolor": _HATCH_COLOUR, "linewidth": 0}
            patches.insert(0, Patch(hatch=hatch, label="known edge", **look))
        marks = [tuple(Line2D([], [], **layer) for layer in _legend_layers(kind)) for kind in self.marks_]
        labels = [str(entry.get_label()) for entry in (*patches, *self.marks_.values())]
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.06), "ncols": 3}
        self.ax_.legend([*patches, *marks], labels, frameon=False, **place)


def _legend_layers(kind: str) -> list[dict[str, Any]]:
    """A cell and the mark on it, as they look in the picture: what is decided to be an edge is dark, a miss is pale."""
    look = _MARKS[kind]
    cell = _PROBABILITY_COLOURS[0 if kind == "missed" else -2]
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
