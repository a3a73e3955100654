"""Files of priors and of interrupted trainings: safetensors, with facts as JSON and a digest of both.

Reading never runs code. A file that is larger than any prior is refused before it takes memory; one that is truncated,
was changed or makes no sense is a ValueError that names it and says what was expected.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from .._utils._disk import check_path, check_regular_file, check_writable, remove_partial_files, write_atomically
from .._utils._numbers import FloatArray
from .._utils._torch import check_device
from ..nn import TrainingState, check_sigmas

__all__ = [
    "ANY_SIZE",
    "CHECKPOINT",
    "MOST_EPOCHS",
    "PRIOR",
    "Arrays",
    "Checkpoint",
    "History",
    "attributes_from_facts",
    "digest_arrays",
    "network_parameters",
    "plain",
    "prior_facts",
    "read_arrays",
    "refusing",
    "write_arrays",
]

Arrays = dict[str, npt.NDArray[Any]]
History = dict[str, list[float]]

# What a file says it is.
PRIOR = "sklearn_graphid prior"
CHECKPOINT = "sklearn_graphid training checkpoint"

MOST_EPOCHS = 100_000  # of one training: the losses of many more would not fit into the file
# Priors and checkpoints take a few megabytes at most. A hundred thousand epochs have eight megabytes of losses, which
# are nearly all of the facts.
_MOST_FACTS = 8 * 2**20
_MOST_WEIGHTS = 22 * 2**20
_MOST_BYTES = 32 * 2**20

# Published checkpoints do not say on what sizes of graphs they were trained.
ANY_SIZE = (2, 10**6)


# Arrays and facts.


def write_arrays(path: str | Path, kind: str, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Write arrays, and facts that are plain JSON, in one step."""
    arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    text = json.dumps(facts, sort_keys=True)
    if len(text) > _MOST_FACTS or sum(value.nbytes for value in arrays.values()) > _MOST_WEIGHTS:
        raise ValueError(
            f"{str(path)!r} would be too large to be read again; expected at most {_MOST_FACTS:,} bytes of settings "
            f"and losses, and {_MOST_WEIGHTS:,} bytes of weights."
        )
    metadata = {"format": kind, "version": "2", "facts": text, "sha256": digest_arrays(arrays, text)}
    write_atomically(path, save(arrays, metadata=metadata))


