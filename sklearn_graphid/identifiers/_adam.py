"""Identification by maximum likelihood: Adam over the unknown pairs or their strengths, and theta, together."""

from __future__ import annotations

import math
from functools import partial
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from .._utils._libraries import VERBOSE, StrOptions
from .._utils._numbers import RANDOM_STATE, FloatArray, NumberInterval
from .._utils._torch import draw_seeds, resolve_device, torch_threads
from ..graphs import KnownEdges
from ..samplers import AdamState, ChainRNG, Problem, Slab, adam_step, fit_theta, initial_state
from ._base import BaseSystemIdentifier, Experiments, Finding, Identification
from ._edge_scores import PENALTY, PENALTY_ABOVE_ZERO, EdgeScores, cross_fit, read_edges
from ._estimates import SLABS, FitFollower, check_edge_weights, has_callbacks, refit_theta, weight_matrices

__all__ = ["AdamSystemIdentifier", "Entries", "maximise_likelihood"]

# A penalty of this size, for outputs of unit size, is all that single precision sees of the loss.
_LARGEST_PENALTY = 1e15
# Where edges have strengths, theta is fitted anew after so many steps.
_STEPS_PER_THETA = 5
# Of the usual strength, and no longer told from zero when strengths are compared.
_SMALLEST_STRENGTH = 1e-3
_NOT_CONVERGED = "Adam did not converge; use a larger max_iter or tol."


