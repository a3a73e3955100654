"""A fitted prior as plain data and back, for its file."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

from .._utils._numbers import FloatArray
from .._utils._torch import check_device
from ..nn import check_sigmas
from ._checkpoint import check_history, check_integer, nan_to_none
from ._files import Arrays
from ._network_prior import ANY_SIZE

__all__ = [
    "MOST_EPOCHS",
    "network_parameters",
    "plain",
    "restore_edpgnn",
    "restore_facts",
    "restore_parameters",
    "state_facts",
]

MOST_EPOCHS = 100_000  # of one training: the losses of many more would not fit into the file
_MOST_EPOCHS_IN_ALL = 10**9
_LARGEST_LOSS = 1e6
_ROUNDING = 1e-9


def network_parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor arguments that a network of these settings was built from."""
    named = {name: settings[name] for name in ("width", "n_blocks") if name in settings}
    return named | {name: bool(settings.get(name, False)) for name in ("directed", "graph_context")}


def state_facts(prior: Any) -> dict[str, Any]:
    """Everything about a fitted prior but its weights, as JSON knows it."""
    parameters = prior.get_params(deep=False)
    if not isinstance(parameters["random_state"], Integral | None):
        parameters["random_state"] = None  # a generator has no JSON form, and its state is spent
    parameters["checkpoint_path"] = None  # a place on this machine, and its work is done
    parameters["architecture"] = prior.architecture_  # of the weights, whatever was set since
    parameters |= network_parameters(prior.network_settings_)
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


def restore_parameters(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor arguments of a prior."""
    parameters = facts.get("parameters")
    if not isinstance(parameters, dict):
        raise ValueError("'parameters' should be an object.")
    # To name a file that `fit` would overwrite is up to the user alone.
    if parameters.get("checkpoint_path") is not None:
        raise ValueError("'checkpoint_path' should be null.")
    asked, found = parameters.get("architecture"), facts.get("architecture", parameters.get("architecture"))
    if asked != found:
        raise ValueError(f"'architecture' is {str(found)[:100]}, but 'parameters' have {str(asked)[:100]}.")
    check_device(parameters.get("device", "cpu"))
    return parameters


def restore_facts(prior: Any, weights: Arrays, facts: Mapping[str, Any]) -> None:
    """Set the fitted attributes of a prior, or raise ValueError where they make no sense."""
    settings, sigmas, known_loss = facts.get("network_settings"), facts.get("sigmas"), facts.get("known_loss")
    if not isinstance(settings, dict):
        raise ValueError("'network_settings' should be an object.")
    for name, value in network_parameters(settings).items():
        if getattr(prior, name) != value:
            raise ValueError(f"{name!r} is not that of 'network_settings'.")
    check_sigmas(sigmas, "'sigmas'")
    if settings.get("sigmas", sigmas) != sigmas:
        raise ValueError("'sigmas' are not those of 'network_settings'.")
    prior.architecture_ = prior.architecture
    prior.network_settings_ = settings
    prior.weights_ = weights
    prior.sigmas_ = np.array(sigmas, dtype=np.float64)
    prior.size_range_ = _size_range(facts.get("size_range"))
    prior.known_loss_ = None if known_loss is None else _known_loss(known_loss)
    prior.loss_history_ = check_history(facts.get("loss_history"))
    n_epochs = len(prior.loss_history_["training"])
    prior.n_iter_ = check_integer(facts.get("n_iter", n_epochs), "'n_iter'", 0, _MOST_EPOCHS_IN_ALL)


def restore_edpgnn(prior: Any, settings: dict[str, Any], weights: Arrays) -> None:
    """Set the fitted attributes of a prior from a published checkpoint, which has no record of its training."""
    prior.architecture_ = "edp-gnn"
    prior.network_settings_ = settings
    prior.sigmas_ = np.array(settings["sigmas"])
    prior.weights_ = weights
    prior.loss_history_ = {"training": [], "validation": [], "seconds": []}
    prior.n_iter_ = 0
    prior.size_range_ = ANY_SIZE
    prior.known_loss_ = None


def _size_range(sizes: Any) -> tuple[int, int]:
    if not isinstance(sizes, list) or len(sizes) != 2:
        raise ValueError("'size_range' should be two integers.")
    smallest = check_integer(sizes[0], "'size_range'", ANY_SIZE[0], ANY_SIZE[1])
    return smallest, check_integer(sizes[1], "'size_range'", smallest, ANY_SIZE[1])


def _known_loss(measured: Any) -> dict[str, FloatArray]:
    """What `calibrate_surprise` measured: means and covariances of two losses, at shares in ascending order."""
    expected = {"share": (), "mean": (2,), "covariance": (2, 2)}
    if not isinstance(measured, dict) or measured.keys() != expected.keys():
        raise ValueError(f"'known_loss' should have the entries {', '.join(expected)}.")
    arrays = {}
    for name, shape in expected.items():
        try:
            arrays[name] = np.array(measured[name], dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"'known_loss/{name}' is not an array of numbers.") from error
        if arrays[name].ndim == 0 or arrays[name].shape != (len(arrays["share"]), *shape):
            raise ValueError(f"'known_loss/{name}' has shape {arrays[name].shape}; expected (shares, *{shape}).")
        if not (np.abs(arrays[name]) <= _LARGEST_LOSS).all():
            raise ValueError(f"'known_loss/{name}' holds what is no number up to {_LARGEST_LOSS:g}.")
    share, covariance = arrays["share"], arrays["covariance"]
    if len(share) < 2 or share[0] <= 0 or (np.diff(share) <= 0).any():
        raise ValueError("'known_loss/share' should be positive numbers in ascending order, two or more.")
    if (covariance != covariance.swapaxes(1, 2)).any() or np.linalg.eigvalsh(covariance).min() < -_ROUNDING:
        raise ValueError("'known_loss/covariance' holds what is no covariance.")
    return arrays


def plain(value: Any) -> Any:
    """A numpy number as a number of Python."""
    return value.item() if isinstance(value, np.generic) else value
