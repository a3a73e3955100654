"""Moves between graphs whose edges have strengths, by Metropolis steps:

1. each flip of a pair, or each swap of an edge for a non-edge, is given odds in the square root of the evidence that it
   would gain to first order (Zanella's balanced proposal, JASA 115, 2020), and one of them is drawn;
2. the strengths of the graph that it leads to are fitted, and with the deviations kept they are where they would be;
3. it is accepted by the exact posterior there, the volume that the deviations span, and the odds of the way back.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._kernel import RandomSource
from ._laplace import fit_strengths
from ._outlook import View, padded, trimmed
from ._per_chain import selected, where
from ._slabs import StrengthLaw
from ._strength_posterior import Position, StrengthPosterior

__all__ = ["flip", "gains_of_flips", "redraw_strengths", "shift_one", "swap"]

# Log-odds of a move beyond which it is drawn no more often: first order overrates what it cannot see to the end of.
_LARGEST_LOG_ODDS = 20.0
# Edges that may leave in a swap, picked at random; every candidate that is none may take their place.
_MOST_LEAVING = 16
# How far others are taken to follow a change at once, in units of z; further, and the first order says little.
_LARGEST_SHIFT = 1.0
# Two modes are the same if they are no further apart than this, in standard deviations.
_SAME_MODE = 0.3


class _Change(NamedTuple):
    """An edge that goes and one that comes, by their places among the candidates, (chains,); -1 where there is none."""

    taken: Tensor
    added: Tensor
    z: Tensor  # (chains,) of the edge that comes

    def reversed(self, z: Tensor) -> _Change:
        """The way back, with z of the edge that comes again."""
        return _Change(self.added, self.taken, z)

    def of(self, is_edge: Tensor, candidates: Tensor) -> Tensor:
        """The graphs (chains, free pairs) after the change."""
        for place, is_there in ((self.taken, False), (self.added, True)):
            number = candidates[place.clamp_min(0)][:, None]
            changed = is_edge.scatter(1, number, is_there)
            is_edge = torch.where((place >= 0)[:, None], changed, is_edge)
        return is_edge


def flip(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer every chain to make an edge of a pair, or to take one off."""
    fit, (which, threshold) = position.view.fit, (rng.uniform(), rng.uniform())
    gains, z = gains_of_flips(posterior, position.view)
    place, way_there = _drawn(gains, which)
    pair = posterior.candidates[place]
    is_taken, none = fit.is_edge.gather(1, pair[:, None])[:, 0], torch.full_like(place, -1)
    change = _Change(torch.where(is_taken, place, none), torch.where(is_taken, none, place), _at(z, place))
    new = _changed(posterior, position, change, position.deviation)
    gains_back, z_back = gains_of_flips(posterior, new.view)
    gain = new.log_density - position.log_density + posterior.odds.of_flip(fit.is_edge, pair)
    gain = gain + _at(_log_shares(gains_back), place) - way_there
    is_accepted = torch.isfinite(gains).any(1) & torch.isfinite(position.log_density) & (threshold.log() < gain)
    way_back = change.reversed(_at(z_back, place))
    return _moved(position, new, _leads_back(posterior, position, new, way_back, is_accepted))


