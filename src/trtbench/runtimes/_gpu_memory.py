"""What each step takes of a GPU's memory, by what is free before and after it.

The whole device is asked, so whoever else takes or gives memory meanwhile is counted too; a step
after which more is free than before tells nothing.
"""

from __future__ import annotations

from trtbench.domain.result import Scalar
from trtbench.host.cuda import Cuda

METERED = (
    *("memory_free_opened_bytes", "memory_total_bytes", "memory_free_bytes"),
    *("memory_engine_bytes", "memory_context_bytes"),
    *("memory_buffers_bytes", "memory_modules_bytes"),
)
"""What is told by free memory: untrue where other processes load at the same time."""


class MemoryMeter:
    """Free memory from the moment a device was opened."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._free, total = cuda.memory()
        self.facts: dict[str, Scalar] = {
            "memory_free_opened_bytes": self._free,
            "memory_total_bytes": total,
        }

    def mark(self, name: str, *, parts: int = 1) -> None:
        """Note as a fact what was taken since the last mark, for each of several equal parts."""
        free, _ = self._cuda.memory()
        taken, self._free = self._free - free, free
        if taken >= 0:
            self.facts[name] = taken // max(1, parts)
        self.facts["memory_free_bytes"] = free
