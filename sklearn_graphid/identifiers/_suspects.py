"""Known pairs that are wrong: chains in which pairs that count as known may flip.

A known pair that is wrong does harm that is hard to trace: unknown pairs, theta and the noise level make up for it. So
the system is sampled once more, with the known pairs unknown but for prior odds that they were given correctly. Some
chains start from the draws of the fit. As these may be where the wrong pair has led them, others start at random where
edges have no strengths, and chains in far less probable modes are dropped as in any fit.

That takes about as long as the fit. A fit does it only where it does not explain the outputs, or where the flip of a
single known pair would clearly improve it, which is quick to see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import logit
from scipy.stats import chi2
from torch import Tensor

from .._utils._findings import Finding
from .._utils._numbers import FloatArray
from .._utils._torch import draw_seeds, torch_threads
from ..graphs import EdgeSpace, KnownEdges
from ..priors import ErdosRenyiPrior, GraphPrior
from ..samplers import (
    Kernel,
    StrengthsTest,
    SweepKernel,
    gains_of_absent,
    gains_of_known,
    misfit_of,
    strengths_test,
    stuck_chains,
    weights_of_chains,
)
from ._chains import BATCH, SamplingTask, batches_of, run_chains
from ._draws import ChainDraws, finite_chains, joined_draws, selected_chains
from ._estimates import refit_theta, weight_matrices
from ._fit_quality import assess_fit, data_findings, fit_findings, largest_residual, offset_p_value
from ._noise import NoiseLevels
from ._resume import start_from

__all__ = ["WRONG", "Suspicion", "System", "is_suspicious", "suspect_finding", "suspicion_of"]

#: The prior probability that a known pair is wrong.
WRONG = 0.01
# A fit warns of a pair whose log-odds of being wrong are above this: 90 to 1, after prior odds of 1 to 99.
_BEYOND_DOUBT = 4.5
# Draws of the fit, of different chains, in which single pairs are flipped.
_N_GRAPHS = 4
# Known pairs that may flip at once: the time of a sweep grows with their number. Those that gain most when flipped
# alone are taken.
_MOST_OPEN = 1000
# Chains that start at random fit all pairs as one vector first, in a time that grows with the cube of their number.
# Where edges have strengths, it takes far longer than the fit, and is not needed: on 40 power grids for development,
# chains that start from the draws have found all wrong pairs.
_MOST_AT_RANDOM = 600
_N_AT_RANDOM = 2 * BATCH
# Probabilities that are nearer to 0 or 1 are rounding, or fewer draws than there are.
_SMALLEST = 1e-7
_LONGEST_NAME = 30  # in a warning

Kernels = Callable[[GraphPrior, int], tuple[Kernel, ...]]


class System(NamedTuple):
    """What a fit has found, as far as the search for wrong pairs starts from it."""

    draws: ChainDraws
    density: float
    weights: FloatArray  # (nodes, nodes), zeros and ones where edges have no strengths
    weights_std: FloatArray | None  # (nodes, nodes), None where edges have no strengths
    theta: FloatArray  # (parameters,), the best for these weights


class Suspicion(NamedTuple):
    """What the data say of the known pairs."""

    log_odds: FloatArray  # (known pairs,) of being wrong, in the order of `KnownEdges.known_pairs`
    is_explained: bool  # whether the filter explains the outputs once the pairs that are probably wrong are flipped

    @property
    def is_beyond_doubt(self) -> bool:
        """Whether a pair is wrong for all that can be said; where the filter is wrong, any pair may seem to be."""
        return self.is_explained and bool(self.log_odds.max(initial=-np.inf) > _BEYOND_DOUBT)


def is_suspicious(system: System, task: SamplingTask) -> bool:
    """Whether the flip of one known pair would be more likely than not, all others staying as they are.

    Where edges have strengths, looking closer takes longer than the fit, and chance alone makes some pair of hundreds
    seem wrong. So it takes more there than the largest gain of as many right pairs, but in one system of ten.
    """
    gains, least = _single_gains(system, task), -logit(WRONG)
    if task.has_strengths and len(gains):
        least = max(least, 0.5 * float(chi2.isf(0.1 / len(gains), 1)))
    return bool(gains.max(initial=-np.inf) > least)


def _single_gains(system: System, task: SamplingTask) -> FloatArray:
    """What the flip of each known pair (known pairs,) alone would add to the log-likelihood."""
    known = task.experiments.known
    pairs, problem = known.known_pairs(), task.problem(torch.float64)
    with torch.no_grad(), torch_threads(1):
        if task.has_strengths:
            is_edge = pairs.gather(known.values) == 1
            gains, absent = np.empty(pairs.n_free), pairs.select(~is_edge).to(task.device)
            strengths, theta = problem.gather(_tensor(system.weights, task)), _tensor(system.theta, task)
            is_signed = bool((system.weights < 0).any())
            gains[~is_edge] = gains_of_absent(problem, strengths, theta, absent, is_signed).cpu().numpy()
            gains[is_edge] = _gains_of_weak(system, pairs.select(is_edge))
            return gains
        draws = system.draws
        chains = np.argsort(-draws.weight, kind="stable")[:_N_GRAPHS]
        graphs = _tensor(known.fill(draws.graphs[chains, -1]), task)
        theta, noise_std = (_tensor(part[chains, -1], task) for part in (draws.theta, draws.noise_std))
        of_graphs = gains_of_known(problem, graphs, theta, noise_std, pairs.to(task.device))
        return np.asarray(of_graphs.mean(0).cpu().numpy())


def _gains_of_weak(system: System, edges: EdgeSpace) -> FloatArray:
    """What it gains to remove known edges that are far weaker than others, if strengths are log-normal of width one."""
    weights = np.abs(edges.gather(system.weights))
    spread = np.zeros(weights.shape) if system.weights_std is None else edges.gather(system.weights_std)
    if not len(weights):
        return np.empty(0)
    largest = (weights + 2 * spread) / max(float(np.median(weights)), np.finfo(np.float64).tiny)
    return np.asarray(0.5 * np.log(largest.clip(1e-30, 1.0)) ** 2)


def suspicion_of(
    system: System, task: SamplingTask, explained: SamplingTask, kernels: Kernels, wrong: float, n_jobs: int | None
) -> Suspicion | None:
    """Sample the system with known pairs that may be wrong; None if all chains diverge.

    Parameters
    ----------
    system : System
        What the fit has found.
    task : SamplingTask
        What the fit was asked to do.
    explained : SamplingTask
        The same, with the outputs that a system should explain: without offsets and outliers.
    kernels : callable
        Gives the kernels for a prior and a number of unknown pairs.
    wrong : float
        The prior probability that a known pair is wrong.
    n_jobs : int or None
        How many workers.
    """
    known = task.experiments.known
    pairs, gains = known.known_pairs(), _single_gains(system, explained)
    is_open = np.zeros(pairs.n_free, dtype=bool)
    is_open[np.argsort(-gains, kind="stable")[:_MOST_OPEN]] = True
    opened = _without(known, pairs.select(is_open))
    open_task = _open_task(task, opened, pairs.select(is_open), system.density, wrong)
    draws = _draws(system, open_task, known, kernels, n_jobs)
    if draws is None:
        return None
    probability = opened.fill(draws.mean_of_chains(draws.edge_probability))
    is_edge = pairs.gather(known.values) == 1
    is_wrong = np.where(is_edge, 1 - pairs.gather(probability), pairs.gather(probability))
    smallest = max(_SMALLEST, 0.5 / draws.log_likelihood.size) if task.has_strengths else _SMALLEST
    log_odds = logit(is_wrong.clip(smallest, 1 - smallest))
    likely_wrong = pairs.select(is_open & (log_odds > 0))
    misfit, is_explained = _check(draws, opened, replace(explained, noise=open_task.noise), likely_wrong)
    # Evidence counts for less where known non-edges show that the filter leaves something unexplained.
    log_odds = logit(wrong) + (log_odds - logit(wrong)) / misfit
    # Pairs that stayed known are no more suspicious than the least of the others.
    lowest = log_odds[is_open].min(initial=0.0)
    log_odds[~is_open] = np.minimum(gains[~is_open] + logit(wrong), lowest)
    return Suspicion(log_odds, is_explained)


def _without(known: KnownEdges, opened: EdgeSpace) -> KnownEdges:
    """The same with some pairs unknown; known strengths go too, as they may be those of edges that are none."""
    mask = known.mask.copy()
    opened.write(mask, False)
    return KnownEdges(mask, known.values, known.names, directed=known.directed)


def _open_task(task: SamplingTask, opened: KnownEdges, pairs: EdgeSpace, density: float, wrong: float) -> SamplingTask:
    """The task with more unknown pairs, which have prior odds of being as given, and noise that is sampled."""
    share = float(np.clip(np.nan_to_num(density, nan=0.5), 0.01, 0.99))
    evidence = np.zeros(opened.mask.shape) if task.evidence is None else task.evidence.copy()
    is_edge = pairs.gather(task.experiments.known.values) == 1
    # Log-odds beside those of the density, which all unknown pairs have.
    pairs.write(evidence, np.where(is_edge, -logit(wrong), logit(wrong)) - logit(share))
    return replace(
        task,
        experiments=replace(task.experiments, known=opened),
        prior=ErdosRenyiPrior(share),
        evidence=evidence,
        noise=NoiseLevels(None, task.noise.relative),
        trust=None,
        start=None,
    )


def _draws(
    system: System, task: SamplingTask, known: KnownEdges, kernels: Kernels, n_jobs: int | None
) -> ChainDraws | None:
    """Draws of chains that start from those of the fit, and of some that start at random; None if all diverge."""
    opened = task.experiments.known
    at_random = kernels(task.prior, opened.n_unknown)
    resumed = tuple(kernel for kernel in (kernel.resumed() for kernel in at_random) if kernel is not None)
    if task.has_strengths:
        # Strengths have made up for the wrong pair, and have to find back: that takes all the sweeps of a fit.
        resumed = tuple(
            replace(kernel, n_sweeps=2 * kernel.n_sweeps) if isinstance(kernel, SweepKernel) else kernel
            for kernel in resumed
        )
    batches: list[ChainDraws] = []
    if resumed:
        # Draws of strengths tell of an edge or of none and not of odds, so that it takes more of them.
        n_chains = 2 * BATCH if task.has_strengths else BATCH
        start = start_from(system.draws, known, opened, n_chains, task.has_strengths)
        batches += _run(replace(task, kernels=resumed, start=start), n_chains, n_jobs)
    if not resumed or (not task.has_strengths and opened.n_unknown <= _MOST_AT_RANDOM):
        batches += _run(replace(task, kernels=at_random), _N_AT_RANDOM, n_jobs)
    draws = joined_draws(batches)
    finite = finite_chains(draws)
    if not finite.any():
        return None
    draws = selected_chains(draws, finite)
    draws = selected_chains(draws, ~stuck_chains(draws.log_likelihood + draws.log_prior))
    return draws._replace(weight=weights_of_chains(draws.log_likelihood + draws.log_prior, draws.edge_probability))


def _run(task: SamplingTask, n_chains: int, n_jobs: int | None) -> Sequence[ChainDraws]:
    batches = batches_of(draw_seeds(0, n_chains))
    return list(run_chains(task, batches, n_jobs, [None] * len(batches)))


def _check(draws: ChainDraws, opened: KnownEdges, task: SamplingTask, likely_wrong: EdgeSpace) -> tuple[float, bool]:
    """The misfit of the best draw, and whether it explains the outputs, the pairs that are probably wrong unknown."""
    best = np.unravel_index((draws.log_likelihood + draws.log_prior).argmax(), draws.log_likelihood.shape)
    known, experiments = _without(task.experiments.known, likely_wrong), task.experiments
    graph = opened.fill(draws.graphs[best])
    weights = weight_matrices(draws.strengths[best], opened) if task.has_strengths else graph
    task = replace(task, experiments=replace(experiments, known=known))
    problem = task.without_copies().problem(torch.float64)
    theta = refit_theta(problem, weights, draws.theta[best], None).theta
    with torch.no_grad(), torch_threads(1):
        misfit = misfit_of(problem, problem.gather(_tensor(weights, task)), _tensor(theta, task)).factor
        strengths = None if task.has_strengths else _strengths_test(graph, theta, task)
    residuals = experiments.outputs - task.predict(weights, theta)
    data = experiments.inputs, experiments.outputs
    quality: dict[str, Any] = assess_fit(*data, residuals, graph, task.noise.relative, task.fit_intercept)
    quality["misfit"] = misfit
    if strengths is not None:
        quality |= {"p_value_strengths": strengths.p_value, "strengths_gain": strengths.gain}
    if not task.fit_intercept:
        quality["p_value_offsets"] = offset_p_value(experiments.inputs, residuals, graph, task.noise.relative)
    is_gaussian = task.noise_distribution == "gaussian"
    furthest = largest_residual(residuals, task.noise.relative) if is_gaussian else None
    troubles = data_findings(quality, furthest, experiments, task.has_strengths)
    return misfit, not (troubles or fit_findings(quality, quality["residual_std"], False, experiments))


def _strengths_test(graph: FloatArray, theta: FloatArray, task: SamplingTask) -> StrengthsTest:
    """Whether edges of a binary graph seem to differ in strength, which makes right pairs look wrong."""
    problem = replace(task, has_strengths=True).problem(torch.float64)
    return strengths_test(problem, problem.gather(_tensor(graph, task)), _tensor(theta, task))


def _tensor(array: npt.NDArray[Any], task: SamplingTask) -> Tensor:
    return torch.tensor(array, dtype=torch.float64, device=task.device)


def suspect_finding(suspicion: Suspicion, known: KnownEdges, node_names: Sequence[Any]) -> Finding:
    """A warning of the worst pair, and of the model where several pairs seem wrong: a wrong model has that effect."""
    pairs = known.known_pairs()
    worst, n_wrong = int(suspicion.log_odds.argmax()), int((suspicion.log_odds > 0).sum())
    names = [repr(node_names[int(ends[worst])]) for ends in pairs.sources_and_targets()]
    source, target = (name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…" for name in names)
    given = "an edge" if pairs.gather(known.values)[worst] else "no edge"
    pair = f"{source} {'to' if known.directed else 'and'} {target}, given as {given}"
    if n_wrong == 1:
        warning = f"the known pair {pair}, contradicts the data; check it."
    else:
        warning = f"known pairs contradict the data, above all {pair}; check them, their order and the model."
    number = f" {n_wrong} known pairs are more likely wrong than right." if n_wrong > 1 else ""
    return Finding.trouble(f"{warning}{number} See suspect_known_pairs().", UserWarning, warning)
