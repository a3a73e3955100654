"""The steady state of a flow network: resistors, DC power flow, heat that no longer changes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from numbers import Integral
from typing import NamedTuple

import torch
from sklearn.base import clone
from torch import Tensor

from .._utils._numbers import check_integer, check_number
from ..graphs._nodes import Names, are_integers, in_words, match_names
from ._base import GraphFilter, Linearization
from ._edge_changes import EdgeChanges, same_in_all_experiments
from ._tables import InverseChanges

__all__ = ["SteadyStateFilter"]


# Without a bridge c, whose resistance is 1 / c, there is no steady state: 1 + c v'R v is zero but for rounding errors,
# while it is at least one over the number of nodes for an edge that is no bridge, where all edges are alike.
_SMALLEST_DETERMINANT = 1e-7
# A matrix counts as singular where a pivot of its elimination is smaller than this share of the largest one.
_SMALLEST_PIVOT = 1e-10
# In a directed graph where no path of edges leads from the ground to some node, every node gets a leak this small.
_SMALLEST_LEAK = 1e-6


class SteadyStateFilter(GraphFilter):
    """Steady-state potentials, such as voltages or temperatures, for given inflows: y = scale (L + g I)^+ x.

    L = D - A is the Laplacian of the graph. Without a ground node and with g = 0, potentials are defined only up to a
    constant: the mean of the inflows is subtracted at all nodes, and the potentials have mean zero.

    With g = 0, a graph in several pieces has no steady state unless the inflows of each piece without the ground add up
    to zero, and the potentials of such a piece are defined only up to a constant. `apply` uses the pseudo-inverse: the
    mean of the inflows of each such piece is subtracted, and its potentials have mean zero. An identifier that samples
    gives a graph probability zero if it is in more pieces than the known pairs make unavoidable. If the graph that you
    look for may fall apart, use a leak.

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
        if self.ground is None or (is_number and not are_integers(node_names)):
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
        network, scale = self._network(adjacency), theta[:, :, None].double()
        potentials = network.potentials(signals)

        def pullback(cotangent: Tensor) -> tuple[Tensor, Tensor]:
            # K y = x, so that dy = -K^-1 dK y.
            adjoint = network.solve_transposed(scale * cotangent.double())
            gradient = self._without_ground(adjoint).mT @ self._without_ground(potentials)  # minus that of K
            # An entry of A is taken off the same entry of K and added to the diagonal of its row; where it is below
            # zero, it counts as zero.
            gradient = (gradient - gradient.diagonal(dim1=-2, dim2=-1)[..., None]) * (adjacency >= 0)
            theta_gradient = (cotangent * potentials).sum((-2, -1))[:, None]
            return gradient.to(adjacency.dtype), theta_gradient.to(theta.dtype)

        return Linearization((scale * potentials).to(adjacency.dtype), pullback)

    def design(self, adjacency: Tensor, signals: Tensor) -> Tensor:
        return self._network(adjacency).potentials(signals).to(adjacency.dtype)[:, None]

    def n_loose(self, adjacency: Tensor) -> Tensor | None:
        if self.leak > 0:
            return None
        reached = _reached(adjacency)
        if self._is_undirected(adjacency):
            return (1 / reached.sum(-1)).sum(-1).round()  # every piece of n nodes counts n times 1 / n
        return self._is_afloat(reached).sum(-1)

    def edge_changes(
        self,
        adjacency: Tensor,
        theta: Tensor,
        signals: Tensor,
        targets: Tensor,
        measured: Tensor | None = None,
        directed: bool = False,
    ) -> EdgeChanges:
        # K turns into K + c v v', v = e_i - e_j; in a directed graph into K + c e_i v'.
        of_nodes = None if measured is None else same_in_all_experiments(measured)
        if measured is not None and of_nodes is None:
            return super().edge_changes(adjacency, theta, signals, targets, measured, directed)
        inverse = self._inverse(adjacency).mT
        settings = {"left_differs": not directed, "right_differs": True, "directed": directed}
        one = inverse.new_ones(1)
        return InverseChanges(inverse, one, signals, targets, of_nodes, smallest=_SMALLEST_DETERMINANT, **settings)

    def changed_designs(
        self, adjacency: Tensor, signals: Tensor, rows: Tensor, columns: Tensor, amounts: Tensor
    ) -> Tensor:
        unit, directed = adjacency.new_ones(len(adjacency), 1), rows.shape[-1] == 1
        changes = self.edge_changes(adjacency, unit, signals, torch.zeros_like(signals), None, directed)
        return (self.design(adjacency, signals) + changes.output_changes(rows, columns, amounts, unit))[:, :, None]

    def _inverse(self, adjacency: Tensor) -> Tensor:
        """Potentials (chains, nodes, nodes) for an inflow of one at each node, whose row they are."""
        identity = torch.eye(adjacency.shape[-1], dtype=torch.float64, device=adjacency.device)
        return self._network(adjacency).potentials(identity)

    def _network(self, adjacency: Tensor) -> _Network:
        """What potentials are computed from, in double precision."""
        # The soft matrices of a sampler may have entries below zero, for which there is no steady state.
        weights, n_nodes = adjacency.double().clamp_min(0.0), adjacency.shape[-1]
        matrix = torch.diag_embed(weights.sum(-1) + float(self.leak)) - weights
        if self.ground is not None:
            is_free = self._without_ground(matrix.new_ones(n_nodes))
            matrix = matrix * is_free[:, None] * is_free + torch.diag(1 - is_free)
        network = _Network.of(matrix + 1.0 / n_nodes if self._is_floating else matrix, self._inflow)
        if self.leak > 0 or not bool((is_singular := network.is_singular()).any()):
            return network
        if not self._is_undirected(weights):
            leaks = torch.diag_embed((_SMALLEST_LEAK * is_singular.to(matrix))[:, None].expand(-1, n_nodes))
            return _Network.of(matrix + leaks, self._inflow)
        of_one_piece = 1.0 / n_nodes if self._is_floating else 0.0
        means = torch.where(is_singular[:, None, None], self._piecewise_means(weights), of_one_piece)
        return _Network.of(matrix + means, lambda signals: (free := self._without_ground(signals)) - free @ means)

    def _is_undirected(self, adjacency: Tensor) -> bool:
        return self._is_floating or torch.equal(adjacency, adjacency.mT)

    def _piecewise_means(self, weights: Tensor) -> Tensor:
        """Matrices (chains, nodes, nodes) that take the mean over every piece of a graph without the ground."""
        reached = _reached(weights)
        return reached / reached.sum(-1, keepdim=True) * self._is_afloat(reached)[..., None]

    def _is_afloat(self, reached: Tensor) -> Tensor:
        """Which nodes (chains, nodes) no path connects to the ground, from which node reaches which."""
        at_ground = reached - self._without_ground(reached)
        return (at_ground.sum(-1) == 0).to(reached)

    @property
    def _is_floating(self) -> bool:
        return self.ground is None and self.leak == 0

    def _inflow(self, signals: Tensor) -> Tensor:
        """Inputs (..., nodes) without what a steady state of a graph in one piece cannot hold."""
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


