"""Tensors, and named tuples of tensors, whose first axis is that of the chains."""

from __future__ import annotations

from typing import Any, TypeVar

import torch
from torch import Tensor

__all__ = ["replaced", "selected", "where"]

Nested = TypeVar("Nested")  # a tensor, or a named tuple of such


def where(is_first: Tensor, first: Nested, second: Nested) -> Nested:
    """One of two, for each chain."""

    def choose(one: Any, other: Any) -> Any:
        if isinstance(one, Tensor):
            return torch.where(is_first.view(-1, *[1] * (one.dim() - 1)), one, other)
        return type(one)(*map(choose, one, other))

    chosen: Nested = choose(first, second)
    return chosen


def selected(parts: Nested, chains: Tensor) -> Nested:
    """Some of the chains."""

    def select(part: Any) -> Any:
        return part[chains] if isinstance(part, Tensor) else type(part)(*map(select, part))

    chosen: Nested = select(parts)
    return chosen


def replaced(parts: Nested, chains: Tensor, new: Nested) -> Nested:
    """The same, with new values for some of the chains."""

    def replace(part: Any, other: Any) -> Any:
        if isinstance(part, Tensor):
            return part.index_copy(0, chains, other)
        return type(part)(*map(replace, part, other))

    changed: Nested = replace(parts, new)
    return changed
