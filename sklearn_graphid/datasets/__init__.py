"""Graphs to train priors on, and systems to identify."""

from __future__ import annotations

from ._deezer import fetch_deezer_ego_nets
from ._experiments import as_experiments, hide_edges, make_system
from ._flow_networks import make_power_grid, make_water_network
from ._grids import make_grid_graphs

__all__ = [
    "as_experiments",
    "fetch_deezer_ego_nets",
    "hide_edges",
    "make_grid_graphs",
    "make_power_grid",
    "make_system",
    "make_water_network",
]
