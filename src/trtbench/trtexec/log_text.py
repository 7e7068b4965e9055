"""The text that holds logs, whatever it is kept in: encodings, notebooks, web pages, JSON.

One question is answered here for everybody, :func:`holds_log`: whether bytes hold anything
trtexec printed. What sorts files and what reads logs both ask it, so they cannot disagree.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import re
from collections.abc import Iterable, Iterator
from typing import BinaryIO, NamedTuple

import msgspec

from trtbench.trtexec._log_lanes import lanes_in, naming_of, sorted_apart
from trtbench.trtexec._log_packed import is_mail, texts_of_mail, unpacked
from trtbench.trtexec._log_page import is_rtf, page_texts, text_from_rtf
from trtbench.trtexec._log_records import is_row, lines_of_records
from trtbench.trtexec._log_screen import drawn, is_drawn, unbroken, width_of

LONGEST_LINE = 1 << 22
"""Characters of a line that are looked at; a log that was printed as code is one."""

LARGEST_DOCUMENT = 128 << 20
"""Bytes of a notebook, a web page or a JSON document, which are read as a whole."""

MOST_BRACKETS, MOST_COMMAS = 2_000_000, 20_000_000
"""In JSON: what is packed small may be lists of nothing, each of which takes memory."""

HARD_BREAK = "\f\f"
"""Stands between texts that cannot be of one run, such as two cells of a notebook."""

_ASCII = frozenset(b"\t\n\r\x1b" + bytes(range(0x20, 0x7F)))
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
    rb"|\| \**(?:Throughput|Latency|GPU Compute Time)\** \| (?:min = )?[\d.,e+]+ (?:qps|ms)"
)
_FORWARD = re.compile(rb"\x1b\[\d{0,4}C")
"""How terminals are told to leave out a blank."""
_HTML = re.compile(
    r"\s*(?:<!--.{0,4000}?-->\s*)?(?:<\?xml[^>]*>\s*<[a-z!]"
    r"|<(?:!doctype html|html|head|body|pre|div|span|table|p|details|article|section|testsuites?"
    r"|main|h[1-6]|ul|ol|rss|[a-z]{1,20}:[a-z-]{1,40})\b)",
    re.IGNORECASE | re.DOTALL,
)
_LIST = re.compile(r"\[\s*(?:[\[{\"\]]|-?\d+\.?\d*\s*[,\]])")
"""How a JSON list begins and the prefix of a log line does not."""


def holds_log(data: bytes | bytearray | memoryview) -> bool:
    """Say whether bytes hold a line that only trtexec prints, in any encoding and any wrapping."""
    found = bytes(data)
    if b"\0" in found:
        found = found.replace(b"\0", b"")  # what is left of UTF-16 is ASCII
    for blank in (b"\xc2\xa0", b"&nbsp;", b"&#160;"):
        if blank in found:  # must not break: a web page's
            found = found.replace(blank, b" ")
    if b"\xa0" in found:
        found = found.replace(b"\xa0", b" ")  # the same in older encodings
    if b"\x1b[" in found:
        found = _FORWARD.sub(b" ", found)
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
    if all(byte in _ASCII for byte in look[:64]):
        return _encoding_by_reading(head[: len(head) & ~1])
    even, odd = look[::2].count(0), look[1::2].count(0)
    half = max(1, len(look) // 2)
    if odd > 0.7 * half and even < 0.1 * half:
        return "utf-16-le"
    if even > 0.7 * half and odd < 0.1 * half:
        return "utf-16-be"
    return _encoding_by_reading(head[: len(head) & ~1])


def _encoding_by_reading(head: bytes) -> str | None:
    """Tell an encoding by what the text reads like: few letters of it need be ASCII's."""
    rest = head.replace(b"\0", b"")
    if sum(byte in _ASCII for byte in rest[:4096]) > 0.97 * len(rest[:4096]):
        return "utf-8"  # with zeros in it: PowerShell's >> behind another's lines, or a hole
    for encoding in ("utf-16-le", "utf-16-be"):
        with contextlib.suppress(UnicodeDecodeError):
            text = head[:4096].decode(encoding)
            readable = sum(each.isprintable() or each in "\t\r\n" for each in text)
            if readable > 0.99 * len(text) and {" ", "\n"} & set(text):
                return encoding
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
    packed = unpacked(source)
    if packed is not None:
        return read_text(packed)._replace(as_in_file=False)  # type: ignore[arg-type]
    stream: BinaryIO = source
    head = stream.read(HEAD)
    encoding = encoding_of(head) or "utf-8"
    if is_document(head):
        whole = head + stream.read(LARGEST_DOCUMENT)
        text = whole.decode(encoding, "replace").lstrip("\ufeff")
        found = _from_document(whole, text)
        if found is not None or not stream.seekable():
            return TextLines(_split(text if found is None else found), found is None)
        stream.seek(len(head))  # only began like one
    text = head.decode(encoding, "replace").lstrip("\ufeff")
    redraw = is_drawn(text)
    begin = list(_split(drawn(text) if redraw else text))
    width = width_of(begin)
    if width is not None:
        return TextLines(unbroken(_decoded(head, stream, encoding, redraw), width), False)
    naming = naming_of(begin)
    if naming is not None and stream.seekable():

        def again() -> Iterator[str]:
            stream.seek(0)
            return _decoded(stream.read(_CHUNK), stream, encoding, redraw)

        lanes = lanes_in(again(), naming)
        lines = again()
        if len(lanes) > 1:
            return TextLines(sorted_apart(again, naming, lanes, break_with=HARD_BREAK), False)
        return TextLines(lines, not redraw)
    return TextLines(_decoded(head, stream, encoding, redraw), not redraw)


