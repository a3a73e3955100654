"""Default fits with every filter against enumeration: are edge probabilities right, and do fits warn if they are not?

    python benchmarks/bench_filters.py

Systems have five nodes and 5 to 9 unknown pairs, 2 to 10 experiments, and noise of a tenth of the outputs up to as much
as the outputs. Density, theta and the noise level are unknown, and all settings are the defaults. With so few pairs all
graphs can be tried, and what is unknown beside the graph goes out by integration, which gives the exact probability of
every pair. A perfect sampler, which draws as many graphs as the fit keeps from the enumerated posterior, shows how much
of the error is chance.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from _exact_posterior import Array, Posterior, SmallSystem, enumerate_graphs, have_steady_states, heat_law
from _results import command_line, publish, table
from joblib import Parallel, delayed
from scipy.stats import norm

from sklearn_graphid import LangevinSystemIdentifier, System
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import ARMAFilter, HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter

SEED = 20_180_418
FILTERS: dict[str, PolynomialFilter | HeatDiffusionFilter | SteadyStateFilter | ARMAFilter] = {
    "order one": PolynomialFilter(1),
    "order two": PolynomialFilter(2),
    "heat": HeatDiffusionFilter(),
    "steady state": SteadyStateFilter(),
    "steady state, ground": SteadyStateFilter(ground=0),
    "steady state, leak": SteadyStateFilter(leak=0.5),
    "ARMA(1, 0)": ARMAFilter(1, 0),
}
N_NODES, TRUE_DENSITY = 5, 0.4
OUTPUT_RMS = 5.0  # in the middle of what the grid of noise levels holds
THETA_STD = 0.5  # of the true parameters, where the filter has no prior of its own
BEYOND = 0.3  # an error that misleads
SURE = 0.95
N_PERFECT = 20  # repetitions of a perfect sampler


def make_default_case(name: str, index: int) -> System:
    """Draw a graph, theta, the number of experiments, what is known and the noise level, and simulate."""
    filter, number = FILTERS[name], 100 + list(FILTERS).index(name)
    rng = np.random.default_rng([SEED, number, index])
    adjacency = _random_graph(rng)
    while not have_steady_states(filter, adjacency[None])[0]:
        adjacency = _random_graph(rng)
    law = heat_law(filter) if isinstance(filter, HeatDiffusionFilter) else norm(0, THETA_STD)
    theta = law.ppf(rng.random(filter.n_parameters()) * law.cdf(HeatDiffusionFilter().theta_max))
    known = hide_edges(adjacency, rng.uniform(0.5, 0.9), random_state=int(rng.integers(2**31)))
    seed, n_experiments = int(rng.integers(2**31)), int(rng.integers(2, 11))
    X, exact = make_system(adjacency, filter, theta, n_experiments, noise_std=0, random_state=seed)
    scale = OUTPUT_RMS / np.sqrt((exact**2).mean())
    noise_std = OUTPUT_RMS * float(np.exp(rng.uniform(*np.log((0.1, 1.0)))))
    Y = scale * exact + noise_std * rng.normal(size=exact.shape)
    labels = {"true_noise_std": noise_std, "filter": name}
    return System(scale * X, Y, known, true_adjacency=adjacency, true_theta=theta, labels=labels)


def _random_graph(rng: np.random.Generator) -> Array:
    upper = np.triu(rng.random((N_NODES, N_NODES)) < TRUE_DENSITY, 1)
    return (upper | upper.T).astype(float)


def exact_posterior(system: System) -> Posterior:
    """Return the posterior by enumeration; the density of the pairs and the noise level are unknown."""
    known, filter = system.known_mask, FILTERS[(system.labels or {})["filter"]]
    return enumerate_graphs(
        SmallSystem(filter, system.X, system.Y, known, np.zeros(known.n_unknown), has_unknown_density=True)
    )


def compare(name: str, index: int) -> dict[str, Any]:
    """One default fit, and what it should have found."""
    system = make_default_case(name, index)
    exact = exact_posterior(system)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = LangevinSystemIdentifier(FILTERS[name], random_state=index).fit(system.X, system.Y, system.known_mask)
    unknown, n_draws = system.known_mask.unknown_pairs(), len(fitted.theta_samples_)
    perfect = (
        np.random.default_rng([SEED, index]).multinomial(n_draws, exact.probability, size=N_PERFECT)
        @ exact.bits
        / n_draws
    )
    return {
        "filter": name,
        "system": index,
        "edges": system.true_adjacency[unknown].astype(int).tolist(),
        "edge_probabilities": fitted.edge_probabilities_[unknown].tolist(),
        "exact": exact.marginals.tolist(),
        "perfect_error": float(np.abs(perfect - exact.marginals).mean()),
        "warnings": [str(warning.message) for warning in caught],
    }


def summarise(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Errors, and how many fits of each filter mislead, with and without a warning."""
    for name in dict.fromkeys(line["filter"] for line in lines):
        members = [line for line in lines if line["filter"] == name]
        found, exact, edges = (
            np.concatenate([line[part] for line in members]) for part in ("edge_probabilities", "exact", "edges")
        )
        largest = np.array([np.abs(np.subtract(line["edge_probabilities"], line["exact"])).max() for line in members])
        is_warned = np.array([bool(line["warnings"]) for line in members])
        sure, wrong = sure_and_wrong(found, edges)
        exact_sure, exact_wrong = sure_and_wrong(exact, edges)
        yield {
            "filter": name,
            "systems": len(members),
            "mean": float(np.abs(found - exact).mean()),
            "perfect_mean": float(np.mean([line["perfect_error"] for line in members])),
            "largest": float(largest.max()),
            "beyond": int((largest > BEYOND).sum()),
            "beyond_without_warning": int(((largest > BEYOND) & ~is_warned).sum()),
            "warned": int(is_warned.sum()),
            "sure": sure,
            "sure_and_wrong": wrong,
            "exact_sure": exact_sure,
            "exact_sure_and_wrong": exact_wrong,
        }


