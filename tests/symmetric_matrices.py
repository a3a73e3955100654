"""Symmetric matrices, for tests of what works on them."""

from __future__ import annotations

import numpy as np


def symmetric(seed, n_nodes, low=0.0, high=1.0):
    """A random symmetric matrix with a zero diagonal."""
    upper = np.triu(np.random.default_rng(seed).uniform(low, high, (n_nodes, n_nodes)), 1)
    return upper + upper.T


def symmetric_basis(n_nodes):
    """Matrices that all symmetric ones are sums of."""
    basis = []
    for i in range(n_nodes):
        for j in range(i, n_nodes):
            matrix = np.zeros((n_nodes, n_nodes))
            matrix[i, j] = matrix[j, i] = 1.0
            basis.append(matrix)
    return basis
