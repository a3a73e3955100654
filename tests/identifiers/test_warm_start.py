"""A fit that goes on from the chains of the last one."""

from __future__ import annotations

import copy

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from identifier_cases import assert_same_state
from joblib import parallel_config
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_graphid import PAPER_SETTINGS, KnownEdges, LangevinSystemIdentifier, LikelihoodLangevinIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import HeatDiffusionFilter
from sklearn_graphid.identifiers._chains import ChainDraws, start_from

SHORT = {"n_chains": 4, "n_levels": 2, "n_steps": 2, "n_sweeps": 10, "random_state": 0, "warm_start": True}
RING = nx.to_numpy_array(nx.cycle_graph(8))


@pytest.fixture
def data():
    X, Y = make_system(RING, "heat", theta=[0.5], n_experiments=20, random_state=0)
    return X, Y, hide_edges(RING, 0.5, random_state=0)


def make_draws(graphs, weight):
    """Draws of graphs (chains, draws, pairs); theta counts chains, the noise level draws."""
    n_chains, n_draws, _ = graphs.shape
    theta = np.repeat(np.arange(n_chains)[:, None, None] * 1.0, n_draws, axis=1)
    noise = np.repeat(np.arange(n_draws)[None] * 1.0, n_chains, axis=0)
    zeros = np.zeros((n_chains, n_draws))
    return ChainDraws(
        graphs=graphs.astype(np.int8),
        theta=theta,
        noise_std=noise,
        density=zeros,
        trust=zeros,
        log_likelihood=zeros,
        log_prior=zeros,
        edge_probability=graphs.mean(1),
        offset=np.zeros((n_chains, 3)),
        outlier_probability=np.zeros((n_chains, 0, 3)),
        strengths=np.zeros((n_chains, n_draws, 0)),
        weight=np.asarray(weight),
        origin=np.arange(n_chains),
        trace_sigma=np.zeros(n_draws),
        trace_log_likelihood=zeros,
        trace_theta=theta,
        trace_kernel=np.zeros(n_draws, dtype=np.int64),
    )


def test_chains_start_from_the_last_draws():
    graphs = np.random.default_rng(0).integers(2, size=(3, 4, 6))
    nothing = KnownEdges.nothing(4)
    pairs, theta, noise = start_from(make_draws(graphs, [1 / 3] * 3), nothing, nothing, n_chains=3, has_strengths=False)
    np.testing.assert_array_equal(pairs, graphs[:, -1])
    np.testing.assert_array_equal(theta[:, 0], [0, 1, 2])
    np.testing.assert_array_equal(noise, [3, 3, 3])


def test_more_chains_take_earlier_draws_and_weights_count():
    graphs = np.random.default_rng(0).integers(2, size=(2, 4, 6))
    nothing = KnownEdges.nothing(4)
    _, theta, noise = start_from(make_draws(graphs, [0.75, 0.25]), nothing, nothing, n_chains=4, has_strengths=False)
    np.testing.assert_array_equal(theta[:, 0], [0, 0, 0, 1])
    np.testing.assert_array_equal(noise, [3, 2, 1, 3])


def test_what_is_known_now_takes_the_place_of_what_was_drawn():
    nothing, graphs = KnownEdges.nothing(3), np.ones((1, 1, 3))
    partial = np.array([[0, 0, np.nan], [0, 0, np.nan], [np.nan, np.nan, 0]])
    now = KnownEdges.from_array(partial)
    pairs, *_ = start_from(make_draws(graphs, [1.0]), nothing, now, n_chains=1, has_strengths=False)
    np.testing.assert_array_equal(pairs, [[1, 1]])  # pairs (0, 2) and (1, 2); (0, 1) is known to be none
    back, *_ = start_from(make_draws(np.ones((1, 1, 2)), [1.0]), now, nothing, n_chains=1, has_strengths=False)
    np.testing.assert_array_equal(back, [[0, 1, 1]])


