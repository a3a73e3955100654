"""Priors judged by what they predict of known pairs: trust in one, the choice among several, and surprise."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
import torch
from enumerated_prior import EnumeratedPrior, clustered
from identifier_cases import SHORT
from scipy.special import log_expit, logit, softmax
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from sklearn_graphid import (
    ErdosRenyiPrior,
    GraphPriorScore,
    KnownEdges,
    LangevinSystemIdentifier,
    StochasticBlockPrior,
    load_prior,
)
from sklearn_graphid._utils._torch import torch_threads
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system
from sklearn_graphid.priors import resolve_priors
from sklearn_graphid.priors._trust import choose_prior, hidden_folds, known_density, trust_from_known

CPU = torch.device("cpu")
DEGREES = np.linspace(0, 1, 11)
BEFOREHAND = np.array([0.02] * 10 + [0.8])
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


# Trust.


def trust_in(prior, known):
    trust = trust_from_known(prior, known, CPU)
    np.testing.assert_array_equal(trust.values, DEGREES)
    return np.exp(trust.log_probability)


def test_nothing_known_leaves_trust_as_it_was_beforehand():
    prior = EnumeratedPrior(5, clustered)
    np.testing.assert_allclose(trust_in(prior, KnownEdges.nothing(5)), BEFOREHAND)


@pytest.mark.parametrize("directed", [False, True])
def test_independent_pairs_are_judged_by_their_likelihood(directed):
    """Of independent pairs no fold says anything about another, and the product over pairs is the likelihood."""
    labels, rng = np.repeat([0, 1, 2], 3), np.random.default_rng(0)
    probabilities = np.array([[0.8, 0.1, 0.3], [0.1, 0.6, 0.05], [0.3, 0.05, 0.9]])
    if directed:
        probabilities[0, 2] = 0.7
    drawn = (rng.random((9, 9)) < 0.3).astype(float)
    drawn = drawn if directed else np.triu(drawn, 1) + np.triu(drawn, 1).T
    np.fill_diagonal(drawn, 0)
    known = hide_edges(drawn, 0.3, directed=directed, random_state=0)
    prior = StochasticBlockPrior(labels, probabilities, directed=directed)
    pairs = known.known_pairs()
    values, log_odds = pairs.gather(drawn), logit(pairs.gather(probabilities[labels][:, labels]))
    density = logit((values.sum() + 1) / (len(values) + 2))
    likelihood = log_expit((2 * values - 1) * (density + DEGREES[:, None] * (log_odds - density))).sum(1)
    np.testing.assert_allclose(trust_in(prior, known), softmax(np.log(BEFOREHAND) + likelihood), rtol=1e-3, atol=1e-7)


def test_pairs_that_hang_together_are_judged_by_what_other_folds_say():
    """Against the sum over all graphs on five nodes that agree with what is told."""
    prior = EnumeratedPrior(5, clustered)
    known = hide_edges(nx.to_numpy_array(nx.barbell_graph(3, 0).subgraph(range(5))), 0.3, random_state=0)
    graphs, log_weights = prior.table()
    density, log_likelihood = logit(known_density(known)), np.zeros(11)
    for fold in hidden_folds(5, directed=False).numpy() > 0:
        told = known.mask & ~fold & ~np.eye(5, dtype=bool)
        agrees = (graphs == known.values)[:, told].all(1)
        expected = np.tensordot(softmax(log_weights[agrees]), graphs[agrees], 1)
        for i, j in zip(*np.nonzero(np.triu(known.mask & fold, 1)), strict=True):
            log_odds = density + DEGREES * (logit(expected[i, j]) - density)
            log_likelihood += log_expit(log_odds if known.values[i, j] else -log_odds)
    found = trust_in(prior, known)
    np.testing.assert_allclose(found, softmax(np.log(BEFOREHAND) + log_likelihood), rtol=1e-3)
    assert np.abs(found - BEFOREHAND).max() > 0.05  # something was learned


def test_trust_is_high_for_graphs_of_the_prior_s_kind_and_low_for_others():
    """Over 40 unseen grids, of which three quarters are known, and as many random graphs as dense.

    Of 400 other grids none had a mean trust below one half (the lowest .63, the median .99), and of 100 random graphs
    none had one above .35. If one grid in 130 were below, the most that 400 without any leave likely, three or more of
    40 would be one false alarm in 250.
    """
    prior = load_prior("grids").estimator
    means = {"grids": [], "random": []}
    for seed, grid in enumerate(make_grid_graphs(40, random_state=20)):
        n_edges = int(grid.sum()) // 2
        other = nx.to_numpy_array(nx.gnm_random_graph(len(grid), n_edges, seed=seed))
        for name, graph in (("grids", grid), ("random", other)):
            known = hide_edges(graph, 0.25, random_state=seed)
            means[name].append(trust_in(prior, known) @ DEGREES)
    assert np.sum(np.array(means["grids"]) < 0.5) < 3
    assert np.median(means["grids"]) > 0.9
    assert np.max(means["random"]) < 0.5


# Which of several priors is taken for a graph: the one that its known pairs bear out.


@pytest.mark.parametrize("n_edges", range(0, 46, 3))
def test_another_prior_is_taken_where_its_likelihood_is_clearly_larger(n_edges):
    graph = nx.gnm_random_graph(10, n_edges, seed=0)
    known = KnownEdges.from_array(nx.to_numpy_array(graph))
    first, other = ErdosRenyiPrior(0.5), ErdosRenyiPrior(0.1)
    gain = n_edges * np.log(0.1 / 0.5) + (45 - n_edges) * np.log(0.9 / 0.5)
    # Non-edges alone are no sample of the graph, so that the first prior stays.
    assert choose_prior([first, other], known, CPU) is (other if gain > 5 and n_edges else first)


@pytest.mark.parametrize("n_edges", range(0, 46, 3))
@pytest.mark.parametrize(("sizes", "margin"), [((8, 12), 2), ((11, 12), 5)])
def test_less_evidence_is_asked_of_a_prior_that_was_trained_on_this_size(n_edges, sizes, margin):
    class Trained(ErdosRenyiPrior):
        def was_trained_on_size(self, n_nodes):
            return sizes[0] <= n_nodes <= sizes[1]

    known = KnownEdges.from_array(nx.to_numpy_array(nx.gnm_random_graph(10, n_edges, seed=0)))
    first, other = ErdosRenyiPrior(0.3), Trained(0.2)
    gain = n_edges * np.log(0.2 / 0.3) + (45 - n_edges) * np.log(0.8 / 0.7)
    assert choose_prior([first, other], known, CPU) is (other if gain > margin and n_edges else first)


def test_learned_priors_know_which_sizes_they_were_trained_on():
    grids = load_prior("grids").estimator
    assert [grids.was_trained_on_size(n) for n in (39, 40, 49, 50)] == [False, True, True, False]


def test_first_prior_is_taken_where_nothing_is_known():
    first, other = ErdosRenyiPrior(0.5), ErdosRenyiPrior(0.1)
    assert choose_prior([first, other], KnownEdges.nothing(10), CPU) is first


def test_general_hands_over_to_the_prior_for_grids_on_grids_alone():
    general, *others = resolve_priors("general")
    assert len(others) == 2
    (grids,) = (prior for prior in others if prior.name_ == "grids")
    chosen = [
        choose_prior([general, *others], hide_edges(graph, fraction=0.25, random_state=seed), CPU)
        for seed, graph in enumerate(make_grid_graphs(8, random_state=12_345))
    ]
    assert set(chosen) <= {general, grids}
    for network in (nx.karate_club_graph(), nx.florentine_families_graph(), nx.gnp_random_graph(30, 0.3, seed=0)):
        known = hide_edges(nx.to_numpy_array(network, weight=None), fraction=0.25, random_state=0)
        assert choose_prior([general, *others], known, CPU) is general


@pytest.fixture
def ring():
    graph = nx.to_numpy_array(nx.cycle_graph(8))
    X, Y = make_system(graph, "heat", [0.4], n_experiments=5, random_state=0)
    return X, Y, hide_edges(graph, fraction=0.4, random_state=0)


def identifier(prior):
    return LangevinSystemIdentifier("heat", prior, **{**SHORT, "random_state": 0})


def test_fit_with_several_is_that_with_the_chosen_one(ring):
    several = identifier([ErdosRenyiPrior(0.99), ErdosRenyiPrior(0.25)]).fit(*ring)
    assert several.prior_.p == 0.25
    np.testing.assert_array_equal(
        clone(several).fit(*ring).edge_probabilities_, identifier(ErdosRenyiPrior(0.25)).fit(*ring).edge_probabilities_
    )


def test_names_and_frozen_priors_go_together(ring):
    fitted = identifier(("grids", FrozenEstimator(load_prior("deezer-ego-nets")), ErdosRenyiPrior(0.25))).fit(*ring)
    assert isinstance(fitted.prior_, GraphPriorScore | ErdosRenyiPrior)


@pytest.mark.parametrize(
    ("prior", "error", "words"),
    [
        ([], ValueError, "prior is an empty list"),
        (["grids", "no such prior"], ValueError, "its item 1 cannot be used: prior='no such prior' is no shipped"),
        ([ErdosRenyiPrior(0.2), 3], TypeError, "its item 1 cannot be used: prior is a int; expected a GraphPrior"),
        ([None, "grids"], TypeError, "its item 0 cannot be used: .*use ErdosRenyiPrior"),
        ([ErdosRenyiPrior(0.2), GraphPriorScore()], NotFittedError, "prior is not fitted"),
    ],
)
def test_list_that_is_none_of_priors_is_refused(ring, prior, error, words):
    with pytest.raises(error, match=words):
        identifier(prior).fit(*ring)


def test_prior_that_cannot_be_told_what_is_known_is_refused_in_a_list(ring):
    network = GraphPriorScore("edp-gnn", max_epochs=1, random_state=0).fit([nx.cycle_graph(6)] * 4)
    with pytest.raises(ValueError, match="cannot be told which pairs are known"):
        identifier(["grids", FrozenEstimator(network)]).fit(*ring)


def test_all_of_a_list_must_go_with_the_kind_of_graph():
    graph = nx.to_numpy_array(nx.cycle_graph(8, create_using=nx.DiGraph)).T
    X, Y = make_system(graph, "heat", [0.4], n_experiments=5, directed=True, random_state=0)
    known = hide_edges(graph, fraction=0.4, directed=True, random_state=0)
    with pytest.raises(ValueError, match="learned from undirected graphs, but directed=True"):
        identifier([ErdosRenyiPrior(0.2), "grids"]).set_params(directed=True).fit(X, Y, known)


# How unlike the training graphs a partially known network is.


@pytest.fixture(scope="module")
def trained() -> GraphPriorScore:
    """Two seconds of training: enough to know a ring from a random graph."""
    with torch_threads(1):
        return GraphPriorScore(max_epochs=4, learning_rate=1e-2, random_state=0).fit(rings(100))


def rings(n_graphs: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(n_nodes) for n_nodes in rng.integers(12, 15, size=n_graphs)]
    return [nx.to_numpy_array(nx.cycle_graph(len(order)))[np.ix_(order, order)] for order in orders]


def test_training_graphs_with_hidden_edges_do_not_surprise(trained):
    surprises = [trained.surprise(hide_edges(g, 0.25, random_state=i)) for i, g in enumerate(rings(40, seed=1))]
    assert np.median(surprises) < 2
    assert np.mean(np.array(surprises) < 4) > 0.9


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25])
@pytest.mark.parametrize(
    "graph",
    [nx.star_graph(12), nx.complete_graph(13), nx.empty_graph(13), nx.gnm_random_graph(13, 13, seed=0)],
    ids=["star", "complete", "empty", "random"],
)
def test_networks_of_another_kind_surprise(trained, graph, fraction):
    adjacency = nx.to_numpy_array(graph)
    everything = KnownEdges(np.ones_like(adjacency), adjacency)
    assert trained.surprise(hide_edges(adjacency, fraction, random_state=0) if fraction else everything) > 5


def test_surprise_takes_an_array_with_nan_and_is_the_same_at_every_call(trained):
    known = hide_edges(rings(1)[0], 0.3, random_state=0)
    surprise = trained.surprise(known)
    assert trained.surprise(known.to_array()) == surprise
    with torch_threads(2):
        assert trained.surprise(known) == surprise


def test_surprise_is_not_known_where_nothing_is(trained, fitted_edpgnn):
    assert math.isnan(trained.surprise(KnownEdges.nothing(20)))
    everything = KnownEdges(np.ones((20, 20)), np.zeros((20, 20)))
    assert math.isnan(fitted_edpgnn.surprise(everything))
    assert math.isfinite(trained.surprise(everything))
