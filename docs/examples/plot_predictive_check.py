"""
Does the fit predict new experiments?
=====================================

A posterior predictive check predicts the outputs of experiments that were not part of the fit, and compares them with
the measurements. If the model is right, one output in ten lies outside a band of 90 %, at every node.
"""

# %%
# A system, and a sensor that becomes noisy
# -----------------------------------------
# Heat spreads on a grid of 20 nodes. Of 60 experiments, 30 are used for the fit. In the other 30, the sensor of one
# node is three times as noisy as before.

import networkx as nx
import numpy as np

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system

network = nx.to_numpy_array(nx.grid_2d_graph(4, 5))
X, Y = make_system(
    network, "heat", theta=[0.4], n_experiments=60, noise_std=0.5, random_state=0
)
Y[30:, 7] += np.random.default_rng(0).normal(0, 1.5, size=30)
known = hide_edges(network, fraction=0.25, random_state=0)
identifier = LangevinSystemIdentifier("heat", n_chains=8, random_state=0).fit(
    X[:30], Y[:30], known
)

# %%
# Every draw from the posterior is a graph, a theta and a noise level. The band is computed from all draws, so it is
# wide where the graph is uncertain. The lower panels show all nodes: the node with the noisy sensor stands out.

import matplotlib.pyplot as plt

from sklearn_graphid.plotting import PredictiveCheckDisplay

display = PredictiveCheckDisplay.from_estimator(identifier, X[30:], Y[30:])
plt.show()

# %%
# The numbers are attributes of the display.

for node in np.flatnonzero(display.conspicuous_):
    print(f"node {node}: {display.share_outside_[node]:.0%} outside, 10% expected")

# %%
# A wrong filter
# --------------
# A polynomial of first order reaches only the neighbours of a node, while heat spreads further. What the polynomial
# cannot explain counts as noise, so the bands are wide and contain about as many outputs as they should. The width of
# the bands reveals the problem: compare noise levels, or use cross-validation with
# :func:`~sklearn_graphid.scorers.log_likelihood_scorer`.

import warnings

from sklearn_graphid.filters import PolynomialFilter

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the warning says that the filter is wrong
    wrong = LangevinSystemIdentifier(PolynomialFilter(order=1), n_chains=8, random_state=0)
    wrong.fit(X[:30], Y[:30], known)
checks = {
    "heat": display,
    "polynomial": PredictiveCheckDisplay.from_estimator(wrong, X[30:], Y[30:], kind="outputs"),
}
for name, check in checks.items():
    width = np.mean(check.upper_ - check.lower_)
    print(f"{name}: band {width:.1f} wide on average, {check.total_share_outside_:.0%} outside")
plt.show()
