"""Identification from signals that are smooth on the graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from ..graphs import EdgeSpace, KnownEdges
from ._base import Experiments
from ._edge_scores import PENALTY_ABOVE_ZERO, EdgeScoreIdentifier, EdgeScores, cross_fit

__all__ = ["SmoothSignalIdentifier", "learn_smooth_graph", "squared_distances"]

_MAX_NEWTON_STEPS = 100
_EASY_BETA = 1.0
_ROUGH_TOLERANCE = 1e-3
# Below this, 2 z_ij and the multipliers differ only where double precision ends.
_SMALLEST_BETA = 1e-6
_NOT_CONVERGED = "the weights of the smooth graph did not converge; use a larger beta."


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
    distances: FloatArray, alpha: float, beta: float, free: npt.NDArray[np.bool_], tolerance: float = 1e-9
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
    Groups within which heat has had time to spread:

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
