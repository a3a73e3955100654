"""Networks by name: built with fresh weights, restored from arrays, or read from a published checkpoint.

What comes from a file is checked before anything of its size is built, and nothing that a file holds is run.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Any
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .._utils._disk import check_path, check_regular_file, refusing
from ._edp_gnn import EDPGNNDenoiser, check_sigmas
from ._ppgn import PPGN

__all__ = [
    "ARCHITECTURES",
    "build_network",
    "graphs_at_once",
    "read_edpgnn_checkpoint",
    "restore_network",
    "uses_known",
]

_NETWORKS: dict[str, Any] = {"ppgn": PPGN, "edp-gnn": EDPGNNDenoiser}
ARCHITECTURES = tuple(_NETWORKS)


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
    if architecture not in ARCHITECTURES:
        raise ValueError(f"architecture={architecture!r}; expected one of {', '.join(ARCHITECTURES)}.")
    # Building takes time for each layer, of which each has several arrays. Widths cost nothing as long as there is no
    # memory, and without weights of their shapes there never is.
    depths = [settings.get("n_blocks", 1), settings.get("gin_depth", 1), len(settings.get("edge_channels", (2, 2))) - 1]
    if not all(isinstance(depth, int) for depth in depths) or math.prod(depths) > max(1, len(weights)):
        raise ValueError(f"the settings ask for more layers than there are arrays of weights, {len(weights)}.")
    try:
        network = _on_meta_device(architecture, settings)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"no network {architecture!r} has these settings: {str(error)[:300]}") from error
    expected = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    for name in {**expected, **weights}:
        here = tuple(weights[name].shape) if name in weights else "missing"
        if here != expected.get(name, "missing"):
            raise ValueError(
                f"the weights do not fit the architecture {architecture!r}: the shape of {name[:100]!r} is {here}, "
                f"expected {expected.get(name, 'missing')}."
            )
    return network


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
        "edge_channels": (2, *channels),  # the input's two channels are not in the stored list
        "node_features": features[0],
        "gin_width": hidden[0],
        "gin_depth": len(hidden),
    }


def _published_weights(model: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, npt.NDArray[np.float32]]:
    """Rename the stored tensors, and turn the rows of annealing levels around."""
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
