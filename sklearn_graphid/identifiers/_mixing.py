"""What the chains say about themselves: can their average be relied on, and what to change if not."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np

from .._known_edges import KnownEdges
from ..samplers import bulk_sample_size, chain_standard_error, expected_changes, rank_r_hat
from ._chains import BATCH, ChainDraws

__all__ = ["Finding", "diagnose", "diverged_advice", "mixing_findings"]

# R-hat is no ground for a warning: that of the log-likelihood of sixteen short chains may exceed 1.1 while their
# average is good to a pair. What another run would change is what matters to the user, and this share of the inferred
# links is what a warning leaves alone.
_TOLERATED_CHANGES = 0.1
# Beyond this, chains are no remedy.
_MOST_CHAINS = 256


class Finding(NamedTuple):
    """Something to know about a run: "trouble" is worth a warning, "caution" a remark, "good" is good."""

    severity: Literal["trouble", "caution", "good"]
    text: str


def diagnose(draws: ChainDraws, known: KnownEdges, n_diverged: int, n_stuck: int) -> dict[str, Any]:
    """The diagnostics of chains that were kept."""
    parameters = np.moveaxis(draws.theta, -1, 0)
    edge_error = chain_standard_error(draws.edge_probability)
    return {
        "n_diverged": n_diverged,
        "n_stuck": n_stuck,
        "n_changes_expected": expected_changes(draws.edge_probability.mean(0), edge_error),
        "monte_carlo_error_edges": np.where(known.mask, 0.0, known.fill(edge_error)),
        "monte_carlo_error_theta": chain_standard_error(draws.theta.mean(1)),
        "r_hat_log_likelihood": rank_r_hat(draws.log_likelihood),
        "r_hat_theta": np.array([rank_r_hat(draw) for draw in parameters]),
        "effective_sample_size_log_likelihood": bulk_sample_size(draws.log_likelihood),
        "effective_sample_size_theta": np.array([bulk_sample_size(draw) for draw in parameters]),
        "sigma": draws.trace_sigma,
        "log_likelihood": draws.trace_log_likelihood,
        "theta": draws.trace_theta,
    }


def mixing_findings(estimator: Any) -> list[Finding]:
    """What the diagnostics of a fitted estimator mean, in sentences; what is in trouble says what to change."""
    diagnostics = estimator.diagnostics_
    findings = []
    if diagnostics["n_diverged"]:
        findings.append(_diverged(estimator, diagnostics["n_diverged"]))
    if 2 * diagnostics["n_stuck"] > estimator.n_chains:
        findings.append(_stuck(estimator, diagnostics["n_stuck"]))
    findings.append(_changes(estimator, diagnostics["n_changes_expected"]))
    return findings


def diverged_advice(algorithm: str) -> str:
    """What to do about chains whose numbers became infinite."""
    if algorithm == "langevin":
        return "Use a smaller step_size; None derives it from the data."
    return "Bring X and Y to a common scale near one."


def _diverged(estimator: Any, n_diverged: int) -> Finding:
    text = f"{n_diverged} of {estimator.n_chains} chains diverged and were dropped."
    return Finding("trouble", f"{text} {diverged_advice(estimator.algorithm)}")


def _stuck(estimator: Any, n_stuck: int) -> Finding:
    return Finding(
        "trouble",
        f"{n_stuck} of {estimator.n_chains} chains ended in a network far less probable than another chain's and were "
        f"dropped. Raise n_steps from {estimator.n_steps} to {4 * estimator.n_steps}, or let the filter start nearer "
        f"to the truth by its initial_... arguments.",
    )


def _changes(estimator: Any, n_changes: float) -> Finding:
    n_links = int(np.triu(estimator.adjacency_ * ~estimator.known_edges_.mask).sum())
    if math.isnan(n_changes):
        text = "One chain cannot tell how far another run would differ, nor which links are uncertain."
        return Finding("caution", f"{text} Fit with a larger n_chains.")
    found = f"{n_links} inferred link{'' if n_links == 1 else 's'}"
    if n_changes < 0.5:
        return Finding("good", f"The chains agree: another run would find the same {found}.")
    n_pairs = max(1, round(n_changes))
    pairs = f"{n_pairs} pair{'' if n_pairs == 1 else 's'}"
    run = f"another run, with another random_state, would decide about {pairs} differently, with {found} in this one."
    tolerated = max(1.0, _TOLERATED_CHANGES * n_links)
    if n_changes <= tolerated:
        return Finding("good", f"The chains nearly agree: {run}")
    return Finding(
        "trouble",
        f"the chains do not agree well enough to decide every pair: {run} {_remedy(estimator, n_changes / tolerated)} "
        f"If that does not help, these pairs are open, and only more data or a prior that fits will tell.",
    )


def _remedy(estimator: Any, excess: float) -> str:
    # The error falls with the root of the number of chains, and with the root of their length once they are long.
    factor = min(excess**2, 64.0)
    n_chains = BATCH * math.ceil(max(2 * estimator.n_chains, factor * estimator.n_chains) / BATCH)
    n_steps = max(2 * estimator.n_steps, math.ceil(factor * estimator.n_steps))
    longer = f"n_steps from {estimator.n_steps} to {n_steps}"
    if estimator.algorithm == "langevin":  # a chain gives one draw, however long it is
        return f"Raise n_chains from {estimator.n_chains} to {min(n_chains, _MOST_CHAINS)}."
    if n_chains > _MOST_CHAINS:
        return f"Raise {longer}."
    return f"Raise n_chains from {estimator.n_chains} to {n_chains}, or {longer}; time grows in proportion."
