"""scikit-learn's own checks, all of them and without exceptions."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_graphid import ErdosRenyiPrior, identifiers
from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter

# The checks draw from numpy's global generator, and name no observed nodes.
pytestmark = [
    pytest.mark.draws_globally,
    pytest.mark.filterwarnings("ignore:Y has .* columns for .* nodes:UserWarning"),
]

SHORT = {"n_chains": 2, "n_levels": 2, "n_steps": 2, "n_sweeps": 3}
LANGEVIN_ALONE = {**SHORT, "n_sweeps": 0}

IDENTIFIERS = [
    identifiers.LangevinSystemIdentifier(n_chains=4, n_levels=4),
    identifiers.LangevinSystemIdentifier(HeatDiffusionFilter(), ErdosRenyiPrior(0.2), noise_std=1.0, n_jobs=2, **SHORT),
    identifiers.LangevinSystemIdentifier(PolynomialFilter(1), point_estimate="best", **LANGEVIN_ALONE),
    identifiers.LikelihoodLangevinIdentifier(point_estimate="sample", **LANGEVIN_ALONE),
    identifiers.LikelihoodLangevinIdentifier("heat", **SHORT),
    identifiers.AdamSystemIdentifier(n_iterations=10),
    identifiers.AdamSystemIdentifier("arma", n_iterations=10),
    identifiers.AdamSystemIdentifier(edge_weights="positive", n_iterations=5),
    identifiers.ConstrainedLeastSquaresIdentifier(),
    identifiers.ConstrainedLeastSquaresIdentifier(PolynomialFilter(1), edge_weights="signed"),
    identifiers.RidgeSystemIdentifier(),
    identifiers.RidgeSystemIdentifier("heat", threshold=0.5),
    identifiers.RobustFilterIdentifier(),
    identifiers.RobustFilterIdentifier("heat", guess_penalty=0, reweighted=False),
    identifiers.GraphicalLassoIdentifier(),
    identifiers.SmoothSignalIdentifier(),
    identifiers.SmoothSignalIdentifier("arma"),
]


@parametrize_with_checks(IDENTIFIERS)
def test_estimator_checks(estimator, check):
    check(estimator)
