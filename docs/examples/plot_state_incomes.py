"""
Real network, real measurements: can incomes tell borders?
==========================================================

Network and signals of this example are both real, and nothing says that one follows from the other. The network: which
of the 48 contiguous states of the USA have a common border. The signals: their incomes per head from 1929 to 2009. If
prosperity spreads from a state to its neighbours, incomes know something of borders. We hide a quarter of the pairs and
see whether they can be found.
"""

# %%
# The data
# --------
# They lie in the package `libpysal <https://pysal.org/libpysal/>`_, as files; incomes are those of the Bureau of
# Economic Analysis. The logarithms are taken relative to the mean of the states in the same year, so that inflation and
# the growth of the whole country are gone.

from importlib.metadata import distribution

import numpy as np
import pandas as pd

folder = distribution("libpysal").locate_file("libpysal/examples/us_income")
incomes = pd.read_csv(f"{folder}/usjoin.csv", index_col="Name").drop(columns="STATE_FIPS")
with open(f"{folder}/states48.gal") as file:
    lines = file.read().splitlines()[1:]  # for each state a line with its number, and one with its neighbours
borders = np.zeros((48, 48))
for state, neighbours in zip(lines[::2], lines[1::2], strict=True):
    borders[int(state.split()[0]), [int(neighbour) for neighbour in neighbours.split()]] = 1

logarithms = np.log(incomes.T)
relative = logarithms.sub(logarithms.mean(axis=1), axis=0)
print(f"{len(relative)} years, {relative.shape[1]} states, {borders.sum() / 2:.0f} borders")

# %%
# The question, as experiments
# ----------------------------
# The input is one year, the output the next: 80 experiments. The filter is the simplest in which neighbours matter, a
# share of a state's own income plus a share of that of each of its neighbours.

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges
from sklearn_graphid.filters import PolynomialFilter
from sklearn_graphid.metrics import edge_f1_score, edge_roc_auc_score

unit = relative.to_numpy().std()
X, Y = relative[:-1] / unit, relative[1:] / unit
known = hide_edges(borders, fraction=0.25, random_state=0)
identifier = LangevinSystemIdentifier(PolynomialFilter(order=1), n_chains=8, n_levels=10, random_state=0)
identifier.fit(X, Y, known)
own, neighbour = identifier.theta_
low, high = identifier.theta_interval(0.95)[1]
print(f"next year a state keeps {own:.3f} of its lead, and takes {neighbour:.4f} of each neighbour's")
print(f"the latter is between {low:.4f} and {high:.4f} with probability 0.95")

# %%
# The answer: no
# --------------
# Who calls every pair a border has an F1 score that is not zero either, and who guesses has an area under the ROC curve
# of one half. That is what to compare with.

hidden = borders[known.unknown_pairs()]


def judge(name, fitted):
    f1 = edge_f1_score(borders, fitted.adjacency_, known)
    area = edge_roc_auc_score(borders, fitted.edge_probabilities_, known)
    print(f"{name}: F1 score {f1:.2f}, area under the ROC curve {area:.2f}")


print(f"{hidden.sum():.0f} of {len(hidden)} hidden pairs are borders")
n_borders, n_others = hidden.sum(), (1 - hidden).sum()
chance = np.sqrt((len(hidden) + 1) / (12 * n_borders * n_others))  # of the rank-sum statistic
print(f"calling every pair a border: F1 score {2 * hidden.mean() / (1 + hidden.mean()):.2f}")
print(f"guessing: F1 score {hidden.mean():.2f}, area under the ROC curve 0.50 give or take {chance:.2f}")
judge("one year to the next", identifier)

# %%
# Is it the method, or the data?
# ------------------------------
# A control: the same states, inputs, noise level and hidden pairs, but outputs in which a state does take one part in
# twenty-five of each neighbour's lead. Had incomes spread like that, we should have seen it; half as much shows far
# less.

noise = np.random.default_rng(0).normal(scale=identifier.noise_std_, size=Y.shape)
made_up = X @ (0.8 * np.eye(48) + 0.04 * borders) + noise
control = LangevinSystemIdentifier(PolynomialFilter(order=1), n_chains=8, n_levels=10, random_state=0)
control.fit(X, made_up, known)
judge("made-up outputs on the real borders", control)

# %%
# Yet borders are in the data
# ---------------------------
# Not in what one year does to the next, but in what happens to two states in the *same* year.
# :class:`~sklearn_graphid.SmoothSignalIdentifier` uses no inputs, and joins nodes whose outputs are alike. Its signals
# are the yearly growth, relative to the country's. This is the best of a dozen ways to make signals of these data that
# were tried before this page was written; none in which one year is the input found borders.

from sklearn_graphid import SmoothSignalIdentifier

growth = relative.diff().iloc[1:]
together = SmoothSignalIdentifier(PolynomialFilter(order=1)).fit(growth, growth, known)
judge("growth in the same year", together)

# %%
# Why the first model could not see them
# --------------------------------------
# It takes what it cannot explain for noise, independent from state to state. That can be looked at. If it held, what is
# left over would correlate no more between neighbours than between other states.

import matplotlib.pyplot as plt

left_over = np.corrcoef((Y.to_numpy() - identifier.predict(X)).T)
first, second = np.triu_indices(48, 1)
figure, (left_ax, right_ax) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
bins = np.linspace(-0.8, 1, 37)
for is_border, name, color in ((0, "no common border", "#999999"), (1, "common border", "#0072B2")):
    values = left_over[first, second][borders[first, second] == is_border]
    left_ax.hist(values, bins, density=True, alpha=0.65, color=color, label=f"{name}: mean {values.mean():.2f}")
left_ax.set(xlabel="correlation of what is left over", ylabel="density", title="Neighbours share their surprises")
left_ax.legend(frameon=False)

for fitted, name, color, style in (
    (identifier, "one year to the next", "#999999", ":"),
    (control, "made-up outputs", "#D55E00", "--"),
    (together, "growth in the same year", "#0072B2", "-"),
):
    order = np.argsort(-fitted.edge_probabilities_[known.unknown_pairs()], kind="stable")
    right_ax.plot(np.arange(1, len(order) + 1), hidden[order].cumsum(), color=color, linestyle=style, label=name)
right_ax.plot([0, len(hidden)], [0, hidden.sum()], color="black", linewidth=0.8, label="guessing")
right_ax.set(xlabel="hidden pairs looked at, most probable first", ylabel="borders found", title="What each is worth")
right_ax.legend(frameon=False)
for ax in (left_ax, right_ax):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Neighbouring states grow the same wheat, dig the same coal and build the same cars, so the same events strike both in
# one year. These events are the input that matters, and nobody measured them. **Identification needs inputs**: where
# the cause is not in X, it ends up in the noise, and with it all that it could have told about the network. A method
# that looks at outputs alone finds some of the borders, many more than by guessing and far from all.
