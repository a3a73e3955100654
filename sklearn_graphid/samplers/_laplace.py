"""The strengths of a given graph, as a Gaussian around their best fit.

Strengths depend on one another far too much to be moved one by one. Given the graph, though, the posterior of all of
them and theta together is close to a Gaussian, whose mode a few steps of Gauss and Newton find. So to the sampler a
graph is this Gaussian.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..filters._edge_changes import EdgeChanges
from ..filters._edge_derivatives import EdgeDerivatives
from ._per_chain import selected, where
from ._problem import Problem
from ._slabs import Slab, StrengthLaw
from ._theta import theta_precision

__all__ = ["Conditions", "LaplaceFit", "Linearization", "Objective", "conditions_of", "fit_strengths", "strengths_of"]

# The squared distance to the mode, in standard deviations, that is close enough.
_CLOSE_ENOUGH = 5e-3
_LARGEST_STEP = 2.0
_N_SHORTENINGS = 6
_SHORTENING = 0.3
# What is added to the diagonal, as a share of it, where rounding has made a precision singular.
_RIDGE = 1e-10
# The factor of a precision that has none even so: evidence as small as that is no reason to stay at such a graph.
_NO_VOLUME = 1e100
# Derivatives are differences over a change by this share of a typical strength, in double precision.
_PROBE = 1e-6


class Conditions(NamedTuple):
    """What is given when strengths and theta are fitted."""

    law: StrengthLaw
    noise_std: Tensor  # (chains,)
    theta_precision: Tensor  # (chains, parameters) of a Gaussian around zero


def conditions_of(problem: Problem, law: StrengthLaw, noise_std: Tensor) -> Conditions:
    """The conditions at a noise level (chains,), with the usual prior of theta."""
    precision = theta_precision(problem, noise_std) / noise_std[:, None] ** 2
    return Conditions(law, noise_std, precision.expand(-1, problem.filter.n_parameters()).contiguous())


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


def strengths_of(slab: Slab, fit: LaplaceFit, z: Tensor) -> Tensor:
    """Strengths (chains, free pairs), zero where there is no edge, and only there."""
    strengths = slab.strength(z)
    # Of strengths that the data say nothing about, the best may be zero, which would make an edge none.
    return fit.spread(torch.where(strengths == 0, torch.finfo(torch.float32).tiny, strengths))


class Linearization(NamedTuple):
    """The outputs near a point, in units of the noise."""

    residuals: Tensor  # (chains, experiments, nodes)
    by_strengths: EdgeDerivatives  # of the outputs, by z
    by_theta: Tensor  # (chains, parameters, experiments, nodes)
    changes: EdgeChanges  # for derivatives by other strengths


class Objective(NamedTuple):
    """The posterior of strengths and theta given a graph."""

    problem: Problem
    slab: Slab
    conditions: Conditions
    is_edge: Tensor  # as in `LaplaceFit`, which it leads to
    places: Tensor
    is_real: Tensor

    @classmethod
    def of(cls, problem: Problem, slab: Slab, conditions: Conditions, is_edge: Tensor) -> Objective:
        # At least one place, which is not real where no chain has an edge: what is looked up by place then finds one.
        n_edges = max(1, int(is_edge.sum(1).max()))
        places = (~is_edge).to(torch.int8).argsort(dim=1, stable=True)[:, :n_edges]
        return cls(problem, slab, conditions, is_edge, places, is_edge.gather(1, places))

    def select(self, chains: Tensor) -> Objective:
        """That of some of the chains."""
        is_edge, places, is_real = (part[chains] for part in (self.is_edge, self.places, self.is_real))
        return Objective(self.problem, self.slab, selected(self.conditions, chains), is_edge, places, is_real)

    def adjacency(self, z: Tensor) -> Tensor:
        """Matrices of the strengths that belong to z (chains, n_edges)."""
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
            # Parameters that are fixed contribute to the outputs, and are no regressors.
            fixed = problem.filter.hold(torch.zeros_like(theta))
            outputs, jacobian = problem.filter.theta_jacobian(self.adjacency(z), fixed, problem.inputs)
            design = (jacobian.movedim(-1, 1) * problem.measured).flatten(2) / noise_std[:, None, None]
            targets = ((problem.targets - outputs) * problem.measured).flatten(1) / noise_std[:, None]
            factor, _ = torch.linalg.cholesky_ex(design @ design.mT + torch.diag_embed(theta_precision))
            theta = torch.cholesky_solve(design @ targets[..., None], factor)[..., 0]
            theta = problem.filter.constrain(theta)  # regressors of what is fixed are zero
            misfit = (targets - (theta[:, None] @ design)[:, 0]).square().sum(1)
            return theta, self._cost(misfit, z, theta)
        theta = problem.filter.constrain(theta)
        return theta, self.cost(z, theta)

    def linearized(self, z: Tensor, theta: Tensor) -> Linearization:
        """The outputs near z (chains, n_edges) and theta."""
        problem, adjacency = self.problem, self.adjacency(z)
        outputs, by_theta = problem.filter.theta_jacobian(adjacency, theta, problem.inputs)
        scale = problem.measured / self.conditions.noise_std[:, None, None]
        changes = problem.edge_changes(adjacency, theta)
        by_strengths = self.derivatives(changes, theta, self.places).scaled(self.slab.slope(z) * self.is_real)
        residuals, by_theta = (problem.targets - outputs) * scale, by_theta.movedim(-1, 1) * scale[:, None]
        return Linearization(residuals, by_strengths, by_theta, changes)

    def expanded(self, z: Tensor, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Gradient (chains, n) and precision (chains, n, n) of the log-posterior near z and theta."""
        (location, width), _, theta_precision = self.conditions
        residuals, by_strengths, by_theta, _ = self.linearized(z, theta)
        pull = self.is_real * (location[:, None] - z) / width[:, None] ** 2
        gradient = [by_strengths.along(residuals) + pull]
        pull_of_theta = (by_theta * residuals[:, None]).sum((-2, -1)) - theta_precision * theta
        gradient.append(pull_of_theta * self.problem.filter.is_free(theta))
        mixed, flat = by_strengths.along_many(by_theta), by_theta.flatten(2)
        diagonal = torch.where(self.is_real, width[:, None] ** -2 + self.slab.bend(z, self.conditions.law), 1.0)
        upper = torch.cat([by_strengths.products(by_strengths) + torch.diag_embed(diagonal), mixed], 2)
        lower = torch.cat([mixed.mT, flat @ flat.mT + torch.diag_embed(theta_precision)], 2)
        return torch.cat(gradient, 1), torch.cat([upper, lower], 1)

    def derivatives(self, changes: EdgeChanges, theta: Tensor, places: Tensor) -> EdgeDerivatives:
        """Derivatives of the outputs by strengths of pairs, given by their numbers (chains, n)."""
        probe = _PROBE * self.slab.size(self.conditions.law)
        derivatives = changes.derivatives(*self.problem.space.entries(places), theta, probe)
        if not self.problem.is_complete:
            derivatives = derivatives.masked(self.problem.measured)
        return derivatives.scaled((1 / self.conditions.noise_std)[:, None].expand(places.shape))


