"""A fitted identifier as one HTML page: what was given, what was found, and how far to trust it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from ._report_pictures import (
    draw_loss,
    draw_matrix,
    draw_network,
    draw_theta,
    draw_traces,
    drawing_style,
    encoded,
    node_names,
    shortened,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["write_report"]

_LEVEL = 0.9
# Links that are more certain than this in either direction are not listed as uncertain.
_CERTAIN = 0.95
_MOST_UNCERTAIN = 100
_MOST_LINKS = 1000
_LONGEST_SETTING = 300

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --page: #ffffff; --card: #f6f8fa;
  --accent: #0072b2; --good: #1a7f37; --bad: #b35900; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9da7b1; --line: #3d444d; --page: #14181d; --card: #1d232a; --accent: #58b0e3;
    --good: #4ac26b; --bad: #e69f00; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem clamp(1rem, 4vw, 3rem) 3rem; max-width: 72rem; background: var(--page);
  color: var(--ink); font: 1rem/1.55 system-ui, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .3rem; }
h2 { font-size: 1.2rem; margin: 2.4rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
p, ul { max-width: 46rem; }
p.lead { font-size: 1.1rem; margin-top: 0; color: var(--soft); overflow-wrap: anywhere; }
.note { border-left: .3rem solid var(--good); background: var(--card); padding: .6rem .9rem; margin: .6rem 0;
  max-width: 46rem; border-radius: .2rem; overflow-wrap: anywhere; }
.note.trouble, .note.caution { border-color: var(--bad); }
.note strong { display: block; }
.numbers { display: flex; flex-wrap: wrap; gap: .8rem; margin: 1.2rem 0; padding: 0; list-style: none;
  max-width: none; }
.numbers li { flex: 1 1 9rem; background: var(--card); border-radius: .4rem; padding: .7rem .9rem; color: var(--soft); }
.numbers b { display: block; font-size: 1.6rem; line-height: 1.2; color: var(--ink);
  font-variant-numeric: tabular-nums; }
.scroll { overflow-x: auto; max-width: 100%; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: .4rem 0; }
th, td { text-align: left; padding: .35rem .9rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
thead th { color: var(--soft); font-weight: 600; white-space: nowrap; vertical-align: bottom; }
tbody th { font-weight: 600; }
td.number, th.number { text-align: right; white-space: nowrap; }
td.name, th.name, td.setting { overflow-wrap: anywhere; min-width: 7rem; max-width: 24rem; }
td.setting { font-family: ui-monospace, Consolas, Menlo, monospace; font-size: .9rem; }
.bar { display: inline-block; width: 6rem; height: .7rem; background: var(--line); border-radius: .35rem;
  overflow: hidden; vertical-align: middle; }
.bar span { display: block; height: 100%; background: var(--accent); }
.pictures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); gap: 1rem; }
figure { margin: .6rem 0; }
figure img { display: block; width: 100%; height: auto; max-width: 52rem; background: #ffffff; border-radius: .4rem;
  border: 1px solid var(--line); padding: .4rem; }
figcaption { color: var(--soft); font-size: .92rem; margin-top: .3rem; max-width: 46rem; }
details { margin: .8rem 0; }
summary { cursor: pointer; color: var(--accent); }
footer { margin-top: 3rem; color: var(--soft); font-size: .9rem; }
@media print { body { max-width: none; padding: 0; } figure, tr { break-inside: avoid; } }
"""


def write_report(estimator: Any, path: str | os.PathLike[str]) -> Path:
    """Write the page; see `BaseSystemIdentifier.report`."""
    check_is_fitted(estimator)
    target = _check_path(path)
    from .plotting._style import require_matplotlib

    require_matplotlib("report")
    page = _page(estimator)
    # A node's name may hold half a surrogate pair, which no encoding has; the page shows the character's number.
    target.write_bytes(page.encode("utf-8", "xmlcharrefreplace"))
    return target


