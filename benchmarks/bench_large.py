"""Large graphs: what a default fit costs and finds, beside Adam and ridge regression.

    python benchmarks/bench_large.py

Random graphs of average degree four; no prior but the density of the known pairs. Inputs are uniform in [-10, 10] with
noise of one, but for the steady state, whose inputs are uniform in [-1, 1] with noise of 0.1. Every fit runs in a
process of its own, so that its peak memory can be told apart; nothing runs beside it but its own workers.
"""

from __future__ import annotations

import resource
import time
from typing import Any, NamedTuple

import networkx as nx
from _results import command_line, in_own_process, publish, table
from joblib.externals.loky import get_reusable_executor

from sklearn_graphid import AdamSystemIdentifier, LangevinSystemIdentifier, RidgeSystemIdentifier, System
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.metrics import edge_f1_score


class Case(NamedTuple):
    """A system to identify."""

    filter: str
    theta: tuple[float, ...]
    n_nodes: int
    n_unknown: int
    n_experiments: int
    input_scale: float
    noise_std: float
    n_chains: int


POLYNOMIAL = (0.05, 0.08, -0.05)
CASES = [
    Case("heat", (0.5,), 100, 500, 10, 10.0, 1.0, 16),
    Case("polynomial", POLYNOMIAL, 400, 39_900, 10, 10.0, 1.0, 4),
    Case("polynomial", POLYNOMIAL, 1000, 25_000, 20, 10.0, 1.0, 4),
    Case("steady-state", (1.0,), 1000, 25_000, 50, 1.0, 0.1, 4),
]


def make_case(case: Case) -> System:
    """The system; a steady state needs a connected graph."""
    graph = nx.gnm_random_graph(case.n_nodes, 2 * case.n_nodes, seed=0)
    if case.filter == "steady-state":
        graph = nx.connected_watts_strogatz_graph(case.n_nodes, 4, 0.3, seed=0)
    adjacency = nx.to_numpy_array(graph)
    data: dict[str, Any] = {"input_scale": case.input_scale, "noise_std": case.noise_std, "random_state": 0}
    X, Y = make_system(adjacency, case.filter, case.theta, case.n_experiments, **data)
    n_pairs = case.n_nodes * (case.n_nodes - 1) / 2
    return System(X, Y, hide_edges(adjacency, case.n_unknown / n_pairs, random_state=0), true_adjacency=adjacency)


def identifier_of(method: str, case: Case) -> Any:
    """What is fitted."""
    if method == "ours":
        return LangevinSystemIdentifier(case.filter, n_chains=case.n_chains, n_jobs=2, random_state=0)
    return AdamSystemIdentifier(case.filter, random_state=0) if method == "adam" else RidgeSystemIdentifier(case.filter)


def measure(method: str, case: Case) -> dict[str, Any]:
    """Time, peak memory and F1 of one fit."""
    system, identifier = make_case(case), identifier_of(method, case)
    start = time.perf_counter()
    identifier.fit(system.X, system.Y, system.known_mask)
    seconds = time.perf_counter() - start
    get_reusable_executor().shutdown(wait=True)  # the system tells of children that have ended
    own, largest = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    n_workers = 2 if method == "ours" and case.n_chains > 8 else 0
    return {
        "filter": case.filter,
        "nodes": case.n_nodes,
        "unknown pairs": case.n_unknown,
        "experiments": case.n_experiments,
        "method": method,
        "chains": case.n_chains if method == "ours" else None,
        "seconds": seconds,
        "peak GB": (own + n_workers * largest) / 1024**2,
        "F1": float(edge_f1_score(system.true_adjacency, identifier.adjacency_, system.known_mask)),
    }


def main() -> None:
    """Read the command line."""
    arguments = command_line(__doc__, quick="one small graph").parse_args()
    cases = [CASES[1]._replace(n_nodes=50, n_unknown=600)] if arguments.quick else CASES
    rows = []
    for case in cases:
        for method in ("ours", "adam", "ridge"):
            rows.append(in_own_process(measure, method, case))
            print(rows[-1], flush=True)
    forms = ["", "", "", "", "", "", ".1f", ".2f", ".3f"]
    publish(
        "large_quick" if arguments.quick else "large", table(list(rows[0]), [r.values() for r in rows], forms), rows
    )


if __name__ == "__main__":
    main()
