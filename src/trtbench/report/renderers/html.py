"""Writes the document as a single HTML page that needs no other files and no network.

Charts are embedded as SVG. A content security policy in the page blocks all requests.
"""

from __future__ import annotations

import base64
import gzip
from collections import Counter
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib import resources
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trtbench.analysis.findings import SEVERITIES
from trtbench.core.safety import clean_text
from trtbench.core.units import text_from_count, text_from_number
from trtbench.host.files import write_output
from trtbench.host.images import FORMATS
from trtbench.report import charts
from trtbench.report.document import Cell, Document, FindingList, Picture
from trtbench.report.renderers import json, png
from trtbench.version import __version__

if TYPE_CHECKING:
    from jinja2 import Environment

FILE = "report.html"
OPEN_ROWS = 200  # rows of a table in the HTML text; the others are compressed and added on demand
PICTURE_PX = 1400


def render(document: Document, folder: Path) -> list[Path]:
    return [write_output(folder / FILE, page(document))]


def page(document: Document, *, links: Mapping[str, str] | None = None) -> str:
    """Return the document as HTML; ``links`` maps first cells of rows to addresses."""
    links = links or {}
    charts_drawn = {}
    document = png.drawable(document)
    if figures := document.figures():
        from trtbench.report.renderers._matplotlib import svg_from_figure

        charts_drawn = {figure.id: svg_from_figure(figure) for figure in figures}
    counts: Counter[str] = Counter(
        item.finding.severity
        for block in document.blocks()
        if isinstance(block, FindingList)
        for item in block.items
    )
    more = {
        table.id: [
            [links.get(row[0].shown), [[cell.shown, _sort_key(cell)] for cell in row]]
            for row in table.rows[OPEN_ROWS:]
        ]
        for table in document.tables()
        if len(table.rows) > OPEN_ROWS
    }
    return str(
        _environment()
        .get_template("report.html.j2")
        .render(
            document=document,
            links=links,
            version=__version__,
            severities={name: counts[name] for name in SEVERITIES if counts[name]},
            css=asset("report.css"),
            js="".join(asset(name) for name in ("tables.js", "report.js")),
            palette=charts.TOKENS,
            charts=charts_drawn,
            rows=compressed(msgspec.json.encode(more)),
            json=compressed(msgspec.json.encode(json.json_content(document))),
        )
    )


def compressed(data: bytes) -> str:
    return base64.b64encode(gzip.compress(data, 6, mtime=0)).decode()


def data_url(picture: Picture) -> str | None:
    """Return a picture, reduced to page size, as a data URL; ``None`` if it cannot be read."""
    try:
        from PIL import Image
    except ImportError:
        return None
    path = Path(picture.path)
    try:
        Image.init()
        kinds = [each for each in FORMATS if each in Image.OPEN]  # others start programs
        with Image.open(path, formats=kinds) as image:
            fits = max(image.size) <= PICTURE_PX
            kind = (image.format or "png").lower() if fits else "jpeg"
            data = path.read_bytes()
            if not fits:
                image.thumbnail((PICTURE_PX, PICTURE_PX))
                buffer = BytesIO()
                image.convert("RGB").save(buffer, format="JPEG", quality=85)
                data = buffer.getvalue()
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):
        return None
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(asset),
        autoescape=True,
        # Makes control characters visible in plain strings, but not in our own markup.
        finalize=lambda value: clean_text(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: dict[str, Callable[..., object]] = {
        "kind": lambda block: type(block).__name__,
        "paragraphs": lambda text: text.split("\n\n"),
        "sortable": _sort_key,
        "evidence": lambda value: text_from_number(value) if isinstance(value, float) else value,
        "count": text_from_count,
        "data_url": data_url,
    }
    environment.filters |= filters
    environment.globals |= {"open_rows": OPEN_ROWS}
    return environment


def asset(name: str) -> str:
    folder = resources.files("trtbench.report.renderers") / "_html"
    return (folder / name).read_text(encoding="utf-8")


def _sort_key(cell: Cell) -> float | int | str | None:
    """Return the value to sort by if it differs from the text."""
    if isinstance(cell.value, bool) or cell.text is None:
        return None if isinstance(cell.value, (str, bool)) else cell.value
    return cell.value if isinstance(cell.value, (int, float)) else None
