"""Graphs to learn from, and systems to identify."""

from __future__ import annotations

from ._deezer import fetch_deezer_ego_nets
from ._grids import make_grid_graphs
from ._system import hide_edges, make_system

__all__ = ["fetch_deezer_ego_nets", "hide_edges", "make_grid_graphs", "make_system"]
