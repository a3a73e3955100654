"""
Pipes of a water network, from pressures
========================================

The example is a town's water network with 35 junctions, 40 pipes and a tank. It comes as example Net2 with EPANET, the
program of the United States Environmental Protection Agency, and is simulated by wntr, which is made for such networks.
Water drawn at a junction lowers the head (the pressure, as the height of a column of water) in many places. Which pipes
lie in the ground where the plans are missing?

It needs ``pip install "sklearn-graphid[real]"``.
"""

# %%
# The experiments
# ---------------
# Demands at all junctions change by up to a tenth of their mean. Friction in pipes grows almost with the square of the
# flow, but for such small changes the heads respond linearly, with the conductances of the pipes as weights. The tank's
# head is fixed, so the tank is the ground.

import numpy as np

from sklearn_graphid.datasets import hide_edges, make_water_network

water = make_water_network("Net2", n_experiments=50, noise=0.01, random_state=0)
known = hide_edges(water.adjacency, fraction=0.3, random_state=0)
weights = water.weights[water.adjacency > 0]
rows, columns = known.unknown_pairs()
print(
    f"{len(water.X)} experiments, {len(water.adjacency)} nodes, the ground is {water.node_names[water.ground]}"
)
print(f"{len(rows)} hidden pairs, {water.adjacency[rows, columns].sum():.0f} of them pipes")
print(
    f"conductances from {weights.min():.0f} to {weights.max():.0f} litres per second and metre"
)
print(
    f"heads change by {np.sqrt((water.Y**2).mean()) * 100:.1f} cm, measured to {water.noise_std * 1000:.2f} mm"
)

# %%
# Three methods
# -------------
# The methods are: all pipes alike, least squares with a conductance for each pipe, and sampling with strengths.

from sklearn_graphid import ConstrainedLeastSquaresIdentifier, LangevinSystemIdentifier
from sklearn_graphid.filters import SteadyStateFilter
from sklearn_graphid.metrics import edge_f1_score, edge_roc_auc_score

process = SteadyStateFilter(ground=water.ground)
fits = {
    "all pipes alike": LangevinSystemIdentifier(process, n_chains=8, random_state=0),
    "least squares": ConstrainedLeastSquaresIdentifier(process),
    "strengths": LangevinSystemIdentifier(
        process, edge_weights="positive", n_chains=8, random_state=0
    ),
}


def judge(name, fitted):
    f1 = edge_f1_score(water.adjacency, fitted.adjacency_, known)
    area = edge_roc_auc_score(water.adjacency, fitted.edge_probabilities_, known)
    print(f"{name}: F1 score {f1:.2f}, area under the ROC curve {area:.2f}")


for name, identifier in fits.items():
    judge(name, identifier.fit(water.X, water.Y, known))

# %%
# Why this is difficult
# ---------------------
# Conductances differ by a factor of several hundred. A pipe in which hardly any water flows has hardly any friction, so
# its ends always have nearly the same head, and noise hides the difference. Pipes with higher conductance are drawn
# wider.

import matplotlib.pyplot as plt

from sklearn_graphid.plotting import GraphDisplay

figure, (left_ax, right_ax) = plt.subplots(
    1, 2, figsize=(12, 5.5), layout="constrained", width_ratios=(1.3, 1)
)
positions = dict(enumerate(water.positions))
GraphDisplay.from_estimator(
    fits["strengths"], true_adjacency=water.adjacency, pos=positions, ax=left_ax
)
left_ax.set_title("Hidden pipes, by sampling with strengths")

first, second = np.nonzero(np.triu(water.adjacency))
difference = water.Y[:, first] - water.Y[:, second]
sizes = np.sqrt((difference**2).mean(axis=0)) / (np.sqrt(2) * water.noise_std)
right_ax.axhline(1, color="black", linewidth=0.8)
right_ax.plot(water.weights[first, second], sizes, "o", color="#0072B2", alpha=0.8)
right_ax.set(
    xscale="log",
    yscale="log",
    xlabel="conductance",
    ylabel="difference of the heads, in units of its noise",
)
right_ax.set_title("Pipes near the line are lost in the noise")
right_ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Better gauges find more pipes. Here the noise is a tenth of the above, with the same fifty experiments.

precise = make_water_network("Net2", n_experiments=50, noise=0.001, random_state=0)
judge(
    "a tenth of the noise, least squares",
    fits["least squares"].fit(precise.X, precise.Y, known),
)
