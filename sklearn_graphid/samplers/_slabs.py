"""How strong edges are: the law of the strengths of the edges that are there.

A slab maps a number z, whose law is Gaussian, to a strength. Location and width of the Gaussian are sampled with the
rest. Most filters have a parameter that multiplies all strengths, so that the unit of strengths is anybody's choice
where no strength is known; the slab then fixes it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ._compiled import LARGEST_LOGARITHM, LARGEST_RATIO, evidence_of_all
from ._kernel import RandomSource

__all__ = ["GaussianSlab", "LogNormalSlab", "Slab", "StrengthLaw"]

# The squared width has an inverse gamma law: as if six strengths had been seen before, of mean square deviation 1/2
# in logarithms. Strengths then differ by a factor of two to three, which some dozen edges overrule.
_N_SEEN_BEFORE = 6.0
_SEEN_VARIANCE = 0.5
# Where the unit of strengths of either sign is their width, their location is within so many of them.
_LOCATION_WIDTH = 3.0


class StrengthLaw(NamedTuple):
    """Location and width of z, (chains,) each."""

    location: Tensor
    width: Tensor


class Slab(ABC):
    """A law of strengths."""

    has_signs: ClassVar[bool]  # whether strengths may be below zero
    range_of_strengths: ClassVar[tuple[float, float]]  # for annealed strengths, in units of a usual one

    @abstractmethod
    def strength(self, z: Tensor) -> Tensor:
        """The strength that belongs to z."""

    @abstractmethod
    def slope(self, z: Tensor) -> Tensor:
        """The derivative of the strength by z."""

    @abstractmethod
    def number(self, strength: Tensor) -> Tensor:
        """The z of a strength."""

    @abstractmethod
    def size(self, law: StrengthLaw) -> Tensor:
        """A usual strength (chains,), above zero."""

    @abstractmethod
    def moments(self, law: StrengthLaw) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (chains,) of strengths."""

    @abstractmethod
    def unit(self, law: StrengthLaw) -> Tensor:
        """A change of z (chains,) that is neither small nor large."""

    def within_reason(self, z: Tensor, law: StrengthLaw) -> Tensor:
        """The nearest z that is tried: beyond it, strengths are so large or small that filters lose all digits."""
        return z

    def bend(self, z: Tensor, law: StrengthLaw) -> Tensor:
        """Curvature of minus the log-posterior due to the curve from z to the strength; the law fits z."""
        return torch.zeros_like(z)

    def log_evidence(self, slope: Tensor, curvature: Tensor, law: StrengthLaw) -> tuple[Tensor, Tensor]:
        """Log of the mean of exp(slope w - curvature w^2 / 2) over strengths w, and in z where most of it comes from.

        The law has to fit the shape of the other arguments. It is Laplace's approximation where no formula is known.
        """
        arguments = torch.broadcast_tensors(slope.double(), curvature.double(), *law)
        log_odds, z = (np.empty(slope.shape) for _ in range(2))
        flat = (part.flatten().cpu().numpy() for part in arguments)
        evidence_of_all(*flat, self.has_signs, log_odds.reshape(-1), z.reshape(-1))
        return torch.from_numpy(log_odds).to(slope), torch.from_numpy(z).to(slope)

    def precision(self, z: Tensor, curvature: Tensor, law: StrengthLaw) -> Tensor:
        """Minus the second derivative by z of the logarithm of what `log_evidence` takes the mean of, at its mode."""
        return curvature.clamp_min(0.0) * self.slope(z) ** 2 + law.width**-2 + self.bend(z, law)

    @abstractmethod
    def first_law(self, known: Tensor, n_chains: int) -> StrengthLaw:
        """Where to start, from the known strengths' z (n_known,)."""

    @abstractmethod
    def sample_law(self, law: StrengthLaw, z: Tensor, is_edge: Tensor, known: Tensor, rng: RandomSource) -> StrengthLaw:
        """Draw location and width given z (chains, n) of edges, where `is_edge`, and of known strengths (n_known,)."""


