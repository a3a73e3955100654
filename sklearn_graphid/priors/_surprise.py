"""How unlike the training graphs the known part of a graph is.

The known pairs are split into folds. Each fold in turn is hidden together with the pairs that nobody knows, the network
predicts it from the other known pairs, and two numbers come out: its mean loss, and the mean loss that the network
itself expected, the entropy of its predictions. A network of another kind is predicted worse than expected, or it
is (like a path, or an empty graph) simpler or harder than training graphs ever are. The distance of the two numbers
from those of training graphs is Mahalanobis', so that one unit is a standard deviation in every direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from .._utils._numbers import FloatArray
from .._utils._torch import seeded_generator
from ..graphs import EdgeSpace, one_entry_per_pair
from ..nn import NO_VALUE, graphs_at_once

__all__ = ["HIDDEN_NOISE", "Calibration", "calibrate_surprise", "deviations_in_words", "hidden_folds", "surprise"]

# The shares of known pairs at which training graphs are measured; in between, moments are interpolated.
_SHARES = (0.25, 0.5, 0.75, 1.0)
_N_FOLDS = 8
_N_DRAWS = 48  # graphs, each with a mask of its own, for each share
# The noise of a hidden pair is said to be this many times the largest level of the schedule, well inside the levels of
# the training.
HIDDEN_NOISE = 2.0
# Training graphs may be all alike; the moments are never taken to be known better than this.
_RELATIVE_FLOOR = 0.02

Calibration = dict[str, FloatArray]


def calibrate_surprise(network: Any, graphs: Sequence[FloatArray], sigma_max: float) -> Calibration:
    """Measure graphs under random masks: "share" (S,), "mean" (S, 2) and "covariance" (S, 2, 2)."""
    rng = np.random.default_rng(0)
    chosen = sorted((graphs[i % len(graphs)] for i in range(_N_DRAWS)), key=len)
    means, covariances = [], []
    for share in _SHARES:
        measured = []
        for batch in _equal_sizes(chosen):
            mask = one_entry_per_pair(torch.from_numpy(rng.random(batch.shape) < share), network.directed).numpy()
            measured.append(_fold_losses(network, batch, mask, sigma_max))
        values = np.concatenate(measured)
        means.append(values.mean(0))
        covariances.append(np.cov(values.T))
    return {"share": np.array(_SHARES), "mean": np.array(means), "covariance": np.array(covariances)}


def surprise(
    network: Any, adjacency: FloatArray, mask: npt.NDArray[np.bool_], sigma_max: float, calibration: Calibration
) -> float:
    """Distance of a partially known graph from the training graphs; nan where too little is known to say."""
    n_nodes = len(adjacency)
    n_known = EdgeSpace.of_mask(mask, network.directed).n_free
    if n_known < _N_FOLDS:
        return float("nan")
    share = n_known / EdgeSpace.complete(n_nodes, network.directed).n_free
    mean, covariance = (_interpolate(share, calibration["share"], calibration[name]) for name in ("mean", "covariance"))
    # With less known than was ever measured, the means are over fewer pairs and scatter more.
    covariance = covariance * max(1.0, calibration["share"][0] / share)
    covariance = covariance + np.diag((_RELATIVE_FLOOR * mean) ** 2 + np.finfo(float).eps)
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


def hidden_folds(n_nodes: int, directed: bool) -> Tensor:
    """Masks (folds, nodes, nodes) that divide the pairs at random, always in the same way."""
    pairs = EdgeSpace.complete(n_nodes, directed).to(torch.device("cpu"))
    fold = torch.randperm(pairs.n_free, generator=seeded_generator(n_nodes)) % _N_FOLDS
    is_member = (fold == torch.arange(_N_FOLDS)[:, None]).to(torch.float32)
    masks: Tensor = pairs.filled(is_member, torch.zeros(n_nodes, n_nodes, dtype=torch.float32))
    return masks


def _equal_sizes(graphs: Sequence[FloatArray]) -> list[FloatArray]:
    """Stack sorted graphs of one size, few enough to be fast."""
    batches: list[list[FloatArray]] = []
    for graph in graphs:
        at_once = max(1, graphs_at_once(len(graph)) // _N_FOLDS)
        if not batches or len(batches[-1]) == at_once or len(batches[-1][0]) != len(graph):
            batches.append([])
        batches[-1].append(graph)
    return [np.stack(batch) for batch in batches]


def _interpolate(share: float, shares: FloatArray, values: FloatArray) -> FloatArray:
    upper = int(np.searchsorted(shares, share).clip(1, len(shares) - 1))
    weight = float(np.clip((share - shares[upper - 1]) / (shares[upper] - shares[upper - 1]), 0, 1))
    return np.asarray((1 - weight) * values[upper - 1] + weight * values[upper])


def deviations_in_words(surprise: float) -> str:
    """So many standard deviations."""
    # A network that the prior takes for impossible is any number of them away; the digits would say nothing.
    return f"{surprise:.1f} standard deviations" if surprise < 100 else "more than 100 standard deviations"
