"""Metrics of an identified system: of the edges, on the pairs that were unknown, and of theta.

If the true graph, the prediction and the known pairs carry names of nodes (networkx graphs, DataFrames, `KnownEdges`),
they are matched by name. An array has no names and is matched by position: with the prediction or the known pairs, if
these have names, and with the true graph otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import f1_score, roc_auc_score

from ._utils._libraries import is_networkx
from ._utils._numbers import FloatArray, check_integer, check_number
from ._utils._warnings import warn_caller
from .graphs import KnownEdges
from .graphs._known_edges import is_directed, nodes_of_known
from .graphs._matrices import DIRECTED_HINT, as_square_array, check_graph, read_matrix
from .graphs._nodes import Nodes, first_named

__all__ = [
    "ReliabilityCurve",
    "edge_calibration_error",
    "edge_f1_score",
    "edge_reliability_curve",
    "edge_roc_auc_score",
    "theta_nrmse",
]


class ReliabilityCurve(NamedTuple):
    """Predicted and observed frequencies of edges in each bin; nan for empty bins."""

    mean_predicted: FloatArray  # (n_bins,)
    fraction_true: FloatArray  # (n_bins,)
    counts: npt.NDArray[np.int64]  # (n_bins,)


def edge_f1_score(
    true_adjacency: Any, predicted: Any, known: Any = None, *, threshold: float = 0.5, directed: bool | None = None
) -> float:
    """F1 score of the predicted edges among the unknown pairs.

    Parameters
    ----------
    true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes)
        The true graph.
    predicted : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes)
        The identified graph, or edge probabilities. Only unknown pairs are read.
    known : KnownEdges or array of shape (n_nodes, n_nodes), default=None
        The known pairs: a `KnownEdges`, an array with 0 and 1 for known pairs and nan for unknown ones, or a boolean
        array (True = known). If None, nothing was known and every pair counts.
    threshold : float, default=0.5
        A pair counts as an edge if its entry of `predicted` is above this.
    directed : bool or None, default=None
        Whether the graph is directed, so that (i, j) and (j, i) count as separate pairs. If None, it is directed if
        `known` is a `KnownEdges` of a directed graph.

    Returns
    -------
    float
        Between 0 and 1; 1 if there are neither true nor predicted edges. It is nan, with an `UndefinedMetricWarning`,
        if no pair is unknown.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid.metrics import edge_f1_score
    >>> round(edge_f1_score(nx.cycle_graph(4), nx.path_graph(4)), 3)
    0.857
    """
    threshold = check_number(threshold, "threshold")  # a comparison with nan would find no edge at all
    truth, scores = _unknown_pairs(true_adjacency, predicted, known, "predicted", directed)
    if not len(truth):
        return _undefined("edge_f1_score", "no pair is unknown")
    return float(f1_score(truth, scores > threshold, zero_division=1.0))


def edge_roc_auc_score(
    true_adjacency: Any, edge_probabilities: Any, known: Any = None, *, directed: bool | None = None
) -> float:
    """Area under the ROC curve of the edge probabilities among the unknown pairs.

    Parameters
    ----------
    true_adjacency : as in `edge_f1_score`
        The true graph.
    edge_probabilities : array of shape (n_nodes, n_nodes)
        Edge probabilities, or any score that is larger for pairs that are more likely to be edges. Only unknown pairs
        are read.
    known, directed : as in `edge_f1_score`
        The known pairs, and whether the graph is directed.

    Returns
    -------
    float
        Probability that a random true edge scores higher than a random non-edge; ties count one half. It is nan, with
        an `UndefinedMetricWarning`, unless at least one unknown pair is an edge and at least one is not.

    Examples
    --------
    >>> from sklearn_graphid.metrics import edge_roc_auc_score
    >>> true_adjacency = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> edge_roc_auc_score(true_adjacency, [[0, 0.9, 0.4], [0.9, 0, 0.3], [0.4, 0.3, 0]])
    0.5
    """
    truth, scores = _unknown_pairs(true_adjacency, edge_probabilities, known, "edge_probabilities", directed)
    if truth.all() or not truth.any():
        return _undefined("edge_roc_auc_score", "the unknown pairs do not contain both edges and non-edges")
    return float(roc_auc_score(truth, scores))


def edge_calibration_error(
    true_adjacency: Any,
    edge_probabilities: Any,
    known: Any = None,
    *,
    n_bins: int = 10,
    directed: bool | None = None,
) -> float:
    """Expected calibration error of the edge probabilities among the unknown pairs.

    Probabilities are calibrated if a share p of the pairs with probability p are edges. The error is the distance
    between mean probability and share of edges in bins of equal width, averaged over pairs. With few pairs it is large
    by chance alone: with n pairs in a bin, the share of edges deviates by about sqrt(p (1 - p) / n). This is why lists
    of systems are pooled.

    Parameters
    ----------
    true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), or list of these
        The true graph, or the graphs of several systems, whose pairs are pooled.
    edge_probabilities : array of shape (n_nodes, n_nodes), or list of these
        Edge probabilities; a list of the same length if `true_adjacency` is a list. Only unknown pairs are read.
    known : KnownEdges or array of shape (n_nodes, n_nodes), or list of these, default=None
        The known pairs, as in `edge_f1_score`; a list of the same length, or None, if `true_adjacency` is a list.
    n_bins : int, default=10
        Number of bins.
    directed : bool or None, default=None
        As in `edge_f1_score`.

    Returns
    -------
    float
        Between 0 and 1, lower is better. It is nan, with an `UndefinedMetricWarning`, if no pair is unknown.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_graphid.metrics import edge_calibration_error
    >>> true_adjacency = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> round(edge_calibration_error(true_adjacency, np.full((3, 3), 0.6)), 3)  # two of three are edges
    0.067
    """
    curve = edge_reliability_curve(true_adjacency, edge_probabilities, known, n_bins=n_bins, directed=directed)
    if not curve.counts.any():
        return _undefined("edge_calibration_error", "no pair is unknown")
    gaps = np.abs(curve.mean_predicted - curve.fraction_true)
    return float(np.nansum(gaps * curve.counts) / curve.counts.sum())


def edge_reliability_curve(
    true_adjacency: Any,
    edge_probabilities: Any,
    known: Any = None,
    *,
    n_bins: int = 10,
    directed: bool | None = None,
) -> ReliabilityCurve:
    """Compute predicted probability and true share of edges among the unknown pairs, in bins of equal width.

    A bin contains the probabilities above its lower limit and up to its upper limit; the first also contains 0.

    Parameters
    ----------
    true_adjacency, edge_probabilities, known, n_bins, directed : as in `edge_calibration_error`
        The true graph, edge probabilities and the known pairs; lists of systems are pooled.

    Returns
    -------
    mean_predicted, fraction_true : ndarray of shape (n_bins,)
        Mean probability, and share of edges, of the pairs in each bin; nan if the bin is empty.
    counts : ndarray of shape (n_bins,)
        Number of pairs in each bin.

    Examples
    --------
    >>> from sklearn_graphid.metrics import edge_reliability_curve
    >>> true_adjacency = [[0, 1, 0], [1, 0, 1], [0, 1, 0]]
    >>> edge_probabilities = [[0, 0.9, 0.1], [0.9, 0, 0.3], [0.1, 0.3, 0]]
    >>> curve = edge_reliability_curve(true_adjacency, edge_probabilities, n_bins=2)
    >>> curve.mean_predicted, curve.fraction_true
    (array([0.2, 0.9]), array([0.5, 1. ]))
    """
    n_bins = check_integer(n_bins, "n_bins", low=1)
    systems = _as_systems(true_adjacency, edge_probabilities, known)
    parts = [_unknown_pairs(*system, "edge_probabilities", directed) for system in systems]
    truth, probabilities = (np.concatenate(column) for column in zip(*parts, strict=True))
    odd = probabilities[(probabilities < 0) | (probabilities > 1)]
    if odd.size:
        raise ValueError(f"edge_probabilities holds the value {odd[0]:g}; expected probabilities between 0 and 1.")
    inner_edges = np.linspace(0.0, 1.0, n_bins + 1)[1:-1]
    bins = np.searchsorted(inner_edges, probabilities)
    counts = np.bincount(bins, minlength=n_bins)
    with np.errstate(invalid="ignore"):  # 0 / 0 is the nan of an empty bin
        mean_predicted = np.bincount(bins, weights=probabilities, minlength=n_bins) / counts
        fraction_true = np.bincount(bins, weights=truth, minlength=n_bins) / counts
    return ReliabilityCurve(mean_predicted, fraction_true, counts)


def theta_nrmse(theta_true: Any, theta_estimated: Any) -> float:
    """Norm of the error of the filter's parameters divided by the norm of the truth, averaged over systems.

    Parameters
    ----------
    theta_true : array-like of shape (n_parameters,) or (n_systems, n_parameters)
        The true parameters.
    theta_estimated : array-like of the same shape
        The estimated parameters.

    Returns
    -------
    float
        Non-negative, lower is better; an estimate of zero scores 1. It is nan, with an `UndefinedMetricWarning`, if a
        true theta is zero.

    Examples
    --------
    >>> from sklearn_graphid.metrics import theta_nrmse
    >>> theta_nrmse([3.0, 4.0], [3.0, 3.0])
    0.2
    """
    truth = np.atleast_1d(np.asarray(theta_true, dtype=np.float64))
    estimate = np.atleast_1d(np.asarray(theta_estimated, dtype=np.float64))
    if truth.shape != estimate.shape or truth.ndim > 2 or not truth.size:
        raise ValueError(
            f"theta_true has shape {truth.shape} and theta_estimated has shape {estimate.shape}; expected "
            f"the same shape, (n_parameters,) or (n_systems, n_parameters)."
        )
    sizes = np.linalg.norm(truth, axis=-1)
    if not np.all(sizes > 0):
        return _undefined("theta_nrmse", "a true theta is zero or nan")
    return float(np.mean(np.linalg.norm(estimate - truth, axis=-1) / sizes))


def _undefined(metric: str, reason: str) -> float:
    warn_caller(f"{metric} is undefined and set to nan: {reason}.", UndefinedMetricWarning)
    return float("nan")


def _unknown_pairs(
    true_adjacency: Any, predicted: Any, known: Any, name: str, directed: bool | None
) -> tuple[npt.NDArray[np.bool_], FloatArray]:
    """Return truth and prediction of each unknown pair, matched by the names of the nodes if there are any."""
    directed = is_directed(known, directed)
    truth = check_graph(true_adjacency, "true_adjacency", directed=directed)
    scores = read_matrix(predicted, name, directed=directed)
    if as_square_array(scores, name).shape != truth.values.shape:
        raise ValueError(f"{name} has shape {scores.values.shape} but true_adjacency has shape {truth.values.shape}.")
    # What an identifier found is an array without names, in the order of what it was told was known.
    nodes = first_named(scores.nodes, nodes_of_known(known), truth.nodes)
    unknown = KnownEdges.of_graph(known, truth, Nodes(nodes.names, "true_adjacency"), directed).unknown_pairs()
    is_edge = truth.in_order_of(nodes)[unknown] == 1
    array = scores.in_order_of(nodes)
    if not np.isfinite(array[unknown]).all():
        raise ValueError(f"{name} is not finite on the unknown pairs; expected a finite number for each.")
    if not directed and (np.abs(array[unknown] - array.T[unknown]) > 1e-6).any():
        raise ValueError(f"{name} is not symmetric on the unknown pairs; expected one number for each. {DIRECTED_HINT}")
    return is_edge, array[unknown]


def _as_systems(true_adjacency: Any, predicted: Any, known: Any) -> list[tuple[Any, Any, Any]]:
    """One tuple for each system, of which there may be one or a list."""
    if not _is_list_of_graphs(true_adjacency):
        return [(true_adjacency, predicted, known)]
    n_systems = len(true_adjacency)
    known = [None] * n_systems if known is None else known
    for name, argument in (("edge_probabilities", predicted), ("known", known)):
        if not isinstance(argument, Sequence | np.ndarray) or len(argument) != n_systems:
            length = f" of length {len(argument)}" if hasattr(argument, "__len__") else ""
            raise ValueError(
                f"true_adjacency is a list of {n_systems} systems but {name} is a {type(argument).__name__}"
                f"{length}; expected a list with one entry for each system."
            )
    return list(zip(true_adjacency, predicted, known, strict=True))


def _is_list_of_graphs(argument: Any) -> bool:
    if not isinstance(argument, Sequence):
        return getattr(argument, "ndim", 2) != 2
    first: Any = argument[0] if argument else None
    return is_networkx(first) or sparse.issparse(first) or np.ndim(first) == 2
