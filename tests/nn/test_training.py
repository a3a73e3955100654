"""Training: the loss against its equations, a world where the best denoiser is known, and going on after a stop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy import integrate, stats

from sklearn_graphid import ErdosRenyiPrior
from sklearn_graphid._utils._torch import torch_threads
from sklearn_graphid.nn import _training as training
from sklearn_graphid.nn import build_network, restore_network
from sklearn_graphid.nn._training import (
    NoiseLaw,
    TrainingSettings,
    TrainingState,
    bucket_by_size,
    denoising_losses,
    normal_noise,
    random_known,
    shuffled_batches,
    train_network,
)

CPU = torch.device("cpu")
SMALL_PPGN: dict[str, Any] = {"width": 4, "n_blocks": 1, "n_frequencies": 3}
SMALL_EDPGNN: dict[str, Any] = {
    "sigmas": [0.5, 0.2],
    "edge_channels": (2, 2, 2),
    "node_features": 3,
    "gin_width": 3,
    "gin_depth": 1,
}
LAWS = {"ppgn": NoiseLaw(0.1, 1.5), "edp-gnn": NoiseLaw(0.2, 0.5, (0.5, 0.2))}
SETTINGS = {"ppgn": SMALL_PPGN, "edp-gnn": SMALL_EDPGNN}


@pytest.fixture(autouse=True)
def _one_thread():
    """Networks this small are slower on two."""
    with torch_threads(1):
        yield


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_graphs(n_graphs: int, n_nodes: int, p: float = 0.3, seed: int = 0) -> list[np.ndarray]:
    upper = np.triu(np.random.default_rng(seed).random((n_graphs, n_nodes, n_nodes)) < p, 1).astype(float)
    return list(upper + upper.swapaxes(1, 2))


def run(architecture: str = "ppgn", **changes: Any) -> Iterator[TrainingState]:
    """A short training of a small network on graphs of two sizes."""
    settings = {"max_epochs": 4, "max_time": None, "batch_size": 8, "learning_rate": 3e-3}
    settings |= {"patience": None, "known_share": 2 / 3, **changes}
    resume, validation = settings.pop("resume", None), settings.pop("validation", random_graphs(3, 4, seed=1))
    network = build_network(architecture, SETTINGS[architecture], seed=0)
    graphs = random_graphs(3, 4) + random_graphs(5, 5)
    return train_network(network, graphs, validation, LAWS[architecture], TrainingSettings(**settings), 0, CPU, resume)


# Networks by name.

NETWORKS = {
    "ppgn": {"width": 3, "n_blocks": 2, "n_frequencies": 4},
    "edp-gnn": {
        "sigmas": [0.5, 0.2, 0.1],
        "edge_channels": (2, 3, 2),
        "node_features": 5,
        "gin_width": 4,
        "gin_depth": 2,
    },
}


def arrays_of(architecture: str) -> dict[str, np.ndarray]:
    network = build_network(architecture, NETWORKS[architecture], seed=0)
    return {name: value.numpy() for name, value in network.state_dict().items()}


@pytest.mark.parametrize(
    ("architecture", "changes", "complaint"),
    [
        ("transformer", {}, "architecture='transformer'; expected one of ppgn, edp-gnn"),
        ("ppgn", {"width": "3"}, "no network 'ppgn' has these settings"),
        ("ppgn", {"width": -1}, "no network 'ppgn' has these settings"),
        ("ppgn", {"width": 10**12}, "no network 'ppgn' has these settings"),
        ("ppgn", {"width": 100_000}, "the shape of"),
        ("ppgn", {"n_blocks": 26}, "the settings ask for more layers than there are arrays of weights, 25"),
        ("ppgn", {"n_blocks": 2.0}, "the settings ask for more layers"),
        ("ppgn", {"gin_depth": 2}, "unexpected keyword argument 'gin_depth'"),
        ("edp-gnn", {"sigmas": []}, "sigmas should be a list of 1 to 1000 annealing levels"),
        ("edp-gnn", {"sigmas": [1.0] * 1_001}, "sigmas should be a list of 1 to 1000 annealing levels"),
        ("edp-gnn", {"sigmas": [0.5, 0.5, 0.1]}, "sigmas is not in descending order"),
        ("edp-gnn", {"sigmas": [0.5, 0.2, 0.9e-6]}, "sigmas holds what is no number between 1e-06 and 1e"),
        ("edp-gnn", {"sigmas": [0.5, float("nan"), 0.1]}, "sigmas holds what is no number"),
        ("edp-gnn", {"sigmas": [0.5, 0.1]}, "the shape of"),
        ("edp-gnn", {"edge_channels": [3, 3, 2]}, "edge_channels is .* should start with 2"),
        ("edp-gnn", {"gin_depth": 48}, "the settings ask for more layers"),
    ],
)
def test_settings_that_do_not_fit_the_arrays_are_refused(architecture, changes, complaint):
    settings, arrays = NETWORKS.get(architecture, {}), arrays_of(architecture) if architecture in NETWORKS else {}
    with pytest.raises(ValueError, match=complaint):
        restore_network(architecture, settings | changes, arrays)


# The loss.


def test_loss_of_the_edpgnn_is_equations_11_and_12():
    """Up to the number of pairs: the paper sums over them, here it is their mean."""
    network = build_network("edp-gnn", SMALL_EDPGNN, seed=0).double().eval()
    clean = torch.tensor(np.array(random_graphs(1, 5)))
    total = 0.0
    losses = []
    for sigma in SMALL_EDPGNN["sigmas"]:
        level = torch.tensor([sigma], dtype=torch.float64)
        noisy = clean + sigma * normal_noise(clean, generator())
        losses.append(network.loss(clean, noisy, level))
        score = network.score(noisy, level)
        squares = [
            (score[0, i, j] - (clean[0, i, j] - noisy[0, i, j]) / sigma**2) ** 2 for i in range(5) for j in range(i)
        ]
        distance = sum(squares)  # equation 12: the squared norm over the pairs
        total += sigma**2 * distance / (2 * len(SMALL_EDPGNN["sigmas"]))  # equation 11
    n_pairs = 10
    torch.testing.assert_close(torch.cat(losses).mean(), total / n_pairs, rtol=1e-9, atol=0)


def test_score_and_denoiser_of_the_edpgnn_are_one_by_tweedie():
    network = build_network("edp-gnn", SMALL_EDPGNN, seed=0).double().eval()
    noisy = normal_noise(torch.empty(2, 5, 5, dtype=torch.float64), generator())
    sigma = torch.tensor([0.5, 0.2], dtype=torch.float64)
    score = (network.denoise(noisy, sigma) - noisy) / sigma[:, None, None] ** 2
    torch.testing.assert_close(score, network.score(noisy, sigma), rtol=0, atol=1e-12)


@pytest.mark.parametrize("architecture", ["ppgn", "edp-gnn"])
def test_denoising_losses_are_the_training_loss_on_noisy_copies(architecture):
    network = build_network(architecture, SETTINGS[architecture], seed=0).eval()
    graph, sigmas, n_draws = random_graphs(1, 6)[0], [0.5, 0.2], 3
    losses = denoising_losses(network, [graph], sigmas, n_draws, 7, CPU)
    noise = normal_noise(torch.empty(6, 6, 6), generator(7 + 6))
    clean = torch.tensor(graph, dtype=torch.float32)[None]
    with torch.no_grad():
        for column, sigma in enumerate(sigmas):
            each = [
                network.loss(clean, clean + sigma * noise[[column * n_draws + draw]], torch.tensor([sigma]))
                for draw in range(n_draws)
            ]
            torch.testing.assert_close(losses[0, column], torch.stack(each).mean(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("architecture", ["ppgn", "edp-gnn"])
def test_denoising_losses_of_a_graph_do_not_depend_on_its_companions(architecture):
    network = build_network(architecture, SETTINGS[architecture], seed=0).eval()
    graphs = random_graphs(3, 6) + random_graphs(2, 9) + random_graphs(1, 40)
    together = denoising_losses(network, graphs, [0.5, 0.2], 4, 0, CPU)
    for row, graph in zip(together, graphs, strict=True):
        assert torch.equal(row, denoising_losses(network, [graph], [0.5, 0.2], 4, 0, CPU)[0])


# What is shown.


def test_noise_levels_are_those_named_or_log_uniform():
    named = NoiseLaw(0.2, 0.5, (0.5, 0.3, 0.2)).draw(300, generator())
    assert set(named.tolist()) == set(torch.tensor([0.5, 0.3, 0.2]).tolist())
    between = NoiseLaw(0.1, 1.5).draw(4_000, generator())
    assert between.min() >= 0.1 - 1e-6
    assert between.max() <= 1.5 + 1e-6
    # 4,000 uniform numbers: their mean has a standard error of .0046.
    position = (between / 0.1).log() / math.log(15)
    assert position.mean().item() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize("sigma", [0.15, 0.3, 0.5, 1.5])
@pytest.mark.parametrize("density", [0.02, 0.5])
def test_noise_levels_count_by_what_they_leave_open(sigma, density):
    """The entropy of one pair given its noisy value, by scipy's integration, relative to that of the pair alone."""

    def entropy_at(noisy):
        joint = np.array([1 - density, density]) * stats.norm.pdf(noisy, [0, 1], sigma)
        return stats.entropy(joint) * joint.sum()

    left = integrate.quad(entropy_at, -10 * sigma, 1 + 10 * sigma, points=[0, 0.5, 1], limit=200)[0]
    left /= stats.entropy([1 - density, density])
    weight = float(NoiseLaw(0.1, 2.0, density=density).weight(torch.tensor([sigma])))
    assert weight == pytest.approx(max(left, 1e-3) ** -0.5, rel=0.02)
    assert NoiseLaw(0.1, 2.0).weight(torch.tensor([sigma])) == 1


