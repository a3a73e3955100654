"""Many systems at once, and several identifiers on them: rows, failures, warnings, seeds and a figure."""

from __future__ import annotations

import subprocess
import sys
import warnings

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from joblib import parallel_config
from sklearn import config_context
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_graphid import AdamSystemIdentifier, KnownEdges, System, compare_identifiers, identify_many
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import CallableFilter, PolynomialFilter
from sklearn_graphid.metrics import edge_calibration_error, edge_f1_score, edge_roc_auc_score, theta_nrmse
from sklearn_graphid.plotting import ComparisonDisplay

pytestmark = pytest.mark.slow

FIRST = ["name", "n_nodes", "n_experiments", "n_unknown", "n_edges", "n_edges_found", "theta", "noise_std"]
MEASURES = ["edge_f1", "edge_roc_auc", "edge_calibration_error", "theta_nrmse"]
LAST = ["seconds", "warnings", "error_type", "error_message"]


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture
def ladder_system(ladder, ladder_known, square_experiments):
    return System(*square_experiments, ladder_known, true_adjacency=ladder, true_theta=[0.5], name="ladder")


# Rows


def test_a_row_holds_what_a_user_would_compute(quick, ladder, ladder_known, square_experiments, ladder_system):
    row = identify_many(quick, [ladder_system], keep_estimators=True).iloc[0]
    fitted = clone(quick).fit(*square_experiments, ladder_known)
    np.testing.assert_array_equal(row["theta"], fitted.theta_)
    np.testing.assert_array_equal(row["estimator"].edge_probabilities_, fitted.edge_probabilities_)
    assert row["noise_std"] == fitted.noise_std_
    assert row["edge_f1"] == edge_f1_score(ladder, fitted.adjacency_, ladder_known)
    assert row["edge_roc_auc"] == edge_roc_auc_score(ladder, fitted.edge_probabilities_, ladder_known)
    assert row["edge_calibration_error"] == edge_calibration_error(ladder, fitted.edge_probabilities_, ladder_known)
    assert row["theta_nrmse"] == theta_nrmse([0.5], fitted.theta_)
    assert (row["n_nodes"], row["n_experiments"], row["n_unknown"]) == (8, 8, 14)
    assert row["n_edges"] == fitted.to_networkx().number_of_edges()
    unknown = [not facts["known"] for _, _, facts in fitted.to_networkx().edges(data=True)]
    assert row["n_edges_found"] == sum(unknown)
    assert row["seconds"] > 0
    assert row["n_diverged"] == fitted.diagnostics_["n_diverged"]
    np.testing.assert_equal(row["r_hat_theta"], fitted.diagnostics_["r_hat_theta"].max())
    assert pd.isna(row["error_type"])
    assert not hasattr(quick, "adjacency_")


def test_columns_do_not_depend_on_the_systems(siblings, ladder_system, square_experiments):
    for estimator in siblings.values():
        whole = identify_many(estimator, [ladder_system])
        bare = identify_many(estimator, [System(*square_experiments)])
        broken = identify_many(estimator, [System(square_experiments[0] * np.nan, square_experiments[1])])
        for frame in (whole, bare, broken):
            assert list(frame.columns[: len(FIRST + MEASURES)]) == FIRST + MEASURES
            assert list(frame.columns[-len(LAST) :]) == LAST
        assert whole[MEASURES].notna().all(axis=None)
        assert bare[MEASURES].isna().all(axis=None)
        assert list(bare.columns) == list(whole.columns)
        # Failed and whole runs can be put together, and counts stay whole numbers.
        assert pd.concat([whole, broken])["n_edges"].dtype == "Int64"
    assert "n_stuck" not in identify_many(siblings["Adam"], [ladder_system])


