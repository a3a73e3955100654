"""What happens to data as people have them: known pairs that were chosen, wrong numbers, offsets, rows out of order.

    python benchmarks/bench_first_day.py
    PYTHONPATH=path/to/an/older/checkout python benchmarks/bench_first_day.py --code before

Every situation is fitted with the settings that a first user takes, and with the remedy where there is one. `told` is
the same fit with the true density of the unknown pairs. A fit counts as warned if it gave any warning. Sure pairs are
those with a probability below .05 or above .95. Rows of each code are kept in the results, and shown side by side.

Settings of the package were chosen with systems of other seeds, from 2,000 on.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd
from _results import command_line, publish, read_rows, table
from bench_noise import LINES_OF_30_BUSES
from joblib import Parallel, delayed

from sklearn_graphid import ErdosRenyiPrior, KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system


class Case(NamedTuple):
    """A system, and what its owner knows."""

    filter: str
    graph: np.ndarray
    known: KnownEdges
    X: Any
    Y: Any


def measured(rng: np.random.Generator, graph: np.ndarray, known: KnownEdges, n: int, filter: str = "heat") -> Case:
    """Experiments as in the paper: inputs of scale 10, noise of 1."""
    theta = {"heat": [rng.uniform(0.3, 0.7)], "polynomial": rng.uniform(-0.1, 0.1, 3), "steady-state": [1.0]}[filter]
    scale, noise = (1.0, 0.3) if filter == "steady-state" else (10.0, 1.0)
    seed = int(rng.integers(2**30))
    X, Y = make_system(graph, filter, theta, n, input_scale=scale, noise_std=noise, random_state=seed)
    return Case(filter, graph, known, X, Y)


def small_world(rng: np.random.Generator) -> np.ndarray:
    """A graph of Watts and Strogatz of 20 nodes."""
    adjacency: np.ndarray = nx.to_numpy_array(nx.watts_strogatz_graph(20, 4, 0.1, seed=int(rng.integers(2**30))))
    return adjacency


def chosen(pairs: np.ndarray, n_nodes: int) -> np.ndarray:
    """A symmetric mask of pairs (pairs, 2)."""
    mask = np.zeros((n_nodes, n_nodes), dtype=bool)
    mask[pairs[:, 0], pairs[:, 1]] = mask[pairs[:, 1], pairs[:, 0]] = True
    return mask


def half_known(rng: np.random.Generator, n: int = 20, graph: np.ndarray | None = None) -> Case:
    """Half of the pairs are known, at random."""
    graph = small_world(rng) if graph is None else graph
    return measured(rng, graph, hide_edges(graph, 0.5, random_state=int(rng.integers(2**30))), n)


def edges_known(rng: np.random.Generator) -> Case:
    """Every second edge is known, and nothing else."""
    graph = small_world(rng)
    edges = np.argwhere(np.triu(graph))[::2]
    return measured(rng, graph, KnownEdges(chosen(edges, len(graph)), graph), 20)


def far_pairs_ruled_out(rng: np.random.Generator) -> Case:
    """Half of the near pairs are edges, and far pairs are known not to be."""
    places = rng.random((18, 2))
    rows, columns = np.triu_indices(18, 1)
    near = np.argsort(np.linalg.norm(places[rows] - places[columns], axis=1))[:48]
    pairs = np.stack([rows, columns], 1)
    graph = chosen(pairs[rng.permutation(near)[:24]], 18).astype(float)
    return measured(rng, graph, KnownEdges(~chosen(pairs[near], 18), graph), 8)


def candidate_lines(rng: np.random.Generator) -> Case:
    """The lines of 30 buses, and as many more that might be lines; all other pairs are known not to be."""
    lines = np.array([[int(bus) - 1 for bus in line.split("-")] for line in LINES_OF_30_BUSES.split()])
    graph = chosen(lines, 30).astype(float)
    others = np.argwhere(np.triu(1 - graph, 1))
    candidates = np.concatenate([lines, rng.permutation(others)[: len(lines)]])
    return measured(rng, graph, KnownEdges(~chosen(candidates, 30), graph), 10, "steady-state")


def nothing_known(rng: np.random.Generator) -> Case:
    """No pair is known."""
    graph = nx.to_numpy_array(nx.gnp_random_graph(16, 0.15, seed=int(rng.integers(2**30))))
    return measured(rng, graph, KnownEdges(np.zeros((16, 16), dtype=bool), graph), 8)


def one_outlier(rng: np.random.Generator) -> Case:
    """100 is added to one output."""
    case = half_known(rng)
    case.Y[tuple(rng.integers(20, size=2))] += 100
    return case


def many_outliers(rng: np.random.Generator) -> Case:
    """One percent of the outputs are multiplied by 50."""
    case = half_known(rng)
    case.Y[np.unravel_index(rng.permutation(case.Y.size)[: case.Y.size // 100], case.Y.shape)] *= 50
    return case


def offsets(rng: np.random.Generator) -> Case:
    """10 is added to every output."""
    case = half_known(rng)
    return case._replace(Y=case.Y + 10)


def both(rng: np.random.Generator) -> Case:
    """Offsets and outliers."""
    case = many_outliers(rng)
    return case._replace(Y=case.Y + 10)


def rows_in_another_order(rng: np.random.Generator) -> Case:
    """Rows of Y have the labels of X's rows in another order."""
    case = half_known(rng)
    return case._replace(X=pd.DataFrame(case.X), Y=pd.DataFrame(case.Y).sample(frac=1, random_state=0))


