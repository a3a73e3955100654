"""Noise levels and filters that do not go with the data are told of; those that do are not."""

from __future__ import annotations

import subprocess
import sys
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from joblib import Parallel, delayed
from scipy import linalg, stats
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Ridge, RidgeCV
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut, LeaveOneOut, cross_val_predict

from sklearn_graphid import LangevinSystemIdentifier, LikelihoodLangevinIdentifier
from sklearn_graphid._utils._warnings import warn_caller
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter
from sklearn_graphid.identifiers._findings import (
    largest_residual,
    offset_p_value,
    residual_dependence,
    ridge_error,
)

GRAPH = nx.gnm_random_graph(12, 22, seed=1)
KNOWN = hide_edges(GRAPH, fraction=0.3, random_state=1)
QUICK = {"n_chains": 4, "n_levels": 4, "n_steps": 3, "n_sweeps": 12, "random_state": 0}


def data(n_experiments, noise_std, filter="heat", theta=(0.5,), seed=0):
    return make_system(GRAPH, filter, theta, n_experiments, noise_std=noise_std, random_state=seed)


def fit(filter, X, Y, **settings):
    return LangevinSystemIdentifier(filter, **QUICK | settings).fit(X, Y, KNOWN)


# What the numbers are


@pytest.mark.parametrize("n_experiments", [5, 12, 30])
def test_ridge_error_is_that_of_leaving_out(n_experiments):
    X, Y = data(n_experiments, 1.0)
    penalties = np.logspace(-10, 2, 25) * np.linalg.norm(X, 2) ** 2
    errors = []
    for penalty in penalties[8:]:
        predicted = cross_val_predict(Ridge(alpha=penalty, fit_intercept=False), X, Y, cv=LeaveOneOut())
        errors.append(np.sqrt(np.mean((Y - predicted) ** 2)))
    assert ridge_error(X, Y) <= min(errors) * (1 + 1e-6)
    best = RidgeCV(penalties, fit_intercept=False).fit(X, Y)
    assert ridge_error(X, Y) == pytest.approx(np.sqrt(-best.best_score_), rel=1e-3)


@pytest.mark.parametrize("n_experiments", [5, 12, 30])
def test_ridge_error_with_offsets_is_that_of_leaving_out(n_experiments):
    """Twelve experiments and nodes: centred inputs explain any centred outputs, which says nothing of the error."""
    X, Y = data(n_experiments, 1.0)
    X, Y = X - X.mean(0), Y + 10
    errors = []
    for penalty in np.logspace(-10, 2, 25)[8:] * np.linalg.norm(X, 2) ** 2:
        predicted = cross_val_predict(Ridge(alpha=penalty), X, Y, cv=LeaveOneOut())
        errors.append(np.sqrt(np.mean((Y - predicted) ** 2)))
    assert ridge_error(X, Y, has_offsets=True) == pytest.approx(min(errors), rel=1e-3)


@pytest.mark.parametrize("n_copies", [[10] * 20, [1, 2, 5, 1] * 5], ids=["all", "some"])
def test_ridge_error_leaves_out_equal_inputs_together(n_copies):
    X, Y = data(20, 1.0)
    groups = np.repeat(np.arange(20), n_copies)
    # Half of the noise is repeated with the inputs, and half is new.
    X, Y = X[groups], Y[groups] + np.random.default_rng(0).normal(size=(len(groups), Y.shape[1]))
    penalties = np.logspace(-10, 2, 25) * np.linalg.norm(X, 2) ** 2
    errors = []
    for penalty in penalties[8:]:
        ridge = Ridge(alpha=penalty, fit_intercept=False)
        predicted = cross_val_predict(ridge, X, Y, groups=groups, cv=LeaveOneGroupOut())
        errors.append(np.sqrt(np.mean((Y - predicted) ** 2)))
    assert ridge_error(X, Y) == pytest.approx(min(errors), rel=1e-6)
    assert np.isnan(ridge_error(X[groups < 2], Y[groups < 2]))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_copies_of_experiments_change_no_test():
    """Copies repeat the noise: what ridge regression leaves, and residuals that look like a pattern or an offset."""
    X, Y = data(20, 0.3)
    fitted = fit("heat", np.tile(X, (10, 1)), np.tile(Y, (10, 1)))
    once = fit("heat", X, Y).diagnostics_
    for name in ("p_value_residuals", "p_value_offsets", "p_value_strengths"):
        assert fitted.diagnostics_[name] > 0.001, name  # one correct system in a thousand is below
    assert fitted.diagnostics_["ridge_error"] == pytest.approx(once["ridge_error"], rel=1e-6)
    assert not any(finding.category is UserWarning and finding.severity == "trouble" for finding in fitted._findings)


