"""What runs look like on a terminal: results on stdout, talk on stderr."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from trtbench.units import text_from_bytes, text_from_rate, text_from_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import Console
    from rich.live import Live
    from rich.progress import Progress
    from rich.table import Table

    from trtbench.analysis.summary import ColumnSummary, Summary
    from trtbench.domain.result import FailedRun, Finding, Run
    from trtbench.workflows.request.progress import Event

D = TypeVar("D", bound="Drawing")

PIPE_COLUMNS = 160
"""Width of tables that go to a file or a pipe, where nothing should be folded."""

PLAIN_S = 2.0
"""Seconds between lines of progress where there is no terminal."""

_STYLES = {"note": "dim", "warning": "yellow", "error": "bold red"}
_TITLES = {
    "host": "host",
    "latency": "latency (h2d+gpu+d2h)",
    "enqueue": "enqueue",
    "h2d": "H2D",
    "gpu": "GPU compute",
    "d2h": "D2H",
    "end_to_end": "end to end",
}
_LOOKS = (
    ("gpu_util", 100, ".0f", "% busy"),
    ("memory_used_bytes", 2**-30, ".2f", "GiB in use"),
    ("sm_clock_hz", 1e-6, ".0f", "MHz"),
    ("power_w", 1, ".1f", "W"),
    ("temperature_c", 1, ".0f", "°C"),
)
"""What a look at the GPU saw: its field, factor, digits and unit."""
_SHOWN_QUANTILES = (0.90, 0.95, 0.99)


def result_console() -> Console:
    """Where results go: stdout."""
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=False)
    if not console.is_terminal:
        console.width = max(console.width, PIPE_COLUMNS)
    return console


class Drawing:
    """Something drawn on stderr while a block runs; nothing is where there is no terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._drawn: Progress | Live | None = None

    def __enter__(self: D) -> D:
        if self._drawn:
            self._drawn.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._drawn.stop()


class Talk(Drawing):
    """Progress on stderr: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title
        self._spoke = -math.inf
        self._drawn = self._bar = self._progress() if self._console.is_terminal else None
        self._task = self._bar.add_task(title, total=1.0, stage="") if self._bar else None

    def __call__(self, event: Event) -> None:
        """Redraw on an event only: between events the terminal sleeps, as the parent does."""
        if event.kind in ("note", "wait"):
            self._console.print(event.text, markup=False, soft_wrap=True)
            return
        if self._bar is None or self._task is None:
            self._line(event)
            return
        if event.kind == "stage":
            self._bar.update(self._task, completed=event.done, stage=_stage(event))
        self._bar.refresh()

    def _line(self, event: Event) -> None:
        """Write a line now and then: a log wants to know what is going on, not every step."""
        now = time.monotonic()
        if event.kind == "stage" and now - self._spoke >= PLAIN_S:
            self._spoke = now
            self._console.print(f"{self._title}: {_stage(event)}", markup=False, soft_wrap=True)

    def _progress(self) -> Progress:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        return Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[stage]}", markup=False),
            console=self._console,
            auto_refresh=False,
            transient=True,
        )


def _stage(event: Event) -> str:
    length = f" ({text_from_seconds(event.seconds, digits=2)})" if event.seconds else ""
    return event.text + length


def say(text: str) -> None:
    """Tell something on stderr."""
    sys.stderr.write(text + "\n")


def show_run(run: Run, summary: Summary) -> None:
    """Print a finished run: what, the numbers, how sure, and what the tool thinks of it."""
    console = result_console()
    console.print(title_of(run), style="bold", markup=False)
    show_statistics(console, run, summary)
    for line in facts_of(run, summary):
        console.print(line, markup=False)
    show_findings(console, run.findings)


def show_failed(failed: FailedRun) -> None:
    """Print a run that did not finish, with the end of its log."""
    from rich.text import Text

    console = result_console()
    console.print(f"{failed.spec.model.name} · {failed.spec.runtime}", style="bold", markup=False)
    console.print(Text(f"failed in stage {failed.stage}: {failed.reason}", style="red"))
    for line in failed.log_tail:
        console.print(Text(f"  | {line}", style="dim"))


def title_of(run: Run) -> str:
    """One line that says what was measured and how."""
    from trtbench.report.labels import device_name, precision_name, protocol_name

    record = run.record
    inputs = ", ".join(
        f"{t.name} {t.dtype} {'x'.join(str(dim) for dim in t.shape)}" for t in record.inputs
    )
    options = ", ".join(f"{key}={value}" for key, value in record.spec.options.items())
    spec, precision, device = record.spec, precision_name(record), device_name(record)
    parts = [spec.model.name, spec.runtime, device, precision, inputs, options]
    return " · ".join(part for part in [*parts, f"protocol {protocol_name(record)}"] if part)


def show_statistics(console: Console, run: Run, summary: Summary) -> None:
    """Print a run's statistics or, without samples, the numbers another tool printed."""
    if summary.columns:
        console.print(statistics_table(summary))
    else:
        _show_reported(console, run)


