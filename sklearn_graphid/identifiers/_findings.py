"""Findings on a fit, for warnings and the report: residuals, agreement of the chains, and fit of the prior.

Measured on 15 nodes with 30 edges, 40 % of the pairs hidden, 4 or 5 graphs for each of 5 to 80 experiments and two
noise levels: with the right filter the noise level never exceeded 0.92 of ridge's error, but for one run whose chains
were stuck, and the p-value of a dependence of residuals on inputs was never below 1e-4. With a wrong filter the first
was above 1.05 in all runs with little noise and 20 experiments or more, and in most with much noise and 40 or more; the
second was below 1e-6 in two thirds of the runs with ten experiments or more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy import stats
from sklearn.exceptions import ConvergenceWarning

from .._utils._numbers import FloatArray
from .._utils._torch import torch_threads
from ..graphs import KnownEdges
from ..samplers import (
    StrengthsTest,
    bulk_sample_size,
    chain_standard_error,
    expected_changes,
    modes_of,
    rank_r_hat,
    strengths_test,
)
from ._base import Finding
from ._chains import BATCH, ChainDraws, SamplingTask
from ._estimates import weight_matrices

__all__ = [
    "LargestResidual",
    "assess_fit",
    "diagnose",
    "fit_findings",
    "largest_residual",
    "mixing_findings",
    "offset_p_value",
    "residual_dependence",
    "ridge_error",
    "trust_findings",
]


# Residuals against the noise level, against ridge regression, and against the inputs.

# P-values below this are not due to chance.
_SIGNIFICANT = 1e-6
# Ridge penalties that are tried, relative to the largest squared singular value of the inputs.
_PENALTIES = np.logspace(-10, 2, 25)


def ridge_error(inputs: FloatArray, outputs: FloatArray, has_offsets: bool = False) -> float:
    """Root mean square error of ridge regression of the outputs on the inputs, for experiments that are left out.

    A graph filter that is linear in its input is a matrix, and ridge regression fits any matrix. It knows no graph, so
    it predicts an experiment that it has not seen no better than the noise allows, and worse where there are few
    experiments. An identified system whose noise is well above this error leaves out something that is in the data.
    Experiments with the same inputs are left out together: a copy would tell what its original is.

    `outputs` (experiments, nodes) are nan where nothing was measured; offsets are fitted if they have some. The result
    is that of the best of several penalties, and nan with fewer than three different experiments.
    """
    measured = ~np.isnan(outputs)
    groups = np.unique(inputs, axis=0, return_inverse=True)[1].ravel()
    squares, n_left_out = np.zeros(len(_PENALTIES)), 0
    # Nodes that were measured in the same experiments share one decomposition.
    patterns, members = np.unique(measured, axis=1, return_inverse=True)
    for pattern, rows in enumerate(patterns.T):
        columns = np.flatnonzero(members.ravel() == pattern)
        if len(np.unique(groups[rows])) < 3:
            continue
        squares += _left_out_squares(inputs[rows], outputs[np.ix_(rows, columns)], groups[rows], has_offsets)
        n_left_out += int(rows.sum()) * len(columns)
    return float(np.sqrt(squares.min() / n_left_out)) if n_left_out else float("nan")


def _left_out_squares(
    inputs: FloatArray, outputs: FloatArray, groups: npt.NDArray[np.intp], has_offsets: bool
) -> FloatArray:
    """Sum of squared errors of groups of equal inputs that are left out one at a time, for each penalty.

    With r the residuals of a group of m and h the leverage of each of them, those of the fit without the group are
    (I - h 1 1')^-1 r = r + h / (1 - m h) (1'r) 1, where 1 is a vector of ones. Offsets, which are the means of centred
    data, add to every leverage the share that a row has in a mean.
    """
    share_in_mean = 0.0
    if has_offsets:
        inputs, outputs, share_in_mean = inputs - inputs.mean(0), outputs - outputs.mean(0), 1 / len(inputs)
    left, singular, _ = np.linalg.svd(inputs, full_matrices=False)
    projected = left.T @ outputs
    _, groups, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    squares = []
    for penalty in _PENALTIES * max(float(singular[0]) ** 2, np.finfo(float).tiny):
        shrinkage = singular**2 / (singular**2 + penalty)
        leverage = (left**2 * shrinkage).sum(1) + share_in_mean
        residuals = outputs - left @ (shrinkage[:, None] * projected)
        sums = np.zeros((len(sizes), outputs.shape[1]))
        np.add.at(sums, groups, residuals)
        factor = leverage / (1 - sizes[groups] * leverage).clip(1e-12)
        squares.append(float(((residuals + factor[:, None] * sums[groups]) ** 2).sum()))
    return np.array(squares)


def residual_dependence(
    inputs: FloatArray,
    residuals: FloatArray,
    adjacency: FloatArray,
    noise: FloatArray | None = None,
    has_offsets: bool = False,
) -> float:
    """Probability that residuals which do not depend on the inputs look as if they did, by an F test.

    The residuals (nan where nothing was measured) are regressed on the inputs and on their products with powers of the
    adjacency matrix, the degrees and the Laplacian: what filters on this graph are made of. 1 where there are too few.
    An F test wants the same noise everywhere, so that both sides are divided by `noise` (nodes,) where it differs. What
    offsets may explain is left to them where the nodes have offsets.
    """
    design, offsets, target = _regression(inputs, residuals, adjacency, noise)
    return _f_test(offsets if has_offsets else offsets[:, :0], design, target)


def offset_p_value(
    inputs: FloatArray, residuals: FloatArray, adjacency: FloatArray, noise: FloatArray | None = None
) -> float:
    """Probability that residuals of mean zero look as if nodes had offsets, by an F test.

    What the residuals owe to the inputs is accounted for first, as in `residual_dependence`: with inputs that are not
    zero on average, a wrong filter leaves residuals that are not zero on average either.
    """
    design, offsets, target = _regression(inputs, residuals, adjacency, noise)
    return _f_test(design, offsets, target)


def _regression(
    inputs: FloatArray, residuals: FloatArray, adjacency: FloatArray, noise: FloatArray | None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Regressors that filters are made of (measured outputs, columns), offsets (measured outputs, nodes), and the
    residuals (measured outputs,) to explain by them."""
    scale = np.ones(residuals.shape[1]) if noise is None else 1 / noise
    degrees = adjacency.sum(1)

    def shift(signals: FloatArray) -> FloatArray:
        return signals @ adjacency.T

    once = shift(inputs)
    twice = shift(once)
    scaled = inputs * degrees
    laplacian = scaled - once
    laplacian_twice = laplacian * degrees - shift(laplacian)
    parts = [inputs, once, twice, shift(twice), scaled, shift(scaled), once * degrees, scaled * degrees]
    parts.append(laplacian_twice * degrees - shift(laplacian_twice))
    measured = ~np.isnan(residuals)
    design = np.stack([(part * scale)[measured] for part in parts], axis=1)
    nodes = np.nonzero(measured)[1]
    offsets = np.where(nodes[:, None] == np.arange(residuals.shape[1]), scale, 0.0)
    return design, offsets, (residuals * scale)[measured]


