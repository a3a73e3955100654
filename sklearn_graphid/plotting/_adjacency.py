"""Display of the adjacency matrix."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from sklearn.isotonic import isotonic_regression

from .._utils._numbers import FloatArray, check_flag
from ..graphs import EdgeSpace
from ._base import LITERAL, IdentifiedGraphDisplay, check_choice, check_names, drawable, label_sizes, panels_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.image import AxesImage

__all__ = ["AdjacencyDisplay", "spread"]

_KNOWN_EDGE, _NO_EDGE = "#7F7F7F", "#FFFFFF"
# In grey, an edge that is known and a pair of middling probability would look the same without it.
_HATCH = "////"
_HATCH_COLOUR, _HATCH_ON_PALE = "#D9D9D9", "#808080"
_UNKNOWN_WITHOUT_EDGE = "#ECECEC"  # where colours show strengths
_SMALLEST_ERROR = 5.0  # in points: a mark of an error is seen, however small the cells
# In all scales lightness falls evenly, so that print in grey keeps the order. Probabilities go from a tint that tells
# an improbable pair from a known absence, to a blue darker than the grey of a known edge; the weakest strength differs
# from the white of no edge. Between the signs there is no colour: the smallest strength has the tint of its own.
_PROBABILITIES = ["#E3EEF9", "#9DC7E8", "#3B8FCB", "#0A4F93", "#06284F"]
_STRENGTHS = ["#CFE2F3", "#8DBEE3", "#3B8FCB", "#0A4F93", "#06284F"]
_SIGNED = ["#4A1A00", "#A94500", "#E58A4E", "#F7CDB0", "#BBD9EF", "#5BA3D6", "#0A5FA6", "#06284F"]

# A decision is a mark in the middle of the cell: its shape tells what became of the pair. In the legend it lies on a
# cell as in the picture, where an edge that was decided on is dark.
_MARKS: dict[str, dict[str, Any]] = {
    "negative": {"label": "below zero", "marker": "_", "facecolor": "white", "edgecolor": None, "share": 0.6},
    "inferred": {"label": "inferred edge", "marker": "o", "facecolor": "white", "edgecolor": "none", "share": 0.35},
    "found": {"label": "found edge", "marker": "o", "facecolor": "white", "edgecolor": "none", "share": 0.35},
    "missed": {"label": "missed edge", "marker": "o", "facecolor": "none", "edgecolor": "#D55E00", "share": 0.75},
    "false": {"label": "false edge", "marker": "X", "facecolor": "#E69F00", "edgecolor": "black", "share": 0.85},
}


class AdjacencyDisplay(IdentifiedGraphDisplay):
    """Adjacency matrix with known pairs in grey and the probabilities of unknown pairs in blue.

    Known edges are hatched. A dot marks an inferred edge; if the true graph is given, a ring marks a missed edge and a
    cross a false one. In a directed graph, an edge is in the column of its source and the row of its target. If edges
    have strengths, the colours show these, and a bar marks a negative strength.

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
        Names of the nodes. In a large matrix only nodes with an inferred or missed edge are named, those with the most
        probable edges first.
    weights : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
        Strengths of the edges; entries of other pairs are ignored.
    directed : bool or None, default=None
        Whether the graph is directed. If None, as `known` is.

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

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_graphid.plotting import AdjacencyDisplay
    >>> partial = np.array([[0, 1, np.nan], [1, 0, np.nan], [np.nan, np.nan, 0]])
    >>> edge_probabilities = np.array([[0, 1, 0.8], [1, 0, 0.1], [0.8, 0.1, 0]])
    >>> display = AdjacencyDisplay.from_predictions(edge_probabilities, partial)
    >>> list(display.marks_)
    ['inferred']
    """

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
        """
        from matplotlib.colors import LogNorm
        from matplotlib.ticker import LogLocator, StrMethodFormatter

        check_flag(colorbar, "colorbar")
        check_flag(legend, "legend")
        if color_by is not None:
            check_choice(color_by, "color_by", ("probability", "strength"), "None")
        if color_by == "strength" and self.weights is None:
            raise ValueError(
                "color_by='strength', but the edges have no strengths; expected color_by='probability', or weights."
            )
        weights = None if color_by == "probability" else self.weights
        names = None if self.node_names is None else check_names(self.node_names, len(self.adjacency))
        self.node_order_ = _resolve_order(node_order, self.adjacency)
        (self.ax_,), self.figure_ = panels_on(ax, 1, (6.4, 6.0), framed=True, layout="compressed")
        coloured = self._draw_cells(weights)
        self._draw_marks(weights)
        self._label_nodes(names)
        self.colorbar_ = None
        if colorbar:
            self.colorbar_ = self.figure_.colorbar(coloured, ax=self.ax_, fraction=0.045, pad=0.03)
            shown = "probability of an unknown edge" if weights is None else "strength of an edge"
            self.colorbar_.set_label(shown)
            if isinstance(coloured.norm, LogNorm):
                self.colorbar_.locator = LogLocator(subs=(1, 2, 5))
                self.colorbar_.formatter = StrMethodFormatter("{x:g}")
                self.colorbar_.minorticks_off()
        if legend:
            self._draw_legend()
        return self

    def _draw_cells(self, weights: FloatArray | None) -> AxesImage:
        """The known pairs, and on them the colours, which are returned."""
        from matplotlib.colors import LinearSegmentedColormap, ListedColormap, LogNorm, Normalize

        def show(values: FloatArray, hidden: Any, colours: Any, scale: Any) -> AxesImage:
            if isinstance(colours, list):
                colours = LinearSegmentedColormap.from_list("", colours)
            cells = np.ma.masked_array(values, mask=hidden)[np.ix_(self.node_order_, self.node_order_)]
            image: AxesImage = self.ax_.imshow(cells, cmap=colours, norm=scale)
            return image

        self.probability_image_ = self.strength_image_ = None
        known = self.known
        self.known_image_ = show(known.values, ~known.mask, ListedColormap([_NO_EDGE, _KNOWN_EDGE]), Normalize(0, 1))
        if weights is None:
            image = self.probability_image_ = show(self.edge_probabilities, known.mask, _PROBABILITIES, Normalize(0, 1))
        else:
            self.ax_.set_facecolor(_UNKNOWN_WITHOUT_EDGE)
            strengths = self._strengths()
            sizes = np.abs(strengths) if strengths.size else np.array([0.0, 1.0])
            largest = sizes.max()
            if (strengths < 0).any():
                colours, scale = _SIGNED, Normalize(-largest, largest)
            else:  # by logarithms where strengths differ much
                is_wide = largest > 20 * sizes.min() > 0
                colours, scale = _STRENGTHS, LogNorm(sizes.min(), largest) if is_wide else Normalize(0, largest)
            image = self.strength_image_ = show(weights, self.adjacency != 1, colours, scale)
        if self._is_hatched():
            self._hatch()
        return image

    def _is_hatched(self) -> bool:
        # The lines are about four points apart.
        return bool(self.known.values.any()) and self._cell_in_points() > 4.0

    def _hatch(self) -> None:
        from matplotlib.collections import PolyCollection

        is_hatched = (self.known.mask & (self.known.values == 1))[np.ix_(self.node_order_, self.node_order_)]
        is_pale = np.zeros_like(is_hatched)
        if (image := self.strength_image_) is not None and (strengths := image.get_array()) is not None:
            is_pale = image.to_rgba(strengths)[..., :3].mean(-1) > 0.6
        corners = np.array([(-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5)])
        for colour, cells in ((_HATCH_COLOUR, is_hatched & ~is_pale), (_HATCH_ON_PALE, is_hatched & is_pale)):
            if cells.any():
                squares = np.argwhere(cells)[:, None, ::-1] + corners
                look: dict[str, Any] = {"facecolor": "none", "edgecolor": colour, "linewidth": 0, "hatch": _HATCH}
                self.ax_.add_collection(PolyCollection(squares, **look), autolim=False)

    def _draw_marks(self, weights: FloatArray | None) -> None:
        from matplotlib.patheffects import withStroke

        row_of_node, cell = np.argsort(self.node_order_), self._cell_in_points()
        self.marks_ = {}
        kinds = self._edges()
        if weights is not None:
            negative = EdgeSpace.of_mask(weights < 0, self.directed)
            kinds = {"negative": np.column_stack(negative.ends()), **kinds}
        for kind, pairs in kinds.items():
            if kind not in _MARKS or not len(pairs):
                continue
            look = dict(_MARKS[kind])
            is_decided = kind in ("inferred", "found")
            smallest = 0.0 if is_decided else _SMALLEST_ERROR
            size = max(look.pop("share") * cell, smallest) ** 2
            label = f"{look.pop('label')} ({len(pairs)})"
            cells = pairs if self.directed else np.concatenate([pairs, pairs[:, ::-1]])
            rows, columns = row_of_node[cells].T
            width = min(1.5, 0.12 * max(cell, smallest))
            mark = self.ax_.scatter(columns, rows, s=size, label=label, linewidth=width, zorder=3, **look)
            if is_decided and weights is not None:  # a weak edge is nearly white
                mark.set(edgecolor="black", linewidth=0.3 * width)
            if kind == "negative":
                mark.set_path_effects([withStroke(linewidth=2 * width, foreground="black")])
            if kind == "missed":  # a ring lies on cells as dark as itself
                mark.set_path_effects([withStroke(linewidth=2.5 * width, foreground="white")])
            self.marks_[kind] = mark

    def _cell_in_points(self) -> float:
        extent: Any = self.ax_.get_window_extent()
        cell: float = 72 * min(extent.width, extent.height) / self.figure_.dpi / len(self.node_order_)
        return cell

    def _label_nodes(self, node_names: list[Any] | None) -> None:
        if self.directed:
            self.ax_.set(xlabel="from node", ylabel="to node")
        elif node_names is None:
            self.ax_.set(xlabel="node", ylabel="node")
        if node_names is None:
            self.ax_.tick_params(labelbottom=False, labelleft=False, length=0)
            return
        names = [drawable(node_names[node]) for node in self.node_order_]
        # Names stand above, as in a table: the legend has the room beneath. A letter is a little over half as wide as
        # it is high, so a matrix whose side was n cells keeps n / (n + letters) of it, and a name fills most of a cell.
        letters = 0.55 * max(map(len, names), default=0)
        size = 0.85 * self._cell_in_points() * len(names) / (len(names) + letters)
        if size < 6.0:
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
        font_size, gap = 7.0, 10.0  # points; the gap is for the line from a name to the matrix
        sizes = label_sizes(names, font_size)
        side = self._cell_in_points() * len(names) - float(sizes[:, 0].max()) - gap
        distance = 1.15 * float(sizes[:, 1].max()) * len(names) / max(side, 1.0)  # in cells
        look: dict[str, Any] = {"fontsize": font_size, "annotation_clip": False, **LITERAL}
        leader: dict[str, Any] = {"arrowstyle": "-", "linewidth": 0.5, "color": "#7F7F7F", "shrinkA": 1, "shrinkB": 0}
        for axis in (0, 1):  # of the columns, above; of the rows, on the left
            importance = marked.max(axis)
            n_fit = int(len(names) / distance)
            ends = np.sort(np.argsort(-importance, kind="stable")[: min(n_fit, int((importance > 0).sum()))])
            for place, moved in zip(ends, spread(ends.astype(float), distance, -0.5, len(names) - 0.5), strict=True):
                text: dict[str, Any] = {"xy": (place, -0.5), "xytext": (moved, gap), "ha": "center", "va": "bottom"}
                text |= {"textcoords": ("data", "offset points"), "rotation": 90}
                if axis == 1:
                    text = {"xy": (-0.5, place), "xytext": (-gap, moved), "ha": "right", "va": "center"}
                    text["textcoords"] = ("offset points", "data")
                arrow = {**leader, "relpos": (1.0, 0.5) if axis == 1 else (0.5, 0.0)}
                self.ax_.annotate(names[place], **text, **look, arrowprops=arrow)

    def _draw_legend(self) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        handles: list[Any] = [Patch(facecolor=_NO_EDGE, edgecolor="black", linewidth=0.5, label="known absence")]
        if self.known.values.any():
            colour = _KNOWN_EDGE if self.strength_image_ is None else _STRENGTHS[2]
            look: dict[str, Any] = {"edgecolor": _HATCH_COLOUR, "linewidth": 0, "label": "known edge"}
            handles.insert(0, Patch(facecolor=colour, hatch=_HATCH if self._is_hatched() else None, **look))
        if self.strength_image_ is not None and self.known.n_unknown:
            handles.append(Patch(facecolor=_UNKNOWN_WITHOUT_EDGE, linewidth=0, label="no edge inferred"))
        labels = [str(entry.get_label()) for entry in (*handles, *self.marks_.values())]
        cells = {"missed": _PROBABILITIES[0], "negative": _SIGNED[2]}
        for kind in self.marks_:
            cell = {"marker": "s", "color": cells.get(kind, _PROBABILITIES[-2]), "markersize": 13}
            mark = {"marker": _MARKS[kind]["marker"], "markeredgewidth": 1.2, "markersize": 13 * _MARKS[kind]["share"]}
            mark |= {"markerfacecolor": _MARKS[kind]["facecolor"], "markeredgecolor": _MARKS[kind]["edgecolor"]}
            handles.append(tuple(Line2D([], [], linestyle="none", **layer) for layer in (cell, mark)))
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.06), "ncols": 3}
        self.ax_.legend(handles, labels, frameon=False, **place)


