"""Identification from a symmetric matrix of the process: its ridge estimate, or one that commutes with a graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, cg

from .._utils._libraries import StrOptions
from .._utils._numbers import FloatArray, NumberInterval
from .._utils._torch import torch_threads
from ..filters import GraphFilter
from ..filters._base import with_fixed_parameters
from ..graphs import KnownEdges
from ..graphs._matrices import check_graph
from ._base import Experiments
from ._edge_scores import PENALTY, PENALTY_ABOVE_ZERO, BoolArray, EdgeScoreIdentifier, EdgeScores, cross_fit, read_edges

__all__ = [
    "CommutingObjective",
    "RidgeSystemIdentifier",
    "RobustFilterIdentifier",
    "alternate",
    "best_gain",
    "commuting_shift",
    "ridge_operator",
]

# Where the l1 norms are reweighted, an entry of this size counts half.
_REWEIGHTING_SCALE = 0.1
# The alternation starts from a ridge estimate even where its objective has no ridge.
_SMALLEST_RIDGE = 1e-3
_MAX_CONJUGATE_GRADIENTS = 50
_MAX_PROJECTED_STEPS = 100


def _fit_operator(
    inputs: FloatArray,
    targets: FloatArray,
    measured: BoolArray,
    gain: float,
    ridge: float,
    start: FloatArray,
    *,
    rtol: float,
    maxiter: int,
    commutation: float = 0.0,
    shift: FloatArray | None = None,
) -> FloatArray:
    """Symmetric H that minimises the part of `CommutingObjective` that depends on it, by conjugate gradients."""
    moment = inputs.T @ targets
    right_side = moment + moment.T + 2 * ridge * gain * np.eye(len(start))

    def normal_equations(vector: FloatArray) -> FloatArray:
        direction = vector.reshape(start.shape)
        half = inputs.T @ (measured * (inputs @ direction))
        if shift is not None:
            once = shift @ direction
            twice = shift @ (once - once.T)  # S C; C is antisymmetric, so S C - C S is this plus its transpose
            half = half + 2 * commutation * twice
        return np.asarray(half + half.T + 2 * ridge * direction).ravel()

    flat = LinearOperator((start.size, start.size), matvec=normal_equations, dtype=np.float64)
    # Every step lowers the objective, so that stopping early costs accuracy only.
    solution, _ = cg(flat, right_side.ravel(), start.ravel(), rtol=rtol, maxiter=maxiter)
    return np.asarray(solution.reshape(start.shape))


def best_gain(inputs: FloatArray, outputs: FloatArray) -> float:
    """The c that explains the measured outputs best by c times the input of the same node."""
    measured = ~np.isnan(outputs)
    power = float((inputs[measured] ** 2).sum())
    return float((inputs[measured] * outputs[measured]).sum()) / power if power else 0.0


def ridge_operator(inputs: FloatArray, outputs: FloatArray, alpha: float) -> FloatArray:
    """The symmetric H that minimises ||Y - X H||^2 + alpha ||H - c I||^2 over what was measured of Y.

    c is the best gain without a graph. A ridge towards zero would move the effect of a node on itself to others.
    """
    measured, gain = ~np.isnan(outputs), best_gain(inputs, outputs)
    scaled_identity = gain * np.eye(inputs.shape[1])
    if not measured.all():
        targets = np.where(measured, outputs, 0.0)
        return _fit_operator(inputs, targets, measured, gain, alpha, scaled_identity, rtol=1e-10, maxiter=2000)
    # D = H - c I solves (G + alpha I) D + D (G + alpha I) = right_side, which is diagonal in the eigenvectors of G.
    moment = inputs.T @ (outputs - gain * inputs)
    eigenvalues, vectors = np.linalg.eigh(inputs.T @ inputs)
    rates = np.add.outer(eigenvalues, eigenvalues) + 2 * alpha
    deviation = vectors @ (vectors.T @ (moment + moment.T) @ vectors / rates) @ vectors.T
    return np.asarray(scaled_identity + (deviation + deviation.T) / 2)


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
        Absolute values of H; nan for pairs of nodes that both lack outputs.

    See Also
    --------
    RobustFilterIdentifier : Fits such a matrix together with a graph.

    References
    ----------
    .. [1] A. E. Hoerl and R. W. Kennard, "Ridge regression: biased estimation for nonorthogonal problems",
       Technometrics 12 (1970), 55-67.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import RidgeSystemIdentifier
    >>> from sklearn_graphid.datasets import make_system
    >>> graph = nx.petersen_graph()
    >>> X, Y = make_system(graph, "polynomial", theta=[1.0, 0.3, 0.0], n_experiments=40, random_state=0)
    >>> found = RidgeSystemIdentifier("polynomial").fit(X, Y).to_networkx()
    >>> set(found.edges) == set(graph.edges)
    True
    """

    _parameter_constraints = {**EdgeScoreIdentifier._parameter_constraints, "alpha": [PENALTY_ABOVE_ZERO]}

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


