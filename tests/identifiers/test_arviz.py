"""Draws in ArviZ: nothing is lost on the way, and its own functions take them."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from sklearn_graphid import LangevinSystemIdentifier, LikelihoodLangevinIdentifier
from sklearn_graphid.datasets import make_system

arviz = pytest.importorskip("arviz")

NAMES = ["Ash", "Birch", "Cedar", "Date", "Elm", "Fir"]


@pytest.fixture
def fitted(ring_known, ring_experiments):
    X, Y = ring_experiments
    settings = {"n_chains": 4, "n_levels": 2, "n_steps": 2, "n_sweeps": 20}
    identifier = LangevinSystemIdentifier("polynomial", random_state=0, **settings)
    return identifier.fit(pd.DataFrame(X, columns=NAMES), Y, ring_known)


def test_every_draw_is_there(fitted):
    posterior = fitted.to_arviz().posterior
    n_chains, n_draws = posterior.sizes["chain"], posterior.sizes["draw"]
    assert posterior["theta"].dims == ("chain", "draw", "parameter")
    assert posterior["noise_std"].dims == ("chain", "draw")
    assert posterior["edges"].dims == ("chain", "draw", "pair")
    np.testing.assert_array_equal(posterior["theta"].to_numpy().reshape(-1, 3), fitted.theta_samples_)
    np.testing.assert_array_equal(posterior["noise_std"].to_numpy().ravel(), fitted.noise_std_samples_)
    # `sample` walks over the same draws.
    graphs, _ = fitted.sample(n_chains * n_draws, random_state=0)
    rows, columns = fitted.known_edges_.unknown_pairs()
    np.testing.assert_array_equal(posterior["edges"].mean(("chain", "draw")), graphs[:, rows, columns].mean(0))


def test_coordinates_are_names(fitted):
    posterior = fitted.to_arviz().posterior
    rows, columns = fitted.known_edges_.unknown_pairs()
    assert list(posterior["pair"].to_numpy()) == [
        f"{NAMES[i]} - {NAMES[j]}" for i, j in zip(rows, columns, strict=True)
    ]
    assert list(posterior["parameter"].to_numpy()) == ["theta_0", "theta_1", "theta_2"]
    one = posterior["edges"].sel(pair=f"{NAMES[rows[0]]} - {NAMES[columns[0]]}")
    assert set(np.unique(one)) <= {0, 1}


def test_statistics_of_the_draws_go_with_them(fitted):
    statistics = fitted.to_arviz().sample_stats
    assert statistics["joint_log_likelihood"].shape == statistics["log_prior"].shape
    kept = statistics["joint_log_likelihood"].to_numpy()
    np.testing.assert_array_equal(kept, fitted._draws.log_likelihood)
    assert np.isfinite(statistics["log_prior"]).all()


def test_data_come_along_where_they_are_given(fitted, ring_experiments):
    X, Y = ring_experiments
    data = fitted.to_arviz(X, Y)
    np.testing.assert_array_equal(data.constant_data["X"], X)
    np.testing.assert_array_equal(data.observed_data["Y"], Y)
    assert list(data.observed_data["output"].to_numpy()) == NAMES
    assert set(fitted.to_arviz().groups()) == {"posterior", "sample_stats"}


def test_data_of_another_shape_are_refused(fitted, ring_experiments):
    X, Y = ring_experiments
    with pytest.raises(ValueError, match=r"X has shape \(20, 5\); expected \(n_experiments, 6\)"):
        fitted.to_arviz(X[:, :5])
    with pytest.raises(ValueError, match=r"y has shape \(20, 1\); expected \(n_experiments, 6\)"):
        fitted.to_arviz(X, Y[:, 0])


def test_outputs_at_some_nodes(ring_known, ring_experiments):
    X, Y = ring_experiments
    identifier = LangevinSystemIdentifier("heat", observed_nodes=[4, 1], n_chains=2, n_levels=4, random_state=0)
    data = identifier.fit(X, Y[:, [4, 1]], ring_known).to_arviz(X, Y[:, [4, 1]])
    assert list(data.observed_data["output"].to_numpy()) == ["4", "1"]


def test_summary_agrees_with_the_diagnostics(fitted):
    data = fitted.to_arviz()
    r_hat = arviz.rhat(data, var_names=["theta"])["theta"]  # `summary` breaks ties in another way
    np.testing.assert_allclose(r_hat, fitted.diagnostics_["r_hat_theta"], rtol=1e-9)
    summary = arviz.summary(data, var_names=["theta"], round_to="none")
    np.testing.assert_allclose(summary["ess_bulk"], fitted.diagnostics_["effective_sample_size_theta"], rtol=1e-9)
    np.testing.assert_allclose(summary["mean"], fitted.theta_)
    everything = arviz.summary(data)
    assert len(everything) == 3 + 1 + fitted.known_edges_.n_unknown


def test_it_can_be_written_and_read(fitted, ring_experiments, tmp_path):
    data = fitted.to_arviz(*ring_experiments)
    data.to_netcdf(str(tmp_path / "draws.nc"))
    restored = arviz.from_netcdf(str(tmp_path / "draws.nc"))
    for group in data.groups():
        for name, values in data[group].data_vars.items():
            np.testing.assert_array_equal(restored[group][name], values)


def test_langevin_gives_a_draw_of_each_chain(ring_known, ring_experiments):
    settings = {"n_chains": 3, "n_levels": 2, "n_steps": 2, "n_sweeps": 0}
    identifier = LikelihoodLangevinIdentifier("heat", random_state=0, **settings)
    identifier.fit(*ring_experiments, ring_known)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = identifier.to_arviz()
    assert data.posterior.sizes["draw"] == 1


def test_a_known_network_has_no_pairs(ring):
    X, Y = make_system(ring, "heat", [0.5], n_experiments=5, random_state=0)
    identifier = LangevinSystemIdentifier("heat", n_chains=2, n_levels=4, random_state=0).fit(X, Y, ring)
    assert identifier.to_arviz().posterior.sizes["pair"] == 0


def test_without_arviz_the_error_names_the_extra(fitted, monkeypatch):
    monkeypatch.setitem(sys.modules, "arviz", None)
    with pytest.raises(ImportError, match=r'pip install "sklearn-graphid\[diagnostics\]"'):
        fitted.to_arviz()


def test_a_version_without_inference_data_is_told(fitted, monkeypatch):
    class Successor:
        __version__ = "1.0.0"

    monkeypatch.setitem(sys.modules, "arviz", Successor())
    with pytest.raises(ImportError, match=r"ArviZ 1\.0\.0 no longer has.*sklearn-graphid\[diagnostics\]"):
        fitted.to_arviz()


def test_noise_and_theta_of_a_draw_stay_together(fitted, ring_experiments):
    """The log-likelihood of every draw follows from its theta, graph and noise level, however much its chain counts."""
    X, Y = ring_experiments
    draws = fitted._draws._replace(weight=np.array([0.7, 0.1, 0.1, 0.1]))
    fitted._draws, fitted.noise_std_samples_ = draws, draws.pooled(draws.noise_std)
    assert (fitted.noise_std_samples_ != draws.noise_std.ravel()).any()
    data = fitted.to_arviz()
    theta, noise_std, edges = (data.posterior[name].to_numpy() for name in ("theta", "noise_std", "edges"))
    graphs = fitted.known_edges_.fill(edges)
    powers = np.stack([np.broadcast_to(np.eye(6), graphs.shape), graphs, graphs @ graphs], axis=2)
    squares = ((Y - X @ np.einsum("cdp,cdpij->cdij", theta, powers).swapaxes(-2, -1)) ** 2).sum((-2, -1))
    expected = -0.5 * squares / noise_std**2 - Y.size * np.log(noise_std)
    np.testing.assert_allclose(data.sample_stats["joint_log_likelihood"], expected, rtol=1e-4)
