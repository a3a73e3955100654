"""Metrics against scikit-learn's on hand-picked pairs, closed forms, and predictors whose error is known."""

from __future__ import annotations

import math

import networkx as nx
import numpy as np
import pytest
from scipy import sparse
from sklearn.calibration import calibration_curve
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import f1_score, roc_auc_score

from sklearn_graphid import KnownEdges
from sklearn_graphid.datasets import hide_edges, make_grid_graphs
from sklearn_graphid.metrics import (
    edge_calibration_error,
    edge_f1_score,
    edge_reliability_curve,
    edge_roc_auc_score,
    theta_nrmse,
)

EDGE_METRICS = [edge_f1_score, edge_roc_auc_score, edge_calibration_error]

PATH = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 1], [0, 0, 1, 0]])


def symmetric(upper):
    return np.triu(upper, 1) + np.triu(upper, 1).T


def random_system(seed, n_nodes=20):
    """A network, probabilities that lean towards it, and what was known."""
    rng = np.random.default_rng(seed)
    truth = symmetric(rng.random((n_nodes, n_nodes)) < 0.3)
    probabilities = symmetric(np.clip(0.25 + 0.3 * truth + 0.2 * rng.standard_normal(truth.shape), 0, 1))
    return truth, probabilities, hide_edges(truth, 0.5, random_state=seed)


def pairs_by_hand(truth, probabilities, known):
    """The unknown pairs, one by one, without the package's own bookkeeping."""
    places = [(i, j) for i in range(len(truth)) for j in range(i + 1, len(truth)) if not known.mask[i, j]]
    return np.array([truth[p] for p in places]), np.array([probabilities[p] for p in places])


# Against scikit-learn


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_scikit_learns_on_the_unknown_pairs(seed):
    truth, probabilities, known = random_system(seed)
    true_pairs, probable_pairs = pairs_by_hand(truth, probabilities, known)
    assert edge_f1_score(truth, probabilities, known) == f1_score(true_pairs, probable_pairs > 0.5)
    assert edge_f1_score(truth, probabilities, known, threshold=0.3) == f1_score(true_pairs, probable_pairs > 0.3)
    assert edge_roc_auc_score(truth, probabilities, known) == roc_auc_score(true_pairs, probable_pairs)


@pytest.mark.parametrize("n_bins", [1, 2, 7, 10])
def test_reliability_curve_is_scikit_learns_where_bins_hold_something(n_bins):
    truth, probabilities, known = random_system(0)
    curve = edge_reliability_curve(truth, probabilities, known, n_bins=n_bins)
    fraction_true, mean_predicted = calibration_curve(*pairs_by_hand(truth, probabilities, known), n_bins=n_bins)
    filled = curve.counts > 0
    np.testing.assert_allclose(curve.mean_predicted[filled], mean_predicted)
    np.testing.assert_allclose(curve.fraction_true[filled], fraction_true)
    assert np.isnan(curve.mean_predicted[~filled]).all()
    assert np.isnan(curve.fraction_true[~filled]).all()
    assert curve.counts.sum() == known.n_unknown
    assert all(len(part) == n_bins for part in curve)


# What counts as unknown


@pytest.mark.parametrize("metric", EDGE_METRICS)
def test_known_pairs_are_never_read(metric):
    truth, probabilities, known = random_system(1)
    spoilt = np.where(known.mask, np.nan, probabilities)
    assert metric(truth, spoilt, known) == metric(truth, probabilities, known)


@pytest.mark.parametrize("metric", EDGE_METRICS)
def test_all_ways_to_say_what_was_known_agree(metric):
    truth, probabilities, known = random_system(2)
    expected = metric(truth, probabilities, known)
    assert metric(truth, probabilities, known.to_array()) == expected
    assert metric(truth, probabilities, known.mask) == expected
    assert metric(sparse.csr_array(truth), probabilities, known) == expected
    assert metric(nx.from_numpy_array(truth), probabilities.tolist(), known) == expected
    assert metric(truth, probabilities) == metric(truth, probabilities, KnownEdges.nothing(len(truth)))
    assert metric(truth, probabilities) != expected


def test_a_predicted_network_may_be_of_any_kind():
    predicted = nx.path_graph(4)
    assert edge_f1_score(PATH, predicted) == edge_f1_score(PATH, sparse.csr_array(PATH)) == 1.0


# Closed forms and edge cases