def test_as_many_parameters_as_outputs_leave_no_residuals_to_judge_the_noise_by():
    X, Y = data(10, 0.1, PolynomialFilter(1), (0.5, 0.2))
    Y[1:], Y[0, 2:] = np.nan, np.nan  # two outputs for two parameters
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(PolynomialFilter(1), X, Y, noise_std=0.1)
    assert not any("is inconsistent with residuals" in str(warning.message) for warning in caught)


def test_copies_are_no_misfit_of_strengths():
    """Copies repeat the noise, which looked like edges at known non-edges."""
    X, Y = data(8, 0.3)
    copies = np.tile(X, (5, 1)), np.tile(Y, (5, 1))
    fitted = fit("heat", *copies, edge_weights="positive")
    assert fitted.diagnostics_["misfit"] == 1.0


def test_ridge_error_leaves_out_what_was_not_measured():
    X, Y = data(30, 1.0)
    gaps = Y.copy()
    gaps[:4, 3] = np.nan
    gaps[:4, 7] = np.nan
    gaps[:, 5] = np.nan
    squares = 0.0
    for columns, rows in (((0, 1, 2, 4, 6, 8, 9, 10, 11), slice(0, 30)), ((3, 7), slice(4, 30))):
        assert np.isfinite(ridge_error(X[rows], Y[rows][:, columns]))
        squares += ridge_error(X[rows], Y[rows][:, columns]) ** 2 * Y[rows][:, columns].size
    # One penalty serves all nodes there, so that it can only be a little worse than the best of each.
    assert ridge_error(X, gaps) == pytest.approx(np.sqrt(squares / np.isfinite(gaps).sum()), rel=0.02)
    assert np.isnan(ridge_error(X[:2], Y[:2]))


@pytest.mark.parametrize("has_offsets", [False, True])
def test_residuals_that_do_not_depend_on_the_inputs_have_uniform_p_values(has_offsets):
    """400 draws: a Kolmogorov-Smirnov distance above .098 has probability .001."""
    rng = np.random.default_rng(0)
    adjacency = nx.to_numpy_array(GRAPH)
    p_values = []
    for _ in range(400):
        inputs, residuals = rng.uniform(-1, 1, (4, 12)), rng.normal(size=(4, 12))
        if has_offsets:
            inputs, residuals = inputs - inputs.mean(0), residuals - residuals.mean(0)
        p_values.append(residual_dependence(inputs, residuals, adjacency, has_offsets=has_offsets))
    places = np.sort(p_values)
    assert np.abs(places - np.linspace(0, 1, 400)).max() < 0.098


def test_residuals_that_depend_on_the_inputs_are_found():
    rng = np.random.default_rng(0)
    adjacency = nx.to_numpy_array(GRAPH)
    inputs = rng.uniform(-1, 1, (10, 12))
    assert residual_dependence(inputs, rng.normal(size=(10, 12)) + inputs @ adjacency, adjacency) < 1e-6
    assert residual_dependence(inputs[:1, :], np.zeros((1, 12)), adjacency) == 1


# Offsets and outliers


