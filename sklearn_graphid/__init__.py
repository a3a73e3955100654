"""Find the missing links of a network, and the process on it, from inputs and outputs."""

from __future__ import annotations

from ._known_edges import KnownEdges
from .priors import ErdosRenyiPrior, GraphPriorScore, StochasticBlockPrior, list_priors, load_prior

__version__ = "0.1.0"
