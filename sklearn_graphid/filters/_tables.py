"""Compiled tables of what a change of one pair does to the fit, for the filters of this package.

Three families of filters have tables that give the moments of a changed graph from a few numbers of its two nodes, and
that are brought up to date when a change is made:

- polynomials of order two at most. The change adds E to the transposed shift B, with entries M at the crossing of two
  rows and two columns U. With signals X and their shifts P1 = X B and P2 = X B^2 it adds F U' to P1 and H U' + F B_U to
  P2, where F = X_U M, H = (P1_U + F) M, X_U are the columns of X at the two nodes and B_U the rows of B. So every
  product of two of them is made of columns at the two nodes: of X, the targets, P1 and P2, and of the same times B';
- inverses R of a matrix that a change adds U C V' to, with one or two columns: R turns into R - R U W V'R where
  W = (C^-1 + V'R U)^-1 (Sherman, Morrison and Woodbury). Moments of Z = R X need Z, R'D Z, R'D Y and R'D R at the two
  nodes, where the diagonal D says how much the square of a node's residual counts;
- sums of resolvents, which give exponentials: exp(-x) is, for all x >= 0 and to within 3e-8, the real part of a sum of
  four terms w / (x + z): the best rational approximation of degree eight, as the method of Caratheodory and Fejer finds
  it (Trefethen, Weideman and Schmelzer, BIT 46, 2006). Each resolvent changes by Sherman and Morrison.

All three are held in one form, so that the loops of the samplers compile once.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from numba import njit
from numba.core import event
from torch import Tensor

from .._utils._numbers import FloatArray
from ._edge_changes import DenseDerivatives, EdgeChanges, EdgeDerivatives, Moments, RankOneDerivatives

__all__ = ["COMPILED", "InverseChanges", "TableChanges", "Tables", "Workspace", "after", "make", "workspace"]

# Sums may be taken in any order, so that processors take several terms at once; nan and infinity keep their meaning.
COMPILED: dict[str, Any] = {
    "cache": True,
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz", "arcp"},
    "nogil": True,
}
POLYNOMIAL, INVERSE, RESOLVENTS = range(3)
# Places among the vectors that are kept of every node: for polynomials, with as many more that are these times B' ...
SIGNALS, TARGETS, ONCE, TWICE = range(4)
BACK = 4
# ... and for inverses.
POTENTIALS, POTENTIALS_BACK, TARGETS_BACK = range(3)
HEAT_POLES = np.array(
    [
        3.2209452451180125 + 1.1936196054221206j,
        2.292249147887982 + 3.600771496085447j,
        0.2694909874430078 + 6.082032592715811j,
        -3.4085395013620245 + 8.77303456442925j,
    ]
)
HEAT_WEIGHTS = np.array(
    [
        3.6635434214753567 + 19.051216261145864j,
        -4.872481466138163 - 7.433511282253848j,
        1.2651761075491392 + 0.8878462054808117j,
        -0.05625951432850368 - 0.023154769140942486j,
    ]
)
_N_POLES = len(HEAT_POLES)


class Tables(NamedTuple):
    """Tables of all chains. Which arrays a family needs, and what they hold, differs; the others are empty."""

    family: int
    left_differs: bool  # the left factor of a change is e_i - e_j, and not e_i; of a polynomial: it is of the Laplacian
    right_differs: bool  # the right factor is e_i - e_j, and not e_j
    directed: bool  # a change is of the entry (i, j) alone
    factor: FloatArray  # (chains,) that changes of entries are multiplied by
    smallest: float  # determinant, relative to that before the change, at which what is left has no inverse
    matrix: FloatArray  # (chains, nodes, nodes) B or R
    product: FloatArray  # (chains, nodes, nodes) B B' or R'D R
    vectors: (
        FloatArray  # (chains, nodes, n, experiments); of resolvents (chains, nodes, 2 x poles, nodes + 2 experiments)
    )


class Workspace(NamedTuple):
    """Scratch of one chain."""

    change: FloatArray  # (2, 2): M, or W
    first: FloatArray  # (2, experiments): F, or W V'Z
    second: FloatArray  # (2, experiments): H
    local: FloatArray  # (8, experiments)
    rows: FloatArray  # (6, nodes)
    wide: FloatArray  # (2 x poles, nodes + 2 experiments): differences of the resolvents' tables
    poles: FloatArray  # (poles, 2) factors, complex
    added: FloatArray  # (experiments, nodes) to the outputs


@njit(**COMPILED)
def workspace(tables: Tables) -> Workspace:
    """Make scratch that fits tables."""
    n, k = tables.vectors.shape[1], tables.vectors.shape[3]
    if tables.family == RESOLVENTS:
        width, k = k, (k - n) // 2
        wide, added = np.empty((2 * _N_POLES, width)), np.empty((k, n))
    else:
        wide, added = np.empty((0, 0)), np.empty((0, 0))
    return Workspace(
        np.zeros((2, 2)),
        np.zeros((2, k)),
        np.zeros((2, k)),
        np.zeros((8, k)),
        np.zeros((6, n)),
        wide,
        np.zeros((_N_POLES, 2)),
        added,
    )


@njit(**COMPILED)
def after(tables, chain, i, j, amount, work, squares, cross, gram, new_cross, new_gram):
    """Fill in the moments after a change of the pair (i, j), and return the sum of squares; nan where it has none."""
    if tables.family == POLYNOMIAL:
        _polynomial_after(tables, chain, i, j, amount, work, cross, gram, new_cross, new_gram)
        return squares
    if tables.family == INVERSE:
        factor = _inverse_change(tables, chain, i, j, amount, work)
        _inverse_after(tables, chain, i, j, work, cross, gram, new_cross, new_gram)
        return squares + 0.0 * factor
    return _resolvents_after(tables, chain, i, j, amount, work, squares)


@njit(**COMPILED)
def make(tables, chain, i, j, amount, work):
    """Change the pair (i, j), and bring the tables up to date."""
    if tables.family == POLYNOMIAL:
        _polynomial_make(tables, chain, i, j, amount, work)
    elif tables.family == INVERSE:
        _inverse_change(tables, chain, i, j, amount, work)
        _inverse_make(tables, chain, i, j, work)
    else:
        _resolvents_change(tables, chain, i, j, amount, work)
        _resolvents_make(tables, chain, work)


@njit(inline="always", **COMPILED)
def _dot(a, b, n):
    total = 0.0
    for place in range(n):
        total += a[place] * b[place]
    return total


# Polynomials.


@njit(**COMPILED)
def _polynomial_local(tables, chain, i, j, amount, work, has_second):
    """M, F and H."""
    vectors, change, first, second = tables.vectors[chain], work.change, work.first, work.second
    entry = -amount if tables.left_differs else amount
    change[1, 0] = entry
    change[0, 1] = 0.0 if tables.directed else entry
    change[0, 0] = amount if tables.left_differs else 0.0
    change[1, 1] = amount if tables.left_differs and not tables.directed else 0.0
    a, b, c, d = change[0, 0], change[1, 0], change[0, 1], change[1, 1]
    x_i, x_j, once_i, once_j = vectors[i, SIGNALS], vectors[j, SIGNALS], vectors[i, ONCE], vectors[j, ONCE]
    for e in range(first.shape[1]):
        first[0, e], first[1, e] = a * x_i[e] + b * x_j[e], c * x_i[e] + d * x_j[e]
    if has_second:
        for e in range(first.shape[1]):
            at_i, at_j = once_i[e] + first[0, e], once_j[e] + first[1, e]
            second[0, e], second[1, e] = a * at_i + b * at_j, c * at_i + d * at_j


@njit(**COMPILED)
def _polynomial_after(tables, chain, i, j, amount, work, cross, gram, new_cross, new_gram):
    vectors, k, p = tables.vectors[chain], work.first.shape[1], cross.shape[0]
    _polynomial_local(tables, chain, i, j, amount, work, p > 2)
    f0, f1, v_i, v_j = work.first[0], work.first[1], vectors[i], vectors[j]
    new_cross[0], new_gram[0, 0] = cross[0], gram[0, 0]
    if p < 2:
        return
    f00, f11 = _dot(f0, f0, k), _dot(f1, f1, k)
    with_once = _dot(f0, v_i[ONCE], k) + _dot(f1, v_j[ONCE], k)
    new_cross[1] = cross[1] + _dot(f0, v_i[TARGETS], k) + _dot(f1, v_j[TARGETS], k)
    new_gram[0, 1] = gram[0, 1] + _dot(f0, v_i[SIGNALS], k) + _dot(f1, v_j[SIGNALS], k)
    new_gram[1, 0] = new_gram[0, 1]
    new_gram[1, 1] = gram[1, 1] + 2 * with_once + f00 + f11
    if p < 3:
        return
    shift, products, h0, h1 = tables.matrix[chain], tables.product[chain], work.second[0], work.second[1]
    f01 = _dot(f0, f1, k)
    s00, s01, s10, s11 = _dot(f0, h0, k), _dot(f0, h1, k), _dot(f1, h0, k), _dot(f1, h1, k)
    b00, b01, b10, b11 = shift[i, i], shift[i, j], shift[j, i], shift[j, j]
    first_first = b00 * f00 + (b01 + b10) * f01 + b11 * f11
    first_second = b00 * s00 + b01 * s01 + b10 * s10 + b11 * s11
    product_first = products[i, i] * f00 + 2 * products[i, j] * f01 + products[j, j] * f11
    new_cross[2] = cross[2] + _dot(h0, v_i[TARGETS], k) + _dot(h1, v_j[TARGETS], k)
    new_cross[2] += _dot(f0, v_i[BACK + TARGETS], k) + _dot(f1, v_j[BACK + TARGETS], k)
    new_gram[0, 2] = gram[0, 2] + _dot(h0, v_i[SIGNALS], k) + _dot(h1, v_j[SIGNALS], k)
    new_gram[0, 2] += _dot(f0, v_i[BACK + SIGNALS], k) + _dot(f1, v_j[BACK + SIGNALS], k)
    new_gram[2, 0] = new_gram[0, 2]
    new_gram[1, 2] = gram[1, 2] + _dot(h0, v_i[ONCE], k) + _dot(h1, v_j[ONCE], k)
    new_gram[1, 2] += _dot(f0, v_i[BACK + ONCE], k) + _dot(f1, v_j[BACK + ONCE], k)
    new_gram[1, 2] += _dot(f0, v_i[TWICE], k) + _dot(f1, v_j[TWICE], k) + s00 + s11 + first_first
    new_gram[2, 1] = new_gram[1, 2]
    with_twice = _dot(h0, v_i[TWICE], k) + _dot(h1, v_j[TWICE], k)
    with_twice += _dot(f0, v_i[BACK + TWICE], k) + _dot(f1, v_j[BACK + TWICE], k)
    new_gram[2, 2] = gram[2, 2] + 2 * with_twice + _dot(h0, h0, k) + _dot(h1, h1, k) + 2 * first_second + product_first


@njit(**COMPILED)
def _polynomial_make(tables, chain, i, j, amount, work):
    shift, products, vectors, m = tables.matrix[chain], tables.product[chain], tables.vectors[chain], work.change
    n_vectors, k = vectors.shape[1:]
    has_second = n_vectors > BACK
    _polynomial_local(tables, chain, i, j, amount, work, has_second)
    first, second = work.first, work.second
    if has_second:
        _polynomial_make_second(shift, products, vectors, i, j, work)
    for u, row in enumerate((i, j)):
        for v, column in enumerate((i, j)):
            shift[row, column] += m[u, v]
        for e in range(k):
            vectors[row, ONCE, e] += first[u, e]
    if has_second:
        for u, row in enumerate((i, j)):
            for e in range(k):
                vectors[row, TWICE, e] += second[u, e]
            for t in range(BACK):
                for e in range(k):
                    vectors[row, BACK + t, e] += m[u, 0] * work.local[t, e] + m[u, 1] * work.local[BACK + t, e]


@njit(**COMPILED)
def _polynomial_make_second(shift, products, vectors, i, j, work):
    """Update B B', P2 and to the vectors times B', but for the two nodes' own share."""
    m, first, second = work.change, work.first, work.second
    n, _, k = vectors.shape
    row_i, row_j, column_i, column_j, product_i, product_j = work.rows
    for t in range(BACK):
        work.local[t], work.local[BACK + t] = vectors[i, t], vectors[j, t]
    for v in range(n):
        row_i[v], row_j[v], column_i[v], column_j[v] = shift[i, v], shift[j, v], shift[v, i], shift[v, j]
        product_i[v], product_j[v] = products[i, v], products[j, v]
    # B_U times the changed B'.
    product_i[i] += shift[i, i] * m[0, 0] + shift[i, j] * m[0, 1]
    product_i[j] += shift[i, i] * m[1, 0] + shift[i, j] * m[1, 1]
    product_j[i] += shift[j, i] * m[0, 0] + shift[j, j] * m[0, 1]
    product_j[j] += shift[j, i] * m[1, 0] + shift[j, j] * m[1, 1]
    # B B' + E B' + B E' + E E'
    for v in range(n):
        if column_i[v] != 0 or column_j[v] != 0:
            a, b = m[0, 0] * column_i[v] + m[0, 1] * column_j[v], m[1, 0] * column_i[v] + m[1, 1] * column_j[v]
            products[i, v] += a
            products[v, i] += a
            products[j, v] += b
            products[v, j] += b
    both = m[0, 0] * m[1, 0] + m[0, 1] * m[1, 1]
    products[i, i] += m[0, 0] ** 2 + m[0, 1] ** 2
    products[j, j] += m[1, 0] ** 2 + m[1, 1] ** 2
    products[i, j] += both
    products[j, i] += both
    # The columns of the changed B.
    column_i[i] += m[0, 0]
    column_i[j] += m[1, 0]
    column_j[i] += m[0, 1]
    column_j[j] += m[1, 1]
    for v in range(n):
        r_i, r_j, c_i, c_j, p_i, p_j = row_i[v], row_j[v], column_i[v], column_j[v], product_i[v], product_j[v]
        if r_i == 0 and r_j == 0 and c_i == 0 and c_j == 0 and p_i == 0 and p_j == 0:
            continue
        twice, back_once, back_twice = vectors[v, TWICE], vectors[v, BACK + ONCE], vectors[v, BACK + TWICE]
        for e in range(k):
            f0, f1 = first[0, e], first[1, e]
            twice[e] += r_i * f0 + r_j * f1
            back_once[e] += c_i * f0 + c_j * f1
            back_twice[e] += c_i * second[0, e] + c_j * second[1, e] + p_i * f0 + p_j * f1


