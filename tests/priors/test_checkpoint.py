"""A training that was interrupted, by whatever means, goes on as if it had not been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_priors import quick, small_grids

import sklearn_graphid
from sklearn_graphid import GraphPriorScore
from sklearn_graphid.nn import _training
from sklearn_graphid.priors._files import CHECKPOINT, PRIOR, read_arrays, write_arrays


def make_prior(path: Path | None, **changes: Any) -> GraphPriorScore:
    return quick(**{"n_levels": 2, "max_epochs": 4, "checkpoint_path": path, **changes})


class CrashError(Exception):
    """The power failed."""


class CrashAfter:
    """A callback that ends the program after some epochs."""

    def __init__(self, n_epochs: int, error: type[BaseException] = CrashError) -> None:
        self.n_epochs, self.error, self.told = n_epochs, error, []

    def setup(self, estimator: Any, context: Any) -> None:
        pass

    def teardown(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        pass

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        self.told.append((context.task_name, context.task_id))
        if context.task_name == "epoch" and context.task_id + 1 == self.n_epochs:
            raise self.error


def interrupt(path: Path, n_epochs: int = 2, graphs: Any = None, **changes: Any) -> None:
    """Leave the checkpoint of a training that died."""
    with pytest.raises(CrashError):
        make_prior(path, **changes).set_callbacks(CrashAfter(n_epochs)).fit(graphs or small_grids())
    assert path.exists()


def assert_same(first: GraphPriorScore, second: GraphPriorScore) -> None:
    for name, value in first.weights_.items():
        np.testing.assert_array_equal(second.weights_[name], value)
    for name in ("training", "validation"):
        np.testing.assert_array_equal(first.loss_history_[name], second.loss_history_[name])
    assert first.n_iter_ == second.n_iter_
    np.testing.assert_equal(first.known_loss_, second.known_loss_)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "training.safetensors"


@pytest.mark.parametrize(("architecture", "n_epochs"), [("ppgn", 1), ("ppgn", 4), ("edp-gnn", 2)])
def test_training_goes_on_to_the_same_bits(path, architecture, n_epochs):
    interrupt(path, n_epochs, architecture=architecture)
    resumed = make_prior(path, architecture=architecture).fit(small_grids())
    assert_same(make_prior(None, architecture=architecture).fit(small_grids()), resumed)
    assert not path.exists()


def test_training_may_be_interrupted_again_and_again(path):
    for n_epochs in (1, 2, 3):
        interrupt(path, n_epochs)
    assert_same(make_prior(None).fit(small_grids()), make_prior(path).fit(small_grids()))


KILLED = """
import os, signal, sys
import torch
torch.set_num_threads(1)
from sklearn_graphid import GraphPriorScore
from sklearn_graphid.datasets import make_grid_graphs
from sklearn_graphid.nn import _training

step, n_steps, sync, n_writes = _training._set_gradients, [], os.fsync, []

def dying_step(*arguments):
    n_steps.append(1)
    if sys.argv[2] == "step" and os.path.exists(sys.argv[1]) and len(n_steps) > 25:
        os.kill(os.getpid(), signal.SIGKILL)
    return step(*arguments)

def dying_sync(file):
    n_writes.append(1)
    if sys.argv[2] == "write" and len(n_writes) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    sync(file)

