"""The second-order denoiser: what must hold for any weights, and the two cases where its answer is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from sklearn_graphid.nn import PPGN, build_network, restore_network

DTYPES = [torch.float32, torch.float64]
SIGMAS = (0.2, 0.5, 1.5)
BOTH_CONTEXTS = pytest.mark.parametrize("graph_context", [False, True])


def make_network(dtype: torch.dtype = torch.float64, seed: int = 0, **settings: Any) -> PPGN:
    """A network whose every weight is its own random number; fresh ones start with blocks that add nothing."""
    network = PPGN(**settings)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in network.parameters():
            scale = 0.5 / max(1, parameter.shape[-1]) ** 0.5
            parameter.copy_(scale * torch.randn(parameter.shape, generator=generator))
    return network.to(dtype)


def as_arrays(network: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in network.state_dict().items()}


def make_inputs(n_nodes: int = 7, dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Clean graphs, noisy ones, their annealing levels, and a mask of pairs that carry no noise."""
    generator = torch.Generator().manual_seed(1)
    shape = (len(SIGMAS), n_nodes, n_nodes)
    draws = [torch.rand(shape, generator=generator).triu(1) for _ in range(2)]
    noise = torch.randn(shape, generator=generator).triu(1)
    clean, known = ((draw > 0.6).to(dtype) for draw in draws)
    clean, known = clean + clean.mT, known + known.mT
    sigma = torch.tensor(SIGMAS, dtype=dtype)
    noisy = clean + sigma[:, None, None] * (noise + noise.mT).to(dtype)
    return clean, torch.where(known > 0, clean, noisy), sigma, known


def silence(network: PPGN) -> None:
    """Leave only what a pair's own value and the density say."""
    network.readout.weight.zero_()
    network.readout.bias.zero_()


def relabel(matrices: Tensor, order: Tensor) -> Tensor:
    return matrices[:, order][:, :, order]


@torch.no_grad()
def test_share_of_edges_is_that_of_the_known_pairs_where_the_others_are_hidden():
    """Hidden pairs hold one half, which is no measurement of the share of edges."""
    network, (clean, _, _, known) = make_network(graph_context=True), make_inputs()
    silence(network)
    usual = float(torch.sigmoid(network.density_logit))
    shown = torch.where(known > 0, clean, 0.5)
    answer = network.log_odds(shown, torch.ones(len(clean)).to(clean), known) - (shown - 0.5)  # but for its own value
    off_diagonal = 1 - torch.eye(7)
    edges, total = ((values * known * off_diagonal).sum((1, 2)) for values in (clean, torch.ones_like(clean)))
    expected = torch.logit((edges + 4 * usual) / (total + 4))
    torch.testing.assert_close(answer[:, 0, 1], expected.to(answer), rtol=0, atol=1e-6)


@torch.no_grad()
@BOTH_CONTEXTS
@pytest.mark.parametrize("dtype", DTYPES)
def test_renaming_nodes_renames_the_answer(dtype, graph_context):
    network, (_, noisy, sigma, known) = make_network(dtype, graph_context=graph_context), make_inputs(dtype=dtype)
    order = torch.randperm(7, generator=torch.Generator().manual_seed(2))
    renamed = network.log_odds(relabel(noisy, order), sigma, relabel(known, order))
    answer = relabel(network.log_odds(noisy, sigma, known), order)
    # In float32 log-odds of order 30 carry an error of some 1e-5.
    torch.testing.assert_close(renamed, answer, rtol=1e-4 if dtype == torch.float32 else 1e-12, atol=1e-4)


@torch.no_grad()
@pytest.mark.parametrize("dtype", DTYPES)
def test_answer_is_a_symmetric_matrix_of_probabilities_with_zero_diagonal(dtype):
    network, (_, noisy, sigma, known) = make_network(dtype), make_inputs(dtype=dtype)
    for mask in (None, known):
        probability = network.denoise(noisy, sigma, mask)
        assert probability.dtype == dtype
        assert ((probability >= 0) & (probability <= 1)).all()
        torch.testing.assert_close(probability, probability.mT, rtol=0, atol=1e-6)
        assert (probability.diagonal(dim1=1, dim2=2) == 0).all()


