"""Many systems at once: identify each with one or several estimators, and tabulate what came out."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.pipeline import Pipeline

from ._utils._libraries import require
from ._utils._numbers import check_real_array
from ._utils._torch import torch_threads
from ._utils._warnings import recorded_warnings
from .graphs import EdgeSpace, KnownEdges
from .graphs._known_edges import is_directed
from .graphs._matrices import check_graph
from .metrics import edge_calibration_error, edge_f1_score, edge_roc_auc_score, theta_nrmse
from .scorers import identifier_of

if TYPE_CHECKING:
    import pandas as pd

    from .identifiers import BaseSystemIdentifier

__all__ = ["System", "compare_identifiers", "identify_many"]

_COUNTS = ("n_nodes", "n_experiments", "n_unknown", "n_edges", "n_edges_found")
_MEASURES = ("edge_f1", "edge_roc_auc", "edge_calibration_error", "theta_nrmse")
# Every frame has these columns in this order, whatever the systems, so that frames can be put together. Between them
# come the diagnostics that the estimator has.
_FIRST = (*_COUNTS, "theta", "noise_std", *_MEASURES)
_LAST = ("seconds", "warnings", "error_type", "error_message")
_RESERVED = {"method", "name", *_FIRST, *_LAST, "estimator"}


@dataclass(frozen=True, eq=False)
class System:
    """The data of one system, with its true graph and parameters if these are known.

    Parameters
    ----------
    X, Y, known_mask, known_adjacency : as in `fit` of an identifier
        Inputs, outputs and the known pairs.
    true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
        The true graph, if it is known; the identifier never sees it.
    true_theta : array-like of shape (n_parameters,), default=None
        The true parameters, if they are known; the identifier never sees them.
    name : str or None, default=None
        Name of the system in tables. If None, its index in the list of systems.
    labels : dict of str to object, default=None
        Additional columns for its row, such as `{"graph": "grid"}`.
    directed : bool or None, default=None
        Whether the graph is directed. If None, it is directed if `known_mask` is a `KnownEdges` of a directed graph.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import System
    >>> from sklearn_graphid.datasets import hide_edges, make_system
    >>> ring = nx.cycle_graph(6)
    >>> X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=5, random_state=0)
    >>> System(X, Y, hide_edges(ring, random_state=0), true_adjacency=ring, true_theta=[0.5], name="ring")
    System('ring', X (5, 6), Y (5, 6), with a known_mask, with a true graph, with a true theta)
    """

    X: Any
    Y: Any
    known_mask: Any = None
    known_adjacency: Any = None
    true_adjacency: Any = None
    true_theta: Any = None
    name: str | None = None
    labels: Mapping[str, Any] | None = None
    directed: bool | None = None

    def __repr__(self) -> str:
        parts = [repr(self.name), f"X {np.shape(self.X)}", f"Y {np.shape(self.Y)}"]
        named = {
            "a known_mask": self.known_mask,
            "a true graph": self.true_adjacency,
            "a true theta": self.true_theta,
        }
        return f"System({', '.join(parts + [f'with {what}' for what, value in named.items() if value is not None])})"


def identify_many(
    estimator: Any, systems: Iterable[Any], n_jobs: int | None = None, *, keep_estimators: bool = False
) -> pd.DataFrame:
    """Identify every system with a clone of one estimator, and tabulate the results.

    Parameters
    ----------
    estimator : identifier, or pipeline that ends in one
        The estimator, which is cloned for every system.
    systems : iterable of System or dict
        The systems; a dict holds the arguments of `System`.
    n_jobs : int or None, default=None
        Number of fits that run in parallel; the results do not depend on it.
    keep_estimators : bool, default=False
        Whether to keep the fitted clones, in a column `estimator`.

    Returns
    -------
    pandas.DataFrame
        One row for each system, in the given order: its `name` and `labels`; its size, `n_nodes`, `n_experiments` and
        `n_unknown`; `n_edges` of the identified graph, and `n_edges_found`, those that were unknown; `theta` (an array)
        and `noise_std`; `edge_f1`, `edge_roc_auc`, `edge_calibration_error` and `theta_nrmse` against the truth, nan
        if it is not given; the numbers in `diagnostics_` (the largest R-hat and the smallest effective sample size of
        all parameters); `seconds` of the fit and its `warnings`, one per line; `error_type` and `error_message` of a
        fit that failed, which does not stop the others.

    See Also
    --------
    compare_identifiers : Several estimators side by side.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import LangevinSystemIdentifier, System, identify_many
    >>> from sklearn_graphid.datasets import make_system
    >>> rings = [nx.cycle_graph(n_nodes) for n_nodes in (5, 6)]
    >>> data = [make_system(ring, "heat", theta=[0.5], n_experiments=20, random_state=0) for ring in rings]
    >>> systems = [System(X, Y, true_adjacency=ring) for (X, Y), ring in zip(data, rings, strict=True)]
    >>> identifier = LangevinSystemIdentifier("heat", n_chains=4, n_levels=5, random_state=0)
    >>> identify_many(identifier, systems)[["n_nodes", "n_experiments", "n_edges", "edge_f1"]]
       n_nodes  n_experiments  n_edges  edge_f1
    0        5             20        5      1.0
    1        6             20        6      1.0
    """
    require("pandas", "identify_many")
    _check_estimator(estimator, "estimator")
    return _identify([({}, estimator)], systems, n_jobs, keep_estimators)


def compare_identifiers(
    estimators: Mapping[str, Any], systems: Iterable[Any], n_jobs: int | None = None, *, keep_estimators: bool = False
) -> pd.DataFrame:
    """Identify every system with each of several estimators, and tabulate the results.

    Parameters
    ----------
    estimators : dict of str to identifier
        The estimators, with the names to use for them in tables and figures.
    systems, n_jobs, keep_estimators : as in `identify_many`
        The systems; every combination of estimator and system is one fit.

    Returns
    -------
    pandas.DataFrame
        The table of `identify_many` for each estimator in turn, with a first column `method`: the name of the
        estimator. Runs that failed have no measures, so that means and standard errors are those of the others.

    See Also
    --------
    identify_many : Tabulate one estimator, with a description of the columns.
    sklearn_graphid.plotting.ComparisonDisplay : Draws means and standard errors of the table.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import AdamSystemIdentifier, LangevinSystemIdentifier, System, compare_identifiers
    >>> from sklearn_graphid.datasets import make_system
    >>> ring = nx.cycle_graph(6)
    >>> data = [make_system(ring, "heat", theta=[0.5], n_experiments=n, random_state=0) for n in (2, 20)]
    >>> systems = [System(X, Y, true_adjacency=ring, true_theta=[0.5]) for X, Y in data]
    >>> identifiers = {
    ...     "sampling": LangevinSystemIdentifier("heat", n_chains=4, n_levels=5, random_state=0),
    ...     "Adam": AdamSystemIdentifier("heat", max_iter=100, random_state=0),
    ... }
    >>> rows = compare_identifiers(identifiers, systems)
    >>> rows.groupby(["method", "n_experiments"], sort=False)["edge_f1"].agg(["count", "mean", "sem"]).shape
    (4, 3)
    """
    require("pandas", "compare_identifiers")
    if not isinstance(estimators, Mapping) or not estimators:
        raise TypeError(f"estimators is {estimators!r}; expected a dict with at least one named estimator.")
    for name, estimator in estimators.items():
        _check_estimator(estimator, f"estimators[{name!r}]")
    named = [({"method": name}, estimator) for name, estimator in estimators.items()]
    return _identify(named, systems, n_jobs, keep_estimators)


def _check_estimator(estimator: Any, name: str) -> None:
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        what = f"the class {estimator.__name__}" if isinstance(estimator, type) else f"a {type(estimator).__name__}"
        raise TypeError(f"{name} is {what}; expected an estimator object, such as LangevinSystemIdentifier('heat').")


def _check_system(system: Any, place: int) -> System:
    here = f"systems[{place}]"
    if isinstance(system, Mapping):
        accepted = [part.name for part in fields(System)]
        if not {"X", "Y"} <= set(system) <= set(accepted):
            raise ValueError(f"{here} has the keys {sorted(system)}; expected X, Y and some of {accepted[2:]}.")
        system = System(**system)
    if not isinstance(system, System):
        raise TypeError(f"{here} is a {type(system).__name__}; expected a System, or a dict with its arguments.")
    taken = _RESERVED & set(system.labels or {})
    if taken:
        raise ValueError(f"{here} has the label {min(taken)!r}, which is a column already; expected another name.")
    directed = is_directed(system.known_mask, system.directed)
    truth, theta = system.true_adjacency, system.true_theta
    if truth is not None:
        truth = check_graph(truth, f"{here}.true_adjacency", directed=directed)
    if theta is not None:
        theta = np.atleast_1d(check_real_array(theta, f"{here}.true_theta"))
        if theta.ndim != 1 or not theta.size:
            raise ValueError(
                f"{here}.true_theta is {system.true_theta!r}; expected finite numbers, one for each parameter of the "
                f"filter."
            )
    name = str(place) if system.name is None else system.name
    return replace(system, name=name, directed=directed, true_adjacency=truth, true_theta=theta)


def _identify(
    estimators: list[tuple[dict[str, str], Any]], systems: Iterable[Any], n_jobs: int | None, keep_estimators: bool
) -> pd.DataFrame:
    """Fit a clone of each estimator to each system; the first columns are those that come with an estimator."""
    if isinstance(systems, System | Mapping) or not isinstance(systems, Iterable):
        raise TypeError(f"systems is a {type(systems).__name__}; expected a list of System objects or dicts.")
    # Data are checked by `fit`, whose errors become part of the rows.
    checked = [_check_system(system, place) for place, system in enumerate(systems)]
    if not checked:
        raise ValueError("systems is empty; expected at least one system.")
    if isinstance(n_jobs, bool):
        raise TypeError(f"n_jobs={n_jobs!r}; expected an integer or None.")
    config = get_config()
    tasks = [
        delayed(_fit_one)(first, clone(estimator), system, config, keep_estimators)
        for first, estimator in estimators
        for system in checked
    ]
    # No backend is named here: a cluster that the caller has chosen is to be used. Where it is threads, all of them
    # find and leave torch with one thread, in whatever order they come and go.
    with torch_threads(1):
        rows = list(Parallel(n_jobs=n_jobs)(tasks))
    return _as_frame(rows, list(estimators[0][0]), checked)


def _fit_one(
    first: dict[str, str], estimator: Any, system: System, config: dict[str, Any], keep_estimator: bool
) -> dict[str, Any]:
    """Fit and measure; a failure becomes part of the row."""
    row: dict[str, Any] = {**first, "name": system.name}
    start = time.perf_counter()
    with config_context(**config), recorded_warnings() as messages:
        try:
            row |= dict(zip(("n_experiments", "n_nodes"), np.shape(system.X), strict=False))
            arguments = _fit_arguments(estimator, _known_arguments(system))
            estimator.fit(system.X, system.Y, **arguments)
            row["seconds"] = time.perf_counter() - start
            row |= _results(identifier_of(estimator), system)
        except Exception as error:
            row.setdefault("seconds", time.perf_counter() - start)
            row |= {"error_type": type(error).__name__, "error_message": str(error)}
    row["warnings"] = "\n".join(dict.fromkeys(messages))  # each text once
    if keep_estimator:
        row["estimator"] = None if "error_type" in row else estimator
    return row | dict(system.labels or {})


def _known_arguments(system: System) -> dict[str, Any]:
    """The known pairs for `fit`, as `KnownEdges`, which a search passes whole when there are as many rows as nodes."""
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


def _results(identifier: BaseSystemIdentifier, system: System) -> dict[str, Any]:
    """Findings of a fit, and metrics against the true graph and theta, as far as these are given."""
    row: dict[str, Any] = {}
    for name, value in getattr(identifier, "diagnostics_", {}).items():  # no traces, and the worst of all parameters
        if np.ndim(value) == 0:
            row[name] = value
        elif name.startswith("r_hat"):
            row[name] = float(np.max(value))
        elif name.startswith("effective_sample_size"):
            row[name] = float(np.min(value))
    row = {name: value for name, value in row.items() if name not in _RESERVED}
    known, graph, probabilities = identifier.known_edges_, identifier.adjacency_, identifier.edge_probabilities_
    row |= {
        "n_unknown": known.n_unknown,
        "n_edges": EdgeSpace.of_mask(graph == 1, known.directed).n_free,
        "n_edges_found": int(graph[known.unknown_pairs()].sum()),
        "theta": np.array(identifier.theta_, dtype=np.float64),
        "noise_std": getattr(identifier, "noise_std_", np.nan),
    }
    truth, measures = system.true_adjacency, dict[str, tuple[Any, ...]]()
    if truth is not None:
        measures["edge_f1"] = edge_f1_score, truth, graph, known
        measures["edge_roc_auc"] = edge_roc_auc_score, truth, probabilities, known
        measures["edge_calibration_error"] = edge_calibration_error, truth, probabilities, known
    if system.true_theta is not None:
        measures["theta_nrmse"] = theta_nrmse, system.true_theta, identifier.theta_
    for name, (metric, *arguments) in measures.items():
        try:
            row[name] = metric(*arguments)
        except ValueError as error:  # another filter with other parameters, say: the fit is none the worse for it
            warnings.warn(f"{metric.__name__} is set to nan: {error}", UndefinedMetricWarning, stacklevel=2)
            row[name] = float("nan")
    return row


def _as_frame(rows: list[dict[str, Any]], first: list[str], systems: list[System]) -> pd.DataFrame:
    import pandas as pd

    labels = dict.fromkeys(label for system in systems for label in system.labels or {})
    last = (*_LAST, "estimator") if "estimator" in rows[0] else _LAST
    placed = {*first, "name", *labels, *_FIRST, *last}
    diagnostics = dict.fromkeys(name for row in rows for name in row if name not in placed)
    frame = pd.DataFrame(rows, columns=[*first, "name", *labels, *_FIRST, *diagnostics, *last])
    # Counts stay whole numbers where a fit that failed has none.
    whole = [name for name in diagnostics if all(isinstance(row.get(name, 0), Integral) for row in rows)]
    counts = [*_COUNTS, *whole]
    return frame.astype(dict.fromkeys(counts, "Int64") | dict.fromkeys(("noise_std", *_MEASURES), "float64"))
