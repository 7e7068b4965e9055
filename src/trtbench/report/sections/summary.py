"""Runs in short: one on a screen, and all of a report in one table with what to think of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from trtbench.analysis.summary import ColumnSummary, reported_statistics
from trtbench.core.properties import (
    model_name,
    network_name,
    protocol_name,
    protocol_of,
    title_of_record,
)
from trtbench.core.run import FailedRun, Finding, Run, precision_of
from trtbench.core.units import (
    MISSING,
    common_unit,
    counted,
    text_from_bytes,
    text_from_count,
    text_from_duration,
    text_from_number,
    text_from_rate,
    text_from_seconds,
    unit_for_seconds,
)
from trtbench.report.document import (
    Block,
    Card,
    Cards,
    Cell,
    Code,
    Column,
    Document,
    FindingList,
    FindingOf,
    Section,
    Text,
    Time,
    column,
    document_from_blocks,
    duration_cell,
    key_values,
    section_of,
    table,
)
from trtbench.report.run_facts import (
    PHASES,
    REPORTED,
    column_title,
    headline_summary,
    memory_of,
    named,
    of_head,
    quantile,
    quantile_cell,
    summary_of,
    words_from_memory,
    words_from_switches,
    words_on_protocols,
)
from trtbench.report.sections.devices import device_names
from trtbench.report.sections.findings import TITLES, gather, is_usual, short_title, usual_words

ORDER = 10

MOST_NAMED = 4
"""Findings named beside the numbers."""
LINE_OF_NAMES = 58
"""Letters that are left for names of findings in a line of a terminal."""
OTHERWISE = "H46"
"""Says that something else ran than was requested: it is shown in full."""
SEVERITIES = ("error", "warning", "note")
LOOKS = (
    ("gpu_util", 100, ".0f", "% busy"),
    ("memory_used_bytes", 2**-30, ".2f", "GiB in use"),
    ("sm_clock_hz", 1e-6, ".0f", "MHz"),
    ("power_w", 1, ".1f", "W"),
    ("temperature_c", 1, ".0f", "°C"),
)
"""What was sampled of the GPU: its field, factor, digits and unit."""


def make(runs: Sequence[Run]) -> Section | None:
    """Say what was measured and how sure it is, and list every run in a row."""
    heads = [headline_summary(run) for run in runs]
    unit = common_unit(head.typical for head in heads if head)
    samples = text_from_count(sum(len(run.times) for run in runs))
    models = len({model_name(run.record) for run in runs})
    of = f" of {counted(models, 'model')}" if models > 1 else ""
    counts = f"{counted(len(runs), 'run')}{of}, {samples} samples."
    text = " ".join(
        filter(None, (counts, _lowest(runs), words_on_protocols(runs), _findings(runs)))
    )

    def typical(head: ColumnSummary) -> Cell:
        cell = duration_cell(head.typical, bounds=head.median_interval, unit=unit)
        # A mean is all that another tool printed.
        mark = "" if head.typical_of == "median" else f" ({head.typical_of})"
        return Cell(cell.value, f"{cell.text}{mark}")

    def half_width(run: Run) -> Cell:
        head = headline_summary(run)
        width = _half_width(run, head) if head else None
        text = MISSING if width is None else f"{width * 100:.2g} %"
        return Cell(width, text) if head else Cell()

    # What is looked up first comes first, in sight on a small screen.
    columns = [
        column("model", "Model", lambda run: model_name(run.record)),
        column("precision", get=lambda run: precision_of(run.record)),
        column("batch", get="record.batch"),
        column("median_s", get=of_head(typical)),
        column("median_half_width", "± (95 %)", half_width, "right"),
        column("p99_s", "p99", of_head(lambda head: quantile(head.quantile(0.99))), "right"),
        column("items_per_s", get=lambda run: summary_of(run).items_per_s),
        column("runtime", get="record.spec.runtime"),
        column("column", "Time", of_head(column_title)),
        column("protocol", get=lambda run: protocol_name(run.record)),
        column("launches", "Launches", lambda run: summary_of(run).launches, "right"),
        column("samples", "Samples", lambda run: len(run.times), "count"),
        column("size_bytes", get="record.spec.model.size_bytes"),
        column("id"),
    ]
    devices = device_names(runs)
    if len(set(devices.values())) > 1:
        columns.insert(1, column("device", get=lambda run: devices[run.id]))
    caption = (
        "A p99 is shown when enough independent samples support it. "
        "An interval of one launch says nothing about the next launch."
    )
    caption += f" {REPORTED}" if any(head and head.reported for head in heads) else ""
    listed = table("summary", runs, columns, caption=caption, unit=unit)
    cards = [_cards(runs[0], heads[0])] if len(runs) == 1 and heads[0] else []
    return section_of("summary", "Summary", [Text(text), *cards, listed])


def _half_width(run: Run, head: ColumnSummary) -> float | None:
    """Half the interval of the median; one launch says nothing about the next, so it has none."""
    interval = head.median_interval
    known = interval and interval.high > 0 and summary_of(run).launches > 1
    return interval.half_width if interval and known else None


def _cards(run: Run, head: ColumnSummary) -> Cards:
    """Show the numbers that a single run is looked up for."""
    summary, tail, width = summary_of(run), head.quantile(0.99), _half_width(run, head)
    launches = counted(summary.launches, "launch", "launches")
    detail = "reported" if head.reported else launches
    if width is not None:
        detail = f"± {width * 100:.2g} %, {launches}"
    missing = tail.value is None and tail.needed
    needed = f"needs {text_from_count(tail.needed)} samples" if missing else ""
    median = text_from_duration(head.typical, bounds=head.median_interval)
    p99 = text_from_duration(tail.value, bounds=tail.interval)
    batch = f"batch {run.record.known_items or 'unknown'}"
    return Cards(
        (
            Card(
                f"{head.typical_of.capitalize()} {PHASES[head.column].lower()} time", median, detail
            ),
            Card("p99", p99, needed),
            Card("Throughput", f"{text_from_number(summary.items_per_s)} items/s", batch),
        )
    )


def _lowest(runs: Sequence[Run]) -> str | None:
    heads = {
        label: head
        for label, run in named(runs)
        if (head := headline_summary(run))
        and not any(finding.severity == "error" for finding in run.findings)
    }
    alike = {
        (network_name(r.record), protocol_of(r.record), summary_of(r).headline, r.record.batch)
        for r in runs
    }
    if len(heads) < 2 or len(alike) > 1:
        return None
    best, head = min(heads.items(), key=lambda each: each[1].typical)
    median = text_from_duration(head.typical, bounds=head.median_interval)
    return (
        f"The lowest median is {median} ({best}). Whether a difference between runs is real is "
        "decided by trtbench compare."
    )


def _findings(runs: Sequence[Run]) -> str:
    """Count findings by code, as the list below shows them."""
    found = gather((run.id, finding) for run in runs for finding in run.findings)
    if found is None:
        return "No findings about these numbers."
    counts: Counter[str] = Counter(item.finding.severity for item in found.items)
    words = ", ".join(counted(counts[kind], kind) for kind in SEVERITIES if counts[kind])
    grave = [short_title(item) for item in found.items if item.finding.severity != "note"]
    more = f"; {len(grave) - MOST_NAMED} more" if len(grave) > MOST_NAMED else ""
    shown = "; ".join(grave[:MOST_NAMED]) + more
    about = f"There are findings about these numbers ({words})"
    return f"{about}: {shown}. All are listed below." if shown else f"{about}, listed below."


# ---- one run


def document_from_run(run: Run, *, explain: bool = True) -> Document:
    """Describe a run that finished; without explanations, its findings are three lines at most."""
    facts = list(facts_of(run))
    found = finding_blocks(run.findings) if explain else brief_findings(run.findings)
    blocks = [*statistics_of({"": run}), *([key_values("facts", facts)] if facts else []), *found]
    return document_from_blocks("run", blocks, title=title_of(run), created=run.record.created)


def document_from_failure(failed: FailedRun) -> Document:
    """Describe a run that did not finish, with the end of its log."""
    blocks: list[Block] = [Text(f"failed in stage {failed.stage}: {failed.reason}", "bad")]
    if failed.log_tail:
        blocks.append(Code("\n".join(failed.log_tail), "text"))
    title = f"{failed.spec.model.name} · {failed.spec.runtime}"
    return document_from_blocks("failure", blocks, title=title, created=failed.created)


def title_of(run: Run) -> str:
    """What was measured and how, in one line."""
    return title_of_record(run.record)


def statistics_of(sides: Mapping[str, Run], *, id: str = "statistics") -> Iterator[Block]:
    """List the statistics of runs or, without samples, the numbers another tool printed.

    Of several runs, each row begins with the name of the run.
    """

    def time(key: str, title: str, rank: int) -> Column:
        def cell(row: tuple[str, ColumnSummary]) -> Cell:
            return duration_cell(getattr(row[1], key), unit=unit_for_seconds(row[1].median))

        return column(f"{key}_s", title, cell, "right", rank=rank)

    def percentile(q: float, rank: int) -> Column:
        def cell(row: tuple[str, ColumnSummary]) -> Cell:
            return quantile_cell(row[1].quantile(q), unit_for_seconds(row[1].median))

        return column(f"p{100 * q:g}_s", f"p{100 * q:g}", cell, "right", rank=rank)

    columns = (
        *([column("side", "Side", lambda row: row[0], fit="shorten")] if len(sides) > 1 else ()),
        column("column", "Time", lambda x: PHASES.get(x[1].column, x[1].column), fit="shorten"),
        column("median_s", get=lambda row: Time(row[1].median, row[1].median_interval)),
        time("mean", "Mean", 4),
        time("std", "Std", 7),
        time("min", "Min", 5),
        percentile(0.9, 1),
        percentile(0.95, 8),
        percentile(0.99, 2),
        time("max", "Max", 6),
        # Numbers that another tool printed have no samples.
        column("samples", "Samples", lambda row: row[1].count or None, "count", rank=3),
    )
    rows = [
        (side, found)
        for side, run in sides.items()
        if not summary_of(run).reported
        for found in summary_of(run).columns
    ]
    if rows:
        yield table(id, rows, columns)
    for side, run in sides.items():
        if summary_of(run).reported or not summary_of(run).columns:
            yield from _reported(run, side, id=id)


def finding_blocks(findings: Iterable[Finding]) -> tuple[FindingList, ...]:
    """List the findings of one run, the most severe first."""
    ordered = sorted(findings, key=lambda each: SEVERITIES.index(each.severity))
    return (FindingList(tuple(map(FindingOf, ordered))),) if ordered else ()


def brief_findings(findings: Sequence[Finding]) -> tuple[Block, ...]:
    """Name the findings in a line for each severity; errors are shown in full."""
    lines = []
    for severity in ("warning", "note"):
        shown = [each for each in findings if each.severity == severity and not is_usual(each)]
        # What ran otherwise than requested leads; the rest are counted when the line is full.
        shown.sort(key=lambda each: each.code != OTHERWISE)
        titles = list(
            dict.fromkeys(
                each.message if each.code == OTHERWISE else TITLES.get(each.code, each.message)
                for each in shown
            )
        )
        counts = range(len(titles), 1, -1)
        count = next((n for n in counts if len(", ".join(titles[:n])) <= LINE_OF_NAMES), 1)
        more = f", {len(titles) - count} more" if len(titles) > count else ""
        if titles:
            lines.append((f"{severity}s", ", ".join(titles[:count]) + more))
    if usual := [each.code for each in findings if is_usual(each)]:
        lines.append(("assumptions", usual_words(usual)))
    if lines:
        name, words = lines[-1]
        lines[-1] = (name, f"{words}; --explain says more")
    errors = finding_blocks(each for each in findings if each.severity == "error")
    return (*errors, *((key_values("findings", lines),) if lines else ()))


def _reported(run: Run, side: str, *, id: str) -> Iterator[Block]:
    """List the numbers another tool printed, marked as such."""
    rows = {name: reported_statistics(run.record, name) for name in PHASES}
    names = list(dict.fromkeys(name for found in rows.values() for name in found))
    words = "no samples" + ("; as reported by the tool that measured:" if names else "")
    yield Text(f"{side}: {words}" if side else words)

    def statistic(name: str, rank: int) -> Column:
        title = name if name[1:2].isdecimal() else name.capitalize()
        return column(f"{name}_s", title, lambda row: row[1].get(name), "seconds", rank=rank)

    if names:
        columns = [column("column", "Time", lambda row: PHASES[row[0]], fit="shorten")]
        columns += [statistic(name, place) for place, name in enumerate(names)]
        yield table(f"{id}_reported_{side}", [row for row in rows.items() if row[1]], columns)


def facts_of(run: Run) -> Iterator[tuple[str, str]]:
    """State throughput, repeatability, startup, memory, GPU, model and origin of a run."""
    record, summary = run.record, summary_of(run)
    if summary.queries_per_s is not None:
        rates = [text_from_rate(summary.queries_per_s, what="batches")]
        if summary.items_per_s is not None:
            rates.append(text_from_rate(summary.items_per_s, what="items"))
        mark = ", reported" if summary.reported else ""
        batch = summary.items_per_query or "unknown"
        yield "throughput", f"{', '.join(rates)} (batch {batch}{mark})"
    if (interval := summary.interval) is not None:
        ends = f"{text_from_seconds(interval.low)} to {text_from_seconds(interval.high)}"
        words = f"over {summary.launches} launches ({interval.meaning})"
        yield "repeats", f"median {ends} {words}"
    elif summary.columns and not summary.reported:
        yield "repeats", summary.repeatability
    first = record.launches[0] if record.launches else None
    if first is not None and first.first_s is not None:
        steady = {True: "steady", False: "not steady", None: "fixed length"}[first.steady]
        length = text_from_seconds(first.warmup_s, digits=2)
        warmup = "" if first.warmup_s is None else f", warm-up {length} ({steady})"
        load, query = (text_from_seconds(each, digits=3) for each in (first.load_s, first.first_s))
        yield "startup", f"load {load}, first inference {query}{warmup}"
    if (use := memory_of(run)) is not None:
        yield from words_from_memory(use)
    yield from words_from_switches(run)
    means = (
        f"{fmean(values) * factor:{form}} {unit}"
        for name, factor, form, unit in LOOKS
        if (values := [v for look in run.telemetry if (v := getattr(look, name)) is not None])
    )
    if words := ", ".join(means):
        yield "GPU", f"{words} (means of {len(run.telemetry)} samples)"
    joules = record.facts.get("energy_per_query_j")
    if isinstance(joules, (int, float)):
        counter = record.facts.get("energy_counter_j") is not None
        source = "the energy counter" if counter else "the sampled power"
        if protocol_of(record) == "coldl2":
            source += "; emptying the cache included"
        items = record.known_items
        each = f", {joules / items:.4g} J per item" if items else ""
        yield "energy", f"{joules:.4g} J per batch{each} (from {source})"
    if record.spec.model.size_bytes:
        digest = (record.spec.model.sha256 or "unknown")[:12]
        yield "model", f"{text_from_bytes(record.spec.model.size_bytes)}, sha256 {digest}"
    if record.provenance == "imported":
        names = [path.replace("\\", "/").rsplit("/", 1)[-1] for path in record.sources]
        yield "imported", f"from {', '.join(names)}"
        for source in ("stated", "recorded", "implied", "unknown"):
            facts = {k: f.value for k, f in record.conditions.items() if f.source == source}
            words_of = (k if source == "unknown" else f"{k} {v}" for k, v in facts.items())
            if facts:
                yield source, ", ".join(word.replace("_", " ") for word in words_of)
        yield from (("note", note) for note in record.notes)
