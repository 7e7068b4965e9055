r"""The text of RTF documents, which word processors write: ``{\rtf1 ... \par}``."""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"\\([a-z]{1,32})(-?\d{1,10})? ?|\\'([0-9a-fA-F]{2})|\\([^a-z])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_BREAKS = {"par": "\n", "line": "\n", "row": "\n", "sect": "\n", "page": "\n", "tab": "\t",
           "cell": "\t", "emdash": "\u2014", "endash": "\u2013", "lquote": "'", "rquote": "'",
           "ldblquote": '"', "rdblquote": '"'}  # fmt: skip
_HIDDEN = frozenset(
    ("fonttbl", "colortbl", "stylesheet", "info", "pict", "header", "footer", "object", "listtable",
     "generator", "themedata", "datastore")
)  # fmt: skip
_SYMBOLS = {"~": " ", "_": "-", "\n": "\n", "\r": "\n", "\\": "\\", "{": "{", "}": "}"}
"""What a backslash makes of the character behind it; of others nothing is left."""


def is_rtf(begin: str) -> bool:
    r"""Say whether a text begins as RTF does."""
    return begin.startswith("{\\rtf")


def text_from_rtf(text: str) -> str:
    """Read what people see of a document; fonts, colours and pictures are left out."""
    parts: list[str] = []
    outside: list[bool] = []
    hidden, skip = False, 0
    for token in _TOKEN.finditer(text):
        word, number, code, symbol, brace, said = token.groups()
        if brace == "{":
            outside.append(hidden)
        elif brace == "}":
            hidden = outside.pop() if outside else False
        elif word in _HIDDEN or symbol == "*":
            hidden = True
        elif hidden:
            continue
        elif word == "u" and number:
            parts.append(chr(int(number) % 0x10000))
            skip = 1  # what older readers show for it
        elif word:
            parts.append(_BREAKS.get(word, ""))
        elif code:
            parts.append("" if skip else bytes([int(code, 16)]).decode("cp1252", "replace"))
            skip = 0
        elif symbol:
            parts.append(_SYMBOLS.get(symbol, ""))
        elif said:
            parts.append(said[skip:])
            skip = 0
    return "".join(parts)
