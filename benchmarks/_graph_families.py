"""Families of random graphs, each from sparse to dense and from strict to loose, and their mixture.

The prior "general" was trained on the mixture, so that it recognises the kind of a graph from its known part. A family
is a function `(n_nodes, random) -> adjacency`. It draws its own parameters, so that no two graphs are alike, and
returns a 0/1 matrix of at most `n_nodes` nodes: what is built of rows, cells or groups of one size may be smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import networkx as nx
import numpy as np
from scipy.spatial import Delaunay
from scipy.spatial.distance import cdist

from sklearn_graphid.datasets._grids import add_edges

FloatArray = np.ndarray

Random = np.random.RandomState
Family = Callable[[int, Random], FloatArray]


def _matrix(graph: nx.Graph) -> FloatArray:
    adjacency: FloatArray = nx.to_numpy_array(nx.Graph(graph), weight=None, dtype=np.float64)
    np.fill_diagonal(adjacency, 0.0)
    return adjacency


def _from_probabilities(probability: FloatArray, random: Random) -> FloatArray:
    """Draw every pair by itself, from a symmetric matrix of probabilities."""
    upper = np.triu(random.random_sample(probability.shape) < probability, 1).astype(np.float64)
    return upper + upper.T


def _log_uniform(low: float, high: float, random: Random) -> float:
    return float(np.exp(random.uniform(np.log(low), np.log(max(low, high)))))


def _sparse_density(n_nodes: int, random: Random, lowest_degree: float = 1.0, highest_degree: float = 6.0) -> float:
    """The density of a graph whose mean degree is drawn between the two."""
    return min(0.9, _log_uniform(lowest_degree, highest_degree, random) / (n_nodes - 1))


def _groups(n_nodes: int, n_groups: int, random: Random) -> np.ndarray:
    """The group of every node; groups are of unlike size, and none is empty."""
    shares = random.dirichlet(np.full(n_groups, _log_uniform(2.0, 20.0, random)))
    drawn = random.choice(n_groups, size=n_nodes - n_groups, p=shares)
    return np.concatenate([np.arange(n_groups), drawn])


def _without_some_nodes(adjacency: FloatArray, share: float, random: Random) -> FloatArray:
    kept = random.permutation(len(adjacency))[: max(4, round((1 - share) * len(adjacency)))]
    return adjacency[np.ix_(kept, kept)]


def _sparse_random(n_nodes: int, random: Random) -> FloatArray:
    return _from_probabilities(np.full((n_nodes, n_nodes), _sparse_density(n_nodes, random, 0.7, 8.0)), random)


def _dense_random(n_nodes: int, random: Random) -> FloatArray:
    return _from_probabilities(np.full((n_nodes, n_nodes), random.uniform(0.15, 0.8)), random)


def _uneven_degrees(n_nodes: int, random: Random) -> FloatArray:
    """Pairs are joined in proportion to weights of their nodes, which have a heavy tail (Chung and Lu)."""
    weight = (1 + random.pareto(random.uniform(1.2, 4.0), size=n_nodes)).clip(max=n_nodes)
    degree = min(_log_uniform(1.5, 8.0, random), 0.6 * n_nodes)
    intensity = np.outer(weight, weight) / weight.sum() / weight.mean() * degree
    return _from_probabilities(1 - np.exp(-intensity), random)


def _scale_free(n_nodes: int, random: Random) -> FloatArray:
    return _matrix(nx.barabasi_albert_graph(n_nodes, random.randint(1, 5), seed=random))


def _clustered_scale_free(n_nodes: int, random: Random) -> FloatArray:
    n_edges = random.randint(1, 5)
    return _matrix(nx.powerlaw_cluster_graph(n_nodes, n_edges, random.uniform(0.3, 1.0), seed=random))


def _small_world(n_nodes: int, random: Random) -> FloatArray:
    degree = 2 * random.randint(1, 4)
    return _matrix(nx.watts_strogatz_graph(n_nodes, degree, random.choice([0.02, 0.1, 0.3, 0.6]), seed=random))


def _random_regular(n_nodes: int, random: Random) -> FloatArray:
    degree = random.choice([2, 3, 3, 3, 4, 4, 5, 6])
    return _matrix(nx.random_regular_graph(degree, n_nodes - n_nodes * degree % 2, seed=random))


def _symmetric(n_nodes: int, random: Random) -> FloatArray:
    """Graphs with a group of symmetries: rings, ladders, circulants, Hamiltonian cubic graphs, hypercubes."""
    half = n_nodes // 2
    kind = random.randint(7)
    if kind == 0:
        return _matrix(nx.cycle_graph(n_nodes))
    if kind == 1:
        return _matrix(nx.circular_ladder_graph(half))
    if kind == 2:
        return _matrix(nx.ladder_graph(half))
    if kind == 3:  # a ring whose opposite nodes are joined
        return _matrix(nx.circulant_graph(2 * half, [1, half]))
    if kind == 4:
        n_offsets = random.randint(1, 4)
        return _matrix(nx.circulant_graph(n_nodes, random.choice(np.arange(1, half + 1), n_offsets, replace=False)))
    if kind == 5:  # the chords of a ring repeat along it
        period = random.randint(2, 5)
        shifts = random.choice([-5, -4, -3, -2, 2, 3, 4, 5], size=period).tolist()
        return _matrix(nx.LCF_graph(period * (n_nodes // period), shifts, n_nodes // period))
    return _matrix(nx.hypercube_graph(int(np.log2(n_nodes))))


def _few_blocks(n_nodes: int, random: Random) -> FloatArray:
    """Two to four large groups, whose members keep to themselves or avoid one another."""
    group = _groups(n_nodes, random.randint(2, 5), random)
    own, other = random.uniform(0.2, 0.8), _log_uniform(0.01, 0.2, random)
    if random.random_sample() < 0.25:
        own, other = other, own
    return _from_probabilities(np.where(group[:, None] == group, own, other), random)


def _many_blocks(n_nodes: int, random: Random) -> FloatArray:
    """Many small groups: teams, conferences, departments."""
    size = random.randint(4, 13)
    group = _groups(n_nodes, max(2, n_nodes // size), random)
    own, other = random.uniform(0.5, 1.0), min(0.3, _log_uniform(0.3, 4.0, random) / n_nodes)
    return _from_probabilities(np.where(group[:, None] == group, own, other), random)


def _uneven_blocks(n_nodes: int, random: Random) -> FloatArray:
    """Groups with leaders: every group has a few members who are joined to most of it."""
    group = _groups(n_nodes, random.randint(1, 5), random)
    weight = random.gamma(_log_uniform(0.5, 3.0, random), size=n_nodes) + 0.1
    affinity = np.where(group[:, None] == group, 1.0, _log_uniform(0.01, 0.3, random)) * np.outer(weight, weight)
    degree = min(_log_uniform(2.0, 8.0, random), 0.5 * n_nodes)
    return _from_probabilities(1 - np.exp(-affinity * degree * n_nodes / affinity.sum()), random)


def _caveman(n_nodes: int, random: Random) -> FloatArray:
    """Cliques of one size, in a ring or with some edges rewired."""
    size = random.randint(3, max(4, min(10, n_nodes // 2)))
    n_cliques = max(2, n_nodes // size)
    if random.random_sample() < 0.3:
        return _matrix(nx.connected_caveman_graph(n_cliques, size))
    return _matrix(nx.relaxed_caveman_graph(n_cliques, size, random.uniform(0.0, 0.3), seed=random))


def _shared_memberships(n_nodes: int, random: Random) -> FloatArray:
    """Cliques that overlap: who was in one scene, paper or committee is joined."""
    adjacency = np.zeros((n_nodes, n_nodes))
    fame = random.pareto(random.uniform(1.2, 4.0), size=n_nodes) + 0.3
    for _ in range(max(2, int(n_nodes * random.uniform(0.3, 1.2)))):
        size = min(n_nodes, 2 + random.poisson(random.uniform(0.3, 2.5)))
        members = random.choice(n_nodes, size, replace=False, p=fame / fame.sum())
        adjacency[np.ix_(members, members)] = 1.0
    np.fill_diagonal(adjacency, 0.0)
    return adjacency


def _ego_net(n_nodes: int, random: Random) -> FloatArray:
    """One node that knows all others, who form circles."""
    group = _groups(n_nodes, random.randint(1, max(2, min(5, n_nodes // 4))), random)
    tightness = random.uniform(0.3, 1.0, size=group.max() + 1)
    own = np.sqrt(np.outer(tightness[group], tightness[group]))
    probability = np.where(group[:, None] == group, own, _log_uniform(0.01, 0.2, random))
    probability[0] = probability[:, 0] = 1.0
    return _from_probabilities(probability, random)


def _points(n_nodes: int, random: Random) -> FloatArray:
    """Places in a region that is square or oblong, spread evenly or in towns."""
    points = random.random_sample((n_nodes, 2)) * [1.0, _log_uniform(0.3, 1.0, random)]
    if random.random_sample() < 0.3:
        towns = random.randint(max(2, n_nodes // 6), size=n_nodes)
        points = points[towns] + 0.1 * random.standard_normal((n_nodes, 2))
    return np.asarray(points)


def _geometric(n_nodes: int, random: Random) -> FloatArray:
    """Places that are near one another are joined, for certain or probably."""
    distance = cdist(*[_points(n_nodes, random)] * 2)
    radius = np.quantile(distance[np.triu_indices(n_nodes, 1)], _sparse_density(n_nodes, random, 2.0, 8.0))
    softness = radius * random.choice([1e-3, 0.05, 0.2])
    return _from_probabilities(1 / (1 + np.exp(((distance - radius) / softness).clip(-50, 50))), random)


def _latent_space(n_nodes: int, random: Random) -> FloatArray:
    """Places in two or three dimensions that nobody sees, and nodes more or less sociable."""
    places = random.standard_normal((n_nodes, random.randint(2, 4)))
    sociable = random.standard_normal(n_nodes) * random.uniform(0.0, 1.5)
    log_odds = sociable[:, None] + sociable - cdist(places, places) * random.uniform(0.5, 3.0)
    pairs = log_odds[np.triu_indices(n_nodes, 1)]
    threshold = np.quantile(pairs, 1 - min(0.6, _sparse_density(n_nodes, random, 1.5, 9.0)))
    return _from_probabilities(1 / (1 + np.exp(threshold - log_odds)), random)


def _triangulated(points: FloatArray) -> FloatArray:
    adjacency = np.zeros((len(points), len(points)))
    for corners in Delaunay(points, qhull_options="QJ").simplices:
        adjacency[np.ix_(corners, corners)] = 1.0
    np.fill_diagonal(adjacency, 0.0)
    return adjacency


def _planar(n_nodes: int, random: Random) -> FloatArray:
    """Triangulations of places, whole or with some edges left out."""
    adjacency = _triangulated(_points(n_nodes, random))
    return adjacency * _from_probabilities(np.full(adjacency.shape, random.choice([1.0, 0.9, 0.7])), random)


def _neighbours_without_rivals(n_nodes: int, random: Random) -> FloatArray:
    """Places with no third one between them (Gabriel graphs, relative neighbours): roads."""
    points = _points(n_nodes, random)
    squared = cdist(points, points, "sqeuclidean")
    to_third = np.maximum if random.random_sample() < 0.5 else np.add
    adjacency = np.zeros((n_nodes, n_nodes))
    for i, j in combinations(range(n_nodes), 2):
        rivals = to_third(squared[i], squared[j]) < squared[i, j]
        adjacency[i, j] = adjacency[j, i] = float(not rivals.any())
    return adjacency


def _road_like(n_nodes: int, random: Random) -> FloatArray:
    """The shortest tree among places, and some of the short edges beside it: roads, power and water grids."""
    points = _points(n_nodes, random)
    graph = nx.Graph()
    for i, j in np.argwhere(np.triu(_triangulated(points))):
        graph.add_edge(i, j, weight=float(np.linalg.norm(points[i] - points[j])))
    tree = nx.minimum_spanning_tree(graph)
    others = sorted(graph.edges - tree.edges, key=lambda edge: graph.edges[edge]["weight"] * random.uniform(0.7, 1.4))
    tree.add_edges_from(others[: round(n_nodes * random.uniform(0.0, 0.7))])
    return _subdivided(_matrix(tree), random.choice([0.0, 0.0, 0.2]), random)


def _subdivided(adjacency: FloatArray, share: float, random: Random) -> FloatArray:
    """Put a node into the middle of some edges, and drop as many nodes that hang by one edge."""
    graph = nx.from_numpy_array(adjacency)
    leaves = [node for node, degree in graph.degree if degree == 1]
    edges = list(graph.edges)
    n_moved = min(len(leaves), round(share * len(edges)))
    for place in random.permutation(len(edges))[:n_moved]:
        i, j = edges[place]
        leaf = leaves.pop()
        if leaf in (i, j) or not graph.has_edge(i, j):  # as an end of it hung by that edge, and was moved before
            continue
        graph.remove_edges_from([(i, j), *list(graph.edges(leaf))])
        graph.add_edges_from([(i, leaf), (leaf, j)])
    return _matrix(graph)


def _lattice(n_nodes: int, random: Random) -> FloatArray:
    """Square, triangular and hexagonal lattices and cylinders, some with holes."""
    height = random.randint(2, int(np.sqrt(n_nodes)) + 1)
    kind = random.randint(4)
    if kind == 0:
        graph = nx.triangular_lattice_graph(height, max(2, 2 * (n_nodes // (height + 1) - 1)))
    elif kind == 1:
        n_rows = height // 2
        graph = nx.hexagonal_lattice_graph(n_rows, (n_nodes + 2) // (2 * n_rows + 2) - 1)
    else:
        graph = nx.grid_2d_graph(height, n_nodes // height, periodic=(False, kind == 2 and n_nodes // height > 2))
    adjacency = _matrix(graph)
    if len(adjacency) > n_nodes:
        adjacency = adjacency[:n_nodes, :n_nodes]
    return _without_some_nodes(adjacency, random.choice([0.0, 0.05, 0.15]), random)


def _grid_with_shortcuts(n_nodes: int, random: Random) -> FloatArray:
    """Square grids with up to four extra edges."""
    height = random.randint(2, int(np.sqrt(n_nodes)) + 1)
    adjacency = _matrix(nx.grid_2d_graph(height, n_nodes // height))
    add_edges(adjacency, random.randint(5), random)
    return adjacency


def _tree(n_nodes: int, random: Random) -> FloatArray:
    """Trees: any, grown at random, grown at the tips, branching regularly, and caterpillars."""
    kind = random.randint(5)
    if kind == 0:
        return _matrix(nx.random_labeled_tree(n_nodes, seed=random))
    if kind == 1:
        return _matrix(nx.full_rary_tree(random.randint(2, 5), n_nodes))
    if kind == 2:  # leaves on a path
        spine = random.randint(2, n_nodes)
        parents = [*range(spine - 1), *random.randint(spine, size=n_nodes - spine)]
    elif kind == 3:  # a parent among the last few
        reach = random.randint(1, 6)
        parents = [random.randint(max(0, i - reach), i) for i in range(1, n_nodes)]
    else:
        parents = [random.randint(i) for i in range(1, n_nodes)]
    return _matrix(nx.Graph((i + 1, int(parent)) for i, parent in enumerate(parents)))


def _near_tree(n_nodes: int, random: Random) -> FloatArray:
    """Trees with a few more edges."""
    adjacency = _tree(n_nodes, random)
    add_edges(adjacency, random.randint(1, max(2, n_nodes // 3)), random)
    return adjacency


def _bipartite(n_nodes: int, random: Random) -> FloatArray:
    """Two kinds of nodes, such as people and events, of uneven popularity."""
    side = np.arange(n_nodes) < random.randint(2, n_nodes // 2 + 1)
    popular = np.exp(random.uniform(0.0, 1.2) * random.standard_normal(n_nodes))
    intensity = np.where(side[:, None] != side, np.outer(popular, popular), 0.0)
    degree = min(_log_uniform(1.5, 8.0, random), 0.4 * n_nodes)
    return _from_probabilities(1 - np.exp(-intensity * degree * n_nodes / intensity.sum()), random)


def _core_periphery(n_nodes: int, random: Random) -> FloatArray:
    """A dense core, and others who are joined to it rather than to one another."""
    is_core = np.arange(n_nodes) < max(2, round(n_nodes * random.uniform(0.1, 0.4)))
    within, across = random.uniform(0.5, 1.0), random.uniform(0.05, 0.4)
    outside = _log_uniform(0.005, 0.1, random)
    n_core = is_core[:, None].astype(int) + is_core
    return _from_probabilities(np.choose(n_core, [outside, across, within]), random)


def _hubs(n_nodes: int, random: Random) -> FloatArray:
    """One or a few centres: stars, wheels, windmills, airlines."""
    kind = random.randint(4)
    if kind == 0:
        return _matrix(nx.wheel_graph(n_nodes))
    if kind == 1:
        size = random.randint(3, 6 if n_nodes > 8 else 5)
        return _matrix(nx.windmill_graph((n_nodes - 1) // (size - 1), size))
    n_hubs = random.randint(1, max(2, n_nodes // 5))
    probability = np.full((n_nodes, n_nodes), _sparse_density(n_nodes, random, 0.05, 1.0))
    probability[:n_hubs, :n_hubs] = random.uniform(0.2, 1.0)
    adjacency = _from_probabilities(probability, random)
    for node in range(n_hubs, n_nodes):
        chosen = random.permutation(n_hubs)[: 1 + random.binomial(1, 0.3)]
        adjacency[node, chosen] = adjacency[chosen, node] = 1.0
    return adjacency


def _hierarchical(n_nodes: int, random: Random) -> FloatArray:
    """Groups of groups: the lower the first level that two nodes share, the likelier an edge."""
    branching = random.randint(2, 4)
    depth = max(1, int(np.log(n_nodes / 3) / np.log(branching)))
    position = np.arange(n_nodes) * branching**depth // n_nodes
    probability = np.full((n_nodes, n_nodes), random.uniform(0.6, 1.0))
    decay = random.uniform(0.15, 0.5)
    for level in range(depth):
        ancestor = position // branching**level
        probability = np.where(ancestor[:, None] == ancestor, probability, probability * decay)
    return _from_probabilities(probability, random)


FAMILIES: dict[str, Family] = {
    "sparse random": _sparse_random,
    "dense random": _dense_random,
    "uneven degrees": _uneven_degrees,
    "scale-free": _scale_free,
    "clustered scale-free": _clustered_scale_free,
    "small world": _small_world,
    "random regular": _random_regular,
    "symmetric": _symmetric,
    "few blocks": _few_blocks,
    "many blocks": _many_blocks,
    "uneven blocks": _uneven_blocks,
    "caveman": _caveman,
    "shared memberships": _shared_memberships,
    "ego-nets": _ego_net,
    "geometric": _geometric,
    "latent space": _latent_space,
    "planar": _planar,
    "proximity": _neighbours_without_rivals,
    "roads": _road_like,
    "lattices": _lattice,
    "grids": _grid_with_shortcuts,
    "trees": _tree,
    "near-trees": _near_tree,
    "bipartite": _bipartite,
    "core-periphery": _core_periphery,
    "hubs": _hubs,
    "hierarchical": _hierarchical,
}


def move_edges(adjacency: FloatArray, share: float, random: Random) -> FloatArray:
    """Take away a share of the edges, and add as many elsewhere."""
    rows, columns = np.nonzero(np.triu(adjacency, 1))
    n_moved = int(random.binomial(len(rows), share))
    moved = adjacency.copy()
    gone = random.permutation(len(rows))[:n_moved]
    moved[rows[gone], columns[gone]] = moved[columns[gone], rows[gone]] = 0.0
    add_edges(moved, n_moved, random)
    return moved


def make_graph_mixture(
    n_graphs: int,
    *,
    families: Sequence[str] = tuple(FAMILIES),
    min_nodes: int = 8,
    max_nodes: int = 100,
    random_state: int | None = None,
) -> list[FloatArray]:
    """Draw graphs of families that are drawn uniformly, of sizes that are drawn log-uniformly, from eight nodes on.

    In two out of five graphs, up to a fifth of the edges are then moved to random pairs, because real graphs do not
    strictly follow one family. Nodes are numbered at random. Families that are made of rows, cells or groups of equal
    size may give a few nodes fewer than `min_nodes`.
    """
    random = np.random.RandomState(random_state)
    graphs = []
    for _ in range(n_graphs):
        family = FAMILIES[families[random.randint(len(families))]]
        n_nodes = int(np.exp(random.uniform(np.log(min_nodes), np.log(max_nodes + 1))))
        adjacency = family(n_nodes, random)
        if random.random_sample() < 0.4:
            adjacency = move_edges(adjacency, random.uniform(0.0, 0.2), random)
        order = random.permutation(len(adjacency))
        graphs.append(adjacency[np.ix_(order, order)])
    return graphs