def _check_path(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path is a {type(path).__name__}; expected the name of a file, a str or a Path.")
    if not os.fspath(path):
        raise ValueError("path is empty; expected the name of a file.")
    target = Path(path)
    if target.is_dir():
        raise ValueError(f"path={str(target)!r} is a folder; expected the name of a file in it.")
    if not target.parent.is_dir():
        raise ValueError(f"path={str(target)!r}: there is no folder {str(target.parent)!r}; make it first.")
    if not os.access(target if target.exists() else target.parent, os.W_OK):
        raise ValueError(f"path={str(target)!r} cannot be written to; choose another place.")
    return target


def _page(estimator: Any) -> str:
    title = f"{type(estimator).__name__}: {_count(estimator.n_features_in_, 'node')}"
    with drawing_style():
        sections = [
            _headline(estimator),
            _given(estimator),
            _network_pictures(estimator),
            _uncertain_pairs(estimator),
            _inferred_links(estimator),
            _theta(estimator),
            _trust(estimator),
            _settings(estimator),
        ]
    from . import __version__

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
<style>{_STYLE}</style>
</head>
<body>
<main>
{"".join(sections)}
</main>
<footer>Written by sklearn_graphid {escape(__version__)}.</footer>
</body>
</html>
"""


def _headline(estimator: Any) -> str:
    known, adjacency = estimator.known_edges_, estimator.adjacency_
    rows, columns = known.unknown_pairs()
    n_links = int(adjacency[rows, columns].sum())
    n_uncertain = len(_uncertain(estimator))
    numbers = [
        (estimator.n_features_in_, "nodes"),
        (int(np.triu(adjacency).sum()), "links in all"),
        (n_links, f"of {_count(len(rows), 'unknown pair')} inferred to be links"),
        (n_uncertain, f"of these pairs uncertain, between {1 - _CERTAIN:.0%} and {_CERTAIN:.0%}"),
    ]
    tiles = "".join(f"<li><b>{number}</b>{escape(label)}</li>" for number, label in numbers)
    filter_name = shortened(repr(estimator.filter_), _LONGEST_SETTING)
    return (
        f"<h1>An identified network</h1>"
        f'<p class="lead">{escape(type(estimator).__name__)} with {escape(filter_name)}</p>'
        f'<ul class="numbers">{tiles}</ul>{_notes(estimator)}'
    )


def _notes(estimator: Any) -> str:
    heads = {"trouble": "Read with care", "caution": "Read with care", "good": "Agreement of the chains"}
    return "".join(
        f'<div class="note {severity}"><strong>{heads[severity]}</strong>{escape(text[:1].upper() + text[1:])}</div>'
        for severity, text in estimator._findings()
    )


def _given(estimator: Any) -> str:
    known = estimator.known_edges_
    n_pairs = known.n_nodes * (known.n_nodes - 1) // 2
    n_known = n_pairs - known.n_unknown
    n_outputs = len(estimator._output_nodes)
    measured = estimator._n_measured / (estimator._n_pairs * n_outputs)
    facts = [
        ("Nodes", str(known.n_nodes)),
        ("Input-output pairs", str(estimator._n_pairs)),
        ("Outputs", f"at {_count(n_outputs, 'node')}, {_percent(measured)} of them measured"),
        ("Known pairs", f"{n_known} of {n_pairs} ({_percent(n_known / max(1, n_pairs))})"),
        ("Known links", str(int(np.triu(known.values).sum()))),
        ("Filter", shortened(repr(estimator.filter_), _LONGEST_SETTING)),
        ("Prior", _prior(estimator)),
        ("Noise", _noise(estimator)),
    ]
    rows = "".join(f'<tr><th>{escape(name)}</th><td class="name">{escape(value)}</td></tr>' for name, value in facts)
    return f'<h2>What was given</h2><div class="scroll"><table id="given"><tbody>{rows}</tbody></table></div>'


def _prior(estimator: Any) -> str:
    parameters = estimator.get_params(deep=False)
    if "prior" not in parameters:
        return "none"
    if parameters["prior"] is None:
        return "pairs are independent, with the known pairs' share of links"
    return shortened(" ".join(repr(parameters["prior"]).split()), _LONGEST_SETTING)


def _noise(estimator: Any) -> str:
    level = _number(estimator.noise_std_)
    if estimator.get_params(deep=False).get("noise_std") is not None and hasattr(estimator, "noise_std_samples_"):
        return f"standard deviation {level}, as given"
    if len(getattr(estimator, "noise_std_samples_", ())) > 1:
        low, high = estimator.noise_std_interval(_LEVEL)
        return f"standard deviation {level}, estimated ({_LEVEL:.0%} between {_number(low)} and {_number(high)})"
    return f"standard deviation {level}, estimated"


def _uncertain(estimator: Any) -> npt.NDArray[np.intp]:
    """Unknown pairs (n, 2) that could well be decided otherwise, the most uncertain first."""
    pairs = np.column_stack(estimator.known_edges_.unknown_pairs())
    probabilities = estimator.edge_probabilities_[tuple(pairs.T)]
    order = np.argsort(np.abs(probabilities - 0.5), kind="stable")
    is_open = (probabilities > 1 - _CERTAIN) & (probabilities < _CERTAIN)
    chosen: npt.NDArray[np.intp] = pairs[order[is_open[order]]]
    return chosen


def _uncertain_pairs(estimator: Any) -> str:
    pairs = _uncertain(estimator)
    head = "<h2>Uncertain links, the most uncertain first</h2>"
    if not len(pairs):
        return f"{head}<p>None: every unknown pair is beyond {1 - _CERTAIN:.0%} or {_CERTAIN:.0%}.</p>"
    rest = len(pairs) - _MOST_UNCERTAIN
    more = f"<p>And {_count(rest, 'more pair')}.</p>" if rest > 0 else ""
    if "monte_carlo_error_edges" in _diagnostics(estimator):
        head = f"{head}<p>Give or take what another run would find, with another seed.</p>"
    return f"{head}{_pair_table(estimator, pairs[:_MOST_UNCERTAIN], 'uncertain')}{more}"


def _inferred_links(estimator: Any) -> str:
    pairs = np.argwhere(np.triu(estimator.adjacency_ * ~estimator.known_edges_.mask))
    pairs = pairs[np.argsort(-estimator.edge_probabilities_[tuple(pairs.T)], kind="stable")]
    rest = len(pairs) - _MOST_LINKS
    more = f"<p>And {_count(rest, 'more link')}.</p>" if rest > 0 else ""
    table = _pair_table(estimator, pairs[:_MOST_LINKS], "links")
    return f"<details><summary>All {_count(len(pairs), 'inferred link')}</summary>{table}{more}</details>"


def _pair_table(estimator: Any, pairs: Iterable[Sequence[int]], identity: str) -> str:
    names = node_names(estimator)
    errors = _diagnostics(estimator).get("monte_carlo_error_edges")
    is_sampled = hasattr(estimator, "theta_samples_")
    rows = []
    for i, j in pairs:
        probability = float(estimator.edge_probabilities_[i, j])
        error = "" if errors is None or np.isnan(errors[i, j]) else f" ± {errors[i, j]:.2f}"
        verdict = "link" if estimator.adjacency_[i, j] else "no link"
        rows.append(
            f'<tr><td class="name">{escape(names[i])}</td><td class="name">{escape(names[j])}</td>'
            f'<td class="number">{probability:.2f}{error}</td>'
            f'<td><span class="bar"><span style="width:{100 * probability:.0f}%"></span></span></td>'
            f"<td>{verdict}</td></tr>"
        )
    head = (
        f'<tr><th>Node</th><th>Node</th><th class="number">{"Probability" if is_sampled else "Weight"}</th>'
        f"<th></th><th>Decided</th></tr>"
    )
    return (
        f'<div class="scroll"><table id="{identity}"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _theta(estimator: Any) -> str:
    names = estimator.filter_.parameter_names()
    columns: list[tuple[str, list[str]]] = [("Estimate", [_number(value) for value in estimator.theta_])]
    if len(getattr(estimator, "theta_samples_", ())) > 1:
        intervals = [f"{_number(low)} to {_number(high)}" for low, high in estimator.theta_interval(_LEVEL)]
        columns.append((f"{_LEVEL:.0%} interval", intervals))
        columns.append(("Spread", [_number(value) for value in estimator.theta_std_]))
    if hasattr(estimator, "theta_refitted_"):
        columns.append(("Refitted", [_number(value) for value in estimator.theta_refitted_]))
        columns.append(("Standard error", [_number(value) for value in estimator.theta_standard_error_]))
    head = "".join(f'<th class="number">{title}</th>' for title, _ in columns)
    cells = ["".join(f'<td class="number">{values[row]}</td>' for _, values in columns) for row in range(len(names))]
    rows = "".join(
        f'<tr><th class="name">{escape(name)}</th>{row}</tr>' for name, row in zip(names, cells, strict=True)
    )
    words = (
        "<p>Refitted: by maximum likelihood on the network above. Its standard error takes that network for granted; "
        "the interval and the spread, where there are some, do not.</p>"
    )
    words = words if hasattr(estimator, "theta_refitted_") else ""
    return (
        f'<h2>Parameters of the filter</h2><div class="scroll"><table id="theta"><thead><tr><th>Parameter</th>'
        f"{head}</tr></thead><tbody>{rows}</tbody></table></div>{words}{_theta_picture(estimator, names)}"
    )


def _trust(estimator: Any) -> str:
    diagnostics = _diagnostics(estimator)
    if "log_likelihood" not in diagnostics:
        return _single_answer(diagnostics)
    n_kept, n_steps = diagnostics["log_likelihood"].shape
    facts = [
        ("Chains", f"{n_kept} kept of {estimator.n_chains}", "each from its own random start"),
        ("Diverged", str(diagnostics["n_diverged"]), "numbers became infinite; dropped"),
        ("Stuck", str(diagnostics["n_stuck"]), "in a network far less probable than another chain's; dropped"),
        ("Pairs another run would change", _number(diagnostics["n_changes_expected"]), "expected, with another seed"),
        (
            "R-hat of the parameters",
            _number(np.max(diagnostics["r_hat_theta"])),
            "the largest; near 1 where every chain has seen everything, larger for short chains that agree on average",
        ),
        (
            "Effective sample size",
            _number(np.min(diagnostics["effective_sample_size_theta"])),
            "of the parameters, the smallest; so many independent draws the chains are worth",
        ),
    ]
    rows = "".join(
        f'<tr><th>{escape(name)}</th><td class="number">{escape(value)}</td><td class="name">{escape(words)}</td></tr>'
        for name, value, words in facts
    )
    caption = (
        "Every thin line is a chain. Chains that have found the answer lie on top of one another and no longer drift."
    )
    picture = _figure(lambda: draw_traces(estimator), "Traces of the chains", caption) if n_steps > 1 else ""
    return (
        f'<h2>How far to trust it</h2><div class="scroll"><table id="diagnostics"><tbody>{rows}</tbody></table></div>'
        f"{picture}"
    )


def _single_answer(diagnostics: Mapping[str, Any]) -> str:
    words = "<p>This is one answer without a spread: the weights rank the pairs but are no probabilities.</p>"
    picture = ""
    if "loss" in diagnostics and np.ndim(diagnostics["loss"]) == 1:
        caption = "The loss at every step. Where it still falls at the end, more steps are needed."
        picture = _figure(lambda: draw_loss(diagnostics["loss"]), "Loss", caption)
    return f"<h2>How far to trust it</h2>{words}{picture}"


def _diagnostics(estimator: Any) -> Mapping[str, Any]:
    diagnostics: Mapping[str, Any] = getattr(estimator, "diagnostics_", {})
    return diagnostics


def _settings(estimator: Any) -> str:
    rows = "".join(
        f'<tr><th>{escape(name)}</th><td class="setting">'
        f"{escape(shortened(' '.join(repr(value).split()), _LONGEST_SETTING))}</td></tr>"
        for name, value in estimator.get_params(deep=False).items()
    )
    return (
        f'<details><summary>All settings</summary><div class="scroll"><table id="settings"><tbody>{rows}</tbody>'
        f"</table></div></details>"
    )


def _network_pictures(estimator: Any) -> str:
    network = _figure(
        lambda: draw_network(estimator),
        "The network",
        "Known links are grey, inferred ones blue, and the wider the more probable.",
    )
    matrix = _figure(
        lambda: draw_matrix(estimator),
        "The adjacency matrix",
        "Every pair of nodes: known ones grey or white, unknown ones the darker the more probable.",
    )
    return f'<h2>What was found</h2><div class="pictures">{network}{matrix}</div>'


def _theta_picture(estimator: Any, names: Sequence[str]) -> str:
    if len(getattr(estimator, "theta_samples_", ())) < 2:
        return ""
    caption = f"Draws of every parameter, their {_LEVEL:.0%} intervals and the estimates."
    return _figure(lambda: draw_theta(estimator, names, _LEVEL), "Posterior of the parameters", caption)


def _figure(draw: Callable[[], Figure], title: str, caption: str) -> str:
    return (
        f'<figure><img alt="{escape(title)}" src="{encoded(draw)}"><figcaption>{escape(caption)}</figcaption></figure>'
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _percent(share: float) -> str:
    # Not all is not all, however little is missing.
    return f"{100 * share:.0f}%" if share in (0.0, 1.0) else f"{np.clip(100 * share, 0.1, 99.9):.3g}%"


def _number(value: float) -> str:
    if np.isnan(value):
        return "unknown"
    if np.isinf(value):
        return "not determined"
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")
