"""Reads logs of trtexec, TensorRT 5 to 11: one :class:`LogRun` per run in the text.

The first part yields the lines of a log from any encoding, compressed file, notebook or JSON and
strips foreign prefixes; the second part assigns every line to a run.
"""

import codecs
import contextlib
import datetime
import functools
import io
import re
import tempfile
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, BinaryIO, Literal, NamedTuple

import msgspec

from trtbench.core.safety import mask, may_hold_secret
from trtbench.trtexec import log_values
from trtbench.trtexec.version import number, version_from_digits, version_from_text

MOST_UNPACKED = 512 << 20
"""Maximum size of a decompressed file in bytes; a small file may expand to far more."""
LONGEST_LINE = 1 << 22
LARGEST_DOCUMENT = 128 << 20
MOST_BRACKETS, MOST_COMMAS = 2_000_000, 20_000_000
"""Limits for a JSON document: a small file may hold many empty lists, which take memory."""
MOST_WAITING = 10_000
"""Lines after the numbers of a run that are kept in memory until it is known whose they are."""
MOST_PROGRAMS, MOST_PREFIXES, FEWEST_PROGRAM_LINES = 64, 10_000, 3
"""Limits for separating the interleaved output of several programs by their prefixes."""
HEAD = 64 << 10
LONGEST_PREFIX = 200  # longest foreign prefix in characters, such as container names or time stamps
HARD_BREAK = "\f\f"
"""Line between texts that cannot belong to one run, such as two cells of a notebook."""

_CHUNK = 1 << 20
_MAGIC = (b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\x00")
_ASCII = frozenset(b"\t\n\r\x1b" + bytes(range(0x20, 0x7F)))


def is_packed(stream: IO[bytes]) -> bool:
    """Whether a stream is compressed with gzip, bz2 or xz; its position does not change."""
    begin = stream.tell()
    head = stream.read(6)
    stream.seek(begin)
    return head.startswith(_MAGIC)


@contextlib.contextmanager
def unpacked(stream: BinaryIO) -> Iterator[IO[bytes]]:
    """Decompress a stream into a temporary file, up to damage or the size limit."""
    import bz2
    import gzip
    import lzma

    damage = (OSError, EOFError, ValueError, MemoryError, zlib.error, lzma.LZMAError)
    magic = stream.read(2)
    stream.seek(-2, io.SEEK_CUR)
    opening = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open, b"\xfd7": lzma.open}[magic]
    left = MOST_UNPACKED
    with tempfile.TemporaryFile() as target:
        with contextlib.suppress(*damage):  # keep what comes before the damage
            inner = opening(stream, "rb")  # type: ignore[operator]
            while left > 0 and (piece := inner.read1(min(_CHUNK, left))):
                target.write(piece)
                left -= len(piece)
        target.seek(0)
        yield target


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
    """Whether bytes contain a line that only trtexec prints, in any encoding."""
    found = bytes(data).replace(b"\0", b"")  # what is left of UTF-16 is ASCII
    for blank in (b"\xc2\xa0", b"\xa0"):  # no-break spaces of web pages
        found = found.replace(blank, b" ")
    return _EVIDENCE.search(found) is not None


def encoding_of(head: bytes) -> str | None:
    """Return the encoding of a text from its first bytes; ``None`` if it is not text."""
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
    # Text with zero bytes: two encodings in one file, or a hole after a crash.
    return "utf-8" if sum(byte in _ASCII for byte in rest) > 0.97 * len(rest) else None


_LIST = re.compile(r"\[\s*(?:[\[{\"\]]|-?\d+(?:\.\d*)?\s*[,\]])")
"""The start of a JSON list, as opposed to the prefix of a log line."""
_TRTEXEC_LINE = re.compile(
    r"(?:\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] |&&&& [A-Z]{6,7} |=== [A-Z][\w ]{3,40} ==="
    r"|Average o(?:n|ver) \d|Throughput: \d"
    r"|(?:(?:(?:End-to-End )?Host |[HD]2[HD] )?Latency|Enqueue Time|GPU Compute Time): min = )"
)
_RUN_START = re.compile(
    r"&&&& RUNNING |=== Performance summary ===|Average over \d+ runs? is |[Tt]hroughput: \d"
)
_CHANGING = re.compile(
    r"\d{2,4}[-/]\d\d[-/]\d{2,4}[T ]|\d\d:\d\d:\d\d[\d.,]*(?:Z|[+-]\d\d:?\d\d)?"
    r"|(?<![\w.])\d+\.\d+(?![\w.])"
    r"|\d+ ?[mun]?s\b|\b(?:DEBUG|INFO|WARN(?:ING)?|ERROR|NOTICE|TRACE)\b|\bstd(?:out|err)\b"
    r"|\b[IWEF](?=\d{4})|\b[OE]:|\b\d\d[OE][+ ]"
)
"""Parts that vary in the prefix of one program: times, levels, streams."""
_COLOUR, _LEVEL = re.compile(r"\x1b\[[0-9;]*m"), re.compile(r"\[[VIWEF]\](?: |$)")


def read_text(source: BinaryIO | bytes | str) -> tuple[Iterator[str], bool, bool]:
    """Return the lines of a log, whether their numbers are those of the file, and if any is cut."""
    if isinstance(source, str):
        source = source.encode("utf-8", "surrogatepass")
    stream = io.BytesIO(source) if isinstance(source, bytes) else source
    if is_packed(stream):
        return _decompressed_lines(stream), False, True
    start = stream.tell()
    head = stream.read(HEAD)
    encoding = encoding_of(head) or "utf-8"
    begin = head.decode(encoding, "replace").lstrip("\ufeff \t\r\n\0")
    first, _, rest = begin.partition("\n")
    is_document = begin[:1] == '"' or _LIST.match(begin) is not None
    if begin[:1] == "{":  # a document unless it has one object per line
        is_document = rest.lstrip()[:1] != "{" or not isinstance(_json_value(first), dict)
    if is_document:
        whole = head + stream.read(LARGEST_DOCUMENT)
        found = _text_in_json(whole.decode(encoding, "replace").lstrip("\ufeff"))
        if found is not None:
            return iter(_split_lines(found)), False, True

    def reread() -> Iterator[str]:
        stream.seek(start)
        return _decoded_lines(stream, encoding)

    programs = _find_programs(reread)
    if programs is None:
        return reread(), True, False
    return _lines_by_program(reread, *programs), len(programs[0]) == 1, True


def _decompressed_lines(stream: BinaryIO) -> Iterator[str]:
    with unpacked(stream) as plain:
        if not is_packed(plain):
            yield from read_text(plain)[0]  # type: ignore[arg-type]


