"""Display of measured outputs against the predictions of an identified system, node by node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from scipy import stats

from .._utils._numbers import FloatArray, check_integer
from ..graphs._nodes import match_names
from ..scorers import outputs_and_predictions
from ._checks import as_numbers, check_choice, check_names, check_number
from ._names import drawable
from ._predictive_law import PredictiveLaw
from ._style import (
    BLACK,
    BLUE,
    GREY,
    PALE_GREY,
    VERMILLION,
    fitted_attributes,
    needs_matplotlib,
    panel_beneath,
    split_axes,
    tidy,
)
from ._tick_names import name_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["PredictiveCheckDisplay"]

_MOST_NODES = 12  # whose outputs are drawn side by side, where the user does not name them
_NODE_WIDTH = 0.84  # of the distance between two nodes
# Residuals beyond are drawn at the border, as arrows: one outlier would flatten all the rest.
_FARTHEST = 6.0
# A node stands out if as many of its outputs are outside by chance once in so many checks of all nodes.
_CHANCE = 0.01
_PANELS = {"both": ("outputs", "residuals"), "outputs": ("outputs",), "residuals": ("residuals",)}


@dataclass(kw_only=True, eq=False, repr=False)
class PredictiveCheckDisplay:
    """Posterior predictive check: whether the identified system is consistent with the measured outputs.

    The upper panel shows every output of some nodes: the measured value, and the band in which the model expects it.
    The experiments of a node are side by side, sorted by the prediction. The lower panel shows the standardised
    residuals of all nodes, and below it the share of each node's outputs that are outside the band. If the model is
    right, residuals have a standard normal distribution, and a share of 1 - `level` of the outputs is outside.

    Parameters
    ----------
    outputs : ndarray of shape (n_experiments, n_outputs)
        The measured outputs; nan where nothing was measured.
    means : ndarray of shape (n_draws, n_experiments, n_outputs)
        Outputs without noise, of systems drawn from the posterior.
    noise_std : ndarray of shape (n_draws, n_outputs)
        The noise level of each draw.
    node_names : sequence, default=None
        Names of the nodes that the columns belong to. If None, their indices.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (1,) or (2,)
        Axes with the outputs, the residuals, or both.
    shares_ax_ : matplotlib Axes or None
        Axes with the shares outside the band, below the residuals.
    figure_ : matplotlib Figure
        Figure containing the axes.
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

    See Also
    --------
    TraceDisplay : Shows whether the chains agree, which a predictive check does not.
    sklearn_graphid.scorers.log_likelihood_scorer : Quality of predictions as one number, for model selection.

    Notes
    -----
    A check with the experiments of the fit is lenient, because the fit has seen them; pass held-out experiments for a
    strict one. The check detects wrong filters, outliers, and nodes whose noise differs from that of the others. It
    does not show whether the graph is right: a graph with other edges may predict equally well.

    Examples
    --------
    >>> import matplotlib, networkx as nx
    >>> matplotlib.use("Agg")  # draws into memory; leave it out to see the picture
    >>> from sklearn_graphid import LangevinSystemIdentifier
    >>> from sklearn_graphid.datasets import make_system
    >>> from sklearn_graphid.plotting import PredictiveCheckDisplay
    >>> ring = nx.to_numpy_array(nx.cycle_graph(6))
    >>> X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=40, random_state=0)
    >>> Y[20:, 2] += 5  # a sensor that drifts
    >>> identifier = LangevinSystemIdentifier("heat", n_chains=4, random_state=0).fit(X[:20], Y[:20])
    >>> display = PredictiveCheckDisplay.from_estimator(identifier, X[20:], Y[20:])
    >>> display.conspicuous_
    array([False, False,  True, False, False, False])
    """

    outputs: FloatArray
    means: FloatArray
    noise_std: FloatArray
    node_names: Sequence[Any] | None = None

    @classmethod
    @needs_matplotlib
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        Y: Any,
        *,
        n_draws: int = 100,
        random_state: Any = 0,
        ax: Axes | Sequence[Axes] | None = None,
        **plot_options: Any,
    ) -> Self:
        """Compare outputs with the predictions of an identifier.

        Parameters
        ----------
        estimator : fitted identifier
            The identifier. If it samples, as `LangevinSystemIdentifier` does, the band covers the noise and the
            uncertainty of graph, parameters and strengths. If it gives a single answer, as `AdamSystemIdentifier` does,
            the band covers the noise only, which is too narrow if the graph is uncertain.
        X : array-like of shape (n_experiments, n_nodes)
            Inputs.
        Y : array-like of shape (n_experiments, n_outputs) or (n_experiments,)
            Outputs, nan where nothing was measured; preferably of held-out experiments. Named columns are matched with
            those of Y in `fit`.
        n_draws : int, default=100
            Largest number of draws to predict with.
        random_state : int, RandomState or None, default=0
            Seed for the choice of draws.
        ax, **plot_options : as in `plot`
            Passed to `plot`.

        Returns
        -------
        PredictiveCheckDisplay
            The display.
        """
        fitted_attributes(cls.__name__, estimator, "filter_", "theta_", "noise_std_")
        n_draws = check_integer(n_draws, "n_draws", low=1)
        outputs, _ = outputs_and_predictions(estimator, X, Y)
        draws = estimator._predict_draws(estimator._validate_new_inputs(X), n_draws, random_state)
        names = [estimator.node_names_[node] for node in estimator._output_nodes]
        return cls.from_predictions(outputs, *draws, node_names=names, ax=ax, **plot_options)

    @classmethod
    @needs_matplotlib
    def from_predictions(
        cls,
        outputs: Any,
        means: Any,
        noise_std: Any,
        *,
        node_names: Any = None,
        ax: Axes | Sequence[Axes] | None = None,
        **plot_options: Any,
    ) -> Self:
        """Compare outputs with given predictions.

        Parameters
        ----------
        outputs : array-like of shape (n_experiments, n_outputs)
            The measured outputs; nan where nothing was measured.
        means : array-like of shape (n_draws, n_experiments, n_outputs) or (n_experiments, n_outputs)
            Predicted outputs without noise, for each of several draws or for a single answer.
        noise_std : float or array-like of shape (n_outputs,) or (n_draws, n_outputs)
            The noise level: one for all, one for each node, or one for each node in each draw.
        node_names : sequence, default=None
            Names of the nodes.
        ax, **plot_options : as in `plot`
            Passed to `plot`.

        Returns
        -------
        PredictiveCheckDisplay
            The display.
        """
        measured, drawn, levels = _check_predictions(outputs, means, noise_std)
        return cls(outputs=measured, means=drawn, noise_std=levels, node_names=node_names).plot(ax, **plot_options)

    @needs_matplotlib
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

        Returns
        -------
        PredictiveCheckDisplay
            The display itself.
        """
        check_choice(kind, "kind", tuple(_PANELS))
        check_number(level, "level", "a probability strictly between 0 and 1", lambda share: 0 < share < 1)
        n_outputs = self.outputs.shape[1]
        numbers = range(n_outputs)
        names = check_names(numbers if self.node_names is None else self.node_names, n_outputs, "node_names", "node")
        self._compare(level)
        shown = self._chosen(nodes, names)
        labels = [drawable(name, 16) for name in names]
        panels = _PANELS[kind]
        self.ax_, self.figure_ = split_axes(ax, len(panels), stacked=True, panel_size=(8.0, 3.4), shares_x=False)
        self.shares_ax_ = None
        for panel, what in zip(self.ax_, panels, strict=True):
            if what == "outputs":
                self._draw_outputs(panel, shown, labels)
            else:
                self._draw_residuals(panel, labels)
        self._draw_legend()
        return self

    def _compare(self, level: float) -> None:
        law = PredictiveLaw(self.means, self.noise_std[:, None])
        self.level_ = level
        self.predicted_ = law.mean()
        self.lower_, self.upper_ = law.quantile(0.5 - level / 2), law.quantile(0.5 + level / 2)
        self.residuals_ = law.residuals(self.outputs)
        measured = ~np.isnan(self.outputs)
        outside, counts = self._is_outside().sum(0), measured.sum(0)
        self.share_outside_: FloatArray = np.where(counts > 0, outside / np.maximum(counts, 1), np.nan)
        self.total_share_outside_ = float(outside.sum() / counts.sum())
        by_chance = stats.binom.sf(outside - 1, counts, 1 - level)
        self.conspicuous_: npt.NDArray[np.bool_] = by_chance < _CHANCE / max(1, int((counts > 0).sum()))

    def _is_outside(self) -> npt.NDArray[np.bool_]:
        return np.asarray((self.outputs < self.lower_) | (self.outputs > self.upper_))

    def _chosen(self, nodes: Sequence[Any] | None, names: list[Any]) -> list[int]:
        """The columns whose outputs are drawn."""
        if nodes is None:
            squares = np.where(np.isnan(self.residuals_), 0.0, self.residuals_**2)
            n_measured = (~np.isnan(self.residuals_)).sum(0)
            typical = squares.sum(0) / np.maximum(n_measured, 1)
            worst = np.argsort(-typical, kind="stable")[:_MOST_NODES]
            return sorted(int(node) for node in worst if n_measured[node])
        if isinstance(nodes, str) or not hasattr(nodes, "__len__") or not len(nodes):
            raise TypeError(f"nodes is {nodes!r}; expected a sequence of at least one node name, or None.")
        places = match_names(tuple(nodes), tuple(names))
        for name, place in zip(nodes, places, strict=True):
            if place is None:
                raise ValueError(f"nodes holds {name!r}, which is not a node with outputs; expected such nodes.")
        return [place for place in places if place is not None]

    def _draw_outputs(self, panel: Axes, shown: list[int], labels: list[str]) -> None:
        is_outside = self._is_outside()
        for place, node in enumerate(shown):
            (rows,) = np.nonzero(~np.isnan(self.outputs[:, node]))
            rows = rows[np.argsort(self.predicted_[rows, node], kind="stable")]
            step = _NODE_WIDTH / max(1, len(rows))
            x: FloatArray = place + (np.arange(len(rows), dtype=np.float64) - (len(rows) - 1) / 2) * step
            edges = np.append(x - step / 2, place + _NODE_WIDTH / 2)
            lower, middle, upper = (values[rows, node] for values in (self.lower_, self.predicted_, self.upper_))
            panel.fill_between(
                edges, np.append(lower, lower[-1:]), np.append(upper, upper[-1:]), step="post", **_BAND, linewidth=0
            )
            panel.hlines(middle, x - step / 2, x + step / 2, color=BLUE, linewidth=1.0)
            self._draw_points(panel, x, self.outputs[rows, node], is_outside[rows, node], _point_size(step, len(shown)))
        panel.set_xlim(-0.6, max(len(shown), 1) - 0.4)
        for border in np.arange(1, len(shown)) - 0.5:
            panel.axvline(border, color=PALE_GREY, linewidth=0.8, zorder=0)
        n_left_out = int((~np.isnan(self.share_outside_)).sum()) - len(shown)
        panel.set_ylabel("output")
        # In the caption, what the eye cannot see: that there are more nodes.
        left_out = f" ({len(shown)} of {n_left_out + len(shown)}, largest residuals)" if n_left_out > 0 else ""
        panel.set_xlabel(f"node{left_out}; experiments by prediction")
        name_ticks(panel, [labels[node] for node in shown])
        tidy(panel)

    def _draw_residuals(self, panel: Axes, labels: list[str]) -> None:
        n_outputs = len(labels)
        half = float(stats.norm.ppf(0.5 + self.level_ / 2))
        panel.axhspan(-half, half, zorder=0, linewidth=0, **_BAND)
        panel.axhline(0, color=BLUE, linewidth=1.0, zorder=1)
        rows, nodes = np.nonzero(~np.isnan(self.residuals_))
        residuals = self.residuals_[rows, nodes]
        # Side by side in the order of the experiments, so that a drift can be seen.
        n_experiments = len(self.outputs)
        step = _NODE_WIDTH / max(1, n_experiments)
        x = nodes + (rows - (n_experiments - 1) / 2) * step
        is_far = np.abs(residuals) > _FARTHEST
        is_outside = self._is_outside()[rows, nodes]
        size = _point_size(step, n_outputs)
        self._draw_points(panel, x[~is_far], residuals[~is_far], is_outside[~is_far], size)
        for sign, marker in ((1, "^"), (-1, "v")):
            beyond = is_far & (np.sign(residuals) == sign)
            if beyond.any():
                look: dict[str, Any] = {"marker": marker, "color": VERMILLION, "s": 26, "clip_on": False, "zorder": 4}
                panel.scatter(x[beyond], np.full(beyond.sum(), sign * _FARTHEST), **look)
        reach = min(_FARTHEST, max(3.5, float(np.abs(residuals[~is_far]).max(initial=0)) + 0.3))
        reach = _FARTHEST if is_far.any() else reach
        panel.set(xlim=(-0.6, n_outputs - 0.4), ylim=(-reach, reach), ylabel="standardised residual")
        tidy(panel)
        self.shares_ax_ = self._draw_shares(panel, labels)

    def _draw_shares(self, panel: Axes, labels: list[str]) -> Any:
        beneath = panel_beneath(panel)
        places = np.arange(len(labels))
        colours = np.where(self.conspicuous_, VERMILLION, GREY)
        hatches = ["////" if is_odd else "" for is_odd in self.conspicuous_]
        shares = np.nan_to_num(self.share_outside_)
        beneath.bar(places, 100 * shares, width=_NODE_WIDTH, color=colours, hatch=hatches, edgecolor="white", lw=0)
        expected = 100 * (1 - self.level_)
        beneath.axhline(expected, color=BLACK, linestyle="--", linewidth=1.0)
        beneath.set_ylim(0, max(2.5 * expected, 110 * float(shares.max(initial=0))))
        beneath.set_ylabel("% outside")
        n_odd = int(self.conspicuous_.sum())
        told = f"{100 * self.total_share_outside_:.0f} % of all are outside, {expected:.0f} % expected"
        odd = f"; hatched: more than chance explains ({n_odd})" if n_odd else ""
        beneath.set_xlabel(f"node; {told}{odd}")
        name_ticks(beneath, labels, np.where(self.conspicuous_, 1 + shares, 0.0))
        tidy(beneath)
        return beneath

    @staticmethod
    def _draw_points(panel: Axes, x: FloatArray, y: FloatArray, is_outside: npt.NDArray[np.bool_], size: float) -> None:
        inside = ~is_outside
        panel.scatter(x[inside], y[inside], s=size, color=BLACK, linewidth=0, zorder=3)
        if is_outside.any():
            # A cross, as the colour alone would be lost in print.
            look: dict[str, Any] = {"marker": "x", "color": VERMILLION, "linewidth": 1.3, "zorder": 4}
            panel.scatter(x[is_outside], y[is_outside], s=max(18.0, 2 * size), **look)

    def _draw_legend(self) -> None:
        from matplotlib.lines import Line2D
        from matplotlib.patches import Patch

        point: dict[str, Any] = {"color": BLACK, "marker": "o", "markersize": 4, "linestyle": "none"}
        cross: dict[str, Any] = {"color": VERMILLION, "marker": "x", "markeredgewidth": 1.3, "linestyle": "none"}
        handles: list[Any] = [
            Patch(label=f"{100 * self.level_:.0f} % band", **_BAND),
            Line2D([], [], color=BLUE, linewidth=1.0, label="predicted"),
            Line2D([], [], label="measured", **point),
        ]
        if self._is_outside().any():
            handles.append(Line2D([], [], label="measured, outside", **cross))
        # Above the panel, as points may lie in any corner.
        self.ax_[0].legend(
            handles=handles, loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize="small"
        )