def test_f1_by_hand():
    # Of three true edges two are found, with one false alarm: F1 = 2 * 2 / (2 * 2 + 1 + 1).
    predicted = symmetric([[0, 1, 1, 0], [0, 0, 1, 0], [0, 0, 0, 0], [0, 0, 0, 0]])
    assert edge_f1_score(PATH, predicted) == pytest.approx(2 / 3)


def test_f1_counts_edges_above_the_threshold():
    assert edge_f1_score(PATH, np.full((4, 4), 0.5)) == 0.0
    assert edge_f1_score(PATH, np.full((4, 4), 0.5), threshold=0.49) == pytest.approx(2 * 3 / (2 * 3 + 3))


def test_f1_of_nothing_found_where_nothing_is():
    empty = np.zeros((4, 4))
    assert edge_f1_score(empty, empty) == 1.0
    assert edge_f1_score(empty, PATH) == 0.0
    assert edge_f1_score(PATH, empty) == 0.0
    only_a_non_edge_hidden = PATH.astype(float)
    only_a_non_edge_hidden[0, 2] = only_a_non_edge_hidden[2, 0] = np.nan
    assert edge_f1_score(PATH, empty, only_a_non_edge_hidden) == 1.0


def test_auc_of_perfect_inverted_and_constant_scores():
    assert edge_roc_auc_score(PATH, PATH) == 1.0
    assert edge_roc_auc_score(PATH, 1 - PATH) == 0.0
    assert edge_roc_auc_score(PATH, np.full((4, 4), 0.7)) == 0.5
    assert edge_roc_auc_score(PATH, 100.0 * PATH - 300) == 1.0  # any score will do


def test_auc_needs_both_classes():
    for one_class in (np.zeros((3, 3)), 1 - np.eye(3)):
        with pytest.warns(UndefinedMetricWarning, match="edge_roc_auc_score is undefined .* edges and non-edges"):
            assert math.isnan(edge_roc_auc_score(one_class, np.full((3, 3), 0.5)))


@pytest.mark.parametrize("metric", EDGE_METRICS)
def test_nothing_unknown_is_undefined(metric):
    with pytest.warns(UndefinedMetricWarning, match=f"{metric.__name__} is undefined and set to nan"):
        assert math.isnan(metric(PATH, PATH, KnownEdges.from_array(PATH)))
    with pytest.warns(UndefinedMetricWarning, match=metric.__name__):
        assert math.isnan(metric(np.zeros((1, 1)), np.zeros((1, 1))))


def test_reliability_curve_of_nothing_is_empty_bins():
    curve = edge_reliability_curve(PATH, PATH, KnownEdges.from_array(PATH), n_bins=3)
    np.testing.assert_array_equal(curve.counts, [0, 0, 0])
    assert np.isnan(curve.mean_predicted).all()


def test_bins_hold_their_upper_edge():
    probabilities = symmetric([[0, 0.0, 0.5, 1.0], [0, 0, 0.25, 0.75], [0, 0, 0, 0.500001], [0, 0, 0, 0]])
    curve = edge_reliability_curve(PATH, probabilities, n_bins=2)
    np.testing.assert_array_equal(curve.counts, [3, 3])
    np.testing.assert_allclose(curve.mean_predicted, [0.25, (1 + 0.75 + 0.500001) / 3])


def test_calibration_error_by_hand():
    # Three of six pairs are edges. All at .9: off by .4. Edges at 1 and the rest at 0: right every time.
    assert edge_calibration_error(PATH, np.full((4, 4), 0.9)) == pytest.approx(0.4)
    assert edge_calibration_error(PATH, PATH) == 0.0
    assert edge_calibration_error(PATH, 1 - PATH) == 1.0
    assert edge_calibration_error(PATH, np.where(PATH, 0.8, 0.1)) == pytest.approx((3 * 0.2 + 3 * 0.1) / 6)


def test_calibration_of_predictors_whose_error_is_known():
    """79,800 pairs with uniform probabilities p: telling p has error 0, telling p^2 has E|p - p^2| = 1/6."""
    rng = np.random.default_rng(0)
    probabilities = symmetric(rng.random((400, 400)))
    truth = symmetric(rng.random((400, 400)) < probabilities)
    # Each of ten bins of 7,980 pairs is off by about sqrt(p (1 - p) / 7980), so chance alone gives
    # .0035; the largest of 3,000 simulations was .0072, so fewer than one seed in 3,000 alarms.
    assert edge_calibration_error(truth, probabilities) < 0.009
    # The mean over all pairs of truth - p^2 has deviation sqrt(E p (1 - p) / 79800) = .0014, and is nearly
    # normal; five deviations alarm once in two million seeds.
    assert edge_calibration_error(truth, probabilities**2) == pytest.approx(1 / 6, abs=0.0072)


