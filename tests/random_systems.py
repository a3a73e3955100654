"""Random systems: graph, strengths, filter, inputs, outputs with noise and gaps, and a known part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import linalg

from sklearn_graphid.filters import (
    ARMAFilter,
    CallableFilter,
    HeatDiffusionFilter,
    PolynomialFilter,
    SteadyStateFilter,
)


def pick(rng, *choices):
    """One of the choices; `rng.choice` would turn them into an array."""
    return choices[rng.integers(len(choices))]


def saturating(adjacency, theta):
    """A filter of the user's, for one matrix or a batch of them, which reads the first one."""
    assert adjacency.dim() == 2 or len(adjacency), "called without a graph"
    identity = torch.eye(adjacency.shape[-1], dtype=adjacency.dtype, device=adjacency.device)
    first, second = theta[..., 0, None, None], theta[..., 1, None, None]
    return identity + first * adjacency + second * torch.tanh(adjacency @ adjacency)


def filter_matrix(filter, adjacency, theta):
    """h(A) in numpy, written from the definitions."""
    if isinstance(filter, PolynomialFilter):
        return polynomial_matrix(shift_matrix(filter.shift, adjacency), theta)
    if isinstance(filter, HeatDiffusionFilter):
        kind = "laplacian" if filter.laplacian == "combinatorial" else "normalized-laplacian"
        return linalg.expm(-theta[0] * shift_matrix(kind, adjacency))
    if isinstance(filter, SteadyStateFilter):
        return theta[0] * steady_state_matrix(filter, adjacency)
    if isinstance(filter, ARMAFilter):
        numerator, denominator = theta[: filter.ma_order + 1], [1.0, *theta[filter.ma_order + 1 :]]
        return np.linalg.solve(polynomial_matrix(adjacency, denominator), polynomial_matrix(adjacency, numerator))
    return np.eye(len(adjacency)) + theta[0] * adjacency + theta[1] * np.tanh(adjacency @ adjacency)


def polynomial_matrix(matrix, coefficients):
    return sum(c * np.linalg.matrix_power(matrix, power) for power, c in enumerate(coefficients))


def shift_matrix(kind, adjacency):
    if kind == "adjacency":
        return adjacency
    degrees = adjacency.sum(1)
    laplacian = np.diag(degrees) - adjacency
    return laplacian if kind == "laplacian" else laplacian / np.sqrt(np.outer(degrees.clip(1), degrees.clip(1)))


def conductance_matrix(filter, adjacency):
    """What potentials are multiplied by to give inflows, at all nodes that are not grounded; their numbers too."""
    free = np.array([node for node in range(len(adjacency)) if node != filter.ground], dtype=int)
    matrix = shift_matrix("laplacian", adjacency) + filter.leak * np.eye(len(adjacency))
    return matrix[np.ix_(free, free)], free


def steady_state_matrix(filter, adjacency):
    matrix, free = conductance_matrix(filter, adjacency)
    potentials = np.zeros_like(adjacency)
    potentials[np.ix_(free, free)] = np.linalg.pinv(matrix)
    return potentials


def draw_filter(rng, weights, directed):
    """A filter, and parameters for which it does not amplify much."""
    degree = max(1.0, np.abs(weights).sum(1).max())
    kind = pick(rng, "polynomial", "polynomial", "heat", "heat", "arma", "callable", "steady state")
    if kind == "heat":
        laplacian = "combinatorial" if directed else pick(rng, "combinatorial", "normalized")
        return HeatDiffusionFilter(laplacian), rng.uniform(0.05, 2.0, 1) / (degree if (weights < 0).any() else 1.0)
    if kind == "callable":
        limits = pick(rng, None, ((-2.0, 2.0), (-2.0, 2.0)))
        filter = CallableFilter(saturating, ("first", "second"), limits, batched=bool(rng.integers(2)))
        return filter, rng.uniform(-1, 1, 2) / degree
    if kind == "steady state":
        ground, leak = pick(rng, (None, 0.0), (None, 0.3), (0, 0.0), (0, 0.1))
        if directed and ground is None:
            leak = 0.3
        ground = None if ground is None else int(rng.integers(len(weights)))
        return SteadyStateFilter(ground, leak), rng.uniform(0.2, 2.0, 1)
    order = int(rng.integers(4))
    coefficients = rng.uniform(-1, 1, order + 1) / degree ** np.arange(order + 1)
    if kind == "polynomial":
        shifts = "adjacency", "adjacency", "laplacian", *["normalized-laplacian"] * (not directed)
        return PolynomialFilter(order, shift=pick(rng, *shifts)), coefficients
    ar_order = int(rng.integers(1, 3))
    denominator = rng.uniform(-0.4, 0.4, ar_order) / degree ** np.arange(1, ar_order + 1)
    order = min(order, 2)
    return ARMAFilter(ar_order, order), np.concatenate([coefficients[: order + 1], denominator])


def draw_pairs(rng, n_nodes, share, directed):
    """A boolean matrix in which pairs are True with some probability, and the diagonal is False."""
    drawn = rng.random((n_nodes, n_nodes)) < share
    if directed:
        return drawn & ~np.eye(n_nodes, dtype=bool)
    upper = np.triu(drawn, 1)
    return upper | upper.T


def draw_adjacency(rng, n_nodes, directed):
    share = pick(rng, 0.0, 0.1, 0.3, 0.5, 1.0)  # few edges leave the graph disconnected
    return draw_pairs(rng, n_nodes, share, directed).astype(float)


