"""Strengths of edges from end to end: against true strengths, what is told and what goes out, and what is refused."""

from __future__ import annotations

import pickle
import re
import warnings
from dataclasses import replace

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.callback import ScoringMonitor
from sklearn.model_selection import GridSearchCV

from sklearn_graphid import (
    AdamSystemIdentifier,
    ConstrainedLeastSquaresIdentifier,
    ErdosRenyiPrior,
    KnownEdges,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    RidgeSystemIdentifier,
    SmoothSignalIdentifier,
)
from sklearn_graphid.datasets import hide_edges
from sklearn_graphid.filters import ARMAFilter, CallableFilter, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.identifiers import GraphicalLassoIdentifier, RobustFilterIdentifier, _chains
from sklearn_graphid.identifiers._estimates import summarize_weights, weight_intervals

N_NODES = 8
GRAPH = nx.to_numpy_array(nx.connected_watts_strogatz_graph(N_NODES, 4, 0.3, seed=0))
KNOWN = hide_edges(GRAPH, 0.4, random_state=0)
FIRST_ORDER = PolynomialFilter(1)
NAMES = list("abcdefgh")
QUICK = {"n_chains": 4, "n_sweeps": 8, "random_state": 0}


def strengths_of(graph, signed=False, seed=0):
    rng = np.random.default_rng(seed)
    sizes = np.triu(rng.lognormal(0, 0.5, graph.shape), 1)
    if signed:
        sizes = sizes * rng.choice([-1.0, 1.0], graph.shape)
    return graph * (sizes + sizes.T)


POSITIVE, SIGNED = strengths_of(GRAPH), strengths_of(GRAPH, signed=True)


