"""The paper's two experiments: its three methods as published, and this package's defaults.

    python benchmarks/bench_paper.py --n-graphs 100 --zip path/to/deezer_ego_nets.zip
    python benchmarks/bench_paper.py --methods paper --checkpoints path/to/folder   # with the published networks
    python benchmarks/bench_paper.py --methods "ours, noise unknown" "ours, no prior" "ours, range of theta told"
    python benchmarks/bench_paper.py --n-graphs 30 --methods ridge robust "graphical lasso" "smooth signals"

Grids with a second-order polynomial filter and 25% of the pairs unknown; Deezer ego-nets with heat diffusion and 50%
unknown; K experiments with inputs uniform in [-10, 10] and noise of variance one. Runs are appended to a results
file as they end, and a run that is in the file is not done again, so an interrupted benchmark goes on where it was.
The second F1 is that of the same fit with `point_estimate="f1"`.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from _results import RESULTS, all_fitted, command_line, publish, table
from train_priors import deezer_split

from sklearn_graphid import (
    PAPER_SETTINGS,
    AdamSystemIdentifier,
    GraphicalLassoIdentifier,
    GraphPriorScore,
    KnownEdges,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    RidgeSystemIdentifier,
    RobustFilterIdentifier,
    SmoothSignalIdentifier,
    System,
    identify_many,
    load_prior,
)
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system
from sklearn_graphid.filters import HeatDiffusionFilter
from sklearn_graphid.identifiers._posterior import largest_expected_f1
from sklearn_graphid.metrics import edge_f1_score, edge_reliability_curve

N_EXPERIMENTS = (1, 5, 10, 15)
SEED = 20_240_414
GRAPHS_AT_ONCE = 10  # between two looks at the results file
N_DEVELOPMENT = 100  # of the ego-nets that no prior was trained on
# The paper's figures, read from its plots; the oracle is a maximum-likelihood theta that is told the true graph.
with (RESULTS / "published.csv").open() as _file:
    PAPER = {tuple(row[:3]): tuple(map(float, row[3:])) for row in list(csv.reader(_file))[1:]}


class Setting(NamedTuple):
    """One of the paper's two experiments."""

    name: str
    prior: str
    checkpoint: str
    filter: str
    theta_range: tuple[float, float]
    n_parameters: int
    unknown: float


EXPERIMENTS = {
    "grids": Setting("grids", "grids", "edp_gnn_grids.pth", "polynomial", (-0.1, 0.1), 3, 0.25),
    "deezer": Setting("deezer", "deezer-ego-nets", "edp_gnn_deezer_ego_nets.pth", "heat", (0.3, 0.7), 1, 0.5),
}


def unseen_graphs(experiment: str, n_graphs: int, zip_path: str | None, development: bool) -> list[np.ndarray]:
    """Graphs that no prior was trained on; those for development are the only ones that settings were chosen on."""
    if experiment == "grids":
        return make_grid_graphs(n_graphs, random_state=1 if development else 2)
    unseen = deezer_split(zip_path)[1]
    return unseen[:N_DEVELOPMENT][:n_graphs] if development else unseen[N_DEVELOPMENT:][:n_graphs]


def make_case(setting: Setting, adjacency: np.ndarray, n_experiments: int, index: int) -> System:
    """Draw theta, hide pairs and simulate, from a seed of the case's own."""
    seeds = np.random.SeedSequence([SEED, len(setting.name), n_experiments, index]).generate_state(3)
    low, high = setting.theta_range
    theta = np.random.default_rng(seeds[0]).uniform(low, high, setting.n_parameters)
    known = hide_edges(adjacency, setting.unknown, random_state=int(seeds[1]))
    X, Y = make_system(adjacency, setting.filter, theta, n_experiments, random_state=int(seeds[2]))
    return System(X, Y, known, true_adjacency=adjacency, true_theta=theta, name=str(index), labels={"graph": index})


def make_methods(setting: Setting, checkpoints: str | None) -> dict[str, Callable[[], Any]]:
    """An estimator for each method's name."""
    if checkpoints is None:
        published: Any = GraphPriorScore.load  # never called: the method is left out without checkpoints
    else:
        published = GraphPriorScore.from_edpgnn_checkpoint(Path(checkpoints) / setting.checkpoint)
    prior = load_prior(setting.prior)
    low, high = setting.theta_range
    # The published runs start theta at a draw from the law that made it, so they too are told its range.
    told = HeatDiffusionFilter(theta_min=low, theta_max=high) if setting.filter == "heat" else setting.filter
    return {
        "ours": lambda: LangevinSystemIdentifier(setting.filter, prior, noise_std=1.0, random_state=0),
        "ours, range of theta told": lambda: LangevinSystemIdentifier(told, prior, noise_std=1.0, random_state=0),
        "ours, no prior": lambda: LangevinSystemIdentifier(setting.filter, noise_std=1.0, random_state=0),
        "ours, noise unknown": lambda: LangevinSystemIdentifier(setting.filter, prior, random_state=0),
        "paper": lambda: LangevinSystemIdentifier(setting.filter, published, random_state=0, **PAPER_SETTINGS),
        "likelihood": lambda: LikelihoodLangevinIdentifier(setting.filter, random_state=0, **PAPER_SETTINGS),
        "adam": lambda: AdamSystemIdentifier(setting.filter, random_state=0),
        "ridge": lambda: RidgeSystemIdentifier(setting.filter),
        "robust": lambda: RobustFilterIdentifier(setting.filter),
        "graphical lasso": lambda: GraphicalLassoIdentifier(setting.filter),
        "smooth signals": lambda: SmoothSignalIdentifier(setting.filter),
        # Maximum-likelihood theta on the true graph.
        "oracle": lambda: LangevinSystemIdentifier(
            setting.filter, noise_std=1.0, n_chains=1, point_estimate="best", random_state=0
        ),
    }


