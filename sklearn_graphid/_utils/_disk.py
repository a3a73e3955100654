"""Files: checks of a path before reading or writing, and writing in one step."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

__all__ = ["check_path", "check_regular_file", "check_writable", "remove_partial_files", "write_atomically"]

_PARTIAL = ".partial"
# A file name may have 255 bytes and a character up to four; this leaves room for the rest of the temporary name.
_LONGEST_STEM = 50


def check_path(path: Any, name: str = "path") -> Path:
    """Return what a user named as a file, or raise an error that names the argument."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise TypeError(f"{name} is a {type(path).__name__}; expected the name of a file, a str or a Path.")
    text = os.fspath(path)
    if not text or "\0" in text:
        raise ValueError(f"{name} is {'empty' if not text else repr(text)}; expected the name of a file.")
    return Path(path)


def check_regular_file(path: Path, most_bytes: int, kind: str) -> int:
    """Return the size of a file, before it is opened; reading a fifo or a device may never end."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(errno.ENOENT, "there is no such file", str(path)) from None
    if stat.S_ISDIR(status.st_mode):
        raise ValueError(f"{str(path)!r} is a folder; expected {kind}.")
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{str(path)!r} is not a regular file; expected {kind}.")
    if status.st_size > most_bytes:
        raise ValueError(f"{str(path)!r} has {status.st_size:,} bytes; expected {kind} of at most {most_bytes:,}.")
    return status.st_size


def check_writable(path: Path) -> None:
    """Raise the OSError that `write_atomically` would raise, and leave everything as it is.

    It really tries, as permission bits say nothing about root, read-only file systems and folders that were removed.
    """
    with _naming(path):
        if _is_special(path):
            return
        target = _real_target(path)
        descriptor, partial = _create_partial(target)
        os.close(descriptor)
        partial.unlink()


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file in one step: whenever the process dies, the old file is there, or the new one.

    Symbolic links are followed, as `open` does. A new file gets the mode that `open` would give it, a file that is
    replaced keeps its own. What is not a regular file, such as a device or a fifo, is written to directly. On failure
    the earlier file is untouched, and the OSError names `path`.

    Parameters
    ----------
    path : str or path-like
        The file.
    content : bytes
        What it should hold.
    """
    path = Path(path)
    with _naming(path):
        if _is_special(path):
            with path.open("wb") as file:
                file.write(content)
        else:
            _replace(_real_target(path), content)


def remove_partial_files(path: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote this file."""
    target = Path(os.path.realpath(path))
    prefix = _partial_prefix(target)
    for name in os.listdir(target.parent):
        if name.startswith(prefix) and name.endswith(_PARTIAL):
            (target.parent / name).unlink(missing_ok=True)


def _replace(target: Path, content: bytes) -> None:
    descriptor, partial = _create_partial(target)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileNotFoundError):  # a new file keeps the mode that it was created with
            partial.chmod(stat.S_IMODE(target.stat().st_mode))
        os.replace(partial, target)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


def _create_partial(target: Path) -> tuple[int, Path]:
    """Create a temporary file beside the target; its name is unique, as several threads may write at once."""
    if target.exists():
        # Replacing a file takes no right to write to it, but a file that is protected should stay.
        os.close(os.open(target, os.O_WRONLY))
    while True:
        partial = target.with_name(f"{_partial_prefix(target)}{secrets.token_hex(8)}{_PARTIAL}")
        with suppress(FileExistsError):
            # Not tempfile.mkstemp: its files are private, and the umask cannot be read without setting it.
            return os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), partial


def _partial_prefix(target: Path) -> str:
    return f".{target.name[:_LONGEST_STEM]}."


def _is_special(path: Path) -> bool:
    """Whether there is something else than a regular file; a folder too, which `open` then refuses."""
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def _real_target(path: Path) -> Path:
    target = Path(os.path.realpath(path))
    if target.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    return target


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Let an OSError name the path that the user gave, rather than a temporary file."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise OSError(f"{str(path)!r} cannot be written: {error}") from error
        raise OSError(error.errno, error.strerror, str(path)) from error
