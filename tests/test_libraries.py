"""Libraries that are imported only where they are needed, and the progress bars that `verbose` shows."""

from __future__ import annotations

import pickle
import sys

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.callback import ProgressBar
from sklearn.model_selection import GridSearchCV

from sklearn_graphid import AdamSystemIdentifier, GraphPriorScore, LangevinSystemIdentifier
from sklearn_graphid._utils import _libraries
from sklearn_graphid._utils._libraries import LateProgressBar, is_networkx
from sklearn_graphid.datasets import make_system

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

RING = nx.to_numpy_array(nx.cycle_graph(6))
DATA = make_system(RING, "heat", [0.5], n_experiments=8, random_state=0)
GRAPHS = [nx.cycle_graph(6)] * 4
CASES = {
    "langevin": (LangevinSystemIdentifier("heat", n_chains=10, n_levels=2, n_sweeps=2, random_state=0), DATA),
    "adam": (AdamSystemIdentifier("heat", max_iter=3, random_state=0), DATA),
    "prior": (GraphPriorScore(max_epochs=2, random_state=0), (GRAPHS,)),
}


@pytest.fixture(params=CASES)
def case(request):
    estimator, data = CASES[request.param]
    return clone(estimator), data


@pytest.fixture
def terminal(monkeypatch):
    """A person who looks at a terminal."""
    pytest.importorskip("rich", reason="progress bars need rich, from the extra 'progress'")
    monkeypatch.setattr(_libraries, "_has_terminal", lambda: True)


def shown_by(estimator, data, capsys):
    name = type(estimator).__name__
    estimator.fit(*data)
    assert not getattr(estimator, "_skl_callbacks", ())  # nothing stays behind that a clone or a pickle would carry
    text = capsys.readouterr().out
    assert ("100%" in text) == (f"{name} - fit" in text)
    return f"{name} - fit" in text


@pytest.mark.parametrize("verbose", [True, False])
def test_bars_are_shown_or_not_as_asked(case, verbose, capsys, terminal):
    estimator, data = case
    assert shown_by(estimator.set_params(verbose=verbose), data, capsys) == verbose


@pytest.mark.parametrize("patience", [0.0, 1e9])
def test_long_fits_show_bars_on_a_terminal_unasked(case, patience, capsys, terminal, monkeypatch):
    monkeypatch.setattr(LateProgressBar, "patience", patience)
    assert shown_by(*case, capsys) == (patience == 0)


def test_nothing_is_shown_unasked_where_there_is_no_terminal(case, capsys, monkeypatch):
    monkeypatch.setattr(LateProgressBar, "patience", 0.0)
    assert not shown_by(*case, capsys)


def test_bars_that_appear_late_tell_of_all_that_was_done(capsys, terminal, monkeypatch):
    """The clock is set so that the bar appears with the seventh event, after the first batch has begun."""
    ticks = iter(range(1_000))
    monkeypatch.setattr(_libraries.time, "monotonic", lambda: next(ticks))
    monkeypatch.setattr(LateProgressBar, "patience", 7)
    estimator, data = CASES["langevin"]
    assert shown_by(clone(estimator), data, capsys)


def test_bars_do_not_change_the_fit(capsys):
    estimator, data = CASES["langevin"]
    shown, hidden = (clone(estimator).set_params(verbose=verbose).fit(*data) for verbose in (True, False))
    np.testing.assert_array_equal(shown.edge_probabilities_, hidden.edge_probabilities_)


def test_bar_of_the_user_is_the_only_one(capsys, terminal):
    estimator, data = CASES["adam"]
    bar = ProgressBar()
    fitted = clone(estimator).set_params(verbose=True).set_callbacks(bar).fit(*data)
    assert fitted._skl_callbacks == [bar]
    assert capsys.readouterr().out.count("100%") == 1


def test_callbacks_are_as_before_after_a_fit_that_fails(monkeypatch, capsys, terminal):
    def fail(*arguments):
        raise RuntimeError("no descent")

    monkeypatch.setattr(AdamSystemIdentifier, "_descend", fail)
    identifier = AdamSystemIdentifier("heat", max_iter=3, verbose=True, random_state=0)
    with pytest.raises(RuntimeError, match="no descent"):
        identifier.fit(*DATA)
    assert not getattr(identifier, "_skl_callbacks", ())


def test_search_shows_no_bars_of_its_parts(capsys, terminal, monkeypatch):
    monkeypatch.setattr(LateProgressBar, "patience", 0.0)
    identifier = AdamSystemIdentifier("heat", max_iter=3, random_state=0)
    GridSearchCV(identifier, {"learning_rate": [0.01, 0.02]}, cv=2, refit=False).fit(*DATA)
    assert capsys.readouterr().out == ""


def test_copy_in_a_worker_shows_nothing():
    bar = LateProgressBar()
    bar.setup(None, "the root")
    copy = pickle.loads(pickle.dumps(bar))
    copy.on_fit_task_begin(None, None)
    assert copy._kept == []


@pytest.mark.parametrize("verbose", [None, "yes", 3.0])
def test_other_values_are_refused(case, verbose):
    estimator, data = case
    with pytest.raises(ValueError, match="'verbose' parameter"):
        estimator.set_params(verbose=verbose).fit(*data)


def test_missing_library_is_named(monkeypatch):
    def refuse(library):
        raise ImportError(library)

    monkeypatch.setattr("sklearn_graphid._utils._libraries.import_module", refuse)
    with pytest.raises(ImportError, match=r"verbose=True needs rich.*sklearn-graphid\[progress\]"):
        AdamSystemIdentifier(verbose=True, random_state=0).fit(*DATA)


@pytest.mark.parametrize("kind", [nx.Graph, nx.DiGraph, nx.MultiGraph])
def test_graphs_of_networkx_are_known_for_what_they_are(kind):
    assert is_networkx(kind())


@pytest.mark.parametrize("value", [None, 3, "graph", np.eye(2), [[0, 1], [1, 0]], nx.Graph])
def test_other_values_are_no_graphs(value):
    assert not is_networkx(value)


def test_nothing_is_a_graph_before_networkx_is_imported(monkeypatch):
    monkeypatch.delitem(sys.modules, "networkx")
    assert not is_networkx(np.eye(2))
    assert "networkx" not in sys.modules
