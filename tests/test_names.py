"""Names of nodes: whatever order arguments come in, answers are about the right nodes, or there is an error.

Every argument in turn is shuffled while the others stay; the fit on aligned arguments is what it is compared with.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split

from sklearn_graphid import (
    AdamSystemIdentifier,
    KnownEdges,
    LangevinSystemIdentifier,
    RidgeSystemIdentifier,
    StochasticBlockPrior,
    System,
    identify_many,
)
from sklearn_graphid.datasets import as_experiments, hide_edges, make_system
from sklearn_graphid.filters import SteadyStateFilter
from sklearn_graphid.metrics import edge_calibration_error, edge_f1_score, edge_roc_auc_score
from sklearn_graphid.plotting import AdjacencyDisplay, GraphDisplay
from sklearn_graphid.scorers import log_likelihood_scorer, make_edge_f1_scorer, r2_scorer

GRAPH = nx.relabel_nodes(nx.lollipop_graph(4, 4), dict(enumerate("hgfedcba")))
NAMES = list(GRAPH)
SHUFFLED = list(np.random.default_rng(3).permutation(NAMES))
INPUTS, OUTPUTS = make_system(GRAPH, "heat", theta=[0.5], n_experiments=40, random_state=0)
X, Y = pd.DataFrame(INPUTS, columns=NAMES), pd.DataFrame(OUTPUTS, columns=NAMES)
KNOWN = hide_edges(GRAPH, fraction=0.6, random_state=0)
PARTIAL = pd.DataFrame(KNOWN.to_array(), index=NAMES, columns=NAMES)
MASK = pd.DataFrame(KNOWN.mask, index=NAMES, columns=NAMES)
REORDERED = nx.Graph()
REORDERED.add_nodes_from(SHUFFLED)
REORDERED.add_edges_from(GRAPH.edges)

QUICK = LangevinSystemIdentifier("heat", n_chains=4, n_levels=2, n_sweeps=10, random_state=0)
IDENTIFIERS = [QUICK, AdamSystemIdentifier("heat", max_iter=300, random_state=0), RidgeSystemIdentifier("heat")]


ODD_TABLE = pd.DataFrame([["a", "b", None]], columns=["u", "v", "present"])


def edges_of(graph):
    return {frozenset(edge) for edge in graph.edges}


def fit(*arguments, **keywords):
    return clone(QUICK).fit(*arguments, **keywords)


@pytest.fixture(scope="module")
def aligned():
    identifier = fit(X, Y, KNOWN)
    assert edges_of(identifier.to_networkx()) == edges_of(GRAPH)
    return identifier


def assert_same_answer(identifier, aligned):
    """The same numbers for every node, whatever its place."""
    order = [identifier.node_names_.index(name) for name in aligned.node_names_]
    np.testing.assert_array_equal(identifier.edge_probabilities_[np.ix_(order, order)], aligned.edge_probabilities_)
    np.testing.assert_array_equal(identifier.theta_, aligned.theta_)


# What is known, and the outputs


@pytest.mark.parametrize(
    "known",
    [
        PARTIAL.loc[SHUFFLED, SHUFFLED],
        PARTIAL.loc[SHUFFLED],  # rows and columns in different orders
        pl.DataFrame(PARTIAL[SHUFFLED].loc[SHUFFLED].reset_index(drop=True)),
        PARTIAL.loc[SHUFFLED, SHUFFLED].reset_index(drop=True),  # only the columns have names
        KnownEdges.from_array(PARTIAL.loc[SHUFFLED, SHUFFLED]),
        KnownEdges(MASK.loc[SHUFFLED, SHUFFLED], GRAPH),
        KnownEdges(MASK, REORDERED),
        hide_edges(GRAPH, fraction=0.6, random_state=0),
    ],
)
def test_what_is_known_goes_by_name(known, aligned):
    assert_same_answer(fit(X, Y, known), aligned)


@pytest.mark.parametrize("mask", [MASK, MASK.loc[SHUFFLED, SHUFFLED], MASK.to_numpy()])
@pytest.mark.parametrize("graph", [GRAPH, REORDERED])
def test_a_graph_beside_a_mask_goes_by_name(mask, graph, aligned):
    assert_same_answer(fit(X, Y, mask, known_adjacency=graph), aligned)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_outputs_go_by_name(frame, aligned):
    shuffled = fit(X, frame(Y[SHUFFLED]), KNOWN)
    assert_same_answer(shuffled, aligned)
    # predict and score are in the order of the Y that was given.
    order = [NAMES.index(name) for name in SHUFFLED]
    np.testing.assert_array_equal(shuffled.predict(X), aligned.predict(X)[:, order])
    assert shuffled.score(X, Y) == pytest.approx(aligned.score(X, Y), rel=1e-12)


@pytest.mark.parametrize("identifier", IDENTIFIERS, ids=lambda identifier: type(identifier).__name__)
def test_inputs_set_the_order(identifier):
    """All arguments in different orders; the graph by name is the true one."""
    shuffled = clone(identifier).fit(X[SHUFFLED], Y, PARTIAL.iloc[::-1])
    assert list(shuffled.node_names_) == SHUFFLED
    aligned = clone(identifier).fit(X, Y, KNOWN)
    assert edges_of(shuffled.to_networkx()) == edges_of(aligned.to_networkx())


# Experiments: the labels of rows

DAYS = pd.date_range("2024-05-01", periods=len(X))
ORDER = np.random.default_rng(4).permutation(len(X))


@pytest.mark.parametrize(
    "labels",
    [
        DAYS,
        [f"run {number}" for number in range(len(X))],
        np.arange(len(X)) * 3 + 7,  # as after rows were filtered
        pd.MultiIndex.from_product([["day", "night"], range(len(X) // 2)]),
        None,  # pandas' own numbers, which follow the rows when these are shuffled
    ],
    ids=["dates", "text", "integers", "levels", "default"],
)
def test_rows_go_by_label(labels, aligned):
    labelled, outputs = (frame if labels is None else frame.set_axis(labels) for frame in (X, Y))
    assert_same_answer(fit(labelled, outputs.iloc[ORDER], KNOWN), aligned)
    assert aligned.score(labelled, outputs.iloc[ORDER]) == aligned.score(X, Y)
    assert r2_scorer(aligned, labelled.iloc[ORDER], outputs) == pytest.approx(aligned.score(X, Y), rel=1e-12)
    assert log_likelihood_scorer(aligned, labelled, outputs.iloc[ORDER]) == log_likelihood_scorer(aligned, X, Y)


def test_the_labels_of_a_series_count(aligned):
    one_node, labelled = Y[NAMES[2]].set_axis(DAYS), X.set_axis(DAYS)
    expected = fit(X, Y[NAMES[2]], KNOWN)
    np.testing.assert_array_equal(
        fit(labelled, one_node.iloc[ORDER], KNOWN).edge_probabilities_, expected.edge_probabilities_
    )


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [
        (X.set_axis(DAYS), Y),  # one has labels
        (X.set_axis(DAYS), Y.to_numpy()),
        (X.to_numpy(), Y.set_axis(DAYS)),
        (X.set_axis(DAYS), pl.DataFrame(Y)),
        (X.set_axis(["a"] * 40), Y.set_axis(["a"] * 40)),  # repeated labels that agree
        (X.set_axis([np.nan, *range(39)]), Y.set_axis([np.nan, *range(39)])),
        (X.set_axis(np.arange(40) + 5), Y.set_axis(DAYS)),  # part of a default index beside labels
        (X.set_axis(np.arange(40) + 5), Y.set_axis(np.arange(40) + 6)),  # counted from 0 and from 1
    ],
)
def test_rows_without_two_sets_of_labels_go_by_position(inputs, outputs, aligned):
    assert_same_answer(fit(inputs, outputs, KNOWN), aligned)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (DAYS.shift(3), r"missing: Timestamp\('2024-05-01 00:00:00'\).* surplus: .*Rows are matched by the labels"),
        ([*DAYS[1:], DAYS[1]], r"missing: Timestamp"),
        ([*DAYS[:-2], DAYS[-1], "x"], r"surplus: 'x'"),
    ],
)
def test_row_labels_that_do_not_match_raise(labels, message, aligned):
    with pytest.raises(ValueError, match=message):
        fit(X.set_axis(DAYS), Y.set_axis(labels), KNOWN)
    with pytest.raises(ValueError, match=message):
        aligned.score(X.set_axis(DAYS), Y.set_axis(labels))


@pytest.mark.parametrize(
    ("inputs", "outputs"),
    [(X.iloc[:-1], Y.drop(3)), (X, Y.set_axis(np.arange(40) + 5))],
    ids=["other rows left out", "in part the same"],
)
def test_default_labels_of_which_only_some_match_raise(inputs, outputs):
    """Rows of both were left out after they had been numbered: by position they would not belong together."""
    with pytest.raises(ValueError, match="do not have the same row labels"):
        fit(inputs, outputs, KNOWN)


def test_repeated_row_labels_in_another_order_raise():
    labels = [*"ab"] * (len(X) // 2)
    with pytest.raises(ValueError, match="several rows are called 'b'"):
        fit(X.set_axis(labels), Y.set_axis(labels[::-1]), KNOWN)


@pytest.mark.parametrize("outputs", [Y, Y.set_axis(DAYS), Y.set_axis(np.arange(40) + 1)])
def test_row_labels_survive_model_selection(outputs):
    """Folds of a default index look like labels; they must not be held against those of Y."""
    ridge, folds = RidgeSystemIdentifier("heat"), KFold(3, shuffle=True, random_state=0)
    expected = cross_val_score(ridge, INPUTS, OUTPUTS, cv=folds)
    np.testing.assert_allclose(cross_val_score(ridge, X, outputs, cv=folds, error_score="raise"), expected)
    parts = train_test_split(X.set_axis(DAYS), Y.set_axis(DAYS), random_state=0)
    assert ridge.fit(parts[0], parts[2]).score(parts[1], parts[3]) > 0.5


def test_experiments_of_a_dated_series_can_be_fitted():
    ridge = RidgeSystemIdentifier("heat")
    expected = ridge.fit(*as_experiments(INPUTS)).edge_probabilities_
    dated = clone(ridge).fit(*as_experiments(X.set_axis(DAYS)))
    np.testing.assert_array_equal(dated.edge_probabilities_, expected)


def test_polars_columns_are_names(aligned):
    assert_same_answer(fit(pl.DataFrame(X), pl.DataFrame(Y[SHUFFLED]), PARTIAL.loc[SHUFFLED, SHUFFLED]), aligned)


def test_score_puts_outputs_in_order(aligned):
    shuffled = Y[SHUFFLED]
    # Sums over columns that lie elsewhere in memory may differ in the last bit.
    expected = pytest.approx(aligned.score(X, Y), rel=1e-12)
    assert aligned.score(X, shuffled) == expected
    assert r2_scorer(aligned, X, shuffled) == expected
    with pytest.raises(ValueError, match=r"y and Y at fit do not name the same nodes: missing: 'a'. surplus: 'z'"):
        aligned.score(X, Y.rename(columns={"a": "z"}))


def test_fewer_outputs_go_by_name():
    names = SHUFFLED[:5]
    by_name = fit(X, Y[names], KNOWN)
    by_number = clone(QUICK).set_params(observed_nodes=[NAMES.index(name) for name in names])
    by_number.fit(X, Y[names].to_numpy(), KNOWN)
    np.testing.assert_array_equal(by_name.edge_probabilities_, by_number.edge_probabilities_)
    assert by_name.score(X, Y[names]) == pytest.approx(by_name.score(X, Y[names[::-1]]), rel=1e-12)
    listed = clone(QUICK).set_params(observed_nodes=names).fit(X, Y[names].to_numpy(), KNOWN)
    np.testing.assert_array_equal(listed.edge_probabilities_, by_name.edge_probabilities_)


def test_one_named_output():
    single = fit(X, Y["c"], KNOWN)
    assert single._output_nodes == [NAMES.index("c")]
    assert single.predict(X).ndim == 1


def test_edge_prior_goes_by_name():
    probabilities = pd.DataFrame(nx.to_numpy_array(GRAPH), index=NAMES, columns=NAMES) * 0.8 + 0.1
    aligned, shuffled = (
        clone(QUICK).set_params(edge_prior=prior).fit(X[:2], Y[:2], KNOWN)
        for prior in (probabilities, probabilities.loc[SHUFFLED, SHUFFLED])
    )
    np.testing.assert_array_equal(aligned.edge_probabilities_, shuffled.edge_probabilities_)
    with pytest.raises(ValueError, match="edge_prior and X do not name the same nodes"):
        clone(QUICK).set_params(edge_prior=probabilities.rename(index={"a": "z"}, columns={"a": "z"})).fit(X, Y)


# Numbers


def test_numbered_nodes_are_positions():
    """networkx keeps nodes in the order in which they were added; a node that is called 3 is column 3 all the same."""
    numbered = nx.convert_node_labels_to_integers(GRAPH)
    backwards = nx.Graph()
    backwards.add_nodes_from(reversed(range(8)))
    backwards.add_edges_from(numbered.edges)
    np.testing.assert_array_equal(
        make_system(backwards, "heat", [0.5], random_state=0)[1],
        make_system(numbered, "heat", [0.5], random_state=0)[1],
    )
    known = KnownEdges(KNOWN.mask, backwards)
    np.testing.assert_array_equal(known.values, KNOWN.values)
    identifier = fit(INPUTS, OUTPUTS, KnownEdges(KNOWN.mask, KNOWN.values))
    assert edges_of(identifier.to_networkx()) == edges_of(numbered)
    assert edge_f1_score(backwards, identifier.adjacency_, known) == 1


def test_numbers_from_a_file_are_text():
    """read_csv makes the column 3 a column "3"."""
    numbered = nx.convert_node_labels_to_integers(GRAPH)
    order = [5, 2, 7, 0, 1, 4, 3, 6]
    columns = [str(number) for number in order]
    frame_X, frame_Y = (pd.DataFrame(array[:, order], columns=columns) for array in (INPUTS, OUTPUTS))
    identifier = fit(frame_X, frame_Y, KnownEdges.from_networkx(numbered))
    assert identifier.known_edges_.values.sum() == 2 * numbered.number_of_edges()
    for i, j in numbered.edges:
        assert identifier.adjacency_[order.index(i), order.index(j)] == 1


NUMBERED = [2, 0, 3, 1]
PATH = nx.to_numpy_array(nx.path_graph(4))
PATH_KNOWN = KnownEdges(np.ones((4, 4), dtype=bool), PATH)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(
    "known",
    [
        KnownEdges.from_networkx(nx.path_graph(4), absent=nx.complement(nx.path_graph(4))),
        KnownEdges(PATH_KNOWN.mask, PATH, names=range(4)),
        pd.DataFrame(PATH),
        pd.DataFrame(PATH)[[3, 1, 0, 2]].loc[[3, 1, 0, 2]],
        pd.DataFrame(PATH, index=[0, 1, 2, 3], columns=[0, 1, 2, 3]).loc[[1, 3, 2, 0]],
    ],
)
def test_numbered_known_part_goes_by_the_numbers_of_columns(known, text):
    """A node that is called 2 is the column that is called 2, or "2", wherever that stands."""
    columns = [str(number) for number in NUMBERED] if text else NUMBERED
    frame = pd.DataFrame(INPUTS[:, :4], columns=columns)
    identifier = RidgeSystemIdentifier("heat").fit(frame, frame, known)
    np.testing.assert_array_equal(identifier.adjacency_, PATH[np.ix_(NUMBERED, NUMBERED)])


def test_numbered_mask_and_graph_go_by_the_numbers_of_columns():
    frame = pd.DataFrame(INPUTS[:, :4], columns=NUMBERED)
    mask = pd.DataFrame(PATH_KNOWN.mask)
    identifier = RidgeSystemIdentifier("heat").fit(frame, frame, mask, nx.path_graph(4))
    np.testing.assert_array_equal(identifier.adjacency_, PATH[np.ix_(NUMBERED, NUMBERED)])


def test_numbered_known_part_goes_by_position_without_numbers_in_columns():
    shuffled = KnownEdges(PATH_KNOWN.mask, PATH[np.ix_(NUMBERED, NUMBERED)], names=NUMBERED)
    for inputs in (INPUTS[:, :4], pd.DataFrame(INPUTS[:, :4])):
        identifier = RidgeSystemIdentifier("heat").fit(inputs, inputs, shuffled)
        np.testing.assert_array_equal(identifier.adjacency_, PATH)
    letters = pd.DataFrame(INPUTS[:, :4], columns=list("dcba"))
    for known in (KnownEdges.from_networkx(nx.path_graph(4)), pd.DataFrame(PATH), PATH):
        identifier = RidgeSystemIdentifier("heat").fit(letters, letters, known)
        np.testing.assert_array_equal(identifier.known_edges_.values, PATH)


@pytest.mark.parametrize(
    ("input_names", "output_names"),
    [([2, 0, 3, 1], [0, 1, 2, 3]), (["2", "0", "3", "1"], [0, 1]), ([0, 1, 2, 3], ["2", "0", "3", "1"])],
)
def test_numbered_outputs_go_by_the_numbers_of_columns(input_names, output_names):
    """Without noise and without edges an output is the input of its node."""
    places = [[str(name) for name in input_names].index(str(name)) for name in output_names]
    frame_X = pd.DataFrame(INPUTS[:, :4], columns=input_names)
    frame_Y = pd.DataFrame(INPUTS[:, places], columns=output_names)
    identifier = RidgeSystemIdentifier("heat").fit(frame_X, frame_Y, np.zeros((4, 4)))
    np.testing.assert_allclose(identifier.predict(frame_X), frame_Y)
    assert identifier.score(frame_X, frame_Y) == pytest.approx(1)


def test_integers_are_names_where_all_nodes_are_called_by_integers():
    """One rule for all arguments that list nodes: positions, unless the nodes are called by integers."""
    columns = [7, 3, 5, 0, 1, 2, 4, 6]
    by_name = clone(QUICK).set_params(observed_nodes=[0, 7]).fit(pd.DataFrame(INPUTS, columns=columns), OUTPUTS[:, :2])
    assert list(by_name._output_nodes) == [3, 0]
    inputs = np.eye(8)
    np.testing.assert_array_equal(
        by_name.information_gain(inputs, observed=[0, 7]), by_name.information_gain(inputs, observed=["0", "7"])
    )
    with pytest.raises(ValueError, match="observed_nodes holds 9; expected names of columns of X"):
        clone(QUICK).set_params(observed_nodes=[0, 9]).fit(pd.DataFrame(INPUTS, columns=columns), OUTPUTS[:, :2])
    by_position = clone(QUICK).set_params(observed_nodes=[0, 7]).fit(X, OUTPUTS[:, :2])
    assert list(by_position._output_nodes) == [0, 7]


def test_integer_columns_are_names():
    ids = [101, 205, 7, 33, 12, 1001, 999, 5]
    frame_X, frame_Y = (pd.DataFrame(array, columns=ids) for array in (INPUTS, OUTPUTS))
    identifier = fit(frame_X, frame_Y[ids[::-1]], pd.DataFrame(KNOWN.to_array(), index=ids, columns=ids).iloc[::-1])
    assert identifier.node_names_ == ids
    assert edges_of(identifier.to_networkx()) == edges_of(nx.relabel_nodes(GRAPH, dict(zip(NAMES, ids, strict=True))))
    with pytest.raises(ValueError, match="X has its columns in another order than at fit"):
        identifier.predict(frame_X[ids[::-1]])


# One side without names


def test_position_where_one_side_has_no_names(aligned):
    for arguments in ((INPUTS, Y, KNOWN), (X, OUTPUTS, KNOWN.to_array()), (INPUTS, OUTPUTS, PARTIAL)):
        identifier = fit(*arguments)
        np.testing.assert_array_equal(identifier.edge_probabilities_, aligned.edge_probabilities_)
    assert fit(INPUTS, OUTPUTS, KNOWN).node_names_ == NAMES  # those of what is known
    assert fit(INPUTS, OUTPUTS).node_names_ == list(range(8))


# Names that do not match


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X, Y.rename(columns={"a": "z"}), KNOWN), r"Y and X do not name the same nodes: missing: 'a'. surplus: 'z'\."),
        (
            (X, Y, PARTIAL.rename(columns={"a": "z"}, index={"a": "z"})),
            "known_mask and X .* surplus: 'z'",
        ),
        ((X, Y, PARTIAL.rename(columns={"a": "z"})), "the index of known_mask and its columns do not name the same"),
        ((X, Y, nx.relabel_nodes(GRAPH, {"a": "z"})), "known_mask is a networkx graph"),
        ((X, Y, MASK, nx.relabel_nodes(GRAPH, {"a": "z"})), "known_adjacency and X do not name the same nodes"),
        ((X, Y, KnownEdges.from_networkx(GRAPH.subgraph("abc"))), r"lacks nodes of X: .* nodes=X\.columns"),
        ((X, Y, KnownEdges.from_networkx(nx.relabel_nodes(GRAPH, {"a": "z"}))), "known_mask and X .* surplus: 'z'"),
        ((X.rename(columns={"a": "b"}), Y, KNOWN), "X's columns has the name 'b' twice"),
        ((X, Y.rename(columns={"a": "b"}), KNOWN), "Y's columns has the name 'b' twice"),
        ((X, Y.rename(columns=lambda name: name + "_out"), KNOWN), r"surplus: 'h_out', 'g_out', 'f_out' and 5 more"),
    ],
)
def test_names_that_do_not_match(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        fit(*arguments)


def test_observed_nodes_that_contradict_the_names():
    with pytest.raises(ValueError, match="contradicts the names of Y's columns"):
        clone(QUICK).set_params(observed_nodes="leading").fit(X, Y[["a", "b"]])
    with pytest.raises(ValueError, match="observed_nodes holds 'z'; expected names of columns of X"):
        clone(QUICK).set_params(observed_nodes=["a", "z"]).fit(X, OUTPUTS[:, :2])


def test_a_graph_alone_is_refused_with_both_ways_out():
    for refuse in (lambda: fit(X, Y, GRAPH), lambda: KnownEdges.from_array(GRAPH), lambda: KnownEdges(GRAPH, GRAPH)):
        with pytest.raises(TypeError, match=r"from_networkx\(graph, absent=\.\.\.\).*known_adjacency=graph"):
            refuse()


# The truth, in metrics, scorers, systems and displays


@pytest.mark.parametrize("truth", [GRAPH, REORDERED, pd.DataFrame(nx.to_numpy_array(REORDERED), SHUFFLED, SHUFFLED)])
@pytest.mark.parametrize("metric", [edge_f1_score, edge_roc_auc_score, edge_calibration_error])
def test_metrics_go_by_name(metric, truth, aligned):
    found = aligned.adjacency_ if metric is edge_f1_score else aligned.edge_probabilities_
    expected = metric(nx.to_numpy_array(GRAPH), found, KNOWN.to_array())
    shuffled = fit(X[SHUFFLED], Y, KNOWN)
    assert metric(truth, found, aligned.known_edges_) == expected
    assert metric(truth, pd.DataFrame(found, index=NAMES, columns=NAMES), PARTIAL) == expected
    other = shuffled.adjacency_ if metric is edge_f1_score else shuffled.edge_probabilities_
    assert metric(truth, other, shuffled.known_edges_) == pytest.approx(expected, abs=1e-3)
    with pytest.raises(ValueError, match="do not name the same nodes"):
        metric(nx.relabel_nodes(GRAPH, {"a": "z"}), found, aligned.known_edges_)


def test_scorers_and_systems_go_by_name():
    for known in (None, KNOWN, PARTIAL.loc[SHUFFLED, SHUFFLED]):
        scorer = make_edge_f1_scorer(REORDERED, known)
        assert scorer(fit(X[SHUFFLED], Y, KNOWN), X, Y) == 1
        assert scorer(fit(X, Y, KNOWN), X, Y) == 1
    systems = [System(X, Y, KNOWN, true_adjacency=REORDERED), System(X[SHUFFLED], Y, PARTIAL, true_adjacency=GRAPH)]
    assert list(identify_many(QUICK, systems)["edge_f1"]) == [1, 1]


def test_displays_go_by_name(aligned):
    import matplotlib as mpl

    with mpl.rc_context({"backend": "Agg"}):
        for display in (GraphDisplay, AdjacencyDisplay):
            drawn = display.from_estimator(aligned, true_adjacency=REORDERED)
            np.testing.assert_array_equal(drawn.true_adjacency, nx.to_numpy_array(GRAPH))
            frame = pd.DataFrame(aligned.edge_probabilities_, NAMES, NAMES)
            drawn = display.from_predictions(frame, PARTIAL.loc[SHUFFLED, SHUFFLED], true_adjacency=REORDERED)
            np.testing.assert_array_equal(drawn.known.values, KNOWN.values)
            np.testing.assert_array_equal(drawn.true_adjacency, nx.to_numpy_array(GRAPH))


# Model selection keeps names


def test_groups_go_by_name():
    """Inputs that say nothing leave the prior: an edge within the group of two, and none elsewhere."""
    labels = pd.Series([0, 0, 1, 1, 1, 1, 1, 1], NAMES)
    prior = StochasticBlockPrior(labels, [[0.99, 0.01], [0.01, 0.01]])
    silent = clone(QUICK).set_params(prior=prior, noise_std=1.0).fit(1e-6 * X[SHUFFLED], Y)
    group = [SHUFFLED.index(name) for name in NAMES[:2]]
    assert silent.edge_probabilities_[tuple(group)] > 0.9
    assert silent.edge_probabilities_.sum() < 2 * 0.99 + 56 * 0.1
    prior = StochasticBlockPrior(labels.rename({"a": "z"}), [[0.99, 0.01], [0.01, 0.01]])
    with pytest.raises(ValueError, match=r"labels and X do not name the same nodes: missing: 'a'. surplus: 'z'"):
        clone(QUICK).set_params(prior=prior).fit(X, Y)


def test_searches_keep_names():
    search = GridSearchCV(QUICK, {"n_steps": [1]}, cv=2).fit(X, Y[SHUFFLED], known_mask=KNOWN)
    assert edges_of(search.best_estimator_.to_networkx()) == edges_of(GRAPH)
    scores = cross_val_score(QUICK, X, Y[SHUFFLED], cv=2, params={"known_mask": KNOWN})
    np.testing.assert_allclose(scores, cross_val_score(QUICK, X, Y, cv=2, params={"known_mask": KNOWN}))


# Edge lists


def test_from_networkx():
    graph = nx.Graph([("a", "b"), ("b", "c")])
    known = KnownEdges.from_networkx(graph, absent=[("a", "c"), ("c", "d")], nodes=["d", "c", "b", "a", "e"])
    assert known.names == ("d", "c", "b", "a", "e")
    frame = pd.DataFrame(known.to_array(), known.names, known.names)
    assert frame.loc["a", "b"] == frame.loc["c", "b"] == 1
    assert frame.loc["a", "c"] == frame.loc["d", "c"] == 0
    assert np.isnan(frame.loc["e", list("abcd")]).all()
    assert np.isnan(frame.loc["a", "d"])
    by_graph = KnownEdges.from_networkx(graph, nx.Graph([("a", "c"), ("d", "c")]), pd.DataFrame(columns=known.names))
    np.testing.assert_array_equal(by_graph.to_array(), known.to_array())
    assert KnownEdges.from_networkx(graph, absent=[("a", "d")]).names == ("a", "b", "c", "d")
    assert KnownEdges.from_networkx(nx.Graph([(3, 1), (0, 2)])).names == (0, 1, 2, 3)


def test_from_pandas_edgelist():
    frame = pd.DataFrame({"u": ["a", "b", "c"], "v": ["b", "c", "a"], "state": ["present", "absent", "present"]})
    known = KnownEdges.from_pandas_edgelist(frame, "u", "v", "state", nodes=["c", "b", "a", "d"])
    expected = KnownEdges.from_networkx(nx.Graph([("a", "b"), ("a", "c")]), [("b", "c")], ["c", "b", "a", "d"])
    np.testing.assert_array_equal(known.to_array(), expected.to_array())
    for marks in ([1, 0, 1], [True, False, True], np.array([1, 0, 1])):
        again = KnownEdges.from_pandas_edgelist(frame.assign(state=marks), "u", "v", "state", nodes=known.names)
        np.testing.assert_array_equal(again.to_array(), known.to_array())
    assert KnownEdges.from_pandas_edgelist(pl.DataFrame(frame.to_dict("list")), "u", "v", "state").n_unknown == 0
    assert KnownEdges.from_pandas_edgelist(frame, "u", "v", None).values.sum() == 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: KnownEdges.from_networkx(GRAPH, nodes="abc"), "nodes is a str"),
        (lambda: KnownEdges.from_networkx(GRAPH, nodes=["a", "b"]), "graph has nodes that are not among `nodes`: 'h'"),
        (lambda: KnownEdges.from_networkx(GRAPH, nodes=[*NAMES, "a"]), "nodes has the name 'a' twice"),
        (lambda: KnownEdges.from_networkx(GRAPH, [next(iter(GRAPH.edges))]), "is both present and absent"),
        (lambda: KnownEdges.from_networkx(GRAPH, [("a", "a")]), "absent holds the pair .* of a node with itself"),
        (lambda: KnownEdges.from_networkx(GRAPH, [("a", "b", "c")]), "expected pairs of nodes"),
        (lambda: KnownEdges.from_networkx(GRAPH, ["ab"]), "expected pairs of nodes"),
        (lambda: KnownEdges.from_networkx(GRAPH, "ab"), "absent is a str"),
        (lambda: KnownEdges.from_networkx(GRAPH, [("a", "z")], nodes=NAMES), "absent has nodes .*: 'z'"),
        (lambda: KnownEdges.from_networkx(nx.MultiGraph([(0, 1)])), "graph is a MultiGraph; expected a networkx.Graph"),
        (lambda: KnownEdges.from_networkx(PARTIAL), "graph is a DataFrame; expected a networkx.Graph or"),
        (lambda: KnownEdges.from_networkx(nx.Graph([("a", "a")])), "graph holds the pair .* of a node with itself"),
        (
            lambda: KnownEdges.from_pandas_edgelist(pd.DataFrame({"source": [], "target": []})),
            "present='present'.*None",
        ),
        (lambda: KnownEdges.from_pandas_edgelist(PARTIAL, "u"), "source='u', but frame has the columns"),
        (
            lambda: KnownEdges.from_pandas_edgelist(
                pd.DataFrame({"source": ["a"], "target": ["b"], "present": [None]})
            ),
            "column 'present' of frame holds None",
        ),
        (
            lambda: KnownEdges(np.ones((2, 2), bool), np.zeros((2, 2)), ["a"]),
            "names has 1 entries but mask has 2 nodes",
        ),
        (lambda: KnownEdges(np.ones((2, 2), bool), np.zeros((2, 2)), ["a", []]), "names holds"),
    ],
)
def test_edge_lists_that_make_no_sense(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


def test_to_pandas_edgelist(aligned):
    table = aligned.to_pandas_edgelist()
    assert list(table.columns) == ["source", "target", "probability", "monte_carlo_error", "known"]
    assert len(table) == KNOWN.n_unknown
    assert not table["known"].any()
    assert table["probability"].is_monotonic_decreasing
    found = {frozenset(pair) for pair in zip(table["source"], table["target"], strict=True)}
    assert found == {frozenset((NAMES[i], NAMES[j])) for i, j in zip(*KNOWN.unknown_pairs(), strict=True)}
    everything = aligned.to_pandas_edgelist(include_known=True)
    assert len(everything) == 28
    assert set(everything.loc[everything["known"], "probability"]) <= {0.0, 1.0}
    likely = everything[everything["probability"] > 0.5]
    assert {frozenset(pair) for pair in zip(likely["source"], likely["target"], strict=True)} == edges_of(GRAPH)
    without_chains = RidgeSystemIdentifier("heat").fit(X, Y, KNOWN).to_pandas_edgelist()
    assert without_chains["monte_carlo_error"].isna().all()


# The whole job


def test_two_files_to_a_ranked_table_in_eight_lines(tmp_path):
    X[SHUFFLED].to_csv(tmp_path / "inputs.csv", index=False)
    Y.to_csv(tmp_path / "outputs.csv", index=False)
    known_graph, absent_pairs = nx.Graph([*GRAPH.edges][:4]), [("a", "h"), ("b", "g")]
    # fmt: off
    inputs, outputs = pd.read_csv(tmp_path / "inputs.csv"), pd.read_csv(tmp_path / "outputs.csv")
    known = KnownEdges.from_networkx(known_graph, absent=absent_pairs, nodes=inputs.columns)
    identifier = LangevinSystemIdentifier("heat", random_state=0).fit(inputs, outputs, known)
    table = identifier.to_pandas_edgelist()
    display = GraphDisplay.from_estimator(identifier, node_labels="inferred")
    graph = identifier.to_networkx()
    # fmt: on
    assert edges_of(graph) == edges_of(GRAPH)
    n_hidden = GRAPH.number_of_edges() - 4
    assert {frozenset(pair) for pair in table[["source", "target"]][:n_hidden].to_numpy()} == {
        frozenset(edge) for edge in [*GRAPH.edges][4:]
    }
    ends = {str(node) for edge in [*GRAPH.edges][4:] for node in edge}
    assert {text.get_text() for text in display.ax_.texts} == ends


# The grounded node of a steady state


def grounded(ground, columns=None, known=None):
    known = nx.to_numpy_array(GRAPH) if known is None else known
    system = make_system(GRAPH, SteadyStateFilter(ground=2), [1.0], n_experiments=20, noise_std=0.05, random_state=0)
    X, Y = (pd.DataFrame(values, columns=columns) for values in system)
    return RidgeSystemIdentifier(SteadyStateFilter(ground=ground)).fit(X, Y, known)


def test_ground_goes_by_name():
    expected = grounded(2)
    numbers = [7, 3, 5, 0, 1, 2, 4, 6]
    for fitted in (
        grounded(NAMES[2], NAMES),
        grounded(2, NAMES),
        grounded(NAMES[2], None, nx.to_pandas_adjacency(GRAPH)),  # names that come with what is known
        grounded(5, numbers),
        grounded("5", numbers),
    ):
        assert fitted.filter_.ground == 2
        assert fitted.theta_ == pytest.approx(expected.theta_)
    named = make_system(GRAPH, SteadyStateFilter(ground=NAMES[2]), [1.0], n_experiments=3, random_state=0)
    numbered = make_system(GRAPH, SteadyStateFilter(ground=2), [1.0], n_experiments=3, random_state=0)
    np.testing.assert_array_equal(named, numbered)


@pytest.mark.parametrize(
    ("ground", "columns", "message"),
    [
        ("z", NAMES, r"ground='z'; expected one of the nodes 'h', 'g'"),
        ("a", None, r"ground='a', but the nodes have no names; expected the number of a node"),
        (9, [7, 3, 5, 0, 1, 2, 4, 6], r"ground=9; expected one of the nodes 7, 3"),
    ],
)
def test_ground_that_is_no_node_is_refused(ground, columns, message):
    with pytest.raises(ValueError, match=message):
        grounded(ground, columns)
