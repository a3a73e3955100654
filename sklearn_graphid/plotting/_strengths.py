"""How strengths of edges are shown: as the width of a line, and as the colour of a cell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils._numbers import FloatArray

if TYPE_CHECKING:
    from matplotlib.colors import LinearSegmentedColormap, Normalize

__all__ = ["NEGATIVE_LINE", "strength_colours", "strength_widths", "usual_strengths"]

#: Dots, as round ends of no length: neither colour nor grey takes them for the dashes of a missed edge.
NEGATIVE_LINE: Any = (0, (0.01, 1.8))

# In points. Conductances of pipes differ by factors of hundreds, and lines cannot.
_MEDIAN_WIDTH = 2.0
_WIDTHS = (0.7, 6.0)
_SMALLEST_DOTS = 1.3
# Lightness falls evenly, so that print in grey keeps the order; the weakest differs from the white of no edge.
_SIZES = ["#CFE2F3", "#8DBEE3", "#3B8FCB", "#0A4F93", "#06284F"]
_BELOW_ZERO = ["#4A1A00", "#A94500", "#E58A4E", "#F7CDB0"]
_ABOVE_ZERO = ["#BBD9EF", "#5BA3D6", "#0A5FA6", "#06284F"]
# Strengths that differ by more than this factor are shown by their logarithms.
_LINEAR_UP_TO = 20.0


def strength_widths(strengths: FloatArray, all_strengths: FloatArray) -> FloatArray:
    """Widths in points: they grow with the root of a strength's size, and the median of all is a little wide."""
    usual = np.median(np.abs(all_strengths))
    widths = np.clip(_MEDIAN_WIDTH * np.sqrt(np.abs(strengths) / usual), *_WIDTHS)
    return np.asarray(np.where(strengths < 0, np.maximum(widths, _SMALLEST_DOTS), widths))


def usual_strengths(all_strengths: FloatArray) -> list[float]:
    """A weak, a usual and a strong one, rounded, to explain widths by."""
    ends = np.quantile(np.abs(all_strengths), (0.05, 0.5, 0.95))
    return sorted({float(f"{size:.1g}") for size in ends})


def strength_colours(all_strengths: FloatArray) -> tuple[LinearSegmentedColormap, Normalize]:
    """Colours and their scale: from zero or by logarithms where all are above it, and else the same on either side."""
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, Normalize

    sizes = np.abs(all_strengths)
    smallest, largest = (sizes.min(), sizes.max()) if sizes.size else (0.0, 1.0)
    if (all_strengths < 0).any():
        colours = [*_BELOW_ZERO, *_ABOVE_ZERO]
        # No colour between the two sides: the smallest strength still has the tint of its sign.
        return LinearSegmentedColormap.from_list("signed strength", colours), Normalize(-largest, largest)
    scale = LogNorm(smallest, largest) if largest > _LINEAR_UP_TO * smallest > 0 else Normalize(0, largest)
    return LinearSegmentedColormap.from_list("strength", _SIZES), scale
