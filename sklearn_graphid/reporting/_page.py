"""A fitted identifier as one HTML page: data and settings, results, and how reliable they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import date
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from .._utils._disk import check_path, check_writable, write_atomically
from .._utils._findings import Finding
from .._utils._libraries import require_matplotlib
from ..graphs import EdgeSpace
from ..plotting._names import shortened
from ._facts import (
    LEVEL,
    LONGEST_SETTING,
    are_probabilities,
    count,
    edges_in_words,
    experiment_in_words,
    filter_in_words,
    filter_settings,
    has_noise_per_node,
    has_strengths,
    known_strengths_in_words,
    node_names,
    noise_in_words,
    number,
    percent,
    prior_in_words,
    prior_mismatch,
    prior_surprise,
    strengths_in_words,
)
from ._pictures import (
    draw_graph,
    draw_loss,
    draw_matrix,
    draw_residuals,
    draw_theta,
    draw_traces,
    drawing_style,
    encoded,
)
from ._style import STYLE
from ._tables import diagnostics_of, number_cell, output_table, pair_table, suspect_table, table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..identifiers import BaseSystemIdentifier

__all__ = ["write_report"]

# Edges that are more certain than this in either direction are not listed as uncertain.
_CERTAIN = 0.95
_UNCERTAIN_AT_ONCE = 20
_MOST_UNCERTAIN = 100
_MOST_EDGES = 1000
_MOST_OUTLIERS = 50
_MOST_NODES = 10
_REM_PER_INCH = 7.0  # letters in a picture are then as large as those around it


def write_report(estimator: BaseSystemIdentifier, path: str | os.PathLike[str], title: str | None = None) -> Path:
    """Write the page; see `BaseSystemIdentifier.report`."""
    check_is_fitted(estimator)
    if title is not None and not (isinstance(title, str) and title.strip()):
        raise ValueError(f"title={title!r}; expected a text, or None.")
    target = _check_path(path)
    require_matplotlib("report")
    page = _page(estimator, title)
    # A node's name may hold half a surrogate pair, which no encoding has; the page shows the character's number.
    write_atomically(target, page.encode("utf-8", "xmlcharrefreplace"))
    return target


def _check_path(path: Any) -> Path:
    target = check_path(path)
    if target.is_dir():
        raise ValueError(f"path={str(target)!r} is a folder; expected the path of a file.")
    if not target.parent.is_dir():
        raise ValueError(f"path={str(target)!r}: there is no folder {str(target.parent)!r}; make it first.")
    try:
        check_writable(target)
    except OSError as error:
        raise ValueError(f"path={str(target)!r} cannot be written ({error.strerror or error}).") from error
    return target


def _page(estimator: BaseSystemIdentifier, heading: str | None) -> str:
    title = heading or f"{type(estimator).__name__}: {count(estimator.n_features_in_, 'node')}"
    # A forward pass of the prior's network, which two sections read.
    surprise = prior_surprise(estimator)
    with drawing_style():
        sections = [
            _headline(estimator, surprise, heading or "An identified graph"),
            _given(estimator, surprise),
            _suspects(estimator),
            _graph_pictures(estimator),
            _uncertain_pairs(estimator),
            _inferred_edges(estimator),
            _known_strengths(estimator),
            _next_experiment(estimator),
            _theta(estimator),
            _trust(estimator),
            _suspect_outputs(estimator),
            _residuals(estimator),
            _settings(estimator),
        ]
    from .. import __version__

    # Nothing is fetched and nothing runs, whatever a node may be called.
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>{STYLE}</style>
</head>
<body>
<main>
{"".join(sections)}
</main>
<footer>Written by sklearn_graphid {escape(__version__)}.</footer>
</body>
</html>
"""


def _headline(estimator: BaseSystemIdentifier, surprise: float | None, heading: str) -> str:
    known, adjacency = estimator.known_edges_, estimator.adjacency_
    rows, columns = known.unknown_pairs()
    n_all = EdgeSpace.of_mask(adjacency == 1, known.directed).n_free
    n_edges = int(adjacency[rows, columns].sum())
    kind = "probability" if are_probabilities(estimator) else "weight"
    numbers = [
        (estimator.n_features_in_, "node" if estimator.n_features_in_ == 1 else "nodes"),
        (n_all, "edge in all" if n_all == 1 else "edges in all"),
        (n_edges, f"of {count(len(rows), 'unknown pair')} inferred to be edges"),
    ]
    if not _is_single_draw(estimator):
        between = f"with a {kind} between {1 - _CERTAIN:.2f} and {_CERTAIN:.2f}"
        numbers.append((len(_uncertain(estimator)), f"of these pairs uncertain, {between}"))
    tiles = "".join(f"<li><b>{value}</b>{escape(label)}</li>" for value, label in numbers)
    lead = f"{type(estimator).__name__} with {filter_in_words(estimator.filter_)}"
    return (
        f"<h1>{escape(heading)}</h1>"
        f'<p class="lead">{escape(lead)}; {date.today().isoformat()}</p>'
        f'<ul class="numbers">{tiles}</ul>{_notes(estimator, surprise)}'
    )


