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
import torch
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from .._utils._disk import refusing
from .._utils._libraries import VERBOSE, CallbackSupportMixin, StrOptions, fit_context, shown_progress, with_callbacks
from .._utils._numbers import RANDOM_STATE, FloatArray, NumberInterval
from .._utils._torch import draw_seeds, resolve_device, torch_threads
from .._utils._warnings import warn_caller
from ..graphs._matrices import check_graphs
from ..nn import (
    ARCHITECTURES,
    MOST_LEVELS,
    SIGMA_RANGE,
    Epoch,
    NoiseLaw,
    TrainingSettings,
    build_network,
    read_edpgnn_checkpoint,
    restore_network,
    train_network,
    uses_known,
)
from ._files import (
    ANY_SIZE,
    MOST_EPOCHS,
    PRIOR,
    Checkpoint,
    History,
    fitted_from_facts,
    network_parameters,
    plain,
    prior_facts,
    read_arrays,
    write_arrays,
)
from ._network_prior import SAME_LEVEL, NetworkPrior, trained_range
from ._trust import Calibration, calibrate_surprise

__all__ = ["GraphPriorScore"]

# Parameters that do not change how a training ends.
_NOT_DECISIVE = ("warm_start", "checkpoint_path", "device", "verbose", "random_state")


class GraphPriorScore(CallbackSupportMixin, NetworkPrior):
    """What networks of a kind look like, learned from examples by denoising score matching.

    Parameters
    ----------
    architecture : {"ppgn", "edp-gnn"}, default="ppgn"
        The neural network. "edp-gnn" is that of the paper. "ppgn" is built for binary graphs, sees second-order
        structure, and takes any annealing level and a mask of known pairs.
    directed : bool, default=False
        Whether the graphs are directed, with an edge from j to i at A[i, j]; "ppgn" only. Such a prior works only with
        identifiers that have `directed=True`.
    width : int, default=12
        Number of features of a pair in the network, up to 1,000; "ppgn" only. A wider network can learn more, but
        makes sampling slower.
    n_blocks : int, default=6
        Number of blocks of the network, up to 100; "ppgn" only.
    graph_context : bool, default=False
        Whether the network sees the density of the current graph, and every pair the mean over all pairs; "ppgn" only.
        This helps if the graphs are of many kinds.
    n_levels : int, default=10
        Number of evenly spaced noise levels, up to 1,000. `transform` and `score` evaluate graphs at these levels, and
        "edp-gnn" is trained for them.
    sigma_max, sigma_min : float, default=0.5 and 0.03
        The largest and the smallest noise level.
    max_epochs : int, default=100
        Passes over the training graphs, up to 100,000. A small set is shown several times per pass, with fresh noise.
    max_time : float or None, default=None
        Seconds after which training ends; the learning rate is annealed accordingly. When an interrupted training is
        resumed, the time before the interruption counts too. None: no limit.
    batch_size : int, default=8
        Number of graphs in a batch. Graphs of different sizes are never in the same batch.
    learning_rate : float, default=3e-3
        The highest learning rate of the schedule.
    validation_fraction : float, default=0.1
        Fraction of the graphs that is held out to select the best weights. With 0, the training loss selects them.
    n_iter_no_change : int or None, default=None
        Stop after this many epochs without a better validation loss. None: never stop early.
    warm_start : bool, default=False
        Whether `fit` continues from the weights of the previous fit, with fresh noise. The epochs add up.
    checkpoint_path : str, Path or None, default=None
        A file that is written at the end of every epoch. If it exists when `fit` begins, the interrupted training is
        resumed, and ends with the same weights as without the interruption (unless `max_time` determined the learning
        rate). A checkpoint of other graphs or settings raises an error. The file is removed when training ends. None:
        no checkpoint is written.
    device : str, default="cpu"
        "cpu", "cuda" or "auto".
    verbose : bool or "auto", default="auto"
        Whether to show progress with scikit-learn's `ProgressBar`, which needs rich (the extra `progress`). "auto": on
        a terminal, once a fit has taken five seconds.
    random_state : int, RandomState or None, default=None
        Makes the training reproducible, to the last bit if torch uses the same number of threads, which `fit` does not
        change. None uses the seeds of the checkpoint, if there is one.

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
        The name of a prior that comes with the package. Other priors do not have this attribute.

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
        settings = self._training_settings()
        return self._train(
            self._check_graphs(graphs), y, settings, self.validation_fraction, self.warm_start, self.checkpoint_path
        )

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, graphs: Any, y: Any = None) -> Self:
        """Continue training from the current weights, with one pass over these graphs.

        The pass has its own learning rate schedule, from `learning_rate` to zero, and no graphs are held out.
        `surprise` then compares with these graphs only, so pass a dozen or more.

        Parameters
        ----------
        graphs, y : as in `fit`
            The graphs of this pass; y is ignored.

        Returns
        -------
        self
            The fitted prior.
        """
        settings = self._training_settings()._replace(max_epochs=1, patience=None)
        return self._train(self._check_graphs(graphs), y, settings, 0.0, True, None)

    def _check_graphs(self, graphs: Any) -> list[FloatArray]:
        for name, reason in (("directed", "is made for undirected graphs"), ("graph_context", "has no such option")):
            if getattr(self, name) and self.architecture != "ppgn":
                raise ValueError(
                    f"architecture={self.architecture!r} {reason}, but {name}=True; expected architecture='ppgn'."
                )
        return check_graphs(graphs, directed=bool(self.directed))

    def _train(
        self,
        graphs: list[FloatArray],
        y: Any,
        settings: TrainingSettings,
        validation_fraction: float,
        resume: bool,
        checkpoint_path: str | os.PathLike[str] | None,
    ) -> Self:
        resume = resume and hasattr(self, "weights_")
        sigmas = self._check_schedule(resume)
        device = resolve_device(self.device)
        checkpoint = Checkpoint(checkpoint_path)
        seeds = checkpoint.seeds if self.random_state is None else None
        split_seed, start_seed, training_seed = seeds = seeds or draw_seeds(self.random_state, 3)
        training, validation = _split_graphs(graphs, validation_fraction, split_seed)
        network = self._starting_network(sigmas, start_seed, resume)
        parameters = {name: plain(value) for name, value in self.get_params().items() if name not in _NOT_DECISIVE}
        checkpoint.claim(parameters, seeds, graphs, network)
        n_before = self.n_iter_ if resume else 0
        earlier = self.loss_history_ if resume else {name: [] for name in checkpoint.history}
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
            return {
                "architecture_": self.architecture,
                "network_settings_": dict(network.settings),  # type: ignore[arg-type]
                "weights_": {name: value.detach().cpu().numpy().copy() for name, value in weights.items()},
                "sigmas_": np.array(sigmas),
                "size_range_": (min(sizes), max(sizes)),
                "loss_history_": _appended(earlier, checkpoint.history),
                "n_iter_": n_before + len(checkpoint.history["training"]),
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
        epochs: Iterable[Epoch],
        max_epochs: int,
        checkpoint: Checkpoint,
        attributes: Callable[[Mapping[str, Tensor]], dict[str, Any]],
    ) -> tuple[dict[str, Any], bool]:
        """Run a training, and tell callbacks and the checkpoint of every epoch.

        Returns the fitted attributes of the best weights, and False if a KeyboardInterrupt ended the training.
        """
        history = checkpoint.history
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

        for _ in history["training"]:  # epochs of before the interruption are over as soon as they begin
            tell()
        is_over = True
        try:
            for epoch in epochs:
                if not math.isfinite(epoch.training_loss):
                    complaint = f"training diverged in epoch {epoch.number + 1}: its loss is {epoch.training_loss}"
                    if best is None:
                        raise ValueError(f"{complaint}. A lower learning_rate may help.")
                    warn_caller(f"{complaint}; the best weights so far are kept.")
                    break
                best = epoch.state.best
                for name, value in zip(history, epoch[1:4], strict=True):
                    history[name].append(value)
                checkpoint.write(epoch.state)
                if tell(**data, reconstruction_attributes=partial(attributes, best)):
                    break
        except KeyboardInterrupt:
            if best is None:
                raise
            is_over = False
            n_epochs = len(history["training"])
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
        if self.architecture != self.architecture_:
            raise ValueError(
                f"architecture={self.architecture!r}, but the weights to go on from are of {self.architecture_!r}. "
                f"Set warm_start=False to train anew."
            )
        for name, value in network_parameters(self.network_settings_).items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name}={getattr(self, name)!r}, but the weights to go on from are of {name}={value}. Set "
                    f"warm_start=False to train anew."
                )
        if self.architecture == "ppgn":
            return sigmas
        if len(sigmas) != len(self.sigmas_) or not np.allclose(sigmas, self.sigmas_, rtol=SAME_LEVEL, atol=0):
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
        return NoiseLaw(*trained_range(sigmas[0]), density=density)

    def _training_settings(self) -> TrainingSettings:
        return TrainingSettings(
            max_epochs=int(self.max_epochs),  # torch takes no numbers of numpy
            max_time=None if self.max_time is None else float(self.max_time),
            batch_size=int(self.batch_size),
            learning_rate=float(self.learning_rate),
            patience=None if self.n_iter_no_change is None else int(self.n_iter_no_change),
            known_share=self._known_share,
        )

    def _calibrate(self, fitted: dict[str, Any], graphs: list[FloatArray]) -> Calibration | None:
        """Measure what is typical of graphs like those of the training."""
        if not uses_known(fitted["architecture_"]):
            return None
        network = restore_network(
            fitted["architecture_"], fitted["network_settings_"], fitted["weights_"], resolve_device(self.device)
        )
        with torch_threads(1):
            return calibrate_surprise(network, graphs, float(fitted["sigmas_"][0]))

    def save(self, path: str | Path) -> None:
        """Write the prior to a safetensors file.

        Parameters
        ----------
        path : str or Path
            The file. An existing one is replaced.
        """
        check_is_fitted(self, "weights_")
        write_arrays(path, PRIOR, self.weights_, prior_facts(self))

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
        settings, weights = read_edpgnn_checkpoint(path)
        sigmas = settings["sigmas"]
        prior = cls("edp-gnn", n_levels=len(sigmas), sigma_max=sigmas[0], sigma_min=sigmas[-1])
        prior.architecture_ = "edp-gnn"
        prior.network_settings_ = settings
        prior.weights_ = weights
        prior.sigmas_ = np.array(sigmas)
        prior.size_range_ = ANY_SIZE
        prior.known_loss_ = None
        prior.loss_history_ = {"training": [], "validation": [], "seconds": []}
        prior.n_iter_ = 0
        with refusing(path, "network"):
            prior._check_answers()
        return prior


def _split_graphs(graphs: list[FloatArray], fraction: float, seed: int) -> tuple[list[FloatArray], list[FloatArray]]:
    """Training and validation graphs; at least one is left to train on."""
    n_held_out = min(len(graphs) - 1, round(fraction * len(graphs)))
    order = np.random.default_rng(seed).permutation(len(graphs))
    return [graphs[i] for i in order[n_held_out:]], [graphs[i] for i in order[:n_held_out]]


def _appended(earlier: History, history: History) -> History:
    """The history of a training that goes on from an earlier one; its seconds go on too."""
    begin = earlier["seconds"][-1] if earlier["seconds"] else 0.0
    later = {**history, "seconds": [begin + second for second in history["seconds"]]}
    return {name: earlier[name] + later[name] for name in earlier}