def test_the_largest_residual_is_in_units_of_the_median():
    residuals = np.random.default_rng(0).normal(size=(9, 12))
    residuals[4, 7] = -20.0
    residuals[2, 3] = np.nan
    found = largest_residual(residuals)
    # With its mirror image, a sample has median zero.
    values = [column[~np.isnan(column)] for column in (residuals.ravel(), residuals[:, 7])]
    scale, own = (stats.median_abs_deviation(np.concatenate([part, -part]), scale="normal") for part in values)
    assert (found.row, found.node, found.n_outliers) == (4, 7, 1)
    assert found.deviations == pytest.approx(20 / max(scale, own))
    # The node's own noise counts, as it may have more than others; and so does a level that is known.
    residuals[:, 7] *= 100
    assert largest_residual(residuals).deviations == pytest.approx(20 / own)
    noise = np.where(np.arange(12) == 7, 100.0, 1.0)
    assert largest_residual(residuals, noise).deviations == pytest.approx(found.deviations)


@pytest.mark.parametrize("shape", [(1, 12), (2, 6), (8, 15), (60, 20)])
def test_gaussian_residuals_are_no_outliers(shape):
    """The test is Bonferroni's at 1e-4, and asks for six deviations: 300 draws alarm once in 30 runs at most."""
    rng = np.random.default_rng(0)
    assert not any(largest_residual(rng.normal(size=shape)).n_outliers for _ in range(300))


def test_a_wrong_number_is_told_with_its_row_and_node(tmp_path):
    """One output is off by 100, which is 100 times the noise and 30 times the outputs."""
    X, Y = data(20, 1.0)
    names, rows = [f"bus {node}" for node in range(12)], [f"March {day}" for day in range(1, 21)]
    Y[6, 3] += 100
    X, Y = (pd.DataFrame(values, index=rows, columns=names) for values in (X, Y))
    with pytest.warns(UserWarning, match="the output of node bus 3 in row March 7 is") as caught:
        fitted = LangevinSystemIdentifier("heat", **QUICK).fit(
            X, Y, KNOWN.mask, pd.DataFrame(KNOWN.values, names, names)
        )
    text = str(caught[0].message)
    assert text.endswith("; check it, or use noise_distribution='student-t'.")
    assert len(text) < 160
    assert "node bus 3 in row March 7" in fitted.report(tmp_path / "report.html").read_text()
    assert fitted.diagnostics_["largest_residual"] > 10

    # The remedy helps: the graph is found, and there is nothing left to tell.
    fitted.set_params(noise_distribution="student-t")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted.fit(X, Y, KNOWN)
    table = fitted.suspect_outputs()
    assert list(table.columns) == ["row", "node", "output", "predicted", "probability"]
    assert list(table.loc[0, ["row", "node"]]) == ["March 7", "bus 3"]
    assert table["output"][0] == Y.loc["March 7", "bus 3"]
    assert table["predicted"][0] == pytest.approx(fitted.predict(X)[6, 3])
    assert table["probability"][0] == fitted.outlier_probabilities_[6, 3] > 0.99
    assert len(fitted.suspect_outputs(0.0)) == Y.size
    page = fitted.report(tmp_path / "report.html").read_text()
    assert '<td class="name">March 7</td><td class="name">bus 3</td>' in page


def test_outputs_are_suspect_only_where_outliers_are_sought():
    X, Y = data(5, 1.0)
    settings = {"n_chains": 2, "n_levels": 2, "n_steps": 1, "n_sweeps": 2}
    with pytest.raises(AttributeError, match="fit with noise_distribution='student-t'"):
        fit("heat", X, Y, **settings).suspect_outputs()
    Y[1, 2] = np.nan
    fitted = fit("heat", X[:, ::-1], Y[:, [2, 0]], **settings, noise_distribution="student-t", observed_nodes=[9, 11])
    assert set(fitted.suspect_outputs(0.0)["node"]) == {9, 11}
    assert len(fitted.suspect_outputs(0.0)) == 9
    with pytest.raises(TypeError, match="min_probability='half'; expected a number between 0 and 1"):
        fitted.suspect_outputs("half")


def test_rows_without_labels_are_numbered():
    X, Y = data(20, 1.0)
    Y[6, 3] += 100
    with pytest.warns(UserWarning, match="the output of node 3 in row 6 is"):
        fit("heat", X, Y)


