"""What a comparison concluded: verdicts, shifts, whether rules hold; and how it shows itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from trtbench.boundary import clean_line
from trtbench.domain.result import Finding, Interval
from trtbench.domain.run_view import escaped, html_row
from trtbench.domain.spec import Value
from trtbench.errors import UsageError
from trtbench.extras import optional_library
from trtbench.units import text_from_fraction

WIDTH, ROW = 480, 26
LEAST_SPAN = 0.02
"""A picture shows 2 % to each side at least: what is the same must look so."""

VerdictKind = Literal["same", "faster", "slower", "unclear", "incomparable"]


Design = Literal["duet", "bursts", "launches", "apart", "builds"]
"""How two sides were measured.

duet      alternated iteration by iteration within a launch
bursts    two processes at once: bursts in turn for GPU time, series of queries in turn for the rest
launches  fresh processes of the two in turn (ABBA)
apart     each on its own, at another time
builds    several engines of each, built afresh; the build is the unit
"""


class Verdict(Value, frozen=True, kw_only=True):
    """What can be said about one metric of a candidate against a baseline."""

    metric: str
    """``host``, ``gpu``, ``p99``, ``throughput``, ..."""
    kind: VerdictKind
    ratio: float | None
    """Candidate over baseline, of times or, for throughput, of rates."""
    interval: Interval | None
    """Of the ratio."""
    reason: str
    launches: int
    launches_needed: int | None = None
    """In all, before the verdict could become clear; ``None`` when more would not help."""
    p: float | None = None
    design: Design = "duet"
    across_devices: str | None = None
    """The two devices, where a ratio is between them: it says nothing about a change."""
    clock_ratio: float | None = None
    """SM clock of the candidate over the baseline's while they were measured, of GPU time."""


class ShiftPoint(Value, frozen=True, kw_only=True):
    """Ratio of one quantile of two distributions, with an interval that holds for all at once."""

    q: float
    ratio: float
    interval: Interval
    differs: bool


class ComparisonView:
    """Shows a comparison: ``comparison`` in a notebook, ``comparison.plot()``."""

    __slots__ = ()

    if TYPE_CHECKING:
        baseline: str
        candidate: str
        verdicts: tuple[Verdict, ...]
        findings: tuple[Finding, ...]

    def __repr__(self) -> str:
        """Write one line: which runs, and what is said of each metric."""
        said = ", ".join(f"{each.metric} {each.kind} {_change(each)}" for each in self.verdicts)
        line = f"<Comparison of {self.candidate} with {self.baseline}: {said or 'no verdict'}>"
        return clean_line(line)

    def _repr_html_(self) -> str:
        """Write a table of the verdicts, a picture of their intervals, and what to beware of."""
        heads = html_row("th", "Metric", "Verdict", "Change", "Interval")
        rows = [
            html_row("td", each.metric, each.kind, _change(each), _interval(each))
            for each in self.verdicts
        ]
        grave = [each for each in self.findings if each.severity != "note"]
        said = "".join(f"<li>{escaped(f'{e.severity} {e.code}: {e.message}')}</li>" for e in grave)
        names = f"{escaped(self.candidate)} against {escaped(self.baseline)}"
        table = f"<table>{heads}{''.join(rows)}</table>"
        return f"<p><b>{names}</b></p>{table}{self._svg()}{f'<ul>{said}</ul>' if said else ''}"

    def plot(self) -> object:
        """Draw the change of every metric with its interval; returns the figure."""
        drawn = _with_interval(self.verdicts)
        if not drawn:
            raise UsageError("no verdict of the comparison has an interval to draw")
        pyplot = optional_library("matplotlib.pyplot")
        figure, axes = pyplot.subplots(figsize=(7, 0.6 + 0.4 * len(drawn)), layout="constrained")
        for place, (_, low, middle, high) in enumerate(drawn):
            axes.plot([100 * low, 100 * high], [place, place], linewidth=2)
            axes.plot(100 * middle, place, "o", color="black")
        axes.axvline(0, linestyle="--", color="grey")
        axes.set_yticks(range(len(drawn)), [name for name, *_ in drawn])
        axes.set(xlabel="change of the candidate (%)")
        axes.invert_yaxis()
        return figure

    def _svg(self) -> str:
        drawn = _with_interval(self.verdicts)
        if not drawn:
            return ""
        span = max(LEAST_SPAN, *(max(-low, high) for _, low, _, high in drawn))
        left = 90
        half = (WIDTH - left) / 2

        def place(change: float) -> float:
            return left + half * (1 + change / span)

        parts = [
            f'<text x="0" y="{n * ROW + 17}">{escaped(name)}</text>'
            f'<line x1="{place(low):.1f}" x2="{place(high):.1f}" y1="{n * ROW + 13}" '
            f'y2="{n * ROW + 13}" stroke="currentColor" stroke-width="3"/>'
            f'<circle cx="{place(middle):.1f}" cy="{n * ROW + 13}" r="4"/>'
            for n, (name, low, middle, high) in enumerate(drawn)
        ]
        height = len(drawn) * ROW
        ends = "".join(
            f'<text x="{x}" y="{height + 15}" text-anchor="{anchor}">'
            f"{text_from_fraction(end, signed=True)}</text>"
            for x, anchor, end in ((left, "start", -span), (WIDTH, "end", span))
        )
        return (
            f'<svg width="{WIDTH}" height="{height + 20}" viewBox="0 0 {WIDTH} {height + 20}" '
            f'role="img" aria-label="Change by metric" font-size="12" fill="currentColor">'
            f'<line x1="{place(0)}" x2="{place(0)}" y1="0" y2="{height}" stroke="currentColor" '
            f'stroke-dasharray="4"/>{"".join(parts)}{ends}</svg>'
        )


