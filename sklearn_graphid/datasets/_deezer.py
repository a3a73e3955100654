"""Ego-networks of users of the music streaming service Deezer, as published by SNAP."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
import struct
import zipfile
import zlib
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import numpy.typing as npt

from .._utils._disk import check_path, check_regular_file, write_atomically
from .._utils._numbers import FloatArray, check_integer

__all__ = ["fetch_deezer_ego_nets"]

_ADDRESS = "https://snap.stanford.edu/data/deezer_ego_nets.zip"
_EDGES, _TARGETS = "deezer_ego_nets/deezer_edges.json", "deezer_ego_nets/deezer_target.csv"

# The published file has one megabyte, its members five, the largest ego-net 363 nodes, and all matrices together 72
# megabytes. Beyond these bounds the file is something else, and is refused before it fills the memory.
_MOST_BYTES, _MOST_NODES, _MOST_MATRIX_BYTES = 16 * 2**20, 10_000, 2**30
_MOST_LISTS = 2_000_000  # one for each edge; an empty one has two characters, and takes thirty times that in memory

# What zipfile, csv and json raise when bytes are not what they should be.
_DAMAGE = (csv.Error, zipfile.BadZipFile, zlib.error, struct.error, EOFError, OverflowError, RuntimeError, ValueError)


def fetch_deezer_ego_nets(
    *,
    data_home: str | os.PathLike[str] | None = None,
    zip_path: str | os.PathLike[str] | None = None,
    min_nodes: int | None = None,
    max_nodes: int | None = None,
    download_if_missing: bool = True,
    checksum: str | None = None,
    return_targets: bool = False,
) -> Any:
    """Load the Deezer ego-nets (downloaded on first use).

    Each graph is the ego-net of a user of the music streaming service in Eastern Europe in February 2020: the user,
    everyone they are connected with, and the edges among these. An edge means that two users follow each other. SNAP
    publishes no checksum. Therefore the SHA-256 of the first file that loads is written next to it as
    `deezer_ego_nets.zip.sha256`, and the file is checked against it from then on.

    Parameters
    ----------
    data_home : str or path-like, default=None
        The folder of scikit-learn's data sets, by default `~/scikit_learn_data`. The file is kept in its subfolder
        `graphid`.
    zip_path : str or path-like, default=None
        Load this copy of `deezer_ego_nets.zip` instead; nothing is downloaded or written.
    min_nodes, max_nodes : int, default=None
        Leave out graphs with fewer or more nodes. The published experiments use 16 to 24 nodes.
    download_if_missing : bool, default=True
        If False, raise an OSError if the file is not in `data_home`, instead of downloading it.
    checksum : str, default=None
        The SHA-256 that the file must have, in hexadecimal.
    return_targets : bool, default=False
        Whether to return the gender of the ego users as well.

    Returns
    -------
    graphs : list of ndarray of shape (n_nodes, n_nodes)
        Adjacency matrices with entries 0. and 1., in the order of their ids.
    targets : ndarray of shape (n_graphs,)
        Gender of each ego user, 0 or 1; only if `return_targets` is True.

    References
    ----------
    B. Rozemberczki, O. Kiss, R. Sarkar: Karate Club: An API Oriented Open-source Python Framework for
    Unsupervised Learning on Graphs. CIKM 2020.

    Examples
    --------
    >>> from sklearn_graphid.datasets import fetch_deezer_ego_nets
    >>> graphs = fetch_deezer_ego_nets(min_nodes=16, max_nodes=24)  # doctest: +SKIP
    """
    if checksum is not None and (not isinstance(checksum, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", checksum)):
        raise ValueError(f"checksum is {checksum!r}; expected the 64 hexadecimal digits of a SHA-256.")
    for name, bound in (("min_nodes", min_nodes), ("max_nodes", max_nodes)):
        if bound is not None:
            check_integer(bound, name, low=0)
    if zip_path is not None:
        path = check_path(zip_path, "zip_path").expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"zip_path={str(path)!r} is not a file; expected a copy of {_ADDRESS}.")
        edges, targets = _read_zip(str(path), _read_bytes(path, checksum))
    else:
        if data_home is not None:
            check_path(data_home, "data_home")
        from sklearn.datasets import get_data_home  # which reads many formats, and takes its time to import

        path = Path(get_data_home(data_home)) / "graphid" / "deezer_ego_nets.zip"
        edges, targets = _load_cached(path, checksum, download_if_missing)
    n_nodes = np.array([pairs.max() + 1 for pairs in edges])
    fits = (n_nodes >= (min_nodes or 0)) & (n_nodes <= (np.inf if max_nodes is None else max_nodes))
    if not fits.any():
        raise ValueError(
            f"No ego-net has between min_nodes={min_nodes} and max_nodes={max_nodes} nodes; they have "
            f"{n_nodes.min()} to {n_nodes.max()}."
        )
    n_bytes = int((n_nodes[fits].astype(np.int64) ** 2).sum()) * np.dtype(np.float64).itemsize
    if n_bytes > _MOST_MATRIX_BYTES:
        raise ValueError(
            f"The ego-nets of {path} would take {n_bytes:,} bytes as matrices; expected at most "
            f"{_MOST_MATRIX_BYTES:,}. Choose fewer with min_nodes and max_nodes, or get a copy of {_ADDRESS}."
        )
    graphs = [_adjacency(edges[i], n_nodes[i]) for i in np.flatnonzero(fits)]
    return (graphs, targets[fits]) if return_targets else graphs


def _read_bytes(path: Path, checksum: str | None) -> bytes:
    check_regular_file(path, _MOST_BYTES, f"a copy of {_ADDRESS}")
    content = path.read_bytes()
    _check_digest(str(path), content, checksum)
    return content


def _check_digest(source: str, content: bytes, checksum: str | None) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if checksum is not None and digest != checksum.lower():
        raise ValueError(f"{source} has SHA-256 {digest}; expected checksum={checksum.lower()}.")


def _load_cached(
    path: Path, checksum: str | None, download_if_missing: bool
) -> tuple[list[npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    record, is_new, source = path.with_name(path.name + ".sha256"), not path.exists(), str(path)
    if is_new and not download_if_missing:
        raise OSError(f"{path} does not exist and download_if_missing is False.")
    if is_new:
        content, source = _download(path), f"The download from {_ADDRESS} to {path}"
        _check_digest(source, content, checksum)
    else:
        content = _read_bytes(path, checksum)
    digest = hashlib.sha256(content).hexdigest()
    recorded = (record.read_text().split() or ["nothing"])[0] if record.exists() else digest
    if recorded != digest:
        raise ValueError(
            f"{source} has SHA-256 {digest} but {record} says {recorded}: the file has changed since it was first "
            f"loaded. Delete both files to accept a new download."
        )
    ego_nets = _read_zip(source, content)
    # Only content that is known to be good gets a file. One that was put there by hand may stand in a folder
    # that nobody can write to; it loads, without a record.
    if is_new:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    if not record.exists():
        with suppress(OSError):
            write_atomically(record, f"{digest}  {path.name}\n".encode())
    return ego_nets


def _download(path: Path) -> bytes:
    try:
        with urlopen(_ADDRESS, timeout=60) as response:
            content: bytes = response.read(_MOST_BYTES + 1)
    except (OSError, HTTPException) as error:
        reason = str(getattr(error, "reason", error)) or type(error).__name__
        raise OSError(
            f"The Deezer ego-nets could not be downloaded from {_ADDRESS} ({reason}). Get that file "
            f"by other means and put it at {path}, or pass the path of your copy as zip_path."
        ) from None
    if len(content) > _MOST_BYTES:
        raise ValueError(f"{_ADDRESS} has more than {_MOST_BYTES:,} bytes, so it is no longer the zip of the ego-nets.")
    return content


def _read_zip(source: str, content: bytes) -> tuple[list[npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    """The edges of each network, as pairs of node numbers, and the targets, in the order of the ids."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _parse(_read_member(archive, _EDGES), _read_member(archive, _TARGETS))
    except _DAMAGE as error:
        reason = str(error)[:300]  # which may quote what the file holds
        raise ValueError(
            f"{source} is not the zip that SNAP publishes, or it is damaged ({reason}); expected a copy of {_ADDRESS}."
        ) from error


