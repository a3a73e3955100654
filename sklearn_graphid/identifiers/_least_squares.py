"""Identification by least squares, for processes with equations that are linear in the strengths of edges."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, optimize, sparse
from threadpoolctl import threadpool_limits

from .._utils._libraries import StrOptions
from .._utils._numbers import FloatArray, NumberInterval
from ..filters import GraphFilter, PolynomialFilter, SteadyStateFilter
from ..graphs import EdgeSpace, KnownEdges
from ._base import Experiments
from ._edge_scores import EdgeScoreIdentifier, EdgeScores, cross_fit

__all__ = ["ConstrainedLeastSquaresIdentifier"]

# A share of the mean curvature, so that the equations can be solved where strengths cannot be told apart.
_RELATIVE_RIDGE = 1e-10
# Strengths and slopes this far below zero, relative to the largest slope, are rounding.
_RELATIVE_TOLERANCE = 1e-10
_PATIENCE = 3  # exchanges of many strengths at once that may fail to make progress, as Kim and Park advise
# Of the largest eigenvalue of a Laplacian: below it, an eigenvalue is that of a part which is not connected.
_RELATIVE_CUTOFF = 1e-9
_TOO_FEW = (
    "because of missing outputs, no equation contains some of the pairs; the unknown ones among them all get the same "
    "probability, the share of edges."
)


class ConstrainedLeastSquaresIdentifier(EdgeScoreIdentifier):
    """Identify a graph by least squares in the strengths of its edges.

    If outputs are a polynomial of order one, Y = theta_0 X + theta_1 X S, or a steady state, Y L = X, there is one
    equation for every output, linear in the strengths of the edges. A pair is an edge if its fitted strength is large.

    In a steady state, much noise makes the strengths too small, as they are multiplied by the noisy outputs. Equations
    are reweighted by the inverse of the last Laplacian, since noise counts more at nodes with strong edges. An equation
    needs the outputs of a node and of all its possible neighbours, so missing outputs may leave few equations.

    Further parameters and attributes are those of `EdgeScoreIdentifier`, which defines what "large" means.

    Parameters
    ----------
    filter : {"steady-state"} or GraphFilter, default="steady-state"
        A `SteadyStateFilter`, or a `PolynomialFilter` of order one of the adjacency matrix or the Laplacian, without
        `fixed` parameters.
    edge_weights : {"positive", "signed"}, default="positive"
        Whether strengths are positive or may have either sign.
    n_reweightings : int, default=3
        Number of times that the equations of a steady state are reweighted and solved again; 0 with missing outputs,
        with a leak and with signed strengths.

    Attributes
    ----------
    edge_scores_ : ndarray of shape (n_nodes, n_nodes)
        Absolute values of the strengths, for inputs and outputs of unit mean square; for a known pair, from a fit in
        which it is hidden with a fifth of the known pairs.
    weights_ : ndarray of shape (n_nodes, n_nodes)
        Strengths in the units of the data, from a fit that uses all known pairs: in a steady state, X is Y times their
        Laplacian; otherwise Y is X times their matrix or Laplacian, plus a multiple of X. A known edge whose fitted
        strength is zero gets the median of the others.

    See Also
    --------
    RidgeSystemIdentifier : Fits a matrix that need not be that of a graph.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import ConstrainedLeastSquaresIdentifier
    >>> from sklearn_graphid.datasets import hide_edges, make_system
    >>> graph = nx.to_numpy_array(nx.petersen_graph())
    >>> X, Y = make_system(graph, "steady-state", [1.0], n_experiments=20, noise_std=0.1, random_state=0)
    >>> known = hide_edges(graph, 0.4, random_state=0)
    >>> identifier = ConstrainedLeastSquaresIdentifier().fit(X, Y, known)
    >>> bool((identifier.adjacency_ == graph).all())
    True
    """

    _parameter_constraints = {
        **EdgeScoreIdentifier._parameter_constraints,
        "edge_weights": [StrOptions({"positive", "signed"})],
        "n_reweightings": [NumberInterval(Integral, 0, None, closed="left")],
    }

    def __init__(
        self,
        filter: Any = "steady-state",
        *,
        edge_weights: str = "positive",
        n_reweightings: int = 3,
        threshold: float | None = None,
        observed_nodes: Any = "auto",
    ):
        super().__init__(filter, threshold=threshold, observed_nodes=observed_nodes)
        self.edge_weights = edge_weights
        self.n_reweightings = n_reweightings

    def _edge_scores(self, experiments: Experiments) -> EdgeScores:
        inputs, outputs, filter = experiments.inputs, experiments.outputs, experiments.filter

        def given(known: KnownEdges) -> EdgeScores:
            space = EdgeSpace.of_mask(~known.mask | (known.values == 1))
            weights = self._weights(inputs, outputs, space, filter)
            warning = _TOO_FEW if np.isnan(weights).any() else ""
            matrix = space.filled(weights, np.zeros(known.mask.shape))
            power = 1 if isinstance(filter, SteadyStateFilter) else -1
            return EdgeScores(np.abs(matrix), {}, weights=matrix, weight_power=power, warning=warning)

        # Many small solutions, which take thirty times as long where two processes share two cores.
        with threadpool_limits(1, user_api="blas"):
            return cross_fit(given, experiments.known)

    def _weights(self, inputs: FloatArray, outputs: FloatArray, space: EdgeSpace, filter: GraphFilter) -> FloatArray:
        is_steady = isinstance(filter, SteadyStateFilter)
        is_first_order = isinstance(filter, PolynomialFilter) and filter.order == 1
        if not (is_steady or (is_first_order and filter.shift != "normalized-laplacian")):
            raise ValueError(
                f"{type(self).__name__} got filter={filter!r}, which is not linear in the strengths of edges; expected "
                f"SteadyStateFilter, or PolynomialFilter of order 1 with shift 'adjacency' or 'laplacian'."
            )
        if filter.fixed:  # the strengths that are fitted have the scale of a steady state, or theta_1, as a factor
            raise ValueError(
                f"{type(self).__name__} got filter={filter!r}, but it fits strengths that include the parameters of "
                f"the filter; expected fixed=None, or another identifier."
            )
        if not space.n_free:
            return np.zeros(0)
        if is_steady:
            # The output of the ground is zero without noise; without a ground, no node has the number None.
            outputs = np.where(np.arange(space.n_nodes) == filter.ground, 0.0, outputs)
        matrix, targets = _equations(inputs, outputs, space, filter)
        is_said = np.asarray(abs(matrix).sum(axis=0)).ravel()[: space.n_free] > 0
        gram, slope = _normal_equations(matrix, targets, space.n_free)
        if self.edge_weights == "signed":
            return np.where(is_said, linalg.solve(gram, slope, assume_a="pos"), np.nan)
        signs = (1.0,) if is_steady else (1.0, -1.0)  # of theta_1
        fits = [(sign, *_non_negative(gram, sign * slope)) for sign in signs]
        sign, weights, _ = min(fits, key=lambda fit: fit[2])
        if is_steady and not filter.leak and not np.isnan(outputs).any():
            for _ in range(self.n_reweightings):
                weights, _ = _non_negative(*_reweighted_equations(inputs, outputs, space, filter, weights))
        return np.where(is_said, sign * weights, np.nan)


def _equations(
    inputs: FloatArray, outputs: FloatArray, space: EdgeSpace, filter: SteadyStateFilter | PolynomialFilter
) -> tuple[Any, FloatArray]:
    """Sparse matrix (equations, edges) of the effect of every edge of strength one, and its targets (equations,).

    In a steady state these are the flows through the edges and the inflows; otherwise contributions to the outputs, and
    the outputs. A further column belongs to the leak or to theta_0.
    """
    rows, columns = space.ends()
    is_steady = isinstance(filter, SteadyStateFilter)
    signals = np.nan_to_num(outputs) if is_steady else inputs
    if is_steady or filter.shift == "laplacian":
        at_rows = signals[:, rows] - signals[:, columns]
        at_columns = -at_rows
    else:
        at_rows, at_columns = signals[:, columns], signals[:, rows]
    first = np.arange(len(inputs))[:, None] * space.n_nodes
    places: npt.NDArray[np.int64] = np.concatenate([(first + rows).ravel(), (first + columns).ravel()])
    edges = np.tile(np.arange(space.n_free), 2 * len(inputs))
    values = np.concatenate([at_rows.ravel(), at_columns.ravel()])
    matrix = sparse.csr_matrix((values, (places, edges)), shape=(inputs.size, space.n_free))
    if not is_steady or filter.leak:
        matrix = sparse.hstack([matrix, signals.ravel()[:, None]]).tocsr()
    if not is_steady:
        is_complete = ~np.isnan(outputs)
        return matrix[is_complete.ravel()], outputs[is_complete]
    targets = inputs if filter.leak or filter.ground is not None else inputs - inputs.mean(axis=1, keepdims=True)
    # The outflow of a node is known where its output and those of all possible neighbours are.
    neighbours = space.filled(np.ones(space.n_free), np.eye(space.n_nodes))
    is_complete = (np.isnan(outputs) @ neighbours == 0) & (np.arange(space.n_nodes) != filter.ground)
    return matrix[is_complete.ravel()], targets[is_complete]


def _reweighted_equations(
    inputs: FloatArray, outputs: FloatArray, space: EdgeSpace, filter: SteadyStateFilter, weights: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Gram matrix and right side of the equations times the inverse of the Laplacian of the weights.

    With noise E in the outputs, (Y + E) L = X + E L. Times the inverse of L, the errors are E again: independent and
    equal in size.
    """
    rows, columns = space.ends()
    matrix = space.filled(weights, np.zeros((space.n_nodes, space.n_nodes)))
    laplacian = np.diag(matrix.sum(axis=1)) - matrix
    is_free = np.arange(space.n_nodes) != filter.ground
    # Where weights of zero leave parts apart, their potentials are cut off and not infinite.
    inverse, block = np.zeros_like(laplacian), np.ix_(is_free, is_free)
    inverse[block] = np.linalg.pinv(laplacian[block], rcond=_RELATIVE_CUTOFF, hermitian=True)
    targets = inputs - inputs.mean(axis=1, keepdims=True) if filter.ground is None else inputs
    # A pair's column is the product of its potentials and of its difference in outputs, and so are sums over products.
    potentials, difference = inverse[:, rows] - inverse[:, columns], outputs[:, rows] - outputs[:, columns]
    gram = (potentials.T @ potentials) * (difference.T @ difference)
    slope = ((targets @ inverse @ potentials) * difference).sum(axis=0)
    return _with_ridge(gram), slope


