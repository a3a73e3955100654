"""Display of the training of a prior, and of its denoising loss by annealing level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.special import expit, logit

from .._utils._numbers import FloatArray
from ..graphs._matrices import check_graphs
from ._base import (
    BLUE,
    GREY,
    VERMILLION,
    Display,
    check_array,
    check_choice,
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
    training_loss : array-like of shape (n_epochs,)
        Loss on the training graphs.
    validation_loss : array-like of shape (n_epochs,)
        Loss on the held-out graphs; nan if no graphs were held out.
    seconds : array-like of shape (n_epochs,)
        Seconds since the start.
    sigmas : array-like of shape (n_levels,), default=None
        Annealing levels.
    level_losses : array-like of shape (n_graphs, n_levels), default=None
        Loss of every graph at every level.
    baseline_losses : array-like of shape (n_graphs, n_levels), default=None
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

    Examples
    --------
    >>> from sklearn_graphid import GraphPriorScore
    >>> from sklearn_graphid.datasets import make_grid_graphs
    >>> from sklearn_graphid.plotting import PriorTrainingDisplay
    >>> graphs = make_grid_graphs(20, min_nodes=9, max_nodes=16, min_side=3, max_side=4, random_state=0)
    >>> prior = GraphPriorScore(max_epochs=3, random_state=0).fit(graphs)
    >>> display = PriorTrainingDisplay.from_estimator(prior, graphs)
    >>> display.level_losses.shape
    (20, 10)
    """

    training_loss: Any
    validation_loss: Any
    seconds: Any
    sigmas: Any = None
    level_losses: Any = None
    baseline_losses: Any = None

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
        history, sigmas = cls._read(estimator, "loss_history_", "sigmas_")
        if not len(history["training"]):
            raise ValueError("loss_history_ is empty, as for a prior from a checkpoint; expected one epoch or more.")
        losses = baseline = None
        if graphs is not None:
            (architecture,) = cls._read(estimator, "architecture_")
            adjacencies = check_graphs(graphs, directed=bool(getattr(estimator, "directed", False)))
            densities = np.array([graph.sum() / max(1, len(graph) * (len(graph) - 1)) for graph in adjacencies])
            losses = estimator.transform(graphs)
            baseline = density_losses(densities, np.asarray(sigmas, dtype=np.float64), architecture)
        display = cls(
            training_loss=history["training"],
            validation_loss=history["validation"],
            seconds=history["seconds"],
            sigmas=sigmas,
            level_losses=losses,
            baseline_losses=baseline,
        )
        return display.plot(**plot_options)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.training_loss = check_array(self.training_loss, "training_loss", ("n_epochs",), finite=False)
        n_epochs = self.training_loss.shape
        self.validation_loss = check_array(self.validation_loss, "validation_loss", n_epochs, finite=False)
        self.seconds = check_array(self.seconds, "seconds", n_epochs)
        for name, other in (("level_losses", "sigmas"), ("baseline_losses", "level_losses")):
            if getattr(self, name) is not None and getattr(self, other) is None:
                raise ValueError(f"{name} is given without {other}; expected both.")
        self.sigmas = check_array(self.sigmas, "sigmas", ("n_levels",), optional=True)
        shape = ("n_graphs", 0 if self.sigmas is None else len(self.sigmas))
        self.level_losses = check_array(self.level_losses, "level_losses", shape, finite=False, optional=True)
        shape = shape if self.level_losses is None else self.level_losses.shape
        self.baseline_losses = check_array(self.baseline_losses, "baseline_losses", shape, finite=False, optional=True)

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
        (self.level_line_,) = panel.plot(sigmas, median, color="black", marker="o", markersize=4, label="median")
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
