"""Strengths and directions of known edges: how they are said, what is refused, and where an edge stands in a matrix."""

from __future__ import annotations

import copy
import pickle

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

from sklearn_graphid import KnownEdges
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import PolynomialFilter
from sklearn_graphid.graphs._nodes import Nodes

NAN = np.nan
# Edges 0-1 of strength 2.5 and 1-2 of strength -1; 0-3 known to be absent; 2-3 and 1-3 and 0-2 unknown.
STRENGTHS = np.array([[0, 2.5, NAN, 0], [2.5, 0, -1, NAN], [NAN, -1, 0, NAN], [0, NAN, NAN, 0]])
MASK, EDGES = ~np.isnan(STRENGTHS), np.nan_to_num(STRENGTHS) != 0
STORED = np.where(EDGES, STRENGTHS, NAN)
# A row receives, a column sends: edges 1 -> 0, 0 -> 2 and 2 -> 0.
ONE_WAY = np.array([[0, 1, 1], [0, 0, NAN], [1, NAN, 0]])


def assert_same(one, other):
    for name in ("mask", "values", "weights"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert (one.names, one.directed) == (other.names, other.directed)


# Strengths


def weighted_graph(weight="weight"):
    graph = nx.Graph()
    graph.add_nodes_from(range(4))
    graph.add_edge(0, 1, **{weight: 2.5})
    graph.add_edge(1, 2, **{weight: -1})
    return graph


@pytest.mark.parametrize(
    "weights",
    [
        STRENGTHS,
        STORED,
        np.where(MASK, STRENGTHS, 7.0),  # what unknown pairs hold is ignored
        np.where(MASK, STRENGTHS, np.inf),
        STRENGTHS.tolist(),
        sparse.csr_array(np.nan_to_num(STRENGTHS)),
        pd.DataFrame(STRENGTHS),
        weighted_graph(),
    ],
)
def test_strengths_may_come_in_every_kind_of_matrix(weights):
    known = KnownEdges(MASK, EDGES, weights=weights)
    np.testing.assert_array_equal(known.weights, STORED)
    np.testing.assert_array_equal(known.values, EDGES)
    assert repr(known) == "KnownEdges(n_nodes=4, known=3 of 6 pairs, strengths=2 of 2 edges)"


def test_a_known_edge_may_have_an_unknown_strength():
    partly = STRENGTHS.copy()
    partly[0, 1] = partly[1, 0] = NAN
    known = KnownEdges(MASK, EDGES, weights=partly)
    np.testing.assert_array_equal(np.isfinite(known.weights), EDGES & ~np.isnan(partly))
    assert known.values[0, 1] == 1
    assert "strengths=1 of 2 edges" in repr(known)
    with pytest.raises(ValueError, match=r"the strengths of 1 known edges are unknown.*attribute weights"):
        known.to_array(weighted=True)


@pytest.mark.parametrize("weights", [None, np.full((4, 4), NAN), np.where(EDGES, NAN, 0.0), nx.path_graph(3)])
def test_where_no_strength_is_known_there_are_none(weights):
    if isinstance(weights, nx.Graph):
        weights.add_node(3)
    known = KnownEdges(MASK, EDGES, weights=weights)
    assert known.weights is None
    assert repr(known) == "KnownEdges(n_nodes=4, known=3 of 6 pairs)"


def changed(value, *places):
    array = STRENGTHS.copy()
    for place in places:
        array[place] = value
    return array


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (
            changed(3.0, (0, 3), (3, 0)),
            r"weights without edges: entry \(0, 3\) is 3, but that pair is known to have no",
        ),
        (changed(np.inf, (0, 3), (3, 0)), r"weights without edges: entry \(0, 3\) is inf"),
        (changed(1.0, (2, 2)), r"weights without edges: entry \(2, 2\)"),
        (changed(0.0, (0, 1), (1, 0)), "weights holds the value 0 for a known edge; expected a finite number other"),
        (changed(-np.inf, (0, 1), (1, 0)), "weights holds the value -inf for a known edge"),
        (
            changed(2.0, (0, 1)),
            r"weights is not symmetric: entry \(0, 1\) is 2 but entry \(1, 0\) is 2.5.*directed=True",
        ),
        (np.ones((3, 3)), r"weights has shape \(3, 3\) but mask has shape \(4, 4\)"),
        (np.ones((3, 4)), r"weights has shape \(3, 4\); expected a square matrix"),
    ],
)
def test_strengths_that_make_no_sense_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        KnownEdges(MASK, EDGES, weights=weights)


