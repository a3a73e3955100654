"""A prior over all graphs of a few nodes, by a table: its denoiser is exact, so that only a sampler can err."""

from __future__ import annotations

import functools

import networkx as nx
import numpy as np
import torch
from _exact_posterior import all_graphs

from sklearn_graphid import KnownEdges
from sklearn_graphid.priors import GraphPrior


@functools.lru_cache
def _table(n_nodes, weight):
    """All graphs whose weight is not zero, and the logarithms of their weights."""
    nothing = KnownEdges.nothing(n_nodes)
    graphs = nothing.fill(all_graphs(nothing))
    weights = np.array([weight(nx.from_numpy_array(graph)) for graph in graphs], dtype=float)
    return graphs[weights > 0], np.log(weights[weights > 0])


class EnumeratedPrior(GraphPrior):
    """Probabilities proportional to `weight(graph)`, a function of a networkx graph."""

    conditions_on_known = True

    def __init__(self, n_nodes, weight):
        self.n_nodes = n_nodes
        self.weight = weight

    def table(self):
        return _table(self.n_nodes, self.weight)

    def bind(self, n_nodes, device, dtype, known=None):
        graphs, log_weights = (torch.tensor(part, dtype=torch.float64) for part in self.table())
        rows, columns = torch.triu_indices(n_nodes, n_nodes, 1)
        bits = graphs[:, rows, columns]
        told = torch.zeros(n_nodes, n_nodes) if known is None else known

        def denoise(adjacency, sigma, known=None):
            noisy = adjacency[:, rows, columns].double()
            is_known = (told if known is None else known).expand_as(adjacency)[:, rows, columns] > 0
            # A known pair is a measurement without error, up to what rounding leaves of one.
            precision = torch.where(is_known, 1e4, 1 / sigma**2)
            # A bit is its own square: -(noisy - bit)^2 / 2 is (noisy - 1/2) bit, but for what is the same for both.
            exponent = log_weights + (precision * (noisy - 0.5)) @ bits.mT
            clean = torch.zeros_like(adjacency)
            clean[:, rows, columns] = (exponent.softmax(1) @ bits).to(adjacency.dtype)
            return clean + clean.mT

        return denoise


def is_tree(graph):
    return float(nx.is_tree(graph))


def is_path_or_star(graph):
    degrees = sorted(degree for _, degree in graph.degree)
    n_nodes = len(degrees)
    shapes = ([1, 1] + [2] * (n_nodes - 2), [1] * (n_nodes - 1) + [n_nodes - 1])
    return float(nx.is_tree(graph) and degrees in shapes)


def triangles(graph):
    """An exponential random graph that likes triangles."""
    return np.exp(0.7 * sum(nx.triangles(graph).values()) / 3 - 0.8 * graph.number_of_edges())


def clustered(graph):
    """One that likes triangles so much that half of it is still far from independent pairs."""
    return np.exp(3.0 * sum(nx.triangles(graph).values()) / 3 - 1.0 * graph.number_of_edges())
