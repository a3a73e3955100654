"""Closed forms against autograd, autograd against finite differences, filters against numpy and scipy."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
import torch
from scipy import linalg, sparse
from scipy.integrate import quad

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import (
    ARMAFilter,
    CallableFilter,
    GraphFilter,
    HeatDiffusionFilter,
    PolynomialFilter,
    SteadyStateFilter,
    resolve_filter,
)
from sklearn_graphid.graphs import changed_graphs

N_CHAINS, N_NODES, N_EXPERIMENTS = 3, 7, 4


def hill(adjacency, theta):
    """A filter that is no polynomial: tanh(theta_0 A) + theta_1 I."""
    return torch.tanh(theta[0] * adjacency) + theta[1] * torch.eye(adjacency.shape[-1], dtype=adjacency.dtype)


def constant(adjacency, theta):
    """A filter that ignores theta."""
    return adjacency


FILTERS = {
    "polynomial-0": PolynomialFilter(order=0),
    "polynomial-1": PolynomialFilter(order=1),
    "polynomial-4": PolynomialFilter(order=4),
    "polynomial-laplacian": PolynomialFilter(order=3, shift="laplacian"),
    "polynomial-normalized": PolynomialFilter(order=2, shift="normalized-laplacian"),
    "steady-state": SteadyStateFilter(leak=0.3),
    "steady-state-ground": SteadyStateFilter(ground=2),
    "heat": HeatDiffusionFilter(),
    "heat-normalized": HeatDiffusionFilter(laplacian="normalized"),
    "arma-1-0": ARMAFilter(ar_order=1, ma_order=0),
    "arma-2-3": ARMAFilter(ar_order=2, ma_order=3),
    "callable": CallableFilter(hill, names=("gain", "shift")),
}


DIRECTED = [name for name in FILTERS if "normalized" not in name]
CASES = [(name, False) for name in FILTERS] + [(name, True) for name in DIRECTED]


@pytest.fixture(params=CASES, ids=[name + "-directed" * directed for name, directed in CASES])
def case(request):
    """A filter, and a random point that is no graph, as the sampler meets it; symmetric unless it is directed."""
    generator = torch.Generator().manual_seed(7)
    name, directed = request.param
    filter = FILTERS[name]
    adjacency = torch.rand(N_CHAINS, N_NODES, N_NODES, generator=generator, dtype=torch.float64)
    adjacency = torch.triu(adjacency, 1)
    # The first chain is an exact graph, whose Laplacian has equal eigenvalues and a node of degree zero.
    adjacency[0] = torch.triu(torch.ones(N_NODES, N_NODES), 1)
    adjacency[0, :, -1] = 0
    # The second one has degrees below one, where the normalised Laplacian changes its formula.
    adjacency[1] *= 0.2
    theta = 0.1 + filter.initial_theta(N_CHAINS, generator)
    signals = torch.randn(N_EXPERIMENTS, N_NODES, generator=generator, dtype=torch.float64)
    cotangent = torch.randn(N_CHAINS, N_EXPERIMENTS, N_NODES, generator=generator, dtype=torch.float64)
    adjacency = adjacency + adjacency.mT
    if directed:
        # Nothing becomes zero, where the steady state has a kink.
        adjacency = adjacency * (0.2 + torch.rand(adjacency.shape, generator=generator, dtype=torch.float64))
    return filter, adjacency, theta, signals, cotangent


def test_closed_form_gradients_agree_with_autograd(case):
    filter, adjacency, theta, signals, cotangent = case
    outputs, pullback = filter.linearize(adjacency, theta, signals)
    reference_outputs, reference_pullback = GraphFilter.linearize(filter, adjacency, theta, signals)
    torch.testing.assert_close(outputs, reference_outputs, rtol=1e-10, atol=1e-10)
    gradient, theta_gradient = pullback(cotangent)
    reference_gradient, reference_theta_gradient = reference_pullback(cotangent)
    torch.testing.assert_close(theta_gradient, reference_theta_gradient, rtol=1e-8, atol=1e-8)
    # Degrees of exactly one sit on the kink of the normalised Laplacian; none occurs here.
    torch.testing.assert_close(gradient, reference_gradient, rtol=1e-8, atol=1e-8)


def test_autograd_agrees_with_finite_differences(case):
    filter, adjacency, theta, signals, _ = case
    adjacency, theta = adjacency[1:].clone().requires_grad_(), theta[1:].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, t: filter.apply(a, t, signals), (adjacency, theta), atol=1e-6)


def test_pullback_is_the_adjoint_of_the_derivative(case):
    """<r, dY> by central differences along a random direction equals <pullback(r), dA> + <., dtheta>."""
    filter, adjacency, theta, signals, cotangent = case
    adjacency, theta, cotangent = adjacency[1:], theta[1:], cotangent[1:]
    generator = torch.Generator().manual_seed(3)
    direction = torch.randn(adjacency.shape, generator=generator, dtype=torch.float64)
    if torch.equal(adjacency, adjacency.mT):
        direction = direction + direction.mT
    theta_direction = torch.randn(theta.shape, generator=generator, dtype=torch.float64)
    step = 1e-5
    plus = filter.apply(adjacency + step * direction, theta + step * theta_direction, signals)
    minus = filter.apply(adjacency - step * direction, theta - step * theta_direction, signals)
    left = (cotangent * (plus - minus) / (2 * step)).sum()
    gradient, theta_gradient = filter.linearize(adjacency, theta, signals).pullback(cotangent)
    right = (gradient * direction).sum() + (theta_gradient * theta_direction).sum()
    torch.testing.assert_close(left, right, rtol=1e-6, atol=1e-6)


def test_theta_jacobian_agrees_with_autograd(case):
    filter, adjacency, theta, signals, _ = case
    outputs, jacobian = filter.theta_jacobian(adjacency, theta, signals)
    reference_outputs, reference = GraphFilter.theta_jacobian(filter, adjacency, theta, signals)
    assert jacobian.shape == (N_CHAINS, N_EXPERIMENTS, N_NODES, filter.n_parameters())
    torch.testing.assert_close(outputs, reference_outputs, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(jacobian, reference, rtol=1e-8, atol=1e-8)


def test_chains_do_not_influence_one_another(case):
    filter, adjacency, theta, signals, cotangent = case
    outputs, pullback = filter.linearize(adjacency, theta, signals)
    alone_outputs, alone_pullback = filter.linearize(adjacency[1:2], theta[1:2], signals)
    torch.testing.assert_close(outputs[1:2], alone_outputs)
    torch.testing.assert_close(pullback(cotangent)[0][1:2], alone_pullback(cotangent[1:2])[0])


def random_graph(n_nodes=8, seed=0):
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((n_nodes, n_nodes)) < 0.4, 1)
    return (upper + upper.T).astype(float), rng.normal(size=(5, n_nodes))


def apply_numpy(filter, adjacency, theta, signals):
    batch = torch.tensor(adjacency)[None], torch.tensor([theta], dtype=torch.float64), torch.tensor(signals)
    return filter.apply(*batch)[0].numpy()


def test_polynomial_is_a_sum_of_powers():
    adjacency, signals = random_graph()
    theta = [0.5, -1.0, 2.0, 0.25]
    matrix = sum(c * np.linalg.matrix_power(adjacency, p) for p, c in enumerate(theta))
    np.testing.assert_allclose(apply_numpy(PolynomialFilter(3), adjacency, theta, signals), signals @ matrix.T)


@pytest.mark.parametrize("laplacian", ["combinatorial", "normalized"])
def test_heat_is_the_exponential_of_scipys_laplacian(laplacian):
    adjacency, signals = random_graph()
    adjacency[0] = adjacency[:, 0] = 0  # scipy too gives a node without edges a zero row
    matrix = sparse.csgraph.laplacian(adjacency, normed=laplacian == "normalized")
    filter = HeatDiffusionFilter(laplacian=laplacian)
    expected = signals @ linalg.expm(-0.4 * matrix).T
    np.testing.assert_allclose(apply_numpy(filter, adjacency, [0.4], signals), expected, atol=1e-12)
    np.testing.assert_allclose(apply_numpy(filter, adjacency, [0.4], signals)[:, 0], signals[:, 0])


def test_heat_keeps_the_total_on_the_combinatorial_laplacian():
    adjacency, signals = random_graph(seed=1)
    warm = apply_numpy(HeatDiffusionFilter(), adjacency, [1.3], signals)
    np.testing.assert_allclose(warm.sum(1), signals.sum(1))


def test_arma_solves_its_equation():
    adjacency, signals = random_graph(seed=2)
    b_0, b_1, a_1, a_2 = theta = [1.0, 0.3, -0.1, 0.02]
    outputs = apply_numpy(ARMAFilter(ar_order=2, ma_order=1), adjacency, theta, signals)
    left = outputs + a_1 * outputs @ adjacency + a_2 * outputs @ adjacency @ adjacency
    np.testing.assert_allclose(left, b_0 * signals + b_1 * signals @ adjacency)


def test_singular_arma_chain_leaves_the_others_alone():
    edge = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64).expand(2, 2, 2)
    theta = torch.tensor([[1.0, 1.0], [1.0, 0.5]], dtype=torch.float64)  # I + A is singular on one edge
    outputs = ARMAFilter(1, 0).apply(edge, theta, torch.tensor([[3.0, 0.0]], dtype=torch.float64))
    assert not torch.isfinite(outputs[0]).all()
    torch.testing.assert_close(outputs[1, 0], torch.tensor([4.0, -2.0], dtype=torch.float64))


def test_callable_equals_the_built_in_it_imitates():
    adjacency, signals = random_graph(seed=3)

    def heat(adjacency, theta):
        return torch.linalg.matrix_exp(-theta[0] * (torch.diag(adjacency.sum(0)) - adjacency))

    def heat_of_a_batch(adjacency, theta):
        laplacian = torch.diag_embed(adjacency.sum(-1)) - adjacency
        return torch.linalg.matrix_exp(-theta[:, :, None] * laplacian)

    expected = apply_numpy(HeatDiffusionFilter(), adjacency, [0.5], signals)
    np.testing.assert_allclose(apply_numpy(CallableFilter(heat), adjacency, [0.5], signals), expected)
    batched = CallableFilter(heat_of_a_batch, batched=True)
    np.testing.assert_allclose(apply_numpy(batched, adjacency, [0.5], signals), expected)


def quadratic(adjacency, theta):
    """A polynomial of order two without its constant."""
    return theta[0] * adjacency + theta[1] * adjacency @ adjacency


def test_callable_that_is_linear_in_theta_is_identified():
    """A sampler that integrates theta out finds graph and theta."""
    adjacency, _ = random_graph(seed=2)
    X, Y = make_system(adjacency, PolynomialFilter(2), [0.0, 0.4, -0.2], n_experiments=20, random_state=0)
    known = hide_edges(adjacency, 0.3, random_state=0)
    filter = CallableFilter(quadratic, names=("a", "b"), linear_in_theta=True)
    identifier = LangevinSystemIdentifier(filter, noise_std=1.0, n_chains=4, n_levels=3, n_sweeps=10, random_state=0)
    identifier.fit(X, Y, known)
    np.testing.assert_array_equal(identifier.adjacency_, adjacency)
    np.testing.assert_allclose(identifier.theta_, [0.4, -0.2], atol=0.02)


def test_callable_that_ignores_theta_has_zero_derivatives():
    filter = CallableFilter(constant)
    adjacency = torch.ones(1, 2, 2, dtype=torch.float64)
    _, jacobian = filter.theta_jacobian(adjacency, torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 2).double())
    assert not jacobian.any()


def test_callable_of_the_wrong_shape_is_named():
    filter = CallableFilter(lambda adjacency, theta: adjacency[0])
    with pytest.raises(ValueError, match=r"CallableFilter returned shape \(1, 3\)"):
        filter.apply(torch.zeros(1, 3, 3), torch.zeros(1, 1), torch.zeros(2, 3))


def test_theta_is_kept_within_its_bounds():
    heat = HeatDiffusionFilter().constrain(torch.tensor([[-1.0], [2.0]]))
    assert heat.flatten().tolist() == [0.0, 2.0]
    narrow = HeatDiffusionFilter(theta_min=0.25, theta_max=1.0).constrain(torch.tensor([[-1.0], [2.0]]))
    assert narrow.flatten().tolist() == [0.25, 1.0]
    bounded = CallableFilter(hill, names=("gain", "shift"), limits=((0.0, 1.0), (-1.0, 0.0)))
    assert bounded.constrain(torch.tensor([[5.0, 5.0]])).tolist() == [[1.0, 0.0]]
    assert bounded.initial_range() == [(0.0, 0.1), (-0.1, 0.0)]
    chosen = CallableFilter(hill, names=("gain", "shift"), initial=((2, 3), (4, 5)))
    draws = chosen.initial_theta(100, torch.Generator().manual_seed(0))
    assert ((draws >= torch.tensor([2.0, 4.0])) & (draws <= torch.tensor([3.0, 5.0]))).all()


def amounts_of_flips(adjacency, rows, columns):
    """What has to be added to each pair to flip it."""
    return 1 - 2 * adjacency[torch.arange(len(adjacency))[:, None], rows[..., 0], columns[..., 0]]


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("shift", ["adjacency", "laplacian"])
@pytest.mark.parametrize("order", range(5))
def test_designs_after_a_flip_are_those_of_the_flipped_graphs(order, shift, directed):
    """Against the base class, which flips the pairs and starts anew; numbers are integers, so nothing is rounded."""
    rng, filter = np.random.default_rng(order), PolynomialFilter(order, shift=shift)
    upper = np.triu(rng.random((3, 7, 7)) < 0.5, 1)
    adjacency = torch.tensor(upper + upper.swapaxes(1, 2), dtype=torch.float64)
    signals = torch.tensor(rng.integers(-9, 10, (5, 7)), dtype=torch.float64)
    first, second = torch.tensor(rng.integers(0, 3, (3, 6))), torch.tensor(rng.integers(3, 7, (3, 6)))
    rows, columns = torch.stack([first, second], -1), torch.stack([second, first], -1)
    if directed:
        adjacency = torch.tensor(rng.random((3, 7, 7)) < 0.5, dtype=torch.float64)
        rows, columns = rows[..., :1], columns[..., :1]
    amounts = amounts_of_flips(adjacency, rows, columns)
    flipped = filter.changed_designs(adjacency, signals, rows, columns, amounts)
    assert flipped.shape == (3, 6, order + 1, 5, 7)
    assert torch.equal(flipped, GraphFilter.changed_designs(filter, adjacency, signals, rows, columns, amounts))
    jacobian = GraphFilter.theta_jacobian(filter, adjacency, torch.ones(3, order + 1).double(), signals)[1]
    assert torch.equal(filter.design(adjacency, signals), jacobian.movedim(-1, 1))


@pytest.mark.parametrize("shift", ["laplacian", "normalized-laplacian"])
def test_polynomial_of_a_laplacian_is_that_of_scipys(shift):
    adjacency, signals = random_graph()
    laplacian = sparse.csgraph.laplacian(adjacency, normed=shift == "normalized-laplacian")
    expected = signals @ (2.0 * np.eye(8) - 0.5 * laplacian + 0.25 * laplacian @ laplacian)
    outputs = apply_numpy(PolynomialFilter(shift=shift), adjacency, [2.0, -0.5, 0.25], signals)
    np.testing.assert_allclose(outputs, expected, atol=1e-12)


@pytest.mark.parametrize("leak", [0.0, 0.4])
@pytest.mark.parametrize("ground", [None, 3])
def test_steady_state_solves_its_equation(ground, leak):
    """Against numpy's pseudo-inverse of the whole Laplacian, or of that without the row and column of the ground."""
    adjacency, signals = random_graph(seed=4)
    matrix, free = sparse.csgraph.laplacian(adjacency) + leak * np.eye(8), np.arange(8) != ground
    expected = np.zeros_like(signals)
    expected[:, free] = 3.0 * signals[:, free] @ np.linalg.pinv(matrix[np.ix_(free, free)], hermitian=True)
    outputs = apply_numpy(SteadyStateFilter(ground, leak), adjacency, [3.0], signals)
    np.testing.assert_allclose(outputs, expected, atol=1e-10)


