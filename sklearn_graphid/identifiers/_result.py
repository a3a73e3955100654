"""What goes into an identification and what comes out of it, in types, so that nothing can be forgotten."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils._findings import Finding
from .._utils._numbers import FloatArray
from ..filters import GraphFilter
from ..graphs import KnownEdges

__all__ = ["Experiments", "Identification"]

# Fitted attributes that hold theta, and those that say how uncertain it is, parameters being their last axis.
_OF_THETA = ("theta_", "theta_refitted_", "theta_samples_")
_SPREAD_OF_THETA = ("theta_std_", "theta_standard_error_")


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
    """What an identifier finds: a field `name` becomes the fitted attribute `name_`."""

    edge_probabilities: FloatArray  # (nodes, nodes)
    adjacency: npt.NDArray[np.int64]  # (nodes, nodes)
    theta: FloatArray  # (parameters,)
    noise_std: float
    diagnostics: dict[str, Any] = field(default_factory=dict)
    weights: FloatArray | None = None  # (nodes, nodes), where edges have strengths
    weights_std: FloatArray | None = None  # (nodes, nodes), where strengths have a known spread
    findings: tuple[Finding, ...] = ()
    further: dict[str, Any] = field(default_factory=dict)  # fitted attributes of one method, by their full names

    @property
    def matrix(self) -> FloatArray:
        """The graph as a filter takes it: strengths, or zeros and ones where edges have none."""
        return self.adjacency.astype(np.float64) if self.weights is None else self.weights

    def attributes(self, experiments: Experiments) -> dict[str, Any]:
        """Fitted attributes by name. Fixed parameters are as they were given, not as single precision has them."""
        found = {
            "known_edges_": experiments.known,
            "filter_": experiments.filter,
            "edge_probabilities_": self.edge_probabilities,
            "adjacency_": self.adjacency,
            "theta_": self.theta,
            "noise_std_": self.noise_std,
            "diagnostics_": self.diagnostics,
            "_edge_weights": self.weights,
            "_edge_weights_std": self.weights_std,
            "_findings": self.findings,
            **self.further,
        }
        fixed = experiments.filter.fixed_values()
        for name in found.keys() & {*_OF_THETA, *_SPREAD_OF_THETA}:
            found[name] = found[name].copy()
            for place, value in fixed.items():
                found[name][..., place] = 0.0 if name in _SPREAD_OF_THETA else value
        return found
