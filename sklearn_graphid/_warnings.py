"""Warnings that point to the line of the caller, however many wrappers are in between."""

from __future__ import annotations

import sys
import warnings

__all__ = ["warn_caller"]

_NOT_THE_CALLER = {"sklearn_graphid", "sklearn", "joblib", "contextlib", "functools"}


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest line outside of this package and scikit-learn.

    Python shows a text once for each place that it comes from, so that a search over many folds, which one line of the
    user's starts, shows it once.
    """
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_CALLER:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)
