"""Samplers: pure numerics that know nothing of scikit-learn."""

from __future__ import annotations

from ._diagnostics import effective_sample_size, split_r_hat, stuck_chains
from ._edge_flip import Sweep, edge_flip_gibbs
from ._langevin import (
    AnnealingSettings,
    ChainState,
    Denoiser,
    LevelTrace,
    annealed_langevin,
    initial_state,
    langevin_step,
)
from ._noise import ChainNoise
from ._prior_sampling import sample_prior
from ._problem import Likelihood, Problem
from ._theta import AdamState, ThetaFit, adam_step, fit_theta, sample_noise_std, sample_theta

__all__ = [
    "AdamState",
    "AnnealingSettings",
    "ChainNoise",
    "ChainState",
    "Denoiser",
    "LevelTrace",
    "Likelihood",
    "Problem",
    "Sweep",
    "ThetaFit",
    "adam_step",
    "annealed_langevin",
    "edge_flip_gibbs",
    "effective_sample_size",
    "fit_theta",
    "initial_state",
    "langevin_step",
    "sample_noise_std",
    "sample_prior",
    "sample_theta",
    "split_r_hat",
    "stuck_chains",
]
