"""Whether two parts can be of one run: numbers, counts and layer names, not names of files."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Literal

from trtbench.errors import TrtbenchError
from trtbench.trtexec.log import LogRun, Metric
from trtbench.trtexec.statistics import TrtexecMetric
from trtbench.workflows.importing.look import FilePart, TimesShelf

Agreement = Literal["reproduces", "disagrees", "silent"]

TOLERANCE = 1e-3
"""Relative; trtexec prints six digits, and its mean is a sum in single precision."""

DEFAULT_WARMUP_MS = 200.0

_WARMUP = re.compile(r"\+ *([\d.]+) *ms warm")
_METRICS = ("GPU Compute Time", "Latency")
_STATISTICS = ("min_ms", "max_ms", "mean_ms", "median_ms")


def warmup_ms_of(run: LogRun) -> float | None:
    """Compute the warm-up a run asked for, from its options or its command."""
    match = _WARMUP.search(run.option("Duration") or "")
    if match:
        return float(match[1])
    for word in run.arguments:
        flag, _, value = word.partition("=")
        if flag == "--warmUp" and value.replace(".", "", 1).isdecimal():
            return float(value)
    return None


def agreement(times: FilePart, run: LogRun, shelf: TimesShelf) -> Agreement:
    """Say whether a times array reproduces the numbers that a log printed."""
    if run.summary is None:
        # trtexec exports times only after it has printed a summary, so these are another run's.
        return "disagrees"
    if run.summary.derived or not run.summary.metrics:
        return "silent"
    warmup = warmup_ms_of(run)
    try:
        computed = shelf.metrics(times, warmup_ms=DEFAULT_WARMUP_MS if warmup is None else warmup)
        return _compared(computed, run)
    except TrtbenchError:  # the columns are not trtexec's own, or nothing is left after warm-up
        return "silent"


def _compared(computed: Mapping[str, TrtexecMetric], run: LogRun) -> Agreement:
    assert run.summary is not None
    printed = run.summary.metrics
    shared = [name for name in _METRICS if name in computed and name in printed]
    if not shared:
        return "silent"
    same = all(_alike(computed[name], printed[name]) for name in shared)
    return "reproduces" if same else "disagrees"


def _alike(computed: TrtexecMetric, printed: Metric) -> bool:
    pairs = ((getattr(computed, name), getattr(printed, name)) for name in _STATISTICS)
    return all(
        math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-5)
        for one, other in pairs
        if other is not None
    )


def same_layers(one: Sequence[str], other: Sequence[str]) -> bool:
    """Say whether a profile and layer information name the same layers."""
    return sorted(one) == sorted(other)


def layers_fit(names: Sequence[str], run: LogRun) -> bool | None:
    """Say whether a profile is the one a log printed; ``None`` when it printed none.

    The printed table leaves out layers that took no time.
    """
    if run.profile is None:
        return None
    printed = {" ".join(layer.name.split()) for layer in run.profile.layers}
    return printed <= {" ".join(name.split()) for name in names}
