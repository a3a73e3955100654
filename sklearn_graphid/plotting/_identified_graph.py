"""Data shared by the displays of an identified graph: probability and decision of every pair, and the truth."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from ..graphs import EdgeSpace, KnownEdges
from ..graphs._known_edges import is_directed, nodes_of_known
from ..graphs._matrices import (
    NodeMatrix,
    as_square_array,
    check_edge_probabilities,
    check_graph,
    read_matrix,
)
from ..graphs._nodes import Names, Nodes, first_named
from ._style import fitted_attributes, needs_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["IdentifiedGraph", "IdentifiedGraphDisplay", "Pairs"]

Pairs = npt.NDArray[np.intp]  # (n, 2) rows and columns; row < column unless directed, else target and source


class IdentifiedGraph(NamedTuple):
    """An identified graph and, where it is known, the truth."""

    edge_probabilities: FloatArray
    adjacency: FloatArray
    known: KnownEdges
    true_adjacency: FloatArray | None
    weights: FloatArray | None = None

    @classmethod
    def check(
        cls,
        edge_probabilities: Any,
        adjacency: Any,
        known: Any,
        true_adjacency: Any,
        directed: bool | None = None,
        weights: Any = None,
    ) -> IdentifiedGraph:
        """Validate what a user hands over; without `adjacency`, an edge is what has more than even odds."""
        directed = is_directed(known, directed)
        square = read_matrix(edge_probabilities, "edge_probabilities", directed=directed)
        # What an identifier found is an array without names, in the order of what it was told was known.
        nodes = Nodes(first_named(square.nodes, nodes_of_known(known)).names, "edge_probabilities")
        n_nodes = len(as_square_array(square, "edge_probabilities"))
        probabilities = check_edge_probabilities(square, n_nodes, "edge_probabilities", directed=directed)
        checked: dict[str, FloatArray] = {}
        for name, graph in (("adjacency", adjacency), ("true_adjacency", true_adjacency)):
            if graph is None:
                continue
            matrix = check_graph(graph, name, directed=directed)
            if len(matrix.values) != n_nodes:
                raise ValueError(
                    f"{name} has {len(matrix.values)} nodes but edge_probabilities has {n_nodes}; expected {n_nodes}."
                )
            checked[name] = matrix.in_order_of(nodes)
        decided = checked.get("adjacency", (probabilities > 0.5).astype(float))
        # A boolean array says where pairs are known; their values are then those of the graph itself.
        is_known = KnownEdges.of_graph(known, NodeMatrix(decided, nodes), nodes, directed)
        strengths = None
        if weights is not None:
            matrix = read_matrix(weights, "weights", directed=directed)
            strengths = _check_weights(matrix.in_order_of(nodes), decided, directed)
        return cls(probabilities, decided, is_known, checked.get("true_adjacency"), strengths)

    @classmethod
    def of(cls, caller: str, estimator: Any, true_adjacency: Any) -> IdentifiedGraph:
        """What a fitted identifier found."""
        names = ("edge_probabilities_", "adjacency_", "known_edges_")
        probabilities, adjacency, known = fitted_attributes(caller, estimator, *names)
        weights = getattr(estimator, "weights_", None)
        return cls.check(probabilities, adjacency, known, true_adjacency, weights=weights)

    @property
    def directed(self) -> bool:
        """Whether edges have directions."""
        return self.known.directed

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self.adjacency)

    def edges(self) -> dict[str, Pairs]:
        """Pairs by what became of them.

        "known" edges and "unknown" pairs always; without the truth "inferred" edges; with it "found" ones, which are
        true, "missed" and "false" ones.
        """
        unknown = ~self.known.mask
        inferred = unknown & (self.adjacency == 1)
        kinds = {"unknown": unknown, "known": self.known.values == 1}
        if self.true_adjacency is None:
            kinds["inferred"] = inferred
        else:
            is_true = self.true_adjacency == 1
            kinds |= {
                "found": inferred & is_true,
                "missed": unknown & is_true & ~inferred,
                "false": inferred & ~is_true,
            }
        return {kind: np.column_stack(EdgeSpace.of_mask(mask, self.directed).ends()) for kind, mask in kinds.items()}


def _check_weights(weights: FloatArray, adjacency: FloatArray, directed: bool) -> FloatArray:
    """Strengths of the edges of a graph, zero elsewhere."""
    square = as_square_array(weights, "weights")
    if square.shape != adjacency.shape:
        raise ValueError(
            f"weights has {len(square)} nodes but edge_probabilities has {len(adjacency)}; expected as many."
        )
    is_edge = adjacency == 1
    odd = is_edge & ~(np.isfinite(square) & (square != 0))
    if odd.any():
        i, j = np.argwhere(odd)[0]
        raise ValueError(f"weights[{i}, {j}] is {square[i, j]:g}, but there is an edge; expected its strength.")
    strengths: FloatArray = np.where(is_edge, square, 0.0)
    if not directed and not np.allclose(strengths, strengths.T):
        raise ValueError("weights is not symmetric; expected strengths of an undirected graph, or directed=True.")
    return strengths


@dataclass(kw_only=True, eq=False, repr=False)
class IdentifiedGraphDisplay(ABC):
    """Base class for displays of an identified graph, made from an identifier or from edge probabilities."""

    edge_probabilities: FloatArray
    adjacency: FloatArray
    known: Any
    true_adjacency: FloatArray | None = None
    node_names: Any = None
    weights: FloatArray | None = None

    @classmethod
    @needs_matplotlib
    def from_estimator(
        cls, estimator: Any, *, true_adjacency: Any = None, ax: Axes | None = None, **plot_options: Any
    ) -> Self:
        """Draw the graph that an identifier found.

        Parameters
        ----------
        estimator : fitted identifier
            The identifier, such as a `LangevinSystemIdentifier`. If it has `weights_`, the strengths of edges are
            shown.
        true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
            The true graph, to mark missed and false edges.
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is created.
        **plot_options
            Passed to `plot`.

        Returns
        -------
        Self
            The display.
        """
        graph = IdentifiedGraph.of(cls.__name__, estimator, true_adjacency)
        names = cls._shown_names(estimator.known_edges_.names)
        return cls(**graph._asdict(), node_names=names).plot(ax, **plot_options)

    @classmethod
    @needs_matplotlib
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
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw a graph that is given by its edge probabilities.

        Parameters
        ----------
        edge_probabilities : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes)
            Probability of every edge, or zeros and ones.
        known : KnownEdges or array of shape (n_nodes, n_nodes), default=None
            The known pairs: a `KnownEdges`, an array with 0, 1 and nan where unknown, or a boolean array (True =
            known). If None, nothing is known.
        adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
            The identified graph. If None, its edges are the pairs whose probability is above one half.
        true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
            The true graph, as in `from_estimator`.
        node_names : sequence, default=None
            Names of the nodes.
        weights : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
            Strengths of the edges; entries of other pairs are ignored. If None, edges have no strengths.
        directed : bool or None, default=None
            Whether the graph is directed. If None, it is directed if `known` is a `KnownEdges` of a directed graph.
        ax, **plot_options : as in `plot`
            Passed to `plot`.

        Returns
        -------
        Self
            The display.
        """
        graph = IdentifiedGraph.check(edge_probabilities, adjacency, known, true_adjacency, directed, weights)
        return cls(**graph._asdict(), node_names=node_names).plot(ax, **plot_options)

    def _graph(self) -> IdentifiedGraph:
        return IdentifiedGraph(
            self.edge_probabilities, self.adjacency, self.known, self.true_adjacency, weights=self.weights
        )

    def _strengths(self) -> FloatArray:
        """Those of all edges, in any order; none where edges have none."""
        return np.zeros(0) if self.weights is None else self.weights[self.adjacency == 1]

    @abstractmethod
    def plot(self, *args: Any, **options: Any) -> Self:
        """Draw the graph."""

    @classmethod
    def _shown_names(cls, names: Names | None) -> Names | None:
        """The names of an identifier's nodes, as far as the picture shows them without being asked."""
        return names
