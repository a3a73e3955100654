"""Fitting the learned prior: what it accepts, where it ends, and how it goes on."""

from __future__ import annotations

import copy
import math
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import sparse
from small_priors import quick, same_weights, small_grids

from sklearn_graphid import GraphPriorScore, KnownEdges
from sklearn_graphid._utils._torch import torch_threads
from sklearn_graphid.priors import _score

NUMBERS = (
    *("n_levels", "sigma_max", "sigma_min", "max_epochs", "max_time", "batch_size", "learning_rate"),
    *("validation_fraction", "n_iter_no_change"),
)


# Fitting.


def test_fit_sets_plain_attributes(fitted, graphs):
    assert all(type(value) is np.ndarray and value.dtype == np.float32 for value in fitted.weights_.values())
    assert fitted.architecture_ == "ppgn"
    np.testing.assert_allclose(fitted.sigmas_, [0.5, 0.265, 0.03])
    assert fitted.n_iter_ == 2
    assert {name: len(values) for name, values in fitted.loss_history_.items()} == {
        "training": 2,
        "validation": 2,
        "seconds": 2,
    }
    assert fitted.size_range_ == (9, 12)
    assert {len(graph) for graph in graphs} <= set(range(9, 13))
    assert {name: value.shape for name, value in fitted.known_loss_.items()} == {
        "share": (4,),
        "mean": (4, 2),
        "covariance": (4, 2, 2),
    }


@pytest.mark.parametrize("architecture", ["ppgn", "edp-gnn"])
def test_random_state_decides_every_bit(graphs, architecture):
    first, again, other = (
        quick(architecture=architecture, max_epochs=1, random_state=seed).fit(graphs[:3])
        for seed in (0, np.random.RandomState(0), 1)
    )
    assert same_weights(first, again)
    assert not same_weights(first, other)
    np.testing.assert_equal(first.known_loss_, again.known_loss_)


def test_training_computes_by_single_threads_and_leaves_their_number_as_it_was(graphs, monkeypatch):
    def spy(*arguments: Any) -> Any:
        raise RuntimeError(f"{torch.get_num_threads()} threads")

    monkeypatch.setattr("sklearn_graphid.nn._training._set_gradients", spy)
    for n_threads in (1, 2):
        with torch_threads(n_threads):
            with pytest.raises(RuntimeError, match="1 threads"):
                quick().fit(graphs)
            assert torch.get_num_threads() == n_threads


def test_graphs_come_as_arrays_sparse_matrices_or_networkx_graphs(graphs):
    as_arrays = quick(max_epochs=1).fit(graphs[:3])
    mixed = [graphs[0].astype(int), sparse.csr_array(graphs[1]), nx.from_numpy_array(graphs[2])]
    assert same_weights(as_arrays, quick(max_epochs=1).fit(mixed))
    objects = np.empty(3, dtype=object)
    objects[:] = graphs[:3]
    assert same_weights(as_arrays, quick(max_epochs=1).fit(objects))


def test_one_graph_is_enough(graphs):
    prior = quick(max_epochs=1).fit(graphs[:1])
    assert prior.transform(graphs[:1]).shape == (1, 3)
    assert math.isfinite(prior.surprise(KnownEdges(np.ones_like(graphs[0]), graphs[0])))


def test_losses_of_unlike_graphs_are_higher(graphs):
    prior = quick(max_epochs=8).fit(graphs)
    upper = np.triu(np.random.default_rng(0).random((6, 12, 12)) < 0.5, 1).astype(float)
    assert prior.score(small_grids(6, seed=1)) > prior.score(list(upper + upper.swapaxes(1, 2)))


