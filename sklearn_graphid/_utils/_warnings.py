"""Warnings that point to the line of the caller, and come once for each line."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

__all__ = ["warn_caller"]

_NOT_THE_CALLER = {"sklearn_graphid", "sklearn", "joblib", "contextlib", "functools"}
_shown: set[tuple[str, type[Warning], str, int]] = set()


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the nearest line outside of this package and scikit-learn.

    Python shows a text once for each line that it comes from, but forgets that it did whenever filters change, as
    scikit-learn changes them for every fold of a search. So it is remembered here. Where filters ask for another
    treatment ("always", "error", "ignore"), they get it.
    """
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _NOT_THE_CALLER:
        level, frame = level + 1, frame.f_back
    place = (message, category, frame.f_code.co_filename, frame.f_lineno)
    if _action(message, category, frame) == "default" and not place[2].startswith("<"):  # a prompt has one line only
        if place in _shown:
            return
        _shown.add(place)
    warnings.warn(message, category, stacklevel=level)


def _action(message: str, category: type[Warning], frame: FrameType) -> str:
    """What the filters say of a warning, by the rules of `warnings.warn`."""
    module = frame.f_globals.get("__name__", "")
    for action, text, kind, place, line in warnings.filters:
        fits = issubclass(category, kind) and (not line or line == frame.f_lineno)
        if fits and (text is None or text.match(message)) and (place is None or place.match(module)):
            return str(action)
    return str(getattr(warnings, "defaultaction", "default"))
