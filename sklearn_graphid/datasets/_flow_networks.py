"""Power grids simulated by pandapower, and water networks simulated by wntr.

In both, something flows from nodes of high to nodes of low potential, and the potential of one node is fixed.
"""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import Bunch

from .._utils._libraries import require
from .._utils._numbers import FloatArray, check_flag, check_integer, check_number, check_random_state

__all__ = ["make_power_grid", "make_water_network"]

_LITRES = 1000.0  # in a cubic metre; wntr counts in cubic metres per second whatever the units of the file


class _FlowNetwork(NamedTuple):
    """Nodes and edges, as they are returned."""

    names: list[str]
    weights: FloatArray  # (nodes, nodes), flow for a difference of one between the potentials
    ground: int  # the node whose potential is fixed
    positions: FloatArray | None  # (nodes, 2), where the nodes are drawn


def _check_options(n_experiments: Any, noise: Any, input_scale: Any, as_frame: Any) -> None:
    check_integer(n_experiments, "n_experiments", low=1)
    check_number(noise, "noise", low=0.0)
    check_number(input_scale, "input_scale", positive=True)
    check_flag(as_frame, "as_frame")


def _measured_bunch(
    network: _FlowNetwork,
    inputs: FloatArray,
    outputs: FloatArray,
    noise: float,
    as_frame: bool,
    random: np.random.RandomState,
    **more: Any,
) -> Bunch:
    """Add noise to simulated outputs (experiments, nodes), relative to those of all nodes but the ground."""
    noise_std = noise * float(np.sqrt(np.mean(np.delete(outputs, network.ground, axis=1) ** 2)))
    noisy = outputs + noise_std * random.standard_normal(outputs.shape)
    adjacency = (network.weights != 0).astype(np.float64)
    signals, graphs = {"X": inputs, "Y": noisy}, {"adjacency": adjacency, "weights": network.weights}
    tables: dict[str, Any] = signals | graphs
    if as_frame:
        import pandas as pd  # both simulators need it

        tables = {key: pd.DataFrame(table, columns=network.names) for key, table in signals.items()}
        tables |= {key: pd.DataFrame(table, network.names, network.names) for key, table in graphs.items()}
    tables |= {"node_names": network.names, "ground": network.ground, "positions": network.positions}
    return Bunch(**tables, noise_std=noise_std, **more)


def make_power_grid(
    case: Any = "case14",
    n_experiments: int = 50,
    *,
    flow: str = "dc",
    noise: float = 0.01,
    input_scale: float = 0.1,
    as_frame: bool = False,
    random_state: Any = None,
) -> Bunch:
    """Simulate experiments on a power grid with pandapower.

    Every experiment changes the power that is fed in at every bus except the slack bus, which balances the changes. X
    and Y are differences from the base case. Nodes are the buses in service that are connected with the slack bus;
    buses joined by closed bus-bus switches are one node.

    Parameters
    ----------
    case : str or pandapowerNet, default="case14"
        A test case of pandapower, such as "case14", "case30", "case39", "case57" or "case118", or a grid of your own,
        which is not modified. It must have exactly one slack bus.
    n_experiments : int, default=50
        Number of experiments to simulate.
    flow : {"dc", "ac"}, default="dc"
        pandapower's linear DC power flow, or its AC power flow with losses, reactive power and voltage control. If an
        AC experiment does not converge, its inputs are drawn again, up to ten times.
    noise : float, default=0.01
        Standard deviation of the noise of Y at every bus, relative to the root mean square of the outputs without it.
    input_scale : float, default=0.1
        Inputs are uniform between minus and plus this value, in units of the mean load of a node in the base case.
    as_frame : bool, default=False
        Whether to return X, Y, adjacency and weights as pandas.DataFrame with the names of the nodes.
    random_state : int, RandomState instance or None, default=None
        Seed of inputs and noise. The inputs do not depend on `flow`, unless some are drawn again.

    Returns
    -------
    Bunch
        - `X`, (n_experiments, n_nodes): changes of the active power that is fed in, per unit of `base_mva` (in MVA).
          The column of the slack bus is a result of the simulation.
        - `Y`, (n_experiments, n_nodes): changes of the voltage angles in radians, with noise of standard deviation
          `noise_std`. The column of the slack bus is noise only.
        - `adjacency`, (n_nodes, n_nodes): 1. where a line or transformer in service connects two nodes, else 0.
        - `weights`, (n_nodes, n_nodes): susceptances of these edges in per unit. In the DC model, Y is X times the
          inverse of the Laplacian of the weights without the slack bus, `SteadyStateFilter(ground=ground)` with scale
          1; AC power flow follows it approximately. A few large cases have negative susceptances.
        - `node_names`, from pandapower's table of buses, `ground`, the index of the slack bus among them, and
          `positions`, coordinates (n_nodes, 2) for drawing, or None if the case has none.
        - `n_redrawn`: number of times that inputs had to be drawn again.

    References
    ----------
    L. Thurner et al.: pandapower, an open-source Python tool for convenient modeling, analysis, and optimization of
    electric power systems. IEEE Transactions on Power Systems 33 (2018), 6510-6521.

    Examples
    --------
    >>> from sklearn_graphid.datasets import make_power_grid
    >>> grid = make_power_grid("case14", n_experiments=5, random_state=0)
    >>> grid.X.shape, int(grid.adjacency.sum() / 2), grid.node_names[grid.ground]
    ((5, 14), 20, 'bus 0')
    """
    require("pandapower", "make_power_grid")
    import pandapower

    if not isinstance(flow, str) or flow not in ("dc", "ac"):
        raise ValueError(f"flow={flow!r}; expected 'dc' or 'ac'.")
    _check_options(n_experiments, noise, input_scale, as_frame)
    net = _load_grid(case)
    random = check_random_state(random_state)
    runs, n_redrawn = [], 0
    with _quiet_pandapower():
        grid = _PowerGrid(net, flow)
        largest, n_free = input_scale * grid.mean_load, len(grid.feeds)
        for row in random.uniform(-largest, largest, size=(n_experiments, n_free)):
            for _ in range(10):
                try:
                    runs.append(grid.run(row))
                    break
                except pandapower.LoadflowNotConverged:
                    row, n_redrawn = random.uniform(-largest, largest, size=n_free), n_redrawn + 1
            else:
                raise ValueError(
                    f"input_scale={input_scale!r}: the power flow did not converge for 10 draws of the inputs; "
                    f"expected a smaller input_scale."
                )
    inputs, outputs = (np.array(parts) for parts in zip(*runs, strict=True))
    more = {"base_mva": float(net.sn_mva), "n_redrawn": n_redrawn}
    return _measured_bunch(grid.network, inputs / net.sn_mva, outputs, noise, as_frame, random, **more)


