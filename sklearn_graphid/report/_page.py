"""A fitted identifier as one HTML page: the facts are gathered here, and page.html is the template that shows them."""

from __future__ import annotations

import base64
import io
import os
import warnings
from collections.abc import Sequence
from datetime import date
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, StrictUndefined
from sklearn import config_context
from sklearn.utils.validation import check_is_fitted

from .._utils._disk import check_target, write_atomically
from .._utils._libraries import require
from ..filters import ARMAFilter, CallableFilter, HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from ..graphs import EdgeSpace
from ..identifiers._base import Finding
from ..plotting._base import drawable, shortened
from ..priors import GraphPriorScore
from ..priors._trust import deviations_in_words

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..identifiers import BaseSystemIdentifier
    from ..plotting import PredictiveCheckDisplay

__all__ = ["write_report"]

_LEVEL = 0.9  # of all intervals
_CERTAIN = 0.95  # pairs that are more certain than this in either direction are not listed as uncertain


def write_report(estimator: BaseSystemIdentifier, path: str | os.PathLike[str], title: str | None = None) -> Path:
    """Write the page; see `BaseSystemIdentifier.report`."""
    check_is_fitted(estimator)
    if title is not None and not (isinstance(title, str) and title.strip()):
        raise ValueError(f"title={title!r}; expected a text, or None.")
    target = check_target(path)
    require("matplotlib", "report")
    # A value that the template asks for and does not get is an error, and never a blank.
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"counted": _counted, "number": _number, "percent": _percent}
    template = environment.from_string((files(__package__) / "page.html").read_text(encoding="utf-8"))
    page = template.render(title=title, **_context(estimator))
    # A node's name may hold half a surrogate pair, which no encoding has; the page shows the character's number.
    write_atomically(target, page.encode("utf-8", "xmlcharrefreplace"))
    return target


# Words for numbers, as filters of the template


def _counted(n_things: int, noun: str) -> str:
    return f"{n_things} {noun}{'' if n_things == 1 else 's'}"


def _percent(share: float) -> str:
    # A share of nearly all is not shown as all of them, nor is one of nearly none as none.
    return f"{100 * share:.0f}%" if share in (0.0, 1.0) else f"{np.clip(100 * share, 0.1, 99.9):.3g}%"


def _number(value: float) -> str:
    if np.isnan(value):
        return "unknown"
    return "not determined" if np.isinf(value) else f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


def _one_line(text: str) -> str:
    return shortened(" ".join(text.split()), 300)


# Values of the template


def _context(estimator: BaseSystemIdentifier) -> dict[str, Any]:
    """All values of the template, by name."""
    from .. import __version__

    known, parameters = estimator.known_edges_, estimator._params_at_fit
    names = [str(name) for name in estimator.node_names_]
    names = [name if name.strip() else repr(name) for name in names]  # blanks alone could not be seen
    diagnostics, prior = getattr(estimator, "diagnostics_", {}), getattr(estimator, "prior_", None)
    # How far the known part lies from a learned prior's graphs: a forward pass of the prior's network.
    surprise = prior.surprise(known) if isinstance(prior, GraphPriorScore) else None
    # Probabilities come from posterior draws, or were calibrated on the known pairs.
    is_probability = hasattr(estimator, "theta_samples_") or bool(diagnostics.get("calibrated"))
    kind = "probability" if is_probability else "weight"
    pictures, check = _draw_pictures(estimator, names, kind)
    noise_differs = bool(np.ptp(getattr(estimator, "noise_std_per_node_", [0.0])) > 0)
    return {
        "version": __version__,
        "date": date.today().isoformat(),
        "identifier": type(estimator).__name__,
        "settings": [(name, _one_line(repr(value))) for name, value in parameters.items()],
        "filter": _filter_in_words(estimator.filter_),
        "n_nodes": known.n_nodes,
        "directed": known.directed,
        "kind": kind,
        "level": _LEVEL,
        "certain": _CERTAIN,
        "findings": _findings(estimator, surprise, is_probability),
        "given": _given(estimator, surprise),
        "has_noise_per_node": noise_differs,
        "noise_may_differ": hasattr(estimator, "noise_std_per_node_") and not noise_differs,
        "suspects": _suspects(estimator, names),
        **_pairs(estimator, names),
        # Columns of the tables, and what their numbers are.
        "strengths": [n for n, at in (("Strength", "weights_"), ("Spread", "weights_std_")) if hasattr(estimator, at)],
        "are_signed": parameters.get("edge_weights") == "signed",
        "has_known_strengths": known.weights is not None,
        "known_strengths": _known_strengths(estimator),
        "next_experiment": _next_experiment(estimator, names),
        "theta": _theta(estimator),
        "chains": _chains(estimator) if "log_likelihood" in diagnostics else None,
        "outliers": _outliers(estimator),
        "share_outside": check.total_share_outside_,
        "odd_nodes": [names[node] for node in estimator._output_nodes[check.conspicuous_]],
        "pictures": pictures,
    }


