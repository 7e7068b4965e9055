"""Summaries: a single run on the terminal, and a table of all runs for reports."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from trtbench.analysis.summary import QUANTILES, ColumnSummary, doubtful_quantile
from trtbench.core.properties import model_name, protocol_name, protocol_of, title_of_record
from trtbench.core.run import UNDATED, UNKNOWN, FailedRun, Finding, Run, precision_of, when_text
from trtbench.core.units import (
    common_unit,
    counted,
    instant_from_text,
    text_from_bytes,
    text_from_count,
    text_from_duration,
    text_from_fraction,
    text_from_number,
    text_from_rate,
    text_from_seconds,
)
from trtbench.layers.table import facts_from_run
from trtbench.report import document as doc
from trtbench.report import run_facts
from trtbench.report.sections.findings import MEANINGS, TITLES, by_severity

ORDER = 10

SCREEN_QUANTILES = {0.9: 1, 0.95: 8, 0.99: 2}
"""Percentiles shown on the terminal, with the ranks of their columns."""
CHANGED_SETTING = "H46"
"""The finding that something else ran than was requested; its message is always shown."""
TONES: dict[str, doc.Tone] = {"error": "bad", "warning": "unclear", "note": "plain"}


def make(runs: Sequence[Run]) -> doc.Section | None:
    heads = [run_facts.summary_of(run).head for run in runs]
    unit = common_unit(head.typical for head in heads if head)
    samples = text_from_count(sum(len(run.times) for run in runs))
    models = len({model_name(run.record) for run in runs})
    of = f" of {counted(models, 'model')}" if models > 1 else ""
    text = run_facts.with_protocols(f"{counted(len(runs), 'run')}{of}, {samples} samples.", runs)

    def dated_by(run: Run) -> object:
        return run.record.facts.get("created_from")

    def half_width(run: Run) -> doc.Cell:
        """Return half the interval of the median; it needs at least two launches."""
        summary = run_facts.summary_of(run)
        interval = summary.head.median_interval if summary.head else None
        if interval is None or interval.high <= 0 or summary.launches < 2:
            return doc.Cell()
        return doc.Cell(interval.half_width, f"{interval.half_width * 100:.2g} %")

    # The most important columns come first.
    columns = [
        doc.column("model", "Model", lambda run: model_name(run.record)),
        doc.column("precision", get=lambda run: precision_of(run.record)),
        doc.column("batch", get="record.batch"),
        doc.column("median_s", get=run_facts.headline(run_facts.typical)),
        doc.column("median_half_width", "± (95 %)", half_width, "right"),
        doc.column("p99_s", "p99", run_facts.p99, "right"),
        doc.column("items_per_s", get=lambda run: run_facts.summary_of(run).items_per_s),
        doc.column("runtime", get="record.spec.runtime"),
        doc.column("column", "Time", run_facts.headline(run_facts.column_title)),
        doc.column("protocol", get=lambda run: protocol_name(run.record)),
        doc.column("launches", "Launches", lambda run: run_facts.summary_of(run).launches, "right"),
        doc.column("samples", "Samples", lambda run: len(run.times), "count"),
        doc.column("size_bytes", get="record.spec.model.size_bytes"),
        doc.column("when", "When", lambda run: when_text(run.record.created, dated_by(run))),
        doc.column("id"),
    ]
    if any(map(dated_by, runs)):  # imported: in order of time, those without one last
        runs = sorted(runs, key=lambda run: instant_from_text(run.record.created) or 0.0)
        runs = sorted(runs, key=lambda run: dated_by(run) in UNDATED)
    devices = run_facts.device_names(runs)
    names = set(devices.values())
    if len(names) > 1 or (UNKNOWN in names and len(runs) > 1):  # which may be several
        columns.insert(1, doc.column("device", get=lambda run: devices[run.id]))
    caption = (
        "A p99 is shown if there are enough independent samples. "
        "An interval of one launch does not apply to other launches."
    )
    caption += f" {run_facts.REPORTED}" if any(head and head.reported for head in heads) else ""
    listed = doc.table("summary", runs, columns, caption=caption, unit=unit)
    unread = {run.id: run.extra["unread"] for run in runs if "unread" in run.extra}
    notes = (f"left out, as they are damaged: {what} of {run}" for run, what in unread.items())
    blocks: list[doc.Block] = [doc.Text(text), listed, *doc.note_lines(notes)]
    return doc.optional_section("summary", "Summary", blocks)


def document_from_run(run: Run, *, brief: bool = False, explain: bool = False) -> doc.Document:
    """Describe a finished run and its findings; ``brief``, only the answer and their names.

    ``explain`` adds the meaning, the evidence and the remedy of every finding.
    """
    title, head = title_of_record(run.record), run_facts.summary_of(run).head
    if brief and head is not None:
        title, blocks = _answer(run, head)
    else:
        facts = list(facts_of(run))
        blocks = [*statistics_blocks({"": run})]
        blocks += [doc.key_values("facts", facts)] if facts else []
    if explain or not brief or head is None:
        blocks += finding_blocks(run.findings, explain=explain)
    return doc.document_from_blocks("run", blocks, title=title, created=run.record.created)


def _answer(run: Run, head: ColumnSummary) -> tuple[str, list[doc.Block]]:
    """Return the result of a run in one line; then spread, conditions, and names of findings."""
    summary, times, pairs = run_facts.summary_of(run), [], []
    numbers = [each for each in summary.columns if each.column == "gpu" != head.column]
    unit = common_unit([(numbers or [head])[0].typical])
    for each in [*numbers, head]:
        name, bounds = run_facts.number_name(each.column), each.median_interval
        times.append(f"{text_from_duration(each.typical, bounds=bounds, unit=unit)} {name}")
        low, high, tail = (each.quantile(q).value for q in (0.1, 0.9, 0.99))
        which = "p10 to p90"
        if low is None or high is None:
            low, high, which = each.min, each.max, "minimum to maximum"
        first, last, p99 = (text_from_duration(end, unit=unit) for end in (low, high, tail))
        words = f"{first.rpartition(' ')[0]} to {last} ({which}){f', p99 {p99}' if tail else ''}"
        pairs.append((name if numbers else "spread", words))
    batch = f" per batch of {items}" if (items := summary.items_per_query or 1) > 1 else ""
    what, rate = "items", summary.items_per_s
    if rate is None:  # it is unknown how many items a query has
        what, rate = "batches", summary.queries_per_s
    throughput = f", {text_from_rate(rate, what=what)}" if rate else ""
    answer = f"{', '.join(times)}{batch} (median{'s' if numbers else ''}){throughput}"
    launches = counted(summary.launches, "launch", "launches")
    if (interval := summary.interval) is not None:
        first, last = (text_from_duration(end, unit=unit) for end in (interval.low, interval.high))
        ends = f"{first.rpartition(' ')[0]} to {last}"
        launches += f" (median {ends}, {100 * interval.level:.0f} %)"
    pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]}; {counted(head.count, 'sample')}, {launches}")
    pairs.append(("measured", title_of_record(run.record).partition(" · ")[2]))
    pairs += [(key, fact) for key, fact in facts_of(run) if key in ("GPU", "energy")]
    if named := finding_names(run.findings, beside=head.column if numbers else None):
        pairs.append(("findings", f"{named} (--explain)"))
    errors = finding_blocks(each for each in run.findings if each.severity == "error")
    return f"{model_name(run.record)}: {answer}", [*errors, doc.key_values("answer", pairs)]


def document_from_failure(failed: FailedRun) -> doc.Document:
    """Describe a failed run, with the end of its log."""
    blocks: list[doc.Block] = [doc.Text(f"failed in stage {failed.stage}: {failed.reason}", "bad")]
    if failed.log_tail:
        blocks.append(doc.Code("\n".join(failed.log_tail), "text"))
    title = f"{failed.spec.model.name} · {failed.spec.runtime}"
    return doc.document_from_blocks("failure", blocks, title=title, created=failed.created)


def statistics_blocks(
    sides: Mapping[str, Run], *, id: str = "statistics", every: bool = False
) -> Iterator[doc.Block]:
    """Return a table of the statistics of runs; values reported by another tool are marked.

    With several runs, each row starts with the name of the run. ``every``, for reports, adds all
    percentiles and the number of effective samples.
    """

    rows = [
        (side, found)
        for side, run in sides.items()
        for found in run_facts.summary_of(run).columns
        if found.count or found.reported
    ]
    unit = common_unit(found.typical for _, found in rows)

    def time(key: str, title: str, rank: int) -> doc.Column:
        return doc.column(f"{key}_s", title, lambda row: getattr(row[1], key), "time", rank=rank)

    def percentile(q: float, rank: int) -> doc.Column:
        def value(row: tuple[str, ColumnSummary]) -> doc.Cell | doc.Time:
            return run_facts.quantile(row[1].quantile(q))

        return doc.column(f"p{100 * q:g}_s", f"p{100 * q:g}", value, "right", rank=rank)

    whole = ("host", "latency", "end_to_end")  # columns that time whole queries

    def fps(row: tuple[str, ColumnSummary]) -> float | None:
        return 1 / row[1].mean if row[1].column in whole and row[1].mean > 0 else None

    def effective(row: tuple[str, ColumnSummary]) -> int | None:
        return None if row[1].reported else math.floor(row[1].effective)

    def effective_at_p99(row: tuple[str, ColumnSummary]) -> int | None:
        count = row[1].quantile(0.99).effective
        return None if row[1].reported or count is None else math.floor(count)

    quantiles = QUANTILES if every else SCREEN_QUANTILES
    side = doc.column("run", get=0) if every else doc.column("side", "Side", 0, fit="shorten")
    columns = (
        *([side] if every or len(sides) > 1 else ()),
        doc.column("column", "Time", lambda row: run_facts.column_title(row[1]), fit="shorten"),
        doc.column("median_s", get=lambda row: run_facts.typical(row[1])),
        time("mean", "Mean", 4),
        time("std", "Std", 7),
        time("min", "Min", 5),
        *(percentile(q, SCREEN_QUANTILES.get(q, 9)) for q in quantiles),
        time("max", "Max", 6),
        doc.column("fps", "Queries/s (1 / mean)", fps, "number"),
        # Numbers that another tool printed have no samples.
        doc.column("samples", "Samples", lambda row: row[1].count or None, "count", rank=3),
        doc.column("effective_samples", "Effective", effective, "count"),
        doc.column("effective_p99", "Effective p99", effective_at_p99, "count"),
    )
    if not every:
        only = ("fps", "effective_samples", "effective_p99")
        columns = tuple(each for each in columns if each[0].key not in only)
    if rows:
        caption = run_facts.REPORTED if any(found.reported for _, found in rows) else None
        yield doc.table(id, rows, columns, caption=caption, unit=unit)
    for side_name, run in sides.items():
        if not run_facts.summary_of(run).columns:
            yield doc.Text(f"{side_name}: no samples" if side_name else "no samples")


def finding_blocks(findings: Iterable[Finding], *, explain: bool = False) -> Iterator[doc.Block]:
    """Yield findings, most severe first; ``explain``, each with its meaning and evidence."""
    ordered = by_severity(findings)
    if ordered and not explain:
        yield doc.FindingList(tuple(map(doc.FindingGroup, ordered)))
    for each in ordered if explain else ():
        beside = f" ({run_facts.number_name(each.concerns)})" if each.concerns else ""
        name = TITLES.get(each.code, each.message)
        yield doc.Text(f"{each.severity} {each.code}{beside}: {name}", TONES[each.severity])
        pairs = each.evidence.items()
        evidence = (f"{run_facts.title_of_key(k)} {run_facts.value_text(k, v)}" for k, v in pairs)
        facts = {"found": each.message, "meaning": MEANINGS.get(each.code)}
        facts |= {"evidence": ", ".join(evidence), "remedy": each.remedy}
        yield doc.key_values("finding", ((key, text) for key, text in facts.items() if text))


def finding_names(findings: Sequence[Finding], *, beside: str | None) -> str:
    """Return warnings by name, those of the time ``beside`` apart, and the number of notes."""
    groups: dict[str, dict[str, None]] = {"": {}}
    # Changed settings come first.
    for each in sorted(findings, key=lambda each: each.code != CHANGED_SETTING):
        known = None if each.code == CHANGED_SETTING else TITLES.get(each.code)
        time = f"{run_facts.number_name(beside)}: " if beside and each.concerns == beside else ""
        if each.severity == "warning":
            groups.setdefault(time, {})[known or each.message] = None
    notes = sum(each.severity == "note" for each in findings)
    parts = [time + ", ".join(names) for time, names in groups.items() if names]
    return "; ".join([*parts, *([counted(notes, "note")] if notes else ())])


def facts_of(run: Run) -> Iterator[tuple[str, str]]:
    """Yield throughput, repeatability, startup, memory, GPU, model and origin of a run."""
    record, summary = run.record, run_facts.summary_of(run)
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
    if (head := summary.head) is not None and head.count and not head.reported:
        lacking = [each for each in map(head.quantile, SCREEN_QUANTILES) if each.value is None]
        parts = run.times.by_launch(head.column) if lacking else []
        for few in lacking:
            seen, least = map(text_from_seconds, doubtful_quantile(parts, few.q))
            yield few.name, f"{seen} in these samples; at least {least} (95 %), no upper end"
    if (engine := facts_from_run(run)).tail is not None:
        spread = f"std {text_from_fraction(engine.jitter)}, " if engine.jitter is not None else ""
        of = "GPU" if engine.gpu_s is not None else summary.headline
        yield "jitter", f"{spread}p99 {text_from_fraction(engine.tail)} of the mean {of} time"
    first = record.launches[0] if record.launches else None
    if first is not None and first.first_s is not None:
        steady = {True: "steady", False: "not steady", None: "fixed length"}[first.steady]
        length = text_from_seconds(first.warmup_s, digits=2)
        warmup = "" if first.warmup_s is None else f", warm-up {length} ({steady})"
        load, query = (text_from_seconds(each, digits=3) for each in (first.load_s, first.first_s))
        yield "startup", f"load {load}, first inference {query}{warmup}"
    taken = record.facts.get("gpu_memory_bytes")
    if isinstance(taken, int):
        yield "memory", f"{text_from_bytes(taken)} of GPU memory after the first inference"
    means = (
        f"{each.title} {text_from_number(fmean(values))} {each.unit}"
        for each in run_facts.QUANTITIES
        if (values := [v for v in each.values(run.telemetry) if v is not None])
    )
    if words := ", ".join(means):
        yield "GPU", f"{words} (means of {len(run.telemetry)} samples)"
    joules = record.facts.get("energy_per_query_j")
    if isinstance(joules, (int, float)):
        counter = record.facts.get("energy_counter_j") is not None
        source = "the energy counter" if counter else "the sampled power"
        if protocol_of(record) == "coldl2":
            source += "; includes flushing the cache"
        items = record.known_items
        each = f", {joules / items:.4g} J per item" if items else ""
        above, idle = (record.facts.get(key) for key in ("energy_above_idle_j", "idle_power_w"))
        each += "" if above is None else f", {above:.4g} J per batch above the idle {idle:.4g} W"
        yield "energy", f"{joules:.4g} J per batch{each} (from {source})"
    if record.spec.model.size_bytes:
        digest = (record.spec.model.sha256 or "unknown")[:12]
        yield "model", f"{text_from_bytes(record.spec.model.size_bytes)}, sha256 {digest}"
    if record.provenance == "imported":
        names = [path.replace("\\", "/").rsplit("/", 1)[-1] for path in record.sources]
        when = when_text(record.created, record.facts.get("created_from"))
        yield "imported", f"from {', '.join(names)} ({when})"
        for source in ("stated", "recorded", "implied", "unknown"):
            facts = {k: f.value for k, f in record.conditions.items() if f.source == source}
            words_of = (k if source == "unknown" else f"{k} {v}" for k, v in facts.items())
            if facts:
                yield source, ", ".join(word.replace("_", " ") for word in words_of)
        yield from (("note", note) for note in record.notes)
