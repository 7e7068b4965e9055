"""What each step takes of a GPU's memory, by what is free before and after it.

The whole device is asked, so whoever else takes or gives memory meanwhile is counted too; a step
after which more is free than before tells nothing.
"""

from __future__ import annotations

from trtbench.domain.result import Scalar
from trtbench.host.cuda import Cuda


class MemoryMeter:
    """Free memory from the moment a device was opened."""

    def __init__(self, cuda: Cuda) -> None:
        self._cuda = cuda
        self._free, total = cuda.memory()
        self.facts: dict[str, Scalar] = {
            "memory_free_opened_bytes": self._free,
            "memory_total_bytes": total,
        }
        if cuda.facts().integrated:
            self.facts["memory_of_host"] = True

    def mark(self, name: str, *, parts: int = 1) -> None:
        """Note as a fact what was taken since the last mark, for each of several equal parts."""
        free, _ = self._cuda.memory()
        taken, self._free = self._free - free, free
        if taken >= 0 and parts:
            self.facts[name] = taken // parts
        self.facts["memory_free_bytes"] = free
