"""Every figure of the document as a PNG file, its drawings as SVG, and copies of pictures."""

from __future__ import annotations

import re
import shutil
from importlib import util
from pathlib import Path

from trtbench.host.files import write_output
from trtbench.report.document import Document, Drawing, Figure, Picture


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``<figure>.png`` for each figure; pictures that exist already are copied."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [
        write_output(folder / file_name(figure), png_bytes(figure))
        for figure in (document.figures() if can_draw() else ())
    ]
    for picture in document.pictures():
        path = folder / picture_name(picture)
        if path.resolve() != Path(picture.path).resolve():
            shutil.copyfile(picture.path, path)
        paths.append(path)
    drawings = document.drawings()
    return [*paths, *(write_output(folder / drawing_name(each), each.svg) for each in drawings)]


def can_draw() -> bool:
    """Tell whether figures can be drawn here; a document without pictures is still one."""
    return util.find_spec("matplotlib") is not None


def file_name(figure: Figure) -> str:
    """Name the picture's file; an id is made of letters that every file system takes."""
    return f"{_safe(figure.id)}.png"


def picture_name(picture: Picture) -> str:
    """Name the copy of a picture, with the ending of the original."""
    return f"{_safe(picture.id)}{Path(picture.path).suffix.lower()}"


def drawing_name(drawing: Drawing) -> str:
    """Name the file of a drawing."""
    return f"{_safe(drawing.id)}.svg"


def png_bytes(figure: Figure) -> bytes:
    """Draw one figure."""
    # matplotlib takes most of a second to import: only those who want pictures pay.
    from trtbench.report.renderers._drawing import picture

    return picture(figure)


def _safe(id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "_", id)