@pytest.mark.parametrize("architecture", ["ppgn", "edp-gnn"])
def test_number_of_threads_does_not_change_a_bit(architecture):
    weights = []
    for n_threads in (1, 2):
        with torch_threads(n_threads):
            *_, last = run(architecture, max_epochs=1)
            assert torch.get_num_threads() == n_threads
        weights.append(last.averaged)
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_noise_is_symmetric_and_standard_normal_with_a_zero_diagonal():
    noise = normal_noise(torch.empty(200, 10, 10), generator())
    assert torch.equal(noise, noise.mT)
    assert (noise.diagonal(dim1=1, dim2=2) == 0).all()
    draws = noise[:, *torch.triu_indices(10, 10, offset=1)]
    # 9,000 numbers: standard errors of .0105 and .0149.
    assert draws.mean().item() == pytest.approx(0, abs=0.05)
    assert draws.var().item() == pytest.approx(1, abs=0.07)


def test_any_share_of_the_pairs_may_be_known():
    known = random_known(torch.empty(500, 12, 12), generator())
    assert torch.equal(known, known.mT)
    assert set(known.unique().tolist()) == {0.0, 1.0}
    assert (known.diagonal(dim1=1, dim2=2) == 0).all()
    share = known.sum((1, 2)) / (12 * 11)
    # Uniform shares: mean 1/2 and standard deviation .29, so a standard error of .013.
    assert share.mean().item() == pytest.approx(0.5, abs=0.06)
    assert share.min() < 0.05
    assert share.max() > 0.95