def _findings(estimator: BaseSystemIdentifier, surprise: float | None, is_probability: bool) -> list[Finding]:
    findings = list(estimator._findings)
    if not is_probability:
        text = "The numbers between 0 and 1 rank the pairs. They are weights, not probabilities."
        findings.append(Finding("caution", text))
    prior = getattr(estimator, "prior_", None)
    if prior is not None and (reason := prior.mismatch(estimator.known_edges_, surprise)):
        text = f"The graph does not look like those that the prior has learned from: {reason}. The prior may not apply."
        findings.append(Finding("trouble", f"{text} Compare with a fit without it."))
    return findings


def _given(estimator: BaseSystemIdentifier, surprise: float | None) -> list[tuple[str, str]]:
    """Facts about the data and the model."""
    known, data, n_outputs = estimator.known_edges_, estimator._experiments, len(estimator._output_nodes)
    n_pairs = EdgeSpace.complete(known.n_nodes, known.directed).n_free
    n_known = n_pairs - known.n_unknown
    measured = data.n_measured / (len(data.inputs) * n_outputs)
    # All settings of the filter: those that were left alone say what it is, no less than those that were not.
    with config_context(print_changed_only=False):
        filter_settings = _one_line(repr(estimator.filter_))
    facts = {
        "Nodes": str(known.n_nodes),
        "Experiments": str(len(data.inputs)),
        "Outputs": f"at {_counted(n_outputs, 'node')}, {_percent(measured)} of them measured",
        f"Known {'ordered ' * known.directed}pairs": f"{n_known} of {n_pairs}"
        + (f" ({_percent(n_known / n_pairs)})" if n_pairs else ""),
        "Known edges": str(known.edges().n_free),
        "Known strengths": _known_strengths(estimator),
        "Filter": _filter_in_words(estimator.filter_),
        "Filter settings": filter_settings,
        "Prior": _prior_in_words(estimator, surprise),
        "Noise": _noise_in_words(estimator),
    }
    if not hasattr(estimator, "weights_"):
        del facts["Known strengths"]
    return list(facts.items())


def _filter_in_words(filter: Any) -> str:
    """Describe the filter; one that does not come with the package by the name of its class."""
    match filter:
        case PolynomialFilter():
            matrices = {"laplacian": "Laplacian", "normalized-laplacian": "normalised Laplacian"}
            return f"a polynomial of order {filter.order} of the {matrices.get(filter.shift, 'adjacency matrix')}"
        case HeatDiffusionFilter():
            return "heat diffusion" + (" with the normalised Laplacian" if filter.laplacian == "normalized" else "")
        case ARMAFilter():
            orders = f"of order {filter.ma_order} in the numerator and {filter.ar_order} in the denominator"
            return f"a ratio of polynomials of the adjacency matrix, {orders}"
        case SteadyStateFilter():
            return "steady-state potentials for given inflows"
        case CallableFilter():
            return f"the function {getattr(filter.function, '__name__', type(filter.function).__name__)}"
    return type(filter).__name__


def _prior_in_words(estimator: BaseSystemIdentifier, surprise: float | None) -> str:
    parameters = estimator._params_at_fit
    prior, trust = getattr(estimator, "prior_", None), getattr(estimator, "prior_trust_", 1.0)
    if "prior" not in parameters:
        words = "none"
    elif parameters["prior"] is None:
        words = "pairs are independent, and the share of edges among the unknown ones is estimated"
    elif not isinstance(prior, GraphPriorScore) or surprise is None:
        words = _one_line(repr(parameters["prior"]))
    else:
        smallest, largest = prior.size_range_
        name = getattr(prior, "name_", None)
        source = type(prior).__name__ if name is None else f'the prior "{name}", which comes with the package'
        words = f"learned from graphs of {smallest} to {largest} nodes ({source})"
        if not np.isnan(surprise):
            words += f"; the known part lies {deviations_in_words(surprise)} away from them (up to 3 is usual)"
    if trust == 1 and surprise is None:
        return words
    source = "estimated" if parameters["prior_trust"] == "sample" else "as given"
    return f"{words}; trust in the prior {trust:.2f}, {source} (1 is full trust, 0 is none)"


