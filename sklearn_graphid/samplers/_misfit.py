"""Are residuals what noise would leave? Pairs that are known not to be edges tell.

Where the model is right, the residuals along the derivative by such a pair's strength are noise, and their squares are
one on average, in units of the noise. Where it is wrong, as a linear model of a power grid is, some of what is left
looks like edges: to known non-edges, where it is seen to be wrong, and just so to unknown ones, where it would be
taken for evidence. How much larger the squares are is by how much evidence has to be discounted (the quasi-likelihood
of Wedderburn, Biometrika 61, 1974).

Where all edges were taken to be alike, the residuals along the derivatives by the strengths of the edges tell whether
they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from scipy.stats import chi2, f
from torch import Tensor

from ..filters._edge_changes import EdgeDerivatives
from ..graphs import EdgeSpace
from ._problem import Problem

__all__ = ["Misfit", "StrengthsTest", "gains_of_absent", "misfit_of", "strengths_test"]

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
# Edges whose strengths are tested, evenly spread over all of them, and measurements for each at least: more would cost
# memory, or leave nothing to estimate the noise with.
_MOST_EDGES, _FEWEST_PER_EDGE = 300, 3


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
    variance, slope, products, is_told, n_free = _left_by_fit(problem, near)
    curvature = products.diagonal()
    if not is_told.any():
        return Misfit(0.0, 1.0)
    scale = curvature[is_told].rsqrt()
    correlation = scale[:, None] * products[is_told][:, is_told] * scale
    factor = float((slope[is_told] * scale).square().mean()) / variance
    # Squares of correlated numbers vary as much as those of fewer that are not.
    n_independent = float(len(scale) ** 2 / correlation.square().sum())
    largest = chi2.isf(_SIGNIFICANT, n_independent) / n_independent
    return Misfit(variance, factor if factor > largest else 1.0, n_free)


def gains_of_absent(problem: Problem, strengths: Tensor, theta: Tensor, absent: EdgeSpace, signed: bool) -> Tensor:
    """What an edge at each of some pairs would add to the log-likelihood, (pairs,), all that was fitted following.

    To first order, with the strength that fits best, which is above zero unless `signed`. The other arguments are those
    of `misfit_of`, and `absent` holds tensors.
    """
    fitted = problem.space.select((strengths != 0).nonzero()[:, 0])
    gains = [strengths.new_zeros(0)]
    for part in torch.arange(absent.n_free, device=theta.device).split(_MOST_PAIRS):
        left = _left_by_fit(problem, _near(problem, strengths, theta, fitted, absent.select(part)))
        counts = left.is_told if signed else left.is_told & (left.slope > 0)
        curvature = left.products.diagonal().where(counts, torch.ones_like(left.slope))
        gains.append(torch.where(counts, 0.5 * left.slope**2 / curvature, 0.0) / max(left.variance, 1e-300))
    return torch.cat(gains)


class _Left(NamedTuple):
    """What is left of residuals and of derivatives by non-edges when all that was fitted follows."""

    variance: float  # of a residual
    slope: Tensor  # (non-edges,) products of residuals and derivatives
    products: Tensor  # (non-edges, non-edges) of derivatives
    is_told: Tensor  # (non-edges,) of bool: whether the data tell of a non-edge
    n_free: int  # measurements less what was fitted


def _left_by_fit(problem: Problem, near: _Near) -> _Left:
    # Where only the product of theta and strengths matters, what was fitted is more than what can be.
    rank = int(torch.linalg.matrix_rank(near.gram, rtol=_SINGULAR, hermitian=True))
    inverse = torch.linalg.pinv(near.gram, rtol=_SINGULAR, hermitian=True)
    n_free = max(1, problem.n_measured - rank)
    variance = float(near.squares - near.pull @ inverse @ near.pull) / n_free
    products = near.products - near.cross @ inverse @ near.cross.mT
    is_told = products.diagonal() > _SMALLEST_SHARE * near.products.diagonal()
    if variance <= 0 or rank >= problem.n_measured:
        is_told = torch.zeros_like(is_told)
    return _Left(variance, near.slope - near.cross @ inverse @ near.pull, products, is_told, n_free)


class _Near(NamedTuple):
    """Products of residuals and derivatives, by the n strengths and parameters that were fitted, and by non-edges."""

    squares: Tensor  # () of the residuals
    pull: Tensor  # (n,) of the residuals with what was fitted
    gram: Tensor  # (n, n)
    slope: Tensor  # (non-edges,) of the residuals with non-edges
    products: Tensor  # (non-edges, non-edges)
    cross: Tensor  # (non-edges, n)


class StrengthsTest(NamedTuple):
    """Whether edges that were taken to be alike have strengths of their own."""

    p_value: float  # of an F test that they are alike
    gain: float  # share of the residuals' variance that strengths would explain, beyond what they explain by chance


def strengths_test(problem: Problem, graph: Tensor, theta: Tensor) -> StrengthsTest:
    """Test whether strengths of their own, for the edges of a graph, would explain more of the outputs.

    Residuals are regressed on the derivatives of the outputs by theta, and by the strengths of the edges too; the gain
    is that of the first order.

    Parameters
    ----------
    problem : Problem
        In double precision, and with all edges free.
    graph : Tensor (free pairs,)
        Zeros and ones.
    theta : Tensor (parameters,)
        Fitted to the graph.
    """
    edges = (graph != 0).nonzero()[:, 0]
    n_most = min(_MOST_EDGES, problem.n_measured // _FEWEST_PER_EDGE)
    if not len(edges) or not n_most:
        return StrengthsTest(1.0, 0.0)
    tested = problem.space.select(edges[:: -(-len(edges) // n_most)])
    near = _linearise(problem, graph, theta)
    pull, gram = near.products(near.by_strengths(tested))
    if not bool(torch.isfinite(gram).all()):  # a rational filter near a pole
        return StrengthsTest(1.0, 0.0)
    squares, by_theta = float(near.residuals.square().sum()), slice(tested.n_free, None)
    before, n_before = _explained(pull[by_theta], gram[by_theta, by_theta])
    after, n_after = _explained(pull, gram)
    n_free, n_more = problem.n_measured - n_after, n_after - n_before
    # A comparison with nan is False.
    if not (n_free > 0 and n_more > 0 and squares > after >= before):
        return StrengthsTest(1.0, 0.0)
    variance, usual = (squares - after) / n_free, (squares - before) / (n_free + n_more)
    return StrengthsTest(float(f.sf((after - before) / n_more / variance, n_more, n_free)), 1 - variance / usual)


def _explained(pull: Tensor, gram: Tensor) -> tuple[float, int]:
    """Sum of squares that a regression explains, and its rank."""
    scale = gram.diagonal().clamp_min(torch.finfo(gram.dtype).tiny).rsqrt()
    values, vectors = torch.linalg.eigh(scale[:, None] * gram * scale)
    is_kept = values > _SINGULAR
    return float((vectors.mT @ (scale * pull))[is_kept].square() @ (1 / values[is_kept])), int(is_kept.sum())


class _Linearised(NamedTuple):
    """A system to first order."""

    residuals: Tensor  # (1, experiments, nodes)
    by_theta: Tensor  # (1, parameters, experiments, nodes)
    by_strengths: Callable[[EdgeSpace], EdgeDerivatives]

    def products(self, by_fitted: EdgeDerivatives) -> tuple[Tensor, Tensor]:
        """Products (n,) of the residuals with n derivatives by strengths and by theta, and (n, n) of these."""
        mixed, flat = by_fitted.along_many(self.by_theta), self.by_theta.flatten(2)
        upper, lower = torch.cat([by_fitted.products(by_fitted), mixed], 2), torch.cat([mixed.mT, flat @ flat.mT], 2)
        by_parameters = (self.by_theta * self.residuals[:, None]).sum((-2, -1))
        pull = torch.cat([by_fitted.along(self.residuals), by_parameters], 1)
        return pull[0], torch.cat([upper, lower], 1)[0]


def _linearise(problem: Problem, strengths: Tensor, theta: Tensor) -> _Linearised:
    adjacency, theta = problem.assemble(strengths[None]), theta[None]
    outputs, by_theta = problem.filter.theta_jacobian(adjacency, theta, problem.inputs)
    residuals, by_theta = (problem.targets - outputs) * problem.measured, by_theta.movedim(-1, 1) * problem.measured
    changes = problem.edge_changes(adjacency, theta)
    probe = _PROBE * problem.assemble(strengths).abs().amax()[None]

    def by_strengths(space: EdgeSpace) -> EdgeDerivatives:
        numbers = torch.arange(space.n_free, device=theta.device)
        derivatives = changes.derivatives(*space.entries(numbers[None]), theta, probe)
        return derivatives if problem.is_complete else derivatives.masked(problem.measured)

    return _Linearised(residuals, by_theta, by_strengths)


def _near(problem: Problem, strengths: Tensor, theta: Tensor, fitted: EdgeSpace, absent: EdgeSpace) -> _Near:
    system = _linearise(problem, strengths, theta)
    by_fitted, by_absent = system.by_strengths(fitted), system.by_strengths(absent)
    pull, gram = system.products(by_fitted)
    return _Near(
        squares=system.residuals.square().sum(),
        pull=pull,
        gram=gram,
        slope=by_absent.along(system.residuals)[0],
        products=by_absent.products(by_absent)[0],
        cross=torch.cat([by_absent.products(by_fitted), by_absent.along_many(system.by_theta)], 2)[0],
    )


def _some_absent(problem: Problem) -> EdgeSpace:
    """Pairs that are known not to be edges, and not too many of them."""
    is_free = problem.scatter(torch.ones(problem.space.n_free, dtype=problem.base.dtype, device=problem.base.device))
    absent = EdgeSpace.of_mask(((is_free == 0) & (problem.presence == 0)).cpu().numpy(), problem.space.directed)
    step = max(1, -(-absent.n_free // _MOST_PAIRS))
    return absent.select(slice(None, None, step)).to(problem.base.device)
