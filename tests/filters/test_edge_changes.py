"""What a filter tells of changes of single pairs, against filtering with each changed graph."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import linalg

from sklearn_graphid.filters import ARMAFilter, HeatDiffusionFilter, Moments, PolynomialFilter, SteadyStateFilter
from sklearn_graphid.filters._edge_changes import DenseDerivatives, NodeDerivatives, RecomputedChanges
from sklearn_graphid.filters._tables import HEAT_POLES, HEAT_WEIGHTS
from sklearn_graphid.graphs import EdgeSpace, KnownEdges

N_CHAINS, N_CHANGES, N_NODES, N_EXPERIMENTS = 3, 15, 9, 4
UNDIRECTED = [
    *(PolynomialFilter(order, shift=shift) for order in range(4) for shift in ("adjacency", "laplacian")),
    PolynomialFilter(shift="normalized-laplacian"),
    HeatDiffusionFilter(),
    HeatDiffusionFilter("normalized"),
    ARMAFilter(),
    ARMAFilter(1, 0),
    SteadyStateFilter(),
    SteadyStateFilter(ground=2),
    SteadyStateFilter(leak=0.3),
]
DIRECTED = [filter for filter in UNDIRECTED if "normalized" not in str(filter) and str(filter) != "SteadyStateFilter()"]
# Filters that treat nodes of different noise in a way of their own, and one that goes the common way.
NODES_DIFFER = [(filter, False) for filter in UNDIRECTED if isinstance(filter, SteadyStateFilter)]
NODES_DIFFER += [(ARMAFilter(1, 0), directed) for directed in (False, True)]
NODES_DIFFER += [(PolynomialFilter(1), False), (HeatDiffusionFilter(), False), (SteadyStateFilter(leak=0.3), True)]
CASES = [(filter, False) for filter in UNDIRECTED] + [(filter, True) for filter in DIRECTED]


class Case:
    """Graphs, data and changes of single pairs, all at random, some of them in order to make edges come and go."""

    def __init__(self, filter, directed, seed=0):
        rng = np.random.default_rng(seed)
        self.filter, self.space = filter, EdgeSpace.complete(N_NODES, directed).to(torch.device("cpu"))
        # A complete graph less a few edges: none of its edges is a bridge, without which there is no steady state.
        pairs = torch.tensor(rng.random((N_CHAINS, self.space.n_free)) < 0.8, dtype=torch.float64)
        self.graphs = self.space.filled(pairs, torch.zeros(N_NODES, N_NODES, dtype=torch.float64))
        self.theta = torch.tensor(rng.uniform(0.1, 0.4, (N_CHAINS, filter.n_parameters())))
        self.signals, self.targets = torch.tensor(rng.normal(size=(2, N_EXPERIMENTS, N_NODES)))
        self.changed = torch.tensor(np.stack([rng.permutation(self.space.n_free)[:N_CHANGES] for _ in range(N_CHAINS)]))
        self.entries = self.space.entries(self.changed)
        self.amounts = (1 - 2 * pairs.gather(1, self.changed)) * torch.tensor(rng.choice([0.5, 1.0], N_CHANGES))

    def changes(self, measured=None):
        data = self.signals, self.targets, measured, self.space.directed
        return self.filter.edge_changes(self.graphs, self.theta, *data)

    def after(self, graphs, chain, change):
        """One graph with one more change."""
        graph = graphs[chain].clone()
        graph[self.entries[0][chain, change], self.entries[1][chain, change]] += self.amounts[chain, change]
        return graph

    def moments(self, graph, chain, measured):
        """Those of one graph, from the filter's outputs alone."""
        changes = self.changes(None if bool((measured == 1).all()) else measured)
        n_coefficients = len(changes.moments.cross[0])
        if not n_coefficients:
            outputs = self.filter.apply(graph[None], self.theta[chain : chain + 1], self.signals)[0]
            residuals = (self.targets - outputs) * measured
            return Moments.of_residuals(residuals.square().sum())
        unit = torch.eye(n_coefficients, self.filter.n_parameters(), dtype=torch.float64)
        unit[:, n_coefficients:] = self.theta[chain, n_coefficients:]
        columns = self.filter.apply(graph.expand(len(unit), -1, -1), unit, self.signals) * measured
        columns, targets = columns.flatten(1), (self.targets * measured).flatten()
        return Moments(targets.square().sum(), columns @ targets, columns @ columns.mT)


