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

__all__ = ["check_path", "check_regular_file", "check_target", "refusing", "remove_partial_files", "write_atomically"]


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
    if not stat.S_ISREG(status.st_mode):
        what = "a folder" if stat.S_ISDIR(status.st_mode) else "not a regular file"
        raise ValueError(f"{str(path)!r} is {what}; expected {kind}.")
    if status.st_size > most_bytes:
        raise ValueError(f"{str(path)!r} has {status.st_size:,} bytes; expected {kind} of at most {most_bytes:,}.")
    return status.st_size


@contextmanager
def refusing(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn whatever goes wrong with the content of a file into a ValueError that names the file."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else str(error)[:500]
        raise ValueError(f"{str(path)!r} does not describe a {kind} that this release knows: {reason}") from error


def check_target(path: Any, name: str = "path") -> Path:
    """Return where a user wants a file written; ValueError where `write_atomically` could not write it."""
    target = check_path(path, name)
    if target.is_dir():
        raise ValueError(f"{name}={str(target)!r} is a folder; expected the path of a file.")
    if not target.parent.is_dir():
        raise ValueError(f"{name}={str(target)!r}: there is no folder {str(target.parent)!r}; make it first.")
    if not _is_device(target):
        try:  # permission bits say nothing about root, or about file systems that are read-only
            descriptor, partial = _create_partial(target)
        except OSError as error:
            raise ValueError(f"{name}={str(target)!r} cannot be written ({error.strerror or error}).") from error
        os.close(descriptor)
        partial.unlink()
    return target


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file in one step: whenever the process dies, the old file is there, or the new one.

    Symbolic links are followed. A new file gets the mode that `open` would give it, a file that is replaced keeps its
    own. On failure the earlier file is untouched, and the OSError names `path`. Devices and fifos are written directly.
    """
    try:
        if _is_device(path):
            path.write_bytes(content)
            return
        descriptor, partial = _create_partial(path)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            with suppress(FileNotFoundError):  # a new file keeps the mode that it was created with
                partial.chmod(stat.S_IMODE(path.stat().st_mode))
            os.replace(partial, os.path.realpath(path))
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def remove_partial_files(path: Path) -> None:
    """Remove the temporary files of processes that were killed while they wrote this file."""
    target = Path(os.path.realpath(path))
    for other in target.parent.iterdir():
        if other.name.startswith(_partial_prefix(target)) and other.suffix == ".partial":
            other.unlink(missing_ok=True)


def _create_partial(path: Path) -> tuple[int, Path]:
    """Open a temporary file beside the target; its name is unique, as several threads may write at once."""
    target = Path(os.path.realpath(path))
    with suppress(FileNotFoundError):
        # Replacing a file takes no right to write to it, but a file that is protected should stay.
        os.close(os.open(target, os.O_WRONLY))
    partial = target.with_name(f"{_partial_prefix(target)}{secrets.token_hex(8)}.partial")
    # Not tempfile.mkstemp: its files are private, and the umask cannot be read without setting it.
    return os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666), partial


def _partial_prefix(target: Path) -> str:
    # A file name may have 255 bytes and a character up to four; this leaves room for the rest of the name.
    return f".{target.name[:50]}."


def _is_device(path: Path) -> bool:
    return path.exists() and not path.is_file() and not path.is_dir()
