"""Legible names along an axis: turned where they are long, and only the most important where there are many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.isotonic import isotonic_regression

from .._utils._numbers import FloatArray
from ._labels import label_sizes
from ._names import LITERAL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["name_ticks", "spread"]

_FONT_SIZE = 8.0
_GAP = 3.0  # points between two names
_LONGEST_NUMBER = 3  # characters


def name_ticks(ax: Axes, names: Sequence[str], importance: FloatArray | None = None) -> None:
    """Write the names of the places 0, 1, ... under an axis whose limits are set.

    Where there is no room for all, those of most importance are written; without `importance`, every second or third.
    """
    sizes = label_sizes(names, _FONT_SIZE)
    low, high = ax.get_xlim()
    figure: Any = ax.figure
    points_per_place = 72 * ax.get_window_extent().width / figure.dpi / (high - low)
    width, height = sizes.max(0)
    # Numbers are not turned: fewer of them say as much.
    is_turned = width + _GAP > points_per_place and max(map(len, names)) > _LONGEST_NUMBER
    distance = (height + _GAP / 2 if is_turned else width + _GAP) / points_per_place
    shown = _spaced(len(names), float(distance), importance)
    look: dict[str, Any] = {"rotation": 90 if is_turned else 0, "fontsize": _FONT_SIZE, **LITERAL}
    ax.set_xticks(shown, [names[place] for place in shown], **look)


def _spaced(n_places: int, distance: float, importance: FloatArray | None = None) -> npt.NDArray[np.intp]:
    """Some of the places 0, 1, ... that keep a distance from one another: the most important first, else evenly."""
    if importance is None:
        return np.arange(0, n_places, max(1, int(np.ceil(distance))))
    chosen: list[int] = []
    for place in np.argsort(-importance, kind="stable"):
        if all(abs(place - other) >= distance for other in chosen):
            chosen.append(int(place))
    return np.array(sorted(chosen), dtype=np.intp)


def spread(places: FloatArray, distance: float, low: float, high: float) -> FloatArray:
    """Ascending places, moved as little as possible (in squares) so that they keep a distance, within a range."""
    if not len(places):
        return places
    steps = distance * np.arange(len(places))
    moved: FloatArray = np.asarray(isotonic_regression(places - steps)) + steps
    # The bounds keep the distance themselves.
    bounded: FloatArray = np.clip(moved, low + steps, high - steps[::-1])
    return bounded
