"""Tables of pairs and of outputs in a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from ._facts import are_probabilities, node_names, number

if TYPE_CHECKING:
    from ..graphs import EdgeSpace
    from ..identifiers import BaseSystemIdentifier

__all__ = ["diagnostics_of", "number_cell", "output_table", "pair_table", "suspect_table", "table"]


def diagnostics_of(estimator: BaseSystemIdentifier) -> Mapping[str, Any]:
    """What the method tells of itself; nothing for one that tells nothing."""
    diagnostics: Mapping[str, Any] = getattr(estimator, "diagnostics_", {})
    return diagnostics


def pair_table(
    estimator: BaseSystemIdentifier, pairs: Iterable[Sequence[int]], identity: str, with_strengths: bool = False
) -> str:
    """Pairs (i, j) with their probability and what was decided, and where asked with their strengths."""
    names, directed = node_names(estimator), estimator.known_edges_.directed
    errors = diagnostics_of(estimator).get("monte_carlo_error_edges")
    kind = "Probability" if are_probabilities(estimator) else "Weight"
    ends = ("From", "To") if directed else ("Node", "Node")
    labels = ends if directed else ("", "")
    rows = []
    for i, j in pairs:
        first, second = (j, i) if directed else (i, j)  # a row of the matrix receives
        probability = float(estimator.edge_probabilities_[i, j])
        error = "" if errors is None or np.isnan(errors[i, j]) else f" ± {errors[i, j]:.2f}"
        verdict = "edge" if estimator.adjacency_[i, j] else "no edge"
        rows.append(
            f"<tr>{_name_cell(names[first], labels[0])}{_name_cell(names[second], labels[1])}"
            f"{number_cell(f'{probability:.2f}{error}', kind)}"
            f'<td class="picture"><span class="bar"><span style="width:{100 * probability:.0f}%"></span></span></td>'
            f"<td>{verdict}</td>{_strength_cells(estimator, i, j) if with_strengths else ''}</tr>"
        )
    more = ["Strength", *(["Spread"] if hasattr(estimator, "weights_std_") else [])] if with_strengths else []
    more_heads = "".join(f'<th class="number">{title}</th>' for title in more)
    head = (
        f'<tr><th>{ends[0]}</th><th>{ends[1]}</th><th class="number">{kind}</th><th></th><th>Decided</th>'
        f"{more_heads}</tr>"
    )
    return table(identity, rows, head)


def table(identity: str, rows: Iterable[str], head: str = "") -> str:
    """A table of these rows, which a small screen shows as paragraphs."""
    heading, body = f"<thead>{head}</thead>" if head else "", "".join(rows)
    return f'<div class="scroll"><table id="{identity}" class="stack">{heading}<tbody>{body}</tbody></table></div>'


def suspect_table(estimator: BaseSystemIdentifier, pairs: EdgeSpace, places: Sequence[int]) -> str:
    """Known pairs, by their places among `pairs`, with their log-odds of being wrong."""
    names, log_odds = node_names(estimator), estimator._log_odds_wrong
    sources, targets = pairs.sources_and_targets()
    given = pairs.gather(estimator.known_edges_.values)
    rows = [
        f"<tr>{_name_cell(names[sources[place]])}{_name_cell(names[targets[place]])}"
        f'<td data-label="Given as">{"edge" if given[place] else "no edge"}</td>'
        f"{number_cell(f'{log_odds[place]:.1f}', 'Log-odds of being wrong')}</tr>"
        for place in places
    ]
    ends = ("From", "To") if pairs.directed else ("Node", "Node")
    head = (
        f'<tr><th>{ends[0]}</th><th>{ends[1]}</th><th>Given as</th><th class="number">Log-odds of being wrong</th></tr>'
    )
    return table("suspects", rows, head)


def _strength_cells(estimator: BaseSystemIdentifier, i: int, j: int) -> str:
    values = {"Strength": estimator.weights_[i, j]}
    if hasattr(estimator, "weights_std_"):
        values["Spread"] = estimator.weights_std_[i, j]
    return "".join(number_cell(number(float(value)), label) for label, value in values.items())


def _name_cell(name: str, label: str = "") -> str:
    attribute = f' data-label="{label}"' if label else ""
    return f'<td class="name"{attribute}>{escape(name)}</td>'


def number_cell(value: str, label: str) -> str:
    """A number, with the heading of its column for small screens, which show no headings."""
    return f'<td class="number" data-label="{label}">{value}</td>'


def output_table(columns: Mapping[str, Sequence[Any]], n_rows: int) -> str:
    """The first outputs of the table that `suspect_outputs` gives."""
    rows = []
    for row, node, output, predicted, probability in islice(zip(*columns.values(), strict=True), n_rows):
        names = _name_cell(str(row)) + _name_cell(str(node))
        numbers = number_cell(number(float(output)), "Output") + number_cell(number(float(predicted)), "Predicted")
        rows.append(f"<tr>{names}{numbers}{number_cell(f'{probability:.2f}', 'Probability')}</tr>")
    head = (
        '<tr><th>Row</th><th>Node</th><th class="number">Output</th><th class="number">Predicted</th>'
        '<th class="number">Probability</th></tr>'
    )
    return table("outliers", rows, head)
