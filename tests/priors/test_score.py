"""The learned prior as an estimator: judging, drawing, and scikit-learn's manners."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from small_priors import quick, small_grids

from sklearn_graphid import GraphPriorScore, KnownEdges
from sklearn_graphid._utils._torch import torch_threads

REFERENCE = Path(__file__).parents[2].parent / "shared" / "reference"
needs_reference = pytest.mark.skipif(not REFERENCE.is_dir(), reason="the published checkpoints are not here")


# Judging.


def test_losses_do_not_depend_on_the_other_graphs(fitted, fitted_edpgnn, graphs):
    for prior in (fitted, fitted_edpgnn):
        together = prior.transform(graphs)
        for row, graph in zip(together, graphs, strict=True):
            np.testing.assert_array_equal(prior.transform([graph])[0], row)


def test_losses_do_not_depend_on_the_number_of_threads(fitted, graphs):
    alone = fitted.transform(graphs)
    with torch_threads(2):
        np.testing.assert_array_equal(fitted.transform(graphs), alone)


def test_score_is_minus_the_mean_loss(fitted, graphs):
    assert fitted.score(graphs) == -fitted.transform(graphs).mean()


def test_transform_has_named_columns_and_gives_frames(fitted, graphs):
    pandas = pytest.importorskip("pandas")
    names = ["denoising_loss_0.5", "denoising_loss_0.265", "denoising_loss_0.03"]
    assert list(fitted.get_feature_names_out()) == names
    frame = clone(fitted).set_output(transform="pandas").fit_transform(graphs)
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame.columns) == names
    np.testing.assert_array_equal(frame.to_numpy(), fitted.transform(graphs))


def test_transform_works_in_a_pipeline(fitted, graphs):
    pipeline = make_pipeline(FrozenEstimator(fitted), StandardScaler()).fit(graphs)
    np.testing.assert_allclose(pipeline.transform(graphs).mean(0), 0, atol=1e-9)


def test_denoise_and_score_function_are_one_by_tweedie(fitted, fitted_edpgnn, graphs):
    upper = np.triu(np.random.default_rng(0).normal(size=graphs[0].shape), 1)
    noisy = graphs[0] + 0.5 * (upper + upper.T)
    for prior in (fitted, fitted_edpgnn):
        clean, score = prior.denoise(noisy, 0.5), prior.score_function(noisy, 0.5)
        np.testing.assert_allclose(noisy + 0.25 * score, clean, atol=1e-6)
        np.testing.assert_array_equal(score, score.T)
        batch = prior.denoise(np.stack([noisy, graphs[0]]), 0.5)
        np.testing.assert_allclose(batch[0], clean, atol=1e-5)


def test_levels_that_an_edpgnn_was_not_trained_for_are_refused_with_words(fitted, fitted_edpgnn, graphs):
    fitted.denoise(graphs[0], 0.4)
    with pytest.raises(ValueError, match=r"sigma=0\.4 is not an annealing level of the prior; the nearest one is 0\.5"):
        fitted_edpgnn.denoise(graphs[0], 0.4)


@pytest.mark.parametrize(
    "use",
    [
        lambda prior: prior.transform([np.zeros((3, 3))]),
        lambda prior: prior.score([np.zeros((3, 3))]),
        lambda prior: prior.denoise(np.zeros((3, 3)), 0.5),
        lambda prior: prior.score_function(np.zeros((3, 3)), 0.5),
        lambda prior: prior.sample(),
        lambda prior: prior.surprise(KnownEdges.nothing(3)),
        lambda prior: prior.get_feature_names_out(),
        lambda prior: prior.nearest_sigmas([0.5]),
    ],
)
def test_nothing_works_before_fit(use):
    with pytest.raises(NotFittedError, match="GraphPriorScore instance is not fitted yet"):
        use(quick())


def test_what_a_network_is_told_is_known_without_building_it(fitted, fitted_edpgnn, monkeypatch):
    monkeypatch.setattr("sklearn_graphid.priors._score.restore_network", None)  # a call would be a TypeError
    assert fitted.conditions_on_known
    assert not fitted_edpgnn.conditions_on_known
    with pytest.raises(NotFittedError):
        _ = quick().conditions_on_known


# Published checkpoints.


@needs_reference
def test_a_published_checkpoint_is_a_prior(tmp_path):
    prior = GraphPriorScore.from_edpgnn_checkpoint(REFERENCE / "edp_gnn_grids.pth")
    assert prior.architecture == prior.architecture_ == "edp-gnn"
    with np.load(REFERENCE / "edp_gnn_grids_expected.npz") as file:
        key = next(key for key in file if key.startswith("input") and key.endswith("level0"))
        noisy, published = file[key].astype(float), file[key.replace("input", "score")]
    score = prior.score_function((noisy + noisy.swapaxes(-1, -2)) / 2, prior.sigmas_[0])
    np.testing.assert_allclose(score, published, atol=1e-4)
    with pytest.raises(ValueError, match=r"n_nodes=None, but the sizes of the training graphs are not on record"):
        prior.sample()
    assert math.isnan(prior.surprise(KnownEdges(np.ones((20, 20)), np.zeros((20, 20)))))
    prior.save(tmp_path / "published")
    loaded = GraphPriorScore.load(tmp_path / "published")
    np.testing.assert_array_equal(loaded.transform(small_grids(1)), prior.transform(small_grids(1)))
    assert loaded.set_params(random_state=0).partial_fit(small_grids(2)).n_iter_ == 1


# Drawing.


@pytest.mark.parametrize("architecture", ["ppgn", "edp-gnn"])
def test_drawn_graphs_are_graphs_of_training_size(fitted, fitted_edpgnn, architecture):
    prior = fitted if architecture == "ppgn" else fitted_edpgnn
    drawn = prior.sample(4, random_state=0)
    assert len(drawn) == 4
    for graph in drawn:
        assert set(np.unique(graph)) <= {0.0, 1.0}
        np.testing.assert_array_equal(graph, graph.T)
        assert not np.diagonal(graph).any()
    sizes = [len(graph) for graph in drawn]
    assert min(sizes) >= 9
    assert max(sizes) <= 12
    assert len(set(sizes)) > 1
    prior.transform(drawn)


def test_draws_have_the_size_asked_for_and_are_reproducible(fitted):
    first, again, other = (fitted.sample(3, n_nodes=6, random_state=seed) for seed in (0, 0, 1))
    assert [graph.shape for graph in first] == [(6, 6)] * 3
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert len({graph.tobytes() for graph in first}) > 1


def test_draws_go_from_much_noise_to_little_whatever_the_schedule(graphs):
    for sigma_max in (0.05, 0.5):
        prior = quick(sigma_max=sigma_max, max_epochs=1).fit(graphs[:2])
        sigmas = prior._sampling_sigmas()
        assert sigmas == sorted(sigmas, reverse=True)
        assert sigmas[0] == pytest.approx(3 * sigma_max)
        assert sigmas[-1] == pytest.approx(min(0.12, sigma_max))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"n_samples": 0}, "n_samples=0; expected an integer of at least 1"),
        ({"n_samples": 1.5}, "n_samples=1.5"),
        ({"n_nodes": 1}, "n_nodes=1; expected an integer of at least 2"),
        ({"n_samples": True}, "n_samples=True; expected an integer"),
        ({"n_samples": None}, "n_samples=None; expected an integer"),
        ({"n_samples": 10**18}, "n_samples=10+; expected an integer of at least 1 and at most 1,000,000"),
        ({"n_nodes": 10**18}, "n_nodes=10+; expected an integer"),
        ({"random_state": "dice"}, "random_state='dice'; expected an integer from 0"),
        ({"random_state": -1}, "random_state=-1; expected an integer from 0"),
    ],
)
def test_bad_requests_for_draws_are_refused_with_words(fitted, arguments, complaint):
    with pytest.raises((TypeError, ValueError), match=complaint):
        fitted.sample(**{"random_state": 0, **arguments})


# scikit-learn's manners.

# Those that feed a table of numbers do not apply to lists of graphs.
DATA_FREE_CHECKS = [
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_get_feature_names_out_error",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_param_validation",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_transformers_unfitted",
    "check_valid_tag_types",
]


@pytest.mark.parametrize("name", DATA_FREE_CHECKS)
def test_checks_of_scikit_learn_that_need_no_data(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        getattr(estimator_checks, name)("GraphPriorScore", GraphPriorScore())


def test_clone_forgets_the_fit_and_keeps_the_parameters(fitted):
    fresh = clone(fitted)
    assert fresh.get_params() == fitted.get_params()
    assert not hasattr(fresh, "weights_")
    assert not [name for name in vars(fresh) if name.endswith("_")]


def test_fit_returns_the_estimator_and_changes_no_parameter(graphs):
    prior = quick(max_epochs=1)
    before = prior.get_params()
    assert prior.fit(graphs[:2]) is prior
    assert prior.get_params() == before


def test_frozen_prior_survives_clone(fitted, graphs):
    frozen = clone(FrozenEstimator(fitted))
    np.testing.assert_array_equal(frozen.transform(graphs), fitted.transform(graphs))


def test_grid_search_over_graphs_prefers_more_training(graphs):
    search = GridSearchCV(quick(validation_fraction=0), {"max_epochs": [1, 3]}, cv=2, error_score="raise")
    search.fit(graphs)
    assert search.best_params_ == {"max_epochs": 3}
    assert search.best_score_ < 0
    assert search.score(graphs) == search.best_estimator_.score(graphs)


def test_cross_validation_is_the_same_by_hand(graphs):
    scores = cross_val_score(quick(max_epochs=1), graphs[:4], cv=2)
    assert scores[0] == quick(max_epochs=1).fit(graphs[2:4]).score(graphs[:2])
    assert scores[1] == quick(max_epochs=1).fit(graphs[:2]).score(graphs[2:4])
