"""Writing in one step: whatever goes wrong, the earlier file is there, and nothing else."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from sklearn_graphid._utils._disk import check_path, check_target, remove_partial_files, write_atomically

OLD, NEW = b"old", b"new and longer"


@pytest.fixture
def umask():
    """Set the umask for a test."""
    before = os.umask(0o022)
    yield os.umask
    os.umask(before)


@pytest.fixture
def path(tmp_path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    return path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077])
def test_a_new_file_has_the_mode_that_open_gives(tmp_path, umask, mask):
    umask(mask)
    (tmp_path / "opened").write_bytes(NEW)
    write_atomically(tmp_path / "written", NEW)
    assert mode(tmp_path / "written") == mode(tmp_path / "opened") == 0o666 & ~mask


def test_a_replaced_file_keeps_its_mode(path, umask):
    path.chmod(0o640)
    write_atomically(path, NEW)
    assert mode(path) == 0o640
    assert path.read_bytes() == NEW


def test_symbolic_links_are_followed(path, tmp_path):
    (tmp_path / "folder").mkdir()
    link, dangling = tmp_path / "folder" / "link", tmp_path / "dangling"
    link.symlink_to("../file")
    dangling.symlink_to("not_yet_there")
    write_atomically(link, NEW)
    write_atomically(dangling, NEW)
    assert link.is_symlink()
    assert dangling.is_symlink()
    assert path.read_bytes() == (tmp_path / "not_yet_there").read_bytes() == NEW


def test_links_in_a_circle_are_refused_and_stay(tmp_path):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OSError, match=r"Too many levels.*one'"):
        write_atomically(tmp_path / "one", NEW)
    assert os.readlink(tmp_path / "one") == "two"


def test_a_fifo_is_written_to_and_stays(tmp_path):
    path, received = tmp_path / "fifo", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: received.append(path.read_bytes()))
    reader.start()
    write_atomically(path, NEW)
    reader.join(10)
    assert received == [NEW]
    assert stat.S_ISFIFO(path.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_device_is_named_and_stays(tmp_path):
    (tmp_path / "link").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left on device: '.*link'"):
        write_atomically(tmp_path / "link", NEW)
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)
    assert os.listdir(tmp_path) == ["link"]


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), OSError("odd"), KeyboardInterrupt()])
def test_any_failure_leaves_the_earlier_file_and_nothing_else(path, monkeypatch, step, error):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)) as caught:
        write_atomically(path, NEW)
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == ["file"]
    if isinstance(error, OSError):
        assert str(path) in str(caught.value)
        assert "partial" not in str(caught.value)


def test_threads_that_write_one_file_do_not_meet(path):
    contents = [bytes([i]) * 10_000 for i in range(4)]
    errors = []

    def write(content: bytes) -> None:
        try:
            for _ in range(10):
                write_atomically(path, content)
        except OSError as error:
            errors.append(error)

    threads = [threading.Thread(target=write, args=(content,)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert path.read_bytes() in contents
    assert os.listdir(path.parent) == ["file"]


def test_a_long_name_is_written(tmp_path):
    path = tmp_path / ("ä" * 125)  # 250 bytes of 255
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW


@pytest.mark.parametrize("place", ["/proc/graphid", "missing/file", "file/below"])
def test_what_cannot_be_written_is_known_before(path, place):
    place = path.parent / place  # an absolute one stays as it is
    with pytest.raises(OSError, match=rf"{place}'$"):
        write_atomically(place, NEW)
    with pytest.raises(ValueError, match=rf"some_path='{place}'.*(cannot be written|there is no folder)"):
        check_target(place, "some_path")


def test_a_check_leaves_everything_as_it_is(path):
    for target in (path, path.with_name("other"), Path("/dev/null")):
        assert check_target(str(target)) == target
    with pytest.raises(ValueError, match="is a folder; expected the path of a file"):
        check_target(path.parent)
    assert os.listdir(path.parent) == ["file"]
    assert path.read_bytes() == OLD


def test_protected_file_is_not_replaced(path, monkeypatch):
    """Root may open any file, so that the refusal of the system is simulated."""
    opened = os.open

    def refuse(name, flags, *mode):
        if Path(name) == path:
            raise PermissionError(13, "Permission denied", name)
        return opened(name, flags, *mode)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(PermissionError, match=r"file'$"):
        write_atomically(path, NEW)
    assert os.listdir(path.parent) == ["file"]


def test_files_of_killed_writers_are_removed_and_others_stay(path):
    for name in (".file.0123456789abcdef.partial", ".other.0123456789abcdef.partial", ".file.txt"):
        (path.parent / name).touch()
    remove_partial_files(path)
    assert sorted(os.listdir(path.parent)) == [".file.txt", ".other.0123456789abcdef.partial", "file"]


@pytest.mark.parametrize("bad", [None, b"file"])
def test_what_is_no_path_is_refused_by_the_name_of_the_argument(bad):
    with pytest.raises(TypeError, match=f"some_path is a {type(bad).__name__}; expected the name of a file"):
        check_path(bad, "some_path")


@pytest.mark.parametrize("bad", ["", "a\0b"])
def test_names_that_no_file_can_have_are_refused(bad):
    with pytest.raises(ValueError, match=r"some_path is .*; expected the name of a file"):
        check_path(bad, "some_path")
