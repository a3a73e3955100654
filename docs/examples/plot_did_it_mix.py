"""
Did the run mix?
================

A run is to be believed when its chains, which start in different places, end up telling the same story. The traces show
it, and R-hat says it in a number.
"""

# %%
# One system, a short run and a long one
# --------------------------------------
# The process is weak, so the outputs say little and the chains need time. The short run takes one sweep over the
# unknown pairs at each of twenty noise levels. The long run takes fifteen.

import networkx as nx

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system

theta = [-0.035, 0.097, -0.036]
network = nx.to_numpy_array(nx.grid_2d_graph(5, 5))
X, Y = make_system(network, "polynomial", theta, n_pairs=10, random_state=0)
known = hide_edges(network, fraction=0.25, random_state=0)

short = LangevinSystemIdentifier("polynomial", n_chains=8, n_steps=1, random_state=0).fit(X, Y, known)
long = LangevinSystemIdentifier("polynomial", n_chains=8, n_steps=15, random_state=0).fit(X, Y, known)

# %%
# In numbers
# ----------
# R-hat compares how much chains differ among one another with how much each wanders. It should be below 1.1. The last
# third of the sweeps counts.

for name, run in (("short", short), ("long", long)):
    r_hat = run.diagnostics_["r_hat_log_likelihood"]
    size = run.diagnostics_["effective_sample_size_log_likelihood"]
    print(f"{name}: R-hat of the log-likelihood {r_hat:.2f}, worth {size:.0f} independent draws")

# %%
# In pictures
# -----------
# A thin line is a chain. In the short run the chains have barely met when it ends. In the long run they wander through
# the same range again and again, and what was drawn at the end no longer depends on where a chain began.

import matplotlib.pyplot as plt

from sklearn_graphid.plotting import TraceDisplay

# sphinx_gallery_thumbnail_number = 2
for name, run in (("Short run", short), ("Long run", long)):
    display = TraceDisplay.from_estimator(run, true_theta=theta)
    display.figure_.suptitle(name)
plt.show()

# %%
# What a longer run changes
# -------------------------
# Here the probabilities of the unknown pairs move a little, and hardly any across one half: for a first look the short
# run was good enough.

rows, columns = known.unknown_pairs()
figure, ax = plt.subplots(figsize=(4.4, 4.4), layout="constrained")
ax.plot([0, 1], [0, 1], color="#999999", linestyle=":")
ax.scatter(short.edge_probabilities_[rows, columns], long.edge_probabilities_[rows, columns], s=18, color="#0072B2")
ax.set(xlabel="probability of a link, short run", ylabel="probability of a link, long run", aspect="equal")
ax.spines[["top", "right"]].set_visible(False)
plt.show()
