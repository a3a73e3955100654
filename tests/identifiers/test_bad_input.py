"""Bad input: the type and the words of every error, or the sensible result; and nothing is lost by a failed fit."""

from __future__ import annotations

import copy
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from identifier_cases import COMPETITORS, each_of
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.utils._param_validation import InvalidParameterError

from sklearn_graphid import ErdosRenyiPrior, GraphPriorScore, KnownEdges, StochasticBlockPrior
from sklearn_graphid.datasets import make_grid_graphs, make_system
from sklearn_graphid.filters import ARMAFilter, CallableFilter, HeatDiffusionFilter, PolynomialFilter
from sklearn_graphid.identifiers import (
    PAPER_SETTINGS,
    AdamSystemIdentifier,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    RidgeSystemIdentifier,
)

NAN = np.nan
SHORT = {"n_chains": 2, "n_levels": 2, "n_steps": 1, "n_sweeps": 3, "random_state": 0}
IDENTIFIERS = {
    "langevin": LangevinSystemIdentifier("heat", **SHORT),
    "no-prior": LikelihoodLangevinIdentifier("heat", **SHORT),
    "adam": AdamSystemIdentifier("heat", max_iter=3, random_state=0),
    **COMPETITORS,
}
SAMPLERS = ["langevin", "no-prior"]
ON_A_DEVICE = [*SAMPLERS, "adam"]  # the others do their arithmetic in numpy, in double precision


identifier = each_of(IDENTIFIERS)
sampler = each_of(IDENTIFIERS, SAMPLERS)
on_a_device = each_of(IDENTIFIERS, ON_A_DEVICE)


@pytest.fixture
def langevin():
    return clone(IDENTIFIERS["langevin"])


def partial(**entries):
    """The ring's matrix with a few entries changed, given as {"i_j": value}."""
    array = nx.to_numpy_array(nx.cycle_graph(6))
    for name, value in entries.items():
        i, j = map(int, name.strip("p").split("_"))
        array[i, j] = value
    return array


# X and Y


@pytest.mark.parametrize("value", [NAN, np.inf, -np.inf])
def test_inputs_must_be_finite(identifier, value, ring_experiments):
    X, Y = (array.copy() for array in ring_experiments)
    X[2, 3] = value
    with pytest.raises(ValueError, match=r"Input X contains (NaN|infinity)"):
        identifier.fit(X, Y)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_outputs_must_not_be_infinite(identifier, value, ring_experiments):
    X, Y = (array.copy() for array in ring_experiments)
    Y[2, 3] = value
    with pytest.raises(ValueError, match="Y contains infinity"):
        identifier.fit(X, Y)