def test_p_values_of_offsets_are_those_of_node_means():
    """Without inputs: the mean squares of nodes' means, over those within nodes."""
    residuals = np.random.default_rng(0).normal(size=(10, 12)) + 0.3
    between = 10 * (residuals.mean(0) ** 2).sum() / 12
    within = residuals.var(0, ddof=1).mean()
    p_value = offset_p_value(np.zeros((10, 12)), residuals, nx.to_numpy_array(GRAPH))
    assert p_value == pytest.approx(stats.f.sf(between / within, 12, 108))
    # Inputs that are not zero on average and residuals that depend on them are not taken for offsets.
    inputs = np.random.default_rng(1).uniform(0, 1, (10, 12))
    depending = np.random.default_rng(0).normal(size=(10, 12)) + 30 * inputs
    assert offset_p_value(inputs, depending, nx.to_numpy_array(GRAPH)) > 0.01


def test_offsets_are_told_and_the_remedy_helps():
    X, Y = data(20, 1.0)
    with pytest.warns(UserWarning, match=r"the outputs have offsets; fit with fit_intercept=True\.") as caught:
        fitted = fit("heat", X, Y + 10)
    assert "fit_intercept" in str(caught[0].message)
    assert not any("another filter" in str(warning.message) for warning in caught)
    assert fitted.diagnostics_["p_value_offsets"] < 1e-20
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit("heat", X, Y + 10, fit_intercept=True)


# Noise that was given


@pytest.mark.parametrize("factor", [100.0, 3.0, 1 / 3])
def test_a_noise_level_that_does_not_go_with_the_data_is_told(factor, tmp_path):
    X, Y = data(20, 1.0)
    with pytest.warns(
        UserWarning, match=r"noise_std=[\d.]+ is inconsistent with residuals of [\d.]+; (check|it is)"
    ) as caught:
        fitted = fit("heat", X, Y, noise_std=factor)
    told = next(warning for warning in caught if "residuals" in str(warning.message))
    assert told.filename == __file__
    assert len(str(told.message)) < 160
    # The residuals are those of the best theta on the graph that was found.
    laplacian = np.diag(fitted.adjacency_.sum(0)) - fitted.adjacency_
    predicted = X @ linalg.expm(-fitted.theta_refitted_[0] * laplacian)
    assert fitted.diagnostics_["residual_std"] == pytest.approx(np.sqrt(np.mean((Y - predicted) ** 2)), rel=1e-6)
    assert "is inconsistent with residuals" in fitted.report(tmp_path / "report.html").read_text()


@pytest.mark.parametrize("noise_std", [None, 1.2])
@pytest.mark.parametrize("n_experiments", [1, 3, 40])
@pytest.mark.parametrize(("filter", "theta"), [(HeatDiffusionFilter(), [0.5]), (PolynomialFilter(2), [0.5, 0.3, 0.1])])
def test_what_goes_with_the_data_is_not_told(filter, theta, n_experiments, noise_std):
    X, Y = data(n_experiments, 1.0, filter, theta)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit(filter, X, Y, noise_std=noise_std)


@pytest.mark.parametrize("n_experiments", [4, 20])
@pytest.mark.parametrize(("filter", "theta"), [(HeatDiffusionFilter(), [0.4]), (PolynomialFilter(2), [0.5, 0.3, 0.1])])
def test_exact_data_are_no_reason_to_doubt_the_filter(filter, theta, n_experiments):
    """What is left of the outputs is rounding, which depends on the inputs and is above ridge's error."""
    X, Y = data(n_experiments, 0.0, filter, theta)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = fit(filter, X, Y)
    np.testing.assert_array_equal(fitted.adjacency_, nx.to_numpy_array(GRAPH))


# Edges that are not alike


@pytest.mark.parametrize("filter", [HeatDiffusionFilter(), PolynomialFilter(1)])
def test_edges_that_differ_in_strength_are_told(filter, tmp_path):
    """Strengths vary by a factor of e either way; of the pairs that look certain, some are wrong."""
    sizes = np.triu(np.random.default_rng(0).lognormal(0, 0.5, (12, 12)), 1)
    weights = nx.to_numpy_array(GRAPH) * (sizes + sizes.T)
    X = np.random.default_rng(1).uniform(-10, 10, (8, 12))
    laplacian = np.diag(weights.sum(0)) - weights
    response = (
        linalg.expm(-0.3 * laplacian) if isinstance(filter, HeatDiffusionFilter) else 0.5 * np.eye(12) + 0.3 * weights
    )
    Y = X @ response + np.random.default_rng(2).normal(scale=0.1, size=X.shape)
    with pytest.warns(
        UserWarning, match="the edges seem to differ in strength; fit with edge_weights='positive'"
    ) as told:
        fitted = fit(filter, X, Y)
    assert not any("another filter" in str(warning.message) for warning in told)
    assert fitted.diagnostics_["strengths_gain"] > 0.25
    assert "they would explain" in fitted.report(tmp_path / "report.html").read_text()


