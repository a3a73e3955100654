"""Train the priors that ship with the package, and write their weights and cards.

    python benchmarks/train_priors.py grids --minutes 10
    python benchmarks/train_priors.py deezer-ego-nets --minutes 10 --zip path/to/deezer_ego_nets.zip

Deezer's ego-nets of 16 to 24 nodes are split once and for all by `deezer_split`: 300 graphs are never trained on and
serve the other benchmarks as unseen graphs.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

import sklearn_graphid
from sklearn_graphid import GraphPriorScore
from sklearn_graphid.datasets import fetch_deezer_ego_nets, make_grid_graphs

WEIGHTS = Path(sklearn_graphid.__file__).parent / "priors" / "weights"
REFERENCE_SIGMAS = (0.5, 0.4478, 0.3956, 0.3433, 0.2911, 0.2389, 0.1867)
N_UNSEEN = 300


def deezer_split(zip_path: str | None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Training graphs, and graphs that no prior has seen."""
    graphs = fetch_deezer_ego_nets(zip_path=zip_path, min_nodes=16, max_nodes=24)
    order = np.random.default_rng(0).permutation(len(graphs))
    return [graphs[i] for i in order[N_UNSEEN:]], [graphs[i] for i in order[:N_UNSEEN]]


def grid_split() -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The paper's 5,000 training graphs, and unseen ones from another seed."""
    return make_grid_graphs(5_000, random_state=0), make_grid_graphs(N_UNSEEN, random_state=1)


def denoising_error(
    prior: Any, graphs: list[np.ndarray], sigmas: Sequence[float] = REFERENCE_SIGMAS, n_draws: int = 4, seed: int = 2
) -> dict[str, list[float]]:
    """Mean squared error per pair of the denoised graphs at each noise level, with its standard error."""
    rng = np.random.default_rng(seed)
    means, errors = [], []
    for sigma in sigmas:
        per_graph = []
        for graph in graphs:
            noise = np.triu(rng.normal(size=(n_draws, *graph.shape)), 1)
            clean = prior.denoise(graph + sigma * (noise + noise.swapaxes(1, 2)), sigma)
            off_diagonal = len(graph) * (len(graph) - 1)
            per_graph.append(((clean - graph) ** 2).sum((1, 2)).mean() / off_diagonal)
        means.append(float(np.mean(per_graph)))
        errors.append(float(np.std(per_graph) / np.sqrt(len(per_graph))))
    return {"sigma": list(sigmas), "mean": means, "standard_error": errors}


def train(name: str, minutes: float, zip_path: str | None, seed: int) -> None:
    """Train one prior and write it."""
    training, unseen = grid_split() if name == "grids" else deezer_split(zip_path)
    prior = GraphPriorScore(max_epochs=100_000, max_time=60 * minutes, random_state=seed).fit(training)
    error = denoising_error(prior, unseen[:100])
    path = WEIGHTS / f"{name}.safetensors"
    prior.loss_history_ = {k: v[:: max(1, len(v) // 50)] for k, v in prior.loss_history_.items()}
    prior.save(path)
    card = {
        "name": name,
        "training_data": {
            "grids": "5,000 graphs of make_grid_graphs(5_000, random_state=0)",
            "deezer-ego-nets": "Deezer ego-nets of 16 to 24 nodes (SNAP), 300 of them left out; see deezer_split",
        }[name],
        "n_training_graphs": len(training),
        "recipe": f"benchmarks/train_priors.py {name} --minutes {minutes:g} --seed {seed}",
        "n_epochs": prior.n_iter_,
        "random_state": seed,
        "date": datetime.date.today().isoformat(),
        "torch": torch.__version__.split("+")[0],
        "held_out_denoising_error": {k: [round(v, 6) for v in vs] for k, vs in error.items()},
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    path.with_suffix(".json").write_text(json.dumps(card, indent=2) + "\n")
    print(json.dumps(card, indent=2))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=["grids", "deezer-ego-nets"])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--zip", dest="zip_path")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    train(arguments.name, arguments.minutes, arguments.zip_path, arguments.seed)


if __name__ == "__main__":
    main()
