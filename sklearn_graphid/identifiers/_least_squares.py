"""Identification by least squares in the strengths of edges, for processes in which these stand linearly."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import linalg, sparse
from scipy.optimize import nnls
from sklearn.utils._param_validation import StrOptions

from .._utils._numbers import FloatArray
from ..filters import GraphFilter, PolynomialFilter, SteadyStateFilter
from ..graphs import EdgeSpace, KnownEdges
from ._strengths import StrengthIdentifier, Strengths, cross_fit

__all__ = ["ConstrainedLeastSquaresIdentifier"]

# A share of the mean curvature, so that the equations can be solved where strengths cannot be told apart.
_RELATIVE_RIDGE = 1e-10
_TOO_FEW = (
    "no equation says anything of some pairs, as outputs are missing; they get the share of edges among the known."
)


class ConstrainedLeastSquaresIdentifier(StrengthIdentifier):
    """Identify a graph by least squares in the strengths of its edges.

    Where outputs are a polynomial of order one, Y = theta_0 X + theta_1 X S, or a steady state, Y L = X, the strengths
    of the edges stand linearly in one equation for every output. They are fitted by least squares, non-negative unless
    `edge_weights="signed"`; pairs that are known to have no edge are left out. A pair is an edge where its strength is
    large. What is large is learnt from known pairs that are hidden from the fit, a fifth at a time.

    In a steady state the outputs, with their noise, are what strengths are multiplied by: much noise makes these too
    small. And an equation needs the outputs of a node and of all that may be its neighbours; where outputs are missing,
    few equations may be left.

    It has the parameters and attributes of `StrengthIdentifier`, besides its own.

    Parameters
    ----------
    filter : {"steady-state"} or GraphFilter, default="steady-state"
        A `SteadyStateFilter`, or a `PolynomialFilter` of order one of the adjacency matrix or the Laplacian.
    edge_weights : {"positive", "signed"}, default="positive"
        Whether strengths may be below zero; their size then counts.

    Attributes
    ----------
    strengths_ : ndarray of shape (n_nodes, n_nodes)
        The size of the strengths, for inputs and outputs of unit mean square; those of known pairs are from the fit
        that they were hidden from.

    See Also
    --------
    RidgeSystemIdentifier : A matrix that need not be that of a graph.
    LangevinSystemIdentifier : Sampling, with a prior.

    Examples
    --------
    Voltages in a ring of resistors:

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
        **StrengthIdentifier._parameter_constraints,
        "edge_weights": [StrOptions({"positive", "signed"})],
    }

    def __init__(
        self,
        filter: Any = "steady-state",
        *,
        edge_weights: str = "positive",
        threshold: float | None = None,
        observed_nodes: Any = "auto",
    ):
        super().__init__(filter, threshold=threshold, observed_nodes=observed_nodes)
        self.edge_weights = edge_weights

    def _strengths(self, inputs: FloatArray, outputs: FloatArray, known: KnownEdges, filter: GraphFilter) -> Strengths:
        def given(known: KnownEdges) -> Strengths:
            space = EdgeSpace.of_mask(~known.mask | (known.values == 1))
            weights = self._weights(inputs, outputs, space, filter)
            warning = _TOO_FEW if np.isnan(weights).any() else ""
            return Strengths(space.filled(np.abs(weights), np.zeros(known.mask.shape)), {}, warning=warning)

        return cross_fit(given, known)

    def _weights(self, inputs: FloatArray, outputs: FloatArray, space: EdgeSpace, filter: GraphFilter) -> FloatArray:
        if isinstance(filter, SteadyStateFilter):
            equations = _steady_state_equations(inputs, outputs, space, filter)
            signs: tuple[float, ...] = (1.0,)
        elif isinstance(filter, PolynomialFilter) and filter.order == 1 and filter.shift != "normalized-laplacian":
            equations = _first_order_equations(inputs, outputs, space, filter.shift == "laplacian")
            signs = (1.0, -1.0)  # of theta_1
        else:
            raise ValueError(
                f"{type(self).__name__} got filter={filter!r}, in which strengths do not stand linearly; expected "
                f"SteadyStateFilter, or PolynomialFilter of order 1 with shift 'adjacency' or 'laplacian'."
            )
        if not space.n_free:
            return np.zeros(0)
        is_said = np.asarray(abs(equations[0]).sum(axis=0)).ravel()[: space.n_free] > 0
        gram, slope = _normal_equations(*equations, space.n_free)
        if self.edge_weights == "signed":
            weights = linalg.solve(gram, slope, assume_a="pos")
        else:
            weights = min((_non_negative(gram, sign * slope) for sign in signs), key=lambda fit: fit[1])[0]
        return np.where(is_said, weights, np.nan)


