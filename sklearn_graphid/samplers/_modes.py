"""Which chains are in modes of their own, and how much probability each mode holds.

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
from scipy.special import entr

from .._utils._numbers import FloatArray
from ._diagnostics import FEWEST_DRAWS

__all__ = ["modes_of", "weights_of_chains"]

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
