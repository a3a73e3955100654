"""Directed graphs from end to end: what is found, where an edge stands, what goes out, and what is refused."""

from __future__ import annotations

import pickle
import re
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_graphid import (
    AdamSystemIdentifier,
    ErdosRenyiPrior,
    KnownEdges,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    RidgeSystemIdentifier,
    SmoothSignalIdentifier,
    StochasticBlockPrior,
    System,
    identify_many,
    load_prior,
)
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import ARMAFilter, CallableFilter, HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.identifiers import (
    ConstrainedLeastSquaresIdentifier,
    GraphicalLassoIdentifier,
    RobustFilterIdentifier,
)
from sklearn_graphid.scorers import make_edge_f1_scorer

NAMES = list("abcdefgh")
GRAPH = nx.relabel_nodes(nx.gnp_random_graph(8, 0.3, seed=3, directed=True), dict(enumerate(NAMES)))
RECEIVED = nx.to_numpy_array(GRAPH).T  # an edge from j to i stands at [i, j]
KNOWN = hide_edges(GRAPH, 0.6, directed=True, random_state=0)
QUICK = {"n_chains": 4, "n_levels": 3, "n_sweeps": 10, "random_state": 0}


def simulate(filter, theta):
    X, Y = make_system(GRAPH, filter, theta, n_experiments=30, noise_std=0.3, directed=True, random_state=0)
    return pd.DataFrame(X, columns=NAMES), pd.DataFrame(Y, columns=NAMES)


def squared(adjacency, theta):
    return theta[0] * adjacency @ adjacency + theta[1] * adjacency


FILTERS = {
    "polynomial-1": (PolynomialFilter(1), [0.5, 0.5]),
    "polynomial-3": (PolynomialFilter(3), [0.5, 0.5, 0.3, 0.1]),
    "laplacian": (PolynomialFilter(1, shift="laplacian"), [0.5, 0.3]),
    "heat": (HeatDiffusionFilter(), [0.5]),
    "arma": (ARMAFilter(), [1.0, 0.3, -0.1]),
    "steady-state": (SteadyStateFilter(leak=0.5), [1.0]),
    "callable": (CallableFilter(squared, names=("twice", "once")), [0.4, 0.6]),
}


@pytest.fixture(scope="module")
def fitted():
    X, Y = simulate(PolynomialFilter(1), [0.5, 0.5])
    return LangevinSystemIdentifier(PolynomialFilter(1), directed=True, **QUICK).fit(X, Y, KNOWN)


# What is found


@pytest.mark.parametrize("name", FILTERS)
def test_a_directed_graph_is_found_with_its_directions(name):
    filter, theta = FILTERS[name]
    X, Y = simulate(filter, theta)
    for identifier in (
        LangevinSystemIdentifier(filter, directed=True, **QUICK),
        AdamSystemIdentifier(filter, directed=True, random_state=0),
    ):
        identifier.fit(X, Y, KNOWN)
        np.testing.assert_array_equal(identifier.adjacency_, RECEIVED)
        assert set(identifier.to_networkx().edges) == set(GRAPH.edges)
        assert identifier.score(X, Y) > 0.95


def test_nothing_need_be_known():
    X, Y = simulate(PolynomialFilter(1), [0.5, 0.5])
    identifier = LikelihoodLangevinIdentifier(PolynomialFilter(1), directed=True, **QUICK).fit(X, Y)
    assert identifier.known_edges_.directed
    assert identifier.known_edges_.n_unknown == 56
    np.testing.assert_array_equal(identifier.adjacency_, RECEIVED)


@pytest.mark.parametrize(
    "known",
    [
        (KNOWN.to_array(),),
        (pd.DataFrame(KNOWN.to_array(), NAMES, NAMES).loc[NAMES[::-1], NAMES[::-1]],),
        (KNOWN.mask, RECEIVED),
        (KNOWN.mask, GRAPH),
    ],
)
def test_what_is_known_may_come_in_every_form(fitted, known):
    X, Y = simulate(PolynomialFilter(1), [0.5, 0.5])
    same = clone(fitted).fit(X, Y, *known)
    np.testing.assert_array_equal(same.edge_probabilities_, fitted.edge_probabilities_)


def test_an_undirected_fit_finds_both_directions_or_none():
    """The directions are in the data, and a model without them cannot explain these."""
    X, Y = simulate(PolynomialFilter(1), [0.5, 0.5])
    undirected = LangevinSystemIdentifier(PolynomialFilter(1), **QUICK)
    with pytest.warns(UserWarning, match="ridge regression leaves"):
        undirected.fit(X, Y)
    np.testing.assert_array_equal(undirected.adjacency_, undirected.adjacency_.T)