@njit(**COMPILED)
def polynomial_outputs(tables, rows, columns, amounts, coefficients, outputs):
    """Fill in the changes (chains, changes, experiments, nodes) of the outputs, given the coefficients of P1 and P2."""
    work, n = workspace(tables), tables.vectors.shape[1]
    first, second = work.first, work.second
    for chain in range(rows.shape[0]):
        once, twice, shift = coefficients[chain, 0], coefficients[chain, 1], tables.matrix[chain]
        for place in range(rows.shape[1]):
            i, j, added = rows[chain, place], columns[chain, place], outputs[chain, place]
            _polynomial_local(tables, chain, i, j, amounts[chain, place], work, twice != 0)
            for e in range(first.shape[1]):
                f0, f1 = twice * first[0, e], twice * first[1, e]
                for v in range(n):
                    added[e, v] = f0 * shift[i, v] + f1 * shift[j, v]
                added[e, i] += once * first[0, e]
                added[e, j] += once * first[1, e]
                if twice != 0:
                    added[e, i] += twice * second[0, e]
                    added[e, j] += twice * second[1, e]


# Inverses. A change has one column or two: two are e_i, e_j on the left and e_j, e_i on the right.


@njit(inline="always", **COMPILED)
def _n_columns(tables):
    return 1 if tables.directed or tables.left_differs else 2


