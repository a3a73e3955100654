"""The sampler's settings as flat parameters: what they do to a run, in searches and over workers."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold

from sklearn_graphid import PAPER_SETTINGS, LangevinSystemIdentifier, LikelihoodLangevinIdentifier
from sklearn_graphid.filters import PolynomialFilter

BRIEF = {"n_chains": 3, "n_levels": 2, "n_steps": 2, "n_sweeps": 5, "random_state": 0}
SAMPLERS = [LangevinSystemIdentifier, LikelihoodLangevinIdentifier]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # runs as short as these do not settle, and say so


def test_a_grid_search_over_the_sampler_scores_as_fits_by_hand(ring_known, ring_experiments):
    X, Y = ring_experiments
    grid = {"n_sweeps": [0, 4], "temperature": [0.5, 2.0], "n_steps": [1, 3]}
    identifier, folds = LangevinSystemIdentifier("heat", **BRIEF), KFold(2)
    search = GridSearchCV(identifier, grid, cv=folds, error_score="raise").fit(X, Y, known_mask=ring_known)
    candidates = search.cv_results_["params"]
    in_grid = {tuple(parameters[name] for name in grid) for parameters in candidates}
    assert in_grid == set(product(*grid.values()))
    for parameters, mean in zip(candidates, search.cv_results_["mean_test_score"], strict=True):
        scores = [
            clone(identifier).set_params(**parameters).fit(X[train], Y[train], ring_known).score(X[test], Y[test])
            for train, test in folds.split(X)
        ]
        assert mean == pytest.approx(np.mean(scores), rel=1e-12)
    assert len(set(search.cv_results_["mean_test_score"])) == len(candidates)  # every one of them has an effect
    assert len(search.best_estimator_.diagnostics_["sigma"]) == 2 + search.best_params_["n_sweeps"]


@pytest.mark.parametrize("cls", SAMPLERS)
@pytest.mark.parametrize(("n_sweeps", "n_draws"), [(0, 1), (1, 1), (4, 2)])
def test_the_last_half_of_the_sweeps_are_draws(cls, n_sweeps, n_draws, ring_known, ring_experiments):
    """Without sweeps the rounded end of the Langevin dynamics is the only draw of each chain."""
    fitted = cls("heat", **{**BRIEF, "n_sweeps": n_sweeps}).fit(*ring_experiments, ring_known)
    assert fitted.diagnostics_["log_likelihood"].shape[1] == 2 + n_sweeps
    n_kept = len(fitted.diagnostics_["theta"])
    np.testing.assert_array_equal(
        fitted.theta_samples_.reshape(n_kept, n_draws, 1), fitted.diagnostics_["theta"][:, -n_draws:]
    )
    if n_sweeps == 0:
        assert np.isin(fitted.edge_probabilities_ * n_kept, np.arange(n_kept + 1)).all()


def test_the_paper_runs_langevin_alone_and_keeps_its_rounded_end(ring_known, ring_experiments):
    settings = {**PAPER_SETTINGS, "n_steps": 3}
    fitted = LangevinSystemIdentifier("heat", random_state=0, **settings).fit(*ring_experiments, ring_known)
    np.testing.assert_array_equal(fitted.diagnostics_["kernel"], np.zeros(10))
    np.testing.assert_allclose(fitted.diagnostics_["sigma"], np.linspace(0.5, 0.03, 10))
    np.testing.assert_array_equal(fitted.edge_probabilities_, fitted.adjacency_)
    assert fitted.theta_samples_.shape == (1, 1)


def test_without_a_prior_a_pair_that_the_data_do_not_see_has_even_odds(ring_known, ring_experiments):
    """A filter of order 0 does not see the graph, so the posterior is the prior, whatever the known pairs are like."""
    fitted = LikelihoodLangevinIdentifier(PolynomialFilter(0), **BRIEF).fit(*ring_experiments, ring_known)
    np.testing.assert_allclose(fitted.edge_probabilities_[~ring_known.mask], 0.5, atol=1e-3)


def test_with_a_prior_and_without_have_the_same_settings():
    settings = LangevinSystemIdentifier().get_params()
    assert (settings.pop("prior"), settings.pop("edge_prior")) == (None, None)
    assert LikelihoodLangevinIdentifier().get_params() == settings
