"""Display of the training of a prior, and of its denoising loss by annealing level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import expit, logit

from .._utils._numbers import FloatArray
from ..graphs._matrices import check_graphs
from ._base import (
    BLACK,
    BLUE,
    GREY,
    VERMILLION,
    Display,
    check_array,
    check_choice,
    check_mapping,
    check_optional_array,
    fitted_attributes,
    panels_on,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D

__all__ = ["PriorTrainingDisplay", "density_losses"]


@dataclass(kw_only=True, eq=False, repr=False)
class PriorTrainingDisplay(Display):
    """Training and validation loss of a prior and, for given graphs, the loss by annealing level.

    The loss by annealing level is shown together with that of a baseline: the best guess from the density of each graph
    alone, which ignores all other pairs. The difference between the two is what the prior has learned about how edges
    depend on one another. A ring marks the best validation loss, whose weights are kept. If the network is given part
    of the pairs during training, as "ppgn" is, training loss and validation loss are not comparable.

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
        Loss of the baseline.

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
    def from_estimator(cls, estimator: Any, graphs: Any = None, **plot_options: Any) -> Self:
        """Draw the training of a prior, and its losses by annealing level if graphs are given.

        Parameters
        ----------
        estimator : fitted GraphPriorScore, or a FrozenEstimator that holds one
            The prior.
        graphs : list of arrays, sparse matrices or networkx graphs, default=None
            Graphs on which to measure the loss by annealing level, preferably not those that it was trained on.
        **plot_options
            Arguments of `plot`, such as `ax`.
        """
        history, sigmas = fitted_attributes(cls, estimator, "loss_history_", "sigmas_")
        if graphs is not None:
            (architecture,) = fitted_attributes(cls, estimator, "architecture_")
            adjacencies = check_graphs(graphs, directed=bool(getattr(estimator, "directed", False)))
            densities = np.array([graph.sum() / max(1, len(graph) * (len(graph) - 1)) for graph in adjacencies])
            plot_options["level_losses"] = estimator.transform(graphs)
            plot_options["baseline_losses"] = density_losses(densities, np.asarray(sigmas, float), architecture)
        return cls.from_history(history, sigmas=sigmas, **plot_options)

    @classmethod
    def from_history(
        cls,
        loss_history: Mapping[str, Any],
        *,
        sigmas: Any = None,
        level_losses: Any = None,
        baseline_losses: Any = None,
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
        **plot_options
            Arguments of `plot`, such as `ax`.
        """
        expected = "'training', 'validation' and 'seconds'"
        check_mapping(loss_history, "loss_history", f"a mapping with {expected}")
        history: dict[str, FloatArray] = {}
        shape: tuple[int | str, ...] = ("n_epochs",)
        for name in ("training", "validation", "seconds"):
            if name not in loss_history:
                raise ValueError(f"loss_history has no {name!r}; expected {expected}.")
            if np.size(loss_history[name]) == 0:
                raise ValueError("loss_history is empty, as for a prior from a checkpoint; expected one epoch or more.")
            history[name] = check_array(loss_history[name], f"loss_history[{name!r}]", shape, finite=False)
            shape = history[name].shape
        if level_losses is not None and sigmas is None:
            raise ValueError("level_losses is given without sigmas; expected both.")
        if baseline_losses is not None and level_losses is None:
            raise ValueError("baseline_losses is given without level_losses; expected both, to compare them.")
        levels = check_optional_array(sigmas, "sigmas", ("n_levels",))
        shape = ("n_graphs", 0 if levels is None else len(levels))
        losses = check_optional_array(level_losses, "level_losses", shape, finite=False)
        shape = shape if losses is None else losses.shape
        display = cls(
            training_loss=history["training"],
            validation_loss=history["validation"],
            seconds=history["seconds"],
            sigmas=levels,
            level_losses=losses,
            baseline_losses=check_optional_array(baseline_losses, "baseline_losses", shape, finite=False),
        )
        return display.plot(**plot_options)

    def plot(self, ax: Axes | Sequence[Axes] | None = None, *, time_axis: str = "seconds") -> Self:
        """Draw the losses.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of these, default=None
            One Axes to divide into panels, or one for each panel. If None, a new figure is created.
        time_axis : {"seconds", "epochs"}, default="seconds"
            Horizontal axis of the history.
        """
        check_choice(time_axis, "time_axis", ("seconds", "epochs"))
        self.ax_, self.figure_ = panels_on(ax, 1 if self.level_losses is None else 2, (4.6, 3.4))
        self._draw_history(self.ax_[0], time_axis)
        self.level_line_: Line2D | None = None
        self.baseline_line_: Line2D | None = None
        self.share_left_ = float("nan")
        if self.level_losses is not None and self.sigmas is not None:
            self._draw_levels(self.ax_[1], self.sigmas, self.level_losses)
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
        label = "seconds" if time_axis == "seconds" else "epoch"
        panel.set(xlim=(0, None), xlabel=label, ylabel="loss", title="Training")
        panel.legend(frameon=False)

    def _draw_levels(self, panel: Axes, sigmas: FloatArray, losses: FloatArray) -> None:
        low, median, high = np.quantile(losses, (0.1, 0.5, 0.9), axis=0)
        panel.fill_between(sigmas, low, high, color=BLUE, alpha=0.2, linewidth=0, label="80 % of the graphs")
        (self.level_line_,) = panel.plot(sigmas, median, color=BLACK, marker="o", markersize=4, label="median")
        panel.set(xlabel=r"annealing level $\sigma$", ylabel="denoising loss", title="Loss by annealing level")
        panel.set_ylim(bottom=0)
        if self.baseline_losses is not None:
            look: dict[str, Any] = {"color": VERMILLION, "linestyle": "--", "linewidth": 1.6}
            median = np.median(self.baseline_losses, axis=0)
            (self.baseline_line_,) = panel.plot(sigmas, median, label="guess by density alone", **look)
            self.share_left_ = float(losses.sum() / self.baseline_losses.sum())
            sentence = "no better than a guess by density: train longer"
            if self.share_left_ < 1:
                sentence = f"leaves {100 * self.share_left_:.0f} % of the loss of a guess by density"
            panel.set_title(f"Loss by annealing level:\n{sentence}", fontsize="medium")
        panel.legend(frameon=False, loc="upper left")


def density_losses(densities: FloatArray, sigmas: FloatArray, architecture: str) -> FloatArray:
    """Expected loss of the best guess from a graph's density alone, for each graph and annealing level.

    A pair with noise, a~ = a + sigma z, is an edge with log-odds (a~ - 1/2) / sigma^2 + logit(density), whatever the
    other pairs are. "ppgn" is trained by the cross-entropy of that, "edp-gnn" by its squared error over 2 sigma^2.
    """
    z = np.linspace(-9.0, 9.0, 201)  # the integrands are smooth, but steep at small sigma
    weight = np.exp(-(z**2) / 2)
    weight /= weight.sum()
    p = np.clip(densities, 1e-9, 1 - 1e-9)[:, None, None]
    sigma = sigmas[None, :, None]
    losses = np.zeros((len(densities), len(sigmas)))
    for edge, probability in ((1.0, p), (0.0, 1 - p)):
        log_odds = (edge + sigma * z - 0.5) / sigma**2 + logit(p)
        if architecture == "edp-gnn":
            loss = (expit(log_odds) - edge) ** 2 / (2 * sigma**2)
        else:
            loss = np.logaddexp(0.0, log_odds if edge == 0 else -log_odds)
        losses += (probability * weight * loss).sum(-1)
    return losses
