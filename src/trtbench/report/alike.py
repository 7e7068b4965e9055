"""Which runs are alike but for one thing, so that a curve can be drawn over it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from trtbench.domain.ran import gap_of, options_of, protocol_of, setting_of, streams_of, threads_of
from trtbench.domain.result import Run, gpu_of
from trtbench.report.labels import model_name, precision_name
from trtbench.units import text_from_rate, text_from_seconds

X = TypeVar("X", int, float, tuple[int, int])
AlikeKey = tuple[str, ...]


def series_over(
    runs: Sequence[Run], at: Callable[[Run], X | None], *, leave_out: Sequence[str], least: int = 2
) -> dict[AlikeKey, dict[X, list[Run]]]:
    """Group runs that are alike but for what is left out; each group by its value, in order.

    Runs of two machines are never alike.
    """
    groups: dict[AlikeKey, dict[X, list[Run]]] = {}
    several = len({each.record.environment.label for each in runs}) > 1
    for run in runs:
        place = at(run) if len(run.times) else None
        if place is not None:
            key = alike_key(run, leave_out, machines=several)
            groups.setdefault(key, {}).setdefault(place, []).append(run)
    return {
        key: dict(sorted(found.items())) for key, found in groups.items() if len(found) >= least
    }


def names_of_keys(keys: Sequence[AlikeKey]) -> list[str]:
    """Name series by the parts in which they differ; one alone by its model."""
    differing = [len(set(parts)) > 1 for parts in zip(*keys, strict=True)]
    names = [" · ".join(p for p, d in zip(key, differing, strict=True) if d and p) for key in keys]
    return [name or key[0] for name, key in zip(names, keys, strict=True)]


def name_of_key(key: AlikeKey) -> str:
    """Name a series by the parts that say something."""
    return " · ".join(part for part in key if part)


def alike_key(
    run: Run, leave_out: Sequence[str], *, machines: bool, model: str | None = None
) -> AlikeKey:
    """Put together all that makes a run another than others, by what ran."""
    record, spec = run.record, run.record.spec
    protocol, streams, threads = protocol_of(record), streams_of(record), threads_of(record)
    # Where trtexec lies says nothing about what it measured.
    options = [f"{key}={value}" for key, value in options_of(record).items() if key != "binary"]
    parts = {
        "model": model or model_name(record),
        "runtime": spec.runtime,
        "precision": precision_name(record) or "",
        "batch": f"batch {record.batch}" if record.batch else "",
        "protocol": "" if protocol == "serve" else protocol,
        "streams": f"{streams} streams" if streams > 1 else "",
        "rate": f"{text_from_rate(spec.rate_hz)}" if spec.rate_hz else "",
        "arrivals": "" if spec.arrivals == "poisson" else spec.arrivals,
        "gap": f"gap {text_from_seconds(gap, digits=3)}" if (gap := gap_of(record)) else "",
        "threads": f"{threads} threads" if threads else "",
        "options": " ".join(options),
        "graph": "CUDA graph" if setting_of(record, "cuda_graph") else "",
        "transfers": "" if setting_of(record, "transfers") else "no transfers",
        "gpu": gpu.name if (gpu := gpu_of(record)) else "",
        "machine": record.environment.label if machines else "",
    }
    return tuple(text for name, text in parts.items() if name not in leave_out)
