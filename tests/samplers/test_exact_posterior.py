"""Samplers against posteriors that are known exactly, by trying all graphs.

With four or five nodes and a handful of unknown pairs every graph can be tried; `_exact_posterior` integrates theta and
an unknown noise level out.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from _exact_posterior import (
    GivenGraphs,
    SmallSystem,
    all_graphs,
    enumerate_graphs,
    heat_law,
    log_odds_of_pairs,
    operators,
    posterior_of,
)
from scipy.special import expit, log_expit, logit, logsumexp
from scipy.stats import beta

from sklearn_graphid import (
    PAPER_SETTINGS,
    ErdosRenyiPrior,
    KnownEdges,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    StochasticBlockPrior,
)
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import CallableFilter, HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.identifiers import _chains
from sklearn_graphid.samplers import ChainRNG, ChainState, Problem, _flips, _listed_graphs
from sklearn_graphid.samplers._listed_graphs import list_graphs

SWEEPS = {"n_levels": 3, "n_steps": 3, "n_sweeps": 20}


@dataclass
class Question:
    """A small system, and what a sampler is told about it."""

    filter: Any
    theta: list[float]
    edges: list[tuple[int, int]]
    known_pairs: list[tuple[int, int]]
    n_nodes: int = 4
    n_experiments: int = 3
    input_scale: float = 3.0
    noise_std: float | None = 1.0  # as told; the true one is 1
    noise_per_node: list[float] | None = None  # true and told; `noise_std` is then their root mean square
    prior: Any = None
    edge_prior: np.ndarray | None = None
    hidden_outputs: float = 0.0
    hidden_nodes: list[int] = field(default_factory=list)
    seed: int = 1
    temperature: float = 1.0
    n_chains: int = 500
    directed: bool = False  # pairs (i, j) are then entries of the matrix
    offset: list[float] | None = None  # of the outputs of every node, which is told to be unknown
    outliers: dict[tuple[int, int], float] = field(default_factory=dict)  # what is added to outputs
    X: np.ndarray = field(init=False)
    Y: np.ndarray = field(init=False)
    known: KnownEdges = field(init=False)
    relative_noise: np.ndarray = field(init=False)

    def __post_init__(self):
        levels = np.ones(self.n_nodes) if self.noise_per_node is None else np.array(self.noise_per_node)
        if self.noise_per_node is not None:
            self.noise_std = np.sqrt((levels**2).mean())
        self.relative_noise = levels / np.sqrt((levels**2).mean())
        adjacency, mask = np.zeros((2, self.n_nodes, self.n_nodes))
        for matrix, pairs in ((adjacency, self.edges), (mask, self.known_pairs)):
            for i, j in pairs:
                matrix[i, j] = 1
                matrix[j, i] = matrix[j, i] if self.directed else 1
        self.known = KnownEdges(mask == 1, adjacency, directed=self.directed)
        self.X, self.Y = make_system(
            adjacency,
            self.filter,
            self.theta,
            n_experiments=self.n_experiments,
            input_scale=self.input_scale,
            noise_std=levels,
            directed=self.directed,
            random_state=self.seed,
        )
        self.Y[np.random.default_rng(self.seed).random(self.Y.shape) < self.hidden_outputs] = np.nan
        self.Y[:, self.hidden_nodes] = np.nan
        self.Y += 0 if self.offset is None else np.array(self.offset)
        for place, size in self.outliers.items():
            self.Y[place] += size

    @property
    def system(self):
        """What the posterior is made of, without outliers."""
        log_odds = log_odds_of_pairs(self.prior, self.known)
        if self.edge_prior is not None:
            log_odds = log_odds + logit(self.edge_prior[self.known.unknown_pairs()])
        return SmallSystem(
            self.filter,
            self.X,
            self.Y,
            self.known,
            log_odds,
            has_unknown_density=isinstance(self.prior, ErdosRenyiPrior) and self.prior.p is None,
            noise_std=self.noise_std,
            relative_noise=self.relative_noise,
            has_offsets=self.offset is not None,
            temperature=self.temperature,
        )


def exact_posterior(question):
    if not question.outliers:
        return enumerate_graphs(question.system)
    bits = all_graphs(question.known)
    given = given_graphs_with_outliers(question, question.known.fill(bits))
    return posterior_of(bits, given, question.system.log_prior(bits))


def given_graphs_with_outliers(question, graphs):
    """Heat, where the noise of a measurement is usual, or with the probability `share` larger by one of ten factors."""
    share = beta(1, 50).ppf((np.arange(30) + 0.5) / 30)
    theta, variances = np.geomspace(0.005, 1.0, 150), np.exp(np.linspace(np.log(0.3), np.log(8), 40))
    factors = 3.0 * 2.0 ** np.arange(10)
    weights = (1 / factors) / (1 / factors).sum()
    log_law = heat_law(question.filter).logpdf(theta) + np.log(theta)  # evenly in logarithms
    found = []
    for outputs in question.X @ operators(question.filter, graphs[:, None], theta)[:, :, 0].swapaxes(-1, -2):
        residuals = (question.Y - outputs).reshape(len(theta), 1, -1) / np.sqrt(variances)[:, None]
        usual = np.exp(-0.5 * residuals**2)
        large = sum(w / c * np.exp(-0.5 * (residuals / c) ** 2) for w, c in zip(weights, factors, strict=True))
        log_density = np.stack([np.log((1 - s) * usual + s * large).sum(-1) for s in share], -1)
        log_density = log_density - 0.5 * residuals.shape[-1] * np.log(variances)[:, None] + log_law[:, None, None]
        total = logsumexp(log_density)
        weight = np.exp(log_density - total)
        found.append((total, [weight.sum((1, 2)) @ theta], weight.sum((0, 2)) @ variances, [np.nan], np.nan))
    return GivenGraphs(*map(np.array, zip(*found, strict=True)))


def upper_probabilities(values):
    """A symmetric matrix for the pairs of five nodes, filled row by row."""
    matrix = np.zeros((5, 5))
    matrix[np.triu_indices(5, 1)] = values
    return matrix + matrix.T


SQUARE = {"edges": [(0, 1), (1, 2), (0, 3)], "known_pairs": [(0, 1)]}
FOUR_TIMES = {**SQUARE, "n_experiments": 4}
PATH = [(0, 1), (1, 2), (2, 3), (3, 4)]
BLOCKS = StochasticBlockPrior([0, 0, 1, 1, 1], [[0.6, 0.15], [0.15, 0.4]])
DIFFUSION = {
    "filter": HeatDiffusionFilter(),
    "theta": [0.1],
    "edges": [*PATH, (0, 4), (1, 3)],
    "known_pairs": [*PATH, (1, 4)],
    "n_nodes": 5,
    "n_experiments": 6,
    "input_scale": 5.0,
}
# Entries of the matrix. Of nodes 0 and 2 one direction is known and the other is not, and so of 1 and 3.
ONE_WAY = {
    "edges": [(0, 1), (1, 2), (2, 0), (3, 2), (1, 3)],
    "known_pairs": [(0, 1), (1, 0), (2, 1), (2, 0), (0, 3), (3, 0), (1, 3)],
    "directed": True,
}
ONE_WAY_BLOCKS = StochasticBlockPrior([0, 0, 1, 1], [[0.6, 0.15], [0.4, 0.3]], directed=True)
HOUSE = {"edges": [*PATH, (0, 3), (1, 3)], "known_pairs": [(0, 1), (1, 2), (2, 4)], "n_nodes": 5}

QUESTIONS = {
    "independent-pairs": Question(PolynomialFilter(1), [0.5, 0.5], prior=ErdosRenyiPrior(0.3), **SQUARE),
    "unknown-noise": Question(PolynomialFilter(1), [0.5, 0.5], prior=ErdosRenyiPrior(0.3), noise_std=None, **SQUARE),
    "missing-outputs": Question(
        PolynomialFilter(1), [0.5, 0.5], prior=ErdosRenyiPrior(0.2), n_experiments=4, hidden_outputs=0.4, **SQUARE
    ),
    "nothing-known": Question(
        PolynomialFilter(2),
        [0.5, 0.4, 0.2],
        edges=[(0, 1), (1, 2), (0, 3)],
        known_pairs=[],
        prior=ErdosRenyiPrior(0.4),
        n_experiments=8,
    ),
    "density-edges-known": Question(
        PolynomialFilter(1), [0.5, 0.5], prior=ErdosRenyiPrior(), input_scale=2.0, **SQUARE
    ),
    "density-both-known": Question(
        PolynomialFilter(1),
        [0.5, 0.4],
        prior=ErdosRenyiPrior(),
        noise_std=None,
        n_experiments=4,
        n_chains=2000,
        edge_prior=upper_probabilities([0.5, 0.5, 0.9, 0.5, 0.5, 0.2, 0.1, 0.5, 0.7, 0.5]),
        **HOUSE,
    ),
    "density-heat": Question(prior=ErdosRenyiPrior(), **DIFFUSION),
    "no-prior": Question(PolynomialFilter(1), [0.5, 0.5], **SQUARE),
    "blocks-second-order": Question(
        PolynomialFilter(2), [0.5, 0.4, 0.2], prior=BLOCKS, input_scale=1.5, seed=3, **HOUSE
    ),
    "blocks-edge-prior-unknown-noise": Question(
        PolynomialFilter(1),
        [0.5, 0.4],
        prior=BLOCKS,
        noise_std=None,
        n_experiments=4,
        edge_prior=upper_probabilities([0.5, 0.5, 0.9, 0.5, 0.5, 0.2, 0.1, 0.5, 0.7, 0.5]),
        **HOUSE,
    ),
    # Strong data that all but exclude two pairs, and say nothing of the one between nodes 3 and 4.
    "unseen-pair": Question(
        PolynomialFilter(1), [0.5, 0.4], prior=BLOCKS, input_scale=12.0, hidden_nodes=[3, 4], seed=2, **HOUSE
    ),
    "heat": Question(prior=ErdosRenyiPrior(0.3), **DIFFUSION),
    "fixed-coefficient": Question(PolynomialFilter(2, fixed={"theta_1": 0.4}), [0.5, 0.4, 0.2], prior=BLOCKS, **HOUSE),
    "fixed-coefficient-unknown-noise": Question(
        PolynomialFilter(1, fixed={"theta_0": 0.5}), [0.5, 0.4], prior=BLOCKS, noise_std=None, **HOUSE
    ),
    "fixed-time": Question(
        prior=ErdosRenyiPrior(0.3), noise_std=None, **{**DIFFUSION, "filter": HeatDiffusionFilter(fixed={"theta": 0.1})}
    ),
    "directed-fixed-scale": Question(
        SteadyStateFilter(leak=0.5, fixed={"scale": 1.2}), [1.2], prior=ErdosRenyiPrior(0.3), n_experiments=2, **ONE_WAY
    ),
    "heat-unknown-noise": Question(prior=BLOCKS, noise_std=None, **DIFFUSION),
    "noise-per-node": Question(
        PolynomialFilter(1), [0.5, 0.5], prior=ErdosRenyiPrior(0.3), noise_per_node=[0.3, 1.0, 2.5, 1.5], **SQUARE
    ),
    "heat-noise-per-node": Question(prior=ErdosRenyiPrior(0.3), noise_per_node=[0.4, 2.0, 1.0, 3.0, 0.7], **DIFFUSION),
    "steady-state-noise-per-node": Question(
        SteadyStateFilter(leak=0.5),
        [1.0],
        prior=ErdosRenyiPrior(0.3),
        n_experiments=2,
        input_scale=2.0,
        noise_per_node=[0.3, 1.0, 2.5, 0.6],
        **SQUARE,
    ),
    "offsets": Question(
        PolynomialFilter(1),
        [0.5, 0.5],
        prior=ErdosRenyiPrior(0.3),
        noise_std=None,
        offset=[3, -2, 0, 9.0],
        **FOUR_TIMES,
    ),
    "outliers": Question(
        prior=ErdosRenyiPrior(0.3), noise_std=None, outliers={(1, 2): 12.0, (4, 0): -5.0}, **DIFFUSION
    ),
    "directed": Question(PolynomialFilter(1), [0.5, 0.5], prior=ErdosRenyiPrior(0.3), **ONE_WAY),
    "directed-blocks-second-order": Question(
        PolynomialFilter(2), [0.5, 0.4, 0.2], prior=ONE_WAY_BLOCKS, noise_std=None, n_experiments=6, **ONE_WAY
    ),
    "directed-heat": Question(
        HeatDiffusionFilter(), [0.15], prior=ErdosRenyiPrior(0.4), n_experiments=6, input_scale=5.0, **ONE_WAY
    ),
    "directed-steady-state": Question(
        SteadyStateFilter(leak=0.5), [1.0], prior=ErdosRenyiPrior(0.3), n_experiments=2, input_scale=1.5, **ONE_WAY
    ),
}


def fit(question, n_chains=None, schedule=SWEEPS, lists_graphs=False, **settings):
    """Many chains in one batch, which is quicker than many batches.

    Unless told otherwise, no graphs are drawn from a list of all, which would hide what other moves get wrong.
    """
    n_chains = n_chains or question.n_chains
    with pytest.MonkeyPatch.context() as patch:
        if not lists_graphs:
            patch.setattr(_listed_graphs, "list_graphs", lambda *_: None)
        patch.setattr(_chains, "BATCH", n_chains)
        noise_std = question.noise_std if question.noise_per_node is None else question.noise_per_node
        told = {"n_chains": n_chains, "noise_std": noise_std, "random_state": 0}
        told |= {"fit_intercept": question.offset is not None}
        told |= {"noise_distribution": "student-t" if question.outliers else "gaussian"}
        settings = {**schedule, **told, **settings}
        if question.prior is None:
            identifier = LikelihoodLangevinIdentifier(question.filter, directed=question.directed, **settings)
        else:
            settings = {"temperature": question.temperature, "edge_prior": question.edge_prior, **settings}
            identifier = LangevinSystemIdentifier(
                question.filter, question.prior, directed=question.directed, **settings
            )
        return identifier.fit(question.X, question.Y, question.known)


@pytest.fixture(params=QUESTIONS, scope="module")
def answered(request):
    question = QUESTIONS[request.param]
    return question, exact_posterior(question), fit(question)


def marginal_errors(question, exact, identifier):
    return np.abs(identifier.edge_probabilities_[question.known.unknown_pairs()] - exact.marginals)


def marginal_tolerance(n_chains):
    """Five standard errors of the mean over independent chains.

    A chain's share in an edge probability has a standard deviation of at most 0.35 (measured, all questions), which
    makes 0.078 for 500 chains.
    """
    return 5 * 0.35 / np.sqrt(n_chains)


def test_edge_marginals_match_enumeration(answered):
    """Five standard errors, by the spread of the independent chains: for 140 marginals, one false alarm in 12,000 runs.

    Where next to no chain has an edge, that spread is not known well, and 0.005 is allowed besides.
    """
    question, exact, identifier = answered
    error = identifier._draws.edge_probability.std(0) / np.sqrt(question.n_chains)
    assert (marginal_errors(question, exact, identifier) < 5 * error + 0.005).all()


def test_law_of_the_sampled_graphs_matches_enumeration(answered):
    """Total variation over all graphs, for one draw of every chain; these are independent."""
    question, exact, identifier = answered
    n = question.n_chains
    adjacencies, _ = identifier.sample(n, random_state=0)
    rows, columns = question.known.unknown_pairs()
    numbers = adjacencies[:, rows, columns] @ (1 << np.arange(len(rows))[::-1])
    frequencies = np.bincount(numbers, minlength=len(exact.bits)) / n
    distance = 0.5 * np.abs(frequencies - exact.probability).sum()
    # By Jensen's inequality the mean is at most `expected`; by McDiarmid's, the distance is t beyond its mean with
    # probability at most exp(-2 n t^2), here exp(-15): one false alarm in 120,000 runs for 26 questions.
    expected = 0.5 * np.sqrt(exact.probability * (1 - exact.probability) / n).sum()
    assert distance < expected + np.sqrt(15 / (2 * n))


def test_theta_and_noise_match_their_posterior_means(answered):
    # Five standard errors of the mean over independent chains: one false alarm in 87,000 runs for 20 parameters.
    question, exact, identifier = answered
    tolerance = 5 / np.sqrt(question.n_chains)
    # Parameters that are fixed are exactly what was given; 1e-12 is the rounding of the grid.
    assert (np.abs(identifier.theta_ - exact.theta) <= tolerance * identifier.theta_std_ + 1e-12).all()
    # The variance's law has heavy tails where few outputs were measured; 5 percent is about ten standard errors.
    assert identifier.noise_std_ == pytest.approx(np.sqrt(exact.variance), rel=0.05)


@pytest.mark.parametrize("order", [0, 1])
def test_temperature_is_the_inverse_power_of_the_posterior(order):
    """Of the prior alone where the order is 0, as the outputs then do not depend on the graph."""
    question = Question(
        PolynomialFilter(order), [0.5] * (order + 1), prior=ErdosRenyiPrior(0.3), temperature=0.5, **SQUARE
    )
    errors = marginal_errors(question, exact_posterior(question), fit(question))
    assert errors.max() < marginal_tolerance(question.n_chains)


def test_default_schedule_matches_enumeration():
    """A chain's share in a marginal varies by less than 0.38 (measured)."""
    question = QUESTIONS["independent-pairs"]
    errors = marginal_errors(question, exact_posterior(question), fit(question, schedule={}))
    assert errors.max() < 5 * 0.38 / np.sqrt(question.n_chains)  # one false alarm in 350,000 runs


