"""What goes into an identification and what comes out of it, in types, so that nothing can be forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils._findings import Finding
from .._utils._numbers import FloatArray
from ..filters import GraphFilter
from ..graphs import KnownEdges

__all__ = ["Experiments", "Identification"]


@dataclass(frozen=True)
class Experiments:
    """What `fit` was given, checked: numbers in the order of X's columns."""

    inputs: FloatArray  # (experiments, nodes)
    outputs: FloatArray  # (experiments, nodes), nan where nothing was measured
    known: KnownEdges
    filter: GraphFilter  # a copy, so that later changes to the parameter leave the fit alone
    given: dict[str, Any]  # "X" and "y" as they came, for callbacks that score

    @property
    def n_measured(self) -> int:
        """How many outputs were measured."""
        return int((~np.isnan(self.outputs)).sum())

    @property
    def output_power(self) -> float:
        """Mean square of the measured outputs; infinite where they are beyond 1e154."""
        with np.errstate(over="ignore"):
            return float(np.nanmean(self.outputs**2))


@dataclass(frozen=True)
class Identification:
    """What every identifier finds. A field `name` becomes the fitted attribute `name_`.

    An identifier that finds more derives a dataclass with more fields.
    """

    edge_probabilities: FloatArray  # (nodes, nodes)
    adjacency: npt.NDArray[np.int64]  # (nodes, nodes)
    theta: FloatArray  # (parameters,)
    noise_std: float
    diagnostics: dict[str, Any] = field(default_factory=dict)
    findings: tuple[Finding, ...] = field(default=(), metadata={"private": True})

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes by name."""
        values = {part.name: (getattr(self, part.name), "private" in part.metadata) for part in fields(self)}
        return {f"_{name}" if is_private else f"{name}_": value for name, (value, is_private) in values.items()}
