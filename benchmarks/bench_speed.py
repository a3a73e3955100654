"""Seconds of a fit, beside those of another commit.

    python benchmarks/bench_speed.py --against 7875394

Every case is run in a process of its own, by the code of this checkout and by that of the other commit in turns, which
git checks out into a folder of its own for the time being. Timings of one machine vary, and so do machines: what counts
is the ratio. Beside it stand how good the answers are, F1 and log-loss of the unknown pairs: speed is easily had for a
worse answer. Seconds are of the processor, one thread, and without the first fit, in which code may be compiled.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from _results import command_line, publish, table

HERE = Path(__file__).resolve()
SMALLEST = 1e-3  # probability that log-loss takes for zero


class Case(NamedTuple):
    """Systems that are fitted alike."""

    filter: str
    n_nodes: int
    n_unknown: int | None  # None: a quarter of the pairs
    prior: str | None = None
    weights: str = "binary"
    directed: bool = False
    n_experiments: int = 15
    n_chains: int = 16
    is_large: bool = False  # left out unless asked for


CASES = {
    "heat, 20 nodes, learned prior": Case("heat", 20, None, "grids", n_experiments=10),
    "order two, 49 nodes, learned prior": Case("order two", 49, None, "grids"),
    "order two, 49 nodes, no prior": Case("order two", 49, None),
    "karate club, general prior": Case("heat", 34, None, "general", n_experiments=10),
    "heat, 100 nodes, 500 unknown": Case("heat", 100, 500),
    "order two, 400 nodes, half unknown": Case("order two", 400, 39_900, n_chains=4, is_large=True),
    "order two, 1,000 nodes, 25,000 unknown": Case("order two", 1000, 25_000, n_chains=4, is_large=True),
    "strengths, 49 nodes, steady state": Case("steady state", 49, None, "grids", "positive"),
    "strengths, 49 nodes, order one": Case("order one", 49, None, "grids", "positive"),
    "strengths, 49 nodes, order two": Case("order two", 49, None, "grids", "positive"),
    "strengths, 49 nodes, heat": Case("heat", 49, None, "grids", "positive"),
    "edges alike, 49 nodes, steady state": Case("steady state", 49, None, "grids"),
    "edges alike, 49 nodes, order one": Case("order one", 49, None, "grids"),
    "edges alike, 49 nodes, heat": Case("heat", 49, None, "grids"),
    "signed, directed, 40 nodes, 631 unknown": Case("order one", 40, 631, None, "signed", True, n_experiments=30),
}
THETA = {"heat": [0.4], "order one": [0.5, 0.4], "order two": [0.5, 0.3, 0.1], "steady state": [1.0]}


def make_truth(case: Case, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """A graph, with strengths where edges have them."""
    n_nodes = case.n_nodes
    if case.n_nodes == 34:
        graph = nx.to_numpy_array(nx.karate_club_graph(), weight=None)
    elif case.directed:
        graph = (rng.random((n_nodes, n_nodes)) < 0.08) * (1.0 - np.eye(n_nodes))
    else:  # as sparse as a power grid, and of one piece
        tree = nx.random_labeled_tree(n_nodes, seed=int(rng.integers(2**31)))
        more = nx.gnm_random_graph(n_nodes, n_nodes // 3, seed=int(rng.integers(2**31)))
        graph = nx.to_numpy_array(nx.compose(tree, more))
    if case.weights == "binary":
        return graph
    strengths = rng.normal(size=graph.shape) if case.weights == "signed" else rng.lognormal(0, 0.6, graph.shape)
    if not case.directed:
        strengths = np.triu(strengths, 1) + np.triu(strengths, 1).T
    return np.asarray(graph * strengths)


def measure(name: str, n_systems: int) -> dict[str, Any]:
    """Fit the systems of a case by the package that is installed: seconds, F1 and log-loss."""
    import torch

    from sklearn_graphid import KnownEdges, LangevinSystemIdentifier, load_prior
    from sklearn_graphid.datasets import make_system
    from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter

    torch.set_num_threads(1)
    case, seconds, right, losses = CASES[name], 0.0, np.zeros(3), list[float]()
    filters = {"heat": HeatDiffusionFilter(), "steady state": SteadyStateFilter()}
    filters |= {"order one": PolynomialFilter(1), "order two": PolynomialFilter(2)}
    filter, prior = filters[case.filter], None if case.prior is None else load_prior(case.prior)
    settings = {"edge_weights": case.weights, "directed": case.directed, "n_chains": case.n_chains}
    for number in range(-1, n_systems):  # the first is for what happens once
        rng = np.random.default_rng([max(number, 0), case.n_nodes])
        truth, theta = make_truth(case, rng), THETA[case.filter]
        X, Y = make_system(
            truth, filter, theta, case.n_experiments, noise_std=0.1, directed=case.directed, random_state=number + 1
        )
        rows, columns = np.nonzero(~np.eye(len(truth), dtype=bool) if case.directed else np.tri(len(truth), k=-1).T)
        n_unknown = len(rows) // 4 if case.n_unknown is None else case.n_unknown
        hidden = rng.choice(len(rows), n_unknown, replace=False)
        mask = np.ones(truth.shape, dtype=bool)
        mask[rows[hidden], columns[hidden]] = False
        mask &= True if case.directed else mask.T
        weights = truth if case.weights == "signed" else None
        known = KnownEdges(mask, (truth != 0) * 1.0, weights=weights, directed=case.directed)
        identifier = LangevinSystemIdentifier(filter, prior, **settings, random_state=0)
        begin = time.process_time()
        identifier.fit(X, Y, known)
        if number >= 0:
            seconds += time.process_time() - begin
            is_edge = truth[rows[hidden], columns[hidden]] != 0
            probability = identifier.edge_probabilities_[rows[hidden], columns[hidden]]
            found = probability > 0.5
            right += (found & is_edge).sum(), found.sum(), is_edge.sum()
            said = np.where(is_edge, probability, 1 - probability).clip(SMALLEST, 1)
            losses.append(float(-np.log(said).mean()))
    return {"seconds": seconds / n_systems, "F1": 2 * right[0] / max(right[1:].sum(), 1), "log-loss": np.mean(losses)}


@contextlib.contextmanager
def checked_out(commit: str | None) -> Iterator[Path | None]:
    """The folder of another commit's code, for the time being."""
    if commit is None:
        yield None
        return
    git = ["git", "-C", str(HERE.parents[1]), "worktree"]
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([*git, "add", "--detach", "--quiet", f"{folder}/other", commit], check=True)
        try:
            yield Path(folder) / "other"
        finally:
            subprocess.run([*git, "remove", "--force", f"{folder}/other"], check=True)


