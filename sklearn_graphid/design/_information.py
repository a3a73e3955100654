"""How much the outputs of an input would tell, from draws of the system.

Outputs are linear in the input x, so draw d of the system predicts x' R_d, with R_d the responses to an input of one at
each node. The draws differ in what they predict, and the more they do against the noise, the more an experiment tells:
½ log det(I + covariance of the predictions over the noise's), in nats. It is the mutual information of system and
outputs where predictions are Gaussian, and an upper bound of it where they are not.

The mutual information between the outputs and the number of the draw, which needs no such assumption, ranks inputs no
better on graphs of five nodes, and cannot exceed the logarithm of the number of draws: on graphs of thirty nodes all
good inputs reach that, and look the same.

Arrays: responses and deviations (draws, nodes, outputs), inputs (inputs, nodes), predictions (..., draws, outputs).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import linalg

from .._utils._numbers import FloatArray

__all__ = ["conditioned", "deviations_of", "gaussian_information", "has_small_gram", "joint_information"]

# A sum of squared predictions up to which I + P'P keeps its identity in double precision, with digits to spare. Beyond,
# as where inputs are a million times larger than those so far, singular values of P itself are used, which cost more.
_LARGEST_GRAM = 1e10
# Predictions of many inputs are made in parts that hold about so many numbers.
_NUMBERS_AT_ONCE = 2**23


def deviations_of(responses: FloatArray, noise_std: FloatArray) -> FloatArray:
    """What draws predict beyond their mean, over the noise (outputs,) and the root of the number of draws.

    With these, the covariance of the predictions of x over the noise's is P'P, where P = x @ deviations.
    """
    deviations: FloatArray = (responses - responses.mean(axis=0)) / (noise_std * np.sqrt(len(responses)))
    return deviations


def predicted(deviations: FloatArray, inputs: FloatArray) -> FloatArray:
    """The predictions (inputs, draws, outputs) of inputs (inputs, nodes)."""
    n_draws, n_nodes, n_outputs = deviations.shape
    flat = inputs @ np.moveaxis(deviations, 1, 0).reshape(n_nodes, -1)
    return flat.reshape(len(inputs), n_draws, n_outputs)


def half_log_determinant(predictions: FloatArray) -> FloatArray:
    """½ log det(I + P'P) of predictions P (..., draws, outputs), in the smaller of the two dimensions."""
    if predictions.shape[-2] > predictions.shape[-1]:
        predictions = predictions.swapaxes(-2, -1)
    if not has_small_gram(predictions):
        return np.asarray(np.log(np.hypot(1.0, np.linalg.svd(predictions, compute_uv=False))).sum(-1))
    gram = predictions @ predictions.swapaxes(-2, -1)
    cholesky = np.linalg.cholesky(gram + np.eye(gram.shape[-1]))
    return np.asarray(np.log(np.diagonal(cholesky, axis1=-2, axis2=-1)).sum(-1))


def has_small_gram(predictions: FloatArray) -> bool:
    """Whether I + P'P of predictions P (..., draws, outputs) can be factorised without loss."""
    largest = float(np.abs(predictions).max(initial=0.0))
    return bool(largest < np.sqrt(_LARGEST_GRAM / max(1, predictions.shape[-2] * predictions.shape[-1])))


def gaussian_information(deviations: FloatArray, inputs: FloatArray) -> FloatArray:
    """The information (inputs,) of each input alone, as if predictions were Gaussian."""
    parts = [half_log_determinant(predicted(deviations, part)) for part in _in_parts(deviations, inputs)]
    return np.concatenate([np.empty(0), *parts])


def joint_information(deviations: FloatArray, inputs: FloatArray) -> float:
    """The information of all inputs together, as if predictions were Gaussian."""
    cholesky = _cholesky_given(deviations, inputs)
    return float(np.log(np.diagonal(cholesky)).sum())


def conditioned(deviations: FloatArray, inputs: FloatArray) -> FloatArray:
    """The deviations that are left when the outputs of some inputs will be known.

    The information of one more input under these is what it adds to that of the others.
    """
    if not len(inputs):
        return deviations
    cholesky = _cholesky_given(deviations, inputs)
    flat = linalg.solve_triangular(cholesky, deviations.reshape(len(deviations), -1), lower=True, check_finite=False)
    return np.asarray(flat, dtype=np.float64).reshape(deviations.shape)


def _cholesky_given(deviations: FloatArray, inputs: FloatArray) -> FloatArray:
    """The lower factor (draws, draws) of I + P P', where P (draws, ...) are the predictions of all inputs.

    By orthogonal transformations of I and P, part by part: products would lose the identity beside large predictions.
    """
    upper = np.eye(len(deviations))
    for part in _in_parts(deviations, inputs):
        predictions = np.moveaxis(predicted(deviations, part), 1, 0).reshape(len(deviations), -1)
        upper = linalg.qr(np.concatenate([upper, predictions.T]), mode="r", check_finite=False)[0][: len(upper)]
    # Pivots are one at least, or rounding made them less.
    pivots = np.diagonal(upper)
    upper = upper * np.where(pivots < 0, -1.0, 1.0)[:, None]
    np.fill_diagonal(upper, np.maximum(np.abs(pivots), 1.0))
    return np.asarray(upper.T, dtype=np.float64)


def _in_parts(deviations: FloatArray, inputs: FloatArray) -> Iterator[FloatArray]:
    size = max(1, _NUMBERS_AT_ONCE // (deviations.shape[0] * deviations.shape[2]))
    for start in range(0, len(inputs), size):
        yield inputs[start : start + size]
