"""What displays refuse: the error names the argument and what was expected, and no figure is opened."""

from __future__ import annotations

import inspect
import subprocess
import sys

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from display_cases import KNOWN, RIGHT
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from sklearn_graphid import GraphPriorScore, LangevinSystemIdentifier, plotting

RING = nx.to_numpy_array(nx.cycle_graph(4))
HISTORY = {"training_loss": [2.0, 1.0], "validation_loss": [2.0, 1.5], "seconds": [1.0, 2.0]}
LEVELS = {"level_losses": np.ones((5, 1)), "sigmas": [1.0]}
TRACES = {"sigma": [1.0, 0.5], "log_likelihood": np.zeros((2, 2)), "theta": np.ones((2, 2, 2))}
FRAME = pd.DataFrame({"method": ["a", "b"], "n_experiments": [1, 1], "edge_f1": [0.3, 0.7], "kind": ["x", "y"]})


DRAWS = {
    "graph": (plotting.GraphDisplay.from_predictions, {"edge_probabilities": 0.8 * RING}),
    "adjacency": (plotting.AdjacencyDisplay.from_predictions, {"edge_probabilities": RIGHT, "known": KNOWN}),
    "calibration": (
        plotting.EdgeCalibrationDisplay.from_predictions,
        {"true_adjacency": RING, "edge_probabilities": 0.8 * RING},
    ),
    "theta": (plotting.ThetaDisplay, {"theta_samples": np.eye(4, 2)}),
    "check": (
        plotting.PredictiveCheckDisplay,
        {"outputs": np.eye(4, 2), "means": np.zeros((5, 4, 2)), "noise_std": 1.0},
    ),
    "information": (plotting.InformationDisplay, {"information": [1.0, 2.0]}),
    "trace": (plotting.TraceDisplay, TRACES),
    "training": (plotting.PriorTrainingDisplay, HISTORY),
    "comparison": (plotting.ComparisonDisplay, {"frame": FRAME}),
}


def draw(display, **given):
    """Draw what is usual, but for what is given, to the constructor or to `plot`."""
    make, arguments = DRAWS[display][0], {**DRAWS[display][1], **given}
    if not isinstance(make, type):
        return make(**arguments)
    options = inspect.signature(make.plot).parameters
    made = make(**{name: value for name, value in arguments.items() if name not in options})
    return made.plot(**{name: value for name, value in arguments.items() if name in options})


def refused(display, error, message, **given):
    with pytest.raises(error, match=message):
        draw(display, **given)
    assert not plt.get_fignums()


@pytest.mark.parametrize("display", DRAWS)
def test_usual_arguments_are_drawn_and_what_is_no_axes_is_refused(display):
    for ax in (3, "axes", object(), {}, True):
        refused(display, TypeError, f"ax is a {type(ax).__name__}; expected a matplotlib Axes", ax=ax)
    draw(display).figure_.canvas.draw()


@pytest.mark.parametrize(("display", "n_panels"), [("theta", 2), ("check", 2), ("trace", 3), ("comparison", 1)])
def test_a_sequence_holds_as_many_axes_as_there_are_panels(display, n_panels):
    refused(display, TypeError, "ax holds a int; expected matplotlib Axes only", ax=[3] * n_panels)
    refused(display, ValueError, f"ax holds 4 axes; expected one, or {n_panels}", ax=[3] * 4)


def test_axes_without_a_place_in_a_grid_are_not_divided():
    with pytest.raises(ValueError, match="ax was not made by subplots"):
        draw("theta", ax=plt.figure().add_axes((0, 0, 1, 1)))


@pytest.mark.parametrize("display", ["graph", "adjacency"])
def test_names_of_nodes_are_as_many_as_nodes_and_in_order(display):
    for names in (list("abc"), [], pd.DataFrame({"name": list("abcd")})):
        message = r"node_names has \d names for 4 nodes; expected 4, one for each node"
        refused(display, ValueError, message, node_names=names)
    for names in (3, "abcd", b"abcd", dict.fromkeys("abcd"), set("abcd"), iter("abcd")):
        message = f"node_names is a {type(names).__name__}; expected a sequence with a name for each node"
        refused(display, TypeError, message, node_names=names)
    for names in (nx.path_graph(4).nodes, pd.Index(list("abcd")), pd.Series(list("abcd"), index=[3, 2, 1, 0])):
        draw(display, node_names=names)


