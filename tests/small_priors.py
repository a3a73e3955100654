"""Small graphs, and priors that are trained on them in no time."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_graphid import GraphPriorScore
from sklearn_graphid.datasets import make_grid_graphs


def small_grids(n_graphs: int = 10, seed: int = 0) -> list[np.ndarray]:
    return make_grid_graphs(n_graphs, min_nodes=9, max_nodes=12, min_side=3, max_side=4, random_state=seed)


def quick(**changes: Any) -> GraphPriorScore:
    sizes = {"width": 4, "n_blocks": 2}
    return GraphPriorScore(**{"n_levels": 3, "max_epochs": 2, "random_state": 0, **sizes, **changes})


def same_weights(first: GraphPriorScore, second: GraphPriorScore) -> bool:
    return all(np.array_equal(value, second.weights_[name]) for name, value in first.weights_.items())


class Malicious:
    """Unpickling this runs a command that creates a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (f"touch {self.target}",)
