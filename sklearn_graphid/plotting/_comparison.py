"""Several identifiers side by side, over many systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._utils._numbers import FloatArray
from ._checks import check_flags
from ._labels import label_sizes
from ._names import LITERAL, drawable
from ._style import BLACK, BLUE, GREY, ORANGE, PURPLE, VERMILLION, needs_matplotlib, split_axes, tidy

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ComparisonDisplay"]

# Colour, marker and dashes all differ from one method to the next, and every second marker is hollow, so that two
# methods are told apart in print without colour as well.
_COLOURS = (BLUE, VERMILLION, BLACK, ORANGE, PURPLE, GREY)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", ":", "-.")
# Points of different methods stand beside one another, so that no error bar hides another: this share of the distance
# between two groups is theirs.
_SPREAD = 0.25
_LEGEND_ROW = 0.2  # inches
_LEGEND_FONT_SIZE, _LEGEND_HANDLE = 10.0, 70.0  # points; the second is the line before a name and the gap behind it

_LABELS = {
    "edge_f1": "F1 score of the unknown pairs",
    "edge_roc_auc": "area under the ROC curve",
    "edge_calibration_error": "calibration error",
    "theta_nrmse": r"normalised error of $\theta$",
    "seconds": "seconds for a fit",
    "n_experiments": "number of experiments",
    "n_nodes": "number of nodes",
    "n_unknown": "number of unknown pairs",
}
_DEFAULT_PANELS = ("edge_f1", "theta_nrmse")


class ComparisonDisplay:
    """Means and standard errors of several identifiers on many systems.

    Parameters
    ----------
    frame : pandas.DataFrame
        One row for each run, with a column `method`, as `compare_identifiers` returns it.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes
        One panel for each measure.
    figure_ : matplotlib Figure
        Figure containing the panels.

    See Also
    --------
    sklearn_graphid.compare_identifiers : Runs the estimators on the systems.

    Examples
    --------
    >>> import matplotlib, pandas as pd
    >>> matplotlib.use("Agg")  # draws into memory; leave it out to see the picture
    >>> from sklearn_graphid.plotting import ComparisonDisplay
    >>> frame = pd.DataFrame({"method": list("aabb"), "n_experiments": [1, 5, 1, 5], "edge_f1": [0.3, 0.7, 0.2, 0.4]})
    >>> display = ComparisonDisplay(frame=frame).plot()
    >>> display.ax_[0].get_xlabel()
    'number of experiments'
    """

    def __init__(self, *, frame: pd.DataFrame):
        self.frame = frame

    @needs_matplotlib
    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        by: str = "n_experiments",
        measures: Sequence[str] | None = None,
        legend: bool = True,
    ) -> Self:
        """Draw mean and standard error of each measure against the groups, or as bars if there is only one group.

        Runs that failed or lack the measure are left out.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of these, default=None
            One Axes to divide into panels, or one for each measure. If None, a new figure is created.
        by : str, default="n_experiments"
            Column of the frame on the horizontal axis.
        measures : list of str or None, default=None
            Columns of the frame, one panel for each. If None, F1 score and error of theta, as far as they are
            available. The calibration error of a single system is large by chance alone, so its mean is not
            informative: pool the systems with `edge_calibration_error` instead.
        legend : bool, default=True
            Whether to show a legend of the methods.

        Returns
        -------
        ComparisonDisplay
            The display itself.
        """
        check_flags(legend=legend)
        if not isinstance(by, str):
            raise TypeError(f"by is a {type(by).__name__}; expected a column of the frame, as a str.")
        self._check_frame()
        self._check_columns("by", [by])
        names = self._measured(measures)
        table = self._means(by, names)
        groups = table.index.get_level_values(1).unique()
        is_one_group = len(groups) == 1
        size = (4.2, 1.4 + 0.4 * len(self._methods())) if is_one_group else (4.2, 3.4)
        self.ax_, self.figure_ = split_axes(ax, len(names), stacked=False, panel_size=size)
        for panel, name in zip(self.ax_, names, strict=True):
            label, look = _LABELS.get(name, name), {} if name in _LABELS else LITERAL
            # A score near one, and an error near zero, are what a reader looks for.
            top = 1.03 if name in ("edge_f1", "edge_roc_auc") else None
            if is_one_group:
                self._draw_bars(panel, table[name], has_names=ax is not None or panel is self.ax_[0])
                panel.set_xlim(left=min(0.0, panel.get_xlim()[0]), right=top)
                panel.set_xlabel(label, **look)
                panel.set_title(f"{_LABELS.get(by, by)}: {drawable(groups[0])}", fontsize="medium", **LITERAL)
            else:
                self._draw_panel(panel, table[name], by)
                panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]), top=top)
                panel.set_xlabel(_LABELS.get(by, by), **({} if by in _LABELS else LITERAL))
                panel.set_ylabel(label, **look)
            tidy(panel)
        if legend and not is_one_group:  # bars have their names beside them
            self._draw_legend(is_new_figure=ax is None)
        return self

    def _means(self, by: str, measures: list[str]) -> pd.DataFrame:
        """Mean and standard error of each measure, by method and group."""
        import pandas as pd

        keys = [self.frame["method"], self.frame[by]]
        failed = self.frame["error_type"].notna() if "error_type" in self.frame else self.frame["method"].isna()
        columns = {}
        for name in measures:
            grouped = self._numbers(name).mask(failed).groupby(keys, dropna=False)
            columns[name, "mean"], columns[name, "standard_error"] = grouped.mean(), grouped.sem()
        table = pd.DataFrame(columns)
        return pd.concat([table.loc[[method]] for method in self._methods()])  # in the order they were given

    def _draw_panel(self, panel: Axes, table: Any, by: str) -> None:
        table = table.dropna(subset="mean")
        groups = list(dict.fromkeys(table.index.get_level_values(1).sort_values()))
        places, distance, is_ordered = _places(groups)
        methods = self._methods()
        for index, method in enumerate(methods):
            rows = table[table.index.get_level_values(0) == method].droplevel(0)
            shift = _SPREAD * distance * (index - (len(methods) - 1) / 2) / len(methods)
            colour = _COLOURS[index % len(_COLOURS)]
            panel.errorbar(
                [places[groups.index(group)] + shift for group in rows.index],
                rows["mean"].to_numpy(float),
                yerr=np.nan_to_num(rows["standard_error"].to_numpy(float)),
                color=colour,
                marker=_MARKERS[index % len(_MARKERS)],
                markerfacecolor="white" if index % 2 else colour,
                linestyle=_DASHES[index % len(_DASHES)] if is_ordered else "none",
                linewidth=1.6,
                capsize=2.5,
                label=drawable(method),
            )
        panel.set_xticks(places, [drawable(group) for group in groups], **LITERAL)

    def _draw_bars(self, panel: Axes, table: Any, has_names: bool) -> None:
        """A bar for each method, with its standard error: one group has no course to draw."""
        methods = self._methods()
        for index, method in enumerate(methods):
            rows = table[table.index.get_level_values(0) == method].dropna(subset="mean")
            # Beside the colour, every second bar is hatched, as every second marker of a curve is hollow.
            look: dict[str, Any] = {"color": _COLOURS[index % len(_COLOURS)], "hatch": "///" if index % 2 else ""}
            look |= {"alpha": 0.6, "edgecolor": "white", "linewidth": 0, "ecolor": BLACK, "capsize": 4}
            error = np.nan_to_num(rows["standard_error"].to_numpy(float))
            panel.barh([index] * len(rows), rows["mean"].to_numpy(float), xerr=error, label=drawable(method), **look)
        panel.set_yticks(range(len(methods)), [drawable(method) if has_names else "" for method in methods], **LITERAL)
        panel.set_ylim(len(methods) - 0.4, -0.6)  # the first on top, as in a table

    def _draw_legend(self, is_new_figure: bool) -> None:
        handles, labels = self.ax_[0].get_legend_handles_labels()
        if is_new_figure:  # the margin is free, and nothing there covers a curve
            # As many columns as the figure is wide: longer names would be cut off at its sides.
            width = float(label_sizes(labels, _LEGEND_FONT_SIZE)[:, 0].max()) + _LEGEND_HANDLE
            room = 72 * float(self.figure_.get_size_inches()[0])
            n_columns = max(1, min(len(handles), 2 * len(self.ax_), int(room / width)))
            more_rows = -(-len(handles) // n_columns) - 1
            inches = self.figure_.get_size_inches()
            self.figure_.set_size_inches(inches[0], inches[1] + _LEGEND_ROW * more_rows)
            legend = self.figure_.legend(
                handles, labels, loc="outside upper center", ncols=n_columns, frameon=False, handlelength=3
            )
        else:
            legend = self.ax_[-1].legend(handles, labels, fontsize="small", framealpha=0.8, handlelength=3)
        for text in legend.get_texts():
            text.set(**LITERAL)

    def _methods(self) -> list[Any]:
        return list(dict.fromkeys(self.frame["method"]))

    def _check_frame(self) -> None:
        import pandas as pd

        if not isinstance(self.frame, pd.DataFrame):
            raise TypeError(
                f"frame is a {type(self.frame).__name__}; expected a pandas DataFrame with one row for each run."
            )
        if "method" not in self.frame:
            raise ValueError(f"frame has the columns {list(self.frame.columns)}; expected 'method' among them.")
        if self.frame.empty:
            raise ValueError("frame has no rows; expected one for each run.")

    def _check_columns(self, argument: str, names: Any) -> list[str]:
        """Check and return the columns that an argument names, at least one."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise TypeError(f"{argument} is a {type(names).__name__}; expected a list of columns of the frame.")
        columns = list(names)
        if not columns:
            raise ValueError(f"{argument} is empty; expected at least one column of the frame.")
        for name in columns:
            if not isinstance(name, str):
                raise TypeError(f"{argument} holds a {type(name).__name__}; expected columns of the frame, as str.")
            if name not in self.frame:
                expected = f"expected one of {list(self.frame.columns)}"
                raise ValueError(f"{argument} does not fit: frame has no column {name!r}; {expected}.")
        return columns

    def _numbers(self, name: str) -> pd.Series[float]:
        try:
            return self.frame[name].astype(float)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"measures names {name!r}, a column that does not hold numbers; expected numeric columns."
            ) from error

    def _measured(self, measures: Any) -> list[str]:
        """The measures that can be shown: all that were asked for by name, or those of the usual ones that exist."""
        if measures is not None:
            return self._check_columns("measures", measures)
        present = [name for name in _DEFAULT_PANELS if name in self.frame and self.frame[name].notna().any()]
        if not present:
            raise ValueError(
                "no run has any of the default measures; expected systems with a true_adjacency or a true_theta, and "
                "at least one fit that did not fail."
            )
        return present


def _places(groups: list[Any]) -> tuple[FloatArray, float, bool]:
    """Where the groups stand on the axis, the smallest distance between two of them, and whether they are numbers."""
    is_ordered = all(isinstance(group, int | float | np.number) for group in groups)
    places = np.array(groups, dtype=np.float64) if is_ordered else np.arange(len(groups), dtype=np.float64)
    return places, float(np.diff(places).min()) if len(places) > 1 else 1.0, is_ordered
