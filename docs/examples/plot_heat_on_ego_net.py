"""
Heat in a circle of friends
===========================

An ego-net is a person, all their friends, and the friendships among these friends. Such graphs look alike: one node is
connected with all others, and some of these form small circles. With a prior that knows this, fewer measurements are
needed.
"""

# %%
# An ego-net, half of it hidden
# -----------------------------
# The graph is made up: three circles in which most people know one another, six people who belong to no circle, and one
# person who knows everybody. Something spreads on it like heat, for an unknown time theta. There are five experiments.

import networkx as nx

from sklearn_graphid.datasets import hide_edges, make_system

circles = nx.random_partition_graph([5, 4, 3, 1, 1, 1, 1, 1, 1], 0.7, 0.02, seed=1)
friends = list(circles)
ego_net = nx.Graph(circles.edges)
ego_net.add_edges_from(("ego", friend) for friend in friends)
network = nx.to_numpy_array(ego_net, nodelist=["ego", *friends])

X, Y = make_system(network, "heat", theta=[0.5], n_experiments=5, random_state=1)
known = hide_edges(network, fraction=0.5, random_state=1)
print(known)

# %%
# With and without a prior
# ------------------------
# "deezer-ego-nets" was trained on 2,626 ego-nets of users of a music service. Without a prior, the only assumption is
# that hidden pairs are edges as often as known ones. The data then do not determine some of the pairs, and the fit
# warns about this.

from sklearn_graphid import LangevinSystemIdentifier, load_prior

fits = {
    "without a prior": LangevinSystemIdentifier("heat", random_state=0).fit(X, Y, known),
    "with the prior": LangevinSystemIdentifier(
        "heat", load_prior("deezer-ego-nets"), random_state=0
    ).fit(X, Y, known),
}

# %%
# The same data, with two results
# -------------------------------
# The ego is in the middle. Both figures also show the truth: a dashed edge exists but was missed, and a crossed edge
# was inferred but does not exist.

import matplotlib.pyplot as plt

from sklearn_graphid.metrics import edge_f1_score
from sklearn_graphid.plotting import GraphDisplay

around = nx.circular_layout(friends)
positions = {0: (0.0, 0.0)} | {
    1 + place: around[friend] for place, friend in enumerate(friends)
}
figure, axes = plt.subplots(1, 2, figsize=(11, 6), layout="constrained")
for (name, identifier), ax in zip(fits.items(), axes, strict=True):
    GraphDisplay.from_estimator(identifier, true_adjacency=network, pos=positions, ax=ax)
    f1 = edge_f1_score(network, identifier.adjacency_, known)
    ax.set_title(f"{name}: F1 {f1:.2f}, theta {identifier.theta_[0]:.2f} (truth 0.50)")
plt.show()

# %%
# The prior fits this graph because we made it similar to the training graphs. The example on the karate club shows what
# happens if a prior does not fit.
