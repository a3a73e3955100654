"""Identifiers for short runs, and fixtures that hand them to tests one by one."""

from __future__ import annotations

import pytest
from sklearn.base import clone

from sklearn_graphid import (
    GraphicalLassoIdentifier,
    RidgeSystemIdentifier,
    RobustFilterIdentifier,
    SmoothSignalIdentifier,
)

COMPETITORS = {
    "ridge": RidgeSystemIdentifier("heat"),
    "robust": RobustFilterIdentifier("heat", max_iter=4),
    "graphical-lasso": GraphicalLassoIdentifier("heat"),
    "smooth": SmoothSignalIdentifier("heat"),
}


def each_of(identifiers, names=None):
    """A fixture with a fresh copy of each of the identifiers, or of those that are named."""

    @pytest.fixture(params=list(identifiers if names is None else names))
    def fresh(request):
        return clone(identifiers[request.param])

    return fresh
