"""Graph filters: the process that turns inputs into outputs on a graph."""

from __future__ import annotations

from ._arma import ARMAFilter
from ._base import GraphFilter, Linearization, ThetaCurve
from ._callable import CallableFilter
from ._edge_changes import EdgeChanges, Moments
from ._heat import HeatDiffusionFilter
from ._polynomial import PolynomialFilter
from ._steady_state import SteadyStateFilter

__all__ = [
    "ARMAFilter",
    "CallableFilter",
    "EdgeChanges",
    "GraphFilter",
    "HeatDiffusionFilter",
    "Linearization",
    "Moments",
    "PolynomialFilter",
    "SteadyStateFilter",
    "ThetaCurve",
    "resolve_filter",
]

_BY_NAME = {
    "polynomial": PolynomialFilter,
    "heat": HeatDiffusionFilter,
    "arma": ARMAFilter,
    "steady-state": SteadyStateFilter,
}


def resolve_filter(filter: object) -> GraphFilter:
    """Return the filter for a name or a filter object, after checking its arguments.

    Parameters
    ----------
    filter : str or GraphFilter
        "polynomial", "heat", "arma" or "steady-state", or a filter object.

    Returns
    -------
    GraphFilter
        The filter.

    Examples
    --------
    >>> from sklearn_graphid.filters import resolve_filter
    >>> resolve_filter("heat").parameter_names()
    ['theta']
    """
    if isinstance(filter, str):
        if filter not in _BY_NAME:
            raise ValueError(f"filter={filter!r} is not known; expected one of {sorted(_BY_NAME)} or a filter object.")
        resolved: GraphFilter = _BY_NAME[filter]()
    elif isinstance(filter, GraphFilter):
        resolved = filter
    else:
        raise TypeError(
            f"filter is a {type(filter).__name__}; expected one of {sorted(_BY_NAME)} or an object derived from "
            f"sklearn_graphid.filters.GraphFilter, with the methods apply and parameter_names."
        )
    resolved.check()
    resolved.check_fixed()
    return resolved
