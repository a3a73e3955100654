"""Do probabilities and intervals mean what they say? Small systems whose posterior is known exactly.

    python benchmarks/bench_calibration.py

1. Edge probabilities against enumeration. With four or five nodes every graph on the unknown pairs can be tried. theta
   goes out by integration, in closed form for polynomials and on a grid for heat diffusion, and so does an unknown
   noise level. What is left are exact edge marginals. The error of a method is the distance of its
   `edge_probabilities_` from them, the total variation of a marginal. A perfect sampler, which draws graphs from the
   enumerated posterior, says how much of it is chance.
2. Simulation-based calibration (Talts et al. 2018) of theta and of the noise level, six nodes: draw a truth, simulate,
   fit, and rank the truth among independent draws, one of every chain. The ranks of a calibrated sampler are uniform,
   and its credible intervals hold the truth as often as they say.
3. Reliability of the edge probabilities of the same fits: of the pairs given probability p, a share p should be edges.
4. The same with default fits on systems of 7 to 10 nodes of every kind: edges that are there or not, or have strengths,
   with signs or without; undirected and directed; five filters. See `_simulated_truth`.

The truth should be drawn from the sampler's own prior. Heat's theta is. That of polynomials has a prior whose width
depends on the data (three times the gain from inputs to outputs), so theta comes from a Gaussian law of a fixed width
well below it; and as 1 / variance, the prior of the noise level, is improper, its logarithm comes from a uniform law,
which is 1 / variance but for its ends. These laws were chosen by the exact posterior's ranks, not by the sampler's.
What the difference still does is measured and not assumed: the rows "exact" are those of the enumerated posterior under
the sampler's own prior.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from _exact_posterior import Array, Posterior, SmallSystem, enumerate_graphs, heat_law, log_odds_of_pairs
from _results import all_fitted, command_line, publish, table
from _simulated_truth import KINDS, SimulatedKind, judge, summarise_kind
from joblib import Parallel, delayed
from scipy.stats import chisquare

from sklearn_graphid import (
    PAPER_SETTINGS,
    AdamSystemIdentifier,
    ErdosRenyiPrior,
    LangevinSystemIdentifier,
    LikelihoodLangevinIdentifier,
    StochasticBlockPrior,
    System,
    compare_identifiers,
    identify_many,
)
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.filters import HeatDiffusionFilter, PolynomialFilter

SEED = 20_180_418
LEVELS = (0.5, 0.9)  # of the credible intervals
N_BINS = 10  # of ranks, and of edge probabilities
N_PERFECT = 100  # repetitions of a perfect sampler
LANGEVIN = {"n_sweeps": 0, "n_levels": 10, "sigma_max": 0.5, "sigma_min": 0.03, "n_steps": 100}
SHORT_RUN = {"n_levels": 5, "n_steps": 2}
BLOCKS = [[0.6, 0.15], [0.15, 0.4]]


class Kind(NamedTuple):
    """A family of random systems."""

    number: int  # part of the seed
    filter: PolynomialFilter | HeatDiffusionFilter
    prior: ErdosRenyiPrior | StochasticBlockPrior
    n_nodes: int
    unknown: float  # share of the pairs
    n_experiments: int
    input_scale: float
    theta_scale: float | None  # standard deviation of a polynomial's coefficients
    noise_range: tuple[float, float] = (1.0, 1.0)

    @property
    def name(self) -> str:
        """What tables call the filter."""
        return "heat" if isinstance(self.filter, HeatDiffusionFilter) else "polynomial"

    def edge_probability(self) -> Array:
        """Of every pair, under the prior."""
        if isinstance(self.prior, ErdosRenyiPrior):
            return np.full((self.n_nodes, self.n_nodes), self.prior.p)
        labels = np.asarray(self.prior.labels)
        return np.asarray(self.prior.probabilities, dtype=float)[np.ix_(labels, labels)]


ENUMERATED = (
    Kind(1, PolynomialFilter(1), ErdosRenyiPrior(0.3), 4, 0.8, 3, 3.0, 0.5),
    Kind(2, PolynomialFilter(2), StochasticBlockPrior([0, 0, 1, 1, 1], BLOCKS), 5, 0.7, 3, 2.0, 0.5),
    Kind(3, HeatDiffusionFilter(), StochasticBlockPrior([0, 0, 1, 1], BLOCKS), 4, 0.8, 4, 4.0, None),
    Kind(4, HeatDiffusionFilter(), ErdosRenyiPrior(0.4), 5, 0.7, 4, 4.0, None),
)
SIMULATED = (
    Kind(5, PolynomialFilter(2), ErdosRenyiPrior(0.4), 6, 0.45, 4, 2.0, 0.5, (0.5, 2.0)),
    Kind(6, HeatDiffusionFilter(), ErdosRenyiPrior(0.4), 6, 0.45, 5, 8.0, None, (0.5, 2.0)),
)


def make_case(kind: Kind, index: int) -> System:
    """Draw a graph from the prior, theta and the noise level from their laws, and simulate."""
    drawing, hiding, simulating = np.random.SeedSequence([SEED, kind.number, index]).generate_state(3)
    rng = np.random.default_rng(drawing)
    upper = np.triu(rng.random((kind.n_nodes, kind.n_nodes)) < kind.edge_probability(), 1)
    adjacency = (upper | upper.T).astype(float)
    if isinstance(kind.filter, HeatDiffusionFilter):
        law = heat_law(kind.filter)
        theta = law.ppf(rng.random(1) * law.cdf(kind.filter.theta_max))
    else:
        theta = rng.normal(0, kind.theta_scale, kind.filter.n_parameters())
    noise_std = float(np.exp(rng.uniform(*np.log(kind.noise_range))))
    known = hide_edges(adjacency, kind.unknown, random_state=int(hiding))
    settings = {"n_experiments": kind.n_experiments, "input_scale": kind.input_scale, "noise_std": noise_std}
    X, Y = make_system(adjacency, kind.filter, theta, random_state=int(simulating), **settings)
    return System(X, Y, known, true_adjacency=adjacency, true_theta=theta, labels={"true_noise_std": noise_std})


def true_noise_std(system: System) -> float:
    """The noise level that a system was simulated with."""
    return float((system.labels or {})["true_noise_std"])


def exact_posterior(
    kind: Kind, system: System, noise_std: float | None, temperature: float = 1.0, even_odds: bool = False
) -> Posterior:
    """Return the posterior by enumeration; with even odds every graph is as likely as any other a priori."""
    return enumerate_graphs(
        SmallSystem(
            kind.filter,
            system.X,
            system.Y,
            system.known_mask,
            log_odds_of_pairs(None if even_odds else kind.prior, system.known_mask),
            noise_std=noise_std,
            temperature=temperature,
            truth=(system.true_theta, true_noise_std(system)),
        )
    )


# 1. Edge marginals.


class Answer(NamedTuple):
    """A method's edge probabilities, and how many draws they are made of: those of different chains, and all."""

    edge_probabilities: Array
    n_draws: tuple[int, ...]  # empty for a method that draws nothing


