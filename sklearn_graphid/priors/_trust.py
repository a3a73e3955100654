"""How well priors predict what is known of a graph: trust in a prior, the choice among several, and surprise.

The known pairs are split into folds. Each fold in turn is hidden together with the unknown pairs, and the prior
predicts it from the other known pairs.

*Trust* t turns the log-odds l that the prior gives a pair into l0 + t (l - l0), where l0 is the log-odds of the
density, the answer without a prior. So every t gives the known pairs a probability, and by Bayes' rule they give every
t one. The product over pairs is a pseudo-likelihood: the joint probability of the known pairs under a power of the
prior has a normalising constant that cannot be computed.

*Surprise* compares two numbers with those of training graphs: the mean loss of the hidden known pairs, and the mean
loss that the network itself expected, the entropy of its predictions. A graph of another kind is predicted worse than
expected, or it is (like a path, or an empty graph) simpler or harder than training graphs ever are. The distance of the
two numbers is Mahalanobis', so that one unit is a standard deviation in every direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.special import log_expit, logit, logsumexp
from torch import Tensor
from torch.nn import functional

from .._utils._numbers import FloatArray
from .._utils._torch import seeded_generator, torch_threads
from ..graphs import EdgeSpace, KnownEdges, one_entry_per_pair
from ..nn import NO_VALUE, graphs_at_once
from ._base import GraphPrior
from ._closed_form import EDGES_BEFORE, NON_EDGES_BEFORE

__all__ = [
    "HIDDEN_NOISE",
    "Calibration",
    "Trust",
    "calibrate_surprise",
    "choose_prior",
    "density_from_known",
    "deviations_in_words",
    "has_both_kinds",
    "held_out_log_odds",
    "hidden_folds",
    "known_density",
    "surprise",
    "trust_from_known",
]

_N_FOLDS = 8
# The noise of a hidden pair is said to be this many times the largest level of the schedule, well inside the levels of
# the training.
HIDDEN_NOISE = 2.0

Calibration = dict[str, FloatArray]


def hidden_folds(n_nodes: int, directed: bool) -> Tensor:
    """Masks (folds, nodes, nodes) that divide the pairs at random, always in the same way."""
    pairs = EdgeSpace.complete(n_nodes, directed).to(torch.device("cpu"))
    fold = torch.randperm(pairs.n_free, generator=seeded_generator(n_nodes)) % _N_FOLDS
    is_member = (fold == torch.arange(_N_FOLDS)[:, None]).to(torch.float32)
    masks: Tensor = pairs.filled(is_member, torch.zeros(n_nodes, n_nodes, dtype=torch.float32))
    return masks


def _known_values(known: KnownEdges) -> FloatArray:
    """The 0 or 1 of every known pair."""
    values: FloatArray = known.known_pairs().gather(known.values)
    return values


def has_both_kinds(known: KnownEdges) -> bool:
    """Whether edges and non-edges are known; pairs of one kind only are no sample of all pairs."""
    values = _known_values(known)
    return bool((values > 0).any() and (values == 0).any())


# The density of the unknown pairs.


def density_from_known(known: KnownEdges) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The law of the density of the unknown pairs before the data are seen.

    It is a mixture of Beta laws, given by the logarithms of their weights, their edges and their non-edges.
    Known pairs may be a random sample of all pairs, and then they tell the density; or they were chosen, such as edges
    that somebody has seen or pairs that somebody has ruled out, and then they tell nothing. Which of the two it is
    follows from the density that the data ask for. Known pairs of one kind only were chosen.
    """
    if not has_both_kinds(known):
        return np.zeros(1), np.array([EDGES_BEFORE]), np.array([NON_EDGES_BEFORE])
    values = _known_values(known)
    counts_tell = np.array([0.0, 1.0])
    edges = EDGES_BEFORE + counts_tell * values.sum()
    non_edges = NON_EDGES_BEFORE + counts_tell * (len(values) - values.sum())
    return np.log([0.5, 0.5]), edges, non_edges


def known_density(known: KnownEdges) -> float:
    """Share of edges among the known pairs, with one edge and one non-edge added (Laplace's rule)."""
    values = _known_values(known)
    return float((values.sum() + 1) / (len(values) + 2))


# Trust in a prior, and the choice among several.


