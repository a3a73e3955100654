"""Time series as experiments: which rows come out, names, borders between series, and bad input."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

from sklearn_graphid import LangevinSystemIdentifier
from sklearn_graphid.datasets import as_experiments
from sklearn_graphid.filters import PolynomialFilter


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
def test_wrong_arguments_are_refused(series, lag, error, message):
    with pytest.raises(error, match=message):
        as_experiments(series, lag)
