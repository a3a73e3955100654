"""A prior learned from graphs."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
from sklearn.base import TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from .._utils._disk import refusing
from .._utils._libraries import VERBOSE, CallbackSupportMixin, StrOptions, fit_context, shown_progress, with_callbacks
from .._utils._numbers import RANDOM_STATE, FloatArray, NumberInterval, check_integer, check_random_state
from .._utils._torch import draw_seeds, resolve_device, seeded_generator, torch_threads
from .._utils._warnings import warn_caller
from ..graphs import KnownEdges, one_entry_per_pair
from ..graphs._matrices import check_graphs
from ..nn import (
    ARCHITECTURES,
    LOWEST_SIGMA,
    MOST_LEVELS,
    SIGMA_RANGE,
    NoiseLaw,
    TrainingSettings,
    TrainingState,
    build_network,
    denoising_losses,
    graphs_at_once,
    restore_network,
    train_network,
    uses_known,
)
from ._base import Denoiser, GraphPrior
from ._files import (
    ANY_SIZE,
    MOST_EPOCHS,
    PRIOR,
    Arrays,
    Checkpoint,
    fitted_from_facts,
    network_parameters,
    plain,
    prior_facts,
    read_arrays,
    read_edpgnn_checkpoint,
    write_arrays,
)
from ._trust import HIDDEN_NOISE, Calibration, calibrate_surprise, deviations_in_words, surprise

__all__ = ["GraphPriorScore"]


class GraphPriorScore(CallbackSupportMixin, TransformerMixin, GraphPrior):
    """Prior of graphs of a kind, learned from examples by denoising score matching.

    Parameters
    ----------
    architecture : {"ppgn", "edp-gnn"}, default="ppgn"
        The neural network. "edp-gnn" is that of the paper. "ppgn" is built for binary graphs, sees second-order
        structure, and takes any noise level and a mask of known pairs.
    directed : bool, default=False
        Whether the graphs are directed, with an edge from j to i at A[i, j]; "ppgn" only.
    width : int, default=12
        Features of a pair in the network, up to 1,000; "ppgn" only. More can learn more, but make sampling slower.
    n_blocks : int, default=6
        Blocks of the network, up to 100; "ppgn" only.
    graph_context : bool, default=False
        Whether the network sees the density of the graph, and every pair the mean over all pairs, which helps with
        graphs of many kinds; "ppgn" only.
    n_levels : int, default=10
        Number of evenly spaced noise levels, up to 1,000. `transform` and `score` evaluate graphs at these levels, and
        "edp-gnn" is trained for them.
    sigma_max, sigma_min : float, default=0.5 and 0.03
        The largest and the smallest noise level.
    max_epochs : int, default=100
        Passes over the training graphs, up to 100,000. A small set is shown several times per pass, with fresh noise.
    max_time : float or None, default=None
        Seconds after which training ends, those before an interruption included; the learning rate is annealed
        accordingly. None: no limit.
    batch_size : int, default=8
        Number of graphs in a batch, all of one size.
    learning_rate : float, default=3e-3
        The highest learning rate of the schedule.
    validation_fraction : float, default=0.1
        Fraction of the graphs that is held out to select the best weights. With 0, the training loss selects them.
    n_iter_no_change : int or None, default=None
        Stop after this many epochs without a better validation loss. None: never stop early.
    warm_start : bool, default=False
        Whether `fit` continues from the weights of the previous fit, with fresh noise. The epochs add up.
    checkpoint_path : str, Path or None, default=None
        A file that is written after every epoch and removed when training ends. If it exists when `fit` begins, the
        interrupted training goes on, to the same weights as without the interruption (unless `max_time` determined the
        learning rate); a checkpoint of other graphs or settings raises an error. None: no checkpoint.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".
    verbose : bool or "auto", default="auto"
        Whether to show progress with scikit-learn's `ProgressBar`, which needs rich (the extra `progress`). "auto": on
        a terminal, once a fit has taken five seconds.
    random_state : int, RandomState or None, default=None
        Makes the training reproducible, to the last bit. None uses the seeds of the checkpoint, if there is one.

    Attributes
    ----------
    weights_ : dict of str to ndarray
        The trained weights.
    architecture_ : str
        The neural network that the weights belong to.
    sigmas_ : ndarray of shape (n_levels,)
        Noise levels, largest first.
    loss_history_ : dict of str to list of float
        "training", "validation" and "seconds", with one entry per epoch.
    n_iter_ : int
        Number of epochs, including those of the fits that this one continued.
    size_range_ : tuple of two ints
        Number of nodes of the smallest and the largest training graph.
    known_loss_ : dict of str to ndarray, or None
        Losses of training graphs, which `surprise` compares with. None if the network takes no mask of known pairs.
    name_ : str
        The name of a prior that comes with the package, and only there.

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

    # In so many batches some pairs carry no noise, and a network that can be told is told which.
    _known_share = 2 / 3
    needs_autograd = False
    _parameter_constraints = {
        "architecture": [StrOptions(set(ARCHITECTURES))],
        "directed": ["boolean"],
        "width": [NumberInterval(Integral, 1, 1_000, closed="both")],
        "n_blocks": [NumberInterval(Integral, 1, 100, closed="both")],
        "graph_context": ["boolean"],
        "n_levels": [NumberInterval(Integral, 1, MOST_LEVELS, closed="both")],
        "sigma_max": [NumberInterval(Real, *SIGMA_RANGE, closed="both")],
        "sigma_min": [NumberInterval(Real, *SIGMA_RANGE, closed="both")],
        "max_epochs": [NumberInterval(Integral, 1, MOST_EPOCHS, closed="both")],
        "max_time": [NumberInterval(Real, 0, None, closed="neither"), None],
        "batch_size": [NumberInterval(Integral, 1, 2**31 - 1, closed="both")],
        "learning_rate": [NumberInterval(Real, 0, float(np.finfo(np.float32).max), closed="right")],
        "validation_fraction": [NumberInterval(Real, 0, 1, closed="left")],
        "n_iter_no_change": [NumberInterval(Integral, 1, None, closed="left"), None],
        "warm_start": ["boolean"],
        "checkpoint_path": [str, os.PathLike, None],
        "device": [str],
        "verbose": VERBOSE,
        "random_state": RANDOM_STATE,
    }

    def __init__(
        self,
        architecture: str = "ppgn",
        directed: bool = False,
        width: int = 12,
        n_blocks: int = 6,
        graph_context: bool = False,
        n_levels: int = 10,
        sigma_max: float = 0.5,
        sigma_min: float = 0.03,
        max_epochs: int = 100,
        max_time: float | None = None,
        batch_size: int = 8,
        learning_rate: float = 3e-3,
        validation_fraction: float = 0.1,
        n_iter_no_change: int | None = None,
        warm_start: bool = False,
        checkpoint_path: str | os.PathLike[str] | None = None,
        device: str = "cpu",
        verbose: Any = "auto",
        random_state: Any = None,
    ):
        self.architecture = architecture
        self.directed = directed
        self.width = width
        self.n_blocks = n_blocks
        self.graph_context = graph_context
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
        self.checkpoint_path = checkpoint_path
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.non_deterministic = False
        tags.requires_fit = True
        return tags

    # Training.

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, graphs: Any, y: Any = None) -> Self:
        """Train the prior on graphs.

        Parameters
        ----------
        graphs : list of arrays, sparse matrices or networkx graphs
            Unweighted graphs without self-loops, of any mix of sizes; undirected ones unless `directed`.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted prior.
        """
        return self._train(graphs, y, self.warm_start, self.checkpoint_path)

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, graphs: Any, y: Any = None) -> Self:
        """Continue training from the current weights, with one pass over these graphs.

        The pass has its own learning rate schedule, from `learning_rate` to zero, and no graphs are held out.
        `surprise` then compares with these graphs only, so pass a dozen or more.

        Parameters
        ----------
        graphs : list of array-like, sparse matrix or networkx graph
            As in `fit`.
        y : Ignored
            Not used, present for API consistency.

        Returns
        -------
        GraphPriorScore
            The fitted prior.
        """
        return self._train(graphs, y, True, None, max_epochs=1, patience=None, validation_fraction=0.0)

    def _train(
        self, graphs: Any, y: Any, resume: bool, checkpoint_path: str | os.PathLike[str] | None, **changes: Any
    ) -> Self:
        for name, reason in (("directed", "is made for undirected graphs"), ("graph_context", "has no such option")):
            if getattr(self, name) and self.architecture != "ppgn":
                raise ValueError(
                    f"architecture={self.architecture!r} {reason}, but {name}=True; expected architecture='ppgn'."
                )
        graphs = check_graphs(graphs, directed=bool(self.directed))
        validation_fraction = changes.pop("validation_fraction", self.validation_fraction)
        settings = TrainingSettings(
            max_epochs=int(self.max_epochs),  # torch takes no numbers of numpy
            max_time=None if self.max_time is None else float(self.max_time),
            batch_size=int(self.batch_size),
            learning_rate=float(self.learning_rate),
            patience=None if self.n_iter_no_change is None else int(self.n_iter_no_change),
            known_share=self._known_share,
        )._replace(**changes)
        resume = resume and hasattr(self, "weights_")
        sigmas = self._check_schedule(resume)
        device = resolve_device(self.device)
        checkpoint = Checkpoint(checkpoint_path)
        seeds = checkpoint.seeds if self.random_state is None else None
        split_seed, start_seed, training_seed = seeds = seeds or draw_seeds(self.random_state, 3)
        n_held_out = min(len(graphs) - 1, round(validation_fraction * len(graphs)))  # one at least is left to train on
        shuffled = [graphs[i] for i in np.random.default_rng(split_seed).permutation(len(graphs))]
        validation, training = shuffled[:n_held_out], shuffled[n_held_out:]
        network = self._starting_network(sigmas, start_seed, resume)
        # The others do not change how a training ends.
        decisive = self.get_params().keys() - {"warm_start", "checkpoint_path", "device", "verbose", "random_state"}
        checkpoint.claim({name: plain(getattr(self, name)) for name in sorted(decisive)}, seeds, graphs, network)
        n_before = self.n_iter_ if resume else 0
        earlier = self.loss_history_ if resume else {name: [] for name in checkpoint.history}
        begin = earlier["seconds"][-1] if earlier["seconds"] else 0.0
        sizes = [*map(len, graphs), *(self.size_range_ if resume else ())]
        # A training that goes on after `n_before` epochs must see other noise than the first ones.
        later_seed = np.random.SeedSequence((training_seed, n_before)).generate_state(1)[0]
        epochs = train_network(
            network,
            training,
            validation,
            self._noise_law(sigmas, training),
            settings,
            int(later_seed) if n_before else training_seed,
            device,
            checkpoint.state,
        )

        def attributes(weights: Mapping[str, Tensor]) -> dict[str, Any]:
            history = {**checkpoint.history, "seconds": [begin + time for time in checkpoint.history["seconds"]]}
            return {
                "architecture_": self.architecture,
                "network_settings_": dict(network.settings),  # type: ignore[arg-type]
                "weights_": {name: value.detach().cpu().numpy().copy() for name, value in weights.items()},
                "sigmas_": np.array(sigmas),
                "size_range_": (min(sizes), max(sizes)),
                "loss_history_": {name: earlier[name] + history[name] for name in earlier},
                "n_iter_": n_before + len(history["training"]),
                "known_loss_": None,  # to be measured when the training is over
            }

        with shown_progress(self):
            fitted, is_over = self._follow(graphs, y, epochs, settings.max_epochs, checkpoint, attributes)
        # What is typical is measured on graphs that were held out, where there are enough of them.
        judged = validation if len(validation) >= 10 else validation + training
        try:
            fitted["known_loss_"] = self._calibrate(fitted, judged)
        except KeyboardInterrupt:
            warn_caller(
                "interrupted after the training, while its result was completed; this goes on. Interrupt once more to "
                "discard the training."
            )
            fitted["known_loss_"] = self._calibrate(fitted, judged)
        # Only what is complete is assigned: whatever happens before, an earlier fit is as it was.
        self.__dict__.update(fitted)
        self.__dict__.pop("name_", None)  # it is no longer the shipped one
        if is_over:
            checkpoint.remove()
        return self

    def _follow(
        self,
        graphs: list[FloatArray],
        y: Any,
        epochs: Iterable[TrainingState],
        max_epochs: int,
        checkpoint: Checkpoint,
        attributes: Callable[[Mapping[str, Tensor]], dict[str, Any]],
    ) -> tuple[dict[str, Any], bool]:
        """Run a training, and tell callbacks and the checkpoint of every epoch.

        Returns the fitted attributes of the best weights, and False if a KeyboardInterrupt ended the training.
        """
        best = None if checkpoint.state is None else checkpoint.state.best
        # ScoringMonitor asks for targets before it scores; `score` ignores them, so that anything will do.
        data = {"X": graphs, "y": graphs if y is None else y}
        root = self._init_callback_context(max_subtasks=max_epochs)
        root.call_on_fit_task_begin(estimator=self, **data)

        def tell(**arguments: Any) -> bool:
            """Begin and end the task of an epoch; whether a callback wants to stop."""
            step = root.subcontext(task_name="epoch")
            step.call_on_fit_task_begin(estimator=self)
            return bool(step.call_on_fit_task_end(estimator=self, **arguments))

        n_epochs = len(checkpoint.history["training"])
        for _ in range(n_epochs):  # epochs of before the interruption are over as soon as they begin
            tell()
        is_over = True
        try:
            for state in epochs:
                if not math.isfinite(state.training_loss):
                    complaint = f"training diverged in epoch {state.n_epochs}: its loss is {state.training_loss}"
                    if best is None:
                        raise ValueError(f"{complaint}. A lower learning_rate may help.")
                    warn_caller(f"{complaint}; the best weights so far are kept.")
                    break
                best, n_epochs = state.best, state.n_epochs
                checkpoint.write(state)
                if tell(**data, reconstruction_attributes=partial(attributes, best)):
                    break
        except KeyboardInterrupt:
            if best is None:
                raise
            is_over = False
            warn_caller(f"training was interrupted after {n_epochs} epochs; the best weights so far are kept.")
        assert best is not None
        fitted = attributes(best)
        root.call_on_fit_task_end(estimator=self, **data, reconstruction_attributes=lambda: fitted)
        return fitted, is_over

    def _check_schedule(self, resume: bool) -> list[float]:
        if self.sigma_min > self.sigma_max or (self.sigma_min == self.sigma_max and self.n_levels > 1):
            raise ValueError(
                f"sigma_min={self.sigma_min!r} is not below sigma_max={self.sigma_max!r}; expected the smaller one."
            )
        sigmas = [float(sigma) for sigma in np.linspace(self.sigma_max, self.sigma_min, self.n_levels)]
        if not resume:
            return sigmas
        built_from = {"architecture": self.architecture_, **network_parameters(self.network_settings_)}
        for name, value in built_from.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name}={getattr(self, name)!r}, but the weights to go on from are of {name}={value!r}. Set "
                    f"warm_start=False to train anew."
                )
        if self.architecture == "ppgn":
            return sigmas
        if len(sigmas) != len(self.sigmas_) or not np.allclose(sigmas, self.sigmas_, rtol=1e-6, atol=0):
            raise ValueError(
                "n_levels, sigma_max and sigma_min differ from those of the weights to go on from, and an 'edp-gnn' is "
                "made for its annealing levels. Set warm_start=False to train anew."
            )
        return [float(sigma) for sigma in self.sigmas_]

    def _starting_network(self, sigmas: Sequence[float], seed: int, resume: bool) -> torch.nn.Module:
        if resume:
            network: torch.nn.Module = self._network()
            return network.requires_grad_(True)
        if self.architecture == "edp-gnn":
            return build_network(self.architecture, {"sigmas": sigmas}, seed)
        settings = {"width": int(self.width), "n_blocks": int(self.n_blocks)}
        flags = {name: True for name in ("directed", "graph_context") if getattr(self, name)}
        return build_network(self.architecture, settings | flags, seed)

    def _noise_law(self, sigmas: Sequence[float], graphs: list[FloatArray]) -> NoiseLaw:
        if self.architecture == "edp-gnn":
            return NoiseLaw(sigmas[-1], sigmas[0], tuple(sigmas))
        n_entries = sum(len(graph) * (len(graph) - 1) for graph in graphs)
        density = float(sum(graph.sum() for graph in graphs)) / max(1, n_entries)
        return NoiseLaw(*_trained_range(sigmas[0]), density=density)

    def _calibrate(self, fitted: dict[str, Any], graphs: list[FloatArray]) -> Calibration | None:
        """Measure what is typical of graphs like those of the training."""
        if not uses_known(fitted["architecture_"]):
            return None
        network = restore_network(
            fitted["architecture_"], fitted["network_settings_"], fitted["weights_"], resolve_device(self.device)
        )
        with torch_threads(1):
            return calibrate_surprise(network, graphs, float(fitted["sigmas_"][0]))

    # Use as a prior.

    architecture_: str
    network_settings_: dict[str, Any]
    weights_: Arrays
    sigmas_: FloatArray
    size_range_: tuple[int, int]
    known_loss_: Calibration | None

    def _network(self, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Any:
        check_is_fitted(self, "weights_")
        return restore_network(self.architecture_, self.network_settings_, self.weights_, device, dtype)

    @property
    def _is_directed(self) -> bool:
        check_is_fitted(self, "weights_")
        return bool(self.network_settings_.get("directed", False))

    def check_directed(self, directed: bool) -> None:
        if directed == self._is_directed:
            return
        learned, wanted = ("undirected", "directed") if directed else ("directed", "undirected")
        raise ValueError(
            f"the prior was learned from {learned} graphs, but directed={directed}; expected a prior of {wanted} "
            f"graphs, made by GraphPriorScore(directed={directed}).fit(graphs), directed={not directed}, or no prior."
        )

    @property
    def conditions_on_known(self) -> bool:
        """Whether the network was trained with known pairs, which have no noise, as an additional input."""
        check_is_fitted(self, "weights_")
        return uses_known(self.architecture_)

    @property
    def hiding_sigma(self) -> float:
        """An annealing level of the training at which the noisy value of a pair carries almost no information."""
        check_is_fitted(self, "weights_")
        return HIDDEN_NOISE * float(self.sigmas_[0])

    def bind(self, n_nodes: int, device: torch.device, dtype: torch.dtype, known: Tensor | None = None) -> Denoiser:
        network = self._network(device, dtype)
        bound = known

        def denoise(adjacency: Tensor, sigma: float, known: Tensor | None = None, /) -> Tensor:
            levels = torch.full((len(adjacency),), sigma, dtype=dtype, device=device)
            known = bound if known is None else known
            adjacency = adjacency.to(dtype)  # a caller may have made it in torch's default type
            tensors = [adjacency, levels]
            if network.uses_known and known is not None:
                tensors.append(known.to(dtype).expand_as(adjacency))
            # A few graphs at a time stay in the processor's cache, which is twice as fast as all at once.
            parts = (tensor.split(graphs_at_once(n_nodes, network.reuses_memory)) for tensor in tensors)
            return torch.cat([network.denoise(*part) for part in zip(*parts, strict=True)])

        return denoise

    def nearest_sigmas(self, sigmas: Sequence[float]) -> tuple[float, ...]:
        check_is_fitted(self, "weights_")
        if self.architecture_ == "ppgn":
            return tuple(sigmas)
        nearest = np.abs(np.subtract.outer(np.asarray(sigmas), self.sigmas_)).argmin(1)
        return tuple(float(sigma) for sigma in self.sigmas_[nearest])

    def surprise(self, known: KnownEdges) -> float:
        """Compute the distance of a partially known graph from the training graphs, in standard deviations.

        Parameters
        ----------
        known : KnownEdges, or array-like with 0, 1, and nan where unknown
            The known part of the graph.

        Returns
        -------
        float
            Below about 3 for graphs like the training graphs; above 5 the prior may not apply. nan if it cannot be
            computed, because fewer than eight pairs are known or the network does not accept known pairs.
        """
        check_is_fitted(self, "weights_")
        if not isinstance(known, KnownEdges):
            known = KnownEdges.from_array(known, directed=self._is_directed)
        self.check_directed(known.directed)
        if self.known_loss_ is None:
            return math.nan
        with torch_threads(1):
            network = self._network(resolve_device(self.device))
            return surprise(network, known.values, known.mask, float(self.sigmas_[0]), self.known_loss_)

    def was_trained_on_size(self, n_nodes: int) -> bool:
        smallest, largest = self.size_range_
        return self.size_range_ != ANY_SIZE and smallest <= n_nodes <= largest

    def mismatch(self, known: KnownEdges, surprise: float | None = None) -> str:
        smallest, largest = self.size_range_
        if not smallest / 2 <= known.n_nodes <= 2 * largest:
            return f"it has {known.n_nodes} nodes, and the prior was trained on {smallest} to {largest}"
        distance = self.surprise(known) if surprise is None else surprise
        if distance > 5:  # unseen graphs of the prior's own kind stay below in all but one of a thousand cases
            return f"its known part lies {deviations_in_words(distance)} away from the training graphs"
        return ""

    # Judging and drawing graphs.

    def transform(self, graphs: Any) -> FloatArray:
        """Compute the denoising loss of every graph at every annealing level.

        Parameters
        ----------
        graphs : list of arrays, sparse matrices or networkx graphs
            The graphs to evaluate.

        Returns
        -------
        ndarray of shape (n_graphs, n_levels)
            The losses; low for graphs that look like the training graphs. Graphs of one size meet the same noise, in
            every call.
        """
        graphs = check_graphs(graphs, directed=self._is_directed)
        device = resolve_device(self.device)
        with torch_threads(1):
            losses = denoising_losses(self._network(device), graphs, self.sigmas_.tolist(), 4, 0, device)
        return np.asarray(losses.double().numpy())

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Get the names of the columns of `transform`, one for each annealing level; `input_features` is ignored."""
        check_is_fitted(self, "weights_")
        return np.array([f"denoising_loss_{sigma:.4g}" for sigma in self.sigmas_], dtype=object)

    def score(self, graphs: Any, y: Any = None) -> float:
        """Compute the negative mean of `transform` for these graphs; higher is better, and `y` is ignored."""
        return -float(self.transform(graphs).mean())

    def sample(self, n_samples: int = 1, n_nodes: int | None = None, random_state: Any = None) -> list[FloatArray]:
        """Draw new graphs from the prior, by annealed Langevin dynamics.

        Parameters
        ----------
        n_samples : int, default=1
            Number of graphs to draw.
        n_nodes : int or None, default=None
            Number of nodes of each graph. None: drawn uniformly between the smallest and the largest training graph.
        random_state : int, RandomState or None, default=None
            Seed of the random draws.

        Returns
        -------
        list of ndarray of shape (n_nodes, n_nodes)
            Adjacency matrices of zeros and ones, symmetric unless the prior is of directed graphs.
        """
        check_is_fitted(self, "weights_")
        if n_nodes is None and self.size_range_ == ANY_SIZE:
            raise ValueError(
                "n_nodes=None, but the sizes of the training graphs are not on record; expected an integer."
            )
        check_integer(n_samples, "n_samples", low=1, high=10**6)
        if n_nodes is not None:
            check_integer(n_nodes, "n_nodes", low=2, high=10**6)
        try:
            rng = check_random_state(random_state)
        except ValueError as error:
            expected = "expected an integer from 0 to 2**32 - 1, a numpy RandomState or None"
            raise ValueError(f"random_state={random_state!r}; {expected}.") from error
        low, high = (n_nodes, n_nodes) if n_nodes is not None else self.size_range_
        sizes = rng.randint(low, high + 1, size=n_samples)
        seed = draw_seeds(rng, 1)[0]
        graphs = [np.empty((0, 0))] * n_samples
        with torch.inference_mode(), torch_threads(1):
            for size in np.unique(sizes).tolist():
                places = np.flatnonzero(sizes == size)
                drawn = self._draw_graphs(len(places), size, seeded_generator(seed + size))
                for place, graph in zip(places, drawn.double().cpu().numpy(), strict=True):
                    graphs[place] = graph
        return graphs

    def _draw_graphs(self, n_graphs: int, n_nodes: int, generator: torch.Generator) -> Tensor:
        device = resolve_device(self.device)
        denoise, sigmas = self.bind(n_nodes, device, torch.float32), self._sampling_sigmas()

        def normal_noise() -> Tensor:
            draws = torch.randn(n_graphs, n_nodes, n_nodes, generator=generator, dtype=torch.float32)
            return one_entry_per_pair(draws, self._is_directed).to(device)

        noisy = 0.5 + sigmas[0] * normal_noise()
        clean = denoise(noisy, sigmas[0])
        # The score draws the noisy graph to the clean one like a spring. With that held, the step is solved exactly: by
        # Euler's rule the noise would settle above sigma, the network would see more of it than it is told, and graphs
        # too dense would come out. A step is a tenth of the time in which a level relaxes, so forty are plenty.
        kept = math.exp(-0.1)
        for sigma in sigmas:
            for _ in range(40):
                noisy = clean + kept * (noisy - clean) + sigma * math.sqrt(1 - kept**2) * normal_noise()
                clean = denoise(noisy, sigma)
        return one_entry_per_pair((clean > 0.5).to(clean.dtype), self._is_directed)

    def _sampling_sigmas(self) -> list[float]:
        if self.architecture_ == "edp-gnn":
            return [float(sigma) for sigma in self.sigmas_]
        lowest, highest = _trained_range(float(self.sigmas_[0]))
        return [float(sigma) for sigma in np.geomspace(highest, lowest, 30)]

    # Files.

    def save(self, path: str | Path) -> None:
        """Write the prior to a safetensors file, which replaces an existing one."""
        check_is_fitted(self, "weights_")
        write_arrays(path, PRIOR, self.weights_, prior_facts(self))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a fitted prior from a file that `save` wrote. Nothing in the file is executed."""
        weights, facts = read_arrays(path, PRIOR)
        with refusing(path, "prior"):
            parameters, fitted = fitted_from_facts(facts)
            prior = cls(**parameters)
            prior._validate_params()
            prior.__dict__.update(fitted, weights_=weights)
            prior._check_answers()
        return prior

    @classmethod
    def from_edpgnn_checkpoint(cls, path: str | Path) -> Self:
        """Read a ".pth" checkpoint of the published EDP-GNN implementation. Nothing in the file is executed.

        The fitted prior has `architecture="edp-gnn"`, and no record of the sizes of its training graphs.

        Parameters
        ----------
        path : str or path-like
            File of the checkpoint.

        Returns
        -------
        GraphPriorScore
            The fitted prior.
        """
        settings, weights = read_edpgnn_checkpoint(path)
        sigmas = settings["sigmas"]
        prior = cls("edp-gnn", n_levels=len(sigmas), sigma_max=sigmas[0], sigma_min=sigmas[-1])
        prior.architecture_, prior.network_settings_, prior.weights_ = "edp-gnn", settings, weights
        prior.sigmas_, prior.size_range_, prior.known_loss_ = np.array(sigmas), ANY_SIZE, None
        prior.loss_history_, prior.n_iter_ = {"training": [], "validation": [], "seconds": []}, 0
        with refusing(path, "network"):
            prior._check_answers()
        return prior

    def _check_answers(self) -> None:
        """Raise ValueError where the weights, which came from a file, give no number for a small graph."""
        n_nodes = 12
        ring = np.eye(n_nodes, k=1) + np.eye(n_nodes, k=n_nodes - 1)
        adjacency = ring + ring.T
        network = self._network()
        with torch.inference_mode(), torch_threads(1):
            noisy = torch.tensor(adjacency, dtype=torch.float32).expand(2, -1, -1)
            sigma = torch.tensor(self.sigmas_[[0, -1]], dtype=torch.float32)
            # Squares of the answer, which losses take, must be numbers too.
            answers = network.raw_answer(noisy, sigma), network.denoise(noisy, sigma).square()
            is_finite = all(bool(answer.isfinite().all()) for answer in answers)
            if is_finite and self.known_loss_ is not None:
                if not network.uses_known:
                    raise ValueError(f"'known_loss' is given, but {self.architecture_!r} takes no known pairs.")
                mask, sigma_max = ~np.eye(n_nodes, dtype=bool), float(self.sigmas_[0])
                is_finite = math.isfinite(surprise(network, adjacency, mask, sigma_max, self.known_loss_))
        if not is_finite:
            raise ValueError("its weights give no finite answer for a ring of a few nodes.")


def _trained_range(sigma_max: float) -> tuple[float, float]:
    """The lowest and the highest annealing level at which a network for all levels is trained.

    They lie beyond the ends of the schedule: a sampler may start from more noise than the paper's, and below the lower
    end a pair's own value leaves nothing to learn.
    """
    return min(LOWEST_SIGMA, sigma_max), 3.0 * sigma_max
