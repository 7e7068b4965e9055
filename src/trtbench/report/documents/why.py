"""Why one engine is not faster than another: causes by what they explain, and what to try."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtbench.analysis.layers.why import Explained, Why
from trtbench.report.cells import duration_cell, share_cell
from trtbench.report.document import (
    Block,
    Cell,
    Code,
    Document,
    Heading,
    KeyValues,
    Section,
    Text,
    table_from_rows,
)
from trtbench.report.numbers import text_from_duration, text_from_share

SHOWN = 6
LEAST = 0.01
"""Share of the difference below which a cause is not worth a paragraph."""


def document_from_why(
    found: Why, labels: tuple[str, str], *, show_all: bool = False, notes: Sequence[str] = ()
) -> Document:
    """Describe causes, as a screen and as data."""
    causes = [each for each in found.causes if show_all or _matters(each)]
    causes = causes if show_all else causes[:SHOWN]
    sections = [
        Section(id="totals", title="", blocks=tuple(_totals(found))),
        *(
            Section(
                id=f"cause_{number}", title=_title(number, each), blocks=tuple(_cause(each, labels))
            )
            for number, each in enumerate(causes, 1)
        ),
        Section(id="notes", title="", blocks=tuple(Text(text=f"note: {each}") for each in notes)),
    ]
    return Document(
        title=f"Why {labels[1]} is not faster than {labels[0]}",
        created="",
        sections=tuple(each for each in sections if each.blocks),
        data={
            "baseline": labels[0],
            "candidate": labels[1],
            "baseline_s": found.baseline_s,
            "candidate_s": found.candidate_s,
            "expected_s": found.expected_s,
            "gain": found.gain,
            "shortfall_s": found.shortfall_s,
            "gains_s": found.gains_s,
            "unexplained_s": found.unexplained_s,
            "causes": [_data(each, labels) for each in found.causes],
            "notes": list(notes),
        },
    )


def _matters(each: Explained) -> bool:
    return each.cause.seconds is None or (each.share or 0.0) >= LEAST


def _totals(found: Why) -> Iterator[Block]:
    pairs = [
        (
            "baseline",
            Cell(value=found.baseline_s, text=f"{text_from_duration(found.baseline_s)} in layers"),
        ),
        (
            "candidate",
            Cell(
                value=found.candidate_s, text=f"{text_from_duration(found.candidate_s)} in layers"
            ),
        ),
    ]
    if found.gain > 1:
        words = (
            f"{text_from_duration(found.expected_s)}, if all products and convolutions were "
            f"{found.gain:.2f} times as fast, as those are that gained"
        )
        pairs.append(("expected", Cell(value=found.expected_s, text=words)))
    missing = max(0.0, found.shortfall_s)
    pairs.append(("to explain", duration_cell(missing)))
    if found.gains_s:
        words = f"{text_from_duration(-found.gains_s)}, where it does better than expected"
        pairs.append(("made up for", Cell(value=found.gains_s, text=words)))
    if found.unexplained_s > LEAST * missing:
        words = text_from_duration(found.unexplained_s)
        pairs.append(("unexplained", Cell(value=found.unexplained_s, text=words)))
    yield KeyValues(id="totals", pairs=tuple(pairs))
    if not missing:
        yield Text(text="nothing is missing: it is as fast as can be expected", tone="good")


def causes_table(found: Why, *, id: str = "causes") -> Block:
    """Write all causes as one table, for reports."""
    rows = [
        (
            Cell(value=each.cause.title),
            duration_cell(each.cause.seconds),
            duration_cell(each.explains_s),
            share_cell(each.share),
            Cell(value="; ".join(each.cause.evidence)),
            Cell(value=each.cause.try_),
        )
        for each in found.causes
    ]
    headings = (
        Heading(key="cause", title="Cause", fit="wrap"),
        Heading(key="cost_s", title="Costs", align="right"),
        Heading(key="explains_s", title="Explains", align="right"),
        Heading(key="share", title="Share", align="right"),
        Heading(key="evidence", title="Evidence", fit="wrap", rank=2),
        Heading(key="try", title="What to try", fit="wrap", rank=1),
    )
    return table_from_rows(id, headings=headings, rows=rows)


def _title(number: int, each: Explained) -> str:
    cause = each.cause
    if cause.seconds is None:
        return f"{number}. {cause.title} (seen, not in seconds)"
    share = f", explains {text_from_share(each.share)}" if each.share is not None else ""
    return f"{number}. {cause.title}: {text_from_duration(cause.seconds)}{share}"


def _cause(each: Explained, labels: tuple[str, str]) -> Iterator[Block]:
    cause = each.cause
    for line in cause.evidence:
        yield Text(text=f"  {line}")
    if cause.try_:
        yield Text(text=f"  try: {cause.try_}")
    if cause.command:
        yield Code(text=command_of(cause.command, labels))


def command_of(command: str, labels: tuple[str, str]) -> str:
    """Fill the names of the two sides into a command."""
    return command.replace("BASELINE", labels[0]).replace("CANDIDATE", labels[1])


def _data(each: Explained, labels: tuple[str, str]) -> dict[str, object]:
    cause = each.cause
    return {
        "code": cause.code,
        "title": cause.title,
        "cost_s": cause.seconds,
        "explains_s": each.explains_s,
        "share": each.share,
        "layers": list(cause.layers),
        "nodes": list(cause.nodes),
        "evidence": list(cause.evidence),
        "try": cause.try_,
        "command": command_of(cause.command, labels) if cause.command else None,
    }
