"""Training runs: held-out graphs, callbacks after every epoch, and what is kept when a run stops."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from .._utils._numbers import FloatArray
from ..nn import Epoch
from ._checkpoint import Checkpoint, History
from ._files import Arrays

__all__ = ["appended", "finish", "follow_training", "later_seed", "split_graphs"]


_Result = TypeVar("_Result")


def split_graphs(graphs: list[FloatArray], fraction: float, seed: int) -> tuple[list[FloatArray], list[FloatArray]]:
    """Training and validation graphs; at least one is left to train on."""
    n_held_out = min(len(graphs) - 1, round(fraction * len(graphs)))
    order = np.random.default_rng(seed).permutation(len(graphs))
    return [graphs[i] for i in order[n_held_out:]], [graphs[i] for i in order[:n_held_out]]


def later_seed(seed: int, n_epochs: int) -> int:
    """A seed for a training that resumes after `n_epochs` epochs, so that it sees other noise than the first ones."""
    return seed if n_epochs == 0 else int(np.random.SeedSequence((seed, n_epochs)).generate_state(1)[0])


def follow_training(
    estimator: Any,
    graphs: list[FloatArray],
    y: Any,
    epochs: Iterable[Epoch],
    max_epochs: int,
    checkpoint: Checkpoint,
    attributes: Callable[[Arrays, History], dict[str, Any]],
) -> tuple[dict[str, Any], bool]:
    """Run a training to its end; tell callbacks and the checkpoint of every epoch.

    Parameters
    ----------
    estimator : estimator
        Whose callbacks are told.
    graphs, y : list of ndarray, Any
        What `fit` was given, for callbacks that score.
    epochs : iterable of Epoch
        The training.
    max_epochs : int
        How many there are at most.
    checkpoint : Checkpoint
        Where the state is kept, and from where it was taken up.
    attributes : callable
        Makes fitted attributes out of weights and history.

    Returns
    -------
    fitted : dict
        The fitted attributes of the best weights, also after a KeyboardInterrupt that was not too early.
    is_over : bool
        False after a KeyboardInterrupt.
    """
    history = checkpoint.history
    best = None if checkpoint.state is None else checkpoint.state.best
    # ScoringMonitor asks for targets before it scores; `score` ignores them, so that anything will do.
    data = {"X": graphs, "y": graphs if y is None else y}
    root = estimator._init_callback_context(max_subtasks=max_epochs)
    root.call_on_fit_task_begin(estimator=estimator, **data)
    for _ in history["training"]:  # epochs of before the interruption are over as soon as they begin
        _tell(root, estimator, {})
    is_over = True
    try:
        for epoch in epochs:
            if not math.isfinite(epoch.training_loss):
                _report_divergence(epoch, best is None)
                break
            for name, value in zip(history, (epoch.training_loss, epoch.validation_loss, epoch.seconds), strict=True):
                history[name].append(value)
            best = epoch.state.best
            checkpoint.write(epoch.state, history)
            fitted = {**data, "reconstruction_attributes": lambda best=best: attributes(_numpy(best), history)}
            if _tell(root, estimator, fitted):
                break
    except KeyboardInterrupt:
        if best is None:
            raise
        is_over = False
        warnings.warn(
            f"training was interrupted after {len(history['training'])} epochs; the best weights so far are kept.",
            UserWarning,
            stacklevel=6,
        )
    assert best is not None
    result = attributes(_numpy(best), history)
    root.call_on_fit_task_end(estimator=estimator, **data, reconstruction_attributes=lambda: result)
    return result, is_over


def finish(measure: Callable[[], _Result]) -> _Result:
    """Measure what takes a second after a training that took hours; a KeyboardInterrupt starts it again, once."""
    try:
        return measure()
    except KeyboardInterrupt:
        warnings.warn(
            "interrupted after the training, while its result was completed; this goes on. Interrupt once more to "
            "discard the training.",
            UserWarning,
            stacklevel=6,
        )
        return measure()


def appended(earlier: History | None, history: History) -> History:
    """The history of a training that went on; its seconds go on too."""
    if earlier is None:
        return {name: list(values) for name, values in history.items()}
    begin = earlier["seconds"][-1] if earlier["seconds"] else 0.0
    seconds = [begin + second for second in history["seconds"]]
    return {name: earlier[name] + values for name, values in {**history, "seconds": seconds}.items()}


def _tell(root: Any, estimator: Any, arguments: dict[str, Any]) -> bool:
    """Begin and end the task of an epoch; whether a callback wants to stop."""
    step = root.subcontext(task_name="epoch")
    step.call_on_fit_task_begin(estimator=estimator)
    return bool(step.call_on_fit_task_end(estimator=estimator, **arguments))


def _report_divergence(epoch: Epoch, is_first: bool) -> None:
    complaint = f"training diverged in epoch {epoch.number + 1}: its loss is {epoch.training_loss}"
    if is_first:
        raise ValueError(f"{complaint}. A lower learning_rate may help.")
    warnings.warn(f"{complaint}; the best weights so far are kept.", UserWarning, stacklevel=7)


def _numpy(weights: dict[str, Tensor]) -> Arrays:
    return {name: value.detach().cpu().numpy().copy() for name, value in weights.items()}