def test_default_settings_mix_where_graph_and_theta_depend_on_one_another():
    """A second-order polynomial with twice the signal of the question above. The default schedule is enough."""
    question = Question(PolynomialFilter(2), [0.5, 0.4, 0.2], prior=BLOCKS, **HOUSE)
    errors = marginal_errors(question, exact_posterior(question), fit(question, schedule={}))
    assert errors.max() < marginal_tolerance(question.n_chains)


@pytest.mark.parametrize("name", ["blocks-second-order", "heat-unknown-noise"])
def test_looking_ahead_draws_what_one_pair_after_the_other_would(name):
    """One look at a time is plain Gibbs sampling; longer ones differ by rounding alone, which flips next to nothing."""
    question = QUESTIONS[name]
    fits = []
    for first, most in [(1, 1), (5, 2**18)]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_flips, "_FIRST_LOOK", first)
            patch.setattr(_flips, "_NUMBERS_AT_ONCE", most)
            fits.append(fit(question, n_chains=16))
    (one, one_theta), (many, many_theta) = (identifier.sample(16 * 12, random_state=0) for identifier in fits)
    assert np.array_equal(one, many)
    np.testing.assert_allclose(one_theta, many_theta, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["density-both-known", "density-heat"])
def test_sweeps_that_draw_from_a_list_match_enumeration(name):
    """A chain's share in a marginal varies by less than 0.35: one false alarm in 140,000 runs, of 12 marginals."""
    question = QUESTIONS[name]
    errors = marginal_errors(question, exact_posterior(question), fit(question, 200, lists_graphs=True))
    assert errors.max() < marginal_tolerance(200)


