"""Changes of one pair under heat diffusion, by a sum of resolvents.

exp(-x) is, for all x >= 0 and to within 3e-8, the real part of a sum of four terms w / (x + z): the best rational
approximation of degree eight, as the method of Caratheodory and Fejer finds it (Trefethen, Weideman and Schmelzer, BIT
46, 2006). So heat is a sum of four resolvents R = (theta L + z I)^-1, and a change of one pair, which adds c v v' to
theta L with v = e_i - e_j, takes f u u' off each of them, u = R v and f = c / (1 + c v'u), by Sherman and Morrison. No
exponential of a changed matrix is ever formed.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ._edge_changes import EdgeChanges, Moments, nodes_of

__all__ = ["HeatChanges"]

_POLES = (
    3.2209452451180125 + 1.1936196054221206j,
    2.292249147887982 + 3.600771496085447j,
    0.2694909874430078 + 6.082032592715811j,
    -3.4085395013620245 + 8.77303456442925j,
)
_WEIGHTS = (
    3.6635434214753567 + 19.051216261145864j,
    -4.872481466138163 - 7.433511282253848j,
    1.2651761075491392 + 0.8878462054808117j,
    -0.05625951432850368 - 0.023154769140942486j,
)
# Numbers of a chain's table up to which all chains are updated together, whether their graph changes or not.
_LARGEST_TABLE_AT_ONCE = 2**14


class HeatChanges(EdgeChanges):
    """Moments of graphs under heat diffusion, see `EdgeChanges`.

    Parameters
    ----------
    laplacian : Tensor (chains, nodes, nodes)
        Of the graphs; combinatorial.
    theta : Tensor (chains, 1)
        The time.
    signals, targets : Tensor (experiments, nodes)
        Inputs, and outputs that were all measured.
    """

    tables = ("_table",)

    def __init__(self, laplacian: Tensor, theta: Tensor, signals: Tensor, targets: Tensor):
        n_nodes, n_experiments = signals.shape[1], signals.shape[0]
        self._theta = theta[:, 0].double()
        self._widths = [n_nodes, n_experiments, n_experiments]
        poles, self._weights = (
            torch.tensor(values, dtype=torch.complex128, device=theta.device) for values in (_POLES, _WEIGHTS)
        )
        eigenvalues, eigenvectors = torch.linalg.eigh(laplacian.double())
        eigenvalues = theta.double() * eigenvalues
        decayed = (signals.double() @ eigenvectors) * torch.exp(-eigenvalues)[:, None]
        residuals = targets.double() - decayed @ eigenvectors.mT
        inverted = 1 / (eigenvalues[:, None] + poles[:, None])  # (chains, poles, nodes)
        scaled = eigenvectors[:, None] * torch.cat([inverted.real, inverted.imag], 1)[:, :, None]
        # Resolvents, and what they make of the signals and of the residuals.
        right = torch.cat([eigenvectors, signals.double() @ eigenvectors, residuals @ eigenvectors], 1).mT
        # Node by node, (chains, nodes, 2 x poles, nodes + 2 experiments): real parts of all poles, then imaginary ones.
        self._table = (scaled @ right[:, None]).movedim(1, 2).contiguous()
        self.moments = Moments.of_residuals(residuals.square().sum((-2, -1)))
        self.n_numbers = 6 * len(_POLES) * (n_experiments + n_nodes)

    def moments_after(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> Moments:
        change = self._change(nodes_of(rows, columns), amounts)
        left, right, residuals = self._outer_factors(change)
        squares = self.moments.squares[:, None] - 2 * (left * residuals).sum((-2, -1))
        return Moments.of_residuals(squares + _squares_of_product(left, right))

    def output_changes(self, rows: Tensor, columns: Tensor, amounts: Tensor, theta: Tensor) -> Tensor:
        left, right, _ = self._outer_factors(self._change(nodes_of(rows, columns), amounts))
        return (left.mT @ right).to(theta.dtype)

    def make(self, rows: Tensor, columns: Tensor, amounts: Tensor, moments: Moments) -> None:
        self.moments = moments
        change = self._change(nodes_of(rows, columns)[:, None], amounts[:, None])
        left, right, _ = (part[:, 0] for part in self._outer_factors(change))
        added = right.mT @ left  # (chains, nodes, experiments), to the outputs
        scaled = change.factor[..., None] * _as_complex(right[:, None])
        scaled = torch.cat([scaled.real, scaled.imag], 2)[:, 0].mT  # (chains, nodes, 2 x poles)
        taken = _complex_multiplier(change.differences[:, 0])
        if self._table[0].numel() <= _LARGEST_TABLE_AT_ONCE:
            self._take_off(self._table, scaled, taken, added)
            return
        # One chain after the other: a large table of a chain that stays as it is should not be touched.
        for chain in amounts.nonzero()[:, 0].tolist():
            one = slice(chain, chain + 1)
            self._take_off(self._table[one], scaled[one], taken[one], added[one])

    def _take_off(self, table: Tensor, left: Tensor, right: Tensor, added: Tensor) -> None:
        """Take products off the table, and what is added to the outputs off its residuals, in place."""
        table.flatten(2).baddbmm_(left, right, alpha=-1)
        by_rows = table.flatten(1, 2)
        by_rows[..., -added.shape[-1] :] -= by_rows[..., : added.shape[-2]] @ added

    def _change(self, nodes: Tensor, amounts: Tensor) -> _HeatChange:
        n_chains, n_nodes = self._table.shape[:2]
        places = nodes + n_nodes * torch.arange(n_chains, device=nodes.device)[:, None, None]
        first, second = self._table.flatten(0, 1).index_select(0, places.movedim(2, 0).flatten()).chunk(2)
        differences = (first - second).view(*nodes.shape[:2], *self._table.shape[2:])
        ends = differences.gather(-1, nodes[..., None, :].expand(*differences.shape[:-1], 2))
        resistance = torch.complex(*(ends[..., 0] - ends[..., 1]).chunk(2, -1))
        change = (self._theta[:, None] * amounts.double())[..., None]
        return _HeatChange(differences, change / (1 + change * resistance))

    def _outer_factors(self, change: _HeatChange) -> tuple[Tensor, Tensor, Tensor]:
        """Two factors (chains, changes, 2 x poles, ...) of what is added to the outputs; and the residuals' part."""
        response, signals, residuals = change.differences.split(self._widths, -1)
        left = (self._weights * change.factor)[..., None] * _as_complex(signals)
        return torch.cat([-left.real, left.imag], -2), response, residuals


