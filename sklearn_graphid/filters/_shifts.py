"""Matrices that a filter can be made of: the adjacency matrix and its Laplacians, with the way back for gradients."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["SHIFTS", "combinatorial_laplacian", "normalized_laplacian"]


def _adjacency(adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    def pullback(gradient: Tensor) -> Tensor:
        return gradient

    return adjacency, pullback


def combinatorial_laplacian(adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """D - A, and the gradient with respect to A that follows from one with respect to it."""

    def pullback(gradient: Tensor) -> Tensor:
        return gradient.diagonal(dim1=-2, dim2=-1)[..., None] - gradient

    return torch.diag_embed(adjacency.sum(-1)) - adjacency, pullback


def normalized_laplacian(adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """I - D^(-1/2) A D^(-1/2), and the same for it."""
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


SHIFTS = {
    "adjacency": _adjacency,
    "laplacian": combinatorial_laplacian,
    "normalized-laplacian": normalized_laplacian,
}
