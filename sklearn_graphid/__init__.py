"""Find the missing edges of a network, and the process on it, from inputs and outputs."""

from __future__ import annotations

from . import datasets, filters, metrics, plotting, scorers
from .evaluation import System, compare_identifiers, identify_many
from .graphs import KnownEdges
from .identifiers import (
    PAPER_SETTINGS,
    AdamSystemIdentifier,
    ConstrainedLeastSquaresIdentifier,
    GraphicalLassoIdentifier,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    RidgeSystemIdentifier,
    RobustFilterIdentifier,
    SmoothSignalIdentifier,
)
from .priors import ErdosRenyiPrior, GraphPriorScore, StochasticBlockPrior, list_priors, load_prior

__version__ = "0.1.0"

__all__ = [
    "PAPER_SETTINGS",
    "AdamSystemIdentifier",
    "ConstrainedLeastSquaresIdentifier",
    "ErdosRenyiPrior",
    "GraphPriorScore",
    "GraphicalLassoIdentifier",
    "KnownEdges",
    "LangevinSystemIdentifier",
    "LikelihoodLangevinIdentifier",
    "RidgeSystemIdentifier",
    "RobustFilterIdentifier",
    "SmoothSignalIdentifier",
    "StochasticBlockPrior",
    "System",
    "compare_identifiers",
    "datasets",
    "filters",
    "identify_many",
    "list_priors",
    "load_prior",
    "metrics",
    "plotting",
    "scorers",
]