def rows_copied(rng: np.random.Generator) -> Case:
    """Every row of X and Y stands there ten times."""
    case = half_known(rng, n=10)
    return case._replace(X=np.repeat(case.X, 10, axis=0), Y=np.repeat(case.Y, 10, axis=0))


def wrong_known_pair(rng: np.random.Generator) -> Case:
    """One edge is known not to be one."""
    case = half_known(rng)
    known, edges = case.known, np.argwhere(np.triu(case.graph * case.known.mask))
    values = case.graph.copy()
    i, j = edges[rng.integers(len(edges))]
    values[i, j] = values[j, i] = 0
    return case._replace(known=KnownEdges(known.mask, values))


def strengths_ignored(rng: np.random.Generator) -> Case:
    """Edges have strengths between .3 and 3, and are taken to be all alike."""
    graph = small_world(rng)
    strengths = np.triu(graph * np.exp(rng.uniform(np.log(0.3), np.log(3), graph.shape)))
    case = measured(rng, strengths + strengths.T, KnownEdges(np.zeros(graph.shape, dtype=bool), graph), 20)
    return case._replace(graph=graph, known=hide_edges(graph, 0.5, random_state=int(rng.integers(2**30))))


ROBUST, INTERCEPT = {"noise_distribution": "student-t"}, {"fit_intercept": True}
# Situations, and the settings of each fit by name; a prior "told" is that of the true density.
FITS: dict[str, tuple[Callable[[np.random.Generator], Case], dict[str, dict[str, Any]]]] = {
    "some edges known": (edges_known, {"default": {}, "told": {"prior": "told"}, "general": {"prior": "general"}}),
    "far pairs ruled out": (
        far_pairs_ruled_out,
        {"default": {}, "told": {"prior": "told"}, "general": {"prior": "general"}},
    ),
    "candidate lines": (candidate_lines, {"default": {}, "told": {"prior": "told"}, "general": {"prior": "general"}}),
    "nothing known": (nothing_known, {"default": {}, "told": {"prior": "told"}}),
    "half known, as it should be": (
        half_known,
        {"default": {}, "told": {"prior": "told"}, "student-t": ROBUST, "intercept": INTERCEPT},
    ),
    "one output + 100": (one_outlier, {"default": {}, "student-t": ROBUST}),
    "1 % of outputs x 50": (many_outliers, {"default": {}, "student-t": ROBUST}),
    "outputs + 10": (offsets, {"default": {}, "intercept": INTERCEPT}),
    "outliers and offsets": (both, {"default": {}, "both": ROBUST | INTERCEPT}),
    "rows in another order": (rows_in_another_order, {"default": {}}),
    "rows copied ten times": (rows_copied, {"default": {}}),
    "a known pair is wrong": (wrong_known_pair, {"default": {}}),
    "strengths ignored": (strengths_ignored, {"default": {}}),
}


