"""Methods of identifiers that sample: intervals, tables, draws, and suggestions of what to measure next."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
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
from ..graphs import EdgeSpace
from ..graphs._matrices import as_numbers
from ..graphs._nodes import Nodes, check_node_values, unless_numbers
from ._base import BaseSystemIdentifier
from ._chains import ChainDraws, SamplingTask
from ._estimates import central_interval, free_pairs, weight_intervals, weight_matrices
from ._posterior import WRONG, System, suspicion_of

if TYPE_CHECKING:
    import pandas as pd
    from arviz import InferenceData

__all__ = ["SampledIdentifier"]


class SampledIdentifier(BaseSystemIdentifier):
    """Base of identifiers that sample: methods that read the draws, and suggestions of what to measure next."""

    noise_std_samples_: FloatArray
    noise_std_per_node_: FloatArray
    theta_samples_: FloatArray
    _draws: ChainDraws
    _task: SamplingTask
    _outlier_probabilities: FloatArray | None = None  # of a fit in which outliers are part of the model
    _log_odds_wrong: FloatArray | None = None  # (known pairs,), of a fit that had a reason to find them

    @property
    def outlier_probabilities_(self) -> FloatArray:
        """Probability of every output to be an outlier; only with `noise_distribution="student-t"`."""
        if self._outlier_probabilities is None:
            raise AttributeError("outliers were not sought; fit with noise_distribution='student-t'.")
        return self._outlier_probabilities

    def theta_interval(self, level: float = 0.9) -> FloatArray:
        """Ends (n_parameters, 2) of the central intervals that hold the parameters, each with probability `level`."""
        check_is_fitted(self)
        return central_interval(self.theta_samples_, level)

    def density_interval(self, level: float = 0.9) -> FloatArray:
        """Ends (2,) of the central interval that holds the density of the unknown pairs with probability `level`."""
        check_is_fitted(self)
        return central_interval(self._draws.pooled(self._draws.density), level)

    def noise_std_interval(self, level: float = 0.9) -> FloatArray:
        """Ends (2,) of the central interval that holds `noise_std_` with probability `level`."""
        check_is_fitted(self)
        return central_interval(self.noise_std_samples_, level)

    def weight_interval(self, level: float = 0.9) -> FloatArray:
        """Central credible intervals of the strengths of the identified edges.

        Parameters
        ----------
        level : float, default=0.9
            The probability that a strength lies inside, given that there is an edge.

        Returns
        -------
        ndarray of shape (n_nodes, n_nodes, 2)
            Lower and upper ends; both are what was given where a strength was, zero where there is no edge, and nan
            where fewer than two draws have the edge.
        """
        check_is_fitted(self)
        if self._edge_weights is None:
            raise AttributeError("the edges have no strengths; fit with edge_weights='positive' or 'signed'.")
        return weight_intervals(self._draws.pooled(self._draws.strengths), self.known_edges_, self.adjacency_, level)

    def suspect_outputs(self, min_probability: float = 0.5) -> pd.DataFrame:
        """The outputs that were discounted as outliers, as a table; only with `noise_distribution="student-t"`.

        Parameters
        ----------
        min_probability : float, default=0.5
            Outputs are listed if the probability that their noise is larger than usual is above this.

        Returns
        -------
        DataFrame
            One row per output, the most probable outlier first, with the columns `row` (the label of the experiment in
            the index of X or Y, or its number), `node` (as in `node_names_`), `output`, `predicted` (by the identified
            system) and `probability`.
        """
        check_is_fitted(self)
        _ = self.outlier_probabilities_  # raises where outliers were not sought
        min_probability = check_number(min_probability, "min_probability", low=0, high=1)
        require("pandas", "suspect_outputs")
        import pandas as pd

        return pd.DataFrame(self._suspect_outputs(min_probability))

    def _suspect_outputs(self, min_probability: float) -> dict[str, Any]:
        """The columns of `suspect_outputs`."""
        data, probability = self._experiments, self.outlier_probabilities_[:, self._output_nodes]
        rows, columns = np.nonzero(probability > min_probability)  # a comparison with nan is False
        order = np.argsort(-probability[rows, columns], kind="stable")
        rows, columns = rows[order], columns[order]
        return {
            "row": [data.row_names[int(row)] for row in rows],
            "node": [self.node_names_[node] for node in self._output_nodes[columns]],
            "output": data.outputs[rows, self._output_nodes[columns]],
            "predicted": self._predict_checked(data.inputs)[rows, columns],
            "probability": probability[rows, columns],
        }

    def suspect_known_pairs(self, n_pairs: int | None = None, *, probability: float = WRONG) -> pd.DataFrame:
        """Find known pairs that contradict the data, by sampling with known pairs that may be wrong.

        It takes about as long as the fit: the system is sampled again, from the draws of the fit and from random
        starts. Unknown pairs are independent, with the density that was found, whatever the prior; the noise level is
        sampled, and known strengths are not used.

        Parameters
        ----------
        n_pairs : int or None, default=None
            Number of pairs to list. None: all known pairs.
        probability : float, default=0.01
            Prior probability that a known pair is wrong, between 0 and 0.5.

        Returns
        -------
        DataFrame
            One row per known pair, most suspicious first, with the columns `source` and `target` (named as in
            `to_networkx`), `given` ("edge" or "no edge") and `log_odds`, the posterior log-odds that the pair is wrong:
            above 0, it is more likely wrong than right. They are bounded by the number of draws. If the filter does not
            explain the outputs even so, the evidence is discounted, and large log-odds may be due to the filter.

        Examples
        --------
        >>> import warnings
        >>> import networkx as nx
        >>> from sklearn_graphid import LangevinSystemIdentifier
        >>> from sklearn_graphid.datasets import hide_edges, make_system
        >>> ring = nx.to_numpy_array(nx.cycle_graph(8))
        >>> X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=20, random_state=0)
        >>> known = hide_edges(ring, fraction=0.5, random_state=0).to_array()
        >>> i, j = next((i, j) for i in range(8) for j in range(i) if known[i, j] == 1)
        >>> known[i, j] = known[j, i] = 0  # an edge that is given as absent
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # of this very pair
        ...     identifier = LangevinSystemIdentifier("heat", random_state=0).fit(X, Y, known)
        >>> worst = identifier.suspect_known_pairs(1).iloc[0]
        >>> {worst.source, worst.target} == {i, j}, worst.given
        (True, 'no edge')
        """
        check_is_fitted(self)
        require("pandas", "suspect_known_pairs")  # before the work
        wrong = check_number(probability, "probability")
        if not 0 < wrong < 0.5:
            raise ValueError(f"probability={probability!r}; expected a number strictly between 0 and 0.5.")
        known = self.known_edges_
        pairs = known.known_pairs()
        n_listed = pairs.n_free if n_pairs is None else check_integer(n_pairs, "n_pairs", low=1)
        log_odds = self._log_odds_wrong if wrong == WRONG else None
        if log_odds is None:
            log_odds = self._find_wrong_pairs(wrong) if pairs.n_free else np.empty(0)
        given = np.where(pairs.gather(known.values) == 1, "edge", "no edge")
        columns = {"given": given, "log_odds": log_odds}
        return self._table_of_pairs("suspect_known_pairs", pairs, log_odds, columns)[:n_listed]

    def _find_wrong_pairs(self, wrong: float) -> FloatArray:
        found = suspicion_of(System.of(vars(self), self._task), self._kernels_at_fit(), wrong, self.n_jobs)
        if found is None:
            raise FloatingPointError(
                "all chains in which known pairs may be wrong diverged, as the filter gave outputs that are infinite "
                "or nan."
            )
        return found[0]

    def to_arviz(self, X: Any = None, y: Any = None) -> InferenceData:
        """The draws as an ArviZ object, for its plots and summaries.

        Parameters
        ----------
        X, y : array-like, default=None
            Inputs and outputs, if they are to be in it.

        Returns
        -------
        arviz.InferenceData
            Group `posterior` holds "theta", "noise_std" and "edges" (0 or 1 for each unknown pair), `sample_stats` the
            "joint_log_likelihood" of all outputs and the "log_prior" of the graph, both up to constants,
            `constant_data` "X", and `observed_data` y as "Y". Chains that diverged or were stuck are not in it,
            and all others count alike, whatever their mode.
        """
        check_is_fitted(self)
        arviz, draws, known = _import_arviz(), self._draws, self.known_edges_
        names = [str(name) for name in self.node_names_]
        arrow = "->" if known.directed else "-"

        def names_of(space: EdgeSpace) -> list[str]:
            return [f"{names[i]} {arrow} {names[j]}" for i, j in zip(*space.sources_and_targets(), strict=True)]

        coordinates: dict[str, Any] = {"parameter": self.filter_.parameter_names(), "pair": names_of(known.space)}
        dimensions = {"theta": ["parameter"], "edges": ["pair"]}
        groups: dict[str, Any] = {
            "posterior": {"theta": draws.theta, "noise_std": draws.noise_std, "edges": draws.graphs},
            # ArviZ keeps the name "log_likelihood" for that of every single measurement.
            "sample_stats": {"joint_log_likelihood": draws.log_likelihood, "log_prior": draws.log_prior},
        }
        if self._edge_weights is not None:
            groups["posterior"]["weights"], dimensions["weights"] = draws.strengths, ["free pair"]
            coordinates["free pair"] = names_of(free_pairs(known))
        if X is not None:
            groups["constant_data"] = {"X": _as_table(X, "X", self.n_features_in_)}
            coordinates["node"], dimensions["X"] = names, ["experiment", "node"]
        if y is not None:
            groups["observed_data"] = {"Y": _as_table(y, "y", len(self._output_nodes))}
            coordinates["output"] = [names[node] for node in self._output_nodes]
            dimensions["Y"] = ["experiment", "output"]
        with warnings.catch_warnings():
            # Many short chains are meant; ArviZ suspects that the two were mixed up.
            warnings.filterwarnings("ignore", message="More chains", category=UserWarning)
            data: InferenceData = arviz.from_dict(**groups, coords=coordinates, dims=dimensions)
        return data

    @property
    def _n_draws(self) -> int:  # type: ignore[override]
        return int(self._draws.log_likelihood.size)

    def _draw(self, n_samples: int, random_state: Any) -> tuple[tuple[npt.NDArray[Any], ...], FloatArray]:
        draws, known = self._draws, self.known_edges_
        n_chains, n_draws = draws.log_likelihood.shape
        rng, weight = check_random_state(random_state), draws.weight
        # Every chain's last draw first, as those are independent; repeats beyond them all.
        order = np.concatenate([rng.permutation(n_chains) + n_chains * age for age in range(n_draws)])
        if np.ptp(weight) > 0:  # chains in modes that count unequally
            order = np.concatenate(
                [rng.choice(n_chains, n_chains, p=weight) + n_chains * age for age in range(n_draws)]
            )
        places = np.resize(order, n_samples)
        chosen = places % n_chains, n_draws - 1 - places // n_chains
        systems = known.fill(draws.graphs[chosen]).astype(np.int64), draws.theta[chosen].copy()
        levels = np.repeat(self.noise_std_per_node_[None], n_samples, axis=0)
        if np.ptp(self.noise_std_samples_) > 0:  # otherwise it was given
            levels = levels * (draws.noise_std[chosen] / self.noise_std_)[:, None]
        if self._edge_weights is None:
            return systems, levels
        return (*systems, weight_matrices(draws.strengths[chosen], known)), levels

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


def _import_arviz() -> Any:
    with warnings.catch_warnings():
        # ArviZ announces its next major version whenever it is imported; the dependency excludes that one.
        warnings.filterwarnings("ignore", category=FutureWarning, module="arviz")
        require("arviz", "to_arviz")
        import arviz
    if not hasattr(arviz, "InferenceData"):
        raise ImportError(
            f"to_arviz makes an arviz.InferenceData, which ArviZ {arviz.__version__} no longer has: "
            f'pip install "sklearn-graphid[diagnostics]" installs a version that does.'
        )
    return arviz


def _as_table(values: Any, name: str, n_columns: int) -> FloatArray:
    array = np.asarray(values, dtype=np.float64)
    array = array.reshape(len(array), -1) if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] != n_columns:
        raise ValueError(f"{name} has shape {array.shape}; expected (n_experiments, {n_columns}), as at fit.")
    return array


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
