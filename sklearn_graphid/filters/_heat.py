"""Heat diffusion."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor

from .._utils._numbers import FloatArray, check_number
from ._base import GraphFilter, Linearization, ThetaCurve
from ._edge_changes import EdgeChanges, Moments
from ._polynomial import combinatorial_laplacian, normalized_laplacian
from ._tables import HEAT_POLES, RESOLVENTS, TableChanges, as_arrays, resolvents_outputs

__all__ = ["HeatChanges", "HeatDiffusionFilter"]


class HeatChanges(TableChanges):
    """Moments of graphs under heat diffusion: a sum of resolvents.

    Parameters
    ----------
    laplacian : Tensor (chains, nodes, nodes)
        Of the graphs; combinatorial.
    theta : Tensor (chains, 1)
        The time.
    signals, targets : Tensor (experiments, nodes)
        Inputs, and outputs that were all measured; the latter may have an axis of chains before these.
    """

    def __init__(self, laplacian: Tensor, theta: Tensor, signals: Tensor, targets: Tensor):
        signals, targets = signals.double(), targets.double()
        self._n_experiments = len(signals)
        poles = torch.from_numpy(HEAT_POLES).to(theta.device)
        eigenvalues, eigenvectors = torch.linalg.eigh(laplacian.double())
        eigenvalues = theta.double() * eigenvalues
        decayed = (signals @ eigenvectors) * torch.exp(-eigenvalues)[:, None]
        residuals = targets - decayed @ eigenvectors.mT
        inverted = 1 / (eigenvalues[:, None] + poles[:, None])  # (chains, poles, nodes)
        scaled = eigenvectors[:, None] * torch.cat([inverted.real, inverted.imag], 1)[:, :, None]
        # Resolvents, and what they make of the signals and of the residuals: node by node, real parts of all poles,
        # then imaginary ones.
        right = torch.cat([eigenvectors, signals @ eigenvectors, residuals @ eigenvectors], 1).mT
        super().__init__(
            RESOLVENTS,
            moments=Moments.of_residuals(residuals.square().sum((-2, -1))),
            vectors=(scaled @ right[:, None]).movedim(1, 2),
            factor=theta[:, 0].double(),
        )

    def output_changes(self, rows: Tensor, columns: Tensor, amounts: Tensor, theta: Tensor) -> Tensor:
        outputs = np.empty((*rows.shape[:2], self._n_experiments, self._vectors.shape[1]))
        resolvents_outputs(self.tables, *as_arrays(rows[..., 0], columns[..., 0], amounts.double()), outputs)
        return self._tensor(outputs).to(theta.dtype)

    def _products(self) -> FloatArray:
        return self._matrix


LAPLACIANS = ("combinatorial", "normalized")

# Taylor's polynomial of degree eight in three products (Bader, Blanes and Casas, Mathematics 7, 2019), and the norm up
# to which it is exact in single precision.
_ROOT = math.sqrt(177.0)
_INNER = (2 / 3 * (1 + _ROOT) / 88, 2 / 3 * (1 + _ROOT) / 352)
_LEFT = 2 / 3
_RIGHT = ((29 * _ROOT - 271) / 210, 11 * (_ROOT - 1) / 840, 11 * (_ROOT - 9) / 3360, (89 - _ROOT) / 2240)
_SQUARE = (857 - 58 * _ROOT) / 630
_LARGEST_NORM = 0.58

# Nobody knows a time better than that before measuring, and a start that is a single value claims nothing.
_NARROWEST_RANGE = 2.0
# Relative to the median time. No time at all has a density of zero, but it is where the search for the best fit ends on
# data that are not heat, and graphs have to be compared there.
_SHORTEST_TIME = 1e-6


class HeatDiffusionFilter(GraphFilter):
    """Heat diffusion for a time theta: h(A) = exp(-theta L), with theta_min <= theta <= theta_max.

    Parameters
    ----------
    laplacian : {"combinatorial", "normalized"}, default="combinatorial"
        L = D - A, or L = I - D^(-1/2) A D^(-1/2), where D is the diagonal matrix of degrees. With both, a node without
        edges keeps its heat. In a directed graph the degree of a node counts the edges that point to it: the value of a
        node moves towards the values of the nodes that it has edges from, a constant signal stays constant, and the
        total heat is not conserved. The normalized Laplacian is not defined for directed graphs.
    initial_low, initial_high : float, default=0.3 and 0.7
        The range in which theta is expected. Starting values are drawn uniformly between the two. The prior of theta is
        log-logistic with these two values as its quartiles, so that half of its mass lies between them; its long tails
        let the data overrule it. If `initial_high` is less than twice `initial_low`, the prior uses a range of a factor
        of two around their geometric mean. If `initial_low` is 0, this range does not inform the prior. The part of the
        range outside `theta_min` and `theta_max` does not count; if all of it is outside, these two are the range.
    theta_min, theta_max : float, default=0.0 and 10.0
        The shortest and the longest time considered. Once the heat is spread evenly, more time changes nothing, so
        without an upper limit the data could not rule out arbitrarily long times. If you know a range for the time, set
        it here.
    fixed : dict of str to float or None, default=None
        Values of parameters that are known: `{"theta": 0.25}`. It may be outside `theta_min` and `theta_max`.

    Examples
    --------
    >>> import torch
    >>> from sklearn_graphid.filters import HeatDiffusionFilter
    >>> edge = torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    >>> warm = HeatDiffusionFilter().apply(edge, torch.tensor([[20.0]]), torch.tensor([[1.0, 0.0]]))
    >>> [round(value, 4) for value in warm.flatten().tolist()]
    [0.5, 0.5]
    """

    needs_autograd = False

    def __init__(
        self,
        laplacian: str = "combinatorial",
        initial_low: float = 0.3,
        initial_high: float = 0.7,
        theta_min: float = 0.0,
        theta_max: float = 10.0,
        fixed: Mapping[str, float] | None = None,
    ):
        self.laplacian = laplacian
        self.initial_low = initial_low
        self.initial_high = initial_high
        self.theta_min = theta_min
        self.theta_max = theta_max
        self.fixed = fixed

    def check(self) -> None:
        if not (isinstance(self.laplacian, str) and self.laplacian in LAPLACIANS):
            raise ValueError(
                f"HeatDiffusionFilter got laplacian={self.laplacian!r}; expected one of {', '.join(LAPLACIANS)}."
            )
        for name in ("initial_low", "initial_high", "theta_min", "theta_max"):
            check_number(getattr(self, name), f"HeatDiffusionFilter got {name}")
        for low, high in (("initial_low", "initial_high"), ("theta_min", "theta_max")):
            if not 0 <= getattr(self, low) <= getattr(self, high):
                raise ValueError(
                    f"HeatDiffusionFilter got {low}={getattr(self, low)!r} and {high}={getattr(self, high)!r}; "
                    f"expected 0 <= {low} <= {high}."
                )

    def check_directed(self) -> None:
        if self.laplacian != "combinatorial":
            raise ValueError(
                f"HeatDiffusionFilter got laplacian={self.laplacian!r}, which is defined for undirected graphs only; "
                f"expected 'combinatorial' with directed=True."
            )

    def parameter_names(self) -> list[str]:
        return ["theta"]

    def bounds(self) -> list[tuple[float, float]]:
        if self.fixed:  # the limits are for times that are sought
            return [(0.0, float("inf"))]
        return [(float(self.theta_min), float(self.theta_max))]

    def initial_range(self) -> list[tuple[float, float]]:
        low, high = max(self.initial_low, self.theta_min), min(self.initial_high, self.theta_max)
        if low > high:
            low, high = self.theta_min, self.theta_max
        return [(float(low), float(high))]

    def log_prior(self, theta: Tensor) -> Tensor | None:
        ((low, high),) = self.initial_range()
        if low <= 0:
            return None
        median = math.sqrt(low * high)
        # A log-logistic law of this shape has its quartiles at the median times 3^(-1/shape) and 3^(1/shape).
        shape = math.log(9) / math.log(max(high / low, _NARROWEST_RANGE))
        log_ratio = (theta[:, 0].double() / median).clamp_min(_SHORTEST_TIME).log()
        return (shape - 1) * log_ratio - 2 * torch.nn.functional.softplus(shape * log_ratio)

    def powers_of_unit(self) -> list[float] | None:
        return [-1.0]

    def apply(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Tensor:
        laplacian, _ = self._laplacian_with_pullback(adjacency)
        return signals @ _matrix_exponential(-theta[:, :, None] * laplacian).mT

    def linearize(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> Linearization:
        laplacian, laplacian_pullback = self._laplacian_with_pullback(adjacency)
        if not _are_symmetric(laplacian):
            return super().linearize(adjacency, theta, signals)
        eigenvalues, eigenvectors, spectrum = _spectrum(laplacian, signals)
        decay = torch.exp(-theta * eigenvalues)
        outputs = (spectrum * decay[:, None]) @ eigenvectors.mT

        def pullback(cotangent: Tensor) -> tuple[Tensor, Tensor]:
            projected = cotangent @ eigenvectors
            # exp(-theta L) needs the eigenvalues anyway, so the gradient comes from their divided differences.
            inner = _divided_differences(eigenvalues, theta) * (projected.mT @ spectrum)
            slope = -(eigenvalues * decay)[:, None]
            theta_gradient = (projected * spectrum * slope).sum((-2, -1))[:, None]
            return laplacian_pullback(eigenvectors @ inner @ eigenvectors.mT), theta_gradient

        return Linearization(outputs, pullback)

    def theta_jacobian(self, adjacency: Tensor, theta: Tensor, signals: Tensor) -> tuple[Tensor, Tensor]:
        return self.along_theta(adjacency, signals)(theta)

    def along_theta(self, adjacency: Tensor, signals: Tensor) -> ThetaCurve:
        laplacian, _ = self._laplacian_with_pullback(adjacency)
        if not _are_symmetric(laplacian):
            return _curve_of_exponentials(laplacian, signals)
        eigenvalues, eigenvectors, spectrum = _spectrum(laplacian, signals)

        def curve(theta: Tensor) -> tuple[Tensor, Tensor]:
            decayed = spectrum * torch.exp(-theta * eigenvalues)[:, None]
            slope = -(decayed * eigenvalues[:, None]) @ eigenvectors.mT
            return decayed @ eigenvectors.mT, slope[..., None]

        return curve

    def edge_changes(
        self,
        adjacency: Tensor,
        theta: Tensor,
        signals: Tensor,
        targets: Tensor,
        measured: Tensor | None = None,
        directed: bool = False,
    ) -> EdgeChanges:
        if directed or self.laplacian != "combinatorial" or measured is not None:
            return super().edge_changes(adjacency, theta, signals, targets, measured, directed)
        return HeatChanges(combinatorial_laplacian(adjacency)[0], theta, signals, targets)

    def _laplacian_with_pullback(self, adjacency: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        if self.laplacian == "combinatorial":
            return combinatorial_laplacian(adjacency)
        return normalized_laplacian(adjacency)


def _are_symmetric(matrices: Tensor) -> bool:
    """Whether all are, so that they have orthogonal eigenvectors; a chain that has diverged to nan does not count."""
    transposed = matrices.mT
    return torch.equal(matrices, transposed) or bool(((matrices == transposed) | matrices.isnan()).all())


def _curve_of_exponentials(laplacian: Tensor, signals: Tensor) -> ThetaCurve:
    """Heat at any time where there are no orthogonal eigenvectors."""

    def curve(theta: Tensor) -> tuple[Tensor, Tensor]:
        outputs = signals @ _matrix_exponential(-theta[:, :, None] * laplacian).mT
        return outputs, -(outputs @ laplacian.mT)[..., None]

    return curve


def _matrix_exponential(exponent: Tensor) -> Tensor:
    """exp of (chains, nodes, nodes), by scaling and squaring.

    In single precision, which samplers use, it halves the time of torch's own, whose choice of a degree for each matrix
    costs more than it saves where matrices are small and alike.
    """
    if exponent.dtype != torch.float32:
        result: Tensor = torch.linalg.matrix_exp(exponent)
        return result
    norm = exponent.detach().abs().sum(-1).amax(-1)
    # Every matrix is squared as often as it needs: once more would cost digits, and one that has diverged needs none.
    halvings = torch.frexp(norm.nan_to_num(0.0, 0.0) / _LARGEST_NORM).exponent.clamp_min(0)
    fewest, most = int(halvings.min()), int(halvings.max())
    first = exponent * torch.exp2(-halvings.to(exponent.dtype))[:, None, None]
    second = first @ first
    fourth = second @ (_INNER[0] * first + _INNER[1] * second)
    identity = torch.eye(exponent.shape[-1], dtype=exponent.dtype, device=exponent.device)
    right = _RIGHT[0] * identity + _RIGHT[1] * first + _RIGHT[2] * second + _RIGHT[3] * fourth
    power = torch.baddbmm(identity + first + _SQUARE * second, fourth + _LEFT * second, right)
    for _ in range(fewest):
        power = power @ power
    for n_squared in range(fewest, most):
        power = torch.where((halvings > n_squared)[:, None, None], power @ power, power)
    return power


def _spectrum(laplacian: Tensor, signals: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    # A chain that has diverged must not stop the others of its batch, as the decomposition of nan would; it gets nan
    # eigenvalues instead, and with them nan outputs.
    finite = torch.isfinite(laplacian).all(-1).all(-1)
    eigenvalues, eigenvectors = torch.linalg.eigh(torch.where(finite[:, None, None], laplacian, 0.0))
    eigenvalues = torch.where(finite[:, None], eigenvalues, torch.nan)
    return eigenvalues, eigenvectors, signals @ eigenvectors


def _divided_differences(eigenvalues: Tensor, theta: Tensor) -> Tensor:
    """(f(a) - f(b)) / (a - b) for f(a) = exp(-theta a) at every pair of eigenvalues.

    Written as -theta f(min(a, b)) (1 - exp(-w)) / w with w = theta |a - b|, which neither cancels nor overflows,
    and is the derivative where the two are equal.
    """
    first, second = eigenvalues[..., :, None], eigenvalues[..., None, :]
    time = theta[..., None]
    width = (time * (first - second).abs()).clamp_min(torch.finfo(eigenvalues.dtype).tiny)
    return time * torch.exp(-time * torch.minimum(first, second)) * torch.expm1(-width) / width