def fit(situation: str, way: str, seed: int) -> dict[str, float]:
    """Scores of one system; the seed gives every way the same one."""
    make, ways = FITS[situation]
    case = make(np.random.default_rng([5000, seed]))
    rows, columns = case.known.unknown_pairs()
    truth, settings = case.graph[rows, columns] > 0, dict(ways[way])
    if settings.get("prior") == "told":
        settings["prior"] = ErdosRenyiPrior(float(np.clip(truth.mean(), 0.02, 0.98)))
    identifier = LangevinSystemIdentifier(case.filter, random_state=seed, **settings)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        identifier.fit(case.X, case.Y, case.known)
    seconds = time.perf_counter() - started
    probability = identifier.edge_probabilities_[rows, columns].clip(1e-6, 1 - 1e-6)
    found = identifier.adjacency_[rows, columns] > 0
    is_sure = np.abs(probability - 0.5) > 0.45
    return {
        "F1": 2 * float((truth & found).sum()) / max(1, truth.sum() + found.sum()),
        "log-loss": float(-np.where(truth, np.log(probability), np.log1p(-probability)).mean()),
        "sure": float(is_sure.sum()),
        "sure and wrong": float((is_sure & (truth != (probability > 0.5))).sum()),
        "warned": float(len(caught) > 0),
        "seconds": seconds,
    }


def row_of(code: str, situation: str, way: str, scores: list[dict[str, float]]) -> dict[str, Any]:
    """Means over the systems of a situation."""
    mean = {name: float(np.mean([score[name] for score in scores])) for name in scores[0]}
    error = float(np.std([score["F1"] for score in scores]) / np.sqrt(len(scores)))
    wrong = mean["sure and wrong"] / max(mean["sure"], 1e-9)
    row = {"situation": situation, "fit": way, "code": code, "systems": len(scores), "F1": mean["F1"], "SE": error}
    return (
        row
        | {"log-loss": mean["log-loss"], "sure pairs wrong": wrong}
        | {name: mean[name] for name in ("warned", "seconds")}
    )


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="two systems of the first two situations", n_jobs=True)
    parser.add_argument("--n-systems", type=int, default=30)
    parser.add_argument("--code", choices=["before", "now"], default="now", help="the name of the code in the table")
    parser.add_argument("--situations", nargs="+", choices=list(FITS), default=list(FITS))
    arguments = parser.parse_args()
    name = "first_day_quick" if arguments.quick else "first_day"
    n_systems, situations = arguments.n_systems, arguments.situations
    if arguments.quick:
        n_systems, situations = 2, list(FITS)[:2]
    rows = [row for row in read_rows(name) if row["code"] != arguments.code or row["situation"] not in situations]
    options = LangevinSystemIdentifier().get_params()
    with Parallel(arguments.n_jobs) as parallel:
        for situation in situations:
            for way, settings in FITS[situation][1].items():
                if settings.keys() <= options.keys():  # older code has fewer
                    scores = parallel(delayed(fit)(situation, way, seed) for seed in range(n_systems))
                    rows.append(row_of(arguments.code, situation, way, scores))
                    print(rows[-1], flush=True)
    order = list(FITS)
    rows.sort(
        key=lambda row: (order.index(row["situation"]), list(FITS[row["situation"]][1]).index(row["fit"]), row["code"])
    )
    publish(name, table(rows[0], [row.values() for row in rows]), rows)


if __name__ == "__main__":
    main()
