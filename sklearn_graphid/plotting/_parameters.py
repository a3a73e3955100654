"""Displays of sampled parameters: the posterior, and the traces of the chains."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._utils._numbers import FloatArray, check_flag, check_number
from ._base import (
    BLUE,
    LITERAL,
    VERMILLION,
    Display,
    check_array,
    check_look,
    check_names,
    drawable,
    panels_on,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

__all__ = ["ThetaDisplay", "TraceDisplay"]


def _parameter_labels(names: Any, n_parameters: int) -> list[tuple[str, dict[str, Any]]]:
    """The text of every parameter's label and its properties.

    theta_0 and the like become a Greek letter with an index, as mathematics; other names are what they are.
    """
    if names is None:
        names = [f"theta_{i}" for i in range(n_parameters)]
    labels: list[tuple[str, dict[str, Any]]] = []
    for name in map(str, check_names(names, n_parameters, "parameter_names", "parameter")):
        if match := re.fullmatch(r"(theta|[a-z])(?:_(\d+))?", name):
            letter = r"\theta" if match[1] == "theta" else match[1]
            index = "" if match[2] is None else f"_{{{match[2]}}}"
            labels.append((f"${letter}{index}$", {}))
        else:
            labels.append((drawable(name), LITERAL))
    return labels


@dataclass(kw_only=True, eq=False, repr=False)
class ThetaDisplay(Display):
    """Histograms of the draws of every parameter, with central interval, point estimate and true value.

    Parameters
    ----------
    theta_samples : array-like of shape (n_draws, n_parameters)
        Draws from the posterior.
    theta : array-like of shape (n_parameters,), default=None
        The point estimate.
    true_theta : array-like of shape (n_parameters,), default=None
        The true parameters, if they are known.
    parameter_names : list of str, default=None
        Names of the parameters; names such as "theta_0" are typeset as mathematics.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (n_parameters,)
        One panel for each parameter.
    figure_ : matplotlib Figure
        Figure containing the axes.
    intervals_ : ndarray of shape (n_parameters, 2)
        Ends of the central intervals.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_graphid.plotting import ThetaDisplay
    >>> draws = np.random.default_rng(0).normal([0.0, 0.5], 0.1, size=(500, 2))
    >>> display = ThetaDisplay(theta_samples=draws, true_theta=[0.1, 0.5]).plot()
    >>> [ax.get_xlabel() for ax in display.ax_]
    ['$\\\\theta_{0}$', '$\\\\theta_{1}$']
    """

    theta_samples: Any
    theta: Any = None
    true_theta: Any = None
    parameter_names: Sequence[str] | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, true_theta: Any = None, **plot_options: Any) -> Self:
        """Draw the parameters that an identifier has sampled; see `plot` for the options."""
        samples, theta, filter = cls._read(estimator, "theta_samples_", "theta_", "filter_")
        given = {"theta_samples": samples, "theta": theta, "true_theta": true_theta}
        return cls(**given, parameter_names=filter.parameter_names()).plot(**plot_options)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.theta_samples = check_array(self.theta_samples, "theta_samples", ("n_draws", "n_parameters"))
        self.theta = check_array(self.theta, "theta", self.theta_samples.shape[1:], optional=True)
        self.true_theta = check_array(self.true_theta, "true_theta", self.theta_samples.shape[1:], optional=True)

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
        """
        check_flag(legend, "legend")
        check_number(interval, "interval", low=0, high=1, strict=True)
        n_parameters = self.theta_samples.shape[1]
        labels = _parameter_labels(self.parameter_names, n_parameters)
        edges = [_bin_edges(draws, bins) for draws in self.theta_samples.T]
        self.intervals_ = np.quantile(self.theta_samples, (0.5 - interval / 2, 0.5 + interval / 2), axis=0).T
        # Pages scale a small square up to their width, so one panel is wide.
        self.ax_, self.figure_ = panels_on(ax, n_parameters, (3.2, 3.0) if n_parameters > 1 else (4.4, 2.8))
        for parameter, (panel, (label, look)) in enumerate(zip(self.ax_, labels, strict=True)):
            self._draw_parameter(panel, parameter, interval, edges[parameter])
            panel.set_xlabel(label, **look)
        self.ax_[0].set_ylabel("draws")
        if legend:
            entries = self.ax_[0].get_legend_handles_labels()
            if ax is None:  # the margin is free, and nothing there covers a posterior
                place: dict[str, Any] = {"loc": "outside upper center", "ncols": len(entries[0]), "frameon": False}
                self.figure_.legend(*entries, fontsize="small" if n_parameters == 1 else None, **place)
            else:
                self.ax_[-1].legend(*entries, fontsize="small", framealpha=0.8)
        return self

    def _draw_parameter(self, panel: Axes, parameter: int, interval: float, edges: list[float]) -> None:
        panel.hist(self.theta_samples[:, parameter], bins=edges, color=BLUE, alpha=0.35, label="draws")
        # The interval and the estimate stand on the histogram's floor, in heights that do not depend on the counts.
        floor = panel.get_xaxis_transform()
        bar: dict[str, Any] = {"color": BLUE, "linewidth": 4, "solid_capstyle": "butt", "transform": floor}
        panel.plot(self.intervals_[parameter], [0.035, 0.035], label=f"{100 * interval:.0f} % interval", **bar)
        if self.theta is not None:
            look: dict[str, Any] = {"marker": "D", "markersize": 7, "markerfacecolor": "white", "linestyle": "none"}
            panel.plot(self.theta[parameter], 0.035, color="black", transform=floor, label="estimate", zorder=4, **look)
        if self.true_theta is not None:
            panel.axvline(self.true_theta[parameter], color=VERMILLION, linestyle="--", linewidth=1.8, label="truth")
        panel.ticklabel_format(axis="x", useOffset=False)
        # Two at least: to show a third, ticks would be halved, and five long numbers run into one another.
        panel.locator_params(axis="x", nbins=4, min_n_ticks=2)


