"""Identification by sampling from the posterior, with a prior and without."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from .._utils._libraries import VERBOSE, StrOptions, announce
from .._utils._numbers import RANDOM_STATE, SQUARED_IN_SINGLE, FloatArray, NumberInterval
from .._utils._torch import draw_seeds, resolve_device, torch_threads
from .._utils._warnings import warn_caller
from ..graphs import KnownEdges
from ..graphs._matrices import check_edge_probabilities, read_matrix
from ..graphs._nodes import Nodes
from ..priors import ErdosRenyiPrior, FlatPrior, GraphPrior, list_priors, resolve_priors
from ..priors._trust import Trust, choose_prior, trust_from_known
from ..samplers import Kernel, LangevinKernel, MeasurementModel, binary_sweeps, misfit_of, weighted_sweeps
from ._base import BaseSystemIdentifier, Experiments, Identification
from ._chains import (
    ChainDraws,
    Reader,
    SamplingTask,
    batches_of,
    check_cost,
    check_same_system,
    resumed_kernels,
    run_chains,
    start_from,
)
from ._estimates import (
    PER_NODE,
    SLABS,
    FitFollower,
    NoiseLevels,
    check_edge_weights,
    has_callbacks,
    levels_after,
    read_levels,
    warn_of_units,
)
from ._posterior import Kernels, result_of, was_stopped, with_suspects
from ._sampled import SampledIdentifier

__all__ = ["PAPER_SETTINGS", "LangevinSystemIdentifier", "LikelihoodLangevinIdentifier"]

SAMPLED = "sample"  # the value of `prior_trust` that has a posterior

#: Constructor arguments that make a run Algorithm 1 of the paper: ten evenly spaced annealing levels from 0.5 to 0.03
#: with 300 steps each and no sweeps, one chain, its rounded end as the estimate.
PAPER_SETTINGS: dict[str, Any] = {
    "noise_std": 1.0,
    "n_chains": 1,
    "n_levels": 10,
    "sigma_max": 0.5,
    "sigma_min": 0.03,
    "n_steps": 300,
    "step_size": 1e-6,
    "temperature": 0.5,
    "theta_learning_rate": 0.01,
    "n_sweeps": 0,
    "point_estimate": "sample",
    "prior_trust": 1.0,
}

_SMALLEST, _LARGEST = SQUARED_IN_SINGLE
_SQUARED = NumberInterval(Real, _SMALLEST, _LARGEST, closed="both")
_POSITIVE = NumberInterval(Real, 0, _LARGEST, closed="right")
_AT_LEAST_ONE = NumberInterval(Integral, 1, None, closed="left")


class LangevinSystemIdentifier(SampledIdentifier):
    """Identify a graph and the process on it by sampling from their posterior.

    The model: row k of Y is h_theta(A) times row k of X plus Gaussian noise. A is the adjacency matrix of a graph, of
    which some pairs are known, and h is a graph filter with unknown parameters theta. Edges may have strengths and
    directions. A prior describes what such graphs look like.

    Chains start with annealed Langevin dynamics on a relaxed adjacency matrix, as in the paper. They continue with
    sweeps that redraw the pairs of binary graphs from their exact odds. The draws of the sweeps are the result.

    Parameters
    ----------
    filter : {"polynomial", "heat", "arma", "steady-state"} or GraphFilter, default="polynomial"
        The process.
    prior : GraphPrior, FrozenEstimator, str, list of these or None, default=None
        What graphs of this kind look like: a fitted `GraphPriorScore` (frozen, so that cloning keeps it fitted), the
        name of a shipped prior (see `load_prior`), or a closed-form prior. Of a list, the first is used unless the
        known pairs clearly favour another one; "general" compares the other shipped priors in the same way. None:
        unknown pairs are independent, and the share of edges among them is sampled, see `density_`.
    prior_trust : "sample" or float from 0 to 1, default="sample"
        How far to trust the prior. Its log-odds l of a pair are replaced by l0 + prior_trust (l - l0), where l0 is what
        `prior=None` would use; 1 uses the prior unchanged. "sample" samples the trust with the rest, given how well the
        prior predicts the known pairs, so that a prior that does not fit is discounted. Priors with independent pairs,
        and neural networks that do not take a mask of known pairs, are then used unchanged.
    edge_weights : {"binary", "positive", "signed"}, default="binary"
        Whether all edges are alike, or have positive (log-normal) strengths, or (Gaussian) strengths of either sign.
        The prior then describes which edges exist. Known edges may come with their strengths, see `KnownEdges`. If none
        is known, most filters have a parameter that multiplies them all, and strengths are in units of about their
        geometric mean; signed ones are then not determined.
    directed : bool, default=False
        Whether edges have directions, so that the two ordered pairs of two nodes are separate. An edge from j to i is
        at `adjacency_[i, j]`: the output of i depends on the input of j.
    noise_std : float, array-like or Series of shape (n_nodes,), "per-node" or None, default=None
        Standard deviation of the measurement noise, the same at all nodes or one for each, in the order of X's columns
        or with their names. None: unknown, the same at all nodes, and sampled. "per-node": unknown and different at
        each node; estimated from the residuals of a first fit, so that fitting takes twice as long.
    input_noise_std : float or None, default=None
        Standard deviation of the noise in the measurements of X; None if X is exact. A first fit estimates how much of
        it reaches each output, and a second fit takes it into account; see the guide.
    noise_distribution : {"gaussian", "student-t"}, default="gaussian"
        Distribution of the measurement noise. With "student-t", the noise of some outputs is larger than usual, so that
        a few wrong numbers in Y do little harm; see `outlier_probabilities_`. Binary graphs only.
    fit_intercept : bool, default=False
        Whether the output of each node has an unknown offset, with a flat prior, which is sampled; see `intercept_`. If
        False, outputs are expected to be zero where inputs are.
    n_chains : int, default=16
        Independent chains.
    n_levels : int, default=10
        Annealing levels of the Langevin dynamics, evenly spaced.
    sigma_max, sigma_min : float, default=0.7 and 0.2
        The largest and the smallest annealing level; shares of a usual strength, if edges have strengths. A prior that
        was trained at a few levels only is evaluated at the nearest of these. Sweeps evaluate the prior at the largest
        level, or at the smallest if it does not take a mask of known pairs.
    n_steps : int, default=2
        Langevin steps at each level.
    step_size : float or None, default=None
        The epsilon of the Langevin dynamics: the step at a level is epsilon (sigma / sigma_min)^2. None derives the
        step from the curvature of the posterior, so that the units of the data do not matter.
    temperature : float, default=1.0
        Draws come from the posterior to the power 1 / temperature; 1 is the posterior.
    theta_learning_rate : float or None, default=None
        Learning rate with which Adam updates theta during the Langevin dynamics, as in the paper. None: theta is drawn
        from its posterior.
    n_sweeps : int, default=20
        Sweeps after the Langevin dynamics; the last half of them are draws. With 0, the rounded final state of the
        Langevin dynamics is the only draw, as in the paper; edges with strengths need at least 1.
    point_estimate : {"marginal", "f1", "sample", "best"}, default="marginal"
        How `adjacency_` and `theta_` are chosen: the edges whose probability exceeds one half, and the mean of theta;
        the most probable pairs, as many as maximise the expected F1 score, and the mean of theta; a single draw; or the
        draw with the highest likelihood, with theta refitted.
    observed_nodes : {"auto", "all", "leading"} or list, default="auto"
        Which nodes the columns of Y belong to: all nodes, the first ones, or those listed, by the names of X's columns
        or by position (integers are positions, unless the columns are called by integers). "auto" is "leading", with a
        warning if there are fewer columns than nodes.
    edge_prior : array of shape (n_nodes, n_nodes) or None, default=None
        Further evidence about pairs, as probabilities, with 0.5 for none. Their odds multiply those of the prior.
    warm_start : bool, default=False
        Whether a fit continues from the draws of the previous one, with the data that it is given now, in a third of
        the time: for one more experiment or one more known pair. Nodes, filter, `edge_weights` and `directed` must be
        the same. A fit with fewer measurements or known pairs than before starts at random, and so does a clone.
    n_jobs : int or None, default=None
        Number of workers; each takes batches of eight chains. The result does not depend on it.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".
    verbose : bool or "auto", default="auto"
        Whether to show progress with scikit-learn's `ProgressBar`, which needs rich (the extra `progress`). "auto": on
        a terminal, once a fit has taken five seconds. Strengths that take minutes are announced beforehand.
    random_state : int, RandomState or None, default=None
        Makes the run reproducible.

    Attributes
    ----------
    adjacency_ : ndarray of shape (n_nodes, n_nodes)
        The identified graph, 0 or 1. Known pairs keep their values.
    edge_probabilities_ : ndarray of shape (n_nodes, n_nodes)
        Posterior probability of every edge; 0 or 1 for known pairs.
    theta_, theta_std_ : ndarray of shape (n_parameters,)
        The parameters of the filter, in ascending powers of A for a polynomial, and their posterior standard deviation.
    theta_samples_ : ndarray of shape (n_draws, n_parameters)
        Draws from the posterior of theta.
    theta_refitted_, theta_standard_error_ : ndarray of shape (n_parameters,)
        Maximum-likelihood estimate of theta as if the graph were known to be `adjacency_`, and its standard errors,
        infinite for parameters that the data do not determine.
    weights_, weights_std_ : ndarray of shape (n_nodes, n_nodes)
        Strengths of the identified edges, zero elsewhere, and their posterior standard deviation: means over the draws
        that have the edge, and the given value for known strengths. Only if edges have strengths; `theta_` is then the
        best fit given these strengths.
    noise_std_ : float
        The noise level, given or estimated, with what the noise of the inputs adds to the outputs; if it differs
        between nodes, its root mean square over the outputs.
    noise_std_per_node_ : ndarray of shape (n_nodes,)
        The noise level of the output of each node.
    noise_std_samples_ : ndarray of shape (n_draws,)
        Draws from the posterior of `noise_std_`; all the same if it was given.
    intercept_ : ndarray of shape (n_nodes,)
        Posterior means of the offsets of the outputs; zeros without `fit_intercept`.
    outlier_probabilities_ : ndarray of shape (n_experiments, n_nodes)
        Posterior probability that the noise of an output is larger than usual; nan where nothing was measured. Only
        with `noise_distribution="student-t"`; see `suspect_outputs` for a table.
    diagnostics_ : dict
        On the chains: how many were dropped because they diverged or were stuck in a far less probable mode, how many
        modes the others are in, the weight of each chain, Monte Carlo errors, the expected number of pairs that another
        run would change, R-hat, effective sample size and traces. On the fit: "residual_std", the root mean square of
        the residuals; "ridge_error", that of ridge regression on held-out experiments; and "p_value_residuals", of a
        test that the residuals do not depend on the inputs; without `fit_intercept` also "p_value_offsets", of a test
        that they are zero on average at every node; with Gaussian noise "largest_residual", in standard deviations, and
        its p-value; for binary edges "p_value_strengths", of a test that all edges are alike, and "strengths_gain", the
        share of the noise variance that strengths would explain. With strengths also "misfit", the factor by which the
        noise variance was raised because the filter does not explain all of the outputs.
    density_ : float
        Share of edges among the unknown pairs: the posterior mean, see `density_interval`. Without a prior it is
        sampled, as the probability with which every unknown pair is an edge. nan if all pairs are known.
    prior_, prior_trust_ : GraphPrior and float
        The prior that was used, and how far it was trusted, from 0 to 1: the posterior mean, or the value given.
    known_edges_ : KnownEdges
        The known pairs.
    filter_ : GraphFilter
        The filter that was used.
    node_names_ : list
        Names of the nodes: those of X's columns, else those of the known pairs, else numbers.
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
    >>> X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=20, random_state=0)
    >>> known = hide_edges(ring, fraction=0.5, random_state=0)
    >>> identifier = LangevinSystemIdentifier("heat", random_state=0).fit(X, Y, known)
    >>> bool((identifier.adjacency_ == ring).all())
    True
    """

    _parameter_constraints = {
        **BaseSystemIdentifier._parameter_constraints,
        "prior": [GraphPrior, FrozenEstimator, StrOptions(set(list_priors())), list, tuple, None],
        "prior_trust": [StrOptions({SAMPLED}), NumberInterval(Real, 0, 1, closed="both")],
        "edge_weights": [StrOptions(set(SLABS))],
        "directed": ["boolean"],
        "noise_std": [_SQUARED, StrOptions({PER_NODE}), "array-like", None],
        "input_noise_std": [_SQUARED, None],
        "noise_distribution": [StrOptions({"gaussian", "student-t"})],
        "fit_intercept": ["boolean"],
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
        "edge_prior": ["array-like", None],
        "warm_start": ["boolean"],
        "n_jobs": [NumberInterval(Integral, None, None, closed="neither"), None],
        "device": [str],
        "verbose": VERBOSE,
        "random_state": RANDOM_STATE,
    }

    def __init__(
        self,
        filter: Any = "polynomial",
        prior: Any = None,
        *,
        prior_trust: Any = "sample",
        edge_weights: str = "binary",
        directed: bool = False,
        noise_std: Any = None,
        input_noise_std: float | None = None,
        noise_distribution: str = "gaussian",
        fit_intercept: bool = False,
        n_chains: int = 16,
        n_levels: int = 10,
        sigma_max: float = 0.7,
        sigma_min: float = 0.2,
        n_steps: int = 2,
        step_size: float | None = None,
        temperature: float = 1.0,
        theta_learning_rate: float | None = None,
        n_sweeps: int = 20,
        point_estimate: str = "marginal",
        observed_nodes: Any = "auto",
        edge_prior: Any = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: Any = "auto",
        random_state: Any = None,
    ):
        self.filter = filter
        self.prior = prior
        self.prior_trust = prior_trust
        self.edge_weights = edge_weights
        self.directed = directed
        self.noise_std = noise_std
        self.input_noise_std = input_noise_std
        self.noise_distribution = noise_distribution
        self.fit_intercept = fit_intercept
        self.n_chains = n_chains
        self.n_levels = n_levels
        self.sigma_max = sigma_max
        self.sigma_min = sigma_min
        self.n_steps = n_steps
        self.step_size = step_size
        self.temperature = temperature
        self.theta_learning_rate = theta_learning_rate
        self.n_sweeps = n_sweeps
        self.point_estimate = point_estimate
        self.observed_nodes = observed_nodes
        self.edge_prior = edge_prior
        self.warm_start = warm_start
        self.n_jobs = n_jobs
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    @property
    def _uses_known_weights(self) -> bool:
        return SLABS[self.edge_weights] is not None

    def _identify(self, experiments: Experiments) -> Identification:
        self._check_data(experiments)
        if self.fit_intercept:
            experiments = experiments.centred()
        given_noise, prior = read_levels(self.noise_std, experiments.known), self._prior_for(experiments.known)
        levels = NoiseLevels(None)
        if given_noise is not None:
            # The noise of the inputs is yet to come, so that what was given is less than what there is.
            levels = NoiseLevels.of(given_noise, experiments.outputs, is_known=self.input_noise_std is None)
        task = SamplingTask(
            experiments=experiments,
            prior=prior,
            evidence=self._evidence_for(experiments.known),
            kernels=self._kernels(prior, experiments.known.n_unknown, levels.common),
            noise=levels,
            device=resolve_device(self.device),
            edge_weights=self.edge_weights,
            fit_intercept=self.fit_intercept,
            noise_distribution=self.noise_distribution,
        )
        seconds = check_cost(task, self.n_chains, self.n_jobs)
        if seconds > 90:  # the first step may take as long
            announce(self, f"sampling strengths will take about {seconds / 60:.0f} minutes or more.")
        task = replace(self._from_last_draws(task), trust=self._trust_for(prior, experiments.known))
        return self._run(task, given_noise)

    def _from_last_draws(self, task: SamplingTask) -> SamplingTask:
        """The task of going on from the draws of the last fit, where that was given no more evidence than this one."""
        if not self.warm_start:
            return task
        if not resumed_kernels(task.kernels):
            raise ValueError(
                f"warm_start=True with n_sweeps={self.n_sweeps!r}; expected at least 1: sweeps go on from the draws of "
                f"the last fit, while annealing forgets them."
            )
        if not hasattr(self, "_draws"):
            return task
        check_same_system(self._task, task)
        data, before = task.experiments, self._task.experiments
        # Draws given more evidence are narrower than the posterior, and chains that start there take long to spread.
        if data.n_measured < before.n_measured or (before.known.mask & ~data.known.mask).any():
            return task
        start = start_from(self._draws, before.known, data.known, self.n_chains, task.has_strengths)
        return replace(task, start=start, kernels=resumed_kernels(task.kernels))

    def _kernels(self, prior: GraphPrior, n_unknown: int, noise_std: float | None) -> tuple[Kernel, ...]:
        """Annealed Langevin dynamics, then sweeps over binary graphs; or sweeps for edges that have strengths.

        `noise_std` is the common noise level, None where it is to be sampled.
        """
        sigmas, slab = prior.nearest_sigmas(self._sigmas()), SLABS[self.edge_weights]
        # Langevin dynamics know of no outliers, which they take for noise where the noise level is free.
        langevin = LangevinKernel(
            sigmas,
            self.n_steps,
            step_size=self.step_size,
            temperature=self.temperature,
            theta_learning_rate=self.theta_learning_rate,
            noise_std=noise_std if self.noise_distribution == "gaussian" else None,
            slab=slab,
        )
        if not self.n_sweeps:
            return (langevin,)
        # Where the pairs outside a part are known, noise has nothing left to decide, and the most of it moves best.
        sigma = sigmas[0] if prior.conditions_on_known else sigmas[-1]
        common: dict[str, Any] = {"noise_std": noise_std, "has_independent_pairs": prior.has_independent_pairs}
        n_parts = _n_parts(prior, n_unknown)
        if slab is not None:
            return langevin, weighted_sweeps(self.n_sweeps, sigma, slab, n_parts, **common)
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

    def _kernels_at_fit(self) -> Kernels:
        """The kernels where the noise level is sampled; parameters may have been changed since the fit."""
        return partial(copy.copy(self).set_params(**self._params_at_fit)._kernels, noise_std=None)

    def _sigmas(self) -> tuple[float, ...]:
        if self.sigma_min > self.sigma_max:
            raise ValueError(
                f"sigma_min={self.sigma_min!r} is above sigma_max={self.sigma_max!r}; expected the smaller one."
            )
        largest_step, most = (self.step_size or 0.0) * (self.sigma_max / self.sigma_min) ** 2, 1e38
        if largest_step > most:
            raise ValueError(
                f"step_size={self.step_size!r} makes a step of {largest_step:.3g} at the largest annealing level; "
                f"expected at most {most:g}, beyond which single precision overflows."
            )
        return tuple(float(sigma) for sigma in np.linspace(self.sigma_max, self.sigma_min, self.n_levels))

    def _check_data(self, experiments: Experiments) -> None:
        """Raise ValueError where data and settings do not go together."""
        for name, values in (("X", experiments.inputs), ("Y", experiments.outputs)):
            largest = float(np.nanmax(np.abs(values), initial=0.0))
            if largest and not _SMALLEST <= largest <= _LARGEST:
                raise ValueError(
                    f"{name} has values of up to {largest:.3g}, which single precision cannot square; expected a unit "
                    f"in which they are between {_SMALLEST:g} and {_LARGEST:g}."
                )
        check_edge_weights(self.edge_weights, experiments.known, experiments.filter)
        if self._uses_known_weights and experiments.known.directed:
            warn_of_units(experiments)
        is_measured, is_gaussian = ~np.isnan(experiments.outputs), self.noise_distribution == "gaussian"
        if self.fit_intercept and is_measured.sum(0).max() < 2:
            raise ValueError(
                f"fit_intercept=True with {len(is_measured)} experiment(s); expected at least 2 outputs of some node, "
                f"as an offset explains a single one whatever the graph is."
            )
        if not is_gaussian and not self.n_sweeps:
            raise ValueError(
                f"noise_distribution={self.noise_distribution!r} with n_sweeps=0; expected at least 1 sweep, as sweeps "
                f"find the outliers."
            )
        if not self._uses_known_weights:
            return
        kind = f"with edge_weights={self.edge_weights!r}"
        if not is_gaussian:
            raise ValueError(
                f"noise_distribution={self.noise_distribution!r} {kind}; expected 'gaussian', or edge_weights='binary'."
            )
        if self.fit_intercept and (is_measured.any(0) & ~is_measured.all(0)).any():
            raise ValueError(
                f"fit_intercept=True {kind} and outputs that were measured in some experiments only; expected all "
                f"outputs of a node or none, or edge_weights='binary'."
            )
        if not self.n_sweeps:
            raise ValueError(
                f"n_sweeps=0 {kind}; expected at least 1, as strengths are sampled by sweeps, and Langevin dynamics "
                f"alone only prepare them."
            )
        if self.temperature != 1:
            raise ValueError(f"temperature={self.temperature!r} {kind}; expected 1, or edge_weights='binary'.")

    def _prior_for(self, known: KnownEdges) -> GraphPrior:
        if self.prior is None:
            return ErdosRenyiPrior()
        priors = [member.for_nodes(known.names) for member in resolve_priors(self.prior)]
        for member in priors:
            _check_prior(member, known, is_one_of_several=len(priors) > 1)
        prior = choose_prior(priors, known, resolve_device(self.device))
        if reason := prior.mismatch(known):
            warn_caller(f"the graph does not look like what the prior knows: {reason}.")
        return prior

    def _trust_for(self, prior: GraphPrior, known: KnownEdges) -> Trust | None:
        # Without a prior there is nothing to trust, and trust in one that says nothing would say something.
        if self.prior is None or isinstance(prior, FlatPrior):
            return None
        if self.prior_trust != SAMPLED:
            return None if self.prior_trust == 1 else Trust.of(float(self.prior_trust))
        if prior.has_independent_pairs or not prior.conditions_on_known:
            return None
        return trust_from_known(prior, known, resolve_device(self.device))

    def _evidence_for(self, known: KnownEdges) -> FloatArray | None:
        if self.edge_prior is None:
            return None
        matrix = read_matrix(self.edge_prior, "edge_prior", directed=known.directed)
        probabilities = check_edge_probabilities(
            matrix.in_order_of(Nodes(known.names, "X")), known.n_nodes, directed=known.directed
        )
        # Probabilities of 0 and 1 are clipped, so that the odds stay finite; pairs that are known go into known_mask.
        clipped = probabilities.clip(1e-6, 1 - 1e-6)
        return np.asarray(np.log(clipped) - np.log1p(-clipped))

    def _run(self, task: SamplingTask, given_noise: FloatArray | None) -> Identification:
        """Run the chains, once more where the first run tells of the noise, and tell the callbacks."""
        data, batches = task.experiments.given, batches_of(draw_seeds(self.random_state, self.n_chains))
        differs, of_inputs = isinstance(self.noise_std, str), self.input_noise_std or 0.0
        needs_two_fits = differs or of_inputs > 0
        n_fits = 1 + needs_two_fits + (task.has_strengths and given_noise is None)
        root = self._init_callback_context(max_subtasks=n_fits * len(batches), sequential_subtasks=False)
        root.call_on_fit_task_begin(estimator=self, **data)
        result, is_enough = self._run_once(task, batches, root, first_id=0)
        if needs_two_fits and not is_enough:
            system = result.matrix, result.further["theta_refitted_"]
            outputs, response = task.experiments.outputs, task.predict(*system, np.eye(len(result.adjacency)))
            noise = given_noise, differs, of_inputs
            task = self._with_noise(task, levels_after(*noise, outputs, outputs - task.predict(*system), response))
            result, is_enough = self._run_once(task, batches, root, first_id=len(batches))
        if task.has_strengths and task.noise.common is None and not is_enough:
            levels = _with_misfit(result, task)
            if levels.misfit > 1:
                task = self._with_noise(task, levels)
                result, is_enough = self._run_once(task, batches, root, first_id=(n_fits - 1) * len(batches))
        if self.n_sweeps and not is_enough:
            kernels = partial(self._kernels, noise_std=None)
            result = with_suspects(result, task, kernels, self.node_names_, self.n_jobs)
        root.call_on_fit_task_end(estimator=self, **data, reconstruction_attributes=result.attributes(task.experiments))
        return result

    def _with_noise(self, task: SamplingTask, levels: NoiseLevels) -> SamplingTask:
        kernels = self._kernels(task.prior, task.experiments.known.n_unknown, levels.common)
        return replace(task, noise=levels, kernels=kernels if task.start is None else resumed_kernels(kernels))

    def _run_once(
        self, task: SamplingTask, batches: Sequence[Sequence[int]], root: Any, first_id: int
    ) -> tuple[Identification, bool]:
        """Run the chains once; whether a callback has asked to stop."""
        experiments, draws, is_enough = task.experiments, list[ChainDraws](), False

        def attributes() -> dict[str, Any] | None:
            if not any(batch.are_finite().any() for batch in draws):
                return None
            return result_of(draws, task, self.point_estimate).attributes(experiments)

        contexts = [
            root.subcontext(task_name="batch of chains", task_id=first_id + place, max_subtasks=task.n_steps)
            for place in range(len(batches))
        ]
        for context in contexts:
            context.call_on_fit_task_begin(estimator=self, **experiments.given)
        readers: list[Reader | None] = [None] * len(batches)
        if has_callbacks(self):
            readers = [FitFollower(self, context, experiments, "step", task.noise.relative) for context in contexts]
        with closing(run_chains(task, batches, self.n_jobs, readers)) as running:
            for context, batch in zip(contexts, running, strict=False):
                draws.append(batch)
                is_enough = context.call_on_fit_task_end(
                    estimator=self, **experiments.given, reconstruction_attributes=attributes
                )
                is_enough = is_enough or was_stopped(batch, task)
                if is_enough:  # fewer chains are still chains
                    break
        return result_of(draws, task, self.point_estimate), is_enough


def _n_parts(prior: GraphPrior, n_unknown: int) -> int:
    """Number of parts that the unknown pairs are redrawn in, where the prior can take the others for known."""
    if not prior.conditions_on_known:
        return 1
    if prior.has_independent_pairs:
        return 2  # exact with any number
    return max(2, n_unknown) if n_unknown <= 20 else 5  # with as many parts as pairs, the sweeps are exact


def _with_misfit(result: Identification, task: SamplingTask) -> NoiseLevels:
    """The noise levels at which known non-edges look like non-edges."""
    problem = task.without_copies().problem(torch.float64)
    weights, theta = task.tensor(result.matrix), task.tensor(result.further["theta_refitted_"])
    with torch.no_grad(), torch_threads(1):
        misfit = misfit_of(problem, problem.gather(weights), theta)
    level = float(np.sqrt(misfit.variance * misfit.factor))
    return NoiseLevels(level, task.noise.relative, misfit.factor, misfit.n_free)


def _check_prior(prior: GraphPrior, known: KnownEdges, is_one_of_several: bool) -> None:
    """Raise where a prior is not fitted, or not one for such graphs, or cannot be compared with others."""
    try:
        prior.nearest_sigmas(())
    except NotFittedError as error:
        raise NotFittedError(
            "prior is not fitted. Fit it first, and wrap it as prior=FrozenEstimator(prior) from sklearn.frozen, "
            "as cloning, which model selection does, would drop the fit again."
        ) from error
    prior.check_directed(known.directed)
    if is_one_of_several and not prior.conditions_on_known:
        raise ValueError(
            f"prior is a list that holds {prior!r}, which cannot be told which pairs are known and so cannot be "
            f"compared with others; expected priors such as GraphPriorScore('ppgn') or ErdosRenyiPrior."
        )


class LikelihoodLangevinIdentifier(LangevinSystemIdentifier):
    """Sampling with a flat prior: its score is zero, and every pair is an edge with even odds.

    With `PAPER_SETTINGS` it is the paper's baseline "Langevin without prior". It has the parameters and attributes of
    `LangevinSystemIdentifier` except `prior` and `edge_prior`; `prior_trust` has no effect.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import LikelihoodLangevinIdentifier
    >>> from sklearn_graphid.datasets import make_system
    >>> ring = nx.to_numpy_array(nx.cycle_graph(6))
    >>> X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=20, random_state=0)
    >>> identifier = LikelihoodLangevinIdentifier("heat", random_state=0).fit(X, Y)
    >>> bool((identifier.adjacency_ == ring).all())
    True
    """

    _parameter_constraints = {
        name: constraint
        for name, constraint in LangevinSystemIdentifier._parameter_constraints.items()
        if name not in ("prior", "edge_prior")
    }

    def __init__(
        self,
        filter: Any = "polynomial",
        *,
        prior_trust: Any = "sample",
        edge_weights: str = "binary",
        directed: bool = False,
        noise_std: Any = None,
        input_noise_std: float | None = None,
        noise_distribution: str = "gaussian",
        fit_intercept: bool = False,
        n_chains: int = 16,
        n_levels: int = 10,
        sigma_max: float = 0.7,
        sigma_min: float = 0.2,
        n_steps: int = 2,
        step_size: float | None = None,
        temperature: float = 1.0,
        theta_learning_rate: float | None = None,
        n_sweeps: int = 20,
        point_estimate: str = "marginal",
        observed_nodes: Any = "auto",
        warm_start: bool = False,
        n_jobs: int | None = None,
        device: str = "cpu",
        verbose: Any = "auto",
        random_state: Any = None,
    ):
        super().__init__(**{name: value for name, value in locals().items() if name not in ("self", "__class__")})

    def _prior_for(self, known: KnownEdges) -> GraphPrior:
        return FlatPrior()
