"""Whether the fast answer is still the right one: scores, and pictures of the worst cases.

Scores as ``readings`` says; ``run.extra["pictures"]`` is a sequence of paths, or of mappings with
``path`` and optionally ``title`` and ``caption``, relative to the run's folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trtbench.domain.result import Run
from trtbench.report.document import Block, Cell, Heading, Picture, Section, Text, table_from_rows
from trtbench.report.labels import file_stem, labels_from_runs
from trtbench.report.numbers import MISSING, text_from_count, text_from_number
from trtbench.report.readings import Reading, readings_from_run

ORDER = 80

MOST_PICTURES = 12
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")

HEADINGS = (
    Heading(key="run", title="Run"),
    Heading(key="metric", title="Metric"),
    Heading(key="value", title="Value", align="right"),
    Heading(key="low", title="Low", align="right"),
    Heading(key="high", title="High", align="right"),
    Heading(key="count", title="Examples", align="right"),
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
    pictures = list(_pictures(zip(labels, runs, strict=True)))
    blocks += pictures[:MOST_PICTURES]
    if len(pictures) > MOST_PICTURES:
        blocks.append(Text(text=f"{MOST_PICTURES} of {len(pictures)} pictures are shown."))
    if not blocks:
        return None
    return Section(id="accuracy", title="Accuracy", blocks=tuple(blocks))


def _cells(reading: Reading) -> tuple[Cell, Cell, Cell, Cell]:
    low, high = (
        Cell(value=end, text=MISSING if end is None else text_from_number(end, bounds=bounds))
        for bounds in (reading.bounds,)
        for end in (reading.low, reading.high)
    )
    count = Cell(value=reading.count, text=text_from_count(reading.count))
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
