"""Fitted priors inside clones, searches, pipelines and workers: still fitted, and there once."""

from __future__ import annotations

import gc
import pickle
import tracemalloc

import joblib
import numpy as np
import pytest
from joblib import parallel_config
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, VotingRegressor
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RandomizedSearchCV, cross_val_score, cross_validate
from sklearn.multioutput import MultiOutputRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_graphid import GraphPriorScore, LangevinSystemIdentifier, identify_many, load_prior
from sklearn_graphid.datasets import make_grid_graphs

# The shipped prior was trained on larger networks and says so; here only its passage through scikit-learn matters.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:the graph does not look like:UserWarning"),
]


@pytest.fixture
def prior(request, frozen_prior):
    return load_prior(request.param) if hasattr(request, "param") else frozen_prior


@pytest.fixture
def informed(prior):
    return LangevinSystemIdentifier("heat", prior, n_chains=1, n_levels=2, n_steps=1, n_sweeps=2, random_state=0)


@pytest.fixture
def expected(informed, square_experiments, ladder_known):
    """The cross-validation scores by hand, with a prior that nothing has copied."""
    X, Y = square_experiments
    halves = np.arange(4), np.arange(4, 8)
    scores = []
    for test, train in (halves, halves[::-1]):
        direct = LangevinSystemIdentifier(**informed.get_params(deep=False) | {"prior": informed.prior.estimator})
        scores.append(direct.fit(X[train], Y[train], ladder_known).score(X[test], Y[test]))
    return np.array(scores)


def weights_of(identifier):
    return list(identifier.prior.estimator.weights_.values())


@pytest.mark.parametrize(
    ("prior", "backend", "n_jobs"), [("deezer-ego-nets", "loky", 2), ("grids", "threading", 2)], indirect=["prior"]
)
def test_searches_use_it_fitted(backend, n_jobs, informed, expected, square_experiments, ladder_known):
    with parallel_config(backend=backend):
        search = GridSearchCV(informed, {"prior": [None, informed.prior]}, cv=2, n_jobs=n_jobs, error_score="raise")
        search.fit(*square_experiments, known_mask=ladder_known)
    results = search.cv_results_
    np.testing.assert_array_equal([results["split0_test_score"][1], results["split1_test_score"][1]], expected)


def test_randomized_search_may_draw_it(informed, expected, square_experiments, ladder_known):
    search = RandomizedSearchCV(informed, {"prior": [informed.prior]}, n_iter=1, cv=2, random_state=0)
    search.fit(*square_experiments, known_mask=ladder_known)
    assert search.best_score_ == pytest.approx(expected.mean(), rel=1e-12)


def test_clones_copies_and_pickles_predict_alike(informed, expected, square_experiments, ladder_known):
    for copy in (clone(informed), clone(clone(informed)), pickle.loads(pickle.dumps(informed))):
        scores = cross_val_score(copy, *square_experiments, cv=2, params={"known_mask": ladder_known})
        np.testing.assert_array_equal(scores, expected)
    fitted = clone(informed).fit(*square_experiments, ladder_known)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict(square_experiments[0]), fitted.predict(square_experiments[0]))


def test_joblib_dump_keeps_it(informed, tmp_path, square_experiments, ladder_known):
    fitted = informed.fit(*square_experiments, ladder_known)
    joblib.dump(fitted, tmp_path / "identifier.joblib")
    again = joblib.load(tmp_path / "identifier.joblib")
    for one, other in zip(weights_of(again), weights_of(fitted), strict=True):
        np.testing.assert_array_equal(one, other)


def meta_estimators(informed):
    identity = FunctionTransformer()
    yield make_pipeline(identity, informed)
    yield TransformedTargetRegressor(informed)
    yield TransformedTargetRegressor(make_pipeline(identity, informed))
    yield GridSearchCV(informed, {"n_levels": [2]}, cv=2)
    yield GridSearchCV(make_pipeline(identity, informed), {"langevinsystemidentifier__n_levels": [2]}, cv=2)
    yield BaggingRegressor(informed, n_estimators=2, random_state=0)


def test_every_meta_estimator_takes_it(informed, square_experiments):
    X, Y = square_experiments
    for meta in meta_estimators(informed):
        predicted = clone(meta).fit(X, Y).predict(X)
        assert predicted.shape == Y.shape
        assert np.isfinite(predicted).all()


def test_meta_estimators_of_one_output_take_it(informed, square_experiments):
    X, Y = square_experiments
    one_node = clone(informed).set_params(observed_nodes=[2])
    assert VotingRegressor([("one", one_node)]).fit(X, Y[:, 2]).predict(X).shape == (8,)
    # All outputs are modelled by the same node here, which makes no sense but must not fail.
    assert MultiOutputRegressor(one_node).fit(X, Y[:, :2]).predict(X).shape == (8, 2)


# There once


def test_no_candidate_has_weights_of_its_own(informed, square_experiments, ladder_known):
    originals = weights_of(informed)
    for backend, n_jobs in (("loky", 1), ("threading", 2)):
        with parallel_config(backend=backend):
            result = cross_validate(
                informed,
                *square_experiments,
                cv=4,
                n_jobs=n_jobs,
                params={"known_mask": ladder_known},
                return_estimator=True,
            )
        for estimator in result["estimator"]:
            assert all(one is other for one, other in zip(weights_of(estimator), originals, strict=True))
    grid = {"n_levels": [2, 3], "prior": [informed.prior]}
    search = GridSearchCV(informed, grid, cv=2).fit(*square_experiments, known_mask=ladder_known)
    assert all(one is other for one, other in zip(weights_of(search.best_estimator_), originals, strict=True))
    assert all(params["prior"].estimator is informed.prior.estimator for params in search.cv_results_["params"])


def test_a_thousand_clones_need_no_memory_for_weights(informed):
    size = sum(array.nbytes for array in weights_of(informed))
    gc.collect()
    tracemalloc.start()
    clones = [clone(informed) for _ in range(1000)]
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(clones) == 1000
    # An identifier without weights takes some kilobytes, and weights tens of them.
    assert grown < 0.1 * 1000 * size


def test_many_systems_share_it(informed, many_systems):
    frame = identify_many(informed, many_systems[:4], keep_estimators=True)
    assert all(estimator.prior.estimator is informed.prior.estimator for estimator in frame["estimator"])


# Not frozen


def test_a_prior_that_is_not_frozen_loses_its_fit_and_the_error_says_what_to_do(trained_prior, square_experiments):
    bare = LangevinSystemIdentifier("heat", trained_prior, n_chains=1, n_levels=2, random_state=0)
    with pytest.raises(NotFittedError, match=r"prior=FrozenEstimator\(prior\)"):
        cross_val_score(bare, *square_experiments, cv=2, error_score="raise")


def test_settings_of_the_prior_can_be_searched_by_refitting_it_outside(square_experiments, ladder_known):
    """A frozen prior has no parameters to set; candidates are priors that were fitted beforehand."""
    graphs = make_grid_graphs(6, min_nodes=6, max_nodes=9, min_side=2, max_side=3, random_state=0)
    priors = [FrozenEstimator(GraphPriorScore(max_epochs=n, random_state=0).fit(graphs)) for n in (1, 2)]
    identifier = LangevinSystemIdentifier("heat", n_chains=1, n_levels=2, n_steps=1, random_state=0)
    search = GridSearchCV(identifier, {"prior": priors}, cv=2, error_score="raise")
    search.fit(*square_experiments, known_mask=ladder_known)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
