"""What there is to draw of an identified graph: every pair's probability, decision and fate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from ..graphs import EdgeSpace, KnownEdges
from ..graphs._known_edges import names_of_known
from ..graphs._names import first_names
from ..graphs._validation import (
    NamedMatrix,
    as_square_array,
    check_edge_probabilities,
    check_named_adjacency,
    read_matrix,
)
from ._style import fitted_attributes

__all__ = ["IdentifiedGraph", "Pairs"]

Pairs = npt.NDArray[np.intp]  # (n, 2), row < column


class IdentifiedGraph(NamedTuple):
    """An identified graph and, where it is known, the truth."""

    edge_probabilities: FloatArray
    adjacency: FloatArray
    known: KnownEdges
    true_adjacency: FloatArray | None

    @classmethod
    def check(cls, edge_probabilities: Any, adjacency: Any, known: Any, true_adjacency: Any) -> IdentifiedGraph:
        """Validate what a user hands over; without `adjacency`, an edge is what has more than even odds."""
        square = read_matrix(edge_probabilities, "edge_probabilities")
        # What an identifier found is an array without names, in the order of what it was told was known.
        names = first_names(square.names, names_of_known(known))
        n_nodes = len(as_square_array(square, "edge_probabilities"))
        probabilities = check_edge_probabilities(square, n_nodes, "edge_probabilities")
        checked: dict[str, FloatArray] = {}
        for name, graph in (("adjacency", adjacency), ("true_adjacency", true_adjacency)):
            if graph is None:
                continue
            matrix = check_named_adjacency(graph, name)
            if len(matrix.values) != n_nodes:
                raise ValueError(
                    f"{name} has {len(matrix.values)} nodes but edge_probabilities has {n_nodes}; expected as many."
                )
            checked[name] = matrix.in_order_of(names, name, "edge_probabilities")
        decided = checked.get("adjacency", (probabilities > 0.5).astype(float))
        # A boolean array says where pairs are known; their values are then those of the graph itself.
        is_known = KnownEdges.of_graph(known, NamedMatrix(decided, names), names, "edge_probabilities")
        return cls(probabilities, decided, is_known, checked.get("true_adjacency"))

    @classmethod
    def of(cls, caller: str, estimator: Any, true_adjacency: Any) -> IdentifiedGraph:
        """What a fitted identifier found."""
        names = ("edge_probabilities_", "adjacency_", "known_edges_")
        probabilities, adjacency, known = fitted_attributes(caller, estimator, *names)
        return cls.check(probabilities, adjacency, known, true_adjacency)

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
        return {kind: np.column_stack(EdgeSpace.of_mask(mask).ends()) for kind, mask in kinds.items()}
