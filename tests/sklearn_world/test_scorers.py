"""Scorers: what they measure, compared with scipy and scikit-learn, and their life in searches."""

from __future__ import annotations

import pickle

import networkx as nx
import numpy as np
import pytest
from scipy.stats import norm
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import NotFittedError, UndefinedMetricWarning
from sklearn.linear_model import LinearRegression
from sklearn.metrics import f1_score, get_scorer, r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_graphid import KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import PolynomialFilter
from sklearn_graphid.scorers import (
    log_likelihood_scorer,
    make_edge_f1_scorer,
    make_edge_roc_auc_scorer,
    r2_scorer,
)


@pytest.fixture
def fitted(quick, square_experiments, ladder_known):
    return quick.fit(*square_experiments, ladder_known)


# What they measure


def test_log_likelihood_is_that_of_independent_normal_outputs(fitted, square_experiments):
    X, Y = square_experiments
    density = norm(loc=fitted.predict(X), scale=fitted.noise_std_)
    assert log_likelihood_scorer(fitted, X, Y) == pytest.approx(density.logpdf(Y).mean(), rel=1e-12)
    gaps = Y.copy()
    gaps[2:5, 3] = np.nan
    assert log_likelihood_scorer(fitted, X, gaps) == pytest.approx(np.nanmean(density.logpdf(gaps)), rel=1e-12)


def test_r2_is_that_of_scikit_learn_and_takes_gaps(fitted, square_experiments):
    X, Y = square_experiments
    theirs = r2_score(Y, fitted.predict(X), multioutput="variance_weighted")
    assert r2_scorer(fitted, X, Y) == pytest.approx(theirs, rel=1e-12)
    assert r2_scorer(fitted, X, Y) == pytest.approx(fitted.score(X, Y), rel=1e-12)
    gaps = Y.copy()
    gaps[2:5, 3] = np.nan
    gaps[1:, 4] = np.nan  # one number has no variance
    assert r2_scorer(fitted, X, gaps) == pytest.approx(fitted.score(X, gaps), rel=1e-12)
    with pytest.raises(ValueError, match="contains NaN"):
        get_scorer("r2")(fitted, X, gaps)


def test_edges_are_scored_on_unknown_pairs_only(fitted, ladder, ladder_known, square_experiments):
    unknown = ladder_known.unknown_pairs()
    truth = ladder[unknown]
    for known in (ladder_known, ladder_known.mask, ladder_known.to_array(), None):
        f1 = make_edge_f1_scorer(nx.from_numpy_array(ladder), known)(fitted, *square_experiments)
        assert f1 == pytest.approx(f1_score(truth, fitted.adjacency_[unknown]))
        auc = make_edge_roc_auc_scorer(ladder, known)(fitted, *square_experiments)
        assert auc == pytest.approx(roc_auc_score(truth, fitted.edge_probabilities_[unknown]))


def test_one_output_may_be_flat(quick, square_experiments, ladder_known):
    X, Y = square_experiments
    flat = quick.set_params(observed_nodes=[2]).fit(X, Y[:, 2], ladder_known)
    density = norm(loc=flat.predict(X), scale=flat.noise_std_)
    assert log_likelihood_scorer(flat, X, Y[:, 2]) == pytest.approx(density.logpdf(Y[:, 2]).mean())
    assert r2_scorer(flat, X, Y[:, 2]) == pytest.approx(flat.score(X, Y[:, 2]))


# Life in a search


@pytest.mark.parametrize("routing", [False, True])
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_several_scorers_and_refit(n_jobs, routing, ladder, ladder_known):
    X, Y = make_system(ladder, PolynomialFilter(1), theta=[0.6, 0.4], n_experiments=16, random_state=0)
    short = LangevinSystemIdentifier(PolynomialFilter(), n_chains=2, n_levels=3, n_steps=1, n_sweeps=8, random_state=0)
    scoring = {
        "r2": "r2",
        "log_likelihood": log_likelihood_scorer,
        "f1": make_edge_f1_scorer(ladder, ladder_known),
        "auc": make_edge_roc_auc_scorer(ladder, ladder_known),
    }
    with config_context(enable_metadata_routing=routing):
        search = GridSearchCV(
            short, {"filter__order": [0, 1]}, scoring=scoring, refit="log_likelihood", cv=2, n_jobs=n_jobs
        ).fit(X, Y, known_mask=ladder_known)
    results = search.cv_results_
    for name in scoring:
        assert np.isfinite(results[f"mean_test_{name}"]).all()
        assert results[f"mean_test_{name}"][1] > results[f"mean_test_{name}"][0]
    assert search.best_params_ == {"filter__order": 1}
    assert search.score(X, Y) == log_likelihood_scorer(search.best_estimator_, X, Y)
    # What was selected is an identifier like any other, and can be scored itself.
    assert scoring["f1"](search, X, Y) == 1.0


