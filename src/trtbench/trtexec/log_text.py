"""The text that holds logs, whatever it is kept in: encodings, notebooks, web pages, JSON.

One question is answered here for everybody, :func:`holds_log`: whether bytes hold anything
trtexec printed. What sorts files and what reads logs both ask it, so they cannot disagree.
"""

from __future__ import annotations

import codecs
import html
import io
import re
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from typing import BinaryIO, NamedTuple

import msgspec

from trtbench.trtexec._log_lanes import lane_form, lanes_in, sorted_apart

LONGEST_LINE = 1 << 18
"""Characters of a line that are looked at; a padded profile row has a few thousand."""

LARGEST_DOCUMENT = 256 << 20
"""Bytes of a notebook, a web page or a JSON document, which are read as a whole."""

HARD_BREAK = "\f\f"
"""Stands between texts that cannot be of one run, such as two cells of a notebook."""

_CHUNK = 1 << 20
HEAD = 64 << 10
"""Bytes by which the wrapping of a text is told."""
_OVERLAP = 512
_EVIDENCE = re.compile(
    rb"&(?:amp;)?&(?:amp;)?&(?:amp;)?&(?:amp;)? (?:RUNNING|PASSED|FAILED|WAIVED) "
    rb"|=== Performance summary ==="
    rb"|=== (?:Model|Build|Inference|Reporting|System) Options ==="
    rb"|\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] (?:\[TRT\] )?\[[VIWEF]\]"
    rb"|Average o(?:n|ver) \d+ runs? (?:is|-) "
    rb"|Throughput: [\d.,e+]+ qps"
    rb"|(?:Latency|Time): min = [\d.,e+-]+ ms"
    rb"|\bmin: [\d.e+-]+ ms \(end to end"
)
_HTML = re.compile(
    r"\s*(?:<!--.{0,4000}?-->\s*)?(?:<\?xml[^>]*>\s*)?"
    r"<(?:!doctype html|html|head|body|pre|div|span|table|p|details|article|section)\b",
    re.IGNORECASE | re.DOTALL,
)
_LIST = re.compile(r"\[\s*(?:[\[{\"\]]|-?\d+\.?\d*\s*[,\]])")
"""How a JSON list begins and the prefix of a log line does not."""


def holds_log(data: bytes | bytearray | memoryview) -> bool:
    """Say whether bytes hold a line that only trtexec prints, in any encoding and any wrapping."""
    found = bytes(data)
    if b"\0" in found[:4096]:
        found = found.replace(b"\0", b"")  # what is left of UTF-16 is ASCII
    if b"\xc2\xa0" in found:
        found = found.replace(b"\xc2\xa0", b" ")  # blanks that must not break, of a web page
    return _EVIDENCE.search(found) is not None


def stream_holds_log(stream: BinaryIO) -> bool:
    """Look through a stream to its end, piece by piece."""
    rest = b""
    while chunk := stream.read(_CHUNK):
        if holds_log(rest + chunk):
            return True
        rest = chunk[-_OVERLAP:]
    return False