def _f_test(given: FloatArray, tested: FloatArray, target: FloatArray) -> float:
    """P-value of an F test that the columns `tested` explain nothing beyond those given; 1 where there are too few."""
    before, n_given = _unexplained(given, target)
    left, n_columns = _unexplained(np.hstack([given, tested]), target)
    rank, free = n_columns - n_given, len(target) - n_columns
    if free < 1 or rank < 1 or left <= 0:
        return 1.0
    return float(stats.f.sf((before - left) / rank / (left / free), rank, free))


def _unexplained(design: FloatArray, target: FloatArray) -> tuple[float, int]:
    """Sum of squares that a least-squares fit leaves, and the rank of the design."""
    norms = np.linalg.norm(design, axis=0)
    design = design[:, norms > 0] / norms[norms > 0]
    fitted, _, rank, _ = np.linalg.lstsq(design, target, rcond=1e-10)
    return float(((target - design @ fitted) ** 2).sum()), int(rank)


class LargestResidual(NamedTuple):
    """The output that is furthest from what the fit predicts."""

    row: int
    node: int
    deviations: float  # its residual, in standard deviations of the others
    p_value: float  # that the largest of so many Gaussian residuals is as large
    n_outliers: int  # how many residuals are too large for Gaussian noise


def largest_residual(residuals: FloatArray, noise: FloatArray | None = None) -> LargestResidual:
    """Test the largest of the residuals (experiments, nodes), nan where nothing was measured, against Gaussian noise.

    An outlier raises the noise level and may change the whole graph. So residuals are compared with the median of their
    absolute values, which a few outliers hardly change: that of all nodes, or that of their own node if it is larger,
    so that a node with much noise is not taken for an outlier. P-values are corrected for the number of outputs
    (Bonferroni). `noise` (nodes,) is relative to the common level, where it differs.
    """
    sizes = np.abs(residuals if noise is None else residuals / noise)
    is_measured = ~np.isnan(sizes)
    n_measured = int(is_measured.sum())
    typical = np.full(sizes.shape[1], np.nanmedian(sizes))
    has_own = is_measured.sum(0) >= 3  # a median of fewer numbers is not safe from an outlier among them
    typical[has_own] = np.maximum(typical[has_own], np.nanmedian(sizes[:, has_own], axis=0))
    # Half of the residuals are smaller than this share of their standard deviation.
    share = float(stats.norm.ppf(0.75))
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.where(is_measured & (typical > 0), share * sizes / typical, 0.0)
    # The median of absolute residuals tells their standard deviation as well as .37 times as many squares do.
    p_values = np.minimum(1.0, 2 * n_measured * stats.t.sf(deviations, 0.37 * n_measured))
    row, node = np.unravel_index(int(deviations.argmax()), deviations.shape)
    # In 160 correct systems the largest residual was below 5 deviations, and it was above 6 in one of 130 more, where
    # nearly all chains were stuck. With outliers that ruined the fit it was 8 and more.
    n_outliers = int(((p_values < 1e-4) & (deviations > 6)).sum())
    return LargestResidual(int(row), int(node), float(deviations[row, node]), float(p_values[row, node]), n_outliers)


