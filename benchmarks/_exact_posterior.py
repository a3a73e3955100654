"""Random systems of a few nodes, and their posterior by enumeration of all graphs on the unknown pairs."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.sparse.csgraph import connected_components
from scipy.stats import fisk, norm

from sklearn_graphid import ErdosRenyiPrior, StochasticBlockPrior, System
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import ARMAFilter, HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.priors._trust import density_from_known  # its law is part of the model
from sklearn_graphid.samplers._theta import _PRIOR_WIDTH  # of theta, relative to the gain: part of the model

SEED = 20_180_418
THETA_GRID = np.linspace(0, HeatDiffusionFilter().theta_max, 2001)[1:]  # the prior vanishes at zero
LOG_NOISE_GRID = np.linspace(np.log(0.05), np.log(20), 240)

Array = np.ndarray[Any, np.dtype[np.float64]]


class Kind(NamedTuple):
    """A family of random systems."""

    number: int  # part of the seed
    filter: PolynomialFilter | HeatDiffusionFilter
    prior: ErdosRenyiPrior | StochasticBlockPrior
    n_nodes: int
    unknown: float  # share of the pairs
    n_experiments: int
    input_scale: float
    theta_scale: float | None  # standard deviation of a polynomial's coefficients
    noise_range: tuple[float, float] = (1.0, 1.0)

    @property
    def name(self) -> str:
        """What tables call the filter."""
        return "heat" if isinstance(self.filter, HeatDiffusionFilter) else "polynomial"

    def edge_probability(self) -> Array:
        """Of every pair, under the prior."""
        if isinstance(self.prior, ErdosRenyiPrior):
            return np.full((self.n_nodes, self.n_nodes), self.prior.p)
        labels = np.asarray(self.prior.labels)
        return np.asarray(self.prior.probabilities, dtype=float)[np.ix_(labels, labels)]


def heat_law(filter: HeatDiffusionFilter) -> Any:
    """The prior of heat's theta: log-logistic with the quartiles that the filter names."""
    low, high = filter.initial_low, filter.initial_high
    return fisk(np.log(9) / np.log(high / low), scale=np.sqrt(low * high))


def make_case(kind: Kind, index: int) -> System:
    """Draw a graph from the prior, theta and the noise level from their laws, and simulate."""
    drawing, hiding, simulating = np.random.SeedSequence([SEED, kind.number, index]).generate_state(3)
    rng = np.random.default_rng(drawing)
    upper = np.triu(rng.random((kind.n_nodes, kind.n_nodes)) < kind.edge_probability(), 1)
    adjacency = (upper | upper.T).astype(float)
    if isinstance(kind.filter, HeatDiffusionFilter):
        law = heat_law(kind.filter)
        theta = law.ppf(rng.random(1) * law.cdf(kind.filter.theta_max))
    else:
        theta = rng.normal(0, kind.theta_scale, kind.filter.n_parameters())
    noise_std = float(np.exp(rng.uniform(*np.log(kind.noise_range))))
    known = hide_edges(adjacency, kind.unknown, random_state=int(hiding))
    settings = {"n_experiments": kind.n_experiments, "input_scale": kind.input_scale, "noise_std": noise_std}
    X, Y = make_system(adjacency, kind.filter, theta, random_state=int(simulating), **settings)
    return System(X, Y, known, true_adjacency=adjacency, true_theta=theta, labels={"true_noise_std": noise_std})


def true_noise_std(system: System) -> float:
    """The noise level that a system was simulated with."""
    return float((system.labels or {})["true_noise_std"])


# The exact posterior. Every function works on all graphs (the first axis) and on a grid (the second).


class Terms(NamedTuple):
    """What is known of the posterior before the graphs are weighed against one another."""

    log_evidence: Array  # (graphs, grid), up to a constant
    theta_below: Array  # (graphs, grid, parameters), the probability that theta is below the truth
    noise_below: Array  # (graphs, grid), likewise the noise level


class Posterior(NamedTuple):
    """The exact answer."""

    bits: Array  # (graphs, unknown pairs)
    probability: Array  # (graphs,)
    theta_below: Array  # (parameters,)
    noise_below: float

    @property
    def marginals(self) -> Array:
        """Of the unknown pairs."""
        return self.probability @ self.bits


def theta_width(system: System) -> float:
    """Standard deviation of theta's Gaussian prior."""
    return float(_PRIOR_WIDTH * np.sqrt((system.Y**2).mean() / (system.X**2).mean()))


def polynomial_terms(system: System, graphs: Array, noise_std: float | None, temperature: float) -> Terms:
    """theta is Gaussian given the graph and the noise; the grid is that of the noise level."""
    powers = [np.broadcast_to(system.X, (len(graphs), *system.X.shape))]
    while len(powers) < len(system.true_theta):
        powers.append(powers[-1] @ graphs)
    return linear_terms(system, np.stack(powers, axis=1), noise_std, temperature)


