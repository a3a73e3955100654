"""Code shared by the loaders of real networks: noise on simulated outputs, and the form of their results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import Bunch

from .._utils._numbers import FloatArray, check_flag, check_integer, check_number

__all__ = ["FlowNetwork", "Options", "check_options", "measured_bunch"]


class FlowNetwork(NamedTuple):
    """A network in which something flows from nodes of high to nodes of low potential."""

    names: list[str]
    weights: FloatArray  # (nodes, nodes), flow for a difference of one between the potentials
    ground: int  # the node whose potential is fixed
    positions: FloatArray | None  # (nodes, 2), where the nodes are drawn


class Options(NamedTuple):
    """Arguments that the loaders have in common, checked."""

    n_experiments: int
    noise: float
    input_scale: float
    as_frame: bool


def check_options(n_experiments: Any, noise: Any, input_scale: Any, as_frame: Any) -> Options:
    """Check the arguments that the loaders have in common."""
    return Options(
        check_integer(n_experiments, "n_experiments", low=1),
        check_number(noise, "noise", low=0.0),
        check_number(input_scale, "input_scale", positive=True),
        check_flag(as_frame, "as_frame"),
    )


def measured_bunch(
    network: FlowNetwork,
    inputs: FloatArray,
    outputs: FloatArray,
    options: Options,
    random: np.random.RandomState,
    **more: Any,
) -> Bunch:
    """Add noise to simulated outputs (experiments, nodes), and return them with the network.

    Every node, including the ground, has the same noise level, as in `make_system`. The root mean square that the noise
    is relative to leaves out the ground, whose output is zero.
    """
    noise_std = options.noise * float(np.sqrt(np.mean(np.delete(outputs, network.ground, axis=1) ** 2)))
    noisy = outputs + noise_std * random.standard_normal(outputs.shape)
    adjacency = (network.weights != 0).astype(np.float64)
    signals, graphs = {"X": inputs, "Y": noisy}, {"adjacency": adjacency, "weights": network.weights}
    tables: dict[str, Any] = signals | graphs
    if options.as_frame:
        import pandas as pd  # both simulators need it

        tables = {key: pd.DataFrame(table, columns=network.names) for key, table in signals.items()}
        tables |= {key: pd.DataFrame(table, network.names, network.names) for key, table in graphs.items()}
    return Bunch(
        **tables,
        node_names=network.names,
        ground=network.ground,
        noise_std=noise_std,
        positions=network.positions,
        **more,
    )
