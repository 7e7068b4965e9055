"""What the terminal shows: results on stdout, progress and messages on stderr."""

from __future__ import annotations

import math
import os
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from trtbench.core.safety import clean_line, clean_text
from trtbench.core.units import text_from_long_time, text_from_seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rich.live import Live
    from rich.progress import Progress

    from trtbench.core.results import Sidecar
    from trtbench.report.document import Document
    from trtbench.requests.execution import Event

D = TypeVar("D", bound="LiveDrawing")
T = TypeVar("T")

PLAIN_LINE_S = 2.0  # time between two lines of progress where there is no terminal
LEAST_ELAPSED_S, LEAST_DONE = 2.0, 0.03  # before, the time left is not estimated


class LiveDrawing:
    """A live display on stderr while a block runs; without a terminal nothing is drawn."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True, highlight=False)
        self._drawn: Progress | Live | None = None

    def __enter__(self: D) -> D:
        if self._drawn:
            self._drawn.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._drawn:
            self._drawn.stop()


def is_watched() -> bool:
    """Whether somebody sees progress on stderr: a terminal or a notebook, unless switched off."""
    return _is_wanted() and (sys.stderr.isatty() or _in_notebook())


def _is_wanted() -> bool:
    return os.environ.get("TRTBENCH_PROGRESS") != "0"


def _in_notebook() -> bool:
    return type(sys.stderr).__module__.startswith("ipykernel")


class ProgressDisplay(LiveDrawing):
    """Progress on stderr: a bar on a terminal, one line in a notebook, plain lines elsewhere.

    Nothing is drawn in the first ``patience_s``. The fraction that is done never decreases, and
    the time left follows from it and the time so far, without waiting for a device.
    """

    def __init__(self, title: str, *, patience_s: float = 0.0) -> None:
        super().__init__()
        self._title = title = clean_line(title)
        self._printed_at, self._began = -math.inf, time.monotonic()
        self._patience_s = patience_s
        self._waits_since: float | None = None
        self._done = 0.0
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

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        if self._line:
            sys.stderr.write(f"\r{' ' * len(self._line)}\r")

    def __call__(self, event: Event) -> None:
        """Show an event; nothing is redrawn between events, so that this process sleeps."""
        now = time.monotonic()
        if event.kind in ("note", "wait"):
            self._console.print(clean_text(event.text), markup=False, soft_wrap=True)
            self._waits_since = now if event.kind == "wait" else self._waits_since
            return
        if self._waits_since is not None:
            self._began += now - self._waits_since
            self._waits_since = None
        if event.kind == "stage" or self._last is None:
            self._done = max(self._done, event.done or 0.0)
            self._last = now, self._done, event
        begun, start, stage = self._last
        if stage.seconds and stage.until is not None:  # so far in a stage of known length
            part = min(1.0, (now - begun) / stage.seconds)
            self._done = max(self._done, start + (stage.until - start) * part)
        if now - self._began >= self._patience_s and _is_wanted():
            self._draw(stage, begun, now)

    def _draw(self, stage: Event, begun: float, now: float) -> None:
        length = f" ({text_from_seconds(stage.seconds, digits=2)})" if stage.seconds else ""
        text, elapsed_s = clean_line(stage.text) + length, now - self._began
        if elapsed_s >= LEAST_ELAPSED_S and self._done >= LEAST_DONE:
            rest_s = (stage.seconds or 0.0) - (now - begun)
            left_s = max(rest_s, elapsed_s * (1 - self._done) / self._done)
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
    """Print a value to stdout as JSON."""
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
