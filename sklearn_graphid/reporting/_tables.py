"""Tables of pairs and of outputs in a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from ._facts import are_probabilities, node_names, number

if TYPE_CHECKING:
    from ..identifiers import BaseSystemIdentifier

__all__ = ["diagnostics_of", "output_table", "pair_table"]


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
    rows = []
    for i, j in pairs:
        first, second = (j, i) if directed else (i, j)  # a row of the matrix receives
        probability = float(estimator.edge_probabilities_[i, j])
        error = "" if errors is None or np.isnan(errors[i, j]) else f" ± {errors[i, j]:.2f}"
        verdict = "edge" if estimator.adjacency_[i, j] else "no edge"
        rows.append(
            f'<tr><td class="name">{escape(names[first])}</td><td class="name">{escape(names[second])}</td>'
            f'<td class="number">{probability:.2f}{error}</td>'
            f'<td><span class="bar"><span style="width:{100 * probability:.0f}%"></span></span></td>'
            f"<td>{verdict}</td>{_strength_cells(estimator, i, j) if with_strengths else ''}</tr>"
        )
    kind = "Probability" if are_probabilities(estimator) else "Weight"
    ends = ("From", "To") if directed else ("Node", "Node")
    more = ["Strength", *(["Spread"] if hasattr(estimator, "weights_std_") else [])] if with_strengths else []
    more_heads = "".join(f'<th class="number">{title}</th>' for title in more)
    head = (
        f'<tr><th>{ends[0]}</th><th>{ends[1]}</th><th class="number">{kind}</th><th></th><th>Decided</th>'
        f"{more_heads}</tr>"
    )
    return (
        f'<div class="scroll"><table id="{identity}"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'
    )


def _strength_cells(estimator: BaseSystemIdentifier, i: int, j: int) -> str:
    values = [estimator.weights_[i, j]]
    if hasattr(estimator, "weights_std_"):
        values.append(estimator.weights_std_[i, j])
    return "".join(f'<td class="number">{number(float(value))}</td>' for value in values)


def output_table(columns: Mapping[str, Sequence[Any]], n_rows: int) -> str:
    """The first outputs of the table that `suspect_outputs` gives."""
    names = ("row", "node"), ("output", "predicted")
    rows = []
    for place in range(min(n_rows, len(columns["row"]))):
        texts = "".join(f'<td class="name">{escape(str(columns[name][place]))}</td>' for name in names[0])
        values = "".join(f'<td class="number">{number(float(columns[name][place]))}</td>' for name in names[1])
        probability = f'<td class="number">{columns["probability"][place]:.2f}</td>'
        rows.append(f"<tr>{texts}{values}{probability}</tr>")
    head = (
        '<tr><th>Row</th><th>Node</th><th class="number">Output</th><th class="number">Predicted</th>'
        '<th class="number">Probability</th></tr>'
    )
    return f'<div class="scroll"><table id="outliers"><thead>{head}</thead><tbody>{"".join(rows)}</tbody></table></div>'
