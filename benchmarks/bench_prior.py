"""How good and how fast the priors are.

    python benchmarks/bench_prior.py --zip path/to/deezer_ego_nets.zip [--checkpoints path/to/folder]

1. Denoising error per pair on unseen graphs at the reference noise levels, shipped priors against the published
   EDP-GNN checkpoints (measured, where the checkpoints are at hand, and as reported). The published network for Deezer
   was trained on graphs that are unseen here, so that only its reported figures are held out.
2. Time of a forward pass, side by side in one run, and peak memory at 200 nodes.
3. Graphs drawn from the priors against unseen ones: maximum mean discrepancy of degrees, clustering and spectrum,
   next to Erdos-Renyi graphs of the same density.
4. With `--conditioning-epochs`: what it buys to tell the network which pairs are known. Two networks are trained for
   so many epochs on grids, one as usual and one on fully noisy graphs alone. Both identify the same grids, a quarter
   of whose pairs are unknown, by the default sampler.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import torch
from _results import command_line, in_own_process, publish, table
from bench_paper import EXPERIMENTS, judge, make_case, pooled_calibration_error, unseen_graphs
from sklearn.frozen import FrozenEstimator
from train_priors import REFERENCE_SIGMAS, deezer_split, denoising_error, grid_split

from sklearn_graphid import GraphPriorScore, LangevinSystemIdentifier, load_prior
from sklearn_graphid.nn import build_network, graphs_at_once

CHECKPOINTS = {"grids": "edp_gnn_grids.pth", "deezer-ego-nets": "edp_gnn_deezer_ego_nets.pth"}
# Reported for the published checkpoints on held-out graphs, and for the best denoiser that sees one pair at a time.
REPORTED = {
    "grids": {
        "published": (0.0425, 0.0348, 0.0260, 0.0163, 0.0067, 0.0012, 0.00019),
        "one pair at a time": (0.0456, 0.0394, 0.0322, 0.0238, 0.0149, 0.0065, 0.0014),
    },
    "deezer-ego-nets": {
        "published": (0.0453, 0.0381, 0.0303, 0.0226, 0.0139, 0.0056, 0.0011),
        "one pair at a time": (0.0887, 0.0748, 0.0598, 0.0426, 0.0261, 0.0109, 0.0021),
    },
}


def bench_denoising(name: str, unseen: list[np.ndarray], checkpoints: str | None) -> list[dict[str, Any]]:
    """Rows of the first table."""
    rows = [{"prior": name, "network": f"{who}, as reported", "mean": row} for who, row in REPORTED[name].items()]
    if checkpoints:
        published = GraphPriorScore.from_edpgnn_checkpoint(Path(checkpoints) / CHECKPOINTS[name])
        sigmas = [float(sigma) for sigma in published.sigmas_[: len(REFERENCE_SIGMAS)]]
        rows.append({"prior": name, "network": "published, measured", **denoising_error(published, unseen, sigmas)})
    rows.append({"prior": name, "network": "shipped", **denoising_error(load_prior(name), unseen)})
    return rows


def seconds_per_call(function: Callable[[], Any], budget: float = 3.0) -> float:
    """Median time of a call."""
    function()
    times: list[float] = []
    while sum(times) < budget:
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def noisy_batch(n_graphs: int, n_nodes: int) -> torch.Tensor:
    """Symmetric matrices of no particular meaning."""
    noise = torch.randn(n_graphs, n_nodes, n_nodes, generator=torch.Generator().manual_seed(0))
    return 0.3 * (noise + noise.mT)


def bench_forward(n_graphs: int = 16, n_nodes: int = 45) -> list[dict[str, Any]]:
    """Rows of the second table: every network in turn, several times, so that all see the same machine."""
    batch, sigma = noisy_batch(n_graphs, n_nodes), torch.full((n_graphs,), 0.5)
    sigmas = list(np.linspace(0.5, 0.03, 10))
    ppgn, edp = build_network("ppgn", {}, 0).eval(), build_network("edp-gnn", {"sigmas": sigmas}, 0).eval()
    padded = noisy_batch(10 * n_graphs, n_nodes + 5)
    levels = torch.tensor(sigmas).repeat_interleave(n_graphs).float()
    at_once = graphs_at_once(n_nodes)
    parts = list(zip(batch.split(at_once), sigma.split(at_once), strict=True))
    calls = {
        "ppgn": lambda: [ppgn.denoise(*part) for part in parts],  # as the samplers call it
        "edp-gnn": lambda: edp.denoise(batch, sigma),
        "edp-gnn, ten padded levels": lambda: edp.denoise(padded, levels),
    }
    with torch.inference_mode():
        rounds = [{name: seconds_per_call(call, 1.0) for name, call in calls.items()} for _ in range(3)]
    best = {name: min(entry[name] for entry in rounds) for name in calls}
    return [{"network": name, "milliseconds": 1e3 * s, "over ppgn": s / best["ppgn"]} for name, s in best.items()]


def peak_memory(architecture: str, n_graphs: int = 16, n_nodes: int = 200) -> float:
    """Peak memory of this process, in megabytes, after one forward pass; the libraries' own share is in it."""
    settings = {"sigmas": list(np.linspace(0.5, 0.03, 10))} if architecture == "edp-gnn" else {}
    network = build_network(architecture, settings, 0).eval()
    with torch.inference_mode():
        network.denoise(noisy_batch(n_graphs, n_nodes), torch.full((n_graphs,), 0.5))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def histogram(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Counts as shares."""
    counts = np.histogram(values, edges)[0].astype(float)
    return counts / max(1.0, counts.sum())


STATISTICS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "degree": lambda a: histogram(a.sum(0), np.arange(26) - 0.5),
    "clustering": lambda a: histogram(
        np.array(list(nx.clustering(nx.from_numpy_array(a)).values())), np.linspace(0, 1, 21)
    ),
    "spectrum": lambda a: histogram(
        np.linalg.eigvalsh(nx.normalized_laplacian_matrix(nx.from_numpy_array(a)).toarray()), np.linspace(-1e-5, 2, 41)
    ),
}


def maximum_mean_discrepancy(first: np.ndarray, second: np.ndarray, width: float = 0.5) -> float:
    """Squared MMD of two sets of histograms under a Gaussian kernel of their total variation distance."""

    def kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        variation = 0.5 * np.abs(a[:, None] - b[None]).sum(-1)
        return np.exp(-(variation**2) / (2 * width**2))

    return float(kernel(first, first).mean() + kernel(second, second).mean() - 2 * kernel(first, second).mean())


def erdos_renyi_like(graphs: list[np.ndarray], rng: np.random.Generator) -> list[np.ndarray]:
    """Graphs of the same sizes and densities, and nothing else in common."""
    drawn = []
    for graph in graphs:
        n_nodes = len(graph)
        upper = np.triu(rng.random((n_nodes, n_nodes)) < graph.sum() / (n_nodes * (n_nodes - 1)), 1)
        drawn.append((upper + upper.T).astype(float))
    return drawn


def bench_generation(name: str, unseen: list[np.ndarray], others: list[np.ndarray]) -> list[dict[str, Any]]:
    """Rows of the third table."""
    rng = np.random.default_rng(0)
    prior = load_prior(name)
    drawn = []
    for size in sorted({len(graph) for graph in unseen}):
        n_graphs = sum(len(graph) == size for graph in unseen)
        drawn += prior.sample(n_graphs, n_nodes=size, random_state=size)
    sets = {"drawn from the prior": drawn, "Erdos-Renyi": erdos_renyi_like(unseen, rng), "training graphs": others}
    rows = []
    for label, graphs in sets.items():
        row: dict[str, Any] = {"prior": name, "graphs": label, "edges": float(np.mean([g.sum() / 2 for g in graphs]))}
        for statistic, function in STATISTICS.items():
            first, second = (np.array([function(g) for g in group]) for group in (graphs, unseen))
            row[statistic] = maximum_mean_discrepancy(first, second)
        rows.append(row)
    return rows


class BlindPrior(GraphPriorScore):
    """The same network, trained on fully noisy graphs and never told what is known."""

    _known_share = 0.0
    conditions_on_known = False

    def bind(self, n_nodes: int, device: Any, dtype: Any, known: Any = None) -> Any:
        """The denoiser, which is told nothing."""
        return super().bind(n_nodes, device, dtype)


def bench_conditioning(n_epochs: int, n_graphs: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of the fourth table."""
    setting = EXPERIMENTS["grids"]
    graphs = unseen_graphs("grids", n_graphs, None, development=True)
    rows = []
    for kind, label in ((GraphPriorScore, "told what is known"), (BlindPrior, "not told")):
        prior = kind(max_epochs=n_epochs, random_state=seed).fit(grid_split()[0])
        for n_experiments in (1, 5):
            identifier = LangevinSystemIdentifier("polynomial", FrozenEstimator(prior), noise_std=1.0, random_state=0)
            cases = [make_case(setting, graph, n_experiments, index) for index, graph in enumerate(graphs)]
            judged = list(judge(identifier, cases))
            f1 = np.array([one["f1"] for one in judged])
            row = {
                "network": label,
                "epochs": prior.n_iter_,
                "K": n_experiments,
                "graphs": n_graphs,
                "F1": float(f1.mean()),
            }
            row |= {"standard error": float(f1.std() / np.sqrt(n_graphs)), "ECE": pooled_calibration_error(judged)}
            rows.append(row)
    return rows


def as_table(rows: list[dict[str, Any]]) -> str:
    """Markdown."""
    columns = list(dict.fromkeys(key for row in rows for key in row if key not in ("sigma", "mean", "standard_error")))
    if "mean" in rows[0]:
        columns += [f"sigma {sigma:g}" for sigma in REFERENCE_SIGMAS]
        rows = [{**row, **_error_cells(row)} for row in rows]
    return table(columns, [[row.get(column) for column in columns] for row in rows], ".4g")


def _error_cells(row: dict[str, Any]) -> dict[str, str]:
    errors = row.get("standard_error", [None] * len(REFERENCE_SIGMAS))
    return {
        f"sigma {sigma:g}": f"{mean:.5f}" + (f" ± {error:.5f}" if error is not None else "")
        for sigma, mean, error in zip(REFERENCE_SIGMAS, row["mean"], errors, strict=True)
    }


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="twenty grids, no Deezer", deezer=True)
    parser.add_argument("--checkpoints", help="folder with the published networks")
    parser.add_argument("--n-graphs", type=int, default=100)
    parser.add_argument("--conditioning-epochs", type=int, default=0, help="0: leave the fourth part out")
    arguments = parser.parse_args()
    names = ["grids"] if arguments.quick else ["grids", "deezer-ego-nets"]
    n_graphs = 20 if arguments.quick else arguments.n_graphs
    denoising, generation = [], []
    for name in names:
        training, unseen = grid_split() if name == "grids" else deezer_split(arguments.zip_path)
        denoising += bench_denoising(name, unseen[:n_graphs], arguments.checkpoints)
        generation += bench_generation(name, unseen[:n_graphs], training[:n_graphs])
    forward = bench_forward()
    megabytes = {network: in_own_process(peak_memory, network) for network in ("ppgn", "edp-gnn")}
    memory = [{"network": network, "megabytes for 16 graphs of 200 nodes": peak} for network, peak in megabytes.items()]
    parts = {"denoising error per pair": denoising, "forward pass, 16 graphs of 45 nodes": forward}
    parts |= {"memory": memory, "generated graphs, squared MMD against unseen graphs": generation}
    if arguments.conditioning_epochs:
        told = bench_conditioning(arguments.conditioning_epochs, 20)
        parts["grids, a quarter of the pairs unknown: telling the network what is known"] = told
    text = "\n\n".join(f"## {title}\n\n{as_table(rows)}" for title, rows in parts.items())
    publish("prior_quick" if arguments.quick else "prior", text, parts)


if __name__ == "__main__":
    main()
