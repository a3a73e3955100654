"""Searches and curves of scikit-learn, as its users call them.

Unless a test says otherwise there are as many experiments as nodes: the case in which an array that tells what is known
of the network would be sliced together with the data.
"""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import sklearn
from scipy.stats import loguniform, randint
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.metrics import r2_score
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    LeaveOneOut,
    RandomizedSearchCV,
    ShuffleSplit,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
    permutation_test_score,
    validation_curve,
)
from sklearn.pipeline import Pipeline

from sklearn_graphid import (
    AdamSystemIdentifier,
    ErdosRenyiPrior,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
)
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import ARMAFilter, HeatDiffusionFilter, PolynomialFilter

pytestmark = pytest.mark.slow

ROUTING = pytest.mark.parametrize("routing", [False, True], ids=["", "routed"])


@pytest.fixture(autouse=True)
def _routing(request):
    routing = request.node.callspec.params.get("routing", False) if hasattr(request.node, "callspec") else False
    with sklearn.config_context(enable_metadata_routing=routing):
        yield


def by_hand(estimator, X, Y, known, splits):
    """What cross-validation is: fit on the rows of one part, judge on those of the other."""
    fits = [clone(estimator).fit(X[train], Y[train], known) for train, _ in splits]
    pooled = {"multioutput": "variance_weighted"}
    return fits, [
        r2_score(Y[test], fit.predict(X[test]), **pooled) for fit, (_, test) in zip(fits, splits, strict=True)
    ]


# Each tool gives what a loop would give, on the square system


@ROUTING
def test_cross_validate_holds_out_experiments(routing, quick, square_experiments, ladder_known):
    X, Y = square_experiments
    cv = KFold(4)
    result = cross_validate(quick, X, Y, cv=cv, params={"known_mask": ladder_known}, return_estimator=True)
    fits, scores = by_hand(quick, X, Y, ladder_known, list(cv.split(X)))
    np.testing.assert_allclose(result["test_score"], scores, rtol=1e-12)
    for estimator, fit in zip(result["estimator"], fits, strict=True):
        assert estimator.known_edges_ is ladder_known
        np.testing.assert_array_equal(estimator.edge_probabilities_, fit.edge_probabilities_)


def test_cross_val_predict_gives_every_pair_once(quick, square_experiments, ladder_known):
    X, Y = square_experiments
    predicted = cross_val_predict(quick, X, Y, cv=LeaveOneOut(), params={"known_mask": ladder_known})
    assert predicted.shape == Y.shape
    for left_out in (0, 5):
        rest = np.delete(np.arange(8), left_out)
        fit = clone(quick).fit(X[rest], Y[rest], ladder_known)
        np.testing.assert_array_equal(predicted[left_out], fit.predict(X[[left_out]])[0])


def test_grid_search_ranks_by_held_out_prediction(quick, square_experiments, ladder_known):
    X, Y = square_experiments
    cv = KFold(2)
    grid = {"filter": [PolynomialFilter(0), "heat"], "n_levels": [2, 3]}
    search = GridSearchCV(quick, grid, cv=cv).fit(X, Y, known_mask=ladder_known)
    for params, mean in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        _, scores = by_hand(clone(quick).set_params(**params), X, Y, ladder_known, list(cv.split(X)))
        assert mean == pytest.approx(np.mean(scores), rel=1e-12)
    assert search.best_params_["filter"] == "heat"
    assert search.best_estimator_.known_edges_ is ladder_known
    whole = clone(quick).set_params(**search.best_params_).fit(X, Y, ladder_known)
    np.testing.assert_array_equal(search.predict(X), whole.predict(X))
    assert search.score(X, Y) == whole.score(X, Y)


def test_randomized_search_over_the_samplers_settings(quick, square_experiments, ladder_known):
    distributions = {
        "n_levels": randint(2, 5),
        "n_steps": [1, 2],
        "sigma_max": loguniform(0.5, 2),
        "temperature": [0.5, 1.0],
        "point_estimate": ["marginal", "sample", "best"],
        "noise_std": [None, 0.5],
        "n_sweeps": [0, 4],
    }
    search = RandomizedSearchCV(quick, distributions, n_iter=5, cv=2, random_state=0, error_score="raise")
    search.fit(*square_experiments, known_mask=ladder_known)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_estimator_.known_edges_ is ladder_known


