"""Pipelines around an identifier: scaling and what theta then means, node selection, names, routing, looks."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor, make_column_selector
from sklearn.ensemble import IsolationForest
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_graphid import KnownEdges, LangevinSystemIdentifier
from sklearn_graphid.datasets import make_grid_graphs, make_system

NAMES = ["Ash", "Birch", "Cedar", "Date", "Elm", "Fir", "Gum", "Hazel"]


@pytest.fixture
def careful():
    """Long enough to find the network of these tests every time."""
    return LangevinSystemIdentifier("polynomial", n_chains=4, n_levels=3, n_steps=2, random_state=0)


@pytest.fixture(scope="session")
def polynomial_experiments(ladder):
    return make_system(ladder, "polynomial", theta=[0.6, 0.3, -0.2], n_experiments=30, noise_std=0.3, random_state=0)


# Units


def test_one_factor_for_all_nodes_scales_theta_and_nothing_else(careful, ladder, ladder_known, polynomial_experiments):
    """Y = h X means c Y = (c / b) h (b X), and a polynomial's theta takes the factor as it is."""
    X, Y = polynomial_experiments
    plain = clone(careful).fit(X, Y, ladder_known)
    milli = make_pipeline(FunctionTransformer(lambda X: 1e-3 * X), careful)
    scaled = TransformedTargetRegressor(milli, func=_per_cent, inverse_func=_from_per_cent)
    scaled.fit(X, Y, langevinsystemidentifier__known_mask=ladder_known)
    identifier = scaled.regressor_[-1]
    np.testing.assert_array_equal(identifier.adjacency_, plain.adjacency_)
    np.testing.assert_array_equal(identifier.adjacency_, ladder)
    np.testing.assert_allclose(identifier.theta_ * 1e-3 / 100, [0.6, 0.3, -0.2], atol=0.02)
    assert identifier.noise_std_ / 100 == pytest.approx(plain.noise_std_, rel=0.1)
    # What comes out is in the units of Y all the same.
    np.testing.assert_allclose(scaled.predict(X), plain.predict(X), atol=0.2)


def _per_cent(values):
    return 100 * values


def _from_per_cent(values):
    return values / 100


def test_standardised_columns_belong_to_no_undirected_network(ladder, ladder_known, careful):
    """The matrix from scaled inputs to outputs is h D, which is symmetric only if D is a multiple of the identity."""
    rng = np.random.default_rng(0)
    spread = rng.uniform(0.2, 5.0, size=8)  # nodes with inputs of very different strength
    X = rng.normal(size=(40, 8)) * spread
    response = 0.6 * np.eye(8) + 0.4 * ladder
    Y = X @ response
    plain = clone(careful).fit(X, Y, ladder_known)
    np.testing.assert_array_equal(plain.adjacency_, ladder)
    scaler = StandardScaler().fit(X)
    standardised = np.diag(scaler.scale_) @ response
    assert np.abs(standardised - standardised.T).max() > 0.5
    pipeline = make_pipeline(StandardScaler(), clone(careful))
    pipeline.fit(X, Y, langevinsystemidentifier__known_mask=ladder_known)
    assert pipeline.score(X, Y) < plain.score(X, Y) - 0.05
    assert pipeline[-1].noise_std_ > 10 * plain.noise_std_


def test_standardised_columns_do_little_where_nodes_are_alike(ladder, ladder_known, careful):
    """With inputs of one strength the scaler comes near one factor, and the network is found in spite of it."""
    X, Y = make_system(ladder, "heat", theta=[0.5], n_experiments=200, noise_std=0.1, random_state=0)
    identity = StandardScaler(with_mean=False)
    target = TransformedTargetRegressor(clone(careful), transformer=FunctionTransformer(_tenth, _tenfold))
    pipeline = Pipeline([("scale", identity), ("identify", target)])
    pipeline.fit(X, Y, identify__known_mask=ladder_known)
    assert pipeline.score(X, Y) > 0.9


def _tenth(values):
    return values / 10


def _tenfold(values):
    return values * 10


# Which nodes


def test_column_transformer_picks_nodes_by_name(careful, ladder):
    """Three sensors among the columns are no nodes of the network; what is known speaks of the nodes alone."""
    X, Y = make_system(ladder, "polynomial", theta=[0.6, 0.3, -0.2], n_experiments=30, noise_std=0.3, random_state=0)
    frame = pd.DataFrame(X, columns=NAMES)
    frame.insert(0, "temperature", 20.0)
    frame["day"] = np.arange(30)
    pick = ColumnTransformer([("nodes", "passthrough", NAMES)], verbose_feature_names_out=False)
    pipeline = make_pipeline(pick.set_output(transform="pandas"), careful)
    pipeline.fit(frame, Y, langevinsystemidentifier__known_mask=KnownEdges.nothing(8))
    direct = clone(careful).fit(X, Y)
    np.testing.assert_array_equal(pipeline[-1].edge_probabilities_, direct.edge_probabilities_)
    assert list(pipeline[-1].to_networkx()) == NAMES
    assert list(pipeline.feature_names_in_) == ["temperature", *NAMES, "day"]
    # A pattern does as well as a list.
    by_pattern = ColumnTransformer([("nodes", "passthrough", make_column_selector(pattern="^[A-Z]"))])
    np.testing.assert_array_equal(by_pattern.fit_transform(frame), X)


