"""How far the sampler trusts its prior: `prior_trust`, and what a fit says of it."""

from __future__ import annotations

import warnings

import networkx as nx
import numpy as np
import pytest
from identifier_cases import SHORT, assert_same_state
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from sklearn_graphid import (
    ErdosRenyiPrior,
    GraphPriorScore,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    StochasticBlockPrior,
    load_prior,
)
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system
from sklearn_graphid.metrics import edge_f1_score

NOISE_TOO_LARGE = "ignore:noise_std=3 is inconsistent with residuals"
DISCOUNTED = "the prior does not fit this graph"
# Short runs of few chains disagree, and say so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture
def club_system(club):
    """The karate club, half of it hidden, with little data."""
    network, known = club
    X, Y = make_system(network, "polynomial", [0.05, 0.08, -0.06], n_experiments=5, random_state=0)
    return network, X, Y, known


@pytest.mark.parametrize(
    "settings",
    [
        {},
        pytest.param({"edge_weights": "positive", "n_sweeps": 4}, marks=pytest.mark.slow),
        {"n_sweeps": 0},
    ],
    ids=["binary", "strengths", "langevin"],
)
def test_a_prior_of_another_kind_is_discounted(club_system, settings):
    _, X, Y, known = club_system
    identifier = LangevinSystemIdentifier("polynomial", load_prior("grids"), random_state=0, **{**SHORT, **settings})
    with pytest.warns(UserWarning, match=DISCOUNTED):
        identifier.fit(X, Y, known)
    assert identifier.prior_trust_ < 0.1


@pytest.mark.filterwarnings("ignore:the graph does not look like", f"ignore:{DISCOUNTED}")
def test_a_discounted_prior_does_not_mislead():
    """On this random graph the prior for grids halves F1 when it is taken as it is."""
    network = nx.to_numpy_array(nx.gnm_random_graph(40, 70, seed=1))
    X, Y = make_system(network, "polynomial", [0.05, 0.08, -0.06], n_experiments=5, random_state=0)
    known = hide_edges(network, 0.5, random_state=0)
    found = {}
    for name, settings in {
        "none": {"prior": None},
        "as it is": {"prior": load_prior("grids"), "prior_trust": 1.0},
        "sampled": {"prior": load_prior("grids")},
    }.items():
        identifier = LangevinSystemIdentifier("polynomial", n_chains=8, random_state=0, **settings).fit(X, Y, known)
        found[name] = edge_f1_score(network, identifier.adjacency_, known)
    assert found["as it is"] < 0.8 * found["none"]
    assert found["sampled"] > found["none"] - 0.05


def test_a_prior_of_the_right_kind_is_trusted():
    grid = make_grid_graphs(1, random_state=30)[0]
    X, Y = make_system(grid, "polynomial", [0.05, 0.08, -0.06], n_experiments=5, random_state=0)
    known = hide_edges(grid, 0.25, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        identifier = LangevinSystemIdentifier("polynomial", load_prior("grids"), random_state=0, **SHORT).fit(
            X, Y, known
        )
    assert identifier.prior_trust_ > 0.8


@pytest.mark.parametrize(
    "prior", [None, ErdosRenyiPrior(0.3), StochasticBlockPrior([0, 0, 0, 1, 1, 1], np.eye(2) / 3 + 0.2)]
)
def test_priors_of_independent_pairs_are_taken_as_they_are(ring_experiments, ring_known, prior):
    fits = [
        LangevinSystemIdentifier("heat", prior, prior_trust=trust, random_state=0, **SHORT).fit(
            *ring_experiments, ring_known
        )
        for trust in ("sample", 1.0)
    ]
    assert_same_state(*fits)
    assert fits[0].prior_trust_ == fits[1].prior_trust_ == 1


@pytest.mark.filterwarnings(NOISE_TOO_LARGE)
def test_a_network_that_cannot_be_told_what_is_known_is_taken_as_it_is(ring_experiments, ring_known):
    graphs = make_grid_graphs(4, min_nodes=6, max_nodes=6, min_side=2, max_side=3, random_state=0)
    prior = FrozenEstimator(GraphPriorScore("edp-gnn", n_levels=3, max_epochs=1, random_state=0).fit(graphs))
    weak = {**SHORT, "n_sweeps": 2, "noise_std": 3.0, "random_state": 0}  # data that leave room for the prior
    fits = [
        LangevinSystemIdentifier("heat", prior, prior_trust=trust, **weak).fit(*ring_experiments, ring_known)
        for trust in ("sample", 1.0, 0.5)
    ]
    assert_same_state(*fits[:2])
    assert [fitted.prior_trust_ for fitted in fits] == [1.0, 1.0, 0.5]
    assert not np.array_equal(fits[2].edge_probabilities_, fits[1].edge_probabilities_)


def test_trust_that_is_given_is_kept(club_system):
    _, X, Y, known = club_system
    identifier = LangevinSystemIdentifier("polynomial", load_prior("grids"), prior_trust=0.3, random_state=0, **SHORT)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=DISCOUNTED)
        warnings.filterwarnings("ignore", message="the graph does not look like")
        assert identifier.fit(X, Y, known).prior_trust_ == pytest.approx(0.3)


