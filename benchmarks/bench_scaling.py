"""How time and memory grow with the size of the network and the number of chains.

    python benchmarks/bench_scaling.py

Random networks of average degree four, half of the pairs unknown, a second-order polynomial filter, ten pairs, Langevin
dynamics under the shipped prior "grids" (whose network takes graphs of any size). Every case runs in a process of its
own, so that its peak memory can be told apart.
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

from sklearn_graphid import LangevinSystemIdentifier, load_prior
from sklearn_graphid.datasets import hide_edges, make_system

RESULTS = Path(__file__).parent / "results"
N_STEPS = 10


def measure(n_nodes: int, n_chains: int) -> dict[str, Any]:
    """Time per chain-step and peak memory of one short run."""
    warnings.simplefilter("ignore")
    graph = nx.to_numpy_array(nx.gnm_random_graph(n_nodes, 2 * n_nodes, seed=0))
    X, Y = make_system(graph, "polynomial", theta=[0.05, 0.08, -0.05], n_pairs=10, random_state=0)
    known = hide_edges(graph, 0.5, random_state=0)
    settings: dict[str, Any] = {"n_levels": 1, "sigma_max": 0.5, "sigma_min": 0.5, "noise_std": 1.0, "random_state": 0}
    identifier = LangevinSystemIdentifier(
        "polynomial",
        load_prior("grids"),
        algorithm="langevin",
        n_chains=n_chains,
        n_steps=N_STEPS,
        n_jobs=2,
        **settings,
    )
    start = time.perf_counter()
    identifier.fit(X, Y, known)
    seconds = time.perf_counter() - start
    return {
        "nodes": n_nodes,
        "chains": n_chains,
        "unknown_pairs": known.n_unknown,
        "milliseconds_per_chain_step": 1e3 * seconds / (N_STEPS * n_chains),
        "peak_gigabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2,
    }


def measure_apart(n_nodes: int, n_chains: int) -> dict[str, Any]:
    """The same in a process of its own."""
    code = f"import json; from bench_scaling import measure; print(json.dumps(measure({n_nodes}, {n_chains})))"
    output = subprocess.run([sys.executable, "-c", code], cwd=Path(__file__).parent, capture_output=True, check=True)
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
    rows = [measure_apart(n_nodes, n_chains) for n_chains in chain_counts for n_nodes in sizes]
    lines = ["| chains | nodes | unknown pairs | ms per chain-step | peak GB |", "|---|---|---|---|---|"]
    for row in rows:
        step, memory = f"{row['milliseconds_per_chain_step']:.2f}", f"{row['peak_gigabytes']:.2f}"
        lines.append(f"| {row['chains']} | {row['nodes']} | {row['unknown_pairs']} | {step} | {memory} |")
    for n_chains in chain_counts:
        lines.append(f"\nWith {n_chains} chains the time grows as the nodes to the power {growth(rows, n_chains):.2f}.")
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / ("scaling_quick" if arguments.quick else "scaling")
    stem.with_suffix(".md").write_text("\n".join(lines) + "\n")
    stem.with_suffix(".json").write_text(json.dumps(rows, indent=2) + "\n")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
