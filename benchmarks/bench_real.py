"""Real networks, simulated by pandapower and wntr: who finds the hidden edges, and how strong they are?

    python benchmarks/bench_real.py                                   # needs pip install "sklearn-graphid[real]"
    python benchmarks/bench_real.py --resume                          # what a run before has left to do
    python benchmarks/bench_real.py --networks "57 buses, DC" --k 10 50 --methods "constrained least squares" --seeds 3

Power grids: changes of the power fed in, and of voltage angles, by DC and by AC power flow. Water: changes of demands,
and of heads. 30% of the pairs are unknown; the noise is a share of the root mean square of the outputs, and is not
told. A seed draws inputs, noise and hidden pairs. Lines and pipes differ in strength by orders of magnitude, of which a
method that takes all edges for alike knows nothing.

Rows are written as they come. `--resume` keeps those that this version of the package and of the method has made,
drops others, and adds what is asked for and not there yet; table and figure then show all rows.

One Lasso for each node, the usual way for directed systems, is in bench_directed.py. Here the potentials follow from
the inverse of a matrix, of which it would find the entries and not the edges.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _results import RESULTS, all_fitted, code_version, command_line, publish, read_rows, table, write_rows
from sklearn.metrics import average_precision_score

from sklearn_graphid import (
    AdamSystemIdentifier,
    ConstrainedLeastSquaresIdentifier,
    LangevinSystemIdentifier,
    RidgeSystemIdentifier,
    SmoothSignalIdentifier,
    System,
    identify_many,
)
from sklearn_graphid.datasets import hide_edges, make_power_grid, make_water_network
from sklearn_graphid.filters import GraphFilter, SteadyStateFilter

UNKNOWN = 0.3
NETWORKS: dict[str, Callable[..., Any]] = {
    "14 buses, DC": partial(make_power_grid, "case14", flow="dc"),
    "14 buses, AC": partial(make_power_grid, "case14", flow="ac"),
    "39 buses, DC": partial(make_power_grid, "case39", flow="dc"),
    "39 buses, AC": partial(make_power_grid, "case39", flow="ac"),
    "water, Net2": partial(make_water_network, "Net2"),
    "30 buses, DC": partial(make_power_grid, "case30", flow="dc"),
    "57 buses, DC": partial(make_power_grid, "case57", flow="dc"),
    "118 buses, DC": partial(make_power_grid, "case118", flow="dc"),
    "water, Net1": partial(make_water_network, "Net1"),
    "water, Net3": partial(make_water_network, "Net3"),
}
DEFAULT_NETWORKS = list(NETWORKS)[:5]
METHODS: dict[str, Callable[[GraphFilter], Any]] = {
    "ours, strengths": lambda filter: LangevinSystemIdentifier(filter, edge_weights="positive", random_state=0),
    "ours, binary": lambda filter: LangevinSystemIdentifier(filter, random_state=0),
    "constrained least squares": ConstrainedLeastSquaresIdentifier,
    "ridge": RidgeSystemIdentifier,
    "smooth signals": SmoothSignalIdentifier,
    "Adam, strengths": lambda filter: AdamSystemIdentifier(filter, edge_weights="positive", random_state=0),
}
DEFAULT_METHODS = list(METHODS)[:5]
# What tells the rows apart.
KEY = ("network", "noise", "K", "method", "name")
# What is averaged over the seeds: the head of the column, and the name in a row of measures.
COLUMNS = {
    "F1": "edge_f1",
    "AUROC": "edge_roc_auc",
    "average precision": "average_precision",
    "ECE": "edge_calibration_error",
    "error of strengths": "strength_error",
    "seconds": "seconds",
}


def make_data(network: str, n_experiments: int, noise: float, seeds: list[int]) -> tuple[list[System], list[Any]]:
    """Systems, and what the loader returned for each."""
    loaded = [NETWORKS[network](n_experiments, noise=noise, random_state=seed) for seed in seeds]
    systems = []
    for seed, data in zip(seeds, loaded, strict=True):
        known = hide_edges(data.adjacency, UNKNOWN, random_state=seed)
        systems.append(System(data.X, data.Y, known, true_adjacency=data.adjacency, name=str(seed)))
    return systems, loaded


def made_by(method: str) -> str:
    """The settings of a method and the version of the package, on which its rows depend."""
    return f"{METHODS[method](SteadyStateFilter())!r}, unknown={UNKNOWN}, code={code_version()}"


def measure(method: str, systems: list[System], loaded: list[Any], n_jobs: int) -> list[dict[str, Any]]:
    """A row for each system."""
    estimator = METHODS[method](SteadyStateFilter(ground=loaded[0].ground))
    frame = all_fitted(identify_many(estimator, systems, n_jobs, keep_estimators=True))
    rows = []
    for row, data in zip(frame.to_dict("records"), loaded, strict=True):
        fitted = row["estimator"]
        pairs = fitted.known_edges_.unknown_pairs()
        row["average_precision"] = average_precision_score(data.adjacency[pairs], fitted.edge_probabilities_[pairs])
        row["strength_error"] = strength_error(fitted, data.weights, pairs)
        rows.append({key: row[key] for key in ("name", *COLUMNS.values())})
    return rows


def strength_error(fitted: Any, weights: np.ndarray, pairs: Any) -> float | None:
    """The median relative error on hidden edges; None for a method without strengths."""
    if not hasattr(fitted, "weights_"):
        return None
    # Without a known strength theta has their scale; but those of least squares are in the units of the data.
    scale = 1.0 if isinstance(fitted, ConstrainedLeastSquaresIdentifier) else fitted.theta_[0]
    true, found = weights[pairs], fitted.weights_[pairs] / scale
    return float(np.median(np.abs(found - true)[true != 0] / np.abs(true[true != 0])))


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """The rows that are there already and those that are asked for, each written as soon as it is made."""
    versions = {method: made_by(method) for method in METHODS}
    rows: list[dict[str, Any]] = []
    if arguments.resume:
        before = read_rows(arguments.output)
        rows = [row for row in before if row.get("made_by") == versions.get(row["method"])]
        print(f"{len(rows)} rows are kept, and {len(before) - len(rows)} of other code or settings dropped.")
    done = {tuple(row[part] for part in KEY) for row in rows}
    cells = itertools.product(arguments.networks, arguments.noise, arguments.k, arguments.methods)
    for network, noise, n_experiments, method in cells:
        setting = {"network": network, "noise": noise, "K": n_experiments, "method": method}
        seeds = [seed for seed in range(arguments.seeds) if (*setting.values(), str(seed)) not in done]
        if not seeds:
            continue
        systems, loaded = make_data(network, n_experiments, noise, seeds)
        measured = measure(method, systems, loaded, arguments.n_jobs)
        rows += [setting | row | {"made_by": versions[method]} for row in measured]
        write_rows(arguments.output, rows)
        print(*setting.values(), f"F1 {np.mean([row['edge_f1'] for row in measured]):.3f}", sep=", ", flush=True)
    return sorted(rows, key=_place)


def _place(row: dict[str, Any]) -> tuple[Any, ...]:
    """Where a row stands in the table."""
    return list(NETWORKS).index(row["network"]), row["noise"], row["K"], list(METHODS).index(row["method"]), row["name"]


def summaries(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each network, noise, number of experiments and method: means over the seeds, standard error of F1."""
    lines = []
    for setting, group in itertools.groupby(rows, key=lambda row: {part: row[part] for part in KEY[:-1]}):
        members = list(group)
        line: dict[str, Any] = setting | {"seeds": len(members)}
        for head, key in COLUMNS.items():
            values = [row[key] for row in members]
            line[head] = None if None in values else float(np.mean(values))
            if head == "F1":
                spread = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
                line["standard error"] = spread if spread is None else float(spread)
        lines.append(line)
    return lines