# Directed graphs: the edge from j to i stands at A[i, j], and degrees are sums of rows


def directed_graph(n_nodes=8, seed=0):
    """A random graph, and the Laplacian of it whose rows add up to zero, by networkx."""
    graph = nx.gnp_random_graph(n_nodes, 0.4, seed=seed, directed=True)
    received = nx.to_numpy_array(graph).T
    return received, np.diag([float(degree) for _, degree in graph.in_degree]) - received


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_heat_on_a_directed_graph_is_scipys_exponential(dtype):
    adjacency, laplacian = directed_graph()
    signals = np.random.default_rng(0).normal(size=(5, 8))
    batch = (torch.tensor(array, dtype=dtype) for array in (adjacency[None], [[0.7]], signals))
    outputs = HeatDiffusionFilter().apply(*batch)[0].double().numpy()
    expected = signals @ linalg.expm(-0.7 * laplacian).T
    np.testing.assert_allclose(outputs, expected, atol=1e-5 if dtype == torch.float32 else 1e-12)
    constant = apply_numpy(HeatDiffusionFilter(), adjacency, [0.7], np.ones((1, 8)))
    np.testing.assert_allclose(constant, 1.0, atol=1e-12)


@pytest.mark.parametrize("filter", [SteadyStateFilter(leak=0.4), SteadyStateFilter(ground=3, leak=0.1)])
def test_steady_state_of_a_directed_graph_balances_every_node(filter):
    """g y_i + sum over j of A_ij (y_i - y_j) = x_i, but at the ground, which is zero."""
    adjacency, laplacian = directed_graph(seed=1)
    signals = np.random.default_rng(0).normal(size=(5, 8))
    outputs = apply_numpy(filter, adjacency, [2.0], signals) / 2.0
    free = np.arange(8) != filter.ground
    balance = outputs @ laplacian.T + filter.leak * outputs
    np.testing.assert_allclose(balance[:, free], signals[:, free], atol=1e-8)
    assert not outputs[:, ~free].any()