@njit(**COMPILED)
def _inverse_change(tables, chain, i, j, amount, work):
    """W and W V'Z; returns nan where the changed matrix has no inverse, and they are nan then."""
    r, vectors, w, first = tables.matrix[chain], tables.vectors[chain], work.change, work.first
    c = tables.factor[chain] * amount
    z_i, z_j = vectors[i, POTENTIALS], vectors[j, POTENTIALS]
    w[0, 0], w[0, 1], w[1, 0], w[1, 1] = 0.0, 0.0, 0.0, 0.0
    if _n_columns(tables) == 2:
        a, b, d, e = 1 + c * r[j, i], c * r[j, j], c * r[i, i], 1 + c * r[i, j]
        determinant = a * e - b * d
        if not abs(determinant) > tables.smallest:
            determinant = np.nan
        scale = c / determinant
        w[0, 0], w[0, 1], w[1, 0], w[1, 1] = scale * e, -scale * b, -scale * d, scale * a
        for k in range(first.shape[1]):
            first[0, k], first[1, k] = w[0, 0] * z_j[k] + w[0, 1] * z_i[k], w[1, 0] * z_j[k] + w[1, 1] * z_i[k]
        return scale
    across = r[i, i] - r[j, i] if tables.right_differs else r[j, i]
    if tables.left_differs:
        across -= r[i, j] - r[j, j]
    determinant = 1 + c * across
    # Of a Laplacian it is never below zero, but for rounding.
    if not (determinant if tables.right_differs else abs(determinant)) > tables.smallest:
        determinant = np.nan
    w[0, 0] = c / determinant
    for k in range(first.shape[1]):
        first[0, k] = w[0, 0] * (z_i[k] - z_j[k] if tables.right_differs else z_j[k])
    return w[0, 0]


