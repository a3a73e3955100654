"""Find the hidden edges of one network in three ways, compare them, and draw the best.

    python benchmarks/demo.py --output demo.png

The network comes from the same recipe as the graphs that the shipped prior "grids" has learned from, but from another
seed, so the prior has never seen it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
from matplotlib.figure import Figure

from sklearn_graphid import (
    AdamSystemIdentifier,
    KnownEdges,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    load_prior,
)
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system
from sklearn_graphid.metrics import edge_f1_score, edge_roc_auc_score, theta_nrmse
from sklearn_graphid.plotting import GraphDisplay

# Training used the seeds 0 and 1. How hard the task is depends on theta, which is drawn as in the paper.
NETWORK_SEED = 7
THETA_SEED = 8
HIDDEN_SHARE = 0.25
NOISE_STD = 1.0


class Case(NamedTuple):
    """A network, the process on it, and what the methods get to see of both: X, Y and the known pairs."""

    adjacency: np.ndarray
    theta: np.ndarray
    X: np.ndarray
    Y: np.ndarray
    known: KnownEdges

    @property
    def n_hidden_edges(self) -> int:
        """How many of the hidden pairs are edges."""
        return int(self.adjacency[self.known.unknown_pairs()].sum())


class Result(NamedTuple):
    """A fitted method and how well it did."""

    name: str
    identifier: Any
    f1: float
    auroc: float
    theta_error: float
    seconds: float


def make_case(n_experiments: int) -> Case:
    """Make the grid, hide a part of it, and let signals pass through it."""
    # Row by row the nodes are easily drawn; the methods do not care how they are numbered.
    adjacency = make_grid_graphs(1, shuffle_nodes=False, random_state=NETWORK_SEED)[0]
    theta = np.random.default_rng(THETA_SEED).uniform(-0.1, 0.1, size=3)
    X, Y = make_system(adjacency, "polynomial", theta, n_experiments, noise_std=NOISE_STD, random_state=NETWORK_SEED)
    return Case(adjacency, theta, X, Y, hide_edges(adjacency, HIDDEN_SHARE, random_state=NETWORK_SEED))


def grid_shape(adjacency: np.ndarray) -> tuple[int, int]:
    """Height and width of the grid that, with a few edges added, is this network."""
    n_nodes = len(adjacency)
    for height in range(2, n_nodes // 2 + 1):
        grid = nx.to_numpy_array(nx.grid_2d_graph(height, n_nodes // height))
        if len(grid) == n_nodes and (adjacency >= grid).all():
            return height, n_nodes // height
    raise ValueError("the network is not a grid whose nodes are numbered row by row.")


def methods(n_chains: int) -> dict[str, Any]:
    """The paper's method with the learned prior, and the two it is compared with."""
    return {
        "LangevinSystemIdentifier, learned prior": LangevinSystemIdentifier(
            "polynomial", load_prior("grids"), n_chains=n_chains, random_state=0
        ),
        "LikelihoodLangevinIdentifier, no prior": LikelihoodLangevinIdentifier(
            "polynomial", n_chains=n_chains, random_state=0
        ),
        "AdamSystemIdentifier, no prior": AdamSystemIdentifier("polynomial", random_state=0),
    }


def run(name: str, identifier: Any, case: Case) -> Result:
    """Fit one method and judge it on the hidden pairs."""
    start = time.perf_counter()
    identifier.fit(case.X, case.Y, case.known)
    seconds = time.perf_counter() - start
    return Result(
        name,
        identifier,
        edge_f1_score(case.adjacency, identifier.adjacency_, case.known),
        edge_roc_auc_score(case.adjacency, identifier.edge_probabilities_, case.known),
        theta_nrmse(case.theta, identifier.theta_),
        seconds,
    )


