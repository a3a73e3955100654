"""A small network with right and wrong answers to draw, and where the drawings end up."""

from __future__ import annotations

import networkx as nx
import numpy as np

from sklearn_graphid import KnownEdges

# Four nodes on a ring; (0, 2) and (2, 3) are unknown beside (1, 3). Of these (2, 3) is an edge.
RING = nx.to_numpy_array(nx.cycle_graph(4))
MASK = np.ones((4, 4), dtype=bool)
for i, j in [(0, 2), (2, 3), (1, 3)]:
    MASK[i, j] = MASK[j, i] = False
KNOWN = KnownEdges(MASK, RING)


def probabilities(first, second, third):
    """Of (0, 2), (1, 3) and (2, 3), on top of what is known."""
    return KNOWN.fill([first, second, third])


# (0, 2) is a false edge, (2, 3) is missed.
WRONG = probabilities(0.9, 0.1, 0.3)
RIGHT = probabilities(0.1, 0.2, 0.8)

LONG_NAMES = [f"a node with a long name, the {i}th" for i in range(20)]


def legend_texts(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


def extents(display, artists):
    """Where artists are drawn, after the layout has settled."""
    display.figure_.canvas.draw()
    return [artist.get_window_extent() for artist in artists]


def overlap(first, second):
    # A pixel of contact is no overlap.
    return first.padded(-1).overlaps(second.padded(-1))
