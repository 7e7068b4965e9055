"""What a workflow tells while it works; the command line draws it, tests collect it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from trtbench.domain.spec import Value


class Event(Value, frozen=True, kw_only=True):
    """Something worth telling: a stage that began, a note, a wait, or a sign of life."""

    kind: Literal["stage", "note", "wait", "tick"]
    text: str
    done: float | None = None
    """Part of the whole work that is done, from 0 to 1, when it can be told."""
    seconds: float | None = None
    """How long the stage will take, when it is known."""


Listener = Callable[[Event], None]


def silent(event: Event) -> None:
    """Hear nothing."""


def part_of(listen: Listener, start: float, stop: float, *, name: str = "") -> Listener:
    """Have one step fill its part of the whole, and say its name where several look alike."""

    def heard(event: Event) -> None:
        text = f"{name}: {event.text}" if name else event.text
        done = None if event.done is None else start + (stop - start) * event.done
        listen(event.having(text=text, done=done))

    return heard
