"""Comparisons: both sides, a verdict per metric, and what the verdicts rest on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING

from trtbench.analysis.other_definitions import guide_speedup
from trtbench.analysis.verdict import in_cycles, would_tell
from trtbench.domain.comparison import Verdict
from trtbench.domain.result import Finding, Interval, known_value
from trtbench.report.cells import change_cell, duration_cell
from trtbench.report.device_table import device_blocks, device_names
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Heading,
    KeyValues,
    Section,
    Table,
    Text,
    Tone,
    table_from_rows,
)
from trtbench.report.documents.run import finding_blocks, statistics_of, title_of
from trtbench.report.headings import CHANGE_HEADING, MEDIAN_HEADING, METRIC_HEADING
from trtbench.report.labels import model_name
from trtbench.report.numbers import text_from_change, text_from_duration
from trtbench.report.run_facts import headline_summary
from trtbench.units import counted, text_from_fraction

if TYPE_CHECKING:
    from trtbench.workflows.compare.compare import Compared

TONES: dict[str, Tone] = {"faster": "good", "slower": "bad", "same": "plain"}
"""Of verdicts; those that are none are unclear."""
HEADINGS = (
    METRIC_HEADING,
    Heading(key="verdict", title="Verdict"),
    CHANGE_HEADING,
    Heading(key="interval", title="Interval", rank=1),
)
RANKING = (
    Heading(key="candidate", title="Candidate", fit="shorten"),
    MEDIAN_HEADING,
    *HEADINGS[1:],
)
_DESIGNS = {
    "one-process": "in turn within one process",
    "lock-step": "in turn, two processes in lock-step",
    "bursts": "bursts and series in turn, two processes at once",
    "launches": "fresh launches in turn (ABBA)",
    "stored runs": "as they were stored",
}


def document_from_comparisons(found: Sequence[Compared], *, selftest: bool = False) -> Document:
    """Describe every candidate against the baseline, and where there are several, all in a row."""
    sections = [_section(each, number, selftest) for number, each in enumerate(found)]
    if len(found) > 1:
        rows = [_ranked(each) for each in found]
        table = table_from_rows("ranking", headings=RANKING, rows=rows)
        sections.append(Section(id="ranking", title="Against the baseline", blocks=(table,)))
    runs = {run.id: run for each in found for run in (each.baseline, each.candidate)}
    devices = tuple(device_blocks(list(runs.values()), device_names(list(runs.values()))))
    if devices:
        sections.append(Section(id="devices", title="Devices side by side", blocks=devices))
    created = max(each.candidate.record.created for each in found)
    return Document(title="", created=created, sections=tuple(sections))


def verdict_table(verdicts: Sequence[Verdict], *, id: str = "verdicts") -> Table:
    """List the verdict on each metric with its change and interval."""
    rows = [(verdict.metric, *verdict_cells(verdict)) for verdict in also_in_cycles(verdicts)]
    return table_from_rows(id, headings=HEADINGS, rows=rows)


def also_in_cycles(verdicts: Sequence[Verdict]) -> Iterator[Verdict]:
    """Put what it is in clock cycles behind each verdict on seconds whose clocks were seen."""
    for verdict in verdicts:
        yield verdict
        if (counted_so := in_cycles(verdict)) is not None:
            yield counted_so


def verdict_cells(verdict: Verdict) -> tuple[Cell, Cell, Cell]:
    """Write a verdict, the change it is about, and the interval of that."""
    change = None if verdict.ratio is None else verdict.ratio - 1
    level = f"{verdict.interval.level * 100:g} %: " if verdict.interval else ""
    words = f"{verdict.kind}, across devices" if verdict.across_devices else verdict.kind
    return (
        Cell(value=verdict.kind, text=words, tone=TONES.get(verdict.kind, "unclear")),
        change_cell(change),
        Cell(text=level + interval_text(verdict)),
    )


def interval_text(verdict: Verdict, *, digits: int = 2) -> str:
    """Write both ends of a change's interval."""
    if verdict.interval is None:
        return "–"
    ends = (verdict.interval.low - 1, verdict.interval.high - 1)
    return " to ".join(text_from_change(end, digits=digits) for end in ends)


def reasons(verdicts: Sequence[Verdict]) -> Iterator[Text]:
    """Say once why a verdict is none, and what would tell."""
    told: dict[str, list[str]] = {}
    for verdict in verdicts:
        if verdict.kind in ("unclear", "incomparable"):
            words = verdict.reason + would_tell(verdict.launches_needed)
            told.setdefault(words, []).append(verdict.metric)
    for words, metrics in told.items():
        yield Text(text=f"{', '.join(metrics)}: {words}", tone="unclear")


