"""What the file of a renderer offers; ``RENDERERS`` holds every one to it when it is loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from trtbench.report.document import Document


class Renderer(Protocol):
    """The module of a renderer. What has a value here may be left out."""

    INCLUDES: tuple[str, ...] = ()
    """Formats whose files it writes as well."""

    def render(self, document: Document, folder: Path) -> list[Path]:
        """Write the document into the folder and name the files."""
        ...
