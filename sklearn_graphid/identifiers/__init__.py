"""Identifiers: estimators that find a graph and the process on it."""

from __future__ import annotations

from ._adam import AdamSystemIdentifier
from ._base import BaseSystemIdentifier, Experiments, Identification
from ._edge_scores import EdgeScoreIdentifier, EdgeScores
from ._langevin import PAPER_SETTINGS, LangevinSystemIdentifier, LikelihoodLangevinIdentifier
from ._least_squares import ConstrainedLeastSquaresIdentifier
from ._outputs_alone import GraphicalLassoIdentifier, SmoothSignalIdentifier
from ._process_matrix import RidgeSystemIdentifier, RobustFilterIdentifier

__all__ = [
    "PAPER_SETTINGS",
    "AdamSystemIdentifier",
    "BaseSystemIdentifier",
    "ConstrainedLeastSquaresIdentifier",
    "EdgeScoreIdentifier",
    "EdgeScores",
    "Experiments",
    "GraphicalLassoIdentifier",
    "Identification",
    "LangevinSystemIdentifier",
    "LikelihoodLangevinIdentifier",
    "RidgeSystemIdentifier",
    "RobustFilterIdentifier",
    "SmoothSignalIdentifier",
]