class _Network(NamedTuple):
    """Conductances K of every chain, ready to be solved, and what they leave of the inputs."""

    factors: Tensor  # (chains, nodes, nodes), lower and upper triangular
    pivots: Tensor
    inflow: Callable[[Tensor], Tensor]

    @classmethod
    def of(cls, conductance: Tensor, inflow: Callable[[Tensor], Tensor]) -> _Network:
        factors, pivots, _ = torch.linalg.lu_factor_ex(conductance)
        return cls(factors, pivots, inflow)

    def is_singular(self) -> Tensor:
        """Which of the (chains,) have no inverse; False where one has diverged to nan."""
        diagonal = self.factors.diagonal(dim1=-2, dim2=-1).abs()
        return diagonal.amin(-1) <= _SMALLEST_PIVOT * diagonal.amax(-1)

    def potentials(self, signals: Tensor) -> Tensor:
        """K^-1 times each row of the inputs: (chains, experiments, nodes)."""
        return self._solve(self.inflow(signals.double()), adjoint=False)

    def solve_transposed(self, signals: Tensor) -> Tensor:
        """K^-T times each row, with nothing left out."""
        return self._solve(signals, adjoint=True)

    def _solve(self, signals: Tensor, adjoint: bool) -> Tensor:
        columns = signals.mT.expand(len(self.factors), -1, -1)
        solutions: Tensor = torch.linalg.lu_solve(self.factors, self.pivots, columns, adjoint=adjoint)
        return solutions.mT


def _reached(adjacency: Tensor) -> Tensor:
    """Matrices (chains, nodes, nodes) that are 1 where a path of edges leads from the column's node to the row's."""
    reached = (adjacency > 0).double() + torch.eye(adjacency.shape[-1], dtype=torch.float64, device=adjacency.device)
    for _ in range((adjacency.shape[-1] - 1).bit_length()):
        reached = (reached @ reached > 0).double()  # paths of twice as many edges
    return (reached > 0).double()
