"""The priors that come with the package."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
import shutil
from pathlib import Path

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from sklearn_graphid import GraphPriorScore, LangevinSystemIdentifier, list_priors, load_prior
from sklearn_graphid._utils._torch import torch_threads
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system
from sklearn_graphid.priors import _shipped

WEIGHTS = Path(_shipped.__file__).parent / "weights"
NAMES = ("deezer-ego-nets", "general", "grids")
pytestmark = pytest.mark.skipif(
    not all((WEIGHTS / f"{name}.safetensors").is_file() for name in NAMES), reason="the weights are not made yet"
)


@pytest.fixture
def own_folder(tmp_path, monkeypatch) -> Path:
    """A copy of the shipped files that a test may spoil."""
    folder = tmp_path / "weights"
    shutil.copytree(WEIGHTS, folder)
    monkeypatch.setattr(_shipped, "_WEIGHTS", folder)
    return folder


def test_every_file_has_its_card_and_every_card_its_file():
    assert tuple(list_priors()) == NAMES
    files = {path.name for path in WEIGHTS.iterdir() if path.suffix in (".json", ".safetensors")}
    assert files == {f"{name}{suffix}" for name in NAMES for suffix in (".json", ".safetensors")}


@pytest.mark.parametrize("name", NAMES)
def test_card_says_where_the_weights_come_from(name):
    card = list_priors()[name]
    assert card["name"] == name
    for fact in ("training_data", "n_training_graphs", "recipe", "n_epochs", "random_state", "date", "torch"):
        assert card[fact] not in (None, ""), fact
    error = card["held_out_denoising_error"]
    assert len(error["sigma"]) == len(error["mean"]) == len(error["standard_error"]) > 0
    # Less noise, less error; and with the largest noise still less than for guessing each pair's value.
    assert error["sigma"] == sorted(error["sigma"], reverse=True)
    assert error["mean"] == sorted(error["mean"], reverse=True)
    path = WEIGHTS / f"{name}.safetensors"
    assert card["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert path.stat().st_size <= 1024 * 1024


@pytest.mark.parametrize("name", NAMES)
def test_loaded_prior_is_fitted_frozen_and_survives_clone_and_pickle(name):
    prior = load_prior(name)
    assert isinstance(prior, FrozenEstimator)
    assert isinstance(prior.estimator, GraphPriorScore)
    smallest, largest = prior.size_range_
    assert 2 <= smallest <= largest <= 100
    upper = np.triu(np.random.default_rng(0).normal(size=(smallest, smallest)), 1)
    noisy = upper + upper.T
    expected = prior.estimator.denoise(noisy, 0.5)
    for copy in (clone(prior), pickle.loads(pickle.dumps(prior)), load_prior(name)):
        np.testing.assert_array_equal(copy.estimator.denoise(noisy, 0.5), expected)


def test_error_on_the_card_is_found_again():
    """The mean squared error of denoised unseen grids, at one level and on fewer of them."""
    prior, error = load_prior("grids").estimator, list_priors()["grids"]["held_out_denoising_error"]
    rng, sigma, n_graphs = np.random.default_rng(3), error["sigma"][3], 20
    squares = []
    with torch_threads(1):
        for graph in make_grid_graphs(n_graphs, random_state=1):
            noise = np.triu(rng.normal(size=graph.shape), 1)
            clean = prior.denoise(graph + sigma * (noise + noise.T), sigma)
            squares.append(((clean - graph) ** 2).sum() / (len(graph) * (len(graph) - 1)))
    # The card averages over 400 noisy graphs; one of them scatters by some 20 standard errors of that mean.
    spread = np.std(squares) / math.sqrt(n_graphs)
    assert np.mean(squares) == pytest.approx(error["mean"][3], abs=5 * spread + 5 * error["standard_error"][3])


def test_grids_are_better_known_than_other_graphs():
    with torch_threads(1):
        prior = load_prior("grids")
        grids = make_grid_graphs(4, random_state=7)
        others = [nx.gnm_random_graph(len(g), int(g.sum() / 2), seed=i) for i, g in enumerate(grids)]
        assert prior.score(grids) > prior.score(others)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("graph", [nx.complete_graph(30), nx.star_graph(40), nx.gnp_random_graph(60, 0.4, seed=0)])
def test_graphs_of_any_kind_have_probabilities(name, graph):
    prior, matrix = load_prior(name).estimator, nx.to_numpy_array(graph)
    for sigma in (0.2, 0.5, 0.7, 1.0):
        assert np.isfinite(prior.denoise(matrix, sigma)).all()


def test_grids_do_not_surprise_and_others_do():
    prior = load_prior("grids").estimator
    grids = make_grid_graphs(12, random_state=7)
    with torch_threads(1):
        usual = [prior.surprise(hide_edges(g, 0.25, random_state=i)) for i, g in enumerate(grids)]
        assert np.median(usual) < 2
        assert max(usual) < 5
        for i, grid in enumerate(grids[:4]):
            star = nx.to_numpy_array(nx.star_graph(len(grid) - 1))
            random = nx.to_numpy_array(nx.gnm_random_graph(len(grid), int(grid.sum() / 2), seed=i))
            assert prior.surprise(hide_edges(star, 0.25, random_state=i)) > 5
            assert prior.surprise(hide_edges(random, 0.1, random_state=i)) > 5


@pytest.mark.parametrize("name", [[], {}, None, 3, b"grids", np.array(["grids"])])
def test_what_is_no_name_is_refused_by_the_name_of_the_argument(name):
    with pytest.raises(
        TypeError, match=f"name is a {type(name).__name__}; expected one of deezer-ego-nets, general, grids"
    ):
        load_prior(name)


@pytest.mark.parametrize("name", ["grid", "", "../weights/grids"])
def test_name_that_is_not_shipped_is_refused_with_those_that_are(name):
    with pytest.raises(
        ValueError, match=r"there is no shipped prior .*; expected one of deezer-ego-nets, general, grids"
    ):
        load_prior(name)


def test_changed_file_is_noticed(own_folder):
    path = own_folder / "grids.safetensors"
    content = bytearray(path.read_bytes())
    content[-10] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="weights of the prior 'grids' were changed since they were shipped"):
        load_prior("grids")
    load_prior("deezer-ego-nets")


def test_missing_file_is_reported_as_missing(own_folder):
    (own_folder / "grids.safetensors").unlink()
    with pytest.raises(FileNotFoundError):
        load_prior("grids")


def test_list_is_made_of_the_cards_that_are_there(own_folder):
    (own_folder / "grids.json").unlink()
    (own_folder / "notes.txt").write_text("not a card")
    assert list(list_priors()) == ["deezer-ego-nets", "general"]
    card = list_priors()["deezer-ego-nets"]
    assert card == json.loads((own_folder / "deezer-ego-nets.json").read_text())


@pytest.mark.filterwarnings("ignore:the graph does not look like:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_name_of_a_prior_stands_for_the_prior(name):
    ring = nx.to_numpy_array(nx.cycle_graph(9))
    X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=3, random_state=0)
    known = hide_edges(ring, 0.5, random_state=0)
    settings = {"n_chains": 2, "n_levels": 2, "n_sweeps": 3, "random_state": 0}
    by_name, loaded = (
        LangevinSystemIdentifier("heat", prior, **settings).fit(X, Y, known) for prior in (name, load_prior(name))
    )
    np.testing.assert_array_equal(by_name.edge_probabilities_, loaded.edge_probabilities_)
    assert isinstance(by_name.prior_, GraphPriorScore)
    assert clone(by_name).prior == name
