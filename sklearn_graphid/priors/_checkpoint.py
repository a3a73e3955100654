"""The checkpoint file from which an interrupted training resumes."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from .._utils._disk import check_path, check_writable, remove_partial_files
from .._utils._numbers import FloatArray
from ..nn._training import TrainingState
from ._files import CHECKPOINT, digest_arrays, read_arrays, write_arrays

__all__ = ["Checkpoint", "History", "check_history", "check_integer", "nan_to_none", "training_fingerprint"]

History = dict[str, list[float]]

_ARRAYS = ("weights", "averaged", "best", "first_moments", "second_moments")
_MOMENTS = ("first_moments", "second_moments")
_NUMBERS = ("n_steps", "n_epochs", "n_stale", "best_loss", "seconds")

_N_SEEDS = 3

# What a difference in the fingerprint is called, where its values mean nothing to a reader.
_IN_WORDS = {
    "seeds": "random_state is different",
    "graphs": "the graphs are different, or in a different order",
    "start": "training starts from different weights",
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
            raise ValueError(f"checkpoint_path={str(path)!r} is in a folder that does not exist; create it first.")
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
            self.history = check_history(facts["history"])
            numbers = _check_numbers(facts["numbers"], len(self.history["training"]))
            self.state = TrainingState(**parts, **numbers)  # type: ignore[arg-type]
            self._fingerprint = _check_fingerprint(facts["fingerprint"])
        except (KeyError, ValueError) as error:
            message = f"{str(path)!r} is not a checkpoint that this release knows: {str(error)[:500]}"
            raise ValueError(message) from error

    @property
    def seeds(self) -> list[int] | None:
        """The seeds of the training that is to go on, or None where there is none."""
        return None if self._fingerprint is None else list(self._fingerprint["seeds"])

    def claim(self, fingerprint: Mapping[str, Any], network: torch.nn.Module) -> None:
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
                f"checkpoint_path={str(self._path)!r} holds another training: {'; '.join(differences)}. To train from "
                f"scratch, remove the file or choose another path."
            )
        if self.state is not None:
            self._check_shapes(self.state, network)

    def _check_shapes(self, state: TrainingState, network: torch.nn.Module) -> None:
        weights = {name: tuple(value.shape) for name, value in network.state_dict().items()}
        moments = {name: tuple(value.shape) for name, value in network.named_parameters()}
        for part in _ARRAYS:
            found = {name: tuple(value.shape) for name, value in getattr(state, part).items()}
            if found != (moments if part in _MOMENTS else weights):
                raise ValueError(f"checkpoint_path={str(self._path)!r} holds {part} that do not fit the network.")
        if any((value < 0).any() for value in state.second_moments.values()):
            raise ValueError(f"checkpoint_path={str(self._path)!r} holds second_moments below zero.")

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


def check_integer(value: Any, name: str, least: int, most: int) -> int:
    """Return an integer from a file, or raise ValueError."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is {str(value)[:100]}; expected an integer from {least} to {most}.")
    return value


def check_history(history: Any) -> History:
    """Return the losses and times of a file, or raise ValueError."""
    names = ("training", "validation", "seconds")
    if not isinstance(history, dict) or history.keys() != set(names):
        raise ValueError(f"the history should have the entries {', '.join(names)}.")
    checked = {name: _numbers(history[name], name) for name in names}
    if len({len(values) for values in checked.values()}) != 1:
        raise ValueError("the entries of the history have different lengths.")
    return checked


def _numbers(values: Any, name: str) -> list[float]:
    """Undo `nan_to_none` for a list."""
    if not isinstance(values, list):
        raise ValueError(f"{name!r} should be a list of numbers.")
    return [_number(value, name) for value in values]


def _number(value: Any, name: str) -> float:
    if value is None:
        return math.nan
    # float() of an integer of hundreds of digits is an OverflowError.
    if type(value) is not float and (type(value) is not int or abs(value) > 2**53):
        raise ValueError(f"{name!r} holds {str(value)[:100]}; expected numbers.")
    return float(value)


def _check_numbers(numbers: Any, n_epochs: int) -> dict[str, Any]:
    if not isinstance(numbers, dict):
        raise ValueError("'numbers' should be an object.")
    n_steps = check_integer(numbers["n_steps"], "'n_steps'", 1, 10**12)
    if n_epochs < 1 or numbers["n_epochs"] != n_epochs:
        raise ValueError("'n_epochs' is not the length of the history.")
    n_stale = check_integer(numbers["n_stale"], "'n_stale'", 0, n_epochs)
    seconds, best_loss = (_number(numbers[name], name) for name in ("seconds", "best_loss"))
    if not 0 <= seconds < math.inf:
        raise ValueError(f"'seconds' is {seconds}; expected a positive number.")
    return {
        "n_steps": n_steps,
        "n_epochs": n_epochs,
        "n_stale": n_stale,
        "best_loss": best_loss,
        "seconds": seconds,
    }


def _check_fingerprint(fingerprint: Any) -> dict[str, Any]:
    seeds = fingerprint.get("seeds") if isinstance(fingerprint, dict) else None
    if not isinstance(seeds, list) or len(seeds) != _N_SEEDS:
        raise ValueError(f"'fingerprint' should be an object with {_N_SEEDS} seeds.")
    for seed in seeds:
        check_integer(seed, "'seeds'", 0, 2**31 - 1)
    return dict(fingerprint)
