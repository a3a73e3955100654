"""
How sure, on paper
==================

Whoever asked for the network may not have Python. ``report`` writes one HTML page with all they need to judge it: what
was given, what was found, which edges are in doubt, the parameters with their uncertainty, whether the chains agree,
and what to do if not. It holds its pictures and fetches nothing, so it can be sent by mail.
"""

# %%
# A system with names
# -------------------
# Marriages between the families of Florence in the fifteenth century, half of the pairs hidden. The network is real and
# comes with networkx; what spreads on it, like heat, is simulated. Where X is a data frame, its columns name the nodes.

import networkx as nx
import pandas as pd

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system

marriages = nx.florentine_families_graph()
X, Y = make_system(marriages, "heat", theta=[0.4], n_experiments=6, random_state=2)
X, Y = (pd.DataFrame(signals, columns=list(marriages)) for signals in (X, Y))
known = hide_edges(marriages, fraction=0.5, random_state=2)
identifier = LangevinSystemIdentifier("heat", random_state=0).fit(X, Y, known)

# %%
# The page
# --------
# Here it is, in a frame. In a browser it is a page of its own, and prints as one. Where a fit warns, the page has the
# warning too, with the numbers and what to do.

from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

with TemporaryDirectory() as folder:
    page = identifier.report(Path(folder) / "report.html").read_text()


class Frame:
    def _repr_html_(self):
        style = "width: 100%; height: 56rem; border: 1px solid #bbb; background: white"
        return f'<iframe srcdoc="{escape(page)}" style="{style}" title="The report"></iframe>'


Frame()

# %%
# The same numbers in Python
# --------------------------
# The credible interval counts every doubt, that about the network included. The standard error takes the network that
# was found for granted.

low, high = identifier.theta_interval(0.9)[0]
print(f"theta is between {low:.2f} and {high:.2f} with probability 0.9; the truth is 0.40")
print(f"spread of its draws {identifier.theta_std_[0]:.3f}, standard error {identifier.theta_standard_error_[0]:.3f}")
print(f"pairs that another run would decide differently: {identifier.diagnostics_['n_changes_expected']:.1f}")

# %%
# The unknown pairs as a table, with the error that comes from the number of chains. The most probable edge comes first;
# here they are in the order of their doubt, as in the page:

table = identifier.to_pandas_edgelist()
table.loc[(table["probability"] - 0.5).abs().sort_values().index].head(8).round(2)

# %%
# A picture for the slides, where the truth is known:

import matplotlib.pyplot as plt

from sklearn_graphid.plotting import GraphDisplay

figure, ax = plt.subplots(figsize=(6.5, 6.5), layout="constrained")
GraphDisplay.from_estimator(identifier, true_adjacency=marriages, node_labels=True, ax=ax)
ax.set_title("Half of the pairs were known; what six experiments tell of the rest")
plt.show()
