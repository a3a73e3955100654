"""Networks by name (with fresh weights, or restored from arrays), and their training by denoising score matching.

Training shows the network noisy graphs of known origin and lets it learn to clean them. A batch holds graphs of one
size, so nothing is padded. Randomness comes from a seed for each epoch, so that a run that was interrupted goes on as
if it had not been.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from .._utils._numbers import FloatArray
from .._utils._torch import seeded_generator, torch_threads
from ..graphs import one_entry_per_pair
from ._edp_gnn import EDPGNN
from ._ppgn import PPGN

__all__ = [
    "ARCHITECTURES",
    "NoiseLaw",
    "TrainingSettings",
    "TrainingState",
    "build_network",
    "check_weights",
    "denoising_losses",
    "graphs_at_once",
    "normal_noise",
    "random_known",
    "restore_network",
    "train_network",
    "uses_known",
]

_NETWORKS: dict[str, Any] = {"ppgn": PPGN, "edp-gnn": EDPGNN}
ARCHITECTURES = tuple(_NETWORKS)
# Of weights, graphs and random numbers, whatever torch's default type is.
FLOAT = torch.float32


# Networks by name.


def graphs_at_once(n_nodes: int, reuses_memory: bool = False) -> int:
    """How many graphs of a size make the fastest batch, per graph."""
    # Under a megabyte for twelve features of every pair: much larger batches fall out of the processor's cache.
    return max(1, (40_000 if reuses_memory else 16_400) // n_nodes**2)


def uses_known(architecture: str) -> bool:
    """Whether a network can be told which pairs carry no noise."""
    return bool(_NETWORKS[architecture].uses_known)


def _on_meta_device(architecture: str, settings: Mapping[str, Any]) -> nn.Module:
    """A network that knows its shapes but has no memory yet, nor drawn a random number."""
    with torch.device("meta"):
        network: nn.Module = _NETWORKS[architecture](**settings)
    return network.float()  # whatever torch's default type is


def build_network(architecture: str, settings: Mapping[str, Any], seed: int) -> nn.Module:
    """Make a network with weights drawn from a seed, without touching the global random numbers."""
    network = _on_meta_device(architecture, settings).to_empty(device="cpu")
    network.reset_parameters(seeded_generator(seed))  # type: ignore[operator]
    return network


def restore_network(
    architecture: str,
    settings: Mapping[str, Any],
    weights: Mapping[str, npt.NDArray[Any]],
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> nn.Module:
    """Rebuild a trained network from plain arrays, ready for use."""
    network = check_weights(architecture, settings, weights)
    # Copies, as a network must not share memory with what it was made from, and arrays may be read-only.
    network.load_state_dict({name: torch.from_numpy(np.array(value)) for name, value in weights.items()}, assign=True)
    return network.to(device=device, dtype=dtype).eval().requires_grad_(False)


def check_weights(architecture: str, settings: Mapping[str, Any], weights: Mapping[str, Any]) -> nn.Module:
    """Make a network without memory whose weights have the names and shapes of these, or raise ValueError."""
    if architecture not in ARCHITECTURES:
        raise ValueError(f"architecture={architecture!r}; expected one of {', '.join(ARCHITECTURES)}.")
    # Building takes time for each layer, of which each has several arrays. Widths cost nothing as long as there is no
    # memory, and without weights of their shapes there never is.
    depths = [settings.get("n_blocks", 1), settings.get("gin_depth", 1), len(settings.get("edge_channels", (2, 2))) - 1]
    if not all(isinstance(depth, int) for depth in depths) or math.prod(depths) > max(1, len(weights)):
        raise ValueError(f"the settings ask for more layers than there are arrays of weights, {len(weights)}.")
    try:
        network = _on_meta_device(architecture, settings)
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"no network {architecture!r} has these settings: {str(error)[:300]}") from error
    expected = {name: tuple(value.shape) for name, value in network.state_dict().items()}
    for name in {**expected, **weights}:
        here = tuple(weights[name].shape) if name in weights else "missing"
        if here != expected.get(name, "missing"):
            raise ValueError(
                f"the weights do not fit the architecture {architecture!r}: the shape of {name[:100]!r} is {here}, "
                f"expected {expected.get(name, 'missing')}."
            )
    return network


# What is shown to a network in training.


class NoiseLaw(NamedTuple):
    """Law of the annealing levels that are shown in training, and how much each counts."""

    lowest: float
    highest: float
    levels: tuple[float, ...] | None = None  # one by one; None: between the two, uniform in the logarithm
    density: float | None = None  # share of edges, for training by cross-entropy; None: all levels count the same

    def draw(self, n_graphs: int, generator: torch.Generator) -> Tensor:
        """An annealing level for each graph."""
        if self.levels is not None:
            levels = torch.tensor(self.levels, dtype=FLOAT)
            return levels[torch.randint(len(self.levels), (n_graphs,), generator=generator)]
        low, high = math.log(self.lowest), math.log(self.highest)
        return torch.exp(low + (high - low) * _uniform((n_graphs,), generator))

    def weight(self, sigma: Tensor) -> Tensor:
        """What the loss at these annealing levels is multiplied by.

        Little noise leaves a loss that is small however much context could still reduce it. Dividing by what remains
        without context would weigh all levels alike, and let rare errors at little noise drown the rest; its square
        root is between the two.
        """
        if self.density is None:
            return torch.ones_like(sigma)
        # Entropy below a thousandth of what no measurement leaves is not worth weighing.
        return _entropy_without_context(sigma, self.density).clamp_min(1e-3).rsqrt()


def _entropy_without_context(sigma: Tensor, density: float) -> Tensor:
    """Cross-entropy of the best guess that sees a pair's own noisy value alone, relative to that of no value at all."""
    normal, weights = _quadrature(64)
    share = torch.tensor([1 - density, density], dtype=torch.float64).clamp(0.01, 0.99)
    clean = torch.tensor([[0.0], [1.0]], dtype=torch.float64)
    level = sigma.double().cpu()[:, None, None]
    log_odds = (clean + level * normal - 0.5) / level**2 + torch.logit(share[1])
    losses = torch.nn.functional.softplus((1 - 2 * clean) * log_odds)
    entropy = (losses * share[:, None] * weights / weights.sum()).sum((-2, -1))
    return (entropy / -(share * share.log()).sum()).to(sigma)


