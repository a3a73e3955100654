"""Which experiment to do next: how informative inputs and pairs are, and the search for the most informative inputs.

Outputs are linear in the input x, so draw d of the system predicts x' R_d, where R_d holds the responses to an input of
one at each node. The more these predictions differ, relative to the noise, the more informative an experiment is:
½ log det(I + covariance of the predictions over that of the noise), in nats. It is the mutual information of system and
outputs if predictions are Gaussian, and an upper bound of it if they are not. The mutual information with the number of
the draw, which needs no such assumption, ranks inputs no better, and cannot exceed the logarithm of the number of
draws, which on graphs of thirty nodes all good inputs reach.

Arrays: responses and deviations (draws, nodes, outputs), inputs (inputs, nodes), predictions (..., draws, outputs).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import linalg
from scipy.optimize import minimize

from ._utils._numbers import FloatArray

__all__ = [
    "Box",
    "choose_candidates",
    "choose_inputs",
    "conditioned",
    "deviations_of",
    "entropy_of",
    "gaussian_information",
    "pair_information",
]


def deviations_of(responses: FloatArray, noise_std: FloatArray) -> FloatArray:
    """Predictions of draws less their mean, over the noise (outputs,) and the root of the number of draws.

    With these, the covariance of the predictions of x over the noise's is P'P, where P = x @ deviations.
    """
    deviations: FloatArray = (responses - responses.mean(axis=0)) / (noise_std * np.sqrt(len(responses)))
    return deviations


def _predicted(deviations: FloatArray, inputs: FloatArray) -> FloatArray:
    """The predictions (inputs, draws, outputs) of inputs (inputs, nodes)."""
    n_draws, n_nodes, n_outputs = deviations.shape
    flat = inputs @ np.moveaxis(deviations, 1, 0).reshape(n_nodes, -1)
    return flat.reshape(len(inputs), n_draws, n_outputs)


def _half_log_determinant(predictions: FloatArray) -> FloatArray:
    """½ log det(I + P'P) of predictions P (..., draws, outputs), in the smaller of the two dimensions."""
    if predictions.shape[-2] > predictions.shape[-1]:
        predictions = predictions.swapaxes(-2, -1)
    if not _has_small_gram(predictions):
        return np.asarray(np.log(np.hypot(1.0, np.linalg.svd(predictions, compute_uv=False))).sum(-1))
    gram = predictions @ predictions.swapaxes(-2, -1)
    cholesky = np.linalg.cholesky(gram + np.eye(gram.shape[-1]))
    return np.asarray(np.log(np.diagonal(cholesky, axis1=-2, axis2=-1)).sum(-1))


def _has_small_gram(predictions: FloatArray) -> bool:
    """Whether I + P'P of predictions P (..., draws, outputs) can be factorised without losing the identity.

    If not, as where inputs are a million times larger than those so far, singular values of P are used, at more cost.
    """
    largest = float(np.abs(predictions).max(initial=0.0))
    return bool(largest < np.sqrt(1e10 / max(1, predictions.shape[-2] * predictions.shape[-1])))


def gaussian_information(deviations: FloatArray, inputs: FloatArray) -> FloatArray:
    """The information (inputs,) of each input alone, as if predictions were Gaussian."""
    parts = [_half_log_determinant(_predicted(deviations, part)) for part in _in_parts(deviations, inputs)]
    return np.concatenate([np.empty(0), *parts])


def conditioned(deviations: FloatArray, inputs: FloatArray) -> FloatArray:
    """Deviations that are left when the outputs of some inputs will be known.

    The information of one more input under these is what it adds to that of the others.
    """
    if not len(inputs):
        return deviations
    # The factor (draws, draws) of I + P P', where P (draws, ...) are the predictions of all inputs. By orthogonal
    # transformations of I and P, part by part: products would lose the identity beside large predictions.
    upper = np.eye(len(deviations))
    for part in _in_parts(deviations, inputs):
        predictions = np.moveaxis(_predicted(deviations, part), 1, 0).reshape(len(deviations), -1)
        upper = linalg.qr(np.concatenate([upper, predictions.T]), mode="r", check_finite=False)[0][: len(upper)]
    # Pivots are one at least, or rounding made them less.
    pivots = np.diagonal(upper)
    upper = upper * np.where(pivots < 0, -1.0, 1.0)[:, None]
    np.fill_diagonal(upper, np.maximum(np.abs(pivots), 1.0))
    flat = linalg.solve_triangular(upper.T, deviations.reshape(len(deviations), -1), lower=True, check_finite=False)
    return np.asarray(flat, dtype=np.float64).reshape(deviations.shape)


def _in_parts(deviations: FloatArray, inputs: FloatArray) -> Iterator[FloatArray]:
    size = max(1, 2**23 // (deviations.shape[0] * deviations.shape[2]))  # predictions at once
    for start in range(0, len(inputs), size):
        yield inputs[start : start + size]


# The search for inputs: one after the other, then each anew given the others. What one more input adds to those chosen
# is its information under deviations that are conditioned on them, so every step is a search for one input. Within a
# box, it goes from corner to corner: all coordinates to the side that the gradient points to, then single ones, as long
# as the objective grows. The logarithm makes the objective concave where an input is already informative, so the best
# corner is then polished within the box. With few driven nodes, nodes are added one after the other and then exchanged.

_MOST_ROUNDS = 50
_SMALLEST_GAIN = 1e-6  # an improvement, in nats, that counts


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
    """Inputs (inputs, nodes) within a box that are most informative together, given what draws predict."""
    find = _best_sparse_input if box.is_sparse else _best_corner

    def choose(left: FloatArray, _: list[FloatArray], now: FloatArray | None) -> FloatArray:
        found = _polished(left, find(left, box, now, rng), box)
        return found if now is None or _is_better(left, found, now) else now

    chosen = _chosen_jointly(deviations, n_inputs, choose, lambda rows: np.array(rows).reshape(-1, len(box.low)))
    return np.array(chosen)


def choose_candidates(deviations: FloatArray, n_inputs: int, candidates: FloatArray) -> npt.NDArray[np.intp]:
    """The numbers of those candidates (candidates, nodes), all different, that are most informative together."""

    def choose(left: FloatArray, others: list[int], _: int | None) -> int:
        information = gaussian_information(left, candidates)
        information[others] = -np.inf
        return int(information.argmax())

    chosen = _chosen_jointly(deviations, n_inputs, choose, lambda rows: candidates[rows])
    return np.array(chosen, dtype=np.intp)


def _chosen_jointly(
    deviations: FloatArray,
    n_inputs: int,
    choose: Callable[[FloatArray, list[Any], Any], Any],
    inputs_of: Callable[[list[Any]], FloatArray],
) -> list[Any]:
    """Add choices one after the other, then make each anew, given all others.

    `choose` gets the deviations that the others leave, the others, and the choice so far, if there is one.
    """
    chosen: list[Any] = []
    for _ in range(n_inputs):
        chosen.append(choose(conditioned(deviations, inputs_of(chosen)), chosen, None))
    for _ in range(2 if n_inputs > 1 else 0):
        before = list(chosen)
        for place, now in enumerate(before):
            others = chosen[:place] + chosen[place + 1 :]
            chosen[place] = choose(conditioned(deviations, inputs_of(others)), others, now)
        if np.array_equal(chosen, before):
            break
    return chosen


def _value(deviations: FloatArray, x: FloatArray) -> float:
    return float(_half_log_determinant(_predicted(deviations, x[None])[0]))


def _is_better(deviations: FloatArray, x: FloatArray, other: FloatArray) -> bool:
    return _value(deviations, x) > _value(deviations, other) + _SMALLEST_GAIN


def _value_and_gradient(deviations: FloatArray, x: FloatArray) -> tuple[float, FloatArray]:
    """The information of an input, and its derivatives (nodes,)."""
    predictions = _predicted(deviations, x[None])[0]
    if not _has_small_gram(predictions):
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
    # Starts are the signs of the leading directions of the predictive covariance, and random corners.
    covariance = np.einsum("dio,djo->ij", deviations, deviations, optimize=True)
    directions = np.linalg.eigh(covariance)[1][:, ::-1][:, :2].T
    random = rng.uniform(-1, 1, size=(4, len(box.low)))
    starts = [np.where(signs > 0, box.high, box.low) for signs in (*directions, *random)]
    if now is not None:
        starts.append(np.where(2 * now > box.low + box.high, box.high, box.low))
    ends = [_flip_coordinates(deviations, box, _follow_gradient(deviations, box, start)) for start in starts]
    return max(ends, key=lambda x: _value(deviations, x))


def _follow_gradient(deviations: FloatArray, box: Box, x: FloatArray) -> FloatArray:
    """Move all coordinates to where the gradient points, as long as the objective grows."""
    value, gradient = _value_and_gradient(deviations, x)
    for _ in range(_MOST_ROUNDS):
        there = np.where(gradient > 0, box.high, box.low)
        new_value, gradient = _value_and_gradient(deviations, there)
        if new_value <= value + _SMALLEST_GAIN:
            break
        x, value = there, new_value
    return x


def _flip_coordinates(deviations: FloatArray, box: Box, x: FloatArray) -> FloatArray:
    """Move the best single coordinate to its other end, as long as the objective grows."""
    x, by_node = x.copy(), np.moveaxis(deviations, 1, 0)
    for _ in range(_MOST_ROUNDS):
        predictions, flips = _predicted(deviations, x[None])[0], box.low + box.high - 2 * x
        values = _half_log_determinant(predictions + flips[:, None, None] * by_node)
        best = int(values.argmax())
        if values[best] <= float(_half_log_determinant(predictions)) + _SMALLEST_GAIN:
            break
        x[best] += flips[best]
    return x


def _best_sparse_input(
    deviations: FloatArray, box: Box, now: FloatArray | None, rng: np.random.RandomState
) -> FloatArray:
    """Drive one node after the other, each at its more informative end; then exchange driven nodes for others."""
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
    """Inputs that drive one of the most informative nodes alone, to either end."""
    alone = np.concatenate([np.diag(box.high), np.diag(box.low)])
    values = gaussian_information(deviations, alone)
    is_driving = (alone != 0).any(axis=1)
    order = [row for row in np.argsort(-values, kind="stable") if is_driving[row]]
    return [alone[row] for row in order[:8]]


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
    """The input with one more driven node: the most informative node and end of its box."""
    predictions, by_node, is_idle = _predicted(deviations, x[None])[0], np.moveaxis(deviations, 1, 0), x == 0
    ends = np.stack([box.high, box.low])
    values = np.stack([_half_log_determinant(predictions + end[:, None, None] * by_node) for end in ends])
    values = np.where(is_idle & (ends != 0), values, -np.inf)
    end, node = np.unravel_index(values.argmax(), values.shape)
    x = x.copy()
    x[node] = ends[end, node]
    return x


def _polished(deviations: FloatArray, x: FloatArray, box: Box) -> FloatArray:
    """A maximum within the box, without driving more nodes; x if none that is found is more informative."""
    driven = np.flatnonzero(x) if box.is_sparse else np.arange(len(x))
    middle, half = (box.low + box.high)[driven] / 2, (box.high - box.low)[driven] / 2
    some = np.ascontiguousarray(deviations[:, driven])

    def objective(unit: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = _value_and_gradient(some, middle + half * unit)
        return -value, -gradient * half

    # A corner may be a local maximum that is less informative than the inside, so the search starts half inside.
    start = 0.5 * (x[driven] - middle) / np.where(half > 0, half, 1.0)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(-1, 1)] * len(start))
    polished = x.copy()
    polished[driven] = middle + half * np.clip(found.x, -1, 1)
    return polished if _is_better(deviations, polished, x) else x


# Pairs to check by hand


def pair_information(graphs: npt.NDArray[Any], weight: FloatArray) -> FloatArray:
    """Mutual information (pairs,) of every pair with the others, summed over them.

    Graphs (chains, draws, pairs) are zeros and ones, and the weights (chains,) add up to one. In finitely many draws,
    independent pairs seem to have something in common. To estimate how much, the chains of one pair are matched with
    other chains of the other pair: what is then left in common is chance. It is subtracted, pair by pair, so that the
    sum over many pairs that have nothing in common is zero on average. For a single chain, it is the 1 / (2 n) of
    Miller and Madow.
    """
    n_chains, n_draws, n_pairs = graphs.shape
    share = np.repeat(weight / n_draws, n_draws)
    flat = graphs.reshape(n_chains * n_draws, n_pairs).astype(np.float64)
    entropy = entropy_of(share @ flat)
    about_others = np.zeros(n_pairs)
    compared = np.flatnonzero(entropy > 0)
    # Beyond a thousand pairs, those of least entropy count by this alone.
    compared = compared[np.argsort(-entropy[compared], kind="stable")][:1_000]
    if len(compared) > 1:
        flat = flat[:, compared]
        common = _mutual_information(flat, flat, share)
        common -= _common_by_chance(flat.reshape(n_chains, n_draws, -1), share)
        np.fill_diagonal(common, 0.0)
        about_others[compared] = np.maximum(common.sum(1), 0.0)
    return about_others


def _common_by_chance(graphs: FloatArray, share: FloatArray) -> FloatArray:
    """Mutual information that pairs (chains, draws, pairs) would seem to have if they were independent."""
    n_chains, n_draws, n_pairs = graphs.shape
    if n_chains == 1:
        return np.full((n_pairs, n_pairs), 1 / (2 * n_draws))
    flat = graphs.reshape(-1, n_pairs)
    shifts = np.unique(np.linspace(1, n_chains - 1, min(8, n_chains - 1)).round().astype(int))
    by_chance = [
        _mutual_information(flat, np.roll(graphs, shift, axis=0).reshape(-1, n_pairs), share) for shift in shifts
    ]
    mean = np.mean(by_chance, axis=0)
    return np.asarray((mean + mean.T) / 2)


def entropy_of(probability: FloatArray) -> FloatArray:
    """Entropy of pairs that are edges with these probabilities, in nats."""
    return -_times_log(probability) - _times_log(1 - probability)


def _mutual_information(first: FloatArray, second: FloatArray, share: FloatArray) -> FloatArray:
    """Mutual information of every column of one and of another (draws, pairs), with draws weighted by `share`."""
    both = (first * share[:, None]).T @ second
    one, other = (share @ first)[:, None], (share @ second)[None]
    cells = both, one - both, other - both, 1 - one - other + both
    joint = -sum(_times_log(cell) for cell in cells)
    return np.asarray(entropy_of(one) + entropy_of(other) - joint)


def _times_log(probability: FloatArray) -> FloatArray:
    # Differences of sums that should be zero are zero but for rounding.
    is_positive = probability > 1e-12
    return np.where(is_positive, probability * np.log(np.where(is_positive, probability, 1.0)), 0.0)
