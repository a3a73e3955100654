"""Find the missing links of a network, and the process on it, from inputs and outputs."""

from __future__ import annotations

from . import datasets, filters, metrics, plotting
from ._known_edges import KnownEdges
from .identifiers import (
    PAPER_SETTINGS,
    AdamSystemIdentifier,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
)
from .priors import ErdosRenyiPrior, GraphPriorScore, StochasticBlockPrior, list_priors, load_prior

__version__ = "0.1.0"

__all__ = [
    "PAPER_SETTINGS",
    "AdamSystemIdentifier",
    "ErdosRenyiPrior",
    "GraphPriorScore",
    "KnownEdges",
    "LangevinSystemIdentifier",
    "LikelihoodLangevinIdentifier",
    "StochasticBlockPrior",
    "datasets",
    "filters",
    "list_priors",
    "load_prior",
    "metrics",
    "plotting",
]