@cache
def _quadrature(n_points: int) -> tuple[Tensor, Tensor]:
    """Points and weights that integrate a function of a standard normal number."""
    normal, weights = np.polynomial.hermite_e.hermegauss(n_points)
    return torch.from_numpy(normal), torch.from_numpy(weights)


def _uniform(shape: Sequence[int], generator: torch.Generator) -> Tensor:
    return torch.rand(shape, generator=generator, dtype=FLOAT)


def normal_noise(like: Tensor, generator: torch.Generator, directed: bool = False) -> Tensor:
    """Standard normal noise with one draw for each pair, or ordered pair, and a zero diagonal."""
    draws = torch.randn(like.shape, generator=generator, device=generator.device, dtype=FLOAT)
    return one_entry_per_pair(draws.to(like), directed)


def random_known(like: Tensor, generator: torch.Generator, directed: bool = False) -> Tensor:
    """A random share of the pairs of each graph, as a mask of ones and zeros."""
    share = _uniform((len(like), 1, 1), generator)
    return one_entry_per_pair((_uniform(like.shape, generator) < share).to(like), directed)


def bucket_by_size(graphs: Sequence[FloatArray], device: torch.device) -> dict[int, Tensor]:
    """Stack graphs of equal size."""
    buckets: dict[int, list[Tensor]] = {}
    for graph in graphs:
        buckets.setdefault(len(graph), []).append(torch.tensor(graph, dtype=FLOAT))
    return {size: torch.stack(members).to(device) for size, members in sorted(buckets.items())}


def shuffled_batches(buckets: Mapping[int, Tensor], batch_size: int, generator: torch.Generator) -> list[Tensor]:
    """Every graph once (or more often, where there are few), in batches of one size and in random order."""
    n_batches = sum(math.ceil(len(members) / batch_size) for members in buckets.values())
    # A small training set is shown several times in an epoch, with fresh noise: as often as would make fifty batches if
    # they were no fuller than those of a single pass.
    repeats = max(1, math.ceil(50 / n_batches))
    chunks: list[tuple[int, Tensor]] = []
    for size, members in buckets.items():
        orders = [torch.randperm(len(members), generator=generator) for _ in range(repeats)]
        chunks += [(size, chunk) for chunk in torch.cat(orders).split(batch_size)]
    shown = (chunks[place] for place in torch.randperm(len(chunks), generator=generator).tolist())
    return [buckets[size][chunk.to(buckets[size].device)] for size, chunk in shown]


# Losses.

# Clean and noisy graphs, their annealing levels and weights, and masks of pairs without noise, each with a row a graph.
_Batch = tuple[Tensor, ...]
_Map = Callable[[Callable[[_Batch], Any], Iterable[_Batch]], Iterable[Any]]


def _in_parts(batch: _Batch, n_graphs: int) -> list[_Batch]:
    """The batch, so many graphs at a time."""
    return list(zip(*(tensor.split(n_graphs) for tensor in batch), strict=True))


def _total_loss(network: Any, batch: _Batch) -> Tensor:
    """The weighted sum over graphs."""
    clean, noisy, sigma, weight, known = batch
    losses: Tensor = network.loss(clean, noisy, sigma, known)
    return (losses * weight).sum()


