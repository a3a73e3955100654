"""Graphs: which of their entries are known and which are free."""

from __future__ import annotations

from ._edge_space import EdgeSpace, flipped_graphs, upper_half_mirrored

__all__ = ["EdgeSpace", "flipped_graphs", "upper_half_mirrored"]
