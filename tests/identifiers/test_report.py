"""The report: what it says is what was found, it is safe to open, and a real browser shows it whole."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from datetime import date
from html.parser import HTMLParser
from pathlib import Path

import matplotlib as mpl
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.frozen import FrozenEstimator

from sklearn_graphid import (
    PAPER_SETTINGS,
    AdamSystemIdentifier,
    ConstrainedLeastSquaresIdentifier,
    ErdosRenyiPrior,
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
from sklearn_graphid.reporting._facts import filter_in_words, prior_in_words, prior_surprise

SHORT = {"n_chains": 4, "n_levels": 3, "n_steps": 2, "n_sweeps": 12, "random_state": 0}
HOSTILE = [
    "<script>alert(1)</script>",
    "</table></main><h1>mine</h1>",
    '"><img src=x onerror=alert(1)>',
    "$\\frac{$ and $x_{",
    "a" * 300,
    "駅 😀 \ud800\nnew\x00 line & 'quote'",
]


def dense_response(adjacency, theta):
    return theta[..., None, None] * adjacency


class Page(HTMLParser):
    """The tags, tables and text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.tables, self.words = [], [], {}, []
        self._table = None
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.append((tag, dict(attrs)))
        if tag == "table":
            self._table = self.tables.setdefault(dict(attrs)["id"], [])
        elif tag == "tr":
            self._table.append([])
        elif tag in ("td", "th"):
            self._table[-1].append("")

    def handle_endtag(self, tag):
        if tag == "table":
            self._table = None

    def handle_data(self, data):
        self.words.append(data)
        if self._table and self._table[-1]:
            self._table[-1][-1] += data


def report_of(identifier, folder):
    path = identifier.report(folder / "report.html")
    assert path == folder / "report.html"
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def grid():
    return nx.to_numpy_array(nx.grid_2d_graph(4, 4))


def few_experiments(grid):
    """Data that leave many pairs in doubt."""
    return make_system(grid, "polynomial", [0.3, 0.2, -0.05], n_experiments=2, noise_std=2.0, random_state=0)


