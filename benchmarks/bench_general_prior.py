"""Does a prior that was trained on many kinds of graphs help with graphs that it has never seen?

    python benchmarks/bench_general_prior.py                                 # K = 5, 40% hidden; an hour or two
    python benchmarks/bench_general_prior.py --hidden 0.2 0.5 0.8 --n-experiments 2 5 15 --seeds 20
    python benchmarks/bench_general_prior.py --graphs karate Florentine --priors none general --seeds 40
    python benchmarks/bench_general_prior.py --left-out path/to/folder       # of train_priors.py general --without

Real graphs from networkx, pandapower and wntr, of which none was trained on, famous symmetric graphs, and synthetic
ones of kinds that were. Theta of a polynomial filter of order two, hidden pairs, inputs and noise are drawn for each
seed, as in the paper's experiment on grids; so are the graphs that are drawn at random. The noise level is not told.

Runs are appended to a file as they end, and a run that is in the file is not done again, unless the prior has been
trained anew. The specialised priors are "grids" on grids and lattices, "deezer-ego-nets" on ego-nets; "wrong" is the
prior "grids" on graphs that are none. "general" may hand over to a specialised prior; "general alone" does not. The
connectome is that of the worm's pharynx, from the package cect
(`pip install --no-deps cect`); without it that graph is left out.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import importlib.util
import itertools
import json
import re
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from _graph_families import make_graph_mixture
from _results import RESULTS, command_line, publish, table
from bench_paper import judge, pooled_calibration_error
from sklearn.frozen import FrozenEstimator
from train_priors import deezer_split

from sklearn_graphid import GraphPriorScore, LangevinSystemIdentifier, System, load_prior
from sklearn_graphid.datasets import (
    hide_edges,
    make_grid_graphs,
    make_power_grid,
    make_system,
    make_water_network,
)

SEED = 20_240_415
FILTER, THETA_RANGE, N_PARAMETERS = "polynomial", (-0.1, 0.1), 3
# Graphs of the benchmark, and the family without which a prior was trained to see how it does on them.
LEFT_OUT = {"caveman": "caveman", "bipartite": "bipartite", "road-like": "roads", "random regular": "random regular"}


def generalised_petersen(n_nodes: int, skip: int) -> nx.Graph:
    """An outer ring, an inner star polygon, and spokes."""
    graph = nx.Graph()
    half = n_nodes // 2
    for i in range(half):
        graph.add_edges_from([(i, (i + 1) % half), (i, half + i), (half + i, half + (i + skip) % half)])
    return graph


def fixed(make: Callable[[], nx.Graph]) -> Callable[[int], np.ndarray]:
    """A graph that is the same for every seed."""
    return lambda seed: nx.to_numpy_array(nx.Graph(make()), weight=None)


def drawn(family: str, n_nodes: int) -> Callable[[int], np.ndarray]:
    """A graph of the mixture, which the seeds of the training do not reach."""
    return lambda seed: make_graph_mixture(
        1, families=[family], min_nodes=n_nodes, max_nodes=n_nodes, random_state=10**6 + seed
    )[0]


def worm_pharynx() -> nx.Graph:
    """Which of the 20 neurons of the pharynx of C. elegans are joined by synapses of any kind (Cook et al., 2019)."""
    package = importlib.util.find_spec("cect")
    assert package is not None
    assert package.submodule_search_locations is not None
    path = Path(package.submodule_search_locations[0]) / "data" / "herm_full_edgelist.csv"
    with path.open(newline="") as file:
        joined = [(row["Source"].strip(), row["Target"].strip()) for row in csv.DictReader(file)]
    pharynx = re.compile(r"I[1-6][LR]?|M[1-5][LR]?|MC[LR]|MI|NSM[LR]")
    return nx.Graph((a, b) for a, b in joined if a != b and pharynx.fullmatch(a) and pharynx.fullmatch(b))


REAL: dict[str, Callable[[int], np.ndarray]] = {
    "karate": fixed(nx.karate_club_graph),
    "Davis": fixed(nx.davis_southern_women_graph),
    "Les Miserables": fixed(nx.les_miserables_graph),
    "Florentine": fixed(nx.florentine_families_graph),
    "14 buses": lambda seed: np.asarray(make_power_grid("case14", 1, random_state=0).adjacency),
    "30 buses": lambda seed: np.asarray(make_power_grid("case30", 1, random_state=0).adjacency),
    "57 buses": lambda seed: np.asarray(make_power_grid("case57", 1, random_state=0).adjacency),
    "water, Net2": lambda seed: np.asarray(make_water_network("Net2", 1, random_state=0).adjacency),
}
if importlib.util.find_spec("cect") is not None:
    REAL["worm, pharynx"] = fixed(worm_pharynx)
SYMMETRIC: dict[str, Callable[[int], np.ndarray]] = {
    "Frucht": fixed(nx.frucht_graph),
    "Petersen (24, 5)": fixed(partial(generalised_petersen, 24, 5)),
}
SYNTHETIC: dict[str, Callable[[int], np.ndarray]] = {
    "caveman": fixed(partial(nx.caveman_graph, 5, 6)),
    "football-like": drawn("many blocks", 40),
    "road-like": drawn("roads", 40),
    "random regular": drawn("random regular", 30),
    "bipartite": drawn("bipartite", 30),
    "random": drawn("sparse random", 30),
    "grid": lambda seed: make_grid_graphs(1, random_state=10**6 + seed)[0],
}
GRAPHS = {**REAL, **SYMMETRIC, **SYNTHETIC}
KINDS = {"real": REAL, "symmetric": SYMMETRIC, "synthetic": SYNTHETIC}
SPECIALISED = {"grid": "grids", "ego-net": "deezer-ego-nets"}


def make_case(make: Callable[[int], np.ndarray], hidden: float, n_experiments: int, seed: int) -> System:
    """Draw theta, hide pairs and simulate, from a seed of the case's own."""
    adjacency = make(seed)
    seeds = np.random.SeedSequence([SEED, len(adjacency), round(100 * hidden), n_experiments, seed]).generate_state(3)
    theta = np.random.default_rng(seeds[0]).uniform(*THETA_RANGE, N_PARAMETERS)
    known = hide_edges(adjacency, hidden, random_state=int(seeds[1]))
    X, Y = make_system(adjacency, FILTER, theta, n_experiments, random_state=int(seeds[2]))
    return System(X, Y, known, true_adjacency=adjacency, true_theta=theta, name=str(seed), labels={"graph": seed})