def test_a_chain_that_has_diverged_does_not_make_heat_directed(monkeypatch):
    """Else the others would lose the fast way."""
    adjacency, signals = random_graph()
    batch = torch.tensor(np.stack([adjacency, np.full_like(adjacency, np.nan)])), torch.full((2, 1), 0.5).double()
    monkeypatch.setattr(GraphFilter, "linearize", None)
    outputs, _ = HeatDiffusionFilter().linearize(*batch, torch.tensor(signals))
    assert torch.isfinite(outputs[0]).all()
    assert torch.isnan(outputs[1]).all()


@pytest.mark.parametrize(
    ("filter", "words"),
    [
        (HeatDiffusionFilter("normalized"), "laplacian='normalized', which is defined for undirected graphs"),
        (
            PolynomialFilter(shift="normalized-laplacian"),
            "shift='normalized-laplacian', which is defined for undirected",
        ),
        (SteadyStateFilter(), "neither a leak nor a ground"),
    ],
)
def test_filters_without_a_meaning_on_directed_graphs_say_so(filter, words):
    with pytest.raises(ValueError, match=words):
        filter.check_directed()
    with pytest.raises(ValueError, match=words):
        make_system(np.zeros((3, 3)), filter, directed=True)


@pytest.mark.parametrize("filter", [SteadyStateFilter(), SteadyStateFilter(ground=3), SteadyStateFilter(leak=0.5)])
def test_steady_states_after_a_flip_are_those_of_the_flipped_graphs(filter):
    rng = np.random.default_rng(0)
    adjacency = torch.tensor(np.stack([random_graph(seed=seed)[0] for seed in (4, 5, 6)]))
    signals = torch.tensor(rng.normal(size=(5, 8)))
    first, second = torch.tensor(rng.integers(0, 4, (3, 9))), torch.tensor(rng.integers(4, 8, (3, 9)))
    rows, columns = torch.stack([first, second], -1), torch.stack([second, first], -1)
    amounts = amounts_of_flips(adjacency, rows, columns)
    flipped = filter.changed_designs(adjacency, signals, rows, columns, amounts)
    expected = GraphFilter.changed_designs(filter, adjacency, signals, rows, columns, amounts)
    if not filter.leak:  # without a bridge there is no steady state
        graphs = changed_graphs(adjacency, rows, columns, amounts).numpy()
        is_cut = [[not nx.is_connected(nx.from_numpy_array(graph)) for graph in chain] for chain in graphs]
        assert np.any(is_cut)
        expected[torch.tensor(is_cut)] = torch.nan
    torch.testing.assert_close(flipped, expected, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("ground", [None, 1])
def test_a_steady_state_of_a_graph_in_pieces_is_that_of_the_pseudo_inverse(ground):
    """Against numpy's, of a triangle, a pair and a single node; the chain beside it is in one piece."""
    pieces = linalg.block_diag(np.ones((3, 3)) - np.eye(3), np.ones((2, 2)) - np.eye(2), [[0.0]])
    graphs = np.stack([pieces, np.ones((6, 6)) - np.eye(6)])
    signals, free = np.random.default_rng(0).normal(size=(4, 6)), np.arange(6) != ground
    theta = torch.full((2, 1), 3.0, dtype=torch.float64)
    outputs = SteadyStateFilter(ground).apply(torch.tensor(graphs), theta, torch.tensor(signals)).numpy()
    for graph, found in zip(graphs, outputs, strict=True):
        inverse = np.linalg.pinv(sparse.csgraph.laplacian(graph)[np.ix_(free, free)], hermitian=True)
        np.testing.assert_allclose(found[:, free], 3.0 * signals[:, free] @ inverse, atol=1e-10)
        assert not found[:, ~free].any()


def test_pieces_without_a_steady_state_are_counted():
    pieces = torch.tensor(linalg.block_diag(np.ones((3, 3)) - np.eye(3), np.ones((2, 2)) - np.eye(2), [[0.0]]))
    graphs = torch.stack([pieces, torch.ones(6, 6, dtype=torch.float64) - torch.eye(6, dtype=torch.float64)])
    assert SteadyStateFilter().n_loose(graphs).tolist() == [3, 1]
    assert SteadyStateFilter(leak=0.1).n_loose(graphs) is None
    # Node 0 is the ground: 1 receives from it, 2 from 1, and 3 and 4 from each other only.
    one_way = torch.zeros(1, 5, 5)
    one_way[0, [1, 2, 3, 4], [0, 1, 4, 3]] = 1.0
    assert SteadyStateFilter(ground=0).n_loose(one_way).tolist() == [2]
    assert torch.isfinite(SteadyStateFilter(ground=0).design(one_way, torch.eye(5))).all()


def mass(filter, low, high):
    """Probability of the interval under the filter's prior, by quadrature."""

    def density(value):
        return float(filter.log_prior(torch.tensor([[value]])).exp())

    return quad(density, low, high)[0] / (quad(density, 0, 5)[0] + quad(density, 5, np.inf)[0])


@pytest.mark.parametrize(("low", "high"), [(0.3, 0.7), (0.05, 0.5), (1.0, 2.0)])
def test_heat_is_expected_in_its_initial_range_with_even_odds(low, high):
    filter = HeatDiffusionFilter("combinatorial", low, high)
    assert mass(filter, 0, low) == pytest.approx(0.25, abs=1e-4)
    assert mass(filter, low, high) == pytest.approx(0.5, abs=1e-4)


def test_a_start_that_is_a_point_or_zero_claims_next_to_nothing():
    assert mass(HeatDiffusionFilter("combinatorial", 0.5, 0.5), 0.25, 1.0) == pytest.approx(0.8, abs=1e-4)
    assert HeatDiffusionFilter("combinatorial", 0.0, 0.5).log_prior(torch.ones(1, 1)) is None
    assert PolynomialFilter().log_prior(torch.ones(1, 3)) is None


@pytest.mark.parametrize("n_nodes", [1, 6, 40])
def test_single_precision_heat_agrees_with_double(n_nodes):
    """Chains of one batch whose times differ by a factor of a million, and one that has diverged."""
    generator = torch.Generator().manual_seed(0)
    upper = torch.triu((torch.rand(12, n_nodes, n_nodes, generator=generator) < 0.4).double(), 1)
    adjacency, theta = upper + upper.mT, torch.logspace(-4, 2, 12, dtype=torch.float64)[:, None]
    signals = torch.eye(n_nodes, dtype=torch.float64)
    exact = HeatDiffusionFilter().apply(adjacency, theta, signals)
    theta[5] = torch.nan
    single = HeatDiffusionFilter().apply(adjacency.float(), theta.float(), signals.float())
    healthy = torch.arange(12) != 5
    # Every squaring doubles what rounding has done: 2^13 roundings of 6e-8 in the worst case, and a tenth of it here.
    assert (single - exact)[healthy].abs().max() < 5e-5
    assert (single - exact)[:5].abs().max() < 2e-6
    assert single[5].isnan().all()


@pytest.mark.parametrize(
    ("filter", "error", "words"),
    [
        ("fourier", ValueError, "filter='fourier' is not known; expected one of"),
        (7, TypeError, "filter is a int"),
        (PolynomialFilter(order=-1), ValueError, "order=-1; expected an integer of at least 0"),
        (PolynomialFilter(order=1.5), ValueError, "order=1.5"),
        (PolynomialFilter(initial_scale=0), ValueError, "initial_scale=0"),
        (ARMAFilter(ar_order=0), ValueError, "ar_order=0; expected an integer of at least 1"),
        (ARMAFilter(initial_scale=-1), ValueError, "initial_scale=-1"),
        (HeatDiffusionFilter(laplacian="signless"), ValueError, "laplacian='signless'"),
        (PolynomialFilter(shift="laplace"), ValueError, "shift='laplace'; expected one of adjacency, laplacian"),
        (SteadyStateFilter(ground=-1), ValueError, "ground=-1"),
        (SteadyStateFilter(leak=-0.1), ValueError, "leak=-0.1; expected a number of at least 0"),
        (SteadyStateFilter(initial_low=2.0), ValueError, "initial_low=2.0 .* initial_low <= initial_high"),
        (
            CallableFilter(hill, names=("a", "b"), linear_in_theta=True),
            ValueError,
            "linear_in_theta=True, but on a graph",
        ),
        (CallableFilter(constant, limits=((0, 1),), linear_in_theta=True), ValueError, "limits and linear_in_theta"),
        (HeatDiffusionFilter(initial_low=1.0), ValueError, "initial_low <= initial_high"),
        (HeatDiffusionFilter(theta_min=11.0), ValueError, "theta_min=11.0 and theta_max=10.0"),
        (CallableFilter("hill"), TypeError, "function='hill'"),
        (CallableFilter(hill, names="gain"), ValueError, "names='gain'"),
        (CallableFilter(hill, names=("a", "b"), limits=((0, 1),)), ValueError, "1 limits for 2 names"),
        (CallableFilter(hill, initial=((1, 0),)), ValueError, r"initial \(1, 0\); expected low <= high"),
    ],
)
def test_senseless_filters_are_refused_by_name(filter, error, words):
    with pytest.raises(error, match=words):
        resolve_filter(filter)


@pytest.mark.parametrize("name", ["polynomial", "heat", "arma", "steady-state"])
def test_filters_resolve_by_name(name):
    assert isinstance(resolve_filter(name), GraphFilter)
