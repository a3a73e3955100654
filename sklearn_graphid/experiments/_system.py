"""A system: the data of its experiments, and the true graph and parameters as far as they are known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

import numpy as np

from .._utils._numbers import check_real_array
from ..graphs._known_edges import is_directed
from ..graphs._validation import check_named_adjacency

__all__ = ["System", "check_systems"]


@dataclass(frozen=True, eq=False)
class System:
    """The data of one system, with its true graph and parameters if these are known.

    Parameters
    ----------
    X : array-like of shape (n_experiments, n_nodes)
        Inputs.
    Y : array-like of shape (n_experiments, n_nodes), (n_experiments, n_outputs) or (n_experiments,)
        Outputs.
    known_mask : KnownEdges, array of shape (n_nodes, n_nodes) or None, default=None
        The known pairs that are passed to the identifier, as in its `fit`.
    known_adjacency : array, sparse matrix or networkx.Graph, default=None
        The graph where a boolean `known_mask` is True, as in `fit`.
    true_adjacency : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes), default=None
        The true graph, if it is known. It is used for evaluation only; the identifier never sees it.
    true_theta : array-like of shape (n_parameters,), default=None
        The true parameters, if they are known. They are used for evaluation only; the identifier never sees them.
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


def check_systems(systems: Any, reserved: Collection[str]) -> list[System]:
    """Check names and true graphs of systems. The data are checked by `fit`, whose errors become part of the rows."""
    if isinstance(systems, System | Mapping) or not isinstance(systems, Iterable):
        raise TypeError(f"systems is a {type(systems).__name__}; expected a list of System objects or dicts.")
    checked = [_check_system(system, place, reserved) for place, system in enumerate(systems)]
    if not checked:
        raise ValueError("systems is empty; expected at least one system.")
    return checked


def _check_system(system: Any, place: int, reserved: Collection[str]) -> System:
    here = f"systems[{place}]"
    if isinstance(system, Mapping):
        accepted = [part.name for part in fields(System)]
        if not {"X", "Y"} <= set(system) <= set(accepted):
            raise ValueError(f"{here} has the keys {sorted(system)}; expected X, Y and some of {accepted[2:]}.")
        system = System(**system)
    if not isinstance(system, System):
        raise TypeError(f"{here} is a {type(system).__name__}; expected a System, or a dict with its arguments.")
    taken = set(reserved) & set(system.labels or {})
    if taken:
        raise ValueError(f"{here} has the label {min(taken)!r}, which is a column already; expected another name.")
    directed = is_directed(system.known_mask, system.directed)
    check_truth = partial(check_named_adjacency, directed=directed)
    return replace(
        system,
        name=str(place) if system.name is None else system.name,
        directed=directed,
        true_adjacency=_unless_none(check_truth, system.true_adjacency, f"{here}.true_adjacency"),
        true_theta=_unless_none(_check_theta, system.true_theta, f"{here}.true_theta"),
    )


def _unless_none(check: Callable[[Any, str], Any], value: Any, name: str) -> Any:
    return None if value is None else check(value, name)


def _check_theta(theta: Any, name: str) -> Any:
    array = np.atleast_1d(check_real_array(theta, name))
    if array.ndim != 1 or not array.size:
        raise ValueError(f"{name} is {theta!r}; expected finite numbers, one for each parameter of the filter.")
    return array
