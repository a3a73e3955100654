"""Power grids, simulated by pandapower."""

from __future__ import annotations

import copy
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils import Bunch

from .._utils._libraries import require_pandapower
from .._utils._numbers import FloatArray, check_random_state
from ._measurements import FlowNetwork, check_options, measured_bunch

__all__ = ["make_power_grid"]

# Draws of the inputs of one experiment before an AC power flow that never converges is an error.
_MOST_DRAWS = 10


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

    Starting from the base case of the grid, every experiment changes the power that is fed in at every bus except the
    slack bus, which balances the changes. X and Y are differences from the base case. Nodes are the buses in service
    that are connected with the slack bus; buses joined by closed bus-bus switches are one node.

    Parameters
    ----------
    case : str or pandapowerNet, default="case14"
        A test case of pandapower, such as "case14", "case30", "case39", "case57" or "case118", or a grid of your own,
        which is not modified. It must have exactly one slack bus.
    n_experiments : int, default=50
        Number of experiments to simulate.
    flow : {"dc", "ac"}, default="dc"
        The simulation: pandapower's linear DC power flow, or its AC power flow by Newton's method, with losses,
        reactive power and voltage control by generators. If an AC experiment does not converge, its inputs are drawn
        again, up to ten times.
    noise : float, default=0.01
        Standard deviation of the noise of Y, relative to the root mean square of the outputs without noise. All buses
        have noise, including the slack bus.
    input_scale : float, default=0.1
        Inputs are uniform between minus and plus this value, in units of the mean load of a node in the base case.
    as_frame : bool, default=False
        Whether to return X, Y, adjacency and weights as pandas.DataFrame with the names of the nodes.
    random_state : int, RandomState instance or None, default=None
        Seed of inputs and noise. The inputs do not depend on `flow`, unless some are drawn again.

    Returns
    -------
    Bunch
        - `X`, (n_experiments, n_nodes): changes of the active power that is fed in, in per unit (relative to
          `base_mva`). The column of the slack bus is a result of the simulation.
        - `Y`, (n_experiments, n_nodes): changes of the voltage angles, in radians, with noise. The column of the slack
          bus is noise only.
        - `adjacency`, (n_nodes, n_nodes): 1. where a line or transformer in service connects two nodes, else 0.
        - `weights`, (n_nodes, n_nodes): susceptances of these edges in per unit, summed over parallel lines and
          transformers, as in pandapower's DC model. In that model, Y is X times the inverse of the Laplacian of the
          weights without the slack bus, which is `SteadyStateFilter(ground=ground)` with scale 1. AC power flow follows
          it approximately. A few large cases have negative susceptances.
        - `node_names`: "bus " and the index of the bus in pandapower's table, with "+" between the buses of one node.
        - `ground`: index of the slack bus among the nodes.
        - `noise_std`: standard deviation of the noise in radians.
        - `base_mva`: reference power of the per-unit system, in MVA.
        - `n_redrawn`: number of times that inputs had to be drawn again.
        - `positions`: coordinates (n_nodes, 2) for drawing, or None if the case has none.

    See Also
    --------
    make_water_network : The same for water networks.
    hide_edges : Hide a part of the graph.

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
    require_pandapower("make_power_grid")
    if not isinstance(flow, str) or flow not in ("dc", "ac"):
        raise ValueError(f"flow={flow!r}; expected 'dc' or 'ac'.")
    options = check_options(n_experiments, noise, input_scale, as_frame)
    net = _load(case)
    random = check_random_state(random_state)
    with _quiet_pandapower():
        grid = _read_grid(net)
        simulation = _Simulation(net, grid, flow)
        inputs, outputs, n_redrawn = _simulate(simulation, options.n_experiments, options.input_scale, random)
    more = {"base_mva": float(net.sn_mva), "n_redrawn": n_redrawn}
    return measured_bunch(grid.network, inputs, outputs, options, random, **more)


def _load(case: Any) -> Any:
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


class _Grid(NamedTuple):
    """The nodes of a grid."""

    network: FlowNetwork
    buses: list[list[int]]  # the indices of each node's buses in pandapower's table
    mean_load: float  # in MW


def _read_grid(net: Any) -> _Grid:
    """Nodes and weights of the DC model that pandapower makes of the base case."""
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
    _check_structure(model["ref"], weights, is_bus)
    buses = [group for group in buses if group]
    names = ["bus " + "+".join(map(str, group)) for group in buses]
    ground = int(is_bus[: int(model["ref"][0])].sum())
    mean_load = float(net.res_load["p_mw"].abs().sum()) / len(buses) if len(net.load) else 0.0
    if not mean_load > 0:
        raise ValueError("case has no load in service; expected a grid whose loads say how large inputs should be.")
    network = FlowNetwork(names, weights[np.ix_(is_bus, is_bus)] + 0.0, ground, _positions(net, buses))
    return _Grid(network, buses, mean_load)


def _check_structure(slack_nodes: Any, weights: FloatArray, is_bus: npt.NDArray[np.bool_]) -> None:
    if len(slack_nodes) != 1:
        raise ValueError(
            f"case has {len(slack_nodes)} slack buses; expected exactly one. Close switches between them, or turn the "
            f"others into generators."
        )
    # The open end of a line gets a bus of its own in the model, at which nothing can happen.
    if ((weights[~is_bus] != 0).sum(axis=1) > 1).any():
        raise ValueError(
            "case has three-winding transformers or other elements with inner buses, which cannot be measured; "
            "expected lines and two-winding transformers."
        )


def _positions(net: Any, buses: list[list[int]]) -> FloatArray | None:
    if "geo" not in net.bus:
        return None
    points = [net.bus.at[group[0], "geo"] for group in buses]
    if not all(isinstance(point, str) for point in points):
        return None
    return np.array([json.loads(point)["coordinates"][:2] for point in points], dtype=np.float64)


class _Simulation:
    """Power flows of a grid in which more power is fed in than in its base case."""

    def __init__(self, net: Any, grid: _Grid, flow: str):
        import pandapower

        self.net, self.grid, self.flow = net, grid, flow
        first_buses = [group[0] for group in grid.buses]
        self.slack_buses = grid.buses[grid.network.ground]
        self.is_free = np.arange(len(first_buses)) != grid.network.ground
        self.observed = np.array(first_buses)
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


def _simulate(
    simulation: _Simulation, n_experiments: int, input_scale: float, random: np.random.RandomState
) -> tuple[FloatArray, FloatArray, int]:
    """Inputs in per unit and outputs in radians (experiments, nodes), and how many inputs were drawn anew."""
    import pandapower

    largest, n_free = input_scale * simulation.grid.mean_load, len(simulation.feeds)
    drawn = random.uniform(-largest, largest, size=(n_experiments, n_free))
    runs, n_redrawn = [], 0
    for row in drawn:
        for _ in range(_MOST_DRAWS):
            try:
                runs.append(simulation.run(row))
                break
            except pandapower.LoadflowNotConverged:
                row, n_redrawn = random.uniform(-largest, largest, size=n_free), n_redrawn + 1
        else:
            raise ValueError(
                f"input_scale={input_scale!r}: the power flow did not converge for {_MOST_DRAWS} draws of the inputs; "
                f"expected a smaller input_scale."
            )
    inputs, outputs = (np.array(parts) for parts in zip(*runs, strict=True))
    return inputs / simulation.net.sn_mva, outputs, n_redrawn
