"""The lines of a log, whatever holds them: encodings, packed files, notebooks, JSON, prefixes.

One question is answered here for every caller, :func:`holds_log`: whether bytes hold anything
trtexec printed. What sorts files and what reads logs both ask it, so they cannot disagree.
"""

from __future__ import annotations

import codecs
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, NamedTuple

import msgspec

from trtbench.trtexec.version import version_from_digits

MOST_UNPACKED = 512 << 20
"""Bytes that are unpacked of one file; a small file may expand to far more."""
LONGEST_LINE = 1 << 22
LARGEST_DOCUMENT = 128 << 20
"""Bytes of a notebook or a JSON document, which are read as a whole."""
MOST_BRACKETS, MOST_COMMAS = 2_000_000, 20_000_000
"""In JSON: what is packed small may be lists of nothing, each of which takes memory."""
MOST_LANES, MOST_NAMES, FEWEST_LINES = 64, 10_000, 3
"""Programs whose interleaved lines are sorted apart, and the lines that each must have."""
HEAD = 64 << 10
LOOK = 200
"""Characters of foreign prefix (container names, time stamps of a build server) to look past."""
HARD_BREAK = "\f\f"
"""Stands between texts that cannot be of one run, such as two cells of a notebook."""

_CHUNK, _OVERLAP = 1 << 20, 512
_MAGIC = {b"\x1f\x8b\x08": "gzip", b"BZh": "bz2", b"\xfd7zXZ\x00": "lzma"}
_ASCII = frozenset(b"\t\n\r\x1b" + bytes(range(0x20, 0x7F)))

Source = BinaryIO | bytes | bytearray | memoryview | str


def unpacked(stream: BinaryIO, *, most: int | None = None) -> Unpacked | None:
    """Open what a gzip, bz2 or xz stream holds; ``None`` for any other stream."""
    if not stream.seekable():
        return None
    begin = stream.tell()
    head = stream.read(6)
    stream.seek(begin)
    name = next((each for magic, each in _MAGIC.items() if head.startswith(magic)), None)
    return None if name is None else Unpacked(stream, name, most)


class Unpacked(io.RawIOBase):
    """The content of a packed stream, up to where it is damaged or too long."""

    def __init__(self, packed: BinaryIO, kind: str, most: int | None) -> None:
        self._packed, self._kind, self._most = packed, kind, most
        self._begin = packed.tell()
        self._open()

    def _open(self) -> None:
        import bz2
        import gzip
        import lzma

        self._packed.seek(self._begin)
        opening = {"gzip": gzip.open, "bz2": bz2.open, "lzma": lzma.open}[self._kind]
        self._inner: BinaryIO | None = opening(self._packed, "rb")  # type: ignore[operator]
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        import lzma

        left = (self._most or MOST_UNPACKED) - self._at
        wanted, pieces = left if size < 0 else min(size, left), []
        while wanted > 0 and self._inner is not None:
            try:
                piece = self._inner.read1(wanted)  # type: ignore[attr-defined]
            except (OSError, EOFError, ValueError, MemoryError, zlib.error, lzma.LZMAError):
                self._inner = None  # what came before is a log all the same
                break
            if not piece:
                break
            pieces.append(piece)
            wanted -= len(piece)
        data = b"".join(pieces)
        self._at += len(data)
        return data

    @property
    def is_damaged(self) -> bool:
        """Whether reading came to a place from which on nothing can be unpacked."""
        return self._inner is None

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("only from the beginning")
        if offset < self._at or self._inner is None:
            self._open()
        while self._at < offset and self.read(min(1 << 20, offset - self._at)):
            pass
        return self._at

    def tell(self) -> int:
        return self._at

    def seekable(self) -> bool:
        return True


