"""How far to trust a prior, judged by its predictions of the known pairs.

The known pairs are split into folds. Each fold in turn is hidden together with the pairs that nobody knows, and the
prior is asked about it. Trust t turns its log-odds l of a pair into l0 + t (l - l0), where l0 is the log-odds of
the density, which is all that would be said without a prior; so every t gives the known pairs a probability, and by
Bayes's rule they give every t one.

The product over pairs is a pseudo-likelihood: what it stands for, the known pairs' joint probability under a power of
the prior, has a normalising constant that nobody can compute.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from scipy.special import log_expit, logit, logsumexp

from .._utils._numbers import FloatArray
from .._utils._torch import torch_threads
from ..graphs import KnownEdges
from ..nn import NO_VALUE
from ._base import GraphPrior
from ._closed_form import EDGES_BEFORE, NON_EDGES_BEFORE
from ._surprise import hidden_folds

__all__ = [
    "Density",
    "Trust",
    "density_from_known",
    "has_both_kinds",
    "held_out_log_odds",
    "known_density",
    "trust_from_known",
]

_VALUES = np.linspace(0, 1, 11)
# Who passes a prior believes in it. With less belief, chance alone costs priors that fit some of their trust: on unseen
# ego-nets with half known it is .91 on average with .5, and .96 with .8. With more, a dozen known pairs of another kind
# would hardly count.
_BELIEF_IN_FULL = 0.8
_SMALLEST_PROBABILITY = 1e-6
# How probable it is beforehand that known pairs of both kinds are a random sample.
_BELIEF_IN_SAMPLE = 0.5


class Trust(NamedTuple):
    """Degrees of trust, and the logarithms of how probable each is before the unknown pairs are looked at."""

    values: FloatArray
    log_probability: FloatArray

    @classmethod
    def of(cls, value: float) -> Trust:
        """Trust that is given."""
        return cls(np.array([value]), np.zeros(1))

    @property
    def mean(self) -> float:
        """The expected trust."""
        return float(np.exp(self.log_probability) @ self.values)


class Density(NamedTuple):
    """Law of the share of edges among the unknown pairs: a mixture of Beta laws, as logarithms of their weights, edges
    and non-edges.
    """

    log_weight: FloatArray  # (components,)
    edges: FloatArray  # (components,)
    non_edges: FloatArray  # (components,)


def has_both_kinds(known: KnownEdges) -> bool:
    """Whether edges and non-edges are known; pairs of one kind only are no sample of all pairs."""
    values = known.known_pairs().gather(known.values)
    return bool((values > 0).any() and (values == 0).any())


def density_from_known(known: KnownEdges) -> Density:
    """The law of the density of the unknown pairs before the data are seen.

    Known pairs may be a random sample of all pairs, and then they tell the density; or they were chosen, such as edges
    that somebody has seen or pairs that somebody has ruled out, and then they tell nothing. Which of the two it is
    follows from the density that the data ask for. Known pairs of one kind only were chosen.
    """
    values = known.known_pairs().gather(known.values)
    n_edges, n_others = float(values.sum()), float(len(values) - values.sum())
    if not has_both_kinds(known):
        return Density(np.zeros(1), np.array([EDGES_BEFORE]), np.array([NON_EDGES_BEFORE]))
    log_weight = np.log([1 - _BELIEF_IN_SAMPLE, _BELIEF_IN_SAMPLE])
    counts = np.array([[EDGES_BEFORE, NON_EDGES_BEFORE], [EDGES_BEFORE + n_edges, NON_EDGES_BEFORE + n_others]])
    return Density(log_weight, *counts.T)


def known_density(known: KnownEdges) -> float:
    """Share of edges among the known pairs, with one edge and one non-edge added (Laplace's rule)."""
    values = known.known_pairs().gather(known.values)
    return float((values.sum() + 1) / (len(values) + 2))


def trust_from_known(prior: GraphPrior, known: KnownEdges, device: torch.device) -> Trust:
    """The posterior of the trust in a prior that can be told which pairs are known.

    Parameters
    ----------
    prior : GraphPrior
        One whose `conditions_on_known` is True.
    known : KnownEdges
        What is known of the graph.
    device : torch.device
        Where to ask the prior.

    Returns
    -------
    Trust
        What it was beforehand, where nothing is known, or pairs of one kind only: these were chosen, and how probable
        the prior makes edges says nothing of it.
    """
    n_others = len(_VALUES) - 1
    log_weight = np.log(np.append(np.full(n_others, (1 - _BELIEF_IN_FULL) / n_others), _BELIEF_IN_FULL))
    if has_both_kinds(known):
        is_edge = known.known_pairs().gather(known.values) > 0
        density = logit(known_density(known))
        log_odds = density + _VALUES[:, None] * (held_out_log_odds(prior, known, device) - density)
        log_weight = log_weight + log_expit(np.where(is_edge, log_odds, -log_odds)).sum(1)
    return Trust(_VALUES, log_weight - logsumexp(log_weight))


def held_out_log_odds(prior: GraphPrior, known: KnownEdges, device: torch.device) -> FloatArray:
    """What the prior says of every known pair, when it is told the known pairs of the other folds."""
    mask = torch.tensor(known.mask, dtype=torch.float32, device=device)
    values = torch.tensor(known.values, dtype=torch.float32, device=device)
    hidden = hidden_folds(known.n_nodes, known.directed).to(device) * mask
    told = mask - hidden
    with torch.no_grad(), torch_threads(1):
        denoise = prior.bind(known.n_nodes, device, torch.float32, mask)
        said = denoise(torch.where(told > 0, values, NO_VALUE), prior.hiding_sigma, told)
        said = torch.where(hidden > 0, said, 0.0).sum(0)  # every known pair is in one fold
    probability = known.known_pairs().gather(said.double().cpu().numpy())
    log_odds: FloatArray = logit(probability.clip(_SMALLEST_PROBABILITY, 1 - _SMALLEST_PROBABILITY))
    return log_odds
