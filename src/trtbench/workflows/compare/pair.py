"""Two workers, started before their jobs are known: what they import costs no time then."""

from __future__ import annotations

import os
import socket
from contextlib import ExitStack
from pathlib import Path

from trtbench.domain.job import DuetJob
from trtbench.executors.local import Assignment, Waiting, start_waiting
from trtbench.store.store import Store
from trtbench.workflows.compare.sides import Sides


class WaitingPair:
    """One worker for each side, asleep until their launch; then the next pair may be started."""

    def __init__(
        self, sides: Sides, *, store: Store, memory_bytes: int | None, before: WaitingPair | None
    ) -> None:
        self._sides = sides
        self._held = ExitStack()
        self._waiting: list[Waiting] = []
        quiet, self._noise = os.pipe()
        try:
            self.folder = self._held.enter_context(store.scratch())
            ends = [self._held.enter_context(end) for end in socket.socketpair()]
            # Nobody measures while this pair starts; the first has nobody before it.
            noisy = self._noise if before is None else before._noise
            for side, end in enumerate(ends):
                self._waiting.append(
                    start_waiting(
                        self._folder_of(side),
                        python=sides.pythons[side],
                        runtime=sides.both[side].runtime,
                        channel=end.fileno(),
                        quiet=quiet,
                        noisy=noisy,
                        memory_bytes=memory_bytes,
                    )
                )
                end.close()  # a side whose partner has ended must notice it
        except BaseException:
            self.close()
            raise
        finally:
            os.close(quiet)

    def assignments(self, jobs: tuple[DuetJob, DuetJob]) -> list[Assignment]:
        """Hand each worker its job; it is done by whoever runs these."""
        waiting, self._waiting = self._waiting, []
        return [
            Assignment(job=job, folder=self._folder_of(side), waiting=waiting[side])
            for side, job in enumerate(jobs)
        ]

    def allow(self) -> None:
        """Let it measure as soon as those that were started meanwhile are quiet."""
        noise, self._noise = self._noise, -1
        if noise >= 0:
            os.close(noise)

    def left(self, side: int) -> Path:
        """The folder of what a side left."""
        return self._folder_of(side) / f"side-{side}"

    def close(self) -> None:
        """End whoever still waits, and clear the folder away."""
        self.allow()
        for each in self._waiting:
            each.discard()
        self._waiting = []
        self._held.close()

    def _folder_of(self, side: int) -> Path:
        return self.folder / str(side)
