"""Priors of directed graphs: what a network learns of directions, and closed forms against Bayes' rule."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.special import expit, logit

from sklearn_graphid import (
    ErdosRenyiPrior,
    GraphPriorScore,
    KnownEdges,
    LangevinSystemIdentifier,
    StochasticBlockPrior,
    load_prior,
)
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import PolynomialFilter
from sklearn_graphid.nn import PPGN
from sklearn_graphid.priors import FlatPrior, GraphPrior

CPU = torch.device("cpu")


def make_tree(n_nodes, rng):
    """A tree that points away from its root: every other node has an edge from exactly one node."""
    order, adjacency = rng.permutation(n_nodes), np.zeros((n_nodes, n_nodes))
    for place in range(1, n_nodes):
        adjacency[order[place], order[rng.integers(place)]] = 1
    return adjacency


@pytest.fixture(scope="module")
def trees():
    rng = np.random.default_rng(0)
    return [make_tree(int(rng.integers(6, 8)), rng) for _ in range(200)]


@pytest.fixture(scope="module")
def prior(trees):
    return GraphPriorScore(directed=True, max_epochs=8, random_state=0).fit(trees)


# The network


def test_a_network_of_directed_graphs_treats_all_nodes_alike():
    """Another numbering of the nodes renumbers the answer, and the other direction is another answer."""
    network = PPGN(width=4, n_blocks=2, directed=True)
    network.reset_parameters(torch.Generator().manual_seed(0))
    for block in network.blocks:
        torch.nn.init.normal_(block.out, generator=torch.Generator().manual_seed(1))
    noisy, sigma = torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(2)), torch.tensor([0.3, 0.6])
    known = (torch.rand(2, 6, 6, generator=torch.Generator().manual_seed(3)) < 0.5).float()
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    with torch.inference_mode():
        answer = network.denoise(noisy, sigma, known)
        reordered = network.denoise(
            *(part[:, order][:, :, order] if part.ndim == 3 else part for part in (noisy, sigma, known))
        )
    torch.testing.assert_close(reordered, answer[:, order][:, :, order])
    unknown = (known == 0) & (known.mT == 0) & (torch.eye(6) == 0)
    assert ((answer - answer.mT).abs()[unknown] > 1e-4).all()
    assert not answer.diagonal(dim1=1, dim2=2).any()


def test_the_loss_counts_every_ordered_pair():
    network = PPGN(width=4, n_blocks=1, directed=True)
    network.reset_parameters(torch.Generator().manual_seed(0))
    clean = torch.tensor(make_tree(5, np.random.default_rng(1)), dtype=torch.float32)[None]
    noisy, sigma = clean + 0.3, torch.tensor([0.5])
    with torch.inference_mode():
        found, log_odds = network.loss(clean, noisy, sigma), network.log_odds(noisy, sigma)[0].double().numpy()
    truth, off = clean[0].numpy(), ~np.eye(5, dtype=bool)
    entropy = -(truth * np.log(expit(log_odds)) + (1 - truth) * np.log(expit(-log_odds)))
    assert float(found) == pytest.approx(entropy[off].mean(), rel=1e-5)


def test_a_learned_prior_knows_which_way_edges_point(prior):
    """With one ordered pair hidden, the rest of a tree tells for sure whether it is an edge.

    Where another node than the target has no edge to it, that node is the root and the target must receive one.
    """
    denoise, is_right = prior.bind(7, CPU, torch.float32), []
    for seed in range(3):
        tree = make_tree(7, np.random.default_rng(50 + seed))
        targets, sources = np.nonzero(~np.eye(7, dtype=bool))
        noisy = torch.tensor(tree, dtype=torch.float32).repeat(len(targets), 1, 1)
        known = torch.ones_like(noisy)
        hidden = torch.arange(len(targets)), torch.tensor(targets), torch.tensor(sources)
        noisy[hidden], known[hidden] = 0.5, 0.0
        with torch.inference_mode():
            probability = denoise(noisy, 1.0, known)[hidden].numpy()
        is_right.append((probability > 0.5) == (tree[targets, sources] == 1))
    # Who says that nothing is an edge is right in 86 of a hundred.
    assert np.mean(is_right) > 0.96


def test_samples_are_directed_and_sparse_as_trees_are(prior):
    graphs = prior.sample(20, n_nodes=7, random_state=0)
    n_received = np.array([graph.sum(1) for graph in graphs])
    assert np.mean(n_received == 1) > 0.7
    assert any((graph != graph.T).any() for graph in graphs)
    assert not any(np.diagonal(graph).any() for graph in graphs)


def test_trees_that_point_the_other_way_surprise(prior):
    usual, reversed_trees = [], []
    for seed in range(6):
        tree = make_tree(7, np.random.default_rng(seed))
        for adjacency, found in ((tree, usual), (tree.T, reversed_trees)):
            found.append(prior.surprise(hide_edges(adjacency, 0.25, directed=True, random_state=seed)))
    assert np.median(usual) < 3
    assert np.median(reversed_trees) > 2 * np.median(usual)


def test_the_direction_is_saved(prior, tmp_path):
    prior.save(tmp_path / "trees.safetensors")
    again = GraphPriorScore.load(tmp_path / "trees.safetensors")
    assert again.directed is True
    noisy = np.random.default_rng(0).normal(size=(7, 7))
    np.testing.assert_array_equal(again.denoise(noisy, 0.5), prior.denoise(noisy, 0.5))
    assert (prior.denoise(noisy, 0.5) != prior.denoise(noisy, 0.5).T).any()


def test_a_learned_prior_goes_into_an_identifier(prior):
    tree = make_tree(7, np.random.default_rng(7))
    known = hide_edges(tree, 0.5, directed=True, random_state=0)
    X, Y = make_system(tree, PolynomialFilter(1), [0.5, 0.5], n_experiments=8, directed=True, random_state=0)
    settings = {"n_chains": 4, "n_levels": 3, "n_sweeps": 8, "random_state": 0}
    identifier = LangevinSystemIdentifier(PolynomialFilter(1), prior, directed=True, **settings).fit(X, Y, known)
    np.testing.assert_array_equal(identifier.adjacency_, tree)


def test_training_goes_on_and_directed_networkx_graphs_will_do(trees):
    """The edge from j to i of a DiGraph stands where the matrix has it."""
    graphs = [nx.from_numpy_array(tree.T, create_using=nx.DiGraph) for tree in trees[:20]]
    settings = {"directed": True, "max_epochs": 1, "random_state": 0}
    prior, same = GraphPriorScore(**settings).fit(graphs), GraphPriorScore(**settings).fit(trees[:20])
    assert prior.score(graphs) == same.score(trees[:20])
    prior.partial_fit(trees[:20])
    assert prior.n_iter_ == 2


# What is refused


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda trees, _: GraphPriorScore().fit(trees), r"graphs\[0\] is not symmetric.*directed=True"),
        (lambda *_: GraphPriorScore().fit([nx.DiGraph([(0, 1)])]), r"graphs\[0\] is a networkx DiGraph.*directed=True"),
        (lambda trees, _: GraphPriorScore("edp-gnn", directed=True).fit(trees), "is made for undirected graphs"),
        (lambda _, prior: prior.denoise(np.zeros((3, 3)), 0.5, directed=False), "learned from directed graphs, but"),
        (lambda _, prior: prior.surprise(KnownEdges.nothing(7)), r"learned from directed graphs, but directed=False"),
        (lambda *_: load_prior("grids").estimator.denoise(np.triu(np.ones((3, 3)), 1), 0.5), "not symmetric"),
        (lambda *_: load_prior("grids").estimator.denoise(np.zeros((3, 3)), 0.5, directed=True), "from undirected"),
        (lambda *_: load_prior("grids").estimator.transform([nx.DiGraph([(0, 1)])]), "directed=True"),
        (lambda *_: ErdosRenyiPrior().denoise(np.triu(np.ones((3, 3)), 1), 0.5), "not symmetric"),
        (lambda *_: StochasticBlockPrior([0], [[0.5]], directed=1).denoise([[0.0]], 0.5), "directed=1; expected True"),
    ],
)
def test_the_other_kind_is_refused(call, words, trees, prior):
    with pytest.raises((TypeError, ValueError), match=words):
        call(trees, prior)


def test_weights_of_the_other_kind_are_not_gone_on_from(prior, trees):
    other = GraphPriorScore.__new__(GraphPriorScore)
    other.__dict__.update(prior.__dict__)
    other.set_params(directed=False, warm_start=True)
    with pytest.raises(ValueError, match=r"directed=False, but the weights to go on from are of directed=True"):
        other.fit([tree + tree.T for tree in trees[:5]])


def test_a_prior_of_ones_own_is_of_undirected_graphs_unless_it_says_so():
    class Own(GraphPrior):
        def bind(self, n_nodes, device, dtype, known=None):
            return lambda adjacency, sigma, known=None: adjacency

    class OwnDirected(Own):
        def check_directed(self, directed):
            pass

    with pytest.raises(ValueError, match="Own is a prior of undirected graphs, but directed=True"):
        Own().check_directed(True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OwnDirected().check_directed(True)
        Own().check_directed(False)


# Closed forms


def test_closed_forms_denoise_every_ordered_pair_by_bayes_rule():
    rng = np.random.default_rng(0)
    noisy, sigma = rng.normal(0.5, 0.5, (5, 5)), 0.7
    labels, probabilities = np.array([0, 0, 1, 1, 1]), np.array([[0.6, 0.15], [0.4, 0.3]])
    off_diagonal = 1 - np.eye(5)
    for prior, odds in (
        (ErdosRenyiPrior(0.2), logit(0.2)),
        (StochasticBlockPrior(labels, probabilities, directed=True), logit(probabilities[np.ix_(labels, labels)])),
    ):
        expected = expit((noisy - 0.5) / sigma**2 + odds) * off_diagonal
        np.testing.assert_allclose(prior.denoise(noisy, sigma, directed=True), expected, atol=1e-6)
        score = (expected - noisy) / sigma**2 * off_diagonal
        np.testing.assert_allclose(prior.score_function(noisy, sigma, directed=True), score, atol=1e-5)
    assert not FlatPrior().score_function(noisy * off_diagonal, sigma, directed=True).round(6).any()
