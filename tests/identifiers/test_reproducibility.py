"""The same seed gives the same fit, wherever it runs, and no argument is changed."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from identifier_cases import BRIEF_LANGEVIN, SHORT, assert_same_state
from joblib import parallel_config
from sklearn.base import clone

from sklearn_graphid import LangevinSystemIdentifier


def test_the_same_seed_gives_the_same_fit(identifier, ring_known, ring_experiments):
    one = clone(identifier).fit(*ring_experiments, ring_known)
    assert_same_state(one, clone(identifier).fit(*ring_experiments, ring_known))
    assert_same_state(one, one.fit(*ring_experiments, ring_known))  # and fitting again forgets the first time


def test_another_seed_gives_another_fit(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    one = clone(identifier).fit(X[:3], Y[:3], ring_known)
    other = clone(identifier).set_params(random_state=1).fit(X[:3], Y[:3], ring_known)
    assert (one.theta_ != other.theta_).any()


def test_a_random_state_object_is_used_up(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    state = np.random.RandomState(0)
    quick.set_params(random_state=state)
    one = quick.fit(X[:3], Y[:3], ring_known).theta_
    assert (quick.fit(X[:3], Y[:3], ring_known).theta_ != one).any()


@pytest.mark.parametrize("has_sweeps", [True, False])
def test_workers_do_not_change_a_bit(has_sweeps, ring_known, ring_experiments):
    X, Y = ring_experiments
    settings = SHORT if has_sweeps else {**BRIEF_LANGEVIN, "n_steps": 5}
    settings = {**settings, "n_chains": 19, "random_state": 0}
    alone = LangevinSystemIdentifier("heat", **settings).fit(X[:3], Y[:3], ring_known)
    for n_jobs in (1, 2):
        together = clone(alone).set_params(n_jobs=n_jobs).fit(X[:3], Y[:3], ring_known)
        assert_same_state(together, alone)
    with parallel_config(backend="threading", n_jobs=2):
        assert_same_state(clone(alone).fit(X[:3], Y[:3], ring_known), alone)


def test_torch_threads_do_not_change_a_bit(quick, ring_known, ring_experiments):
    one = clone(quick).fit(*ring_experiments, ring_known)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2 if before == 1 else 1)
        other = clone(quick).fit(*ring_experiments, ring_known)
    finally:
        torch.set_num_threads(before)
    assert_same_state(one, other)


def test_chains_of_a_longer_run_begin_with_those_of_a_shorter_one(ring_known, ring_experiments):
    """Whole batches: chain k has its own seed, so more chains do not change those before."""
    X, Y = ring_experiments
    short = LangevinSystemIdentifier("heat", n_chains=8, n_levels=3, random_state=0).fit(X[:3], Y[:3], ring_known)
    long = clone(short).set_params(n_chains=16).fit(X[:3], Y[:3], ring_known)
    if short.diagnostics_["n_stuck"] == long.diagnostics_["n_stuck"] == 0:
        np.testing.assert_array_equal(long.diagnostics_["theta"][:8], short.diagnostics_["theta"])


def test_inputs_are_left_alone(identifier, ring_known, ring_experiments):
    X, Y = (array.copy() for array in ring_experiments)
    Y[3, 2] = np.nan
    X_before, Y_before, values = X.copy(), Y.copy(), ring_known.values.copy()
    identifier.fit(X, Y, ring_known).predict(X)
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(Y, Y_before)
    np.testing.assert_array_equal(ring_known.values, values)


def test_parameters_are_left_alone(identifier, ring_known, ring_experiments):
    before = copy.deepcopy(identifier.get_params())
    identifier.fit(*ring_experiments, ring_known)
    after = identifier.get_params()
    assert before.keys() == after.keys()
    assert all(repr(before[name]) == repr(after[name]) for name in before)