@pytest.mark.parametrize("edge_prior", [None, np.where(RECEIVED == 1, 0.9, 0.1)])
@pytest.mark.parametrize(
    "prior", [ErdosRenyiPrior(0.3), StochasticBlockPrior([0] * 4 + [1] * 4, [[0.2, 0.4], [0.3, 0.1]], directed=True)]
)
def test_priors_and_evidence_go_with_ordered_pairs(prior, edge_prior):
    X, Y = simulate(PolynomialFilter(1), [0.5, 0.5])
    identifier = LangevinSystemIdentifier(PolynomialFilter(1), prior, directed=True, edge_prior=edge_prior, **QUICK)
    np.testing.assert_array_equal(identifier.fit(X, Y, KNOWN).adjacency_, RECEIVED)


# What goes out


def test_tables_and_graphs_name_the_source_first(fitted):
    table = fitted.to_pandas_edgelist(include_known=True)
    assert len(table) == 56
    assert len(fitted.to_pandas_edgelist()) == KNOWN.n_unknown
    likely = table[table.probability > 0.5]
    assert set(zip(likely.source, likely.target, strict=True)) == set(GRAPH.edges)
    again = KnownEdges.from_pandas_edgelist(likely, present=None, nodes=NAMES, directed=True)
    np.testing.assert_array_equal(again.values, RECEIVED)
    graph = fitted.to_networkx()
    assert isinstance(graph, nx.DiGraph)
    for source, target, known in graph.edges(data="known"):
        assert known == KNOWN.mask[NAMES.index(target), NAMES.index(source)]


def test_samples_are_directed_graphs(fitted):
    adjacencies, thetas = fitted.sample(5, random_state=0)
    assert thetas.shape == (5, 2)
    assert (adjacencies[:, KNOWN.mask] == KNOWN.values[KNOWN.mask]).all()
    assert (adjacencies != adjacencies.swapaxes(1, 2)).any()


def test_arviz_names_ordered_pairs(fitted):
    pytest.importorskip("arviz")
    pairs = [str(pair) for pair in fitted.to_arviz().posterior["pair"].values]
    rows, columns = KNOWN.unknown_pairs()
    assert pairs == [f"{NAMES[j]} -> {NAMES[i]}" for i, j in zip(rows, columns, strict=True)]


def test_the_report_tells_directions(fitted, tmp_path):
    page = fitted.report(tmp_path / "report.html").read_text()
    assert "<th>From</th><th>To</th>" in page
    assert "Known ordered pairs" in page
    assert "edges have no strength" in page
    assert f"<li><b>{GRAPH.number_of_edges()}</b>edges in all</li>" in page


def test_a_fit_survives_pickling_and_a_search(fitted):
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(fitted)).to_networkx().edges, fitted.to_networkx().edges)
    X, Y = simulate(PolynomialFilter(1), [0.5, 0.5])
    scoring = make_edge_f1_scorer(GRAPH, directed=True)
    search = GridSearchCV(clone(fitted), {"filter__order": [1, 2]}, scoring=scoring, cv=2)
    assert search.fit(X, Y, known_mask=KNOWN).best_score_ > 0.9


def test_many_systems_at_once(fitted):
    X, Y = simulate(PolynomialFilter(1), [0.5, 0.5])
    systems = [
        System(X, Y, KNOWN, true_adjacency=GRAPH),
        System(X, Y, KNOWN.mask, RECEIVED, true_adjacency=GRAPH, directed=True),
        System(X, Y, true_adjacency=GRAPH, directed=True),
    ]
    table = identify_many(clone(fitted), systems)
    assert table.edge_f1.tolist() == [1.0, 1.0, 1.0]
    assert set(table.n_edges) == {GRAPH.number_of_edges()}
    with pytest.raises(ValueError, match=r"systems\[0\].true_adjacency is a networkx DiGraph.*directed=True"):
        identify_many(clone(fitted), [System(X, Y, true_adjacency=GRAPH)])


# What is refused


@pytest.mark.parametrize("identifier", [LangevinSystemIdentifier, LikelihoodLangevinIdentifier, AdamSystemIdentifier])
def test_the_other_kind_of_what_is_known_is_refused(identifier):
    X, Y = simulate("heat", [0.5])
    with pytest.raises(ValueError, match=r"of a directed graph; expected an undirected one.*directed=True"):
        identifier("heat").fit(X, Y, KNOWN)
    with pytest.raises(
        ValueError, match=r"of an undirected graph, but directed=True.*KnownEdges\(\.\.\., directed=True"
    ):
        identifier("heat", directed=True).fit(X, Y, KnownEdges.nothing(8))
    with pytest.raises(ValueError, match=r"is not symmetric.*directed=True"):
        identifier("heat").fit(X, Y, RECEIVED)
    with pytest.raises(ValueError, match=r"The 'directed' parameter .* must be an instance of 'bool'"):
        identifier("heat", directed="yes").fit(X, Y)


