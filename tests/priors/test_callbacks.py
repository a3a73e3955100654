"""Callbacks of a training, and what remains when it is interrupted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.callback import ProgressBar, ScoringMonitor
from small_priors import quick, same_weights


class Recorder:
    """A callback that notes what it is told, and may stop the training or break into it."""

    def __init__(self, stop_after: int | None = None, interrupt_in: int | None = None) -> None:
        self.stop_after, self.interrupt_in = stop_after, interrupt_in
        self.events: list[tuple[str, str, int]] = []
        self.scores: list[float | None] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.max_subtasks = context.max_subtasks

    def teardown(self, estimator: Any, context: Any) -> None:
        self.events.append(("teardown", "", 0))

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.events.append(("begin", context.task_name, context.task_id))

    def on_fit_task_end(self, estimator: Any, context: Any, *, X: Any = None, fitted_estimator: Any = None) -> bool:
        self.events.append(("end", context.task_name, context.task_id))
        self.scores.append(None if fitted_estimator is None else fitted_estimator.score(X))
        if context.task_name == "epoch" and context.task_id == self.interrupt_in:
            raise KeyboardInterrupt
        return context.task_name == "epoch" and context.task_id == self.stop_after


def test_callbacks_are_told_of_every_epoch_with_a_prior_that_scores(graphs):
    recorder = Recorder()
    prior = quick().set_callbacks(recorder).fit(graphs)
    assert recorder.max_subtasks == 2
    epochs = [(event, "epoch", i) for i in range(2) for event in ("begin", "end")]
    assert recorder.events == [("begin", "fit", 0), *epochs, ("end", "fit", 0), ("teardown", "", 0)]
    assert recorder.scores[-1] == prior.score(graphs)
    assert same_weights(prior, quick().fit(graphs))


def test_a_callback_can_end_the_training(graphs):
    prior = quick(max_epochs=5).set_callbacks(Recorder(stop_after=1)).fit(graphs)
    assert prior.n_iter_ == 2


def test_scoring_monitor_logs_the_score_after_every_epoch(graphs):
    monitor = ScoringMonitor(scoring={"denoising": lambda prior, X, y: prior.score(X)})
    prior = quick().set_callbacks(monitor).fit(graphs)
    logged = {(row["task_name"], row["task_id"]): row["denoising"] for row in monitor.get_logs().data}
    assert set(logged) == {("fit", 0), ("epoch", 0), ("epoch", 1)}
    assert logged["fit", 0] == logged["epoch", 1] == prior.score(graphs)
    assert logged["epoch", 0] != logged["epoch", 1]


def test_progress_bar_is_shown(graphs, capsys):
    pytest.importorskip("rich")
    quick(max_epochs=1).set_callbacks(ProgressBar()).fit(graphs[:2])
    shown = capsys.readouterr().out
    assert "GraphPriorScore - fit" in shown
    assert "100%" in shown


def test_interruption_keeps_the_best_weights_and_warns(graphs):
    prior = quick(max_epochs=5).set_callbacks(Recorder(interrupt_in=1))
    with pytest.warns(UserWarning, match="interrupted after 2 epochs; the best weights so far are kept") as caught:
        prior.fit(graphs)
    assert caught[0].filename == __file__  # the warning points at the caller
    assert prior.n_iter_ == 2
    assert same_weights(prior, quick(max_epochs=5).set_callbacks(Recorder(stop_after=1)).fit(graphs))


def test_interruption_inside_an_epoch_keeps_the_epochs_before(graphs, monkeypatch):
    from sklearn_graphid.nn import _training

    step, n_steps = _training._set_gradients, []

    def break_in(*arguments: Any) -> float:
        n_steps.append(1)
        if len(n_steps) > 40:
            raise KeyboardInterrupt
        return step(*arguments)

    monkeypatch.setattr(_training, "_set_gradients", break_in)
    with pytest.warns(UserWarning, match="interrupted after"):
        prior = quick(max_epochs=50).fit(graphs)
    assert 1 <= prior.n_iter_ < 50
    assert np.isfinite(prior.transform(graphs)).all()


def test_interruption_before_there_is_anything_to_keep_is_passed_on(graphs, monkeypatch):
    def break_in(*arguments: Any) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr("sklearn_graphid.nn._training._set_gradients", break_in)
    prior = quick()
    with pytest.raises(KeyboardInterrupt):
        prior.fit(graphs)
    assert not hasattr(prior, "weights_")
