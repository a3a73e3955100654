"""A prior learned from graphs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import TransformerMixin, _fit_context
from sklearn.callback import CallbackSupportMixin, with_callbacks
from sklearn.utils import Tags, check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from .._torch import draw_seeds, resolve_device, seeded_generator, torch_threads
from .._validation import FloatArray, check_graphs
from ..nn import (
    ARCHITECTURES,
    Epoch,
    NoiseLaw,
    TrainingSettings,
    build_network,
    denoising_losses,
    read_edpgnn_checkpoint,
    restore_network,
    train_network,
)
from ..samplers import sample_prior
from ._base import Denoiser, GraphPrior
from ._files import read_weights, write_weights

__all__ = ["GraphPriorScore"]

# The network that takes any noise level is trained beyond the schedule's ends: a sampler may start from more noise
# than the paper's, and below the lower end a pair's own value leaves nothing to learn.
_TRAINED_BEYOND = 3.0
_LITTLE_NOISE = 0.12
_SCORE_DRAWS = 4


class GraphPriorScore(CallbackSupportMixin, TransformerMixin, GraphPrior):  # type: ignore[misc]
    """What networks of a kind look like, learned from examples by denoising score matching.

    Parameters
    ----------
    architecture : {"ppgn", "edp-gnn"}, default="ppgn"
        The network. "edp-gnn" is the paper's; "ppgn" knows that graphs are binary, sees second-order structure, takes
        any noise level and can be told which pairs are known.
    n_levels : int, default=10
        Noise levels, evenly spaced, at which `transform` and `score` judge, and which "edp-gnn" is trained for.
    sigma_max, sigma_min : float, default=0.5 and 0.03
        The largest and the smallest of them.
    max_epochs : int, default=100
        Passes over the training graphs. Fewer than 50 batches count as part of a pass.
    max_time : float or None, default=None
        Seconds after which training ends; the learning rate is annealed to fit. None: no limit.
    batch_size : int, default=32
        Graphs in a batch. Graphs of different sizes never share one.
    learning_rate : float, default=3e-3
        The highest learning rate of the schedule.
    validation_fraction : float, default=0.1
        Share of the graphs that is held out to choose the best weights. 0: none, the last loss counts.
    n_iter_no_change : int or None, default=None
        Stop early after this many epochs without a better validation loss. None: never.
    warm_start : bool, default=False
        Whether `fit` goes on from the weights of the last one.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".
    random_state : int, RandomState or None, default=None
        Makes the training reproducible.

    Attributes
    ----------
    weights_ : dict of str to ndarray
        The trained weights.
    sigmas_ : ndarray of shape (n_levels,)
        Noise levels, largest first.
    loss_history_ : dict of str to list of float
        "training", "validation" and "seconds", one entry an epoch.
    n_iter_ : int
        Epochs run.
    size_range_ : tuple of two ints
        The smallest and the largest training graph.
    typical_loss_ : tuple of two floats
        Mean and standard deviation of the graphs' losses, by which an implausible network is recognised.

    See Also
    --------
    load_prior : Priors that come with the package.
    ErdosRenyiPrior : A prior that needs no training.

    Examples
    --------
    >>> from sklearn_graphid import GraphPriorScore
    >>> from sklearn_graphid.datasets import make_grid_graphs
    >>> graphs = make_grid_graphs(20, min_nodes=9, max_nodes=16, min_side=3, max_side=4, random_state=0)
    >>> prior = GraphPriorScore(max_epochs=2, random_state=0).fit(graphs)
    >>> prior.transform(graphs).shape
    (20, 10)
    """

    _parameter_constraints = {
        "architecture": [StrOptions(set(ARCHITECTURES))],
        "n_levels": [Interval(Integral, 1, None, closed="left")],
        "sigma_max": [Interval(Real, 0, None, closed="neither")],
        "sigma_min": [Interval(Real, 0, None, closed="neither")],
        "max_epochs": [Interval(Integral, 1, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "warm_start": ["boolean"],
        "device": [str],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        architecture: str = "ppgn",
        n_levels: int = 10,
        sigma_max: float = 0.5,
        sigma_min: float = 0.03,
        max_epochs: int = 100,
        max_time: float | None = None,
        batch_size: int = 32,
        learning_rate: float = 3e-3,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = None,
        warm_start: bool = False,
        device: str = "cpu",
        random_state: Any = None,
    ):
        self.architecture = architecture
        self.n_levels = n_levels
        self.sigma_max = sigma_max
        self.sigma_min = sigma_min
        self.max_epochs = max_epochs
        self.max_time = max_time
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.warm_start = warm_start
        self.device = device
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        tags.requires_fit = True
        return tags

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, graphs: Any, y: Any = None) -> Self:
        """Learn from graphs.

        Parameters
        ----------
        graphs : list of arrays, sparse matrices or networkx graphs
            Undirected, unweighted graphs without self-loops, of any mix of sizes.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted prior.
        """
        graphs = check_graphs(graphs)
        sigmas = self._check_schedule()
        device = resolve_device(self.device)
        split_seed, start_seed, training_seed, judging_seed = draw_seeds(self.random_state, 4)
        training, validation = _split(graphs, self.validation_fraction, split_seed)
        network = self._starting_network(sigmas, start_seed)
        epochs = train_network(
            network, training, validation, self._noise_law(sigmas), self._training_settings(), training_seed, device
        )
        best, history = self._run(epochs)
        self.sigmas_ = np.array(sigmas)
        self.network_settings_ = dict(network.settings)  # type: ignore[arg-type]
        self.weights_ = {name: value.cpu().numpy().copy() for name, value in best.items()}
        self.loss_history_ = history
        self.n_iter_ = len(history["training"])
        self._describe_training(training, validation or training, judging_seed)
        return self

    def _check_schedule(self) -> list[float]:
        if self.sigma_min > self.sigma_max:
            raise ValueError(
                f"sigma_min={self.sigma_min!r} is above sigma_max={self.sigma_max!r}; expected the smaller one."
            )
        return [float(sigma) for sigma in np.linspace(self.sigma_max, self.sigma_min, self.n_levels)]

    def _starting_network(self, sigmas: Sequence[float], seed: int) -> torch.nn.Module:
        if self.warm_start and hasattr(self, "weights_"):
            return restore_network(self.architecture, self.network_settings_, self.weights_).requires_grad_(True)
        settings = {} if self.architecture == "ppgn" else {"sigmas": sigmas}
        return build_network(self.architecture, settings, seed)

    def _noise_law(self, sigmas: Sequence[float]) -> NoiseLaw:
        if self.architecture == "edp-gnn":
            return NoiseLaw(sigmas[-1], sigmas[0], tuple(sigmas))
        return NoiseLaw(min(_LITTLE_NOISE, sigmas[0]), _TRAINED_BEYOND * sigmas[0])

    def _training_settings(self) -> TrainingSettings:
        return TrainingSettings(
            max_epochs=self.max_epochs,
            max_time=self.max_time,
            batch_size=self.batch_size,
            learning_rate=self.learning_rate,
            patience=self.n_iter_no_change,
            known_share=2 / 3,
        )

    def _run(self, epochs: Iterable[Epoch]) -> tuple[dict[str, Tensor], dict[str, list[float]]]:
        """Follow the training to its end, report to callbacks, and keep what was best when interrupted."""
        history: dict[str, list[float]] = {"training": [], "validation": [], "seconds": []}
        best: dict[str, Tensor] = {}
        root = self._init_callback_context(max_subtasks=None)
        root.call_on_fit_task_begin(estimator=self)
        try:
            for epoch in epochs:
                history["training"].append(epoch.training_loss)
                history["validation"].append(epoch.validation_loss)
                history["seconds"].append(epoch.seconds)
                best = epoch.state.best
                step = root.subcontext(task_name="epoch")
                step.call_on_fit_task_begin(estimator=self)
                if step.call_on_fit_task_end(estimator=self):
                    break
        except KeyboardInterrupt:
            if not best:
                raise
            warnings.warn(
                f"training was interrupted after {len(history['training'])} epochs; the best weights so far are kept.",
                UserWarning,
                stacklevel=3,
            )
        root.call_on_fit_task_end(estimator=self)
        return best, history

    def _describe_training(self, training: list[FloatArray], judged: list[FloatArray], seed: int) -> None:
        sizes = [len(graph) for graph in training]
        self.size_range_ = (min(sizes), max(sizes))
        losses = self._losses(judged[:200], seed).mean(1)
        self.typical_loss_ = (float(losses.mean()), float(losses.std()))

    def _network(self, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Any:
        check_is_fitted(self, "weights_")
        return restore_network(self.architecture, self.network_settings_, self.weights_, device, dtype)

    def bind(self, n_nodes: int, device: torch.device, dtype: torch.dtype, known: Tensor | None = None) -> Denoiser:
        network = self._network(device, dtype)
        if not network.uses_known:
            known = None

        def denoise(adjacency: Tensor, sigma: float) -> Tensor:
            levels = torch.full((len(adjacency),), sigma, dtype=dtype, device=device)
            clean: Tensor = network.denoise(adjacency, levels, known)
            return clean

        return denoise

    def check_sigmas(self, sigmas: Sequence[float]) -> None:
        check_is_fitted(self, "weights_")
        if self.architecture == "ppgn":
            return
        for sigma in sigmas:
            # The published checkpoints round their levels to eight digits.
            if np.abs(self.sigmas_ - sigma).min() > 1e-6 * sigma:
                levels = ", ".join(f"{level:.4g}" for level in self.sigmas_)
                raise ValueError(
                    f"the prior was trained for the noise levels {levels}, and {sigma:.4g} is not among them. Use "
                    f"n_levels={len(self.sigmas_)}, sigma_max={self.sigmas_[0]:.4g} and "
                    f"sigma_min={self.sigmas_[-1]:.4g}, or a prior with architecture='ppgn', which takes any level."
                )

    def _losses(self, graphs: list[FloatArray], seed: int = 0) -> FloatArray:
        device = resolve_device(self.device)
        with torch_threads(1):
            losses = denoising_losses(
                self._network(device), graphs, [float(s) for s in self.sigmas_], _SCORE_DRAWS, seed, device
            )
        return np.asarray(losses.double().numpy())

    def transform(self, graphs: Any) -> FloatArray:
        """Denoising loss of every graph at every noise level.

        Parameters
        ----------
        graphs : list of arrays, sparse matrices or networkx graphs
            The graphs to judge.

        Returns
        -------
        ndarray of shape (n_graphs, n_levels)
            Low where the graph looks like the training graphs. The noise is the same at every call.
        """
        check_is_fitted(self, "weights_")
        return self._losses(check_graphs(graphs))

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Names of the columns of `transform`.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
            One name for each noise level.
        """
        check_is_fitted(self, "weights_")
        return np.array([f"denoising_loss_{sigma:.4g}" for sigma in self.sigmas_], dtype=object)

    def score(self, graphs: Any, y: Any = None) -> float:
        """How well the prior knows these graphs.

        Parameters
        ----------
        graphs : list of arrays, sparse matrices or networkx graphs
            The graphs to judge.
        y : None
            Ignored.

        Returns
        -------
        float
            Minus the mean denoising loss: higher is better.
        """
        return -float(self.transform(graphs).mean())

    def sample(self, n_samples: int = 1, n_nodes: int | None = None, random_state: Any = None) -> list[FloatArray]:
        """Draw new graphs from the prior.

        Parameters
        ----------
        n_samples : int, default=1
            How many.
        n_nodes : int or None, default=None
            Their size. None: each takes a size between the smallest and the largest training graph.
        random_state : int, RandomState or None, default=None
            Makes the draw reproducible.

        Returns
        -------
        list of ndarray of shape (n_nodes, n_nodes)
            Adjacency matrices.
        """
        check_is_fitted(self, "weights_")
        for name, value, least in (("n_samples", n_samples, 1), ("n_nodes", n_nodes, 2)):
            if value is not None and (not isinstance(value, Integral) or value < least):
                raise ValueError(f"{name}={value!r}; expected an integer of at least {least}.")
        rng = check_random_state(random_state)
        low, high = (n_nodes, n_nodes) if n_nodes is not None else self.size_range_
        sizes = rng.randint(low, high + 1, size=n_samples)
        seed = draw_seeds(rng, 1)[0]
        device = resolve_device(self.device)
        graphs: list[FloatArray | None] = [None] * n_samples
        with torch.inference_mode(), torch_threads(1):
            for size in np.unique(sizes):
                places = np.flatnonzero(sizes == size)
                denoise = self.bind(int(size), device, torch.float32)
                generator = seeded_generator(seed + int(size))
                drawn = sample_prior(denoise, len(places), int(size), self._sampling_sigmas(), generator, device)
                for place, graph in zip(places, drawn.double().cpu().numpy(), strict=True):
                    graphs[place] = graph
        return [graph for graph in graphs if graph is not None]

    def _sampling_sigmas(self) -> list[float]:
        if self.architecture == "edp-gnn":
            return [float(sigma) for sigma in self.sigmas_]
        return [float(s) for s in np.geomspace(_TRAINED_BEYOND * self.sigmas_[0], _LITTLE_NOISE, 30)]

    def save(self, path: str | Path) -> None:
        """Write the prior to a safetensors file.

        Parameters
        ----------
        path : str or Path
            The file. An existing one is replaced.
        """
        check_is_fitted(self, "weights_")
        parameters = self.get_params(deep=False)
        if not isinstance(parameters["random_state"], Integral | None):
            parameters["random_state"] = None  # a generator has no JSON form, and its state is spent
        facts = {
            "parameters": {name: _plain(value) for name, value in parameters.items()},
            "network_settings": self.network_settings_,
            "sigmas": [float(sigma) for sigma in self.sigmas_],
            "size_range": [int(size) for size in self.size_range_],
            "typical_loss": list(self.typical_loss_),
            "loss_history": {k: [None if math.isnan(v) else v for v in vs] for k, vs in self.loss_history_.items()},
        }
        write_weights(path, self.weights_, facts)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a prior that `save` wrote. Nothing in the file is executed.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        GraphPriorScore
            The fitted prior.
        """
        weights, facts = read_weights(path)
        try:
            prior = cls(**facts["parameters"])
            prior._validate_params()
            prior.network_settings_ = dict(facts["network_settings"])
            prior.sigmas_ = np.array(facts["sigmas"], dtype=np.float64)
            smallest, largest = facts["size_range"]
            prior.size_range_ = (int(smallest), int(largest))
            mean, deviation = facts["typical_loss"]
            prior.typical_loss_ = (float(mean), float(deviation))
            history = facts["loss_history"]
            prior.loss_history_ = {k: [math.nan if v is None else float(v) for v in history[k]] for k in history}
            prior.weights_ = weights
            prior.n_iter_ = len(prior.loss_history_.get("training", []))
            prior._network()
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{str(path)!r} does not describe a prior that this release knows: {error}") from error
        return prior

    @classmethod
    def from_edpgnn_checkpoint(cls, path: str | Path) -> Self:
        """Read a checkpoint of the published EDP-GNN implementation. Nothing in the file is executed.

        Parameters
        ----------
        path : str or Path
            A ".pth" file.

        Returns
        -------
        GraphPriorScore
            A fitted prior with `architecture="edp-gnn"`. The size of its training graphs is not on record.
        """
        settings, state, sigmas = read_edpgnn_checkpoint(path)
        settings = {name: value for name, value in settings.items() if name != "n_levels"}
        prior = cls("edp-gnn", n_levels=len(sigmas), sigma_max=sigmas[0], sigma_min=sigmas[-1])
        prior.network_settings_ = {"sigmas": list(sigmas), **settings}
        prior.sigmas_ = np.array(sigmas)
        prior.weights_ = {f"network.{name}": value.cpu().numpy().copy() for name, value in state.items()}
        prior.loss_history_ = {"training": [], "validation": [], "seconds": []}
        prior.n_iter_ = 0
        prior.size_range_ = (2, 10**6)
        prior.typical_loss_ = (0.0, math.inf)
        prior._network()
        return prior


def _split(graphs: list[FloatArray], fraction: float, seed: int) -> tuple[list[FloatArray], list[FloatArray]]:
    n_held_out = min(len(graphs) - 1, round(fraction * len(graphs)))
    order = np.random.default_rng(seed).permutation(len(graphs))
    return [graphs[i] for i in order[n_held_out:]], [graphs[i] for i in order[:n_held_out]]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
