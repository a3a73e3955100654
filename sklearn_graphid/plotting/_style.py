"""What all displays share: matplotlib only when something is drawn, the colours, and where the axes come from."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._utils._libraries import require
from ._checks import check_axes, check_panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "BLACK",
    "BLUE",
    "GREY",
    "ORANGE",
    "PALE_GREY",
    "PURPLE",
    "VERMILLION",
    "axes_or_new",
    "fitted_attributes",
    "needs_matplotlib",
    "panel_beneath",
    "split_axes",
    "tidy",
]

_Method = TypeVar("_Method", bound=Callable[..., Any])

# The colours of Okabe and Ito, which remain distinct to colour-blind readers. In print without colour the two darker
# ones differ from the greys but little from one another, so every use adds a line style or a marker.
BLACK = "#000000"
BLUE = "#0072B2"
ORANGE = "#E69F00"
PURPLE = "#CC79A7"
VERMILLION = "#D55E00"
GREY = "#999999"
PALE_GREY = "#D9D9D9"


def needs_matplotlib(method: _Method) -> _Method:
    """Make a method of a display say how to get matplotlib where it is missing, before any work is done."""

    @functools.wraps(method)
    def checked(owner: Any, *args: Any, **kwargs: Any) -> Any:
        display = owner if isinstance(owner, type) else type(owner)
        require("matplotlib", display.__name__)
        return method(owner, *args, **kwargs)

    return cast(_Method, checked)


def fitted_attributes(caller: str, estimator: Any, *names: str) -> tuple[Any, ...]:
    """Read attributes of a fitted estimator, or say which one is missing."""
    check_is_fitted(estimator)
    missing = [name for name in names if not hasattr(estimator, name)]
    if missing:
        raise TypeError(
            f"{type(estimator).__name__} has no {' and no '.join(missing)}, which {caller} draws; expected an "
            f"estimator that has {' and '.join(names)} after fit."
        )
    return tuple(getattr(estimator, name) for name in names)


def axes_or_new(ax: Axes | None, size: tuple[float, float], layout: str = "constrained") -> tuple[Axes, Figure]:
    """The axes that were given, or those of a new figure of `size` inches."""
    if ax is None:
        import matplotlib.pyplot as plt

        _, ax = plt.subplots(figsize=size, layout=layout)
    return check_axes(ax), ax.figure  # type: ignore[return-value]


def split_axes(
    ax: Any, n_panels: int, *, stacked: bool, panel_size: tuple[float, float], shares_x: bool = True
) -> tuple[Any, Figure]:
    """An array of `n_panels` axes: those given, or one given axes divided, or those of a new figure.

    Stacked panels have one horizontal scale, unless `shares_x` is False.
    """
    from matplotlib.axes import Axes

    if ax is None:
        import matplotlib.pyplot as plt

        width, height = panel_size
        n_rows, n_columns = (n_panels, 1) if stacked else (1, n_panels)
        size = (width * n_columns, height * n_rows)
        figure, panels = plt.subplots(
            n_rows,
            n_columns,
            figsize=size,
            layout="constrained",
            squeeze=False,
            sharex="col" if stacked and shares_x else "none",
        )
        return panels.ravel(), figure
    if isinstance(ax, Axes):
        return _divide(ax, n_panels, stacked, shares_x), ax.figure  # type: ignore[return-value]
    panels = np.array(check_panels(ax, n_panels), dtype=object)
    return panels, panels[0].figure


def _divide(ax: Any, n_panels: int, stacked: bool, shares_x: bool) -> Any:
    """Put panels in the place of one axes, which stays as their invisible frame."""
    place = ax.get_subplotspec()
    if place is None:
        raise ValueError(
            f"ax was not made by subplots and cannot be divided; expected axes made by subplots, or {n_panels} axes."
        )
    ax.set_axis_off()
    grid = place.subgridspec(n_panels, 1) if stacked else place.subgridspec(1, n_panels)
    first = ax.figure.add_subplot(grid[0])
    rest = [ax.figure.add_subplot(grid[i], sharex=first if stacked and shares_x else None) for i in range(1, n_panels)]
    return np.array([first, *rest], dtype=object)


def tidy(ax: Axes) -> None:
    """Leave out the two sides of the frame that measure nothing."""
    ax.spines[["top", "right"]].set_visible(False)


def panel_beneath(ax: Axes) -> Any:
    """Axes as wide as `ax` and hanging under it, which share its horizontal scale."""
    from matplotlib.transforms import BboxTransformTo, ScaledTranslation, blended_transform_factory

    # Its height is in inches: a share of the height of `ax` would change whenever a layout makes room for it.
    inches_below = ax.figure.dpi_scale_trans + ScaledTranslation(0, 0, BboxTransformTo(ax.bbox))
    place = blended_transform_factory(ax.transAxes, inches_below)
    beneath = ax.inset_axes((0, -1.0, 1, 0.8), transform=place, sharex=ax)
    ax.tick_params(labelbottom=False)
    return beneath
