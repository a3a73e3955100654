"""
What does a probability of 0.7 mean?
====================================

It should mean that out of ten pairs with probability 0.7, seven are edges. If the true graph is known, this can be
checked by counting. We identify sixteen small systems, pool their hidden pairs, and compare the probabilities with the
truth.
"""

# %%
# Sixteen systems
# ---------------
# The graphs have 12 nodes and each pair is an edge with probability 0.25. Half of the pairs are hidden, the process is
# heat diffusion, and there are only three experiments, so that much stays uncertain. The prior has the true probability
# of an edge. Many of the fits warn that another run would decide some pairs differently. This is intended here, so the
# warnings are suppressed.

import warnings

import networkx as nx
from sklearn.exceptions import ConvergenceWarning

from sklearn_graphid import AdamSystemIdentifier, ErdosRenyiPrior, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system

networks = [nx.to_numpy_array(nx.gnp_random_graph(12, 0.25, seed=seed)) for seed in range(16)]
sampled, optimised = [], []
for seed, network in enumerate(networks):
    X, Y = make_system(
        network, "heat", theta=[0.5], n_experiments=3, noise_std=1.0, random_state=seed
    )
    known = hide_edges(network, fraction=0.5, random_state=seed)
    sampler = LangevinSystemIdentifier(
        "heat", ErdosRenyiPrior(0.25), n_chains=8, n_levels=10, random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        sampled.append(sampler.fit(X, Y, known))
    optimised.append(AdamSystemIdentifier("heat", random_state=seed).fit(X, Y, known))

# %%
# One of the systems
# ------------------
# Wide lines are probable edges, and thin lines are uncertain ones. The matrix shows the probability of every hidden
# pair.

import matplotlib.pyplot as plt

from sklearn_graphid.plotting import AdjacencyDisplay, EdgeCalibrationDisplay, GraphDisplay

figure, (graph_ax, matrix_ax) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
GraphDisplay.from_estimator(sampled[1], true_adjacency=networks[1], ax=graph_ax)
AdjacencyDisplay.from_estimator(sampled[1], true_adjacency=networks[1], ax=matrix_ax)
graph_ax.set_title("Inferred edges")
matrix_ax.set_title("Probability of every hidden pair")
plt.show()

# %%
# All systems
# -----------
# Each point is a bin of pairs. The horizontal axis is the probability the pairs were given, and the vertical axis is
# the share of them that are edges. On the diagonal the two agree. Maximum likelihood also gives numbers between 0 and
# 1, but they are not probabilities, as its curve shows.

# sphinx_gallery_thumbnail_number = 2
display = EdgeCalibrationDisplay.from_estimator(sampled, networks, n_bins=8, name="sampling")
EdgeCalibrationDisplay.from_estimator(
    optimised,
    networks,
    n_bins=8,
    name="maximum likelihood",
    ax=display.ax_,
    color="#D55E00",
    marker="s",
)
plt.show()