def test_names_and_labels_become_columns(quick, square_experiments):
    X, Y = square_experiments
    frame = identify_many(quick, [System(X, Y, labels={"kind": "ladder"}), {"X": X, "Y": Y, "name": "second"}])
    assert list(frame["name"]) == ["0", "second"]
    assert frame["kind"].tolist()[0] == "ladder"
    assert pd.isna(frame["kind"][1])
    assert list(frame.columns[:2]) == ["name", "kind"]


def test_systems_may_come_from_a_generator_and_be_told_in_every_way(
    quick, ladder, ladder_known, square_experiments, same_rows
):
    X, Y = square_experiments
    ways = [
        System(X, Y, ladder_known),
        System(X, Y, ladder_known.to_array()),
        System(X, Y, ladder_known.mask, ladder),
        System(X, Y, ladder_known.mask, nx.from_numpy_array(ladder)),
        System(X.tolist(), pd.DataFrame(Y), ladder_known),
    ]
    frame = identify_many(quick, (way for way in ways)).drop(columns="name")
    for place in range(1, len(ways)):
        same_rows(frame.iloc[[place]], frame.iloc[[0]])


# Failures and warnings


def test_failures_are_rows(quick, square_experiments, ladder_system, same_rows):
    X, Y = square_experiments
    systems = [
        System(X, Y[:3], name="lengths"),
        ladder_system,
        System(X, Y, KnownEdges.nothing(5), name="sizes"),
        System([[1.0], [2.0, 3.0]], Y, name="ragged"),
        System(X, Y, np.ones((8, 8), dtype=bool), name="no values"),
        System(X, None, name="no outputs"),
    ]
    frame = identify_many(quick, systems)
    assert frame["error_type"].notna().tolist() == [True, False, True, True, True, True]
    assert set(frame["error_type"].dropna()) == {"ValueError"}
    messages = frame["error_message"]
    assert "inconsistent numbers of samples: [8, 3]" in messages[0]
    assert "KnownEdges of 5 nodes but X has 8 nodes" in messages[2]
    assert "known_mask is boolean" in messages[4]
    assert (frame["seconds"] >= 0).all()
    assert frame["n_experiments"].isna().tolist() == [False, False, False, True, False, False]
    same_rows(frame.iloc[[1]], identify_many(quick, [ladder_system]))


def test_the_user_may_still_interrupt(ladder_system):
    def stop(adjacency, theta):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        identify_many(AdamSystemIdentifier(CallableFilter(stop), random_state=0), [ladder_system])


