"""Metrics of an identified system: of the edges, on the pairs that were unknown, and of theta."""

from __future__ import annotations

from .evaluation._metrics import (
    ReliabilityCurve,
    edge_calibration_error,
    edge_f1_score,
    edge_reliability_curve,
    edge_roc_auc_score,
    theta_nrmse,
)

__all__ = [
    "ReliabilityCurve",
    "edge_calibration_error",
    "edge_f1_score",
    "edge_reliability_curve",
    "edge_roc_auc_score",
    "theta_nrmse",
]
