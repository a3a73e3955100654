"""A second-order denoiser for binary graphs, in the manner of provably powerful graph networks.

The clean graph is binary, so the best denoiser is a probability: given the noisy matrix, pair (i, j) is an edge with
log-odds (a~ - 1/2) / sigma^2, what its own value says in closed form, plus what the other pairs say. The network
learns only the second part. Every pair carries a feature vector; blocks multiply the feature matrices with one
another, which lets a pair see the paths that join its two ends.

In a directed graph every ordered pair has features of its own, which begin with what is believed of both directions.
Left and right factors of a product then differ: of two nodes, what both point to is not what points to both.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

__all__ = ["LOWEST_SIGMA", "NO_VALUE", "PPGN"]

# Less noise than this is not trained for, as a pair's own value leaves nothing to learn; the network is told this much,
# so that it need not extrapolate.
LOWEST_SIGMA = 0.12
# What a pair holds of which nothing is known: it speaks neither for an edge nor against it.
NO_VALUE = 0.5


class PPGN(nn.Module):
    """Probability of every edge, given a noisy matrix and the pairs that carry no noise.

    A pair has `width` features, paths are extended `n_blocks` times, and the annealing level is described by
    `n_frequencies` numbers. If `directed`, every ordered pair stands alone. With `graph_context`, for collections of
    unlike graphs, the odds start from the density of the graph at hand instead of that of all, and every block mixes in
    the mean over all pairs.

    Tensors are laid out (channels, graphs, nodes, nodes): a linear map of the channels is then one plain matrix
    product and so is a product of channel matrices, without a transposed copy in between.
    """

    uses_known = True
    independent = True
    reuses_memory = True

    def __init__(
        self,
        width: int = 12,
        n_blocks: int = 6,
        n_frequencies: int = 16,
        directed: bool = False,
        graph_context: bool = False,
    ):
        super().__init__()
        self.directed, self.graph_context = directed, graph_context
        self.settings = {"width": width, "n_blocks": n_blocks, "n_frequencies": n_frequencies}
        flags = {"directed": directed, "graph_context": graph_context}
        self.settings |= {name: True for name, is_set in flags.items() if is_set}
        self.density_logit = nn.Parameter(torch.empty(1))
        self.noise_in = ChannelLinear(3 if graph_context else 2, n_frequencies)
        self.lift = ChannelLinear(7 if directed else 4, width)
        block = DirectedPathBlock if directed else PathBlock
        self.blocks = nn.ModuleList(block(width, n_frequencies, graph_context) for _ in range(n_blocks))
        self.readout_hidden = ChannelLinear(width, width)
        self.readout = ChannelLinear(width, 1)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialise every weight from the generator; the global one is not touched."""
        for module in self.modules():
            if isinstance(module, ChannelLinear):
                bound = 1 / math.sqrt(module.weight.shape[1])
                nn.init.uniform_(module.weight, -bound, bound, generator=generator)
                nn.init.zeros_(module.bias)
            elif isinstance(module, PathBlock):
                module.reset_parameters(generator)
        for name, parameter in self.named_parameters():
            if "from_graph" in name:  # what a pair learns from the whole graph comes on top of what it sees nearby
                nn.init.zeros_(parameter)
        nn.init.constant_(self.density_logit, -2.0)

    def log_odds(self, noisy: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """Log-odds of every edge, symmetric unless directed; on known pairs and on the diagonal they mean nothing.

        Known pairs of the `noisy` matrices hold their exact value; `sigma` (graphs,) is the noise on the others, and
        `known` (as `noisy`, or one for all) is 1 where a pair carries no noise; None: nowhere.
        """
        own, others = self._log_odds_by_source(noisy, sigma, known)
        # On graphs like those of the training, others stay at half of this. On graphs of another kind, products of
        # features can grow from block to block, until they overflow. A number out of all proportion, or nan, says
        # nothing; the pair's own value and the density then speak alone.
        return own + torch.where(others.abs() <= 60.0, others, 0.0)

    def raw_answer(self, noisy: Tensor, sigma: Tensor) -> Tensor:
        """Log-odds as they come, also where they are out of all proportion; they tell whether the weights work."""
        own, others = self._log_odds_by_source(noisy, sigma, None)
        return own + others

    def _log_odds_by_source(self, noisy: Tensor, sigma: Tensor, known: Tensor | None) -> tuple[Tensor, Tensor]:
        """What a pair's own value and the density say of it, and what the other pairs do."""
        n_nodes = noisy.shape[-1]
        diagonal = torch.eye(n_nodes, dtype=noisy.dtype, device=noisy.device)
        off_diagonal = 1 - diagonal
        known = (torch.zeros_like(diagonal) if known is None else known * off_diagonal).expand_as(noisy)
        noise = [sigma.clamp_min(LOWEST_SIGMA).log(), known.mean((-2, -1))]
        # Beyond 30, log-odds are as good as certain; the clamp keeps float32 finite at small noise.
        own = ((noisy - 0.5) / sigma[:, None, None] ** 2).clamp(-30.0, 30.0)
        if self.graph_context:
            noise.append(self._graph_density_logit(noisy, sigma, known))
            own = own + noise[-1][:, None, None]
        else:
            own = own + self.density_logit
        believed = torch.where(known > 0, noisy, torch.sigmoid(own))
        level = torch.nn.functional.silu(self.noise_in(torch.stack(noise)))
        pairs = torch.stack([believed * off_diagonal, believed * (1 - believed) * off_diagonal, known])
        parts = [pairs, pairs.mT] if self.directed else [pairs]
        pairs = torch.cat([*parts, diagonal.expand_as(noisy)[None]])
        features = self.lift(pairs)
        scratch = None if torch.is_grad_enabled() else features.new_empty(3, *features.shape)
        sums = None
        for block in self.blocks:
            features, sums = block(features, sums, level, scratch)
        features = self.readout_hidden(features).relu_()
        others: Tensor = self.readout(features)[0]
        return own, others if self.directed else 0.5 * (others + others.mT)

    def _graph_density_logit(self, noisy: Tensor, sigma: Tensor, known: Tensor) -> Tensor:
        """Log-odds of an edge anywhere in each graph, (graphs,), from its known pairs and its noisy ones."""
        # A noisy value tells as much less than a known one as its variance is larger. A value of one half is no
        # measurement: callers put it where they know nothing, and noise never hits it exactly. Without noise a pair
        # scatters by a variance of about a tenth.
        measured = 1 / (1 + sigma[:, None, None] ** 2 / 0.1) * (noisy != NO_VALUE)
        weight = torch.where(known > 0, 1.0, measured)
        weight = weight - torch.diag_embed(torch.diagonal(weight, dim1=-2, dim2=-1))
        n_usual = 4.0  # ordered pairs of the usual density that are added
        edges = (weight * noisy).sum((-2, -1)) + n_usual * torch.sigmoid(self.density_logit)
        density = edges / (weight.sum((-2, -1)) + n_usual)
        return torch.logit(density.clamp(0.005, 1 - 0.005))

    def denoise(self, noisy: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """E[a | noisy]: the probability of every edge, with a zero diagonal; known pairs keep their value."""
        probability = torch.sigmoid(self.log_odds(noisy, sigma, known))
        if known is not None:
            probability = torch.where(known > 0, noisy, probability)
        return probability * (1 - torch.eye(noisy.shape[-1], dtype=noisy.dtype, device=noisy.device))

    def loss(self, clean: Tensor, noisy: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """Mean cross-entropy of the unknown pairs of each graph, (graphs,)."""
        log_odds = self.log_odds(noisy, sigma, known)
        entropy = torch.nn.functional.binary_cross_entropy_with_logits(log_odds, clean, reduction="none")
        every = torch.ones_like(clean[0])
        counted = (every.fill_diagonal_(0) if self.directed else torch.triu(every, 1)).expand_as(clean)
        if known is not None:
            counted = counted * (1 - known)
        return (entropy * counted).sum((-2, -1)) / counted.sum((-2, -1)).clamp_min(1)


class ChannelLinear(nn.Module):
    """A linear map of the first axis."""

    def __init__(self, n_inputs: int, n_outputs: int):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_outputs, n_inputs))
        self.bias = nn.Parameter(torch.empty(n_outputs))

    def forward(self, features: Tensor) -> Tensor:
        flat = features.reshape(len(features), -1)
        return torch.addmm(self.bias[:, None], self.weight, flat).view(-1, *features.shape[1:])


class PathBlock(nn.Module):
    """Extend paths by squares of mixed feature matrices, mix in the nodes and the annealing level, and add the result.

    A square of a symmetric matrix is symmetric, and sums of squares span all products, so nothing is lost against
    products of two factors.
    """

    def __init__(self, width: int, n_frequencies: int, graph_context: bool = False):
        super().__init__()
        self.factors = nn.Parameter(torch.empty(width, width))
        self.from_pair = nn.Parameter(torch.empty(width, width))
        self.from_paths = nn.Parameter(torch.empty(width, width))
        self.from_nodes = ChannelLinear(width, width)
        self.from_level = ChannelLinear(n_frequencies, width)
        self.from_graph = ChannelLinear(width, width) if graph_context else None
        self.out = nn.Parameter(torch.empty(width, width))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialise what is not a `ChannelLinear`."""
        for weight in (self.factors, self.from_pair, self.from_paths):
            bound = 1 / math.sqrt(weight.shape[1])
            nn.init.uniform_(weight, -bound, bound, generator=generator)
        # The block adds nothing at first, so that deep stacks start as well as shallow ones.
        nn.init.zeros_(self.out)

    def forward(
        self, features: Tensor, sums: Tensor | None, level: Tensor, scratch: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Return new features and, if there is no scratch memory, their scaled sums over rows for the next block.

        Without gradients the features are overwritten. Memory that is new costs as much as the arithmetic, once it is
        more than a megabyte: the system hands it out and takes it back page by page. So all blocks share `scratch`,
        three times the size of the features.
        """
        if sums is None:  # what a node's other pairs hold, its degree among them
            sums = features.sum(-1) / math.sqrt(features.shape[-1])
        nodes = self.from_nodes(sums) + self._shift(sums, level)
        weights = self.factors, self.from_pair, self.from_paths
        if scratch is None:
            return _PathStep.apply(features, nodes, *weights, self.out)  # type: ignore[no-any-return,no-untyped-call]
        _mix_paths(features, nodes, *weights, scratch)
        features.flatten(1).addmm_(self.out, scratch[2].flatten(1))
        return features, None

    def _shift(self, sums: Tensor, level: Tensor) -> Tensor:
        """What the annealing level and the graph as a whole add to every node, (width, graphs, 1)."""
        shift: Tensor = self.from_level(level)
        if self.from_graph is not None:
            shift = shift + self.from_graph(sums.mean(-1))
        return shift[..., None]


def _mix_paths(
    features: Tensor, nodes: Tensor, factors: Tensor, from_pair: Tensor, from_paths: Tensor, memory: Tensor
) -> None:
    """Fill the memory with the factors, their squares, and the rectified mixture of all that a pair is told."""
    # Sparse graphs have few paths between two nodes however large they are, so the square root keeps sums over
    # nodes of order one from ten nodes to hundreds.
    root = math.sqrt(features.shape[-1])
    left, paths, mixed = memory
    flat = features.flatten(1)
    torch.mm(factors, flat, out=left.flatten(1))
    torch.bmm(left.flatten(0, 1), left.flatten(0, 1), out=paths.flatten(0, 1))
    torch.add(nodes[..., None], nodes[..., None, :], out=mixed)
    mixed.flatten(1).addmm_(from_pair, flat).addmm_(from_paths / root, paths.flatten(1)).relu_()


class _PathStep(torch.autograd.Function):
    """A block with its derivative, which knows that all matrices are symmetric: half the products, no copies."""

    @staticmethod
    def forward(
        ctx: Any, features: Tensor, nodes: Tensor, factors: Tensor, from_pair: Tensor, from_paths: Tensor, out: Tensor
    ) -> tuple[Tensor, Tensor]:
        memory = features.new_empty(3, *features.shape)
        _mix_paths(features, nodes, factors, from_pair, from_paths, memory)
        ctx.save_for_backward(features, memory, factors, from_pair, from_paths, out)
        ctx.set_materialize_grads(False)
        result = torch.addmm(features.flatten(1), out, memory[2].flatten(1)).view_as(features)
        return result, result.sum(-1) / math.sqrt(features.shape[-1])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor, grad_sums: Tensor | None) -> tuple[Tensor, ...]:
        features, memory, factors, from_pair, from_paths, out = ctx.saved_tensors
        width, root = len(features), math.sqrt(features.shape[-1])
        if grad_sums is not None:  # half to the row and half to the column, which keeps gradients symmetric
            half = grad_sums * (0.5 / root)
            grad = (grad + half[..., None]).add_(half[..., None, :])
        flat, grad_flat = features.flatten(1), grad.flatten(1)
        left, paths, mixed = memory.flatten(2)
        both = grad_flat.new_empty(2, *grad_flat.shape)  # gradients of the mixture and of the factors
        torch.mm(out.T, grad_flat, out=both[0])
        torch.ops.aten.threshold_backward.grad_input(both[0], mixed, 0, grad_input=both[0])
        grad_out, grad_from_paths = grad_flat @ mixed.T, both[0] @ paths.T / root
        grad_nodes = 2 * both[0].view_as(features).sum(-1)
        # The square of a symmetric matrix F with the symmetric gradient G has the gradient G F + F G.
        torch.mm(from_paths.T / root, both[0], out=paths)
        product, matrices = paths.view_as(features).flatten(0, 1), left.view_as(features).flatten(0, 1)
        product = torch.bmm(product, matrices, out=mixed.view_as(features).flatten(0, 1))
        torch.add(product, product.mT, out=both[1].view_as(product))
        rows = both.flatten(0, 1)
        grad_from_pair, grad_factors = (rows @ flat.T).split(width)
        weights = torch.cat([from_pair, factors]).T
        # The gradient that came may be used by others; the sum with that of the sums is new.
        add = torch.addmm if grad_sums is None else Tensor.addmm_
        return (
            add(grad_flat, weights, rows).view_as(features),
            grad_nodes,
            grad_factors,
            grad_from_pair,
            grad_from_paths,
            grad_out,
        )


