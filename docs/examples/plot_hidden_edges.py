"""
Find the hidden edges of a grid
===============================

A grid has 42 nodes and 74 edges. A quarter of all pairs of nodes is hidden: they may or may not be edges. We apply ten
input signals, measure the outputs, and infer which of the hidden pairs are edges.
"""

# %%
# The graph and the measurements
# ------------------------------
# The process is a polynomial of the adjacency matrix: a node's output depends on its own input, on those of its
# neighbours and on those two steps away. Its three coefficients, theta, are unknown as well.

from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system

network = make_grid_graphs(1, shuffle_nodes=False, random_state=7)[0]
theta = [-0.035, 0.097, -0.036]
X, Y = make_system(network, "polynomial", theta, n_experiments=10, random_state=7)
known = hide_edges(network, fraction=0.25, random_state=7)
print(known)

# %%
# Fit
# ---
# The prior "grids" was trained on 5,000 other grids. This grid was not among them.

from sklearn_graphid import LangevinSystemIdentifier, load_prior
from sklearn_graphid.metrics import edge_f1_score

identifier = LangevinSystemIdentifier("polynomial", prior=load_prior("grids"), random_state=0)
identifier.fit(X, Y, known)
print(
    f"F1 score of the hidden edges: {edge_f1_score(network, identifier.adjacency_, known):.2f}"
)

# %%
# What was hidden, and what was found
# -----------------------------------

import matplotlib.pyplot as plt
import numpy as np

from sklearn_graphid.plotting import GraphDisplay, ThetaDisplay

row, column = np.divmod(np.arange(42), 6)
look = {"pos": np.column_stack([row, -column])}
figure, (truth_ax, known_ax, found_ax) = plt.subplots(
    1, 3, figsize=(13.5, 4.6), layout="constrained"
)
hidden = {"inferred": {"label": "hidden edge", "color": "black", "linewidth": 2.6}}
GraphDisplay.from_predictions(network, known, ax=truth_ax, styles=hidden, **look)
GraphDisplay.from_predictions(known.values, known, ax=known_ax, show_unknown=True, **look)
GraphDisplay.from_estimator(identifier, true_adjacency=network, ax=found_ax, **look)
truth_ax.set_title("The network")
known_ax.set_title("What is known")
found_ax.set_title("Inferred edges (wider: more probable)")
plt.show()

# %%
# The parameters of the process
# -----------------------------
# The parameters are estimated with their uncertainty too: the histograms are draws from the posterior.

ThetaDisplay.from_estimator(identifier, true_theta=theta)
plt.show()
