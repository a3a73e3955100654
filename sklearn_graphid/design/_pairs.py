"""Which pairs to check by hand: how much knowing one would settle about the others, from draws of the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray

__all__ = ["entropy_of", "pair_information"]

# Pairs that are compared with one another, those of most entropy; the others count by their own entropy alone.
_MOST_PAIRS = 1_000
# How many ways of matching chains with others tell what independent pairs would seem to have in common.
_MOST_SHIFTS = 8


def pair_information(graphs: npt.NDArray[Any], weight: FloatArray) -> FloatArray:
    """What every pair has in common with the others: its mutual information with each of them, summed, (pairs,).

    Parameters
    ----------
    graphs : ndarray (chains, draws, pairs)
        Zeros and ones.
    weight : ndarray (chains,)
        How much each chain counts; they add up to one.

    Notes
    -----
    Of finitely many draws, independent pairs seem to have something in common. How much is told by the same draws with
    the chains of one pair matched with other chains of the other: what is left in common is chance, with the
    autocorrelation that draws of a chain have. This is taken off, pair by pair, so that the sum over many pairs that
    have nothing in common is zero on average. Of a single chain, it is the 1 / (2 n) of Miller and Madow.
    """
    n_chains, n_draws, n_pairs = graphs.shape
    share = np.repeat(weight / n_draws, n_draws)
    flat = graphs.reshape(n_chains * n_draws, n_pairs).astype(np.float64)
    entropy = entropy_of(share @ flat)
    about_others = np.zeros(n_pairs)
    compared = np.flatnonzero(entropy > 0)
    compared = compared[np.argsort(-entropy[compared], kind="stable")][:_MOST_PAIRS]
    if len(compared) > 1:
        flat = flat[:, compared]
        common = _mutual_information(flat, flat, share)
        common -= _common_by_chance(flat.reshape(n_chains, n_draws, -1), share)
        np.fill_diagonal(common, 0.0)
        about_others[compared] = np.maximum(common.sum(1), 0.0)
    return about_others


def _common_by_chance(graphs: FloatArray, share: FloatArray) -> FloatArray:
    n_chains, n_draws, n_pairs = graphs.shape
    if n_chains == 1:
        return np.full((n_pairs, n_pairs), 1 / (2 * n_draws))
    flat = graphs.reshape(-1, n_pairs)
    shifts = np.unique(np.linspace(1, n_chains - 1, min(_MOST_SHIFTS, n_chains - 1)).round().astype(int))
    by_chance = [
        _mutual_information(flat, np.roll(graphs, shift, axis=0).reshape(-1, n_pairs), share) for shift in shifts
    ]
    mean = np.mean(by_chance, axis=0)
    return np.asarray((mean + mean.T) / 2)


def entropy_of(probability: FloatArray) -> FloatArray:
    """Entropy of pairs that are edges with these probabilities, in nats."""
    return -_times_log(probability) - _times_log(1 - probability)


def _mutual_information(first: FloatArray, second: FloatArray, share: FloatArray) -> FloatArray:
    """Between every column of one and every column of another (draws, pairs), draws counting as `share` says."""
    both = (first * share[:, None]).T @ second
    one, other = (share @ first)[:, None], (share @ second)[None]
    cells = both, one - both, other - both, 1 - one - other + both
    joint = -sum(_times_log(cell) for cell in cells)
    return np.asarray(entropy_of(one) + entropy_of(other) - joint)


def _times_log(probability: FloatArray) -> FloatArray:
    # Differences of sums that should be zero are zero but for rounding.
    is_positive = probability > 1e-12
    return np.where(is_positive, probability * np.log(np.where(is_positive, probability, 1.0)), 0.0)