def methods(kind: Kind, noise_std: float, seed: int) -> dict[str, Any]:
    """An estimator for each method's name."""
    prior: Any = {"filter": kind.filter, "prior": kind.prior, "random_state": seed}
    told: Any = {"noise_std": noise_std}
    return {
        "ours": LangevinSystemIdentifier(**prior, **told),
        "ours, noise unknown": LangevinSystemIdentifier(**prior),
        "langevin, derived step": LangevinSystemIdentifier(**prior, **told, **LANGEVIN),
        "likelihood": LikelihoodLangevinIdentifier(kind.filter, random_state=seed, **told),
        "paper": LangevinSystemIdentifier(**prior, **{**PAPER_SETTINGS, "n_chains": 16}),
        "adam": AdamSystemIdentifier(kind.filter, random_state=seed),
    }


def answers(kind: Kind, system: System, seed: int) -> dict[str, Answer]:
    """Every method's edge probabilities."""
    rows = compare_identifiers(methods(kind, true_noise_std(system), seed), [system], keep_estimators=True)
    fitted = all_fitted(rows).set_index("method")["estimator"]
    paper, adam = fitted.pop("paper"), fitted.pop("adam")
    return {method: answer_of(sampler) for method, sampler in fitted.items()} | {
        # The published estimate is the end of the first chain; more chains tell which law that is a draw from.
        "paper, one chain": Answer(paper.adjacency_.astype(float), (1,)),
        "paper, 16 chains": Answer(paper.edge_probabilities_, (16,)),
        "adam": Answer(adam.edge_probabilities_, ()),
    }


def answer_of(sampler: Any) -> Answer:
    """A sampler's edge probabilities; Langevin dynamics keeps the ends of its chains alone."""
    n_chains, n_draws = n_kept_chains(sampler), len(sampler.theta_samples_)
    return Answer(sampler.edge_probabilities_, (n_chains,) if n_draws == n_chains else (n_chains, n_draws))


