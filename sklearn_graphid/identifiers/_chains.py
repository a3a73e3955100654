"""Run many chains: in batches of fixed size, over any number of workers, with the same result."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from joblib import Parallel, delayed, effective_n_jobs
from torch import Tensor

from .._utils._numbers import FloatArray
from .._utils._torch import torch_threads
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
    trust_of,
)
from ._base import Experiments
from ._draws import ChainDraws
from ._fit_quality import rows_without_copies
from ._noise import NoiseLevels
from ._resume import ChainStart

__all__ = ["BATCH", "Reader", "SamplingTask", "batches_of", "check_memory", "expected_seconds", "run_chains"]

# Chains in a batch. It must not depend on the number of workers, as sums round differently in batches of other sizes.
# Two batches make the default number of chains, so that two workers have something to do.
BATCH = 8


@dataclass(frozen=True)
class SamplingTask:
    """All that a worker needs, in numpy, so that it can be sent anywhere."""

    experiments: Experiments
    prior: GraphPrior
    evidence: FloatArray | None  # log-odds of every pair beside the prior's
    kernels: tuple[Kernel, ...]
    noise: NoiseLevels
    device: torch.device
    has_strengths: bool = False  # whether edges have strengths, and are not all alike
    trust: Trust | None = None  # in the prior, before the data are seen; None takes the prior as it is
    start: ChainStart | None = None  # of the chains; None: at random
    fit_intercept: bool = False  # whether each node has a free offset
    noise_distribution: str = "gaussian"  # or "student-t"

    @property
    def n_steps(self) -> int:
        """How many steps a chain takes."""
        return sum(kernel.n_steps for kernel in self.kernels)

    @property
    def needs_autograd(self) -> bool:
        """Whether any part may ask torch for derivatives."""
        is_asked_for = self.experiments.filter.needs_autograd or self.prior.needs_autograd
        return is_asked_for or any(kernel.needs_autograd for kernel in self.kernels)

    def problem(self, dtype: torch.dtype = torch.float32) -> Problem:
        """The question in tensors."""
        problem = problem_of(self.experiments, self.device, dtype, self.has_strengths, self.noise.relative)
        if not (self.fit_intercept and self.has_strengths):
            return problem
        # Outputs are complete and centred, and with the offsets integrated out, each takes one measurement.
        n_offsets = int((~np.isnan(self.experiments.outputs)).any(0).sum())
        return replace(problem, n_measured=max(1, problem.n_measured - n_offsets))

    def without_copies(self) -> SamplingTask:
        """The task with one of all rows that are copies of each other: copies repeat the noise, as if it were none."""
        experiments = self.experiments
        rows = rows_without_copies(experiments.inputs, experiments.outputs)
        once = replace(experiments, inputs=experiments.inputs[rows], outputs=experiments.outputs[rows])
        return replace(self, experiments=once)

    def predict(self, adjacency: npt.NDArray[Any], theta: FloatArray, inputs: FloatArray | None = None) -> FloatArray:
        """The outputs (experiments, nodes) of one system, without noise; of the experiments' inputs where None."""
        inputs = np.ascontiguousarray(self.experiments.inputs if inputs is None else inputs)
        graph, parameters, signals = (
            torch.tensor(array, dtype=torch.float64, device=self.device)
            for array in (adjacency[None], theta[None], inputs)
        )
        with torch.no_grad(), torch_threads(1):
            return _numpy(self.experiments.filter.apply(graph, parameters, signals)[0])

    def of_batches(self, batches: Sequence[Sequence[int]]) -> list[SamplingTask]:
        """The task of each batch, with the start of its own chains."""
        if self.start is None:
            return [self] * len(batches)
        ends = np.cumsum([0, *map(len, batches)])
        return [replace(self, start=self.start.of_chains(slice(*span))) for span in pairwise(ends)]

    def first_state(self, problem: Problem, rng: RandomSource) -> ChainState:
        """Where the chains start."""
        if self.start is None:
            return initial_state(problem, rng, self.noise.common)
        pairs, theta, noise_std = (
            torch.tensor(part, dtype=problem.inputs.dtype, device=self.device) for part in self.start
        )
        if self.noise.common is not None:
            noise_std = torch.full_like(noise_std, self.noise.common)
        return ChainState(pairs, theta, noise_std)

    def denoiser(self, n_chains: int, rng: RandomSource) -> Denoiser:
        """The prior's denoiser for many chains, told what is known and corrected by the evidence beside it.

        Where the prior is not to be taken as it is, every chain draws its trust and the density of the unknown pairs
        from what the known pairs say. Of the density, pairs of one kind only say nothing, and the prior is tilted.
        """
        known = self.experiments.known
        if not known.n_unknown:
            return _unchanged
        dtype = torch.float32

        def tensors(parts: Iterable[npt.NDArray[Any]]) -> list[Tensor]:
            return [torch.tensor(part, dtype=dtype, device=self.device) for part in parts]

        (mask,) = tensors([known.mask])
        (evidence,) = tensors([np.zeros(known.mask.shape) if self.evidence is None else self.evidence])
        has_prior = not (isinstance(self.prior, ErdosRenyiPrior) and self.prior.p is None)
        denoise = self.prior.bind(known.n_nodes, self.device, dtype, mask) if has_prior else None
        if denoise is not None and self.trust is None:
            return denoise if self.evidence is None else _with_evidence(denoise, evidence)
        law = TrustLaw(*tensors(Trust.of(0.0) if self.trust is None else self.trust))
        density_law = DensityLaw(*tensors(density_from_known(known)))
        has_tilt = denoise is not None and not has_both_kinds(known)
        return TemperedDenoiser.of_laws(denoise, evidence, law, density_law, n_chains, rng, has_tilt=has_tilt)