def simulate(weights, filter=FIRST_ORDER, noise_std=0.02, n_experiments=20, seed=1):
    """Outputs in numpy alone: (0.4 I + 0.3 W) x, or the potentials L^+ x."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n_experiments, len(weights)))
    operator = 0.4 * np.eye(len(weights)) + 0.3 * weights
    if isinstance(filter, SteadyStateFilter):
        operator = np.linalg.pinv(np.diag(weights.sum(1)) - weights)
    return X, X @ operator.T + noise_std * rng.normal(size=X.shape)


def with_weights(known, weights, told):
    """What is known, with the strengths of the known edges where `told`."""
    return KnownEdges(known.mask, known.values, known.names, np.where(told, weights, np.nan), known.directed)


def some_of(known):
    """Every other known edge."""
    told = np.zeros(known.mask.shape, dtype=bool)
    for i, j in np.argwhere(np.triu(known.values))[::2]:
        told[i, j] = told[j, i] = True
    return told


@pytest.fixture(scope="module")
def fitted():
    X, Y = simulate(POSITIVE)
    X, Y = pd.DataFrame(X, columns=NAMES), pd.DataFrame(Y, columns=NAMES)
    known = KnownEdges(KNOWN.mask, KNOWN.values, tuple(NAMES))
    return LangevinSystemIdentifier(FIRST_ORDER, edge_weights="positive", **QUICK).fit(X, Y, known)


# What is found

CASES = {
    "polynomial": (FIRST_ORDER, "positive", POSITIVE, 0.02),
    "steady-state": (SteadyStateFilter(), "positive", POSITIVE, 0.005),
    "signed": (FIRST_ORDER, "signed", SIGNED, 0.02),
}


@pytest.mark.parametrize("name", CASES)
def test_strengths_are_found_within_their_intervals(name):
    filter, edge_weights, weights, noise_std = CASES[name]
    X, Y = simulate(weights, filter, noise_std)
    # A known strength fixes the unit; without any, strengths are known up to a factor.
    known = with_weights(KNOWN, weights, some_of(KNOWN))
    identifier = LangevinSystemIdentifier(filter, edge_weights=edge_weights, random_state=0)
    identifier.fit(X, Y, known)
    np.testing.assert_array_equal(identifier.adjacency_, GRAPH)
    np.testing.assert_array_equal(identifier.weights_ != 0, GRAPH == 1)
    is_asked = (np.triu(GRAPH) == 1) & ~some_of(KNOWN)
    error = (identifier.weights_ - weights)[is_asked]
    spread = identifier.weights_std_[is_asked]
    assert spread.min() > 0
    assert spread.max() < 0.2  # the data do determine them
    # A dozen strengths: four standard deviations alarm once in a thousand systems, and this is one of them.
    assert np.abs(error / spread).max() < 4
    low, high = np.moveaxis(identifier.weight_interval(0.99), -1, 0)
    is_inside = ((low <= weights) & (weights <= high))[is_asked]
    assert is_inside.mean() > 0.8
    assert identifier.score(X, Y) > 0.995


def test_without_known_strengths_theta_carries_the_scale():
    X, Y = simulate(POSITIVE, SteadyStateFilter(), 0.002)
    identifier = LangevinSystemIdentifier(SteadyStateFilter(), edge_weights="positive", **QUICK).fit(X, Y, KNOWN)
    found = identifier.weights_ / identifier.theta_[0]
    np.testing.assert_allclose(found[GRAPH == 1], POSITIVE[GRAPH == 1], rtol=0.1)
    logarithms = np.log(identifier.weights_[GRAPH == 1])
    assert abs(logarithms.mean()) < 0.05  # the unit is the geometric mean
    assert identifier.score(X, Y) > 0.999


def test_nothing_needs_to_be_known():
    X, Y = simulate(POSITIVE)
    identifier = LangevinSystemIdentifier(FIRST_ORDER, edge_weights="positive", **QUICK).fit(X, Y)
    np.testing.assert_array_equal(identifier.adjacency_, GRAPH)
    products = identifier.theta_[1] * identifier.weights_
    np.testing.assert_allclose(products[GRAPH == 1], 0.3 * POSITIVE[GRAPH == 1], atol=0.05)


def test_strengths_alone_may_be_unknown():
    """The graph is known whole: this is a regression, and its answer is that of least squares."""
    everything = KnownEdges(np.ones_like(GRAPH, dtype=bool), GRAPH)
    told = some_of(everything)
    X, Y = simulate(POSITIVE)
    identifier = LangevinSystemIdentifier(FIRST_ORDER, edge_weights="positive", n_chains=8, n_sweeps=10, random_state=0)
    identifier.fit(X, Y, with_weights(everything, POSITIVE, told))
    np.testing.assert_array_equal(identifier.adjacency_, GRAPH)
    np.testing.assert_array_equal(identifier.weights_[told], POSITIVE[told])
    least_squares = ConstrainedLeastSquaresIdentifier(FIRST_ORDER).fit(X, Y, everything)
    np.testing.assert_allclose(
        identifier.theta_[1] * identifier.weights_, least_squares.theta_[1] * least_squares.weights_, atol=0.02
    )


# What is told


def test_known_strengths_are_kept_to_the_digit_and_others_found():
    told = some_of(KNOWN)
    X, Y = simulate(POSITIVE)
    known = with_weights(KNOWN, POSITIVE, told)
    identifier = LangevinSystemIdentifier(FIRST_ORDER, edge_weights="positive", **QUICK).fit(X, Y, known)
    np.testing.assert_array_equal(identifier.weights_[told], POSITIVE[told])
    assert not identifier.weights_std_[told].any()
    np.testing.assert_array_equal(identifier.weight_interval()[told], np.repeat(POSITIVE[told][:, None], 2, axis=1))
    without = (KNOWN.values == 1) & ~told
    assert without.any()
    assert (identifier.weights_std_[without] > 0).all()
    np.testing.assert_allclose(identifier.weights_[without], POSITIVE[without], atol=0.3)
    for strengths in identifier.sample(5, random_state=0)[2]:
        np.testing.assert_array_equal(strengths[told], POSITIVE[told])


def test_strengths_go_by_the_names_of_the_nodes():
    told = some_of(KNOWN)
    X, Y = simulate(POSITIVE)
    order = np.random.default_rng(0).permutation(N_NODES)
    places = np.ix_(order, order)
    shuffled = KnownEdges(
        KNOWN.mask[places],
        KNOWN.values[places],
        tuple(NAMES[node] for node in order),
        np.where(told, POSITIVE, np.nan)[places],
    )
    in_order = KnownEdges(KNOWN.mask, KNOWN.values, tuple(NAMES), np.where(told, POSITIVE, np.nan))
    frame = pd.DataFrame(X, columns=NAMES)
    outputs = pd.DataFrame(Y, columns=NAMES)[[NAMES[node] for node in order]]
    identifier = LangevinSystemIdentifier(FIRST_ORDER, edge_weights="positive", **QUICK)
    tables = [clone(identifier).fit(frame, outputs, known).to_pandas_edgelist(True) for known in (in_order, shuffled)]
    pd.testing.assert_frame_equal(*tables)
    by_name = {frozenset(pair): weight for *pair, weight in tables[0][["source", "target", "weight"]].to_numpy()}
    for i, j in np.argwhere(np.triu(told)):
        assert by_name[frozenset((NAMES[i], NAMES[j]))] == POSITIVE[i, j]


def test_outputs_may_be_missing():
    X, Y = simulate(POSITIVE, n_experiments=40)
    Y[np.random.default_rng(0).random(Y.shape) < 0.2] = np.nan
    identifier = LangevinSystemIdentifier(FIRST_ORDER, edge_weights="positive", **QUICK).fit(X, Y, KNOWN)
    np.testing.assert_array_equal(identifier.adjacency_, GRAPH)
    np.testing.assert_allclose(
        identifier.theta_[1] * identifier.weights_[GRAPH == 1], 0.3 * POSITIVE[GRAPH == 1], atol=0.05
    )


def test_outputs_may_be_measured_at_some_nodes():
    X, Y = simulate(POSITIVE, n_experiments=40)
    observed = [0, 2, 3, 5, 6, 7]
    identifier = LangevinSystemIdentifier(FIRST_ORDER, edge_weights="positive", observed_nodes=observed, **QUICK).fit(
        X, Y[:, observed], KNOWN
    )
    assert identifier.predict(X).shape == (40, 6)
    assert identifier.score(X, Y[:, observed]) > 0.99
    is_seen = np.zeros(N_NODES, dtype=bool)
    is_seen[observed] = True
    seen_edges = (GRAPH == 1) & (is_seen[:, None] | is_seen)
    np.testing.assert_array_equal(identifier.adjacency_[seen_edges], 1)


def test_a_directed_graph_may_have_strengths():
    graph = nx.to_numpy_array(nx.gnp_random_graph(N_NODES, 0.3, seed=3, directed=True)).T
    weights = graph * np.random.default_rng(0).lognormal(0, 0.5, graph.shape)
    known = hide_edges(graph, 0.4, directed=True, random_state=0)
    X, Y = simulate(weights)
    identifier = LangevinSystemIdentifier(FIRST_ORDER, edge_weights="positive", directed=True, **QUICK).fit(X, Y, known)
    np.testing.assert_array_equal(identifier.adjacency_, graph)
    np.testing.assert_allclose(
        identifier.theta_[1] * identifier.weights_[graph == 1], 0.3 * weights[graph == 1], atol=0.05
    )
    edge = identifier.to_networkx().edges(data="weight")
    for source, target, weight in edge:
        assert weight == identifier.weights_[target, source]
    pytest.importorskip("arviz")
    data = identifier.to_arviz().posterior
    rows, columns = known.unknown_pairs()
    assert data["free pair"].values[: len(rows)].tolist() == data["pair"].values.tolist()
    assert data["pair"].values[0] == f"{columns[0]} -> {rows[0]}"


# How it is fitted


def test_without_a_prior():
    X, Y = simulate(POSITIVE)
    identifier = LikelihoodLangevinIdentifier(FIRST_ORDER, edge_weights="positive", **QUICK).fit(X, Y, KNOWN)
    np.testing.assert_array_equal(identifier.adjacency_, GRAPH)
    np.testing.assert_array_equal(identifier.weights_ != 0, GRAPH == 1)


@pytest.mark.parametrize("point_estimate", ["sample", "best"])
def test_point_estimates_are_draws(point_estimate):
    X, Y = simulate(POSITIVE)
    identifier = LangevinSystemIdentifier(
        FIRST_ORDER, edge_weights="positive", point_estimate=point_estimate, **QUICK
    ).fit(X, Y, KNOWN)
    draws = identifier.sample(len(identifier.theta_samples_), random_state=0)[2]
    assert (draws == identifier.weights_).all(axis=(1, 2)).any()
    np.testing.assert_array_equal(identifier.weights_ != 0, identifier.adjacency_ == 1)
    assert identifier.score(X, Y) > 0.99


@pytest.mark.slow
def test_workers_do_not_change_a_bit():
    X, Y = simulate(POSITIVE)
    settings = {"edge_weights": "positive", "n_chains": 16, "n_sweeps": 4, "random_state": 0}
    one, two = (LangevinSystemIdentifier(FIRST_ORDER, n_jobs=n, **settings).fit(X, Y, KNOWN) for n in (1, 2))
    for name in ("weights_", "weights_std_", "theta_", "edge_probabilities_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))


def test_callbacks_score_the_strengths_of_every_sweep():
    X, Y = simulate(POSITIVE)
    monitor = ScoringMonitor(scoring="r2")
    identifier = LangevinSystemIdentifier(FIRST_ORDER, edge_weights="positive", **QUICK)
    identifier.set_callbacks(monitor).fit(X, Y, KNOWN)
    log = monitor.get_logs().data_as_pandas
    scores = log.loc[log["task_name"] == "sweep", "r2"]
    assert len(scores) == QUICK["n_sweeps"]
    assert scores.iloc[-1] > 0.98  # a graph of equal strengths has 0.9 at most


@pytest.mark.filterwarnings("ignore:the noise takes up:UserWarning")  # where all edges are taken to be alike
def test_search_finds_that_strengths_are_needed():
    X, Y = simulate(POSITIVE)
    search = GridSearchCV(
        LangevinSystemIdentifier(FIRST_ORDER, n_chains=2, n_sweeps=4, random_state=0),
        {"edge_weights": ["binary", "positive"]},
        cv=2,
    )
    search.fit(X, Y, known_mask=KNOWN)
    assert search.best_params_ == {"edge_weights": "positive"}


def test_copies_and_pickles(fitted):
    restored = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(restored.weight_interval(), fitted.weight_interval())
    for one, other in zip(restored.sample(3, random_state=0), fitted.sample(3, random_state=0), strict=True):
        np.testing.assert_array_equal(one, other)
    assert clone(fitted).edge_weights == "positive"
    assert not hasattr(clone(fitted), "weights_")


# What goes out


def test_sample_has_the_strengths_that_go_with_the_graphs(fitted):
    adjacencies, thetas, weights = fitted.sample(6, random_state=0)
    assert (adjacencies.shape, thetas.shape, weights.shape) == ((6, 8, 8), (6, 2), (6, 8, 8))
    np.testing.assert_array_equal(weights != 0, adjacencies == 1)
    np.testing.assert_array_equal(weights, np.swapaxes(weights, 1, 2))


def test_tables_and_graphs_have_strengths(fitted):
    table = fitted.to_pandas_edgelist(include_known=True)
    assert list(table)[-2:] == ["weight", "weight_std"]
    assert len(table) == 28
    graph = fitted.to_networkx()
    for _, row in table.iterrows():
        i, j = NAMES.index(row.source), NAMES.index(row.target)
        assert (row.weight, row.weight_std) == (fitted.weights_[i, j], fitted.weights_std_[i, j])
        assert graph.has_edge(row.source, row.target) == (row.weight != 0)
        if row.weight:
            assert graph.edges[row.source, row.target]["weight"] == row.weight
    np.testing.assert_array_equal(nx.to_numpy_array(graph, nodelist=NAMES), fitted.weights_)


def test_arviz_has_strengths_by_pair(fitted):
    pytest.importorskip("arviz")
    weights = fitted.to_arviz().posterior["weights"]
    n_free = KNOWN.n_unknown + int(np.triu(KNOWN.values).sum())
    assert weights.dims == ("chain", "draw", "free pair")
    assert weights.sizes["free pair"] == n_free
    i, j = np.argwhere(np.triu(KNOWN.values))[0]
    drawn = weights.sel({"free pair": f"{NAMES[i]} - {NAMES[j]}"})
    assert float(drawn.mean()) == pytest.approx(fitted.weights_[i, j], rel=1e-5)


def test_intervals_widen_with_their_level(fitted):
    narrow, wide = fitted.weight_interval(0.5), fitted.weight_interval(0.95)
    assert narrow.shape == (8, 8, 2)
    is_edge = fitted.adjacency_ == 1
    assert (np.diff(wide)[is_edge] > np.diff(narrow)[is_edge]).all()
    assert not wide[~is_edge].any()
    with pytest.raises(ValueError, match="level"):
        fitted.weight_interval(1.5)


def test_least_squares_gives_its_strengths_as_the_only_draw():
    X, Y = simulate(POSITIVE, SteadyStateFilter(), 0.002)
    identifier = ConstrainedLeastSquaresIdentifier().fit(X, Y, KNOWN)
    adjacencies, _, weights = identifier.sample(2)
    np.testing.assert_array_equal(weights, [identifier.weights_] * 2)
    np.testing.assert_array_equal(weights != 0, adjacencies == 1)


# What is refused


def test_edges_without_strengths_have_no_intervals():
    X, Y = simulate(GRAPH)
    identifier = LangevinSystemIdentifier(FIRST_ORDER, **QUICK).fit(X, Y, KNOWN)
    assert not hasattr(identifier, "weights_")
    assert len(identifier.sample(1, random_state=0)) == 2
    with pytest.raises(AttributeError, match="edge_weights='positive' or 'signed'"):
        identifier.weight_interval()


def test_a_fit_without_strengths_forgets_those_of_the_last():
    X, Y = simulate(GRAPH)
    identifier = LangevinSystemIdentifier(FIRST_ORDER, edge_weights="positive", n_chains=2, n_sweeps=2, random_state=0)
    identifier.fit(X, Y, KNOWN).set_params(edge_weights="binary").fit(X, Y, KNOWN)
    assert not hasattr(identifier, "weights_")
    assert not hasattr(identifier, "weights_std_")
    assert list(identifier.to_pandas_edgelist())[-1] == "known"


@pytest.mark.parametrize("kind", [LangevinSystemIdentifier, AdamSystemIdentifier])
@pytest.mark.parametrize(
    ("settings", "known", "message"),
    [
        ({}, with_weights(KNOWN, -POSITIVE, GRAPH == 1), "a known edge has the strength -.*edge_weights='signed'"),
        (
            {"edge_weights": "binary"},
            with_weights(KNOWN, POSITIVE, GRAPH == 1),
            "SystemIdentifier would not use them; expected .* edge_weights='positive'",
        ),
        (
            {"edge_weights": "signed", "filter": "steady-state"},
            KNOWN,
            "'signed' is inconsistent with SteadyStateFilter",
        ),
        ({"edge_weights": "any"}, KNOWN, "edge_weights"),
    ],
)
def test_strengths_that_do_not_go_with_the_rest(kind, settings, known, message):
    identifier = kind(**{"filter": FIRST_ORDER, "edge_weights": "positive", **settings})
    X, Y = simulate(POSITIVE)
    with pytest.raises(ValueError, match=message):
        identifier.fit(X, Y, known)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_sweeps": 0}, "n_sweeps=0 with edge_weights='positive'; expected at least 1"),
        ({"temperature": 0.5}, "temperature=0.5 with edge_weights='positive'; expected 1"),
    ],
)
def test_settings_of_the_sampler_that_do_not_go_with_strengths(settings, message):
    identifier = LangevinSystemIdentifier(FIRST_ORDER, edge_weights="positive", **settings)
    X, Y = simulate(POSITIVE)
    with pytest.raises(ValueError, match=message):
        identifier.fit(X, Y, KNOWN)


def test_strengths_need_edges():
    with pytest.raises(ValueError, match="weights"):
        KnownEdges(KNOWN.mask, KNOWN.values, weights=np.where(KNOWN.mask & (GRAPH == 0), 1.0, np.nan))


@pytest.mark.parametrize(
    "identifier",
    [
        AdamSystemIdentifier(FIRST_ORDER, max_iter=20, random_state=0),
        ConstrainedLeastSquaresIdentifier(FIRST_ORDER),
        RidgeSystemIdentifier(FIRST_ORDER),
        RobustFilterIdentifier(FIRST_ORDER),
        GraphicalLassoIdentifier(),
        SmoothSignalIdentifier(),
        LikelihoodLangevinIdentifier("heat", **QUICK),
    ],
    ids=lambda identifier: type(identifier).__name__,
)
def test_known_strengths_that_would_not_be_used_are_refused(identifier):
    X, Y = simulate(POSITIVE)
    known = with_weights(KNOWN, POSITIVE, GRAPH == 1)
    with pytest.raises(ValueError, match=r"known edges come with strengths, but .*edge_weights='positive'"):
        identifier.fit(X, Y, known)
    # The way out that the message names; that the model is then wrong is another matter.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        identifier.fit(X, Y, KnownEdges(known.mask, known.values, known.names, directed=known.directed))


# Small, empty and strange


def first_plus_edges(adjacency, theta):
    """A filter of the user's that reads the first matrix of its batch."""
    scale = 1.0 + 0.0 * adjacency[0, 0, 0]
    return scale * torch.eye(adjacency.shape[-1]) + theta[:, :, None] * adjacency


