"""The exact posterior of small systems: all graphs on the unknown pairs are tried, and all else is integrated out.

Given the graph, outputs are linear in all parameters of a filter but one at most: heat's time, or a_1 of ARMA(1, 0).
The linear ones have a Gaussian prior, so that their integral is a formula; the other one and an unknown noise level are
on a grid. What is left is the probability of every graph. Tests and benchmarks share this module, and it shares no code
with the samplers: filters are written in numpy once more.

An edge from j to i is the entry A[i, j], and an operator H (nodes, nodes) makes the outputs H x.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import special
from scipy.sparse.csgraph import connected_components
from scipy.stats import fisk

from sklearn_graphid import ErdosRenyiPrior, KnownEdges, StochasticBlockPrior
from sklearn_graphid.filters import ARMAFilter, GraphFilter, HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.priors import GraphPrior

Array = np.ndarray[Any, np.dtype[np.float64]]

# The priors, as docs/method.md has them.
THETA_WIDTH = 3.0  # of the Gaussian prior of theta, relative to the gain from inputs to outputs
DENSITY_BEFORE = np.array([0.5, 1.5])  # an unknown density has a Beta law: edges and non-edges seen before

# Grids: a step is at most about a standard deviation, which the trapezoid rule needs no finer.
_LOG_NOISE_STEP = 0.05
LOG_NOISE_GRID = np.log(0.05) + _LOG_NOISE_STEP * np.arange(120)
N_TIMES = 540  # of heat, evenly in logarithms
N_VALUES_OF_A = 2000  # of ARMA(1, 0), whose posterior has poles
_CELL = 12**-0.5  # standard deviation of what is spread evenly over a cell of width one
_NUMBERS_AT_ONCE = 2**22


def heat_law(filter: HeatDiffusionFilter) -> Any:
    """Return the prior of heat's theta: log-logistic with the quartiles that the filter names."""
    low, high = filter.initial_low, filter.initial_high
    return fisk(np.log(9) / np.log(high / low), scale=np.sqrt(low * high))


def all_graphs(known: KnownEdges) -> Array:
    """Return zeros and ones (graphs, unknown pairs) for all graphs on the unknown pairs."""
    return np.array(list(itertools.product((0.0, 1.0), repeat=known.n_unknown)))


def log_odds_of_pairs(prior: GraphPrior | None, known: KnownEdges) -> Array:
    """Return the log-odds of the unknown pairs under a prior of independent pairs; zeros for None."""
    rows, columns = known.unknown_pairs()
    if isinstance(prior, ErdosRenyiPrior) and prior.p is not None:
        return np.full(len(rows), special.logit(prior.p))
    if isinstance(prior, StochasticBlockPrior):
        labels = np.asarray(prior.labels)
        return np.asarray(special.logit(np.asarray(prior.probabilities, dtype=float)[labels[rows], labels[columns]]))
    return np.zeros(len(rows))


