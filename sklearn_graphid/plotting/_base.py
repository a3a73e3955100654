"""Code that the displays share: axes and colours, names as text, checks of arguments, and identified graphs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from .._utils._libraries import require
from .._utils._numbers import FloatArray, check_numeric
from ..graphs import EdgeSpace, KnownEdges
from ..graphs._known_edges import is_directed, nodes_of_known
from ..graphs._matrices import (
    NodeMatrix,
    as_square_array,
    check_edge_probabilities,
    check_graph,
    read_matrix,
)
from ..graphs._nodes import Nodes, first_named, unless_numbers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLUE",
    "GREY",
    "LITERAL",
    "ORANGE",
    "PALE_GREY",
    "PURPLE",
    "VERMILLION",
    "Display",
    "IdentifiedGraphDisplay",
    "Pairs",
    "check_array",
    "check_choice",
    "check_look",
    "check_mapping",
    "check_names",
    "check_text",
    "drawable",
    "label_sizes",
    "panel_beneath",
    "panels_on",
    "shortened",
]

# The colours of Okabe and Ito, which remain distinct to colour-blind readers. In print without colour the two darker
# ones differ from the greys but little from one another, so every use adds a line style or a marker.
BLUE = "#0072B2"
ORANGE = "#E69F00"
PURPLE = "#CC79A7"
VERMILLION = "#D55E00"
GREY = "#999999"
PALE_GREY = "#D9D9D9"

# Properties of a matplotlib text that is neither mathematics nor TeX: a dollar sign in a name is a dollar sign.
LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}

Pairs = npt.NDArray[np.intp]  # (n, 2) rows and columns; row < column unless directed, else target and source


# Axes


def panels_on(
    ax: Any,
    n_panels: int,
    panel_size: tuple[float, float],
    *,
    stacked: bool = False,
    share_x: bool = False,
    framed: bool = False,
    layout: str = "constrained",
) -> tuple[Any, Figure]:
    """An array of `n_panels` axes: those given, or one given axes divided, or those of a new figure.

    Unless `framed`, they lose the two sides of the frame that measure nothing.
    """
    from matplotlib.axes import Axes

    shape = (n_panels, 1) if stacked else (1, n_panels)
    options: dict[str, Any] = {"sharex": share_x, "squeeze": False}
    if ax is None:
        import matplotlib.pyplot as plt

        size = (panel_size[0] * shape[1], panel_size[1] * shape[0])
        panels = plt.subplots(*shape, figsize=size, layout=layout, **options)[1]
    elif isinstance(ax, Axes) and n_panels == 1:
        panels = [ax]
    elif isinstance(ax, Axes):
        place = ax.get_subplotspec()
        if place is None:
            raise ValueError(
                f"ax was not made by subplots and cannot be divided; expected one that was, or {n_panels} axes."
            )
        ax.set_axis_off()
        panels = place.subgridspec(*shape).subplots(**options)
    else:
        panels = _check_panels(ax, n_panels)
    panels = np.array(panels, dtype=object).ravel()
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(framed)
    return panels, panels[0].figure


def _check_panels(ax: Any, n_panels: int) -> list[Axes]:
    from matplotlib.axes import Axes

    if not isinstance(ax, list | tuple | np.ndarray):
        raise TypeError(f"ax is a {type(ax).__name__}; expected a matplotlib Axes, a sequence of them, or None.")
    panels = list(np.asarray(ax, dtype=object).ravel())
    if len(panels) != n_panels:
        raise ValueError(f"ax holds {len(panels)} axes; expected one, or {n_panels}, one for each panel.")
    for panel in panels:
        if not isinstance(panel, Axes):
            raise TypeError(f"ax holds a {type(panel).__name__}; expected matplotlib Axes only.")
    return panels


def panel_beneath(ax: Axes) -> Any:
    """Axes as wide as `ax` and hanging under it, which share its horizontal scale."""
    from matplotlib.transforms import BboxTransformTo, ScaledTranslation, blended_transform_factory

    # Its height is in inches: a share of the height of `ax` would change whenever a layout makes room for it.
    inches_below = ax.figure.dpi_scale_trans + ScaledTranslation(0, 0, BboxTransformTo(ax.bbox))
    place = blended_transform_factory(ax.transAxes, inches_below)
    beneath = ax.inset_axes((0, -1.0, 1, 0.8), transform=place, sharex=ax)
    beneath.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelbottom=False)
    return beneath


# Names as text


def shortened(text: str, length: int) -> str:
    """The text, or the beginning of it."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def drawable(name: Any, longest: int = 40) -> str:
    """A name on one line, of bounded length, without characters that no font has, such as half a surrogate pair."""
    characters = (character if character.isprintable() else " " for character in str(name))
    return shortened("".join(characters), longest)


