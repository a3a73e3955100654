"""Which of several priors is taken for a graph: the one that its known pairs bear out."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from identifier_cases import SHORT
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator

from sklearn_graphid import ErdosRenyiPrior, GraphPriorScore, KnownEdges, LangevinSystemIdentifier, load_prior
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system
from sklearn_graphid.priors import resolve_priors
from sklearn_graphid.priors._choice import choose_prior

CPU = torch.device("cpu")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


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
