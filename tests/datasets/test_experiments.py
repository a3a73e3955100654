"""Simulated systems against numpy and scipy, and hidden edges by counting."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse
from scipy.linalg import expm

from sklearn_graphid import KnownEdges, LangevinSystemIdentifier
from sklearn_graphid._utils import _torch
from sklearn_graphid.datasets import as_experiments, hide_edges, make_grid_graphs, make_system
from sklearn_graphid.filters import CallableFilter, HeatDiffusionFilter, PolynomialFilter


@pytest.fixture(scope="module")
def adjacency():
    return make_grid_graphs(1, random_state=0)[0]


# make_system


def test_polynomial_against_numpy(adjacency):
    theta = np.array([0.3, -0.2, 0.1])
    X, Y = make_system(adjacency, "polynomial", theta, n_experiments=7, noise_std=0, random_state=0)
    matrix = theta[0] * np.eye(len(adjacency)) + theta[1] * adjacency + theta[2] * adjacency @ adjacency
    np.testing.assert_allclose(Y, np.stack([matrix @ x for x in X]), atol=1e-12)


def test_heat_against_scipy(adjacency):
    X, Y = make_system(adjacency, "heat", [0.5], n_experiments=4, noise_std=0, random_state=0)
    laplacian = np.diag(adjacency.sum(0)) - adjacency
    np.testing.assert_allclose(Y, X @ expm(-0.5 * laplacian), atol=1e-10)


def test_a_scalar_theta_serves_a_filter_with_one_parameter(adjacency):
    with_scalar = make_system(adjacency, "heat", 0.5, random_state=0)
    with_list = make_system(adjacency, HeatDiffusionFilter(), [0.5], random_state=0)
    for one, same in zip(with_scalar, with_list, strict=True):
        np.testing.assert_array_equal(one, same)


def test_inputs_are_uniform_and_noise_is_normal(adjacency):
    X, Y = make_system(adjacency, "polynomial", [1.0, 0.0, 0.0], n_experiments=2_000, noise_std=0.5, random_state=0)
    noise = Y - X
    # 98,000 draws: the standard deviation is known to .0011, the mean square input of 100 / 3 to .1; 5 sigma.
    assert abs(noise.std() - 0.5) < 5 * 0.5 / np.sqrt(2 * noise.size)
    assert abs((X**2).mean() - 100 / 3) < 5 * np.sqrt(1e4 * 4 / 45 / X.size)
    assert np.abs(X).max() <= 10
    assert np.abs(X).max() > 9.99
    assert abs(np.corrcoef(noise[:-1].ravel(), noise[1:].ravel())[0, 1]) < 5 / np.sqrt(noise.size)


def test_each_node_has_its_noise_and_the_inputs_have_theirs():
    graph, levels = nx.relabel_nodes(nx.path_graph(3), dict(enumerate("abc"))), pd.Series([2.0, 0.0, 0.5], list("cab"))
    sizes = {"n_experiments": 5_000, "random_state": 0}
    exact, _ = make_system(graph, PolynomialFilter(1), [0.0, 1.0], noise_std=0, **sizes)
    X, Y = make_system(graph, PolynomialFilter(1), [0.0, 1.0], noise_std=levels, input_noise_std=0.3, **sizes)
    noise = Y - exact @ nx.to_numpy_array(graph)
    # 5,000 draws: a relative standard error of .01, and 5 of them.
    np.testing.assert_allclose(noise.std(0), [0.0, 0.5, 2.0], rtol=0.05, atol=1e-12)
    np.testing.assert_allclose((X - exact).std(0), 0.3, rtol=0.05)
    assert np.abs(np.corrcoef((X - exact)[:, 1:].T, noise[:, 1:].T)[:2, 2:]).max() < 5 / np.sqrt(5_000)


def test_input_scale(adjacency):
    X, _ = make_system(adjacency, input_scale=0.1, random_state=0)
    assert 0.09 < np.abs(X).max() <= 0.1


def test_shapes_and_types(adjacency):
    X, Y, theta = make_system(adjacency, "polynomial", n_experiments=3, return_theta=True, random_state=0)
    assert X.shape == Y.shape == (3, len(adjacency))
    assert theta.shape == (3,)
    assert X.dtype == Y.dtype == theta.dtype == np.float64


def test_theta_that_was_drawn_is_the_theta_that_was_used(adjacency):
    X, Y, theta = make_system(adjacency, "heat", return_theta=True, noise_std=0, random_state=4)
    assert 0.3 <= theta[0] <= 0.7
    X_again, Y_again = make_system(adjacency, "heat", theta, noise_std=0, random_state=4)
    np.testing.assert_array_equal(X, X_again)
    np.testing.assert_array_equal(Y, Y_again)


def test_inputs_and_noise_depend_on_the_seed_alone(adjacency):
    X, Y = make_system(adjacency, "polynomial", [1.0, 0.0, 0.0], random_state=5)
    X_heat, Y_heat = make_system(adjacency, "heat", 0.0, random_state=5)
    np.testing.assert_array_equal(X, X_heat)
    np.testing.assert_allclose(Y, Y_heat, atol=1e-10)  # both filters are the identity
    assert (make_system(adjacency, random_state=6)[0] != X).any()


def test_thread_count_changes_no_bit(adjacency):
    runs = []
    for n_threads in (1, 2):
        with _torch.torch_threads(n_threads):
            runs.append(make_system(adjacency, "heat", 0.5, n_experiments=50, random_state=0)[1])
    np.testing.assert_array_equal(*runs)


def test_torch_is_left_as_it_was(adjacency):
    state, n_threads = torch.get_rng_state(), torch.get_num_threads()
    make_system(adjacency, random_state=0)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == n_threads
    assert torch.is_grad_enabled()


def test_the_network_may_be_sparse_or_networkx(adjacency):
    expected = make_system(adjacency, theta=[0.1, 0.2, 0.3], random_state=0)[1]
    for network in (sparse.csr_array(adjacency), nx.from_numpy_array(adjacency)):
        np.testing.assert_array_equal(make_system(network, theta=[0.1, 0.2, 0.3], random_state=0)[1], expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"theta": [0.1, 0.2]}, r"theta has shape \(2,\) but PolynomialFilter has 3 parameter\(s\): "),
        ({"theta": [[0.1, 0.2, 0.3]]}, r"theta has shape \(1, 3\)"),
        ({"theta": [0.1, np.nan, 0.3]}, "theta holds the value nan; expected finite numbers"),
        ({"n_experiments": 0}, "n_experiments=0; expected an integer of at least 1"),
        ({"input_scale": 0.0}, "input_scale=0.0; expected a positive number"),
        ({"noise_std": -1.0}, "noise_std=-1.0; expected a number between 0 and"),
        ({"noise_std": [1.0, 2.0]}, r"noise_std has shape \(2,\); expected \(\d+,\), one number for each node"),
        ({"noise_std": np.full(49, -1.0)}, "noise_std=-1.0; expected a number between 0 and"),
        ({"input_noise_std": -1.0}, "input_noise_std=-1.0; expected a number between 0 and"),
        ({"filter": "polynomal"}, "polynomal"),
    ],
)
def test_wrong_arguments_are_refused(adjacency, arguments, message):
    with pytest.raises(ValueError, match=message):
        make_system(adjacency, **arguments)


def test_a_wrong_network_is_refused():
    with pytest.raises(ValueError, match="adjacency is not symmetric"):
        make_system(np.triu(np.ones((3, 3)), 1))


def test_a_filter_of_another_order_has_its_own_theta(adjacency):
    X, Y = make_system(adjacency, PolynomialFilter(1), [2.0, 1.0], noise_std=0, random_state=0)
    np.testing.assert_allclose(Y, 2 * X + X @ adjacency, atol=1e-12)


# hide_edges


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.25, 1 / 3, 0.5, 1.0])
def test_exactly_the_fraction_is_hidden(adjacency, fraction):
    n_pairs = len(adjacency) * (len(adjacency) - 1) // 2
    known = hide_edges(adjacency, fraction, random_state=0)
    assert isinstance(known, KnownEdges)
    assert known.n_unknown == round(fraction * n_pairs)


def test_known_pairs_keep_their_values_and_hidden_ones_leave_no_trace(adjacency):
    known = hide_edges(adjacency, 0.5, random_state=0)
    np.testing.assert_array_equal(known.values[known.mask], adjacency[known.mask])
    assert not known.values[~known.mask].any()
    assert adjacency[~known.mask].any()


def test_every_pair_is_hidden_equally_often():
    """Ten pairs, three hidden: each with probability .3, whether it is an edge or not."""
    n_draws = 2_000
    random = np.random.RandomState(0)
    hidden = sum(~hide_edges(nx.cycle_graph(5), 0.3, random_state=random).mask for _ in range(n_draws)) / n_draws
    # Standard error .0102; ten pairs at 4.5 sigma alarm once in 15,000 seeds, and the seed is fixed.
    assert np.abs(hidden[np.triu_indices(5, 1)] - 0.3).max() < 4.5 * np.sqrt(0.3 * 0.7 / n_draws)


def test_hiding_is_reproducible(adjacency):
    first, second, other = (hide_edges(adjacency, random_state=seed).mask for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()


def test_one_node_has_nothing_to_hide():
    assert hide_edges(np.zeros((1, 1)), 1.0).n_unknown == 0


@pytest.mark.parametrize("fraction", [-0.1, 1.1])
def test_fractions_beyond_the_whole_are_refused(adjacency, fraction):
    with pytest.raises(ValueError, match=r"fraction=.*; expected a number between 0 and 1"):
        hide_edges(adjacency, fraction)


@pytest.mark.parametrize("fraction", [np.nan, np.inf, "a", True, None, 1j])
def test_fractions_that_are_no_numbers_are_refused(adjacency, fraction):
    with pytest.raises((TypeError, ValueError), match=r"^fraction=.*; expected a number between 0 and 1"):
        hide_edges(adjacency, fraction)


# Arguments that are no numbers


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e308, "a", None, True, 1j])
@pytest.mark.parametrize("name", ["input_scale", "noise_std", "input_noise_std"])
def test_scales_that_are_no_numbers_are_refused_by_name(adjacency, name, value):
    with pytest.raises((TypeError, ValueError), match=f"^{name}=.*; expected a"):
        make_system(adjacency, **{name: value})


@pytest.mark.parametrize("value", [True, 2.5, np.nan, "a", None])
def test_numbers_of_experiments_that_are_no_integers_are_refused(adjacency, value):
    with pytest.raises((TypeError, ValueError), match=r"^n_experiments=.*; expected an integer of at least 1"):
        make_system(adjacency, n_experiments=value)


@pytest.mark.parametrize(
    ("theta", "words"),
    [
        ("a", "theta has the type <U1; expected real numbers"),
        (["0.5"], "theta has the type <U3; expected real numbers"),
        (np.datetime64("2020-01-01"), r"theta has the type datetime64\[D\]"),
        ([np.timedelta64(1, "s")], r"theta has the type timedelta64\[s\]"),
        ([0.5 + 0j], "theta has the type complex128"),
        ([None], "theta has the type object"),
        ([object()], "theta has the type object"),
        (True, "theta has the type bool"),
        ({"theta": 0.5}, "theta has the type object"),
        ([[0.5], [0.5, 0.6]], "theta does not convert to an array"),
        (torch.tensor([0.5], requires_grad=True), "theta does not convert to an array"),
        (np.ma.masked_array([0.5], mask=[True]), "theta holds the value nan"),
        (10**400, "theta holds an integer that is too large"),
        (-5, "theta is -5, outside the bounds of HeatDiffusionFilter; expected between 0 and 10"),
        (10.5, "theta is 10.5, outside the bounds of HeatDiffusionFilter"),
    ],
)
def test_theta_that_is_no_number_or_out_of_bounds_is_refused(adjacency, theta, words):
    with pytest.raises((TypeError, ValueError), match=words):
        make_system(adjacency, "heat", theta, random_state=0)


def test_bounds_name_the_parameter(adjacency):
    filter = CallableFilter(torch.add, names=("gain", "loss"), limits=((0, 1), (0, 2)))
    with pytest.raises(ValueError, match=r"theta \(loss\) is 3, outside the bounds of CallableFilter"):
        make_system(adjacency, filter, [0.5, 3.0])


@pytest.mark.parametrize("function", [make_system, hide_edges])
@pytest.mark.parametrize("dtype", [str, "datetime64[D]", "timedelta64[s]", complex])
def test_networks_that_are_no_numbers_are_refused(function, dtype):
    """All of them become zeros and ones if numpy is asked for floats."""
    network = np.array([[0, 1], [1, 0]]).astype(dtype)
    for values in (network, network.tolist()):
        with pytest.raises(TypeError, match=r"adjacency has the type .*; expected real numbers"):
            function(values, random_state=0)


@pytest.mark.parametrize("dtype", [bool, object, np.float32, np.uint8])
def test_networks_of_any_sort_of_number_are_fine(dtype):
    network = np.array([[0, 1], [1, 0]]).astype(dtype)
    assert hide_edges(network, 0.0, random_state=0).values[0, 1] == 1.0
    assert make_system(network, "heat", random_state=0)[0].shape == (10, 2)


@pytest.mark.parametrize("network", [3, None, "ring", [[0, 1], [1]]])
def test_networks_that_are_no_matrices_are_refused(network):
    with pytest.raises((TypeError, ValueError), match=r"^adjacency (has|does not)"):
        make_system(network)


def test_outputs_that_are_no_numbers_are_refused(adjacency):
    def undefined(adjacency, theta):
        return adjacency * torch.nan

    with pytest.raises(ValueError, match=r"outputs of CallableFilter are infinite or nan at theta=\[0.1\]"):
        make_system(adjacency, CallableFilter(undefined), [0.1], random_state=0)


# Strengths and directions


@pytest.fixture(scope="module")
def one_way():
    """Edges of different strengths, one way only."""
    random = np.random.default_rng(0)
    return np.triu(random.normal(size=(6, 6)), 1) * (random.random((6, 6)) < 0.6)


def test_strengths_and_directions_against_numpy(one_way):
    strengths, filter = one_way + one_way.T, PolynomialFilter(1)
    X, Y = make_system(strengths, filter, [0.0, 1.0], noise_std=0, random_state=0)
    np.testing.assert_allclose(Y, X @ strengths, atol=1e-12)
    X, Y = make_system(one_way, filter, [0.0, 1.0], noise_std=0, directed=True, random_state=0)
    np.testing.assert_allclose(Y, np.stack([one_way @ x for x in X]), atol=1e-12)


def test_a_directed_network_of_networkx_flows_from_source_to_target():
    X, Y = make_system(
        nx.DiGraph([(0, 1), (1, 2)]), PolynomialFilter(1), [0.0, 1.0], noise_std=0, directed=True, random_state=0
    )
    np.testing.assert_array_equal(Y[:, 1:], X[:, :2])
    assert not Y[:, 0].any()


@pytest.mark.parametrize("function", [make_system, hide_edges])
def test_directions_have_to_be_asked_for(function, one_way):
    with pytest.raises(ValueError, match=r"adjacency is not symmetric.*directed=True"):
        function(one_way)
    with pytest.raises(ValueError, match=r"adjacency is a networkx DiGraph.*directed=True"):
        function(nx.DiGraph([(0, 1)]))
    with pytest.raises(TypeError, match="directed='yes'; expected True or False"):
        function(one_way, directed="yes")
    with pytest.raises(ValueError, match="adjacency holds the value inf; expected finite numbers"):
        function(np.array([[0, np.inf], [np.inf, 0]]))


@pytest.mark.parametrize("fraction", [0.0, 0.3, 1.0])
def test_ordered_pairs_are_hidden_one_by_one(one_way, fraction):
    known = hide_edges(one_way, fraction, directed=True, random_state=0)
    assert known.directed
    assert known.n_unknown == round(30 * fraction)
    np.testing.assert_array_equal(known.values, (one_way != 0) & known.mask)
    assert known.weights is None
    if fraction == 0.3:
        assert (known.mask != known.mask.T).any()


def test_strengths_of_known_edges_are_kept_on_demand(one_way):
    strengths = one_way + one_way.T
    assert hide_edges(strengths, 0.5, random_state=0).weights is None
    known = hide_edges(strengths, 0.5, keep_weights=True, random_state=0)
    np.testing.assert_array_equal(known.weights, np.where(known.mask & (strengths != 0), strengths, np.nan))
    np.testing.assert_array_equal(known.mask, hide_edges(strengths != 0, 0.5, random_state=0).mask)


@pytest.mark.parametrize("flag", [True, False])
def test_a_flag_is_no_seed(adjacency, flag):
    for make in (
        lambda: make_system(adjacency, "heat", [0.5], random_state=flag),
        lambda: hide_edges(adjacency, 0.5, random_state=flag),
        lambda: make_grid_graphs(1, random_state=flag),
    ):
        with pytest.raises(TypeError, match=rf"random_state={flag}; expected an integer, a RandomState or None"):
            make()


# Time series


@pytest.fixture
def series():
    return np.random.default_rng(0).normal(size=(6, 3))


@pytest.mark.parametrize("lag", [1, 2, 5])
def test_outputs_come_after_inputs(series, lag):
    X, Y = as_experiments(series, lag)
    assert len(X) == 6 - lag
    for place in range(6 - lag):
        np.testing.assert_array_equal(X[place], series[place])
        np.testing.assert_array_equal(Y[place], series[place + lag])


def test_no_pair_crosses_a_border(series):
    X, Y = as_experiments([series[:2], series[2:]])
    kept = [0, 2, 3, 4]  # that of 1 to 2 is left out
    np.testing.assert_array_equal(X, series[kept])
    np.testing.assert_array_equal(Y, series[np.array(kept) + 1])


@pytest.mark.parametrize("several", [list, tuple, np.stack])
def test_several_series_in_any_container(series, several):
    X, Y = as_experiments(several([series[:3], series[3:]]))
    np.testing.assert_array_equal(X, series[[0, 1, 3, 4]])
    np.testing.assert_array_equal(Y, series[[1, 2, 4, 5]])


def test_a_list_of_rows_is_one_series(series):
    np.testing.assert_array_equal(as_experiments(series.tolist())[1], series[1:])


@pytest.mark.parametrize("library", [pd, pl])
def test_frames_keep_names(series, library):
    columns = dict(zip("abc", series.T, strict=True))
    frame = library.DataFrame(columns)
    other = library.DataFrame({name: columns[name] for name in "cab"})
    X, Y = as_experiments([frame, other])
    assert isinstance(X, library.DataFrame)
    assert list(X.columns) == list(Y.columns) == ["a", "b", "c"]
    np.testing.assert_array_equal(X.to_numpy(), np.concatenate([series[:-1], series[:-1]]))
    np.testing.assert_array_equal(Y.to_numpy(), np.concatenate([series[1:], series[1:]]))


def test_a_frame_keeps_its_times(series):
    times = pd.date_range("2024-01-01", periods=6)
    X, Y = as_experiments(pd.DataFrame(series, times, ["a", "b", "c"]))
    assert list(X.index) == list(times[:-1])
    assert list(Y.index) == list(X.index)  # of its experiment, by which the rows of X and Y are matched
    np.testing.assert_array_equal(Y, series[1:])


def test_columns_that_are_called_by_numbers_match_their_text(series):
    X, _ = as_experiments([pd.DataFrame(series), pd.DataFrame(series, columns=["0", "1", "2"])])
    assert list(X.columns) == [0, 1, 2]
    assert not X.isna().any().any()


def test_what_was_given_is_not_changed(series):
    first, second = pd.DataFrame(series, columns=["a", "b", "c"]), pd.DataFrame(series, columns=["c", "b", "a"])
    X, _ = as_experiments([first, second])
    X.iloc[:] = 0.0
    assert list(second.columns) == ["c", "b", "a"]
    np.testing.assert_array_equal(first, series)
    X, _ = as_experiments(series)
    X[:] = 0.0
    assert series.any()


def test_a_simulated_process_is_identified():
    """x[t + 1] = (0.2 I + 0.3 A) x[t] + noise on a ring, kept going by the noise."""
    ring, random = np.roll(np.eye(6), 1, axis=0) + np.roll(np.eye(6), -1, axis=0), np.random.default_rng(0)
    states = [random.normal(size=6)]
    for _ in range(400):
        states.append((0.2 * np.eye(6) + 0.3 * ring) @ states[-1] + random.normal(size=6))
    X, Y = as_experiments(np.array(states))
    fitted = LangevinSystemIdentifier(PolynomialFilter(1), n_chains=4, n_levels=5, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(fitted.adjacency_, ring)
    np.testing.assert_allclose(fitted.theta_, [0.2, 0.3], atol=0.1)


def test_noise_of_the_measurement_weakens_what_is_seen():
    """The share v / (v + s) of the docstring, on a single node that keeps .8 of its state."""
    random, states = np.random.default_rng(0), [0.0]
    for _ in range(20_000):
        states.append(0.8 * states[-1] + random.normal())
    v, s = 1 / (1 - 0.8**2), 2.0
    X, Y = as_experiments((np.array(states) + np.sqrt(s) * random.normal(size=20_001))[:, None])
    slope = float((X * Y).sum() / (X**2).sum())
    assert slope == pytest.approx(0.8 * v / (v + s), abs=0.04)  # its standard error is .006


@pytest.mark.parametrize(
    ("series", "lag", "error", "message"),
    [
        (np.ones((4, 2)), 0, ValueError, "lag=0; expected an integer of at least 1"),
        (np.ones((4, 2)), 1.0, ValueError, "lag=1.0; expected"),
        (np.ones((4, 2)), True, TypeError, "lag=True; expected"),
        (np.ones((2, 2)), 2, ValueError, "series has 2 times, which is too few for lag=2; expected at least 3"),
        (np.ones(4), 1, ValueError, r"series has shape \(4,\); expected \(n_times, n_nodes\)"),
        (np.ones((4, 0)), 1, ValueError, r"series has shape \(4, 0\)"),
        ([], 1, ValueError, "series is empty"),
        ([np.ones((4, 2)), np.ones((4, 3))], 1, ValueError, r"series\[1\] has 3 nodes .* series\[0\] has 2"),
        ([np.ones((4, 2)), np.ones((1, 2))], 1, ValueError, r"series\[1\] has 1 times"),
        ([[1.0, np.nan], [1.0, 2.0]], 1, ValueError, "series holds the value nan; expected finite"),
        (pd.DataFrame({"t": pd.date_range("2024", periods=3)}), 1, TypeError, "series holds dates"),
        ([["a", "b"], ["c", "d"]], 1, TypeError, "series has the type"),
        (pd.DataFrame(np.ones((3, 2)), columns=["a", "a"]), 1, ValueError, "series's columns has the name 'a' twice"),
        (
            [pd.DataFrame(np.ones((3, 2)), columns=["a", "b"]), pd.DataFrame(np.ones((3, 2)), columns=["a", "c"])],
            1,
            ValueError,
            r"the columns of series\[1\] and those of series\[0\] do not name the same nodes",
        ),
        ([pd.DataFrame(np.ones((3, 2)), columns=["a", "b"]), np.ones((3, 2))], 1, TypeError, "expected one kind only"),
    ],
)
def test_wrong_series_are_refused(series, lag, error, message):
    with pytest.raises(error, match=message):
        as_experiments(series, lag)