def _noise_in_words(estimator: BaseSystemIdentifier) -> str:
    """Describe the noise level, its source, and its share of the outputs."""
    samples, source = getattr(estimator, "noise_std_samples_", ()), "estimated"
    if len(samples) and not isinstance(estimator._params_at_fit["noise_std"], str | None):
        source = "as given"
    elif len(samples) > 1:
        low, high = estimator.noise_std_interval(_LEVEL)
        source += f" ({_LEVEL:.0%} between {_number(low)} and {_number(high)})"
    power = estimator._experiments.output_power
    share = _percent(min(1.0, estimator.noise_std_**2 / power) if power > 0 else 1.0)
    level = f"standard deviation {_number(estimator.noise_std_)}"
    return f"{level}, {source}; it makes up {share} of the outputs' mean square"


def _known_strengths(estimator: BaseSystemIdentifier) -> str:
    known = estimator.known_edges_
    return f"{known.edges_with_weight().n_free} of {_counted(known.edges().n_free, 'known edge')}"


def _suspects(estimator: BaseSystemIdentifier, names: Sequence[str]) -> dict[str, Any] | None:
    """Known pairs that are more likely wrong than right, where the fit had a reason to look for them."""
    log_odds = getattr(estimator, "_log_odds_wrong", None)
    if log_odds is None or not (log_odds > 0).any():
        return None
    chosen = [place for place in np.argsort(-log_odds, kind="stable") if log_odds[place] > 0]
    pairs = estimator.known_edges_.known_pairs()
    sources, targets = pairs.sources_and_targets()
    given = np.where(pairs.gather(estimator.known_edges_.values), "edge", "no edge")
    rows = [(names[sources[i]], names[targets[i]], str(given[i]), log_odds[i]) for i in chosen[:20]]
    return {"rows": rows, "n": len(chosen)}


def _pairs(estimator: BaseSystemIdentifier, names: Sequence[str]) -> dict[str, Any]:
    """Counts and lists of uncertain pairs, inferred edges, and known edges with their strengths."""
    known, probabilities = estimator.known_edges_, estimator.edge_probabilities_
    unknown = np.column_stack(known.unknown_pairs())
    # A standard error needs several chains.
    errors = getattr(estimator, "diagnostics_", {}).get("monte_carlo_error_edges", np.full_like(probabilities, np.nan))

    def row(pair: Any) -> dict[str, Any]:
        i, j = pair
        error = "" if np.isnan(errors[i, j]) else f" ± {errors[i, j]:.2f}"
        cells = {
            "first": names[j if known.directed else i],  # a row of the matrix receives
            "second": names[i if known.directed else j],
            "probability": float(probabilities[i, j]),
            "told": f"{probabilities[i, j]:.2f}{error}",
            "is_edge": bool(estimator.adjacency_[i, j]),
        }
        strengths = {"Strength": "weights_", "Spread": "weights_std_"}
        return cells | {name: getattr(estimator, at)[i, j] for name, at in strengths.items() if hasattr(estimator, at)}

    def listed(values: Any, pairs: Any, most: int = 1000) -> dict[str, Any]:
        order = np.argsort(values[tuple(pairs.T)], kind="stable")
        return {"rows": [row(pair) for pair in pairs[order[:most]]], "n": len(pairs)}

    is_open = (probabilities > 1 - _CERTAIN) & (probabilities < _CERTAIN)
    uncertain = unknown[is_open[tuple(unknown.T)]]
    found = EdgeSpace.of_mask((estimator.adjacency_ == 1) & ~known.mask, known.directed)
    strengths = getattr(estimator, "weights_", np.zeros_like(probabilities))
    return {
        "n_draws": len(getattr(estimator, "theta_samples_", ())),
        "n_edges": EdgeSpace.of_mask(estimator.adjacency_ == 1, known.directed).n_free,
        "n_unknown": len(unknown),
        "uncertain": listed(np.abs(probabilities - 0.5), uncertain, most=100),
        "has_standard_errors": not np.isnan(errors[tuple(uncertain.T)]).all(),
        "inferred": listed(-probabilities, np.column_stack(found.ends())),
        "known_edges": listed(-np.abs(strengths), np.column_stack(known.edges().ends())),
    }


