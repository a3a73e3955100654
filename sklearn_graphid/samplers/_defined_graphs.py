"""Graphs on which the filter has outputs: some filters have none on a graph that falls into pieces."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .._utils._numbers import FloatArray
from ..filters._fixed import FixedParameters
from ._problem import Problem

__all__ = ["have_outputs", "with_outputs"]


def have_outputs(problem: Problem, adjacency: Tensor) -> Tensor:
    """Which graphs (chains, nodes, nodes) are in no more pieces than the known pairs make unavoidable: (chains,).

    A filter that has outputs on any graph does not count pieces; then all of them are.
    """
    n_loose = problem.filter.n_loose(adjacency)
    fewest = problem.filter.n_loose(problem.assemble(adjacency.new_ones(1, problem.space.n_free)))
    if n_loose is None or fewest is None:
        return torch.ones(len(adjacency), dtype=torch.bool, device=adjacency.device)
    return n_loose <= fewest


def with_outputs(problem: Problem, is_edge: Tensor, preference: Tensor) -> Tensor:
    """Graphs (chains, free pairs) of bool, with the edges added that join their pieces.

    Of all pairs that would join two pieces, those with the largest `preference` (chains, free pairs) become edges: the
    edges of a maximum spanning forest, by Prim's algorithm.
    """
    is_whole = have_outputs(problem, problem.assemble(is_edge.to(problem.base)))
    if bool(is_whole.all()):
        return is_edge
    filter = problem.filter.filter if isinstance(problem.filter, FixedParameters) else problem.filter
    root = getattr(filter, "ground", None) or 0
    # Edges cost nothing, and pairs that are not known the more the less they are preferred, a finite amount.
    highest = preference.nan_to_num(0.0, 0.0, 0.0)
    costs = torch.where(is_edge, 0.0, 1 + highest.amax(1, keepdim=True) - highest)
    matrices = problem.space.filled(costs, torch.where(problem.base > 0, 0.0, torch.inf).to(costs))
    is_edge = is_edge.clone()
    for chain in (~is_whole).nonzero()[:, 0].tolist():
        joined = np.zeros((problem.n_nodes, problem.n_nodes), dtype=bool)
        joined[_spanning_edges(matrices[chain].double().cpu().numpy(), root)] = True
        if not problem.space.directed:
            joined |= joined.T
        is_edge[chain] |= problem.gather(torch.tensor(joined, device=is_edge.device))
    return is_edge


def _spanning_edges(costs: FloatArray, root: int) -> tuple[list[int], list[int]]:
    """Rows and columns of a cheapest forest in which all nodes that can be are reached from the root."""
    n_nodes = len(costs)
    is_left, cost, source = np.ones(n_nodes, dtype=bool), np.full(n_nodes, np.inf), np.zeros(n_nodes, dtype=np.int64)
    node, rows, columns = root, list[int](), list[int]()
    for _ in range(n_nodes - 1):
        is_left[node] = False
        is_nearer = is_left & (costs[:, node] < cost)
        cost[is_nearer], source[is_nearer] = costs[is_nearer, node], node
        node = int(np.where(is_left, cost, np.inf).argmin())
        if not is_left[node]:  # none can be reached: another piece begins
            node = int(is_left.argmax())
        else:
            rows.append(node)
            columns.append(int(source[node]))
    return rows, columns
