"""What the identifiers that sample from a posterior have in common; they differ in the prior."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from .._findings import Finding
from .._known_edges import KnownEdges
from .._numbers import NumberInterval
from .._torch import draw_seeds, resolve_device
from .._validation import FloatArray
from .._warnings import warn_caller
from ..filters import GraphFilter
from ..priors import GraphPrior
from ..samplers import AnnealingSettings, stuck_chains
from ._arviz import to_inference_data
from ._base import BaseSystemIdentifier, loses_nothing
from ._chains import ChainDraws, Reader, SamplingTask, batches_of, run_chains
from ._estimates import central_interval, refit_theta
from ._fit_quality import assess_fit, fit_findings
from ._following import FitFollower, has_callbacks
from ._mixing import diagnose, diverged_advice, mixing_findings

if TYPE_CHECKING:
    from arviz import InferenceData

__all__ = ["PosteriorIdentifier"]

# Samplers compute in single precision, where squares of numbers beyond these overflow or vanish.
_SMALLEST, _LARGEST = 1e-15, 1e15
_POSITIVE = NumberInterval(Real, 0, _LARGEST, closed="right")
_SQUARED = NumberInterval(Real, _SMALLEST, _LARGEST, closed="both")
_LARGEST_STEP = 1e38
_OF_CHAINS = tuple(name for name in ChainDraws._fields if name != "trace_sigma")  # all others are (chains, ...)
_AT_LEAST_ONE = NumberInterval(Integral, 1, None, closed="left")


class PosteriorIdentifier(CallbackSupportMixin, BaseSystemIdentifier):
    """Base of the identifiers that sample."""

    _parameter_constraints = {
        "filter": [str, GraphFilter],
        "algorithm": [StrOptions({"edge-flip", "langevin"})],
        "noise_std": [_SQUARED, None],
        "n_chains": [_AT_LEAST_ONE],
        "n_levels": [_AT_LEAST_ONE],
        "sigma_max": [_SQUARED],
        "sigma_min": [_SQUARED],
        "n_steps": [_AT_LEAST_ONE],
        "step_size": [NumberInterval(Real, 0, None, closed="neither"), None],
        "temperature": [_POSITIVE],
        "theta_learning_rate": [_POSITIVE, None],
        "point_estimate": [StrOptions({"marginal", "sample", "best"})],
        "observed_nodes": [str, "array-like"],
        "n_jobs": [Integral, None],
        "device": [str],
        "random_state": ["random_state"],
    }

    def _prior_for(self, known: KnownEdges) -> GraphPrior | None:
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
        inputs, outputs, known = self._validate(X, Y, known_mask, known_adjacency)
        _check_units(inputs, outputs)
        task = self._task(inputs, outputs, known)
        for name, value in self._run(task, {"X": X, "y": Y}).items():
            setattr(self, name, value)
        self._fit_findings = self._assess()
        for finding in self._fit_findings:
            if finding.severity == "trouble":
                warn_caller(finding.warning, finding.category)
        return self

    def _task(self, inputs: FloatArray, outputs: FloatArray, known: KnownEdges) -> SamplingTask:
        settings, prior = self._settings(), self._prior_for(known)
        if prior is not None:
            settings = settings._replace(sigmas=prior.nearest_sigmas(settings.sigmas))
        return SamplingTask(
            inputs=inputs,
            outputs=outputs,
            known=known,
            filter=self._resolved_filter(),
            prior=prior,
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
        largest_step = (self.step_size or 0.0) * (self.sigma_max / self.sigma_min) ** 2
        if largest_step > _LARGEST_STEP:
            raise ValueError(
                f"step_size={self.step_size!r} makes a step of {largest_step:.3g} at the largest noise level; expected "
                f"at most {_LARGEST_STEP:g}, beyond which single precision overflows."
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

    def _run(self, task: SamplingTask, data: dict[str, Any]) -> dict[str, Any]:
        """Run the chains, tell the callbacks, and return the fitted attributes."""
        batches = batches_of(draw_seeds(self.random_state, self.n_chains))
        root = self._init_callback_context(max_subtasks=len(batches), sequential_subtasks=False)
        root.call_on_fit_task_begin(estimator=self, **data)
        contexts, readers = self._follow(root, task, data, len(batches))
        draws: list[ChainDraws] = []
        with closing(run_chains(task, batches, self.n_jobs, readers)) as running:
            for context, batch in zip(contexts, running, strict=False):
                draws.append(batch)
                is_enough = context.call_on_fit_task_end(
                    estimator=self, **data, reconstruction_attributes=lambda: self._attributes_or_none(draws, task)
                )
                if is_enough or self._was_stopped(batch, task):  # fewer chains are still chains
                    break
        attributes = self._attributes(draws, task)
        if any(self._was_stopped(batch, task) for batch in draws):
            warn_caller(
                "a callback stopped the fit before its last step; the result is that of the steps so far.",
                ConvergenceWarning,
            )
        root.call_on_fit_task_end(estimator=self, **data, reconstruction_attributes=attributes)
        return attributes

    def _follow(
        self, root: Any, task: SamplingTask, data: dict[str, Any], n_batches: int
    ) -> tuple[list[Any], list[Reader | None]]:
        """A context for each batch of chains, and who is told of its steps: nobody where there are no callbacks."""
        contexts = [
            root.subcontext(task_name="batch of chains", task_id=batch, max_subtasks=task.n_recorded_steps)
            for batch in range(n_batches)
        ]
        for context in contexts:
            context.call_on_fit_task_begin(estimator=self, **data)
        if not has_callbacks(self):
            return contexts, [None] * n_batches
        name = "noise level" if self.algorithm == "langevin" else "sweep"
        return contexts, [FitFollower(self, context, data, name, task.known, task.filter) for context in contexts]

    @staticmethod
    def _was_stopped(batch: ChainDraws, task: SamplingTask) -> bool:
        return len(batch.trace_sigma) < task.n_recorded_steps

    def _attributes_or_none(self, batches: Sequence[ChainDraws], task: SamplingTask) -> dict[str, Any] | None:
        return self._attributes(batches, task) if any(_finite(batch).any() for batch in batches) else None

    def _attributes(self, batches: Sequence[ChainDraws], task: SamplingTask) -> dict[str, Any]:
        """All that a fit leaves behind, from the batches of chains that were run."""
        draws = _joined(batches)
        finite = _finite(draws)
        if not finite.any():
            raise FloatingPointError(
                f"all {len(finite)} chains diverged; {diverged_advice(self.step_size)} Check that "
                f"noise_std={self.noise_std!r} fits the units of Y, and the filter's initial range its parameters."
            )
        draws = _select(draws, finite)
        stuck = stuck_chains(draws.log_likelihood + draws.log_prior)
        draws = _select(draws, ~stuck)
        theta_samples = draws.theta.reshape(-1, draws.theta.shape[-1])
        # What was given is reported as it was given, and not as single precision has it.
        noise = draws.noise_std.ravel() if self.noise_std is None else np.full(draws.noise_std.size, self.noise_std)
        point = self._point_estimate(draws, task)
        return {
            "_draws": draws,
            "known_edges_": task.known,
            "filter_": task.filter,
            "prior_": task.prior,
            "edge_probabilities_": task.known.fill(draws.edge_probability.mean(0)),
            **point,
            "theta_samples_": theta_samples,
            "theta_std_": theta_samples.std(0),
            "noise_std_samples_": noise,
            "noise_std_": float(np.sqrt(np.mean(noise**2))) if self.noise_std is None else float(self.noise_std),
            "diagnostics_": {
                **diagnose(draws, task.known, int((~finite).sum()), int(stuck.sum())),
                **assess_fit(
                    task.inputs,
                    task.outputs,
                    task.predict(point["adjacency_"], point["theta_refitted_"]),
                    point["adjacency_"].astype(np.float64),
                ),
            },
        }

    def _point_estimate(self, draws: ChainDraws, task: SamplingTask) -> dict[str, Any]:
        if self.point_estimate == "marginal":
            graph, theta = draws.edge_probability.mean(0) > 0.5, draws.theta.mean((0, 1))
        elif self.point_estimate == "sample":
            graph, theta = draws.graphs[0, -1], draws.theta[0, -1]
        else:
            best = np.unravel_index(draws.log_likelihood.argmax(), draws.log_likelihood.shape)
            graph, theta = draws.graphs[best], draws.theta[best]
        adjacency = task.known.fill(graph)
        refit = refit_theta(task.problem(torch.float64), adjacency, theta, self.noise_std)
        return {
            "adjacency_": adjacency.astype(np.int64),
            "theta_": refit.theta if self.point_estimate == "best" else np.asarray(theta, dtype=np.float64),
            "theta_refitted_": refit.theta,
            "theta_standard_error_": refit.standard_error,
        }

    def _assess(self) -> list[Finding]:
        power, n_measured = self._output_power, self._n_measured
        fit = fit_findings(self.diagnostics_, self.noise_std_, self.noise_std is not None, power, n_measured)
        return [*fit, *mixing_findings(self)]

    def theta_interval(self, level: float = 0.9) -> FloatArray:
        """Central credible intervals of the filter's parameters.

        Parameters
        ----------
        level : float, default=0.9
            The probability that a parameter lies inside, given data, filter and prior.

        Returns
        -------
        ndarray of shape (n_parameters, 2)
            Lower and upper ends.
        """
        check_is_fitted(self)
        return central_interval(self.theta_samples_, level)

    def noise_std_interval(self, level: float = 0.9) -> FloatArray:
        """Central credible interval of the noise level.

        Parameters
        ----------
        level : float, default=0.9
            The probability that the noise level lies inside.

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper end; both are what was given, where `noise_std` was.
        """
        check_is_fitted(self)
        return central_interval(self.noise_std_samples_, level)

    def to_arviz(self, X: Any = None, y: Any = None) -> InferenceData:
        """The draws as an ArviZ object, for its plots and summaries.

        Parameters
        ----------
        X : array-like of shape (n_pairs, n_nodes), default=None
            The inputs, if they are to be in it.
        y : array-like of shape (n_pairs, n_outputs) or (n_pairs,), default=None
            The outputs, if they are to be in it.

        Returns
        -------
        arviz.InferenceData
            Group `posterior` holds "theta", "noise_std" and "edges" (0 or 1 for each unknown pair), `sample_stats` the
            "joint_log_likelihood" of all outputs and the "log_prior" of the graph, both up to constants,
            `constant_data` "X", and `observed_data` y as "Y". Chains that diverged or were stuck are not in it.
        """
        check_is_fitted(self)
        return to_inference_data(self, X, y)

    def _draw(self, n_samples: int, random_state: Any) -> tuple[npt.NDArray[np.int64], FloatArray]:
        # Every chain's last draw first, as those are independent; then earlier ones; repeats only beyond them all.
        n_chains, n_draws = self._draws.log_likelihood.shape
        rng = check_random_state(random_state)
        order = np.concatenate([rng.permutation(n_chains) + n_chains * age for age in range(n_draws)])
        chosen = np.resize(order, n_samples)
        chains, draws = chosen % n_chains, n_draws - 1 - chosen // n_chains
        adjacencies = self.known_edges_.fill(self._draws.graphs[chains, draws]).astype(np.int64)
        return adjacencies, self._draws.theta[chains, draws].copy()


def _check_units(inputs: FloatArray, outputs: FloatArray) -> None:
    for name, values in (("X", inputs), ("Y", outputs)):
        largest = float(np.nanmax(np.abs(values), initial=0.0))
        if largest and not _SMALLEST <= largest <= _LARGEST:
            raise ValueError(
                f"{name} has values of up to {largest:.3g}, which single precision cannot square; expected a unit in "
                f"which they are between {_SMALLEST:g} and {_LARGEST:g}."
            )


def _joined(batches: Sequence[ChainDraws]) -> ChainDraws:
    """All chains; where a batch was stopped early, the others lose as many draws as it lacks."""
    n_draws = min(batch.log_likelihood.shape[1] for batch in batches)
    n_steps = min(len(batch.trace_sigma) for batch in batches)

    def part(batch: ChainDraws, name: str) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = getattr(batch, name)
        if name == "edge_probability":
            return values
        return values[:, :n_steps] if name.startswith("trace") else values[:, -n_draws:]

    joined = {name: np.concatenate([part(batch, name) for batch in batches]) for name in _OF_CHAINS}
    return ChainDraws(**joined, trace_sigma=batches[0].trace_sigma[:n_steps])


def _finite(draws: ChainDraws) -> npt.NDArray[np.bool_]:
    """Which chains have not diverged."""
    checked = (draws.log_likelihood, draws.log_prior, draws.noise_std, draws.edge_probability, draws.theta)
    return np.asarray(np.all([np.isfinite(part).reshape(len(part), -1).all(1) for part in checked], axis=0))


def _select(draws: ChainDraws, chains: npt.NDArray[np.bool_]) -> ChainDraws:
    return draws._replace(**{name: getattr(draws, name)[chains] for name in _OF_CHAINS})