class LogNormalSlab(Slab):
    """Strengths above zero whose logarithms are Gaussian. Where none is known, their unit is their geometric mean."""

    has_signs = False
    range_of_strengths = (0.0, 10.0)

    def strength(self, z: Tensor) -> Tensor:
        return z.clamp(-LARGEST_LOGARITHM, LARGEST_LOGARITHM).exp()

    def slope(self, z: Tensor) -> Tensor:
        return self.strength(z)

    def number(self, strength: Tensor) -> Tensor:
        return strength.clamp_min(1e-26).log()

    def size(self, law: StrengthLaw) -> Tensor:
        return self.strength(law.location)

    def within_reason(self, z: Tensor, law: StrengthLaw) -> Tensor:
        return torch.minimum(torch.maximum(z, law.location - LARGEST_RATIO), law.location + LARGEST_RATIO)

    def moments(self, law: StrengthLaw) -> tuple[Tensor, Tensor]:
        mean = (law.location + 0.5 * law.width**2).exp()
        return mean, mean * torch.expm1(law.width**2).sqrt()

    def unit(self, law: StrengthLaw) -> Tensor:
        return torch.ones_like(law.location)

    def bend(self, z: Tensor, law: StrengthLaw) -> Tensor:
        # At the mode the likelihood's slope by z is (z - location) / width^2, and minus this is what the exponential
        # adds to the curvature; nothing where it would take some off.
        return ((law.location - z) / law.width**2).clamp_min(0.0)

    def first_law(self, known: Tensor, n_chains: int) -> StrengthLaw:
        location = known.mean() if len(known) else known.new_zeros(())
        return StrengthLaw(location.expand(n_chains).clone(), known.new_full((n_chains,), _SEEN_VARIANCE**0.5))

    def sample_law(self, law: StrengthLaw, z: Tensor, is_edge: Tensor, known: Tensor, rng: RandomSource) -> StrengthLaw:
        location, width = law
        normal, n_edges = rng.normal(), is_edge.sum(1) + len(known)
        if len(known):
            mean = ((is_edge * z).sum(1) + known.sum()) / n_edges
            location = mean + width / n_edges.sqrt() * normal
        return StrengthLaw(location, _sample_width(location, z, is_edge, known, _SEEN_VARIANCE, rng))


class GaussianSlab(Slab):
    """Gaussian strengths, of either sign. Where none is known, their unit is their standard deviation."""

    has_signs = True
    range_of_strengths = (-10.0, 10.0)

    def strength(self, z: Tensor) -> Tensor:
        return z

    def slope(self, z: Tensor) -> Tensor:
        return torch.ones_like(z)

    def number(self, strength: Tensor) -> Tensor:
        return strength

    def size(self, law: StrengthLaw) -> Tensor:
        return law.location.abs() + law.width

    def moments(self, law: StrengthLaw) -> tuple[Tensor, Tensor]:
        return law.location, law.width

    def unit(self, law: StrengthLaw) -> Tensor:
        return self.size(law)

    def first_law(self, known: Tensor, n_chains: int) -> StrengthLaw:
        if not len(known):
            return StrengthLaw(known.new_zeros(n_chains), known.new_ones(n_chains))
        location = known.mean().expand(n_chains).clone()
        return StrengthLaw(location, known.square().mean().sqrt().expand(n_chains).clone())

    def sample_law(self, law: StrengthLaw, z: Tensor, is_edge: Tensor, known: Tensor, rng: RandomSource) -> StrengthLaw:
        normal, n_edges = rng.normal(), (is_edge.sum(1) + len(known)).to(z)
        # Where a strength is known, the location may be anything; elsewhere it is counted in widths.
        before = 0.0 if len(known) else _LOCATION_WIDTH**-2
        precision = (n_edges + before).clamp_min(before or 1.0)
        location = ((is_edge * z).sum(1) + known.sum()) / precision + law.width / precision.sqrt() * normal
        if not len(known):
            return StrengthLaw(location, law.width)
        unit = float(known.square().mean())
        return StrengthLaw(location, _sample_width(location, z, is_edge, known, unit * _SEEN_VARIANCE, rng))


def _sample_width(
    location: Tensor, z: Tensor, is_edge: Tensor, known: Tensor, seen_variance: float, rng: RandomSource
) -> Tensor:
    deviations = (is_edge * (z - location[:, None]) ** 2).sum(1) + (known - location[:, None]).square().sum(1)
    n_edges = is_edge.sum(1) + len(known)
    gamma = rng.gamma(0.5 * (_N_SEEN_BEFORE + n_edges.double()))
    return (0.5 * (_N_SEEN_BEFORE * seen_variance + deviations) / gamma).sqrt()
