"""The prior of graphs as chains use it: density of the unknown pairs and trust in a prior are drawn with the rest.

Without a prior, unknown pairs are independent and are edges with a probability that is unknown too, the density. Its
law is a mixture of Beta laws, so that given the pairs it is drawn exactly. Call this q(A).

With trust t between 0 and 1 a prior p(A) becomes p(A)^t q(A)^(1 - t). Log-odds of a pair given all others are then the
weighted mean of the two, and so is the logarithm of any ratio of probabilities that a move needs: 1 is the prior as it
is, 0 is none.

The denoiser is tempered in the same way. What a pair's own noisy value says, (a~ - 1/2) / sigma^2, is evidence and
counts in full; what the prior says counts by the trust, and the density by the rest. That is exact for a pair given all
others, and for pairs that are independent; otherwise it is an approximation, for a mean of logarithms does not commute
with sums over what is hidden.

Every chain has a trust and a density of its own. Trust is drawn from a few degrees, by how probable the known pairs
make them and by how probable each makes the unknown pairs as they stand. The second factor is a pseudo-likelihood, the
product of every pair's probability given the others: the normalising constant of a power of the prior is beyond reach.
Where trust is drawn, the density is drawn in the same way; where it is given, from the Beta law of q(A)^(1 - t).

A prior of whole graphs takes known pairs for a sample of the graph: where they were chosen, say because they are
edges, it expects too many edges or too few among the others. The prior is then tilted, p(A) exp(tilt * edges of A), and
what it says of the density no longer counts, while what it says of the structure does. The tilt is drawn with the
trust.
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
    "DensityLaw",
    "PriorOdds",
    "TemperedDenoiser",
    "TrustLaw",
    "density_of",
    "log_weight_of_prior",
    "of_chains",
    "redraw_prior",
    "start_density",
    "trust_of",
]

# Log-odds from a float32 probability are rounding noise beyond those of this.
_SMALLEST_PROBABILITY = 1e-6
# Where trust is sampled, the density is one of so many, evenly spaced by their log-odds between these and minus these.
_N_DENSITIES, _WIDEST_LOG_ODDS = 25, 6.0
# The tilt is one of so many, evenly spaced between these and minus these, with a normal law of this width. On
# development graphs of which edges only, or non-edges only, were known, the log-loss with the general prior was .074
# and .709 without a tilt (no prior: .080 and .684), .061 and .675 with the width 1, and .061 and .665 with 2.
_N_TILTS, _WIDEST_TILT, _TILT_WIDTH = 33, 6.0, 2.0
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
        return _drawn(log_weight.expand(len(uniform), -1), uniform)


class DensityLaw(NamedTuple):
    """Law of the share of edges among the unknown pairs: a mixture of Beta laws, (components,) each.

    The parameters of a Beta law count like edges and non-edges that were seen before.
    """

    log_weight: Tensor
    edges: Tensor
    non_edges: Tensor

    def draw(self, n_edges: Tensor, n_others: Tensor, rng: RandomSource) -> Tensor:
        """Densities (chains,) given how many unknown pairs are edges and how many are none (chains,); exact."""
        edges, non_edges = self.edges + n_edges.double()[:, None], self.non_edges + n_others.double()[:, None]
        evidence = _log_beta(edges, non_edges) - _log_beta(self.edges.double(), self.non_edges.double())
        component = _drawn(self.log_weight + evidence, rng.uniform())[:, None]
        first, second = (rng.gamma(part.gather(1, component)[:, 0]).double() for part in (edges, non_edges))
        # Gamma numbers of a small shape may vanish in single precision.
        density = (first / (first + second)).nan_to_num(0.5).clamp(_SMALLEST_PROBABILITY, 1 - _SMALLEST_PROBABILITY)
        return density.to(n_edges.dtype)

    def log_density(self, density: Tensor) -> Tensor:
        """Logarithm (chains,) of the law's density at densities (chains,), of their log-odds."""
        share = density.double()[:, None]
        edges, non_edges = self.edges.double(), self.non_edges.double()
        components = edges * share.log() + non_edges * torch.log1p(-share) - _log_beta(edges, non_edges)
        return (self.log_weight + components).logsumexp(1).to(density.dtype)


def _log_beta(first: Tensor, second: Tensor) -> Tensor:
    return torch.lgamma(first) + torch.lgamma(second) - torch.lgamma(first + second)


def _drawn(log_weight: Tensor, uniform: Tensor) -> Tensor:
    """A place (chains,) drawn with these logarithms of weights (chains, places), from uniform numbers."""
    below = log_weight.softmax(-1).double().cumsum(-1).contiguous()
    drawn = torch.searchsorted(below, uniform.double()[:, None] * below[:, -1:])[:, 0]
    return drawn.clamp_max(below.shape[1] - 1)


