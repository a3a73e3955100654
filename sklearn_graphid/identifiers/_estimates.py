"""Estimates that identifiers share: theta on a graph, strengths of edges, noise levels, intervals, and progress."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy import optimize, special, stats
from torch import Tensor

from .._utils._numbers import SQUARED_IN_SINGLE, FloatArray, check_number
from .._utils._torch import torch_threads
from .._utils._warnings import warn_caller
from ..filters import ARMAFilter, GraphFilter, PolynomialFilter
from ..graphs import EdgeSpace, KnownEdges
from ..graphs._nodes import check_node_values
from ..samplers import GaussianSlab, LogNormalSlab, Problem, Slab, fit_theta
from ._base import Experiments

__all__ = [
    "PER_NODE",
    "SLABS",
    "FitFollower",
    "NoiseLevels",
    "central_interval",
    "check_edge_weights",
    "free_pairs",
    "has_callbacks",
    "levels_after",
    "read_levels",
    "refit_theta",
    "summarize_weights",
    "warn_of_units",
    "weight_intervals",
    "weight_matrices",
]

# A parameter whose variance is inflated by this factor through its likeness to others is not determined at all.
_LARGEST_INFLATION = 1e10
# Units of nodes that differ by this factor are warned of. Directed graphs of ten nodes with positive strengths, order
# one, half of the pairs known, 20 experiments: F1 1.00, .99, .96, .78, .40 with factors of 1, 3, 10, 100, 10,000.
_LARGEST_UNIT = 30.0

#: The law of strengths for every value of `edge_weights`; None where edges have no strengths.
SLABS: dict[str, Slab | None] = {"binary": None, "positive": LogNormalSlab(), "signed": GaussianSlab()}


#: The noise is unknown, and different at each node.
PER_NODE = "per-node"
# No noise level that is estimated is below this share of the levels' root mean square.
_SMALLEST_LEVEL = 0.01


def refit_theta(
    problem: Problem, adjacency: FloatArray, theta: FloatArray, noise_std: float | None
) -> tuple[FloatArray, FloatArray]:
    """Maximum-likelihood theta on one graph, from a start and in double precision, and its linearised standard errors.

    Errors are infinite where the data do not determine a parameter, and zero where it is fixed. `noise_std=None`
    estimates the noise from the residuals.
    """
    graph = torch.tensor(adjacency, dtype=torch.float64, device=problem.inputs.device)[None]
    start = torch.tensor(theta, dtype=torch.float64, device=problem.inputs.device)[None]
    with torch.no_grad(), torch_threads(1):
        fitted = fit_theta(problem, graph, start)
        _, jacobian = problem.filter.theta_jacobian(graph, fitted.theta, problem.inputs)
        curvature = (jacobian * problem.measured[..., None]).square().sum((1, 2))[0]
    is_free = problem.filter.is_free(start).bool().cpu().numpy()
    if noise_std is None:
        degrees_of_freedom = problem.n_measured - int(is_free.sum())
        variance = float(fitted.squares) / degrees_of_freedom if degrees_of_freedom > 0 else np.inf
    else:
        variance = noise_std**2
    unscaled = fitted.covariance[0].diagonal().cpu().numpy()
    inflation = unscaled * curvature.cpu().numpy()
    # A comparison with nan is False, so that what cannot be computed counts as not determined.
    is_determined = (inflation >= 0.5) & (inflation < _LARGEST_INFLATION) & np.isfinite(variance)
    error = np.where(is_determined, np.sqrt(np.where(is_determined, unscaled * variance, 1.0)), np.inf)
    return fitted.theta[0].cpu().numpy(), np.where(is_free, error, 0.0)


def central_interval(draws: FloatArray, level: Any) -> FloatArray:
    """Ends (..., 2) of the interval that holds the share `level` of the (draws, ...), with equal tails."""
    level = check_number(level, "level", low=0, high=1, strict=True)
    if len(draws) < 2:
        raise ValueError("there is only one draw, but an interval needs several; fit with a larger n_chains.")
    return np.moveaxis(np.quantile(draws, (0.5 - level / 2, 0.5 + level / 2), axis=0), 0, -1)


def check_edge_weights(edge_weights: str, known: KnownEdges, filter: GraphFilter) -> None:
    """Refuse strengths that do not go with the known edges or with the filter."""
    smallest = None if known.weights is None else float(np.nanmin(known.weights))
    if edge_weights == "positive" and smallest is not None and smallest < 0:
        raise ValueError(
            f"a known edge has the strength {smallest:g}, but edge_weights='positive'; expected strengths above zero, "
            f"or edge_weights='signed'."
        )
    if edge_weights == "signed" and not filter.allows_negative_strengths:
        raise ValueError(
            f"edge_weights='signed' is inconsistent with {type(filter).__name__}, which is not defined for negative "
            f"strengths; expected edge_weights='positive'."
        )


def warn_of_units(experiments: Experiments) -> None:
    """Warn where nodes of a directed graph seem to be in different units, which strengths would have to make up for.

    With D the diagonal matrix of the units, inputs D x and outputs D y belong to strengths D A D^-1, if the filter is
    made of powers of A. Strengths then differ by as much as units do, and so does the noise.
    """
    filter = experiments.filter
    if not (isinstance(filter, ARMAFilter) or (isinstance(filter, PolynomialFilter) and filter.shift == "adjacency")):
        return
    sizes = np.stack([_log_sizes(experiments.inputs), _log_sizes(experiments.outputs)])
    sizes = sizes[:, np.isfinite(sizes).all(0)]
    # How much larger one node is than another, in inputs and outputs alike: what a unit changes, and dynamics do not.
    factor = float(np.exp((sizes[:, :, None] - sizes[:, None, :]).min(0).max(initial=0.0)))
    if factor >= _LARGEST_UNIT:
        warn_caller(
            f"inputs and outputs of some nodes are {factor:.2g} times as large as those of others. If nodes are "
            f"measured in different units, divide each node's columns of X and Y by the same number, such as the "
            f"standard deviation of its inputs: strengths are expected to be of similar size."
        )


def _log_sizes(signals: FloatArray) -> FloatArray:
    """Logarithms of the root mean squares of columns; infinite for nodes without a signal, and for extreme numbers."""
    with np.errstate(divide="ignore", over="ignore"):
        squares = np.nansum(signals**2, axis=0) / np.maximum((~np.isnan(signals)).sum(axis=0), 1)
        return np.asarray(0.5 * np.log(squares))


def free_pairs(known: KnownEdges) -> EdgeSpace:
    """The unknown pairs, then the known edges of unknown strength."""
    return known.space.joined(known.edges_without_weight())


def weight_matrices(strengths: FloatArray, known: KnownEdges) -> FloatArray:
    """Matrices (..., nodes, nodes) of drawn strengths (..., free pairs)."""
    return np.asarray(free_pairs(known).filled(strengths, known.known_weights()))


def summarize_weights(
    strengths: FloatArray, known: KnownEdges, adjacency: npt.NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation of each edge's strengths (draws, free pairs), over the draws that have the edge.

    An edge that none of the draws has, which happens with few of them, gets the median and the standard deviation of
    all strengths that were drawn: probabilities are means over more graphs than are kept.
    """
    drawn = np.where(strengths == 0, np.nan, strengths)
    is_drawn = ~np.isnan(drawn).all(axis=0)
    usual = drawn[np.isfinite(drawn)]
    # The unit of strengths is one where nothing is known of them.
    mean = np.full(drawn.shape[1], float(np.median(usual)) if usual.size else 1.0)
    std = np.full(drawn.shape[1], float(usual.std()) if usual.size else 0.0)
    mean[mean == 0] = 1.0
    mean[is_drawn], std[is_drawn] = np.nanmean(drawn[:, is_drawn], axis=0), np.nanstd(drawn[:, is_drawn], axis=0)
    means = weight_matrices(mean, known)
    stds = free_pairs(known).filled(std, np.zeros_like(means))
    return np.where(adjacency == 1, means, 0.0), np.where(adjacency == 1, stds, 0.0)


