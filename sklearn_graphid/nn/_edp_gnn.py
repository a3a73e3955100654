"""EDP-GNN: the permutation-equivariant score network of Niu et al. (2020), one annealing level per graph.

Two layouts run through the file. A *pair* tensor is (graphs, channels, nodes, nodes), maybe with the last two
flattened; a *node* tensor is (graphs, nodes, features). Modules are named as in the published checkpoints, whose
weights therefore fit as they are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

__all__ = ["EDPGNN", "MOST_LEVELS", "SIGMA_RANGE", "check_sigmas"]

_N_INPUT_CHANNELS = 2  # the noisy matrix and its complement
_N_INPUT_FEATURES = 1  # a column of zeros, which gives the first layer's weights their published shape
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


class _BatchNorm(nn.Module):
    """Batch normalisation of the second axis, with no count of batches among its weights."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, n_channels: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(n_channels)), nn.Parameter(torch.empty(n_channels))
        self.register_buffer("running_mean", torch.empty(n_channels))
        self.register_buffer("running_var", torch.empty(n_channels))

    def forward(self, values: Tensor) -> Tensor:
        moments = self.running_mean, self.running_var
        return functional.batch_norm(values, *moments, self.weight, self.bias, self.training)


class _LevelMLP(nn.Module):
    """Three-layer perceptron on every pair, with two hidden layers that know the annealing level.

    A hidden layer is linear over channels, batch norm if asked for, the gain and bias of the level, then ELU. Outside
    training all but the ELU is one affine map, but folding it into the weights would round them, and at the smallest
    noise the published weights amplify that far beyond the error of the separate steps.
    """

    def __init__(self, n_inputs: int, n_hidden: int, n_outputs: int, n_levels: int, normalise: bool) -> None:
        super().__init__()
        widths = (n_inputs, n_hidden, n_hidden, n_outputs)
        self.linears: Any = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.batch_norms = nn.ModuleList(_BatchNorm(n_hidden) for _ in range(2 if normalise else 0))
        self.cond_layers: Any = nn.ModuleList(
            nn.ParameterDict({name: nn.Parameter(torch.empty(n_levels, n_hidden)) for name in ("gain", "bias")})
            for _ in range(2)
        )

    def forward(self, channels: Tensor, rows: Tensor, nodes: Tensor | None = None) -> Tensor:
        """Map (B, C, P) flat pair channels, with the features of both its nodes, to (B, n_outputs, P)."""
        for place, level_layer in enumerate(self.cond_layers):
            channels, nodes = self._linear(place, channels, nodes), None
            if self.batch_norms:
                channels = self.batch_norms[place](channels)
            gain, bias = level_layer["gain"][rows].unsqueeze(-1), level_layer["bias"][rows].unsqueeze(-1)
            channels = functional.elu_((channels * gain).add_(bias))
        return self._linear(2, channels)

    def _linear(self, place: int, channels: Tensor, nodes: Tensor | None = None) -> Tensor:
        """Apply a linear layer without building the input of every pair."""
        n_graphs, n_channels, _ = channels.shape
        linear: nn.Linear = self.linears[place]
        weight, bias = linear.weight, linear.bias.unsqueeze(-1)
        edge_weight = weight[:, :n_channels].expand(n_graphs, -1, -1)
        if nodes is None:
            return torch.baddbmm(bias, edge_weight, channels)
        # W [edge, node i, node j] is a sum of three products, and two of them need no N x N work.
        first_weight, second_weight = weight[:, n_channels:].chunk(2, dim=1)
        features = nodes.transpose(1, 2)
        first, second = first_weight @ features + bias, second_weight @ features
        by_pair = (first.unsqueeze(3) + second.unsqueeze(2)).flatten(2)
        return by_pair.baddbmm_(edge_weight, channels)