def assert_close(found, expected):
    for part, other in zip(found, expected, strict=True):
        torch.testing.assert_close(part, other, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("filter", "directed", "what_counts"),
    [
        *((*case, what_counts) for case in CASES for what_counts in ("all", "some")),
        *((*case, "some nodes more than others") for case in NODES_DIFFER),
    ],
    ids=str,
)
def test_moments_are_those_of_the_changed_graphs(filter, directed, what_counts):
    """Before and after some changes were made for good, two of three chains each time."""
    case = Case(filter, directed)
    measured = torch.ones_like(case.targets)
    if what_counts == "some":
        measured[0, :3] = 0.0
    elif what_counts == "some nodes more than others":
        measured *= torch.linspace(0.0, 2.0, N_NODES)
    changes, graphs = case.changes(None if what_counts == "all" else measured), case.graphs.clone()
    chains = torch.arange(N_CHAINS)
    for made in range(3):
        found = changes.moments_after(*case.entries, case.amounts)
        for chain in range(N_CHAINS):
            here = case.moments(graphs[chain], chain, measured)
            assert_close((part[chain] for part in changes.moments), here)
            for change in range(3, N_CHANGES):
                expected = case.moments(case.after(graphs, chain, change), chain, measured)
                assert_close((part[chain, change] for part in found), expected)
        stays = chains == made
        amounts = torch.where(stays, 0.0, case.amounts[:, made])
        told = changes.moments_after(*(places[:, made : made + 1] for places in case.entries), amounts[:, None])
        rows, columns = (places[:, made] for places in case.entries)
        changes.make(rows, columns, amounts, Moments(*(part[:, 0] for part in told)))
        for chain in chains[~stays]:
            graphs[chain] = case.after(graphs, chain, made)