def n_kept_chains(sampler: Any) -> int:
    """Chains that neither diverged nor were stuck."""
    return int(sampler.n_chains - sampler.diagnostics_["n_diverged"] - sampler.diagnostics_["n_stuck"])


def targets(kind: Kind, system: System) -> dict[str, Posterior]:
    """The posterior, and what methods that leave something out could aim at instead."""
    noise_std = true_noise_std(system)
    return {
        "posterior": exact_posterior(kind, system, noise_std),
        "posterior, noise unknown": exact_posterior(kind, system, None),
        "posterior at its temperature": exact_posterior(kind, system, noise_std, PAPER_SETTINGS["temperature"]),
        "posterior without prior": exact_posterior(kind, system, noise_std, even_odds=True),
    }


AIMS = {
    "ours": ("posterior",),
    "ours, noise unknown": ("posterior, noise unknown",),
    "langevin, derived step": ("posterior",),
    "paper, one chain": ("posterior",),
    "paper, 16 chains": ("posterior", "posterior at its temperature"),
    "likelihood": ("posterior", "posterior without prior"),
    "adam": ("posterior", "posterior without prior"),
}


def perfect_errors(exact: Posterior, n_draws: int, seed: Any) -> Array:
    """Errors (repetitions, unknown pairs) of the edge frequencies among independent draws from the exact posterior."""
    rng = np.random.default_rng(seed)
    counts = rng.multinomial(n_draws, exact.probability / exact.probability.sum(), size=N_PERFECT)
    return np.abs(counts @ exact.bits / n_draws - exact.marginals)


def compare(kind: Kind, index: int) -> list[dict[str, Any]]:
    """Every method on one system."""
    system = make_case(kind, index)
    exact, found = targets(kind, system), answers(kind, system, seed=index)
    lines = []
    for method, aims in AIMS.items():
        answer = found[method]
        for aim in aims:
            perfect = [perfect_errors(exact[aim], n, [SEED, kind.number, index]) for n in answer.n_draws]
            lines.append(
                {
                    "filter": kind.name,
                    "nodes": kind.n_nodes,
                    "system": index,
                    "method": method,
                    "against": aim,
                    "edge_probabilities": answer.edge_probabilities[system.known_mask.unknown_pairs()].tolist(),
                    "exact": exact[aim].marginals.tolist(),
                    "perfect_mean": [errors.mean() for errors in perfect],
                    "perfect_largest": [errors.max(1).tolist() for errors in perfect],
                }
            )
    return lines


