"""Draws in the form that ArviZ reads."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .._utils._numbers import FloatArray
from ..graphs import EdgeSpace

if TYPE_CHECKING:
    from arviz import InferenceData

    from ._posterior import PosteriorIdentifier

__all__ = ["to_inference_data"]


def _import_arviz() -> Any:
    try:
        with warnings.catch_warnings():
            # ArviZ announces its next major version whenever it is imported; the dependency excludes that one.
            warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")
            import arviz
    except ImportError as error:
        raise ImportError(
            'to_arviz needs ArviZ, which is not installed: pip install "sklearn-graphid[diagnostics]"'
        ) from error
    if not hasattr(arviz, "InferenceData"):
        raise ImportError(
            f"to_arviz makes an arviz.InferenceData, which ArviZ {arviz.__version__} no longer has: "
            f'pip install "sklearn-graphid[diagnostics]" installs a version that does.'
        )
    return arviz


def to_inference_data(estimator: PosteriorIdentifier, X: Any, y: Any) -> InferenceData:
    """What a fitted identifier has sampled; see `PosteriorIdentifier.to_arviz`."""
    arviz = _import_arviz()
    draws = estimator._draws
    names = [str(name) for name in estimator.node_names_]
    space = estimator.known_edges_.space
    arrow = "->" if space.directed else "-"

    def pairs_of(space: EdgeSpace) -> list[str]:
        return [f"{names[i]} {arrow} {names[j]}" for i, j in zip(*space.sources_and_targets(), strict=True)]

    coordinates: dict[str, Any] = {"parameter": estimator.filter_.parameter_names(), "pair": pairs_of(space)}
    dimensions = {"theta": ["parameter"], "edges": ["pair"]}
    groups: dict[str, Any] = {
        "posterior": {
            "theta": draws.theta,
            "noise_std": _noise_levels(estimator),
            "edges": draws.graphs,
        },
        # ArviZ keeps the name "log_likelihood" for that of every single measurement.
        "sample_stats": {"joint_log_likelihood": draws.log_likelihood, "log_prior": draws.log_prior},
    }
    if estimator._edge_weights is not None:
        known = estimator.known_edges_
        free = known.space.joined(known.edges_without_weight())
        groups["posterior"]["weights"], dimensions["weights"] = draws.strengths, ["free pair"]
        coordinates["free pair"] = pairs_of(free)
    if X is not None:
        groups["constant_data"] = {"X": _checked(X, "X", estimator.n_features_in_)}
        coordinates["node"], dimensions["X"] = names, ["experiment", "node"]
    if y is not None:
        groups["observed_data"] = {"Y": _checked(y, "y", len(estimator._output_nodes))}
        coordinates["output"] = [names[node] for node in estimator._output_nodes]
        dimensions["Y"] = ["experiment", "output"]
    with warnings.catch_warnings():
        # Many short chains are meant; ArviZ suspects that the two were mixed up.
        warnings.filterwarnings("ignore", message="More chains", category=UserWarning)
        data: InferenceData = arviz.from_dict(**groups, coords=coordinates, dims=dimensions)
    return data


def _noise_levels(estimator: PosteriorIdentifier) -> FloatArray:
    """Those of the draws (chains, draws), in the order of theta; what was given, where it was.

    `noise_std_samples_` holds more copies of what counts more, and is in another order.
    """
    drawn, pooled = estimator._draws.noise_std, estimator.noise_std_samples_
    is_given = np.ptp(pooled) == 0  # reported as it was given, and not as single precision has it
    return np.full(drawn.shape, pooled[0]) if is_given else drawn


def _checked(values: Any, name: str, n_columns: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    array = array.reshape(len(array), -1) if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != n_columns:
        raise ValueError(f"{name} has shape {array.shape}; expected (n_experiments, {n_columns}), as at fit.")
    return array
