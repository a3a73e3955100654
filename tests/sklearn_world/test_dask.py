"""A cluster of two worker processes on this machine, which a user reaches by one line."""

from __future__ import annotations

import os
import signal
import threading
import time

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from sklearn_graphid import LangevinSystemIdentifier, compare_identifiers, identify_many
from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter
from sklearn_graphid.scorers import log_likelihood_scorer, make_edge_f1_scorer

pytestmark = pytest.mark.slow

TINY = {"n_chains": 1, "n_levels": 1, "n_steps": 1, "n_sweeps": 2, "random_state": 0}


@pytest.fixture
def tiny():
    return LangevinSystemIdentifier("heat", **TINY)


def test_the_workers_are_processes_of_their_own(dask_client):
    pids = set(dask_client.run(os.getpid).values())
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_grid_search_gives_the_same_numbers(dask_client, tiny, square_experiments, ladder, ladder_known, frozen_prior):
    grid = [
        {"filter": [PolynomialFilter()], "filter__order": [0, 1, 2]},
        {"filter": [HeatDiffusionFilter()], "prior": [None, frozen_prior]},
    ]
    scoring = {"r2": "r2", "log_likelihood": log_likelihood_scorer, "f1": make_edge_f1_scorer(ladder, ladder_known)}
    search = GridSearchCV(tiny, grid, scoring=scoring, refit="r2", cv=4, n_jobs=-1, error_score="raise")
    local = clone(search).set_params(n_jobs=1).fit(*square_experiments, known_mask=ladder_known)
    with joblib.parallel_config(backend="dask"):
        search.fit(*square_experiments, known_mask=ladder_known)
    for name in scoring:
        key = f"mean_test_{name}"
        np.testing.assert_array_equal(search.cv_results_[key], local.cv_results_[key])
    np.testing.assert_array_equal(search.predict(square_experiments[0]), local.predict(square_experiments[0]))


@pytest.fixture(scope="module")
def local_rows(many_systems):
    return identify_many(LangevinSystemIdentifier("heat", **TINY), many_systems)


def test_many_networks_give_the_same_numbers(dask_client, tiny, many_systems, local_rows, same_rows):
    with joblib.parallel_config(backend="dask"):
        remote = identify_many(tiny, many_systems, n_jobs=-1)
    assert len(remote) == 40
    assert remote["error_type"].isna().all()
    same_rows(remote, local_rows)


def test_a_comparison_gives_the_same_numbers(dask_client, siblings, many_systems, same_rows):
    local = compare_identifiers(siblings, many_systems[:6])
    with joblib.parallel_config(backend="dask"):
        remote = compare_identifiers(siblings, many_systems[:6], n_jobs=-1)
    same_rows(remote, local)


def test_a_worker_that_dies_in_the_middle_loses_nothing(dask_client, tiny, many_systems, local_rows, same_rows):
    """One of the two is killed, not asked to leave, once the work has begun; dask puts another in its place."""
    dask_client.run(_import_package)  # what comes next is work, and not the import of torch
    victim = next(iter(dask_client.run(os.getpid).values()))
    killed, is_over = threading.Event(), threading.Event()

    def kill_in_the_middle():
        while not is_over.is_set():
            if dask_client.run_on_scheduler(_n_tasks_at_work):
                os.kill(victim, signal.SIGKILL)
                killed.set()
                return
            time.sleep(0.01)

    killer = threading.Thread(target=kill_in_the_middle)
    killer.start()
    with joblib.parallel_config(backend="dask"):
        remote = identify_many(tiny, many_systems, n_jobs=-1)
    is_over.set()
    killer.join()
    assert killed.is_set()
    assert victim not in dask_client.run(os.getpid).values()
    same_rows(remote, local_rows)


def _import_package():
    import sklearn_graphid

    return sklearn_graphid.__version__


def _n_tasks_at_work(dask_scheduler):
    return sum(task.state == "processing" for task in dask_scheduler.tasks.values())
