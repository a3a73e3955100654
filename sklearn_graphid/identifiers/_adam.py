"""Identification by maximum likelihood."""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._utils._numbers import FloatArray, NumberInterval
from .._utils._torch import draw_seeds, resolve_device, torch_threads
from ..graphs import KnownEdges
from ..samplers import AdamState, ChainRNG, Problem, adam_step, initial_state
from ._base import BaseSystemIdentifier
from ._chains import problem_of
from ._estimates import refit_theta
from ._following import FitFollower, has_callbacks
from ._result import Experiments, Identification

__all__ = ["AdamSystemIdentifier"]


# A penalty of this size, for outputs of unit size, is all that single precision sees of the loss.
_LARGEST_PENALTY = 1e15
# Far beyond the units of any data in single precision, and within the range in which squares are floats.
_NOISE_RANGE = (1e-100, 1e100)
# Larger numbers leave single precision, in which the steps are taken.
_LARGEST_STEP = 1e30


class _Optimum(NamedTuple):
    pairs: Tensor  # (1, unknown pairs), between 0 and 1
    theta: Tensor  # (1, parameters)
    losses: list[float]


def _output_unit(problem: Problem, pairs: Tensor, theta: Tensor) -> float:
    """Root mean square of the outputs that were measured or of those predicted at the start, whichever is larger."""
    residuals = problem.residuals(problem.assemble(pairs), theta).double()
    outputs = torch.stack([problem.targets.double(), problem.targets.double() - residuals[0]])
    unit = float((outputs.square().sum((-2, -1)) / problem.n_measured).sqrt().max())
    if not math.isfinite(unit):
        raise FloatingPointError(
            "the outputs of the filter are infinite or nan at the start of the fit; check the filter and its initial "
            "range, and bring X and Y to units in which they are near one."
        )
    # Squares of the residuals, and of what they are divided by, are taken in single precision.
    single = torch.finfo(problem.targets.dtype)
    if unit and not 10 * single.tiny**0.5 < unit < 0.1 * (single.max / problem.n_measured) ** 0.5:
        raise FloatingPointError(
            f"the outputs have a root mean square of {unit:.3g}, whose square is beyond single precision; bring X and "
            f"Y to units in which they are near one."
        )
    return unit or 1.0


def maximise_likelihood(
    problem: Problem,
    rng: ChainRNG,
    noise_std: float,
    n_iterations: int,
    learning_rate: float,
    l1_penalty: float,
    follower: FitFollower | None = None,
) -> _Optimum:
    """Adam on the unknown pairs and theta together; after every step the pairs are clipped to [0, 1].

    A factor of the loss does not change Adam's steps, but for the constant that keeps it from dividing by zero. So the
    loss is minimised for outputs of unit size, whatever the units of the data, and told for the noise level that was
    given. The follower is told of every step, and may end it all.
    """
    pairs, theta, one = initial_state(problem, rng, 1.0)
    unit = _output_unit(problem, pairs, theta)
    relative_noise = noise_std / unit
    penalty = min(l1_penalty * relative_noise**2, _LARGEST_PENALTY)
    constant = problem.n_measured * math.log(noise_std)
    given_noise = one.double() * noise_std
    pairs_adam, theta_adam = AdamState.zeros_like(pairs), AdamState.zeros_like(theta)
    losses = []
    for _ in range(n_iterations):
        likelihood = problem.likelihood(problem.assemble(pairs), theta, unit * one)
        half_squares = -float(likelihood.log_likelihood.double().sum()) - problem.n_measured * math.log(unit)
        losses.append(l1_penalty * float(pairs.sum()) + half_squares / relative_noise**2 + constant)
        pairs, pairs_adam = adam_step(pairs, penalty - likelihood.pair_gradient, pairs_adam, learning_rate)
        theta, theta_adam = adam_step(theta, -likelihood.theta_gradient, theta_adam, learning_rate)
        pairs, theta = pairs.clamp(0, 1), problem.filter.constrain(theta)
        if follower is not None and follower(pairs, theta, given_noise):
            break
    return _Optimum(pairs, theta, losses)


@dataclass(frozen=True, kw_only=True)
class _AdamResult(Identification):
    theta_refitted: FloatArray  # (parameters,)
    theta_standard_error: FloatArray  # (parameters,)