@pytest.mark.parametrize(
    ("bad", "error", "complaint"),
    [
        ([], ValueError, "graphs is empty; expected at least one graph"),
        ([np.zeros((1, 1))], ValueError, r"graphs\[0\] has 1 node\(s\); expected at least 2"),
        (np.zeros((4, 4)), ValueError, r"single ndarray of shape \(4, 4\); expected a list of graphs"),
        (nx.path_graph(3), ValueError, "single Graph; expected a list of graphs"),
        (sparse.eye_array(3), ValueError, "expected a list of graphs"),
        (None, TypeError, "graphs is a NoneType; expected a list of graphs"),
        ("grids", TypeError, "graphs is a str; expected a list of graphs"),
        ([np.array([[0, 0.5], [0.5, 0]])], ValueError, r"graphs\[0\] holds the value 0\.5; expected an unweighted"),
        ([np.array([[0, np.nan], [np.nan, 0]])], ValueError, r"graphs\[0\] holds the value nan"),
        ([np.eye(2)], ValueError, r"graphs\[0\] has a self-loop at node 0"),
        ([np.zeros((2, 2)), np.array([[0, 1], [0, 0]])], ValueError, r"graphs\[1\] is not symmetric: entry \(0, 1\)"),
        ([np.zeros((2, 3))], ValueError, r"graphs\[0\] has shape \(2, 3\); expected a square matrix"),
        ([nx.DiGraph([(0, 1)])], ValueError, r"graphs\[0\] is a networkx DiGraph"),
        ([["a", "b"]], TypeError, r"graphs\[0\] is a list that does not convert"),
    ],
)
def test_bad_graphs_are_refused_with_words(fitted, bad, error, complaint):
    for method in (quick().fit, quick().partial_fit, fitted.transform, fitted.score):
        with pytest.raises(error, match=complaint):
            method(bad)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"architecture": "gcn"}, "'architecture' parameter of GraphPriorScore must be a str among"),
        ({"n_levels": 0}, "'n_levels' parameter"),
        ({"sigma_min": 0}, "'sigma_min' parameter"),
        ({"sigma_min": 0.6}, r"sigma_min=0\.6 is not below sigma_max=0\.5"),
        ({"sigma_min": 0.5}, r"sigma_min=0\.5 is not below sigma_max=0\.5"),
        ({"max_epochs": 0}, "'max_epochs' parameter"),
        ({"max_time": -1}, "'max_time' parameter"),
        ({"batch_size": 1.5}, "'batch_size' parameter"),
        ({"learning_rate": 0}, "'learning_rate' parameter"),
        ({"validation_fraction": 1.0}, "'validation_fraction' parameter"),
        ({"n_iter_no_change": 0}, "'n_iter_no_change' parameter"),
        ({"warm_start": "yes"}, "'warm_start' parameter"),
        ({"checkpoint_path": 3}, "'checkpoint_path' parameter"),
        ({"device": "abacus"}, "device='abacus' is not a torch device"),
        ({"device": "mps"}, "device='mps' is not supported; expected 'auto', 'cpu', 'cuda'"),
        ({"device": "meta"}, "device='meta' is not supported"),
        ({"device": "cuda:99999"}, "device='cuda:99999' is not"),
        *(({name: value}, f"'{name}' parameter") for name in NUMBERS for value in (True, math.nan, "1", -1)),
        *(({name: 1e300}, f"'{name}' parameter") for name in NUMBERS if name != "max_time"),
        ({"random_state": "dice"}, "'random_state' parameter"),
    ],
)
def test_bad_parameters_are_refused_with_words(graphs, changes, complaint):
    with pytest.raises(ValueError, match=complaint):
        quick(**changes).fit(graphs)


def test_one_level_may_be_its_own_smallest(graphs):
    prior = quick(n_levels=1, sigma_max=0.3, sigma_min=0.3, max_epochs=1).fit(graphs[:2])
    np.testing.assert_allclose(prior.sigmas_, [0.3])


def test_a_training_that_diverges_says_so(graphs):
    with pytest.raises(ValueError, match=r"training diverged in epoch 1: its loss is nan\. A lower learning_rate"):
        quick(learning_rate=1e30).fit(graphs)


def test_a_training_that_diverges_later_keeps_what_was_best(graphs, monkeypatch):
    first, train = quick(max_epochs=3), _score.train_network

    def sabotage(*arguments: Any) -> Any:
        for epoch in train(*arguments):
            yield epoch._replace(training_loss=math.nan) if epoch.n_epochs == 2 else epoch

    monkeypatch.setattr(_score, "train_network", sabotage)
    with pytest.warns(UserWarning, match="training diverged in epoch 2.*best weights so far are kept"):
        first.fit(graphs)
    assert first.n_iter_ == 1


