"""Identification by sampling from the posterior."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from .._known_edges import KnownEdges
from .._torch import draw_seeds, resolve_device, torch_threads
from .._validation import FloatArray, check_edge_probabilities
from ..filters import GraphFilter
from ..priors import ErdosRenyiPrior, GraphPrior, GraphPriorScore
from ..samplers import AnnealingSettings, effective_sample_size, fit_theta, split_r_hat, stuck_chains
from ._base import BaseSystemIdentifier, loses_nothing
from ._chains import ChainDraws, SamplingTask, run_chains

__all__ = ["PAPER_SETTINGS", "LangevinSystemIdentifier", "LikelihoodLangevinIdentifier"]

#: Constructor arguments that make a run Algorithm 1 of the paper: ten evenly spaced noise levels from 0.5 to 0.03 with
#: 300 steps each, one chain, its rounded end as the estimate.
PAPER_SETTINGS: dict[str, Any] = {
    "algorithm": "langevin",
    "noise_std": 1.0,
    "n_chains": 1,
    "n_levels": 10,
    "sigma_max": 0.5,
    "sigma_min": 0.03,
    "n_steps": 300,
    "step_size": 1e-6,
    "temperature": 0.5,
    "theta_learning_rate": 0.01,
    "point_estimate": "sample",
}

# Unseen graphs of a prior's own kind stay below this in all but one of a thousand cases.
_LARGEST_SURPRISE = 5.0

_POSITIVE = Interval(Real, 0, None, closed="neither")
_AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")


class _PosteriorIdentifier(CallbackSupportMixin, BaseSystemIdentifier):
    """What the identifiers that sample have in common; they differ in the prior."""

    _parameter_constraints = {
        "filter": [str, GraphFilter],
        "algorithm": [StrOptions({"edge-flip", "langevin"})],
        "noise_std": [_POSITIVE, None],
        "n_chains": [_AT_LEAST_ONE],
        "n_levels": [_AT_LEAST_ONE],
        "sigma_max": [_POSITIVE],
        "sigma_min": [_POSITIVE],
        "n_steps": [_AT_LEAST_ONE],
        "step_size": [_POSITIVE, None],
        "temperature": [_POSITIVE],
        "theta_learning_rate": [_POSITIVE, None],
        "point_estimate": [StrOptions({"marginal", "sample", "best"})],
        "observed_nodes": [str, "array-like"],
        "n_jobs": [Integral, None],
        "device": [str],
        "random_state": ["random_state"],
    }

    def _prior_for(self, known: KnownEdges, sigmas: tuple[float, ...]) -> GraphPrior | None:
        """The prior, checked; None for a prior score of zero."""
        raise AssertionError("subclasses choose their prior")

    def _evidence_for(self, known: KnownEdges) -> FloatArray | None:
        return None

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=False)
    @loses_nothing
    def fit(self, X: Any, Y: Any, known_mask: Any = None, known_adjacency: Any = None) -> Self:
        """Sample graph and filter parameters given input-output pairs.

        Parameters
        ----------
        X : array-like of shape (n_pairs, n_nodes)
            Inputs, a row for each pair and a column for each node.
        Y : array-like of shape (n_pairs, n_nodes), (n_pairs, n_outputs) or (n_pairs,)
            Outputs. nan where nothing was measured. With fewer columns than nodes, see `observed_nodes`.
        known_mask : KnownEdges, array of shape (n_nodes, n_nodes) or None, default=None
            What is known of the network: a `KnownEdges`; an array with 0 and 1 where the pair is known and nan where
            it is not; or a boolean array (True = known) together with `known_adjacency`. None: nothing.
        known_adjacency : array, sparse matrix or networkx.Graph, default=None
            The network where a boolean `known_mask` is True.

        Returns
        -------
        self
            The fitted identifier.
        """
        X, outputs = self._validate_pairs(X, Y)
        known = KnownEdges.coerce(known_mask, known_adjacency, n_nodes=X.shape[1])
        task = self._task(X, outputs, known)
        draws = self._run(task)
        self.known_edges_ = known
        self._store_draws(draws, task)
        self._store_estimate(task)
        self._warn_where_not_mixed()
        return self

    def _task(self, inputs: FloatArray, outputs: FloatArray, known: KnownEdges) -> SamplingTask:
        settings = self._settings()
        return SamplingTask(
            inputs=inputs,
            outputs=outputs,
            known=known,
            filter=self._resolved_filter(),
            prior=self._prior_for(known, settings.sigmas),
            evidence=self._evidence_for(known),
            settings=settings,
            algorithm=self.algorithm,
            device=resolve_device(self.device),
        )

    def _settings(self) -> AnnealingSettings:
        if self.sigma_min > self.sigma_max:
            raise ValueError(
                f"sigma_min={self.sigma_min!r} is above sigma_max={self.sigma_max!r}; expected the smaller one."
            )
        spaced = np.linspace if self.algorithm == "langevin" else np.geomspace
        return AnnealingSettings(
            sigmas=tuple(float(sigma) for sigma in spaced(self.sigma_max, self.sigma_min, self.n_levels)),
            n_steps=self.n_steps,
            step_size=self.step_size,
            temperature=self.temperature,
            theta_learning_rate=self.theta_learning_rate,
            noise_std=self.noise_std,
        )

    def _run(self, task: SamplingTask) -> ChainDraws:
        seeds = draw_seeds(self.random_state, self.n_chains)
        root = self._init_callback_context(max_subtasks=None)
        root.call_on_fit_task_begin(estimator=self)
        batches = []
        for batch in run_chains(task, seeds, self.n_jobs):
            batches.append(batch)
            step = root.subcontext(task_name="batch of chains")
            step.call_on_fit_task_begin(estimator=self)
            step.call_on_fit_task_end(estimator=self)
        root.call_on_fit_task_end(estimator=self)
        stacked = [
            part[0] if name == "trace_sigma" else np.concatenate(part)
            for name, part in zip(ChainDraws._fields, zip(*batches, strict=True), strict=True)
        ]
        return ChainDraws(*stacked)

    def _store_draws(self, draws: ChainDraws, task: SamplingTask) -> None:
        finite = np.array(np.isfinite(draws.log_likelihood).all(1) & np.isfinite(draws.theta).all((1, 2)))
        if not finite.any():
            raise FloatingPointError(
                f"all {len(finite)} chains diverged. Use a smaller step_size (None derives it from the data), check "
                f"that noise_std={self.noise_std!r} fits the units of Y, or choose the filter's initial range."
            )
        draws = _select(draws, finite)
        stuck = stuck_chains(draws.log_likelihood + draws.log_prior)
        self._draws = _select(draws, ~stuck)
        rows, columns = task.known.unknown_pairs()
        self._unknown_rows, self._unknown_columns = rows, columns
        self.edge_probabilities_ = task.known.fill(self._draws.edge_probability.mean(0))
        self.theta_samples_ = self._draws.theta.reshape(-1, self._draws.theta.shape[-1])
        self.noise_std_ = float(np.sqrt(np.mean(self._draws.noise_std**2)))
        self.diagnostics_ = _diagnose(self._draws, n_diverged=int((~finite).sum()), n_stuck=int(stuck.sum()))

    def _store_estimate(self, task: SamplingTask) -> None:
        if self.point_estimate == "marginal":
            adjacency, theta = (self.edge_probabilities_ > 0.5).astype(np.float64), self.theta_samples_.mean(0)
        elif self.point_estimate == "sample":
            adjacency, theta = task.known.fill(self._draws.graphs[0, -1]), self._draws.theta[0, -1]
        else:
            chain, draw = np.unravel_index(self._draws.log_likelihood.argmax(), self._draws.log_likelihood.shape)
            adjacency = task.known.fill(self._draws.graphs[chain, draw])
            theta = _refit(task, adjacency, self._draws.theta[chain, draw])
        self.adjacency_ = np.asarray(adjacency, dtype=np.int64)
        self.theta_ = np.asarray(theta, dtype=np.float64)
        self.theta_std_ = self.theta_samples_.std(0)

    def _warn_where_not_mixed(self) -> None:
        n_diverged = self.diagnostics_["n_diverged"]
        if n_diverged:
            warnings.warn(
                f"{n_diverged} of {self.n_chains} chains diverged and were dropped; a smaller step_size, or None, "
                f"keeps them stable.",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _draw(self, n_samples: int, random_state: Any) -> tuple[npt.NDArray[np.int64], FloatArray]:
        # Every chain's last draw first, as those are independent; then earlier ones; repeats only beyond them all.
        n_chains, n_draws = self._draws.log_likelihood.shape
        rng = check_random_state(random_state)
        order = np.concatenate([rng.permutation(n_chains) + n_chains * age for age in range(n_draws)])
        chosen = np.resize(order, n_samples)
        chains, draws = chosen % n_chains, n_draws - 1 - chosen // n_chains
        adjacencies = self.known_edges_.fill(self._draws.graphs[chains, draws]).astype(np.int64)
        return adjacencies, self._draws.theta[chains, draws].copy()


def _refit(task: SamplingTask, adjacency: FloatArray, theta: FloatArray) -> FloatArray:
    """Maximum-likelihood theta on a graph."""
    problem = task.problem(torch.float64)
    graph = torch.tensor(adjacency, dtype=torch.float64, device=task.device)[None]
    start = torch.tensor(theta, dtype=torch.float64, device=task.device)[None]
    with torch.no_grad(), torch_threads(1):
        fitted: FloatArray = fit_theta(problem, graph, start).theta[0].cpu().numpy()
    return fitted


def _select(draws: ChainDraws, chains: npt.NDArray[np.bool_]) -> ChainDraws:
    return ChainDraws(
        **{name: value if name == "trace_sigma" else value[chains] for name, value in draws._asdict().items()}
    )


def _diagnose(draws: ChainDraws, n_diverged: int, n_stuck: int) -> dict[str, Any]:
    parameters = range(draws.theta.shape[-1])
    return {
        "n_diverged": n_diverged,
        "n_stuck": n_stuck,
        "r_hat_log_likelihood": split_r_hat(draws.log_likelihood),
        "r_hat_theta": np.array([split_r_hat(draws.theta[..., p]) for p in parameters]),
        "effective_sample_size_log_likelihood": effective_sample_size(draws.log_likelihood),
        "effective_sample_size_theta": np.array([effective_sample_size(draws.theta[..., p]) for p in parameters]),
        "sigma": draws.trace_sigma,
        "log_likelihood": draws.trace_log_likelihood,
        "theta": draws.trace_theta,
    }


class LangevinSystemIdentifier(_PosteriorIdentifier):
    """Identify a network and the process on it by sampling from their posterior.

    The model: row k of Y is h_theta(A) times row k of X plus Gaussian noise, where A is the adjacency matrix of an
    undirected, unweighted network, some of whose pairs are known, and h is a graph filter with unknown parameters
    theta. A prior says what such networks look like.

    Parameters
    ----------
    filter : {"polynomial", "heat", "arma"} or GraphFilter, default="polynomial"
        The process.
    prior : GraphPrior, FrozenEstimator or None, default=None
        What networks of this kind look like: a fitted `GraphPriorScore` (frozen, so that cloning keeps it fitted),
        `load_prior(...)`, or a closed-form prior. None: pairs are independent, with the known pairs' share of edges.
    algorithm : {"edge-flip", "langevin"}, default="edge-flip"
        "langevin" is annealed Langevin dynamics on a relaxed adjacency matrix, the paper's. "edge-flip" draws every
        pair from its exact odds on binary graphs while the noise is annealed in the prior alone; it mixes better.
    noise_std : float or None, default=None
        Standard deviation of the measurement noise. None: unknown, and sampled with the rest.
    n_chains : int, default=16
        Independent chains.
    n_levels : int, default=20
        Noise levels; "edge-flip" spaces them evenly in their logarithm, "langevin" evenly.
    sigma_max, sigma_min : float, default=1.0 and 0.25
        The largest and the smallest noise level.
    n_steps : int, default=3
        Steps at each level: sweeps over all unknown pairs ("edge-flip"), or Langevin steps.
    step_size : float or None, default=None
        Langevin's epsilon: the step at a level is epsilon (sigma / sigma_min)^2. None derives the step from the
        curvature of the posterior, so that units do not matter. Unused by "edge-flip".
    temperature : float, default=1.0
        Draws come from the posterior to the power 1 / temperature; 1 is the posterior.
    theta_learning_rate : float or None, default=None
        Let theta follow by Adam at this rate. None: theta is drawn from its posterior. Unused by "edge-flip".
    point_estimate : {"marginal", "sample", "best"}, default="marginal"
        How `adjacency_` and `theta_` are made: edges whose probability exceeds one half, and the mean of theta; one
        draw; or the draw of highest likelihood with theta refitted.
    observed_nodes : {"auto", "all", "leading"} or list of int, default="auto"
        Which nodes the columns of Y belong to: all, the first ones, or those listed. "auto" is "leading", with a
        warning where there are fewer columns than nodes.
    edge_prior : array of shape (n_nodes, n_nodes) or None, default=None
        Further evidence on pairs as probabilities, 0.5 where there is none; it multiplies the prior's odds.
    n_jobs : int or None, default=None
        Workers over batches of eight chains. The result does not depend on it.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".
    random_state : int, RandomState or None, default=None
        Makes the run reproducible.

    Attributes
    ----------
    adjacency_ : ndarray of shape (n_nodes, n_nodes)
        The identified network, 0 or 1, equal to what is known.
    theta_ : ndarray of shape (n_parameters,)
        The filter's parameters; those of a polynomial are in ascending powers of A.
    theta_std_ : ndarray of shape (n_parameters,)
        Their posterior standard deviation.
    theta_samples_ : ndarray of shape (n_draws, n_parameters)
        Draws from the posterior of theta.
    edge_probabilities_ : ndarray of shape (n_nodes, n_nodes)
        Posterior probability of every edge; 0 or 1 where known.
    noise_std_ : float
        The noise level, as given or as estimated.
    diagnostics_ : dict
        Chains that diverged or were stuck in a hopeless mode, and so were dropped; R-hat and effective sample size of
        the others, and their traces over the whole run.
    known_edges_ : KnownEdges
        What was known.
    n_features_in_ : int
        The number of nodes.

    See Also
    --------
    LikelihoodLangevinIdentifier : The same without a prior.
    AdamSystemIdentifier : Maximum likelihood.

    References
    ----------
    M. Sevilla and S. Segarra, "Bayesian topology inference on partially known networks from input-output pairs",
    ICASSP 2024.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import LangevinSystemIdentifier
    >>> from sklearn_graphid.datasets import hide_edges, make_system
    >>> ring = nx.to_numpy_array(nx.cycle_graph(8))
    >>> X, Y = make_system(ring, "heat", theta=[0.5], n_pairs=20, random_state=0)
    >>> known = hide_edges(ring, fraction=0.5, random_state=0)
    >>> identifier = LangevinSystemIdentifier("heat", random_state=0).fit(X, Y, known)
    >>> bool((identifier.adjacency_ == ring).all())
    True
    """

    _parameter_constraints = {
        **_PosteriorIdentifier._parameter_constraints,
        "prior": [GraphPrior, FrozenEstimator, None],
        "edge_prior": ["array-like", None],
    }

    def __init__(
        self,
        filter: Any = "polynomial",
        prior: Any = None,
        *,
        algorithm: str = "edge-flip",
        noise_std: float | None = None,
        n_chains: int = 16,
        n_levels: int = 20,
        sigma_max: float = 1.0,
        sigma_min: float = 0.25,
        n_steps: int = 3,
        step_size: float | None = None,
        temperature: float = 1.0,
        theta_learning_rate: float | None = None,
        point_estimate: str = "marginal",
        observed_nodes: Any = "auto",
        edge_prior: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        random_state: Any = None,
    ):
        self.filter = filter
        self.prior = prior
        self.algorithm = algorithm
        self.noise_std = noise_std
        self.n_chains = n_chains
        self.n_levels = n_levels
        self.sigma_max = sigma_max
        self.sigma_min = sigma_min
        self.n_steps = n_steps
        self.step_size = step_size
        self.temperature = temperature
        self.theta_learning_rate = theta_learning_rate
        self.point_estimate = point_estimate
        self.observed_nodes = observed_nodes
        self.edge_prior = edge_prior
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state

    def _prior_for(self, known: KnownEdges, sigmas: tuple[float, ...]) -> GraphPrior | None:
        if self.prior is None:
            return ErdosRenyiPrior(_known_density(known))
        prior = self.prior.estimator if isinstance(self.prior, FrozenEstimator) else self.prior
        if not isinstance(prior, GraphPrior):
            raise TypeError(f"prior is a {type(prior).__name__}; expected a GraphPrior such as GraphPriorScore.")
        try:
            prior.check_sigmas(sigmas)
        except NotFittedError as error:
            raise NotFittedError(
                "prior is not fitted. Fit it first, and wrap it as prior=FrozenEstimator(prior) from sklearn.frozen, "
                "as cloning, which model selection does, would drop the fit again."
            ) from error
        _warn_out_of_prior(prior, known)
        return prior

    def _evidence_for(self, known: KnownEdges) -> FloatArray | None:
        if self.edge_prior is None:
            return None
        probabilities = check_edge_probabilities(self.edge_prior, known.n_nodes)
        # Certainty belongs into known_mask; here it is clipped so that the odds stay finite.
        clipped = probabilities.clip(1e-6, 1 - 1e-6)
        return np.asarray(np.log(clipped) - np.log1p(-clipped))


def _known_density(known: KnownEdges) -> float:
    """Share of edges among the known pairs, with one edge and one non-edge added (Laplace's rule)."""
    upper = np.triu(np.ones_like(known.values, dtype=bool), 1) & known.mask
    return float((known.values[upper].sum() + 1) / (upper.sum() + 2))


def _warn_out_of_prior(prior: GraphPrior, known: KnownEdges) -> None:
    if not isinstance(prior, GraphPriorScore):
        return
    smallest, largest = prior.size_range_
    if not smallest / 2 <= known.n_nodes <= 2 * largest:
        reason = f"it has {known.n_nodes} nodes, and the prior was trained on {smallest} to {largest}"
    elif (surprise := prior.surprise(known)) > _LARGEST_SURPRISE:
        reason = f"its known part lies {surprise:.1f} standard deviations away from the training graphs"
    else:
        return
    warnings.warn(f"the network does not look like what the prior knows: {reason}.", UserWarning, stacklevel=8)


class LikelihoodLangevinIdentifier(_PosteriorIdentifier):
    """Identify a network by annealed Langevin dynamics on the likelihood alone: the prior score is zero.

    The paper's baseline "Langevin without prior". The noise levels serve only to shrink the steps.

    Parameters
    ----------
    filter : {"polynomial", "heat", "arma"} or GraphFilter, default="polynomial"
        The process.
    algorithm : {"langevin", "edge-flip"}, default="langevin"
        See `LangevinSystemIdentifier`.
    noise_std : float or None, default=None
        Standard deviation of the measurement noise. None: unknown, and sampled with the rest.
    n_chains : int, default=16
        Independent chains.
    n_levels : int, default=10
        Noise levels.
    sigma_max, sigma_min : float, default=0.5 and 0.03
        The largest and the smallest noise level.
    n_steps : int, default=100
        Steps at each level.
    step_size : float or None, default=None
        Langevin's epsilon. None derives the step from the curvature of the likelihood.
    temperature : float, default=1.0
        Draws come from the likelihood to the power 1 / temperature.
    theta_learning_rate : float or None, default=None
        Let theta follow by Adam at this rate. None: theta is drawn from its posterior.
    point_estimate : {"marginal", "sample", "best"}, default="marginal"
        How `adjacency_` and `theta_` are made.
    observed_nodes : {"auto", "all", "leading"} or list of int, default="auto"
        Which nodes the columns of Y belong to.
    n_jobs : int or None, default=None
        Workers over batches of eight chains.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".
    random_state : int, RandomState or None, default=None
        Makes the run reproducible.

    Attributes
    ----------
    adjacency_ : ndarray of shape (n_nodes, n_nodes)
        The identified network, 0 or 1, equal to what is known.
    theta_ : ndarray of shape (n_parameters,)
        The filter's parameters.
    edge_probabilities_ : ndarray of shape (n_nodes, n_nodes)
        Share of the draws that hold the edge; 0 or 1 where known.
    noise_std_ : float
        The noise level, as given or as estimated.
    diagnostics_ : dict
        Diverged chains, R-hat and effective sample size, and traces over the whole run.

    See Also
    --------
    LangevinSystemIdentifier : The same with a prior.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import LikelihoodLangevinIdentifier
    >>> from sklearn_graphid.datasets import make_system
    >>> ring = nx.to_numpy_array(nx.cycle_graph(6))
    >>> X, Y = make_system(ring, "heat", theta=[0.5], n_pairs=20, random_state=0)
    >>> identifier = LikelihoodLangevinIdentifier("heat", random_state=0).fit(X, Y)
    >>> bool((identifier.adjacency_ == ring).all())
    True
    """

    def __init__(
        self,
        filter: Any = "polynomial",
        *,
        algorithm: str = "langevin",
        noise_std: float | None = None,
        n_chains: int = 16,
        n_levels: int = 10,
        sigma_max: float = 0.5,
        sigma_min: float = 0.03,
        n_steps: int = 100,
        step_size: float | None = None,
        temperature: float = 1.0,
        theta_learning_rate: float | None = None,
        point_estimate: str = "marginal",
        observed_nodes: Any = "auto",
        n_jobs: int | None = None,
        device: str = "cpu",
        random_state: Any = None,
    ):
        self.filter = filter
        self.algorithm = algorithm
        self.noise_std = noise_std
        self.n_chains = n_chains
        self.n_levels = n_levels
        self.sigma_max = sigma_max
        self.sigma_min = sigma_min
        self.n_steps = n_steps
        self.step_size = step_size
        self.temperature = temperature
        self.theta_learning_rate = theta_learning_rate
        self.point_estimate = point_estimate
        self.observed_nodes = observed_nodes
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state

    def _prior_for(self, known: KnownEdges, sigmas: tuple[float, ...]) -> GraphPrior | None:
        return None
