"""How time and memory grow with the size of the network and the number of chains.

    python benchmarks/bench_scaling.py

Random networks of average degree four, half of the pairs unknown, a second-order polynomial filter, ten experiments,
Langevin dynamics under the shipped prior "grids" (whose network takes graphs of any size), on two cores where there are
chains for both. Then whole default fits, sweeps included, under a prior of independent pairs, as none is shipped for
such networks. Every case runs in a process of its own, so that its peak memory can be told apart.
"""

from __future__ import annotations

import resource
import time
from typing import Any

import networkx as nx
import numpy as np
from _results import command_line, in_own_process, publish, table
from joblib.externals.loky import get_reusable_executor

from sklearn_graphid import LangevinSystemIdentifier, System, load_prior
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.metrics import edge_f1_score

N_STEPS = 10
N_JOBS = 2


def make_case(n_nodes: int) -> System:
    """A random network, half of it known, with ten experiments."""
    graph = nx.to_numpy_array(nx.gnm_random_graph(n_nodes, 2 * n_nodes, seed=0))
    X, Y = make_system(graph, "polynomial", theta=[0.05, 0.08, -0.05], n_experiments=10, random_state=0)
    return System(X, Y, hide_edges(graph, 0.5, random_state=0), true_adjacency=graph)


def peak_gigabytes() -> float:
    """The most memory that this process held, plus that of the largest worker for each worker there may be."""
    get_reusable_executor().shutdown(wait=True)  # the system tells of children that have ended
    own, largest = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return float((own + N_JOBS * largest) / 1024**2)


def measure_default(n_nodes: int, n_chains: int) -> dict[str, Any]:
    """Time and peak memory of a whole fit by the default sampler, which needs no prior for it."""
    system = make_case(n_nodes)
    identifier = LangevinSystemIdentifier("polynomial", n_chains=n_chains, random_state=0)
    start = time.perf_counter()
    identifier.fit(system.X, system.Y, system.known_mask)
    return {
        "nodes": n_nodes,
        "chains": n_chains,
        "seconds_of_a_default_fit": time.perf_counter() - start,
        "f1": edge_f1_score(system.true_adjacency, identifier.adjacency_, system.known_mask),
        "peak_gigabytes": peak_gigabytes(),
    }


def measure(n_nodes: int, n_chains: int) -> dict[str, Any]:
    """Time per chain-step and peak memory of one short run."""
    system = make_case(n_nodes)
    settings: dict[str, Any] = {"n_levels": 1, "sigma_max": 0.5, "sigma_min": 0.5, "noise_std": 1.0, "random_state": 0}
    identifier = LangevinSystemIdentifier(
        "polynomial",
        load_prior("grids"),
        n_sweeps=0,
        n_chains=n_chains,
        n_steps=1,
        n_jobs=N_JOBS,
        **settings,
    )
    identifier.fit(system.X, system.Y, system.known_mask)  # the workers are up now
    identifier.set_params(n_steps=N_STEPS)
    start = time.perf_counter()
    identifier.fit(system.X, system.Y, system.known_mask)
    seconds = time.perf_counter() - start
    return {
        "nodes": n_nodes,
        "chains": n_chains,
        "unknown_pairs": system.known_mask.n_unknown,
        "milliseconds_per_chain_step": 1e3 * seconds / (N_STEPS * n_chains),
        "peak_gigabytes": peak_gigabytes(),
    }


def growth(rows: list[dict[str, Any]], n_chains: int) -> float:
    """Exponent of the time per chain-step in the number of nodes, by a line through the logarithms."""
    points = [(r["nodes"], r["milliseconds_per_chain_step"]) for r in rows if r["chains"] == n_chains]
    nodes, times = np.log(np.array(points)).T
    return float(np.polyfit(nodes, times, 1)[0])


def show(steps: list[dict[str, Any]], fits: list[dict[str, Any]]) -> str:
    """Both tables for people, and what the first one comes to."""
    head = ["chains", "nodes", "unknown pairs", "ms per chain-step", "peak GB"]
    names = "chains", "nodes", "unknown_pairs", "milliseconds_per_chain_step", "peak_gigabytes"
    parts = [table(head, [[row[name] for name in names] for row in steps], ".2f")]
    for n_chains in dict.fromkeys(row["chains"] for row in steps):
        parts.append(f"With {n_chains} chains the time grows as the nodes to the power {growth(steps, n_chains):.2f}.")
    head = ["chains", "nodes", "seconds of a default fit", "F1", "peak GB"]
    names = "chains", "nodes", "seconds_of_a_default_fit", "f1", "peak_gigabytes"
    fitted = table(head, [[row[name] for name in names] for row in fits], ["", "", ".1f", ".3f", ".2f"])
    return "\n\n".join([*parts, fitted])


def main() -> None:
    """Read the command line."""
    arguments = command_line(__doc__, quick="two sizes, four chains").parse_args()
    sizes = (25, 50) if arguments.quick else (25, 50, 100, 200, 400)
    chain_counts = (4,) if arguments.quick else (1, 16, 64)
    steps = [in_own_process(measure, n_nodes, n_chains) for n_chains in chain_counts for n_nodes in sizes]
    fits = [in_own_process(measure_default, n_nodes, 4) for n_nodes in sizes]
    publish("scaling_quick" if arguments.quick else "scaling", show(steps, fits), steps + fits)


if __name__ == "__main__":
    main()