@pytest.mark.parametrize(
    ("display", "given", "error", "message"),
    [
        ("graph", {"pos": "left"}, TypeError, "pos has the type <U4; expected real numbers"),
        ("graph", {"pos": np.full((4, 2), np.nan)}, ValueError, "pos holds nan; expected finite numbers"),
        ("graph", {"pos": [[0, 0]]}, ValueError, r"pos has shape \(1, 2\); expected \(4, 2\)"),
        ("graph", {"pos": {0: (0, 0)}}, ValueError, "pos has no entry for node 1"),
        (
            "graph",
            {"layout": 3},
            ValueError,
            "layout=3; expected 'kamada_kawai', 'spring', 'spectral', 'circular' or a callable",
        ),
        ("graph", {"layout": np.zeros((2, 2))}, ValueError, "layout is a ndarray; expected 'kamada_kawai'"),
        ("graph", {"layout": lambda graph: 3}, ValueError, r"what layout returned has shape \(\); expected \(4, 2\)"),
        ("graph", {"layout": lambda graph: {}}, ValueError, "what layout returned has no entry for node 0"),
        ("graph", {"random_state": "now"}, TypeError, "random_state='now'; expected an integer of at least 0"),
        ("graph", {"random_state": -1}, ValueError, "random_state=-1; expected an integer of at least 0"),
        ("graph", {"node_size": "large"}, TypeError, "node_size='large'; expected a finite number of at least 0"),
        ("graph", {"node_size": np.nan}, ValueError, "node_size=nan; expected a finite number"),
        ("graph", {"node_labels": "known"}, ValueError, "node_labels='known'; expected 'inferred' or a bool"),
        ("graph", {"node_labels": ["Medici"]}, ValueError, "node_labels is a list; expected 'inferred' or a bool"),
        ("graph", {"node_values": [1, 2]}, ValueError, r"node_values has shape \(2,\); expected \(4,\)"),
        ("graph", {"node_values": [1, 2, 3, np.inf]}, ValueError, "node_values holds infinity"),
        ("graph", {"node_values": [1, 2, 3, 4], "value_range": (2, 1)}, ValueError, r"value_range=\(2, 1\); expected"),
        ("graph", {"value_range": (1, 2)}, ValueError, "value_range is given without node_values"),
        ("graph", {"value_label": 3}, TypeError, "value_label is a int; expected a str or None"),
        ("graph", {"show_unknown": "yes"}, TypeError, "show_unknown='yes'; expected True or False"),
        ("graph", {"legend": 3}, TypeError, "legend=3; expected True or False"),
        ("graph", {"styles": 3}, TypeError, "styles is a int; expected a mapping from a kind of edge to a dict"),
        ("graph", {"styles": {"new": {}}}, ValueError, "styles names 'new'; expected kinds of edges among unknown, kn"),
        ("graph", {"styles": {"known": 3}}, TypeError, r"styles\['known'\] is a int; expected a dict with any of col"),
        ("graph", {"styles": {"known": {"width": 3}}}, ValueError, "has the key 'width'; expected any of color"),
        ("graph", {"styles": {"known": {"color": 3}}}, ValueError, r"\['known'\]\['color'\]=3; expected a matplotlib "),
        ("graph", {"styles": {"false": {"marker": "!"}}}, ValueError, r"\['marker'\]='!'; expected a matplotlib mark"),
        ("graph", {"styles": {"known": {"linestyle": 3}}}, ValueError, r"\['linestyle'\]=3; expected a matplotlib li"),
        ("graph", {"styles": {"known": {"linewidth": "3"}}}, TypeError, r"\['linewidth'\]='3'; expected a finite num"),
        ("graph", {"styles": {"known": {"label": 3}}}, TypeError, r"\['label'\] is a int; expected a str"),
        ("adjacency", {"node_order": "size"}, ValueError, "node_order='size'; expected 'bandwidth' or an order"),
        ("adjacency", {"node_order": [None] * 4}, ValueError, "'bandwidth', None, or each node from 0 to 3 once"),
        ("adjacency", {"node_order": [0, 0, 1, 2]}, ValueError, r"node_order=\[0, 0, 1, 2\]; expected"),
        ("adjacency", {"node_order": [0.5, 1, 2, 3]}, ValueError, "node_order="),
        ("adjacency", {"colorbar": "right"}, TypeError, "colorbar='right'; expected True or False"),
        ("adjacency", {"true_adjacency": RING[:2, :2]}, ValueError, "true_adjacency has 2 nodes .* has 4; expected 4"),
        ("adjacency", {"true_adjacency": np.ones((4, 4))}, ValueError, "true_adjacency has a self-loop"),
        ("adjacency", {"color_by": "strength"}, ValueError, "color_by='strength', but the edges have no strengths"),
        ("adjacency", {"color_by": "size"}, ValueError, "color_by='size'; expected 'probability', 'strength' or None"),
        ("adjacency", {"weights": np.ones((3, 3))}, ValueError, "weights has 3 nodes but edge_probabilities has 4"),
        ("adjacency", {"weights": 0 * RING}, ValueError, r"weights\[0, 1\] is 0, but there is an edge"),
        ("adjacency", {"weights": np.nan * RING}, ValueError, r"weights\[0, 1\] is nan, but there is an edge"),
        ("adjacency", {"weights": RING + np.triu(RING)}, ValueError, "weights is not symmetric"),
        ("calibration", {"name": 3}, TypeError, "name is a int; expected a str or None"),
        ("calibration", {"show_counts": "yes"}, TypeError, "show_counts='yes'; expected True or False"),
        ("calibration", {"color": "no color"}, ValueError, "color='no color'; expected a matplotlib color"),
        ("calibration", {"color": None}, TypeError, "color is None; expected a matplotlib color"),
        ("calibration", {"marker": "no marker"}, ValueError, "marker='no marker'; expected a matplotlib marker"),
        ("calibration", {"linestyle": 3}, ValueError, "linestyle=3; expected a matplotlib line style"),
        ("theta", {"theta_samples": "draws"}, TypeError, "theta_samples has the type <U5; expected real numbers"),
        ("theta", {"theta_samples": [1.0]}, ValueError, r"theta_samples has .*; expected \(n_draws, n_parameters\)"),
        ("theta", {"theta_samples": [[np.nan, 1.0]]}, ValueError, "theta_samples holds nan; expected finite numbers"),
        ("theta", {"theta": [1.0]}, ValueError, r"theta has shape \(1,\); expected \(2,\)"),
        ("theta", {"true_theta": [np.inf, 0]}, ValueError, "true_theta holds inf; expected finite numbers"),
        (
            "theta",
            {"parameter_names": "ab"},
            TypeError,
            "parameter_names is a str; expected a sequence with a name for",
        ),
        ("theta", {"parameter_names": ["a"]}, ValueError, "parameter_names has 1 names for 2 parameters; expected 2"),
        ("theta", {"interval": 1.0}, ValueError, "interval=1.0; expected a number strictly between 0 and 1"),
        ("theta", {"bins": "many"}, ValueError, "bins='many'; expected what numpy.histogram_bin_edges takes"),
        ("theta", {"bins": []}, ValueError, r"bins=\[\]; expected what"),
        ("theta", {"legend": None}, TypeError, "legend=None; expected True or False"),
        ("trace", {"sigma": "high"}, TypeError, "sigma has the type <U4"),
        ("trace", {"sigma": [1.0]}, ValueError, r"sigma has shape \(1,\); expected \(2,\)"),
        ("trace", {"theta": np.ones((2, 2))}, ValueError, r"theta has .* \(2, 2\); expected \(n_chains, n_steps, n"),
        ("trace", {"kernel": [0]}, ValueError, r"kernel has shape \(1,\); expected \(2,\)"),
        ("trace", {"log_likelihood": [0.0, 1.0]}, ValueError, r"log_likelihood has .* \(2,\); expected \(2, 2\)"),
        ("trace", {"true_theta": np.zeros((2, 2))}, ValueError, r"true_theta has shape \(2, 2\); expected \(2,\)"),
        ("trace", {"parameter_names": 3}, TypeError, "parameter_names is a int; expected a sequence"),
        ("trace", {"chain_color": "no color"}, ValueError, "chain_color='no color'; expected a matplotlib color"),
        ("training", {"training_loss": []}, ValueError, r"training_loss has .*; expected \(n_epochs,\)"),
        ("training", {"training_loss": ["a"]}, TypeError, "training_loss has the type"),
        ("training", {"seconds": [1.0]}, ValueError, r"seconds has shape \(1,\); expected \(2,\)"),
        ("training", {"sigmas": 3}, ValueError, r"sigmas has shape \(\); expected \(n_levels,\)"),
        ("training", {"level_losses": np.ones((5, 2))}, ValueError, "level_losses is given without sigmas"),
        ("training", {**LEVELS, "sigmas": [1.0, 2.0]}, ValueError, r"level_losses has .*; expected \(n_graphs, 2\)"),
        ("training", {"baseline_losses": np.ones((5, 2))}, ValueError, "baseline_losses is given without level_losses"),
        (
            "training",
            {**LEVELS, "baseline_losses": np.ones((4, 1))},
            ValueError,
            r"baseline_losses .*; .* \(5, 1\)",
        ),
        ("training", {"time_axis": "hours"}, ValueError, "time_axis='hours'; expected 'seconds' or 'epochs'"),
        ("check", {"outputs": np.zeros(4)}, ValueError, r"outputs has shape \(4,\)"),
        ("check", {"outputs": np.full((4, 2), np.nan)}, ValueError, "nothing but nan"),
        ("check", {"outputs": [["a"]]}, TypeError, "outputs has the type <U1"),
        ("check", {"means": np.zeros((4, 3))}, ValueError, r"means has .* \(1, 4, 3\); expected \(n_draws, 4, 2\)"),
        ("check", {"means": np.full((4, 2), np.inf)}, ValueError, "means holds inf"),
        ("check", {"noise_std": np.ones(3)}, ValueError, r"noise_std has .*; expected a number, \(2,\) or \(5, 2\)"),
        ("check", {"noise_std": -1.0}, ValueError, "noise_std holds a negative or infinite number"),
        ("check", {"kind": "all"}, ValueError, "kind='all'; expected 'both', 'outputs' or 'residuals'"),
        ("check", {"level": 1.0}, ValueError, "level=1.0; expected a number strictly between 0 and 1"),
        ("check", {"nodes": [9]}, ValueError, "nodes holds 9, which is not a node with outputs"),
        ("check", {"nodes": "ab"}, TypeError, "nodes is 'ab'; expected a sequence of at least one node name"),
        ("information", {"information": [[1.0]]}, ValueError, r"information has shape \(1, 1\); expected \(n_nodes,\)"),
        ("information", {"information": []}, ValueError, "information has shape"),
        ("information", {"information": [1.0, -1.0]}, ValueError, "information holds -1.0"),
        ("information", {"max_bars": 0}, ValueError, "max_bars=0; expected an integer of at least 1"),
        ("information", {"show_graph": 1}, TypeError, "show_graph=1; expected True or False"),
        ("information", {"graph_options": 3}, TypeError, "graph_options is a int; expected a dict"),
        ("comparison", {"frame": 3}, TypeError, "frame is a int; expected a pandas DataFrame"),
        ("comparison", {"frame": FRAME[["edge_f1"]]}, ValueError, "frame has the columns .*; expected 'method' among"),
        ("comparison", {"frame": FRAME.iloc[:0]}, ValueError, "frame has no rows; expected one for each run"),
        (
            "comparison",
            {"by": "weather"},
            ValueError,
            "by does not fit: frame has no column 'weather'; expected one",
        ),
        (
            "comparison",
            {"measures": "edge_f1"},
            TypeError,
            "measures is a str; expected a list of columns of the frame",
        ),
        ("comparison", {"measures": []}, ValueError, "measures is empty; expected at least one column of the frame"),
        ("comparison", {"measures": [3]}, ValueError, "measures does not fit: frame has no column 3"),
        ("comparison", {"measures": ["beauty"]}, ValueError, "measures does not fit: frame has no column 'beauty'"),
        (
            "comparison",
            {"measures": ["kind"]},
            ValueError,
            "measures names 'kind', a column that does not hold numbers",
        ),
        ("comparison", {"legend": "right"}, TypeError, "legend='right'; expected True or False"),
    ],
)
def test_refused(display, given, error, message):
    refused(display, error, message, **given)