@pytest.mark.parametrize(
    "identifier",
    [
        RidgeSystemIdentifier,
        SmoothSignalIdentifier,
        GraphicalLassoIdentifier,
        RobustFilterIdentifier,
        ConstrainedLeastSquaresIdentifier,
    ],
)
def test_identifiers_of_undirected_graphs_say_so(identifier):
    X, Y = simulate(PolynomialFilter(1), [0.5, 0.5])
    with pytest.raises(
        ValueError, match=rf"{identifier.__name__} finds undirected graphs only; use Langevin.*directed"
    ):
        identifier().fit(X, Y, KNOWN)


@pytest.mark.parametrize(
    ("filter", "words"),
    [
        (HeatDiffusionFilter("normalized"), "laplacian='normalized', which is defined for undirected graphs"),
        (SteadyStateFilter(), "neither a leak nor a ground"),
    ],
)
def test_filters_without_a_meaning_are_refused(filter, words):
    X, Y = simulate("heat", [0.5])
    with pytest.raises(ValueError, match=words):
        LangevinSystemIdentifier(filter, directed=True).fit(X, Y)


def test_priors_of_the_other_kind_are_refused():
    X, Y = simulate("heat", [0.5])
    blocks = StochasticBlockPrior([0] * 8, [[0.3]], directed=True)
    with pytest.raises(ValueError, match=r"StochasticBlockPrior got directed=True, but the graph is undirected"):
        LangevinSystemIdentifier("heat", blocks).fit(X, Y)
    with pytest.raises(
        ValueError, match=r"learned from undirected graphs, but directed=True.*GraphPriorScore\(directed"
    ):
        LangevinSystemIdentifier("heat", load_prior("grids"), directed=True).fit(X, Y)
    with pytest.raises(ValueError, match=r"edge_prior is not symmetric.*directed=True"):
        LangevinSystemIdentifier("heat", edge_prior=np.triu(np.full((8, 8), 0.3))).fit(X, Y)


# Nodes in different units


def in_units(units, filter, theta):
    rng = np.random.default_rng(0)
    strengths = (rng.random((6, 6)) < 0.25) * (1 - np.eye(6)) * np.exp(0.4 * rng.normal(size=(6, 6)))
    X, Y = make_system(strengths, filter, theta, n_experiments=15, noise_std=0.1, directed=True, random_state=0)
    return strengths, X * units, Y * units


def texts_of(identifier, X, Y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        identifier.fit(X, Y)
    return [str(warning.message) for warning in caught if "different units" in str(warning.message)]


QUICKEST = {"directed": True, "n_chains": 2, "n_sweeps": 2, "random_state": 0}
ORDER_ONE = PolynomialFilter(1)


@pytest.mark.parametrize(("filter", "theta"), [(ORDER_ONE, [0.5, 0.4]), (ARMAFilter(1, 0), [1.0, 0.2])])
def test_nodes_in_different_units_are_told(filter, theta):
    _, X, Y = in_units(np.array([1.0, 1e-3, 30.0, 1.0, 1e4, 0.1]), filter, theta)
    (text,) = texts_of(LangevinSystemIdentifier(filter, edge_weights="positive", **QUICKEST), X, Y)
    assert re.search(r"are \d(\.\d)?e\+0[67] times as large", text)  # 1e7, but for the sizes of the signals


def test_nodes_divided_by_the_size_of_their_inputs_give_the_strengths():
    units = np.array([1.0, 1e-3, 30.0, 1.0, 1e4, 0.1])
    strengths, X, Y = in_units(units, ORDER_ONE, [0.5, 0.4])
    identifier = LangevinSystemIdentifier(
        ORDER_ONE, edge_weights="positive", directed=True, n_chains=4, n_sweeps=10, random_state=0
    )
    scale = X.std(axis=0)
    assert not texts_of(identifier, X / scale, Y / scale)
    is_edge = strengths > 0
    assert (identifier.adjacency_ == is_edge).all()
    found, expected = identifier.weights_ * np.outer(scale, 1 / scale), strengths * np.outer(units, 1 / units)
    # Where no strength is known, all of them have a common factor.
    ratios = found[is_edge] / expected[is_edge]
    assert ratios == pytest.approx(np.full(len(ratios), np.median(ratios)), rel=0.2)


def test_units_are_not_told_of_where_they_mean_nothing():
    """One unit; inputs of some nodes only; heat, for which all nodes have the same unit; and binary edges."""
    signed = LangevinSystemIdentifier(ORDER_ONE, edge_weights="signed", **QUICKEST)
    _, X, Y = in_units(np.ones(6), ORDER_ONE, [0.5, 0.4])
    assert not texts_of(signed, X, Y)
    assert not texts_of(signed, X * (np.arange(6) < 3), Y)
    units = 10.0 ** np.arange(6)
    for identifier in (
        LangevinSystemIdentifier("heat", edge_weights="positive", **QUICKEST),
        LangevinSystemIdentifier(ORDER_ONE, **QUICKEST),
    ):
        assert not texts_of(identifier, X * units, Y * units)
