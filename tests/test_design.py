"""Information of inputs against covariance matrices written out, the search against trying everything, and pairs."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sklearn_graphid.design import (
    Box,
    choose_candidates,
    choose_inputs,
    conditioned,
    deviations_of,
    entropy_of,
    gaussian_information,
    pair_information,
)

NOISE = np.array([0.5, 2.0, 1.0, 0.3])


def make_responses(n_draws=7, n_nodes=5, seed=0, size=1.0):
    return size * np.random.default_rng(seed).normal(size=(n_draws, n_nodes, len(NOISE)))


def written_out(responses, inputs):
    """½ log det of the covariance of all outputs of all inputs over that of the noise alone."""
    stacked = np.concatenate([np.einsum("n,dno->do", x, responses) for x in inputs], axis=1)
    noise = np.diag(np.tile(NOISE**2, len(inputs)))
    total = np.cov(stacked.T, bias=True) + noise
    return 0.5 * (np.linalg.slogdet(total)[1] - np.linalg.slogdet(noise)[1])


def joint_information(deviations, inputs):
    """Information of the outputs of all inputs together, by singular values, which large predictions do not spoil."""
    predictions = np.einsum("xn,dno->dxo", inputs, deviations).reshape(len(deviations), -1)
    return np.log(np.hypot(1.0, np.linalg.svd(predictions, compute_uv=False))).sum()


@pytest.mark.parametrize("n_draws", [3, 30])  # fewer and more than there are outputs
def test_information_is_that_of_the_covariance_matrix(n_draws):
    responses, inputs = make_responses(n_draws), np.random.default_rng(1).normal(size=(3, 5))
    deviations = deviations_of(responses, NOISE)
    expected = [written_out(responses, x[None]) for x in inputs]
    np.testing.assert_allclose(gaussian_information(deviations, inputs), expected, rtol=1e-9)
    assert joint_information(deviations, inputs) == pytest.approx(written_out(responses, inputs))


def test_information_adds_up_one_input_after_the_other():
    responses, inputs = make_responses(), np.random.default_rng(1).normal(size=(4, 5))
    deviations = deviations_of(responses, NOISE)
    steps = [
        gaussian_information(conditioned(deviations, inputs[:number]), inputs[number : number + 1])[0]
        for number in range(len(inputs))
    ]
    assert sum(steps) == pytest.approx(written_out(responses, inputs))
    assert gaussian_information(deviations, np.zeros((1, 5)))[0] == 0


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (0.5, 2.0), (-2.0, -0.5), (0.0, 1.0)])
def test_no_corner_of_the_box_tells_more(ends):
    """32 corners, tried one by one; signals are weak, so that the best input is a corner."""
    for seed in range(5):
        deviations = deviations_of(make_responses(seed=seed, size=0.1), NOISE)
        box = Box(np.full(5, ends[0]), np.full(5, ends[1]), 5)
        found = choose_inputs(deviations, 1, box, np.random.RandomState(0))
        corners = np.array(list(itertools.product(ends, repeat=5)))
        best = gaussian_information(deviations, corners).max()
        assert gaussian_information(deviations, found)[0] >= best - 1e-9
        assert ((found >= ends[0]) & (found <= ends[1])).all()


def test_the_best_input_may_be_inside_the_box():
    """Outputs a (1 + x) and a (1 - x): at x = 0 both tell, at the corners one does, (1 + a²)² > 1 + 4 a²."""
    a = 10.0
    first, second = np.array([[a, 0.0], [a, 0.0]]), np.array([[0.0, a], [0.0, -a]])
    deviations = np.stack([first, second])  # node 0 drives both outputs, node 1 one up and one down
    box = Box(np.array([1.0, -1.0]), np.array([1.0, 1.0]), 2)
    found = choose_inputs(deviations, 1, box, np.random.RandomState(0))
    np.testing.assert_allclose(found, [[1.0, 0.0]], atol=1e-3)
    assert gaussian_information(deviations, found)[0] == pytest.approx(np.log(1 + a**2))


@pytest.mark.parametrize("n_driven", [1, 2])
def test_few_driven_nodes_are_the_best_ones(n_driven):
    """All supports and all ends tried one by one."""
    for seed in range(5):
        deviations = deviations_of(make_responses(seed=seed, size=0.1), NOISE)
        box = Box(np.full(5, -1.0), np.full(5, 2.0), n_driven)
        found = choose_inputs(deviations, 1, box, np.random.RandomState(0))
        tried = [x for x in itertools.product((-1.0, 0.0, 2.0), repeat=5) if np.count_nonzero(x) <= n_driven]
        assert (
            gaussian_information(deviations, found)[0] >= gaussian_information(deviations, np.array(tried)).max() - 1e-9
        )
        assert np.count_nonzero(found) <= n_driven


def test_a_batch_is_chosen_jointly():
    """Two inputs tell more than the single best one done twice; what the 496 pairs of corners tell at most is 9.4 nats.

    Greedy choice has no better guarantee than 1 - 1/e of the best (Nemhauser, Wolsey and Fisher, 1978).
    """
    deviations = deviations_of(make_responses(n_draws=20), NOISE)
    box = Box(np.full(5, -1.0), np.full(5, 1.0), 5)
    batch = choose_inputs(deviations, 2, box, np.random.RandomState(0))
    single = choose_inputs(deviations, 1, box, np.random.RandomState(0))
    assert joint_information(deviations, batch) > joint_information(deviations, np.repeat(single, 2, axis=0))
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=5)))
    pairs = [joint_information(deviations, corners[list(two)]) for two in itertools.combinations(range(32), 2)]
    assert joint_information(deviations, batch) >= 0.98 * max(pairs)


def test_candidates_are_chosen_jointly_and_once():
    deviations = deviations_of(make_responses(), NOISE)
    candidates = np.random.default_rng(3).normal(size=(6, 5))
    candidates[5] = candidates[gaussian_information(deviations, candidates).argmax()]  # the best one twice
    chosen = choose_candidates(deviations, 2, candidates)
    assert len(set(chosen)) == 2
    pairs = {two: joint_information(deviations, candidates[list(two)]) for two in itertools.combinations(range(6), 2)}
    assert joint_information(deviations, candidates[chosen]) == pytest.approx(max(pairs.values()))
    assert sorted(choose_candidates(deviations, 6, candidates)) == list(range(6))


def test_many_nodes_are_searched():
    """200 nodes and 60 draws are 2.4 million numbers."""
    responses = np.random.default_rng(0).normal(size=(60, 200, 200))
    deviations = deviations_of(responses, np.ones(200))
    found = choose_inputs(deviations, 1, Box(np.full(200, -1.0), np.full(200, 1.0), 2), np.random.RandomState(0))
    assert np.count_nonzero(found) == 2
    assert gaussian_information(deviations, found)[0] > gaussian_information(deviations, np.eye(200)).max()


def test_draws_that_agree_tell_that_nothing_is_left():
    deviations = deviations_of(np.repeat(make_responses(1), 4, axis=0), NOISE)
    found = choose_inputs(deviations, 2, Box(np.full(5, -1.0), np.full(5, 1.0), 5), np.random.RandomState(0))
    assert joint_information(deviations, found) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("n_draws", [3, 6])  # fewer and more than there are outputs
@pytest.mark.parametrize("size", [1e3, 1e9, 1e15, 1e100])
def test_large_predictions_are_told_to_the_digit(size, n_draws):
    """Draws that predict one output each: information is that of outputs of their own, ½ log(1 + size²)."""
    sizes = size * 10.0 ** -np.arange(3)
    deviations = np.zeros((n_draws, 1, 4))
    deviations[np.arange(3), 0, np.arange(3)] = sizes
    expected = np.log(np.hypot(1.0, sizes)).sum()
    x = np.ones((1, 1))
    assert gaussian_information(deviations, x)[0] == pytest.approx(expected)
    assert joint_information(deviations, x) == pytest.approx(expected)
    # What an output is worth a second time: its variance has gone from size² to size² / (1 + size²).
    again = 0.5 * np.log1p((sizes / np.hypot(1.0, sizes)) ** 2).sum()
    assert gaussian_information(conditioned(deviations, x), x)[0] == pytest.approx(again)


@pytest.mark.parametrize("box_size", [1.0, 1e9])
@pytest.mark.parametrize("n_driven", [1, 5])
def test_large_responses_leave_a_search_for_inputs(box_size, n_driven):
    """Twice an input tells log 2 more of every output; a random corner tells no more than what is found."""
    deviations = deviations_of(make_responses(size=1e6), NOISE)
    box = Box(np.full(5, -box_size), np.full(5, box_size), n_driven)
    found = choose_inputs(deviations, 3, box, np.random.RandomState(0))
    assert (np.abs(found) <= box_size).all()
    once, twice = gaussian_information(deviations, found), gaussian_information(deviations, 2 * found)
    np.testing.assert_allclose(twice - once, 4 * np.log(2), rtol=1e-3)
    corners = box_size * np.random.default_rng(0).choice([-1.0, 1.0], (20, 3, 5)) * (np.arange(5) < n_driven)
    assert joint_information(deviations, found) >= max(joint_information(deviations, corner) for corner in corners)


# Pairs to check by hand


def equal(n_chains):
    return np.full(n_chains, 1 / n_chains)


def test_a_pair_that_decides_others_tells_their_entropy_too():
    """Pairs 0, 1 and 2 are one coin, 3 is another one and 4 is certain."""
    rng = np.random.default_rng(0)
    coins = rng.integers(2, size=(40, 50, 2))
    graphs = np.stack([coins[..., 0], coins[..., 0], 1 - coins[..., 0], coins[..., 1], np.ones((40, 50))], axis=2)
    about_others = pair_information(graphs, equal(40))
    np.testing.assert_allclose(about_others, [2 * np.log(2)] * 3 + [0, 0], atol=0.01)


@pytest.mark.parametrize("n_chains", [1, 16])
def test_independent_pairs_have_nothing_in_common(n_chains):
    """Without the correction, 60 pairs of 160 draws would seem to share 59 / 320 nats each."""
    rng = np.random.default_rng(0)
    graphs = rng.integers(2, size=(n_chains, 160 // n_chains, 60))
    about_others = pair_information(graphs, equal(n_chains))
    assert about_others.mean() < 0.25 * 59 / 320


def test_chains_that_never_move_do_not_look_informative():
    """Sixteen chains whose pairs are drawn once are sixteen draws, however often they are repeated."""
    rng = np.random.default_rng(0)
    stuck = np.repeat(rng.integers(2, size=(16, 1, 60)), 10, axis=1)
    uncorrected = 59 / (2 * 16)
    assert pair_information(stuck, equal(16)).mean() < 0.5 * uncorrected


@pytest.mark.parametrize(("weight", "expected"), [([1.0, 0.0], np.log(2)), ([0.0, 1.0], 0.0)])
def test_chains_count_by_their_weight(weight, expected):
    """In one chain two pairs are the same coin, in the other one they are two coins."""
    coins = np.random.default_rng(0).integers(2, size=(2, 4_000, 2))
    coins[0, :, 1] = coins[0, :, 0]
    np.testing.assert_allclose(pair_information(coins, np.array(weight)), expected, atol=0.01)


def test_entropy_is_that_of_a_coin():
    np.testing.assert_allclose(entropy_of(np.array([0.0, 0.5, 1.0])), [0, np.log(2), 0], atol=1e-12)
    assert entropy_of(np.array([0.1]))[0] == pytest.approx(-0.9 * np.log(0.9) - 0.1 * np.log(0.1))


def test_there_may_be_no_pairs():
    assert pair_information(np.zeros((4, 10, 0)), equal(4)).shape == (0,)
