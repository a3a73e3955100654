"""Quantiles and residuals of a mixture of Gaussians: what drawn systems and their noise say of every output."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri, ndtri_exp

from .._utils._numbers import FloatArray

__all__ = ["PredictiveLaw"]

_N_HALVINGS = 40  # of an interval that holds the quantile; what is left is far below a pixel


class PredictiveLaw(NamedTuple):
    """The law of every output: each draw counts alike, and has its own mean and noise."""

    means: FloatArray  # (draws, experiments, outputs)
    noise_std: FloatArray  # (draws, 1, outputs), above zero

    def mean(self) -> FloatArray:
        """The mean of every output."""
        return np.asarray(self.means.mean(0))

    def quantile(self, probability: float) -> FloatArray:
        """The value below which every output is with the given probability."""
        of_draws = self.means + float(ndtri(probability)) * self.noise_std
        # The quantile of a mixture lies between those of its parts.
        low, high = of_draws.min(0), of_draws.max(0)
        for _ in range(_N_HALVINGS):
            middle = (low + high) / 2
            is_below = ndtr((middle - self.means) / self.noise_std).mean(0) < probability
            low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
        return np.asarray((low + high) / 2)

    def residuals(self, outputs: FloatArray) -> FloatArray:
        """Standardised residuals: a standard normal law each, where outputs follow this one; nan where they are nan.

        They are the normal quantiles of the probability of a smaller output (Dunn and Smyth, 1996). With one draw that
        is (output - mean) / noise.
        """
        distances = (outputs - self.means) / self.noise_std
        log_n = np.log(len(self.means))
        # Logarithms, and the smaller of the two tails: a probability of 1e-400 is zero, and one minus it is one.
        below, above = (logsumexp(log_ndtr(sign * distances), axis=0) - log_n for sign in (1, -1))
        smaller = ndtri_exp(np.minimum(np.minimum(below, above), 0.0))
        return np.asarray(np.where(below < above, smaller, -smaller))
