"""Known pairs that are wrong are named; those that are right are not, whatever else is wrong."""

from __future__ import annotations

import copy
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from _exact_posterior import SmallSystem, enumerate_graphs
from scipy.linalg import expm
from scipy.special import logit

from sklearn_graphid import ErdosRenyiPrior, KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.graphs import EdgeSpace
from sklearn_graphid.samplers import Problem, gains_of_absent, gains_of_known
from sklearn_graphid.samplers._parameters import _PRIOR_WIDTH

GRAPH = nx.to_numpy_array(nx.gnm_random_graph(9, 13, seed=3))
KNOWN = hide_edges(GRAPH, 0.3, random_state=0)
QUICK = {"n_chains": 4, "n_levels": 2, "n_sweeps": 8, "random_state": 0}


def with_wrong_pair(known, is_edge, number=3):
    """The same with one known pair wrong, which is an edge in truth or is not."""
    i, j = np.argwhere(np.triu(known.mask & (known.values == is_edge), 1))[number]
    values = known.values.copy()
    values[i, j] = values[j, i] = 1 - values[i, j]
    return KnownEdges(known.mask, values, known.names), (int(i), int(j))


def fit(filter, X, Y, known, **settings):
    """The fitted identifier, and what it warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        identifier = LangevinSystemIdentifier(filter, **QUICK | settings).fit(X, Y, known)
    return identifier, [str(warning.message) for warning in caught]


def first_pair(identifier, **settings):
    row = identifier.suspect_known_pairs(1, **settings).iloc[0]
    return row.source, row.target


@pytest.fixture(scope="module")
def heat():
    return make_system(GRAPH, "heat", [0.4], 30, random_state=0)


@pytest.fixture(scope="module")
def misled(heat):
    """A fit with an edge that was given as absent, which pair that is, and what the fit warned of."""
    known, pair = with_wrong_pair(KNOWN, is_edge=True)
    identifier, messages = fit("heat", *heat, known)
    return identifier, pair, messages


# Against what is true without us


def exact_log_odds(X, Y, known, density, wrong):
    """By enumeration: no pair is known for sure, and what is said of the known ones is evidence."""
    nothing = KnownEdges.nothing(len(known.mask))
    pairs = nothing.unknown_pairs()
    log_odds = np.where(known.mask[pairs], logit(wrong) * (1 - 2 * known.values[pairs]), logit(density))
    exact = enumerate_graphs(SmallSystem(PolynomialFilter(1), X, Y, nothing, log_odds))
    is_wrong = exact.bits != known.values[pairs]
    of_pairs = [logit(exact.probability @ column) for column in is_wrong.T]
    return {(i, j): odds for i, j, odds in zip(*pairs, of_pairs, strict=True) if known.mask[i, j]}


def test_log_odds_match_enumeration():
    """64 graphs; one of four known pairs is wrong, and the noise leaves doubt."""
    path, mask = nx.to_numpy_array(nx.path_graph(4)), np.zeros((4, 4), dtype=bool)
    for i, j in ((0, 1), (0, 2), (1, 2), (0, 3)):
        mask[i, j] = mask[j, i] = True
    values = path.copy()
    values[0, 2] = values[2, 0] = 1
    known = KnownEdges(mask, values)
    X, Y = make_system(path, PolynomialFilter(1), [0.5, 0.5], 6, input_scale=3.0, random_state=8)
    exact = exact_log_odds(X, Y, known, 0.4, 0.05)
    identifier, _ = fit(PolynomialFilter(1), X, Y, known, prior=ErdosRenyiPrior(0.4), n_sweeps=20)
    suspects = identifier.suspect_known_pairs(probability=0.05)
    found = {(row.source, row.target): row.log_odds for row in suspects.itertuples()}
    assert exact[0, 2] == max(exact.values()) > 2
    # 24 chains with about six draws of the odds each. Three seeds of the fit differ by 0.06 at most, and by 0.2 from
    # the exact log-odds; those of rare events are seen in few draws.
    for pair, value in exact.items():
        assert found[pair] == pytest.approx(value, abs=0.6 if abs(value) < 4 else 2.0), pair


@pytest.mark.parametrize("directed", [False, True])
def test_gains_of_flips_are_those_of_new_outputs(directed):
    """Heat on binary graphs, against scipy's matrix exponential."""
    X, Y = make_system(GRAPH, "heat", [0.5], 5, random_state=0)
    if directed:
        filter, theta = PolynomialFilter(1), [0.3, 0.2]
    else:
        filter, theta = HeatDiffusionFilter(), [0.4]
    known = KnownEdges(KNOWN.mask, KNOWN.values, directed=directed)
    problem = Problem.from_numpy(X, Y, known, filter, torch.device("cpu"), torch.float64)
    pairs, noise = known.known_pairs(), 1.3
    graph, parameters = torch.tensor(GRAPH)[None], torch.tensor([theta], dtype=torch.float64)
    found = gains_of_known(problem, graph, parameters, torch.tensor([noise]).double(), pairs.to(torch.device("cpu")))
    width = _PRIOR_WIDTH * np.sqrt(np.mean(Y**2) / np.mean(X**2))

    def log_likelihood(matrix):
        if not directed:
            laplacian = np.diag(matrix.sum(1)) - matrix
            return -0.5 * np.sum((Y - X @ expm(-theta[0] * laplacian)) ** 2) / noise**2
        design = np.stack([X.ravel(), (X @ matrix.T).ravel()], 1)
        covariance = noise**2 * np.eye(Y.size) + width**2 * design @ design.T
        return -0.5 * (Y.ravel() @ np.linalg.solve(covariance, Y.ravel()) + np.linalg.slogdet(covariance)[1])

    for number in range(0, pairs.n_free, 7):
        flipped = GRAPH.copy()
        one = pairs.select(np.array([number]))
        one.write(flipped, 1 - one.gather(flipped))
        assert float(found[0, number]) == pytest.approx(log_likelihood(flipped) - log_likelihood(GRAPH), rel=1e-5)


