"""The base class of identifiers: `fit`, what it passes on, and the methods of a fitted graph and theta."""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import Tags, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from .._utils._libraries import CallbackSupportMixin, fit_context, require, shown_progress, with_callbacks
from .._utils._numbers import FloatArray, check_integer, check_random_state
from .._utils._torch import torch_threads
from .._utils._warnings import warn_caller
from ..filters import GraphFilter, resolve_filter
from ..graphs import EdgeSpace, KnownEdges
from ..graphs._matrices import as_numbers
from ..graphs._nodes import Nodes
from ..scorers import outputs_and_predictions, outputs_r2, read_outputs
from ._columns import (
    match_outputs,
    nodes_of_outputs,
    refuse_missing_inputs,
    row_order,
    warn_of_doubtful_data,
    warn_of_unnamed_columns,
)

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

__all__ = ["BaseSystemIdentifier", "Experiments", "Finding", "Identification"]

# Fitted attributes that hold theta, and those that say how uncertain it is; parameters are their last axis.
_OF_THETA = ("theta_", "theta_refitted_", "theta_samples_")
_SPREAD_OF_THETA = ("theta_std_", "theta_standard_error_")


@dataclass(frozen=True)
class Experiments:
    """Validated arguments of `fit`: numbers in the order of X's columns."""

    inputs: FloatArray  # (experiments, nodes)
    outputs: FloatArray  # (experiments, nodes), nan where nothing was measured
    known: KnownEdges
    filter: GraphFilter  # a copy, so that later changes to the parameter leave the fit alone
    given: dict[str, Any]  # "X" and "y" as they came, for callbacks that score; empty once a fit has ended
    row_names: Sequence[Any]  # labels of the experiments in the index of X or Y, or their numbers
    input_mean: FloatArray | float = 0.0  # (nodes,) that were taken off the inputs, where nodes have offsets
    output_mean: FloatArray | float = 0.0  # (nodes,) that were taken off the outputs

    def centred(self) -> Experiments:
        """Subtract each node's mean from inputs and outputs; with offsets, a linear filter loses nothing by it."""
        n_measured = (~np.isnan(self.outputs)).sum(0)
        input_mean = self.inputs.mean(0)
        output_mean = np.nansum(self.outputs, axis=0) / np.maximum(n_measured, 1)
        # What is constant has a mean that may differ from it by rounding, which is no signal.
        is_constant = np.ptp(self.inputs, axis=0) == 0
        inputs, outputs = np.where(is_constant, 0.0, self.inputs - input_mean), self.outputs - output_mean
        return replace(self, inputs=inputs, outputs=outputs, input_mean=input_mean, output_mean=output_mean)

    @property
    def node_names(self) -> list[Any]:
        """Names of the nodes, or their numbers."""
        return list(range(self.known.n_nodes) if self.known.names is None else self.known.names)

    @property
    def n_measured(self) -> int:
        """Number of outputs that were measured."""
        return int((~np.isnan(self.outputs)).sum())

    @property
    def output_power(self) -> float:
        """Mean square of the measured outputs; infinite where they are beyond 1e154."""
        with np.errstate(over="ignore"):
            return float(np.nanmean(self.outputs**2))


class Finding(NamedTuple):
    """Something to know about a fit: "trouble" is worth a warning, "caution" a remark, "good" is good.

    The warning is one sentence, the same wherever the trouble is the same, so that Python shows it once for the many
    fits of a search. What differs from fit to fit is in the text for the report and in `diagnostics_`.
    """

    severity: Literal["trouble", "caution", "good"]
    text: str  # for the report
    warning: str = ""  # one sentence of less than 160 characters
    category: type[Warning] = UserWarning

    @classmethod
    def trouble(cls, text: str, warning: str | None = None, category: type[Warning] = UserWarning) -> Self:
        """A finding to warn of; in the words of the report unless others are given."""
        return cls("trouble", text, text if warning is None else warning, category)


@dataclass(frozen=True)
class Identification:
    """Result of an identifier: a field `name` becomes the fitted attribute `name_`."""

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


