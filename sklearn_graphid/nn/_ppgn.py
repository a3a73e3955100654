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

import torch
from torch import Tensor, nn

__all__ = ["LOWEST_SIGMA", "NO_VALUE", "PPGN"]

# Beyond this a pair's own log-odds are as good as certain; the clamp keeps float32 finite at small noise.
_LARGEST_LOG_ODDS = 30.0
# What other pairs say of a pair stays at half of this on graphs like those of the training. On graphs of another kind,
# products of features can grow from block to block, until they overflow.
_LARGEST_FROM_OTHERS = 60.0
# Less noise than this is not trained for, as a pair's own value leaves nothing to learn; the network is told this much,
# so that it need not extrapolate.
LOWEST_SIGMA = 0.12
# The density of a graph is a mean over its pairs, to which so many ordered pairs of the usual density are added.
# Without noise a pair scatters by about this variance.
_USUAL_PAIRS = 4.0
_PAIR_VARIANCE = 0.1
_LEAST_DENSITY = 0.005
# What a pair holds of which nothing is known: it speaks neither for an edge nor against it.
NO_VALUE = 0.5


class PPGN(nn.Module):
    """Probability of every edge, given a noisy matrix and the pairs that carry no noise.

    Parameters
    ----------
    width : int
        Features of a pair.
    n_blocks : int
        How many times paths are extended.
    n_frequencies : int
        Size of the description of the annealing level.
    directed : bool
        Whether every ordered pair stands alone.
    graph_context : bool
        Whether a pair sees the whole graph, for collections of unlike graphs: the odds start from the density of the
        graph at hand instead of that of all, and every block mixes in the mean over all pairs.

    Notes
    -----
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
        """Log-odds of every edge.

        Parameters
        ----------
        noisy : Tensor (graphs, nodes, nodes)
            Matrices, symmetric unless directed; known pairs hold their exact value.
        sigma : Tensor (graphs,)
            Standard deviation of the noise on the pairs that are not known.
        known : Tensor (graphs, nodes, nodes) or (nodes, nodes), float, or None
            1 where the pair carries no noise. None: nowhere.

        Returns
        -------
        Tensor (graphs, nodes, nodes)
            Symmetric unless directed. On known pairs and on the diagonal it means nothing.
        """
        own, others = self._log_odds_by_source(noisy, sigma, known)
        # A number out of all proportion, or nan, says nothing; the pair's own value and the density then speak alone.
        return own + torch.where(others.abs() <= _LARGEST_FROM_OTHERS, others, 0.0)

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
        own = ((noisy - 0.5) / sigma[:, None, None] ** 2).clamp(-_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)
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
        # A network in training keeps to one way of computing, so that its validation goes by the same bits.
        is_training = torch.is_grad_enabled() or self.density_logit.requires_grad
        scratch = None if is_training else features.new_empty(3, *features.shape)
        for block in self.blocks:
            features = block(features, level, scratch)
        features = self.readout_hidden(features).relu_()
        others: Tensor = self.readout(features)[0]
        return own, others if self.directed else 0.5 * (others + others.mT)

    def _graph_density_logit(self, noisy: Tensor, sigma: Tensor, known: Tensor) -> Tensor:
        """Log-odds of an edge anywhere in each graph, (graphs,), from its known pairs and its noisy ones."""
        # A noisy value tells as much less than a known one as its variance is larger. A value of one half is no
        # measurement: callers put it where they know nothing, and noise never hits it exactly.
        measured = 1 / (1 + sigma[:, None, None] ** 2 / _PAIR_VARIANCE) * (noisy != NO_VALUE)
        weight = torch.where(known > 0, 1.0, measured)
        weight = weight - torch.diag_embed(torch.diagonal(weight, dim1=-2, dim2=-1))
        edges = (weight * noisy).sum((-2, -1)) + _USUAL_PAIRS * torch.sigmoid(self.density_logit)
        density = edges / (weight.sum((-2, -1)) + _USUAL_PAIRS)
        return torch.logit(density.clamp(_LEAST_DENSITY, 1 - _LEAST_DENSITY))

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
    products of two factors. The passes over memory are what costs: additions are folded into matrix products or done
    in place, where the backward pass does not need what is overwritten.
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

    def forward(self, features: Tensor, level: Tensor, scratch: Tensor | None = None) -> Tensor:
        if scratch is not None:
            return self._add_in_place(features, level, scratch)
        # Sparse graphs have few paths between two nodes however large they are, so the square root keeps sums over
        # nodes of order one from ten nodes to hundreds.
        root = math.sqrt(features.shape[-1])
        flat = features.flatten(1)
        hidden = (self.from_pair @ flat).addmm_(self.from_paths / root, self._paths(features)).view_as(features)
        receiving, sending = self._nodes(features, root, level)
        hidden = hidden.add_(receiving[..., None]).add_(sending[..., None, :]).relu_().flatten(1)
        if torch.is_grad_enabled():
            return torch.addmm(flat, self.out, hidden).view_as(features)
        return flat.addmm_(self.out, hidden).view_as(features)

    def _paths(self, features: Tensor) -> Tensor:
        """Products of feature matrices, (width, pairs)."""
        factors = (self.factors @ features.flatten(1)).view_as(features)
        return (factors @ factors).flatten(1)

    def _nodes(self, features: Tensor, root: float, level: Tensor) -> tuple[Tensor, Tensor]:
        """What the node of a row and that of a column add to a pair, (width, graphs, nodes) each."""
        # Summed over a row: what a node's other pairs hold, its degree among them.
        sums = features.sum(-1) / root
        nodes = self.from_nodes(sums) + self._shift(sums, level)
        return nodes, nodes

    def _shift(self, sums: Tensor, level: Tensor) -> Tensor:
        """What the annealing level and the graph as a whole add to every node, (width, graphs, 1)."""
        shift: Tensor = self.from_level(level)
        if self.from_graph is not None:
            shift = shift + self.from_graph(sums.mean(-1))
        return shift[..., None]

    def _add_in_place(self, features: Tensor, level: Tensor, scratch: Tensor) -> Tensor:
        """The same, to the features themselves; without gradients.

        Memory that is new costs as much as the arithmetic, once it is more than a megabyte: the system hands it out and
        takes it back page by page. So all blocks share `scratch`, three times the size of the features.
        """
        root = math.sqrt(features.shape[-1])
        factors, paths, hidden = scratch
        flat = features.flatten(1)
        torch.mm(self.factors, flat, out=factors.flatten(1))
        torch.bmm(factors.flatten(0, 1), factors.flatten(0, 1), out=paths.flatten(0, 1))
        nodes, _ = self._nodes(features, root, level)
        torch.add(nodes[..., None], nodes[..., None, :], out=hidden)
        mixed = hidden.flatten(1)
        mixed.addmm_(self.from_pair, flat).addmm_(self.from_paths / root, paths.flatten(1)).relu_()
        flat.addmm_(self.out, mixed)
        return features


class DirectedPathBlock(PathBlock):
    """The same for ordered pairs: two factors that differ, and what a node receives apart from what it sends."""

    def __init__(self, width: int, n_frequencies: int, graph_context: bool = False):
        super().__init__(width, n_frequencies, graph_context)
        self.right_factors = nn.Parameter(torch.empty(width, width))
        self.from_nodes = ChannelLinear(2 * width, 2 * width)

    def reset_parameters(self, generator: torch.Generator) -> None:
        super().reset_parameters(generator)
        bound = 1 / math.sqrt(self.right_factors.shape[1])
        nn.init.uniform_(self.right_factors, -bound, bound, generator=generator)

    def _paths(self, features: Tensor) -> Tensor:
        flat = features.flatten(1)
        left, right = ((factors @ flat).view_as(features) for factors in (self.factors, self.right_factors))
        return (left @ right).flatten(1)

    def _nodes(self, features: Tensor, root: float, level: Tensor) -> tuple[Tensor, Tensor]:
        rows, columns = features.sum(-1) / root, features.sum(-2) / root
        receiving, sending = self.from_nodes(torch.cat([rows, columns])).chunk(2)
        return receiving + self._shift(rows, level), sending

    def _add_in_place(self, features: Tensor, level: Tensor, scratch: Tensor) -> Tensor:
        return self.forward(features, level)
