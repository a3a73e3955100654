"""Real networks, simulated by pandapower and wntr: who finds the hidden edges, and how strong they are?

    python benchmarks/bench_real.py                                   # needs pip install "sklearn-graphid[real]"
    python benchmarks/bench_real.py --networks "57 buses, DC" --methods "constrained least squares" --seeds 3

Power grids: changes of the power fed in, and of voltage angles, by DC and by AC power flow. Water: changes of demands,
and of heads. 30% of the pairs are unknown; the noise is a share of the root mean square of the outputs, and is not
told. A seed draws inputs, noise and hidden pairs. Lines and pipes differ in strength by orders of magnitude, of which a
method that takes all edges for alike knows nothing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from _results import RESULTS, all_fitted, command_line, publish, table
from sklearn.metrics import average_precision_score

from sklearn_graphid import (
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
}
# What is averaged over the seeds: the head of the column, and the name in a row of measures.
COLUMNS = {
    "F1": "edge_f1",
    "AUROC": "edge_roc_auc",
    "average precision": "average_precision",
    "ECE": "edge_calibration_error",
    "error of strengths": "strength_error",
    "seconds": "seconds",
}


def make_data(network: str, n_experiments: int, noise: float, n_seeds: int) -> tuple[list[System], list[Any]]:
    """Systems, and what the loader returned for each."""
    loaded = [NETWORKS[network](n_experiments, noise=noise, random_state=seed) for seed in range(n_seeds)]
    systems = []
    for seed, data in enumerate(loaded):
        known = hide_edges(data.adjacency, UNKNOWN, random_state=seed)
        systems.append(System(data.X, data.Y, known, true_adjacency=data.adjacency, name=str(seed)))
    return systems, loaded


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
    # Without a known strength the sampler's have a unit of their own, and theta has the scale; those of least squares
    # are in the units of the data.
    scale = fitted.theta_[0] if hasattr(fitted, "weights_std_") else 1.0
    true, found = weights[pairs], fitted.weights_[pairs] / scale
    return float(np.median(np.abs(found - true)[true != 0] / np.abs(true[true != 0])))


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds, and the standard error of F1."""
    means = {}
    for head, key in COLUMNS.items():
        values = [row[key] for row in rows]
        means[head] = None if None in values else float(np.mean(values))
        if head == "F1":
            means["standard error"] = float(np.std(values, ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return means


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
            ax.errorbar([row["K"] for row in own], [row["F1"] for row in own], errors, marker="o", label=method)
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
    parser.add_argument("--n-experiments", nargs="+", type=int, default=[5, 10, 20, 50], metavar="K")
    parser.add_argument("--noise", nargs="+", type=float, default=[0.01, 0.05])
    parser.add_argument("--seeds", type=int, default=5, help="how many")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--output", default="real", help="the name of the files of results")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.output, arguments.networks = "real_quick", ["14 buses, DC", "water, Net1"]
        arguments.n_experiments, arguments.noise, arguments.seeds = [10], [0.01], 1
    rows, details = [], []
    settings = itertools.product(arguments.networks, arguments.noise, arguments.n_experiments)
    for network, noise, n_experiments in settings:
        systems, loaded = make_data(network, n_experiments, noise, arguments.seeds)
        for method in arguments.methods:
            setting = {"network": network, "noise": noise, "K": n_experiments, "method": method}
            measured = measure(method, systems, loaded, arguments.n_jobs)
            details += [setting | row for row in measured]
            rows.append(setting | summary(measured))
            print({key: round(value, 3) if isinstance(value, float) else value for key, value in rows[-1].items()})
    publish(arguments.output, table(rows[0], [row.values() for row in rows]), details)
    draw(arguments.output, rows)


if __name__ == "__main__":
    main()
