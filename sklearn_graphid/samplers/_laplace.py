"""Graphs whose strengths are fitted: the Gaussian around the best fit, and what other graphs would fit.

Strengths depend on one another far too much to be moved one by one. Given the graph, though, the posterior of all of
them and theta together is close to a Gaussian, whose mode a few steps of Gauss and Newton find. The Gaussian of a fit
tells, to first order, what each pair that comes or goes would do to the evidence, with all other strengths fitted anew.
Most pairs are out of the question, so only candidates are looked at.

A position is a graph and the standardised deviations of all strengths and theta from the graph's best fit. A pair that
is no edge has a deviation too, which means nothing until it becomes one. So positions have the same dimension on every
graph, and where the deviations are kept when the graph changes, the strengths follow.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..filters._edge_changes import EdgeChanges, EdgeDerivatives
from ._kernel import selected, where
from ._parameters import log_density_of_theta, theta_precision
from ._problem import Problem, have_outputs
from ._slabs import Slab, StrengthLaw
from ._swaps import GraphOdds

__all__ = [
    "Change",
    "Conditions",
    "Expansion",
    "LaplaceFit",
    "Objective",
    "Position",
    "StrengthPosterior",
    "conditions_of",
    "expand",
    "first_order_update",
    "fit_strengths",
    "gains_of_flips",
    "gains_of_swaps",
    "padded",
    "strengths_of",
    "trimmed",
    "unexpanded",
]

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
# How many numbers the derivatives that are looked at together may hold.
_NUMBERS_AT_ONCE = 2**23
# At most so many steps of Gauss and Newton for a fit; fewer on the way to the draws, where the next fit goes on.
_N_STEPS = 25
_N_STEPS_IN_WARMUP = 5
# How far the logarithm of the posterior may fall below that of the Gaussian for a draw from it to count.
_LARGEST_EXCESS = 5.0
# How far others are taken to follow a change at once, in units of z; further, and the first order says little.
_LARGEST_SHIFT = 1.0


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
    has_outputs: Tensor  # (chains,) of bool: whether the filter has outputs on the graph

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
        """Return the posterior or objective of some of the chains."""
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
        diagonal = torch.where(
            self.is_real, width[:, None] ** -2 + self.slab.bend(z, _column(self.conditions.law)), 1.0
        )
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
    has_outputs = have_outputs(objective.problem, objective.problem.assemble(objective.is_edge.to(z)))
    graphs = objective.is_edge, objective.places, objective.is_real
    return LaplaceFit(*graphs, z, theta, factor, is_found, has_outputs)


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


class FirstOrder(NamedTuple):
    """Change of the fit, to first order, when a pair becomes an edge or is one no longer.

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
    curvature = (1 / variance - prior - slab.bend(fit.mode, _column(law))).clamp_min(0.0) / by_z**2
    return curvature * strength + (fit.mode - law.location[:, None]) * prior / by_z, curvature


def padded(expansion: Expansion, n_edges: int) -> Expansion:
    """Fill an expansion up to `n_edges` places for edges."""
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
    """Drop the places of an expansion that no chain needs."""
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


class Position(NamedTuple):
    """Graphs of the chains, with deviations of their strengths from the fit."""

    expansion: Expansion
    deviation: Tensor  # (chains, free pairs and parameters), standard normal where there is no edge
    log_density: Tensor  # (chains,) of the two