def test_feature_names_are_kept_and_checked(quick, ladder_known, square_experiments):
    X, Y = square_experiments
    frame = pd.DataFrame(X, columns=NAMES)
    quick.fit(frame, pd.DataFrame(Y, columns=NAMES), ladder_known)
    assert list(quick.feature_names_in_) == NAMES
    assert list(quick.to_networkx()) == NAMES
    with pytest.raises(ValueError, match="feature names should match"):
        quick.predict(frame[NAMES[::-1]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        quick.predict(X)


@pytest.mark.parametrize("transform", ["default", "pandas"])
def test_set_output_reaches_the_identifier(transform, quick, ladder_known, square_experiments):
    X, Y = square_experiments
    pipeline = make_pipeline(StandardScaler(with_std=False), quick).set_output(transform=transform)
    pipeline.fit(pd.DataFrame(X, columns=NAMES), Y, langevinsystemidentifier__known_mask=ladder_known)
    assert hasattr(pipeline[-1], "feature_names_in_") == (transform == "pandas")


def test_set_output_of_a_prior(trained_prior):
    graphs = make_grid_graphs(3, min_nodes=6, max_nodes=9, min_side=2, max_side=3, random_state=1)
    names = list(trained_prior.get_feature_names_out())
    table = clone(trained_prior).set_output(transform="pandas").fit(graphs).transform(graphs)
    assert list(table.columns) == names
    assert table.shape == (3, trained_prior.n_levels)


# Networks that come from elsewhere


def test_function_transformer_reads_networkx(trained_prior):
    """A pipeline from edge lists to a detector of odd networks, the prior in the middle."""
    grids = make_grid_graphs(8, min_nodes=6, max_nodes=12, min_side=2, max_side=4, random_state=1)
    edge_lists = [list(nx.from_numpy_array(graph).edges) for graph in grids]
    read = FunctionTransformer(_read_edge_lists, check_inverse=False)
    odd = make_pipeline(read, clone(trained_prior), IsolationForest(n_estimators=5, random_state=0))
    labels = odd.fit(edge_lists).predict(edge_lists)
    assert labels.shape == (8,)
    direct = clone(trained_prior).fit([nx.Graph(edges) for edges in edge_lists])
    np.testing.assert_array_equal(
        odd[1].transform(_read_edge_lists(edge_lists)), direct.transform(grids_of(edge_lists))
    )


def _read_edge_lists(edge_lists):
    return [nx.Graph(edges) for edges in edge_lists]


def grids_of(edge_lists):
    return [nx.to_numpy_array(nx.Graph(edges), nodelist=range(len(nx.Graph(edges)))) for edges in edge_lists]


# Routing


def test_routing_passes_what_is_known_through_everything(quick, ladder_known, square_experiments):
    """Search of a target of a pipeline, on the square system: no prefix anywhere."""
    X, Y = square_experiments
    with sklearn.config_context(enable_metadata_routing=True):
        inner = Pipeline([("shift", StandardScaler(with_std=False)), ("identify", quick)])
        target = TransformedTargetRegressor(inner, transformer=StandardScaler(with_std=False))
        search = GridSearchCV(target, {"regressor__identify__n_levels": [2, 3]}, cv=2, error_score="raise")
        search.fit(X, Y, known_mask=ladder_known)
        identifier = search.best_estimator_.regressor_[-1]
        scores = cross_val_score(target, X, Y, cv=2, params={"known_mask": ladder_known})
    assert identifier.known_edges_ is ladder_known
    assert search.cv_results_["mean_test_score"][1] == pytest.approx(scores.mean())


def test_routing_can_be_refused(quick, ladder_known, square_experiments):
    with sklearn.config_context(enable_metadata_routing=True):
        deaf = make_pipeline(clone(quick).set_fit_request(known_mask=False))
        with pytest.raises(TypeError, match="known_mask"):
            deaf.fit(*square_experiments, known_mask=ladder_known)
        renamed = make_pipeline(clone(quick).set_fit_request(known_mask="map"))
        assert renamed.fit(*square_experiments, map=ladder_known)[-1].known_edges_ is ladder_known


def test_without_routing_a_pipeline_wants_the_prefix(quick, ladder_known, square_experiments):
    pipeline = make_pipeline(quick)
    with pytest.raises(ValueError, match="stepname__parameter"):
        pipeline.fit(*square_experiments, known_mask=ladder_known)
    fitted = pipeline.fit(*square_experiments, langevinsystemidentifier__known_mask=ladder_known)
    assert fitted[-1].known_edges_ is ladder_known


def test_predictions_in_a_pipeline_are_out_of_fold(quick, ladder_known, square_experiments):
    pipeline = make_pipeline(FunctionTransformer(), quick)
    told = {"langevinsystemidentifier__known_mask": ladder_known}
    inside = cross_val_predict(pipeline, *square_experiments, cv=2, params=told)
    bare = cross_val_predict(quick, *square_experiments, cv=2, params={"known_mask": ladder_known})
    np.testing.assert_array_equal(inside, bare)


# Looks


def test_html_shows_every_part(quick, frozen_prior, ladder_known, square_experiments):
    identifier = clone(quick).set_params(prior=frozen_prior)
    pipeline = make_pipeline(StandardScaler(with_std=False), identifier)
    for estimator in (quick, pipeline, GridSearchCV(pipeline, {"langevinsystemidentifier__n_chains": [1]})):
        html = estimator._repr_html_()
        assert "LangevinSystemIdentifier" in html
    assert "StandardScaler" in pipeline._repr_html_()
    assert "Not fitted" in quick._repr_html_()
    assert "Fitted" in clone(quick).fit(*square_experiments, ladder_known)._repr_html_()


def test_text_shows_what_was_changed_and_no_more(quick):
    assert repr(clone(quick).set_params(n_levels=10, n_steps=2, n_sweeps=20)) == (
        "LangevinSystemIdentifier(filter='heat', n_chains=2, random_state=0)"
    )
    with sklearn.config_context(print_changed_only=False):
        assert "sigma_max=0.7" in repr(quick)