class Comparison(ComparisonView, Value, frozen=True, kw_only=True):
    """A candidate against a baseline: a verdict per metric and what they rest on."""

    baseline: str
    candidate: str
    design: Design
    verdicts: tuple[Verdict, ...]
    findings: tuple[Finding, ...] = ()
    shift: tuple[ShiftPoint, ...] = ()
    faster_share: float | None = None
    """Share of pairs in which the candidate was faster, ties counted half: P(B < A)."""
    cliffs_delta: float | None = None
    """P(B > A) - P(B < A): 1 when the candidate is always slower."""
    detectable: float | None = None
    """Smallest effect found in 80 % of comparisons like this one."""
    effects: tuple[float, ...] = ()
    """Per launch, median ln(candidate / baseline) of the first metric."""
    alone: Verdict | None = None
    """What the times alone say of the first metric, where sides that took turns also ran alone."""

    def verdict(self, metric: str) -> Verdict:
        """Find the verdict on one metric; one that was not judged is a ``KeyError``."""
        for each in self.verdicts:
            if each.metric == metric:
                return each
        raise KeyError(metric)


class GateRule(Value, frozen=True, kw_only=True):
    """One condition a candidate must meet."""

    text: str
    """As the user wrote it."""
    metric: str
    """A column, ``throughput``, ``items`` or ``headline``."""
    statistic: str = "median"
    relation: Literal["<", "<=", ">", ">=", "slowdown", "expect"]
    """``expect`` is for expressions over layers, which stand in ``text``."""
    limit: float
    """Seconds, per second or a fraction, as the metric has it."""


class GateResult(Value, frozen=True, kw_only=True):
    """Whether one rule holds."""

    rule: GateRule
    outcome: Literal["pass", "fail", "unclear"]
    message: str
    value: float | None = None
    interval: Interval | None = None
    launches_needed: int | None = None


def _change(verdict: Verdict) -> str:
    return "" if verdict.ratio is None else text_from_fraction(verdict.ratio - 1, signed=True)


def _interval(verdict: Verdict) -> str:
    held = verdict.interval
    if held is None:
        return ""
    low, high = (text_from_fraction(each - 1, signed=True) for each in (held.low, held.high))
    return f"{100 * held.level:g} %: {low} to {high}"


def _with_interval(verdicts: tuple[Verdict, ...]) -> list[tuple[str, float, float, float]]:
    """List what can be drawn: name, and change with both its ends."""
    return [
        (each.metric, each.interval.low - 1, each.ratio - 1, each.interval.high - 1)
        for each in verdicts
        if each.interval is not None and each.ratio is not None
    ]