@njit(**COMPILED)
def _inverse_after(tables, chain, i, j, work, cross, gram, new_cross, new_gram):
    s, vectors, first, k = tables.product[chain], tables.vectors[chain], work.first, work.first.shape[1]
    back_i, back_j = vectors[i, POTENTIALS_BACK], vectors[j, POTENTIALS_BACK]
    target_i, target_j = vectors[i, TARGETS_BACK], vectors[j, TARGETS_BACK]
    f, g = first[0], first[1]
    back, target, length = _dot(f, back_i, k), _dot(f, target_i, k), _dot(f, f, k)
    if _n_columns(tables) == 2:
        back, target = back + _dot(g, back_j, k), target + _dot(g, target_j, k)
        length = length * s[i, i] + 2 * _dot(f, g, k) * s[i, j] + _dot(g, g, k) * s[j, j]
    elif tables.left_differs:
        back, target = back - _dot(f, back_j, k), target - _dot(f, target_j, k)
        length *= s[i, i] + s[j, j] - 2 * s[i, j]
    else:
        length *= s[i, i]
    new_cross[0], new_gram[0, 0] = cross[0] - target, gram[0, 0] - 2 * back + length


@njit(**COMPILED)
def _inverse_make(tables, chain, i, j, work):
    r, s, vectors, w = tables.matrix[chain], tables.product[chain], tables.vectors[chain], work.change
    n, k, is_double = len(r), work.first.shape[1], _n_columns(tables) == 2
    left_0, left_1, half_0, half_1, right_0, right_1 = work.rows  # of R U W, R'D R U W and V'R
    for v in range(n):
        if is_double:
            p0, p1, q0, q1, right_0[v], right_1[v] = r[v, i], r[v, j], s[v, i], s[v, j], r[j, v], r[i, v]
        else:
            p0 = r[v, i] - r[v, j] if tables.left_differs else r[v, i]
            q0 = s[v, i] - s[v, j] if tables.left_differs else s[v, i]
            right_0[v] = r[i, v] - r[j, v] if tables.right_differs else r[j, v]
            p1, q1, right_1[v] = 0.0, 0.0, 0.0
        left_0[v], left_1[v] = p0 * w[0, 0] + p1 * w[1, 0], p0 * w[0, 1] + p1 * w[1, 1]
        half_0[v], half_1[v] = q0 * w[0, 0] + q1 * w[1, 0], q0 * w[0, 1] + q1 * w[1, 1]
    # W'U'R'D R U W
    u_0, u_1 = half_0[i], half_1[i]
    if is_double:
        inner_00, inner_01 = w[0, 0] * u_0 + w[1, 0] * half_0[j], w[0, 0] * u_1 + w[1, 0] * half_1[j]
        inner_11 = w[0, 1] * u_1 + w[1, 1] * half_1[j]
    else:
        inner_00 = w[0, 0] * (u_0 - half_0[j] if tables.left_differs else u_0)
        inner_01 = inner_11 = 0.0
    # Half of V'R (W'U'R'D R U W) R'V is taken off on either side.
    for v in range(n):
        half_0[v] -= 0.5 * (inner_00 * right_0[v] + inner_01 * right_1[v])
        half_1[v] -= 0.5 * (inner_01 * right_0[v] + inner_11 * right_1[v])
    drops, back, target = work.local[:2], work.local[2:4], work.local[4:6]  # V'Z, W'U'R'D Z, W'U'R'D Y
    for e in range(k):
        z_i, z_j = vectors[i, POTENTIALS, e], vectors[j, POTENTIALS, e]
        b_i, b_j = vectors[i, POTENTIALS_BACK, e], vectors[j, POTENTIALS_BACK, e]
        t_i, t_j = vectors[i, TARGETS_BACK, e], vectors[j, TARGETS_BACK, e]
        if is_double:
            drops[0, e], drops[1, e] = z_j, z_i
            back[0, e], back[1, e] = w[0, 0] * b_i + w[1, 0] * b_j, w[0, 1] * b_i + w[1, 1] * b_j
            target[0, e], target[1, e] = w[0, 0] * t_i + w[1, 0] * t_j, w[0, 1] * t_i + w[1, 1] * t_j
        else:
            drops[0, e], drops[1, e] = z_i - z_j if tables.right_differs else z_j, 0.0
            back[0, e], back[1, e] = w[0, 0] * (b_i - b_j if tables.left_differs else b_i), 0.0
            target[0, e], target[1, e] = w[0, 0] * (t_i - t_j if tables.left_differs else t_i), 0.0
    for e in range(k):  # the other half
        back[0, e] -= 0.5 * (inner_00 * drops[0, e] + inner_01 * drops[1, e])
        back[1, e] -= 0.5 * (inner_01 * drops[0, e] + inner_11 * drops[1, e])
    for v in range(n):
        a, b, c, d, x, y = left_0[v], left_1[v], half_0[v], half_1[v], right_0[v], right_1[v]
        potentials, backs, targets = vectors[v, POTENTIALS], vectors[v, POTENTIALS_BACK], vectors[v, TARGETS_BACK]
        for e in range(k):
            potentials[e] -= a * drops[0, e] + b * drops[1, e]
            backs[e] -= x * back[0, e] + y * back[1, e] + c * drops[0, e] + d * drops[1, e]
            targets[e] -= x * target[0, e] + y * target[1, e]
        row, square = r[v], s[v]
        for u in range(n):
            row[u] -= a * right_0[u] + b * right_1[u]
            square[u] -= c * right_0[u] + d * right_1[u] + x * half_0[u] + y * half_1[u]


