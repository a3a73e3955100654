"""Sentences and numbers of a report about the data, the settings and the next experiment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import config_context

from ..filters import ARMAFilter, CallableFilter, HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from ..plotting._names import shortened
from ..priors import GraphPriorScore
from ..priors._shipped import shipped_name
from ..priors._surprise import deviations_in_words

if TYPE_CHECKING:
    from ..identifiers import BaseSystemIdentifier

__all__ = [
    "LEVEL",
    "LONGEST_SETTING",
    "are_probabilities",
    "count",
    "edges_in_words",
    "experiment_in_words",
    "filter_in_words",
    "filter_settings",
    "has_noise_per_node",
    "has_strengths",
    "known_strengths_in_words",
    "node_names",
    "noise_in_words",
    "number",
    "percent",
    "prior_in_words",
    "prior_mismatch",
    "prior_surprise",
    "strengths_in_words",
]

LEVEL = 0.9
LONGEST_SETTING = 300
# Noise below this share of the outputs' root mean square was not measured: samplers draw no less than a tenth of it.
_SMALLEST_NOISE = 1e-5
_MOST_NAMES, _LONGEST_NAME = 12, 40


def are_probabilities(estimator: BaseSystemIdentifier) -> bool:
    """Whether `edge_probabilities_` are probabilities (from posterior draws or calibrated on the known pairs)."""
    return hasattr(estimator, "theta_samples_") or bool(getattr(estimator, "diagnostics_", {}).get("calibrated"))


def has_strengths(estimator: BaseSystemIdentifier) -> bool:
    """Whether edges have strengths, and are not all alike."""
    return hasattr(estimator, "weights_")


def has_noise_per_node(estimator: BaseSystemIdentifier) -> bool:
    """Whether the noise level differs from node to node."""
    return bool(np.ptp(getattr(estimator, "noise_std_per_node_", [0.0])) > 0)


def edges_in_words(estimator: BaseSystemIdentifier) -> str:
    """Describe what the model assumes about edges."""
    known = estimator.known_edges_
    if not has_strengths(estimator):
        return "edges have no strength" if known.directed else "edges have neither direction nor strength"
    signs = "of either sign" if estimator._params_at_fit.get("edge_weights") == "signed" else "above zero"
    return f"every edge has a strength of its own, {signs}" + ("" if known.directed else ", and no direction")


def strengths_in_words(estimator: BaseSystemIdentifier) -> str:
    """What the numbers of strengths are, and in which unit."""
    if not hasattr(estimator, "weights_std_"):
        return "Strengths are in the units of the data."
    words = "Strength is the mean over the draws that contain the edge, spread their standard deviation."
    if estimator.known_edges_.has_weights:
        return f"{words} Strengths are in the unit of the known strengths."
    is_signed = estimator._params_at_fit.get("edge_weights") == "signed"
    unit = "width of their distribution" if is_signed else "geometric mean of all strengths"
    return (
        f"{words} No strength is known, so strengths are in units of the {unit}, and the parameters of the filter set "
        f"the scale."
    )


def known_strengths_in_words(estimator: BaseSystemIdentifier) -> str:
    """How many of the known edges came with a strength."""
    known = estimator.known_edges_
    return f"{known.edges_with_weight().n_free} of {count(known.edges().n_free, 'known edge')}"


def node_names(estimator: BaseSystemIdentifier) -> list[str]:
    """The nodes as they are called, or their numbers; a name of blanks only is in quotes, so that it can be seen."""
    names = [str(name) for name in estimator.node_names_]
    return [name if name.strip() else repr(name) for name in names]


def filter_in_words(filter: Any) -> str:
    """What the filter is; the name of its class if it does not come with the package."""
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


def filter_settings(filter: Any) -> str:
    """The filter's class and all its settings."""
    # All of them: those that were left alone say what it is, no less than those that were not.
    with config_context(print_changed_only=False):
        return shortened(" ".join(repr(filter).split()), LONGEST_SETTING)


def prior_surprise(estimator: BaseSystemIdentifier) -> float | None:
    """How far the known part lies from a learned prior's graphs; None where there is no such prior."""
    prior = getattr(estimator, "prior_", None)
    return prior.surprise(estimator.known_edges_) if isinstance(prior, GraphPriorScore) else None


def prior_in_words(estimator: BaseSystemIdentifier, surprise: float | None) -> str:
    """Describe the prior of the graph; `surprise` is the result of `prior_surprise`."""
    words = _prior_itself_in_words(estimator, surprise)
    trust = getattr(estimator, "prior_trust_", 1.0)
    is_learned = surprise is not None
    if trust == 1 and not is_learned:
        return words
    source = "estimated" if estimator._params_at_fit["prior_trust"] == "sample" else "as given"
    return f"{words}; trust in the prior {trust:.2f}, {source} (1 is full trust, 0 is none)"


