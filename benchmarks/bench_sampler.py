"""How fast the sampler is: steps per second of its two parts, and the time of a default fit on one core and on two.

    python benchmarks/bench_sampler.py

A step of "Langevin" moves all unknown pairs of one chain once; a step of "sweeps" redraws one pair of one chain. The
published implementation does about 10 Langevin steps per second at 49 nodes and 25 at 16, on a machine with two cores.
Eight chains are a batch, which one core runs; with 16 chains, the default, both have work.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import networkx as nx
from _results import command_line, publish, table
from sklearn.base import clone

from sklearn_graphid import LangevinSystemIdentifier, System, load_prior
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system

N_EXPERIMENTS = 10
PUBLISHED_STEPS_PER_SECOND = {49: 10, 20: 25}


class Case(NamedTuple):
    """A system, and what the sampler is told of its process and its graph."""

    system: System
    filter: str
    prior: Any


def make_case(n_nodes: int) -> Case:
    """The paper's grid at 49 nodes, and an ego-net with heat at 20."""
    if n_nodes == 49:
        graph = make_grid_graphs(1, min_nodes=49, random_state=1)[0]
        name, filter, theta, fraction = "grids", "polynomial", [0.05, 0.08, -0.05], 0.25
    else:
        hub = nx.powerlaw_cluster_graph(n_nodes - 1, 2, 0.6, seed=0)
        hub.add_edges_from((n_nodes - 1, node) for node in range(n_nodes - 1))
        graph, name, filter, theta, fraction = nx.to_numpy_array(hub), "deezer-ego-nets", "heat", [0.5], 0.5
    X, Y = make_system(graph, filter, theta=theta, n_experiments=N_EXPERIMENTS, random_state=0)
    return Case(System(X, Y, hide_edges(graph, fraction, random_state=0)), filter, load_prior(name))


def seconds_of_fits(identifiers: Sequence[Any], system: System, n_repeats: int) -> list[float]:
    """Best of several fits of each; the machine's other work only ever adds to it.

    They take turns, so that what a minute of the machine is like falls on all of them.
    """
    rounds = []
    for _ in range(n_repeats + 1):  # the first one starts the workers, too
        rounds.append([seconds_of_fit(identifier, system) for identifier in identifiers])
    return [min(times) for times in zip(*rounds[1:], strict=True)]


def seconds_of_fit(identifier: Any, system: System) -> float:
    """The time of one fit."""
    start = time.perf_counter()
    identifier.fit(system.X, system.Y, system.known_mask)
    return time.perf_counter() - start


def bench(n_nodes: int, n_repeats: int, n_jobs: int) -> list[dict[str, Any]]:
    """Rows of the table for one size."""
    system, filter, prior = make_case(n_nodes)
    default = LangevinSystemIdentifier(filter, prior, noise_std=1.0, n_jobs=n_jobs, random_state=0)
    levels = {"n_levels": 10, "n_steps": 20, "sigma_max": 0.5, "sigma_min": 0.03}

    def measure(part: str, *identifiers: Any) -> list[dict[str, Any]]:
        best = zip(identifiers, seconds_of_fits(identifiers, system, n_repeats), strict=True)
        return [
            {"nodes": n_nodes, "part": part, "chains": fitted.n_chains, "n_jobs": fitted.n_jobs, "seconds": seconds}
            for fitted, seconds in best
        ]

    rows: list[dict[str, Any]] = []
    for n_chains in (8, 16):
        langevin = clone(default).set_params(n_sweeps=0, n_chains=n_chains, **levels)
        rows += measure("Langevin", langevin)
        rate = n_chains * langevin.n_levels * langevin.n_steps / rows[-1]["seconds"]
        rows[-1] |= {"steps_per_second": rate, "over_published": rate / PUBLISHED_STEPS_PER_SECOND[n_nodes]}
    rows += measure("sweeps", clone(default).set_params(n_levels=1, n_steps=1))
    n_redrawn = default.n_chains * default.n_sweeps * system.known_mask.n_unknown
    rows[-1] |= {"steps_per_second": n_redrawn / rows[-1]["seconds"]}
    one_core, two_cores = measure("both, as by default", *(clone(default).set_params(n_jobs=n) for n in (1, 2)))
    two_cores["one_core_over_two"] = one_core["seconds"] / two_cores["seconds"]
    return [*rows, one_core, two_cores]


def show(rows: list[dict[str, Any]]) -> str:
    """A table for people."""
    columns = {
        "nodes": ("nodes", ""),
        "part": ("part", ""),
        "chains": ("chains", ""),
        "n_jobs": ("n_jobs", ""),
        "steps per second": ("steps_per_second", ".0f"),
        "over published": ("over_published", ".0f"),
        "seconds of the fit": ("seconds", ".2f"),
        "one core over two": ("one_core_over_two", ".2f"),
    }
    names, forms = zip(*columns.values(), strict=True)
    return table(list(columns), [[row.get(name) for name in names] for row in rows], forms)


def main() -> None:
    """Read the command line."""
    arguments = command_line(__doc__, quick="one repeat", n_jobs=True).parse_args()
    warnings.simplefilter("ignore")
    rows = [row for n in (20, 49) for row in bench(n, 1 if arguments.quick else 3, arguments.n_jobs)]
    publish("sampler_quick" if arguments.quick else "sampler", show(rows), rows)


if __name__ == "__main__":
    main()
