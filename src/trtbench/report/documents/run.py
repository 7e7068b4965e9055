"""One run: what was measured, the numbers, how sure they are, and what the tool thinks of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from trtbench.analysis.column_summary import ColumnSummary
from trtbench.analysis.reported import reported_statistics
from trtbench.domain.ran import options_of, protocol_of, threads_of
from trtbench.domain.result import FailedRun, Finding, Run, Scalar
from trtbench.domain.variables import deciding, variables_of
from trtbench.report.cells import count_cell, duration_cell, seconds_cell
from trtbench.report.document import (
    Block,
    Cell,
    Code,
    Document,
    FindingList,
    FindingOf,
    Heading,
    KeyValues,
    Table,
    Text,
    document_from_blocks,
    table_from_rows,
)
from trtbench.report.finding_list import TITLES, is_usual, usual_words
from trtbench.report.labels import device_name, precision_words, protocol_name
from trtbench.report.numbers import UnitScale, text_from_duration, unit_for_seconds
from trtbench.report.run_facts import PHASES, summary_of
from trtbench.report.run_memory import memory_of, words_from_memory
from trtbench.report.run_switch import words_from_switches
from trtbench.units import (
    counted,
    text_from_bytes,
    text_from_rate,
    text_from_seconds,
    text_from_shape,
)

SIDE_HEADING = Heading(key="side", title="Side", fit="shorten")
SHOWN_QUANTILES = (0.90, 0.95, 0.99)
HEADINGS = (
    Heading(key="column", title="Time", fit="shorten"),
    Heading(key="median_s", title="Median", align="right"),
    Heading(key="mean_s", title="Mean", align="right", rank=4),
    Heading(key="std_s", title="Std", align="right", rank=7),
    Heading(key="min_s", title="Min", align="right", rank=5),
    Heading(key="p90_s", title="p90", align="right", rank=1),
    Heading(key="p95_s", title="p95", align="right", rank=8),
    Heading(key="p99_s", title="p99", align="right", rank=2),
    Heading(key="max_s", title="Max", align="right", rank=6),
    Heading(key="samples", title="Samples", align="right", rank=3),
)
LINE_OF_NAMES = 58
"""Letters that are left for names of findings in a line of a terminal."""
OTHERWISE = "H46"
"""Tells that something else ran than was asked for: it is said in full."""
_SEVERITIES = ("error", "warning", "note")
_LOOKS = (
    ("gpu_util", 100, ".0f", "% busy"),
    ("memory_used_bytes", 2**-30, ".2f", "GiB in use"),
    ("sm_clock_hz", 1e-6, ".0f", "MHz"),
    ("power_w", 1, ".1f", "W"),
    ("temperature_c", 1, ".0f", "°C"),
)
"""What a look at the GPU saw: its field, factor, digits and unit."""


def document_from_run(run: Run, *, explain: bool = True) -> Document:
    """Describe a run that finished; without explanations, its findings are three lines at most."""
    blocks: list[Block] = [*statistics_of({"": run})]
    facts = [(name, Cell(text=words)) for name, words in facts_of(run)]
    if facts:
        blocks.append(KeyValues(id="facts", pairs=tuple(facts)))
    found = finding_blocks(run.findings) if explain else brief_findings(run.findings)
    title, created = title_of(run), run.record.created
    return document_from_blocks("run", [*blocks, *found], title=title, created=created)


def document_from_failure(failed: FailedRun) -> Document:
    """Describe a run that did not finish, with the end of its log."""
    blocks: list[Block] = [
        Text(text=f"failed in stage {failed.stage}: {failed.reason}", tone="bad")
    ]
    if failed.log_tail:
        blocks.append(Code(text="\n".join(failed.log_tail), language="text"))
    title = f"{failed.spec.model.name} · {failed.spec.runtime}"
    return document_from_blocks("failure", blocks, title=title, created=failed.created)


def title_of(run: Run) -> str:
    """Say in one line what was measured and how."""
    record = run.record
    inputs = ", ".join(f"{t.name} {t.dtype} {text_from_shape(t.shape)}" for t in record.inputs)
    options = ", ".join(f"{key}={value}" for key, value in options_of(record).items())
    spec, precision, device = record.spec, precision_words(record), device_name(record)
    told = variables_of(record)
    set_here = ", ".join(f"{name}={told[name]}" for name in deciding(told))
    threads = counted(count, "thread") if (count := threads_of(record)) else ""
    parts = [spec.model.name, spec.runtime, device, precision, inputs, threads, options, set_here]
    return " · ".join(part for part in [*parts, f"protocol {protocol_name(record)}"] if part)


def statistics_of(sides: Mapping[str, Run], *, id: str = "statistics") -> Iterator[Block]:
    """List the statistics of runs or, without samples, the numbers another tool printed.

    Of several runs, each row begins with the name of the run.
    """
    rows = [
        [*([side] if len(sides) > 1 else []), *_row(column)]
        for side, run in sides.items()
        if not summary_of(run).reported
        for column in summary_of(run).columns
    ]
    if rows:
        headings = ((SIDE_HEADING,) if len(sides) > 1 else ()) + HEADINGS
        yield table_from_rows(id, headings=headings, rows=rows)
    for side, run in sides.items():
        if summary_of(run).reported or not summary_of(run).columns:
            yield from _reported(run, side, id=id)


def finding_blocks(findings: Iterable[Finding]) -> tuple[FindingList, ...]:
    """List the findings of one run, the gravest first."""
    ordered = sorted(findings, key=lambda each: _SEVERITIES.index(each.severity))
    items = tuple(FindingOf(finding=each, runs=()) for each in ordered)
    return (FindingList(items=items),) if items else ()


def brief_findings(findings: Sequence[Finding]) -> tuple[Block, ...]:
    """Name the findings in a line for each severity; what makes a number wrong is said in full."""
    errors = [each for each in findings if each.severity == "error"]
    lines = []
    for severity in ("warning", "note"):
        named = [each for each in findings if each.severity == severity and not is_usual(each)]
        if named:
            lines.append((f"{severity}s", _named(named)))
    usual = [each.code for each in findings if is_usual(each)]
    if usual:
        lines.append(("usual", usual_words(usual)))
    if lines:
        name, words = lines[-1]
        lines[-1] = (name, f"{words}; --explain says more")
    pairs = tuple((name, Cell(text=words)) for name, words in lines)
    return (*finding_blocks(errors), *((KeyValues(id="findings", pairs=pairs),) if pairs else ()))


def _named(findings: Sequence[Finding]) -> str:
    """Name as many as a line holds and count the rest; what ran otherwise than asked leads."""
    ordered = sorted(findings, key=lambda each: each.code != OTHERWISE)
    titles = list(
        dict.fromkeys(
            each.message if each.code == OTHERWISE else TITLES.get(each.code, each.message)
            for each in ordered
        )
    )
    count = next(
        (n for n in range(len(titles), 1, -1) if len(", ".join(titles[:n])) <= LINE_OF_NAMES), 1
    )
    more = f", {len(titles) - count} more" if len(titles) > count else ""
    return ", ".join(titles[:count]) + more


def _row(column: ColumnSummary) -> list[Cell | Scalar]:
    unit = unit_for_seconds(column.median)
    median = text_from_duration(column.median, bounds=column.median_interval, unit=unit)
    return [
        PHASES.get(column.column, column.column),
        Cell(value=column.median, text=median),
        *(duration_cell(each, unit=unit) for each in (column.mean, column.std, column.min)),
        *(quantile_cell(column, q, unit) for q in SHOWN_QUANTILES),
        duration_cell(column.max, unit=unit),
        count_cell(column.count or None),  # numbers that another tool printed have no samples
    ]


def quantile_cell(column: ColumnSummary, q: float, unit: UnitScale) -> Cell:
    """Write a quantile with the digits it deserves, or the samples it would need."""
    found = column.quantile(q)
    if found.value is None and found.needed:
        return Cell(text=f"needs n={found.needed}")
    text = text_from_duration(found.value, bounds=found.interval, unit=unit)
    return Cell(value=found.value, text=text)


def _reported(run: Run, side: str, *, id: str) -> Iterator[Block]:
    """List the numbers another tool printed, marked as such."""
    rows = {name: reported_statistics(run.record, name) for name in PHASES}
    names = list(dict.fromkeys(name for found in rows.values() for name in found))
    told = "no samples" + ("; as reported by the tool that measured:" if names else "")
    yield Text(text=f"{side}: {told}" if side else told)
    if names:
        yield _reported_table(rows, names, id=f"{id}_reported_{side}")


def _reported_table(
    rows: Mapping[str, Mapping[str, float]], names: Sequence[str], *, id: str
) -> Table:
    headings = (
        HEADINGS[0],
        *(
            Heading(key=f"{name}_s", title=_statistic(name), align="right", rank=place)
            for place, name in enumerate(names)
        ),
    )
    cells: list[list[Cell | Scalar]] = [
        [PHASES[column], *(seconds_cell(found.get(name)) for name in names)]
        for column, found in rows.items()
        if found
    ]
    return table_from_rows(id, headings=headings, rows=cells)


def _statistic(name: str) -> str:
    return name if name[1:2].isdecimal() else name.capitalize()


def facts_of(run: Run) -> Iterator[tuple[str, str]]:
    """State throughput, how repeatable it is, and what came before the samples."""
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
    yield from _before(run)
    if (use := memory_of(run)) is not None:
        yield from words_from_memory(use)
    yield from words_from_switches(run)
    yield from _telemetry(run)
    if record.spec.model.size_bytes:
        digest = (record.spec.model.sha256 or "unknown")[:12]
        yield "model", f"{text_from_bytes(record.spec.model.size_bytes)}, sha256 {digest}"
    if record.provenance == "imported":
        yield from _origin(run)


def _before(run: Run) -> Iterator[tuple[str, str]]:
    facts = run.record.launches[0] if run.record.launches else None
    if facts is None or facts.first_s is None:
        return
    steady = {True: "steady", False: "not steady", None: "fixed length"}[facts.steady]
    length = text_from_seconds(facts.warmup_s, digits=2)
    warmup = "" if facts.warmup_s is None else f", warm-up {length} ({steady})"
    load, first = (text_from_seconds(each, digits=3) for each in (facts.load_s, facts.first_s))
    yield "before", f"load {load}, first inference {first}{warmup}"


def _telemetry(run: Run) -> Iterator[tuple[str, str]]:
    """Tell what the GPU did in the pass that looked at it, and what a query took of energy."""
    means = (
        (f"{fmean(values) * factor:{form}} {unit}")
        for name, factor, form, unit in _LOOKS
        if (values := [v for look in run.telemetry if (v := getattr(look, name)) is not None])
    )
    if told := ", ".join(means):
        yield "GPU", f"{told} (means of {len(run.telemetry)} looks)"
    joules = run.record.facts.get("energy_per_query_j")
    if isinstance(joules, (int, float)):
        counted = run.record.facts.get("energy_counter_j") is not None
        source = "the energy counter" if counted else "the power seen"
        if protocol_of(run.record) == "coldl2":
            source += "; emptying the cache included"
        items = run.record.known_items
        each = f", {joules / items:.4g} J per item" if items else ""
        yield "energy", f"{joules:.4g} J per batch{each} (from {source})"


def _origin(run: Run) -> Iterator[tuple[str, str]]:
    """Tell where an imported run came from, and how each condition is known."""
    record = run.record
    names = [path.replace("\\", "/").rsplit("/", 1)[-1] for path in record.sources]
    yield "imported", f"from {', '.join(names)}"
    for source in ("stated", "recorded", "implied", "unknown"):
        facts = {k: f.value for k, f in record.conditions.items() if f.source == source}
        told = (k if source == "unknown" else f"{k} {v}" for k, v in facts.items())
        if facts:
            yield source, ", ".join(word.replace("_", " ") for word in told)
    yield from (("note", note) for note in record.notes)