def question(case: Case) -> str:
    """What is asked, in words."""
    n_nodes, n_edges = len(case.adjacency), int(case.adjacency.sum() / 2)
    height, width = grid_shape(case.adjacency)
    n_extra = n_edges - height * (width - 1) - width * (height - 1)
    theta = ", ".join(f"{value:.3f}" for value in case.theta)
    return (
        f"The network   a grid of {height} x {width} nodes with {n_extra} extra edges, {n_edges} edges in all.\n"
        f"Hidden        {case.known.n_unknown} of its {n_nodes * (n_nodes - 1) // 2} pairs of nodes; "
        f"{case.n_hidden_edges} of them are edges.\n"
        f"The process   y = (theta_0 I + theta_1 A + theta_2 A^2) x + noise, theta = ({theta}), hidden as well.\n"
        f"Measured      {len(case.X)} experiments: input x, output y.\n"
        f"Asked for     which of the hidden pairs are edges, and theta."
    )


def table(results: Sequence[Result]) -> str:
    """All results, aligned."""
    lines = [f"{'method':<40}{'F1':>6}{'AUROC':>8}{'theta NRMSE':>14}{'seconds':>10}"]
    for result in results:
        scores = f"{result.f1:>6.2f}{result.auroc:>8.3f}{result.theta_error:>14.3f}{result.seconds:>10.1f}"
        lines.append(f"{result.name:<40}{scores}")
    return "\n".join(lines)


def answer(case: Case, results: Sequence[Result]) -> str:
    """What was found, in words."""
    pairs = case.known.unknown_pairs()
    hidden = case.adjacency[pairs] == 1
    lines = []
    for result in results:
        drawn = result.identifier.adjacency_[pairs] == 1
        n_found, n_false = int((drawn & hidden).sum()), int((drawn & ~hidden).sum())
        name = type(result.identifier).__name__
        lines.append(f"{name} found {n_found} of the {case.n_hidden_edges} hidden edges and drew {n_false} false ones.")
    return "\n".join(lines)


def draw(case: Case, result: Result, path: Path) -> None:
    """Draw the truth, what is known, and what was inferred, side by side."""
    height, width = grid_shape(case.adjacency)
    row, column = np.divmod(np.arange(height * width), width)
    look: dict[str, Any] = {"pos": np.column_stack([row, -column] if height > width else [column, -row])}
    hidden = {"inferred": {"label": "hidden edge", "color": "black", "linewidth": 2.6}}
    found = {"found": {"label": "found, the wider the surer"}}
    figure = Figure(figsize=(13.5, 4.6), layout="constrained")
    truth_ax, known_ax, inferred_ax = figure.subplots(1, 3)
    GraphDisplay.from_predictions(case.adjacency, case.known, ax=truth_ax, styles=hidden, **look)
    GraphDisplay.from_predictions(case.known.values, case.known, ax=known_ax, show_unknown=True, **look)
    GraphDisplay.from_estimator(result.identifier, true_adjacency=case.adjacency, ax=inferred_ax, styles=found, **look)
    titles = {
        truth_ax: ("The network", f"{len(case.adjacency)} nodes, {int(case.adjacency.sum() / 2)} edges"),
        known_ax: ("What is known", f"{HIDDEN_SHARE:.0%} of all pairs may or may not be edges"),
        inferred_ax: ("What was inferred", f"from {len(case.X)} noisy inputs and outputs, and a prior for grids"),
    }
    for ax, (title, subtitle) in titles.items():
        ax.set_title(title, fontsize=15, fontweight="bold", pad=24)
        ax.text(0.5, 1.02, subtitle, transform=ax.transAxes, ha="center", fontsize=11, color="#555555")
    figure.savefig(path, dpi=100)


def main(arguments: Sequence[str] | None = None) -> list[Result]:
    """Run the demo.

    Parameters
    ----------
    arguments : sequence of str, default=None
        The command line; None reads it from the process.

    Returns
    -------
    list of Result
        One for each method, the first of which is drawn.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("demo.png"), help="where the picture goes")
    parser.add_argument("--n-experiments", type=int, default=10, help="how many experiments to make")
    parser.add_argument("--n-chains", type=int, default=16, help="chains of the samplers; fewer are faster and worse")
    options = parser.parse_args(arguments)
    case = make_case(options.n_experiments)
    print(question(case), end="\n\n", flush=True)
    results = [run(name, identifier, case) for name, identifier in methods(options.n_chains).items()]
    print(table(results), end="\n\n")
    print(answer(case, results), end="\n\n")
    draw(case, results[0], options.output)
    print(f"{options.output} shows the network, what was known of it, and what the first method inferred.")
    return results


if __name__ == "__main__":
    main()
