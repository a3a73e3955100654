"""What every identifier promises: attributes, shapes, options, reproducibility, and its manners within scikit-learn."""

from __future__ import annotations

import copy
import pickle
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from identifier_cases import each_of
from joblib import parallel_config
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklearn_graphid import (
    PAPER_SETTINGS,
    AdamSystemIdentifier,
    ErdosRenyiPrior,
    GraphPriorScore,
    KnownEdges,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
)
from sklearn_graphid.datasets import make_grid_graphs, make_system
from sklearn_graphid.filters import CallableFilter, HeatDiffusionFilter, PolynomialFilter

SHORT = {"n_chains": 4, "n_levels": 2, "n_steps": 2, "n_sweeps": 10}
BRIEF_LANGEVIN = {"n_sweeps": 0, "sigma_max": 0.5, "sigma_min": 0.03, "n_levels": 5, "n_steps": 10}

IDENTIFIERS = {
    "sweeps": LangevinSystemIdentifier("heat", random_state=0, **SHORT),
    "langevin": LangevinSystemIdentifier("heat", n_chains=4, random_state=0, **BRIEF_LANGEVIN),
    "paper": LangevinSystemIdentifier("heat", random_state=0, **{**PAPER_SETTINGS, "n_steps": 5}),
    "no-prior": LikelihoodLangevinIdentifier("heat", n_chains=4, random_state=0, **BRIEF_LANGEVIN),
    "no-prior-sweeps": LikelihoodLangevinIdentifier("heat", random_state=0, **SHORT),
    "adam": AdamSystemIdentifier("heat", n_iterations=60, learning_rate=0.05, random_state=0),
}
SAMPLERS = [name for name in IDENTIFIERS if name != "adam"]


identifier = each_of(IDENTIFIERS)
sampler = each_of(IDENTIFIERS, SAMPLERS)


@pytest.fixture
def quick():
    return clone(IDENTIFIERS["sweeps"])


def state_of(fitted):
    """All that a fit leaves behind for the user, as arrays."""
    names = ("adjacency_", "theta_", "edge_probabilities_", "noise_std_", "theta_samples_", "theta_std_")
    names += ("theta_refitted_", "noise_std_samples_")
    return {name: np.asarray(getattr(fitted, name)) for name in names if hasattr(fitted, name)}


def assert_same_state(one, other):
    one, other = state_of(one), state_of(other)
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], err_msg=name)


# Attributes


def test_attributes_keep_the_contract(identifier, ring, ring_known, ring_experiments):
    assert identifier.fit(*ring_experiments, ring_known) is identifier
    adjacency, probabilities = identifier.adjacency_, identifier.edge_probabilities_
    for matrix in (adjacency, probabilities):
        assert matrix.shape == (6, 6)
        np.testing.assert_array_equal(matrix, matrix.T)
        np.testing.assert_array_equal(np.diagonal(matrix), 0)
        np.testing.assert_array_equal(matrix[ring_known.mask], ring_known.values[ring_known.mask])
        assert ((matrix >= 0) & (matrix <= 1)).all()
    assert adjacency.dtype == np.int64
    assert set(np.unique(adjacency)) <= {0, 1}
    assert probabilities.dtype == np.float64
    assert identifier.theta_.shape == (1,)
    assert identifier.theta_.dtype == np.float64
    assert isinstance(identifier.noise_std_, float)
    assert identifier.noise_std_ > 0
    assert identifier.known_edges_ is ring_known
    assert identifier.n_features_in_ == 6
    assert isinstance(identifier.diagnostics_, dict)
    # Only what was fitted ends with an underscore, and nothing of that is a tensor.
    for name, value in vars(identifier).items():
        assert not isinstance(value, torch.Tensor), name


def test_the_ring_is_found(identifier, ring, ring_known, ring_experiments):
    identifier.fit(*ring_experiments, ring_known)
    if identifier.get_params().get("step_size") is not None:
        return  # twenty steps of the published size go nowhere
    np.testing.assert_array_equal(identifier.adjacency_, ring)
    assert identifier.theta_[0] == pytest.approx(0.5, abs=0.1)


def test_theta_is_in_ascending_powers(ring, ring_known, quick):
    X, Y = make_system(ring, "polynomial", [0.5, -0.3, 0.1], n_experiments=20, noise_std=0.1, random_state=0)
    for fitted in (
        quick.set_params(filter="polynomial").fit(X, Y, ring_known),
        AdamSystemIdentifier("polynomial", n_iterations=300, learning_rate=0.03, random_state=0).fit(X, Y, ring_known),
    ):
        np.testing.assert_allclose(fitted.theta_, [0.5, -0.3, 0.1], atol=0.05)


def test_given_noise_is_kept_and_unknown_noise_is_found(quick, ring_known, ring_experiments):
    assert quick.set_params(noise_std=0.25).fit(*ring_experiments, ring_known).noise_std_ == pytest.approx(0.25)
    # 120 outputs with noise 0.3: the standard error of the estimate is 0.02.
    assert quick.set_params(noise_std=None).fit(*ring_experiments, ring_known).noise_std_ == pytest.approx(0.3, abs=0.1)