def weight_intervals(
    strengths: FloatArray, known: KnownEdges, adjacency: npt.NDArray[np.int64], level: float
) -> FloatArray:
    """Ends (nodes, nodes, 2) of the central intervals of strengths; nan for edges that fewer than two draws have."""
    central_interval(strengths, level)  # refuses a level that is none, and a single draw
    space = free_pairs(known)
    ends = np.repeat(known.known_weights()[..., None], 2, axis=-1)
    found = np.zeros((strengths.shape[1], 2))
    for pair in np.flatnonzero(space.gather(adjacency) == 1):
        drawn = strengths[strengths[:, pair] != 0, pair]
        found[pair] = central_interval(drawn, level) if len(drawn) > 1 else np.nan
    for end in range(2):
        space.write(ends[..., end], found[:, end])
    return ends


# Noise levels of the nodes, as given or estimated. If the noise differs from node to node and the levels are
# unknown, or if the inputs were measured with noise too, a system is identified twice: first as if all nodes had the
# same noise, then with levels derived from the residuals of the first fit and from its response to the inputs.


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
    # To first order the noise e of the inputs is noise H e of the outputs, of which samplers need the variances. The
    # first fit may have any response to inputs that were never made; outputs, noise included, are bounded.
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
    # A level counts as measured in at least two more experiments, in which it was the usual one: a node whose few
    # outputs happen to fit well would otherwise count for more in the second fit, and fit better still.
    fewest, most = 2.0, 1e6
    if excess <= special.polygamma(1, most / 2):
        n_usual = most
    elif excess >= special.polygamma(1, fewest / 2):
        n_usual = fewest
    else:
        n_usual = float(optimize.brentq(lambda n: special.polygamma(1, n / 2) - excess, fewest, most))
    usual = np.exp(logarithms.mean() + special.digamma(n_usual / 2) - np.log(n_usual / 2))
    variances: FloatArray = (squares + n_usual * usual) / (n_outputs + n_usual)
    return variances