def read_arrays(path: str | Path, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """Read what `write_arrays` wrote."""
    path = check_path(path)
    check_regular_file(path, _MOST_BYTES, "a safetensors file")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    # Besides its own error, safetensors lets those of numpy through, for types that numpy does not have.
    except (SafetensorError, OSError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{str(path)!r} is not a whole safetensors file: {str(error)[:500]}") from error
    if metadata.get("format") != kind:
        raise ValueError(f"{str(path)!r} is a safetensors file, but not a {kind}.")
    if metadata.get("version") != "2":
        raise ValueError(f"{str(path)!r} has format version {metadata.get('version')!r}; this release reads version 2.")
    text = metadata.get("facts", "")
    if metadata.get("sha256") != digest_arrays(arrays, text):
        raise ValueError(f"{str(path)!r} was changed after it was written: its content does not match its SHA-256.")
    for name, value in arrays.items():
        if value.dtype != np.float32:
            raise ValueError(f"{str(path)!r} holds {value.dtype} weights, in {name[:100]!r}; expected float32.")
        if not np.isfinite(value).all():
            raise ValueError(f"{str(path)!r} holds weights that are not finite numbers, in {name[:100]!r}.")
    if len(text) > _MOST_FACTS:
        raise ValueError(f"{str(path)!r} has {len(text):,} bytes of metadata; expected at most {_MOST_FACTS:,}.")
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{str(path)!r} has metadata that cannot be read: {error}") from error
    if not isinstance(facts, dict):
        raise ValueError(f"{str(path)!r} has metadata that is not a JSON object.")
    return arrays, facts


def digest_arrays(arrays: Mapping[str, npt.NDArray[Any]], text: str = "") -> str:
    """SHA-256 of arrays with their names, types and shapes, and of a text."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {value.dtype.str} {value.shape}\n".encode())
        digest.update(value.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


@contextmanager
def refusing(path: str | Path, kind: str) -> Iterator[None]:
    """Let an error about the content of a file name the file."""
    try:
        yield
    except (TypeError, ValueError) as error:
        message = f"{str(path)!r} does not describe a {kind} that this release knows: {str(error)[:500]}"
        raise ValueError(message) from error


def _numbers(value: Any, name: str, *shape: int | None) -> FloatArray:
    """Numbers of a file as an array, with null as nan; None in the shape stands for any length."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name!r} should hold numbers: {error}.") from error
    if array.ndim != len(shape) or any(n not in (None, m) for n, m in zip(shape, array.shape, strict=True)):
        raise ValueError(f"{name!r} has shape {array.shape}; expected {str(shape).replace('None', 'any')}.")
    return array


def _object(facts: Mapping[str, Any], name: str) -> dict[str, Any]:
    if not isinstance(value := facts.get(name), dict):
        raise ValueError(f"{name!r} should be an object.")
    return value


def _null_for_nan(history: History) -> dict[str, list[float | None]]:
    """JSON has no nan."""
    return {name: [None if math.isnan(value) else value for value in values] for name, values in history.items()}


def _history(value: Mapping[str, Any]) -> History:
    history = {name: _numbers(value.get(name), name, None).tolist() for name in ("training", "validation", "seconds")}
    if len({len(values) for values in history.values()}) != 1:
        raise ValueError("the entries of the history have different lengths.")
    return history


# Priors.


def plain(value: Any) -> Any:
    """A numpy number as a number of Python."""
    return value.item() if isinstance(value, np.generic) else value


def network_parameters(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor arguments that a network of these settings was built from."""
    named = {name: settings[name] for name in ("width", "n_blocks") if name in settings}
    return named | {name: bool(settings.get(name, False)) for name in ("directed", "graph_context")}


def prior_facts(prior: Any) -> dict[str, Any]:
    """Everything about a fitted prior but its weights, as JSON knows it."""
    parameters = prior.get_params(deep=False)
    if not isinstance(parameters["random_state"], Integral | None):
        parameters["random_state"] = None  # a generator has no JSON form, and its state is spent
    parameters["checkpoint_path"] = None  # a place on this machine, and its work is done
    # Of the weights, whatever was set since.
    parameters |= {"architecture": prior.architecture_, **network_parameters(prior.network_settings_)}
    known_loss = prior.known_loss_
    return {
        "parameters": {name: plain(value) for name, value in parameters.items()},
        "network_settings": prior.network_settings_,
        "sigmas": prior.sigmas_.tolist(),
        "size_range": [int(size) for size in prior.size_range_],
        "known_loss": None if known_loss is None else {name: known_loss[name].tolist() for name in known_loss},
        "loss_history": _null_for_nan(prior.loss_history_),
        "n_iter": int(prior.n_iter_),
    }


def attributes_from_facts(facts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The constructor arguments of a prior, yet to be validated, and its fitted attributes but for the weights."""
    settings, sigmas = _object(facts, "network_settings"), facts.get("sigmas")
    parameters = _object(facts, "parameters") | network_parameters(settings)
    # To name a file that `fit` would overwrite is up to the user alone.
    if parameters.get("checkpoint_path") is not None:
        raise ValueError("'checkpoint_path' should be null.")
    check_device(parameters.get("device", "cpu"))
    check_sigmas(sigmas, "'sigmas'")
    if settings.get("sigmas", sigmas) != sigmas:
        raise ValueError("'sigmas' are not those of 'network_settings'.")
    smallest, largest = _numbers(facts.get("size_range"), "size_range", 2).tolist()
    if not ANY_SIZE[0] <= smallest <= largest <= ANY_SIZE[1]:
        raise ValueError(f"'size_range' is {smallest:g} to {largest:g}; expected numbers of nodes in ascending order.")
    n_iter = facts.get("n_iter")
    if type(n_iter) is not int or n_iter < 0:
        raise ValueError(f"'n_iter' is {str(n_iter)[:100]}; expected a number of epochs.")
    return parameters, {
        "architecture_": parameters.get("architecture"),
        "network_settings_": settings,
        "sigmas_": np.array(sigmas, dtype=np.float64),
        "size_range_": (int(smallest), int(largest)),
        "known_loss_": None if facts.get("known_loss") is None else _known_loss(_object(facts, "known_loss")),
        "loss_history_": _history(_object(facts, "loss_history")),
        "n_iter_": n_iter,
    }


def _known_loss(measured: Mapping[str, Any]) -> dict[str, FloatArray]:
    """Means and covariances of two losses at shares in ascending order, from `calibrate_surprise`."""
    share = _numbers(measured.get("share"), "known_loss/share", None)
    mean = _numbers(measured.get("mean"), "known_loss/mean", len(share), 2)
    covariance = _numbers(measured.get("covariance"), "known_loss/covariance", len(share), 2, 2)
    arrays = {"share": share, "mean": mean, "covariance": covariance}
    if not all((np.abs(values) <= 1e6).all() for values in arrays.values()):
        raise ValueError("'known_loss' holds what is no loss; expected numbers up to a million.")
    if len(share) < 2 or share[0] <= 0 or (np.diff(share) <= 0).any():
        raise ValueError("'known_loss/share' should be positive numbers in ascending order, two or more.")
    if (covariance != covariance.swapaxes(1, 2)).any() or np.linalg.eigvalsh(covariance).min() < -1e-9:
        raise ValueError("'known_loss/covariance' holds what is no covariance.")
    return arrays


# Checkpoints.


class Checkpoint:
    """State of a training after its last whole epoch, in a file from which an interrupted training resumes.

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
    seeds : list of int or None
        The seeds of the training that is to go on. None: there is none.
    """

    _PARTS = ("weights", "averaged", "best", "first_moments", "second_moments")
    _NUMBERS = ("n_steps", "n_epochs", "n_stale", "best_loss", "seconds")
    # What a difference in the fingerprint is called, where its values mean nothing to a reader.
    _IN_WORDS = {
        "seeds": "random_state is different",
        "graphs": "the graphs are different, or in a different order",
        "start": "training starts from different weights",
    }

    def __init__(self, path: str | os.PathLike[str] | None):
        self.state: TrainingState | None = None
        self.history: History = {"training": [], "validation": [], "seconds": []}
        self.seeds: list[int] | None = None
        self._fingerprint: dict[str, Any] = {}
        self._path = None if path is None else check_path(path, "checkpoint_path")
        if self._path is None:
            return
        if not self._path.parent.is_dir():
            raise ValueError(f"checkpoint_path={str(path)!r} is in a folder that does not exist; create it first.")
        if self._path.exists():
            arrays, facts = read_arrays(self._path, CHECKPOINT)
            with refusing(self._path, "training"):
                self._restore(arrays, facts)
        try:
            check_writable(self._path)  # now, rather than after the first epoch
        except OSError as error:
            raise ValueError(
                f"checkpoint_path={str(path)!r} cannot be written ({error.strerror or error}); expected a file in a "
                f"folder that can be written to."
            ) from error

    def _restore(self, arrays: Arrays, facts: Mapping[str, Any]) -> None:
        parts: dict[str, dict[str, torch.Tensor]] = {part: {} for part in self._PARTS}
        for name, value in arrays.items():
            part, _, own_name = name.partition("/")
            if part not in parts:
                raise ValueError(f"there is no place for {name[:100]!r}.")
            parts[part][own_name] = torch.from_numpy(value.copy())
        self.history = _history(_object(facts, "history"))
        numbers = _object(facts, "numbers")
        values = _numbers([numbers.get(name) for name in self._NUMBERS], "numbers", len(self._NUMBERS))
        n_steps, n_epochs, n_stale, best_loss, seconds = values.tolist()
        n_told = len(self.history["training"])
        if not (n_steps >= n_epochs == n_told >= max(1, n_stale) and n_stale >= 0 and 0 <= seconds < math.inf):
            raise ValueError(f"its numbers do not belong to a training of {n_told} epochs: {numbers}.")
        self.state = TrainingState(
            **parts,
            n_steps=int(n_steps),
            n_epochs=n_told,
            n_stale=int(n_stale),
            best_loss=best_loss,
            seconds=seconds,
        )
        self._fingerprint = _object(facts, "fingerprint")
        seeds = _numbers(self._fingerprint.get("seeds"), "seeds", 3)
        if not ((seeds >= 0) & (seeds < 2**31)).all():
            raise ValueError("'seeds' should be three integers from 0 to 2**31 - 1.")
        self.seeds = [int(seed) for seed in seeds]

    def claim(
        self,
        parameters: Mapping[str, Any],
        seeds: Sequence[int],
        graphs: Sequence[FloatArray],
        network: torch.nn.Module,
    ) -> None:
        """Say what decides how this training ends, or raise ValueError if the checkpoint is of another training."""
        edges = {f"{i:09d}": np.packbits(graph > 0) for i, graph in enumerate(graphs)}
        fingerprint = {
            **parameters,
            "seeds": list(seeds),
            "graphs": digest_arrays(edges, str([len(graph) for graph in graphs])),
            "start": digest_arrays({name: value.cpu().numpy() for name, value in network.state_dict().items()}),
        }
        earlier, self._fingerprint = self._fingerprint, fingerprint
        if self.state is None:
            return
        differences = [
            self._IN_WORDS.get(name) or f"{name} was {earlier.get(name)!r} and is now {fingerprint.get(name)!r}"
            for name in {**fingerprint, **earlier}
            if earlier.get(name) != fingerprint.get(name)
        ]
        if differences:
            raise ValueError(
                f"checkpoint_path={str(self._path)!r} holds another training: {'; '.join(differences)}. To train from "
                f"scratch, remove the file or choose another path."
            )
        weights = {name: value.shape for name, value in network.state_dict().items()}
        moments = {name: value.shape for name, value in network.named_parameters()}
        for part in self._PARTS:
            shapes = {name: value.shape for name, value in getattr(self.state, part).items()}
            if shapes != (moments if part.endswith("moments") else weights):
                raise ValueError(f"checkpoint_path={str(self._path)!r} holds {part} that do not fit the network.")

    def write(self, state: TrainingState) -> None:
        """Replace the file by the state after another epoch, which `history` includes."""
        if self._path is None:
            return
        arrays = {
            f"{part}/{name}": value.detach().cpu().numpy()
            for part in self._PARTS
            for name, value in getattr(state, part).items()
        }
        facts = {
            "numbers": {name: getattr(state, name) for name in self._NUMBERS},
            "history": _null_for_nan(self.history),
            "fingerprint": self._fingerprint,
        }
        write_arrays(self._path, CHECKPOINT, arrays, facts)

    def remove(self) -> None:
        """Remove the file, once the training is over."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            remove_partial_files(self._path)