_BAND: dict[str, Any] = {"facecolor": BLUE, "alpha": 0.2}


def _point_size(step: float, n_nodes: int) -> float:
    """Area of a point in square points, smaller where many stand side by side in a panel of seven inches."""
    distance = 7.0 * 72 * step / max(1, n_nodes)
    return float(np.clip(distance, 1.8, 4.0)) ** 2


def _check_predictions(outputs: Any, means: Any, noise_std: Any) -> tuple[FloatArray, FloatArray, FloatArray]:
    measured = as_numbers(outputs, "outputs", "numbers of shape (n_experiments, n_outputs)")
    if measured.ndim != 2 or not measured.size:
        raise ValueError(f"outputs has shape {measured.shape}; expected (n_experiments, n_outputs).")
    if np.isinf(measured).any() or np.isnan(measured).all():
        raise ValueError(
            "outputs holds infinity or nothing but nan; expected finite numbers, and nan where nothing was measured."
        )
    drawn = as_numbers(means, "means", "numbers of shape (n_draws, n_experiments, n_outputs)")
    drawn = drawn[None] if drawn.ndim == 2 else drawn
    if drawn.ndim != 3 or not len(drawn) or drawn.shape[1:] != measured.shape:
        raise ValueError(f"means has shape {drawn.shape}; expected (n_draws, {', '.join(map(str, measured.shape))}).")
    if not np.isfinite(drawn).all():
        raise ValueError(f"means holds {drawn[~np.isfinite(drawn)][0]}; expected finite numbers.")
    levels = as_numbers(noise_std, "noise_std", "a number, or one for each node")
    shape = (len(drawn), measured.shape[1])
    if levels.shape not in ((), shape[1:], shape):
        raise ValueError(f"noise_std has shape {levels.shape}; expected a number, ({shape[1]},) or {shape}.")
    if not (np.isfinite(levels) & (levels >= 0)).all():
        raise ValueError("noise_std holds a negative or infinite number or nan; expected finite numbers of at least 0.")
    # Outputs without any noise still have their rounding errors.
    smallest = 1e-12 * max(float(np.nanmax(np.abs(measured))), float(np.abs(drawn).max()), np.finfo(np.float64).tiny)
    return measured, drawn, np.broadcast_to(np.maximum(levels, smallest), shape).copy()
