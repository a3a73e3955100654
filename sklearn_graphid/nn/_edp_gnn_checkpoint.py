"""Read the published EDP-GNN checkpoints into our network, without running anything they hold."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile

import torch
from torch import Tensor

from .._utils._disk import check_path, check_regular_file
from ._edp_gnn import EDPGNN
from ._settings import check_settings, check_sigmas

__all__ = ["read_edpgnn_checkpoint"]


class _Ignored:
    """What a numpy object in a checkpoint becomes: they are records of losses, which nobody reads."""

    def __init__(self, *arguments: object) -> None:
        pass

    def __setstate__(self, state: object) -> None:
        pass


# The losses are numpy scalars and arrays. Stand-ins for numpy's types, rather than the types, mean that no
# state from a foreign file reaches numpy, and that the names of its old and new versions serve alike.
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

_READING = Lock()

# The published checkpoints have half a megabyte, a pickle of 66 kilobytes and 300 entries.
_MOST_BYTES = 32 * 2**20
_MOST_PICKLE = 2**20
_MOST_ENTRIES = 10_000
_LONGEST_NAME = 1_000

# Published name to ours, applied in this order; a number that is kept is the place in a list of equals.
_RENAMINGS = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
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
)


def read_edpgnn_checkpoint(
    path: str | os.PathLike[str],
) -> tuple[dict[str, Any], dict[str, Tensor], list[float]]:
    """Read a published EDP-GNN checkpoint.

    Parameters
    ----------
    path : str or path-like
        A `.pth` file with the entries `model`, `sigma_list` and `config`.

    Returns
    -------
    config : dict
        Constructor arguments of `EDPGNN`.
    state : dict of str to Tensor
        Its state dict, in float32, on the CPU, with the annealing levels in descending order of sigma.
    sigmas : list of float
        The annealing levels, largest first.

    Raises
    ------
    ValueError
        If the file is no such checkpoint, or asks for objects that are no part of one.

    Examples
    --------
    >>> config, state, sigmas = read_edpgnn_checkpoint("edp_gnn_grids.pth")  # doctest: +SKIP
    >>> network = EDPGNN(**config)  # doctest: +SKIP
    >>> network.load_state_dict(state)  # doctest: +SKIP
    """
    path = check_path(path)
    try:
        checkpoint = _load(path)
        sigmas = _descending_sigmas(_entry(checkpoint, "sigma_list"))
        model = _entry(checkpoint, "model")
        if not isinstance(model, Mapping):
            raise ValueError("its entry 'model' should be a state dict.")
        config = _network_config(checkpoint, sigmas, len(model))
        state = _network_state(model, config)
    except ValueError as error:
        raise ValueError(f"{str(path)!r} is not a published EDP-GNN checkpoint: {str(error)[:500]}") from None
    return config, state, sigmas


@contextmanager
def _only_allowed_globals() -> Iterator[None]:
    """Let torch build what is on our allow-list, and nothing that the caller has allowed for other files.

    The list belongs to the process: the lock keeps two readers from restoring each other's.
    """
    with _READING:
        others = torch.serialization.get_safe_globals()
        torch.serialization.clear_safe_globals()
        try:
            with torch.serialization.safe_globals(_ALLOWED_GLOBALS):
                yield
        finally:
            torch.serialization.add_safe_globals(others)


def _load(path: Path) -> object:
    """Unpickle tensors and plain containers; numpy objects are dropped, and anything else is refused."""
    check_regular_file(path, _MOST_BYTES, "a checkpoint")
    content = _checked_zip(path)
    try:
        with _only_allowed_globals():
            return torch.load(content, map_location="cpu", weights_only=True)
    except Exception as error:  # bytes that are no checkpoint can fail anywhere in the unpickler
        wanted = re.search(r"GLOBAL (\S+)", str(error))
        if wanted:
            raise ValueError(f"it asks for {wanted[1]}, which is not on the allow-list.") from error
        raise ValueError(f"torch cannot read it ({type(error).__name__}).") from error


def _checked_zip(path: Path) -> BytesIO:
    """The entries of a zip file, written anew: two readers of a crafted zip may see different entries in it."""
    checked = BytesIO()
    try:
        with ZipFile(path) as given, ZipFile(checked, "w", ZIP_STORED) as written:
            entries = given.infolist()
            # torch.save compresses nothing, so that a small file can hold nothing large.
            if any(entry.compress_type != ZIP_STORED for entry in entries) or len(entries) > _MOST_ENTRIES:
                raise ValueError(f"its entries are compressed, or more than {_MOST_ENTRIES:,}.")
            if sum(entry.file_size for entry in entries) > path.stat().st_size:
                raise ValueError("its entries are larger than the file.")
            if any(entry.file_size > _MOST_PICKLE for entry in entries if entry.filename.endswith(".pkl")):
                raise ValueError(f"its pickle is larger than {_MOST_PICKLE:,} bytes.")
            if len({entry.filename for entry in entries}) != len(entries):
                raise ValueError("it has two entries of one name.")
            for entry in entries:
                written.writestr(entry.filename, given.read(entry))
    except (BadZipFile, EOFError, NotImplementedError, OverflowError, RuntimeError, struct.error) as error:
        raise ValueError(f"it is not a whole zip file ({error}).") from error
    checked.seek(0)
    return checked


def _entry(mapping: object, *names: str) -> Any:
    """An entry of nested dicts, or an error that names it."""
    for position, name in enumerate(names):
        if not isinstance(mapping, Mapping) or name not in mapping:
            raise ValueError(f"it has no entry {'/'.join(names[: position + 1])!r}.")
        mapping = mapping[name]
    return mapping


def _descending_sigmas(sigmas: object) -> list[float]:
    """The annealing levels, largest first; were they stored in another order, the rows would be flipped wrongly."""
    try:
        check_sigmas(sigmas[::-1] if isinstance(sigmas, list | tuple) else None, "it")
    except ValueError as error:
        raise ValueError(
            f"its entry 'sigma_list' should be a list of positive numbers in ascending order: {error}"
        ) from None
    return [float(sigma) for sigma in sigmas[::-1]]  # type: ignore[index]


def _network_config(checkpoint: object, sigmas: list[float], n_arrays: int) -> dict[str, Any]:
    """Translate the stored configuration to the arguments of `EDPGNN`."""
    models = _entry(checkpoint, "config", "model", "models")
    if not isinstance(models, Mapping) or len(models) != 1:
        raise ValueError("its entry 'config/model/models' should describe exactly one network.")
    n_features = _entry(checkpoint, "config", "dataset", "in_feature")
    if type(n_features) is not int or n_features != 1:
        raise ValueError("its entry 'config/dataset/in_feature' should be 1: graphs without node features.")
    (model,) = models.values()
    channels = _widths(model, "channel_num_list")
    features = _widths(model, "feature_nums")
    hidden = _widths(model, "gnn_hidden_num_list")
    if len(set(features)) != 1 or len(features) != len(channels) or len(set(hidden)) != 1:
        raise ValueError(
            "its widths do not fit: 'feature_nums' should repeat one number as often as 'channel_num_list' "
            "has entries, 'gnn_hidden_num_list' one number."
        )
    sizes = {
        "edge_channels": (2, *channels),  # the input's two channels are not in the stored list
        "node_features": features[0],
        "gin_width": hidden[0],
        "gin_depth": len(hidden),
    }
    check_settings("edp-gnn", {"sigmas": sigmas, **sizes}, n_arrays)
    return {"n_levels": len(sigmas), **sizes}


def _widths(model: object, name: str) -> list[int]:
    """A stored list of layer widths."""
    widths = _entry(model, name)
    if not isinstance(widths, list) or not widths or not all(type(w) is int and w > 0 for w in widths):
        raise ValueError(f"its entry {name!r} should be a list of positive integers.")
    return widths


def _network_state(published: Mapping[Any, Any], config: dict[str, Any]) -> dict[str, Tensor]:
    """Rename the stored tensors, and check them against a network of this configuration."""
    if not all(isinstance(name, str) and len(name) <= _LONGEST_NAME for name in published):
        raise ValueError("its entry 'model' should be a state dict.")
    # Batch norm with a constant momentum does not need the number of batches it has seen.
    names = [name for name in published if not name.endswith(".num_batches_tracked")]
    state = {_our_name(name): published[name] for name in names}
    if len(state) != len(names):
        raise ValueError("its entry 'model' has two names for one tensor.")
    with torch.device("meta"):
        expected = EDPGNN(**config).state_dict()
    if state.keys() != expected.keys():
        strange = sorted(state.keys() ^ expected.keys())
        raise ValueError(f"its weights do not fit its widths: {strange[0]!r} is missing or in excess.")
    return {name: _our_value(name, state[name], expected[name].shape) for name in expected}


def _our_name(published: str) -> str:
    """The name in our network of a tensor of the published one."""
    for pattern, replacement in _RENAMINGS:
        published = pattern.sub(replacement, published)
    return published


def _our_value(name: str, value: object, shape: torch.Size) -> Tensor:
    """Our layout of a published tensor: rows per annealing level lose their middle axis and turn around."""
    if not isinstance(value, Tensor) or value.layout != torch.strided or value.is_meta or not value.is_floating_point():
        raise ValueError(f"its entry for {name!r} is not a dense tensor of real numbers.")
    value = value.detach()
    if name.endswith((".level_gain", ".level_bias")) and value.ndim == 3 and value.shape[1] == 1:
        value = value.squeeze(1)
    # Before any copy: a tensor may repeat a single number, and then takes no memory until it is copied.
    if value.shape != shape:
        raise ValueError(f"{name!r} has shape {tuple(value.shape)} but its widths ask for {tuple(shape)}.")
    value = value.to(torch.float32)
    if not value.isfinite().all():
        raise ValueError(f"{name!r} holds what is no finite number.")
    return (value.flip(0) if ".level_" in name else value).contiguous()
