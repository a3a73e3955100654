"""What the draws of chains become: probabilities, a point estimate, spreads, and what is to be said of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning

from .._utils._findings import Finding
from .._utils._numbers import FloatArray
from .._utils._torch import torch_threads
from ..graphs import KnownEdges
from ..priors import ErdosRenyiPrior, GraphPrior
from ..priors._trust import trust_findings
from ..samplers import StrengthsTest, strengths_test, stuck_chains, weights_of_chains
from ._base import Identification
from ._chains import SamplingTask
from ._draws import ChainDraws, finite_chains, joined_draws, selected_chains
from ._estimates import ThetaRefit, refit_theta, summarize_weights, weight_matrices
from ._fit_quality import (
    LargestResidual,
    assess_fit,
    data_findings,
    fit_findings,
    is_significant,
    largest_residual,
    offset_p_value,
    residual_dependence,
    rows_without_copies,
)
from ._mixing import diagnose, mixing_findings
from ._resume import SoughtSystem

__all__ = ["explained_task", "result_of", "was_stopped"]

_STOPPED = Finding.trouble(
    "a callback stopped the fit before its last step; the result is that of the steps so far.", ConvergenceWarning
)


class _PointEstimate(NamedTuple):
    adjacency: npt.NDArray[np.int64]
    weights: FloatArray  # (nodes, nodes), the adjacency itself where edges have no strengths
    theta: FloatArray
    refit: ThetaRefit
    quality: dict[str, float]  # for the diagnostics
    furthest: LargestResidual | None  # None where outliers are part of the model

    def n_inferred(self, known: KnownEdges) -> int:
        return int(known.space.gather(self.adjacency).sum())


def result_of(
    batches: Sequence[ChainDraws], task: SamplingTask, point_estimate: str, edge_weights: str
) -> Identification:
    """All that a fit leaves behind, from the batches of chains that were run.

    Parameters
    ----------
    batches : sequence of ChainDraws
        What they have drawn.
    task : SamplingTask
        What they were asked to do.
    point_estimate : {"marginal", "f1", "sample", "best"}
        Which graph to report.
    edge_weights : str
        The kind of edges.
    """
    draws, known = joined_draws(batches), task.experiments.known
    finite = finite_chains(draws)
    if not finite.any():
        raise FloatingPointError(
            f"all {len(finite)} chains diverged, as the filter gave outputs that are infinite or nan. Check that "
            f"noise_std={task.noise.common!r} is in the units of Y, and that the filter's initial range suits its "
            f"parameters."
        )
    draws = selected_chains(draws, finite)
    stuck = stuck_chains(draws.log_likelihood + draws.log_prior)
    draws = selected_chains(draws, ~stuck)
    weight = weights_of_chains(draws.log_likelihood + draws.log_prior, draws.edge_probability)
    draws = draws._replace(weight=weight, density=_density(draws, task.prior))
    theta_samples = draws.pooled(draws.theta)
    # What was given is reported as it was given, and not as single precision has it.
    fixed = task.noise.noise_std
    if fixed is not None:
        draws = draws._replace(noise_std=task.noise.draws(draws.noise_std.shape))
    noise = draws.pooled(draws.noise_std)
    given_outputs, outliers = task.experiments.outputs, _outlier_probabilities(draws, task)
    offset = draws.mean_of_chains(draws.offset)
    task = explained_task(task, offset, outliers)
    point = _point_estimate(draws, task, point_estimate)
    level = task.experiments.output_mean + offset
    silence = task.predict(point.weights, point.theta, np.zeros((1, known.n_nodes)) - task.experiments.input_mean)[0]
    probabilities = known.fill(draws.mean_of_chains(draws.edge_probability))
    diagnostics = diagnose(draws, known, int((~finite).sum()), int(stuck.sum())) | point.quality
    if task.has_strengths:
        diagnostics["misfit"] = task.noise.misfit
    noise_std = float(np.sqrt(np.mean(noise**2))) if fixed is None else fixed
    prior_trust = float(draws.mean_of_chains(draws.trust.mean(1)))
    stopped = any(was_stopped(batch, task) for batch in batches)
    on_fit = tuple(
        data_findings(diagnostics, point.furthest, task.experiments, task.has_strengths)
        or fit_findings(diagnostics, noise_std, task.noise.is_given, task.experiments)
    )
    spread = summarize_weights(draws.pooled(draws.strengths), known, point.adjacency)[1] if task.has_strengths else None
    return Identification(
        edge_probabilities=probabilities,
        adjacency=point.adjacency,
        theta=point.theta,
        noise_std=noise_std,
        diagnostics=diagnostics,
        weights=point.weights if task.has_strengths else None,
        weights_std=spread,
        findings=(
            *on_fit,
            *mixing_findings(diagnostics, point.n_inferred(known), task.kernels[-1].remedy),
            *trust_findings(prior_trust, task.trust),
            *([_STOPPED] if stopped else []),
        ),
        further={
            "theta_refitted_": point.refit.theta,
            "theta_standard_error_": point.refit.standard_error,
            "theta_samples_": theta_samples,
            "theta_std_": theta_samples.std(0),
            "noise_std_samples_": noise,
            "noise_std_per_node_": task.noise.at_nodes(noise_std, known.n_nodes),
            "prior_": task.prior,
            "prior_trust_": prior_trust,
            "density_": float(draws.mean_of_chains(draws.density.mean(1))),
            "intercept_": level + silence if task.fit_intercept else np.zeros(known.n_nodes),
            "_outlier_probabilities": outliers,
            "_input_center": task.experiments.input_mean,
            "_output_level": level if task.fit_intercept else 0.0,
            "_draws": draws,
            "_sought": SoughtSystem.of(known, edge_weights, task.experiments.filter),
            "_n_measured_by_draws": int((~np.isnan(given_outputs)).sum()),
            "_is_resumed": task.start is not None,
            "_findings_on_fit": on_fit,
            "_log_odds_wrong": None,
        },
    )


def _outlier_probabilities(draws: ChainDraws, task: SamplingTask) -> FloatArray | None:
    if task.noise_distribution == "gaussian":
        return None
    probabilities = draws.mean_of_chains(draws.outlier_probability)
    return np.where(np.isnan(task.experiments.outputs), np.nan, probabilities)


def explained_task(task: SamplingTask, offset: FloatArray, outliers: FloatArray | None) -> SamplingTask:
    """The task with outputs that a system should explain: without offsets (nodes,), and nan where they are outliers."""
    outputs = task.experiments.outputs - offset
    if outliers is not None:
        cleaned = np.where(outliers > 0.5, np.nan, outputs)
        outputs = outputs if np.isnan(cleaned).all() else cleaned
    return replace(task, experiments=replace(task.experiments, outputs=outputs))


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


def _density(draws: ChainDraws, prior: GraphPrior) -> FloatArray:
    """The density (chains, draws) of the unknown pairs: drawn, given, or the share of edges in a draw."""
    if not draws.graphs.shape[-1]:
        return np.full_like(draws.density, np.nan)
    given = prior.p if isinstance(prior, ErdosRenyiPrior) else None
    shares = draws.graphs.mean(-1) if given is None else np.full_like(draws.density, given)
    return np.where(np.isnan(draws.density), shares, draws.density)


def _point_estimate(draws: ChainDraws, task: SamplingTask, kind: str) -> _PointEstimate:
    experiments, known = task.experiments, task.experiments.known
    if kind in ("marginal", "f1"):
        probability = draws.mean_of_chains(draws.edge_probability)
        graph = probability > 0.5 if kind == "marginal" else largest_expected_f1(probability)
        theta, strengths = draws.mean_of_chains(draws.theta.mean(1)), None
    else:
        place = (0, -1)
        if kind == "best":
            best = np.unravel_index(draws.log_likelihood.argmax(), draws.log_likelihood.shape)
            place = (int(best[0]), int(best[1]))
        graph, theta, strengths = draws.graphs[place], draws.theta[place], draws.strengths[place]
    weights = known.fill(graph)
    adjacency = weights.astype(np.int64)
    if task.has_strengths and strengths is not None:
        weights = weight_matrices(strengths, known)
    elif task.has_strengths:
        weights = summarize_weights(draws.pooled(draws.strengths), known, adjacency)[0]
    refit = refit_theta(task.problem(torch.float64), weights, theta, task.noise.common)
    # Mean strengths and the mean of theta do not go together where only their product matters.
    is_refitted = kind == "best" or (task.has_strengths and strengths is None)
    residuals = experiments.outputs - task.predict(weights, refit.theta)
    data = experiments.inputs, experiments.outputs
    quality = assess_fit(*data, residuals, known.fill(graph), task.noise.relative, task.fit_intercept)
    drawn = _residuals_of_draws(draws, task)
    if not task.fit_intercept:
        graph_and_noise = known.fill(graph), task.noise.relative
        quality["p_value_offsets"] = offset_p_value(experiments.inputs, residuals, *graph_and_noise)
    furthest = None
    if task.noise_distribution == "gaussian":
        furthest = largest_residual(np.mean([residuals for _, residuals in drawn], axis=0), task.noise.relative)
        quality["largest_residual"], quality["p_value_largest_residual"] = furthest.deviations, furthest.p_value
    dependence = partial(residual_dependence, has_offsets=task.fit_intercept)
    for name, test in (("p_value_residuals", dependence), ("p_value_offsets", offset_p_value)):
        if is_significant(quality.get(name, 1.0)):
            # Where many pairs are uncertain, the graph of those above one half explains less than any draw does.
            quality[name] = max(quality[name], _median_p_value(test, drawn, task))
    if not task.has_strengths:
        quality["p_value_strengths"], quality["strengths_gain"] = _typical_strengths_test(
            adjacency, refit.theta, draws, task
        )
    return _PointEstimate(
        adjacency,
        weights,
        refit.theta if is_refitted else np.asarray(theta, dtype=np.float64),
        refit,
        quality,
        furthest,
    )


def _residuals_of_draws(draws: ChainDraws, task: SamplingTask) -> list[tuple[FloatArray, FloatArray]]:
    """The graph (nodes, nodes) and the residuals (experiments, nodes) of the last draw of every chain."""
    known = task.experiments.known
    theta = draws.pooled(draws.theta[:, -1:])
    matrices = known.fill(draws.pooled(draws.graphs[:, -1:].astype(np.float64)))
    weights = weight_matrices(draws.pooled(draws.strengths[:, -1:]), known) if task.has_strengths else matrices
    return [
        (matrix, task.experiments.outputs - task.predict(*system))
        for matrix, *system in zip(matrices, weights, theta, strict=True)
    ]


def _typical_strengths_test(
    adjacency: npt.NDArray[np.int64], theta: FloatArray, draws: ChainDraws, task: SamplingTask
) -> StrengthsTest:
    """Whether edges seem to have strengths of their own: in the estimate, and if so in a typical draw too."""
    experiments = task.experiments
    problem = replace(task.without_copies(), has_strengths=True).problem(torch.float64)

    def tested(graph: npt.NDArray[Any], theta: FloatArray) -> StrengthsTest:
        pairs = problem.gather(torch.tensor(graph, dtype=torch.float64, device=task.device))
        with torch.no_grad(), torch_threads(1):
            return strengths_test(problem, pairs, torch.tensor(theta, dtype=torch.float64, device=task.device))

    found = tested(adjacency, theta)
    if not is_significant(found.p_value):
        return found
    graphs = experiments.known.fill(draws.pooled(draws.graphs[:, -1:].astype(np.float64)))
    others = [tested(*system) for system in zip(graphs, draws.pooled(draws.theta[:, -1:]), strict=True)]
    p_value, gain = np.median(others, axis=0)
    return StrengthsTest(max(found.p_value, float(p_value)), min(found.gain, float(gain)))


def _median_p_value(
    test: Callable[[FloatArray, FloatArray, FloatArray, FloatArray | None], float],
    drawn: Sequence[tuple[FloatArray, FloatArray]],
    task: SamplingTask,
) -> float:
    """The median of a p-value over draws, each a graph with its residuals."""
    inputs, noise = task.experiments.inputs, task.noise.relative
    rows = rows_without_copies(inputs, task.experiments.outputs)
    return float(np.median([test(inputs[rows], residuals[rows], matrix, noise) for matrix, residuals in drawn]))


def was_stopped(batch: ChainDraws, task: SamplingTask) -> bool:
    """Whether a callback ended a batch before its last step."""
    return len(batch.trace_sigma) < task.n_steps
