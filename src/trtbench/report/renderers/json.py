"""Writes the document as JSON: all blocks as data, and the document's extra data."""

from pathlib import Path

from trtbench.core.codec import json_from_value
from trtbench.host.files import write_output
from trtbench.report.document import Document

FILE = "report.json"


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``report.json`` with ``document`` and the keys of ``data`` at the top level."""
    return [write_output(folder / FILE, json_from_value(json_content(document)))]


def json_content(document: Document) -> dict[str, object]:
    return {**document.data, "document": document.having(data={})}