_EVIDENCE = re.compile(
    rb"&&&& (?:RUNNING|PASSED|FAILED|WAIVED) "
    rb"|=== Performance summary ==="
    rb"|=== (?:Model|Build|Inference|Reporting|System) Options ==="
    rb"|\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] (?:\[TRT\] )?\[[VIWEF]\]"
    rb"|Average o(?:n|ver) \d+ runs? (?:is|-) "
    rb"|Throughput: [\d.,e+]+ qps"
    rb"|(?:Latency|Time): min ?= ?[\d.,e+-]+ ms"
    rb"|\bmin: [\d.e+-]+ ms \(end to end"
    rb"|\| \**(?:Throughput|Latency|GPU Compute Time)\** \| (?:min = )?[\d.,e+]+ (?:qps|ms)"
)


def holds_log(data: bytes | bytearray | memoryview) -> bool:
    """Whether bytes hold a line that only trtexec prints, in any encoding."""
    found = bytes(data)
    if b"\0" in found:
        found = found.replace(b"\0", b"")  # what is left of UTF-16 is ASCII
    for blank in (b"\xc2\xa0", b"\xa0"):  # no-break spaces of web pages
        if blank in found:
            found = found.replace(blank, b" ")
    return _EVIDENCE.search(found) is not None


def stream_holds_log(stream: BinaryIO) -> bool:
    """Whether a stream holds a log, read to its end piece by piece."""
    rest = b""
    while chunk := stream.read(_CHUNK):
        if holds_log(rest + chunk):
            return True
        rest = chunk[-_OVERLAP:]
    return False


def encoding_of(head: bytes) -> str | None:
    """The encoding of a text by its first bytes; ``None`` when it is no text."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):  # what PowerShell's > writes
        return "utf-16"
    if head[:3] == b"\xef\xbb\xbf":
        return "utf-8-sig"
    look = head[: min(len(head), 2048) & ~1]
    if b"\0" not in look.rstrip(b"\0"):
        return "utf-8"
    even, odd = look[::2].count(0), look[1::2].count(0)
    half = max(1, len(look) // 2)
    is_ascii = all(byte in _ASCII for byte in look[:64])
    if not is_ascii and odd > 0.7 * half and even < 0.1 * half:
        return "utf-16-le"
    if not is_ascii and even > 0.7 * half and odd < 0.1 * half:
        return "utf-16-be"
    rest = head.replace(b"\0", b"")[:4096]
    # With zeros in it: PowerShell's >> behind another's lines, or a hole of a disk.
    return "utf-8" if sum(byte in _ASCII for byte in rest) > 0.97 * len(rest) else None


class TextLines(NamedTuple):
    """The lines of a text, and whether they are those of its file, one by one."""

    lines: Iterator[str]
    as_in_file: bool


_LIST = re.compile(r"\[\s*(?:[\[{\"\]]|-?\d+\.?\d*\s*[,\]])")
"""How a JSON list begins and the prefix of a log line does not."""
_SPOKEN = re.compile(
    r"(?:\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] |&&&& [A-Z]{6,7} |=== [A-Z][\w ]{3,40} ==="
    r"|Average o(?:n|ver) \d|Throughput: \d|(?:Latency|Time): min = )"
)
_BEGUN = re.compile(
    r"&&&& RUNNING |=== Performance summary ===|Average over \d+ runs? is |[Tt]hroughput: \d"
)
_PASSING = re.compile(
    r"\d{2,4}[-/]\d\d[-/]\d{2,4}[T ]|\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?<![\w.])\d+\.\d+(?![\w.])"
    r"|\d+ ?[mun]?s\b|\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR|NOTICE|TRACE)\b|\bstd(?:out|err)\b"
    r"|\b[IWEF](?=\d{4})|\b[OE]:|\b\d\d[OE][+ ]"
)
"""What changes in the prefix of one program: times, levels, streams."""
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def read_text(source: Source) -> TextLines:
    """Open a text, whatever holds it; interleaved lines of several programs are sorted apart."""
    if isinstance(source, str):
        source = source.encode("utf-8", "surrogatepass")
    if isinstance(source, (bytes, bytearray, memoryview)):
        source = io.BytesIO(source)
    stream: BinaryIO = source if source.seekable() else io.BytesIO(source.read(LARGEST_DOCUMENT))
    packed = unpacked(stream)
    if packed is not None:
        return read_text(packed)._replace(as_in_file=False)  # type: ignore[arg-type]
    start = stream.tell()
    head = stream.read(HEAD)
    encoding = encoding_of(head) or "utf-8"
    if _is_document(head.decode(encoding, "replace")):
        whole = head + stream.read(LARGEST_DOCUMENT)
        found = _text_in_json(whole.decode(encoding, "replace").lstrip("\ufeff"))
        if found is not None:
            return TextLines(_split(found), False)

    def again() -> Iterator[str]:
        stream.seek(start)
        return _decoded_lines(stream, encoding)

    lanes = _lanes(again)
    if lanes is None:
        return TextLines(again(), True)
    return TextLines(_sorted_apart(again, *lanes), False)


def _is_document(head: str) -> bool:
    begin = head.lstrip("\ufeff \t\r\n\0")
    if begin[:1] != "{":
        return begin[:1] == '"' or _LIST.match(begin) is not None
    first, _, rest = begin.partition("\n")
    return rest.lstrip()[:1] != "{" or not isinstance(_decoded(first), dict)  # one object a line


def _decoded_lines(stream: BinaryIO, encoding: str) -> Iterator[str]:
    """Decode piece by piece; memory is bounded by a chunk and the longest line."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    rest, first = "", True
    while chunk := stream.read(_CHUNK):
        text = rest + decoder.decode(chunk)
        if first:
            text, first = text.lstrip("\ufeff"), False
        if "\0" in text:  # holes of a disk that was cut off, or two encodings in one file
            text = text.replace("\0", "")
        cut = text.rfind("\n") + 1
        yield from _split(text[:cut])
        rest = text[cut:][:LONGEST_LINE]
    yield from _split(rest + decoder.decode(b"", True))