def assess_fit(
    task: SamplingTask, graph: FloatArray, weights: FloatArray, theta: FloatArray, draws: ChainDraws | None = None
) -> tuple[dict[str, float], LargestResidual | None]:
    """Numbers on how well a system explains the outputs, for `diagnostics_`, and the output that is furthest off.

    Where many pairs are uncertain, the graph of those above one half explains less than any draw does. So tests that
    the system fails are repeated on the last draw of every chain, if there are draws, and the median p-value counts.
    """
    data, relative, rows = task.experiments, task.noise.relative, task.rows_without_copies()
    residuals = data.outputs - task.predict(weights, theta)
    drawn = [] if draws is None else _residuals_of_draws(draws, task)
    scaled = residuals if relative is None else residuals / relative
    quality = {
        "residual_std": float(np.sqrt(np.nanmean(scaled**2))),
        "ridge_error": ridge_error(data.inputs, data.outputs, task.fit_intercept),
    }
    dependence = partial(residual_dependence, has_offsets=task.fit_intercept)
    tests: dict[str, Callable[..., float]] = {"p_value_residuals": dependence}
    if not task.fit_intercept:
        tests["p_value_offsets"] = offset_p_value
    for name, test in tests.items():
        quality[name] = test(data.inputs[rows], residuals[rows], graph, relative)
        if drawn and quality[name] < _SIGNIFICANT:
            of_draws = [test(data.inputs[rows], left[rows], matrix, relative) for matrix, left in drawn]
            quality[name] = max(quality[name], float(np.median(of_draws)))
    furthest = None
    if task.noise_distribution == "gaussian":  # otherwise outliers are part of the model
        furthest = largest_residual(np.mean([left for _, left in drawn], axis=0) if drawn else residuals, relative)
        quality["largest_residual"], quality["p_value_largest_residual"] = furthest.deviations, furthest.p_value
    if not task.has_strengths:
        quality["p_value_strengths"], quality["strengths_gain"] = _test_strengths(task, graph, theta, draws)
    return quality, furthest


