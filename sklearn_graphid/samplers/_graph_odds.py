"""What the prior says of changes of a graph, for moves that are accepted or not."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ._kernel import Denoiser
from ._moves import Sweep, SweepState
from ._problem import Problem
from ._swaps import Swap, prior_gain_of_swap
from ._tempering import PriorOdds, log_weight_of_prior, of_chains

__all__ = ["GraphOdds"]


@dataclass(frozen=True)
class GraphOdds:
    """The prior of graphs, as odds.

    A prior of independent pairs is a table. One that can be told which pairs are known is asked about every change by
    itself; its table is what it said while pairs were flipped, a guess. Of any other, the table is what it said of a
    noisy copy of the graph, and all that there is.
    """

    problem: Problem  # in single precision: unknown pairs alone, and edges of strength one
    denoise: Denoiser
    sigma: float
    is_table_exact: bool
    is_uncertain: Tensor  # (free pairs,) of bool: False for edges that are known, whose strength is not
    table: Tensor  # (chains, free pairs) log-odds of an edge

    @classmethod
    def of(cls, sweep: Sweep, state: SweepState, n_parts: int, has_independent_pairs: bool) -> GraphOdds:
        """Make them of what the prior said when it was last asked."""
        presence, like = sweep.presence, state.chain.pairs
        is_exact = has_independent_pairs or n_parts == 1
        table = state.prior.log_odds if is_exact else state.prior.beside_copy(presence, state.denoise)
        table = torch.nn.functional.pad(table.to(like), (0, like.shape[1] - table.shape[1]))
        is_uncertain = torch.arange(like.shape[1], device=like.device) < presence.n_unknown
        return cls(presence, state.denoise, sweep.sigma, is_exact, is_uncertain, table)

    def of_chains(self, chains: Tensor) -> GraphOdds:
        """Those of some of the chains, by their numbers."""
        return replace(self, denoise=of_chains(self.denoise, chains), table=self.table[chains])

    def of_flip(self, is_edge: Tensor, pair: Tensor) -> Tensor:
        """Log-ratio (chains,) of the prior after and before the flip of a pair (chains,)."""
        place, sign = pair[:, None], 1 - 2 * is_edge.gather(1, pair[:, None]).to(self.table)
        if self.is_table_exact:
            return (sign * self.table.gather(1, place))[:, 0]
        pairs = self._pairs(is_edge)
        place = place.clamp_max(pairs.shape[1] - 1)  # a chain without a move is given any pair
        is_asked = torch.zeros_like(pairs).scatter_(1, place, 1.0)
        copy, known = pairs.scatter(1, place, 0.5), 1 - self.problem.scatter(is_asked)
        log_odds = PriorOdds.asked(self.problem, self.denoise, copy, self.sigma, known).log_odds
        return (sign * log_odds.gather(1, place).to(sign))[:, 0]

    def of_swap(self, is_edge: Tensor, taken: Tensor, added: Tensor) -> Tensor:
        """The same for an edge that leaves one pair for another."""
        if self.is_table_exact:
            return (self.table.gather(1, added[:, None]) - self.table.gather(1, taken[:, None]))[:, 0]
        pairs = self._pairs(is_edge)
        change = Swap(*(part.clamp_max(pairs.shape[1] - 1) for part in (taken, added)))
        copy = pairs.scatter(1, change.both, 0.5)
        return prior_gain_of_swap(self.problem, self.denoise, copy, change, self.sigma).to(self.table)

    def log_prior(self, is_edge: Tensor) -> Tensor:
        """Log-probability (chains,) of the graphs and of the trust in the prior, as far as the table tells."""
        log_odds = torch.where(is_edge, self.table, -self.table)
        of_graphs = (torch.nn.functional.logsigmoid(log_odds) * self.is_uncertain).sum(1)
        return of_graphs + log_weight_of_prior(self.denoise)

    def _pairs(self, is_edge: Tensor) -> Tensor:
        return is_edge[:, : self.problem.n_unknown].to(self.problem.base)
