"""Several identifiers side by side, over many systems."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._utils._numbers import check_flag
from ._base import BLUE, GREY, LITERAL, ORANGE, PURPLE, VERMILLION, Display, drawable, label_sizes, panels_on

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["ComparisonDisplay"]

# Colour, marker and dashes all differ from one method to the next, and every second marker is hollow, so that two
# methods are told apart in print without colour as well.
_COLOURS = (BLUE, VERMILLION, "black", ORANGE, PURPLE, GREY)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_DASHES = ("-", "--", ":", "-.")

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


@dataclass(kw_only=True, eq=False, repr=False)
class ComparisonDisplay(Display):
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
        Figure containing the axes.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn_graphid.plotting import ComparisonDisplay
    >>> frame = pd.DataFrame({"method": list("aabb"), "n_experiments": [1, 5, 1, 5], "edge_f1": [0.3, 0.7, 0.2, 0.4]})
    >>> display = ComparisonDisplay(frame=frame).plot()
    >>> display.ax_[0].get_xlabel()
    'number of experiments'
    """

    frame: pd.DataFrame

    def __post_init__(self) -> None:
        import pandas as pd

        super().__post_init__()
        if not isinstance(self.frame, pd.DataFrame):
            raise TypeError(
                f"frame is a {type(self.frame).__name__}; expected a pandas DataFrame with one row for each run."
            )
        if "method" not in self.frame:
            raise ValueError(f"frame has the columns {list(self.frame.columns)}; expected 'method' among them.")
        if self.frame.empty:
            raise ValueError("frame has no rows; expected one for each run.")

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
        """
        check_flag(legend, "legend")
        self._check_columns("by", [by])
        names = self._available() if measures is None else self._check_columns("measures", measures)
        table = self._means(by, names)
        groups, methods = table.index.get_level_values(1).unique(), self._methods()
        has_bars = len(groups) == 1
        size = (4.2, 1.4 + 0.4 * len(methods) if has_bars else 3.4)
        self.ax_, self.figure_ = panels_on(ax, len(names), size)
        # Names of columns are literal, but for those that have a label.
        by_label, by_look = _LABELS.get(by, by), {} if by in _LABELS else LITERAL
        for panel, name in zip(self.ax_, names, strict=True):
            label, look = _LABELS.get(name, name), {} if name in _LABELS else LITERAL
            # A score near one, and an error near zero, are what a reader looks for.
            top = 1.03 if name in ("edge_f1", "edge_roc_auc") else None
            if has_bars:
                shown = methods if ax is not None or panel is self.ax_[0] else [""] * len(methods)
                self._draw_bars(panel, table[name], shown)
                panel.set_xlim(left=min(0.0, panel.get_xlim()[0]), right=top)
                panel.set_xlabel(label, **look)
                panel.set_title(f"{by_label}: {drawable(groups[0])}", fontsize="medium", **LITERAL)
            else:
                self._draw_curves(panel, table[name])
                panel.set_ylim(bottom=min(0.0, panel.get_ylim()[0]), top=top)
                panel.set_xlabel(by_label, **by_look)
                panel.set_ylabel(label, **look)
        if legend and not has_bars:  # bars have their names beside them
            self._draw_legend(is_new_figure=ax is None)
        return self

    def _methods(self) -> list[Any]:
        return list(dict.fromkeys(self.frame["method"]))

    def _means(self, by: str, measures: list[str]) -> pd.DataFrame:
        """Mean and standard error of each measure, by method and group."""
        import pandas as pd

        failed = self.frame["error_type"].notna() if "error_type" in self.frame else self.frame["method"].isna()
        columns = {}
        for name in measures:
            try:
                values = self.frame[name].astype(float)
            except (TypeError, ValueError) as error:
                raise ValueError(
                    f"measures names {name!r}, a column that does not hold numbers; expected numeric columns."
                ) from error
            grouped = values.mask(failed).groupby([self.frame["method"], self.frame[by]], dropna=False)
            columns[name, "mean"], columns[name, "standard_error"] = grouped.mean(), grouped.sem()
        table = pd.DataFrame(columns)
        return pd.concat([table.loc[[method]] for method in self._methods()])  # in the order they were given

    def _draw_curves(self, panel: Axes, table: Any) -> None:
        table = table.dropna(subset="mean")
        groups = list(dict.fromkeys(table.index.get_level_values(1).sort_values()))
        is_ordered = all(isinstance(group, int | float | np.number) for group in groups)
        places = np.array(groups, dtype=np.float64) if is_ordered else np.arange(len(groups), dtype=np.float64)
        # Points of different methods stand beside one another, so that no error bar hides another: a quarter of the
        # distance between two groups is theirs.
        step = 0.25 * (float(np.diff(places).min()) if len(places) > 1 else 1.0) / len(self._methods())
        for index, method in enumerate(self._methods()):
            rows = table[table.index.get_level_values(0) == method].droplevel(0)
            shift = step * (index - (len(self._methods()) - 1) / 2)
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

    def _draw_bars(self, panel: Axes, table: Any, names: Sequence[Any]) -> None:
        """A bar for each method, with its standard error: one group has no course to draw."""
        for index, method in enumerate(self._methods()):
            rows = table[table.index.get_level_values(0) == method].dropna(subset="mean")
            # Beside the colour, every second bar is hatched, as every second marker of a curve is hollow.
            look: dict[str, Any] = {"color": _COLOURS[index % len(_COLOURS)], "hatch": "///" if index % 2 else ""}
            look |= {"alpha": 0.6, "edgecolor": "white", "linewidth": 0, "ecolor": "black", "capsize": 4}
            error = np.nan_to_num(rows["standard_error"].to_numpy(float))
            panel.barh([index] * len(rows), rows["mean"].to_numpy(float), xerr=error, label=drawable(method), **look)
        panel.set_yticks(range(len(names)), [drawable(name) for name in names], **LITERAL)
        panel.set_ylim(len(names) - 0.4, -0.6)  # the first on top, as in a table

    def _draw_legend(self, is_new_figure: bool) -> None:
        handles, labels = self.ax_[0].get_legend_handles_labels()
        owner, place = self.ax_[-1], {"fontsize": "small", "framealpha": 0.8}
        if is_new_figure:  # the margin is free, and nothing there covers a curve
            # As many columns as the figure is wide: longer names would be cut off at its sides. The line before a name
            # and the gap behind it take 70 points, a row 0.2 inches.
            width, height = self.figure_.get_size_inches()
            n_fit = int(72 * width / (float(label_sizes(labels, 10.0)[:, 0].max()) + 70.0))
            n_columns = max(1, min(len(handles), 2 * len(self.ax_), n_fit))
            self.figure_.set_size_inches(width, height + 0.2 * (-(-len(handles) // n_columns) - 1))
            owner, place = self.figure_, {"loc": "outside upper center", "ncols": n_columns, "frameon": False}
        for text in owner.legend(handles, labels, handlelength=3, **place).get_texts():
            text.set(**LITERAL)

    def _check_columns(self, argument: str, names: Any) -> list[str]:
        """Check and return the columns that an argument names, at least one."""
        if isinstance(names, str) or not isinstance(names, Iterable):
            raise TypeError(f"{argument} is a {type(names).__name__}; expected a list of columns of the frame.")
        columns = list(names)
        if not columns:
            raise ValueError(f"{argument} is empty; expected at least one column of the frame.")
        for name in columns:
            if name not in self.frame:
                expected = f"expected one of {list(self.frame.columns)}"
                raise ValueError(f"{argument} does not fit: frame has no column {name!r}; {expected}.")
        return columns

    def _available(self) -> list[str]:
        """Usual measures that some run has."""
        usual = ("edge_f1", "theta_nrmse")
        present = [name for name in usual if name in self.frame and self.frame[name].notna().any()]
        if not present:
            raise ValueError(
                "no run has any of the default measures; expected systems with a true_adjacency or a true_theta, and "
                "at least one fit that did not fail."
            )
        return present
