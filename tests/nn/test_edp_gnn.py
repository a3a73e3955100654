"""The score network against its specification, the published weights, and what must hold for any weights."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from sklearn_graphid.nn import EDPGNN, build_network, restore_network
from sklearn_graphid.priors._files import read_edpgnn_checkpoint

REFERENCE = Path(__file__).parents[2].parent / "shared" / "reference"
SMALL: dict[str, Any] = {
    "sigmas": [0.5, 0.2, 0.1],
    "edge_channels": (2, 3, 2),
    "node_features": 5,
    "gin_width": 4,
    "gin_depth": 2,
}
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the published checkpoints are not here")


def make_network(seed: int = 0, **config: Any) -> EDPGNN:
    """A small network in double precision whose every parameter and buffer is its own random number."""
    network: Any = build_network("edp-gnn", SMALL | config, seed).double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, value in network.state_dict().items():
            noise = torch.rand(value.shape, generator=generator, dtype=value.dtype)
            value.add_(noise if name.endswith("running_var") else 0.4 * noise - 0.2)
    return network


def make_graphs(n_graphs: int, n_nodes: int, seed: int = 0) -> Tensor:
    """Noisy symmetric matrices with a zero diagonal."""
    generator = torch.Generator().manual_seed(seed)
    upper = torch.randn(n_graphs, n_nodes, n_nodes, generator=generator, dtype=torch.float64).triu(1)
    return upper + upper.mT


# The specification, read literally: one graph, every input of every pair spelled out.


def literal_level_mlp(mlp: Any, values: Tensor, level: Tensor) -> Tensor:
    for place in range(2):
        values = functional.linear(values, mlp.linears[place].weight, mlp.linears[place].bias)
        for norm in mlp.batch_norms[place : place + 1]:
            values = (values - norm.running_mean) / (norm.running_var + 1e-5).sqrt() * norm.weight + norm.bias
        values = functional.elu(values * mlp.cond_layers[place]["gain"][level] + mlp.cond_layers[place]["bias"][level])
    return functional.linear(values, mlp.linears[2].weight, mlp.linears[2].bias)


def literal_gin(gin: Any, channels: Tensor, nodes: Tensor) -> Tensor:
    nodes = torch.cat([nodes, channels.sum(dim=2).T], dim=1)
    with_loops = channels + torch.eye(len(nodes), dtype=nodes.dtype)
    seen = [nodes]
    for epsilon, layer in zip(gin.eps, gin.layers, strict=True):
        messages = torch.cat([matrix @ nodes for matrix in with_loops], dim=1)
        messages = messages + epsilon * torch.cat([nodes] * len(channels), dim=1)
        first, last = layer["linears"]
        nodes = torch.tanh(last(functional.relu(first(messages))))
        seen.append(nodes)
    heads = zip(gin.linear_prediction, seen, strict=True)
    return sum(last(functional.leaky_relu(first(values))) for (first, _, last), values in heads)


def literal_score(network: Any, adjacency: Tensor, level: Tensor) -> Tensor:
    n_nodes = len(adjacency)
    channels = torch.stack([adjacency, 1 - adjacency])
    nodes = adjacency.new_zeros(n_nodes, 1)
    everything = [channels]
    for layer in network.gnn_list:
        nodes = literal_gin(layer["multi_channel_gnn_module"], channels, nodes)
        first = nodes[:, None].expand(n_nodes, n_nodes, -1)
        pairs = torch.cat([channels.permute(1, 2, 0), first, first.transpose(0, 1)], dim=2)
        one_way = literal_level_mlp(layer["translate_mlp"], pairs, level).permute(2, 0, 1)
        channels = one_way + one_way.mT
        everything.append(channels)
    score = literal_level_mlp(network.final_read_score, torch.cat(everything).permute(1, 2, 0), level)[:, :, 0]
    return score * (1 - torch.eye(n_nodes, dtype=score.dtype))


@torch.no_grad()
@pytest.mark.parametrize("config", [SMALL, {"edge_channels": (2, 2, 4, 4, 4, 2), "gin_depth": 4}])
def test_score_is_the_specification_read_literally(config):
    network = make_network(**config)
    graphs = make_graphs(4, 7)
    levels = torch.tensor([2, 0, 1, 2])
    expected = [literal_score(network, graph, level) for graph, level in zip(graphs, levels, strict=True)]
    torch.testing.assert_close(network(graphs, levels), torch.stack(expected), rtol=0, atol=1e-12)


# The published weights.


@needs_reference
@torch.no_grad()
@pytest.mark.parametrize("level", [0, 4, 9])
@pytest.mark.parametrize("name", ["grids", "deezer_ego_nets"])
def test_published_weights_give_the_published_scores(name, level):
    settings, weights = read_edpgnn_checkpoint(REFERENCE / f"edp_gnn_{name}.pth")
    network = restore_network("edp-gnn", settings, weights)
    with np.load(REFERENCE / f"edp_gnn_{name}_expected.npz") as file:
        expected = dict(file)
    np.testing.assert_allclose(settings["sigmas"], expected["sigmas"], atol=1e-8)  # stored with eight digits
    inputs = [key for key in expected if key.startswith("input") and key.endswith(f"level{level}")]
    assert len(inputs) == 3
    for key in inputs:
        published = expected[key.replace("input", "score")]
        difference = np.abs(network(torch.from_numpy(expected[key]), level).numpy() - published)
        # At sigma = 0.03 scores reach 150 and the weights amplify rounding: the same network in double
        # precision is as far as .043 (3e-4 of the largest score) from the published float32 values.
        assert difference.max() < (1e-4 if level < 9 else 2e-4 * np.abs(published).max())
        assert np.median(difference) < 1e-3


def test_default_sizes_are_the_published_ones():
    network = build_network("edp-gnn", {"sigmas": [1 / (1 + i) for i in range(10)]}, 0)
    assert sum(parameter.numel() for parameter in network.parameters()) == 92_165


# What holds for any weights.


@torch.no_grad()
def test_score_is_symmetric_with_zero_diagonal():
    score = make_network()(make_graphs(3, 6), 1)
    torch.testing.assert_close(score, score.mT, rtol=0, atol=0)
    assert (score.diagonal(dim1=1, dim2=2) == 0).all()
    assert (score != 0).sum() == 3 * 6 * 5


@torch.no_grad()
@pytest.mark.parametrize("training", [False, True])
def test_renaming_nodes_renames_the_score(training):
    network, graphs = make_network().train(training), make_graphs(3, 8)
    order = torch.randperm(8, generator=torch.Generator().manual_seed(1))
    renamed = graphs[:, order][:, :, order]
    torch.testing.assert_close(network(renamed, 1), network(graphs, 1)[:, order][:, :, order])


@torch.no_grad()
def test_graph_in_a_batch_of_levels_scores_as_if_alone():
    network, graphs, levels = make_network(), make_graphs(3, 6), torch.tensor([0, 2, 1])
    alone = [network(graph[None], level)[0] for graph, level in zip(graphs, levels.tolist(), strict=True)]
    torch.testing.assert_close(network(graphs, levels), torch.stack(alone))


def test_gradient_reaches_every_parameter_in_training():
    network = make_network().train()
    network(make_graphs(6, 7), torch.arange(6) % 3).square().sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        # Batch norm takes the mean away, and with it a bias that comes just before.
        if not re.search(r"translate_mlp\.linears\.[01]\.bias$", name):
            assert (parameter.grad != 0).any(), name


@pytest.mark.parametrize("training", [False, True])
def test_gradient_is_that_of_finite_differences(training):
    network, levels = make_network().train(training), torch.tensor([0, 1, 2])
    batch = make_graphs(3, 5)
    generator = torch.Generator().manual_seed(1)
    parameters = list(network.parameters())
    direction = [torch.randn(p.shape, generator=generator, dtype=p.dtype) for p in parameters]

    def loss_along(step: float) -> Tensor:
        moved = {
            name: parameter + step * change
            for (name, parameter), change in zip(network.named_parameters(), direction, strict=True)
        }
        # Running moments are read in evaluation and must be the same on both sides of the difference.
        moved |= {name: buffer.clone() for name, buffer in network.named_buffers()}
        return torch.func.functional_call(network, moved, (batch, levels)).square().sum()

    gradient = torch.autograd.grad(loss_along(0.0), parameters)
    slope = sum((g * d).sum() for g, d in zip(gradient, direction, strict=True))
    with torch.no_grad():
        difference = (loss_along(1e-6) - loss_along(-1e-6)) / 2e-6
    torch.testing.assert_close(difference, slope, rtol=1e-5, atol=1e-5)


def test_each_level_has_its_own_gains_and_an_integer_level_serves_the_whole_batch():
    network, graphs = make_network(), make_graphs(4, 5)
    torch.testing.assert_close(network(graphs, 2), network(graphs, torch.full((4,), 2)), rtol=0, atol=0)
    assert not torch.allclose(network(graphs, 2), network(graphs, 1))


def test_edge_channels_that_do_not_start_with_two_are_refused():
    with pytest.raises(ValueError, match=r"edge_channels is \(3, 4\)"):
        EDPGNN([0.5], edge_channels=(3, 4))


# Randomness.


def test_seed_decides_the_weights_and_the_global_generator_is_left_alone():
    before = torch.get_rng_state()
    first, again, other = (build_network("edp-gnn", SMALL, seed).state_dict() for seed in (3, 3, 4))
    torch.testing.assert_close(first, again, rtol=0, atol=0)
    assert not torch.equal(
        first["gnn_list.0.translate_mlp.linears.0.weight"], other["gnn_list.0.translate_mlp.linears.0.weight"]
    )
    assert torch.equal(torch.get_rng_state(), before)


def test_linear_weights_are_uniform_within_the_bound_of_torch_and_the_rest_does_nothing():
    network: Any = build_network("edp-gnn", {"sigmas": [0.5]}, 0)
    layer = network.gnn_list[2]
    weight = layer["multi_channel_gnn_module"].layers[0]["linears"][0].weight  # 40 outputs, 80 inputs
    bound = 80**-0.5
    assert weight.abs().max() <= bound
    # 3,200 uniform numbers: the mean square is bound^2 / 3 with a relative standard error of .016.
    assert weight.square().mean().item() == pytest.approx(bound**2 / 3, rel=0.08)
    mlp = layer["translate_mlp"]
    for ones in (mlp.cond_layers[0]["gain"], mlp.batch_norms[1].weight, mlp.batch_norms[1].running_var):
        assert (ones == 1).all()
    for zeros in (mlp.cond_layers[0]["bias"], mlp.batch_norms[1].bias, layer["multi_channel_gnn_module"].eps):
        assert (zeros == 0).all()