@pytest.mark.parametrize(("backend", "n_jobs"), [("threading", 2), ("loky", 2)])
def test_warnings_go_to_the_row_of_their_system(backend, n_jobs, quick, square_experiments):
    """Every second system warns of columns that are missing; all of them, although Python warns once by default."""
    X, Y = square_experiments
    systems = [System(X, Y if place % 2 else Y[:, : 3 + place // 2]) for place in range(8)]
    filters, show = list(warnings.filters), warnings.showwarning
    with parallel_config(backend=backend):
        frame = identify_many(quick, systems, n_jobs=n_jobs)
    assert warnings.filters == filters
    assert warnings.showwarning is show
    for place, text in enumerate(frame["warnings"]):
        guesses = [line for line in text.splitlines() if "columns for 8 nodes" in line]
        if place % 2:
            assert not guesses
        else:
            assert len(guesses) == 1
            assert guesses[0].startswith(f"UserWarning: Y has {3 + place // 2} columns for 8 nodes")


def test_a_filter_that_makes_warnings_errors_does_not_make_rows_fail(quick, square_experiments):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        frame = identify_many(quick, [System(square_experiments[0], square_experiments[1][:, :4])])
        assert frame["error_type"].isna().all()
        assert "columns for 8 nodes" in frame["warnings"][0]
        with pytest.raises(ConvergenceWarning):  # the caller's filters are back
            warnings.warn("now", ConvergenceWarning, stacklevel=1)


def test_a_measure_that_makes_no_sense_is_nan_and_says_why(quick, square_experiments, ladder):
    other_filter = clone(quick).set_params(filter="polynomial")
    row = identify_many(other_filter, [System(*square_experiments, true_adjacency=ladder, true_theta=[0.5])]).iloc[0]
    assert np.isnan(row["theta_nrmse"])
    assert "theta_nrmse is set to nan: theta_true has shape (1,)" in row["warnings"]
    assert pd.isna(row["error_type"])
    assert row["edge_f1"] >= 0
    everything = KnownEdges(np.ones((8, 8), dtype=bool), ladder)
    row = identify_many(quick, [System(*square_experiments, everything, true_adjacency=ladder)]).iloc[0]
    assert np.isnan(row["edge_f1"])
    assert "no pair is unknown" in row["warnings"]
    assert row["n_edges"] == ladder.sum() / 2


# Seeds and workers


@pytest.mark.parametrize(("backend", "n_jobs"), [("loky", 2), ("threading", -1)])
def test_workers_do_not_change_a_bit(backend, n_jobs, quick, many_systems, same_rows):
    alone = identify_many(quick, many_systems[:4], n_jobs=1)
    threads = torch.get_num_threads()
    with parallel_config(backend=backend):
        same_rows(identify_many(quick, many_systems[:4], n_jobs=n_jobs), alone)
    assert torch.get_num_threads() == threads


def test_every_system_gets_the_same_seed(quick, ladder_system, same_rows):
    twice = identify_many(quick, [ladder_system, ladder_system])
    same_rows(twice.iloc[[0]], twice.iloc[[1]])
    other = identify_many(clone(quick).set_params(random_state=1), [ladder_system])
    assert other["theta"][0] != twice["theta"][0]


def test_a_random_state_object_is_cloned_as_in_cross_validation(quick, ladder_system, same_rows):
    drawing = clone(quick).set_params(random_state=np.random.RandomState(0))
    frame = identify_many(drawing, [ladder_system] * 2)
    same_rows(frame.iloc[[0]], frame.iloc[[1]])
    same_rows(identify_many(drawing, [ladder_system] * 2, n_jobs=2), frame)


# Wrapped estimators


@pytest.mark.parametrize("routing", [False, True])
def test_pipelines_and_searches_are_told_what_is_known(routing, quick, ladder_system, square_experiments, ladder_known):
    """The square system, with a raw mask that a search would tear."""
    half = FunctionTransformer(lambda X: 0.5 * X)
    raw = System(*square_experiments, ladder_known.to_array(), true_adjacency=ladder_system.true_adjacency)
    doubled = TransformedTargetRegressor(quick, func=lambda Y: 2 * Y, inverse_func=lambda Y: Y / 2)
    wrapped = {
        "pipeline": make_pipeline(half, quick),
        "search": GridSearchCV(quick, {"n_chains": [1, 2]}, cv=2),
        "search of a pipeline": GridSearchCV(
            make_pipeline(half, quick), {"langevinsystemidentifier__n_chains": [1]}, cv=2
        ),
        "pipeline of a search": make_pipeline(half, GridSearchCV(quick, {"n_chains": [1]}, cv=2)),
        "target": doubled,
        "target of a pipeline": TransformedTargetRegressor(make_pipeline(half, quick)),
    }
    with config_context(enable_metadata_routing=routing):
        comparison = compare_identifiers(wrapped, [raw])
    assert comparison["error_message"].dropna().tolist() == []
    assert (comparison["n_unknown"] == ladder_known.n_unknown).all()
    assert comparison["edge_f1"].notna().all()


def test_a_search_over_orders_inside(ladder, ladder_known):
    theta = [0.6, 0.4]
    X, Y = make_system(ladder, PolynomialFilter(1), theta=theta, n_experiments=20, random_state=0)
    adam = AdamSystemIdentifier(PolynomialFilter(), max_iter=200, learning_rate=0.05, random_state=0)
    search = GridSearchCV(adam, {"filter__order": [0, 1]}, cv=2)
    row = identify_many(search, [System(X, Y, ladder_known, true_adjacency=ladder, true_theta=theta)]).iloc[0]
    assert row["theta_nrmse"] < 0.1
    assert row["edge_f1"] == 1.0


# Input that makes no sense


@pytest.mark.parametrize(
    ("systems", "error", "message"),
    [
        ([], ValueError, "systems is empty"),
        (System(np.eye(3), np.eye(3)), TypeError, "systems is a System; expected a list"),
        ({"X": 1, "Y": 2}, TypeError, "systems is a dict; expected a list"),
        (7, TypeError, "systems is a int; expected a list"),
        ([(np.eye(3), np.eye(3))], TypeError, r"systems\[0\] is a tuple; expected a System, or a dict"),
        ([{"X": np.eye(3)}], ValueError, r"systems\[0\] has the keys \['X'\]; expected X, Y and some of"),
        ([{"X": 1, "Y": 2, "adjacency": 3}], ValueError, r"systems\[0\] has the keys .*adjacency.*true_adjacency"),
        ([System(0, 0, true_adjacency=np.eye(3))], ValueError, r"systems\[0\].true_adjacency has a self-loop"),
        ([System(0, 0, true_theta=[np.nan])], ValueError, r"systems\[0\].true_theta holds the value nan"),
        ([System(0, 0, true_theta="a")], TypeError, r"systems\[0\].true_theta has the type .*; expected real numbers"),
        ([System(0, 0, true_theta=[[1.0]])], ValueError, r"systems\[0\].true_theta is .*one for each parameter"),
        ([System(0, 0, labels={"seconds": 1})], ValueError, r"systems\[0\] has the label 'seconds'"),
    ],
)
def test_systems_that_make_no_sense_are_refused_before_any_work(systems, error, message, quick):
    with pytest.raises(error, match=message):
        identify_many(quick, systems)
    with pytest.raises(error, match=message):
        compare_identifiers({"quick": quick}, systems)


def test_estimators_that_make_no_sense_are_refused(quick, ladder_system):
    for wrong in (None, "heat", AdamSystemIdentifier):
        with pytest.raises(TypeError, match=r"estimator is .*; expected an estimator object"):
            identify_many(wrong, [ladder_system])
        with pytest.raises(TypeError, match=r"estimators\['it'\] is .*; expected an estimator object"):
            compare_identifiers({"quick": quick, "it": wrong}, [ladder_system])
    for wrong in ({}, [quick], quick):
        with pytest.raises(TypeError, match="expected a dict with at least one named estimator"):
            compare_identifiers(wrong, [ladder_system])


def test_a_flag_is_no_number_of_workers(quick, ladder_system):
    with pytest.raises(TypeError, match="n_jobs=True; expected an integer or None"):
        identify_many(quick, [ladder_system], n_jobs=True)


def test_pandas_is_only_needed_when_a_table_is_made():
    code = (
        "import sys; sys.modules['pandas'] = None\n"
        "import sklearn_graphid as g\n"
        "for call in (g.identify_many, g.compare_identifiers):\n"
        "    try: call(None, None)\n"
        "    except ImportError as error: print(error)\n"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for caller, line in zip(("identify_many", "compare_identifiers"), printed.splitlines(), strict=True):
        assert line.startswith(f"{caller} needs pandas, which is not installed")
        assert 'pip install "sklearn-graphid[pandas]"' in line


# Several methods, and a figure


@pytest.fixture(scope="module")
def comparison(siblings, many_systems, square_experiments):
    """Three systems of two experiments each, three of six, and one of six that fails."""
    broken = System(square_experiments[0][:6] * np.nan, square_experiments[1][:6])
    return compare_identifiers(siblings, [*many_systems[:6], broken])


def test_rows_come_method_by_method(comparison, siblings, many_systems, same_rows):
    assert list(comparison.columns[:2]) == ["method", "name"]
    for method, estimator in siblings.items():
        rows = comparison[comparison["method"] == method]
        alone = identify_many(estimator, many_systems[:6])
        same_rows(rows[:6][list(alone.columns)], alone)
        assert rows["error_type"].notna().tolist() == 6 * [False] + [True]
    assert list(comparison["method"].unique()) == list(siblings)


def test_means_of_the_rows_leave_out_failures(comparison, siblings):
    groups = comparison.groupby(["method", "n_experiments"], sort=False)
    table = groups["edge_f1"].agg(["size", "count", "mean", "sem"])
    assert list(table.index) == [(method, n_experiments) for method in siblings for n_experiments in (2, 6)]
    assert (table["count"] == 3).all()
    assert table["size"].tolist() == len(siblings) * [3, 4]
    assert groups["error_type"].count().tolist() == len(siblings) * [0, 1]
    assert table.notna().all(axis=None)


def test_figure_shows_means_and_standard_errors(comparison, siblings):
    display = ComparisonDisplay(frame=comparison)
    assert display.plot() is display
    assert [ax.get_ylabel() for ax in display.ax_] == ["F1 score of the unknown pairs", r"normalised error of $\theta$"]
    assert display.figure_ is display.ax_[0].figure
    groups = comparison.groupby(["method", "n_experiments"])
    looks = set()
    for ax, measure in zip(display.ax_, ("edge_f1", "theta_nrmse"), strict=True):
        table = groups[measure].agg(["mean", "sem"])
        assert [label.get_text() for label in ax.get_xticklabels()] == ["2", "6"]
        for method, container in zip(siblings, ax.containers, strict=True):
            line, _, (bars,) = container
            assert container.get_label() == method
            np.testing.assert_allclose(line.get_ydata(), table.loc[method, "mean"])
            np.testing.assert_allclose(np.array(line.get_xdata(), dtype=float), [2, 6], atol=0.5)
            errors = table.loc[method, "sem"].to_numpy()
            heights = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
            np.testing.assert_allclose(heights, 2 * errors)
            looks.add((line.get_marker(), line.get_linestyle()))
    # No two methods have the same marker and dashes, so colour is not needed to tell them apart.
    assert len(looks) == len(siblings)


def test_figure_takes_axes_and_other_groups(comparison):
    _, axes = plt.subplots(1, 3)
    display = ComparisonDisplay(frame=comparison)
    display.plot(axes[:2], legend=False)
    assert list(display.ax_) == list(axes[:2])
    display.plot(axes[2], measures=["edge_roc_auc"])
    assert display.ax_[0].get_legend() is not None
    with pytest.raises(ValueError, match="ax holds 3 axes; expected one, or 2"):
        display.plot(axes)
    named = ComparisonDisplay(frame=comparison.assign(kind=lambda frame: "kind " + frame["name"]))
    named.plot(by="kind", measures=["edge_f1"])
    # Names have no order, so nothing joins them, and the system that failed has no place.
    assert all(container[0].get_linestyle() == "None" for container in named.ax_[0].containers)
    assert len(named.ax_[0].get_xticks()) == 6


def test_two_dozen_methods_still_look_different():
    frame = pd.DataFrame(
        {"method": 2 * [f"m{i}" for i in range(24)], "n_experiments": np.repeat([1, 5], 24), "edge_f1": 0.5}
    )
    (ax,) = ComparisonDisplay(frame=frame).plot().ax_
    lines = [container[0] for container in ax.containers]
    assert len({(line.get_marker(), line.get_linestyle()) for line in lines}) == 24


def test_nothing_to_compare_says_so(quick, square_experiments):
    without_truth = compare_identifiers({"quick": quick}, [System(*square_experiments)])
    with pytest.raises(ValueError, match="expected systems with a true_adjacency or a true_theta"):
        ComparisonDisplay(frame=without_truth).plot()
    assert without_truth["seconds"].notna().all()