@dataclass(frozen=True)
class SmallSystem:
    """What a sampler is told of a small system.

    Parameters
    ----------
    filter : GraphFilter
        A polynomial of the adjacency, heat, a steady state or ARMA(1, 0).
    X, Y : ndarray (experiments, nodes)
        Inputs and outputs; nan where nothing was measured.
    known : KnownEdges
        The known pairs.
    log_odds : ndarray (unknown pairs,)
        Of edges, a priori and by what else is known of single pairs.
    has_unknown_density : bool
        Whether the share of edges is unknown as well, see `log_prior`.
    noise_std : float or None
        None: unknown, under the prior 1 / variance.
    relative_noise : ndarray (nodes,) or float
        By which the noise level of each node is larger.
    has_offsets : bool
        Whether every node has an offset with a flat prior, which takes the means from the data. They are complete then.
    temperature : float
        The posterior's logarithm is divided by it.
    truth : tuple of ndarray (parameters,) and float, or None
        True theta and noise level, where they are to be compared with their posterior.
    """

    filter: GraphFilter
    X: Array
    Y: Array
    known: KnownEdges
    log_odds: Array
    has_unknown_density: bool = False
    noise_std: float | None = None
    relative_noise: Array | float = 1.0
    has_offsets: bool = False
    temperature: float = 1.0
    truth: tuple[Array, float] | None = None

    @property
    def inputs(self) -> Array:
        """The inputs, less what offsets take away."""
        return np.asarray(self.X - self.X.mean(0)) if self.has_offsets else self.X

    @property
    def outputs(self) -> Array:
        """The outputs likewise."""
        return np.asarray(self.Y - self.Y.mean(0)) if self.has_offsets else self.Y

    @property
    def n_free(self) -> int:
        """How many outputs were measured, without those that determine the offsets."""
        return int((~np.isnan(self.Y)).sum()) - self.has_offsets * self.Y.shape[1]

    @property
    def theta_width(self) -> float:
        """Standard deviation of theta's Gaussian prior."""
        return float(THETA_WIDTH * np.sqrt(np.nanmean(self.outputs**2) / (self.inputs**2).mean()))

    @property
    def variances(self) -> Array:
        """The noise's variance, or a grid that is even in logarithms, where the prior is flat."""
        return np.exp(2 * LOG_NOISE_GRID) if self.noise_std is None else np.array([self.noise_std**2])

    def log_prior(self, bits: Array) -> Array:
        """Log-probabilities (graphs,) of graphs (graphs, unknown pairs), up to a constant.

        An unknown density has a Beta law; if edges and non-edges are known, then with even odds that of a random
        sample, which the known pairs are counted into.
        """
        log_prior = bits @ self.log_odds
        if not self.has_unknown_density:
            return np.asarray(log_prior)
        counts = np.stack([bits.sum(1), (1 - bits).sum(1)])
        known = self.known.known_pairs().gather(self.known.values)
        seen = np.array([known.sum(), (1 - known).sum()])
        laws = [DENSITY_BEFORE, DENSITY_BEFORE + (seen if seen.all() else 0.0)]
        evidence = [special.betaln(*(counts + law[:, None])) - special.betaln(*law) for law in laws]
        return np.asarray(log_prior + np.logaddexp(*evidence))

    def parameter_grid(self) -> tuple[Array, Array, Array]:
        """Values of the parameter that outputs are not linear in, log-weights by its prior, and steps, (grid,) each."""
        filter = self.filter
        if isinstance(filter, HeatDiffusionFilter) and filter.fixed:
            return np.array([filter.fixed["theta"]]), np.zeros(1), np.zeros(1)
        if isinstance(filter, HeatDiffusionFilter):
            times = np.geomspace(1e-3, filter.theta_max, N_TIMES)
            return times, heat_law(filter).logpdf(times), np.gradient(times)
        if isinstance(filter, ARMAFilter):
            # Steps in proportion to a_1 far from zero, and even ones near it.
            a = 0.3 * np.sinh(np.linspace(-1, 1, N_VALUES_OF_A) * np.arcsinh(5 * self.theta_width / 0.3))
            return a, -0.5 * (a / self.theta_width) ** 2, np.gradient(a)
        return np.full(1, np.nan), np.zeros(1), np.ones(1)

    def linear_parameters(self) -> Array:
        """The values of the parameters that outputs are linear in, nan where they are free; for heat, a factor of 1."""
        if isinstance(self.filter, HeatDiffusionFilter):
            return np.ones(1)
        names = self.filter.parameter_names()[: 1 if isinstance(self.filter, ARMAFilter) else None]
        return np.array([(self.filter.fixed or {}).get(name, np.nan) for name in names])

    def of_graphs(self, graphs: Array) -> GivenGraphs:
        """Integrate all else out, for graphs (graphs, nodes, nodes) whose edges may have any strengths."""
        values, log_weight, step = self.parameter_grid()
        n_cells = len(values) * max(len(self.variances), self.Y.size * len(self.linear_parameters()))
        parts = np.array_split(graphs, max(1, len(graphs) * n_cells // _NUMBERS_AT_ONCE))
        done = [self._of_some_graphs(part, values, log_weight, step) for part in parts if len(part)]
        return GivenGraphs(*map(np.concatenate, zip(*done, strict=True)))

    def _of_some_graphs(self, graphs: Array, values: Array, log_weight: Array, step: Array) -> GivenGraphs:
        variance = self.variances
        regression = Regression.of(self, operators(self.filter, graphs[:, None], values))
        log_density = regression.log_density(variance, self.temperature)  # (graphs, grid, variances)
        log_density += (log_weight / self.temperature + np.log(np.maximum(step, 1e-300)) * (len(step) > 1))[:, None]
        log_evidence = special.logsumexp(log_density, axis=(1, 2))
        weight = np.exp(log_density - log_evidence[:, None, None])
        mean, spread = regression.parameters(variance, self.temperature)
        is_on_grid = isinstance(self.filter, HeatDiffusionFilter | ARMAFilter)  # the last parameter
        n_linear, of_values, of_levels = self.filter.n_parameters() - is_on_grid, weight.sum(2), weight.sum(1)
        theta = np.einsum("mgv,mgvp->mp", weight, mean[..., :n_linear])
        if is_on_grid:
            theta = np.column_stack([theta, of_values @ values])
        theta_below, noise_below = np.full_like(theta, np.nan), np.full(len(theta), np.nan)
        if self.truth is not None:
            true_theta, true_noise_std = self.truth
            below = _below(true_theta[:n_linear], mean[..., :n_linear], spread[..., :n_linear])
            theta_below[:, :n_linear] = np.einsum("mgv,mgvp->mp", weight, below)
            if is_on_grid:  # a value of the grid stands for its cell
                theta_below[:, -1] = of_values @ _below(true_theta[-1], values, step * _CELL)
            noise_below = of_levels @ _below(np.log(true_noise_std), 0.5 * np.log(variance), _LOG_NOISE_STEP * _CELL)
        return GivenGraphs(log_evidence, theta, of_levels @ variance, theta_below, noise_below)


def _below(value: Array | float, mean: Array, spread: Array | float) -> Array:
    """Probability that a Gaussian number is below a value; one half where it is the value without doubt."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(special.ndtr((value - mean) / spread))


class GivenGraphs(NamedTuple):
    """What is known of all else, given each graph."""

    log_evidence: Array  # (graphs,) up to a constant
    theta: Array  # (graphs, parameters) posterior mean
    variance: Array  # (graphs,) posterior mean of the noise's variance
    theta_below: Array  # (graphs, parameters) probability that theta is below the truth; nan where that is not given
    noise_below: Array  # (graphs,) likewise the noise level


class Posterior(NamedTuple):
    """The exact answer."""

    bits: Array  # (graphs, unknown pairs)
    probability: Array  # (graphs,)
    theta: Array  # (parameters,) mean
    variance: float  # mean of the noise's variance
    theta_below: Array  # (parameters,) probability that theta is below the truth
    noise_below: float

    @property
    def marginals(self) -> Array:
        """Probabilities of the unknown pairs."""
        return np.asarray(self.probability @ self.bits)


def enumerate_graphs(system: SmallSystem) -> Posterior:
    """Try every graph on the unknown pairs."""
    bits = all_graphs(system.known)
    bits = bits[have_steady_states(system.filter, system.known.fill(bits))]
    given = system.of_graphs(system.known.fill(bits))
    return posterior_of(bits, given, system.log_prior(bits) / system.temperature)


def posterior_of(bits: Array, given: GivenGraphs, log_prior: Array) -> Posterior:
    """Weigh graphs (graphs, unknown pairs) by their evidence and their prior (graphs,)."""
    probability = special.softmax(given.log_evidence + log_prior)
    theta, variance, theta_below, noise_below = (probability @ part for part in given[1:])
    return Posterior(bits, probability, theta, float(variance), theta_below, float(noise_below))


def have_steady_states(filter: GraphFilter, graphs: Array) -> Any:
    """Return which graphs have outputs: a steady state without a leak has none on a graph that is in pieces."""
    if not isinstance(filter, SteadyStateFilter) or filter.leak:
        return np.ones(len(graphs), dtype=bool)
    return np.array([connected_components(graph, directed=False)[0] == 1 for graph in graphs])


# Filters


def operators(filter: GraphFilter, matrices: Array, values: Array) -> Array:
    """Return operators (..., parameters, nodes, nodes), one for each parameter that outputs are linear in.

    Matrices (..., nodes, nodes) and values (...) of the other parameter, if there is one, are broadcast.
    """
    identity = np.eye(matrices.shape[-1])
    if isinstance(filter, PolynomialFilter):
        powers = [np.broadcast_to(identity, matrices.shape)]
        for _ in range(filter.order):
            powers.append(powers[-1] @ matrices)
        return np.stack(powers, -3)
    values = values[..., None, None]
    if isinstance(filter, ARMAFilter):
        return np.linalg.inv(identity + values * matrices)[..., None, :, :]
    laplacian = matrices.sum(-1)[..., None] * identity - matrices
    if isinstance(filter, HeatDiffusionFilter):
        return exponential(-values * laplacian)[..., None, :, :]
    conductance = laplacian + filter.leak * identity
    if filter.ground is not None:
        conductance[..., filter.ground, :] = conductance[..., :, filter.ground] = 0
    return np.linalg.pinv(conductance, rcond=1e-10)[..., None, :, :]


def exponential(matrices: Array) -> Array:
    """Return exp of matrices (..., nodes, nodes), by scaling and squaring of Taylor's polynomial."""
    norm = np.abs(matrices).sum(-1).max(initial=1e-3)
    n_squarings = max(0, int(np.ceil(np.log2(norm / 0.25))))
    scaled = matrices / 2**n_squarings
    result = identity = np.broadcast_to(np.eye(matrices.shape[-1]), matrices.shape)
    for degree in range(9, 0, -1):  # the rest is below 0.25^10 / 10!, which is 3e-13
        result = identity + scaled @ result / degree
    for _ in range(n_squarings):
        result = result @ result
    return np.asarray(result)


class Regression(NamedTuple):
    """Regression of the outputs on parameters with a Gaussian prior, in the eigenbasis of the Gram matrix."""

    n_free: int  # measurements
    squares: Array  # (..., ) of the outputs, less what fixed parameters make
    precision: Array  # (..., free parameters) for noise of one, without the prior's
    slope: Array  # (..., free parameters)
    basis: Array  # (..., parameters, free parameters)
    fixed: Array  # (parameters,) zero where a parameter is free
    theta_width: float

    @classmethod
    def of(cls, system: SmallSystem, operators: Array) -> Regression:
        """Regress on what operators (..., parameters, nodes, nodes) make of the inputs."""
        is_measured, coefficients = ~np.isnan(system.Y), system.linear_parameters()
        design = (system.inputs @ operators.swapaxes(-1, -2) / system.relative_noise)[..., is_measured]
        outputs = (system.outputs / system.relative_noise)[is_measured]
        is_free, fixed = np.isnan(coefficients), np.nan_to_num(coefficients)
        outputs = outputs - fixed @ design
        design = design[..., is_free, :]
        precision, vectors = np.linalg.eigh(design @ design.swapaxes(-1, -2))
        slope = (vectors.swapaxes(-1, -2) @ (design @ outputs[..., None]))[..., 0]
        basis = np.eye(len(fixed))[:, is_free] @ vectors
        return cls(system.n_free, (outputs**2).sum(-1), precision, slope, basis, fixed, system.theta_width)

    def log_density(self, variance: Array, temperature: float = 1.0) -> Array:
        """Log-likelihood (..., variances) with the parameters integrated out.

        1 / temperature multiplies all that stands in the exponent, the parameters' prior included, before the integral.
        """
        precision = self.precision[..., None, :] / variance[..., None] + self.theta_width**-2
        explained = ((self.slope[..., None, :] / variance[..., None]) ** 2 / precision).sum(-1)
        exponent = -0.5 * (self.squares[..., None] / variance - explained + self.n_free * np.log(variance))
        return np.asarray(exponent / temperature - 0.5 * np.log(precision).sum(-1))

    def parameters(self, variance: Array, temperature: float = 1.0) -> tuple[Array, Array]:
        """Means and standard deviations (..., variances, parameters)."""
        precision = self.precision[..., None, :] / variance[..., None] + self.theta_width**-2
        basis = self.basis[..., None, :, :]
        mean = (basis @ (self.slope[..., None, :] / variance[..., None] / precision)[..., None])[..., 0]
        spread = np.sqrt(temperature * (basis**2 @ (1 / precision)[..., None])[..., 0])
        return mean + self.fixed, spread