def _next_experiment(estimator: BaseSystemIdentifier, names: Sequence[str]) -> dict[str, Any] | None:
    """The most informative experiment with inputs as large as those so far; None without several draws."""
    size = float(np.abs(estimator._experiments.inputs).max())
    if len(getattr(estimator, "theta_samples_", ())) < 2 or size == 0:
        return None
    box: dict[str, Any] = {"low": -size, "high": size, "random_state": 0}
    single, full = estimator.suggest_inputs(max_nonzero=1, **box), estimator.suggest_inputs(**box)
    by_single, by_full = (float(estimator.information_gain(x)[0]) for x in (single, full))
    x = np.asarray(full)[0]
    # An input and its negative tell the same, so that the sign that fewer nodes have is called positive.
    is_raised = x > 0 if 2 * (x > 0).sum() <= len(x) else x < 0
    return {
        "size": size,
        "raised": [shortened(names[node], 40) for node in np.flatnonzero(is_raised).tolist()],
        "information": by_full,
        "single": shortened(names[int(np.abs(np.asarray(single)[0]).argmax())], 40),
        "information_of_single": by_single,
    }


def _theta(estimator: BaseSystemIdentifier) -> dict[str, Any]:
    """Estimates of the filter's parameters, and how certain they are."""
    columns: dict[str, Any] = {"Estimate": map(_number, estimator.theta_)}
    if len(getattr(estimator, "theta_samples_", ())) > 1:
        intervals = [f"{_number(low)} to {_number(high)}" for low, high in estimator.theta_interval(_LEVEL)]
        for place in estimator.filter_.fixed_values():
            intervals[place] = "given"
        columns |= {f"{_LEVEL:.0%} interval": intervals, "Spread": map(_number, estimator.theta_std_)}
    if hasattr(estimator, "theta_refitted_"):
        columns["Refitted"] = map(_number, estimator.theta_refitted_)
        columns["Standard error"] = map(_number, estimator.theta_standard_error_)
    rows = list(zip(*columns.values(), strict=True))
    return {"columns": list(columns), "rows": list(zip(estimator.filter_.parameter_names(), rows, strict=True))}


def _chains(estimator: BaseSystemIdentifier) -> dict[str, Any]:
    """How well the chains of a sampler have explored the posterior."""
    diagnostics = estimator.diagnostics_
    n_kept, n_lost = len(diagnostics["log_likelihood"]), diagnostics["n_diverged"] + diagnostics["n_stuck"]
    return {
        "n_kept": n_kept,
        # Not estimator.n_chains, which may have been changed after the fit, and a callback may stop a fit early.
        "n_started": n_kept + n_lost,
        "is_resumed": estimator._is_resumed,
        "n_diverged": diagnostics["n_diverged"],
        "n_stuck": diagnostics["n_stuck"],
        "n_changes": diagnostics["n_changes_expected"],
        "r_hat": np.max(diagnostics["r_hat_theta"]),
        "effective_sample_size": np.min(diagnostics["effective_sample_size_theta"]),
    }


def _outliers(estimator: Any) -> dict[str, Any] | None:
    """The outputs that were discounted, where outliers are part of the model."""
    if not hasattr(estimator, "outlier_probabilities_"):
        return None
    rows = list(zip(*estimator._suspect_outputs(0.5).values(), strict=True))
    return {"rows": rows[:50], "n": len(rows), "n_measured": estimator._experiments.n_measured}


# Pictures, drawn without pyplot, which would keep the figures, and open windows where there is a screen


