"""Series over time: which runs belong together, where levels change, and what changed then."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from trtbench.analysis.changepoints import LEAST_POINTS, ChangePoint, change_points, segments
from trtbench.domain.ran import gap_of, options_of, protocol_of, streams_of, threads_of
from trtbench.domain.result import Fact, RunRecord, gpu_of, precision_of
from trtbench.domain.spec import Value
from trtbench.units import instant_from_text, text_from_shape

AROUND = 5
"""Points on each side of a change whose surroundings are compared."""
TELLING = 0.8
"""A fact describes a level when it holds for so large a part of these points."""

CONDITIONS = ("transfers", "cuda_graph", "tf32", "spin_wait", "clocks_locked", "interleaved")
"""Conditions that make another series: numbers with and without them do not belong together."""


class SeriesKey(Value, frozen=True, kw_only=True):
    """What runs of one series have in common."""

    model: str
    runtime: str
    precision: str | None
    shape: str
    protocol: str
    machine: str
    device: str | None = None
    settings: str = ""
    """Threads, streams, options and conditions, as far as they were told."""

    @property
    def name(self) -> str:
        parts = (self.model, self.runtime, self.precision, self.shape, self.protocol)
        where = self.device or self.machine
        return " · ".join(part for part in (*parts, self.settings, where) if part)


class Point(Value, frozen=True, kw_only=True):
    """One run of a series."""

    run: str
    created: str
    value: float
    """Median in seconds or, against a reference, the ratio to it."""
    median_s: float
    items_per_s: float | None = None
    tags: tuple[str, ...] = ()
    facts: dict[str, str] = {}
    """What surrounded it: versions, driver, model bytes."""


class HistoryChange(Value, frozen=True, kw_only=True):
    """A change of level, and what changed around it."""

    at: ChangePoint
    run: str
    """The first run of the new level."""
    created: str
    causes: tuple[ShiftCause, ...] = ()


class ShiftCause(Value, frozen=True, kw_only=True):
    """A fact that was another before a change; a suspect, not yet a proof."""

    name: str
    before: str
    after: str


class Series(Value, frozen=True, kw_only=True):
    """Runs that may be held against one another, oldest first."""

    key: SeriesKey
    points: tuple[Point, ...]
    changes: tuple[HistoryChange, ...] = ()
    reference: str | None = None
    """The model whose runs the values are ratios to."""

    @property
    def values(self) -> list[float]:
        return [point.value for point in self.points]

    def levels(self) -> list[tuple[int, int]]:
        """List the stretches of one level, as begin and end."""
        return segments(len(self.points), [change.at.index for change in self.changes])


def key_from_record(record: RunRecord) -> SeriesKey:
    """Say which series a run belongs to."""
    spec, where, gpu = record.spec, record.environment, gpu_of(record)
    settings = {
        "threads": threads_of(record),
        "streams": streams if (streams := streams_of(record)) != 1 else None,
        "gap": gap_of(record) or None,
        "rate": spec.rate_hz,
        # Where trtexec lay says nothing about what it measured.
        **{name: value for name, value in options_of(record).items() if name != "binary"},
        **{name: _told(name, record.conditions.get(name)) for name in CONDITIONS},
    }
    told = (f"{name} {value}" for name, value in sorted(settings.items()) if value is not None)
    return SeriesKey(
        model=spec.model.name,
        runtime=spec.runtime,
        precision=precision_of(record),
        shape=_shape(record),
        protocol=protocol_of(record),
        machine=where.kind,
        device=gpu.name if gpu else None,
        settings=", ".join(told),
    )


def facts_from_record(record: RunRecord) -> dict[str, str]:
    """Name what may explain a change: bytes, versions, machine; nothing that differs every time."""
    e, spec = record.environment, record.spec
    gpu = gpu_of(record)
    known: dict[str, object] = {
        "model file": (spec.model.sha256 or "")[:12] or None,
        "operating system": e.os,
        "processor": e.cpu,
        "cores": e.cpu_cores,
        "governor": e.cpu_governor,
        "Python": e.python,
        "GPU": gpu.name if gpu else None,
        "GPU driver": gpu.driver if gpu else None,
        "GPU power limit": f"{gpu.power_limit_w:g} W" if gpu and gpu.power_limit_w else None,
        **e.versions,
        "git commit": (e.git_commit or "")[:12] or None,
        "launches": len(record.launches) or spec.launches,
        **{name: e.extra.get(name) for name in ("turbo", "container", "nvpmodel")},
    }
    return {name: str(value) for name, value in known.items() if value is not None}


def series_from_points(
    key: SeriesKey, points: Sequence[Point], *, reference: str | None = None
) -> Series:
    """Order the points of one series, find its changes and what changed at each."""
    ordered = sorted(points, key=lambda point: instant(point.created))
    usable = [p for p in ordered if p.value > 0 and math.isfinite(p.value)]
    found = change_points(np.array([point.value for point in usable])) if usable else ()
    changes = tuple(_change(usable, found, place) for place in range(len(found)))
    return Series(key=key, points=tuple(usable), changes=changes, reference=reference)


def instant(created: str) -> float:
    """Compute a record's time in seconds since 1970; what cannot be read comes first."""
    return instant_from_text(created) or 0.0


