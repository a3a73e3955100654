"""What the prior says of changes of a graph, for moves that are accepted or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ._kernel import Denoiser, RandomSource
from ._problem import Problem
from ._swaps import Swap, prior_gain_of_swap
from ._tempering import PriorOdds, log_weight_of_prior, of_chains

__all__ = ["GraphOdds"]


@dataclass(frozen=True)
class GraphOdds:
    """The prior of graphs, as odds.

    A prior of independent pairs is a table. One that can be told which pairs are known is asked about every change by
    itself, and its table is a guess. Of any other, the table is what it says of a noisy copy of the graph, and all that
    there is.
    """

    problem: Problem  # in single precision: unknown pairs alone, and edges of strength one
    denoise: Denoiser
    sigma: float
    has_independent_pairs: bool
    is_table_exact: bool
    is_uncertain: Tensor  # (free pairs,) of bool: False for edges that are known, whose strength is not
    table: Tensor  # (chains, free pairs) log-odds of an edge

    @classmethod
    def of(
        cls, problem: Problem, denoise: Denoiser, sigma: float, n_parts: int, has_independent_pairs: bool, like: Tensor
    ) -> GraphOdds:
        """The prior before it is asked about graphs of the shape of `like` (chains, free pairs)."""
        numbers, table = torch.arange(like.shape[1], device=like.device), torch.zeros_like(like)
        is_exact = has_independent_pairs or n_parts == 1
        is_uncertain = numbers < problem.n_unknown
        return cls(problem.of_presence(), denoise, sigma, has_independent_pairs, is_exact, is_uncertain, table)

    def asked(self, is_edge: Tensor, n_parts: int, rng: RandomSource) -> GraphOdds:
        """Return the prior with a table for graphs (chains, free pairs), asked about `n_parts` parts in turn."""
        pairs = self._pairs(is_edge)
        normal, order = rng.normal(pairs.shape[1]).to(pairs), rng.uniform(pairs.shape[1]).argsort(1)
        if not pairs.shape[1]:
            return self
        if self.has_independent_pairs:
            odds = self._odds(torch.full_like(pairs, 0.5), None)
        elif n_parts == 1:
            odds = self._odds(pairs + self.sigma * normal, None)
        else:
            odds = self._odds_in_parts(pairs, normal, order.chunk(n_parts, 1))
        return replace(self, table=_widened(odds.log_odds, self.table))

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
        log_odds = self._odds(pairs.scatter(1, place, 0.5), is_asked).log_odds
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

    def _odds(self, copy: Tensor, is_asked: Tensor | None) -> PriorOdds:
        known = None if is_asked is None else 1 - self.problem.scatter(is_asked)
        return PriorOdds.asked(self.problem, self.denoise, copy, self.sigma, known)

    def _odds_in_parts(self, pairs: Tensor, normal: Tensor, parts: Sequence[Tensor]) -> PriorOdds:
        """What the prior says of one part after the other, the others taken for known."""
        answers: PriorOdds | None = None
        for part in parts:
            is_asked = torch.zeros_like(pairs).scatter_(1, part, 1.0)
            copy = pairs + self.sigma * normal * is_asked
            said = self._odds(copy, is_asked)
            # What the copy says of a pair itself is no news.
            said = said._replace(log_odds=said.log_odds - (copy - 0.5) / self.sigma**2)
            answers = said if answers is None else answers.where(is_asked > 0, said)
        assert answers is not None  # there is a part
        return answers


def _widened(log_odds: Tensor, table: Tensor) -> Tensor:
    """Log-odds of unknown pairs as those of all free pairs; zero for edges that are known."""
    return torch.nn.functional.pad(log_odds.to(table), (0, table.shape[1] - log_odds.shape[1]))
