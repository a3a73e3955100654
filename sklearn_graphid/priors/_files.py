"""Weights on disk: safetensors with JSON metadata. Reading never runs code."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

__all__ = ["read_weights", "write_weights"]

_FORMAT = "sklearn_graphid prior"
_VERSION = 1

Weights = dict[str, npt.NDArray[Any]]


def write_weights(path: str | Path, weights: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Write arrays and facts that are plain JSON, under a temporary name first so that no half file is left."""
    path = Path(path)
    metadata = {"format": _FORMAT, "version": str(_VERSION), "facts": json.dumps(facts, sort_keys=True)}
    partial = path.with_name(path.name + ".partial")
    save_file({name: np.ascontiguousarray(value) for name, value in weights.items()}, partial, metadata=metadata)
    partial.replace(path)


def read_weights(path: str | Path) -> tuple[Weights, dict[str, Any]]:
    """Read what `write_weights` wrote; a truncated, tampered or foreign file is a ValueError."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            weights = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{str(path)!r} is not a whole safetensors file: {error}") from error
    if metadata.get("format") != _FORMAT:
        raise ValueError(f"{str(path)!r} is a safetensors file, but not a prior saved by GraphPriorScore.save.")
    if metadata.get("version") != str(_VERSION):
        raise ValueError(
            f"{str(path)!r} has format version {metadata.get('version')!r}; this release reads version {_VERSION}."
        )
    try:
        facts = json.loads(metadata["facts"])
    except (KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{str(path)!r} has metadata that cannot be read.") from error
    for name, value in weights.items():
        if not np.isfinite(value).all():
            raise ValueError(f"{str(path)!r} holds weights that are not finite, in {name!r}.")
    return weights, facts
