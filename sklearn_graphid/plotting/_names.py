"""Names of nodes, parameters and methods as text in a picture, whatever characters they hold."""

from __future__ import annotations

import re
from typing import Any

from ._checks import check_names

__all__ = ["LITERAL", "drawable", "parameter_labels", "shortened"]

# Properties of a matplotlib text that is neither mathematics nor TeX: a dollar sign in a name is a dollar sign.
LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}
# A longer name would leave no room for the picture.
_LONGEST_NAME = 40


def shortened(text: str, length: int) -> str:
    """The text, or the beginning of it."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def drawable(name: Any, longest: int = _LONGEST_NAME) -> str:
    """A name on one line, of bounded length, without characters that no font has, such as half a surrogate pair."""
    characters = (character if character.isprintable() else " " for character in str(name))
    return shortened("".join(characters), longest)


def parameter_labels(names: Any, n_parameters: int) -> list[tuple[str, dict[str, Any]]]:
    """The text of every parameter's label and its properties; without names, parameters are numbered."""
    if names is None:
        names = [f"theta_{i}" for i in range(n_parameters)]
    return [_parameter_label(str(name)) for name in check_names(names, n_parameters, "parameter_names", "parameter")]


def _parameter_label(name: str) -> tuple[str, dict[str, Any]]:
    """theta_0 and the like become a Greek letter with an index, as mathematics; other names are what they are."""
    match = re.fullmatch(r"(theta|[a-z])(?:_(\d+))?", name)
    if match is None:
        return drawable(name), LITERAL
    letter = r"\theta" if match[1] == "theta" else match[1]
    index = "" if match[2] is None else f"_{{{match[2]}}}"
    return f"${letter}{index}$", {}
