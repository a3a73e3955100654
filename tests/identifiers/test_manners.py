"""Identifiers in scikit-learn's company: copies, searches, routed arguments and callbacks."""

from __future__ import annotations

import copy
import pickle

import networkx as nx
import numpy as np
import pytest
import sklearn
import torch
from identifier_cases import IDENTIFIERS, SHORT, assert_same_state
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_graphid import ErdosRenyiPrior, KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.filters import PolynomialFilter


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


def test_raw_mask_in_a_search_is_an_error_that_names_the_way_out(ring, ring_known):
    X, Y = make_system(ring, "heat", [0.5], n_experiments=6, random_state=0)
    search = GridSearchCV(clone(IDENTIFIERS["sweeps"]), {"n_levels": [2]}, cv=3, error_score="raise")
    with pytest.raises(ValueError, match=r"known_mask has shape \(4, 6\).*wrap the mask in KnownEdges"):
        search.fit(X, Y, known_mask=ring_known.to_array())


def test_search_over_filters_and_priors(ring_known, ring_experiments):
    grid = {"filter": ["heat", PolynomialFilter(1)], "prior": [None, ErdosRenyiPrior(0.3)]}
    search = GridSearchCV(LangevinSystemIdentifier(random_state=0, **SHORT), grid, cv=2, error_score="raise")
    search.fit(*ring_experiments, known_mask=ring_known)
    assert search.best_params_["filter"] == "heat"


@pytest.mark.parametrize("name", ["sweeps", "no-prior", "adam"])
def test_metadata_routing_passes_what_is_known(name, ring_known, ring_experiments):
    reference = clone(IDENTIFIERS[name]).fit(*ring_experiments, ring_known)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(FunctionTransformer(), clone(IDENTIFIERS[name]))
        pipeline.fit(*ring_experiments, known_mask=ring_known)
        assert_same_state(pipeline[-1], reference)
        search = GridSearchCV(clone(IDENTIFIERS[name]), {"filter": ["heat"]}, cv=2, error_score="raise")
        search.fit(*ring_experiments, known_mask=ring_known)
        assert_same_state(search.best_estimator_, reference)


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


# Callbacks


class Recorder:
    """A callback that writes down what it is called with."""

    def __init__(self):
        self.events = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context):
        self.events.append(f"end {context.task_name}")


class Interrupting(Recorder):
    def on_fit_task_end(self, estimator, context):
        raise RuntimeError("enough")


def test_callbacks_hear_of_every_task_once(identifier, ring_known, ring_experiments):
    recorder = Recorder()
    reference = clone(identifier).fit(*ring_experiments, ring_known)
    assert_same_state(identifier.set_callbacks(recorder).fit(*ring_experiments, ring_known), reference)
    assert recorder.events[0] == "setup"
    assert recorder.events[1] == "begin fit"
    assert recorder.events[-2:] == ["end fit", "teardown"]
    assert len([e for e in recorder.events if e.startswith("begin")]) == len(
        [e for e in recorder.events if e.startswith("end")]
    )


def test_callbacks_hear_of_every_batch(ring_known, ring_experiments):
    recorder = Recorder()
    LangevinSystemIdentifier("heat", random_state=0, **{**SHORT, "n_chains": 36}).set_callbacks(recorder).fit(
        *ring_experiments, ring_known
    )
    assert recorder.events.count("begin batch of chains") == 5  # of eight chains each, and the last of four


def test_progress_bar_runs_to_its_end(identifier, ring_known, ring_experiments, capsys):
    identifier.set_callbacks(ProgressBar()).fit(*ring_experiments, ring_known)
    assert "100%" in capsys.readouterr().out
    assert hasattr(identifier, "adjacency_")


@pytest.mark.parametrize("name", ["sweeps", "adam"])
def test_error_in_a_callback_leaves_torch_as_it_was(name, ring_known, ring_experiments):
    before = torch.get_num_threads()
    identifier = clone(IDENTIFIERS[name]).set_callbacks(Interrupting())
    try:
        torch.set_num_threads(2)
        with pytest.raises(RuntimeError, match="enough") as caught:
            identifier.fit(*ring_experiments, ring_known)
        assert torch.get_num_threads() == 2  # while the traceback is alive, as it stays in an interactive session
        assert caught.traceback
        assert not torch.is_inference_mode_enabled()
    finally:
        torch.set_num_threads(before)