def draw_weights(rng, adjacency, directed):
    """Strengths of the edges: all one, above zero, or of either sign."""
    kind = pick(rng, "binary", "positive", "signed")
    sizes = {
        "binary": np.ones(adjacency.shape),
        "positive": np.exp(0.7 * rng.standard_normal(adjacency.shape)),
        "signed": rng.standard_normal(adjacency.shape),
    }[kind]
    sizes = sizes if directed else np.triu(sizes) + np.triu(sizes).T
    return adjacency * np.where(sizes == 0, 1.0, sizes)


def draw_inputs(rng, n_experiments, n_nodes):
    shape = n_experiments, n_nodes
    inputs = pick(
        rng,
        rng.standard_normal(shape),
        rng.uniform(-1, 1, shape),
        np.eye(n_nodes)[rng.integers(n_nodes, size=shape[0])],
    )
    node = rng.integers(n_nodes)
    change = pick(rng, "", "", "", "", "zero", "constant", "repeated", "same", "all zero")
    if change == "all zero":
        return np.zeros(shape)
    if change in ("zero", "constant"):
        inputs[:, node] = float(change == "constant")
    elif change:
        inputs = inputs[rng.integers(n_experiments if change == "repeated" else 1, size=n_experiments)]
    return inputs


def draw_outputs(rng, clean, observed):
    """Outputs at the observed nodes, with noise and gaps; nan elsewhere. The noise level too."""
    signal = np.sqrt(np.mean(clean**2)) or 1.0
    noise_std = signal * pick(rng, 0.0, 1e-3, 0.1, 1.0, 10.0)
    outputs = clean + noise_std * rng.standard_normal(clean.shape)
    if rng.random() < 0.15:
        outputs[:, rng.integers(clean.shape[1])] = pick(rng, 0.0, signal)
    missing = rng.random(clean.shape) < pick(rng, 0.0, 0.0, 0.2, 0.6)
    if rng.random() < 0.1:
        missing[:, rng.integers(clean.shape[1])] = True
    if rng.random() < 0.1:
        missing[rng.integers(len(clean))] = True
    missing[rng.integers(len(clean)), observed[0]] = False
    missing[:, np.setdiff1d(np.arange(clean.shape[1]), observed)] = True
    return np.where(missing, np.nan, outputs), noise_std


@dataclass
class RandomSystem:
    """Everything in one order of the nodes, that of `names`."""

    names: list
    directed: bool
    adjacency: np.ndarray
    weights: np.ndarray  # strengths of the edges
    is_known: np.ndarray
    given_weights: np.ndarray | None  # strengths that are told, nan elsewhere
    filter: object  # the one to fit, which need not be that of the data
    X: np.ndarray
    Y: np.ndarray  # nan where nothing was measured
    observed: np.ndarray
    noise_std: float
    dtype: type

    @classmethod
    def draw(cls, rng):
        n_nodes = int(pick(rng, rng.integers(1, 13), rng.integers(2, 5)))
        n_experiments = int(pick(rng, rng.integers(1, 16), rng.integers(1, 4)))
        directed = bool(rng.integers(3) == 0)
        adjacency = draw_adjacency(rng, n_nodes, directed)
        weights = draw_weights(rng, adjacency, directed)
        filter, theta = draw_filter(rng, weights, directed)
        if not filter.allows_negative_strengths:
            weights = np.abs(weights)
        unit = 10.0 ** pick(rng, 0, 0, 0, rng.integers(-12, 13), -12, -9, 12)
        dtype = pick(rng, np.float64, np.float64, np.float32)
        X = (unit * draw_inputs(rng, n_experiments, n_nodes)).astype(dtype).astype(float)
        observed = np.arange(n_nodes)
        if rng.random() < 0.4:
            n_observed = int(rng.integers(1, n_nodes + 1))
            observed = pick(rng, observed[:n_observed], np.sort(rng.permutation(n_nodes)[:n_observed]))
        Y, noise_std = draw_outputs(rng, X @ filter_matrix(filter, weights, theta).T, observed)
        # Identifiers that sample refuse outputs below 1e-15 and above 1e15.
        while 0 < np.nanmax(np.abs(Y)) < 1e-14:
            X, Y, noise_std = 1024 * X, 1024 * Y, 1024 * noise_std
        while np.nanmax(np.abs(Y)) > 1e14:
            X, Y, noise_std = X / 1024, Y / 1024, noise_std / 1024
        is_known = draw_pairs(rng, n_nodes, pick(rng, 0.0, 0.3, 0.6, 1.0), directed)
        is_told = draw_pairs(rng, n_nodes, pick(rng, 0.0, 0.0, 0.5, 1.0), directed) & is_known & (weights != 0)
        if rng.random() < 0.15:  # data of another process
            filter, _ = draw_filter(rng, weights, directed)
            is_told &= filter.allows_negative_strengths | (weights > 0)
        elif rng.random() < 0.15:  # parameters that are known
            known = rng.random(len(theta)) < 0.6
            names = np.array(filter.parameter_names())[known].tolist()
            filter.fixed = dict(zip(names, theta[known].tolist(), strict=True))
        return cls(
            draw_names(rng, n_nodes),
            directed,
            adjacency,
            weights,
            is_known | np.eye(n_nodes, dtype=bool),
            np.where(is_told, weights, np.nan) if is_told.any() else None,
            filter,
            X,
            Y.astype(dtype).astype(float),
            observed,
            noise_std,
            dtype,
        )

    @property
    def n_nodes(self):
        return len(self.names)

    @property
    def partial(self):
        return np.where(self.is_known, self.adjacency, np.nan)


def draw_names(rng, n_nodes):
    letters = [f"node {letter}" for letter in "qwertyuiopas"]
    text = pick(rng, letters, [str(number) for number in range(12)], list(range(12)), list(range(10, 22)))
    return text[:n_nodes]
