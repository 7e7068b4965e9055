"""What the terminal shows: results on stdout, progress and messages on stderr."""

from __future__ import annotations

import math
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from trtbench.core.safety import clean_line, clean_text
from trtbench.core.units import text_from_seconds

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


class ProgressDisplay(LiveDrawing):
    """Progress on stderr: a bar on a terminal, plain lines elsewhere."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title = clean_line(title)
        self._printed_at = -math.inf
        self._bar: Progress | None = None
        if self._console.is_terminal:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._drawn = self._bar = Progress(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=24),
                TimeElapsedColumn(),
                TextColumn("{task.fields[stage]}", markup=False),
                console=self._console,
                auto_refresh=False,
                transient=True,
            )
            self._task = self._bar.add_task(title, total=1.0, stage="")

    def __call__(self, event: Event) -> None:
        """Show an event; nothing is redrawn between events, so that this process sleeps."""
        if event.kind in ("note", "wait"):
            self._console.print(clean_text(event.text), markup=False, soft_wrap=True)
            return
        length = f" ({text_from_seconds(event.seconds, digits=2)})" if event.seconds else ""
        stage = clean_line(event.text) + length
        now = time.monotonic()
        if self._bar is not None:
            if event.kind == "stage":
                self._bar.update(self._task, completed=event.done, stage=stage)
            self._bar.refresh()
        elif event.kind == "stage" and now - self._printed_at >= PLAIN_LINE_S:
            self._printed_at = now
            self._console.print(f"{self._title}: {stage}", markup=False, soft_wrap=True)


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
