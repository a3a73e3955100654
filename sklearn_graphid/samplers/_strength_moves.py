"""Moves between graphs whose edges have strengths, by Metropolis steps:

1. each flip of a pair, or each swap of an edge for a non-edge, is given odds in the square root of the evidence that it
   would gain to first order (Zanella's balanced proposal, JASA 115, 2020), and one of them is drawn;
2. it is tried with about the probability that it would be accepted with, if the first order told all;
3. the strengths of the graph that it leads to are fitted, and with the deviations kept they are where they would be;
4. it is accepted by the exact posterior there, the volume that the deviations span, and the odds of the way back.

What is dear comes late: only chains whose move may still be accepted go on to the next step.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._kernel import RandomSource, replaced, selected, where
from ._laplace import (
    Change,
    Expansion,
    Position,
    StrengthPosterior,
    first_order_update,
    gains_of_flips,
    gains_of_swaps,
    padded,
    trimmed,
    unexpanded,
)

__all__ = ["SAME_MODE", "flip", "flip_many", "redraw_strengths", "shift_one", "swap"]

# Log-odds of a move beyond which it is drawn no more often: first order overrates what it cannot see to the end of.
_LARGEST_LOG_ODDS = 20.0
# Edges that may leave in a swap, picked at random; every candidate that is none may take their place.
_MOST_LEAVING = 16
# The least gain of pairs that are flipped many at once.
_PROMISING = 2.0
# Two modes are the same if they are no further apart than this, in standard deviations.
SAME_MODE = 0.3


class _Flips(NamedTuple):
    """Every candidate may become an edge, or be one no longer. Moves are numbered as candidates are."""

    is_edge: Tensor  # (chains, candidates) before any move

    def gains(self, posterior: StrengthPosterior, expansion: Expansion) -> tuple[Tensor, Tensor]:
        """Evidence (chains, moves) that is gained to first order, and z of the edge that comes."""
        return gains_of_flips(posterior, expansion)

    def change(self, posterior: StrengthPosterior, move: Tensor, z: Tensor) -> Change:
        """What a move (chains,) changes."""
        is_taken, none = _at(self.is_edge, move), torch.full_like(move, -1)
        return Change(torch.where(is_taken, move, none), torch.where(is_taken, none, move), z)

    def log_prior_ratio(self, posterior: StrengthPosterior, is_edge: Tensor, change: Change) -> Tensor:
        """What the prior says (chains,) of a change of graphs (chains, free pairs)."""
        return posterior.odds.of_flip(is_edge, posterior.candidates[torch.maximum(change.taken, change.added)])

    def carried(self, posterior: StrengthPosterior, deviation: Tensor, change: Change) -> Tensor:
        """The deviations after the change."""
        return deviation

    def back(self, posterior: StrengthPosterior, move: Tensor) -> tuple[_Flips, Tensor]:
        """The moves that there are after one was made, and the number of the one that leads back."""
        place = move[:, None]
        return _Flips(self.is_edge.scatter(1, place, ~self.is_edge.gather(1, place))), move


class _Swaps(NamedTuple):
    """Some edges may leave, each for any candidate that is no edge. Moves are numbered edge by edge."""

    leaving: Tensor  # (chains, edges) places among the candidates, -1 where a chain has fewer

    def gains(self, posterior: StrengthPosterior, expansion: Expansion) -> tuple[Tensor, Tensor]:
        gains, z = gains_of_swaps(posterior, expansion, self.leaving)
        return gains.flatten(1), z.flatten(1)

    def change(self, posterior: StrengthPosterior, move: Tensor, z: Tensor) -> Change:
        n_candidates = len(posterior.candidates)
        return Change(_at(self.leaving, move // n_candidates).clamp_min(0), move % n_candidates, z)

    def log_prior_ratio(self, posterior: StrengthPosterior, is_edge: Tensor, change: Change) -> Tensor:
        return posterior.odds.of_swap(is_edge, posterior.candidates[change.taken], posterior.candidates[change.added])

    def carried(self, posterior: StrengthPosterior, deviation: Tensor, change: Change) -> Tensor:
        # The deviation goes along with the edge.
        taken, added = (posterior.candidates[place][:, None] for place in (change.taken, change.added))
        of_taken, of_added = deviation.gather(1, taken), deviation.gather(1, added)
        return deviation.scatter(1, taken, of_added).scatter(1, added, of_taken)

    def back(self, posterior: StrengthPosterior, move: Tensor) -> tuple[_Swaps, Tensor]:
        n_candidates = len(posterior.candidates)
        row, added = move // n_candidates, move % n_candidates
        taken = _at(self.leaving, row).clamp_min(0)
        return _Swaps(self.leaving.scatter(1, row[:, None], added[:, None])), row * n_candidates + taken


class _Offer(NamedTuple):
    """A move for each chain."""

    moves: _Flips | _Swaps
    move: Tensor  # (chains,)
    change: Change  # what it changes
    z: Tensor  # (chains, free pairs) where its fit starts
    theta: Tensor  # (chains, parameters) where its fit starts
    log_share: Tensor  # (chains,) log-probability that this move is drawn and tried
    log_threshold: Tensor  # (chains,) it is accepted if its log-ratio is above


def flip(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer every chain to make an edge of a pair, or to take one off."""
    return _moved(posterior, position, _Flips(position.expansion.fit.is_edge[:, posterior.candidates]), rng)