def label_sizes(labels: Sequence[str], font_size: float) -> FloatArray:
    """Width and height of each label in points, as drawn; (n_labels, 2)."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import TextToPath

    font, ruler = FontProperties(size=font_size), TextToPath()
    widths = [ruler.get_text_width_height_descent(label, font, ismath=False)[0] for label in labels]
    # matplotlib makes every line as high as "lp", whatever letters it holds.
    _, height, _ = ruler.get_text_width_height_descent("lp", font, ismath=False)
    return np.column_stack([widths, np.full(len(widths), height)])


# Checks of arguments, before anything is drawn


def check_array(
    values: Any,
    name: str,
    shape: tuple[int | str, ...],
    *,
    finite: bool = True,
    missing: bool = False,
    optional: bool = False,
) -> Any:
    """Numbers of a shape, in which a word stands for any length; those that are `missing` may be nan, but not all."""
    if values is None and optional:
        return None
    check_numeric(values, name)
    array = np.ma.filled(np.ma.array(values, dtype=np.float64), np.nan)
    fits = [isinstance(length, str) or length == found for length, found in zip(shape, array.shape, strict=False)]
    if array.ndim != len(shape) or not all(fits) or not array.size:
        expected = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
        raise ValueError(f"{name} has shape {array.shape}; expected ({expected}).")
    if missing and (np.isinf(array).any() or np.isnan(array).all()):
        raise ValueError(f"{name} holds infinity or nothing but nan; expected finite numbers, and nan where unknown.")
    if finite and not missing and not np.isfinite(array).all():
        raise ValueError(f"{name} holds {array[~np.isfinite(array)][0]}; expected finite numbers.")
    return array


def check_choice(value: Any, name: str, choices: tuple[str, ...], otherwise: str = "") -> None:
    """Refuse all but a few words; `otherwise` says what else the caller takes."""
    if not isinstance(value, str) or value not in choices:
        shown = f"{name}={value!r}" if isinstance(value, str | int | float) else f"{name} is a {type(value).__name__}"
        words = [repr(choice) for choice in choices] + [otherwise] * bool(otherwise)
        raise ValueError(f"{shown}; expected {', '.join(words[:-1])} or {words[-1]}.")


def check_text(value: Any, name: str) -> None:
    """Refuse all but a string or None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a str or None.")


