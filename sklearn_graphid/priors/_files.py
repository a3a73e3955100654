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

from .._utils._disk import check_path, check_regular_file, write_atomically

__all__ = ["CHECKPOINT", "PRIOR", "Arrays", "digest_arrays", "read_arrays", "write_arrays"]

# What a file says it is.
PRIOR = "sklearn_graphid prior"
CHECKPOINT = "sklearn_graphid training checkpoint"

_VERSION = 2  # version 1 had no digest

# Priors and checkpoints take a few megabytes at most. What is larger is refused before it takes time or memory: a
# hundred thousand epochs have eight megabytes of losses, which are nearly all of the facts.
_MOST_BYTES = 32 * 2**20
_MOST_FACTS = 8 * 2**20
_MOST_HEADER = _MOST_FACTS + 2 * 2**20
_MOST_ARRAYS = 10_000
_MOST_LISTS = 1_000
_MOST_QUOTES = 10_000

Arrays = dict[str, npt.NDArray[Any]]


def write_arrays(path: str | Path, kind: str, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Write arrays, and facts that are plain JSON, in one step."""
    arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    text = json.dumps(facts, sort_keys=True)
    if len(text) > _MOST_FACTS or sum(value.nbytes for value in arrays.values()) > _MOST_BYTES - _MOST_HEADER:
        raise ValueError(
            f"{str(path)!r} would be too large to be read again; expected at most {_MOST_FACTS:,} bytes of settings "
            f"and losses, and {_MOST_BYTES - _MOST_HEADER:,} bytes of weights."
        )
    digest = digest_arrays(arrays, text)
    metadata = {"format": kind, "version": str(_VERSION), "facts": text, "sha256": digest}
    write_atomically(path, save(arrays, metadata=metadata))


def read_arrays(path: str | Path, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """Read what `write_arrays` wrote; a truncated, changed or foreign file is a ValueError."""
    path = check_path(path)
    check_regular_file(path, _MOST_BYTES, "a safetensors file")
    try:
        _check_header(path)
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            names = list(file.keys())
            if len(names) > _MOST_ARRAYS:
                raise ValueError(f"it holds {len(names):,} arrays; expected at most {_MOST_ARRAYS:,}.")
            arrays = {name: file.get_tensor(name) for name in names}
    # Besides its own error, safetensors lets those of numpy through, for types that numpy does not have.
    except (SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{str(path)!r} is not a whole safetensors file: {str(error)[:500]}") from error
    if metadata.get("format") != kind:
        raise ValueError(f"{str(path)!r} is a safetensors file, but not a {kind}.")
    version, text = metadata.get("version"), metadata.get("facts", "")
    if version not in ("1", str(_VERSION)):
        raise ValueError(f"{str(path)!r} has format version {version!r}; this release reads up to {_VERSION}.")
    if version != "1" and metadata.get("sha256") != digest_arrays(arrays, text):
        raise ValueError(f"{str(path)!r} was changed after it was written: its content does not match its SHA-256.")
    try:
        facts = _parse_facts(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} has metadata that cannot be read: {error}") from error
    for name, value in arrays.items():
        if value.dtype != np.float32:
            raise ValueError(f"{str(path)!r} holds {value.dtype} weights, in {name[:100]!r}; expected float32.")
        if not np.isfinite(value).all():
            raise ValueError(f"{str(path)!r} holds weights that are not finite numbers, in {name[:100]!r}.")
    return arrays, facts


def _check_header(path: Path) -> None:
    """Look at the length of the header, which is parsed as a whole."""
    with path.open("rb") as file:
        n_bytes = int.from_bytes(file.read(8), "little")
    if n_bytes > _MOST_HEADER:
        raise ValueError(f"its header has {n_bytes:,} bytes; expected at most {_MOST_HEADER:,}.")


def _parse_facts(text: str) -> dict[str, Any]:
    """Read a JSON object, after counting what would take many times its length in memory."""
    n_lists, n_quotes = text.count("[") + text.count("{"), text.count('"')
    if len(text) > _MOST_FACTS or n_lists > _MOST_LISTS or n_quotes > _MOST_QUOTES:
        raise ValueError(
            f"it has {len(text):,} characters, {n_lists:,} brackets and {n_quotes:,} quotation marks; expected at most "
            f"{_MOST_FACTS:,}, {_MOST_LISTS:,} and {_MOST_QUOTES:,}."
        )
    facts = json.loads(text, object_pairs_hook=_unique_keys)
    if not isinstance(facts, dict):
        raise ValueError("it is not a JSON object.")
    return facts


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("an object has the same key twice.")
    return result


def digest_arrays(arrays: Mapping[str, npt.NDArray[Any]], text: str = "") -> str:
    """SHA-256 of arrays with their names, types and shapes, and of a text."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {value.dtype.str} {value.shape}\n".encode())
        digest.update(value.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