def test_diagnostics_of_a_sampler(sampler, ring_known, ring_experiments):
    diagnostics = sampler.fit(*ring_experiments, ring_known).diagnostics_
    n_chains, n_steps = diagnostics["log_likelihood"].shape
    assert diagnostics["n_diverged"] == 0
    assert 1 <= n_chains <= sampler.n_chains
    assert diagnostics["theta"].shape == (n_chains, n_steps, 1)
    assert diagnostics["sigma"].shape == (n_steps,)
    assert diagnostics["sigma"][0] == pytest.approx(sampler.sigma_max)
    assert diagnostics["sigma"].min() == pytest.approx(sampler.sigma_min)
    assert n_steps == sampler.n_levels + sampler.n_sweeps
    np.testing.assert_array_equal(diagnostics["kernel"], np.repeat([0, 1], [sampler.n_levels, sampler.n_sweeps]))
    # The noise only falls, evenly; the sweeps after the annealing are at one level.
    annealing, sweeps = np.split(diagnostics["sigma"], [sampler.n_levels])
    np.testing.assert_allclose(annealing, np.linspace(sampler.sigma_max, sampler.sigma_min, sampler.n_levels))
    assert len(np.unique(sweeps)) <= 1
    assert diagnostics["r_hat_theta"].shape == (1,)
    assert diagnostics["effective_sample_size_theta"].shape == (1,)
    assert np.isfinite(diagnostics["log_likelihood"]).all()


def test_loss_of_adam_goes_down(ring_known, ring_experiments):
    losses = clone(IDENTIFIERS["adam"]).fit(*ring_experiments, ring_known).diagnostics_["loss"]
    assert losses.shape == (60,)
    assert losses[-1] < 0.5 * losses[0]


def test_theta_samples_are_what_theta_is_made_of(quick, ring_known, ring_experiments):
    quick.fit(*ring_experiments, ring_known)
    np.testing.assert_allclose(quick.theta_, quick.theta_samples_.mean(0))
    np.testing.assert_allclose(quick.theta_std_, quick.theta_samples_.std(0))


def test_edges_of_the_marginal_estimate_are_the_probable_ones(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    quick.fit(X[:2], Y[:2], ring_known)
    np.testing.assert_array_equal(quick.adjacency_, quick.edge_probabilities_ > 0.5)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 1.0])
def test_known_edges_pass_every_threshold(threshold, ring, ring_known, ring_experiments):
    fitted = clone(IDENTIFIERS["adam"]).set_params(threshold=threshold).fit(*ring_experiments, ring_known)
    np.testing.assert_array_equal(fitted.adjacency_[ring_known.mask], ring[ring_known.mask])


# Point estimates


@pytest.mark.parametrize("point_estimate", ["marginal", "sample", "best"])
@pytest.mark.parametrize("has_sweeps", [True, False])
def test_every_point_estimate_agrees_with_what_is_known(has_sweeps, point_estimate, ring, ring_known, ring_experiments):
    settings = SHORT if has_sweeps else {**BRIEF_LANGEVIN, "n_chains": 4}
    fitted = LangevinSystemIdentifier("heat", point_estimate=point_estimate, random_state=0, **settings)
    fitted.fit(*ring_experiments, ring_known)
    np.testing.assert_array_equal(fitted.adjacency_[ring_known.mask], ring[ring_known.mask])
    np.testing.assert_array_equal(fitted.adjacency_, ring)