def has_callbacks(estimator: Any) -> bool:
    """Whether an estimator has callbacks."""
    return bool(getattr(estimator, "_skl_callbacks", ()))


@dataclass(frozen=True)
class FitFollower:
    """Tells callbacks of the steps of one task. It can be sent to a worker, as scikit-learn's callbacks can."""

    estimator: Any
    context: Any  # sklearn.callback.CallbackContext of the task
    experiments: Experiments
    step_name: str
    relative_noise: FloatArray | None = None  # (nodes,) levels over the common one; None where they are the same

    def __call__(
        self,
        pairs: Tensor,
        theta: Tensor,
        noise_std: Tensor,
        step_name: str | None = None,
        strengths: Tensor | None = None,
    ) -> bool:
        """Tell of a step that is over, with the (chains, ...) as they are; whether a callback wants to stop."""
        data = self.experiments.given

        def attributes() -> dict[str, Any] | None:
            now, parameters, level = (values.detach().double().cpu().numpy() for values in (pairs, theta, noise_std))
            drawn = None if strengths is None else strengths.detach().double().cpu().numpy()
            return self._estimate(now, parameters, level, drawn)

        step = self.context.subcontext(task_name=step_name or self.step_name)
        step.call_on_fit_task_begin(estimator=self.estimator, **data)
        return bool(step.call_on_fit_task_end(estimator=self.estimator, **data, reconstruction_attributes=attributes))

    def _estimate(
        self, pairs: FloatArray, theta: FloatArray, noise_std: FloatArray, strengths: FloatArray | None
    ) -> dict[str, Any] | None:
        """Fitted attributes as of now: means over the chains that have not diverged; None where all have."""
        finite = np.isfinite(pairs).all(1) & np.isfinite(theta).all(1) & np.isfinite(noise_std)
        if not finite.any():
            return None
        known, level = self.experiments.known, float(noise_std[finite].mean())
        probabilities = known.fill(pairs[finite].mean(0))
        adjacency = (probabilities > 0.5).astype(np.int64)
        relative_noise = np.ones(known.n_nodes) if self.relative_noise is None else self.relative_noise
        weights = (None, None) if strengths is None else summarize_weights(strengths[finite], known, adjacency)
        return {
            "known_edges_": known,
            "filter_": self.experiments.filter,
            "edge_probabilities_": probabilities,
            "adjacency_": adjacency,
            "theta_": theta[finite].mean(0),
            "noise_std_": level,
            "noise_std_per_node_": level * relative_noise,
            "_edge_weights": weights[0],
            "_edge_weights_std": weights[1],
        }
