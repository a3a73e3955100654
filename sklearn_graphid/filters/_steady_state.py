"""The steady state of a flow network: resistors, DC power flow, heat that no longer changes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from numbers import Integral

import torch
from sklearn.base import clone
from torch import Tensor

from .._utils._numbers import check_integer, check_number
from ..graphs._names import Names, in_words, match_names
from ._base import GraphFilter, Linearization
from ._edge_changes import EdgeChanges
from ._edge_derivatives import same_in_all_experiments
from ._steady_state_changes import SteadyStateChanges

__all__ = ["SteadyStateFilter"]

# Without ground and leak the Laplacian of a graph that falls into parts cannot be inverted. A leak as small as this
# makes it invertible: a part whose inputs do not add up to zero then has outputs a million times too large, which no
# data support.
_SMALLEST_LEAK = 1e-6


class SteadyStateFilter(GraphFilter):
    """Steady-state potentials, such as voltages or temperatures, for given inflows: y = scale (L + g I)^+ x.

    L = D - A is the Laplacian of the graph. Without a ground node and with g = 0, potentials are defined only up to a
    constant: the mean of the inflows is subtracted at all nodes, and the potentials have mean zero.

    In a directed graph the degree of a node counts the edges that point to it. The potentials solve
    g y_i + sum over j of A_ij (y_i - y_j) = x_i, so each node is pulled towards the nodes that it has edges from. A
    directed graph needs a leak or a ground.

    Parameters
    ----------
    ground : int, str or None, default=None
        The grounded node, by its number or by its name, whose potential (and output) is zero and which absorbs the net
        inflow. If the columns of X are called by integers, an integer is a name. If None, no node is grounded.
    leak : float, default=0.0
        The leak g: at every node, a potential of one makes a flow of g leave the graph.
    initial_low, initial_high : float, default=0.5 and 1.5
        Where a sampler starts the scale at random, it draws it uniformly between the two.
    fixed : dict of str to float or None, default=None
        Values of parameters that are known, such as `{"scale": 1.0}`; all others are identified.

    Examples
    --------
    >>> import torch
    >>> from sklearn_graphid.filters import SteadyStateFilter
    >>> path = torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]])
    >>> current = torch.tensor([[1.0, 0.0, -1.0]])
    >>> SteadyStateFilter().apply(path, torch.tensor([[1.0]]), current).round(decimals=4) + 0.0
    tensor([[[ 1.,  0., -1.]]])
    """

    linear_in_theta = True
    allows_negative_strengths = False
    needs_autograd = False

    def __init__(
        self,
        ground: int | str | tuple[Hashable, ...] | None = None,
        leak: float = 0.0,
        initial_low: float = 0.5,
        initial_high: float = 1.5,
        fixed: Mapping[str, float] | None = None,
    ):
        self.ground = ground
        self.leak = leak
        self.initial_low = initial_low
        self.initial_high = initial_high
        self.fixed = fixed

    def check(self) -> None:
        if self.ground is not None and not isinstance(self.ground, str | tuple):
            check_integer(self.ground, "SteadyStateFilter got ground", low=0)
        for name in ("leak", "initial_low", "initial_high"):
            check_number(getattr(self, name), f"SteadyStateFilter got {name}")
        if self.leak < 0:
            raise ValueError(f"SteadyStateFilter got leak={self.leak!r}; expected a number of at least 0.")
        if not self.initial_low <= self.initial_high:
            raise ValueError(
                f"SteadyStateFilter got initial_low={self.initial_low!r} and initial_high={self.initial_high!r}; "
                f"expected initial_low <= initial_high."
            )

    def for_nodes(self, node_names: Names | None) -> SteadyStateFilter:
        """Return the filter with the number of the ground in place of its name."""
        is_number = isinstance(self.ground, Integral)
        if self.ground is None or (is_number and not (node_names and all(isinstance(n, Integral) for n in node_names))):
            return self
        if node_names is None:
            raise ValueError(
                f"SteadyStateFilter got ground={self.ground!r}, but the nodes have no names; expected the number of a "
                f"node, or columns of X with names."
            )
        (place,) = match_names((self.ground,), node_names)
        if place is None:
            raise ValueError(
                f"SteadyStateFilter got ground={self.ground!r}; expected one of the nodes {in_words(node_names)}."
            )
        numbered: SteadyStateFilter = clone(self).set_params(ground=place)
        return numbered

    def check_directed(self) -> None:
        if self._is_floating:
            raise ValueError(
                "SteadyStateFilter got neither a leak nor a ground, without which a directed graph has no steady state "
                "for most inputs; expected leak > 0 or ground=... with directed=True."
            )

    def parameter_names(self) -> list[str]:
        return ["scale"]

    def initial_range(self) -> list[tuple[float, float]]:
        return [(float(self.initial_low), float(self.initial_high))]

    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        return theta[:, :, None] * self.design(adjacency, signals)[:, 0]

    def theta_jacobian(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> tuple[Tensor, Tensor]:
        potentials = self.design(adjacency, signals)[:, 0]
        return theta[:, :, None] * potentials, potentials[..., None]

    def linearize(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Linearization:
        conductance, scale = self._conductance(adjacency), theta[:, :, None].double()
        potentials = _solve(conductance, self._inflow(signals))

        def pullback(cotangent: Tensor) -> tuple[Tensor, Tensor]:
            # K y = x, so that dy = -K^-1 dK y.
            adjoint = _solve(conductance.mT, scale * cotangent.double())
            gradient = self._without_ground(adjoint).mT @ self._without_ground(potentials)  # minus that of K
            # An entry of A is taken off the same entry of K and added to the diagonal of its row; where it is below
            # zero, it counts as zero.
            gradient = (gradient - gradient.diagonal(dim1=-2, dim2=-1)[..., None]) * (adjacency >= 0)
            theta_gradient = (cotangent * potentials).sum((-2, -1))[:, None]
            return gradient.to(adjacency.dtype), theta_gradient.to(theta.dtype)

        return Linearization((scale * potentials).to(adjacency.dtype), pullback)

    def design(self, adjacency: Tensor, signals: Tensor) -> Tensor:
        return _solve(self._conductance(adjacency), self._inflow(signals)).to(adjacency.dtype)[:, None]

    def changed_designs(
        self, adjacency: Tensor, signals: Tensor, rows: Tensor, columns: Tensor, amounts: Tensor
    ) -> Tensor:
        if rows.shape[-1] == 1:
            return self._designs_after_one_way(adjacency, signals, rows[..., 0], columns[..., 0], amounts)
        changes = SteadyStateChanges(self._inverse(adjacency), signals, torch.zeros_like(signals))
        unit = adjacency.new_ones(len(adjacency), 1)
        return (self.design(adjacency, signals) + changes.output_changes(rows, columns, amounts, unit))[:, :, None]

    def edge_changes(
        self, adjacency: Tensor, theta: Tensor, signals: Tensor, targets: Tensor, measured: Tensor | None = None
    ) -> EdgeChanges:
        of_nodes = None if measured is None else same_in_all_experiments(measured)
        if measured is not None and of_nodes is None:
            return super().edge_changes(adjacency, theta, signals, targets, measured)
        return SteadyStateChanges(self._inverse(adjacency), signals, targets, of_nodes)

    def _designs_after_one_way(
        self, adjacency: Tensor, signals: Tensor, rows: Tensor, columns: Tensor, amounts: Tensor
    ) -> Tensor:
        """An entry's change c turns K into K + c e_i (e_i - e_j)', and potentials follow by Sherman and Morrison."""
        responses = self._inverse(adjacency)
        chains = torch.arange(len(adjacency), device=adjacency.device)[:, None]
        change = amounts.double()
        response = responses[chains, rows]  # (chains, changes, nodes), to an inflow at i
        across = response.gather(-1, rows[..., None]) - response.gather(-1, columns[..., None])
        factor = change / (1 + change * across[..., 0])
        potentials = self._inflow(signals) @ responses
        drops = potentials.mT[chains, rows] - potentials.mT[chains, columns]  # (chains, changes, experiments)
        taken = (factor[..., None] * drops)[..., None] * response[:, :, None]
        return (potentials[:, None] - taken).to(adjacency.dtype)[:, :, None]

    def _inverse(self, adjacency: Tensor) -> Tensor:
        """Potentials (chains, nodes, nodes) for an inflow of one at each node, whose row they are."""
        identity = torch.eye(adjacency.shape[-1], dtype=adjacency.dtype, device=adjacency.device)
        return _solve(self._conductance(adjacency), self._inflow(identity))

    def _conductance(self, adjacency: Tensor) -> Tensor:
        """K (chains, nodes, nodes) in double precision: invertible, and with an identity where the ground is."""
        # The soft matrices of a sampler may have entries below zero, for which there is no steady state.
        weights, n_nodes = adjacency.double().clamp_min(0.0), adjacency.shape[-1]
        matrix = torch.diag_embed(weights.sum(-1) + max(float(self.leak), _SMALLEST_LEAK)) - weights
        if self._is_floating:
            return matrix + 1.0 / n_nodes
        if self.ground is None:
            return matrix
        is_free = self._without_ground(matrix.new_ones(n_nodes))
        return matrix * is_free[:, None] * is_free + torch.diag(1 - is_free)

    @property
    def _is_floating(self) -> bool:
        return self.ground is None and self.leak == 0

    def _inflow(self, signals: Tensor) -> Tensor:
        """Inputs (..., nodes) in double precision, without what a steady state cannot hold."""
        signals = signals.double()
        return signals - signals.mean(-1, keepdim=True) if self._is_floating else self._without_ground(signals)

    def _without_ground(self, values: Tensor) -> Tensor:
        """Zero at the ground."""
        if self.ground is None:
            return values
        if not isinstance(self.ground, Integral):
            raise ValueError(
                f"SteadyStateFilter got ground={self.ground!r}, and signals without names of nodes; expected the "
                f"number of a node, which for_nodes(node_names) puts in place of its name."
            )
        if self.ground >= values.shape[-1]:
            raise ValueError(
                f"SteadyStateFilter got ground={self.ground!r}, but the graph has {values.shape[-1]} nodes; expected "
                f"an index of at most {values.shape[-1] - 1}."
            )
        values = values.clone()
        values[..., self.ground] = 0.0
        return values


def _solve(matrices: Tensor, signals: Tensor) -> Tensor:
    """K^-1 times each row of the signals: (chains, experiments, nodes); infinite or nan where K has no inverse."""
    solutions: Tensor = torch.linalg.solve_ex(matrices, signals.mT.expand(len(matrices), -1, -1))[0]
    return solutions.mT