def test_early_stopping_leaves_epochs_unused(graphs, monkeypatch):
    losses = iter([0.5, 0.4, 0.41, 0.42, 0.1])
    monkeypatch.setattr("sklearn_graphid.nn._training._validate", lambda *arguments: next(losses))
    prior = quick(max_epochs=5, n_iter_no_change=2).fit(graphs[:3])
    assert prior.n_iter_ == 4
    assert prior.loss_history_["validation"] == [0.5, 0.4, 0.41, 0.42]


def test_held_out_graphs_are_not_trained_on(graphs, monkeypatch):
    seen = {}

    def spy(network: Any, training: Any, validation: Any, *rest: Any) -> Any:
        seen["sizes"] = len(training), len(validation)
        assert not any(np.array_equal(a, b) for a in training for b in validation)
        raise RuntimeError("enough seen")

    monkeypatch.setattr("sklearn_graphid.priors._score.train_network", spy)
    for fraction, sizes in ((0.0, (12, 0)), (0.25, (9, 3)), (0.99, (1, 11))):
        with pytest.raises(RuntimeError, match="enough seen"):
            quick(validation_fraction=fraction).fit(list(_distinct(graphs)))
        assert seen["sizes"] == sizes


def _distinct(graphs: list[np.ndarray]) -> Any:
    """Grids of one size may be alike; an extra edge of its own marks each."""
    for i, graph in enumerate(graphs):
        marked = graph.copy()
        marked[0, 1:] = marked[1:, 0] = [i >> k & 1 for k in range(len(graph) - 1)]
        yield marked


# Going on.


@pytest.mark.parametrize("architecture", ["ppgn", "edp-gnn"])
def test_partial_fit_goes_on_by_one_pass(fitted, fitted_edpgnn, graphs, architecture):
    before = fitted if architecture == "ppgn" else fitted_edpgnn
    prior = copy.deepcopy(before).partial_fit(graphs)
    assert prior.n_iter_ == before.n_iter_ + 1
    assert prior.loss_history_["training"][:-1] == before.loss_history_["training"]
    assert prior.loss_history_["seconds"][-1] > before.loss_history_["seconds"][-1]
    assert not same_weights(prior, before)
    if architecture == "ppgn":  # a single pass, at the full learning rate, may undo some of the end of a schedule
        for _ in range(3):
            prior.partial_fit(graphs)
        assert prior.score(graphs) > before.score(graphs)


def test_partial_fit_may_be_the_first(graphs):
    prior = quick(max_epochs=50).partial_fit(graphs)
    assert prior.n_iter_ == 1
    assert prior.transform(graphs).shape == (12, 3)


def test_partial_fit_widens_the_range_of_sizes(fitted):
    assert copy.deepcopy(fitted).partial_fit([np.zeros((4, 4))] * 3).size_range_ == (4, 12)


def test_passes_that_go_on_see_fresh_noise(graphs):
    """The same integer must not mean the same noise again, or a second pass would teach the first one's noise."""
    prior = quick().partial_fit(graphs[:3])
    first = prior.weights_
    prior.partial_fit(graphs[:3])
    unlucky = quick().partial_fit(graphs[:3])
    unlucky.n_iter_ = 0
    unlucky.partial_fit(graphs[:3])
    assert not same_weights(prior, unlucky)
    assert not all(np.array_equal(first[name], prior.weights_[name]) for name in first)


def test_warm_start_goes_on_and_cold_start_does_not(fitted, graphs):
    warm = copy.deepcopy(fitted).set_params(warm_start=True, max_epochs=1).fit(graphs)
    assert warm.n_iter_ == 3
    assert warm.loss_history_["training"][:2] == fitted.loss_history_["training"]
    cold = copy.deepcopy(fitted).fit(graphs)
    assert cold.n_iter_ == 2
    assert same_weights(cold, fitted)


def test_warm_start_without_a_fit_is_a_fit(fitted, graphs):
    assert same_weights(quick(warm_start=True).fit(graphs), fitted)


