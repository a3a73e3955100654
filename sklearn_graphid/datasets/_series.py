"""Time series as experiments: the state at one time is the input, the state at a later time the output."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from .._utils._numbers import check_integer, check_real_array
from ..graphs._names import check_names, column_names, node_order
from ..graphs._validation import refuse_dates

__all__ = ["as_experiments"]


def as_experiments(series: Any, lag: int = 1) -> tuple[Any, Any]:
    """Turn time series into experiments: x[t] is an input, x[t + lag] its output.

    This is appropriate if the state at one time determines the next state, x[t + 1] = h(A) x[t] + noise, and the noise
    acts on the process itself. *Measurement* noise would also be in the inputs, and no identifier of this package
    corrects for the resulting bias: estimated effects shrink by a factor of v / (v + s), where s is the variance of the
    noise and v that of the state, so edges look weaker than they are.

    Parameters
    ----------
    series : array-like or DataFrame of shape (n_times, n_nodes), or list of several
        Measurements of all nodes at equally spaced times. No experiment spans two series. If the series have column
        names, these are matched with those of the first series.
    lag : int, default=1
        Number of time steps between an input and its output.

    Returns
    -------
    X : ndarray or DataFrame of shape (n_experiments, n_nodes)
        Inputs: n_times - lag experiments from each series. A DataFrame if the first series is one, with the same
        columns and, in pandas, with the times of the inputs as its index.
    Y : ndarray or DataFrame of shape (n_experiments, n_nodes)
        Outputs, in the same form. Their index is that of X, too: rows of X and Y with the same label are an experiment.

    See Also
    --------
    make_system : Simulated experiments with random inputs.

    Examples
    --------
    >>> from sklearn_graphid.datasets import as_experiments
    >>> X, Y = as_experiments([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    >>> X
    array([[ 1., 10.],
           [ 2., 20.]])
    >>> Y
    array([[ 2., 20.],
           [ 3., 30.]])

    Two series, as after a measurement that was interrupted:

    >>> X, Y = as_experiments([[[1.0], [2.0], [3.0]], [[7.0], [8.0]]])
    >>> X.ravel(), Y.ravel()
    (array([1., 2., 7.]), array([2., 3., 8.]))
    """
    lag = check_integer(lag, "lag", low=1)
    parts = list(series) if _is_several(series) else [series]
    if not parts:
        raise ValueError("series is empty; expected an array (n_times, n_nodes), or a list of them.")
    names = ["series" if parts[0] is series else f"series[{place}]" for place in range(len(parts))]
    checked = [_check_one(part, name, lag) for part, name in zip(parts, names, strict=True)]
    first = checked[0]
    aligned = [first, *(_like_first(part, first, name) for part, name in zip(checked[1:], names[1:], strict=True))]
    inputs, outputs = _stacked([part[:-lag] for part in aligned]), _stacked([part[lag:] for part in aligned])
    if hasattr(inputs, "index"):
        outputs = outputs.set_axis(inputs.index)
    return inputs, outputs


def _is_several(series: Any) -> bool:
    """Whether it is a list of series, and not one that is given as a list of rows."""
    if not isinstance(series, list | tuple):
        return isinstance(series, np.ndarray) and series.ndim == 3
    return not series or any(hasattr(part, "columns") or _n_dimensions(part) == 2 for part in series)


def _n_dimensions(values: Any) -> int | None:
    try:
        return np.ndim(values)
    except ValueError:  # rows of different lengths; what is wrong with them is said later
        return None


def _check_one(series: Any, name: str, lag: int) -> Any:
    """A frame as it is, anything else as an array."""
    refuse_dates(series, name)
    values = check_real_array(series, name)
    if values.ndim != 2 or not values.shape[1]:
        raise ValueError(f"{name} has shape {values.shape}; expected (n_times, n_nodes), a row for each time.")
    if len(values) <= lag:
        raise ValueError(
            f"{name} has {len(values)} times, which is too few for lag={lag}; expected at least {lag + 1}."
        )
    names = column_names(series, keep_numbers=True)
    if names is None:
        return values
    check_names(names, f"{name}'s columns")
    return series


def _like_first(series: Any, first: Any, name: str) -> Any:
    """The columns of the first series, and its type."""
    if series.shape[1] != first.shape[1]:
        raise ValueError(
            f"{name} has {series.shape[1]} nodes (columns) but series[0] has {first.shape[1]}; expected the same nodes."
        )
    order = node_order(column_names(series), column_names(first), f"the columns of {name}", "those of series[0]")
    if type(series) is not type(first):
        raise TypeError(
            f"{name} is a {type(series).__name__} but series[0] a {type(first).__name__}; expected one kind only."
        )
    if isinstance(first, np.ndarray):
        return series
    columns = list(series.columns)
    renamed = (series if order is None else series[[columns[place] for place in order]])[:]
    renamed.columns = first.columns  # numbers and text may be the same name, and positions are none
    return renamed


def _stacked(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    if len(parts) == 1:
        return parts[0]
    library = import_module(type(parts[0]).__module__.partition(".")[0])  # pandas and polars both have concat
    return library.concat(parts)
