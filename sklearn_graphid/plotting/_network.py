"""What there is to draw of an identified network: every pair's probability, decision and fate."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._known_edges import KnownEdges
from .._validation import FloatArray, as_square_array, check_adjacency, check_edge_probabilities
from ._style import fitted_attributes

__all__ = ["Network", "Pairs"]

Pairs = npt.NDArray[np.intp]  # (n, 2), row < column


class Network(NamedTuple):
    """An identified network and, where it is known, the truth."""

    edge_probabilities: FloatArray
    adjacency: FloatArray
    known: KnownEdges
    true_adjacency: FloatArray | None

    @classmethod
    def check(cls, edge_probabilities: Any, adjacency: Any, known: Any, true_adjacency: Any) -> Network:
        """Validate what a user hands over; without `adjacency`, an edge is what has more than even odds."""
        square = as_square_array(edge_probabilities, "edge_probabilities")
        n_nodes = len(square)
        probabilities = check_edge_probabilities(square, n_nodes, "edge_probabilities")
        decided = (probabilities > 0.5).astype(float) if adjacency is None else check_adjacency(adjacency)
        truth = None if true_adjacency is None else check_adjacency(true_adjacency, "true_adjacency")
        for name, matrix in (("adjacency", decided), ("true_adjacency", truth)):
            if matrix is not None and len(matrix) != n_nodes:
                raise ValueError(
                    f"{name} has {len(matrix)} nodes but edge_probabilities has {n_nodes}; expected as many."
                )
        # A boolean array says where pairs are known; their values are then those of the network itself.
        values = decided if getattr(known, "dtype", None) == np.dtype(bool) else None
        names = {"name": "known", "reference": "edge_probabilities"}
        return cls(probabilities, decided, KnownEdges.coerce(known, values, n_nodes=n_nodes, **names), truth)

    @classmethod
    def of(cls, caller: str, estimator: Any, true_adjacency: Any) -> Network:
        """What a fitted identifier found."""
        names = ("edge_probabilities_", "adjacency_", "known_edges_")
        probabilities, adjacency, known = fitted_attributes(caller, estimator, *names)
        return cls.check(probabilities, adjacency, known, true_adjacency)

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return len(self.adjacency)

    def links(self) -> dict[str, Pairs]:
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
        return {kind: np.argwhere(np.triu(mask, 1)) for kind, mask in kinds.items()}
