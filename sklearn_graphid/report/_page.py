"""A fitted identifier as one HTML page: the facts are gathered here, and page.html is the template that shows them."""

from __future__ import annotations

import os
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
from .._utils._numbers import FloatArray
from ..filters import ARMAFilter, CallableFilter, HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from ..graphs import EdgeSpace
from ..identifiers._base import Finding
from ..plotting._base import shortened
from ..priors import GraphPriorScore
from ..priors._trust import deviations_in_words
from ._pictures import draw_pictures

if TYPE_CHECKING:
    from ..identifiers import BaseSystemIdentifier

__all__ = ["write_report"]

_LEVEL = 0.9  # of all intervals
_CERTAIN = 0.95  # pairs that are more certain than this in either direction are not listed as uncertain
_LONGEST_SETTING = 300  # characters


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
    if np.isinf(value):
        return "not determined"
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")


# What the template shows


def _context(estimator: BaseSystemIdentifier) -> dict[str, Any]:
    """All values of the template, by name."""
    from .. import __version__

    known = estimator.known_edges_
    names = [str(name) for name in estimator.node_names_]
    names = [name if name.strip() else repr(name) for name in names]  # blanks alone could not be seen
    has_strengths, has_spread = hasattr(estimator, "weights_"), hasattr(estimator, "weights_std_")
    diagnostics = getattr(estimator, "diagnostics_", {})
    surprise = _prior_surprise(estimator)  # a forward pass of the prior's network
    # Probabilities come from posterior draws, or were calibrated on the known pairs.
    is_probability = hasattr(estimator, "theta_samples_") or bool(diagnostics.get("calibrated"))
    kind = "probability" if is_probability else "weight"
    pictures, check = draw_pictures(estimator, names, level=_LEVEL, kind=kind)
    noise_differs = bool(np.ptp(getattr(estimator, "noise_std_per_node_", [0.0])) > 0)
    return {
        "version": __version__,
        "date": date.today().isoformat(),
        "identifier": type(estimator).__name__,
        "settings": [(name, _one_line(repr(value))) for name, value in estimator._params_at_fit.items()],
        "filter": _filter_in_words(estimator.filter_),
        "n_nodes": known.n_nodes,
        "directed": known.directed,
        "kind": kind,
        "level": _LEVEL,
        "certain": _CERTAIN,
        "findings": _findings(estimator, surprise, is_probability),
        "given": _given(estimator, surprise),
        "edges_assumed": _edges_in_words(estimator),
        "has_noise_per_node": noise_differs,
        "noise_may_differ": hasattr(estimator, "noise_std_per_node_") and not noise_differs,
        "suspects": _suspects(estimator, names),
        **_pairs(estimator, names, kind),
        "strengths": ["Strength", "Spread"][: has_strengths + has_spread],
        "unit_of_strengths": _unit_of_strengths(estimator),
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
        text = (
            f"The graph does not look like those that the prior has learned from: {reason}. The prior may not apply. "
        )
        findings.append(Finding("trouble", f"{text}Compare with a fit without it."))
    return findings


def _given(estimator: BaseSystemIdentifier, surprise: float | None) -> list[tuple[str, str]]:
    """Facts about the data and the model."""
    known = estimator.known_edges_
    n_pairs = EdgeSpace.complete(known.n_nodes, known.directed).n_free
    n_known = n_pairs - known.n_unknown
    n_outputs = len(estimator._output_nodes)
    data = estimator._experiments
    measured = data.n_measured / (len(data.inputs) * n_outputs)
    # All settings of the filter: those that were left alone say what it is, no less than those that were not.
    with config_context(print_changed_only=False):
        filter_settings = _one_line(repr(estimator.filter_))
    return [
        ("Nodes", str(known.n_nodes)),
        ("Experiments", str(len(data.inputs))),
        ("Outputs", f"at {_counted(n_outputs, 'node')}, {_percent(measured)} of them measured"),
        (
            "Known ordered pairs" if known.directed else "Known pairs",
            f"{n_known} of {n_pairs} ({_percent(n_known / n_pairs)})" if n_pairs else "0 of 0",
        ),
        ("Known edges", str(known.edges().n_free)),
        *([("Known strengths", _known_strengths(estimator))] if hasattr(estimator, "weights_") else []),
        ("Filter", _filter_in_words(estimator.filter_)),
        ("Filter settings", filter_settings),
        ("Prior", _prior_in_words(estimator, surprise)),
        ("Noise", _noise_in_words(estimator)),
    ]


def _one_line(text: str) -> str:
    return shortened(" ".join(text.split()), _LONGEST_SETTING)


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


def _prior_surprise(estimator: BaseSystemIdentifier) -> float | None:
    """How far the known part lies from a learned prior's graphs; None where there is no such prior."""
    prior = getattr(estimator, "prior_", None)
    return prior.surprise(estimator.known_edges_) if isinstance(prior, GraphPriorScore) else None


def _prior_in_words(estimator: BaseSystemIdentifier, surprise: float | None) -> str:
    parameters = estimator._params_at_fit
    prior = getattr(estimator, "prior_", None)
    trust = getattr(estimator, "prior_trust_", 1.0)
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
    samples = getattr(estimator, "noise_std_samples_", ())
    if len(samples) and not isinstance(estimator._params_at_fit["noise_std"], str | None):
        source = "as given"
    elif len(samples) > 1:
        low, high = estimator.noise_std_interval(_LEVEL)
        source = f"estimated ({_LEVEL:.0%} between {_number(low)} and {_number(high)})"
    else:
        source = "estimated"
    power = estimator._experiments.output_power
    share = _percent(min(1.0, estimator.noise_std_**2 / power) if power > 0 else 1.0)
    level = f"standard deviation {_number(estimator.noise_std_)}"
    return f"{level}, {source}; it makes up {share} of the outputs' mean square"


def _edges_in_words(estimator: BaseSystemIdentifier) -> str:
    """Describe what the model assumes about edges."""
    directed = estimator.known_edges_.directed
    if not hasattr(estimator, "weights_"):
        return "edges have no strength" if directed else "edges have neither direction nor strength"
    signs = "of either sign" if estimator._params_at_fit.get("edge_weights") == "signed" else "above zero"
    return f"every edge has a strength of its own, {signs}" + ("" if directed else ", and no direction")


def _unit_of_strengths(estimator: BaseSystemIdentifier) -> str:
    """Say what the numbers of strengths are, and in which unit."""
    if not hasattr(estimator, "weights_std_"):
        return "Strengths are in the units of the data."
    words = "Strength is the mean over the draws that contain the edge, spread their standard deviation."
    if estimator.known_edges_.weights is not None:
        return f"{words} Strengths are in the unit of the known strengths."
    is_signed = estimator._params_at_fit.get("edge_weights") == "signed"
    unit = "width of their distribution" if is_signed else "geometric mean of all strengths"
    return (
        f"{words} No strength is known, so strengths are in units of the {unit}, and the parameters of the filter set "
        f"the scale."
    )


def _known_strengths(estimator: BaseSystemIdentifier) -> str:
    """How many of the known edges came with a strength."""
    known = estimator.known_edges_
    return f"{known.edges_with_weight().n_free} of {_counted(known.edges().n_free, 'known edge')}"


def _suspects(estimator: BaseSystemIdentifier, names: Sequence[str], most: int = 20) -> dict[str, Any] | None:
    """Known pairs that are more likely wrong than right, where the fit had a reason to look for them."""
    found = getattr(estimator, "_log_odds_wrong", None)
    log_odds = np.empty(0) if found is None else found
    chosen = [place for place in np.argsort(-log_odds, kind="stable") if log_odds[place] > 0]
    if not chosen:
        return None
    pairs = estimator.known_edges_.known_pairs()
    sources, targets = pairs.sources_and_targets()
    given = pairs.gather(estimator.known_edges_.values)
    rows = [
        (names[sources[place]], names[targets[place]], "edge" if given[place] else "no edge", log_odds[place])
        for place in chosen[:most]
    ]
    return {"rows": rows, "n": len(chosen)}


def _pairs(estimator: BaseSystemIdentifier, names: Sequence[str], kind: str) -> dict[str, Any]:
    """Counts and lists of uncertain pairs, inferred edges, and known edges with their strengths."""
    known, probabilities = estimator.known_edges_, estimator.edge_probabilities_
    unknown = np.column_stack(known.unknown_pairs())
    n_draws = len(getattr(estimator, "theta_samples_", ()))
    # A standard error needs several chains.
    errors = getattr(estimator, "diagnostics_", {}).get("monte_carlo_error_edges", np.full_like(probabilities, np.nan))

    def sorted_by(values: FloatArray, pairs: Any) -> Any:
        return pairs[np.argsort(values[tuple(pairs.T)], kind="stable")]

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

    def listed(pairs: Any, most: int = 1000) -> dict[str, Any]:
        return {"rows": [row(pair) for pair in pairs[:most]], "n": len(pairs)}

    is_open = (probabilities > 1 - _CERTAIN) & (probabilities < _CERTAIN)
    uncertain = sorted_by(np.abs(probabilities - 0.5), unknown[is_open[tuple(unknown.T)]])
    found = EdgeSpace.of_mask((estimator.adjacency_ == 1) & ~known.mask, known.directed)
    inferred = sorted_by(-probabilities, np.column_stack(found.ends()))
    with_strength = np.empty((0, 2), dtype=np.intp)
    if hasattr(estimator, "weights_"):
        with_strength = sorted_by(-np.abs(estimator.weights_), np.column_stack(known.edges().ends()))
    n_all = EdgeSpace.of_mask(estimator.adjacency_ == 1, known.directed).n_free
    tiles = [
        (known.n_nodes, "node" if known.n_nodes == 1 else "nodes"),
        (n_all, "edge in all" if n_all == 1 else "edges in all"),
        (len(inferred), f"of {_counted(len(unknown), 'unknown pair')} inferred to be edges"),
    ]
    if n_draws != 1:
        between = f"with a {kind} between {1 - _CERTAIN:.2f} and {_CERTAIN:.2f}"
        tiles.append((len(uncertain), f"of these pairs uncertain, {between}"))
    return {
        "tiles": tiles,
        "n_draws": n_draws,
        "n_unknown": len(unknown),
        "uncertain": listed(uncertain, most=100),
        "has_standard_errors": not np.isnan(errors[tuple(uncertain.T)]).all(),
        "inferred": listed(inferred),
        "known_edges": listed(with_strength),
    }


def _next_experiment(estimator: BaseSystemIdentifier, node_names: Sequence[str], most: int = 12) -> str:
    """Describe the most informative experiment with inputs as large as those so far; empty without several draws."""
    size = float(np.abs(estimator._experiments.inputs).max())
    if len(getattr(estimator, "theta_samples_", ())) < 2 or size == 0:
        return ""
    box: dict[str, Any] = {"low": -size, "high": size, "random_state": 0}
    single, full = estimator.suggest_inputs(max_nonzero=1, **box), estimator.suggest_inputs(**box)
    by_single, by_full = (float(estimator.information_gain(x)[0]) for x in (single, full))
    if by_full == 0:
        return (
            "The draws agree on all outputs: no experiment within the range of the inputs so far would be informative."
        )
    names, x = [shortened(name, 40) for name in node_names], np.asarray(full)[0]
    # An input and its negative tell the same, so that the sign that fewer nodes have is called positive.
    is_raised = x > 0 if 2 * (x > 0).sum() <= len(x) else x < 0
    raised = [names[node] for node in np.flatnonzero(is_raised)]
    rest = f" and {len(raised) - most} more" if len(raised) > most else ""
    at_nodes = f"positive at {', '.join(raised[:most])}{rest}, negative elsewhere" if raised else "all of one sign"
    node = names[int(np.abs(np.asarray(single)[0]).argmax())]
    return (
        f"The most informative next experiment, with inputs of up to {_number(size)} in size, as so far: {at_nodes}; "
        f"{_number(by_full)} nats expected. With one driven node: {node}; {_number(by_single)} nats."
    )


def _theta(estimator: BaseSystemIdentifier) -> dict[str, Any]:
    """Estimates of the filter's parameters, and how certain they are."""
    columns = {"Estimate": [_number(value) for value in estimator.theta_]}
    if len(getattr(estimator, "theta_samples_", ())) > 1:
        intervals = [f"{_number(low)} to {_number(high)}" for low, high in estimator.theta_interval(_LEVEL)]
        for place in estimator.filter_.fixed_values():
            intervals[place] = "given"
        columns |= {f"{_LEVEL:.0%} interval": intervals, "Spread": [_number(value) for value in estimator.theta_std_]}
    if hasattr(estimator, "theta_refitted_"):
        columns["Refitted"] = [_number(value) for value in estimator.theta_refitted_]
        columns["Standard error"] = [_number(value) for value in estimator.theta_standard_error_]
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


def _outliers(estimator: Any, most: int = 50) -> dict[str, Any] | None:
    """The outputs that were discounted, where outliers are part of the model."""
    if not hasattr(estimator, "outlier_probabilities_"):
        return None
    rows = list(zip(*estimator._suspect_outputs(0.5).values(), strict=True))
    return {"rows": rows[:most], "n": len(rows), "n_measured": estimator._experiments.n_measured}
