"""Which experiment to do next: how much inputs tell, and which tell most. Pure functions of draws, in numpy."""

from __future__ import annotations

from ._information import conditioned, deviations_of, gaussian_information, joint_information
from ._pairs import entropy_of, pair_information
from ._search import Box, choose_candidates, choose_inputs

__all__ = [
    "Box",
    "choose_candidates",
    "choose_inputs",
    "conditioned",
    "deviations_of",
    "entropy_of",
    "gaussian_information",
    "joint_information",
    "pair_information",
]
