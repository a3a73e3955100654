"""
The paper's figures, and three graphs of our own
================================================

The paper identifies 100 grids from 1, 5, 10 and 15 input-output pairs, and reports the mean F1 score of the hidden
links and the mean error of theta. Those figures are the lines. The marks are a small run of this package on **three**
grids from the same recipe: enough to see that it works, far too few for a comparison to the second digit. The scripts
in ``benchmarks/`` do it in full.
"""

# %%
# What was published
# ------------------
# Read from the plots of Sevilla and Segarra, *Bayesian topology inference on partially known networks from input-output
# pairs* (ICASSP 2024): grids of 40 to 49 nodes, a polynomial filter of order 2, a quarter of the pairs hidden.

import csv
import io

PUBLISHED = """method,metric,1,5,10,15
"Langevin, learned prior",F1,0.337,0.670,0.822,0.883
"Langevin, no prior",F1,0.176,0.344,0.528,0.649
Adam,F1,0.196,0.428,0.671,0.769
"Langevin, learned prior",error,0.554,0.202,0.131,0.116
"Langevin, no prior",error,0.710,0.360,0.249,0.196
Adam,error,1.256,0.580,0.244,0.181
"""
published = list(csv.DictReader(io.StringIO(PUBLISHED)))

# %%
# A small run
# -----------
# The package's default method with eight chains and its prior for grids, and its version of the Adam baseline. Theta is
# drawn as in the paper.

import numpy as np

from sklearn_graphid import AdamSystemIdentifier, LangevinSystemIdentifier, load_prior
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system
from sklearn_graphid.metrics import edge_f1_score, theta_nrmse

methods = {
    "this package": LangevinSystemIdentifier("polynomial", load_prior("grids"), n_chains=8, random_state=0),
    "this package's Adam": AdamSystemIdentifier("polynomial", random_state=0),
}
runs = []
for seed, network in enumerate(make_grid_graphs(3, random_state=1)):
    theta = np.random.default_rng(seed).uniform(-0.1, 0.1, size=3)
    known = hide_edges(network, fraction=0.25, random_state=seed)
    for n_pairs in (5, 15):
        X, Y = make_system(network, "polynomial", theta, n_pairs, random_state=seed)
        for method, identifier in methods.items():
            identifier.fit(X, Y, known)
            f1, error = edge_f1_score(network, identifier.adjacency_, known), theta_nrmse(theta, identifier.theta_)
            runs.append({"method": method, "n_pairs": n_pairs, "F1": f1, "error": error})

# %%
# Side by side
# ------------
# A mark is one graph. How hard a graph is depends on its theta, so the marks scatter; the published lines are means
# over a hundred.

import matplotlib.pyplot as plt

lines = {"Langevin, learned prior": "#0072B2", "Langevin, no prior": "#999999", "Adam": "#D55E00"}
marks = {"this package": ("#0072B2", "o", -0.25), "this package's Adam": ("#D55E00", "X", 0.25)}
figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
for metric, ax in zip(("F1", "error"), axes, strict=True):
    for row in published:
        if row["metric"] == metric:
            values = [float(row[n_pairs]) for n_pairs in ("1", "5", "10", "15")]
            ax.plot([1, 5, 10, 15], values, color=lines[row["method"]], label=f"{row['method']} (published)")
    for method, (color, marker, shift) in marks.items():
        chosen = [run for run in runs if run["method"] == method]
        x = [run["n_pairs"] + shift for run in chosen]
        ax.scatter(
            x, [run[metric] for run in chosen], color=color, marker=marker, zorder=3, label=f"{method} (3 graphs)"
        )
    ax.set(xlabel="input-output pairs", xticks=[1, 5, 10, 15])
    ax.spines[["top", "right"]].set_visible(False)
axes[0].set(title="F1 score of the hidden links (higher is better)", ylim=(0, 1.03))
axes[1].set(title="relative error of theta (lower is better)", ylim=(0, None))
axes[1].legend(frameon=False)
plt.show()

# %%
# The published lines and the marks differ in more than the number of graphs: the package samples binary graphs, uses
# eight chains here instead of one, and estimates the noise level, which the paper takes as known. The page on the
# method says what each of these buys.
