"""Priors: distributions of graphs before any experiment is seen."""

from __future__ import annotations

from ._base import Denoiser, GraphPrior
from ._closed_form import ErdosRenyiPrior, FlatPrior, StochasticBlockPrior
from ._score import GraphPriorScore
from ._shipped import list_priors, load_prior, resolve_priors

__all__ = [
    "Denoiser",
    "ErdosRenyiPrior",
    "FlatPrior",
    "GraphPrior",
    "GraphPriorScore",
    "StochasticBlockPrior",
    "list_priors",
    "load_prior",
    "resolve_priors",
]
