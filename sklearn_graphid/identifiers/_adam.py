"""Identification by maximum likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import torch

from .._utils._libraries import VERBOSE, StrOptions
from .._utils._numbers import RANDOM_STATE, FloatArray, NumberInterval
from .._utils._torch import draw_seeds, resolve_device, torch_threads
from ..graphs import KnownEdges
from ..samplers import ChainRNG, Slab
from ._base import BaseSystemIdentifier, Experiments, Identification
from ._chains import problem_of
from ._descent import BinaryEntries, DescentSettings, StrengthEntries, maximise_likelihood
from ._edge_scores import EdgeScores, cross_fit, read_edges
from ._estimates import SLABS, FitFollower, check_edge_weights, has_callbacks, refit_theta, weight_matrices

__all__ = ["AdamSystemIdentifier"]


# Far beyond the units of any data in single precision, and within the range in which squares are floats.
_NOISE_RANGE = (1e-100, 1e100)
# Larger numbers leave single precision, in which the steps are taken.
_LARGEST_STEP = 1e30
# Of the usual strength, and no longer told from zero when strengths are compared.
_SMALLEST_STRENGTH = 1e-3


class _Fit(NamedTuple):
    """One descent, in numpy."""

    entries: FloatArray  # (free pairs,), between 0 and 1, or strengths
    theta: FloatArray  # (parameters,)
    losses: list[float]
    noise_std: float  # root mean square of the residuals


@dataclass(frozen=True)
class _Descent:
    """Descents from the same start on the same data, given more or less of the graph."""

    experiments: Experiments
    slab: Slab | None  # None where all edges are alike
    settings: DescentSettings
    seeds: list[int]
    device: torch.device

    def fit(self, known: KnownEdges, follower: FitFollower | None = None) -> _Fit:
        experiments = replace(self.experiments, known=known)
        problem = problem_of(experiments, self.device, has_strengths=self.slab is not None)
        form = BinaryEntries() if self.slab is None else StrengthEntries.for_problem(self.slab, problem)
        with torch.no_grad(), torch_threads(1):
            optimum = maximise_likelihood(problem, form, ChainRNG(self.seeds, self.device), self.settings, follower)
            residuals = problem.residuals(problem.assemble(optimum.entries), optimum.theta).double()
        if not (torch.isfinite(residuals).all() and math.isfinite(optimum.losses[-1])):
            learning_rate = self.settings.learning_rate
            raise FloatingPointError(
                f"the likelihood became infinite or nan; use a smaller learning_rate than {learning_rate!r}."
            )
        entries, theta = (tensor[0].double().cpu().numpy() for tensor in (optimum.entries, optimum.theta))
        noise_std = float((residuals.square().sum() / problem.n_measured).sqrt())
        return _Fit(entries, theta, optimum.losses, noise_std)


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

    If edges have strengths, the strengths of all pairs that may be edges are fitted first. A logistic regression on the
    logarithm of the strength then separates edges from other pairs. It is trained on the known pairs, whose strengths
    come from fits in which a fifth of them at a time is hidden and treated as unknown. If no edges or no non-edges are
    known, the cut is the one that splits the logarithms into two groups of least variance. Finally the strengths of the
    resulting graph are fitted alone. In total these are seven fits instead of one.

    Parameters
    ----------
    filter : {"polynomial", "heat", "arma"} or GraphFilter, default="polynomial"
        The process.
    edge_weights : {"binary", "positive", "signed"}, default="binary"
        Whether edges have no strengths, positive strengths, or strengths of either sign. Known edges may come with
        their strengths (see `KnownEdges`), which are kept. Most filters have a parameter that multiplies all strengths;
        if no strength is known, only the product of the two is determined.
    directed : bool, default=False
        Whether edges have directions, so that (i, j) and (j, i) are separate pairs. An edge from j to i is the entry
        `adjacency_[i, j]`: the output of i depends on the input of j.
    noise_std : float, default=1.0
        Standard deviation of the measurement noise. It only matters relative to `l1_penalty`.
    n_iterations : int, default=1000
        Number of steps of Adam.
    learning_rate : float, default=0.01
        Adam's learning rate for pairs and theta. If edges have strengths, it applies to the logarithms of positive
        strengths, or to signed strengths in units of the known ones, and theta is fitted by least squares.
    l1_penalty : float, default=0.0
        Weight of the sum of the entries of the unknown pairs, which favours sparse graphs. If edges have strengths,
        weight of the sum of their sizes, in units of the known strengths.
    threshold : float, default=0.5
        A pair is an edge if its entry of `edge_probabilities_` is above this.
    observed_nodes : {"auto", "all", "leading"} or list of int, default="auto"
        Which nodes the columns of Y belong to.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".
    verbose : bool or "auto", default="auto"
        Whether to show progress with scikit-learn's `ProgressBar`, which needs rich (the extra `progress`). "auto": on
        a terminal, once a fit has taken five seconds.
    random_state : int, RandomState or None, default=None
        Seed of the random start.

    Attributes
    ----------
    theta_ : ndarray of shape (n_parameters,)
        The filter's parameters, fitted together with the relaxed matrix, or with `weights_` if edges have strengths.
    theta_refitted_ : ndarray of shape (n_parameters,)
        Maximum-likelihood estimate of the parameters on `adjacency_`, or on `weights_`.
    theta_standard_error_ : ndarray of shape (n_parameters,)
        Standard errors of `theta_refitted_`; infinite if the data do not determine a parameter.
    edge_probabilities_ : ndarray of shape (n_nodes, n_nodes)
        The relaxed matrix. Its entries rank the pairs, but are not probabilities. If edges have strengths, the
        probabilities of the logistic regression, which are calibrated if known and unknown pairs are alike.
    weights_ : ndarray of shape (n_nodes, n_nodes)
        Strengths of the edges of `adjacency_`, zero elsewhere; known strengths are as given. Only if edges have
        strengths.
    noise_std_ : float
        Root mean square of the residuals.
    diagnostics_ : dict
        "loss", with one entry for each step; if edges have strengths, also "calibrated", whether the cut between edges
        and other pairs was learned from known pairs.
    n_features_in_ : int
        Number of nodes.

    See Also
    --------
    LangevinSystemIdentifier : Samples from the posterior, with a prior.
    ConstrainedLeastSquaresIdentifier : Faster, for steady states and polynomials of order one.

    Examples
    --------
    Little noise, and half of the pairs known:

    >>> import networkx as nx
    >>> from sklearn_graphid import AdamSystemIdentifier
    >>> from sklearn_graphid.datasets import hide_edges, make_system
    >>> wheel, theta = nx.wheel_graph(7), [1.0, 0.5, 0.2]
    >>> X, Y = make_system(wheel, "polynomial", theta, n_experiments=40, noise_std=0.1, random_state=0)
    >>> known = hide_edges(wheel, fraction=0.5, random_state=0)
    >>> AdamSystemIdentifier("polynomial", random_state=0).fit(X, Y, known).theta_.round(1)
    array([1. , 0.5, 0.2])

    Edges of different strengths, those of known edges among what is known:

    >>> import numpy as np
    >>> from sklearn_graphid import KnownEdges
    >>> nx.set_edge_attributes(wheel, {edge: 0.5 + 0.2 * n for n, edge in enumerate(wheel.edges)}, "weight")
    >>> strengths = nx.to_numpy_array(wheel)
    >>> X, Y = make_system(strengths, "polynomial", theta, n_experiments=40, noise_std=0.1, random_state=0)
    >>> told = KnownEdges(known.mask, known.values, weights=np.where(known.values, strengths, 0))
    >>> settings = {"n_iterations": 200, "learning_rate": 0.05, "random_state": 0}
    >>> identifier = AdamSystemIdentifier("polynomial", edge_weights="positive", **settings).fit(X, Y, told)
    >>> bool(abs(identifier.weights_ - strengths).max() < 0.02)
    True
    """

    _parameter_constraints = {
        **BaseSystemIdentifier._parameter_constraints,
        "edge_weights": [StrOptions(set(SLABS))],
        "directed": ["boolean"],
        "noise_std": [NumberInterval(Real, *_NOISE_RANGE, closed="both")],
        "n_iterations": [NumberInterval(Integral, 1, None, closed="left")],
        "learning_rate": [NumberInterval(Real, 0, _LARGEST_STEP, closed="right")],
        "l1_penalty": [NumberInterval(Real, 0, _LARGEST_STEP, closed="both")],
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
        noise_std: float = 1.0,
        n_iterations: int = 1000,
        learning_rate: float = 0.01,
        l1_penalty: float = 0.0,
        threshold: float = 0.5,
        observed_nodes: Any = "auto",
        device: str = "cpu",
        verbose: Any = "auto",
        random_state: Any = None,
    ):
        self.filter = filter
        self.edge_weights = edge_weights
        self.directed = directed
        self.noise_std = noise_std
        self.n_iterations = n_iterations
        self.learning_rate = learning_rate
        self.l1_penalty = l1_penalty
        self.threshold = threshold
        self.observed_nodes = observed_nodes
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    @property
    def _uses_known_weights(self) -> bool:
        return SLABS[self.edge_weights] is not None

    def _identify(self, experiments: Experiments) -> Identification:
        check_edge_weights(self.edge_weights, experiments.known, experiments.filter)
        settings = DescentSettings(self.noise_std, self.n_iterations, self.learning_rate, self.l1_penalty)
        seeds, device = draw_seeds(self.random_state, 1), resolve_device(self.device)
        descent = _Descent(experiments, SLABS[self.edge_weights], settings, seeds, device)
        root = self._init_callback_context(max_subtasks=self.n_iterations)
        root.call_on_fit_task_begin(estimator=self, **experiments.given)
        follower = FitFollower(self, root, experiments, "step") if has_callbacks(self) else None
        fit = descent.fit(experiments.known, follower)
        result = self._estimates(fit, descent) if descent.slab is None else self._weighted_estimates(fit, descent)
        root.call_on_fit_task_end(
            estimator=self, **experiments.given, reconstruction_attributes=result.attributes(experiments)
        )
        return result

    def _estimates(self, fit: _Fit, descent: _Descent) -> Identification:
        known = descent.experiments.known
        adjacency = known.fill(fit.entries > self.threshold)
        return Identification(
            edge_probabilities=known.fill(fit.entries),
            adjacency=adjacency.astype(np.int64),
            noise_std=fit.noise_std,
            diagnostics={"loss": np.array(fit.losses)},
            **_thetas(fit, descent, adjacency),
        )

    def _weighted_estimates(self, fit: _Fit, descent: _Descent) -> Identification:
        known = descent.experiments.known
        # A callback may have stopped the first fit; those that are compared with it go as far.
        descent = replace(descent, settings=descent.settings._replace(n_iterations=len(fit.losses)))

        def strengths_given(given: KnownEdges) -> EdgeScores:
            return EdgeScores(_log_strengths(fit if given is known else descent.fit(given), given), {})

        reading = read_edges(cross_fit(strengths_given, known).matrix, known, self.threshold)
        adjacency = known.fill(reading.edges)
        # Strengths that are given up have had a part in the fit of the others, which are fitted again without them.
        graph = KnownEdges(np.ones_like(known.mask), adjacency, weights=known.weights, directed=known.directed)
        final = descent.fit(graph)
        weights = weight_matrices(final.entries, graph)
        return Identification(
            edge_probabilities=known.fill(reading.probabilities),
            adjacency=adjacency.astype(np.int64),
            weights=weights,
            noise_std=final.noise_std,
            diagnostics={"loss": np.array(fit.losses), "calibrated": reading.calibrated},
            **_thetas(final, descent, weights),
        )


def _thetas(fit: _Fit, descent: _Descent, matrix: FloatArray) -> dict[str, Any]:
    """theta as it was found, and its best fit on the final matrix."""
    precise = problem_of(descent.experiments, descent.device, torch.float64)
    # The noise level that was given weighs the penalty and is no measurement, so the residuals tell of the noise.
    refit = refit_theta(precise, matrix, fit.theta, noise_std=None)
    further = {"theta_refitted_": refit.theta, "theta_standard_error_": refit.standard_error}
    return {"theta": fit.theta, "further": further}