FILTERS = {
    "arma": ARMAFilter(1, 0),
    "polynomial": FIRST_ORDER,
    "callable": CallableFilter(first_plus_edges, batched=True),
}


@pytest.mark.parametrize(
    ("edge_weights", "filter", "directed"),
    [
        ("positive", "heat", False),
        *((kind, filter, kind == "signed") for kind in ("positive", "signed") for filter in FILTERS),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # one experiment decides nothing
def test_graphs_without_edges_are_no_trouble(filter, edge_weights, directed):
    """Outputs that are inputs: chains lose all their edges, and what is fitted for no edge is asked for nothing."""
    filter = FILTERS.get(filter, filter)
    for seed in range(2):
        X = np.random.default_rng(seed).normal(size=(2, 3))
        settings = {"n_chains": 2, "n_sweeps": 2, "random_state": seed}
        identifier = LangevinSystemIdentifier(filter, edge_weights=edge_weights, directed=directed, **settings)
        identifier.fit(X, X)
        np.testing.assert_array_equal(identifier.weights_ != 0, identifier.adjacency_ == 1)


@pytest.mark.parametrize("gain", [3.0, -1.0])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_data_that_are_not_heat_are_fitted_badly_with_a_warning(gain):
    """Heat neither grows nor changes its sign, so that the best time is none at all, or all of it."""
    X = np.random.default_rng(0).normal(size=(15, 5))
    identifier = LangevinSystemIdentifier("heat", edge_weights="positive", **QUICK)
    with pytest.warns(UserWarning, match="times what ridge regression leaves"):
        identifier.fit(X, gain * X)
    assert np.isfinite(identifier.predict(X)).all()


def test_every_edge_has_a_weight_and_those_of_one_draw_no_interval():
    """Three pairs: one in two draws, one in a single one, one in none; probabilities are means over more graphs."""
    known = KnownEdges(np.eye(3, dtype=bool), np.zeros((3, 3)))
    strengths = np.array([[2.0, 3.0, 0.0], [4.0, 0.0, 0.0]])
    complete = 1 - np.eye(3, dtype=int)
    weights = summarize_weights(strengths, known, complete)[0]
    np.testing.assert_allclose(weights[np.triu_indices(3, 1)], [3.0, 3.0, np.median([2.0, 3.0, 4.0])])
    ends = weight_intervals(strengths, known, complete, 0.5)
    np.testing.assert_allclose(ends[0, 1], np.quantile([2.0, 4.0], [0.25, 0.75]))
    assert np.isnan(ends[[0, 1], [2, 2]]).all()


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_large_graphs_begin_sparse_and_stay_within_their_tables():
    """Beyond the size of a fit of all pairs, a start from the prior would have tables of pairs times pairs."""

    class OfLargeGraphs(LangevinSystemIdentifier):
        def _kernels(self, prior, n_unknown, noise_std):
            langevin, sweeps = super()._kernels(prior, n_unknown, noise_std)
            begin = replace(sweeps.begin, largest_work=0.0, numbers_per_chain=1)
            moves = tuple(replace(move, begin=begin) if hasattr(move, "begin") else move for move in sweeps.moves)
            return langevin, replace(sweeps, begin=begin, moves=moves)

    n_nodes = 20
    X = np.random.default_rng(0).normal(size=(3, n_nodes))
    settings = {"n_chains": 2, "n_sweeps": 2, "random_state": 0, "edge_weights": "positive"}
    identifier = OfLargeGraphs(FIRST_ORDER, ErdosRenyiPrior(0.9), **settings).fit(X, X @ np.ones((20, 20)))
    n_moves = 2 * 8
    most = 2 * 2 * n_nodes + n_moves  # twice four edges per node, of two nodes each, and what single moves add
    assert identifier._draws.graphs.sum(-1).max() <= most


def test_more_memory_than_there_is_is_refused_before_any_work(monkeypatch):
    """One table of all pairs and of four edges per node, in double precision, is the least that chains hold."""
    monkeypatch.setattr(_chains, "_run_batch", lambda *_: pytest.fail("worked"))
    monkeypatch.setattr(_chains, "_machine_memory", lambda: 24e9)
    X = np.random.default_rng(0).normal(size=(2, 500))
    identifier = LangevinSystemIdentifier("heat", edge_weights="positive", random_state=0)
    with pytest.raises(
        MemoryError, match=r"strengths of 124,750 pairs .*has 24.0 GB.*known_mask.*n_chains=4"
    ) as caught:
        identifier.fit(X, 0.5 * X)
    needed = float(re.search(r"about ([\d.,]+) GB", str(caught.value))[1])
    assert needed * 1e9 > 8 * 8 * 124_750 * 1000
    known = np.where(nx.to_numpy_array(nx.cycle_graph(500)) + np.eye(500), np.nan, 0.0)  # all others are ruled out
    with pytest.raises(pytest.fail.Exception, match="worked"):
        identifier.fit(X, 0.5 * X, known)


@pytest.mark.parametrize(("n_nodes", "verbose", "is_told"), [(100, True, True), (100, False, False), (8, True, False)])
def test_fits_that_take_minutes_say_so_beforehand(n_nodes, verbose, is_told, monkeypatch, capsys):
    pytest.importorskip("rich", reason="verbose=True needs rich, from the extra 'progress'")
    monkeypatch.setattr(_chains, "_run_batch", lambda *_: pytest.fail("worked"))
    X = np.random.default_rng(0).normal(size=(20, n_nodes))
    identifier = LangevinSystemIdentifier("heat", edge_weights="positive", verbose=verbose, random_state=0)
    with pytest.raises(pytest.fail.Exception, match="worked"):
        identifier.fit(X, 0.5 * X)
    said = re.search(r"sampling strengths will take about (\d+) minutes", capsys.readouterr().out)
    assert (said is not None) == is_told