def _from_document(whole: bytes, text: str) -> str | None:
    if is_mail(whole[:HEAD]):
        texts = (text_from_page(t) if page else t for t, page in texts_of_mail(whole))
        return f"\n{HARD_BREAK}\n".join(texts)
    if _HTML.match(text):
        return text_from_page(text)
    if is_rtf(text):
        return text_from_rtf(text)
    found = _from_json(text)
    return drawn(found) if found else found


def text_from_page(text: str) -> str:
    """Read a page as people see it; where that shows no log, what its scripts and marks hold."""
    seen, kept = page_texts(text)
    if holds_log(seen.encode("utf-8", "replace")):
        return seen
    hidden = [each for each in kept if holds_log(each.encode("utf-8", "replace"))]
    return f"\n{HARD_BREAK}\n".join([seen, *hidden])


def is_document(head: bytes) -> bool:
    """Say whether a text is wrapped as a whole, so that its lines are not those of the file."""
    begin = head[:HEAD].decode(encoding_of(head) or "utf-8", "replace").lstrip("\ufeff \t\r\n\0")
    if begin[:1] == "{" and _is_line_of_json(begin):
        return False  # one object a line
    return bool(
        begin[:1] in ("{", '"') or _LIST.match(begin) or _HTML.match(begin) or is_mail(head[:HEAD])
    )


def _is_line_of_json(begin: str) -> bool:
    first, _, rest = begin.partition("\n")
    try:
        return rest.lstrip()[:1] == "{" and isinstance(msgspec.json.decode(first), dict)
    except (msgspec.DecodeError, RecursionError):
        return False


def _decoded(head: bytes, stream: BinaryIO, encoding: str, redraw: bool) -> Iterator[str]:
    """Decode piece by piece; memory is bounded by a chunk and the longest line."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    chunk, rest = head, ""
    while chunk:
        text = rest + decoder.decode(chunk)
        if "\0" in text:  # holes of a disk that was cut off, or two encodings in one file
            text = text.replace("\0", "")
        if redraw:
            text = drawn(text)
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
    if text.count("[") + text.count("{") > MOST_BRACKETS or text.count(",") > MOST_COMMAS:
        return None
    if _RECORDING.match(text):
        return "".join(_recorded(text))
    try:
        value = msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None
    if isinstance(value, dict) and value.get("version") == 1 and "stdout" in value:
        pieces = value["stdout"] if isinstance(value["stdout"], list) else []
        return "".join(each[-1] for each in pieces if is_row(each))  # asciinema's first
    cells = _cells(value)
    blocks = _cell_texts(cells) if cells is not None else texts_in(value)
    return f"\n{HARD_BREAK}\n".join(blocks)


_RECORDING = re.compile(
    r'\s*\{[^\n]{0,4000}"version": ?[23]\b[^\n]{0,4000}\}\s*\n(?:#[^\n]{0,4000}\n\s*)*\['
)
"""How what asciinema records begins: each piece that a terminal was sent, wherever it was cut."""


def _recorded(text: str) -> Iterator[str]:
    for line in text.splitlines()[1:]:
        try:
            _, kind, said = msgspec.json.decode(line, type=tuple[float, str, str])
        except (msgspec.MsgspecError, RecursionError):
            continue
        if kind == "o":
            yield said


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
        return text_from_page(_joined(data.get("text/html", ""))) + "\n"
    return _joined(output.get("text", output.get("traceback", "")))


def _joined(value: object) -> str:
    if isinstance(value, list):
        return "".join(each for each in value if isinstance(each, str))
    return value if isinstance(value, str) else ""


def texts_in(value: object) -> Iterator[str]:
    """Find every text in a document that holds something of trtexec's."""
    if isinstance(value, str):
        if holds_log(value.encode("utf-8", "replace")):
            inner = _from_json(value) if value.lstrip()[:1] in ("{", "[") else None
            yield inner or value
    elif isinstance(value, list):
        lines = lines_of_records(value) or [""]
        text = ("" if lines[0].endswith("\n") else "\n").join(lines)
        if holds_log(text.encode("utf-8", "replace")):
            yield from texts_in(text)
        else:
            for each in value:
                yield from texts_in(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            again = isinstance(key, str) and key.endswith("_lines") and key[:-6] in value
            yield from () if again else texts_in(each)  # Ansible keeps stdout and stdout_lines
