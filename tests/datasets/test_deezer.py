"""Loading the ego-nets: cache, checksums and damage, on small zips of the same layout; never the network."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from http.client import IncompleteRead
from pathlib import Path
from urllib.error import HTTPError, URLError

import numpy as np
import pytest

from sklearn_graphid.datasets import _deezer, fetch_deezer_ego_nets
from sklearn_graphid.graphs._matrices import check_graphs

REAL_ZIP = Path(__file__).parents[2].parent / "shared/data/deezer_ego_nets.zip"
ADDRESS = "https://snap.stanford.edu/data/deezer_ego_nets.zip"

# Out of order on purpose, and "10" sorts before "2" as text.
EDGES = {"10": [[0, 1], [1, 2], [2, 3]], "2": [[0, 1]], "0": [[0, 1], [0, 2], [2, 1]]}
TARGETS = "id,target\n0,1\n2,0\n10,1\n"


def zip_bytes(edges=EDGES, targets=TARGETS, folder="deezer_ego_nets/", compression=zipfile.ZIP_DEFLATED):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        archive.writestr(f"{folder}deezer_edges.json", edges if isinstance(edges, str) else json.dumps(edges))
        archive.writestr(f"{folder}deezer_target.csv", targets)
    return buffer.getvalue()


def sha256(content):
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def small_zip(tmp_path):
    path = tmp_path / "small.zip"
    path.write_bytes(zip_bytes())
    return path


@pytest.fixture
def server(monkeypatch):
    """What stands in for SNAP: sends `content`, or raises `error`, and counts the requests."""

    class Server:
        content = zip_bytes()
        error = None
        requests = 0

        def urlopen(self, address, timeout):
            assert address == ADDRESS
            assert timeout > 0
            self.requests += 1
            if self.error is not None:
                raise self.error
            return io.BytesIO(self.content)

    stand_in = Server()
    monkeypatch.setattr(_deezer, "urlopen", stand_in.urlopen)
    return stand_in


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a test tried to reach the network")

    monkeypatch.setattr(_deezer, "urlopen", refuse)


@pytest.fixture
def cached(tmp_path):
    """Where the zip lives below data_home."""
    return tmp_path / "graphid" / "deezer_ego_nets.zip"


def files_below(folder):
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


# Reading


def test_graphs_come_in_the_order_of_their_ids(small_zip):
    graphs, targets = fetch_deezer_ego_nets(zip_path=small_zip, return_targets=True)
    assert [len(graph) for graph in check_graphs(graphs)] == [3, 2, 4]
    np.testing.assert_array_equal(graphs[0], 1 - np.eye(3))
    np.testing.assert_array_equal(graphs[2], np.eye(4, k=1) + np.eye(4, k=-1))
    np.testing.assert_array_equal(targets, [1, 0, 1])
    assert targets.dtype.kind == "i"


@pytest.mark.parametrize(
    ("bounds", "sizes"),
    [({"min_nodes": 3}, [3, 4]), ({"max_nodes": 3}, [3, 2]), ({"min_nodes": 3, "max_nodes": 3}, [3])],
)
def test_bounds_on_the_number_of_nodes_are_inclusive(small_zip, bounds, sizes):
    graphs, targets = fetch_deezer_ego_nets(zip_path=str(small_zip), return_targets=True, **bounds)
    assert [len(graph) for graph in graphs] == sizes
    assert len(targets) == len(graphs)


def test_bounds_that_leave_nothing_are_refused(small_zip):
    with pytest.raises(ValueError, match="No ego-net has between min_nodes=5 and max_nodes=9 nodes; they have 2 to 4"):
        fetch_deezer_ego_nets(zip_path=small_zip, min_nodes=5, max_nodes=9)


def test_a_local_zip_leaves_nothing_on_disk(small_zip):
    fetch_deezer_ego_nets(zip_path=small_zip)
    assert files_below(small_zip.parent) == ["small.zip"]


def test_a_local_zip_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"zip_path='.*absent\.zip' is not a file"):
        fetch_deezer_ego_nets(zip_path=tmp_path / "absent.zip")


# Cache


def test_first_use_downloads_and_later_uses_do_not(tmp_path, cached, server):
    first = fetch_deezer_ego_nets(data_home=tmp_path)
    second = fetch_deezer_ego_nets(data_home=tmp_path)
    assert server.requests == 1
    assert cached.read_bytes() == server.content
    for one, same in zip(first, second, strict=True):
        np.testing.assert_array_equal(one, same)


def test_data_home_is_scikit_learns(tmp_path, cached, server, monkeypatch):
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    fetch_deezer_ego_nets()
    assert cached.exists()


def test_the_digest_is_recorded_beside_the_zip(tmp_path, cached, server):
    fetch_deezer_ego_nets(data_home=tmp_path)
    # The format of the sha256sum tool, so that `sha256sum -c` works.
    record = cached.with_name("deezer_ego_nets.zip.sha256").read_text()
    assert record == f"{sha256(server.content)}  deezer_ego_nets.zip\n"
    assert files_below(tmp_path) == ["deezer_ego_nets.zip", "deezer_ego_nets.zip.sha256"]


def test_a_zip_put_there_by_hand_is_used_and_recorded(tmp_path, cached):
    cached.parent.mkdir()
    cached.write_bytes(zip_bytes())
    assert len(fetch_deezer_ego_nets(data_home=tmp_path, download_if_missing=False)) == 3
    assert sha256(zip_bytes()) in cached.with_name("deezer_ego_nets.zip.sha256").read_text()


def test_a_cache_that_cannot_be_written_to_still_loads(tmp_path, cached, monkeypatch):
    cached.parent.mkdir()
    cached.write_bytes(zip_bytes())

    def read_only(*args, **kwargs):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(_deezer, "write_atomically", read_only)
    assert len(fetch_deezer_ego_nets(data_home=tmp_path)) == 3


@pytest.mark.parametrize("delete_zip", [False, True])
def test_a_zip_that_changed_since_the_first_load_is_refused(tmp_path, cached, server, delete_zip):
    fetch_deezer_ego_nets(data_home=tmp_path)
    changed = zip_bytes(edges={"0": [[0, 1]]})
    if delete_zip:
        server.content = changed
        cached.unlink()
    else:
        cached.write_bytes(changed)
    with pytest.raises(ValueError, match=f"(?s)graphid.*{sha256(changed)}.*has changed since it was first loaded"):
        fetch_deezer_ego_nets(data_home=tmp_path)
    assert cached.exists() is not delete_zip


def test_an_empty_record_is_refused(tmp_path, cached, server):
    fetch_deezer_ego_nets(data_home=tmp_path)
    cached.with_name("deezer_ego_nets.zip.sha256").write_text("")
    with pytest.raises(ValueError, match="says nothing"):
        fetch_deezer_ego_nets(data_home=tmp_path)


def test_missing_file_without_download(tmp_path):
    with pytest.raises(OSError, match=r"deezer_ego_nets\.zip does not exist and download_if_missing is False"):
        fetch_deezer_ego_nets(data_home=tmp_path, download_if_missing=False)


# Checksums


def test_checksum_may_be_demanded(tmp_path, small_zip, server):
    right = sha256(zip_bytes())
    assert len(fetch_deezer_ego_nets(zip_path=small_zip, checksum=right.upper())) == 3
    assert len(fetch_deezer_ego_nets(data_home=tmp_path, checksum=right)) == 3


def test_a_wrong_checksum_keeps_nothing(tmp_path, small_zip, server):
    with pytest.raises(ValueError, match=rf"small\.zip has SHA-256 {sha256(zip_bytes())}; expected checksum=0000"):
        fetch_deezer_ego_nets(zip_path=small_zip, checksum="0" * 64)
    with pytest.raises(ValueError, match=f"The download from {ADDRESS} .* expected checksum=0000"):
        fetch_deezer_ego_nets(data_home=tmp_path, checksum="0" * 64)
    assert files_below(tmp_path) == ["small.zip"]


@pytest.mark.parametrize("checksum", ["abc", "g" * 64, ""])
def test_a_checksum_that_is_none_is_refused(small_zip, checksum):
    with pytest.raises(ValueError, match="64 hexadecimal digits of a SHA-256"):
        fetch_deezer_ego_nets(zip_path=small_zip, checksum=checksum)


# Downloads that fail


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (URLError(OSError(-2, "Name or service not known")), "Name or service not known"),
        (HTTPError(ADDRESS, 404, "Not Found", None, None), "Not Found"),
        (TimeoutError("timed out"), "timed out"),
        (IncompleteRead(b"half"), "IncompleteRead"),
    ],
)
def test_offline_says_what_to_do(tmp_path, cached, server, error, reason):
    server.error = error
    with pytest.raises(OSError, match="could not be downloaded") as caught:
        fetch_deezer_ego_nets(data_home=tmp_path)
    message = str(caught.value)
    for part in (ADDRESS, str(cached), "zip_path", reason):
        assert part in message
    assert "urlopen" not in message
    assert caught.value.__suppress_context__  # the traceback shows no inner workings
    assert files_below(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"<html>please log in</html>", zip_bytes()[:-40]])
def test_a_download_of_something_else_is_not_kept(tmp_path, server, content):
    server.content = content
    with pytest.raises(ValueError, match=f"The download from {ADDRESS} to .* is not the zip that SNAP publishes"):
        fetch_deezer_ego_nets(data_home=tmp_path)
    assert files_below(tmp_path) == []


def test_an_interrupted_write_leaves_no_half_file(tmp_path, server, monkeypatch):
    def interrupt(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        fetch_deezer_ego_nets(data_home=tmp_path)
    assert files_below(tmp_path) == []


# Zips that are not the one


def with_one_byte_of_data_changed():
    """Same length, same directory, other data: only the CRC can tell."""
    content = bytearray(zip_bytes(compression=zipfile.ZIP_STORED))
    content[content.index(b"[[0, 1]]") + 2] = ord("2")
    return bytes(content)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"not a zip", "File is not a zip file"),
        (with_one_byte_of_data_changed(), "Bad CRC-32"),
        (zip_bytes(folder=""), "no member deezer_ego_nets/deezer_edges.json"),
        (zip_bytes(folder="other/"), "no member deezer_ego_nets/deezer_edges.json"),
        (zip_bytes(compression=zipfile.ZIP_BZIP2), "compressed in an unusual way"),
        (zip_bytes(edges="{"), "Expecting property name"),
        (zip_bytes(edges=[]), "no mapping from ids"),
        (zip_bytes(edges={}), "no mapping from ids"),
        (zip_bytes(edges={"a": [[0, 1]]}), "invalid literal for int"),
        (zip_bytes(edges={"0": []}), "id 0 has no list of edges"),
        (zip_bytes(edges={"0": [[0, 1, 2]]}), "id 0 has no list of edges"),
        (zip_bytes(edges={"0": [[0, 1], [2]]}), "inhomogeneous"),
        (zip_bytes(edges={"0": [[0.5, 1]]}), "id 0 has no list of edges"),
        (zip_bytes(edges={"0": [[0, 10**30]]}), "id 0 has no list of edges"),
        (zip_bytes(edges={"0": [[0, 10**9]]}), "id 0 has a node number outside"),
        (zip_bytes(edges={"0": [[0, -1]]}), "id 0 has a node number outside"),
        (zip_bytes(edges={"0": [[0, 1], [1, 1]]}), "id 0 has an edge from a node to itself"),
        (zip_bytes(targets="id,target\n0,1\n2,0\n"), "no target for id 10"),
        (zip_bytes(targets="id,gender\n0,1\n"), "no table with the columns id and target"),
        (zip_bytes(targets=""), "no table with the columns id and target"),
        (zip_bytes(targets="id,target\n0\n"), "no table with the columns id and target"),
        (zip_bytes(targets=f"id,target\n0,{'1' * 200_000}\n"), "field larger than field limit"),
        (zip_bytes(edges="[" * 100_000), "recursion"),
        (zip_bytes(edges='{"0": [' + "[]," * 2_000_000 + "[]]}"), "more than 2,000,000 lists"),
        (zip_bytes(targets=f"id,target\n0,{10**30}\n2,0\n10,1\n"), "too large"),
    ],
)
def test_a_foreign_or_damaged_zip_is_refused_by_name(tmp_path, content, message):
    path = tmp_path / "foreign.zip"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"(?s)foreign\.zip is not the zip that SNAP publishes.*{message}"):
        fetch_deezer_ego_nets(zip_path=path)


@pytest.mark.parametrize("name", ["min_nodes", "max_nodes"])
@pytest.mark.parametrize("bound", ["5", 1.5, True, np.nan, [5], np.float64(5)])
def test_bounds_that_are_no_integers_are_refused_before_any_work(name, bound):
    with pytest.raises((TypeError, ValueError), match=rf"{name}=.*; expected an integer of at least 0"):
        fetch_deezer_ego_nets(**{name: bound})


def test_other_arguments_that_make_no_sense_are_refused_by_name(small_zip):
    with pytest.raises(ValueError, match="min_nodes=-1; expected an integer of at least 0"):
        fetch_deezer_ego_nets(min_nodes=-1)
    with pytest.raises(TypeError, match="zip_path is a int; expected the name of a file"):
        fetch_deezer_ego_nets(zip_path=3)
    with pytest.raises(TypeError, match="data_home is a int; expected the name of a file"):
        fetch_deezer_ego_nets(data_home=3)
    with pytest.raises(ValueError, match="checksum is 3; expected the 64 hexadecimal digits"):
        fetch_deezer_ego_nets(zip_path=small_zip, checksum=3)
    assert len(fetch_deezer_ego_nets(zip_path=small_zip, min_nodes=np.int64(3))) == 2


def test_matrices_beyond_any_sense_are_not_built(tmp_path, monkeypatch):
    """Twenty stars of 9,999 nodes have a few lines of text and sixteen gigabytes of matrices."""
    path, ids = tmp_path / "stars.zip", range(20)
    edges = {str(i): [[0, 9_999]] for i in ids}
    path.write_bytes(zip_bytes(edges=edges, targets="id,target\n" + "".join(f"{i},0\n" for i in ids)))
    monkeypatch.setattr(_deezer, "_adjacency", None)  # to build one would be a TypeError
    with pytest.raises(ValueError, match=r"stars\.zip.* would take 16,000,000,000 bytes as matrices"):
        fetch_deezer_ego_nets(zip_path=path)


def test_large_members_and_files_are_refused_unread(tmp_path):
    """Spaces compress a thousandfold, and JSON allows any number of them."""
    path = tmp_path / "spaces.zip"
    path.write_bytes(zip_bytes(edges=" " * 20 * 2**20))
    with pytest.raises(ValueError, match=r"spaces\.zip .*too large"):
        fetch_deezer_ego_nets(zip_path=path)
    with path.open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match=r"spaces\.zip' has 1,099,511,627,776 bytes; expected"):
        fetch_deezer_ego_nets(zip_path=path)


def test_a_download_without_end_is_cut_off(tmp_path, server, monkeypatch):
    monkeypatch.setattr(_deezer, "_MOST_BYTES", 100)
    with pytest.raises(ValueError, match="has more than 100 bytes"):
        fetch_deezer_ego_nets(data_home=tmp_path)
    assert files_below(tmp_path) == []


def test_members_beyond_any_sense_are_refused_unread(small_zip, monkeypatch):
    monkeypatch.setattr(_deezer, "_MOST_BYTES", 10)
    monkeypatch.setattr(_deezer, "check_regular_file", lambda *arguments: None)
    with pytest.raises(ValueError, match="too large"):
        fetch_deezer_ego_nets(zip_path=small_zip)


def test_no_damage_gives_another_kind_of_error(tmp_path):
    """Whichever byte is changed, the file loads as before or is refused with a ValueError."""
    path, whole = tmp_path / "damaged.zip", zip_bytes()
    rng = np.random.default_rng(0)
    n_refused = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            sizes = [len(graph) for graph in fetch_deezer_ego_nets(zip_path=path)]
        except ValueError:
            n_refused += 1
        else:
            assert sizes == [3, 2, 4]
    assert n_refused > len(whole) / 3


def test_no_truncation_loads(tmp_path):
    path, whole = tmp_path / "damaged.zip", zip_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"damaged\.zip"):
            fetch_deezer_ego_nets(zip_path=path)


@pytest.mark.skipif(not REAL_ZIP.exists(), reason="the published collection is not at hand")
def test_the_published_collection():
    graphs, targets = fetch_deezer_ego_nets(zip_path=REAL_ZIP, return_targets=True)
    assert len(graphs) == 9_529
    assert set(targets.tolist()) == {0, 1}
    assert sum(16 <= len(graph) <= 24 for graph in graphs) == 2_926
    assert len(fetch_deezer_ego_nets(zip_path=REAL_ZIP, min_nodes=16, max_nodes=24)) == 2_926
    assert all(graph.sum(0).max() == len(graph) - 1 for graph in graphs)  # the ego is connected to all
