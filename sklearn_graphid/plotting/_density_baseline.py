"""The denoising loss of whoever knows the density of a graph and nothing else: what a prior has to beat."""

from __future__ import annotations

import numpy as np
from scipy.special import expit, logit

from .._utils._numbers import FloatArray

__all__ = ["density_losses"]

_N_NODES = 201  # of the quadrature; the integrands are smooth, but steep at small sigma
_FARTHEST = 9.0  # standard deviations


def density_losses(densities: FloatArray, sigmas: FloatArray, architecture: str) -> FloatArray:
    """Expected loss of the best guess without context, for each graph and annealing level.

    A pair with noise, a~ = a + sigma z, is an edge with log-odds (a~ - 1/2) / sigma^2 + logit(density), whatever the
    other pairs are. "ppgn" is trained by the cross-entropy of that, "edp-gnn" by its squared error over 2 sigma^2.
    """
    z = np.linspace(-_FARTHEST, _FARTHEST, _N_NODES)
    weight = np.exp(-(z**2) / 2)
    weight /= weight.sum()
    p = np.clip(densities, 1e-9, 1 - 1e-9)[:, None, None]
    sigma = sigmas[None, :, None]
    losses = np.zeros((len(densities), len(sigmas)))
    for edge, probability in ((1.0, p), (0.0, 1 - p)):
        log_odds = (edge + sigma * z - 0.5) / sigma**2 + logit(p)
        if architecture == "edp-gnn":
            loss = (expit(log_odds) - edge) ** 2 / (2 * sigma**2)
        else:
            loss = np.logaddexp(0.0, log_odds if edge == 0 else -log_odds)
        losses += (probability * weight * loss).sum(-1)
    return losses