def spread(places: FloatArray, distance: float, low: float, high: float) -> FloatArray:
    """Ascending places, moved as little as possible (in squares) so that they keep a distance, within a range."""
    if not len(places):
        return places
    steps = distance * np.arange(len(places))
    moved: FloatArray = np.asarray(isotonic_regression(places - steps)) + steps
    # The bounds keep the distance themselves.
    bounded: FloatArray = np.clip(moved, low + steps, high - steps[::-1])
    return bounded


def _resolve_order(node_order: Any, adjacency: FloatArray) -> npt.NDArray[np.intp]:
    n_nodes = len(adjacency)
    if node_order is None:
        return np.arange(n_nodes)
    if isinstance(node_order, str):
        check_choice(node_order, "node_order", ("bandwidth",), "an order of the nodes")
        order = reverse_cuthill_mckee(sparse.csr_array(adjacency + adjacency.T), symmetric_mode=True)
        return np.asarray(order, dtype=np.intp)
    order = np.asarray(node_order)
    is_numbers = order.shape == (n_nodes,) and order.dtype.kind in "iuf"
    if not is_numbers or not np.array_equal(np.sort(order), np.arange(n_nodes)):
        raise ValueError(
            f"node_order={node_order!r}; expected 'bandwidth', None, or each node from 0 to {n_nodes - 1} once."
        )
    return order.astype(np.intp)
