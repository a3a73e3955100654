"""Changes of one pair under heat diffusion, by a sum of resolvents.

exp(-x) is, for all x >= 0 and to within 3e-8, the real part of a sum of four terms w / (x + z): the best rational
approximation of degree eight, as the method of Caratheodory and Fejer finds it (Trefethen, Weideman and Schmelzer, BIT
46, 2006). So heat is a sum of four resolvents R = (theta L + z I)^-1, and a change of one pair, which adds c v v' to
theta L with v = e_i - e_j, takes f u u' off each of them, u = R v and f = c / (1 + c v'u), by Sherman and Morrison. No
exponential of a changed matrix is ever formed.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ._edge_changes import EdgeChanges, Moments, difference, nodes_of

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

    def __init__(self, laplacian: Tensor, theta: Tensor, signals: Tensor, targets: Tensor):
        self._theta = theta[:, 0].double()
        poles, self._weights = (
            torch.tensor(values, dtype=torch.complex128, device=theta.device) for values in (_POLES, _WEIGHTS)
        )
        eigenvalues, eigenvectors = torch.linalg.eigh(laplacian.double())
        eigenvalues = theta.double() * eigenvalues
        inverted = 1 / (eigenvalues[:, None] + poles[:, None])  # (chains, poles, nodes)
        scaled = eigenvectors[:, None] * torch.cat([inverted.real, inverted.imag], 1)[:, :, None]
        # Node by node, (chains, nodes, 2 x poles, nodes): the real parts of all, then the imaginary parts.
        self._resolvents = (scaled @ eigenvectors.mT[:, None]).movedim(1, 2).contiguous()
        self._filtered = self._resolvents @ signals.mT.double()  # (chains, nodes, 2 x poles, experiments)
        decayed = (signals.double() @ eigenvectors) * torch.exp(-eigenvalues)[:, None]
        self._residuals = targets.double() - decayed @ eigenvectors.mT
        self._filtered_residuals: Tensor | None = None
        self.moments = Moments.of_residuals(self._residuals.square().sum((-2, -1)))
        self.n_numbers = 6 * len(_POLES) * (signals.shape[0] + signals.shape[1])

    def moments_after(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> Moments:
        nodes = nodes_of(rows, columns)
        _, left, right = self._change(nodes, amounts)
        if self._filtered_residuals is None:
            self._filtered_residuals = self._resolvents @ self._residuals[:, None].mT
        chains = torch.arange(len(nodes), device=nodes.device)[:, None]
        residuals = difference(self._filtered_residuals, chains, nodes)
        squares = self.moments.squares[:, None] - 2 * (left * residuals).sum((-2, -1))
        return Moments.of_residuals(squares + _squares_of_product(left, right))

    def output_changes(self, rows: Tensor, columns: Tensor, amounts: Tensor, theta: Tensor) -> Tensor:
        _, left, right = self._change(nodes_of(rows, columns), amounts)
        return (left.mT @ right).to(theta.dtype)

    def make(self, rows: Tensor, columns: Tensor, amounts: Tensor, moments: Moments) -> None:
        self.moments = moments
        nodes = nodes_of(rows, columns)
        factor, left, response = (part[:, 0] for part in self._change(nodes[:, None], amounts[:, None]))
        signals = difference(self._filtered, torch.arange(len(nodes), device=nodes.device), nodes)
        scaled = factor[..., None] * torch.complex(*response.chunk(2, 1))  # (chains, poles, nodes)
        # One chain after the other, in place: a copy of many resolvents would cost more than the changes.
        for chain in amounts.nonzero()[:, 0].tolist():
            _take_off(self._filtered[chain], scaled[chain], signals[chain])
            _take_off(self._resolvents[chain], scaled[chain], response[chain])
            self._residuals[chain].addmm_(left[chain].mT, response[chain], alpha=-1)
            if self._filtered_residuals is not None:
                self._filtered_residuals[chain] = self._resolvents[chain] @ self._residuals[chain].mT

    def _change(self, nodes: Tensor, amounts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """f (chains, changes, poles), and the product (.., 2 x poles, experiments or nodes) added to the outputs."""
        chains = torch.arange(len(nodes), device=nodes.device)[:, None]
        response = difference(self._resolvents, chains, nodes)
        ends = response.gather(-1, nodes[..., None, :].expand(*response.shape[:-1], 2))
        resistance = torch.complex(*(ends[..., 0] - ends[..., 1]).chunk(2, -1))
        change = (self._theta[:, None] * amounts.double())[..., None]
        factor = change / (1 + change * resistance)
        signals = torch.complex(*difference(self._filtered, chains, nodes).chunk(2, -2))
        left = -(self._weights * factor)[..., None] * signals
        return factor, torch.cat([left.real, -left.imag], -2), response


def _take_off(values: Tensor, left: Tensor, right: Tensor) -> None:
    """Take complex products of left (poles, n) and right (2 x poles, m) off values (n, 2 x poles, m), in place."""
    real, imaginary = values.chunk(2, 1)
    left_real, left_imaginary = left.real.mT[..., None], left.imag.mT[..., None]
    right_real, right_imaginary = right.chunk(2, 0)
    real.addcmul_(left_real, right_real, value=-1).addcmul_(left_imaginary, right_imaginary)
    imaginary.addcmul_(left_real, right_imaginary, value=-1).addcmul_(left_imaginary, right_real, value=-1)


def _squares_of_product(left: Tensor, right: Tensor) -> Tensor:
    """The sum of the squares of left' right, which is never formed."""
    return ((left @ left.mT) * (right @ right.mT)).sum((-2, -1))