def linear_terms(system: System, designs: Array, noise_std: float | None, temperature: float) -> Terms:
    """The same for any outputs that are linear in theta; designs are (graphs, parameters, experiments, nodes)."""
    design = designs.reshape(*designs.shape[:2], -1).mT
    outputs = system.Y.ravel()
    variance = np.exp(2 * LOG_NOISE_GRID) if noise_std is None else np.array([noise_std**2])
    gram = (design.mT @ design)[:, None] / variance[:, None, None]
    covariance = np.linalg.inv(gram + np.eye(design.shape[2]) / theta_width(system) ** 2)
    slope = (outputs @ design)[:, None] / variance[:, None]
    mean = (covariance @ slope[..., None])[..., 0]
    exponent = -0.5 * (outputs @ outputs / variance - (slope * mean).sum(2)) - 0.5 * len(outputs) * np.log(variance)
    # 1 / temperature multiplies all that stands in the exponent, theta's prior included, before the integral.
    log_evidence = exponent / temperature + 0.5 * np.linalg.slogdet(covariance)[1]
    spread = np.sqrt(temperature * np.diagonal(covariance, axis1=2, axis2=3))
    return Terms(
        log_evidence,
        theta_below=special.ndtr((system.true_theta - mean) / spread),
        noise_below=np.broadcast_to(_below(0.5 * np.log(variance), np.log(true_noise_std(system))), log_evidence.shape),
    )


def heat_terms(system: System, graphs: Array, noise_std: float | None, temperature: float) -> Terms:
    """The grid is that of theta; the prior 1 / variance makes the law of the variance an inverse gamma law."""
    eigenvalues, vectors = np.linalg.eigh(graphs.sum(2)[..., None] * np.eye(graphs.shape[1]) - graphs)
    inputs, outputs = system.X @ vectors, system.Y @ vectors
    decay = np.exp(-THETA_GRID[:, None] * eigenvalues[:, None])  # (graphs, grid, nodes)
    crossed, squared = (inputs * outputs).sum(1)[:, None], (inputs**2).sum(1)[:, None]
    squares = (system.Y**2).sum() - (2 * decay * crossed - decay**2 * squared).sum(2)
    shape = 0.5 * system.Y.size
    if noise_std is None:
        log_density = -shape * np.log(squares)
        noise_below = special.gammaincc(shape, 0.5 * squares / true_noise_std(system) ** 2)
    else:
        log_density = -0.5 * squares / noise_std**2
        noise_below = np.full_like(squares, 0.5)
    log_density += heat_law(HeatDiffusionFilter()).logpdf(THETA_GRID)
    theta_below = np.broadcast_to(_below(THETA_GRID, system.true_theta[0])[:, None], (*squares.shape, 1))
    return Terms(log_density / temperature, theta_below, noise_below)


def _below(grid: Array, value: float) -> Array:
    """Share of every grid point's cell that lies below the value."""
    return np.clip((value - grid) / np.gradient(grid) + 0.5, 0, 1) if len(grid) > 1 else np.full(1, 0.5)


def enumerate_graphs(
    kind: Kind, system: System, noise_std: float | None, temperature: float = 1.0, even_odds: bool = False
) -> Posterior:
    """Try every graph on the unknown pairs; with even odds every graph is as likely as any other a priori."""
    bits = np.array(list(itertools.product((0.0, 1.0), repeat=system.known_mask.n_unknown)))
    evidence = heat_terms if kind.name == "heat" else polynomial_terms
    terms = evidence(system, system.known_mask.fill(bits), noise_std, temperature)
    odds = special.logit(kind.edge_probability()[system.known_mask.unknown_pairs()])
    log_prior = np.zeros(len(bits)) if even_odds else bits @ odds
    log_posterior = terms.log_evidence + log_prior[:, None] / temperature
    weights = np.exp(log_posterior - special.logsumexp(log_posterior))
    theta_below = (weights[..., None] * terms.theta_below).sum((0, 1))
    return Posterior(bits, weights.sum(1), theta_below, float((weights * terms.noise_below).sum()))


# Five nodes, every kind of filter, and what is unknown by default: the density of the pairs, theta and the noise level.

FILTERS: dict[str, PolynomialFilter | HeatDiffusionFilter | SteadyStateFilter | ARMAFilter] = {
    "order one": PolynomialFilter(1),
    "order two": PolynomialFilter(2),
    "heat": HeatDiffusionFilter(),
    "steady state": SteadyStateFilter(),
    "steady state, ground": SteadyStateFilter(ground=0),
    "steady state, leak": SteadyStateFilter(leak=0.5),
    "ARMA(1, 0)": ARMAFilter(1, 0),
}
_N_NODES, _TRUE_DENSITY = 5, 0.4
_OUTPUT_RMS = 5.0  # in the middle of what the grid of noise levels holds
_THETA_STD = 0.5  # of the true parameters, where the filter has no prior of its own
_N_VALUES_OF_A = 2000


