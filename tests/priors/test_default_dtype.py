"""A program may set torch's default type to float64; learned priors give the same bits."""

from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch
from small_priors import quick, small_grids

from sklearn_graphid import GraphPriorScore, KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system

GRAPHS = small_grids(6)
KNOWN = hide_edges(GRAPHS[0], 0.3, random_state=0)


@pytest.fixture(scope="module", params=["ppgn", "edp-gnn"])
def usual(request) -> GraphPriorScore:
    return train(request.param)


def train(architecture: str) -> GraphPriorScore:
    return quick(architecture=architecture, max_epochs=1).fit(GRAPHS)


@pytest.fixture
def _double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def answers(prior: GraphPriorScore) -> dict[str, object]:
    known = KnownEdges(np.ones_like(GRAPHS[0]), GRAPHS[0])
    return {
        "denoise": prior.denoise(GRAPHS[0], 0.5),
        "transform": prior.transform(GRAPHS[:2]),
        "surprise": prior.surprise(known),
    }


@pytest.mark.usefixtures("_double")
def test_fit_gives_the_same_weights(usual):
    other = train(usual.architecture)
    np.testing.assert_equal(other.weights_, usual.weights_)
    assert {value.dtype for value in other.weights_.values()} == {np.dtype(np.float32)}
    np.testing.assert_equal(other.known_loss_, usual.known_loss_)
    assert other.partial_fit(GRAPHS[:2]).n_iter_ == 2


def test_files_load_and_answer_the_same(usual, tmp_path: Path, request):
    usual.save(tmp_path / "prior")
    expected = answers(usual)
    request.getfixturevalue("_double")
    loaded = GraphPriorScore.load(tmp_path / "prior")
    np.testing.assert_equal(answers(loaded), expected)
    np.testing.assert_equal(answers(usual), expected)
    assert [graph.shape for graph in usual.sample(2, n_nodes=6, random_state=0)] == [(6, 6), (6, 6)]


@pytest.mark.usefixtures("_double")
def test_training_goes_on_from_a_checkpoint(usual, tmp_path: Path, monkeypatch):
    prior = quick(architecture=usual.architecture, max_epochs=1, checkpoint_path=tmp_path / "training")
    with monkeypatch.context() as patch:
        patch.setattr(GraphPriorScore, "_calibrate", None)  # the call is a TypeError, when the training is over
        with pytest.raises(TypeError):
            prior.fit(GRAPHS)
    np.testing.assert_equal(prior.fit(GRAPHS).weights_, usual.weights_)


@pytest.mark.usefixtures("_double")
def test_an_identifier_uses_the_prior(usual):
    X, Y = make_system(GRAPHS[0], "heat", theta=[0.5], n_experiments=5, noise_std=0.3, random_state=0)
    settings = {"n_levels": 2, "sigma_max": 0.5, "sigma_min": 0.265, "n_steps": 2, "n_chains": 2, "random_state": 0}
    identifier = LangevinSystemIdentifier("heat", prior=usual, **settings).fit(X, Y, KNOWN)
    assert nx.is_empty(nx.from_numpy_array(np.abs(identifier.adjacency_ - identifier.adjacency_.T)))
    assert np.isfinite(identifier.edge_probabilities_).all()
