"""Simulated graphs whose edges have strengths: which edges are found, how well calibrated, and how strong are they?

    python benchmarks/bench_strengths.py --zip path/to/deezer_ego_nets.zip

Grids with a quarter of the pairs unknown and ego-nets with half, under their shipped priors; strengths are log-normal
(sigma 0.5), and half of the known edges come with theirs, which gives strengths a unit. Ten experiments. "all alike" is
the sampler without strengths on the same data; and on graphs whose edges are alike, "strengths for nothing" shows what
it costs to look for strengths that are not there. The error of calibration (ECE) is that of the pairs of all graphs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from _results import all_fitted, command_line, publish, table
from bench_paper import unseen_graphs

from sklearn_graphid import KnownEdges, LangevinSystemIdentifier, System, identify_many, load_prior
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.metrics import edge_calibration_error

SIGMA = 0.5  # of the logarithms of strengths
N_EXPERIMENTS = 10
LEVEL = 0.9  # of the intervals of strengths


class Family(NamedTuple):
    """A kind of graphs."""

    graphs: str
    prior: str
    unknown: float


FAMILIES = {"grids": Family("grids", "grids", 0.25), "ego-nets": Family("deezer", "deezer-ego-nets", 0.5)}
# theta of each filter. Inputs are up to 10 and the noise is 1, as in the paper.
FILTERS = {"polynomial": [0.05, 0.08, -0.03], "heat": [0.5], "steady-state": [1.0]}
METHODS: dict[str, dict[str, Any]] = {
    "strengths": {"edge_weights": "positive"},
    "all alike": {},
    "strengths for nothing": {"edge_weights": "positive"},
    "all alike, as they are": {},
}


def make_case(graph: np.ndarray, filter: str, unknown: float, method: str, seed: int) -> tuple[System, np.ndarray]:
    """A system, and its strengths."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.lognormal(0, SIGMA, graph.shape) * graph, 1)
    weights = graph if method in ("strengths for nothing", "all alike, as they are") else upper + upper.T
    X, Y = make_system(weights, filter, FILTERS[filter], N_EXPERIMENTS, random_state=seed)
    known = hide_edges(graph, unknown, random_state=seed)
    if method.startswith("strengths"):
        is_told = np.triu(rng.random(graph.shape) < 0.5, 1)
        told = np.where(is_told | is_told.T, weights, np.nan)
        known = KnownEdges(known.mask, known.values, weights=told)
    return System(X, Y, known, true_adjacency=graph, name=str(seed)), weights


def coverage(fitted: Any, weights: np.ndarray) -> list[bool]:
    """For each edge that was found and has an unknown strength: does its interval hold the true one?"""
    low, high = np.moveaxis(fitted.weight_interval(LEVEL), -1, 0)
    is_asked = np.triu((weights != 0) & (fitted.weights_std_ > 0), 1)
    return ((low <= weights) & (weights <= high))[is_asked].tolist()


def bench(family: str, filter: str, method: str, n_graphs: int, zip_path: str | None, n_jobs: int) -> dict[str, Any]:
    """A row of the table."""
    kind, settings = FAMILIES[family], METHODS[method]
    graphs = unseen_graphs(kind.graphs, n_graphs, zip_path, development=False)
    cases = [make_case(graph, filter, kind.unknown, method, seed) for seed, graph in enumerate(graphs)]
    identifier = LangevinSystemIdentifier(filter, load_prior(kind.prior), random_state=0, **settings)
    frame = all_fitted(identify_many(identifier, [system for system, _ in cases], n_jobs, keep_estimators=True))
    fits = list(zip(frame["estimator"], cases, strict=True))
    covered = [is_inside for fitted, (_, weights) in fits if settings for is_inside in coverage(fitted, weights)]
    pooled = zip(
        *((case.true_adjacency, fit.edge_probabilities_, fit.known_edges_) for fit, (case, _) in fits), strict=True
    )
    return {
        "graphs": family,
        "filter": filter,
        "method": method,
        "number": n_graphs,
        "F1": float(frame["edge_f1"].mean()),
        "standard error": float(frame["edge_f1"].std() / np.sqrt(n_graphs)),
        "ECE": edge_calibration_error(*map(list, pooled)),
        "coverage of 90% intervals": float(np.mean(covered)) if covered else None,
        "seconds": float(frame["seconds"].mean()),
    }


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="two grids, a steady state", n_jobs=True, deezer=True)
    parser.add_argument("--n-graphs", type=int, default=30)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    parser.add_argument("--filters", nargs="+", choices=list(FILTERS), default=list(FILTERS))
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--output", default="strengths", help="the name of the files of results")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.output, arguments.n_graphs = "strengths_quick", 2
        arguments.families, arguments.filters = ["grids"], ["steady-state"]
    rows = []
    for family in arguments.families:
        for filter in arguments.filters:
            for method in arguments.methods:
                rows.append(bench(family, filter, method, arguments.n_graphs, arguments.zip_path, arguments.n_jobs))
                print({key: round(value, 3) if isinstance(value, float) else value for key, value in rows[-1].items()})
                publish(arguments.output, table(rows[0], [row.values() for row in rows]), rows)


if __name__ == "__main__":
    main()
