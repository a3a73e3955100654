"""Other libraries: parts of scikit-learn that are private or new, its progress bar, and libraries that are optional.

Private and experimental parts of scikit-learn are imported here and nowhere else: when a release moves one of them,
this is the file to change.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.base import _fit_context as fit_context
from sklearn.callback import CallbackSupportMixin, ProgressBar, with_callbacks
from sklearn.utils._param_validation import Interval, StrOptions

__all__ = [
    "VERBOSE",
    "CallbackSupportMixin",
    "Interval",
    "LateProgressBar",
    "ProgressBar",
    "StrOptions",
    "announce",
    "fit_context",
    "is_networkx",
    "require",
    "shown_progress",
    "with_callbacks",
]

_AUTO = "auto"
# For `_parameter_constraints`.
VERBOSE = ["boolean", StrOptions({_AUTO})]


def is_networkx(value: Any) -> bool:
    """Whether it is a networkx graph; where nobody has imported networkx yet, nothing is."""
    graph_class = getattr(sys.modules.get("networkx"), "Graph", None)
    return graph_class is not None and isinstance(value, graph_class)


def require(library: str, caller: str) -> None:
    """Raise an ImportError that says how to get an optional library, before any work is done."""
    try:
        with np.printoptions():  # on import wntr sets how numpy prints arrays, which is for the user to choose
            import_module(library)
    except ImportError as error:
        extras = {"arviz": "diagnostics", "matplotlib": "plot", "pandas": "pandas", "rich": "progress"}
        extra = extras.get(library, "real")
        raise ImportError(
            f'{caller} needs {library}, which is not installed: pip install "sklearn-graphid[{extra}]"'
        ) from error


@contextmanager
def shown_progress(estimator: Any) -> Iterator[None]:
    """Show progress bars while an estimator fits that tells callbacks of its progress, as its `verbose` says."""
    callbacks = list(getattr(estimator, "_skl_callbacks", ()))
    bar = None if any(isinstance(callback, ProgressBar) for callback in callbacks) else _bar_for(estimator)
    if bar is None:
        yield
        return
    estimator.set_callbacks(*callbacks, bar)
    try:
        yield
    finally:  # scikit-learn has noted which callbacks it has to tear down
        estimator.set_callbacks(*callbacks)


def announce(estimator: Any, text: str) -> None:
    """Print a line about a fit that begins, where its progress is shown or would be."""
    verbose, is_part = getattr(estimator, "verbose", False), hasattr(estimator, "_parent_callback_ctx")
    if not is_part and (_has_terminal() if verbose == _AUTO else verbose):
        print(f"{type(estimator).__name__}: {text}", flush=True)


def _bar_for(estimator: Any) -> Any:
    verbose = getattr(estimator, "verbose", False)
    # In a search or a pipeline, the progress of the whole is what counts, and callbacks are set on the whole.
    is_part = hasattr(estimator, "_parent_callback_ctx")
    if verbose == _AUTO:
        return LateProgressBar() if not is_part and _has_terminal() and find_spec("rich") is not None else None
    if not verbose or is_part:
        return None
    require("rich", "verbose=True")
    return ProgressBar()


def _has_terminal() -> bool:
    """Whether a person is looking: not at the output of a worker, nor at a file."""
    is_main = multiprocessing.parent_process() is None and threading.current_thread() is threading.main_thread()
    return is_main and sys.stdout is not None and sys.stdout.isatty()


class LateProgressBar:
    """scikit-learn's progress bar, which appears only once a fit has taken some seconds; workers have none."""

    patience = 5.0  # seconds after which a fit is long enough to show its progress without being asked to

    def __init__(self) -> None:
        self._bar: ProgressBar | None = None
        self._began = float("inf")  # until `setup`, which a copy in a worker never sees
        self._kept: list[tuple[str, Any, Any]] = []
        self._root: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(LateProgressBar())

    def setup(self, estimator: Any, context: Any) -> None:
        """Start the clock."""
        self._began, self._root = time.monotonic(), context

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Show that a task begins, if it is time."""
        self._tell("on_fit_task_begin", estimator, context)

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Show that a task is over, if it is time."""
        self._tell("on_fit_task_end", estimator, context)

    def teardown(self, estimator: Any, context: Any) -> None:
        """Take the bar down, if there is one."""
        if self._bar is not None:
            self._bar.teardown(estimator, context)

    def _tell(self, event: str, estimator: Any, context: Any) -> None:
        if self._root is None:
            return
        self._kept.append((event, estimator, context))
        if time.monotonic() - self._began < self.patience:
            return
        if self._bar is None:
            self._bar = ProgressBar()
            self._bar.setup(estimator, self._root)
        for name, *arguments in self._kept:
            getattr(self._bar, name)(*arguments)
        self._kept.clear()