def test_strengths_that_differ_by_rounding_are_one():
    known = KnownEdges(MASK, EDGES, weights=STRENGTHS * (1 + 1e-9 * np.tril(np.ones((4, 4)))))
    np.testing.assert_array_equal(known.weights, known.weights.T)
    np.testing.assert_allclose(known.weights, STORED, rtol=1e-8)


def test_an_array_of_strengths_is_read_and_written():
    known = KnownEdges.from_array(STRENGTHS, weighted=True)
    assert_same(known, KnownEdges(MASK, EDGES, weights=STRENGTHS))
    np.testing.assert_array_equal(known.to_array(weighted=True), STRENGTHS)
    np.testing.assert_array_equal(known.to_array(), np.where(MASK, EDGES, NAN))
    one_way = np.where(np.tril(np.ones((4, 4)), -1) == 1, NAN, STRENGTHS)
    for read in (
        lambda: KnownEdges.from_array(one_way, weighted=True),
        lambda: KnownEdges(MASK, EDGES, weights=one_way),
    ):
        with pytest.raises(ValueError, match=r"is not symmetric.*expected nan in both or in none"):
            read()


def test_an_array_of_strengths_that_is_not_called_one_is_refused_with_the_way_out():
    with pytest.raises(ValueError, match=r"holds the value 2.5; expected 0, 1, or nan.*weighted=True"):
        KnownEdges.from_array(STRENGTHS)
    with pytest.raises(ValueError, match="holds the value inf; expected finite numbers, or nan"):
        KnownEdges.from_array(np.where(EDGES, np.inf, STRENGTHS), weighted=True)
    with pytest.raises(TypeError, match="weighted='yes'; expected True or False"):
        KnownEdges.from_array(STRENGTHS, weighted="yes")


def test_filling_leaves_the_known_edges_at_one():
    known = KnownEdges.from_array(STRENGTHS, weighted=True)
    filled = known.fill(0.25)
    np.testing.assert_array_equal(filled[MASK], EDGES[MASK])
    assert (filled[~MASK] == 0.25).all()


def test_graphs_hold_strengths_in_an_attribute():
    graph = weighted_graph("ohm")
    graph.add_edge(2, 3)
    known = KnownEdges.from_networkx(graph, absent=[(0, 3)], weight="ohm")
    expected = changed(NAN, (2, 3), (3, 2))
    np.testing.assert_array_equal(known.weights, np.where(EDGES, expected, NAN))
    assert known.values[2, 3] == known.values[3, 2] == 1
    assert KnownEdges.from_networkx(graph).weights is None
    with pytest.raises(ValueError, match="weight='volt', but no edge of graph has this attribute"):
        KnownEdges.from_networkx(graph, weight="volt")
    graph.add_edge(2, 3, ohm="much")
    with pytest.raises(TypeError, match="attribute 'ohm' of graph holds 'much'; expected numbers"):
        KnownEdges.from_networkx(graph, weight="ohm")


def table(**changes):
    columns = {
        "source": [0, 2, 0, 2],
        "target": [1, 1, 3, 3],
        "present": [True, True, False, True],
        "ohm": [2.5, -1.0, NAN, NAN],
    }
    return pd.DataFrame(columns | changes)