@pytest.mark.parametrize(
    "name", ["AdjacencyDisplay", "GraphDisplay", "InformationDisplay", "ThetaDisplay", "TraceDisplay"]
)
def test_unfitted_identifiers(name):
    with pytest.raises(NotFittedError):
        getattr(plotting, name).from_estimator(LangevinSystemIdentifier())


def test_unfitted_calibration_check_and_prior():
    with pytest.raises(NotFittedError):
        plotting.EdgeCalibrationDisplay.from_estimator(LangevinSystemIdentifier(), RING)
    with pytest.raises(NotFittedError):
        plotting.PredictiveCheckDisplay.from_estimator(LangevinSystemIdentifier(), RING, RING)
    with pytest.raises(NotFittedError):
        plotting.PriorTrainingDisplay.from_estimator(GraphPriorScore())


def test_estimators_that_lack_what_is_drawn(optimizer, prior):
    for name in ("InformationDisplay", "ThetaDisplay", "TraceDisplay"):
        with pytest.raises(TypeError, match=f"AdamSystemIdentifier has no theta_samples_.*, which {name} draws"):
            getattr(plotting, name).from_estimator(optimizer)
    with pytest.raises(TypeError, match="GraphPriorScore has no edge_probabilities_ and no adjacency_ and no known_ed"):
        plotting.GraphDisplay.from_estimator(prior)
    with pytest.raises(TypeError, match="AdamSystemIdentifier has no loss_history_ and no sigmas_"):
        plotting.PriorTrainingDisplay.from_estimator(optimizer)
    regression = LinearRegression().fit(RING, RING)
    with pytest.raises(TypeError, match="LinearRegression has no filter_ and no theta_ and no noise_std_"):
        plotting.PredictiveCheckDisplay.from_estimator(regression, RING, RING)


def test_without_matplotlib_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for display in DRAWS:
        with pytest.raises(ImportError, match=r'Display needs matplotlib.*pip install "sklearn-graphid\[plot\]"'):
            draw(display)


def test_import_does_not_load_matplotlib():
    command = "import sys, sklearn_graphid.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", command], check=False).returncode == 0
