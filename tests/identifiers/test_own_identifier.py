"""An identifier from outside the package: one class is enough, and all that takes identifiers takes it."""

from __future__ import annotations

import pickle
from numbers import Real

import networkx as nx
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.utils._param_validation import Interval, InvalidParameterError
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_graphid import RidgeSystemIdentifier, System, compare_identifiers, identify_many
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.identifiers import EdgeScoreIdentifier, EdgeScores

THETA = [1.0, 0.3]


class CorrelationIdentifier(EdgeScoreIdentifier):
    """A pair is an edge where the input at one node is correlated with the output at the other."""

    _parameter_constraints = {
        **EdgeScoreIdentifier._parameter_constraints,
        "power": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(self, filter="polynomial", *, power=1.0, threshold=None, observed_nodes="auto"):
        super().__init__(filter, threshold=threshold, observed_nodes=observed_nodes)
        self.power = power

    def _edge_scores(self, experiments):
        signals = experiments.inputs, experiments.outputs
        standard = [(part - np.nanmean(part, 0)) / np.nanstd(part, 0) for part in signals]
        correlation = np.nanmean(standard[0][:, :, None] * standard[1][:, None, :], axis=0)
        scores = np.abs(correlation + correlation.T) / 2
        return EdgeScores(scores**self.power, {"mean_correlation": float(correlation.mean())})


def make_ring(n_nodes, n_experiments=1000, seed=0):
    """Neighbours that act on one another directly, and half of the pairs known.

    Correlations are 0.27 at edges, and elsewhere 0 with a standard error of 0.02 after a thousand experiments.
    """
    ring = nx.to_numpy_array(nx.cycle_graph(n_nodes))
    X, Y = make_system(ring, "polynomial", [*THETA, 0.0], n_experiments, random_state=seed)
    known = hide_edges(ring, 0.5, random_state=seed)
    return System(X, Y, known, true_adjacency=ring, true_theta=[*THETA, 0.0], name=f"ring of {n_nodes}")


@pytest.fixture
def system():
    return make_ring(8)


@pytest.mark.parametrize("power", [1.0, 2.0])
@pytest.mark.parametrize("is_told", [True, False])
def test_it_agrees_with_numpy(is_told, power, system):
    """Correlations by numpy, theta and noise by least squares on the true graph, and predictions by its powers."""
    X, Y, ring = system.X, system.Y, system.true_adjacency
    fitted = CorrelationIdentifier(power=power).fit(X, Y, system.known_mask if is_told else None)
    across = np.corrcoef(X.T, Y.T)[:8, 8:]
    np.testing.assert_allclose(fitted.edge_scores_, np.abs((across + across.T) / 2) ** power, rtol=1e-9)
    assert fitted.diagnostics_["mean_correlation"] == pytest.approx(across.mean())
    assert fitted.diagnostics_["calibrated"] is is_told
    np.testing.assert_array_equal(fitted.adjacency_, ring)
    np.testing.assert_array_equal(fitted.edge_scores_[ring == 1] > fitted.diagnostics_["cut"], True)
    design = np.stack([(X @ np.linalg.matrix_power(ring, exponent)).ravel() for exponent in range(3)], axis=1)
    theta, squares, _, _ = np.linalg.lstsq(design, Y.ravel(), rcond=None)
    np.testing.assert_allclose(fitted.theta_, theta, rtol=1e-6)
    assert fitted.noise_std_ == pytest.approx(np.sqrt(squares[0] / Y.size))
    np.testing.assert_allclose(fitted.predict(X), (design @ theta).reshape(Y.shape), rtol=1e-6)


def test_known_pairs_stay_and_surer_pairs_have_larger_scores(system):
    known = system.known_mask
    fitted = CorrelationIdentifier().fit(system.X[:10], system.Y[:10], known)
    np.testing.assert_array_equal(fitted.adjacency_[known.mask], known.values[known.mask])
    unknown = known.unknown_pairs()
    ranked = np.argsort(fitted.edge_scores_[unknown])
    assert (np.diff(fitted.edge_probabilities_[unknown][ranked]) >= 0).all()


def test_a_wrong_parameter_is_named(system):
    with pytest.raises(InvalidParameterError, match="The 'power' parameter of CorrelationIdentifier must be a float"):
        CorrelationIdentifier(power=0).fit(system.X, system.Y)


# The checks draw from numpy's global generator, and have outputs at the first nodes only.
@pytest.mark.draws_globally
@pytest.mark.filterwarnings("ignore:Y has .* columns for .* nodes:UserWarning")
@pytest.mark.filterwarnings("ignore:Mean of empty slice:RuntimeWarning")
@pytest.mark.filterwarnings("ignore:Degrees of freedom:RuntimeWarning")
@parametrize_with_checks([CorrelationIdentifier()])
def test_estimator_checks(estimator, check):
    check(estimator)


def test_it_is_cloned_and_pickled(system):
    identifier = CorrelationIdentifier("heat", power=2.0, threshold=0.4, observed_nodes="all")
    copied = clone(identifier)
    assert copied is not identifier
    assert copied.get_params() == identifier.get_params()
    fitted = CorrelationIdentifier().fit(system.X, system.Y, system.known_mask)
    read = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(read.edge_probabilities_, fitted.edge_probabilities_)
    np.testing.assert_array_equal(read.predict(system.X), fitted.predict(system.X))
    assert list(read.to_networkx().edges) == list(fitted.to_networkx().edges)
    assert not hasattr(clone(fitted), "edge_scores_")


def test_it_is_cross_validated_and_searched(system):
    scores = cross_val_score(
        CorrelationIdentifier(), system.X, system.Y, cv=4, params={"known_mask": system.known_mask}
    )
    # The noise has variance 1 and the inputs 100 / 3, of which a node and two neighbours pass on 1 + 2 * 0.3 ** 2.
    expected = 1 - 1 / (1 + 100 / 3 * (THETA[0] ** 2 + 2 * THETA[1] ** 2))
    np.testing.assert_allclose(scores, expected, atol=0.01)
    search = GridSearchCV(CorrelationIdentifier(), {"power": [0.5, 1.0]}, cv=2, error_score="raise")
    search.fit(system.X, system.Y, known_mask=system.known_mask)
    np.testing.assert_array_equal(search.best_estimator_.adjacency_, system.true_adjacency)


def test_many_systems_are_identified():
    frame = identify_many(CorrelationIdentifier(), [make_ring(n_nodes, seed=n_nodes) for n_nodes in (6, 8, 10)])
    assert frame["error_message"].isna().all()
    assert frame["name"].tolist() == ["ring of 6", "ring of 8", "ring of 10"]
    assert frame["edge_f1"].tolist() == [1.0, 1.0, 1.0]
    assert (frame["theta_nrmse"] < 0.05).all()
    assert frame["mean_correlation"].notna().all()  # what it tells of itself has a column


def test_it_is_compared_with_another_one():
    identifiers = {"correlation": CorrelationIdentifier(), "ridge": RidgeSystemIdentifier()}
    systems = [make_ring(8, n_experiments) for n_experiments in (10, 1000)]
    rows = compare_identifiers(identifiers, systems)
    assert rows["error_message"].isna().all()
    assert list(zip(rows["method"], rows["n_experiments"], strict=True)) == [
        (name, n_experiments) for name in identifiers for n_experiments in (10, 1000)
    ]
    # A ridge takes all inputs into account at once, so ten experiments tell it more.
    f1 = rows.pivot(index="method", columns="n_experiments", values="edge_f1")
    assert f1.loc["ridge", 10] >= f1.loc["correlation", 10]
    assert f1.loc["correlation", 1000] == 1.0
