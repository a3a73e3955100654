"""Values that no parameter of an identifier can have, and the largest and smallest numbers that one can be."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils._param_validation import InvalidParameterError

from sklearn_graphid import (
    AdamSystemIdentifier,
    GraphicalLassoIdentifier,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
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
EACH_NUMBER = [(identifier, name) for identifier, names in NUMBERS for name in names]
# Smooth signals refuse small numbers, see test_vanishing_beta_is_refused.
EXTREMES = [(*each, 1e30) for each in EACH_NUMBER]
EXTREMES += [(*each, 1e-30) for each in EACH_NUMBER if not isinstance(each[0], SmoothSignalIdentifier)]

NAN, NO_NUMBERS = np.nan, [True, np.nan, np.inf, 1e300, "a", 1j]
SHARED = {"observed_nodes": [3, None]}
OF_CHAINS = {"device": [0, None], "random_state": ["seed", True, -1]}
WRONG = {
    LangevinSystemIdentifier: {
        **{name: [0, 2.5, True] for name in ("n_chains", "n_levels", "n_steps")},
        "n_sweeps": [-1, 2.5],
        "sigma_max": [0.0, np.inf, 1e300],
        "sigma_min": [0.0, -0.1, NAN],
        "noise_std": [0, -1.0, "auto", True, 1e300, 1e-300],
        "step_size": [0, NAN],
        "temperature": [0, None, NAN, 1e300],
        "theta_learning_rate": [-0.1, np.inf],
        "point_estimate": ["map"],
        "n_jobs": [1.5, True],
        **OF_CHAINS,
    },
    AdamSystemIdentifier: {"max_iter": [0], "learning_rate": [0], "alpha": [-1], "tol": [-1, *NO_NUMBERS], **OF_CHAINS},
    RidgeSystemIdentifier: {"alpha": [0, None]},
    RobustFilterIdentifier: {
        **{name: [-0.1] for name in ("alpha", "l1_penalty", "tol")},
        "commutation_penalty": [0],
        "guess_penalty": ["auto"],
        "shift": ["random-walk"],
        "reweighted": [1.5],
        "max_iter": [0, *NO_NUMBERS],
    },
    GraphicalLassoIdentifier: {"alpha": [0], "assume_centered": [None], "max_iter": [2.5]},
    SmoothSignalIdentifier: {"alpha": [0], "beta": [-1]},
}
WRONG[LikelihoodLangevinIdentifier] = WRONG[LangevinSystemIdentifier]


@pytest.mark.parametrize("cls", WRONG)
def test_wrong_values_are_refused_by_name(cls, ring_experiments):
    identifier = cls("heat")
    wrong = {**SHARED, **WRONG[cls], **({"threshold": [1.1, *NO_NUMBERS]} if hasattr(identifier, "threshold") else {})}
    for other, names in NUMBERS:
        if type(other) is cls:
            wrong |= {name: [*wrong.get(name, []), *NO_NUMBERS] for name in names}
    for name in wrong.keys() & identifier.get_params().keys():
        for value in wrong[name]:
            with pytest.raises(InvalidParameterError, match=f"The '{name}' parameter of {cls.__name__} must be a"):
                cls("heat").set_params(**{name: value}).fit(*ring_experiments)


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
