"""Flips of pairs, one after the other and chain by chain, compiled: for filters that have tables.

`_flips` describes the moves, and does them for filters that have none.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from .._utils._numbers import FloatArray
from ..filters._tables import COMPILED, after, make, workspace

__all__ = [
    "LARGEST_LOGARITHM",
    "LARGEST_RATIO",
    "Chains",
    "SlabNumbers",
    "evidence_of_all",
    "flip_strengths",
    "flip_units",
]

# Added to every coefficient as a share of its own curvature, as coefficients may be hard to tell apart.
RELATIVE_RIDGE = 1e-12
_TINY = float(np.finfo(np.float64).tiny ** 0.5)
LARGEST_LOGARITHM = 60.0  # of a strength
LARGEST_RATIO = 14.0  # of a strength that is tried to a usual one, in logarithms: a factor of a million
_N_NEWTON_STEPS = 4  # to the mode of one strength given all others; a proposal needs no more
# Strengths nearer to each other or to zero than this share of a usual one make no parabola.
_APART = 1e-6
_SHRINKAGE = 0.65  # of the scale of a logistic proposal to the standard deviation of a strength


class Chains(NamedTuple):
    """Likelihood of the chains' graphs."""

    squares: FloatArray  # (chains,) moments, see `Moments`
    cross: FloatArray  # (chains, coefficients)
    gram: FloatArray  # (chains, coefficients, coefficients)
    held: FloatArray  # (chains, coefficients) values of those that are held,
    is_held: FloatArray  # (coefficients,) which are 1 here
    noise_std: FloatArray  # (chains,)
    precision: FloatArray  # (chains,) of the coefficients' prior, in units of the noise variance
    n_measured: int
    temperature: float


class SlabNumbers(NamedTuple):
    """The law of strengths, and how they are redrawn."""

    has_signs: bool
    location: FloatArray  # (chains,)
    width: FloatArray  # (chains,)
    most_edges: int  # of a chain, beyond which none is added


@njit(**COMPILED)
def log_marginal(chains, chain, squares, cross, gram, factor):
    """Log-likelihood with the coefficients that are free integrated out, by elimination; `factor` (3, 3) is scratch."""
    held, is_held, noise_std = chains.held[chain], chains.is_held, chains.noise_std[chain]
    p, n_free, explained, log_volume = cross.shape[0], 0, 0.0, 0.0
    pivots, slopes, products = factor[0], factor[1], factor[2]
    for row in range(p):
        if is_held[row]:
            squares -= 2 * held[row] * cross[row]
            for column in range(p):
                squares += held[row] * gram[row, column] * held[column] * is_held[column]
            continue
        slope = cross[row]
        for column in range(p):
            slope -= gram[row, column] * held[column] * is_held[column]
        pivot = gram[row, row] * (1 + RELATIVE_RIDGE) + chains.precision[chain] + _TINY
        for column in range(row):
            if is_held[column]:
                continue
            product = gram[row, column]
            for before in range(column):
                if not is_held[before]:
                    product -= products[before] * factor[3 + column, before]
            products[column] = product
        for column in range(row):
            if not is_held[column]:
                factor[3 + row, column] = products[column] / pivots[column]
                pivot -= factor[3 + row, column] * products[column]
                slope -= factor[3 + row, column] * slopes[column]
        pivots[row], slopes[row] = pivot, slope
        explained += slope * slope / pivot
        log_volume += math.log(pivot)
        n_free += 1
    normaliser = (chains.n_measured - n_free) * math.log(noise_std)
    return chains.temperature * (-0.5 * (squares - explained) / noise_std**2 - 0.5 * log_volume - normaliser)


@njit(inline="always", **COMPILED)
def _is_finite(value):
    # Not math.isfinite, which is x - x == x - x, true of anything where sums may be taken in any order.
    return abs(value) < 1e300