class Trust(NamedTuple):
    """Degrees of trust, and the logarithms of how probable each is before the unknown pairs are looked at."""

    values: FloatArray
    log_probability: FloatArray

    @classmethod
    def of(cls, value: float) -> Trust:
        """Trust that is given."""
        return cls(np.array([value]), np.zeros(1))


def held_out_log_odds(prior: GraphPrior, known: KnownEdges, device: torch.device) -> FloatArray:
    """Log-odds that the prior gives every known pair, when it is told the known pairs of the other folds."""
    mask = torch.tensor(known.mask, dtype=torch.float32, device=device)
    values = torch.tensor(known.values, dtype=torch.float32, device=device)
    hidden = hidden_folds(known.n_nodes, known.directed).to(device) * mask
    told = mask - hidden
    with torch.no_grad(), torch_threads(1):
        denoise = prior.bind(known.n_nodes, device, torch.float32, mask)
        predicted = denoise(torch.where(told > 0, values, NO_VALUE), prior.hiding_sigma, told)
        predicted = torch.where(hidden > 0, predicted, 0.0).sum(0)  # every known pair is in one fold
    probability = known.known_pairs().gather(predicted.double().cpu().numpy())
    log_odds: FloatArray = logit(probability.clip(1e-6, 1 - 1e-6))
    return log_odds


def _log_likelihood(log_odds: FloatArray, known: KnownEdges) -> npt.NDArray[Any]:
    """Logarithm of the probability of the known pairs, given log-odds (..., pairs)."""
    return np.asarray(log_expit(np.where(_known_values(known) > 0, log_odds, -log_odds)).sum(-1))


def trust_from_known(prior: GraphPrior, known: KnownEdges, device: torch.device) -> Trust:
    """The posterior of the trust in a prior whose `conditions_on_known` is True.

    It is what it was beforehand if nothing is known, or pairs of one kind only: these were chosen, and how probable the
    prior makes edges says nothing about it.
    """
    values = np.linspace(0, 1, 11)
    # Who passes a prior believes in it. With less belief in full trust, chance alone costs priors that fit some of
    # their trust: on unseen ego-nets with half known it is .91 on average with .5, and .96 with .8. With more, a dozen
    # known pairs of another kind would hardly count.
    belief = np.append(np.full(len(values) - 1, (1 - 0.8) / (len(values) - 1)), 0.8)
    log_weight = np.log(belief)
    if has_both_kinds(known):
        density = logit(known_density(known))
        log_odds = density + values[:, None] * (held_out_log_odds(prior, known, device) - density)
        log_weight = log_weight + _log_likelihood(log_odds, known)
    return Trust(values, log_weight - logsumexp(log_weight))


def choose_prior(priors: Sequence[GraphPrior], known: KnownEdges, device: torch.device) -> GraphPrior:
    """The prior that predicts the known pairs best, or the first where none is clearly better.

    All can be told which pairs are known. The first is the one that is believed in. Another takes its place if it makes
    the known pairs more probable by a factor that is not chance, even though a product over pairs counts some evidence
    twice. Known pairs of one kind only, such as edges alone, would favour the prior of the densest graphs, and are not
    asked.
    """
    if len(priors) == 1 or not has_both_kinds(known):
        return priors[0]
    fits = [float(_log_likelihood(held_out_log_odds(prior, known, device), known)) for prior in priors]
    # By how many nats another prior has to be better than the first: fewer for a graph of a size that it was trained
    # on. On graphs for development, those between the two numbers (7% of their families) gain .16 to .23 of F1 with the
    # prior for grids, also lattices and symmetric graphs, and lose .03 with that for ego-nets if they are no ego-nets.
    margins = (2.0 if prior.was_trained_on_size(known.n_nodes) else 5.0 for prior in priors[1:])
    gains = [0.0] + [fit - fits[0] - margin for fit, margin in zip(fits[1:], margins, strict=True)]
    return priors[int(np.argmax(gains))]


# Surprise.


