"""
Not every output was measured
=============================

Sensors fail, and some nodes have none. The identifier handles both: a nan in Y is a value that was not measured, and
``observed_nodes`` lists the nodes that Y has columns for. Which is worse, to lose half of the nodes or half of the
values?
"""

# %%
# One system, three data sets
# ---------------------------

import networkx as nx
import numpy as np

from sklearn_graphid.datasets import hide_edges, make_system

grid = nx.grid_2d_graph(5, 6)
network = nx.to_numpy_array(grid)
X, Y = make_system(
    network, "polynomial", theta=[0.3, 0.2, -0.05], n_experiments=12, random_state=1
)
known = hide_edges(network, fraction=0.3, random_state=1)

rng = np.random.default_rng(0)
sensors = np.sort(rng.choice(30, size=15, replace=False))
gaps = np.where(rng.random(Y.shape) < 0.5, np.nan, Y)

# %%
# Three fits
# ----------
# With ``observed_nodes``, the columns of Y belong to the nodes it lists. If X and Y are data frames, it is not needed:
# the names of Y's columns determine which nodes were measured.

from sklearn_graphid import LangevinSystemIdentifier

fits = {
    "all outputs": LangevinSystemIdentifier(random_state=0).fit(X, Y, known),
    "half of the values": LangevinSystemIdentifier(random_state=0).fit(X, gaps, known),
    "half of the nodes": LangevinSystemIdentifier(observed_nodes=sensors, random_state=0).fit(
        X, Y[:, sensors], known
    ),
}

# %%
# Accuracy with missing outputs
# -----------------------------
# A green ring marks a node whose output was measured at least once.

import matplotlib.pyplot as plt

from sklearn_graphid.metrics import edge_f1_score
from sklearn_graphid.plotting import GraphDisplay

positions = np.array([(column, -row) for row, column in grid])
figure, axes = plt.subplots(1, 3, figsize=(13.5, 5), layout="constrained")
for (name, identifier), ax in zip(fits.items(), axes, strict=True):
    GraphDisplay.from_estimator(identifier, true_adjacency=network, pos=positions, ax=ax)
    measured = sensors if name == "half of the nodes" else slice(None)
    ring = {"s": 170, "facecolor": "none", "edgecolor": "#009E73", "linewidth": 1.5}
    rings = ax.scatter(*positions[measured].T, label="node with measured outputs", **ring)
    f1 = edge_f1_score(network, identifier.adjacency_, known)
    ax.set_title(f"{name}: F1 {f1:.2f}")
figure.legend(handles=[rings], loc="outside lower center", frameon=False)
plt.show()

# %%
# Both incomplete data sets hold about the same number of values. A single system proves nothing in general, but there
# is a reason for this result: if a node is never measured, its edges are visible only through their effect on other
# nodes.
#
# ``predict`` returns the outputs that Y had columns for.

for name, identifier in fits.items():
    print(f"{name}: predict returns {identifier.predict(X).shape}")