def check_mapping(value: Any, name: str, expected: str) -> None:
    """Refuse all but a mapping."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is a {type(value).__name__}; expected {expected}.")


def check_look(value: Any, name: str, kind: str = "color") -> None:
    """Refuse what matplotlib does not take for one "color", "marker" or "linestyle"."""
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D
    from matplotlib.markers import MarkerStyle

    looks: dict[str, tuple[Callable[[Any], Any], str]] = {
        "color": (to_rgba, "color, such as 'red', '#D55E00' or (0.8, 0.4, 0)"),
        "marker": (MarkerStyle, "marker, such as 'o' or 'X'"),
        "linestyle": (lambda style: Line2D([], [], linestyle=style), "line style, such as '-' or '--'"),
    }
    build, expected = looks[kind]
    # None would stand for what matplotlib's settings say, which the legend and the other parts do not follow.
    if value is None:
        raise TypeError(f"{name} is None; expected a matplotlib {expected}.")
    try:
        build(value)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{name}={value!r}; expected a matplotlib {expected}.") from error


def check_names(names: Any, n_things: int, argument: str = "node_names", thing: str = "node") -> list[Any]:
    """A name of any type for each thing, in order; numbers where there are no names."""
    if names is None:
        return list(range(n_things))
    # The nodes of a networkx graph are both a set and a mapping, and yet in order; a plain set is not, and the keys of
    # a plain dict are hardly the names.
    is_ordered = hasattr(names, "__len__") and hasattr(names, "__iter__")
    if not is_ordered or isinstance(names, str | bytes | dict | set | frozenset):
        raise TypeError(f"{argument} is a {type(names).__name__}; expected a sequence with a name for each {thing}.")
    listed = list(names)
    if len(listed) != n_things:
        raise ValueError(
            f"{argument} has {len(listed)} names for {n_things} {thing}s; expected {n_things}, one for each {thing}."
        )
    return listed


# Displays


@dataclass(kw_only=True, eq=False, repr=False)
class Display:
    """Base class for displays, of which the constructor checks the data, and `plot` draws them."""

    def __post_init__(self) -> None:
        require("matplotlib", type(self).__name__)

    @classmethod
    def _read(cls, estimator: Any, *names: str) -> tuple[Any, ...]:
        """Attributes of a fitted estimator, or an error that says which one is missing."""
        check_is_fitted(estimator)
        missing = [name for name in names if not hasattr(estimator, name)]
        if missing:
            raise TypeError(
                f"{type(estimator).__name__} has no {' and no '.join(missing)}, which {cls.__name__} draws; expected "
                f"an estimator that has {' and '.join(names)} after fit."
            )
        return tuple(getattr(estimator, name) for name in names)


@dataclass(kw_only=True, eq=False, repr=False)
class IdentifiedGraphDisplay(Display, ABC):
    """Base class for displays of an identified graph, made from an identifier or from edge probabilities."""

    edge_probabilities: Any
    known: Any = None
    adjacency: Any = None
    true_adjacency: Any = None
    node_names: Any = None
    weights: Any = None
    directed: Any = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.directed = directed = is_directed(self.known, self.directed)
        square = read_matrix(self.edge_probabilities, "edge_probabilities", directed=directed)
        # What an identifier found is an array without names, in the order of what it was told was known.
        nodes = Nodes(first_named(square.nodes, nodes_of_known(self.known)).names, "edge_probabilities")
        n_nodes = len(as_square_array(square, "edge_probabilities"))
        self.edge_probabilities = check_edge_probabilities(square, n_nodes, "edge_probabilities", directed=directed)
        for name, read in (("adjacency", check_graph), ("true_adjacency", check_graph), ("weights", read_matrix)):
            if getattr(self, name) is None:
                continue
            matrix = read(getattr(self, name), name, directed=directed)
            if (n_given := len(as_square_array(matrix, name))) != n_nodes:
                raise ValueError(
                    f"{name} has {n_given} nodes but edge_probabilities has {n_nodes}; expected {n_nodes}."
                )
            setattr(self, name, matrix.in_order_of(nodes))
        if self.adjacency is None:
            self.adjacency = (self.edge_probabilities > 0.5).astype(float)
        # A boolean array says where pairs are known; their values are then those of the graph itself.
        self.known = KnownEdges.of_graph(self.known, NodeMatrix(self.adjacency, nodes), nodes, directed)
        if self.weights is not None:
            is_edge = self.adjacency == 1
            for i, j in np.argwhere(is_edge & ~(np.isfinite(self.weights) & (self.weights != 0)))[:1]:
                value = self.weights[i, j]
                raise ValueError(f"weights[{i}, {j}] is {value:g}, but there is an edge; expected its strength.")
            strengths = np.where(is_edge, self.weights, 0.0)
            self.weights = check_graph(strengths, "weights", directed=directed, weighted=True).values

    @classmethod
    def from_estimator(cls, estimator: Any, *, true_adjacency: Any = None, **plot_options: Any) -> Self:
        """Draw the graph that an identifier found, with strengths if it has `weights_`; see `plot` for the options."""
        return cls._found_by(estimator, true_adjacency).plot(**plot_options)

    @classmethod
    def from_predictions(
        cls,
        edge_probabilities: Any,
        known: Any = None,
        *,
        adjacency: Any = None,
        true_adjacency: Any = None,
        node_names: Any = None,
        weights: Any = None,
        directed: bool | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw a graph that is given by its edge probabilities; see the class and `plot` for the arguments."""
        given = {"adjacency": adjacency, "true_adjacency": true_adjacency, "weights": weights, "directed": directed}
        display = cls(edge_probabilities=edge_probabilities, known=known, node_names=node_names, **given)
        return display.plot(**plot_options)

    @classmethod
    def _found_by(cls, estimator: Any, true_adjacency: Any = None) -> Self:
        attributes = ("edge_probabilities_", "adjacency_", "known_edges_")
        probabilities, adjacency, known = cls._read(estimator, *attributes)
        return cls(
            edge_probabilities=probabilities,
            known=known,
            adjacency=adjacency,
            true_adjacency=true_adjacency,
            node_names=known.names and unless_numbers(known.names),
            weights=getattr(estimator, "weights_", None),
        )

    @abstractmethod
    def plot(self, *args: Any, **options: Any) -> Self:
        """Draw the graph."""

    def _edges(self) -> dict[str, Pairs]:
        """Pairs by kind: "known" edges and "unknown" pairs, and "inferred" edges, or with the truth "found" ones, which
        are true, "missed" and "false" ones.
        """
        unknown = ~self.known.mask
        inferred = unknown & (self.adjacency == 1)
        kinds = {"unknown": unknown, "known": self.known.values == 1, "inferred": inferred}
        if self.true_adjacency is not None:
            del kinds["inferred"]
            is_true = self.true_adjacency == 1
            kinds |= {"found": inferred & is_true, "missed": unknown & is_true & ~inferred}
            kinds["false"] = inferred & ~is_true
        space = {kind: EdgeSpace.of_mask(mask, self.known.directed) for kind, mask in kinds.items()}
        return {kind: np.column_stack(pairs.ends()) for kind, pairs in space.items()}

    def _strengths(self) -> FloatArray:
        """Strengths of all edges, in any order; empty where edges have none."""
        return np.zeros(0) if self.weights is None else self.weights[self.adjacency == 1]
