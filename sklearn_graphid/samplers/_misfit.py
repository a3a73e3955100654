"""Are residuals what noise would leave? Pairs that are known not to be edges tell.

Where the model is right, the residuals along the derivative by such a pair's strength are noise, and their squares are
one on average, in units of the noise. Where it is wrong, as a linear model of a power grid is, some of what is left
looks like edges: to known non-edges, where it is seen to be wrong, and just so to unknown ones, where it would be
taken for evidence. How much larger the squares are is by how much evidence has to be discounted (the quasi-likelihood
of Wedderburn, Biometrika 61, 1974).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from scipy.stats import chi2
from torch import Tensor

from ..filters._edge_derivatives import EdgeDerivatives
from ..graphs import EdgeSpace
from ._problem import Problem

__all__ = ["Misfit", "misfit_of"]

# Non-edges that are looked at, evenly spread over all of them.
_MOST_PAIRS = 500
# Derivatives are differences over a change by this share of the largest strength, in double precision.
_PROBE = 1e-6
# Eigenvalues, relative to the largest, that are rounding errors.
_SINGULAR = 1e-10
# A pair tells nothing if what was fitted can do all but this share of what it can do.
_SMALLEST_SHARE = 1e-6
# Squares that noise would make so large with at least this probability may be noise.
_SIGNIFICANT = 1e-3


class Misfit(NamedTuple):
    """What residuals hold beside noise."""

    variance: float  # of a residual, with what was fitted accounted for
    factor: float  # by which it has to grow for known non-edges to look like ones
    n_free: int = 0  # degrees of freedom that the variance was estimated with


def misfit_of(problem: Problem, strengths: Tensor, theta: Tensor) -> Misfit:
    """How far known non-edges look like edges to what a system leaves of the outputs.

    Parameters
    ----------
    problem : Problem
        In double precision.
    strengths : Tensor (free pairs,)
        Of a system that was identified; zero where there is no edge.
    theta : Tensor (parameters,)
        Of the same system.

    Returns
    -------
    Misfit
        Its factor is one where the difference may be due to chance, or where nothing can be told.
    """
    absent, fitted = _some_absent(problem), problem.space.select((strengths != 0).nonzero()[:, 0])
    if not absent.n_free:
        return Misfit(0.0, 1.0)
    near = _near(problem, strengths, theta, fitted, absent)
    # Where only the product of theta and strengths matters, what was fitted is more than what can be.
    rank = int(torch.linalg.matrix_rank(near.gram, rtol=_SINGULAR, hermitian=True))
    inverse = torch.linalg.pinv(near.gram, rtol=_SINGULAR, hermitian=True)
    n_free = max(1, problem.n_measured - rank)
    variance = float(near.squares - near.pull @ inverse @ near.pull) / n_free
    slope = near.slope - near.cross @ inverse @ near.pull
    products = near.products - near.cross @ inverse @ near.cross.mT
    curvature = products.diagonal()
    is_told = curvature > _SMALLEST_SHARE * near.products.diagonal()
    if variance <= 0 or rank >= problem.n_measured or not is_told.any():
        return Misfit(0.0, 1.0)
    scale = curvature[is_told].rsqrt()
    correlation = scale[:, None] * products[is_told][:, is_told] * scale
    factor = float((slope[is_told] * scale).square().mean()) / variance
    # Squares of correlated numbers vary as much as those of fewer that are not.
    n_independent = float(len(scale) ** 2 / correlation.square().sum())
    largest = chi2.isf(_SIGNIFICANT, n_independent) / n_independent
    return Misfit(variance, factor if factor > largest else 1.0, n_free)


class _Near(NamedTuple):
    """Products of residuals and derivatives, by the n strengths and parameters that were fitted, and by non-edges."""

    squares: Tensor  # () of the residuals
    pull: Tensor  # (n,) of the residuals with what was fitted
    gram: Tensor  # (n, n)
    slope: Tensor  # (non-edges,) of the residuals with non-edges
    products: Tensor  # (non-edges, non-edges)
    cross: Tensor  # (non-edges, n)


def _near(problem: Problem, strengths: Tensor, theta: Tensor, fitted: EdgeSpace, absent: EdgeSpace) -> _Near:
    adjacency, theta = problem.assemble(strengths[None]), theta[None]
    outputs, by_theta = problem.filter.theta_jacobian(adjacency, theta, problem.inputs)
    residuals, by_theta = (problem.targets - outputs) * problem.measured, by_theta.movedim(-1, 1) * problem.measured
    changes = problem.edge_changes(adjacency, theta)
    probe = _PROBE * problem.assemble(strengths).abs().amax()[None]

    def by_strengths(space: EdgeSpace) -> EdgeDerivatives:
        numbers = torch.arange(space.n_free, device=theta.device)
        derivatives = changes.derivatives(*space.entries(numbers[None]), theta, probe)
        return derivatives if problem.is_complete else derivatives.masked(problem.measured)

    by_fitted, by_absent = by_strengths(fitted), by_strengths(absent)
    mixed, flat = by_fitted.along_many(by_theta), by_theta.flatten(2)
    upper, lower = torch.cat([by_fitted.products(by_fitted), mixed], 2), torch.cat([mixed.mT, flat @ flat.mT], 2)
    return _Near(
        squares=residuals.square().sum(),
        pull=torch.cat([by_fitted.along(residuals), (by_theta * residuals[:, None]).sum((-2, -1))], 1)[0],
        gram=torch.cat([upper, lower], 1)[0],
        slope=by_absent.along(residuals)[0],
        products=by_absent.products(by_absent)[0],
        cross=torch.cat([by_absent.products(by_fitted), by_absent.along_many(by_theta)], 2)[0],
    )


def _some_absent(problem: Problem) -> EdgeSpace:
    """Pairs that are known not to be edges, and not too many of them."""
    is_free = problem.scatter(torch.ones(problem.space.n_free, dtype=problem.base.dtype, device=problem.base.device))
    absent = EdgeSpace.of_mask(((is_free == 0) & (problem.presence == 0)).cpu().numpy(), problem.space.directed)
    step = max(1, -(-absent.n_free // _MOST_PAIRS))
    return absent.select(slice(None, None, step)).to(problem.base.device)
