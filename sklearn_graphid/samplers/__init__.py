"""Samplers: pure numerics that know nothing of scikit-learn."""

from __future__ import annotations

from ._diagnostics import (
    bulk_sample_size,
    chain_standard_error,
    expected_changes,
    rank_r_hat,
    stuck_chains,
)
from ._edge_flip import Sweep, edge_flip_gibbs, sweep_schedule
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
from ._theta import AdamState, ThetaFit, adam_step, fit_theta, leap_theta, sample_noise_std, sample_theta

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
    "bulk_sample_size",
    "chain_standard_error",
    "edge_flip_gibbs",
    "expected_changes",
    "fit_theta",
    "initial_state",
    "langevin_step",
    "leap_theta",
    "rank_r_hat",
    "sample_noise_std",
    "sample_prior",
    "sample_theta",
    "stuck_chains",
    "sweep_schedule",
]
