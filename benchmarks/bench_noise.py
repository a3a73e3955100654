"""Does better data ever hurt? F1, chains that were dropped, and the noise found, as the noise falls.

    python benchmarks/bench_noise.py --zip path/to/deezer_ego_nets.zip

Ego-nets with heat and half of the pairs unknown, grids with a second-order polynomial and a quarter unknown, both with
their shipped priors; the karate club with heat and the topology of the IEEE 30-bus grid with a steady state, 30%
unknown and no prior. Ten experiments, 50 on the 30-bus grid; the noise is not told. On the same graph every noise level
has the same inputs, hidden pairs and, up to its scale, the same noise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from _results import all_fitted, command_line, publish, table
from bench_paper import unseen_graphs

from sklearn_graphid import LangevinSystemIdentifier, System, identify_many, load_prior
from sklearn_graphid.datasets import hide_edges, make_system

NOISE = (1.0, 0.3, 0.1, 0.03, 0.01)
LINES_OF_30_BUSES = (
    "1-2 1-3 2-4 3-4 2-5 2-6 4-6 5-7 6-7 6-8 6-9 6-10 9-11 9-10 4-12 12-13 12-14 12-15 12-16 14-15 16-17 15-18 18-19 "
    "19-20 10-20 10-17 10-21 10-22 21-22 15-23 22-24 23-24 24-25 25-26 25-27 28-27 27-29 27-30 29-30 8-28 6-28"
)


class Family(NamedTuple):
    """A kind of systems."""

    filter: str
    theta: tuple[float, float]  # the range of every parameter
    n_parameters: int
    prior: str | None
    unknown: float
    n_experiments: int
    input_scale: float


FAMILIES = {
    "ego-nets": Family("heat", (0.3, 0.7), 1, "deezer-ego-nets", 0.5, 10, 10.0),
    "grids": Family("polynomial", (-0.1, 0.1), 3, "grids", 0.25, 10, 10.0),
    "karate club": Family("heat", (0.3, 0.7), 1, None, 0.3, 10, 10.0),
    "30 buses": Family("steady-state", (1.0, 1.0), 1, None, 0.3, 50, 1.0),
}


def graphs_of(family: str, n_graphs: int, zip_path: str | None) -> list[np.ndarray]:
    """Graphs that no prior was trained on, or the same one again and again."""
    if family == "karate club":
        return [nx.to_numpy_array(nx.karate_club_graph(), weight=None)] * n_graphs
    if family == "30 buses":
        lines = [tuple(map(int, line.split("-"))) for line in LINES_OF_30_BUSES.split()]
        return [nx.to_numpy_array(nx.Graph(lines), nodelist=range(1, 31))] * n_graphs
    return unseen_graphs("grids" if family == "grids" else "deezer", n_graphs, zip_path, development=False)


def make_systems(name: str, noise_std: float, n_graphs: int, zip_path: str | None) -> list[System]:
    """Systems whose seeds do not depend on the noise."""
    family, systems = FAMILIES[name], []
    for index, graph in enumerate(graphs_of(name, n_graphs, zip_path)):
        theta = np.random.default_rng(index).uniform(*family.theta, family.n_parameters)
        X, Y = make_system(
            graph,
            family.filter,
            theta,
            family.n_experiments,
            input_scale=family.input_scale,
            noise_std=noise_std,
            random_state=index,
        )
        known = hide_edges(graph, family.unknown, random_state=index)
        systems.append(System(X, Y, known, true_adjacency=graph, true_theta=theta))
    return systems


def bench(name: str, noise_std: float, n_graphs: int, zip_path: str | None, n_jobs: int) -> dict[str, Any]:
    """A row of the table."""
    family = FAMILIES[name]
    prior = None if family.prior is None else load_prior(family.prior)
    identifier = LangevinSystemIdentifier(family.filter, prior, random_state=0)
    frame = all_fitted(identify_many(identifier, make_systems(name, noise_std, n_graphs, zip_path), n_jobs))
    return {
        "family": name,
        "noise": noise_std,
        "graphs": n_graphs,
        "F1": float(frame["edge_f1"].mean()),
        "standard error": float(frame["edge_f1"].std() / np.sqrt(n_graphs)),
        "ECE": float(frame["edge_calibration_error"].mean()),
        "dropped": float(frame["n_stuck"].mean()),
        "origins": float(frame["n_origins"].mean()),
        "noise found over true": float(frame["noise_std"].median() / noise_std),
        "within 10 %": float((np.abs(frame["noise_std"] / noise_std - 1) < 0.1).mean()),
        "seconds": float(frame["seconds"].mean()),
    }


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="one family, two graphs, two noise levels", n_jobs=True, deezer=True)
    parser.add_argument("--n-graphs", type=int, default=30)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    arguments = parser.parse_args()
    name, noise = "noise", NOISE
    if arguments.quick:
        name, arguments.n_graphs, arguments.families, noise = "noise_quick", 2, ["30 buses"], (0.1, 0.01)
    rows = []
    for family in arguments.families:
        for noise_std in noise:
            rows.append(bench(family, noise_std, arguments.n_graphs, arguments.zip_path, arguments.n_jobs))
            print({key: round(value, 3) if isinstance(value, float) else value for key, value in rows[-1].items()})
    publish(name, table(rows[0], [row.values() for row in rows]), rows)


if __name__ == "__main__":
    main()
