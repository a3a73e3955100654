"""Moves between graphs whose edges have strengths.

A chain is a graph and the standardised deviations of all strengths and theta from the graph's best fit. They are kept
when the graph changes, and the strengths follow. A pair that is no edge has a deviation too, which means nothing until
it becomes one. So the state has the same dimension on every graph, and a move is a plain Metropolis step:

1. each flip of a pair, or each swap of an edge for a non-edge, is given odds in the square root of the evidence that it
   would gain to first order (Zanella's balanced proposal, JASA 115, 2020), and one of them is drawn;
2. the strengths of the graph that it leads to are fitted, and with the deviations kept they are where they would be;
3. it is accepted by the exact posterior there, the volume that the deviations span, and the odds of the way back.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._graph_odds import GraphOdds
from ._kernel import RandomSource
from ._laplace import (
    Conditions,
    LaplaceFit,
    View,
    fit_strengths,
    padded,
    selected,
    strengths_of,
    trimmed,
    view_of,
    where,
)
from ._problem import Problem
from ._slabs import Slab, StrengthLaw
from ._theta import log_density_of_theta

__all__ = ["Position", "StrengthPosterior", "flip", "redraw_strengths", "shift_one", "swap"]

# Log-odds of a move beyond which it is drawn no more often: first order overrates what it cannot see to the end of.
_LARGEST_LOG_ODDS = 20.0
# Edges that may leave in a swap, picked at random; every non-edge may take their place.
_MOST_LEAVING = 16
# Two modes are the same if they are no further apart than this, in standard deviations.
_SAME_MODE = 0.3


class Position(NamedTuple):
    """Where the chains are."""

    view: View
    deviation: Tensor  # (chains, free pairs and parameters), standard normal where there is no edge
    log_density: Tensor  # (chains,) of the two


class StrengthPosterior(NamedTuple):
    """What is sampled from, while the law of strengths and the noise level stay."""

    problem: Problem
    slab: Slab
    conditions: Conditions
    odds: GraphOdds
    # On the way to the draws, graphs are weighed by Laplace's evidence instead, as strengths that a few edges too many
    # leave undetermined are no Gaussian.
    is_on_the_way: bool

    def view(self, is_edge: Tensor, z: Tensor, theta: Tensor) -> View:
        """Fit graphs, from z (chains, free pairs) and theta."""
        return view_of(self.problem, self.slab, self.conditions, is_edge, z, theta)

    def at(self, view: View, deviation: Tensor) -> Position:
        """The position with these deviations."""
        return Position(view, deviation, self._log_density(view.fit, deviation))

    def parameters(self, position: Position) -> tuple[Tensor, Tensor]:
        """z (chains, n_edges) and theta of chains."""
        fit = position.view.fit
        return (fit.mode, fit.theta) if self.is_on_the_way else fit.at(_of_fit(fit, position.deviation))

    def _log_density(self, fit: LaplaceFit, deviation: Tensor) -> Tensor:
        (location, width), noise_std, _ = self.conditions
        n_free = fit.is_edge.shape[1]
        z, theta = (fit.mode, fit.theta) if self.is_on_the_way else fit.at(_of_fit(fit, deviation))
        squares = self.squares(fit, z, theta)
        density = log_density_of_theta(self.problem, theta, squares, noise_std) + fit.log_volume
        density = density - self.problem.n_measured * noise_std.log()  # for comparisons between chains
        scaled = (z - location[:, None]) / width[:, None]
        density = density - (fit.is_real * (0.5 * scaled**2 + width.log()[:, None])).sum(1)
        if not self.is_on_the_way:
            # Every coordinate has a factor of (2 pi)^(1/2), of its slab or of the deviation that means nothing.
            density = density - 0.5 * (~fit.is_edge * deviation[:, :n_free] ** 2).sum(1)
            is_admissible = (self.problem.filter.constrain(theta) == theta).all(1) & fit.is_found
            density = torch.where(is_admissible, density, -torch.inf)
        return density.nan_to_num(-torch.inf, posinf=-torch.inf, neginf=-torch.inf)

    def log_evidence(self, position: Position) -> Tensor:
        """Log-density (chains,) over that of the Gaussian: an estimate of the graph's evidence from one draw."""
        if self.is_on_the_way:
            return position.log_density
        return position.log_density + 0.5 * position.deviation.square().sum(1)

    def squares(self, fit: LaplaceFit, z: Tensor, theta: Tensor) -> Tensor:
        """Sum (chains,) of squared residuals."""
        adjacency = self.problem.assemble(strengths_of(self.slab, fit, z))
        return self.problem.residuals(adjacency, theta).square().sum((-2, -1))


