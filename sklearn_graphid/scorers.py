"""Scorers of identified systems for model selection, to be passed as `scoring=` to scikit-learn's searches.

Names of scikit-learn's own scorers, such as "r2", work as usual. The scorers here add the likelihood of held-out
outputs, R2 with missing outputs, and comparison with a true graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import _check_sample_weight, check_is_fitted

from ._utils._numbers import FloatArray
from ._utils._warnings import warn_caller
from .graphs import KnownEdges
from .graphs._known_edges import is_directed, nodes_of_known
from .graphs._matrices import NodeMatrix, as_numbers, check_graph
from .graphs._nodes import Nodes, first_named
from .metrics import edge_f1_score, edge_roc_auc_score

if TYPE_CHECKING:
    from .identifiers import BaseSystemIdentifier

__all__ = ["log_likelihood_scorer", "make_edge_f1_scorer", "make_edge_roc_auc_scorer", "r2_scorer"]

Scorer = Callable[..., float]  # (estimator, X, y) -> float, higher is better


def log_likelihood_scorer(estimator: Any, X: Any, y: Any) -> float:
    """Mean log-likelihood of held-out outputs.

    Outputs are Gaussian around `estimator.predict(X)`, with standard deviation `noise_std_per_node_` if the estimator
    has it, else `noise_std_`. Unlike R2, this score penalises a fit that mistakes noise for signal.

    Parameters
    ----------
    estimator : fitted identifier, or pipeline that ends in one
        The model, with `noise_std_` in the units of `y`.
    X : array-like of shape (n_experiments, n_nodes)
        Inputs.
    y : array-like of shape (n_experiments, n_outputs) or (n_experiments,)
        Outputs; nan where nothing was measured.

    Returns
    -------
    float
        Log-likelihood divided by the number of measured outputs. Higher is better.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn_graphid import LangevinSystemIdentifier
    >>> from sklearn_graphid.datasets import make_system
    >>> from sklearn_graphid.scorers import log_likelihood_scorer
    >>> X, Y = make_system(nx.cycle_graph(6), "heat", theta=[0.5], n_experiments=40, noise_std=0.1, random_state=0)
    >>> identifier = LangevinSystemIdentifier("heat", n_chains=4, n_levels=5, random_state=0)
    >>> scores = cross_val_score(identifier, X, Y, scoring=log_likelihood_scorer, cv=2)
    >>> bool((scores > 0.7).all())  # the true system would have 0.88 on average
    True
    """
    noise_std = _noise_std_of(estimator)
    outputs, predicted = outputs_and_predictions(estimator, X, y)
    log_density = -0.5 * ((outputs - predicted) / noise_std) ** 2 - np.log(noise_std) - 0.5 * np.log(2 * np.pi)
    return float(np.nanmean(log_density))


def r2_scorer(estimator: Any, X: Any, y: Any) -> float:
    """R2 over all measured outputs, as `score` of an identifier, for pipelines and searches too.

    Sums of squares are taken over all nodes together, so nodes whose outputs vary more count more. scikit-learn's "r2"
    is the mean over nodes of their R2 instead, and does not accept nan.

    Parameters
    ----------
    estimator, X, y : as in `log_likelihood_scorer`
        The model (which does not need `noise_std_`), the inputs and the outputs.

    Returns
    -------
    float
        At most 1; 0 for a prediction that is no better than the mean of every node. Nodes with fewer than two measured
        outputs are ignored.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import FunctionTransformer
    >>> from sklearn_graphid import RidgeSystemIdentifier
    >>> from sklearn_graphid.datasets import make_system
    >>> from sklearn_graphid.scorers import r2_scorer
    >>> X, Y = make_system(nx.path_graph(5), "heat", theta=[0.5], n_experiments=20, noise_std=0.1, random_state=0)
    >>> Y[:5, 2] = float("nan")
    >>> pipeline = make_pipeline(FunctionTransformer(), RidgeSystemIdentifier("heat")).fit(X, Y)
    >>> round(r2_scorer(pipeline, X, Y), 2)
    1.0
    """
    return outputs_r2(*outputs_and_predictions(estimator, X, y))


def outputs_r2(outputs: FloatArray, predicted: FloatArray, sample_weight: Any = None) -> float:
    """Variance-weighted R2 of (experiments, outputs), nan in `outputs` where nothing was measured."""
    weights = _check_sample_weight(sample_weight, outputs, dtype=np.float64)[:, None]
    measured = ~np.isnan(outputs)
    if not (measured.sum(0) > 1).any():
        text = "R2 is undefined and set to nan: every node has fewer than two measured outputs."
        warn_caller(text, UndefinedMetricWarning)
        return float("nan")
    weights = np.where(measured, weights, 0.0)
    outputs = np.where(measured, outputs, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):  # a node without outputs has no mean
        mean = (weights * outputs).sum(0) / weights.sum(0)
    unexplained = (weights * (outputs - predicted) ** 2).sum(0)
    total = np.where(measured.sum(0) > 1, (weights * (outputs - mean) ** 2).sum(0), 0.0)
    varies = total > 0
    if not varies.any():  # as scikit-learn has it
        return 1.0 if not unexplained.any() else 0.0
    return float(1 - unexplained[varies].sum() / total[varies].sum())


def make_edge_f1_scorer(true_adjacency: Any, known: Any = None, *, directed: bool | None = None) -> Scorer:
    """Make a scorer of the identified edges, for systems whose true graph is known.

    Parameters
    ----------
    true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes)
        The true graph.
    known : KnownEdges or array of shape (n_nodes, n_nodes), default=None
        The pairs that the identifier is given, as in `sklearn_graphid.metrics.edge_f1_score`; only the other pairs
        count. If None, the known pairs of the fitted identifier, its `known_edges_`.
    directed : bool or None, default=None
        As in `sklearn_graphid.metrics.edge_f1_score`.

    Returns
    -------
    callable
        A scorer that takes `(estimator, X, y)`, ignores X and y, and returns the F1 score of `adjacency_`.

    Examples
    --------
    >>> from sklearn.model_selection import cross_validate
    >>> from sklearn_graphid import RidgeSystemIdentifier
    >>> from sklearn_graphid.datasets import make_grid_graphs, make_system
    >>> from sklearn_graphid.scorers import make_edge_f1_scorer
    >>> (grid,) = make_grid_graphs(1, min_nodes=12, max_nodes=12, min_side=3, max_side=4, random_state=0)
    >>> scoring = {"r2": "r2", "edges": make_edge_f1_scorer(grid)}
    >>> X, Y = make_system(grid, "heat", theta=[0.5], n_experiments=60, random_state=0)
    >>> cross_validate(RidgeSystemIdentifier("heat"), X, Y, scoring=scoring, cv=2)["test_edges"].round(2)
    array([0.88, 0.8 ])
    """
    return _EdgeScorer("adjacency_", edge_f1_score, *_checked_truth(true_adjacency, known, directed))


def make_edge_roc_auc_scorer(true_adjacency: Any, known: Any = None, *, directed: bool | None = None) -> Scorer:
    """Make a scorer of the edge probabilities, for systems whose true graph is known.

    Parameters
    ----------
    true_adjacency, known, directed : as in `make_edge_f1_scorer`
        The true graph, the pairs that the identifier is given, and whether the graph is directed.

    Returns
    -------
    callable
        A scorer that takes `(estimator, X, y)`, ignores X and y, and returns the area under the ROC curve of
        `edge_probabilities_`.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn_graphid import RidgeSystemIdentifier
    >>> from sklearn_graphid.datasets import make_system
    >>> from sklearn_graphid.scorers import make_edge_roc_auc_scorer
    >>> graph, theta = nx.petersen_graph(), [1.0, 0.1, 0.0]
    >>> X, Y = make_system(graph, "polynomial", theta, n_experiments=30, noise_std=3.0, random_state=0)
    >>> grid = {"alpha": [0.1, 10.0, 1000.0]}
    >>> search = GridSearchCV(RidgeSystemIdentifier(), grid, scoring=make_edge_roc_auc_scorer(graph), cv=3).fit(X, Y)
    >>> search.best_params_
    {'alpha': 10.0}
    """
    return _EdgeScorer("edge_probabilities_", edge_roc_auc_score, *_checked_truth(true_adjacency, known, directed))


@dataclass(frozen=True, eq=False)
class _EdgeScorer:
    """A scorer of edges; a class rather than a closure, so that it can be pickled and sent to workers."""

    attribute: str
    metric: Callable[..., float]
    true_adjacency: NodeMatrix = field(repr=False)
    known: KnownEdges | None = None

    def __call__(self, estimator: Any, X: Any, y: Any = None) -> float:
        identifier = identifier_of(estimator)
        known = identifier.known_edges_ if self.known is None else self.known
        # What was found goes by the identifier's names, even where `known` has the nodes in another order.
        found = NodeMatrix(getattr(identifier, self.attribute), Nodes(identifier.known_edges_.names, self.attribute))
        return self.metric(self.true_adjacency, found, known)


def identifier_of(estimator: Any) -> BaseSystemIdentifier:
    """The fitted identifier inside pipelines, searches and regressors of transformed targets."""
    check_is_fitted(estimator)
    if isinstance(estimator, Pipeline):
        return identifier_of(estimator[-1])
    for inner in ("best_estimator_", "regressor_"):
        if hasattr(estimator, inner):
            return identifier_of(getattr(estimator, inner))
    if not hasattr(estimator, "adjacency_"):
        raise TypeError(
            f"estimator is a {type(estimator).__name__} without adjacency_; expected an identifier, or a pipeline or "
            f"search that contains one."
        )
    identifier: BaseSystemIdentifier = estimator
    return identifier


def _noise_std_of(estimator: Any) -> FloatArray:
    """Return the noise level of each output, or one for all."""
    if isinstance(estimator, TransformedTargetRegressor):
        raise TypeError(
            "the log-likelihood of a TransformedTargetRegressor is not defined, because noise_std_ is in the units of "
            "the transformed outputs. Use 'r2', or transform Y before the search."
        )
    identifier = identifier_of(estimator)
    noise_std = getattr(identifier, "noise_std_", None)
    if noise_std is None:
        raise TypeError(
            f"{type(identifier).__name__} has no noise_std_, which the log-likelihood needs; use 'r2' instead."
        )
    if hasattr(identifier, "noise_std_per_node_") and hasattr(identifier, "_output_nodes"):
        noise_std = identifier.noise_std_per_node_[identifier._output_nodes]
    levels: FloatArray = np.maximum(noise_std, np.finfo(np.float64).tiny)  # exact outputs leave no noise at all
    return levels


def read_outputs(y: Any, name: str) -> FloatArray:
    """Outputs as floats, (experiments,) or (experiments, outputs); nan where nothing was measured."""
    outputs: FloatArray = check_array(
        as_numbers(y, name), ensure_2d=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name=name
    )
    if np.isinf(outputs).any():
        raise ValueError(f"Input {name} contains infinity or a value too large for dtype('float64').")
    return outputs


def outputs_and_predictions(estimator: Any, X: Any, y: Any) -> tuple[FloatArray, FloatArray]:
    """Both with a column for each output, and the rows of X; outputs are nan where nothing was measured."""
    checked = read_outputs(y, "y")
    predicted = np.asarray(estimator.predict(X), dtype=np.float64)
    check_consistent_length(predicted, checked)
    outputs, predicted = (array.reshape(len(array), -1) for array in (checked, predicted))
    if outputs.shape != predicted.shape:
        raise ValueError(
            f"y has {outputs.shape[1]} columns but the estimator predicts {predicted.shape[1]}; expected as many."
        )
    identifier = identifier_of(estimator)
    if hasattr(identifier, "_align_outputs"):
        outputs = identifier._align_outputs(X, y, outputs)
    if np.isnan(outputs).all():
        raise ValueError("y holds nothing but nan; expected at least one measured output.")
    return outputs, predicted


def _checked_truth(true_adjacency: Any, known: Any, directed: bool | None) -> tuple[NodeMatrix, KnownEdges | None]:
    directed = is_directed(known, directed)
    checked = check_graph(true_adjacency, "true_adjacency", directed=directed)
    truth = NodeMatrix(checked.values.copy(), checked.nodes)
    if known is None:
        return truth, None
    nodes = Nodes(first_named(nodes_of_known(known), truth.nodes).names, "true_adjacency")
    return truth, KnownEdges.of_graph(known, truth, nodes, directed)
