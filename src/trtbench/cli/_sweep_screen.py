"""What sweeps look like on a terminal: the plan, a table while it runs, the results, the best."""

from __future__ import annotations

import time
from collections import Counter
from typing import TYPE_CHECKING

from trtbench.cli._screen import Drawing, result_console
from trtbench.units import text_from_bytes, text_from_rate, text_from_seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Group
    from rich.table import Table

    from trtbench.analysis.sweep import Chosen, SweepRow
    from trtbench.workflows.sweep.estimate import KindEstimate
    from trtbench.workflows.sweep.plan import Plan
    from trtbench.workflows.sweep.run import Progress

MOST_ROWS = 24
"""Rows of the live table; more would scroll off the screen."""
_MARKS = {"waiting": "·", "now": "▶", "done": "✓", "failed": "✗"}
_STYLES = {"waiting": "dim", "now": "bold", "done": "", "failed": "red"}


class Board(Drawing):
    """The state of a sweep on stderr: a table on a terminal, a line for each case elsewhere."""

    def __init__(self) -> None:
        from rich.live import Live

        super().__init__()
        terminal = self._console.is_terminal
        self._drawn = self._live = (
            Live(console=self._console, auto_refresh=False, transient=True) if terminal else None
        )
        self._said: set[str] = set()

    def __call__(self, progress: Progress) -> None:
        """Redraw between jobs only: while a child measures, this process sleeps."""
        if self._live:
            self._live.update(_board(progress), refresh=True)
            return
        for place, reason in progress.reasons.items():
            self._say(f"failed: {progress.plan.cases[place].name}: {reason}")
        for place, run in progress.found.items():
            self._say(f"done: {progress.plan.cases[place].name}: {_median(run)} ({run.id})")
        if progress.doing:
            self._say(f"{_count(progress)} {progress.doing}{_left(progress)}")

    def _say(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._console.print(text, markup=False, soft_wrap=True)


def show_plan(plan: Plan, kinds: Sequence[KindEstimate]) -> None:
    """Print what a sweep would do: how much of each kind, what is kept, how long it takes."""
    console = result_console()
    table = _table("work", "count", "kept", "to do", "time")
    for each in kinds:
        to_do = each.count - each.cached
        table.add_row(
            each.kind, str(each.count), str(each.cached), str(to_do), _estimate_text(each, to_do)
        )
    console.print(table)
    for step in plan.steps.values():
        console.print(f"  {step.kind:<9} {step.key[:8]}  {step.title}", markup=False)
    rounds = plan.matrix.rounds
    often = f", {rounds} rounds" if rounds > 1 else ""
    console.print(f"{len(plan.cases)} cases{often}:", markup=False)
    for place, case in enumerate(plan.cases):
        if place not in plan.refused:
            needs = " ".join(key[:8] for key in plan.chains[place])
            console.print(f"  {case.name}" + (f"   [needs {needs}]" if needs else ""), markup=False)
    for reason, count in Counter(plan.refused.values()).items():
        console.print(f"  {count} cannot be measured: {reason}", markup=False)
    known = [each.seconds for each in kinds if each.seconds is not None]
    bound = "" if len(known) == len(kinds) else "at least "
    console.print(f"time: {bound}{_duration(sum(known))}", markup=False)


def show_results(rows: Sequence[SweepRow]) -> None:
    """Print a table for every model."""
    from rich.text import Text

    console = result_console()
    for model in dict.fromkeys(row.model for row in rows):
        console.print(model, style="bold", markup=False)
        table = _table("batch", "", "median", "mean", "max", "p99", "items/s", "size", "top-1", "")
        for row in (each for each in rows if each.model == model):
            table.add_row(*_result_cells(row))
        console.print(table)
    failed = [row for row in rows if row.reason is not None]
    for row in failed:
        name = f"{row.model} · {row.label}" + (f" · batch {row.batch}" if row.batch else "")
        console.print(Text(f"failed: {name}: {row.reason}", style="red"))
    for remark in dict.fromkeys(row.remark for row in rows if row.remark):
        console.print(f"note: {remark}", markup=False)
    if any(row.on_front for row in rows):
        console.print(
            "★ no other row of the model beats it in all of latency, throughput, accuracy"
        )


def show_chosen(chosen: Chosen, rows: Sequence[SweepRow], *, where: str, by: str) -> None:
    """Print what meets a condition, the best first, and what could not be judged."""
    console = result_console()
    measured = sum(row.reason is None for row in rows)
    count = f"{len(chosen.rows)} of {measured}"
    console.print(f"where {where}: {count}", style="bold", markup=False)
    if chosen.rows:
        table = _table("model", "batch", "", "median", "mean", "max", "p99", "items/s", "size",
                       "top-1", "")  # fmt: skip
        for row in chosen.rows:
            table.add_row(row.model, *_result_cells(row))
        console.print(table)
        best = chosen.rows[0]
        name = f"{best.model} · {best.label}" + (f" · batch {best.batch}" if best.batch else "")
        console.print(f"best by {by}: {name}", markup=False)
    for name, number in chosen.unknown.items():
        how = "longer runs tell" if name[:1] == "p" else "--data tells accuracies"
        console.print(f"{name} is not known of {number} rows: {how}", markup=False)


def _accuracy_text(row: SweepRow) -> str:
    """Top-1 in per cent, or the first score of another task by its name."""
    top = row.scores.get("top1") or next(iter(row.scores.values()), None)
    if top is None:
        return "–"
    return f"{100 * top.value:.2f} %" if top.metric == "top1" else f"{top.metric} {top.value:.4g}"


def _result_cells(row: SweepRow) -> list[str]:
    head = row.head
    if head is None or row.summary is None:
        return [str(row.batch or "–"), row.label, "failed", *[""] * 7]
    tail = head.quantile(0.99)
    return [
        str(row.batch or "–"),
        row.label,
        text_from_seconds(head.median),
        text_from_seconds(head.mean),
        text_from_seconds(head.max),
        text_from_seconds(tail.value)
        if tail.value is not None or not tail.needed
        else f"n={tail.needed}",
        text_from_rate(row.summary.items_per_s).removesuffix("/s"),
        text_from_bytes(row.size_bytes),
        _accuracy_text(row),
        "★" if row.on_front else "",
    ]


def _board(progress: Progress) -> Group:
    from rich.console import Group
    from rich.text import Text

    table = _table("", "case", "median", "")
    states = progress.state
    order = sorted(states, key=lambda k: ("now", "failed", "done", "waiting").index(states[k]))
    shown = set(order[:MOST_ROWS])
    for place, case in enumerate(progress.plan.cases):
        if place not in shown:
            continue
        state = states[place]
        run = progress.found.get(place)
        table.add_row(
            _MARKS[state],
            case.name,
            _median(run) if run else "",
            progress.reasons.get(place, ""),
            style=_STYLES[state],
        )
    if len(states) > len(shown):
        table.add_row("", f"… and {len(states) - len(shown)} more", "", "", style="dim")
    return Group(Text(_headline(progress)), table)


def _headline(progress: Progress) -> str:
    elapsed = _duration(time.monotonic() - progress.began)
    parts = (_count(progress), progress.doing or "finishing", f"{elapsed} so far")
    return " · ".join(parts) + _left(progress)


def _count(progress: Progress) -> str:
    return f"[{progress.done}/{progress.total}]" if progress.total else "[prepare]"


def _left(progress: Progress) -> str:
    left = progress.left_s
    return f" · about {_duration(left)} left" if left is not None else ""


def _median(run: object) -> str:
    import numpy as np

    from trtbench.domain.result import Run

    assert isinstance(run, Run)
    column = run.times.durations().get(run.times.headline)
    return text_from_seconds(float(np.median(column))) if column is not None else "–"


def _estimate_text(each: KindEstimate, to_do: int) -> str:
    if not to_do:
        return "–"
    if each.seconds is None:
        return "unknown"
    basis = f" ({each.guessed} by their settings alone)" if each.guessed else " (as before)"
    return f"{_duration(each.seconds)}{basis}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _table(*names: str) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim")
    words = {"case", "model", "work", "", "time"}
    for name in names:
        table.add_column(name, justify="left" if name in words else "right", no_wrap=bool(name))
    return table