class _HeatChange(NamedTuple):
    """What changes of one pair take off the resolvents."""

    differences: Tensor  # (chains, changes, 2 x poles, ...) of the table at the two nodes
    factor: Tensor  # (chains, changes, poles), complex


def _as_complex(values: Tensor) -> Tensor:
    """Complex numbers (..., poles, n) from their real parts, then their imaginary parts (..., 2 x poles, n)."""
    return torch.complex(*values.chunk(2, -2))


def _complex_multiplier(values: Tensor) -> Tensor:
    """Matrices (chains, 2 x poles, 2 x poles x n): a row times one of them is the complex product of each pole's own.

    Three in four entries are zero, and still it is quicker than one operation after the other.
    """
    n_poles = values.shape[1] // 2
    blocks = values.new_zeros(len(values), 2, n_poles, 2, n_poles, values.shape[2])
    diagonal = blocks.diagonal(dim1=2, dim2=4)  # (chains, 2, 2, n, poles)
    real, imaginary = (part.mT for part in values.chunk(2, 1))
    diagonal[:, 0, 0], diagonal[:, 0, 1] = real, imaginary
    diagonal[:, 1, 0], diagonal[:, 1, 1] = -imaginary, real
    return blocks.flatten(3).flatten(1, 2)


def _squares_of_product(left: Tensor, right: Tensor) -> Tensor:
    """The sum of the squares of left' right, which is never formed."""
    return ((left @ left.mT) * (right @ right.mT)).sum((-2, -1))
