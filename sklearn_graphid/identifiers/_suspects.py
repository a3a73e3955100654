"""Known pairs that are wrong: chains in which pairs that count as known may flip.

A known pair that is wrong does harm that is hard to trace: unknown pairs, theta and the noise level make up for it. So
the system is sampled once more, with the known pairs unknown but for prior odds that they were given correctly. Some
chains start from the draws of the fit. As these may be where the wrong pair has led them, others start at random where
edges have no strengths, and chains in far less probable modes are dropped as in any fit.

That takes about as long as the fit. A fit does it only where it does not explain the outputs, or where the flip of a
single known pair would clearly improve it, which is quick to see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.special import logit
from scipy.stats import chi2

from .._utils._numbers import FloatArray
from .._utils._torch import draw_seeds, torch_threads
from ..graphs import EdgeSpace, KnownEdges
from ..priors import ErdosRenyiPrior, GraphPrior
from ..samplers import Kernel, SweepKernel, gains_of_absent, gains_of_known, misfit_of
from ._base import Finding
from ._chains import BATCH, ChainDraws, SamplingTask, batches_of, kept_draws, resumed_kernels, run_chains, start_from
from ._estimates import NoiseLevels, refit_theta, weight_matrices
from ._findings import assess_fit, fit_findings

__all__ = ["WRONG", "Kernels", "System", "is_suspicious", "suspect_findings", "suspicion_of"]

#: The prior probability that a known pair is wrong.
WRONG = 0.01

# Gives the kernels for a prior and a number of unknown pairs.
Kernels = Callable[[GraphPrior, int], tuple[Kernel, ...]]


class System(NamedTuple):
    """The task of a fit and its result, as far as the search for wrong pairs starts from them."""

    task: SamplingTask
    explained: SamplingTask  # the task with the outputs that a system should explain: without offsets and outliers
    draws: ChainDraws
    density: float
    weights: FloatArray  # (nodes, nodes), zeros and ones where edges have no strengths
    weights_std: FloatArray | None  # (nodes, nodes), None where edges have no strengths
    theta: FloatArray  # (parameters,), the best for these weights

    @classmethod
    def of(cls, fitted: Mapping[str, Any], task: SamplingTask) -> System:
        """The system of these fitted attributes."""
        draws, weights = fitted["_draws"], fitted["_edge_weights"]
        return cls(
            task=task,
            explained=task.explained(draws.mean_of_chains(draws.offset), fitted["_outlier_probabilities"]),
            draws=draws,
            density=fitted["density_"],
            weights=fitted["adjacency_"].astype(np.float64) if weights is None else weights,
            weights_std=fitted["_edge_weights_std"],
            theta=fitted["theta_refitted_"],
        )


def is_suspicious(system: System) -> bool:
    """Whether the flip of one known pair would be more likely than not, all others staying as they are.

    Where edges have strengths, looking closer takes longer than the fit, and chance alone makes some pair of hundreds
    seem wrong. So it takes more there than the largest gain of as many right pairs, but in one system of ten.
    """
    gains, least = _single_gains(system), -logit(WRONG)
    if system.task.has_strengths and len(gains):
        least = max(least, 0.5 * float(chi2.isf(0.1 / len(gains), 1)))
    return bool(gains.max(initial=-np.inf) > least)


def _single_gains(system: System) -> FloatArray:
    """Gains (known pairs,) in log-likelihood by the flip of each known pair alone."""
    task, draws, known = system.explained, system.draws, system.task.experiments.known
    pairs, problem = known.known_pairs(), task.problem(torch.float64)
    with torch.no_grad(), torch_threads(1):
        if not task.has_strengths:
            # The mean over the draws of four chains.
            last = np.argsort(-draws.weight, kind="stable")[:4], -1
            drawn = known.fill(draws.graphs[last]), draws.theta[last], draws.noise_std[last]
            graphs, theta, noise_std = map(task.tensor, drawn)
            of_graphs = gains_of_known(problem, graphs, theta, noise_std, pairs.to(task.device))
            return np.asarray(of_graphs.mean(0).cpu().numpy())
        is_edge = pairs.gather(known.values) == 1
        absent = pairs.select(~is_edge).to(task.device)
        fitted = problem.gather(task.tensor(system.weights)), task.tensor(system.theta)
        of_absent = gains_of_absent(problem, *fitted, absent, bool((system.weights < 0).any()))
    gains = np.empty(pairs.n_free)
    gains[~is_edge] = of_absent.cpu().numpy()
    gains[is_edge] = _gains_of_weak(system, pairs.select(is_edge))
    return gains


def _gains_of_weak(system: System, edges: EdgeSpace) -> FloatArray:
    """Gains by removing known edges that are far weaker than others, if strengths are log-normal of width one."""
    weights = np.abs(edges.gather(system.weights))
    spread = np.zeros(weights.shape) if system.weights_std is None else edges.gather(system.weights_std)
    if not len(weights):
        return np.empty(0)
    largest = (weights + 2 * spread) / max(float(np.median(weights)), np.finfo(np.float64).tiny)
    return np.asarray(0.5 * np.log(largest.clip(1e-30, 1.0)) ** 2)


def suspicion_of(system: System, kernels: Kernels, wrong: float, n_jobs: int | None) -> tuple[FloatArray, bool] | None:
    """Sample the system with known pairs that may be wrong, with the prior probability `wrong`.

    Return the log-odds (known pairs,) of being wrong, in the order of `KnownEdges.known_pairs`, and whether the filter
    explains the outputs once the pairs that are probably wrong are flipped; None if all chains diverge.
    """
    known = system.task.experiments.known
    pairs, gains = known.known_pairs(), _single_gains(system)
    # The time of a sweep grows with the number of pairs that may flip, so that those that gain most when flipped alone
    # are taken.
    is_open = np.zeros(pairs.n_free, dtype=bool)
    is_open[np.argsort(-gains, kind="stable")[:1000]] = True
    task = _open_task(system, pairs.select(is_open), wrong)
    draws = _draws(system, task, kernels, n_jobs)
    if not len(draws.weight):
        return None
    probability = pairs.gather(task.experiments.known.fill(draws.mean_of_chains(draws.edge_probability)))
    is_wrong = np.where(pairs.gather(known.values) == 1, 1 - probability, probability)
    # Probabilities that are nearer to 0 or 1 are rounding, or fewer draws than there are.
    smallest = max(1e-7, 0.5 / draws.log_likelihood.size) if task.has_strengths else 1e-7
    log_odds = logit(is_wrong.clip(smallest, 1 - smallest))
    likely_wrong = pairs.select(is_open & (log_odds > 0))
    misfit, is_explained = _check(draws, task, system.explained, likely_wrong)
    # Evidence counts for less where known non-edges show that the filter leaves something unexplained.
    log_odds = logit(wrong) + (log_odds - logit(wrong)) / misfit
    # Pairs that stayed known are no more suspicious than the least of the others.
    lowest = log_odds[is_open].min(initial=0.0)
    log_odds[~is_open] = np.minimum(gains[~is_open] + logit(wrong), lowest)
    return log_odds, is_explained


def _without(known: KnownEdges, opened: EdgeSpace) -> KnownEdges:
    """Known edges with some pairs made unknown, and no strengths, as they may be those of edges that are none."""
    mask = known.mask.copy()
    opened.write(mask, False)
    return KnownEdges(mask, known.values, known.names, directed=known.directed)


def _open_task(system: System, pairs: EdgeSpace, wrong: float) -> SamplingTask:
    """The task with more unknown pairs, which have prior odds of being as given, and noise that is sampled."""
    task, known = system.task, system.task.experiments.known
    share = float(np.clip(np.nan_to_num(system.density, nan=0.5), 0.01, 0.99))
    evidence = np.zeros(known.mask.shape) if task.evidence is None else task.evidence.copy()
    # Log-odds beside those of the density, which all unknown pairs have.
    pairs.write(evidence, np.where(pairs.gather(known.values) == 1, -logit(wrong), logit(wrong)) - logit(share))
    return replace(
        task,
        experiments=replace(task.experiments, known=_without(known, pairs)),
        prior=ErdosRenyiPrior(share),
        evidence=evidence,
        noise=NoiseLevels(None, task.noise.relative),
        trust=None,
        start=None,
    )


def _draws(system: System, task: SamplingTask, kernels: Kernels, n_jobs: int | None) -> ChainDraws:
    """Draws of chains that start from those of the fit, and of some that start at random."""
    known, opened = system.task.experiments.known, task.experiments.known
    at_random = kernels(task.prior, opened.n_unknown)
    resumed = resumed_kernels(at_random)
    # Draws of strengths tell of an edge or of none and not of odds, so that it takes more of them.
    n_chains = 2 * BATCH if task.has_strengths else BATCH
    if task.has_strengths:
        # Strengths have made up for the wrong pair, and have to find back: that takes all the sweeps of a fit.
        resumed = tuple(
            replace(kernel, n_sweeps=2 * kernel.n_sweeps) if isinstance(kernel, SweepKernel) else kernel
            for kernel in resumed
        )
    runs = []
    if resumed:
        start = start_from(system.draws, known, opened, n_chains, task.has_strengths)
        runs.append((replace(task, kernels=resumed, start=start), n_chains))
    # Chains that start at random fit all pairs as one vector first, in a time that grows with the cube of their number.
    # Where edges have strengths, it takes far longer than the fit, and is not needed: on 40 power grids for
    # development, chains that start from the draws have found all wrong pairs.
    if not resumed or (not task.has_strengths and opened.n_unknown <= 600):
        runs.append((replace(task, kernels=at_random), 2 * BATCH))
    draws: list[ChainDraws] = []
    for one, n_seeds in runs:
        batches = batches_of(draw_seeds(0, n_seeds))
        draws += run_chains(one, batches, n_jobs, [None] * len(batches))
    return kept_draws(draws)[0]


def _check(
    draws: ChainDraws, task: SamplingTask, explained: SamplingTask, likely_wrong: EdgeSpace
) -> tuple[float, bool]:
    """The misfit of the best draw, and whether it explains the outputs, the pairs that are probably wrong unknown."""
    best = np.unravel_index((draws.log_likelihood + draws.log_prior).argmax(), draws.log_likelihood.shape)
    opened = task.experiments.known
    graph = opened.fill(draws.graphs[best])
    weights = weight_matrices(draws.strengths[best], opened) if task.has_strengths else graph
    known = _without(explained.experiments.known, likely_wrong)
    task = replace(explained, experiments=replace(explained.experiments, known=known), noise=task.noise)
    problem = task.without_copies().problem(torch.float64)
    theta = refit_theta(problem, weights, draws.theta[best], None).theta
    with torch.no_grad(), torch_threads(1):
        misfit = misfit_of(problem, problem.gather(task.tensor(weights)), task.tensor(theta)).factor
    quality, furthest = assess_fit(task, graph, weights, theta)
    quality["misfit"] = misfit
    return misfit, not fit_findings(quality, furthest, task, quality["residual_std"], False)


def suspect_findings(
    log_odds: FloatArray, is_explained: bool, known: KnownEdges, node_names: Sequence[Any]
) -> list[Finding]:
    """A warning of the worst pair, and of the model where several pairs seem wrong: a wrong model has that effect.

    Where the filter does not explain the outputs, any pair may seem to be wrong, and none is warned of.
    """
    worst, n_wrong, pairs = int(log_odds.argmax()), int((log_odds > 0).sum()), known.known_pairs()
    if not is_explained or log_odds[worst] <= 4.5:  # 90 to 1, after prior odds of 1 to 99
        return []
    names = [repr(node_names[int(ends[worst])]) for ends in pairs.sources_and_targets()]
    source, target = (name if len(name) <= 30 else f"{name[:29]}…" for name in names)
    given = "an edge" if pairs.gather(known.values)[worst] else "no edge"
    pair = f"{source} {'to' if known.directed else 'and'} {target}, given as {given}"
    warning, number = f"the known pair {pair}, contradicts the data; check it.", ""
    if n_wrong > 1:
        warning = f"known pairs contradict the data, above all {pair}; check them, their order and the model."
        number = f" {n_wrong} known pairs are more likely wrong than right."
    return [Finding.trouble(f"{warning}{number} See suspect_known_pairs().", warning)]
