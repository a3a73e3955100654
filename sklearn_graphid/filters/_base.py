"""What a graph filter is: a map from (adjacency, theta, signals) to filtered signals, with its derivatives.

Shapes everywhere: adjacency (chains, nodes, nodes), theta (chains, parameters), signals (experiments, nodes) shared by
all chains or (chains, experiments, nodes), outputs (chains, experiments, nodes).

In a directed graph the edge from j to i stands at A[i, j]: row i of A says what node i receives. Degrees are sums of
rows, so that constant signals are in the kernel of D - A whatever the directions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from ..graphs import changed_graphs
from ._edge_changes import EdgeChanges, RecomputedChanges

__all__ = ["GraphFilter", "Linearization", "ThetaCurve"]


class Linearization(NamedTuple):
    """A filter at one point: what it puts out, and how to pull a cotangent of the outputs back."""

    outputs: Tensor  # (chains, experiments, nodes)
    # cotangent (chains, experiments, nodes) -> gradients with respect to adjacency (chains, nodes, nodes), every entry
    # taken as free, and theta (chains, parameters)
    pullback: Callable[[Tensor], tuple[Tensor, Tensor]]


# theta (chains, parameters) -> outputs, and their derivatives (chains, experiments, nodes, parameters)
ThetaCurve = Callable[[Tensor], tuple[Tensor, Tensor]]


class GraphFilter(BaseEstimator, ABC):
    """Base of all graph filters.

    A new filter writes `parameter_names` and `apply`; autograd then does the rest. Where a closed form is cheaper,
    it overrides `linearize` and `theta_jacobian` as well.

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

    # Whether outputs are linear in theta, so that theta can be integrated out in closed form.
    linear_in_theta = False
    # Whether there are outputs for graphs whose edges have strengths below zero.
    allows_negative_strengths = True
    # Whether derivatives come from torch's automatic differentiation; where they do not, samplers run without what it
    # keeps account of.
    needs_autograd = True

    @abstractmethod
    def parameter_names(self) -> list[str]:
        """One name for each entry of theta."""

    @abstractmethod
    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        """Filter the signals: row k of the result is h_theta(A) times row k of `signals`."""

    def n_parameters(self) -> int:
        """The length of theta."""
        return len(self.parameter_names())

    def bounds(self) -> list[tuple[float, float]]:
        """Lowest and highest admissible value of each parameter."""
        return [(-float("inf"), float("inf"))] * self.n_parameters()

    def initial_range(self) -> list[tuple[float, float]]:
        """Where theta starts: each parameter is drawn uniformly from its range."""
        return [(-0.1, 0.1)] * self.n_parameters()

    def log_prior(self, theta: Tensor) -> Tensor | None:
        """Log-density of theta before the data are seen, up to a constant.

        Parameters
        ----------
        theta : Tensor (chains, parameters)
            Where it is wanted.

        Returns
        -------
        Tensor (chains,) or None
            None stands for a wide Gaussian around zero, whose width a sampler takes from the gain of the data. A filter
            that is linear in theta has to leave it at that, as theta is then integrated out.
        """
        return None

    def check(self) -> None:
        """Raise ValueError or TypeError where a constructor argument makes no sense."""

    def check_directed(self) -> None:
        """Raise ValueError where the filter has no meaning on a directed graph; most have."""

    def initial_theta(self, n_chains: int, generator: torch.Generator, dtype: Any = torch.float64) -> Tensor:
        """Draw `n_chains` starting values."""
        low, high = torch.tensor(self.initial_range(), dtype=torch.float64).unbind(1)
        shape = (n_chains, self.n_parameters())
        draw = torch.rand(shape, generator=generator, device=generator.device, dtype=torch.float64)
        return (low.to(draw.device) + (high - low).to(draw.device) * draw).to(dtype)

    def constrain(self, theta: Tensor) -> Tensor:
        """Move theta to the nearest admissible value."""
        low, high = torch.tensor(self.bounds(), dtype=theta.dtype, device=theta.device).unbind(1)
        return theta.clamp(low, high)

    def linearize(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Linearization:
        """Outputs and pullback at one point; by automatic differentiation unless a filter knows better."""
        # A filter that knows better for undirected graphs may come here for directed ones, in the inference mode of a
        # sampler, whose tensors have no derivatives; copies do.
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
        """Outputs, and their derivatives with respect to theta: (chains, experiments, nodes, parameters)."""
        outputs = self.apply(adjacency, theta, signals)
        columns = []
        for tangent in torch.eye(self.n_parameters(), dtype=theta.dtype, device=theta.device):
            direction = tangent.expand_as(theta).contiguous()
            columns.append(_derivative_along(lambda t: self.apply(adjacency, t, signals), theta, direction))
        return outputs, torch.stack(columns, dim=-1)

    def along_theta(self, adjacency: Tensor, signals: Tensor) -> ThetaCurve:
        """What `theta_jacobian` tells as a function of theta alone, for many values of it on the same graphs."""

        def curve(theta: Tensor) -> tuple[Tensor, Tensor]:
            return self.theta_jacobian(adjacency, theta, signals)

        return curve

    def design(self, adjacency: Tensor, signals: Tensor) -> Tensor:
        """What theta is multiplied by to give the outputs: (chains, parameters, experiments, nodes)."""
        zero = adjacency.new_zeros(len(adjacency), self.n_parameters())
        return self.theta_jacobian(adjacency, zero, signals)[1].movedim(-1, 1)

    def changed_designs(
        self, adjacency: Tensor, signals: Tensor, rows: Tensor, columns: Tensor, amounts: Tensor
    ) -> Tensor:
        """The design (chains, changes, parameters, experiments, nodes) of graphs with one pair changed."""
        graphs = changed_graphs(adjacency, rows, columns, amounts)
        return self.design(graphs.flatten(0, 1), signals).view(*rows.shape[:2], -1, *signals.shape)

    def edge_changes(
        self, adjacency: Tensor, theta: Tensor, signals: Tensor, targets: Tensor, measured: Tensor | None = None
    ) -> EdgeChanges:
        """What changes of single pairs do to the fit of the outputs.

        Parameters
        ----------
        adjacency : Tensor (chains, nodes, nodes)
            Symmetric graphs; of a pair, both entries change.
        theta : Tensor (chains, parameters)
            Used where the filter is not linear in it.
        signals, targets : Tensor (experiments, nodes)
            Inputs and measured outputs.
        measured : Tensor (experiments, nodes) or None
            What outputs and targets are multiplied by before they are compared: 1 where the output was measured (or
            1 over its noise, where that differs from node to node) and 0 elsewhere; None where it is 1 everywhere.

        Returns
        -------
        EdgeChanges
            By filtering the signals anew for every change, unless a filter knows better.
        """
        return RecomputedChanges(self, adjacency, theta, signals, targets, measured)

    def directed_edge_changes(
        self, adjacency: Tensor, theta: Tensor, signals: Tensor, targets: Tensor, measured: Tensor | None = None
    ) -> EdgeChanges:
        """The same for directed graphs, of whose pairs one entry changes."""
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
