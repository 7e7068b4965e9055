"""Two processes that hand each other the turn, one byte at a time, over a socket."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager

from trtbench.errors import TrtbenchError
from trtbench.host.machine import still_runs

_HELLO, _TURN = b"h", b"t"
_PACE = struct.Struct("!d")
LOOK_S = 0.002
"""How often it is looked whether a process has ended; nobody measures meanwhile."""


class PartnerLost(TrtbenchError):
    """The other side's process ended before its time."""


class Neighbours:
    """Other launches that start at the same time: one has the machine, and the others sleep.

    A read of these pipes ends when the last process that held the other end has closed it, or has
    ended; all that is written are the numbers of processes, for the launch after them.
    """

    def __init__(
        self,
        quiet: int,
        noise: int,
        before: int,
        all_over: int,
        mine: int,
        after: int | None = None,
    ) -> None:
        self._quiet, self._noise, self._before = quiet, noise, before
        self._all_over, self._mine, self._after = all_over, mine, after
        if after is not None:
            os.write(after, b"%d " % os.getpid())

    def await_turn(self, *, alone: bool) -> None:
        """Make no more noise; sleep until the launch before is over, and nobody starts any more.

        ``alone`` waits until its processes are gone: all their memory is free then.
        """
        os.close(self._noise)
        told = b""
        while part := os.read(self._before, 100):
            told += part
        os.read(self._quiet, 1)
        while alone and any(still_runs(int(each)) for each in told.split()):
            time.sleep(LOOK_S)

    def leave(self) -> None:
        """Let the next launch begin, and sleep until all are over: ending would make noise."""
        for end in filter(None, (self._after, self._mine)):
            os.close(end)
        os.read(self._all_over, 1)


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
