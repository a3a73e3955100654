"""Networks by name: built with fresh weights, restored from arrays, or read from a published checkpoint.

What comes from a file is checked before anything of its size is built, and nothing that a file holds is run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from threading import Lock
from typing import Any
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .._utils._disk import check_path, check_regular_file
from ._edp_gnn import EDPGNNDenoiser
from ._ppgn import PPGN

__all__ = [
    "ARCHITECTURES",
    "MOST_LEVELS",
    "SIGMA_RANGE",
    "build_network",
    "check_sigmas",
    "graphs_at_once",
    "read_edpgnn_checkpoint",
    "restore_network",
    "uses_known",
]

_NETWORKS: dict[str, Any] = {"ppgn": PPGN, "edp-gnn": EDPGNNDenoiser}
ARCHITECTURES = tuple(_NETWORKS)

MOST_LEVELS = 1_000
# The square of an annealing level must be a float32 that can be divided by.
SIGMA_RANGE = (1e-6, 1e6)
# What a network is built from; each of a kind that `_check_settings` knows.
_SIZES = {"ppgn": ("width", "n_blocks", "n_frequencies"), "edp-gnn": ("node_features", "gin_width", "gin_depth")}
_FLAGS = {"ppgn": ("directed", "graph_context"), "edp-gnn": ()}


def graphs_at_once(n_nodes: int, reuses_memory: bool = False) -> int:
    """How many graphs of a size make the fastest batch, per graph."""
    # Under a megabyte for twelve features of every pair: much larger batches fall out of the processor's cache.
    return max(1, (40_000 if reuses_memory else 16_400) // n_nodes**2)


def uses_known(architecture: str) -> bool:
    """Whether a network can be told which pairs carry no noise."""
    return bool(_NETWORKS[architecture].uses_known)


def build_network(architecture: str, settings: Mapping[str, Any], seed: int) -> nn.Module:
    """Make a network with weights drawn from a seed, without touching the global random numbers."""
    network = _on_meta_device(architecture, settings).to_empty(device="cpu")
    network.reset_parameters(torch.Generator().manual_seed(seed))  # type: ignore[operator]
    return network


def restore_network(
    architecture: str,
    settings: Mapping[str, Any],
    weights: Mapping[str, npt.NDArray[Any]],
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> nn.Module:
    """Rebuild a trained network from plain arrays, ready for use."""
    network = _shaped_network(architecture, settings, weights)
    # Copies, as a network must not share memory with what it was made from, and arrays may be read-only.
    network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()}, assign=True)
    return network.to(device=device, dtype=dtype).eval().requires_grad_(False)


def _on_meta_device(architecture: str, settings: Mapping[str, Any]) -> nn.Module:
    """A network that knows its shapes but has no memory yet, nor drawn a random number."""
    with torch.device("meta"):
        network: nn.Module = _NETWORKS[architecture](**settings)
    return network.float()  # whatever torch's default type is


def _shaped_network(architecture: str, settings: Mapping[str, Any], weights: Mapping[str, Any]) -> nn.Module:
    """A network without memory whose weights have the names and shapes of these, or ValueError."""
    _check_settings(architecture, settings, len(weights))
    network = _on_meta_device(architecture, settings)
    expected = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    for name in {**expected, **weights}:
        here = tuple(weights[name].shape) if name in weights else "missing"
        if here != expected.get(name, "missing"):
            raise ValueError(
                f"the weights do not fit the architecture {architecture!r}: the shape of {name[:100]!r} is {here}, "
                f"expected {expected.get(name, 'missing')}."
            )
    return network


def _check_settings(architecture: Any, settings: Mapping[str, Any], n_arrays: int) -> None:
    """Raise ValueError unless a network of these settings could have `n_arrays` arrays of weights.

    Building a network takes time for each of its layers, and each layer has several arrays. Widths cost nothing until
    there are weights, whose shapes are compared before that.
    """
    if architecture not in ARCHITECTURES:
        raise ValueError(f"architecture={architecture!r}; expected one of {', '.join(ARCHITECTURES)}.")
    channels: Any = [2, 2]
    for name, value in settings.items():
        if name in _SIZES[architecture]:
            _check_sizes(name, [value])
        elif name in _FLAGS[architecture]:
            if value is not True:
                raise ValueError(f"{name} is {str(value)[:100]}; expected true, or no such setting.")
        elif name == "sigmas" and architecture == "edp-gnn":
            check_sigmas(value, name)
        elif name == "edge_channels" and architecture == "edp-gnn":
            if not isinstance(value, list | tuple) or len(value) < 2:
                raise ValueError("edge_channels should be a list of two or more numbers, the first for the input.")
            _check_sizes(name, channels := value)
        else:
            raise ValueError(f"the architecture {architecture!r} has no setting {name[:100]!r}.")
    if architecture == "edp-gnn" and "sigmas" not in settings:
        raise ValueError("sigmas are missing; expected a list of annealing levels.")
    n_layers = settings.get("n_blocks", 1) * settings.get("gin_depth", 1) * (len(channels) - 1)
    if n_layers > max(1, n_arrays):
        raise ValueError(f"the settings ask for {n_layers} layers, but there are only {n_arrays} arrays of weights.")


def _check_sizes(name: str, values: Any) -> None:
    for value in values:
        if type(value) is not int or not 1 <= value <= 100_000:
            raise ValueError(f"{name} holds {str(value)[:100]}; expected an integer from 1 to 100,000.")


def check_sigmas(sigmas: Any, name: str) -> None:
    """Raise ValueError unless this is a list of annealing levels, largest first."""
    lowest, highest = SIGMA_RANGE
    if not isinstance(sigmas, list | tuple) or not 1 <= len(sigmas) <= MOST_LEVELS:
        raise ValueError(f"{name} should be a list of 1 to {MOST_LEVELS} annealing levels.")
    if not all(type(sigma) in (int, float) and lowest <= sigma <= highest for sigma in sigmas):
        raise ValueError(f"{name} holds what is no number between {lowest:g} and {highest:g}.")
    if not all(before > after for before, after in pairwise(sigmas)):
        raise ValueError(f"{name} is not in descending order.")


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


_ALLOWED_GLOBALS: list[Callable[..., Any] | tuple[Callable[..., Any], str]] = [
    (_Ignored, f"numpy.{name}")
    for name in (
        "dtype",
        "ndarray",
        "core.multiarray.scalar",
        "core.multiarray._reconstruct",
        "_core.multiarray.scalar",
        "_core.multiarray._reconstruct",
    )
]
_READING = Lock()  # torch's list of allowed globals belongs to the process

# The published checkpoints have half a megabyte and a pickle of 66 kilobytes.
_MOST_BYTES = 32 * 2**20
_MOST_PICKLE = 2**20

# Published name to ours, applied in this order; a number that is kept is the place in a list of equals.
_RENAMINGS = (
    (r"^gnn_list\.", "layers."),
    (r"^final_read_score\.", "readout."),
    (r"\.translate_mlp\.", ".pair_mlp."),
    (r"\.multi_channel_gnn_module\.eps$", ".gin.epsilon"),
    (r"\.multi_channel_gnn_module\.linear_prediction\.(\d+)\.0\.", r".gin.readouts.\1.first."),
    (r"\.multi_channel_gnn_module\.linear_prediction\.(\d+)\.2\.", r".gin.readouts.\1.last."),
    (r"\.multi_channel_gnn_module\.layers\.(\d+)\.linears\.0\.", r".gin.steps.\1.first."),
    (r"\.multi_channel_gnn_module\.layers\.(\d+)\.linears\.1\.", r".gin.steps.\1.last."),
    (r"\.(linears|batch_norms|cond_layers)\.0\.", r".first.\1."),
    (r"\.(linears|batch_norms|cond_layers)\.1\.", r".second.\1."),
    (r"\.linears\.2\.", ".last.linears."),
    (r"\.linears\.", "."),
    (r"\.cond_layers\.(gain|bias)$", r".level_\1"),
    (r"\.batch_norms\.weight$", ".norm_gain"),
    (r"\.batch_norms\.bias$", ".norm_bias"),
    (r"\.batch_norms\.running_mean$", ".running_mean"),
    (r"\.batch_norms\.running_var$", ".running_variance"),
)


def read_edpgnn_checkpoint(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, npt.NDArray[np.float32]]]:
    """Read a published EDP-GNN checkpoint, a ".pth" file with the entries `model`, `sigma_list` and `config`.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    settings : dict
        Settings of an "edp-gnn", as `restore_network` takes them; the annealing levels are largest first.
    weights : dict of str to ndarray
        Its weights.
    """
    path = check_path(path)
    try:
        checkpoint = _unpickle(path)
        settings = _published_settings(checkpoint)
        weights = _published_weights(_entry(checkpoint, "model"), settings)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is not a published EDP-GNN checkpoint: {str(error)[:500]}") from None
    return settings, weights


def _unpickle(path: Path) -> object:
    """Tensors and plain containers; numpy objects are dropped, and anything else is refused."""
    n_bytes = check_regular_file(path, _MOST_BYTES, "a checkpoint")
    try:
        with ZipFile(path) as archive:
            sizes = {entry.filename: entry.file_size for entry in archive.infolist()}
    except Exception as error:
        raise ValueError(f"it is not a whole zip file ({error}).") from error
    # torch.save compresses nothing, so that a small file can hold nothing large.
    if sum(sizes.values()) > n_bytes or any(sizes[name] > _MOST_PICKLE for name in sizes if name.endswith(".pkl")):
        raise ValueError(f"its entries are larger than the file, or its pickle is larger than {_MOST_PICKLE:,} bytes.")
    with _READING:
        others = torch.serialization.get_safe_globals()  # what the caller has allowed for other files
        torch.serialization.clear_safe_globals()
        try:
            with torch.serialization.safe_globals(_ALLOWED_GLOBALS):
                return torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:  # bytes that are no checkpoint can fail anywhere in the unpickler
            wanted = re.search(r"GLOBAL (\S+)", str(error))
            reason = f"it asks for {wanted[1]}, which is not on the allow-list" if wanted else "torch cannot read it"
            raise ValueError(f"{reason} ({type(error).__name__}).") from error
        finally:
            torch.serialization.add_safe_globals(others)


def _entry(mapping: object, *names: str) -> Any:
    """An entry of nested dicts, or an error that names it."""
    for position, name in enumerate(names):
        if not isinstance(mapping, Mapping) or name not in mapping:
            raise ValueError(f"it has no entry {'/'.join(names[: position + 1])!r}.")
        mapping = mapping[name]
    return mapping


def _published_settings(checkpoint: object) -> dict[str, Any]:
    """Translate the stored configuration."""
    sigmas = _entry(checkpoint, "sigma_list")
    # Were the levels stored in another order, the rows of the weights would be flipped wrongly.
    check_sigmas(sigmas[::-1] if isinstance(sigmas, list) else None, "its entry 'sigma_list', in ascending order,")
    models = _entry(checkpoint, "config", "model", "models")
    if not isinstance(models, Mapping) or len(models) != 1:
        raise ValueError("its entry 'config/model/models' should describe exactly one network.")
    n_features = _entry(checkpoint, "config", "dataset", "in_feature")
    if type(n_features) is not int or n_features != 1:
        raise ValueError("its entry 'config/dataset/in_feature' should be 1: graphs without node features.")
    (model,) = models.values()
    channels, features, hidden = widths = [
        _entry(model, name) for name in ("channel_num_list", "feature_nums", "gnn_hidden_num_list")
    ]
    if not all(isinstance(each, list) and each and all(type(w) is int for w in each) for each in widths):
        raise ValueError("its widths should be lists of positive integers.")
    if features != features[:1] * len(channels) or hidden != hidden[:1] * len(hidden):
        raise ValueError(
            "its widths do not fit: 'feature_nums' should repeat one number as often as 'channel_num_list' "
            "has entries, 'gnn_hidden_num_list' one number."
        )
    return {
        "sigmas": [float(sigma) for sigma in sigmas[::-1]],
        "edge_channels": (2, *channels),  # the input's two channels are not in the stored list
        "node_features": features[0],
        "gin_width": hidden[0],
        "gin_depth": len(hidden),
    }


def _published_weights(model: object, settings: Mapping[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    """Rename the stored tensors, and turn the rows of annealing levels around."""
    if not isinstance(model, Mapping) or not all(isinstance(name, str) for name in model):
        raise ValueError("its entry 'model' should be a state dict.")
    tensors: dict[str, Tensor] = {}
    for name, value in model.items():
        if name.endswith(".num_batches_tracked"):  # of no use to batch norm with a constant momentum
            continue
        if not isinstance(value, Tensor) or value.layout != torch.strided or not value.is_floating_point():
            raise ValueError(f"its entry for {name[:100]!r} is not a dense tensor of real numbers.")
        ours = name
        for pattern, replacement in _RENAMINGS:
            ours = re.sub(pattern, replacement, ours)
        tensors[f"network.{ours}"] = value.squeeze(1) if ".level_" in ours and value.ndim == 3 else value
    # Before any copy: a tensor may repeat a single number, and then takes no memory until it is copied.
    _shaped_network("edp-gnn", settings, tensors)
    weights = {
        name: (value.flip(0) if ".level_" in name else value).detach().to(torch.float32).numpy().copy()
        for name, value in tensors.items()
    }
    for name, array in weights.items():
        if not np.isfinite(array).all():
            raise ValueError(f"{name!r} holds what is no finite number.")
    return weights
