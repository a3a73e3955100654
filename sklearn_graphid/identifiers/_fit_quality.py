"""Does the fit explain the outputs? Its residuals, against the noise level, against ridge, and against the inputs.

Measured on 15 nodes with 30 edges, 40 % of the pairs hidden, 4 or 5 graphs for each of 5 to 80 experiments and two
noise levels: with the right filter the noise level never exceeded 0.92 of ridge's error, but for one run whose chains
were stuck, and the p-value of a dependence of residuals on inputs was never below 1e-4. With a wrong filter the first
was above 1.05 in all runs with little noise and 20 experiments or more, and in most with much noise and 40 or more; the
second was below 1e-6 in two thirds of the runs with ten experiments or more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import stats

from .._utils._findings import Finding, number
from .._utils._numbers import FloatArray
from ._result import Experiments

__all__ = ["assess_fit", "fit_findings", "is_significant", "residual_dependence", "ridge_error"]

# Residuals that are so much smaller or larger than the noise level that was given do not go with it ...
_NOISE_RANGE = (0.7, 1.4)
# ... if that would happen by chance with less than this probability.
_SIGNIFICANT = 1e-6
# An estimated noise level above so many times ridge's error hides something that is in the data.
_LARGEST_RATIO = 1.05
# Evidence that has to be discounted by more than this is worth a word.
_LARGEST_MISFIT = 2.0
_MISFIT = (
    "the filter does not explain all of the outputs: at pairs known not to be edges, {} times what noise would leave "
    "looks like edges. Probabilities and intervals allow for it; try a better filter."
)
# Residuals below this share of the outputs' mean square are rounding: chains in single precision draw no noise level
# below a millionth of the outputs, and the residuals of exact data tell about that and not about the filter.
_ROUNDING = 1e-10
# Ridge penalties that are tried, relative to the largest squared singular value of the inputs.
_PENALTIES = np.logspace(-10, 2, 25)


def ridge_error(inputs: FloatArray, outputs: FloatArray) -> float:
    """Root mean square error of ridge regression of the outputs on the inputs, for experiments that are left out.

    A graph filter that is linear in its input is a matrix, and ridge regression fits any matrix. It knows no graph, so
    it predicts an experiment that it has not seen no better than the noise allows, and worse where there are few
    experiments. An identified system whose noise is well above this error leaves out something that is in the data.

    Parameters
    ----------
    inputs, outputs : ndarray of shape (n_experiments, n_nodes)
        nan in `outputs` where nothing was measured.

    Returns
    -------
    float
        For the best of several penalties; nan with fewer than three experiments.
    """
    measured = ~np.isnan(outputs)
    squares, n_left_out = np.zeros(len(_PENALTIES)), 0
    # Nodes that were measured in the same experiments share one decomposition.
    patterns, members = np.unique(measured, axis=1, return_inverse=True)
    for pattern, rows in enumerate(patterns.T):
        columns = np.flatnonzero(members.ravel() == pattern)
        if rows.sum() < 3:
            continue
        squares += _left_out_squares(inputs[rows], outputs[np.ix_(rows, columns)])
        n_left_out += int(rows.sum()) * len(columns)
    return float(np.sqrt(squares.min() / n_left_out)) if n_left_out else float("nan")


def _left_out_squares(inputs: FloatArray, outputs: FloatArray) -> FloatArray:
    """Sum of squared errors of experiments that are left out one at a time, for each penalty, in closed form."""
    left, singular, _ = np.linalg.svd(inputs, full_matrices=False)
    projected = left.T @ outputs
    squares = []
    for penalty in _PENALTIES * max(float(singular[0]) ** 2, np.finfo(float).tiny):
        shrinkage = singular**2 / (singular**2 + penalty)
        leverage = (left**2 * shrinkage).sum(1)
        residuals = outputs - left @ (shrinkage[:, None] * projected)
        squares.append(float(((residuals / (1 - leverage)[:, None].clip(1e-12)) ** 2).sum()))
    return np.array(squares)


def residual_dependence(
    inputs: FloatArray, residuals: FloatArray, adjacency: FloatArray, noise: FloatArray | None = None
) -> float:
    """Probability that residuals which do not depend on the inputs look as if they did, by an F test.

    The residuals (nan where nothing was measured) are regressed on the inputs and on their products with powers of the
    adjacency matrix, the degrees and the Laplacian: what filters on this graph are made of. 1 where there are too few.
    An F test wants the same noise everywhere, so that both sides are divided by `noise` (nodes,) where it differs.
    """
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
    norms = np.linalg.norm(design, axis=0)
    design = design[:, norms > 0] / norms[norms > 0]
    fitted, _, rank, _ = np.linalg.lstsq(design, target, rcond=1e-10)
    left = float(((target - design @ fitted) ** 2).sum())
    free = len(target) - int(rank)
    if free < 1 or rank < 1 or left <= 0:
        return 1.0
    return float(stats.f.sf((float((target**2).sum()) - left) / rank / (left / free), rank, free))


def is_significant(p_value: float) -> bool:
    """Whether a p-value is too small for chance."""
    return p_value < _SIGNIFICANT


def assess_fit(
    inputs: FloatArray,
    outputs: FloatArray,
    residuals: FloatArray,
    adjacency: FloatArray,
    relative_noise: FloatArray | None = None,
) -> dict[str, float]:
    """Numbers on how well the outputs are explained, for `diagnostics_`.

    Where the noise differs from node to node, by `relative_noise` (nodes,), residuals count in units of it.
    """
    noise = np.ones(outputs.shape[1]) if relative_noise is None else relative_noise
    return {
        "residual_std": float(np.sqrt(np.nanmean((residuals / noise) ** 2))),
        "ridge_error": ridge_error(inputs, outputs),
        "p_value_residuals": residual_dependence(inputs, residuals, adjacency, noise),
    }


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
        return [Finding.trouble(_MISFIT.format(number(misfit)), UserWarning)]
    power, n = experiments.output_power, experiments.n_measured
    residual, ridge = diagnostics["residual_std"], diagnostics["ridge_error"]
    if was_given and _is_odd(residual / noise_std, n):
        wrong = f"noise_std={number(noise_std)} does not go with residuals of {number(residual)}"
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
        part = "all" if share == 1 else f"{share:.2g}"
        text = f"the noise takes up {part} of the outputs' mean square, {number(noise_std**2 / ridge**2)} times"
        return [Finding.trouble(f"{text} what ridge regression leaves; try another filter.", UserWarning)]
    if is_significant(diagnostics["p_value_residuals"]):
        return [
            Finding.trouble("the residuals depend on the inputs, so the filter is wrong; try another.", UserWarning)
        ]
    return []


def _is_odd(ratio: float, n_measured: int) -> bool:
    low, high = _NOISE_RANGE
    squares = n_measured * ratio**2
    if ratio < low:
        return bool(stats.chi2.cdf(squares, n_measured) < _SIGNIFICANT)
    return bool(ratio > high and stats.chi2.sf(squares, n_measured) < _SIGNIFICANT)
