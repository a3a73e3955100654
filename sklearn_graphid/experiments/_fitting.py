"""Fit one system, measure what came out, and put many such rows in a table."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import config_context, get_config
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.pipeline import Pipeline

from .._utils._torch import torch_threads
from ..graphs import EdgeSpace, KnownEdges
from ..graphs._known_edges import is_directed
from ..metrics import edge_calibration_error, edge_f1_score, edge_roc_auc_score, theta_nrmse
from ..scorers import identifier_of
from ._system import System
from ._warnings import recorded_warnings

if TYPE_CHECKING:
    import pandas as pd

    from ..identifiers._protocol import FittedIdentifier

__all__ = ["RESERVED", "as_frame", "fit_all"]

_COUNTS = ("n_nodes", "n_experiments", "n_unknown", "n_edges", "n_edges_found")
_MEASURES = ("edge_f1", "edge_roc_auc", "edge_calibration_error", "theta_nrmse")
# Every frame has these columns in this order, whatever the systems, so that frames can be put together. Between them
# come the diagnostics that the estimator has.
_FIRST = (*_COUNTS, "theta", "noise_std", *_MEASURES)
_LAST = ("seconds", "warnings", "error_type", "error_message")
RESERVED = {"method", "name", *_FIRST, *_LAST, "estimator"}


def fit_all(jobs: list[tuple[Any, System]], n_jobs: int | None, keep_estimators: bool) -> list[dict[str, Any]]:
    if isinstance(n_jobs, bool):
        raise TypeError(f"n_jobs={n_jobs!r}; expected an integer or None.")
    config = get_config()
    tasks = (delayed(_fit_one)(estimator, system, config, keep_estimators) for estimator, system in jobs)
    # No backend is named here: a cluster that the caller has chosen is to be used. Where it is threads, all of them
    # find and leave torch with one thread, in whatever order they come and go.
    with torch_threads(1):
        return list(Parallel(n_jobs=n_jobs)(tasks))


def _fit_one(estimator: Any, system: System, config: dict[str, Any], keep_estimator: bool) -> dict[str, Any]:
    """Fit and measure; a failure becomes part of the row."""
    row: dict[str, Any] = {"name": system.name}
    start = time.perf_counter()
    with config_context(**config), recorded_warnings() as messages:
        try:
            row |= _sizes(system)
            arguments = _fit_arguments(estimator, _what_is_known(system))
            estimator.fit(system.X, system.Y, **arguments)
            row["seconds"] = time.perf_counter() - start
            row |= _findings(identifier_of(estimator)) | _measures(identifier_of(estimator), system)
        except Exception as error:
            row.setdefault("seconds", time.perf_counter() - start)
            row |= {"error_type": type(error).__name__, "error_message": str(error)}
    row["warnings"] = "\n".join(dict.fromkeys(messages))  # each text once
    if keep_estimator:
        row["estimator"] = None if "error_type" in row else estimator
    return row | dict(system.labels or {})


def _sizes(system: System) -> dict[str, int]:
    return dict(zip(("n_experiments", "n_nodes"), np.shape(system.X), strict=False))


def _what_is_known(system: System) -> dict[str, Any]:
    """What to tell `fit`, in a form that a search does not tear when there are as many experiments as nodes."""
    if system.known_mask is None and system.known_adjacency is None:
        return {}
    if isinstance(system.known_mask, KnownEdges) and system.known_adjacency is None:
        return {"known_mask": system.known_mask}
    n_nodes = np.shape(system.known_mask)[-1] if np.ndim(system.known_mask) == 2 else np.shape(system.X)[-1]
    known = KnownEdges.coerce(
        system.known_mask, system.known_adjacency, n_nodes=n_nodes, directed=is_directed(None, system.directed)
    )
    return {"known_mask": known}


def _fit_arguments(estimator: Any, arguments: dict[str, Any]) -> dict[str, Any]:
    """Name the arguments as a pipeline's last step wants them, however deep the pipeline is wrapped."""
    if get_config()["enable_metadata_routing"]:
        return arguments
    if isinstance(estimator, Pipeline):
        name, last = estimator.steps[-1]
        return {f"{name}__{key}": value for key, value in _fit_arguments(last, arguments).items()}
    parameters = estimator.get_params(deep=False)
    inner = parameters.get("estimator", parameters.get("regressor"))
    return arguments if inner is None else _fit_arguments(inner, arguments)


def _findings(identifier: FittedIdentifier) -> dict[str, Any]:
    """What the fit tells of itself."""
    unknown = identifier.known_edges_.unknown_pairs()
    return {
        **_scalar_diagnostics(getattr(identifier, "diagnostics_", {})),
        "n_unknown": identifier.known_edges_.n_unknown,
        "n_edges": EdgeSpace.of_mask(identifier.adjacency_ == 1, identifier.known_edges_.directed).n_free,
        "n_edges_found": int(identifier.adjacency_[unknown].sum()),
        "theta": np.array(identifier.theta_, dtype=np.float64),
        "noise_std": getattr(identifier, "noise_std_", np.nan),
    }


def _scalar_diagnostics(diagnostics: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers as they are, the worst of those with an entry for each parameter, and no traces."""
    scalars = {}
    for name, value in diagnostics.items():
        if np.ndim(value) == 0:
            scalars[name] = value
        elif name.startswith("r_hat"):
            scalars[name] = float(np.max(value))
        elif name.startswith("effective_sample_size"):
            scalars[name] = float(np.min(value))
    return {name: value for name, value in scalars.items() if name not in RESERVED}


def _measures(identifier: FittedIdentifier, system: System) -> dict[str, float]:
    """How near the truth it came, as far as there is one."""
    measures = {}
    if system.true_adjacency is not None:
        known, truth = identifier.known_edges_, system.true_adjacency
        measures["edge_f1"] = _measured(edge_f1_score, truth, identifier.adjacency_, known)
        for metric in (edge_roc_auc_score, edge_calibration_error):
            name = metric.__name__.removesuffix("_score")
            measures[name] = _measured(metric, truth, identifier.edge_probabilities_, known)
    if system.true_theta is not None:
        measures["theta_nrmse"] = _measured(theta_nrmse, system.true_theta, identifier.theta_)
    return measures


def _measured(metric: Callable[..., float], *arguments: Any) -> float:
    try:
        return metric(*arguments)
    except ValueError as error:  # another filter with other parameters, say: the fit is none the worse for it
        warnings.warn(f"{metric.__name__} is set to nan: {error}", UndefinedMetricWarning, stacklevel=2)
        return float("nan")


def as_frame(rows: list[dict[str, Any]], systems: list[System]) -> pd.DataFrame:
    import pandas as pd

    labels = dict.fromkeys(label for system in systems for label in system.labels or {})
    last = (*_LAST, "estimator") if "estimator" in rows[0] else _LAST
    placed = {"name", *labels, *_FIRST, *last}
    diagnostics = dict.fromkeys(name for row in rows for name in row if name not in placed)
    frame = pd.DataFrame(rows, columns=["name", *labels, *_FIRST, *diagnostics, *last])
    # Counts stay whole numbers where a fit that failed has none.
    whole = [name for name in diagnostics if all(isinstance(row.get(name, 0), Integral) for row in rows)]
    counts = [*_COUNTS, *whole]
    return frame.astype(dict.fromkeys(counts, "Int64") | dict.fromkeys(("noise_std", *_MEASURES), "float64"))
