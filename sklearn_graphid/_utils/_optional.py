"""Libraries that only some parts need, and that are imported where they do."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import numpy as np

__all__ = [
    "is_networkx",
    "require_matplotlib",
    "require_pandapower",
    "require_pandas",
    "require_rich",
    "require_wntr",
]


def is_networkx(value: Any) -> bool:
    """Whether it is a networkx graph; where nobody has imported networkx yet, nothing is."""
    graph_class = getattr(sys.modules.get("networkx"), "Graph", None)
    return graph_class is not None and isinstance(value, graph_class)


def require_matplotlib(caller: str) -> None:
    """Raise an ImportError that says how to get matplotlib, before any work is done."""
    _require("matplotlib", f"{caller} draws with matplotlib, which", extra="plot")


def require_pandas(caller: str) -> None:
    """Raise an ImportError that says how to get pandas, before any work is done."""
    _require("pandas", f"{caller} returns a pandas table, but pandas", extra="pandas")


def require_pandapower(caller: str) -> None:
    """Raise an ImportError that says how to get pandapower, before any work is done."""
    _require("pandapower", f"{caller} simulates with pandapower, which", extra="real")


def require_rich(caller: str) -> None:
    """Raise an ImportError that says how to get rich, before any work is done."""
    _require("rich", f"{caller} shows progress with rich, which", extra="progress")


def require_wntr(caller: str) -> None:
    """Raise an ImportError that says how to get wntr, before any work is done."""
    with np.printoptions():  # on import wntr sets how numpy prints arrays, which is for the user to choose
        _require("wntr", f"{caller} simulates with wntr, which", extra="real")


def _require(library: str, beginning: str, extra: str) -> None:
    try:
        import_module(library)
    except ImportError as error:
        raise ImportError(f'{beginning} is not installed: pip install "sklearn-graphid[{extra}]"') from error
