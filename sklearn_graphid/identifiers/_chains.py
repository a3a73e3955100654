"""Chains: the task of a run, their draws, running them in batches on workers, and going on from the draws."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from joblib import Parallel, delayed, effective_n_jobs
from torch import Tensor

from .._utils._numbers import FloatArray
from .._utils._torch import torch_threads
from ..graphs import KnownEdges
from ..priors import Denoiser, ErdosRenyiPrior, GraphPrior
from ..priors._trust import Trust, density_from_known, has_both_kinds
from ..samplers import (
    ChainRNG,
    ChainState,
    DensityLaw,
    Draw,
    Kernel,
    Problem,
    RandomSource,
    RefitStrengths,
    StepInfo,
    StrengthStart,
    SweepKernel,
    TemperedDenoiser,
    TrustLaw,
    density_of,
    initial_state,
    run_kernels,
    stuck_chains,
    trust_of,
    weights_of_chains,
)
from ._base import Experiments
from ._estimates import NoiseLevels, free_pairs, weight_matrices

__all__ = [
    "BATCH",
    "ChainDraws",
    "Reader",
    "SamplingTask",
    "batches_of",
    "check_cost",
    "check_same_system",
    "kept_draws",
    "resumed_kernels",
    "run_chains",
    "start_from",
]

# Chains in a batch. It must not depend on the number of workers, as sums round differently in batches of other sizes.
# Two batches make the default number of chains, so that two workers have something to do.
BATCH = 8

# Where chains start, in numpy: pairs (chains, unknown pairs) of zeros and ones, or (chains, free pairs) of strengths;
# theta (chains, parameters) and the noise level (chains,).
ChainStart = tuple[FloatArray, FloatArray, FloatArray]


@dataclass(frozen=True)
class SamplingTask:
    """All that a worker needs, in numpy, so that it can be sent anywhere."""

    experiments: Experiments
    prior: GraphPrior
    evidence: FloatArray | None  # log-odds of every pair beside the prior's
    kernels: tuple[Kernel, ...]
    noise: NoiseLevels
    device: torch.device
    edge_weights: str = "binary"  # or "positive" or "signed"
    trust: Trust | None = None  # in the prior, before the data are seen; None takes the prior as it is
    start: ChainStart | None = None  # None: at random
    fit_intercept: bool = False  # whether each node has a free offset
    noise_distribution: str = "gaussian"  # or "student-t"

    @property
    def has_strengths(self) -> bool:
        """Whether edges have strengths, and are not all alike."""
        return self.edge_weights != "binary"

    @property
    def n_steps(self) -> int:
        """Number of steps that a chain takes."""
        return sum(kernel.n_steps for kernel in self.kernels)

    @property
    def needs_autograd(self) -> bool:
        """Whether any part may ask torch for derivatives."""
        is_asked_for = self.experiments.filter.needs_autograd or self.prior.needs_autograd
        return is_asked_for or any(kernel.needs_autograd for kernel in self.kernels)

    def problem(self, dtype: torch.dtype = torch.float32) -> Problem:
        """The question in tensors."""
        data, settings = self.experiments, (self.device, dtype, self.has_strengths, self.noise.relative)
        problem = Problem.from_numpy(data.inputs, data.outputs, data.known, data.filter, *settings)
        if not (self.fit_intercept and self.has_strengths):
            return problem
        # Outputs are complete and centred, and with the offsets integrated out, each takes one measurement.
        n_offsets = int((~np.isnan(data.outputs)).any(0).sum())
        return replace(problem, n_measured=max(1, problem.n_measured - n_offsets))

    def rows_without_copies(self) -> npt.NDArray[np.intp]:
        """The first of all experiments that are equal in inputs and outputs; copies repeat the noise."""
        inputs, outputs = self.experiments.inputs, self.experiments.outputs
        both = np.hstack([inputs, np.nan_to_num(outputs), np.isnan(outputs)])
        return np.sort(np.unique(both, axis=0, return_index=True)[1])

    def without_copies(self) -> SamplingTask:
        """The task with one of all experiments that are copies of each other."""
        data, rows = self.experiments, self.rows_without_copies()
        return replace(self, experiments=replace(data, inputs=data.inputs[rows], outputs=data.outputs[rows]))

    def explained(self, offset: FloatArray, outliers: FloatArray | None) -> SamplingTask:
        """The task with outputs that a system should explain: without offsets (nodes,), and nan where outliers are."""
        outputs = self.experiments.outputs - offset
        if outliers is not None:
            cleaned = np.where(outliers > 0.5, np.nan, outputs)
            outputs = outputs if np.isnan(cleaned).all() else cleaned
        return replace(self, experiments=replace(self.experiments, outputs=outputs))

    def tensor(self, array: npt.ArrayLike) -> Tensor:
        """An array in double precision."""
        return torch.tensor(array, dtype=torch.float64, device=self.device)

    def predict(self, matrix: npt.NDArray[Any], theta: FloatArray, inputs: FloatArray | None = None) -> FloatArray:
        """The outputs (experiments, nodes) of one system, without noise; of the experiments' inputs where None."""
        signals = self.tensor(np.ascontiguousarray(self.experiments.inputs if inputs is None else inputs))
        with torch.no_grad(), torch_threads(1):
            outputs = self.experiments.filter.apply(self.tensor(matrix[None]), self.tensor(theta[None]), signals)
        return _numpy(outputs[0])

    def first_state(self, problem: Problem, rng: RandomSource) -> ChainState:
        """First state of the chains."""
        if self.start is None:
            return initial_state(problem, rng, self.noise.common)
        start = ChainState(*(part.to(problem.inputs.dtype) for part in map(self.tensor, self.start)))
        if self.noise.common is None:
            return start
        return start._replace(noise_std=torch.full_like(start.noise_std, self.noise.common))

    def denoiser(self, n_chains: int, rng: RandomSource) -> Denoiser:
        """The prior's denoiser for many chains, told what is known and corrected by the evidence beside it.

        Where the prior is not to be taken as it is, every chain draws its trust and the density of the unknown pairs
        from what the known pairs say. Of the density, pairs of one kind only say nothing, and the prior is tilted.
        """
        known, dtype = self.experiments.known, torch.float32
        if not known.n_unknown:
            return _unchanged

        def tensors(parts: Iterable[npt.NDArray[Any]]) -> list[Tensor]:
            return [torch.tensor(part, dtype=dtype, device=self.device) for part in parts]

        none = np.zeros(known.mask.shape)
        mask, evidence = tensors([known.mask, none if self.evidence is None else self.evidence])
        has_prior = not (isinstance(self.prior, ErdosRenyiPrior) and self.prior.p is None)
        denoise = self.prior.bind(known.n_nodes, self.device, dtype, mask) if has_prior else None
        if denoise is not None and self.trust is None:
            return denoise if self.evidence is None else _with_evidence(denoise, evidence)
        law = TrustLaw(*tensors(Trust.of(0.0) if self.trust is None else self.trust))
        density_law = DensityLaw(*tensors(density_from_known(known)))
        has_tilt = denoise is not None and not has_both_kinds(known)
        return TemperedDenoiser.of_laws(denoise, evidence, law, density_law, n_chains, rng, has_tilt=has_tilt)


