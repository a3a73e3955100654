"""Samplers: pure numerics that know nothing of scikit-learn."""

from __future__ import annotations

from ._diagnostics import (
    bulk_sample_size,
    chain_standard_error,
    expected_changes,
    modes_of,
    rank_r_hat,
    stuck_chains,
    weights_of_chains,
)
from ._flips import gains_of_known
from ._kernel import (
    ChainRNG,
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
from ._parameters import (
    AdamState,
    ThetaFit,
    adam_step,
    fit_theta,
    propose_theta_globally,
    sample_noise_std,
    sample_theta,
)
from ._problem import Likelihood, Problem
from ._recipes import binary_sweeps, weighted_sweeps
from ._slabs import GaussianSlab, LogNormalSlab, Slab
from ._starts import StrengthStart
from ._strengths import RefitStrengths
from ._sweeps import Move, Sweep, SweepKernel, SweepState
from ._tempering import DensityLaw, TemperedDenoiser, TrustLaw, density_of, trust_of
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
