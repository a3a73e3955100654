"""Priors in closed form, against Bayes' rule and the gradient of the exact density of noisy graphs."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from scipy.special import betaln, softmax
from scipy.stats import norm
from sklearn.base import clone

from sklearn_graphid import ErdosRenyiPrior, StochasticBlockPrior

LABELS = [0, 1, 0, 2, 1]
PROBABILITIES = np.array([[0.9, 0.2, 0.05], [0.2, 0.6, 0.3], [0.05, 0.3, 0.5]])
PRIORS = {
    "Erdos-Renyi": (ErdosRenyiPrior(p=0.3), np.full((5, 5), 0.3)),
    "block": (StochasticBlockPrior(LABELS, PROBABILITIES), PROBABILITIES[np.ix_(LABELS, LABELS)]),
}


def noisy_matrix(seed: int = 0, n_nodes: int = 5) -> np.ndarray:
    upper = np.triu(np.random.default_rng(seed).normal(0.4, 0.7, size=(n_nodes, n_nodes)), 1)
    return upper + upper.T


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("name", PRIORS)
def test_denoiser_is_bayes_rule(name, sigma):
    prior, p = PRIORS[name]
    noisy = noisy_matrix()
    edge, none = p * norm.pdf(noisy, 1, sigma), (1 - p) * norm.pdf(noisy, 0, sigma)
    expected = edge / (edge + none)
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(prior.denoise(noisy, sigma), expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("sigma", [0.1, 0.5, 2.0])
@pytest.mark.parametrize("name", PRIORS)
def test_score_is_the_gradient_of_the_log_density_of_each_pair(name, sigma):
    prior, p = PRIORS[name]
    noisy, step = noisy_matrix(), 1e-5

    def log_density(x):
        return np.log(p * norm.pdf(x, 1, sigma) + (1 - p) * norm.pdf(x, 0, sigma))

    expected = (log_density(noisy + step) - log_density(noisy - step)) / (2 * step)
    np.fill_diagonal(expected, 0)
    # Float32 probabilities are good to 1e-7, and the score divides them by sigma^2.
    np.testing.assert_allclose(prior.score_function(noisy, sigma), expected, rtol=1e-4, atol=1e-6 / sigma**2)


def test_score_is_the_gradient_of_the_mixture_over_all_graphs():
    """Three nodes, eight graphs: the density of a noisy graph is a sum over them, spelled out."""
    p, sigma, step = np.array([[0, 0.2, 0.7], [0.2, 0, 0.4], [0.7, 0.4, 0]]), 0.4, 1e-5
    prior = StochasticBlockPrior([0, 1, 2], p + 0.5 * np.eye(3))
    pairs = [(0, 1), (0, 2), (1, 2)]
    noisy = noisy_matrix(n_nodes=3)

    def log_density(values):
        total = 0.0
        for graph in product([0, 1], repeat=3):
            weight = np.prod([p[pair] if a else 1 - p[pair] for pair, a in zip(pairs, graph, strict=True)])
            total += weight * np.prod(norm.pdf(values, graph, sigma))
        return np.log(total)

    here = np.array([noisy[pair] for pair in pairs])
    score = prior.score_function(noisy, sigma)
    for index, pair in enumerate(pairs):
        change = step * np.eye(3)[index]
        gradient = (log_density(here + change) - log_density(here - change)) / (2 * step)
        assert score[pair] == pytest.approx(gradient, abs=1e-4)


@pytest.mark.parametrize("name", PRIORS)
def test_a_batch_is_denoised_one_by_one(name):
    prior, _ = PRIORS[name]
    batch = np.stack([noisy_matrix(seed) for seed in range(3)])
    together = prior.denoise(batch, 0.5)
    assert together.shape == (3, 5, 5)
    assert together.dtype == np.float64
    for one, alone in zip(together, batch, strict=True):
        np.testing.assert_allclose(one, prior.denoise(alone, 0.5), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", PRIORS)
def test_answer_is_symmetric_whatever_stands_on_the_diagonal(name):
    prior, _ = PRIORS[name]
    answers = [method(noisy_matrix() + 3 * np.eye(5), 0.5) for method in (prior.denoise, prior.score_function)]
    for answer, method in zip(answers, (prior.denoise, prior.score_function), strict=True):
        np.testing.assert_array_equal(answer, answer.T)
        np.testing.assert_array_equal(np.diagonal(answer), 0)
        np.testing.assert_array_equal(answer, method(noisy_matrix(), 0.5))


def test_blocks_that_are_all_alike_are_erdos_renyi():
    noisy = noisy_matrix()
    blocks = StochasticBlockPrior(LABELS, np.full((3, 3), 0.3))
    np.testing.assert_array_equal(blocks.denoise(noisy, 0.5), ErdosRenyiPrior(0.3).denoise(noisy, 0.5))


def test_block_probabilities_that_differ_by_rounding_give_a_symmetric_answer():
    rounded = PROBABILITIES + np.triu(np.full((3, 3), 1e-8), 1)
    answer = StochasticBlockPrior(LABELS, rounded).denoise(noisy_matrix(), 0.5)
    np.testing.assert_array_equal(answer, answer.T)


def test_double_precision_is_used_where_asked_for():
    denoise = ErdosRenyiPrior(0.3).bind(5, torch.device("cpu"), torch.float64)
    noisy = noisy_matrix()
    expected = 0.3 * norm.pdf(noisy, 1, 0.5) / (0.3 * norm.pdf(noisy, 1, 0.5) + 0.7 * norm.pdf(noisy, 0, 0.5))
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(denoise(torch.tensor(noisy)[None], 0.5)[0].numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("directed", [False, True])
def test_denoiser_of_an_unknown_density_is_that_of_all_graphs(directed):
    """Graphs of three nodes with m of n edges have the probability B(0.5 + m, 1.5 + n - m) / B(0.5, 1.5) each."""
    sigma, rng = 0.6, np.random.default_rng(0)
    places = [(i, j) for i in range(3) for j in range(3) if (i != j if directed else i < j)]
    noisy = np.zeros((3, 3))
    for i, j in places:
        noisy[i, j] = rng.normal(0.5, 0.8)
        noisy[j, i] = noisy[j, i] if directed else noisy[i, j]
    values = np.array([noisy[place] for place in places])
    bits = np.array(list(product([0, 1], repeat=len(places))))
    log_prior = betaln(0.5 + bits.sum(1), 1.5 + (1 - bits).sum(1))
    weight = softmax(log_prior - 0.5 * ((values - bits) ** 2).sum(1) / sigma**2)
    found = ErdosRenyiPrior().denoise(noisy, sigma, directed=directed)
    np.testing.assert_allclose([found[place] for place in places], weight @ bits, atol=2e-3)


@pytest.mark.parametrize("p", [0, 1, -0.1, 1.5, float("nan"), "0.1", True])
def test_probability_outside_of_0_and_1_is_refused(p):
    with pytest.raises((TypeError, ValueError), match=r"ErdosRenyiPrior got p=.*strictly between 0 and 1"):
        ErdosRenyiPrior(p).denoise(noisy_matrix(), 0.5)


@pytest.mark.parametrize(
    ("labels", "probabilities", "complaint"),
    [
        (LABELS[:4], PROBABILITIES, r"labels has shape \(4,\) but there are 5 nodes"),
        ([0, 1, 0, 3, 1], PROBABILITIES, "labels must be integers from 0 to 2"),
        ([0, 1, 0, -1, 1], PROBABILITIES, "labels must be integers from 0 to 2"),
        ([0.0, 1, 0, 2, 1], PROBABILITIES, "labels must be integers from 0 to 2"),
        (LABELS, np.ones((3, 3)), "strictly between 0 and 1"),
        (LABELS, PROBABILITIES - np.diag([0, 0, 0.5]), "strictly between 0 and 1"),
        (LABELS, PROBABILITIES + 1, r"probabilities holds the value 1\.2"),
        (LABELS, PROBABILITIES + np.triu(np.full((3, 3), 0.01), 1), "probabilities is not symmetric"),
        (LABELS, PROBABILITIES[:2], r"probabilities has shape \(2, 3\)"),
        (LABELS, np.full((3, 3), np.nan), "probabilities holds the value nan"),
        ([0, [1]], PROBABILITIES, "labels does not convert"),
        (list("abaca"), PROBABILITIES, "labels must be integers"),
        (None, PROBABILITIES, r"labels has shape \(\)"),
        (LABELS, [["a"]], "probabilities is a list that does not convert"),
        (LABELS, [[0.5], [0.5, 0.5]], "probabilities is a list that does not convert"),
        (LABELS, None, "probabilities"),
        (LABELS, 1e300, "probabilities"),
    ],
)
def test_bad_blocks_are_refused_with_words(labels, probabilities, complaint):
    with pytest.raises((TypeError, ValueError), match=complaint):
        StochasticBlockPrior(labels, probabilities).denoise(noisy_matrix(), 0.5)


@pytest.mark.parametrize(
    "sigma", [0, -1, 1e-200, 1e300, float("nan"), float("inf"), "1", None, True, [0.5], np.ones(2)]
)
def test_bad_noise_level_is_refused_with_words(fitted, sigma):
    for prior in (fitted, ErdosRenyiPrior()):
        for method in (prior.denoise, prior.score_function):
            with pytest.raises((TypeError, ValueError), match=r"sigma=.*expected a number between 1e-15 and 1e\+15"):
                method(noisy_matrix(), sigma)


@pytest.mark.parametrize("sigma", [np.float32(0.5), np.float64(1), 1])
def test_any_kind_of_number_is_a_noise_level(sigma):
    ErdosRenyiPrior().denoise(noisy_matrix(), sigma)


@pytest.mark.parametrize(
    ("adjacency", "complaint"),
    [
        *(
            (value, "adjacency is a .* that does not convert")
            for value in ("a", [["a"]], [[0, 1], [1]], 1j * np.eye(2))
        ),
        (np.zeros((2, 3)), r"adjacency has shape \(2, 3\)"),
        (np.zeros(4), r"adjacency has shape \(4,\)"),
        (np.zeros((2, 2, 3)), r"expected \(n_nodes, n_nodes\) or \(n_graphs, n_nodes, n_nodes\)"),
        (np.array([[0, np.nan], [np.nan, 0]]), "nan or infinity"),
        (np.array([[0, 1.0], [0.5, 0]]), "not symmetric"),
    ],
)
def test_bad_noisy_matrix_is_refused_with_words(fitted, adjacency, complaint):
    for prior in (fitted, ErdosRenyiPrior()):
        for method in (prior.denoise, prior.score_function):
            with pytest.raises((TypeError, ValueError), match=complaint):
                method(adjacency, 0.5)


@pytest.mark.parametrize("name", PRIORS)
def test_clone_keeps_the_parameters(name):
    prior, _ = PRIORS[name]
    np.testing.assert_array_equal(clone(prior).denoise(noisy_matrix(), 0.5), prior.denoise(noisy_matrix(), 0.5))
