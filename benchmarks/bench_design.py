"""How much sooner is a graph found when inputs are chosen by what they would tell?

    python benchmarks/bench_design.py --zip path/to/deezer_ego_nets.zip --n-graphs 100 --parts ego-nets grids
    python benchmarks/bench_design.py --zip path/to/deezer_ego_nets.zip --n-graphs 20 --parts cost gain
    python benchmarks/bench_design.py --parts gain                                # needs no data

The systems of `bench_paper.py`: ego-nets with heat diffusion and half of the pairs unknown, grids with a polynomial
and a quarter unknown, noise of variance one, its level not told. Experiments are done one after the other, with inputs
of at most ten in size, and after each the system is fitted again, from where the last fit has left the chains:

* "uniform", "random signs" at full size, "chosen" by `suggest_inputs` after a first experiment with random signs;
* with one driven node an experiment, at full size: a "random node", or the "chosen node" after a first random one.

All ways have the same graphs, hidden pairs, theta and noise. "gain" compares `information_gain` with the fall of
entropy by enumeration on graphs of five nodes, and "cost" fits with one more experiment from the last fit's chains and
anew.
Runs are appended to a file as they end, and a run that is in the file is not done again.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _exact_posterior import heat_law
from _results import RESULTS, command_line, publish, table
from bench_paper import EXPERIMENTS, Setting, unseen_graphs
from scipy.special import logit, logsumexp
from scipy.stats import spearmanr

from sklearn_graphid import ErdosRenyiPrior, KnownEdges, LangevinSystemIdentifier, load_prior
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import HeatDiffusionFilter, resolve_filter
from sklearn_graphid.metrics import edge_f1_score, theta_nrmse

SEED = 20_240_416
SCALE = 10.0
N_EXPERIMENTS = 15
SHOWN = (1, 2, 3, 5, 7, 9, 12, 15)
SETTINGS = {"ego-nets": EXPERIMENTS["deezer"], "grids": EXPERIMENTS["grids"]}
DENSE, SINGLE = ("uniform", "random signs", "chosen"), ("random node", "chosen node")
Line = dict[str, Any]


class Laboratory:
    """A system that answers inputs with noise; the noise of experiment k is the same whatever the input."""

    def __init__(self, setting: Setting, adjacency: np.ndarray, index: int):
        seeds = np.random.SeedSequence([SEED, len(setting.name), index]).generate_state(4)
        self.adjacency, self.theta = adjacency, self._theta(setting, seeds[0])
        self.known: KnownEdges = hide_edges(adjacency, setting.unknown, random_state=int(seeds[1]))
        self._noise = np.random.default_rng(seeds[2]).standard_normal((N_EXPERIMENTS + 1, len(adjacency)))
        self.rng = np.random.default_rng(seeds[3])
        unit = torch.eye(len(adjacency), dtype=torch.float64)
        system = torch.tensor(adjacency[None], dtype=torch.float64), torch.tensor(self.theta[None])
        self._response = resolve_filter(setting.filter).apply(*system, unit)[0].numpy()

    @staticmethod
    def _theta(setting: Setting, seed: int) -> np.ndarray:
        return np.random.default_rng(seed).uniform(*setting.theta_range, setting.n_parameters)

    def measure(self, inputs: np.ndarray) -> np.ndarray:
        """Outputs of all inputs so far."""
        return inputs @ self._response + self._noise[: len(inputs)]

    def random_input(self, way: str) -> np.ndarray:
        """A random input; the same numbers are drawn for every way."""
        n_nodes = len(self.adjacency)
        uniform, node = self.rng.uniform(-1, 1, n_nodes), int(self.rng.integers(n_nodes))
        drawn = {"uniform": uniform, "random signs": np.sign(uniform), "random node": np.eye(n_nodes)[node]}
        return SCALE * drawn[way]


def sequence(setting: Setting, adjacency: np.ndarray, index: int, way: str, n_experiments: int) -> Iterator[Line]:
    """Experiment after experiment in one way."""
    laboratory, inputs = Laboratory(setting, adjacency, index), np.empty((0, len(adjacency)))
    identifier = LangevinSystemIdentifier(setting.filter, load_prior(setting.prior), warm_start=True)
    by_chance = {"chosen": "random signs", "chosen node": "random node"}.get(way, way)
    options = {"low": -SCALE, "high": SCALE, "max_nonzero": 1 if way == "chosen node" else None}
    for number in range(1, n_experiments + 1):
        x, started = laboratory.random_input(by_chance), time.process_time()
        if by_chance != way and number > 1:
            x = identifier.suggest_inputs(random_state=number, **options)[0]
        chosen = time.process_time()
        inputs = np.vstack([inputs, x])
        identifier.set_params(random_state=number).fit(inputs, laboratory.measure(inputs), laboratory.known)
        fitted = time.process_time()
        yield {**judged(identifier, laboratory), "K": number, "choosing": chosen - started, "fitting": fitted - chosen}


def judged(identifier: LangevinSystemIdentifier, laboratory: Laboratory) -> Line:
    """How far a fit is from the truth."""
    unknown = laboratory.known.unknown_pairs()
    wrong = np.abs(identifier.edge_probabilities_ - laboratory.adjacency)[unknown]
    return {
        "f1": float(edge_f1_score(laboratory.adjacency, identifier.adjacency_, laboratory.known)),
        "theta": float(theta_nrmse(laboratory.theta, identifier.theta_)),
        "wrong": float(wrong.mean()),  # the probability that is given to what is not so, over the unknown pairs
    }


def cost(setting: Setting, adjacency: np.ndarray, index: int, n_experiments: int) -> Iterator[Line]:
    """One more experiment with random signs: a fit from the last one's chains and one anew; CPU seconds."""
    laboratory = Laboratory(setting, adjacency, index)
    inputs = np.array([laboratory.random_input("random signs") for _ in range(n_experiments + 1)])
    outputs, known = laboratory.measure(inputs), laboratory.known
    last = LangevinSystemIdentifier(setting.filter, load_prior(setting.prior), random_state=0)
    last.fit(inputs[:-1], outputs[:-1], known)
    line: Line = {"K": n_experiments + 1}
    started = time.process_time()
    last.suggest_inputs(low=-SCALE, high=SCALE, random_state=0)
    line["choosing"] = time.process_time() - started
    for name, warm_start in (("cold", False), ("warm", True)):
        identifier, started = copy.deepcopy(last).set_params(warm_start=warm_start, random_state=1), time.process_time()
        identifier.fit(inputs, outputs, known)
        line |= {f"{name}_seconds": time.process_time() - started, f"{name}_f1": judged(identifier, laboratory)["f1"]}
    yield line


