"""What all identifiers share: how pairs are read, and what a fitted graph and theta are good for."""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.metrics import r2_score
from sklearn.utils import Tags, check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from .._report import write_report
from .._torch import torch_threads
from .._validation import FloatArray
from ..filters import GraphFilter, resolve_filter

__all__ = ["BaseSystemIdentifier", "loses_nothing", "observed_columns"]


def observed_columns(observed_nodes: Any, n_outputs: int, n_nodes: int) -> npt.NDArray[np.intp]:
    """The node that each column of Y belongs to."""
    if isinstance(observed_nodes, str):
        return _columns_by_name(observed_nodes, n_outputs, n_nodes)
    nodes = np.asarray(observed_nodes)
    if nodes.ndim != 1 or nodes.dtype.kind not in "iu":
        raise ValueError(
            f"observed_nodes={observed_nodes!r}; expected 'auto', 'all', 'leading' or a list of node indices."
        )
    if len(nodes) != n_outputs:
        raise ValueError(f"observed_nodes names {len(nodes)} nodes but Y has {n_outputs} columns; expected one each.")
    if nodes.min() < 0 or nodes.max() >= n_nodes or len(np.unique(nodes)) != len(nodes):
        raise ValueError(f"observed_nodes must be different integers from 0 to {n_nodes - 1}, the nodes of X.")
    return nodes.astype(np.intp)


def _columns_by_name(name: str, n_outputs: int, n_nodes: int) -> npt.NDArray[np.intp]:
    if name not in ("auto", "all", "leading"):
        raise ValueError(f"observed_nodes={name!r}; expected 'auto', 'all', 'leading' or a list of node indices.")
    if n_outputs > n_nodes or (name == "all" and n_outputs != n_nodes):
        raise ValueError(
            f"Y has {n_outputs} columns but X has {n_nodes} nodes (columns); expected an output for every node, or "
            f"observed_nodes with the nodes that were measured."
        )
    if name == "auto" and n_outputs < n_nodes:
        warnings.warn(
            f"Y has {n_outputs} columns for {n_nodes} nodes; they are taken for the first {n_outputs} nodes. Name the "
            f"measured nodes in observed_nodes, or pass 'leading' to silence this.",
            UserWarning,
            stacklevel=8,  # through the wrappers around fit to its caller
        )
    return np.arange(n_outputs)


def loses_nothing(fit: Callable[..., Any]) -> Callable[..., Any]:
    """Make a fit that fails leave the estimator as it was."""

    @functools.wraps(fit)
    def careful_fit(estimator: BaseSystemIdentifier, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(estimator))
        try:
            return fit(estimator, *args, **kwargs)
        except BaseException:
            # scikit-learn's own bookkeeping of callbacks is still needed on the way out.
            now = {name: value for name, value in vars(estimator).items() if name.startswith(("_skl", "_callback"))}
            estimator.__dict__.clear()
            estimator.__dict__.update(before | now)
            raise

    return careful_fit


