"""Simulation-based calibration: truths drawn from the model, and what default fits say of them."""

from __future__ import annotations

import numpy as np
import pytest
from _simulated_truth import KINDS, judge, summarise_kind

WORST = ["positive, directed, order one", "positive, undirected, order two"]
N_SYSTEMS = 14


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WORST)
def test_intervals_and_sure_pairs_hold_what_they_say(name):
    """The worst rows of the benchmark, of which 73 % and 63 % of the strengths once were in 90 % intervals.

    Shares are within four standard errors, clustered by system: with a calibrated sampler, one of the eight checks
    fails about once in a thousand seeds.
    """
    (kind,) = (kind for kind in KINDS if kind.name == name)
    row = summarise_kind(kind, [judge(kind, seed, n_chains=8) for seed in range(N_SYSTEMS)], 0)
    for part in ("theta 90%", "strengths 90%", "noise 90%"):
        share, error = row[part]
        assert share > 0.9 - 4 * max(error, np.sqrt(0.9 * 0.1 / N_SYSTEMS) / 2), part
    share, error = row["sure but wrong"]
    assert share < row["expected"] + 4 * max(error, 0.005)