class DirectedPathBlock(PathBlock):
    """A block for ordered pairs: two factors that differ, and what a node receives apart from what it sends."""

    def __init__(self, width: int, n_frequencies: int, graph_context: bool = False):
        super().__init__(width, n_frequencies, graph_context)
        self.right_factors = nn.Parameter(torch.empty(width, width))
        self.from_nodes = ChannelLinear(2 * width, 2 * width)

    def reset_parameters(self, generator: torch.Generator) -> None:
        super().reset_parameters(generator)
        bound = 1 / math.sqrt(self.right_factors.shape[1])
        nn.init.uniform_(self.right_factors, -bound, bound, generator=generator)

    def forward(
        self, features: Tensor, sums: Tensor | None, level: Tensor, scratch: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        root = math.sqrt(features.shape[-1])
        flat = features.flatten(1)
        left, right = ((factors @ flat).view_as(features) for factors in (self.factors, self.right_factors))
        hidden = (self.from_pair @ flat).addmm_(self.from_paths / root, (left @ right).flatten(1)).view_as(features)
        rows, columns = features.sum(-1) / root, features.sum(-2) / root
        receiving, sending = self.from_nodes(torch.cat([rows, columns])).chunk(2)
        receiving = receiving + self._shift(rows, level)
        hidden = hidden.add_(receiving[..., None]).add_(sending[..., None, :]).relu_().flatten(1)
        if torch.is_grad_enabled():
            return torch.addmm(flat, self.out, hidden).view_as(features), None
        return flat.addmm_(self.out, hidden).view_as(features), None
