"""Does the fit explain the outputs? Its residuals, against the noise level, against ridge, and against the inputs.

Measured on 15 nodes with 30 edges, 40 % of the pairs hidden, 4 or 5 graphs for each of 5 to 80 experiments and two
noise levels: with the right filter the noise level never exceeded 0.92 of ridge's error, but for one run whose chains
were stuck, and the p-value of a dependence of residuals on inputs was never below 1e-4. With a wrong filter the first
was above 1.05 in all runs with little noise and 20 experiments or more, and in most with much noise and 40 or more; the
second was below 1e-6 in two thirds of the runs with ten experiments or more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from .._utils._findings import Finding, number
from .._utils._numbers import FloatArray
from ._base import Experiments

__all__ = [
    "LargestResidual",
    "assess_fit",
    "data_findings",
    "fit_findings",
    "is_significant",
    "largest_residual",
    "offset_p_value",
    "residual_dependence",
    "ridge_error",
    "rows_without_copies",
]

# Residuals that are so much smaller or larger than the noise level that was given are inconsistent with it ...
_NOISE_RANGE = (0.7, 1.4)
# ... if that would happen by chance with less than this probability.
_SIGNIFICANT = 1e-6
# An estimated noise level above so many times ridge's error hides something that is in the data.
_LARGEST_RATIO = 1.05
# Where strengths of their own would explain more than this share of the noise, they are the remedy; else another filter
# may be. With filters that are wrong the share was at most a ninth, and at least a half where strengths differed by a
# half and the noise was low.
_LARGE_GAIN = 0.25
# Evidence that has to be discounted by more than this is worth a word.
_LARGEST_MISFIT = 2.0
_MISFIT_WARNING = (
    "the filter does not explain all of the outputs: residuals look like edges at pairs known not to be edges; try a "
    "better filter."
)
_MISFIT = (
    "the filter does not explain all of the outputs: at pairs known not to be edges, {} times what noise would leave "
    "looks like edges. Probabilities and intervals allow for it; try a better filter."
)
_STRENGTHS_WARNING = "the edges seem to differ in strength; fit with edge_weights='positive' or 'signed'."
_STRENGTHS = (
    "the edges seem to differ in strength: with strengths of their own, they would explain {} of what is now taken for "
    "noise. Pairs that look certain may be wrong; fit with edge_weights='positive' or 'signed'."
)
# A residual of so many deviations is an outlier: in 160 correct systems the largest one was below 5, and it was above 6
# in one of 130 more, where nearly all chains were stuck. With outliers that ruined the fit it was 8 and more ...
_FEWEST_DEVIATIONS = 6.0
# ... if the largest one would be as large by chance with less than this probability.
_SURPRISING = 1e-4
# Half of the residuals are smaller than this share of their standard deviation.
_MEDIAN = float(stats.norm.ppf(0.75))
# The median of absolute residuals tells their standard deviation as well as so many times fewer squares do.
_EFFICIENCY = 0.37
# A median of fewer numbers is not safe from an outlier among them.
_FEWEST_FOR_MEDIAN = 3
_LONGEST_NAME = 20  # letters of a node's or row's name in a warning
# Residuals below this share of the outputs' mean square are rounding: chains in single precision draw no noise level
# below a millionth of the outputs, and the residuals of exact data tell about that and not about the filter.
_ROUNDING = 1e-10
# Ridge penalties that are tried, relative to the largest squared singular value of the inputs.
_PENALTIES = np.logspace(-10, 2, 25)


def ridge_error(inputs: FloatArray, outputs: FloatArray, has_offsets: bool = False) -> float:
    """Root mean square error of ridge regression of the outputs on the inputs, for experiments that are left out.

    A graph filter that is linear in its input is a matrix, and ridge regression fits any matrix. It knows no graph, so
    it predicts an experiment that it has not seen no better than the noise allows, and worse where there are few
    experiments. An identified system whose noise is well above this error leaves out something that is in the data.
    Experiments with the same inputs are left out together: a copy would tell what its original is.

    Parameters
    ----------
    inputs, outputs : ndarray of shape (n_experiments, n_nodes)
        nan in `outputs` where nothing was measured.
    has_offsets : bool
        Whether outputs have offsets, which are fitted as well.

    Returns
    -------
    float
        For the best of several penalties; nan with fewer than three different experiments.
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
    design, target = _regression(inputs, residuals, adjacency, noise)
    given = _offset_columns(residuals, noise) if has_offsets else np.empty((len(target), 0))
    return _f_test(given, design, target)


def offset_p_value(
    inputs: FloatArray, residuals: FloatArray, adjacency: FloatArray, noise: FloatArray | None = None
) -> float:
    """Probability that residuals of mean zero look as if nodes had offsets, by an F test.

    What the residuals owe to the inputs is accounted for first, as in `residual_dependence`: with inputs that are not
    zero on average, a wrong filter leaves residuals that are not zero on average either.
    """
    design, target = _regression(inputs, residuals, adjacency, noise)
    return _f_test(design, _offset_columns(residuals, noise), target)


