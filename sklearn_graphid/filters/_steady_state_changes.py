"""Changes of one pair in a steady state, by the formula of Sherman and Morrison.

A change of c turns the conductance K into K + c v v', v = e_i - e_j, and its inverse R into R - f u u' with u = R v and
f = c / (1 + c v'u). So potentials P = X R turn into P - f z u' with z = P v, and their moments need no more than z and
what R, R D R, P D R and Y D R hold at the two nodes. D is diagonal and says how much the square of a node's residual
counts: the identity, unless the noise differs from node to node or some nodes were not measured.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ._edge_changes import EdgeChanges, Moments, difference, nodes_of
from ._edge_derivatives import RankOneDerivatives

__all__ = ["SteadyStateChanges", "rank_one_factor"]

# Without a bridge c, whose resistance is 1 / c, there is no steady state: 1 + c v'R v is zero but for rounding errors,
# while it is at least one over the number of nodes for an edge that is no bridge, where all edges are alike.
_SMALLEST_SHARE = 1e-7
# Places among the vectors that are kept of every node.
_POTENTIALS, _POTENTIALS_BACK, _TARGETS_BACK = range(3)


class SteadyStateChanges(EdgeChanges):
    """Moments of graphs under a steady state, see `EdgeChanges`.

    Parameters
    ----------
    inverse : Tensor (chains, nodes, nodes)
        Potentials for an inflow of one at each node, in double precision; symmetric.
    signals, targets : Tensor (experiments, nodes)
        Inputs, and outputs.
    measured : Tensor (nodes,) or None
        What the residuals of each node are multiplied by; None where it is 1.
    """

    tables = ("_inverse", "_square", "_vectors")

    def __init__(self, inverse: Tensor, signals: Tensor, targets: Tensor, measured: Tensor | None = None):
        self._inverse = inverse.contiguous()
        self._square: Tensor | None = None  # R D R
        self._counts = None if measured is None else measured.double().square()
        potentials, targets = signals.double() @ inverse, targets.double()
        counted_potentials, counted_targets = self._counted(potentials), self._counted(targets)
        vectors = [potentials, counted_potentials @ inverse, counted_targets @ inverse]
        self._vectors = torch.stack(vectors, 1).permute(0, 3, 1, 2).contiguous()  # (chains, nodes, 3, experiments)
        cross, gram = ((potentials * counted).sum((-2, -1)) for counted in (counted_targets, counted_potentials))
        squares = (targets * counted_targets).sum((-2, -1)).expand(len(inverse))
        self.moments = Moments(squares, cross[:, None], gram[:, None, None])
        self.n_numbers = 6 * signals.shape[0]

    def moments_after(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> Moments:
        nodes = nodes_of(rows, columns)
        chains = torch.arange(len(nodes), device=nodes.device)[:, None]
        factor, drops = self._change(chains, nodes, amounts)
        squared_length = _across(self._squared_inverse(), chains, nodes)
        length, back, target = (drops @ drops[..., _POTENTIALS, :, None])[..., 0].unbind(-1)
        squares, cross, gram = self.moments
        cross = cross - factor * target
        gram = gram[..., 0] - 2 * factor * back + factor**2 * length * squared_length
        return Moments(squares[:, None].expand(amounts.shape), cross[..., None], gram[..., None, None])

    def output_changes(self, rows: Tensor, columns: Tensor, amounts: Tensor, theta: Tensor) -> Tensor:
        nodes = nodes_of(rows, columns)
        chains = torch.arange(len(nodes), device=nodes.device)[:, None]
        factor, drops = self._change(chains, nodes, amounts)
        response = difference(self._inverse, chains, nodes)
        scale = -theta.double()[:, :, None] * factor[..., None] * drops[..., _POTENTIALS, :]
        return (scale[..., None] * response[:, :, None]).to(theta.dtype)

    def derivatives(self, rows: Tensor, columns: Tensor, theta: Tensor, probe: Tensor) -> RankOneDerivatives:
        nodes = nodes_of(rows, columns)
        chains = torch.arange(len(nodes), device=nodes.device)[:, None]
        drops = difference(self._vectors, chains, nodes)[..., _POTENTIALS, :]
        left, right = -theta.double()[:, :, None] * drops, difference(self._inverse, chains, nodes)
        return RankOneDerivatives(left.to(theta.dtype), right.to(theta.dtype))

    def make(self, rows: Tensor, columns: Tensor, amounts: Tensor, moments: Moments) -> None:
        self.moments = moments
        nodes = nodes_of(rows, columns)
        chains = torch.arange(len(nodes), device=nodes.device)
        factor, drops = self._change(chains, nodes, amounts)
        square = self._squared_inverse()
        excess = (factor * _across(square, chains, nodes))[:, None]
        response, twice = difference(self._inverse, chains, nodes), difference(square, chains, nodes)
        scaled = factor[:, None] * response
        # (R - f u u') D (R - f u u'), with R D u = w: what is taken off is f (u w' + w u') - f^2 (u' D u) u u'.
        half = twice - 0.5 * excess * response
        square.baddbmm_(torch.stack([scaled, half], 2), torch.stack([half, scaled], 1), alpha=-1)
        self._inverse.baddbmm_(scaled[:, :, None], response[:, None], alpha=-1)
        taken = drops[:, None] * scaled[:, :, None, None]
        rest = factor[:, None] * (twice - excess * response)
        taken[:, :, _POTENTIALS_BACK] += rest[:, :, None] * drops[:, None, _POTENTIALS]
        self._vectors -= taken

    def _change(self, chains: Tensor, nodes: Tensor, amounts: Tensor) -> tuple[Tensor, Tensor]:
        """The factor f (...) and the differences (..., 3, experiments) of the two nodes' vectors."""
        factor = rank_one_factor(amounts.double(), _across(self._inverse, chains, nodes))
        return factor, difference(self._vectors, chains, nodes)

    def _squared_inverse(self) -> Tensor:
        if self._square is None:
            self._square = self._counted(self._inverse) @ self._inverse
        return self._square

    def _counted(self, values: Tensor) -> Tensor:
        """Values (..., nodes) times D."""
        return values if self._counts is None else values * self._counts


def rank_one_factor(change: Tensor, resistance: Tensor) -> Tensor:
    """f = c / (1 + c v'R v) of a change c of an edge, given v'R v; nan where it would cut the graph in two."""
    left = 1 + change * resistance
    return torch.where(left > _SMALLEST_SHARE, change / left, torch.nan)


def _across(matrices: Tensor, chains: Tensor, nodes: Tensor) -> Tensor:
    """v' M v for v = e_i - e_j and symmetric matrices M."""
    first, second = nodes.unbind(-1)
    return matrices[chains, first, first] + matrices[chains, second, second] - 2 * matrices[chains, first, second]
