"""Identification from the partial correlations of the outputs."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.covariance import graphical_lasso
from sklearn.exceptions import ConvergenceWarning

from .._utils._numbers import FloatArray, NumberInterval
from ._base import Experiments
from ._edge_scores import PENALTY_ABOVE_ZERO, EdgeScoreIdentifier, EdgeScores

__all__ = ["GraphicalLassoIdentifier", "output_correlation", "partial_correlation"]

# The constant of the default penalty, chosen on grids and ego-nets; the theory fixes its rate only.
_DEFAULT_PENALTY = 0.7
# Tighter than scikit-learn's own, which keeps the duality gap from closing: no warnings, and a tenth of the time.
_INNER_TOLERANCE = 1e-6
# scikit-learn's own tolerance of the duality gap.
_DUALITY_GAP = 1e-4
# At a penalty of one every partial correlation is zero.
_LARGEST_DEFAULT = 0.9


def output_correlation(outputs: FloatArray, assume_centered: bool) -> FloatArray:
    """Correlations between the outputs of the nodes; nan for nodes whose output never varies or was never measured.

    With gaps every pair is judged by the rows that have both, and negative eigenvalues are set to zero.
    """
    measured = ~np.isnan(outputs)
    values = np.where(measured, outputs, 0.0)
    if not assume_centered:
        values = measured * (values - values.sum(0) / np.maximum(measured.sum(0), 1))
    counts = measured.T.astype(np.float64) @ measured
    covariance = values.T @ values / np.maximum(counts, 1)
    variance = np.diagonal(covariance)
    # Subtracting the mean of equal numbers leaves rounding errors.
    varies = variance > 1e-24 * np.nanmean(outputs**2)
    if not measured.all():
        eigenvalues, vectors = np.linalg.eigh(covariance)
        covariance = vectors * np.maximum(eigenvalues, 0.0) @ vectors.T
    scale = np.sqrt(np.where(varies, np.diagonal(covariance), np.nan))
    correlation = covariance / np.outer(scale, scale)
    correlation[varies, varies] = 1.0
    return np.asarray((correlation + correlation.T) / 2)


def partial_correlation(correlation: FloatArray, alpha: float, max_iter: int) -> tuple[FloatArray, int, float, str]:
    """Partial correlations by the graphical lasso, number of iterations, duality gap, and a remedy if it is open."""
    # The lasso draws a seed from numpy's global generator, which it never uses.
    state = np.random.get_state()  # noqa: NPY002
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, precision, costs, n_iter = graphical_lasso(
                correlation,
                alpha=alpha,
                max_iter=max_iter,
                tol=_DUALITY_GAP,
                enet_tol=_INNER_TOLERANCE,
                return_costs=True,
                return_n_iter=True,
            )
    except FloatingPointError as error:
        raise FloatingPointError(
            f"the graphical lasso failed at alpha={alpha:.3g}; use a larger alpha, which few experiments need."
        ) from error
    finally:
        np.random.set_state(state)  # noqa: NPY002
    n_open = 0
    for message in caught:
        n_open += issubclass(message.category, ConvergenceWarning)
        if issubclass(message.category, DeprecationWarning | FutureWarning):
            warnings.warn_explicit(message.message, message.category, message.filename, message.lineno)
    scale = np.sqrt(np.diagonal(precision))
    partial = -precision / np.outer(scale, scale)
    np.fill_diagonal(partial, 0.0)
    gap = float(costs[-1][1]) if costs else 0.0
    # scikit-learn warns once that the gap is open, and once for every inner loop that failed, as where alpha is too
    # small. Where the gap has closed in the end, failed loops did no harm.
    remedy = f"the graphical lasso did not converge; use a larger {'alpha' if n_open > 1 else 'max_iter'}."
    return (partial + partial.T) / 2, int(n_iter), gap, "" if abs(gap) < _DUALITY_GAP else remedy


class GraphicalLassoIdentifier(EdgeScoreIdentifier):
    """Identify a graph from the largest partial correlations between the outputs.

    The graphical lasso (Friedman, Hastie and Tibshirani [1]_, by :func:`sklearn.covariance.graphical_lasso`) finds a
    sparse inverse of the correlation matrix of the outputs. A pair is an edge if the absolute value of its partial
    correlation is large. Neither inputs, which are assumed to be white noise, nor filter are used to find the graph,
    and known pairs only set the cut.

    Further parameters and attributes are those of `EdgeScoreIdentifier`, which defines what "large" means.

    Parameters
    ----------
    alpha : float or None, default=None
        The l1 penalty on the inverse of the correlation matrix; useful values are between 0 and 1. If None, it is 0.7
        times sqrt(log(n_nodes) / n_experiments), the rate at which chance correlations decrease, but at most 0.9.
    assume_centered : bool, default=False
        Whether to assume that the outputs have mean zero, instead of estimating the mean.
    max_iter : int, default=100
        Maximum number of iterations of the lasso.

    Attributes
    ----------
    edge_scores_ : ndarray of shape (n_nodes, n_nodes)
        Absolute values of the partial correlations; nan for nodes without outputs or with constant outputs.
    n_iter_ : int
        Number of iterations of the lasso.
    diagnostics_ : dict
        In addition "alpha", the penalty; "duality_gap", the distance of the lasso from its optimum; and "converged",
        whether that is close enough.

    See Also
    --------
    SmoothSignalIdentifier : Another method that uses the outputs alone.
    LangevinSystemIdentifier : Samples from the posterior, with a prior.

    References
    ----------
    .. [1] J. Friedman, T. Hastie and R. Tibshirani, "Sparse inverse covariance estimation with the graphical lasso",
       Biostatistics 9 (2008), 432-441.

    Examples
    --------
    A tree, whose nodes are correlated far beyond their neighbours, and many experiments:

    >>> import networkx as nx
    >>> from sklearn_graphid import GraphicalLassoIdentifier
    >>> from sklearn_graphid.datasets import hide_edges, make_system
    >>> tree = nx.balanced_tree(2, 3)
    >>> X, Y = make_system(tree, "arma", theta=[1.0, 0.0, -0.3], n_experiments=500, random_state=0)
    >>> identifier = GraphicalLassoIdentifier("arma").fit(X, Y, hide_edges(tree, fraction=0.3, random_state=0))
    >>> sorted(identifier.to_networkx().edges) == sorted(tree.edges)
    True
    """

    _parameter_constraints = {
        **EdgeScoreIdentifier._parameter_constraints,
        "alpha": [PENALTY_ABOVE_ZERO, None],
        "assume_centered": ["boolean"],
        "max_iter": [NumberInterval(Integral, 1, np.iinfo(np.intc).max, closed="both")],
    }

    def __init__(
        self,
        filter: Any = "polynomial",
        *,
        alpha: float | None = None,
        assume_centered: bool = False,
        max_iter: int = 100,
        threshold: float | None = None,
        observed_nodes: Any = "auto",
    ):
        super().__init__(filter, threshold=threshold, observed_nodes=observed_nodes)
        self.alpha = alpha
        self.assume_centered = assume_centered
        self.max_iter = max_iter

    def _edge_scores(self, experiments: Experiments) -> EdgeScores:
        scores, alpha = output_correlation(experiments.outputs, self.assume_centered), self.alpha
        n_experiments, n_nodes = experiments.outputs.shape
        if alpha is None:
            # Two nodes are enough for a correlation by chance, hence the least logarithm.
            rate = float(np.sqrt(np.log(max(n_nodes, 2)) / n_experiments))
            alpha = min(_DEFAULT_PENALTY * rate, _LARGEST_DEFAULT)
        heard = np.isfinite(np.diagonal(scores))
        if heard.sum() < 2:
            return EdgeScores(scores, {"alpha": float(alpha), "duality_gap": 0.0, "converged": True})
        block = np.ix_(heard, heard)
        partial, n_iter, gap, warning = partial_correlation(scores[block], float(alpha), self.max_iter)
        scores[block] = np.abs(partial)
        told = {"alpha": float(alpha), "duality_gap": gap, "converged": not warning}
        return EdgeScores(scores, told, max(n_iter, 1), warning)