def test_graphs_are_stacked_by_size_in_their_order():
    small, large = random_graphs(3, 4), random_graphs(2, 6)
    buckets = bucket_by_size([large[0], small[0], small[1], large[1], small[2]], CPU)
    assert list(buckets) == [4, 6]
    np.testing.assert_array_equal(buckets[4].numpy(), small)
    np.testing.assert_array_equal(buckets[6].numpy(), large)


def tagged(n_graphs: int, n_nodes: int) -> torch.Tensor:
    """Matrices that carry their own number, to be counted."""
    return torch.arange(float(n_graphs))[:, None, None].expand(-1, n_nodes, n_nodes)


@pytest.mark.parametrize(("sizes", "repeats"), [({4: 3, 6: 20}, 13), ({5: 200}, 2), ({5: 400}, 1)])
def test_every_graph_is_shown_equally_often_in_batches_of_one_size(sizes, repeats):
    """Of 8 graphs a batch: 1 + 3 batches are shown 13 times (52 batches), 25 twice, 50 once."""
    buckets = {n_nodes: tagged(n_graphs, n_nodes) for n_nodes, n_graphs in sizes.items()}
    shown = {n_nodes: [] for n_nodes in sizes}
    for batch in shuffled_batches(buckets, 8, generator()):
        assert len(batch) <= 8
        shown[batch.shape[-1]] += batch[:, 0, 0].tolist()
    for n_nodes, n_graphs in sizes.items():
        assert sorted(shown[n_nodes]) == sorted(list(range(n_graphs)) * repeats)
        assert shown[n_nodes] != sorted(shown[n_nodes])


def test_order_of_batches_is_decided_by_the_generator():
    buckets = {4: tagged(5, 4), 6: tagged(30, 6)}
    first, again, other = ([b[:, 0, 0].tolist() for b in shuffled_batches(buckets, 8, generator(s))] for s in (0, 0, 1))
    assert first == again
    assert first != other


# The training loop.