@pytest.mark.parametrize("missing", [[2.5, -1.0, 0.0, NAN], pd.array([2.5, -1.0, None, None], dtype="Float64")])
def test_tables_hold_strengths_in_a_column(missing):
    for frame in (table(), table(ohm=missing)):
        known = KnownEdges.from_pandas_edgelist(frame, weight="ohm")
        np.testing.assert_array_equal(known.weights, STORED)
        assert known.values[2, 3] == 1
        assert known.n_unknown == 2
    assert KnownEdges.from_pandas_edgelist(table()).weights is None


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            table(ohm=[2.5, -1.0, 3.0, NAN]),
            r"weights without edges: column 'ohm' of frame holds 3 for the pair \(0, 3\)",
        ),
        (table(ohm=[2.5, 0.0, NAN, NAN]), "weights holds the value 0 for a known edge"),
        (table(ohm=["a", "b", "c", "d"]), "column 'ohm' of frame holds 'a'; expected numbers"),
        (table(source=[0, 1, 0, 1], target=[1, 0, 3, 3]), r"frame holds two different strengths for the pair \(0, 1\)"),
        (table().rename(columns={"ohm": "volt"}), "weight='ohm', but frame has the columns"),
    ],
)
def test_tables_whose_strengths_make_no_sense_are_refused(frame, message):
    with pytest.raises((TypeError, ValueError), match=message):
        KnownEdges.from_pandas_edgelist(frame, weight="ohm")


# Directions