def _unchanged(adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
    return adjacency


def _with_evidence(denoise: Denoiser, evidence: Tensor) -> Denoiser:
    def corrected(adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
        return torch.sigmoid(torch.logit(denoise(adjacency, sigma, known), eps=1e-6) + evidence)

    return corrected


def _numpy(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.double().cpu().numpy()


# Draws.


class ChainDraws(NamedTuple):
    """Draws of chains, in numpy, after what came before the kept draws was dropped."""

    graphs: npt.NDArray[np.int8]  # (chains, draws, unknown pairs), zeros and ones
    theta: FloatArray  # (chains, draws, parameters)
    noise_std: FloatArray  # (chains, draws)
    trust: FloatArray  # (chains, draws) in the prior
    density: FloatArray  # (chains, draws) of the unknown pairs; nan where it is not drawn
    log_likelihood: FloatArray  # (chains, draws)
    log_prior: FloatArray  # (chains, draws), up to a constant; zero where the kernel does not tell
    edge_probability: FloatArray  # (chains, unknown pairs)
    offset: FloatArray  # (chains, nodes) of the outputs, zero where none is drawn
    outlier_probability: FloatArray  # (chains, experiments, nodes), or no numbers where none is drawn
    # (chains, draws, unknown pairs and then known edges of unknown strength), zero where there is no edge; no numbers
    # where edges have no strengths
    strengths: FloatArray
    weight: FloatArray  # (chains,) how much each counts, by the mode it is in; their sum is one
    origin: npt.NDArray[np.int64]  # (chains,) the chain that each goes back to: itself, unless it was restarted
    trace_sigma: FloatArray  # (steps,) the annealing level of every step, the dropped ones included
    trace_log_likelihood: FloatArray  # (chains, steps)
    trace_theta: FloatArray  # (chains, steps, parameters)
    trace_kernel: npt.NDArray[np.int64]  # (steps,) which kernel a step is of

    def mean_of_chains(self, values: FloatArray) -> FloatArray:
        """The weighted mean of values (chains, ...)."""
        mean = np.tensordot(self.weight, values, 1)
        # Weights add up to one but for rounding, and a probability of one and a bit is none.
        return np.asarray(np.clip(mean, values.min(axis=0), values.max(axis=0)))

    def pooled(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values (chains, draws, ...) as (chains x draws, ...), with more copies of what counts more."""
        flat = values.reshape(values.shape[0] * values.shape[1], *values.shape[2:])
        if np.ptp(self.weight) == 0:
            return flat
        ends = np.cumsum(np.repeat(self.weight, values.shape[1])) / values.shape[1]
        return flat[np.searchsorted(ends / ends[-1], (np.arange(len(flat)) + 0.5) / len(flat))]

    def are_finite(self) -> npt.NDArray[np.bool_]:
        """Flags (chains,) of the chains that have not diverged."""
        checked = (self.log_likelihood, self.log_prior, self.noise_std, self.edge_probability, self.theta)
        return np.asarray(np.all([np.isfinite(part).reshape(len(part), -1).all(1) for part in checked], axis=0))

    def of_chains(self, chains: npt.NDArray[np.bool_]) -> ChainDraws:
        """Some of the chains."""
        return self._replace(**{name: getattr(self, name)[chains] for name in _OF_CHAINS})


_OF_STEPS = ("trace_sigma", "trace_kernel")  # all others are (chains, ...)
_OF_CHAINS = tuple(name for name in ChainDraws._fields if name not in _OF_STEPS)


def _joined(batches: Sequence[ChainDraws]) -> ChainDraws:
    """All chains; where a batch was stopped early, the others lose as many draws as it lacks."""
    n_draws = min(batch.log_likelihood.shape[1] for batch in batches)
    n_steps = min(len(batch.trace_sigma) for batch in batches)
    starts = np.cumsum([0, *(len(batch.origin) for batch in batches)])
    batches = [batch._replace(origin=batch.origin + start) for batch, start in zip(batches, starts[:-1], strict=True)]

    def part(batch: ChainDraws, name: str) -> npt.NDArray[Any]:
        values: npt.NDArray[Any] = getattr(batch, name)
        if name in ("edge_probability", "offset", "outlier_probability", "weight", "origin"):
            return values
        return values[:, :n_steps] if name.startswith("trace") else values[:, -n_draws:]

    joined = {name: np.concatenate([part(batch, name) for batch in batches]) for name in _OF_CHAINS}
    return ChainDraws(**joined, **{name: getattr(batches[0], name)[:n_steps] for name in _OF_STEPS})


def kept_draws(batches: Sequence[ChainDraws]) -> tuple[ChainDraws, int, int]:
    """Draws of the chains that neither diverged nor are stuck, weighted by mode, and how many diverged and were stuck.

    If all chains diverged, there are no chains in the result.
    """
    draws = _joined(batches)
    finite = draws.are_finite()
    draws, n_diverged = draws.of_chains(finite), int((~finite).sum())
    if not finite.any():
        return draws, n_diverged, 0
    stuck = stuck_chains(draws.log_likelihood + draws.log_prior)
    draws = draws.of_chains(~stuck)
    weight = weights_of_chains(draws.log_likelihood + draws.log_prior, draws.edge_probability)
    return draws._replace(weight=weight), n_diverged, int(stuck.sum())


# Running.

# Called after every step with the edge probabilities (chains, unknown pairs), theta (chains, parameters), the noise
# level (chains,), what the step is called, and the strengths (chains, free pairs), None where edges have none. It says
# whether to stop.
Reader = Callable[[Tensor, Tensor, Tensor, str, Tensor | None], bool]


def batches_of(seeds: Sequence[int]) -> list[Sequence[int]]:
    """The seeds, batch by batch."""
    return [seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH)]


def check_cost(task: SamplingTask, n_chains: int, n_jobs: int | None) -> float:
    """Return the seconds that strengths take on the CPU, roughly, and zero where edges have none or on a GPU.

    Raise MemoryError where they need more memory than the machine has.
    """
    kernel = task.kernels[-1]
    if not isinstance(kernel, SweepKernel) or task.device.type != "cpu":
        return 0.0
    begin = kernel.begin
    if not isinstance(begin, StrengthStart):
        return 0.0
    problem, n_in_batch, n_batches = task.problem(), min(n_chains, BATCH), -(-n_chains // BATCH)
    n_at_once, memory = min(n_batches, effective_n_jobs(n_jobs)), _machine_memory()
    needed = n_at_once * begin.least_memory(problem, n_in_batch)
    if needed > memory:
        fitting = [n for n in range(1, n_in_batch) if begin.least_memory(problem, n) <= memory]
        fewer = f", or fewer chains (n_chains={fitting[-1]})" if fitting else ""
        raise MemoryError(
            f"strengths of {problem.space.n_free:,} pairs with n_chains={n_chains} and n_jobs={n_jobs} need about "
            f"{needed / 1e9:,.1f} GB of memory, and this machine has {memory / 1e9:,.1f} GB; expected pairs that "
            f"cannot be edges as known (known_mask, with 0 in known_adjacency){fewer}."
        )
    n_refits = kernel.n_sweeps * sum(move.n_moves for move in kernel.moves if isinstance(move, RefitStrengths))
    return float(-(-n_batches // n_at_once) * begin.least_seconds(problem, n_in_batch, n_refits))


def _machine_memory() -> float:
    """Bytes of memory that this process may use; infinite where the system does not tell."""
    try:
        memory = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not on Windows
        return np.inf
    limit = Path("/sys/fs/cgroup/memory.max")  # of a container
    text = limit.read_text().strip() if limit.is_file() else "max"
    return min(memory, float(text)) if text.isdigit() else memory


def run_chains(
    task: SamplingTask, batches: Sequence[Sequence[int]], n_jobs: int | None, readers: Sequence[Reader | None]
) -> Generator[ChainDraws]:
    """Run one chain for each seed, tell each batch's reader of its steps, and yield the batches in order."""
    tasks, end = [], 0
    for batch in batches:
        begin, end = end, end + len(batch)
        tasks.append(task)
        if task.start is not None:
            pairs, theta, noise_std = (part[begin:end] for part in task.start)
            tasks[-1] = replace(task, start=(pairs, theta, noise_std))
    if len(batches) == 1:
        yield _run_batch(tasks[0], batches[0], readers[0])  # not worth a worker
        return
    # Processes by default: steps are short, and threads would spend their time waiting for the interpreter.
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    with torch_threads(1):
        yield from parallel(delayed(_run_batch)(*work) for work in zip(tasks, batches, readers, strict=True))


def _run_batch(task: SamplingTask, seeds: Sequence[int], reader: Reader | None) -> ChainDraws:
    # Inference mode spares small operations a fifth of their time.
    with torch_threads(1), torch.no_grad() if task.needs_autograd else torch.inference_mode():
        # Kernels of different precision would have to hand over chains of one.
        dtype = max((kernel.dtype for kernel in task.kernels), key=lambda dtype: torch.finfo(dtype).bits)
        problem, rng = task.problem(dtype), ChainRNG(seeds, task.device, dtype)
        chain = task.first_state(problem, rng)
        draws: list[Draw] = []
        trace: list[tuple[int, StepInfo, Tensor]] = []
        denoise = task.denoiser(len(seeds), rng)
        for step in run_kernels(problem, denoise, task.kernels, chain, rng):
            theta = step.state.chain.theta
            if not trace or step.number != trace[-1][0]:
                draws = []  # those of the kernel before were on the way to this one
            trace.append((step.number, step.info, theta))
            draws.append(step.kernel.draw(problem, step.state, step.info))
            del draws[: -step.kernel.n_draws]
            noise_std = step.state.chain.noise_std
            told = (step.info.edge_probability, theta, noise_std, step.kernel.step_name, draws[-1].strengths)
            if reader is not None and reader(*told):
                break
        kept = _as_chain_draws(draws, trace, denoise, problem.n_nodes)
        for place, value in task.experiments.filter.fixed_values().items():  # in double precision
            kept.theta[..., place] = kept.trace_theta[..., place] = value
        return kept


def _as_chain_draws(
    draws: list[Draw], trace: list[tuple[int, StepInfo, Tensor]], denoise: Denoiser, n_nodes: int
) -> ChainDraws:
    last, infos = draws[-1].log_likelihood, [info for _, info, _ in trace[-len(draws) :]]
    n_chains, origin = len(last), trace[-1][1].origin
    # Where no step tells of them, they are those of the denoiser.
    trust, density = trust_of(denoise), density_of(denoise)
    trust = torch.ones_like(last) if trust is None else trust
    density = torch.full_like(last, torch.nan) if density is None else density

    def stacked(tensors: Iterable[Tensor]) -> npt.NDArray[Any]:
        return np.stack([_numpy(tensor) for tensor in tensors], axis=1)

    def mean(parts: Iterable[Tensor | None], shape: tuple[int, ...]) -> FloatArray:
        told = [_numpy(part) for part in parts if part is not None]
        return np.asarray(np.mean(told, axis=0)) if told else np.zeros(shape)

    return ChainDraws(
        graphs=stacked(draw.graphs for draw in draws).astype(np.int8),
        theta=stacked(draw.theta for draw in draws),
        noise_std=stacked(draw.noise_std for draw in draws),
        trust=stacked(trust if info.trust is None else info.trust for info in infos),
        density=stacked(density if info.density is None else info.density for info in infos),
        log_likelihood=stacked(draw.log_likelihood for draw in draws),
        log_prior=stacked(draw.log_prior for draw in draws),
        edge_probability=np.mean([_numpy(draw.edge_probability) for draw in draws], axis=0),
        offset=mean((info.offset for info in infos), (n_chains, n_nodes)),
        outlier_probability=mean((info.outlier_probability for info in infos), (n_chains, 0, n_nodes)),
        strengths=stacked(draw.graphs[:, :0] if draw.strengths is None else draw.strengths for draw in draws),
        weight=np.full(n_chains, 1 / n_chains),
        origin=np.arange(n_chains) if origin is None else _numpy(origin).astype(np.int64),
        trace_sigma=np.array([info.sigma for _, info, _ in trace]),
        trace_log_likelihood=stacked(info.log_likelihood for _, info, _ in trace),
        trace_theta=stacked(theta for _, _, theta in trace),
        trace_kernel=np.array([number for number, _, _ in trace]),
    )


# Going on from the draws of an earlier fit (warm start).


def resumed_kernels(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """The kernels that go on from draws of an earlier fit; the others would forget them."""
    return tuple(resumed for kernel in kernels if (resumed := kernel.resumed()) is not None)


def check_same_system(before: SamplingTask, now: SamplingTask) -> None:
    """Refuse to go on from a fit that looked for something else, and name what differs."""
    names = [task.experiments.known.names for task in (before, now)]
    if None not in names and names[0] != names[1] and set(names[0] or ()) == set(names[1] or ()):
        raise ValueError(
            "warm_start=True, but the columns of X are in another order than in the last fit; expected the same "
            "order, or warm_start=False to start from scratch."
        )
    for name, (was, said_before), (is_now, said_now) in zip(
        ("nodes", "directed", "edge_weights", "filter"), _sought(before), _sought(now), strict=True
    ):
        if was != is_now:
            raise ValueError(
                f"warm_start=True, but {name} is now {said_now} and the last fit had {said_before}; expected the same, "
                f"or warm_start=False to start from scratch."
            )


def _sought(task: SamplingTask) -> list[tuple[Any, str]]:
    """Nodes, directions, kind of edges and filter of a task, each with the words for it."""
    known, filter = task.experiments.known, task.experiments.filter
    nodes = known.n_nodes if known.names is None else tuple(known.names)
    listed = ", ".join(repr(node) for node in (known.names or ())[:3])
    shown = f" ({listed}{', ...' if known.n_nodes > 3 else ''})" if listed else ""
    # A function's name, as its address is another one after pickling.
    settings = {name: getattr(value, "__qualname__", repr(value)) for name, value in filter.get_params().items()}
    described = f"{type(filter).__name__}({', '.join(f'{name}={value}' for name, value in settings.items())})"
    others = (known.directed, task.edge_weights)
    return [(nodes, f"{known.n_nodes}{shown}"), *((value, repr(value)) for value in others), (described, described)]


def start_from(
    draws: ChainDraws, before: KnownEdges, known: KnownEdges, n_chains: int, has_strengths: bool
) -> ChainStart:
    """The last draws of an earlier fit, with what is known now in place of what was drawn, as the start of chains.

    Where the earlier fit has kept fewer chains than `n_chains`, or counts some of them more than others, chains share a
    start or take an earlier draw.
    """
    n_kept, n_draws = draws.log_likelihood.shape
    ends = np.cumsum(draws.weight) / draws.weight.sum()
    chains = np.minimum(np.searchsorted(ends, (np.arange(n_chains) + 0.5) / n_chains), n_kept - 1)
    # The last draw of a chain first, then earlier ones: by how many equal numbers stand before each.
    ages = np.arange(n_chains) - np.searchsorted(chains, chains)
    chosen = chains, n_draws - 1 - ages % n_draws
    if has_strengths:
        pairs = free_pairs(known).gather(weight_matrices(draws.strengths[chosen], before))
    else:
        pairs = known.space.gather(before.fill(draws.graphs[chosen]))
    return np.asarray(pairs, dtype=np.float64), draws.theta[chosen], draws.noise_std[chosen]
