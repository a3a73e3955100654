"""The known part of a graph: every pair of nodes has an edge, has none, or is unknown."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from functools import cached_property
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._utils._libraries import is_networkx
from .._utils._numbers import FloatArray, check_flag, check_integer
from ._edge_space import EdgeSpace
from ._matrices import DIRECTED_HINT, NodeMatrix, as_square_array, check_graph, read_matrix, symmetrized
from ._nodes import Names, Nodes, check_names, column_names, first_named, in_words, is_numbering, match_names

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["KnownEdges", "is_directed", "nodes_of_known"]

BoolArray = npt.NDArray[np.bool_]
Pair = tuple[Hashable, Hashable]

_PRESENCE = {True: True, False: False, "present": True, "absent": False}


@dataclass(frozen=True, eq=False, repr=False)
class KnownEdges:
    """The known part of an adjacency matrix.

    It has no length and no shape, so that cross-validation passes it whole: scikit-learn slices every array that has as
    many rows as there are experiments. If it carries names of nodes, it is matched by name with everything else that
    has names: the columns of X and Y, and the true graph in metrics and displays.

    In a directed graph, an edge from source to target means that the target's output depends on the source's input.
    Matrices follow the convention of the filters, A in y = h(A) x, so this edge is the entry A[target, source]: rows
    receive, columns send. Edge lists and networkx graphs name the source first, as usual.

    Parameters
    ----------
    mask : array-like of bool of shape (n_nodes, n_nodes)
        True where the pair is known. Symmetric unless `directed`. The diagonal is not read.
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

    mask: BoolArray
    values: FloatArray
    names: Names | None = None
    weights: FloatArray | None = None
    directed: bool = False

    def __post_init__(self) -> None:
        if is_networkx(self.mask):
            raise TypeError(_graph_alone("mask"))
        directed = check_flag(self.directed, "directed")
        mask, values = read_matrix(self.mask, "mask"), read_matrix(self.values, "values", directed=directed)
        matrices, weights = [mask, values], None
        if self.weights is not None:
            weights = read_matrix(self.weights, "weights", directed=directed, missing_weight=np.nan)
            matrices.append(weights)
        nodes = first_named(*(matrix.nodes for matrix in matrices))
        if self.names is not None:
            nodes = Nodes(check_names(self.names, "names"), "names")
        is_known = _check_mask(mask.in_order_of(nodes), directed)
        array = as_square_array(values.in_order_of(nodes), "values")
        if array.shape != is_known.shape:
            raise ValueError(f"values has shape {array.shape} but mask has shape {is_known.shape}.")
        if nodes.names is not None and len(nodes.names) != len(is_known):
            raise ValueError(
                f"names has {len(nodes.names)} entries but mask has {len(is_known)} nodes; expected one name for each "
                f"node."
            )
        known_part = np.where(is_known, array, 0.0)
        array = check_graph(known_part, "the known part of values", directed=directed).values
        np.fill_diagonal(is_known, True)
        strengths = None
        if weights is not None:
            strengths = _check_strengths(weights.in_order_of(nodes), is_known, array, directed)
        for name, checked in (("mask", is_known), ("values", array), ("weights", strengths)):
            if checked is not None:
                checked = checked.copy()
                checked.flags.writeable = False
            object.__setattr__(self, name, checked)
        object.__setattr__(self, "names", nodes.names)
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
            Whether the graph is directed.

        Returns
        -------
        KnownEdges
            The known part of the graph.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_graphid import KnownEdges
        >>> KnownEdges.from_array([[0, 2.5, np.nan], [2.5, 0, 0], [np.nan, 0, 0]], weighted=True)
        KnownEdges(n_nodes=3, known=2 of 3 pairs, strengths=1 of 1 edges)
        """
        if is_networkx(partial):
            raise TypeError(_graph_alone("partial"))
        check_flag(weighted, "weighted")
        return cls._from_partial(read_matrix(partial, "partial"), "partial", weighted, check_flag(directed, "directed"))

    @classmethod
    def _from_partial(cls, partial: NodeMatrix, name: str, weighted: bool, directed: bool) -> KnownEdges:
        array = as_square_array(partial, name)
        odd = array[np.isinf(array)] if weighted else array[~(np.isnan(array) | (array == 0) | (array == 1))]
        if odd.size:
            expected = "finite numbers" if weighted else "0, 1"
            hint = "" if weighted else " For strengths of edges, see KnownEdges.from_array(..., weighted=True)."
            raise ValueError(f"{name} holds the value {odd[0]:g}; expected {expected}, or nan where unknown.{hint}")
        strengths = array if directed else symmetrized(array, name)
        mask = ~np.isnan(strengths)
        return cls(mask, mask & (strengths != 0), partial.nodes.names, strengths if weighted else None, directed)

    @classmethod
    def from_networkx(
        cls, graph: nx.Graph, absent: Any = None, nodes: Any = None, weight: str | None = None
    ) -> KnownEdges:
        """Read a graph whose edges are known to exist.

        Parameters
        ----------
        graph : networkx.Graph or networkx.DiGraph
            The graph whose edges are known to exist; a DiGraph makes the result directed.
        absent : list of pairs of nodes, networkx graph or None, default=None
            Pairs that are known to have no edge, (source, target) if `graph` is directed. All other pairs without an
            edge are unknown.
        nodes : sequence or DataFrame, default=None
            Names of all nodes in the desired order, or a DataFrame whose columns are the nodes. If None, the nodes of
            `graph`, followed by those that only `absent` mentions.
        weight : str or None, default=None
            Name of the edge attribute that holds the strength; that of an edge without it is unknown.

        Returns
        -------
        KnownEdges
            The known part of the graph, with the names of the nodes.

        Examples
        --------
        >>> import networkx as nx
        >>> from sklearn_graphid import KnownEdges
        >>> friends = nx.Graph([("Ann", "Bob"), ("Bob", "Cid")])
        >>> KnownEdges.from_networkx(friends, absent=[("Ann", "Dan")], nodes=["Ann", "Bob", "Cid", "Dan"])
        KnownEdges(n_nodes=4, known=3 of 6 pairs)
        """
        edges, directed = _edges_of(graph, "graph"), graph.is_directed()
        missing = [] if absent is None else _list_pairs(absent, "absent", directed)
        names = _names_of_pairs(nodes, graph.nodes, missing)
        # A node without an edge counts too: one that is not among `nodes` is a mistake in one of the two.
        _places_of(graph.nodes, names, "graph")
        strengths = None
        if weight is not None:
            attributes = [value for _, _, value in graph.edges(data=weight)]
            if attributes and all(value is None for value in attributes):
                raise ValueError(
                    f"weight={weight!r}, but no edge of graph has this attribute; expected the name of an edge "
                    f"attribute."
                )
            strengths = [_strength(value, f"attribute {weight!r} of graph") for value in attributes]
        return cls._from_pairs(edges, missing, names, ("graph", "absent"), directed, strengths)

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
            Names of all nodes, as in `from_networkx`. If None, the nodes of the table.
        weight : str or None, default=None
            The column with the strengths of the edges, nan where the strength is unknown.
        directed : bool, default=False
            Whether the graph is directed.

        Returns
        -------
        KnownEdges
            The known part of the graph, with the names of the nodes. Pairs without a row are unknown.

        Examples
        --------
        >>> import pandas as pd
        >>> from sklearn_graphid import KnownEdges
        >>> table = pd.DataFrame({"source": ["a", "a"], "target": ["b", "c"], "present": [True, False]})
        >>> KnownEdges.from_pandas_edgelist(table)
        KnownEdges(n_nodes=3, known=2 of 3 pairs)
        """
        check_flag(directed, "directed")
        columns = [str(column) for column in getattr(frame, "columns", ())]
        for argument, column in (("source", source), ("target", target), ("present", present), ("weight", weight)):
            if column is not None and str(column) not in columns:
                hint = " If every row is an edge, pass present=None." if argument == "present" else ""
                raise ValueError(f"{argument}={column!r}, but frame has the columns {in_words(columns)}.{hint}")
        pairs = list(zip(frame[source], frame[target], strict=True))
        is_edge = [True] * len(pairs) if present is None else [_presence(value, present) for value in frame[present]]
        values = [math.nan] * len(pairs)
        if weight is not None:
            values = [_strength(value, f"column {weight!r} of frame") for value in frame[weight]]
        edges, absent, strengths = [], [], []
        for pair, there, strength in zip(pairs, is_edge, values, strict=True):
            if there:
                edges.append(pair)
                strengths.append(strength)
                continue
            absent.append(pair)
            if strength and not math.isnan(strength):
                raise ValueError(
                    f"weights without edges: column {weight!r} of frame holds {strength:g} for the pair {pair!r}, "
                    f"which is known to have no edge; expected 0 or nan there."
                )
        names = _names_of_pairs(nodes, (), pairs)
        return cls._from_pairs(edges, absent, names, ("frame", "frame"), directed, strengths)

    @classmethod
    def _from_pairs(
        cls,
        present: list[Pair],
        absent: list[Pair],
        names: Names,
        arguments: tuple[str, str],
        directed: bool,
        strengths: list[float] | None,
    ) -> KnownEdges:
        """Make it of pairs (source, target), and the strengths of those that are present, nan where unknown."""
        mask, values = np.eye(len(names), dtype=bool), np.zeros((len(names), len(names)))
        edges = _space_of(present, names, arguments[0], directed)
        edges.write(mask, True)
        edges.write(values, 1.0)
        missing = _space_of(absent, names, arguments[1], directed)
        both = missing.gather(values) == 1
        if both.any():
            pair = absent[int(both.argmax())]
            raise ValueError(f"the pair {pair!r} is both present and absent; expected one of the two.")
        missing.write(mask, True)
        if strengths is None:
            return cls(mask, values, names, None, directed)
        weights, given = np.full(values.shape, np.nan), np.array(strengths, dtype=np.float64)
        is_given = ~np.isnan(given)
        # A pair may be listed twice; where only one of the rows has a strength, that is the pair's.
        edges.select(is_given).write(weights, given[is_given])
        apart = is_given & (edges.gather(weights) != given)
        if apart.any():
            pair = present[int(apart.argmax())]
            raise ValueError(f"{arguments[0]} holds two different strengths for the pair {pair!r}; expected one.")
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
        nodes: Nodes | None = None,
        name: str = "known_mask",
        directed: bool | None = None,
    ) -> KnownEdges:
        """Convert any accepted description of the known pairs to a `KnownEdges`, in the order of some nodes.

        Parameters
        ----------
        known_mask : KnownEdges, array, DataFrame or None
            A `KnownEdges`; an array with 0, 1 and nan; a boolean array together with `known_adjacency`; or None if
            nothing is known.
        known_adjacency : array, sparse matrix, DataFrame, networkx.Graph or None
            The values that go with a boolean `known_mask`.
        n_nodes, nodes : int and Nodes
            Number of nodes; their names in the desired order, and the argument that sets them (None: X, without names).
        name : str
            What error messages call `known_mask`.
        directed : bool or None
            Whether the graph is directed; a `KnownEdges` of the other kind is an error. If None, as `known_mask` says.
        """
        nodes = nodes or Nodes(None, "X")
        if known_mask is None:
            if known_adjacency is not None:
                raise ValueError(
                    f"known_adjacency was given without {name}; expected a boolean {name} (True = known) with it."
                )
            return cls.nothing(n_nodes, nodes.names, bool(directed))
        if is_networkx(known_mask):
            raise TypeError(_graph_alone(name))
        if isinstance(known_mask, cls):
            if known_adjacency is not None:
                raise ValueError(
                    f"known_adjacency was given, but {name} is a KnownEdges and holds the values already; expected "
                    f"known_adjacency=None."
                )
            if directed is False and known_mask.directed:
                raise ValueError(
                    f"{name} is a KnownEdges of a directed graph; expected an undirected one. {DIRECTED_HINT}"
                )
            if directed and not known_mask.directed:
                raise ValueError(
                    f"{name} is a KnownEdges of an undirected graph, but directed=True; expected one of a directed "
                    f"graph, made by KnownEdges(..., directed=True), from_array(..., directed=True) or "
                    f"from_networkx(digraph)."
                )
            return known_mask._for_nodes(n_nodes, nodes, name)
        mask, adjacency, boolean = read_matrix(known_mask, name), None, _is_boolean(known_mask)
        _check_size(mask, n_nodes, nodes, nodes.argument)
        if known_adjacency is not None:
            adjacency = read_matrix(known_adjacency, "known_adjacency", directed=directed)
            _check_size(adjacency, n_nodes, mask.nodes if nodes.names is None else nodes, nodes.argument)
        if adjacency is None and boolean:
            raise ValueError(
                f"{name} is boolean, which says which pairs are known but not whether they have edges; expected "
                f"known_adjacency with it, or an array with 0, 1 and nan."
            )
        if adjacency is not None and not boolean:
            raise ValueError(
                f"known_adjacency goes with a boolean {name} (True = known), but {name} is not boolean; expected a "
                f"boolean {name}, or known_adjacency=None."
            )
        if adjacency is None:
            known = cls._from_partial(mask, name, False, bool(directed))
        else:  # mask and values each go by the names of the nodes, even where the other has none
            known = cls(mask, adjacency, nodes.names, directed=bool(directed))  # type: ignore[arg-type]
        return known._for_nodes(n_nodes, nodes, name)

    @classmethod
    def of_graph(cls, known: Any, graph: NodeMatrix, nodes: Nodes, directed: bool | None = None) -> KnownEdges:
        """Read what was known of a fully known graph, in the order of some nodes; `known` may be a boolean mask."""
        is_mask = not (known is None or isinstance(known, cls) or is_networkx(known)) and _is_boolean(known)
        return cls.coerce(
            known, graph if is_mask else None, n_nodes=len(graph.values), nodes=nodes, name="known", directed=directed
        )

    def _for_nodes(self, n_nodes: int, nodes: Nodes, name: str) -> KnownEdges:
        """Put it in the order of the nodes, after checking that there are as many."""
        names = nodes.names
        if names is None and self.names is not None and is_numbering(self.names) and self.n_nodes == n_nodes:
            names = tuple(range(n_nodes))  # a node that is called 3 is column 3
        if self.names is not None and names is not None and self.n_nodes < n_nodes:
            found = match_names(names, self.names)
            missing = [node for node, place in zip(names, found, strict=True) if place is None]
            if len(missing) == n_nodes - self.n_nodes:
                raise ValueError(
                    f"{name} lacks nodes of {nodes.argument}: {in_words(missing)}. Nodes without a known pair must be "
                    f"listed too, as in KnownEdges.from_networkx(graph, nodes=X.columns)."
                )
        order = Nodes(self.names, name).order_in(Nodes(names, nodes.argument))
        if self.n_nodes != n_nodes:
            raise ValueError(
                f"{name} is a KnownEdges of {self.n_nodes} nodes but {nodes.argument} has {n_nodes} nodes; expected as "
                f"many nodes."
            )
        if names is None or (order is None and self.names == names):
            return self
        places = slice(None) if order is None else np.ix_(order, order)
        weights = None if self.weights is None else self.weights[places]
        return type(self)(self.mask[places], self.values[places], names, weights, self.directed)

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
        """Return the matrix that `from_array` reads: 0 and 1, and nan where unknown.

        Parameters
        ----------
        weighted : bool, default=False
            Whether the entries of edges are their strengths instead of 1; an unknown strength is then an error.

        Returns
        -------
        ndarray of shape (n_nodes, n_nodes)
            The partially known matrix.
        """
        n_unknown = self.edges_without_weight().n_free if weighted else 0
        if n_unknown:
            raise ValueError(
                f"weighted=True, but the strengths of {n_unknown} known edges are unknown, which this matrix cannot "
                f"express because nan stands for an unknown pair; expected weighted=False. The known strengths are in "
                f"the attribute weights."
            )
        return np.where(self.mask, self.known_weights() if weighted else self.values, np.nan)

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
        n_pairs, strengths = self.n_nodes * (self.n_nodes - 1) // self.space.n_entries, ""
        pairs = f"{n_pairs} ordered pairs" if self.directed else f"{n_pairs} pairs"
        if self.weights is not None:
            strengths = f", strengths={self.edges_with_weight().n_free} of {self.edges().n_free} edges"
        return f"KnownEdges(n_nodes={self.n_nodes}, known={n_pairs - self.n_unknown} of {pairs}{strengths})"


