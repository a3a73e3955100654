"""Score networks and their training, in plain torch."""

from __future__ import annotations

from ._edp_gnn import EDPGNN, MOST_LEVELS, SIGMA_RANGE, check_sigmas
from ._networks import (
    ARCHITECTURES,
    build_network,
    graphs_at_once,
    read_edpgnn_checkpoint,
    restore_network,
    uses_known,
)
from ._ppgn import LOWEST_SIGMA, NO_VALUE, PPGN
from ._training import Epoch, NoiseLaw, TrainingSettings, TrainingState, denoising_losses, train_network

__all__ = [
    "ARCHITECTURES",
    "EDPGNN",
    "LOWEST_SIGMA",
    "MOST_LEVELS",
    "NO_VALUE",
    "PPGN",
    "SIGMA_RANGE",
    "Epoch",
    "NoiseLaw",
    "TrainingSettings",
    "TrainingState",
    "build_network",
    "check_sigmas",
    "denoising_losses",
    "graphs_at_once",
    "read_edpgnn_checkpoint",
    "restore_network",
    "train_network",
    "uses_known",
]
