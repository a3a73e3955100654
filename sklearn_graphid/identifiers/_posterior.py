"""What the identifiers that sample from a posterior have in common; they differ in the prior."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.utils.validation import check_is_fitted

from .._utils._libraries import VERBOSE, StrOptions, announce, require_pandas
from .._utils._numbers import (
    RANDOM_STATE,
    SQUARED_IN_SINGLE,
    FloatArray,
    NumberInterval,
    check_integer,
    check_number,
    check_random_state,
)
from .._utils._torch import draw_seeds, resolve_device, torch_threads
from ..graphs import KnownEdges
from ..priors import GraphPrior
from ..priors._trust import Trust
from ..samplers import (
    Kernel,
    LangevinKernel,
    MeasurementModel,
    binary_sweeps,
    misfit_of,
    weighted_sweeps,
)
from ._arviz import to_inference_data
from ._base import BaseSystemIdentifier, Experiments, Identification
from ._chains import Reader, SamplingTask, batches_of, check_memory, expected_seconds, run_chains
from ._draws import ChainDraws, finite_chains
from ._estimates import (
    SLABS,
    FitFollower,
    central_interval,
    check_edge_weights,
    has_callbacks,
    warn_of_units,
    weight_intervals,
    weight_matrices,
)
from ._next_experiment import NextExperimentMixin, SystemDraws
from ._noise import PER_NODE, NoiseLevels, NoiseModel
from ._posterior_result import explained_task, result_of, was_stopped
from ._resume import ChainStart, SoughtSystem, has_lost_evidence, start_from
from ._suspects import WRONG, System, is_suspicious, suspect_finding, suspicion_of

if TYPE_CHECKING:
    import pandas as pd
    from arviz import InferenceData

__all__ = ["PosteriorIdentifier"]

_SMALLEST, _LARGEST = SQUARED_IN_SINGLE
_POSITIVE = NumberInterval(Real, 0, _LARGEST, closed="right")
_SQUARED = NumberInterval(Real, _SMALLEST, _LARGEST, closed="both")
_LARGEST_STEP = 1e38
# A fit of so many seconds says so beforehand, where progress is shown: its first step may take as long.
_LONG = 90.0
# Into how many parts sweeps divide the unknown pairs, where the prior can take the others for known. Up to so many
# pairs each is a part of its own, and the sweeps are exact.
_N_PARTS = 5
_MOST_SINGLE_PAIRS = 20
_AT_LEAST_ONE = NumberInterval(Integral, 1, None, closed="left")


class PosteriorIdentifier(NextExperimentMixin, BaseSystemIdentifier):
    """Base of the identifiers that sample."""

    _parameter_constraints = {
        **BaseSystemIdentifier._parameter_constraints,
        "edge_weights": [StrOptions(set(SLABS))],
        "directed": ["boolean"],
        "noise_std": [_SQUARED, StrOptions({PER_NODE}), "array-like", None],
        "input_noise_std": [_SQUARED, None],
        "n_chains": [_AT_LEAST_ONE],
        "n_levels": [_AT_LEAST_ONE],
        "sigma_max": [_SQUARED],
        "sigma_min": [_SQUARED],
        "n_steps": [_AT_LEAST_ONE],
        "step_size": [NumberInterval(Real, 0, None, closed="neither"), None],
        "temperature": [_POSITIVE],
        "theta_learning_rate": [_POSITIVE, None],
        "n_sweeps": [NumberInterval(Integral, 0, None, closed="left")],
        "point_estimate": [StrOptions({"marginal", "f1", "sample", "best"})],
        "fit_intercept": ["boolean"],
        "noise_distribution": [StrOptions({"gaussian", "student-t"})],
        "warm_start": ["boolean"],
        "n_jobs": [NumberInterval(Integral, None, None, closed="neither"), None],
        "device": [str],
        "verbose": VERBOSE,
        "random_state": RANDOM_STATE,
    }

    _outlier_probabilities: FloatArray | None = None  # of a fit in which outliers are part of the model
    _log_odds_wrong: FloatArray | None = None  # (known pairs,), of a fit that had a reason to find them

    @property
    def outlier_probabilities_(self) -> FloatArray:
        """Probability of every output to be an outlier; only with `noise_distribution="student-t"`."""
        if self._outlier_probabilities is None:
            raise AttributeError("outliers were not sought; fit with noise_distribution='student-t'.")
        return self._outlier_probabilities

    @abstractmethod
    def _prior_for(self, known: KnownEdges) -> GraphPrior:
        """The prior, checked."""

    def _trust_for(self, prior: GraphPrior, known: KnownEdges) -> Trust | None:
        """How far to trust the prior, as far as the known pairs tell; None takes it as it is."""
        return None

    def _evidence_for(self, known: KnownEdges) -> FloatArray | None:
        """Log-odds of every pair beside the prior's."""
        return None

    @property
    def _uses_known_weights(self) -> bool:
        return SLABS[self.edge_weights] is not None

    def _identify(self, experiments: Experiments) -> Identification:
        _check_units(experiments)
        check_edge_weights(self.edge_weights, experiments.known, experiments.filter)
        if self._uses_known_weights and experiments.known.directed:
            warn_of_units(experiments)
        self._check_measurements(experiments)
        if self.fit_intercept:
            experiments = experiments.centred()
        noise = NoiseModel.read(self.noise_std, self.input_noise_std, experiments.outputs, experiments.known)
        _check_noise(noise)
        prior, levels = self._prior_for(experiments.known), noise.at_first()
        task = SamplingTask(
            experiments=experiments,
            prior=prior,
            evidence=self._evidence_for(experiments.known),
            kernels=self._kernels(prior, experiments.known.n_unknown, levels.common),
            noise=levels,
            device=resolve_device(self.device),
            has_strengths=self._uses_known_weights,
            start=self._start_of_chains(experiments),
            fit_intercept=self.fit_intercept,
            noise_distribution=self.noise_distribution,
        )
        check_memory(task, self.n_chains, self.n_jobs)
        if (seconds := expected_seconds(task, self.n_chains, self.n_jobs)) > _LONG:
            announce(self, f"sampling strengths will take about {seconds / 60:.0f} minutes or more.")
        task = replace(task, trust=self._trust_for(prior, experiments.known))
        return self._run(self._resumed(task), noise)

    def _start_of_chains(self, experiments: Experiments) -> ChainStart | None:
        """The last draws of the fit before, where this one is to go on from there; None to start at random."""
        if not self.warm_start or not hasattr(self, "_draws"):
            return None
        known = experiments.known
        SoughtSystem.of(known, self.edge_weights, experiments.filter).check_same(self._sought)
        if has_lost_evidence(self.known_edges_, known, self._n_measured_by_draws, experiments.n_measured):
            return None
        return start_from(self._draws, self.known_edges_, known, self.n_chains, self._uses_known_weights)

    def _resumed(self, task: SamplingTask) -> SamplingTask:
        """The task with those kernels only that go on from the start of the chains, where they have one."""
        resumed = tuple(kernel for kernel in (kernel.resumed() for kernel in task.kernels) if kernel is not None)
        if self.warm_start and not resumed:
            raise ValueError(
                f"warm_start=True with n_sweeps={self.n_sweeps!r}; expected at least 1: sweeps go on from the draws of "
                f"the last fit, while annealing forgets them."
            )
        return task if task.start is None else replace(task, kernels=resumed)

    def _kernels(self, prior: GraphPrior, n_unknown: int, noise_std: float | None) -> tuple[Kernel, ...]:
        """Annealed Langevin dynamics, then sweeps over binary graphs; or sweeps for edges that have strengths.

        `noise_std` is the common noise level, None where it is to be sampled.
        """
        sigmas = prior.nearest_sigmas(self._sigmas())
        # Where the pairs outside a part are known, noise has nothing left to decide, and the most of it moves best.
        sigma = sigmas[0] if prior.conditions_on_known else sigmas[-1]
        common: dict[str, Any] = {"noise_std": noise_std, "has_independent_pairs": prior.has_independent_pairs}
        n_parts = _n_parts(prior, n_unknown)
        if (slab := SLABS[self.edge_weights]) is not None:
            self._check_settings_for_strengths()
        langevin = LangevinKernel(
            sigmas,
            self.n_steps,
            step_size=self.step_size,
            temperature=self.temperature,
            theta_learning_rate=self.theta_learning_rate,
            # Langevin dynamics know of no outliers, which they take for noise where the noise level is free.
            noise_std=noise_std if self.noise_distribution == "gaussian" else None,
            slab=slab,
        )
        if slab is not None:
            return langevin, weighted_sweeps(self.n_sweeps, sigma, slab, n_parts, **common)
        if not self.n_sweeps:
            return (langevin,)
        sweeps = binary_sweeps(
            self.n_sweeps,
            sigma,
            n_parts,
            # A swap asks the prior three times, which is cheap where pairs are independent, and dear for a network.
            n_swaps=4 if prior.has_independent_pairs else 1,
            temperature=self.temperature,
            measurements=MeasurementModel(self.fit_intercept, self.noise_distribution == "student-t"),
            **common,
        )
        return langevin, sweeps

    def _check_measurements(self, experiments: Experiments) -> None:
        """Raise ValueError where offsets or outliers cannot be found with these data and settings."""
        is_measured = ~np.isnan(experiments.outputs)
        if self.fit_intercept and is_measured.sum(0).max() < 2:
            raise ValueError(
                f"fit_intercept=True with {len(is_measured)} experiment(s); expected at least 2 outputs of some node, "
                f"as an offset explains a single one whatever the graph is."
            )
        if self._uses_known_weights and self.noise_distribution != "gaussian":
            raise ValueError(
                f"noise_distribution={self.noise_distribution!r} with edge_weights={self.edge_weights!r}; expected "
                f"'gaussian', or edge_weights='binary'."
            )
        if self._uses_known_weights and self.fit_intercept and (is_measured.any(0) & ~is_measured.all(0)).any():
            raise ValueError(
                f"fit_intercept=True with edge_weights={self.edge_weights!r} and outputs that were measured in some "
                f"experiments only; expected all outputs of a node or none, or edge_weights='binary'."
            )
        if self.noise_distribution != "gaussian" and not self.n_sweeps:
            raise ValueError(
                f"noise_distribution={self.noise_distribution!r} with n_sweeps=0; expected at least 1 sweep, as sweeps "
                f"find the outliers."
            )

    def _check_settings_for_strengths(self) -> None:
        if not self.n_sweeps:
            raise ValueError(
                f"n_sweeps=0 with edge_weights={self.edge_weights!r}; expected at least 1, as strengths are sampled by "
                f"sweeps, and Langevin dynamics alone only prepare them."
            )
        if self.temperature != 1:
            raise ValueError(
                f"temperature={self.temperature!r} with edge_weights={self.edge_weights!r}; expected 1, or "
                f"edge_weights='binary'."
            )

    def _sigmas(self) -> tuple[float, ...]:
        if self.sigma_min > self.sigma_max:
            raise ValueError(
                f"sigma_min={self.sigma_min!r} is above sigma_max={self.sigma_max!r}; expected the smaller one."
            )
        largest_step = (self.step_size or 0.0) * (self.sigma_max / self.sigma_min) ** 2
        if largest_step > _LARGEST_STEP:
            raise ValueError(
                f"step_size={self.step_size!r} makes a step of {largest_step:.3g} at the largest annealing level; "
                f"expected at most {_LARGEST_STEP:g}, beyond which single precision overflows."
            )
        return tuple(float(sigma) for sigma in np.linspace(self.sigma_max, self.sigma_min, self.n_levels))

    def _run(self, task: SamplingTask, noise: NoiseModel) -> Identification:
        """Run the chains, once more where the first run tells of the noise, and tell the callbacks."""
        data, batches = task.experiments.given, batches_of(draw_seeds(self.random_state, self.n_chains))
        n_fits = 1 + noise.needs_two_fits + (task.has_strengths and noise.given is None)
        root = self._init_callback_context(max_subtasks=n_fits * len(batches), sequential_subtasks=False)
        root.call_on_fit_task_begin(estimator=self, **data)
        result, is_enough = self._run_once(task, batches, root, first_id=0)
        if noise.needs_two_fits and not is_enough:
            task = self._with_noise_after(result, task, noise)
            result, is_enough = self._run_once(task, batches, root, first_id=len(batches))
        if task.has_strengths and task.noise.common is None and not is_enough:
            levels = _with_misfit(result, task)
            if levels.misfit > 1:
                task = self._with_noise(task, levels)
                result, is_enough = self._run_once(task, batches, root, first_id=(n_fits - 1) * len(batches))
        if self.n_sweeps and not is_enough:
            result = self._with_suspects(result, task)
        root.call_on_fit_task_end(estimator=self, **data, reconstruction_attributes=result.attributes(task.experiments))
        return result

    def _with_noise_after(self, result: Identification, task: SamplingTask, noise: NoiseModel) -> SamplingTask:
        """The same task, with the noise levels that follow from what a first run has found."""
        system = result.matrix, result.further["theta_refitted_"]
        residuals = task.experiments.outputs - task.predict(*system)
        return self._with_noise(task, noise.after(residuals, task.predict(*system, np.eye(len(result.adjacency)))))

    def _with_noise(self, task: SamplingTask, levels: NoiseLevels) -> SamplingTask:
        kernels = self._kernels(task.prior, task.experiments.known.n_unknown, levels.common)
        return self._resumed(replace(task, noise=levels, kernels=kernels))

    def _with_suspects(self, result: Identification, task: SamplingTask) -> Identification:
        """The result with a warning of known pairs that are wrong, where something is amiss and this is why."""
        known = task.experiments.known
        if not known.known_pairs().n_free:
            return result
        found = result.further
        draws, on_fit = found["_draws"], found["_findings_on_fit"]
        explained = explained_task(task, draws.mean_of_chains(draws.offset), found["_outlier_probabilities"])
        system = System(draws, found["density_"], result.matrix, result.weights_std, found["theta_refitted_"])
        if not on_fit and not is_suspicious(system, explained):
            return result
        suspicion = suspicion_of(system, task, explained, self._kernels_with_noise, WRONG, self.n_jobs)
        if suspicion is None:  # chains that diverge say nothing
            return result
        findings = result.findings
        if suspicion.is_beyond_doubt:
            warning = suspect_finding(suspicion, known, self.node_names_)
            findings = (warning, *(finding for finding in findings if finding not in on_fit))
        return replace(result, findings=findings, further=found | {"_log_odds_wrong": suspicion.log_odds})

    def _kernels_with_noise(self, prior: GraphPrior, n_unknown: int) -> tuple[Kernel, ...]:
        """The kernels where the noise level is to be sampled."""
        return self._kernels(prior, n_unknown, None)

    def _run_once(
        self, task: SamplingTask, batches: Sequence[Sequence[int]], root: Any, first_id: int
    ) -> tuple[Identification, bool]:
        """Run the chains once; whether a callback has asked to stop."""
        data, draws, is_enough = task.experiments.given, list[ChainDraws](), False
        contexts, readers = self._follow(root, task, range(first_id, first_id + len(batches)))
        with closing(run_chains(task, batches, self.n_jobs, readers)) as running:
            for context, batch in zip(contexts, running, strict=False):
                draws.append(batch)
                is_enough = context.call_on_fit_task_end(
                    estimator=self, **data, reconstruction_attributes=lambda: self._attributes_or_none(draws, task)
                )
                is_enough = is_enough or was_stopped(batch, task)
                if is_enough:  # fewer chains are still chains
                    break
        return self._result(draws, task), is_enough

    def _follow(self, root: Any, task: SamplingTask, batches: range) -> tuple[list[Any], list[Reader | None]]:
        """A context for each batch of chains, and what is told of its steps: nothing where there are no callbacks."""
        contexts = [
            root.subcontext(task_name="batch of chains", task_id=batch, max_subtasks=task.n_steps) for batch in batches
        ]
        for context in contexts:
            context.call_on_fit_task_begin(estimator=self, **task.experiments.given)
        if not has_callbacks(self):
            return contexts, [None] * len(batches)
        told = task.experiments, "step", task.noise.relative
        return contexts, [FitFollower(self, context, *told) for context in contexts]

    def _attributes_or_none(self, batches: Sequence[ChainDraws], task: SamplingTask) -> dict[str, Any] | None:
        if not any(finite_chains(batch).any() for batch in batches):
            return None
        return self._result(batches, task).attributes(task.experiments)

    def _result(self, batches: Sequence[ChainDraws], task: SamplingTask) -> Identification:
        return result_of(batches, task, self.point_estimate, self.edge_weights)

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

    def weight_interval(self, level: float = 0.9) -> FloatArray:
        """Central credible intervals of the strengths of the identified edges.

        Parameters
        ----------
        level : float, default=0.9
            The probability that a strength lies inside, given that there is an edge.

        Returns
        -------
        ndarray of shape (n_nodes, n_nodes, 2)
            Lower and upper ends; both are what was given where a strength was, zero where there is no edge, and nan
            where fewer than two draws have the edge.
        """
        check_is_fitted(self)
        if self._edge_weights is None:
            raise AttributeError("the edges have no strengths; fit with edge_weights='positive' or 'signed'.")
        return weight_intervals(self._draws.pooled(self._draws.strengths), self.known_edges_, self.adjacency_, level)

    def density_interval(self, level: float = 0.9) -> FloatArray:
        """Central credible interval of the density of the unknown pairs, see `density_`.

        Parameters
        ----------
        level : float, default=0.9
            The probability that the density lies inside.

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper end; both are what was given with `ErdosRenyiPrior(p)`.
        """
        check_is_fitted(self)
        return central_interval(self._draws.pooled(self._draws.density), level)

    def noise_std_interval(self, level: float = 0.9) -> FloatArray:
        """Central credible interval of the noise level.

        Parameters
        ----------
        level : float, default=0.9
            The probability that the noise level lies inside.

        Returns
        -------
        ndarray of shape (2,)
            Lower and upper end; both are what was given, where `noise_std` was. Where noise differs from node to node,
            it is the interval of the root mean square.
        """
        check_is_fitted(self)
        return central_interval(self.noise_std_samples_, level)

    def suspect_outputs(self, min_probability: float = 0.5) -> pd.DataFrame:
        """The outputs that were discounted as outliers, as a table; only with `noise_distribution="student-t"`.

        Parameters
        ----------
        min_probability : float, default=0.5
            Outputs are listed if the probability that their noise is larger than usual is above this.

        Returns
        -------
        DataFrame
            One row per output, the most probable outlier first, with the columns `row` (the label of the experiment in
            the index of X or Y, or its number), `node` (as in `node_names_`), `output`, `predicted` (by the identified
            system) and `probability`.
        """
        check_is_fitted(self)
        _ = self.outlier_probabilities_  # raises where outliers were not sought
        min_probability = check_number(min_probability, "min_probability", low=0, high=1)
        require_pandas("suspect_outputs")
        import pandas as pd

        return pd.DataFrame(self._suspect_outputs(min_probability))

    def _suspect_outputs(self, min_probability: float) -> dict[str, Any]:
        """The columns of `suspect_outputs`."""
        probability, (inputs, outputs) = self.outlier_probabilities_[:, self._output_nodes], self._data_at_fit
        rows, columns = np.nonzero(probability > min_probability)  # a comparison with nan is False
        order = np.argsort(-probability[rows, columns], kind="stable")
        rows, columns = rows[order], columns[order]
        return {
            "row": [self._names_of_rows[row] for row in rows],
            "node": [self.node_names_[node] for node in self._output_nodes[columns]],
            "output": outputs[rows, columns],
            "predicted": self._predict_checked(inputs)[rows, columns],
            "probability": probability[rows, columns],
        }

    def suspect_known_pairs(self, n_pairs: int | None = None, *, probability: float = WRONG) -> pd.DataFrame:
        """Find known pairs that contradict the data, by sampling with known pairs that may be wrong.

        A known pair that is wrong makes unknown pairs, theta and the noise level wrong too. This method samples the
        system again, from the draws of the fit and from random starts, with every known pair unknown except for its
        prior probability of being wrong. Unknown pairs are independent, with the density that was found, whatever the
        prior; the noise level is sampled, and known strengths are not used. It takes about as long as the fit.

        Parameters
        ----------
        n_pairs : int or None, default=None
            Number of pairs to list. None: all known pairs.
        probability : float, default=0.01
            Prior probability that a known pair is wrong, between 0 and 0.5.

        Returns
        -------
        DataFrame
            One row per known pair, most suspicious first, with the columns `source` and `target` (named as in
            `to_networkx`), `given` ("edge" or "no edge") and `log_odds`, the posterior log-odds that the pair is wrong:
            above 0, it is more likely wrong than right. They are bounded by the number of draws. If the filter does not
            explain the outputs even so, the evidence is discounted, and large log-odds may be due to the filter.

        Examples
        --------
        >>> import warnings
        >>> import networkx as nx
        >>> from sklearn_graphid import LangevinSystemIdentifier
        >>> from sklearn_graphid.datasets import hide_edges, make_system
        >>> ring = nx.to_numpy_array(nx.cycle_graph(8))
        >>> X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=20, random_state=0)
        >>> known = hide_edges(ring, fraction=0.5, random_state=0).to_array()
        >>> i, j = next((i, j) for i in range(8) for j in range(i) if known[i, j] == 1)
        >>> known[i, j] = known[j, i] = 0  # an edge that is given as absent
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # of this very pair
        ...     identifier = LangevinSystemIdentifier("heat", random_state=0).fit(X, Y, known)
        >>> worst = identifier.suspect_known_pairs(1).iloc[0]
        >>> {worst.source, worst.target} == {i, j}, worst.given
        (True, 'no edge')
        """
        check_is_fitted(self)
        require_pandas("suspect_known_pairs")
        import pandas as pd

        wrong = check_number(probability, "probability")
        if not 0 < wrong < 0.5:
            raise ValueError(f"probability={probability!r}; expected a number strictly between 0 and 0.5.")
        known = self.known_edges_
        pairs = known.known_pairs()
        n_listed = pairs.n_free if n_pairs is None else check_integer(n_pairs, "n_pairs", low=1)
        log_odds = self._log_odds_of_wrong(wrong)
        order = np.argsort(-log_odds, kind="stable")[:n_listed]
        sources, targets = pairs.sources_and_targets()
        return pd.DataFrame(
            {
                "source": [self.node_names_[node] for node in sources[order]],
                "target": [self.node_names_[node] for node in targets[order]],
                "given": np.where(pairs.gather(known.values)[order] == 1, "edge", "no edge"),
                "log_odds": log_odds[order],
            }
        )

    def _log_odds_of_wrong(self, wrong: float) -> FloatArray:
        """Log-odds (known pairs,) of being wrong: those that the fit has found, or found now."""
        if not self.known_edges_.known_pairs().n_free:
            return np.empty(0)
        if wrong == WRONG and self._log_odds_wrong is not None:
            return self._log_odds_wrong
        fitted = copy.copy(self).set_params(**self._params_at_fit)  # parameters may have been changed since
        task = fitted._task_again()
        explained = explained_task(task, self._draws.mean_of_chains(self._draws.offset), self._outlier_probabilities)
        weights = np.asarray(self._matrix, dtype=np.float64)
        system = System(self._draws, self.density_, weights, self._edge_weights_std, self.theta_refitted_)
        suspicion = suspicion_of(system, task, explained, fitted._kernels_with_noise, wrong, self.n_jobs)
        if suspicion is None:
            raise FloatingPointError(
                "all chains in which known pairs may be wrong diverged, as the filter gave outputs that are infinite "
                "or nan."
            )
        return suspicion.log_odds

    def _task_again(self) -> SamplingTask:
        """The task of the fit, from what the fit has kept."""
        inputs, measured = self._data_at_fit
        outputs = np.full(inputs.shape, np.nan)
        outputs[:, self._output_nodes] = measured
        experiments = Experiments(inputs, outputs, self.known_edges_, self.filter_, {})
        relative = self.noise_std_per_node_ / self.noise_std_ if np.ptp(self.noise_std_per_node_) > 0 else None
        return SamplingTask(
            experiments=experiments.centred() if self.fit_intercept else experiments,
            prior=self.prior_,
            evidence=self._evidence_for(self.known_edges_),
            kernels=(),
            noise=NoiseLevels(None, relative),
            device=resolve_device(self.device),
            has_strengths=self._uses_known_weights,
            fit_intercept=self.fit_intercept,
            noise_distribution=self.noise_distribution,
        )

    def to_arviz(self, X: Any = None, y: Any = None) -> InferenceData:
        """The draws as an ArviZ object, for its plots and summaries.

        Parameters
        ----------
        X : array-like of shape (n_experiments, n_nodes), default=None
            The inputs, if they are to be in it.
        y : array-like of shape (n_experiments, n_outputs) or (n_experiments,), default=None
            The outputs, if they are to be in it.

        Returns
        -------
        arviz.InferenceData
            Group `posterior` holds "theta", "noise_std" and "edges" (0 or 1 for each unknown pair), `sample_stats` the
            "joint_log_likelihood" of all outputs and the "log_prior" of the graph, both up to constants,
            `constant_data` "X", and `observed_data` y as "Y". Chains that diverged or were stuck are not in it,
            and all others count alike, whatever their mode.
        """
        check_is_fitted(self)
        return to_inference_data(self, X, y)

    def _draw(self, n_samples: int, random_state: Any) -> tuple[npt.NDArray[Any], ...]:
        chosen = self._choose_draws(n_samples, random_state)
        adjacencies = self.known_edges_.fill(self._draws.graphs[chosen]).astype(np.int64)
        systems = adjacencies, self._draws.theta[chosen].copy()
        if self._edge_weights is None:
            return systems
        return *systems, weight_matrices(self._draws.strengths[chosen], self.known_edges_)

    def _choose_draws(self, n_samples: int, random_state: Any) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Chains and the draws in them: every chain's last first, as those are independent; repeats beyond them all."""
        n_chains, n_draws = self._draws.log_likelihood.shape
        rng, weight = check_random_state(random_state), self._draws.weight
        order = np.concatenate([rng.permutation(n_chains) + n_chains * age for age in range(n_draws)])
        if np.ptp(weight) > 0:  # chains in modes that count unequally
            order = np.concatenate(
                [rng.choice(n_chains, n_chains, p=weight) + n_chains * age for age in range(n_draws)]
            )
        chosen = np.resize(order, n_samples)
        return chosen % n_chains, n_draws - 1 - chosen // n_chains

    @property
    def _n_draws(self) -> int:
        return int(self._draws.log_likelihood.size)

    def _draw_noise(self, n_samples: int, random_state: Any) -> FloatArray:
        levels = super()._draw_noise(n_samples, random_state)
        if np.ptp(self.noise_std_samples_) == 0:  # it was given
            return levels
        drawn = self._draws.noise_std[self._choose_draws(n_samples, random_state)]
        return np.asarray(levels * (drawn / self.noise_std_)[:, None])

    def _system_draws(self) -> SystemDraws:
        draws, known = self._draws, self.known_edges_
        has_strengths = self._edge_weights is not None
        pairs = draws.pooled(draws.strengths if has_strengths else draws.graphs)
        matrices = weight_matrices(pairs, known) if has_strengths else known.fill(pairs)
        # Where the noise level is uncertain, precisions are averaged: what an output tells is proportional to them.
        # What the model cannot explain has been counted as noise by the fit, and is here.
        level = np.mean(self.noise_std_samples_**-2.0) ** -0.5 * np.sqrt(self.diagnostics_.get("misfit", 1.0))
        return SystemDraws(matrices, draws.pooled(draws.theta), level * self.noise_std_per_node_ / self.noise_std_)

    def _graph_draws(self) -> tuple[npt.NDArray[np.int8], FloatArray]:
        return self._draws.graphs, self._draws.weight


