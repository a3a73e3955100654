"""Names in the drawing of a graph: which are written, and that they can be read."""

from __future__ import annotations

from itertools import combinations

import matplotlib.pyplot as plt
import networkx as nx
import numpy as np
import pytest
from matplotlib.figure import Figure

from sklearn_graphid.datasets import hide_edges
from sklearn_graphid.plotting import GraphDisplay

FAMILIES = nx.florentine_families_graph()
MARRIAGES = nx.to_numpy_array(FAMILIES)
KNOWN = hide_edges(MARRIAGES, 1 / 3, random_state=0)
HIDDEN = np.argwhere(np.triu((MARRIAGES == 1) & ~KNOWN.mask))


def draw(node_labels=True, adjacency=MARRIAGES, names=tuple(FAMILIES), known=KNOWN, **options):
    return GraphDisplay.from_predictions(adjacency, known, node_names=names, node_labels=node_labels, **options)


def assert_legible(display, *, free_of=("inferred",)):
    """No name is cut off, lies on another or on a node, or is crossed by an edge of the given kinds."""
    display.figure_.canvas.draw()
    names = [text.get_window_extent() for text in display.ax_.texts]
    frame = display.figure_.bbox
    assert names
    for name in names:
        assert (name.p0 >= frame.p0).all()
        assert (name.p1 <= frame.p1).all()
    # A pixel of contact is no overlap.
    assert not any(one.padded(-1).overlaps(other.padded(-1)) for one, other in combinations(names, 2))
    nodes = display.ax_.transData.transform(display.positions_)
    legend = display.ax_.get_legend().get_window_extent()
    for name in names:
        assert not any(name.padded(2).contains(x, y) for x, y in nodes)
        assert not name.overlaps(legend)
        for kind in free_of:
            for path in display.edges_[kind].get_paths():
                points = display.ax_.transData.transform(path.interpolated(20).vertices)
                assert not any(name.padded(-1).contains(x, y) for x, y in points)


def test_names_of_families_are_legible():
    display = draw()
    assert [text.get_text() for text in display.ax_.texts] == list(FAMILIES)
    assert_legible(display, free_of=("inferred", "known"))


@pytest.mark.parametrize("layout", ["kamada_kawai", "spring", "circular"])
def test_names_are_legible_in_other_layouts(layout):
    assert_legible(draw(layout=layout))


def test_names_of_twenty_nodes_are_legible():
    network = nx.to_numpy_array(nx.connected_watts_strogatz_graph(20, 3, 0.3, seed=1))
    names = [f"Substation {i}" for i in range(20)]
    assert_legible(draw(adjacency=network, names=names, known=hide_edges(network, 0.3, random_state=0)), free_of=())


def test_names_at_inferred_edges_of_eighty_nodes_are_legible():
    network = nx.to_numpy_array(nx.connected_watts_strogatz_graph(80, 4, 0.2, seed=1))
    known = hide_edges(network, 0.15, random_state=0)
    names = [f"Substation {i}" for i in range(80)]
    display = draw("inferred", adjacency=network, names=names, known=known)
    assert 30 < len(display.ax_.texts) < 60
    assert_legible(display, free_of=())
    # Names of all nodes in a picture of its own get the room that they need.
    everything = draw(adjacency=network, names=range(80), known=known)
    nodes = everything.figure_.get_size_inches()
    assert nodes[0] > draw("inferred").figure_.get_size_inches()[0]


@pytest.mark.parametrize("place", ["subplot", "subfigure", "figure without pyplot"])
def test_names_are_legible_in_given_axes(place):
    if place == "subplot":
        ax = plt.subplots(1, 2, figsize=(11, 5.4), layout="constrained")[1][1]
    elif place == "subfigure":
        ax = plt.figure(figsize=(11, 5.4), layout="constrained").subfigures(1, 2)[0].subplots()
    else:
        ax = Figure(figsize=(5, 5.4), layout="constrained").subplots()
    display = draw(ax=ax)
    assert_legible(display)
    assert display.ax_ is ax


def standing_nearer_to_another(display):
    """The nodes whose names stand nearer to another node than to their own, in pixels as drawn."""
    display.figure_.canvas.draw()
    nodes = display.ax_.transData.transform(display.positions_)
    nearest = []
    for text in display.ax_.texts:
        box = text.get_window_extent()
        distances = np.linalg.norm(np.clip(nodes, box.p0, box.p1) - nodes, axis=1)
        nearest.append(int(distances.argmin()))
    return [node for node, other in enumerate(nearest) if node != other]


