"""What all identifiers share: one `fit`, and what a fitted graph and theta are good for."""

from __future__ import annotations

import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import Tags, check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from .._utils._libraries import CallbackSupportMixin, fit_context, require_pandas, shown_progress, with_callbacks
from .._utils._numbers import FloatArray, check_integer
from .._utils._torch import torch_threads
from .._utils._warnings import warn_caller
from ..evaluation._scorers import outputs_and_predictions, outputs_r2
from ..filters import GraphFilter, resolve_filter
from ..graphs import EdgeSpace, KnownEdges
from ..graphs._names import Names, node_order
from ._columns import (
    as_numbers,
    match_outputs,
    names_of_columns,
    names_of_outputs,
    refuse_missing_inputs,
    row_order,
    warn_of_doubtful_data,
    warn_of_unnamed_columns,
)
from ._result import Experiments, Identification

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

__all__ = ["BaseSystemIdentifier", "restore_on_failure"]


def restore_on_failure(fit: Callable[..., Any]) -> Callable[..., Any]:
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

    A subclass implements `_identify`, which turns validated experiments into an `Identification`, and has the
    parameters `filter` and `observed_nodes`. It inherits `fit`, `predict`, `score`, `sample`, `report` and the tables.

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

    _measured_nodes: npt.NDArray[np.intp]
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
    @restore_on_failure
    def fit(self, X: Any, Y: Any, known_mask: Any = None, known_adjacency: Any = None) -> Self:
        """Identify graph and filter parameters from experiments.

        If X, Y and the known pairs carry names of nodes, they are matched by name, and names that do not match raise an
        error. If only one of two has names, they are matched by position. The same holds for the rows of X and Y: the
        labels of a pandas index are names of experiments, unless they are those that pandas gives by default.

        Parameters
        ----------
        X : array-like of shape (n_experiments, n_nodes)
            Inputs: one row per experiment, one column per node.
        Y : array-like of shape (n_experiments, n_nodes), (n_experiments, n_outputs) or (n_experiments,)
            Outputs, with nan or a mask for values that were not measured. If there are fewer columns than nodes, see
            `observed_nodes`.
        known_mask : KnownEdges, array of shape (n_nodes, n_nodes) or None, default=None
            The known pairs of the graph: a `KnownEdges`; an array with 0 or 1 for known pairs and nan for unknown ones;
            or a boolean array (True = known) together with `known_adjacency`. None: no pair is known.
        known_adjacency : array, sparse matrix, DataFrame or networkx graph, default=None
            The graph, of which the pairs are used where a boolean `known_mask` is True. In a directed graph, an edge
            from source to target is at [target, source].

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
        given = {"X": X, "y": Y}
        inputs, outputs = self._validate_experiments(X, Y)
        names = self._names_of_inputs
        self._check_kind(known_mask)
        known = KnownEdges.coerce(
            known_mask, known_adjacency, n_nodes=inputs.shape[1], node_names=names, directed=self._is_directed
        )
        self._check_known_weights(known)
        filter = clone(resolve_filter(self.filter)).for_nodes(known.names)
        if known.directed:
            filter.check_directed()
        self._params_at_fit = self.get_params(deep=False)
        self.node_names_ = list(range(inputs.shape[1]) if known.names is None else known.names)
        experiments = Experiments(inputs, outputs, known, filter, given)
        self._n_experiments, self._n_measured = len(inputs), experiments.n_measured
        self._output_power = experiments.output_power
        self._largest_input = float(np.abs(inputs).max())
        self._measured_nodes = np.flatnonzero(~np.isnan(outputs).all(axis=0))
        self._data_at_fit = inputs, outputs[:, self._output_nodes]  # for the residuals in the report
        self._names_of_rows = [experiments.name_of_row(row) for row in range(len(inputs))]
        return experiments

    @property
    def _is_directed(self) -> bool:
        """Whether a directed graph is sought; identifiers that have no parameter `directed` cannot."""
        return bool(getattr(self, "directed", False))

    @property
    def _uses_known_weights(self) -> bool:
        """Whether the strengths that come with known edges are made use of."""
        return False

    def _check_known_weights(self, known: KnownEdges) -> None:
        if not known.has_weights or self._uses_known_weights:
            return
        edge_weights = getattr(self, "edge_weights", None)
        if edge_weights == "binary":
            reason = f"edge_weights={edge_weights!r} takes all edges to be alike"
            remedy = "edge_weights='positive' or 'signed'"
        else:
            fits = "finds strengths by itself" if edge_weights else "takes all edges to be alike"
            reason = f"{type(self).__name__} {fits} and would not use them"
            remedy = "LangevinSystemIdentifier(edge_weights='positive') or 'signed'"
        raise ValueError(
            f"the known edges come with strengths, but {reason}; expected {remedy}, or known edges without strengths, "
            f"as KnownEdges(known.mask, known.values, known.names, directed=known.directed) makes them."
        )

    def _check_kind(self, known: Any) -> None:
        if isinstance(known, KnownEdges) and known.directed and not hasattr(self, "directed"):
            raise ValueError(
                f"known_mask is a KnownEdges of a directed graph, but {type(self).__name__} finds undirected graphs "
                f"only; use LangevinSystemIdentifier(directed=True) or AdamSystemIdentifier(directed=True)."
            )

    def _validate_experiments(self, X: Any, Y: Any) -> tuple[FloatArray, FloatArray]:
        if Y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if np.isscalar(Y):
            raise ValueError(f"Y is a single number, {Y!r}; expected an array of shape (n_experiments, n_nodes).")
        rows = X, Y
        warn_of_unnamed_columns(X=X, Y=Y)
        self._names_of_inputs = names_of_columns(X, "X")
        output_names = names_of_outputs(Y, self._names_of_inputs)
        X, Y = as_numbers(X, "X"), as_numbers(Y, "Y")
        X = validate_data(self, X, dtype=np.float64, ensure_all_finite="allow-nan")
        refuse_missing_inputs(X, self._names_of_inputs)
        Y = check_array(
            Y, ensure_2d=False, allow_nd=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="Y"
        )
        if np.isinf(Y).any():
            raise ValueError("Input Y contains infinity or a value too large for dtype('float64').")
        check_consistent_length(X, Y)
        self._flat_output = Y.ndim == 1
        outputs = Y.reshape(len(Y), -1)
        order = row_order(*rows)
        outputs = outputs if order is None else outputs[order]
        if np.isnan(outputs).all():
            raise ValueError("Y holds nothing but nan; expected at least one measured output.")
        self._output_nodes = match_outputs(
            self.observed_nodes, output_names, outputs.shape[1], self._names_of_inputs, X.shape[1]
        )
        self._names_of_outputs = output_names
        full = np.full(X.shape, np.nan)
        full[:, self._output_nodes] = outputs
        warn_of_doubtful_data(X, full)
        return X, full

    def _validate_new_inputs(self, X: Any) -> FloatArray:
        names = names_of_columns(X, "X")
        if names is not None and not all(isinstance(name, str) for name in names):
            # scikit-learn compares the names of columns with those at fit, but only where they are text.
            order = node_order(names, self._names_of_inputs, "X", "X at fit")
            if order is not None:
                raise ValueError("X has its columns in another order than at fit; expected the same order.")
        numbers = as_numbers(X, "X")
        inputs: FloatArray = validate_data(self, numbers, dtype=np.float64, reset=False, ensure_all_finite="allow-nan")
        refuse_missing_inputs(inputs, names)
        return inputs

    _output_rows = staticmethod(row_order)

    def _output_columns(self, y: Any) -> npt.NDArray[np.intp] | None:
        """The order that puts the columns of new outputs in that of Y at fit; None where they go by position."""
        names = names_of_outputs(y, self._names_of_inputs)
        if getattr(y, "ndim", 2) == 1:
            return None
        return node_order(names, self._names_at_outputs(), "y", "Y at fit")

    def _names_at_outputs(self) -> Names | None:
        """What the columns of Y at fit were called, or the nodes that they belong to."""
        if self._names_of_outputs is not None and not self._flat_output:
            return self._names_of_outputs
        names = self._names_of_inputs
        return None if names is None else tuple(names[node] for node in self._output_nodes)

    def predict(self, X: npt.ArrayLike) -> FloatArray:
        """Outputs that the identified system would give, without noise.

        Parameters
        ----------
        X : array-like of shape (n_experiments, n_nodes)
            Inputs.

        Returns
        -------
        ndarray of shape (n_experiments, n_outputs) or (n_experiments,)
            Outputs at the nodes of Y at fit, in the same order.
        """
        check_is_fitted(self)
        predicted = self._predict_checked(self._validate_new_inputs(X))
        return predicted[:, 0] if self._flat_output else predicted

    def _predict_checked(self, inputs: FloatArray) -> FloatArray:
        """Outputs (experiments, nodes of Y at fit) for inputs that were checked."""
        signals = torch.tensor(inputs - self._input_center)
        adjacency = torch.tensor(self._matrix, dtype=torch.float64)[None]
        with torch.no_grad(), torch_threads(1):
            outputs = self.filter_.apply(adjacency, torch.tensor(self.theta_)[None], signals)[0]
        predicted: FloatArray = (outputs.numpy() + self._output_level)[:, self._output_nodes]
        return predicted

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: Any = None) -> float:
        """How well outputs are predicted: R2 over all measured outputs.

        It is 1 - (sum of squared residuals) / (sum of squared deviations from each node's mean), both over all nodes
        together, so that nodes whose outputs vary more count more. With few experiments, a mean of the R2 of each node
        would be dominated by nodes whose outputs happen to vary little, and would not distinguish between filters.

        Parameters
        ----------
        X : array-like of shape (n_experiments, n_nodes)
            Inputs.
        y : array-like of shape (n_experiments, n_outputs) or (n_experiments,)
            Outputs, with nan for values that were not measured. Named columns are matched with those of Y at fit,
            and rows with those of X by the labels of a pandas index.
        sample_weight : array-like of shape (n_experiments,), default=None
            Weights of the experiments.

        Returns
        -------
        float
            At most 1; 0 for a prediction no better than every node's mean.

        See Also
        --------
        sklearn.metrics.r2_score : With `multioutput="variance_weighted"` the same, for outputs without nan.
        """
        return outputs_r2(*outputs_and_predictions(self, X, y), sample_weight)

    def to_networkx(self) -> nx.Graph:
        """The identified graph.

        Returns
        -------
        networkx.Graph or networkx.DiGraph
            Nodes have the names in `node_names_`. Edges have the attributes `probability`, `known` and, if edges have
            strengths, `weight`. An edge of a directed graph goes from its source to its target; the output of the
            target depends on the input of the source.
        """
        check_is_fitted(self)
        names = self.node_names_
        import networkx as nx

        directed = self.known_edges_.directed
        graph = nx.DiGraph() if directed else nx.Graph()
        graph.add_nodes_from(names)
        edges = EdgeSpace.of_mask(self.adjacency_ == 1, directed)
        for i, j, source, target in zip(*edges.ends(), *edges.sources_and_targets(), strict=True):
            facts: dict[str, Any] = {"probability": float(self.edge_probabilities_[i, j])}
            facts["known"] = bool(self.known_edges_.mask[i, j])
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
            One row per pair (per ordered pair of a directed graph), most probable edge first, with the columns `source`
            and `target` (nodes named as in `to_networkx`), `probability`, `monte_carlo_error` (its standard error over
            chains; missing if the method has no chains) and `known`. If edges have strengths, also `weight` and, for
            methods that sample, its standard deviation `weight_std`, which is zero for pairs without an edge.
        """
        check_is_fitted(self)
        require_pandas("to_pandas_edgelist")
        import pandas as pd

        mask = self.known_edges_.mask
        known = self.known_edges_
        listed = EdgeSpace.complete(len(mask), known.directed) if include_known else known.space
        rows, columns = listed.ends()
        sources, targets = listed.sources_and_targets()
        probability = self.edge_probabilities_[rows, columns]
        errors = getattr(self, "diagnostics_", {}).get("monte_carlo_error_edges", np.full(mask.shape, np.nan))
        order = np.argsort(-probability, kind="stable")
        names = self.node_names_
        table = {
            "source": [names[node] for node in sources[order]],
            "target": [names[node] for node in targets[order]],
            "probability": probability[order],
            "monte_carlo_error": errors[rows, columns][order],
            "known": mask[rows, columns][order],
        }
        for name, values in (("weight", self._edge_weights), ("weight_std", self._edge_weights_std)):
            if values is not None:
                table[name] = values[rows, columns][order]
        return pd.DataFrame(table)

    def report(self, path: str | os.PathLike[str], title: str | None = None) -> Path:
        """Write the data, the result and how far to trust it to one HTML page.

        The page contains its figures and can be read offline. It needs matplotlib (the extra `plot`).

        Parameters
        ----------
        path : str or Path
            The file to write. An existing file is replaced. Its folder must exist.
        title : str or None, default=None
            The heading of the page; None: "An identified graph".

        Returns
        -------
        Path
            The file.
        """
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
        adjacencies : ndarray of shape (n_samples, n_nodes, n_nodes)
            Graphs, as zeros and ones.
        thetas : ndarray of shape (n_samples, n_parameters)
            The parameters of each draw.
        weights : ndarray of shape (n_samples, n_nodes, n_nodes)
            The strengths of each draw; only if edges have strengths.
        """
        check_is_fitted(self)
        return self._draw(check_integer(n_samples, "n_samples", low=1), random_state)

    def _draw(self, n_samples: int, random_state: Any) -> tuple[npt.NDArray[Any], ...]:
        # An estimator that knows one answer only gives it every time.
        system = [self.adjacency_, np.atleast_1d(self.theta_)]
        if self._edge_weights is not None:
            system.append(self._edge_weights)
        return tuple(np.repeat(part[None], n_samples, axis=0) for part in system)

    @property
    def _n_draws(self) -> int:
        """How many different answers `sample` gives."""
        return 1

    def _draw_noise(self, n_samples: int, random_state: Any) -> FloatArray:
        """Noise levels (n_samples, n_nodes) of the systems that `_draw` gives for the same seed."""
        levels = getattr(self, "noise_std_per_node_", self.noise_std_)
        return np.broadcast_to(np.asarray(levels, dtype=np.float64), (n_samples, self.n_features_in_)).copy()
