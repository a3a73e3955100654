"""Graphs: what is known of them, which of their entries are free, and the checks of what users pass."""

from __future__ import annotations

from ._edge_space import EdgeSpace, changed_graphs, one_entry_per_pair, upper_half_mirrored
from ._known_edges import KnownEdges

__all__ = ["EdgeSpace", "KnownEdges", "changed_graphs", "one_entry_per_pair", "upper_half_mirrored"]
