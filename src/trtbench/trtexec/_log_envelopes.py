"""What one line of a file stands for: records of JSON, quoted texts, lines run together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from trtbench.trtexec._log_records import said_in
from trtbench.trtexec.log_text import HARD_BREAK, texts_in

_STAMP = r"\[\d\d/\d\d/\d{4}-\d\d:\d\d:\d\d\] (?:\[TRT\] )?\[[IWEVF]\]"
_NAMES = (
    r"(?:Throughput|(?:End-to-End Host |H2D |D2H )?Latency|Enqueue Time|(?:Total )?GPU Compute Time"
    r"|Total Host Walltime)"
)
_LABEL = f"{_NAMES}: "
_LOGFMT = re.compile(r'(?:^|\s)(?:msg|message)="((?:[^"\\]|\\.)*)"')
_LISTED = re.compile(
    r"""[\[({]?\s*b?(?P<quote>["'])((?:(?!(?P=quote))[^\\]|\\.)*)(?P=quote)[,)\]}]*$"""
)
"""One line of a list of texts, as tools print what their children said."""
_BEFORE_TEXT, _AFTER_TEXT = frozenset("\"'([{b"), frozenset("\"'),]}")
_ROW = re.compile(rf"\s*\|\s*\**({_NAMES})\**\s*\|([^|]{{1,4000}})\|\s*$")
_KNOWN = rf"(?:{_STAMP}|\[[IWEVF]\] |=== |&&&& |Average o|{_LABEL}|(?:min|max|throughput): )"
_FOLDED = re.compile(rf"\\n\s{{0,40}}{_KNOWN}|===(?:\\{{1,8}}r)?\\{{1,8}}n")
_ESCAPED_END = re.compile(r"(?:\\{1,8}r)?\\{1,8}n")
_ESCAPED = re.compile(
    r"\\{1,8}(?:x1b|u001[bB]|033)\[[0-9;]{0,12}m|\\{1,8}(?:(t|[\"'/\\])|u00([2-7][0-9a-fA-F]))"
)
_OPENING = re.compile(r"""(?:^|(?<=[\s=:(\[{,b]))["']""")
_ENDED = r"""(?<!\\){}(?=\s*(?:[,:;)}}\]]|$))"""
_RUN_TOGETHER = re.compile(rf"(?<!^)(?={_STAMP} ?\S)")
_ONLY_STAMP = re.compile(rf"{_STAMP}\s*$")
_SUMMED_UP = re.compile(rf"(=== Performance summary ===)\s+(?={_LABEL})")
_NO_LINE_END = re.compile(r"(?<=\d s)(?==== Performance summary)")
_NEXT_LABEL = re.compile(rf"(?<!Total )(?<!Host )(?<!H2D )(?<!D2H )(?={_LABEL})")
_BREAK = re.compile(r"<br ?/?>")
_OTHER_ENDS = re.compile(r"[\v\f\x85\u2028\u2029]+")
"""What ends lines in some texts, and is not counted as such."""

_LONGEST_PREFIX = 200
SHORTEST = 6
"""Characters below which a line stands for itself."""


def is_plain(line: str) -> bool:
    """Say whether a line stands for itself: one stamp of trtexec's, at the beginning."""
    begun = line[20:23] == "] [" and line.find("] [", 36) < 0
    return begun and "\\n" not in line and "<br" not in line


def lines_from_line(line: str) -> Iterable[str]:
    """List what a line stands for, mostly itself; between texts of several runs comes a break."""
    folded = "\\n" in line or "<br" in line
    if len(line) < SHORTEST or is_plain(line):
        return (line,)
    if _OTHER_ENDS.search(line):
        return (part for each in _OTHER_ENDS.split(line) for part in lines_from_line(each))
    said = _out_of_envelope(line)
    if said is not None:
        lines: Iterable[str] = said.splitlines() if "\n" in said or "\r" in said else (said,)
    elif folded and _FOLDED.search(line):
        lines = _unescaped(line)
    else:
        return _apart(line)
    return (part for each in lines for part in _apart(each))


def _apart(line: str) -> Iterator[str]:
    """Part lines that were joined: by a page's breaks, or by blanks when a page was copied."""
    if "<br" in line and (" ms" in line or " qps" in line):
        yield from _BREAK.split(line)
    elif line.count("] [") > 1 and len(parts := _RUN_TOGETHER.split(line)) > 1:
        stamp = ""
        for part in parts:
            if _ONLY_STAMP.match(part):  # a stamp before a stamp: some other tool's
                stamp += part
                continue
            yield stamp + part
            stamp = ""
    elif "=== Perf" in line and (found := _SUMMED_UP.search(line)):
        yield line[: found.end(1)]
        yield from _NEXT_LABEL.split(line[found.end() :])
    elif "=== Perf" in line and (at := _NO_LINE_END.search(line)):
        yield from (line[: at.start()], line[at.start() :])
    elif line.lstrip()[:1] == "|" and (row := _ROW.match(line)):
        yield f"{row[1]}: {row[2].strip()}"
    elif line.lstrip()[:1] == "|" and line.count("|") == 2 and line.rstrip()[-1:] == "|":
        yield line.strip()[1:-1]  # a box around everything
    else:
        yield line


def _out_of_envelope(line: str) -> str | None:
    """Find what was said in a line of JSON, of ``key="value"`` pairs, or in one of a list."""
    text = line.strip()
    first, last = text[:1], text[-1:]
    if (first == "{" and last == "}") or (first == "[" and last == "]" and '"' in text):
        return _from_record(_decoded(text))
    if text.startswith("['") and text.endswith("']"):
        return "\n".join(map(_plain, text[2:-2].split("', '")))
    if last in _AFTER_TEXT and first in _BEFORE_TEXT and (match := _LISTED.match(text)):
        return _plain(_ESCAPED_END.sub("\n", match[2]).rstrip("\n"))
    if last == "}" and (at := text.find('{"', 0, _LONGEST_PREFIX)) > 0:
        found = _decoded(text[at:])
        return _from_record(found) if isinstance(found, dict) else None
    if 'msg="' in text or 'message="' in text:
        match = _LOGFMT.search(line)
        found = _decoded(f'"{match[1]}"') if match else None
        return found if isinstance(found, str) else None
    return None


def _from_record(found: object) -> str | None:
    said = said_in(found)
    if said is not None:
        return said.rstrip("\r\n")
    return f"\n{HARD_BREAK}\n".join(texts_in(found)) or None


def _decoded(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return None


def _unescaped(line: str) -> Iterator[str]:
    r"""Read texts that were printed as code, with ``\n`` for the ends of lines."""
    quote: str | None = None
    begun = False
    for piece in _ESCAPED_END.split(line):
        rest = piece
        while rest or begun:
            if quote is None:
                opened = _first_left_open(rest)
                if opened is None and begun:
                    break  # between two texts
                if begun:
                    yield HARD_BREAK
                if opened is None:
                    quote = ""  # nothing was quoted: the whole line is the text
                else:
                    quote, rest = rest[opened], rest[opened + 1 :]
                begun = True
            end = re.search(_ENDED.format(quote), rest) if quote else None
            if end is None:
                yield _plain(rest)
                break
            yield _plain(rest[: end.start()])
            rest, quote = rest[end.end() :], None


def _first_left_open(text: str) -> int | None:
    """Find the quote whose text does not end in the same piece."""
    at = 0
    while (opened := _OPENING.search(text, at)) is not None:
        end = re.compile(_ENDED.format(opened[0])).search(text, opened.end())
        if end is None:
            return opened.start()
        at = end.end()
    return None


def _plain(text: str) -> str:
    return _ESCAPED.sub(_character, text)


def _character(escaped: re.Match[str]) -> str:
    if escaped[2]:
        return chr(int(escaped[2], 16))
    return {"t": "\t", None: ""}.get(escaped[1], escaped[1])
