"""Check that every link, picture and script of a built site that stays within it leads somewhere,
and that flags and quotes are shown as they are typed.

``python tools/check_links.py build/docs``: status 1 and a line for each one that does not.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """What a page links to, and what can be linked to in it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()
        self.retyped: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.add(value)
            elif name in ("id", "name") and value:
                self.places.add(value)

    def handle_data(self, data: str) -> None:
        self.retyped |= set(re.findall(r".*(?:[“”‘’]|(?<!\w)–[a-z]).*", data))


def broken_links(folder: Path) -> list[str]:
    """List the links that lead nowhere, with the page they stand on."""
    pages = {path.resolve(): Page(path) for path in sorted(folder.rglob("*.html"))}
    broken = []
    for path, page in pages.items():
        where = path.relative_to(folder.resolve())
        broken += [f"{where}: not as typed: {line}" for line in sorted(page.retyped)]
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            lost = place and target in pages and place not in pages[target].places
            if not target.is_file() or lost:
                broken.append(f"{where}: {link}")
    return broken


if __name__ == "__main__":
    found = broken_links(Path(sys.argv[1]))
    print(*found, f"{len(found)} broken links", sep="\n")
    sys.exit(1 if found else 0)
