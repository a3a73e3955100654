"""Identifiers: estimators that find a network and the process on it."""

from __future__ import annotations

from ._adam import AdamSystemIdentifier
from ._langevin import PAPER_SETTINGS, LangevinSystemIdentifier, LikelihoodLangevinIdentifier

__all__ = ["PAPER_SETTINGS", "AdamSystemIdentifier", "LangevinSystemIdentifier", "LikelihoodLangevinIdentifier"]
