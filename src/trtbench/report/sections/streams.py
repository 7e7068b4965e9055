"""What batch and how many streams to use: throughput over both, where runs differ in streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from trtbench.analysis.sweep import Choice, FrontPlace, choice_from_surface
from trtbench.domain.ran import streams_of
from trtbench.domain.result import Run
from trtbench.report.alike import name_of_key, series_over
from trtbench.report.charts import Axis, Line, Lines, Panel
from trtbench.report.document import Block, Cell, Figure, Heading, Section, Text, table_from_rows
from trtbench.report.labels import file_stem, shortened
from trtbench.report.run_facts import summary_of
from trtbench.units import counted, text_from_fraction, text_from_rate

ORDER = 71


def make(runs: Sequence[Run]) -> Section | None:
    """Show items per second over batch and streams, the knee, and what to use."""
    blocks: list[Block] = []
    taken: set[str] = set()
    series = series_over(runs, _place, leave_out=("batch", "streams"))
    for key, found in series.items():
        if len({streams for _, streams in found}) < 2:
            continue
        rates = {place: median(map(_rate, members)) for place, members in found.items()}
        name, stem = name_of_key(key), file_stem(key[0], taken=taken)
        choice = choice_from_surface(rates)
        blocks += [_figure(rates, name, stem), _table(rates, choice, stem)]
        blocks += [Text(text=f"{shortened(name)}: {_words(choice, rates)}")] if choice else []
    return (
        Section(id="streams", title="Streams and batch", blocks=tuple(blocks)) if blocks else None
    )


def _place(run: Run) -> FrontPlace | None:
    return (run.record.items_per_query, streams_of(run.record)) if _rate(run) else None


def _rate(run: Run) -> float:
    return summary_of(run).items_per_s or 0.0


def _figure(rates: Mapping[FrontPlace, float], name: str, stem: str) -> Figure:
    lines = tuple(
        Line(
            name=f"{streams} streams" if streams > 1 else "1 stream",
            role=f"run:{number}",
            x=tuple(float(batch) for batch, each in rates if each == streams),
            y=tuple(rate for (_, each), rate in rates.items() if each == streams),
            style="both",
        )
        for number, streams in enumerate(sorted({each for _, each in rates}))
    )
    chart = Lines(
        x=Axis(title="Batch size", unit="items", scale="log2"),
        y=Axis(title="Throughput", unit="items/s", low=0),
        panels=(Panel(lines=lines),),
    )
    title = f"Throughput over batch and streams: {shortened(name)}"
    return Figure(id=f"throughput_vs_streams_{stem}", title=title, chart=chart)


def _table(rates: Mapping[FrontPlace, float], choice: Choice | None, stem: str) -> Block:
    counts = sorted({streams for _, streams in rates})
    knee = (choice.batch, choice.streams) if choice else None
    headings = (
        Heading(key="batch", title="Batch", align="right"),
        *(
            Heading(key=f"streams_{each}_items_per_s", title=f"{each} str.", align="right")
            for each in counts
        ),
    )
    rows: list[list[Cell | int]] = [
        [batch, *(_cell(rates.get((batch, each)), (batch, each) == knee) for each in counts)]
        for batch in sorted({batch for batch, _ in rates})
    ]
    caption = "Items per second; latencies of several streams overlap."
    return table_from_rows(f"streams_{stem}", headings=headings, rows=rows, caption=caption)


def _cell(rate: float | None, is_knee: bool) -> Cell:
    return Cell(value=rate, text=text_from_rate(rate), tone="good" if is_knee else "plain")


def _words(choice: Choice, rates: Mapping[FrontPlace, float]) -> str:
    use = f"use batch {choice.batch} with {counted(choice.streams, 'stream')}"
    if (choice.batch, choice.streams) == (choice.best_batch, choice.best_streams):
        batches, streams = zip(*rates, strict=True)
        edges = [f"more {what}" for what, best, most in (
            ("items", choice.batch, max(batches)), ("streams", choice.streams, max(streams)),
        ) if best == most]  # fmt: skip
        more = f"; {' or '.join(edges)} may bring more" if edges else ""
        return f"{use}, the best that was measured{more}."
    share = text_from_fraction(choice.items_per_s / choice.best_items_per_s, digits=0)
    best = f"batch {choice.best_batch} with {choice.best_streams}"
    return f"{use}: {share} of the best ({best}) with the fewest items in flight."
