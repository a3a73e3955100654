"""The posterior of graphs and strengths, at positions that a sampler moves between.

A position is a graph and the standardised deviations of all strengths and theta from the graph's best fit. A pair that
is no edge has a deviation too, which means nothing until it becomes one. So positions have the same dimension on every
graph, and where the deviations are kept when the graph changes, the strengths follow.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._defined_graphs import have_outputs
from ._expansion import Expansion, expand
from ._graph_odds import GraphOdds
from ._laplace import Conditions, LaplaceFit, Objective, fit_strengths, strengths_of
from ._per_chain import selected
from ._problem import Problem
from ._slabs import Slab
from ._theta import log_density_of_theta

__all__ = ["Position", "StrengthPosterior"]

# At most so many steps of Gauss and Newton for a fit; fewer on the way to the draws, where the next fit goes on.
_N_STEPS = 25
_N_STEPS_IN_WARMUP = 5
# How far the logarithm of the posterior may fall below that of the Gaussian for a draw from it to count.
_LARGEST_EXCESS = 5.0


class Position(NamedTuple):
    """Where the chains are."""

    expansion: Expansion
    deviation: Tensor  # (chains, free pairs and parameters), standard normal where there is no edge
    log_density: Tensor  # (chains,) of the two


class StrengthPosterior(NamedTuple):
    """What is sampled from, while the law of strengths and the noise level stay."""

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
        """That of some of the chains."""
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
        """That (chains,) of graphs and deviations; on the way, of graphs."""
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
        return torch.where(have_outputs(self.problem, self.problem.assemble(fit.is_edge.to(z))), density, -torch.inf)