class AdamSystemIdentifier(BaseSystemIdentifier):
    """Identify a graph by maximising the likelihood over matrices with entries between 0 and 1.

    The paper's baseline "Adam optimizer". Besides the attributes below it has those of `BaseSystemIdentifier`.

    Parameters
    ----------
    filter : {"polynomial", "heat", "arma"} or GraphFilter, default="polynomial"
        The process.
    directed : bool, default=False
        Whether edges have directions, so that every ordered pair stands alone. An edge from j to i stands at
        `adjacency_[i, j]`: the output of i depends on the input of j.
    noise_std : float, default=1.0
        Standard deviation of the measurement noise. It matters only against `l1_penalty`.
    n_iterations : int, default=1000
        Steps.
    learning_rate : float, default=0.01
        Adam's learning rate for pairs and theta.
    l1_penalty : float, default=0.0
        Weight of the sum of the unknown pairs, which favours sparse graphs.
    threshold : float, default=0.5
        A pair is an edge where it ends above this.
    observed_nodes : {"auto", "all", "leading"} or list of int, default="auto"
        Which nodes the columns of Y belong to.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".
    random_state : int, RandomState or None, default=None
        Makes the start reproducible.

    Attributes
    ----------
    theta_ : ndarray of shape (n_parameters,)
        The filter's parameters, which go with the relaxed matrix.
    theta_refitted_ : ndarray of shape (n_parameters,)
        Their maximum-likelihood fit on `adjacency_`.
    theta_standard_error_ : ndarray of shape (n_parameters,)
        Standard errors of `theta_refitted_`; infinite where the data do not determine a parameter.
    edge_probabilities_ : ndarray of shape (n_nodes, n_nodes)
        The relaxed matrix. Its entries rank the pairs, but are not probabilities.
    noise_std_ : float
        Root mean square of the residuals.
    diagnostics_ : dict
        "loss", one entry a step.
    n_features_in_ : int
        The number of nodes.

    See Also
    --------
    LangevinSystemIdentifier : Sampling, with a prior.

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
    """

    _parameter_constraints = {
        **BaseSystemIdentifier._parameter_constraints,
        "directed": ["boolean"],
        "noise_std": [NumberInterval(Real, *_NOISE_RANGE, closed="both")],
        "n_iterations": [NumberInterval(Integral, 1, None, closed="left")],
        "learning_rate": [NumberInterval(Real, 0, _LARGEST_STEP, closed="right")],
        "l1_penalty": [NumberInterval(Real, 0, _LARGEST_STEP, closed="both")],
        "threshold": [NumberInterval(Real, 0, 1, closed="both")],
        "device": [str],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        filter: Any = "polynomial",
        *,
        directed: bool = False,
        noise_std: float = 1.0,
        n_iterations: int = 1000,
        learning_rate: float = 0.01,
        l1_penalty: float = 0.0,
        threshold: float = 0.5,
        observed_nodes: Any = "auto",
        device: str = "cpu",
        random_state: Any = None,
    ):
        self.filter = filter
        self.directed = directed
        self.noise_std = noise_std
        self.n_iterations = n_iterations
        self.learning_rate = learning_rate
        self.l1_penalty = l1_penalty
        self.threshold = threshold
        self.observed_nodes = observed_nodes
        self.device = device
        self.random_state = random_state

    def _identify(self, experiments: Experiments) -> Identification:
        device = resolve_device(self.device)
        problem = problem_of(experiments, device)
        rng = ChainRNG(draw_seeds(self.random_state, 1), device)
        root = self._init_callback_context(max_subtasks=self.n_iterations)
        root.call_on_fit_task_begin(estimator=self, **experiments.given)
        follower = FitFollower(self, root, experiments, "step") if has_callbacks(self) else None
        settings = (self.noise_std, self.n_iterations, self.learning_rate, self.l1_penalty)
        with torch.no_grad(), torch_threads(1):
            optimum = maximise_likelihood(problem, rng, *settings, follower)
            residuals = problem.residuals(problem.assemble(optimum.pairs), optimum.theta)
        if not (torch.isfinite(residuals).all() and math.isfinite(optimum.losses[-1])):
            raise FloatingPointError(
                f"the likelihood became infinite or nan; use a smaller learning_rate than {self.learning_rate!r}."
            )
        precise = problem_of(experiments, device, torch.float64)
        result = self._estimates(optimum, residuals, precise, experiments.known)
        attributes = {**self._given_attributes(experiments), **result.attributes()}
        root.call_on_fit_task_end(estimator=self, **experiments.given, reconstruction_attributes=attributes)
        return result

    def _estimates(self, optimum: _Optimum, residuals: Tensor, precise: Problem, known: KnownEdges) -> _AdamResult:
        pairs = optimum.pairs[0].double().cpu().numpy()
        theta = optimum.theta[0].double().cpu().numpy()
        adjacency = known.fill(pairs > self.threshold)
        # The noise level that was given weighs the penalty and is no measurement, so the residuals tell of the noise.
        refit = refit_theta(precise, adjacency, theta, noise_std=None)
        return _AdamResult(
            edge_probabilities=known.fill(pairs),
            adjacency=adjacency.astype(np.int64),
            theta=theta,
            theta_refitted=refit.theta,
            theta_standard_error=refit.standard_error,
            noise_std=float((residuals.double().square().sum() / precise.n_measured).sqrt()),
            diagnostics={"loss": np.array(optimum.losses)},
        )