@pytest.mark.parametrize("resource", ["n_samples", "n_chains"])
def test_halving_search_over_pairs_and_over_chains(resource, quick, square_experiments, ladder_known):
    """The resource that grows from round to round may be the pairs, or the number of chains."""
    budget = {"min_resources": 4, "max_resources": 8} if resource == "n_samples" else {"max_resources": 4}
    search = HalvingGridSearchCV(
        quick, {"filter": [PolynomialFilter(0), "heat"]}, resource=resource, factor=2, cv=2, random_state=0, **budget
    ).fit(*square_experiments, known_mask=ladder_known)
    assert search.n_iterations_ == 2
    assert search.best_params_["filter"] == "heat"
    assert search.best_estimator_.known_edges_ is ladder_known


def test_learning_curve_rises_with_experiments(quick, ladder, ladder_known):
    X, Y = make_system(ladder, "heat", theta=[0.5], n_experiments=40, noise_std=1.0, random_state=0)
    longer = clone(quick).set_params(n_chains=4, n_sweeps=20)
    sizes, train, test = learning_curve(
        longer, X, Y, train_sizes=[2, 8, 20], cv=ShuffleSplit(2, random_state=0), params={"known_mask": ladder_known}
    )
    np.testing.assert_array_equal(sizes, [2, 8, 20])
    assert test.mean(1)[2] > test.mean(1)[0]
    assert train.shape == test.shape == (3, 2)
    # The square trap at one point of the curve: a training set of as many experiments as there are nodes.
    assert np.isfinite(test).all()


def test_validation_curve_over_the_order_of_the_filter(quick, square_experiments, ladder_known):
    polynomial = clone(quick).set_params(filter=PolynomialFilter())
    train, test = validation_curve(
        polynomial,
        *square_experiments,
        param_name="filter__order",
        param_range=[0, 1, 2],
        cv=2,
        params={"known_mask": ladder_known},
    )
    assert train.shape == test.shape == (3, 2)
    assert (test[2] > test[0]).all()  # heat spreads, and a multiple of the input does not


def test_permuted_outputs_score_worse(quick, square_experiments, ladder_known):
    score, permuted, p_value = permutation_test_score(
        quick, *square_experiments, cv=2, n_permutations=4, random_state=0, params={"known_mask": ladder_known}
    )
    assert score > permuted.max()
    assert p_value == pytest.approx(0.2)


# What can be searched


def test_priors_are_a_choice_like_any_other(quick, square_experiments, ladder_known, frozen_prior):
    grid = {"prior": [None, ErdosRenyiPrior(0.4), frozen_prior]}
    search = GridSearchCV(quick, grid, cv=2, error_score="raise").fit(*square_experiments, known_mask=ladder_known)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    # The frozen prior does take part: its scores are those of a fit with it, and not those without.
    with_it = cross_val_score(
        clone(quick).set_params(prior=frozen_prior), *square_experiments, cv=2, params={"known_mask": ladder_known}
    )
    assert search.cv_results_["mean_test_score"][2] == pytest.approx(with_it.mean())


@ROUTING
def test_siblings_are_alternative_steps_of_one_pipeline(routing, siblings, square_experiments, ladder_known):
    pipeline = Pipeline([("identify", siblings["sampling"])])
    told = {"known_mask" if routing else "identify__known_mask": ladder_known}
    grid = [
        {"identify": [siblings["sampling"]], "identify__n_levels": [2, 3]},
        {"identify": [siblings["no prior"]], "identify__n_steps": [5]},
        {"identify": [siblings["Adam"]], "identify__max_iter": [5, 100]},
    ]
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(*square_experiments, **told)
    assert len(search.cv_results_["params"]) == 5
    assert {type(params["identify"]) for params in search.cv_results_["params"]} == {
        LangevinSystemIdentifier,
        LikelihoodLangevinIdentifier,
        AdamSystemIdentifier,
    }
    assert search.best_estimator_[-1].known_edges_ is ladder_known
    scores = search.cv_results_["mean_test_score"]
    assert scores[4] > scores[3]  # five steps of Adam go nowhere


# The truth is found

THETAS = {"order 1": [0.6, 0.4], "order 2": [0.6, 0.3, -0.2], "heat": [0.4]}
FILTERS = {"heat": HeatDiffusionFilter(), "order 1": PolynomialFilter(1), "order 2": PolynomialFilter(2)}
CANDIDATES = [
    {"filter": [HeatDiffusionFilter()]},
    {"filter": [PolynomialFilter()], "filter__order": [0, 1, 2, 3]},
]
CANDIDATE_NAMES = ["heat", "order 0", "order 1", "order 2", "order 3"]