def estimators(graph: str, left_out: str | None) -> dict[str, LangevinSystemIdentifier]:
    """An estimator for every prior that there is for a graph; the trust in a prior is one unless it is sampled."""
    make = partial(LangevinSystemIdentifier, FILTER, random_state=0)
    own = SPECIALISED.get(graph)
    made = {
        "none": make(),
        "general": make("general", prior_trust=1.0),
        "general, trust sampled": make("general", prior_trust="sample"),
        "general alone, trust sampled": make(load_prior("general"), prior_trust="sample"),
    }
    if own is not None:
        made |= {
            "specialised": make(own, prior_trust=1.0),
            "specialised, trust sampled": make(own, prior_trust="sample"),
        }
    else:
        made |= {"wrong": make("grids", prior_trust=1.0), "wrong, trust sampled": make("grids", prior_trust="sample")}
    if left_out is not None and graph in LEFT_OUT:
        path = Path(left_out) / f"general_without_{LEFT_OUT[graph].replace(' ', '_')}.safetensors"
        prior = FrozenEstimator(GraphPriorScore.load(path))
        made |= {
            "family left out": make(prior, prior_trust=1.0),
            "family left out, trust sampled": make(prior, prior_trust="sample"),
        }
    return made


def key(line: dict[str, Any]) -> tuple[Any, ...]:
    """What makes a run the same run."""
    return tuple(line[name] for name in ("graph", "hidden", "K", "prior", "seed"))


def weights_of(estimator: LangevinSystemIdentifier) -> str:
    """A number that changes when the prior is trained anew; empty where there is none."""
    if estimator.prior is None:
        return ""
    prior = load_prior(estimator.prior) if isinstance(estimator.prior, str) else estimator.prior
    digest = hashlib.sha256()
    for name, value in sorted(prior.weights_.items()):
        digest.update(name.encode() + np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:12]


