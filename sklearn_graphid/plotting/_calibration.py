"""Calibration of edge probabilities: whether a share p of the pairs with probability p are edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray, check_flag
from ..metrics import edge_reliability_curve
from ._base import BLUE, GREY, LITERAL, Display, check_look, check_text, panel_beneath, panels_on

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["EdgeCalibrationDisplay"]


@dataclass(kw_only=True, eq=False, repr=False)
class EdgeCalibrationDisplay(Display):
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
    figure_ : matplotlib Figure
        Figure containing the axes.
    counts_ax_ : matplotlib Axes or None
        Axes with the counts, below the curve; None if they are not shown.
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
    >>> import numpy as np
    >>> from sklearn_graphid.plotting import EdgeCalibrationDisplay
    >>> true_adjacency = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> edge_probabilities = np.array([[0, 0.9, 0.1], [0.9, 0, 0.7], [0.1, 0.7, 0]])
    >>> display = EdgeCalibrationDisplay.from_predictions(true_adjacency, edge_probabilities, n_bins=5)
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
    def from_estimator(
        cls, estimator: Any, true_adjacency: Any, *, n_bins: int = 10, name: str | None = None, **plot_options: Any
    ) -> Self:
        """Draw the calibration of an identifier's probabilities of the unknown pairs.

        Parameters
        ----------
        estimator : fitted identifier or list of these
            The identifier, or several, whose pairs are pooled.
        true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), or list of these
            The true graph, or one for each estimator.
        n_bins : int, default=10
            Number of bins.
        name : str, default=None
            Name of the curve in the legend. If None, the class of the estimator.
        **plot_options
            Arguments of `plot`, such as `ax`.
        """
        is_list = isinstance(estimator, list | tuple)
        estimators = list(estimator) if is_list else [estimator]
        if not estimators:
            raise ValueError("estimator is an empty list; expected at least one fitted identifier.")
        found = [cls._read(one, "edge_probabilities_", "known_edges_") for one in estimators]
        probabilities, known = map(list, zip(*found, strict=True)) if is_list else found[0]
        plot_options["name"] = type(estimators[0]).__name__ if name is None else name
        return cls.from_predictions(true_adjacency, probabilities, known, n_bins=n_bins, **plot_options)

    @classmethod
    def from_predictions(
        cls,
        true_adjacency: Any,
        edge_probabilities: Any,
        known: Any = None,
        *,
        n_bins: int = 10,
        name: str | None = None,
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
        **plot_options
            Arguments of `plot`, such as `ax`.
        """
        curve = edge_reliability_curve(true_adjacency, edge_probabilities, known, n_bins=n_bins)
        return cls(**curve._asdict(), name=name).plot(**plot_options)

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
        """
        check_text(self.name, "name")
        check_flag(show_counts, "show_counts")
        look: dict[str, Any] = {"color": color, "marker": marker, "linestyle": linestyle}
        for kind, value in look.items():
            check_look(value, kind, kind)
        (self.ax_,), self.figure_ = panels_on(ax, 1, (4.6, 5.8))
        filled = self.counts > 0
        predicted, share, counts = self.mean_predicted[filled], self.fraction_true[filled], self.counts[filled]
        # Wilson's interval, unlike the normal one, stays within 0 and 1, and is not empty at either end.
        z = 1.96
        scale = 1 + z**2 / counts
        centre = (share + z**2 / (2 * counts)) / scale
        half = z / scale * np.sqrt(share * (1 - share) / counts + z**2 / (4 * counts**2))
        (self.diagonal_,) = self.ax_.plot([0, 1], [0, 1], color=GREY, linestyle=":", zorder=1, label="_diagonal")
        self.intervals_ = self.ax_.vlines(
            predicted, centre - half, centre + half, color=color, linewidth=1.2, alpha=0.6
        )
        label = f"{self.name or 'edges'} (error {self.calibration_error:.3f})"
        (self.line_,) = self.ax_.plot(predicted, share, label=label, clip_on=False, zorder=3, **look)
        self.ax_.set(xlim=(0, 1), ylim=(0, 1), ylabel="share that are true edges")
        # Above the axes, as a curve may pass through any corner.
        for text in self.ax_.legend(loc="lower left", bbox_to_anchor=(0, 1), frameon=False).get_texts():
            text.set(**LITERAL)
        self.counts_ax_ = self._draw_counts(color, linestyle) if show_counts else None
        (self.counts_ax_ or self.ax_).set_xlabel("probability given to the edge")
        return self

    def _draw_counts(self, color: str, linestyle: str) -> Any:
        # A further curve in the same axes counts in the same panel, as an outline over the first one's bars.
        beneath: Any = next((child for child in self.ax_.child_axes if child.get_label() == "pairs"), None)
        is_first = beneath is None
        if beneath is None:
            beneath = panel_beneath(self.ax_)
            beneath.set_label("pairs")
        edges = np.linspace(0, 1, len(self.counts) + 1)
        beneath.stairs(self.counts, edges, fill=is_first, baseline=0.5, facecolor=color, alpha=0.35)
        beneath.stairs(self.counts, edges, baseline=0.5, linestyle=linestyle, edgecolor=color, linewidth=1.2)
        beneath.set(yscale="log", ylabel="pairs")
        beneath.set_ylim(0.5, None)
        return beneath
