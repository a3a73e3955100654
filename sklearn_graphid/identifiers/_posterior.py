"""Posterior of a system: the result of a fit from the draws of its chains, and the search for wrong known pairs.

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
import numpy.typing as npt
import torch
from scipy.special import logit
from scipy.stats import chi2
from sklearn.exceptions import ConvergenceWarning

from .._utils._numbers import FloatArray
from .._utils._torch import draw_seeds, torch_threads
from ..graphs import EdgeSpace, KnownEdges
from ..priors import ErdosRenyiPrior, GraphPrior
from ..samplers import Kernel, SweepKernel, gains_of_absent, gains_of_known, misfit_of
from ._base import Finding, Identification
from ._chains import BATCH, ChainDraws, SamplingTask, batches_of, kept_draws, resumed_kernels, run_chains, start_from
from ._estimates import NoiseLevels, refit_theta, summarize_weights, weight_matrices
from ._findings import assess_fit, diagnose, fit_findings, mixing_findings, trust_findings

__all__ = [
    "WRONG",
    "Kernels",
    "System",
    "largest_expected_f1",
    "result_of",
    "suspicion_of",
    "was_stopped",
    "with_suspects",
]

#: The prior probability that a known pair is wrong.
WRONG = 0.01

# Gives the kernels for a prior and a number of unknown pairs.
Kernels = Callable[[GraphPrior, int], tuple[Kernel, ...]]


def result_of(batches: Sequence[ChainDraws], task: SamplingTask, point_estimate: str) -> Identification:
    """All that a fit leaves behind, from the batches of chains that were run."""
    draws, n_diverged, n_stuck = kept_draws(batches)
    if not len(draws.weight):
        raise FloatingPointError(
            f"all {n_diverged} chains diverged, as the filter gave outputs that are infinite or nan. Check that "
            f"noise_std={task.noise.common!r} is in the units of Y, and that the filter's initial range suits its "
            f"parameters."
        )
    data, known, asked, fixed = task.experiments, task.experiments.known, task, task.noise.noise_std
    draws = draws._replace(density=_density(draws, task))
    if fixed is not None:  # reported as it was given, and not as single precision has it
        draws = draws._replace(noise_std=task.noise.draws(draws.noise_std.shape))
    theta_samples, noise = draws.pooled(draws.theta), draws.pooled(draws.noise_std)
    noise_std = float(np.sqrt(np.mean(noise**2))) if fixed is None else fixed
    offset, outliers = draws.mean_of_chains(draws.offset), None
    if task.noise_distribution != "gaussian":
        outliers = np.where(np.isnan(data.outputs), np.nan, draws.mean_of_chains(draws.outlier_probability))
    task = task.explained(offset, outliers)

    graph, theta, strengths = _chosen_system(draws, point_estimate)
    matrix = known.fill(graph)
    adjacency, weights, spread = matrix.astype(np.int64), matrix, None
    if task.has_strengths:
        weights, spread = summarize_weights(draws.pooled(draws.strengths), known, adjacency)
        weights = weights if strengths is None else weight_matrices(strengths, known)
    refit, error = refit_theta(task.problem(torch.float64), weights, theta, task.noise.common)
    # Mean strengths and the mean of theta do not go together where only their product matters.
    if point_estimate == "best" or (task.has_strengths and strengths is None):
        theta = refit

    quality, furthest = assess_fit(task, matrix, weights, refit, draws)
    diagnostics = diagnose(draws, known, n_diverged, n_stuck) | quality
    if task.has_strengths:
        diagnostics["misfit"] = task.noise.misfit
    prior_trust = float(draws.mean_of_chains(draws.trust.mean(1)))
    is_trust_sampled = task.trust is not None and len(task.trust.values) > 1
    on_fit = fit_findings(diagnostics, furthest, task, noise_std, task.noise.is_given)
    findings = [
        *on_fit,
        *mixing_findings(diagnostics, int(known.space.gather(adjacency).sum()), task.kernels[-1].remedy),
        *trust_findings(prior_trust, is_trust_sampled),
    ]
    if any(was_stopped(batch, task) for batch in batches):
        text = "a callback stopped the fit before its last step; the result is that of the steps so far."
        findings.append(Finding.trouble(text, category=ConvergenceWarning))

    level = data.output_mean + offset
    silence = task.predict(weights, theta, np.zeros((1, known.n_nodes)) - data.input_mean)[0]
    return Identification(
        edge_probabilities=known.fill(draws.mean_of_chains(draws.edge_probability)),
        adjacency=adjacency,
        theta=np.asarray(theta, dtype=np.float64),
        noise_std=noise_std,
        diagnostics=diagnostics,
        weights=weights if task.has_strengths else None,
        weights_std=spread,
        findings=tuple(findings),
        further={
            "theta_refitted_": refit,
            "theta_standard_error_": error,
            "theta_samples_": theta_samples,
            "theta_std_": theta_samples.std(0),
            "noise_std_samples_": noise,
            "noise_std_per_node_": task.noise.at_nodes(noise_std, known.n_nodes),
            "prior_": task.prior,
            "prior_trust_": prior_trust,
            "density_": float(draws.mean_of_chains(draws.density.mean(1))),
            "intercept_": level + silence if task.fit_intercept else np.zeros(known.n_nodes),
            "_outlier_probabilities": outliers,
            "_input_center": data.input_mean,
            "_output_level": level if task.fit_intercept else 0.0,
            "_draws": draws,
            # For the next fit, and to sample again; the tables that the user gave are not kept.
            "_task": replace(asked, experiments=replace(data, given={}), kernels=(), start=None),
            "_is_resumed": task.start is not None,
            "_findings_on_fit": on_fit,
            "_log_odds_wrong": None,
        },
    )


def _density(draws: ChainDraws, task: SamplingTask) -> FloatArray:
    """The density (chains, draws) of the unknown pairs: drawn, given, or the share of edges in a draw."""
    if not draws.graphs.shape[-1]:
        return np.full_like(draws.density, np.nan)
    given = task.prior.p if isinstance(task.prior, ErdosRenyiPrior) else None
    shares = draws.graphs.mean(-1) if given is None else np.full_like(draws.density, given)
    return np.where(np.isnan(draws.density), shares, draws.density)


def _chosen_system(draws: ChainDraws, point_estimate: str) -> tuple[npt.NDArray[Any], FloatArray, FloatArray | None]:
    """The graph (unknown pairs,) and theta to report, and the strengths (free pairs,) where a draw is reported."""
    if point_estimate in ("marginal", "f1"):
        probability = draws.mean_of_chains(draws.edge_probability)
        graph = probability > 0.5 if point_estimate == "marginal" else largest_expected_f1(probability)
        return graph, draws.mean_of_chains(draws.theta.mean(1)), None
    place: Any = (0, -1)
    if point_estimate == "best":
        place = np.unravel_index(draws.log_likelihood.argmax(), draws.log_likelihood.shape)
    return draws.graphs[place], draws.theta[place], draws.strengths[place]


def largest_expected_f1(probability: FloatArray) -> npt.NDArray[np.bool_]:
    """The pairs in order of probability, as many as maximise the expected F1, 2 sum p_S / (|S| + sum p).

    Numerator and denominator of the F1 score are replaced by their expectations.
    """
    order = np.argsort(-probability, kind="stable")
    n_chosen = np.arange(1, len(order) + 1)
    expected = 2 * np.cumsum(probability[order]) / (n_chosen + probability.sum())
    chosen = np.zeros(len(order), dtype=bool)
    if len(order) and expected.max() > 0:
        chosen[order[: int(expected.argmax()) + 1]] = True
    return chosen


def was_stopped(batch: ChainDraws, task: SamplingTask) -> bool:
    """Whether a callback ended a batch before its last step."""
    return len(batch.trace_sigma) < task.n_steps


# Known pairs that are wrong.


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


def _is_suspicious(system: System) -> bool:
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
    theta, _ = refit_theta(problem, weights, draws.theta[best], None)
    with torch.no_grad(), torch_threads(1):
        misfit = misfit_of(problem, problem.gather(task.tensor(weights)), task.tensor(theta)).factor
    quality, furthest = assess_fit(task, graph, weights, theta)
    quality["misfit"] = misfit
    return misfit, not fit_findings(quality, furthest, task, quality["residual_std"], False)


def with_suspects(
    result: Identification, task: SamplingTask, kernels: Kernels, node_names: Sequence[Any], n_jobs: int | None
) -> Identification:
    """The result with a warning of known pairs that are wrong, where something is amiss and this is why."""
    known, on_fit = task.experiments.known, result.further["_findings_on_fit"]
    if not known.known_pairs().n_free:
        return result
    system = System.of(result.attributes(task.experiments), task)
    if not on_fit and not _is_suspicious(system):
        return result
    suspicion = suspicion_of(system, kernels, WRONG, n_jobs)
    if suspicion is None:  # chains that diverge say nothing
        return result
    log_odds, is_explained = suspicion
    findings = result.findings
    # Where the filter does not explain the outputs, any pair may seem to be wrong, and none is warned of.
    if is_explained and log_odds.max() > 4.5:  # 90 to 1, after prior odds of 1 to 99
        others = (finding for finding in findings if finding not in on_fit)
        findings = (_suspect_finding(log_odds, known, node_names), *others)
    return replace(result, findings=findings, further=result.further | {"_log_odds_wrong": log_odds})


def _suspect_finding(log_odds: FloatArray, known: KnownEdges, node_names: Sequence[Any]) -> Finding:
    """A warning of the worst pair, and of the model where several pairs seem wrong: a wrong model has that effect."""
    worst, n_wrong, pairs = int(log_odds.argmax()), int((log_odds > 0).sum()), known.known_pairs()
    names = [repr(node_names[int(ends[worst])]) for ends in pairs.sources_and_targets()]
    source, target = (name if len(name) <= 30 else f"{name[:29]}…" for name in names)
    given = "an edge" if pairs.gather(known.values)[worst] else "no edge"
    pair = f"{source} {'to' if known.directed else 'and'} {target}, given as {given}"
    warning, number = f"the known pair {pair}, contradicts the data; check it.", ""
    if n_wrong > 1:
        warning = f"known pairs contradict the data, above all {pair}; check them, their order and the model."
        number = f" {n_wrong} known pairs are more likely wrong than right."
    return Finding.trouble(f"{warning}{number} See suspect_known_pairs().", warning)