def summarise_marginals(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Errors of each filter, method and target over all systems."""
    groups: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for line in lines:
        groups.setdefault((line["filter"], line["method"], line["against"]), []).append(line)
    for (filter, method, against), members in groups.items():
        found, exact = (np.concatenate([m[name] for m in members]) for name in ("edge_probabilities", "exact"))
        largest = np.max([m["perfect_largest"] for m in members], axis=0)
        sizes = np.array([len(m["exact"]) for m in members])
        surer = [np.mean(_surer(np.array(m["edge_probabilities"]), np.array(m["exact"]))) for m in members]
        yield {
            "filter": filter,
            "method": method,
            "against": against,
            "systems": len(members),
            "marginals": int(sizes.sum()),
            "mean": float(np.abs(found - exact).mean()),
            "largest": float(np.abs(found - exact).max()),
            # With as many independent draws as there are chains, and as there are draws in all.
            "perfect_mean": (sizes @ np.array([m["perfect_mean"] for m in members]) / sizes.sum()).tolist(),
            "perfect_largest": largest.reshape(-1, N_PERFECT).mean(1).tolist(),
            "too_sure": mean_and_error(np.array(surer)),
        }


def mean_and_error(values: Array) -> tuple[float, float | None]:
    """The mean over systems, and its standard error, which one system does not tell."""
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return float(values.mean()), error


def with_error(mean: float, error: float | None) -> str:
    """Both, as tables show them."""
    return f"{mean:+.3f}" if error is None else f"{mean:+.3f} ± {error:.3f}"


def _surer(found: Array, exact: Array) -> Array:
    """How much farther from one half, on the exact side, the probabilities are."""
    return np.sign(exact - 0.5) * (found - exact)


def show_marginals(rows: list[dict[str, Any]]) -> str:
    """A table for people."""
    head = ["filter", "method", "against", "mean error", "perfect sampler", "largest error", "perfect sampler"]
    lines = []
    for row in rows:
        mean, largest = (
            " or ".join(f"{value:.3f}" for value in row[name]) for name in ("perfect_mean", "perfect_largest")
        )
        line = [row["filter"], row["method"], row["against"], row["mean"], mean, row["largest"], largest]
        lines.append([*line, with_error(*row["too_sure"])])
    return f"""\
The perfect sampler draws graphs from the enumerated posterior: as many as there are chains or, for the
smaller figure, draws in all. Probabilities are too sure by what they are farther from one half than exact.

{table([*head, "too sure by"], lines, ".3f")}"""


# 2. and 3. Ranks, intervals and reliability.


def simulate(kind: Kind, index: int) -> dict[str, Any]:
    """Draw a truth, fit, and say where the truth lies in the posterior."""
    system = make_case(kind, index)
    exact = exact_posterior(kind, system, noise_std=None)
    # Chains with one seed for all systems would draw the same numbers, and the ranks would share their chance.
    identifier = LangevinSystemIdentifier(kind.filter, kind.prior, random_state=index, **SHORT_RUN)
    (fitted,) = all_fitted(identify_many(identifier, [system], keep_estimators=True))["estimator"]
    truth = np.append(system.true_theta, true_noise_std(system))
    draws = np.column_stack([fitted.theta_samples_, fitted.noise_std_samples_])
    ends = [np.vstack([fitted.theta_interval(level), fitted.noise_std_interval(level)]) for level in LEVELS]
    unknown = system.known_mask.unknown_pairs()
    return {
        "filter": kind.name,
        "simulation": index,
        "parameters": [*fitted.filter_.parameter_names(), "noise"],
        "place": place_of_truth(draws, truth, n_kept_chains(fitted), np.random.default_rng([SEED, index])).tolist(),
        "covered": [((low <= truth) & (truth <= high)).tolist() for low, high in (end.T for end in ends)],
        "share_below": (draws < truth).mean(0).tolist(),
        "exact_place": [*exact.theta_below.tolist(), exact.noise_below],
        "edges": system.true_adjacency[unknown].tolist(),
        "edge_probabilities": fitted.edge_probabilities_[unknown].tolist(),
        "exact_edge_probabilities": exact.marginals.tolist(),
        "redrawn_edges": redraw(exact, index).tolist(),
    }


def place_of_truth(draws: Array, truth: Array, n_chains: int, rng: np.random.Generator) -> Array:
    """Rank of the truth among the last draws of all chains, which are independent, as a number between 0 and 1.

    A rank among n draws takes n + 1 values; a uniform number spreads it, so that any n gives a uniform law.
    """
    last = draws.reshape(n_chains, -1, len(truth))[:, -1]
    return ((last < truth).sum(0) + rng.random(len(truth))) / (n_chains + 1)


def redraw(exact: Posterior, seed: int) -> Array:
    """Other truths (repetitions, unknown pairs) that the same data could have come from."""
    rng = np.random.default_rng([SEED, seed])
    chosen = rng.choice(len(exact.bits), N_PERFECT, p=exact.probability / exact.probability.sum())
    return exact.bits[chosen].astype(int)


def summarise_ranks(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Uniformity of the ranks and coverage of the intervals, of each filter's parameters."""
    for filter in dict.fromkeys(line["filter"] for line in lines):
        members = [line for line in lines if line["filter"] == filter]
        exact = np.array([line["exact_place"] for line in members])
        shares = np.array([line["share_below"] for line in members])
        places = {"sampler": np.array([line["place"] for line in members]), "exact": exact}
        covered = {
            "sampler": np.array([line["covered"] for line in members]).mean(0),
            "exact": np.array([(np.abs(exact - 0.5) < level / 2).mean(0) for level in LEVELS]),
        }
        for column, parameter in enumerate(members[0]["parameters"]):
            offset = shares[:, column] - exact[:, column]
            for source, place in places.items():
                counts = np.histogram(place[:, column], N_BINS, (0, 1))[0]
                yield {
                    "filter": filter,
                    "parameter": parameter,
                    "posterior": source,
                    "simulations": len(members),
                    "rank_counts": counts.tolist(),
                    "p_value": float(chisquare(counts).pvalue),
                    "coverage": covered[source][:, column].tolist(),
                    "offset": mean_and_error(offset if source == "sampler" else 0 * offset),
                }


def show_ranks(rows: list[dict[str, Any]]) -> str:
    """A table for people."""
    head = ["filter", "parameter", "posterior", "p-value of uniform ranks", "50% interval", "90% interval", "offset"]
    lines = []
    for row in rows:
        offset = with_error(*row["offset"]) if row["posterior"] == "sampler" else None
        lines.append([row["filter"], row["parameter"], row["posterior"], row["p_value"], *row["coverage"], offset])
    n_simulations = rows[0]["simulations"]
    errors = " and ".join(f"{np.sqrt(level * (1 - level) / n_simulations):.1%}" for level in LEVELS)
    values = [row["p_value"] for row in rows if row["posterior"] == "sampler"]
    return f"""\
The truth is drawn from laws that differ from the sampler's priors, but for heat's theta. The rows
of the exact posterior under these priors show what that alone does; the sampler should agree with them. The
offset is the mean difference between the share of draws below the truth and the exact probability of that.

{table(head, lines, ["", "", "", ".3f", ".1%", ".1%", ""])}

{n_simulations} simulations: standard errors of the coverage are {errors}.
The sampler's smallest p-value of {len(values)} is {min(values):.3f}; uniform ranks would show one as small
in {1 - (1 - min(values)) ** len(values):.0%} of all runs."""


def summarise_reliability(lines: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Pooled reliability of each filter's edge probabilities, and the calibration error that chance alone makes."""
    for filter in dict.fromkeys(line["filter"] for line in lines):
        members = [line for line in lines if line["filter"] == filter]
        truth = np.concatenate([line["edges"] for line in members])
        redrawn = np.concatenate([line["redrawn_edges"] for line in members], axis=1)
        for source, name in (("sampler", "edge_probabilities"), ("exact", "exact_edge_probabilities")):
            found = np.concatenate([line[name] for line in members])
            predicted, fraction, counts = reliability(truth, found)
            by_chance = [calibration_error(*reliability(other, found)) for other in redrawn]
            yield {
                "filter": filter,
                "posterior": source,
                "mean_predicted": np.nan_to_num(predicted).tolist(),
                "fraction_true": np.nan_to_num(fraction).tolist(),
                "counts": counts.tolist(),
                "calibration_error": calibration_error(predicted, fraction, counts),
                "by_chance": np.quantile(by_chance, (0.5, 0.95)).tolist(),
            }


def reliability(truth: Array, found: Array) -> tuple[Array, Array, Array]:
    """Mean probability, share of edges and number of pairs in bins of equal width; nan where a bin is empty."""
    bins = np.searchsorted(np.linspace(0, 1, N_BINS + 1)[1:-1], found)
    counts, predicted, edges = (np.bincount(bins, weights, N_BINS) for weights in (None, found, truth))
    with np.errstate(invalid="ignore"):
        return predicted / counts, edges / counts, counts


def calibration_error(predicted: Array, fraction: Array, counts: Array) -> float:
    """Mean over pairs of the distance between predicted and true share in the pair's bin."""
    return float(np.nansum(np.abs(predicted - fraction) * counts) / counts.sum())


def show_reliability(rows: list[dict[str, Any]]) -> str:
    """Two tables for people."""
    bins = []
    for row in (row for row in rows if row["posterior"] == "sampler"):
        shares = zip(row["counts"], row["mean_predicted"], row["fraction_true"], strict=True)
        for number, (count, *measured) in enumerate(shares):
            name = f"{number / N_BINS:.1f} to {(number + 1) / N_BINS:.1f}"
            bins.append([row["filter"], name, count, *(measured if count else [None, None])])
    errors = [[row["filter"], row["posterior"], row["calibration_error"], *row["by_chance"]] for row in rows]
    return "\n\n".join(
        [
            table(["filter", "probabilities", "pairs", "mean probability", "share of edges"], bins, ".3f"),
            table(
                ["filter", "posterior", "calibration error", "by chance alone: median", "95% quantile"], errors, ".3f"
            ),
        ]
    )


# 4. Every kind of graph.


def judge_or_crash(kind: SimulatedKind, seed: int) -> dict[str, Any]:
    """Judge one system; a fit that raises counts as a crash, and the benchmark goes on."""
    try:
        return judge(kind, seed)
    except Exception as error:
        return {"kind": kind.name, "system": seed, "error": repr(error)}


def simulate_kinds(kinds: Sequence[SimulatedKind], n_systems: int, n_jobs: int) -> list[dict[str, Any]]:
    """A row for each kind."""
    rows = []
    for kind in kinds:
        judged = Parallel(n_jobs)(delayed(judge_or_crash)(kind, seed) for seed in range(n_systems))
        crashed = [one for one in judged if "error" in one]
        for one in crashed:
            print(one, flush=True)
        rows.append(summarise_kind(kind, [one for one in judged if "error" not in one], len(crashed)))
        print(rows[-1], flush=True)
    return rows


def show_kinds(rows: list[dict[str, Any]]) -> str:
    """A table for people; standard errors are clustered by system."""
    names = [f"{name} {level:.0%}" for name in ("theta", "strengths", "noise") for level in LEVELS]
    lines = []
    for row in rows:
        shares = [None if np.isnan(row[name][0]) else f"{row[name][0]:.2f} ± {row[name][1]:.2f}" for name in names]
        wrong, chance = (f"{row[name][0]:.3f} ± {row[name][1]:.3f}" for name in ("sure but wrong", "ECE by chance"))
        lines.append([row["kind"], *shares, wrong, row["expected"], row["ECE"], chance, row["warned"], row["crashed"]])
    head = ["kind", *names, "sure but wrong", "expected", "ECE", "by chance", "warned", "crashed"]
    n_fits = rows[0]["systems"] + rows[0]["crashed"]
    return f"""\
{n_fits} default fits of each kind: shares of the intervals that hold the truth, share of sure pairs (above .95 or
below .05) that are wrong and what their probabilities say of it, and the calibration error of all pairs.

{table(head, lines, ["", *[""] * len(names), "", ".3f", ".3f", "", ".2f", ""])}"""


PARTS: dict[str, tuple[Callable[..., Any], Callable[..., Any], str]] = {
    "marginals": (summarise_marginals, show_marginals, "Edge probabilities against enumeration"),
    "ranks": (summarise_ranks, show_ranks, "Ranks and intervals of theta and of the noise level"),
    "reliability": (summarise_reliability, show_reliability, "Reliability of the edge probabilities"),
}


def run(enumerated: Sequence[Kind], n_systems: int, n_simulations: int, n_jobs: int) -> dict[str, list[dict[str, Any]]]:
    """The rows of all tables."""
    compared = [delayed(compare)(kind, index) for index in range(n_systems) for kind in enumerated]
    simulated = [delayed(simulate)(kind, index) for index in range(n_simulations) for kind in SIMULATED]
    parallel = Parallel(n_jobs=n_jobs)
    lines = {"marginals": list(itertools.chain(*parallel(compared))), "ranks": parallel(simulated)}
    lines["reliability"] = lines["ranks"]
    return {name: list(summarise(lines[name])) for name, (summarise, _, _) in PARTS.items()}


def main() -> None:
    """Read the command line."""
    parser = command_line(__doc__, quick="one system of five nodes and ten simulations of each filter", n_jobs=True)
    parser.add_argument("--n-systems", type=int, default=8, help="enumerated systems of each of four kinds")
    parser.add_argument("--n-simulations", type=int, default=150, help="simulated systems of each filter")
    parser.add_argument("--n-of-each-kind", type=int, default=100, help="simulated systems of each kind of graph")
    names = [kind.name for kind in KINDS]
    parser.add_argument("--kinds", nargs="*", default=names, choices=names, metavar="KIND", help="of graphs, in part 4")
    parser.add_argument("--only-kinds", action="store_true", help="part 4 alone")
    arguments = parser.parse_args()
    sizes = arguments.n_systems, arguments.n_simulations, arguments.n_of_each_kind
    if min(sizes) < 1:
        parser.error("--n-systems, --n-simulations and --n-of-each-kind should be at least 1")
    suffix, enumerated, chosen = "", ENUMERATED, [kind for kind in KINDS if kind.name in arguments.kinds]
    if arguments.quick:
        suffix, enumerated, sizes, chosen = "_quick", ENUMERATED[1::2], (1, 10, 2), list(KINDS[::7])
    if not arguments.only_kinds:
        rows = run(enumerated, *sizes[:2], arguments.n_jobs)
        shown = "\n\n".join(f"## {title}\n\n{show(rows[part])}" for part, (_, show, title) in PARTS.items())
        publish(f"calibration{suffix}", shown, rows)
    if chosen:
        of_kinds = simulate_kinds(chosen, sizes[2], arguments.n_jobs)
        publish(f"calibration_of_kinds{suffix}", show_kinds(of_kinds), of_kinds)


if __name__ == "__main__":
    main()
