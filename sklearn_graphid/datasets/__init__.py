"""Graphs to train priors on, and systems to identify."""

from __future__ import annotations

from ._deezer import fetch_deezer_ego_nets
from ._grids import make_grid_graphs
from ._mixture import graph_families, make_graph_mixture
from ._power import make_power_grid
from ._series import as_experiments
from ._system import hide_edges, make_system
from ._water import make_water_network

__all__ = [
    "as_experiments",
    "fetch_deezer_ego_nets",
    "graph_families",
    "hide_edges",
    "make_graph_mixture",
    "make_grid_graphs",
    "make_power_grid",
    "make_system",
    "make_water_network",
]