@pytest.mark.parametrize(("filter", "directed"), CASES, ids=str)
def test_changes_of_outputs_are_those_of_the_changed_graphs(filter, directed):
    case = Case(filter, directed, seed=1)
    found = case.changes().output_changes(*case.entries, case.amounts, case.theta)
    for chain in range(N_CHAINS):
        theta = case.theta[chain : chain + 1]
        before = filter.apply(case.graphs[chain : chain + 1], theta, case.signals)[0]
        for change in range(N_CHANGES):
            graph = case.after(case.graphs, chain, change)
            expected = filter.apply(graph[None], theta, case.signals)[0] - before
            torch.testing.assert_close(found[chain, change], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("filter", UNDIRECTED, ids=str)
def test_tables_are_kept_where_they_can_be(filter):
    """Or a rewrite that lost them would still be right, and slow."""
    has_table = not isinstance(filter, ARMAFilter) or filter.ma_order == 0
    has_table = has_table and "normalized" not in str(filter) and getattr(filter, "order", 0) < 3
    assert isinstance(Case(filter, directed=False).changes(), RecomputedChanges) == (not has_table)
    of_nodes = torch.linspace(0.5, 2.0, N_NODES).expand(N_EXPERIMENTS, -1)
    has_table_of_nodes = isinstance(filter, SteadyStateFilter) or getattr(filter, "ma_order", 1) == 0
    assert isinstance(Case(filter, directed=False).changes(of_nodes), RecomputedChanges) == (not has_table_of_nodes)


def test_a_sum_of_four_resolvents_is_the_exponential():
    """At all sizes that matter, and for a matrix as scipy has it."""
    x = np.concatenate([[0.0], np.logspace(-6, 5, 2000)])
    found = sum((weight / (x + pole)).real for weight, pole in zip(HEAT_WEIGHTS, HEAT_POLES, strict=True))
    np.testing.assert_allclose(found, np.exp(-x), atol=3e-8)
    matrix = np.cov(np.random.default_rng(0).normal(size=(6, 20)))
    resolvents = (
        weight * linalg.inv(matrix + pole * np.eye(6)) for weight, pole in zip(HEAT_WEIGHTS, HEAT_POLES, strict=True)
    )
    np.testing.assert_allclose(sum(resolvents).real, linalg.expm(-matrix), atol=1e-7)


def test_taking_a_bridge_off_a_steady_state_leaves_no_numbers():
    """What is left has no steady state, and samplers refuse what is not finite."""
    path = torch.tensor([[[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]], dtype=torch.float64)
    signals = torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64)
    changes = SteadyStateFilter().edge_changes(path, torch.ones(1, 1), signals, signals)
    ends = torch.tensor([[[0, 1]]]), torch.tensor([[[1, 0]]])
    moments = changes.moments_after(*ends, torch.tensor([[-1.0]]))
    assert torch.isnan(moments.gram).all()
    assert torch.isnan(changes.output_changes(*ends, torch.tensor([[-1.0]]), torch.ones(1, 1))).all()


@pytest.mark.parametrize(("filter", "directed"), CASES, ids=str)
def test_a_copy_is_changed_apart_and_chains_can_be_taken_over_from_it(filter, directed):
    case = Case(filter, directed, seed=2)
    changes = case.changes()
    expected = changes.moments_after(*case.entries, case.amounts)
    copy = changes.copy()
    rows, columns = (places[:, 0] for places in case.entries)
    copy.change(rows, columns, case.amounts[:, 0])
    assert_close(changes.moments_after(*case.entries, case.amounts), expected)
    changes.take_over(copy, torch.tensor([1]))
    measured, graphs = torch.ones_like(case.targets), case.graphs.clone()
    graphs[1] = case.after(graphs, 1, 0)
    found = changes.moments_after(*case.entries, case.amounts)
    for chain in range(N_CHAINS):
        assert_close((part[chain] for part in changes.moments), case.moments(graphs[chain], chain, measured))
        for change in range(3, N_CHANGES):
            after = case.moments(case.after(graphs, chain, change), chain, measured)
            assert_close((part[chain, change] for part in found), after)


@pytest.mark.parametrize(("filter", "directed"), CASES, ids=str)
@pytest.mark.parametrize(("n_chains", "n_changes"), [(0, 3), (2, 0)])
def test_no_graph_or_no_change_gives_empty_answers(filter, directed, n_chains, n_changes):
    case = Case(filter, directed)
    case.graphs, case.theta = case.graphs[:n_chains], case.theta[:n_chains]
    entries = [places[:n_chains, :n_changes] for places in case.entries]
    changes, amounts = case.changes(), case.amounts[:n_chains, :n_changes]
    outputs = changes.output_changes(*entries, amounts, case.theta)
    assert outputs.shape == (n_chains, n_changes, N_EXPERIMENTS, N_NODES)
    assert changes.moments_after(*entries, amounts).squares.shape == (n_chains, n_changes)


@pytest.mark.parametrize("shift", ["adjacency", "laplacian"])
@pytest.mark.parametrize("directed", [False, True])
def test_derivatives_at_few_nodes_are_those_of_all_outputs(shift, directed):
    """Under a polynomial of order one: compared with differences of the outputs, kept in full."""
    rng = torch.Generator().manual_seed(0)
    weights = torch.rand(2, 5, 5, generator=rng).double() * (1 - torch.eye(5))
    weights = weights if directed else weights + weights.mT
    signals, targets = (torch.rand(4, 5, generator=rng).double() for _ in range(2))
    theta, scale = torch.tensor([[0.3, 0.7], [0.2, -0.4]]).double(), torch.rand(4, 5, generator=rng).double()
    known = KnownEdges(np.eye(5, dtype=bool), np.zeros((5, 5)), directed=directed)
    space = known.space.to(torch.device("cpu"))
    entries = space.entries(torch.arange(space.n_free).expand(2, -1))
    filter = PolynomialFilter(1, shift)
    changes = filter.edge_changes(weights, theta, signals, targets, directed=directed)
    found = changes.derivatives(*entries, theta, torch.ones(2).double())
    assert isinstance(found, NodeDerivatives)
    full = DenseDerivatives(changes.output_changes(*entries, torch.ones(2, space.n_free).double(), theta))
    outputs = torch.rand(2, 3, 4, 5, generator=rng).double()
    factors = torch.rand(2, space.n_free, generator=rng).double()
    for one, other in ((found, full), (found.masked(scale).scaled(factors), full.masked(scale).scaled(factors))):
        torch.testing.assert_close(one.products(one), other.products(other))
        torch.testing.assert_close(one.squares(), other.squares())
        torch.testing.assert_close(one.along(outputs[:, 0]), other.along(outputs[:, 0]))
        torch.testing.assert_close(one.along_many(outputs), other.along_many(outputs))