# Filters that are wrong


@pytest.mark.parametrize("order", [1, 2])
def test_a_wrong_filter_is_told(order, tmp_path):
    """Heat, identified as a polynomial: what a ridge fit explains is taken for noise."""
    X, Y = data(40, 0.1)
    with pytest.warns(UserWarning, match=r"the noise takes up \d+% of the outputs' mean square") as caught:
        fitted = fit(PolynomialFilter(order), X, Y)
    told = next(warning for warning in caught if "ridge" in str(warning.message))
    assert len(str(told.message)) < 160
    assert fitted.noise_std_ > 1.5 * fitted.diagnostics_["ridge_error"]
    assert "what ridge regression leaves" in fitted.report(tmp_path / "report.html").read_text()


def test_a_wrong_filter_is_told_where_ridge_has_too_few_experiments():
    X, Y = data(10, 0.1)
    with pytest.warns(UserWarning, match="the residuals depend on the inputs, so the filter is wrong"):
        fit(PolynomialFilter(1), X, Y)


# Units


@pytest.mark.parametrize("noise_std", [None, 1.0])
def test_units_do_not_matter(noise_std):
    X, Y = data(20, 1.0)
    fits = [
        fit("heat", unit * X, unit * Y, noise_std=None if noise_std is None else unit * noise_std)
        for unit in (1.0, 1e-12, 1e12)
    ]
    for other, unit in zip(fits[1:], (1e-12, 1e12), strict=True):
        np.testing.assert_array_equal(other.adjacency_, fits[0].adjacency_)
        assert other.noise_std_ == pytest.approx(unit * fits[0].noise_std_, rel=0.05)
        assert other.theta_ == pytest.approx(fits[0].theta_, rel=0.05)


@pytest.mark.parametrize(("unit", "name"), [(1e-20, "X"), (1e20, "X")])
def test_units_that_single_precision_does_not_have_are_refused(unit, name):
    X, Y = data(3, 1.0)
    with pytest.raises(ValueError, match=f"{name} has values of up to .* single precision"):
        fit("heat", unit * X, unit * Y)


# Warnings


def test_warnings_are_one_sentence_and_the_same_in_every_fold():
    X, Y = data(6, 3.0)
    search = GridSearchCV(
        LangevinSystemIdentifier("heat", n_chains=2, n_levels=2, n_sweeps=4, random_state=0), {"n_steps": [1, 2]}, cv=3
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        search.fit(X, Y, known_mask=KNOWN)
    texts = {str(warning.message) for warning in caught if issubclass(warning.category, ConvergenceWarning)}
    assert texts == {"the chains disagree, and another run may decide some pairs differently; raise n_chains."}
    assert all(len(text) < 160 for text in texts)


FOLDS = [f"the noise is {share}% of all; try another filter" for share in range(6)]  # differ in their numbers


@pytest.mark.slow
def test_a_search_and_worker_processes_show_a_warning_once_and_not_as_one_of_multiprocessing(tmp_path):
    script = tmp_path / "search.py"
    script.write_text(
        "import networkx as nx\n"
        "from joblib import Parallel, delayed\n"
        "from sklearn.model_selection import GridSearchCV\n"
        "from sklearn_graphid import LangevinSystemIdentifier\n"
        "from sklearn_graphid._utils._warnings import warn_caller\n"
        "from sklearn_graphid.datasets import make_system\n"
        "X, Y = make_system(nx.path_graph(8), 'heat', [0.3], 6, noise_std=3.0, random_state=0)\n"
        "identifier = LangevinSystemIdentifier('heat', n_chains=2, n_levels=2, n_sweeps=4, random_state=0)\n"
        "GridSearchCV(identifier, {'n_steps': [1, 2]}, cv=3).fit(X, Y)\n"
        f"Parallel(n_jobs=2, pre_dispatch=2, batch_size=1)(delayed(warn_caller)(text) for text in {FOLDS!r})\n"
    )
    result = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    assert result.stderr.count("ConvergenceWarning") == 1, result.stderr
    assert 1 <= result.stderr.count("<worker>:1: UserWarning: the noise is") <= 2, result.stderr
    assert "multiprocessing" not in result.stderr


def test_worker_threads_show_a_warning_once_and_not_as_one_of_multiprocessing():
    def shown_to(action):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)
            Parallel(n_jobs=2, backend="threading")(delayed(warn_caller)(f"{action}: {text}") for text in FOLDS)
        return [warning.filename for warning in caught]

    assert shown_to("default") == ["<worker>"]
    assert shown_to("always") == ["<worker>"] * len(FOLDS)  # who asks for all of them gets them