def calibrate_surprise(network: Any, graphs: Sequence[FloatArray], sigma_max: float) -> Calibration:
    """Measure graphs under random masks: "share" (S,), "mean" (S, 2) and "covariance" (S, 2, 2)."""
    rng = np.random.default_rng(0)
    chosen = sorted((graphs[i % len(graphs)] for i in range(48)), key=len)  # each with a mask of its own
    shares = np.array([0.25, 0.5, 0.75, 1.0])  # of known pairs; in between, moments are interpolated
    means, covariances = [], []
    for share in shares:
        measured = []
        for batch in _batches_of_one_size(chosen):
            mask = one_entry_per_pair(torch.from_numpy(rng.random(batch.shape) < share), network.directed).numpy()
            measured.append(_fold_losses(network, batch, mask, sigma_max))
        values = np.concatenate(measured)
        means.append(values.mean(0))
        covariances.append(np.cov(values.T))
    return {"share": shares, "mean": np.array(means), "covariance": np.array(covariances)}


def surprise(
    network: Any, adjacency: FloatArray, mask: npt.NDArray[np.bool_], sigma_max: float, calibration: Calibration
) -> float:
    """Distance of a partially known graph from the training graphs; nan where too little is known to say."""
    n_known = EdgeSpace.of_mask(mask, network.directed).n_free
    if n_known < _N_FOLDS:
        return float("nan")
    shares = calibration["share"]
    share = n_known / EdgeSpace.complete(len(adjacency), network.directed).n_free
    upper = int(np.searchsorted(shares, share).clip(1, len(shares) - 1))
    weight = float(np.clip((share - shares[upper - 1]) / (shares[upper] - shares[upper - 1]), 0, 1))
    mean, covariance = (
        (1 - weight) * calibration[name][upper - 1] + weight * calibration[name][upper]
        for name in ("mean", "covariance")
    )
    # With less known than was ever measured, the means are over fewer pairs and scatter more.
    covariance = covariance * max(1.0, shares[0] / share)
    # Training graphs may be all alike; the moments are never taken to be known better than to 2 percent.
    covariance = covariance + np.diag((0.02 * mean) ** 2 + np.finfo(float).eps)
    difference = _fold_losses(network, adjacency[None], mask[None], sigma_max)[0] - mean
    return float(np.sqrt(difference @ np.linalg.solve(covariance, difference)))


def _fold_losses(network: Any, adjacency: FloatArray, mask: npt.NDArray[np.bool_], sigma_max: float) -> FloatArray:
    """Mean loss of the hidden known pairs and its expectation, (graphs, 2), for (graphs, nodes, nodes)."""
    device = next(network.parameters()).device
    clean = torch.tensor(adjacency, dtype=torch.float32, device=device)[:, None]
    mentioned = torch.tensor(mask, dtype=torch.float32, device=device)[:, None]
    hidden = mentioned * hidden_folds(adjacency.shape[-1], network.directed).to(device)
    known = mentioned - hidden
    noisy = torch.where(known > 0, clean, NO_VALUE).flatten(0, 1)
    sigma = torch.full((len(noisy),), HIDDEN_NOISE * sigma_max, dtype=torch.float32, device=device)
    with torch.inference_mode():
        log_odds = network.log_odds(noisy, sigma, known.flatten(0, 1)).view(hidden.shape)
        loss = functional.binary_cross_entropy_with_logits(log_odds, clean.expand_as(log_odds), reduction="none")
        expected = functional.binary_cross_entropy_with_logits(log_odds, log_odds.sigmoid(), reduction="none")
        both = torch.stack([(loss * hidden).sum((1, 2, 3)), (expected * hidden).sum((1, 2, 3))], dim=1)
        return np.asarray((both / hidden.sum((1, 2, 3)).clamp_min(1)[:, None]).double().cpu().numpy())


def _batches_of_one_size(graphs: Sequence[FloatArray]) -> list[FloatArray]:
    """Stack sorted graphs of one size, few enough to be fast."""
    batches: list[list[FloatArray]] = []
    for graph in graphs:
        at_once = max(1, graphs_at_once(len(graph)) // _N_FOLDS)
        if not batches or len(batches[-1]) == at_once or len(batches[-1][0]) != len(graph):
            batches.append([])
        batches[-1].append(graph)
    return [np.stack(batch) for batch in batches]


def deviations_in_words(surprise: float) -> str:
    """Say how many standard deviations."""
    # A graph that the prior takes for impossible is any number of them away; the digits would say nothing.
    return f"{surprise:.1f} standard deviations" if surprise < 100 else "more than 100 standard deviations"
