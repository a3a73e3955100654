"""What goes into an identification and what comes out of it, in types, so that nothing can be forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from .._utils._findings import Finding
from .._utils._numbers import FloatArray
from ..filters import GraphFilter
from ..graphs import KnownEdges

__all__ = ["Experiments", "Identification"]

# Fields of an identification that hold theta, and those that say how uncertain it is, parameters being their last axis.
_OF_THETA = ("theta", "theta_refitted", "theta_samples")
_SPREAD_OF_THETA = ("theta_std", "theta_standard_error")


@dataclass(frozen=True)
class Experiments:
    """What `fit` was given, checked: numbers in the order of X's columns."""

    inputs: FloatArray  # (experiments, nodes)
    outputs: FloatArray  # (experiments, nodes), nan where nothing was measured
    known: KnownEdges
    filter: GraphFilter  # a copy, so that later changes to the parameter leave the fit alone
    given: dict[str, Any]  # "X" and "y" as they came, for callbacks that score
    input_mean: FloatArray | float = 0.0  # (nodes,) that were taken off the inputs, where nodes have offsets
    output_mean: FloatArray | float = 0.0  # (nodes,) that were taken off the outputs

    def centred(self) -> Experiments:
        """The same with each node's mean taken off inputs and outputs.

        A linear filter turns a change of the inputs' mean into a change of the offsets, so that nothing is lost.
        """
        n_measured = (~np.isnan(self.outputs)).sum(0)
        input_mean = self.inputs.mean(0)
        output_mean = np.nansum(self.outputs, axis=0) / np.maximum(n_measured, 1)
        # What is constant has a mean that may differ from it by rounding, which is no signal.
        is_constant = np.ptp(self.inputs, axis=0) == 0
        inputs, outputs = np.where(is_constant, 0.0, self.inputs - input_mean), self.outputs - output_mean
        return replace(self, inputs=inputs, outputs=outputs, input_mean=input_mean, output_mean=output_mean)

    def name_of_row(self, row: int) -> Any:
        """What an experiment is called: its label in the index of X or Y, or its number."""
        for table in (self.given.get("X"), self.given.get("y")):
            index: Any = getattr(table, "index", None)
            # Lists have a method of this name, and the labels that pandas gives by default are numbers.
            if hasattr(index, "has_duplicates") and type(index).__name__ != "RangeIndex":
                return index[row]
        return row

    def name_of_node(self, node: int) -> Any:
        """What a node is called, or its number."""
        return node if self.known.names is None else self.known.names[node]

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

    def with_fixed_parameters(self, filter: GraphFilter) -> Self:
        """The same with parameters that were given exactly as they were given, not as single precision has them."""
        changes = {name: getattr(self, name).copy() for name in (*_OF_THETA, *_SPREAD_OF_THETA) if hasattr(self, name)}
        for place, value in filter.fixed_values().items():
            for name, array in changes.items():
                array[..., place] = 0.0 if name in _SPREAD_OF_THETA else value
        return replace(self, **changes)

    def attributes(self) -> dict[str, Any]:
        """Fitted attributes by name; what is None was not sought."""
        values = {part.name: (getattr(self, part.name), "private" in part.metadata) for part in fields(self)}
        named = {f"_{name}" if is_private else f"{name}_": value for name, (value, is_private) in values.items()}
        return {name: value for name, value in named.items() if value is not None}
