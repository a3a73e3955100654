"""Heat diffusion."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from ._base import GraphFilter, Linearization

__all__ = ["HeatDiffusionFilter"]

LAPLACIANS = ("combinatorial", "normalized")


class HeatDiffusionFilter(GraphFilter):
    """h(A) = exp(-theta L) with 0 <= theta <= theta_max: heat that has spread over the graph for a time theta.

    Parameters
    ----------
    laplacian : {"combinatorial", "normalized"}, default="combinatorial"
        L = D - A, or L = I - D^(-1/2) A D^(-1/2), with D the diagonal matrix of degrees. A node without edges keeps
        its heat under both.
    initial_low, initial_high : float, default=0.3 and 0.7
        theta starts at a uniform draw between the two, where the sampler starts it at random.
    theta_max : float, default=10.0
        The longest time that is considered. Once the heat is even, more time changes nothing, and without an end the
        data could not rule out any.

    Examples
    --------
    >>> import torch
    >>> from sklearn_graphid.filters import HeatDiffusionFilter
    >>> edge = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    >>> warm = HeatDiffusionFilter().apply(edge, torch.tensor([[20.0]]), torch.tensor([[1.0, 0.0]]))
    >>> [round(value, 4) for value in warm.flatten().tolist()]
    [0.5, 0.5]
    """

    def __init__(
        self,
        laplacian: str = "combinatorial",
        initial_low: float = 0.3,
        initial_high: float = 0.7,
        theta_max: float = 10.0,
    ):
        self.laplacian = laplacian
        self.initial_low = initial_low
        self.initial_high = initial_high
        self.theta_max = theta_max

    def check(self) -> None:
        if self.laplacian not in LAPLACIANS:
            raise ValueError(
                f"HeatDiffusionFilter got laplacian={self.laplacian!r}; expected one of {', '.join(LAPLACIANS)}."
            )
        if not 0 <= self.initial_low <= self.initial_high <= self.theta_max < float("inf"):
            raise ValueError(
                f"HeatDiffusionFilter got initial_low={self.initial_low!r}, initial_high={self.initial_high!r} and "
                f"theta_max={self.theta_max!r}; expected 0 <= initial_low <= initial_high <= theta_max."
            )

    def parameter_names(self) -> list[str]:
        return ["theta"]

    def bounds(self) -> list[tuple[float, float]]:
        return [(0.0, float(self.theta_max))]

    def initial_range(self) -> list[tuple[float, float]]:
        return [(self.initial_low, self.initial_high)]

    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        laplacian, _ = self._laplacian_with_pullback(adjacency)
        kernel: Tensor = torch.linalg.matrix_exp(-theta[:, :, None] * laplacian)
        return signals @ kernel.mT

    def linearize(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Linearization:
        laplacian, laplacian_pullback = self._laplacian_with_pullback(adjacency)
        eigenvalues, eigenvectors, spectrum = _spectrum(laplacian, signals)
        decay = torch.exp(-theta * eigenvalues)
        outputs = (spectrum * decay[:, None]) @ eigenvectors.mT

        def pullback(cotangent: Tensor) -> tuple[Tensor, Tensor]:
            projected = cotangent @ eigenvectors
            # exp(-theta L) needs the eigenvalues anyway, so the gradient comes from their divided differences.
            inner = _divided_differences(eigenvalues, theta) * (projected.mT @ spectrum)
            slope = -(eigenvalues * decay)[:, None]
            theta_gradient = (projected * spectrum * slope).sum((-2, -1))[:, None]
            return laplacian_pullback(eigenvectors @ inner @ eigenvectors.mT), theta_gradient

        return Linearization(outputs, pullback)

    def theta_jacobian(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> tuple[Tensor, Tensor]:
        laplacian, _ = self._laplacian_with_pullback(adjacency)
        eigenvalues, eigenvectors, spectrum = _spectrum(laplacian, signals)
        decayed = spectrum * torch.exp(-theta * eigenvalues)[:, None]
        slope = -(decayed * eigenvalues[:, None]) @ eigenvectors.mT
        return decayed @ eigenvectors.mT, slope[..., None]

    def _laplacian_with_pullback(self, adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        if self.laplacian == "combinatorial":
            return _combinatorial_laplacian(adjacency)
        return _normalized_laplacian(adjacency)


def _combinatorial_laplacian(adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    def pullback(gradient: Tensor) -> Tensor:
        return gradient.diagonal(dim1=-2, dim2=-1)[..., None] - gradient

    return torch.diag_embed(adjacency.sum(-1)) - adjacency, pullback


def _normalized_laplacian(adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    # A degree below one counts as one. On a graph that changes only the nodes without edges, which so get a zero
    # row and keep their heat; on the soft matrices of a sampler it keeps the division from blowing up.
    degree = adjacency.sum(-1)
    floored = degree.clamp_min(1.0)
    scale = floored.rsqrt()
    scaled = scale[..., :, None] * adjacency * scale[..., None, :]

    def pullback(gradient: Tensor) -> Tensor:
        direct = -scale[..., :, None] * gradient * scale[..., None, :]
        weighted = gradient * adjacency
        both_ways = (weighted + weighted.mT) @ scale[..., None]
        through_scale = 0.5 * both_ways[..., 0] * scale / floored * (degree > 1)
        through_diagonal = gradient.diagonal(dim1=-2, dim2=-1) * (degree < 1)
        return direct + (through_scale + through_diagonal)[..., :, None]

    return torch.diag_embed(degree / floored) - scaled, pullback


def _spectrum(laplacian: Tensor, signals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    # A chain that has diverged must not stop the others of its batch, as the decomposition of nan would; it gets nan
    # eigenvalues instead, and with them nan outputs.
    finite = torch.isfinite(laplacian).all(-1).all(-1)
    eigenvalues, eigenvectors = torch.linalg.eigh(torch.where(finite[:, None, None], laplacian, 0.0))
    eigenvalues = torch.where(finite[:, None], eigenvalues, torch.nan)
    return eigenvalues, eigenvectors, signals @ eigenvectors


def _divided_differences(eigenvalues: Tensor, theta: Tensor) -> Tensor:
    """(f(a) - f(b)) / (a - b) for f(a) = exp(-theta a) at every pair of eigenvalues.

    Written as -theta f(min(a, b)) (1 - exp(-w)) / w with w = theta |a - b|, which neither cancels nor overflows,
    and is the derivative where the two are equal.
    """
    first, second = eigenvalues[..., :, None], eigenvalues[..., None, :]
    time = theta[..., None]
    width = (time * (first - second).abs()).clamp_min(torch.finfo(eigenvalues.dtype).tiny)
    return time * torch.exp(-time * torch.minimum(first, second)) * torch.expm1(-width) / width
