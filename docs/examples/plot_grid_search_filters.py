"""
Choosing the process by cross-validation
========================================

The identifier needs to know what kind of process runs on the graph. If you do not know, try several kinds and see which
one best predicts experiments that it was not fitted to. ``GridSearchCV`` does this.
"""

# %%
# A system whose process is treated as unknown
# --------------------------------------------
# The process is a polynomial of order 2, but the search does not use this.

import networkx as nx

from sklearn_graphid.datasets import hide_edges, make_system

network = nx.to_numpy_array(nx.grid_2d_graph(4, 5))
X, Y = make_system(
    network, "polynomial", theta=[0.6, 0.3, -0.15], n_experiments=30, random_state=0
)
known = hide_edges(network, fraction=0.25, random_state=0)

# %%
# The search
# ----------
# The arguments of a filter are set through ``filter__``. ``known`` is a ``KnownEdges``, which cross-validation passes
# to every fit unchanged; a plain array could be sliced. The score is R², the share of the variance of the outputs, over
# all nodes together, that is explained in the experiments that were left out.
#
# A polynomial of order 3 includes all polynomials of order 2, and predicts about as well. So we list the candidates
# from simple to complex, and take the first whose score is within one standard error of the best. A wrong filter gives
# warnings: its noise is above the error of ridge regression, its residuals depend on the inputs, or its chains
# disagree. The scores show the same, so these warnings are suppressed here.

import warnings

import numpy as np
from sklearn.model_selection import GridSearchCV

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.filters import ARMAFilter, HeatDiffusionFilter, PolynomialFilter

candidates = [
    {"filter": [PolynomialFilter()], "filter__order": [0, 1, 2, 3]},
    {"filter": [HeatDiffusionFilter()]},
    {"filter": [ARMAFilter()]},
]


def first_good_enough(results):
    mean = results["mean_test_score"]
    best = mean.argmax()
    return int(np.argmax(mean >= mean[best] - results["std_test_score"][best] / np.sqrt(3)))


identifier = LangevinSystemIdentifier(n_chains=8, n_levels=10, random_state=0)
search = GridSearchCV(identifier, candidates, cv=3, refit=first_good_enough)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)
    search.fit(X, Y, known_mask=known)
print("chosen:", search.best_params_)

# %%
# The result
# ----------
# Each point is a fold, and each bar is the mean over folds.

import matplotlib.pyplot as plt

results = search.cv_results_
names = [f"polynomial,\norder {order}" for order in range(4)] + ["heat", "ARMA (1, 1)"]
folds = np.array([results[f"split{fold}_test_score"] for fold in range(3)])
figure, ax = plt.subplots(figsize=(7.5, 4), layout="constrained")
bars = ax.bar(names, folds.mean(0), color="#BBBBBB")
bars[search.best_index_].set_color("#0072B2")
for scores in folds:
    ax.plot(names, scores, "o", color="black", markersize=4)
ax.axhline(0, color="black", linewidth=0.8)
ax.set(
    ylabel="R² on experiments left out",
    title="The chosen filter is blue; the truth is a polynomial of order 2",
)
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The search has refitted the chosen filter to all experiments, so the result can be used like any other identifier.

from sklearn_graphid.metrics import edge_f1_score

best = search.best_estimator_
print(f"theta {best.theta_.round(2)}, truth 0.6, 0.3, -0.15")
print(f"F1 score of the hidden edges: {edge_f1_score(network, best.adjacency_, known):.2f}")
