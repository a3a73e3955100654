"""How good identified systems are: metrics, scorers for model selection, and tables of many systems and methods.

Users import the metrics from `sklearn_graphid.metrics` and the scorers from `sklearn_graphid.scorers`.
"""

from __future__ import annotations

from ._compare import System, compare_identifiers, identify_many

__all__ = ["System", "compare_identifiers", "identify_many"]
