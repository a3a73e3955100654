"""Names of nodes: how they are compared, and how one argument is put in the order of another.

If two arguments carry names (the columns and the index of a DataFrame, the nodes of a networkx graph), they are matched
by name. If only one does, they are matched by position, as scikit-learn does. The integers 0, 1, 2 ... in this order
are positions and no names. Where a user lists nodes, integers are positions too, unless the nodes are called by
integers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray, check_real_array

__all__ = [
    "Names",
    "Nodes",
    "are_integers",
    "check_names",
    "check_node_values",
    "column_names",
    "differing_names",
    "first_named",
    "in_words",
    "is_numbering",
    "match_names",
    "unless_numbers",
]

Names = tuple[Hashable, ...]
Order = npt.NDArray[np.intp]


class Nodes(NamedTuple):
    """Names of the nodes of an argument, in its order."""

    names: Names | None  # None where they have no names
    argument: str  # what messages call the argument

    @classmethod
    def of_columns(cls, data: Any, argument: str, keep_numbers: bool = False) -> Nodes:
        """Read the names of columns, which must differ."""
        names = column_names(data, keep_numbers)
        return cls(None if names is None else check_names(names, f"{argument}'s columns"), argument)

    @classmethod
    def of_index(cls, values: Any, argument: str) -> Nodes:
        """Read the names of a Series from its index; other types have none."""
        index = getattr(values, "index", None)
        if index is None or callable(index) or np.ndim(values) != 1:  # lists have a method of this name
            return cls(None, argument)
        return cls(unless_numbers(check_names(index, f"{argument}'s index")), argument)

    def order_in(self, reference: Nodes) -> Order | None:
        """Return the order that puts these nodes in that of others: `names[order[i]] == reference.names[i]`.

        None where nodes are matched by position: where one side has no names, or only numbers them.
        """
        names, others = self.names, reference.names
        if names is None or others is None or names == others:
            return None
        places = match_names(others, names)
        if len(names) == len(others) and None not in places and len(set(places)) == len(places):
            return np.array(places, dtype=np.intp)
        if len(names) == len(others) and (_is_sorted_numbering(names) or _is_sorted_numbering(others)):
            return None
        raise ValueError(
            f"{self.argument} and {reference.argument} do not name the same nodes: {differing_names(names, others)} "
            f"Nodes are matched by name if both have names; to match by position, pass an array without names."
        )

    def align(self, values: FloatArray, reference: Nodes) -> FloatArray:
        """Put numbers (nodes,) or (nodes, nodes) in the order of others."""
        order = self.order_in(reference)
        return values if order is None else values[np.ix_(*[order] * values.ndim)]

    def numbers_of(self, given: Any, argument: str, n_nodes: int, expected: str) -> Order:
        """Return the positions of different nodes that a user lists, at least one, by position or by name."""
        listed = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else ()
        if not are_integers(listed) or are_integers(self.names):
            is_odd = any(not isinstance(node, Hashable) or isinstance(node, bool | np.bool_) for node in listed)
            if not listed or self.names is None or is_odd:
                without = f"; the columns of {self.argument} have no names" if listed and self.names is None else ""
                raise ValueError(f"{argument}={given!r}; expected {expected}{without}.")
            places = match_names(listed, self.names)
            unknown = [node for node, place in zip(listed, places, strict=True) if place is None]
            if unknown:
                raise ValueError(f"{argument} holds {in_words(unknown)}; expected names of columns of {self.argument}.")
            listed = tuple(places)
        numbers = np.array(listed, dtype=np.intp)
        if numbers.min() < 0 or numbers.max() >= n_nodes or len(set(listed)) != len(listed):
            raise ValueError(
                f"{argument} holds the nodes {in_words(listed)}, by their number; expected different integers from "
                f"0 to {n_nodes - 1}, the nodes of {self.argument}."
            )
        return numbers


def first_named(*candidates: Nodes) -> Nodes:
    """Choose the first nodes with names other than the positions 0, 1, 2 ..., else those with these, else any."""
    named = [nodes for nodes in candidates if nodes.names is not None]
    return next((nodes for nodes in named if unless_numbers(nodes.names) is not None), (named or candidates)[0])


def check_node_values(values: Any, argument: str, n_nodes: int, node_names: Names | None) -> FloatArray:
    """Return a copy of finite numbers, one for each node, in the order of the nodes; a Series goes by its index."""
    array = check_real_array(values, argument)
    if array.shape != (n_nodes,):
        raise ValueError(f"{argument} has shape {array.shape}; expected ({n_nodes},), one number for each node.")
    return Nodes.of_index(values, argument).align(array, Nodes(node_names, "the nodes"))


def column_names(data: Any, keep_numbers: bool = False) -> Names | None:
    """The column names of a DataFrame (pandas, polars and the like); None for what has no columns with names.

    Columns that are called 0, 1, 2 ... in this order have no names, unless `keep_numbers` is set.
    """
    columns = getattr(data, "columns", None)
    if columns is None or callable(columns) or not hasattr(data, "shape"):
        return None
    return tuple(columns) if keep_numbers else unless_numbers(tuple(columns))


def unless_numbers(names: Names | None) -> Names | None:
    """None for the integers 0, 1, 2 ... in this order, which are positions and no names."""
    if names is None or (names == tuple(range(len(names))) and not any(isinstance(name, bool) for name in names)):
        return None
    return names


def are_integers(names: Names | None) -> bool:
    """Whether nodes are called by integers."""
    return bool(names) and all(isinstance(name, Integral) and not isinstance(name, bool) for name in names or ())


def is_numbering(names: Names) -> bool:
    """Whether the names are 0, 1, 2 ... in any order, as integers or as text."""
    return {str(name) for name in names} == {str(number) for number in range(len(names))}


def _is_sorted_numbering(names: Names) -> bool:
    return all(str(name) == str(number) for number, name in enumerate(names))


def check_names(names: Any, argument: str) -> Names:
    """Names as a tuple, after checking that each can be looked up and that no two are the same."""
    checked = tuple(names)
    for name in checked:
        if not isinstance(name, Hashable):
            raise TypeError(f"{argument} holds {name!r}, which is not hashable; expected a str, a number or a tuple.")
    twice = [name for name, n_times in Counter(checked).items() if n_times > 1]
    if twice:
        raise ValueError(f"{argument} has the name {twice[0]!r} twice; expected a different name for every node.")
    return checked


def match_names(names: Names, reference: Names) -> list[int | None]:
    """Place of each of `names` in `reference`; None where it has none.

    A CSV file turns the number 3 into the text "3", so names are compared as text where they differ otherwise.
    """
    places = {name: place for place, name in enumerate(reference)}
    if all(name in places for name in names):
        return [places[name] for name in names]
    as_text = {str(name): place for place, name in enumerate(reference)}
    if len(as_text) == len(reference) and all(str(name) in as_text for name in names):
        return [as_text[str(name)] for name in names]
    return [places.get(name) for name in names]


def differing_names(names: Names, reference: Names) -> str:
    """Which names are missing and which are surplus, in a sentence or two."""
    found = match_names(names, reference)
    surplus = [name for name, place in zip(names, found, strict=True) if place is None]
    missing = [name for place, name in enumerate(reference) if place not in set(found)]
    parts = [f"missing: {in_words(missing)}." if missing else "", f"surplus: {in_words(surplus)}." if surplus else ""]
    return " ".join(part for part in parts if part)


def in_words(names: Sequence[Any], most: int = 3) -> str:
    """The first few names, and how many more there are."""
    listed = ", ".join(repr(name) for name in names[:most])
    return f"{listed} and {len(names) - most} more" if len(names) > most else listed