def _decoded_lines(stream: BinaryIO, encoding: str) -> Iterator[str]:
    """Yield decoded lines; memory is bounded by a chunk and the longest line."""
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    rest, first = "", True
    while chunk := stream.read(_CHUNK):
        text = rest + decoder.decode(chunk)
        if first:
            text, first = text.lstrip("\ufeff"), False
        text = text.replace("\0", "")  # a hole after a crash, or two encodings in one file
        if "\x1b" in text:
            text = _COLOUR.sub("", text)
        cut = text.rfind("\n") + 1
        yield from _split_lines(text[:cut])
        rest = text[cut:][: LONGEST_LINE + 1]
    yield from _split_lines(rest + decoder.decode(b"", True))


def _split_lines(text: str) -> list[str]:
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return lines if lines[-1] else lines[:-1]


def _find_programs(reread: Callable[[], Iterator[str]]) -> tuple[list[str], re.Pattern[str]] | None:
    """Return programs whose lines are interleaved, and the pattern of their prefixes.

    One name is empty: of lines behind a prefix of words, without time stamps of trtexec.
    """
    repeated, seen, begun, forms = set[str](), set[str](), dict[str, None](), Counter[str]()
    before, bare = None, False
    for line in reread():
        begin = line[:600]
        printed = _TRTEXEC_LINE.search(begin)
        if printed is None:
            continue
        prefix = _LEVEL.sub("", begin[: printed.start()]).strip()
        stamped = printed[0][0] == "["
        if not re.search(r"\w", prefix):  # a program has a name, and not only marks
            if stamped:
                return None
            bare = True
            continue
        if not stamped and prefix[0] != "{" and len(prefix) <= LONGEST_PREFIX:
            forms[_prefix_pattern(prefix)] += 1
        name = _program(prefix)
        if name != before and name in seen:
            repeated.add(name)  # not a time: it occurs again after another prefix
        if _RUN_START.search(begin):
            begun[name] = None
        seen.add(name)
        before = name
        if len(seen) > MOST_PREFIXES:
            return None
    if not bare and 1 < len(repeated) <= MOST_PROGRAMS:
        passing = f"(?:{_CHANGING.pattern})"
        names = _any_of(passing.join(map(re.escape, each.split("\0"))) for each in repeated)
        counts = Counter(_program(x[0].strip()) for x in map(names.match, reread()) if x)
        found = [name for name in begun if counts[name] >= FEWEST_PROGRAM_LINES]
        if len(found) > 1:
            return found, names
    common = [x for x, n in forms.most_common(MOST_PROGRAMS) if n >= FEWEST_PROGRAM_LINES]
    return ([""], _any_of(common)) if common else None


def _any_of(forms: Iterable[str]) -> re.Pattern[str]:
    return re.compile(rf"\s*(?:{'|'.join(sorted(forms, key=len, reverse=True))}) ?")


def _program(prefix: str) -> str:
    """Return a prefix without what changes from line to line, such as times."""
    return _CHANGING.sub("\0", prefix)


def _lines_by_program(
    reread: Callable[[], Iterator[str]], programs: list[str], names: re.Pattern[str]
) -> Iterator[str]:
    """Yield the lines of one program after another; lines without a name follow the last one."""
    for place, program in enumerate(programs):
        if place:
            yield HARD_BREAK
        current = programs[0]
        for line in reread():
            match = names.match(line)
            if match is not None:
                name = _program(match[0].strip())
                current = name if name in programs else programs[0]
            if current == program:
                yield line[match.end() :] if match is not None else line


_MESSAGE_KEYS = (
    "log", "message", "MESSAGE", "Message", "msg", "line", "text", "event", "textPayload",
    "@message", "short_message", "_raw", "body",
)  # fmt: skip


def _json_value(text: str) -> object:
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return None


def _text_in_json(text: str) -> str | None:
    """Return the log text in a JSON document; ``None`` if the text is not one document."""
    if text.count("[") + text.count("{") > MOST_BRACKETS or text.count(",") > MOST_COMMAS:
        return None
    value = _json_value(text)
    if value is None:
        return None
    cells = value.get("cells") if isinstance(value, dict) else None
    blocks = map(_cell_text, cells) if isinstance(cells, list) else _log_texts(value)
    return f"\n{HARD_BREAK}\n".join(blocks)


def _cell_text(cell: object) -> str:
    """Return the source of a notebook cell, which may be the command, and its outputs."""
    if not isinstance(cell, dict):
        return ""
    shown = [_joined(cell.get("source", cell.get("input", ""))), "\n"]
    outputs = cell.get("outputs")
    for output in outputs if isinstance(outputs, list) else ():
        data = output.get("data") if isinstance(output, dict) else None
        if isinstance(data, dict):  # one result in several formats: use the plain text
            shown += [_joined(data.get("text/plain", "")), "\n"]
        elif isinstance(output, dict):
            shown.append(_joined(output.get("text", output.get("traceback", ""))))
    return "".join(shown)


def _joined(value: object) -> str:
    parts = value if isinstance(value, list) else [value]
    return "".join(each for each in parts if isinstance(each, str))


def _log_texts(value: object) -> Iterator[str]:
    """Yield every text in a document that contains output of trtexec."""
    if isinstance(value, str):
        if holds_log(value.encode("utf-8", "replace")):
            inner = _text_in_json(value) if value.lstrip()[:1] in ("{", "[") else None
            yield inner or value
    elif isinstance(value, list):
        messages = [each if isinstance(each, str) else _message_in(each) for each in value]
        lines = [each for each in messages if each is not None]
        text = ("" if lines and lines[0].endswith("\n") else "\n").join(lines)
        if len(lines) == len(value) and holds_log(text.encode("utf-8", "replace")):
            yield from _log_texts(text)
        else:
            for each in value:
                yield from _log_texts(each)
    elif isinstance(value, dict):
        streams = [value.get(name) for name in ("stderr", "stdout")]  # of one process
        if all(isinstance(each, str) for each in streams):
            value = value | {"stderr": "", "stdout": "\n".join(map(str, streams))}
        for key, each in value.items():
            again = isinstance(key, str) and key.endswith("_lines") and key[:-6] in value
            yield from () if again else _log_texts(each)  # Ansible has stdout and stdout_lines


def _message_in(found: object, depth: int = 3) -> str | None:
    """Return the message in a log record, which may be nested a few objects deep."""
    if not isinstance(found, dict) or not depth:
        return None
    inner = (_message_in(each, depth - 1) for each in found.values())
    texts = (found[key] for key in _MESSAGE_KEYS if isinstance(found.get(key), str))
    return next((each for each in (*texts, *inner) if each is not None), None)