def _notes(estimator: BaseSystemIdentifier, surprise: float | None) -> str:
    heads = {"trouble": "Read with care", "caution": "Read with care", "good": "Agreement of the chains"}
    findings = list(estimator._findings)
    if not are_probabilities(estimator):
        text = "The numbers between 0 and 1 rank the pairs. They are weights, not probabilities."
        findings.append(Finding("caution", text))
    if mismatch := prior_mismatch(estimator, surprise):
        findings.append(Finding("trouble", mismatch))
    return "".join(
        f'<div class="note {finding.severity}"><strong>{heads[finding.severity]}</strong>'
        f"{escape(finding.text[:1].upper() + finding.text[1:])}</div>"
        for finding in findings
    )


def _given(estimator: BaseSystemIdentifier, surprise: float | None) -> str:
    known = estimator.known_edges_
    n_pairs = EdgeSpace.complete(known.n_nodes, known.directed).n_free
    n_known = n_pairs - known.n_unknown
    n_outputs = len(estimator._output_nodes)
    measured = estimator._n_measured / (estimator._n_experiments * n_outputs)
    facts = [
        ("Nodes", str(known.n_nodes)),
        ("Experiments", str(estimator._n_experiments)),
        ("Outputs", f"at {count(n_outputs, 'node')}, {percent(measured)} of them measured"),
        (
            "Known ordered pairs" if known.directed else "Known pairs",
            f"{n_known} of {n_pairs} ({percent(n_known / n_pairs)})" if n_pairs else "0 of 0",
        ),
        ("Known edges", str(known.edges().n_free)),
        *([("Known strengths", known_strengths_in_words(estimator))] if has_strengths(estimator) else []),
        ("Filter", filter_in_words(estimator.filter_)),
        ("Filter settings", filter_settings(estimator.filter_)),
        ("Prior", prior_in_words(estimator, surprise)),
        ("Noise", noise_in_words(estimator)),
    ]
    rows = "".join(f'<tr><th>{escape(name)}</th><td class="name">{escape(value)}</td></tr>' for name, value in facts)
    level = "its own level at each node" if has_noise_per_node(estimator) else "the same level at all nodes"
    outliers = " but for a few outliers" if hasattr(estimator, "outlier_probabilities_") else ""
    words = (
        f"<p>Assumptions: {edges_in_words(estimator)}; the graph is the same in all experiments; the filter is of the "
        f"right kind; the noise is Gaussian{outliers}, with {level}. If an assumption is wrong, the results below look "
        f"no less certain.</p>"
    )
    return f"<h2>Data and model</h2>{table('given', rows)}{words}"


def _uncertain(estimator: BaseSystemIdentifier) -> npt.NDArray[np.intp]:
    """Unknown pairs (n, 2) whose decision is uncertain, the most uncertain first."""
    pairs = np.column_stack(estimator.known_edges_.unknown_pairs())
    probabilities = estimator.edge_probabilities_[tuple(pairs.T)]
    order = np.argsort(np.abs(probabilities - 0.5), kind="stable")
    is_open = (probabilities > 1 - _CERTAIN) & (probabilities < _CERTAIN)
    chosen: npt.NDArray[np.intp] = pairs[order[is_open[order]]]
    return chosen


