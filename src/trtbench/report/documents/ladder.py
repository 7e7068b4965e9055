"""Two numbers of one model and the ladder between them."""

from __future__ import annotations

from trtbench.analysis.ladder import COUNTS, Ladder
from trtbench.report.document import Cell, Document, Heading, Section, Table, Text, table_from_rows
from trtbench.report.numbers import text_from_difference, text_from_duration

HEADINGS = (
    Heading(key="rung", title="", fit="shorten"),
    Heading(key="a", title="From", fit="shorten", rank=2),
    Heading(key="b", title="To", fit="shorten", rank=2),
    Heading(key="seconds_s", title="Adds", align="right"),
    Heading(key="reached_s", title="Reached", align="right", rank=1),
    Heading(key="evidence", title="Known", rank=3),
    Heading(key="because", title="Because", fit="wrap"),
)


def document_from_ladder(
    ladder: Ladder, labels: tuple[str, str], *, measured: bool, hint: str | None = None
) -> Document:
    """Describe a ladder, as a screen and as data."""
    blocks = (_table(ladder, labels), *((Text(text=hint),) if hint else ()))
    return Document(
        title=f"From {labels[0]} to {labels[1]}",
        created="",
        sections=(Section(id="ladder", title="", blocks=blocks),),
        data={
            "run": labels[0],
            "against": labels[1],
            "measured": measured,
            "metric": [ladder.metric_a, ladder.metric_b],
            "from_s": ladder.a_s,
            "to_s": ladder.b_s,
            "rungs": list(ladder.rungs),
            "unexplained_s": ladder.unexplained_s,
        },
    )


def _table(ladder: Ladder, labels: tuple[str, str]) -> Table:
    at = ladder.a_s
    rows = [_row(labels[0], "", "", None, at, "", f"median {ladder.metric_a}")]
    for rung in ladder.rungs:
        counts = rung.evidence in COUNTS and rung.seconds is not None
        at = at + (rung.seconds or 0.0) if at is not None and counts else at
        rows.append(
            _row(rung.title, rung.a, rung.b, rung.seconds, at if counts else None, rung.evidence,
                 rung.because)
        )  # fmt: skip
    rows.append(_row("unexplained", "", "", ladder.unexplained_s, None, "", ""))
    rows.append(_row(labels[1], "", "", None, ladder.b_s, "", f"median {ladder.metric_b}"))
    return table_from_rows("ladder", headings=HEADINGS, rows=rows)


def _row(
    title: str, a: str, b: str, seconds: float | None, reached: float | None, known: str, why: str
) -> tuple[Cell, ...]:
    return (
        Cell(value=title),
        Cell(value=a),
        Cell(value=b),
        Cell(value=seconds, text=text_from_difference(seconds) if a or seconds is not None else ""),
        Cell(value=reached, text="" if reached is None else text_from_duration(reached)),
        Cell(value=known),
        Cell(value=why),
    )
