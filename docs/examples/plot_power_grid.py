"""
Lines of a power grid, from voltage angles
==========================================

The grid is the IEEE test case of New England, with 39 buses and 46 lines and transformers. Its data are those of a real
grid, and it is simulated by pandapower, a program that engineers use to plan grids. For most pairs of buses we know
whether a line connects them, and we look for the others: vary the power a little at every bus, and measure how the
angles change.

It needs ``pip install "sklearn-graphid[real]"``.
"""

# %%
# The experiments
# ---------------
# There are fifty experiments, with noise of 1% of the angles' changes. 30% of the pairs are hidden, lines and non-lines
# alike. Without noise, DC power flow is a :class:`~sklearn_graphid.filters.SteadyStateFilter` with the slack bus as its
# ground: angles correspond to voltages, and power to currents. But lines differ: the strongest has more than twenty
# times the susceptance of the weakest.

from sklearn_graphid.datasets import hide_edges, make_power_grid

grid = make_power_grid("case39", n_experiments=50, noise=0.01, random_state=0)
known = hide_edges(grid.adjacency, fraction=0.3, random_state=0)
weights = grid.weights[grid.adjacency > 0]
rows, columns = known.unknown_pairs()
print(
    f"{len(grid.X)} experiments, {len(grid.adjacency)} buses, the slack bus is {grid.node_names[grid.ground]}"
)
print(f"{len(rows)} hidden pairs, {grid.adjacency[rows, columns].sum():.0f} of them lines")
print(f"susceptances from {weights.min():.0f} to {weights.max():.0f} per unit")

# %%
# Three methods
# -------------
# The first method assumes that all lines are equally strong, which is wrong here. Least squares gives each line its own
# strength. So does sampling with ``edge_weights="positive"``, which also estimates the uncertainty of every line and of
# its strength.

from sklearn_graphid import ConstrainedLeastSquaresIdentifier, LangevinSystemIdentifier
from sklearn_graphid.filters import SteadyStateFilter
from sklearn_graphid.metrics import edge_f1_score, edge_roc_auc_score

process = SteadyStateFilter(ground=grid.ground)
fits = {
    "all lines alike": LangevinSystemIdentifier(process, n_chains=8, random_state=0),
    "least squares": ConstrainedLeastSquaresIdentifier(process),
    "strengths": LangevinSystemIdentifier(
        process, edge_weights="positive", n_chains=8, random_state=0
    ),
}
for name, identifier in fits.items():
    identifier.fit(grid.X, grid.Y, known)
    f1 = edge_f1_score(grid.adjacency, identifier.adjacency_, known)
    area = edge_roc_auc_score(grid.adjacency, identifier.edge_probabilities_, known)
    print(f"{name}: F1 score {f1:.2f}, area under the ROC curve {area:.2f}")

# %%
# The first method warned that something is wrong: ridge regression, which uses no graph, predicts better. Its estimate
# of the noise is also many times the noise that was added. With strengths, the noise level is right.

print(f"noise added {grid.noise_std:.5f} radians")
for name in ("all lines alike", "strengths"):
    print(f"noise found, {name}: {fits[name].noise_std_:.5f}")

# %%
# Where lines were found, and how strong
# --------------------------------------
# Stronger lines are drawn wider. No strength was given, so the unit of ``weights_`` is their geometric mean. Divided by
# the filter's scale ``theta_``, they are susceptances.

import matplotlib.pyplot as plt
import numpy as np

from sklearn_graphid.plotting import GraphDisplay

sampled, least_squares = fits["strengths"], fits["least squares"]
figure, (left_ax, right_ax) = plt.subplots(
    1, 2, figsize=(12, 5.5), layout="constrained", width_ratios=(1.6, 1)
)
positions = dict(enumerate(grid.positions))
GraphDisplay.from_estimator(sampled, true_adjacency=grid.adjacency, pos=positions, ax=left_ax)
left_ax.set_title("Hidden lines, by sampling")

is_found = (grid.adjacency[rows, columns] > 0) & (sampled.adjacency_[rows, columns] > 0)
lines = rows[is_found], columns[is_found]
true = grid.weights[lines]
right_ax.plot([0, true.max()], [0, true.max()], color="black", linewidth=0.8)
right_ax.plot(true, least_squares.weights_[lines], "x", color="#D55E00", label="least squares")
scale = sampled.theta_[0]
low, high = np.moveaxis(sampled.weight_interval(0.9)[lines] / scale, -1, 0)
found = sampled.weights_[lines] / scale
right_ax.errorbar(
    true,
    found,
    (found - low, high - found),
    fmt="o",
    color="#0072B2",
    label="sampling, 90% interval",
)
right_ax.set(xlabel="true susceptance", ylabel="susceptance found")
right_ax.set_title("Hidden lines, their strengths")
right_ax.legend(frameon=False)
right_ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Least squares underestimates the strengths. In its equations they are multiplied by differences between angles, which
# include noise, and larger differences lead to smaller strengths. The strongest lines are affected most, because the
# angles at their ends are nearly the same. Sampling models the noise in the angles, where it actually occurs.
#
# From DC to AC
# -------------
# In the real grid, power flow is not linear: lines have losses, and voltages sag. pandapower simulates this too. We
# apply the same two methods to data that do not quite follow their model:

alternating = make_power_grid("case39", n_experiments=50, flow="ac", noise=0.01, random_state=0)
for name in ("least squares", "strengths"):
    refitted = fits[name].fit(alternating.X, alternating.Y, known)
    print(
        f"AC power flow, {name}: F1 score {edge_f1_score(grid.adjacency, refitted.adjacency_, known):.2f}"
    )

# %%
# Sampling warned that its model is not quite right. It detects this at pairs of buses that are known to have no line
# between them: the residuals there are more than noise, and look like lines. The same must happen at hidden pairs, so
# evidence is discounted by that factor. If the noise level is given, nothing is discounted, and spurious weak lines
# make up for what the model cannot explain:

print(f"discounted by {refitted.diagnostics_['misfit']:.1f}")
believing = LangevinSystemIdentifier(
    process, edge_weights="positive", noise_std=refitted.noise_std_, n_chains=8, random_state=0
)
believing.fit(alternating.X, alternating.Y, known)
is_false = (believing.adjacency_[rows, columns] == 1) & (grid.adjacency[rows, columns] == 0)
susceptances = believing.weights_[rows, columns][is_false] / believing.theta_[0]
print(f"F1 score {edge_f1_score(grid.adjacency, believing.adjacency_, known):.2f}")
print(
    f"{is_false.sum()} false lines of susceptances {np.sort(susceptances).round(1)}, true: {weights.min():.0f} or more"
)
