"""EDP-GNN: the permutation-equivariant score network of Niu et al. (2020), one annealing level per graph.

Two layouts run through the file. A *pair* tensor is (graphs, channels, nodes, nodes), maybe with the last two
flattened; a *node* tensor is (graphs, nodes, features).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["EDPGNN", "MOST_LEVELS", "SIGMA_RANGE", "EDPGNNDenoiser", "check_sigmas"]

_N_INPUT_CHANNELS = 2  # the noisy matrix and its complement
_N_INPUT_FEATURES = 1  # a column of zeros, which gives the first layer's weights their published shape


class _Linear(nn.Module):
    """Linear layer over the last axis; zero until `reset_parameters`, so that building it draws no random number."""

    def __init__(self, n_inputs: int, n_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_outputs, n_inputs))
        self.bias = nn.Parameter(torch.zeros(n_outputs))

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw weight and bias as `torch.nn.Linear` does: uniform within 1 / sqrt(n_inputs)."""
        bound = 1 / math.sqrt(self.weight.shape[1])
        for parameter in (self.weight, self.bias):
            # Drawn where the generator lives, so that a seed gives the same weights on every device.
            draw = torch.empty(parameter.shape, dtype=parameter.dtype, device=generator.device)
            parameter.copy_(draw.uniform_(-bound, bound, generator=generator))

    def forward(self, values: Tensor) -> Tensor:
        return functional.linear(values, self.weight, self.bias)


class _LevelLayer(_Linear):
    """Linear over pairs, batch norm if asked for, the gain and bias of the annealing level, then ELU.

    Outside training all but the ELU is one affine map, but folding it into the weights would round them, and
    at the smallest noise the published weights amplify that far beyond the error of the separate steps.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, n_inputs: int, n_outputs: int, n_levels: int, normalise: bool) -> None:
        super().__init__(n_inputs, n_outputs)
        self.level_gain = nn.Parameter(torch.ones(n_levels, n_outputs))
        self.level_bias = nn.Parameter(torch.zeros(n_levels, n_outputs))
        self.normalise = normalise
        if normalise:
            self.norm_gain = nn.Parameter(torch.ones(n_outputs))
            self.norm_bias = nn.Parameter(torch.zeros(n_outputs))
            self.register_buffer("running_mean", torch.zeros(n_outputs))
            self.register_buffer("running_variance", torch.ones(n_outputs))

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw the linear layer; every other step starts as the identity."""
        super().reset_parameters(generator)
        self.level_gain.fill_(1)
        self.level_bias.zero_()
        if self.normalise:
            self.norm_gain.fill_(1)
            self.norm_bias.zero_()
            self.running_mean.zero_()
            self.running_variance.fill_(1)

    def forward(  # type: ignore[override]
        self, channels: Tensor, rows: Tensor, nodes: Tensor | None = None
    ) -> Tensor:
        """Map (B, C, P) flat pair channels, with the features of both its nodes, to (B, n_outputs, P)."""
        values = self._linear(channels, nodes)
        if self.normalise:
            values = self._batch_norm(values)
        gain, bias = self.level_gain[rows].unsqueeze(-1), self.level_bias[rows].unsqueeze(-1)
        return functional.elu_((values * gain).add_(bias))

    def _linear(self, channels: Tensor, nodes: Tensor | None) -> Tensor:
        """Apply the linear layer without building the input of every pair."""
        n_graphs, n_channels, _ = channels.shape
        weight, bias = self.weight, self.bias.unsqueeze(-1)
        edge_weight = weight[:, :n_channels].expand(n_graphs, -1, -1)
        if nodes is None:
            return torch.baddbmm(bias, edge_weight, channels)
        # W [edge, node i, node j] is a sum of three products, and two of them need no N x N work.
        first_weight, second_weight = weight[:, n_channels:].chunk(2, dim=1)
        features = nodes.transpose(1, 2)
        first, second = first_weight @ features + bias, second_weight @ features
        by_pair = (first.unsqueeze(3) + second.unsqueeze(2)).flatten(2)
        return by_pair.baddbmm_(edge_weight, channels)

    def _batch_norm(self, values: Tensor) -> Tensor:
        moments, affine = (self.running_mean, self.running_variance), (self.norm_gain, self.norm_bias)
        return functional.batch_norm(values, *moments, *affine, self.training)


