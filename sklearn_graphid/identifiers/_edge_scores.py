"""Base class of identifiers that rank pairs: from a score for every pair to a graph, its probabilities and theta.

A score is larger if an edge is more plausible, and nan if the data do not inform about the pair. If edges and non-edges
are known, a cut is learned from their scores.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from .._utils._numbers import FloatArray, NumberInterval
from .._utils._torch import torch_threads
from ..filters import GraphFilter
from ..filters._base import with_fixed_parameters
from ..graphs import EdgeSpace, KnownEdges
from ..samplers import Problem, fit_theta
from ._base import BaseSystemIdentifier, Experiments, Finding, Identification

__all__ = [
    "PENALTY",
    "PENALTY_ABOVE_ZERO",
    "BoolArray",
    "EdgeReading",
    "EdgeScoreIdentifier",
    "EdgeScores",
    "cross_fit",
    "fit_filter",
    "largest_f1_cut",
    "platt_scaling",
    "read_edges",
    "two_means_cut",
]

BoolArray = npt.NDArray[np.bool_]

# Inputs and outputs have unit mean square where penalties are used, and a larger penalty would leave nothing of them in
# double precision.
_LARGEST_PENALTY = 1e30
PENALTY = NumberInterval(Real, 0, _LARGEST_PENALTY, closed="both")
PENALTY_ABOVE_ZERO = NumberInterval(Real, 0, _LARGEST_PENALTY, closed="right")
_N_FOLDS = 5
# A few are enough for two coefficients of a convex function.
_MAX_NEWTON_STEPS = 100


class EdgeScores(NamedTuple):
    """A score for every pair, and diagnostics of the method that found them."""

    matrix: FloatArray  # (nodes, nodes), symmetric, larger where an edge is more plausible, nan where nothing is said
    diagnostics: dict[str, Any]
    n_iter: int = 1
    warning: str = ""  # the same words for all data, so that Python's filter of warnings can show them once
    weights: FloatArray | None = None  # (nodes, nodes), where the method fits them; nan where it cannot
    weight_power: int = 0  # weights grow with this power of the inputs over the outputs


class EdgeReading(NamedTuple):
    """Edges among the unknown pairs, and their probabilities."""

    edges: BoolArray  # (unknown pairs,)
    probabilities: FloatArray  # (unknown pairs,)
    cut: float  # the score above which a pair is an edge; nan where the threshold is one of probabilities
    calibrated: bool  # whether the probabilities come from known pairs


def largest_f1_cut(scores: FloatArray, is_edge: BoolArray) -> float:
    """The cut with the largest F1 score, halfway between two scores; the highest of several that are as good."""
    order = np.argsort(-scores, kind="stable")
    ranked = np.append(scores[order], -np.inf)
    f1 = 2 * np.cumsum(is_edge[order]) / (np.arange(1, len(order) + 1) + is_edge.sum())
    # No cut goes between pairs of equal score.
    best = int(np.where(ranked[:-1] > ranked[1:], f1, -1.0).argmax())
    return float(ranked[best] + ranked[best + 1]) / 2


def two_means_cut(scores: FloatArray) -> tuple[float, float]:
    """The cut into two groups of least variance within them (Otsu 1979), and the standard deviation that is left.

    Scores that are all equal make one group, below the cut.
    """
    ranked = np.sort(scores)
    n_low = np.arange(1, len(ranked))
    sums = np.cumsum(ranked)[:-1]
    gap = (ranked.sum() - sums) / (len(ranked) - n_low) - sums / n_low
    between = np.where(ranked[:-1] < ranked[1:], n_low * (len(ranked) - n_low) * gap**2, 0.0)
    if not (between > 0).any():
        return np.inf, 0.0
    best = int(between.argmax())
    low, high = ranked[: best + 1], ranked[best + 1 :]
    within = (low.var() * len(low) + high.var() * len(high)) / len(ranked)
    return float(low[-1] + high[0]) / 2, float(np.sqrt(within))


def platt_scaling(scores: FloatArray, is_edge: BoolArray) -> tuple[float, float]:
    """Slope, at least 0, and intercept of the log-odds of an edge as a function of its score (Platt 1999).

    Platt's targets, (n + 1) / (n + 2) instead of 1 for n edges and likewise for the non-edges, keep the slope finite
    where a cut separates the two. The cross-entropy is minimised by Newton's method, as scikit-learn's solvers warn
    where the line search has nothing left to gain but rounding.
    """
    n_edges, n_pairs, spread = int(is_edge.sum()), len(is_edge), scores.std()
    targets = np.where(is_edge, (n_edges + 1) / (n_edges + 2), 1 / (n_pairs - n_edges + 2))
    flat = 0.0, float(logit(targets.mean()))
    if spread == 0:
        return flat
    design = np.stack([(scores - scores.mean()) / spread, np.ones_like(scores)])

    def loss(coefficients: FloatArray) -> float:
        log_odds = coefficients @ design
        return float((np.logaddexp(0.0, log_odds) - targets * log_odds).sum())

    coefficients, value = np.array(flat), loss(np.array(flat))
    for _ in range(_MAX_NEWTON_STEPS):
        probabilities = expit(coefficients @ design)
        gradient = design @ (probabilities - targets)
        if np.abs(gradient).max() <= 1e-12 * n_pairs:
            break
        step = np.linalg.solve(design * (probabilities * (1 - probabilities)) @ design.T, gradient)
        while (moved := loss(coefficients - step)) > value and np.abs(step).max() > 1e-15:
            step = step / 2
        if moved > value:
            break
        coefficients, value = coefficients - step, moved
    slope = float(coefficients[0] / spread)
    if slope <= 0:  # a larger score is no sign of an edge here
        return flat
    return slope, float(coefficients[1] - slope * scores.mean())


def read_edges(matrix: FloatArray, known: KnownEdges, threshold: float | None = None) -> EdgeReading:
    """Read the unknown pairs off a matrix of scores, as pairs above a cut or above a threshold of probabilities.

    Where edges and non-edges are known, the cut has the largest F1 score on them and the probabilities are their Platt
    scaling. Elsewhere the scores are cut into two groups, and a logistic curve around the cut ranks the pairs.
    """
    scores = matrix[known.unknown_pairs()]
    rows, columns = EdgeSpace.of_mask(known.mask & np.isfinite(matrix), known.directed).ends()
    reference, is_edge = matrix[rows, columns], known.values[rows, columns] == 1
    calibrated = bool(is_edge.any() and not is_edge.all())
    if calibrated:
        cut = largest_f1_cut(reference, is_edge)
        slope, intercept = platt_scaling(reference, is_edge)
        probabilities = expit(slope * scores + intercept)
        unsaid = (is_edge.sum() + 1) / (len(is_edge) + 2)
    else:
        said = scores[np.isfinite(scores)]
        cut, within = two_means_cut(said)
        # Two values and nothing between them make a step; one value makes no difference.
        steepness = 1 / max(within, np.finfo(np.float64).tiny)
        with np.errstate(over="ignore"):
            probabilities = np.full(scores.shape, 0.5) if np.isinf(cut) else expit(steepness * (scores - cut))
        unsaid = 0.5 if np.isinf(cut) else float((said > cut).mean())
    probabilities = np.where(np.isnan(scores), unsaid, probabilities)
    if threshold is None:
        return EdgeReading(scores > cut, probabilities, cut, calibrated)
    return EdgeReading(probabilities > threshold, probabilities, np.nan, calibrated)


def cross_fit(scores_given: Callable[[KnownEdges], EdgeScores], known: KnownEdges) -> EdgeScores:
    """Scores from a method that learns from what is known, such that known and unknown pairs can be compared.

    Known pairs are hidden from the method a fifth at a time, and their scores are those that it gives them unseen.
    """
    full = scores_given(known)
    matrix = full.matrix.copy()
    pairs = known.known_pairs()
    is_edge = pairs.gather(known.values) == 1
    if is_edge.all() or not is_edge.any():
        return full  # one sort of pair is nothing to compare with
    # Edges and non-edges are dealt out in turn, so that every fold has its share of both.
    shuffled = np.random.default_rng(0).permutation(pairs.n_free)
    dealt = shuffled[np.argsort(is_edge[shuffled], kind="stable")]
    for fold in range(min(_N_FOLDS, pairs.n_free)):
        hidden = pairs.select(dealt[fold::_N_FOLDS])
        mask = known.mask.copy()
        hidden.write(mask, False)
        unseen = scores_given(KnownEdges(mask, known.values, weights=known.weights, directed=known.directed))
        hidden.write(matrix, hidden.gather(unseen.matrix))
        full = full._replace(warning=full.warning or unseen.warning)
    return full._replace(matrix=matrix)


class _ScaledOutputs(GraphFilter):
    """A filter whose outputs are divided by a number, whatever the outputs do when the inputs are divided by it."""

    def __init__(self, filter: GraphFilter, scale: float):
        self.filter = filter
        self.scale = scale

    def parameter_names(self) -> list[str]:
        return self.filter.parameter_names()

    def fixed_values(self) -> dict[int, float]:
        return self.filter.fixed_values()

    def constrain(self, theta: Tensor) -> Tensor:
        return self.filter.constrain(theta)

    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        return self.filter.apply(adjacency, theta, signals) / self.scale

    def theta_jacobian(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> tuple[Tensor, Tensor]:
        outputs, jacobian = self.filter.theta_jacobian(adjacency, theta, signals)
        return outputs / self.scale, jacobian / self.scale


def fit_filter(
    inputs: FloatArray, outputs: FloatArray, matrix: FloatArray, filter: GraphFilter
) -> tuple[FloatArray, float]:
    """Theta by least squares, from the ends and the middle of the initial range, and the rms of the residuals."""
    everything = KnownEdges(np.ones(matrix.shape, dtype=bool), (matrix != 0).astype(float))
    # Squares of extreme numbers leave the range of floats, so the residuals are scaled. The inputs stay as they are: a
    # filter of the user's need not be linear in them.
    scale = float(np.nanmax(np.abs(outputs))) or float(np.abs(inputs).max()) or 1.0
    filter = with_fixed_parameters(filter)
    scaled = _ScaledOutputs(filter, scale)
    problem = Problem.from_numpy(inputs, outputs / scale, everything, scaled, torch.device("cpu"), torch.float64)
    low, high = torch.tensor(filter.initial_range(), dtype=torch.float64).unbind(1)
    starts = filter.constrain(torch.stack([low, (low + high) / 2, high]))
    with torch.no_grad(), torch_threads(1):
        fitted = fit_theta(problem, torch.tensor(matrix).expand(len(starts), -1, -1), starts)
    finite = torch.isfinite(fitted.squares) & torch.isfinite(fitted.theta).all(-1)
    if not finite.any():
        raise FloatingPointError(
            "the least squares fit of theta became infinite or nan; rescale X and Y to values near one, and check the "
            "filter's initial range."
        )
    best = int(torch.where(finite, fitted.squares, torch.inf).argmin())
    return fitted.theta[best].numpy(), scale * float((fitted.squares[best] / problem.n_measured).sqrt())


def _root_mean_square(signals: FloatArray) -> float:
    """The root mean square, without overflow; one for zeros."""
    largest = float(np.nanmax(np.abs(signals)))
    return largest * float(np.sqrt(np.nanmean((signals / largest) ** 2))) if largest else 1.0


def _weights_of_edges(weights: FloatArray, adjacency: FloatArray) -> FloatArray:
    """Weights of a graph's edges, and zero elsewhere; the median where an edge has none."""
    said = weights[(adjacency == 1) & (np.nan_to_num(weights) != 0)]
    usual = float(np.median(said)) if said.size else 1.0
    return np.where(adjacency == 1, np.where(np.nan_to_num(weights) == 0, usual, weights), 0.0)


