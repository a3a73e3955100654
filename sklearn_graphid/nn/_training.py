"""Denoising score matching: show the network noisy graphs of known origin, and let it learn to clean them.

A batch holds graphs of one size, so nothing is padded. Randomness comes from a seed for each epoch, so that a run
that was interrupted goes on as if it had not been.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._torch import seeded_generator
from .._validation import FloatArray
from ._networks import graphs_at_once

__all__ = [
    "Epoch",
    "NoiseLaw",
    "TrainingSettings",
    "TrainingState",
    "denoising_losses",
    "symmetric_normal",
    "train_network",
]

# A small training set is shown several times in an epoch, with fresh noise: as often as would make this many batches
# if they were no fuller than those of a single pass.
_FEWEST_BATCHES = 50
_WARM_UP_STEPS = 100
_AVERAGING = 0.999
# Noise draws for each validation graph: the same ones at every epoch, so that losses compare.
_VALIDATION_DRAWS = 4


class NoiseLaw(NamedTuple):
    """Which noise levels are shown in training.

    `levels` names them one by one; None draws them between `lowest` and `highest`, uniformly in their logarithm.
    """

    lowest: float
    highest: float
    levels: tuple[float, ...] | None = None

    def draw(self, n_graphs: int, generator: torch.Generator) -> Tensor:
        """A noise level for each graph."""
        if self.levels is not None:
            return torch.tensor(self.levels)[torch.randint(len(self.levels), (n_graphs,), generator=generator)]
        low, high = math.log(self.lowest), math.log(self.highest)
        return torch.exp(low + (high - low) * torch.rand(n_graphs, generator=generator))


class TrainingSettings(NamedTuple):
    """How to train."""

    max_epochs: int
    max_time: float | None
    batch_size: int
    learning_rate: float
    patience: int | None
    known_share: float  # in this share of the batches some pairs carry no noise, and the network is told which


class TrainingState(NamedTuple):
    """Everything a run needs to go on after an interruption.

    All but `best` is the run's own memory, and changes when the run goes on.
    """

    weights: dict[str, Tensor]
    averaged: dict[str, Tensor]
    best: dict[str, Tensor]
    first_moments: dict[str, Tensor]
    second_moments: dict[str, Tensor]
    n_steps: int
    n_epochs: int
    n_stale: int  # epochs since the best one
    best_loss: float
    seconds: float


class Epoch(NamedTuple):
    """What an epoch reports."""

    number: int
    training_loss: float
    validation_loss: float  # nan where there are no validation graphs
    seconds: float  # since the run began
    is_best: bool
    state: TrainingState


def symmetric_normal(like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal noise with one draw for each pair and a zero diagonal."""
    draws = torch.randn(like.shape, generator=generator, device=generator.device)
    upper = torch.triu(draws, 1).to(like)
    return upper + upper.mT


def random_known(like: Tensor, generator: torch.Generator) -> Tensor:
    """A random share of the pairs of each graph, as a mask of ones and zeros."""
    share = torch.rand(len(like), 1, 1, generator=generator)
    upper = torch.triu((torch.rand(like.shape, generator=generator) < share).float(), 1).to(like)
    return upper + upper.mT


def bucket_by_size(graphs: Sequence[FloatArray], device: torch.device) -> dict[int, Tensor]:
    """Stack graphs of equal size."""
    buckets: dict[int, list[Tensor]] = {}
    for graph in graphs:
        buckets.setdefault(len(graph), []).append(torch.tensor(graph, dtype=torch.float32))
    return {size: torch.stack(members).to(device) for size, members in sorted(buckets.items())}