def test_gains_of_absent_edges_are_those_of_a_regression():
    """What one more column takes off the residuals of a regression on the edges and theta, by numpy."""
    rng = np.random.default_rng(0)
    sizes = np.triu(rng.lognormal(0, 0.5, GRAPH.shape), 1)
    weights, theta = GRAPH * (sizes + sizes.T), np.array([0.4, 0.3])
    X = rng.uniform(-3, 3, (20, len(GRAPH)))
    Y = theta[0] * X + theta[1] * X @ weights + rng.standard_normal(X.shape)
    problem = Problem.from_numpy(X, Y, KNOWN, PolynomialFilter(1), torch.device("cpu"), torch.float64, True)
    is_absent = KNOWN.mask & (KNOWN.values == 0)
    absent = EdgeSpace.of_mask(is_absent)
    parts = problem.gather(torch.tensor(weights)), torch.tensor(theta)
    found = gains_of_absent(problem, *parts, absent.to(torch.device("cpu")), signed=True).numpy()

    def by_pair(i, j):
        column = np.zeros(X.shape)
        column[:, i], column[:, j] = theta[1] * X[:, j], theta[1] * X[:, i]
        return column.ravel()

    edges = np.argwhere(np.triu(GRAPH, 1))
    design = np.stack([by_pair(i, j) for i, j in edges] + [X.ravel(), (X @ weights).ravel()], 1)
    residuals = (Y - theta[0] * X - theta[1] * X @ weights).ravel()
    left = residuals - design @ np.linalg.lstsq(design, residuals, rcond=1e-8)[0]
    variance = left @ left / (left.size - np.linalg.matrix_rank(design, rtol=1e-8))
    for number, (i, j) in enumerate(zip(*absent.ends(), strict=True)):
        column = by_pair(i, j) - design @ np.linalg.lstsq(design, by_pair(i, j), rcond=1e-8)[0]
        assert found[number] == pytest.approx(0.5 * (left @ column) ** 2 / (column @ column) / variance, rel=1e-5)


# What users see


@pytest.mark.parametrize("is_edge", [False, True])
@pytest.mark.parametrize(("filter", "theta"), [("heat", [0.4]), (PolynomialFilter(1), [0.5, 0.3])])
def test_a_wrong_pair_is_first_and_named(filter, theta, is_edge):
    X, Y = make_system(GRAPH, filter, theta, 30, random_state=0)
    known, pair = with_wrong_pair(KNOWN, is_edge)
    identifier, messages = fit(filter, X, Y, known)
    assert first_pair(identifier) == pair
    given = "no edge" if is_edge else "an edge"
    assert messages == [f"the known pair {pair[0]} and {pair[1]}, given as {given}, contradicts the data; check it."]
    assert len(messages[0]) < 160


@pytest.mark.parametrize("is_edge", [False, True])
def test_a_wrong_pair_is_named_where_edges_have_strengths(is_edge):
    grid = nx.to_numpy_array(nx.grid_2d_graph(3, 3))
    sizes = np.triu(np.random.default_rng(1).lognormal(0, 0.5, grid.shape), 1)
    filter = SteadyStateFilter(ground=0)
    X, Y = make_system(grid * (sizes + sizes.T), filter, [1.0], 20, noise_std=0.1, random_state=0)
    known, pair = with_wrong_pair(hide_edges(grid, 0.3, random_state=0), is_edge)
    identifier, messages = fit(filter, X, Y, known, edge_weights="positive", n_sweeps=16)
    assert first_pair(identifier) == pair
    assert any(f"known pair {pair[0]} and {pair[1]}," in message for message in messages)
    assert not any("better filter" in message for message in messages)