class _LevelMLP(nn.Module):
    """Three-layer perceptron on every pair, with two hidden layers that know the annealing level."""

    def __init__(self, n_inputs: int, n_hidden: int, n_outputs: int, n_levels: int, normalise: bool) -> None:
        super().__init__()
        self.first = _LevelLayer(n_inputs, n_hidden, n_levels, normalise)
        self.second = _LevelLayer(n_hidden, n_hidden, n_levels, normalise)
        self.last = _Linear(n_hidden, n_outputs)

    def forward(self, channels: Tensor, rows: Tensor, nodes: Tensor | None = None) -> Tensor:
        hidden = self.first(channels, rows, nodes)
        hidden = self.second(hidden, rows)
        weight = self.last.weight.expand(len(channels), -1, -1)
        return torch.baddbmm(self.last.bias.unsqueeze(-1), weight, hidden)


class _NodeMLP(nn.Module):
    """Linear, leaky ReLU, linear, on every node; a slope of zero is the plain ReLU."""

    def __init__(self, n_inputs: int, n_hidden: int, n_outputs: int, negative_slope: float) -> None:
        super().__init__()
        self.first = _Linear(n_inputs, n_hidden)
        self.last = _Linear(n_hidden, n_outputs)
        self.negative_slope = negative_slope

    def forward(self, values: Tensor) -> Tensor:
        hidden = functional.leaky_relu_(self.first(values), self.negative_slope)
        return cast(Tensor, self.last(hidden))