def encoding_of(head: bytes) -> str | None:
    """Tell the encoding of a text by its first bytes; ``None`` when it is no text."""
    if head[:4] in (b"\xff\xfe\0\0", b"\0\0\xfe\xff"):
        return "utf-32"
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):  # what PowerShell's > writes
        return "utf-16"
    if head[:3] == b"\xef\xbb\xbf":
        return "utf-8-sig"
    look = head[:2048]
    look = look[: len(look) & ~1]
    if b"\0" not in look.rstrip(b"\0"):
        return "utf-8"
    even, odd = look[::2].count(0), look[1::2].count(0)
    half = max(1, len(look) // 2)
    if odd > 0.7 * half and even < 0.1 * half:
        return "utf-16-le"
    if even > 0.7 * half and odd < 0.1 * half:
        return "utf-16-be"
    return None


class TextLines(NamedTuple):
    """The lines of a text, and whether they are those of its file, one by one."""

    lines: Iterator[str]
    as_in_file: bool


def text_lines(source: BinaryIO | bytes | bytearray | memoryview | str) -> Iterator[str]:
    """List the lines of a text; those of a notebook, a web page or JSON as people see them."""
    return read_text(source).lines


def read_text(source: BinaryIO | bytes | bytearray | memoryview | str) -> TextLines:
    """Open a text, whatever it is kept in; what several programs said at once is sorted apart."""
    if isinstance(source, str):
        source = source.encode("utf-8", "surrogatepass")
    if isinstance(source, (bytes, bytearray, memoryview)):
        source = io.BytesIO(source)
    stream: BinaryIO = source
    head = stream.read(HEAD)
    encoding = encoding_of(head) or "utf-8"
    if is_document(head):
        whole = head + stream.read(LARGEST_DOCUMENT)
        text = whole.decode(encoding, "replace").lstrip("\ufeff")
        found = _from_html(text) if _HTML.match(text) else _from_json(text)
        if found is not None or not stream.seekable():
            return TextLines(_split(text if found is None else found), found is None)
        stream.seek(len(head))  # only began like one
    form = lane_form(_split(head.decode(encoding, "replace").lstrip("\ufeff")))
    if form is not None and stream.seekable():

        def again() -> Iterator[str]:
            stream.seek(0)
            return _decoded(stream.read(_CHUNK), stream, encoding)

        lanes = lanes_in(again(), form)
        lines = again()
        if len(lanes) > 1:
            return TextLines(sorted_apart(again, form, lanes, break_with=HARD_BREAK), False)
        return TextLines(lines, True)
    return TextLines(_decoded(head, stream, encoding), True)


def is_document(head: bytes) -> bool:
    """Say whether a text is wrapped as a whole, so that its lines are not those of the file."""
    begin = head[:HEAD].decode(encoding_of(head) or "utf-8", "replace").lstrip("\ufeff \t\r\n\0")
    if begin[:1] == "{" and _is_line_of_json(begin):
        return False  # one object a line
    return bool(begin[:1] in ("{", '"') or _LIST.match(begin) or _HTML.match(begin))


def _is_line_of_json(begin: str) -> bool:
    first, _, rest = begin.partition("\n")
    try:
        return rest.lstrip()[:1] == "{" and isinstance(msgspec.json.decode(first), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def _decoded(head: bytes, stream: BinaryIO, encoding: str) -> Iterator[str]:
    """Decode piece by piece; memory is bounded by a chunk and the longest line."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    chunk, rest = head, ""
    while chunk:
        text = rest + decoder.decode(chunk)
        cut = text.rfind("\n") + 1
        yield from _split(text[:cut])
        rest = text[cut:]
        if len(rest) > LONGEST_LINE:
            rest = rest[:LONGEST_LINE]
        chunk = stream.read(_CHUNK)
    yield from _split(rest + decoder.decode(b"", True))


def _split(text: str) -> Iterator[str]:
    if not text:
        return
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    yield from lines


def _from_json(text: str) -> str | None:
    """Make the text inside a JSON document; ``None`` when it is none, such as JSON lines."""
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    cells = _cells(value)
    blocks = _cell_texts(cells) if cells is not None else _strings(value)
    return f"\n{HARD_BREAK}\n".join(blocks)


def _cells(value: object) -> list[object] | None:
    if not isinstance(value, dict):
        return None
    if isinstance(value.get("cells"), list):
        return list(value["cells"])
    sheets = value.get("worksheets")  # notebooks before version 4
    if isinstance(sheets, list):
        return [cell for sheet in sheets if isinstance(sheet, dict) for cell in sheet["cells"]]
    return None


def _cell_texts(cells: Iterable[object]) -> Iterator[str]:
    """Collect each cell's text: what was typed, since that may be the command, then its outputs."""
    for cell in cells:
        if not isinstance(cell, dict):
            continue
        typed = _joined(cell.get("source", cell.get("input", "")))
        outputs = cell.get("outputs")
        shown = "".join(_output(each) for each in outputs) if isinstance(outputs, list) else ""
        yield f"{typed}\n{shown}"


def _output(output: object) -> str:
    if not isinstance(output, dict):
        return ""
    data = output.get("data")
    if isinstance(data, dict):  # one result in several forms: take one
        if "text/plain" in data:
            return _joined(data["text/plain"]) + "\n"
        return (_from_html(_joined(data.get("text/html", ""))) or "") + "\n"
    return _joined(output.get("text", output.get("traceback", "")))


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(each for each in value if isinstance(each, str))
    return value if isinstance(value, str) else ""


def _strings(value: object) -> Iterator[str]:
    """Find every text in a document that holds something of trtexec's."""
    if isinstance(value, str):
        if holds_log(value.encode("utf-8", "replace")):
            inner = _from_json(value) if value.lstrip()[:1] in ("{", "[") else None
            yield inner or value
    elif isinstance(value, list):
        if value and all(isinstance(each, str) for each in value):
            joint = "" if str(value[0]).endswith("\n") else "\n"
            yield from _strings(joint.join(value))
        else:
            for each in value:
                yield from _strings(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)


class _Page(HTMLParser):
    """Gathers the visible text of a page; blocks end lines, and nothing of a script counts."""

    _HIDDEN = frozenset({"script", "style", "head", "template"})
    _ENDS = frozenset({"br", "p", "div", "tr", "li", "pre", "h1", "h2", "h3", "h4", "table", "hr"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in self._HIDDEN:
            self.hidden += 1
        elif tag == "body":  # a head need not be closed
            self.hidden = 0
        elif tag in self._ENDS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._HIDDEN:
            self.hidden = max(0, self.hidden - 1)
        elif tag in self._ENDS and tag != "br":
            # A fence, as in Markdown: what follows a listing is not part of it.
            self.parts.append("\n```\n" if tag == "pre" else "\n")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)


def _from_html(text: str) -> str | None:
    page = _Page()
    try:
        page.feed(text)
        page.close()
    except (AssertionError, ValueError):  # html.parser on what only resembles a page
        return html.unescape(re.sub(r"<[^>\n]{1,400}>", "", text))
    return "".join(page.parts).replace("\N{NO-BREAK SPACE}", " ")
