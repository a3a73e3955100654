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

__all__ = [
    "Epoch",
    "NoiseLaw",
    "TrainingSettings",
    "TrainingState",
    "denoising_losses",
    "symmetric_normal",
    "train_network",
]

# A small training set is shown several times with fresh noise, until an epoch has this many batches.
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
    """Everything a run needs to go on after an interruption."""

    weights: dict[str, Tensor]
    averaged: dict[str, Tensor]
    best: dict[str, Tensor]
    first_moments: dict[str, Tensor]
    second_moments: dict[str, Tensor]
    n_steps: int


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
    """Training loss of every graph at every level, (graphs, levels), averaged over `n_draws` noise draws."""
    losses = torch.empty(len(graphs), len(sigmas))
    generator = seeded_generator(seed)
    with torch.inference_mode():
        for row, graph in enumerate(graphs):
            clean = torch.tensor(graph, dtype=torch.float32).expand(n_draws, -1, -1)
            for column, sigma in enumerate(sigmas):
                noisy = clean + sigma * symmetric_normal(clean, generator)
                level = torch.full((n_draws,), sigma, device=device)
                losses[row, column] = network.loss(clean.to(device), noisy.to(device), level).mean()
    return losses


def train_network(
    network: nn.Module,
    graphs: Sequence[FloatArray],
    validation: Sequence[FloatArray],
    law: NoiseLaw,
    settings: TrainingSettings,
    seed: int,
    device: torch.device,
    resume: tuple[TrainingState, Sequence[Epoch]] | None = None,
) -> Iterator[Epoch]:
    """Train and yield at the end of every epoch; the caller stops by no longer asking.

    Adam with decoupled weight decay, a warm-up and a cosine to zero over the epochs or, where it runs out sooner,
    over the time; gradients are clipped; what is validated and kept is an exponential average of the weights.
    """
    network = network.to(device)
    buckets = bucket_by_size(graphs, device)
    held_out = _fixed_validation(validation, law, seed)
    optimizer = torch.optim.AdamW(network.parameters(), lr=settings.learning_rate, weight_decay=1e-4)
    averaged = {name: value.detach().clone() for name, value in network.state_dict().items()}
    best, best_loss, stale, n_steps, first_epoch, elapsed = averaged, math.inf, 0, 0, 0, 0.0
    if resume is not None:
        state, past = resume
        averaged, best, n_steps = state.averaged, state.best, state.n_steps
        _restore(network, optimizer, state)
        first_epoch, elapsed = len(past), past[-1].seconds
        for epoch in past:
            best_loss, stale = (_judged(epoch), 0) if epoch.is_best else (best_loss, stale + 1)
    start = time.monotonic() - elapsed
    for number in range(first_epoch, settings.max_epochs):
        generator = seeded_generator(seed + 7919 * (number + 1))
        network.train()
        total, n_graphs = torch.zeros((), dtype=torch.float64), 0
        batches = list(shuffled_batches(buckets, settings.batch_size, generator))
        for index, clean in enumerate(batches):
            progress = _progress(number + index / len(batches), start, settings)
            if progress >= 1:
                break
            rate = settings.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
            optimizer.param_groups[0]["lr"] = rate * min(1.0, (n_steps + 1) / _WARM_UP_STEPS)
            total += len(clean) * _gradient_step(network, optimizer, clean, law, settings, generator)
            n_graphs += len(clean)
            n_steps += 1
            _average(averaged, network, n_steps)
        validation_loss = _validate(network, averaged, held_out, device)
        training_loss = float(total) / max(1, n_graphs)
        seconds = time.monotonic() - start
        judged = training_loss if math.isnan(validation_loss) else validation_loss
        is_best = judged < best_loss
        best_loss, stale = (judged, 0) if is_best else (best_loss, stale + 1)
        if is_best:
            best = {name: value.clone() for name, value in averaged.items()}
        state = _snapshot(network, optimizer, averaged, best, n_steps)
        yield Epoch(number, training_loss, validation_loss, seconds, is_best, state)
        out_of_patience = settings.patience is not None and stale >= settings.patience
        if out_of_patience or _progress(number + 1, start, settings) >= 1:
            return


def _judged(epoch: Epoch) -> float:
    return epoch.training_loss if math.isnan(epoch.validation_loss) else epoch.validation_loss


def _progress(epochs: float, start: float, settings: TrainingSettings) -> float:
    by_epochs = epochs / settings.max_epochs
    if settings.max_time is None:
        return by_epochs
    return max(by_epochs, (time.monotonic() - start) / settings.max_time)


def _gradient_step(
    network: Any,
    optimizer: torch.optim.Optimizer,
    clean: Tensor,
    law: NoiseLaw,
    settings: TrainingSettings,
    generator: torch.Generator,
) -> float:
    sigma = law.draw(len(clean), generator).to(clean)
    noisy = clean + sigma[:, None, None] * symmetric_normal(clean, generator)
    known = None
    if network.uses_known and float(torch.rand((), generator=generator)) < settings.known_share:
        known = random_known(clean, generator)
        noisy = torch.where(known > 0, clean, noisy)
    loss = network.loss(clean, noisy, sigma, known).mean()
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    return float(loss.detach())


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
    current = {name: value.clone() for name, value in network.state_dict().items()}
    network.load_state_dict(averaged)
    network.eval()
    with torch.inference_mode():
        total = sum(float(network.loss(*(t.to(device) for t in part)).double().sum()) for part in held_out)
    network.load_state_dict(current)
    return total / sum(len(part.clean) for part in held_out)


def _snapshot(
    network: nn.Module, optimizer: torch.optim.Optimizer, averaged: Any, best: Any, n_steps: int
) -> TrainingState:
    names = [name for name, _ in network.named_parameters()]
    moments = [optimizer.state.get(parameter, {}) for parameter in network.parameters()]
    firsts = {name: m["exp_avg"] for name, m in zip(names, moments, strict=True) if m}
    seconds = {name: m["exp_avg_sq"] for name, m in zip(names, moments, strict=True) if m}
    weights = {name: value.detach() for name, value in network.state_dict().items()}
    return TrainingState(weights, averaged, best, firsts, seconds, n_steps)


def _restore(network: nn.Module, optimizer: torch.optim.Optimizer, state: TrainingState) -> None:
    network.load_state_dict(state.weights)
    for name, parameter in network.named_parameters():
        if name in state.first_moments:
            optimizer.state[parameter] = {
                "step": torch.tensor(float(state.n_steps)),
                "exp_avg": state.first_moments[name].clone(),
                "exp_avg_sq": state.second_moments[name].clone(),
            }