_training._set_gradients, os.fsync = dying_step, dying_sync
graphs = make_grid_graphs(10, min_nodes=9, max_nodes=12, min_side=3, max_side=4, random_state=0)
settings = {"width": 4, "n_blocks": 2, "n_levels": 2, "max_epochs": 4, "random_state": 0}
GraphPriorScore(checkpoint_path=sys.argv[1], **settings).fit(graphs)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
@pytest.mark.parametrize("moment", ["step", "write"])
def test_process_that_is_killed_in_the_middle_loses_no_more_than_an_epoch(path, moment):
    root = str(Path(sklearn_graphid.__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": root, "OMP_NUM_THREADS": "1"}
    dead = subprocess.run(
        [sys.executable, "-c", KILLED, str(path), moment], env=environment, capture_output=True, timeout=300
    )
    assert dead.returncode == -signal.SIGKILL, dead.stderr.decode()
    _, facts = read_arrays(path, CHECKPOINT)
    assert 1 <= facts["numbers"]["n_epochs"] < 4
    assert_same(make_prior(None).fit(small_grids()), make_prior(path).fit(small_grids()))
    assert os.listdir(path.parent) == []  # nor does the half-written file of a killed process stay


def test_without_a_random_state_the_seeds_of_the_checkpoint_go_on(path):
    interrupt(path, random_state=5)
    resumed = make_prior(path, random_state=None).fit(small_grids())
    assert_same(make_prior(None, random_state=5).fit(small_grids()), resumed)


def test_a_generator_in_the_same_state_goes_on(path):
    interrupt(path, random_state=np.random.RandomState(3))
    resumed = make_prior(path, random_state=np.random.RandomState(3)).fit(small_grids())
    assert_same(make_prior(None, random_state=np.random.RandomState(3)).fit(small_grids()), resumed)


def test_warm_start_goes_on_after_an_interruption(path):
    def begun() -> GraphPriorScore:
        return make_prior(None, max_epochs=1).fit(small_grids()).set_params(warm_start=True, max_epochs=3)

    whole = begun().fit(small_grids())
    with pytest.raises(CrashError):
        begun().set_params(checkpoint_path=path).set_callbacks(CrashAfter(2)).fit(small_grids())
    resumed = begun().set_params(checkpoint_path=path).fit(small_grids())
    assert_same(whole, resumed)
    assert resumed.n_iter_ == 4


def test_keyboard_interrupt_keeps_the_checkpoint_too(path):
    prior = make_prior(path).set_callbacks(CrashAfter(2, KeyboardInterrupt))
    with pytest.warns(UserWarning, match="interrupted after 2 epochs"):
        prior.fit(small_grids())
    assert prior.n_iter_ == 2
    assert_same(make_prior(None).fit(small_grids()), prior.set_callbacks().fit(small_grids()))


def test_early_stopping_and_its_patience_go_on(path, monkeypatch):
    def losses() -> Any:
        values = iter([0.5, 0.4, 0.41, 0.42, 0.1])
        return lambda *arguments: next(values)

    settings = {"max_epochs": 5, "n_iter_no_change": 2}
    monkeypatch.setattr(_training, "_validate", losses())
    whole = make_prior(None, **settings).fit(small_grids())
    monkeypatch.setattr(_training, "_validate", losses())
    interrupt(path, 3, **settings)
    monkeypatch.setattr(_training, "_validate", lambda *arguments: 0.42)
    resumed = make_prior(path, **settings).fit(small_grids())
    assert resumed.n_iter_ == 4
    assert_same(whole, resumed)


def test_time_before_the_interruption_counts(path):
    interrupt(path, 2, max_epochs=1_000, max_time=60.0)
    arrays, facts = read_arrays(path, CHECKPOINT)
    facts["numbers"]["seconds"] = 59.999  # as if it had been slow
    write_arrays(path, CHECKPOINT, arrays, facts)
    resumed = make_prior(path, max_epochs=1_000, max_time=60.0).fit(small_grids())
    assert resumed.n_iter_ <= 3
    assert resumed.loss_history_["seconds"][-1] < 70


def test_callbacks_hear_of_the_epochs_before_the_interruption(path):
    interrupt(path, 2)
    listener = CrashAfter(99)
    make_prior(path).set_callbacks(listener).fit(small_grids())
    assert listener.told == [("epoch", 0), ("epoch", 1), ("epoch", 2), ("epoch", 3), ("fit", 0)]


def test_what_is_measured_after_the_training_may_be_interrupted_too(path, monkeypatch):
    def crash(*arguments: Any) -> None:
        raise CrashError

    with monkeypatch.context() as patch:
        patch.setattr(GraphPriorScore, "_calibrate", crash)
        with pytest.raises(CrashError):
            make_prior(path).fit(small_grids())
    assert_same(make_prior(None).fit(small_grids()), make_prior(path).fit(small_grids()))
    assert not path.exists()


def test_a_training_that_ends_in_peace_leaves_no_file(path):
    prior = make_prior(path, max_epochs=1).fit(small_grids())
    assert not path.exists()
    prior.fit(small_grids(seed=1))  # so that the next one may use the same name
    assert make_prior(str(path), max_epochs=1).fit(small_grids()).n_iter_ == 1


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"learning_rate": 0.1}, r"learning_rate was 0\.003 and is now 0\.1"),
        ({"max_epochs": 5}, "max_epochs was 4 and is now 5"),
        ({"max_time": 60.0}, r"max_time was None and is now 60\.0"),
        ({"architecture": "edp-gnn"}, "architecture was 'ppgn' and is now 'edp-gnn'"),
        ({"random_state": 1}, "random_state is different"),
        ({"batch_size": 9, "sigma_max": 0.6}, r"batch_size was 8 and is now 9; sigma_max was 0\.5 and is now 0\.6"),
    ],
)
def test_checkpoint_of_other_settings_is_refused_by_what_differs(path, changes, complaint):
    interrupt(path, 1)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"training\.safetensors' holds another training: .*{complaint}"):
        make_prior(path, **changes).fit(small_grids())
    assert path.read_bytes() == before


def test_checkpoint_of_other_graphs_is_refused(path):
    interrupt(path, 1)
    graphs = small_grids()
    one_edge = [graphs[0].copy(), *graphs[1:]]
    one_edge[0][0, 1] = one_edge[0][1, 0] = 1 - one_edge[0][0, 1]
    for others in (small_grids(seed=1), graphs[:-1], graphs[::-1], one_edge):
        with pytest.raises(ValueError, match="the graphs are different, or in a different order"):
            make_prior(path).fit(others)