def _split(text: str) -> Iterator[str]:
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    yield from lines


def _lanes(again: Callable[[], Iterator[str]]) -> tuple[list[str], re.Pattern[str]] | None:
    """Find the prefixes of several programs that wrote at once; ``None`` where only one did.

    A prefix that comes back after another one is a name: no number or time does.
    """
    back: set[str] = set()
    begun: dict[str, bool] = {}
    before = None
    for line in again():
        begin = _COLOUR.sub("", line[:600]) if "\x1b" in line else line[:600]
        spoken = _SPOKEN.search(begin)
        if spoken is None:
            continue
        if not spoken.start() or len(begun) > MOST_NAMES:
            return None
        name = _PASSING.sub("\0", begin[: spoken.start()])
        if name != before and name in begun:
            back.add(name)
        begun[name] = begun.get(name, False) or _BEGUN.search(begin) is not None
        before = name
    if not 1 < len(back) <= MOST_LANES:
        return None
    passing = f"(?:{_PASSING.pattern})"
    forms = [passing.join(map(re.escape, each.split("\0"))) for each in back]
    names = re.compile("|".join(sorted(forms, key=len, reverse=True)))
    matches = (names.match(_COLOUR.sub("", line) if "\x1b" in line else line) for line in again())
    spoke = Counter(_PASSING.sub("\0", match[0]) for match in matches if match)
    found = [name for name in begun if begun[name] and spoke[name] >= FEWEST_LINES]
    return (found, names) if len(found) > 1 else None


def _sorted_apart(
    again: Callable[[], Iterator[str]], lanes: list[str], names: re.Pattern[str]
) -> Iterator[str]:
    """Read one log after the other, each in a pass of its own; memory does not grow with them.

    A line without a name belongs to the program before; names that ran nothing to the first.
    """
    for place, lane in enumerate(lanes):
        if place:
            yield HARD_BREAK
        speaking = lanes[0]
        for line in again():
            plain = _COLOUR.sub("", line) if "\x1b" in line else line
            match = names.match(plain)
            if match is not None:
                name = _PASSING.sub("\0", match[0])
                speaking = name if name in lanes else lanes[0]
            if speaking == lane:
                yield plain[match.end() :] if match is not None else line


_SAID = (
    "log", "message", "MESSAGE", "Message", "msg", "line", "text", "event", "textPayload",
    "@message", "short_message", "_raw", "body",
)  # fmt: skip
"""Where loggers that write one JSON object a line keep the message."""


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None


