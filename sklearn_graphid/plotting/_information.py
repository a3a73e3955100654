"""Display of the information expected from an input at each node, to choose which node to drive."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .._utils._numbers import FloatArray
from ._checks import as_numbers, check_flags, check_mapping, check_names, check_number
from ._graph import GraphDisplay
from ._names import LITERAL, drawable
from ._style import BLUE, fitted_attributes, needs_matplotlib, split_axes, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["InformationDisplay"]

_COLORS = "viridis_r"  # dark where there is much, and readable without colour
_MOST_BARS = 30


@dataclass(kw_only=True, eq=False, repr=False)
class InformationDisplay:
    """Information expected from driving each node alone, as bars and as colours of the nodes of the graph.

    Parameters
    ----------
    information : ndarray of shape (n_nodes,)
        Expected information of an input at each node alone, in nats.
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

    See Also
    --------
    GraphDisplay : The graph alone.

    Examples
    --------
    >>> import matplotlib, networkx as nx
    >>> matplotlib.use("Agg")  # draws into memory; leave it out to see the picture
    >>> from sklearn_graphid import LangevinSystemIdentifier
    >>> from sklearn_graphid.datasets import hide_edges, make_system
    >>> from sklearn_graphid.plotting import InformationDisplay
    >>> ring = nx.to_numpy_array(nx.cycle_graph(8))
    >>> X, Y = make_system(ring, "heat", theta=[0.5], n_experiments=2, random_state=0)
    >>> known = hide_edges(ring, fraction=0.5, random_state=0)
    >>> identifier = LangevinSystemIdentifier("heat", random_state=0).fit(X, Y, known)
    >>> display = InformationDisplay.from_estimator(identifier, amplitude=10)
    >>> len(display.bars_), len(display.ax_)
    (8, 2)
    """

    information: FloatArray
    graph: GraphDisplay | None = None
    node_names: Any = None

    @classmethod
    @needs_matplotlib
    def from_estimator(
        cls,
        estimator: Any,
        *,
        amplitude: float = 1.0,
        observed: Any = None,
        ax: Axes | Sequence[Axes] | None = None,
        **plot_options: Any,
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
        ax, **plot_options : as in `plot`
            Passed to `plot`.

        Returns
        -------
        InformationDisplay
            The display.
        """
        # Of the identifiers, those that draw from a posterior have samples of theta.
        _, known = fitted_attributes(cls.__name__, estimator, "theta_samples_", "known_edges_")
        size = check_number(amplitude, "amplitude", "a number other than 0", lambda value: value != 0)
        information = estimator._information_by_node(size, observed)
        graph = GraphDisplay(
            edge_probabilities=estimator.edge_probabilities_,
            adjacency=np.asarray(estimator.adjacency_, dtype=np.float64),
            known=known,
            node_names=known.names,
            weights=getattr(estimator, "weights_", None),
        )
        return cls(information=information, graph=graph, node_names=known.names).plot(ax, **plot_options)

    @classmethod
    @needs_matplotlib
    def from_predictions(
        cls,
        information: Any,
        *,
        node_names: Any = None,
        ax: Axes | Sequence[Axes] | None = None,
        **plot_options: Any,
    ) -> Self:
        """Draw bars of given numbers.

        Parameters
        ----------
        information : array-like of shape (n_nodes,)
            Expected information of an input at each node, 0 or more.
        node_names : sequence, default=None
            Names of the nodes.
        ax, **plot_options : as in `plot`
            Passed to `plot`.

        Returns
        -------
        InformationDisplay
            The display, without a graph.
        """
        values = as_numbers(information, "information", "numbers of shape (n_nodes,)")
        if values.ndim != 1 or not values.size:
            raise ValueError(f"information has shape {values.shape}; expected (n_nodes,), one number for each node.")
        if not (np.isfinite(values) & (values >= 0)).all():
            odd = values[~(np.isfinite(values) & (values >= 0))][0]
            raise ValueError(f"information holds {odd}; expected finite numbers of 0 or more.")
        return cls(information=values, node_names=node_names).plot(ax, **plot_options)

    @needs_matplotlib
    def plot(
        self,
        ax: Axes | Sequence[Axes] | None = None,
        *,
        max_bars: int = _MOST_BARS,
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

        Returns
        -------
        InformationDisplay
            The display itself.
        """
        check_flags(show_graph=show_graph)
        if graph_options is not None:
            check_mapping(graph_options, "graph_options", "a dict, or None")
        check_number(max_bars, "max_bars", "an integer of at least 1", lambda n: n >= 1 and n == int(n))
        n_nodes = len(self.information)
        numbers = range(n_nodes)
        names = check_names(numbers if self.node_names is None else self.node_names, n_nodes, "node_names", "node")
        has_graph = show_graph and self.graph is not None
        shown = np.argsort(-self.information, kind="stable")[: int(max_bars)]
        height = min(9.0, max(3.6, 0.24 * len(shown) + 1.0))
        self.ax_, self.figure_ = split_axes(ax, 1 + has_graph, stacked=False, panel_size=(4.6, height))
        labels = [drawable(names[node]) for node in shown]
        self._draw_bars(self.ax_[0], shown, labels)
        self.graph_ = None
        if show_graph and self.graph is not None:
            self.graph_ = self._draw_graph(self.graph, self.ax_[1], graph_options or {})
        return self

    def _draw_bars(self, panel: Axes, shown: Any, labels: list[str]) -> None:
        self.bars_ = panel.barh(np.arange(len(shown)), self.information[shown], color=self._colors()[shown])
        panel.set_yticks(np.arange(len(shown)), labels, **LITERAL)
        panel.invert_yaxis()
        panel.set_xlabel("information of an input there, in nats")
        n_nodes = len(self.information)
        panel.set_ylabel("node" if len(shown) == n_nodes else f"node ({len(shown)} of {n_nodes})")
        tidy(panel)

    def _draw_graph(self, graph: GraphDisplay, panel: Axes, options: dict[str, Any]) -> GraphDisplay:
        drawn = graph.plot(panel, **{"legend": False, "node_size": 90.0, **options})
        drawn.nodes_.set_facecolor(self._colors())
        drawn.nodes_.set_edgecolor("black")
        return drawn

    def _colors(self) -> Any:
        """A colour for each node; one alone where all tell the same."""
        from matplotlib import colormaps
        from matplotlib.colors import to_rgba

        span = np.ptp(self.information)
        if span == 0:
            return np.tile(to_rgba(BLUE), (len(self.information), 1))
        return colormaps[_COLORS]((self.information - self.information.min()) / span)
