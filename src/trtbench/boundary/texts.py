"""Texts of strangers, made harmless for screens, XML and spreadsheets."""

from __future__ import annotations

import re
import unicodedata


def clean_text(text: str, *, keep: str = "\n\t") -> str:
    """Make what could steer a terminal visible: escapes, control and direction characters.

    Bytes of a name that are not UTF-8 are shown as ``\\xNN``.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each in keep or not _is_control(each) else _escaped(each) for each in text
    )


def clean_line(text: str) -> str:
    """Make visible whatever would not stay on one line."""
    return clean_text(text, keep="")


def shown(text: str, *, most: int = 80) -> str:
    """Quote a text from outside for a message: short, on one line, without controls."""
    line = clean_line(text)
    return repr(line if len(line) <= most else line[: most - 1] + "…")


def xml_text(text: str) -> str:
    """Make visible the characters that no XML document may hold."""
    return clean_text(text).replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")


def csv_cell(value: object) -> object:
    """Keep a spreadsheet from taking a text for a formula; numbers stay as they are."""
    if not isinstance(value, str) or not _FORMULA.search(value):
        return value
    try:
        float(value)
    except ValueError:
        return _FORMULA.sub(r"\1'\2", value)
    return value


_FORMULA = re.compile(r"(^|[;\t\n\r])([=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")
"""What begins one, wide signs of eastern keyboards too, in a cell or behind a mark that some
spreadsheets take for the end of one."""


def _is_control(character: str) -> bool:
    # Cc: escapes; Cf: directions and invisible joiners; Cs: bytes that are not UTF-8.
    category = unicodedata.category(character)
    return category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and character != "\u200d")


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # how Python keeps a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
