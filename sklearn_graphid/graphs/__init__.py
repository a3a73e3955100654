"""Graphs: the known part of a graph, its free entries, and validation of graphs that users pass."""

from __future__ import annotations

from ._edge_space import EdgeSpace, changed_graphs, one_entry_per_pair
from ._known_edges import KnownEdges

__all__ = ["EdgeSpace", "KnownEdges", "changed_graphs", "one_entry_per_pair"]