def _load_grid(case: Any) -> Any:
    """A copy of the user's grid, or a new one of pandapower's."""
    import pandapower
    from pandapower.networks import power_system_test_cases

    if isinstance(case, pandapower.pandapowerNet):
        return copy.deepcopy(case)
    # What is not called case... is named: the module holds helpers and imported names, too.
    others = ("GBnetwork", "GBreducednetwork", "iceland")
    choices = sorted(name for name in dir(power_system_test_cases) if name.startswith("case") or name in others)
    if not isinstance(case, str):
        raise TypeError(f"case is a {type(case).__name__}; expected the name of a test case, or a pandapowerNet.")
    if case not in choices:
        raise ValueError(f"case={case!r}; expected a pandapowerNet, or one of {', '.join(choices)}.")
    net = getattr(power_system_test_cases, case)()
    if "tap_dependency_table" not in net.trafo:
        net.trafo["tap_dependency_table"] = False  # some of pandapower's files are older than the column
    return net


@contextmanager
def _quiet_pandapower() -> Iterator[None]:
    """No advice to install numba with every single power flow."""
    logger = logging.getLogger("pandapower")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


class _PowerGrid:
    """Nodes and weights of a grid, and its power flows if more power is fed in than in the base case."""

    def __init__(self, net: Any, flow: str):
        import pandapower

        self.net, self.flow = net, flow
        self.network, buses = _read_grid(net)
        self.mean_load = float(net.res_load["p_mw"].abs().sum()) / len(buses) if len(net.load) else 0.0  # in MW
        if not self.mean_load > 0:
            raise ValueError("case has no load in service; expected a grid whose loads say how large inputs should be.")
        self.slack_buses = buses[self.network.ground]
        self.is_free = np.arange(len(buses)) != self.network.ground
        self.observed = np.array([group[0] for group in buses])
        self.feeds = [pandapower.create_sgen(net, bus, p_mw=0.0) for bus in self.observed[self.is_free]]
        try:
            self.base_angles, self.base_slack = self._solve()
        except pandapower.LoadflowNotConverged as error:
            raise ValueError(
                "the AC power flow of case does not converge in its base case; expected another case, or flow='dc'."
            ) from error

    def run(self, inputs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Changes (nodes,) of the power fed in, in MW, and of the angles in radians, for inputs at the free nodes."""
        self.net.sgen.loc[self.feeds, "p_mw"] = inputs
        angles, slack = self._solve()
        changes = np.empty(len(self.is_free))
        changes[self.is_free], changes[~self.is_free] = inputs, slack - self.base_slack
        return changes, np.radians(angles - self.base_angles)

    def _solve(self) -> tuple[FloatArray, float]:
        """Angles (nodes,) in degrees, and what the slack bus feeds in, in MW."""
        import pandapower

        if self.flow == "dc":
            pandapower.rundcpp(self.net)
        else:
            pandapower.runpp(self.net, numba=False, calculate_voltage_angles=True)
        results = self.net.res_bus
        angles = results.loc[self.observed, "va_degree"].to_numpy(dtype=np.float64)
        slack = -float(results.loc[self.slack_buses, "p_mw"].sum())  # pandapower counts what is taken out
        if not (np.isfinite(angles).all() and np.isfinite(slack)):
            raise pandapower.LoadflowNotConverged("the power flow gave angles that are infinite or nan")
        return angles, slack


def _read_grid(net: Any) -> tuple[_FlowNetwork, list[list[int]]]:
    """Nodes and weights of the DC model of the base case, and each node's buses in pandapower's table."""
    import pandapower

    pandapower.rundcpp(net)
    model, node_of_bus = net._ppc["internal"], net._pd2ppc_lookups["bus"]
    susceptance = model["Bbus"].toarray()
    buses: list[list[int]] = [[] for _ in susceptance]
    for bus in sorted(net.bus.index):
        if node_of_bus[bus] < len(susceptance):  # those without supply or out of service come after them
            buses[node_of_bus[bus]].append(int(bus))
    weights = -susceptance
    np.fill_diagonal(weights, 0.0)
    is_bus = np.array([bool(group) for group in buses])
    if len(model["ref"]) != 1:
        raise ValueError(
            f"case has {len(model['ref'])} slack buses; expected exactly one. Close switches between them, or turn the "
            f"others into generators."
        )
    # The open end of a line gets a bus of its own in the model, at which nothing can happen.
    if ((weights[~is_bus] != 0).sum(axis=1) > 1).any():
        raise ValueError(
            "case has three-winding transformers or other elements with inner buses, which cannot be measured; "
            "expected lines and two-winding transformers."
        )
    buses, positions = [group for group in buses if group], None
    points: list[Any] = [net.bus.at[group[0], "geo"] if "geo" in net.bus else None for group in buses]
    if all(isinstance(point, str) for point in points):
        positions = np.array([json.loads(point)["coordinates"][:2] for point in points], dtype=np.float64)
    names = ["bus " + "+".join(map(str, group)) for group in buses]
    ground = int(is_bus[: int(model["ref"][0])].sum())
    return _FlowNetwork(names, weights[np.ix_(is_bus, is_bus)] + 0.0, ground, positions), buses


def make_water_network(
    network: Any = "Net2",
    n_experiments: int = 50,
    *,
    noise: float = 0.01,
    input_scale: float = 0.1,
    as_frame: bool = False,
    random_state: Any = None,
) -> Bunch:
    """Simulate experiments on a water network with wntr.

    Every experiment changes the demands at all junctions, which changes the heads (pressures, as the height of a column
    of water). X and Y are differences from the state at time zero, without controls. Nodes are the junctions that are
    connected with a tank or reservoir, and the ground: all tanks and reservoirs together, whose heads are fixed.

    Parameters
    ----------
    network : str or wntr.network.WaterNetworkModel, default="Net2"
        One of the networks that come with wntr, such as "Net1", "Net2" or "Net3", or one of your own, which is not
        modified.
    n_experiments, noise : as in `make_power_grid`
        Number of experiments to simulate, and the noise of Y relative to the outputs.
    input_scale : float, default=0.1
        Inputs are uniform between minus and plus this value, in units of the mean demand of a junction in the base
        case. Large inputs make the process less linear.
    as_frame, random_state : as in `make_power_grid`
        Whether to return frames, and the seed of inputs and noise.

    Returns
    -------
    Bunch
        - `X`, (n_experiments, n_nodes): changes of the inflow at each junction, in litres per second: minus the changes
          of its demand. The column of the ground is what tanks and reservoirs supply in the simulation.
        - `Y`, (n_experiments, n_nodes): changes of the heads in metres, with noise of standard deviation `noise_std`.
          The column of the ground is noise only.
        - `adjacency`, (n_nodes, n_nodes): 1. where an open pipe, pump or valve connects two nodes, else 0.
        - `weights`, (n_nodes, n_nodes): conductances, the change of the flow per difference of two heads, in litres per
          second and metre, at the base case. For small inputs, Y is X times the inverse of the Laplacian of the weights
          without the ground, which is `SteadyStateFilter(ground=ground)` with scale 1.
        - `node_names`, `ground`, the index of the ground among them, and `positions`, coordinates (n_nodes, 2) for
          drawing; the ground is in the middle of its tanks and reservoirs.

    Notes
    -----
    By the law of Hazen and Williams, the conductance of a pipe grows without bound as its flow goes to zero, and falls
    as a change sends more water through it; wntr uses a straight line at flows below 0.2 litres per second. The results
    of wntr differ in the last bits from one run to the next.

    References
    ----------
    K. A. Klise et al.: A software framework for assessing the resilience of drinking water systems to disasters with an
    example earthquake case study. Environmental Modelling & Software 95 (2017), 420-431.

    Examples
    --------
    >>> from sklearn_graphid.datasets import make_water_network
    >>> water = make_water_network("Net2", n_experiments=5, random_state=0)
    >>> water.X.shape, int(water.adjacency.sum() / 2), water.node_names[water.ground]
    ((5, 36), 40, '26')
    """
    require("wntr", "make_water_network")
    _check_options(n_experiments, noise, input_scale, as_frame)
    pipes = _PipeNetwork(_load_pipes(network))
    random = check_random_state(random_state)
    graph, node_of = _read_pipes(pipes)
    largest = input_scale * pipes.mean_demand
    drawn = random.uniform(-largest, largest, size=(n_experiments, int(pipes.is_free.sum())))
    inputs, outputs = _simulate_pipes(pipes, drawn, node_of)
    return _measured_bunch(graph, inputs, outputs, noise, as_frame, random)


def _load_pipes(network: Any) -> Any:
    """A copy of the user's network, or a new one of wntr's, without controls, at time zero."""
    import wntr

    library = wntr.library.ModelLibrary()
    if isinstance(network, wntr.network.WaterNetworkModel):
        model = copy.deepcopy(network)
    elif not isinstance(network, str):
        raise TypeError(f"network is a {type(network).__name__}; expected a name, or a WaterNetworkModel.")
    elif network not in library.model_name_list:
        choices = ", ".join(sorted(library.model_name_list))
        raise ValueError(f"network={network!r}; expected a WaterNetworkModel, or one of {choices}.")
    else:
        model = library.get_model(network)
    for name in list(model.control_name_list):
        model.remove_control(name)
    model.options.time.duration = 0
    model.options.hydraulic.demand_model = "DDA"  # demands are met whatever the pressure
    return model


class _State(NamedTuple):
    """What a simulation found; heads in metres, the rest in litres per second."""

    heads: FloatArray  # (nodes,)
    demands: FloatArray  # (nodes,), of tanks and reservoirs what flows into them
    flows: FloatArray  # (links,)
    is_open: npt.NDArray[np.bool_]  # (links,)


class _PipeNetwork:
    """Steady states of a network in which more flows in at the junctions than in its base case."""

    def __init__(self, model: Any):
        self.model = model
        self.node_names: list[str] = list(model.node_name_list)
        self.link_names: list[str] = list(model.link_name_list)
        place = {name: index for index, name in enumerate(self.node_names)}
        links = [model.get_link(name) for name in self.link_names]
        self.starts = np.array([place[link.start_node_name] for link in links])
        self.ends = np.array([place[link.end_node_name] for link in links])
        self.is_free = np.array([name in set(model.junction_name_list) for name in self.node_names])
        if self.is_free.all() or not self.is_free.any():
            raise ValueError("network lacks a junction, or a tank or reservoir; expected at least one of each.")
        self._extra = []
        for name in np.array(self.node_names)[self.is_free]:
            demands = model.get_node(name).demand_timeseries_list
            demands.append((0.0, None))  # in addition to what the junction has, and without a pattern
            self._extra.append(demands[-1])
        try:
            self.base = self.run(np.zeros(int(self.is_free.sum())))
        except RuntimeError as error:
            raise ValueError(
                f"wntr finds no steady state of network at time zero without controls ({error}); expected another "
                f"network."
            ) from error
        self.mean_demand = float(np.abs(self.base.demands[self.is_free]).mean())
        if not self.mean_demand > 0:
            raise ValueError(
                "network has no demand at time zero; expected some, because inputs are in units of the mean demand."
            )

    def run(self, inflow: FloatArray) -> _State:
        """The state where this much more flows in at the junctions, in litres per second; RuntimeError without one."""
        import wntr

        for demand, value in zip(self._extra, inflow, strict=True):
            demand.base_value = -float(value) / _LITRES
        self.model.reset_initial_values()  # or a simulation would go on where the last one ended
        simulator = wntr.sim.WNTRSimulator(self.model)
        results = simulator.run_sim(solver_options={"TOL": 1e-10, "MAXITER": 300}, convergence_error=True)
        heads, demands = (results.node[key].iloc[0][self.node_names].to_numpy() for key in ("head", "demand"))
        flows, status = (results.link[key].iloc[0][self.link_names].to_numpy() for key in ("flowrate", "status"))
        return _State(heads, _LITRES * demands, _LITRES * flows, status != 0)


def _read_pipes(pipes: _PipeNetwork) -> tuple[_FlowNetwork, npt.NDArray[np.int64]]:
    """Merge what has a fixed head into the ground, and find the conductance of every link.

    The second result says which node of the graph each of wntr's nodes (nodes,) is, -1 for those without supply.
    """
    conductances = _conductances(pipes)
    is_free, starts, ends = pipes.is_free, pipes.starts, pipes.ends
    merged = np.where(is_free, np.cumsum(is_free) - 1, is_free.sum())  # junctions in their order, then the ground
    n_merged, ground = int(is_free.sum()) + 1, int(is_free.sum())
    weights = np.zeros((n_merged, n_merged))
    np.add.at(weights, (merged[starts], merged[ends]), conductances)
    weights = weights + weights.T
    np.fill_diagonal(weights, 0.0)  # links between two tanks, whose heads are fixed, tell nothing
    parts = sparse.csgraph.connected_components(weights != 0, directed=False)[1]
    is_supplied = parts == parts[ground]
    kept = np.where(is_supplied, np.cumsum(is_supplied) - 1, -1)
    names = np.array(pipes.node_names)
    labels = [*names[is_free], "+".join(names[~is_free])]
    places = np.array([pipes.model.get_node(name).coordinates for name in names], dtype=np.float64)
    positions = np.vstack([places[is_free], places[~is_free].mean(axis=0)])
    graph = _FlowNetwork(
        [str(label) for label, keep in zip(labels, is_supplied, strict=True) if keep],
        weights[np.ix_(is_supplied, is_supplied)],
        int(kept[ground]),
        positions[is_supplied],
    )
    return graph, kept[merged]


def _conductances(pipes: _PipeNetwork) -> FloatArray:
    """By how much the flow of each link changes with the difference of its heads; zero where it is closed.

    The flow in a link depends on the heads at its ends and on nothing else, so a simulation in which all heads are a
    little different gives the conductance of all links at once. There are three, because one may by chance leave the
    flow in a link as it is.
    """
    starts, ends, n_free = pipes.starts, pipes.ends, int(pipes.is_free.sum())
    # Enough for heads of a hundred metres in double precision, and little compared with the flow in most pipes.
    size = 1e-4 * pipes.mean_demand
    steps = np.random.default_rng(0).uniform(-size, size, (3, n_free))  # apart from the user's random_state
    products, squares = np.zeros(len(starts)), np.zeros(len(starts))
    for step in steps:
        high, low = pipes.run(step), pipes.run(-step)
        rises = high.heads - low.heads
        losses = rises[starts] - rises[ends]
        products += losses * (high.flows - low.flows)
        squares += losses**2
    counts = pipes.base.is_open & (pipes.is_free[starts] | pipes.is_free[ends])
    conductances = np.zeros(len(starts))
    np.divide(products, squares, out=conductances, where=counts & (squares > 0))
    strange = counts & ~(conductances > 0)
    if strange.any():
        names = ", ".join(np.array(pipes.link_names)[strange][:5])
        raise ValueError(
            f"network has links whose flow does not follow from the heads at their ends, such as {names}; expected no "
            f"valves that hold a pressure or a flow."
        )
    return conductances


def _simulate_pipes(
    pipes: _PipeNetwork, drawn: FloatArray, node_of: npt.NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    """Changes of inflow and head (experiments, nodes of the graph)."""
    n_nodes = int(node_of.max()) + 1
    inputs, outputs = np.zeros((len(drawn), n_nodes)), np.zeros((len(drawn), n_nodes))
    is_supplied, base = node_of >= 0, pipes.base
    for place, inflow in enumerate(drawn):
        try:
            state = pipes.run(inflow)
        except RuntimeError as error:
            raise ValueError(
                f"the simulation of experiment {place} did not converge ({error}); expected a smaller input_scale."
            ) from error
        np.add.at(inputs[place], node_of[is_supplied], (base.demands - state.demands)[is_supplied])
        is_junction = is_supplied & pipes.is_free
        outputs[place, node_of[is_junction]] = (state.heads - base.heads)[is_junction]
    return inputs, outputs