def _laplacian(adjacency: FloatArray) -> FloatArray:
    return np.diag(adjacency.sum(1)) - adjacency


def commuting_shift(filter: GraphFilter) -> str:
    """The matrix that the filter comes closer to commuting with on a small irregular graph, adjacency or Laplacian."""
    triangle_with_tail = np.array([[0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]], dtype=np.float64)
    shifts = {"adjacency": triangle_with_tail, "laplacian": _laplacian(triangle_with_tail)}
    low, high = torch.tensor(with_fixed_parameters(filter).initial_range(), dtype=torch.float64).unbind(1)
    theta = filter.constrain(low + 0.75 * (high - low))[None]
    with torch.no_grad(), torch_threads(1):
        graph, signals = torch.tensor(triangle_with_tail)[None], torch.eye(4, dtype=torch.float64)
        # A filter of the user's may add a constant, and a constant matrix commutes with every Laplacian.
        varying = filter.apply(graph, theta, signals) - filter.apply(graph, theta, 0 * signals)
    response = varying[0].numpy()
    size = np.linalg.norm
    return min(shifts, key=lambda name: size(response @ shifts[name] - shifts[name] @ response) / size(shifts[name]))


@dataclass(frozen=True)
class CommutingObjective:
    """Objective of the operator H and the graph A.

    ||Y - X H||^2 over what was measured + ridge ||H - gain I||^2 + commutation ||S H - H S||^2
    + sparsity ||A||_1 + closeness ||A - guess||_1, with S the adjacency A or its Laplacian.
    """

    inputs: FloatArray  # (experiments, nodes)
    targets: FloatArray  # (experiments, nodes), zero where nothing was measured
    measured: BoolArray  # (experiments, nodes)
    gain: float
    ridge: float
    commutation: float
    sparsity: float
    closeness: float
    guess: FloatArray  # (nodes, nodes) of 0 and 1
    shift: str  # "adjacency" or "laplacian"
    reweighted: bool  # the concave c log(1 + x / c) in place of every x of the l1 norms

    def shifted(self, adjacency: FloatArray) -> FloatArray:
        """The matrix S."""
        return _laplacian(adjacency) if self.shift == "laplacian" else adjacency

    def commutator(self, operator: FloatArray, adjacency: FloatArray) -> FloatArray:
        """S H - H S, which is antisymmetric."""
        product = self.shifted(adjacency) @ operator
        return product - product.T

    def value(self, operator: FloatArray, adjacency: FloatArray) -> float:
        """The objective."""
        residuals = self.measured * (self.targets - self.inputs @ operator)
        deviation = operator - self.gain * np.eye(len(operator))
        squares = (residuals**2).sum() + self.ridge * (deviation**2).sum()
        mismatch = (self.commutator(operator, adjacency) ** 2).sum()
        entries = [adjacency, np.abs(adjacency - self.guess)]
        if self.reweighted:
            entries = [_REWEIGHTING_SCALE * np.log1p(entry / _REWEIGHTING_SCALE) for entry in entries]
        norms = self.sparsity * entries[0].sum() + self.closeness * entries[1].sum()
        return float(squares + self.commutation * mismatch + norms)

    def slope(self, adjacency: FloatArray) -> FloatArray:
        """Derivative of the l1 norms, which are linear on [0, 1], or of a bound on their concave counterpart."""
        weights = [np.ones_like(adjacency)] * 2
        if self.reweighted:
            weights = [1 / (1 + size / _REWEIGHTING_SCALE) for size in (adjacency, np.abs(adjacency - self.guess))]
        return np.asarray(self.sparsity * weights[0] + self.closeness * weights[1] * (1 - 2 * self.guess))

    def operator_step(self, operator: FloatArray, adjacency: FloatArray, tolerance: float = 1e-5) -> FloatArray:
        """Minimise over symmetric H, starting from `operator`."""
        data = self.inputs, self.targets, self.measured, self.gain, self.ridge, operator
        penalty: dict[str, Any] = {"commutation": self.commutation, "shift": self.shifted(adjacency)}
        return _fit_operator(*data, rtol=tolerance, maxiter=_MAX_CONJUGATE_GRADIENTS, **penalty)

    def graph_step(
        self, operator: FloatArray, adjacency: FloatArray, free: BoolArray, tolerance: float = 1e-4
    ) -> FloatArray:
        """Minimise over the free pairs of A in [0, 1], starting from `adjacency`, never to a larger objective.

        By projected gradients with momentum that starts anew where the objective would rise (O'Donoghue, Candes 2015).
        """
        slope = self.slope(adjacency)

        def value(graph: FloatArray, commutator: FloatArray) -> float:
            return float(self.commutation * np.vdot(commutator, commutator) + np.vdot(slope, graph))

        curvature = self._curvature(operator, free)
        graph, commutator = adjacency, self.commutator(operator, adjacency)
        lowest = value(graph, commutator)
        ahead, ahead_commutator, momentum = graph, commutator, 1.0
        for _ in range(_MAX_PROJECTED_STEPS):
            gradient = self._gradient(operator, ahead_commutator) + slope
            with np.errstate(over="ignore"):  # without any curvature the step is infinite, and ends at 0 or 1
                moved = np.where(free, (ahead - gradient / curvature).clip(0.0, 1.0), adjacency)
            moved_commutator = self.commutator(operator, moved)
            step, step_commutator = moved - ahead, moved_commutator - ahead_commutator
            bend = self.commutation * np.vdot(step_commutator, step_commutator)
            if bend > 0.5 * curvature * np.vdot(step, step) * (1 + 1e-9):
                curvature *= 1.5  # the power iteration had found too little
                continue
            if (reached := value(moved, moved_commutator)) > lowest:
                if momentum == 1.0:
                    break  # a plain step that does not go down has nothing left to gain but rounding
                ahead, ahead_commutator, momentum = graph, commutator, 1.0
                continue
            before, momentum = momentum, (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            share, change = (before - 1) / momentum, moved - graph
            ahead, ahead_commutator = moved + share * change, moved_commutator + share * (moved_commutator - commutator)
            graph, commutator, lowest = moved, moved_commutator, reached
            if np.abs(change).max() <= tolerance:
                break
        return graph

    def _gradient(self, operator: FloatArray, commutator: FloatArray) -> FloatArray:
        """Gradient of the penalty on the commutator, with respect to A."""
        product = commutator @ operator
        gradient = 2 * self.commutation * (product + product.T)
        if self.shift == "laplacian":
            diagonal = np.diagonal(gradient)
            gradient = np.add.outer(diagonal, diagonal) / 2 - gradient
        return np.asarray(gradient)

    def _curvature(self, operator: FloatArray, free: BoolArray) -> float:
        """The largest second derivative in any direction of the free pairs, by a few power iterations."""
        direction = np.where(free, np.add.outer(np.arange(len(free)), np.arange(len(free))) % 3 - 0.9, 0.0)
        largest = 0.0
        for _ in range(6):
            norm = np.linalg.norm(direction)
            if norm == 0:
                break
            direction = np.where(free, self._gradient(operator, self.commutator(operator, direction / norm)), 0.0)
            largest = float(np.linalg.norm(direction))
        return max(1.1 * largest, float(np.finfo(np.float64).tiny))


def alternate(
    problem: CommutingObjective, operator: FloatArray, adjacency: FloatArray, free: BoolArray, max_iter: int, tol: float
) -> tuple[FloatArray, list[float]]:
    """Minimise over operator and graph in turn, until no pair moves by more than `tol`.

    Returns the graph, and the objective at the start and after each half of an alternation.
    """
    values = [problem.value(operator, adjacency)]
    for _ in range(max_iter):
        operator = problem.operator_step(operator, adjacency)
        values.append(problem.value(operator, adjacency))
        before, adjacency = adjacency, problem.graph_step(operator, adjacency, free)
        values.append(problem.value(operator, adjacency))
        if np.abs(adjacency - before).max(initial=0.0) <= tol:
            break
    return adjacency, values


class RobustFilterIdentifier(EdgeScoreIdentifier):
    """Identify a graph that commutes with the process.

    Robust graph filter identification (Rey, Tenorio and Marques [1]_): the process is a symmetric matrix H, Y = X H,
    which commutes with the shift S of the graph, its adjacency matrix or Laplacian. H and the unknown entries of the
    adjacency matrix A, between 0 and 1, alternately minimise

        ||Y - X H||^2 + alpha ||H - c I||^2 + gamma ||S H - H S||^2 + beta ||A||_1 + lambda ||A - A_0||_1

    with a guess A_0 of the graph. The ridge penalty towards the best gain c without a graph is not in [1]_; without it
    few experiments would not determine H. A pair is an edge if its entry of A is large. Only the shift of the filter is
    used to find the graph.

    Further parameters and attributes are those of `EdgeScoreIdentifier`, which defines what "large" means.

    Parameters
    ----------
    alpha : float, default=10.0
        The ridge penalty alpha, for inputs and outputs of unit mean square.
    commutation_penalty : float, default=10.0
        The penalty gamma, for inputs and outputs of unit mean square.
    shift : {"auto", "adjacency", "laplacian"}, default="auto"
        The matrix that the process commutes with. "auto" tries the filter on a small graph.
    l1_penalty : float, default=0.03
        The penalty beta, in units of gamma times the mean square of the influences that a node has on the others.
    reweighted : bool, default=True
        Whether to reweight the l1 norms after every step as in [1]_, so that large entries are penalised less: to
        minimise c log(1 + x / c) instead of x, with c = 0.1.
    guess : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
        The guess A_0 for the unknown pairs. If None, the graph that `RidgeSystemIdentifier` finds.
    guess_penalty : float, default=0.1
        The penalty lambda, in the units of `l1_penalty`. With 0, and if no edge is known, the empty graph is optimal.
    max_iter : int, default=25
        Maximum number of alternations.
    tol : float, default=0.001
        Stop if no entry of A has moved by more than this.

    Attributes
    ----------
    edge_scores_ : ndarray of shape (n_nodes, n_nodes)
        The matrix A; for a known pair, from a fit in which it is hidden with a fifth of the known pairs.
    n_iter_ : int
        Number of alternations.
    diagnostics_ : dict
        In addition "shift", the shift used, and "objective", at the start and after each half of an alternation.

    See Also
    --------
    RidgeSystemIdentifier : Fits the matrix H without a graph.

    References
    ----------
    .. [1] S. Rey, V. M. Tenorio and A. G. Marques, "Robust graph filter identification and graph denoising from signal
       observations", IEEE Transactions on Signal Processing 71 (2023). arXiv:2210.08488.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import RobustFilterIdentifier
    >>> from sklearn_graphid.datasets import hide_edges, make_system
    >>> graph = nx.to_numpy_array(nx.karate_club_graph(), weight=None)
    >>> known = hide_edges(graph, fraction=0.1, random_state=0)
    >>> X, Y = make_system(graph, "polynomial", theta=[0.5, 0.3, 0.1], n_experiments=60, random_state=0)
    >>> identifier = RobustFilterIdentifier("polynomial").fit(X, Y, known)
    >>> bool((identifier.adjacency_ == graph).all())
    True
    """

    _parameter_constraints = {
        **EdgeScoreIdentifier._parameter_constraints,
        "alpha": [PENALTY],
        "commutation_penalty": [PENALTY_ABOVE_ZERO],
        "shift": [StrOptions({"auto", "adjacency", "laplacian"})],
        "l1_penalty": [PENALTY],
        "reweighted": ["boolean"],
        "guess": [None, "array-like", "sparse matrix"],  # a networkx graph has a length, and so is array-like
        "guess_penalty": [PENALTY],
        "max_iter": [NumberInterval(Integral, 1, None, closed="left")],
        "tol": [PENALTY],
    }

    def __init__(
        self,
        filter: Any = "polynomial",
        *,
        alpha: float = 10.0,
        commutation_penalty: float = 10.0,
        shift: str = "auto",
        l1_penalty: float = 0.03,
        reweighted: bool = True,
        guess: Any = None,
        guess_penalty: float = 0.1,
        max_iter: int = 25,
        tol: float = 1e-3,
        threshold: float | None = None,
        observed_nodes: Any = "auto",
    ):
        super().__init__(filter, threshold=threshold, observed_nodes=observed_nodes)
        self.alpha = alpha
        self.commutation_penalty = commutation_penalty
        self.shift = shift
        self.l1_penalty = l1_penalty
        self.reweighted = reweighted
        self.guess = guess
        self.guess_penalty = guess_penalty
        self.max_iter = max_iter
        self.tol = tol

    def _edge_scores(self, experiments: Experiments) -> EdgeScores:
        inputs, outputs, known = experiments.inputs, experiments.outputs, experiments.known
        n_nodes, guess = known.n_nodes, None if self.guess is None else check_graph(self.guess, "guess").values
        if guess is not None and len(guess) != n_nodes:
            raise ValueError(f"guess has {len(guess)} nodes but X has {n_nodes}; expected a graph of {n_nodes} nodes.")
        start, measured = ridge_operator(inputs, outputs, max(self.alpha, _SMALLEST_RIDGE)), ~np.isnan(outputs)
        influences = start - np.diag(np.diagonal(start))
        unit = self.commutation_penalty * float((influences**2).sum()) / n_nodes
        objective = CommutingObjective(
            inputs=inputs,
            targets=np.where(measured, outputs, 0.0),
            measured=measured,
            gain=best_gain(inputs, outputs),
            ridge=float(self.alpha),
            commutation=float(self.commutation_penalty),
            sparsity=self.l1_penalty * unit,
            closeness=self.guess_penalty * unit,
            guess=np.zeros_like(start),
            shift=commuting_shift(experiments.filter) if self.shift == "auto" else self.shift,
            reweighted=bool(self.reweighted),
        )

        def graph_given(partly_known: KnownEdges) -> EdgeScores:
            unknown = partly_known.unknown_pairs()
            guessed = read_edges(np.abs(start), partly_known).edges if guess is None else guess[unknown]
            near = replace(objective, guess=partly_known.fill(guessed))
            soft = partly_known.fill(float(near.guess.mean()))
            graph, values = alternate(near, start, soft, ~partly_known.mask, self.max_iter, self.tol)
            return EdgeScores(graph, {"shift": near.shift, "objective": np.array(values)}, n_iter=len(values) // 2)

        return cross_fit(graph_given, known)
