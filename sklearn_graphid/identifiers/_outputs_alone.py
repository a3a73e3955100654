"""Identification from the outputs alone: their partial correlations, or a graph on which they are smooth."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.covariance import graphical_lasso
from sklearn.exceptions import ConvergenceWarning

from .._utils._numbers import FloatArray, NumberInterval
from ..graphs import EdgeSpace, KnownEdges
from ._base import Experiments
from ._edge_scores import PENALTY_ABOVE_ZERO, BoolArray, EdgeScoreIdentifier, EdgeScores, cross_fit

__all__ = [
    "GraphicalLassoIdentifier",
    "SmoothSignalIdentifier",
    "learn_smooth_graph",
    "output_correlation",
    "partial_correlation",
    "squared_distances",
]

# The constant of the default penalty, chosen on grids and ego-nets; the theory fixes its rate only.
_DEFAULT_PENALTY = 0.7
# Tighter than scikit-learn's own, which keeps the duality gap from closing: no warnings, and a tenth of the time.
_INNER_TOLERANCE = 1e-6
# scikit-learn's own tolerance of the duality gap.
_DUALITY_GAP = 1e-4
# At a penalty of one every partial correlation is zero.
_LARGEST_DEFAULT = 0.9
_OPEN_GAP = "the graphical lasso did not converge; use a larger alpha or max_iter."
_MAX_NEWTON_STEPS = 100
_EASY_BETA = 1.0
_ROUGH_TOLERANCE = 1e-3
# Below this, 2 z_ij and the multipliers differ only where double precision ends.
_SMALLEST_BETA = 1e-6
_NOT_CONVERGED = "the weights of the smooth graph did not converge; use a larger beta."


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


def partial_correlation(correlation: FloatArray, alpha: float, max_iter: int) -> tuple[FloatArray, int, float]:
    """Partial correlations by the graphical lasso, number of iterations and duality gap."""
    # The lasso draws a seed from numpy's global generator, which it never uses.
    state = np.random.get_state()  # noqa: NPY002
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # also comes where the gap has closed in the end
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
    scale = np.sqrt(np.diagonal(precision))
    partial = -precision / np.outer(scale, scale)
    np.fill_diagonal(partial, 0.0)
    return (partial + partial.T) / 2, int(n_iter), float(costs[-1][1]) if costs else 0.0


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

    References
    ----------
    .. [1] J. Friedman, T. Hastie and R. Tibshirani, "Sparse inverse covariance estimation with the graphical lasso",
       Biostatistics 9 (2008), 432-441.

    Examples
    --------
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
        partial, n_iter, gap = partial_correlation(scores[block], float(alpha), self.max_iter)
        scores[block] = np.abs(partial)
        converged = abs(gap) < _DUALITY_GAP
        diagnostics = {"alpha": float(alpha), "duality_gap": gap, "converged": converged}
        return EdgeScores(scores, diagnostics, max(n_iter, 1), "" if converged else _OPEN_GAP)


def squared_distances(outputs: FloatArray) -> FloatArray:
    """Mean squared difference between the outputs of two nodes, over the rows that have both; nan without such rows."""
    measured = ~np.isnan(outputs)
    distances = np.empty((outputs.shape[1],) * 2)
    for node, (column, rows) in enumerate(zip(outputs.T, measured.T, strict=True)):
        both = measured & rows[:, None]
        differences = np.where(both, outputs - column[:, None], 0.0)
        counts = both.sum(0)
        distances[node] = np.where(counts > 0, (differences**2).sum(0) / np.maximum(counts, 1), np.nan)
    return distances


@dataclass(frozen=True)
class _Dual:
    """The dual for alpha = 1: minimise, over one multiplier l for each node, sum(beta w(l)^2) - sum(log(l)).

    w_ij = max(0, l_i + l_j - 2 z_ij) / (2 beta) is the best weight of a pair, and l the inverse degree at the optimum.
    """

    rows: npt.NDArray[np.intp]  # (free pairs,)
    columns: npt.NDArray[np.intp]
    distances: FloatArray  # (free pairs,)
    beta: float
    n_nodes: int

    def degrees(self, weights: FloatArray) -> FloatArray:
        """Sums of the weights at every node."""
        sums = [np.bincount(ends, weights, self.n_nodes) for ends in (self.rows, self.columns)]
        return np.asarray(sums[0] + sums[1], dtype=np.float64)

    def at(self, multipliers: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Value, gradient (nodes,) and weights (free pairs,)."""
        ends = multipliers[self.rows] + multipliers[self.columns]
        weights = np.maximum(0.0, ends - 2 * self.distances) / (2 * self.beta)
        value = self.beta * float((weights**2).sum()) - float(np.log(multipliers).sum())
        return value, self.degrees(weights) - 1 / multipliers, weights

    def minimise(self, multipliers: FloatArray, tolerance: float) -> tuple[FloatArray, int, bool]:
        """Newton's method with a line search: multipliers, steps, and whether degree times multiplier is one."""
        value, gradient, weights = self.at(multipliers)
        for n_steps in range(_MAX_NEWTON_STEPS):
            if np.abs(gradient * multipliers).max(initial=0.0) <= tolerance:
                return multipliers, n_steps, True
            curvature = (weights > 0) / (2 * self.beta)
            hessian = np.diag(1 / multipliers**2 + self.degrees(curvature))
            hessian[self.rows, self.columns] = hessian[self.columns, self.rows] = curvature
            step = np.asarray(-np.linalg.solve(hessian, gradient))
            share, slope = 1.0, float(gradient @ step)
            while (multipliers + share * step <= 0).any():
                share /= 2
            moved = self.at(multipliers + share * step)
            # Close to the optimum the value no longer tells, but for rounding, and full steps are right.
            while moved[0] > value + 1e-4 * share * slope + 1e-14 * abs(value):
                share /= 2
                moved = self.at(multipliers + share * step)
            multipliers, (value, gradient, weights) = multipliers + share * step, moved
        return multipliers, _MAX_NEWTON_STEPS, False


