"""Suggestions of the next inputs to measure and pairs to check, for identifiers that draw from a posterior."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted

from .._utils._libraries import require
from .._utils._numbers import FloatArray, check_integer, check_number, check_random_state, check_real_array
from .._utils._torch import torch_threads
from ..design import (
    Box,
    choose_candidates,
    choose_inputs,
    deviations_of,
    entropy_of,
    gaussian_information,
    pair_information,
)
from ..graphs._matrices import as_numbers
from ..graphs._nodes import Nodes, check_node_values, unless_numbers
from ._base import BaseSystemIdentifier
from ._chains import ChainDraws
from ._estimates import weight_matrices

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SuggestingIdentifier"]


class SuggestingIdentifier(BaseSystemIdentifier):
    """Base of identifiers that suggest, from draws of the posterior, the next inputs to measure and pairs to check."""

    noise_std_samples_: FloatArray
    noise_std_per_node_: FloatArray
    diagnostics_: dict[str, Any]
    _draws: ChainDraws

    def suggest_inputs(
        self,
        n_inputs: int = 1,
        *,
        low: Any = -1.0,
        high: Any = 1.0,
        max_nonzero: int | None = None,
        candidates: Any = None,
        observed: Any = None,
        random_state: Any = None,
    ) -> FloatArray | pd.DataFrame:
        """Suggest the inputs whose outputs would be most informative about graph and parameters.

        Draws from the posterior predict different outputs. The inputs are chosen jointly so that these predictions
        differ most, relative to the noise: they maximise log det(I + C), where C is the covariance of the predictions
        divided by that of the noise. The search finds good inputs, not necessarily the global maximum.

        Parameters
        ----------
        n_inputs : int, default=1
            Number of experiments before the next fit.
        low, high : float, array-like of shape (n_nodes,) or Series, default=-1.0 and 1.0
            Smallest and largest input, the same for all nodes or one value per node, in the order of the columns of X
            or, for a Series, by name. A wider range is never less informative.
        max_nonzero : int or None, default=None
            Largest number of nodes with an input other than zero in one experiment. None: no limit.
        candidates : array-like of shape (n_candidates, n_nodes), default=None
            Choose only among these inputs, each at most once, whatever `low`, `high` and `max_nonzero` are. The columns
            of a DataFrame are matched with those of X by name.
        observed : list or None, default=None
            Nodes at which outputs will be measured, by number or by name; integers are names if the columns of X are
            called by integers. None: the nodes with measured outputs in the last fit.
        random_state : int, RandomState or None, default=None
            Seed of the random starts of the search.

        Returns
        -------
        ndarray or DataFrame of shape (n_inputs, n_nodes)
            One input per row. If the columns of X had names, it is a DataFrame with the same columns, and its index
            identifies the candidates that were chosen.

        Examples
        --------
        >>> import networkx as nx
        >>> from sklearn_graphid import LangevinSystemIdentifier
        >>> from sklearn_graphid.datasets import make_system
        >>> ring = nx.to_numpy_array(nx.cycle_graph(6))
        >>> X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=2, random_state=0)
        >>> identifier = LangevinSystemIdentifier("heat", random_state=0).fit(X, Y)
        >>> inputs = identifier.suggest_inputs(2, low=-10, high=10, random_state=0)
        >>> bool((identifier.information_gain(inputs) > identifier.information_gain(X)).all())
        True
        """
        check_is_fitted(self)
        n_inputs = check_integer(n_inputs, "n_inputs", low=1)
        if candidates is None:
            box, rng = _check_box(low, high, max_nonzero, self.node_names_), check_random_state(random_state)
            return self._as_inputs(choose_inputs(self._deviations(observed), n_inputs, box, rng))
        rows = self._inputs_by_name(candidates, "candidates")
        if n_inputs > len(rows):
            raise ValueError(
                f"n_inputs={n_inputs} but candidates has {len(rows)} rows, of which each is chosen once at most; "
                f"expected at most {len(rows)}. Repeat rows that may be repeated."
            )
        chosen = choose_candidates(self._deviations(observed), n_inputs, rows)
        index = getattr(candidates, "index", None)
        return self._as_inputs(rows[chosen], chosen if index is None or callable(index) else index[chosen])

    def information_gain(self, X: Any, *, observed: Any = None) -> FloatArray:
        """Compute how informative each input would be about graph and parameters, one experiment at a time.

        This is the mutual information between the system and the outputs, that is, the expected decrease in entropy,
        assuming that the predictions of the draws are Gaussian. If they are not, it is an upper bound. Use it to rank
        inputs. `suggest_inputs` maximises the same quantity.

        Parameters
        ----------
        X : array-like of shape (n_experiments, n_nodes)
            Inputs. The columns of a DataFrame are matched with those of X at fit by name.
        observed : list or None, default=None
            Nodes at which outputs will be measured, as in `suggest_inputs`.

        Returns
        -------
        ndarray of shape (n_experiments,)
            In nats.
        """
        check_is_fitted(self)
        return gaussian_information(self._deviations(observed), self._inputs_by_name(X, "X"))

    def _information_by_node(self, amplitude: float, observed: Any = None) -> FloatArray:
        """The information (nodes,) of an input of this size at each node alone."""
        return gaussian_information(self._deviations(observed), amplitude * np.eye(self.known_edges_.n_nodes))

    def suggest_pairs(self, n_pairs: int = 10) -> pd.DataFrame:
        """Suggest the pairs that are most worth checking by hand.

        A pair is ranked by its own entropy plus its mutual information with every other unknown pair. Of two equally
        uncertain pairs, the one that also decides about others comes first.

        Parameters
        ----------
        n_pairs : int, default=10
            Number of pairs to list; fewer if there are fewer unknown pairs.

        Returns
        -------
        DataFrame
            One row per pair, most informative first, with the columns `source`, `target`, `probability` of an edge, its
            `entropy` in nats, `about_others`, the sum of the pair's mutual information with the other unknown pairs,
            over the draws and corrected for their finite number, and `information`, the sum of the last two: the
            expected decrease in the entropies of all pairs together.
        """
        check_is_fitted(self)
        n_pairs = check_integer(n_pairs, "n_pairs", low=1)
        _check_several(self._draws.log_likelihood.size, "a pair tells about others")
        space = self.known_edges_.space
        # Not of the draws' frequencies: probabilities are means of odds, and more accurate.
        probability = space.gather(self.edge_probabilities_)
        columns = {
            "probability": probability,
            "entropy": entropy_of(probability),
            "about_others": pair_information(self._draws.graphs, self._draws.weight),
        }
        columns["information"] = columns["entropy"] + columns["about_others"]
        return self._table_of_pairs("suggest_pairs", space, columns["information"], columns)[:n_pairs]

    def _deviations(self, observed: Any) -> FloatArray:
        """Deviations (draws, nodes, outputs) of the responses of drawn systems, see `sklearn_graphid.design`."""
        draws, known = self._draws, self.known_edges_
        outputs = np.flatnonzero(~np.isnan(self._experiments.outputs).all(axis=0))
        if observed is not None:
            nodes = Nodes(unless_numbers(tuple(self.node_names_)), "X")
            expected = "a list of nodes, by their numbers or by the names of X's columns"
            outputs = nodes.numbers_of(observed, "observed", known.n_nodes, expected)
        theta = draws.pooled(draws.theta)
        # More than 200 draws tell an input's worth no better. Fewer are used where responses would hold many numbers.
        fewest, most = 16, 200
        n_used = int(np.clip(2**25 // (known.n_nodes * max(1, len(outputs))), fewest, most))
        chosen = np.unique(np.linspace(0, len(theta) - 1, min(n_used, len(theta))).round().astype(int))
        if self._edge_weights is None:
            matrices = known.fill(draws.pooled(draws.graphs)[chosen])
        else:
            matrices = weight_matrices(draws.pooled(draws.strengths)[chosen], known)
        stacks = (torch.tensor(part, dtype=torch.float64).split(fewest) for part in (matrices, theta[chosen]))
        unit = torch.eye(known.n_nodes, dtype=torch.float64)
        with torch.no_grad(), torch_threads(1):
            applied = [self.filter_.apply(some, of_each, unit) for some, of_each in zip(*stacks, strict=True)]
        responses = torch.cat(applied).numpy()[:, :, outputs]
        # A draw whose outputs are infinite says nothing of what to measure.
        responses = responses[np.isfinite(responses).all(axis=(1, 2))]
        _check_several(len(responses), "an input tells")
        # Where the noise level is uncertain, precisions are averaged: what an output tells is proportional to them.
        # What the model cannot explain has been counted as noise by the fit, and is here.
        level = np.mean(self.noise_std_samples_**-2.0) ** -0.5 * np.sqrt(self.diagnostics_.get("misfit", 1.0))
        return deviations_of(responses, (level * self.noise_std_per_node_ / self.noise_std_)[outputs])

    def _inputs_by_name(self, X: Any, argument: str) -> FloatArray:
        """Inputs (inputs, nodes), with columns that have names in the order of X at fit."""
        n_nodes = self.known_edges_.n_nodes
        nodes = Nodes.of_columns(X, argument)
        inputs = check_real_array(as_numbers(X, argument), argument)
        if inputs.ndim != 2 or not len(inputs) or inputs.shape[1] != n_nodes:
            raise ValueError(f"{argument} has shape {inputs.shape}; expected (n_inputs, {n_nodes}), a row per input.")
        order = nodes.order_in(self._nodes_of_inputs)
        return inputs if order is None else inputs[:, order]

    def _as_inputs(self, inputs: FloatArray, index: Any = None) -> FloatArray | pd.DataFrame:
        names = self._nodes_of_inputs.names
        if names is None:
            return inputs
        require("pandas", "suggest_inputs, where X has names,")
        import pandas as pd

        return pd.DataFrame(inputs, columns=list(names), index=index)


def _check_several(n_draws: int, what: str) -> None:
    if n_draws < 2:
        raise ValueError(
            f"there is {n_draws} draw of the system, and what {what} is seen from how draws differ; fit with a larger "
            f"n_chains."
        )


def _check_box(low: Any, high: Any, max_nonzero: Any, node_names: list[Any]) -> Box:
    lowest, highest = _at_nodes(low, "low", node_names), _at_nodes(high, "high", node_names)
    n_nodes = len(node_names)
    if (lowest > highest).any():
        node = int(np.argmax(lowest > highest))
        raise ValueError(
            f"low is {lowest[node]:g} and high is {highest[node]:g} at node {node_names[node]!r}; expected low <= high."
        )
    if max_nonzero is None:
        return Box(lowest, highest, n_nodes)
    n_driven = min(check_integer(max_nonzero, "max_nonzero", low=1), n_nodes)
    excludes_zero = (lowest > 0) | (highest < 0)
    if n_driven < n_nodes and excludes_zero.any():
        node = int(np.argmax(excludes_zero))
        raise ValueError(
            f"max_nonzero={max_nonzero} leaves nodes without input, but low={lowest[node]:g} and "
            f"high={highest[node]:g} at node {node_names[node]!r} do not allow an input of zero; expected "
            f"low <= 0 <= high."
        )
    return Box(lowest, highest, n_driven)


def _at_nodes(values: Any, name: str, node_names: list[Any]) -> FloatArray:
    if isinstance(values, Mapping):
        raise TypeError(f"{name} is a {type(values).__name__}; expected a number, an array or a Series, one per node.")
    if not np.ndim(values):
        return np.full(len(node_names), check_number(values, name))
    return check_node_values(values, name, len(node_names), tuple(node_names))
