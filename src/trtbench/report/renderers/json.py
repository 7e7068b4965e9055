"""The document as JSON: every block as data, and further facts beside it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trtbench.core.codec import json_from_value
from trtbench.host.files import write_output
from trtbench.report.document import Document

FILE = "report.json"


def render(document: Document, folder: Path) -> list[Path]:
    """Write ``report.json``; the keys of ``data`` stand beside ``document``."""
    return [write_output(folder / FILE, json_bytes(document))]


def json_bytes(document: Document) -> bytes:
    """Encode a document; numbers JSON cannot hold become null."""
    return json_from_value(plain_value(document))


def plain_value(document: Document) -> dict[str, object]:
    """Collect what is encoded: the facts for programs, and beside them the document."""
    return {**document.data, "document": document.having(data={})}


def document_from_json(data: bytes) -> Document:
    """Read back what ``render`` wrote."""
    raw = msgspec.json.decode(data)
    document = msgspec.convert(raw.pop("document"), type=Document)
    return document.having(data=raw)
