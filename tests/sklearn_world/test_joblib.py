"""Chains and networks in parallel: the same bits everywhere, no crowd of threads, nothing global changed."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor

import joblib
import numpy as np
import pytest
import torch
from joblib import parallel_config
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_graphid import (
    AdamSystemIdentifier,
    GraphPriorScore,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    System,
    identify_many,
)
from sklearn_graphid.datasets import make_grid_graphs
from sklearn_graphid.filters import CallableFilter

# Enough chains for several batches, so that there is something to share out.
pytestmark = pytest.mark.slow

MANY_CHAINS = {"n_chains": 20, "n_levels": 2, "n_steps": 1, "n_sweeps": 5, "random_state": 0}
BACKENDS = [("loky", -1), ("threading", 2), ("dask", 2)]


@pytest.fixture(params=BACKENDS, ids=lambda param: f"{param[0]}{param[1]}")
def workers(request):
    """A backend, and how many of its workers to ask for."""
    backend, n_jobs = request.param
    if backend == "dask":
        request.getfixturevalue("dask_client")
    with parallel_config(backend=backend):
        yield n_jobs


def assert_same_fit(one, other):
    for name in ("adjacency_", "edge_probabilities_", "theta_", "theta_samples_", "noise_std_"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name, value in one.diagnostics_.items():
        np.testing.assert_array_equal(value, other.diagnostics_[name], err_msg=name)


# The same bits


@pytest.mark.parametrize("cls", [LangevinSystemIdentifier, LikelihoodLangevinIdentifier])
def test_chains_do_not_depend_on_workers(cls, workers, square_experiments, ladder_known):
    X, Y = square_experiments
    alone = cls("heat", n_jobs=1, **MANY_CHAINS)
    with parallel_config(backend="sequential"):
        alone.fit(X[:2], Y[:2], ladder_known)
    together = cls("heat", n_jobs=workers, **MANY_CHAINS).fit(X[:2], Y[:2], ladder_known)
    assert_same_fit(together, alone)
    assert 0.05 < alone.edge_probabilities_[ladder_known.unknown_pairs()].mean() < 0.95  # there was something to draw


def test_fits_do_not_depend_on_workers(workers, quick, many_systems, ladder_known, square_experiments, same_rows):
    grid = {"n_levels": [2, 3], "filter": ["heat", "polynomial"]}
    with parallel_config(backend="sequential"):
        alone = GridSearchCV(quick, grid, cv=2).fit(*square_experiments, known_mask=ladder_known)
        rows = identify_many(quick, many_systems[:6])
    together = GridSearchCV(quick, grid, cv=2, n_jobs=workers).fit(*square_experiments, known_mask=ladder_known)
    np.testing.assert_array_equal(together.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])
    assert together.best_params_ == alone.best_params_
    same_rows(identify_many(quick, many_systems[:6], n_jobs=workers), rows)


def test_workers_within_workers(square_experiments, ladder_known):
    """A search in two processes over an identifier that asks for two itself."""
    nested = LangevinSystemIdentifier("heat", n_jobs=2, **MANY_CHAINS)
    grid = {"n_levels": [1, 2]}
    scores = [
        GridSearchCV(nested, grid, cv=2, n_jobs=n_jobs).fit(*square_experiments, known_mask=ladder_known).cv_results_
        for n_jobs in (1, 2)
    ]
    np.testing.assert_array_equal(scores[0]["mean_test_score"], scores[1]["mean_test_score"])


# Threads


def recording_filter(folder):
    """Heat to first order, which notes in every call how many threads torch may use where it runs."""

    def first_order(adjacency, theta):
        note = {"torch": torch.get_num_threads(), "process": os.getpid()}
        with open(os.path.join(folder, f"{os.getpid()}.jsonl"), "a") as notes:
            notes.write(json.dumps(note) + "\n")
        laplacian = torch.diag(adjacency.sum(-1)) - adjacency
        return torch.eye(len(adjacency), dtype=adjacency.dtype) - theta[0] * laplacian

    return CallableFilter(first_order)


def read_notes(folder):
    return [json.loads(line) for path in folder.iterdir() for line in path.read_text().splitlines()]


@pytest.mark.parametrize(
    ("backend", "tool"),
    [*((each, "chains") for each in ("loky", "threading", "dask")), ("loky", "search"), ("loky", "many")],
)
def test_torch_uses_one_thread_in_every_worker(backend, tool, request, tmp_path, square_experiments, ladder_known):
    X, Y = square_experiments
    if backend == "dask":
        request.getfixturevalue("dask_client")
    # A machine with many cores gives every process several threads by itself; here two are asked for.
    two_threads = {"inner_max_num_threads": 2} if backend == "loky" else {}
    watched = LangevinSystemIdentifier(recording_filter(str(tmp_path)), **MANY_CHAINS | {"n_levels": 1})
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with parallel_config(backend=backend, n_jobs=2, **two_threads):
            if tool == "chains":
                watched.fit(X[:3], Y[:3], ladder_known)
            elif tool == "search":
                search = GridSearchCV(watched, {"n_chains": [1]}, cv=4, refit=False, error_score="raise")
                search.fit(X, Y, known_mask=ladder_known)
            else:
                frame = identify_many(watched.set_params(n_chains=1), [System(X, Y, ladder_known)] * 4)
                assert frame["error_message"].dropna().tolist() == []
            workers_have = set(joblib.Parallel()(joblib.delayed(torch.get_num_threads)() for _ in range(4)))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    notes = read_notes(tmp_path)
    assert {note["torch"] for note in notes} == {1}
    assert backend != "loky" or workers_have == {2}  # so it was the fit that asked for one
    processes = {note["process"] for note in notes} - {os.getpid()}
    assert bool(processes) == (backend != "threading")


def test_fits_in_threads_leave_the_number_of_threads_as_it_was(quick, many_systems):
    """Threads that come and go in any order, each of which sets the number and puts it back."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        with parallel_config(backend="threading", n_jobs=4):
            identify_many(quick, many_systems[:12])
        after = torch.get_num_threads()
        with ThreadPoolExecutor(1) as executor:
            in_a_new_thread = executor.submit(torch.get_num_threads).result()
    finally:
        torch.set_num_threads(before)
    assert (after, in_a_new_thread) == (3, 3)


