"""Flips of single pairs, one after the other, for graphs with and without strengths.

Every pair that is visited is offered to become an edge or to be one no longer, by the exact change in log-likelihood
and the prior's odds. All other pairs stay, and theta is integrated out where the filter is linear in it. What is
offered depends on the kind of graph: see `UnitFlips` and, for edges that have strengths, `StrengthFlips`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ..filters import EdgeChanges, Moments
from ..graphs import EdgeSpace
from ._problem import Problem
from ._slabs import Slab, StrengthLaw
from ._theta import log_marginal_likelihood, theta_precision

__all__ = [
    "SWEEPS_BETWEEN_FULL_ONES",
    "FlipLikelihood",
    "Flips",
    "Offer",
    "StrengthFlips",
    "UnitFlips",
    "Visits",
    "flip_sweep",
    "gains_of_known",
    "uncertain_first",
]

# A pair whose odds of flipping were worse than this (in logarithms) when last looked at is not looked at again until
# the next full sweep, which is every so many. Most pairs are that certain most of the time.
_CERTAIN = -12.0
SWEEPS_BETWEEN_FULL_ONES = 4
# How many pairs a chain looks ahead at first, and how many numbers all that is looked at may hold: more would not stay
# in the processor's cache.
_FIRST_LOOK = 8
_NUMBERS_AT_ONCE = 2**18
# Strengths nearer to each other or to zero than this share of a usual one make no parabola.
_APART = 1e-6


class Visits(NamedTuple):
    """Which pair each chain looks at in turn, (chains, visits), and the randomness of its flips."""

    pairs: Tensor
    is_drawn: Tensor  # those to be drawn come first; False where a chain has no more and waits for the others
    thresholds: Tensor  # log-odds of uniform numbers, which say whether there is to be an edge
    shifts: Tensor | None = None  # of a strength from the best one, standardised; None without strengths
    log_uniform: Tensor | None = None  # logarithms of uniform numbers that accept it
    is_redrawn: Tensor | None = None  # whether an edge that stays gets another strength

    def at(self, place: Tensor) -> Visits:
        """Those at places (chains, n)."""
        return Visits(*(None if part is None else part.gather(1, place) for part in self))  # type: ignore[arg-type]


class Offer(NamedTuple):
    """What becomes of pairs (chains, n) that are looked at, if all others stay as they are."""

    amounts: Tensor  # that their entries change by if they move
    moves: Tensor  # of bool
    log_likelihood: Tensor  # after the move
    moments: Moments  # after the move
    gain: Tensor  # what a flip would add to the log-likelihood from then on


class Flips(Protocol):
    """How pairs of a kind of graph flip."""

    n_looks: int  # how many graphs are tried for every pair

    def offer(self, likelihood: FlipLikelihood, pair: Pair, prior: Tensor, visits: Visits) -> Offer:
        """Decide on pairs, with the prior's log-odds (chains, n) of an edge."""


class Pair(NamedTuple):
    """Pairs (chains, n) of the chains' graphs."""

    rows: Tensor  # (chains, n, entries)
    columns: Tensor
    now: Tensor  # (chains, n) their entries
    n_entries: Tensor  # (chains, 1) that are not zero in the graph, beyond those of known edges


@dataclass(frozen=True)
class UnitFlips:
    """Flips of edges that are there or not: a draw of each pair from its odds, given all others."""

    temperature: float = 1.0
    n_looks = 1

    def offer(self, likelihood: FlipLikelihood, pair: Pair, prior: Tensor, visits: Visits) -> Offer:
        """Draw pairs from their odds."""
        amounts = 1 - 2 * pair.now
        flipped, moments = likelihood.after(pair.rows, pair.columns, amounts)
        # Where the flipped graph has no finite likelihood, the pair stays.
        gain = (flipped - likelihood.now[:, None]).nan_to_num(-torch.inf).to(prior.dtype)
        odds = (gain + amounts * prior) / self.temperature
        flips = visits.thresholds < odds
        return Offer(amounts, flips, flipped, moments, torch.where(flips, -gain, gain))


