"""Scorers of identified systems, to be passed as `scoring=` to scikit-learn's searches."""

from __future__ import annotations

from .evaluation._scorers import (
    log_likelihood_scorer,
    make_edge_f1_scorer,
    make_edge_roc_auc_scorer,
    r2_scorer,
)

__all__ = ["log_likelihood_scorer", "make_edge_f1_scorer", "make_edge_roc_auc_scorer", "r2_scorer"]
