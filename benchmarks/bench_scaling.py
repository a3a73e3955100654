"""How time and memory grow with the size of the network and the number of chains.

    python benchmarks/bench_scaling.py

Random networks of average degree four, half of the pairs unknown, a second-order polynomial filter, ten experiments,
Langevin dynamics under the shipped prior "grids" (whose network takes graphs of any size), on two cores where there are
chains for both. Then whole default fits, sweeps included, under a prior of independent pairs, as none is shipped for
such networks. Every case runs in a process of its own, so that its peak memory can be told apart.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from joblib.externals.loky import get_reusable_executor

from sklearn_graphid import LangevinSystemIdentifier, load_prior
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.metrics import edge_f1_score

RESULTS = Path(__file__).parent / "results"
N_STEPS = 10
N_JOBS = 2


def make_case(n_nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, Any]:
    """A random network, half of it known, with ten experiments."""
    warnings.simplefilter("ignore")
    graph = nx.to_numpy_array(nx.gnm_random_graph(n_nodes, 2 * n_nodes, seed=0))
    X, Y = make_system(graph, "polynomial", theta=[0.05, 0.08, -0.05], n_experiments=10, random_state=0)
    return graph, X, Y, hide_edges(graph, 0.5, random_state=0)


def peak_gigabytes() -> float:
    """The most memory that this process held, plus that of the largest worker for each worker there may be."""
    get_reusable_executor().shutdown(wait=True)  # the system tells of children that have ended
    own, largest = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return float((own + N_JOBS * largest) / 1024**2)


def measure_default(n_nodes: int, n_chains: int) -> dict[str, Any]:
    """Time and peak memory of a whole fit by the default sampler, which needs no prior for it."""
    graph, X, Y, known = make_case(n_nodes)
    start = time.perf_counter()
    identifier = LangevinSystemIdentifier("polynomial", n_chains=n_chains, random_state=0).fit(X, Y, known)
    return {
        "nodes": n_nodes,
        "chains": n_chains,
        "seconds_of_a_default_fit": time.perf_counter() - start,
        "f1": edge_f1_score(graph, identifier.adjacency_, known),
        "peak_gigabytes": peak_gigabytes(),
    }


def measure(n_nodes: int, n_chains: int) -> dict[str, Any]:
    """Time per chain-step and peak memory of one short run."""
    _, X, Y, known = make_case(n_nodes)
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
    identifier.fit(X, Y, known)  # the workers are up now
    identifier.set_params(n_steps=N_STEPS)
    start = time.perf_counter()
    identifier.fit(X, Y, known)
    seconds = time.perf_counter() - start
    return {
        "nodes": n_nodes,
        "chains": n_chains,
        "unknown_pairs": known.n_unknown,
        "milliseconds_per_chain_step": 1e3 * seconds / (N_STEPS * n_chains),
        "peak_gigabytes": peak_gigabytes(),
    }


def apart(function: str, n_nodes: int, n_chains: int) -> dict[str, Any]:
    """What one of the functions above measures, in a process of its own."""
    paths = [str(Path(__file__).parent), *sys.path]
    call = f"print(json.dumps(bench_scaling.{function}({n_nodes}, {n_chains})))"
    code = f"import json, sys; sys.path[:0] = {paths!r}; import bench_scaling; {call}"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    row: dict[str, Any] = json.loads(output.stdout)
    return row


def growth(rows: list[dict[str, Any]], n_chains: int) -> float:
    """Exponent of the time per chain-step in the number of nodes, by a line through the logarithms."""
    points = [(r["nodes"], r["milliseconds_per_chain_step"]) for r in rows if r["chains"] == n_chains]
    nodes, times = np.log(np.array(points)).T
    return float(np.polyfit(nodes, times, 1)[0])


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="two sizes, four chains")
    arguments = parser.parse_args()
    sizes = (25, 50) if arguments.quick else (25, 50, 100, 200, 400)
    chain_counts = (4,) if arguments.quick else (1, 16, 64)
    rows = [apart("measure", n_nodes, n_chains) for n_chains in chain_counts for n_nodes in sizes]
    lines = ["| chains | nodes | unknown pairs | ms per chain-step | peak GB |", "|---|---|---|---|---|"]
    for row in rows:
        step, memory = f"{row['milliseconds_per_chain_step']:.2f}", f"{row['peak_gigabytes']:.2f}"
        lines.append(f"| {row['chains']} | {row['nodes']} | {row['unknown_pairs']} | {step} | {memory} |")
    for n_chains in chain_counts:
        lines.append(f"\nWith {n_chains} chains the time grows as the nodes to the power {growth(rows, n_chains):.2f}.")
    whole = [apart("measure_default", n_nodes, 4) for n_nodes in sizes]
    lines += ["\n| chains | nodes | seconds of a default fit | F1 | peak GB |", "|---|---|---|---|---|"]
    for row in whole:
        cells = f"{row['seconds_of_a_default_fit']:.1f} | {row['f1']:.3f} | {row['peak_gigabytes']:.2f}"
        lines.append(f"| {row['chains']} | {row['nodes']} | {cells} |")
    rows += whole
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / ("scaling_quick" if arguments.quick else "scaling")
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    stem.with_suffix(".json").write_text(json.dumps(rows, indent=2) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