def _bin_edges(draws: FloatArray, bins: Any) -> list[float]:
    expected = "expected what numpy.histogram_bin_edges takes: an int, increasing edges, or a rule such as 'auto'"
    if isinstance(bins, str) and np.ptp(draws) < len(draws) * np.spacing(np.abs(draws).max()):
        bins = 1  # draws that differ by rounding are one bar
    try:
        edges = [float(edge) for edge in np.histogram_bin_edges(draws, bins)]
    except (TypeError, ValueError) as error:
        raise ValueError(f"bins={bins!r}; {expected}.") from error
    if len(edges) < 2 or not np.isfinite(edges).all():
        raise ValueError(f"bins={bins!r}; {expected}.")
    return edges


@dataclass(kw_only=True, eq=False, repr=False)
class TraceDisplay(Display):
    """Traces of the log-likelihood and of every parameter, by annealing level.

    Thin lines are chains, the thick line is their median. With six chains or more, a band contains the central 80 % of
    them at every step, and the lines are faint: a chain that stays outside the band disagrees with the others. Stripes
    separate the annealing levels, which are labelled at the top. A dotted line marks where the finishing sweeps begin.
    Chains that have reached the posterior lie on top of one another and no longer drift.

    Parameters
    ----------
    sigma : array-like of shape (n_steps,)
        Annealing level of every recorded step.
    log_likelihood : array-like of shape (n_chains, n_steps)
        Log-likelihood of every chain.
    theta : array-like of shape (n_chains, n_steps, n_parameters)
        Parameters of every chain.
    true_theta : array-like of shape (n_parameters,), default=None
        The true parameters, if they are known.
    parameter_names : list of str, default=None
        Names of the parameters.
    kernel : array-like of shape (n_steps,), default=None
        Index of the kernel that made each step. If None, the finishing sweeps are assumed to begin where sigma rises.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (1 + n_parameters,)
        Axes with the log-likelihood, and one panel for each parameter below it.
    figure_ : matplotlib Figure
        Figure containing the axes.
    sigma_ax_ : matplotlib Axes
        Axes with the scale of annealing levels, above the panels.
    lines_ : list of LineCollection
        The chains in each panel.
    medians_ : list of Line2D
        The median of the chains in each panel.
    bands_ : list of PolyCollection
        The band in each panel; empty with fewer than six chains.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_graphid.plotting import TraceDisplay
    >>> noise = np.random.default_rng(0).normal(size=(4, 20, 1))  # chains, steps, parameters
    >>> display = TraceDisplay(sigma=np.ones(20), log_likelihood=noise[..., 0], theta=noise).plot()
    >>> [ax.get_ylabel() for ax in display.ax_]
    ['log-likelihood', '$\\\\theta_{0}$']
    """

    sigma: Any
    log_likelihood: Any
    theta: Any
    true_theta: Any = None
    parameter_names: Sequence[str] | None = None
    kernel: Any = None

    @classmethod
    def from_estimator(cls, estimator: Any, *, true_theta: Any = None, **plot_options: Any) -> Self:
        """Draw the traces of an identifier that has sampled; see `plot` for the options."""
        _, diagnostics, filter = cls._read(estimator, "theta_samples_", "diagnostics_", "filter_")
        names = filter.parameter_names()
        return cls._of(diagnostics, true_theta=true_theta, parameter_names=names).plot(**plot_options)

    @classmethod
    def _of(cls, diagnostics: Mapping[str, Any], **options: Any) -> Self:
        names = ("sigma", "log_likelihood", "theta", "kernel")
        return cls(**{name: diagnostics[name] for name in names if name in diagnostics}, **options)

    def __post_init__(self) -> None:
        super().__post_init__()
        # A chain may overflow on its way and still end well.
        self.theta = check_array(self.theta, "theta", ("n_chains", "n_steps", "n_parameters"), finite=False)
        n_chains, n_steps, n_parameters = self.theta.shape
        self.log_likelihood = check_array(self.log_likelihood, "log_likelihood", (n_chains, n_steps), finite=False)
        self.sigma = check_array(self.sigma, "sigma", (n_steps,))
        self.kernel = check_array(self.kernel, "kernel", (n_steps,), optional=True)
        self.true_theta = check_array(self.true_theta, "true_theta", (n_parameters,), optional=True)

    def plot(self, ax: Axes | Sequence[Axes] | None = None, *, chain_color: str = BLUE) -> Self:
        """Draw the traces.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of these, default=None
            One Axes to divide into panels, or one for each panel. If None, a new figure is created.
        chain_color : str, default="#0072B2"
            Colour of the chains.
        """
        check_look(chain_color, "chain_color")
        n_parameters = self.theta.shape[2]
        traces = [self.log_likelihood, *np.moveaxis(self.theta, 2, 0)]
        labels = [("log-likelihood", {}), *_parameter_labels(self.parameter_names, n_parameters)]
        self.ax_, self.figure_ = panels_on(ax, len(traces), (7.0, 1.9), stacked=True, share_x=True)
        self.lines_: list[LineCollection] = []
        self.medians_: list[Line2D] = []
        self.bands_: list[Any] = []
        levels, finish = self._levels()
        truths = [None, *([None] * n_parameters if self.true_theta is None else self.true_theta)]
        for panel, values, (label, look), truth in zip(self.ax_, traces, labels, truths, strict=True):
            self._draw_chains(panel, values, chain_color)
            # The last sweeps stay white, as what matters most is there; one level alone has no stripe.
            striped = levels[::2] if finish is None else levels[len(levels) % 2 : -1 : 2]
            for start, stop in striped if len(levels) > 1 else []:
                panel.axvspan(start + 0.5, stop + 0.5, color="#F0F0F0", zorder=0, linewidth=0)
            if finish is not None:
                panel.axvline(finish + 0.5, color="black", linestyle=":", linewidth=1.0, zorder=2)
            if truth is not None:
                panel.axhline(truth, color=VERMILLION, linestyle="--", linewidth=1.5, label="truth")
            panel.set_ylim(*_limits(values, truth))
            panel.set_ylabel(label, **look)
        self._label_levels(levels, finish)
        self._draw_legend()
        return self

    def _levels(self) -> tuple[list[tuple[int, int]], int | None]:
        """First step and end of every level, and the step at which the finishing sweeps begin.

        These are the steps of the last kernel, where there are several. Where the kernels are not told: after the
        annealing sigma rises once more, and stays.
        """
        changes = np.diff(self.sigma) != 0
        finish = None
        if self.kernel is not None:  # the finish may be at the level of the steps before it
            switches = np.diff(self.kernel) != 0
            changes |= switches
            finish = int(np.flatnonzero(switches)[-1]) + 1 if switches.any() else None
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(self.sigma)]
        if self.kernel is None:
            rises = np.flatnonzero(np.diff(self.sigma) > 0) + 1
            finish = bounds[-2] if len(rises) and rises[-1] == bounds[-2] else None
        return list(pairwise(bounds)), finish

    def _draw_chains(self, panel: Axes, values: FloatArray, color: str) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.patheffects import withStroke

        steps = np.arange(1, values.shape[1] + 1)
        fading: dict[str, Any] = {"linewidths": 0.6, "alpha": 0.6}
        if len(values) >= 6:
            # Many lines hide what they have in common and the one that is apart; the band shows it, and the lines fade.
            fading = {"linewidths": 0.5, "alpha": max(0.2, 3.0 / len(values))}
            look: dict[str, Any] = {"color": color, "alpha": 0.25, "linewidth": 0, "label": "80 % of the chains"}
            self.bands_.append(panel.fill_between(steps, *np.quantile(values, (0.1, 0.9), axis=0), **look))
        curves = [np.column_stack([steps, chain]) for chain in values]
        self.lines_.append(LineCollection(curves, colors=color, label=f"{len(values)} chains", **fading))
        panel.add_collection(self.lines_[-1])
        (line,) = panel.plot(steps, np.median(values, axis=0), color="black", linewidth=1.6, label="median", zorder=3)
        line.set_path_effects([withStroke(linewidth=3.0, foreground="white")])
        self.medians_.append(line)
        panel.set_xlim(0.5, len(steps) + 0.5)

    def _label_levels(self, levels: list[tuple[int, int]], finish: int | None) -> None:
        from matplotlib.ticker import MaxNLocator

        self.ax_[-1].set_xlabel("recorded step")
        self.ax_[-1].xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
        for panel in self.ax_[:-1]:
            panel.tick_params(labelbottom=False)
        labels = {
            (start + stop + 1) / 2: f"{'finish, at ' * (start == finish)}{self.sigma[start]:.2g}"
            for start, stop in levels
        }
        self.sigma_ax_ = self.ax_[0].secondary_xaxis("top")
        is_annealed = len(labels) > 1  # one level alone is a number that the sampler of strengths has no use for
        places = self._places_with_room(labels) if is_annealed else []
        self.sigma_ax_.set_xticks(places, [labels[place] for place in places])
        self.sigma_ax_.tick_params(length=0)
        self.sigma_ax_.spines["top"].set_visible(False)
        self.sigma_ax_.set_xlabel(r"annealing level $\sigma$" if is_annealed else "")

    def _places_with_room(self, labels: Mapping[float, str]) -> list[float]:
        """The labels that can stand side by side: the last, the first, and as many as fit between, evenly."""
        inches = self.ax_[0].get_window_extent().width / self.figure_.dpi
        steps_per_character = 0.085 * len(self.sigma) / inches  # a character is that wide, in inches
        *others, last = labels
        for every in range(1, len(others) + 1):
            places = [*others[::every], last]
            half_widths = [steps_per_character * (len(labels[place]) + 1) / 2 for place in places]
            if all(np.diff(places) >= np.add(half_widths[:-1], half_widths[1:])):
                return places
        return [last]

    def _draw_legend(self) -> None:
        from matplotlib.transforms import ScaledTranslation

        # Beneath the scale, in inches: within a panel it would lie on the chains.
        beneath = self.ax_[-1].transAxes + ScaledTranslation(0, -0.42, self.figure_.dpi_scale_trans)
        place: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, 0), "bbox_transform": beneath}
        legend = self.ax_[-1].legend(ncols=4, fontsize="small", frameon=False, **place)
        for handle in legend.get_lines():  # faint chains are seen by their number, of which the legend has one
            handle.set_alpha(1.0)


def _limits(values: FloatArray, truth: float | None) -> tuple[float, float]:
    """Limits that show where the chains go; the first fall from a random start would flatten all the rest."""
    shown = values[:, values.shape[1] // 5 :].ravel()
    if truth is not None:
        shown = np.append(shown, truth)
    shown = shown[np.isfinite(shown)]
    if not len(shown):
        return 0.0, 1.0
    low, high = float(shown.min()), float(shown.max())
    margin = 0.08 * (high - low) or 0.1 * max(1.0, abs(high))
    return low - margin, high + margin