def test_trained_denoiser_of_independent_edges_is_bayes_rule():
    """Edges of these graphs are independent, so the network should learn to ignore the other pairs."""
    p, n_nodes, sigma = 0.3, 6, 0.6
    settings = TrainingSettings(6, None, 32, 1e-2, None, 2 / 3)
    network = build_network("ppgn", SMALL_PPGN, seed=0)
    epochs = list(train_network(network, random_graphs(2_000, n_nodes, p), [], NoiseLaw(0.2, 1.5), settings, 0, CPU))
    network.load_state_dict(epochs[-1].best)
    noisy = normal_noise(torch.empty(400, n_nodes, n_nodes), generator(1)) * sigma
    noisy += torch.tensor(np.array(random_graphs(400, n_nodes, p, seed=2)), dtype=torch.float32)
    with torch.no_grad():
        learned = network.denoise(noisy, torch.full((400,), sigma)).numpy()
    exact = ErdosRenyiPrior(p).denoise(noisy.numpy(), sigma)
    off_diagonal = ~np.eye(n_nodes, dtype=bool)
    # Answers spread over all of [0, 1]: someone who knew the share of edges alone would be .25 away on average.
    assert np.abs(exact - p)[:, off_diagonal].mean() > 0.2
    assert np.abs(learned - exact)[:, off_diagonal].mean() < 0.01
    assert np.abs(learned - exact)[:, off_diagonal].max() < 0.03


def test_training_on_single_pairs_finds_their_share_of_edges():
    """Graphs of two nodes: nothing to learn but one number, the log-odds of an edge."""
    graphs = [np.array([[0.0, a], [a, 0.0]]) for a in [1] * 300 + [0] * 700]
    network = build_network("ppgn", SMALL_PPGN, seed=0)
    settings = TrainingSettings(6, None, 64, 2e-2, None, 0.0)
    *_, last = train_network(network, graphs, [], NoiseLaw(0.3, 1.0), settings, 0, CPU)
    network.load_state_dict(last.best)
    values = np.linspace(-1, 2, 31)
    noisy = torch.tensor(np.multiply.outer(values, 1 - np.eye(2)), dtype=torch.float32)
    for sigma in (0.4, 0.8):
        with torch.no_grad():
            learned = network.denoise(noisy, torch.full((31,), sigma))[:, 0, 1].numpy()
        exact = ErdosRenyiPrior(0.3).denoise(noisy.numpy(), sigma)[:, 0, 1]
        assert np.abs(learned - exact).max() < 0.03


@pytest.mark.parametrize("architecture", ["ppgn", "edp-gnn"])
def test_training_lowers_the_loss(architecture):
    epochs = list(run(architecture, max_epochs=4, learning_rate=1e-2))
    assert [epoch.n_epochs for epoch in epochs] == list(range(1, 5))
    assert epochs[-1].validation_loss < epochs[0].validation_loss
    assert all(before.seconds < after.seconds for before, after in pairwise(epochs))


def copied(state: TrainingState) -> TrainingState:
    """The state with memory of its own, as a file would hold it."""
    return TrainingState(
        *({k: tensor.detach().clone() for k, tensor in v.items()} if isinstance(v, dict) else v for v in state)
    )


@pytest.mark.parametrize(("architecture", "n_before"), [("ppgn", 3), ("edp-gnn", 1)])
def test_training_that_goes_on_ends_with_the_same_bits(architecture, n_before):
    whole = [copied(epoch) for epoch in run(architecture)]
    rest = [copied(epoch) for epoch in run(architecture, resume=whole[n_before - 1])]
    assert len(rest) == 4 - n_before
    for there, here in zip(whole[n_before:], rest, strict=True):
        for part in ("weights", "averaged", "best", "first_moments", "second_moments"):
            expected, found = getattr(there, part), getattr(here, part)
            assert expected.keys() == found.keys()
            assert all(torch.equal(expected[name], found[name]) for name in expected), part
        assert there[5:-1] == here[5:-1]  # all numbers but the seconds


def test_training_that_was_over_does_not_go_on():
    *_, last = run()
    assert list(run(resume=last)) == []
    *_, last = run(patience=1, learning_rate=1e-9, max_epochs=50)
    assert list(run(patience=1, learning_rate=1e-9, max_epochs=50, resume=last)) == []


def test_going_on_leaves_the_given_state_as_it_was():
    epochs = run()
    state = copied(next(epochs))
    before = {name: value.clone() for name, value in state.averaged.items()}
    list(run(resume=state))
    assert all(torch.equal(before[name], state.averaged[name]) for name in before)