def is_directed(known: Any, directed: bool | None) -> bool:
    """Whether a graph is directed: as `directed` says; if it is None, as `known` is; else not."""
    if directed is not None:
        return check_flag(directed, "directed")
    return isinstance(known, KnownEdges) and known.directed


def nodes_of_known(known: Any) -> Nodes:
    """The nodes of an argument of `KnownEdges.coerce`, which metrics and displays call `known`."""
    if isinstance(known, KnownEdges):
        return Nodes(known.names, "known")
    return Nodes(None, "known") if known is None or is_networkx(known) else read_matrix(known, "known").nodes


# Checks


def _check_mask(square: FloatArray, directed: bool) -> BoolArray:
    array = as_square_array(square, "mask")
    if not np.isin(array, (0, 1)).all():
        raise ValueError("mask holds values other than True and False; expected a boolean array.")
    return (array if directed else symmetrized(array, "mask")).astype(bool)


def _check_strengths(weights: FloatArray, mask: BoolArray, values: FloatArray, directed: bool) -> FloatArray | None:
    """Return the strengths of known edges as far as they are known, nan elsewhere; None if no strength is known."""
    array = as_square_array(weights, "weights")
    if array.shape != mask.shape:
        raise ValueError(f"weights has shape {array.shape} but mask has shape {mask.shape}.")
    is_edge = mask & (values == 1)
    surplus = mask & ~is_edge & ~np.isnan(array) & (array != 0)
    if surplus.any():
        i, j = np.argwhere(surplus)[0]
        raise ValueError(
            f"weights without edges: entry ({i}, {j}) is {array[i, j]:g}, but that pair is known to have no edge; "
            f"expected 0 or nan there."
        )
    strengths = np.where(is_edge, array, np.nan)
    odd = strengths[(strengths == 0) | np.isinf(strengths)]
    if odd.size:
        raise ValueError(
            f"weights holds the value {odd[0]:g} for a known edge; expected a finite number other than 0, or nan if "
            f"the strength is unknown."
        )
    strengths = strengths if directed else symmetrized(strengths, "weights")
    return None if np.isnan(strengths).all() else strengths