def test_outputs_must_hold_a_number(identifier, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(ValueError, match="Y holds nothing but nan; expected at least one measured output"):
        identifier.fit(X, np.full_like(Y, NAN))


def test_one_measured_output_is_enough_to_run(identifier, ring_experiments):
    X, Y = ring_experiments
    single = np.full_like(Y, NAN)
    single[0, 0] = Y[0, 0]
    if identifier.get_params().get("noise_std", 1) is None:
        identifier.set_params(noise_std=1.0)
    identifier.fit(X, single)
    assert np.isfinite(identifier.edge_probabilities_).all()


def test_outputs_must_be_there(identifier, ring_experiments):
    with pytest.raises(ValueError, match="requires y to be passed"):
        identifier.fit(ring_experiments[0], None)


def test_pairs_must_be_as_many_in_both(identifier, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(ValueError, match=r"inconsistent numbers of samples: \[20, 19\]"):
        identifier.fit(X, Y[:19])


def test_more_outputs_than_nodes(identifier, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(ValueError, match=r"Y has 7 columns but X has 6 nodes"):
        identifier.fit(X, np.hstack([Y, Y[:, :1]]))


def test_three_dimensional_arrays(identifier, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(ValueError, match="dim 3"):
        identifier.fit(X, Y[..., None])
    with pytest.raises(ValueError, match="dim 3"):
        identifier.fit(X[..., None], Y)


def test_a_single_number_as_output(identifier, ring_experiments):
    with pytest.raises((TypeError, ValueError), match=r"single number|at least 1 dimension"):
        identifier.fit(ring_experiments[0][:1], 3.0)


def test_one_dimensional_inputs(identifier, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        identifier.fit(X[:, 0], Y[:, 0])


def test_no_pairs(identifier):
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        identifier.fit(np.empty((0, 6)), np.empty((0, 6)))


def test_sparse_inputs(identifier, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(TypeError, match=r"[Ss]parse"):
        identifier.fit(sparse.csr_array(X), Y)


def test_words_as_inputs(identifier, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(ValueError, match="could not convert string to float"):
        identifier.fit(X.astype(str).astype(object) + "x", Y)


def test_complex_outputs(identifier, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(ValueError, match=r"[Cc]omplex"):
        identifier.fit(X, Y + 1j)


def test_prediction_for_another_number_of_nodes(identifier, ring_experiments):
    X, Y = ring_experiments
    identifier.fit(X, Y)
    with pytest.raises(ValueError, match=r"X has 5 features.*expecting 6"):
        identifier.predict(X[:, :5])
    with pytest.raises(ValueError, match="Input X contains NaN"):
        identifier.predict(np.full((1, 6), NAN))


# What is known


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (partial(p0_2=1), r"is not symmetric: entry \(0, 2\) is 1 but entry \(2, 0\) is 0"),
        (partial(p1_1=1), "self-loop at node 1"),
        (partial(p0_1=0.5, p1_0=0.5), "holds the value 0.5; expected 0, 1, or nan"),
        (partial(p0_1=-1), "holds the value -1; expected 0, 1, or nan"),
        (partial(p0_1=np.inf), "holds the value inf"),
        (2 * partial(), "holds the value 2"),
        (np.ones((6, 6), dtype=bool), "boolean, which says which pairs are known but not whether they have edges"),
        (np.zeros((5, 5)), r"known_mask has shape \(5, 5\) but X has 6 nodes.*KnownEdges"),
        (np.zeros((4, 6)), r"known_mask has shape \(4, 6\) but X has 6 nodes.*KnownEdges"),
        (np.zeros(36), r"known_mask has shape \(36,\).*KnownEdges"),
        (np.zeros((1, 6, 6)), r"known_mask has shape \(1, 6, 6\).*KnownEdges"),
        (KnownEdges.nothing(5), "KnownEdges of 5 nodes but X has 6 nodes"),
    ],
)
def test_known_mask_is_refused(identifier, known, words, ring_experiments):
    with pytest.raises(ValueError, match=words):
        identifier.fit(*ring_experiments, known)


@pytest.mark.parametrize("known", ["ring", object(), [["a", "b"], ["c", "d"]], 1j * np.ones((6, 6))])
def test_known_mask_of_a_wrong_type_is_refused(identifier, known, ring_experiments):
    with pytest.raises(TypeError, match=r"known_mask is a .* that does not convert to a numeric array"):
        identifier.fit(*ring_experiments, known)


@pytest.mark.parametrize(
    ("adjacency", "words"),
    [
        (partial(p0_2=1), "not symmetric"),
        (partial(p3_3=1), "self-loop at node 3"),
        (0.3 * partial(), "holds the value 0.3; expected an unweighted graph"),
        (partial(p0_1=NAN, p1_0=NAN), "holds the value nan"),
        (np.zeros((5, 5)), r"known_adjacency has shape \(5, 5\) but X has 6 nodes"),
    ],
)
def test_known_adjacency_is_refused(identifier, adjacency, words, ring_experiments):
    with pytest.raises(ValueError, match=words):
        identifier.fit(*ring_experiments, np.ones((6, 6), dtype=bool), adjacency)


def test_asymmetric_boolean_mask_is_refused(identifier, ring, ring_experiments):
    mask = np.ones((6, 6), dtype=bool)
    mask[2, 4] = False
    with pytest.raises(ValueError, match=r"mask is not symmetric: entry \(2, 4\)"):
        identifier.fit(*ring_experiments, mask, ring)


def test_values_without_a_mask_are_refused(identifier, ring, ring_known, ring_experiments):
    with pytest.raises(ValueError, match="known_adjacency was given without known_mask"):
        identifier.fit(*ring_experiments, known_adjacency=ring)
    with pytest.raises(ValueError, match="known_mask is a KnownEdges and holds the values"):
        identifier.fit(*ring_experiments, ring_known, ring)
    with pytest.raises(ValueError, match="goes with a boolean known_mask"):
        identifier.fit(*ring_experiments, ring_known.to_array(), ring)


def test_what_stands_outside_the_mask_does_not_matter(identifier, ring, ring_known, ring_experiments):
    rubbish = np.where(ring_known.mask, ring, 17.0)
    one = clone(identifier).fit(*ring_experiments, ring_known.mask, rubbish)
    other = clone(identifier).fit(*ring_experiments, ring_known)
    np.testing.assert_array_equal(one.edge_probabilities_, other.edge_probabilities_)


# Nothing to find


@pytest.mark.parametrize("n_sweeps", [20, 0])
@pytest.mark.parametrize("cls", [LangevinSystemIdentifier, LikelihoodLangevinIdentifier])
def test_everything_known_leaves_least_squares(cls, n_sweeps, ring):
    """The known graph comes back, and theta is a draw from, or the best of, the posterior around least squares."""
    X, Y = make_system(ring, "polynomial", [0.5, -0.3, 0.1], n_experiments=10, random_state=0)
    design = np.stack([X.ravel(), (X @ ring).ravel(), (X @ ring @ ring).ravel()], axis=1)
    expected, squares, _, _ = np.linalg.lstsq(design, Y.ravel(), rcond=None)
    deviations = np.sqrt(squares[0] / (60 - 3) * np.diag(np.linalg.inv(design.T @ design)))
    settings = {"n_sweeps": n_sweeps, "n_levels": 5, "n_steps": 6, "random_state": 0}

    best = cls("polynomial", point_estimate="best", **settings).fit(X, Y, ring)
    np.testing.assert_array_equal(best.adjacency_, ring)
    np.testing.assert_array_equal(best.edge_probabilities_, ring)
    np.testing.assert_allclose(best.theta_, expected, rtol=1e-5)

    mean = clone(best).set_params(point_estimate="marginal", n_chains=64).fit(X, Y, ring)
    np.testing.assert_array_equal(mean.adjacency_, ring)
    # 64 independent chains: five standard errors are 0.63 posterior deviations; one false alarm in 500,000 runs each.
    assert (np.abs(mean.theta_ - expected) < 0.63 * deviations).all()
    assert mean.sample(5, random_state=0)[0].shape == (5, 6, 6)
    assert mean.noise_std_ == pytest.approx(np.sqrt(squares[0] / 57), rel=0.2)


def test_everything_known_leaves_least_squares_to_adam(ring):
    X, Y = make_system(ring, "polynomial", [0.5, -0.3, 0.1], n_experiments=10, random_state=0)
    design = np.stack([X.ravel(), (X @ ring).ravel(), (X @ ring @ ring).ravel()], axis=1)
    expected = np.linalg.lstsq(design, Y.ravel(), rcond=None)[0]
    fitted = AdamSystemIdentifier("polynomial", max_iter=800, random_state=0).fit(X, Y, ring)
    np.testing.assert_array_equal(fitted.adjacency_, ring)
    np.testing.assert_allclose(fitted.theta_, expected, atol=2e-3)


@pytest.mark.parametrize("filter", ["polynomial", "heat"])
def test_one_node_has_no_edges(identifier, filter):
    X = np.random.default_rng(0).normal(size=(8, 1))
    identifier.set_params(filter=filter).fit(X, 2 * X)
    np.testing.assert_array_equal(identifier.adjacency_, [[0]])
    np.testing.assert_array_equal(identifier.edge_probabilities_, [[0.0]])
    assert identifier.predict(X).shape == (8, 1)
    assert identifier.sample(3, random_state=0)[0].shape == (3, 1, 1)
    assert list(identifier.to_networkx().edges) == []


def test_two_nodes_and_one_pair(identifier):
    edge = np.array([[0.0, 1.0], [1.0, 0.0]])
    X, Y = make_system(edge, "heat", [0.5], n_experiments=1, random_state=0)
    identifier.fit(X, Y)
    assert identifier.adjacency_.shape == (2, 2)


# Filters


@pytest.mark.parametrize("name", ["Heat", "fourier", ""])
def test_unknown_filter_name(identifier, name, ring_experiments):
    with pytest.raises(
        ValueError, match=r"filter=.* is not known; expected one of \['arma', 'heat', 'polynomial', 'steady-state'\]"
    ):
        identifier.set_params(filter=name).fit(*ring_experiments)


@pytest.mark.parametrize("filter", [3, None, PolynomialFilter, np.eye(6), torch.matrix_exp, LinearRegression()])
def test_filter_of_a_wrong_type(identifier, filter, ring_experiments):
    with pytest.raises(InvalidParameterError, match=r"The 'filter' parameter of .* must be .*GraphFilter"):
        identifier.set_params(filter=filter).fit(*ring_experiments)


def flat(adjacency, theta):
    return adjacency[0]


@pytest.mark.parametrize(
    ("filter", "error", "words"),
    [
        (PolynomialFilter(-1), ValueError, "order=-1; expected an integer of at least 0"),
        (PolynomialFilter(1.5), ValueError, "order=1.5; expected an integer"),
        (PolynomialFilter(initial_scale=0), ValueError, "initial_scale=0; expected a positive number"),
        (HeatDiffusionFilter("random-walk"), ValueError, "laplacian='random-walk'; expected one of"),
        (HeatDiffusionFilter(initial_low=0.9), ValueError, "expected 0 <= initial_low <= initial_high"),
        (ARMAFilter(ar_order=0), ValueError, "ar_order=0; expected an integer of at least 1"),
        (CallableFilter("x"), TypeError, "expected a function"),
        (CallableFilter(flat, names=()), ValueError, "expected a list or tuple of str, one for each parameter"),
        (CallableFilter(flat, limits=((0, 1), (0, 1))), ValueError, "2 limits for 1 names; expected one each"),
        (CallableFilter(flat), ValueError, "expected one filter matrix for each"),
    ],
)
def test_filters_say_what_is_wrong_with_them(identifier, filter, error, words, ring_experiments):
    with pytest.raises(error, match=words):
        identifier.set_params(filter=filter).fit(*ring_experiments)


# Priors


def test_unfitted_prior_names_the_way_out(langevin, ring_experiments):
    for prior in (GraphPriorScore(), FrozenEstimator(GraphPriorScore())):
        with pytest.raises(NotFittedError, match=r"prior=FrozenEstimator\(prior\)"):
            langevin.set_params(prior=prior).fit(*ring_experiments)


@pytest.mark.parametrize("prior", [0.3, "grid", "", np.full((6, 6), 0.5), LinearRegression(), ErdosRenyiPrior])
def test_prior_of_a_wrong_type(langevin, prior, ring_experiments):
    with pytest.raises(InvalidParameterError, match="The 'prior' parameter of LangevinSystemIdentifier must be"):
        langevin.set_params(prior=prior).fit(*ring_experiments)


def test_unknown_name_of_a_prior_is_refused_with_those_that_are_shipped(langevin, ring_experiments):
    with pytest.raises(InvalidParameterError, match=r"'prior' parameter .*'grids'.* Got 'grid' instead"):
        langevin.set_params(prior="grid").fit(*ring_experiments)


def test_frozen_estimator_that_is_no_prior(langevin, ring_experiments):
    with pytest.raises(TypeError, match="prior is a LinearRegression; expected a GraphPrior"):
        langevin.set_params(prior=FrozenEstimator(LinearRegression())).fit(*ring_experiments)


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        (ErdosRenyiPrior(0.0), "p=0.0; expected a number strictly between 0 and 1"),
        (ErdosRenyiPrior(1.2), "p=1.2; expected a number strictly"),
        (StochasticBlockPrior([0, 0, 1], [[0.5, 0.1], [0.1, 0.5]]), "3,.* but there are 6 nodes; expected one label"),
        (StochasticBlockPrior([0, 1, 2, 0, 1, 2], [[0.5, 0.1], [0.1, 0.5]]), "labels must be integers from 0 to 1"),
        (StochasticBlockPrior([0, 1] * 3, [[0.5, 0.2], [0.1, 0.5]]), "not symmetric"),
    ],
)
def test_closed_form_priors_say_what_is_wrong_with_them(langevin, prior, words, ring_experiments):
    with pytest.raises(ValueError, match=words):
        langevin.set_params(prior=prior).fit(*ring_experiments)


@pytest.fixture(scope="module")
def levelled_prior():
    """A network that knows its own noise levels and no others."""
    graphs = make_grid_graphs(4, min_nodes=6, max_nodes=6, min_side=2, max_side=3, random_state=0)
    settings = {"n_levels": 3, "sigma_max": 0.4, "sigma_min": 0.1, "max_epochs": 1, "validation_fraction": 0.0}
    return GraphPriorScore("edp-gnn", random_state=0, **settings).fit(graphs)


@pytest.mark.parametrize("settings", [SHORT, {**PAPER_SETTINGS, "n_steps": 1}, {"n_chains": 2, "n_levels": 5}])
def test_a_prior_that_knows_some_noise_levels_is_asked_at_the_nearest(settings, levelled_prior, ring_experiments):
    prior = FrozenEstimator(levelled_prior)
    fitted = LangevinSystemIdentifier("heat", prior, **{**settings, "random_state": 0}).fit(*ring_experiments)
    assert set(fitted.diagnostics_["sigma"]) <= set(levelled_prior.sigmas_)
    assert np.isfinite(fitted.edge_probabilities_).all()


@pytest.mark.parametrize(
    ("edge_prior", "words"),
    [
        (np.full((5, 5), 0.5), "there are 6 nodes"),
        (np.full((6, 6), 1.5), "expected probabilities between 0 and 1"),
        (np.full((6, 6), NAN), "expected probabilities between 0 and 1"),
        (np.triu(np.full((6, 6), 0.5)), "not symmetric"),
        (np.full(6, 0.5), "expected a square matrix"),
    ],
)
def test_evidence_is_refused(langevin, edge_prior, words, ring_experiments):
    with pytest.raises(ValueError, match=words):
        langevin.set_params(edge_prior=edge_prior).fit(*ring_experiments)


def test_certain_evidence_is_allowed(langevin, ring, ring_experiments):
    langevin.set_params(edge_prior=ring).fit(*ring_experiments)
    assert np.isfinite(langevin.edge_probabilities_).all()


# Parameters


def test_step_beyond_single_precision(sampler, ring_experiments):
    with pytest.raises(ValueError, match=r"step_size=1e\+39 makes a step of .*; expected at most 1e\+38"):
        sampler.set_params(step_size=1e39).fit(*ring_experiments)


def test_noise_levels_the_wrong_way_round(sampler, ring_experiments):
    with pytest.raises(ValueError, match=r"sigma_min=0.9 is above sigma_max=0.2"):
        sampler.set_params(sigma_max=0.2, sigma_min=0.9).fit(*ring_experiments)
    sampler.set_params(sigma_max=0.3, sigma_min=0.3).fit(*ring_experiments)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_cuda_without_cuda(on_a_device, ring_experiments):
    with pytest.raises(ValueError, match="device='cuda' but torch finds no CUDA device here; expected 'cpu' or 'auto'"):
        on_a_device.set_params(device="cuda").fit(*ring_experiments)
    on_a_device.set_params(device="auto").fit(*ring_experiments)


def test_device_that_does_not_exist(on_a_device, ring_experiments):
    for device, words in (("gpu", "device='gpu' is not a torch device"), ("mps", "device='mps' is not supported")):
        with pytest.raises(ValueError, match=words):
            on_a_device.set_params(device=device).fit(*ring_experiments)


@pytest.mark.parametrize(
    ("nodes", "columns", "words"),
    [
        ("some", 6, "observed_nodes='some'; expected 'auto', 'all', 'leading', or a list of nodes"),
        ("all", 4, "Y has 4 columns but X has 6 nodes"),
        ([0, 1, 2], 4, "observed_nodes names 3 nodes but Y has 4 columns"),
        ([0, 1, 1], 3, "different integers from 0 to 5"),
        ([0, 1, 6], 3, "different integers from 0 to 5"),
        ([-1, 0], 2, "different integers from 0 to 5"),
        ([0.0, 1.0], 2, "or a list of nodes, by their numbers or by the names"),
        ([True, False], 2, "or a list of nodes, by their numbers or by the names"),
        ([[0, 1]], 2, "or a list of nodes, by their numbers or by the names"),
        ([], 2, "or a list of nodes, by their numbers or by the names"),
        (["a", "b"], 2, "or a list of nodes, by their numbers or by the names"),
    ],
)
def test_wrong_observed_nodes(identifier, nodes, columns, words, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(ValueError, match=words):
        identifier.set_params(observed_nodes=nodes).fit(X, Y[:, :columns])


def test_wrong_number_of_samples(identifier, ring_experiments):
    identifier.fit(*ring_experiments)
    for n_samples in (0, 1.5, True, None):
        with pytest.raises((TypeError, ValueError), match=r"n_samples=.*; expected an integer of at least 1"):
            identifier.sample(n_samples)


# After a failed fit


def everything_fitted(identifier):
    return copy.deepcopy({name: value for name, value in vars(identifier).items() if name.endswith("_")})


def assert_untouched(identifier, before, X, predicted):
    after = everything_fitted(identifier)
    assert before.keys() == after.keys()
    for name in ("adjacency_", "theta_", "edge_probabilities_", "noise_std_", "n_features_in_"):
        np.testing.assert_array_equal(after[name], before[name], err_msg=name)
    np.testing.assert_array_equal(after["known_edges_"].to_array(), before["known_edges_"].to_array())
    np.testing.assert_array_equal(identifier.predict(X), predicted)
    assert identifier.sample(2, random_state=0)[0].shape == (2, 6, 6)


def failing_fits(X, Y, known):
    """Arguments of fits of a network of another size that fail at different places."""
    small, wide = X[:, :5], np.hstack([Y, Y])
    return [
        ((np.where(small > 9, small, NAN), Y[:, :5]), {}),
        ((small, Y[:3, :5]), {}),
        ((small, wide), {}),
        ((small, np.full((20, 5), np.inf)), {}),
        ((small, np.full(20, NAN)), {}),
        ((small, Y[:, 0], known), {}),
        ((small, Y[:, 0]), {"filter": "fourier"}),
        ((small, Y[:, 0]), {"observed_nodes": None}),
    ]


@pytest.mark.filterwarnings("ignore:Y has 1 columns for 5 nodes:UserWarning")
def test_failed_fit_loses_nothing(identifier, ring_known, ring_experiments):
    X, Y = ring_experiments
    identifier.fit(X, Y, ring_known)
    before, predicted = everything_fitted(identifier), identifier.predict(X)
    for arguments, parameters in failing_fits(X, Y, ring_known):
        kept = {name: getattr(identifier, name) for name in parameters}
        with pytest.raises(ValueError):  # noqa: PT011 - what it says is tested above
            identifier.set_params(**parameters).fit(*arguments)
        assert_untouched(identifier.set_params(**kept), before, X, predicted)


def test_diverging_fit_loses_nothing(on_a_device, ring_known, ring_experiments):
    """Numbers beyond single precision."""
    X, Y = ring_experiments
    on_a_device.fit(X, Y, ring_known)
    before, predicted = everything_fitted(on_a_device), on_a_device.predict(X)
    with pytest.raises((FloatingPointError, ValueError)):
        on_a_device.fit(1e25 * X[:, :5], 1e25 * Y[:, :5])
    assert_untouched(on_a_device, before, X, predicted)


# Data that are valid numbers, but rarely what was meant


def warnings_of(identifier, X, Y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        identifier.fit(X, Y)
    return [str(warning.message) for warning in caught if warning.filename == __file__]


@pytest.mark.parametrize("tables", [("X",), ("Y",), ("X", "Y")])
def test_row_labels_that_were_read_as_a_node_are_noticed(tables, tmp_path):
    """Written with labels, read without `index_col`: pandas makes a column of them."""
    inputs, outputs = make_system(nx.path_graph(4), "heat", [0.5], n_experiments=9, random_state=0)
    read = {}
    for name, values in (("X", inputs), ("Y", outputs)):
        pd.DataFrame(values, columns=[*"abcd"]).to_csv(tmp_path / f"{name}.csv")
        read[name] = pd.read_csv(tmp_path / f"{name}.csv", index_col=None if name in tables else 0)
    ridge = RidgeSystemIdentifier("heat")
    if tables == ("Y",):  # a node that X does not have, which is an error, after the warning
        with pytest.warns(UserWarning, match="index_col=0"), pytest.raises(ValueError, match="'Unnamed: 0'"):
            ridge.fit(read["X"], read["Y"])
        return
    (text,) = (text for text in warnings_of(ridge, read["X"], read["Y"]) if "Unnamed: 0" in text)
    assert text.startswith("X has a column" if tables == ("X",) else "X and Y have a column")
    assert "pandas.read_csv(..., index_col=0)" in text


def test_inputs_of_zero_are_noticed():
    _, Y = make_system(nx.path_graph(4), "heat", [0.5], n_experiments=9, random_state=0)
    (text,) = warnings_of(RidgeSystemIdentifier("heat"), np.zeros_like(Y), Y)
    assert "X holds nothing but zeros" in text


def test_outputs_that_are_the_inputs_are_noticed():
    X, Y = make_system(nx.path_graph(4), "heat", [0.5], n_experiments=9, random_state=0)
    again = X.copy()
    again[0, 0] = np.nan
    for outputs in (X, again, X[:, :2]):
        identifier = RidgeSystemIdentifier("heat", observed_nodes="leading")
        assert any("Y is equal to X" in text for text in warnings_of(identifier, X, outputs))
    again[1, 1] += 1e-9
    for outputs in (Y, again):
        assert not any("equal" in text for text in warnings_of(RidgeSystemIdentifier("heat"), X, outputs))


def test_rows_that_are_copies_are_noticed():
    X, Y = make_system(nx.path_graph(4), "heat", [0.5], n_experiments=9, random_state=0)
    Y[3, 1] = NAN
    both = [np.vstack([values, values[2:5]]) for values in (X, Y)]
    (text,) = (text for text in warnings_of(RidgeSystemIdentifier("heat"), *both) if "copies" in text)
    assert text.startswith("3 of 12 rows of X and Y are copies of other rows.")
    # An experiment that is repeated has noise of its own, and controls without input or output are alike.
    repeated = [np.vstack([X, X]), np.vstack([Y, Y + 1e-9])]
    controls = [np.vstack([values, np.zeros((2, 4))]) for values in (X, Y)]
    for data in ((X, Y), repeated, controls):
        assert not any("copies" in text for text in warnings_of(RidgeSystemIdentifier("heat"), *data))


@pytest.mark.parametrize("names", [None, [*"abcd"]])
def test_missing_inputs_are_told_with_their_place_and_no_other_estimator(names):
    X, Y = make_system(nx.path_graph(4), "heat", [0.5], n_experiments=9, random_state=0)
    gaps = X.copy()
    gaps[3, 2] = gaps[5, 1] = NAN
    X, gaps = (pd.DataFrame(values, columns=names) for values in (X, gaps))
    node = 2 if names is None else "'c'"
    message = f"Input X contains NaN: 2 of 36 entries, the first in row 3 at node {node}; expected a number for every"
    with pytest.raises(ValueError, match=message) as caught:
        RidgeSystemIdentifier("heat").fit(gaps, Y)
    assert "HistGradient" not in str(caught.value)
    with pytest.raises(ValueError, match=message):
        RidgeSystemIdentifier("heat").fit(X, Y).predict(gaps)
