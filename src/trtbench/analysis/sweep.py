"""Rows of a sweep: one case each with all its rounds, measured or failed; the best, the front."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from trtbench.analysis.column_summary import ColumnSummary
from trtbench.analysis.conditions import Condition, Content, QuantityKind, holds, unknown_names
from trtbench.analysis.scores import is_share, less_is_better
from trtbench.analysis.summary import Summary
from trtbench.domain.result import Finding, Interval, Scalar, Score
from trtbench.domain.spec import Value

Better = Literal["low", "high"]
FrontPlace = tuple[int, int]
"""Batch and streams."""

ENOUGH = 0.95
"""Of the best throughput: beyond it more in flight brings waiting, not work."""
ACCURACY = "top1"
QUANTITIES = (
    "median", "mean", "min", "max", "std", "cov", "gpu", "gpu_mean", "gpu_max", "throughput",
    "items", "size", "layers", "parameters", "top1", "top5", "batch", "model", "precision",
    "runtime", "engine", "per_item", "max_abs", "sqnr",
)  # fmt: skip
"""What a condition may ask for, beside percentiles, scores and the options of the sweep."""
PERCENTILES = ("p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99.9")
TIMES = (
    "median", "mean", "min", "max", "std", "gpu", "gpu_mean", "gpu_max", "per_item", *PERCENTILES,
)  # fmt: skip
"""Quantities that are times, and are compared with nothing but times."""
RATES = ("throughput", "items")
COUNTS = ("layers", "parameters", "batch", "max_abs")
SHARES = ("top1", "top5", "cov")
"""Quantities that are shares wherever there are any."""


def pareto_front(
    points: Sequence[Mapping[str, float | None]], *, better: Mapping[str, Better]
) -> list[int]:
    """List the places of the points that no other one beats, in their order.

    A point that lacks one of the quantities is not judged and not on the front.
    """
    known = {
        place: tuple(_cost(point.get(name), way) for name, way in better.items())
        for place, point in enumerate(points)
        if all(point.get(name) is not None for name in better)
    }
    return [
        place
        for place, mine in known.items()
        if not any(_beats(other, mine) for other in known.values())
    ]


def _cost(value: float | None, way: Better) -> float:
    assert value is not None
    return value if way == "low" else -value


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a <= b for a, b in zip(one, other, strict=True))


class SweepRow(Value, frozen=True, kw_only=True):
    """One case of a sweep; a case that failed has a reason and no numbers."""

    model: str
    runtime: str
    precision: str | None = None
    batch: int | None = None
    engine: str | None = None
    """``static`` or ``dynamic``, where an engine was built."""
    options: dict[str, Scalar] = {}
    name: str | None = None
    """What the row is called instead of its label."""
    runs: tuple[str, ...] = ()
    """One for each round."""
    reason: str | None = None
    """Why there are no numbers."""
    remark: str | None = None
    """What did not work beside the measurement: the accuracy, a round."""
    summary: Summary | None = None
    """Over the launches of all rounds."""
    size_bytes: int | None = None
    layers: int | None = None
    parameters: int | None = None
    scores: dict[str, Score] = {}
    max_abs: float | None = None
    """The most that outputs differ by from those of the model as given, where that was asked."""
    sqnr_db: float | None = None
    """Of the worst output; ``None`` where outputs are the same too."""
    findings: tuple[Finding, ...] = ()
    """What the tool itself thinks of the numbers."""
    on_front: bool = False

    @property
    def head(self) -> ColumnSummary | None:
        found = self.summary and [c for c in self.summary.columns if c.column == self.headline]
        return found[0] if found else None

    @property
    def headline(self) -> str | None:
        return self.summary.headline if self.summary else None

    @property
    def interval(self) -> Interval | None:
        return self.summary.interval if self.summary else None

    @property
    def label(self) -> str:
        """Name the row among those of its model and batch."""
        if self.name is not None:
            return self.name
        return " ".join(part for part in (self.runtime, self.precision, self.engine) if part) + (
            "".join(f" {key}={value}" for key, value in self.options.items())
        )

    def column(self, name: str) -> ColumnSummary | None:
        columns = self.summary.columns if self.summary else ()
        return next((column for column in columns if column.column == name), None)


def kinds(names: Iterable[str]) -> dict[str, QuantityKind]:
    """Tell what quantities are, so that a condition writes them in their own unit."""
    known: dict[str, QuantityKind] = {
        **dict.fromkeys(TIMES, "time"), **dict.fromkeys(RATES, "rate"), "size": "size",
        **dict.fromkeys(COUNTS, "count"), **dict.fromkeys(SHARES, "share"), "sqnr": "level",
    }  # fmt: skip
    return {**{name: "share" for name in names if is_share(name)}, **known}


def quantities(rows: Sequence[SweepRow]) -> list[str]:
    """List the names a condition on these rows may use."""
    further = [name for row in rows for name in (*row.options, *row.scores)]
    return list(dict.fromkeys((*QUANTITIES, *PERCENTILES, *further)))


def quantities_of(row: SweepRow) -> dict[str, Content]:
    """Collect the quantities of a row; shares as such: 0.7 is 70 %."""
    found: dict[str, Content] = {
        "model": row.model,
        "precision": row.precision,
        "runtime": row.runtime,
        "engine": row.engine,
        "batch": row.batch,
        "size": row.size_bytes,
        "layers": row.layers,
        "parameters": row.parameters,
        "max_abs": row.max_abs,
        "sqnr": math.inf if row.max_abs == 0 else row.sqnr_db,
        **{name: _content(value) for name, value in row.options.items()},
        **{name: score.value for name, score in row.scores.items()},
    }
    head, gpu = row.head, row.column("gpu")
    if head is not None and row.summary is not None:
        found |= {name: getattr(head, name) for name in ("median", "mean", "min", "max", "std")}
        found |= {each.name: each.value for each in head.quantiles}
        found |= {"cov": head.cov, "throughput": row.summary.queries_per_s}
        found |= {
            "items": row.summary.items_per_s,
            "per_item": head.median / row.batch if row.batch else None,
        }
    if gpu is not None:
        found |= {"gpu": gpu.median, "gpu_mean": gpu.mean, "gpu_max": gpu.max}
    return found


def baseline_of(row: SweepRow, rows: Sequence[SweepRow]) -> SweepRow | None:
    """Find the first row of the matrix with the same model and batch, else with the same model.

    Where models are what is compared, any model will do.
    """
    every = compares_models(rows)
    same = [each for each in rows if (every or each.model == row.model) and each.summary]
    return next((each for each in same if each.batch == row.batch), same[0] if same else None)


class Chosen(Value, frozen=True, kw_only=True):
    """What a condition leaves, the best first."""

    rows: tuple[SweepRow, ...]
    unknown: dict[str, int] = {}
    """Quantities that rows did not know, and how many rows that kept out."""


def choose(rows: Sequence[SweepRow], condition: Condition, *, by: str = "items") -> Chosen:
    """Find the rows that meet a condition, best first: most items per second, or least time."""
    unknown: dict[str, int] = {}
    met = []
    for row in (each for each in rows if each.reason is None):
        values, baseline = quantities_of(row), baseline_of(row, rows)
        verdict = holds(condition, values, baseline=quantities_of(baseline) if baseline else None)
        if verdict:
            met.append(row)
        elif verdict is None:
            for name in unknown_names(condition, values):
                unknown[name] = unknown.get(name, 0) + 1
    most = by in ("items", "throughput") or (by in _scores(rows) and not less_is_better(by))
    better = -1.0 if most else 1.0
    met.sort(key=lambda row: _order(quantities_of(row).get(by), better))
    return Chosen(rows=tuple(met), unknown=unknown)


def is_one_table(rows: Sequence[tuple[str, str]]) -> bool:
    """Tell whether models are what a sweep compares: several, each with one label."""
    labels: dict[str, set[str]] = {}
    for model, label in rows:
        labels.setdefault(model, set()).add(label)
    return len(labels) > 1 and all(len(each) == 1 for each in labels.values())


def compares_models(rows: Sequence[SweepRow]) -> bool:
    """Tell the same of rows; those that failed do not know what they would have been."""
    return is_one_table([(row.model, row.label) for row in rows if row.summary is not None])


def with_front(rows: Sequence[SweepRow]) -> list[SweepRow]:
    """Mark the rows that none beats in latency, throughput and accuracy, of each model or all."""

    chosen: set[int] = set()
    for model in [None] if compares_models(rows) else dict.fromkeys(row.model for row in rows):
        places = [k for k, row in enumerate(rows) if model in (None, row.model) and row.summary]
        points = [_numbers(rows[k]) for k in places]
        better: dict[str, Better] = {"median": "low", "items": "high"}
        metric = _accuracy(rows[k] for k in places)
        if metric and all(point.get(metric) is not None for point in points):
            better[metric] = "low" if less_is_better(metric) else "high"
        chosen |= {places[k] for k in pareto_front(points, better=better)}
    return [row.having(on_front=k in chosen) for k, row in enumerate(rows)]


def _accuracy(rows: Iterable[SweepRow]) -> str | None:
    """Find the score that counts: top-1, or the first that a task has."""
    names = [name for row in rows for name in row.scores]
    return ACCURACY if ACCURACY in names else next(iter(names), None)


def _numbers(row: SweepRow) -> dict[str, float | None]:
    values = quantities_of(row)
    return {n: v for n, v in values.items() if not isinstance(v, str)}


def _scores(rows: Sequence[SweepRow]) -> set[str]:
    return {name for row in rows for name in row.scores}


def _order(value: Content, better: float) -> tuple[bool, float]:
    return (
        not isinstance(value, int | float),
        better * value if isinstance(value, int | float) else 0.0,
    )


def _content(value: Scalar) -> Content:
    return value if isinstance(value, str) or value is None else float(value)


class Choice(Value, frozen=True, kw_only=True):
    """The place to use, and the best one."""

    batch: int
    streams: int
    items_per_s: float
    best_batch: int
    best_streams: int
    best_items_per_s: float


def choice_from_surface(rates: Mapping[FrontPlace, float]) -> Choice | None:
    """Take the knee: the fewest items in flight that reach almost the best throughput."""
    if not rates:
        return None
    best = max(rates, key=lambda place: rates[place])
    enough = [place for place, rate in rates.items() if rate >= ENOUGH * rates[best]]
    knee = min(enough, key=lambda place: (place[0] * place[1], place[1]))
    return Choice(
        batch=knee[0],
        streams=knee[1],
        items_per_s=rates[knee],
        best_batch=best[0],
        best_streams=best[1],
        best_items_per_s=rates[best],
    )
