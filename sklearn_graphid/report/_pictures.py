"""The pictures of a report, drawn without pyplot and encoded into the page."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._utils._numbers import FloatArray
from ..plotting._base import drawable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..identifiers import BaseSystemIdentifier
    from ..plotting import PredictiveCheckDisplay

__all__ = ["Picture", "draw_pictures"]

_LONGEST_LABEL = 16  # characters


class Picture(NamedTuple):
    """A picture for the template."""

    address: str  # which holds it all
    width: str  # in rem: letters in the picture are then as large as those around it


def draw_pictures(
    estimator: BaseSystemIdentifier, names: Sequence[str], *, level: float, kind: str
) -> tuple[dict[str, Picture | None], PredictiveCheckDisplay]:
    """Draw the pictures of the page, None where there is nothing to draw, and return the check of the residuals too.

    The style is matplotlib's own, whatever the session has set; `kind` is what the numbers of unknown pairs are called.
    """
    from matplotlib import style

    labels = [drawable(name, _LONGEST_LABEL) for name in names]
    diagnostics = getattr(estimator, "diagnostics_", {})
    is_traced = "log_likelihood" in diagnostics and diagnostics["log_likelihood"].shape[1] > 1
    has_loss = "loss" in diagnostics and np.ndim(diagnostics["loss"]) == 1
    with style.context("default"), warnings.catch_warnings():
        # Names in scripts that the font lacks; the tables have them.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        check = _draw_residuals(estimator, labels, level)
        return {
            "graph": _encoded(_draw_graph(estimator, labels)),
            "matrix": _encoded(_draw_matrix(estimator, labels, "probability", kind)),
            "strengths": _encoded(_draw_matrix(estimator, labels, "strength", kind))
            if hasattr(estimator, "weights_")
            else None,
            "theta": _encoded(_draw_theta(estimator, level))
            if len(getattr(estimator, "theta_samples_", ())) > 1
            else None,
            "traces": _encoded(_draw_traces(estimator)) if is_traced else None,
            "loss": _encoded(_draw_loss(diagnostics["loss"])) if has_loss else None,
            "residuals": _encoded(check.figure_),
        }, check


def _graph_of(estimator: BaseSystemIdentifier, labels: Sequence[str]) -> dict[str, Any]:
    return {
        "edge_probabilities": estimator.edge_probabilities_,
        "adjacency": estimator.adjacency_.astype(np.float64),
        "known": estimator.known_edges_,
        "node_names": labels,
        "weights": getattr(estimator, "weights_", None),
    }


def _draw_graph(estimator: BaseSystemIdentifier, labels: Sequence[str]) -> Figure:
    from ..plotting import GraphDisplay

    # So many names can be read beside the nodes; more, if they are short enough to be written into them.
    most_names = 60 if max(map(len, labels)) <= 3 else 40
    # The finer layout takes longer than many a fit if there are more nodes.
    layout = "kamada_kawai" if len(labels) <= 120 else "spring"
    figure, (ax,) = _new_figure(6.0, 6.0)
    node_labels = True if len(labels) <= most_names else "inferred"
    GraphDisplay(**_graph_of(estimator, labels)).plot(ax, layout=layout, node_labels=node_labels)
    return figure


def _draw_matrix(estimator: BaseSystemIdentifier, labels: Sequence[str], color_by: str, kind: str) -> Figure:
    from ..plotting import AdjacencyDisplay

    figure, (ax,) = _new_figure(6.0, 6.0, layout="compressed")
    display = AdjacencyDisplay(**_graph_of(estimator, labels)).plot(ax, color_by=color_by)
    if color_by == "probability" and kind != "probability" and display.colorbar_ is not None:
        display.colorbar_.set_label(f"{kind} of an unknown pair")
    return figure


def _parameter_names(estimator: BaseSystemIdentifier) -> list[str]:
    return [drawable(name, _LONGEST_LABEL) for name in estimator.filter_.parameter_names()]


def _draw_theta(estimator: BaseSystemIdentifier, level: float) -> Figure:
    from ..plotting import ThetaDisplay

    names = _parameter_names(estimator)
    n_columns = min(3, len(names))
    n_rows = -(-len(names) // n_columns)
    figure, axes = _new_figure(2.9 * n_columns, 2.7 * n_rows, n_rows, n_columns)
    for unused in axes[len(names) :]:
        unused.set_axis_off()
    draws = {"theta_samples": estimator.theta_samples_, "theta": estimator.theta_}
    ThetaDisplay(**draws, parameter_names=names).plot(axes[: len(names)], interval=level, legend=False)
    return figure


def _draw_traces(estimator: BaseSystemIdentifier) -> Figure:
    from ..plotting import TraceDisplay

    names, diagnostics = _parameter_names(estimator), estimator.diagnostics_
    figure, axes = _new_figure(7.6, 1.9 * (1 + len(names)), 1 + len(names), 1)
    traces = {name: diagnostics[name] for name in ("sigma", "log_likelihood", "theta", "kernel") if name in diagnostics}
    TraceDisplay(**traces, parameter_names=names).plot(axes)
    return figure


def _draw_residuals(estimator: BaseSystemIdentifier, labels: Sequence[str], level: float) -> PredictiveCheckDisplay:
    from ..plotting import PredictiveCheckDisplay

    data = estimator._experiments
    _, axes = _new_figure(7.6, 4.2)
    return PredictiveCheckDisplay.from_predictions(
        data.outputs[:, estimator._output_nodes],
        *estimator._predict_draws(data.inputs, 50, random_state=0),  # more draws would hardly move the bands
        node_names=[labels[node] for node in estimator._output_nodes],
        ax=axes,
        kind="residuals",
        level=level,
    )


def _draw_loss(losses: FloatArray) -> Figure:
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


def _encoded(figure: Figure) -> Picture:
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=130, metadata={"Software": None})
    address = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"
    return Picture(address, f"{7.0 * float(figure.get_size_inches()[0]):.0f}")
