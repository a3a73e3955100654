"""The posterior: the result of a fit from the draws of its chains, and the methods of an identifier that read draws."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._utils._libraries import require
from .._utils._numbers import FloatArray, check_integer, check_number, check_random_state
from ..graphs import EdgeSpace
from ..priors import ErdosRenyiPrior
from ._base import Finding, Identification
from ._chains import ChainDraws, SamplingTask, kept_draws
from ._estimates import (
    central_interval,
    free_pairs,
    refit_theta,
    summarize_weights,
    weight_intervals,
    weight_matrices,
)
from ._findings import assess_fit, diagnose, fit_findings, mixing_findings, trust_findings
from ._next_experiment import SuggestingIdentifier
from ._suspects import WRONG, System, suspicion_of

if TYPE_CHECKING:
    import pandas as pd
    from arviz import InferenceData

__all__ = ["PosteriorIdentifier", "largest_expected_f1", "result_of", "was_stopped"]


def result_of(batches: Sequence[ChainDraws], task: SamplingTask, point_estimate: str) -> Identification:
    """All that a fit leaves behind, from the batches of chains that were run."""
    draws, n_diverged, n_stuck = kept_draws(batches)
    if not len(draws.weight):
        raise FloatingPointError(
            f"all {n_diverged} chains diverged, as the filter gave outputs that are infinite or nan. Check that "
            f"noise_std={task.noise.common!r} is in the units of Y, and that the filter's initial range suits its "
            f"parameters."
        )
    data, known, asked, fixed = task.experiments, task.experiments.known, task, task.noise.noise_std
    draws = draws._replace(density=_density(draws, task))
    if fixed is not None:  # reported as it was given, and not as single precision has it
        draws = draws._replace(noise_std=task.noise.draws(draws.noise_std.shape))
    theta_samples, noise = draws.pooled(draws.theta), draws.pooled(draws.noise_std)
    noise_std = float(np.sqrt(np.mean(noise**2))) if fixed is None else fixed
    offset, outliers = draws.mean_of_chains(draws.offset), None
    if task.noise_distribution != "gaussian":
        outliers = np.where(np.isnan(data.outputs), np.nan, draws.mean_of_chains(draws.outlier_probability))
    task = task.explained(offset, outliers)

    graph, theta, strengths = _chosen_system(draws, point_estimate)
    matrix = known.fill(graph)
    adjacency, weights, spread = matrix.astype(np.int64), matrix, None
    if task.has_strengths:
        weights, spread = summarize_weights(draws.pooled(draws.strengths), known, adjacency)
        weights = weights if strengths is None else weight_matrices(strengths, known)
    refit = refit_theta(task.problem(torch.float64), weights, theta, task.noise.common)
    # Mean strengths and the mean of theta do not go together where only their product matters.
    if point_estimate == "best" or (task.has_strengths and strengths is None):
        theta = refit.theta

    quality, furthest = assess_fit(task, matrix, weights, refit.theta, draws)
    diagnostics = diagnose(draws, known, n_diverged, n_stuck) | quality
    if task.has_strengths:
        diagnostics["misfit"] = task.noise.misfit
    prior_trust = float(draws.mean_of_chains(draws.trust.mean(1)))
    is_trust_sampled = task.trust is not None and len(task.trust.values) > 1
    on_fit = fit_findings(diagnostics, furthest, task, noise_std, task.noise.is_given)
    findings = [
        *on_fit,
        *mixing_findings(diagnostics, int(known.space.gather(adjacency).sum()), task.kernels[-1].remedy),
        *trust_findings(prior_trust, is_trust_sampled),
    ]
    if any(was_stopped(batch, task) for batch in batches):
        text = "a callback stopped the fit before its last step; the result is that of the steps so far."
        findings.append(Finding.trouble(text, category=ConvergenceWarning))

    level = data.output_mean + offset
    silence = task.predict(weights, theta, np.zeros((1, known.n_nodes)) - data.input_mean)[0]
    return Identification(
        edge_probabilities=known.fill(draws.mean_of_chains(draws.edge_probability)),
        adjacency=adjacency,
        theta=np.asarray(theta, dtype=np.float64),
        noise_std=noise_std,
        diagnostics=diagnostics,
        weights=weights if task.has_strengths else None,
        weights_std=spread,
        findings=tuple(findings),
        further={
            "theta_refitted_": refit.theta,
            "theta_standard_error_": refit.standard_error,
            "theta_samples_": theta_samples,
            "theta_std_": theta_samples.std(0),
            "noise_std_samples_": noise,
            "noise_std_per_node_": task.noise.at_nodes(noise_std, known.n_nodes),
            "prior_": task.prior,
            "prior_trust_": prior_trust,
            "density_": float(draws.mean_of_chains(draws.density.mean(1))),
            "intercept_": level + silence if task.fit_intercept else np.zeros(known.n_nodes),
            "_outlier_probabilities": outliers,
            "_input_center": data.input_mean,
            "_output_level": level if task.fit_intercept else 0.0,
            "_draws": draws,
            # For the next fit, and to sample again; the tables that the user gave are not kept.
            "_task": replace(asked, experiments=replace(data, given={}), kernels=(), start=None),
            "_is_resumed": task.start is not None,
            "_findings_on_fit": on_fit,
            "_log_odds_wrong": None,
        },
    )


def _density(draws: ChainDraws, task: SamplingTask) -> FloatArray:
    """The density (chains, draws) of the unknown pairs: drawn, given, or the share of edges in a draw."""
    if not draws.graphs.shape[-1]:
        return np.full_like(draws.density, np.nan)
    given = task.prior.p if isinstance(task.prior, ErdosRenyiPrior) else None
    shares = draws.graphs.mean(-1) if given is None else np.full_like(draws.density, given)
    return np.where(np.isnan(draws.density), shares, draws.density)


def _chosen_system(draws: ChainDraws, point_estimate: str) -> tuple[npt.NDArray[Any], FloatArray, FloatArray | None]:
    """The graph (unknown pairs,) and theta to report, and the strengths (free pairs,) where a draw is reported."""
    if point_estimate in ("marginal", "f1"):
        probability = draws.mean_of_chains(draws.edge_probability)
        graph = probability > 0.5 if point_estimate == "marginal" else largest_expected_f1(probability)
        return graph, draws.mean_of_chains(draws.theta.mean(1)), None
    place: Any = (0, -1)
    if point_estimate == "best":
        place = np.unravel_index(draws.log_likelihood.argmax(), draws.log_likelihood.shape)
    return draws.graphs[place], draws.theta[place], draws.strengths[place]


def largest_expected_f1(probability: FloatArray) -> npt.NDArray[np.bool_]:
    """The pairs in order of probability, as many as maximise the expected F1, 2 sum p_S / (|S| + sum p).

    Numerator and denominator of the F1 score are replaced by their expectations.
    """
    order = np.argsort(-probability, kind="stable")
    n_chosen = np.arange(1, len(order) + 1)
    expected = 2 * np.cumsum(probability[order]) / (n_chosen + probability.sum())
    chosen = np.zeros(len(order), dtype=bool)
    if len(order) and expected.max() > 0:
        chosen[order[: int(expected.argmax()) + 1]] = True
    return chosen


def was_stopped(batch: ChainDraws, task: SamplingTask) -> bool:
    """Whether a callback ended a batch before its last step."""
    return len(batch.trace_sigma) < task.n_steps


class PosteriorIdentifier(SuggestingIdentifier):
    """Base of identifiers that sample: what their draws say of parameters, outputs and known pairs."""

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
