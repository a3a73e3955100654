"""Files: priors and interrupted trainings as safetensors, and published EDP-GNN checkpoints.

A safetensors file holds facts as JSON and a digest of everything. Reading never runs code. A file that is larger than
any prior is refused before it takes memory; one that is truncated, was changed or makes no sense is a ValueError that
names it and the reason.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from numbers import Integral
from pathlib import Path
from threading import Lock
from typing import Any
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt
import torch
from safetensors import safe_open
from safetensors.numpy import save
from torch import Tensor

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
from ..nn import TrainingState, check_sigmas, check_weights

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
    "read_edpgnn_checkpoint",
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
_MOST_PICKLE = 2**20  # that of a published checkpoint has 66 kilobytes

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


# Interrupted trainings.


class Checkpoint:
    """State of a training after its last whole epoch, in a file from which an interrupted training resumes.

    `state` is where to go on from, `history` the losses and times of the epochs up to there, and `seeds` those of the
    training that is to go on; without a file the first and the last are None. With `path=None` nothing is read or
    written.
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
        """Note the losses of an epoch, and replace the file by the state after it."""
        for name, value in zip(self.history, (state.training_loss, state.validation_loss, state.seconds), strict=True):
            self.history[name].append(value)
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


# Published checkpoints of EDP-GNN.


class _Ignored:
    """Stand-in for the numpy objects of a checkpoint, which are records of losses that nobody reads.

    With stand-ins for numpy's types, rather than the types, no state from a foreign file reaches numpy, and the names
    of its old and new versions serve alike.
    """

    def __init__(self, *arguments: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


_READING = Lock()  # torch's list of allowed globals belongs to the process


def read_edpgnn_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], Arrays]:
    """Read the settings and weights of an "edp-gnn" from a ".pth" file with the entries model, sigma_list, config."""
    path = check_path(path)
    n_bytes = check_regular_file(path, _MOST_BYTES, "a checkpoint")
    with refusing(path, "published EDP-GNN"):
        checkpoint = _unpickle(path, n_bytes)
        settings = _published_settings(checkpoint)
        return settings, _published_weights(checkpoint["model"], settings)


def _unpickle(path: Path, n_bytes: int) -> Any:
    """Tensors and plain containers; numpy objects are dropped, and anything else is refused."""
    try:
        with ZipFile(path) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    except Exception as error:
        raise ValueError(f"it is not a whole zip file ({error}).") from error
    # torch.save compresses nothing, so that a small file can hold nothing large.
    if sum(sizes.values()) > n_bytes or any(sizes[name] > _MOST_PICKLE for name in sizes if name.endswith(".pkl")):
        raise ValueError(f"its entries are larger than the file, or its pickle is larger than {_MOST_PICKLE:,} bytes.")
    names = ["dtype", "ndarray"]
    names += [f"{core}.multiarray.{name}" for core in ("core", "_core") for name in ("scalar", "_reconstruct")]
    allowed: list[Any] = [(_Ignored, f"numpy.{name}") for name in names]
    with _READING:
        others = torch.serialization.get_safe_globals()  # what the caller has allowed for other files
        torch.serialization.clear_safe_globals()
        try:
            with torch.serialization.safe_globals(allowed):
                return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # bytes that are no checkpoint can fail anywhere in the unpickler
            wanted = re.search(r"GLOBAL (\S+)", str(error))
            reason = f"it asks for {wanted[1]}, which is not on the allow-list" if wanted else "torch cannot read it"
            raise ValueError(f"{reason} ({type(error).__name__}).") from error
        finally:
            torch.serialization.add_safe_globals(others)


def _published_settings(checkpoint: Any) -> dict[str, Any]:
    """Translate the stored configuration."""
    sigmas = [float(sigma) for sigma in checkpoint["sigma_list"][::-1]]
    # Were the levels stored in another order, the rows of the weights would be flipped wrongly.
    check_sigmas(sigmas, "its entry 'sigma_list', from the last to the first,")
    n_features = checkpoint["config"]["dataset"]["in_feature"]
    if type(n_features) is not int or n_features != 1:
        raise ValueError("its entry 'config/dataset/in_feature' should be 1: graphs without node features.")
    (model,) = checkpoint["config"]["model"]["models"].values()
    channels, features, hidden = (model[name] for name in ("channel_num_list", "feature_nums", "gnn_hidden_num_list"))
    if len(set(features)) != 1 or len(features) != len(channels) or len(set(hidden)) != 1:
        raise ValueError(
            "its widths do not fit: 'feature_nums' should repeat one number as often as 'channel_num_list' "
            "has entries, 'gnn_hidden_num_list' one number."
        )
    return {
        "sigmas": sigmas,
        "edge_channels": [2, *channels],  # the input's two channels are not in the stored list
        "node_features": features[0],
        "gin_width": hidden[0],
        "gin_depth": len(hidden),
    }


def _published_weights(model: Mapping[str, Any], settings: Mapping[str, Any]) -> Arrays:
    """Take the stored tensors, and turn the rows of annealing levels around."""
    tensors: dict[str, Tensor] = {}
    for name, value in model.items():
        if name.endswith(".num_batches_tracked"):  # of no use to batch norm with a constant momentum
            continue
        if not isinstance(value, Tensor) or value.layout != torch.strided or not value.is_floating_point():
            raise ValueError(f"its entry for {name[:100]!r} is not a dense tensor of real numbers.")
        tensors[name] = value.squeeze(1) if ".cond_layers." in name and value.ndim == 3 else value
    # Before any copy: a tensor may repeat a single number, and then takes no memory until it is copied.
    check_weights("edp-gnn", settings, tensors)
    weights = {
        name: (value.flip(0) if ".cond_layers." in name else value).detach().to(torch.float32).numpy().copy()
        for name, value in tensors.items()
    }
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name!r} holds what is no finite number.")
    return weights
