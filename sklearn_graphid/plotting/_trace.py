"""Display of the traces of the chains during annealing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._utils._numbers import FloatArray
from ._checks import as_numbers, check_color, check_mapping, check_vector
from ._names import parameter_labels
from ._parameters import ParameterDisplay
from ._style import BLACK, BLUE, VERMILLION, fitted_attributes, needs_matplotlib, split_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection
    from matplotlib.lines import Line2D

__all__ = ["TraceDisplay"]

_TRACES = ("sigma", "log_likelihood", "theta")
_MANY_CHAINS = 6
_BAND = (0.1, 0.9)
_FEW: dict[str, Any] = {"linewidths": 0.6, "alpha": 0.6}
_INCHES_PER_CHARACTER = 0.085  # of the labels, in matplotlib's usual font of ten points


@dataclass(kw_only=True, eq=False, repr=False)
class TraceDisplay(ParameterDisplay):
    """Traces of the log-likelihood and of every parameter, by annealing level.

    Thin lines are chains, the thick line is their median. With six chains or more, a band contains the central 80 % of
    them at every step, and the lines are faint: a chain that stays outside the band disagrees with the others. Stripes
    separate the annealing levels, which are labelled at the top. A dotted line marks where the finishing sweeps begin.
    Chains that have reached the posterior lie on top of one another and no longer drift.

    Parameters
    ----------
    sigma : ndarray of shape (n_steps,)
        Annealing level of every recorded step.
    log_likelihood : ndarray of shape (n_chains, n_steps)
        Log-likelihood of every chain.
    theta : ndarray of shape (n_chains, n_steps, n_parameters)
        Parameters of every chain.
    true_theta : ndarray of shape (n_parameters,), default=None
        The true parameters, if they are known.
    parameter_names : list of str, default=None
        Names of the parameters.
    kernel : ndarray of shape (n_steps,), default=None
        Index of the kernel that made each step. If None, the finishing sweeps are assumed to begin where sigma rises.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (1 + n_parameters,)
        Axes with the log-likelihood, and one panel for each parameter below it.
    sigma_ax_ : matplotlib Axes
        Axes with the scale of annealing levels, above the panels.
    figure_ : matplotlib Figure
        Figure containing the axes.
    lines_ : list of LineCollection
        The chains in each panel.
    medians_ : list of Line2D
        The median of the chains in each panel.
    bands_ : list of PolyCollection
        The band in each panel; empty with fewer than six chains.

    See Also
    --------
    ThetaDisplay : The draws that are kept after sampling.

    Examples
    --------
    >>> import matplotlib, networkx as nx
    >>> matplotlib.use("Agg")  # draws into memory; leave it out to see the picture
    >>> from sklearn_graphid import LangevinSystemIdentifier
    >>> from sklearn_graphid.datasets import make_system
    >>> from sklearn_graphid.plotting import TraceDisplay
    >>> ring = nx.to_numpy_array(nx.cycle_graph(6))
    >>> X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=10, random_state=0)
    >>> identifier = LangevinSystemIdentifier("heat", n_chains=4, random_state=0).fit(X, Y)
    >>> display = TraceDisplay.from_estimator(identifier, true_theta=[0.5])
    >>> [ax.get_ylabel() for ax in display.ax_]
    ['log-likelihood', '$\\\\theta$']
    """

    sigma: FloatArray
    log_likelihood: FloatArray
    theta: FloatArray
    true_theta: FloatArray | None = None
    parameter_names: Sequence[str] | None = None
    kernel: FloatArray | None = None

    @classmethod
    def _sampled_by(cls, estimator: Any) -> tuple[Any, ...]:
        (diagnostics,) = fitted_attributes(cls.__name__, estimator, "diagnostics_")
        missing = [name for name in _TRACES if name not in diagnostics]
        if missing:
            raise TypeError(
                f"diagnostics_ of {type(estimator).__name__} has no {missing[0]!r}, which {cls.__name__} draws; "
                f"expected an identifier that samples, such as LangevinSystemIdentifier."
            )
        return (diagnostics,)

    @classmethod
    @needs_matplotlib
    def from_predictions(
        cls,
        diagnostics: Mapping[str, Any],
        *,
        true_theta: Any = None,
        parameter_names: Sequence[str] | None = None,
        ax: Axes | Sequence[Axes] | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw given traces.

        Parameters
        ----------
        diagnostics : mapping
            Traces as in an identifier's `diagnostics_`: "sigma" of shape (n_steps,), "log_likelihood" of shape
            (n_chains, n_steps) and "theta" of shape (n_chains, n_steps, n_parameters). Optionally "kernel" of shape
            (n_steps,), the index of the kernel that made each step.
        true_theta, parameter_names : array-like and list of str, default=None
            The true parameters, and the names of the parameters.
        ax, **plot_options : as in `plot`
            Passed to `plot`.

        Returns
        -------
        TraceDisplay
            The display, with the log-likelihood above the parameters.
        """
        traces = _check_traces(diagnostics)
        truth = check_vector(true_theta, traces["theta"].shape[2], "true_theta")
        return cls(**traces, true_theta=truth, parameter_names=parameter_names).plot(ax, **plot_options)

    @needs_matplotlib
    def plot(self, ax: Axes | Sequence[Axes] | None = None, *, chain_color: str = BLUE) -> Self:
        """Draw the traces.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of these, default=None
            One Axes to divide into panels, or one for each panel. If None, a new figure is created.
        chain_color : str, default="#0072B2"
            Colour of the chains.

        Returns
        -------
        TraceDisplay
            The display itself.
        """
        check_color(chain_color, "chain_color")
        n_parameters = self.theta.shape[2]
        traces = [self.log_likelihood, *np.moveaxis(self.theta, 2, 0)]
        labels = [("log-likelihood", {}), *parameter_labels(self.parameter_names, n_parameters)]
        self.ax_, self.figure_ = split_axes(ax, len(traces), stacked=True, panel_size=(7.0, 1.9))
        self.lines_: list[LineCollection] = []
        self.medians_: list[Line2D] = []
        self.bands_: list[Any] = []
        truths = [None, *([None] * n_parameters if self.true_theta is None else self.true_theta)]
        for panel, values, (label, look), truth in zip(self.ax_, traces, labels, truths, strict=True):
            self._draw_chains(panel, values, chain_color)
            self._stripe_levels(panel)
            if truth is not None:
                panel.axhline(truth, color=VERMILLION, linestyle="--", linewidth=1.5, label="truth")
            panel.set_ylim(*_limits(values, truth))
            panel.set_ylabel(label, **look)
            tidy(panel)
        self._label_levels()
        self._draw_legend()
        return self

    def _draw_chains(self, panel: Axes, values: FloatArray, color: str) -> None:
        from matplotlib.collections import LineCollection
        from matplotlib.patheffects import withStroke

        steps = np.arange(1, values.shape[1] + 1)
        # Many lines hide what they have in common and the one that is apart; the band shows it, and the lines fade.
        is_many = len(values) >= _MANY_CHAINS
        if is_many:
            low, high = np.quantile(values, _BAND, axis=0)
            share = f"{100 * (_BAND[1] - _BAND[0]):.0f} % of the chains"
            self.bands_.append(panel.fill_between(steps, low, high, color=color, alpha=0.25, linewidth=0, label=share))
        fading: dict[str, Any] = {"linewidths": 0.5, "alpha": max(0.2, 3.0 / len(values))} if is_many else _FEW
        curves = [np.column_stack([steps, chain]) for chain in values]
        chains = LineCollection(curves, colors=color, label=f"{len(values)} chains", **fading)
        panel.add_collection(chains)
        self.lines_.append(chains)
        median = np.median(values, axis=0)
        (line,) = panel.plot(steps, median, color=BLACK, linewidth=1.6, label="median", zorder=3)
        line.set_path_effects([withStroke(linewidth=3.0, foreground="white")])
        self.medians_.append(line)
        panel.set_xlim(0.5, len(steps) + 0.5)

    def _stripe_levels(self, panel: Axes) -> None:
        levels = list(pairwise(self._level_bounds()))
        if len(levels) == 1:  # there is nothing to tell apart
            return
        # The last sweeps stay white, as what matters most is there.
        striped = levels[::2] if self._finish() is None else levels[len(levels) % 2 : -1 : 2]
        for start, stop in striped:
            panel.axvspan(start + 0.5, stop + 0.5, color="#F0F0F0", zorder=0, linewidth=0)

    def _level_bounds(self) -> list[int]:
        """The steps at which a level begins, and the end."""
        changes = np.diff(self.sigma) != 0
        if self.kernel is not None:  # the finish may be at the level of the steps before it
            changes |= np.diff(self.kernel) != 0
        return [0, *(np.flatnonzero(changes) + 1).tolist(), len(self.sigma)]

    def _finish(self) -> int | None:
        """The step at which the finishing sweeps begin: those of the last kernel, where there are several.

        Where the kernels are not told: after the annealing sigma rises once more, and stays.
        """
        if self.kernel is not None:
            switches = np.flatnonzero(np.diff(self.kernel)) + 1
            return int(switches[-1]) if len(switches) else None
        rises = np.flatnonzero(np.diff(self.sigma) > 0) + 1
        *_, last, end = self._level_bounds()
        return last if len(rises) and rises[-1] == last < end else None

    def _label_levels(self) -> None:
        from matplotlib.ticker import MaxNLocator

        self.ax_[-1].set_xlabel("recorded step")
        self.ax_[-1].xaxis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True))
        for panel in self.ax_[:-1]:
            panel.tick_params(labelbottom=False)
        finish = self._finish()
        if finish is not None:
            for panel in self.ax_:
                panel.axvline(finish + 0.5, color=BLACK, linestyle=":", linewidth=1.0, zorder=2)
        labels = {
            (start + stop + 1) / 2: f"finish, at {self.sigma[start]:.2g}"
            if start == finish
            else f"{self.sigma[start]:.2g}"
            for start, stop in pairwise(self._level_bounds())
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
        steps_per_character = _INCHES_PER_CHARACTER * len(self.sigma) / inches
        *others, last = labels
        for every in range(1, len(others) + 1):
            places = [*others[::every], last]
            half_widths = [steps_per_character * (len(labels[place]) + 1) / 2 for place in places]
            needed = [left + right for left, right in pairwise(half_widths)]
            if all(np.diff(places) >= needed):
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


def _check_traces(diagnostics: Mapping[str, Any]) -> dict[str, FloatArray]:
    check_mapping(diagnostics, "diagnostics", "a mapping with 'sigma', 'log_likelihood' and 'theta'")
    missing = [name for name in _TRACES if name not in diagnostics]
    if missing:
        raise ValueError(f"diagnostics has no {missing[0]!r}; expected 'sigma', 'log_likelihood' and 'theta'.")
    traces = {name: as_numbers(diagnostics[name], f"diagnostics[{name!r}]", "numbers") for name in _TRACES}
    sigma, log_likelihood, theta = (trace.shape for trace in traces.values())
    if len(sigma) != 1 or len(theta) != 3 or log_likelihood != theta[:2] or theta[1:2] != sigma or 0 in theta:
        shapes = ", ".join(f"{name} {trace.shape}" for name, trace in traces.items())
        raise ValueError(
            f"diagnostics holds traces that do not fit together: {shapes}; expected (n_steps,), (n_chains, n_steps) "
            f"and (n_chains, n_steps, n_parameters)."
        )
    if "kernel" in diagnostics:
        traces["kernel"] = as_numbers(diagnostics["kernel"], "diagnostics['kernel']", "a number for each step")
        if traces["kernel"].shape != sigma:
            raise ValueError(
                f"diagnostics['kernel'] has shape {traces['kernel'].shape}; expected {sigma}, one number for each step."
            )
    return traces
