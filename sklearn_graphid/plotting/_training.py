"""Display of the training of a prior, and of its denoising loss by annealing level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._utils._numbers import FloatArray
from ..graphs._matrices import check_graphs
from ._checks import as_numbers, check_choice, check_mapping
from ._density_baseline import density_losses
from ._style import BLACK, BLUE, GREY, VERMILLION, fitted_attributes, needs_matplotlib, split_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["PriorTrainingDisplay"]


@dataclass(kw_only=True, eq=False, repr=False)
class PriorTrainingDisplay:
    """Training and validation loss of a prior and, for given graphs, the loss by annealing level.

    The loss by annealing level is shown together with that of a baseline: the best guess from the density of each graph
    alone, which ignores all other pairs. The difference between the two is what the prior has learned about how edges
    depend on one another; if there is none, it has learned nothing. A ring marks the best validation loss, whose
    weights are kept. If the network is given part of the pairs during training, as "ppgn" is, training loss and
    validation loss are not comparable.

    Parameters
    ----------
    training_loss : ndarray of shape (n_epochs,)
        Loss on the training graphs.
    validation_loss : ndarray of shape (n_epochs,)
        Loss on the held-out graphs; nan if no graphs were held out.
    seconds : ndarray of shape (n_epochs,)
        Seconds since the start.
    sigmas : ndarray of shape (n_levels,), default=None
        Annealing levels.
    level_losses : ndarray of shape (n_graphs, n_levels), default=None
        Loss of every graph at every level.
    baseline_losses : ndarray of shape (n_graphs, n_levels), default=None
        Loss of the baseline, the best guess from the density of each graph alone.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (1,) or (2,)
        Axes with the history and, if given, with the losses by level.
    figure_ : matplotlib Figure
        Figure containing the axes.
    training_line_, validation_line_ : Line2D
        The two curves; the second is None if no graphs were held out.
    level_line_ : Line2D or None
        Median loss at each annealing level.
    baseline_line_ : Line2D or None
        Median loss of the baseline.
    share_left_ : float
        Loss of the prior as a share of the baseline's loss, summed over graphs and levels; nan without a baseline.

    See Also
    --------
    sklearn_graphid.GraphPriorScore : The prior.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws into memory; leave it out to see the picture
    >>> from sklearn_graphid import GraphPriorScore
    >>> from sklearn_graphid.datasets import make_grid_graphs
    >>> from sklearn_graphid.plotting import PriorTrainingDisplay
    >>> graphs = make_grid_graphs(20, min_nodes=9, max_nodes=16, min_side=3, max_side=4, random_state=0)
    >>> prior = GraphPriorScore(max_epochs=3, random_state=0).fit(graphs)
    >>> display = PriorTrainingDisplay.from_estimator(prior, graphs)
    >>> len(display.training_line_.get_xdata())
    3
    >>> display.level_losses.shape
    (20, 10)
    """

    training_loss: FloatArray
    validation_loss: FloatArray
    seconds: FloatArray
    sigmas: FloatArray | None = None
    level_losses: FloatArray | None = None
    baseline_losses: FloatArray | None = None

    @classmethod
    @needs_matplotlib
    def from_estimator(cls, estimator: Any, graphs: Any = None, *, ax: Any = None, **plot_options: Any) -> Self:
        """Draw the training of a prior.

        Parameters
        ----------
        estimator : fitted GraphPriorScore, or a FrozenEstimator that holds one
            The prior.
        graphs : list of arrays, sparse matrices or networkx graphs, default=None
            Graphs on which to measure the loss by annealing level, preferably not those that it was trained on.
        ax, **plot_options : as in `plot`
            Passed to `plot`.

        Returns
        -------
        PriorTrainingDisplay
            The display; it has a second panel if graphs are given.
        """
        history, sigmas = fitted_attributes(cls.__name__, estimator, "loss_history_", "sigmas_")
        losses = baseline = None
        if graphs is not None:
            (architecture,) = fitted_attributes(cls.__name__, estimator, "architecture_")
            losses = estimator.transform(graphs)
            adjacencies = check_graphs(graphs, directed=bool(getattr(estimator, "directed", False)))
            densities = np.array([graph.sum() / max(1, len(graph) * (len(graph) - 1)) for graph in adjacencies])
            baseline = density_losses(densities, np.asarray(sigmas, dtype=np.float64), architecture)
        given = {"sigmas": sigmas, "level_losses": losses, "baseline_losses": baseline}
        return cls.from_predictions(history, **given, ax=ax, **plot_options)

    @classmethod
    @needs_matplotlib
    def from_predictions(
        cls,
        loss_history: Mapping[str, Any],
        *,
        sigmas: Any = None,
        level_losses: Any = None,
        baseline_losses: Any = None,
        ax: Axes | Sequence[Axes] | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw a given history.

        Parameters
        ----------
        loss_history : mapping
            History as in a prior's `loss_history_`: "training", "validation" and "seconds", one number for each epoch.
        sigmas : array-like of shape (n_levels,), default=None
            Annealing levels; required with `level_losses`.
        level_losses : array-like of shape (n_graphs, n_levels), default=None
            Losses as returned by `transform` of the prior.
        baseline_losses : array-like of shape (n_graphs, n_levels), default=None
            The same losses of a baseline to compare with.
        ax, **plot_options : as in `plot`
            Passed to `plot`.

        Returns
        -------
        PriorTrainingDisplay
            The display.
        """
        training, validation, seconds = _check_history(loss_history)
        levels, losses = _check_levels(sigmas, level_losses)
        display = cls(
            training_loss=training,
            validation_loss=validation,
            seconds=seconds,
            sigmas=levels,
            level_losses=losses,
            baseline_losses=_check_baseline(baseline_losses, losses),
        )
        return display.plot(ax, **plot_options)

    @needs_matplotlib
    def plot(self, ax: Axes | Sequence[Axes] | None = None, *, time_axis: str = "seconds") -> Self:
        """Draw the losses.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of these, default=None
            One Axes to divide into panels, or one for each panel. If None, a new figure is created.
        time_axis : {"seconds", "epochs"}, default="seconds"
            Horizontal axis of the history.

        Returns
        -------
        PriorTrainingDisplay
            The display itself.
        """
        check_choice(time_axis, "time_axis", ("seconds", "epochs"))
        n_panels = 1 if self.level_losses is None else 2
        self.ax_, self.figure_ = split_axes(ax, n_panels, stacked=False, panel_size=(4.6, 3.4))
        self._draw_history(self.ax_[0], time_axis)
        self.level_line_ = self.baseline_line_ = None
        self.share_left_ = float("nan")
        if self.level_losses is not None and self.sigmas is not None:
            self.level_line_ = self._draw_levels(self.ax_[1], self.sigmas, self.level_losses)
            if self.baseline_losses is not None:
                self.share_left_ = float(self.level_losses.sum() / self.baseline_losses.sum())
                self.baseline_line_ = self._draw_baseline(self.ax_[1], self.sigmas, self.baseline_losses)
            self.ax_[1].legend(frameon=False, loc="upper left")
        return self

    def _draw_history(self, panel: Axes, time_axis: str) -> None:
        times = self.seconds if time_axis == "seconds" else np.arange(1, len(self.seconds) + 1)
        (self.training_line_,) = panel.plot(times, self.training_loss, color=GREY, linestyle="--", label="training")
        self.validation_line_ = None
        if np.isfinite(self.validation_loss).any():
            (self.validation_line_,) = panel.plot(times, self.validation_loss, color=BLUE, label="validation")
            best = int(np.nanargmin(self.validation_loss))
            lowest = self.validation_loss[best]
            ring: dict[str, Any] = {"marker": "o", "markersize": 9, "markerfacecolor": "none", "markeredgewidth": 1.8}
            panel.plot(times[best], lowest, color=VERMILLION, linestyle="none", label=f"best: {lowest:.4g}", **ring)
        panel.set(
            xlim=(0, None), xlabel="seconds" if time_axis == "seconds" else "epoch", ylabel="loss", title="Training"
        )
        panel.legend(frameon=False)
        tidy(panel)

    @staticmethod
    def _draw_levels(panel: Axes, sigmas: FloatArray, losses: FloatArray) -> Line2D:
        low, median, high = np.quantile(losses, (0.1, 0.5, 0.9), axis=0)
        panel.fill_between(sigmas, low, high, color=BLUE, alpha=0.2, linewidth=0, label="80 % of the graphs")
        (line,) = panel.plot(sigmas, median, color=BLACK, marker="o", markersize=4, label="median")
        panel.set(xlabel=r"annealing level $\sigma$", ylabel="denoising loss", title="Loss by annealing level")
        panel.set_ylim(bottom=0)
        tidy(panel)
        return line

    def _draw_baseline(self, panel: Axes, sigmas: FloatArray, losses: FloatArray) -> Line2D:
        look: dict[str, Any] = {"color": VERMILLION, "linestyle": "--", "linewidth": 1.6}
        (line,) = panel.plot(sigmas, np.median(losses, axis=0), label="guess by density alone", **look)
        if self.share_left_ < 1:
            sentence = f"leaves {100 * self.share_left_:.0f} % of the loss of a guess by density"
        else:
            sentence = "no better than a guess by density: train longer"
        panel.set_title(f"Loss by annealing level:\n{sentence}", fontsize="medium")
        return line


