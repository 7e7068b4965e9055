"""The state of a sweep while it runs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from trtbench.boundary import clean_line, mask
from trtbench.cli._screen import LiveDrawing
from trtbench.units import text_from_long_time, text_from_seconds

if TYPE_CHECKING:
    from trtbench.report.document import Document
    from trtbench.workflows.sweep.progress import Found, SweepProgress

MOST_ROWS = 24
"""Rows of the live table; more would scroll off the screen."""
_MARKS = {"now": "▶", "failed": "✗", "done": "✓", "waiting": "·"}
"""Of the states of cases, in the order in which they are worth a row."""


class Board(LiveDrawing):
    """The state of a sweep on stderr: a table on a terminal, a line for each case elsewhere."""

    def __init__(self) -> None:
        from rich.live import Live

        super().__init__()
        terminal = self._console.is_terminal
        self._drawn = self._live = (
            Live(console=self._console, auto_refresh=False, transient=True) if terminal else None
        )
        self._said: set[str] = set()

    def __call__(self, progress: SweepProgress) -> None:
        """Redraw between jobs only: while a child measures, this process sleeps."""
        if self._live:
            from rich.console import Group

            from trtbench.report.renderers.terminal import lines

            drawn = lines(_board(progress), width=self._console.width)
            self._live.update(Group(*drawn), refresh=True)
            return
        for place, reason in progress.reasons.items():
            self._say(f"failed: {progress.plan.cases[place].name}: {reason}")
        for place, found in progress.found.items():
            self._say(f"done: {progress.plan.cases[place].name}: {_median(found)} ({found.run})")
        if progress.doing:
            self._say(f"{_count(progress)} {progress.doing}{_left(progress)}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._console.print(mask(clean_line(text)), markup=False, soft_wrap=True)


def _board(progress: SweepProgress) -> Document:
    from trtbench.report.document import Cell, Heading, document_from_blocks, table_from_rows

    states = progress.state
    order = sorted(states, key=lambda place: list(_MARKS).index(states[place]))
    shown = set(order[:MOST_ROWS])
    rows = [
        (
            Cell(text=_MARKS[states[place]], tone="bad" if states[place] == "failed" else "plain"),
            case.name,
            _median(progress.found[place]) if place in progress.found else "",
            progress.reasons.get(place, ""),
        )
        for place, case in enumerate(progress.plan.cases)
        if place in shown
    ]
    headings = (
        Heading(key="state", title=""),
        Heading(key="case", title="Case", fit="shorten"),
        Heading(key="median_s", title="Median", align="right"),
        Heading(key="reason", title="", fit="wrap", rank=1),
    )
    more = f"… and {len(states) - len(shown)} more" if len(states) > len(shown) else None
    table = table_from_rows("board", headings=headings, rows=rows, caption=more)
    return document_from_blocks("board", [table], title=_headline(progress))


def _headline(progress: SweepProgress) -> str:
    elapsed = text_from_long_time(time.monotonic() - progress.began)
    parts = (_count(progress), progress.doing or "finishing", f"{elapsed} so far")
    return " · ".join(parts) + _left(progress)


def _count(progress: SweepProgress) -> str:
    return f"[{progress.done}/{progress.total}]" if progress.total else "[prepare]"


def _left(progress: SweepProgress) -> str:
    left = progress.left_s
    return f" · about {text_from_long_time(left)} left" if left is not None else ""


def _median(found: Found) -> str:
    return text_from_seconds(found.cached.median_s) if found.cached else "–"