@dataclass(frozen=True)
class TemperedDenoiser:
    """E[clean adjacency | noisy one] under a density and a prior that every chain trusts to a degree of its own.

    Parameters
    ----------
    prior : Denoiser or None
        That of the prior as it is. None: there is none, and trust is zero.
    evidence : Tensor (nodes, nodes)
        Log-odds of every pair beside the prior's, which count in full.
    law : TrustLaw
        What the trust may be.
    degree : Tensor (chains,)
        What it is, by number.
    density_law : DensityLaw
        The law of the density of the unknown pairs.
    density : Tensor (chains,)
        The density.
    tilt : Tensor (chains,) or None
        What is added to the prior's log-odds. None: nothing, and no tilt is drawn.
    """

    prior: Denoiser | None
    evidence: Tensor
    law: TrustLaw
    degree: Tensor
    density_law: DensityLaw
    density: Tensor
    tilt: Tensor | None = None

    @classmethod
    def of_laws(
        cls,
        prior: Denoiser | None,
        evidence: Tensor,
        law: TrustLaw,
        density_law: DensityLaw,
        n_chains: int,
        rng: RandomSource,
        *,
        has_tilt: bool = False,
    ) -> TemperedDenoiser:
        """With trust and density drawn from their laws; a law of one degree of trust takes no random numbers.

        Priors are tilted where `has_tilt`, unless trust in them is given.
        """
        degree = torch.zeros(n_chains, dtype=torch.long, device=evidence.device)
        degree = degree if law.is_certain else law.draw(rng.uniform())
        nothing = evidence.new_zeros(n_chains)
        tilt = nothing if has_tilt and not law.is_certain else None
        return cls(prior, evidence, law, degree, density_law, density_law.draw(nothing, nothing, rng), tilt)

    @property
    def trust(self) -> Tensor:
        """The power of the prior, (chains,)."""
        return self.law.values[self.degree]

    @property
    def log_weight(self) -> Tensor:
        """Logarithm (chains,) of how probable trust, density and tilt were before the unknown pairs were looked at."""
        log_weight = self.law.log_weight[self.degree] + self.density_law.log_density(self.density)
        return log_weight if self.tilt is None else log_weight - 0.5 * (self.tilt / _TILT_WIDTH) ** 2

    def __call__(self, adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
        log_odds = self.mixed(self.said_by_prior(adjacency, sigma, known))
        return torch.sigmoid(_own_log_odds(adjacency, sigma) + self.evidence + log_odds)

    def mixed(self, said: Tensor) -> Tensor:
        """Log-odds (chains, ...) of the density and, as far as it is trusted, of what the prior has said."""
        shape = (-1, *[1] * (said.dim() - 1))
        trust, density = self.trust.view(shape), torch.logit(self.density).view(shape)
        said = said if self.tilt is None else said + self.tilt.view(shape)
        return density + trust * (said - density)

    def said_by_prior(self, adjacency: Tensor, sigma: float, known: Tensor | None = None) -> Tensor:
        """The prior's log-odds (chains, nodes, nodes), less what the noisy values themselves say; zero without one."""
        if self.prior is None:
            return torch.zeros_like(adjacency)
        said = torch.logit(self.prior(adjacency, sigma, known), eps=_SMALLEST_PROBABILITY)
        return said - _own_log_odds(adjacency, sigma)

    def of_chains(self, chains: Tensor) -> TemperedDenoiser:
        """That of some of the chains."""
        tilt = None if self.tilt is None else self.tilt[chains]
        return replace(self, degree=self.degree[chains], density=self.density[chains], tilt=tilt)

    def with_density_of(self, pairs: Tensor, rng: RandomSource) -> TemperedDenoiser:
        """The same with the density drawn anew, given pairs (chains, unknown pairs) of 0 and 1.

        q(A)^(1 - t) p(density) is a Beta law of the density in which every pair counts 1 - t.
        """
        count, n_edges = 1 - self.trust, pairs.sum(1)
        density = self.density_law.draw(count * n_edges, count * (pairs.shape[1] - n_edges), rng)
        return replace(self, density=density)

    def redrawn(self, pairs: Tensor, said: Tensor, rng: RandomSource) -> TemperedDenoiser:
        """The same with tilt, density and trust drawn anew, given pairs (chains, unknown pairs) and the prior's odds.

        One value after the other is tried: a table of all would be large where there are many pairs.
        """
        if self.law.is_certain:
            return self.with_density_of(pairs, rng)
        sign = 2 * pairs - 1
        trust, reference, tilt = self.trust[:, None], torch.logit(self.density)[:, None], self.tilt

        def pseudo_likelihood(trust: Tensor, said: Tensor, reference: Tensor) -> Tensor:
            # What is beside the prior speaks of the pairs, and not of how far to trust it.
            return torch.nn.functional.logsigmoid(sign * (reference + trust * (said - reference))).sum(1)

        if tilt is not None:
            tilts = torch.linspace(-_WIDEST_TILT, _WIDEST_TILT, _N_TILTS).to(said)
            fits = torch.stack([pseudo_likelihood(trust, said + value, reference) for value in tilts], 1)
            tilt = tilts[_drawn(fits - 0.5 * (tilts / _TILT_WIDTH) ** 2, rng.uniform())]
            said = said + tilt[:, None]
        references = torch.linspace(-_WIDEST_LOG_ODDS, _WIDEST_LOG_ODDS, _N_DENSITIES).to(said)
        fits = torch.stack([pseudo_likelihood(trust, said, value) for value in references], 1)
        fits = fits + self.density_law.log_density(references.sigmoid())
        reference = references[_drawn(fits, rng.uniform())][:, None]
        fits = torch.stack([pseudo_likelihood(value, said, reference) for value in self.law.values], 1)
        degree = self.law.draw(rng.uniform(), fits)
        return replace(self, density=reference[:, 0].sigmoid(), degree=degree, tilt=tilt)


def _own_log_odds(adjacency: Tensor, sigma: float) -> Tensor:
    """What the noisy value of a pair says of it."""
    # Beyond what a float32 probability can hold, the prior's answer would look as if it doubted what is certain.
    return ((adjacency - 0.5) / sigma**2).clamp(-_LARGEST_LOG_ODDS, _LARGEST_LOG_ODDS)


class PriorOdds(NamedTuple):
    """Log-odds of the unknown pairs before the data are seen."""

    log_odds: Tensor  # (chains, unknown pairs), of an edge
    said: Tensor  # (chains, unknown pairs), what the prior says, if trusted in full, beside noisy values and evidence

    @classmethod
    def asked(cls, problem: Problem, denoise: Denoiser, copy: Tensor, sigma: float, known: Tensor | None) -> PriorOdds:
        """The answer about a noisy copy (chains, unknown pairs)."""
        adjacency = problem.assemble(copy)
        if not isinstance(denoise, TemperedDenoiser):
            log_odds = torch.logit(problem.gather(denoise(adjacency, sigma, known)), eps=_SMALLEST_PROBABILITY)
            return cls(log_odds, log_odds - _own_log_odds(copy, sigma))
        said = problem.gather(denoise.said_by_prior(adjacency, sigma, known))
        own = _own_log_odds(copy, sigma) + problem.gather(denoise.evidence)
        return cls(own + denoise.mixed(said), said)

    def beside_copy(self, problem: Problem, denoise: Denoiser) -> Tensor:
        """Log-odds of an edge without what the noisy values themselves said."""
        if not isinstance(denoise, TemperedDenoiser):
            return self.said
        return problem.gather(denoise.evidence).to(self.said) + denoise.mixed(self.said).to(self.said)

    def where(self, is_new: Tensor, new: PriorOdds) -> PriorOdds:
        """New answers where `is_new` (chains, unknown pairs), and these elsewhere."""
        return PriorOdds(*(torch.where(is_new, part, old) for part, old in zip(new, self, strict=True)))

    def to(self, like: Tensor) -> PriorOdds:
        """Convert the numbers to the precision of others."""
        return PriorOdds(*(part.to(like.dtype) for part in self))


def redraw_prior(denoise: Denoiser, odds: PriorOdds, pairs: Tensor, rng: RandomSource) -> tuple[Denoiser, PriorOdds]:
    """Draw density and trust of every chain anew, given its pairs and what the prior last said of them."""
    if not isinstance(denoise, TemperedDenoiser):
        return denoise, odds
    redrawn = denoise.redrawn(pairs, odds.said, rng)
    return redrawn, odds._replace(log_odds=odds.log_odds + redrawn.mixed(odds.said) - denoise.mixed(odds.said))


def start_density(denoise: Denoiser, pairs: Tensor, rng: RandomSource) -> Denoiser:
    """Draw the density given the pairs (chains, unknown pairs) that chains start from."""
    return denoise.with_density_of(pairs, rng) if isinstance(denoise, TemperedDenoiser) else denoise


def of_chains(denoise: Denoiser, chains: Tensor) -> Denoiser:
    """The denoiser of some of the chains, by their numbers."""
    return denoise.of_chains(chains) if isinstance(denoise, TemperedDenoiser) else denoise


def log_weight_of_prior(denoise: Denoiser) -> Tensor | float:
    """How probable trust and density of every chain were, (chains,); zero where the prior is taken as it is."""
    return denoise.log_weight if isinstance(denoise, TemperedDenoiser) else 0.0


def trust_of(denoise: Denoiser) -> Tensor | None:
    """The trust of every chain, (chains,); None where the prior is taken as it is, or there is none."""
    return denoise.trust if isinstance(denoise, TemperedDenoiser) and denoise.prior is not None else None


def density_of(denoise: Denoiser) -> Tensor | None:
    """The density of every chain, (chains,); None where there is a prior, which says more than the density."""
    return denoise.density if isinstance(denoise, TemperedDenoiser) and denoise.prior is None else None
