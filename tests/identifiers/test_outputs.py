"""Outputs: predictions and scores, nodes that were not observed, and numbers that are none."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from identifier_cases import assert_same_state
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.metrics import r2_score

from sklearn_graphid.filters import HeatDiffusionFilter

# Outputs


def test_predict_is_the_filter_on_the_found_graph(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    identifier.fit(X, Y, ring_known)
    laplacian = np.diag(identifier.adjacency_.sum(1)) - identifier.adjacency_
    eigenvalues, vectors = np.linalg.eigh(laplacian)
    kernel = vectors @ np.diag(np.exp(-identifier.theta_[0] * eigenvalues)) @ vectors.T
    np.testing.assert_allclose(identifier.predict(X), X @ kernel, rtol=1e-9, atol=1e-9)
    assert identifier.predict(X[:1]).shape == (1, 6)
    assert identifier.score(X, Y) == pytest.approx(r2_score(Y, X @ kernel, multioutput="variance_weighted"), rel=1e-9)


@pytest.mark.parametrize("columns", [1, 6])
def test_predict_has_as_many_columns_as_the_outputs(identifier, columns, ring_known, ring_experiments):
    X, Y = ring_experiments
    identifier.set_params(observed_nodes="leading").fit(X, Y[:, :columns], ring_known)
    assert identifier.predict(X).shape == (20, columns)
    assert np.isfinite(identifier.score(X, Y[:, :columns]))


def test_one_dimensional_outputs_give_one_dimensional_predictions(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    flat = clone(identifier).set_params(observed_nodes=[2]).fit(X, Y[:, 2], ring_known)
    column = clone(identifier).set_params(observed_nodes=[2]).fit(X, Y[:, 2:3], ring_known)
    assert flat.predict(X).shape == (20,)
    np.testing.assert_array_equal(flat.predict(X), column.predict(X)[:, 0])
    assert_same_state(flat, column)


def test_lists_and_frames_are_arrays(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    reference = clone(quick).fit(X, Y, ring_known)
    names = list("abcdef")
    assert_same_state(clone(quick).fit(X.tolist(), Y.tolist(), ring_known), reference)
    framed = clone(quick).fit(pd.DataFrame(X, columns=names), pd.DataFrame(Y, columns=names), ring_known)
    assert_same_state(framed, reference)
    assert list(framed.feature_names_in_) == names


def test_to_networkx_names_nodes_as_the_columns(quick, ring, ring_known, ring_experiments):
    X, Y = ring_experiments
    names = ["Ash", "Birch", "Cedar", "Date", "Elm", "Fir"]
    graph = quick.fit(pd.DataFrame(X, columns=names), Y, ring_known).to_networkx()
    assert list(graph.nodes) == names
    np.testing.assert_array_equal(nx.to_numpy_array(graph, weight=None), ring)
    for one, other, facts in graph.edges(data=True):
        i, j = names.index(one), names.index(other)
        assert facts["known"] is bool(ring_known.mask[i, j])
        assert facts["probability"] == quick.edge_probabilities_[i, j]
        assert type(facts["probability"]) is float


def test_to_networkx_numbers_nodes_without_names(identifier, ring_known, ring_experiments):
    graph = identifier.fit(*ring_experiments, ring_known).to_networkx()
    assert list(graph.nodes) == list(range(6))
    np.testing.assert_array_equal(nx.to_numpy_array(graph, weight=None), identifier.adjacency_)


@pytest.mark.parametrize("method", ["predict", "score", "sample", "to_networkx"])
def test_nothing_works_before_fit(identifier, method, ring_experiments):
    arguments = {"predict": ring_experiments[:1], "score": ring_experiments}.get(method, ())
    with pytest.raises(NotFittedError):
        getattr(identifier, method)(*arguments)


def test_changing_the_filter_leaves_the_fit_alone(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    fitted = quick.set_params(filter=HeatDiffusionFilter()).fit(X, Y, ring_known)
    before = fitted.predict(X)
    np.testing.assert_array_equal(fitted.set_params(filter__laplacian="normalized").predict(X), before)
    np.testing.assert_array_equal(fitted.set_params(filter="polynomial").predict(X), before)


# Which nodes were observed


def test_leading_and_listed_nodes_agree_where_they_are_the_same(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    leading = clone(identifier).set_params(observed_nodes="leading").fit(X, Y[:, :4], ring_known)
    listed = clone(identifier).set_params(observed_nodes=[0, 1, 2, 3]).fit(X, Y[:, :4], ring_known)
    assert_same_state(leading, listed)


def test_listed_nodes_may_stand_in_any_order(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    nodes = np.array([4, 0, 3])
    one = clone(identifier).set_params(observed_nodes=nodes).fit(X, Y[:, nodes], ring_known)
    other = clone(identifier).set_params(observed_nodes=[0, 3, 4]).fit(X, Y[:, [0, 3, 4]], ring_known)
    assert_same_state(one, other)
    np.testing.assert_array_equal(one.predict(X), other.predict(X)[:, [2, 0, 1]])


def test_unobserved_nodes_are_missing_outputs(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    holes = np.full(Y.shape, np.nan)
    holes[:, [1, 2, 5]] = Y[:, [1, 2, 5]]
    listed = clone(identifier).set_params(observed_nodes=[1, 2, 5]).fit(X, Y[:, [1, 2, 5]], ring_known)
    assert_same_state(clone(identifier).fit(X, holes, ring_known), listed)


def test_auto_warns_where_it_guesses_and_only_there(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    with pytest.warns(UserWarning, match="Y has 4 columns for 6 nodes.*observed_nodes"):
        quick.fit(X, Y[:, :4], ring_known)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        quick.fit(X, Y, ring_known)
        quick.set_params(observed_nodes="leading").fit(X, Y[:, :4], ring_known)
        quick.set_params(observed_nodes="all").fit(X, Y, ring_known)


def test_warnings_point_to_the_caller(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    with pytest.warns(UserWarning, match="columns for 6 nodes") as caught:
        quick.fit(X, Y[:, :4], ring_known)
    assert caught[0].filename == __file__


def test_missing_outputs_are_left_out(identifier, ring, ring_known, ring_experiments):
    """A third of the outputs is missing; what they would have been does not matter, and the ring is found without."""
    X, Y = ring_experiments
    Y = Y.copy()
    Y[np.random.default_rng(0).random(Y.shape) < 1 / 3] = np.nan
    identifier.fit(X, Y, ring_known)
    assert np.isfinite(identifier.edge_probabilities_).all()
    assert np.isfinite(identifier.predict(X)).all()
    if identifier.get_params().get("n_sweeps", 1):  # short runs of Langevin dynamics alone leave some pairs open
        np.testing.assert_array_equal(identifier.adjacency_, ring)


def test_a_pair_without_outputs_changes_nothing_but_rounding(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    without = clone(quick).fit(X, Y, ring_known)
    blank = np.vstack([Y, np.full((1, 6), np.nan)])
    with_blank = clone(quick).fit(np.vstack([X, X[:1]]), blank, ring_known)
    np.testing.assert_allclose(with_blank.edge_probabilities_, without.edge_probabilities_, atol=1e-3)
    np.testing.assert_allclose(with_blank.theta_, without.theta_, atol=1e-3)


# Outputs that are not plain numbers


def test_masked_outputs_were_not_measured(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    hidden = np.random.default_rng(0).random(Y.shape) < 0.3
    masked = np.ma.masked_array(np.where(hidden, 1e3, Y), mask=hidden)
    by_mask, by_nan = (clone(quick).fit(X, y, ring_known) for y in (masked, np.where(hidden, np.nan, Y)))
    np.testing.assert_array_equal(by_mask.edge_probabilities_, by_nan.edge_probabilities_)
    assert by_mask.score(X, masked) == by_nan.score(X, np.where(hidden, np.nan, Y))
    with pytest.raises(ValueError, match="X contains NaN"):
        quick.fit(np.ma.masked_array(X, mask=hidden), Y, ring_known)


@pytest.mark.parametrize("dates", ["datetime64[s]", "timedelta64[s]"])
def test_dates_are_no_numbers(quick, dates, ring_known, ring_experiments):
    X, Y = ring_experiments
    odd = (100 * X).astype("int64").astype(dates)
    for wrong in (odd, pd.DataFrame(odd), pd.DataFrame(X).assign(when=pd.Timestamp("2024-01-01")), odd.tolist()):
        with pytest.raises((TypeError, ValueError), match=r"dates or durations|float\(\) argument|Unable to convert"):
            quick.fit(wrong, Y, ring_known)
        with pytest.raises((TypeError, ValueError), match=r"dates or durations|float\(\) argument|Unable to convert"):
            quick.fit(X, wrong, ring_known)
    fitted = quick.fit(X, Y, ring_known)
    with pytest.raises(TypeError, match="y holds dates or durations"):
        fitted.score(X, odd)
    with pytest.raises(TypeError, match="X holds dates or durations"):
        fitted.predict(odd)


@pytest.mark.parametrize("gap", [False, True])
def test_score_checks_its_arguments_with_gaps_and_without(quick, gap, ring_known, ring_experiments):
    X, Y = ring_experiments
    fitted = quick.fit(X, Y, ring_known)
    outputs = Y.copy()
    if gap:
        outputs[0, 0] = np.nan
    for arguments, message in (
        ((X, outputs[:5]), "inconsistent numbers of samples"),
        ((X, outputs[:, :3]), "y has 3 columns but the estimator predicts 6"),
        ((X, outputs, np.ones(3)), r"sample_weight\.shape == \(3,\)|inconsistent"),
        ((X, outputs, np.full(20, np.nan)), "NaN"),
        ((X[:, :3], outputs), "3 features"),
        ((X, np.where(outputs > 0, np.inf, outputs)), "y contains infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.score(*arguments)
    assert fitted.score(X, outputs, np.arange(20)) != fitted.score(X, outputs)


def test_score_passes_over_gaps(quick, ring_known, ring_experiments):
    """R2 by its formula on what was measured."""
    X, Y = ring_experiments
    quick.fit(X, Y, ring_known)
    gaps = np.where(np.random.default_rng(0).random(Y.shape) < 0.3, np.nan, Y)
    predicted = quick.predict(X)
    unexplained = np.nansum((gaps - predicted) ** 2, axis=0)
    total = np.nansum((gaps - np.nanmean(gaps, axis=0)) ** 2, axis=0)
    assert quick.score(X, gaps) == pytest.approx(1 - unexplained.sum() / total.sum())
    assert quick.score(X, gaps, sample_weight=np.ones(len(X))) == pytest.approx(quick.score(X, gaps))
    with pytest.raises(ValueError, match="y holds nothing but nan"):
        quick.score(X, np.full_like(Y, np.nan))