def _section(compared: Compared, number: int, selftest: bool) -> Section:
    sides = {"baseline": compared.baseline, "candidate": compared.candidate}
    comparison = compared.comparison
    pairs = [(side, Cell(text=title_of(run))) for side, run in sides.items()]
    pairs += [(name, Cell(text=words)) for name, words in _design(compared)]
    after = [(name, Cell(text=words)) for name, words in _worth(compared, selftest)]
    blocks: list[Block] = [
        KeyValues(id=f"sides_{number}", pairs=tuple(pairs)),
        *statistics_of(sides, id=f"statistics_{number}"),
        verdict_table(comparison.verdicts, id=f"verdicts_{number}"),
        *reasons(comparison.verdicts),
        *([KeyValues(id=f"worth_{number}", pairs=tuple(after))] if after else []),
        *finding_blocks((*_errors(compared), *comparison.findings)),
    ]
    candidate, baseline = _names(compared)
    title = f"{candidate} against {'itself' if selftest else baseline}"
    return Section(id=f"comparison-{number}", title=title, blocks=tuple(blocks))


def _names(compared: Compared) -> tuple[str, str]:
    """Name candidate and baseline by their models, and by their devices where those differ."""
    sides = (compared.candidate, compared.baseline)
    names = [model_name(run.record) for run in sides]
    devices = device_names(sides)
    if len(set(devices.values())) > 1:
        names = [f"{name} on {devices[run.id]}" for name, run in zip(names, sides, strict=True)]
    return names[0], names[1]


def _design(compared: Compared) -> Iterator[tuple[str, str]]:
    judged = compared.comparison.verdicts[0].launches
    # Where no ratio was made of them: launches of the side that has fewer.
    sides = (compared.baseline, compared.candidate)
    count = judged or min(len(run.record.launches) for run in sides)
    launches = counted(count, "launch", "launches")
    yield "measured", f"{_DESIGNS.get(compared.mode, compared.mode)}, {launches} a side"
    yield from _bursts(compared)
    if compared.interference:
        moved = " and ".join(text_from_change(part) for part in compared.interference)
        yield "in turns", f"{moved} against alone (baseline and candidate)"
    alone = compared.comparison.alone
    if alone is not None and alone.ratio is not None and alone.interval is not None:
        yield "alone", f"{text_from_change(alone.ratio - 1)}, {interval_text(alone, digits=1)}"


def _bursts(compared: Compared) -> Iterator[tuple[str, str]]:
    """Tell the GPU time of each side in bursts, and how these were made."""
    sides = (compared.baseline, compared.candidate)
    launches = [[each for each in run.record.launches if each.burst_s] for run in sides]
    if not all(launches):
        return
    one, other = (_typical_burst([median(each.burst_s) for each in side]) for side in launches)
    first = launches[0][0]
    graph = known_value(compared.baseline.record.conditions.get("cuda_graph"))
    what = "graph launches" if graph is True else "plain enqueues (no CUDA graph)"
    how = f"{len(first.burst_s)} bursts of {first.burst_size} {what}, {len(launches[0])} launches"
    yield "GPU time", f"{one} against {other}: {how}"


def _typical_burst(seconds: Sequence[float]) -> str:
    """Write a GPU time with the digits in which launches agree."""
    bounds = Interval(low=min(seconds), high=max(seconds), level=1.0, meaning="all launches")
    return text_from_duration(median(seconds), bounds=bounds)


def _worth(compared: Compared, selftest: bool) -> Iterator[tuple[str, str]]:
    """State the speed-up where there is one, the least difference seen, and the selftest."""
    head = compared.comparison.verdicts[0]
    if head.kind in ("faster", "slower") and head.ratio and head.interval is not None:
        ends = sorted(1 / end for end in (head.interval.low, head.interval.high))
        yield "speed-up", f"{1 / head.ratio:.3f}x, {ends[0]:.3f}x to {ends[1]:.3f}x"
    rates = next((v for v in compared.comparison.verdicts if v.metric == "throughput"), None)
    first, second = compared.baseline.times.host, compared.candidate.times.host
    if first is not None and second is not None and rates and rates.kind in ("faster", "slower"):
        numbers = guide_speedup(first, second)
        gained = text_from_change(numbers["fps_improvement_percent"] / 100, digits=1)
        yield "of means", f"{numbers['speedup']:.3f}x, FPS {gained}"
    if compared.comparison.detectable is not None:
        size = text_from_fraction(compared.comparison.detectable)
        yield "sees", f"differences from {size} on, in 80 % of such comparisons"
    if selftest:
        word = "as it should be" if head.kind == "same" else "this machine misleads comparisons"
        yield "selftest", f"the model against itself is {head.kind}: {word}"


def _errors(compared: Compared) -> Iterator[Finding]:
    """Name what makes the time of a side alone worthless: a wrong result has no speed."""
    for side, run in (("baseline", compared.baseline), ("candidate", compared.candidate)):
        for finding in run.findings:
            if finding.severity == "error":
                yield finding.having(concerns=side)


def _ranked(compared: Compared) -> tuple[Cell, ...]:
    head = headline_summary(compared.candidate)
    median = head.typical if head else None
    bounds = head.median_interval if head else None
    return (
        Cell(value=_names(compared)[0]),
        duration_cell(median, bounds=bounds),
        *verdict_cells(compared.comparison.verdicts[0]),
    )