@contextmanager
def _side_by_side(device: torch.device) -> Iterator[_Map]:
    """A map over parts of a batch, in as many threads as torch may use, each of which computes by itself.

    That is faster than to share the small matrices of a part among threads, and the result does not depend on how many
    there are.
    """
    n_threads = torch.get_num_threads() if device.type == "cpu" else 1
    with torch_threads(1):
        if n_threads == 1:
            yield map
            return
        with ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            yield pool.map


def denoising_losses(
    network: Any, graphs: Sequence[FloatArray], sigmas: Sequence[float], n_draws: int, seed: int, device: torch.device
) -> Tensor:
    """Training loss of every graph at every level, (graphs, levels), averaged over `n_draws` noise draws.

    A batch holds levels and draws of one graph, and graphs of one size meet the same noise. So the losses of a graph do
    not depend on its companions, not even in their last bits, and those of two graphs differ by the graphs alone.
    """
    losses = torch.empty(len(graphs), len(sigmas), dtype=FLOAT)
    levels = torch.tensor(sigmas, dtype=FLOAT).repeat_interleave(n_draws)
    noises: dict[int, Tensor] = {}
    with torch.inference_mode():
        for row, graph in enumerate(graphs):
            n_nodes = len(graph)
            if n_nodes not in noises:
                like = levels.new_empty(len(levels), n_nodes, n_nodes)
                draws = normal_noise(like, seeded_generator(seed + n_nodes), network.directed)
                noises[n_nodes] = levels[:, None, None] * draws
            clean = torch.tensor(graph, dtype=FLOAT).expand_as(noises[n_nodes])
            parts = _in_parts((clean, clean + noises[n_nodes], levels), graphs_at_once(n_nodes))
            loss = torch.cat([network.loss(*(tensor.to(device) for tensor in part)).cpu() for part in parts])
            losses[row] = loss.view(len(sigmas), n_draws).mean(1)
    return losses


# The training loop.


class TrainingSettings(NamedTuple):
    """How to train."""

    max_epochs: int
    max_time: float | None
    batch_size: int
    learning_rate: float
    patience: int | None
    known_share: float  # in this share of the batches some pairs carry no noise, and the network is told which


