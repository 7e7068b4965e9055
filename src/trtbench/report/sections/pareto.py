"""Accuracy against latency: which runs no other run beats in both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from trtbench.analysis.scores import is_share, less_is_better
from trtbench.domain.result import Run
from trtbench.report.charts import Axis, Line, Lines, Panel
from trtbench.report.document import Figure, Section
from trtbench.report.labels import labels_from_runs
from trtbench.report.numbers import unit_for_seconds
from trtbench.report.run_facts import headline_summary, headline_title
from trtbench.report.run_scores import Reading, readings_from_run
from trtbench.units import text_from_bytes

ORDER = 78

MOST_MARKS = 40
MOST_TEXTS = 8
"""Names that fit beside the marks of the front."""
FAR = 4
"""Latencies further apart than this have a logarithmic axis, or the fast ones would be one blot."""


@dataclass(frozen=True)
class _Point:
    name: str
    role: str
    per_item_s: float
    score: Reading
    size_bytes: int | None


def make(runs: Sequence[Run]) -> Section | None:
    """Draw the metric most runs have against the latency per item, and the front."""
    metric = _metric(runs)
    points = _points(runs, metric) if metric else []
    if metric is None or len(points) < 2 or len({(p.per_item_s, p.score) for p in points}) < 2:
        return None
    return Section(
        id="pareto",
        title="Accuracy against latency",
        blocks=(_figure(points[:MOST_MARKS], metric, runs),),
    )


def _metric(runs: Sequence[Run]) -> str | None:
    counts = Counter(metric for run in runs for metric in readings_from_run(run))
    return counts.most_common(1)[0][0] if counts else None


def _points(runs: Sequence[Run], metric: str) -> list[_Point]:
    points = []
    for index, (label, run) in enumerate(zip(labels_from_runs(runs), runs, strict=True)):
        head, score = headline_summary(run), readings_from_run(run).get(metric)
        if head and score and (items := run.record.known_items):
            per_item = head.typical / items
            size = run.record.spec.model.size_bytes
            points.append(_Point(label, f"run:{index}", per_item, score, size))
    return points


def front(points: Sequence[tuple[float, float]], *, less: bool) -> list[int]:
    """Choose the points that no other beats: faster first, each more accurate than the last."""
    chosen: list[int] = []
    best = float("inf") if less else float("-inf")
    order = sorted(
        range(len(points)), key=lambda i: (points[i][0], points[i][1] if less else -points[i][1])
    )
    for place in order:
        score = points[place][1]
        if score < best if less else score > best:
            chosen.append(place)
            best = score
    return chosen


def _figure(points: Sequence[_Point], metric: str, runs: Sequence[Run]) -> Figure:
    times = [point.per_item_s for point in points]
    unit, scale = unit_for_seconds(min(times))
    share = is_share(metric) and all(point.score.value <= 1 for point in points)
    whole = 100.0 if share else 1.0
    less = less_is_better(metric)
    best = front([(point.per_item_s, point.score.value) for point in points], less=less)
    lines = [_line(point, scale, whole, points) for point in points]
    if len(best) > 1:
        lines.insert(
            0,
            Line(
                name="Pareto front",
                role="front",
                x=tuple(points[i].per_item_s / scale for i in best),
                y=tuple(whole * points[i].score.value for i in best),
                texts=tuple(points[i].name for i in best) if len(best) <= MOST_TEXTS else (),
                style="dotted",
            ),
        )
    where = "lower" if less else "upper"
    beaten = "" if len(best) > 1 else f" None beats {points[best[0]].name} in either."
    far = max(times) > FAR * min(times)
    chart = Lines(
        x=Axis(
            title=f"{headline_title(runs)}, median per item",
            unit=unit,
            scale="log" if far else "linear",
        ),
        y=Axis(title=metric, unit="%" if whole > 1 else None),
        panels=(Panel(lines=tuple(lines)),),
    )
    return Figure(
        id="pareto",
        title=f"{metric} against latency",
        chart=chart,
        caption=f"Best is the {where} left.{beaten} "
        "The area of a mark is the size of the model's file.",
    )


def _line(point: _Point, scale: float, whole: float, points: Sequence[_Point]) -> Line:
    largest = max((each.size_bytes or 0 for each in points), default=0)
    size = point.size_bytes / largest if point.size_bytes and largest else 0.5
    size *= 1.0 if len(points) <= MOST_TEXTS else 0.4  # many large marks would cover each other
    ends = point.score.bounds
    return Line(
        name=f"{point.name} ({text_from_bytes(point.size_bytes)})",
        role=point.role,
        x=(point.per_item_s / scale,),
        y=(whole * point.score.value,),
        low=(whole * ends.low,) if ends else (),
        high=(whole * ends.high,) if ends else (),
        sizes=(size,),
        style="points",
    )