def in_checkout(folder: Path, case: str, n_systems: int) -> dict[str, Any]:
    """What `measure` returns for the package in a folder."""
    command = [sys.executable, str(HERE), "--measure", case, "--n-systems", str(n_systems)]
    environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    measured: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return measured


def compare(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """Rows, one for each case."""
    names = [name for name, case in CASES.items() if arguments.large or not case.is_large]
    rows = []
    with checked_out(arguments.against) as other:
        folders = {"this": HERE.parents[1]} | ({} if other is None else {"other": other})
        for name in arguments.cases or names:
            row = {"case": name, "systems": arguments.n_systems}
            for code, folder in folders.items():
                measured = in_checkout(folder, name, arguments.n_systems)
                row |= {f"{key}, {code}": value for key, value in measured.items()}
            rows.append(row)
            print(row, flush=True)
    return rows


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="one case, one system, no other commit")
    parser.add_argument("--against", metavar="COMMIT", help="another commit, to compare with")
    parser.add_argument("--cases", nargs="*", choices=CASES, metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--n-systems", type=int, default=5, help="systems of each case")
    parser.add_argument("--large", action="store_true", help="also cases that take minutes")
    parser.add_argument("--measure", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        warnings.simplefilter("ignore")
        print(json.dumps(measure(arguments.measure, arguments.n_systems)))
        return
    name = "speed"
    if arguments.quick:
        name, arguments.cases, arguments.n_systems, arguments.against = (
            "speed_quick",
            ["heat, 20 nodes, learned prior"],
            1,
            None,
        )
    rows = compare(arguments)
    columns = [f"{key}, {code}" for key in ("seconds", "F1", "log-loss") for code in ("this", "other")]
    lines = []
    for row in rows:
        ratio = row["seconds, this"] / row["seconds, other"] if "seconds, other" in row else None
        lines.append([row["case"], row["systems"], ratio, *(row.get(column) for column in columns)])
    head = ["case", "systems", "ratio", *columns]
    text = (
        f"Processor seconds of a fit, of this code and of commit {arguments.against}.\n\n" if arguments.against else ""
    )
    publish(name, text + table(head, lines), rows)


if __name__ == "__main__":
    main()