def _text_in_json(text: str) -> str | None:
    """The text inside a JSON document; ``None`` when it is none, such as JSON lines."""
    if text.count("[") + text.count("{") > MOST_BRACKETS or text.count(",") > MOST_COMMAS:
        return None
    value = _decoded(text)
    if value is None:
        return None
    cells = value.get("cells") if isinstance(value, dict) else None
    blocks = map(_cell_text, cells) if isinstance(cells, list) else _texts_in(value)
    return f"\n{HARD_BREAK}\n".join(blocks)


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _cell_text(cell: object) -> str:
    """What was typed in a cell, since that may be the command, then its outputs."""
    if not isinstance(cell, dict):
        return ""
    shown = [_joined(cell.get("source", cell.get("input", ""))), "\n"]
    for output in _list(cell.get("outputs")):
        data = output.get("data") if isinstance(output, dict) else None
        if isinstance(data, dict):  # one result in several forms: take one
            shown += [_joined(data.get("text/plain", "")), "\n"]
        elif isinstance(output, dict):
            shown.append(_joined(output.get("text", output.get("traceback", ""))))
    return "".join(shown)


def _joined(value: object) -> str:
    parts = value if isinstance(value, list) else [value]
    return "".join(each for each in parts if isinstance(each, str))


def _texts_in(value: object) -> Iterator[str]:
    """Every text in a document that holds something of trtexec's."""
    if isinstance(value, str):
        if holds_log(value.encode("utf-8", "replace")):
            inner = _text_in_json(value) if value.lstrip()[:1] in ("{", "[") else None
            yield inner or value
    elif isinstance(value, list):
        said = [each if isinstance(each, str) else _message_in(each) for each in value]
        lines = [each for each in said if each is not None]
        text = ("" if lines and lines[0].endswith("\n") else "\n").join(lines)
        if len(lines) == len(value) and holds_log(text.encode("utf-8", "replace")):
            yield from _texts_in(text)
        else:
            for each in value:
                yield from _texts_in(each)
    elif isinstance(value, dict):
        for key, each in value.items():
            again = isinstance(key, str) and key.endswith("_lines") and key[:-6] in value
            yield from () if again else _texts_in(each)  # Ansible keeps stdout and stdout_lines


def _message_in(found: object, depth: int = 3) -> str | None:
    """The message in the record of a logger, which may lie a few objects down."""
    if not isinstance(found, dict) or not depth:
        return None
    inner = (_message_in(each, depth - 1) for each in found.values())
    texts = (found[key] for key in _SAID if isinstance(found.get(key), str))
    return next((each for each in (*texts, *inner) if each is not None), None)


class LogLine(NamedTuple):
    """One line: its level (empty without a prefix), whether TensorRT printed it, and its text."""

    level: str
    library: bool
    text: str
    stamped: bool
    stamp: str = ""


class Banner(NamedTuple):
    """A ``&&&&`` line."""

    kind: str
    tool: str
    version: str | None
    build: int | None
    command: str