def _prior_itself_in_words(estimator: BaseSystemIdentifier, surprise: float | None) -> str:
    parameters = estimator._params_at_fit
    if "prior" not in parameters:
        return "none"
    if parameters["prior"] is None:
        return "pairs are independent, and the share of edges among the unknown ones is estimated"
    prior = estimator.prior_
    if not isinstance(prior, GraphPriorScore) or surprise is None:
        return shortened(" ".join(repr(parameters["prior"]).split()), LONGEST_SETTING)
    smallest, largest = prior.size_range_
    name = shipped_name(prior)
    source = type(prior).__name__ if name is None else f'the prior "{name}", which comes with the package'
    learned = f"learned from graphs of {smallest} to {largest} nodes ({source})"
    if np.isnan(surprise):
        return learned
    return f"{learned}; the known part lies {deviations_in_words(surprise)} away from them (up to 3 is usual)"


def prior_mismatch(estimator: BaseSystemIdentifier, surprise: float | None) -> str:
    """Say why the prior may not apply; empty if it may. `surprise` is the result of `prior_surprise`."""
    prior = getattr(estimator, "prior_", None)
    if prior is None or not (reason := prior.mismatch(estimator.known_edges_, surprise)):
        return ""
    return (
        f"The graph does not look like those that the prior has learned from: {reason}. The prior may not apply. "
        f"Compare with a fit without it."
    )


def noise_in_words(estimator: BaseSystemIdentifier) -> str:
    """Describe the noise level, its source, and its share of the outputs."""
    level = f"standard deviation {number(estimator.noise_std_)}"
    samples = getattr(estimator, "noise_std_samples_", ())
    if len(samples) and not isinstance(estimator._params_at_fit["noise_std"], str | None):
        source = "as given"
    elif len(samples) > 1:
        low, high = estimator.noise_std_interval(LEVEL)
        source = f"estimated ({LEVEL:.0%} between {number(low)} and {number(high)})"
    else:
        source = "estimated"
    power = estimator._output_power
    share = min(1.0, estimator.noise_std_**2 / power) if power > 0 else 1.0
    return f"{level}, {source}; it makes up {percent(share)} of the outputs' mean square"


def experiment_in_words(estimator: BaseSystemIdentifier) -> str:
    """Describe the most informative experiment with inputs as large as those so far; empty without several draws."""
    size = estimator._largest_input
    if len(getattr(estimator, "theta_samples_", ())) < 2 or size == 0:
        return ""
    box: dict[str, Any] = {"low": -size, "high": size, "random_state": 0}
    single, full = estimator.suggest_inputs(max_nonzero=1, **box), estimator.suggest_inputs(**box)
    by_single, by_full = (float(estimator.information_gain(x)[0]) for x in (single, full))
    if by_full == 0:
        return (
            "The draws agree on all outputs: no experiment within the range of the inputs so far would be informative."
        )
    names, x = [shortened(name, _LONGEST_NAME) for name in node_names(estimator)], np.asarray(full)[0]
    # An input and its negative tell the same, so that the sign that fewer nodes have is called positive.
    is_raised = x > 0 if 2 * (x > 0).sum() <= len(x) else x < 0
    raised = [names[node] for node in np.flatnonzero(is_raised)]
    rest = f" and {len(raised) - _MOST_NAMES} more" if len(raised) > _MOST_NAMES else ""
    at_nodes = (
        f"positive at {', '.join(raised[:_MOST_NAMES])}{rest}, negative elsewhere" if raised else "all of one sign"
    )
    node = names[int(np.abs(np.asarray(single)[0]).argmax())]
    return (
        f"The most informative next experiment, with inputs of up to {number(size)} in size, as so far: {at_nodes}; "
        f"{number(by_full)} nats expected. With one driven node: {node}; {number(by_single)} nats."
    )


def count(n_things: int, noun: str) -> str:
    """A number of things, in the singular or the plural."""
    return f"{n_things} {noun}{'' if n_things == 1 else 's'}"


def percent(share: float) -> str:
    """A share in percent."""
    # Not all is not all, however little is missing.
    return f"{100 * share:.0f}%" if share in (0.0, 1.0) else f"{np.clip(100 * share, 0.1, 99.9):.3g}%"


def number(value: float) -> str:
    """Three digits, or words where there is no number."""
    if np.isnan(value):
        return "unknown"
    if np.isinf(value):
        return "not determined"
    return f"{value:.3g}".replace("-", "\N{MINUS SIGN}")
