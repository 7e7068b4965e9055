"""What the file of a section offers; ``SECTIONS`` holds every one to it when it is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from trtbench.core.run import Run
from trtbench.report.document import Section


class SectionModule(Protocol):
    """The module of a section."""

    ORDER: int
    """Where it stands in a document: the lowest comes first."""

    def make(self, runs: Sequence[Run]) -> Section | Sequence[Section] | None:
        """Describe the runs in one section or several; ``None`` where there is nothing to say."""