def swap(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer every chain to let an edge leave its pair for another; its deviation goes along."""
    fit, (which, threshold), n_candidates = position.view.fit, (rng.uniform(), rng.uniform()), len(posterior.candidates)
    can_leave = (fit.is_edge & posterior.odds.is_uncertain)[:, posterior.candidates]
    leaving = _some(can_leave, rng.uniform(n_candidates))
    gains, z = _gains_of_swaps(posterior, position.view, leaving)
    drawn, way_there = _drawn(gains.flatten(1), which)
    row, added = drawn // n_candidates, drawn % n_candidates
    taken = _at(leaving, row).clamp_min(0)
    change = _Change(taken, added, _at(z.flatten(1), drawn))
    taken_pair, added_pair = posterior.candidates[taken], posterior.candidates[added]
    deviation = position.deviation.scatter(1, taken_pair[:, None], _at(position.deviation, added_pair)[:, None])
    deviation = deviation.scatter(1, added_pair[:, None], _at(position.deviation, taken_pair)[:, None])
    new = _changed(posterior, position, change, deviation)
    gains_back, z_back = _gains_of_swaps(posterior, new.view, leaving.scatter(1, row[:, None], added[:, None]))
    back = row * n_candidates + taken
    gain = new.log_density - position.log_density + posterior.odds.of_swap(fit.is_edge, taken_pair, added_pair)
    gain = gain + _at(_log_shares(gains_back.flatten(1)), back) - way_there
    is_possible = torch.isfinite(gains.flatten(1)).any(1) & torch.isfinite(position.log_density)
    is_accepted = is_possible & (threshold.log() < gain)
    way_back = change.reversed(_at(z_back.flatten(1), back))
    return _moved(position, new, _leads_back(posterior, position, new, way_back, is_accepted))


def redraw_strengths(posterior: StrengthPosterior, position: Position, kept: float, rng: RandomSource) -> Position:
    """Offer new deviations: a share `kept` of the old ones, and the rest drawn anew.

    Where the posterior is the Gaussian of the fit, this is accepted always.
    """
    normal, threshold = rng.normal(position.deviation.shape[1]), rng.uniform()
    new = posterior.at(position.view, kept * position.deviation + (1 - kept**2) ** 0.5 * normal)
    gain, gaussian = new.log_density - position.log_density, new.deviation**2 - position.deviation**2
    return where(threshold.log() < gain + 0.5 * gaussian.sum(1), new, position)


def shift_one(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer one deviation of an edge or of theta a step that may be long, for tails that are no Gaussian's."""
    fit, n_free = position.view.fit, position.view.fit.is_edge.shape[1]
    which, step, threshold = rng.uniform(), torch.tan(torch.pi * (rng.uniform() - 0.5)), rng.uniform()
    counts = torch.cat([fit.is_edge, torch.ones_like(position.deviation[:, n_free:], dtype=torch.bool)], 1)
    place, _ = _drawn(torch.where(counts, 0.0, -torch.inf).to(step), which)
    new = posterior.at(position.view, position.deviation.scatter_add(1, place[:, None], step[:, None]))
    return where(threshold.log() < new.log_density - position.log_density, new, position)


def gains_of_flips(posterior: StrengthPosterior, view: View) -> tuple[Tensor, Tensor]:
    """Evidence (chains, candidates) that a flip gains to first order, and z of an edge that comes."""
    (fit, outlook), odds, candidates = view, posterior.odds, posterior.candidates
    log_odds, z = posterior.slab.log_evidence(outlook.slope, outlook.curvature, _column(posterior.conditions.law))
    log_odds = log_odds + odds.table[:, candidates]
    gains = torch.where(fit.is_edge[:, candidates], -log_odds, log_odds)
    return torch.where(odds.is_uncertain[candidates], gains, -torch.inf), z


def _gains_of_swaps(posterior: StrengthPosterior, view: View, leaving: Tensor) -> tuple[Tensor, Tensor]:
    """The same (chains, leaving, candidates) for swaps of edges, given by their places among the candidates or -1."""
    (fit, outlook), slab, law = view, posterior.slab, _column(posterior.conditions.law)
    response, variance, change, is_edge = _without(posterior, view, leaving)
    along = outlook.cross @ response
    # Without the edge, its strength is zero and all else has followed; what others would add is judged from there.
    slope = outlook.slope[..., None] - along * (change / variance)[:, None]
    curvature = outlook.curvature[..., None] + along**2 / variance[:, None]
    added, z = slab.log_evidence(slope.mT, curvature.mT, StrengthLaw(*(part[..., None] for part in law)))
    log_odds, _ = slab.log_evidence(outlook.slope, outlook.curvature, law)
    table = posterior.odds.table[:, posterior.candidates]
    gains = added + table[:, None] - (log_odds + table).gather(1, leaving.clamp_min(0))[..., None]
    can_come = (posterior.odds.is_uncertain & ~fit.is_edge)[:, posterior.candidates]
    return torch.where(can_come[:, None] & is_edge[..., None], gains, -torch.inf), z


def _without(posterior: StrengthPosterior, view: View, leaving: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What edges (chains, leaving) that go do to the others.

    Returns the columns (chains, n, leaving) of the covariance at these edges, their variances, by how much z has to
    change for the strength to be zero to first order, and whether there is such an edge.
    """
    fit, covariance = view.fit, view.outlook.covariance
    number = posterior.candidates[leaving.clamp_min(0)]
    is_at = (fit.places[:, None] == number[..., None]) & fit.is_real[:, None] & (leaving >= 0)[..., None]
    place = is_at.to(torch.int8).argmax(-1)
    columns = covariance.gather(2, place[:, None].expand(-1, covariance.shape[1], -1))
    variance, z = covariance.diagonal(dim1=-2, dim2=-1).gather(1, place), fit.mode.gather(1, place)
    return columns, variance, -posterior.slab.strength(z) / posterior.slab.slope(z), is_at.any(-1)


def _changed(posterior: StrengthPosterior, position: Position, change: _Change, deviation: Tensor) -> Position:
    """Where a change leads."""
    is_edge = change.of(position.view.fit.is_edge, posterior.candidates)
    return posterior.at(posterior.view(is_edge, *_followed(posterior, position.view, change)), deviation)


def _followed(posterior: StrengthPosterior, view: View, change: _Change) -> tuple[Tensor, Tensor]:
    """z (chains, free pairs) and theta where a change leads them to first order: a start for the fit."""
    (fit, outlook), n_edges = view, view.fit.mode.shape[1]
    column, variance, to_zero, is_taken = (part[..., 0] for part in _without(posterior, view, change.taken[:, None]))
    cross = outlook.cross[torch.arange(len(column), device=column.device), change.added.clamp_min(0)]
    shift = torch.where(is_taken[:, None], column * (to_zero / variance)[:, None], 0.0)
    response = (outlook.covariance @ cross[..., None])[..., 0]
    through = column * ((cross * column).sum(1) / variance)[:, None]
    response = response - torch.where(is_taken[:, None], through, 0.0)
    coming = posterior.slab.strength(change.z) * (change.added >= 0)
    shift = shift - response * coming[:, None]
    largest = (_LARGEST_SHIFT * posterior.slab.unit(posterior.conditions.law))[:, None]
    z = fit.spread(fit.mode + shift[:, :n_edges].clamp(-largest, largest).nan_to_num(0.0))
    number = posterior.candidates[change.added.clamp_min(0)][:, None]
    z = torch.where((change.added >= 0)[:, None], z.scatter(1, number, change.z[:, None]), z)
    return z, fit.theta + shift[:, n_edges:].nan_to_num(0.0)


def _leads_back(
    posterior: StrengthPosterior, position: Position, new: Position, way_back: _Change, is_accepted: Tensor
) -> Tensor:
    """Which of the accepted moves (chains,) lead back to the fit that they came from.

    A graph may have several modes, and which is found depends on where the search begins. A move whose way back would
    lead to another mode has no way back, and is not made.
    """
    chosen = is_accepted.nonzero()[:, 0]
    if posterior.is_on_the_way or not len(chosen):
        return is_accepted
    z, theta = _followed(posterior, new.view, way_back)
    fit = selected(position.view.fit, chosen)
    again = fit_strengths(posterior.objective(position.view.fit.is_edge).select(chosen), z[chosen], theta[chosen])
    distance = fit.deviation_of(again.spread(again.mode).gather(1, fit.places), again.theta).norm(dim=1)
    return is_accepted.index_put((chosen,), again.is_found & (distance < _SAME_MODE))


def _some(is_there: Tensor, order: Tensor) -> Tensor:
    """Places (chains, n) picked at random where something is there, -1 where a chain has fewer."""
    picked = torch.where(is_there, order, -1.0).topk(min(_MOST_LEAVING, is_there.shape[1]), dim=1)
    return torch.where(picked.values >= 0, picked.indices, -1)


def _at(values: Tensor, place: Tensor) -> Tensor:
    """What values (chains, n) hold at each chain's place (chains,)."""
    return values.gather(1, place[:, None])[:, 0]


def _log_shares(gains: Tensor) -> Tensor:
    """Log-probabilities (chains, moves) with which moves are drawn."""
    return (0.5 * gains).nan_to_num(-torch.inf).clamp_max(_LARGEST_LOG_ODDS).log_softmax(1)


def _drawn(gains: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """A move (chains,) drawn for each chain, and its log-probability."""
    log_shares = _log_shares(gains)
    sums = log_shares.exp().nan_to_num(0.0).cumsum(1)
    drawn = torch.searchsorted(sums, uniform[:, None] * sums[:, -1:])[:, 0].clamp_max(gains.shape[1] - 1)
    return drawn, _at(log_shares, drawn)


def _column(law: StrengthLaw) -> StrengthLaw:
    return StrengthLaw(law.location[:, None], law.width[:, None])


def _moved(position: Position, new: Position, is_accepted: Tensor) -> Position:
    n_edges = max(part.view.fit.mode.shape[1] for part in (position, new))
    merged = where(
        is_accepted,
        new._replace(view=padded(new.view, n_edges)),
        position._replace(view=padded(position.view, n_edges)),
    )
    return merged._replace(view=trimmed(merged.view))