class _MultiChannelGIN(nn.Module):
    """Graph isomorphism network whose messages travel along every edge channel at once."""

    def __init__(self, n_channels: int, n_inputs: int, n_outputs: int, width: int, depth: int) -> None:
        super().__init__()
        n_first = n_inputs + n_channels  # a node's row sums are appended to its features
        n_hidden = 2 * max(n_first, width)
        widths = [n_first] + [width] * depth
        self.epsilon = nn.Parameter(torch.zeros(depth))
        self.steps = nn.ModuleList(_NodeMLP(n_channels * n, n_hidden, width, 0.0) for n in widths[:-1])
        self.readouts = nn.ModuleList(_NodeMLP(n, n_hidden, n_outputs, 0.01) for n in widths)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Start with the plain sum over a node and its neighbours; the linear layers draw their own."""
        self.epsilon.zero_()

    def forward(self, channels: Tensor, nodes: Tensor) -> Tensor:
        """Map (B, C, N, N) channels and (B, N, F) node features to (B, N, n_outputs) node features."""
        nodes = torch.cat([nodes, channels.sum(dim=-1).transpose(1, 2)], dim=-1)
        n_graphs, n_channels, n_nodes, _ = channels.shape
        all_rows = channels.reshape(n_graphs, n_channels * n_nodes, n_nodes)
        own_weights = (1 + self.epsilon).unbind()  # (A + I) x + epsilon x = A x + (1 + epsilon) x
        result: Tensor = self.readouts[0](nodes)
        for own_weight, step, readout in zip(own_weights, self.steps, self.readouts[1:], strict=True):
            messages = (all_rows @ nodes).view(n_graphs, n_channels, n_nodes, -1)
            messages = messages + (own_weight * nodes).unsqueeze(1)
            nodes = step(messages.transpose(1, 2).flatten(2)).tanh_()
            result = result + readout(nodes)
        return result


class _EdgeLayer(nn.Module):
    """One EDP-GNN layer: nodes hear of their edges, then every pair hears of its two nodes."""

    def __init__(
        self,
        n_channels: int,
        n_new_channels: int,
        n_inputs: int,
        n_features: int,
        width: int,
        depth: int,
        n_levels: int,
    ) -> None:
        super().__init__()
        n_hidden = 2 * max(n_channels, n_new_channels)
        n_pair_inputs = n_channels + 2 * n_features
        self.gin = _MultiChannelGIN(n_channels, n_inputs, n_features, width, depth)
        self.pair_mlp = _LevelMLP(n_pair_inputs, n_hidden, n_new_channels, n_levels, normalise=True)

    def forward(self, channels: Tensor, nodes: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        nodes = self.gin(channels, nodes)
        one_way = self.pair_mlp(channels.flatten(2), rows, nodes).unflatten(2, channels.shape[2:])
        return one_way + one_way.transpose(2, 3), nodes


class EDPGNN(nn.Module):
    """Score of a noisy graph: an edgewise dense prediction graph neural network.

    Layers keep several edge channels and a few features per node. The defaults are the published sizes
    (92,165 parameters). The weights are zero until `reset_parameters` or `load_state_dict`: building
    the network draws no random number.

    Parameters
    ----------
    n_levels : int, default=10
        Number of annealing levels; each has its own gains and biases.
    edge_channels : sequence of int, default=(2, 2, 4, 4, 4, 2)
        Edge channels at the input (always 2: the noisy matrix and its complement) and after every layer.
    node_features : int, default=16
        Features per node after every layer.
    gin_width : int, default=16
        Features per node inside a layer.
    gin_depth : int, default=4
        Rounds of messages inside a layer.

    References
    ----------
    Niu et al., "Permutation Invariant Graph Generation via Score-Based Generative Modeling", AISTATS 2020.

    Examples
    --------
    >>> import torch
    >>> from sklearn_graphid.nn._edp_gnn import EDPGNN
    >>> network = EDPGNN(n_levels=3).eval()
    >>> network.reset_parameters(torch.Generator().manual_seed(0))
    >>> network(torch.zeros(2, 5, 5), level=0).shape
    torch.Size([2, 5, 5])
    """

    def __init__(
        self,
        n_levels: int = 10,
        edge_channels: Sequence[int] = (2, 2, 4, 4, 4, 2),
        node_features: int = 16,
        gin_width: int = 16,
        gin_depth: int = 4,
    ) -> None:
        super().__init__()
        if len(edge_channels) < 2 or edge_channels[0] != _N_INPUT_CHANNELS:
            raise ValueError(
                f"edge_channels is {tuple(edge_channels)!r}, but it should start with {_N_INPUT_CHANNELS} "
                "(the noisy matrix and its complement) and have one more entry for every layer."
            )
        n_layers = len(edge_channels) - 1
        n_inputs = [_N_INPUT_FEATURES] + [node_features] * (n_layers - 1)
        self.layers = nn.ModuleList(
            _EdgeLayer(channels, new_channels, inputs, node_features, gin_width, gin_depth, n_levels)
            for (channels, new_channels), inputs in zip(pairwise(edge_channels), n_inputs, strict=True)
        )
        n_all = sum(edge_channels)
        self.readout = _LevelMLP(n_all, 2 * n_all, 1, n_levels, normalise=False)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Draw all weights from `generator` and set every buffer, also after `to_empty`.

        Parameters
        ----------
        generator : torch.Generator
            The only source of randomness; the weights do not depend on the device of the network.
        """
        for module in self.modules():
            if isinstance(module, _Linear | _MultiChannelGIN):
                module.reset_parameters(generator)

    def forward(self, adjacency: Tensor, level: int | Tensor) -> Tensor:
        """Estimate the gradient of the log density of noisy graphs.

        Parameters
        ----------
        adjacency : Tensor of shape (B, N, N)
            Noisy symmetric matrices with a zero diagonal.
        level : int or LongTensor of shape (B,)
            Index of the annealing level of every graph; level 0 is the largest noise.

        Returns
        -------
        score : Tensor of shape (B, N, N)
            Symmetric, zero on the diagonal.
        """
        rows = torch.as_tensor(level, device=adjacency.device).reshape(-1)
        channels = torch.stack([adjacency, 1 - adjacency], dim=1)
        nodes = adjacency.new_zeros(*adjacency.shape[:2], _N_INPUT_FEATURES)
        all_channels = [channels]
        for layer in self.layers:
            channels, nodes = layer(channels, nodes, rows)
            all_channels.append(channels)
        return self._read_out(all_channels, rows)

    def _read_out(self, all_channels: list[Tensor], rows: Tensor) -> Tensor:
        """One number per pair from all channels, once per unordered pair since every channel is symmetric."""
        n_graphs, _, n_nodes, _ = all_channels[0].shape
        first, second = torch.triu_indices(n_nodes, n_nodes, offset=1, device=rows.device)
        upper, lower = first * n_nodes + second, second * n_nodes + first
        # On two flat axes index_select is several times faster than on the last of three.
        flat = [channels.flatten(2).flatten(0, 1).index_select(1, upper) for channels in all_channels]
        shapes = [(*channels.shape[:2], len(upper)) for channels in all_channels]
        pairs = torch.cat([chosen.view(shape) for chosen, shape in zip(flat, shapes, strict=True)], dim=1)
        values: Tensor = self.readout(pairs, rows).squeeze(1)
        score = values.new_zeros(n_graphs, n_nodes * n_nodes)
        score = score.index_copy(1, upper, values).index_copy(1, lower, values)
        return score.view(n_graphs, n_nodes, n_nodes)