# Sums of resolvents: heat on undirected graphs.


@njit(**COMPILED)
def _resolvents_change(tables, chain, i, j, amount, work):
    """Differences of the table at the two nodes, the factors of Sherman and Morrison, and what signals become."""
    table, n, k, wide = tables.vectors[chain], tables.vectors.shape[1], work.first.shape[1], work.wide
    change = tables.factor[chain] * amount
    for q in range(2 * _N_POLES):
        at_i, at_j, difference = table[i, q], table[j, q], wide[q]
        for v in range(wide.shape[1]):
            difference[v] = at_i[v] - at_j[v]
    for p in range(_N_POLES):
        real, imaginary = wide[p], wide[_N_POLES + p]
        factor = change / (1 + change * complex(real[i] - real[j], imaginary[i] - imaginary[j]))
        work.poles[p, 0], work.poles[p, 1] = factor.real, factor.imag
        scale = HEAT_WEIGHTS[p] * factor
        a, b = scale.real, scale.imag
        for e in range(k):
            work.local[p, e] = -(a * real[n + e] - b * imaginary[n + e])
            work.local[_N_POLES + p, e] = a * imaginary[n + e] + b * real[n + e]


@njit(**COMPILED)
def _resolvents_after(tables, chain, i, j, amount, work, squares):
    n, k = tables.vectors.shape[1], work.first.shape[1]
    _resolvents_change(tables, chain, i, j, amount, work)
    for q in range(2 * _N_POLES):
        left, right = work.local[q], work.wide[q]
        squares -= 2 * _dot(left, right[n + k :], k)
        for s in range(q + 1):
            both = _dot(left, work.local[s], k) * _dot(right, work.wide[s], n)
            squares += both if s == q else 2 * both
    return squares


