"""The visible text of web pages and other marked-up documents."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser


class _Page(HTMLParser):
    """Gathers the visible text of a page; blocks end lines, and nothing of a script counts."""

    _HIDDEN = frozenset({"script", "style", "head", "template"})
    _INLINE = frozenset(
        {"a", "abbr", "b", "big", "cite", "code", "del", "em", "font", "i", "img", "ins", "kbd",
         "label", "mark", "q", "s", "samp", "small", "span", "strike", "strong", "sub", "sup", "td",
         "th", "time", "tt", "u", "var", "wbr"}
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self.hidden = 0

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in self._HIDDEN:
            self.hidden += 1
        elif tag == "body":  # a head need not be closed
            self.hidden = 0
        elif tag not in self._INLINE:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._HIDDEN:
            self.hidden = max(0, self.hidden - 1)
        elif tag not in self._INLINE and tag != "br":
            # A fence, as in Markdown: what follows a listing is not part of it.
            self.parts.append("\n```\n" if tag == "pre" else "\n")

    def unknown_decl(self, data: str) -> None:
        if data.startswith("CDATA["):
            self.handle_data(f"\n{data[6:]}\n```\n")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.parts.append(data)


def text_from_page(text: str) -> str:
    """Read a page as people see it."""
    page = _Page()
    try:
        page.feed(text)
        page.close()
    except (AssertionError, ValueError):  # html.parser on what only resembles a page
        return html.unescape(re.sub(r"<[^>\n]{1,400}>", "", text))
    return "".join(page.parts).replace("\N{NO-BREAK SPACE}", " ")
