"""Power grids against pandapower's own matrices and published reactances, water networks against EPANET."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch

from sklearn_graphid.datasets import make_power_grid, make_water_network
from sklearn_graphid.filters import SteadyStateFilter

pandapower = pytest.importorskip("pandapower", reason='needs pip install "sklearn-graphid[real]"')
with np.printoptions():  # which wntr changes
    wntr = pytest.importorskip("wntr", reason='needs pip install "sklearn-graphid[real]"')
from pandapower import networks  # noqa: E402

# Power grids and water networks


@pytest.mark.parametrize(("make", "name"), [(make_power_grid, "case14"), (make_water_network, "Net1")])
def test_noise_is_a_share_of_the_outputs(make, name):
    exact, noisy = (make(name, 20, noise=noise, random_state=3) for noise in (0, 0.05))
    np.testing.assert_allclose(exact.X, noisy.X, atol=1e-10)
    assert exact.noise_std == 0
    power = (np.delete(exact.Y, exact.ground, axis=1) ** 2).mean()
    assert noisy.noise_std == pytest.approx(0.05 * np.sqrt(power))
    errors = noisy.Y - exact.Y
    assert abs(errors.std() / noisy.noise_std - 1) < 5 / np.sqrt(2 * errors.size)


# The results of wntr differ in the last bits from one run to the next.
@pytest.mark.parametrize(
    ("make", "name", "tolerance"),
    [(make_power_grid, "case9", {"rtol": 0}), (make_water_network, "Net1", {"atol": 1e-9})],
)
def test_frames_carry_names_and_seeds_decide(make, name, tolerance):
    arrays, frames = (make(name, 3, as_frame=as_frame, random_state=0) for as_frame in (False, True))
    for key in ("X", "Y", "adjacency", "weights"):
        np.testing.assert_allclose(arrays[key], frames[key].to_numpy(), **tolerance)
        assert list(frames[key].columns) == arrays.node_names
    assert list(frames.weights.index) == arrays.node_names
    assert arrays.positions.shape == (len(arrays.node_names), 2)
    assert (make(name, 3, random_state=1).X != arrays.X).any()


# Power grids


# The branches of the IEEE 14-bus test case: ends, reactance in per unit, and the ratio of transformers.
BRANCHES_OF_14_BUSES = """
1 2 .05917 1      1 5 .22304 1      2 3 .19797 1      2 4 .17632 1      2 5 .17388 1      3 4 .17103 1
4 5 .04211 1      4 7 .20912 .978   4 9 .55618 .969   5 6 .25202 .932   6 11 .1989 1      6 12 .25581 1
6 13 .13027 1     7 8 .17615 1      7 9 .11001 1      9 10 .0845 1      9 14 .27038 1     10 11 .19207 1
12 13 .19988 1    13 14 .34802 1
"""


def steady_state(grid):
    """What the filter makes of the inputs, with the weights as its graph and scale one."""
    weights, inputs = torch.tensor(grid.weights)[None], torch.tensor(grid.X)
    return SteadyStateFilter(ground=grid.ground).apply(weights, torch.ones(1, 1, dtype=torch.float64), inputs)[0]


def grid_of_seven_buses():
    """Two parallel lines, a transformer, buses that a switch makes one, one out of service, and two without supply."""
    net = pandapower.create_empty_network(sn_mva=10)
    for bus in (3, 5, 7, 9, 11, 13, 20):
        pandapower.create_bus(net, 20, index=bus)
    for start, end, ohms in ((3, 5, 0.4), (5, 7, 0.3), (5, 7, 0.6), (9, 11, 0.5), (13, 20, 0.2), (3, 9, 0.8)):
        pandapower.create_line_from_parameters(net, start, end, 1, 0.1, ohms, 0, 1)
    pandapower.create_switch(net, 7, 9, "b")
    net.bus.loc[11, "in_service"] = False
    pandapower.create_ext_grid(net, 7)
    pandapower.create_load(net, 5, 2.0)
    return net


def test_weights_are_the_published_susceptances():
    expected, rows = np.zeros((14, 14)), BRANCHES_OF_14_BUSES.split()
    for start, end, reactance, ratio in zip(*(rows[column::4] for column in range(4)), strict=True):
        first, second = int(start) - 1, int(end) - 1
        expected[first, second] = expected[second, first] = 1 / (float(reactance) * float(ratio))
    grid = make_power_grid("case14", 1, random_state=0)
    np.testing.assert_allclose(grid.weights, expected, rtol=1e-6)
    np.testing.assert_array_equal(grid.adjacency, expected > 0)
    assert grid.ground == 0
    assert grid.base_mva == 100


@pytest.mark.parametrize("case", ["case14", "case118"])
def test_dc_outputs_solve_pandapowers_equations(case):
    net = getattr(networks, case)()
    pandapower.rundcpp(net)
    matrix = net._ppc["internal"]["Bbus"].toarray()
    grid = make_power_grid(case, 4, noise=0, random_state=1)
    free = np.arange(len(matrix)) != grid.ground
    expected = np.zeros_like(grid.Y)
    expected[:, free] = np.linalg.solve(matrix[np.ix_(free, free)], grid.X[:, free].T).T
    np.testing.assert_allclose(grid.Y, expected, atol=1e-12)
    np.testing.assert_allclose(grid.X.sum(axis=1), 0, atol=1e-10)  # the slack bus takes up what the others feed in


def test_the_filter_gives_the_dc_outputs():
    grid = make_power_grid("case57", 1, noise=0, random_state=0)
    # The filter has a leak of a millionth at every node, so that it can be inverted for all graphs.
    np.testing.assert_allclose(steady_state(grid), grid.Y, atol=1e-5 * np.abs(grid.Y).max())


@pytest.mark.parametrize("input_scale", [0.1, 0.001])
def test_ac_is_near_dc(input_scale):
    dc, ac = (
        make_power_grid("case14", 2, flow=flow, noise=0, input_scale=input_scale, random_state=0)
        for flow in ("dc", "ac")
    )
    np.testing.assert_array_equal(dc.X[:, 1:], ac.X[:, 1:])
    distance = np.linalg.norm(ac.Y - dc.Y) / np.linalg.norm(dc.Y)
    # Resistances and voltages that are not one; inputs that go to zero leave that as it is.
    assert 0.01 < distance < 0.2
    assert np.abs(ac.X.sum(axis=1)).max() > 0  # losses


def test_ac_angles_are_those_of_the_jacobian():
    """Small inputs: the change of the angles by the inverse of Newton's own Jacobian at the base case."""
    net = networks.case14()
    pandapower.runpp(net, numba=False, tolerance_mva=1e-10)
    model = net._ppc["internal"]
    n_angles = len(model["pv"]) + len(model["pq"])
    order = np.concatenate([model["pv"], model["pq"]])
    grid = make_power_grid("case14", 2, flow="ac", noise=0, input_scale=1e-3, random_state=0)
    powers = np.zeros((2, model["J"].shape[0]))
    powers[:, :n_angles] = grid.X[:, order]
    expected = np.linalg.solve(model["J"].toarray(), powers.T).T[:, :n_angles]
    np.testing.assert_allclose(grid.Y[:, order], expected, atol=2e-3 * np.abs(expected).max())


