"""Noise levels of the nodes: as given by the user, or estimated from a first fit.

If the noise differs from node to node and the levels are unknown, or if the inputs were measured with noise too, a
system is identified twice: first as if all nodes had the same noise; then with levels derived from the residuals of the
first fit and from its response to the inputs.
"""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, special, stats

from .._utils._numbers import SQUARED_IN_SINGLE, FloatArray
from ..graphs import KnownEdges
from ..graphs._nodes import check_node_values

__all__ = ["PER_NODE", "NoiseLevels", "levels_after", "read_levels"]

#: The noise is unknown, and different at each node.
PER_NODE = "per-node"
# No level that is estimated is below this share of the levels' root mean square.
_SMALLEST_LEVEL = 0.01


class NoiseLevels(NamedTuple):
    """The noise in one run: node n has the level common x relative[n]."""

    common: float | None  # None: unknown, and sampled
    relative: FloatArray | None = None  # (nodes,), of mean square one over the measured outputs; None: all are one
    misfit: float = 1.0  # how many times the noise's variance the common level's is, for what the model cannot explain
    n_free: int = 0  # with how many degrees of freedom the noise was estimated, where there is a misfit

    @classmethod
    def of(cls, levels: FloatArray, outputs: FloatArray, is_known: bool) -> NoiseLevels:
        """The noise of nodes with these levels (nodes,), where outputs were measured; or only how they compare."""
        n_outputs = (~np.isnan(outputs)).sum(0)
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
        """Draws of a level that is fixed: all the same if it was given; from its posterior where a misfit was found.

        The samplers take the noise for given once a misfit was found. Given the residuals that showed it, its variance
        has a scaled inverse chi-square law. The draws are quantiles of this law, in an order that has nothing to do
        with that of other draws: multiples of the golden ratio modulo one are evenly spread, however many there are.
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


def read_levels(noise_std: Any, known: KnownEdges) -> FloatArray | None:
    """Check `noise_std` of an identifier, and return its levels (nodes,); None where they are unknown."""
    if noise_std is None or isinstance(noise_std, str):
        return None
    if isinstance(noise_std, Real):
        return np.full(known.n_nodes, float(noise_std))
    levels = check_node_values(noise_std, "noise_std", known.n_nodes, known.names)
    low, high = SQUARED_IN_SINGLE
    wrong = levels[~((levels >= low) & (levels <= high))]
    if len(wrong):
        raise ValueError(
            f"noise_std holds the value {wrong[0]:g}; expected numbers between {low:g} and {high:g}, one for each node."
        )
    return levels


def levels_after(
    given: FloatArray | None,
    differs: bool,
    of_inputs: float,
    outputs: FloatArray,
    residuals: FloatArray,
    response: FloatArray,
) -> NoiseLevels:
    """The levels of a second fit, from the residuals (experiments, nodes) of a first one.

    `given` are the levels (nodes,) of the outputs' noise, where known; otherwise it `differs` between nodes or not. The
    noise of the inputs has the level `of_inputs`, and `response` (nodes, nodes) holds, in rows, the first fit's outputs
    for an input of one at each node.
    """
    # To first order the noise e of the inputs is noise H e of the outputs. Of its covariance H H' we keep the
    # diagonal: samplers take the noise of different nodes for independent. A first fit whose response to inputs
    # that were never made is beyond all bounds tells nothing; outputs, noise included, are known to be bounded.
    n_outputs, largest_output = (~np.isnan(outputs)).sum(0).astype(np.float64), float(np.nanmax(np.abs(outputs)))
    parts = np.minimum(of_inputs * np.abs(response), largest_output)
    by_inputs = np.minimum((parts**2).sum(0), largest_output**2)
    if given is not None:
        return NoiseLevels.of(np.sqrt(given**2 + by_inputs), outputs, is_known=True)
    own = float(np.nanmean(residuals**2)) - float(np.average(by_inputs, weights=n_outputs))
    variances = max(own, 0.0) + by_inputs
    mean = float(np.average(variances, weights=n_outputs))
    if mean == 0:  # the first fit is exact
        return NoiseLevels(None)
    variances = np.maximum(variances, _SMALLEST_LEVEL**2 * mean)
    if differs:
        variances = variances * shrink_variances(np.nansum(residuals**2, axis=0) / variances, n_outputs)
    return NoiseLevels.of(np.sqrt(variances), outputs, is_known=False)


def shrink_variances(squares: FloatArray, n_outputs: FloatArray) -> FloatArray:
    """Variances (nodes,) from sums of squared residuals, each drawn towards what is usual among the nodes.

    Variances have an inverse gamma law, and so many residuals of the usual variance are worth as much as the law. Both
    follow from mean and variance of the logarithms of the nodes' own variances (Smyth, Statistical Applications in
    Genetics and Molecular Biology 3, 2004): nodes that differ by no more than chance would have it get the same level,
    and nodes that differ by far keep their own.
    """
    is_measured = n_outputs > 0
    n = n_outputs[is_measured]
    own = np.maximum(squares[is_measured] / n, _SMALLEST_LEVEL**2)
    logarithms = np.log(own) - special.digamma(n / 2) + np.log(n / 2)
    excess = float(logarithms.var(ddof=1) - special.polygamma(1, n / 2).mean()) if len(n) > 1 else 0.0
    n_usual = _n_usual(excess)
    usual = np.exp(logarithms.mean() + special.digamma(n_usual / 2) - np.log(n_usual / 2))
    variances: FloatArray = (squares + n_usual * usual) / (n_outputs + n_usual)
    return variances


def _n_usual(excess: float) -> float:
    """The n at which log-variances vary by trigamma(n / 2): as much as they do beyond chance."""
    # Without at least two residuals of the usual variance, a node whose few outputs happen to fit well would seem
    # nearly free of noise, count for more in the second fit, and so fit better still.
    fewest, most = 2.0, 1e6
    if excess <= special.polygamma(1, most / 2):
        return most
    if excess >= special.polygamma(1, fewest / 2):
        return fewest
    return float(optimize.brentq(lambda n: special.polygamma(1, n / 2) - excess, fewest, most))
