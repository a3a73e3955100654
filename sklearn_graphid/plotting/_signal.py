"""A signal on a graph: a value for each node, as a colour."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._utils._numbers import FloatArray
from ._checks import as_numbers

__all__ = ["Signal", "check_signal"]


class Signal(NamedTuple):
    """Values of the nodes, and those at the ends of their scale."""

    values: FloatArray  # (nodes,)
    limits: tuple[float, float]

    def colours(self) -> dict[str, Any]:
        """How a scatter plot shows them."""
        from matplotlib import colormaps

        # Its lightness rises evenly, so that print in grey keeps the order; colour-blind readers see the same.
        look = {"cmap": colormaps["cividis"].with_extremes(bad="white"), "plotnonfinite": True}
        return {"c": self.values, "vmin": self.limits[0], "vmax": self.limits[1], **look}


def check_signal(node_values: Any, value_range: Any, n_nodes: int) -> Signal | None:
    """Values for all nodes, nan where there is none, and their range; None where no values are given."""
    if node_values is None:
        if value_range is not None:
            raise ValueError("value_range is given without node_values; expected both, or neither.")
        return None
    expected = f"numbers of shape ({n_nodes},), one for each node"
    values = as_numbers(node_values, "node_values", expected)
    if values.shape != (n_nodes,):
        raise ValueError(f"node_values has shape {values.shape}; expected {expected}.")
    if np.isinf(values).any() or np.isnan(values).all():
        raise ValueError(
            "node_values holds infinity or nothing but nan; expected finite numbers, and nan where unknown."
        )
    if value_range is None:
        return Signal(values, (float(np.nanmin(values)), float(np.nanmax(values))))
    ends = as_numbers(value_range, "value_range", "two numbers")
    if ends.shape != (2,) or not np.isfinite(ends).all() or ends[0] >= ends[1]:
        raise ValueError(f"value_range={value_range!r}; expected two finite numbers, the smaller first.")
    return Signal(values, (float(ends[0]), float(ends[1])))
