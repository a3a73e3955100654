"""What is known of a network: how it is said, what is refused, and that scikit-learn passes it whole."""

from __future__ import annotations

import copy
import pickle
import re
from dataclasses import FrozenInstanceError

import networkx as nx
import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.model_selection import cross_validate
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_method_params

from sklearn_graphid import KnownEdges
from sklearn_graphid.graphs._nodes import Nodes

NAN = np.nan
PARTIAL = np.array([[0, 1, NAN], [1, 0, 0], [NAN, 0, 0]])
TRIANGLE = np.ones((3, 3)) - np.eye(3)
FULL_MASK = np.ones((3, 3), dtype=bool)


def assert_same(one, other):
    np.testing.assert_array_equal(one.mask, other.mask)
    np.testing.assert_array_equal(one.values, other.values)


@pytest.fixture
def known():
    return KnownEdges.from_array(PARTIAL)


# What it holds


def test_it_holds_mask_and_values(known):
    np.testing.assert_array_equal(known.mask, [[1, 1, 0], [1, 1, 1], [0, 1, 1]])
    np.testing.assert_array_equal(known.values, [[0, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert known.mask.dtype == bool
    assert known.values.dtype == np.float64
    assert known.n_nodes == 3
    assert known.n_unknown == 1
    assert repr(known) == "KnownEdges(n_nodes=3, known=2 of 3 pairs)"


def test_to_array_is_the_way_back(known):
    np.testing.assert_array_equal(known.to_array(), PARTIAL)
    assert_same(KnownEdges.from_array(known.to_array()), known)


def test_nothing_known():
    nothing = KnownEdges.nothing(4)
    assert nothing.n_unknown == 6
    rows, columns = nothing.unknown_pairs()
    np.testing.assert_array_equal(np.stack([rows, columns]), np.triu_indices(4, 1))


def test_one_node_has_no_pairs():
    alone = KnownEdges.nothing(1)
    assert alone.n_unknown == 0
    np.testing.assert_array_equal(alone.fill([]), [[0.0]])


@pytest.mark.parametrize("hidden", [[(0, 1)], [(1, 0)], [(0, 1), (0, 2), (1, 2)]])
def test_nan_in_one_triangle_only_is_refused(hidden):
    """It may mean an unknown pair, or a pair that is given once; a mask like this is refused, too."""
    one_way = TRIANGLE.astype(float)
    one_way[tuple(np.transpose(hidden))] = NAN
    message = rf"entry {re.escape(str(hidden[0]))} is nan, which means unknown, but entry .* is 1; expected nan in both"
    with pytest.raises(ValueError, match=message):
        KnownEdges.from_array(one_way)
    with pytest.raises(ValueError, match="mask is not symmetric"):
        KnownEdges(~np.isnan(one_way), TRIANGLE)
    np.testing.assert_array_equal(KnownEdges.from_array(np.fmax(one_way, one_way.T)).to_array(), TRIANGLE)
    assert KnownEdges.from_array(one_way, directed=True).n_unknown == len(hidden)


def test_masked_entries_are_unknown(known):
    masked = np.ma.masked_array(TRIANGLE.copy(), mask=np.isnan(PARTIAL))
    masked[1, 2] = masked[2, 1] = 0
    assert_same(KnownEdges.from_array(masked), known)


@pytest.mark.parametrize("values", [TRIANGLE, sparse.csr_array(TRIANGLE), nx.complete_graph(3), TRIANGLE.tolist()])
@pytest.mark.parametrize("mask", [FULL_MASK, sparse.csr_array(FULL_MASK), FULL_MASK.tolist(), FULL_MASK * 1.0])
def test_every_kind_of_matrix_will_do(mask, values):
    np.testing.assert_array_equal(KnownEdges(mask, values).to_array(), TRIANGLE)


@pytest.mark.parametrize("odd", [NAN, 7.0, -1.0])
def test_values_of_unknown_pairs_are_ignored(known, odd):
    assert_same(KnownEdges(known.mask, np.where(known.mask, known.values, odd)), known)


def test_the_diagonal_may_be_unknown(known):
    no_diagonal = known.mask & ~np.eye(3, dtype=bool)
    assert_same(KnownEdges(no_diagonal, np.where(no_diagonal, known.values, NAN)), known)
    partial = PARTIAL.copy()
    np.fill_diagonal(partial, NAN)
    assert_same(KnownEdges.from_array(partial), known)


# Filling


def test_fill_puts_pairs_where_they_belong(known):
    np.testing.assert_array_equal(known.fill([0.5]), [[0, 1, 0.5], [1, 0, 0], [0.5, 0, 0]])


def test_fill_takes_batches():
    filled = KnownEdges.nothing(3).fill(np.arange(12.0).reshape(2, 2, 3))
    assert filled.shape == (2, 2, 3, 3)
    np.testing.assert_array_equal(filled[1, 1], [[0, 9, 10], [9, 0, 11], [10, 11, 0]])
    np.testing.assert_array_equal(filled, filled.swapaxes(-1, -2))


def test_fill_takes_one_number_for_all():
    np.testing.assert_array_equal(KnownEdges.nothing(3).fill(1.0), TRIANGLE)


@pytest.mark.parametrize("shape", [(1,), (2,), (4,), (3, 1)])
def test_fill_wants_one_value_for_each_pair(shape):
    with pytest.raises(ValueError, match=r"pairs has shape .*; expected \(\.\.\., 3\)"):
        KnownEdges.nothing(3).fill(np.zeros(shape))


# What is refused


@pytest.mark.parametrize(
    ("mask", "values", "message"),
    [
        (np.ones((2, 3)), TRIANGLE, r"mask has shape \(2, 3\); expected a square matrix"),
        (FULL_MASK, np.zeros((3, 2)), r"values has shape \(3, 2\); expected a square matrix"),
        (FULL_MASK, np.zeros((4, 4)), r"values has shape \(4, 4\) but mask has shape \(3, 3\)"),
        (FULL_MASK * 0.5, TRIANGLE, "mask holds values other than True and False"),
        (PARTIAL, TRIANGLE, "mask holds values other than True and False; expected a boolean array"),
        (np.triu(FULL_MASK), TRIANGLE, r"mask is not symmetric: entry \(0, 1\) is 1 but entry \(1, 0\) is 0"),
        (FULL_MASK, np.triu(TRIANGLE), "the known part of values is not symmetric"),
        (FULL_MASK, 0.5 * TRIANGLE, "the known part of values holds the value 0.5"),
        (FULL_MASK, np.eye(3), "the known part of values has a self-loop at node 0"),
        (FULL_MASK, PARTIAL, "the known part of values holds the value nan"),
        (FULL_MASK, nx.DiGraph([(0, 1), (1, 2)]), "values is a networkx DiGraph; expected an undirected"),
        (np.zeros((0, 0)), np.zeros((0, 0)), r"has 0 node\(s\); expected at least 1"),
    ],
)
def test_wrong_parts_are_refused(mask, values, message):
    with pytest.raises(ValueError, match=message):
        KnownEdges(mask, values)


@pytest.mark.parametrize(
    ("partial", "message"),
    [
        (PARTIAL[:2], r"partial has shape \(2, 3\); expected a square matrix"),
        (
            np.where(PARTIAL == 1, 2, PARTIAL),
            "partial holds the value 2; expected 0, 1, or nan where unknown",
        ),
        (np.where(PARTIAL == 1, np.inf, PARTIAL), "partial holds the value inf"),
        (np.triu(TRIANGLE), r"partial is not symmetric: entry \(0, 1\) is 1 but entry \(1, 0\) is 0"),
        (np.eye(3), "self-loop at node 0"),
    ],
)
def test_wrong_partial_matrices_are_refused(partial, message):
    with pytest.raises(ValueError, match=message):
        KnownEdges.from_array(partial)


def test_no_matrix_at_all_is_a_type_error():
    with pytest.raises(TypeError, match="partial is a str that does not convert"):
        KnownEdges.from_array("known")


# Coercion


def test_coerce_accepts_every_way_to_say_it(known):
    assert KnownEdges.coerce(known, n_nodes=3) is known
    assert_same(KnownEdges.coerce(PARTIAL, n_nodes=3), known)
    assert_same(KnownEdges.coerce(PARTIAL.tolist(), n_nodes=3), known)
    assert_same(KnownEdges.coerce(None, n_nodes=3), KnownEdges.nothing(3))
    for mask in (known.mask, known.mask.tolist(), sparse.csr_array(known.mask)):
        for values in (known.values, sparse.csr_array(known.values), nx.from_numpy_array(known.values)):
            assert_same(KnownEdges.coerce(mask, values, n_nodes=3), known)


def test_a_whole_network_may_be_known():
    for network in (TRIANGLE, sparse.csr_array(TRIANGLE)):
        assert KnownEdges.coerce(network, n_nodes=3).n_unknown == 0


@pytest.mark.parametrize(
    ("known_mask", "known_adjacency", "message"),
    [
        (None, TRIANGLE, "known_adjacency was given without known_mask; expected a boolean known_mask"),
        (
            KnownEdges.nothing(3),
            TRIANGLE,
            "known_adjacency was given, but known_mask is a KnownEdges and holds",
        ),
        (KnownEdges.nothing(4), None, "known_mask is a KnownEdges of 4 nodes but X has 3 nodes"),
        (FULL_MASK, None, "known_mask is boolean, .* not whether they have edges; expected known_adjacency with it"),
        (FULL_MASK.tolist(), None, "known_mask is boolean"),
        (sparse.csr_array(FULL_MASK), None, "known_mask is boolean"),
        (PARTIAL, TRIANGLE, "known_adjacency goes with a boolean known_mask"),
        (
            PARTIAL[:2],
            None,
            r"known_mask has shape \(2, 3\) but X has 3 nodes.*\(3, 3\).*wrap the mask in KnownEdges",
        ),
        (np.zeros((5, 5)), None, r"known_mask has shape \(5, 5\) but X has 3 nodes.*KnownEdges"),
        (FULL_MASK[:2], TRIANGLE, r"known_mask has shape \(2, 3\).*KnownEdges"),
        (FULL_MASK, TRIANGLE[:2], r"known_adjacency has shape \(2, 3\) but X has 3 nodes.*KnownEdges"),
        (FULL_MASK, nx.path_graph(4), r"known_adjacency has shape \(4, 4\) but X has 3 nodes"),
        (np.zeros(3), None, r"known_mask has shape \(3,\)"),
    ],
)
def test_coerce_refuses_the_rest(known_mask, known_adjacency, message):
    with pytest.raises(ValueError, match=message):
        KnownEdges.coerce(known_mask, known_adjacency, n_nodes=3)


@pytest.mark.parametrize("known_mask", ["known", [[0, 1], [1]], object()])
def test_coerce_refuses_what_is_no_matrix(known_mask):
    with pytest.raises(TypeError, match=r"known_mask is a .* that does not convert to a numeric array"):
        KnownEdges.coerce(known_mask, n_nodes=2)


def test_errors_use_the_callers_words():
    with pytest.raises(ValueError, match="known is a KnownEdges of 4 nodes but true_adjacency has 3 nodes"):
        KnownEdges.coerce(KnownEdges.nothing(4), n_nodes=3, nodes=Nodes(None, "true_adjacency"), name="known")


# Immutability and copies


def copies(known):
    yield known
    yield copy.copy(known)
    yield copy.deepcopy(known)
    yield clone(known, safe=False)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        yield pickle.loads(pickle.dumps(known, protocol))


def test_copies_hold_the_same_and_stay_read_only(known):
    for duplicate in copies(known):
        assert_same(duplicate, known)
        for array in (duplicate.mask, duplicate.values):
            with pytest.raises(ValueError, match="read-only"):
                array[0, 1] = 0


def test_attributes_cannot_be_replaced(known):
    with pytest.raises(FrozenInstanceError):
        known.mask = FULL_MASK


def test_the_callers_arrays_are_copied():
    mask, values = FULL_MASK.copy(), TRIANGLE.copy()
    known = KnownEdges(mask, values)
    mask[0, 1], values[0, 1] = False, 0
    np.testing.assert_array_equal(known.to_array(), TRIANGLE)
    known.fill([])[0, 1] = 5  # what is handed out is the caller's own
    known.to_array()[0, 1] = 5
    np.testing.assert_array_equal(known.values, TRIANGLE)


# Cross-validation


class Recorder(RegressorMixin, BaseEstimator):
    """Remembers the side information that reached `fit`."""

    __metadata_request__fit = {"known_mask": True}

    def __init__(self, hint=None):
        self.hint = hint

    def fit(self, X, y, known_mask=None):
        self.received_ = known_mask
        self.known_ = KnownEdges.coerce(known_mask, n_nodes=X.shape[1])
        return self

    def predict(self, X):
        return X


N_NODES = 6
EXPERIMENTS = np.random.default_rng(0).normal(size=(N_NODES, N_NODES))  # as many experiments as nodes


@pytest.mark.parametrize("routing", [False, True])
def test_cross_validation_passes_it_whole(routing):
    known = KnownEdges.nothing(N_NODES)
    with sklearn.config_context(enable_metadata_routing=routing):
        result = cross_validate(
            Recorder(), EXPERIMENTS, EXPERIMENTS, cv=3, params={"known_mask": known}, return_estimator=True
        )
    assert all(estimator.received_ is known for estimator in result["estimator"])


def test_a_raw_array_would_be_torn_and_the_error_says_so():
    raw = KnownEdges.nothing(N_NODES).to_array()
    message = r"known_mask has shape \(4, 6\) but X has 6 nodes.*wrap the mask in KnownEdges"
    with pytest.raises(ValueError, match=message):
        cross_validate(Recorder(), EXPERIMENTS, EXPERIMENTS, cv=3, params={"known_mask": raw}, error_score="raise")


def test_indexing_helpers_leave_it_alone():
    known = KnownEdges.nothing(N_NODES)
    raw = known.to_array()
    sliced = _check_method_params(EXPERIMENTS, {"wrapped": known, "raw": raw}, indices=[0, 1])
    assert sliced["wrapped"] is known
    assert sliced["raw"].shape == (2, N_NODES)
    with pytest.raises((TypeError, AttributeError)):
        _safe_indexing(known, [0, 1])


def test_it_does_not_look_like_an_array(known):
    for name in ("__len__", "__array__", "__getitem__", "__iter__", "shape", "ndim", "dtype"):
        assert not hasattr(known, name)


def test_it_survives_clone_as_a_parameter(known):
    assert_same(clone(Recorder(hint=known)).hint, known)