def shuffled_batches(buckets: Mapping[int, Tensor], batch_size: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Every graph once (or more often, where there are few), in batches of one size and in random order."""
    n_batches = sum(math.ceil(len(members) / batch_size) for members in buckets.values())
    repeats = max(1, math.ceil(_FEWEST_BATCHES / n_batches))
    chunks: list[tuple[int, Tensor]] = []
    for size, members in buckets.items():
        orders = [torch.randperm(len(members), generator=generator) for _ in range(repeats)]
        chunks += [(size, chunk) for chunk in torch.cat(orders).split(batch_size)]
    for index in torch.randperm(len(chunks), generator=generator).tolist():
        size, chunk = chunks[index]
        yield buckets[size][chunk.to(buckets[size].device)]


def denoising_losses(
    network: Any, graphs: Sequence[FloatArray], sigmas: Sequence[float], n_draws: int, seed: int, device: torch.device
) -> Tensor:
    """Training loss of every graph at every level, (graphs, levels), averaged over `n_draws` noise draws.

    A batch holds levels and draws of one graph, and graphs of one size meet the same noise. So the losses of a graph do
    not depend on its companions, not even in their last bits, and those of two graphs differ by the graphs alone.
    """
    losses = torch.empty(len(graphs), len(sigmas))
    levels = torch.tensor(sigmas, dtype=torch.float32).repeat_interleave(n_draws)
    noises: dict[int, Tensor] = {}
    with torch.inference_mode():
        for row, graph in enumerate(graphs):
            n_nodes = len(graph)
            if n_nodes not in noises:
                draws = symmetric_normal(torch.empty(len(levels), n_nodes, n_nodes), seeded_generator(seed + n_nodes))
                noises[n_nodes] = levels[:, None, None] * draws
            clean = torch.tensor(graph, dtype=torch.float32).expand_as(noises[n_nodes])
            noisy = clean + noises[n_nodes]
            parts = zip(*(part.split(graphs_at_once(n_nodes)) for part in (clean, noisy, levels)), strict=True)
            loss = torch.cat([network.loss(*(tensor.to(device) for tensor in part)).cpu() for part in parts])
            losses[row] = loss.view(len(sigmas), n_draws).mean(1)
    return losses


def train_network(
    network: nn.Module,
    graphs: Sequence[FloatArray],
    validation: Sequence[FloatArray],
    law: NoiseLaw,
    settings: TrainingSettings,
    seed: int,
    device: torch.device,
    resume: TrainingState | None = None,
) -> Iterator[Epoch]:
    """Train and yield at the end of every epoch; the caller stops by no longer asking.

    Adam with decoupled weight decay, a warm-up and a cosine to zero over the epochs or, where it runs out sooner,
    over the time; gradients are clipped; what is validated and kept is an exponential average of the weights.

    A run that goes on from the state of an epoch ends with the same bits as one that was never interrupted, unless a
    time limit rules its schedule.
    """
    buckets = bucket_by_size(graphs, device)
    held_out = _fixed_validation(validation, law, seed)
    run = _Run(network.to(device), law, settings, resume)
    best, best_loss, n_stale, first = _copy(run.averaged), math.inf, 0, 0
    if resume is not None:
        best, best_loss, n_stale, first = resume.best, resume.best_loss, resume.n_stale, resume.n_epochs
    for number in range(first, settings.max_epochs):
        out_of_patience = settings.patience is not None and n_stale >= settings.patience
        if out_of_patience or (run.n_steps > 0 and run.progress(number) >= 1):
            return
        training_loss = run.train_epoch(number, buckets, seeded_generator(seed + 7919 * (number + 1)))
        validation_loss = _validate(network, run.averaged, held_out, device)
        judged = training_loss if math.isnan(validation_loss) else validation_loss
        is_best = judged < best_loss
        if is_best:
            best, best_loss = _copy(run.averaged), judged
        n_stale = 0 if is_best else n_stale + 1
        state = run.state(best, best_loss, n_stale, number + 1)
        yield Epoch(number, training_loss, validation_loss, state.seconds, is_best, state)


class _Run:
    """The parts of a training run that move: weights, their average, the optimizer, and the clock."""

    def __init__(self, network: nn.Module, law: NoiseLaw, settings: TrainingSettings, resume: TrainingState | None):
        self.network, self.law, self.settings = network, law, settings
        self.optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=1e-4)
        self.averaged = _copy(network.state_dict())
        self.n_steps = 0
        self.start = time.monotonic()
        if resume is not None:
            self._restore(resume)

    def _restore(self, state: TrainingState) -> None:
        self.network.load_state_dict(state.weights)
        for name, value in state.averaged.items():
            self.averaged[name].copy_(value)
        for name, parameter in self.network.named_parameters():
            if name in state.first_moments:
                self.optimizer.state[parameter] = {
                    "step": torch.tensor(float(state.n_steps)),
                    "exp_avg": state.first_moments[name].to(parameter.device, copy=True),
                    "exp_avg_sq": state.second_moments[name].to(parameter.device, copy=True),
                }
        self.n_steps = state.n_steps
        self.start -= state.seconds

    def state(self, best: dict[str, Tensor], best_loss: float, n_stale: int, n_epochs: int) -> TrainingState:
        moments = {name: self.optimizer.state[value] for name, value in self.network.named_parameters()}
        return TrainingState(
            weights=self.network.state_dict(),
            averaged=self.averaged,
            best=best,
            first_moments={name: moment["exp_avg"] for name, moment in moments.items() if moment},
            second_moments={name: moment["exp_avg_sq"] for name, moment in moments.items() if moment},
            n_steps=self.n_steps,
            n_epochs=n_epochs,
            n_stale=n_stale,
            best_loss=best_loss,
            seconds=time.monotonic() - self.start,
        )

    def progress(self, epochs: float) -> float:
        """How much of the schedule is over, after so many epochs."""
        by_epochs = epochs / self.settings.max_epochs
        if self.settings.max_time is None:
            return by_epochs
        return max(by_epochs, (time.monotonic() - self.start) / self.settings.max_time)

    def train_epoch(self, number: int, buckets: Mapping[int, Tensor], generator: torch.Generator) -> float:
        """Show every graph, or as many as there is time for, and return their mean loss."""
        self.network.train()
        total, n_graphs = 0.0, 0
        batches = list(shuffled_batches(buckets, self.settings.batch_size, generator))
        for index, clean in enumerate(batches):
            progress = self.progress(number + index / len(batches))
            if progress >= 1 and n_graphs > 0:
                break
            rate = self.settings.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
            self.optimizer.param_groups[0]["lr"] = rate * min(1.0, (self.n_steps + 1) / _WARM_UP_STEPS)
            total += len(clean) * _gradient_step(
                self.network, self.optimizer, clean, self.law, self.settings.known_share, generator
            )
            n_graphs += len(clean)
            self.n_steps += 1
            _average(self.averaged, self.network, self.n_steps)
        return total / n_graphs


def _copy(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in weights.items()}


def _gradient_step(
    network: Any,
    optimizer: torch.optim.Optimizer,
    clean: Tensor,
    law: NoiseLaw,
    known_share: float,
    generator: torch.Generator,
) -> float:
    sigma = law.draw(len(clean), generator).to(clean)
    noisy = clean + sigma[:, None, None] * symmetric_normal(clean, generator)
    known = None
    if network.uses_known and float(torch.rand((), generator=generator)) < known_share:
        known = random_known(clean, generator)
        noisy = torch.where(known > 0, clean, noisy)
    optimizer.zero_grad(set_to_none=True)
    loss = _accumulate_gradients(network, clean, noisy, sigma, known)
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return loss


def _accumulate_gradients(network: Any, clean: Tensor, noisy: Tensor, sigma: Tensor, known: Tensor | None) -> float:
    """Gradient of the mean loss of a batch, a few graphs at a time, as their features then stay in the cache."""
    at_once = graphs_at_once(clean.shape[-1]) if network.independent else len(clean)
    total = 0.0
    for start in range(0, len(clean), at_once):
        part = slice(start, start + at_once)
        loss = network.loss(clean[part], noisy[part], sigma[part], None if known is None else known[part])
        loss = loss.sum() / len(clean)
        loss.backward()
        total += float(loss.detach())
    return total


def _average(averaged: dict[str, Tensor], network: nn.Module, n_steps: int) -> None:
    # The average forgets its beginning: over n steps it reaches back a tenth of them, and a thousand at most.
    share = 1 - min(_AVERAGING, n_steps / (n_steps + 10))
    with torch.no_grad():
        for name, value in network.state_dict().items():
            averaged[name].lerp_(value, share)


class _HeldOut(NamedTuple):
    clean: Tensor
    noisy: Tensor
    sigma: Tensor


def _fixed_validation(validation: Sequence[FloatArray], law: NoiseLaw, seed: int) -> list[_HeldOut]:
    generator = seeded_generator(seed)
    held_out = []
    for members in bucket_by_size(validation, torch.device("cpu")).values():
        clean = members.repeat(_VALIDATION_DRAWS, 1, 1)
        sigma = law.draw(len(clean), generator)
        noisy = clean + sigma[:, None, None] * symmetric_normal(clean, generator)
        parts = zip(clean.split(64), noisy.split(64), sigma.split(64), strict=True)
        held_out += [_HeldOut(*part) for part in parts]
    return held_out


def _validate(network: Any, averaged: dict[str, Tensor], held_out: list[_HeldOut], device: torch.device) -> float:
    if not held_out:
        return math.nan
    current = _copy(network.state_dict())
    network.load_state_dict(averaged)
    network.eval()
    with torch.inference_mode():
        total = sum(float(network.loss(*(t.to(device) for t in part)).double().sum()) for part in held_out)
    network.load_state_dict(current)
    return total / sum(len(part.clean) for part in held_out)
