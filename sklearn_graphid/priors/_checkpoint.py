"""The file by which a training that was interrupted goes on."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._disk import check_path, check_writable, remove_partial_files
from .._validation import FloatArray
from ..nn._training import TrainingState
from ._files import CHECKPOINT, digest_arrays, read_arrays, write_arrays

__all__ = ["Checkpoint", "History", "nan_to_none", "none_to_nan", "training_fingerprint"]

History = dict[str, list[float]]

_ARRAYS = ("weights", "averaged", "best", "first_moments", "second_moments")
_NUMBERS = ("n_steps", "n_epochs", "n_stale", "best_loss", "seconds")

# What a difference in the fingerprint is called, where its values mean nothing to a reader.
_IN_WORDS = {
    "seeds": "random_state is another one",
    "graphs": "the graphs are others, or in another order",
    "start": "training starts from other weights",
}


def training_fingerprint(
    settings: Mapping[str, Any], seeds: Sequence[int], graphs: Sequence[FloatArray], start: Mapping[str, torch.Tensor]
) -> dict[str, Any]:
    """All that decides how a training ends, in a form that can be written down and compared."""
    edges = {f"{i:09d}": np.packbits(graph > 0) for i, graph in enumerate(graphs)}
    return {
        **settings,
        "seeds": list(seeds),
        "graphs": digest_arrays(edges, str([len(graph) for graph in graphs])),
        "start": digest_arrays({name: value.cpu().numpy() for name, value in start.items()}),
    }


class Checkpoint:
    """A training's state after its last whole epoch, in a file.

    Parameters
    ----------
    path : str, Path or None
        The file. None: nothing is read or written.

    Attributes
    ----------
    state : TrainingState or None
        From where to go on. None: from the start.
    history : dict of str to list of float
        Losses and times of the epochs up to there.
    """

    def __init__(self, path: str | os.PathLike[str] | None):
        self._path = None if path is None else check_path(path, "checkpoint_path")
        self._fingerprint: dict[str, Any] | None = None
        self.state: TrainingState | None = None
        self.history: History = {"training": [], "validation": [], "seconds": []}
        if self._path is None:
            return
        if not self._path.parent.is_dir():
            raise ValueError(f"checkpoint_path={str(path)!r} is in a folder that does not exist.")
        if self._path.exists():
            self._read(self._path)
        try:
            check_writable(self._path)  # now, rather than after the first epoch
        except OSError as error:
            raise ValueError(
                f"checkpoint_path={str(path)!r} cannot be written ({error.strerror or error}); expected a file in a "
                f"folder that can be written to."
            ) from error

    def _read(self, path: Path) -> None:
        arrays, facts = read_arrays(path, CHECKPOINT)
        parts: dict[str, dict[str, torch.Tensor]] = {part: {} for part in _ARRAYS}
        try:
            for name, value in arrays.items():
                part, _, own_name = name.partition("/")
                parts[part][own_name] = torch.from_numpy(value.copy())
            numbers = {name: none_to_nan(facts["numbers"][name]) for name in _NUMBERS}
            self.state = TrainingState(**parts, **numbers)  # type: ignore[arg-type]
            self.history = {name: none_to_nan(facts["history"][name]) for name in self.history}
            self._fingerprint = dict(facts["fingerprint"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{str(path)!r} is not a checkpoint that this release knows: {error}") from error

    @property
    def seeds(self) -> list[int] | None:
        """The seeds of the training that is to go on, or None where there is none."""
        return None if self._fingerprint is None else list(self._fingerprint["seeds"])

    def claim(self, fingerprint: Mapping[str, Any]) -> None:
        """Say which training this is; a checkpoint of another one is a ValueError that says what differs."""
        earlier, self._fingerprint = self._fingerprint, dict(fingerprint)
        if earlier is None:
            return
        names = [name for name in {**fingerprint, **earlier} if earlier.get(name) != fingerprint.get(name)]
        differences = [
            _IN_WORDS.get(name) or f"{name} was {earlier.get(name)!r} and is now {fingerprint.get(name)!r}"
            for name in names
        ]
        if differences:
            raise ValueError(
                f"checkpoint_path={str(self._path)!r} holds another training: {'; '.join(differences)}. Remove the "
                f"file, or name another one, to train anew."
            )

    def write(self, state: TrainingState, history: History) -> None:
        """Replace the file by the state after another epoch."""
        if self._path is None:
            return
        parts = {part: getattr(state, part) for part in _ARRAYS}
        arrays = {
            f"{part}/{name}": value.detach().cpu().numpy() for part in parts for name, value in parts[part].items()
        }
        facts = {
            "numbers": {name: nan_to_none(getattr(state, name)) for name in _NUMBERS},
            "history": {name: nan_to_none(values) for name, values in history.items()},
            "fingerprint": self._fingerprint,
        }
        write_arrays(self._path, CHECKPOINT, arrays, facts)

    def remove(self) -> None:
        """Remove the file, once the training is over."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            remove_partial_files(self._path)


def nan_to_none(value: Any) -> Any:
    """Write nan as None, for JSON has no nan."""
    if isinstance(value, list):
        return [nan_to_none(entry) for entry in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def none_to_nan(value: Any) -> Any:
    """Undo `nan_to_none`."""
    if isinstance(value, list):
        return [none_to_nan(entry) for entry in value]
    return math.nan if value is None else value
