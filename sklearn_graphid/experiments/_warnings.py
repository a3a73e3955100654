"""Warnings that are collected, by many threads at once."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["recorded_warnings"]

_lock = threading.Lock()
_messages_of_thread: dict[int, list[str]] = {}
_before_recording: list[Any] = []  # empty unless some thread records; else how to undo, and how to show a warning


@contextmanager
def recorded_warnings() -> Iterator[list[str]]:
    """Collect the texts of the warnings that this thread gives.

    `warnings.catch_warnings` puts back what it found when it was entered. Two threads that overlap would undo each
    other, and the last one would leave the first one's recording behind for good. So the first thread to come changes
    the state of the process, the last one to leave puts it back, and in between every thread has its own list.
    """
    thread, messages = threading.get_ident(), list[str]()
    with _lock:
        if not _messages_of_thread:
            _start_recording()
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


def _start_recording() -> None:
    undo = warnings.catch_warnings()
    undo.__enter__()
    _before_recording[:] = [undo, warnings.showwarning]
    warnings.showwarning = _record_or_show
    warnings.simplefilter("always")
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)  # as Python itself does: they speak of code, not of a system


def _record_or_show(message: Any, category: Any, *place: Any, **more: Any) -> None:
    messages = _messages_of_thread.get(threading.get_ident())
    if messages is not None:
        messages.append(f"{category.__name__}: {message}")
    elif _before_recording:
        _before_recording[1](message, category, *place, **more)
