"""The inputs that tell most: one after the other, then each anew given the others.

The objective is the joint information of `_information`. Once some inputs are chosen, what one more adds to it is the
information of that input under deviations that are conditioned on the others (`conditioned`), so that every step is a
search for one input.

Within a box, the search goes from corner to corner: all coordinates to the side that the gradient points to, then
single ones, as long as the objective grows. It starts from the signs of the leading directions of the predictive
covariance and from random corners. The logarithm makes the objective concave where an input already tells much, so that
the best input need not be a corner; the best corner is therefore polished within the box. With few driven nodes,
nodes are added one after the other and then exchanged for others. Among candidates, rows are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from .._utils._numbers import FloatArray
from ._information import conditioned, gaussian_information, half_log_determinant, has_small_gram, predicted

__all__ = ["Box", "choose_candidates", "choose_inputs"]

# Corners from which the search for one input starts.
_N_DIRECTIONS, _N_RANDOM = 2, 4
# Where few nodes are driven, the first one is one of so many.
_N_FIRST_NODES = 8
_MOST_ROUNDS = 50
# How often each input of a batch is chosen anew, given all others.
_N_EXCHANGES = 2
# An improvement, in nats, that counts.
_SMALLEST_GAIN = 1e-6


class Box(NamedTuple):
    """Inputs between `low` and `high`, (nodes,) each, at no more than `n_driven` nodes; zero at all others."""

    low: FloatArray
    high: FloatArray
    n_driven: int

    @property
    def is_sparse(self) -> bool:
        """Whether some nodes have to be left alone."""
        return self.n_driven < len(self.low)


def choose_inputs(deviations: FloatArray, n_inputs: int, box: Box, rng: np.random.RandomState) -> FloatArray:
    """Inputs (inputs, nodes) within a box that tell most together.

    Parameters
    ----------
    deviations : ndarray (draws, nodes, outputs)
        What the draws predict, see `deviations_of`.
    n_inputs : int
        How many.
    box : Box
        What inputs are possible.
    rng : RandomState
        Random starts.
    """
    find = _best_sparse_input if box.is_sparse else _best_corner

    def choose(left: FloatArray, now: FloatArray | None) -> FloatArray:
        found = _polished(left, find(left, box, now, rng), box)
        if now is not None and not _is_better(left, found, now):
            return now
        return found

    return _one_after_the_other(deviations, n_inputs, choose)


def choose_candidates(deviations: FloatArray, n_inputs: int, candidates: FloatArray) -> npt.NDArray[np.intp]:
    """The numbers of those candidates (candidates, nodes), all different, that tell most together."""
    free = np.ones(len(candidates), dtype=bool)
    chosen: list[int] = []

    def best(left: FloatArray) -> int:
        return int(np.where(free, gaussian_information(left, candidates), -np.inf).argmax())

    for _ in range(n_inputs):
        chosen.append(best(conditioned(deviations, candidates[chosen])))
        free[chosen[-1]] = False
    for _ in range(_N_EXCHANGES if n_inputs > 1 else 0):
        before = list(chosen)
        for place, row in enumerate(before):
            free[row] = True
            chosen[place] = best(conditioned(deviations, candidates[chosen[:place] + chosen[place + 1 :]]))
            free[chosen[place]] = False
        if chosen == before:
            break
    return np.array(chosen, dtype=np.intp)


def _one_after_the_other(
    deviations: FloatArray, n_inputs: int, choose: Callable[[FloatArray, FloatArray | None], FloatArray]
) -> FloatArray:
    """Add inputs one after the other, then choose each anew, given all others."""
    chosen = np.empty((0, deviations.shape[1]))
    for _ in range(n_inputs):
        chosen = np.vstack([chosen, choose(conditioned(deviations, chosen), None)])
    for _ in range(_N_EXCHANGES if n_inputs > 1 else 0):
        before = chosen.copy()
        for place in range(n_inputs):
            others = np.delete(chosen, place, axis=0)
            chosen[place] = choose(conditioned(deviations, others), chosen[place])
        if np.array_equal(chosen, before):
            break
    return chosen


def _value(deviations: FloatArray, x: FloatArray) -> float:
    return float(half_log_determinant(predicted(deviations, x[None])[0]))


def _is_better(deviations: FloatArray, x: FloatArray, other: FloatArray) -> bool:
    return _value(deviations, x) > _value(deviations, other) + _SMALLEST_GAIN


def _value_and_gradient(deviations: FloatArray, x: FloatArray) -> tuple[float, FloatArray]:
    """The information of an input, and its derivatives (nodes,)."""
    predictions = predicted(deviations, x[None])[0]
    if not has_small_gram(predictions):
        left, sizes, right = np.linalg.svd(predictions, full_matrices=False)
        slope = (left * (sizes / np.hypot(1.0, sizes) / np.hypot(1.0, sizes))) @ right
        value = float(np.log(np.hypot(1.0, sizes)).sum())
        return value, np.einsum("dno,do->n", deviations, slope, optimize=True)
    gram = predictions.T @ predictions + np.eye(predictions.shape[1])
    if len(predictions) < len(gram):
        gram = predictions @ predictions.T + np.eye(len(predictions))
        slope = np.linalg.solve(gram, predictions)
    else:
        slope = np.linalg.solve(gram, predictions.T).T
    return 0.5 * float(np.linalg.slogdet(gram)[1]), np.einsum("dno,do->n", deviations, slope, optimize=True)


def _best_corner(deviations: FloatArray, box: Box, now: FloatArray | None, rng: np.random.RandomState) -> FloatArray:
    covariance = np.einsum("dio,djo->ij", deviations, deviations, optimize=True)
    directions = np.linalg.eigh(covariance)[1][:, ::-1][:, :_N_DIRECTIONS].T
    random = rng.uniform(-1, 1, size=(_N_RANDOM, len(box.low)))
    starts = [np.where(signs > 0, box.high, box.low) for signs in (*directions, *random)]
    if now is not None:
        starts.append(np.where(2 * now > box.low + box.high, box.high, box.low))
    ends = [_climb(deviations, box, _leap(deviations, box, start)) for start in starts]
    return max(ends, key=lambda x: _value(deviations, x))


def _leap(deviations: FloatArray, box: Box, x: FloatArray) -> FloatArray:
    """All coordinates to where the gradient points, as long as the objective grows."""
    value, gradient = _value_and_gradient(deviations, x)
    for _ in range(_MOST_ROUNDS):
        there = np.where(gradient > 0, box.high, box.low)
        new_value, gradient = _value_and_gradient(deviations, there)
        if new_value <= value + _SMALLEST_GAIN:
            break
        x, value = there, new_value
    return x


def _climb(deviations: FloatArray, box: Box, x: FloatArray) -> FloatArray:
    """The best single coordinate to its other end, as long as the objective grows."""
    x, by_node = x.copy(), np.moveaxis(deviations, 1, 0)
    for _ in range(_MOST_ROUNDS):
        predictions, flips = predicted(deviations, x[None])[0], box.low + box.high - 2 * x
        values = half_log_determinant(predictions + flips[:, None, None] * by_node)
        best = int(values.argmax())
        if values[best] <= float(half_log_determinant(predictions)) + _SMALLEST_GAIN:
            break
        x[best] += flips[best]
    return x


def _best_sparse_input(
    deviations: FloatArray, box: Box, now: FloatArray | None, rng: np.random.RandomState
) -> FloatArray:
    """Drive one node after the other, each to the end that tells most; then exchange driven nodes for others."""
    nothing = np.zeros(len(box.low))
    if box.n_driven == 1:
        return _with_one_more(deviations, box, nothing)
    starts = [] if now is None else [now]
    for x in _best_single_nodes(deviations, box):
        for _ in range(box.n_driven - 1):
            x = _with_one_more(deviations, box, x)
        starts.append(x)
    ends = [_exchanged(deviations, box, start) for start in starts]
    return max(ends, key=lambda end: _value(deviations, end))


def _best_single_nodes(deviations: FloatArray, box: Box) -> list[FloatArray]:
    """Inputs that drive one of the nodes that tell most alone, to either end."""
    alone = np.concatenate([np.diag(box.high), np.diag(box.low)])
    values = gaussian_information(deviations, alone)
    is_driving = (alone != 0).any(axis=1)
    order = [row for row in np.argsort(-values, kind="stable") if is_driving[row]]
    return [alone[row] for row in order[:_N_FIRST_NODES]]


def _exchanged(deviations: FloatArray, box: Box, x: FloatArray) -> FloatArray:
    for _ in range(_MOST_ROUNDS):
        before = x
        for node in np.flatnonzero(before):
            tried = _with_one_more(deviations, box, np.where(np.arange(len(x)) == node, 0.0, x))
            x = tried if _is_better(deviations, tried, x) else x
        if x is before:
            break
    return x


def _with_one_more(deviations: FloatArray, box: Box, x: FloatArray) -> FloatArray:
    """The input with one more driven node: that node and that end of its box that tell most."""
    predictions, by_node, is_idle = predicted(deviations, x[None])[0], np.moveaxis(deviations, 1, 0), x == 0
    ends = np.stack([box.high, box.low])
    values = np.stack([half_log_determinant(predictions + end[:, None, None] * by_node) for end in ends])
    values = np.where(is_idle & (ends != 0), values, -np.inf)
    end, node = np.unravel_index(values.argmax(), values.shape)
    x = x.copy()
    x[node] = ends[end, node]
    return x


def _polished(deviations: FloatArray, x: FloatArray, box: Box) -> FloatArray:
    """A maximum within the box, nodes that are not driven being left alone; x where none that is found tells more."""
    driven = np.flatnonzero(x) if box.is_sparse else np.arange(len(x))
    middle, half = (box.low + box.high)[driven] / 2, (box.high - box.low)[driven] / 2
    some = np.ascontiguousarray(deviations[:, driven])

    def objective(unit: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = _value_and_gradient(some, middle + half * unit)
        return -value, -gradient * half

    # A corner may be a maximum of its surroundings and still tell less than the inside, so the way starts half inside.
    start = 0.5 * (x[driven] - middle) / np.where(half > 0, half, 1.0)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(-1, 1)] * len(start))
    polished = x.copy()
    polished[driven] = middle + half * np.clip(found.x, -1, 1)
    return polished if _is_better(deviations, polished, x) else x