def judge(estimator: Any, cases: list[System], n_jobs: int | None = None) -> Iterator[dict[str, Any]]:
    """Fit and measure every system."""
    frame = all_fitted(identify_many(estimator, cases, n_jobs, keep_estimators=True))
    for case, row in zip(cases, frame.to_dict("records"), strict=True):
        fitted = row["estimator"]
        measured = {"graph": row["graph"], "theta_nrmse": row["theta_nrmse"], "seconds": row["seconds"]}
        if fitted.known_edges_.n_unknown:
            curve = edge_reliability_curve(case.true_adjacency, fitted.edge_probabilities_, fitted.known_edges_)
            measured |= {"f1": row["edge_f1"], "auroc": row["edge_roc_auc"]}
            if isinstance(fitted, LangevinSystemIdentifier) and fitted.point_estimate == "marginal":
                pairs = fitted.known_edges_.unknown_pairs()
                chosen = fitted.known_edges_.fill(largest_expected_f1(fitted.edge_probabilities_[pairs]))
                measured["f1_chosen"] = edge_f1_score(case.true_adjacency, chosen, fitted.known_edges_)
            measured["reliability"] = [[round(float(v), 4) for v in np.nan_to_num(values)] for values in curve]
        yield measured


def with_everything_known(case: System) -> System:
    """What the oracle is told."""
    truth = case.true_adjacency
    return replace(case, known_mask=KnownEdges(np.ones(truth.shape, dtype=bool), truth))


def key(line: dict[str, Any]) -> tuple[Any, ...]:
    """What makes a run the same run."""
    return line["experiment"], line["K"], line["graph"], line["method"]


