"""Checks of arguments that are numbers: the message names the argument, what came and what was expected."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import check_random_state as _check_random_state

from ._libraries import Interval

__all__ = [
    "RANDOM_STATE",
    "SQUARED_IN_SINGLE",
    "FloatArray",
    "NumberInterval",
    "check_flag",
    "check_integer",
    "check_number",
    "check_numeric",
    "check_random_state",
    "check_real_array",
]

FloatArray = npt.NDArray[np.float64]

# Samplers compute in single precision, where squares of numbers beyond these overflow or vanish.
SQUARED_IN_SINGLE = (1e-15, 1e15)


class NumberInterval(Interval):
    """scikit-learn's constraint of a parameter to an interval, which True and False do not meet."""

    def is_satisfied_by(self, val: Any) -> bool:
        """Whether the value is a number in the interval."""
        return not isinstance(val, bool) and bool(super().is_satisfied_by(val))


# For `_parameter_constraints`: scikit-learn's "random_state", which takes True for the seed 1.
RANDOM_STATE = [NumberInterval(Integral, 0, 2**32 - 1, closed="both"), np.random.RandomState, None]


def check_random_state(random_state: Any) -> np.random.RandomState:
    """Return a generator as scikit-learn's function of this name does, and refuse True and False."""
    if isinstance(random_state, bool):
        raise TypeError(f"random_state={random_state!r}; expected an integer, a RandomState or None.")
    checked: np.random.RandomState = _check_random_state(random_state)
    return checked


def check_integer(value: Any, name: str, *, low: int, high: int | None = None, low_name: str = "") -> int:
    """Return an integer between `low` and `high`, both included; `low_name` is the argument that sets `low`."""
    most = "" if high is None else f" and at most {high:,}"
    expected = f"expected an integer of at least {low_name and low_name + '='}{low}{most}."
    _check_is_number(value, name, expected)
    if not isinstance(value, Integral) or int(value) < low or (high is not None and int(value) > high):
        raise ValueError(f"{name}={value!r}; {expected}")
    return int(value)


def check_number(
    value: Any,
    name: str,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    positive: bool = False,
    strict: bool = False,
) -> float:
    """Return a finite number between `low` and `high`, above zero if `positive`, and neither bound if `strict`.

    The error message calls it `name`, which may start with the class that got it.
    """
    if positive:
        most = f" of at most {high:g}" if math.isfinite(high) else ", and a finite one"
        expected = f"expected a positive number{most}."
    elif math.isfinite(low) and math.isfinite(high):
        expected = f"expected a number {'strictly ' if strict else ''}between {low:g} and {high:g}."
    else:
        expected = "expected a finite number" + (f" of at least {low:g}." if math.isfinite(low) else ".")
    _check_is_number(value, name, expected)
    try:
        number = float(value)
    except OverflowError:  # an integer beyond all floats
        number = math.inf
    is_end = (strict and number in (low, high)) or (positive and number <= 0)
    if not (math.isfinite(number) and low <= number <= high) or is_end:
        raise ValueError(f"{name}={value!r}; {expected}")
    return number


def _check_is_number(value: Any, name: str, expected: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}={value!r}; {expected}")


def check_flag(value: Any, name: str) -> bool:
    """Return True or False, and refuse what merely counts as one of them."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name}={value!r}; expected True or False.")
    return bool(value)


def check_numeric(values: Any, name: str, *, kinds: str = "biuf") -> None:
    """Refuse arrays of dates, words, complex numbers and other objects, which numpy may turn into real numbers.

    `kinds` are the kinds of numpy types that are fine; an array of objects that are all real numbers is, too.
    """
    try:
        array = values if sparse.issparse(values) else np.asarray(values)
    except (ValueError, RuntimeError) as error:  # lists of different lengths, tensors that require gradients
        raise ValueError(f"{name} does not convert to an array ({error}); expected real numbers.") from error
    kind = array.dtype.kind
    if kind == "O" and all(isinstance(value, Real) for value in array.flat):
        return
    if kind not in kinds:
        raise TypeError(f"{name} has the type {array.dtype}; expected real numbers.")


def check_real_array(values: Any, name: str) -> FloatArray:
    """Return a new array of finite floats, of the shape that came."""
    check_numeric(values, name, kinds="iuf")
    try:
        array = np.ma.filled(np.ma.array(values, dtype=np.float64), np.nan)
    except OverflowError as error:  # an integer beyond all floats
        raise ValueError(f"{name} holds an integer that is too large; expected finite numbers.") from error
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds the value {array[~np.isfinite(array)][0]:g}; expected finite numbers.")
    return np.array(array, dtype=np.float64)
