"""Who follows a fit: scikit-learn's callbacks, told of every batch of chains and of every step in it."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from .._known_edges import KnownEdges
from .._validation import FloatArray
from ..filters import GraphFilter

__all__ = ["FitFollower", "current_estimate", "has_callbacks"]


def has_callbacks(estimator: Any) -> bool:
    """Whether anybody follows the fits of an estimator."""
    return bool(getattr(estimator, "_skl_callbacks", ()))


class FitFollower:
    """Tells callbacks of the steps of one task. It can be sent to a worker, as the callbacks of scikit-learn can.

    Parameters
    ----------
    estimator : estimator
        Whose callbacks are told.
    context : sklearn.callback.CallbackContext
        The task that the steps are parts of.
    data : dict
        "X" and "y" as `fit` was given them, for callbacks that score.
    step_name : str
        What a step is called.
    known, filter : KnownEdges and GraphFilter
        What completes an estimate.
    """

    def __init__(
        self,
        estimator: Any,
        context: Any,
        data: dict[str, Any],
        step_name: str,
        known: KnownEdges,
        filter: GraphFilter,
    ):
        self.estimator = estimator
        self.context = context
        self.data = data
        self.step_name = step_name
        self.known = known
        self.filter = filter

    def __call__(self, pairs: Tensor, theta: Tensor, noise_std: Tensor) -> bool:
        """Tell of a step that is over; whether a callback wants to stop. See `current_estimate` for the arguments."""

        def attributes() -> dict[str, Any] | None:
            arrays = (values.detach().double().cpu().numpy() for values in (pairs, theta, noise_std))
            return current_estimate(self.known, self.filter, *arrays)

        step = self.context.subcontext(task_name=self.step_name)
        step.call_on_fit_task_begin(estimator=self.estimator, **self.data)
        return bool(
            step.call_on_fit_task_end(estimator=self.estimator, **self.data, reconstruction_attributes=attributes)
        )


def current_estimate(
    known: KnownEdges, filter: GraphFilter, pairs: FloatArray, theta: FloatArray, noise_std: FloatArray
) -> dict[str, Any] | None:
    """Fitted attributes as of now: the mean of (chains, ...) that have not diverged; None where all have."""
    finite = np.isfinite(pairs).all(1) & np.isfinite(theta).all(1) & np.isfinite(noise_std)
    if not finite.any():
        return None
    probabilities = known.fill(pairs[finite].mean(0))
    return {
        "known_edges_": known,
        "filter_": filter,
        "edge_probabilities_": probabilities,
        "adjacency_": (probabilities > 0.5).astype(np.int64),
        "theta_": theta[finite].mean(0),
        "noise_std_": float(noise_std[finite].mean()),
    }
