"""The known part of a graph: every pair of nodes has an edge, has none, or is unknown."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._utils._libraries import is_networkx
from .._utils._numbers import FloatArray, check_flag, check_integer
from ._edge_lists import (
    check_nodes,
    find_nodes,
    graph_pairs,
    graph_strengths,
    list_pairs,
    matrices_of_pairs,
    nodes_of_pairs,
    read_table,
)
from ._edge_space import EdgeSpace
from ._known_checks import (
    check_mask,
    check_size,
    check_strengths,
    frozen,
    graph_refusal,
    is_boolean,
    kind_refusal,
    merge_directions,
)
from ._names import Names, check_names, first_names, in_words, is_numbering, match_names, node_order
from ._validation import NamedMatrix, as_square_array, check_adjacency, read_matrix

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["KnownEdges", "is_directed", "names_of_known"]


@dataclass(frozen=True, eq=False, repr=False)
class KnownEdges:
    """The known part of an adjacency matrix.

    It deliberately has no length and no shape: scikit-learn's cross-validation slices everything that looks like an
    array with as many rows as there are samples, so it would slice the matrix of a graph that has as many nodes as
    there are experiments. A `KnownEdges` is passed through whole.

    If it carries the names of the nodes, it is matched by name with everything else that has names: the columns of X
    and Y, and the true graph in metrics and displays.

    In a directed graph, an edge from source to target means that the target's output depends on the source's input.
    Matrices follow the convention of the filters, A in y = h(A) x, so this edge is the entry A[target, source]: rows
    receive, columns send. Edge lists and networkx graphs name the source first, as usual.

    Parameters
    ----------
    mask : array-like of bool of shape (n_nodes, n_nodes)
        True where the pair is known. Symmetric unless `directed`. The diagonal may be either, because no node has an
        edge to itself.
    values : array, sparse matrix, DataFrame or networkx graph of shape (n_nodes, n_nodes)
        The adjacency matrix, 0 or 1 where `mask` is True. All other entries are ignored.
    names : sequence, default=None
        Names of the nodes, all different. If None, the names that `mask`, `values` or `weights` carry, if any.
    weights : array, sparse matrix, DataFrame or networkx graph of shape (n_nodes, n_nodes), default=None
        The strengths of the known edges: nan for an edge of unknown strength, 0 or nan for a pair that is known to have
        no edge. Entries of unknown pairs are ignored. In a networkx graph, the strength of an edge is its attribute
        "weight". The attribute `weights` of the object holds the known strengths and nan elsewhere; it is None if no
        strength is known.
    directed : bool, default=False
        Whether the graph is directed, so that (i, j) and (j, i) are separate pairs.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_graphid import KnownEdges
    >>> known = KnownEdges.from_array([[0, 1, np.nan], [1, 0, 0], [np.nan, 0, 0]])
    >>> known
    KnownEdges(n_nodes=3, known=2 of 3 pairs)
    >>> known.unknown_pairs()
    (array([0]), array([2]))
    """

    mask: npt.NDArray[np.bool_]
    values: FloatArray
    names: Names | None = None
    weights: FloatArray | None = None
    directed: bool = False

    def __post_init__(self) -> None:
        if is_networkx(self.mask):
            raise TypeError(graph_refusal("mask"))
        directed = check_flag(self.directed, "directed")
        mask, values = read_matrix(self.mask, "mask"), read_matrix(self.values, "values", directed=directed)
        weights = None
        if self.weights is not None:
            weights = read_matrix(self.weights, "weights", directed=directed, missing_weight=np.nan)
        names = first_names(mask.names, values.names, weights and weights.names)
        if self.names is not None:
            names = check_names(self.names, "names")
        is_known = check_mask(mask.in_order_of(names, "mask", "names"), directed)
        array = as_square_array(values.in_order_of(names, "values", "mask"), "values")
        if array.shape != is_known.shape:
            raise ValueError(f"values has shape {array.shape} but mask has shape {is_known.shape}.")
        if names is not None and len(names) != len(is_known):
            raise ValueError(
                f"names has {len(names)} entries but mask has {len(is_known)} nodes; expected one name for each node."
            )
        array = check_adjacency(np.where(is_known, array, 0.0), "the known part of values", directed=directed)
        np.fill_diagonal(is_known, True)
        strengths = None
        if weights is not None:
            strengths = check_strengths(weights.in_order_of(names, "weights", "mask"), is_known, array, directed)
        object.__setattr__(self, "mask", frozen(is_known))
        object.__setattr__(self, "values", frozen(array))
        object.__setattr__(self, "names", names)
        object.__setattr__(self, "weights", None if strengths is None else frozen(strengths))
        object.__setattr__(self, "directed", directed)

    def __reduce__(self) -> tuple[type[KnownEdges], tuple[Any, ...]]:
        # Copies and pickles of arrays are writeable; going through the constructor freezes them again.
        return type(self), (self.mask, self.values, self.names, self.weights, self.directed)

    @classmethod
    def from_array(cls, partial: Any, weighted: bool = False, directed: bool = False) -> KnownEdges:
        """Read a matrix that holds 0 or 1 where the pair is known and nan where it is unknown.

        In an undirected graph the two entries of a pair must agree, also where they are nan.

        Parameters
        ----------
        partial : array-like or DataFrame of shape (n_nodes, n_nodes)
            The partially known adjacency matrix. The columns and the index of a DataFrame are the names of the nodes.
        weighted : bool, default=False
            Whether numbers other than 0 are the strengths of edges.
        directed : bool, default=False
            Whether the graph is directed; the edge from j to i is the entry in row i and column j.

        Returns
        -------
        KnownEdges
            The known part of the graph.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_graphid import KnownEdges
        >>> known = KnownEdges.from_array([[0, 2.5, np.nan], [2.5, 0, 0], [np.nan, 0, 0]], weighted=True)
        >>> known
        KnownEdges(n_nodes=3, known=2 of 3 pairs, strengths=1 of 1 edges)
        """
        if is_networkx(partial):
            raise TypeError(graph_refusal("partial"))
        check_flag(weighted, "weighted")
        return cls._from_partial(read_matrix(partial, "partial"), "partial", weighted, check_flag(directed, "directed"))

    @classmethod
    def _from_partial(cls, partial: NamedMatrix, name: str, weighted: bool, directed: bool) -> KnownEdges:
        array = as_square_array(partial, name)
        odd = array[np.isinf(array)] if weighted else array[~(np.isnan(array) | (array == 0) | (array == 1))]
        if odd.size:
            expected = "finite numbers" if weighted else "0, 1"
            hint = "" if weighted else " For strengths of edges, see KnownEdges.from_array(..., weighted=True)."
            raise ValueError(f"{name} holds the value {odd[0]:g}; expected {expected}, or nan where unknown.{hint}")
        strengths = array if directed else merge_directions(array, name)
        mask = ~np.isnan(strengths)
        return cls(mask, mask & (strengths != 0), partial.names, strengths if weighted else None, directed)

    @classmethod
    def from_networkx(
        cls, graph: nx.Graph, absent: Any = None, nodes: Any = None, weight: str | None = None
    ) -> KnownEdges:
        """Read a graph whose edges are known to exist.

        A graph does not say which pairs are known to have no edge. List those in `absent`; all other pairs without an
        edge are unknown.

        Parameters
        ----------
        graph : networkx.Graph or networkx.DiGraph
            The graph whose edges are known to exist. A DiGraph makes the result directed; its edge from u to v means
            that the output of v depends on the input of u.
        absent : list of pairs of nodes, networkx graph or None, default=None
            Pairs that are known to have no edge, as a list or as the edges of a graph. If `graph` is directed, pairs
            are ordered: (source, target).
        nodes : sequence or DataFrame, default=None
            Names of all nodes in the desired order, or a DataFrame whose columns are the nodes. If None, the nodes of
            `graph`, followed by those that only `absent` mentions.
        weight : str or None, default=None
            Name of the edge attribute that holds the strength; the strength of an edge without it is unknown. If None,
            all strengths are unknown.

        Returns
        -------
        KnownEdges
            The known part of the graph, with the names of the nodes.

        Examples
        --------
        >>> import networkx as nx
        >>> from sklearn_graphid import KnownEdges
        >>> friends = nx.Graph([("Ann", "Bob"), ("Bob", "Cid")])
        >>> known = KnownEdges.from_networkx(friends, absent=[("Ann", "Dan")], nodes=["Ann", "Bob", "Cid", "Dan"])
        >>> known
        KnownEdges(n_nodes=4, known=3 of 6 pairs)
        >>> follows = nx.DiGraph([("Ann", "Bob")])
        >>> KnownEdges.from_networkx(follows, absent=[("Bob", "Ann")])
        KnownEdges(n_nodes=2, known=2 of 2 ordered pairs)
        """
        present = graph_pairs(graph, "graph")
        directed = graph.is_directed()
        missing = [] if absent is None else list_pairs(absent, "absent", directed)
        strengths = None if weight is None else graph_strengths(graph, weight)
        names = nodes_of_pairs(graph.nodes, missing) if nodes is None else check_nodes(nodes)
        # A node without an edge counts too: one that is not among `nodes` is a mistake in one of the two.
        find_nodes(graph.nodes, names, "graph")
        mask, values, weights = matrices_of_pairs(
            present, missing, names, "graph", "absent", directed=directed, strengths=strengths
        )
        return cls(mask, values, names, weights, directed)

    @classmethod
    def from_pandas_edgelist(
        cls,
        frame: Any,
        source: str = "source",
        target: str = "target",
        present: str | None = "present",
        nodes: Any = None,
        weight: str | None = None,
        directed: bool = False,
    ) -> KnownEdges:
        """Read a table with a row for each known pair.

        Parameters
        ----------
        frame : DataFrame
            The table.
        source, target : str, default="source" and "target"
            The columns with the two nodes of a pair, in either order unless `directed`.
        present : str or None, default="present"
            The column that says whether there is an edge: True or False, 1 or 0, "present" or "absent". If None, every
            row is an edge.
        nodes : sequence or DataFrame, default=None
            Names of all nodes in the desired order, or a DataFrame whose columns are the nodes. If None, the nodes of
            the table.
        weight : str or None, default=None
            The column with the strengths of the edges, nan where the strength is unknown. If None, all strengths are
            unknown.
        directed : bool, default=False
            Whether the graph is directed: the target's output depends on the source's input.

        Returns
        -------
        KnownEdges
            The known part of the graph, with the names of the nodes. Pairs without a row are unknown.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn_graphid import KnownEdges
        >>> table = pd.DataFrame({"source": ["a", "a"], "target": ["b", "c"], "present": [True, False]})
        >>> KnownEdges.from_pandas_edgelist(table).to_array()
        array([[ 0.,  1.,  0.],
               [ 1.,  0., nan],
               [ 0., nan,  0.]])
        """
        check_flag(directed, "directed")
        edges, missing, strengths = read_table(frame, source, target, present, weight)
        names = nodes_of_pairs((), [*edges, *missing]) if nodes is None else check_nodes(nodes)
        mask, values, weights = matrices_of_pairs(
            edges, missing, names, "frame", "frame", directed=directed, strengths=strengths
        )
        return cls(mask, values, names, weights, directed)

    @classmethod
    def nothing(cls, n_nodes: int, names: Names | None = None, directed: bool = False) -> KnownEdges:
        """Make a `KnownEdges` of `n_nodes` nodes of which all pairs are unknown."""
        n_nodes = check_integer(n_nodes, "n_nodes", low=1)
        return cls(np.eye(n_nodes, dtype=bool), np.zeros((n_nodes, n_nodes)), names, directed=directed)

    @classmethod
    def coerce(
        cls,
        known_mask: Any,
        known_adjacency: Any = None,
        *,
        n_nodes: int,
        node_names: Names | None = None,
        name: str = "known_mask",
        reference: str = "X",
        directed: bool | None = None,
        weighted: bool = False,
    ) -> KnownEdges:
        """Convert any accepted description of the known pairs to a `KnownEdges` of `n_nodes` nodes.

        Parameters
        ----------
        known_mask : KnownEdges, array, DataFrame or None
            A `KnownEdges`; an array with 0, 1 and nan; a boolean array together with `known_adjacency`; or None if
            nothing is known.
        known_adjacency : array, sparse matrix, DataFrame, networkx.Graph or None
            The values that go with a boolean `known_mask`.
        n_nodes : int
            Number of nodes.
        node_names : tuple or None
            Names of the nodes, in the desired order.
        name, reference : str
            The names that error messages use for `known_mask`, and for the argument that sets the number and names of
            the nodes.
        directed : bool or None
            Whether the graph is directed; a `KnownEdges` of the other kind is an error. If None, it is directed if
            `known_mask` is a `KnownEdges` of a directed graph.
        weighted : bool
            Whether numbers other than 0 in an array are the strengths of edges.

        Returns
        -------
        KnownEdges
            The known part of the graph, in the order of `node_names`.
        """
        if known_mask is None:
            if known_adjacency is not None:
                raise ValueError(
                    f"known_adjacency was given without {name}; expected a boolean {name} (True = known) with it."
                )
            return cls.nothing(n_nodes, node_names, bool(directed))
        if is_networkx(known_mask):
            raise TypeError(graph_refusal(name))
        if not isinstance(known_mask, cls):
            adjacency = None
            if known_adjacency is not None:
                adjacency = read_matrix(known_adjacency, "known_adjacency", directed=directed)
            mask = read_matrix(known_mask, name)
            check_size(mask, n_nodes, node_names, name, reference)
            if adjacency is not None:
                names = node_names if node_names is not None else mask.names
                check_size(adjacency, n_nodes, names, "known_adjacency", reference)
            known = cls._from_raw(mask, adjacency, is_boolean(known_mask), node_names, name, bool(directed), weighted)
        elif known_adjacency is not None:
            raise ValueError(
                f"known_adjacency was given, but {name} is a KnownEdges and holds the values already; expected "
                f"known_adjacency=None."
            )
        elif directed is not None and directed != known_mask.directed:
            raise ValueError(kind_refusal(name, known_mask.directed))
        else:
            known = known_mask
        return known._for_nodes(n_nodes, node_names, name, reference)

    @classmethod
    def of_graph(
        cls, known: Any, graph: NamedMatrix, node_names: Names | None, reference: str, directed: bool | None = None
    ) -> KnownEdges:
        """Read what was known of a fully known graph, in the order of `node_names`; `known` may be a boolean mask."""
        values = (
            graph
            if known is not None and not (isinstance(known, cls) or is_networkx(known)) and is_boolean(known)
            else None
        )
        return cls.coerce(
            known,
            values,
            n_nodes=len(graph.values),
            node_names=node_names,
            name="known",
            reference=reference,
            directed=directed,
        )

    @classmethod
    def _from_raw(
        cls,
        mask: NamedMatrix,
        adjacency: NamedMatrix | None,
        is_boolean: bool,
        node_names: Names | None,
        name: str,
        directed: bool,
        weighted: bool,
    ) -> KnownEdges:
        if adjacency is None:
            if is_boolean:
                raise ValueError(
                    f"{name} is boolean, which says which pairs are known but not whether they have edges; expected "
                    f"known_adjacency with it, or an array with 0, 1 and nan."
                )
            return cls._from_partial(mask, name, weighted, directed)
        if not is_boolean:
            raise ValueError(
                f"known_adjacency goes with a boolean {name} (True = known), but {name} is not boolean; expected a "
                f"boolean {name}, or known_adjacency=None."
            )
        weights = adjacency if weighted else None
        if weighted:
            is_edge = (adjacency.values != 0).astype(np.float64)
            # nan is no number at all, and refused with the values where the pair is known.
            adjacency = NamedMatrix(np.where(np.isnan(adjacency.values), np.nan, is_edge), adjacency.names)
        # Mask and values each go by the names of the nodes, even where the other has none.
        return cls(mask, adjacency, node_names, weights, directed)  # type: ignore[arg-type]

    def _for_nodes(self, n_nodes: int, node_names: Names | None, name: str, reference: str) -> KnownEdges:
        """The same in the order of `node_names`, after checking that there are as many nodes."""
        if node_names is None and self.names is not None and is_numbering(self.names) and self.n_nodes == n_nodes:
            node_names = tuple(range(n_nodes))  # a node that is called 3 is column 3
        if self.names is not None and node_names is not None and self.n_nodes < n_nodes:
            self._refuse_missing_nodes(node_names, name, reference)
        order = node_order(self.names, node_names, name, reference)
        if self.n_nodes != n_nodes:
            raise ValueError(
                f"{name} is a KnownEdges of {self.n_nodes} nodes but {reference} has {n_nodes} nodes; expected as "
                f"many nodes."
            )
        if node_names is None or (order is None and self.names == node_names):
            return self
        places = slice(None) if order is None else np.ix_(order, order)
        weights = None if self.weights is None else self.weights[places]
        return type(self)(self.mask[places], self.values[places], node_names, weights, self.directed)

    def _refuse_missing_nodes(self, node_names: Names, name: str, reference: str) -> None:
        missing = [
            node
            for node, place in zip(node_names, match_names(node_names, self.names or ()), strict=True)
            if place is None
        ]
        if len(missing) == len(node_names) - self.n_nodes:
            raise ValueError(
                f"{name} lacks nodes of {reference}: {in_words(missing)}. Nodes without a known pair must be listed "
                f"too, as in KnownEdges.from_networkx(graph, nodes=X.columns)."
            )

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return int(self.mask.shape[0])

    @cached_property
    def space(self) -> EdgeSpace:
        """The unknown pairs, as an `EdgeSpace`."""
        return EdgeSpace.of_mask(~self.mask, self.directed)

    @property
    def n_unknown(self) -> int:
        """Number of unknown pairs."""
        return self.space.n_free

    def unknown_pairs(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Return rows and columns of the unknown pairs; row < column unless directed."""
        return self.space.rows, self.space.columns

    def known_pairs(self) -> EdgeSpace:
        """Return the pairs that are known."""
        return EdgeSpace.of_mask(self.mask, self.directed)

    def edges(self) -> EdgeSpace:
        """Return the pairs that are known to have an edge."""
        return EdgeSpace.of_mask(self.values == 1, self.directed)

    @property
    def has_weights(self) -> bool:
        """Whether the strength of any edge is known."""
        return self.weights is not None

    @property
    def smallest_weight(self) -> float | None:
        """The smallest known strength (the most negative one if there are any); None if no strength is known."""
        return None if self.weights is None else float(np.nanmin(self.weights))

    def known_weights(self) -> FloatArray:
        """Return the known strengths, and zero elsewhere."""
        return np.zeros(self.mask.shape) if self.weights is None else np.nan_to_num(self.weights)

    def edges_with_weight(self) -> EdgeSpace:
        """Return the known edges whose strength is known."""
        return EdgeSpace.of_mask(self.known_weights() != 0, self.directed)

    def edges_without_weight(self) -> EdgeSpace:
        """Return the known edges whose strength is unknown."""
        return EdgeSpace.of_mask((self.values == 1) & (self.known_weights() == 0), self.directed)

    def to_array(self, weighted: bool = False) -> FloatArray:
        """Return the partially known matrix: 0 and 1, and nan where unknown.

        Parameters
        ----------
        weighted : bool, default=False
            Whether the entries of edges are their strengths instead of 1. A known edge of unknown strength is then an
            error, because nan stands for an unknown pair.

        Returns
        -------
        ndarray of shape (n_nodes, n_nodes)
            A matrix that `from_array` reads.
        """
        if not weighted:
            return np.where(self.mask, self.values, np.nan)
        n_unknown = self._n_edges - self._n_strengths
        if n_unknown:
            raise ValueError(
                f"weighted=True, but the strengths of {n_unknown} known edges are unknown, which this matrix cannot "
                f"express because nan stands for an unknown pair; expected weighted=False. The known strengths are in "
                f"the attribute weights."
            )
        strengths = self.values if self.weights is None else np.where(self.values == 1, self.weights, 0.0)
        return np.where(self.mask, strengths, np.nan)

    @property
    def _n_edges(self) -> int:
        return self.edges().n_free

    @property
    def _n_strengths(self) -> int:
        return 0 if self.weights is None else EdgeSpace.of_mask(np.isfinite(self.weights), self.directed).n_free

    def fill(self, pairs: npt.ArrayLike) -> FloatArray:
        """Fill in values for the unknown pairs, in the order of `unknown_pairs`, and keep the known pairs.

        Parameters
        ----------
        pairs : array-like of shape (..., n_unknown) or scalar
            Values of the unknown pairs; a single number fills them all.

        Returns
        -------
        ndarray of shape (..., n_nodes, n_nodes)
            Matrices, symmetric unless directed.
        """
        values = np.asarray(pairs, dtype=np.float64)
        if values.ndim and values.shape[-1] != self.n_unknown:
            raise ValueError(
                f"pairs has shape {values.shape}; expected (..., {self.n_unknown}), one value for each unknown pair."
            )
        filled: FloatArray = self.space.filled(values, self.values)
        return filled

    def __repr__(self) -> str:
        n_pairs = self.n_nodes * (self.n_nodes - 1) // self.space.n_entries
        pairs = f"{n_pairs} ordered pairs" if self.directed else f"{n_pairs} pairs"
        strengths = f", strengths={self._n_strengths} of {self._n_edges} edges" if self.has_weights else ""
        return f"KnownEdges(n_nodes={self.n_nodes}, known={n_pairs - self.n_unknown} of {pairs}{strengths})"


def is_directed(known: Any, directed: bool | None) -> bool:
    """Whether a graph is directed: as `directed` says; if it is None, as `known` is; else not."""
    if directed is not None:
        return check_flag(directed, "directed")
    return isinstance(known, KnownEdges) and known.directed


def names_of_known(known: Any) -> Names | None:
    """The names that an argument of `KnownEdges.coerce` carries."""
    if known is None or is_networkx(known):
        return None
    return known.names if isinstance(known, KnownEdges) else read_matrix(known, "known").names
