"""What a report says is what was found."""

from __future__ import annotations

import re
import warnings
from datetime import date

import networkx as nx
import numpy as np
import pandas as pd
import pytest
from report_pages import SHORT, few_experiments, report_of
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator

from sklearn_graphid import (
    PAPER_SETTINGS,
    AdamSystemIdentifier,
    ConstrainedLeastSquaresIdentifier,
    GraphPriorScore,
    KnownEdges,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    RidgeSystemIdentifier,
    load_prior,
)
from sklearn_graphid.datasets import hide_edges, make_grid_graphs, make_system
from sklearn_graphid.filters import (
    ARMAFilter,
    CallableFilter,
    HeatDiffusionFilter,
    PolynomialFilter,
    SteadyStateFilter,
)
from sklearn_graphid.plotting import PredictiveCheckDisplay


def dense_response(adjacency, theta):
    return theta[0] * adjacency


@pytest.fixture(scope="module")
def page(fitted, tmp_path_factory):
    return report_of(fitted, tmp_path_factory.mktemp("report"))


# What it says


def test_what_was_given_is_told(page, fitted, grid):
    given = dict(page.tables["given"])
    assert given["Nodes"] == "16"
    assert given["Experiments"] == "2"
    assert given["Known pairs"] == "72 of 120 (60%)"
    assert given["Known edges"] == str(int(fitted.known_edges_.values.sum()) // 2)
    assert given["Filter"] == "a polynomial of order 2 of the adjacency matrix"
    assert given["Filter settings"].startswith("PolynomialFilter(")
    assert "order=2" in given["Filter settings"]
    assert given["Prior"] == "ErdosRenyiPrior(p=0.2)"
    low, high = fitted.noise_std_interval()
    found = f"standard deviation {fitted.noise_std_:.3g}, estimated (90% between {low:.3g} and {high:.3g})"
    words, _, share = given["Noise"].partition("; it makes up ")
    assert words == found
    # Three digits of a share that the outputs of the fixture say again.
    _, Y = few_experiments(grid)
    expected = min(1.0, fitted.noise_std_**2 / np.mean(Y**2))
    assert float(share.partition("%")[0]) == pytest.approx(100 * expected, rel=0.006)
    assert share.endswith("% of the outputs' mean square")


def test_the_next_experiment_is_told(page, fitted, grid):
    size = float(np.abs(few_experiments(grid)[0]).max())
    gains = fitted.information_gain(pd.DataFrame(size * np.eye(16), columns=fitted.feature_names_in_))
    words = page.text
    assert f"With one driven node: node {gains.argmax()}; {gains.max():.3g} nats." in words
    full = fitted.suggest_inputs(low=-size, high=size, random_state=0)
    assert f"inputs of up to {size:.3g} in size, as so far: " in words
    assert f"{fitted.information_gain(full)[0]:.3g} nats expected" in words
    assert words.index("What to measure next") < words.index("With one driven node") < words.index("Parameters of the")


def test_uncertain_pairs_are_ranked_by_uncertainty(page, fitted):
    rows = page.tables["uncertain"][1:] + page.tables["uncertain-too"][1:]
    assert len(page.tables["uncertain"]) == 1 + 20  # the rest is folded
    names = list(fitted.feature_names_in_)
    listed = [(names.index(row[0]), names.index(row[1])) for row in rows]
    probabilities = np.array([fitted.edge_probabilities_[pair] for pair in listed])
    assert (np.diff(np.abs(probabilities - 0.5)) >= 0).all()
    assert not fitted.known_edges_.mask[tuple(np.transpose(listed))].any()
    every = fitted.edge_probabilities_[fitted.known_edges_.unknown_pairs()]
    assert len(rows) == ((every > 0.05) & (every < 0.95)).sum()
    for row, pair, probability in zip(rows, listed, probabilities, strict=True):
        error = fitted.diagnostics_["monte_carlo_error_edges"][pair]
        assert row[2] == f"{probability:.2f} ± {error:.2f}"
        assert row[4] == ("edge" if fitted.adjacency_[pair] else "no edge")


def test_heading_and_date(fitted, tmp_path):
    path = fitted.report(tmp_path / "report.html", title="Grid <north>, March")
    text = path.read_text(encoding="utf-8")
    assert "<h1>Grid &lt;north&gt;, March</h1>" in text
    assert "<title>Grid &lt;north&gt;, March</title>" in text
    assert f"with a polynomial of order 2 of the adjacency matrix; {date.today().isoformat()}</p>" in text
    for wrong in ("  ", 3):
        with pytest.raises(ValueError, match=f"title={wrong!r}; expected a text, or None"):
            fitted.report(path, title=wrong)


@pytest.mark.parametrize(
    ("filter", "words"),
    [
        (HeatDiffusionFilter("normalized"), "heat diffusion with the normalised Laplacian"),
        (
            ARMAFilter(1, 2),
            "a ratio of polynomials of the adjacency matrix, of order 2 in the numerator and 1 in the denominator",
        ),
        (SteadyStateFilter(), "steady-state potentials for given inflows"),
        (CallableFilter(dense_response), "the function dense_response"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_filters_are_described_in_words(filter, words, ring_known, ring_experiments, tmp_path):
    fitted = AdamSystemIdentifier(filter, max_iter=1, random_state=0).fit(*ring_experiments, ring_known)
    assert dict(report_of(fitted, tmp_path).tables["given"])["Filter"] == words


def test_every_inferred_edge_is_listed(page, fitted):
    n_edges = int(np.triu(fitted.adjacency_ * ~fitted.known_edges_.mask).sum())
    assert len(page.tables["edges"]) == 1 + n_edges
    assert f"All {n_edges} inferred edge" in page.text


def test_theta_has_intervals_and_standard_errors(page, fitted):
    head, *rows = page.tables["theta"]
    assert head == ["Parameter", "Estimate", "90% interval", "Spread", "Refitted", "Standard error"]
    for row, theta, error in zip(rows, fitted.theta_, fitted.theta_standard_error_, strict=True):
        assert row[1] == f"{theta:.3g}".replace("-", "\N{MINUS SIGN}")
        assert row[5] == f"{error:.3g}"


def test_trouble_is_told_in_words(page, fitted):
    assert "Read with care" in page.text
    assert "Raise n_chains from 4 to" in page.text
    diagnostics = {row[0]: row[1] for row in page.tables["diagnostics"]}
    assert diagnostics["Chains"] == "4 kept of 4"
    assert diagnostics["Diverged"] == "0"


def test_what_is_assumed_and_what_a_probability_means_is_told(page):
    assert "edges have neither direction nor strength" in page.text
    assert "Of ten pairs with probability 0.7 about seven are edges" in page.text


@pytest.fixture(scope="module")
def prior_for_grids():
    graphs = make_grid_graphs(16, min_nodes=9, max_nodes=16, min_side=3, max_side=4, random_state=0)
    return FrozenEstimator(GraphPriorScore(max_epochs=4, random_state=0).fit(graphs))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_learned_prior_is_described_and_fits(grid, prior_for_grids, tmp_path):
    X, Y = make_system(grid, "heat", [0.5], n_experiments=3, random_state=0)
    known = hide_edges(grid, 0.4, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", ConvergenceWarning)
        # After four epochs the prior predicts no pair well; it is its description that is tested.
        fitted = LangevinSystemIdentifier("heat", prior_for_grids, prior_trust=1.0, **SHORT).fit(X, Y, known)
    page = report_of(fitted, tmp_path)
    surprise = prior_for_grids.estimator.surprise(known)
    assert dict(page.tables["given"])["Prior"] == (
        f"learned from graphs of 9 to 16 nodes (GraphPriorScore); the known part lies {surprise:.1f} standard "
        f"deviations away from them (up to 3 is usual); trust in the prior 1.00, as given (1 is full trust, 0 is none)"
    )
    assert "does not look like" not in page.text


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("shipped", "network", "reason"),
    [
        ("deezer-ego-nets", nx.path_graph(7), r"it has 7 nodes, and the prior was trained on 16 to 24\."),
        ("deezer-ego-nets", nx.cycle_graph(24), r"its known part lies \d+\.\d standard deviations away"),
        ("grids", nx.complete_graph(24), "its known part lies more than 100 standard deviations away"),
    ],
)
def test_a_prior_that_does_not_fit_is_told_of_where_the_fit_warns(shipped, network, reason, tmp_path):
    adjacency = nx.to_numpy_array(network)
    X, Y = make_system(adjacency, "heat", [0.5], n_experiments=3, random_state=0)
    prior = load_prior(shipped)
    identifier = LangevinSystemIdentifier("heat", prior, n_chains=2, n_levels=1, n_steps=1, n_sweeps=1, random_state=0)
    with pytest.warns(UserWarning, match="the graph does not look like what the prior knows"):
        identifier.fit(X, Y, hide_edges(adjacency, 0.1, random_state=0))
    page = report_of(identifier, tmp_path)
    assert re.search(f"does not look like those that the prior has learned from: {reason}", page.text)


@pytest.mark.parametrize(
    ("identifier", "kind"),
    [
        (AdamSystemIdentifier("heat", max_iter=20, random_state=0), "Weight"),
        (RidgeSystemIdentifier("heat"), "Probability"),
        (LangevinSystemIdentifier("heat", **SHORT), "Probability"),
    ],
    ids=["adam", "ridge", "sampled"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_are_not_called_probabilities(identifier, kind, ring, ring_experiments, tmp_path):
    page = report_of(identifier.fit(*ring_experiments, hide_edges(ring, 0.5, random_state=0)), tmp_path)
    listed = page.tables.get("edges") or page.tables["uncertain"]  # no table where no edge was inferred
    assert listed[0][2] == kind
    assert ("They are weights, not probabilities." in page.text) == (kind == "Weight")
    if not hasattr(identifier, "theta_samples_"):
        assert "This is one answer, without a spread" in page.text
        assert ("The probabilities were fitted to the known pairs" in page.text) == (kind == "Probability")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("edge_weights", "is_told"), [("positive", True), ("signed", False)])
def test_strengths_are_told(ring, ring_known, edge_weights, is_told, tmp_path):
    X, Y = make_system(ring, PolynomialFilter(1), [0.5, 0.5], n_experiments=20, noise_std=0.3, random_state=0)
    known = KnownEdges(ring_known.mask, ring_known.values, weights=ring) if is_told else ring_known
    fitted = LangevinSystemIdentifier(
        PolynomialFilter(1), edge_weights=edge_weights, n_chains=4, n_sweeps=4, random_state=0
    ).fit(X, Y, known)
    page = report_of(fitted, tmp_path)
    head, *rows = page.tables["edges"]
    assert head[-2:] == ["Strength", "Spread"]
    assert rows
    for first, second, *_, strength, spread in rows:
        i, j = int(first), int(second)
        assert float(strength.replace("\N{MINUS SIGN}", "-")) == pytest.approx(fitted.weights_[i, j], rel=0.01)
        assert float(spread) == pytest.approx(fitted.weights_std_[i, j], rel=0.01)
    n_known = int(np.triu(known.values).sum())
    assert dict(page.tables["given"])["Known strengths"] == f"{n_known if is_told else 0} of {n_known} known edges"
    assert len(page.tables["known-strengths"]) == 1 + n_known
    strengths = [abs(float(row[-2].replace("\N{MINUS SIGN}", "-"))) for row in page.tables["known-strengths"][1:]]
    assert strengths == sorted(strengths, reverse=True)
    sign = {"positive": "above zero", "signed": "of either sign"}[edge_weights]
    assert f"every edge has a strength of its own, {sign}, and no direction" in page.text
    assert ("in the unit of the known strengths" if is_told else "No strength is known") in page.text
    pictures = [attributes["alt"] for tag, attributes in page.attributes if tag == "img"]
    assert pictures[:3] == ["The graph", "The adjacency matrix", "Strengths"]


def test_strengths_of_least_squares_have_no_spread(ring, ring_known, tmp_path):
    X, Y = make_system(ring, "steady-state", [1.0], n_experiments=20, noise_std=0.1, random_state=0)
    fitted = ConstrainedLeastSquaresIdentifier().fit(X, Y, ring_known)
    page = report_of(fitted, tmp_path)
    assert page.tables["edges"][0][-1] == "Strength"
    assert "Strengths are in the units of the data." in page.text


def test_pictures_are_in_the_page_and_have_words(page):
    pictures = [attributes for tag, attributes in page.attributes if tag == "img"]
    assert [picture["alt"] for picture in pictures] == [
        "The graph",
        "The adjacency matrix",
        "Posterior of the parameters",
        "Traces of the chains",
        "Residuals by node",
    ]
    assert all(picture["src"].startswith("data:image/png;base64,") for picture in pictures)


def test_a_picture_of_one_parameter_is_not_blown_up(page, ring_known, ring_experiments, tmp_path):
    fitted = LangevinSystemIdentifier("heat", **SHORT).fit(*ring_experiments, ring_known)
    widths = []
    for shown in (report_of(fitted, tmp_path), page):  # of one parameter and of three
        styles = {attributes.get("alt"): attributes.get("style") for _, attributes in shown.attributes}
        widths.append(float(re.fullmatch(r"max-width:(\d+)rem", styles["Posterior of the parameters"])[1]))
    assert widths[0] < 35 < 50 < widths[1]


def test_a_node_whose_residuals_are_not_noise_is_named(ring, ring_known, tmp_path):
    names = [f"sensor {i}" for i in range(len(ring))]
    X, Y = make_system(ring, "heat", [0.5], n_experiments=40, noise_std=0.1, random_state=0)
    fits = {}
    for bad in (0.0, 3.0):
        outputs = Y + bad * np.random.default_rng(0).normal(size=len(Y))[:, None] * np.eye(len(ring))[2]
        fitted = LangevinSystemIdentifier("heat", noise_std=0.1, **SHORT)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the noise level is inconsistent with the residuals
            fitted.fit(pd.DataFrame(X, columns=names), outputs, ring_known)
        fits[bad] = report_of(fitted, tmp_path).text
    assert "No node has more of them than chance explains" in fits[0.0]
    assert re.search(r"more than chance explains: [^.]*sensor 2", fits[3.0])
    assert "allow a noise level for each node (noise_std='per-node')" in fits[3.0]
    assert "the noise is Gaussian, with the same level at all nodes" in fits[3.0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("identifier", "levels", "may_differ"),
    [
        (LangevinSystemIdentifier("heat", noise_std=[0.1] * 5 + [5.0], **SHORT), "its own level at each node", False),
        (RidgeSystemIdentifier("heat"), "the same level at all nodes", False),
    ],
)
def test_noise_levels_that_are_assumed_and_advised(identifier, levels, may_differ, ring, ring_known, tmp_path):
    X, Y = make_system(ring, "heat", [0.5], n_experiments=40, noise_std=0.1, random_state=0)
    Y[:, 2] += 3.0 * np.random.default_rng(0).normal(size=len(Y))
    text = report_of(identifier.fit(X, Y, ring_known), tmp_path).text
    assert f"the noise is Gaussian, with {levels}" in text
    assert "more than chance explains: 2." in text
    assert ("noise_std='per-node'" in text) == may_differ


def test_the_residuals_are_those_of_the_display(fitted, grid, page):
    X, Y = few_experiments(grid)
    frame = pd.DataFrame(X, columns=fitted.feature_names_in_)
    check = PredictiveCheckDisplay.from_estimator(fitted, frame, Y, n_draws=50, kind="residuals")
    told = float(re.search(r"outside the 90% band. Here ([\d.]+)% do", page.text)[1])
    assert told == pytest.approx(100 * check.total_share_outside_, rel=0.01)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("prior", "name"), [("grids", "grids"), (load_prior("deezer-ego-nets"), "deezer-ego-nets")], ids=["name", "loaded"]
)
def test_a_shipped_prior_is_called_by_its_name(prior, name, ring_known, ring_experiments, tmp_path):
    quick = {"n_chains": 1, "n_levels": 1, "n_steps": 1, "n_sweeps": 1, "random_state": 0}
    fitted = LangevinSystemIdentifier("heat", prior, **quick).fit(*ring_experiments, ring_known)
    told = dict(report_of(fitted, tmp_path).tables["given"])["Prior"]
    assert f'the prior "{name}", which comes with the package' in told
    assert f"trust in the prior {fitted.prior_trust_:.2f}, estimated" in told


def test_nothing_is_fetched_and_nothing_runs(page):
    assert "script" not in page.tags
    for tag, attributes in page.attributes:
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith("data:"), tag
        assert not any(name.startswith("on") for name in attributes)
    assert any("Content-Security-Policy" in attributes.values() for _, attributes in page.attributes)


@pytest.mark.usefixtures("real_pictures")
def test_the_same_fit_gives_the_same_page(fitted, tmp_path):
    first = fitted.report(tmp_path / "one.html").read_bytes()
    assert fitted.report(tmp_path / "two.html").read_bytes() == first


@pytest.mark.usefixtures("real_pictures")
@pytest.mark.parametrize(
    "identifier",
    [
        AdamSystemIdentifier("heat", max_iter=20, random_state=0),
        LikelihoodLangevinIdentifier("heat", n_chains=2, n_levels=2, n_steps=2, n_sweeps=0, random_state=0),
        LangevinSystemIdentifier("heat", random_state=0, **{**PAPER_SETTINGS, "n_levels": 1, "n_steps": 2}),
        LangevinSystemIdentifier("arma", noise_std=0.3, **SHORT),
    ],
    ids=["adam", "no-prior", "paper", "arma"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_identifier_reports(identifier, ring_known, ring_experiments, tmp_path):
    page = report_of(identifier.fit(*ring_experiments, ring_known), tmp_path)
    assert page.tags.count("img") >= 2
    assert "nan" not in re.sub(r"n_[a-z]+|[a-z]*nan[a-z]+", "", page.text)
    assert type(identifier).__name__ in page.text


def test_a_known_network_reports(ring, ring_experiments, tmp_path):
    page = report_of(LangevinSystemIdentifier("heat", **SHORT).fit(*ring_experiments, ring), tmp_path)
    assert "None: all pairs are known." in page.text
    assert dict(page.tables["given"])["Known pairs"] == "15 of 15 (100%)"


def test_what_is_not_determined_is_not_a_number(tmp_path):
    X, Y = make_system(np.zeros((4, 4)), PolynomialFilter(1), [0.5, 0.3], n_experiments=3, random_state=0)
    fitted = LangevinSystemIdentifier(PolynomialFilter(1), **SHORT).fit(X, Y, np.zeros((4, 4)))
    assert report_of(fitted, tmp_path).tables["theta"][2][-1] == "not determined"


@pytest.mark.usefixtures("real_pictures")
def test_a_larger_network_is_drawn_in_time(tmp_path):
    """Names do not fit beside 150 nodes, and the fine layout would take long."""
    grid = nx.to_numpy_array(nx.grid_2d_graph(10, 15))
    X, Y = make_system(grid, "polynomial", [0.3, 0.2, -0.05], n_experiments=20, random_state=0)
    identifier = AdamSystemIdentifier("polynomial", max_iter=2, random_state=0)
    page = report_of(identifier.fit(X, Y, hide_edges(grid, 0.1, random_state=0)), tmp_path)
    assert len(page.tables["uncertain"]) + len(page.tables["uncertain-too"]) == 2 + 100
    assert re.search(r"And \d+ more pairs\.", page.text)


# What was fitted counts, whatever the parameters have been set to since


def fit_ring(noise_of_outputs=1.0, **settings):
    ring = nx.to_numpy_array(nx.cycle_graph(6))
    X, Y = make_system(ring, "heat", [0.5], n_experiments=12, noise_std=noise_of_outputs, random_state=0)
    identifier = LangevinSystemIdentifier("heat", **{**SHORT, **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return identifier.fit(X, Y, hide_edges(ring, 0.8, random_state=0))


def told_of_noise(identifier, folder):
    return dict(report_of(identifier, folder).tables["given"])["Noise"]


def test_a_report_counts_the_chains_that_were_run(tmp_path):
    page = report_of(fit_ring().set_params(n_chains=99), tmp_path)
    assert page.tables["diagnostics"][0][1] == "4 kept of 4"


@pytest.mark.parametrize(
    ("at_fit", "later", "settings", "expected"),
    [
        (None, 0.7, {}, "estimated (90% between"),
        # A single draw is as equal to itself as if it had been given.
        (None, 0.7, {"n_chains": 1, "n_sweeps": 0, "n_levels": 1}, ", estimated;"),
        (0.7, None, {"n_chains": 1, "n_sweeps": 0, "n_levels": 1}, "standard deviation 0.7, as given"),
    ],
)
def test_a_report_tells_where_the_noise_level_came_from(at_fit, later, settings, expected, tmp_path):
    fitted = fit_ring(noise_std=at_fit, **settings).set_params(noise_std=later)
    assert expected in told_of_noise(fitted, tmp_path)


def test_a_report_of_exact_outputs_does_not_take_the_noise_for_given(tmp_path):
    """The draws are all the smallest level there is, as equal as if it had been given."""
    fitted = fit_ring(noise_of_outputs=0.0, n_chains=3, n_levels=2, n_steps=5, n_sweeps=5)
    assert len(set(fitted.noise_std_samples_)) == 1
    assert "estimated (90% between" in told_of_noise(fitted, tmp_path)