MOST_LEVELS = 1_000
# The square of an annealing level must be a float32 that can be divided by.
SIGMA_RANGE = (1e-6, 1e6)


def check_sigmas(sigmas: Any, name: str) -> None:
    """Raise ValueError unless this is a list of annealing levels, largest first."""
    lowest, highest = SIGMA_RANGE
    if not isinstance(sigmas, list) or not 1 <= len(sigmas) <= MOST_LEVELS:
        raise ValueError(f"{name} should be a list of 1 to {MOST_LEVELS} annealing levels.")
    if not all(type(sigma) in (int, float) and lowest <= sigma <= highest for sigma in sigmas):
        raise ValueError(f"{name} holds what is no number between {lowest:g} and {highest:g}.")
    if not all(before > after for before, after in pairwise(sigmas)):
        raise ValueError(f"{name} is not in descending order.")


class EDPGNNDenoiser(nn.Module):
    """The paper's network as a denoiser: its score s gives E[a | a~] = a~ + sigma^2 s (Tweedie).

    Parameters
    ----------
    sigmas : list of float
        The annealing levels, largest first; each has its own gains and biases in the network.
    **settings
        Sizes, as `EDPGNN` takes them.
    """

    uses_known = False
    independent = False  # because of batch normalisation
    directed = False
    reuses_memory = False

    def __init__(self, sigmas: list[float], **settings: Any):
        super().__init__()
        check_sigmas(sigmas, "sigmas")
        self.settings = {"sigmas": [float(sigma) for sigma in sigmas], **settings}
        self.network = EDPGNN(n_levels=len(sigmas), **settings)

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialise every weight from the generator."""
        self.network.reset_parameters(generator)

    def score(self, noisy: Tensor, sigma: Tensor) -> Tensor:
        """The network's own output, s(A~, sigma), at the nearest of its annealing levels."""
        level = self._nearest_level(sigma)
        one_level: int | Tensor = int(level[0]) if bool((level == level[0]).all()) else level
        score: Tensor = self.network(noisy, one_level)
        return score

    def denoise(self, noisy: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """E[a | a~], not confined to [0, 1], as the network does not know that graphs are binary."""
        # At a level between its own, the network takes the noise for that of the nearest.
        nearest = self._levels(sigma)[self._nearest_level(sigma)]
        return noisy + nearest[:, None, None] ** 2 * self.score(noisy, sigma)

    def raw_answer(self, noisy: Tensor, sigma: Tensor) -> Tensor:
        """The same as `denoise`."""
        return self.denoise(noisy, sigma)

    def _levels(self, like: Tensor) -> Tensor:
        return torch.tensor(self.settings["sigmas"], dtype=like.dtype, device=like.device)

    def _nearest_level(self, sigma: Tensor) -> Tensor:
        return (sigma[:, None] - self._levels(sigma)).abs().argmin(1)

    def loss(self, clean: Tensor, noisy: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """Half of sigma^2 times equation 12 for each graph, so that its mean over levels is equation 11.

        The paper sums over the pairs of a graph; here it is their mean, so that larger graphs do not weigh more.
        """
        scale = sigma[:, None, None]
        difference = scale * self.score(noisy, sigma) - (clean - noisy) / scale
        n_nodes = clean.shape[-1]
        return 0.5 * difference.square().sum((-2, -1)) / (n_nodes * (n_nodes - 1))