class LogLine(NamedTuple):
    """One line: level (empty without a prefix), whether TensorRT printed it, and text."""

    level: str
    library: bool
    text: str
    stamp: str


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
    r"((?:[\s>|*#+~$!/:%;`'\"•│┃-]|\[INFO\] )*)"
    r"(?:\[[IWEVF]\] )?(?:&&&& (?:RUNNING|PASSED|FAILED|WAIVED) |=== [A-Z][\w() /-]{2,60} ===\s*$"
    r"|Average o(?:n|ver) \d|(?:Throughput|Total Host Walltime|Total GPU Compute Time): \d"
    r"|(?:(?:(?:End-to-End )?Host |[HD]2[HD] )?Latency|Enqueue Time|GPU Compute Time): min ?="
    r"|(?:[Hh]ost [Ll]atency|GPU [Cc]ompute)\s*$"
    r"|(?:deploy|engine|loadEngine|onnx|uff): \S+\.\w)"
)
"""A line of trtexec behind marks, such as those of a list or a quotation."""
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
"""Colour codes whose escape character was lost when the text was copied."""
_BOLD = re.compile(r"\*\*([A-Za-z=\[][^*]{1,400})\*\*")
_MARKS = str.maketrans(
    {
        **dict.fromkeys("\N{NO-BREAK SPACE}\u202f\u205f\u3000\ufffd", " "),
        **dict.fromkeys(map(chr, range(0x2000, 0x200B)), " "),
        **dict.fromkeys("\ufeff\u200b\u200c\u200d\u2060\N{SOFT HYPHEN}", None),
        **dict(zip("\uff1a\uff0c\uff1d\uff08\uff09\uff05", (": ", ", ", *"=()%"), strict=True)),
    }
)
"""Unusual spaces, characters without a width, and full-width forms of punctuation."""
_CLOSING = " \t│┃`"
_BANNER = re.compile(
    r"&&&& (RUNNING|PASSED|FAILED|WAIVED) (\S{1,80})"
    r"(?: \[TensorRT[^\]\d]{0,20}v(\d{4,6})\])?(?: \[b(\d{1,9})\])?(?: # ?(.*)| ?\[[^\]]{0,30})?$"
)
_COMMAND = re.compile(r"([^\s`!(]*?trtexec(?:\.exe)?[\"']?)\s+(--?[A-Za-z].*|[\\^`]\s*)$")
_OPTION = re.compile(r"(?<!\S)--[a-z][\w-]*\s+$")  # of another tool, as in --backend trtexec
_CONTINUED = re.compile(r"(?:^|\s)[\\^`]\s*$")
_SHELL = re.compile(r"\s(?:\d?>{1,2}&?\s?\S|\||&&|;|2>&1|&\s*$)|`|\s#\s")


def lines_from_line(line: str) -> Iterable[str]:
    """Return the log lines in a line: those in a JSON record or table row, else the line."""
    text = line.strip()
    if text[:1] == "{" and text[-1:] == "}" and '"' in text:
        found = _json_value(text)
        message = _message_in(found)
        if message is None:
            message = f"\n{HARD_BREAK}\n".join(_log_texts(found))
        return message.rstrip("\r\n").splitlines() if message else (line,)
    row = _ROW.match(line) if text[:1] == "|" else None
    return (f"{row[1]}: {row[2].strip()}",) if row else (line,)


def clean(line: str) -> str:
    """Return a line without colours, unusual spaces and closing marks."""
    line = line[:LONGEST_LINE]
    if not line.isascii():
        line = line.translate(_MARKS)
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if "**" in line:
        line = _BOLD.sub(r"\1", line)
    if line[-1:] in _CLOSING:
        line = line.rstrip(_CLOSING[:-1] if _FENCE.match(line) else _CLOSING)
    if line[-1:] == "m" and "[" in line[-13:]:
        line = _ANSI_REST.sub("", line)
    return line


class Prefixes:
    """Strips prefixes of other tools, learned from lines with a time stamp of trtexec."""

    _pattern = re.compile("")

    def line(self, text: str) -> LogLine:
        """Return a line split into level, time stamp and text."""
        match = _STAMPED.search(text, 0, LONGEST_PREFIX)
        if match is not None:
            begin, end = match.span()
            stamp, of_library, level = match.groups()
            if begin:
                self._learn_prefix(text, begin)
            library, rest = of_library is not None, text[end:]
            if begin and rest[-1:] in ("'", '"') and rest.count(rest[-1]) % 2:
                rest = rest[:-1]  # the quotes enclose the prefix and the line
        else:
            rest = self.without(text)
            bare = _BARE.match(rest)
            library, level, stamp = False, bare[1] if bare else "", ""
            rest = rest[bare.end() :] if bare else rest
        if level and rest.startswith("[TRT]"):
            library, rest = True, rest[6:]
        return LogLine(level, library, rest, stamp)

    def without(self, text: str) -> str:
        """Return a line without its prefix, for lines without a time stamp of trtexec."""
        anchor = _ANCHOR.match(text, 0, LONGEST_PREFIX)
        begin = anchor.end(1) if anchor is not None else 0
        if begin and not (text.lstrip()[:1] == "|" and text.rstrip()[-1:] == "|"):
            self._learn_prefix(text, begin)
            return text[begin:]
        match = self._pattern.match(text)
        return text[match.end() :] if match else text

    def _learn_prefix(self, text: str, end: int) -> None:
        match = self._pattern.match(text)
        if match is None or match.end() != end:
            body = text[:end].rstrip()
            self._pattern = _compiled(rf"{_prefix_pattern(body)}\s{{0,{end - len(body)}}}")


def _prefix_pattern(prefix: str) -> str:
    """Return a pattern for a prefix; numbers, spaces, levels and dates may differ."""
    pattern = ""
    for place, part in enumerate(_VARYING.split(prefix)):
        if place % 2 == 0:
            pattern += re.escape(part)
        elif part.isspace():
            pattern += r"\s+"
        elif len(part) >= 12:
            pattern += "[0-9a-f]+"
        else:
            pattern += r"\d+" if part.isdecimal() else "[A-Za-z]+"
    return pattern