@pytest.mark.filterwarnings(NOISE_TOO_LARGE)
def test_without_trust_a_prior_s_odds_are_those_of_no_prior_and_of_the_evidence(ring_experiments, ring, ring_known):
    """With trust 0 in independent pairs the chains are those of `prior=None`, but for rounding, whatever they say."""
    X, Y = ring_experiments
    evidence = np.where(ring > 0, 0.7, 0.3)
    settings = {**SHORT, "edge_prior": evidence, "noise_std": 3.0, "random_state": 0}  # weak data
    prior = StochasticBlockPrior([0] * 6, [[0.99]])
    none = LangevinSystemIdentifier("heat", **settings).fit(X, Y, ring_known)
    trustless = LangevinSystemIdentifier("heat", prior, prior_trust=0.0, **settings).fit(X, Y, ring_known)
    believing = LangevinSystemIdentifier("heat", prior, prior_trust=1.0, **settings).fit(X, Y, ring_known)
    np.testing.assert_allclose(trustless.edge_probabilities_, none.edge_probabilities_, atol=1e-4)
    assert np.abs(believing.edge_probabilities_ - none.edge_probabilities_).max() > 0.3


def test_everything_known_leaves_nothing_to_draw_and_still_a_trust(ring):
    X, Y = make_system(ring, "heat", [0.5], n_experiments=3, random_state=0)
    identifier = LangevinSystemIdentifier("heat", load_prior("grids"), random_state=0, **SHORT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        identifier.fit(X, Y, np.ones((6, 6), dtype=bool), ring)
    assert 0 <= identifier.prior_trust_ <= 1


def test_trust_is_a_parameter_like_any_other(ring_experiments, ring_known):
    prior = StochasticBlockPrior([0, 1] * 3, [[0.1, 0.4], [0.4, 0.1]])
    identifier = LangevinSystemIdentifier("heat", prior, prior_trust=0.5, random_state=0, **{**SHORT, "n_sweeps": 2})
    assert clone(identifier).get_params()["prior_trust"] == 0.5
    search = GridSearchCV(identifier, {"prior_trust": [0.0, 1.0, "sample"]}, cv=2, error_score="raise")
    search.fit(*ring_experiments, known_mask=ring_known)
    assert len(search.cv_results_["params"]) == 3


@pytest.mark.parametrize("trust", [-0.1, 1.1, np.nan, "learn", None, [0.5], True])
@pytest.mark.parametrize("cls", [LangevinSystemIdentifier, LikelihoodLangevinIdentifier])
def test_other_values_are_refused_before_any_work(ring_experiments, ring_known, trust, cls):
    with pytest.raises(ValueError, match="prior_trust"):
        cls("heat", prior_trust=trust).fit(*ring_experiments, ring_known)


@pytest.mark.filterwarnings("ignore:the graph does not look like")
def test_the_report_says_how_far_the_prior_was_trusted(club_system, tmp_path):
    _, X, Y, known = club_system
    identifier = LangevinSystemIdentifier("polynomial", load_prior("grids"), random_state=0, **{**SHORT, "n_sweeps": 4})
    with pytest.warns(UserWarning, match=DISCOUNTED):
        identifier.fit(X, Y, known)
    identifier.report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert f"trust in the prior {identifier.prior_trust_:.2f}, estimated" in page
    assert "The prior does not fit this graph" in page
