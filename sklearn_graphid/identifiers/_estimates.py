"""Estimates that identifiers share: theta refitted on a graph, strengths of edges, intervals, and progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from .._utils._numbers import FloatArray, check_number
from .._utils._torch import torch_threads
from .._utils._warnings import warn_caller
from ..filters import ARMAFilter, GraphFilter, PolynomialFilter
from ..graphs import EdgeSpace, KnownEdges
from ..samplers import GaussianSlab, LogNormalSlab, Problem, Slab, fit_theta
from ._base import Experiments

__all__ = [
    "SLABS",
    "FitFollower",
    "ThetaRefit",
    "central_interval",
    "check_edge_weights",
    "free_pairs",
    "has_callbacks",
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


class ThetaRefit(NamedTuple):
    """Maximum-likelihood theta on a graph."""

    theta: FloatArray  # (parameters,)
    # (parameters,), infinite where the data do not determine the parameter, and zero where it is fixed
    standard_error: FloatArray


def refit_theta(problem: Problem, adjacency: FloatArray, theta: FloatArray, noise_std: float | None) -> ThetaRefit:
    """Fit theta on one graph by least squares, from a start and in double precision.

    `noise_std=None` estimates the noise from the residuals. Standard errors are linearised.
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
    return ThetaRefit(fitted.theta[0].cpu().numpy(), np.where(is_free, error, 0.0))


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
