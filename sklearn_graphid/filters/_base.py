"""The interface of a graph filter: a map from (adjacency, theta, signals) to filtered signals, with its derivatives.

Shapes everywhere: adjacency (chains, nodes, nodes), theta (chains, parameters), signals (experiments, nodes) shared by
all chains or (chains, experiments, nodes), outputs (chains, experiments, nodes).

In a directed graph the edge from j to i is the entry A[i, j]: row i of A holds what node i receives. Degrees are sums
of rows, so constant signals are in the kernel of D - A whatever the directions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from .._utils._numbers import check_number
from ..graphs import changed_graphs
from ..graphs._nodes import Names
from ._edge_changes import EdgeChanges, Moments, RecomputedChanges

__all__ = ["FixedParameters", "GraphFilter", "Linearization", "ThetaCurve", "with_fixed_parameters"]


class Linearization(NamedTuple):
    """A filter linearised at one point: its outputs, and the pullback of a cotangent of the outputs."""

    outputs: Tensor  # (chains, experiments, nodes)
    # cotangent (chains, experiments, nodes) -> gradients with respect to adjacency (chains, nodes, nodes), treating
    # every entry as free, and with respect to theta (chains, parameters)
    pullback: Callable[[Tensor], tuple[Tensor, Tensor]]


# theta (chains, parameters) -> outputs, and their derivatives (chains, experiments, nodes, parameters)
ThetaCurve = Callable[[Tensor], tuple[Tensor, Tensor]]


class GraphFilter(BaseEstimator, ABC):
    """Base class for all graph filters.

    A new filter implements `parameter_names` and `apply`; derivatives then come from autograd. If a closed form is
    cheaper, override `linearize` and `theta_jacobian` as well. If some of its parameters may be known, let the
    constructor take `fixed=None` and store it: a dict from names of parameters to their values, which identifiers then
    leave as they are.

    Examples
    --------
    >>> import torch
    >>> from sklearn_graphid.filters import GraphFilter
    >>> class Consensus(GraphFilter):
    ...     def parameter_names(self):
    ...         return ["pull"]
    ...
    ...     def apply(self, adjacency, theta, signals):
    ...         return signals + theta[:, :, None] * (signals @ adjacency.mT - signals * adjacency.sum(-1)[:, None])
    >>> edge = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    >>> Consensus().apply(edge, torch.tensor([[0.25]]), torch.tensor([[1.0, 0.0]]))
    tensor([[[0.7500, 0.2500]]])
    """

    # Values of parameters that are known, by their names. Filters that offer it have an argument of the constructor.
    fixed: Mapping[str, float] | None = None
    # Whether outputs are linear in theta, so that theta can be integrated out in closed form.
    linear_in_theta = False
    # Whether the outputs are defined for graphs with negative strengths.
    allows_negative_strengths = True
    # Whether derivatives come from torch's automatic differentiation. If not, samplers run in inference mode, without
    # recording a computation graph.
    needs_autograd = True

    @abstractmethod
    def parameter_names(self) -> list[str]:
        """Return one name for each entry of theta."""

    @abstractmethod
    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        """Filter the signals: row k of the result is h_theta(A) times row k of `signals`."""

    def n_parameters(self) -> int:
        """Return the length of theta."""
        return len(self.parameter_names())

    def bounds(self) -> list[tuple[float, float]]:
        """Return the lowest and the highest admissible value of each parameter."""
        return [(-float("inf"), float("inf"))] * self.n_parameters()

    def initial_range(self) -> list[tuple[float, float]]:
        """Return the range from which the starting value of each parameter is drawn uniformly."""
        return [(-0.1, 0.1)] * self.n_parameters()

    def log_prior(self, theta: Tensor) -> Tensor | None:
        """Return the log-density of the prior of theta, up to a constant.

        Parameters
        ----------
        theta : Tensor (chains, parameters)
            Values at which to evaluate it.

        Returns
        -------
        Tensor (chains,) or None
            None stands for a wide Gaussian around zero, whose width the sampler derives from the gain of the data. A
            filter that is linear in theta must return None, because theta is then integrated out in closed form.
        """
        return None

    def powers_of_unit(self) -> list[float] | None:
        """Return powers p: with all strengths times c and each parameter times c**p, the outputs stay as they are.

        Returns
        -------
        list of float or None
            None if there are no such powers, or if the filter is linear in theta, where samplers need none.
        """
        return None

    def check(self) -> None:
        """Raise ValueError or TypeError if a constructor argument is invalid."""

    def check_fixed(self) -> None:
        """Raise ValueError or TypeError if `fixed` does not give admissible values to parameters that there are."""
        if self.fixed is None:
            return
        name, names = type(self).__name__, self.parameter_names()
        expected = f"expected a dict from some of the parameters {', '.join(names)} to their values"
        if not isinstance(self.fixed, Mapping):
            raise TypeError(f"{name} got fixed={self.fixed!r}; {expected}.")
        for parameter, value in self.fixed.items():
            if parameter not in names:
                raise ValueError(f"{name} got fixed={self.fixed!r}, which names {parameter!r}; {expected}.")
            number = check_number(value, f"{name} got fixed[{parameter!r}]")
            low, high = self.bounds()[names.index(parameter)]
            if not low <= number <= high:
                raise ValueError(
                    f"{name} got fixed={self.fixed!r}; expected a value of {parameter} between {low:g} and {high:g}."
                )

    def fixed_values(self) -> dict[int, float]:
        """Return the parameters that have one value only, by place: those in `fixed`, and those of equal bounds."""
        given = self.fixed or {}
        values = {place: low for place, (low, high) in enumerate(self.bounds()) if low == high}
        names = self.parameter_names()
        return dict(sorted((values | {names.index(name): float(value) for name, value in given.items()}).items()))

    def is_free(self, like: Tensor) -> Tensor:
        """Return 0 (parameters,) for each parameter that has one value only and 1 for the others, typed as `like`."""
        fixed = self.fixed_values()
        return torch.tensor([float(place not in fixed) for place in range(self.n_parameters())]).to(like)

    def hold(self, theta: Tensor) -> Tensor:
        """Return theta (..., parameters) with the values of the parameters that have one value only."""
        for place, value in self.fixed_values().items():
            theta = theta.index_fill(-1, torch.tensor(place, device=theta.device), value)
        return theta

    def free_moments(self, moments: Moments) -> Moments:
        """Return the moments of the regression on the parameters that are free."""
        return moments

    def n_coefficients(self) -> int:
        """Return how many of the first parameters only multiply terms of the outputs, whatever the others are."""
        return self.n_parameters() if self.linear_in_theta else 0

    def backwards(self) -> GraphFilter | None:
        """Return a simpler filter that turns outputs back into inputs, or None; samplers look for starts with it."""
        return None

    def theta_of_backwards(self, theta: Tensor) -> Tensor:
        """Return theta (chains, parameters) of this filter from that of `backwards`."""
        return theta

    def for_nodes(self, node_names: Names | None) -> GraphFilter:
        """Return the filter for nodes in this order; filters that treat all nodes alike return themselves."""
        return self

    def check_directed(self) -> None:
        """Raise ValueError if the filter is not defined on directed graphs; most filters are."""

    def n_loose(self, adjacency: Tensor) -> Tensor | None:
        """Count the parts of graphs for which the filter has no well-defined outputs.

        A sampler gives graphs with more of them than the known pairs make unavoidable probability zero.

        Parameters
        ----------
        adjacency : Tensor (chains, nodes, nodes)
            The graphs.

        Returns
        -------
        Tensor (chains,) or None
            The numbers. None, the default, if all graphs have outputs.
        """
        return None

    def initial_theta(self, n_chains: int, generator: torch.Generator, dtype: Any = torch.float64) -> Tensor:
        """Draw `n_chains` starting values of theta."""
        low, high = torch.tensor(self.initial_range(), dtype=torch.float64).unbind(1)
        shape = (n_chains, self.n_parameters())
        draw = torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
        return self.hold((low.to(draw.device) + (high - low).to(draw.device) * draw).to(dtype))

    def constrain(self, theta: Tensor) -> Tensor:
        """Move theta to the nearest admissible value."""
        low, high = torch.tensor(self.bounds(), dtype=theta.dtype, device=theta.device).unbind(1)
        return self.hold(theta.clamp(low, high))

    def linearize(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Linearization:
        """Return outputs and pullback at one point, by automatic differentiation unless overridden."""
        # A filter with a closed form for undirected graphs may come here for directed ones while the sampler is in
        # inference mode. Tensors made in inference mode have no derivatives; copies do.
        with torch.inference_mode(False), torch.enable_grad():
            leaves = adjacency.detach().clone().requires_grad_(), theta.detach().clone().requires_grad_()
            outputs = self.apply(*leaves, signals.clone())

        def pullback(cotangent: Tensor) -> tuple[Tensor, Tensor]:
            with torch.inference_mode(False):
                gradients = torch.autograd.grad(
                    outputs, leaves, cotangent.clone(), retain_graph=True, allow_unused=True, materialize_grads=True
                )
            return gradients[0], gradients[1]

        return Linearization(outputs.detach(), pullback)

    def theta_jacobian(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> tuple[Tensor, Tensor]:
        """Return outputs, and their derivatives with respect to theta: (chains, experiments, nodes, parameters)."""
        outputs = self.apply(adjacency, theta, signals)
        columns = []
        for tangent in torch.eye(self.n_parameters(), dtype=theta.dtype, device=theta.device):
            direction = tangent.expand_as(theta).contiguous()
            columns.append(_derivative_along(lambda t: self.apply(adjacency, t, signals), theta, direction))
        return outputs, torch.stack(columns, dim=-1)

    def along_theta(self, adjacency: Tensor, signals: Tensor) -> ThetaCurve:
        """Return `theta_jacobian` as a function of theta alone, to try many values of theta on the same graphs."""

        def curve(theta: Tensor) -> tuple[Tensor, Tensor]:
            return self.theta_jacobian(adjacency, theta, signals)

        return curve

    def design(self, adjacency: Tensor, signals: Tensor) -> Tensor:
        """Return the regressors that theta multiplies to give the outputs: (chains, parameters, experiments, nodes)."""
        zero = adjacency.new_zeros(len(adjacency), self.n_parameters())
        return self.theta_jacobian(adjacency, zero, signals)[1].movedim(-1, 1)

    def changed_designs(
        self, adjacency: Tensor, signals: Tensor, rows: Tensor, columns: Tensor, amounts: Tensor
    ) -> Tensor:
        """Return the design (chains, changes, parameters, experiments, nodes) of graphs with one pair changed each."""
        graphs = changed_graphs(adjacency, rows, columns, amounts)
        return self.design(graphs.flatten(0, 1), signals).view(*rows.shape[:2], self.n_parameters(), *signals.shape)

    def edge_changes(
        self,
        adjacency: Tensor,
        theta: Tensor,
        signals: Tensor,
        targets: Tensor,
        measured: Tensor | None = None,
        directed: bool = False,
    ) -> EdgeChanges:
        """Return an object that computes how changing a single pair changes the fit of the outputs.

        Parameters
        ----------
        adjacency : Tensor (chains, nodes, nodes)
            The graphs.
        theta : Tensor (chains, parameters)
            Parameters of the filter; ignored if the filter is linear in theta.
        signals, targets : Tensor (experiments, nodes)
            Inputs and measured outputs; the latter may have an axis of chains before these.
        measured : Tensor (experiments, nodes) or None
            Factors by which outputs and targets are multiplied before they are compared: 1 where the output was
            measured (or 1 over its noise, if that differs from node to node) and 0 elsewhere. None means 1 everywhere.
        directed : bool
            Whether changing a pair changes one entry of the matrix; if not, graphs are symmetric, and it changes both.

        Returns
        -------
        EdgeChanges
            By default one that filters the signals again for every change; a filter may override this with something
            faster.
        """
        return RecomputedChanges(self, adjacency, theta, signals, targets, measured)


def _derivative_along(function: Callable[[Tensor], Tensor], point: Tensor, direction: Tensor) -> Tensor:
    # Two reverse passes give a forward derivative and ask nothing of the function but reverse differentiability,
    # which is what a filter of the user's is sure to have.
    with torch.enable_grad():
        leaf = point.detach().requires_grad_()
        outputs = function(leaf)
        if not outputs.requires_grad:  # the function ignores its argument
            return torch.zeros_like(outputs)
        dual = torch.zeros_like(outputs, requires_grad=True)
        (pulled,) = torch.autograd.grad(
            outputs, leaf, dual, create_graph=True, allow_unused=True, materialize_grads=True
        )
        (derivative,) = torch.autograd.grad(pulled, dual, direction, allow_unused=True, materialize_grads=True)
    return derivative.detach()


# Filters of which some parameters are known: theta keeps its length, and those parameters keep their values.


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

    def n_coefficients(self) -> int:
        return self.filter.n_coefficients()

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
        self,
        adjacency: Tensor,
        theta: Tensor,
        signals: Tensor,
        targets: Tensor,
        measured: Tensor | None = None,
        directed: bool = False,
    ) -> EdgeChanges:
        return self.filter.edge_changes(adjacency, theta, signals, targets, measured, directed)

    def free_moments(self, moments: Moments) -> Moments:
        squares, cross, gram = moments
        fixed = {place: value for place, value in self.fixed_values().items() if place < cross.shape[-1]}
        if not fixed:
            return moments
        places = torch.tensor(list(fixed), device=cross.device)
        values = torch.tensor(list(fixed.values()), dtype=cross.dtype, device=cross.device)
        others = torch.tensor([place for place in range(cross.shape[-1]) if place not in fixed]).to(places)
        to_fixed = gram.index_select(-1, places) @ values  # (..., parameters)
        return Moments(
            squares + ((to_fixed - 2 * cross).index_select(-1, places) * values).sum(-1),
            (cross - to_fixed).index_select(-1, others),
            gram.index_select(-1, others).index_select(-2, others),
        )