def _residuals_of_draws(draws: ChainDraws, task: SamplingTask) -> list[tuple[FloatArray, FloatArray]]:
    """The graph (nodes, nodes) and the residuals (experiments, nodes) of the last draw of every chain."""
    known, theta = task.experiments.known, draws.pooled(draws.theta[:, -1:])
    graphs = known.fill(draws.pooled(draws.graphs[:, -1:].astype(np.float64)))
    weights = weight_matrices(draws.pooled(draws.strengths[:, -1:]), known) if task.has_strengths else graphs
    return [
        (graph, task.experiments.outputs - task.predict(*system))
        for graph, *system in zip(graphs, weights, theta, strict=True)
    ]


def _test_strengths(
    task: SamplingTask, graph: FloatArray, theta: FloatArray, draws: ChainDraws | None
) -> tuple[float, float]:
    """Test whether edges that were taken to be alike have strengths: in one system, and if so in a typical draw too."""
    problem = replace(task.without_copies(), edge_weights="positive").problem(torch.float64)

    def tested(graph: FloatArray, theta: FloatArray) -> StrengthsTest:
        with torch.no_grad(), torch_threads(1):
            return strengths_test(problem, problem.gather(task.tensor(graph)), task.tensor(theta))

    p_value, gain = tested(graph, theta)
    if draws is not None and p_value < _SIGNIFICANT:
        graphs = task.experiments.known.fill(draws.pooled(draws.graphs[:, -1:].astype(np.float64)))
        others = [tested(*system) for system in zip(graphs, draws.pooled(draws.theta[:, -1:]), strict=True)]
        of_draws = np.median(others, axis=0)
        return max(p_value, float(of_draws[0])), min(gain, float(of_draws[1]))
    return p_value, gain


def fit_findings(
    quality: Mapping[str, Any],
    furthest: LargestResidual | None,
    task: SamplingTask,
    noise_std: float,
    is_noise_given: bool,
) -> list[Finding]:
    """Problems of the data, the noise level or the filter, if there are any, by the numbers of `assess_fit`.

    Offsets and outliers make the best of filters look wrong, so that nothing is said of the filter where they are
    found.
    """
    data, residual = task.experiments, quality["residual_std"]
    power = data.output_power
    # Chains in single precision draw no noise level below a millionth of the outputs, and the residuals of exact data
    # tell about that and not about the filter.
    rounding = 1e-10
    is_exact = residual**2 <= rounding * power
    findings = []
    if not is_exact and quality.get("p_value_offsets", 1.0) < _SIGNIFICANT:
        findings.append(
            Finding.trouble(
                "the residuals of some nodes are not zero on average, so the outputs have offsets; fit with "
                "fit_intercept=True."
            )
        )
    if not is_exact and furthest is not None and furthest.n_outliers:
        findings.append(_outlier_finding(furthest, task))
    if findings:
        return findings
    if (misfit := quality.get("misfit", 1.0)) > 2:  # evidence that has to be discounted by more is worth a word
        reason, remedy = "the filter does not explain all of the outputs", "try a better filter."
        return [
            Finding.trouble(
                f"{reason}: at pairs known not to be edges, {misfit:.3g} times what noise would leave looks like "
                f"edges. Probabilities and intervals allow for it; {remedy}",
                f"{reason}: residuals look like edges at pairs known not to be edges; {remedy}",
            )
        ]
    gain = quality["strengths_gain"] if quality.get("p_value_strengths", 1.0) < _SIGNIFICANT else 0.0
    reason, remedy = "the edges seem to differ in strength", "fit with edge_weights='positive' or 'signed'."
    strengths = Finding.trouble(
        f"{reason}: with strengths of their own, they would explain {_percent(gain)} of what is now taken for noise. "
        f"Pairs that look certain may be wrong; {remedy}",
        f"{reason}; {remedy}",
    )
    # Where strengths explain more of the noise than this, they are the remedy; else another filter may be. With filters
    # that are wrong the share was at most a ninth, and at least a half where strengths differed by a half and the noise
    # was low.
    if gain > 0.25 and not is_exact:
        return [strengths]
    n_fitted = data.filter.n_parameters() - len(data.filter.fixed_values())
    if is_noise_given and _is_odd(residual / noise_std, data.n_measured, n_fitted):
        advice = (
            "check its unit, or leave it None to have it estimated."
            if residual < noise_std
            else "it is too small, or the filter is wrong, or the chains are too short."
        )
        return [
            Finding.trouble(f"noise_std={noise_std:.3g} is inconsistent with residuals of {residual:.3g}; {advice}")
        ]
    share, ridge = min(1.0, noise_std**2 / power) if power > 0 else 0.0, quality["ridge_error"]
    if share < rounding:
        return []
    # Outputs that are all zero leave ridge regression without any error to compare with.
    if noise_std > 1.05 * ridge > 0:
        return [
            Finding.trouble(
                f"the noise takes up {_percent(share)} of the outputs' mean square, {noise_std**2 / ridge**2:.3g} "
                f"times what ridge regression leaves; try another filter."
            )
        ]
    if quality["p_value_residuals"] < _SIGNIFICANT:
        return [Finding.trouble("the residuals depend on the inputs, so the filter is wrong; try another.")]
    return [strengths] if gain > 0 else []