def test_switches_parallel_lines_and_what_has_no_supply():
    net = grid_of_seven_buses()
    n_feeds = len(net.sgen)
    grid = make_power_grid(net, 3, noise=0, random_state=0)
    assert grid.node_names == ["bus 3", "bus 5", "bus 7+9"]
    assert grid.ground == 2
    per_ohm = 20**2 / 10  # ohms that are one in per unit: the voltage squared over the power
    expected = per_ohm * np.array(
        [[0, 1 / 0.4, 1 / 0.8], [1 / 0.4, 0, 1 / 0.3 + 1 / 0.6], [1 / 0.8, 1 / 0.3 + 1 / 0.6, 0]]
    )
    np.testing.assert_allclose(grid.weights, expected)
    np.testing.assert_allclose(steady_state(grid), grid.Y, atol=1e-6 * np.abs(grid.Y).max())
    assert np.abs(grid.X[:, :2]).max() <= 0.1 * 2.0 / 3 / 10  # a tenth of the mean load of three nodes, in per unit
    assert len(net.sgen) == n_feeds  # the user's grid is left alone


def test_experiments_that_do_not_converge_are_drawn_anew():
    grid = make_power_grid("case57", 5, flow="ac", input_scale=0.5, random_state=0)
    assert grid.n_redrawn > 0
    assert np.isfinite(grid.Y).all()
    with pytest.raises(ValueError, match=r"input_scale=100.0: .* did not converge for 10 draws .* smaller input_scale"):
        make_power_grid("case57", 1, flow="ac", input_scale=100.0, random_state=0)


def test_pandapowers_log_is_as_it_was(caplog):
    logger = logging.getLogger("pandapower")
    level = logger.level
    make_power_grid("case9", 1, random_state=0)
    assert logger.level == level
    assert not [record for record in caplog.records if "numba" in record.message]


def without_load():
    net = grid_of_seven_buses()
    net.load["in_service"] = False
    return net


def with_two_slack_buses():
    net = grid_of_seven_buses()
    pandapower.create_ext_grid(net, 3)
    return net


def with_three_windings():
    net = grid_of_seven_buses()
    for bus, voltage in ((30, 110), (31, 10)):
        pandapower.create_bus(net, voltage, index=bus)
    pandapower.create_transformer3w(net, 30, 5, 31, "63/25/38 MVA 110/20/10 kV")
    return net


@pytest.mark.parametrize(
    ("case", "options", "error", "message"),
    [
        ("case15", {}, ValueError, "case='case15'; expected a pandapowerNet, or one of .*case14"),
        ("sorted_from_json", {}, ValueError, "case='sorted_from_json'; expected"),
        (14, {}, TypeError, "case is a int; expected the name"),
        ("case9", {"flow": "hvdc"}, ValueError, "flow='hvdc'; expected 'dc' or 'ac'"),
        ("case9", {"n_experiments": 0}, ValueError, "n_experiments=0; expected"),
        ("case9", {"noise": -1.0}, ValueError, "noise=-1.0; expected"),
        ("case9", {"input_scale": 0.0}, ValueError, "input_scale=0.0; expected a positive"),
        ("case9", {"as_frame": "yes"}, TypeError, "as_frame='yes'; expected True or False"),
        ("case11_iwamoto", {"flow": "ac"}, ValueError, "AC power flow of case does not converge in its base case"),
        (without_load, {}, ValueError, "case has no load in service"),
        (with_two_slack_buses, {}, ValueError, "case has 2 slack buses; expected exactly one"),
        (with_three_windings, {}, ValueError, "case has three-winding transformers"),
    ],
)
def test_wrong_arguments_of_power_grids_are_refused(case, options, error, message):
    with pytest.raises(error, match=message):
        make_power_grid(case() if callable(case) else case, random_state=0, **options)


# Water networks


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


@pytest.mark.parametrize("network", ["Net1", "Net2"])
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
def test_wrong_arguments_of_water_networks_are_refused(network, options, error, message):
    with pytest.raises(error, match=message):
        make_water_network(network() if callable(network) else network, random_state=0, **options)
