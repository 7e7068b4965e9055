"""Which letters the fonts of this machine have, and text made of those."""

from __future__ import annotations

from functools import lru_cache

from matplotlib.font_manager import FontProperties, findfont, fontManager
from matplotlib.ft2font import FT2Font

from trtbench.report import style

UNKNOWN = "□"


@lru_cache(maxsize=1)
def families() -> list[str]:
    """List the preferred fonts that are here; DejaVu Sans comes with matplotlib."""
    here = set(fontManager.get_font_names())
    return [name for name in style.FONTS if name in here] or ["DejaVu Sans"]


def families_for(text: str) -> list[str]:
    """List the fonts a text needs; asking every font for every letter takes time."""
    first = families()[:1]
    return first if all(ord(c) in _charmap(first[0]) for c in set(text)) else families()


def printable(text: str) -> str:
    """Replace letters no font here has, and what is no letter, by a box."""
    known = _glyphs()
    return "".join(c if c == "\n" or (c >= " " and ord(c) in known) else UNKNOWN for c in text)


@lru_cache(maxsize=1)
def _glyphs() -> frozenset[int]:
    return frozenset(code for name in families() for code in _charmap(name))


@lru_cache
def _charmap(family: str) -> frozenset[int]:
    return frozenset(FT2Font(findfont(FontProperties(family=family))).get_charmap())