def sure_and_wrong(probabilities: Array, edges: Array) -> tuple[int, int]:
    """How many pairs are all but certain, and how many of these are not what they seem."""
    is_sure = np.maximum(probabilities, 1 - probabilities) > SURE
    return int(is_sure.sum()), int((is_sure & ((probabilities > 0.5) != edges)).sum())


def show(rows: list[dict[str, Any]]) -> str:
    """A table for people."""
    head = ["filter", "mean error", "perfect sampler", "largest error", f"fits with an error beyond {BEYOND}"]
    head += ["of these without a warning", "fits that warned", "sure pairs", "of these wrong"]
    head += ["sure pairs, exact", "of these wrong, exact"]
    columns = ("filter", "mean", "perfect_mean", "largest", "beyond", "beyond_without_warning", "warned", "sure")
    columns += ("sure_and_wrong", "exact_sure", "exact_sure_and_wrong")
    return f"""\
{rows[0]["systems"]} systems of five nodes for each filter, fitted with default settings. Errors are those of the edge
probabilities, against enumeration. A pair is sure with a probability above {SURE} or below {1 - SURE:.2f}. The last
columns are those of the exact posterior: it too is wrong more often than it says where true systems differ from what
its priors expect, such as coefficients of a polynomial that are close to zero.

{table(head, ([row[column] for column in columns] for row in rows), ["", *[".3f"] * 3, *[""] * 7])}"""


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="five systems for each filter", n_jobs=True)
    parser.add_argument("--n-systems", type=int, default=120, help="systems for each filter")
    parser.add_argument("--filters", nargs="+", default=list(FILTERS), choices=FILTERS, metavar="FILTER")
    arguments = parser.parse_args()
    if arguments.n_systems < 1:
        parser.error("--n-systems should be at least 1")
    name, n_systems = ("filters_quick", 5) if arguments.quick else ("filters", arguments.n_systems)
    cases = [delayed(compare)(filter, index) for filter in arguments.filters for index in range(n_systems)]
    lines = Parallel(n_jobs=arguments.n_jobs)(cases)
    rows = list(summarise(lines))
    publish(name, show(rows), rows)


if __name__ == "__main__":
    main()