def _read_member(archive: zipfile.ZipFile, member: str) -> str:
    if member not in archive.namelist():
        raise ValueError(f"it has no member {member}")
    info = archive.getinfo(member)
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or info.file_size > _MOST_BYTES:
        raise ValueError(f"its member {member} is too large, or compressed in an unusual way")
    return archive.read(info).decode("utf-8")  # read compares the CRC that the zip holds


def _parse(edges_json: str, targets_csv: str) -> tuple[list[npt.NDArray[np.int64]], npt.NDArray[np.int64]]:
    if edges_json.count("[") + edges_json.count("{") > _MOST_LISTS:
        raise ValueError(f"{_EDGES} holds more than {_MOST_LISTS:,} lists")
    by_id = json.loads(edges_json)
    if not isinstance(by_id, dict) or not by_id:
        raise ValueError(f"{_EDGES} is no mapping from ids to lists of edges")
    header, *rows = list(csv.reader(targets_csv.splitlines())) or [[]]
    if header != ["id", "target"] or any(len(row) != 2 for row in rows):
        raise ValueError(f"{_TARGETS} is no table with the columns id and target")
    targets = {int(row[0]): int(row[1]) for row in rows}
    ids = sorted(by_id, key=int)
    missing = [key for key in ids if int(key) not in targets]
    if missing:
        raise ValueError(f"{_TARGETS} has no target for id {missing[0]}")
    edges = [_parse_edges(key, by_id[key]) for key in ids]
    return edges, np.array([targets[int(key)] for key in ids], dtype=np.int64)


def _parse_edges(key: str, raw: Any) -> npt.NDArray[np.int64]:
    edges = np.asarray(raw)
    if edges.ndim != 2 or edges.shape[1] != 2 or not len(edges) or edges.dtype.kind not in "iu":
        raise ValueError(f"id {key} has no list of edges, that is of pairs of node numbers")
    if edges.min() < 0 or edges.max() >= _MOST_NODES:
        raise ValueError(f"id {key} has a node number outside 0 to {_MOST_NODES - 1}")
    if (edges[:, 0] == edges[:, 1]).any():
        raise ValueError(f"id {key} has an edge from a node to itself")
    return edges.astype(np.int64)


def _adjacency(edges: npt.NDArray[np.int64], n_nodes: int) -> FloatArray:
    adjacency = np.zeros((n_nodes, n_nodes))
    adjacency[edges[:, 0], edges[:, 1]] = adjacency[edges[:, 1], edges[:, 0]] = 1.0
    return adjacency
