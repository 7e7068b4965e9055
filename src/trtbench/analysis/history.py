"""Find changes of level: within the times of a run, and in a series of runs over time."""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import numpy as np

from trtbench.analysis.distributions import t_two_sided_p
from trtbench.core.properties import history_settings, inputs_of, protocol_of
from trtbench.core.run import RunRecord, gpu_of, precision_of
from trtbench.core.samples import Column
from trtbench.core.spec import Value
from trtbench.core.units import instant_from_text

PENALTY = 4.0
PENALTY_COARSE = 10.0
PENALTY_MAX = 40.0
"""A cut costs c sigma² ln m, c = 4 (1 + r) / (1 - r) at lag-one correlation r.

r is measured around the levels of a coarse search, because a fine one would remove correlation.
Calibrated on AR(1) series: at most 2 % false alarms up to a correlation of 0.3; a step of 3 % is
found in 99 % of series of 300 points or more, and of 100 points with 1 % noise (88 % with 2 %).
"""
MIN_CORRELATED = 20  # points needed to estimate their correlation
RESOLUTION = 5e-4  # smaller relative noise only shows the resolution of the clock
CLEAN_WINDOW = 200
CLEAN_WIDTH = 3.0  # points farther than 3 (p90 - p10) from the median are outliers
MAX_BLOCKS, MIN_BLOCKS = 500, 20
CORRELATED = 0.3  # with a higher correlation blocks are enlarged, if enough of them remain
EQUAL_SHARE = 0.01  # segment means that differ by less than 1 % are the same level

P = 0.001
MIN_CHANGE = 0.02
MIN_POINTS = 5  # on each side: fewer cannot distinguish a new level from noise
CONFIRM = 2  # further points needed before a change counts as confirmed
NEAR = 2  # changes at most this many points apart are the same change
AROUND = 5  # points on each side of a change whose facts are compared
DOMINANT_SHARE = 0.8  # a fact must hold for this share of the points on one side of a change

SteadyKind = Literal["flat", "warm-up", "slowdown", "no steady state"]


def without_outliers(values: Column) -> Column:
    """Replace single points that are far from those around them by the local median."""
    clean: Column = np.array(values)
    for begin in range(0, len(values), CLEAN_WINDOW):
        part = values[begin : begin + CLEAN_WINDOW]
        p10, median, p90 = np.percentile(part, (10, 50, 90))
        far = np.abs(part - median) > CLEAN_WIDTH * (p90 - p10)
        if p90 > p10:
            clean[begin : begin + CLEAN_WINDOW][far] = median
    return clean


def level_cuts(values: Column, *, least: int, resolution: float) -> tuple[list[int], float]:
    """Find where new levels of at least ``least`` points begin, and the lag-one correlation."""
    m = len(values)
    if m < 2 * least:
        return [], 0.0
    steps = np.diff(values)
    spread = 1.4826 * float(np.median(np.abs(steps - np.median(steps)))) / math.sqrt(2)
    unit = max(spread, resolution) ** 2 * math.log(m)
    correlation = 0.0
    if m >= MIN_CORRELATED:
        coarse = _optimal_cuts(values, least=least, cost=PENALTY_COARSE * unit)
        # Deviations from the levels: a step is not correlation.
        rest = np.concatenate([part - part.mean() for part in np.split(values, coarse)])
        power = float(rest @ rest)
        correlation = float(rest[1:] @ rest[:-1]) / power if power > 0 else 0.0
    known = min(max(0.0, correlation), 0.99)
    penalty = min(PENALTY_MAX, PENALTY * (1 + known) / (1 - known))
    return _optimal_cuts(values, least=least, cost=penalty * unit), correlation


def _optimal_cuts(values: Column, *, least: int, cost: float) -> list[int]:
    """Return the cuts with the least squared error plus a cost per cut (optimal partition)."""
    m = len(values)
    centred = values - values.mean()
    total = np.concatenate(([0.0], np.cumsum(centred)))
    squares = np.concatenate(([0.0], np.cumsum(centred**2)))
    best = np.full(m + 1, np.inf)
    best[0] = -cost
    came_from = np.zeros(m + 1, dtype=np.int64)
    index = np.arange(m + 1)
    for end in range(least, m + 1):
        begins = slice(0, end - least + 1)
        within = squares[begins] + (total[end] - total[begins]) ** 2 / (end - index[begins])
        candidates = best[begins] - within
        choice = int(np.argmin(candidates))
        best[end] = candidates[choice] + squares[end] + cost
        came_from[end] = choice
    cuts: list[int] = []
    end = int(came_from[m])
    while end > 0:
        cuts.append(end)
        end = int(came_from[end])
    return cuts[::-1]


