"""Many systems, and many identifiers, at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from sklearn.base import clone

from .._utils._optional import require_pandas
from ..plotting import ComparisonDisplay
from ._fitting import RESERVED, as_frame, fit_all
from ._system import check_systems

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compare_identifiers", "identify_many"]


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
        - `n_nodes`, `n_experiments` and `n_unknown`: its size;
        - `n_edges`: how many edges the identified graph has, and `n_edges_found`: how many of these were unknown;
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
    ...     X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=20, random_state=0)
    ...     systems.append(System(X, Y, true_adjacency=ring, true_theta=[0.5], name=f"ring of {n_nodes}"))
    >>> identifier = LangevinSystemIdentifier("heat", n_chains=4, n_levels=5, random_state=0)
    >>> identify_many(identifier, systems)[["name", "n_experiments", "n_edges", "edge_f1"]]
             name  n_experiments  n_edges  edge_f1
    0   ring of 5       20        5      1.0
    1   ring of 6       20        6      1.0
    2   ring of 7       20        7      1.0
    """
    require_pandas("identify_many")
    _check_estimator(estimator, "estimator")
    checked = check_systems(systems, RESERVED)
    rows = fit_all([(clone(estimator), system) for system in checked], n_jobs, keep_estimators)
    return as_frame(rows, checked)


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
    >>> for n_experiments in (2, 20):
    ...     X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=n_experiments, random_state=0)
    ...     systems.append(System(X, Y, true_adjacency=ring, true_theta=[0.5]))
    >>> identifiers = {
    ...     "sampling": LangevinSystemIdentifier("heat", n_chains=4, n_levels=5, random_state=0),
    ...     "Adam": AdamSystemIdentifier("heat", n_iterations=100, random_state=0),
    ... }
    >>> comparison = compare_identifiers(identifiers, systems)
    >>> comparison.frame.shape[0]
    4
    >>> comparison.table().index.names
    FrozenList(['method', 'n_experiments'])
    """
    require_pandas("compare_identifiers")
    if not isinstance(estimators, Mapping) or not estimators:
        raise TypeError(f"estimators is {estimators!r}; expected a dict with at least one named estimator.")
    for name, estimator in estimators.items():
        _check_estimator(estimator, f"estimators[{name!r}]")
    checked = check_systems(systems, RESERVED)
    methods = [name for name in estimators for _ in checked]
    jobs = [(clone(estimator), system) for estimator in estimators.values() for system in checked]
    frame = as_frame(fit_all(jobs, n_jobs, keep_estimators), checked)
    frame.insert(0, "method", methods)
    return ComparisonDisplay(frame=frame)


def _check_estimator(estimator: Any, name: str) -> None:
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "get_params")):
        what = f"the class {estimator.__name__}" if isinstance(estimator, type) else f"a {type(estimator).__name__}"
        raise TypeError(f"{name} is {what}; expected an estimator object, such as LangevinSystemIdentifier('heat').")