class _MultiChannelGIN(nn.Module):
    """Graph isomorphism network whose messages travel along every edge channel at once."""

    def __init__(self, n_channels: int, n_inputs: int, n_outputs: int, width: int, depth: int) -> None:
        super().__init__()
        n_first = n_inputs + n_channels  # a node's row sums are appended to its features
        n_hidden = 2 * max(n_first, width)
        widths = [n_first] + [width] * depth
        self.eps = nn.Parameter(torch.empty(depth))
        self.layers: Any = nn.ModuleList(
            nn.ModuleDict({"linears": nn.ModuleList([nn.Linear(n_channels * n, n_hidden), nn.Linear(n_hidden, width)])})
            for n in widths[:-1]
        )
        self.linear_prediction = nn.ModuleList(
            nn.Sequential(nn.Linear(n, n_hidden), nn.LeakyReLU(inplace=True), nn.Linear(n_hidden, n_outputs))
            for n in widths
        )

    def forward(self, channels: Tensor, nodes: Tensor) -> Tensor:
        """Map (B, C, N, N) channels and (B, N, F) node features to (B, N, n_outputs) node features."""
        nodes = torch.cat([nodes, channels.sum(dim=-1).transpose(1, 2)], dim=-1)
        n_graphs, n_channels, n_nodes, _ = channels.shape
        all_rows = channels.reshape(n_graphs, n_channels * n_nodes, n_nodes)
        own_weights = (1 + self.eps).unbind()  # (A + I) x + eps x = A x + (1 + eps) x
        result: Tensor = self.linear_prediction[0](nodes)
        for own_weight, layer, predict in zip(own_weights, self.layers, self.linear_prediction[1:], strict=True):
            messages = (all_rows @ nodes).view(n_graphs, n_channels, n_nodes, -1)
            messages = messages + (own_weight * nodes).unsqueeze(1)
            first, last = layer["linears"]
            nodes = last(first(messages.transpose(1, 2).flatten(2)).relu_()).tanh_()
            result = result + predict(nodes)
        return result


