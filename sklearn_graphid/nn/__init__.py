"""Score networks and their training, in plain torch."""

from __future__ import annotations

from ._edp_gnn import EDPGNN, MOST_LEVELS, SIGMA_RANGE, check_sigmas
from ._ppgn import LOWEST_SIGMA, NO_VALUE, PPGN
from ._training import (
    ARCHITECTURES,
    NoiseLaw,
    TrainingSettings,
    TrainingState,
    build_network,
    check_weights,
    denoising_losses,
    graphs_at_once,
    restore_network,
    train_network,
    uses_known,
)

__all__ = [
    "ARCHITECTURES",
    "EDPGNN",
    "LOWEST_SIGMA",
    "MOST_LEVELS",
    "NO_VALUE",
    "PPGN",
    "SIGMA_RANGE",
    "NoiseLaw",
    "TrainingSettings",
    "TrainingState",
    "build_network",
    "check_sigmas",
    "check_weights",
    "denoising_losses",
    "graphs_at_once",
    "restore_network",
    "train_network",
    "uses_known",
]
