"""A sampler from outside the package: one class is enough, and the runner knows nothing of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import networkx as nx
import numpy as np
import torch

from sklearn_graphid import ErdosRenyiPrior, LangevinSystemIdentifier
from sklearn_graphid.datasets import hide_edges, make_system
from sklearn_graphid.samplers import ChainState, Kernel, LangevinKernel, StepInfo


class FlipState(NamedTuple):
    chain: ChainState


@dataclass(frozen=True)
class MetropolisKernel(Kernel):
    """Flip one random pair at a time, by Metropolis, with theta and the noise level as they are."""

    step_name: ClassVar[str] = "round of flips"
    remedy: ClassVar[str] = "raise n_chains"

    n_rounds: int
    probability: float  # of an edge, a priori

    @property
    def n_steps(self):
        return self.n_rounds

    @property
    def n_draws(self):
        return self.n_rounds // 2

    def init(self, problem, denoise, chain, rng):
        return FlipState(chain._replace(pairs=(chain.pairs > 0.5).to(chain.pairs.dtype)))

    def step(self, problem, denoise, state, rng):
        pairs, theta, noise_std = state.chain
        log_odds = torch.logit(torch.tensor(self.probability))
        log_likelihood = problem.log_likelihood(problem.assemble(pairs), theta, noise_std)
        for pair in range(problem.n_unknown):
            tried = pairs.clone()
            tried[:, pair] = 1 - tried[:, pair]
            there = problem.log_likelihood(problem.assemble(tried), theta, noise_std)
            gain = there - log_likelihood + (2 * tried[:, pair] - 1) * log_odds
            accepted = rng.uniform().log() < gain
            pairs = torch.where(accepted[:, None], tried, pairs)
            log_likelihood = torch.where(accepted, there, log_likelihood)
        info = StepInfo(0.0, pairs, log_likelihood, log_odds * pairs.sum(1))
        return FlipState(ChainState(pairs, theta, noise_std)), info


class MetropolisIdentifier(LangevinSystemIdentifier):
    """Langevin dynamics, then the kernel above."""

    def _kernels(self, prior, n_unknown, noise_std):
        langevin, _ = super()._kernels(prior, n_unknown, noise_std)
        assert isinstance(langevin, LangevinKernel)
        return langevin, MetropolisKernel(30, prior.p)


def test_a_kernel_of_the_users_runs_like_the_packages():
    graph = nx.to_numpy_array(nx.lollipop_graph(4, 4))
    X, Y = make_system(graph, "heat", [0.5], 40, random_state=0)
    known = hide_edges(graph, 0.6, random_state=0)
    settings = {"prior": ErdosRenyiPrior(0.3), "noise_std": 1.0, "random_state": 0, "n_chains": 12}
    fitted = MetropolisIdentifier("heat", **settings).fit(X, Y, known)
    np.testing.assert_array_equal(fitted.adjacency_, graph)
    np.testing.assert_array_equal(np.unique(fitted.diagnostics_["kernel"], return_counts=True)[1], [10, 30])
    assert fitted.sample(3, random_state=0)[0].shape == (3, 8, 8)
    by_workers = MetropolisIdentifier("heat", **settings, n_jobs=2).fit(X, Y, known)
    np.testing.assert_array_equal(by_workers.edge_probabilities_, fitted.edge_probabilities_)


def test_parts_that_differentiate_may_and_the_others_run_without_what_it_costs():
    """A prior of the user's that asks for a gradient; the package's own parts are run in torch's inference mode."""
    modes = []

    class Differentiating(ErdosRenyiPrior):
        def bind(self, n_nodes, device, dtype, known=None):
            plain = super().bind(n_nodes, device, dtype, known)

            def denoise(adjacency, sigma, known=None):
                modes.append(torch.is_inference_mode_enabled())
                if self.needs_autograd:
                    with torch.enable_grad():
                        leaf = adjacency.detach().requires_grad_()
                        (gradient,) = torch.autograd.grad(0.5 * leaf.square().sum(), leaf)
                    torch.testing.assert_close(gradient, adjacency)
                return plain(adjacency, sigma, known)

            return denoise

    class Differentiated(Differentiating):
        needs_autograd = True

    ring = nx.to_numpy_array(nx.cycle_graph(6))
    X, Y = make_system(ring, "heat", [0.5], 10, random_state=0)
    known = hide_edges(ring, 0.5, random_state=0)
    settings = {"n_chains": 2, "n_levels": 2, "n_steps": 1, "n_sweeps": 4, "random_state": 0}
    fits = [LangevinSystemIdentifier("heat", kind(0.4), **settings) for kind in (Differentiating, Differentiated)]
    without, with_gradients = (fit.fit(X, Y, known).edge_probabilities_ for fit in fits)
    assert set(modes[: len(modes) // 2]) == {True}
    assert set(modes[len(modes) // 2 :]) == {False}
    np.testing.assert_array_equal(without, with_gradients)
