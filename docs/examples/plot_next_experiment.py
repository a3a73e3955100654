"""
Which experiment next?
======================

An experiment is most informative if the systems that are still possible disagree about its outcome. ``suggest_inputs``
looks for such inputs. We identify graphs with inputs chosen one after the other, and with random inputs of the same
size, and compare how soon the hidden edges are found.
"""

# %%
# A loop in ten lines
# -------------------
# The graphs are small worlds of 16 nodes, with half of the pairs hidden and heat diffusion as the process. The
# laboratory is simulated. With ``warm_start``, every fit continues from the chains of the previous one, with one more
# experiment.

import warnings

import networkx as nx
import numpy as np
from scipy.linalg import expm
from sklearn.exceptions import ConvergenceWarning

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges
from sklearn_graphid.metrics import edge_f1_score

# After one or two experiments the chains cannot agree.
warnings.simplefilter("ignore", ConvergenceWarning)


def learn(seed, is_chosen, n_experiments=6):
    network = nx.to_numpy_array(nx.connected_watts_strogatz_graph(16, 4, 0.3, seed=seed))
    known, rng = (
        hide_edges(network, fraction=0.5, random_state=seed),
        np.random.default_rng(seed),
    )
    spread = expm(-0.5 * (np.diag(network.sum(0)) - network))
    identifier = LangevinSystemIdentifier(
        "heat", n_chains=8, warm_start=True, random_state=seed
    )
    X, Y, f1 = np.empty((0, 16)), np.empty((0, 16)), []
    for experiment in range(n_experiments):
        x = 10 * rng.choice([-1.0, 1.0], (1, 16))
        if is_chosen and experiment:
            x = identifier.suggest_inputs(low=-10, high=10, random_state=experiment)
        X, Y = np.vstack([X, x]), np.vstack([Y, x @ spread + rng.normal(size=(1, 16))])
        f1.append(edge_f1_score(network, identifier.fit(X, Y, known).adjacency_, known))
    return f1, identifier, network


# %%
# Chosen inputs compared with random ones
# ---------------------------------------
# There are six graphs, with the same hidden pairs, noise and first input for both methods. The random inputs also have
# full size, ten or minus ten at every node, so that the chosen inputs have no advantage in size.

import matplotlib.pyplot as plt

curves = {
    name: np.array([learn(seed, name == "chosen")[0] for seed in range(6)])
    for name in ("random signs", "chosen")
}
figure, ax = plt.subplots(figsize=(6, 4), layout="constrained")
for (name, f1), style in zip(curves.items(), ("o--", "s-"), strict=True):
    ax.errorbar(
        range(1, 7), f1.mean(0), f1.std(0) / np.sqrt(len(f1)), fmt=style, capsize=3, label=name
    )
ax.set(xlabel="experiments", ylabel="F1 of the hidden pairs")
ax.legend(frameon=False)
plt.show()

# %%
# Which node to drive
# -------------------
# Many laboratories can drive one node at a time. After two experiments, these nodes would be the most informative:

from sklearn_graphid.plotting import InformationDisplay

_, identifier, network = learn(0, is_chosen=True, n_experiments=2)
InformationDisplay.from_estimator(identifier, amplitude=10)
plt.show()
print(
    "drive node",
    int(np.abs(identifier.suggest_inputs(low=-10, high=10, max_nonzero=1)).argmax()),
)

# %%
# Alternatively, look up a pair. The first pairs in this table are uncertain themselves, and also decide about others:

identifier.suggest_pairs(5).round(2)
