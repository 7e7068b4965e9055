"""An engine as a drawing: its layers as boxes, to be opened in a browser."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import escape
from importlib import resources
from typing import Literal

from trtbench.core.safety import clean_line, clean_text
from trtbench.core.units import (
    text_from_bytes,
    text_from_duration,
    text_from_share,
)
from trtbench.layers.table import BOX_H, BOX_W, COLUMN_GAP, Layer, LayerTable, place
from trtbench.report import charts
from trtbench.report.charts import OTHER, PAPER

MARGIN = 24.0
HEAD = 46.0
"""Room for the legend and the names of columns."""
LETTERS = 27
"""Of a name that fit into a box."""
PALE, HOT = (0xF4, 0xF6, 0xF8), (0xD5, 0x5E, 0x00)

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


def box(layer: Layer, x: float, y: float, words: str, key: str, colours: Sequence[str]) -> str:
    """Draw one layer; its facts are in the title, which is shown when it is clicked.

    ``colours`` are those to choose from in a browser, the one that is drawn first.
    """
    fill = colours[0]
    red, green, blue = (int(fill[place : place + 2], 16) for place in (1, 3, 5))
    light = ' class="light"' if 0.3 * red + 0.59 * green + 0.11 * blue < 140 else ""
    name = escape(_shortened(clean_line(layer.name)))
    return (
        f'<g class="layer" id="{key}" data-colours="{" ".join(colours)}">'
        f"<title>{escape(_facts(layer))}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{BOX_W:g}" height="{BOX_H:g}" fill="{fill}"/>'
        f'<text x="{x + 6:.1f}" y="{y + 14:.1f}"{light}>{name}</text>'
        f'<text x="{x + 6:.1f}" y="{y + 28:.1f}"{light}>{escape(words)}</text></g>'
    )


def edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Draw who feeds whom, between the upper left corners of two boxes.

    To the next rank straight down, over others beside them, to another column from side to side.
    """
    (x1, y1), (x2, y2) = start, end
    beside, half = abs(x2 - x1) < BOX_W, BOX_H / 2
    if beside and 0 < y2 - y1 < 2 * BOX_H:
        middle = BOX_W / 2
        a, b = (x1 + middle, y1 + BOX_H), (x2 + middle, y2)
        return _curve(a, (a[0], a[1] + 12), (b[0], b[1] - 12), b)
    if beside and y2 > y1:
        right = max(x1, x2) + BOX_W + min(COLUMN_GAP * 0.45, 14 + (y2 - y1) / 12)
        top, bottom = y1 + half, y2 + half
        return _curve((x1 + BOX_W, top), (right, top), (right, bottom), (x2 + BOX_W, bottom))
    a, b = (x1 + BOX_W, y1 + half), (x2, y2 + half)
    way = 40.0
    if x2 <= x1:
        a, b, way = (x1, a[1]), (x2 + BOX_W, b[1]), -40.0
    return _curve(a, (a[0] + way, a[1]), (b[0] - way, b[1]), b)


def _curve(*points: tuple[float, float]) -> str:
    (x, y), *others = points
    rest = " ".join(f"{a:.1f} {b:.1f}" for a, b in others)
    return f'<path class="edge" d="M{x:.1f} {y:.1f}C{rest}"/>'


def frame(
    parts: Iterable[str],
    *,
    width: float,
    height: float,
    title: str,
    legend: Sequence[tuple[str, str]],
    choices: Sequence[str],
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
    options = "".join(f"<option>{escape(each)}</option>" for each in choices)
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="engine" width="100%" height="100%" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" tabindex="0" role="img" '
        f'aria-label="{title}"><style>{_STYLE}</style><title>{title}</title>'
        f'<g class="world"><g class="keys" transform="translate({MARGIN:g} {MARGIN:g})">{keys}</g>'
        f'<g transform="translate({MARGIN:g} {MARGIN + HEAD:g})">\n{body}\n</g></g>'
        '<foreignObject x="8" y="8" width="420" height="460">'
        '<div xmlns="http://www.w3.org/1999/xhtml">'
        '<input type="search" placeholder="Search; Enter goes on" aria-label="Search layers"/>'
        f'<select aria-label="Colours">{options}</select>'
        '<div class="panel" hidden="hidden"></div></div></foreignObject>'
        f"<script><![CDATA[\n{_script()}\n]]></script></svg>\n"
    )


