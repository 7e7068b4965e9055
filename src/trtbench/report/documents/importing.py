"""What was imported, and which files were not used, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trtbench.analysis.reported import reported_headline
from trtbench.domain.result import FailedRun, RunRecord, Scalar
from trtbench.report.cells import seconds_cell
from trtbench.report.document import Cell, Document, Heading, Section, table_from_rows
from trtbench.report.headings import MEDIAN_HEADING, MODEL_HEADING
from trtbench.units import text_from_seconds

if TYPE_CHECKING:
    from trtbench.workflows.importing.run import Imported, ImportResult

MOST_SHOWN = 200
"""Unused files that are listed one by one; the rest are counted, and --json lists them all."""
RUNS = (
    Heading(key="run", title="Run"),
    MODEL_HEADING,
    Heading(key="tensorrt", title="TensorRT", rank=2),
    Heading(key="samples", title="Samples", align="right", rank=3),
    MEDIAN_HEADING,
    Heading(key="conditions", title="Conditions", fit="wrap", rank=4),
    Heading(key="files", title="Files", fit="wrap", rank=1),
)
UNUSED = (
    Heading(key="path", title="Not used", fit="wrap"),
    Heading(key="reason", title="Why", fit="wrap"),
)
_SWITCHES = {
    "transfers": ("copies", "no copies"),
    "cuda_graph": ("graph", "no graph"),
    "spin_wait": ("spin", "sleep"),
    "tf32": ("TF32", "no TF32"),
}
_NUMBERS = {"streams": "{} streams", "typing": "{} types", "batch": "batch {}"}
_MARKS = {"stated": "", "recorded": "~", "implied": "~", "unknown": "?"}


def document_from_import(result: ImportResult) -> Document:
    """List the runs that files became, and the files that became none."""
    sections = []
    if result.runs:
        caption = "Conditions: stated, ~implied by version or data, ?unknown."
        rows = [_row(each) for each in result.runs]
        table = table_from_rows("imported", headings=RUNS, rows=rows, caption=caption)
        sections.append(Section(id="imported", title="", blocks=(table,)))
    if result.unused:
        left = len(result.unused) - MOST_SHOWN
        unused = [
            (Cell(value=each.path, tone="unclear" if each.broken or each.named else "plain"),
             each.reason)
            for each in result.unused[:MOST_SHOWN]
        ]  # fmt: skip
        more = f"And {left} more; --json lists all." if left > 0 else None
        table = table_from_rows("unused", headings=UNUSED, rows=unused, caption=more)
        sections.append(Section(id="unused", title="Files", blocks=(table,)))
    return Document(title="", created="", sections=tuple(sections))


def _row(each: Imported) -> tuple[Cell | Scalar, ...]:
    record = each.record
    failed = isinstance(record, FailedRun)
    name = f"{each.known_as} (known)" if each.known_as else record.id
    return (
        Cell(value=name, tone="bad" if failed else "plain"),
        record.spec.model.name,
        record.environment.versions.get("tensorrt", "?"),
        Cell(value=each.samples, text="" if failed else str(each.samples)),
        Cell(text="failed", tone="bad") if failed else _median(each),
        record.reason if isinstance(record, FailedRun) else _conditions(record),
        _names(each),
    )


def _median(each: Imported) -> Cell:
    """Write the median; one that was only printed is marked, and so is a mean in its place."""
    if not isinstance(each.record, RunRecord):
        return Cell()
    if each.samples:
        return seconds_cell(each.median_s)
    printed = reported_headline(each.record)
    build_s = each.record.facts.get("build_s")
    if each.record.facts.get("built_only") and isinstance(build_s, (int, float)):
        return Cell(text=f"built in {text_from_seconds(build_s, digits=3)}")
    if printed is None:
        return Cell(text="layers only" if each.median_s is None else "–")
    what = "reported" if printed.statistic == "median" else f"{printed.statistic}, reported"
    return Cell(value=printed.seconds, text=f"{text_from_seconds(printed.seconds)} ({what})")


def _conditions(record: RunRecord) -> str:
    """Write conditions in short, marked by how they are known."""
    parts = [_switch(record, key, *words) for key, words in _SWITCHES.items()]
    for key, form in _NUMBERS.items():
        fact = record.conditions.get(key)
        if fact is not None and fact.value is not None and fact.value != 1:
            parts.append(_MARKS[fact.source] + form.format(fact.value))
    return ", ".join(parts)


def _switch(record: RunRecord, key: str, on: str, off: str) -> str:
    fact = record.conditions.get(key)
    if fact is None or fact.source == "unknown" or fact.value is None:
        return f"{_MARKS['unknown']}{on}"
    return _MARKS[fact.source] + (on if fact.value else off)


def _names(each: Imported) -> str:
    """Name the first file, and what else belongs to it."""
    rest = ", ".join(part.replace("_", " ") for part in each.parts[1:])
    return each.files[0].name + (f" + {rest}" if rest else "")