def banner_from_text(text: str) -> Banner | None:
    """Return the ``&&&& RUNNING``, ``PASSED``, ``FAILED`` or ``WAIVED`` banner in a line."""
    begin = text.find("&&&& ", 0, LONGEST_PREFIX)
    match = _BANNER.match(text, begin) if begin >= 0 else None
    if match is None:
        return None
    kind, tool, digits, build, command = match.groups()
    tool, version = tool.rsplit(".", 1)[-1], version_from_digits(digits or "")
    number_of_build = int(build) if build else None
    return Banner(kind, tool, version, number_of_build, (command or "").strip())


class CommandLines:
    """Finds a ``trtexec --...`` command typed above its output, also over several lines."""

    def __init__(self) -> None:
        self.incomplete: str | None = None

    def add(self, text: str) -> str | None:
        """Add a line without a prefix of trtexec; return the command once it is complete."""
        if self.incomplete is not None:
            text = f"{self.incomplete} {text.lstrip('> ').strip()}"
        else:
            match = _COMMAND.search(text[:4000]) if "trtexec" in text else None
            if match is None or _OPTION.search(text, 0, match.start()):
                return None
            text = text[match.start() : 4000].strip()
        self.incomplete = None
        if _CONTINUED.search(text) and len(text) < 20_000:
            self.incomplete = _CONTINUED.sub("", text).strip()
            return None
        cut = _SHELL.search(text)
        return text[: cut.start()].strip() if cut else text


_LONGEST_TITLE = 100
_HEADER = re.compile(r"=== (.{1,80}) ===\s*$")
_HELP = re.compile(r"\s(?:--help|-h|--version)(?!\S)|trtexec(?:\.exe)?\s*$")
"""A command that asks for the help text, or for nothing."""
_PROFILE = re.compile(r"=== Profile \((\d{1,12}) iterations ?\) ===")
_WARMED = re.compile(r"Warmup completed (\d{1,15}) queries over")
_TRACED = re.compile(r"Timing trace has (\d{1,15}) queries over ([\d.]{1,40}) s")
_DECIMAL = re.compile(
    r",(?<=\d,)(?:(?=\d+(?:e[+-]?\d+)? ?(?:(?:ms|s|sec|qps)\b|%\)))"
    r"|(?=\d+\)\.?\s*$)(?<=time is \d,|ime is \d\d,|me is \d\d\d,|e is \d\d\d\d,))"
)
"""A decimal comma: ``0,75 ms``."""
_FENCE = re.compile(r"\s{0,12}(?:```|~~~)")
_PROGRAMS = "sudo|cd|export|docker|python3?|pip3?|c?make|cat|ls|git|wget|echo|source"
_PROGRAM = re.compile(
    rf"\s*(?:\S{{0,80}}[$#>] )?(?:(?:{_PROGRAMS}|perf_analyzer)\s|\.?/\S+ --?\w|\S+\.(?:py|sh)\b)"
)
"""How a line begins that runs a program other than trtexec."""
_NO_NAME = re.compile(
    r"[=:]\s*[\d.]+\s*(?:fps|FPS|ms|qps|%|s)?\b|(?<!\d)[.!?;] +\w"
    r"|[.!?,;\u2026\u3002\uff01\uff1f\u3001]\W*$"
    r"|[|={}$@]|\w\(|://|\d:\d\d|(?:^|\s)--?\w|\.(?:py|sh|cpp|cu)\b"
    rf"|^(?:{_PROGRAMS}|import|from)\s"
)
"""What no name of a measurement has: values, ends of sentences, code, commands, addresses."""
_SETTING = re.compile(r"=\s*\d+\b(?![.\d]*\s*(?:fps|qps|[mu]?s\b|%))", re.IGNORECASE)
"""A setting in a heading, as in ``Batch = 4``, unlike a value with a unit."""
_WORD = re.compile(r"[\u3040-\u9fff\uac00-\ud7a3]|(?:(?![\u3040-\u9fff\uac00-\ud7a3])[\w./+-])+")
_NAMING = re.compile(r".*\d|.+[A-Z]|.*\w_\w|\w+-\w")  # as in ResNet-50, yolov5s, INT8, vit_base
_HEADING, _LABEL = re.compile(r"\s{0,3}(#{1,6})\s"), 7
_DEVICE = re.compile(
    r"\b(?:NVIDIA )?(?:(?i:(?:Jetson (?:AGX )?(?:Orin|Xavier|Nano|TX[12]|Thor)|AGX (?:Orin|Xavier)"
    r"|(?:Orin|Xavier)(?= (?:NX|AGX|Nano)))(?: (?:Nano|NX|AGX))?(?: Super)?(?: \d{1,3} ?GB)?)"
    r"|(?i:(?:GeForce |Quadro )?(?:RTX|GTX) ?A?\d{3,4}(?: ?(?:Ti|SUPER|Laptop GPU|Ada))*)"
    r"|TITAN (?:X|V|Xp|RTX)|Quadro [A-Z]+\d+"
    r"|(?:Tesla )?(?:[VAHPB][1-3]00|A10G?|A30|A40|T4|L4|L40S?|P4|P40|K80|GB?200|GH200)"
    r"(?:-(?:SXM\d?|PCIE|PCIe)[\w-]*)?)(?!\w|\.\w)",
    re.ASCII,  # Chinese text has no spaces around them
)
"""Devices as people write them."""
_ADVICE = re.compile(
    r"(?i)\b(?:your?|if|such as|e\.g|install\w*|needs?|requires?|should|must|supports?"
    r"|train(?:ed|ing)?\b.{0,40}\bon)\b|训练"
)
"""Words of a sentence that names a device without a measurement on it."""
_GPU = re.compile(
    r"(?i)\b(?:GPUs?|NVIDIA|Tesla|cards?)\b|卡|(?:\bon (?:an? |the )?|测试)[TLP]4", re.ASCII
)
"""What shows that a short name is a device: feature maps and losses have such names, too."""
_MARKUP = re.compile(r"^[\s#>*+`=~|-]+|[\s:\uff1a*`=|-]+$")
_CRASH = re.compile(
    r"\[[EF]\] |[Ss]egmentation fault|core dumped|Aborted|\bKilled\b|terminate called|[Aa]ssert"
    r"|Bus error|Traceback|SIG[A-Z]{3,5}|exit(?:ed with)? (?:code|status) [1-9]"
)
_LEGACY_FLAGS = frozenset(
    ("fp16", "half2", "int8", "verbose", "useSpinWait", "hostTime", "safe", "allowGPUFallback")
)
_LEGACY = _LEGACY_FLAGS.union((
    "avgRuns", "batch", "calib", "deploy", "device", "engine", "iterations", "loadEngine",
    "model", "onnx", "output", "percentile", "saveEngine", "uff", "uffInput", "useDLACore",
    "workspace",
))  # fmt: skip
"""Options that TensorRT 5 and 6 list without a heading."""
_LEGACY_FIRST = frozenset({"deploy", "onnx", "uff", "engine", "loadEngine"})
_TYPES = {
    "Float": "fp32", "FP32": "fp32", "Half": "fp16", "FP16": "fp16", "BFloat16": "bf16",
    "BF16": "bf16", "Int8": "int8", "INT8": "int8", "FP8": "fp8", "Int4": "int4",
}  # fmt: skip
_TYPE = re.compile(rf"(?:Datatype: |[\[(]|format |linear )({'|'.join(_TYPES)})\b")
_BEFORE_SUMMARY = (
    "Average on ", "Trace averages of", "Warmup completed", "Timing trace has", "Start parsing",
    "Finished parsing", "Engine built", "Engine loaded", "Engine deserialized",
)  # fmt: skip
"""Lines that trtexec prints only before the summary."""
_AFTER_SUMMARY = ("Explanations of", "Output Tensors", "Output values", "* ", "Done.")
"""Lines that trtexec prints only after the summary."""
_AFTER_OPTIONS = (
    *_BEFORE_SUMMARY, "Starting inference", "Throughput: ", "TensorRT version: ", "Latency: min",
    "Host Latency", "Host latency", "host latency", "GPU Compute", "GPU compute", "Enqueue Time",
)  # fmt: skip
_FIRST_AFTER_OPTIONS = frozenset(each[0] for each in _AFTER_OPTIONS)
_MAY_START_RUN = frozenset((
    "===", "Average", "Trace", "Warmup", "Timing", "Start", "Finished", "Engine", "Throughput:",
    "throughput:", "walltime:", "Latency:", "Host", "host", "End-to-End", "Enqueue", "H2D", "GPU",
    "gpu", "D2H", "Total", "total",
))  # fmt: skip
"""First words of lines that may start another run: a cheap test."""
_CUT_LABELS = frozenset((
    "End-to-End", "End-to-End Host", "Host", "H2D", "D2H", "Enqueue", "GPU", "Total",
    "Total Host", "Total GPU", "Total GPU Compute",
))  # fmt: skip
"""Labels whose line was broken, so that the next line would get a wrong label."""
_OUTCOMES: dict[str, log_values.Outcome]
_OUTCOMES = {"PASSED": "passed", "FAILED": "failed", "WAIVED": "waived"}


