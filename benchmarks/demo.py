"""Find the hidden edges of one network in three ways, compare them, and draw the best.

    python benchmarks/demo.py --output demo.png

The network comes from the same recipe as the graphs that the shipped prior "grids" has learned from, but from another
seed, so the prior has never seen it.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from sklearn_graphid import (
    AdamSystemIdentifier,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    System,
    compare_identifiers,
    load_prior,
)
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system
from sklearn_graphid.plotting import GraphDisplay

# Training used the seeds 0 and 1. How hard the task is depends on theta, which is drawn as in the paper.
NETWORK_SEED = 7
THETA_SEED = 8
HIDDEN_SHARE = 0.25
NOISE_STD = 1.0


def make_case(n_experiments: int) -> System:
    """Make the grid, hide a part of it, and let signals pass through it."""
    # Row by row the nodes are easily drawn; the methods do not care how they are numbered.
    adjacency = make_grid_graphs(1, shuffle_nodes=False, random_state=NETWORK_SEED)[0]
    theta = np.random.default_rng(THETA_SEED).uniform(-0.1, 0.1, size=3)
    X, Y = make_system(adjacency, "polynomial", theta, n_experiments, noise_std=NOISE_STD, random_state=NETWORK_SEED)
    known = hide_edges(adjacency, HIDDEN_SHARE, random_state=NETWORK_SEED)
    return System(X, Y, known, true_adjacency=adjacency, true_theta=theta)


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


def run(identifiers: dict[str, Any], case: System) -> pd.DataFrame:
    """Fit every method, and judge it on the hidden pairs; a row for each."""
    frame = compare_identifiers(identifiers, [case], keep_estimators=True)
    for message in frame["error_message"].dropna():
        raise ValueError(message)
    for row in frame[frame["warnings"] != ""].itertuples():
        print(f"{row.method}: {row.warnings}", file=sys.stderr)
    return frame


def question(case: System) -> str:
    """What is asked, in words."""
    n_nodes, n_edges = len(case.true_adjacency), int(case.true_adjacency.sum() / 2)
    height, width = grid_shape(case.true_adjacency)
    n_extra = n_edges - height * (width - 1) - width * (height - 1)
    n_hidden_edges = int(case.true_adjacency[case.known_mask.unknown_pairs()].sum())
    theta = ", ".join(f"{value:.3f}" for value in case.true_theta)
    return (
        f"The network   a grid of {height} x {width} nodes with {n_extra} extra edges, {n_edges} edges in all.\n"
        f"Hidden        {case.known_mask.n_unknown} of its {n_nodes * (n_nodes - 1) // 2} pairs of nodes; "
        f"{n_hidden_edges} of them are edges.\n"
        f"The process   y = (theta_0 I + theta_1 A + theta_2 A^2) x + noise, theta = ({theta}), hidden as well.\n"
        f"Measured      {len(case.X)} experiments: input x, output y.\n"
        f"Asked for     which of the hidden pairs are edges, and theta."
    )


def table(results: pd.DataFrame) -> str:
    """All results, aligned."""
    lines = [f"{'method':<40}{'F1':>6}{'AUROC':>8}{'theta NRMSE':>14}{'seconds':>10}"]
    for row in results.itertuples():
        scores = f"{row.edge_f1:>6.2f}{row.edge_roc_auc:>8.3f}{row.theta_nrmse:>14.3f}{row.seconds:>10.1f}"
        lines.append(f"{row.method:<40}{scores}")
    return "\n".join(lines)


def answer(case: System, results: pd.DataFrame) -> str:
    """What was found, in words."""
    pairs = case.known_mask.unknown_pairs()
    hidden = case.true_adjacency[pairs] == 1
    lines = []
    for identifier in results["estimator"]:
        drawn = identifier.adjacency_[pairs] == 1
        n_found, n_false = int((drawn & hidden).sum()), int((drawn & ~hidden).sum())
        name = type(identifier).__name__
        lines.append(f"{name} found {n_found} of the {hidden.sum()} hidden edges and drew {n_false} false ones.")
    return "\n".join(lines)


def draw(case: System, identifier: Any, path: Path) -> None:
    """Draw the truth, what is known, and what was inferred, side by side."""
    adjacency, known = case.true_adjacency, case.known_mask
    height, width = grid_shape(adjacency)
    row, column = np.divmod(np.arange(height * width), width)
    look: dict[str, Any] = {"pos": np.column_stack([row, -column] if height > width else [column, -row])}
    hidden = {"inferred": {"label": "hidden edge", "color": "black", "linewidth": 2.6}}
    found = {"found": {"label": "found, the wider the surer"}}
    figure = Figure(figsize=(13.5, 4.6), layout="constrained")
    truth_ax, known_ax, inferred_ax = figure.subplots(1, 3)
    GraphDisplay.from_predictions(adjacency, known, ax=truth_ax, styles=hidden, **look)
    GraphDisplay.from_predictions(known.values, known, ax=known_ax, show_unknown=True, **look)
    GraphDisplay.from_estimator(identifier, true_adjacency=adjacency, ax=inferred_ax, styles=found, **look)
    titles = {
        truth_ax: ("The network", f"{len(adjacency)} nodes, {int(adjacency.sum() / 2)} edges"),
        known_ax: ("What is known", f"{HIDDEN_SHARE:.0%} of all pairs may or may not be edges"),
        inferred_ax: ("What was inferred", f"from {len(case.X)} noisy inputs and outputs, and a prior for grids"),
    }
    for ax, (title, subtitle) in titles.items():
        ax.set_title(title, fontsize=15, fontweight="bold", pad=24)
        ax.text(0.5, 1.02, subtitle, transform=ax.transAxes, ha="center", fontsize=11, color="#555555")
    figure.savefig(path, dpi=100)


def main(arguments: Sequence[str] | None = None) -> pd.DataFrame:
    """Run the demo.

    Parameters
    ----------
    arguments : sequence of str, default=None
        The command line; None reads it from the process.

    Returns
    -------
    DataFrame
        A row for each method, the first of which is drawn; that of `compare_identifiers`.
    """
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("demo.png"), help="where the picture goes")
    parser.add_argument("--n-experiments", type=int, default=10, help="how many experiments to make")
    parser.add_argument("--n-chains", type=int, default=16, help="chains of the samplers; fewer are faster and worse")
    options = parser.parse_args(arguments)
    case = make_case(options.n_experiments)
    print(question(case), end="\n\n", flush=True)
    results = run(methods(options.n_chains), case)
    print(table(results), end="\n\n")
    print(answer(case, results), end="\n\n")
    draw(case, results["estimator"][0], options.output)
    print(f"{options.output} shows the network, what was known of it, and what the first method inferred.")
    return results


if __name__ == "__main__":
    main()
