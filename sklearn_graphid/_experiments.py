"""Many systems, and many identifiers, at once."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from sklearn import config_context, get_config
from sklearn.base import clone
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.pipeline import Pipeline

from ._known_edges import KnownEdges
from ._numbers import check_real_array
from ._optional import require_pandas
from ._torch import torch_threads
from ._validation import check_named_adjacency
from .metrics import edge_calibration_error, edge_f1_score, edge_roc_auc_score, theta_nrmse
from .plotting import ComparisonDisplay
from .scorers import identifier_of

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["System", "compare_identifiers", "identify_many"]

_COUNTS = ("n_nodes", "n_pairs", "n_unknown", "n_edges", "n_edges_found")
_MEASURES = ("edge_f1", "edge_roc_auc", "edge_calibration_error", "theta_nrmse")
# Every frame has these columns in this order, whatever the systems, so that frames can be put together. Between them
# come the diagnostics that the estimator has.
_FIRST = (*_COUNTS, "theta", "noise_std", *_MEASURES)
_LAST = ("seconds", "warnings", "error_type", "error_message")
_RESERVED = {"method", "name", *_FIRST, *_LAST, "estimator"}


@dataclass(frozen=True, eq=False)
class System:
    """The data of one system, and what is known of its truth.

    Parameters
    ----------
    X : array-like of shape (n_pairs, n_nodes)
        Inputs.
    Y : array-like of shape (n_pairs, n_nodes), (n_pairs, n_outputs) or (n_pairs,)
        Outputs.
    known_mask : KnownEdges, array of shape (n_nodes, n_nodes) or None, default=None
        What the identifier is told of the network, as in its `fit`.
    known_adjacency : array, sparse matrix or networkx.Graph, default=None
        The network where a boolean `known_mask` is True, as in `fit`.
    true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
        The whole network, where it is known after all. The identifier never sees it.
    true_theta : array-like of shape (n_parameters,), default=None
        The true parameters, where they are known. The identifier never sees them.
    name : str or None, default=None
        What to call it; None takes its place in the list.
    labels : dict of str to object, default=None
        Further columns for its row, such as `{"network": "grid"}`.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import System
    >>> from sklearn_graphid.datasets import hide_edges, make_system
    >>> ring = nx.cycle_graph(6)
    >>> X, Y = make_system(ring, "heat", theta=[0.5], n_pairs=5, random_state=0)
    >>> System(X, Y, hide_edges(ring, random_state=0), true_adjacency=ring, true_theta=[0.5], name="ring")
    System('ring', X (5, 6), Y (5, 6), with a known_mask, with a true network, with a true theta)
    """

    X: Any
    Y: Any
    known_mask: Any = None
    known_adjacency: Any = None
    true_adjacency: Any = None
    true_theta: Any = None
    name: str | None = None
    labels: Mapping[str, Any] | None = None

    def __repr__(self) -> str:
        parts = [repr(self.name), f"X {np.shape(self.X)}", f"Y {np.shape(self.Y)}"]
        named = {
            "a known_mask": self.known_mask,
            "a true network": self.true_adjacency,
            "a true theta": self.true_theta,
        }
        return f"System({', '.join(parts + [f'with {what}' for what, value in named.items() if value is not None])})"


def identify_many(
    estimator: Any, systems: Iterable[Any], n_jobs: int | None = None, *, keep_estimators: bool = False
) -> pd.DataFrame:
    """Identify every system with a clone of one estimator, and tabulate what came out.

    Parameters
    ----------
    estimator : identifier, or pipeline that ends in one
        It is cloned for every system and not fitted itself. As everywhere in scikit-learn, an integer `random_state`
        makes every fit reproducible, and every system gets the same one.
    systems : iterable of System or dict
        The systems; a dict has the arguments of `System`.
    n_jobs : int or None, default=None
        Fits at a time, as everywhere in scikit-learn; `joblib.parallel_config` chooses where they run. The numbers do
        not depend on it.
    keep_estimators : bool, default=False
        Whether to keep the fitted clones, in a column `estimator`.

    Returns
    -------
    pandas.DataFrame
        A row for each system, in their order:

        - `name`, and the system's `labels`;
        - `n_nodes`, `n_pairs` and `n_unknown`: its size;
        - `n_edges`: how many edges the identified network has, and `n_edges_found`: how many of these were unknown;
        - `theta` (an array) and `noise_std`;
        - `edge_f1`, `edge_roc_auc`, `edge_calibration_error` and `theta_nrmse` against the truth, nan without it;
        - what numbers the estimator has in `diagnostics_`: of those with an entry for each parameter, the largest R-hat
          and the smallest effective sample size;
        - `seconds` that `fit` took, and the `warnings` that it and the measures gave, a line each;
        - `error_type` and `error_message`, missing unless the fit failed. One failure does not stop the others.

    See Also
    --------
    compare_identifiers : Several estimators side by side.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import LangevinSystemIdentifier, System, identify_many
    >>> from sklearn_graphid.datasets import make_system
    >>> systems = []
    >>> for n_nodes in (5, 6, 7):
    ...     ring = nx.cycle_graph(n_nodes)
    ...     X, Y = make_system(ring, "heat", theta=[0.5], n_pairs=20, random_state=0)
    ...     systems.append(System(X, Y, true_adjacency=ring, true_theta=[0.5], name=f"ring of {n_nodes}"))
    >>> identifier = LangevinSystemIdentifier("heat", n_chains=4, n_levels=5, random_state=0)
    >>> identify_many(identifier, systems)[["name", "n_pairs", "n_edges", "edge_f1"]]
             name  n_pairs  n_edges  edge_f1
    0   ring of 5       20        5      1.0
    1   ring of 6       20        6      1.0
    2   ring of 7       20        7      1.0
    """
    require_pandas("identify_many")
    _check_estimator(estimator, "estimator")
    checked = _check_systems(systems)
    rows = _fit_all([(clone(estimator), system) for system in checked], n_jobs, keep_estimators)
    return _as_frame(rows, checked)


def compare_identifiers(
    estimators: Mapping[str, Any], systems: Iterable[Any], n_jobs: int | None = None, *, keep_estimators: bool = False
) -> ComparisonDisplay:
    """Identify every system with each of several estimators, and compare what they found.

    Parameters
    ----------
    estimators : dict of str to identifier
        The estimators, by the names that the table and the figure shall call them.
    systems : iterable of System or dict
        The systems, most of them with a `true_adjacency`, as nothing can be compared without.
    n_jobs : int or None, default=None
        Fits at a time; every pair of estimator and system is a fit.
    keep_estimators : bool, default=False
        Whether to keep the fitted clones, in a column `estimator` of the frame.

    Returns
    -------
    ComparisonDisplay
        Its `frame` is that of `identify_many` with a column `method`; `table()` has means and standard errors; `plot()`
        draws them.

    See Also
    --------
    identify_many : One estimator.
    sklearn_graphid.plotting.ComparisonDisplay : What is returned.

    Examples
    --------
    >>> import networkx as nx
    >>> from sklearn_graphid import AdamSystemIdentifier, LangevinSystemIdentifier, System, compare_identifiers
    >>> from sklearn_graphid.datasets import make_system
    >>> ring = nx.cycle_graph(6)
    >>> systems = []
    >>> for n_pairs in (2, 20):
    ...     X, Y = make_system(ring, "heat", theta=[0.5], n_pairs=n_pairs, random_state=0)
    ...     systems.append(System(X, Y, true_adjacency=ring, true_theta=[0.5]))
    >>> identifiers = {
    ...     "sampling": LangevinSystemIdentifier("heat", n_chains=4, n_levels=5, random_state=0),
    ...     "Adam": AdamSystemIdentifier("heat", n_iterations=100, random_state=0),
    ... }
    >>> comparison = compare_identifiers(identifiers, systems)
    >>> comparison.frame.shape[0]
    4
    >>> comparison.table().index.names
    FrozenList(['method', 'n_pairs'])
    """
    require_pandas("compare_identifiers")
    if not isinstance(estimators, Mapping) or not estimators:
        raise TypeError(f"estimators is {estimators!r}; expected a dict with at least one named estimator.")
    for name, estimator in estimators.items():
        _check_estimator(estimator, f"estimators[{name!r}]")
    checked = _check_systems(systems)
    methods = [name for name in estimators for _ in checked]
    jobs = [(clone(estimator), system) for estimator in estimators.values() for system in checked]
    frame = _as_frame(_fit_all(jobs, n_jobs, keep_estimators), checked)
    frame.insert(0, "method", methods)
    return ComparisonDisplay(frame=frame)


# What comes in


def _check_estimator(estimator: Any, name: str) -> None:
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        what = f"the class {estimator.__name__}" if isinstance(estimator, type) else f"a {type(estimator).__name__}"
        raise TypeError(f"{name} is {what}; expected an estimator object, such as LangevinSystemIdentifier('heat').")


def _check_systems(systems: Any) -> list[System]:
    """Systems with names, and truths that make sense; the data are left to `fit`, whose complaints become rows."""
    if isinstance(systems, System | Mapping) or not isinstance(systems, Iterable):
        raise TypeError(f"systems is a {type(systems).__name__}; expected a list of System objects or dicts.")
    checked = [_check_system(system, place) for place, system in enumerate(systems)]
    if not checked:
        raise ValueError("systems is empty; expected at least one system.")
    return checked


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
    return replace(
        system,
        name=str(place) if system.name is None else system.name,
        true_adjacency=_unless_none(check_named_adjacency, system.true_adjacency, f"{here}.true_adjacency"),
        true_theta=_unless_none(_check_theta, system.true_theta, f"{here}.true_theta"),
    )


def _unless_none(check: Callable[[Any, str], Any], value: Any, name: str) -> Any:
    return None if value is None else check(value, name)


def _check_theta(theta: Any, name: str) -> Any:
    array = np.atleast_1d(check_real_array(theta, name))
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} is {theta!r}; expected finite numbers, one for each parameter of the filter.")
    return array


# One fit


def _fit_all(jobs: list[tuple[Any, System]], n_jobs: int | None, keep_estimators: bool) -> list[dict[str, Any]]:
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
    with config_context(**config), _recorded_warnings() as messages:
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
    return dict(zip(("n_pairs", "n_nodes"), np.shape(system.X), strict=False))


def _what_is_known(system: System) -> dict[str, Any]:
    """What to tell `fit`, in a form that a search does not tear when there are as many pairs as nodes."""
    if system.known_mask is None and system.known_adjacency is None:
        return {}
    if isinstance(system.known_mask, KnownEdges) and system.known_adjacency is None:
        return {"known_mask": system.known_mask}
    n_nodes = np.shape(system.known_mask)[-1] if np.ndim(system.known_mask) == 2 else np.shape(system.X)[-1]
    return {"known_mask": KnownEdges.coerce(system.known_mask, system.known_adjacency, n_nodes=n_nodes)}


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


def _findings(identifier: Any) -> dict[str, Any]:
    """What the fit tells of itself."""
    unknown = identifier.known_edges_.unknown_pairs()
    return {
        **_scalar_diagnostics(getattr(identifier, "diagnostics_", {})),
        "n_unknown": identifier.known_edges_.n_unknown,
        "n_edges": int(identifier.adjacency_.sum()) // 2,
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
    return {name: value for name, value in scalars.items() if name not in _RESERVED}


def _measures(identifier: Any, system: System) -> dict[str, float]:
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


# Warnings, of many threads at once

_lock = threading.Lock()
_messages_of_thread: dict[int, list[str]] = {}
_before_recording: list[Any] = []  # empty unless some thread records; else how to undo, and how to show a warning


@contextmanager
def _recorded_warnings() -> Iterator[list[str]]:
    """Collect the texts of the warnings that this thread gives.

    `warnings.catch_warnings` puts back what it found when it was entered. Two threads that overlap would undo each
    other, and the last one would leave the first one's recording behind for good. So the first thread to come changes
    the state of the process, the last one to leave puts it back, and in between every thread has its own list.
    """
    thread, messages = threading.get_ident(), list[str]()
    with _lock:
        if not _messages_of_thread:
            _start_recording()
        outer = _messages_of_thread.get(thread)
        _messages_of_thread[thread] = messages
    try:
        yield messages
    finally:
        with _lock:
            if outer is None:
                del _messages_of_thread[thread]
            else:
                _messages_of_thread[thread] = outer
            if not _messages_of_thread:
                undo, _ = _before_recording
                undo.__exit__(None, None, None)
                _before_recording.clear()


def _start_recording() -> None:
    undo = warnings.catch_warnings()
    undo.__enter__()
    _before_recording[:] = [undo, warnings.showwarning]
    warnings.showwarning = _record_or_show
    warnings.simplefilter("always")
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)  # as Python itself does: they speak of code, not of a system


def _record_or_show(message: Any, category: Any, *place: Any, **more: Any) -> None:
    messages = _messages_of_thread.get(threading.get_ident())
    if messages is not None:
        messages.append(f"{category.__name__}: {message}")
    elif _before_recording:
        _before_recording[1](message, category, *place, **more)


# What goes out


def _as_frame(rows: list[dict[str, Any]], systems: list[System]) -> pd.DataFrame:
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