def _of_fit(fit: LaplaceFit, deviation: Tensor) -> Tensor:
    """The deviations (chains, n) that belong to edges and theta."""
    n_free = fit.is_edge.shape[1]
    return torch.cat([deviation.gather(1, fit.places) * fit.is_real, deviation[:, n_free:]], 1)


def flip(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer every chain to make an edge of a pair, or to take one off."""
    view, (which, threshold) = position.view, (rng.uniform(), rng.uniform())
    gains, z = _gains_of_flips(posterior, view)
    pair, way_there = _drawn(gains, which)
    is_flipped = torch.zeros_like(view.fit.is_edge).scatter_(1, pair[:, None], True)
    start = torch.where(is_flipped, z, view.fit.spread(view.fit.mode))
    new = posterior.at(posterior.view(view.fit.is_edge ^ is_flipped, start, view.fit.theta), position.deviation)
    gains_back, z_back = _gains_of_flips(posterior, new.view)
    way_back = _log_shares(gains_back).gather(1, pair[:, None])[:, 0]
    is_possible = torch.isfinite(gains).any(1) & torch.isfinite(position.log_density)
    gain = new.log_density - position.log_density + posterior.odds.of_flip(view.fit.is_edge, pair)
    is_accepted = is_possible & (threshold.log() < gain + way_back - way_there)
    start = torch.where(is_flipped, z_back, new.view.fit.spread(new.view.fit.mode))
    return _moved(position, new, _leads_back(posterior, position, new, start, is_accepted))


def swap(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer every chain to let an edge leave its pair for another; its deviation goes along."""
    view, (which, threshold) = position.view, (rng.uniform(), rng.uniform())
    n_free = view.fit.is_edge.shape[1]
    leaving = _some_edges(view.fit.is_edge & posterior.odds.is_uncertain, rng.uniform(n_free))
    gains, z = _gains_of_swaps(posterior, view, leaving)
    place, way_there = _drawn(gains.flatten(1), which)
    row, added = place[:, None] // n_free, place[:, None] % n_free
    taken = leaving.gather(1, row).clamp_min(0)
    is_edge = view.fit.is_edge.scatter(1, taken, False).scatter(1, added, True)
    start = view.fit.spread(view.fit.mode).scatter(1, added, z.flatten(1).gather(1, place[:, None]))
    deviation = position.deviation.scatter(1, taken, position.deviation.gather(1, added))
    deviation = deviation.scatter(1, added, position.deviation.gather(1, taken))
    new = posterior.at(posterior.view(is_edge, start, view.fit.theta), deviation)
    gains_back, z_back = _gains_of_swaps(posterior, new.view, leaving.scatter(1, row, added))
    way_back = _log_shares(gains_back.flatten(1)).gather(1, row * n_free + taken)[:, 0]
    is_possible = torch.isfinite(gains.flatten(1)).any(1) & torch.isfinite(position.log_density)
    gain = new.log_density - position.log_density
    gain = gain + posterior.odds.of_swap(view.fit.is_edge, taken[:, 0], added[:, 0])
    is_accepted = is_possible & (threshold.log() < gain + way_back - way_there)
    start = z_back.flatten(1).gather(1, row * n_free + taken)
    start = new.view.fit.spread(new.view.fit.mode).scatter(1, taken, start)
    return _moved(position, new, _leads_back(posterior, position, new, start, is_accepted))


def redraw_strengths(posterior: StrengthPosterior, position: Position, kept: float, rng: RandomSource) -> Position:
    """Offer new deviations: a share `kept` of the old ones, and the rest drawn anew.

    Where the posterior is the Gaussian of the fit, this is accepted always.
    """
    normal, threshold = rng.normal(position.deviation.shape[1]), rng.uniform()
    new = posterior.at(position.view, kept * position.deviation + (1 - kept**2) ** 0.5 * normal)
    return where(threshold.log() < posterior.log_evidence(new) - posterior.log_evidence(position), new, position)


def shift_one(posterior: StrengthPosterior, position: Position, rng: RandomSource) -> Position:
    """Offer one deviation of an edge or of theta a step that may be long, for tails that are no Gaussian's."""
    fit, n_free = position.view.fit, position.view.fit.is_edge.shape[1]
    which, step, threshold = rng.uniform(), torch.tan(torch.pi * (rng.uniform() - 0.5)), rng.uniform()
    counts = torch.cat([fit.is_edge, torch.ones_like(position.deviation[:, n_free:], dtype=torch.bool)], 1)
    place, _ = _drawn(torch.where(counts, 0.0, -torch.inf).to(step), which)
    new = posterior.at(position.view, position.deviation.scatter_add(1, place[:, None], step[:, None]))
    return where(threshold.log() < new.log_density - position.log_density, new, position)


def _gains_of_flips(posterior: StrengthPosterior, view: View) -> tuple[Tensor, Tensor]:
    """Evidence (chains, free pairs) that a flip gains to first order, and z of an edge that comes."""
    fit, outlook = view
    log_odds, z = posterior.slab.log_evidence(outlook.slope, outlook.curvature, _column(posterior.conditions.law))
    log_odds = log_odds + posterior.odds.table
    gains = torch.where(fit.is_edge, -log_odds, log_odds)
    return torch.where(posterior.odds.is_uncertain, gains, -torch.inf), z


def _gains_of_swaps(posterior: StrengthPosterior, view: View, leaving: Tensor) -> tuple[Tensor, Tensor]:
    """The same (chains, leaving, free pairs) for swaps of edges given by their numbers, -1 where there is none."""
    (fit, outlook), slab, law = view, posterior.slab, _column(posterior.conditions.law)
    is_at = (fit.places[:, None] == leaving[..., None]) & fit.is_real[:, None]
    place = is_at.to(torch.int8).argmax(-1)
    variance = outlook.covariance.diagonal(dim1=-2, dim2=-1).gather(1, place)
    along = outlook.cross @ outlook.covariance.gather(2, place[:, None].expand(-1, outlook.covariance.shape[1], -1))
    z = fit.mode.gather(1, place)
    # Without the edge, its strength is zero and all else has followed; what others would add is judged from there.
    change = -slab.strength(z) / slab.slope(z)
    slope = outlook.slope[..., None] - along * (change / variance)[:, None]
    curvature = outlook.curvature[..., None] + along**2 / variance[:, None]
    added, new_z = slab.log_evidence(slope.mT, curvature.mT, StrengthLaw(*(part[..., None] for part in law)))
    log_odds, _ = slab.log_evidence(outlook.slope, outlook.curvature, law)
    table = posterior.odds.table
    gains = added + table[:, None] - (log_odds + table).gather(1, leaving.clamp_min(0))[..., None]
    is_swap = (posterior.odds.is_uncertain & ~fit.is_edge)[:, None] & is_at.any(-1)[..., None]
    return torch.where(is_swap, gains, -torch.inf), new_z


def _some_edges(is_edge: Tensor, order: Tensor) -> Tensor:
    """Numbers (chains, places) of edges picked at random, -1 where a chain has fewer."""
    picked = torch.where(is_edge, order, -1.0).topk(min(_MOST_LEAVING, is_edge.shape[1]), dim=1)
    return torch.where(picked.values >= 0, picked.indices, -1)


def _log_shares(gains: Tensor) -> Tensor:
    """Log-probabilities (chains, moves) with which moves are drawn."""
    return (0.5 * gains).nan_to_num(-torch.inf).clamp_max(_LARGEST_LOG_ODDS).log_softmax(1)


def _drawn(gains: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """A move (chains,) drawn for each chain, and its log-probability."""
    log_shares = _log_shares(gains)
    sums = log_shares.exp().nan_to_num(0.0).cumsum(1)
    drawn = torch.searchsorted(sums, uniform[:, None] * sums[:, -1:]).clamp_max(gains.shape[1] - 1)
    return drawn[:, 0], log_shares.gather(1, drawn)[:, 0]


def _column(law: StrengthLaw) -> StrengthLaw:
    return StrengthLaw(law.location[:, None], law.width[:, None])


def _leads_back(
    posterior: StrengthPosterior, position: Position, new: Position, start: Tensor, is_accepted: Tensor
) -> Tensor:
    """Which of the accepted moves (chains,) lead back to the fit that they came from, beginning at `start`.

    A graph may have several modes, and which is found depends on where the search begins. A move whose way back would
    lead to another mode has no way back, and is not made.
    """
    chosen = is_accepted.nonzero()[:, 0]
    if posterior.is_on_the_way or not len(chosen):
        return is_accepted
    fit, back = selected(position.view.fit, chosen), selected(new.view.fit, chosen)
    again = fit_strengths(
        posterior.problem,
        posterior.slab,
        selected(posterior.conditions, chosen),
        fit.is_edge,
        start[chosen],
        back.theta,
    )
    z = again.spread(again.mode).gather(1, fit.places)
    distance = fit.deviation_of(z, again.theta).norm(dim=1)
    return is_accepted.index_put((chosen,), again.is_found & (distance < _SAME_MODE))


def _moved(position: Position, new: Position, is_accepted: Tensor) -> Position:
    n_edges = max(part.view.fit.mode.shape[1] for part in (position, new))
    merged = where(
        is_accepted,
        new._replace(view=padded(new.view, n_edges)),
        position._replace(view=padded(position.view, n_edges)),
    )
    return merged._replace(view=trimmed(merged.view))