def _title_in(text: str, *, heading: bool) -> str | None:
    """Return the name that a line gives to the numbers below; sentences and code give none."""
    bare = re.sub(r"</?\w[^>]*>", "", text[: 4 * _LONGEST_TITLE])
    title = _MARKUP.sub("", bare)
    without_settings = _SETTING.sub("", bare) if heading else bare
    if len(title) > _LONGEST_TITLE or _NO_NAME.search(without_settings.strip("#*`>~ \t")):
        return None
    words = _WORD.findall(_DEVICE.sub("T4", title))  # a device is one word
    named = [word for word in words if _NAMING.match(word)]
    most_others = 14 if heading else 2  # a sentence has more
    if not words or len(words) - len(named) > most_others:
        return None
    introduces = bare.rstrip(" *").endswith((":", "\uff1a")) and len(words) < 3
    return title if heading or named or introduces else None


def read_log(data: BinaryIO | bytes | str, *, where: str) -> log_values.LogText:
    """Return every run in a text of any kind, which may be none."""
    reader = _LogReader(where=where)
    lines, as_in_file, reader.masked = read_text(data)
    at = 0
    for at, raw in enumerate(lines, start=1):
        begun = raw[20:23] == "] ["  # with a time stamp of trtexec
        found = [clean(raw)] if begun else [*map(clean, lines_from_line(raw))]
        for line in found:
            reader.add(line, at)
        if found != [raw] and found != [raw.rstrip(_CLOSING)]:
            reader.masked = True  # what was left out has not been searched
    reader.next_run(at + 1)
    titles = [(run.title or "").rpartition("\n") for run in reader.runs]
    same = Counter(name for _, _, name in titles)
    for place, (above, _, name) in enumerate(titles):
        if above:
            title = f"{above}, {name}" if same[name] > 1 else name
            reader.runs[place] = reader.runs[place].having(title=title)
    return log_values.LogText(tuple(reader.runs), at, as_in_file, reader.masked)


_NEVER, _NOT_PLAIN = "\0", (" ", "\t", "[")


