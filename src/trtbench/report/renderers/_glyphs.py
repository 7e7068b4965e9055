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


def printable(text: str) -> str:
    """Replace letters no font here has by a box."""
    known = _glyphs()
    return "".join(c if ord(c) in known or c == "\n" else UNKNOWN for c in text)


@lru_cache(maxsize=1)
def _glyphs() -> frozenset[int]:
    fonts = (findfont(FontProperties(family=name)) for name in families())
    return frozenset(code for path in fonts for code in FT2Font(path).get_charmap())