class BaseSystemIdentifier(RegressorMixin, BaseEstimator):
    """Base of the identifiers. A row of X and of Y is an input-output pair, a column a node."""

    # Under metadata routing, what is known goes to fit without being asked for.
    __metadata_request__fit = {"known_mask": True, "known_adjacency": True}

    filter: Any
    observed_nodes: Any

    filter_: GraphFilter
    adjacency_: npt.NDArray[np.int64]
    theta_: FloatArray

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        # Arbitrary regression data do not come from a graph filter.
        tags.regressor_tags.poor_score = True
        return tags

    def _validate_pairs(self, X: Any, Y: Any) -> tuple[FloatArray, FloatArray]:
        """Inputs (pairs, nodes) and outputs (pairs, nodes), nan where nothing was measured."""
        if Y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        if np.isscalar(Y):
            raise ValueError(f"Y is a single number, {Y!r}; expected an array of shape (n_pairs, n_nodes).")
        X = validate_data(self, X, dtype=np.float64)
        Y = check_array(
            Y, ensure_2d=False, allow_nd=False, dtype=np.float64, ensure_all_finite="allow-nan", input_name="Y"
        )
        if np.isinf(Y).any():
            raise ValueError("Input Y contains infinity or a value too large for dtype('float64').")
        check_consistent_length(X, Y)
        self._flat_output = Y.ndim == 1
        outputs = Y.reshape(len(Y), -1)
        if np.isnan(outputs).all():
            raise ValueError("Y holds nothing but nan; expected at least one measured output.")
        self._output_nodes = observed_columns(self.observed_nodes, outputs.shape[1], X.shape[1])
        self._n_pairs, self._n_measured = len(outputs), int((~np.isnan(outputs)).sum())
        self._output_power = float(np.nanmean(outputs**2))
        full = np.full(X.shape, np.nan)
        full[:, self._output_nodes] = outputs
        return X, full

    def _resolved_filter(self) -> GraphFilter:
        """The filter as it is now: a copy, so that later changes to the parameter leave the fit alone."""
        resolved: GraphFilter = clone(resolve_filter(self.filter))
        return resolved

    def predict(self, X: npt.ArrayLike) -> FloatArray:
        """Outputs that the identified system would give, without noise.

        Parameters
        ----------
        X : array-like of shape (n_pairs, n_nodes)
            Inputs.

        Returns
        -------
        ndarray of shape (n_pairs, n_outputs) or (n_pairs,)
            Outputs at the nodes that Y had at fit, in its shape.
        """
        check_is_fitted(self)
        inputs = torch.tensor(validate_data(self, X, dtype=np.float64, reset=False))
        adjacency = torch.tensor(self.adjacency_, dtype=torch.float64)[None]
        with torch.no_grad(), torch_threads(1):
            outputs = self.filter_.apply(adjacency, torch.tensor(self.theta_)[None], inputs)[0]
        predicted: FloatArray = outputs.numpy()[:, self._output_nodes]
        return predicted[:, 0] if self._flat_output else predicted

    def score(self, X: npt.ArrayLike, y: npt.ArrayLike, sample_weight: Any = None) -> float:
        """How well outputs are predicted: R2, the mean over the observed nodes.

        Parameters
        ----------
        X : array-like of shape (n_pairs, n_nodes)
            Inputs.
        y : array-like of shape (n_pairs, n_outputs) or (n_pairs,)
            Outputs; nan where nothing was measured.
        sample_weight : array-like of shape (n_pairs,), default=None
            Weights of the pairs.

        Returns
        -------
        float
            At most 1; 0 for a prediction no better than the mean.
        """
        outputs = np.asarray(y, dtype=np.float64)
        missing = np.isnan(outputs)
        if not missing.any():
            return float(super().score(X, y, sample_weight))
        predicted, outputs = (array.reshape(len(array), -1) for array in (self.predict(X), outputs))
        measured = ~missing.reshape(outputs.shape)
        weights = np.ones(len(outputs)) if sample_weight is None else np.asarray(sample_weight)
        # A column with fewer than two numbers has no variance to explain.
        columns = [(column, rows) for column, rows in enumerate(measured.T) if rows.sum() > 1]
        if not columns:
            raise ValueError("y has no column with two measured outputs; R2 is not defined.")
        scores = [r2_score(outputs[rows, c], predicted[rows, c], sample_weight=weights[rows]) for c, rows in columns]
        return float(np.mean(scores))

    def to_networkx(self) -> nx.Graph:
        """The identified network.

        Returns
        -------
        networkx.Graph
            Nodes are named as the columns of X were, or numbered. Edges carry their `probability` and whether they
            were `known`.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", range(self.n_features_in_))
        graph = nx.Graph()
        graph.add_nodes_from(names)
        for i, j in np.argwhere(np.triu(self.adjacency_)):
            probability = float(self.edge_probabilities_[i, j])
            graph.add_edge(names[i], names[j], probability=probability, known=bool(self.known_edges_.mask[i, j]))
        return graph

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write what was given, what was found and how far to trust it as one HTML page.

        The page holds its pictures and needs no network. It is drawn with matplotlib, the extra `plot`.

        Parameters
        ----------
        path : str or Path
            The file. An existing one is replaced; its folder must exist.

        Returns
        -------
        Path
            The file.
        """
        return write_report(self, path)

    def sample(self, n_samples: int = 1, random_state: Any = None) -> tuple[npt.NDArray[np.int64], FloatArray]:
        """Graphs and parameters that the data allow.

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        random_state : int, RandomState or None, default=None
            Makes the draw reproducible.

        Returns
        -------
        adjacencies : ndarray of shape (n_samples, n_nodes, n_nodes)
            Graphs of zeros and ones.
        thetas : ndarray of shape (n_samples, n_parameters)
            The parameters that go with them.
        """
        check_is_fitted(self)
        if isinstance(n_samples, bool) or not isinstance(n_samples, Integral) or n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r}; expected an integer of at least 1.")
        return self._draw(int(n_samples), random_state)

    def _findings(self) -> Sequence[tuple[str, str]]:
        """Sentences on how far the fit can be trusted, each after "trouble", "caution" or "good"."""
        return []

    def _draw(self, n_samples: int, random_state: Any) -> tuple[npt.NDArray[np.int64], FloatArray]:
        # An estimator that knows one answer only gives it every time.
        adjacencies = np.repeat(self.adjacency_[None], n_samples, axis=0)
        return adjacencies, np.repeat(np.atleast_1d(self.theta_)[None], n_samples, axis=0)
