"""Displays of graphs, probabilities, parameters and runs, in the style of scikit-learn's displays.

Drawing needs matplotlib, which `pip install "sklearn-graphid[plot]"` installs; importing this package does not.
"""

from __future__ import annotations

from ._adjacency import AdjacencyDisplay
from ._calibration import EdgeCalibrationDisplay
from ._comparison import ComparisonDisplay
from ._graph import GraphDisplay, InformationDisplay
from ._parameters import ThetaDisplay, TraceDisplay
from ._predictive_check import PredictiveCheckDisplay
from ._training import PriorTrainingDisplay

__all__ = [
    "AdjacencyDisplay",
    "ComparisonDisplay",
    "EdgeCalibrationDisplay",
    "GraphDisplay",
    "InformationDisplay",
    "PredictiveCheckDisplay",
    "PriorTrainingDisplay",
    "ThetaDisplay",
    "TraceDisplay",
]