def _draw_pictures(
    estimator: BaseSystemIdentifier, names: Sequence[str], kind: str
) -> tuple[dict[str, dict[str, str] | None], PredictiveCheckDisplay]:
    """Pictures of the page in matplotlib's own style, None where there is none to draw, and the check of residuals."""
    from matplotlib import style

    from ..plotting import AdjacencyDisplay, GraphDisplay, PredictiveCheckDisplay, ThetaDisplay, TraceDisplay

    labels = [drawable(name, 16) for name in names]
    parameters = [drawable(name, 16) for name in estimator.filter_.parameter_names()]
    n_parameters, diagnostics = len(parameters), getattr(estimator, "diagnostics_", {})
    drawn: dict[str, Figure | None] = dict.fromkeys(("graph", "matrix", "strengths", "theta", "traces", "loss"))
    with style.context("default"), warnings.catch_warnings():
        # Names in scripts that the font lacks; the tables have them.
        warnings.filterwarnings("ignore", message="Glyph .* missing", category=UserWarning)
        graph = GraphDisplay._found_by(estimator)
        graph.node_names = labels
        # So many names can be read beside the nodes; more, if they are short enough to be written into them.
        is_small = len(labels) <= (60 if max(map(len, labels)) <= 3 else 40)
        # The finer layout takes longer than many a fit if there are more nodes.
        layout = "kamada_kawai" if len(labels) <= 120 else "spring"
        graph.plot(_axes(6.0, 6.0)[0], layout=layout, node_labels=True if is_small else "inferred")
        drawn["graph"] = graph.figure_
        shown = {"matrix": "probability", "strengths": "strength"}
        for name, color_by in shown.items() if hasattr(estimator, "weights_") else [("matrix", "probability")]:
            matrix = AdjacencyDisplay._found_by(estimator)
            matrix.node_names = labels
            matrix.plot(_axes(6.0, 6.0, layout="compressed")[0], color_by=color_by)
            if name == "matrix" and kind != "probability" and matrix.colorbar_ is not None:
                matrix.colorbar_.set_label(f"{kind} of an unknown pair")
            drawn[name] = matrix.figure_
        if len(getattr(estimator, "theta_samples_", ())) > 1:
            n_columns = min(3, n_parameters)
            n_rows = -(-n_parameters // n_columns)
            axes = _axes(2.9 * n_columns, 2.7 * n_rows, n_rows, n_columns)
            for unused in axes[n_parameters:]:
                unused.set_axis_off()
            theta = ThetaDisplay(
                theta_samples=estimator.theta_samples_, theta=estimator.theta_, parameter_names=parameters
            )
            drawn["theta"] = theta.plot(axes[:n_parameters], interval=_LEVEL, legend=False).figure_
        if "log_likelihood" in diagnostics and diagnostics["log_likelihood"].shape[1] > 1:
            traces = TraceDisplay._of(diagnostics, parameter_names=parameters)
            drawn["traces"] = traces.plot(_axes(7.6, 1.9 * (1 + n_parameters), 1 + n_parameters)).figure_
        if "loss" in diagnostics and np.ndim(losses := diagnostics["loss"]) == 1:
            (ax,) = _axes(7.0, 2.8)
            ax.plot(np.arange(1, len(losses) + 1), losses, color="#0072B2")
            ax.set(xlabel="step", ylabel="loss", yscale="log" if losses.min() > 0 else "linear")
            ax.spines[["top", "right"]].set_visible(False)
            drawn["loss"] = ax.figure
        data = estimator._experiments
        # More draws would hardly move the bands.
        means, noise_std = estimator._predict_draws(data.inputs, 50, random_state=0)
        outputs, nodes = data.outputs[:, estimator._output_nodes], [labels[node] for node in estimator._output_nodes]
        check = PredictiveCheckDisplay(outputs=outputs, means=means, noise_std=noise_std, node_names=nodes)
        check.plot(_axes(7.6, 4.2), kind="residuals", level=_LEVEL)
        drawn["residuals"] = check.figure_
        return {name: None if figure is None else _encoded(figure) for name, figure in drawn.items()}, check


def _axes(width: float, height: float, n_rows: int = 1, n_columns: int = 1, layout: Any = "constrained") -> list[Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    return list(figure.subplots(n_rows, n_columns, squeeze=False).ravel())


def _encoded(figure: Figure) -> dict[str, str]:
    """The address that holds a picture, and its width in rem: its letters are then as large as those around it."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=130, metadata={"Software": None})
    address = f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"
    return {"address": address, "width": f"{7.0 * float(figure.get_size_inches()[0]):.0f}"}
