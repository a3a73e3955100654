"""Calibration of edge probabilities: whether a share p of the pairs with probability p are edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from ..metrics import edge_reliability_curve
from ._checks import check_color, check_flags, check_linestyle, check_marker, check_text
from ._names import LITERAL
from ._style import BLUE, GREY, axes_or_new, fitted_attributes, needs_matplotlib, panel_beneath, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EdgeCalibrationDisplay"]


@dataclass(kw_only=True, eq=False, repr=False)
class EdgeCalibrationDisplay:
    """Reliability curve of edge probabilities: share of true edges against predicted probability.

    Calibrated probabilities lie on the diagonal. Vertical bars are 95 % Wilson intervals of the shares, which treat
    pairs as independent. The panel below counts the pairs in every bin, on a logarithmic scale.

    Parameters
    ----------
    mean_predicted : ndarray of shape (n_bins,)
        Mean probability in each bin; nan if the bin is empty.
    fraction_true : ndarray of shape (n_bins,)
        Share of edges in each bin; nan if the bin is empty.
    counts : ndarray of shape (n_bins,)
        Number of pairs in each bin.
    name : str, default=None
        Name of the curve in the legend.

    Attributes
    ----------
    calibration_error : float
        Mean distance from the diagonal over all pairs; the same as `metrics.edge_calibration_error`.
    ax_ : matplotlib Axes
        Axes with the curve.
    counts_ax_ : matplotlib Axes
        Axes with the counts, below the curve; None if they are not shown.
    figure_ : matplotlib Figure
        Figure containing the axes.
    line_ : Line2D
        The curve.
    intervals_ : LineCollection
        The intervals.
    diagonal_ : Line2D
        Perfect calibration.

    See Also
    --------
    sklearn_graphid.metrics.edge_reliability_curve : Computes the curve.
    sklearn_graphid.metrics.edge_calibration_error : Summarises the curve in one number.

    Examples
    --------
    >>> import matplotlib, numpy as np
    >>> matplotlib.use("Agg")  # draws into memory; leave it out to see the picture
    >>> from sklearn_graphid.plotting import EdgeCalibrationDisplay
    >>> true_adjacency = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> edge_probabilities = np.array([[0, 0.9, 0.1], [0.9, 0, 0.7], [0.1, 0.7, 0]])
    >>> display = EdgeCalibrationDisplay.from_predictions(true_adjacency, edge_probabilities, n_bins=5)
    >>> display.counts
    array([1, 0, 0, 1, 1])
    >>> round(display.calibration_error, 3)
    0.167
    """

    mean_predicted: FloatArray
    fraction_true: FloatArray
    counts: npt.NDArray[np.int64]
    name: str | None = None

    @property
    def calibration_error(self) -> float:
        """Mean distance from the diagonal over all pairs."""
        gaps = np.abs(self.mean_predicted - self.fraction_true)
        return float(np.nansum(gaps * self.counts) / max(1, self.counts.sum()))

    @classmethod
    @needs_matplotlib
    def from_estimator(
        cls,
        estimator: Any,
        true_adjacency: Any,
        *,
        n_bins: int = 10,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the calibration of an identifier's probabilities of the unknown pairs.

        Parameters
        ----------
        estimator : fitted identifier or list of these
            The identifier, such as a `LangevinSystemIdentifier`. The pairs of several identifiers are pooled.
        true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), or list of these
            The true graph, or a list with one for each estimator.
        n_bins : int, default=10
            Number of bins.
        name : str, default=None
            Name of the curve in the legend. If None, the class of the estimator.
        ax, **plot_options : as in `plot`
            Passed to `plot`.

        Returns
        -------
        EdgeCalibrationDisplay
            The display, of all estimators together.
        """
        is_list = isinstance(estimator, list | tuple)
        estimators = list(estimator) if is_list else [estimator]
        names = ("edge_probabilities_", "known_edges_")
        found = [fitted_attributes(cls.__name__, one, *names) for one in estimators]
        if not found:
            raise ValueError("estimator is an empty list; expected at least one fitted identifier.")
        probabilities, known = [list(column) for column in zip(*found, strict=True)]
        if not is_list:
            probabilities, known = probabilities[0], known[0]
        name = type(estimators[0]).__name__ if name is None else name
        return cls.from_predictions(
            true_adjacency, probabilities, known, n_bins=n_bins, name=name, ax=ax, **plot_options
        )

    @classmethod
    @needs_matplotlib
    def from_predictions(
        cls,
        true_adjacency: Any,
        edge_probabilities: Any,
        known: Any = None,
        *,
        n_bins: int = 10,
        name: str | None = None,
        ax: Axes | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw the calibration of given probabilities.

        Parameters
        ----------
        true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), or list of these
            The true graph, or the graphs of several systems, whose pairs are pooled.
        edge_probabilities : array of shape (n_nodes, n_nodes), or list of these
            Edge probabilities.
        known : KnownEdges or array of shape (n_nodes, n_nodes), or list of these, default=None
            The known pairs; only the other pairs count.
        n_bins : int, default=10
            Number of bins.
        name : str, default=None
            Name of the curve in the legend.
        ax, **plot_options : as in `plot`
            Passed to `plot`.

        Returns
        -------
        EdgeCalibrationDisplay
            The display.
        """
        curve = edge_reliability_curve(true_adjacency, edge_probabilities, known, n_bins=n_bins)
        return cls(**curve._asdict(), name=name).plot(ax, **plot_options)

    @needs_matplotlib
    def plot(
        self,
        ax: Axes | None = None,
        *,
        show_counts: bool = True,
        color: str = BLUE,
        marker: str = "o",
        linestyle: str = "-",
    ) -> Self:
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. If None, a new figure is created. On the axes of another display, a further curve is added.
        show_counts : bool, default=True
            Whether to show the number of pairs in every bin in a panel below. The panel extends an inch and a half
            below `ax`; a figure with `layout="constrained"` makes room for it.
        color, marker, linestyle : str, default="#0072B2", "o" and "-"
            Style of the curve.

        Returns
        -------
        EdgeCalibrationDisplay
            The display itself.
        """
        check_text(self.name, "name")
        check_flags(show_counts=show_counts)
        check_color(color, "color")
        check_marker(marker, "marker")
        check_linestyle(linestyle, "linestyle")
        self.ax_, self.figure_ = axes_or_new(ax, (4.6, 5.8))
        filled = self.counts > 0
        predicted, share = self.mean_predicted[filled], self.fraction_true[filled]
        low, high = _wilson_interval(share, self.counts[filled])
        (self.diagonal_,) = self.ax_.plot([0, 1], [0, 1], color=GREY, linestyle=":", zorder=1, label="_diagonal")
        self.intervals_ = self.ax_.vlines(predicted, low, high, color=color, linewidth=1.2, alpha=0.6)
        label = f"{self.name or 'edges'} (error {self.calibration_error:.3f})"
        look: dict[str, Any] = {"color": color, "marker": marker, "linestyle": linestyle}
        (self.line_,) = self.ax_.plot(predicted, share, label=label, clip_on=False, zorder=3, **look)
        self.ax_.set(xlim=(0, 1), ylim=(0, 1), ylabel="share that are true edges")
        tidy(self.ax_)
        # Above the axes, as a curve may pass through any corner.
        legend = self.ax_.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
        for text in legend.get_texts():
            text.set(**LITERAL)
        self.counts_ax_ = self._draw_counts(look) if show_counts else None
        lowest = self.counts_ax_ or self.ax_
        lowest.set_xlabel("probability given to the edge")
        return self

    def _draw_counts(self, look: dict[str, Any]) -> Any:
        # A further curve in the same axes counts in the same panel, as an outline over the first one's bars.
        beneath: Any = next((child for child in self.ax_.child_axes if child.get_label() == "pairs"), None)
        is_first = beneath is None
        if beneath is None:
            beneath = panel_beneath(self.ax_)
            beneath.set_label("pairs")
        edges = np.linspace(0, 1, len(self.counts) + 1)
        style = {"linestyle": look["linestyle"], "edgecolor": look["color"], "linewidth": 1.2}
        beneath.stairs(self.counts, edges, fill=is_first, baseline=0.5, facecolor=look["color"], alpha=0.35)
        beneath.stairs(self.counts, edges, baseline=0.5, **style)
        beneath.set_yscale("log")
        beneath.set_ylim(0.5, None)
        beneath.set_ylabel("pairs")
        tidy(beneath)
        return beneath


def _wilson_interval(share: FloatArray, counts: npt.NDArray[np.int64]) -> tuple[FloatArray, FloatArray]:
    """95 % interval of a share; unlike the normal one it stays within 0 and 1, and is not empty at either end."""
    z = 1.96
    scale = 1 + z**2 / counts
    centre = (share + z**2 / (2 * counts)) / scale
    half = z / scale * np.sqrt(share * (1 - share) / counts + z**2 / (4 * counts**2))
    return centre - half, centre + half