def _check_history(loss_history: Mapping[str, Any]) -> tuple[FloatArray, FloatArray, FloatArray]:
    names = ("training", "validation", "seconds")
    check_mapping(loss_history, "loss_history", "a mapping with 'training', 'validation' and 'seconds'")
    missing = [name for name in names if name not in loss_history]
    if missing:
        raise ValueError(f"loss_history has no {missing[0]!r}; expected 'training', 'validation' and 'seconds'.")
    expected = "a number for each epoch"
    training, validation, seconds = (
        np.atleast_1d(as_numbers(loss_history[name], f"loss_history[{name!r}]", expected)) for name in names
    )
    if not len(training):
        raise ValueError("loss_history is empty, as for a prior read from a checkpoint; expected at least one epoch.")
    if training.ndim != 1 or training.shape != validation.shape or training.shape != seconds.shape:
        raise ValueError(
            f"loss_history holds {len(training)} training losses, {len(validation)} validation losses and "
            f"{len(seconds)} times; expected as many of each, in one dimension."
        )
    return training, validation, seconds


def _check_levels(sigmas: Any, level_losses: Any) -> tuple[FloatArray | None, FloatArray | None]:
    levels = None if sigmas is None else as_numbers(sigmas, "sigmas", "a number for each annealing level")
    losses = None if level_losses is None else as_numbers(level_losses, "level_losses", "shape (n_graphs, n_levels)")
    if levels is not None and levels.ndim != 1:
        raise ValueError(f"sigmas has shape {levels.shape}; expected (n_levels,), a number for each annealing level.")
    if losses is not None and (levels is None or losses.ndim != 2 or losses.shape[1:] != levels.shape):
        expected = "sigmas with it" if levels is None else f"(n_graphs, {len(levels)}), a column for each of sigmas"
        raise ValueError(f"level_losses has shape {losses.shape}; expected {expected}.")
    return levels, losses


def _check_baseline(baseline_losses: Any, losses: FloatArray | None) -> FloatArray | None:
    if baseline_losses is None:
        return None
    if losses is None:
        raise ValueError("baseline_losses is given without level_losses; expected both, to compare them.")
    baseline = as_numbers(baseline_losses, "baseline_losses", f"shape {losses.shape}")
    if baseline.shape != losses.shape:
        raise ValueError(f"baseline_losses has shape {baseline.shape}; expected {losses.shape}, as level_losses has.")
    return baseline