def statistics_table(summary: Summary) -> Table:
    """The statistics of every column that was measured, in people's units."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("")
    names = ("median", "mean", "std", "min", "p90", "p95", "p99", "max", "n")
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for column in summary.columns:
        table.add_row(_TITLES.get(column.column, column.column), *_cells(column))
    return table


def _show_reported(console: Console, run: Run) -> None:
    """Print the numbers another tool printed, marked as such, of a run without samples."""
    from rich.table import Table

    from trtbench.analysis.reported import reported_statistics

    rows = {name: reported_statistics(run.record, name) for name in _TITLES}
    names = list(dict.fromkeys(name for found in rows.values() for name in found))
    console.print("no samples" + ("; as reported by the tool that measured:" if names else ""))
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("", *names):
        table.add_column(name, justify="right" if name else "left", no_wrap=True)
    for column, found in rows.items():
        if found:
            cells = (text_from_seconds(found.get(name)) for name in names)
            table.add_row(_TITLES[column], *cells)
    if names:
        console.print(table)
    printed = run.record.reported.get("throughput_qps")
    if printed is not None:
        console.print(f"throughput   {printed} qps (reported)")


def _cells(column: ColumnSummary) -> list[str]:
    plain = [text_from_seconds(v) for v in (column.median, column.mean)]
    spread = [text_from_seconds(column.std, digits=3), text_from_seconds(column.min)]
    tails = [_tail_text(column, q) for q in _SHOWN_QUANTILES]
    return [*plain, *spread, *tails, text_from_seconds(column.max), f"{column.count}"]


def _tail_text(column: ColumnSummary, q: float) -> str:
    quantile = column.quantile(q)
    if quantile.value is not None:
        return text_from_seconds(quantile.value)
    return f"needs n={quantile.needed}" if quantile.needed else "–"


def facts_of(run: Run, summary: Summary) -> Iterable[str]:
    """Throughput, how repeatable, and what was left out of the statistics."""
    queries, items = summary.queries_per_s, summary.items_per_s
    if queries is not None:
        size = summary.items_per_query
        yield (
            f"throughput   {text_from_rate(queries, what='batches')}, "
            f"{text_from_rate(items, what='items')} (batch {size})"
        )
    if summary.interval is not None:
        low, high = summary.interval.low, summary.interval.high
        yield (
            f"repeats      median {text_from_seconds(low)} to {text_from_seconds(high)} over "
            f"{summary.launches} launches ({summary.interval.meaning})"
        )
    elif summary.columns:
        yield f"repeats      {summary.repeatability}"
    facts = run.record.launches[0] if run.record.launches else None
    if facts is not None and facts.first_s is not None:
        steady = {True: "steady", False: "not steady", None: "fixed length"}[facts.steady]
        length = text_from_seconds(facts.warmup_s, digits=2)
        warmup = "" if facts.warmup_s is None else f", warm-up {length} ({steady})"
        yield (
            f"before       load {text_from_seconds(facts.load_s, digits=3)}, first inference "
            f"{text_from_seconds(facts.first_s, digits=3)}{warmup}"
        )
    yield from _telemetry(run)
    size_bytes = run.record.spec.model.size_bytes
    if size_bytes:
        yield f"model        {text_from_bytes(size_bytes)}, sha256 {_short(run)}"
    if run.record.provenance == "imported":
        yield from _origin(run)


def _telemetry(run: Run) -> Iterable[str]:
    """What the GPU did in the pass that looked at it, and what a query took of energy."""
    from statistics import fmean

    means = (
        (f"{fmean(values) * factor:{form}} {unit}")
        for name, factor, form, unit in _LOOKS
        if (values := [v for look in run.telemetry if (v := getattr(look, name)) is not None])
    )
    told = ", ".join(means)
    if told:
        yield f"GPU          {told} (means of {len(run.telemetry)} looks)"
    joules = run.record.facts.get("energy_per_query_j")
    if isinstance(joules, (int, float)):
        counted = run.record.facts.get("energy_counter_j") is not None
        source = "the energy counter" if counted else "the power seen"
        if run.record.spec.protocol == "coldl2":
            source += "; emptying the cache included"
        each = joules / run.record.items_per_query
        yield f"energy       {joules:.4g} J per batch, {each:.4g} J per item (from {source})"


def _origin(run: Run) -> Iterable[str]:
    """Where an imported run came from, and how each condition is known."""
    record = run.record
    names = [path.replace("\\", "/").rsplit("/", 1)[-1] for path in record.sources]
    yield f"imported     from {', '.join(names)}"
    for source in ("stated", "implied", "unknown"):
        facts = {k: f.value for k, f in record.conditions.items() if f.source == source}
        told = (k if source == "unknown" else f"{k} {v}" for k, v in facts.items())
        if facts:
            yield f"{source:<12} {', '.join(word.replace('_', ' ') for word in told)}"
    yield from (f"note         {note}" for note in record.notes)


def _short(run: Run) -> str:
    return (run.record.spec.model.sha256 or "unknown")[:12]


def show_findings(console: Console, findings: Iterable[Finding]) -> None:
    """Print findings, the gravest first, each with its way out."""
    from rich.text import Text

    order = {"error": 0, "warning": 1, "note": 2}
    for finding in sorted(findings, key=lambda each: order[each.severity]):
        line = Text(f"{finding.severity} {finding.code}", style=_STYLES[finding.severity])
        beside = f" ({finding.concerns})" if finding.concerns else ""
        line.append(f"{beside}: {finding.message}", style="default")
        console.print(line)
        if finding.remedy and finding.severity != "note":
            console.print(Text(f"  → {finding.remedy}", style="dim"))
