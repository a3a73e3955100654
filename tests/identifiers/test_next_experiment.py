"""What identifiers say of the next experiment: against their own draws, filtered one by one, and in what form."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from identifier_cases import COMPETITORS, IDENTIFIERS
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_graphid import KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import HeatDiffusionFilter

# Short runs on little data leave chains that disagree, and draws that differ.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SHORT = {"n_chains": 4, "n_levels": 2, "n_steps": 2, "n_sweeps": 10, "random_state": 0}
NAMES = list("abcdef")


@pytest.fixture
def data():
    return make_system(nx.cycle_graph(6), "heat", theta=[0.5], n_experiments=1, random_state=0)


@pytest.fixture
def fitted(data):
    return LangevinSystemIdentifier("heat", noise_std=0.7, **SHORT).fit(*data)


def information(identifier, x, noise_std, outputs=slice(None)):
    """½ log det of the covariance of what all draws predict, written out; draws in any order."""
    assert np.ptp(identifier.diagnostics_["chain_weights"]) == 0  # so that `sample` gives every draw once
    draws = identifier.sample(identifier.theta_samples_.shape[0], random_state=0)
    matrices, thetas = draws[-1] if len(draws) == 3 else draws[0], draws[1]
    signal = torch.tensor(np.atleast_2d(x), dtype=torch.float64)
    arguments = torch.tensor(matrices, dtype=torch.float64), torch.tensor(thetas), signal
    predictions = HeatDiffusionFilter().apply(*arguments)[:, 0].numpy()[:, outputs]
    scaled = predictions / np.broadcast_to(noise_std, len(matrices[0]))[outputs]
    covariance = np.atleast_2d(np.cov(scaled.T, bias=True))
    return 0.5 * np.linalg.slogdet(np.eye(len(covariance)) + covariance)[1]


def test_gain_is_that_of_the_draws(fitted):
    X = np.random.default_rng(0).uniform(-5, 5, (3, 6))
    expected = [information(fitted, x, 0.7) for x in X]
    np.testing.assert_allclose(fitted.information_gain(X), expected, rtol=1e-6)
    assert fitted.information_gain(np.zeros((1, 6)))[0] == 0


def test_gain_counts_the_outputs_that_will_be_measured(fitted):
    x = np.arange(6.0)
    alone = fitted.information_gain([x], observed=[2, 4])[0]
    assert alone == pytest.approx(information(fitted, x, 0.7, [2, 4]), rel=1e-6)
    assert alone < fitted.information_gain([x])[0]


def test_gain_counts_the_noise_of_every_node(data):
    levels = np.array([0.6, 1.5, 1.0, 1.0, 0.7, 1.2])
    fitted = LangevinSystemIdentifier("heat", noise_std=levels, **SHORT).fit(*data)
    x = np.arange(6.0)
    assert fitted.information_gain([x])[0] == pytest.approx(information(fitted, x, levels), rel=1e-6)


def test_uncertain_noise_counts_by_its_mean_precision(data):
    fitted = LangevinSystemIdentifier("heat", **SHORT).fit(*data)
    level = np.mean(fitted.noise_std_samples_**-2) ** -0.5
    x = np.arange(6.0)
    assert fitted.information_gain([x])[0] == pytest.approx(information(fitted, x, level), rel=1e-6)


def test_strengths_count(data):
    known = KnownEdges.from_array(np.where(np.eye(6), 0, np.nan))
    fitted = LangevinSystemIdentifier("heat", edge_weights="positive", noise_std=1.0, **SHORT).fit(*data, known)
    x = np.arange(6.0)
    assert fitted.information_gain([x])[0] == pytest.approx(information(fitted, x, 1.0), rel=1e-6)
    assert fitted.suggest_inputs(random_state=0).shape == (1, 6)


def test_directions_count(data):
    fitted = LangevinSystemIdentifier("heat", directed=True, noise_std=1.0, **SHORT).fit(*data)
    x = np.arange(6.0)
    assert fitted.information_gain([x])[0] == pytest.approx(information(fitted, x, 1.0), rel=1e-6)
    table = fitted.suggest_pairs(30)
    assert len(table) == 30
    assert {("source", "target")} == {tuple(table.columns[:2])}


def test_nodes_that_were_never_measured_do_not_count(data):
    X, Y = data
    Y = Y.copy()
    Y[:, [1, 3]] = np.nan
    fitted = LangevinSystemIdentifier("heat", noise_std=1.0, **SHORT).fit(X, Y)
    x = np.arange(6.0)
    assert fitted.information_gain([x])[0] == pytest.approx(information(fitted, x, 1.0, [0, 2, 4, 5]), rel=1e-6)
    everywhere = fitted.information_gain([x], observed=range(6))[0]
    assert everywhere == pytest.approx(information(fitted, x, 1.0), rel=1e-6)
    few = LangevinSystemIdentifier("heat", noise_std=1.0, observed_nodes=[0, 5], **SHORT).fit(X, Y[:, [0, 5]])
    assert few.information_gain([x])[0] == pytest.approx(information(few, x, 1.0, [0, 5]), rel=1e-6)


def test_suggested_inputs_tell_more_than_random_ones(fitted):
    chosen = fitted.suggest_inputs(low=-3, high=3, random_state=0)
    random = np.random.default_rng(0).choice([-3.0, 3.0], (200, 6))
    assert fitted.information_gain(chosen)[0] >= fitted.information_gain(random).max() - 1e-9
    assert np.abs(chosen).max() <= 3
    np.testing.assert_array_equal(chosen, fitted.suggest_inputs(low=-3, high=3, random_state=0))


def test_one_driven_node_is_the_best_one(fitted):
    chosen = fitted.suggest_inputs(low=-3, high=3, max_nonzero=1)
    assert np.count_nonzero(chosen) == 1
    best = fitted.information_gain(3 * np.eye(6)).max()
    assert fitted.information_gain(chosen)[0] == pytest.approx(best)


def test_boxes_may_differ_by_node(fitted):
    low, high = np.array([-1, 0, 2, -3, 1, -1.0]), np.array([1, 0, 2, -2, 5, 4.0])
    chosen = fitted.suggest_inputs(3, low=low, high=high, random_state=0)
    assert ((chosen >= low) & (chosen <= high)).all()


def test_candidates_are_told_by_their_index(data):
    X, Y = (pd.DataFrame(values, columns=NAMES) for values in data)
    fitted = LangevinSystemIdentifier("heat", **SHORT).fit(X, Y)
    possible = pd.DataFrame(np.random.default_rng(0).normal(size=(5, 6)), columns=NAMES, index=list("vwxyz"))
    chosen = fitted.suggest_inputs(2, candidates=possible)
    pd.testing.assert_frame_equal(chosen, possible.loc[chosen.index])
    assert chosen.index[0] == possible.index[fitted.information_gain(possible).argmax()]


def test_names_of_columns_are_kept(data):
    X, Y = (pd.DataFrame(values, columns=NAMES) for values in data)
    fitted = LangevinSystemIdentifier("heat", noise_std=1.0, **SHORT).fit(X, Y)
    chosen = fitted.suggest_inputs(2, random_state=0)
    assert list(chosen.columns) == NAMES
    fitted.predict(chosen)  # without a warning about names
    by_name, by_number = (fitted.information_gain(X, observed=nodes)[0] for nodes in (["f", "a"], [5, 0]))
    assert by_name == pytest.approx(by_number)
    assert set(fitted.suggest_pairs(3)["source"]) <= set(NAMES)


def test_limits_and_inputs_go_by_the_names_of_nodes(data):
    """Columns of X in another order than those of what is passed later."""
    X, Y = (pd.DataFrame(values, columns=NAMES) for values in data)
    fitted = LangevinSystemIdentifier("heat", noise_std=1.0, **SHORT).fit(X[NAMES[::-1]], Y)
    chosen = fitted.suggest_inputs(low=0, high=pd.Series([9, 0, 0, 0, 0, 0], NAMES), random_state=0)
    assert chosen["a"].item() == 9
    assert not chosen.drop(columns="a").to_numpy().any()
    with pytest.raises(ValueError, match="high and the nodes do not name the same nodes"):
        fitted.suggest_inputs(low=0, high=pd.Series([9, 0, 0, 0, 0, 0], list("uvwxyz")))
    in_order, shuffled = X[NAMES[::-1]], X[["c", "a", "f", "b", "e", "d"]]
    np.testing.assert_array_equal(fitted.information_gain(shuffled), fitted.information_gain(in_order))
    by_name, by_order = (fitted.suggest_inputs(candidates=rows) for rows in (shuffled, in_order))
    pd.testing.assert_frame_equal(by_name, by_order)
    with pytest.raises(ValueError, match="candidates and X at fit do not name the same nodes: missing: 'a'"):
        fitted.suggest_inputs(candidates=X.rename(columns={"a": "z"}))


def test_integers_that_are_names_are_taken_for_names(data):
    numbers = [30, 5, 4, 3, 2, 0]
    X, Y = (pd.DataFrame(values, columns=numbers) for values in data)
    fitted = LangevinSystemIdentifier("heat", noise_std=1.0, **SHORT).fit(X, Y)
    plain = LangevinSystemIdentifier("heat", noise_std=1.0, **SHORT).fit(*data)
    np.testing.assert_allclose(
        fitted.information_gain(X, observed=[30, 3]), plain.information_gain(data[0], observed=[0, 3])
    )
    with pytest.raises(ValueError, match="observed holds 1; expected names of columns of X"):
        fitted.information_gain(X, observed=[1])


def test_pairs_are_ranked_by_what_they_settle(fitted):
    table = fitted.suggest_pairs(100)
    assert len(table) == 15
    assert (np.diff(table["information"]) <= 1e-12).all()
    np.testing.assert_allclose(table["information"], table["entropy"] + table["about_others"])
    share = fitted.edge_probabilities_[table["source"], table["target"]]
    np.testing.assert_array_equal(table["probability"], share)
    entropy = -sum(np.where(q > 0, q * np.log(np.where(q > 0, q, 1)), 0) for q in (share, 1 - share))
    np.testing.assert_allclose(table["entropy"], entropy, atol=1e-9)
    assert len(fitted.suggest_pairs(2)) == 2


def test_all_may_be_known(data):
    ring = nx.to_numpy_array(nx.cycle_graph(6))
    fitted = LangevinSystemIdentifier("heat", **SHORT).fit(*data, KnownEdges(np.ones((6, 6), dtype=bool), ring))
    assert len(fitted.suggest_pairs()) == 0
    assert fitted.suggest_inputs(random_state=0).shape == (1, 6)  # theta is still unknown
    assert fitted.information_gain(data[0])[0] > 0


@pytest.mark.parametrize("identifier", [IDENTIFIERS["adam"], *COMPETITORS.values()])
def test_only_identifiers_that_sample_have_suggestions(identifier):
    for method in ("suggest_inputs", "information_gain", "suggest_pairs"):
        assert not hasattr(identifier, method)
        assert hasattr(IDENTIFIERS["paper"], method)


def test_one_draw_says_nothing(data):
    fitted = clone(IDENTIFIERS["paper"]).fit(*data)
    with pytest.raises(ValueError, match=r"there is 1 draw of the system.* fit with a larger n_chains"):
        fitted.suggest_inputs()


def test_fit_comes_first():
    with pytest.raises(NotFittedError):
        LangevinSystemIdentifier("heat").suggest_inputs()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"n_inputs": 0}, ValueError, "n_inputs=0; expected an integer of at least 1"),
        ({"n_inputs": True}, TypeError, "n_inputs=True"),
        ({"low": 2}, ValueError, "low is 2 and high is 1 at node 0; expected low <= high"),
        ({"low": np.nan}, ValueError, "low=nan; expected a finite number"),
        ({"high": [1, 2]}, ValueError, r"high has shape \(2,\); expected \(6,\), one number for each"),
        ({"high": {"a": 1}}, TypeError, "high is a dict; expected a number, an array or a Series"),
        ({"high": "much"}, TypeError, "high='much'"),
        ({"max_nonzero": 0}, ValueError, "max_nonzero=0; expected an integer of at least 1"),
        ({"max_nonzero": 2, "low": 0.5}, ValueError, "max_nonzero=2 leaves nodes without input.* low <= 0 <= high"),
        ({"candidates": np.ones((2, 6)), "n_inputs": 3}, ValueError, "n_inputs=3 but candidates has 2 rows"),
        ({"candidates": np.ones((2, 5))}, ValueError, r"candidates has shape \(2, 5\); expected \(n_inputs, 6\)"),
        ({"candidates": [["a"] * 6]}, TypeError, "candidates"),
        ({"candidates": np.full((2, 6), np.nan)}, ValueError, "candidates holds the value nan; expected finite"),
        ({"observed": []}, ValueError, r"observed=\[\]; expected a list of nodes"),
        ({"observed": [0, 6]}, ValueError, "observed holds the nodes 0, 6, .* different integers from 0 to 5"),
        ({"observed": [1, 1]}, ValueError, "observed holds the nodes 1, 1, .* different integers"),
        ({"observed": ["a"]}, ValueError, "observed=.*the columns of X have no names"),
        ({"observed": "all"}, ValueError, "observed='all'; expected a list"),
    ],
)
def test_wrong_arguments_are_named(arguments, error, message, fitted):
    with pytest.raises(error, match=message):
        fitted.suggest_inputs(**arguments)


def test_wrong_inputs_and_numbers_are_named(fitted):
    with pytest.raises(ValueError, match=r"X has shape \(1, 5\); expected \(n_inputs, 6\)"):
        fitted.information_gain(np.ones((1, 5)))
    with pytest.raises(ValueError, match="n_pairs=0; expected an integer of at least 1"):
        fitted.suggest_pairs(0)


def test_units_of_the_data_do_not_matter(data):
    """The same draws in other units: inputs as large relative to the noise tell as much."""
    X, Y = data
    one, other = (LangevinSystemIdentifier("heat", noise_std=u, **SHORT).fit(u * X, u * Y) for u in (1.0, 1e-9))
    inputs = np.random.default_rng(0).uniform(-1, 1, (3, 6))
    np.testing.assert_allclose(other.information_gain(1e-9 * inputs), one.information_gain(inputs), rtol=1e-3)
    # Inputs of one, a thousand million times those so far, are the default box.
    far = other.suggest_inputs(2, random_state=0)
    assert (np.abs(far) <= 1).all()
    assert (other.information_gain(far) > other.information_gain(1e-9 * inputs).max()).all()


def test_exact_data_leave_a_next_experiment():
    """Without noise the noise level is at its floor, and draws that differ do so by a million times as much."""
    X, Y = make_system(nx.path_graph(3), "heat", theta=[0.5], n_experiments=1, noise_std=0.0, random_state=0)
    identifier = LangevinSystemIdentifier("heat", **SHORT).fit(X, Y)
    assert identifier.suggest_inputs(3, random_state=0).shape == (3, 3)
    assert np.isfinite(identifier.information_gain(np.eye(3))).all()
