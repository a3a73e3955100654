"""The same seed gives the same fit, wherever it runs, in copies and searches too, and no argument is changed."""

from __future__ import annotations

import copy
import pickle

import networkx as nx
import numpy as np
import pytest
import sklearn
import torch
from identifier_cases import BRIEF_LANGEVIN, IDENTIFIERS, SHORT, assert_same_state
from joblib import parallel_config
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_graphid import KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import PolynomialFilter


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


def test_pickle_and_copy_keep_everything(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    identifier.fit(X, Y, ring_known)
    for restored in (pickle.loads(pickle.dumps(identifier)), copy.deepcopy(identifier)):
        assert_same_state(restored, identifier)
        np.testing.assert_array_equal(restored.predict(X), identifier.predict(X))
        np.testing.assert_array_equal(restored.sample(3, random_state=0)[0], identifier.sample(3, random_state=0)[0])
        assert_same_state(restored.fit(X, Y, ring_known), identifier)


def test_clone_is_unfitted_and_equal(identifier, ring_known, ring_experiments):
    identifier.fit(*ring_experiments, ring_known)
    copied = clone(identifier)
    assert not hasattr(copied, "adjacency_")
    assert_same_state(copied.fit(*ring_experiments, ring_known), identifier)


def test_grid_search_over_the_order_of_the_filter(ring):
    """As many experiments as nodes, where a raw mask would be torn; the search finds the order that made the data."""
    X, Y = make_system(ring, PolynomialFilter(2), [0.2, 0.3, 0.4], n_experiments=6, noise_std=0.05, random_state=0)
    known = KnownEdges(np.ones((6, 6), dtype=bool), ring)
    search = GridSearchCV(
        LangevinSystemIdentifier(PolynomialFilter(), n_chains=2, n_levels=5, random_state=0),
        {"filter__order": [0, 1, 2]},
        cv=3,
        error_score="raise",
    )
    search.fit(X, Y, known_mask=known)
    assert search.best_params_ == {"filter__order": 2}
    assert search.best_score_ > 0.9
    np.testing.assert_array_equal(search.best_estimator_.adjacency_, ring)
    assert search.predict(X).shape == (6, 6)


def test_boolean_mask_is_routed_together_with_its_values(ring, ring_known, ring_experiments):
    reference = clone(IDENTIFIERS["sweeps"]).fit(*ring_experiments, ring_known)
    by_two = clone(IDENTIFIERS["sweeps"]).fit(*ring_experiments, ring_known.mask, nx.cycle_graph(6))
    assert_same_state(by_two, reference)
    by_array = clone(IDENTIFIERS["sweeps"]).fit(*ring_experiments, known_mask=ring_known.to_array())
    assert_same_state(by_array, reference)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(FunctionTransformer(), clone(IDENTIFIERS["sweeps"]))
        pipeline.fit(*ring_experiments, known_mask=ring_known.mask, known_adjacency=ring)
    assert_same_state(pipeline[-1], reference)
