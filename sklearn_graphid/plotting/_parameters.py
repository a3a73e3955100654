"""Code shared by the displays of sampled parameters."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self

from ._style import fitted_attributes, needs_matplotlib

__all__ = ["ParameterDisplay"]


class ParameterDisplay(ABC):
    """Base class for displays of sampled parameters, whose names come from the fitted filter."""

    @classmethod
    @needs_matplotlib
    def from_estimator(cls, estimator: Any, *, true_theta: Any = None, ax: Any = None, **plot_options: Any) -> Self:
        """Draw the parameters that an identifier has sampled.

        Parameters
        ----------
        estimator : fitted identifier
            An identifier that samples, such as `LangevinSystemIdentifier`.
        true_theta : array-like of shape (n_parameters,), default=None
            The true parameters.
        ax : matplotlib Axes or sequence of these, default=None
            One Axes to divide into panels, or one for each panel. If None, a new figure is created.
        **plot_options
            Passed to `plot`.

        Returns
        -------
        Self
            The display.
        """
        sampled = cls._sampled_by(estimator)
        (filter,) = fitted_attributes(cls.__name__, estimator, "filter_")
        names = filter.parameter_names()
        return cls.from_predictions(*sampled, true_theta=true_theta, parameter_names=names, ax=ax, **plot_options)

    @classmethod
    @abstractmethod
    def from_predictions(cls, *args: Any, **options: Any) -> Self:
        """Draw given samples."""

    @classmethod
    @abstractmethod
    def _sampled_by(cls, estimator: Any) -> tuple[Any, ...]:
        """What `from_predictions` takes first, of an identifier; a TypeError where it is missing."""
