"""The posterior of the filter's parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._utils._numbers import FloatArray
from ._checks import as_numbers, check_flags, check_number, check_vector
from ._names import parameter_labels
from ._parameters import ParameterDisplay
from ._style import BLACK, BLUE, VERMILLION, fitted_attributes, needs_matplotlib, split_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["ThetaDisplay"]

_PANEL_SIZE, _ONLY_PANEL = (3.2, 3.0), (4.4, 2.8)  # inches; pages scale a small square up to their width
_EXPECTED_BINS = "expected what numpy.histogram_bin_edges takes: an int, increasing edges, or a rule such as 'auto'"


@dataclass(kw_only=True, eq=False, repr=False)
class ThetaDisplay(ParameterDisplay):
    """Histograms of the draws of every parameter, with central interval, point estimate and true value.

    Parameters
    ----------
    theta_samples : ndarray of shape (n_draws, n_parameters)
        Draws from the posterior.
    theta : ndarray of shape (n_parameters,), default=None
        The point estimate.
    true_theta : ndarray of shape (n_parameters,), default=None
        The true parameters, if they are known.
    parameter_names : list of str, default=None
        Names of the parameters; names such as "theta_0" are typeset as mathematics.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (n_parameters,)
        One panel for each parameter.
    figure_ : matplotlib Figure
        Figure containing the panels.
    intervals_ : ndarray of shape (n_parameters, 2)
        Ends of the central intervals.

    See Also
    --------
    TraceDisplay : Traces of the chains during sampling.

    Examples
    --------
    >>> import matplotlib, numpy as np
    >>> matplotlib.use("Agg")  # draws into memory; leave it out to see the picture
    >>> from sklearn_graphid.plotting import ThetaDisplay
    >>> draws = np.random.default_rng(0).normal([0.0, 0.5], 0.1, size=(500, 2))
    >>> display = ThetaDisplay.from_predictions(draws, true_theta=[0.1, 0.5])
    >>> [ax.get_xlabel() for ax in display.ax_]
    ['$\\\\theta_{0}$', '$\\\\theta_{1}$']
    """

    theta_samples: FloatArray
    theta: FloatArray | None = None
    true_theta: FloatArray | None = None
    parameter_names: Sequence[str] | None = None

    @classmethod
    def _sampled_by(cls, estimator: Any) -> tuple[Any, ...]:
        return fitted_attributes(cls.__name__, estimator, "theta_samples_", "theta_")

    @classmethod
    @needs_matplotlib
    def from_predictions(
        cls,
        theta_samples: Any,
        theta: Any = None,
        *,
        true_theta: Any = None,
        parameter_names: Sequence[str] | None = None,
        ax: Axes | Sequence[Axes] | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw given samples.

        Parameters
        ----------
        theta_samples : array-like of shape (n_draws, n_parameters)
            Draws from the posterior.
        theta : array-like of shape (n_parameters,), default=None
            The point estimate.
        true_theta : array-like of shape (n_parameters,), default=None
            The true parameters.
        parameter_names : list of str, default=None
            Names of the parameters.
        ax, **plot_options : as in `plot`
            Passed to `plot`.

        Returns
        -------
        ThetaDisplay
            The display, with one panel for each parameter.
        """
        samples = as_numbers(theta_samples, "theta_samples", "draws of shape (n_draws, n_parameters)")
        if samples.ndim != 2 or not samples.size:
            raise ValueError(f"theta_samples has shape {samples.shape}; expected (n_draws, n_parameters).")
        if not np.isfinite(samples).all():
            raise ValueError(f"theta_samples holds {samples[~np.isfinite(samples)][0]}; expected finite numbers.")
        n_parameters = samples.shape[1]
        estimate = check_vector(theta, n_parameters, "theta")
        truth = check_vector(true_theta, n_parameters, "true_theta")
        display = cls(theta_samples=samples, theta=estimate, true_theta=truth, parameter_names=parameter_names)
        return display.plot(ax, **plot_options)

    @needs_matplotlib
    def plot(
        self, ax: Axes | Sequence[Axes] | None = None, *, interval: float = 0.9, bins: Any = "auto", legend: bool = True
    ) -> Self:
        """Draw the histograms.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of these, default=None
            One Axes to divide into panels, or one for each parameter. If None, a new figure is created.
        interval : float, default=0.9
            Share of the draws inside the central interval.
        bins : int, str or sequence, default="auto"
            Bins of the histograms, as in `numpy.histogram_bin_edges`.
        legend : bool, default=True
            Whether to explain bar, diamond and dashed line: above the panels of a new figure, or in the last of the
            given panels.

        Returns
        -------
        ThetaDisplay
            The display itself.
        """
        check_flags(legend=legend)
        check_number(interval, "interval", "a share strictly between 0 and 1", lambda share: 0 < share < 1)
        n_parameters = self.theta_samples.shape[1]
        labels = parameter_labels(self.parameter_names, n_parameters)
        edges = [_bin_edges(draws, bins) for draws in self.theta_samples.T]
        tails = (0.5 - interval / 2, 0.5 + interval / 2)
        self.intervals_ = np.quantile(self.theta_samples, tails, axis=0).T
        self.ax_, self.figure_ = split_axes(
            ax, n_parameters, stacked=False, panel_size=_PANEL_SIZE if n_parameters > 1 else _ONLY_PANEL
        )
        for parameter, (panel, (label, look)) in enumerate(zip(self.ax_, labels, strict=True)):
            self._draw_parameter(panel, parameter, interval, edges[parameter])
            panel.set_xlabel(label, **look)
            tidy(panel)
        self.ax_[0].set_ylabel("draws")
        if legend:
            self._draw_legend(is_new_figure=ax is None)
        return self

    def _draw_parameter(self, panel: Axes, parameter: int, interval: float, edges: list[float]) -> None:
        panel.hist(self.theta_samples[:, parameter], bins=edges, color=BLUE, alpha=0.35, label="draws")
        low, high = self.intervals_[parameter]
        # The interval and the estimate stand on the histogram's floor, in heights that do not depend on the counts.
        floor = panel.get_xaxis_transform()
        share = f"{100 * interval:.0f} % interval"
        bar: dict[str, Any] = {"color": BLUE, "linewidth": 4, "solid_capstyle": "butt"}
        panel.plot([low, high], [0.035, 0.035], transform=floor, label=share, **bar)
        if self.theta is not None:
            look: dict[str, Any] = {"marker": "D", "markersize": 7, "markerfacecolor": "white", "linestyle": "none"}
            panel.plot(self.theta[parameter], 0.035, color=BLACK, transform=floor, label="estimate", zorder=4, **look)
        if self.true_theta is not None:
            panel.axvline(self.true_theta[parameter], color=VERMILLION, linestyle="--", linewidth=1.8, label="truth")
        panel.ticklabel_format(axis="x", useOffset=False)
        # Two at least: to show a third, ticks would be halved, and five long numbers run into one another.
        panel.locator_params(axis="x", nbins=4, min_n_ticks=2)

    def _draw_legend(self, is_new_figure: bool) -> None:
        handles, labels = self.ax_[0].get_legend_handles_labels()
        if is_new_figure:  # the margin is free, and nothing there covers a posterior
            look: dict[str, Any] = {"fontsize": "small"} if len(self.ax_) == 1 else {}
            self.figure_.legend(handles, labels, loc="outside upper center", ncols=len(handles), frameon=False, **look)
        else:
            self.ax_[-1].legend(handles, labels, fontsize="small", framealpha=0.8)


def _bin_edges(draws: FloatArray, bins: Any) -> list[float]:
    if isinstance(bins, str) and np.ptp(draws) < len(draws) * np.spacing(np.abs(draws).max()):
        bins = 1  # draws that differ by rounding are one bar
    try:
        edges = [float(edge) for edge in np.histogram_bin_edges(draws, bins)]
    except (TypeError, ValueError) as error:
        raise ValueError(f"bins={bins!r}; {_EXPECTED_BINS}.") from error
    if len(edges) < 2 or not np.isfinite(edges).all():
        raise ValueError(f"bins={bins!r}; {_EXPECTED_BINS}.")
    return edges