class StrengthPosterior(NamedTuple):
    """Posterior of graphs, strengths and theta, given the law of strengths and the noise level."""

    problem: Problem
    slab: Slab
    conditions: Conditions
    odds: GraphOdds
    candidates: Tensor  # (candidates,) numbers of the pairs that may come or go
    # On the way to the draws, graphs are weighed by Laplace's evidence instead, as strengths that a few edges too many
    # leave undetermined are no Gaussian.
    is_warmup: bool
    most_edges: int  # of a chain, beyond which not many are added at once

    def select(self, chains: Tensor) -> StrengthPosterior:
        """Return the posterior or objective of some of the chains."""
        return self._replace(conditions=selected(self.conditions, chains), odds=self.odds.of_chains(chains))

    def fit(self, is_edge: Tensor, z: Tensor, theta: Tensor) -> LaplaceFit:
        """Fit graphs, from z (chains, free pairs) and theta."""
        n_steps = _N_STEPS_IN_WARMUP if self.is_warmup else _N_STEPS
        return fit_strengths(Objective.of(self.problem, self.slab, self.conditions, is_edge), z, theta, n_steps)

    def expanded_at(self, fit: LaplaceFit) -> Expansion:
        """Fitted graphs, and what candidates would do to them."""
        objective = Objective(self.problem, self.slab, self.conditions, fit.is_edge, fit.places, fit.is_real)
        return expand(objective, fit, self.candidates)

    def at(self, expansion: Expansion, deviation: Tensor) -> Position:
        """The position with these deviations."""
        return Position(expansion, deviation, self.log_density(expansion.fit, deviation))

    def parameters(self, fit: LaplaceFit, deviation: Tensor) -> tuple[Tensor, Tensor]:
        """z (chains, n_edges) and theta of chains."""
        if self.is_warmup:
            return fit.mode, fit.theta
        n_free = fit.is_edge.shape[1]
        z, theta = fit.at(torch.cat([deviation.gather(1, fit.places) * fit.is_real, deviation[:, n_free:]], 1))
        return z, self.problem.filter.hold(theta)

    def drawn_near(self, fit: LaplaceFit, deviation: Tensor) -> tuple[Tensor, Tensor]:
        """z and theta of chains at deviations from a fit; those of the fit where its Gaussian does not reach so far."""
        n_free = fit.is_edge.shape[1]
        deviation = torch.cat([deviation[:, :n_free].gather(1, fit.places) * fit.is_real, deviation[:, n_free:]], 1)
        z, theta = fit.at(deviation)
        theta = self.problem.filter.hold(theta)
        drop = self._at_point(fit, fit.mode, fit.theta) - self._at_point(fit, z, theta)
        is_near = (drop < 0.5 * deviation.square().sum(1) + _LARGEST_EXCESS) & fit.is_found  # False where it is nan
        is_near = is_near & (self.problem.filter.constrain(theta) == theta).all(1)
        return torch.where(is_near[:, None], z, fit.mode), torch.where(is_near[:, None], theta, fit.theta)

    def log_evidence(self, fit: LaplaceFit) -> Tensor:
        """Laplace's approximation to the evidence (chains,) of graphs."""
        return self._at_point(fit, fit.mode, fit.theta).nan_to_num(-torch.inf, posinf=-torch.inf, neginf=-torch.inf)

    def squares(self, fit: LaplaceFit, z: Tensor, theta: Tensor) -> Tensor:
        """Sum (chains,) of squared residuals."""
        adjacency = self.problem.assemble(strengths_of(self.slab, fit, z))
        return self.problem.residuals(adjacency, theta).square().sum((-2, -1))

    def log_density(self, fit: LaplaceFit, deviation: Tensor) -> Tensor:
        """Log-density (chains,) of graphs and deviations; during the warm-up, of graphs alone."""
        if self.is_warmup:
            return self.log_evidence(fit)
        z, theta = self.parameters(fit, deviation)
        # Every coordinate has a factor of (2 pi)^(1/2), of its slab or of the deviation that means nothing.
        counts = torch.cat([fit.is_edge, self.problem.filter.is_free(theta).bool().expand_as(theta)], 1)
        meaningless = ~counts * deviation**2
        density = self._at_point(fit, z, theta) - 0.5 * meaningless.sum(1)
        is_admissible = (self.problem.filter.constrain(theta) == theta).all(1) & fit.is_found
        density = torch.where(is_admissible, density, -torch.inf)
        return density.nan_to_num(-torch.inf, posinf=-torch.inf, neginf=-torch.inf)

    def _at_point(self, fit: LaplaceFit, z: Tensor, theta: Tensor) -> Tensor:
        (location, width), noise_std, _ = self.conditions
        squares = self.squares(fit, z, theta)
        density = log_density_of_theta(self.problem, theta, squares, noise_std) + fit.log_volume
        density = density - self.problem.n_measured * noise_std.log()  # for comparisons between chains
        scaled = (z - location[:, None]) / width[:, None]
        density = density - (fit.is_real * (0.5 * scaled**2 + width.log()[:, None])).sum(1)
        return torch.where(fit.has_outputs, density, -torch.inf)


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
    """Evidence (chains, leaving, candidates) gained by swaps, and z; `leaving` holds places among candidates, or -1."""
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
    """First-order change of the other strengths when edges (chains, leaving) are removed.

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
