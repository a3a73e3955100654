"""The general prior, on real graphs that it was not trained on, against one that knows their density exactly."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy.special import log_expit, logit

from sklearn_graphid import load_prior
from sklearn_graphid._utils._torch import torch_threads
from sklearn_graphid.datasets import hide_edges
from sklearn_graphid.priors._trust import held_out_log_odds, known_density

REAL = {
    "karate": nx.karate_club_graph(),
    "Davis": nx.davis_southern_women_graph(),
    "Les Miserables": nx.les_miserables_graph(),
    "Frucht": nx.frucht_graph(),
}
SIGMA = 0.7  # at which sweeps ask the prior


def mean_losses(graph: nx.Graph, hidden: float, sigma: float, n_draws: int = 20) -> tuple[float, float]:
    """Cross-entropy of hidden pairs seen with noise: of the prior, and of Bayes' rule with the true density."""
    adjacency = nx.to_numpy_array(graph, weight=None)
    n_nodes = len(adjacency)
    density = adjacency.sum() / (n_nodes * (n_nodes - 1))
    prior, losses = load_prior("general").estimator, []
    rng = np.random.default_rng(0)
    for draw in range(n_draws):
        mask = hide_edges(adjacency, hidden, random_state=draw).mask
        noise = np.triu(rng.normal(size=adjacency.shape), 1)
        noisy = np.where(mask, adjacency, adjacency + sigma * (noise + noise.T))
        known, matrix = (torch.tensor(values, dtype=torch.float32)[None] for values in (mask, noisy))
        with torch.inference_mode(), torch_threads(1):
            denoised = prior.bind(n_nodes, torch.device("cpu"), torch.float32)(matrix, sigma, known)[0].double().numpy()
        own = (noisy - 0.5) / sigma**2 + np.log(density / (1 - density))
        pairs = np.triu(~mask, 1)
        both = np.clip([denoised, 1 / (1 + np.exp(-own))], 1e-6, 1 - 1e-6)
        losses.append(-np.log(np.where(adjacency > 0, both, 1 - both))[:, pairs].mean(1))
    return tuple(np.mean(losses, axis=0))


@pytest.mark.parametrize("name", ["karate", "Davis", "Les Miserables", "Frucht"])
def test_with_half_known_it_is_better_than_the_density(name):
    learned, density = mean_losses(REAL[name], 0.5, SIGMA)
    assert learned < 0.95 * density


@pytest.mark.parametrize("name", list(REAL))
def test_with_nothing_known_it_is_no_worse_than_the_density(name):
    """The density itself is not told, and must be read off noise that is larger than the values."""
    learned, density = mean_losses(REAL[name], 1.0, 1.4)
    assert learned < 1.1 * density


@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("name", ["grid", "tree", "Les Miserables"])
def test_hidden_pairs_of_large_sparse_graphs_get_no_worse_odds_than_the_density(name, share):
    """Hidden pairs hold one half each, thousands of them, and must not pass for a measurement of the density."""
    large = {"grid": nx.grid_2d_graph(10, 10), "tree": nx.full_rary_tree(3, 90)} | REAL
    adjacency = nx.to_numpy_array(large[name], weight=None)
    losses = []
    for draw in range(4):
        known = hide_edges(adjacency, 1 - share, random_state=draw)
        is_edge = known.known_pairs().gather(known.values) > 0
        learned = held_out_log_odds(load_prior("general").estimator, known, torch.device("cpu"))
        density = np.full_like(learned, logit(known_density(known)))
        losses.append([-log_expit(np.where(is_edge, odds, -odds)).mean() for odds in (learned, density)])
    learned, density = np.mean(losses, axis=0)
    assert learned < 1.05 * density


@pytest.mark.parametrize("n_nodes", [6, 150])
@pytest.mark.parametrize("density", [0.0, 0.02, 0.5, 1.0])
def test_it_gives_probabilities_on_graphs_unlike_any_it_has_seen(n_nodes, density):
    upper = np.triu(np.random.default_rng(0).random((n_nodes, n_nodes)) < density, 1).astype(float)
    denoised = load_prior("general").estimator.denoise(upper + upper.T, 0.5)
    assert np.isfinite(denoised).all()
    assert ((denoised >= 0) & (denoised <= 1)).all()
