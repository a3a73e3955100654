"""Files of priors and of interrupted trainings: safetensors, with facts as JSON and a digest of both.

Reading never runs code. A file that is larger than any prior is refused before it takes memory; one that is truncated,
was changed or makes no sense is a ValueError that names it and the reason.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import safe_open
from safetensors.numpy import save

from .._utils._disk import (
    check_path,
    check_regular_file,
    check_target,
    refusing,
    remove_partial_files,
    write_atomically,
)
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
    "fitted_from_facts",
    "network_parameters",
    "plain",
    "prior_facts",
    "read_arrays",
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
_MOST_BYTES = 32 * 2**20
_MOST_FACTS = 8 * 2**20

# Published checkpoints do not say on what sizes of graphs they were trained.
ANY_SIZE = (2, 10**6)


# Arrays and facts.


def write_arrays(path: str | Path, kind: str, arrays: Mapping[str, npt.NDArray[Any]], facts: Mapping[str, Any]) -> None:
    """Write arrays, and facts that are plain JSON, in one step."""
    path = check_path(path)
    arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    text = json.dumps(facts, sort_keys=True)
    content = save(arrays, {"format": kind, "version": "2", "facts": text, "sha256": digest_arrays(arrays, text)})
    if len(text) > _MOST_FACTS or len(content) > _MOST_BYTES:
        raise ValueError(
            f"{str(path)!r} would be too large to be read again: {len(content):,} bytes, of which {len(text):,} are "
            f"settings and losses; expected at most {_MOST_BYTES:,} and {_MOST_FACTS:,}."
        )
    write_atomically(path, content)


def read_arrays(path: str | Path, kind: str) -> tuple[Arrays, dict[str, Any]]:
    """Read what `write_arrays` wrote."""
    path = check_path(path)
    check_regular_file(path, _MOST_BYTES, "a safetensors file")
    try:
        with safe_open(path, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except Exception as error:  # besides its own errors, safetensors lets those of numpy through
        raise ValueError(f"{str(path)!r} is not a whole safetensors file: {str(error)[:500]}") from error
    if metadata.get("format") != kind:
        raise ValueError(f"{str(path)!r} is a safetensors file, but not a {kind}.")
    if metadata.get("version") != "2":
        raise ValueError(f"{str(path)!r} has format version {metadata.get('version')!r}; this release reads version 2.")
    text = metadata.get("facts", "")
    if metadata.get("sha256") != digest_arrays(arrays, text):
        raise ValueError(f"{str(path)!r} was changed after it was written: its content does not match its SHA-256.")
    for name, value in arrays.items():
        if value.dtype != np.float32 or not np.isfinite(value).all():
            raise ValueError(f"{str(path)!r} holds weights in {name[:100]!r} that are not finite float32 numbers.")
    try:
        facts = json.loads(text) if len(text) <= _MOST_FACTS else None
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise ValueError(f"{str(path)!r} has metadata that is not a JSON object of at most {_MOST_FACTS:,} bytes.")
    return arrays, facts


def digest_arrays(arrays: Mapping[str, npt.NDArray[Any]], text: str = "") -> str:
    """SHA-256 of arrays with their names, types and shapes, and of a text."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        value = np.ascontiguousarray(arrays[name])
        digest.update(f"\n{name} {value.dtype.str} {value.shape}\n".encode())
        digest.update(value.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _history(value: Mapping[str, Any]) -> History:
    return {name: [float(number) for number in value[name]] for name in ("training", "validation", "seconds")}


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
        "loss_history": prior.loss_history_,
        "n_iter": int(prior.n_iter_),
    }


def fitted_from_facts(facts: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The constructor arguments of a prior, yet to be validated, and its fitted attributes but for the weights."""
    settings, sigmas, measured = facts["network_settings"], facts["sigmas"], facts["known_loss"]
    parameters = facts["parameters"] | network_parameters(settings)
    # To name a file that `fit` would overwrite is up to the user alone.
    if parameters["checkpoint_path"] is not None:
        raise ValueError("'checkpoint_path' should be null.")
    check_device(parameters["device"])
    check_sigmas(sigmas, "'sigmas'")
    smallest, largest = map(int, facts["size_range"])
    if not ANY_SIZE[0] <= smallest <= largest <= ANY_SIZE[1]:
        raise ValueError(f"'size_range' is {smallest} to {largest}; expected numbers of nodes in ascending order.")
    if measured is not None:
        measured = {name: np.array(measured[name], dtype=np.float64) for name in ("share", "mean", "covariance")}
    return parameters, {
        "architecture_": parameters["architecture"],
        "network_settings_": settings,
        "sigmas_": np.array(sigmas, dtype=np.float64),
        "size_range_": (smallest, largest),
        "known_loss_": measured,
        "loss_history_": _history(facts["loss_history"]),
        "n_iter_": int(facts["n_iter"]),
    }


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
        # That it cannot be written is told now, rather than after the first epoch.
        self._path = None if path is None else check_target(path, "checkpoint_path")
        if self._path is not None and self._path.exists():
            arrays, facts = read_arrays(self._path, CHECKPOINT)
            with refusing(self._path, "training"):
                parts: dict[str, Any] = {part: {} for part in self._PARTS}
                for name, value in arrays.items():
                    part, _, own_name = name.partition("/")
                    parts[part][own_name] = torch.from_numpy(value.copy())
                self.state = TrainingState(**parts, **facts["numbers"])
                self.history = _history(facts["history"])
                self._fingerprint = facts["fingerprint"]
                self.seeds = self._fingerprint["seeds"]

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
        differences = [
            self._IN_WORDS.get(name) or f"{name} was {earlier.get(name)!r} and is now {fingerprint.get(name)!r}"
            for name in {**fingerprint, **earlier}
            if earlier.get(name) != fingerprint.get(name)
        ]
        if self.state is not None and differences:
            raise ValueError(
                f"checkpoint_path={str(self._path)!r} holds another training: {'; '.join(differences)}. To train from "
                f"scratch, remove the file or choose another path."
            )

    def write(self, state: TrainingState) -> None:
        """Replace the file by the state after another epoch, which `history` includes."""
        if self._path is None:
            return
        numbers = state._asdict()
        arrays = {
            f"{part}/{name}": value.detach().cpu().numpy()
            for part in self._PARTS
            for name, value in numbers.pop(part).items()
        }
        facts = {"numbers": numbers, "history": self.history, "fingerprint": self._fingerprint}
        write_arrays(self._path, CHECKPOINT, arrays, facts)

    def remove(self) -> None:
        """Remove the file, once the training is over."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            remove_partial_files(self._path)