def learn_smooth_graph(
    distances: FloatArray, alpha: float, beta: float, free: BoolArray, tolerance: float = 1e-9
) -> tuple[FloatArray, int, bool]:
    """Minimise ||W o Z||_1 - alpha 1' log(W 1) + beta / 2 ||W||^2 over W >= 0, zero where a pair is not free.

    By Proposition 2 of the paper alpha is a factor of the weights if beta is multiplied by it. A small beta is reached
    by tenfold steps from a larger one, where the dual is nearly quadratic. A node without a free pair is left out of
    the logarithms. Returns the weights (nodes, nodes), the number of Newton steps and whether they converged.
    """
    weights = np.zeros(distances.shape)
    nodes = np.flatnonzero(free.any(0))
    rows, columns = EdgeSpace.of_mask(free[np.ix_(nodes, nodes)]).ends()
    if not len(rows):
        return weights, 0, True
    dual = _Dual(rows, columns, distances[nodes[rows], nodes[columns]], alpha * beta, len(nodes))
    # Where no distance counted, all weights would be equal and these the multipliers.
    multipliers = np.full(len(nodes), np.sqrt(2 * dual.beta / (len(nodes) - 1)) + np.median(dual.distances))
    n_iter = 0
    for larger in 10.0 ** np.arange(np.ceil(np.log10(_EASY_BETA / dual.beta)), 0, -1):
        multipliers, n_steps, _ = replace(dual, beta=larger * dual.beta).minimise(multipliers, _ROUGH_TOLERANCE)
        n_iter += n_steps
    # Weights are differences divided by beta, and carry the rounding errors of the one over the other.
    attainable = max(tolerance, 1e-13 / dual.beta)
    multipliers, n_steps, converged = dual.minimise(multipliers, attainable)
    EdgeSpace(len(weights), nodes[rows], nodes[columns]).write(weights, alpha * dual.at(multipliers)[2])
    return weights, n_iter + n_steps, converged