def problem_of(
    experiments: Experiments,
    device: torch.device,
    dtype: torch.dtype = torch.float32,
    has_strengths: bool = False,
    relative_noise: FloatArray | None = None,
) -> Problem:
    """What was measured and what is known, in tensors."""
    parts = (experiments.inputs, experiments.outputs, experiments.known, experiments.filter)
    return Problem.from_numpy(*parts, device, dtype, has_strengths, relative_noise)


def _unchanged(adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
    return adjacency


def _with_evidence(denoise: Denoiser, evidence: Tensor) -> Denoiser:
    def corrected(adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
        return torch.sigmoid(torch.logit(denoise(adjacency, sigma, known), eps=1e-6) + evidence)

    return corrected


# What a reader of a run is told after every step: how probable every unknown pair is to each chain (chains, unknown
# pairs), theta (chains, parameters), the noise level (chains,), what the step is called, and the strengths (chains,
# free pairs), None where edges have none. It says whether to stop.
Reader = Callable[[Tensor, Tensor, Tensor, str, Tensor | None], bool]


def batches_of(seeds: Sequence[int]) -> list[Sequence[int]]:
    """The seeds, batch by batch."""
    return [seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH)]


def expected_seconds(task: SamplingTask, n_chains: int, n_jobs: int | None) -> float:
    """How long strengths take, roughly; zero where edges have none, and for a GPU."""
    kernel, start = task.kernels[-1], _strength_start(task)
    if not isinstance(kernel, SweepKernel) or start is None:
        return 0.0
    n_batches, n_at_once = _batches_at_once(n_chains, n_jobs)
    n_refits = kernel.n_sweeps * sum(move.n_moves for move in kernel.moves if isinstance(move, RefitStrengths))
    return -(-n_batches // n_at_once) * start.least_seconds(task.problem(), min(n_chains, BATCH), n_refits)


def check_memory(task: SamplingTask, n_chains: int, n_jobs: int | None) -> None:
    """Raise MemoryError where strengths of so many pairs need more memory than the machine has."""
    start, memory = _strength_start(task), _machine_memory()
    if start is None or memory is None:
        return
    problem = task.problem()
    _, n_at_once = _batches_at_once(n_chains, n_jobs)
    needed = n_at_once * start.least_memory(problem, min(n_chains, BATCH))
    if needed <= memory:
        return
    fitting = [n for n in range(1, min(n_chains, BATCH)) if start.least_memory(problem, n) <= memory]
    fewer = f", or fewer chains (n_chains={fitting[-1]})" if fitting else ""
    raise MemoryError(
        f"strengths of {problem.space.n_free:,} pairs with n_chains={n_chains} and n_jobs={n_jobs} need about "
        f"{needed / 1e9:,.1f} GB of memory, and this machine has {memory / 1e9:,.1f} GB; expected pairs that cannot be "
        f"edges as known (known_mask, with 0 in known_adjacency){fewer}."
    )


def _strength_start(task: SamplingTask) -> StrengthStart | None:
    """How chains begin whose edges have strengths, on the CPU."""
    kernel = task.kernels[-1]
    if not isinstance(kernel, SweepKernel) or task.device.type != "cpu":
        return None
    return kernel.begin if isinstance(kernel.begin, StrengthStart) else None


def _batches_at_once(n_chains: int, n_jobs: int | None) -> tuple[int, int]:
    """How many batches there are, and how many run at the same time."""
    n_batches = len(batches_of(range(n_chains)))
    return n_batches, min(n_batches, effective_n_jobs(n_jobs))


def _machine_memory() -> float | None:
    """Bytes of memory that this process may use; None where the system does not tell."""
    try:
        memory = float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, ValueError, OSError):  # not on Windows
        return None
    limit = Path("/sys/fs/cgroup/memory.max")  # of a container
    text = limit.read_text().strip() if limit.is_file() else "max"
    return min(memory, float(text)) if text.isdigit() else memory


def run_chains(
    task: SamplingTask, batches: Sequence[Sequence[int]], n_jobs: int | None, readers: Sequence[Reader | None]
) -> Generator[ChainDraws]:
    """Run one chain for each seed, tell each batch's reader of its steps, and yield the batches in order."""
    tasks = task.of_batches(batches)
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
        joined = _joined_draws(draws, trace, trust_of(denoise), density_of(denoise), problem.n_nodes)
        for place, value in task.experiments.filter.fixed_values().items():  # in double precision
            joined.theta[..., place] = joined.trace_theta[..., place] = value
        return joined


def _joined_draws(
    draws: list[Draw],
    trace: list[tuple[int, StepInfo, Tensor]],
    first_trust: Tensor | None,
    first_density: Tensor | None,
    n_nodes: int,
) -> ChainDraws:
    n_chains = len(draws[-1].theta)
    if first_trust is None:
        first_trust = torch.ones_like(draws[-1].log_likelihood)
    if first_density is None:
        first_density = torch.full_like(draws[-1].log_likelihood, torch.nan)
    infos = [info for _, info, _ in trace[-len(draws) :]]

    def stacked(tensors: Sequence[Tensor]) -> npt.NDArray[Any]:
        return np.stack([_numpy(tensor) for tensor in tensors], axis=1)

    return ChainDraws(
        graphs=stacked([draw.graphs for draw in draws]).astype(np.int8),
        theta=stacked([draw.theta for draw in draws]),
        noise_std=stacked([draw.noise_std for draw in draws]),
        trust=stacked([first_trust if info.trust is None else info.trust for info in infos]),
        density=stacked([first_density if info.density is None else info.density for info in infos]),
        log_likelihood=stacked([draw.log_likelihood for draw in draws]),
        log_prior=stacked([draw.log_prior for draw in draws]),
        edge_probability=np.mean([_numpy(draw.edge_probability) for draw in draws], axis=0),
        offset=_mean([info.offset for info in infos], (n_chains, n_nodes)),
        outlier_probability=_mean([info.outlier_probability for info in infos], (n_chains, 0, n_nodes)),
        strengths=stacked([draw.graphs[:, :0] if draw.strengths is None else draw.strengths for draw in draws]),
        weight=np.full(len(draws[-1].log_likelihood), 1 / len(draws[-1].log_likelihood)),
        origin=_origins(trace[-1][1]),
        trace_sigma=np.array([info.sigma for _, info, _ in trace]),
        trace_log_likelihood=stacked([info.log_likelihood for _, info, _ in trace]),
        trace_theta=stacked([theta for _, _, theta in trace]),
        trace_kernel=np.array([number for number, _, _ in trace]),
    )


def _mean(parts: Sequence[Tensor | None], shape: tuple[int, ...]) -> FloatArray:
    """The mean of what steps tell, or zeros of this shape where they do not."""
    told = [_numpy(part) for part in parts if part is not None]
    return np.asarray(np.mean(told, axis=0)) if told else np.zeros(shape)


def _origins(info: StepInfo) -> npt.NDArray[np.int64]:
    return np.arange(len(info.log_likelihood)) if info.origin is None else _numpy(info.origin).astype(np.int64)


def _numpy(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.double().cpu().numpy()
