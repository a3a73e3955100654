"""Filters of which some parameters are known: theta keeps its length, and those parameters keep their values."""

from __future__ import annotations

import torch
from torch import Tensor

from ._base import GraphFilter, Linearization, ThetaCurve
from ._edge_changes import EdgeChanges, Moments

__all__ = ["FixedParameters", "with_fixed_parameters"]


def with_fixed_parameters(filter: GraphFilter) -> GraphFilter:
    """The filter as samplers see it: parameters that have only one value are not to be moved.

    A filter whose parameters are all free is returned as it is.
    """
    return FixedParameters(filter) if filter.fixed_values() else filter


class FixedParameters(GraphFilter):
    """A filter some of whose parameters do not move, whatever is drawn or fitted.

    Derivatives with respect to these parameters are zero. In the regression of the outputs on what theta multiplies
    they are no regressors: what they contribute is subtracted from the targets.
    """

    def __init__(self, filter: GraphFilter):
        self.filter = filter
        self.linear_in_theta = filter.linear_in_theta  # and constant beside, where fixed parameters are not zero
        self.allows_negative_strengths = filter.allows_negative_strengths
        self.needs_autograd = filter.needs_autograd

    def parameter_names(self) -> list[str]:
        return self.filter.parameter_names()

    def fixed_values(self) -> dict[int, float]:
        return self.filter.fixed_values()

    def bounds(self) -> list[tuple[float, float]]:
        return self._with_values(self.filter.bounds())

    def initial_range(self) -> list[tuple[float, float]]:
        return self._with_values(self.filter.initial_range())

    def _with_values(self, ranges: list[tuple[float, float]]) -> list[tuple[float, float]]:
        fixed = self.fixed_values()
        return [(fixed[place], fixed[place]) if place in fixed else ends for place, ends in enumerate(ranges)]

    def log_prior(self, theta: Tensor) -> Tensor | None:
        if len(self.fixed_values()) == theta.shape[1]:  # a constant, which may be infinite at the edge of the bounds
            return theta.new_zeros(len(theta), dtype=torch.float64)
        return self.filter.log_prior(theta)

    def powers_of_unit(self) -> list[float] | None:
        powers, fixed = self.filter.powers_of_unit(), self.fixed_values()
        return None if powers is None or any(powers[place] and fixed[place] for place in fixed) else powers

    def n_loose(self, adjacency: Tensor) -> Tensor | None:
        return self.filter.n_loose(adjacency)

    def check(self) -> None:
        self.filter.check()

    def check_directed(self) -> None:
        self.filter.check_directed()

    def constrain(self, theta: Tensor) -> Tensor:
        return self.hold(self.filter.constrain(theta))

    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        return self.filter.apply(adjacency, theta, signals)

    def linearize(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Linearization:
        outputs, pull = self.filter.linearize(adjacency, theta, signals)

        def pullback(cotangent: Tensor) -> tuple[Tensor, Tensor]:
            gradient, theta_gradient = pull(cotangent)
            return gradient, theta_gradient * self.is_free(theta_gradient)

        return Linearization(outputs, pullback)

    def theta_jacobian(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> tuple[Tensor, Tensor]:
        outputs, jacobian = self.filter.theta_jacobian(adjacency, theta, signals)
        return outputs, jacobian * self.is_free(jacobian)

    def along_theta(self, adjacency: Tensor, signals: Tensor) -> ThetaCurve:
        free_curve = self.filter.along_theta(adjacency, signals)

        def curve(theta: Tensor) -> tuple[Tensor, Tensor]:
            outputs, jacobian = free_curve(theta)
            return outputs, jacobian * self.is_free(jacobian)

        return curve

    def edge_changes(
        self, adjacency: Tensor, theta: Tensor, signals: Tensor, targets: Tensor, measured: Tensor | None = None
    ) -> EdgeChanges:
        return self.filter.edge_changes(adjacency, theta, signals, targets, measured)

    def directed_edge_changes(
        self, adjacency: Tensor, theta: Tensor, signals: Tensor, targets: Tensor, measured: Tensor | None = None
    ) -> EdgeChanges:
        return self.filter.directed_edge_changes(adjacency, theta, signals, targets, measured)

    def free_moments(self, moments: Moments) -> Moments:
        if not self.linear_in_theta:
            return moments
        squares, cross, gram = moments
        fixed = self.fixed_values()
        places = torch.tensor(list(fixed), device=cross.device)
        values = torch.tensor(list(fixed.values()), dtype=cross.dtype, device=cross.device)
        others = torch.tensor([place for place in range(self.n_parameters()) if place not in fixed]).to(places)
        to_fixed = gram.index_select(-1, places) @ values  # (..., parameters)
        return Moments(
            squares + ((to_fixed - 2 * cross).index_select(-1, places) * values).sum(-1),
            (cross - to_fixed).index_select(-1, others),
            gram.index_select(-1, others).index_select(-2, others),
        )
