"""What other graphs would fit, seen from one whose strengths are fitted.

The Gaussian of a fit tells, to first order, what each pair that comes or goes would do to the evidence, with all other
strengths fitted anew. Most pairs are out of the question, so only candidates are looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._laplace import LaplaceFit, Objective

__all__ = ["Expansion", "FirstOrder", "expand", "padded", "trimmed", "unexpanded"]

# How many numbers the derivatives that are looked at together may hold.
_NUMBERS_AT_ONCE = 2**23


class FirstOrder(NamedTuple):
    """What a pair that comes or goes would do to the fit, to first order.

    With strength w, an edge at a pair adds slope w - curvature w^2 / 2 to the log-likelihood over that of no edge, when
    all other strengths and theta follow.
    """

    slope: Tensor  # (chains, candidates)
    curvature: Tensor  # (chains, candidates)
    cross: Tensor  # (chains, candidates, n) products of derivatives with those by what is fitted
    covariance: Tensor  # (chains, n, n)


class Expansion(NamedTuple):
    """A graph and what lies around it."""

    fit: LaplaceFit
    first_order: FirstOrder


def unexpanded(fit: LaplaceFit) -> Expansion:
    """A fit around which no candidate is looked at: for what needs the fit alone, as tables of candidates are large."""
    none = fit.theta[:, :0]
    return Expansion(fit, FirstOrder(none, none, none[..., None], none[..., None]))


def expand(objective: Objective, fit: LaplaceFit, candidates: Tensor) -> Expansion:
    """A fit, and what pairs given by their numbers (candidates,) would do to it."""
    near, n_chains = objective.linearized(fit.mode, fit.theta), len(fit.mode)
    covariance = torch.cholesky_inverse(fit.factor)
    parts: list[tuple[Tensor, Tensor]] = []
    # Products of all candidates with all edges are the largest table of a fit, so there is one copy of it.
    cross = covariance.new_empty(n_chains, len(candidates), covariance.shape[1])
    n_edges, done = fit.mode.shape[1], 0
    size = max(1, _NUMBERS_AT_ONCE // max(1, near.residuals.numel()))
    for numbers in candidates.split(size):
        derivatives = objective.derivatives(near.changes, fit.theta, numbers.expand(n_chains, -1))
        with_fitted = cross[:, done : done + len(numbers)]
        with_fitted[..., :n_edges] = derivatives.products(near.by_strengths)
        with_fitted[..., n_edges:] = derivatives.along_many(near.by_theta)
        curvature = derivatives.squares() - ((with_fitted @ covariance) * with_fitted).sum(-1)
        parts.append((derivatives.along(near.residuals), curvature))
        done += len(numbers)
    slope, curvature = (torch.cat(part, 1) for part in zip(*parts, strict=True))
    own_slope, own_curvature = (fit.spread(part)[:, candidates] for part in _of_edges(objective, fit, covariance))
    is_edge = fit.is_edge[:, candidates]
    slope, curvature = torch.where(is_edge, own_slope, slope), torch.where(is_edge, own_curvature, curvature)
    return Expansion(fit, FirstOrder(slope, curvature, cross, covariance))


def _of_edges(objective: Objective, fit: LaplaceFit, covariance: Tensor) -> tuple[Tensor, Tensor]:
    """Slope and curvature (chains, n_edges) of edges: what is known of their strengths, their own prior taken off."""
    slab, law = objective.slab, objective.conditions.law
    variance = covariance.diagonal(dim1=-2, dim2=-1)[:, : fit.mode.shape[1]]
    strength, by_z, prior = slab.strength(fit.mode), slab.slope(fit.mode), law.width[:, None] ** -2
    curvature = (1 / variance - prior - slab.bend(fit.mode, law)).clamp_min(0.0) / by_z**2
    return curvature * strength + (fit.mode - law.location[:, None]) * prior / by_z, curvature


def padded(expansion: Expansion, n_edges: int) -> Expansion:
    """The same expansion, filled up to `n_edges` places for edges."""
    fit, first_order = expansion
    n_more, n_parameters = n_edges - fit.mode.shape[1], fit.theta.shape[1]
    if n_more <= 0:
        return expansion
    pad = torch.nn.functional.pad
    edges, parameters, more = torch.arange(n_edges + n_parameters, device=fit.places.device).split(
        [fit.mode.shape[1], n_parameters, n_more]
    )
    order = torch.cat([edges, more, parameters])  # what is filled up comes last at first, and then before theta
    factor = pad(fit.factor, (0, n_more, 0, n_more))
    diagonal = factor.diagonal(dim1=-2, dim2=-1)
    diagonal[:, -n_more:] = 1.0
    covariance = pad(first_order.covariance, (0, n_more, 0, n_more))
    of_edges, of_theta = first_order.cross.split([fit.mode.shape[1], n_parameters], -1)
    zeros = of_edges.new_zeros(1, 1, 1).expand(*of_edges.shape[:2], n_more)
    return Expansion(
        fit._replace(
            places=pad(fit.places, (0, n_more)),
            is_real=pad(fit.is_real, (0, n_more)),
            mode=pad(fit.mode, (0, n_more)),
            factor=factor[:, order][:, :, order],
        ),
        first_order._replace(
            cross=torch.cat([of_edges, zeros, of_theta], -1),
            covariance=covariance[:, order][:, :, order],
        ),
    )


def trimmed(expansion: Expansion) -> Expansion:
    """The same expansion without places that no chain needs."""
    fit, first_order = expansion
    n_before = fit.mode.shape[1]
    n_edges = min(n_before, max(1, int(fit.is_real.sum(1).max())))  # at least one, as in `Objective.of`
    if n_edges == n_before:
        return expansion
    kept = torch.cat([torch.arange(n_edges), torch.arange(n_before, fit.factor.shape[1])]).to(fit.places.device)
    return Expansion(
        fit._replace(
            places=fit.places[:, :n_edges],
            is_real=fit.is_real[:, :n_edges],
            mode=fit.mode[:, :n_edges],
            factor=fit.factor[:, kept][:, :, kept],
        ),
        first_order._replace(
            cross=first_order.cross[..., kept], covariance=first_order.covariance[:, kept][:, :, kept]
        ),
    )
