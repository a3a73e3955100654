"""Simulation-based calibration of default fits: truths drawn from the documented model, of every kind of graph.

Graph, strengths, their law, theta and the noise level come from the sampler's own priors. Two of these take their scale
from the data: the width of theta is three times the gain from inputs to outputs, and the noise level of graphs with
strengths is around three tenths of the outputs. So both are drawn at a fixed scale, and systems are drawn until the
outputs turn out to have the size that this scale belongs to. As that is decided by the data alone, the posterior is
the same as without it. Where edges are there or not, the prior of the noise level is improper, and its logarithm is
drawn evenly between a twentieth of the outputs and a little more than the outputs.

There are 7 to 10 nodes, 3 to 8 experiments, and 40 % of the pairs are known. Where strengths have signs, those of the
known edges are given, as the sign of theta is anybody's choice otherwise. Intervals of strengths are those of edges
that are there and were found; they are given that there is an edge.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from _exact_posterior import heat_law

from sklearn_graphid import ErdosRenyiPrior, KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.filters import (
    ARMAFilter,
    GraphFilter,
    HeatDiffusionFilter,
    PolynomialFilter,
    SteadyStateFilter,
)

Array = np.ndarray[Any, np.dtype[np.float64]]

LEVELS = (0.5, 0.9)  # of the credible intervals
DENSITY = 0.3
# From inputs to outputs: a third of the width of theta's prior, which is one here. Heat has another prior.
GAIN, GAIN_OF_HEAT = 1 / 3, 0.6
SURE = 0.95
FILTERS = ("order one", "order two", "heat", "steady state", "ARMA(1, 0)")
WEIGHTS = ("binary", "positive", "signed")


class SimulatedKind(NamedTuple):
    """A family of random systems."""

    filter: str
    weights: str
    directed: bool

    @property
    def name(self) -> str:
        """What tables call it."""
        return f"{self.weights}, {'directed' if self.directed else 'undirected'}, {self.filter}"

    def make_filter(self) -> GraphFilter:
        """The filter; potentials in directed graphs need a leak."""
        return {
            "order one": PolynomialFilter(1),
            "order two": PolynomialFilter(2),
            "heat": HeatDiffusionFilter(),
            "steady state": SteadyStateFilter(leak=0.5),
            "ARMA(1, 0)": ARMAFilter(1, 0),
        }[self.filter]


KINDS = tuple(
    SimulatedKind(filter, weights, directed)
    for weights in WEIGHTS
    for directed in (False, True)
    for filter in FILTERS
    if (weights, filter) != ("signed", "steady state")  # conductances have no sign
)


class Truth(NamedTuple):
    """A system, and what a fit is told of it."""

    filter: GraphFilter
    weights: Array  # (nodes, nodes)
    theta: Array
    noise_std: float
    known: KnownEdges
    X: Array
    Y: Array


def draw_strengths(weights: str, shape: tuple[int, int, int], rng: np.random.Generator) -> Array:
    """Strengths (systems, nodes, nodes) for all pairs from the documented laws."""
    width = np.sqrt(3.0 * 0.5 / rng.gamma(3.0, size=(shape[0], 1, 1)))
    if weights == "positive":  # geometric mean one
        return np.asarray(np.exp(width * rng.normal(size=shape)))
    if weights == "signed":
        return np.asarray(rng.normal(rng.normal(size=(shape[0], 1, 1)), width, shape))
    return np.ones(shape)


def draw_theta(kind: SimulatedKind, filter: GraphFilter, n_systems: int, rng: np.random.Generator) -> Array:
    """The filter's parameters, (systems, parameters)."""
    if isinstance(filter, HeatDiffusionFilter):
        law = heat_law(filter)
        return np.asarray(law.ppf(rng.random((n_systems, 1)) * law.cdf(filter.theta_max)))
    theta = rng.normal(size=(n_systems, filter.n_parameters()))
    return np.abs(theta) if kind.filter == "steady state" else theta


def draw_noise_std(kind: SimulatedKind, size: float, n_systems: int, rng: np.random.Generator) -> Array:
    """Noise levels (systems,) where outputs are of a size."""
    if kind.weights == "binary":
        return np.asarray(size * np.exp(rng.uniform(np.log(0.05), np.log(1.2), n_systems)))
    return np.asarray(0.3 * size * np.exp(rng.standard_t(3, n_systems).clip(-7, 7)))


def draw_truth(kind: SimulatedKind, seed: int) -> Truth:
    """Draw systems until the outputs of one have the size for which theta has a width of one."""
    rng = np.random.default_rng([7, KINDS.index(kind), seed])
    filter = kind.make_filter()
    n_nodes, n_experiments = int(rng.integers(7, 11)), int(rng.integers(3, 9))
    X = rng.uniform(-10, 10, (n_experiments, n_nodes))
    gain = GAIN_OF_HEAT if isinstance(filter, HeatDiffusionFilter) else GAIN
    size, n_systems = gain * float(np.sqrt((X**2).mean())), 1_000
    while True:
        is_edge = (rng.random((n_systems, n_nodes, n_nodes)) < DENSITY) & ~np.eye(n_nodes, dtype=bool)
        weights = is_edge * draw_strengths(kind.weights, is_edge.shape, rng)
        if not kind.directed:
            weights = np.triu(weights) + np.triu(weights).swapaxes(1, 2)
        theta, noise_std = draw_theta(kind, filter, n_systems, rng), draw_noise_std(kind, size, n_systems, rng)
        clean = filter.apply(*map(torch.from_numpy, (weights, theta, X))).numpy()
        Y = clean + noise_std[:, None, None] * rng.normal(size=clean.shape)
        fits = np.flatnonzero(np.abs(0.5 * np.log((Y**2).mean((1, 2)) / size**2)) < 0.05)  # False where it is nan
        if len(fits):
            break
    graph = weights[fits[0]]
    mask = rng.random(graph.shape) < 0.4
    if not kind.directed:
        mask = np.triu(mask, 1) | np.triu(mask, 1).T
    given = graph if kind.weights == "signed" else None
    known = KnownEdges(mask, (graph != 0).astype(float), weights=given, directed=kind.directed)
    return Truth(filter, graph, theta[fits[0]], float(noise_std[fits[0]]), known, X, Y[fits[0]])


