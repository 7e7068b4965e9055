"""Two processes that hand each other the turn, one byte at a time, over a socket."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from trtbench.errors import TrtbenchError
from trtbench.host.machine import still_runs

_HELLO, _TURN = b"h", b"t"
_PACE = struct.Struct("!d")
LOOK_S = 0.002
"""How often it is looked whether a process has ended; nobody measures meanwhile."""


class PartnerLost(TrtbenchError):
    """The other side's process ended before its time."""


class Barrier:
    """A pipe at which one waits until all who hold its other end have let go, or have ended."""

    def __init__(self, waits: int, holds: int) -> None:
        self._waits, self._holds = waits, holds

    def tell(self, word: bytes) -> None:
        """Leave a word to those who wait; nobody does after the last."""
        with suppress(BrokenPipeError):
            os.write(self._holds, word)

    def let_go(self) -> None:
        os.close(self._holds)

    def wait(self) -> bytes:
        """Sleep until nobody holds it, and give what they told."""
        told = b""
        while part := os.read(self._waits, 100):
            told += part
        return told


class Neighbours:
    """Other launches that start at the same time: one has the machine, and the others sleep.

    They come in groups. Those of one load one after the other, so that a place in this order finds
    the GPU's memory as the same place of another group does; then they measure one after the other.
    """

    def __init__(self, *ends: int) -> None:
        barriers = [Barrier(*ends[number : number + 2]) for number in range(0, len(ends), 2)]
        self._imports, self._groups, self._contexts, self._loads, self._turns, self._end = barriers
        self._groups.tell(b"%d " % os.getpid())

    def await_group(self) -> None:
        """Sleep until all have imported what they need, and the group before is gone.

        A process that has not ended may still have memory.
        """
        self._imports.let_go()
        self._imports.wait()
        before = [int(each) for each in self._groups.wait().split()]
        while any(map(still_runs, before)):
            time.sleep(LOOK_S)

    def await_load(self) -> None:
        """Sleep until all of the group have a context, and those before this launch an engine."""
        self._contexts.let_go()
        self._contexts.wait()
        self._loads.wait()

    def let_load(self) -> None:
        self._loads.let_go()

    def await_turn(self) -> None:
        """Sleep until all have loaded, and the launch before is over."""
        self._turns.wait()

    def leave(self) -> None:
        """Let the next launch begin, and sleep until all are over: ending would make noise."""
        self._turns.let_go()
        self._end.let_go()
        self._end.wait()


class TurnPartner:
    """The other side's process, at the far end of a socket."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def __enter__(self) -> TurnPartner:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def meet(self) -> None:
        """Wait until both sides are here."""
        self._send(_HELLO)
        self._receive(_HELLO)

    def hand_over(self) -> None:
        self._send(_TURN)

    def wait(self) -> None:
        self._receive(_TURN)

    @contextmanager
    def slot(self, *, first: bool) -> Iterator[None]:
        """Have the machine to oneself, one side after the other."""
        if not first:
            self.wait()
        yield
        self.hand_over()
        if first:
            self.wait()

    def swap(self, pace_s: float) -> float:
        """Tell the other side how long a query takes here, and hear how long it does there."""
        self._send(_PACE.pack(pace_s))
        return float(_PACE.unpack(self._hear(_PACE.size))[0])

    def _send(self, word: bytes) -> None:
        try:
            self._socket.sendall(word)
        except OSError:
            raise PartnerLost("the other side ended before its time") from None

    def _receive(self, word: bytes) -> None:
        if self._hear(len(word)) != word:
            raise PartnerLost("the other side ended before its time")

    def _hear(self, size: int) -> bytes:
        try:
            heard = self._socket.recv(size, socket.MSG_WAITALL)
        except OSError:
            heard = b""
        if len(heard) < size:
            raise PartnerLost("the other side ended before its time")
        return heard