def fit_strengths(objective: Objective, z: Tensor, theta: Tensor, n_iterations: int) -> LaplaceFit:
    """Find the mode, by Gauss and Newton for all chains at once; those that are there wait for the others.

    Parameters
    ----------
    objective : Objective
        The posterior of strengths and theta given the graphs.
    z, theta : Tensor (chains, free pairs) and (chains, parameters)
        Where to start.
    n_iterations : int
        At most so many steps.

    Returns
    -------
    LaplaceFit
        With `is_found` False where no mode was found.
    """
    location = objective.conditions.law.location[:, None]
    z = torch.where(objective.is_real, z.gather(1, objective.places), location)
    theta, cost = objective.with_best_theta(z, theta)
    size = z.shape[1] + theta.shape[1]
    factor = torch.eye(size, dtype=z.dtype, device=z.device).repeat(len(z), 1, 1)
    is_found = torch.zeros_like(cost, dtype=torch.bool)
    left = torch.arange(len(z), device=z.device)
    for iteration in range(n_iterations + 1):
        part = objective.select(left)
        gradient, precision = part.expanded(z[left], theta[left])
        factor[left], is_singular = _cholesky(precision)
        step = torch.cholesky_solve(gradient[..., None], factor[left])[..., 0]
        is_close = ((gradient * step).sum(1).abs() < _CLOSE_ENOUGH) & ~is_singular  # False where it is nan
        is_found[left] = is_close & torch.isfinite(cost[left])
        left, step = left[~is_close], step[~is_close]
        if iteration == n_iterations or not len(left):
            break
        part = objective.select(left)
        z[left], theta[left], cost[left], is_stuck = _step_down(part, z[left], theta[left], cost[left], step)
        left = left[~is_stuck]
        if not len(left):
            break
    return LaplaceFit(objective.is_edge, objective.places, objective.is_real, z, theta, factor, is_found)


def _cholesky(precision: Tensor) -> tuple[Tensor, Tensor]:
    """Lower Cholesky factors (chains, n, n), and where (chains,) there is none: one of almost no volume then."""
    factor, failed = torch.linalg.cholesky_ex(precision)
    if not bool(failed.any()):
        return factor, failed > 0
    # Strengths and theta that only their product tells apart are singular beside a wide prior, up to rounding.
    diagonal = precision.diagonal(dim1=-2, dim2=-1)
    ridged, still_failed = torch.linalg.cholesky_ex(precision + torch.diag_embed(_RIDGE * diagonal))
    is_singular = (failed > 0) & (still_failed > 0)
    factor = torch.where((failed > 0)[:, None, None], ridged, factor)
    none = _NO_VOLUME * torch.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return torch.where(is_singular[:, None, None], none, factor), is_singular


def _step_down(
    objective: Objective, z: Tensor, theta: Tensor, cost: Tensor, step: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Go along the step as far as the cost falls; where it does not at all, a chain is stuck."""
    by_z, by_theta = step.nan_to_num(0.0, 0.0, 0.0).split([z.shape[1], theta.shape[1]], 1)
    longest = by_z.abs().amax(1) / objective.slab.unit(objective.conditions.law) if z.shape[1] else 0 * cost
    share = _LARGEST_STEP / longest.clamp_min(_LARGEST_STEP)
    is_moving = torch.ones_like(cost, dtype=torch.bool)
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
