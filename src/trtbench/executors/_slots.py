"""Places where one run at a time is measured, shared by the threads that ask for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from trtbench.errors import TrtbenchError, UnavailableError
from trtbench.executors._node import error_from_told
from trtbench.executors._request import WAITING, Needs, Tell, Told

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
            told = f"its GPU is {self.gpu_type}" if self.gpu_type else ""
            return told or "has no GPU, or one of unknown type"
        if needs.memory_bytes and (self.memory_bytes or 0) < needs.memory_bytes:
            return "not enough memory"
        if needs.gpu_memory_bytes and (self.gpu_memory_bytes or 0) < needs.gpu_memory_bytes:
            return "not enough GPU memory"
        for name, amount in needs.resources.items():
            if self.resources.get(name, 0.0) < amount:
                return f"has no {name} {amount:g}"
        return None

    def _is_called(self, name: str) -> bool:
        """Tell whether a machine goes by part of its or its GPU's name, or by its own resource."""
        known = f"{self.title} {self.gpu_type}".lower()
        return name in known or name in map(str.lower, self.resources)


@dataclass(eq=False)
class Want:
    """A run that has a place, or waits for one."""

    needs: Needs
    slot: Slot | None = None


class Lacking(Exception):
    """The machine that was asked lacks libraries, and is left out for such runs from now on."""


class Slots:
    """All places there are, and those that are taken."""

    def __init__(
        self,
        look: Callable[[], Iterable[Slot]],
        *,
        ask: Callable[[Sequence[Want]], None] | None = None,
        patience_s: float = 0.0,
    ) -> None:
        """Look for places with ``look``; whoever is patient waits for those not there yet.

        From the first that has to wait on, ``ask`` hears of all runs whenever one of them begins to
        wait, gets its place, or ends.
        """
        self._look, self._patience_s = look, patience_s
        self._ask = ask if patience_s > 0 else None
        self._asked = False
        self._changed = threading.Condition()
        self._wants: list[Want] = []
        self._used: dict[tuple[str, int | None, int], int] = {}
        self._lacking: dict[tuple[str, tuple[str, ...]], TrtbenchError | None] = {}
        """By machine and libraries, once it was asked: what is missing, or nothing."""

    def demand(
        self, slot: Slot, needs: Needs, ask: Callable[[tuple[str, ...]], Told | None]
    ) -> None:
        """Ask a machine once whether it has the libraries for a run, before anything is sent."""
        key = slot.machine, needs.libraries
        if needs.libraries and key not in self._lacking:
            self._lacking[key] = None
            if (told := ask(needs.libraries)) is not None:
                told = told.having(fix=f"on {slot.title}: {told.fix}" if told.fix else None)
                self._lacking[key] = error_from_told(told, where=slot.title)
        if self._lacking.get(key) is not None:
            raise Lacking

    def fitting(self, needs: Needs) -> list[Slot]:
        """Places where such a run can be measured; that there is none is an error."""
        places = list(self._look())
        fitting = [slot for slot in places if slot.lacks(needs) is None]
        missing = [self._lacking.get((slot.machine, needs.libraries)) for slot in fitting]
        able = [slot for slot, lacks in zip(fitting, missing, strict=True) if lacks is None]
        if able:
            return able
        if missing and missing[0] is not None:
            raise missing[0]
        # Of a machine, what its place of the right kind lacks says more.
        places.sort(key=lambda slot: (slot.gpu is not None) == needs.gpu)
        reasons = {slot.machine: (slot.title, slot.lacks(needs)) for slot in places}
        named = [title for title, _ in list(reasons.values())[:8]]
        called = (needs.machine or "").lower()
        known = not named or any(slot._is_called(called) for slot in places)
        raise UnavailableError(
            "no machine can ever do this" + ("" if known else f": none is called {needs.machine}"),
            facts={
                "needed": needs,
                **{title: why or "" for title, why in list(reasons.values())[:8]},
                **({} if reasons else {"machines": "none"}),
            },
            fix="ask for less, or add a machine that has it"
            if known
            else f"name one of these, or add it: {', '.join(named)}",
        )

    @contextmanager
    def taken(self, needs: Needs, *, tell: Tell) -> Iterator[Slot]:
        """Hold one fitting place for the length of the block, waiting for it if need be."""
        want = Want(needs)
        with self._changed:
            self._wants.append(want)
        try:
            yield self._take(want, tell)
        finally:
            with self._changed:
                self._wants.remove(want)
                self._changed.notify_all()
            self._ask_for(waiting=False)

    def _ask_for(self, *, waiting: bool) -> None:
        """Say which runs there are to who can add machines, once one of them had to wait."""
        self._asked |= waiting
        if self._ask is not None and self._asked:
            with self._changed:
                wants = list(self._wants)
            self._ask(wants)

    def _come(self, needs: Needs, tell: Tell) -> list[Slot]:
        """List the places that have what is needed, waiting for one as long as is allowed."""
        waited = False
        deadline = time.monotonic() + self._patience_s
        while True:
            try:
                found = self.fitting(needs)
            except UnavailableError:
                if time.monotonic() >= deadline:
                    raise
            else:
                if waited:
                    tell("a machine has come")
                return found
            if not waited:
                tell(f"{WAITING} to come that has {needs}")
                waited = True
                self._ask_for(waiting=True)
            time.sleep(min(LOOK_S, max(0.0, deadline - time.monotonic())))

    def _take(self, want: Want, tell: Tell) -> Slot:
        waited = False
        while True:
            fitting = self._come(want.needs, tell)  # also when the one waited for has left
            with self._changed:
                taken = {each.slot.key for each in self._wants if each.slot is not None}
                free = [slot for slot in fitting if slot.key not in taken]
                if free:
                    # The least used first: idle machines are cool machines.
                    want.slot = min(free, key=lambda each: self._used.get(each.key, 0))
                    self._used[want.slot.key] = self._used.get(want.slot.key, 0) + 1
                    break
            if not waited:
                tell(f"{WAITING} to be free or to come" if self._ask else WAITING)
                waited = True
                self._ask_for(waiting=True)
            with self._changed:
                self._changed.wait(LOOK_S)
        self._ask_for(waiting=False)
        return want.slot