@njit(**COMPILED)
def _resolvents_make(tables, chain, work):
    table, n, k, wide = tables.vectors[chain], tables.vectors.shape[1], work.first.shape[1], work.wide
    for e in range(k):
        added = work.added[e]
        added[:] = 0.0
        for q in range(2 * _N_POLES):
            left, right = work.local[q, e], wide[q]
            for v in range(n):
                added[v] += left * right[v]
    for v in range(n):
        for p in range(_N_POLES):
            scaled = complex(work.poles[p, 0], work.poles[p, 1]) * complex(wide[p, v], wide[_N_POLES + p, v])
            a, b = scaled.real, scaled.imag
            real, imaginary, of_real, of_imaginary = wide[p], wide[_N_POLES + p], table[v, p], table[v, _N_POLES + p]
            for u in range(wide.shape[1]):
                of_real[u] -= a * real[u] - b * imaginary[u]
                of_imaginary[u] -= a * imaginary[u] + b * real[u]
        for q in range(2 * _N_POLES):
            row = table[v, q]
            for e in range(k):
                row[n + k + e] -= _dot(row, work.added[e], n)


@njit(**COMPILED)
def resolvents_outputs(tables, rows, columns, amounts, outputs):
    """Fill in the changes (chains, changes, experiments, nodes) of the outputs."""
    work, n = workspace(tables), tables.vectors.shape[1]
    for chain in range(rows.shape[0]):
        for place in range(rows.shape[1]):
            i, j, added = rows[chain, place], columns[chain, place], outputs[chain, place]
            _resolvents_change(tables, chain, i, j, amounts[chain, place], work)
            for e in range(added.shape[0]):
                row = added[e]
                row[:] = 0.0
                for q in range(2 * _N_POLES):
                    left, right = work.local[q, e], work.wide[q]
                    for v in range(n):
                        row[v] += left * right[v]


@njit(**COMPILED)
def _all_after(tables, rows, columns, amounts, squares, cross, gram, new_squares, new_cross, new_gram):
    work = workspace(tables)
    for chain in range(rows.shape[0]):
        now = squares[chain], cross[chain], gram[chain]
        for place in range(rows.shape[1]):
            i, j, amount = rows[chain, place], columns[chain, place], amounts[chain, place]
            new = new_cross[chain, place], new_gram[chain, place]
            new_squares[chain, place] = after(tables, chain, i, j, amount, work, *now, *new)


