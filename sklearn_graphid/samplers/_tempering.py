"""A prior that is trusted to some degree only, and the degree drawn with the rest.

With trust t between 0 and 1 the prior p(A) becomes p(A)^t q(A)^(1 - t), where q takes pairs for independent, at the
odds that would be used without the prior. Log-odds of a pair given all others are then the weighted mean of the two,
and so is the logarithm of any ratio of probabilities that a move needs: 1 is the prior as it is, 0 is none.

The denoiser is tempered in the same way. What a pair's own noisy value says, (a~ - 1/2) / sigma^2, is evidence and
counts in full; what the prior adds to the odds of q counts by the trust. That is exact for a pair given all others, and
for pairs that are independent; otherwise it is an approximation, for a mean of logarithms does not commute with sums
over what is hidden.

Every chain has a trust of its own. It is drawn from a few degrees, by how probable the known pairs make them and by how
probable each makes the unknown pairs as they stand. The second factor is a pseudo-likelihood, the product of every
pair's probability given the others: the normalising constant of a power of the prior is beyond reach.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ._kernel import Denoiser, RandomSource
from ._problem import Problem

__all__ = [
    "PriorOdds",
    "TemperedDenoiser",
    "TrustLaw",
    "log_weight_of_trust",
    "of_chains",
    "redraw_trust",
    "trust_of",
]

# Log-odds from a float32 probability are rounding noise beyond those of this.
_SMALLEST_PROBABILITY = 1e-6
_LARGEST_LOG_ODDS = math.log1p(-_SMALLEST_PROBABILITY) - math.log(_SMALLEST_PROBABILITY)


class TrustLaw(NamedTuple):
    """Degrees of trust, and how probable each is before the unknown pairs are looked at, up to a constant."""

    values: Tensor  # (degrees,)
    log_weight: Tensor  # (degrees,)

    @property
    def is_certain(self) -> bool:
        """Whether there is but one degree."""
        return len(self.values) == 1

    def draw(self, uniform: Tensor, log_likelihood: Tensor | None = None) -> Tensor:
        """Degrees (chains,) by number, from uniform numbers; the log-likelihood is (chains, degrees)."""
        log_weight = self.log_weight if log_likelihood is None else self.log_weight + log_likelihood
        below = log_weight.softmax(-1).double().cumsum(-1).expand(len(uniform), -1).contiguous()
        drawn = torch.searchsorted(below, uniform.double()[:, None] * below[:, -1:])[:, 0]
        return drawn.clamp_max(len(self.values) - 1)


@dataclass(frozen=True)
class TemperedDenoiser:
    """E[clean adjacency | noisy one] under a prior that every chain trusts to a degree of its own.

    Parameters
    ----------
    denoise : Denoiser
        That of the prior as it is.
    reference : Tensor (nodes, nodes)
        Log-odds of every pair without the prior.
    law : TrustLaw
        What the trust may be.
    degree : Tensor (chains,)
        What it is, by number.
    """

    denoise: Denoiser
    reference: Tensor
    law: TrustLaw
    degree: Tensor

    @classmethod
    def of_law(
        cls, denoise: Denoiser, reference: Tensor, law: TrustLaw, n_chains: int, rng: RandomSource
    ) -> TemperedDenoiser:
        """With trust drawn from its law; a law of one degree takes no random numbers."""
        degree = torch.zeros(n_chains, dtype=torch.long, device=reference.device)
        return cls(denoise, reference, law, degree if law.is_certain else law.draw(rng.uniform()))

    @property
    def trust(self) -> Tensor:
        """The power of the prior, (chains,)."""
        return self.law.values[self.degree]

    @property
    def log_weight(self) -> Tensor:
        """The logarithm (chains,) of how probable the trust was before the unknown pairs were looked at."""
        return self.law.log_weight[self.degree]

    def __call__(self, adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
        own, added = _own_log_odds(adjacency, sigma), self.added_by_prior(adjacency, sigma, known)
        return torch.sigmoid(own + self.reference + self.trust[:, None, None] * added)

    def added_by_prior(self, adjacency: Tensor, sigma: float, known: Tensor | None = None) -> Tensor:
        """What the prior, as it is, adds to the log-odds without it; (chains, nodes, nodes)."""
        said = torch.logit(self.denoise(adjacency, sigma, known), eps=_SMALLEST_PROBABILITY)
        return said - _own_log_odds(adjacency, sigma) - self.reference

    def of_chains(self, chains: Tensor) -> TemperedDenoiser:
        """That of some of the chains."""
        return replace(self, degree=self.degree[chains])

    def redrawn(self, problem: Problem, pairs: Tensor, added: Tensor, rng: RandomSource) -> TemperedDenoiser:
        """The same with trust drawn anew, given pairs (chains, unknown pairs) and what the prior adds to their odds."""
        sign, reference = 2 * pairs - 1, problem.gather(self.reference)
        # One degree after the other: a table of all would be large where there are many pairs.
        fits = [torch.nn.functional.logsigmoid(sign * (reference + value * added)).sum(1) for value in self.law.values]
        return replace(self, degree=self.law.draw(rng.uniform(), torch.stack(fits, 1)))


def _own_log_odds(adjacency: Tensor, sigma: float) -> Tensor:
    """What the noisy value of a pair says of it."""
    # Beyond what a float32 probability can hold, the prior's answer would look as if it doubted what is certain.
    return ((adjacency - 0.5) / sigma**2).clamp(-_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)


class PriorOdds(NamedTuple):
    """What the prior says of the unknown pairs."""

    log_odds: Tensor  # (chains, unknown pairs), of an edge
    added: Tensor  # (chains, unknown pairs), what the prior would add to log-odds without it, if trusted in full

    @classmethod
    def asked(cls, problem: Problem, denoise: Denoiser, copy: Tensor, sigma: float, known: Tensor | None) -> PriorOdds:
        """The answer about a noisy copy (chains, unknown pairs)."""
        adjacency = problem.assemble(copy)
        if not isinstance(denoise, TemperedDenoiser):
            log_odds = torch.logit(problem.gather(denoise(adjacency, sigma, known)), eps=_SMALLEST_PROBABILITY)
            return cls(log_odds, log_odds)  # trust is not drawn, and nobody reads the second
        added = problem.gather(denoise.added_by_prior(adjacency, sigma, known))
        without = _own_log_odds(copy, sigma) + problem.gather(denoise.reference)
        return cls(without + denoise.trust[:, None] * added, added)

    def where(self, is_new: Tensor, new: PriorOdds) -> PriorOdds:
        """New answers where `is_new` (chains, unknown pairs), and these elsewhere."""
        return PriorOdds(*(torch.where(is_new, part, old) for part, old in zip(new, self, strict=True)))

    def of_chains(self, chains: Tensor) -> PriorOdds:
        """Those of some of the chains."""
        return PriorOdds(*(part[chains] for part in self))


def redraw_trust(
    problem: Problem, denoise: Denoiser, odds: PriorOdds, pairs: Tensor, rng: RandomSource
) -> tuple[Denoiser, PriorOdds]:
    """Draw the trust of every chain anew, given its pairs and what the prior last said of them."""
    if not isinstance(denoise, TemperedDenoiser) or denoise.law.is_certain:
        return denoise, odds
    redrawn = denoise.redrawn(problem, pairs, odds.added, rng)
    change = (redrawn.trust - denoise.trust)[:, None]
    return redrawn, PriorOdds(odds.log_odds + change * odds.added, odds.added)


def of_chains(denoise: Denoiser, chains: Tensor) -> Denoiser:
    """The denoiser of some of the chains, by their numbers."""
    return denoise.of_chains(chains) if isinstance(denoise, TemperedDenoiser) else denoise


def log_weight_of_trust(denoise: Denoiser) -> Tensor | float:
    """How probable the known pairs make the trust of every chain, (chains,); zero where the prior is taken as it is."""
    return denoise.log_weight if isinstance(denoise, TemperedDenoiser) else 0.0


def trust_of(denoise: Denoiser) -> Tensor | None:
    """The trust of every chain, (chains,); None where the prior is taken as it is."""
    return denoise.trust if isinstance(denoise, TemperedDenoiser) else None
