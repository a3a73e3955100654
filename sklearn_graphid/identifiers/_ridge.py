"""Identification from a ridge estimate of the process as a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from .._utils._numbers import FloatArray
from ._base import Experiments
from ._edge_scores import PENALTY_ABOVE_ZERO, EdgeScoreIdentifier, EdgeScores

__all__ = ["RidgeSystemIdentifier", "best_gain", "ridge_operator", "solve_for_matrix"]


def solve_for_matrix(
    operator: Callable[[FloatArray], FloatArray], right_side: FloatArray, start: FloatArray, rtol: float, maxiter: int
) -> FloatArray:
    """Solve operator(M) = right_side for a matrix M, where the operator is linear, symmetric and positive definite."""
    shape, size = right_side.shape, right_side.size
    flat = LinearOperator((size, size), matvec=lambda vector: operator(vector.reshape(shape)).ravel(), dtype=np.float64)
    # Every step lowers <M, operator(M)> / 2 - <M, right_side>, so that stopping early costs accuracy only.
    solution, _ = cg(flat, right_side.ravel(), start.ravel(), rtol=rtol, maxiter=maxiter)
    return np.asarray(solution.reshape(shape))


def best_gain(inputs: FloatArray, outputs: FloatArray) -> float:
    """The c that explains the measured outputs best by c times the input of the same node."""
    measured = ~np.isnan(outputs)
    power = float((inputs[measured] ** 2).sum())
    return float((inputs[measured] * outputs[measured]).sum()) / power if power else 0.0


def ridge_operator(inputs: FloatArray, outputs: FloatArray, alpha: float) -> FloatArray:
    """The symmetric H that minimises ||Y - X H||^2 + alpha ||H - c I||^2 over what was measured of Y.

    c is the best gain without a graph. A ridge towards zero would move the effect of a node on itself to others.
    """
    measured = ~np.isnan(outputs)
    targets = np.where(measured, outputs, 0.0)
    gain = best_gain(inputs, outputs)
    moment = inputs.T @ (targets - gain * inputs * measured)
    right_side = moment + moment.T
    if measured.all():
        # The equations are (G + alpha I) D + D (G + alpha I) = right_side, and diagonal in the eigenvectors of G.
        eigenvalues, vectors = np.linalg.eigh(inputs.T @ inputs)
        rates = np.add.outer(eigenvalues, eigenvalues) + 2 * alpha
        deviation = vectors @ (vectors.T @ right_side @ vectors / rates) @ vectors.T
        deviation = (deviation + deviation.T) / 2
    else:

        def normal_equations(deviation: FloatArray) -> FloatArray:
            product = inputs.T @ (measured * (inputs @ deviation))
            return product + product.T + 2 * alpha * deviation

        deviation = solve_for_matrix(normal_equations, right_side, np.zeros_like(right_side), rtol=1e-10, maxiter=2000)
    return np.asarray(gain * np.eye(len(deviation)) + deviation)


class RidgeSystemIdentifier(EdgeScoreIdentifier):
    """Identify a graph from the largest entries of a ridge estimate of the process.

    The process Y = X H is estimated without a graph (Hoerl and Kennard [1]_): H is the symmetric matrix that minimises
    ||Y - X H||^2 + alpha ||H - c I||^2, where c is the best gain without a graph. A pair is an edge if abs(H) is large,
    so the method works best if mainly neighbours affect each other. The filter is not used to find the graph.

    Further parameters and attributes are those of `EdgeScoreIdentifier`, which defines what "large" means.

    Parameters
    ----------
    alpha : float, default=10.0
        The ridge penalty, for inputs and outputs of unit mean square: the ratio of the variance of the noise to that of
        the entries of H, whatever the number of experiments.

    Attributes
    ----------
    edge_scores_ : ndarray of shape (n_nodes, n_nodes)
        Absolute values of H, for inputs and outputs of unit mean square; nan for pairs of nodes that both lack outputs.

    See Also
    --------
    RobustFilterIdentifier : Fits such a matrix together with a graph.
    LangevinSystemIdentifier : Samples from the posterior, with a prior.

    References
    ----------
    .. [1] A. E. Hoerl and R. W. Kennard, "Ridge regression: biased estimation for nonorthogonal problems",
       Technometrics 12 (1970), 55-67.

    Examples
    --------
    Neighbours that act on one another directly:

    >>> import networkx as nx
    >>> from sklearn_graphid import RidgeSystemIdentifier
    >>> from sklearn_graphid.datasets import make_system
    >>> graph = nx.petersen_graph()
    >>> X, Y = make_system(graph, "polynomial", theta=[1.0, 0.3, 0.0], n_experiments=40, random_state=0)
    >>> found = RidgeSystemIdentifier("polynomial").fit(X, Y).to_networkx()
    >>> set(found.edges) == set(graph.edges)
    True
    """

    _parameter_constraints = {
        **EdgeScoreIdentifier._parameter_constraints,
        "alpha": [PENALTY_ABOVE_ZERO],
    }

    def __init__(
        self,
        filter: Any = "polynomial",
        *,
        alpha: float = 10.0,
        threshold: float | None = None,
        observed_nodes: Any = "auto",
    ):
        super().__init__(filter, threshold=threshold, observed_nodes=observed_nodes)
        self.alpha = alpha

    def _edge_scores(self, experiments: Experiments) -> EdgeScores:
        scores = np.abs(ridge_operator(experiments.inputs, experiments.outputs, self.alpha))
        silent = np.isnan(experiments.outputs).all(0)
        scores[np.ix_(silent, silent)] = np.nan
        return EdgeScores(scores, {})