# Lists of systems


def test_lists_of_systems_are_pooled():
    systems = [random_system(seed, n_nodes) for seed, n_nodes in enumerate((5, 9, 14))]
    truths, probabilities, knowns = (list(column) for column in zip(*systems, strict=True))
    hand = [pairs_by_hand(*system) for system in systems]
    true_pairs, probable_pairs = (np.concatenate(column) for column in zip(*hand, strict=True))
    fraction_true, mean_predicted = calibration_curve(true_pairs, probable_pairs, n_bins=10)
    curve = edge_reliability_curve(truths, probabilities, knowns)
    np.testing.assert_allclose(curve.fraction_true[curve.counts > 0], fraction_true)
    np.testing.assert_allclose(curve.mean_predicted[curve.counts > 0], mean_predicted)
    expected = np.abs(fraction_true - mean_predicted) @ curve.counts[curve.counts > 0] / len(true_pairs)
    assert edge_calibration_error(truths, probabilities, knowns) == pytest.approx(expected)


def test_one_system_in_a_list_is_one_system():
    truth, probabilities, known = random_system(3)
    expected = edge_calibration_error(truth, probabilities, known)
    assert edge_calibration_error([truth], [probabilities], [known]) == expected
    assert edge_calibration_error(truth[None], probabilities[None], known.to_array()[None]) == expected
    assert edge_calibration_error([nx.from_numpy_array(truth)], [probabilities.tolist()], (known,)) == expected
    assert edge_calibration_error([truth.tolist()], [probabilities]) == edge_calibration_error(truth, probabilities)


def test_none_known_serves_a_list():
    truth, probabilities, _ = random_system(4)
    once = edge_calibration_error(truth, probabilities)
    assert edge_calibration_error([truth] * 2, [probabilities] * 2) == pytest.approx(once)
    assert edge_reliability_curve([truth] * 2, [probabilities] * 2, [None, None]).counts.sum() == 380


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([PATH, PATH], [PATH]), "list of 2 systems but edge_probabilities is a list of length 1"),
        (([PATH], [PATH], [None, None]), "list of 1 systems but known is a list of length 2"),
        (
            ([PATH], [PATH], KnownEdges.nothing(4)),
            "list of 1 systems but known is a KnownEdges; expected a list",
        ),
    ],
)
def test_lists_of_other_lengths_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        edge_calibration_error(*arguments)


# Wrong input


@pytest.mark.parametrize("metric", EDGE_METRICS)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((PATH, PATH[:3, :3]), r"has shape \(3, 3\) but true_adjacency has shape \(4, 4\)"),
        ((PATH, PATH[:3]), r"has shape \(3, 4\); expected a square matrix"),
        ((PATH / 2, PATH), "true_adjacency holds the value 0.5"),
        ((np.triu(PATH), PATH), "true_adjacency is not symmetric"),
        ((PATH, np.triu(PATH)), r"is not symmetric on the unknown pairs.*directed=True"),
        ((PATH, np.full((4, 4), np.nan)), "is not finite on the unknown pairs"),
        (
            (PATH, PATH, KnownEdges.nothing(5)),
            "known is a KnownEdges of 5 nodes but true_adjacency has 4 nodes",
        ),
        (
            (PATH, PATH, np.zeros((5, 5))),
            r"known has shape \(5, 5\) but true_adjacency has 4 nodes.*KnownEdges",
        ),
    ],
)
def test_wrong_matrices_are_refused(metric, arguments, message):
    with pytest.raises(ValueError, match=message):
        metric(*arguments)


@pytest.mark.parametrize("odd", [-0.1, 1.1])
def test_calibration_wants_probabilities(odd):
    with pytest.raises(ValueError, match=f"edge_probabilities holds the value {odd}; expected .* between 0 and 1"):
        edge_calibration_error(PATH, np.full((4, 4), odd))


def test_bins_are_at_least_one():
    with pytest.raises(ValueError, match="n_bins=0; expected an integer of at least 1"):
        edge_calibration_error(PATH, PATH, n_bins=0)


# theta