def best_point(series: Series) -> Point:
    """Find a run that stands for the best level that was ever held.

    The luckiest run of many is no level. With too few points for levels it is the lowest median.
    """
    points = series.points
    if len(points) < 2 * LEAST_POINTS:
        return min(points, key=lambda point: point.value)
    levels = [points[begin:end] for begin, end in series.levels()]
    best = min(levels, key=lambda level: float(np.median([p.value for p in level])))
    middle = float(np.median([point.value for point in best]))
    return min(reversed(best), key=lambda point: abs(point.value - middle))


def causes(before: Sequence[Point], after: Sequence[Point]) -> tuple[ShiftCause, ...]:
    """Name the facts that held on one side of a change and were others on the other."""
    names = dict.fromkeys(name for point in (*before, *after) for name in point.facts)
    found = []
    for name in names:
        old, new = _usual(before, name), _usual(after, name)
        if old is not None and new is not None and old != new:
            found.append(ShiftCause(name=name, before=old, after=new))
    return tuple(found)


def _change(points: Sequence[Point], found: Sequence[ChangePoint], place: int) -> HistoryChange:
    at = found[place]
    edges = [0, *(each.index for each in found), len(points)]
    begin, end = edges[place], edges[place + 2]
    before = points[max(begin, at.index - AROUND) : at.index]
    after = points[at.index : min(end, at.index + AROUND)]
    first = points[at.index]
    return HistoryChange(at=at, run=first.run, created=first.created, causes=causes(before, after))


def _usual(points: Sequence[Point], name: str) -> str | None:
    """Write the value most points agree on; ``None`` when they do not."""
    counts = Counter(point.facts.get(name, "not told") for point in points)
    value, count = counts.most_common(1)[0] if counts else ("", 0)
    return value if count >= TELLING * len(points) and count else None


def _shape(record: RunRecord) -> str:
    if record.inputs:
        return ", ".join(text_from_shape(each.shape) for each in record.inputs)
    given = ", ".join("x".join(map(str, shape)) for shape in record.spec.shapes.values())
    return given or f"batch {record.items_per_query}"


def _told(name: str, fact: Fact | None) -> object:
    """Find a condition where it is not the usual one: transfers are, all others are not."""
    if fact is None or fact.source == "unknown" or fact.value in (None, "off"):
        return None
    if isinstance(fact.value, bool) and fact.value == (name == "transfers"):
        return None
    return {True: "yes", False: "no"}.get(fact.value, fact.value)  # type: ignore[call-overload]
