"""The runs in one table, and in a sentence what to think of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trtbench.analysis.column_summary import ColumnSummary
from trtbench.domain.ran import protocol_of
from trtbench.domain.result import Run
from trtbench.report.cells import bytes_cell, count_cell, number_cell
from trtbench.report.device_table import device_names
from trtbench.report.document import Card, Cards, Cell, Heading, Section, Text, table_from_rows
from trtbench.report.finding_list import gather, short_title
from trtbench.report.headings import (
    BATCH_HEADING,
    DEVICE_HEADING,
    ID_HEADING,
    ITEMS_HEADING,
    MEDIAN_HEADING,
    PRECISION_HEADING,
    RUNTIME_HEADING,
    SIZE_HEADING,
)
from trtbench.report.labels import (
    labels_from_runs,
    model_name,
    network_name,
    precision_name,
    protocol_name,
)
from trtbench.report.numbers import (
    MISSING,
    UnitScale,
    common_unit,
    text_from_count,
    text_from_duration,
    text_from_number,
)
from trtbench.report.run_facts import (
    PHASES,
    REPORTED,
    column_title,
    headline_summary,
    summary_of,
    words_on_protocols,
)
from trtbench.units import counted

ORDER = 10
MOST_NAMED = 4
"""Findings named beside the numbers."""

HEADINGS = (  # what is looked up first stands left, in sight on a small screen
    Heading(key="model", title="Model"),
    PRECISION_HEADING,
    BATCH_HEADING,
    MEDIAN_HEADING,
    Heading(key="median_half_width", title="± (95 %)", align="right"),
    Heading(key="p99_s", title="p99", align="right"),
    ITEMS_HEADING,
    RUNTIME_HEADING,
    Heading(key="column", title="Time"),
    Heading(key="protocol", title="Protocol"),
    Heading(key="launches", title="Launches", align="right"),
    Heading(key="samples", title="Samples", align="right"),
    SIZE_HEADING,
    ID_HEADING,
)


def make(runs: Sequence[Run]) -> Section:
    """Put the verdict first: what was measured, how sure it is, and every run in a row."""
    heads = [headline_summary(run) for run in runs]
    unit = common_unit(head.typical for head in heads if head)
    devices = device_names(runs)
    several = len(set(devices.values())) > 1  # told where it differs, and there first of all
    table = table_from_rows(
        "summary",
        headings=(HEADINGS[0], *[DEVICE_HEADING] * several, *HEADINGS[1:]),
        rows=[
            (model_name(run.record), *[devices[run.id]] * several, *_row(run, unit)) for run in runs
        ],
        caption=(
            "A p99 is shown when enough independent samples support it. "
            "An interval of one launch says nothing about the next launch."
            + (f" {REPORTED}" if any(head and head.reported for head in heads) else "")
        ),
    )
    text = " ".join(
        filter(None, (_counts(runs), _lowest(runs), words_on_protocols(runs), _trust(runs)))
    )
    cards = (_cards(runs[0]),) if len(runs) == 1 and heads[0] else ()
    return Section(id="summary", title="Summary", blocks=(Text(text=text), *cards, table))


def _cards(run: Run) -> Cards:
    """Show the numbers that a single run is looked up for."""
    head, summary = headline_summary(run), summary_of(run)
    assert head is not None  # a run without samples has no cards
    interval, tail = head.median_interval, head.quantile(0.99)
    needed = f"needs {text_from_count(tail.needed)} samples" if tail.needed else ""
    launches = counted(summary.launches, "launch", "launches")
    return Cards(
        items=(
            Card(
                title=f"{head.typical_of.capitalize()} {PHASES[head.column].lower()} time",
                value=text_from_duration(head.typical, bounds=interval),
                detail=f"± {interval.half_width * 100:.2g} %, {launches}"
                if interval and interval.high > 0 and summary.launches > 1
                else ("reported" if head.reported else launches),
            ),
            Card(
                title="p99",
                value=text_from_duration(tail.value, bounds=tail.interval),
                detail="" if tail.value is not None else needed,
            ),
            Card(
                title="Throughput",
                value=f"{text_from_number(summary.items_per_s)} items/s",
                detail=f"batch {run.record.known_items or 'unknown'}",
            ),
        )
    )


def _row(run: Run, unit: UnitScale) -> tuple[Cell | str | int | None, ...]:
    spec, head, summary = run.record.spec, headline_summary(run), summary_of(run)
    return (
        precision_name(run.record),
        run.record.batch,
        *_times(head, unit, several=summary.launches > 1),
        number_cell(summary.items_per_s),
        spec.runtime,
        column_title(head) if head else None,
        protocol_name(run.record),
        summary.launches,
        count_cell(len(run.times)),
        bytes_cell(spec.model.size_bytes),
        run.id,
    )


def _times(
    head: ColumnSummary | None, unit: UnitScale, *, several: bool
) -> tuple[Cell, Cell, Cell]:
    if head is None:
        return Cell(), Cell(), Cell()
    interval = head.median_interval
    # One launch says nothing about the next, so there is no ± of it.
    width = interval.half_width if interval and interval.high > 0 and several else None
    tail = head.quantile(0.99)
    p99 = text_from_duration(tail.value, bounds=tail.interval, unit=unit)
    if tail.value is None and tail.needed:
        p99 = f"{MISSING} (needs {text_from_count(tail.needed)})"
    typical = text_from_duration(head.typical, bounds=interval, unit=unit)
    if head.typical_of != "median":  # all that another tool printed
        typical = f"{typical} ({head.typical_of})"
    return (
        Cell(value=head.typical, text=typical),
        Cell(value=width, text=MISSING if width is None else f"{width * 100:.2g} %"),
        Cell(value=tail.value, text=p99),
    )


def _counts(runs: Sequence[Run]) -> str:
    samples = sum(len(run.times) for run in runs)
    models = len({model_name(run.record) for run in runs})
    parts = [counted(len(runs), "run"), f"of {counted(models, 'model')}"] if models > 1 else []
    parts = parts or [counted(len(runs), "run")]
    return f"{' '.join(parts)}, {text_from_count(samples)} samples."


def _lowest(runs: Sequence[Run]) -> str | None:
    medians = {
        label: (head.typical, head.median_interval)
        for label, run in zip(labels_from_runs(runs), runs, strict=True)
        if (head := headline_summary(run))
        and not any(finding.severity == "error" for finding in run.findings)
    }
    alike = {
        (network_name(r.record), protocol_of(r.record), summary_of(r).headline, r.record.batch)
        for r in runs
    }
    if len(medians) < 2 or len(alike) > 1:
        return None
    best = min(medians, key=lambda name: medians[name][0])
    value, interval = medians[best]
    return (
        f"The lowest median is {text_from_duration(value, bounds=interval)} ({best}). "
        "Whether a difference between runs is real is for trtbench compare to say."
    )


def _trust(runs: Sequence[Run]) -> str:
    """Count what was found by code, as the list below shows it."""
    found = gather((run.id, finding) for run in runs for finding in run.findings)
    if found is None:
        return "Nothing was found that speaks against these numbers."
    counts = Counter(item.finding.severity for item in found.items)
    words = [counted(counts[kind], kind) for kind in ("error", "warning", "note") if counts[kind]]
    grave = [short_title(item) for item in found.items if item.finding.severity != "note"]
    more = f"; {len(grave) - MOST_NAMED} more" if len(grave) > MOST_NAMED else ""
    named = "; ".join(grave[:MOST_NAMED]) + more
    told = f"The tool itself has {', '.join(words)} about these numbers"
    return f"{told}: {named}. All are listed below." if named else f"{told}, listed below."
