"""The few places where torch's global state could leak, closed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ._numbers import check_random_state

__all__ = ["check_device", "draw_seeds", "resolve_device", "seeded_generator", "torch_threads"]


_DEVICES = "'auto', 'cpu', 'cuda' or 'cuda:' and a number"


class _ThreadCount:
    """How many Python threads are inside a `torch_threads` block, and torch's number of threads outside of all."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.n_inside = 0
        self.outside = 0
        self.here = threading.local()


_count = _ThreadCount()


@contextmanager
def torch_threads(n_threads: int) -> Iterator[None]:
    """Run a block with `n_threads` torch threads.

    Results differ in their last bits between one thread and two, so numbers that must not depend on `n_jobs` are
    computed under this. torch keeps one number for each thread that has asked, and one for those that are yet to come;
    a thread that enters while another is inside must not take the other's number for the one to put back.
    """
    depth = getattr(_count.here, "depth", 0)
    with _count.lock:
        # Call get_num_threads before set_num_threads: a thread's first get resets its setting.
        current = torch.get_num_threads()
        if not _count.n_inside:
            _count.outside = current
        before = current if depth else _count.outside
        _count.n_inside += 1
        torch.set_num_threads(n_threads)
    _count.here.depth = depth + 1
    try:
        yield
    finally:
        _count.here.depth = depth
        with _count.lock:
            _count.n_inside -= 1
            torch.set_num_threads(before)


def draw_seeds(random_state: Any, n_seeds: int) -> list[int]:
    """Draw independent seeds up front, so that work can be split in any way without changing a result."""
    seeds = check_random_state(random_state).randint(np.iinfo(np.int32).max, size=n_seeds)
    return [int(seed) for seed in seeds]


def seeded_generator(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator of its own, which leaves the global one alone."""
    return torch.Generator(device=device).manual_seed(int(seed))


def check_device(device: Any) -> str:
    """Return the `device` parameter, or raise an error where it is none that is supported on any machine."""
    if not isinstance(device, str):
        raise TypeError(f"device is a {type(device).__name__}; expected {_DEVICES}.")
    if re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", device, flags=re.ASCII):
        return device
    try:
        torch.device(device)
    except (RuntimeError, ValueError) as error:
        raise ValueError(f"device={device[:100]!r} is not a torch device; expected {_DEVICES}.") from error
    # torch knows many more, which nothing here was ever run on.
    raise ValueError(f"device={device[:100]!r} is not supported; expected {_DEVICES}.")


def resolve_device(device: str) -> torch.device:
    """Turn the `device` parameter into a torch device that exists; "auto" is CUDA where there is one, else the CPU."""
    if check_device(device) == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    resolved = torch.device(device)
    if resolved.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r} but torch finds no CUDA device here; expected 'cpu' or 'auto'.")
    if resolved.type == "cuda" and (resolved.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device={device!r} but torch finds only {torch.cuda.device_count()} CUDA device(s) here.")
    return resolved