def _check_size(matrix: NodeMatrix, n_nodes: int, nodes: Nodes, reference: str) -> None:
    """Raise ValueError unless a matrix is of these nodes; names that differ say more than numbers that do."""
    matrix.nodes.order_in(Nodes(nodes.names, reference))
    if matrix.values.shape != (n_nodes, n_nodes):
        raise ValueError(
            f"{matrix.nodes.argument} has shape {matrix.values.shape} but {reference} has {n_nodes} nodes, so it "
            f"should be ({n_nodes}, {n_nodes}). Cross-validation slices arrays that have as many rows as there are "
            f"experiments; wrap the mask in KnownEdges to pass it whole."
        )


def _graph_alone(name: str) -> str:
    """An error message that says why a networkx graph is not enough, and what to pass instead."""
    return (
        f"{name} is a networkx graph, which lists the edges but not the pairs that are known to have no edge. "
        f"Pass KnownEdges.from_networkx(graph, absent=...) with the pairs that are known to have no edge (all others "
        f"are then unknown), or a boolean mask of the known pairs together with known_adjacency=graph."
    )


def _is_boolean(array: Any) -> bool:
    # Sparse matrices have a dtype but become arrays of objects in numpy's hands; nested lists have none.
    return bool(getattr(array, "dtype", np.asarray(array).dtype) == np.dtype(bool))