def _uncertain_pairs(estimator: BaseSystemIdentifier) -> str:
    pairs = _uncertain(estimator)
    head = "<h2>Uncertain edges, the most uncertain first</h2>"
    if not len(pairs):
        return f"{head}<p>{_why_none_is_uncertain(estimator)}</p>"
    words = ["The decisions about these pairs may be wrong; check or measure these pairs first."]
    if are_probabilities(estimator):
        words.append("Of ten pairs with probability 0.7 about seven are edges, if the assumptions above hold.")
    errors = diagnostics_of(estimator).get("monte_carlo_error_edges")
    if errors is not None and not np.isnan(errors[tuple(pairs.T)]).all():  # one chain does not tell
        words.append("± is one standard error: how much another run, with another seed, would differ.")
    first, others = pairs[:_UNCERTAIN_AT_ONCE], pairs[_UNCERTAIN_AT_ONCE:_MOST_UNCERTAIN]
    shown = f"<p>{' '.join(words)}</p>{pair_table(estimator, first, 'uncertain')}"
    if not len(others):
        return f"{head}{shown}"
    rest = len(pairs) - _MOST_UNCERTAIN
    more = f"<p>And {count(rest, 'more pair')}.</p>" if rest > 0 else ""
    folded = f"{pair_table(estimator, others, 'uncertain-too')}{more}"
    return f"{head}{shown}<details><summary>The next {len(others)}</summary>{folded}</details>"


def _suspects(estimator: BaseSystemIdentifier) -> str:
    """Known pairs that are more likely wrong than right, where the fit had a reason to look for them."""
    pairs = estimator.known_edges_.known_pairs()
    log_odds = getattr(estimator, "_log_odds_wrong", np.empty(0))
    chosen = [place for place in np.argsort(-log_odds, kind="stable") if log_odds[place] > 0]
    if not chosen:
        return ""
    words = (
        "The data contradict these known pairs: check them first. Log-odds are those that the pair is wrong, if one in "
        "a hundred known pairs is. A filter that does not describe the process can make right pairs look wrong."
    )
    rest = len(chosen) - _UNCERTAIN_AT_ONCE
    more = f"<p>And {count(rest, 'more pair')}.</p>" if rest > 0 else ""
    shown = suspect_table(estimator, pairs, chosen[:_UNCERTAIN_AT_ONCE])
    return f"<h2>Known pairs that may be wrong</h2><p>{words}</p>{shown}{more}"


def _next_experiment(estimator: BaseSystemIdentifier) -> str:
    words = experiment_in_words(estimator)
    return f'<h2>What to measure next</h2><p id="next-experiment">{escape(words)}</p>' if words else ""


def _why_none_is_uncertain(estimator: BaseSystemIdentifier) -> str:
    if not estimator.known_edges_.n_unknown:
        return "None: all pairs are known."
    if _is_single_draw(estimator):
        return "A single draw does not show which pairs are uncertain: in it, every pair is an edge or is not."
    return f"None: every unknown pair is at most {1 - _CERTAIN:.0%} or at least {_CERTAIN:.0%}."


def _is_single_draw(estimator: BaseSystemIdentifier) -> bool:
    return len(getattr(estimator, "theta_samples_", ())) == 1


def _inferred_edges(estimator: BaseSystemIdentifier) -> str:
    known = estimator.known_edges_
    pairs = np.column_stack(EdgeSpace.of_mask((estimator.adjacency_ == 1) & ~known.mask, known.directed).ends())
    if not len(pairs):
        return "<p>No edge was inferred.</p>"
    pairs = pairs[np.argsort(-estimator.edge_probabilities_[tuple(pairs.T)], kind="stable")]
    rest = len(pairs) - _MOST_EDGES
    more = f"<p>And {count(rest, 'more edge')}.</p>" if rest > 0 else ""
    listed = pair_table(estimator, pairs[:_MOST_EDGES], "edges", with_strengths=has_strengths(estimator))
    words = f"<p>{escape(strengths_in_words(estimator))}</p>" if has_strengths(estimator) else ""
    return f"<details><summary>All {count(len(pairs), 'inferred edge')}</summary>{words}{listed}{more}</details>"


def _known_strengths(estimator: BaseSystemIdentifier) -> str:
    """The strengths of known edges, both estimated and given."""
    known = estimator.known_edges_
    pairs = np.column_stack(known.edges().ends()) if has_strengths(estimator) else np.empty((0, 2), dtype=np.intp)
    if not len(pairs):
        return ""
    pairs = pairs[np.argsort(-np.abs(estimator.weights_[tuple(pairs.T)]), kind="stable")]
    rest = len(pairs) - _MOST_EDGES
    more = f"<p>And {count(rest, 'more edge')}.</p>" if rest > 0 else ""
    words = f"{strengths_in_words(estimator)} The strength was given for {known_strengths_in_words(estimator)}."
    listed = pair_table(estimator, pairs[:_MOST_EDGES], "known-strengths", with_strengths=True)
    summary = f"Strengths of {count(len(pairs), 'known edge')}, the strongest first"
    return f"<details><summary>{summary}</summary><p>{escape(words)}</p>{listed}{more}</details>"


