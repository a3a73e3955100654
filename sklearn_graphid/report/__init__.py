"""The report of a fit as one HTML page."""

from __future__ import annotations

from ._page import write_report

__all__ = ["write_report"]
