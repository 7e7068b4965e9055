"""JSON as it is found in the wild: several documents in one file, ``nan``, JSON within a string.

Knows text; does not know what a document means. Every failure is a ``ParseError``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

import msgspec

from trtbench.errors import ParseError

_STRICT = msgspec.json.Decoder()
_LENIENT = json.JSONDecoder(strict=False)
"""Accepts control characters within strings, which trtexec 8.6 writes into layer metadata."""
_SPACE = re.compile(r"[\s\0\ufeff]*")
_BARE = re.compile(
    r'("(?:[^"\\]|\\.)*")|(?<![\w.])(-?)(nan|inf(?:inity)?)(?:\(ind\))?(?![\w.])', re.I
)
_LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""Half a character, which could be read but never written again."""
_WORDS = {"nan": "NaN", "inf": "Infinity", "infinity": "Infinity"}
_WRAPPINGS = 3
"""How often a document may be a string that holds a document."""


def parse_error(
    where: str,
    *,
    what: str,
    place: str,
    expected: str,
    found: object = None,
    facts: Mapping[str, object] | None = None,
    fix: str | None = None,
) -> ParseError:
    """Say that a file is not what it was taken for: where, and what was expected instead."""
    all_facts: dict[str, object] = {"file": where, "place": place, "expected": expected}
    if found is not None:
        all_facts["found"] = found
    return ParseError(f"{where} {what}", facts={**all_facts, **(facts or {})}, fix=fix)


def quoted(data: bytes | str, *, limit: int = 40) -> str:
    """Show the beginning of some text within an error."""
    text = data if isinstance(data, str) else bytes(data[:limit]).decode("utf-8", "replace")
    return repr(text[:limit]) if text else "the end of the file"


def text_from_bytes(data: bytes | str, *, where: str, expected: str) -> str:
    """Decode a text file; an empty or a binary one is refused."""
    if isinstance(data, str):
        text = data
    elif data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data.decode("utf-16", "replace")  # a redirection of PowerShell
    elif b"\0" in data[:1024].rstrip(b"\0"):
        raise parse_error(
            where, what="is a binary file", place="byte 0", expected=expected, found=repr(data[:8])
        )
    else:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
    if _SPACE.fullmatch(text):
        raise parse_error(where, what="is empty", place="byte 0", expected=expected)
    return text


def documents_from_json(
    data: bytes | str, *, where: str, expected: str, unwrap: bool = True
) -> list[object]:
    """Read every JSON document of a file, and those that strings hold unless told otherwise."""
    try:
        documents: list[object] = [_STRICT.decode(data)]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        documents = list(_lenient(text_from_bytes(data, where=where, expected=expected), where))
    if not unwrap:
        return documents
    return [_unwrap(each, where=where, expected=expected) for each in documents]


def value_from_text(text: str, *, where: str, offset: int = 0) -> tuple[object, int]:
    """Read one document that begins at an offset, and tell where it ends."""
    try:
        return _LENIENT.raw_decode(text, offset)
    except RecursionError:
        problem, at = "is nested too deeply", offset
    except json.JSONDecodeError as found:
        problem, at = "is not valid JSON", found.pos
    except ValueError:
        problem, at = "has a number that cannot be read", offset
    raise parse_error(
        where,
        what=problem,
        place=place_in_text(text, at),
        expected="a JSON value",
        found=quoted(text[at : at + 40]),
    )


def place_in_text(text: str, offset: int) -> str:
    """Name a place as people look it up: line, column and offset, counted from 1, 1 and 0."""
    line = text.count("\n", 0, offset) + 1
    column = offset - text.rfind("\n", 0, offset)
    return f"line {line}, column {column} (character {offset})"


def with_json_words(text: str) -> str:
    """Write ``nan`` and ``inf`` outside strings the way Python's JSON reader knows them."""
    return _BARE.sub(_json_word, text)


def _json_word(match: re.Match[str]) -> str:
    string, sign, word = match.groups()
    if string is not None:
        return str(string)
    name = _WORDS[word.lower()]
    return name if name == "NaN" else sign + name


def _lenient(text: str, where: str) -> Iterator[object]:
    text = _LONE_SURROGATE.sub(r"\\ufffd", text)
    position = after_space(text, 0)
    try:
        value_from_text(text, where=where, offset=position)
    except ParseError:
        text = with_json_words(text)
    while position < len(text):
        value, position = value_from_text(text, where=where, offset=position)
        yield value
        position = after_space(text, position)


def after_space(text: str, position: int) -> int:
    """Compute the next place that is no white space."""
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _unwrap(value: object, *, where: str, expected: str) -> object:
    for _ in range(_WRAPPINGS):
        if not isinstance(value, str):
            return value
        inner = documents_from_json(value, where=where, expected=expected)
        value = inner[0] if len(inner) == 1 else inner
    return value


def number_from_value(value: object) -> float:
    """Read a number of any kind as float; whatever is none becomes nan."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
