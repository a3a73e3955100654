"""A display and a report show what was fitted, whatever the parameters have been set to since."""

from __future__ import annotations

import networkx as nx
import pytest

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.plotting import ThetaDisplay, TraceDisplay

RING = nx.to_numpy_array(nx.cycle_graph(6))
SHORT = {"n_chains": 3, "n_levels": 2, "n_steps": 2, "n_sweeps": 5, "random_state": 0}
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def fitted(**settings):
    X, Y = make_system(RING, "heat", [0.5], n_experiments=12, random_state=0)
    return LangevinSystemIdentifier("heat", **{**SHORT, **settings}).fit(X, Y, hide_edges(RING, 0.4, random_state=0))


@pytest.mark.parametrize("later", ["polynomial", "no such filter"])
def test_parameters_are_named_after_the_fitted_filter(later):
    identifier = fitted().set_params(filter=later)
    theta = ThetaDisplay.from_estimator(identifier)
    assert [panel.get_xlabel() for panel in theta.ax_] == [r"$\theta$"]
    trace = TraceDisplay.from_estimator(identifier)
    assert [panel.get_ylabel() for panel in trace.ax_] == ["log-likelihood", r"$\theta$"]
