"""Many systems at once: identify them all, and compare identifiers."""

from __future__ import annotations

from ._system import System
from ._tables import compare_identifiers, identify_many

__all__ = ["System", "compare_identifiers", "identify_many"]