@pytest.mark.parametrize("name", ["unknown-noise", "missing-outputs", "heat-unknown-noise", "directed-steady-state"])
def test_draws_from_a_rough_list_of_graphs_match_enumeration(name):
    """The move alone, from the empty graph, with weights and centers of the list that are off: draws stay exact.

    Edges of 400 independent chains: five standard errors are 0.125, which is one false alarm in 40,000 runs.
    """
    question, n_chains = QUESTIONS[name], 400
    exact, rng = exact_posterior(question), ChainRNG(range(n_chains), torch.device("cpu"), torch.float64)
    data = question.X, question.Y, question.known, question.filter
    problem = Problem.from_numpy(*data, torch.device("cpu"), torch.float64)
    listed = list_graphs(problem, question.noise_std)
    noise = 0.5 * torch.randn(listed.log_weight.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    center = listed.center + noise[..., None] * listed.factor.diagonal(dim1=-2, dim2=-1)
    rough = listed._replace(log_weight=listed.log_weight + noise, center=problem.filter.constrain(center))
    log_odds = torch.tensor(question.system.log_odds).expand(n_chains, -1)
    theta = listed.center[0, 0].expand(n_chains, -1)
    chain = ChainState(torch.zeros_like(log_odds), theta, torch.ones(n_chains, dtype=torch.float64))
    for _ in range(20):
        chain, probability = rough.redraw(problem, chain, log_odds, question.noise_std, 1.0, rng)
    tolerance = 5 / np.sqrt(n_chains)
    for drawn in (chain.pairs, probability):
        np.testing.assert_allclose(drawn.mean(0), exact.marginals, atol=0.5 * tolerance)
    assert (np.abs(chain.theta.numpy().mean(0) - exact.theta) < tolerance * chain.theta.numpy().std(0)).all()
    # A fifth is more than five standard errors, heavy tails included.
    assert float(chain.noise_std.square().mean()) == pytest.approx(exact.variance, rel=0.2)


def test_graphs_are_listed_where_that_takes_little_time_and_no_parameter_is_known():
    def listed(filter, n_nodes):
        nothing, signals = np.zeros((n_nodes, n_nodes)), np.ones((2, n_nodes))
        return list_graphs(
            Problem.from_numpy(signals, signals, KnownEdges(nothing > 0, nothing), filter, torch.device("cpu")), None
        )

    assert len(listed(PolynomialFilter(1), 5).pairs) == 2**10
    assert len(listed(SteadyStateFilter(), 4).pairs) == 38  # connected graphs on four named nodes
    assert listed(PolynomialFilter(1), 6) is None
    assert listed(PolynomialFilter(1, fixed={"theta_0": 0.0}), 5) is None
    assert listed(CallableFilter(lambda adjacency, theta: theta[0] * adjacency), 5) is None


class BlocksInQuestion(StochasticBlockPrior):
    """Independent pairs that do not say so: trust in them is sampled, and its pseudo-likelihood is the likelihood."""

    has_independent_pairs = False


def enumerate_graphs_and_trust(question):
    """Marginals of the unknown pairs, and the mean of trust, which is 1 with probability .8 beforehand.

    Known pairs of one kind only say nothing of trust and density, and the prior then has a tilt of unknown size.
    """
    known, trust = question.known, np.linspace(0, 1, 11)
    log_joint = np.log([0.02] * 10 + [0.8])[:, None]
    values = known.known_pairs().gather(known.values)
    labels, probabilities = np.array(question.prior.labels), np.array(question.prior.probabilities)
    said = logit(probabilities[labels][:, labels])

    def mixed(density, tilt=0.0):
        return density + trust[:, None, None] * (said + tilt - density)

    has_both_kinds = 0 < values.mean() < 1
    told = mixed(logit((values.sum() + 1) / (len(values) + 2)))
    told = log_expit((2 * values - 1) * known.known_pairs().gather(told)).sum(1) * has_both_kinds
    tilts = np.zeros(1) if has_both_kinds else np.linspace(-6, 6, 33)
    bits = all_graphs(known)
    # The density of the unknown pairs is one of 25; its law is that of `SmallSystem.log_prior`.
    densities, seen = np.linspace(-6, 6, 25), np.array([values.sum(), (1 - values).sum()]) * has_both_kinds
    laws = [beta(*(np.array([0.5, 1.5]) + n)).logpdf(expit(densities)) for n in (0, seen)]
    laws = np.logaddexp(*laws) + log_expit(densities) + log_expit(-densities)
    laws = laws[:, None] - 0.5 * (tilts / 2.0) ** 2
    odds = [[known.space.gather(mixed(density, tilt))[:, None] for tilt in tilts] for density in densities]
    drawn = log_expit((2 * bits - 1) * np.array(odds)).sum(-1)  # (densities, tilts, trust, graphs)
    drawn = logsumexp(drawn + laws[..., None, None], axis=(0, 1))
    evidence = question.system.of_graphs(known.fill(bits)).log_evidence
    log_joint = log_joint + told[:, None] + drawn + evidence
    joint = np.exp(log_joint - logsumexp(log_joint))
    return joint.sum(0) @ bits, joint.sum(1) @ trust


@pytest.mark.parametrize(
    ("probabilities", "seed", "known_pairs"),
    [
        ([[0.9, 0.03], [0.03, 0.8]], 1, [(0, 1), (2, 3), (1, 2), (0, 3), (1, 4)]),
        ([[0.03, 0.9], [0.9, 0.3]], 3, [(0, 1), (2, 3), (1, 2), (0, 3), (1, 4)]),
        ([[0.3, 0.02], [0.02, 0.2]], 1, [(0, 1), (2, 3), (3, 4)]),
    ],
    ids=["prior-fits", "prior-misleads", "known-pairs-mislead"],
)
def test_trust_and_graphs_match_enumeration_where_pairs_are_independent(probabilities, seed, known_pairs):
    """Trust varies by at most 0.5 from chain to chain, and five standard errors of 400 chains are 0.125.

    With ten marginals that is one false alarm in 140,000 runs. Pairs within a group are edges here, and none between.
    """
    edges = [(0, 1), (2, 3), (3, 4), (2, 4)]
    question = Question(
        PolynomialFilter(1),
        [0.5, 0.4],
        edges,
        known_pairs,
        n_nodes=5,
        input_scale=1.0,
        prior=BlocksInQuestion([0, 0, 1, 1, 1], probabilities),
        seed=seed,
        n_chains=400,
    )
    marginals, trust = enumerate_graphs_and_trust(question)
    identifier = fit(question)
    errors = np.abs(identifier.edge_probabilities_[question.known.unknown_pairs()] - marginals)
    assert errors.max() < marginal_tolerance(question.n_chains)
    assert identifier.prior_trust_ == pytest.approx(trust, abs=5 * 0.5 / np.sqrt(question.n_chains))


# How far off Langevin dynamics is. These are not targets, but facts: the likelihood is taken at the soft matrix instead
# of at the graphs around it, and the published schedule ends long before it has mixed.


def langevin_errors(question, **settings):
    exact = exact_posterior(question)
    return marginal_errors(question, exact, fit(question, n_chains=150, **settings))


def test_published_langevin_misses_the_exact_marginals():
    settings = {name: value for name, value in PAPER_SETTINGS.items() if name not in ("n_chains", "noise_std")}
    settings["temperature"] = 1.0
    errors = langevin_errors(QUESTIONS["independent-pairs"], **settings)
    # 150 chains: a standard error of at most 0.04 for each of five marginals.
    assert 0.06 < errors.max() < 0.3
    assert 0.03 < errors.mean() < 0.14


def test_langevin_with_a_derived_step_misses_them_by_less():
    settings = {"n_sweeps": 0, "sigma_max": 0.5, "sigma_min": 0.03, "n_levels": 10, "n_steps": 100}
    errors = langevin_errors(QUESTIONS["independent-pairs"], **settings)
    assert 0.01 < errors.max() < 0.16
    assert 0.005 < errors.mean() < 0.08