@pytest.mark.parametrize("seed", range(2))
def test_right_pairs_are_not_named(seed):
    """One in 100 pairs is wrong before the data are seen; with the data, odds of a right one to be wrong are tiny."""
    X, Y = make_system(GRAPH, "heat", [0.4], 30, random_state=seed)
    identifier, messages = fit("heat", X, Y, KNOWN, random_state=seed)
    assert messages == []
    suspects = identifier.suspect_known_pairs()
    assert len(suspects) == KNOWN.known_pairs().n_free
    assert suspects.log_odds.is_monotonic_decreasing
    assert suspects.log_odds.max() < 0


def test_a_wrong_filter_is_not_blamed_on_a_pair():
    X, Y = make_system(GRAPH, "heat", [0.4], 40, noise_std=0.2, random_state=0)
    _, messages = fit("polynomial", X, Y, KNOWN)
    assert len(messages) >= 1
    assert not any("known pair" in message for message in messages)


def test_nodes_have_their_names_and_directions():
    """A ring of six, in which an edge that is there was given as absent in one direction."""
    ring = np.roll(np.eye(6), 1, axis=0)  # i - 1 sends to i
    mask = np.random.default_rng(0).random(ring.shape) < 0.8
    mask[3, 2] = True
    values = ring.copy()
    values[3, 2] = 0
    names = [f"station {letter}" for letter in "abcdef"]
    X, Y = make_system(ring, PolynomialFilter(1), [0.3, 0.5], 20, directed=True, random_state=0)
    known = KnownEdges(mask, values, names, directed=True)
    X, Y = pd.DataFrame(X, columns=names), pd.DataFrame(Y, columns=names)
    identifier, messages = fit(PolynomialFilter(1), X, Y, known, directed=True)
    assert first_pair(identifier) == ("station c", "station d")
    assert any("'station c' to 'station d', given as no edge" in message for message in messages)


def test_the_report_lists_suspects(misled, heat, tmp_path):
    identifier, _, messages = misled
    page = identifier.report(tmp_path / "wrong.html").read_text()
    assert 'id="suspects"' in page
    assert messages[0][1:] in page  # a sentence of the page begins with a capital
    right, _ = fit("heat", *heat, KNOWN)
    assert 'id="suspects"' not in right.report(tmp_path / "right.html").read_text()


def test_suspects_are_those_of_the_last_fit(misled, heat):
    identifier, pair, _ = misled
    assert first_pair(identifier, probability=0.001) == pair  # found anew
    refitted = copy.deepcopy(identifier).fit(*heat, KNOWN)
    assert refitted.suspect_known_pairs().log_odds.max() < 0


def test_all_or_nothing_may_be_known(heat):
    known, pair = with_wrong_pair(KnownEdges(np.ones(GRAPH.shape, dtype=bool), GRAPH), is_edge=True)
    assert first_pair(fit("heat", *heat, known)[0]) == pair
    nothing = fit("heat", *heat, None, n_chains=2, n_sweeps=2)[0].suspect_known_pairs()
    assert list(nothing.columns) == ["source", "target", "given", "log_odds"]
    assert len(nothing) == 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_pairs": 0}, "n_pairs=0"),
        ({"probability": 0.5}, "probability=0.5; expected a number strictly between 0 and 0.5"),
        ({"probability": 0}, "probability=0; expected"),
    ],
)
def test_bad_arguments_are_refused(misled, settings, message):
    with pytest.raises(ValueError, match=message):
        misled[0].suspect_known_pairs(**settings)


def test_offsets_outliers_and_gaps_are_no_reason_for_suspicion():
    X, Y = make_system(GRAPH, "heat", [0.4], 30, random_state=0)
    rng = np.random.default_rng(0)
    Y = Y + 10.0
    Y[rng.random(Y.shape) < 0.02] += 60.0
    Y[rng.random(Y.shape) < 0.05] = np.nan
    settings = {"fit_intercept": True, "noise_distribution": "student-t"}
    known, pair = with_wrong_pair(KNOWN, is_edge=True)
    assert first_pair(fit("heat", X, Y, known, **settings)[0]) == pair
    right, messages = fit("heat", X, Y, KNOWN, **settings)
    assert not any("known pair" in message for message in messages)
    assert right.suspect_known_pairs().log_odds.max() < 0
