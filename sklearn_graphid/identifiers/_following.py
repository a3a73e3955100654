"""Progress of a fit, for scikit-learn's callbacks: every batch of chains, and every step in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from .._utils._numbers import FloatArray
from ._edge_weights import summarize_weights
from ._result import Experiments

__all__ = ["FitFollower", "current_estimate", "has_callbacks"]


def has_callbacks(estimator: Any) -> bool:
    """Whether an estimator has callbacks."""
    return bool(getattr(estimator, "_skl_callbacks", ()))


class FitFollower:
    """Tells callbacks of the steps of one task. It can be sent to a worker, as the callbacks of scikit-learn can.

    Parameters
    ----------
    estimator : estimator
        Whose callbacks are told.
    context : sklearn.callback.CallbackContext
        The task that the steps are parts of.
    experiments : Experiments
        What `fit` was given; it completes an estimate.
    step_name : str
        What a step is called.
    relative_noise : ndarray (nodes,) or None
        How the noise of each node compares with the common level; None where it is the same.
    """

    def __init__(
        self,
        estimator: Any,
        context: Any,
        experiments: Experiments,
        step_name: str,
        relative_noise: FloatArray | None = None,
    ):
        self.estimator = estimator
        self.context = context
        self.experiments = experiments
        self.step_name = step_name
        self.relative_noise = relative_noise

    def __call__(
        self,
        pairs: Tensor,
        theta: Tensor,
        noise_std: Tensor,
        step_name: str | None = None,
        strengths: Tensor | None = None,
    ) -> bool:
        """Tell of a step that is over; whether a callback wants to stop. See `current_estimate` for the arguments."""
        data = self.experiments.given

        def attributes() -> dict[str, Any] | None:
            chains = [values.detach().double().cpu().numpy() for values in (pairs, theta, noise_std)]
            drawn = None if strengths is None else strengths.detach().double().cpu().numpy()
            return current_estimate(
                self.experiments, chains[0], chains[1], chains[2], strengths=drawn, relative_noise=self.relative_noise
            )

        step = self.context.subcontext(task_name=step_name or self.step_name)
        step.call_on_fit_task_begin(estimator=self.estimator, **data)
        return bool(step.call_on_fit_task_end(estimator=self.estimator, **data, reconstruction_attributes=attributes))


def current_estimate(
    experiments: Experiments,
    pairs: FloatArray,
    theta: FloatArray,
    noise_std: FloatArray,
    strengths: FloatArray | None = None,
    relative_noise: FloatArray | None = None,
) -> dict[str, Any] | None:
    """Fitted attributes as of now: the mean of (chains, ...) that have not diverged; None where all have."""
    finite = np.isfinite(pairs).all(1) & np.isfinite(theta).all(1) & np.isfinite(noise_std)
    if not finite.any():
        return None
    probabilities, level = experiments.known.fill(pairs[finite].mean(0)), float(noise_std[finite].mean())
    adjacency = (probabilities > 0.5).astype(np.int64)
    weights: dict[str, Any] = {}
    if strengths is not None:
        summary = summarize_weights(strengths[finite], experiments.known, adjacency)
        weights = {"_edge_weights": summary.mean, "_edge_weights_std": summary.std}
    return {
        **weights,
        "known_edges_": experiments.known,
        "filter_": experiments.filter,
        "edge_probabilities_": probabilities,
        "adjacency_": adjacency,
        "theta_": theta[finite].mean(0),
        "noise_std_": level,
        "noise_std_per_node_": level * (np.ones(len(probabilities)) if relative_noise is None else relative_noise),
    }
