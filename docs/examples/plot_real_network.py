"""
A real network, and a prior that does not fit it
================================================

Zachary's karate club is the network of friendships among 34 members of a university club in the 1970s. It comes with
networkx. **The network is real; the signals on it are simulated.** We hide a quarter of its pairs, and identify it
twice: once using only the share of edges among the known pairs, and once with a prior that was trained on networks of
another kind.
"""

# %%
# The club
# --------

import networkx as nx

from sklearn_graphid.datasets import hide_edges, make_system

club = nx.karate_club_graph()
network = nx.to_numpy_array(club, weight=None)
X, Y = make_system(network, "heat", theta=[0.3], n_experiments=30, random_state=0)
known = hide_edges(network, fraction=0.25, random_state=0)
print(known)

# %%
# Two priors
# ----------
# The shipped prior "deezer-ego-nets" was also trained on friendships. But each of *its* networks was cut out around one
# person, who is connected with everybody. The club has no such person: its two leaders, 0 and 33, each know half of it.

from sklearn_graphid import LangevinSystemIdentifier, load_prior

fits = {
    "share of edges only": LangevinSystemIdentifier("heat", n_chains=8, random_state=0),
    "prior for ego-nets": LangevinSystemIdentifier(
        "heat", load_prior("deezer-ego-nets"), prior_trust=1.0, n_chains=8, random_state=0
    ),
}
for identifier in fits.values():
    identifier.fit(X, Y, known)

# %%
# The results
# -----------

import matplotlib.pyplot as plt

from sklearn_graphid.metrics import edge_f1_score
from sklearn_graphid.plotting import GraphDisplay

positions = {node: (y, x) for node, (x, y) in nx.kamada_kawai_layout(club, weight=None).items()}
figure, axes = plt.subplots(2, 1, figsize=(8, 10), layout="constrained")
for (name, identifier), ax in zip(fits.items(), axes, strict=True):
    GraphDisplay.from_estimator(identifier, true_adjacency=network, pos=positions, ax=ax)
    ax.set_title(f"{name}: F1 {edge_f1_score(network, identifier.adjacency_, known):.2f}")
    for leader in (0, 33):
        look = {
            "fontweight": "bold",
            "bbox": {"boxstyle": "round,pad=0.15", "facecolor": "white", "linewidth": 0.5},
        }
        ax.annotate(
            f"leader {leader}",
            positions[leader],
            xytext=(9, 9),
            textcoords="offset points",
            **look,
        )
plt.show()

# %%
# How to interpret the results
# ----------------------------

for name, identifier in fits.items():
    false = [
        (i, j)
        for i, j in zip(*known.unknown_pairs(), strict=True)
        if identifier.adjacency_[i, j] > network[i, j]
    ]
    at_leaders = sum(not {i, j}.isdisjoint({0, 33}) for i, j in false)
    print(f"{name}: false edges {len(false)}, at a leader {at_leaders}")
    print(
        f"  theta {identifier.theta_[0]:.3f} give or take {identifier.theta_std_[0]:.3f}; the truth is 0.300"
    )
    print(
        f"  R-hat of the log-likelihood {identifier.diagnostics_['r_hat_log_likelihood']:.1f}"
    )

# %%
# The prior for ego-nets expects somebody who knows everybody. It picks the two leaders, and gives them friends they do
# not have. More edges carry heat faster, so its theta is too low, by more than its own uncertainty. **A prior that does
# not fit is worse than none.**
#
# Could we have known? The prior can measure how far the known part of a graph is from the graphs it was trained on, in
# standard deviations:

prior = load_prior("deezer-ego-nets").estimator
print(f"surprise {prior.surprise(known):.1f}")

# %%
# Values up to 3 are usual, and above 5 the identifier warns, as it did here. For values in between, look carefully at
# where the prior comes from, and at the edges that it finds and ``prior=None`` does not.
#
# Here we used the prior at full trust, with ``prior_trust=1.0``. By default, the identifier samples how far to trust
# the prior, according to how well it would have predicted the known pairs:

discounted = LangevinSystemIdentifier(
    "heat", load_prior("deezer-ego-nets"), n_chains=8, random_state=0
)
discounted.fit(X, Y, known)
print(
    f"trust {discounted.prior_trust_:.2f}, F1 {edge_f1_score(network, discounted.adjacency_, known):.2f}"
)

# %%
# An R-hat well above 1 means that chains are in different graphs, which explain the data about equally well, and seldom
# move between them; the probabilities are averages over the chains. Edges that all chains agree on are safe, but do not
# read much into the second digit of the other probabilities.