# `information_gain` against enumeration: graphs of five nodes, all pairs unknown, theta on a grid of equal prior mass.

N_NODES, DENSITY, N_THETAS, N_CANDIDATES, N_OUTCOMES = 5, 0.4, 60, 24, 100
GAIN_CASES = ((1, 3.0), (1, 10.0), (3, 5.0), (3, 10.0))  # experiments so far, and the largest input


def gain(n_experiments: int, scale: float, index: int) -> Iterator[Line]:
    """Rank correlation of `information_gain` with the fall of the graph's entropy, simulated and refitted exactly."""
    rng, filter = np.random.default_rng([SEED, n_experiments, round(scale), index]), HeatDiffusionFilter()
    upper = np.triu(rng.random((N_NODES, N_NODES)) < DENSITY, 1)
    adjacency = (upper | upper.T).astype(float)
    seed = int(rng.integers(2**31))
    X, Y = make_system(adjacency, filter, [rng.uniform(0.3, 0.7)], n_experiments, input_scale=scale, random_state=seed)
    pairs = np.array(list(itertools.product((0.0, 1.0), repeat=N_NODES * (N_NODES - 1) // 2)))
    law = heat_law(filter)
    thetas = law.ppf((np.arange(N_THETAS) + 0.5) / N_THETAS * law.cdf(filter.theta_max))
    graphs = torch.tensor(KnownEdges.nothing(N_NODES).fill(pairs))
    unit = torch.eye(N_NODES, dtype=torch.float64)
    responses = np.stack(
        [filter.apply(graphs, torch.full((len(pairs), 1), t).double(), unit).numpy() for t in thetas], 1
    )
    log_posterior = logit(DENSITY) * pairs.sum(1)[:, None] - 0.5 * ((X @ responses - Y) ** 2).sum((-2, -1))
    candidates = make_candidates(rng, scale)
    falls = entropy_falls(responses, log_posterior - logsumexp(log_posterior), candidates, rng)
    identifier = LangevinSystemIdentifier(filter, ErdosRenyiPrior(DENSITY), noise_std=1.0, random_state=0).fit(X, Y)
    correlation = spearmanr(identifier.information_gain(candidates), falls).statistic
    yield {"K": n_experiments, "scale": scale, "correlation": float(correlation), "largest fall": float(falls.max())}


def make_candidates(rng: np.random.Generator, scale: float) -> np.ndarray:
    """A third uniform, a third random signs, and a third that drive one node, of any size."""
    shape = N_CANDIDATES // 3, N_NODES
    single = np.eye(N_NODES)[rng.integers(N_NODES, size=shape[0])] * rng.uniform(0.2, 1, (shape[0], 1))
    return scale * np.concatenate([rng.uniform(-1, 1, shape), rng.choice([-1.0, 1.0], shape), single])


def entropy_falls(
    responses: np.ndarray, log_posterior: np.ndarray, candidates: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Expected fall of the graph's entropy, over outcomes that are drawn from the posterior."""
    n_graphs, n_thetas = log_posterior.shape
    kept = log_posterior.ravel() > np.log(1e-9)
    log_weight, systems = log_posterior.ravel()[kept], responses.reshape(-1, N_NODES, N_NODES)[kept]
    graph = np.repeat(np.arange(n_graphs), n_thetas)[kept]
    weight = np.exp(log_weight - logsumexp(log_weight))
    truth, noise = rng.choice(len(weight), N_OUTCOMES, p=weight), rng.standard_normal((N_OUTCOMES, N_NODES))
    falls = []
    for x in candidates:
        predictions = x @ systems
        after = [
            graph_entropy(log_weight - 0.5 * ((y - predictions) ** 2).sum(1), graph) for y in predictions[truth] + noise
        ]
        falls.append(graph_entropy(log_weight, graph) - np.mean(after))
    return np.array(falls)


def graph_entropy(log_weight: np.ndarray, graph: np.ndarray) -> float:
    """Entropy of the graph, theta summed out."""
    probability = np.bincount(graph, np.exp(log_weight - logsumexp(log_weight)))
    probability = probability[probability > 0]
    return float(-(probability * np.log(probability)).sum())


# Runs


def all_runs(arguments: argparse.Namespace) -> Iterator[tuple[Line, Callable[[], Iterable[Line]]]]:
    """What to run: a key for the results file, and how."""
    for part in arguments.parts:
        if part == "gain":
            for index, case in itertools.product(range(arguments.n_cases), GAIN_CASES):
                key = {"part": part, "way": f"K={case[0]}, inputs to {case[1]:g}", "graph": index}
                yield key, lambda case=case, index=index: gain(*case, index)
            continue
        experiment = "ego-nets" if part == "cost" else part
        setting = SETTINGS[experiment]
        graphs = unseen_graphs(setting.name, arguments.n_graphs, arguments.zip_path, arguments.development)
        for index, adjacency in enumerate(graphs):
            if part == "cost":
                key = {"part": part, "way": "one more", "graph": index}
                yield key, lambda a=adjacency, i=index, s=setting: cost(s, a, i, 5)
                continue
            for way in arguments.ways:
                key = {"part": part, "way": way, "graph": index}
                n = arguments.n_experiments
                yield key, lambda a=adjacency, i=index, w=way, s=setting, n=n: sequence(s, a, i, w, n)


def run(arguments: argparse.Namespace, path: Path) -> list[Line]:
    """Do what is not in the results file yet, and return all its lines."""
    lines = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    done = {(line["part"], line["way"], line["graph"]) for line in lines}
    with path.open("a") as file:
        for key, measure in all_runs(arguments):
            if tuple(key.values()) in done:
                continue
            new = [{**key, **measured} for measured in measure()]
            # All lines of a run at once, so that one that was interrupted is done again.
            file.write("".join(json.dumps(line) + "\n" for line in new))
            file.flush()
            lines += new
            print(
                *key.values(),
                {name: new[-1][name] for name in ("f1", "correlation", "warm_f1") if name in new[-1]},
                flush=True,
            )
    return lines


# Tables


def curves(lines: list[Line], part: str, ways: Sequence[str]) -> list[np.ndarray]:
    """F1 (graphs, experiments) of each of the ways, as far as all of them have been run on the same graphs."""
    of_way: dict[str, dict[int, list[float]]] = {way: {} for way in ways}
    for line in lines:
        if line["part"] == part and line["way"] in of_way:
            of_way[line["way"]].setdefault(line["graph"], []).append(line["f1"])
    shared = sorted(set.intersection(*(set(graphs) for graphs in of_way.values())))
    shortest = min((len(of_way[way][graph]) for way in ways for graph in shared), default=0)
    return [np.array([of_way[way][graph][:shortest] for graph in shared]) for way in ways]


def learning_curves(lines: list[Line]) -> Iterator[Line]:
    """Mean F1 with its standard error by the number of experiments."""
    for part, ways in itertools.product(SETTINGS, (DENSE, DENSE[1:], SINGLE)):
        f1_by_way = curves(lines, part, ways)
        # The two ways that are compared once more, where they were run on more graphs than all three.
        if ways == DENSE[1:] and len(f1_by_way[0]) == len(curves(lines, part, DENSE)[0]):
            continue
        for way, f1 in zip(ways, f1_by_way, strict=True):
            if len(f1):
                mean, error = f1.mean(0), f1.std(0) / np.sqrt(len(f1))
                cells = {f"K={k}": f"{mean[k - 1]:.3f} ± {error[k - 1]:.3f}" if k <= len(mean) else None for k in SHOWN}
                yield {"graphs": part, "inputs": way, "number": len(f1), **cells}


def comparisons(lines: list[Line]) -> Iterator[Line]:
    """What is left of 1 - F1 at K = 5, and how many experiments reach what the last one at random does."""
    for part, (chosen, random) in itertools.product(
        SETTINGS, (("chosen", "random signs"), ("chosen node", "random node"))
    ):
        better, worse = curves(lines, part, (chosen, random))
        if not len(better):
            continue
        at = min(5, better.shape[1]) - 1
        left, right = 1 - better[:, at], 1 - worse[:, at]
        reached = np.flatnonzero(better.mean(0) >= worse.mean(0)[-1])
        yield {
            "graphs": part,
            "compared": f"{chosen} / {random}",
            "number": len(better),
            "1 - F1 at K=5, ratio": float(left.mean() / right.mean()) if right.any() else None,
            "standard error": ratio_error(left, right) if right.any() else None,
            "last K": worse.shape[1],
            "F1 at random then": float(worse.mean(0)[-1]),
            "reached by choice at K": int(reached[0]) + 1 if len(reached) else None,
        }


def ratio_error(left: np.ndarray, right: np.ndarray) -> float:
    """Standard error of mean(left) / mean(right) over graphs, to first order."""
    deviations = left - left.mean() / right.mean() * right
    return float(deviations.std() / (np.sqrt(len(left)) * right.mean()))


def costs(lines: list[Line]) -> Iterator[Line]:
    """CPU seconds as shares of a fit anew, and how F1 differs."""
    rows = [line for line in lines if line["part"] == "cost"]
    if rows:
        means = {
            name: float(np.mean([row[name] for row in rows])) for name in ("choosing", "warm_seconds", "cold_seconds")
        }
        gains = np.array([row["warm_f1"] - row["cold_f1"] for row in rows])
        yield {
            "graphs": len(rows),
            "fit anew, seconds": means["cold_seconds"],
            "warm start, share": means["warm_seconds"] / means["cold_seconds"],
            "suggest_inputs, share": means["choosing"] / means["cold_seconds"],
            "F1, warm less anew": float(gains.mean()),
            "standard error": float(gains.std() / np.sqrt(len(gains))),
        }


def correlations(lines: list[Line]) -> Iterator[Line]:
    """Mean and smallest rank correlation of `information_gain` with enumeration."""
    rows = [line for line in lines if line["part"] == "gain"]
    for way in dict.fromkeys(row["way"] for row in rows):
        values = [row["correlation"] for row in rows if row["way"] == way]
        yield {"five nodes": way, "cases": len(values), "mean": float(np.mean(values)), "smallest": float(min(values))}


def as_tables(lines: list[Line]) -> str:
    """All tables that there are lines for, by their columns."""
    rows = [row for make in (learning_curves, comparisons, costs, correlations) for row in make(lines)]
    groups = itertools.groupby(rows, key=lambda row: tuple(row))
    return "\n\n".join(table(head, [row.values() for row in group], ".3f") for head, group in groups)


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="two grids, three experiments, two cases of five nodes", deezer=True)
    parser.add_argument("--n-graphs", type=int, default=100)
    parser.add_argument("--n-cases", type=int, default=10, help="of five nodes, for each setting")
    parser.add_argument("--n-experiments", type=int, default=N_EXPERIMENTS)
    parser.add_argument(
        "--parts", nargs="+", choices=[*SETTINGS, "cost", "gain"], default=["ego-nets", "grids", "cost", "gain"]
    )
    parser.add_argument("--ways", nargs="+", choices=[*DENSE, *SINGLE], default=[*DENSE, *SINGLE])
    parser.add_argument("--development", action="store_true", help="the graphs that settings were chosen on")
    parser.add_argument("--output", default="design", help="the name of the files of results")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.output, arguments.parts, arguments.ways = "design_quick", ["grids", "gain"], list(DENSE)
        arguments.n_graphs, arguments.n_experiments, arguments.n_cases = 2, 3, 1
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    RESULTS.mkdir(exist_ok=True)
    lines = run(arguments, (RESULTS / arguments.output).with_suffix(".jsonl"))
    publish(arguments.output, as_tables(lines))


if __name__ == "__main__":
    main()
