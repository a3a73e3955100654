"""Checks of what users hand to displays, each of which names the argument before anything is drawn."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils._numbers import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "as_numbers",
    "check_axes",
    "check_choice",
    "check_color",
    "check_flags",
    "check_linestyle",
    "check_mapping",
    "check_marker",
    "check_names",
    "check_number",
    "check_panels",
    "check_seed",
    "check_text",
    "check_vector",
]


def check_axes(ax: Any) -> Axes:
    """One matplotlib Axes."""
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(f"ax is a {type(ax).__name__}; expected a matplotlib Axes or None.")
    return ax


def check_panels(ax: Any, n_panels: int) -> list[Axes]:
    """As many matplotlib Axes as there are panels."""
    from matplotlib.axes import Axes

    if not isinstance(ax, list | tuple | np.ndarray):
        raise TypeError(f"ax is a {type(ax).__name__}; expected a matplotlib Axes, a sequence of them, or None.")
    panels = list(np.asarray(ax, dtype=object).ravel())
    if len(panels) != n_panels:
        raise ValueError(f"ax holds {len(panels)} axes; expected one, or {n_panels}, one for each panel.")
    for panel in panels:
        if not isinstance(panel, Axes):
            raise TypeError(f"ax holds a {type(panel).__name__}; expected matplotlib Axes only.")
    return panels


def check_flags(**flags: Any) -> None:
    """True or False."""
    for name, flag in flags.items():
        if not isinstance(flag, bool | np.bool_):
            raise TypeError(f"{name} is a {type(flag).__name__}; expected True or False.")


def check_choice(value: Any, name: str, choices: tuple[str, ...], otherwise: str = "") -> None:
    """One of a few words; `otherwise` says what else the caller takes."""
    if not isinstance(value, str) or value not in choices:
        shown = f"{name}={value!r}" if isinstance(value, str | int | float) else f"{name} is a {type(value).__name__}"
        words = [repr(choice) for choice in choices] + [otherwise] * bool(otherwise)
        raise ValueError(f"{shown}; expected {', '.join(words[:-1])} or {words[-1]}.")


def check_number(value: Any, name: str, expected: str, is_allowed: Callable[[float], bool]) -> float:
    """A finite number that the caller allows."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise TypeError(f"{name} is a {type(value).__name__}; expected {expected}.")
    number = float(value)
    if not math.isfinite(number) or not is_allowed(number):
        raise ValueError(f"{name}={value!r}; expected {expected}.")
    return number


def check_seed(random_state: Any) -> int | None:
    """What networkx takes for a seed."""
    if random_state is None:
        return None
    if isinstance(random_state, bool) or not isinstance(random_state, Integral):
        raise TypeError(f"random_state is a {type(random_state).__name__}; expected an int or None.")
    seed = int(random_state)
    if not 0 <= seed < 2**32:
        raise ValueError(f"random_state={seed}; expected an int from 0 to {2**32 - 1}, or None.")
    return seed


def check_text(value: Any, name: str) -> None:
    """A string or None."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a str or None.")


def check_color(value: Any, name: str) -> None:
    """What matplotlib takes for one colour."""
    from matplotlib.colors import to_rgba

    _try(to_rgba, value, name, "a matplotlib color, such as 'red', '#D55E00' or (0.8, 0.4, 0)")


def check_marker(value: Any, name: str) -> None:
    """What matplotlib takes for a marker."""
    from matplotlib.markers import MarkerStyle

    _try(MarkerStyle, value, name, "a matplotlib marker, such as 'o' or 'X'")


def check_linestyle(value: Any, name: str) -> None:
    """What matplotlib takes for a line style."""
    from matplotlib.lines import Line2D

    _try(lambda style: Line2D([], [], linestyle=style), value, name, "a matplotlib line style, such as '-' or '--'")


def _try(build: Callable[[Any], Any], value: Any, name: str, expected: str) -> None:
    # None would stand for what matplotlib's settings say, which the legend and the other parts do not follow.
    if value is None:
        raise TypeError(f"{name} is None; expected {expected}.")
    try:
        build(value)
    except (AttributeError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{name}={value!r}; expected {expected}.") from error


def check_mapping(value: Any, name: str, expected: str) -> None:
    """A mapping."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} is a {type(value).__name__}; expected {expected}.")


def check_names(names: Any, n_things: int, argument: str, thing: str) -> list[Any]:
    """A name of any type for each thing, in order."""
    # The nodes of a networkx graph are both a set and a mapping, and yet in order; a plain set is not, and the keys of
    # a plain dict are hardly the names.
    is_ordered = hasattr(names, "__len__") and hasattr(names, "__iter__")
    if not is_ordered or isinstance(names, str | bytes | dict | set | frozenset):
        raise TypeError(f"{argument} is a {type(names).__name__}; expected a sequence with a name for each {thing}.")
    listed = list(names)
    if len(listed) != n_things:
        raise ValueError(
            f"{argument} has {len(listed)} names for {n_things} {thing}s; expected {n_things}, one for each {thing}."
        )
    return listed


def as_numbers(values: Any, name: str, expected: str) -> FloatArray:
    """An array of floats of whatever shape it has."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        message = f"{name} is a {type(values).__name__} that does not convert to an array of numbers"
        raise TypeError(f"{message}; expected {expected}.") from error


def check_vector(values: Any, n_parameters: int, name: str) -> FloatArray | None:
    """A finite number for each parameter, or None."""
    if values is None:
        return None
    expected = f"({n_parameters},), one for each parameter"
    vector = np.atleast_1d(as_numbers(values, name, f"numbers of shape {expected}"))
    if vector.shape != (n_parameters,):
        raise ValueError(f"{name} has shape {vector.shape}; expected {expected}.")
    if not np.isfinite(vector).all():
        raise ValueError(f"{name} holds {vector[~np.isfinite(vector)][0]}; expected finite numbers.")
    return vector
