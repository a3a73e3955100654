"""What is known of a graph: for every pair of nodes an edge, no edge, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from .._utils._numbers import FloatArray
from .._utils._optional import is_networkx
from ._edge_lists import (
    check_nodes,
    find_nodes,
    graph_pairs,
    list_pairs,
    matrices_of_pairs,
    nodes_of_pairs,
    split_by_presence,
)
from ._edge_space import EdgeSpace
from ._names import Names, check_names, first_names, in_words, is_numbering, match_names, node_order
from ._validation import NamedMatrix, as_square_array, check_adjacency, read_matrix

if TYPE_CHECKING:
    import networkx as nx

__all__ = ["KnownEdges", "names_of_known"]

_SLICED_HINT = (
    "Cross-validation slices arrays that have as many rows as there are experiments; wrap the mask in KnownEdges "
    "to pass it whole."
)


@dataclass(frozen=True, eq=False, repr=False)
class KnownEdges:
    """The known part of an adjacency matrix.

    It has no length and no shape on purpose: scikit-learn's cross-validation slices everything that looks
    like an array with as many rows as there are samples, and a graph with as many nodes as there are
    experiments would be torn. A `KnownEdges` passes through untouched.

    Where it carries the names of the nodes, it is matched by name with whatever else does: the columns of X and Y,
    and the true graph in metrics and displays.

    Parameters
    ----------
    mask : array-like of bool of shape (n_nodes, n_nodes)
        True where the pair is known. Symmetric; the diagonal may say either, as no node has an edge to
        itself.
    values : array, sparse matrix, DataFrame or networkx.Graph of shape (n_nodes, n_nodes)
        The adjacency matrix, 0 or 1 where `mask` is True. What stands elsewhere is ignored.
    names : sequence, default=None
        Names of the nodes, each once. None: those that `mask` or `values` carry, if any.

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

    def __post_init__(self) -> None:
        if is_networkx(self.mask):
            raise TypeError(_graph_refusal("mask"))
        mask, values = read_matrix(self.mask, "mask"), read_matrix(self.values, "values")
        names = first_names(mask.names, values.names)
        if self.names is not None:
            names = check_names(self.names, "names")
        is_known = _check_mask(mask.in_order_of(names, "mask", "names"))
        array = as_square_array(values.in_order_of(names, "values", "mask"), "values")
        if array.shape != is_known.shape:
            raise ValueError(f"values has shape {array.shape} but mask has shape {is_known.shape}.")
        if names is not None and len(names) != len(is_known):
            raise ValueError(f"names has {len(names)} entries but mask has {len(is_known)} nodes; expected one each.")
        array = check_adjacency(np.where(is_known, array, 0.0), "the known part of values")
        np.fill_diagonal(is_known, True)
        object.__setattr__(self, "mask", _frozen(is_known))
        object.__setattr__(self, "values", _frozen(array))
        object.__setattr__(self, "names", names)

    def __reduce__(self) -> tuple[type[KnownEdges], tuple[npt.NDArray[np.bool_], FloatArray, Names | None]]:
        # Copies and pickles of arrays are writeable; going through the constructor freezes them again.
        return type(self), (self.mask, self.values, self.names)

    @classmethod
    def from_array(cls, partial: Any) -> KnownEdges:
        """Read a matrix that holds 0 or 1 where the pair is known and nan where it is not.

        A pair may be given in one direction only (the other being nan).

        Parameters
        ----------
        partial : array-like or DataFrame of shape (n_nodes, n_nodes)
            The partially known adjacency matrix. The columns and the index of a DataFrame name the nodes.

        Returns
        -------
        KnownEdges
            What is known.
        """
        if is_networkx(partial):
            raise TypeError(_graph_refusal("partial"))
        return cls._from_partial(read_matrix(partial, "known_mask"))

    @classmethod
    def _from_partial(cls, partial: NamedMatrix) -> KnownEdges:
        array = as_square_array(partial, "known_mask")
        odd = array[~(np.isnan(array) | (array == 0) | (array == 1))]
        if odd.size:
            raise ValueError(f"known_mask holds the value {odd[0]:g}; expected 0, 1, or nan where unknown.")
        both = ~np.isnan(array) & ~np.isnan(array.T)
        if (both & (array != array.T)).any():
            i, j = np.argwhere(both & (array != array.T))[0]
            raise ValueError(
                f"known_mask contradicts itself: pair ({i}, {j}) is {array[i, j]:g} one way and "
                f"{array[j, i]:g} the other; expected an undirected graph."
            )
        values = np.where(np.isnan(array), array.T, array)
        return cls(~np.isnan(values), values, partial.names)

    @classmethod
    def from_networkx(cls, graph: nx.Graph, absent: Any = None, nodes: Any = None) -> KnownEdges:
        """Read a graph whose edges are known to exist.

        A graph says nothing of the pairs without an edge. Those that are known to have none are listed in `absent`;
        all others are unknown.

        Parameters
        ----------
        graph : networkx.Graph
            Its edges are known to exist.
        absent : list of pairs of nodes, networkx.Graph or None, default=None
            Pairs that are known to have no edge; the edges of a graph stand for such pairs.
        nodes : sequence or DataFrame, default=None
            All nodes, in the order that is wanted: their names, or a DataFrame whose columns they are. None: the nodes
            of `graph`, and those that only `absent` mentions.

        Returns
        -------
        KnownEdges
            What is known, with the names of the nodes.

        Examples
        --------
        >>> import networkx as nx
        >>> from sklearn_graphid import KnownEdges
        >>> friends = nx.Graph([("Ann", "Bob"), ("Bob", "Cid")])
        >>> known = KnownEdges.from_networkx(friends, absent=[("Ann", "Dan")], nodes=["Ann", "Bob", "Cid", "Dan"])
        >>> known
        KnownEdges(n_nodes=4, known=3 of 6 pairs)
        """
        present, missing = graph_pairs(graph, "graph"), [] if absent is None else list_pairs(absent, "absent")
        names = nodes_of_pairs(graph.nodes, missing) if nodes is None else check_nodes(nodes)
        # A node without an edge counts too: one that is not among `nodes` is a mistake in one of the two.
        find_nodes(graph.nodes, names, "graph")
        return cls(*matrices_of_pairs(present, missing, names, "graph", "absent"), names)

    @classmethod
    def from_pandas_edgelist(
        cls,
        frame: Any,
        source: str = "source",
        target: str = "target",
        present: str | None = "present",
        nodes: Any = None,
    ) -> KnownEdges:
        """Read a table with a row for each known pair.

        Parameters
        ----------
        frame : DataFrame
            The table.
        source, target : str, default="source" and "target"
            The columns with the two nodes of a pair, in either order.
        present : str or None, default="present"
            The column that says whether there is an edge: True or False, 1 or 0, "present" or "absent". None: every
            row is an edge.
        nodes : sequence or DataFrame, default=None
            All nodes, in the order that is wanted: their names, or a DataFrame whose columns they are. None: the nodes
            of the table.

        Returns
        -------
        KnownEdges
            What is known, with the names of the nodes. Pairs without a row are unknown.

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
        edges, missing = split_by_presence(frame, source, target, present)
        names = nodes_of_pairs((), [*edges, *missing]) if nodes is None else check_nodes(nodes)
        return cls(*matrices_of_pairs(edges, missing, names, "frame", "frame"), names)

    @classmethod
    def nothing(cls, n_nodes: int, names: Names | None = None) -> KnownEdges:
        """Nothing is known of `n_nodes` nodes."""
        if isinstance(n_nodes, bool) or not isinstance(n_nodes, Integral) or n_nodes < 1:
            raise ValueError(f"n_nodes={n_nodes!r}; expected an integer of at least 1.")
        return cls(np.eye(n_nodes, dtype=bool), np.zeros((n_nodes, n_nodes)), names)

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
    ) -> KnownEdges:
        """Turn any of the accepted ways to say what is known into a `KnownEdges` of `n_nodes` nodes.

        Parameters
        ----------
        known_mask : KnownEdges, array, DataFrame or None
            A `KnownEdges`; an array with 0, 1 and nan; a boolean array together with `known_adjacency`; or
            None for nothing known.
        known_adjacency : array, sparse matrix, DataFrame, networkx.Graph or None
            The values that go with a boolean `known_mask`.
        n_nodes : int
            How many nodes there are.
        node_names : tuple or None
            Their names, in the order that is wanted.
        name, reference : str
            What error messages call `known_mask`, and the argument that sets the number and names of the nodes.

        Returns
        -------
        KnownEdges
            What is known, in the order of `node_names`.
        """
        if known_mask is None:
            if known_adjacency is not None:
                raise ValueError(f"known_adjacency was given without {name}; expected a boolean {name} with it.")
            return cls.nothing(n_nodes, node_names)
        if is_networkx(known_mask):
            raise TypeError(_graph_refusal(name))
        if not isinstance(known_mask, cls):
            raw = read_matrix(known_mask, name), _unless_none(read_matrix, known_adjacency, "known_adjacency")
            known = cls._from_raw(*raw, _is_boolean(known_mask), n_nodes, node_names, name, reference)
        elif known_adjacency is not None:
            raise ValueError(f"known_adjacency was given, but {name} is a KnownEdges and holds the values.")
        else:
            known = known_mask
        return known._for_nodes(n_nodes, node_names, name, reference)

    @classmethod
    def of_graph(cls, known: Any, graph: NamedMatrix, node_names: Names | None, reference: str) -> KnownEdges:
        """What was known of a whole graph, in the order of `node_names`; a boolean `known` says only where."""
        values = (
            graph
            if known is not None and not (isinstance(known, cls) or is_networkx(known)) and _is_boolean(known)
            else None
        )
        n_nodes = len(graph.values)
        return cls.coerce(known, values, n_nodes=n_nodes, node_names=node_names, name="known", reference=reference)

    @classmethod
    def _from_raw(
        cls,
        mask: NamedMatrix,
        adjacency: NamedMatrix | None,
        is_boolean: bool,
        n_nodes: int,
        node_names: Names | None,
        name: str,
        reference: str,
    ) -> KnownEdges:
        _check_size(mask, n_nodes, node_names, name, reference)
        if adjacency is None:
            if is_boolean:
                raise ValueError(
                    f"{name} is boolean, which says where pairs are known but not what they are; expected "
                    f"known_adjacency with it, or an array with 0, 1 and nan."
                )
            return cls._from_partial(mask)
        if not is_boolean:
            raise ValueError(f"known_adjacency goes with a boolean {name} (True = known); this one is not boolean.")
        names = node_names if node_names is not None else mask.names
        _check_size(adjacency, n_nodes, names, "known_adjacency", reference)
        # Mask and values each go by the names of the nodes, even where the other has none.
        return cls(mask, adjacency, node_names)  # type: ignore[arg-type]

    def _for_nodes(self, n_nodes: int, node_names: Names | None, name: str, reference: str) -> KnownEdges:
        """The same in the order of `node_names`, after checking that there are as many nodes."""
        if node_names is None and self.names is not None and is_numbering(self.names) and self.n_nodes == n_nodes:
            node_names = tuple(range(n_nodes))  # a node that is called 3 is column 3
        if self.names is not None and node_names is not None and self.n_nodes < n_nodes:
            self._refuse_missing_nodes(node_names, name, reference)
        order = node_order(self.names, node_names, name, reference)
        if self.n_nodes != n_nodes:
            raise ValueError(f"{name} is a KnownEdges of {self.n_nodes} nodes but {reference} has {n_nodes} nodes.")
        if node_names is None or (order is None and self.names == node_names):
            return self
        places = slice(None) if order is None else np.ix_(order, order)
        return type(self)(self.mask[places], self.values[places], node_names)

    def _refuse_missing_nodes(self, node_names: Names, name: str, reference: str) -> None:
        missing = [
            node
            for node, place in zip(node_names, match_names(node_names, self.names or ()), strict=True)
            if place is None
        ]
        if len(missing) == len(node_names) - self.n_nodes:
            raise ValueError(
                f"{name} lacks nodes of {reference}: {in_words(missing)}. A node without a known pair has to be named "
                f"too, as in KnownEdges.from_networkx(graph, nodes=X.columns)."
            )

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return int(self.mask.shape[0])

    @cached_property
    def space(self) -> EdgeSpace:
        """The unknown pairs, which are free."""
        return EdgeSpace.of_mask(~self.mask)

    @property
    def n_unknown(self) -> int:
        """How many pairs are unknown."""
        return self.space.n_free

    def unknown_pairs(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows and columns (row < column) of the unknown pairs."""
        return self.space.rows, self.space.columns

    def known_pairs(self) -> EdgeSpace:
        """The pairs that are known."""
        return EdgeSpace.of_mask(self.mask)

    def to_array(self) -> FloatArray:
        """The partially known matrix: 0 and 1, and nan where unknown."""
        return np.where(self.mask, self.values, np.nan)

    def fill(self, pairs: npt.ArrayLike) -> FloatArray:
        """Fill the unknown pairs, in the order of `unknown_pairs`, on top of what is known.

        Parameters
        ----------
        pairs : array-like of shape (..., n_unknown) or scalar
            Values of the unknown pairs; a single number fills them all.

        Returns
        -------
        ndarray of shape (..., n_nodes, n_nodes)
            Symmetric matrices.
        """
        values = np.asarray(pairs, dtype=np.float64)
        if values.ndim and values.shape[-1] != self.n_unknown:
            raise ValueError(f"pairs has shape {values.shape}; expected (..., {self.n_unknown}), one per unknown pair.")
        filled: FloatArray = self.space.filled(values, self.values)
        return filled

    def __repr__(self) -> str:
        n_pairs = self.n_nodes * (self.n_nodes - 1) // 2
        return f"KnownEdges(n_nodes={self.n_nodes}, known={n_pairs - self.n_unknown} of {n_pairs} pairs)"


