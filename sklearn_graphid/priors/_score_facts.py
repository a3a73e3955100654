"""A fitted prior as plain data and back, for its file."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from ._checkpoint import nan_to_none, none_to_nan
from ._files import Arrays

__all__ = ["plain", "restore_facts", "state_facts"]


def state_facts(prior: Any) -> dict[str, Any]:
    """Everything about a fitted prior but its weights, as JSON knows it."""
    parameters = prior.get_params(deep=False)
    if not isinstance(parameters["random_state"], Integral | None):
        parameters["random_state"] = None  # a generator has no JSON form, and its state is spent
    parameters["checkpoint_path"] = None  # a place on this machine, and its work is done
    known_loss = prior.known_loss_
    return {
        "parameters": {name: plain(value) for name, value in parameters.items()},
        "architecture": prior.architecture_,
        "network_settings": prior.network_settings_,
        "sigmas": prior.sigmas_.tolist(),
        "size_range": [int(size) for size in prior.size_range_],
        "known_loss": None if known_loss is None else {name: known_loss[name].tolist() for name in known_loss},
        "loss_history": {name: nan_to_none(values) for name, values in prior.loss_history_.items()},
        "n_iter": int(prior.n_iter_),
    }


def restore_facts(prior: Any, weights: Arrays, facts: Mapping[str, Any]) -> None:
    """Set the fitted attributes of a prior."""
    prior.architecture_ = facts.get("architecture", prior.architecture)
    prior.network_settings_ = dict(facts["network_settings"])
    prior.weights_ = weights
    prior.sigmas_ = np.array(facts["sigmas"], dtype=np.float64)
    smallest, largest = facts["size_range"]
    prior.size_range_ = (int(smallest), int(largest))
    known_loss = facts.get("known_loss")
    prior.known_loss_ = None if known_loss is None else {k: np.array(v, dtype=float) for k, v in known_loss.items()}
    prior.loss_history_ = {name: none_to_nan(values) for name, values in facts["loss_history"].items()}
    prior.n_iter_ = int(facts.get("n_iter", len(prior.loss_history_["training"])))


def plain(value: Any) -> Any:
    """A numpy number as a number of Python."""
    return value.item() if isinstance(value, np.generic) else value