class TrainingState(NamedTuple):
    """State of a run after an epoch: what the epoch reports, and everything that is needed to go on from here.

    All tensors but `best` are the run's own memory, and change when the run goes on.
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
    training_loss: float
    validation_loss: float  # nan where there are no validation graphs
    seconds: float  # since the run began


def train_network(
    network: nn.Module,
    graphs: Sequence[FloatArray],
    validation: Sequence[FloatArray],
    law: NoiseLaw,
    settings: TrainingSettings,
    seed: int,
    device: torch.device,
    resume: TrainingState | None = None,
) -> Iterator[TrainingState]:
    """Train and yield at the end of every epoch; the caller stops by no longer asking.

    Adam with decoupled weight decay, a warm-up and a cosine to zero over the epochs or, where it runs out sooner,
    over the time; gradients are clipped; what is validated and kept is an exponential average of the weights.

    A run that goes on from the state of an epoch ends with the same bits as one that was never interrupted, unless a
    time limit rules its schedule.
    """
    buckets = bucket_by_size(graphs, device)
    held_out = _fixed_validation(network, validation, law, seed, device)
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
        moments = {name: run.optimizer.state[value] for name, value in network.named_parameters()}
        yield TrainingState(
            weights=network.state_dict(),
            averaged=run.averaged,
            best=best,
            first_moments={name: moment["exp_avg"] for name, moment in moments.items() if moment},
            second_moments={name: moment["exp_avg_sq"] for name, moment in moments.items() if moment},
            n_steps=run.n_steps,
            n_epochs=number + 1,
            n_stale=n_stale,
            best_loss=best_loss,
            training_loss=training_loss,
            validation_loss=validation_loss,
            seconds=time.monotonic() - run.start,
        )


class _Run:
    """The parts of a training run that move: weights, their average, the optimizer, and the clock."""

    def __init__(self, network: nn.Module, law: NoiseLaw, settings: TrainingSettings, resume: TrainingState | None):
        self.network, self.law, self.settings = network, law, settings
        rate = settings.learning_rate
        self.optimizer = torch.optim.AdamW(network.parameters(), lr=rate, weight_decay=1e-4, fused=True)
        self.n_steps, self.start = 0, time.monotonic()
        if resume is not None:
            network.load_state_dict(resume.weights)
            for name, parameter in network.named_parameters():
                if name in resume.first_moments:
                    self.optimizer.state[parameter] = {
                        "step": torch.tensor(float(resume.n_steps), dtype=FLOAT),
                        "exp_avg": resume.first_moments[name].to(parameter.device, copy=True),
                        "exp_avg_sq": resume.second_moments[name].to(parameter.device, copy=True),
                    }
            self.n_steps = resume.n_steps
            self.start -= resume.seconds
        self.averaged = _copy(network.state_dict() if resume is None else resume.averaged)

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
        batches = shuffled_batches(buckets, self.settings.batch_size, generator)
        with _side_by_side(batches[0].device) as spread:
            for index, clean in enumerate(batches):
                progress = self.progress(number + index / len(batches))
                if progress >= 1 and n_graphs > 0:
                    break
                rate = self.settings.learning_rate * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
                self.optimizer.param_groups[0]["lr"] = rate * min(1.0, (self.n_steps + 1) / 100)  # the warm-up
                total += len(clean) * self._step(clean, generator, spread)
                n_graphs += len(clean)
                self.n_steps += 1
                _average(self.averaged, self.network, self.n_steps)
        return total / n_graphs

    def _step(self, clean: Tensor, generator: torch.Generator, spread: _Map) -> float:
        sigma = self.law.draw(len(clean), generator).to(clean)
        directed = bool(self.network.directed)
        noisy = clean + sigma[:, None, None] * normal_noise(clean, generator, directed)
        known = torch.zeros_like(clean)
        if self.network.uses_known and float(_uniform((), generator)) < self.settings.known_share:
            known = random_known(clean, generator, directed)
            noisy = torch.where(known > 0, clean, noisy)
        loss = _set_gradients(self.network, (clean, noisy, sigma, self.law.weight(sigma), known), spread)
        nn.utils.clip_grad_norm_(self.network.parameters(), 1.0)
        self.optimizer.step()
        return loss


def _copy(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in weights.items()}


def _set_gradients(network: Any, batch: _Batch, spread: _Map) -> float:
    """Set the gradient of the mean loss, from a few graphs at a time, as their features then stay in the cache."""
    n_graphs, n_nodes, _ = batch[0].shape
    at_once = min(n_graphs, graphs_at_once(n_nodes)) if network.independent else n_graphs
    if network.independent and 3 * n_graphs > graphs_at_once(n_nodes):
        at_once = min(at_once, -(-n_graphs // 2))  # two threads have something to do, unless that is very little
    parameters = list(network.parameters())

    def gradients(part: _Batch) -> tuple[Tensor, tuple[Tensor, ...]]:
        loss = _total_loss(network, part) / n_graphs
        return loss.detach(), torch.autograd.grad(loss, parameters)

    losses, parts = zip(*spread(gradients, _in_parts(batch, at_once)), strict=True)
    for parameter, *shares in zip(parameters, *parts, strict=True):
        parameter.grad = sum(shares[1:], start=shares[0])
    return float(sum(losses))


def _average(averaged: dict[str, Tensor], network: nn.Module, n_steps: int) -> None:
    # The average forgets its beginning: over n steps it reaches back a tenth of them, and a thousand at most.
    share = 1 - min(0.999, n_steps / (n_steps + 10))
    weights = network.state_dict()
    torch._foreach_lerp_([averaged[name] for name in weights], list(weights.values()), share)


def _fixed_validation(
    network: Any, validation: Sequence[FloatArray], law: NoiseLaw, seed: int, device: torch.device
) -> list[_Batch]:
    """Noisy validation graphs, the same ones at every epoch, so that losses compare."""
    generator = seeded_generator(seed)
    held_out: list[_Batch] = []
    # Up to four noise draws for each graph, as long as this makes no more than 500 noisy graphs.
    n_draws = min(4, max(1, 500 // max(1, len(validation))))
    for n_nodes, members in bucket_by_size(validation, torch.device("cpu")).items():
        clean = members.repeat(n_draws, 1, 1)
        sigma = law.draw(len(clean), generator)
        noisy = clean + sigma[:, None, None] * normal_noise(clean, generator, network.directed)
        batch = (clean, noisy, sigma, law.weight(sigma), torch.zeros_like(clean))
        at_once = graphs_at_once(n_nodes) if network.independent else 64
        held_out += _in_parts(tuple(tensor.to(device) for tensor in batch), at_once)
    return held_out


def _validate(network: Any, averaged: dict[str, Tensor], held_out: list[_Batch], device: torch.device) -> float:
    if not held_out:
        return math.nan
    current = _copy(network.state_dict())
    network.load_state_dict(averaged)
    network.eval()

    def loss(part: _Batch) -> float:
        with torch.inference_mode():  # holds for the thread that it is said in
            return float(_total_loss(network, part))

    with _side_by_side(device) as spread:
        total = sum(spread(loss, held_out))
    network.load_state_dict(current)
    return total / sum(len(part[0]) for part in held_out)
