"""The question a sampler answers, in tensors: which values of the unknown pairs and of theta explain the outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .._utils._numbers import FloatArray
from ..filters import EdgeChanges, GraphFilter
from ..filters._base import FixedParameters, with_fixed_parameters
from ..graphs import EdgeSpace, KnownEdges

__all__ = ["SMALLEST_NOISE", "Likelihood", "Problem", "have_outputs", "noise_std_from", "with_outputs"]

# The smallest noise level that is drawn, relative to the outputs.
SMALLEST_NOISE = 1e-6


class Likelihood(NamedTuple):
    """Log-likelihood of every chain and its gradients, up to a constant that depends on nothing sampled."""

    log_likelihood: Tensor  # (chains,)
    pair_gradient: Tensor  # (chains, unknown pairs), of the half-vectorised matrix
    theta_gradient: Tensor  # (chains, parameters)


@dataclass(frozen=True)
class Problem:
    """Data, filter and what is known.

    The unknown pairs are kept as a vector, the half-vectorisation of the paper, and spread into a matrix, symmetric
    unless the graph is directed, where the filter or the prior wants one. Where edges have strengths, known edges whose
    strength is not known are free too, and come after the unknown pairs.

    Where the noise differs from node to node, residuals are divided by their node's level relative to the common one,
    and samplers see noise that is the same everywhere.
    """

    filter: GraphFilter
    inputs: Tensor  # (experiments, nodes)
    targets: Tensor  # (experiments, nodes) or (chains, experiments, nodes), zero where nothing was measured
    measured: Tensor  # (experiments, nodes), 1 over the relative noise where the output was measured and 0 elsewhere
    base: Tensor  # (nodes, nodes), the known edges, or their known strengths
    space: EdgeSpace  # what is free: the unknown pairs, then known edges of unknown strength
    n_measured: int  # how many numbers were measured
    output_power: float  # mean square of the outputs that were measured
    presence: Tensor  # (nodes, nodes), the known edges
    known_strengths: Tensor  # (n,) the strengths that are known
    n_certain: int = 0  # how many known edges are free

    @classmethod
    def from_numpy(
        cls,
        inputs: FloatArray,
        outputs: FloatArray,
        known: KnownEdges,
        filter: GraphFilter,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        has_strengths: bool = False,
        relative_noise: FloatArray | None = None,
    ) -> Problem:
        """Move the data to the device.

        nan in `outputs` means that nothing was measured there. `relative_noise` (nodes,) is how the noise of a node
        compares with the common level; None where it is the same at all nodes.
        """
        measured = (~np.isnan(outputs)).astype(np.float64)
        if relative_noise is not None:
            measured = measured / relative_noise
        base, space, strengths, n_certain = known.values, known.space, np.empty(0), 0
        if has_strengths:
            certain = known.edges_without_weight()
            base, strengths = known.known_weights(), known.edges_with_weight().gather(known.known_weights())
            space, n_certain = space.joined(certain), certain.n_free
        return cls(
            filter=with_fixed_parameters(filter),
            # Frames keep their columns together, arrays their rows; products of the two differ in their last bits.
            inputs=torch.tensor(np.ascontiguousarray(inputs), dtype=dtype, device=device),
            targets=torch.tensor(np.nan_to_num(outputs), dtype=dtype, device=device),
            measured=torch.tensor(measured, dtype=dtype, device=device),
            base=torch.tensor(base, dtype=dtype, device=device),
            space=space.to(device),
            n_measured=int((~np.isnan(outputs)).sum()),
            output_power=float(np.nanmean(outputs**2)),
            presence=torch.tensor(known.values, dtype=dtype, device=device),
            known_strengths=torch.tensor(strengths, dtype=dtype, device=device),
            n_certain=n_certain,
        )

    def of_presence(self) -> Problem:
        """The problem as priors see it: in single precision, the unknown pairs alone, edges that are there or not."""
        presence = self.presence.float()
        space = self.space.select(slice(0, self.n_unknown))
        return replace(self, base=presence, presence=presence, space=space, n_certain=0)

    @property
    def n_nodes(self) -> int:
        """Nodes of the graph."""
        return self.base.shape[0]

    @property
    def n_unknown(self) -> int:
        """Unknown pairs."""
        return self.space.n_free - self.n_certain

    @property
    def scale(self) -> float:
        """The size of the data, which floors are relative to: the outputs' rms; the inputs' where outputs are zero."""
        for power in (self.output_power, float(self.inputs.double().square().mean())):
            if power > 0:
                return math.sqrt(power)
        return 1.0

    @cached_property
    def is_complete(self) -> bool:
        """Whether every output was measured, and all with the same noise."""
        return bool((self.measured == 1).all())

    def assemble(self, pairs: Tensor) -> Tensor:
        """Matrices (chains, nodes, nodes) with (chains, unknown pairs) in what is free, over what is known."""
        matrices: Tensor = self.space.filled(pairs, self.base)
        return matrices

    def scatter(self, pairs: Tensor) -> Tensor:
        """The same, zero where the graph is known."""
        matrices: Tensor = self.space.filled(pairs, torch.zeros_like(self.base))
        return matrices

    def gather(self, matrices: Tensor) -> Tensor:
        """The unknown pairs' entries (chains, unknown pairs) of matrices."""
        pairs: Tensor = self.space.gather(matrices)
        return pairs

    def residuals(self, adjacency: Tensor, theta: Tensor) -> Tensor:
        """Measured minus predicted outputs over their relative noise, zero where nothing was measured."""
        return (self.targets - self.filter.apply(adjacency, theta, self.inputs)) * self.measured

    def edge_changes(self, adjacency: Tensor, theta: Tensor) -> EdgeChanges:
        """What changes of single pairs do to the fit."""
        measured = None if self.is_complete else self.measured
        data = self.inputs, self.targets, measured, self.space.directed
        return self.filter.edge_changes(adjacency, theta, *data)

    def log_likelihood(self, adjacency: Tensor, theta: Tensor, noise_std: Tensor) -> Tensor:
        """Gaussian log-likelihood for every chain, the normalisation by the common noise level included."""
        squares = self.residuals(adjacency, theta).square().sum((-2, -1))
        return -0.5 * squares / noise_std**2 - self.n_measured * noise_std.log()

    def likelihood(self, adjacency: Tensor, theta: Tensor, noise_std: Tensor) -> Likelihood:
        """Log-likelihood with its gradients (equation 10 of the paper, differentiated)."""
        outputs, pullback = self.filter.linearize(adjacency, theta, self.inputs)
        residuals = (self.targets - outputs) * self.measured
        gradient, theta_gradient = pullback(residuals * self.measured / noise_std[:, None, None] ** 2)
        squares = residuals.square().sum((-2, -1))
        pair_gradient = self.space.pull_back(gradient)
        log_likelihood = -0.5 * squares / noise_std**2 - self.n_measured * noise_std.log()
        return Likelihood(log_likelihood, pair_gradient, theta_gradient)


def noise_std_from(problem: Problem, squares: Tensor, gamma: Tensor) -> Tensor:
    """Draw the noise level given the sum of squared residuals (chains,), under the prior 1 / variance.

    `gamma` (chains,) holds draws from the gamma law whose shape is half the number of measurements.
    """
    # Exact outputs leave no residuals; the floor is where single precision can no longer tell.
    return (0.5 * squares / gamma).sqrt().clamp_min(SMALLEST_NOISE * problem.scale)


# Graphs on which the filter has outputs: some filters have none on a graph that falls into pieces.


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