def _facts(layer: Layer) -> str:
    """Write a layer's row as lines."""
    types = f"{layer.precision_in or '?'}, {layer.precision_out or '?'}"
    known = {
        "layer": f"{layer.index}",
        "kind": layer.kind,
        "role": layer.role if layer.role != "compute" else None,
        "time": text_from_duration(layer.time_s) if layer.time_s is not None else None,
        "share": text_from_share(layer.share) if layer.share is not None else None,
        "computes in": layer.precision,
        "takes, gives": types if layer.precision_in or layer.precision_out else None,
        "output": layer.shape_out,
        "of the roofline": text_from_share(layer.roofline) if layer.roofline else None,
        "bound by": layer.bound,
        "FLOPs": f"{layer.flops:.3g}" if layer.flops else None,
        "moves": text_from_bytes(layer.traffic_bytes) if layer.traffic_bytes else None,
        "tactic": layer.tactic,
        "ONNX": ", ".join(layer.nodes),
    }
    lines = [f"{name}: {value}" for name, value in known.items() if value]
    return clean_text("\n".join([layer.name, *lines]), keep="\n")


def heat(part: float) -> str:
    """Mix a colour from pale (0) to hot (1)."""
    return _mixed(PALE, HOT, max(0.0, min(1.0, part)) ** 0.5)


def precision_colour(precision: str | None) -> str:
    """Write the colour that a type has in every figure."""
    return charts.colour(precision) if precision in charts.ROLES else charts.OTHER


def _mixed(one: tuple[int, int, int], other: tuple[int, int, int], part: float) -> str:
    mixed = (round(a + (b - a) * part) for a, b in zip(one, other, strict=True))
    return "#" + "".join(f"{value:02X}" for value in mixed)


def _shortened(name: str) -> str:
    return name if len(name) <= LETTERS else f"{name[:12]}…{name[-(LETTERS - 13) :]}"


@lru_cache(maxsize=1)
def _script() -> str:
    return (resources.files("trtbench.report.renderers") / "_html" / "drawing.js").read_text(
        encoding="utf-8"
    )


Colour = Literal["time", "precision", "roofline"]
COLOURS: tuple[Colour, ...] = ("time", "precision", "roofline")


def svg_from_engine(table: LayerTable, *, title: str, colour: Colour = "time") -> str:
    """Draw an engine."""
    placed = place(table)
    at = {each.layer: (each.x, each.y) for each in placed.boxes}
    hottest = max((layer.share or 0.0 for layer in table.layers), default=0.0)
    order = [colour, *(each for each in COLOURS if each != colour)]

    def fill(layer: Layer, by: Colour) -> str:
        if by == "precision":
            return precision_colour(layer.precision)
        if by == "roofline":
            return OTHER if layer.roofline is None else heat(1 - min(1.0, layer.roofline))
        if layer.share is None:
            return PAPER
        return heat(layer.share / hottest if hottest else 0.0)

    parts = [edge(at[begin], at[end]) for begin, end in placed.edges]
    for each in placed.boxes:
        layer = table.layers[each.layer]
        colours = [fill(layer, by) for by in order]
        share = text_from_share(layer.share) if layer.share is not None else None
        time = text_from_duration(layer.time_s) if layer.time_s is not None else None
        what = layer.precision or (layer.role if layer.role != "compute" else None)
        words = " · ".join(filter(None, (time, share, what)))
        parts.append(box(layer, each.x, each.y, words, f"L{each.layer}", colours))
    seen = dict.fromkeys(layer.precision for layer in table.layers if layer.precision)
    legends = {
        "time": [("no time", heat(0)), (f"{text_from_share(hottest)} of all", heat(1))],
        "precision": [
            *((each, precision_colour(each)) for each in seen), ("converts, or unknown", OTHER)
        ],
        "roofline": [("at the roof", heat(0)), ("far from it", heat(1)), ("not known", OTHER)],
    }  # fmt: skip
    return frame(
        parts,
        width=placed.width,
        height=placed.height,
        title=title,
        legend=legends[colour],
        choices=[f"colour: {each}" for each in order],
    )