# Pairs that are listed by names


def _edges_of(graph: Any, argument: str) -> list[Pair]:
    if not is_networkx(graph) or graph.is_multigraph():
        kind = type(graph).__name__
        raise TypeError(f"{argument} is a {kind}; expected a networkx.Graph or a networkx.DiGraph.")
    return list(graph.edges())


def _list_pairs(pairs: Any, argument: str, directed: bool) -> list[Pair]:
    """Read pairs from a list or from a graph, which must be directed or not as `directed` says."""
    if is_networkx(pairs):
        if pairs.is_directed() != directed:
            came, way_out = ("an undirected", "to_directed()") if directed else ("a directed", "to_undirected()")
            raise ValueError(f"{argument} is {came} graph, but graph is not; pass {argument}.{way_out} instead.")
        return _edges_of(pairs, argument)
    if isinstance(pairs, str | bytes) or not isinstance(pairs, Iterable) or column_names(pairs) is not None:
        raise TypeError(f"{argument} is a {type(pairs).__name__}; expected a list of pairs of nodes, or a graph.")
    checked: list[Any] = []
    for pair in pairs:
        if isinstance(pair, str | bytes) or not isinstance(pair, Iterable) or len(ends := tuple(pair)) != 2:
            raise ValueError(f"{argument} holds {pair!r}; expected pairs of nodes, such as ('a', 'b').")
        checked.append(ends)
    return checked