class SmoothSignalIdentifier(EdgeScoreIdentifier):
    """Identify a graph on which the outputs are smooth.

    The method finds weights W that are large between nodes with similar outputs. They minimise (Kalofolias [1]_)

        ||W o Z||_1 - alpha 1' log(W 1) + beta / 2 ||W||^2,    W >= 0,

    where Z holds the squared distances between the outputs of the nodes, divided by their mean. The logarithm ensures
    that every node has an edge. A pair is an edge if its weight is large. Neither inputs nor filter are used to find
    the graph. Known non-edges have weight zero; weights of known edges are learned, as their scale is not known.

    Further parameters and attributes are those of `EdgeScoreIdentifier`, which defines what "large" means.

    Parameters
    ----------
    alpha : float, default=1.0
        Weight of the logarithms. Multiplying it by a factor and dividing `beta` by it multiplies all weights by the
        factor (Proposition 2 of [1]_), so that only the product determines which pairs are strong.
    beta : float, default=0.3
        Weight of the squares. A larger value gives a denser graph.

    Attributes
    ----------
    edge_scores_ : ndarray of shape (n_nodes, n_nodes)
        The weights W; for a known pair, from a fit in which it is hidden with a fifth of the known pairs. nan for nodes
        without outputs.
    n_iter_ : int
        Number of Newton steps; "converged" in `diagnostics_` says whether they were enough.

    See Also
    --------
    GraphicalLassoIdentifier : Another method that uses the outputs alone.

    References
    ----------
    .. [1] V. Kalofolias, "How to learn a graph from smooth signals", Proceedings of the 19th International Conference
       on Artificial Intelligence and Statistics (2016), 920-929.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import SmoothSignalIdentifier
    >>> from sklearn_graphid.datasets import make_system
    >>> groups = nx.caveman_graph(3, 4)
    >>> X, Y = make_system(groups, "heat", theta=[1.0], n_experiments=30, random_state=0)
    >>> found = SmoothSignalIdentifier("heat").fit(X, Y).to_networkx()
    >>> [sorted(group) for group in nx.connected_components(found)]
    [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    """

    _parameter_constraints = {
        **EdgeScoreIdentifier._parameter_constraints,
        "alpha": [PENALTY_ABOVE_ZERO],
        "beta": [PENALTY_ABOVE_ZERO],
    }

    def __init__(
        self,
        filter: Any = "polynomial",
        *,
        alpha: float = 1.0,
        beta: float = 0.3,
        threshold: float | None = None,
        observed_nodes: Any = "auto",
    ):
        super().__init__(filter, threshold=threshold, observed_nodes=observed_nodes)
        self.alpha = alpha
        self.beta = beta

    def _edge_scores(self, experiments: Experiments) -> EdgeScores:
        if self.alpha * self.beta < _SMALLEST_BETA:
            raise ValueError(
                f"alpha={self.alpha!r} times beta={self.beta!r} is below {_SMALLEST_BETA:g}, which is too small for "
                f"double precision; expected a larger beta."
            )
        distances = squared_distances(experiments.outputs)
        comparable = np.isfinite(distances) & ~np.eye(len(distances), dtype=bool)
        mean = distances[comparable].mean() if comparable.any() else 0.0
        scaled = distances / mean if mean else distances

        def weights_given(partly_known: KnownEdges) -> EdgeScores:
            free = comparable & ~(partly_known.mask & (partly_known.values == 0))
            weights, n_iter, converged = learn_smooth_graph(scaled, self.alpha, self.beta, free)
            warning = "" if converged else _NOT_CONVERGED
            return EdgeScores(np.where(comparable, weights, np.nan), {"converged": converged}, n_iter, warning)

        return cross_fit(weights_given, experiments.known)
