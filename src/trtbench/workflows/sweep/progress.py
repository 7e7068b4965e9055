"""How far a sweep is, for whoever draws it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from trtbench.store.entries import Cached
from trtbench.workflows.sweep.plan import SweepPlan


@dataclass(frozen=True, kw_only=True)
class Found:
    """A run that was measured, and what a list shows of it."""

    run: str
    cached: Cached | None


@dataclass(kw_only=True)
class SweepProgress:
    """How far a sweep is; the command line draws it between jobs."""

    plan: SweepPlan
    state: dict[int, Literal["waiting", "now", "done", "failed"]]
    found: dict[int, Found] = field(default_factory=dict)
    """The newest run of each case; its samples are on the disk, and not kept here."""
    reasons: dict[int, str] = field(default_factory=dict)
    doing: str = ""
    done: int = 0
    total: int = 0
    began: float = field(default_factory=time.monotonic)
    measuring_since: float | None = None
    measured: int = 0
    """By this process, which may go on with what another began."""

    @property
    def left_s(self) -> float | None:
        """Time to the end, by how often one was measured so far; ``None`` before the first.

        Several may be measured at once, and wait for a machine before.
        """
        if not self.measured or self.measuring_since is None:
            return None
        spent_s = time.monotonic() - self.measuring_since
        return spent_s / self.measured * (self.total - self.done)


WatchSweep = Callable[[SweepProgress], None]
