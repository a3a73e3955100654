"""Polynomial graph filters, and the matrix polynomials that other filters are made of.

Under an order of two at most, all moments after a change of one pair follow from a few vectors of its two nodes. The
change adds E to the transposed shift B, with entries M at the crossing of two rows and two columns U. With signals X
and their shifts P1 = X B and P2 = X B^2 it adds F U' to P1 and H U' + F B_U to P2, where F = X_U M, H = (P1_U + F) M,
X_U are the columns of X at the two nodes and B_U the rows of B. So every product of two of them is made of columns at
the two nodes: of X, the targets, P1 and P2, and of the same four times B'.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from .._utils._numbers import check_integer, check_number
from ._base import GraphFilter, Linearization
from ._edge_changes import EdgeChanges, EdgeDerivatives, Moments, NodeDerivatives, nodes_of

__all__ = [
    "SHIFTS",
    "PolynomialChanges",
    "PolynomialFilter",
    "combinatorial_laplacian",
    "krylov",
    "normalized_laplacian",
    "polynomial_pullback",
]


def _adjacency(adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    def pullback(gradient: Tensor) -> Tensor:
        return gradient

    return adjacency, pullback


def combinatorial_laplacian(adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """D - A, and the gradient with respect to A that follows from one with respect to it."""

    def pullback(gradient: Tensor) -> Tensor:
        return gradient.diagonal(dim1=-2, dim2=-1)[..., None] - gradient

    return torch.diag_embed(adjacency.sum(-1)) - adjacency, pullback


def normalized_laplacian(adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """I - D^(-1/2) A D^(-1/2), and the same for it."""
    # A degree below one counts as one. On a graph that changes only the nodes without edges, which so get a zero
    # row and keep their heat; on the soft matrices of a sampler it keeps the division from blowing up.
    degree = adjacency.sum(-1)
    floored = degree.clamp_min(1.0)
    scale = floored.rsqrt()
    scaled = scale[..., :, None] * adjacency * scale[..., None, :]

    def pullback(gradient: Tensor) -> Tensor:
        direct = -scale[..., :, None] * gradient * scale[..., None, :]
        weighted = gradient * adjacency
        both_ways = (weighted + weighted.mT) @ scale[..., None]
        through_scale = 0.5 * both_ways[..., 0] * scale / floored * (degree > 1)
        through_diagonal = gradient.diagonal(dim1=-2, dim2=-1) * (degree < 1)
        return direct + (through_scale + through_diagonal)[..., :, None]

    return torch.diag_embed(degree / floored) - scaled, pullback


SHIFTS = {
    "adjacency": _adjacency,
    "laplacian": combinatorial_laplacian,
    "normalized-laplacian": normalized_laplacian,
}


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


def krylov(adjacency: Tensor, signals: Tensor, order: int) -> list[Tensor]:
    """The signals times A^0, A^1 .. A^order, each (chains, experiments, nodes); no power of A is ever formed."""
    shifted = [signals.expand(len(adjacency), *signals.shape[-2:])]
    transposed = adjacency.mT
    for _ in range(order):
        shifted.append(shifted[-1] @ transposed)
    return shifted


def polynomial_pullback(adjacency: Tensor, coefficients: Tensor, shifted: list[Tensor], cotangent: Tensor) -> Tensor:
    """Gradient with respect to A of <cotangent, sum_p c_p A^p x>, given the shifted signals A^j x.

    The derivative of A^p is the sum over j of A^(p-1-j) dA A^j. Collecting what stands left of A^j x gives
    u_j = sum over p > j of c_p (A^T)^(p-1-j) r, and u_j follows from u_(j+1) by one more product.
    """
    order = coefficients.shape[1] - 1
    gradient = torch.zeros_like(adjacency)
    left = torch.zeros_like(cotangent)
    for power in range(order - 1, -1, -1):
        left = coefficients[:, power + 1, None, None] * cotangent + left @ adjacency
        gradient = torch.baddbmm(gradient, left.mT, shifted[power])
    return gradient


class PolynomialFilter(GraphFilter):
    """A polynomial of the adjacency matrix, or of a Laplacian.

    h(A) = theta_0 I + theta_1 S + ... + theta_p S^p, where S is A itself unless another `shift` is chosen.

    Parameters
    ----------
    order : int, default=2
        The highest power p of S.
    initial_scale : float, default=0.1
        Where a sampler starts theta at random, it draws every coefficient uniformly between minus and plus this value.
    shift : {"adjacency", "laplacian", "normalized-laplacian"}, default="adjacency"
        S = A, S = D - A or S = I - D^(-1/2) A D^(-1/2), where D is the diagonal matrix of degrees. In a directed graph
        the degree of a node counts the edges that point to it, and "normalized-laplacian" is not defined.
    fixed : dict of str to float or None, default=None
        Values of parameters that are known, such as `{"theta_0": 0.0}`; all others are identified.

    Examples
    --------
    >>> import torch
    >>> from sklearn_graphid.filters import PolynomialFilter
    >>> path = torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]])
    >>> theta = torch.tensor([[1.0, 10.0, 100.0]])
    >>> PolynomialFilter(order=2).apply(path, theta, torch.tensor([[1.0, 0.0, 0.0]]))
    tensor([[[101.,  10., 100.]]])
    """

    linear_in_theta = True
    needs_autograd = False

    def __init__(
        self,
        order: int = 2,
        initial_scale: float = 0.1,
        shift: str = "adjacency",
        fixed: Mapping[str, float] | None = None,
    ):
        self.order = order
        self.initial_scale = initial_scale
        self.shift = shift
        self.fixed = fixed

    def check(self) -> None:
        if not (isinstance(self.shift, str) and self.shift in SHIFTS):
            raise ValueError(f"PolynomialFilter got shift={self.shift!r}; expected one of {', '.join(SHIFTS)}.")
        check_integer(self.order, "PolynomialFilter got order", low=0)
        check_number(self.initial_scale, "PolynomialFilter got initial_scale", positive=True)

    def check_directed(self) -> None:
        if self.shift == "normalized-laplacian":
            raise ValueError(
                "PolynomialFilter got shift='normalized-laplacian', which is defined for undirected graphs only; "
                "expected 'adjacency' or 'laplacian' with directed=True."
            )

    def parameter_names(self) -> list[str]:
        return [f"theta_{power}" for power in range(self.order + 1)]

    def initial_range(self) -> list[tuple[float, float]]:
        return [(-float(self.initial_scale), float(self.initial_scale))] * (self.order + 1)

    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        return _combine(krylov(self._shift(adjacency)[0], signals, self.order), theta)

    def linearize(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Linearization:
        shift, shift_pullback = self._shift(adjacency)
        shifted = krylov(shift, signals, self.order)

        def pullback(cotangent: Tensor) -> tuple[Tensor, Tensor]:
            theta_gradient = torch.stack([(cotangent * s).sum((-2, -1)) for s in shifted], dim=-1)
            return shift_pullback(polynomial_pullback(shift, theta, shifted, cotangent)), theta_gradient

        return Linearization(_combine(shifted, theta), pullback)

    def theta_jacobian(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> tuple[Tensor, Tensor]:
        shifted = krylov(self._shift(adjacency)[0], signals, self.order)
        return _combine(shifted, theta), torch.stack(shifted, dim=-1)

    def design(self, adjacency: Tensor, signals: Tensor) -> Tensor:
        return torch.stack(krylov(self._shift(adjacency)[0], signals, self.order), dim=1)

    def edge_changes(
        self, adjacency: Tensor, theta: Tensor, signals: Tensor, targets: Tensor, measured: Tensor | None = None
    ) -> EdgeChanges:
        if self.order > 2 or self.shift == "normalized-laplacian" or measured is not None:
            return super().edge_changes(adjacency, theta, signals, targets, measured)
        return PolynomialChanges(self._shift(adjacency)[0], signals, targets, self.order, self.shift == "laplacian")

    def directed_edge_changes(
        self, adjacency: Tensor, theta: Tensor, signals: Tensor, targets: Tensor, measured: Tensor | None = None
    ) -> EdgeChanges:
        return self.edge_changes(adjacency, theta, signals, targets, measured)

    def changed_designs(
        self, adjacency: Tensor, signals: Tensor, rows: Tensor, columns: Tensor, amounts: Tensor
    ) -> Tensor:
        if self.shift == "normalized-laplacian":  # a change alters two degrees, and with them two rows and columns
            return super().changed_designs(adjacency, signals, rows, columns, amounts)
        # A change adds D to S, which has a few entries, so S^k x + e_k turns into S^(k+1) x + S e_k + D (S^k x + e_k):
        # no product with a changed matrix is needed, and S e_1 is made of a few columns of S.
        chains = torch.arange(len(adjacency), device=adjacency.device)[:, None]
        entries = self._changed_entries(rows, columns, amounts.to(adjacency.dtype)[..., None])
        shift = self._shift(adjacency)[0]
        transposed = shift.mT
        change: Tensor | None = None
        shifted: list[Tensor] = []
        for power, signal in enumerate(krylov(shift, signals, self.order)):
            changed = signal[:, None].expand(-1, rows.shape[1], -1, -1) if change is None else signal[:, None] + change
            shifted.append(changed)
            if power == self.order:
                break
            moved = [weight * _node(changed, column) for _, column, weight in entries]
            if change is None:
                change = torch.zeros_like(changed)
            elif power == 1:
                change = torch.zeros_like(changed)
                for row, column, weight in entries:
                    first = weight * _node(shifted[0], column)
                    change.addcmul_(first[..., None], transposed[chains, row][:, :, None])
            else:
                change = (change.flatten(1, 2) @ transposed).view_as(change)
            for (row, _, _), values in zip(entries, moved, strict=True):
                change.scatter_add_(-1, _column(row, values), values[..., None])
        return torch.stack(shifted, dim=2)

    def _shift(self, adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        return SHIFTS[self.shift](adjacency)

    def _changed_entries(self, rows: Tensor, columns: Tensor, amount: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
        """Rows, columns (chains, changes) and amounts (chains, changes, 1) by which entries of S change."""
        entries = list(zip(rows.unbind(-1), columns.unbind(-1), strict=True))
        if self.shift == "adjacency":
            return [(row, column, amount) for row, column in entries]
        # An entry of A is taken off the same entry of D - A, and added to the diagonal of its row.
        off_diagonal = [(row, column, -amount) for row, column in entries]
        return off_diagonal + [(row, row, amount) for row, _ in entries]


def _node(signals: Tensor, nodes: Tensor) -> Tensor:
    """What (chains, changes, experiments, nodes) hold at one node (chains, changes): (chains, changes, experiments)."""
    return signals.gather(-1, _column(nodes, signals[..., 0]))[..., 0]


def _column(nodes: Tensor, like: Tensor) -> Tensor:
    return nodes[..., None, None].expand(*like.shape, 1)


def _combine(shifted: list[Tensor], coefficients: Tensor) -> Tensor:
    weights = coefficients[:, :, None, None].unbind(1)
    combined = weights[0] * shifted[0]
    for weight, signal in zip(weights[1:], shifted[1:], strict=True):
        combined = torch.addcmul(combined, weight, signal)
    return combined
