"""Display of measured outputs against the predictions of an identified system, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri, ndtri_exp

from .._utils._numbers import FloatArray, check_integer, check_number, check_numeric
from ..graphs._nodes import match_names
from ..scorers import outputs_and_predictions
from ._base import (
    BLUE,
    GREY,
    LITERAL,
    PALE_GREY,
    VERMILLION,
    Display,
    check_array,
    check_choice,
    check_names,
    drawable,
    label_sizes,
    panel_beneath,
    panels_on,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PredictiveCheckDisplay"]

_NODE_WIDTH = 0.84  # of the distance between two nodes
# Residuals beyond are drawn at the border, as arrows: one outlier would flatten all the rest.
_FARTHEST = 6.0
_BAND: dict[str, Any] = {"facecolor": BLUE, "alpha": 0.2, "linewidth": 0}
_PANELS = {"both": ("outputs", "residuals"), "outputs": ("outputs",), "residuals": ("residuals",)}


@dataclass(kw_only=True, eq=False, repr=False)
class PredictiveCheckDisplay(Display):
    """Posterior predictive check: whether the identified system is consistent with the measured outputs.

    The upper panel shows every output of some nodes: the measured value, and the band in which the model expects it.
    The experiments of a node are side by side, sorted by the prediction. The lower panel shows the standardised
    residuals of all nodes, and below it the share of each node's outputs that are outside the band. If the model is
    right, residuals have a standard normal distribution, and a share of 1 - `level` of the outputs is outside.

    A check with the experiments of the fit is lenient; pass held-out experiments for a strict one. The check detects
    wrong filters, outliers, and nodes whose noise differs from that of the others. It does not show whether the graph
    is right: a graph with other edges may predict equally well.

    Parameters
    ----------
    outputs : array-like of shape (n_experiments, n_outputs)
        The measured outputs; nan where nothing was measured.
    means : array-like of shape (n_draws, n_experiments, n_outputs) or (n_experiments, n_outputs)
        Predicted outputs without noise, for each of several draws or for a single answer.
    noise_std : float or array-like of shape (n_outputs,) or (n_draws, n_outputs)
        The noise level: one for all, one for each node, or one for each node in each draw.
    node_names : sequence, default=None
        Names of the nodes that the columns belong to. If None, their indices.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (1,) or (2,)
        Axes with the outputs, the residuals, or both.
    figure_ : matplotlib Figure
        Figure containing the axes.
    shares_ax_ : matplotlib Axes or None
        Axes with the shares outside the band, below the residuals.
    level_ : float
        The probability of the band.
    predicted_ : ndarray of shape (n_experiments, n_outputs)
        Mean of the predictive distribution.
    lower_, upper_ : ndarray of shape (n_experiments, n_outputs)
        Ends of the band.
    residuals_ : ndarray of shape (n_experiments, n_outputs)
        Standardised residuals: normal quantiles of the predictive probability of a smaller output.
    share_outside_ : ndarray of shape (n_outputs,)
        Share of each node's measured outputs that are outside the band; nan if none was measured.
    total_share_outside_ : float
        Share of all measured outputs that are outside the band.
    conspicuous_ : ndarray of shape (n_outputs,)
        Whether more outputs of a node are outside than chance explains, by a binomial test that treats outputs as
        independent, with one false alarm in a hundred checks of all nodes.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_graphid.plotting import PredictiveCheckDisplay
    >>> outputs = np.random.default_rng(0).normal(size=(20, 4))
    >>> outputs[:, 2] += 5  # a sensor that drifts
    >>> display = PredictiveCheckDisplay(outputs=outputs, means=np.zeros((20, 4)), noise_std=1.0).plot()
    >>> display.conspicuous_
    array([False, False,  True, False])
    """

    outputs: Any
    means: Any
    noise_std: Any
    node_names: Sequence[Any] | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any, Y: Any, *, n_draws: int = 100, random_state: Any = 0, **plot_options: Any
    ) -> Self:
        """Compare outputs with the predictions of an identifier.

        Parameters
        ----------
        estimator : fitted identifier
            The identifier. If it gives a single answer, as `AdamSystemIdentifier` does, the band covers the noise only,
            which is too narrow if the graph is uncertain.
        X : array-like of shape (n_experiments, n_nodes)
            Inputs.
        Y : array-like of shape (n_experiments, n_outputs) or (n_experiments,)
            Outputs, nan where nothing was measured; preferably of held-out experiments.
        n_draws : int, default=100
            Largest number of draws to predict with.
        random_state : int, RandomState or None, default=0
            Seed for the choice of draws.
        **plot_options
            Arguments of `plot`, such as `ax`.
        """
        cls._read(estimator, "filter_", "theta_", "noise_std_")
        n_draws = check_integer(n_draws, "n_draws", low=1)
        outputs, _ = outputs_and_predictions(estimator, X, Y)
        draws = estimator._predict_draws(estimator._validate_new_inputs(X), n_draws, random_state)
        names = [estimator.node_names_[node] for node in estimator._output_nodes]
        display = cls(outputs=outputs, means=draws[0], noise_std=draws[1], node_names=names)
        return display.plot(**plot_options)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.outputs = check_array(self.outputs, "outputs", ("n_experiments", "n_outputs"), missing=True)
        check_numeric(self.means, "means")
        means = self.means if np.ndim(self.means) != 2 else [self.means]
        self.means = check_array(means, "means", ("n_draws", *self.outputs.shape))
        check_numeric(self.noise_std, "noise_std")
        levels, shape = np.asarray(self.noise_std, dtype=np.float64), (len(self.means), self.outputs.shape[1])
        if levels.shape not in ((), shape[1:], shape):
            raise ValueError(f"noise_std has shape {levels.shape}; expected a number, ({shape[1]},) or {shape}.")
        if not (np.isfinite(levels) & (levels >= 0)).all():
            raise ValueError("noise_std holds a negative or infinite number or nan; expected 0 or more.")
        # Outputs without any noise still have their rounding errors.
        largest = max(np.nanmax(np.abs(self.outputs)), np.abs(self.means).max(), np.finfo(np.float64).tiny)
        self.noise_std = np.broadcast_to(np.maximum(levels, 1e-12 * largest), shape).copy()

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        kind: str = "both",
        level: float = 0.9,
        nodes: Sequence[Any] | None = None,
    ) -> Self:
        """Draw the outputs and the residuals.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of these, default=None
            One Axes to divide into panels, or one for each panel. If None, a new figure is created.
        kind : {"both", "outputs", "residuals"}, default="both"
            What to draw. The panel of shares extends an inch and a half below the residuals; a figure with
            `layout="constrained"` makes room for it.
        level : float, default=0.9
            Probability of the band.
        nodes : sequence of node names or None, default=None
            The nodes whose outputs are drawn. If None, all nodes; if there are more than twelve, the twelve with the
            largest residuals.
        """
        check_choice(kind, "kind", tuple(_PANELS))
        check_number(level, "level", low=0, high=1, strict=True)
        names = check_names(self.node_names, self.outputs.shape[1])
        self._compare(level)
        shown = self._chosen(nodes, names)
        labels = [drawable(name, 16) for name in names]
        self.ax_, self.figure_ = panels_on(ax, len(_PANELS[kind]), (8.0, 3.4), stacked=True)
        self.shares_ax_ = None
        for panel, what in zip(self.ax_, _PANELS[kind], strict=True):
            if what == "outputs":
                self._draw_outputs(panel, shown, labels)
            else:
                self._draw_residuals(panel, labels)
        self._draw_legend()
        return self

    def _compare(self, level: float) -> None:
        """Compute the law of every output: a mixture of Gaussians, one for each draw, which count alike."""
        means, noise_std = self.means, self.noise_std[:, None]
        self.level_, self.predicted_ = level, means.mean(0)
        self.lower_ = _mixture_quantile(0.5 - level / 2, means, noise_std)
        self.upper_ = _mixture_quantile(0.5 + level / 2, means, noise_std)
        # Residuals are the normal quantiles of the probability of a smaller output (Dunn and Smyth, 1996). Logarithms,
        # and the smaller of the two tails: a probability of 1e-400 is zero, and one minus it is one.
        distances, log_n = (self.outputs - means) / noise_std, np.log(len(means))
        below, above = (logsumexp(log_ndtr(sign * distances), axis=0) - log_n for sign in (1, -1))
        smaller = ndtri_exp(np.minimum(np.minimum(below, above), 0.0))
        self.residuals_: FloatArray = np.where(below < above, smaller, -smaller)
        self._is_outside = (self.outputs < self.lower_) | (self.outputs > self.upper_)
        outside, counts = self._is_outside.sum(0), (~np.isnan(self.outputs)).sum(0)
        self.share_outside_: FloatArray = np.where(counts > 0, outside / np.maximum(counts, 1), np.nan)
        self.total_share_outside_ = float(outside.sum() / counts.sum())
        by_chance = stats.binom.sf(outside - 1, counts, 1 - level)
        self.conspicuous_: npt.NDArray[np.bool_] = by_chance < 0.01 / max(1, int((counts > 0).sum()))

    def _chosen(self, nodes: Sequence[Any] | None, names: list[Any]) -> list[int]:
        """The columns whose outputs are drawn."""
        if nodes is None:
            n_measured = (~np.isnan(self.residuals_)).sum(0)
            typical = np.nansum(self.residuals_**2, axis=0) / np.maximum(n_measured, 1)
            return sorted(int(node) for node in np.argsort(-typical, kind="stable")[:12] if n_measured[node])
        if isinstance(nodes, str) or not hasattr(nodes, "__len__") or not len(nodes):
            raise TypeError(f"nodes is {nodes!r}; expected a sequence of at least one node name, or None.")
        places = match_names(tuple(nodes), tuple(names))
        for name, place in zip(nodes, places, strict=True):
            if place is None:
                raise ValueError(f"nodes holds {name!r}, which is not a node with outputs; expected such nodes.")
        return [place for place in places if place is not None]

    def _draw_outputs(self, panel: Axes, shown: list[int], labels: list[str]) -> None:
        for place, node in enumerate(shown):
            (rows,) = np.nonzero(~np.isnan(self.outputs[:, node]))
            rows = rows[np.argsort(self.predicted_[rows, node], kind="stable")]
            step = _NODE_WIDTH / max(1, len(rows))
            x: FloatArray = place + (np.arange(len(rows), dtype=np.float64) - (len(rows) - 1) / 2) * step
            lower, middle, upper = (values[rows, node] for values in (self.lower_, self.predicted_, self.upper_))
            borders = np.append(x - step / 2, place + _NODE_WIDTH / 2)
            lower, upper = (np.append(values, values[-1:]) for values in (lower, upper))
            panel.fill_between(borders, lower, upper, step="post", **_BAND)
            panel.hlines(middle, x - step / 2, x + step / 2, color=BLUE, linewidth=1.0)
            size = _point_size(step, len(shown))
            _draw_points(panel, x, self.outputs[rows, node], self._is_outside[rows, node], size)
        panel.set_xlim(-0.6, max(len(shown), 1) - 0.4)
        for border in np.arange(1, len(shown)) - 0.5:
            panel.axvline(border, color=PALE_GREY, linewidth=0.8, zorder=0)
        n_measured = int((~np.isnan(self.share_outside_)).sum())
        left_out = f" ({len(shown)} of {n_measured}, largest residuals)" if n_measured > len(shown) else ""
        panel.set(ylabel="output", xlabel=f"node{left_out}; experiments by prediction")
        _name_ticks(panel, [labels[node] for node in shown])

    def _draw_residuals(self, panel: Axes, labels: list[str]) -> None:
        n_experiments, n_outputs = self.outputs.shape
        half = float(ndtri(0.5 + self.level_ / 2))
        panel.axhspan(-half, half, zorder=0, **_BAND)
        panel.axhline(0, color=BLUE, linewidth=1.0, zorder=1)
        rows, nodes = np.nonzero(~np.isnan(self.residuals_))
        residuals, is_outside = self.residuals_[rows, nodes], self._is_outside[rows, nodes]
        # Side by side in the order of the experiments, so that a drift can be seen.
        step = _NODE_WIDTH / max(1, n_experiments)
        x = nodes + (rows - (n_experiments - 1) / 2) * step
        is_far = np.abs(residuals) > _FARTHEST
        size = _point_size(step, n_outputs)
        _draw_points(panel, x[~is_far], residuals[~is_far], is_outside[~is_far], size)
        for sign, marker in ((1, "^"), (-1, "v")):
            beyond = is_far & (np.sign(residuals) == sign)
            if beyond.any():
                look: dict[str, Any] = {"marker": marker, "color": VERMILLION, "s": 26, "clip_on": False, "zorder": 4}
                panel.scatter(x[beyond], np.full(beyond.sum(), sign * _FARTHEST), **look)
        reach = min(_FARTHEST, max(3.5, float(np.abs(residuals).max(initial=0)) + 0.3))
        panel.set(xlim=(-0.6, n_outputs - 0.4), ylim=(-reach, reach), ylabel="standardised residual")
        self.shares_ax_ = self._draw_shares(panel, labels)

    def _draw_shares(self, panel: Axes, labels: list[str]) -> Any:
        beneath = panel_beneath(panel)
        colours = np.where(self.conspicuous_, VERMILLION, GREY)
        hatches = ["////" if is_odd else "" for is_odd in self.conspicuous_]
        shares, expected = 100 * np.nan_to_num(self.share_outside_), 100 * (1 - self.level_)
        look: dict[str, Any] = {"color": colours, "hatch": hatches, "edgecolor": "white", "lw": 0}
        beneath.bar(np.arange(len(labels)), shares, width=_NODE_WIDTH, **look)
        beneath.axhline(expected, color="black", linestyle="--", linewidth=1.0)
        beneath.set_ylim(0, max(2.5 * expected, 1.1 * float(shares.max(initial=0))))
        n_odd = int(self.conspicuous_.sum())
        told = f"{100 * self.total_share_outside_:.0f} % of all are outside, {expected:.0f} % expected"
        odd = f"; hatched: more than chance explains ({n_odd})" if n_odd else ""
        beneath.set(ylabel="% outside", xlabel=f"node; {told}{odd}")
        _name_ticks(beneath, labels, np.where(self.conspicuous_, 100 + shares, 0.0))
        return beneath

    def _draw_legend(self) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        point: dict[str, Any] = {"color": "black", "marker": "o", "markersize": 4, "linestyle": "none"}
        cross: dict[str, Any] = {"color": VERMILLION, "marker": "x", "markeredgewidth": 1.3, "linestyle": "none"}
        handles: list[Any] = [
            Patch(label=f"{100 * self.level_:.0f} % band", **_BAND),
            Line2D([], [], color=BLUE, linewidth=1.0, label="predicted"),
            Line2D([], [], label="measured", **point),
            *[Line2D([], [], label="measured, outside", **cross)] * bool(self._is_outside.any()),
        ]
        # Above the panel, as points may lie in any corner.
        place: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0, 1), "ncols": 4, "frameon": False}
        self.ax_[0].legend(handles=handles, fontsize="small", **place)


def _mixture_quantile(probability: float, means: FloatArray, noise_std: FloatArray) -> FloatArray:
    """The value below which a mixture of Gaussians, one for each entry of the first axis, has a probability."""
    of_draws = means + float(ndtri(probability)) * noise_std
    # The quantile of a mixture lies between those of its parts; forty halvings leave far less than a pixel.
    low, high = of_draws.min(0), of_draws.max(0)
    for _ in range(40):
        middle = (low + high) / 2
        is_below = ndtr((middle - means) / noise_std).mean(0) < probability
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return np.asarray((low + high) / 2)


def _point_size(step: float, n_nodes: int) -> float:
    """Area of a point in square points, smaller where many stand side by side in a panel of seven inches."""
    distance = 7.0 * 72 * step / max(1, n_nodes)
    return float(np.clip(distance, 1.8, 4.0)) ** 2


def _draw_points(panel: Axes, x: FloatArray, y: FloatArray, is_outside: npt.NDArray[np.bool_], size: float) -> None:
    panel.scatter(x[~is_outside], y[~is_outside], s=size, color="black", linewidth=0, zorder=3)
    if is_outside.any():
        # A cross, as the colour alone would be lost in print.
        look: dict[str, Any] = {"marker": "x", "color": VERMILLION, "linewidth": 1.3, "zorder": 4}
        panel.scatter(x[is_outside], y[is_outside], s=max(18.0, 2 * size), **look)


def _name_ticks(ax: Axes, names: Sequence[str], importance: FloatArray | None = None) -> None:
    """Write the names of the places 0, 1, ... under an axis whose limits are set.

    Where there is no room for all, those of most importance are written; without `importance`, every second or third.
    """
    font_size, gap = 8.0, 3.0  # points
    low, high = ax.get_xlim()
    figure: Any = ax.figure
    points_per_place = 72 * ax.get_window_extent().width / figure.dpi / (high - low)
    width, height = label_sizes(names, font_size).max(0)
    # Numbers are not turned: fewer of them say as much.
    is_turned = width + gap > points_per_place and max(map(len, names)) > 3
    distance = float((height + gap / 2 if is_turned else width + gap) / points_per_place)
    shown = list(range(0, len(names), max(1, int(np.ceil(distance)))))
    if importance is not None:
        shown = []
        for place in np.argsort(-importance, kind="stable").tolist():
            if all(abs(place - other) >= distance for other in shown):
                shown.append(place)
    look: dict[str, Any] = {"rotation": 90 if is_turned else 0, "fontsize": font_size, **LITERAL}
    ax.set_xticks(sorted(shown), [names[place] for place in sorted(shown)], **look)