def _n_parts(prior: GraphPrior, n_unknown: int) -> int:
    if not prior.conditions_on_known:
        return 1
    if prior.has_independent_pairs:
        return 2  # exact with any number
    return max(2, n_unknown) if n_unknown <= _MOST_SINGLE_PAIRS else _N_PARTS


def _with_misfit(result: Identification, task: SamplingTask) -> NoiseLevels:
    """The noise levels at which known non-edges look like non-edges."""
    problem = task.without_copies().problem(torch.float64)
    weights = torch.tensor(result.matrix, dtype=torch.float64, device=task.device)
    theta = torch.tensor(result.further["theta_refitted_"], dtype=torch.float64, device=task.device)
    with torch.no_grad(), torch_threads(1):
        misfit = misfit_of(problem, problem.gather(weights), theta)
    level = float(np.sqrt(misfit.variance * misfit.factor))
    return NoiseLevels(level, task.noise.relative, misfit.factor, misfit.n_free)


def _check_noise(noise: NoiseModel) -> None:
    levels = np.empty(0) if noise.given is None else noise.given
    wrong = levels[~((levels >= _SMALLEST) & (levels <= _LARGEST))]
    if len(wrong):
        raise ValueError(
            f"noise_std holds the value {wrong[0]:g}; expected numbers between {_SMALLEST:g} and {_LARGEST:g}, one for "
            f"each node."
        )


def _check_units(experiments: Experiments) -> None:
    for name, values in (("X", experiments.inputs), ("Y", experiments.outputs)):
        largest = float(np.nanmax(np.abs(values), initial=0.0))
        if largest and not _SMALLEST <= largest <= _LARGEST:
            raise ValueError(
                f"{name} has values of up to {largest:.3g}, which single precision cannot square; expected a unit in "
                f"which they are between {_SMALLEST:g} and {_LARGEST:g}."
            )
