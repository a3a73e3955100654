"""The strengths of a given graph as a Gaussian around their best fit, and what other graphs would fit.

Strengths depend on one another far too much to be moved one by one. Given the graph, though, the posterior of all of
them and theta together is close to a Gaussian, whose mode a few steps of Gauss and Newton find. So to the sampler a
graph is this Gaussian. It tells, to first order, what each pair that comes or goes would do to the evidence, with all
other strengths fitted anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from ..filters._edge_derivatives import EdgeDerivatives, along_many
from ._problem import Problem
from ._slabs import Slab, StrengthLaw

__all__ = [
    "Conditions",
    "LaplaceFit",
    "Outlook",
    "View",
    "fit_strengths",
    "padded",
    "selected",
    "strengths_of",
    "trimmed",
    "view_of",
    "where",
]

# Steps of Gauss and Newton, and the squared distance to the mode, in standard deviations, that is close enough.
_N_ITERATIONS = 25
_CLOSE_ENOUGH = 2e-4
_LARGEST_STEP = 2.0
_N_SHORTENINGS = 6
_SHORTENING = 0.3
# Derivatives are differences over a change by this share of a typical strength, in double precision.
_PROBE = 1e-6
# How many numbers the derivatives that are looked at together may hold.
_NUMBERS_AT_ONCE = 2**23


class Conditions(NamedTuple):
    """What is given when strengths and theta are fitted."""

    law: StrengthLaw
    noise_std: Tensor  # (chains,)
    theta_precision: Tensor  # (chains, parameters) of a Gaussian around zero


class LaplaceFit(NamedTuple):
    """Each chain's graph, with the best strengths and theta, and how they may vary around it."""

    is_edge: Tensor  # (chains, free pairs) of bool
    places: Tensor  # (chains, n_edges) numbers of the edges, filled up where a chain has fewer than another
    is_real: Tensor  # (chains, n_edges) of bool: not filled up
    mode: Tensor  # (chains, n_edges) z of the strengths
    theta: Tensor  # (chains, parameters)
    factor: Tensor  # (chains, n, n) lower Cholesky factor of the precision, n = n_edges + parameters
    is_found: Tensor  # (chains,) of bool: whether this is the mode

    def at(self, deviation: Tensor) -> tuple[Tensor, Tensor]:
        """z and theta, at standardised deviations (chains, n) from the mode."""
        step = torch.linalg.solve_triangular(self.factor.mT, deviation[..., None], upper=True)[..., 0]
        n_edges = self.mode.shape[1]
        return self.mode + step[:, :n_edges], self.theta + step[:, n_edges:]

    def deviation_of(self, z: Tensor, theta: Tensor) -> Tensor:
        """The standardised deviation (chains, n) of z and theta from the mode."""
        steps = torch.cat([torch.where(self.is_real, z - self.mode, 0.0), theta - self.theta], 1)
        return (self.factor.mT @ steps[..., None])[..., 0]

    @property
    def log_volume(self) -> Tensor:
        """Log-determinant (chains,) of the map from standardised deviations to z and theta."""
        return -self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def spread(self, values: Tensor) -> Tensor:
        """Values (chains, n_edges) of edges at the places of all free pairs; zero where there is no edge."""
        zeros = values.new_zeros(self.is_edge.shape)
        return zeros.scatter_add(1, self.places, torch.where(self.is_real, values, 0.0))


class Outlook(NamedTuple):
    """What a pair that comes or goes would do to the fit, to first order.

    With strength w, an edge at a pair adds slope w - curvature w^2 / 2 to the log-likelihood over that of no edge, when
    all other strengths and theta follow.
    """

    slope: Tensor  # (chains, free pairs)
    curvature: Tensor  # (chains, free pairs)
    cross: Tensor  # (chains, free pairs, n) products of derivatives with those by what is fitted
    covariance: Tensor  # (chains, n, n)


class View(NamedTuple):
    """A graph and what lies around it."""

    fit: LaplaceFit
    outlook: Outlook


def strengths_of(slab: Slab, fit: LaplaceFit, z: Tensor) -> Tensor:
    """Strengths (chains, free pairs), zero where there is no edge."""
    return fit.spread(slab.strength(z))


