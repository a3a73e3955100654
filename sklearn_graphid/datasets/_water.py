"""Water networks, simulated by wntr."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.utils import Bunch

from .._utils._libraries import require_wntr
from .._utils._numbers import FloatArray, check_random_state
from ._measurements import FlowNetwork, check_options, measured_bunch

__all__ = ["make_water_network"]

_LITRES = 1000.0  # in a cubic metre; wntr counts in cubic metres per second whatever the units of the file
# Conductances are differences between simulations, whose demands differ by this share of the mean demand: enough for
# heads of a hundred metres in double precision, and little compared with the flow in most pipes.
_RELATIVE_STEP = 1e-4
_N_STEPS = 3
_SOLVER = {"TOL": 1e-10, "MAXITER": 300}


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
    of water). X and Y are differences from the base case: the state at time zero, without controls, with tanks at their
    initial level. Nodes are the junctions that are connected with a tank or reservoir, and one more node, the ground:
    all tanks and reservoirs together, because their heads are fixed.

    Parameters
    ----------
    network : str or wntr.network.WaterNetworkModel, default="Net2"
        One of the networks that come with wntr, such as "Net1", "Net2" or "Net3", or one of your own, which is not
        modified.
    n_experiments : int, default=50
        Number of experiments to simulate.
    noise : float, default=0.01
        Standard deviation of the noise of Y, relative to the root mean square of the outputs without noise. All nodes
        have noise, including the ground.
    input_scale : float, default=0.1
        Inputs are uniform between minus and plus this value, in units of the mean demand of a junction in the base
        case. Friction grows almost with the square of the flow, so large inputs make the process less linear.
    as_frame : bool, default=False
        Whether to return X, Y, adjacency and weights as pandas.DataFrame with the names of the nodes.
    random_state : int, RandomState instance or None, default=None
        Seed of inputs and noise.

    Returns
    -------
    Bunch
        - `X`, (n_experiments, n_nodes): changes of the inflow at each junction, in litres per second: minus the changes
          of its demand. The column of the ground is what tanks and reservoirs supply in the simulation.
        - `Y`, (n_experiments, n_nodes): changes of the heads, in metres, with noise. The column of the ground is noise
          only.
        - `adjacency`, (n_nodes, n_nodes): 1. where an open pipe, pump or valve connects two nodes, else 0.
        - `weights`, (n_nodes, n_nodes): conductances, that is the change of the flow per difference of two heads, in
          litres per second and metre, at the base case. For small inputs, Y is X times the inverse of the Laplacian of
          the weights without the ground, which is `SteadyStateFilter(ground=ground)` with scale 1.
        - `node_names`: names of the junctions, and of the tanks and reservoirs with "+" between them.
        - `ground`: index of the ground among the nodes.
        - `noise_std`: standard deviation of the noise in metres.
        - `positions`: coordinates (n_nodes, 2) for drawing; the ground is in the middle of its tanks and reservoirs.

    See Also
    --------
    make_power_grid : The same for power grids.
    hide_edges : Hide a part of the graph.

    Notes
    -----
    If a flow q loses the head h by the law of Hazen and Williams, h is proportional to q^1.852, and the conductance is
    q / (1.852 h). It grows without bound as q goes to zero: a pipe in which the water stands still, such as one that
    leads to a junction without demand, has a very large conductance, its ends have nearly the same head, and the more
    water a change sends through it, the less it conducts. wntr bounds the conductance by using a straight line at flows
    below 0.2 litres per second. Weights are computed as differences between simulations, so they are valid for pumps as
    well.

    The results of wntr differ in the last bits from one run to the next.

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
    require_wntr("make_water_network")
    options = check_options(n_experiments, noise, input_scale, as_frame)
    simulation = _Simulation(_load(network))
    random = check_random_state(random_state)
    pipes = _read_network(simulation)
    largest = options.input_scale * simulation.mean_demand
    drawn = random.uniform(-largest, largest, size=(options.n_experiments, int(simulation.is_free.sum())))
    inputs, outputs = _simulate(simulation, drawn, pipes.node_of)
    return measured_bunch(pipes.network, inputs, outputs, options, random)


def _load(network: Any) -> Any:
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


class _Simulation:
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
        results = simulator.run_sim(solver_options=_SOLVER, convergence_error=True)
        heads, demands = (results.node[key].iloc[0][self.node_names].to_numpy() for key in ("head", "demand"))
        flows, status = (results.link[key].iloc[0][self.link_names].to_numpy() for key in ("flowrate", "status"))
        return _State(heads, _LITRES * demands, _LITRES * flows, status != 0)


class _Pipes(NamedTuple):
    """The graph of a network."""

    network: FlowNetwork
    node_of: npt.NDArray[np.int64]  # (nodes of wntr,): the node of the graph, -1 for those without supply


def _read_network(simulation: _Simulation) -> _Pipes:
    """Merge what has a fixed head into the ground, and find the conductance of every link."""
    conductances = _conductances(simulation)
    is_free, starts, ends = simulation.is_free, simulation.starts, simulation.ends
    merged = np.where(is_free, np.cumsum(is_free) - 1, is_free.sum())  # junctions in their order, then the ground
    n_merged, ground = int(is_free.sum()) + 1, int(is_free.sum())
    weights = np.zeros((n_merged, n_merged))
    np.add.at(weights, (merged[starts], merged[ends]), conductances)
    weights = weights + weights.T
    np.fill_diagonal(weights, 0.0)  # links between two tanks, whose heads are fixed, tell nothing
    parts = sparse.csgraph.connected_components(weights != 0, directed=False)[1]
    is_supplied = parts == parts[ground]
    kept = np.where(is_supplied, np.cumsum(is_supplied) - 1, -1)
    names = np.array(simulation.node_names)
    labels = [*names[is_free], "+".join(names[~is_free])]
    places = np.array([simulation.model.get_node(name).coordinates for name in names], dtype=np.float64)
    positions = np.vstack([places[is_free], places[~is_free].mean(axis=0)])
    network = FlowNetwork(
        [str(label) for label, keep in zip(labels, is_supplied, strict=True) if keep],
        weights[np.ix_(is_supplied, is_supplied)],
        int(kept[ground]),
        positions[is_supplied],
    )
    return _Pipes(network, kept[merged])


def _conductances(simulation: _Simulation) -> FloatArray:
    """By how much the flow of each link changes with the difference of its heads; zero where it is closed.

    The flow in a link depends on the heads at its ends and on nothing else, so that simulations in which all heads are
    a little different say it of all links at once. There are several, as one may by chance leave the flow in a link as
    it is.
    """
    starts, ends, n_free = simulation.starts, simulation.ends, int(simulation.is_free.sum())
    size = _RELATIVE_STEP * simulation.mean_demand
    steps = np.random.default_rng(0).uniform(-size, size, (_N_STEPS, n_free))  # apart from the user's random_state
    products, squares = np.zeros(len(starts)), np.zeros(len(starts))
    for step in steps:
        high, low = simulation.run(step), simulation.run(-step)
        rises = high.heads - low.heads
        losses = rises[starts] - rises[ends]
        products += losses * (high.flows - low.flows)
        squares += losses**2
    counts = simulation.base.is_open & (simulation.is_free[starts] | simulation.is_free[ends])
    conductances = np.zeros(len(starts))
    np.divide(products, squares, out=conductances, where=counts & (squares > 0))
    strange = counts & ~(conductances > 0)
    if strange.any():
        names = ", ".join(np.array(simulation.link_names)[strange][:5])
        raise ValueError(
            f"network has links whose flow does not follow from the heads at their ends, such as {names}; expected no "
            f"valves that hold a pressure or a flow."
        )
    return conductances


def _simulate(
    simulation: _Simulation, drawn: FloatArray, node_of: npt.NDArray[np.int64]
) -> tuple[FloatArray, FloatArray]:
    """Changes of inflow and head (experiments, nodes of the graph)."""
    n_nodes = int(node_of.max()) + 1
    inputs, outputs = np.zeros((len(drawn), n_nodes)), np.zeros((len(drawn), n_nodes))
    is_supplied, base = node_of >= 0, simulation.base
    for place, inflow in enumerate(drawn):
        try:
            state = simulation.run(inflow)
        except RuntimeError as error:
            raise ValueError(
                f"the simulation of experiment {place} did not converge ({error}); expected a smaller input_scale."
            ) from error
        np.add.at(inputs[place], node_of[is_supplied], (base.demands - state.demands)[is_supplied])
        is_junction = is_supplied & simulation.is_free
        outputs[place, node_of[is_junction]] = (state.heads - base.heads)[is_junction]
    return inputs, outputs
