"""Callbacks of a fit: every batch and step is told, scores are those of the estimate so far, and nobody pays alone."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.callback import ProgressBar, ScoringMonitor
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from sklearn_graphid import AdamSystemIdentifier, LangevinSystemIdentifier, LikelihoodLangevinIdentifier
from sklearn_graphid.datasets import make_system
from sklearn_graphid.identifiers import _estimates

BRIEF = {"n_chains": 4, "n_levels": 3, "n_steps": 2, "n_sweeps": 4, "random_state": 0}
IDENTIFIERS = {
    "sweeps": LangevinSystemIdentifier("heat", **BRIEF),
    "langevin": LangevinSystemIdentifier("heat", sigma_max=0.5, sigma_min=0.03, **{**BRIEF, "n_sweeps": 0}),
    "no-prior": LikelihoodLangevinIdentifier("heat", **BRIEF),
    "strengths": LangevinSystemIdentifier("heat", edge_weights="positive", **BRIEF),
    "adam": AdamSystemIdentifier("heat", max_iter=5, random_state=0),
    "adam-strengths": AdamSystemIdentifier("heat", edge_weights="positive", max_iter=5, random_state=0),
}
# The steps of each batch of chains in their order. Their numbers go on from one kernel to the next.
STEPS = {
    "sweeps": ["annealing level"] * 3 + ["sweep"] * 4,
    "langevin": ["annealing level"] * 3,
    "no-prior": ["annealing level"] * 3 + ["sweep"] * 4,
    "strengths": ["annealing level"] * 3 + ["sweep"] * 4,
    "adam": ["step"] * 5,
    "adam-strengths": ["step"] * 5,
}
WITHOUT_BATCHES = ("adam", "adam-strengths")


def n_steps_of(fitted):
    """How many steps a fit has recorded: annealing levels and sweeps, or steps of Adam."""
    return len(fitted.diagnostics_["loss" if "loss" in fitted.diagnostics_ else "sigma"])


class Recorder:
    """A callback that notes what it is told, scores it, and may ask to stop."""

    def __init__(self, stop_at: tuple[str, int] | None = None) -> None:
        self.stop_at = stop_at
        self.events: list[tuple[str, str, int]] = []
        self.scores: dict[tuple[str, int], float | None] = {}

    def setup(self, estimator, context):
        self.max_subtasks = context.max_subtasks

    def teardown(self, estimator, context):
        self.events.append(("teardown", "", 0))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator, context, *, X=None, y=None, fitted_estimator=None):
        task = (context.task_name, context.task_id)
        self.events.append(("end", *task))
        self.scores[task] = None if fitted_estimator is None else fitted_estimator.score(X, y)
        return task == self.stop_at

    def ended(self, name):
        return [number for event, task, number in self.events if event == "end" and task == name]

    def ended_steps(self):
        outer = ("fit", "batch of chains", "")
        return [(task, number) for event, task, number in self.events if event == "end" and task not in outer]


@pytest.fixture(params=IDENTIFIERS)
def name(request):
    return request.param


@pytest.fixture
def identifier(name):
    return clone(IDENTIFIERS[name])


def test_every_step_is_told_between_the_begin_and_the_end_of_its_batch(name, identifier, ring_known, ring_experiments):
    recorder = Recorder()
    identifier.set_callbacks(recorder).fit(*ring_experiments, ring_known)
    assert n_steps_of(identifier) == len(STEPS[name])
    steps = [(event, step, number) for number, step in enumerate(STEPS[name]) for event in ("begin", "end")]
    if name not in WITHOUT_BATCHES:
        steps = [("begin", "batch of chains", 0), *steps, ("end", "batch of chains", 0)]
    assert recorder.events == [("begin", "fit", 0), *steps, ("end", "fit", 0), ("teardown", "", 0)]
    # With strengths, what the first run of chains finds may ask for a second one.
    assert recorder.max_subtasks == (5 if name in WITHOUT_BATCHES else 2 if name == "strengths" else 1)


def test_scores_are_those_of_the_estimate_so_far(name, identifier, ring_known, ring_experiments):
    recorder = Recorder()
    identifier.set_callbacks(recorder).fit(*ring_experiments, ring_known)
    assert recorder.scores["fit", 0] == identifier.score(*ring_experiments)
    if name not in WITHOUT_BATCHES:
        assert recorder.scores["batch of chains", 0] == recorder.scores["fit", 0]
    steps = [recorder.scores[step, number] for number, step in enumerate(STEPS[name])]
    assert len(set(steps)) > 1  # the estimate moves
    if name == "adam":  # with strengths, the last step does not yet know what strength an edge has
        assert steps[-1] == recorder.scores["fit", 0]


def test_followers_do_not_change_the_fit(identifier, ring_known, ring_experiments):
    alone = clone(identifier).fit(*ring_experiments, ring_known)
    followed = identifier.set_callbacks(Recorder()).fit(*ring_experiments, ring_known)
    for attribute in ("adjacency_", "edge_probabilities_", "theta_", "noise_std_"):
        np.testing.assert_array_equal(getattr(followed, attribute), getattr(alone, attribute))


def test_nobody_is_asked_where_nobody_follows(identifier, ring_known, ring_experiments, monkeypatch):
    def fail(*arguments):
        raise AssertionError("a step was told to nobody")

    monkeypatch.setattr(_estimates.FitFollower, "__init__", fail)
    identifier.fit(*ring_experiments, ring_known)


def own_score(estimator, X, y):
    return estimator.score(X, y)


@pytest.mark.parametrize(("name", "n_jobs"), [*((name, None) for name in IDENTIFIERS), ("sweeps", 2)])
def test_scoring_monitor_logs_every_step(name, identifier, n_jobs, ring_known, ring_experiments):
    monitor = ScoringMonitor(scoring={"score": own_score})
    if name not in WITHOUT_BATCHES:
        identifier.set_params(n_chains=9, n_jobs=n_jobs)  # two batches, in two processes or in this one
    identifier.set_callbacks(monitor).fit(*ring_experiments, ring_known)
    log = monitor.get_logs().data_as_pandas
    counts = log["task_name"].value_counts().to_dict()
    batches = {} if name in WITHOUT_BATCHES else {"batch of chains": 2}
    steps = {step: STEPS[name].count(step) * (2 if batches else 1) for step in STEPS[name]}
    assert counts == {"fit": 1, **steps, **batches}
    assert np.isfinite(log["score"]).all()
    final = log.loc[log["task_name"] == "fit", "score"].item()
    assert final == pytest.approx(identifier.score(*ring_experiments))


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_batches_are_told_to_callbacks_of_this_process(n_jobs, ring_known, ring_experiments):
    """A callback that keeps its notes in memory hears of every batch, wherever the chains ran."""
    recorder = Recorder()
    identifier = LangevinSystemIdentifier("heat", **{**BRIEF, "n_chains": 20, "n_jobs": n_jobs})
    identifier.set_callbacks(recorder).fit(*ring_experiments, ring_known)
    assert recorder.ended("batch of chains") == [0, 1, 2]
    assert recorder.ended("fit") == [0]
    assert len(recorder.ended_steps()) == (3 * n_steps_of(identifier) if n_jobs is None else 0)


@pytest.mark.filterwarnings("ignore:.*tasks which were still being processed")  # joblib's, of those not wanted
@pytest.mark.parametrize("n_jobs", [None, 2])
def test_a_callback_may_have_seen_enough_chains(n_jobs, ring_known, ring_experiments):
    recorder = Recorder(stop_at=("batch of chains", 1))
    before = torch.get_num_threads()
    identifier = LangevinSystemIdentifier("heat", **{**BRIEF, "n_chains": 36, "n_jobs": n_jobs})
    identifier.set_callbacks(recorder).fit(*ring_experiments, ring_known)
    diagnostics = identifier.diagnostics_
    assert len(diagnostics["theta"]) + diagnostics["n_stuck"] == 16
    assert recorder.ended("batch of chains") == [0, 1]
    assert torch.get_num_threads() == before


@pytest.mark.parametrize(("name", "stop_after"), [("sweeps", 0), ("sweeps", 5), ("langevin", 1)])
def test_a_callback_can_end_the_sampling_between_steps(name, identifier, stop_after, ring_known, ring_experiments):
    """Among the annealing levels or among the sweeps: what was drawn so far is kept, and it is said."""
    recorder = Recorder(stop_at=(STEPS[name][stop_after], stop_after))
    with pytest.warns(ConvergenceWarning, match="a callback stopped the fit before its last step") as caught:
        identifier.set_callbacks(recorder).fit(*ring_experiments, ring_known)
    assert caught[0].filename == __file__
    assert n_steps_of(identifier) == stop_after + 1
    assert recorder.ended_steps() == [(step, number) for number, step in enumerate(STEPS[name][: stop_after + 1])]
    assert recorder.ended("fit") == [0]
    assert np.isfinite(identifier.edge_probabilities_).all()
    assert identifier.sample(3, random_state=0)[0].shape == (3, 6, 6)


def test_later_batches_are_not_run_after_a_stop(ring_known, ring_experiments):
    recorder = Recorder(stop_at=("sweep", 4))
    identifier = LangevinSystemIdentifier("heat", **{**BRIEF, "n_chains": 20})
    with pytest.warns(ConvergenceWarning, match="a callback stopped the fit"):
        identifier.set_callbacks(recorder).fit(*ring_experiments, ring_known)
    assert recorder.ended("batch of chains") == [0]
    assert len(identifier.diagnostics_["theta"]) + identifier.diagnostics_["n_stuck"] == 8


def test_a_callback_can_end_adam(ring_known, ring_experiments):
    identifier = (
        clone(IDENTIFIERS["adam"]).set_callbacks(Recorder(stop_at=("step", 2))).fit(*ring_experiments, ring_known)
    )
    assert len(identifier.diagnostics_["loss"]) == 3


def test_steps_of_a_chain_that_diverged_have_no_estimate(ring_known, ring_experiments):
    recorder = Recorder()
    identifier = AdamSystemIdentifier("polynomial", learning_rate=1e20, max_iter=4, random_state=0)
    with pytest.raises(FloatingPointError, match="smaller learning_rate"):
        identifier.set_callbacks(recorder).fit(*ring_experiments, ring_known)
    assert ("end", "step", 3) in recorder.events
    assert ("teardown", "", 0) in recorder.events


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_progress_bar_shows_batches(n_jobs, ring_known, ring_experiments, capsys):
    pytest.importorskip("rich")
    identifier = LangevinSystemIdentifier("heat", **{**BRIEF, "n_chains": 9, "n_jobs": n_jobs})
    identifier.set_callbacks(ProgressBar()).fit(*ring_experiments, ring_known)
    shown = capsys.readouterr().out
    assert "LangevinSystemIdentifier - fit" in shown
    assert "batch of chains #0" in shown
    assert "batch of chains #1" in shown
    assert shown.count("100%") >= 3


@pytest.mark.parametrize(("name", "n_jobs"), [*((name, None) for name in IDENTIFIERS), ("sweeps", 2)])
def test_searches_are_followed_to_the_steps_of_each_fit(name, identifier, n_jobs, ring_known, ring_experiments):
    monitor = ScoringMonitor(scoring="r2")
    search = GridSearchCV(
        identifier.set_callbacks(monitor), {"filter": ["heat"]}, cv=2, n_jobs=n_jobs, error_score="raise"
    )
    search.fit(*ring_experiments, known_mask=ring_known)
    log = monitor.get_logs().data_as_pandas
    # Two folds and the refit.
    assert log["task_name"].isin(STEPS[name]).sum() == 3 * len(STEPS[name])
    assert np.isfinite(log["r2"]).all()


def test_progress_bar_of_a_search_reaches_into_the_fits(ring_known, ring_experiments, capsys):
    pytest.importorskip("rich")
    search = GridSearchCV(clone(IDENTIFIERS["sweeps"]), {"n_levels": [2, 3]}, cv=2, error_score="raise")
    search.set_callbacks(ProgressBar()).fit(*ring_experiments, known_mask=ring_known)
    shown = capsys.readouterr().out
    assert "GridSearchCV" in shown
    assert "LangevinSystemIdentifier - fit" in shown


def test_data_frames_are_scored_as_they_came(ring_known, ring_experiments, recwarn):
    """A callback gets the frame that `fit` was given, so that the names of its columns are there."""
    recorder = Recorder()
    X = pd.DataFrame(ring_experiments[0], columns=list("abcdef"))
    clone(IDENTIFIERS["sweeps"]).set_callbacks(recorder).fit(X, ring_experiments[1], ring_known)
    assert recorder.scores["fit", 0] > 0
    assert not [warning for warning in recwarn if "feature names" in str(warning.message)]


def test_outputs_with_gaps_can_be_followed(ring_known, ring_experiments):
    X, Y = ring_experiments
    gaps = np.where(np.random.default_rng(0).random(Y.shape) < 0.2, np.nan, Y)
    monitor = ScoringMonitor(scoring={"score": own_score})
    clone(IDENTIFIERS["sweeps"]).set_callbacks(monitor).fit(X, gaps, ring_known)
    assert np.isfinite(monitor.get_logs().data_as_pandas["score"]).all()


def test_a_network_that_is_known_can_be_followed():
    ring = nx.to_numpy_array(nx.cycle_graph(6))
    X, Y = make_system(ring, "heat", [0.5], n_experiments=3, random_state=0)
    recorder = Recorder()
    fitted = clone(IDENTIFIERS["sweeps"]).set_callbacks(recorder).fit(X, Y, ring)
    assert recorder.ended_steps() == list(zip(STEPS["sweeps"], range(n_steps_of(fitted)), strict=True))


class Failing(Recorder):
    def on_fit_task_end(self, estimator, context):
        raise RuntimeError("enough")


@pytest.mark.parametrize("name", ["sweeps", "adam"])
def test_error_in_a_callback_leaves_torch_as_it_was(name, ring_known, ring_experiments):
    before = torch.get_num_threads()
    identifier = clone(IDENTIFIERS[name]).set_callbacks(Failing())
    try:
        torch.set_num_threads(2)
        with pytest.raises(RuntimeError, match="enough") as caught:
            identifier.fit(*ring_experiments, ring_known)
        assert torch.get_num_threads() == 2  # while the traceback is alive, as it stays in an interactive session
        assert caught.traceback
        assert not torch.is_inference_mode_enabled()
    finally:
        torch.set_num_threads(before)
