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


def test_a_report_counts_the_chains_that_were_run(tmp_path):
    path = fitted().set_params(n_chains=99).report(tmp_path / "report.html")
    assert "3 kept of 3" in path.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("at_fit", "later", "expected"),
    [(None, 0.7, "estimated (90% between"), (0.7, None, "standard deviation 0.7, as given")],
)
def test_a_report_tells_where_the_noise_level_came_from(at_fit, later, expected, tmp_path):
    path = fitted(noise_std=at_fit).set_params(noise_std=later).report(tmp_path / "report.html")
    assert expected in path.read_text(encoding="utf-8")


def test_a_report_of_exact_outputs_does_not_take_the_noise_for_given(tmp_path):
    """The draws are all the smallest level there is, as equal as if it had been given."""
    X, Y = make_system(RING, "heat", [0.5], n_experiments=12, noise_std=0.0, random_state=0)
    identifier = LangevinSystemIdentifier("heat", **{**SHORT, "n_steps": 5})
    path = identifier.fit(X, Y, hide_edges(RING, 0.4, random_state=0)).report(tmp_path / "report.html")
    assert len(set(identifier.noise_std_samples_)) == 1
    assert "estimated (90% between" in path.read_text(encoding="utf-8")


def test_a_report_of_a_single_draw_takes_the_noise_as_given_where_the_parameter_says_so(tmp_path):
    settings = {"n_chains": 1, "n_sweeps": 0, "n_levels": 1}
    path = fitted(noise_std=0.7, **settings).report(tmp_path / "given.html")
    assert "standard deviation 0.7, as given" in path.read_text(encoding="utf-8")
    path = fitted(noise_std=None, **settings).set_params(noise_std=0.7).report(tmp_path / "estimated.html")
    assert ", estimated;" in path.read_text(encoding="utf-8")
