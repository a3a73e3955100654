"""Private and experimental parts of scikit-learn, imported here and nowhere else.

When a release of scikit-learn moves one of them, this is the file to change.
"""

from __future__ import annotations

from sklearn.base import _fit_context as fit_context
from sklearn.callback import CallbackSupportMixin, ProgressBar, with_callbacks
from sklearn.utils._param_validation import Interval, StrOptions

__all__ = ["CallbackSupportMixin", "Interval", "ProgressBar", "StrOptions", "fit_context", "with_callbacks"]