@dataclass(frozen=True)
class StrengthFlips:
    """Flips of edges that have strengths, by Metropolis steps that the strength of the edge is integrated out of.

    The log-likelihood at no edge and at two strengths gives a parabola, from which follow the odds of an edge and a law
    that a strength is drawn from. Both depend on the other pairs alone, so that the way back has the same, and a flip
    is accepted by how far the parabola is off: always where the outputs are linear in the strength and its law is
    Gaussian.
    """

    slab: Slab
    law: StrengthLaw
    most_entries: int  # of the matrix that unknown edges may take up: tables of pairs with edges grow with them
    n_looks = 2  # at once, and three times

    def offer(self, likelihood: FlipLikelihood, pair: Pair, prior: Tensor, visits: Visits) -> Offer:
        """Draw whether there is to be an edge, then its strength, and accept both or not."""
        assert visits.shifts is not None
        assert visits.log_uniform is not None
        assert visits.is_redrawn is not None
        law, is_edge = StrengthLaw(*(part[:, None] for part in self.law)), pair.now != 0
        log_odds, best, scale, without = self._expected(likelihood, pair, law)
        wants_edge = visits.thresholds < log_odds + prior
        drawn = best + scale * visits.shifts
        amounts = torch.where(wants_edge, self.slab.strength(drawn), 0.0) - pair.now
        moved, moments = likelihood.after(pair.rows, pair.columns, amounts)

        def excess(has_edge: Tensor, z: Tensor, log_likelihood: Tensor) -> Tensor:
            """By how much a pair is more probable than what is expected of it."""
            shift = (z - best) / scale
            log_proposal = -shift - 2 * torch.nn.functional.softplus(-shift) - scale.log()  # the logistic law
            log_law = -0.5 * ((z - law.location) / law.width) ** 2 - (law.width * (2 * torch.pi) ** 0.5).log()
            return torch.where(has_edge, log_likelihood - without + log_law - log_proposal - log_odds, 0.0)

        z = self.slab.number(torch.where(is_edge, pair.now, 1.0))
        gain = excess(wants_edge, drawn, moved) - excess(is_edge, z, likelihood.now[:, None].expand_as(z))
        is_full = pair.n_entries >= self.most_entries
        is_moved = ((wants_edge != is_edge) & (is_edge | ~is_full)) | (is_edge & wants_edge & visits.is_redrawn)
        # A comparison with nan is False: the pair stays.
        moves = is_moved & (visits.log_uniform < gain) & torch.isfinite(moved) & (amounts != 0)
        return Offer(amounts, moves, moved, moments, torch.where(is_edge ^ (moves & ~wants_edge), -log_odds, log_odds))

    def _expected(self, likelihood: FlipLikelihood, pair: Pair, law: StrengthLaw) -> tuple[Tensor, ...]:
        """Evidence of an edge over none, its best z, the scale of a proposal, and the log-likelihood without one."""
        usual = self.slab.size(self.law)[:, None].expand_as(pair.now)
        none = likelihood.after(pair.rows, pair.columns, -pair.now)[0]
        first, second = usual, -usual if self.slab.has_signs else 2 * usual
        for is_last in (False, True):
            slope, curvature = self._parabola(likelihood, pair, none, first, second)
            log_odds, best = self.slab.log_evidence(slope, curvature, law)
            spread = self.slab.precision(best, curvature, law).rsqrt()
            if not is_last:  # the same again around the best strength, as outputs may be far from linear in it
                around = (self.slab.strength(best + spread), self.slab.strength(best - spread))
                is_apart = (around[0] - around[1]).abs() > _APART * usual
                is_apart &= torch.minimum(around[0].abs(), around[1].abs()) > _APART * usual
                first, second = torch.where(is_apart, around[0], first), torch.where(is_apart, around[1], second)
        return log_odds, best, 0.65 * spread, none

    @staticmethod
    def _parabola(
        likelihood: FlipLikelihood, pair: Pair, none: Tensor, first: Tensor, second: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Slope and curvature, slope w - curvature w^2 / 2, of the log-likelihood through two strengths and none."""
        amounts = torch.cat([first - pair.now, second - pair.now], 1)
        tried, _ = likelihood.after(pair.rows.repeat(1, 2, 1), pair.columns.repeat(1, 2, 1), amounts)
        at_first, at_second = (gain / size for gain, size in zip(tried.chunk(2, 1), (first, second), strict=True))
        at_first, at_second = at_first - none / first, at_second - none / second
        curvature = 2 * (at_first - at_second) / (second - first)
        return at_first + 0.5 * curvature * first, curvature


def uncertain_first(order: Tensor, flip_gain: Tensor) -> tuple[Tensor, Tensor]:
    """Keep of each chain's order what is uncertain; chains that have less are filled up with pairs not to be drawn."""
    uncertain = (flip_gain >= _CERTAIN).gather(1, order)
    n_visits = int(uncertain.sum(1).max())
    first = uncertain.to(torch.int8).argsort(dim=1, stable=True, descending=True)[:, :n_visits]
    return order.gather(1, first), uncertain.gather(1, first)


def flip_sweep(
    problem: Problem,
    likelihood: FlipLikelihood,
    kind: Flips,
    adjacency: Tensor,
    prior: Tensor,
    visits: Visits,
    gain: Tensor,
) -> None:
    """Draw the pairs of every chain in their order, in place.

    Most pairs stay as they are, so a chain looks several pairs ahead at once, as if none of them flipped. What it saw
    holds up to the first that does, and from there it looks again: the draws are those of one pair after the other.

    `gain` (chains, unknown pairs) is kept up to date with what a flip of each pair, as it stands, would add to the
    log-likelihood when it was last looked at.
    """
    chains = torch.arange(len(adjacency), device=adjacency.device)[:, None]
    n_visits, place = visits.is_drawn.sum(1, keepdim=True), torch.zeros_like(chains)
    n_entries = _n_entries(problem, adjacency)
    n_numbers = len(adjacency) * likelihood.n_numbers * kind.n_looks
    ahead, most_ahead = _FIRST_LOOK, max(1, _NUMBERS_AT_ONCE // n_numbers)
    while (n_left := int((n_visits - place).max())) > 0:
        ahead = min(ahead, n_left, most_ahead)
        look = place + torch.arange(ahead, device=place.device)
        in_range, look = look < n_visits, look.clamp_max(visits.pairs.shape[1] - 1)
        looked = visits.at(look)
        rows, columns = problem.space.entries(looked.pairs)
        pair = Pair(rows, columns, adjacency[chains, rows[..., 0], columns[..., 0]], n_entries)
        offer = kind.offer(likelihood, pair, prior.gather(1, looked.pairs), looked)
        moves = in_range & offer.moves
        is_settled = in_range & (moves.cumsum(1) - moves.long() == 0)
        gain[chains.expand_as(looked.pairs)[is_settled], looked.pairs[is_settled]] = offer.gain[is_settled].to(
            gain.dtype
        )
        settling = moves & is_settled  # one move of a chain at most
        is_moving, step = settling.any(1), settling.long().argmax(1)
        if bool(is_moving.any()):
            at = chains[:, 0], step
            change = torch.where(is_moving, offer.amounts[at], 0.0)
            adjacency[chains, rows[at], columns[at]] += change[:, None]
            moments = Moments(*(part[at] for part in offer.moments))
            likelihood.make(rows[at], columns[at], change, offer.log_likelihood[at], moments)
            n_entries = _n_entries(problem, adjacency)
        n_settled = is_settled.sum(1, keepdim=True)
        place = place + n_settled
        ahead = _next_look(ahead, float(n_settled.sum() / in_range.any(1).sum()))


def _n_entries(problem: Problem, adjacency: Tensor) -> Tensor:
    """How many entries (chains, 1) of graphs are not zero, beyond those of known edges."""
    return (adjacency != 0).flatten(1).sum(1, keepdim=True) - int((problem.presence != 0).sum())


def _next_look(ahead: int, n_settled: float) -> int:
    """How many pairs to look ahead after chains got through `n_settled` of them on average."""
    if n_settled > 0.75 * ahead:
        return 2 * ahead
    return max(1, ahead // 2) if n_settled < 0.4 * ahead else ahead


def gains_of_known(problem: Problem, adjacency: Tensor, theta: Tensor, noise_std: Tensor, pairs: EdgeSpace) -> Tensor:
    """What flips of single pairs, known or not, would add to the log-likelihood of graphs, (graphs, pairs).

    Parameters
    ----------
    problem : Problem
        Data and filter.
    adjacency, theta, noise_std : Tensor (graphs, nodes, nodes), (graphs, parameters) and (graphs,)
        The graphs; theta is integrated out where the filter is linear in it, and stays where it is not.
    pairs : EdgeSpace
        Of tensors.
    """
    likelihood = FlipLikelihood(problem, problem.edge_changes(adjacency, theta), noise_std, 1.0)
    amounts, gains = 1 - 2 * pairs.gather(adjacency), [likelihood.now.new_zeros(len(adjacency), 0)]
    at_once = max(1, _NUMBERS_AT_ONCE // max(1, len(adjacency) * likelihood.n_numbers))
    for part in torch.arange(pairs.n_free, device=theta.device).split(at_once):
        flipped, _ = likelihood.after(*pairs.entries(part.expand(len(adjacency), -1)), amounts[:, part])
        gains.append(flipped - likelihood.now[:, None])
    return torch.cat(gains, 1).nan_to_num(-torch.inf, posinf=-torch.inf)


class FlipLikelihood:
    """The log-likelihood as a function of the graph alone.

    Where theta can be integrated out, it is: with theta held, a pair whose flip changes the best theta hardly flips.
    """

    def __init__(self, problem: Problem, changes: EdgeChanges, noise_std: Tensor, temperature: float):
        self._changes = changes
        self._filter = problem.filter
        self._n_measured = problem.n_measured
        self._temperature = temperature
        # The likelihood is raised to its power before the integral is taken, which is as if there were more noise. The
        # factor is taken out again where all odds are divided by the temperature.
        self._noise_std = (noise_std * temperature**0.5)[:, None]
        self._precision = theta_precision(problem, self._noise_std[:, 0])
        self.n_numbers = self._changes.n_numbers
        self.now = self._of(Moments(*(part[:, None] for part in self._changes.moments)))[:, 0]

    def after(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> tuple[Tensor, Moments]:
        """Log-likelihoods and moments (chains, flips, ...) of the graphs with one flip each."""
        moments = self._changes.moments_after(rows, columns, amounts)
        return self._of(moments), moments

    def make(self, rows: Tensor, columns: Tensor, amounts: Tensor, log_likelihood: Tensor, moments: Moments) -> None:
        """Flip a pair of every chain whose amount is not zero; `after` has told what these flips lead to."""
        is_moving = amounts != 0
        here = self._changes.moments
        squares = torch.where(is_moving, moments.squares, here.squares)
        cross = torch.where(is_moving[:, None], moments.cross, here.cross)
        gram = torch.where(is_moving[:, None, None], moments.gram, here.gram)
        self._changes.make(rows, columns, amounts, Moments(squares, cross, gram))
        self.now = torch.where(is_moving, log_likelihood, self.now)

    def _of(self, moments: Moments) -> Tensor:
        moments = self._filter.free_moments(moments)
        return self._temperature * log_marginal_likelihood(moments, self._noise_std, self._precision, self._n_measured)
