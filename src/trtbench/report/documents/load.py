"""The search for the highest rate under a bound: the answer, every rate, and the curve."""

from __future__ import annotations

from trtbench.domain.load import LoadSearch
from trtbench.domain.result import Run
from trtbench.report.document import Block, Cell, Document, KeyValues, Text, document_from_blocks
from trtbench.report.documents.run import title_of
from trtbench.report.load_curve import rate_figure, rate_table
from trtbench.units import text_from_fraction, text_from_rate, text_from_seconds

LATE = 0.01
"""As finding H36 has it."""


def document_from_load(search: LoadSearch, run: Run) -> Document:
    """Describe a search, the answer first."""
    blocks = blocks_from_load(search)
    return document_from_blocks("load", blocks, title=_title(run), created=run.record.created)


def blocks_from_load(search: LoadSearch, *, stem: str = "", name: str = "") -> list[Block]:
    """Show the answer, every rate, and the curve; of several searches each has a stem."""
    end = f"_{stem}" if stem else ""
    answer: list[Block] = [KeyValues(id=f"load{end}", pairs=_answer(search))]
    if not search.points:
        return answer
    statistic, limit = search.slo.statistic, search.slo.limit_s
    figure = rate_figure(
        search.points, statistic=statistic, marks=_marks(search), limit_s=limit,
        id=f"latency_vs_rate{end}", name=name,
    )  # fmt: skip
    table = rate_table(search.points, statistic=statistic, id=f"rates{end}")
    return [*answer, table, figure, *_cautions(search)]


def _title(run: Run) -> str:
    parts = title_of(run).split(" · ")
    return " · ".join([*parts[:-1], f"load, {run.record.spec.arrivals} arrivals"])


def _answer(search: LoadSearch) -> tuple[tuple[str, Cell], ...]:
    highest, above = search.highest_hz, search.next_hz
    if not search.points:
        lone = f"{search.slo.statistic} {text_from_seconds(search.lone_s)} without any load"
        found = Cell(text=f"no rate keeps {search.slo.text}: {lone}", tone="bad")
    elif highest is None:
        least = text_from_rate(search.points[0].rate_hz, digits=3)
        found = Cell(text=f"no rate keeps {search.slo.text}; {least} was the lowest", tone="bad")
    else:
        part = highest / search.capacity_hz if search.capacity_hz else None
        share = text_from_fraction(part, digits=0)
        rate, beyond = text_from_rate(highest, digits=3), ""
        if search.at_least:
            rate, beyond = f"{rate} or more", " (no higher one was to be tried)"
        elif above is not None:
            beyond = f" ({_beyond(above, search.broken_hz)})"
        text = f"{rate} keeps {search.slo.text}{beyond}, {share} of the capacity"
        found = Cell(value=highest, text=text, tone="good")
    pairs = [("highest rate", found)]
    if not search.complete:
        words = "ended early: other rates would have followed"
        pairs.append(("search", Cell(text=words, tone="unclear")))
    if search.likely_hz is not None and not search.at_least:
        likely = f"{text_from_rate(search.likely_hz, digits=3)}, where the curve crosses the bound"
        pairs.append(("best guess", Cell(value=search.likely_hz, text=likely)))
    if search.knee_hz is not None:
        words = (
            f"{text_from_rate(search.knee_hz, digits=3)}: beyond, waiting grows faster than load"
        )
        pairs.append(("knee", Cell(value=search.knee_hz, text=words)))
    capacity = f"{text_from_rate(search.capacity_hz)}, one query after the other"
    pairs.append(("capacity", Cell(value=search.capacity_hz, text=capacity)))
    return tuple(pairs)


def _beyond(above: float, broken: float | None) -> str:
    """Say which rates stayed unclear and which surely break the bound."""
    unclear = f"{text_from_rate(above, digits=3)} is unclear"
    if broken is None:
        return unclear
    refused = f"{text_from_rate(broken, digits=3)} does not"
    return refused if broken == above else f"{unclear}, {refused}"


def _marks(search: LoadSearch) -> list[tuple[float, str]]:
    marks = ((search.highest_hz, "highest"), (search.knee_hz, "knee"))
    return [(at, text) for at, text in marks if at is not None]


def _cautions(search: LoadSearch) -> list[Text]:
    late = max(each.late_share for each in search.points)
    if late <= LATE:
        return []
    return [
        Text(
            text=f"note: up to {100 * late:.0f} % of a window's queries were sent late by the "
            "sender itself, which counts in these latencies; keep a core free for it.",
            tone="unclear",
        )
    ]