@njit(**COMPILED)
def flip_units(tables, chains, adjacency, rows, columns, prior, pairs, n_visits, thresholds, gains):
    """Draw pairs of binary graphs from their odds, in place.

    `gains` (chains, pairs) becomes what a flip of each pair, as it stands, would add to the log-likelihood.
    """
    work, factor = workspace(tables), np.empty((6, 3))
    new_cross, new_gram = np.empty(chains.cross.shape[1:]), np.empty(chains.gram.shape[1:])
    for chain in range(len(adjacency)):
        cross, gram = chains.cross[chain], chains.gram[chain]
        now = log_marginal(chains, chain, chains.squares[chain], cross, gram, factor)
        for place in range(n_visits[chain]):
            pair = pairs[chain, place]
            i, j = rows[pair], columns[pair]
            amount = 1 - 2 * adjacency[chain, i, j]
            squares = after(tables, chain, i, j, amount, work, chains.squares[chain], cross, gram, new_cross, new_gram)
            flipped = log_marginal(chains, chain, squares, new_cross, new_gram, factor)
            gain = flipped - now
            if not _is_finite(gain):  # where the flipped graph has no finite likelihood, the pair stays
                gain = math.inf if gain > 0 and _is_finite(flipped) else -math.inf
            if thresholds[chain, place] < (gain + amount * prior[chain, pair]) / chains.temperature:
                make(tables, chain, i, j, amount, work)
                chains.squares[chain], now, gain = squares, flipped, -gain
                cross[:], gram[:] = new_cross, new_gram
                adjacency[chain, i, j] += amount
                if not tables.directed:
                    adjacency[chain, j, i] += amount
            gains[chain, pair] = gain


# One strength, given all others.


@njit(inline="always", **COMPILED)
def _strength(z, has_signs):
    return z if has_signs else math.exp(min(max(z, -LARGEST_LOGARITHM), LARGEST_LOGARITHM))


@njit(inline="always", **COMPILED)
def _number(strength, has_signs):
    return strength if has_signs else math.log(max(strength, 1e-26))


@njit(inline="always", **COMPILED)
def _within_reason(z, location, has_signs):
    return z if has_signs else min(max(z, location - LARGEST_RATIO), location + LARGEST_RATIO)


@njit(**COMPILED)
def _log_density(z, slope, curvature, location, precision):
    strength = _strength(z, False)
    return slope * strength - 0.5 * curvature * strength**2 - 0.5 * precision * (z - location) ** 2


@njit(**COMPILED)
def precision_of_strength(z, curvature, location, width, has_signs):
    """Minus the second derivative by z of the logarithm of what `evidence_of_strength` takes the mean of."""
    prior = width**-2
    if has_signs:
        return max(curvature, 0.0) + prior
    return max(curvature, 0.0) * _strength(z, False) ** 2 + prior * (1 + max(location - z, 0.0))


@njit(**COMPILED)
def evidence_of_strength(slope, curvature, location, width, has_signs):
    """Log of the mean of exp(slope w - curvature w^2 / 2) over strengths w, and in z where most of it comes from.

    Laplace's approximation where strengths are above zero.
    """
    curvature, precision = max(curvature, 0.0), width**-2
    if has_signs:
        bend, pull = curvature + precision, slope + precision * location
        z = pull / bend
        return 0.5 * (pull * z - precision * location**2) - 0.5 * math.log(bend * width**2), z
    # Without a prior the best strength is slope / curvature, where that is above zero.
    best = _number(slope / max(curvature, 1e-300), False)
    best, z = min(max(best, location - 6 * width), location + 6 * width), location
    density = _log_density(z, slope, curvature, location, precision)
    best_density = _log_density(best, slope, curvature, location, precision)
    if best_density > density:
        z, density = best, best_density
    for _ in range(_N_NEWTON_STEPS):
        strength = _strength(z, False)
        pull = slope * strength - curvature * strength**2
        step = (pull - precision * (z - location)) / (curvature * strength**2 + precision + abs(pull))
        tried = z + min(max(step, -1.0), 1.0)
        tried_density = _log_density(tried, slope, curvature, location, precision)
        if tried_density > density:
            z, density = tried, tried_density
    return density - 0.5 * math.log(precision_of_strength(z, curvature, location, width, False) * width**2), z