def test_one_more_experiment_takes_fewer_steps_and_finds_the_graph(data):
    X, Y, known = data
    identifier = LangevinSystemIdentifier("heat", **SHORT).fit(X[:-1], Y[:-1], known)
    n_cold = len(identifier.diagnostics_["sigma"])
    identifier.fit(X, Y, known)
    assert len(identifier.diagnostics_["sigma"]) <= 0.4 * n_cold
    np.testing.assert_array_equal(identifier.adjacency_, RING)
    assert identifier.theta_[0] == pytest.approx(0.5, abs=0.05)


def test_the_report_tells_where_the_chains_come_from(data, tmp_path):
    identifier, path = LangevinSystemIdentifier("heat", **SHORT), tmp_path / "report.html"
    for words in ("each from its own random start", "continued from those of the previous fit"):
        assert words in identifier.fit(*data).report(path).read_text(encoding="utf-8")


def test_known_pairs_may_change(data):
    X, Y, known = data
    identifier = LangevinSystemIdentifier("heat", **SHORT).fit(X, Y)
    for now in (known, KnownEdges.nothing(8), known):
        identifier.fit(X, Y, now)
        np.testing.assert_array_equal(identifier.adjacency_, RING)
        assert identifier.known_edges_.n_unknown == now.n_unknown


@pytest.mark.parametrize("lost", ["experiments", "outputs", "known pairs"])
def test_with_less_evidence_it_starts_at_random(lost, data):
    """Chains that go on from a narrow posterior would take long to fill a wide one."""
    X, Y, known = data
    less = {
        "experiments": (X[:2], Y[:2], known),
        "outputs": (X, np.where(np.arange(20)[:, None] < 3, Y, np.nan), known),
        "known pairs": (X, Y, None),
    }[lost]
    identifier = LangevinSystemIdentifier("heat", **SHORT).fit(X, Y, known).fit(*less)
    assert_same_state(identifier, clone(identifier).fit(*less))


def test_the_same_exact_posterior_is_found(data):
    """Two pairs unknown, weak inputs: probabilities of warm and cold fits with many chains agree."""
    mask = np.ones((8, 8), dtype=bool)
    for i, j in ((0, 1), (0, 3)):
        mask[i, j] = mask[j, i] = False
    known = KnownEdges(mask, RING)
    X, Y = make_system(RING, "heat", theta=[0.5], n_experiments=3, input_scale=1.0, random_state=0)
    many = {**SHORT, "n_chains": 48, "n_levels": 1, "n_steps": 1}
    warm = LangevinSystemIdentifier("heat", noise_std=1.0, **many).fit(X[:1], Y[:1], known).fit(X, Y, known)
    cold = LangevinSystemIdentifier("heat", noise_std=1.0, **{**many, "random_state": 1}).fit(X, Y, known)
    errors = [fit.diagnostics_["monte_carlo_error_edges"] for fit in (warm, cold)]
    tolerance = 4 * np.hypot(*errors)  # two pairs at four standard errors: one alarm in 8,000
    assert 0 < tolerance.max() < 0.5
    assert (np.abs(warm.edge_probabilities_ - cold.edge_probabilities_) <= tolerance).all()


def test_any_number_of_chains_and_workers(data):
    X, Y, known = data
    first = LangevinSystemIdentifier("heat", **SHORT).fit(X[:3], Y[:3], known)
    fits = [copy.deepcopy(first).set_params(n_chains=20, n_jobs=n_jobs) for n_jobs in (1, 2)]
    with parallel_config(backend="threading"):
        one, two = (fit.fit(X, Y, known) for fit in fits)
    assert one.diagnostics_["log_likelihood"].shape[0] + one.diagnostics_["n_stuck"] == 20
    assert_same_state(one, two)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("options", [{"edge_weights": "positive"}, {"directed": True}, {"noise_std": "per-node"}])
