"""Known pairs that are wrong: does `suspect_known_pairs` name them, and does a fit warn of them and of nothing else?

    python benchmarks/bench_suspects.py --zip path/to/deezer_ego_nets.zip

One known pair of every system is given wrongly: an edge as absent, or an absent edge as an edge, in turn. The same
systems with all known pairs right show how often a fit warns for nothing. Power grids have strengths, of which none is
known, and the DC power flow of pandapower with 1 % of noise; grids and ego-nets are binary, with a noise level of 1 for
inputs of up to 10, as in the paper, or 0.2 on ego-nets, where heat tells little of single pairs otherwise. A quarter of
the pairs is unknown, or half on ego-nets. 30 experiments, no prior.
"""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from _results import command_line, publish, table
from bench_paper import unseen_graphs

from sklearn_graphid import KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_power_grid, make_system
from sklearn_graphid.filters import SteadyStateFilter

N_EXPERIMENTS = 30
FAMILIES = ("case14", "case30", "grids", "ego-nets", "ego-nets, noise 1")
UNKNOWN = {"ego-nets": 0.5, "ego-nets, noise 1": 0.5}  # of the pairs; a quarter elsewhere


class Case(NamedTuple):
    """A system, and which of its known pairs is wrong."""

    X: np.ndarray
    Y: np.ndarray
    known: KnownEdges
    identifier: LangevinSystemIdentifier
    wrong: tuple[int, int] | None


def make_case(family: str, graph: np.ndarray | None, wrong: str, seed: int) -> Case:
    """A system of a family; `wrong` is "absent" for an edge given as absent, "edge" for the opposite, or "none"."""
    rng = np.random.default_rng(seed)
    if graph is None:
        grid = make_power_grid(family, N_EXPERIMENTS, random_state=seed)
        X, Y, graph = grid.X, grid.Y, grid.adjacency
        identifier = LangevinSystemIdentifier(
            SteadyStateFilter(ground=grid.ground), edge_weights="positive", random_state=seed
        )
    elif family == "grids":
        X, Y = make_system(graph, "polynomial", [-0.035, 0.097, -0.036], N_EXPERIMENTS, random_state=seed)
        identifier = LangevinSystemIdentifier("polynomial", random_state=seed)
    else:
        noise_std = 0.2 if family == "ego-nets" else 1.0
        X, Y = make_system(
            graph, "heat", [rng.uniform(0.3, 0.7)], N_EXPERIMENTS, noise_std=noise_std, random_state=seed
        )
        identifier = LangevinSystemIdentifier("heat", random_state=seed)
    known = hide_edges(graph, UNKNOWN.get(family, 0.25), random_state=seed)
    if wrong == "none":
        return Case(X, Y, known, identifier, None)
    candidates = np.argwhere(np.triu(known.mask & (known.values == (wrong == "absent")), 1))
    i, j = (int(node) for node in candidates[rng.integers(len(candidates))])
    values = known.values.copy()
    values[i, j] = values[j, i] = 1 - values[i, j]
    return Case(X, Y, KnownEdges(known.mask, values), identifier, (i, j))


def measure(family: str, graph: np.ndarray | None, wrong: str, seed: int) -> dict[str, Any]:
    """A row for one system."""
    case = make_case(family, graph, wrong, seed)
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted = case.identifier.fit(case.X, case.Y, case.known)
    between = time.perf_counter()
    suspects = fitted.suspect_known_pairs(1).iloc[0]
    row: dict[str, Any] = {"family": family, "seed": seed, "wrong": wrong}
    row["is_first"] = None if case.wrong is None else (suspects.source, suspects.target) == case.wrong
    row |= {"log_odds": float(suspects.log_odds), "fit": between - start}
    row["method"] = None if fitted._log_odds_wrong is not None else time.perf_counter() - between
    row["is_warned"] = any("contradict" in str(warning.message) for warning in caught)
    row["is_warned_otherwise"] = any("contradict" not in str(warning.message) for warning in caught)
    return row


def graphs_of(family: str, n_graphs: int, zip_path: str | None, development: bool) -> list[np.ndarray | None]:
    """Binary graphs of a family, or None for each power grid."""
    if family.startswith("case"):
        return [None] * n_graphs
    return list(unseen_graphs("grids" if family == "grids" else "deezer", n_graphs, zip_path, development))


def summary(family: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """A row of the table."""
    wrong = [row for row in rows if row["wrong"] != "none"]
    right = [row for row in rows if row["wrong"] == "none"]
    alone = [row["method"] for row in rows if row["method"] is not None]
    return {
        "systems": family,
        "one pair wrong": len(wrong),
        "it is first": float(np.mean([row["is_first"] for row in wrong])),
        "warned of it": float(np.mean([row["is_warned"] for row in wrong])),
        "no pair wrong": len(right),
        "warned of a pair": float(np.mean([row["is_warned"] for row in right])),
        "seconds of a fit, pair wrong": float(np.mean([row["fit"] for row in wrong])),
        "seconds of a fit, none wrong": float(np.mean([row["fit"] for row in right])),
        "seconds of the method after a fit without suspicion": float(np.mean(alone)) if alone else None,
    }


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="two grids", deezer=True)
    parser.add_argument("--n-systems", type=int, default=26, help="of each family")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--development", action="store_true", help="the systems that settings were chosen on")
    parser.add_argument("--output", default="suspects", help="the name of the files of results")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.output, arguments.n_systems, arguments.families = "suspects_quick", 2, ["grids"]
    rows: list[dict[str, Any]] = []
    lines = []
    for family in arguments.families:
        graphs = graphs_of(family, arguments.n_systems, arguments.zip_path, arguments.development)
        for number, graph in enumerate(graphs):
            seed = number + (1000 if arguments.development else 0)
            for wrong in (("absent", "edge")[number % 2], "none"):
                rows.append(measure(family, graph, wrong, seed))
        lines.append(summary(family, [row for row in rows if row["family"] == family]))
        publish(arguments.output, table(lines[0], [line.values() for line in lines]), rows)


if __name__ == "__main__":
    main()
