"""Score networks and their training, in plain torch."""

from __future__ import annotations

from ._edp_gnn import EDPGNN
from ._edp_gnn_checkpoint import read_edpgnn_checkpoint
from ._networks import (
    ARCHITECTURES,
    DenoisingNetwork,
    EDPGNNDenoiser,
    build_network,
    graphs_at_once,
    restore_network,
    uses_known,
)
from ._ppgn import LOWEST_SIGMA, NO_VALUE, PPGN
from ._settings import MOST_LEVELS, SIGMA_RANGE, check_sigmas
from ._training import Epoch, NoiseLaw, TrainingSettings, denoising_losses, normal_noise, train_network

__all__ = [
    "ARCHITECTURES",
    "EDPGNN",
    "LOWEST_SIGMA",
    "MOST_LEVELS",
    "NO_VALUE",
    "PPGN",
    "SIGMA_RANGE",
    "DenoisingNetwork",
    "EDPGNNDenoiser",
    "Epoch",
    "NoiseLaw",
    "TrainingSettings",
    "build_network",
    "check_sigmas",
    "denoising_losses",
    "graphs_at_once",
    "normal_noise",
    "read_edpgnn_checkpoint",
    "restore_network",
    "train_network",
    "uses_known",
]
