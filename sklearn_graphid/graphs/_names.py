"""Names of nodes: how they are compared, and how one argument is put in the order of another.

If two arguments carry names (the columns and the index of a DataFrame, the nodes of a networkx graph), they are matched
by name. If only one does, they are matched by position, as scikit-learn does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "Names",
    "check_names",
    "column_names",
    "differing_names",
    "first_names",
    "in_words",
    "is_numbering",
    "match_names",
    "node_order",
    "unless_numbers",
]

Names = tuple[Hashable, ...]
Order = npt.NDArray[np.intp]

_MOST_IN_MESSAGE = 3


def column_names(data: Any, keep_numbers: bool = False) -> Names | None:
    """The column names of a DataFrame (pandas, polars and the like); None for what has no columns with names.

    Columns that are called 0, 1, 2 ... in this order have no names, unless `keep_numbers` is set.
    """
    columns = getattr(data, "columns", None)
    if columns is None or callable(columns) or not hasattr(data, "shape"):
        return None
    return tuple(columns) if keep_numbers else unless_numbers(tuple(columns))


def unless_numbers(names: Names) -> Names | None:
    """None for the integers 0, 1, 2 ... in this order, which are positions and no names."""
    are_positions = names == tuple(range(len(names))) and not any(isinstance(name, bool) for name in names)
    return None if are_positions else names


def first_names(*candidates: Names | None) -> Names | None:
    """The first of several names that are more than the positions 0, 1, 2 ...; those where there are no others."""
    given = [names for names in candidates if names is not None]
    return next((names for names in given if unless_numbers(names) is not None), given[0] if given else None)


def is_numbering(names: Names) -> bool:
    """Whether the names are 0, 1, 2 ... in any order, as integers or as text."""
    return {str(name) for name in names} == {str(number) for number in range(len(names))}


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
    """Where each of `names` stands in `reference`; None where it does not.

    A CSV file turns the number 3 into the text "3", so names are compared as text where they differ otherwise.
    """
    places = {name: place for place, name in enumerate(reference)}
    if all(name in places for name in names):
        return [places[name] for name in names]
    as_text = {str(name): place for place, name in enumerate(reference)}
    if len(as_text) == len(reference) and all(str(name) in as_text for name in names):
        return [as_text[str(name)] for name in names]
    return [places.get(name) for name in names]


def node_order(names: Names | None, reference: Names | None, argument: str, reference_argument: str) -> Order | None:
    """The order that puts nodes called `names` in the order of `reference`.

    Parameters
    ----------
    names, reference : tuple or None
        Names of the nodes; None where an argument has none.
    argument, reference_argument : str
        What error messages call the two.

    Returns
    -------
    ndarray of int or None
        So that `names[order[i]] == reference[i]`. None where nodes are matched by position: where one side has no
        names, or only numbers them.
    """
    if names is None or reference is None or names == reference:
        return None
    places = match_names(reference, names)
    if len(names) == len(reference) and None not in places and len(set(places)) == len(places):
        return np.array(places, dtype=np.intp)
    if len(names) == len(reference) and (_is_sorted_numbering(names) or _is_sorted_numbering(reference)):
        return None
    raise ValueError(
        f"{argument} and {reference_argument} do not name the same nodes: {differing_names(names, reference)} Nodes "
        f"are matched by name if both have names; to match by position, pass an array without names."
    )


def _is_sorted_numbering(names: Names) -> bool:
    return all(str(name) == str(number) for number, name in enumerate(names))


def differing_names(names: Names, reference: Names) -> str:
    """Which names are missing and which are surplus, in a sentence or two."""
    found = match_names(names, reference)
    surplus = [name for name, place in zip(names, found, strict=True) if place is None]
    missing = [name for place, name in enumerate(reference) if place not in set(found)]
    parts = [f"missing: {in_words(missing)}." if missing else "", f"surplus: {in_words(surplus)}." if surplus else ""]
    return " ".join(part for part in parts if part)


def in_words(names: Sequence[Any]) -> str:
    """The first few names, and how many more there are."""
    listed = ", ".join(repr(name) for name in names[:_MOST_IN_MESSAGE])
    rest = len(names) - _MOST_IN_MESSAGE
    return f"{listed} and {rest} more" if rest > 0 else listed