def test_theta_nrmse_by_hand():
    assert theta_nrmse([3.0, 4.0], [3.0, 4.0]) == 0.0
    assert theta_nrmse([3.0, 4.0], [0.0, 0.0]) == 1.0
    assert theta_nrmse([3.0, 4.0], [6.0, 8.0]) == 1.0
    assert theta_nrmse(0.5, 0.4) == pytest.approx(0.2)


def test_theta_nrmse_has_no_unit():
    rng = np.random.default_rng(0)
    truth, estimate = rng.normal(size=(2, 3))
    assert theta_nrmse(1e-6 * truth, 1e-6 * estimate) == pytest.approx(theta_nrmse(truth, estimate))


def test_theta_nrmse_over_systems_is_the_mean_over_systems():
    rng = np.random.default_rng(1)
    truth, estimate = rng.normal(size=(2, 6, 3))
    each = [theta_nrmse(one, other) for one, other in zip(truth, estimate, strict=True)]
    assert theta_nrmse(truth, estimate) == pytest.approx(np.mean(each))


def test_theta_nrmse_of_the_oracle_is_the_published_one():
    """Least squares that is told the graph: .118 was reported at ten experiments, as a mean over 100 grids."""
    rng = np.random.default_rng(0)
    truth, estimates = rng.uniform(-0.1, 0.1, size=(400, 3)), []
    for adjacency, theta in zip(make_grid_graphs(400, random_state=0), truth, strict=True):
        X = rng.uniform(-10, 10, size=(10, len(adjacency)))
        shifted = np.stack([X, X @ adjacency, X @ adjacency @ adjacency], axis=-1)
        noisy = shifted @ theta + rng.standard_normal(X.shape)
        estimates.append(np.linalg.lstsq(shifted.reshape(-1, 3), noisy.ravel())[0])
    # One system's error has deviation .11, so the reported mean is known to .011 and this one to .0056; three
    # deviations of the difference. The root of the mean square is .168 (over 4,000 grids) and would not pass.
    assert theta_nrmse(truth, np.array(estimates)) == pytest.approx(0.118, abs=3 * math.hypot(0.011, 0.0056))


def test_theta_nrmse_of_a_true_zero_is_undefined():
    for truth in ([0.0, 0.0], [[1.0, 1.0], [0.0, 0.0]]):
        with pytest.warns(UndefinedMetricWarning, match="theta_nrmse is undefined"):
            assert math.isnan(theta_nrmse(truth, np.ones(np.shape(truth))))


@pytest.mark.parametrize(
    ("truth", "estimate"),
    [([1.0, 2.0], [1.0]), ([1.0], [[1.0]]), ([], []), (np.ones((1, 1, 1)), np.ones((1, 1, 1)))],
)
def test_theta_shapes_must_agree(truth, estimate):
    with pytest.raises(ValueError, match=r"theta_true has shape .* theta_estimated has shape .*\(n_parameters,\)"):
        theta_nrmse(truth, estimate)


# Directed graphs


def test_ordered_pairs_count_on_their_own():
    """Against scikit-learn, on the entries off the diagonal."""
    rng = np.random.default_rng(0)
    truth = ((rng.random((6, 6)) < 0.3) & ~np.eye(6, dtype=bool)).astype(float)
    scores, mask = rng.random((6, 6)), np.eye(6, dtype=bool) | (rng.random((6, 6)) < 0.4)
    known = KnownEdges(mask, truth, directed=True)
    expected = f1_score(truth[~mask], scores[~mask] > 0.5)
    assert edge_f1_score(truth, scores, known) == edge_f1_score(truth, scores, mask, directed=True) == expected
    auc = roc_auc_score(truth[~mask], scores[~mask])
    assert edge_roc_auc_score(truth, scores, known) == pytest.approx(auc)
    assert edge_reliability_curve(truth, scores, known).counts.sum() == (~mask).sum()
    assert edge_calibration_error(truth, truth, directed=True) == 0.0


def test_directed_graphs_of_networkx_are_matched_by_name():
    truth = nx.DiGraph([("a", "b"), ("b", "c")])
    found = nx.DiGraph([("b", "c"), ("b", "a"), ("a", "b")])
    assert edge_f1_score(truth, found, directed=True) == pytest.approx(0.8)
    with pytest.raises(ValueError, match=r"true_adjacency is a networkx DiGraph.*directed=True"):
        edge_f1_score(truth, found)
    with pytest.raises(ValueError, match="known is a KnownEdges of an undirected graph, but directed=True"):
        edge_f1_score(truth, found, KnownEdges.nothing(3), directed=True)
