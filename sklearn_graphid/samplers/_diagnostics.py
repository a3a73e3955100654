"""Have the chains mixed? Rank-free split R-hat and effective sample size (Gelman et al., Bayesian Data Analysis)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .._validation import FloatArray

__all__ = ["effective_sample_size", "split_r_hat", "stuck_chains"]

# A chain whose log posterior lies this far below the best chain's, beside what its own wandering explains, will not
# come back: the odds against its mode are more than twenty thousand to one.
_HOPELESS = 10.0


def _vanishes(variance: float, draws: FloatArray) -> bool:
    # The variance of a constant is zero but for rounding.
    return bool(variance <= (1e-12 * np.abs(draws).max()) ** 2)


def split_r_hat(draws: FloatArray) -> float:
    """Potential scale reduction of (chains, draws); near 1 where chains agree with one another and with themselves."""
    half = draws.shape[1] // 2
    if half < 2:
        return float("nan")
    parts = np.concatenate([draws[:, :half], draws[:, -half:]])
    within = parts.var(axis=1, ddof=1).mean()
    between = half * parts.mean(axis=1).var(ddof=1)
    if _vanishes(within, parts):
        return 1.0 if _vanishes(between, parts) else float("inf")
    return float(np.sqrt((half - 1) / half + between / (half * within)))


def effective_sample_size(draws: FloatArray) -> float:
    """How many independent draws the (chains, draws) are worth, by Geyer's initial monotone sequence."""
    n_chains, n_draws = draws.shape
    if n_draws < 4:
        return float("nan")
    centred = draws - draws.mean(axis=1, keepdims=True)
    size = 2 ** int(np.ceil(np.log2(2 * n_draws)))
    spectrum = np.abs(np.fft.rfft(centred, n=size, axis=1)) ** 2
    covariance = np.fft.irfft(spectrum, n=size, axis=1)[:, :n_draws] / n_draws
    within = covariance[:, 0].mean() * n_draws / (n_draws - 1)
    between = draws.mean(axis=1).var(ddof=1) if n_chains > 1 else 0.0
    pooled = within * (n_draws - 1) / n_draws + between
    if _vanishes(pooled, draws):
        return float(n_chains * n_draws)
    correlation = 1 - (within - covariance.mean(axis=0)) / pooled
    correlation[0] = 1.0
    n_pairs = n_draws // 2
    sums = correlation[: 2 * n_pairs].reshape(n_pairs, 2).sum(axis=1)
    positive = n_pairs if (sums > 0).all() else int(np.argmax(sums <= 0))
    time = -1 + 2 * np.minimum.accumulate(sums[:positive]).sum() if positive else 1.0
    # Antithetic chains can be worth more than their number; beyond a factor log10(n) it is noise.
    return float(n_chains * n_draws / max(time, 1 / np.log10(max(n_chains * n_draws, 10))))


def stuck_chains(log_posterior: FloatArray) -> npt.NDArray[np.bool_]:
    """Which of the (chains, draws) sit in a mode that the others show to be hopeless.

    Chains cannot weigh modes against one another, as they never travel between them; but where one chain's log
    posterior stays far below another's, its mode holds next to none of the probability.
    """
    if log_posterior.shape[1] < 4:
        return np.zeros(len(log_posterior), dtype=bool)
    mean = log_posterior.mean(axis=1)
    wandering = float(np.median(log_posterior.std(axis=1, ddof=1)))
    return np.asarray(mean < mean.max() - _HOPELESS - 3 * wandering)