class EDPGNN(nn.Module):
    """The paper's score network as a denoiser: its score s gives E[a | a~] = a~ + sigma^2 s (Tweedie).

    Layers keep several edge channels and a few features per node: nodes hear of their edges, then every pair hears of
    its two nodes. The default sizes are the published ones (92,165 parameters with ten levels).

    `sigmas` are the annealing levels, largest first, each with its own gains and biases; `edge_channels` those at the
    input (always 2: the noisy matrix and its complement) and after every layer; `node_features` and `gin_width` the
    features of a node after a layer and inside; `gin_depth` the rounds of messages inside a layer.

    Niu et al., "Permutation Invariant Graph Generation via Score-Based Generative Modeling", AISTATS 2020.
    """

    uses_known = False
    independent = False  # because of batch normalisation
    directed = False
    reuses_memory = False

    def __init__(
        self,
        sigmas: list[float],
        edge_channels: Sequence[int] = (2, 2, 4, 4, 4, 2),
        node_features: int = 16,
        gin_width: int = 16,
        gin_depth: int = 4,
    ) -> None:
        super().__init__()
        check_sigmas(sigmas, "sigmas")
        if len(edge_channels) < 2 or edge_channels[0] != _N_INPUT_CHANNELS:
            raise ValueError(
                f"edge_channels is {tuple(edge_channels)!r}, but it should start with {_N_INPUT_CHANNELS} "
                "(the noisy matrix and its complement) and have one more entry for every layer."
            )
        self.settings = {"sigmas": [float(sigma) for sigma in sigmas], "edge_channels": list(edge_channels)}
        self.settings |= {"node_features": node_features, "gin_width": gin_width, "gin_depth": gin_depth}
        n_levels, n_inputs = len(sigmas), _N_INPUT_FEATURES
        self.gnn_list: Any = nn.ModuleList()
        for before, after in pairwise(edge_channels):
            gin = _MultiChannelGIN(before, n_inputs, node_features, gin_width, gin_depth)
            mlp = _LevelMLP(before + 2 * node_features, 2 * max(before, after), after, n_levels, normalise=True)
            self.gnn_list.append(nn.ModuleDict({"multi_channel_gnn_module": gin, "translate_mlp": mlp}))
            n_inputs = node_features
        n_all = sum(edge_channels)
        self.final_read_score = _LevelMLP(n_all, 2 * n_all, 1, n_levels, normalise=False)

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator) -> None:
        """Set every weight and buffer: linear layers as torch does, but from the generator, the rest to do nothing."""
        for name, value in self.state_dict().items():
            is_scale = name.endswith(("gain", "running_var")) or ("batch_norms" in name and name.endswith("weight"))
            value.fill_(1.0 if is_scale else 0.0)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                bound = 1 / math.sqrt(module.in_features)
                for parameter in (module.weight, module.bias):
                    # Drawn where the generator lives, so that a seed gives the same weights on every device.
                    draw = torch.empty(parameter.shape, dtype=parameter.dtype, device=generator.device)
                    parameter.copy_(draw.uniform_(-bound, bound, generator=generator))

    def forward(self, adjacency: Tensor, level: int | Tensor) -> Tensor:
        """Estimate the gradient of the log density of noisy graphs (B, N, N), symmetric with a zero diagonal.

        `level` is the index of every graph's annealing level, (B,) or one for all; level 0 is the largest noise.
        """
        rows = torch.as_tensor(level, device=adjacency.device).reshape(-1)
        channels = torch.stack([adjacency, 1 - adjacency], dim=1)
        nodes = adjacency.new_zeros(*adjacency.shape[:2], _N_INPUT_FEATURES)
        all_channels = [channels]
        for layer in self.gnn_list:
            nodes = layer["multi_channel_gnn_module"](channels, nodes)
            one_way = layer["translate_mlp"](channels.flatten(2), rows, nodes).unflatten(2, channels.shape[2:])
            channels = one_way + one_way.transpose(2, 3)
            all_channels.append(channels)
        return self._read_out(all_channels, rows)

    def _read_out(self, all_channels: list[Tensor], rows: Tensor) -> Tensor:
        """One number per pair from all channels, once per unordered pair since every channel is symmetric."""
        n_graphs, _, n_nodes, _ = all_channels[0].shape
        first, second = torch.triu_indices(n_nodes, n_nodes, offset=1, device=rows.device)
        upper, lower = first * n_nodes + second, second * n_nodes + first
        # On two flat axes index_select is several times faster than on the last of three.
        flat = [channels.flatten(2).flatten(0, 1).index_select(1, upper) for channels in all_channels]
        pairs = torch.cat([chosen.unflatten(0, (n_graphs, -1)) for chosen in flat], dim=1)
        values: Tensor = self.final_read_score(pairs, rows).squeeze(1)
        score = values.new_zeros(n_graphs, n_nodes * n_nodes)
        score = score.index_copy(1, upper, values).index_copy(1, lower, values)
        return score.view(n_graphs, n_nodes, n_nodes)

    def score(self, noisy: Tensor, sigma: Tensor) -> Tensor:
        """The network's own output, s(A~, sigma), at the nearest of its annealing levels."""
        level = self._nearest_level(sigma)
        one_level: int | Tensor = int(level[0]) if bool((level == level[0]).all()) else level
        return self(noisy, one_level)  # type: ignore[no-any-return]

    def denoise(self, noisy: Tensor, sigma: Tensor, known: Tensor | None = None) -> Tensor:
        """E[a | a~], not confined to [0, 1], as the network does not know that graphs are binary."""
        # At a level between its own, the network takes the noise for that of the nearest.
        nearest = self._levels(sigma)[self._nearest_level(sigma)]
        return noisy + nearest[:, None, None] ** 2 * self.score(noisy, sigma)

    raw_answer = denoise  # there is nothing that it leaves out

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