class EdgeScoreIdentifier(BaseSystemIdentifier):
    """Base class for identifiers that rank pairs by a score and fit theta on the resulting graph.

    A subclass implements `_edge_scores`. A pair is an edge if its score is above a cut: the one with the largest F1
    score on the known pairs if edges and non-edges are known, and otherwise the one that splits the pairs into two
    groups of least variance (Otsu [1]_). theta is then fitted on the graph by least squares.

    Parameters
    ----------
    filter : {"polynomial", "heat", "arma"} or GraphFilter, default="polynomial"
        The process, whose parameters theta are fitted.
    threshold : float or None, default=None
        A pair is an edge if its entry of `edge_probabilities_` is above this. If None, the cut described above.
    observed_nodes : {"auto", "all", "leading"} or list of int, default="auto"
        Which nodes the columns of Y belong to.

    Attributes
    ----------
    adjacency_ : ndarray of shape (n_nodes, n_nodes)
        The identified graph, with entries 0 and 1; known pairs are as given.
    edge_probabilities_ : ndarray of shape (n_nodes, n_nodes)
        Logistic regression on the scores of the known pairs (Platt scaling [2]_), calibrated if known and unknown pairs
        are alike. If no edges or no non-edges are known, the entries only rank the pairs. Pairs without a score get the
        share of edges among the known pairs, or of pairs above the cut.
    edge_scores_ : ndarray of shape (n_nodes, n_nodes)
        The score of every pair; nan if the method gives none.
    theta_ : ndarray of shape (n_parameters,)
        The filter's parameters.
    noise_std_ : float
        Root mean square of the residuals.
    n_iter_ : int
        Number of iterations of the method.
    diagnostics_ : dict
        "cut", the score that separates edges from other pairs; "calibrated", whether it was learned from known pairs;
        and further entries of the method.
    known_edges_, filter_, node_names_ : KnownEdges, GraphFilter and list
        As in `BaseSystemIdentifier`.
    n_features_in_ : int
        Number of nodes.

    References
    ----------
    .. [1] N. Otsu, "A threshold selection method from gray-level histograms", IEEE Transactions on Systems, Man, and
       Cybernetics 9 (1979), 62-66.
    .. [2] J. C. Platt, "Probabilistic outputs for support vector machines and comparisons to regularized likelihood
       methods", Advances in Large Margin Classifiers (1999), 61-74.
    """

    _parameter_constraints = {
        **BaseSystemIdentifier._parameter_constraints,
        "threshold": [NumberInterval(Real, 0, 1, closed="both"), None],
    }

    def __init__(self, filter: Any = "polynomial", *, threshold: float | None = None, observed_nodes: Any = "auto"):
        self.filter = filter
        self.threshold = threshold
        self.observed_nodes = observed_nodes

    @abstractmethod
    def _edge_scores(self, experiments: Experiments) -> EdgeScores:
        """Scores from inputs and outputs that have unit mean square."""

    def _identify(self, experiments: Experiments) -> Identification:
        X, Y, known = experiments.inputs, experiments.outputs, experiments.known
        root = self._init_callback_context()
        root.call_on_fit_task_begin(estimator=self)
        x_unit, y_unit = _root_mean_square(X), _root_mean_square(Y)
        scores = self._edge_scores(replace(experiments, inputs=X / x_unit, outputs=Y / y_unit))
        reading = read_edges(scores.matrix, known, self.threshold)
        adjacency, weights = known.fill(reading.edges), None
        if scores.weights is not None:
            weights = _weights_of_edges((x_unit / y_unit) ** scores.weight_power * scores.weights, adjacency)
        theta, noise_std = fit_filter(X, Y, adjacency if weights is None else weights, experiments.filter)
        root.call_on_fit_task_end(estimator=self)
        return Identification(
            edge_probabilities=known.fill(reading.probabilities),
            adjacency=adjacency.astype(np.int64),
            theta=theta,
            noise_std=noise_std,
            diagnostics={"cut": reading.cut, "calibrated": reading.calibrated, **scores.diagnostics},
            weights=weights,
            findings=(Finding.trouble(scores.warning, category=ConvergenceWarning),) if scores.warning else (),
            further={"edge_scores_": scores.matrix, "n_iter_": scores.n_iter},
        )