def make_default_case(name: str, index: int) -> System:
    """Draw a graph, theta, the number of experiments, what is known and the noise level, and simulate."""
    filter, number = FILTERS[name], 100 + list(FILTERS).index(name)
    rng = np.random.default_rng([SEED, number, index])
    adjacency = _random_graph(rng)
    while not has_outputs(filter, adjacency[None])[0]:
        adjacency = _random_graph(rng)
    law = heat_law(filter) if isinstance(filter, HeatDiffusionFilter) else norm(0, _THETA_STD)
    theta = law.ppf(rng.random(filter.n_parameters()) * law.cdf(HeatDiffusionFilter().theta_max))
    known = hide_edges(adjacency, rng.uniform(0.5, 0.9), random_state=int(rng.integers(2**31)))
    seed, n_experiments = int(rng.integers(2**31)), int(rng.integers(2, 11))
    X, exact = make_system(adjacency, filter, theta, n_experiments, noise_std=0, random_state=seed)
    scale = _OUTPUT_RMS / np.sqrt((exact**2).mean())
    noise_std = _OUTPUT_RMS * float(np.exp(rng.uniform(*np.log((0.1, 1.0)))))
    Y = scale * exact + noise_std * rng.normal(size=exact.shape)
    labels = {"true_noise_std": noise_std, "filter": name}
    return System(scale * X, Y, known, true_adjacency=adjacency, true_theta=theta, labels=labels)


def _random_graph(rng: np.random.Generator) -> Array:
    upper = np.triu(rng.random((_N_NODES, _N_NODES)) < _TRUE_DENSITY, 1)
    return (upper | upper.T).astype(float)


def has_outputs(filter: Any, graphs: Array) -> Array:
    """Which graphs have any: a steady state without a leak has none on a graph that is in pieces."""
    if not isinstance(filter, SteadyStateFilter) or filter.leak:
        return np.ones(len(graphs), dtype=bool)
    return np.array([connected_components(graph, directed=False)[0] == 1 for graph in graphs])


def enumerate_default_case(system: System) -> tuple[Array, Array]:
    """All graphs (graphs, unknown pairs) and their probabilities (graphs,), with all else integrated out."""
    filter, known = FILTERS[(system.labels or {})["filter"]], system.known_mask
    bits = np.array(list(itertools.product((0.0, 1.0), repeat=known.n_unknown)))
    bits = bits[has_outputs(filter, known.fill(bits))]
    graphs = known.fill(bits)
    if isinstance(filter, HeatDiffusionFilter):
        log_evidence = special.logsumexp(heat_terms(system, graphs, None, 1.0).log_evidence, axis=1)
    elif isinstance(filter, ARMAFilter):
        log_evidence = np.array([arma_evidence(system, graph) for graph in graphs])
    elif isinstance(filter, SteadyStateFilter):
        terms = linear_terms(system, steady_states(filter, system.X, graphs)[:, None], None, 1.0)
        log_evidence = special.logsumexp(terms.log_evidence, axis=1)
    else:
        log_evidence = special.logsumexp(polynomial_terms(system, graphs, None, 1.0).log_evidence, axis=1)
    log_weight, edges, non_edges = (part[:, None] for part in density_from_known(known))
    n_edges = bits.sum(1)
    of_laws = special.betaln(edges + n_edges, non_edges + bits.shape[1] - n_edges) - special.betaln(edges, non_edges)
    return bits, special.softmax(log_evidence + special.logsumexp(log_weight + of_laws, axis=0))


def steady_states(filter: SteadyStateFilter, inputs: Array, graphs: Array) -> Array:
    """Potentials (graphs, experiments, nodes)."""
    matrices = graphs.sum(2)[..., None] * np.eye(_N_NODES) - graphs + filter.leak * np.eye(_N_NODES)
    if filter.ground is not None:
        matrices[:, filter.ground] = matrices[:, :, filter.ground] = 0
    return inputs @ np.linalg.pinv(matrices, hermitian=True)


def arma_evidence(system: System, graph: Array) -> float:
    """b_0 is Gaussian given a_1 and the noise, which are on a grid; outputs are b_0 (I + a_1 A)^-1 times the inputs."""
    width = theta_width(system)
    # Steps in proportion to a_1 far from zero, and even ones near it.
    a = 0.3 * np.sinh(np.linspace(-1, 1, _N_VALUES_OF_A) * np.arcsinh(5 * width / 0.3))
    eigenvalues, vectors = np.linalg.eigh(graph)
    inputs, outputs = system.X @ vectors, system.Y @ vectors
    response = 1 / (1 + a[:, None] * eigenvalues)
    gram, cross = response**2 @ (inputs**2).sum(0), response @ (inputs * outputs).sum(0)
    variance = np.exp(2 * LOG_NOISE_GRID[::4])[:, None]
    precision = gram / variance + width**-2
    exponent = -0.5 * ((system.Y**2).sum() / variance - (cross / variance) ** 2 / precision)
    log_density = exponent - 0.5 * system.Y.size * np.log(variance) - 0.5 * np.log(precision)
    return float(special.logsumexp(log_density - 0.5 * (a / width) ** 2 + np.log(np.gradient(a))))
