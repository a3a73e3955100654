"""
The result as an HTML report
============================

The person who needs the result may not have Python. ``report`` writes one HTML page with everything needed to judge it:
what was given, what was found, which edges are uncertain, the parameters with their uncertainty, whether the chains
agree, and what to do if they do not. The page contains its figures and loads nothing from the internet, so it can be
sent by e-mail.
"""

# %%
# A system with names
# -------------------
# The graph consists of marriages between families of Florence in the fifteenth century, with half of the pairs hidden.
# The graph is real and comes with networkx; the signals that spread on it, like heat, are simulated. If X is a data
# frame, its columns name the nodes.

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
# Here the report is shown in a frame. In a browser it is a page of its own, which can also be printed. If a fit gives a
# warning, the page contains it too, with the numbers and what to do.

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
# The credible interval includes all uncertainty, also that about the graph. The standard error assumes that the graph
# found is correct.

low, high = identifier.theta_interval(0.9)[0]
print(f"theta is between {low:.2f} and {high:.2f} with probability 0.9; the truth is 0.40")
print(
    f"spread of its draws {identifier.theta_std_[0]:.3f}, standard error {identifier.theta_standard_error_[0]:.3f}"
)
print(
    f"pairs that another run would decide differently: {identifier.diagnostics_['n_changes_expected']:.1f}"
)

# %%
# The unknown pairs are also available as a table, with the error due to the limited number of chains. By default the
# most probable edge comes first; here the pairs are ordered by their uncertainty, as on the page:

table = identifier.to_pandas_edgelist()
table.loc[(table["probability"] - 0.5).abs().sort_values().index].head(8).round(2)

# %%
# A figure for a presentation, for a case in which the true graph is known:

import matplotlib.pyplot as plt

from sklearn_graphid.plotting import GraphDisplay

figure, ax = plt.subplots(figsize=(6.5, 6.5), layout="constrained")
GraphDisplay.from_estimator(identifier, true_adjacency=marriages, node_labels=True, ax=ax)
ax.set_title("Edges inferred from six experiments, with half of the pairs known")
plt.show()
