"""scikit-learn's own checks, all of them and without exceptions."""

from __future__ import annotations

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_graphid import identifiers

# The checks draw from numpy's global generator, and name no observed nodes.
pytestmark = [
    pytest.mark.draws_globally,
    pytest.mark.filterwarnings("ignore:Y has .* columns for .* nodes:UserWarning"),
]

# One of each class; settings are the business of the other tests. The sampler of Langevin dynamics alone is the second.
IDENTIFIERS = [
    identifiers.LangevinSystemIdentifier(n_chains=2, n_levels=2, n_steps=2, n_sweeps=3),
    identifiers.LikelihoodLangevinIdentifier(n_chains=2, n_levels=2, n_steps=2, n_sweeps=0),
    identifiers.AdamSystemIdentifier(max_iter=5),
    identifiers.ConstrainedLeastSquaresIdentifier(),
    identifiers.RidgeSystemIdentifier(),
    identifiers.RobustFilterIdentifier(),
    identifiers.GraphicalLassoIdentifier(),
    identifiers.SmoothSignalIdentifier(),
]


@parametrize_with_checks(IDENTIFIERS)
def test_estimator_checks(estimator, check):
    check(estimator)
