"""What the terminal shows: results on stdout, progress and messages on stderr."""

from __future__ import annotations

import math
import os
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from trtbench.core.safety import clean_line, clean_text, mask
from trtbench.core.units import text_from_long_time, text_from_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rich.progress import Progress

    from trtbench.core.results import Sidecar
    from trtbench.report.document import Document
    from trtbench.requests.execution import Event

T = TypeVar("T")

PLAIN_LINE_S = 2.0  # time between two lines of progress where there is no terminal
LEAST_ELAPSED_S, LEAST_DONE = 2.0, 0.03  # before, the time left is not estimated


def is_watched() -> bool:
    """Whether somebody sees progress on stderr: a terminal or a notebook, unless switched off."""
    return _is_wanted() and (sys.stderr.isatty() or _in_notebook())


def _is_wanted() -> bool:
    return os.environ.get("TRTBENCH_PROGRESS") != "0"


def _in_notebook() -> bool:
    return type(sys.stderr).__module__.startswith("ipykernel")


class ProgressDisplay:
    """Progress on stderr: a bar on a terminal, one line in a notebook, plain lines elsewhere.

    Nothing is drawn in the first ``patience_s``. The fraction that is done never decreases, and
    the time left follows from it and the time so far, without waiting for a device and without
    engines that were built before, whose events say how long they and the rest take.
    """

    def __init__(self, title: str, *, patience_s: float = 0.0) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._drawn: Progress | None = None
        self._title = title = clean_line(title)
        self._printed_at = -math.inf
        self._opened = self._began = time.monotonic()
        self._patience_s = patience_s
        self._waits_since: float | None = None
        self._apart_since: float | None = None  # a stage that is not part of the total
        self._done = self._base = 0.0  # base: what was done before the total
        self._counts = False
        self._last: tuple[float, float, Event] | None = None  # when, what was done, the stage
        self._line: str | None = "" if _in_notebook() else None
        self._bar: Progress | None = None
        if self._console.is_terminal and self._line is None and _is_wanted():
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=16),
                TimeElapsedColumn(),
                TextColumn("{task.fields[stage]}", markup=False),
                console=self._console,
                auto_refresh=False,
                transient=True,
            )
            self._task = self._bar.add_task(title, total=1.0, stage="")
            self._drawn = None if patience_s else self._bar

    def __enter__(self) -> ProgressDisplay:
        if self._drawn:
            self._drawn.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._drawn.stop()
        if self._line:
            sys.stderr.write(f"\r{' ' * len(self._line)}\r")

    def __call__(self, event: Event) -> None:
        """Show an event; nothing is redrawn between events, so that this process sleeps."""
        now = time.monotonic()
        if event.kind in ("note", "wait"):
            self._console.print(mask(clean_text(event.text)), markup=False, soft_wrap=True)
            self._waits_since = now if event.kind == "wait" else self._waits_since
            return
        if self._waits_since is not None:
            self._began += now - self._waits_since
            self._waits_since = None
        begun, start, stage = self._last or (now, 0.0, event)
        if stage.seconds and stage.until is not None:  # so far in a stage of known length
            part = min(1.0, (now - begun) / stage.seconds)
            self._done = max(self._done, start + (stage.until - start) * part)
        if event.kind == "stage" or self._last is None:
            begun, stage = now, self._begin(event, now)
        if now - self._opened >= self._patience_s and _is_wanted():
            self._draw(stage, begun, now)

    def _begin(self, stage: Event, now: float) -> Event:
        """Begin a stage: a part of the total, or work apart with an estimate of the rest."""
        if stage.rest_s is not None:
            self._apart_since = now if self._apart_since is None else self._apart_since
            if stage.seconds is not None and not self._counts:
                spent_s = now - self._opened
                total_s = max(1e-9, spent_s + stage.seconds + stage.rest_s)
                stage = stage.having(done=spent_s / total_s, until=1 - stage.rest_s / total_s)
        elif stage.done is not None:
            if self._apart_since is not None:
                self._began += now - self._apart_since
                self._base = self._base if self._counts else self._done
            self._apart_since, self._counts = None, True
            ends = (stage.done, stage.until)
            done, until = (x and self._base + (1 - self._base) * x for x in ends)
            stage = stage.having(done=done, until=until)
        self._done = max(self._done, stage.done or 0.0)
        self._last = now, self._done, stage
        return stage

    def _draw(self, stage: Event, begun: float, now: float) -> None:
        elapsed_s, part = now - self._began, (self._done - self._base) / (1 - self._base or 1.0)
        stage_s, left_s = (stage.seconds or 0.0) - (now - begun), None
        text = mask(clean_line(stage.text)) or "starting"
        if stage.rest_s is None and stage.seconds:
            text += f" ({text_from_seconds(stage.seconds, digits=2)})"
        if stage.rest_s is not None and stage.seconds is not None:
            left_s = max(0.0, stage_s) + stage.rest_s
        elif stage.rest_s is None and elapsed_s >= LEAST_ELAPSED_S and part >= LEAST_DONE:
            left_s = None if stage.guessed else max(stage_s, elapsed_s * (1 - part) / part)
        if left_s is not None:
            how = "at most" if stage.at_most else "about"
            text = f"{how} {text_from_long_time(left_s)} left · {text}"
        if self._bar is not None:
            if self._drawn is None:
                self._drawn = self._bar
                self._bar.start()
            self._bar.update(self._task, completed=self._done, stage=text)
            self._bar.refresh()
        elif self._line is not None:
            line = f"{self._title}: {self._done:.0%} · {text}"
            sys.stderr.write(f"\r{line.ljust(len(self._line))}")
            sys.stderr.flush()
            self._line = line
        elif now - self._printed_at >= PLAIN_LINE_S:
            self._printed_at = now
            self._console.print(f"{self._title}: {text}", markup=False, soft_wrap=True)


def say(text: str) -> None:
    """Print a message to stderr."""
    sys.stderr.write(clean_text(text) + "\n")


def write(text: object) -> None:
    """Print text to stdout; a missing newline is added."""
    line = str(text)
    sys.stdout.write(line if line.endswith("\n") else f"{line}\n")


def print_json(value: object) -> None:
    from trtbench.core.codec import json_from_value

    sys.stdout.write(json_from_value(value).decode())


def draw(document: Document, *, err: bool = False) -> None:
    """Print a document to stdout, or to stderr, as wide as the terminal is."""
    from rich.console import Console

    from trtbench.report.renderers import terminal

    terminal.draw(document, Console(highlight=False, stderr=err))


def show_value(value: T, document: Callable[[T], Document], *, as_json: bool) -> None:
    """Print a value as JSON, or as the document that is made from it."""
    if as_json:
        print_json(value)
    else:
        draw(document(value))


def show_job(job: object, lines: Sequence[str] = (), *, as_json: bool) -> None:
    """Print a job and its lines: those that start with # are steps, the others commands."""
    if not as_json:
        print_json(job)
        sys.stdout.writelines(f"{line}\n" for line in lines)
        return
    steps = [line.removeprefix("# ") for line in lines if line[:1] == "#"]
    commands = [line for line in lines if line[:1] != "#"]
    print_json({"job": job, "steps": steps, "commands": commands})


def show_conversion(sidecar: Sidecar, output: Path, *, as_json: bool) -> None:
    """Print what a conversion made and how far it is from its source."""
    from trtbench.report.sections.environment import document_from_conversion

    if as_json:
        import msgspec

        print_json({**msgspec.structs.asdict(sidecar), "path": str(output)})
        return

    draw(document_from_conversion(sidecar, size_bytes=output.stat().st_size))
    say(f"wrote {output}")
