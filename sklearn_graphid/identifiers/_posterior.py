"""What the identifiers that sample from a posterior have in common; they differ in the prior."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from .._known_edges import KnownEdges
from .._torch import draw_seeds, resolve_device, torch_threads
from .._validation import FloatArray
from ..filters import GraphFilter
from ..priors import GraphPrior
from ..samplers import AnnealingSettings, effective_sample_size, fit_theta, split_r_hat, stuck_chains
from ._base import BaseSystemIdentifier, loses_nothing
from ._chains import ChainDraws, SamplingTask, run_chains

__all__ = ["PosteriorIdentifier"]

_POSITIVE = Interval(Real, 0, None, closed="neither")
_AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")


class PosteriorIdentifier(CallbackSupportMixin, BaseSystemIdentifier):
    """Base of the identifiers that sample."""

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
        self.known_edges_, self.filter_ = known, task.filter
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
                f"all {len(finite)} chains diverged. {self._advice()} Check that noise_std={self.noise_std!r} fits the "
                f"units of Y, and the filter's initial range its parameters."
            )
        draws = _select(draws, finite)
        stuck = stuck_chains(draws.log_likelihood + draws.log_prior)
        self._draws = _select(draws, ~stuck)
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
                f"{n_diverged} of {self.n_chains} chains diverged and were dropped. {self._advice()}",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _advice(self) -> str:
        if self.algorithm == "langevin":
            return "Use a smaller step_size; None derives it from the data."
        return "Bring X and Y to a common scale near one."

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
