"""Sizes of a network that come from a file, checked before anything of that size is built."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

__all__ = ["MOST_LEVELS", "SIGMA_RANGE", "check_settings", "check_sigmas"]

MOST_LEVELS = 1_000
# The square of an annealing level must be a float32 that can be divided by.
SIGMA_RANGE = (1e-6, 1e6)
_MOST_WIDTH = 100_000
_SIZES = {"ppgn": ("width", "n_blocks", "n_frequencies"), "edp-gnn": ("node_features", "gin_width", "gin_depth")}


def check_settings(architecture: Any, settings: Mapping[str, Any], n_arrays: int) -> None:
    """Raise ValueError unless a network of these settings could have `n_arrays` arrays of weights.

    Building a network takes time for each of its layers, and each layer has several arrays. Widths cost nothing until
    there are weights, whose shapes are compared before that.
    """
    if not isinstance(architecture, str) or architecture not in _SIZES:
        raise ValueError(f"architecture={architecture!r}; expected one of {', '.join(_SIZES)}.")
    lists = () if architecture == "ppgn" else ("sigmas", "edge_channels")
    for name, value in settings.items():
        if name in _SIZES[architecture]:
            _check_width(name, value)
        elif name in ("directed", "graph_context") and architecture == "ppgn":
            if value is not True:
                raise ValueError(f"{name} is {str(value)[:100]}; expected true, or no such setting.")
        elif name not in lists:
            raise ValueError(f"the architecture {architecture!r} has no setting {name[:100]!r}.")
    if architecture == "edp-gnn":
        check_sigmas(settings.get("sigmas"), "sigmas")
        channels = settings.get("edge_channels", (2, 2))
        if not isinstance(channels, list | tuple) or len(channels) < 2:
            raise ValueError("edge_channels should be a list of two or more numbers, the first for the input.")
        for width in channels[: n_arrays + 2]:
            _check_width("edge_channels", width)
        n_layers = (len(channels) - 1) * settings.get("gin_depth", 1)
    else:
        n_layers = settings.get("n_blocks", 0)
    if n_layers > n_arrays:
        raise ValueError(f"the settings ask for {n_layers} layers, but there are only {n_arrays} arrays of weights.")


def check_sigmas(sigmas: Any, name: str) -> None:
    """Raise ValueError unless this is a list of annealing levels, largest first."""
    lowest, highest = SIGMA_RANGE
    if not isinstance(sigmas, list | tuple) or not 1 <= len(sigmas) <= MOST_LEVELS:
        raise ValueError(f"{name} should be a list of 1 to {MOST_LEVELS} annealing levels.")
    if not all(type(sigma) in (int, float) and lowest <= sigma <= highest for sigma in sigmas):
        raise ValueError(f"{name} holds what is no number between {lowest:g} and {highest:g}.")
    if not all(before > after for before, after in pairwise(sigmas)):
        raise ValueError(f"{name} is not in descending order.")


def _check_width(name: str, value: Any) -> None:
    if type(value) is not int or not 1 <= value <= _MOST_WIDTH:
        raise ValueError(f"{name} holds {str(value)[:100]}; expected an integer from 1 to {_MOST_WIDTH:,}.")