@pytest.fixture(scope="module")
def fitted(grid):
    X, Y = few_experiments(grid)
    X = pd.DataFrame(X, columns=[f"node {i}" for i in range(16)])
    identifier = LangevinSystemIdentifier("polynomial", ErdosRenyiPrior(0.2), noise_std=None, **SHORT)
    with pytest.warns(ConvergenceWarning):
        return identifier.fit(X, Y, hide_edges(grid, 0.4, random_state=0))


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
    words = " ".join(page.words)
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
        (PolynomialFilter(3, shift="laplacian"), "a polynomial of order 3 of the Laplacian"),
        (HeatDiffusionFilter("normalized"), "heat diffusion with the normalised Laplacian"),
        (
            ARMAFilter(1, 2),
            "a ratio of polynomials of the adjacency matrix, of order 2 in the numerator and 1 in the denominator",
        ),
        (SteadyStateFilter(), "steady-state potentials for given inflows"),
        (CallableFilter(dense_response), "the function dense_response"),
    ],
)
def test_filters_are_described_in_words(filter, words):
    assert filter_in_words(filter) == words


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
        (AdamSystemIdentifier("heat", n_iterations=20, random_state=0), "Weight"),
        (RidgeSystemIdentifier("heat"), "Probability"),
        (LangevinSystemIdentifier("heat", **SHORT), "Probability"),
    ],
    ids=["adam", "ridge", "sampled"],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_weights_are_not_called_probabilities(identifier, kind, ring_known, ring_experiments, tmp_path):
    page = report_of(identifier.fit(*ring_experiments, ring_known), tmp_path)
    listed = page.tables.get("edges") or page.tables["uncertain"]  # no table where no edge was inferred
    assert listed[0][2] == kind
    assert ("They are weights, not probabilities." in page.text) == (kind == "Weight")
    if not hasattr(identifier, "theta_samples_"):
        assert "This is one answer, without a spread" in page.text
        assert ("The probabilities were fitted to the known pairs" in page.text) == (kind == "Probability")


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("edge_weights", ["positive", "signed"])
@pytest.mark.parametrize("is_told", [True, False])
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("identifier", "levels", "may_differ"),
    [
        (LangevinSystemIdentifier("heat", **SHORT), "the same level at all nodes", True),
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
def test_a_shipped_prior_is_called_by_its_name(prior, name, ring_known, ring_experiments):
    quick = {"n_chains": 1, "n_levels": 1, "n_steps": 1, "n_sweeps": 1, "random_state": 0}
    fitted = LangevinSystemIdentifier("heat", prior, **quick).fit(*ring_experiments, ring_known)
    told = prior_in_words(fitted, prior_surprise(fitted))
    assert f'the prior "{name}", which comes with the package' in told
    assert f"trust in the prior {fitted.prior_trust_:.2f}, estimated" in told


def test_nothing_is_fetched_and_nothing_runs(page):
    assert "script" not in page.tags
    for tag, attributes in page.attributes:
        for name in ("src", "href"):
            assert attributes.get(name, "data:").startswith("data:"), tag
        assert not any(name.startswith("on") for name in attributes)
    assert any("Content-Security-Policy" in attributes.values() for _, attributes in page.attributes)


def test_the_same_fit_gives_the_same_page(fitted, tmp_path):
    first = fitted.report(tmp_path / "one.html").read_bytes()
    assert fitted.report(tmp_path / "two.html").read_bytes() == first


@pytest.mark.parametrize(
    "identifier",
    [
        AdamSystemIdentifier("heat", n_iterations=20, random_state=0),
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


def test_a_larger_network_is_drawn_in_time(tmp_path):
    """Names do not fit beside 150 nodes, and the fine layout would take long."""
    grid = nx.to_numpy_array(nx.grid_2d_graph(10, 15))
    X, Y = make_system(grid, "polynomial", [0.3, 0.2, -0.05], n_experiments=20, random_state=0)
    identifier = AdamSystemIdentifier("polynomial", n_iterations=2, random_state=0)
    page = report_of(identifier.fit(X, Y, hide_edges(grid, 0.1, random_state=0)), tmp_path)
    assert len(page.tables["uncertain"]) + len(page.tables["uncertain-too"]) == 2 + 100
    assert re.search(r"And \d+ more pairs\.", page.text)


# Names that bite


def affine(adjacency, theta):
    import torch

    return theta[0] * torch.eye(adjacency.shape[-1], dtype=adjacency.dtype) + theta[1] * adjacency


@pytest.fixture(scope="module")
def hostile_path(tmp_path_factory):
    ring = nx.to_numpy_array(nx.cycle_graph(6))
    filter = CallableFilter(affine, names=("<b>self</b>", "$\\frac{$ $x_{"))
    X, Y = make_system(ring, filter, [0.5, 0.3], n_experiments=4, random_state=0)
    identifier = LangevinSystemIdentifier(filter, **SHORT)
    path = tmp_path_factory.mktemp("hostile") / "a name with spaces & <brackets>.html"
    return identifier.fit(pd.DataFrame(X, columns=HOSTILE), Y, hide_edges(ring, 0.9, random_state=0)).report(path)


def test_names_are_text_and_not_tags(hostile_path):
    text = hostile_path.read_text(encoding="utf-8")
    page = Page(text)
    assert page.tags.count("h1") == 1
    assert "script" not in page.tags
    assert "b" in page.tags  # of the tiles
    assert page.tags.count("b") == 4
    assert all(attributes.get("src", "data:").startswith("data:") for _, attributes in page.attributes)
    listed = {name for row in page.tables["edges"][1:] + page.tables["uncertain"][1:] for name in row[:2]}
    # Half a surrogate pair cannot be written; the parser reads its number as the character for the unknown.
    assert listed <= {name.replace("\ud800", "\ufffd") for name in HOSTILE}
    assert "<script>alert(1)</script>" in listed
    assert [row[0] for row in page.tables["theta"][1:]] == ["<b>self</b>", "$\\frac{$ $x_{"]


def test_the_style_of_the_session_is_left_alone(fitted, tmp_path):
    with mpl.rc_context({"figure.facecolor": "red", "text.usetex": True}):
        before = dict(mpl.rcParams)
        fitted.report(tmp_path / "report.html")
        assert dict(mpl.rcParams) == before


def test_no_figure_is_left_open(fitted, tmp_path):
    import matplotlib.pyplot as plt

    before = plt.get_fignums()
    fitted.report(tmp_path / "report.html")
    assert plt.get_fignums() == before


# Paths


def test_nothing_is_written_before_fit(tmp_path):
    with pytest.raises(NotFittedError):
        LangevinSystemIdentifier().report(tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


@pytest.fixture
def no_work(monkeypatch):
    def fail(*arguments):
        raise AssertionError("work was done before the path was looked at")

    monkeypatch.setattr("sklearn_graphid.reporting._page._page", fail)


@pytest.mark.parametrize("path", [None, 3, b"report.html", ["report.html"]])
@pytest.mark.usefixtures("no_work")
def test_what_is_no_path_is_refused(fitted, path):
    with pytest.raises(TypeError, match=f"path is a {type(path).__name__}; expected the name of a file"):
        fitted.report(path)


@pytest.mark.usefixtures("no_work")
def test_places_that_cannot_be_are_refused(fitted, tmp_path):
    with pytest.raises(ValueError, match="is a folder"):
        fitted.report(tmp_path)
    with pytest.raises(ValueError, match=r"there is no folder .*missing"):
        fitted.report(tmp_path / "missing" / "report.html")
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="there is no folder"):
        fitted.report(tmp_path / "file" / "report.html")
    with pytest.raises(ValueError, match="path is empty"):
        fitted.report("")


def test_a_file_is_replaced_and_a_str_will_do(fitted, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("report.html").write_text("old")
    assert fitted.report("report.html") == Path("report.html")
    assert "old" not in Path("report.html").read_text(encoding="utf-8")[:20]


def test_a_page_that_fails_leaves_the_old_one(fitted, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(*arguments):
        raise RuntimeError("no picture")

    monkeypatch.setattr("sklearn_graphid.reporting._page.draw_traces", fail)
    with pytest.raises(RuntimeError, match="no picture"):
        fitted.report(path)
    assert path.read_text() == "old"


def test_a_full_disk_leaves_the_old_one(fitted, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*report\.html'"):
        fitted.report(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["report.html"]


def test_without_matplotlib_the_error_names_the_extra(fitted, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r'report draws with matplotlib.*pip install "sklearn-graphid\[plot\]"'):
        fitted.report(tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


# In a browser

# Looks into a page at the widths of two telephones and of a screen, and writes what it sees.
PROBE = """<!DOCTYPE html><meta charset="utf-8"><body><pre id="seen"></pre><script>
const widths = [360, 390, 1200], seen = [];
// Words of a cell that take more than one line; a line may end after a blank or a hyphen.
function broken(cell) {
  const words = [], walker = cell.ownerDocument.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) for (const word of walker.currentNode.data.matchAll(/[^\\s-]+/g)) {
    const range = cell.ownerDocument.createRange();
    range.setStart(walker.currentNode, word.index);
    range.setEnd(walker.currentNode, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map(box => box.top)).size > 1) words.push(word[0]);
  }
  return words;
}
function look(width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:800px;border:0`;
  frame.onload = () => {
    const page = frame.contentDocument, root = page.documentElement;
    page.querySelectorAll("details").forEach(folded => folded.open = true);
    const pictures = [...page.images].map(image => ({alt: image.alt, drawn: image.complete && image.naturalWidth > 100,
      fits: image.getBoundingClientRect().right <= root.clientWidth + 1,
      // A wide picture on a telephone keeps its size, and its own box is moved sideways.
      scrolls: image.parentElement.getBoundingClientRect().right <= root.clientWidth + 1
        && getComputedStyle(image.parentElement).overflowX === "auto"}));
    seen.push({width, pictures, overflow: root.scrollWidth - root.clientWidth, title: page.title,
      broken: [...page.querySelectorAll("td.name, th.name")].flatMap(broken),
      cut: [...page.querySelectorAll(".scroll")].filter(box => box.scrollWidth > box.clientWidth + 1)
        .map(box => box.firstChild.id),
      tables: Object.fromEntries([...page.querySelectorAll("table")].map(table => [table.id, table.rows.length])),
      scripts: page.scripts.length, ink: frame.contentWindow.getComputedStyle(page.body).color});
    if (seen.length == widths.length) document.getElementById("seen").textContent = JSON.stringify(seen);
    else look(widths[seen.length]);
  };
  frame.src = REPORT;
  document.body.append(frame);
}
look(widths[0]);
</script></body>"""


def browse(path, folder):
    """What a headless Chromium sees of a page, and its messages."""
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
    if browser is None:
        pytest.skip("no Chromium is installed on this machine")
    probe = folder / "probe.html"
    probe.write_text(PROBE.replace("REPORT", json.dumps(path.as_uri())), encoding="utf-8")
    quiet = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]
    quiet += ["--disable-component-update", "--disable-sync", f"--user-data-dir={folder / 'profile'}"]
    # The sandbox needs rights that a container may lack; the page was written by the test itself.
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        *quiet,
        "--allow-file-access-from-files",
        "--enable-logging=stderr",
    ]
    command += ["--virtual-time-budget=20000", "--dump-dom", probe.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    found = re.search(r'<pre id="seen">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stderr[-2000:]
    return json.loads(html.unescape(found[1])), [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def assert_shown_whole(path, folder, n_pictures):
    seen, messages = browse(path, folder)
    assert not messages
    assert [view["width"] for view in seen] == [360, 390, 1200]
    for view in seen:
        assert len(view["pictures"]) == n_pictures
        assert all(picture["drawn"] for picture in view["pictures"]), view
        assert all(picture["fits"] or picture["scrolls"] for picture in view["pictures"]), view
        assert all(picture["fits"] for picture in view["pictures"]) == (view["width"] == 1200)
        assert view["overflow"] <= 0
        assert view["scripts"] == 0
        assert view["ink"] != "rgb(0, 0, 0)"  # the page's own style is applied
    return seen


def test_a_browser_shows_tables_and_pictures(fitted, tmp_path):
    path = fitted.report(tmp_path / "report.html")
    seen = assert_shown_whole(path, tmp_path, n_pictures=5)
    expected = {name: len(rows) for name, rows in Page(path.read_text(encoding="utf-8")).tables.items()}
    assert all(view["tables"] == expected for view in seen)
    assert seen[0]["title"] == "LangevinSystemIdentifier: 16 nodes"


def test_a_telephone_shows_names_unbroken_and_tables_whole(grid, tmp_path):
    """With strengths there are seven columns, which do not fit beside one another."""
    X, Y = few_experiments(grid)
    names = [f"Umspannwerk Obertürkheim {node}" for node in range(8)] + [f"Reutlingen-West{node}" for node in range(8)]
    settings = {**SHORT, "n_sweeps": 4, "edge_weights": "positive"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few and noisy experiments
        fitted = LangevinSystemIdentifier("polynomial", **settings).fit(pd.DataFrame(X, columns=names), Y)
    seen, _ = browse(fitted.report(tmp_path / "report.html"), tmp_path)
    for view in seen:
        assert view["broken"] == []
        assert view["cut"] == []


def test_a_browser_is_not_taken_in_by_names(hostile_path, tmp_path):
    assert_shown_whole(hostile_path, tmp_path, n_pictures=5)
