"""Random systems: graph, filter, inputs, outputs with noise and gaps, and a known part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy import linalg

from sklearn_graphid.filters import ARMAFilter, CallableFilter, HeatDiffusionFilter, PolynomialFilter


def pick(rng, *choices):
    """One of the choices; `rng.choice` would turn them into an array."""
    return choices[rng.integers(len(choices))]


def saturating(adjacency, theta):
    """A filter of the user's, for one matrix or a batch of them."""
    identity = torch.eye(adjacency.shape[-1], dtype=adjacency.dtype, device=adjacency.device)
    first, second = theta[..., 0, None, None], theta[..., 1, None, None]
    return identity + first * adjacency + second * torch.tanh(adjacency @ adjacency)


def filter_matrix(filter, adjacency, theta):
    """h(A) in numpy, written from the definitions."""
    if isinstance(filter, PolynomialFilter):
        return sum(c * np.linalg.matrix_power(adjacency, power) for power, c in enumerate(theta))
    if isinstance(filter, HeatDiffusionFilter):
        degrees = adjacency.sum(0)
        laplacian = np.diag(degrees) - adjacency
        if filter.laplacian == "normalized":
            laplacian = laplacian / np.sqrt(np.outer(degrees.clip(1), degrees.clip(1)))
        return linalg.expm(-theta[0] * laplacian)
    if isinstance(filter, ARMAFilter):
        numerator, denominator = theta[: filter.ma_order + 1], [1.0, *theta[filter.ma_order + 1 :]]
        parts = [filter_matrix(PolynomialFilter(), adjacency, part) for part in (denominator, numerator)]
        return np.linalg.solve(*parts)
    return np.eye(len(adjacency)) + theta[0] * adjacency + theta[1] * np.tanh(adjacency @ adjacency)


def draw_filter(rng, adjacency):
    """A filter, and parameters for which it does not amplify much."""
    degree = max(1.0, adjacency.sum(0).max())
    kind = pick(rng, "polynomial", "polynomial", "heat", "heat", "arma", "callable")
    if kind == "heat":
        return HeatDiffusionFilter(pick(rng, "combinatorial", "normalized")), rng.uniform(0.05, 2.0, 1)
    if kind == "callable":
        limits = pick(rng, None, ((-2.0, 2.0), (-2.0, 2.0)))
        filter = CallableFilter(saturating, ("first", "second"), limits, batched=bool(rng.integers(2)))
        return filter, rng.uniform(-1, 1, 2) / degree
    order = int(rng.integers(5))
    coefficients = rng.uniform(-1, 1, order + 1) / degree ** np.arange(order + 1)
    if kind == "polynomial":
        return PolynomialFilter(order), coefficients
    ar_order = int(rng.integers(1, 3))
    denominator = rng.uniform(-0.4, 0.4, ar_order) / degree ** np.arange(1, ar_order + 1)
    order = min(order, 2)
    return ARMAFilter(ar_order, order), np.concatenate([coefficients[: order + 1], denominator])


def draw_adjacency(rng, n_nodes):
    share = pick(rng, 0.0, 0.1, 0.3, 0.5, 1.0)  # few edges leave the graph disconnected
    upper = np.triu(rng.random((n_nodes, n_nodes)) < share, 1)
    return (upper | upper.T).astype(float)


def draw_inputs(rng, n_experiments, n_nodes):
    shape = n_experiments, n_nodes
    inputs = pick(
        rng,
        rng.standard_normal(shape),
        rng.uniform(-1, 1, shape),
        np.eye(n_nodes)[rng.integers(n_nodes, size=shape[0])],
    )
    node = rng.integers(n_nodes)
    change = pick(rng, "", "", "", "zero", "constant", "repeated", "same")
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
    adjacency: np.ndarray
    is_known: np.ndarray
    filter: object
    X: np.ndarray
    Y: np.ndarray  # nan where nothing was measured
    observed: np.ndarray
    noise_std: float
    dtype: type

    @classmethod
    def draw(cls, rng):
        n_nodes, n_experiments = int(rng.integers(1, 13)), int(rng.integers(1, 16))
        adjacency = draw_adjacency(rng, n_nodes)
        filter, theta = draw_filter(rng, adjacency)
        unit = 10.0 ** pick(rng, 0, 0, 0, rng.integers(-12, 13), -12, 12)
        dtype = pick(rng, np.float64, np.float64, np.float32)
        X = (unit * draw_inputs(rng, n_experiments, n_nodes)).astype(dtype).astype(float)
        observed = np.arange(n_nodes)
        if rng.random() < 0.4:
            n_observed = int(rng.integers(1, n_nodes + 1))
            observed = pick(rng, observed[:n_observed], np.sort(rng.permutation(n_nodes)[:n_observed]))
        Y, noise_std = draw_outputs(rng, X @ filter_matrix(filter, adjacency, theta).T, observed)
        while 0 < np.nanmax(np.abs(Y)) < 1e-14:  # identifiers that sample refuse outputs below 1e-15
            X, Y, noise_std = 1024 * X, 1024 * Y, 1024 * noise_std
        upper = np.triu(rng.random(adjacency.shape) < pick(rng, 0.0, 0.3, 0.6, 1.0), 1)
        return cls(
            draw_names(rng, n_nodes),
            adjacency,
            upper | upper.T | np.eye(n_nodes, dtype=bool),
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