@torch.no_grad()
@pytest.mark.parametrize("dtype", DTYPES)
def test_without_its_neighbours_a_pair_is_judged_by_bayes_rule(dtype):
    """With a silent readout only the closed form is left: own evidence, and the share of edges."""
    network, (_, noisy, sigma, _) = make_network(dtype), make_inputs(dtype=dtype)
    silence(network)
    share = torch.sigmoid(network.density_logit)
    variance = sigma[:, None, None] ** 2
    edge, none = (torch.exp(-((noisy - a) ** 2) / (2 * variance)) for a in (1, 0))
    posterior = share * edge / (share * edge + (1 - share) * none)
    expected = posterior * (1 - torch.eye(7, dtype=dtype))
    torch.testing.assert_close(network.denoise(noisy, sigma), expected, rtol=0, atol=1e-6)


@torch.no_grad()
def test_with_context_the_share_of_edges_is_that_of_the_graph():
    """A silent readout leaves the closed form; known pairs and noisy ones are averaged by their precision."""
    network, (_, noisy, sigma, known) = make_network(graph_context=True), make_inputs()
    silence(network)
    usual = float(torch.sigmoid(network.density_logit))
    for mask in (known, torch.zeros_like(known)):
        answer = network.log_odds(noisy, sigma, mask)
        for graph, level in enumerate(sigma.tolist()):
            edges, total = 4 * usual, 4.0
            for i, j in ((i, j) for i in range(7) for j in range(7) if i != j):
                weight = 1.0 if mask[graph, i, j] else 0.1 / (0.1 + level**2)
                edges, total = edges + weight * float(noisy[graph, i, j]), total + weight
            share = min(max(edges / total, 0.005), 0.995)
            own = (float(noisy[graph, 0, 1]) - 0.5) / level**2
            assert float(answer[graph, 0, 1]) == pytest.approx(own + np.log(share / (1 - share)), abs=1e-9)


@torch.no_grad()
@BOTH_CONTEXTS
@pytest.mark.parametrize("dtype", DTYPES)
def test_known_pairs_are_returned_as_they_are(dtype, graph_context):
    network, (clean, noisy, sigma, known) = make_network(dtype, graph_context=graph_context), make_inputs(dtype=dtype)
    answer = network.denoise(noisy, sigma, known)
    assert torch.equal(answer[known > 0], clean[known > 0])
    assert not torch.equal(answer[known == 0], clean[known == 0])


@torch.no_grad()
def test_to_know_a_pair_is_more_than_to_see_its_value():
    network, (_, noisy, sigma, known) = make_network(), make_inputs()
    unknown = (known == 0) & ~torch.eye(7, dtype=torch.bool)
    told, not_told = network.log_odds(noisy, sigma, known), network.log_odds(noisy, sigma)
    assert ((told - not_told).abs()[unknown] > 1e-6).all()


@torch.no_grad()
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_mask_is_a_mask_of_zeros(dtype):
    network, (_, noisy, sigma, _) = make_network(dtype), make_inputs(dtype=dtype)
    nothing = torch.zeros(7, 7, dtype=dtype)
    for mask in (nothing, nothing.expand(3, -1, -1)):
        assert torch.equal(network.denoise(noisy, sigma, mask), network.denoise(noisy, sigma))


@torch.no_grad()
def test_one_mask_serves_the_whole_batch():
    network, (_, noisy, sigma, known) = make_network(), make_inputs()
    shared = network.denoise(noisy, sigma, known[0])
    assert torch.equal(shared, network.denoise(noisy, sigma, known[0].expand(3, -1, -1)))


@torch.no_grad()
@BOTH_CONTEXTS
@pytest.mark.parametrize("dtype", DTYPES)
def test_graph_in_a_batch_is_judged_as_if_alone(dtype, graph_context):
    network, (_, noisy, sigma, known) = make_network(dtype, graph_context=graph_context), make_inputs(dtype=dtype)
    together = network.denoise(noisy, sigma, known)
    for i in range(len(sigma)):
        alone = network.denoise(noisy[i : i + 1], sigma[i : i + 1], known[i : i + 1])
        torch.testing.assert_close(together[i : i + 1], alone, rtol=0, atol=1e-5 if dtype == torch.float32 else 1e-12)


