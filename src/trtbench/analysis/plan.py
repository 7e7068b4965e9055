"""How long to measure: launches that reach a precision.

A run ends when its estimate is precise enough, never when a spread is small (a spread is what it
is) and never when a difference becomes significant (waiting for that finds one).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trtbench.analysis.column_summary import LEVEL
from trtbench.analysis.distributions import t_quantile

TARGET = 0.01
"""Half-width of the interval over launches to aim at: 1 %."""


def half_width(medians: Sequence[float], *, level: float = LEVEL) -> float | None:
    """Compute the relative half-width of the interval over launches; ``None`` below two."""
    if len(medians) < 2 or min(medians) <= 0:
        return None
    logs = np.log(np.asarray(medians))
    quantile = t_quantile((1 + level) / 2, df=len(logs) - 1)
    return float(quantile * logs.std(ddof=1) / math.sqrt(len(logs)))


def launches_needed(medians: Sequence[float], *, target: float = TARGET) -> int | None:
    """Estimate the launches, in all, until the interval is as narrow as the target."""
    width = half_width(medians)
    if width is None:
        return None
    return max(len(medians), math.ceil(len(medians) * (width / target) ** 2))