_STAMPED = re.compile(
    r"\[(\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d)\][ \t](\[TRT\][ \t])?\[([IWEVF])\][ \t]?"
)
_BARE = re.compile(r"(?:\[INFO\] ?)?\[([IWEVF])\](?: |$)")
_ANCHOR = re.compile(
    r"(?:\[[IWEVF]\] )?(?:&&&& (?:RUNNING|PASSED|FAILED|WAIVED) |=== [A-Z][\w() /-]{2,60} ===\s*$"
    r"|Average o(?:n|ver) \d|(?:Throughput|Total Host Walltime|Total GPU Compute Time): \d"
    r"|(?:(?:(?:End-to-End )?Host |[HD]2[HD] )?Latency|Enqueue Time|GPU Compute Time): min ?="
    r"|(?:[Hh]ost [Ll]atency|GPU [Cc]ompute)\s*$"
    r"|(?:deploy|engine|loadEngine|onnx|uff): \S+\.\w)"
)
"""Lines of trtexec that show where a foreign prefix ends."""
_MARKS_BEFORE = re.compile(r"(?:[\s>|*#+~$!/:%;`'\"•│┃-]|\[INFO\] )*")
"""What quoting, lists and indentation put before a line."""
_VARYING = re.compile(
    r"(\b[0-9a-f]{12,64}\b|\d+|\s+|\b(?:DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL|FATAL|NOTICE|TRACE)\b"
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"
    r"|\b[IWEF](?=\d{4,8} )|(?<=std(?:out|err) )[FP]\b)"
)
_ROW = re.compile(
    r"\s*\|\s*\**(Throughput|(?:End-to-End Host |H2D |D2H )?Latency|Enqueue Time"
    r"|(?:Total )?GPU Compute Time|Total Host Walltime)\**\s*\|([^|]{1,4000})\|\s*$"
)
_ANSI = re.compile(
    r"\x1b[\]_P^][^\x07\x1b]{0,2000}(?:\x07|\x1b\\)"  # links, titles and marks of terminals
    r"|\x1b\[[0-9;?]{0,32}[ -/]{0,4}[@-~]|\x1b[@-Z\\-_]"
)
_ANSI_REST = re.compile(r"\[[0-9;]{0,12}m")
"""Colours whose escape character got lost when the text was copied."""
_BOLD = re.compile(r"\*\*([A-Za-z=\[][^*]{1,400})\*\*")
_MARKS = str.maketrans(
    {
        **dict.fromkeys("\N{NO-BREAK SPACE}\u202f\u205f\u3000\ufffd", " "),
        **dict.fromkeys(map(chr, range(0x2000, 0x200B)), " "),
        **dict.fromkeys("\ufeff\u200b\u200c\u200d\u2060\N{SOFT HYPHEN}", None),
        "\N{FULLWIDTH COLON}": ": ",
        "\N{FULLWIDTH COMMA}": ", ",
        "\N{FULLWIDTH EQUALS SIGN}": "=",
        "\N{FULLWIDTH LEFT PARENTHESIS}": "(",
        "\N{FULLWIDTH RIGHT PARENTHESIS}": ")",
        "\N{FULLWIDTH PERCENT SIGN}": "%",
    }
)
_BANNER = re.compile(
    r"&&&& (RUNNING|PASSED|FAILED|WAIVED) (\S{1,80})"
    r"(?: \[TensorRT[^\]\d]{0,20}v(\d{4,6})\])?(?: \[b(\d{1,9})\])?(?: # ?(.*)| ?\[[^\]]{0,30})?$"
)
_COMMAND = re.compile(r"([^\s`!(]*?trtexec(?:\.exe)?[\"']?)\s+(--?[A-Za-z].*|[\\^`]\s*)$")
_GOES_ON = re.compile(r"(?:^|\s)[\\^`]\s*$")
_SHELL = re.compile(r"\s(?:\d?>{1,2}&?\s?\S|\||&&|;|2>&1|&\s*$)|`|\s#\s")


def lines_from_line(line: str) -> Iterable[str]:
    """The lines that one line of a text stands for, mostly itself: JSON records hold others."""
    if line[20:23] == "] [":
        return (line,)  # begins with trtexec's own stamp
    text = line.strip()
    if text[:1] == "{" and text[-1:] == "}" and '"' in text:
        found = _decoded(text)
        said = _message_in(found)
        said = f"\n{HARD_BREAK}\n".join(_texts_in(found)) if said is None else said
        return said.rstrip("\r\n").splitlines() if said else (line,)
    row = _ROW.match(line) if text[:1] == "|" else None
    return (f"{row[1]}: {row[2].strip()}",) if row else (line,)


def clean(line: str) -> str:
    """Take colours, foreign blanks and closing marks off a line."""
    line = line[:LONGEST_LINE]
    if not line.isascii():
        line = line.translate(_MARKS)
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "**" in line:
        line = _BOLD.sub(r"\1", line)
    line = line.rstrip(" \t│┃`")
    if line[-1:] == "m" and "[" in line[-13:]:
        line = _ANSI_REST.sub("", line)
    return line


