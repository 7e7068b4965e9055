"""Places where one run at a time is measured, shared by the threads that ask for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from trtbench.errors import UnavailableError
from trtbench.executors._request import WAITING, Needs, Tell

LOOK_S = 2.0
"""How often who waits looks whether places came or went meanwhile."""


@dataclass(frozen=True, kw_only=True)
class Slot:
    """One device of one machine: a GPU, or the processor."""

    machine: str
    """Tells machines apart."""
    title: str
    """For people."""
    gpu: int | None = None
    """The number of the GPU; ``None`` is the processor."""
    number: int = 0
    """Among the runs that share the processor, or the slices of a GPU."""
    visible: str = ""
    """What a process is given to see of a divided GPU: the UUID of a slice."""
    gpu_type: str = ""
    memory_bytes: float | None = None
    gpu_memory_bytes: float | None = None
    resources: dict[str, float] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int | None, int]:
        return (self.machine, self.gpu, self.number)

    def lacks(self, needs: Needs) -> str | None:
        """Say what is missing for a run; ``None`` when it can be measured here."""
        if needs.gpu != (self.gpu is not None):
            return "has no GPU" if needs.gpu else "this place is a GPU"
        if needs.machine and not self._is_called(needs.machine.lower()):
            return "is another machine"
        if needs.gpu_type and needs.gpu_type.lower() not in self.gpu_type.lower():
            return f"its GPU is {self.gpu_type or 'of unknown type'}"
        if needs.memory_bytes and (self.memory_bytes or 0) < needs.memory_bytes:
            return "not enough memory"
        if needs.gpu_memory_bytes and (self.gpu_memory_bytes or 0) < needs.gpu_memory_bytes:
            return "not enough GPU memory"
        for name, amount in needs.resources.items():
            if self.resources.get(name, 0.0) < amount:
                return f"has no {name} {amount:g}"
        return None

    def _is_called(self, name: str) -> bool:
        """Whether a machine goes by part of its name or its GPU's, or by a resource of its own."""
        known = f"{self.title} {self.gpu_type}".lower()
        return name in known or name in map(str.lower, self.resources)


class Slots:
    """All places there are, and those that are taken."""

    def __init__(
        self,
        look: Callable[[], Iterable[Slot]],
        *,
        ask: Callable[[Needs], None] | None = None,
        patience_s: float = 0.0,
    ) -> None:
        """Look for places with ``look``; for one that is not there yet, ``ask`` and be patient."""
        self._look, self._ask, self._patience_s = look, ask, patience_s
        self._changed = threading.Condition()
        self._taken: set[tuple[str, int | None, int]] = set()
        self._used: dict[tuple[str, int | None, int], int] = {}

    def fitting(self, needs: Needs) -> list[Slot]:
        """Places where such a run can be measured; that there is none is an error."""
        places = list(self._look())
        fitting = [slot for slot in places if slot.lacks(needs) is None]
        if fitting:
            return fitting
        reasons = {slot.machine: (slot.title, slot.lacks(needs)) for slot in places}
        raise UnavailableError(
            "no machine can ever measure this run",
            facts={
                "needed": needs,
                **{title: why or "" for title, why in list(reasons.values())[:8]},
                **({} if reasons else {"machines": "none"}),
            },
            fix="ask for less, or add a machine that has it",
        )

    @contextmanager
    def taken(self, needs: Needs, *, tell: Tell) -> Iterator[Slot]:
        """Hold one fitting place for the length of the block, waiting for it if need be."""
        slot = self._take(needs, tell)
        try:
            yield slot
        finally:
            with self._changed:
                self._taken.discard(slot.key)
                self._changed.notify_all()

    def _come(self, needs: Needs, tell: Tell) -> list[Slot]:
        """List the places that have what is needed, waiting for one as long as is allowed."""
        asked = False
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                found = self.fitting(needs)
            except UnavailableError:
                if time.monotonic() >= deadline:
                    raise
            else:
                if asked:
                    tell("a machine has come")
                return found
            if not asked:
                tell(f"{WAITING} to come that has {needs}")
                asked = True
                if self._ask is not None:
                    self._ask(needs)
            time.sleep(min(LOOK_S, max(0.0, deadline - time.monotonic())))

    def _take(self, needs: Needs, tell: Tell) -> Slot:
        waited = False
        while True:
            fitting = self._come(needs, tell)  # also when the one that was waited for has left
            with self._changed:
                free = [slot for slot in fitting if slot.key not in self._taken]
                if free:
                    # The least used first: idle machines are cool machines.
                    slot = min(free, key=lambda each: self._used.get(each.key, 0))
                    self._taken.add(slot.key)
                    self._used[slot.key] = self._used.get(slot.key, 0) + 1
                    return slot
                if not waited:
                    tell(WAITING)
                    waited = True
                self._changed.wait(LOOK_S)
