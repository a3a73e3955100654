"""Priors that come with the package."""

from __future__ import annotations

import hashlib
import json
from importlib import resources
from typing import Any

from sklearn.frozen import FrozenEstimator

from ._base import GraphPrior
from ._score import GraphPriorScore

__all__ = ["GENERAL", "list_priors", "load_prior", "resolve_prior", "resolve_priors"]

GENERAL = "general"

_WEIGHTS = resources.files("sklearn_graphid.priors") / "weights"


def list_priors() -> dict[str, dict[str, Any]]:
    """List the shipped priors by name, each with its card: training graphs, training, date, and denoising error.

    Returns
    -------
    dict of str to dict
        Names and cards.

    Examples
    --------
    >>> from sklearn_graphid import list_priors
    >>> sorted(list_priors())
    ['deezer-ego-nets', 'general', 'grids']
    """
    return {name: _card(name) for name in _names()}


def _names() -> list[str]:
    return sorted(entry.name.removesuffix(".json") for entry in _WEIGHTS.iterdir() if entry.name.endswith(".json"))


def _card(name: str) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((_WEIGHTS / f"{name}.json").read_text())
    return card


def load_prior(name: str) -> FrozenEstimator:
    """Load a prior that comes with the package.

    Parameters
    ----------
    name : str
        "general" (many kinds of graphs of up to 100 nodes; it infers the kind from the known pairs), "grids"
        (two-dimensional grids of 40 to 49 nodes with a few extra edges) or "deezer-ego-nets" (16 to 24 people).

    Returns
    -------
    FrozenEstimator
        A fitted `GraphPriorScore`, its attribute `estimator`, that stays fitted when it is cloned.

    Examples
    --------
    >>> from sklearn_graphid import load_prior
    >>> load_prior("grids").size_range_
    (40, 49)
    """
    names = _names()
    expected = f"expected one of {', '.join(names)}"
    if not isinstance(name, str):
        raise TypeError(f"name is a {type(name).__name__}; {expected}.")
    if name not in names:
        raise ValueError(f"name={name[:100]!r}: there is no shipped prior of that name; {expected}.")
    with resources.as_file(_WEIGHTS / f"{name}.safetensors") as path:
        if hashlib.sha256(path.read_bytes()).hexdigest() != _card(name)["sha256"]:
            raise ValueError(
                f"the weights of the prior {name!r} were changed since they were shipped; reinstall the package."
            )
        prior = GraphPriorScore.load(path)
    prior.name_ = name
    return FrozenEstimator(prior)


def resolve_prior(prior: Any) -> GraphPrior:
    """Return the prior that an argument refers to: itself, the frozen one, or the shipped one of that name."""
    if isinstance(prior, str):
        if prior not in _names():
            raise ValueError(f"prior={prior[:100]!r} is no shipped prior; expected one of {', '.join(_names())}.")
        prior = load_prior(prior)
    while isinstance(prior, FrozenEstimator):  # what is frozen may be frozen again
        prior = prior.estimator
    if not isinstance(prior, GraphPrior):
        raise TypeError(f"prior is a {type(prior).__name__}; expected a GraphPrior such as GraphPriorScore.")
    return prior


def resolve_priors(prior: Any) -> list[GraphPrior]:
    """Return the priors to choose from: those of a list, the shipped ones for "general", or a single prior."""
    if isinstance(prior, str) and prior == GENERAL:
        return [resolve_prior(name) for name in (GENERAL, *(name for name in _names() if name != GENERAL))]
    if not isinstance(prior, list | tuple):
        return [resolve_prior(prior)]
    if not prior:
        raise ValueError("prior is an empty list; expected a prior, the name of a shipped one, or several of them.")
    members = []
    for place, member in enumerate(prior):
        try:
            members.append(resolve_prior(member))
        except (TypeError, ValueError) as error:
            hint = " To allow for no prior at all, use ErdosRenyiPrior." if member is None else ""
            raise type(error)(f"prior is a list, and its item {place} cannot be used: {error}{hint}") from error
    return members
