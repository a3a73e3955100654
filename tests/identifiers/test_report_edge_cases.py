"""Reports of fits that are unusual: a prior that is slow, one node, nothing unknown, nothing known, one chain."""

from __future__ import annotations

import html
import re
import warnings

import networkx as nx
import numpy as np
import pandas as pd
import pytest

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
        page = identifier.report(folder / "report.html").read_text(encoding="utf-8")
    body = re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def fit(identifier, adjacency, known=None, names=None):
    X, Y = make_system(adjacency, "heat", [0.5], n_experiments=8, random_state=0)
    return identifier.fit(X if names is None else pd.DataFrame(X, columns=names), Y, known)


IDENTIFIERS = {
    "sampled": lambda: LangevinSystemIdentifier("heat", **SHORT),
    "adam": lambda: AdamSystemIdentifier("heat", n_iterations=3, random_state=0),
    "ridge": lambda: RidgeSystemIdentifier("heat"),
}


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