def test_sizes_of_the_network_are_those_asked_for_and_survive_a_file(graphs, tmp_path):
    prior = quick(width=5, n_blocks=2, graph_context=True, max_epochs=1).fit(graphs)
    assert prior.weights_["lift.weight"].shape == (5, 4)
    assert sum(name.endswith("from_graph.weight") for name in prior.weights_) == 2
    prior.set_params(width=7).save(tmp_path / "prior.safetensors")
    again = GraphPriorScore.load(tmp_path / "prior.safetensors")
    assert (again.width, again.n_blocks, again.graph_context) == (5, 2, True)
    noisy = np.zeros_like(graphs[0])
    np.testing.assert_array_equal(again.denoise(noisy, 0.5), prior.denoise(noisy, 0.5))
    with pytest.raises(ValueError, match=r"width=7, but the weights to go on from are of width=5"):
        prior.set_params(warm_start=True).fit(graphs)
    with pytest.raises(ValueError, match=r"architecture='edp-gnn' has no such option, but graph_context=True"):
        quick(architecture="edp-gnn", graph_context=True).fit(graphs)


def test_warm_start_from_another_network_is_refused_with_words(fitted, fitted_edpgnn, graphs):
    with pytest.raises(ValueError, match=r"architecture='edp-gnn', but the weights .* are of architecture='ppgn'"):
        copy.deepcopy(fitted).set_params(warm_start=True, architecture="edp-gnn").fit(graphs)
    with pytest.raises(ValueError, match="an 'edp-gnn' is made for its annealing levels"):
        copy.deepcopy(fitted_edpgnn).set_params(warm_start=True, n_levels=4).fit(graphs)
    any_level = copy.deepcopy(fitted).set_params(warm_start=True, n_levels=4, max_epochs=1).fit(graphs[:2])
    assert any_level.transform(graphs[:2]).shape == (2, 4)


def test_parameters_set_after_a_fit_do_not_change_the_fitted_prior(fitted, graphs):
    changed = copy.deepcopy(fitted).set_params(architecture="edp-gnn", n_levels=7, sigma_max=2.0)
    np.testing.assert_array_equal(changed.transform(graphs[:2]), fitted.transform(graphs[:2]))


class Interrupt:
    """A measurement during which Ctrl-C is pressed the first few times."""

    def __init__(self, n_times: int, measure: Any) -> None:
        self.n_times, self.measure = n_times, measure

    def __call__(self, *arguments: Any) -> Any:
        if self.n_times:
            self.n_times -= 1
            raise KeyboardInterrupt
        return self.measure(*arguments)


def test_an_interruption_after_the_training_completes_it(fitted, graphs, monkeypatch):
    monkeypatch.setattr(_score, "calibrate_surprise", Interrupt(1, _score.calibrate_surprise))
    with pytest.warns(UserWarning, match="interrupted after the training.*goes on"):
        prior = quick().fit(graphs)
    assert same_weights(prior, fitted)
    np.testing.assert_equal(prior.known_loss_, fitted.known_loss_)


@pytest.mark.parametrize("warm_start", [False, True])
def test_a_second_interruption_leaves_the_earlier_fit(fitted, graphs, monkeypatch, warm_start):
    prior = copy.deepcopy(fitted).set_params(warm_start=warm_start, max_epochs=1)
    monkeypatch.setattr(_score, "calibrate_surprise", Interrupt(2, _score.calibrate_surprise))
    with pytest.warns(UserWarning, match="interrupted after the training"), pytest.raises(KeyboardInterrupt):
        prior.fit(graphs)
    for name in (name for name in vars(fitted) if name.endswith("_")):
        np.testing.assert_equal(getattr(prior, name), getattr(fitted, name))
    assert math.isfinite(prior.surprise(KnownEdges(np.ones_like(graphs[0]), graphs[0])))


def test_numpy_numbers_are_numbers(fitted, graphs):
    numbers = {
        "n_levels": np.int64(3),
        "sigma_max": np.float64(0.5),
        "max_epochs": np.int8(2),
        "batch_size": np.uint8(8),
    }
    assert same_weights(quick(**numbers).fit(graphs), fitted)
