"""What is known of a network: for every pair of nodes an edge, no edge, or nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ._validation import FloatArray, as_float_array, as_square_array, check_adjacency

__all__ = ["KnownEdges"]

_SLICED_HINT = (
    "Cross-validation slices arrays that have as many rows as there are pairs; wrap the mask in KnownEdges "
    "to pass it whole."
)


@dataclass(frozen=True, eq=False, repr=False)
class KnownEdges:
    """The known part of an adjacency matrix.

    It has no length and no shape on purpose: scikit-learn's cross-validation slices everything that looks
    like an array with as many rows as there are samples, and a network with as many nodes as there are
    input-output pairs would be torn. A `KnownEdges` passes through untouched.

    Parameters
    ----------
    mask : array-like of bool of shape (n_nodes, n_nodes)
        True where the pair is known. Symmetric; the diagonal may say either, as no node has an edge to
        itself.
    values : array, sparse matrix or networkx.Graph of shape (n_nodes, n_nodes)
        The adjacency matrix, 0 or 1 where `mask` is True. What stands elsewhere is ignored.

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

    def __post_init__(self) -> None:
        mask = self._check_mask(self.mask)
        values = as_square_array(self.values, "values")
        if values.shape != mask.shape:
            raise ValueError(f"values has shape {values.shape} but mask has shape {mask.shape}.")
        values = check_adjacency(np.where(mask, values, 0.0), "the known part of values")
        np.fill_diagonal(mask, True)
        object.__setattr__(self, "mask", _frozen(mask))
        object.__setattr__(self, "values", _frozen(values))

    def __reduce__(self) -> tuple[type[KnownEdges], tuple[npt.NDArray[np.bool_], FloatArray]]:
        # Copies and pickles of arrays are writeable; going through the constructor freezes them again.
        return type(self), (self.mask, self.values)

    @staticmethod
    def _check_mask(mask: Any) -> npt.NDArray[np.bool_]:
        square = as_square_array(mask, "mask")
        if not np.isin(square, (0, 1)).all():
            raise ValueError("mask holds values other than True and False; expected a boolean array.")
        array = square.astype(bool)
        if (array != array.T).any():
            i, j = np.argwhere(array != array.T)[0]
            raise ValueError(f"mask is not symmetric: pair ({i}, {j}) is known one way and unknown the other.")
        return array

    @classmethod
    def from_array(cls, partial: Any) -> KnownEdges:
        """Read a matrix that holds 0 or 1 where the pair is known and nan where it is not.

        A pair may be given in one direction only (the other being nan).

        Parameters
        ----------
        partial : array-like of shape (n_nodes, n_nodes)
            The partially known adjacency matrix.

        Returns
        -------
        KnownEdges
            What is known.
        """
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
        return cls(~np.isnan(values), values)

    @classmethod
    def nothing(cls, n_nodes: int) -> KnownEdges:
        """Nothing is known of `n_nodes` nodes."""
        return cls(np.eye(n_nodes, dtype=bool), np.zeros((n_nodes, n_nodes)))

    @classmethod
    def coerce(
        cls,
        known_mask: Any,
        known_adjacency: Any = None,
        *,
        n_nodes: int,
        name: str = "known_mask",
        reference: str = "X",
    ) -> KnownEdges:
        """Turn any of the accepted ways to say what is known into a `KnownEdges` of `n_nodes` nodes.

        Parameters
        ----------
        known_mask : KnownEdges, array or None
            A `KnownEdges`; an array with 0, 1 and nan; a boolean array together with `known_adjacency`; or
            None for nothing known.
        known_adjacency : array, sparse matrix, networkx.Graph or None
            The values that go with a boolean `known_mask`.
        n_nodes : int
            How many nodes there are.
        name, reference : str
            What error messages call `known_mask`, and the argument that sets the number of nodes.

        Returns
        -------
        KnownEdges
            What is known.
        """
        if known_mask is None:
            if known_adjacency is not None:
                raise ValueError(f"known_adjacency was given without {name}; expected a boolean {name} with it.")
            return cls.nothing(n_nodes)
        if not isinstance(known_mask, cls):
            return cls._from_raw(known_mask, known_adjacency, n_nodes, name, reference)
        if known_adjacency is not None:
            raise ValueError(f"known_adjacency was given, but {name} is a KnownEdges and holds the values.")
        if known_mask.n_nodes != n_nodes:
            raise ValueError(
                f"{name} is a KnownEdges of {known_mask.n_nodes} nodes but {reference} has {n_nodes} nodes."
            )
        return known_mask

    @classmethod
    def _from_raw(cls, known_mask: Any, known_adjacency: Any, n_nodes: int, name: str, reference: str) -> KnownEdges:
        mask = _sized_array(known_mask, n_nodes, name, reference)
        is_boolean = _is_boolean(known_mask)
        if known_adjacency is None:
            if is_boolean:
                raise ValueError(
                    f"{name} is boolean, which says where pairs are known but not what they are; expected "
                    f"known_adjacency with it, or an array with 0, 1 and nan."
                )
            return cls.from_array(mask)
        if not is_boolean:
            raise ValueError(f"known_adjacency goes with a boolean {name} (True = known); this one is not boolean.")
        return cls(mask == 1, _sized_array(known_adjacency, n_nodes, "known_adjacency", reference))

    @property
    def n_nodes(self) -> int:
        """The number of nodes."""
        return int(self.mask.shape[0])

    @property
    def n_unknown(self) -> int:
        """How many pairs are unknown."""
        return len(self.unknown_pairs()[0])

    def unknown_pairs(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
        """Rows and columns (row < column) of the unknown pairs."""
        rows, columns = np.nonzero(np.triu(~self.mask, 1))
        return rows, columns

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
        rows, columns = self.unknown_pairs()
        if values.ndim and values.shape[-1] != len(rows):
            raise ValueError(f"pairs has shape {values.shape}; expected (..., {len(rows)}), one per unknown pair.")
        filled = np.broadcast_to(self.values, (*values.shape[:-1], self.n_nodes, self.n_nodes)).copy()
        filled[..., rows, columns] = values
        filled[..., columns, rows] = values
        return filled

    def __repr__(self) -> str:
        n_pairs = self.n_nodes * (self.n_nodes - 1) // 2
        return f"KnownEdges(n_nodes={self.n_nodes}, known={n_pairs - self.n_unknown} of {n_pairs} pairs)"


def _sized_array(raw: Any, n_nodes: int, name: str, reference: str) -> FloatArray:
    array = as_float_array(raw, name)
    if array.shape != (n_nodes, n_nodes):
        raise ValueError(
            f"{name} has shape {array.shape} but {reference} has {n_nodes} nodes, so it should be "
            f"({n_nodes}, {n_nodes}). {_SLICED_HINT}"
        )
    return array


def _is_boolean(array: Any) -> bool:
    # Sparse matrices have a dtype but become arrays of objects in numpy's hands; nested lists have none.
    return getattr(array, "dtype", np.asarray(array).dtype) == np.dtype(bool)


def _frozen(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    array = array.copy()
    array.flags.writeable = False
    return array