def run(arguments: argparse.Namespace, path: Path) -> list[dict[str, Any]]:
    """Do what is not in the results file yet, and return all its lines."""
    lines = [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []
    done = {key(line) for line in lines}
    with path.open("a") as file:
        for experiment in arguments.experiments:
            setting = EXPERIMENTS[experiment]
            graphs = unseen_graphs(experiment, arguments.n_graphs, arguments.zip_path, arguments.development)
            methods = make_methods(setting, arguments.checkpoints)
            for method, n_experiments in itertools.product(arguments.methods, arguments.experiments_per_graph):
                todo = [i for i in range(len(graphs)) if (experiment, n_experiments, i, method) not in done]
                for start in range(0, len(todo), GRAPHS_AT_ONCE):
                    some = todo[start : start + GRAPHS_AT_ONCE]
                    cases = [make_case(setting, graphs[index], n_experiments, index) for index in some]
                    if method == "oracle":
                        cases = [with_everything_known(case) for case in cases]
                    for measured in judge(methods[method](), cases, arguments.n_jobs):
                        line = {"experiment": experiment, "K": n_experiments, "method": method, **measured}
                        file.write(json.dumps(line) + "\n")
                        lines.append(line)
                    file.flush()
    return lines


def summarise(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Means and standard errors over the graphs of each experiment, K and method."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    oracle = {key(line)[:3]: line["theta_nrmse"] for line in lines if line["method"] == "oracle"}
    for line in lines:
        groups.setdefault((line["experiment"], line["method"], line["K"]), []).append(line)
    for (experiment, method, n_experiments), members in sorted(groups.items()):
        row: dict[str, Any] = {"experiment": experiment, "method": method, "K": n_experiments, "graphs": len(members)}
        for metric in ("f1", "f1_chosen", "auroc", "theta_nrmse", "seconds"):
            values = np.array([member[metric] for member in members if metric in member], dtype=float)
            values = values[np.isfinite(values)]
            if len(values):
                row[metric] = (values.mean(), values.std() / np.sqrt(len(values)))
        # On the same graphs, as some methods were run on fewer.
        pairs = [(m["theta_nrmse"], oracle[key(m)[:3]]) for m in members if key(m)[:3] in oracle]
        if pairs:
            row["over_oracle"] = float(np.divide(*np.sum(pairs, axis=0)))
        if "reliability" in members[0]:
            row["calibration_error"] = pooled_calibration_error(members)
        yield row


def pooled_calibration_error(members: list[dict[str, Any]]) -> float:
    """Expected calibration error over the unknown pairs of all graphs, ten bins."""
    predicted, true, counts = np.moveaxis([member["reliability"] for member in members], 1, 0)
    gaps = np.abs(((predicted - true) * counts).sum(0))
    return float(gaps.sum() / counts.sum())


def show(rows: list[dict[str, Any]]) -> str:
    """A table for people."""
    head = ["experiment", "method", "K", "graphs", "F1", "paper", "F1 by f1", "AUROC", "theta NRMSE", "paper"]
    lines = []
    for row in rows:
        f1, chosen, auroc, error = (
            "{:.3f} ± {:.3f}".format(*row[metric]) if metric in row else None
            for metric in ("f1", "f1_chosen", "auroc", "theta_nrmse")
        )
        line = [row["experiment"], row["method"], row["K"], row["graphs"]]
        line += [f1, as_published(row, "f1"), chosen, auroc, error, as_published(row, "theta_nrmse")]
        seconds = row["seconds"][0] if "seconds" in row else None
        lines.append([*line, row.get("over_oracle"), row.get("calibration_error"), seconds])
    return table([*head, "over oracle", "ECE", "seconds"], lines, [*[".3f"] * 10, ".2f", ".3f", ".1f"])


def as_published(row: dict[str, Any], metric: str) -> float | None:
    """The paper's figure for a row, where it has one."""
    published = PAPER.get((row["experiment"], row["method"], metric))
    return published[N_EXPERIMENTS.index(row["K"])] if published and row["K"] in N_EXPERIMENTS else None


def draw(rows: list[dict[str, Any]], stem: Path) -> None:
    """The paper's two figures: F1 and theta's error against K."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    styles = {
        "ours": ("#0072B2", "o", "-"),
        "paper": ("#D55E00", "s", "--"),
        "likelihood": ("#009E73", "^", ":"),
        "adam": ("#CC79A7", "D", "-."),
        "robust": ("#E69F00", "v", (0, (5, 1, 1, 1, 1, 1))),
        "oracle": ("#000000", "", "-"),
    }
    for experiment in {row["experiment"] for row in rows}:
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
        for axis, metric, label in zip(
            axes, ("f1", "theta_nrmse"), ("F1 of the unknown pairs", "NRMSE of theta"), strict=True
        ):
            for method, (colour, marker, line) in styles.items():
                points = [
                    (row["K"], *row[metric])
                    for row in rows
                    if row["experiment"] == experiment and row["method"] == method and metric in row
                ]
                if points:
                    xs, means, errors = zip(*points, strict=True)
                    axis.errorbar(
                        xs,
                        means,
                        errors,
                        color=colour,
                        marker=marker,
                        linestyle=line,
                        label=f"{method}, measured",
                        capsize=2,
                    )
                published = PAPER.get((experiment, method, metric))
                if published and method != "oracle":
                    axis.plot(
                        N_EXPERIMENTS,
                        published,
                        color=colour,
                        marker=marker,
                        linestyle="",
                        mfc="none",
                        label=f"{method}, as published",
                    )
            axis.set(xlabel="experiments K", ylabel=label, xticks=N_EXPERIMENTS)
        axes[0].set_ylim(0, 1)
        axes[1].set_yscale("log")
        handles, labels = axes[1].get_legend_handles_labels()  # the oracle has no F1, as it knows the network
        figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize="small", frameon=False)
        figure.suptitle(
            {"grids": "Grids, polynomial filter, 25% unknown", "deezer": "Deezer ego-nets, heat, 50% unknown"}[
                experiment
            ]
        )
        figure.savefig(f"{stem}_{experiment}.png", dpi=150)
        plt.close(figure)


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="three grids, K = 10, our method and Adam", n_jobs=True, deezer=True)
    parser.add_argument("--n-graphs", type=int, default=100)
    parser.add_argument("--experiments", nargs="+", choices=list(EXPERIMENTS), default=list(EXPERIMENTS))
    parser.add_argument("--methods", nargs="+", default=["ours", "likelihood", "adam", "oracle"])
    parser.add_argument("--experiments-per-graph", nargs="+", type=int, default=list(N_EXPERIMENTS))
    parser.add_argument("--checkpoints", help="folder with the published networks, for the method 'paper'")
    parser.add_argument("--development", action="store_true", help="the graphs on which settings may be chosen")
    parser.add_argument("--results", default="paper", help="name of the results file")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.n_graphs, arguments.experiments, arguments.experiments_per_graph = 3, ["grids"], [10]
        arguments.methods, arguments.results = ["ours", "adam", "oracle"], "paper_quick"
    if "paper" in arguments.methods and not arguments.checkpoints:
        parser.error("the method 'paper' runs the published networks; say where they are by --checkpoints")
    rows = list(summarise(run(arguments, RESULTS / f"{arguments.results}.jsonl")))
    publish(arguments.results, show(rows))
    draw(rows, RESULTS / arguments.results)


if __name__ == "__main__":
    main()
