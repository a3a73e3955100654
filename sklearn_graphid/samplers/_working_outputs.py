"""Outputs as the moves of a sweep see them: without offsets, and with outliers replaced.

Two unknowns of the measurement are drawn with the rest. Each node may have an offset, with a flat prior. Inputs are
centred beforehand, so that offsets and filter hardly depend on one another. And each measurement may have a scale c by
which its noise is larger than usual:

    r = y - offset - output ~ N(0, c^2 noise^2),  c = 1 with probability 1 - share, else one of a few large scales.

Large scales become less probable as in the tail of Student's t, and the share of outliers is drawn too. Moves need
noise that is the same everywhere. So a measurement with c > 1 is replaced by what the usual noise would have given: z
with z | output ~ N(output, noise^2) and y | z ~ N(z, (c^2 - 1) noise^2), which leaves the law of y as it is. Given
output and noise level, scale and z are drawn exactly; outliers that are far off say next to nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ._kernel import RandomSource
from ._problem import Problem, noise_std_from

__all__ = ["MeasurementModel", "WorkingOutputs"]


class WorkingOutputs(NamedTuple):
    """What every chain takes the outputs to be."""

    targets: Tensor  # (chains, experiments, nodes), to be explained by the filter; zero where nothing was measured
    offset: Tensor  # (chains, nodes)
    scale: Tensor  # (chains, experiments, nodes) of the noise, relative to the usual one
    outlier_share: Tensor  # (chains,)
    outlier_probability: Tensor  # (chains, experiments, nodes) given the rest of the chain


@dataclass(frozen=True)
class MeasurementModel:
    """What is unknown of the measurements beside the noise level.

    Parameters
    ----------
    has_offsets : bool
        Whether every node has an offset.
    has_outliers : bool
        Whether measurements have scales.
    n_scales : int
        How many scales an outlier may have: the smallest is three times the usual noise, where a measurement begins to
        matter too much, and each is twice the one before. Ten reach a factor of 1,500.
    degrees_of_freedom : float
        Of the Student's t whose tail the scales follow.
    outliers_before, others_before : float
        The Beta law of the share of outliers: about one in fifty, and certain of nothing.
    """

    has_offsets: bool = False
    has_outliers: bool = False
    n_scales: int = 10
    degrees_of_freedom: float = 1.0
    outliers_before: float = 1.0
    others_before: float = 50.0

    @property
    def is_trivial(self) -> bool:
        """Whether outputs are what they are."""
        return not (self.has_offsets or self.has_outliers)

    def start(self, problem: Problem, n_chains: int) -> WorkingOutputs:
        """Outputs as they were measured, with no offset beyond their mean and no outlier."""
        targets = problem.targets.expand(n_chains, *problem.targets.shape[-2:])
        share = targets.new_full((n_chains,), self.outliers_before / (self.outliers_before + self.others_before))
        nothing = torch.zeros_like(targets)
        return WorkingOutputs(targets, targets.new_zeros(n_chains, targets.shape[-1]), nothing + 1, share, nothing)

    def redrawn(
        self,
        problem: Problem,
        outputs: WorkingOutputs,
        adjacency: Tensor,
        theta: Tensor,
        noise_std: Tensor,
        noise_is_given: bool,
        rng: RandomSource,
    ) -> tuple[WorkingOutputs, Tensor]:
        """Draw offsets, scales, the noise level and the working outputs, in this order, given graphs and theta.

        `problem` holds the outputs as they were measured. Returns the working outputs and the noise level (chains,).
        """
        predicted = problem.filter.apply(adjacency, theta, problem.inputs)
        is_measured = (problem.measured > 0).to(predicted)
        precision = (problem.measured / outputs.scale).square()  # relative to the usual noise
        offset = outputs.offset
        if self.has_offsets:
            total = precision.sum(1)
            mean = (precision * (problem.targets - predicted)).sum(1) / total.clamp_min(1e-30)
            spread = noise_std[:, None] * total.clamp_min(1e-30).rsqrt() * rng.normal(total.shape[1])
            offset = torch.where(total > 0, mean + spread, 0.0)
        residuals = problem.targets - predicted - offset[:, None]
        scale, share, probability = outputs.scale, outputs.outlier_share, outputs.outlier_probability
        if self.has_outliers:
            scaled = residuals * problem.measured
            scale, share, probability = self._drawn_scales(scaled, is_measured, share, noise_std, rng)
        if not noise_is_given:
            squares = (residuals * problem.measured / scale).square().sum((-2, -1))
            noise_std = noise_std_from(problem, squares, rng.gamma(0.5 * problem.n_measured))
        targets = (problem.targets - offset[:, None]) * is_measured
        if self.has_outliers:
            kept, normal = scale**-2, rng.normal(*residuals.shape[1:])
            width = noise_std[:, None, None] / problem.measured.clamp_min(1e-30)
            replaced = predicted + kept * residuals + width * (1 - kept).clamp_min(0.0).sqrt() * normal
            targets = torch.where((scale > 1) & (is_measured > 0), replaced, targets)
        return WorkingOutputs(targets, offset, scale, share, probability), noise_std

    def log_likelihood(
        self, problem: Problem, outputs: WorkingOutputs, adjacency: Tensor, theta: Tensor, noise_std: Tensor
    ) -> Tensor:
        """Log-likelihood (chains,) of the outputs as they were measured, over all scales of outliers, given offsets."""
        predicted = problem.filter.apply(adjacency, theta, problem.inputs)
        residuals = (problem.targets - predicted - outputs.offset[:, None]) * problem.measured
        is_measured = (problem.measured > 0).to(residuals)
        log_density = self._log_weights(residuals, outputs.outlier_share, noise_std).logsumexp(-1)
        return (log_density * is_measured).sum((-2, -1)) - problem.n_measured * noise_std.log()

    def _drawn_scales(
        self, residuals: Tensor, is_measured: Tensor, share: Tensor, noise_std: Tensor, rng: RandomSource
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Scales and probabilities of outliers (chains, experiments, nodes), and the share of outliers (chains,)."""
        probability = self._log_weights(residuals, share, noise_std).softmax(-1)
        below = probability.cumsum(-1)
        place = (rng.uniform(*residuals.shape[1:])[..., None] > below[..., :-1]).sum(-1) * (is_measured > 0)
        scale, n_outliers = self._scales(residuals)[place], (place > 0).sum((-2, -1)).double()
        n_others = float(is_measured.sum()) - n_outliers
        first, second = rng.gamma(self.outliers_before + n_outliers), rng.gamma(self.others_before + n_others)
        return scale, (first / (first + second)).to(residuals).clamp(1e-6, 0.5), (1 - probability[..., 0]) * is_measured

    def _log_weights(self, residuals: Tensor, share: Tensor, noise_std: Tensor) -> Tensor:
        """Log-density (chains, experiments, nodes, scales) of residuals with each scale, in units of the noise."""
        scales = self._scales(residuals)
        weights = torch.softmax(-self.degrees_of_freedom * scales[1:].log(), 0)
        weights = torch.cat([(1 - share)[:, None], share[:, None] * weights], 1)[:, None, None]
        standardised = (residuals / noise_std[:, None, None])[..., None] / scales
        return weights.log() - scales.log() - 0.5 * standardised.square()

    def _scales(self, like: Tensor) -> Tensor:
        powers = torch.arange(self.n_scales, dtype=like.dtype, device=like.device)
        return torch.cat([like.new_ones(1), 3.0 * 2.0**powers])
