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
    """Identify every system with a clone of one estimator, and tabulate the results.

    Parameters
    ----------
    estimator : identifier, or pipeline that ends in one
        The estimator. It is cloned for every system and not fitted itself. As everywhere in scikit-learn, an integer
        `random_state` makes every fit reproducible; every system gets the same one.
    systems : iterable of System or dict
        The systems; a dict holds the arguments of `System`.
    n_jobs : int or None, default=None
        Number of fits that run in parallel, as everywhere in scikit-learn; `joblib.parallel_config` sets the backend.
        The results do not depend on it.
    keep_estimators : bool, default=False
        Whether to keep the fitted clones, in a column `estimator`.

    Returns
    -------
    pandas.DataFrame
        One row for each system, in the given order, with the columns:

        - `name`, and the system's `labels`;
        - `n_nodes`, `n_experiments` and `n_unknown`: its size;
        - `n_edges`: number of edges of the identified graph, and `n_edges_found`: how many of these were unknown;
        - `theta` (an array) and `noise_std`;
        - `edge_f1`, `edge_roc_auc`, `edge_calibration_error` and `theta_nrmse` against the truth, nan if it is not
          given;
        - the numbers in the estimator's `diagnostics_`; of those with one entry for each parameter, the largest R-hat
          and the smallest effective sample size;
        - `seconds`: duration of `fit`, and `warnings`: the warnings of the fit and the metrics, one per line;
        - `error_type` and `error_message`: missing unless the fit failed. A failure does not stop the other fits.

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
    """Identify every system with each of several estimators, and compare the results.

    Parameters
    ----------
    estimators : dict of str to identifier
        The estimators, with the names to use for them in tables and figures.
    systems : iterable of System or dict
        The systems. Only those with a `true_adjacency` (or `true_theta`) contribute to the comparison of graphs (or
        parameters).
    n_jobs : int or None, default=None
        Number of fits that run in parallel; every combination of estimator and system is one fit.
    keep_estimators : bool, default=False
        Whether to keep the fitted clones, in a column `estimator` of the frame.

    Returns
    -------
    ComparisonDisplay
        An object whose `frame` is the table of `identify_many` with an additional column `method`. Its method `table()`
        returns means and standard errors, and `plot()` draws them.

    See Also
    --------
    identify_many : The same for one estimator.
    sklearn_graphid.plotting.ComparisonDisplay : The returned object.

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
