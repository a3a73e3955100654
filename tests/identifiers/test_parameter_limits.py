"""Numbers that no parameter of the competitors and of Adam can be, and the largest and smallest that they can be."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from sklearn_graphid import (
    AdamSystemIdentifier,
    GraphicalLassoIdentifier,
    RidgeSystemIdentifier,
    RobustFilterIdentifier,
    SmoothSignalIdentifier,
)

ADAM = AdamSystemIdentifier("heat", max_iter=3, random_state=0)
NUMBERS = [
    (RidgeSystemIdentifier("heat"), ["alpha"]),
    (RobustFilterIdentifier("heat"), ["alpha", "commutation_penalty", "l1_penalty", "guess_penalty", "tol"]),
    (GraphicalLassoIdentifier("heat"), ["alpha"]),
    (SmoothSignalIdentifier("heat"), ["alpha", "beta"]),
    (ADAM, ["learning_rate", "alpha"]),
]
COUNTS = [
    (RobustFilterIdentifier(), "max_iter"),
    (GraphicalLassoIdentifier(), "max_iter"),
    (ADAM, "max_iter"),
    (ADAM, "tol"),
]
EACH_NUMBER = [(identifier, name) for identifier, names in NUMBERS for name in names]
EACH = [*EACH_NUMBER, *COUNTS, *((identifier, "threshold") for identifier, _ in NUMBERS)]
# Smooth signals refuse small numbers, see test_vanishing_beta_is_refused.
EXTREMES = [(*each, 1e30) for each in EACH_NUMBER]
EXTREMES += [(*each, 1e-30) for each in EACH_NUMBER if not isinstance(each[0], SmoothSignalIdentifier)]


@pytest.mark.parametrize("value", [True, False, np.nan, np.inf, 1e300, "a", 1j])
@pytest.mark.parametrize(("identifier", "name"), EACH)
def test_what_is_no_number_or_beyond_all_use_is_refused(identifier, name, value, ring_experiments):
    with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter of {type(identifier).__name__} must be a"):
        clone(identifier).set_params(**{name: value}).fit(*ring_experiments)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("identifier", "name", "value"), EXTREMES)
def test_extreme_numbers_give_no_warning_and_no_nan(identifier, name, value, ring_known, ring_experiments):
    fitted = clone(identifier).set_params(**{name: value}).fit(*ring_experiments, ring_known)
    for attribute in ("edge_probabilities_", "theta_", "noise_std_"):
        assert np.isfinite(getattr(fitted, attribute)).all(), attribute
    assert np.isfinite(fitted.diagnostics_.get("loss", [0.0])).all()


@pytest.mark.parametrize("unit", [1e-25, 1e25])
def test_units_beyond_single_precision_name_the_way_out(unit, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(FloatingPointError, match="beyond single precision; rescale X and Y to values near one"):
        clone(ADAM).fit(unit * X, unit * Y)
