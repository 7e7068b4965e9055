"""Every figure of the document as a PNG file."""

from __future__ import annotations

import re
from pathlib import Path

from trtbench.report.document import Document, Figure


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``<figure>.png`` for each figure."""
    paths = []
    for figure in document.figures():
        path = folder / file_name(figure)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png_bytes(figure))
        paths.append(path)
    return paths


def file_name(figure: Figure) -> str:
    """Name the picture's file; an id is made of letters that every file system takes."""
    return f"{re.sub(r'[^A-Za-z0-9._-]+', '_', figure.id)}.png"


def png_bytes(figure: Figure) -> bytes:
    """Draw one figure."""
    # matplotlib takes most of a second to import: only those who want pictures pay.
    from trtbench.report.renderers._drawing import picture

    return picture(figure)
