"""Changes of one pair under a polynomial of order two at most: all moments from a few vectors of its two nodes.

A pair's change adds E to the transposed shift B, with entries M at the crossing of two rows and two columns U. With
signals X and their shifts P1 = X B and P2 = X B^2 the change adds F U' to P1 and H U' + F B_U to P2, where F = X_U M,
H = (P1_U + F) M, X_U are the columns of X at the two nodes and B_U the rows of B. So every product of two of them is
made of columns at the two nodes: of X, the targets, P1 and P2, and of the same four times B'.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ._edge_changes import EdgeChanges, Moments, nodes_of
from ._edge_derivatives import EdgeDerivatives, NodeDerivatives

__all__ = ["PolynomialChanges"]

# Places among the vectors that are kept of every node; the second four are the first, times B'.
_SIGNALS, _TARGETS, _ONCE, _TWICE = range(4)
_BACK = 4


class PolynomialChanges(EdgeChanges):
    """Moments of graphs under a polynomial of their shift, see `EdgeChanges`.

    Parameters
    ----------
    shift : Tensor (chains, nodes, nodes)
        What the filter is a polynomial of.
    signals, targets : Tensor (experiments, nodes)
        Inputs, and outputs that were all measured; the latter may differ from chain to chain.
    order : int
        Of the polynomial, at most 2.
    is_laplacian : bool
        Whether the shift is the Laplacian of the graph, and not its adjacency matrix.
    """

    tables = ("_transposed", "_products", "_vectors")

    def __init__(self, shift: Tensor, signals: Tensor, targets: Tensor, order: int, is_laplacian: bool):
        self._order = order
        self._is_laplacian = is_laplacian
        self._transposed = shift.mT.double().contiguous()
        self._products: Tensor | None = None
        of_chains = len(shift), *signals.shape
        first = torch.stack([signals.double().expand(of_chains), targets.double().expand(of_chains)], 1)
        once = first[:, 0] @ self._transposed
        twice = once @ self._transposed
        vectors = torch.cat([first, once[:, None], twice[:, None]], 1)  # (chains, 4, experiments, nodes)
        back = (vectors.flatten(1, 2) @ self._transposed.mT).view_as(vectors)
        # Node by node, (chains, nodes, 8, experiments): what is wanted of one node lies together.
        self._vectors = torch.cat([vectors, back], 1).permute(0, 3, 1, 2).contiguous()
        regressors = self._vectors[:, :, [_SIGNALS, _ONCE, _TWICE][: order + 1]].movedim(2, 1).flatten(2)
        cross = (regressors @ self._vectors[:, :, _TARGETS].flatten(1)[..., None])[..., 0]
        squares = targets.double().square().sum((-2, -1)).expand(len(shift))
        self.moments = Moments(squares, cross, regressors @ regressors.mT)
        self.n_numbers = 24 * signals.shape[0]

    def moments_after(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> Moments:
        nodes = nodes_of(rows, columns)
        cross, gram = self._added(self._chains(len(nodes)), nodes, self._change(rows, amounts))
        squares, n_parameters = self.moments.squares[:, None].expand(amounts.shape), self._order + 1
        cross = self.moments.cross[:, None] + cross[..., :n_parameters]
        return Moments(squares, cross, self.moments.gram[:, None] + gram[..., :n_parameters, :n_parameters])

    def output_changes(self, rows: Tensor, columns: Tensor, amounts: Tensor, theta: Tensor) -> Tensor:
        nodes = nodes_of(rows, columns)
        chains = self._chains(len(nodes))
        _, first, second = self._local(chains, nodes, self._change(rows, amounts))
        coefficients = torch.nn.functional.pad(theta.double(), (0, 2))[:, 1:3, None, None, None].unbind(1)
        outputs = coefficients[1] * (first.mT @ self._transposed[chains, nodes])
        local = coefficients[0] * first + coefficients[1] * second  # (chains, changes, 2, experiments)
        outputs.scatter_add_(-1, nodes[:, :, None].expand(*outputs.shape[:-1], 2), local.mT)
        return outputs.to(theta.dtype)

    def derivatives(self, rows: Tensor, columns: Tensor, theta: Tensor, probe: Tensor) -> EdgeDerivatives:
        if self._order != 1:
            return super().derivatives(rows, columns, theta, probe)
        nodes = nodes_of(rows, columns)
        _, first, _ = self._local(self._chains(len(nodes)), nodes, self._change(rows, torch.ones_like(nodes[..., 0])))
        values = theta.double()[:, 1, None, None, None] * first
        if rows.shape[-1] == 1:  # of an ordered pair, the outputs of the first node change
            values, nodes = values[:, :, :1], nodes[..., :1]
        return NodeDerivatives(values.to(theta.dtype), nodes)

    def make(self, rows: Tensor, columns: Tensor, amounts: Tensor, moments: Moments) -> None:
        self.moments = moments
        nodes, change = nodes_of(rows, columns), self._change(rows, amounts)
        chains = self._chains(len(nodes))
        local, first, second = (part[:, 0] for part in self._local(chains, nodes[:, None], change[:, None]))
        shift, products = self._transposed, self._shift_products()
        rows_of, crossing = (chains[:, 0], nodes), (chains, nodes[:, :, None], nodes[:, None])
        among_two = chains, torch.arange(2, device=nodes.device)[:, None], nodes[:, None]
        rows_before, columns_before, product_rows = shift[rows_of], shift.mT[rows_of], products[rows_of]
        # B_U times the changed B', and the columns of the changed B, both (chains, 2, nodes).
        product_rows[among_two] += shift[crossing] @ change.mT
        columns_after = columns_before.clone()
        columns_after[among_two] += change.mT
        shift[crossing] += change
        # B B' + E B' + B E' + E E'
        added = change @ columns_before
        products[rows_of] += added
        products.mT[rows_of] += added
        products[crossing] += change @ change.mT
        vectors = self._vectors
        vectors[:, :, _TWICE] += rows_before.mT @ first
        vectors[:, :, _BACK + _ONCE] += columns_after.mT @ first
        vectors[:, :, _BACK + _TWICE] += columns_after.mT @ second + product_rows.mT @ first
        vectors[(*rows_of, _ONCE)] += first
        vectors[(*rows_of, _TWICE)] += second
        pulled = change @ local[:, :, :_BACK].flatten(2)
        vectors[chains[:, 0], nodes, _BACK:] += pulled.view(*nodes.shape, _BACK, -1)

    def _change(self, rows: Tensor, amounts: Tensor) -> Tensor:
        """M (..., 2, 2)."""
        change = amounts.new_zeros(*amounts.shape, 2, 2, dtype=torch.float64)
        sign = -1 if self._is_laplacian else 1
        change[..., 1, 0] = sign * amounts
        if rows.shape[-1] == 2:  # both ways
            change[..., 0, 1] = sign * amounts
        if self._is_laplacian:
            change[..., 0, 0] = amounts
            change[..., 1, 1] = amounts if rows.shape[-1] == 2 else 0
        return change

    def _local(self, chains: Tensor, nodes: Tensor, change: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The vectors (chains, changes, 2, 8, experiments) of the two nodes, and F and H (.., 2, experiments)."""
        vectors = self._vectors[chains, nodes]
        first = change.mT @ vectors[..., _SIGNALS, :]
        return vectors, first, change.mT @ (vectors[..., _ONCE, :] + first)

    def _added(self, chains: Tensor, nodes: Tensor, change: Tensor) -> tuple[Tensor, Tensor]:
        """What a change adds to the cross products (chains, changes, 3) and the Gram matrix."""
        vectors, first, second = self._local(chains, nodes, change)
        both = torch.stack([first, second], -2)  # (chains, changes, 2 nodes, 2, experiments)
        known = torch.cat([vectors, both], -2).transpose(-3, -2).flatten(-2)
        with_first, with_second = (both.transpose(-3, -2).flatten(-2) @ known.mT).unbind(-2)
        places = nodes[..., :, None], nodes[..., None, :]
        block = self._transposed[chains[..., None], *places]
        product = self._shift_products()[chains[..., None], *places]
        nodewise = first @ both.flatten(-3, -2).mT  # (chains, changes, 2, 2 x 2): each node's F times each one's F, H
        first_first, first_second = nodewise[..., 0::2], nodewise[..., 1::2]
        f, h = _BACK + 4, _BACK + 5
        cross_1 = with_first[..., _TARGETS]
        cross_2 = with_second[..., _TARGETS] + with_first[..., _BACK + _TARGETS]
        gram_01 = with_first[..., _SIGNALS]
        gram_02 = with_second[..., _SIGNALS] + with_first[..., _BACK + _SIGNALS]
        gram_11 = 2 * with_first[..., _ONCE] + with_first[..., f]
        gram_12 = (
            with_second[..., _ONCE] + with_first[..., _BACK + _ONCE] + with_first[..., _TWICE] + with_first[..., h]
        )
        gram_12 = gram_12 + (block * first_first).sum((-2, -1))
        gram_22 = 2 * (with_second[..., _TWICE] + with_first[..., _BACK + _TWICE]) + with_second[..., h]
        gram_22 = gram_22 + (2 * block * first_second + product * first_first).sum((-2, -1))
        nothing = torch.zeros_like(cross_1)
        gram = [nothing, gram_01, gram_02, gram_01, gram_11, gram_12, gram_02, gram_12, gram_22]
        return torch.stack([nothing, cross_1, cross_2], -1), torch.stack(gram, -1).unflatten(-1, (3, 3))

    def _shift_products(self) -> Tensor:
        """B B', made when it is first asked for."""
        if self._products is None:
            self._products = self._transposed @ self._transposed.mT
        return self._products

    def _chains(self, n_chains: int) -> Tensor:
        return torch.arange(n_chains, device=self._vectors.device)[:, None, None]
