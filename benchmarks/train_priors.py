"""Train the priors that ship with the package, and write their weights and cards.

    python benchmarks/train_priors.py grids --epochs 90
    python benchmarks/train_priors.py deezer-ego-nets --minutes 10 --zip path/to/deezer_ego_nets.zip
    python benchmarks/train_priors.py general --minutes 60 --zip path/to/deezer_ego_nets.zip --checkpoint general.part
    python benchmarks/train_priors.py general --without roads --folder path/to/folder --epochs 4 --zip ...

Deezer's ego-nets of 16 to 24 nodes are split once and for all by `deezer_split`: 300 graphs are never trained on and
serve the other benchmarks as unseen graphs. The general prior learns from every family of `make_graph_mixture`, from
the ego-nets that are trained on, and from grids; `--without` leaves a family out, to see how it does on what it has
never seen. A training that is interrupted goes on from its checkpoint.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _graph_families import FAMILIES, make_graph_mixture

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


def general_split(zip_path: str | None, without: str | None) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Many kinds of graphs, mostly small, as a large one takes the time of a hundred; and unseen ones."""
    families = [name for name in FAMILIES if name != without]
    mixture = partial(make_graph_mixture, families=families)
    training = mixture(28_000, max_nodes=40, random_state=0) + mixture(2_000, min_nodes=40, random_state=1)
    if without != "ego-nets":
        training += deezer_split(zip_path)[0]
    if without != "grids":
        training += make_grid_graphs(1_000, random_state=0)
    return training, make_graph_mixture(N_UNSEEN, max_nodes=60, random_state=2)


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


# Beside the defaults. A broad mixture takes a network that sees the whole graph, and batches that hold many kinds.
RECIPES: dict[str, dict[str, Any]] = {
    "grids": {},
    "deezer-ego-nets": {},
    "general": {
        "width": 16,
        "graph_context": True,
        "batch_size": 32,
        "learning_rate": 4e-3,
        "validation_fraction": 0.02,
    },
}
TRAINING_DATA = {
    "grids": "5,000 graphs of make_grid_graphs(5_000, random_state=0)",
    "deezer-ego-nets": "Deezer ego-nets of 16 to 24 nodes (SNAP), 300 of them left out; see deezer_split",
    "general": "30,000 graphs of make_graph_mixture, the 2,626 of deezer-ego-nets, and 1,000 grids; see general_split",
}


def train(arguments: argparse.Namespace) -> None:
    """Train one prior and write it."""
    name, minutes, seed = arguments.name, arguments.minutes, arguments.seed
    if name == "general":
        training, unseen = general_split(arguments.zip_path, arguments.without)
    else:
        training, unseen = grid_split() if name == "grids" else deezer_split(arguments.zip_path)
    prior = GraphPriorScore(
        max_epochs=arguments.epochs or 100_000,
        max_time=None if arguments.epochs else 60 * minutes,
        checkpoint_path=arguments.checkpoint,
        random_state=seed,
        **RECIPES[name],
    ).fit(training)
    length = f"--epochs {arguments.epochs}" if arguments.epochs else f"--minutes {minutes:g}"
    error = denoising_error(prior, unseen[:100])
    suffix = f"_without_{arguments.without.replace(' ', '_')}" if arguments.without else ""
    path = Path(arguments.folder) / f"{name}{suffix}.safetensors"
    prior.loss_history_ = {k: v[:: max(1, len(v) // 50)] for k, v in prior.loss_history_.items()}
    prior.save(path)
    card = {
        "name": name + suffix,
        "training_data": TRAINING_DATA[name],
        "n_training_graphs": len(training),
        "recipe": f"benchmarks/train_priors.py {name} {length} --seed {seed}",
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
    parser.add_argument("name", choices=list(RECIPES))
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--epochs", type=int, help="end after so many, however long they take, and not by the clock")
    parser.add_argument("--zip", dest="zip_path")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", help="a file from which an interrupted training goes on")
    parser.add_argument("--without", choices=FAMILIES, help="a family that the general prior shall not see")
    parser.add_argument("--folder", default=str(WEIGHTS), help="where to write; default: where shipped priors are")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    train(arguments)


if __name__ == "__main__":
    main()