def swap(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer every chain to let an edge leave its pair for another; its deviation goes along."""
    can_leave = (position.expansion.fit.is_edge & posterior.odds.is_uncertain)[:, posterior.candidates]
    return _moved(posterior, position, _Swaps(_some(can_leave, rng.uniform(can_leave.shape[1]))), rng)


def flip_many(posterior: StrengthPosterior, position: Position) -> Position:
    """Flip many pairs of a chain at once, where its evidence rises by it. On the way to the draws only: no draw."""
    gains, z = gains_of_flips(posterior, position.expansion)
    room = (posterior.most_edges - position.expansion.fit.is_edge.sum(1, keepdim=True)).clamp_min(0)
    n_flipped = torch.minimum(((gains > _PROMISING).sum(1, keepdim=True) + 1) // 2, room)
    chosen = (n_flipped[:, 0] > 1).nonzero()[:, 0]
    if not len(chosen):
        return position
    ranks = gains.argsort(dim=1, descending=True).argsort(dim=1)
    is_flipped, candidates = (ranks < n_flipped)[chosen], posterior.candidates
    some, old = posterior.select(chosen), selected(_unexpanded_position(position), chosen)
    is_edge, start = old.expansion.fit.is_edge.clone(), old.expansion.fit.spread(old.expansion.fit.mode)
    is_added = is_flipped & ~is_edge[:, candidates]
    start[:, candidates] = torch.where(is_added, z[chosen], start[:, candidates])
    is_edge[:, candidates] ^= is_flipped
    fit = some.fit(is_edge, start, old.expansion.fit.theta)
    log_density = some.log_density(fit, old.deviation)
    gain = log_density + some.odds.log_prior(is_edge) - old.log_density - some.odds.log_prior(old.expansion.fit.is_edge)
    better = (gain > 0).nonzero()[:, 0]
    if not len(better):
        return position
    expansion = some.select(better).expanded_at(selected(fit, better))
    return _updated(position, chosen[better], Position(expansion, old.deviation[better], log_density[better]))


def redraw_strengths(posterior: StrengthPosterior, position: Position, kept: float, rng: RandomSource) -> Position:
    """Offer new deviations: a share `kept` of the old ones, and the rest drawn anew.

    Where the posterior is the Gaussian of the fit, this is accepted always.
    """
    normal, threshold = rng.normal(position.deviation.shape[1]), rng.uniform()
    new = posterior.at(position.expansion, kept * position.deviation + (1 - kept**2) ** 0.5 * normal)
    gain, gaussian = new.log_density - position.log_density, new.deviation**2 - position.deviation**2
    return _accepted(threshold.log() < gain + 0.5 * gaussian.sum(1), new, position)


def shift_one(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer one deviation of an edge or of theta a step that may be long, for tails that are no Gaussian's."""
    fit, n_free = position.expansion.fit, position.expansion.fit.is_edge.shape[1]
    which, step, threshold = rng.uniform(), torch.tan(torch.pi * (rng.uniform() - 0.5)), rng.uniform()
    is_free = posterior.problem.filter.is_free(position.deviation).bool()
    counts = torch.cat([fit.is_edge, is_free.expand_as(position.deviation[:, n_free:])], 1)
    place = _drawn(torch.where(counts, 0.0, -torch.inf).to(step), which)
    new = posterior.at(position.expansion, position.deviation.scatter_add(1, place[:, None], step[:, None]))
    return _accepted(threshold.log() < new.log_density - position.log_density, new, position)


def _accepted(is_accepted: Tensor, new: Position, position: Position) -> Position:
    """New deviations where they are accepted; what is seen from the graph stays as it is."""
    deviation = where(is_accepted, new.deviation, position.deviation)
    return Position(position.expansion, deviation, where(is_accepted, new.log_density, position.log_density))


def _unexpanded_position(position: Position) -> Position:
    return position._replace(expansion=unexpanded(position.expansion.fit))


def _moved(posterior: StrengthPosterior, position: Position, moves: _Flips | _Swaps, rng: RandomSource) -> Position:
    """Offer every chain one of the moves."""
    which, log_try, log_threshold = rng.uniform(), rng.uniform().log(), rng.uniform().log()
    gains, z = moves.gains(posterior, position.expansion)
    log_shares, log_worth = _log_shares(gains)
    move = _drawn(log_shares, which)
    log_worth = _at(log_worth, move)
    is_tried = torch.isfinite(gains).any(1) & torch.isfinite(position.log_density) & (log_try < log_worth)
    chosen = is_tried.nonzero()[:, 0]
    if not len(chosen):
        return position
    change = moves.change(posterior, move, _at(z, move))
    start = first_order_update(posterior, position.expansion, change)
    offer = _Offer(moves, move, change, *start, _at(log_shares, move) + log_worth, log_threshold)
    bare = selected(_unexpanded_position(position), chosen)
    accepted, new = _tried(posterior.select(chosen), bare, selected(offer, chosen))
    return _updated(position, chosen[accepted], new)


def _updated(position: Position, chains: Tensor, new: Position) -> Position:
    """Positions of which some chains are elsewhere now."""
    if not len(chains):
        return position
    n_edges = max(part.expansion.fit.mode.shape[1] for part in (position, new))
    position, new = (part._replace(expansion=padded(part.expansion, n_edges)) for part in (position, new))
    position = replaced(position, chains, new)
    return position._replace(expansion=trimmed(position.expansion))


def _tried(posterior: StrengthPosterior, position: Position, offer: _Offer) -> tuple[Tensor, Position]:
    """The numbers of the chains whose move is accepted, and where these are then."""
    (moves, move, change, *start, log_share, log_threshold), is_edge = offer, position.expansion.fit.is_edge
    fit = posterior.fit(change.of(is_edge, posterior.candidates), *start)
    deviation = moves.carried(posterior, position.deviation, change)
    log_density = posterior.log_density(fit, deviation)
    excess = log_density - position.log_density - log_share - log_threshold
    excess = excess + moves.log_prior_ratio(posterior, is_edge, change)
    # The way back has a probability of at most one, so that without it a move is accepted or lost already.
    chosen = (excess > 0).nonzero()[:, 0]
    if not len(chosen):
        return chosen, selected(position, chosen)
    posterior, position, excess = posterior.select(chosen), selected(position, chosen), excess[chosen]
    new = Position(posterior.expanded_at(selected(fit, chosen)), deviation[chosen], log_density[chosen])
    moves_back, move_back = selected(moves, chosen).back(posterior, move[chosen])
    gains, z_back = moves_back.gains(posterior, new.expansion)
    log_shares, log_worth = _log_shares(gains)
    is_accepted = excess + _at(log_shares + log_worth, move_back) > 0
    way_back = moves_back.change(posterior, move_back, _at(z_back, move_back))
    accepted = _leads_back(posterior, position, new, way_back, is_accepted).nonzero()[:, 0]
    return chosen[accepted], selected(new, accepted)


def _leads_back(
    posterior: StrengthPosterior, position: Position, new: Position, way_back: Change, is_accepted: Tensor
) -> Tensor:
    """Which of the accepted moves (chains,) lead back to the fit that they came from.

    A graph may have several modes, and which is found depends on where the search begins. A move whose way back would
    lead to another mode has no way back, and is not made.
    """
    chosen = is_accepted.nonzero()[:, 0]
    if posterior.is_warmup or not len(chosen):
        return is_accepted
    z, theta = first_order_update(posterior, new.expansion, way_back)
    fit = selected(position.expansion.fit, chosen)
    again = posterior.select(chosen).fit(fit.is_edge, z[chosen], theta[chosen])
    distance = fit.deviation_of(again.spread(again.mode).gather(1, fit.places), again.theta).norm(dim=1)
    return is_accepted.index_put((chosen,), again.is_found & (distance < SAME_MODE))


def _some(is_there: Tensor, order: Tensor) -> Tensor:
    """Places (chains, n) picked at random where something is there, -1 where a chain has fewer."""
    picked = torch.where(is_there, order, -1.0).topk(min(_MOST_LEAVING, is_there.shape[1]), dim=1)
    return torch.where(picked.values >= 0, picked.indices, -1)


def _at(values: Tensor, place: Tensor) -> Tensor:
    """What values (chains, n) hold at each chain's place (chains,)."""
    return values.gather(1, place[:, None])[:, 0]


def _drawn(log_shares: Tensor, uniform: Tensor) -> Tensor:
    """A move (chains,) drawn for each chain."""
    sums = log_shares.exp().nan_to_num(0.0).cumsum(1)
    return torch.searchsorted(sums, uniform[:, None] * sums[:, -1:])[:, 0].clamp_max(log_shares.shape[1] - 1)


def _log_shares(gains: Tensor) -> tuple[Tensor, Tensor]:
    """Log-probabilities (chains, moves) with which moves are drawn, and with which they are then tried.

    The chance that a move is accepted is the ratio of the sums of odds before and after it. After it, others have
    about the odds that they have now, and the way back has the inverse of its own.
    """
    odds = (0.5 * gains).nan_to_num(-torch.inf).clamp_max(_LARGEST_LOG_ODDS)
    log_shares, log_sum = odds.log_softmax(1), odds.logsumexp(1, keepdim=True)
    after = torch.logaddexp(log_sum + torch.log1p(-log_shares.exp().clamp_max(1.0)), -odds)
    return log_shares, (log_sum - after).clamp_max(0.0)
