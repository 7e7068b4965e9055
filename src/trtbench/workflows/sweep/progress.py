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
    spent: dict[str, float] = field(default_factory=dict)
    """Seconds of measuring in this process, and how many measurements."""

    @property
    def left_s(self) -> float | None:
        """Time to the end, by what a measurement took so far; ``None`` before the first."""
        count = self.spent.get("count", 0.0)
        if not count:
            return None
        return self.spent["seconds"] / count * (self.total - self.done)


WatchSweep = Callable[[SweepProgress], None]