def judge(kind: SimulatedKind, seed: int, **settings: Any) -> dict[str, Any]:
    """Fit a system by default, and say whether intervals and probabilities hold."""
    truth = draw_truth(kind, seed)
    told: dict[str, Any] = {"prior": ErdosRenyiPrior(DENSITY), "edge_weights": kind.weights, "directed": kind.directed}
    identifier = LangevinSystemIdentifier(truth.filter, random_state=seed, **told | settings)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        identifier.fit(truth.X, truth.Y, truth.known)
    rows, columns = truth.known.unknown_pairs()
    noise = identifier.noise_std_interval
    return {
        "system": seed,
        "theta": [is_inside(truth.theta, identifier.theta_interval(level)).tolist() for level in LEVELS],
        "noise": [is_inside(np.array([truth.noise_std]), noise(level)[None]).tolist() for level in LEVELS],
        "strengths": [strengths_inside(identifier, truth, level).tolist() for level in LEVELS],
        "edges": (truth.weights[rows, columns] != 0).tolist(),
        "edge_probabilities": identifier.edge_probabilities_[rows, columns].tolist(),
        "warnings": [str(warning.message) for warning in caught],
    }


def is_inside(truth: Array, interval: Array) -> Any:
    """Whether values (n,) are between the ends (n, 2)."""
    return (interval[:, 0] <= truth) & (truth <= interval[:, 1])


def strengths_inside(identifier: LangevinSystemIdentifier, truth: Truth, level: float) -> Any:
    """Whether the unknown strengths of edges that are there, and were found, are in their intervals."""
    if identifier.edge_weights == "binary":
        return np.empty(0, dtype=bool)
    interval = identifier.weight_interval(level)
    is_counted = (truth.weights != 0) & (identifier.adjacency_ != 0) & np.isfinite(interval[..., 0])
    if truth.known.weights is not None:
        is_counted &= ~np.isfinite(truth.known.weights)
    if not truth.known.directed:
        is_counted = np.triu(is_counted)
    return is_inside(truth.weights[is_counted], interval[is_counted])


def pooled_rate(systems: list[list[bool]]) -> tuple[float, float]:
    """The share of True among all, and its standard error, clustered by system."""
    counts, sizes = (np.array([f(s) for s in systems], dtype=float) for f in (sum, len))
    if not sizes.sum():
        return np.nan, np.nan
    rate = counts.sum() / sizes.sum()
    return float(rate), float(np.sqrt(((counts - rate * sizes) ** 2).sum()) / sizes.sum())


def summarise_kind(kind: SimulatedKind, judged: list[dict[str, Any]], n_crashed: int) -> dict[str, Any]:
    """Coverage, calibration error and sure pairs of a kind, beside what chance gives."""
    row: dict[str, Any] = {"kind": kind.name, "systems": len(judged), "crashed": n_crashed}
    for name in ("theta", "strengths", "noise"):
        for number, level in enumerate(LEVELS):
            row[f"{name} {level:.0%}"] = pooled_rate([one[name][number] for one in judged])
    p, edges = (np.concatenate([one[name] for one in judged]) for name in ("edge_probabilities", "edges"))
    rng = np.random.default_rng(0)
    by_chance = [calibration_error(p, rng.random(len(p)) < p) for _ in range(200)]
    row["ECE"] = calibration_error(p, edges)
    row["ECE by chance"] = float(np.mean(by_chance)), float(np.std(by_chance))
    wrong = [sure_and_wrong(np.array(one["edge_probabilities"]), np.array(one["edges"])) for one in judged]
    row["sure but wrong"] = pooled_rate(wrong)
    sure = np.maximum(p, 1 - p)
    row["expected"] = float((1 - sure[sure > SURE]).mean()) if (sure > SURE).any() else np.nan
    row["warned"] = float(np.mean([len(one["warnings"]) > 0 for one in judged]))
    return row


def sure_and_wrong(p: Array, edges: Any) -> list[bool]:
    """Whether the sure ones among pairs are wrong."""
    is_wrong = (p > 0.5) != edges
    return is_wrong[np.maximum(p, 1 - p) > SURE].tolist()  # type: ignore[no-any-return]


def calibration_error(p: Array, edges: Any) -> float:
    """Mean over pairs of the distance between predicted and true share in the pair's bin of ten."""
    bins = np.minimum((10 * p).astype(int), 9)
    counts, predicted, true = (np.bincount(bins, w, 10) for w in (None, p, edges))
    return float(np.abs(predicted - true).sum() / counts.sum())
