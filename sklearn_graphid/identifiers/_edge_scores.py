"""Code shared by identifiers that rank pairs: from a score for every pair to a graph, its probabilities and theta.

A method gives every pair of nodes a number that is larger if an edge is more plausible, and nan if the data do not
inform about the pair. If edges and non-edges are known, a cut is learned from their scores.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import expit, logit
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from .._utils._findings import Finding
from .._utils._numbers import FloatArray, NumberInterval
from .._utils._torch import torch_threads
from ..filters import GraphFilter
from ..filters._base import with_fixed_parameters
from ..graphs import EdgeSpace, KnownEdges
from ..samplers import Problem, fit_theta
from ._base import BaseSystemIdentifier, Experiments, Identification

__all__ = [
    "LARGEST_PENALTY",
    "BoolArray",
    "EdgeReading",
    "EdgeScoreIdentifier",
    "EdgeScores",
    "FilterFit",
    "cross_fit",
    "fit_filter",
    "largest_f1_cut",
    "platt_scaling",
    "read_edges",
    "two_means_cut",
    "unit_scale",
]

BoolArray = npt.NDArray[np.bool_]

# Inputs and outputs have unit mean square where penalties are used, and a larger penalty would leave nothing of them in
# double precision.
LARGEST_PENALTY = 1e30
_N_FOLDS = 5
# A few are enough for two coefficients of a convex function.
_MAX_NEWTON_STEPS = 100


class EdgeScores(NamedTuple):
    """A number for every pair, and what is worth telling about how it was found."""

    matrix: FloatArray  # (nodes, nodes), symmetric, larger where an edge is more plausible, nan where nothing is said
    diagnostics: dict[str, Any]
    n_iter: int = 1
    warning: str = ""  # the same words for all data, so that Python's filter of warnings can show them once
    weights: FloatArray | None = None  # (nodes, nodes), where the method fits them; nan where it cannot
    weight_power: int = 0  # weights grow with this power of the inputs over the outputs


class EdgeReading(NamedTuple):
    """What the scores say of the unknown pairs."""

    edges: BoolArray  # (unknown pairs,)
    probabilities: FloatArray  # (unknown pairs,)
    cut: float  # the score above which a pair is an edge; nan where the threshold is one of probabilities
    calibrated: bool  # whether the probabilities come from known pairs


def largest_f1_cut(scores: FloatArray, is_edge: BoolArray) -> float:
    """The cut with the largest F1 score, halfway between two scores; the highest of several that are as good."""
    order = np.argsort(-scores, kind="stable")
    ranked = np.append(scores[order], -np.inf)
    n_found = np.cumsum(is_edge[order])
    f1 = 2 * n_found / (np.arange(1, len(order) + 1) + is_edge.sum())
    # No cut goes between pairs of equal score.
    best = int(np.where(ranked[:-1] > ranked[1:], f1, -1.0).argmax())
    if best + 1 == len(order):
        return -np.inf
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
    where a cut separates the two.
    """
    n_edges, n_pairs = int(is_edge.sum()), len(is_edge)
    targets = np.where(is_edge, (n_edges + 1) / (n_edges + 2), 1 / (n_pairs - n_edges + 2))
    flat = 0.0, float(logit(targets.mean()))
    spread = scores.std()
    if spread == 0:
        return flat
    standardised = (scores - scores.mean()) / spread
    standard_slope, standard_intercept = _logistic_fit(standardised, targets, np.array(flat))
    slope = float(standard_slope / spread)
    if slope <= 0:  # a larger score is no sign of an edge here
        return flat
    return slope, float(standard_intercept - slope * scores.mean())


def _logistic_fit(feature: FloatArray, targets: FloatArray, start: FloatArray) -> FloatArray:
    """Slope and intercept of least cross-entropy with targets strictly between 0 and 1, by Newton's method.

    scikit-learn's solvers warn where the line search has nothing left to gain but rounding, as with scores of two
    values only.
    """
    design = np.stack([feature, np.ones_like(feature)])

    def loss(coefficients: FloatArray) -> float:
        log_odds = coefficients @ design
        return float((np.logaddexp(0.0, log_odds) - targets * log_odds).sum())

    coefficients, value = start, loss(start)
    for _ in range(_MAX_NEWTON_STEPS):
        probabilities = expit(coefficients @ design)
        gradient = design @ (probabilities - targets)
        if np.abs(gradient).max() <= 1e-12 * len(targets):
            break
        curvature = design * (probabilities * (1 - probabilities)) @ design.T
        step = np.linalg.solve(curvature, gradient)
        moved = loss(coefficients - step)
        while moved > value and np.abs(step).max() > 1e-15:
            step = step / 2
            moved = loss(coefficients - step)
        if moved > value:
            break
        coefficients, value = coefficients - step, moved
    return coefficients


def read_edges(matrix: FloatArray, known: KnownEdges, threshold: float | None = None) -> EdgeReading:
    """Read the unknown pairs off a matrix of scores.

    Parameters
    ----------
    matrix : ndarray of shape (n_nodes, n_nodes)
        Scores; nan where the data say nothing.
    known : KnownEdges
        What is known. Where it holds edges and non-edges, the cut has the largest F1 score on them and the
        probabilities are their Platt scaling; elsewhere the scores are cut into two groups, and the probabilities
        are a logistic curve around the cut, which ranks the pairs and no more.
    threshold : float or None
        Take as edges the pairs whose probability is above this, instead of a cut of the scores.

    Returns
    -------
    EdgeReading
        Edges and probabilities of the unknown pairs.
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
        cut, probabilities, unsaid = _read_without_examples(scores)
    probabilities = np.where(np.isnan(scores), unsaid, probabilities)
    if threshold is None:
        return EdgeReading(scores > cut, probabilities, cut, calibrated)
    return EdgeReading(probabilities > threshold, probabilities, np.nan, calibrated)


def _read_without_examples(scores: FloatArray) -> tuple[float, FloatArray, float]:
    said = scores[np.isfinite(scores)]
    cut, within = two_means_cut(said)
    if np.isinf(cut):
        return cut, np.full(scores.shape, 0.5), 0.5
    # Two values and nothing between them make a step.
    steepness = 1 / max(within, np.finfo(np.float64).tiny)
    with np.errstate(over="ignore"):
        curve: FloatArray = expit(steepness * (scores - cut))
    return cut, curve, float((said > cut).mean())


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


class FilterFit(NamedTuple):
    """The filter's parameters on a given graph."""

    theta: FloatArray
    noise_std: float  # root mean square of the residuals


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