def test_same_seed_same_bits_and_no_global_randomness():
    before = torch.get_rng_state()
    first, again = (list(run())[-1].best for _ in range(2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert torch.equal(torch.get_rng_state(), before)


def test_best_weights_are_those_of_the_best_epoch():
    epochs = [copied(epoch) for epoch in run(max_epochs=8, learning_rate=0.1)]
    best = min(epochs, key=lambda epoch: epoch.validation_loss)
    assert epochs[-1].best_loss == best.validation_loss
    kept = epochs[-1].best
    assert all(torch.equal(kept[name], best.averaged[name]) for name in kept)


def test_without_validation_graphs_the_training_loss_chooses():
    epochs = list(run(validation=[]))
    assert all(math.isnan(epoch.validation_loss) for epoch in epochs)
    assert epochs[-1].best_loss == min(epoch.training_loss for epoch in epochs)


def test_patience_ends_the_training(monkeypatch):
    losses = iter([0.5, 0.4, 0.45, 0.3, 0.31, 0.32, 0.29, 0.28])
    monkeypatch.setattr(training, "_validate", lambda *arguments: next(losses))
    epochs = list(run(max_epochs=8, patience=2))
    assert [epoch.validation_loss for epoch in epochs] == [0.5, 0.4, 0.45, 0.3, 0.31, 0.32]
    assert epochs[-1].n_stale == 2
    assert epochs[-1].best_loss == 0.3


class Clock:
    """A clock that moves by a hundredth of a second whenever it is read."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        self.now += 0.01
        return self.now


def test_time_limit_ends_the_training_and_counts_the_time_before_an_interruption(monkeypatch):
    monkeypatch.setattr(training, "time", Clock())
    whole = [copied(epoch) for epoch in run(max_epochs=1_000, max_time=2.0)]
    assert 1 < len(whole) < 100
    assert whole[-1].seconds == pytest.approx(2.0, abs=0.1)
    half = whole[len(whole) // 2]
    monkeypatch.setattr(training, "time", Clock())
    rest = list(run(max_epochs=1_000, max_time=2.0, resume=half))
    assert rest[-1].seconds == pytest.approx(2.0, abs=0.1)
    assert abs(half.n_epochs + len(rest) - len(whole)) <= 1


def test_even_the_shortest_time_gives_a_loss():
    (epoch,) = run(max_time=1e-9)
    assert epoch.n_steps == 1
    assert epoch.training_loss > 0


def test_kept_weights_are_an_average_that_reaches_back_a_tenth_of_the_steps(monkeypatch):
    """The recurrence, written out: after n steps the newest weights count for 10 / (n + 10), and .001 at least."""
    seen: list[dict[str, torch.Tensor]] = []
    step = training._Run._step

    def spy(run: Any, *arguments: Any) -> float:
        loss = step(run, *arguments)
        seen.append({name: value.detach().double().clone() for name, value in run.network.state_dict().items()})
        return loss

    monkeypatch.setattr(training._Run, "_step", spy)
    start = {k: v.double() for k, v in build_network("ppgn", SMALL_PPGN, 0).state_dict().items()}
    *_, last = run(max_epochs=2)
    average = start
    for n, weights in enumerate(seen, start=1):
        share = max(10 / (n + 10), 1 - 0.999)
        average = {name: (1 - share) * average[name] + share * weights[name] for name in average}
    for name, value in last.averaged.items():
        torch.testing.assert_close(value.double(), average[name], rtol=1e-4, atol=1e-6)


def test_learning_rate_warms_up_and_falls_to_zero(monkeypatch):
    rates: list[float] = []
    step = training._Run._step

    def spy(run: Any, *arguments: Any) -> float:
        rates.append(run.optimizer.param_groups[0]["lr"])
        return step(run, *arguments)

    monkeypatch.setattr(training._Run, "_step", spy)
    list(run(max_epochs=8))
    n = np.arange(len(rates))
    expected = 3e-3 * 0.5 * (1 + np.cos(np.pi * n / len(rates))) * np.minimum(1, (n + 1) / 100)
    np.testing.assert_allclose(rates, expected, rtol=1e-9)


@pytest.mark.parametrize("known_share", [0.0, 1.0])
def test_network_is_told_what_is_known_and_known_pairs_carry_no_noise(known_share, monkeypatch):
    network = build_network("ppgn", SMALL_PPGN, seed=0)
    calls = []
    loss = type(network).loss

    def spy(self: Any, clean: Any, noisy: Any, sigma: Any, known: Any = None) -> Any:
        calls.append((clean, noisy, known))
        return loss(self, clean, noisy, sigma, known)

    monkeypatch.setattr(type(network), "loss", spy)
    list(run(max_epochs=1, known_share=known_share, validation=[]))
    for clean, noisy, known in calls:
        assert bool(known.any()) == bool(known_share)
        if known_share:
            assert torch.equal(clean[known > 0], noisy[known > 0])
            assert not torch.equal(clean, noisy)
