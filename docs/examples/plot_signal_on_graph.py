"""
A signal passes through a graph
===============================

An experiment applies a number to every node, its input, and measures a number at every node, its output. What happens
in between depends on the edges. This is why inputs and outputs contain information about edges that were never
observed.
"""

# %%
# Heat on a grid
# --------------
# Two nodes are heated, and the heat spreads along the edges for a while. The output is what thermometers read, with a
# little noise. Heat reaches the neighbours of a hot node first, so the pattern on the right follows the edges.

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
from scipy.linalg import expm

from sklearn_graphid.plotting import GraphDisplay

graph = nx.grid_2d_graph(5, 6)
network, positions = nx.to_numpy_array(graph), np.array(graph.nodes)[:, ::-1]
x = np.zeros(30)
x[[7, 22]] = 10.0
# HeatDiffusionFilter computes the same.
heat_filter = expm(-0.6 * nx.laplacian_matrix(graph).toarray())
y = heat_filter @ x + np.random.default_rng(0).normal(0, 0.1, size=30)

known = np.ones(network.shape, dtype=bool)
figure, axes = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for ax, name, signal in zip(
    axes, ("input $x$", r"output $y = h_\theta(A)\,x + \varepsilon$"), (x, y), strict=True
):
    look = {"pos": positions, "node_values": signal, "node_size": 200, "legend": False}
    GraphDisplay.from_predictions(network, known, ax=ax, **look)
    ax.set_title(name)
plt.show()