def _row_names(X: Any, Y: Any, n_rows: int) -> Sequence[Any]:
    for table in (X, Y):
        index: Any = getattr(table, "index", None)
        # Lists have a method of this name, and the labels that pandas gives by default are numbers.
        if hasattr(index, "has_duplicates") and type(index).__name__ != "RangeIndex":
            return list(index)
    return range(n_rows)


def _restore_on_failure(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Make a fit that fails leave the estimator as it was."""

    @functools.wraps(fit)
    def careful_fit(estimator: BaseSystemIdentifier, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(estimator))
        try:
            return fit(estimator, *args, **kwargs)
        except BaseException:
            # scikit-learn's own bookkeeping of callbacks is still needed on the way out.
            now = {name: value for name, value in vars(estimator).items() if name.startswith(("_skl", "_callback"))}
            estimator.__dict__.clear()
            estimator.__dict__.update(before | now)
            raise

    return careful_fit


class BaseSystemIdentifier(CallbackSupportMixin, RegressorMixin, BaseEstimator, ABC):
    """Base class of identifiers. Rows of X and Y are experiments, and columns are nodes.

    A subclass has the parameters `filter` and `observed_nodes`, and implements `_identify`, which turns validated
    `Experiments` into an `Identification`.

    Attributes
    ----------
    adjacency_ : ndarray of shape (n_nodes, n_nodes)
        The identified graph, 0 or 1. Known pairs keep their values.
    edge_probabilities_ : ndarray of shape (n_nodes, n_nodes)
        Probability or weight of every edge; 0 or 1 for known pairs.
    theta_ : ndarray of shape (n_parameters,)
        The filter's parameters.
    noise_std_ : float
        The noise level.
    diagnostics_ : dict
        Diagnostics of the method.
    known_edges_ : KnownEdges
        The known pairs.
    filter_ : GraphFilter
        The filter that was used.
    node_names_ : list
        Names of the nodes: those of X's columns, else those of the known pairs, else numbers.
    """

    # Under metadata routing, what is known goes to fit without being asked for.
    __metadata_request__fit = {"known_mask": True, "known_adjacency": True}

    _parameter_constraints: dict[str, Any] = {"filter": [str, GraphFilter], "observed_nodes": [str, "array-like"]}

    filter: Any
    observed_nodes: Any

    filter_: GraphFilter
    node_names_: list[Any]
    known_edges_: KnownEdges
    edge_probabilities_: FloatArray
    adjacency_: npt.NDArray[np.int64]
    theta_: FloatArray
    noise_std_: float
    # An identifier without offsets leaves these as they are: predictions are h(A) (X - center) + level.
    intercept_: Any = 0.0
    _input_center: Any = 0.0  # (nodes,)
    _output_level: Any = 0.0  # (nodes,)

    _experiments: Experiments
    _edge_weights: FloatArray | None = None  # of a fit in which edges have strengths
    _edge_weights_std: FloatArray | None = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        # Arbitrary regression data do not come from a graph filter.
        tags.regressor_tags.poor_score = True
        return tags

    @property
    def weights_(self) -> FloatArray:
        """Strengths (n_nodes, n_nodes) of the identified edges; only if edges have strengths."""
        return self._found("weights_", self._edge_weights)

    @property
    def weights_std_(self) -> FloatArray:
        """Standard deviations (n_nodes, n_nodes) of `weights_`; only if the method finds them."""
        return self._found("weights_std_", self._edge_weights_std)

    def _found(self, name: str, value: FloatArray | None) -> FloatArray:
        if value is None:
            raise AttributeError(
                f"this {type(self).__name__} has no {name}, which a fit finds where edges have strengths."
            )
        return value

    @property
    def _matrix(self) -> npt.NDArray[Any]:
        """The graph as the filter takes it: strengths, or zeros and ones where edges have none."""
        return self.adjacency_ if self._edge_weights is None else self._edge_weights

    @abstractmethod
    def _identify(self, experiments: Experiments) -> Identification:
        """Find graph and parameters; the only thing that a subclass has to write."""

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=False)
    @_restore_on_failure
    def fit(self, X: Any, Y: Any, known_mask: Any = None, known_adjacency: Any = None) -> Self:
        """Identify graph and filter parameters from experiments.

        X, Y and the known pairs are matched by the names of nodes if they have any, and otherwise by position; names
        that do not match raise an error. In the same way rows are matched by the labels of a pandas index.

        Parameters
        ----------
        X : array-like of shape (n_experiments, n_nodes)
            Inputs: one row per experiment, one column per node.
        Y : array-like of shape (n_experiments, n_nodes), (n_experiments, n_outputs) or (n_experiments,)
            Outputs, with nan or a mask where nothing was measured; for fewer columns than nodes see `observed_nodes`.
        known_mask : KnownEdges, array of shape (n_nodes, n_nodes) or None, default=None
            The known pairs: a `KnownEdges`; an array with 0 or 1 for known pairs and nan for unknown ones; or a boolean
            array (True = known) together with `known_adjacency`. None: no pair is known.
        known_adjacency : array, sparse matrix, DataFrame or networkx graph, default=None
            The graph, used where a boolean `known_mask` is True. A directed edge is at [target, source].

        Returns
        -------
        self
            The fitted identifier.
        """
        experiments = self._validate(X, Y, known_mask, known_adjacency)
        with shown_progress(self):
            result = self._identify(experiments)
        self.__dict__.update(result.attributes(experiments))
        for finding in result.findings:
            if finding.severity == "trouble":
                warn_caller(finding.warning, finding.category)
        return self

    def _validate(self, X: Any, Y: Any, known_mask: Any, known_adjacency: Any) -> Experiments:
        inputs, outputs = self._validate_experiments(X, Y)
        if isinstance(known_mask, KnownEdges) and known_mask.directed and not hasattr(self, "directed"):
            raise ValueError(
                f"known_mask is a KnownEdges of a directed graph, but {type(self).__name__} finds undirected graphs "
                f"only; use LangevinSystemIdentifier(directed=True) or AdamSystemIdentifier(directed=True)."
            )
        nodes = Nodes(self._nodes_of_inputs.names, "X")
        known = KnownEdges.coerce(
            known_mask, known_adjacency, n_nodes=inputs.shape[1], nodes=nodes, directed=getattr(self, "directed", False)
        )
        if known.weights is not None and not self._uses_known_weights:
            raise ValueError(
                f"the known edges come with strengths, but {type(self).__name__} would not use them; expected "
                f"LangevinSystemIdentifier or AdamSystemIdentifier with edge_weights='positive' or 'signed', or known "
                f"edges without strengths, KnownEdges(known.mask, known.values, known.names, directed=known.directed)."
            )
        filter = clone(resolve_filter(self.filter)).for_nodes(known.names)
        if known.directed:
            filter.check_directed()
        self._params_at_fit = self.get_params(deep=False)
        experiments = Experiments(inputs, outputs, known, filter, {"X": X, "y": Y}, _row_names(X, Y, len(inputs)))
        self._experiments, self.node_names_ = replace(experiments, given={}), experiments.node_names
        return experiments

    @property
    def _uses_known_weights(self) -> bool:
        """Whether the strengths that come with known edges are made use of."""
        return False

    def _validate_experiments(self, X: Any, Y: Any) -> tuple[FloatArray, FloatArray]:
        if Y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if np.isscalar(Y):
            raise ValueError(f"Y is a single number, {Y!r}; expected an array of shape (n_experiments, n_nodes).")
        given = X, Y
        warn_of_unnamed_columns(X=X, Y=Y)
        nodes = Nodes.of_columns(X, "X")
        named_outputs = nodes_of_outputs(Y, nodes)
        X = validate_data(self, as_numbers(X, "X"), dtype=np.float64, ensure_all_finite="allow-nan")
        refuse_missing_inputs(X, nodes)
        outputs = read_outputs(Y, "Y")
        check_consistent_length(X, outputs)
        self._flat_output = outputs.ndim == 1
        outputs = outputs.reshape(len(outputs), -1)
        order = row_order(*given)
        outputs = outputs if order is None else outputs[order]
        if np.isnan(outputs).all():
            raise ValueError("Y holds nothing but nan; expected at least one measured output.")
        places = match_outputs(self.observed_nodes, named_outputs, outputs.shape[1], nodes, X.shape[1])
        names = None if nodes.names is None else tuple(nodes.names[node] for node in places)
        if named_outputs.names is not None and not self._flat_output:
            names = named_outputs.names
        self._nodes_of_inputs, self._nodes_of_outputs = Nodes(nodes.names, "X at fit"), Nodes(names, "Y at fit")
        self._output_nodes = places
        full = np.full(X.shape, np.nan)
        full[:, places] = outputs
        warn_of_doubtful_data(X, full)
        return X, full

    def _validate_new_inputs(self, X: Any) -> FloatArray:
        nodes = Nodes.of_columns(X, "X")
        # scikit-learn compares the names of columns with those at fit, but only where they are text.
        is_text = all(isinstance(name, str) for name in nodes.names or ())
        if not is_text and nodes.order_in(self._nodes_of_inputs) is not None:
            raise ValueError("X has its columns in another order than at fit; expected the same order.")
        numbers = as_numbers(X, "X")
        inputs: FloatArray = validate_data(self, numbers, dtype=np.float64, reset=False, ensure_all_finite="allow-nan")
        refuse_missing_inputs(inputs, nodes)
        return inputs

    def _align_outputs(self, X: Any, y: Any, outputs: FloatArray) -> FloatArray:
        """Put new outputs (experiments, outputs), read from y, in the order of Y's columns at fit and of X's rows."""
        if getattr(y, "ndim", 2) != 1:
            columns = Nodes(nodes_of_outputs(y, self._nodes_of_inputs).names, "y").order_in(self._nodes_of_outputs)
            outputs = outputs if columns is None else outputs[:, columns]
        rows = row_order(X, y)
        return outputs if rows is None else outputs[rows]

    def predict(self, X: npt.ArrayLike) -> FloatArray:
        """Outputs (n_experiments, n_outputs) of the system at the nodes of Y at fit, without noise."""
        check_is_fitted(self)
        predicted = self._predict_checked(self._validate_new_inputs(X))
        return predicted[:, 0] if self._flat_output else predicted

    def _predict_checked(self, inputs: FloatArray) -> FloatArray:
        """Outputs (experiments, nodes of Y at fit) for inputs that were checked."""
        outputs: FloatArray = self._outputs_of(self._matrix[None], self.theta_[None], inputs)[0]
        return outputs

    def _outputs_of(self, matrices: npt.NDArray[Any], thetas: FloatArray, inputs: FloatArray) -> FloatArray:
        """Outputs (systems, experiments, nodes of Y at fit) of several systems."""
        signals = torch.tensor(inputs - self._input_center)
        # Filters work on stacks of matrices, and large ones would take memory for nothing.
        graphs, parameters = (torch.tensor(part, dtype=torch.float64).split(16) for part in (matrices, thetas))
        with torch.no_grad(), torch_threads(1):
            outputs = [self.filter_.apply(*stack, signals).numpy() for stack in zip(graphs, parameters, strict=True)]
        return np.asarray((np.concatenate(outputs) + self._output_level)[..., self._output_nodes])

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: Any = None) -> float:
        """R2 of the predictions over all measured outputs.

        It is 1 - (sum of squared residuals) / (sum of squared deviations from each node's mean), both over all nodes
        together, because with few experiments a mean over nodes would be dominated by those that vary little.

        Parameters
        ----------
        X : array-like of shape (n_experiments, n_nodes)
            Inputs.
        y : array-like of shape (n_experiments, n_outputs) or (n_experiments,)
            Outputs, with nan where nothing was measured; matched by names as at fit.
        sample_weight : array-like of shape (n_experiments,), default=None
            Weights of the experiments.

        Returns
        -------
        float
            At most 1; 0 for a prediction no better than every node's mean.
        """
        return outputs_r2(*outputs_and_predictions(self, X, y), sample_weight)

    def to_networkx(self) -> nx.Graph:
        """Return the graph, whose edges have `probability`, `known` and, if edges have strengths, `weight`."""
        check_is_fitted(self)
        import networkx as nx

        known, names = self.known_edges_, self.node_names_
        graph = nx.DiGraph() if known.directed else nx.Graph()
        graph.add_nodes_from(names)
        edges = EdgeSpace.of_mask(self.adjacency_ == 1, known.directed)
        for i, j, source, target in zip(*edges.ends(), *edges.sources_and_targets(), strict=True):
            facts = {"probability": float(self.edge_probabilities_[i, j]), "known": bool(known.mask[i, j])}
            if self._edge_weights is not None:
                facts["weight"] = float(self._edge_weights[i, j])
            graph.add_edge(names[source], names[target], **facts)
        return graph

    def to_pandas_edgelist(self, include_known: bool = False) -> pd.DataFrame:
        """The pairs of nodes with their probabilities, as a table.

        Parameters
        ----------
        include_known : bool, default=False
            Whether to include the known pairs.

        Returns
        -------
        DataFrame
            One row per pair, most probable edge first, with the columns `source`, `target`, `probability`,
            `monte_carlo_error` (its standard error over chains; nan if the method has none) and `known`; if edges have
            strengths also `weight` and, for methods that sample, its standard deviation `weight_std`.
        """
        check_is_fitted(self)
        known = self.known_edges_
        listed = EdgeSpace.complete(known.n_nodes, known.directed) if include_known else known.space
        none = np.full(known.mask.shape, np.nan)
        found = {
            "probability": self.edge_probabilities_,
            "monte_carlo_error": getattr(self, "diagnostics_", {}).get("monte_carlo_error_edges", none),
            "known": known.mask,
            "weight": self._edge_weights,
            "weight_std": self._edge_weights_std,
        }
        columns = {name: matrix[listed.ends()] for name, matrix in found.items() if matrix is not None}
        return self._table_of_pairs("to_pandas_edgelist", listed, columns["probability"], columns)

    def _table_of_pairs(
        self, caller: str, pairs: EdgeSpace, sizes: FloatArray, columns: dict[str, npt.NDArray[Any]]
    ) -> pd.DataFrame:
        """A row per pair with the names of its nodes and these columns, the largest size first."""
        require("pandas", caller)
        import pandas as pd

        order, (sources, targets) = np.argsort(-sizes, kind="stable"), pairs.sources_and_targets()
        table: dict[str, Any] = {
            "source": [self.node_names_[node] for node in sources[order]],
            "target": [self.node_names_[node] for node in targets[order]],
        }
        return pd.DataFrame(table | {name: values[order] for name, values in columns.items()})

    def report(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Write the data, the result and how far to trust it to one HTML file, with matplotlib (the extra `plot`)."""
        from ..report import write_report  # as few programs write reports

        return write_report(self, path, title)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[npt.NDArray[Any], ...]:
        """Draw graphs and parameters that are consistent with the data.

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        random_state : int, RandomState or None, default=None
            Makes the draw reproducible.

        Returns
        -------
        adjacencies, thetas : ndarray of shape (n_samples, n_nodes, n_nodes) and (n_samples, n_parameters)
            Graphs, as zeros and ones, and the parameters of each.
        weights : ndarray of shape (n_samples, n_nodes, n_nodes)
            The strengths of each draw; only if edges have strengths.
        """
        check_is_fitted(self)
        systems, _ = self._draw(check_integer(n_samples, "n_samples", low=1), random_state)
        return systems

    _n_draws = 1  # how many different answers `sample` gives

    def _draw(self, n_samples: int, random_state: Any) -> tuple[tuple[npt.NDArray[Any], ...], FloatArray]:
        """Systems as `sample` gives them, and their noise levels (n_samples, n_nodes)."""
        # An estimator that knows one answer only gives it every time.
        system = [self.adjacency_, np.atleast_1d(self.theta_)]
        if self._edge_weights is not None:
            system.append(self._edge_weights)
        levels = getattr(self, "noise_std_per_node_", np.full(self.n_features_in_, self.noise_std_))
        parts = [np.repeat(np.asarray(part)[None], n_samples, axis=0) for part in (*system, levels)]
        return tuple(parts[:-1]), parts[-1]

    def _predict_draws(self, inputs: FloatArray, n_draws: int, random_state: Any) -> tuple[FloatArray, FloatArray]:
        """Outputs (draws, experiments, outputs) of drawn systems, and the noise levels (draws, outputs) on top of them.

        `inputs` are checked. There are up to `n_draws` draws, and one where there is one answer.
        """
        seed = int(check_random_state(random_state).randint(2**31))
        (graphs, thetas, *weights), levels = self._draw(min(n_draws, self._n_draws), seed)
        matrices = weights[0] if weights else graphs
        return self._outputs_of(matrices, thetas, inputs), levels[:, self._output_nodes]