def first_good_enough(results):
    """The rule of one standard error: candidates come from simple to rich, and the first that is near the best wins."""
    mean, best = results["mean_test_score"], np.argmax(results["mean_test_score"])
    n_splits = sum(name.startswith("split") for name in results)
    return int(np.argmax(mean >= mean[best] - results["std_test_score"][best] / np.sqrt(n_splits)))


@pytest.mark.slow
@pytest.mark.parametrize("truth", THETAS)
def test_grid_search_recovers_family_and_order(truth):
    """Ten systems of each kind gave 30 of 30. Here is one of each, the same at every run."""
    network = nx.to_numpy_array(nx.gnp_random_graph(7, 0.4, seed=0))
    known = hide_edges(network, fraction=0.6, random_state=0)
    X, Y = make_system(network, FILTERS[truth], theta=THETAS[truth], n_experiments=24, random_state=0)
    short = LangevinSystemIdentifier(n_chains=4, n_levels=2, n_steps=1, n_sweeps=10, random_state=0)
    search = GridSearchCV(short, CANDIDATES, cv=3, refit=first_good_enough).fit(X, Y, known_mask=known)
    assert CANDIDATE_NAMES[search.best_index_] == truth
    np.testing.assert_array_equal(search.best_estimator_.adjacency_[known.mask], network[known.mask])


# The square trap


SLICED = r"known_mask has shape \(\d, 8\) but X has 8 nodes.*wrap the mask in KnownEdges to pass it whole"


def search_of(estimator, tool):
    grid = {"n_levels": [2]}
    return {
        "grid": lambda: GridSearchCV(estimator, grid, cv=2, error_score="raise"),
        "randomized": lambda: RandomizedSearchCV(estimator, grid, n_iter=1, cv=2, error_score="raise", random_state=0),
        "halving": lambda: HalvingGridSearchCV(
            estimator, grid, cv=2, min_resources=8, error_score="raise", random_state=0
        ),
    }[tool]()


@pytest.mark.parametrize("tool", ["grid", "randomized", "halving"])
def test_a_raw_mask_is_caught_in_every_search(tool, quick, square_experiments, ladder_known):
    with pytest.raises(ValueError, match=SLICED):
        search_of(quick, tool).fit(*square_experiments, known_mask=ladder_known.to_array())


@ROUTING
@pytest.mark.parametrize("tool", [cross_validate, cross_val_score, cross_val_predict, learning_curve])
def test_a_raw_mask_is_caught_in_every_function(tool, routing, quick, square_experiments, ladder_known):
    options = {} if tool is cross_val_predict else {"error_score": "raise"}
    if tool is learning_curve:
        options["train_sizes"] = [2, 4]
    with pytest.raises(ValueError, match=SLICED):
        tool(quick, *square_experiments, cv=2, params={"known_mask": ladder_known.to_array()}, **options)


def test_a_raw_boolean_mask_with_its_values_is_caught(quick, square_experiments, ladder, ladder_known):
    told = {"known_mask": ladder_known.mask, "known_adjacency": ladder}
    with pytest.raises(ValueError, match=SLICED):
        cross_val_score(quick, *square_experiments, cv=2, params=told, error_score="raise")


def test_a_raw_mask_of_another_length_passes_and_is_right(quick, ladder, ladder_known):
    """With more experiments than nodes nothing is sliced, and a raw array means what a KnownEdges means."""
    X, Y = make_system(ladder, "heat", theta=[0.5], n_experiments=10, random_state=0)
    raw, wrapped = (
        cross_val_score(quick, X, Y, cv=2, params={"known_mask": known})
        for known in (ladder_known.to_array(), ladder_known)
    )
    np.testing.assert_array_equal(raw, wrapped)


def test_the_other_filters_take_part_too(quick, square_experiments, ladder_known):
    grid = {"filter": [ARMAFilter(), "arma", "heat", PolynomialFilter(1)]}
    search = GridSearchCV(quick, grid, cv=2, error_score="raise").fit(*square_experiments, known_mask=ladder_known)
    assert search.cv_results_["mean_test_score"][0] == search.cv_results_["mean_test_score"][1]