def _theta(estimator: BaseSystemIdentifier) -> str:
    names = estimator.filter_.parameter_names()
    columns: list[tuple[str, list[str]]] = [("Estimate", [number(value) for value in estimator.theta_])]
    if len(getattr(estimator, "theta_samples_", ())) > 1:
        intervals = [f"{number(low)} to {number(high)}" for low, high in estimator.theta_interval(LEVEL)]
        for place in estimator.filter_.fixed_values():
            intervals[place] = "given"
        columns.append((f"{LEVEL:.0%} interval", intervals))
        columns.append(("Spread", [number(value) for value in estimator.theta_std_]))
    if hasattr(estimator, "theta_refitted_"):
        columns.append(("Refitted", [number(value) for value in estimator.theta_refitted_]))
        columns.append(("Standard error", [number(value) for value in estimator.theta_standard_error_]))
    head = "".join(f'<th class="number">{title}</th>' for title, _ in columns)
    cells = ["".join(number_cell(values[row], title) for title, values in columns) for row in range(len(names))]
    rows = "".join(
        f'<tr><th class="name">{escape(name)}</th>{row}</tr>' for name, row in zip(names, cells, strict=True)
    )
    words = (
        "<p>Refitted is the maximum-likelihood estimate on the graph above. Its standard error assumes that this graph "
        "is right; the interval and the spread, if shown, do not.</p>"
    )
    words = words if hasattr(estimator, "theta_refitted_") else ""
    listed = table("theta", rows, f"<tr><th>Parameter</th>{head}</tr>")
    return f"<h2>Parameters of the filter</h2>{listed}{words}{_theta_picture(estimator, names)}"


def _trust(estimator: BaseSystemIdentifier) -> str:
    diagnostics = diagnostics_of(estimator)
    if "log_likelihood" not in diagnostics:
        return _single_answer(estimator)
    n_kept, n_steps = diagnostics["log_likelihood"].shape
    # Not estimator.n_chains, which may have been changed after the fit, and a callback may stop a fit before the last.
    n_started = n_kept + diagnostics["n_diverged"] + diagnostics["n_stuck"]
    facts = [
        (
            "Chains",
            f"{n_kept} kept of {n_started}",
            "continued from those of the previous fit" if estimator._is_resumed else "each from its own random start",
        ),
        ("Diverged", str(diagnostics["n_diverged"]), "numbers became infinite; dropped"),
        ("Stuck", str(diagnostics["n_stuck"]), "in a graph far less probable than another chain's; dropped"),
        ("Pairs another run would change", number(diagnostics["n_changes_expected"]), "expected, with another seed"),
        (
            "R-hat of the parameters",
            number(np.max(diagnostics["r_hat_theta"])),
            "the largest; near 1 if every chain has explored the posterior, larger for short chains even if they agree "
            "on average",
        ),
        (
            "Effective sample size",
            number(np.min(diagnostics["effective_sample_size_theta"])),
            "the smallest of the parameters; the chains are worth this many independent draws",
        ),
    ]
    rows = "".join(
        f'<tr><th>{escape(name)}</th><td class="number">{escape(value)}</td><td class="name">{escape(words)}</td></tr>'
        for name, value, words in facts
    )
    caption = "Every thin line is a chain. Chains that have converged lie on top of one another and no longer drift."
    picture = (
        _figure(lambda: draw_traces(estimator), "Traces of the chains", caption, is_wide=True) if n_steps > 1 else ""
    )
    return (
        f'<h2>Reliability</h2><div class="scroll"><table id="diagnostics"><tbody>{rows}</tbody></table></div>{picture}'
    )


def _single_answer(estimator: BaseSystemIdentifier) -> str:
    words = "This is one answer, without a spread: it does not show which other answers would fit as well."
    if are_probabilities(estimator):
        words += " The probabilities were fitted to the known pairs, and are valid if the unknown pairs are like these."
    words, picture = f"<p>{words}</p>", ""
    diagnostics = diagnostics_of(estimator)
    if "loss" in diagnostics and np.ndim(diagnostics["loss"]) == 1:
        caption = "The loss at every step. If it is still falling at the end, more steps are needed."
        picture = _figure(lambda: draw_loss(diagnostics["loss"]), "Loss", caption, is_wide=True)
    return f"<h2>Reliability</h2>{words}{picture}"