class Segmentation(Value, frozen=True, kw_only=True):
    """A series divided at changes of level, and whether it has a steady state."""

    kind: SteadyKind
    means: tuple[float, ...]  # level of each segment in seconds
    steady_from: int  # iteration from which on the level equals the final one

    @property
    def largest_change(self) -> float:
        """Largest difference of a segment's level from the last one, relative to the last."""
        last = self.means[-1] if self.means else 0.0
        return max((abs(m - last) / last for m in self.means), default=0.0) if last else 0.0


def segment(column: Column) -> Segmentation:
    """Divide a series into segments of equal level and classify it."""
    column = np.asarray(column, dtype=np.float64)
    most, cuts, correlation = MAX_BLOCKS, list[int](), 0.0
    while True:
        size = max(1, math.ceil(len(column) / most))
        m = len(column) // size
        blocks = without_outliers(np.median(column[: m * size].reshape(m, size), axis=1))
        if m >= MIN_BLOCKS:
            least = max(MIN_POINTS, m // 50)
            resolution = RESOLUTION * abs(float(np.median(blocks)))
            cuts, correlation = level_cuts(blocks, least=least, resolution=resolution)
        if correlation <= CORRELATED or m < 10 * MIN_BLOCKS:
            break
        most = m // 2
    parts = np.split(blocks, cuts)
    means = [float(part.mean()) for part in parts] if m else []
    spread = float(parts[-1].std(ddof=1)) if len(parts[-1]) > 1 else 0.0
    tolerance = max(EQUAL_SHARE * min(means), spread) if means else 0.0
    different = [k for k, mean in enumerate(means) if abs(mean - means[-1]) > tolerance]
    steady = cuts[different[-1]] if different else 0
    kind: SteadyKind = "flat"
    if different and steady / m > 0.5:
        kind = "no steady state"
    elif different:
        kind = "slowdown" if any(means[k] < means[-1] for k in different) else "warm-up"
    return Segmentation(kind=kind, means=tuple(means), steady_from=steady * size)


class ChangePoint(Value, frozen=True, kw_only=True):
    """One change of level, between two points of a series."""

    index: int
    before: float
    after: float
    change: float  # relative: 0.1 is 10 % more
    p: float
    confirmed: bool  # whether it is also found without the last ``CONFIRM`` points


def change_points(values: Sequence[float] | Column) -> tuple[ChangePoint, ...]:
    """Return the changes of level in a series of positive values, in order."""
    column = np.asarray(values, float)
    logs = np.log(column)
    cuts, earlier = _significant_cuts(logs), _significant_cuts(logs[: len(logs) - CONFIRM])
    found = []
    for (begin, cut), (_, end) in pairwise(segments(len(column), cuts)):
        before, after = (float(np.median(part)) for part in (column[begin:cut], column[cut:end]))
        found.append(
            ChangePoint(
                index=cut,
                before=before,
                after=after,
                change=after / before - 1,
                p=_welch_p(logs[begin:cut], logs[cut:end]),
                confirmed=any(abs(each - cut) <= NEAR for each in earlier),
            )
        )
    return tuple(found)


def segments(count: int, points: Sequence[int]) -> list[tuple[int, int]]:
    """Return begin and end of the segments between change points."""
    return list(pairwise([0, *points, count]))


def _significant_cuts(logs: Column) -> list[int]:
    """Remove the weakest cut until all remaining ones are significant and large enough."""
    needed = math.log1p(MIN_CHANGE)
    kept, _ = level_cuts(without_outliers(logs), least=MIN_POINTS, resolution=RESOLUTION)
    while kept:
        weakness = []  # how far each cut is from being significant; at most 0 if it is
        for (begin, cut), (_, end) in pairwise(segments(len(logs), kept)):
            before, after = logs[begin:cut], logs[cut:end]
            change = abs(float(np.median(after) - np.median(before)))
            unsure = math.log10(max(_welch_p(before, after), 1e-300) / P)
            lacking = max(unsure, (needed - change) / needed)
            weakness.append(lacking if change >= needed else 1000 + lacking)
        worst = int(np.argmax(weakness))
        if weakness[worst] <= 0:
            break
        del kept[worst]
    return kept


def _welch_p(before: Column, after: Column) -> float:
    """Return the p-value of Welch's t-test for equal means."""
    spread = [float(part.var(ddof=1)) / len(part) for part in (before, after)]
    error, gap = sum(spread), float(after.mean() - before.mean())
    if error <= 0:
        return 1.0 if gap == 0 else 0.0
    df = error**2 / (spread[0] ** 2 / (len(before) - 1) + spread[1] ** 2 / (len(after) - 1))
    return t_two_sided_p(gap / math.sqrt(error), df=df)


class SeriesKey(Value, frozen=True, kw_only=True):
    """The properties that all runs of a series share."""

    model: str
    runtime: str
    precision: str | None
    shape: str
    protocol: str
    machine: str
    device: str | None = None
    settings: str = ""

    @property
    def name(self) -> str:
        parts = (self.model, self.runtime, self.precision, self.shape, self.protocol)
        where = self.device or self.machine
        return " · ".join(part for part in (*parts, self.settings, where) if part)


class Point(Value, frozen=True, kw_only=True):
    run: str
    created: str
    median_s: float
    items_per_s: float | None = None
    tags: tuple[str, ...] = ()
    facts: dict[str, str] = {}


class ShiftCause(Value, frozen=True, kw_only=True):
    """A fact that changed together with the level: a possible cause."""

    name: str
    before: str
    after: str


class HistoryChange(Value, frozen=True, kw_only=True):
    """A change of level, the first run after it, and possible causes."""

    at: ChangePoint
    run: str
    created: str
    causes: tuple[ShiftCause, ...] = ()


class Series(Value, frozen=True, kw_only=True):
    """Comparable runs, oldest first."""

    key: SeriesKey
    points: tuple[Point, ...]
    changes: tuple[HistoryChange, ...] = ()

    @property
    def values(self) -> list[float]:
        return [point.median_s for point in self.points]

    def levels(self) -> list[tuple[int, int]]:
        """Return begin and end of the segments of equal level."""
        return segments(len(self.points), [change.at.index for change in self.changes])


def key_from_record(record: RunRecord) -> SeriesKey:
    gpu = gpu_of(record)
    own = ("model", "runtime", "precision", "inputs", "protocol")
    return SeriesKey(
        model=record.spec.model.name,
        runtime=record.spec.runtime,
        precision=precision_of(record),
        shape=inputs_of(record),
        protocol=protocol_of(record),
        machine=record.environment.kind,
        device=gpu.name if gpu else None,
        settings=history_settings(record, without=own),
    )


def facts_from_record(record: RunRecord) -> dict[str, str]:
    """Return facts that may explain a change: model file, versions, machine."""
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


def series_from_points(key: SeriesKey, points: Sequence[Point]) -> Series:
    """Sort the points of one series, and find its changes with their possible causes."""
    usable = [p for p in points if p.median_s > 0 and math.isfinite(p.median_s)]
    usable.sort(key=lambda point: epoch_s(point.created))
    found = change_points([point.median_s for point in usable]) if usable else ()
    stretches = segments(len(usable), [each.index for each in found])
    changes = []
    for at, ((begin, cut), (_, end)) in zip(found, pairwise(stretches), strict=True):
        around = usable[max(begin, cut - AROUND) : cut], usable[cut : min(end, cut + AROUND)]
        run, created = usable[cut].run, usable[cut].created
        facts = changed_facts(*around)
        changes.append(HistoryChange(at=at, run=run, created=created, causes=facts))
    return Series(key=key, points=tuple(usable), changes=tuple(changes))


def epoch_s(created: str) -> float:
    """Return a record's time in seconds since 1970; 0 if it cannot be read."""
    return instant_from_text(created) or 0.0


def best_point(series: Series) -> Point:
    """Return a typical run of the best level of the series.

    The fastest single run may be chance. With too few points for levels, it is returned anyway.
    """
    points = series.points
    if len(points) < 2 * MIN_POINTS:
        return min(points, key=lambda point: point.median_s)
    levels = [points[begin:end] for begin, end in series.levels()]
    best = min(levels, key=lambda level: float(np.median([p.median_s for p in level])))
    middle = float(np.median([point.median_s for point in best]))
    return min(reversed(best), key=lambda point: abs(point.median_s - middle))


def changed_facts(before: Sequence[Point], after: Sequence[Point]) -> tuple[ShiftCause, ...]:
    """Return the facts that differ between the points before and after a change."""

    def usual(points: Sequence[Point], name: str) -> str | None:
        counts = Counter(point.facts.get(name, "unknown") for point in points)
        value, count = counts.most_common(1)[0] if counts else ("", 0)
        return value if count >= DOMINANT_SHARE * len(points) and count else None

    names = dict.fromkeys(name for point in (*before, *after) for name in point.facts)
    sides = [(name, usual(before, name), usual(after, name)) for name in names]
    return tuple(
        ShiftCause(name=name, before=old, after=new)
        for name, old, new in sides
        if old is not None and new is not None and old != new
    )