def test_every_ordered_pair_stands_alone():
    known = KnownEdges.from_array(ONE_WAY, directed=True)
    np.testing.assert_array_equal(known.to_array(), ONE_WAY)
    assert known.directed
    assert known.n_unknown == 2
    np.testing.assert_array_equal(known.unknown_pairs(), ([1, 2], [2, 1]))
    assert known.space.directed
    assert known.known_pairs().n_free == 4
    assert set(zip(*known.edges().ends(), strict=True)) == {(0, 1), (0, 2), (2, 0)}
    np.testing.assert_array_equal(known.fill([5.0, 7.0]), [[0, 1, 1], [0, 0, 5], [1, 7, 0]])
    assert repr(known) == "KnownEdges(n_nodes=3, known=4 of 6 ordered pairs)"
    assert KnownEdges.nothing(3, directed=True).n_unknown == 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: KnownEdges.from_array(ONE_WAY), r"is not symmetric: entry \(0, 1\).*directed=True"),
        (lambda: KnownEdges(np.triu(np.ones((3, 3))), np.zeros((3, 3))), "mask is not symmetric.*directed=True"),
        (lambda: KnownEdges(np.ones((3, 3)), np.triu(np.ones((3, 3)), 1)), "values is not symmetric.*directed=True"),
        (lambda: KnownEdges(np.ones((2, 2)), nx.DiGraph([(0, 1)])), "values is a networkx DiGraph; expected an undir"),
        (lambda: KnownEdges.coerce(np.ones((2, 2), bool), nx.DiGraph([(0, 1)]), n_nodes=2, directed=False), "=True"),
        (lambda: KnownEdges.from_networkx(nx.Graph([(0, 1)]), nx.DiGraph([(0, 2)])), r"pass absent.to_undirected"),
        (lambda: KnownEdges.from_networkx(nx.DiGraph([(0, 1)]), nx.Graph([(0, 2)])), r"pass absent.to_directed"),
        (lambda: KnownEdges.from_networkx(nx.DiGraph([(0, 1)]), [(0, 1)]), "both present and absent"),
        (lambda: KnownEdges.from_networkx(nx.MultiDiGraph([(0, 1)])), "graph is a MultiDiGraph; expected a networkx"),
        (lambda: KnownEdges.from_array(ONE_WAY, directed=1), "directed=1; expected True or False"),
        (lambda: KnownEdges(np.eye(2), np.zeros((2, 2)), directed="no"), "directed='no'; expected True or False"),
    ],
)
def test_directions_that_were_not_asked_for_are_refused(call, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call()


def test_coerce_refuses_the_other_kind():
    directed, undirected = KnownEdges.nothing(3, directed=True), KnownEdges.nothing(3)
    assert KnownEdges.coerce(directed, n_nodes=3) is directed
    assert KnownEdges.coerce(directed, n_nodes=3, directed=True) is directed
    assert KnownEdges.coerce(None, n_nodes=3, directed=True).directed
    assert KnownEdges.coerce(ONE_WAY, n_nodes=3, directed=True).directed
    assert KnownEdges.coerce(~np.isnan(ONE_WAY), np.nan_to_num(ONE_WAY), n_nodes=3, directed=True).directed
    with pytest.raises(ValueError, match=r"known_mask is a KnownEdges of a directed graph.*directed=True"):
        KnownEdges.coerce(directed, n_nodes=3, directed=False)
    with pytest.raises(ValueError, match=r"of an undirected graph, but directed=True.*from_networkx\(digraph\)"):
        KnownEdges.coerce(undirected, n_nodes=3, directed=True)


@pytest.mark.parametrize(
    "known",
    [
        KnownEdges.from_networkx(nx.DiGraph([("u", "v")])),
        KnownEdges.from_pandas_edgelist(pd.DataFrame({"source": ["u"], "target": ["v"]}), present=None, directed=True),
        KnownEdges(
            np.eye(2, dtype=bool) | np.array([[0, 0], [1, 0]], dtype=bool), nx.DiGraph([("u", "v")]), directed=True
        ),
    ],
)
def test_the_target_of_an_edge_depends_on_its_source(known):
    """y = A x: what goes in at u comes out at v, and nothing goes the other way."""
    assert known.names == ("u", "v")
    assert known.n_unknown == 1
    assert known.values[1, 0] == 1
    X, Y = make_system(known.values, PolynomialFilter(1), [0.0, 1.0], noise_std=0, directed=True, random_state=0)
    np.testing.assert_array_equal(Y[:, 1], X[:, 0])
    assert not Y[:, 0].any()


def test_strengths_of_ordered_pairs():
    graph = nx.DiGraph()
    graph.add_edge("u", "v", weight=2.0)
    graph.add_edge("v", "u", weight=-3.0)
    graph.add_edge("v", "w")
    known = KnownEdges.from_networkx(graph, absent=[("u", "w")], weight="weight")
    np.testing.assert_array_equal(known.weights, [[NAN, -3, NAN], [2, NAN, NAN], [NAN, NAN, NAN]])
    np.testing.assert_array_equal(known.to_array(), [[0, 1, NAN], [1, 0, NAN], [0, 1, 0]])
    assert_same(KnownEdges(known.mask, nx.DiGraph(graph.edges), weights=graph, directed=True), known)
    frame = nx.to_pandas_edgelist(graph)
    again = KnownEdges.from_pandas_edgelist(frame, present=None, weight="weight", directed=True)
    np.testing.assert_array_equal(again.weights, known.weights)
    assert "known=4 of 6 ordered pairs, strengths=2 of 3 edges" in repr(known)


# Both, carried along


@pytest.fixture
def carried():
    strengths = pd.DataFrame([[0, 2.0, NAN], [-1.0, 0, 0], [3.0, NAN, 0]], index=list("abc"), columns=list("abc"))
    return KnownEdges.from_array(strengths, weighted=True, directed=True)


def test_copies_hold_strengths_and_directions_and_stay_read_only(carried):
    for duplicate in (
        copy.copy(carried),
        copy.deepcopy(carried),
        clone(carried, safe=False),
        pickle.loads(pickle.dumps(carried)),
    ):
        assert_same(duplicate, carried)
        with pytest.raises(ValueError, match="read-only"):
            duplicate.weights[0, 1] = 0


def test_nodes_are_put_in_another_order_with_all_that_is_known_of_them(carried):
    reordered = KnownEdges.coerce(carried, n_nodes=3, nodes=Nodes(("c", "a", "b"), "X"), directed=True)
    order = [2, 0, 1]
    for name in ("mask", "values", "weights"):
        np.testing.assert_array_equal(getattr(reordered, name), getattr(carried, name)[np.ix_(order, order)])
    assert reordered.directed
    assert reordered.names == ("c", "a", "b")


def test_strengths_are_matched_by_name():
    mask = pd.DataFrame(MASK, index=list("abcd"), columns=list("abcd"))
    weights = pd.DataFrame(STRENGTHS, index=list("abcd"), columns=list("abcd")).loc[list("dbca"), list("cdab")]
    np.testing.assert_array_equal(KnownEdges(mask, EDGES, weights=weights).weights, STORED)
    assert KnownEdges(MASK, EDGES, weights=weights.loc[list("abcd"), list("abcd")]).names == tuple("abcd")
    with pytest.raises(ValueError, match="weights and mask do not name the same nodes"):
        KnownEdges(mask, EDGES, weights=weights.rename(columns={"a": "x"}, index={"a": "x"}))
