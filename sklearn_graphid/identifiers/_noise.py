"""Noise levels of the nodes: given by the user, or estimated from a first fit.

If levels differ between nodes and are unknown, or if the inputs were measured with noise too, a system is identified
twice: first as if all nodes had the same noise; then with levels from the residuals and the response of the first fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special, stats

from .._utils._numbers import FloatArray
from ..graphs import KnownEdges
from ..graphs._nodes import check_node_values

__all__ = ["PER_NODE", "NoiseLevels", "NoiseModel"]

#: The noise is unknown, and different at each node.
PER_NODE = "per-node"
# A level counts as measured in at least so many more experiments, in which it was the usual one: a node whose few
# outputs happen to fit well would otherwise count for more in the second fit, and fit better still.
_FEWEST_USUAL = 2.0
_MOST_USUAL = 1e6
# No level that is estimated is below this share of the levels' root mean square.
_SMALLEST_LEVEL = 0.01


class NoiseLevels(NamedTuple):
    """The noise in one run: node n has the level common x relative[n]."""

    common: float | None  # None: unknown, and sampled
    relative: FloatArray | None = None  # (nodes,), of mean square one over the measured outputs; None: all are one
    misfit: float = 1.0  # how many times the noise's variance the common level's is, for what the model cannot explain
    n_free: int = 0  # with how many degrees of freedom the noise was estimated, where there is a misfit

    @classmethod
    def of(cls, levels: FloatArray, n_outputs: FloatArray, is_known: bool) -> NoiseLevels:
        """From levels (nodes,) and the number of measured outputs of each node; the common one only if it is known."""
        at_outputs = levels[n_outputs > 0]
        is_same = np.ptp(at_outputs) == 0
        common = float(at_outputs[0] if is_same else np.sqrt(np.average(levels**2, weights=n_outputs)))
        return cls(common if is_known else None, None if is_same else levels / common)

    @property
    def noise_std(self) -> float | None:
        """The common level without what the model cannot explain."""
        return None if self.common is None else self.common / float(np.sqrt(self.misfit))

    @property
    def is_given(self) -> bool:
        """Whether the user gave the common level; a misfit is sought only if not."""
        return self.common is not None and self.misfit == 1

    def draws(self, shape: tuple[int, ...]) -> FloatArray:
        """Draws of a fixed level: all the same if it was given, and from its posterior where a misfit was found.

        Given the residuals that showed the misfit, the variance has a scaled inverse chi-square law. The draws are its
        quantiles at multiples of the golden ratio modulo one, which are evenly spread, however many there are.
        """
        if self.noise_std is None:
            raise ValueError("the noise level is sampled with the rest; expected one that is fixed.")
        if self.is_given:
            return np.full(shape, self.noise_std)
        shares = (0.5 + np.arange(int(np.prod(shape))) * (np.sqrt(5.0) - 1) / 2) % 1
        levels = self.noise_std * np.sqrt(self.n_free / stats.chi2.ppf(shares, self.n_free))
        return np.asarray(levels.reshape(shape))

    def at_nodes(self, common: float, n_nodes: int) -> FloatArray:
        """The levels (nodes,), for the common one that was given or found."""
        return common * (np.ones(n_nodes) if self.relative is None else self.relative)


@dataclass(frozen=True)
class NoiseModel:
    """Noise as the user describes it."""

    given: FloatArray | None  # (nodes,) levels of the outputs' noise; None: unknown
    differs: bool  # whether unknown levels are different at each node
    of_inputs: float  # the level of the inputs' noise
    n_outputs: FloatArray  # (nodes,) how many outputs of each node were measured
    largest_output: float  # in size

    @classmethod
    def read(cls, noise_std: Any, input_noise_std: float | None, outputs: FloatArray, known: KnownEdges) -> NoiseModel:
        """Check `noise_std` of an identifier against the data."""
        n_outputs = (~np.isnan(outputs)).sum(0).astype(np.float64)
        given = None
        if isinstance(noise_std, Real):
            given = np.full(known.n_nodes, float(noise_std))
        elif noise_std is not None and not isinstance(noise_std, str):
            given = check_node_values(noise_std, "noise_std", known.n_nodes, known.names)
        largest_output = float(np.nanmax(np.abs(outputs)))
        return cls(given, isinstance(noise_std, str), input_noise_std or 0.0, n_outputs, largest_output)

    @property
    def needs_two_fits(self) -> bool:
        """Whether levels depend on what a first fit finds."""
        return self.differs or self.of_inputs > 0

    def at_first(self) -> NoiseLevels:
        """The levels of the first fit."""
        if self.given is None:
            return NoiseLevels(None)
        # The noise of the inputs is yet to come, so that what was given is less than what there is.
        return NoiseLevels.of(self.given, self.n_outputs, is_known=not self.needs_two_fits)

    def after(self, residuals: FloatArray, response: FloatArray) -> NoiseLevels:
        """Levels for the second fit, from residuals (experiments, nodes) and response (inputs, outputs) of the first.

        To first order the noise e of the inputs is noise H e of the outputs, of which samplers need the variances.
        """
        # A first fit may have any response to inputs that were never made; outputs, noise included, are bounded.
        parts = np.minimum(self.of_inputs * np.abs(response), self.largest_output)
        by_inputs = np.minimum((parts**2).sum(0), self.largest_output**2)
        if self.given is not None:
            return NoiseLevels.of(np.sqrt(self.given**2 + by_inputs), self.n_outputs, is_known=True)
        own = float(np.nanmean(residuals**2)) - float(np.average(by_inputs, weights=self.n_outputs))
        variances = max(own, 0.0) + by_inputs
        mean = float(np.average(variances, weights=self.n_outputs))
        if mean == 0:  # the first fit is exact
            return self.at_first()
        variances = np.maximum(variances, _SMALLEST_LEVEL**2 * mean)
        if self.differs:
            variances = variances * shrink_variances(np.nansum(residuals**2, axis=0) / variances, self.n_outputs)
        return NoiseLevels.of(np.sqrt(variances), self.n_outputs, is_known=False)


def shrink_variances(squares: FloatArray, n_outputs: FloatArray) -> FloatArray:
    """Variances (nodes,) from sums of squared residuals, each drawn towards what is usual among the nodes.

    Variances have an inverse gamma law, worth so many residuals of the usual variance. Both follow from mean and
    variance of the logarithms of the nodes' own variances (Smyth, Statistical Applications in Genetics and Molecular
    Biology 3, 2004), so that nodes that differ by no more than chance would have it get the same level.
    """
    is_measured = n_outputs > 0
    n = n_outputs[is_measured]
    own = np.maximum(squares[is_measured] / n, _SMALLEST_LEVEL**2)
    logarithms = np.log(own) - special.digamma(n / 2) + np.log(n / 2)
    excess = float(logarithms.var(ddof=1) - special.polygamma(1, n / 2).mean()) if len(n) > 1 else 0.0
    # The n at which log-variances vary by trigamma(n / 2): as much as they do beyond chance.
    if excess <= special.polygamma(1, _MOST_USUAL / 2):
        n_usual = _MOST_USUAL
    elif excess >= special.polygamma(1, _FEWEST_USUAL / 2):
        n_usual = _FEWEST_USUAL
    else:
        n_usual = float(optimize.brentq(lambda n: special.polygamma(1, n / 2) - excess, _FEWEST_USUAL, _MOST_USUAL))
    usual = np.exp(logarithms.mean() + special.digamma(n_usual / 2) - np.log(n_usual / 2))
    variances: FloatArray = (squares + n_usual * usual) / (n_outputs + n_usual)
    return variances