def _offset_columns(residuals: FloatArray, noise: FloatArray | None) -> FloatArray:
    """An offset of one at each node, as it appears in the measured outputs (measured outputs, nodes)."""
    scale = np.ones(residuals.shape[1]) if noise is None else 1 / noise
    nodes = np.nonzero(~np.isnan(residuals))[1]
    return np.where(nodes[:, None] == np.arange(residuals.shape[1]), scale, 0.0)


def _regression(
    inputs: FloatArray, residuals: FloatArray, adjacency: FloatArray, noise: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """What filters are made of (measured outputs, columns), and the residuals (measured outputs,) to explain by it."""
    scale = 1.0 if noise is None else 1 / noise
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
    target = (residuals * scale)[measured]
    return design, target


def _f_test(given: FloatArray, tested: FloatArray, target: FloatArray) -> float:
    """P-value of an F test that the columns `tested` explain nothing beyond those given; 1 where there are too few."""
    (before, n_given), (left, n_columns) = (
        _unexplained(given, target),
        _unexplained(np.hstack([given, tested]), target),
    )
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
    n_outliers: int  # how many residuals are as surprising

    @property
    def is_outlier(self) -> bool:
        """Whether it is too large for Gaussian noise."""
        return self.n_outliers > 0


def largest_residual(residuals: FloatArray, noise: FloatArray | None = None) -> LargestResidual:
    """Test the largest of the residuals (experiments, nodes), nan where nothing was measured, against Gaussian noise.

    An outlier raises the noise level and may change the whole graph. So residuals are compared with the median of their
    absolute values, which a few outliers hardly change: that of all nodes, or that of their own node if it is larger,
    so that a node with much noise is not taken for an outlier. P-values are corrected for the number of outputs
    (Bonferroni). `noise` (nodes,) is relative to the common level, where it differs.
    """
    sizes = np.abs(residuals if noise is None else residuals / noise)
    is_measured = ~np.isnan(sizes)
    n_measured, n_rows = int(is_measured.sum()), is_measured.sum(0)
    typical = np.full(sizes.shape[1], np.nanmedian(sizes))
    has_own = n_rows >= _FEWEST_FOR_MEDIAN
    typical[has_own] = np.maximum(typical[has_own], np.nanmedian(sizes[:, has_own], axis=0))
    with np.errstate(divide="ignore", invalid="ignore"):
        deviations = np.where(is_measured & (typical > 0), _MEDIAN * sizes / typical, 0.0)
    p_values = np.minimum(1.0, 2 * n_measured * stats.t.sf(deviations, _EFFICIENCY * n_measured))
    row, node = np.unravel_index(int(deviations.argmax()), deviations.shape)
    n_outliers = int(((p_values < _SURPRISING) & (deviations > _FEWEST_DEVIATIONS)).sum())
    return LargestResidual(int(row), int(node), float(deviations[row, node]), float(p_values[row, node]), n_outliers)


def rows_without_copies(inputs: FloatArray, outputs: FloatArray) -> npt.NDArray[np.intp]:
    """The first of all experiments that are equal in inputs and outputs, in their order.

    A copy of an experiment repeats its noise, which F tests would take for a pattern.
    """
    both = np.hstack([inputs, np.nan_to_num(outputs), np.isnan(outputs)])
    return np.sort(np.unique(both, axis=0, return_index=True)[1])


def is_significant(p_value: float) -> bool:
    """Whether a p-value is too small for chance."""
    return p_value < _SIGNIFICANT


def assess_fit(
    inputs: FloatArray,
    outputs: FloatArray,
    residuals: FloatArray,
    adjacency: FloatArray,
    relative_noise: FloatArray | None = None,
    has_offsets: bool = False,
) -> dict[str, float]:
    """Numbers on how well the outputs are explained, for `diagnostics_`.

    Where the noise differs from node to node, by `relative_noise` (nodes,), residuals count in units of it. Whether the
    nodes have offsets says what ridge regression and chance may explain.
    """
    noise = np.ones(outputs.shape[1]) if relative_noise is None else relative_noise
    once = rows_without_copies(inputs, outputs)
    return {
        "residual_std": float(np.sqrt(np.nanmean((residuals / noise) ** 2))),
        "ridge_error": ridge_error(inputs, outputs, has_offsets),
        "p_value_residuals": residual_dependence(inputs[once], residuals[once], adjacency, noise, has_offsets),
    }


def data_findings(
    diagnostics: Mapping[str, Any], furthest: LargestResidual | None, experiments: Experiments, has_strengths: bool
) -> list[Finding]:
    """What is in the outputs beside the system and Gaussian noise: offsets and outliers.

    Either makes the best of filters look wrong, so that nothing is said of the filter where they are found.

    Parameters
    ----------
    diagnostics : dict
        With the p-value of offsets, where they are not part of the model.
    furthest : LargestResidual or None
        None where outliers are part of the model.
    experiments : Experiments
        The data, which name rows and nodes.
    has_strengths : bool
        Whether edges have strengths, with which outliers cannot be part of the model.
    """
    findings: list[Finding] = []
    if diagnostics["residual_std"] ** 2 <= _ROUNDING * experiments.output_power:
        return findings
    if is_significant(diagnostics.get("p_value_offsets", 1.0)):
        text = "the residuals of some nodes are not zero on average, so the outputs have offsets; fit with"
        findings.append(Finding.trouble(f"{text} fit_intercept=True.", UserWarning))
    if furthest is not None and furthest.is_outlier:
        findings.append(_outlier(furthest, experiments, has_strengths))
    return findings


def _outlier(furthest: LargestResidual, experiments: Experiments, has_strengths: bool) -> Finding:
    node = str(experiments.name_of_node(furthest.node))[:_LONGEST_NAME]
    row = str(experiments.name_of_row(furthest.row))[:_LONGEST_NAME]
    what = f"the output of node {node} in row {row} is {furthest.deviations:.0f} standard deviations off"
    remedy = "check it, or set it to nan." if has_strengths else "check it, or use noise_distribution='student-t'."
    others = furthest.n_outliers - 1
    more = f" ({others} more output{'' if others == 1 else 's'} may be wrong too)" if others else ""
    return Finding.trouble(f"{what}{more}; {remedy}", UserWarning, f"{what}; {remedy}")


def fit_findings(
    diagnostics: Mapping[str, Any], noise_std: float, was_given: bool, experiments: Experiments
) -> list[Finding]:
    """What is wrong with the noise level or the filter, if anything is.

    Parameters
    ----------
    diagnostics : dict
        With the numbers of `assess_fit`.
    noise_std, was_given : float and bool
        The noise level, and whether the user gave it.
    experiments : Experiments
        The data.
    """
    if (misfit := diagnostics.get("misfit", 1.0)) > _LARGEST_MISFIT:
        return [Finding.trouble(_MISFIT.format(number(misfit)), UserWarning, _MISFIT_WARNING)]
    gain = diagnostics["strengths_gain"] if is_significant(diagnostics.get("p_value_strengths", 1.0)) else 0.0
    has_rounding_only = diagnostics["residual_std"] ** 2 <= _ROUNDING * experiments.output_power
    strengths = Finding.trouble(_STRENGTHS.format(_percent(gain)), UserWarning, _STRENGTHS_WARNING)
    if gain > _LARGE_GAIN and not has_rounding_only:
        return [strengths]
    power, n = experiments.output_power, experiments.n_measured
    residual, ridge = diagnostics["residual_std"], diagnostics["ridge_error"]
    n_fitted = experiments.filter.n_parameters() - len(experiments.filter.fixed_values())
    if was_given and _is_odd(residual / noise_std, n, n_fitted):
        wrong = f"noise_std={number(noise_std)} is inconsistent with residuals of {number(residual)}"
        too_large = "check its unit, or leave it None to have it estimated."
        advice = (
            too_large
            if residual < noise_std
            else "it is too small, or the filter is wrong, or the chains are too short."
        )
        return [Finding.trouble(f"{wrong}; {advice}", UserWarning)]
    share = min(1.0, noise_std**2 / power) if power > 0 else 0.0
    if share < _ROUNDING:
        return []
    # Outputs that are all zero leave ridge regression without any error to compare with.
    if noise_std > _LARGEST_RATIO * ridge > 0:
        text = (
            f"the noise takes up {_percent(share)} of the outputs' mean square, {number(noise_std**2 / ridge**2)} times"
        )
        return [Finding.trouble(f"{text} what ridge regression leaves; try another filter.", UserWarning)]
    if is_significant(diagnostics["p_value_residuals"]):
        return [
            Finding.trouble("the residuals depend on the inputs, so the filter is wrong; try another.", UserWarning)
        ]
    return [strengths] if gain > 0 else []


def _percent(share: float) -> str:
    return f"{100 * share:.0f}%" if share > 0.1 else f"{100 * share:.2g}%"


def _is_odd(ratio: float, n_measured: int, n_fitted: int) -> bool:
    """Whether residuals over the noise level that was given are too small or too large for chance."""
    low, high = _NOISE_RANGE
    squares = n_measured * ratio**2
    if ratio < low:  # parameters that were fitted take up as many residuals
        return n_measured > n_fitted and bool(stats.chi2.cdf(squares, n_measured - n_fitted) < _SIGNIFICANT)
    return bool(ratio > high and stats.chi2.sf(squares, n_measured) < _SIGNIFICANT)
