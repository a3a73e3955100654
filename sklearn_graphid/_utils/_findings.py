"""What is worth knowing about a fit, in sentences: short ones to warn with, longer ones for the report."""

from __future__ import annotations

from typing import Literal, NamedTuple, Self

__all__ = ["Finding", "number"]


class Finding(NamedTuple):
    """Something to know about a fit: "trouble" is worth a warning, "caution" a remark, "good" is good.

    The warning is one sentence, the same wherever the trouble is the same, so that Python shows it once for the many
    fits of a search. What differs from fit to fit is in the text for the report and in `diagnostics_`.
    """

    severity: Literal["trouble", "caution", "good"]
    text: str  # for the report
    warning: str = ""  # one sentence of less than 160 characters
    category: type[Warning] = UserWarning

    @classmethod
    def trouble(cls, text: str, category: type[Warning], warning: str | None = None) -> Self:
        """A finding to warn of; in the words of the report unless others are given."""
        return cls("trouble", text, text if warning is None else warning, category)


def number(value: float) -> str:
    """Three digits."""
    return f"{value:.3g}"