@pytest.mark.parametrize("identifier", [LangevinSystemIdentifier, LikelihoodLangevinIdentifier])
def test_the_advice_to_raise_n_chains_helps(identifier):
    X, Y = make_system(nx.path_graph(8), "heat", [0.3], 2, noise_std=3.0, random_state=0)
    settings = {"n_levels": 2, "n_steps": 2, "n_sweeps": 4, "random_state": 0}
    with pytest.warns(ConvergenceWarning, match="raise n_chains"):
        few = identifier("heat", n_chains=4, **settings).fit(X, Y)
    many = identifier("heat", n_chains=64, **settings).fit(X, Y)
    errors = [np.nanmax(fitted.diagnostics_["monte_carlo_error_edges"]) for fitted in (few, many)]
    assert errors[1] < errors[0] / 2


# The score with few experiments


@pytest.mark.slow
def test_the_default_score_finds_the_filter_with_few_experiments():
    """Nine experiments and three families of filters; the mean over nodes of R2 chose wrong here."""
    filters = {"heat": [0.5], "polynomial": [0.5, 0.3, 0.1]}
    chosen = []
    for truth, theta in filters.items():
        X, Y = data(9, 1.0, truth, theta)
        search = GridSearchCV(LangevinSystemIdentifier(**QUICK), {"filter": [*filters, PolynomialFilter(1)]}, cv=3)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            chosen.append(search.fit(X, Y, known_mask=KNOWN).best_params_["filter"] == truth)
    assert all(chosen)


@pytest.mark.parametrize("n_sweeps", [5, 0])
def test_outputs_that_are_all_zero_are_no_trouble(n_sweeps):
    """Ridge regression explains them without error, and nothing can be compared with that."""
    X = np.random.default_rng(0).standard_normal((6, 4))
    identifier = LangevinSystemIdentifier("arma", n_sweeps=n_sweeps, n_chains=2, n_levels=2, random_state=0)
    identifier.fit(X, np.zeros_like(X), np.zeros((4, 4)))
    assert np.isfinite(identifier.noise_std_)
    np.testing.assert_array_equal(identifier.adjacency_, 0)


@pytest.mark.parametrize("seed", [0, 2])
def test_doubt_about_many_pairs_is_not_taken_for_a_wrong_filter(seed):
    # Four experiments leave most of the pairs open. The graph of those above one half then leaves residuals that depend
    # on the inputs (p below 1e-7), though the filter is right; those of the draws do not.
    club = nx.to_numpy_array(nx.karate_club_graph(), weight=None)
    rng = np.random.default_rng(seed)
    X = rng.choice([-5.0, 5.0], size=(4, 34))
    Y = X @ linalg.expm(-0.3 * (np.diag(club.sum(0)) - club)) + rng.normal(scale=0.5, size=X.shape)
    known = hide_edges(club, fraction=0.5, random_state=seed)
    identifier = LangevinSystemIdentifier("heat", n_chains=8, random_state=0).fit(X, Y, known)
    assert identifier.diagnostics_["p_value_residuals"] > 1e-6
