"""Unusual reports: fits with little to say, names that bite, and paths that cannot be written."""

from __future__ import annotations

import os
import sys
import warnings
from pathlib import Path

import matplotlib as mpl
import networkx as nx
import numpy as np
import pandas as pd
import pytest
from report_pages import HOSTILE, Page, report_of
from sklearn.exceptions import NotFittedError

from sklearn_graphid import (
    AdamSystemIdentifier,
    GraphPriorScore,
    LangevinSystemIdentifier,
    RidgeSystemIdentifier,
    load_prior,
)
from sklearn_graphid.datasets import hide_edges, make_system

SHORT = {"n_chains": 3, "n_levels": 2, "n_steps": 2, "n_sweeps": 10, "random_state": 0}
RING = nx.to_numpy_array(nx.cycle_graph(6))
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.filterwarnings("ignore:the graph does not look like:UserWarning")
def test_the_surprise_of_the_prior_is_computed_once(tmp_path, monkeypatch):
    grid = nx.to_numpy_array(nx.grid_2d_graph(4, 6))
    X, Y = make_system(grid, "heat", [0.5], n_experiments=3, random_state=0)
    settings = {**SHORT, "n_levels": 1, "n_steps": 1, "n_sweeps": 1}
    identifier = LangevinSystemIdentifier("heat", load_prior("grids"), **settings)
    fitted = identifier.fit(X, Y, hide_edges(grid, 0.1, random_state=0))
    calls = []

    def counted(self, known):
        calls.append(known)
        return 7.5

    monkeypatch.setattr(GraphPriorScore, "surprise", counted)
    page = fitted.report(tmp_path / "report.html").read_text(encoding="utf-8")
    assert calls == [fitted.known_edges_]
    assert page.count("lies 7.5 standard deviations away from the") == 2


def report_text(identifier, folder):
    """The words of a report, which is written without a warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return report_of(identifier, folder).text


def fit(identifier, adjacency, known=None, names=None):
    X, Y = make_system(adjacency, "heat", [0.5], n_experiments=8, random_state=0)
    return identifier.fit(X if names is None else pd.DataFrame(X, columns=names), Y, known)


IDENTIFIERS = {
    "sampled": lambda: LangevinSystemIdentifier("heat", **SHORT),
    "adam": lambda: AdamSystemIdentifier("heat", max_iter=3, random_state=0),
    "ridge": lambda: RidgeSystemIdentifier("heat"),
}


@pytest.mark.usefixtures("real_pictures")
@pytest.mark.parametrize("kind", IDENTIFIERS)
def test_one_node(kind, tmp_path):
    text = report_text(fit(IDENTIFIERS[kind](), np.zeros((1, 1))), tmp_path)
    assert "1 node 0 edges in all 0 of 0 unknown pairs" in text
    assert "Known pairs 0 of 0 Known edges 0" in text
    assert "None: all pairs are known." in text
    assert "No edge was inferred." in text


def test_two_nodes_with_an_edge(tmp_path):
    text = report_text(fit(IDENTIFIERS["sampled"](), np.array([[0.0, 1.0], [1.0, 0.0]])), tmp_path)
    assert "2 nodes 1 edge in all 1 of 1 unknown pair inferred" in text


@pytest.mark.parametrize("kind", IDENTIFIERS)
def test_nothing_unknown(kind, tmp_path):
    text = report_text(fit(IDENTIFIERS[kind](), RING, RING), tmp_path)
    assert "None: all pairs are known." in text
    assert "No edge was inferred." in text


@pytest.mark.parametrize("kind", IDENTIFIERS)
def test_nothing_known(kind, tmp_path):
    text = report_text(fit(IDENTIFIERS[kind](), RING), tmp_path)
    assert "Known pairs 0 of 15 (0%)" in text


def test_one_chain_has_no_standard_error(tmp_path):
    several = report_text(fit(LangevinSystemIdentifier("heat", **SHORT), RING), tmp_path)
    assert "± is one standard error" in several
    one = report_text(fit(LangevinSystemIdentifier("heat", **{**SHORT, "n_chains": 1}), RING), tmp_path)
    assert "The decisions about these pairs may be wrong" in one
    assert "±" not in one


def test_a_single_draw_does_not_claim_certainty(tmp_path):
    single = LangevinSystemIdentifier("heat", **{**SHORT, "n_chains": 1, "n_sweeps": 0})
    text = report_text(fit(single, RING), tmp_path)
    assert len(single.theta_samples_) == 1
    assert "A single draw does not show which pairs are uncertain" in text
    assert "of these pairs uncertain" not in text


@pytest.mark.usefixtures("real_pictures")
@pytest.mark.parametrize(
    "names",
    [
        ["$a_1^$", "$", "\\", "", "two\nlines", "\ud800\x00"],
        ["", " ", "  ", "$$", "$$$", "$$$$"],
        [letter * 400 for letter in "abcdef"],
        ["駅", "مرحبا", "\u202ex", "a\u0301", "\u200b", "😀"],
    ],
    ids=["signs", "blanks", "long", "scripts"],
)
def test_names_are_listed_without_a_warning(names, tmp_path):
    text = report_text(fit(IDENTIFIERS["sampled"](), RING, hide_edges(RING, 0.9, random_state=0), names), tmp_path)
    assert "inferred edges Node Node" in text


def test_blank_names_can_be_seen(tmp_path):
    names = ["", " ", "c", "d", "e", "f"]
    text = report_text(fit(IDENTIFIERS["sampled"](), RING, hide_edges(RING, 0.9, random_state=0), names), tmp_path)
    assert "'' ' ' 1.00" in text  # the edge between the first two


# Names that bite


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


@pytest.mark.usefixtures("real_pictures")
def test_the_style_of_the_session_is_left_alone(fitted, tmp_path):
    with mpl.rc_context({"figure.facecolor": "red", "text.usetex": True}):
        before = dict(mpl.rcParams)
        fitted.report(tmp_path / "report.html")
        assert dict(mpl.rcParams) == before


@pytest.mark.usefixtures("real_pictures")
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
    def fail(*arguments, **options):
        raise AssertionError("work was done before the path was looked at")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)


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

    def fail(*arguments, **options):
        raise RuntimeError("no picture")

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", fail)
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
    with pytest.raises(ImportError, match=r'report needs matplotlib.*pip install "sklearn-graphid\[plot\]"'):
        fitted.report(tmp_path / "report.html")
    assert not list(tmp_path.iterdir())