def _steady_state_equations(
    inputs: FloatArray, outputs: FloatArray, space: EdgeSpace, filter: SteadyStateFilter
) -> tuple[Any, FloatArray]:
    """What flows through every edge of strength one, and what flows in: (equations, edges) and (equations,)."""
    rows, columns = space.ends()
    missing, outputs = np.isnan(outputs), np.nan_to_num(outputs)
    difference = outputs[:, rows] - outputs[:, columns]
    matrix = _both_ends(difference, -difference, space, len(inputs))
    targets = inputs
    if filter.leak:
        matrix = sparse.hstack([matrix, outputs.ravel()[:, None]]).tocsr()
    elif filter.ground is None:
        targets = inputs - inputs.mean(axis=1, keepdims=True)
    # What flows off a node is known where its output is, and those of all that may be its neighbours.
    neighbours = space.filled(np.ones(space.n_free), np.eye(space.n_nodes))
    is_known = missing @ neighbours == 0
    if filter.ground is not None:
        is_known[:, filter.ground] = False
    return matrix[is_known.ravel()], targets.ravel()[is_known.ravel()]


def _first_order_equations(
    inputs: FloatArray, outputs: FloatArray, space: EdgeSpace, is_laplacian: bool
) -> tuple[Any, FloatArray]:
    """What every edge of strength one adds to the outputs, the inputs in the last column, and the outputs."""
    rows, columns = space.ends()
    if is_laplacian:
        difference = inputs[:, rows] - inputs[:, columns]
        matrix = _both_ends(difference, -difference, space, len(inputs))
    else:
        matrix = _both_ends(inputs[:, columns], inputs[:, rows], space, len(inputs))
    matrix = sparse.hstack([matrix, inputs.ravel()[:, None]]).tocsr()
    measured = ~np.isnan(outputs.ravel())
    return matrix[measured], outputs.ravel()[measured]


def _both_ends(at_rows: FloatArray, at_columns: FloatArray, space: EdgeSpace, n_experiments: int) -> Any:
    """A sparse matrix (experiments x nodes, edges) with values (experiments, edges) at the two nodes of each edge."""
    rows, columns = space.ends()
    first = np.arange(n_experiments)[:, None] * space.n_nodes
    places: npt.NDArray[np.int64] = np.concatenate([(first + rows).ravel(), (first + columns).ravel()])
    edges = np.tile(np.arange(space.n_free), 2 * n_experiments)
    values = np.concatenate([at_rows.ravel(), at_columns.ravel()])
    return sparse.csr_matrix((values, (places, edges)), shape=(n_experiments * space.n_nodes, space.n_free))


def _normal_equations(matrix: Any, targets: FloatArray, n_strengths: int) -> tuple[FloatArray, FloatArray]:
    """Gram matrix and right side for the strengths, the coefficients of all columns after them being eliminated."""
    gram, slope = (matrix.T @ matrix).toarray(), matrix.T @ targets
    others = gram[:n_strengths, n_strengths:]
    rest = gram[n_strengths:, n_strengths:]
    rest = rest + np.finfo(np.float64).tiny ** 0.5 * np.eye(len(rest))
    gram = gram[:n_strengths, :n_strengths] - others @ np.linalg.solve(rest, others.T)
    slope = slope[:n_strengths] - others @ np.linalg.solve(rest, slope[n_strengths:])
    ridge = max(_RELATIVE_RIDGE * np.trace(gram) / n_strengths, _RELATIVE_RIDGE)  # signals have unit mean square
    return gram + ridge * np.eye(n_strengths), slope


def _non_negative(gram: FloatArray, slope: FloatArray) -> tuple[FloatArray, float]:
    """The non-negative w that minimises w'Gw / 2 - slope'w, and the minimum."""
    factor = linalg.cholesky(gram)  # the same as least squares with as many equations as unknowns
    solution, _ = nnls(factor, linalg.solve_triangular(factor, slope, trans="T"), maxiter=30 * len(gram))
    return solution, float(solution @ gram @ solution / 2 - slope @ solution)