def _outlier_finding(furthest: LargestResidual, task: SamplingTask) -> Finding:
    node, row = (
        str(name)[:20]
        for name in (task.experiments.node_names[furthest.node], task.experiments.row_names[furthest.row])
    )
    what = f"the output of node {node} in row {row} is {furthest.deviations:.0f} standard deviations off"
    # With strengths, outliers cannot be part of the model.
    remedy = "check it, or set it to nan." if task.has_strengths else "check it, or use noise_distribution='student-t'."
    others = furthest.n_outliers - 1
    more = f" ({others} more output{'' if others == 1 else 's'} may be wrong too)" if others else ""
    return Finding.trouble(f"{what}{more}; {remedy}", f"{what}; {remedy}")


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share > 0.1 else f"{100 * share:.2g}%"


def _is_odd(ratio: float, n_measured: int, n_fitted: int) -> bool:
    """Whether residuals over the noise level that was given are too small or too large for chance."""
    squares = n_measured * ratio**2
    if ratio < 0.7:  # parameters that were fitted take up as many residuals
        return n_measured > n_fitted and bool(stats.chi2.cdf(squares, n_measured - n_fitted) < _SIGNIFICANT)
    return bool(ratio > 1.4 and stats.chi2.sf(squares, n_measured) < _SIGNIFICANT)


# The chains: whether their average is reliable, and what to change if it is not.


def diagnose(draws: ChainDraws, known: KnownEdges, n_diverged: int, n_stuck: int) -> dict[str, Any]:
    """The diagnostics of chains that were kept."""
    parameters = np.moveaxis(draws.theta, -1, 0)
    edge_error = chain_standard_error(draws.edge_probability, draws.weight)
    return {
        "n_diverged": n_diverged,
        "n_stuck": n_stuck,
        "n_origins": len(np.unique(draws.origin)),
        "n_modes": len(np.unique(modes_of(draws.edge_probability, draws.log_likelihood.shape[1]))),
        "chain_weights": draws.weight,
        "n_changes_expected": expected_changes(draws.mean_of_chains(draws.edge_probability), edge_error),
        "monte_carlo_error_edges": np.where(known.mask, 0.0, known.fill(edge_error)),
        "monte_carlo_error_theta": chain_standard_error(draws.theta.mean(1), draws.weight),
        "r_hat_log_likelihood": rank_r_hat(draws.log_likelihood),
        "r_hat_theta": np.array([rank_r_hat(draw) for draw in parameters]),
        "effective_sample_size_log_likelihood": bulk_sample_size(draws.log_likelihood),
        "effective_sample_size_theta": np.array([bulk_sample_size(draw) for draw in parameters]),
        "sigma": draws.trace_sigma,
        "kernel": draws.trace_kernel,
        "log_likelihood": draws.trace_log_likelihood,
        "theta": draws.trace_theta,
    }