def _names_of_pairs(nodes: Any, first: Iterable[Hashable], pairs: list[Pair]) -> Names:
    """Nodes listed as `nodes`; else the first nodes and then those that only pairs mention, or all by number."""
    if nodes is not None:
        columns = getattr(nodes, "columns", None)
        listed = nodes if columns is None else columns
        if isinstance(listed, str | bytes) or not isinstance(listed, Iterable):
            raise TypeError(f"nodes is a {type(nodes).__name__}; expected a list of node names, or a DataFrame.")
        return check_names(listed, "nodes")
    names = check_names(dict.fromkeys([*first, *(end for pair in pairs for end in pair)]), "nodes")
    return tuple(sorted(names, key=lambda name: int(str(name)))) if is_numbering(names) else names


def _places_of(nodes: Iterable[Hashable], names: Names, argument: str) -> dict[Hashable, int]:
    """Return the position of each node among the names; raise ValueError if a node is not among them."""
    wanted = tuple(dict.fromkeys(nodes))
    places = dict(zip(wanted, match_names(wanted, names), strict=True))
    surplus = [node for node, place in places.items() if place is None]
    if surplus:
        raise ValueError(f"{argument} has nodes that are not among `nodes`: {in_words(surplus)}.")
    return {node: place for node, place in places.items() if place is not None}


def _space_of(pairs: list[Pair], names: Names, argument: str, directed: bool) -> EdgeSpace:
    """Pairs (source, target) as entries of a matrix, of which rows receive."""
    places = _places_of((end for pair in pairs for end in pair), names, argument)
    for pair in pairs:
        if places[pair[0]] == places[pair[1]]:
            raise ValueError(f"{argument} holds the pair {pair!r} of a node with itself; expected two different nodes.")
    found = np.array([[places[source], places[target]] for source, target in pairs], dtype=np.intp).reshape(-1, 2)
    return EdgeSpace(len(names), found[:, 1], found[:, 0], directed)


def _strength(value: Any, place: str) -> float:
    """A number; nan for what says that it is missing."""
    if value is None or type(value).__name__ == "NAType":  # pandas' own nan, which compares with nothing
        return math.nan
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{place} holds {value!r}; expected numbers, or nan where the strength is unknown.")
    return float(value)


def _presence(value: Any, column: str) -> bool:
    try:
        return _PRESENCE[value]
    except (KeyError, TypeError):
        raise ValueError(
            f"column {column!r} of frame holds {value!r}; expected True or False, 1 or 0, 'present' or 'absent'."
        ) from None
