"""
Your own filter in ten lines
============================

How do opinions settle in a social network? In the model of Friedkin and Johnsen, everyone keeps averaging what they
hear from their neighbours, but stays attached to their first opinion with some stubbornness :math:`s`. In the end

.. math:: y = s \\, (I - (1 - s) D^{-1} A)^{-1} x

where :math:`x` are the first opinions and :math:`D` holds the numbers of neighbours. The package does not include this
process, but it accepts any function that torch can differentiate.
"""

# %%
# The filter
# ----------
# The function takes the adjacency matrix and theta, and returns the matrix that maps inputs to outputs.

import torch

from sklearn_graphid.filters import CallableFilter


def settled_opinions(adjacency, theta):
    listening = adjacency / adjacency.sum(1, keepdim=True).clamp_min(1)
    identity = torch.eye(len(adjacency), dtype=adjacency.dtype)
    return theta[0] * torch.linalg.inv(identity - (1 - theta[0]) * listening)


opinions = CallableFilter(
    settled_opinions, names=("stubbornness",), limits=((0.01, 1.0),), initial=((0.2, 0.8),)
)

# %%
# Use the filter
# --------------
# The graph is real: marriages between families of Florence in the fifteenth century, which come with networkx. The
# opinions are simulated. No pair is known, so all 105 have to be found.

import networkx as nx

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.metrics import edge_f1_score

marriages = nx.florentine_families_graph()
X, Y = make_system(
    marriages, opinions, theta=[0.4], n_experiments=30, noise_std=0.3, random_state=0
)
identifier = LangevinSystemIdentifier(opinions, random_state=0).fit(X, Y)

print(
    f"stubbornness {identifier.theta_[0]:.3f} give or take {identifier.theta_std_[0]:.3f}; the truth is 0.400"
)
print(f"F1 score of the edges: {edge_f1_score(marriages, identifier.adjacency_):.2f}")

# %%
# The inferred marriages
# ----------------------

import matplotlib.pyplot as plt

from sklearn_graphid.plotting import GraphDisplay

figure, ax = plt.subplots(figsize=(6.5, 6.5), layout="constrained")
look = {"node_names": list(marriages), "node_labels": True}
GraphDisplay.from_predictions(
    identifier.edge_probabilities_, true_adjacency=marriages, ax=ax, **look
)
ax.set_title("Marriages, inferred from how opinions settle")
plt.show()
