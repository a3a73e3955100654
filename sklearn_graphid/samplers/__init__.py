"""Samplers: pure numerics that know nothing of scikit-learn."""

from __future__ import annotations

from ._diagnostics import (
    bulk_sample_size,
    chain_standard_error,
    expected_changes,
    rank_r_hat,
    stuck_chains,
)
from ._flips import gains_of_known
from ._kernel import (
    ChainState,
    Draw,
    Kernel,
    RandomSource,
    Step,
    StepInfo,
    initial_state,
    run_kernels,
)
from ._langevin import LangevinKernel, langevin_step
from ._misfit import Misfit, StrengthsTest, gains_of_absent, misfit_of, strengths_test
from ._modes import modes_of, weights_of_chains
from ._moves import Move, Sweep, SweepState
from ._problem import Likelihood, Problem
from ._recipes import binary_sweeps, weighted_sweeps
from ._rng import ChainRNG
from ._slabs import GaussianSlab, LogNormalSlab, Slab
from ._strength_start import StrengthStart
from ._strengths import RefitStrengths
from ._sweeps import SweepKernel
from ._tempering import DensityLaw, TemperedDenoiser, TrustLaw, density_of, trust_of
from ._theta import AdamState, ThetaFit, adam_step, fit_theta, propose_theta_globally, sample_noise_std, sample_theta
from ._working_outputs import MeasurementModel

__all__ = [
    "AdamState",
    "ChainRNG",
    "ChainState",
    "DensityLaw",
    "Draw",
    "GaussianSlab",
    "Kernel",
    "LangevinKernel",
    "Likelihood",
    "LogNormalSlab",
    "MeasurementModel",
    "Misfit",
    "Move",
    "Problem",
    "RandomSource",
    "RefitStrengths",
    "Slab",
    "Step",
    "StepInfo",
    "StrengthStart",
    "StrengthsTest",
    "Sweep",
    "SweepKernel",
    "SweepState",
    "TemperedDenoiser",
    "ThetaFit",
    "TrustLaw",
    "adam_step",
    "binary_sweeps",
    "bulk_sample_size",
    "chain_standard_error",
    "density_of",
    "expected_changes",
    "fit_theta",
    "gains_of_absent",
    "gains_of_known",
    "initial_state",
    "langevin_step",
    "misfit_of",
    "modes_of",
    "propose_theta_globally",
    "rank_r_hat",
    "run_kernels",
    "sample_noise_std",
    "sample_theta",
    "strengths_test",
    "stuck_chains",
    "trust_of",
    "weighted_sweeps",
    "weights_of_chains",
]