# Caches


def test_memory_caches_the_fit_of_a_prior(tmp_path):
    """The line that a user writes, and that the second call does not train."""
    memory = joblib.Memory(tmp_path, verbose=0)
    graphs = make_grid_graphs(8, min_nodes=6, max_nodes=9, min_side=2, max_side=3, random_state=0)
    fit = memory.cache(GraphPriorScore.fit)
    prior = GraphPriorScore(max_epochs=1, random_state=0)
    assert not fit.check_call_in_cache(prior, graphs)
    first = fit(clone(prior), graphs)
    assert fit.check_call_in_cache(prior, graphs)
    again = fit(clone(prior), [graph.copy() for graph in graphs])
    assert again is not first
    for name, array in first.weights_.items():
        np.testing.assert_array_equal(array, again.weights_[name])
    # Other graphs and other settings are other calls.
    assert not fit.check_call_in_cache(prior, graphs[1:])
    assert not fit.check_call_in_cache(clone(prior).set_params(random_state=1), graphs)


def test_memory_caches_the_fit_of_an_identifier(tmp_path, quick, square_experiments, ladder_known):
    fit = joblib.Memory(tmp_path, verbose=0).cache(LangevinSystemIdentifier.fit)
    first = fit(clone(quick), *square_experiments, ladder_known)
    assert fit.check_call_in_cache(clone(quick), *square_experiments, ladder_known)
    assert_same_fit(fit(clone(quick), *square_experiments, ladder_known), first)
    assert not fit.check_call_in_cache(clone(quick), *square_experiments, None)


def test_fitted_identifiers_hash_alike(quick, frozen_prior, square_experiments, ladder_known):
    one, other = (clone(quick).set_params(prior=frozen_prior).fit(*square_experiments, ladder_known) for _ in range(2))
    assert joblib.hash(one) == joblib.hash(other)
    assert joblib.hash(AdamSystemIdentifier("heat")) != joblib.hash(AdamSystemIdentifier("arma"))
