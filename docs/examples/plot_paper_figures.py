"""
The paper's figures, reproduced and beaten
==========================================

Sevilla and Segarra, *Bayesian topology inference on partially known networks from input-output pairs* (ICASSP 2024),
identify grids with a polynomial filter, and ego-nets on which heat spreads, from 1, 5, 10 and 15 experiments.
They report the mean F1 score of the hidden edges and the mean error of theta. Here are their figures, the same methods
run by this package, and this package's defaults.
"""

# %%
# What was published, and what was measured
# -----------------------------------------
# The published figures were read from the paper's plots. The measured ones are those of ``benchmarks/bench_paper.py``,
# which takes hours and keeps every run in a file of the repository. Its graphs were used neither to train a prior nor
# to choose a setting. The oracle is told the true network, and estimates theta alone.

import pandas as pd

published = pd.read_csv("../../benchmarks/results/published.csv", index_col=[0, 1, 2])  # K = 1, 5, 10 and 15
runs = pd.read_json("../../benchmarks/results/paper.jsonl", lines=True)  # a line is a method on a graph
measured = runs.groupby(["experiment", "method", "K"])[["f1", "theta_nrmse"]].agg(["mean", "sem", "size"])

# %%
# Side by side
# ------------
# Filled marks with bars are measured, means with standard errors; hollow marks are published. Where the two lie on top
# of one another, a figure of the paper is reproduced. The solid line is this package's default.

import matplotlib.pyplot as plt

LOOKS = {
    "ours": ("this package's default", "#0072B2", "o", "-"),
    "paper": ("the paper's method", "#D55E00", "s", "--"),
    "adam": ("its baseline Adam", "#CC79A7", "D", "-."),
    "likelihood": ("its baseline without a prior", "#009E73", "^", ":"),
    "oracle": ("oracle, told the network", "black", "*", (0, (1, 3))),
}
experiments = {"grids": "Grids, a quarter hidden, polynomial filter", "deezer": "Ego-nets, half hidden, heat"}
measures = {
    "f1": "F1 score of the hidden edges\n(higher is better)",
    "theta_nrmse": "error of theta\n(lower is better)",
}
figure, axes = plt.subplots(2, 2, figsize=(11, 8.2), layout="constrained", sharex=True)
for (experiment, title), row in zip(experiments.items(), axes, strict=True):
    for (measure, label), ax in zip(measures.items(), row, strict=True):
        for method, (name, color, marker, line) in LOOKS.items():
            points = measured.loc[experiment, method][measure].dropna()
            if len(points):
                look = {"color": color, "marker": marker, "linestyle": line, "linewidth": 1.6, "capsize": 3}
                ax.errorbar(points.index, points["mean"], points["sem"], label=name, **look)
            if (experiment, method, measure) in published.index:
                hollow = {"linestyle": "none", "marker": marker, "markersize": 10, "markeredgecolor": color}
                ax.plot((1, 5, 10, 15), published.loc[experiment, method, measure], markerfacecolor="none", **hollow)
        ax.set(title=title, ylabel=label, xticks=(1, 5, 10, 15))
        ax.spines[["top", "right"]].set_visible(False)
    row[0].set_ylim(0, 1.03)
    row[1].set_yscale("log")
    row[1].set_yticks([0.03, 0.1, 0.3, 1], ["0.03", "0.1", "0.3", "1"])
    row[1].minorticks_off()
    row[1].set_ylim(0.02, 1.6)
for ax in axes[1]:
    ax.set_xlabel("experiments")
handles, labels = axes[0, 1].get_legend_handles_labels()
handles += ax.plot([], [], "o", color="black", markerfacecolor="none", markersize=10)
figure.legend(handles, [*labels, "large and hollow: published"], loc="outside lower center", ncols=3, frameon=False)
plt.show()

# %%
# How many graphs each mean is made of:

sizes = measured["theta_nrmse"]["size"].unstack("K").loc[(slice(None), list(LOOKS)), :]
sizes

# %%
# The package samples binary graphs, uses sixteen chains instead of one, and estimates the noise level, which the paper
# takes as known. :doc:`/method` says what each of these buys.
#
# One of them, run now
# --------------------
# A grid from the same recipe, five experiments, by the default method and by the baseline.

from sklearn_graphid import AdamSystemIdentifier, LangevinSystemIdentifier, load_prior
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system
from sklearn_graphid.metrics import edge_f1_score

network = make_grid_graphs(1, random_state=1)[0]
known = hide_edges(network, fraction=0.25, random_state=0)
X, Y = make_system(network, "polynomial", theta=[0.03, -0.05, 0.08], n_experiments=5, random_state=0)
for name, identifier in (
    ("default", LangevinSystemIdentifier("polynomial", load_prior("grids"), random_state=0)),
    ("Adam", AdamSystemIdentifier("polynomial", random_state=0)),
):
    identifier.fit(X, Y, known)
    print(f"{name}: F1 score {edge_f1_score(network, identifier.adjacency_, known):.2f}")