@njit(**COMPILED)
def _make_one_each(tables, rows, columns, amounts, squares, cross, gram):
    work = workspace(tables)
    new_cross, new_gram = np.empty(cross.shape[1:]), np.empty(gram.shape[1:])
    for chain in range(len(rows)):
        i, j, amount = rows[chain], columns[chain], amounts[chain]
        if amount != 0:
            now = squares[chain], cross[chain], gram[chain]
            squares[chain] = after(tables, chain, i, j, amount, work, *now, new_cross, new_gram)
            cross[chain], gram[chain] = new_cross, new_gram
            make(tables, chain, i, j, amount, work)


class _TellOnce(event.Listener):
    """Says what takes so long the first time: the compiled code is kept on disk."""

    def on_start(self, event: Any) -> None:
        is_ours = event.data["dispatcher"].py_func.__module__.startswith(__package__.split(".")[0])
        if is_ours and not self.has_told:
            print("sklearn_graphid compiles its samplers, once; that takes some ten seconds ...", file=sys.stderr)
            self.has_told = True

    def on_end(self, event: Any) -> None:
        pass

    has_told = False


event.register("numba:compile", _TellOnce())


class TableChanges(EdgeChanges):
    """Moments of graphs from compiled tables, see `EdgeChanges`.

    The regressors are those of the first parameters of the filter, which multiply its outputs.
    """

    def __init__(
        self,
        family: int,
        *,
        moments: Moments,
        vectors: Tensor,
        matrix: Tensor | None = None,
        factor: Tensor | None = None,
        left_differs: bool = False,
        right_differs: bool = False,
        directed: bool = False,
        smallest: float = 0.0,
    ):
        n_chains = len(vectors)
        self._settings = family, left_differs, right_differs, directed
        self._smallest, self._device = smallest, vectors.device
        self._factor = np.ones(n_chains) if factor is None else _array(factor)
        self._matrix = np.empty((n_chains, 0, 0)) if matrix is None else _array(matrix)
        self._vectors = _array(vectors)
        self._product: FloatArray | None = None
        # Moments (chains,) of the regression, which changes are made in.
        self.squares, self.cross, self.gram = (_array(part).copy() for part in moments)
        self.n_numbers = 1

    @abstractmethod
    def _products(self) -> FloatArray:
        """Products of the matrices, which not every use of the tables asks for."""

    @property
    def tables(self) -> Tables:
        """The tables, which the compiled loops change in place."""
        if self._product is None:
            self._product = np.ascontiguousarray(self._products())
        return Tables(*self._settings, self._factor, self._smallest, self._matrix, self._product, self._vectors)

    @property
    def moments(self) -> Moments:  # type: ignore[override]
        return Moments(*(self._tensor(part.copy()) for part in (self.squares, self.cross, self.gram)))

    def moments_after(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> Moments:
        shape, p = tuple(amounts.shape), self.cross.shape[1]
        squares, cross, gram = np.empty(shape), np.empty((*shape, p)), np.empty((*shape, p, p))
        change = _array(rows[..., 0]), _array(columns[..., 0]), _array(amounts.double())
        _all_after(self.tables, *change, self.squares, self.cross, self.gram, squares, cross, gram)
        return Moments(*(self._tensor(part) for part in (squares, cross, gram)))

    def make(self, rows: Tensor, columns: Tensor, amounts: Tensor, moments: Moments | None = None) -> None:
        change = _array(rows[..., 0]), _array(columns[..., 0]), _array(amounts.double())
        _make_one_each(self.tables, *change, self.squares, self.cross, self.gram)

    def change(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> None:
        self.make(rows, columns, amounts)

    def copy(self) -> Self:
        _ = self.tables  # products are made once, and not by each copy
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        for name in ("_matrix", "_product", "_vectors", "squares", "cross", "gram"):
            array = getattr(self, name)
            setattr(other, name, None if array is None else array.copy())
        return other

    def take_over(self, other: Self, chains: Tensor) -> None:
        places = _array(chains)
        for name in ("_matrix", "_product", "_vectors", "squares", "cross", "gram"):
            if getattr(self, name) is not None:  # one that has not been asked for yet will be made of the others
                getattr(self, name)[places] = getattr(other, name)[places]

    def _tensor(self, array: FloatArray) -> Tensor:
        return torch.from_numpy(array).to(self._device)


class InverseChanges(TableChanges):
    """Moments of graphs under the inverse of a matrix that is linear in the graph.

    Parameters
    ----------
    inverse : Tensor (chains, nodes, nodes)
        R, in double precision.
    factor : Tensor (chains,)
        The share of a change of the graph by which the matrix changes.
    signals, targets : Tensor (experiments, nodes)
        Inputs, and outputs; the latter may have an axis of chains before these.
    measured : Tensor (nodes,) or None
        What the residuals of each node are multiplied by; None where it is 1.
    **settings
        Of `Tables`.
    """

    def __init__(
        self,
        inverse: Tensor,
        factor: Tensor,
        signals: Tensor,
        targets: Tensor,
        measured: Tensor | None = None,
        **settings: Any,
    ):
        inverse, targets = inverse.double(), targets.double()
        counts = inverse.new_ones(inverse.shape[-1]) if measured is None else measured.double().square()
        potentials = signals.double() @ inverse.mT
        vectors = [potentials, (potentials * counts) @ inverse, ((targets * counts) @ inverse).expand_as(potentials)]
        cross, gram = ((potentials * counts * other).sum((-2, -1)) for other in (targets, potentials))
        squares = (targets.square() * counts).sum((-2, -1)).expand(len(inverse))
        self._counts = _array(counts)
        super().__init__(
            INVERSE,
            moments=Moments(squares, cross[:, None], gram[:, None, None]),
            vectors=torch.stack(vectors, 1).permute(0, 3, 1, 2),
            matrix=inverse,
            factor=factor.double().expand(len(inverse)),
            **settings,
        )

    def output_changes(self, rows: Tensor, columns: Tensor, amounts: Tensor, theta: Tensor) -> Tensor:
        left, drops, weights = self._factors(rows, columns, amounts)
        outputs = -theta[:, :1, None, None].double() * ((weights @ drops).mT @ left)
        return outputs.to(theta.dtype)

    def derivatives(self, rows: Tensor, columns: Tensor, theta: Tensor, probe: Tensor) -> EdgeDerivatives:
        left, drops, _ = self._factors(rows, columns, torch.zeros(rows.shape[:2]))
        scale = -theta[:, :1, None].double() * self._tensor(self._factor)[:, None, None]
        if left.shape[2] == 1:
            return RankOneDerivatives((scale * drops[:, :, 0]).to(theta.dtype), left[:, :, 0].to(theta.dtype))
        return DenseDerivatives((scale[..., None] * (drops.mT @ left)).to(theta.dtype))

    def _factors(self, rows: Tensor, columns: Tensor, amounts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """U'R' (chains, changes, n, nodes), V'Z (chains, changes, n, experiments) and W (.., n, n) of changes."""
        _, left_differs, right_differs, directed = self._settings
        chains, i, j = torch.arange(len(rows))[:, None], rows[..., 0].cpu(), columns[..., 0].cpu()
        inverse, potentials = torch.from_numpy(self._matrix), torch.from_numpy(self._vectors)[:, :, POTENTIALS]
        by_columns, by_rows = inverse.mT, torch.cat([potentials, inverse], 2)  # of R', and of Z beside R
        if left_differs or directed:
            left = (by_columns[chains, i] - by_columns[chains, j] if left_differs else by_columns[chains, i])[
                :, :, None
            ]
            right = (by_rows[chains, i] - by_rows[chains, j] if right_differs else by_rows[chains, j])[:, :, None]
            ends = [(i[..., None], 1.0), (j[..., None], -1.0)] if left_differs else [(i[..., None], 1.0)]
        else:
            left = torch.stack([by_columns[chains, i], by_columns[chains, j]], 2)
            right = torch.stack([by_rows[chains, j], by_rows[chains, i]], 2)
            ends = [(torch.stack([i, j], -1), 1.0)]
        drops, responses = right.split([potentials.shape[2], inverse.shape[2]], 3)
        across = torch.zeros(())
        for end, sign in ends:  # V'R U
            across = across + sign * responses.gather(3, end[:, :, None].expand(*responses.shape[:3], -1))
        change = (torch.from_numpy(self._factor)[:, None] * amounts.double().cpu())[..., None, None]
        identity = torch.eye(left.shape[2], dtype=left.dtype)
        changed = identity + change * across
        determinant = torch.linalg.det(changed)
        has_inverse = (determinant if right_differs else determinant.abs()) > self._smallest
        weights = torch.where(has_inverse[..., None, None], change * torch.linalg.inv_ex(changed).inverse, torch.nan)
        return left.to(self._device), drops.to(self._device), weights.to(self._device)

    def _products(self) -> FloatArray:
        return (self._matrix * self._counts[:, None]).transpose(0, 2, 1) @ self._matrix


def as_arrays(*tensors: Tensor) -> list[Any]:
    """Tensors as arrays that compiled loops take."""
    return [_array(tensor) for tensor in tensors]


def _array(values: Tensor) -> Any:
    return np.ascontiguousarray(values.cpu().numpy())