@BOTH_CONTEXTS
@torch.no_grad()
def test_what_stands_on_the_diagonal_is_never_read(graph_context):
    network, (_, noisy, sigma, known) = make_network(graph_context=graph_context), make_inputs()
    spoilt = noisy + 5 * torch.eye(7, dtype=noisy.dtype)
    off_diagonal = ~torch.eye(7, dtype=torch.bool)
    for mask in (None, known + torch.eye(7, dtype=known.dtype)):
        answers = [network.log_odds(matrix, sigma, mask)[:, off_diagonal] for matrix in (noisy, spoilt)]
        assert torch.equal(*answers)


@torch.no_grad()
def test_precisions_agree():
    double, (_, noisy, sigma, known) = make_network(), make_inputs()
    single = make_network(torch.float32)
    answers = single.denoise(noisy.float(), sigma.float(), known.float()).double(), double.denoise(noisy, sigma, known)
    torch.testing.assert_close(*answers, rtol=0, atol=1e-4)


@pytest.mark.parametrize("masked", [False, True])
def test_loss_is_the_mean_cross_entropy_of_unknown_pairs(masked):
    network, (clean, noisy, sigma, known) = make_network(), make_inputs()
    mask = known if masked else None
    loss = network.loss(clean, noisy, sigma, mask)
    probability = torch.sigmoid(network.log_odds(noisy, sigma, mask))
    for graph in range(len(sigma)):
        terms = [
            -torch.log(p if clean[graph, i, j] else 1 - p)
            for i in range(7)
            for j in range(i + 1, 7)
            if not (masked and known[graph, i, j])
            for p in [probability[graph, i, j]]
        ]
        torch.testing.assert_close(loss[graph], torch.stack(terms).mean(), rtol=1e-9, atol=0)


def test_loss_is_zero_where_everything_is_known():
    network, (clean, _, sigma, _) = make_network(), make_inputs()
    assert (network.loss(clean, clean, sigma, torch.ones_like(clean)) == 0).all()


@BOTH_CONTEXTS
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradient_reaches_every_weight(dtype, graph_context):
    network, (clean, noisy, sigma, known) = make_network(dtype, graph_context=graph_context), make_inputs(dtype=dtype)
    network.loss(clean, noisy, sigma, known).sum().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad != 0).any(), name


