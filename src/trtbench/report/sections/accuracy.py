"""Whether the fast answer is still the right one: scores, and pictures of the worst cases.

Scores as ``readings`` says; ``run.extra["pictures"]`` is a sequence of paths, or of mappings with
``path`` and optionally ``title`` and ``caption``, relative to the run's folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trtbench.domain.result import Run
from trtbench.report.cells import bytes_cell, count_cell, duration_cell, number_cell, seconds_cell
from trtbench.report.document import Block, Cell, Heading, Picture, Section, Text, table_from_rows
from trtbench.report.headings import (
    MEDIAN_HEADING,
    METRIC_HEADING,
    PART_HEADINGS,
    PARTS_MEANING,
    RUN_HEADING,
    SIZE_HEADING,
    capitalized,
)
from trtbench.report.labels import file_stem, labels_from_runs
from trtbench.report.numbers import MISSING, common_unit
from trtbench.report.run_facts import headline_summary, joules_per_item
from trtbench.report.run_scores import Reading, readings_from_run

ORDER = 80

MOST_PICTURES = 12
MOST_METRICS = 5
"""More columns than this are wider than a page; the table before has all."""
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")

HEADINGS = (
    RUN_HEADING,
    METRIC_HEADING,
    Heading(key="value", title="Value", align="right"),
    Heading(key="low", title="Low", align="right"),
    Heading(key="high", title="High", align="right"),
    Heading(key="count", title="Examples", align="right"),
)

COSTS = (
    MEDIAN_HEADING,
    Heading(key="host_memory_bytes", title="Host memory", align="right"),
    Heading(key="device_memory_bytes", title="Device memory", align="right"),
    Heading(key="energy_per_item_j", title="J per item", align="right"),
    SIZE_HEADING,
)


def make(runs: Sequence[Run]) -> Section | None:
    """List every score of every run with its interval, and show the pictures runs carry."""
    labels = labels_from_runs(runs)
    rows = [
        (label, metric, *_cells(reading))
        for label, run in zip(labels, runs, strict=True)
        for metric, reading in readings_from_run(run).items()
    ]
    blocks: list[Block] = []
    if rows:
        caption = "Low and high enclose the score with the confidence the evaluation states."
        blocks.append(table_from_rows("accuracy", headings=HEADINGS, rows=rows, caption=caption))
        blocks += _same_bytes(labels, runs)
        blocks += _item_parts(labels, runs)
    pictures = list(_pictures(zip(labels, runs, strict=True)))
    blocks += pictures[:MOST_PICTURES]
    if len(pictures) > MOST_PICTURES:
        blocks.append(Text(text=f"{MOST_PICTURES} of {len(pictures)} pictures are shown."))
    if not blocks:
        return None
    return Section(id="accuracy", title="Accuracy", blocks=tuple(blocks))


def _same_bytes(labels: Sequence[str], runs: Sequence[Run]) -> list[Block]:
    """Tell what is right, fast, small and cheap about the same bytes, side by side."""
    judged = [
        (label, run, readings, head)
        for label, run in zip(labels, runs, strict=True)
        if (readings := readings_from_run(run)) and (head := headline_summary(run))
    ]
    if not judged:
        return []
    metrics = list(dict.fromkeys(m for _, _, readings, _ in judged for m in readings))[
        :MOST_METRICS
    ]
    unit = common_unit(head.typical for *_, head in judged)
    headings = (
        RUN_HEADING,
        Heading(key="sha256", title="SHA-256"),
        *(Heading(key=metric, title=metric, align="right") for metric in metrics),
        *COSTS,
    )
    rows: list[tuple[Cell | str, ...]] = [
        (
            label,
            (run.record.spec.model.sha256 or MISSING)[:12],
            *(_value(readings.get(metric)) for metric in metrics),
            duration_cell(head.typical, unit=unit),
            *_costs(run),
        )
        for label, run, readings, head in judged
    ]
    caption = (
        "Scores are those of the very bytes whose latency was measured. Memory is the most a "
        "measuring process held; where a device does not tell it by process, the most in use on it."
    )
    return [table_from_rows("same_bytes", headings=headings, rows=rows, caption=caption)]


def _item_parts(labels: Sequence[str], runs: Sequence[Run]) -> list[Block]:
    """Tell where the time of one item went in the pass that took the scores."""
    rows: list[tuple[Cell | str, ...]] = []
    words: list[str] = []
    for label, run in zip(labels, runs, strict=True):
        carried = run.extra.get("item_parts")
        if not isinstance(carried, Mapping) or not isinstance(carried.get("seconds"), Mapping):
            continue
        seconds = [carried["seconds"].get(name) for name in PART_HEADINGS]
        rows.append((label, *(seconds_cell(s) for s in seconds)))
        words.append(str(carried.get("timed") or ""))
    if not rows:
        return []
    told = capitalized("; ".join(dict.fromkeys(word for word in words if word)))
    headings = (RUN_HEADING, *PART_HEADINGS.values())
    caption = f"{told}. {PARTS_MEANING}"
    return [table_from_rows("item_parts", headings=headings, rows=rows, caption=caption)]


def _value(reading: Reading | None) -> Cell:
    return Cell(text=MISSING) if reading is None else Cell(value=reading.value, text=reading.text)


def _costs(run: Run) -> tuple[Cell, Cell, Cell, Cell]:
    """Fill in memory, energy and size."""
    record = run.record
    host = [each.peak_memory_bytes for each in record.launches if each.peak_memory_bytes]
    own = [each.process_memory_bytes for each in run.telemetry if each.process_memory_bytes]
    device = own or [each.memory_used_bytes for each in run.telemetry if each.memory_used_bytes]
    held = (max(host, default=None), max(device, default=None))
    joules = joules_per_item(run)
    size = record.spec.model.size_bytes
    first, second = (bytes_cell(each) for each in held)
    spent = number_cell(joules)
    return first, second, spent, bytes_cell(size)


def _cells(reading: Reading) -> tuple[Cell, Cell, Cell, Cell]:
    low, high = (
        Cell(value=end, text=MISSING if end is None else reading.text_of(end))
        for end in (reading.low, reading.high)
    )
    count = count_cell(reading.count)
    return Cell(value=reading.value, text=reading.text), low, high, count


def _pictures(named: Iterator[tuple[str, Run]]) -> Iterator[Picture]:
    taken: set[str] = set()
    seen: set[Path] = set()
    for label, run in named:
        carried = run.extra.get("pictures", ())
        for each in carried if isinstance(carried, (list, tuple)) else ():
            facts = each if isinstance(each, Mapping) else {"path": each}
            path = (run.path or Path()) / str(facts.get("path", ""))
            if path.suffix.lower() not in SUFFIXES or path in seen or not path.is_file():
                continue
            seen.add(path)
            yield Picture(
                id=file_stem(path.stem, taken=taken),
                title=str(facts.get("title") or path.stem.replace("_", " ")),
                path=str(path),
                caption=str(facts.get("caption") or label),
            )