def _normal_equations(matrix: Any, targets: FloatArray, n_strengths: int) -> tuple[FloatArray, FloatArray]:
    """Gram matrix and right side for the strengths, the coefficients of all columns after them being eliminated."""
    gram, slope = (matrix.T @ matrix).toarray(), matrix.T @ targets
    others = gram[:n_strengths, n_strengths:]
    rest = gram[n_strengths:, n_strengths:]
    rest = rest + np.finfo(np.float64).tiny ** 0.5 * np.eye(len(rest))
    gram = gram[:n_strengths, :n_strengths] - others @ np.linalg.solve(rest, others.T)
    slope = slope[:n_strengths] - others @ np.linalg.solve(rest, slope[n_strengths:])
    return _with_ridge(gram), slope


def _with_ridge(gram: FloatArray) -> FloatArray:
    ridge = max(_RELATIVE_RIDGE * float(np.trace(gram)) / len(gram), _RELATIVE_RIDGE)  # signals have unit mean square
    return np.asarray(gram + ridge * np.eye(len(gram)))


def _non_negative(gram: FloatArray, slope: FloatArray) -> tuple[FloatArray, float]:
    """The non-negative w that minimises w'Gw / 2 - slope'w, and the minimum.

    By block principal pivoting (Kim and Park, SIAM Journal on Scientific Computing 33, 2011): all strengths that are on
    the wrong side change it at once, which takes a dozen solutions instead of one for every strength above zero.
    """
    scale = 1 / np.sqrt(gram.diagonal())
    gram_scaled, slope_scaled = gram * scale[:, None] * scale, slope * scale
    tolerance = _RELATIVE_TOLERANCE * np.abs(slope_scaled).max()
    is_positive, fewest, patience = np.ones(len(slope), dtype=bool), len(slope) + 1, _PATIENCE
    while True:
        solution = np.zeros(len(slope))
        if is_positive.any():
            part = gram_scaled[np.ix_(is_positive, is_positive)]
            solution[is_positive] = linalg.solve(part, slope_scaled[is_positive], assume_a="pos")
        gradient = gram_scaled @ solution - slope_scaled
        is_wrong = np.where(is_positive, solution, gradient) < -tolerance
        n_wrong = int(is_wrong.sum())
        if not n_wrong:
            break
        patience = _PATIENCE if n_wrong < fewest else patience - 1
        fewest = min(fewest, n_wrong)
        if patience < 0:  # exchanges go round in circles, as where there are fewer equations than strengths
            root = linalg.cholesky(gram_scaled)
            target = linalg.solve_triangular(root, slope_scaled, trans="T")
            solution = optimize.nnls(root, target, maxiter=30 * len(slope))[0]
            break
        is_positive ^= is_wrong
    solution = scale * np.maximum(solution, 0.0)
    return solution, float(solution @ gram @ solution / 2 - slope @ solution)
