"""What a fitted identifier has, whatever its class."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from ..filters import GraphFilter
from ..graphs import KnownEdges

__all__ = ["FittedIdentifier"]


class FittedIdentifier(Protocol):
    """What scorers, tables and displays read of an identifier; they need not know its class."""

    adjacency_: npt.NDArray[np.int64]
    edge_probabilities_: FloatArray
    filter_: GraphFilter
    known_edges_: KnownEdges
    node_names_: list[Any]
    theta_: FloatArray

    def predict(self, X: npt.ArrayLike) -> FloatArray:
        """The outputs of the identified system."""