def test_checkpoint_of_another_start_is_refused(path):
    interrupt(path, 1)
    warm = make_prior(None, max_epochs=1).fit(small_grids())
    with pytest.raises(ValueError, match="training starts from different weights"):
        warm.set_params(warm_start=True, max_epochs=4, checkpoint_path=path).fit(small_grids())


def test_settings_that_change_no_result_may_change(path):
    interrupt(path, 2)
    moved = path.rename(path.with_name("moved"))
    resumed = make_prior(moved, device="auto" if _no_cuda() else "cpu").fit(small_grids())
    assert resumed.n_iter_ == 4


def _no_cuda() -> bool:
    import torch

    return not torch.cuda.is_available()


def test_damaged_or_foreign_checkpoint_is_refused_and_left_alone(path):
    interrupt(path, 1)
    content = path.read_bytes()
    for spoilt, complaint in (
        (content[:-5], "is not a whole safetensors file"),
        (b"some text", "is not a whole safetensors file"),
        (content[:-5] + b"12345", "was changed after it was written"),
    ):
        path.write_bytes(spoilt)
        with pytest.raises(ValueError, match=complaint):
            make_prior(path).fit(small_grids())
        assert path.read_bytes() == spoilt
    path.write_bytes(content)
    arrays, facts = read_arrays(path, CHECKPOINT)
    write_arrays(path, PRIOR, arrays, facts)
    with pytest.raises(ValueError, match="not a sklearn_graphid training checkpoint"):
        make_prior(path).fit(small_grids())


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda arrays, facts: facts.pop("numbers"), "there is no 'numbers'"),
        (lambda arrays, facts: facts["numbers"].pop("n_steps"), "n_steps"),
        (lambda arrays, facts: facts["history"].pop("training"), "there is no 'training'"),
        (lambda arrays, facts: facts["fingerprint"].pop("seeds"), "there is no 'seeds'"),
        (lambda arrays, facts: arrays.update(other=arrays["weights/readout.bias"]), "there is no 'other'"),
    ],
)
def test_checkpoint_whose_content_makes_no_sense_is_refused_and_left_alone(path, change, complaint):
    interrupt(path, 1)
    arrays, facts = read_arrays(path, CHECKPOINT)
    change(arrays, facts)
    write_arrays(path, CHECKPOINT, arrays, facts)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"training\.safetensors' does not describe a training.*: .*{complaint}"):
        make_prior(path, random_state=None).fit(small_grids())
    assert path.read_bytes() == before


def test_folder_that_does_not_exist_is_reported_before_any_work(tmp_path):
    with pytest.raises(ValueError, match=r"checkpoint_path=.*: there is no folder .*nowhere"):
        make_prior(tmp_path / "nowhere" / "training").fit(small_grids())
    with pytest.raises(ValueError, match="is a folder; expected the path of a file"):
        make_prior(tmp_path).fit(small_grids())


@pytest.fixture
def no_training(monkeypatch):
    def fail(*arguments: Any) -> None:
        raise AssertionError("training began before the path was looked at")

    monkeypatch.setattr(_training, "_set_gradients", fail)


@pytest.mark.usefixtures("no_training")
def test_path_that_cannot_be_written_is_reported_before_training(path, monkeypatch):
    with pytest.raises(ValueError, match=r"checkpoint_path='/proc/graphid' cannot be written"):
        make_prior(Path("/proc/graphid")).fit(small_grids())
    with pytest.raises(ValueError, match="checkpoint_path is empty; expected the name of a file"):
        make_prior("").fit(small_grids())
    opened = os.open

    def read_only(name: Any, flags: int, *mode: int) -> int:
        if Path(name).parent == path.parent and flags & os.O_WRONLY:
            raise OSError(30, "Read-only file system", name)
        return opened(name, flags, *mode)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(ValueError, match=r"training\.safetensors' cannot be written \(Read-only file system\)"):
        make_prior(path).fit(small_grids())


def test_read_only_checkpoint_is_reported_before_training_goes_on(path, monkeypatch):
    interrupt(path, 1)
    before, opened = path.read_bytes(), os.open

    def protected(name: Any, flags: int, *mode: int) -> int:
        if Path(name) == path and flags & os.O_WRONLY:
            raise PermissionError(13, "Permission denied", name)
        return opened(name, flags, *mode)

    monkeypatch.setattr(os, "open", protected)
    monkeypatch.setattr(_training, "_set_gradients", None)  # a step would be a TypeError
    with pytest.raises(ValueError, match=r"checkpoint_path=.* cannot be written \(Permission denied\)"):
        make_prior(path).fit(small_grids())
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]


def test_partial_fit_writes_no_checkpoint(path):
    make_prior(path).partial_fit(small_grids())
    assert os.listdir(path.parent) == []