def test_it_goes_with_all_kinds_of_systems(options, data):
    X, Y, _ = data
    known = hide_edges(RING, 0.3, directed=options.get("directed", False), random_state=0)
    identifier = LangevinSystemIdentifier("heat", **SHORT, **options).fit(X[:-1], Y[:-1], known)
    n_cold = len(identifier.diagnostics_["sigma"])
    identifier.fit(X, Y, known)
    assert len(identifier.diagnostics_["sigma"]) < n_cold
    np.testing.assert_array_equal(identifier.adjacency_, RING)


def test_a_known_edge_without_strength_may_come(data):
    X, Y, known = data
    identifier = LikelihoodLangevinIdentifier("heat", edge_weights="positive", **SHORT)
    identifier.fit(X, Y, hide_edges(RING, 0.2, random_state=1))
    identifier.fit(X, Y, known)
    np.testing.assert_array_equal(identifier.adjacency_, RING)


def test_a_clone_and_a_first_fit_start_at_random(data):
    X, Y, known = data
    identifier = LangevinSystemIdentifier("heat", **SHORT).fit(X, Y, known)
    cold = LangevinSystemIdentifier("heat", **{**SHORT, "warm_start": False}).fit(X, Y, known)
    assert_same_state(identifier, cold)
    assert_same_state(clone(identifier.fit(X, Y, known)).fit(X, Y, known), cold)
    assert_same_state(identifier.set_params(warm_start=False).fit(X, Y, known), cold)


def test_searches_are_not_led_astray(data):
    X, Y, known = data
    searches = [
        GridSearchCV(LangevinSystemIdentifier("heat", **{**SHORT, "warm_start": warm}), {"n_sweeps": [4, 6]}, cv=2)
        for warm in (True, False)
    ]
    warm, cold = (search.fit(X, Y, known_mask=known) for search in searches)
    np.testing.assert_array_equal(warm.cv_results_["mean_test_score"], cold.cv_results_["mean_test_score"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"edge_weights": "positive"}, "edge_weights is now 'positive' and the last fit had 'binary'"),
        ({"directed": True}, "directed is now True and the last fit had False"),
        ({"filter": "polynomial"}, r"filter is now PolynomialFilter\(.*the last fit had HeatDiffusionFilter\("),
        ({"filter": HeatDiffusionFilter(theta_max=3.0)}, "filter is now .*theta_max=3.0.* the last fit had"),
        ({"n_sweeps": 0}, "warm_start=True with n_sweeps=0; expected at least 1"),
    ],
)
def test_another_system_is_refused_by_name(changes, message, data):
    X, Y, _ = data
    identifier = LangevinSystemIdentifier("heat", **SHORT).fit(X, Y)
    before = clone(identifier).fit(X, Y)
    with pytest.raises(ValueError, match=message):
        identifier.set_params(**changes).fit(X, Y)
    assert_same_state(identifier, before)


def test_other_nodes_are_refused_by_name(data):
    X, Y, _ = data
    identifier = LangevinSystemIdentifier("heat", **SHORT).fit(X, Y)
    with pytest.raises(ValueError, match=r"nodes is now 7 and the last fit had 8; .*warm_start=False"):
        identifier.fit(X[:, :7], Y[:, :7])
    names = list("abcdefgh")
    with pytest.raises(ValueError, match=r"nodes is now 8 \('a', 'b', 'c', ...\) and the last fit had 8"):
        identifier.fit(pd.DataFrame(X, columns=names), pd.DataFrame(Y, columns=names))


def test_another_order_of_columns_is_refused(data):
    X, Y = (pd.DataFrame(values, columns=list("abcdefgh")) for values in data[:2])
    identifier = LangevinSystemIdentifier("heat", **SHORT).fit(X, Y)
    with pytest.raises(ValueError, match="the columns of X are in another order than in the last fit"):
        identifier.fit(X[list("hgfedcba")], Y)


def test_annealing_alone_has_nothing_to_go_on_from(data):
    with pytest.raises(ValueError, match="warm_start=True with n_sweeps=0"):
        LangevinSystemIdentifier("heat", warm_start=True, **PAPER_SETTINGS).fit(*data)