def read_lines(path: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """What earlier runs have left, without the runs of priors as they were before they were trained anew."""
    lines = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    current = {
        (graph, prior): weights_of(estimator)
        for graph in {line["graph"] for line in lines}
        for prior, estimator in estimators(graph, arguments.left_out).items()
    }
    # A prior that was trained without a family is not there unless its folder is named.
    kept = [line for line in lines if current.get((line["graph"], line["prior"]), line["weights"]) == line["weights"]]
    path.write_text("".join(json.dumps(line) + "\n" for line in kept))
    return kept


def run(arguments: argparse.Namespace, path: Path) -> list[dict[str, Any]]:
    """Do what is not in the results file yet, and return all its lines."""
    lines = read_lines(path, arguments)
    done = {key(line) for line in lines}
    graphs = dict(GRAPHS)
    if arguments.zip_path:
        unseen = deezer_split(arguments.zip_path)[1]
        graphs["ego-net"] = lambda seed: unseen[seed]
    chosen = arguments.graphs or list(graphs)
    settings = itertools.product(chosen, arguments.hidden, arguments.n_experiments)
    with path.open("a") as file:
        for graph, hidden, n_experiments in settings:
            for prior, estimator in estimators(graph, arguments.left_out).items():
                setting = {"graph": graph, "hidden": hidden, "K": n_experiments, "prior": prior}
                todo = [seed for seed in range(arguments.seeds) if key({**setting, "seed": seed}) not in done]
                if not todo or (arguments.priors and prior not in arguments.priors):
                    continue
                cases = [make_case(graphs[graph], hidden, n_experiments, seed) for seed in todo]
                weights = weights_of(estimator)
                for measured in judge(estimator, cases, arguments.n_jobs):
                    line = {**setting, "seed": measured.pop("graph"), "weights": weights, **measured}
                    file.write(json.dumps(line) + "\n")
                    lines.append(line)
                file.flush()
                f1 = [line["f1"] for line in lines if key(line)[:4] == tuple(setting.values())]
                print(*setting.values(), f"F1 {np.mean(f1):.3f} of {len(f1)} seeds", flush=True)
    return lines


def chance_calibration_error(members: list[dict[str, Any]]) -> float:
    """The expected calibration error of probabilities that are right, over as many pairs: small graphs have few."""
    predicted, _, counts = np.moveaxis([member["reliability"] for member in members], 1, 0)
    variance = (counts * predicted * (1 - predicted)).sum(0)
    return float(np.sqrt(2 / np.pi * variance).sum() / counts.sum())


def summarise(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Means over the seeds, and how F1 differs from that without a prior on the same seeds."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault(key(line)[:4], []).append(line)
    without = {key(line): line["f1"] for line in lines if line["prior"] == "none"}
    for setting, members in groups.items():
        graph, hidden, n_experiments, prior = setting
        pairs = [(m["f1"], without.get((graph, hidden, n_experiments, "none", m["seed"]))) for m in members]
        gains = np.array([f1 - other for f1, other in pairs if other is not None])
        yield {
            "graph": graph,
            "hidden": hidden,
            "K": n_experiments,
            "prior": prior,
            "seeds": len(members),
            "F1": float(np.mean([m["f1"] for m in members])),
            "over none": float(gains.mean()) if len(gains) and prior != "none" else None,
            "standard error": float(gains.std() / np.sqrt(len(gains))) if len(gains) and prior != "none" else None,
            "AUROC": float(np.nanmean([m["auroc"] for m in members])),
            "ECE": pooled_calibration_error(members),
            "by chance": chance_calibration_error(members),
            "seconds": float(np.mean([m["seconds"] for m in members])),
        }


def overall(rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Over the graphs of a kind: mean F1, the mean gain over no prior, the worst one, and the graph that has it."""
    settings = dict.fromkeys((row["hidden"], row["K"], row["prior"]) for row in rows)
    for (hidden, n_experiments, prior), (kind, members) in itertools.product(settings, KINDS.items()):
        here = [r for r in rows if (r["hidden"], r["K"], r["prior"]) == (hidden, n_experiments, prior)]
        here = [row for row in here if row["graph"] in members]
        if not here:
            continue
        gains = {row["graph"]: row["over none"] for row in here if row["over none"] is not None}
        worst = min(gains, key=lambda graph: gains[graph]) if gains else None
        yield {
            "graphs": kind,
            "hidden": hidden,
            "K": n_experiments,
            "prior": prior,
            "number": len(here),
            "F1": float(np.mean([row["F1"] for row in here])),
            "over none": float(np.mean(list(gains.values()))) if gains else None,
            "worst": gains[worst] if worst else None,
            "on": worst,
            "largest ECE": max(row["ECE"] for row in here),
            "ECE by chance there": max(here, key=lambda row: row["ECE"])["by chance"],
        }


def as_table(rows: list[dict[str, Any]]) -> str:
    """Two digits are what twenty seeds can tell."""
    return table(rows[0], [row.values() for row in rows], ".3f")


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="two small graphs, two seeds", n_jobs=True, deezer=True)
    parser.add_argument("--graphs", nargs="+", choices=[*GRAPHS, *SPECIALISED], help="default: all")
    parser.add_argument("--priors", nargs="+", help='default: all; names as they are printed, such as "general"')
    parser.add_argument("--hidden", nargs="+", type=float, default=[0.4], help="shares of the pairs")
    parser.add_argument("--n-experiments", nargs="+", type=int, default=[5], metavar="K")
    parser.add_argument("--seeds", type=int, default=20, help="how many")
    parser.add_argument("--left-out", help="a folder of priors that were trained without a family")
    parser.add_argument("--output", default="general_prior", help="the name of the files of results")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.output, arguments.graphs, arguments.seeds = "general_prior_quick", ["Florentine", "caveman"], 2
    warnings.simplefilter("ignore")
    RESULTS.mkdir(exist_ok=True)
    lines = run(arguments, (RESULTS / arguments.output).with_suffix(".jsonl"))
    rows = list(summarise(lines))
    publish(arguments.output, as_table(list(overall(rows))) + "\n\n" + as_table(rows))


if __name__ == "__main__":
    main()
