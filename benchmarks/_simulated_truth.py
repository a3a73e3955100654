"""Simulation-based calibration of default fits: truths drawn from the documented model, of every kind of graph.

Graph, strengths and their law come from the sampler's own priors. theta of filters without a law of their own comes
from a Gaussian well within the sampler's, and the noise level is .1 to 1 of the signal. There are 7 to 10 nodes, 3 to 8
experiments, and 40 % of the pairs are known. Where strengths have signs, those of the known edges are given, as the
sign of theta is anybody's choice otherwise.

As theta's law is not the sampler's, the exact posterior is not quite calibrated either: where theta is near zero, edges
are invisible, and data without any trace of them count as evidence against them. A plain Metropolis sampler written for
this purpose, 40,000 sweeps on 100 systems with positive strengths, directed and of order one, has 2.9 % of the sure
pairs wrong where it expects 1.6 %, and its 90 % intervals hold 89 % of theta and 86 % of the strengths.

Intervals of strengths are those of edges that are there and were found; they are given that there is an edge.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from _exact_posterior import heat_law

from sklearn_graphid import ErdosRenyiPrior, KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import make_system
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


def draw_strengths(weights: str, shape: tuple[int, int], rng: np.random.Generator) -> Array:
    """Strengths for all pairs from the documented laws."""
    width = np.sqrt(3.0 * 0.5 / rng.gamma(3.0))
    if weights == "positive":  # geometric mean one
        return np.asarray(np.exp(width * rng.normal(size=shape)))
    if weights == "signed":
        return np.asarray(rng.normal(rng.normal(), width, shape))
    return np.ones(shape)


def draw_theta(kind: SimulatedKind, filter: GraphFilter, rng: np.random.Generator) -> Array:
    """The filter's parameters."""
    if isinstance(filter, HeatDiffusionFilter):
        law = heat_law(filter)
        return np.asarray(law.ppf(rng.random(1) * law.cdf(filter.theta_max)))
    theta = rng.normal(0, 0.5, filter.n_parameters())
    return np.abs(theta) if kind.filter == "steady state" else theta


def draw_truth(kind: SimulatedKind, seed: int) -> Truth:
    """Draw a system; those whose outputs are hardly there, or beyond bounds, are drawn again."""
    rng = np.random.default_rng([7, KINDS.index(kind), seed])
    filter = kind.make_filter()
    while True:
        n_nodes, n_experiments = int(rng.integers(7, 11)), int(rng.integers(3, 9))
        is_edge = (rng.random((n_nodes, n_nodes)) < DENSITY) & ~np.eye(n_nodes, dtype=bool)
        weights = is_edge * draw_strengths(kind.weights, is_edge.shape, rng)
        if not kind.directed:
            weights = np.triu(weights) + np.triu(weights).T
        theta = draw_theta(kind, filter, rng)
        settings: Any = {"noise_std": 0.0, "directed": kind.directed, "random_state": int(rng.integers(2**31))}
        X, clean = make_system(weights, filter, theta, n_experiments, **settings)
        signal = float(np.sqrt((clean**2).mean()))
        if 1e-2 < signal < 1e2:
            break
    noise_std = signal * float(np.exp(rng.uniform(np.log(0.1), 0)))
    mask = rng.random(is_edge.shape) < 0.4
    if not kind.directed:
        mask = np.triu(mask, 1) | np.triu(mask, 1).T
    given = weights if kind.weights == "signed" else None
    known = KnownEdges(mask, (weights != 0).astype(float), weights=given, directed=kind.directed)
    return Truth(filter, weights, theta, noise_std, known, X, clean + noise_std * rng.normal(size=clean.shape))


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
