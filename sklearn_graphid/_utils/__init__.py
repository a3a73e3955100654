"""Small tools that belong to no room: numbers, files, threads and warnings."""

from __future__ import annotations

__all__: list[str] = []