def names_of_known(known: Any) -> Names | None:
    """The names that an argument of `KnownEdges.coerce` carries."""
    if known is None or is_networkx(known):
        return None
    return known.names if isinstance(known, KnownEdges) else read_matrix(known, "known").names


def _graph_refusal(name: str) -> str:
    return (
        f"{name} is a networkx graph, which says which edges there are, but not which pairs are known to have none. "
        f"Pass KnownEdges.from_networkx(graph, absent=...) with the pairs that are known to have no edge (all others "
        f"are then unknown), or a boolean mask of the known pairs with known_adjacency=graph."
    )


def _check_mask(square: Any) -> npt.NDArray[np.bool_]:
    square = as_square_array(square, "mask")
    if not np.isin(square, (0, 1)).all():
        raise ValueError("mask holds values other than True and False; expected a boolean array.")
    array: npt.NDArray[np.bool_] = square.astype(bool)
    if (array != array.T).any():
        i, j = np.argwhere(array != array.T)[0]
        raise ValueError(f"mask is not symmetric: pair ({i}, {j}) is known one way and unknown the other.")
    return array


def _check_size(matrix: NamedMatrix, n_nodes: int, node_names: Names | None, name: str, reference: str) -> None:
    # Names that differ say more than numbers that do.
    node_order(matrix.names, node_names, name, reference)
    if matrix.values.shape != (n_nodes, n_nodes):
        raise ValueError(
            f"{name} has shape {matrix.values.shape} but {reference} has {n_nodes} nodes, so it should be "
            f"({n_nodes}, {n_nodes}). {_SLICED_HINT}"
        )


def _unless_none(read: Any, value: Any, name: str) -> Any:
    return None if value is None else read(value, name)


def _is_boolean(array: Any) -> bool:
    # Sparse matrices have a dtype but become arrays of objects in numpy's hands; nested lists have none.
    return bool(getattr(array, "dtype", np.asarray(array).dtype) == np.dtype(bool))


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = array.copy()
    array.flags.writeable = False
    return array