class _LogReader:
    """Splits a text into runs, each with at most one summary."""

    def __init__(self, *, where: str) -> None:
        self.where = where
        self.runs: list[log_values.LogRun] = []
        self.current = _RunReader(where=where, line=1)
        self.prefixes, self.commands = Prefixes(), CommandLines()
        self.text_start: int | None = None  # first line of other text after the last run's numbers
        self.title: str | None = None  # with the heading above it, in two lines
        self.headings: dict[float, str] = {}  # with a name, by level, down to this line
        self.masked = False  # whether the text has secrets, or lines that were not searched
        self.cut = False  # whether the line above was broken after a label of the summary
        self.fenced = self.prose = False  # whether the line above is within a fence, a sentence
        self.below_fence = self.below_heading = False  # whether one stands directly above
        self.below = self.several = False  # whether the command may be of the run above, of a list
        self.told = False  # whether words stand below the command
        self.heading_at = 0
        self.steady = _NEVER  # how the next line begins if it is one of many alike
        self.devices: dict[int, str | None] = {}  # that headings name, by level, or a label below
        self.devices_above: set[str] = set()  # named above the first numbers, for the whole text
        self.waiting: list[tuple[LogLine, str, int]] = []
        """Lines after the numbers of a run, which belong to the next if that has numbers too."""

    def add(self, raw: str, at: int) -> None:
        """Add one line to its run; secrets in it are masked."""
        if raw == HARD_BREAK:
            self.next_run(at)
            self.prefixes, self.commands = Prefixes(), CommandLines()
            return
        if "&&&& " in raw:
            self.masked |= may_hold_secret(raw)
            raw = mask(raw)
            banner = banner_from_text(raw)
            if banner is not None:
                self._add_banner(banner, raw, at)
                return
        current = self.current
        if raw.startswith(self.steady) and not may_hold_secret(raw):
            # As most lines: nothing of what follows applies to a line in a list of such.
            text = raw[26:] if raw[25:26] == " " else raw[25:]
            word = text.partition(" ")[0]
            plain = word == "Average" or word not in _MAY_START_RUN
            if plain and "," not in text and text[:1] not in _NOT_PLAIN:
                current.last.append(raw[: log_values.LONGEST_KEPT])
                current.add_text(text, has_level=True)
                current.last_line = at
                self.steady = self.steady if current.outcome is None else _NEVER
                return
        line = self.prefixes.line(raw)
        if line.level != "V" and may_hold_secret(raw):
            self.masked = True
            raw = mask(raw)
            line = self.prefixes.line(raw)
        text = line.text
        if text[:1] in (" ", "\t") and (behind := _ANCHOR.match(text)):
            text = text[behind.end(1) :]  # indented after its prefix
            line = line._replace(text=text)
        rest_of_cut = self.cut and not line.level
        self.cut = len(text) < _LONGEST_TITLE and text.rstrip() in _CUT_LABELS
        if self.cut or rest_of_cut:
            current.summary.block = None
            return
        if "," in text and line.level != "V" and _DECIMAL.search(text):
            text = _DECIMAL.sub(".", text)
            line = line._replace(text=text)
        own = current.summary.printed and current.continues_summary(line)
        if current.starts_new_run(line) or (own and self._waiting_start() is not None):
            # Lines that wait, from a text on or from what is printed first, are of the next run.
            begin = min(self.text_start or at, self._waiting_start() or at)
            self.next_run(begin, keep_until=begin)
            self._keep_waiting()
        elif own or line.level:
            self.below_fence = self.below_heading = False
        elif self._add_unmarked(text, at):
            return
        current = self.current
        if current.is_finished:
            open_table = current.mode is not None and current.outcome is None and not current.closed
            # After the numbers: a line may be of the next run.
            if not own and not open_table and not text.startswith("=== "):
                self.waiting.append((line, raw, at))
                if len(self.waiting) > MOST_WAITING:
                    self._keep_waiting()
                return
        elif (self.text_start or self.title) and (line.level or current.summary.takes(text)):
            self._assign_title()
        if self.waiting:
            self._keep_waiting()
        current.add(line, raw, at)
        text_above = self.text_start or self.title or current.has_summary_heading
        older = current.summary.is_legacy
        steady = raw[20:25] == "] [I]" and not (text_above or older or current.is_finished)
        self.steady = raw[:25] if steady and line.stamp == raw[1:20] else _NEVER

    def _keep_waiting(self, until: int | None = None) -> None:
        """Add lines that wait, or those before a line, to the current run."""
        kept = [each for each in self.waiting if until is None or each[2] < until]
        for line, raw, at in kept:
            self.current.add(line, raw, at)
        del self.waiting[: len(kept)]

    def _waiting_start(self) -> int | None:
        """Return the first line that waits and is not what trtexec prints after its numbers."""
        last = self.current.last_stamp
        for line, _, at in self.waiting:
            said = line.level == "I" and line.text.strip()
            of_another = line.stamp != last or line.library
            if said and of_another and not line.text.startswith(_AFTER_SUMMARY):
                return at
        return None

    def _take_command_below(self) -> None:
        """Give a command to the run above it that has none, where its section or the text ends."""
        fresh = not self.current.started and not self.current.evidence
        if self.below and fresh and self.current.command is not None:
            self.runs[-1] = self.runs[-1].having(command=self.current.command, pasted_command=True)
            self.current.command, self.below = None, False

    def next_run(self, line: int, *, keep_until: int | None = None) -> None:
        self._keep_waiting(keep_until)
        self._take_command_below()
        # Maximum number of runs in one log, to bound the memory for a file full of banners.
        if self.current.is_of_trtexec and len(self.runs) < 10_000:
            self.current.last_line = max(self.current.line, min(self.current.last_line, line - 1))
            self.runs.append(self.current.run())
        self.current = _RunReader(where=self.where, line=line)
        self.current.device = self._device()
        self._assign_title()

    def _device(self) -> str | None:
        """Return the device of the section of a text, else of the whole text, if it is one."""
        if self.devices:
            return self.devices[max(self.devices)]
        above = self.devices_above
        longest = [name for name in above if not any(name in other for other in above - {name})]
        return longest[0] if len(longest) == 1 else None

    def _look_for_device(self, text: str, heading: re.Match[str] | None) -> None:
        """Remember the device that a heading, or the text above all numbers, names."""
        names = {" ".join(each.split()) for each in _DEVICE.findall(text[:LONGEST_PREFIX])}
        is_title = names and (heading is not None or _title_in(text, heading=False) is not None)
        if names and not _GPU.search(text):
            names -= {"P4"} if is_title else {"T4", "L4", "P4"}
        if heading:
            level = len(heading[1])
            self.devices = {k: name for k, name in self.devices.items() if k < level}
            if len(names) == 1:
                self.devices[level] = names.pop()
        elif not self.runs and not self.current.is_finished:
            if not _ADVICE.search(text):
                self.devices_above |= names
        elif is_title and len(names) == 1:
            self.devices[_LABEL] = names.pop()
        else:
            known = self._device() or ""
            if any(name not in known and known not in name for name in names):
                self.devices[_LABEL] = None  # of a sentence: it may be a comparison
        if not self.current.is_finished:
            self.current.device = self._device()

    def _assign_title(self) -> None:
        if self.current.title is None and not self.current.started:
            self.current.title = self.title
        self.text_start = self.title = None

    def _add_banner(self, banner: Banner, raw: str, at: int) -> None:
        self.prefixes.without(raw)
        if banner.kind == "RUNNING":
            if self.current.started or self.current.outcome:
                self.next_run(self.text_start or at)
            if self.current.command is None:
                self.current.line = at
            self.current.title = None  # the banner has the command
            self.current.add_banner(banner)
        elif self.current.outcome is None:
            self._keep_waiting()
            self.current.add_banner(banner)
        self.current.last_line = at
        self.text_start = None

    def _add_unmarked(self, text: str, at: int) -> bool:
        """Add a line without a level; return whether it is a code fence, which no run needs."""
        heading, blank = None if self.fenced else _HEADING.match(text), not text.strip()
        self._look_for_device(text, heading)
        if self.current.is_finished and self.text_start is None and not blank:
            self.text_start = at
        command = self.commands.add(text)
        if command is not None:
            self._add_command(command, at)
        below_fence, self.below_fence = self.below_fence, self.below_fence and blank
        below_heading = self.below_heading
        self.below_heading = bool(heading) or (below_heading and blank)
        if command is not None or self.commands.incomplete is not None:
            return False
        current, is_fence = self.current, _FENCE.match(text) is not None
        has_numbers = bool(current.summary.printed or current.summary.averages)
        if (is_fence or heading) and has_numbers and not current.banner:
            current.closed = True
        if heading:
            self.heading_at = at
            self._take_command_below()
        if (heading or (below_fence and _PROGRAM.match(text))) and not current.started:
            current.command = None  # of another section, or of another program
        if is_fence:
            self._add_fence()
            return True
        if current.command and not (blank or text.startswith("===") or current.evidence):
            takes = current.summary.takes(text)
            # What printed a number in prose is unknown, and which one of a list was run.
            in_prose = self.told and not self.fenced and "--saveEngine" in current.command
            if (takes and in_prose) or (not takes and self.several):
                current.command = None
            self.told = not takes
        between = current.is_finished or current.summary.averages or not current.started
        if between and (self.title is None or text.startswith("#")):
            named = None if self.prose and not heading else _title_in(text, heading=bool(heading))
            self.prose = named is None and not blank
            self._add_title(named, heading, below_heading=below_heading)
        return False

    def _add_command(self, command: str, at: int) -> None:
        current = self.current
        if current.banner and current.outcome is None and not current.summary.printed:
            return  # printed by the run
        if current.started:
            own = current.command or current.banner or not current.is_of_trtexec
            self.below = not own and self.heading_at < current.last_line
            self.next_run(self.text_start or at)
        before, flag = self.current.command, "--saveEngine"
        self.several = before is not None and (flag not in before or flag in command)
        self.current.command, self.told = command, False

    def _add_fence(self) -> None:
        current = self.current
        self.below_fence = self.fenced = not self.fenced
        self.prose = False
        if current.mode == "section":
            current.mode = None
            device = dict(current.sections[-1][1]).get("Selected Device")
            if device and not self.runs:
                self.devices_above.add(device)
            current.of_page = bool(device) and not current.banner and len(current.sections) == 1

    def _add_title(
        self, name: str | None, heading: re.Match[str] | None, *, below_heading: bool
    ) -> None:
        level = len(heading[1]) if heading else _LABEL
        if heading and below_heading and level in self.headings:  # that is over those below it
            self.headings[level - 0.5] = self.headings.pop(level)
        above = {k: each for k, each in self.headings.items() if k < level}
        if name:
            self.title = f"{above[max(above)]}\n{name}" if above else name
        if heading:
            self.headings = {**above, level: name} if name else above


