"""Findings of a fit about its prior, in sentences."""

from __future__ import annotations

from .._utils._findings import Finding
from ..priors._trust import Trust

__all__ = ["trust_findings"]

# A prior that half of its log-odds would serve better is not what the user took it for.
_LOWEST_TRUST = 0.5


def trust_findings(prior_trust: float, trust: Trust | None) -> list[Finding]:
    """A warning where trust in the prior was sampled, and came out low.

    Parameters
    ----------
    prior_trust : float
        Its posterior mean.
    trust : Trust or None
        What it could have been; None where the prior was taken as it is.
    """
    if trust is None or len(trust.values) == 1 or prior_trust >= _LOWEST_TRUST:
        return []
    reason = "the prior does not fit this graph and was discounted"
    return [
        Finding.trouble(
            f"{reason}: its estimated trust is {prior_trust:.2f}, where 1 is full trust and 0 is none. Use a prior "
            f"that was trained on graphs of this kind, or prior=None. With prior_trust=1.0 it is used in full.",
            UserWarning,
            f"{reason} (see prior_trust_); use another prior, or None.",
        )
    ]
