"""Diagnostics of the chains: whether their average is reliable, and what to change if it is not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._utils._findings import Finding
from ..graphs import KnownEdges
from ..samplers import bulk_sample_size, chain_standard_error, expected_changes, modes_of, rank_r_hat
from ._chains import BATCH
from ._draws import ChainDraws

__all__ = ["diagnose", "mixing_findings"]

# R-hat is no ground for a warning: that of the log-likelihood of sixteen short chains may exceed 1.1 while their
# average is good to a pair. What another run would change is what matters to the user, and this share of the inferred
# edges is what a warning leaves alone.
_TOLERATED_CHANGES = 0.1
# Where chains go back to no more starts than this share of their number, few of the starts were any good.
_FEWEST_ORIGINS = 1 / 8
# Beyond this, chains are no remedy.
_MOST_CHAINS = 256


def diagnose(draws: ChainDraws, known: KnownEdges, n_diverged: int, n_stuck: int) -> dict[str, Any]:
    """The diagnostics of chains that were kept."""
    parameters = np.moveaxis(draws.theta, -1, 0)
    edge_error = chain_standard_error(draws.edge_probability, draws.weight)
    return {
        "n_diverged": n_diverged,
        "n_stuck": n_stuck,
        "n_origins": len(np.unique(draws.origin)),
        "n_modes": len(np.unique(modes_of(draws.edge_probability, draws.log_likelihood.shape[1]))),
        "chain_weights": draws.weight,
        "n_changes_expected": expected_changes(draws.mean_of_chains(draws.edge_probability), edge_error),
        "monte_carlo_error_edges": np.where(known.mask, 0.0, known.fill(edge_error)),
        "monte_carlo_error_theta": chain_standard_error(draws.theta.mean(1), draws.weight),
        "r_hat_log_likelihood": rank_r_hat(draws.log_likelihood),
        "r_hat_theta": np.array([rank_r_hat(draw) for draw in parameters]),
        "effective_sample_size_log_likelihood": bulk_sample_size(draws.log_likelihood),
        "effective_sample_size_theta": np.array([bulk_sample_size(draw) for draw in parameters]),
        "sigma": draws.trace_sigma,
        "kernel": draws.trace_kernel,
        "log_likelihood": draws.trace_log_likelihood,
        "theta": draws.trace_theta,
    }


def mixing_findings(diagnostics: Mapping[str, Any], n_inferred: int, remedy: str) -> list[Finding]:
    """Explain the diagnostics of a fit in sentences, with advice on what to change.

    Parameters
    ----------
    diagnostics : dict
        Those of `diagnose`.
    n_inferred : int
        How many of the unknown pairs were found to be edges.
    remedy : str
        What helps where the chains disagree, by the kernel that made the draws.
    """
    findings = []
    if diagnostics["n_diverged"]:
        findings.append(_diverged(diagnostics))
    if 2 * diagnostics["n_stuck"] > _n_chains(diagnostics):
        findings.append(_stuck(diagnostics))
    elif diagnostics["n_origins"] <= max(1, _FEWEST_ORIGINS * (n_kept := len(diagnostics["log_likelihood"]))) < n_kept:
        findings.append(_few_origins(diagnostics))
    findings.append(_changes(diagnostics, n_inferred, remedy))
    return findings


def _n_chains(diagnostics: Mapping[str, Any]) -> int:
    """How many chains were run, those that were dropped included."""
    return len(diagnostics["log_likelihood"]) + int(diagnostics["n_diverged"]) + int(diagnostics["n_stuck"])


def _diverged(diagnostics: Mapping[str, Any]) -> Finding:
    # However large the step, pairs are clipped at every level; only the filter can give infinite numbers.
    reason = "diverged and were dropped, as the filter gave outputs that are infinite or nan."
    counts = f"{diagnostics['n_diverged']} of {_n_chains(diagnostics)} chains"
    return Finding.trouble(f"{counts} {reason}", ConvergenceWarning, f"some chains {reason}")


def _stuck(diagnostics: Mapping[str, Any]) -> Finding:
    # Neither more steps nor more chains help reliably here, so neither is advised.
    end = "ended in graphs far less probable than another chain's and were dropped"
    return Finding.trouble(
        f"{diagnostics['n_stuck']} of {_n_chains(diagnostics)} chains {end}. The others may be stuck too: if another "
        f"random_state gives another graph, do not trust probabilities near 0 and 1.",
        ConvergenceWarning,
        f"most chains {end}; compare with another random_state before you trust the graph.",
    )


def _few_origins(diagnostics: Mapping[str, Any]) -> Finding:
    n_origins, n_kept = diagnostics["n_origins"], len(diagnostics["log_likelihood"])
    end = "fell far behind others in the first sweeps and were restarted from the better ones"
    return Finding.trouble(
        f"{n_kept - n_origins} of {n_kept} chains {end}, so they agree more than independent chains would. If another "
        f"random_state gives another graph, do not trust probabilities near 0 and 1.",
        ConvergenceWarning,
        f"most chains {end}; compare with another random_state before you trust the graph.",
    )


def _changes(diagnostics: Mapping[str, Any], n_edges: int, remedy: str) -> Finding:
    n_changes = float(diagnostics["n_changes_expected"])
    if math.isnan(n_changes):
        text = "One chain does not show how much another run would differ, nor which edges are uncertain."
        return Finding("caution", f"{text} Fit with a larger n_chains.")
    found = f"{n_edges} inferred edge{'' if n_edges == 1 else 's'}"
    if n_changes < 0.5:
        return Finding("good", f"The chains agree: another run would find the same {found}.")
    n_pairs = max(1, round(n_changes))
    pairs = f"{n_pairs} pair{'' if n_pairs == 1 else 's'}"
    run = f"another run, with another random_state, would decide {pairs} differently (this run has {found})."
    tolerated = max(1.0, _TOLERATED_CHANGES * n_edges)
    if n_changes <= tolerated:
        return Finding("good", f"The chains nearly agree: {run}")
    advice = _advice(remedy, _n_chains(diagnostics), n_changes / tolerated)
    return Finding.trouble(
        f"the chains do not agree well enough to decide every pair: {run} {advice} If that does not help, the data do "
        f"not determine these pairs.",
        ConvergenceWarning,
        f"the chains disagree, and another run may decide some pairs differently; {remedy}.",
    )


def _advice(remedy: str, n_chains: int, excess: float) -> str:
    """The remedy as a sentence; where it is more chains, with their number."""
    # The error falls with the root of the number of chains.
    needed = min(BATCH * math.ceil(max(2.0, excess**2) * n_chains / BATCH), _MOST_CHAINS)
    sentence = remedy.replace("n_chains", f"n_chains from {n_chains} to {needed}", 1)
    return f"{sentence[:1].upper()}{sentence[1:]}; time grows in proportion."
