"""Arrays and facts on disk: safetensors with JSON metadata and a digest of both. Reading never runs code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .._disk import write_atomically

__all__ = ["CHECKPOINT", "PRIOR", "Arrays", "digest_arrays", "read_arrays", "write_arrays"]

# What a file says it is.
PRIOR = "sklearn_graphid prior"
CHECKPOINT = "sklearn_graphid training checkpoint"

_VERSION = 2  # version 1 had no digest

Arrays = dict[str, npt.NDArray[Any]]


def write_arrays(path: str | Path, kind: str, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Write arrays, and facts that are plain JSON, in one step."""
    arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    text = json.dumps(facts, sort_keys=True)
    digest = digest_arrays(arrays, text)
    metadata = {"format": kind, "version": str(_VERSION), "facts": text, "sha256": digest}
    write_atomically(path, save(arrays, metadata=metadata))


def read_arrays(path: str | Path, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """Read what `write_arrays` wrote; a truncated, changed or foreign file is a ValueError."""
    path = Path(path)
    if path.is_dir():
        raise ValueError(f"{str(path)!r} is a folder; expected a safetensors file.")
    if not path.exists():
        raise FileNotFoundError(f"there is no file {str(path)!r}.")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    # Besides its own error, safetensors lets those of numpy through, for types that numpy does not have.
    except (SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{str(path)!r} is not a whole safetensors file: {error}") from error
    if metadata.get("format") != kind:
        raise ValueError(f"{str(path)!r} is a safetensors file, but not a {kind}.")
    version, text = metadata.get("version"), metadata.get("facts", "")
    if version not in ("1", str(_VERSION)):
        raise ValueError(f"{str(path)!r} has format version {version!r}; this release reads up to {_VERSION}.")
    if version != "1" and metadata.get("sha256") != digest_arrays(arrays, text):
        raise ValueError(f"{str(path)!r} was changed after it was written: its content does not have its SHA-256.")
    try:
        facts = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{str(path)!r} has metadata that cannot be read: {error}") from error
    if not isinstance(facts, dict):
        raise ValueError(f"{str(path)!r} has metadata that cannot be read: it is not a JSON object.")
    for name, value in arrays.items():
        if value.dtype.kind != "f" or not np.isfinite(value).all():
            raise ValueError(f"{str(path)!r} holds weights that are not finite numbers, in {name!r}.")
    return arrays, facts


def digest_arrays(arrays: Mapping[str, npt.NDArray[Any]], text: str = "") -> str:
    """SHA-256 of arrays with their names, types and shapes, and of a text."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {value.dtype.str} {value.shape}\n".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()
