"""How long to measure: launches and iterations that reach a precision at least cost.

A run ends when its estimate is precise enough, never when a spread is small (a spread is what it
is) and never when a difference becomes significant (waiting for that finds one).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from trtbench.analysis.distributions import t_quantile
from trtbench.analysis.summary import LEVEL
from trtbench.domain.samples import Column

TARGET = 0.01
"""Half-width of the interval over launches to aim at: 1 %."""


def half_width(medians: Sequence[float], *, level: float = LEVEL) -> float | None:
    """Give the relative half-width of the interval over launches; ``None`` below two."""
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


def iterations_per_launch(
    launches: Sequence[Column], *, launch_cost_s: float, iteration_cost_s: float
) -> int | None:
    """Give the iterations per launch that cost least for a precision (Kalibera and Jones).

    ``None`` when launches do not differ more than their iterations explain: then one long launch
    is as good.
    """
    logs = [np.log(part) for part in launches if len(part) > 1]
    if len(logs) < 2 or iteration_cost_s <= 0:
        return None
    within = float(np.mean([part.var(ddof=1) for part in logs]))
    size = float(np.mean([len(part) for part in logs]))
    between = float(np.var([part.mean() for part in logs], ddof=1)) - within / size
    if between <= 0:
        return None
    return max(1, math.ceil(math.sqrt(launch_cost_s / iteration_cost_s * within / between)))
