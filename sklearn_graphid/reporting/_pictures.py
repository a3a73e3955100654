"""The pictures of a report, drawn without pyplot and encoded into the page."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils._numbers import FloatArray
from ..plotting._names import drawable
from ._facts import are_probabilities, node_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..identifiers import BaseSystemIdentifier
    from ..plotting import PredictiveCheckDisplay

__all__ = [
    "draw_graph",
    "draw_loss",
    "draw_matrix",
    "draw_residuals",
    "draw_theta",
    "draw_traces",
    "drawing_style",
    "encoded",
]

# Names along the sides of a matrix, and beside the nodes of a graph, can be read up to the first number; those that
# are so short that they fit into the nodes, up to the second.
_MOST_NAMES = 40
_MOST_SHORT_NAMES = 60
_LONGEST_NODE_LABEL = 3
_LONGEST_LABEL = 16
# Beyond this, the finer layout takes longer than many a fit.
_MOST_NODES_LAID_OUT_FINELY = 120
# Draws that the bands of the outputs come from; more would hardly move them.
_N_PREDICTIONS = 50


def _labels(names: Sequence[str]) -> list[str]:
    return [drawable(name, _LONGEST_LABEL) for name in names]


def draw_graph(estimator: BaseSystemIdentifier) -> Figure:
    """Nodes and edges."""
    from ..plotting import GraphDisplay

    names = node_names(estimator)
    most = _MOST_SHORT_NAMES if max(map(len, names)) <= _LONGEST_NODE_LABEL else _MOST_NAMES
    layout = "kamada_kawai" if len(names) <= _MOST_NODES_LAID_OUT_FINELY else "spring"
    figure, (ax,) = _new_figure(6.0, 6.0)
    display = GraphDisplay(
        edge_probabilities=estimator.edge_probabilities_,
        adjacency=estimator.adjacency_.astype(np.float64),
        known=estimator.known_edges_,
        node_names=_labels(names),
        weights=getattr(estimator, "weights_", None),
    )
    display.plot(ax, layout=layout, node_labels=True if len(names) <= most else "inferred")
    return figure


def draw_matrix(estimator: BaseSystemIdentifier, color_by: str = "probability") -> Figure:
    """Every pair of nodes, coloured by its probability or by the strength of its edge."""
    from ..plotting import AdjacencyDisplay

    names = node_names(estimator)
    figure, (ax,) = _new_figure(6.0, 6.0, layout="compressed")
    display = AdjacencyDisplay(
        edge_probabilities=estimator.edge_probabilities_,
        adjacency=estimator.adjacency_.astype(np.float64),
        known=estimator.known_edges_,
        node_names=_labels(names),
        weights=getattr(estimator, "weights_", None),
    )
    display.plot(ax, color_by=color_by)
    if color_by == "probability" and display.colorbar_ is not None and not are_probabilities(estimator):
        display.colorbar_.set_label("weight of an unknown pair")
    return figure


def draw_theta(estimator: BaseSystemIdentifier, names: Sequence[str], level: float) -> Figure:
    """Draws of every parameter."""
    from ..plotting import ThetaDisplay

    n_columns = min(3, len(names))
    n_rows = -(-len(names) // n_columns)
    figure, axes = _new_figure(2.9 * n_columns, 2.7 * n_rows, n_rows, n_columns)
    for unused in axes[len(names) :]:
        unused.set_axis_off()
    display = ThetaDisplay(
        theta_samples=estimator.theta_samples_,
        theta=estimator.theta_,
        parameter_names=_labels(names),
    )
    display.plot(axes[: len(names)], interval=level, legend=False)
    return figure


def draw_traces(estimator: BaseSystemIdentifier) -> Figure:
    """The way of every chain."""
    from ..plotting import TraceDisplay

    diagnostics = estimator.diagnostics_
    names = _labels(estimator.filter_.parameter_names())
    figure, axes = _new_figure(7.6, 1.9 * (1 + len(names)), 1 + len(names), 1)
    traces = {name: diagnostics[name] for name in ("sigma", "log_likelihood", "theta", "kernel") if name in diagnostics}
    TraceDisplay(**traces, parameter_names=names).plot(axes)
    return figure


def draw_residuals(estimator: BaseSystemIdentifier, level: float) -> PredictiveCheckDisplay:
    """Standardised residuals of every node; the display holds the figure, and the numbers for the words."""
    from ..identifiers._predictive import draw_predictions
    from ..plotting import PredictiveCheckDisplay

    inputs, outputs = estimator._data_at_fit
    names = _labels(node_names(estimator))
    _, axes = _new_figure(7.6, 4.2)
    return PredictiveCheckDisplay.from_predictions(
        outputs,
        *draw_predictions(estimator, inputs, _N_PREDICTIONS, random_state=0),
        node_names=[names[node] for node in estimator._output_nodes],
        ax=axes,
        kind="residuals",
        level=level,
    )


def draw_loss(losses: FloatArray) -> Figure:
    """The loss of every step."""
    figure, (ax,) = _new_figure(7.0, 2.8)
    ax.plot(np.arange(1, len(losses) + 1), losses, color="#0072B2")
    ax.set(xlabel="step", ylabel="loss", yscale="log" if losses.min() > 0 else "linear")
    ax.spines[["top", "right"]].set_visible(False)
    return figure


def _new_figure(
    width: float, height: float, n_rows: int = 1, n_columns: int = 1, layout: Any = "constrained"
) -> tuple[Figure, Sequence[Any]]:
    # Not from pyplot, which would keep the figure, and open a window where there is a screen.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    return figure, list(figure.subplots(n_rows, n_columns, squeeze=False).ravel())


@contextmanager
def drawing_style() -> Iterator[None]:
    """A context in which the page looks the same, whatever style the session has set."""
    from matplotlib import style

    with style.context("default"), warnings.catch_warnings():
        # Names in scripts that the font lacks; the tables have them.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        yield


def encoded(draw: Callable[[], Figure]) -> tuple[str, float]:
    """A picture as an address that holds it all, and its width in inches."""
    picture, figure = io.BytesIO(), draw()
    figure.savefig(picture, format="png", dpi=130, metadata={"Software": None})
    address = f"data:image/png;base64,{base64.b64encode(picture.getvalue()).decode('ascii')}"
    return address, float(figure.get_size_inches()[0])
