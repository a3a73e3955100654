"""
Did the run mix?
================

You can trust a run if another one, from other starting points, would give the same result. The chains of one run start
in different places, so their differences show how much another run would differ. The package bases its warnings on
this.
"""

# %%
# One system, a short run and a long one
# --------------------------------------
# The process is weak and there are six experiments, so the outputs carry little information and the chains need time.
# The short run has four chains with eight sweeps each, the long run sixteen chains with a hundred.

import warnings

import networkx as nx

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system

theta = [-0.035, 0.097, -0.036]
network = nx.to_numpy_array(nx.grid_2d_graph(5, 5))
X, Y = make_system(network, "polynomial", theta, n_experiments=6, random_state=0)
known = hide_edges(network, fraction=0.25, random_state=0)


def run(n_chains, n_sweeps, random_state):
    settings = {"n_chains": n_chains, "n_sweeps": n_sweeps, "random_state": random_state}
    return LangevinSystemIdentifier("polynomial", **settings).fit(X, Y, known)


with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    short = run(4, 8, random_state=0)
print(*(warning.message for warning in caught), sep="\n")

# %%
# The warning says what to do. The expected number of pairs that another run would change is in ``diagnostics_`` and in
# the report, which also recommends a number of chains. The long run gives no warning.

long = run(16, 100, random_state=0)

# %%
# In numbers
# ----------
# ``n_changes_expected`` is the expected number of pairs that another run would put on the other side of one half. R-hat
# compares the variation between chains with the variation within a chain; near 1, every chain has explored the whole
# posterior. It may stay above 1 although the result is good, because the *average* of many chains can be right even if
# each chain has explored only a part.

for name, fitted in (("short", short), ("long", long)):
    changes = fitted.diagnostics_["n_changes_expected"]
    error = fitted.diagnostics_["monte_carlo_error_edges"].max()
    r_hat = fitted.diagnostics_["r_hat_log_likelihood"]
    print(
        f"{name}: {changes:.1f} changes expected, largest error of a probability {error:.2f}, R-hat {r_hat:.2f}"
    )

# %%
# Check it by running again
# -------------------------
# Four chains are too few to measure well how much chains differ, so the forecast of a single run is rough.

from itertools import combinations

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # most of them give warnings as well
    others = [run(4, 8, seed) for seed in range(1, 5)]
counts = [
    abs(one.adjacency_ - other.adjacency_).sum() / 2
    for one, other in combinations([short, *others], 2)
]
print(
    f"five short runs: two of them differ in {sum(counts) / len(counts):.1f} pairs on average"
)
expected = [fitted.diagnostics_["n_changes_expected"] for fitted in [short, *others]]
print(f"each of them alone expected {min(expected):.1f} to {max(expected):.1f}")

# %%
# In figures
# ----------
# Each thin line is a chain. In the short run, the chains have barely met when it ends.

import matplotlib.pyplot as plt

from sklearn_graphid.plotting import TraceDisplay

# sphinx_gallery_thumbnail_number = 2
TraceDisplay.from_estimator(short, true_theta=theta)
plt.show()

# %%
# In the long run they move through the same range again and again, and the final draws no longer depend on where a
# chain started.

TraceDisplay.from_estimator(long, true_theta=theta)
plt.show()

# %%
# What a longer run changes
# -------------------------
# The bars show the Monte Carlo error of a probability: two standard errors, estimated from how much the chains differ.

rows, columns = known.unknown_pairs()
figure, ax = plt.subplots(figsize=(4.6, 4.6), layout="constrained")
ax.plot([0, 1], [0, 1], color="#999999", linestyle=":")
ax.errorbar(
    short.edge_probabilities_[rows, columns],
    long.edge_probabilities_[rows, columns],
    xerr=2 * short.diagnostics_["monte_carlo_error_edges"][rows, columns],
    yerr=2 * long.diagnostics_["monte_carlo_error_edges"][rows, columns],
    fmt="o",
    markersize=4,
    color="#0072B2",
    elinewidth=0.8,
)
ax.set(
    xlabel="probability of an edge, short run",
    ylabel="probability of an edge, long run",
    aspect="equal",
)
ax.set(xlim=(-0.05, 1.05), ylim=(-0.05, 1.05))
ax.spines[["top", "right"]].set_visible(False)
plt.show()
