"""Writes every figure of the document as PNG, and copies its pictures."""

import re
from importlib import util
from pathlib import Path

from trtbench.host.files import write_output
from trtbench.report.document import Document, Figure, Picture, Section, Text


def render(document: Document, folder: Path) -> list[Path]:
    drawn = drawable(document).figures()
    paths = [write_output(folder / file_name(each), png_bytes(each)) for each in drawn]
    for picture in document.pictures():
        path = folder / file_name(picture)
        if path.resolve() != Path(picture.path).resolve():
            write_output(path, Path(picture.path).read_bytes())
        paths.append(path)
    return paths


def drawable(document: Document) -> Document:
    """Return the document; without matplotlib, with a note in place of its figures."""
    if util.find_spec("matplotlib") is not None or not document.figures():
        return document
    said = Text("Left out, because matplotlib is not installed: pip install 'trtbench[plots]'")
    kept = document.with_figures([each.id for each in document.pictures()])
    return kept.having(sections=(*kept.sections, Section("charts", "Charts", (said,))))


def file_name(block: Figure | Picture) -> str:
    """Return the file name of a block, with characters that every file system allows."""
    ending = Path(block.path).suffix.lower() if isinstance(block, Picture) else ".png"
    return re.sub(r"[^A-Za-z0-9._-]+", "_", block.id) + ending


def png_bytes(figure: Figure) -> bytes:
    # Imported here because matplotlib takes almost a second.
    from trtbench.report.renderers._matplotlib import png_from_figure

    return png_from_figure(figure)
