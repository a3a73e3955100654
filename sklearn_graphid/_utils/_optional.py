"""Libraries that only some parts need."""

from __future__ import annotations

__all__ = ["require_pandas"]


def require_pandas(caller: str) -> None:
    """Raise an ImportError that says how to get pandas, before any work is done."""
    try:
        import pandas  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f'{caller} returns a pandas table, but pandas is not installed: pip install "sklearn-graphid[pandas]"'
        ) from error