@BOTH_CONTEXTS
def test_gradient_is_that_of_finite_differences(graph_context):
    network, (clean, noisy, sigma, known) = make_network(graph_context=graph_context), make_inputs()
    generator = torch.Generator().manual_seed(3)
    parameters = dict(network.named_parameters())
    direction = {k: torch.randn(v.shape, generator=generator, dtype=v.dtype) for k, v in parameters.items()}

    class Loss(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.network = network

        def forward(self) -> Tensor:
            return self.network.loss(clean, noisy, sigma, known).sum()

    def along(step: float) -> Tensor:
        moved = {f"network.{k}": v + step * direction[k] for k, v in parameters.items()}
        return torch.func.functional_call(Loss(), moved, ())

    gradient = torch.autograd.grad(along(0.0), list(parameters.values()))
    slope = sum((g * d).sum() for g, d in zip(gradient, direction.values(), strict=True))
    with torch.no_grad():
        difference = (along(1e-6) - along(-1e-6)) / 2e-6
    torch.testing.assert_close(difference, slope, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("sigma", [1e-3, 0.03, 10.0])
@torch.no_grad()
def test_extreme_noise_levels_stay_finite(sigma):
    network, (clean, *_) = build_network("ppgn", {}, seed=0), make_inputs(dtype=torch.float32)
    levels = torch.full((len(clean),), sigma)
    answer = network.denoise(clean, levels)
    assert answer.isfinite().all()
    if sigma < 0.05:  # next to no noise: the value itself is the answer
        torch.testing.assert_close(answer, clean, rtol=0, atol=1e-3)


# Randomness, and the way through plain arrays.


@BOTH_CONTEXTS
@pytest.mark.parametrize("scale", [1e3, 1e9])
def test_features_that_grow_out_of_bounds_say_nothing(scale, graph_context):
    """With little the answer is finite and large, with much it overflows; both leave what a fresh network says."""
    _, noisy, sigma, known = make_inputs(dtype=torch.float32)
    network = make_network(torch.float32, graph_context=graph_context)
    silent = make_network(torch.float32, graph_context=graph_context)
    with torch.no_grad():
        for block in network.blocks:
            block.out.mul_(scale)
        silence(silent)
        answer, expected = (each.log_odds(noisy, sigma, known) for each in (network, silent))
    assert torch.isfinite(answer).all()
    off_diagonal = ~torch.eye(noisy.shape[-1], dtype=torch.bool)
    torch.testing.assert_close(answer[:, off_diagonal], expected[:, off_diagonal])


def test_building_draws_nothing_from_the_global_generator():
    before = torch.get_rng_state()
    restore_network("ppgn", {}, as_arrays(build_network("ppgn", {}, seed=0)))
    assert torch.equal(torch.get_rng_state(), before)


def test_seed_decides_the_weights():
    first, again, other = (as_arrays(build_network("ppgn", {"width": 4}, seed)) for seed in (0, 0, 1))
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["lift.weight"], other["lift.weight"])
    assert all(np.isfinite(value).all() for value in first.values())


@torch.no_grad()
@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_arrays_restore_the_network(dtype):
    network, (_, noisy, sigma, known) = make_network(width=4, n_blocks=2), make_inputs(dtype=dtype)
    arrays = as_arrays(network)
    for value in arrays.values():
        value.flags.writeable = False
    restored = restore_network("ppgn", network.settings, arrays, dtype=dtype)
    assert not any(parameter.requires_grad for parameter in restored.parameters())
    assert torch.equal(restored.denoise(noisy, sigma, known), network.to(dtype).denoise(noisy, sigma, known))


def test_arrays_of_another_network_are_refused():
    with pytest.raises(ValueError, match=r"'ppgn': the shape of 'lift\.weight' is \(4, 4\), expected \(5, 4\)"):
        restore_network("ppgn", {"width": 5}, as_arrays(build_network("ppgn", {"width": 4}, seed=0)))
    with pytest.raises(ValueError, match=r"'density_logit' is missing, expected \(1,\)"):
        restore_network("ppgn", {}, {})
    with pytest.raises(ValueError, match=r"'more' is \(3,\), expected missing"):
        restore_network("ppgn", {}, as_arrays(build_network("ppgn", {}, seed=0)) | {"more": np.zeros(3)})


def test_default_network_is_small():
    assert sum(parameter.numel() for parameter in PPGN().parameters()) < 20_000


def test_noise_below_the_least_that_is_trained_for_does_not_lead_astray():
    """A graph without noise has the same log-odds however little noise it is said to have."""
    network, (clean, *_) = make_network(), make_inputs()
    least, less = (network.log_odds(clean, torch.full((len(clean),), sigma).to(clean)) for sigma in (0.12, 0.01))
    torch.testing.assert_close(least, less)


@torch.no_grad()
@BOTH_CONTEXTS
@pytest.mark.parametrize("dtype", DTYPES)
def test_network_that_is_not_trained_answers_in_place_what_one_in_training_does(dtype, graph_context):
    network, (_, noisy, sigma, known) = make_network(dtype, graph_context=graph_context), make_inputs(dtype=dtype)
    before = noisy.clone()
    trained = network.log_odds(noisy, sigma, known)
    restored = restore_network("ppgn", network.settings, as_arrays(network), dtype=dtype)
    answer = restored.log_odds(noisy, sigma, known)
    # In float32 log-odds of order 30 carry an error of some 1e-5.
    tolerance = 1e-4 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(answer, trained, rtol=tolerance, atol=tolerance)
    assert torch.equal(noisy, before)
