"""Run many chains: in batches of fixed size, over any number of workers, with the same result."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from joblib import Parallel, delayed
from torch import Tensor

from .._known_edges import KnownEdges
from .._torch import torch_threads
from .._validation import FloatArray
from ..filters import GraphFilter
from ..priors._base import GraphPrior
from ..samplers import (
    AnnealingSettings,
    ChainNoise,
    ChainState,
    Denoiser,
    Problem,
    annealed_langevin,
    edge_flip_gibbs,
    initial_state,
    sweep_schedule,
)

__all__ = ["BATCH", "ChainDraws", "Reader", "SamplingTask", "batches_of", "run_chains"]

# Chains in a batch. It must not depend on the number of workers, as sums round differently in batches of other sizes.
BATCH = 16
# The share of the sweeps, the last ones, that counts as draws from the posterior.
_KEPT_SHARE = 0.4
# Into how many parts the edge-flip sampler divides the unknown pairs, where the prior can take the others for known.
_N_PARTS = 5


class ChainDraws(NamedTuple):
    """What a batch of chains has drawn, after what came before the kept draws was dropped."""

    graphs: npt.NDArray[np.int8]  # (chains, draws, unknown pairs), zeros and ones
    theta: FloatArray  # (chains, draws, parameters)
    noise_std: FloatArray  # (chains, draws)
    log_likelihood: FloatArray  # (chains, draws)
    log_prior: FloatArray  # (chains, draws), up to a constant; zero where the algorithm does not tell
    edge_probability: FloatArray  # (chains, unknown pairs)
    trace_sigma: FloatArray  # (steps,) the noise level of every recorded step, the dropped ones included
    trace_log_likelihood: FloatArray  # (chains, steps)
    trace_theta: FloatArray  # (chains, steps, parameters)


@dataclass(frozen=True)
class SamplingTask:
    """All that a worker needs, in numpy, so that it can be sent anywhere."""

    inputs: FloatArray
    outputs: FloatArray
    known: KnownEdges
    filter: GraphFilter
    prior: GraphPrior | None  # None: a prior score of zero
    evidence: FloatArray | None  # log-odds of every pair beside the prior's
    settings: AnnealingSettings
    algorithm: str
    device: torch.device

    @property
    def n_recorded_steps(self) -> int:
        """How many steps a chain records: noise levels of Langevin dynamics, or sweeps."""
        return len(self.settings.sigmas if self.algorithm == "langevin" else sweep_schedule(self.settings))

    def problem(self, dtype: torch.dtype = torch.float32) -> Problem:
        """The question in tensors."""
        return Problem.from_numpy(self.inputs, self.outputs, self.known, self.filter, self.device, dtype)

    def predict(self, adjacency: npt.NDArray[Any], theta: FloatArray) -> FloatArray:
        """The outputs (experiments, nodes) of one system, without noise."""
        problem = self.problem(torch.float64)
        graph, parameters = (
            torch.tensor(array[None], dtype=torch.float64, device=self.device) for array in (adjacency, theta)
        )
        with torch.no_grad(), torch_threads(1):
            return _numpy(self.filter.apply(graph, parameters, problem.inputs)[0])

    def denoiser(self) -> Denoiser | None:
        """The prior's denoiser, told what is known and corrected by the evidence beside it."""
        if not self.known.n_unknown:
            return lambda adjacency, sigma, known=None: adjacency
        if self.prior is None:
            return None
        dtype = torch.float32
        known = torch.tensor(self.known.mask, dtype=dtype, device=self.device)
        denoise = self.prior.bind(self.known.n_nodes, self.device, dtype, known)
        if self.evidence is None:
            return denoise
        evidence = torch.tensor(self.evidence, dtype=dtype, device=self.device)
        return _with_evidence(denoise, evidence)