def test_sample_estimate_is_one_of_the_draws(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    quick.set_params(point_estimate="sample").fit(X[:2], Y[:2], ring_known)
    adjacencies, thetas = quick.sample(4 * 16, random_state=0)
    hits = (adjacencies == quick.adjacency_).all((1, 2)) & (thetas == quick.theta_).all(1)
    assert hits.any()


def test_best_estimate_is_the_likeliest_draw_with_theta_by_least_squares(ring, ring_known):
    filter = PolynomialFilter(1)
    X, Y = make_system(ring, filter, [0.5, 0.3], n_experiments=3, random_state=0)
    fitted = LangevinSystemIdentifier(filter, point_estimate="best", noise_std=1.0, random_state=0, **SHORT)
    fitted.fit(X, Y, ring_known)

    def least_squares(adjacency):
        design = np.stack([X.ravel(), (X @ adjacency).ravel()], axis=1)
        theta, squares, _, _ = np.linalg.lstsq(design, Y.ravel(), rcond=None)
        return theta, squares[0]

    theta, squares = least_squares(fitted.adjacency_)
    np.testing.assert_allclose(fitted.theta_, theta, rtol=1e-6)
    # Draws of theta scatter around their best fit, so another graph may fit better once refitted, but not by much.
    others = [least_squares(adjacency)[1] for adjacency in fitted.sample(40, random_state=0)[0]]
    assert squares <= min(others) + 10


# Draws


def test_sample_gives_graphs_and_parameters(identifier, ring_known, ring_experiments):
    identifier.fit(*ring_experiments, ring_known)
    for n_samples in (1, 3, 200):
        adjacencies, thetas = identifier.sample(n_samples, random_state=0)
        assert adjacencies.shape == (n_samples, 6, 6)
        assert thetas.shape == (n_samples, 1)
        assert adjacencies.dtype == np.int64
        assert set(np.unique(adjacencies)) <= {0, 1}
        np.testing.assert_array_equal(adjacencies, np.swapaxes(adjacencies, 1, 2))
        for adjacency in adjacencies:
            np.testing.assert_array_equal(adjacency[ring_known.mask], ring_known.values[ring_known.mask])


def test_sample_is_reproducible_and_changes_nothing(identifier, ring_known, ring_experiments):
    identifier.fit(*ring_experiments, ring_known)
    before = copy.deepcopy(state_of(identifier))
    first, again = identifier.sample(7, random_state=3), identifier.sample(7, random_state=3)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    first[0][:] = 7
    first[1][:] = 7
    for name, value in state_of(identifier).items():
        np.testing.assert_array_equal(value, before[name])


def test_sample_of_a_numpy_integer(quick, ring_known, ring_experiments):
    quick.fit(*ring_experiments, ring_known)
    assert len(quick.sample(np.int64(2), random_state=0)[0]) == 2


def test_one_draw_of_every_chain_comes_before_any_second_one(ring_known, ring_experiments):
    X, Y = ring_experiments
    fitted = LangevinSystemIdentifier("heat", random_state=0, n_chains=12, n_levels=8).fit(X[:2], Y[:2], ring_known)
    thetas = fitted.sample(12, random_state=0)[1]
    assert len(np.unique(thetas)) == 12


# Outputs


def test_predict_is_the_filter_on_the_found_graph(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    identifier.fit(X, Y, ring_known)
    laplacian = np.diag(identifier.adjacency_.sum(1)) - identifier.adjacency_
    eigenvalues, vectors = np.linalg.eigh(laplacian)
    kernel = vectors @ np.diag(np.exp(-identifier.theta_[0] * eigenvalues)) @ vectors.T
    np.testing.assert_allclose(identifier.predict(X), X @ kernel, rtol=1e-9, atol=1e-9)
    assert identifier.predict(X[:1]).shape == (1, 6)
    assert identifier.score(X, Y) == pytest.approx(r2_score(Y, X @ kernel, multioutput="variance_weighted"), rel=1e-9)


@pytest.mark.parametrize("columns", [1, 3, 6])
def test_predict_has_as_many_columns_as_the_outputs(identifier, columns, ring_known, ring_experiments):
    X, Y = ring_experiments
    identifier.set_params(observed_nodes="leading").fit(X, Y[:, :columns], ring_known)
    assert identifier.predict(X).shape == (20, columns)
    assert np.isfinite(identifier.score(X, Y[:, :columns]))


def test_one_dimensional_outputs_give_one_dimensional_predictions(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    flat = clone(identifier).set_params(observed_nodes=[2]).fit(X, Y[:, 2], ring_known)
    column = clone(identifier).set_params(observed_nodes=[2]).fit(X, Y[:, 2:3], ring_known)
    assert flat.predict(X).shape == (20,)
    np.testing.assert_array_equal(flat.predict(X), column.predict(X)[:, 0])
    assert_same_state(flat, column)


def test_lists_and_frames_are_arrays(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    reference = clone(quick).fit(X, Y, ring_known)
    names = list("abcdef")
    assert_same_state(clone(quick).fit(X.tolist(), Y.tolist(), ring_known), reference)
    framed = clone(quick).fit(pd.DataFrame(X, columns=names), pd.DataFrame(Y, columns=names), ring_known)
    assert_same_state(framed, reference)
    assert list(framed.feature_names_in_) == names


def test_to_networkx_names_nodes_as_the_columns(quick, ring, ring_known, ring_experiments):
    X, Y = ring_experiments
    names = ["Ash", "Birch", "Cedar", "Date", "Elm", "Fir"]
    graph = quick.fit(pd.DataFrame(X, columns=names), Y, ring_known).to_networkx()
    assert list(graph.nodes) == names
    np.testing.assert_array_equal(nx.to_numpy_array(graph, weight=None), ring)
    for one, other, facts in graph.edges(data=True):
        i, j = names.index(one), names.index(other)
        assert facts["known"] is bool(ring_known.mask[i, j])
        assert facts["probability"] == quick.edge_probabilities_[i, j]
        assert type(facts["probability"]) is float


def test_to_networkx_numbers_nodes_without_names(identifier, ring_known, ring_experiments):
    graph = identifier.fit(*ring_experiments, ring_known).to_networkx()
    assert list(graph.nodes) == list(range(6))
    np.testing.assert_array_equal(nx.to_numpy_array(graph, weight=None), identifier.adjacency_)


@pytest.mark.parametrize("method", ["predict", "score", "sample", "to_networkx"])
def test_nothing_works_before_fit(identifier, method, ring_experiments):
    arguments = {"predict": ring_experiments[:1], "score": ring_experiments}.get(method, ())
    with pytest.raises(NotFittedError):
        getattr(identifier, method)(*arguments)


# Which nodes were observed


def test_leading_and_listed_nodes_agree_where_they_are_the_same(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    leading = clone(identifier).set_params(observed_nodes="leading").fit(X, Y[:, :4], ring_known)
    listed = clone(identifier).set_params(observed_nodes=[0, 1, 2, 3]).fit(X, Y[:, :4], ring_known)
    assert_same_state(leading, listed)


def test_listed_nodes_may_stand_in_any_order(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    nodes = np.array([4, 0, 3])
    one = clone(identifier).set_params(observed_nodes=nodes).fit(X, Y[:, nodes], ring_known)
    other = clone(identifier).set_params(observed_nodes=[0, 3, 4]).fit(X, Y[:, [0, 3, 4]], ring_known)
    assert_same_state(one, other)
    np.testing.assert_array_equal(one.predict(X), other.predict(X)[:, [2, 0, 1]])


def test_unobserved_nodes_are_missing_outputs(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    holes = np.full(Y.shape, np.nan)
    holes[:, [1, 2, 5]] = Y[:, [1, 2, 5]]
    listed = clone(identifier).set_params(observed_nodes=[1, 2, 5]).fit(X, Y[:, [1, 2, 5]], ring_known)
    assert_same_state(clone(identifier).fit(X, holes, ring_known), listed)


def test_auto_warns_where_it_guesses_and_only_there(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    with pytest.warns(UserWarning, match="Y has 4 columns for 6 nodes.*observed_nodes"):
        quick.fit(X, Y[:, :4], ring_known)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        quick.fit(X, Y, ring_known)
        quick.set_params(observed_nodes="leading").fit(X, Y[:, :4], ring_known)
        quick.set_params(observed_nodes="all").fit(X, Y, ring_known)


def test_warnings_point_to_the_caller(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    with pytest.warns(UserWarning, match="columns for 6 nodes") as caught:
        quick.fit(X, Y[:, :4], ring_known)
    assert caught[0].filename == __file__


def test_missing_outputs_are_left_out(identifier, ring, ring_known, ring_experiments):
    """A third of the outputs is missing; what they would have been does not matter, and the ring is found without."""
    X, Y = ring_experiments
    Y = Y.copy()
    Y[np.random.default_rng(0).random(Y.shape) < 1 / 3] = np.nan
    identifier.fit(X, Y, ring_known)
    assert np.isfinite(identifier.edge_probabilities_).all()
    assert np.isfinite(identifier.predict(X)).all()
    if identifier.get_params().get("step_size") is None:
        np.testing.assert_array_equal(identifier.adjacency_, ring)


def test_a_pair_without_outputs_changes_nothing_but_rounding(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    without = clone(quick).fit(X, Y, ring_known)
    blank = np.vstack([Y, np.full((1, 6), np.nan)])
    with_blank = clone(quick).fit(np.vstack([X, X[:1]]), blank, ring_known)
    np.testing.assert_allclose(with_blank.edge_probabilities_, without.edge_probabilities_, atol=1e-3)
    np.testing.assert_allclose(with_blank.theta_, without.theta_, atol=1e-3)


# Priors and evidence


def test_prior_of_nothing_known_is_even(quick, ring_experiments):
    """A filter of order 0 does not see the graph, so the posterior is the prior: one half where nothing is known."""
    quick.set_params(filter=PolynomialFilter(0), n_chains=64).fit(*ring_experiments)
    # A chain's share varies by 0.3, so the standard error is 0.04; five of these, one false alarm in 100,000 runs.
    np.testing.assert_allclose(quick.edge_probabilities_[np.triu_indices(6, 1)], 0.5, atol=0.2)


def test_prior_of_none_is_the_density_of_the_known_pairs(quick, ring, ring_known, ring_experiments):
    rows, columns = np.nonzero(np.triu(ring_known.mask, 1))
    density = (ring[rows, columns].sum() + 1) / (len(rows) + 2)
    by_default = clone(quick).fit(*ring_experiments, ring_known)
    named = clone(quick).set_params(prior=ErdosRenyiPrior(density)).fit(*ring_experiments, ring_known)
    assert_same_state(by_default, named)


def test_prior_may_be_frozen_or_not(quick, ring_known, ring_experiments):
    bare = clone(quick).set_params(prior=ErdosRenyiPrior(0.2)).fit(*ring_experiments, ring_known)
    frozen = clone(quick).set_params(prior=FrozenEstimator(ErdosRenyiPrior(0.2))).fit(*ring_experiments, ring_known)
    assert_same_state(bare, frozen)


@pytest.fixture(scope="module")
def trained_prior():
    graphs = make_grid_graphs(6, min_nodes=6, max_nodes=9, min_side=2, max_side=4, random_state=0)
    return GraphPriorScore(max_epochs=1, random_state=0).fit(graphs)


def test_learned_prior_survives_cloning_when_frozen(quick, ring_known, ring_experiments, trained_prior):
    X, Y = ring_experiments
    quick.set_params(prior=FrozenEstimator(trained_prior), n_levels=3)
    scores = cross_val_score(quick, X, Y, cv=2, params={"known_mask": ring_known}, error_score="raise")
    assert np.isfinite(scores).all()


def test_network_of_a_size_that_the_prior_has_not_seen_warns(quick, trained_prior):
    ladder = nx.to_numpy_array(nx.ladder_graph(12))
    X, Y = make_system(ladder, "heat", [0.3], n_experiments=3, random_state=0)
    known = KnownEdges(np.ones((24, 24), dtype=bool) ^ (np.eye(24, k=3) + np.eye(24, k=-3)).astype(bool), ladder)
    with pytest.warns(UserWarning, match="has 24 nodes, and the prior was trained on"):
        quick.set_params(prior=trained_prior, n_levels=2).fit(X, Y, known)


@pytest.mark.parametrize("has_sweeps", [True, False])
def test_evidence_beside_the_prior_moves_the_probabilities(has_sweeps, ring_experiments):
    """Data that do not see the graph, an even prior, and strong evidence on two pairs: it decides."""
    evidence = np.full((6, 6), 0.5)
    evidence[0, 3] = evidence[3, 0] = 0.999
    evidence[1, 4] = evidence[4, 1] = 0.001
    settings = SHORT if has_sweeps else BRIEF_LANGEVIN
    fitted = LangevinSystemIdentifier(
        PolynomialFilter(0), ErdosRenyiPrior(0.5), edge_prior=evidence, random_state=0, **{**settings, "n_chains": 32}
    ).fit(*ring_experiments)
    assert fitted.edge_probabilities_[0, 3] > 0.9
    assert fitted.edge_probabilities_[1, 4] < 0.1


def test_even_evidence_says_nothing(quick, ring_known, ring_experiments):
    """Probabilities of one half have odds of one. The detour over odds costs a few digits of single precision."""
    plain = clone(quick).fit(*ring_experiments, ring_known)
    even = clone(quick).set_params(edge_prior=np.full((6, 6), 0.5)).fit(*ring_experiments, ring_known)
    np.testing.assert_allclose(even.edge_probabilities_, plain.edge_probabilities_, atol=1e-3)


# Reproducibility


def test_the_same_seed_gives_the_same_fit(identifier, ring_known, ring_experiments):
    one = clone(identifier).fit(*ring_experiments, ring_known)
    assert_same_state(one, clone(identifier).fit(*ring_experiments, ring_known))
    assert_same_state(one, one.fit(*ring_experiments, ring_known))  # and fitting again forgets the first time


def test_another_seed_gives_another_fit(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    one = clone(identifier).fit(X[:3], Y[:3], ring_known)
    other = clone(identifier).set_params(random_state=1).fit(X[:3], Y[:3], ring_known)
    assert (one.theta_ != other.theta_).any()


def test_a_random_state_object_is_used_up(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    state = np.random.RandomState(0)
    quick.set_params(random_state=state)
    one = quick.fit(X[:3], Y[:3], ring_known).theta_
    assert (quick.fit(X[:3], Y[:3], ring_known).theta_ != one).any()


@pytest.mark.parametrize("has_sweeps", [True, False])
def test_workers_do_not_change_a_bit(has_sweeps, ring_known, ring_experiments):
    X, Y = ring_experiments
    settings = SHORT if has_sweeps else {**BRIEF_LANGEVIN, "n_steps": 5}
    settings = {**settings, "n_chains": 19, "random_state": 0}
    alone = LangevinSystemIdentifier("heat", **settings).fit(X[:3], Y[:3], ring_known)
    for n_jobs in (1, 2):
        together = clone(alone).set_params(n_jobs=n_jobs).fit(X[:3], Y[:3], ring_known)
        assert_same_state(together, alone)
    with parallel_config(backend="threading", n_jobs=2):
        assert_same_state(clone(alone).fit(X[:3], Y[:3], ring_known), alone)


def test_torch_threads_do_not_change_a_bit(quick, ring_known, ring_experiments):
    one = clone(quick).fit(*ring_experiments, ring_known)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2 if before == 1 else 1)
        other = clone(quick).fit(*ring_experiments, ring_known)
    finally:
        torch.set_num_threads(before)
    assert_same_state(one, other)


def test_chains_of_a_longer_run_begin_with_those_of_a_shorter_one(ring_known, ring_experiments):
    """Whole batches: chain k has its own seed, so more chains do not change those before."""
    X, Y = ring_experiments
    short = LangevinSystemIdentifier("heat", n_chains=8, n_levels=3, random_state=0).fit(X[:3], Y[:3], ring_known)
    long = clone(short).set_params(n_chains=16).fit(X[:3], Y[:3], ring_known)
    if short.diagnostics_["n_stuck"] == long.diagnostics_["n_stuck"] == 0:
        np.testing.assert_array_equal(long.diagnostics_["theta"][:8], short.diagnostics_["theta"])


def test_inputs_are_left_alone(identifier, ring_known, ring_experiments):
    X, Y = (array.copy() for array in ring_experiments)
    Y[3, 2] = np.nan
    X_before, Y_before, values = X.copy(), Y.copy(), ring_known.values.copy()
    identifier.fit(X, Y, ring_known).predict(X)
    np.testing.assert_array_equal(X, X_before)
    np.testing.assert_array_equal(Y, Y_before)
    np.testing.assert_array_equal(ring_known.values, values)


def test_parameters_are_left_alone(identifier, ring_known, ring_experiments):
    before = copy.deepcopy(identifier.get_params())
    identifier.fit(*ring_experiments, ring_known)
    after = identifier.get_params()
    assert before.keys() == after.keys()
    assert all(repr(before[name]) == repr(after[name]) for name in before)


# In scikit-learn's company


def test_pickle_and_copy_keep_everything(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    identifier.fit(X, Y, ring_known)
    for restored in (pickle.loads(pickle.dumps(identifier)), copy.deepcopy(identifier)):
        assert_same_state(restored, identifier)
        np.testing.assert_array_equal(restored.predict(X), identifier.predict(X))
        np.testing.assert_array_equal(restored.sample(3, random_state=0)[0], identifier.sample(3, random_state=0)[0])
        assert_same_state(restored.fit(X, Y, ring_known), identifier)


def test_clone_is_unfitted_and_equal(identifier, ring_known, ring_experiments):
    identifier.fit(*ring_experiments, ring_known)
    copied = clone(identifier)
    assert not hasattr(copied, "adjacency_")
    assert_same_state(copied.fit(*ring_experiments, ring_known), identifier)


def test_grid_search_over_the_order_of_the_filter(ring):
    """As many experiments as nodes, where a raw mask would be torn; the search finds the order that made the data."""
    X, Y = make_system(ring, PolynomialFilter(2), [0.2, 0.3, 0.4], n_experiments=6, noise_std=0.05, random_state=0)
    known = KnownEdges(np.ones((6, 6), dtype=bool), ring)
    search = GridSearchCV(
        LangevinSystemIdentifier(PolynomialFilter(), n_chains=2, n_levels=5, random_state=0),
        {"filter__order": [0, 1, 2]},
        cv=3,
        error_score="raise",
    )
    search.fit(X, Y, known_mask=known)
    assert search.best_params_ == {"filter__order": 2}
    assert search.best_score_ > 0.9
    np.testing.assert_array_equal(search.best_estimator_.adjacency_, ring)
    assert search.predict(X).shape == (6, 6)


def test_raw_mask_in_a_search_is_an_error_that_names_the_way_out(ring, ring_known):
    X, Y = make_system(ring, "heat", [0.5], n_experiments=6, random_state=0)
    search = GridSearchCV(clone(IDENTIFIERS["sweeps"]), {"n_levels": [2]}, cv=3, error_score="raise")
    with pytest.raises(ValueError, match=r"known_mask has shape \(4, 6\).*wrap the mask in KnownEdges"):
        search.fit(X, Y, known_mask=ring_known.to_array())


def test_search_over_filters_and_priors(ring_known, ring_experiments):
    grid = {"filter": ["heat", PolynomialFilter(1)], "prior": [None, ErdosRenyiPrior(0.3)]}
    search = GridSearchCV(LangevinSystemIdentifier(random_state=0, **SHORT), grid, cv=2, error_score="raise")
    search.fit(*ring_experiments, known_mask=ring_known)
    assert search.best_params_["filter"] == "heat"


@pytest.mark.parametrize("name", ["sweeps", "no-prior", "adam"])
def test_metadata_routing_passes_what_is_known(name, ring_known, ring_experiments):
    reference = clone(IDENTIFIERS[name]).fit(*ring_experiments, ring_known)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(FunctionTransformer(), clone(IDENTIFIERS[name]))
        pipeline.fit(*ring_experiments, known_mask=ring_known)
        assert_same_state(pipeline[-1], reference)
        search = GridSearchCV(clone(IDENTIFIERS[name]), {"filter": ["heat"]}, cv=2, error_score="raise")
        search.fit(*ring_experiments, known_mask=ring_known)
        assert_same_state(search.best_estimator_, reference)


def test_boolean_mask_is_routed_together_with_its_values(ring, ring_known, ring_experiments):
    reference = clone(IDENTIFIERS["sweeps"]).fit(*ring_experiments, ring_known)
    by_two = clone(IDENTIFIERS["sweeps"]).fit(*ring_experiments, ring_known.mask, nx.cycle_graph(6))
    assert_same_state(by_two, reference)
    by_array = clone(IDENTIFIERS["sweeps"]).fit(*ring_experiments, known_mask=ring_known.to_array())
    assert_same_state(by_array, reference)
    with sklearn.config_context(enable_metadata_routing=True):
        pipeline = make_pipeline(FunctionTransformer(), clone(IDENTIFIERS["sweeps"]))
        pipeline.fit(*ring_experiments, known_mask=ring_known.mask, known_adjacency=ring)
    assert_same_state(pipeline[-1], reference)


# Callbacks


class Recorder:
    """A callback that writes down what it is called with."""

    def __init__(self):
        self.events = []

    def setup(self, estimator, context):
        self.events.append("setup")

    def teardown(self, estimator, context):
        self.events.append("teardown")

    def on_fit_task_begin(self, estimator, context):
        self.events.append(f"begin {context.task_name}")

    def on_fit_task_end(self, estimator, context):
        self.events.append(f"end {context.task_name}")


class Interrupting(Recorder):
    def on_fit_task_end(self, estimator, context):
        raise RuntimeError("enough")


def test_callbacks_hear_of_every_task_once(identifier, ring_known, ring_experiments):
    recorder = Recorder()
    reference = clone(identifier).fit(*ring_experiments, ring_known)
    assert_same_state(identifier.set_callbacks(recorder).fit(*ring_experiments, ring_known), reference)
    assert recorder.events[0] == "setup"
    assert recorder.events[1] == "begin fit"
    assert recorder.events[-2:] == ["end fit", "teardown"]
    assert len([e for e in recorder.events if e.startswith("begin")]) == len(
        [e for e in recorder.events if e.startswith("end")]
    )


def test_callbacks_hear_of_every_batch(ring_known, ring_experiments):
    recorder = Recorder()
    LangevinSystemIdentifier("heat", random_state=0, **{**SHORT, "n_chains": 36}).set_callbacks(recorder).fit(
        *ring_experiments, ring_known
    )
    assert recorder.events.count("begin batch of chains") == 5  # of eight chains each, and the last of four


def test_progress_bar_runs_to_its_end(identifier, ring_known, ring_experiments, capsys):
    identifier.set_callbacks(ProgressBar()).fit(*ring_experiments, ring_known)
    assert "100%" in capsys.readouterr().out
    assert hasattr(identifier, "adjacency_")


@pytest.mark.parametrize("name", ["sweeps", "adam"])
def test_error_in_a_callback_leaves_torch_as_it_was(name, ring_known, ring_experiments):
    before = torch.get_num_threads()
    identifier = clone(IDENTIFIERS[name]).set_callbacks(Interrupting())
    try:
        torch.set_num_threads(2)
        with pytest.raises(RuntimeError, match="enough") as caught:
            identifier.fit(*ring_experiments, ring_known)
        assert torch.get_num_threads() == 2  # while the traceback is alive, as it stays in an interactive session
        assert caught.traceback
        assert not torch.is_inference_mode_enabled()
    finally:
        torch.set_num_threads(before)


# Trouble


@pytest.mark.parametrize("filter", ["polynomial", "heat", "arma"])
@pytest.mark.parametrize("cls", [LangevinSystemIdentifier, LikelihoodLangevinIdentifier])
@pytest.mark.parametrize("step_size", [1.0, 1e8, 1e35])
@pytest.mark.parametrize("learning_rate", [None, 10.0])
def test_huge_steps_never_give_nan(cls, filter, step_size, learning_rate, ring_known, ring_experiments):
    settings = {**BRIEF_LANGEVIN, "n_steps": 5, "n_chains": 4}
    identifier = cls(filter, step_size=step_size, theta_learning_rate=learning_rate, random_state=0, **settings)
    message = None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            identifier.fit(*ring_experiments, ring_known)
        except FloatingPointError as error:
            message = str(error)
    if message is not None:
        assert "all 4 chains diverged, as the filter gave outputs that are infinite or nan." in message
        assert not hasattr(identifier, "adjacency_")
        return
    if identifier.diagnostics_["n_diverged"]:
        assert any(issubclass(warning.category, ConvergenceWarning) for warning in caught)
    for name, value in state_of(identifier).items():
        assert np.isfinite(value).all(), name
    assert np.isfinite(identifier.predict(ring_experiments[0])).all()


def diverging(adjacency, theta):
    """A filter that is undefined on part of where theta may start."""
    return torch.where(theta[0] > 0, torch.nan, 1.0) * adjacency + theta[0]


def test_chains_that_diverge_are_dropped_with_a_warning(ring_known, ring_experiments):
    identifier = LangevinSystemIdentifier(
        CallableFilter(diverging), noise_std=1.0, n_chains=16, n_levels=2, random_state=0
    )
    with pytest.warns(ConvergenceWarning, match="some chains diverged and were dropped"):
        identifier.fit(*ring_experiments, ring_known)
    n_diverged = identifier.diagnostics_["n_diverged"]
    assert 0 < n_diverged < 16
    assert len(identifier.diagnostics_["theta"]) <= 16 - n_diverged
    for name, value in state_of(identifier).items():
        assert np.isfinite(value).all(), name


def test_huge_learning_rate_of_adam_is_an_error(ring_known, ring_experiments):
    identifier = AdamSystemIdentifier("polynomial", learning_rate=1e20, n_iterations=5, random_state=0)
    with pytest.raises(FloatingPointError, match="use a smaller learning_rate than 1e"):
        identifier.fit(*ring_experiments, ring_known)


@pytest.mark.parametrize("name", ["sweeps", "langevin", "adam"])
def test_exact_outputs_are_no_trouble(name, ring, ring_known):
    """No noise at all, and the noise level to be found: it is next to nothing, not nan."""
    X, Y = make_system(ring, "heat", [0.5], n_experiments=20, noise_std=0, random_state=0)
    fitted = clone(IDENTIFIERS[name]).fit(X, Y, ring_known)
    np.testing.assert_array_equal(fitted.adjacency_, ring)
    assert 0 <= fitted.noise_std_ < 2


@pytest.mark.parametrize("filter", ["polynomial", "heat"])
def test_theta_stays_in_bounds_where_the_data_say_nothing(filter):
    """Four nodes, two pairs drowned in noise, nothing known."""
    X, Y = make_system(nx.path_graph(4), filter, None, n_experiments=2, input_scale=1.0, random_state=1)
    fitted = LangevinSystemIdentifier(filter, n_chains=48, random_state=0).fit(X, Y)
    assert np.abs(fitted.theta_samples_).max() < 1e3


def test_outputs_of_zero_have_an_answer(ring_known, ring_experiments):
    X, Y = ring_experiments
    fitted = LangevinSystemIdentifier("polynomial", random_state=0, **SHORT).fit(X, np.zeros_like(Y), ring_known)
    np.testing.assert_allclose(fitted.theta_, 0, atol=1e-3)


def test_changing_the_filter_leaves_the_fit_alone(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    fitted = quick.set_params(filter=HeatDiffusionFilter()).fit(X, Y, ring_known)
    before = fitted.predict(X)
    np.testing.assert_array_equal(fitted.set_params(filter__laplacian="normalized").predict(X), before)
    np.testing.assert_array_equal(fitted.set_params(filter="polynomial").predict(X), before)


def test_score_passes_over_gaps(quick, ring_known, ring_experiments):
    """R2 by its formula on what was measured."""
    X, Y = ring_experiments
    quick.fit(X, Y, ring_known)
    gaps = np.where(np.random.default_rng(0).random(Y.shape) < 0.3, np.nan, Y)
    predicted = quick.predict(X)
    unexplained = np.nansum((gaps - predicted) ** 2, axis=0)
    total = np.nansum((gaps - np.nanmean(gaps, axis=0)) ** 2, axis=0)
    assert quick.score(X, gaps) == pytest.approx(1 - unexplained.sum() / total.sum())
    assert quick.score(X, gaps, sample_weight=np.ones(len(X))) == pytest.approx(quick.score(X, gaps))
    with pytest.raises(ValueError, match="y holds nothing but nan"):
        quick.score(X, np.full_like(Y, np.nan))


def affine(adjacency, theta):
    """A polynomial of order one, as a user would write it."""
    return theta[0] * torch.eye(adjacency.shape[-1], dtype=adjacency.dtype) + theta[1] * adjacency


@pytest.mark.parametrize("name", ["sweeps", "langevin", "no-prior", "adam"])
def test_filters_of_the_users_are_differentiated(name, ring, ring_known):
    filter = CallableFilter(affine, names=("self", "neighbours"))
    X, Y = make_system(ring, filter, [0.5, 0.3], n_experiments=20, noise_std=0.1, random_state=0)
    fitted = clone(IDENTIFIERS[name]).set_params(filter=filter)
    if name == "adam":
        fitted.set_params(n_iterations=300, learning_rate=0.03)
    fitted.fit(X, Y, ring_known)
    np.testing.assert_array_equal(fitted.adjacency_, ring)
    np.testing.assert_allclose(fitted.theta_, [0.5, 0.3], atol=0.1)


def test_heat_may_be_given_as_name_or_object(quick, ring_known, ring_experiments):
    by_name = clone(quick).fit(*ring_experiments, ring_known)
    assert_same_state(clone(quick).set_params(filter=HeatDiffusionFilter()).fit(*ring_experiments, ring_known), by_name)


# Outputs that are not plain numbers


def test_masked_outputs_were_not_measured(quick, ring_known, ring_experiments):
    X, Y = ring_experiments
    hidden = np.random.default_rng(0).random(Y.shape) < 0.3
    masked = np.ma.masked_array(np.where(hidden, 1e3, Y), mask=hidden)
    by_mask, by_nan = (clone(quick).fit(X, y, ring_known) for y in (masked, np.where(hidden, np.nan, Y)))
    np.testing.assert_array_equal(by_mask.edge_probabilities_, by_nan.edge_probabilities_)
    assert by_mask.score(X, masked) == by_nan.score(X, np.where(hidden, np.nan, Y))
    with pytest.raises(ValueError, match="X contains NaN"):
        quick.fit(np.ma.masked_array(X, mask=hidden), Y, ring_known)


@pytest.mark.parametrize("dates", ["datetime64[s]", "timedelta64[s]"])
def test_dates_are_no_numbers(quick, dates, ring_known, ring_experiments):
    X, Y = ring_experiments
    odd = (100 * X).astype("int64").astype(dates)
    for wrong in (odd, pd.DataFrame(odd), pd.DataFrame(X).assign(when=pd.Timestamp("2024-01-01")), odd.tolist()):
        with pytest.raises((TypeError, ValueError), match=r"dates or durations|float\(\) argument|Unable to convert"):
            quick.fit(wrong, Y, ring_known)
        with pytest.raises((TypeError, ValueError), match=r"dates or durations|float\(\) argument|Unable to convert"):
            quick.fit(X, wrong, ring_known)
    fitted = quick.fit(X, Y, ring_known)
    with pytest.raises(TypeError, match="y holds dates or durations"):
        fitted.score(X, odd)
    with pytest.raises(TypeError, match="X holds dates or durations"):
        fitted.predict(odd)


@pytest.mark.parametrize("gap", [False, True])
def test_score_checks_its_arguments_with_gaps_and_without(quick, gap, ring_known, ring_experiments):
    X, Y = ring_experiments
    fitted = quick.fit(X, Y, ring_known)
    outputs = Y.copy()
    if gap:
        outputs[0, 0] = np.nan
    for arguments, message in (
        ((X, outputs[:5]), "inconsistent numbers of samples"),
        ((X, outputs[:, :3]), "y has 3 columns but the estimator predicts 6"),
        ((X, outputs, np.ones(3)), r"sample_weight\.shape == \(3,\)|inconsistent"),
        ((X, outputs, np.full(20, np.nan)), "NaN"),
        ((X[:, :3], outputs), "3 features"),
        ((X, np.where(outputs > 0, np.inf, outputs)), "y contains infinity"),
    ):
        with pytest.raises(ValueError, match=message):
            fitted.score(*arguments)
    assert fitted.score(X, outputs, np.arange(20)) != fitted.score(X, outputs)


def test_a_prior_may_be_frozen_twice(ring_known, ring_experiments):
    prior = ErdosRenyiPrior(0.4)
    settings = {"n_chains": 2, "n_levels": 2, "random_state": 0}
    once, twice = (
        LangevinSystemIdentifier("heat", frozen, **settings).fit(*ring_experiments, ring_known)
        for frozen in (FrozenEstimator(prior), FrozenEstimator(FrozenEstimator(prior)))
    )
    np.testing.assert_array_equal(once.edge_probabilities_, twice.edge_probabilities_)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("noise_std", 1e300),
        ("noise_std", True),
        ("noise_std", 1e-300),
        ("sigma_max", 1e300),
        ("sigma_min", 0.0),
        ("n_chains", True),
        ("n_levels", True),
        ("n_steps", 2.5),
        ("temperature", 1e300),
        ("temperature", np.nan),
        ("theta_learning_rate", np.inf),
        ("step_size", np.nan),
        ("device", "mps"),
    ],
)
def test_parameters_beyond_all_sense_are_named(parameter, value, ring_known, ring_experiments):
    with pytest.raises((ValueError, TypeError), match=parameter):
        LangevinSystemIdentifier("heat", **{parameter: value}).fit(*ring_experiments, ring_known)
