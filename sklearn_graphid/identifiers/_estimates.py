"""Numbers that go with an estimate: theta's best fit on a graph with its standard error, and intervals of draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch

from .._utils._numbers import FloatArray, check_number
from .._utils._torch import torch_threads
from ..samplers import Problem, fit_theta

__all__ = ["ThetaRefit", "central_interval", "refit_theta"]

# A parameter whose variance is inflated by this factor through its likeness to others is not determined at all.
_LARGEST_INFLATION = 1e10


class ThetaRefit(NamedTuple):
    """Maximum-likelihood theta on a graph."""

    theta: FloatArray  # (parameters,)
    # (parameters,), infinite where the data do not determine the parameter, and zero where it is fixed
    standard_error: FloatArray


def refit_theta(problem: Problem, adjacency: FloatArray, theta: FloatArray, noise_std: float | None) -> ThetaRefit:
    """Fit theta to the data on one graph.

    Parameters
    ----------
    problem : Problem
        In double precision.
    adjacency : ndarray (nodes, nodes)
        The graph.
    theta : ndarray (parameters,)
        Where to start.
    noise_std : float or None
        The noise level; None estimates it from the residuals, with as many degrees of freedom less as there are
        free parameters.

    Returns
    -------
    ThetaRefit
        Standard errors are those of least squares, linearised where the filter is not linear in theta.
    """
    graph = torch.tensor(adjacency, dtype=torch.float64, device=problem.inputs.device)[None]
    start = torch.tensor(theta, dtype=torch.float64, device=problem.inputs.device)[None]
    with torch.no_grad(), torch_threads(1):
        fitted = fit_theta(problem, graph, start)
        _, jacobian = problem.filter.theta_jacobian(graph, fitted.theta, problem.inputs)
        curvature = (jacobian * problem.measured[..., None]).square().sum((1, 2))[0]
    is_free = problem.filter.is_free(start).bool().cpu().numpy()
    variance = _noise_variance(noise_std, float(fitted.squares), problem.n_measured - int(is_free.sum()))
    unscaled = fitted.covariance[0].diagonal().cpu().numpy()
    inflation = unscaled * curvature.cpu().numpy()
    # A comparison with nan is False, so that what cannot be computed counts as not determined.
    is_determined = (inflation >= 0.5) & (inflation < _LARGEST_INFLATION) & np.isfinite(variance)
    error = np.where(is_determined, np.sqrt(np.where(is_determined, unscaled * variance, 1.0)), np.inf)
    return ThetaRefit(fitted.theta[0].cpu().numpy(), np.where(is_free, error, 0.0))


def _noise_variance(noise_std: float | None, squares: float, degrees_of_freedom: int) -> float:
    if noise_std is not None:
        return noise_std**2
    return squares / degrees_of_freedom if degrees_of_freedom > 0 else float("inf")


def central_interval(draws: FloatArray, level: Any) -> FloatArray:
    """The ends (..., 2) of the interval that holds the share `level` of the (draws, ...), the tails being equal."""
    level = check_number(level, "level", low=0, high=1, strict=True)
    if len(draws) < 2:
        raise ValueError("there is only one draw, but an interval needs several; fit with a larger n_chains.")
    tails = (0.5 - level / 2, 0.5 + level / 2)
    return np.moveaxis(np.quantile(draws, tails, axis=0), 0, -1)