def draw_crowded(seed, side):
    """22 nodes at random places in a picture of some inches, in which names have to give way."""
    network = nx.to_numpy_array(nx.gnm_random_graph(22, 40, seed=seed))
    places = np.random.default_rng(seed).uniform(size=(22, 2))
    ax = Figure(figsize=(side, side), layout="constrained").subplots()
    return draw(adjacency=network, names=[f"Substation {i}" for i in range(22)], known=None, pos=places, ax=ax)


@pytest.mark.parametrize("seed", range(4))
def test_names_stand_nearest_to_their_own_nodes(seed):
    assert standing_nearer_to_another(draw_crowded(seed, side=5)) == []


@pytest.mark.parametrize("seed", range(4))
def test_a_name_nearer_to_another_node_has_a_line_to_its_own(seed):
    display = draw_crowded(seed, side=3)
    starts, ends = np.moveaxis(np.array(display.leaders_.get_segments()), 1, 0)
    nodes = np.linalg.norm(display.positions_ - ends[:, None], axis=2).argmin(1)
    np.testing.assert_allclose(display.positions_[nodes], ends, atol=1e-9)
    assert set(standing_nearer_to_another(display)) <= set(nodes)
    # The other end is at the border of the name, or within its padding.
    for node, start in zip(nodes, display.ax_.transData.transform(starts), strict=True):
        assert display.ax_.texts[node].get_window_extent().padded(4).contains(*start)


def test_names_with_room_have_no_lines():
    display = draw()
    assert standing_nearer_to_another(display) == []
    assert display.leaders_ is None


def test_only_the_ends_of_inferred_edges_are_named():
    display = draw("inferred")
    expected = [family for node, family in enumerate(FAMILIES) if node in HIDDEN]
    assert [text.get_text() for text in display.ax_.texts] == expected
    assert 0 < len(expected) < len(FAMILIES)
    assert_legible(display, free_of=("inferred", "known"))


def test_with_the_truth_the_ends_of_found_false_and_missed_edges_are_named():
    path, unknown = nx.to_numpy_array(nx.path_graph(8)), ~np.eye(8, dtype=bool)
    unknown[4:, :] = unknown[:, 4:] = False
    guess = path.copy()
    guess[0, 1] = guess[1, 0] = 0  # missed
    guess[1, 3] = guess[3, 1] = 1  # false; (1, 2) and (2, 3) are found
    partial = np.where(unknown, np.nan, path)
    names = [f"node {i}" for i in range(8)]
    display = draw("inferred", adjacency=guess, names=names, known=partial, true_adjacency=path)
    assert set(display.edges_) == {"known", "found", "missed", "false"}
    assert [text.get_text() for text in display.ax_.texts] == names[:4]


def test_short_names_are_written_into_the_nodes_that_have_one():
    display = draw("inferred", names=range(15))
    named = np.unique(HIDDEN)
    assert [text.get_text() for text in display.ax_.texts] == [str(node) for node in named]
    sizes, faces = display.nodes_.get_sizes(), display.nodes_.get_facecolors()
    is_named = np.isin(np.arange(15), named)
    np.testing.assert_array_equal(sizes == 260, is_named)
    np.testing.assert_array_equal((faces == 1).all(1), is_named)  # white


def test_nothing_inferred_names_nothing():
    assert not draw("inferred", known=KNOWN.fill(MARRIAGES[KNOWN.unknown_pairs()])).ax_.texts


@pytest.mark.parametrize(("adjacency", "pos"), [(np.zeros((1, 1)), None), (np.zeros((3, 3)), [[0, 0]] * 3)])
def test_nodes_in_one_place_are_named_too(adjacency, pos):
    names = ["a long name", "another one", "and a third"][: len(adjacency)]
    display = draw(adjacency=adjacency, names=names, known=None, pos=pos)
    display.figure_.canvas.draw()
    boxes = [text.get_window_extent() for text in display.ax_.texts]
    assert len(boxes) == len(names)
    assert not any(one.padded(-1).overlaps(other.padded(-1)) for one, other in combinations(boxes, 2))


def test_equal_distances_stay_equal():
    square = [[0, 0], [0, 1], [1, 1], [1, 0]]
    display = draw(adjacency=np.zeros((4, 4)), names=[f"corner {i}" for i in range(4)], known=None, pos=square)
    display.figure_.canvas.draw()
    corners = display.ax_.transData.transform(square)
    sides = np.linalg.norm(corners - np.roll(corners, 1, axis=0), axis=1)
    np.testing.assert_allclose(sides, sides[0], rtol=1e-6)