class _Linearization(NamedTuple):
    """The fit near a point, in units of the noise."""

    residuals: Tensor  # (chains, experiments, nodes)
    by_strengths: EdgeDerivatives  # by z
    by_theta: Tensor  # (chains, parameters, experiments, nodes)
    gradient: Tensor  # (chains, n) of the log-posterior
    precision: Tensor  # (chains, n, n)


class _Objective(NamedTuple):
    """The posterior of strengths and theta given a graph."""

    problem: Problem
    slab: Slab
    conditions: Conditions
    is_edge: Tensor
    places: Tensor
    is_real: Tensor

    @classmethod
    def of(cls, problem: Problem, slab: Slab, conditions: Conditions, is_edge: Tensor) -> _Objective:
        n_edges = int(is_edge.sum(1).max())
        places = (~is_edge).to(torch.int8).argsort(dim=1, stable=True)[:, :n_edges]
        return cls(problem, slab, conditions, is_edge, places, is_edge.gather(1, places))

    def adjacency(self, z: Tensor) -> Tensor:
        strengths = torch.where(self.is_real, self.slab.strength(z), 0.0)
        return self.problem.assemble(strengths.new_zeros(self.is_edge.shape).scatter_add(1, self.places, strengths))

    def cost(self, z: Tensor, theta: Tensor) -> Tensor:
        """Minus the log-posterior (chains,), up to a constant."""
        squares = self.problem.residuals(self.adjacency(z), theta).square().sum((-2, -1))
        return self._cost(squares / self.conditions.noise_std**2, z, theta)

    def _cost(self, misfit: Tensor, z: Tensor, theta: Tensor) -> Tensor:
        (location, width), _, theta_precision = self.conditions
        unlikely = (self.is_real * ((z - location[:, None]) / width[:, None]) ** 2).sum(1)
        return 0.5 * (misfit + unlikely + (theta_precision * theta**2).sum(1))

    def with_best_theta(self, z: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """theta and the cost; where the filter is linear in theta, the best one for these strengths.

        Steps in which theta follows at once go far straighter through the valleys that it makes with strengths.
        """
        problem, (_, noise_std, theta_precision) = self.problem, self.conditions
        if problem.filter.linear_in_theta:
            design = problem.filter.design(self.adjacency(z), problem.inputs) * problem.measured
            design = design.flatten(2) / noise_std[:, None, None]
            targets = (problem.targets * problem.measured).flatten() / noise_std[:, None]
            factor, _ = torch.linalg.cholesky_ex(design @ design.mT + torch.diag_embed(theta_precision))
            theta = torch.cholesky_solve(design @ targets[..., None], factor)[..., 0]
            theta = problem.filter.constrain(theta)
            misfit = (targets - (theta[:, None] @ design)[:, 0]).square().sum(1)
            return theta, self._cost(misfit, z, theta)
        theta = problem.filter.constrain(theta)
        return theta, self.cost(z, theta)

    def linearized(self, z: Tensor, theta: Tensor) -> _Linearization:
        (location, width), noise_std, theta_precision = self.conditions
        problem, adjacency = self.problem, self.adjacency(z)
        outputs, by_theta = problem.filter.theta_jacobian(adjacency, theta, problem.inputs)
        scale = problem.measured / noise_std[:, None, None]
        residuals, by_theta = (problem.targets - outputs) * scale, by_theta.movedim(-1, 1) * scale[:, None]
        by_strengths = self._derivatives(adjacency, theta, self.places).scaled(self.slab.slope(z) * self.is_real)
        pull = self.is_real * (location[:, None] - z) / width[:, None] ** 2
        gradient = [by_strengths.along(residuals) + pull]
        gradient.append((by_theta * residuals[:, None]).sum((-2, -1)) - theta_precision * theta)
        mixed = along_many(by_strengths, by_theta)
        diagonal = torch.where(self.is_real, width[:, None] ** -2 + self.slab.bend(z, self.conditions.law), 1.0)
        upper = torch.cat([by_strengths.products(by_strengths) + torch.diag_embed(diagonal), mixed], 2)
        flat = by_theta.flatten(2)
        lower = torch.cat([mixed.mT, flat @ flat.mT + torch.diag_embed(theta_precision)], 2)
        return _Linearization(residuals, by_strengths, by_theta, torch.cat(gradient, 1), torch.cat([upper, lower], 1))

    def _derivatives(self, adjacency: Tensor, theta: Tensor, places: Tensor) -> EdgeDerivatives:
        changes = self.problem.edge_changes(adjacency, theta)
        probe = _PROBE * self.slab.size(self.conditions.law)
        derivatives = changes.derivatives(*self.problem.space.entries(places), theta, probe)
        if not self.problem.is_complete:
            derivatives = derivatives.masked(self.problem.measured)
        return derivatives.scaled((1 / self.conditions.noise_std)[:, None].expand(places.shape))

    def outlook(self, fit: LaplaceFit, near: _Linearization) -> Outlook:
        """What lies around a fit."""
        location, width = self.conditions.law
        n_chains, n_free = self.is_edge.shape
        adjacency = self.adjacency(fit.mode)
        parts: list[tuple[Tensor, Tensor, Tensor]] = []
        size = max(1, _NUMBERS_AT_ONCE // max(1, n_chains * near.residuals[0].numel()))
        for numbers in torch.arange(n_free, device=self.is_edge.device).split(size):
            derivatives = self._derivatives(adjacency, fit.theta, numbers.expand(n_chains, -1))
            with_fitted = derivatives.products(near.by_strengths), along_many(derivatives, near.by_theta)
            parts.append((derivatives.along(near.residuals), derivatives.squares(), torch.cat(with_fitted, 2)))
        slope, curvature, cross = (torch.cat(part, 1) for part in zip(*parts, strict=True))
        covariance = torch.cholesky_inverse(fit.factor)
        curvature = curvature - ((cross @ covariance) * cross).sum(-1)
        # An edge is judged by what is known of its strength, its own prior taken off.
        variance = covariance.diagonal(dim1=-2, dim2=-1)[:, : fit.mode.shape[1]]
        strength, by_z = self.slab.strength(fit.mode), self.slab.slope(fit.mode)
        own_prior = width[:, None] ** -2
        own = (1 / variance - own_prior - self.slab.bend(fit.mode, self.conditions.law)).clamp_min(0.0) / by_z**2
        own_slope = own * strength + (fit.mode - location[:, None]) * own_prior / by_z
        slope = torch.where(self.is_edge, fit.spread(own_slope), slope)
        curvature = torch.where(self.is_edge, fit.spread(own), curvature)
        return Outlook(slope, curvature, cross, covariance)


def view_of(
    problem: Problem,
    slab: Slab,
    conditions: Conditions,
    is_edge: Tensor,
    z: Tensor,
    theta: Tensor,
    n_iterations: int = _N_ITERATIONS,
) -> View:
    """Fit the strengths of graphs, and look at what lies around the fit.

    Parameters
    ----------
    problem : Problem
        Data, filter and what is known, in double precision.
    slab : Slab
        What strengths are.
    conditions : Conditions
        The law of strengths, the noise level and theta's precision.
    is_edge : Tensor (chains, free pairs) of bool
        The graphs.
    z, theta : Tensor (chains, free pairs) and (chains, parameters)
        Where to start.
    n_iterations : int
        At most so many steps.

    Returns
    -------
    View
        With `fit.is_found` False where no mode was found.
    """
    objective = _Objective.of(problem, slab, conditions, is_edge)
    fit, near = _find_mode(objective, z, theta, n_iterations)
    return View(fit, objective.outlook(fit, near))


def fit_strengths(
    problem: Problem,
    slab: Slab,
    conditions: Conditions,
    is_edge: Tensor,
    z: Tensor,
    theta: Tensor,
    n_iterations: int = _N_ITERATIONS,
) -> LaplaceFit:
    """The fit alone; see `view_of`."""
    return _find_mode(_Objective.of(problem, slab, conditions, is_edge), z, theta, n_iterations)[0]


def _find_mode(objective: _Objective, z: Tensor, theta: Tensor, n_iterations: int) -> tuple[LaplaceFit, _Linearization]:
    location = objective.conditions.law.location[:, None]
    z = torch.where(objective.is_real, z.gather(1, objective.places), location)
    theta, cost = objective.with_best_theta(z, theta)
    is_given_up = torch.zeros_like(cost, dtype=torch.bool)
    for iteration in range(n_iterations + 1):
        near = objective.linearized(z, theta)
        factor, is_singular = torch.linalg.cholesky_ex(near.precision)
        step = torch.cholesky_solve(near.gradient[..., None], factor)[..., 0]
        is_found = (near.gradient * step).sum(1).abs() < _CLOSE_ENOUGH  # False where it is nan
        is_moving = ~(is_found | is_given_up)
        if iteration == n_iterations or not bool(is_moving.any()):
            break
        z, theta, cost, is_stuck = _step_down(objective, z, theta, cost, step, is_moving)
        is_given_up = is_given_up | is_stuck
    is_found = is_found & (is_singular == 0) & torch.isfinite(cost)
    fit = LaplaceFit(objective.is_edge, objective.places, objective.is_real, z, theta, factor, is_found)
    return fit, near


def _step_down(
    objective: _Objective, z: Tensor, theta: Tensor, cost: Tensor, step: Tensor, is_moving: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Go along the step as far as the cost falls; where it does not at all, a chain is stuck."""
    by_z, by_theta = step.nan_to_num(0.0, 0.0, 0.0).split([z.shape[1], theta.shape[1]], 1)
    longest = by_z.abs().amax(1) / objective.slab.unit(objective.conditions.law) if z.shape[1] else 0 * cost
    share = _LARGEST_STEP / longest.clamp_min(_LARGEST_STEP)
    for _ in range(_N_SHORTENINGS):
        new_z = z + share[:, None] * by_z
        new_theta, new_cost = objective.with_best_theta(new_z, theta + share[:, None] * by_theta)
        is_better = is_moving & (new_cost <= cost)  # False where it is nan
        z, theta = where(is_better, new_z, z), where(is_better, new_theta, theta)
        cost = torch.where(is_better, new_cost, cost)
        is_moving = is_moving & ~is_better
        if not bool(is_moving.any()):
            break
        share = _SHORTENING * share
    return z, theta, cost, is_moving


Nested = TypeVar("Nested")  # a tensor, or a named tuple of such


def where(is_first: Tensor, first: Nested, second: Nested) -> Nested:
    """One of two, for each chain."""

    def choose(one: Any, other: Any) -> Any:
        if isinstance(one, Tensor):
            return torch.where(is_first.view(-1, *[1] * (one.dim() - 1)), one, other)
        return type(one)(*map(choose, one, other))

    chosen: Nested = choose(first, second)
    return chosen


def selected(parts: Nested, chains: Tensor) -> Nested:
    """Some of the chains."""

    def select(part: Any) -> Any:
        return part[chains] if isinstance(part, Tensor) else type(part)(*map(select, part))

    chosen: Nested = select(parts)
    return chosen


def padded(view: View, n_edges: int) -> View:
    """The same view, filled up to `n_edges` places for edges."""
    fit, outlook = view
    n_more, n_parameters = n_edges - fit.mode.shape[1], fit.theta.shape[1]
    if n_more <= 0:
        return view
    pad = torch.nn.functional.pad
    edges, parameters, more = torch.arange(n_edges + n_parameters, device=fit.places.device).split(
        [fit.mode.shape[1], n_parameters, n_more]
    )
    order = torch.cat([edges, more, parameters])  # what is filled up comes last at first, and then before theta
    factor = pad(fit.factor, (0, n_more, 0, n_more))
    diagonal = factor.diagonal(dim1=-2, dim2=-1)
    diagonal[:, -n_more:] = 1.0
    covariance = pad(outlook.covariance, (0, n_more, 0, n_more))
    return View(
        fit._replace(
            places=pad(fit.places, (0, n_more)),
            is_real=pad(fit.is_real, (0, n_more)),
            mode=pad(fit.mode, (0, n_more)),
            factor=factor[:, order][:, :, order],
        ),
        outlook._replace(
            cross=pad(outlook.cross, (0, n_more))[..., order], covariance=covariance[:, order][:, :, order]
        ),
    )


def trimmed(view: View) -> View:
    """The same view without places that no chain needs."""
    fit, outlook = view
    n_before, n_edges = fit.mode.shape[1], int(fit.is_real.sum(1).max())
    if n_edges == n_before:
        return view
    kept = torch.cat([torch.arange(n_edges), torch.arange(n_before, fit.factor.shape[1])]).to(fit.places.device)
    return View(
        fit._replace(
            places=fit.places[:, :n_edges],
            is_real=fit.is_real[:, :n_edges],
            mode=fit.mode[:, :n_edges],
            factor=fit.factor[:, kept][:, :, kept],
        ),
        outlook._replace(cross=outlook.cross[..., kept], covariance=outlook.covariance[:, kept][:, :, kept]),
    )