def _with_evidence(denoise: Denoiser, evidence: Tensor) -> Denoiser:
    def corrected(adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
        return torch.sigmoid(torch.logit(denoise(adjacency, sigma, known), eps=1e-6) + evidence)

    return corrected


# What a reader of a run is told after every step: how probable every unknown pair is to each chain (chains, unknown
# pairs), theta (chains, parameters) and the noise level (chains,). It says whether that was enough.
Reader = Callable[[Tensor, Tensor, Tensor], bool]


def batches_of(seeds: Sequence[int]) -> list[Sequence[int]]:
    """The seeds, batch by batch."""
    return [seeds[start : start + BATCH] for start in range(0, len(seeds), BATCH)]


def run_chains(
    task: SamplingTask, batches: Sequence[Sequence[int]], n_jobs: int | None, readers: Sequence[Reader | None]
) -> Generator[ChainDraws]:
    """Run one chain for each seed, tell each batch's reader of its steps, and yield the batches in order."""
    if len(batches) == 1:
        yield _run_batch(task, batches[0], readers[0])  # not worth a worker
        return
    # Processes by default: steps are short, and threads would spend their time waiting for the interpreter.
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    with torch_threads(1):
        yield from parallel(delayed(_run_batch)(task, *work) for work in zip(batches, readers, strict=True))


def _run_batch(task: SamplingTask, seeds: Sequence[int], reader: Reader | None) -> ChainDraws:
    with torch_threads(1), torch.no_grad():
        problem = task.problem()
        noise = ChainNoise(seeds, task.device)
        state = initial_state(problem, noise, task.settings.noise_std)
        if task.algorithm == "langevin":
            return _langevin_draws(task, problem, noise, state, reader)
        return _edge_flip_draws(task, problem, noise, state, reader)


def _langevin_draws(
    task: SamplingTask, problem: Problem, noise: ChainNoise, state: ChainState, reader: Reader | None
) -> ChainDraws:
    traces = []
    for reached, trace in annealed_langevin(problem, task.denoiser(), task.settings, noise, state):
        state = reached
        traces.append(trace)
        if reader is not None and reader(_rounded(state.pairs), state.theta, state.noise_std):
            break
    rounded = _rounded(state.pairs)
    log_likelihood = problem.log_likelihood(problem.assemble(rounded), state.theta, state.noise_std)
    finite = torch.isfinite(state.pairs).all(1)
    log_likelihood = torch.where(finite, log_likelihood, torch.nan)
    return ChainDraws(
        graphs=_numpy(rounded)[:, None].astype(np.int8),
        theta=_numpy(state.theta)[:, None],
        noise_std=_numpy(state.noise_std)[:, None],
        log_likelihood=_numpy(log_likelihood)[:, None],
        log_prior=np.zeros((len(rounded), 1)),
        edge_probability=_numpy(rounded),
        trace_sigma=np.array([trace.sigma for trace in traces]),
        trace_log_likelihood=np.stack([_numpy(trace.log_likelihood) for trace in traces], axis=1),
        trace_theta=np.stack([_numpy(trace.theta) for trace in traces], axis=1),
    )


def _rounded(pairs: Tensor) -> Tensor:
    """The last step of the algorithm: project every pair onto 0 or 1."""
    return (pairs > 0.5).to(pairs.dtype)


def _edge_flip_draws(
    task: SamplingTask, problem: Problem, noise: ChainNoise, state: ChainState, reader: Reader | None
) -> ChainDraws:
    denoise = task.denoiser()
    if denoise is None:  # a prior score of zero says nothing of any pair
        denoise = _indifferent
    start = state._replace(pairs=(noise.uniform(problem.n_unknown) < state.pairs).to(state.pairs.dtype))
    sweeps = []
    takes_known = task.prior is None or task.prior.conditions_on_known
    settings = task.settings._replace(n_parts=_N_PARTS if takes_known else 1)
    for sweep in edge_flip_gibbs(problem, denoise, settings, noise, start):
        sweeps.append(sweep)
        if reader is not None and reader(sweep.edge_probability, sweep.state.theta, sweep.state.noise_std):
            break
    kept = sweeps[-max(1, round(_KEPT_SHARE * len(sweeps))) :]
    return ChainDraws(
        graphs=np.stack([_numpy(sweep.state.pairs) for sweep in kept], axis=1).astype(np.int8),
        theta=np.stack([_numpy(sweep.state.theta) for sweep in kept], axis=1),
        noise_std=np.stack([_numpy(sweep.state.noise_std) for sweep in kept], axis=1),
        log_likelihood=np.stack([_numpy(sweep.log_likelihood) for sweep in kept], axis=1),
        log_prior=np.stack([_numpy(sweep.log_prior) for sweep in kept], axis=1),
        edge_probability=np.mean([_numpy(sweep.edge_probability) for sweep in kept], axis=0),
        trace_sigma=np.array([sweep.sigma for sweep in sweeps]),
        trace_log_likelihood=np.stack([_numpy(sweep.log_likelihood) for sweep in sweeps], axis=1),
        trace_theta=np.stack([_numpy(sweep.state.theta) for sweep in sweeps], axis=1),
    )


def _indifferent(adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
    return torch.full_like(adjacency, 0.5)


def _numpy(tensor: Tensor) -> npt.NDArray[Any]:
    return tensor.double().cpu().numpy()