@pytest.mark.parametrize("scorer", [log_likelihood_scorer, r2_scorer])
def test_gaps_in_the_outputs_survive_cross_validation(scorer, quick, ladder_known, square_experiments):
    X, Y = square_experiments
    Y = Y.copy()
    Y[::3, 1] = np.nan
    scores = cross_val_score(
        quick, X, Y, scoring=scorer, cv=2, params={"known_mask": ladder_known}, error_score="raise"
    )
    assert np.isfinite(scores).all()


def test_log_likelihood_punishes_certainty_that_r2_cannot_see(ladder):
    """Two identifiers that know the network, one of which believes in a tenth of the noise."""
    X, Y = make_system(ladder, "heat", theta=[0.5], n_experiments=12, noise_std=1.0, random_state=0)
    right = LangevinSystemIdentifier("heat", noise_std=1.0, n_chains=2, n_levels=4, random_state=0)
    fits = [clone(right).set_params(noise_std=noise).fit(X, Y, ladder) for noise in (1.0, 0.1)]
    r2 = [r2_scorer(fit, X, Y) for fit in fits]
    assert r2[0] == pytest.approx(r2[1], abs=0.01)
    log_likelihood = [log_likelihood_scorer(fit, X, Y) for fit in fits]
    # Residuals of variance one under a tenth of it cost 0.5 * (100 - 1) and gain log(10).
    assert log_likelihood[0] - log_likelihood[1] == pytest.approx(49.5 - np.log(10), rel=0.25)


def test_scorers_see_through_pipelines(quick, ladder, ladder_known, square_experiments):
    pipeline = make_pipeline(FunctionTransformer(), clone(quick))
    told = {"langevinsystemidentifier__known_mask": ladder_known}
    scoring = {"log_likelihood": log_likelihood_scorer, "f1": make_edge_f1_scorer(ladder)}
    wrapped = cross_validate(pipeline, *square_experiments, scoring=scoring, cv=2, params=told)
    bare = cross_validate(quick, *square_experiments, scoring=scoring, cv=2, params={"known_mask": ladder_known})
    for name in ("test_log_likelihood", "test_f1"):
        np.testing.assert_array_equal(wrapped[name], bare[name])


def test_scorers_can_be_pickled(fitted, ladder, ladder_known, square_experiments):
    for scorer in (make_edge_f1_scorer(ladder, ladder_known), make_edge_roc_auc_scorer(ladder), log_likelihood_scorer):
        assert pickle.loads(pickle.dumps(scorer))(fitted, *square_experiments) == scorer(fitted, *square_experiments)


def test_the_truth_is_the_scorers_own(fitted, ladder, square_experiments):
    truth = ladder.copy()
    scorer = make_edge_f1_scorer(truth)
    before = scorer(fitted, *square_experiments)
    truth[:] = 0
    assert scorer(fitted, *square_experiments) == before


# What makes no sense


def test_wrong_truths_are_refused_at_once(ladder):
    for make in (make_edge_f1_scorer, make_edge_roc_auc_scorer):
        with pytest.raises(ValueError, match="true_adjacency has a self-loop at node 0"):
            make(np.eye(3))
        with pytest.raises(ValueError, match="known is a KnownEdges of 5 nodes but true_adjacency has 8 nodes"):
            make(ladder, KnownEdges.nothing(5))
        with pytest.raises(ValueError, match=r"known has shape \(8, 7\)"):
            make(ladder, np.zeros((8, 7)))


def test_what_cannot_be_scored_says_so(quick, fitted, ladder, square_experiments):
    X, Y = square_experiments
    f1 = make_edge_f1_scorer(ladder)
    with pytest.raises(NotFittedError):
        f1(clone(quick), X, Y)
    with pytest.raises(TypeError, match="estimator is a LinearRegression without adjacency_; expected an identifier"):
        f1(LinearRegression().fit(X, Y), X, Y)
    with pytest.raises(ValueError, match="y has 3 columns but the estimator predicts 8"):
        log_likelihood_scorer(fitted, X, Y[:, :3])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        log_likelihood_scorer(fitted, X, Y[:3])
    with pytest.raises(ValueError, match="y holds nothing but nan"):
        log_likelihood_scorer(fitted, X, Y * np.nan)
    with pytest.warns(UndefinedMetricWarning, match="fewer than two measured outputs"):
        assert np.isnan(r2_scorer(fitted, X[:1], Y[:1]))
    target = TransformedTargetRegressor(clone(quick)).fit(X, Y)
    with pytest.raises(TypeError, match="noise_std_ is in the units of the transformed outputs"):
        log_likelihood_scorer(target, X, Y)
    assert 0 <= f1(target, X, Y) <= 1
    with pytest.warns(UndefinedMetricWarning, match="no pair is unknown"):
        assert np.isnan(make_edge_f1_scorer(ladder, KnownEdges(np.ones((8, 8), bool), ladder))(fitted, X, Y))
