"""Warnings: given at the line of the caller, once for each line; and collected, by many threads at once."""

from __future__ import annotations

import math
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

__all__ = ["recorded_warnings", "warn_caller"]

_NOT_THE_CALLER = {"sklearn_graphid", "sklearn", "joblib", "contextlib", "functools"}
# What runs a task in another process or thread; whoever asked for it is not on the stack there.
_MACHINERY = {"multiprocessing", "concurrent", "threading", "runpy"}
# Workers outlive the call that they were made for, and know nothing of the next one. So they are silent for a while
# only: long enough for the folds of a quick search, and short enough for data that come later to be warned of.
_SECONDS_OF_SILENCE = 60.0
_shown: set[tuple[str, type[Warning], str, int]] = set()
_shown_in_worker: dict[tuple[str, type[Warning]], float] = {}


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest line outside of this package and scikit-learn.

    Python shows a text once for each line that it comes from, but forgets that it did whenever filters change, as
    scikit-learn changes them for every fold of a search. So it is remembered here, unless filters ask for another
    treatment. In a worker of joblib, which has no such line, texts that differ only in their numbers are shown once a
    minute.
    """
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _package(frame) in _NOT_THE_CALLER | _MACHINERY:
        level, frame = level + 1, frame.f_back
    is_default = _action(message, category, frame) == "default"
    if _package(frame) in _NOT_THE_CALLER | _MACHINERY:
        kind, now = (re.sub(r"\d+(\.\d+)?", "0", message), category), time.monotonic()
        if not is_default or now - _shown_in_worker.get(kind, -math.inf) >= _SECONDS_OF_SILENCE:
            if is_default:
                _shown_in_worker[kind] = now
            warnings.warn_explicit(message, category, "<worker>", 1, module="sklearn_graphid")
        return
    place = (message, category, frame.f_code.co_filename, frame.f_lineno)
    if is_default and not place[2].startswith("<"):  # a prompt has one line only
        if place in _shown:
            return
        _shown.add(place)
    warnings.warn(message, category, stacklevel=level)


def _package(frame: FrameType) -> str:
    """The top-level package that the code of a frame belongs to."""
    name, spec = frame.f_globals.get("__name__", ""), frame.f_globals.get("__spec__")
    if name == "__main__" and spec is not None:  # python -m, as joblib starts its workers
        name = spec.name
    return str(name).partition(".")[0]


def _action(message: str, category: type[Warning], frame: FrameType) -> str:
    """What the filters say of a warning, by the rules of `warnings.warn`."""
    module = frame.f_globals.get("__name__", "")
    for action, text, kind, place, line in warnings.filters:
        fits = issubclass(category, kind) and (not line or line == frame.f_lineno)
        if fits and (text is None or text.match(message)) and (place is None or place.match(module)):
            return str(action)
    return str(getattr(warnings, "defaultaction", "default"))


_lock = threading.Lock()
_messages_of_thread: dict[int, list[str]] = {}
_before_recording: list[Any] = []  # empty unless some thread records; else how to undo, and how to show a warning


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Collect the texts of the warnings that this thread gives.

    Two threads that overlap in `warnings.catch_warnings` would undo each other. So the first thread to come changes the
    state of the process, the last one to leave puts it back, and in between every thread has its own list.
    """
    thread, messages = threading.get_ident(), list[str]()
    with _lock:
        if not _messages_of_thread:
            undo = warnings.catch_warnings()
            undo.__enter__()
            _before_recording[:] = [undo, warnings.showwarning]
            warnings.showwarning = _record_or_show
            warnings.simplefilter("always")
            for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
                warnings.simplefilter("ignore", category)  # as Python itself does: they speak of code, not of a system
        outer = _messages_of_thread.get(thread)
        _messages_of_thread[thread] = messages
    try:
        yield messages
    finally:
        with _lock:
            if outer is None:
                del _messages_of_thread[thread]
            else:
                _messages_of_thread[thread] = outer
            if not _messages_of_thread:
                undo, _ = _before_recording
                undo.__exit__(None, None, None)
                _before_recording.clear()


def _record_or_show(message: Any, category: Any, *place: Any, **more: Any) -> None:
    messages = _messages_of_thread.get(threading.get_ident())
    if messages is not None:
        messages.append(f"{category.__name__}: {message}")
    elif _before_recording:
        _before_recording[1](message, category, *place, **more)
