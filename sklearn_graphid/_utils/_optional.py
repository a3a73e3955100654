"""Libraries that only some parts need."""

from __future__ import annotations

from importlib import import_module

__all__ = ["require_matplotlib", "require_pandas"]


def require_matplotlib(caller: str) -> None:
    """Raise an ImportError that says how to get matplotlib, before any work is done."""
    _require("matplotlib", f"{caller} draws with matplotlib, which", extra="plot")


def require_pandas(caller: str) -> None:
    """Raise an ImportError that says how to get pandas, before any work is done."""
    _require("pandas", f"{caller} returns a pandas table, but pandas", extra="pandas")


def _require(library: str, beginning: str, extra: str) -> None:
    try:
        import_module(library)
    except ImportError as error:
        raise ImportError(f'{beginning} is not installed: pip install "sklearn-graphid[{extra}]"') from error