def _suspect_outputs(estimator: Any) -> str:
    """The outputs that were discounted, where outliers are part of the model."""
    if not hasattr(estimator, "outlier_probabilities_"):
        return ""
    columns = estimator._suspect_outputs(0.5)
    n_outliers = len(columns["row"])
    if not n_outliers:
        return "<h2>Discounted outputs</h2><p>None: no output is an outlier with a probability above one half.</p>"
    rest = n_outliers - _MOST_OUTLIERS
    more = f"<p>And {count(rest, 'more output')}.</p>" if rest > 0 else ""
    words = (
        f"{count(n_outliers, 'output')} of {estimator._n_measured} had little influence on the result, because the "
        f"noise there is probably larger than usual. Check how they were measured."
    )
    return f"<h2>Discounted outputs</h2><p>{words}</p>{output_table(columns, _MOST_OUTLIERS)}{more}"


def _residuals(estimator: BaseSystemIdentifier) -> str:
    check = draw_residuals(estimator, LEVEL)
    measured = [node_names(estimator)[node] for node in estimator._output_nodes]
    names = [name for name, is_odd in zip(measured, check.conspicuous_, strict=True) if is_odd]
    if names:
        listed = ", ".join(names[:_MOST_NODES]) + (f" and {len(names) - _MOST_NODES} more" * (len(names) > _MOST_NODES))
        verdict = f"At {count(len(names), 'node')} there are more than chance explains: {listed}."
        verdict += " Check the instruments there"
        can_differ = hasattr(estimator, "noise_std_per_node_") and not has_noise_per_node(estimator)
        verdict += ", or allow a noise level for each node (noise_std='per-node')." if can_differ else "."
    else:
        verdict = "No node has more of them than chance explains."
    words = (
        f"If the model is right, the residuals are white noise: they look the same at every node and in every "
        f"experiment, and {percent(1 - LEVEL)} of the outputs lie outside the {percent(LEVEL)} band. Here "
        f"{percent(check.total_share_outside_)} do. {verdict}"
    )
    caption = "Standardised residuals of the fitted outputs, by node and, within each node, by experiment."
    picture = _figure(lambda: check.figure_, "Residuals by node", caption, is_wide=True)
    return f"<h2>Residuals</h2><p>{escape(words)}</p>{picture}"


def _settings(estimator: BaseSystemIdentifier) -> str:
    rows = "".join(
        f'<tr><th>{escape(name)}</th><td class="setting">'
        f"{escape(shortened(' '.join(repr(value).split()), LONGEST_SETTING))}</td></tr>"
        for name, value in estimator._params_at_fit.items()
    )
    return f"<details><summary>All settings</summary>{table('settings', rows)}</details>"


def _graph_pictures(estimator: BaseSystemIdentifier) -> str:
    shown = "probability" if are_probabilities(estimator) else "weight"
    width = "widths show the strength of all edges" if has_strengths(estimator) else f"widths show their {shown}"
    graph = _figure(
        lambda: draw_graph(estimator),
        "The graph",
        f"Known edges are grey, inferred edges are blue; {width}.",
    )
    matrix = _figure(
        lambda: draw_matrix(estimator),
        "The adjacency matrix",
        f"Every pair of nodes: known pairs are grey or white, unknown pairs are darker for a larger {shown}.",
    )
    strengths = ""
    if has_strengths(estimator):
        caption = "Every edge by its strength; known edges are hatched."
        strengths = _figure(lambda: draw_matrix(estimator, "strength"), "Strengths", caption)
    return f'<h2>Identified graph</h2><div class="pictures">{graph}{matrix}{strengths}</div>'


def _theta_picture(estimator: BaseSystemIdentifier, names: Sequence[str]) -> str:
    if len(getattr(estimator, "theta_samples_", ())) < 2:
        return ""
    caption = f"Draws of every parameter, their {LEVEL:.0%} intervals and the estimates."
    return _figure(
        lambda: draw_theta(estimator, names, LEVEL), "Posterior of the parameters", caption, is_wide=len(names) > 1
    )


def _figure(draw: Callable[[], Figure], title: str, caption: str, is_wide: bool = False) -> str:
    """A picture, never much larger than it was drawn; a wide one is moved sideways on a telephone."""
    address, inches = encoded(draw)
    picture = f'<img alt="{escape(title)}" style="max-width:{_REM_PER_INCH * inches:.0f}rem" src="{address}">'
    kind = ' class="wide"' if is_wide else ""
    return f"<figure{kind}>{picture}<figcaption>{escape(caption)}</figcaption></figure>"
