"""What an identified system may answer to given inputs: a draw of the posterior predictive law is an output and a noise
level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from .._utils._numbers import FloatArray, check_random_state
from .._utils._torch import torch_threads

if TYPE_CHECKING:
    from ._base import BaseSystemIdentifier

__all__ = ["PredictiveDraws", "draw_predictions"]

_DRAWS_AT_ONCE = 16  # filters work on stacks of matrices, and more of them would take memory for nothing


class PredictiveDraws(NamedTuple):
    """Outputs of drawn systems, and the standard deviation of the noise that comes on top."""

    means: FloatArray  # (draws, experiments, outputs)
    noise_std: FloatArray  # (draws, outputs)


def draw_predictions(
    identifier: BaseSystemIdentifier, inputs: FloatArray, n_draws: int, random_state: Any
) -> PredictiveDraws:
    """Draw graph, theta, strengths and noise level together, up to `n_draws` times; once where there is one answer.

    `inputs` (experiments, nodes) are checked, and in the order of the columns at fit.
    """
    signals = torch.tensor(inputs - identifier._input_center)
    n_draws = min(n_draws, identifier._n_draws)
    # The noise level of a draw is that of its graph: with one seed, both calls choose the same draws.
    seed = int(check_random_state(random_state).randint(2**31))
    adjacencies, thetas, *weights = identifier._draw(n_draws, seed)
    matrices = torch.tensor(weights[0] if weights else adjacencies, dtype=torch.float64)
    parameters = torch.tensor(thetas, dtype=torch.float64)
    with torch.no_grad(), torch_threads(1):
        outputs = [
            (identifier.filter_.apply(*some, signals).numpy() + identifier._output_level)[..., identifier._output_nodes]
            for some in zip(matrices.split(_DRAWS_AT_ONCE), parameters.split(_DRAWS_AT_ONCE), strict=True)
        ]
    return PredictiveDraws(np.concatenate(outputs), identifier._draw_noise(n_draws, seed)[:, identifier._output_nodes])