def fit_filter(inputs: FloatArray, outputs: FloatArray, matrix: FloatArray, filter: GraphFilter) -> FilterFit:
    """Fit theta by least squares, from the ends and the middle of the filter's initial range; the best one stays."""
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
    noise_std = scale * float((fitted.squares[best] / problem.n_measured).sqrt())
    return FilterFit(fitted.theta[best].numpy(), noise_std)


def unit_scale(signals: FloatArray) -> float:
    """The root mean square, so that penalties of what is divided by it have no units; one for zeros."""
    largest = float(np.nanmax(np.abs(signals)))
    # Divided first, or squares of extreme numbers would leave the range.
    return largest * float(np.sqrt(np.nanmean((signals / largest) ** 2))) if largest else 1.0


class EdgeScoreIdentifier(BaseSystemIdentifier):
    """Base class for identifiers that rank pairs by a score and fit theta on the resulting graph.

    A subclass implements `_edge_scores`. A pair is an edge if its score is large, that is above a cut. If edges and
    non-edges are known, it is the cut with the largest F1 score on them; otherwise it is the cut that splits the pairs
    into two groups of least variance (Otsu [1]_). theta is then fitted on the graph by least squares, with the inputs.

    Parameters
    ----------
    filter : {"polynomial", "heat", "arma"} or GraphFilter, default="polynomial"
        The process, whose parameters theta are fitted. Whether it is also used to find the graph depends on the method.
    threshold : float or None, default=None
        A pair is an edge if its entry of `edge_probabilities_` is above this. If None, the cut described above.
    observed_nodes : {"auto", "all", "leading"} or list of int, default="auto"
        Which nodes the columns of Y belong to.

    Attributes
    ----------
    adjacency_ : ndarray of shape (n_nodes, n_nodes)
        The identified graph, with entries 0 and 1; known pairs are as given.
    edge_probabilities_ : ndarray of shape (n_nodes, n_nodes)
        Logistic regression of the known pairs on their scores (Platt scaling [2]_), applied to the unknown pairs. It
        is calibrated if known and unknown pairs are alike. If no edges or no non-edges are known, the entries rank the
        pairs but are not probabilities. Pairs without a score get the share of edges among the known pairs, or the
        share of pairs above the cut if the known pairs did not set it.
    edge_scores_ : ndarray of shape (n_nodes, n_nodes)
        The score that the method gives every pair; nan if it gives none.
    theta_ : ndarray of shape (n_parameters,)
        The filter's parameters.
    noise_std_ : float
        Root mean square of the residuals.
    n_iter_ : int
        Number of iterations of the method; 1 if it does not iterate.
    diagnostics_ : dict
        "cut", the score that separates edges from other pairs; "calibrated", whether the cut was learned from known
        pairs; and further entries of the method.
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
    def _edge_scores(
        self, inputs: FloatArray, outputs: FloatArray, known: KnownEdges, filter: GraphFilter
    ) -> EdgeScores:
        """Scores from inputs and outputs (experiments, nodes) of unit rms; nan where nothing was measured."""

    def _identify(self, experiments: Experiments) -> Identification:
        X, outputs, known, filter = experiments.inputs, experiments.outputs, experiments.known, experiments.filter
        root = self._init_callback_context()
        root.call_on_fit_task_begin(estimator=self)
        scales = unit_scale(X), unit_scale(outputs)
        scores = self._edge_scores(X / scales[0], outputs / scales[1], known, filter)
        reading = read_edges(scores.matrix, known, self.threshold)
        adjacency = known.fill(reading.edges)
        matrix = adjacency
        if scores.weights is not None:
            in_units_of_the_data = (scales[0] / scales[1]) ** scores.weight_power * scores.weights
            matrix = _weights_of_edges(in_units_of_the_data, adjacency)
        fitted = fit_filter(X, outputs, matrix, filter)
        trouble = (Finding.trouble(scores.warning, ConvergenceWarning),) if scores.warning else ()
        root.call_on_fit_task_end(estimator=self)
        return Identification(
            edge_probabilities=known.fill(reading.probabilities),
            adjacency=adjacency.astype(np.int64),
            theta=fitted.theta,
            noise_std=fitted.noise_std,
            diagnostics={"cut": reading.cut, "calibrated": reading.calibrated, **scores.diagnostics},
            weights=None if scores.weights is None else matrix,
            findings=trouble,
            further={"edge_scores_": scores.matrix, "n_iter_": scores.n_iter},
        )


def _weights_of_edges(weights: FloatArray, adjacency: FloatArray) -> FloatArray:
    """Weights of a graph's edges, and zero elsewhere; the median where an edge has none."""
    said = weights[(adjacency == 1) & (np.nan_to_num(weights) != 0)]
    usual = float(np.median(said)) if said.size else 1.0
    return np.where(adjacency == 1, np.where(np.nan_to_num(weights) == 0, usual, weights), 0.0)