@njit(**COMPILED)
def flip_strengths(tables, chains, slab, adjacency, rows, columns, prior, pairs, n_visits, randomness, gains):
    """Offer flips, and other strengths to edges, by Metropolis steps with the strength integrated out, in place.

    `randomness` (4, chains, visits): log-odds of uniform numbers that say whether there is to be an edge, and what
    strength; logarithms of uniform numbers that accept both; and 1 where an edge that stays gets another strength.
    """
    work, factor = workspace(tables), np.empty((6, 3))
    new_cross, new_gram = np.empty(chains.cross.shape[1:]), np.empty(chains.gram.shape[1:])
    signs = slab.has_signs
    for chain in range(len(adjacency)):
        cross, gram, location, width = chains.cross[chain], chains.gram[chain], slab.location[chain], slab.width[chain]
        now = log_marginal(chains, chain, chains.squares[chain], cross, gram, factor)
        usual, n_edges = abs(location) + width if signs else _strength(location, False), 0
        for pair in range(len(rows)):
            n_edges += adjacency[chain, rows[pair], columns[pair]] != 0
        for place in range(n_visits[chain]):
            pair = pairs[chain, place]
            i, j = rows[pair], columns[pair]
            old = adjacency[chain, i, j]
            is_edge = old != 0
            without = now
            if is_edge:
                squares = after(
                    tables, chain, i, j, -old, work, chains.squares[chain], cross, gram, new_cross, new_gram
                )
                without = log_marginal(chains, chain, squares, new_cross, new_gram, factor)
            # A parabola through no edge and two strengths, and once more around the best strength, as outputs may be
            # far from linear in it.
            first, second = usual, -usual if signs else 2 * usual
            log_odds, best, spread = 0.0, 0.0, 0.0
            for repeat in range(2):
                squares = after(
                    tables, chain, i, j, first - old, work, chains.squares[chain], cross, gram, new_cross, new_gram
                )
                at_first = log_marginal(chains, chain, squares, new_cross, new_gram, factor) - without
                squares = after(
                    tables, chain, i, j, second - old, work, chains.squares[chain], cross, gram, new_cross, new_gram
                )
                at_second = log_marginal(chains, chain, squares, new_cross, new_gram, factor) - without
                curvature = 2 * (at_first / first - at_second / second) / (second - first)
                slope = at_first / first + 0.5 * curvature * first
                log_odds, best = evidence_of_strength(slope, curvature, location, width, signs)
                spread = precision_of_strength(best, curvature, location, width, signs) ** -0.5
                if repeat == 0:
                    high = _strength(_within_reason(best + spread, location, signs), signs)
                    low = _strength(_within_reason(best - spread, location, signs), signs)
                    apart = min(abs(high - low), min(abs(high), abs(low)))
                    if apart > _APART * usual:
                        first, second = high, low
            gains[chain, pair] = -log_odds if is_edge else log_odds
            scale = _SHRINKAGE * spread
            wants_edge = randomness[0, chain, place] < log_odds + prior[chain, pair]
            if wants_edge:
                may_move = randomness[3, chain, place] != 0 if is_edge else n_edges < slab.most_edges
            else:
                may_move = is_edge
            if not may_move:
                continue
            excess, amount, moved = 0.0, -old, without
            if wants_edge:
                z = best + scale * randomness[1, chain, place]
                if _within_reason(z, location, signs) != z:
                    continue
                amount = _strength(z, signs) - old
                squares = after(
                    tables, chain, i, j, amount, work, chains.squares[chain], cross, gram, new_cross, new_gram
                )
                moved = log_marginal(chains, chain, squares, new_cross, new_gram, factor)
                excess += moved - _log_expected(z, best, scale, location, width) - without - log_odds
            if is_edge:
                z = _number(old, signs)
                excess -= now - _log_expected(z, best, scale, location, width) - without - log_odds
            # A comparison with nan is False: the pair stays.
            if randomness[2, chain, place] < excess and _is_finite(moved) and amount != 0:
                chains.squares[chain] = after(
                    tables, chain, i, j, amount, work, chains.squares[chain], cross, gram, new_cross, new_gram
                )
                make(tables, chain, i, j, amount, work)
                cross[:], gram[:] = new_cross, new_gram
                now = moved
                adjacency[chain, i, j] = old + amount if wants_edge else 0.0
                if not tables.directed:
                    adjacency[chain, j, i] = adjacency[chain, i, j]
                n_edges += int(wants_edge) - int(is_edge)
                gains[chain, pair] = -log_odds if wants_edge else log_odds


@njit(inline="always", **COMPILED)
def _log_expected(z, best, scale, location, width):
    """Log of the ratio of the logistic law that z is proposed from to the law of strengths."""
    shift = (z - best) / scale
    # log(1 + exp(-shift)), which does not overflow
    softplus = max(-shift, 0.0) + math.log1p(math.exp(-abs(shift)))
    log_law = -0.5 * ((z - location) / width) ** 2 - math.log(width * math.sqrt(2 * math.pi))
    return -shift - 2 * softplus - math.log(scale) - log_law


@njit(**COMPILED)
def evidence_of_all(slope, curvature, location, width, has_signs, log_odds, z):
    """Fill in `evidence_of_strength` of flat arrays."""
    for place in range(len(slope)):
        log_odds[place], z[place] = evidence_of_strength(
            slope[place], curvature[place], location[place], width[place], has_signs
        )
