"""Display of the information expected from an input at each node, to choose which node to drive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._utils._numbers import check_flag, check_integer, check_number
from ._base import (
    BLUE,
    LITERAL,
    Display,
    check_array,
    check_mapping,
    check_names,
    drawable,
    fitted_attributes,
    panels_on,
)
from ._graph import GraphDisplay

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["InformationDisplay"]


@dataclass(kw_only=True, eq=False, repr=False)
class InformationDisplay(Display):
    """Information expected from driving each node alone, as bars and as colours of the nodes of the graph.

    Parameters
    ----------
    information : array-like of shape (n_nodes,)
        Expected information of an input at each node alone, in nats, 0 or more.
    graph : GraphDisplay, default=None
        The graph to draw beside the bars.
    node_names : sequence, default=None
        Names of the nodes. If None, their indices.

    Attributes
    ----------
    ax_ : ndarray of matplotlib Axes of shape (2,) or (1,)
        Axes with the bars and, if there is one, with the graph.
    figure_ : matplotlib Figure
        Figure containing the axes.
    bars_ : BarContainer
        One bar for each listed node, the most informative on top.
    graph_ : GraphDisplay or None
        The display of the graph.

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")  # draws into memory; leave it out to see the picture
    >>> from sklearn_graphid.plotting import InformationDisplay
    >>> display = InformationDisplay(information=[0.2, 1.3, 0.7], node_names=["a", "b", "c"]).plot()
    >>> [label.get_text() for label in display.ax_[0].get_yticklabels()]
    ['b', 'c', 'a']
    """

    information: Any
    graph: GraphDisplay | None = None
    node_names: Any = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, amplitude: float = 1.0, observed: Any = None, **plot_options: Any
    ) -> Self:
        """Draw the information that an identifier expects from inputs at single nodes.

        Parameters
        ----------
        estimator : fitted identifier
            An identifier with draws from a posterior, such as `LangevinSystemIdentifier`.
        amplitude : float, default=1.0
            The input at the driven node, in the units of X; the inputs of all other nodes are zero.
        observed : list or None, default=None
            Nodes at which outputs will be measured, as in `suggest_inputs`.
        **plot_options
            Arguments of `plot`, such as `ax`.
        """
        fitted_attributes(cls, estimator, "theta_samples_")  # those that draw from a posterior have them
        if check_number(amplitude, "amplitude") == 0:
            raise ValueError(f"amplitude={amplitude!r}; expected a number other than 0.")
        information = estimator._information_by_node(float(amplitude), observed)
        graph = GraphDisplay._found_by(estimator)
        return cls(information=information, graph=graph, node_names=graph.node_names).plot(**plot_options)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.information = check_array(self.information, "information", ("n_nodes",))
        if self.information.min() < 0:
            raise ValueError(f"information holds {self.information.min()}; expected finite numbers of 0 or more.")

    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        max_bars: int = 30,
        show_graph: bool = True,
        graph_options: dict[str, Any] | None = None,
    ) -> Self:
        """Draw the bars and the graph.

        Parameters
        ----------
        ax : matplotlib Axes or sequence of these, default=None
            One Axes to divide into panels, or one for the bars and one for the graph. If None, a new figure is created.
        max_bars : int, default=30
            The largest number of nodes to list; the most informative ones are kept.
        show_graph : bool, default=True
            Whether to draw the graph too, if there is one.
        graph_options : dict, default=None
            Arguments of `GraphDisplay.plot`, such as `pos` or `node_labels`.
        """
        from matplotlib import colormaps
        from matplotlib.colors import to_rgba

        check_flag(show_graph, "show_graph")
        options = {} if graph_options is None else graph_options
        check_mapping(options, "graph_options", "a dict, or None")
        n_nodes = len(self.information)
        shown = np.argsort(-self.information, kind="stable")[: check_integer(max_bars, "max_bars", low=1)]
        names = check_names(self.node_names, n_nodes)
        graph = self.graph if show_graph else None
        height = min(9.0, max(3.6, 0.24 * len(shown) + 1.0))
        self.ax_, self.figure_ = panels_on(ax, 1 if graph is None else 2, (4.6, height))
        # Dark where there is much, and readable without colour; one colour where all nodes are equal.
        colours = np.tile(to_rgba(BLUE), (n_nodes, 1))
        if (span := np.ptp(self.information)) > 0:
            colours = colormaps["viridis_r"]((self.information - self.information.min()) / span)
        bars = self.ax_[0]
        self.bars_ = bars.barh(np.arange(len(shown)), self.information[shown], color=colours[shown])
        bars.set_yticks(np.arange(len(shown)), [drawable(names[node]) for node in shown], **LITERAL)
        bars.invert_yaxis()
        bars.set_xlabel("information of an input there, in nats")
        bars.set_ylabel("node" if len(shown) == n_nodes else f"node ({len(shown)} of {n_nodes})")
        self.graph_ = None
        if graph is not None:
            self.graph_ = graph.plot(self.ax_[1], **{"legend": False, "node_size": 90.0, **options})
            self.graph_.nodes_.set(facecolor=colours, edgecolor="black")
        return self
