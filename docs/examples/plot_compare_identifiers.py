"""
Comparing all methods
=====================

Seven methods for finding a graph have the same ``fit`` and the same results. ``compare_identifiers`` runs any of them
on many systems and tabulates how well they did. You can also use it to compare a method of your own with the others,
or to see how many experiments *your* kind of system needs before you measure anything.
"""

# %%
# Systems whose true graph is known
# ---------------------------------
# The systems are small grids of 16 to 25 nodes, with a quarter of the pairs hidden, a weak polynomial process, and 5,
# 15 or 60 experiments. There are four graphs for each: enough to see large differences, but too few for the second
# digit.

from sklearn_graphid import System
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system

grids = make_grid_graphs(4, min_nodes=16, max_nodes=25, min_side=4, max_side=5, random_state=3)
theta = [-0.035, 0.097, -0.036]
systems = []
for seed, network in enumerate(grids):
    known = hide_edges(network, fraction=0.25, random_state=seed)
    for n_experiments in (5, 15, 60):
        X, Y = make_system(network, "polynomial", theta, n_experiments, random_state=seed)
        systems.append(
            System(X, Y, known, true_adjacency=network, true_theta=theta, name=f"grid {seed}")
        )

# %%
# The methods
# -----------
# Three of the methods use the filter to find the graph, and four take other approaches; see :doc:`/guide/competitors`.
# All are given the same known pairs.

from sklearn_graphid import (
    AdamSystemIdentifier,
    GraphicalLassoIdentifier,
    LangevinSystemIdentifier,
    RidgeSystemIdentifier,
    RobustFilterIdentifier,
    SmoothSignalIdentifier,
    compare_identifiers,
    load_prior,
)

methods = {
    "sampling, prior for grids": LangevinSystemIdentifier(
        "polynomial", load_prior("grids"), n_chains=8, random_state=0
    ),
    "sampling, no prior": LangevinSystemIdentifier("polynomial", n_chains=8, random_state=0),
    "maximum likelihood": AdamSystemIdentifier("polynomial", random_state=0),
    "robust filter": RobustFilterIdentifier("polynomial"),
    "ridge": RidgeSystemIdentifier("polynomial"),
    "graphical lasso": GraphicalLassoIdentifier("polynomial"),
    "smooth signals": SmoothSignalIdentifier("polynomial"),
}
rows = compare_identifiers(methods, systems)

# %%
# The figure
# ----------
# The figure shows means over the graphs, with standard errors. Both measures are computed on the hidden pairs only.

import matplotlib.pyplot as plt

from sklearn_graphid.plotting import ComparisonDisplay

ComparisonDisplay(frame=rows).plot(measures=["edge_f1", "edge_roc_auc"])
plt.show()

# %%
# With few experiments the prior helps. With many, all methods that use the filter are right. The method for smooth
# signals stays at one half throughout: on these grids the outputs of connected nodes are no more alike than those of
# others, and so it gives every pair the same probability.
#
# The table
# ---------
# ``rows`` is a pandas table with a row for every fit: what the method found, its warnings, and the error if it failed.
# Means and standard errors (``sem``) take one line.

groups = rows.groupby(["method", "n_experiments"], sort=False)
groups[["edge_f1", "theta_nrmse"]].agg(["mean", "sem"]).round(2)

# %%
# Methods also differ in run time. The fastest take hundredths of a second, so you can try them on everything before you
# start sampling.

rows.groupby("method")["seconds"].mean().sort_values().round(2)