class Entries(NamedTuple):
    """Map from the numbers that Adam moves to the entries of the matrix.

    Entries between 0 and 1 are moved themselves, positive strengths by their logarithms and signed ones in units of
    their size, so that the learning rate has no unit.
    """

    slab: Slab | None = None  # None where all edges are alike
    size: float = 1.0  # a usual strength, in the unit of the known ones
    unit: float = 1.0  # a change of the slab's number that is neither small nor large

    @classmethod
    def for_problem(cls, slab: Slab | None, problem: Problem) -> Entries:
        """The map in the unit of the known strengths, or in that of the slab where none is known."""
        if slab is None:
            return cls()
        law = slab.first_law(slab.number(problem.known_strengths), 1)
        return cls(slab, float(slab.size(law)), float(slab.unit(law)))

    def at(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Entries, and their derivatives by the numbers."""
        if self.slab is None:
            return numbers, torch.ones_like(numbers)
        return self.slab.strength(self.unit * numbers), self.unit * self.slab.slope(self.unit * numbers)

    def sizes(self, entries: Tensor) -> tuple[Tensor, Tensor]:
        """Sizes of entries relative to a usual edge, and their derivatives by the entries."""
        if self.slab is None:
            return entries, torch.ones_like(entries)
        return entries.abs() / self.size, entries.sign() / self.size


def _output_units(problem: Problem, entries: Tensor, theta: Tensor) -> tuple[float, float]:
    """Root mean squares of the measured outputs, and of these or the first predictions, whichever is larger."""
    residuals = problem.residuals(problem.assemble(entries), theta).double()
    outputs = torch.stack([problem.targets.double(), problem.targets.double() - residuals[0]])
    units = (outputs.square().sum((-2, -1)) / problem.n_measured).sqrt()
    unit = float(units.max())
    if not math.isfinite(unit):
        raise FloatingPointError(
            "the outputs of the filter are infinite or nan at the start of the fit; check the filter and its initial "
            "range, and rescale X and Y to values near one."
        )
    # Squares of the residuals, and of what they are divided by, are taken in single precision.
    single = torch.finfo(problem.targets.dtype)
    if unit and not 10 * single.tiny**0.5 < unit < 0.1 * (single.max / problem.n_measured) ** 0.5:
        raise FloatingPointError(
            f"the outputs have a root mean square of {unit:.3g}, whose square is beyond single precision; rescale X "
            f"and Y to values near one."
        )
    return float(units[0]) or unit or 1.0, unit or 1.0


def maximise_likelihood(
    problem: Problem,
    slab: Slab | None,
    rng: ChainRNG,
    *,
    alpha: float,
    learning_rate: float,
    max_iter: int,
    tol: float = 0.0,
    follower: FitFollower | None = None,
) -> tuple[Tensor, Tensor, list[float]]:
    """Adam on the free entries and theta together, from a random start: both in the end, and the loss of every step.

    Where edges have strengths, theta follows by least squares instead, as it carries their unit, for which steps of one
    size would be too long or too short. The loss is minimised for outputs of unit size, since Adam divides by the size
    of the gradient plus a constant. The follower is told of every step, and may stop.
    """
    form = Entries.for_problem(slab, problem)
    numbers, theta, one = initial_state(problem, rng, 1.0)
    if slab is not None:
        # Known edges start from a usual strength; that none of them is negative also settles the sign that strengths
        # and theta share where no strength is known.
        known_edges = torch.ones(len(numbers), problem.n_certain, dtype=numbers.dtype, device=numbers.device)
        numbers = slab.number(form.size * torch.cat([numbers, known_edges], 1)) / form.unit
    entries, slopes = form.at(numbers)
    if slab is not None:
        theta = fit_theta(problem, problem.assemble(entries), theta).theta
    output_unit, unit = _output_units(problem, entries, theta)
    scale = (output_unit / unit) ** 2
    penalty = min(alpha * scale, _LARGEST_PENALTY)
    numbers_adam, theta_adam = AdamState.zeros_like(numbers), AdamState.zeros_like(theta)
    # Known edges of unknown strength are free too, but there whatever the penalty.
    is_penalised = (torch.arange(numbers.shape[1], device=numbers.device) < problem.n_unknown).to(numbers)
    sizes, growth = form.sizes(entries)
    losses = []
    for step in range(1, max_iter + 1):
        likelihood = problem.likelihood(problem.assemble(entries), theta, unit * one)
        half_squares = -float(likelihood.log_likelihood.double().sum()) - problem.n_measured * math.log(unit)
        losses.append(alpha * float((is_penalised * sizes).sum()) + half_squares / scale)
        gradient = slopes * (penalty * is_penalised * growth - likelihood.pair_gradient)
        before = sizes, theta
        numbers, numbers_adam = adam_step(numbers, gradient, numbers_adam, learning_rate)
        if slab is None:
            numbers = numbers.clamp(0, 1)
            theta, theta_adam = adam_step(theta, -likelihood.theta_gradient, theta_adam, learning_rate)
            theta = problem.filter.constrain(theta)
        entries, slopes = form.at(numbers)
        sizes, growth = form.sizes(entries)
        moved = torch.cat([(now - then).flatten() for now, then in zip((sizes, theta), before, strict=True)])
        has_converged = tol > 0 and bool((moved.abs() < tol).all())
        if slab is not None and (step % _STEPS_PER_THETA == 0 or step == max_iter or has_converged):
            theta = fit_theta(problem, problem.assemble(entries), theta, n_iterations=1).theta
        if follower is not None:
            residual_std = one.double() * unit * math.sqrt(max(2 * half_squares, 0.0) / problem.n_measured)
            probabilities = sizes[:, : problem.n_unknown].clamp(max=1.0)
            if follower(probabilities, theta, residual_std, None, None if slab is None else entries):
                break
        if has_converged:
            break
    return entries, theta, losses


class _Fit(NamedTuple):
    """One descent, in numpy."""

    entries: FloatArray  # (free pairs,), between 0 and 1, or strengths
    theta: FloatArray  # (parameters,)
    losses: list[float]
    noise_std: float  # root mean square of the residuals


def _log_strengths(fit: _Fit, known: KnownEdges) -> FloatArray:
    """Logarithms of the strengths (nodes, nodes) relative to a typical known edge (to one if no strength is known)."""
    sizes = np.abs(weight_matrices(fit.entries, known))
    of_known_edges = sizes[known.values == 1]
    usual = float(np.median(of_known_edges)) if of_known_edges.size else 1.0
    return np.asarray(np.log(np.maximum(sizes, _SMALLEST_STRENGTH * usual) / usual))


class AdamSystemIdentifier(BaseSystemIdentifier):
    """Identify a graph by maximising the likelihood over matrices with entries between 0 and 1.

    This is the paper's baseline "Adam optimizer". In addition to the attributes below it has those of
    `BaseSystemIdentifier`.

    If edges have strengths, those of all pairs that may be edges are fitted first. A logistic regression on their
    logarithms then separates edges from other pairs, as in `EdgeScoreIdentifier`; it is trained on known pairs, which
    are hidden from the fit a fifth at a time. Finally the strengths of the resulting graph are fitted alone. In total
    these are seven fits instead of one.

    Parameters
    ----------
    filter : {"polynomial", "heat", "arma"} or GraphFilter, default="polynomial"
        The process.
    edge_weights : {"binary", "positive", "signed"}, default="binary"
        Whether edges have no strengths, positive ones, or ones of either sign. Strengths of known edges are kept; if
        none is known, most filters only determine strengths up to a factor.
    directed : bool, default=False
        Whether edges have directions. An edge from j to i is at `adjacency_[i, j]`.
    alpha : float, default=0.0
        Weight of the sum of the entries of the unknown pairs (if edges have strengths, of their sizes in units of the
        known ones), which favours sparse graphs, against half the sum of squared residuals, for outputs of unit mean
        square.
    learning_rate : float, default=0.01
        Adam's learning rate for pairs and theta. If edges have strengths, theta is fitted by least squares, and the
        rate is that of logarithms of positive strengths, or of signed ones in units of the known ones.
    max_iter : int, default=1000
        Maximum number of steps.
    tol : float, default=0.0
        Stop once a step moves every entry, or strength in units of the known ones, and theta by less; 0: never.
    threshold : float, default=0.5
        A pair is an edge if its entry of `edge_probabilities_` is above this.
    observed_nodes : {"auto", "all", "leading"} or list of int, default="auto"
        Which nodes the columns of Y belong to.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".
    verbose : bool or "auto", default="auto"
        Whether to show progress, with rich (the extra `progress`). "auto": on a terminal, after five seconds.
    random_state : int, RandomState or None, default=None
        Seed of the random start.

    Attributes
    ----------
    theta_ : ndarray of shape (n_parameters,)
        The filter's parameters, fitted together with the relaxed matrix or with `weights_`.
    theta_refitted_ : ndarray of shape (n_parameters,)
        Maximum-likelihood estimate of the parameters on `adjacency_`, or on `weights_`.
    theta_standard_error_ : ndarray of shape (n_parameters,)
        Standard errors of `theta_refitted_`; infinite if the data do not determine a parameter.
    edge_probabilities_ : ndarray of shape (n_nodes, n_nodes)
        The relaxed matrix, whose entries rank the pairs but are not probabilities. If edges have strengths, the
        probabilities of the logistic regression, which are calibrated if known and unknown pairs are alike.
    weights_ : ndarray of shape (n_nodes, n_nodes)
        Strengths of the edges of `adjacency_`, zero elsewhere. Only if edges have strengths.
    noise_std_ : float
        Root mean square of the residuals.
    n_iter_ : int
        Number of steps of the first fit.
    diagnostics_ : dict
        "loss" of each step; if edges have strengths, also "calibrated", whether the cut between edges and other pairs
        was learned from known pairs.
    n_features_in_ : int
        Number of nodes.

    See Also
    --------
    LangevinSystemIdentifier : Samples from the posterior, with a prior.
    ConstrainedLeastSquaresIdentifier : Faster, for steady states and polynomials of order one.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import AdamSystemIdentifier
    >>> from sklearn_graphid.datasets import hide_edges, make_system
    >>> wheel = nx.wheel_graph(7)
    >>> X, Y = make_system(wheel, "polynomial", [1.0, 0.5, 0.2], n_experiments=40, noise_std=0.1, random_state=0)
    >>> known = hide_edges(wheel, fraction=0.5, random_state=0)
    >>> AdamSystemIdentifier("polynomial", random_state=0).fit(X, Y, known).theta_.round(1)
    array([1. , 0.5, 0.2])
    """

    _parameter_constraints = {
        **BaseSystemIdentifier._parameter_constraints,
        "edge_weights": [StrOptions(set(SLABS))],
        "directed": ["boolean"],
        "alpha": [PENALTY],
        "learning_rate": [PENALTY_ABOVE_ZERO],
        "max_iter": [NumberInterval(Integral, 1, None, closed="left")],
        "tol": [PENALTY],
        "threshold": [NumberInterval(Real, 0, 1, closed="both")],
        "device": [str],
        "verbose": VERBOSE,
        "random_state": RANDOM_STATE,
    }

    def __init__(
        self,
        filter: Any = "polynomial",
        *,
        edge_weights: str = "binary",
        directed: bool = False,
        alpha: float = 0.0,
        learning_rate: float = 0.01,
        max_iter: int = 1000,
        tol: float = 0.0,
        threshold: float = 0.5,
        observed_nodes: Any = "auto",
        device: str = "cpu",
        verbose: Any = "auto",
        random_state: Any = None,
    ):
        self.filter = filter
        self.edge_weights = edge_weights
        self.directed = directed
        self.alpha = alpha
        self.learning_rate = learning_rate
        self.max_iter = max_iter
        self.tol = tol
        self.threshold = threshold
        self.observed_nodes = observed_nodes
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    @property
    def _uses_known_weights(self) -> bool:
        return SLABS[self.edge_weights] is not None

    def _identify(self, experiments: Experiments) -> Identification:
        known, slab, device = experiments.known, SLABS[self.edge_weights], resolve_device(self.device)
        check_edge_weights(self.edge_weights, known, experiments.filter)
        descend = partial(self._descend, experiments, draw_seeds(self.random_state, 1), device)
        root = self._init_callback_context(max_subtasks=self.max_iter)
        root.call_on_fit_task_begin(estimator=self, **experiments.given)
        follower = FitFollower(self, root, experiments, "step") if has_callbacks(self) else None
        fit = final = descend(known, self.max_iter, follower)
        n_iter, weights = len(fit.losses), None
        diagnostics: dict[str, Any] = {"loss": np.array(fit.losses)}
        if slab is None:
            probabilities, adjacency = fit.entries, known.fill(fit.entries > self.threshold)
        else:

            def scores_given(given: KnownEdges) -> EdgeScores:
                # A callback may have stopped the first fit; those that are compared with it go as far.
                return EdgeScores(_log_strengths(fit if given is known else descend(given, n_iter), given), {})

            reading = read_edges(cross_fit(scores_given, known).matrix, known, self.threshold)
            probabilities, adjacency = reading.probabilities, known.fill(reading.edges)
            diagnostics["calibrated"] = reading.calibrated
            # Strengths that are given up have had a part in the fit of the others, which are fitted again without them.
            graph = KnownEdges(np.ones_like(known.mask), adjacency, weights=known.weights, directed=known.directed)
            final = descend(graph, n_iter)
            weights = weight_matrices(final.entries, graph)
        data = experiments.inputs, experiments.outputs, experiments.known, experiments.filter
        precise = Problem.from_numpy(*data, device, torch.float64)
        refit, error = refit_theta(precise, adjacency if weights is None else weights, final.theta, noise_std=None)
        has_stopped_early = self.tol > 0 and n_iter == self.max_iter
        result = Identification(
            edge_probabilities=known.fill(probabilities),
            adjacency=adjacency.astype(np.int64),
            theta=final.theta,
            noise_std=final.noise_std,
            diagnostics=diagnostics,
            weights=weights,
            findings=(Finding.trouble(_NOT_CONVERGED, category=ConvergenceWarning),) if has_stopped_early else (),
            further={
                "theta_refitted_": refit,
                "theta_standard_error_": error,
                "n_iter_": n_iter,
            },
        )
        root.call_on_fit_task_end(
            estimator=self, **experiments.given, reconstruction_attributes=result.attributes(experiments)
        )
        return result

    def _descend(
        self,
        experiments: Experiments,
        seeds: list[int],
        device: torch.device,
        known: KnownEdges,
        max_iter: int,
        follower: FitFollower | None = None,
    ) -> _Fit:
        """Fit from the start that the seeds give, with more or less of the graph known."""
        slab = SLABS[self.edge_weights]
        data = experiments.inputs, experiments.outputs, known, experiments.filter
        problem = Problem.from_numpy(*data, device, has_strengths=slab is not None)
        settings = {"alpha": self.alpha, "learning_rate": self.learning_rate, "tol": self.tol}
        with torch.no_grad(), torch_threads(1):
            entries, theta, losses = maximise_likelihood(
                problem, slab, ChainRNG(seeds, device), max_iter=max_iter, follower=follower, **settings
            )
            residuals = problem.residuals(problem.assemble(entries), theta).double()
        if not (torch.isfinite(residuals).all() and math.isfinite(losses[-1])):
            raise FloatingPointError(
                f"the likelihood became infinite or nan; use a smaller learning_rate than {self.learning_rate!r}."
            )
        noise_std = float((residuals.square().sum() / problem.n_measured).sqrt())
        return _Fit(entries[0].double().cpu().numpy(), theta[0].double().cpu().numpy(), losses, noise_std)
