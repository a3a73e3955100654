"""Lists of moves: sweeps for binary graphs, and for graphs whose edges have strengths."""

from __future__ import annotations

from typing import Any

from ._flips import FlipPairs, FlipStrengths
from ._listed_graphs import DrawFromList
from ._parameters import DrawMeasurements, DrawNoise, DrawPrior, DrawTheta, DrawThetaFromPool
from ._slabs import Slab
from ._starts import BinaryStart, StrengthStart
from ._strengths import DrawStrengthLaw, RefitStrengths, RescaleStrengths
from ._swaps import SwapEdges
from ._sweeps import Move, SweepKernel
from ._working_outputs import MeasurementModel

__all__ = ["binary_sweeps", "weighted_sweeps"]


def binary_sweeps(
    n_sweeps: int,
    sigma: float,
    n_parts: int = 5,
    *,
    n_swaps: int = 1,
    has_independent_pairs: bool = False,
    measurements: MeasurementModel | None = None,
    **settings: Any,
) -> SweepKernel:
    """Sweeps over graphs whose edges are all alike.

    Parameters
    ----------
    n_sweeps : int
        How many.
    sigma : float
        Standard deviation of the noise on the copies that the prior is asked about.
    n_parts : int
        Into how many parts the pairs are divided. One: the prior is not told that other pairs are known, and of two
        pairs that are swapped it cannot say more than of each.
    n_swaps : int
        Swaps in each sweep of the warm-up.
    has_independent_pairs : bool
        Whether pairs are independent under the prior. Where few of them are unknown, all graphs are then listed, and
        drawn from the list at the beginning of every sweep.
    measurements : MeasurementModel or None
        Whether outputs have offsets and outliers. None: neither.
    **settings
        Other fields of `SweepKernel`.
    """
    measurements = measurements or MeasurementModel()
    moves: list[Move] = []
    if has_independent_pairs and n_parts > 1 and measurements.is_trivial:
        moves.append(DrawFromList())
    if n_parts > 1:
        moves.append(SwapEdges(n_swaps, few=n_parts))
    moves += [FlipPairs(n_parts), DrawThetaFromPool(), DrawTheta(), DrawMeasurements(), DrawPrior()]
    return SweepKernel(n_sweeps, tuple(moves), BinaryStart(), sigma, measurements=measurements, **settings)


def weighted_sweeps(
    n_sweeps: int,
    sigma: float,
    slab: Slab,
    n_parts: int = 5,
    *,
    has_independent_pairs: bool = False,
    **settings: Any,
) -> SweepKernel:
    """Sweeps over graphs whose edges have strengths.

    Parameters
    ----------
    n_sweeps, sigma, n_parts, has_independent_pairs, **settings
        As in `binary_sweeps`.
    slab : Slab
        The law of strengths.
    """
    begin, noise = StrengthStart(slab), DrawNoise()
    prior: dict[str, Any] = {"n_parts": n_parts, "has_independent_pairs": has_independent_pairs}
    moves: tuple[Move, ...] = (
        DrawStrengthLaw(slab),
        noise,
        FlipStrengths(slab, begin, **prior),
        DrawThetaFromPool(),
        RefitStrengths(slab, begin, noise=noise, **prior),
        RescaleStrengths(slab),
        DrawPrior(),
    )
    return SweepKernel(
        n_sweeps,
        moves,
        begin,
        sigma,
        has_strengths=True,
        resumed_kept_share=0.5,
        sweeps_between_restarts=1,
        **settings,
    )
