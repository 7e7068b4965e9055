"""The visible text of web pages, RTF and other marked-up documents."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser


class _Page(HTMLParser):
    """Gathers the visible text of a page; blocks end lines; scripts and attributes stand apart."""

    _HIDDEN = frozenset({"script", "style", "head", "template"})
    _INLINE = frozenset(
        {"a", "abbr", "b", "big", "cite", "code", "del", "em", "font", "i", "img", "ins", "kbd",
         "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "td",
         "th", "time", "tt", "u", "var", "wbr"}
    )  # fmt: skip

    _WORD_BLOCKS = frozenset({"w:p", "w:br", "w:cr", "w:tr", "w:body", "w:document"})

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.kept: list[str] = []
        """What is in the page, and not seen."""
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.kept += [value for _, value in attrs if value and len(value) > SHORTEST_KEPT]
        if tag in self._HIDDEN:
            self.hidden += 1
        elif tag == "body":  # a head need not be closed
            self.hidden = 0
        elif not self._is_inline(tag):
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._HIDDEN:
            self.hidden = max(0, self.hidden - 1)
        elif tag in ("td", "th"):
            self.parts.append("\t")
        elif not self._is_inline(tag) and tag != "br":
            # A fence, as in Markdown: what follows a listing is not part of it.
            self.parts.append("\n```\n" if tag == "pre" else "\n")

    def _is_inline(self, tag: str) -> bool:
        """Say whether a line goes on; of Word's own tags all but a few are within one."""
        return tag in self._INLINE or (tag.startswith("w:") and tag not in self._WORD_BLOCKS)

    def unknown_decl(self, data: str) -> None:
        if data.startswith("CDATA["):
            self.handle_data(f"\n{data[6:]}\n```\n")

    def handle_data(self, data: str) -> None:
        (self.kept if self.hidden else self.parts).append(data)


SHORTEST_KEPT = 40
"""Characters that an attribute must have to hold what a program printed."""


MOST_TAGS = 1_000_000
"""A page of more is read without its structure, which would take minutes."""


def page_texts(text: str) -> tuple[str, list[str]]:
    """Read a page as people see it, and what else it holds: scripts and attributes."""
    page = _Page()
    try:
        if text.count("<") > MOST_TAGS:
            raise ValueError
        page.feed(text)
        page.close()
    except (AssertionError, ValueError):  # html.parser on what only resembles a page
        return html.unescape(re.sub(r"<[^<>\n]{1,400}>", "", text)), []
    return "".join(page.parts).replace("\N{NO-BREAK SPACE}", " "), page.kept


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
