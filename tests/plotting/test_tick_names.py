"""Names along an axis: moved apart as little as possible."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize

from sklearn_graphid.plotting._tick_names import spread


def test_places_that_are_apart_stay():
    np.testing.assert_allclose(spread(np.array([1.0, 4.0, 9.0]), 2.0, -0.5, 10.0), [1, 4, 9])


@pytest.mark.parametrize("seed", range(3))
def test_places_are_moved_as_little_as_possible(seed):
    places = np.sort(np.random.default_rng(seed).uniform(20, 60, 12))
    moved = spread(places, 3.0, 0.0, 80.0)
    gaps = {"type": "ineq", "fun": lambda x: np.diff(x) - 3.0}
    start = places.mean() + 3.0 * (np.arange(12) - 5.5)
    best = optimize.minimize(lambda x: ((x - places) ** 2).sum(), start, constraints=gaps, method="SLSQP")
    assert ((moved - places) ** 2).sum() == pytest.approx(best.fun, rel=1e-6)
    assert np.diff(moved).min() >= 3.0 - 1e-9


def test_places_stay_in_range():
    moved = spread(np.array([0.0, 0.5, 9.5, 10.0]), 2.0, 0.0, 10.0)
    assert moved.min() >= 0
    assert moved.max() <= 10
    assert np.diff(moved).min() >= 2 - 1e-12