_compiled = functools.lru_cache(maxsize=1000)(re.compile)
_AS_READ = (
    "where", "line", "last_line", "version", "title", "device", "first_stamp", "last_stamp",
    "tf32_stated",
)  # fmt: skip


class _RunReader:
    def __init__(self, *, where: str, line: int) -> None:
        self.where, self.line, self.last_line = where, line, line
        self.banner: Banner | None = None
        self.outcome: log_values.Outcome | None = None
        self.version: str | None = None
        self.evidence = False
        self.sections: list[tuple[str, list[tuple[str, str]]]] = []
        self.mode: Literal["section", "profile", "prose", "help"] | None = None
        self.section_stamped = False
        self.facts, self.summary = log_values.FactCollector(), log_values.SummaryCollector()
        self.trace, self.messages = log_values.TraceCollector(), log_values.MessageCollector()
        self.profile: log_values.ProfileCollector | None = None
        self.counts: dict[str, Any] = {}
        self.tf32_stated = self.help_printed = False
        self.last: deque[str] = deque(maxlen=log_values.TAIL)
        self.command: str | None = None  # typed above the output; that of a banner has priority
        self.title: str | None = None
        self.device: str | None = None
        self.first_stamp: str | None = None
        self.last_stamp: str | None = None
        self.closed = False  # a code fence ended the excerpt: no more lines belong to it
        self.has_summary_heading = False
        self.of_page = False  # a code fence ended its only section, the device of the whole page
        self.layer_types: Counter[str] = Counter()

    @property
    def started(self) -> bool:
        """Whether more than messages was seen, which stderr may print before the banner."""
        sections = self.sections and not self.of_page
        return bool(self.banner or sections or self.summary.averages or self.summary.printed)

    @property
    def is_finished(self) -> bool:
        """Whether the run has its numbers, so that the text that follows is not about it."""
        return self.outcome is not None or self.closed or self.summary.printed

    @property
    def is_of_trtexec(self) -> bool:
        """Whether this is a run of trtexec, not of a sample program or one number in a text."""
        if not self.evidence or (self.banner and self.banner.tool.lower().startswith("sample")):
            return False
        summary, others = self.summary, self.profile or self.command or self.first_stamp
        if self.banner or self.sections or others or summary.metrics or self.messages.found:
            return True
        pair = len(summary.averages) > 1 or len(summary.totals) > 1
        return pair or any("ost " in each for each in summary.averages)  # host latency or walltime

    def add_banner(self, banner: Banner) -> None:
        """Add a ``RUNNING`` banner, or the banner that ends the run."""
        self.evidence = True
        self.banner = self.banner or banner
        self.version = self.version or banner.version
        if banner.kind in _OUTCOMES:
            self.outcome, self.mode = _OUTCOMES[banner.kind], None

    def continues_summary(self, line: LogLine) -> bool:
        """Whether a line has a further number of the summary that was begun."""
        over = self.outcome is not None or self.closed or self.mode in ("prose", "help")
        if over or line.library or line.level not in ("", "I"):
            return False
        return self.summary.takes(line.text) and not self.summary.repeats(line.text)

    def starts_new_run(self, line: LogLine) -> bool:
        """Whether a line starts another run, because this run already has such a line."""
        if line.library or line.level in ("V", "W", "E", "F"):
            return False
        text, summary, ended = line.text, self.summary, self.outcome is not None
        word = text.split(" ", 1)[0]
        if word not in _MAY_START_RUN:
            done = ended and self.banner is None and not line.level and text.strip() != ""
            # TensorRT 3 to 6 list options first, before averages.
            return done or (summary.is_legacy and text.partition(":")[0].strip() in _LEGACY_FIRST)
        over = ended or self.closed or self.has_summary_heading
        if word == "===":
            header = _HEADER.match(text)
            name = header[1] if header else ""
            if name in ("Performance summary", "Trace details"):
                averaged = name == "Trace details" and bool(summary.averages)
                return over or summary.printed or averaged
            if name.endswith(" Options") or name == "Device Information":
                listed = any(name == each for each, _ in self.sections)
                return (over or summary.printed or listed) and self.mode != "help"
            seen = ended or self.closed or self.profile is not None
            return seen and _PROFILE.match(text) is not None
        if self.mode == "prose":
            return False
        if text.startswith(_BEFORE_SUMMARY):
            again = word == "Trace" and bool(summary.averages)
            return over or summary.printed or again
        if text.startswith("Average over"):
            return ended or self.closed or summary.printed
        if ended or self.closed:
            return log_values.alone(text)[1]
        return summary.repeats(text)

    def add(self, line: LogLine, raw: str, at: int) -> None:
        """Add one line that is not a banner."""
        level, self.last_line = line.level, at
        if level or raw.strip():
            self.last.append(raw[: log_values.LONGEST_KEPT])
        if self.outcome is not None:
            return
        if line.stamp:
            self.evidence = self.evidence or not line.library
            self.first_stamp = self.first_stamp or line.stamp
            self.last_stamp = line.stamp
        if level == "I":
            self.messages.last_key = None  # the next line does not continue a message
        if level in ("W", "E", "F"):
            self.messages.add(level, line.text)
        elif level == "V":
            if line.library:
                self.trace.add(line.text)
        elif line.library and line.text.strip():
            self.trace.add_phase(line.text)
            self.facts.add(line.text, library=True)
        else:
            self.add_text(line.text, has_level=bool(level))

    def add_text(self, text: str, *, has_level: bool) -> None:
        """Add what trtexec itself printed."""
        if not text.strip():
            self.mode = None if has_level else self.mode
            return
        header = _HEADER.match(text) if text.startswith("=== ") else None
        if header:
            name, profile = header[1], _PROFILE.match(text)
            self.has_summary_heading = self.has_summary_heading or name == "Performance summary"
            if profile:
                self.evidence, self.mode = True, "profile"
                self.profile = log_values.ProfileCollector(iterations=int(profile[1]))
            elif name.endswith(" Options") or name == "Device Information":
                self.evidence, self.mode, self.section_stamped = True, "section", has_level
                self.sections.append((name, []))
            elif name.startswith("Explanations"):
                self.mode = "prose"
            else:
                self.mode = "help" if name == "Help" and not has_level else None
            return
        if self.mode == "profile" and self.profile is not None and self.profile.add(text):
            return
        if self.mode == "section" and has_level == self.section_stamped:
            if text[0] not in _FIRST_AFTER_OPTIONS or not text.startswith(_AFTER_OPTIONS):
                self._add_option(text)
                return
            self.mode = None  # the blank line after the options is missing
        if self.mode not in ("prose", "help"):
            self._add_statement(text)

    def _add_option(self, text: str) -> None:
        entries = self.sections[-1][1]
        if not self.section_stamped and text.startswith(("  ", "--")) and not entries:
            self.sections.pop()  # the usage text has the same headings
            self.mode, self.help_printed = "help", True
            return
        label, colon, value = text.partition(":")
        if colon:
            entries.append((label.strip(), value.strip()))
        elif entries:
            before = entries[-1]
            entries[-1] = (before[0], f"{before[1]}\n{text.strip()}".lstrip("\n"))

    def _add_statement(self, text: str) -> None:
        if self.summary.add(text):
            self.evidence = True
        elif self.facts.add(text, library=False):
            return
        elif match := _WARMED.match(text):
            self.counts["warmup_queries"] = int(match[1])
        elif match := _TRACED.match(text):
            # TensorRT 7 prints 0 for an explicit batch.
            self.counts |= {"queries": int(match[1]) or None, "trace_s": number(match[2])}
        elif text.startswith("Selected Device: "):
            self.device = text.partition(": ")[2].strip() or self.device
        elif text.startswith("TensorRT version: "):
            self.version = version_from_text(text.partition(": ")[2]) or self.version
        elif text.rstrip() == "Done." and self.summary.averages and self.banner is None:
            self.outcome = "passed"
        # Starts of layer information; only types are read here, the rest from the JSON export.
        elif text.startswith(("Name: ", "Layer(", "Bindings:")):
            self.trace.add_engine_layer(text)
            self.layer_types.update(_TYPES[name] for name in _TYPE.findall(text[:20_000]))
        elif text.startswith("TF32 is enabled by default"):
            self.tf32_stated = True
        elif not (self.summary.averages or self.summary.printed):
            label, colon, value = text.partition(":")
            is_option = label.strip() in (_LEGACY if colon else _LEGACY_FLAGS)
            if is_option and not self.sections:
                self.sections.append(("Options", []))
            if is_option and self.sections[-1][0] == "Options":
                self.sections[-1][1].append((label.strip(), value.strip()))

    def run(self) -> log_values.LogRun:
        banner, outcome = self.banner, self.outcome
        measured = self.summary.printed or self.summary.averages or self.profile is not None
        refused = outcome == "failed" and not (banner and _HELP.search(banner.command))
        help_printed = self.help_printed and not measured and not refused
        if help_printed or (outcome is None and self.mode == "help"):
            outcome = "help"
        elif outcome is None:
            crashed = not measured and _CRASH.search(" ".join(list(self.last)[-3:]))
            outcome = "crashed" if crashed else "cut"
        printed = banner.command if banner else None
        return log_values.LogRun(
            **{name: getattr(self, name) for name in _AS_READ},
            outcome=outcome,
            tool=banner.tool if banner else "trtexec",
            build=banner.build if banner else None,
            command=printed or self.command,
            announced=banner is not None and banner.kind == "RUNNING",
            pasted_command=not printed and self.command is not None,
            sections=tuple(
                log_values.LogSection(name=name, entries=tuple(e)) for name, e in self.sections
            ),
            facts=log_values.BuildFacts(**self.facts.values),
            trace=self.trace.trace(),
            inputs=tuple(self.facts.tensors["input"]),
            outputs=tuple(self.facts.tensors["output"]),
            **self.counts,
            average_lines=tuple(self.summary.averages),
            summary=self.summary.summary(),
            profile=self.profile.profile() if self.profile else None,
            messages=tuple(self.messages.found.values()),
            layer_types=dict(self.layer_types),
            last_lines=tuple(self.last),
        )


def time_of_log(run: log_values.LogRun) -> datetime.datetime | None:
    """Return the local time a run ended, if printed; TensorRT 6 counts months from 0."""
    stamp = run.last_stamp or ""
    month, rest = stamp[:2], stamp[2:]
    from_zero = month == "00" or (run.major is not None and run.major <= 6)
    try:
        text = f"{int(month) + from_zero:02}{rest}"
        found = datetime.datetime.strptime(text, "%m/%d/%Y-%H:%M:%S")
    except ValueError:
        return None
    latest = datetime.datetime.now() + datetime.timedelta(days=2)
    # TensorRT appeared in 2016; a board with an unset clock logs 1970.
    return found if found.year >= 2016 and found < latest else None
