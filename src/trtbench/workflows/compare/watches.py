"""The GPUs of two sides while they are measured: locked once for both, seen for each side."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from trtbench.workflows.compare.sides import SIDES, Sides
from trtbench.workflows.measure.launches import device_of
from trtbench.workflows.measure.watch import Watch, watching


class Watches:
    """What each side's launches saw of clocks and memory, over all the times they are measured."""

    def __init__(self, sides: Sides, *, listen: Callable[[str], None]) -> None:
        self._sides, self._listen = sides, listen
        self._seen: dict[int, Watch] = {}

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Watch from here to the end; why a clock is not locked is said once for each device."""
        with ExitStack() as held:
            for device in sorted({device_of(spec) for spec in self._sides.both}):
                mine = [side for side in SIDES if device_of(self._sides.both[side]) == device]
                watch = held.enter_context(watching(self._sides.both[mine[-1]], device))
                for note in watch.notes if mine[-1] not in self._seen else ():
                    self._listen(note)
                for side in mine:
                    self._seen[side] = self._continued(side, watch)
            yield

    def of(self, side: int) -> Watch | None:
        """Find the watch of a side; ``None`` where nobody watched."""
        return self._seen.get(side)

    def _continued(self, side: int, watch: Watch) -> Watch:
        """Make a side a watch of its own that goes on with what it has seen before."""
        before = self._seen.get(side)
        evidence, notes = (before.evidence, before.notes) if before else ({}, [])
        return replace(
            watch,
            evidence={**watch.evidence, **evidence},
            notes=list(dict.fromkeys((*watch.notes, *notes))),
            _readings=[],
            _memory={},
        )
