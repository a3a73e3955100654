"""What a graph next to a fitted one would gain, to first order, and where its fit would be."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._expansion import Expansion
from ._slabs import StrengthLaw
from ._strength_posterior import StrengthPosterior

__all__ = ["Change", "first_order_update", "gains_of_flips", "gains_of_swaps"]

# How far others are taken to follow a change at once, in units of z; further, and the first order says little.
_LARGEST_SHIFT = 1.0


class Change(NamedTuple):
    """An edge that goes and one that comes, by their places among the candidates, (chains,); -1 where there is none."""

    taken: Tensor
    added: Tensor
    z: Tensor  # (chains,) of the edge that comes

    def of(self, is_edge: Tensor, candidates: Tensor) -> Tensor:
        """The graphs (chains, free pairs) after the change."""
        for place, is_there in ((self.taken, False), (self.added, True)):
            number = candidates[place.clamp_min(0)][:, None]
            changed = is_edge.scatter(1, number, is_there)
            is_edge = torch.where((place >= 0)[:, None], changed, is_edge)
        return is_edge


def gains_of_flips(posterior: StrengthPosterior, expansion: Expansion) -> tuple[Tensor, Tensor]:
    """Evidence (chains, candidates) that a flip gains to first order, and z of an edge that comes."""
    (fit, first_order), odds, candidates = expansion, posterior.odds, posterior.candidates
    log_odds, z = posterior.slab.log_evidence(
        first_order.slope, first_order.curvature, _column(posterior.conditions.law)
    )
    log_odds = log_odds + odds.table[:, candidates]
    gains = torch.where(fit.is_edge[:, candidates], -log_odds, log_odds)
    return torch.where(odds.is_uncertain[candidates], gains, -torch.inf), z


def gains_of_swaps(posterior: StrengthPosterior, expansion: Expansion, leaving: Tensor) -> tuple[Tensor, Tensor]:
    """The same (chains, leaving, candidates) for swaps of edges, given by their places among the candidates or -1."""
    (fit, first_order), slab, law = expansion, posterior.slab, _column(posterior.conditions.law)
    response, variance, change, is_edge = _without(posterior, expansion, leaving)
    along = first_order.cross @ response
    # Without the edge, its strength is zero and all else has followed; others are judged from there.
    slope = first_order.slope[..., None] - along * (change / variance)[:, None]
    curvature = first_order.curvature[..., None] + along**2 / variance[:, None]
    added, z = slab.log_evidence(slope.mT, curvature.mT, StrengthLaw(*(part[..., None] for part in law)))
    log_odds, _ = slab.log_evidence(first_order.slope, first_order.curvature, law)
    table = posterior.odds.table[:, posterior.candidates]
    gains = added + table[:, None] - (log_odds + table).gather(1, leaving.clamp_min(0))[..., None]
    can_come = (posterior.odds.is_uncertain & ~fit.is_edge)[:, posterior.candidates]
    return torch.where(can_come[:, None] & is_edge[..., None], gains, -torch.inf), z


def _without(
    posterior: StrengthPosterior, expansion: Expansion, leaving: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What edges (chains, leaving) that go do to the others.

    Returns the columns (chains, n, leaving) of the covariance at these edges, their variances, by how much z has to
    change for the strength to be zero to first order, and whether there is such an edge.
    """
    fit, covariance = expansion.fit, expansion.first_order.covariance
    number = posterior.candidates[leaving.clamp_min(0)]
    is_at = (fit.places[:, None] == number[..., None]) & fit.is_real[:, None] & (leaving >= 0)[..., None]
    place = is_at.to(torch.int8).argmax(-1)
    columns = covariance.gather(2, place[:, None].expand(-1, covariance.shape[1], -1))
    variance, z = covariance.diagonal(dim1=-2, dim2=-1).gather(1, place), fit.mode.gather(1, place)
    return columns, variance, -posterior.slab.strength(z) / posterior.slab.slope(z), is_at.any(-1)


def first_order_update(posterior: StrengthPosterior, expansion: Expansion, change: Change) -> tuple[Tensor, Tensor]:
    """z (chains, free pairs) and theta where a change leads them to first order: a start for the fit."""
    (fit, first_order), n_edges = expansion, expansion.fit.mode.shape[1]
    column, variance, to_zero, is_taken = (
        part[..., 0] for part in _without(posterior, expansion, change.taken[:, None])
    )
    cross = first_order.cross[torch.arange(len(column), device=column.device), change.added.clamp_min(0)]
    shift = torch.where(is_taken[:, None], column * (to_zero / variance)[:, None], 0.0)
    response = (first_order.covariance @ cross[..., None])[..., 0]
    through = column * ((cross * column).sum(1) / variance)[:, None]
    response = response - torch.where(is_taken[:, None], through, 0.0)
    coming = posterior.slab.strength(change.z) * (change.added >= 0)
    shift = shift - response * coming[:, None]
    largest = (_LARGEST_SHIFT * posterior.slab.unit(posterior.conditions.law))[:, None]
    z = fit.spread(fit.mode + shift[:, :n_edges].clamp(-largest, largest).nan_to_num(0.0))
    number = posterior.candidates[change.added.clamp_min(0)][:, None]
    z = torch.where((change.added >= 0)[:, None], z.scatter(1, number, change.z[:, None]), z)
    return z, fit.theta + shift[:, n_edges:].nan_to_num(0.0)


def _column(law: StrengthLaw) -> StrengthLaw:
    return StrengthLaw(law.location[:, None], law.width[:, None])
