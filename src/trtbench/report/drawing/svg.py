"""The parts every drawing is made of: boxes, lines, colours, and the frame around them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import escape
from importlib import resources

from trtbench.analysis.layers.layer import Layer
from trtbench.analysis.layers.placement import BOX_H, BOX_W, COLUMN_GAP
from trtbench.boundary.texts import clean_line, clean_text
from trtbench.report import style
from trtbench.report.numbers import text_from_duration, text_from_share
from trtbench.units import text_from_bytes

MARGIN = 24.0
HEAD = 46.0
"""Room for the legend and the names of columns."""
LETTERS = 27
"""Of a name that fit into a box."""
PALE, HOT = (0xF4, 0xF6, 0xF8), (0xD5, 0x5E, 0x00)
COLD = (0x00, 0x9E, 0x73)

_STYLE = """
svg.engine{font:11px DejaVu Sans,Noto Sans,sans-serif;background:#fff;color:#1F2933}
.engine .layer{cursor:pointer}.engine .layer rect{stroke:#6B7280;stroke-width:.8;rx:4}
.engine .layer.chosen rect{stroke:#0072B2;stroke-width:3}.engine .faint{opacity:.15}
.engine .edge{fill:none;stroke:#9AA5B4;stroke-width:1}
.engine text{fill:#1F2933}.engine text.light{fill:#fff}.engine .key{font-size:12px}
.engine foreignObject{display:none}.engine input{font:13px sans-serif;width:240px;padding:4px}
.engine .panel{background:#fff;border:1px solid #9AA5B4;padding:6px;margin:4px 0 0;
max-height:380px;overflow:auto;white-space:pre-wrap;overflow-wrap:anywhere}
"""


def box(
    layer: Layer,
    x: float,
    y: float,
    *,
    fill: str,
    words: str,
    key: str,
    colours: Sequence[str] = (),
) -> str:
    """Draw one layer; its facts are in the title, which is shown when it is clicked.

    ``colours`` are further colours to choose from in a browser.
    """
    light = ' class="light"' if is_dark(fill) else ""
    more = f' data-colours="{" ".join(colours)}"' if colours else ""
    name = escape(_shortened(clean_line(layer.name)))
    return (
        f'<g class="layer" id="{key}"{more}><title>{escape(facts_of(layer))}</title>'
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{BOX_W:g}" height="{BOX_H:g}" fill="{fill}"/>'
        f'<text x="{x + 6:.1f}" y="{y + 14:.1f}"{light}>{name}</text>'
        f'<text x="{x + 6:.1f}" y="{y + 28:.1f}"{light}>{escape(words)}</text></g>'
    )


def edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Draw who feeds whom, between the upper left corners of two boxes.

    To the next rank straight down, over others beside them, to another column from side to side.
    """
    (x1, y1), (x2, y2) = start, end
    beside = abs(x2 - x1) < BOX_W
    if beside and 0 < y2 - y1 < 2 * BOX_H:
        middle = BOX_W / 2
        return _curve((x1 + middle, y1 + BOX_H), (x2 + middle, y2), bend=(0.0, 12.0))
    if beside and y2 > y1:
        right = max(x1, x2) + BOX_W
        out = min(COLUMN_GAP * 0.45, 14 + (y2 - y1) / 12)
        top, bottom = y1 + BOX_H / 2, y2 + BOX_H / 2
        return (
            f'<path class="edge" d="M{x1 + BOX_W:.1f} {top:.1f}C{right + out:.1f} {top:.1f} '
            f'{right + out:.1f} {bottom:.1f} {x2 + BOX_W:.1f} {bottom:.1f}"/>'
        )
    ends = (x1 + BOX_W, x2) if x2 > x1 else (x1, x2 + BOX_W)
    way = 40.0 if x2 > x1 else -40.0
    return _curve((ends[0], y1 + BOX_H / 2), (ends[1], y2 + BOX_H / 2), bend=(way, 0.0))


def _curve(
    start: tuple[float, float], end: tuple[float, float], *, bend: tuple[float, float]
) -> str:
    (x1, y1), (x2, y2), (dx, dy) = start, end, bend
    return (
        f'<path class="edge" d="M{x1:.1f} {y1:.1f}C{x1 + dx:.1f} {y1 + dy:.1f} '
        f'{x2 - dx:.1f} {y2 - dy:.1f} {x2:.1f} {y2:.1f}"/>'
    )


def frame(
    parts: Iterable[str],
    *,
    width: float,
    height: float,
    title: str,
    legend: Sequence[tuple[str, str]],
    heads: Sequence[tuple[float, str]] = (),
    choices: Sequence[str] = (),
    in_page: bool = False,
) -> str:
    """Put a drawing together; without scripts it shows itself as a whole.

    ``choices`` name what the colours of the boxes can say, the one that is drawn first.
    """
    title = escape(clean_line(title))
    wide, high = width + 2 * MARGIN, height + 2 * MARGIN + HEAD
    keys = "".join(
        f'<g class="key"><rect x="{place * 130:g}" y="0" width="14" height="14" fill="{colour}"/>'
        f'<text x="{place * 130 + 20:g}" y="12">{escape(words)}</text></g>'
        for place, (words, colour) in enumerate(legend)
    )
    above = "".join(
        f'<text class="key" x="{x:g}" y="34">{escape(_shortened(clean_line(words)))}</text>'
        for x, words in heads
    )
    options = "".join(f"<option>{escape(each)}</option>" for each in choices)
    select = f'<select aria-label="Colours">{options}</select>' if choices else ""
    body = "\n".join(parts)
    shown = 'height="720" data-in-page="1"' if in_page else 'height="100%"'
    hint = "Search; Enter goes on" + (" (Ctrl and wheel zoom)" if in_page else "")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="engine" width="100%" {shown} '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" tabindex="0" role="img" '
        f'aria-label="{title}"><style>{_STYLE}</style><title>{title}</title>'
        f'<g class="world"><g class="keys" transform="translate({MARGIN:g} {MARGIN:g})">{keys}</g>'
        f'<g transform="translate({MARGIN:g} {MARGIN:g})">{above}</g>'
        f'<g transform="translate({MARGIN:g} {MARGIN + HEAD:g})">\n{body}\n</g></g>'
        '<foreignObject x="8" y="8" width="420" height="460">'
        '<div xmlns="http://www.w3.org/1999/xhtml">'
        f'<input type="search" placeholder="{hint}" aria-label="Search layers"/>{select}'
        '<div class="panel" hidden="hidden"></div></div></foreignObject>'
        f"<script><![CDATA[\n{_script()}\n]]></script></svg>\n"
    )


def facts_of(layer: Layer) -> str:
    """Write a layer's row as lines."""
    pairs = [
        ("layer", f"{layer.index}"),
        ("kind", layer.kind),
        ("role", layer.role if layer.role != "compute" else None),
        ("time", text_from_duration(layer.time_s) if layer.time_s is not None else None),
        ("share", text_from_share(layer.share) if layer.share is not None else None),
        ("computes in", layer.precision),
        ("takes, gives", _types(layer)),
        ("output", layer.shape_out),
        ("of the roofline", text_from_share(layer.roofline) if layer.roofline else None),
        ("bound by", layer.bound),
        ("FLOPs", f"{layer.flops:.3g}" if layer.flops else None),
        ("moves", text_from_bytes(layer.traffic_bytes) if layer.traffic_bytes else None),
        ("tactic", layer.tactic),
        ("ONNX", ", ".join(layer.nodes) or None),
    ]
    known = [f"{name}: {value}" for name, value in pairs if value]
    return clean_text("\n".join([layer.name, *known]), keep="\n")


def _types(layer: Layer) -> str | None:
    if not layer.precision_in and not layer.precision_out:
        return None
    return f"{layer.precision_in or '?'}, {layer.precision_out or '?'}"


def heat(part: float) -> str:
    """Mix a colour from pale (0) to hot (1)."""
    return _mixed(PALE, HOT, max(0.0, min(1.0, part)) ** 0.5)


def change_colour(part: float) -> str:
    """Mix a colour from faster (-1) over pale (0) to slower (1)."""
    return _mixed(PALE, HOT if part > 0 else COLD, min(1.0, abs(part)) ** 0.5)


def precision_colour(precision: str | None) -> str:
    """Write the colour that a type has in every figure."""
    return style.colour(precision) if precision in style.ROLES else style.OTHER


def _mixed(one: tuple[int, int, int], other: tuple[int, int, int], part: float) -> str:
    mixed = (round(a + (b - a) * part) for a, b in zip(one, other, strict=True))
    return "#" + "".join(f"{value:02X}" for value in mixed)


def is_dark(fill: str) -> bool:
    red, green, blue = (int(fill[place : place + 2], 16) for place in (1, 3, 5))
    return 0.3 * red + 0.59 * green + 0.11 * blue < 140


def _shortened(name: str) -> str:
    return name if len(name) <= LETTERS else f"{name[:12]}…{name[-(LETTERS - 13) :]}"


@lru_cache(maxsize=1)
def _script() -> str:
    return (resources.files("trtbench.report.drawing") / "drawing.js").read_text(encoding="utf-8")