class Prefixes:
    """Takes off what other tools put before a line, once a stamp of trtexec's showed what it is."""

    def __init__(self) -> None:
        self._pattern: re.Pattern[str] | None = None
        self._known: dict[str, re.Pattern[str]] = {}

    def line(self, text: str) -> LogLine:
        """Read one line."""
        match = _STAMPED.search(text, 0, LOOK)
        if match is not None:
            begin, level, stamp = match.start(), match[3], match[1]
            if begin:
                self._learn(text, begin)
            library, rest = match[2] is not None, text[match.end() :]
            if begin and rest[-1:] in ("'", '"') and rest.count(rest[-1]) % 2:
                rest = rest[:-1]  # the line was quoted with its prefix
        else:
            rest = self.without(text)
            bare = _BARE.match(rest)
            library, level, stamp = False, bare[1] if bare else "", ""
            rest = rest[bare.end() :] if bare else rest
        if level and rest.startswith("[TRT]"):
            library, rest = True, rest[6:]
        return LogLine(level, library, rest, match is not None, stamp)

    def without(self, text: str) -> str:
        """Take the prefix off a line that has no stamp of trtexec's."""
        anchor = _ANCHOR.search(text, 0, LOOK)
        begin = anchor.start() if anchor is not None else 0
        if begin and _is_marks(text, begin):
            self._learn(text, begin)
            return text[begin:]
        match = self._pattern.match(text) if self._pattern is not None else None
        return text[match.end() :] if match else text

    def _learn(self, text: str, end: int) -> None:
        match = self._pattern.match(text) if self._pattern is not None else None
        if match is not None and match.end() == end:
            return
        mask = _mask(text[:end])
        if mask not in self._known and len(self._known) < 1000:
            self._known[mask] = re.compile(mask)
        self._pattern = self._known.get(mask, self._pattern)


def _is_marks(text: str, end: int) -> bool:
    row = text.lstrip()[:1] == "|" and text.rstrip()[-1:] == "|"
    return not row and _MARKS_BEFORE.fullmatch(text, 0, end) is not None


def _mask(prefix: str) -> str:
    """A pattern for prefixes like this one: numbers, blanks and words of time may differ."""
    body = prefix.rstrip()
    pattern = ""
    for place, part in enumerate(_VARYING.split(body)):
        if place % 2 == 0:
            pattern += re.escape(part)
        elif part.isspace():
            pattern += r"\s+"
        elif len(part) >= 12:
            pattern += "[0-9a-f]+"
        else:
            pattern += r"\d+" if part.isdecimal() else "[A-Za-z]+"
    return pattern + rf"\s{{0,{len(prefix) - len(body)}}}"


def banner_from_text(text: str) -> Banner | None:
    """Read a ``&&&& RUNNING``, ``PASSED``, ``FAILED`` or ``WAIVED`` line, wherever it begins."""
    begin = text.find("&&&& ", 0, LOOK)
    match = _BANNER.match(text, begin) if begin >= 0 else None
    if match is None:
        return None
    kind, tool, digits, build, command = match.groups()
    return Banner(
        kind=kind,
        tool=tool.rsplit(".", 1)[-1],
        version=version_from_digits(digits or ""),
        build=int(build) if build else None,
        command=(command or "").strip(),
    )


class CommandLines:
    """Finds ``trtexec --...`` typed above what it printed, over several lines if need be."""

    def __init__(self) -> None:
        self.waiting: str | None = None
        """The beginning of a command that goes on in the next line."""

    def take(self, text: str) -> str | None:
        """Take a line without a prefix of trtexec's; give a command once it is complete."""
        if self.waiting is not None:
            text = f"{self.waiting} {text.lstrip('> ').strip()}"
        else:
            match = _COMMAND.search(text[:4000]) if "trtexec" in text else None
            if match is None:
                return None
            text = text[match.start() : 4000].strip()
        self.waiting = None
        if _GOES_ON.search(text) and len(text) < 20_000:
            self.waiting = _GOES_ON.sub("", text).strip()
            return None
        cut = _SHELL.search(text)
        return text[: cut.start()].strip() if cut else text
