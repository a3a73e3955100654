"""Have the chains mixed? R-hat and effective sample size as of Vehtari et al. (Bayesian Analysis 16, 2021).

Which chains are in modes of their own, and how much probability each mode holds.

Chains start anywhere and rarely cross a valley, so how many of them are in a mode says where they started and little of
how probable it is. What a mode holds of the probability is its evidence, and the draws in it give an estimate,

    log Z = E[log posterior] + entropy,

of which the mean is known up to a constant that is the same in all modes, and the entropy, of pairs taken for
independent, from the probabilities that the mode's chains give them. theta's share in it is left out, as its spread is
much the same in all modes.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.sparse.csgraph import connected_components
from scipy.special import entr, ndtr, ndtri
from scipy.stats import rankdata

from .._utils._numbers import FloatArray

__all__ = [
    "FEWEST_DRAWS",
    "bulk_sample_size",
    "chain_standard_error",
    "expected_changes",
    "modes_of",
    "rank_r_hat",
    "stuck_chains",
    "weights_of_chains",
]

# Halves of chains of fewer draws have no variance.
FEWEST_DRAWS = 4
# A chain whose mode is less probable than the best chain's by this much, in logarithms and beside what its own
# spread explains, will not come back: the odds against it are more than twenty thousand to one.
_LARGEST_DEFICIT = 10.0


def _vanishes(variance: float, draws: FloatArray) -> bool:
    # The variance of a constant is zero but for rounding.
    return bool(variance <= (1e-12 * np.abs(draws).max()) ** 2)


def _halves(draws: FloatArray) -> FloatArray:
    """First and last halves of (chains, draws) as chains of their own; a middle draw is left out."""
    half = draws.shape[1] // 2
    return np.concatenate([draws[:, :half], draws[:, -half:]])


def _normal_scores(draws: FloatArray) -> FloatArray:
    """Every draw by its rank among all, as a quantile of the normal law (Blom's)."""
    ranks = rankdata(draws).reshape(draws.shape)
    scores: FloatArray = ndtri((ranks - 0.375) / (draws.size + 0.25))
    return scores


def _r_hat(chains: FloatArray) -> float:
    n_draws = chains.shape[1]
    within = chains.var(axis=1, ddof=1).mean()
    between = n_draws * chains.mean(axis=1).var(ddof=1)
    if _vanishes(within, chains):
        return 1.0 if _vanishes(between, chains) else float("inf")
    return float(np.sqrt((n_draws - 1) / n_draws + between / (n_draws * within)))


def rank_r_hat(draws: FloatArray) -> float:
    """Potential scale reduction of (chains, draws); near 1 where chains agree with one another and with themselves.

    It is the larger one of that of the ranks and of that of the distances from the median, so that neither heavy tails
    nor unequal scales hide.
    """
    if draws.shape[1] < FEWEST_DRAWS:
        return float("nan")
    halves = _halves(draws)
    distances = np.abs(halves - np.median(halves))
    return max(_r_hat(_normal_scores(halves)), _r_hat(_normal_scores(distances)))


def bulk_sample_size(draws: FloatArray) -> float:
    """How many independent draws the (chains, draws) are worth, by Geyer's monotone sequence.

    Ranks are counted, which a heavy tail does not upset.
    """
    return _sample_size(_normal_scores(_halves(draws))) if draws.shape[1] >= FEWEST_DRAWS else float("nan")


def _sample_size(chains: FloatArray) -> float:
    n_chains, n_draws = chains.shape
    covariance = _autocovariance(chains)
    within = covariance[0] * n_draws / (n_draws - 1)
    pooled = covariance[0] + chains.mean(axis=1).var(ddof=1)
    if _vanishes(pooled, chains):
        return float(chains.size)
    if _vanishes(within, chains):
        return float(n_chains / 2)  # no chain moves, so both halves of a chain are one draw together
    correlation = 1 - (within - covariance) / pooled
    correlation[0] = 1.0
    n_pairs = max(1, (n_draws - 1) // 2)
    sums = correlation[: 2 * n_pairs].reshape(n_pairs, 2).sum(axis=1)
    last = int(np.argmax(sums <= 0)) if (sums <= 0).any() else n_pairs - 1
    # Geyer: pairs of correlations are positive and fall. Of the pair where that ends, the first one still counts.
    time = -1 + 2 * np.minimum.accumulate(sums[:last]).sum() + max(correlation[2 * last], 0.0)
    # Antithetic chains can be worth more than their number; beyond a factor log10(n) it is noise.
    return float(chains.size / max(time, 1 / np.log10(chains.size)))


def _autocovariance(chains: FloatArray) -> FloatArray:
    """Mean autocovariance of the chains at every lag."""
    n_draws = chains.shape[1]
    size = 2 ** int(np.ceil(np.log2(2 * n_draws)))  # long enough that the ends do not meet
    spectrum = np.abs(np.fft.rfft(chains - chains.mean(axis=1, keepdims=True), n=size, axis=1)) ** 2
    covariance: FloatArray = np.fft.irfft(spectrum, n=size, axis=1)[:, :n_draws].mean(axis=0) / n_draws
    return covariance


def chain_standard_error(chain_means: FloatArray, weights: FloatArray | None = None) -> FloatArray:
    """Standard error of the mean over (chains, ...), of which every chain gives one number.

    `weights` (chains,), whose sum is one, are those of a weighted mean; None: all chains count alike.

    Chains are independent of one another, so this holds however slowly each of them moves, where R-hat, which asks
    whether each chain has seen everything, is large for many short chains whose average is good. nan for one chain.
    """
    n_chains = len(chain_means)
    if n_chains < 2:
        return np.full(chain_means.shape[1:], np.nan)
    weights = np.full(n_chains, 1 / n_chains) if weights is None else weights
    deviations = chain_means - np.tensordot(weights, chain_means, 1)
    error: FloatArray = np.sqrt(np.tensordot(weights**2, deviations**2, 1) * n_chains / (n_chains - 1))
    return error


def expected_changes(probability: FloatArray, standard_error: FloatArray) -> float:
    """How many pairs another run is expected to put on the other side of one half.

    Both runs err, independently and by the same standard error.
    """
    moves = standard_error > 0
    distance = np.abs(probability - 0.5)[moves] / (np.sqrt(2) * standard_error[moves])
    return float(ndtr(-distance).sum()) if not np.isnan(standard_error).any() else float("nan")


def stuck_chains(log_posterior: FloatArray) -> npt.NDArray[np.bool_]:
    """Which of the (chains, draws) sit in a mode far less probable than another chain's.

    Chains cannot weigh modes against one another, as they never travel between them; but where one chain's log
    posterior stays far below another's, its mode holds next to none of the probability.
    """
    if log_posterior.shape[1] < FEWEST_DRAWS:
        return np.zeros(len(log_posterior), dtype=bool)
    mean = log_posterior.mean(axis=1)
    spread = float(np.median(log_posterior.std(axis=1, ddof=1)))
    return np.asarray(mean < mean.max() - _LARGEST_DEFICIT - 3 * spread)


# Two chains contradict one another about a pair that is an edge to the one and none to the other, with this certainty.
_CERTAIN = 0.99
# Differences in evidence count as far as they exceed so many standard errors: less is noise, and would only give some
# chains of equal worth more weight than others.
_STANDARD_ERRORS = 2.0
# Standard deviation of what the estimate leaves out, in logarithms.
_SYSTEMATIC_ERROR = 0.5


def modes_of(edge_probability: FloatArray, n_draws: int) -> npt.NDArray[np.int64]:
    """The mode (chains,) of each chain, by number.

    Parameters
    ----------
    edge_probability : ndarray (chains, pairs)
        What each chain makes of every pair, averaged over its draws.
    n_draws : int
        How many draws that is. So few that any chain would seem certain are not told apart.

    Returns
    -------
    ndarray (chains,)
        Chains that contradict one another about no pair are in one mode, and so are those that a third one connects.
    """
    if n_draws < FEWEST_DRAWS:
        return np.zeros(len(edge_probability), dtype=np.int64)
    has_edge = (edge_probability > _CERTAIN).astype(np.float32)
    has_none = (edge_probability < 1 - _CERTAIN).astype(np.float32)
    contradictions = has_edge @ has_none.T
    agree = (contradictions + contradictions.T) == 0
    return np.asarray(connected_components(agree, directed=False)[1], dtype=np.int64)


def weights_of_chains(log_posterior: FloatArray, edge_probability: FloatArray) -> FloatArray:
    """How much each chain counts (chains,); one is the sum of all.

    Chains of a mode count alike. Modes count by their evidence where it is well known, and by the number of their
    chains where it is not.

    Parameters
    ----------
    log_posterior : ndarray (chains, draws)
        Of every draw, up to a constant.
    edge_probability : ndarray (chains, pairs)
        What each chain makes of every pair, averaged over its draws.
    """
    n_chains, n_draws = log_posterior.shape
    mode = modes_of(edge_probability, n_draws)
    sizes = np.bincount(mode)
    if len(sizes) == 1:
        return np.full(n_chains, 1 / n_chains)
    probability = _mean_in_modes(edge_probability, mode)
    entropy = (entr(probability) + entr(1 - probability)).sum(1)
    log_evidence = _mean_in_modes(log_posterior.mean(1)[:, None], mode)[:, 0] + entropy
    # Draws of a chain depend on one another, so that a chain is taken to be worth one draw.
    variance = np.median(log_posterior.var(axis=1, ddof=1)) / sizes
    best = int(log_evidence.argmax())
    error = np.sqrt(variance + variance[best])
    deficit = np.maximum(0, log_evidence[best] - log_evidence - _STANDARD_ERRORS * error)
    # Where the evidence is known to less than a factor of e, the number of chains is the better guide.
    uncertainty = error**2 + _SYSTEMATIC_ERROR**2
    log_weight = uncertainty / (1 + uncertainty) * np.log(sizes / sizes[best]) - deficit
    weight = np.exp(log_weight - log_weight.max())
    of_chains: FloatArray = (weight / weight.sum() / sizes)[mode]
    return of_chains


def _mean_in_modes(values: FloatArray, mode: npt.NDArray[np.int64]) -> FloatArray:
    """Means (modes, ...) of values (chains, ...)."""
    sums = np.zeros((mode.max() + 1, *values.shape[1:]))
    np.add.at(sums, mode, values)
    means: FloatArray = sums / np.bincount(mode)[:, None]
    return means
