"""The sum of the layers, the GPU time of the whole, and what lies between the two.

Every part is in seconds with its evidence: measured, bounded (at most so much) or only stated. What
no evidence covers is shown as unexplained, never shared out.
"""

from __future__ import annotations

from typing import Literal

from trtbench.analysis.layers.layer import LayerTable
from trtbench.domain.spec import Value
from trtbench.units import text_from_seconds

Certainty = Literal["measured", "at most", "stated"]

SMALL = 0.02
"""Of the GPU time: a difference that no run repeats to."""


class Gap(Value, frozen=True, kw_only=True):
    """One reason why layers and whole differ; positive makes the sum of the layers larger."""

    name: str
    seconds: float | None
    """``None`` where the reason is known and its size is not."""
    evidence: Certainty
    because: str


class Reconciliation(Value, frozen=True, kw_only=True):
    """How the layers add up to the whole."""

    layers_s: float
    gpu_s: float | None
    """GPU time of an inference without the profiler; ``None`` when it was not measured."""
    host_s: float | None = None
    """What the host saw of it, for runtimes without a GPU."""
    parts: tuple[Gap, ...]
    unexplained_s: float | None

    @property
    def gap_s(self) -> float | None:
        """By how much the layers exceed the whole."""
        return None if self.gpu_s is None else self.layers_s - self.gpu_s


def reconcile(
    table: LayerTable,
    gpu_s: float | None,
    *,
    profiled_gpu_s: float | None = None,
    cuda_graph: bool | None = None,
    host_s: float | None = None,
) -> Reconciliation | None:
    """Add up the layers and account for the difference; ``None`` without a profile."""
    layers_s = table.total_s
    if layers_s is None:
        return None
    parts: list[Gap] = []
    if gpu_s is not None:
        parts += _average_over_median(table)
        parts += _profiler(table, gpu_s, profiled_gpu_s)
        parts += _streams(table, layers_s - gpu_s - _known(parts))
        if cuda_graph:
            parts.append(_graph())
    unexplained = None if gpu_s is None else layers_s - gpu_s - _known(parts)
    return Reconciliation(
        layers_s=layers_s, gpu_s=gpu_s, host_s=host_s, parts=tuple(parts), unexplained_s=unexplained
    )


def hint_of(found: Reconciliation, table: LayerTable) -> str | None:
    """Say what an unexplained remainder looks like, without claiming that it is that."""
    left, count = found.unexplained_s, sum(1 for layer in table.layers if layer.seconds > 0)
    if left is None or not found.gpu_s or abs(left) < SMALL * found.gpu_s or not count:
        return None
    if left > 0:
        each = text_from_seconds(left / count, digits=2)
        return (
            f"{each} for each of {count} timed layers: the profiler waits between layers, and "
            "kernels that overlap in a plain run do not overlap under it"
        )
    return (
        "time between layers that no layer is charged with: launch gaps, or work it does not list"
    )


def _known(parts: list[Gap]) -> float:
    return sum(part.seconds or 0.0 for part in parts)


def _average_over_median(table: LayerTable) -> list[Gap]:
    """Tell what averages hold beyond medians: warm-up and rare stalls; the GPU time is a median."""
    medians = [layer.median_s for layer in table.layers if layer.time_s is not None]
    if table.count == 1 or any(median is None for median in medians):
        return []
    seconds = sum(layer.seconds - (layer.median_s or 0.0) for layer in table.layers)
    because = "averages of the layers less their medians: warm-up and stalls of the profiled pass"
    return [Gap(name="warm-up and stalls", seconds=seconds, evidence="measured", because=because)]


def _profiler(table: LayerTable, gpu_s: float, profiled_gpu_s: float | None) -> list[Gap]:
    if profiled_gpu_s is None:
        return []
    medians = sum(
        (layer.median_s if layer.median_s is not None else layer.seconds) for layer in table.layers
    )
    return [
        Gap(
            name="profiler overhead",
            seconds=profiled_gpu_s - gpu_s,
            evidence="measured",
            because=f"GPU time {text_from_seconds(profiled_gpu_s)} with the profiler attached, "
            f"{text_from_seconds(gpu_s)} without",
        ),
        Gap(
            name="launch gaps",
            seconds=medians - profiled_gpu_s,
            evidence="measured",
            because="GPU time of the profiled pass that no layer is charged with",
        ),
    ]


def _streams(table: LayerTable, left_s: float) -> list[Gap]:
    """Bound what layers beside the main stream overlap with it: at most their own time."""
    beside = [layer for layer in table.layers if layer.stream]
    if not beside or left_s <= 0:
        return []
    own = sum(layer.seconds for layer in beside)
    because = f"{len(beside)} layers on other streams take {text_from_seconds(own)} in sum"
    return [
        Gap(name="auxiliary streams", seconds=min(own, left_s), evidence="at most", because=because)
    ]


def _graph() -> Gap:
    return Gap(
        name="CUDA graph",
        seconds=None,
        evidence="stated",
        because="the timed run replayed a CUDA graph; the profiler launches layers one by one",
    )