def draw(name: str, rows: list[dict[str, Any]]) -> None:
    """F1 as experiments are added, a panel for each network and noise."""
    import matplotlib.pyplot as plt

    networks, noises = (list(dict.fromkeys(row[key] for row in rows)) for key in ("network", "noise"))
    size = (3.4 * len(networks), 3.0 * len(noises))
    figure, axes = plt.subplots(
        len(noises), len(networks), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for (noise, network), ax in zip(itertools.product(noises, networks), axes.flat, strict=True):
        here = [row for row in rows if row["network"] == network and row["noise"] == noise]
        for method in dict.fromkeys(row["method"] for row in here):
            own = [row for row in here if row["method"] == method]
            errors = [row["standard error"] or 0.0 for row in own]
            # A method has its colour also where others are missing.
            look = {"color": f"C{list(METHODS).index(method)}", "marker": "o", "label": method}
            ax.errorbar([row["K"] for row in own], [row["F1"] for row in own], errors, **look)
        ax.set(title=f"{network}, noise {noise:.0%}", xscale="log", xlabel="experiments", ylim=(0, 1.05))
        sizes = sorted({row["K"] for row in here})
        ax.set_xticks(sizes, [str(size) for size in sizes])
        ax.minorticks_off()
        ax.spines[["top", "right"]].set_visible(False)
    axes[0, 0].set_ylabel("F1 of hidden pairs")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=len(METHODS), frameon=False
    )
    figure.savefig((RESULTS / name).with_suffix(".png"), dpi=110)


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="14 buses and Net1, 10 experiments, one seed", n_jobs=True)
    parser.add_argument("--networks", nargs="+", choices=list(NETWORKS), default=DEFAULT_NETWORKS)
    parser.add_argument("--k", nargs="+", type=int, default=[5, 10, 20, 50], help="how many experiments")
    parser.add_argument("--noise", nargs="+", type=float, default=[0.01, 0.05], help="shares of the outputs")
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=DEFAULT_METHODS)
    parser.add_argument("--output", default="real", help="the name of the files of results")
    parser.add_argument("--resume", action="store_true", help="keep the rows of an earlier run")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.output, arguments.networks = "real_quick", ["14 buses, DC", "water, Net1"]
        arguments.k, arguments.noise, arguments.seeds = [10], [0.01], 1
    rows = run(arguments)
    lines = summaries(rows)
    publish(arguments.output, table(lines[0], [line.values() for line in lines]), rows)
    draw(arguments.output, lines)


if __name__ == "__main__":
    main()
