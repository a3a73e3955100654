"""Simulated water networks against the law of Hazen and Williams, EPANET, and networks made by hand."""

from __future__ import annotations

import numpy as np
import pytest

from sklearn_graphid.datasets import make_water_network

with np.printoptions():  # which wntr changes
    wntr = pytest.importorskip("wntr", reason='needs pip install "sklearn-graphid[real]"')


def linear_response(water):
    """Heads by the inverse of the weights' Laplacian without the ground."""
    laplacian = np.diag(water.weights.sum(axis=1)) - water.weights
    free = np.arange(len(laplacian)) != water.ground
    heads = np.zeros_like(water.X)
    heads[:, free] = np.linalg.solve(laplacian[np.ix_(free, free)], water.X[:, free].T).T
    return heads


def relative_distance(values, reference):
    return np.linalg.norm(values - reference) / np.linalg.norm(reference)


def tree():
    """A lake, a tank and three junctions in a row; a junction behind a closed pipe; a pipe from lake to tank."""
    model = wntr.network.WaterNetworkModel()
    model.add_reservoir("lake", base_head=50.0, coordinates=(0, 0))
    model.add_tank("tank", elevation=40.0, init_level=5.0, min_level=0.0, max_level=10.0, diameter=20.0)
    for place, (name, litres) in enumerate([("a", 5.0), ("b", 0.0), ("c", 15.0), ("alone", 0.0)]):
        model.add_junction(name, base_demand=litres / 1000, coordinates=(place + 1, 0))
    for name, start, end, length in [("1", "lake", "a", 800.0), ("2", "a", "b", 500.0), ("3", "b", "c", 300.0)]:
        model.add_pipe(name, start, end, length=length, diameter=0.2, roughness=110)
    model.add_pipe("closed", "c", "alone", initial_status="CLOSED")
    model.add_pipe("supply", "lake", "tank")
    return model


def test_weights_follow_the_law_of_hazen_and_williams():
    """In a row of pipes flows are sums of demands, and all is known: h = k q^1.852, dq/dh = 1 / (1.852 k q^.852)."""
    water = make_water_network(tree(), 2, noise=0, random_state=0)
    assert water.node_names == ["a", "b", "c", "lake+tank"]
    assert water.ground == 3
    expected = np.zeros((4, 4))
    for ends, length, flow in [((3, 0), 800.0, 0.020), ((0, 1), 500.0, 0.015), ((1, 2), 300.0, 0.015)]:
        resistance = 10.67 * length / (110**1.852 * 0.2**4.871)
        expected[ends] = expected[ends[::-1]] = 1000 / (1.852 * resistance * flow**0.852)
    np.testing.assert_allclose(water.weights, expected, rtol=2e-3)  # the constant is rounded
    np.testing.assert_array_equal(water.adjacency, expected > 0)
    np.testing.assert_allclose(water.positions, [[1, 0], [2, 0], [3, 0], [0, 0]])


@pytest.mark.parametrize("network", ["Net1", "Net2", "Net3"])
def test_small_changes_have_the_response_of_the_weights(network):
    """What is left is the curvature of the friction, so a tenth of the inputs leaves about a tenth of it."""
    larger, smaller = (
        make_water_network(network, 3, noise=0, input_scale=scale, random_state=0) for scale in (0.1, 0.01)
    )
    assert relative_distance(linear_response(larger), larger.Y) < 0.05
    assert relative_distance(linear_response(smaller), smaller.Y) < 0.005
    np.testing.assert_allclose(larger.X, 10 * smaller.X, atol=1e-9)
    np.testing.assert_allclose(larger.X.sum(axis=1), 0, atol=1e-9)  # tanks and reservoirs supply what junctions take


def test_epanet_agrees(tmp_path):
    """The same experiment by another program, which computes in single precision and stops early."""
    water = make_water_network("Net2", 1, noise=0, input_scale=0.3, random_state=0)
    model = wntr.library.ModelLibrary().get_model("Net2")
    model.options.time.duration = 0
    model.options.hydraulic.accuracy = 1e-6

    def heads(name):
        results = wntr.sim.EpanetSimulator(model).run_sim(file_prefix=str(tmp_path / name))
        return results.node["head"].iloc[0][model.junction_name_list].to_numpy()

    before = heads("before")
    model.add_pattern("constant", [1.0])  # without a name EPANET would take the network's first pattern
    for name, inflow in zip(water.node_names, water.X[0], strict=True):
        if name in model.junction_name_list:
            model.get_node(name).demand_timeseries_list.append((-inflow / 1000, "constant"))
    np.testing.assert_allclose(heads("after") - before, np.delete(water.Y[0], water.ground), atol=2e-4)
    assert np.abs(water.Y).max() > 0.05


def test_noise_is_a_share_of_the_outputs():
    exact, noisy = (make_water_network("Net1", 60, noise=noise, random_state=3) for noise in (0, 0.05))
    np.testing.assert_allclose(exact.X, noisy.X, atol=1e-10)
    assert noisy.noise_std == pytest.approx(0.05 * np.sqrt((np.delete(exact.Y, exact.ground, axis=1) ** 2).mean()))
    errors = noisy.Y - exact.Y
    assert abs(errors.std() / noisy.noise_std - 1) < 5 / np.sqrt(2 * errors.size)


def test_frames_carry_names_and_seeds_decide():
    frames = make_water_network("Net1", 2, as_frame=True, random_state=0)
    arrays = make_water_network("Net1", 2, random_state=0)
    for key in ("X", "Y", "adjacency", "weights"):
        np.testing.assert_allclose(arrays[key], frames[key].to_numpy(), atol=1e-9)
        assert list(frames[key].columns) == arrays.node_names
    assert (make_water_network("Net1", 2, random_state=1).X != arrays.X).any()


def test_the_users_model_is_left_as_it_is():
    model = tree()
    before = model.to_dict()
    make_water_network(model, 1, random_state=0)
    assert model.to_dict() == before


def without_tanks():
    model = wntr.network.WaterNetworkModel()
    model.add_junction("a", base_demand=0.01)
    return model


def without_demands():
    model = tree()
    for name in ("a", "c"):
        model.get_node(name).demand_timeseries_list[0].base_value = 0.0
    return model


def with_pressure_valve():
    model = tree()
    model.add_junction("d", base_demand=0.01)
    model.add_valve("valve", "c", "d", valve_type="PRV", initial_setting=5.0, initial_status="ACTIVE")
    return model


@pytest.mark.parametrize(
    ("network", "options", "error", "message"),
    [
        ("Hanoi", {}, ValueError, "network='Hanoi'; expected a WaterNetworkModel, or one of .*Net1, Net2, Net3"),
        (2, {}, TypeError, "network is a int; expected a name"),
        ("Net1", {"n_experiments": 1.5}, ValueError, "n_experiments=1.5; expected"),
        ("Net1", {"noise": float("nan")}, ValueError, "noise=nan; expected"),
        ("Net1", {"input_scale": -1}, ValueError, "input_scale=-1; expected a positive"),
        ("Net1", {"as_frame": 1}, TypeError, "as_frame=1; expected True or False"),
        (without_tanks, {}, ValueError, "network lacks a junction, or a tank or reservoir"),
        (without_demands, {}, ValueError, "network has no demand at time zero"),
        (with_pressure_valve, {}, ValueError, "flow does not follow from the heads at their ends, such as valve"),
    ],
)
def test_wrong_arguments_are_refused(network, options, error, message):
    with pytest.raises(error, match=message):
        make_water_network(network() if callable(network) else network, random_state=0, **options)