def mixing_findings(diagnostics: Mapping[str, Any], n_inferred: int, remedy: str) -> list[Finding]:
    """The numbers of `diagnose` in sentences, with advice on what to change.

    `n_inferred` of the unknown pairs were found to be edges; `remedy` is that of the kernel that made the draws.
    """
    n_diverged, n_stuck, n_origins = (int(diagnostics[name]) for name in ("n_diverged", "n_stuck", "n_origins"))
    n_kept = len(diagnostics["log_likelihood"])
    n_run = n_kept + n_diverged + n_stuck
    findings = []
    if n_diverged:
        # However large the step, pairs are clipped at every level; only the filter can give infinite numbers.
        what = "diverged and were dropped, as the filter gave outputs that are infinite or nan."
        findings.append(
            Finding.trouble(f"{n_diverged} of {n_run} chains {what}", f"some chains {what}", ConvergenceWarning)
        )
    # Neither more steps nor more chains help reliably in the next two cases, so neither is advised.
    doubt = "if another random_state gives another graph, do not trust probabilities near 0 and 1."
    advice = "compare with another random_state before you trust the graph."
    if 2 * n_stuck > n_run:
        what = "ended in graphs far less probable than another chain's and were dropped"
        text = f"{n_stuck} of {n_run} chains {what}. The others may be stuck too: {doubt}"
        findings.append(Finding.trouble(text, f"most chains {what}; {advice}", ConvergenceWarning))
    elif n_origins <= max(1, n_kept / 8) < n_kept:  # few of the starts were any good
        what = "fell far behind others in the first sweeps and were restarted from the better ones"
        text = (
            f"{n_kept - n_origins} of {n_kept} chains {what}, so they agree more than independent chains would. "
            f"{doubt[0].upper()}{doubt[1:]}"
        )
        findings.append(Finding.trouble(text, f"most chains {what}; {advice}", ConvergenceWarning))
    return [*findings, _agreement(float(diagnostics["n_changes_expected"]), n_inferred, n_run, remedy)]


def _agreement(n_changes: float, n_edges: int, n_chains: int, remedy: str) -> Finding:
    if math.isnan(n_changes):
        text = "One chain does not show how much another run would differ, nor which edges are uncertain."
        return Finding("caution", f"{text} Fit with a larger n_chains.")
    found = f"{n_edges} inferred edge{'' if n_edges == 1 else 's'}"
    if n_changes < 0.5:
        return Finding("good", f"The chains agree: another run would find the same {found}.")
    n_pairs = max(1, round(n_changes))
    pairs = f"{n_pairs} pair{'' if n_pairs == 1 else 's'}"
    run = f"another run, with another random_state, would decide {pairs} differently (this run has {found})."
    # R-hat is no ground for a warning: that of the log-likelihood of sixteen short chains may exceed 1.1 while their
    # average is good to a pair. What another run would change is what matters to the user, up to a tenth of the edges.
    tolerated = max(1.0, 0.1 * n_edges)
    if n_changes <= tolerated:
        return Finding("good", f"The chains nearly agree: {run}")
    # The error falls with the root of the number of chains, which are no remedy beyond 256.
    needed = min(BATCH * math.ceil(max(2.0, (n_changes / tolerated) ** 2) * n_chains / BATCH), 256)
    advice = remedy.replace("n_chains", f"n_chains from {n_chains} to {needed}", 1)
    return Finding.trouble(
        f"the chains do not agree well enough to decide every pair: {run} {advice[:1].upper()}{advice[1:]}; time grows "
        f"in proportion. If that does not help, the data do not determine these pairs.",
        f"the chains disagree, and another run may decide some pairs differently; {remedy}.",
        ConvergenceWarning,
    )


def trust_findings(prior_trust: float, is_sampled: bool) -> list[Finding]:
    """A warning if trust in the prior was sampled, and its posterior mean came out low."""
    # A prior that half of its log-odds would serve better is not what the user took it for.
    if not is_sampled or prior_trust >= 0.5:
        return []
    reason = "the prior does not fit this graph and was discounted"
    text = (
        f"{reason}: its estimated trust is {prior_trust:.2f}, where 1 is full trust and 0 is none. Use a prior that "
        f"was trained on graphs of this kind, or prior=None. With prior_trust=1.0 it is used in full."
    )
    return [Finding.trouble(text, f"{reason} (see prior_trust_); use another prior, or None.")]
