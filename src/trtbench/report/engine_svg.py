"""Draws the layers of an engine as an SVG graph for a browser."""

from html import escape
from typing import Literal

from trtbench.core.safety import clean_line, clean_text
from trtbench.core.units import text_from_duration, text_from_share
from trtbench.layers import table as tables
from trtbench.layers.diff import rows_from_layers
from trtbench.layers.table import BOX_H, BOX_W, COLUMN_GAP, Layer, LayerTable, place_layers
from trtbench.report.charts import OTHER, PAPER, ROLES
from trtbench.report.renderers.html import asset
from trtbench.report.run_facts import title_of_key, value_text

MARGIN = 24.0
HEAD = 46.0  # height of the legend
Colour = Literal["time", "precision", "roofline"]
COLOURS: tuple[Colour, ...] = ("time", "precision", "roofline")


def svg_from_engine(table: LayerTable, *, title: str, colour: Colour = "time") -> str:
    """Return an SVG of the layers of an engine; it is also readable without scripts."""
    placed = place_layers(table)
    hottest = max((layer.share or 0.0 for layer in table.layers), default=0.0)
    # What box colours can show; the first is the initial choice.
    order = [colour, *(each for each in COLOURS if each != colour)]

    def fill(layer: Layer, by: Colour) -> str:
        if by == "precision":
            return ROLES.get(layer.precision or "", OTHER)
        if by == "roofline":
            return OTHER if layer.roofline is None else _heat(1 - min(1.0, layer.roofline))
        if layer.share is None:
            return PAPER
        return _heat(layer.share / hottest if hottest else 0.0)

    parts = [_edge(placed.corners[begin], placed.corners[end]) for begin, end in placed.edges]
    drawn = [clean_line(table.layers[index].name) for index in placed.corners]
    labels = tables.layer_labels(drawn, length=27)
    for (index, corner), label in zip(placed.corners.items(), labels, strict=True):
        layer = table.layers[index]
        parts.append(_box(layer, corner, label, [fill(layer, by) for by in order]))
    seen = dict.fromkeys(layer.precision for layer in table.layers if layer.precision)
    legends = {
        "time": [("no time", _heat(0)), (f"{text_from_share(hottest)} of total", _heat(1))],
        "precision": [
            *((each, ROLES.get(each, OTHER)) for each in seen), ("conversion or unknown", OTHER)
        ],
        "roofline": [("at roofline", _heat(0)), ("far below", _heat(1)), ("unknown", OTHER)],
    }  # fmt: skip
    keys = "".join(
        f'<g class="key"><rect x="{place * 130:g}" y="0" width="14" height="14" fill="{shade}"/>'
        f'<text x="{place * 130 + 20:g}" y="12">{escape(words)}</text></g>'
        for place, (words, shade) in enumerate(legends[colour])
    )
    options = "".join(f"<option>colour: {each}</option>" for each in order)
    title, body, script = escape(clean_line(title)), "\n".join(parts), asset("drawing.js")
    wide, high = placed.width + 2 * MARGIN, placed.height + 2 * MARGIN + HEAD
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="engine" width="100%" height="100%" '
        f'viewBox="0 0 {wide:.0f} {high:.0f}" tabindex="0" role="img" '
        f'aria-label="{title}"><style>{asset("drawing.css")}</style><title>{title}</title>'
        f'<g class="world"><g class="keys" transform="translate({MARGIN:g} {MARGIN:g})">{keys}</g>'
        f'<g transform="translate({MARGIN:g} {MARGIN + HEAD:g})">\n{body}\n</g></g>'
        '<foreignObject x="8" y="8" width="420" height="460">'
        '<div xmlns="http://www.w3.org/1999/xhtml">'
        '<input type="search" placeholder="Search; Enter for next" aria-label="Search layers"/>'
        f'<select aria-label="Colours">{options}</select>'
        '<div class="panel" hidden="hidden"></div></div></foreignObject>'
        f"<script><![CDATA[\n{script}\n]]></script></svg>\n"
    )


def _box(layer: Layer, corner: tuple[float, float], label: str, colours: list[str]) -> str:
    """Draw one layer in the first colour; a click shows the facts in its title."""
    x, y = corner
    time = text_from_duration(layer.time_s) if layer.time_s is not None else None
    share = text_from_share(layer.share) if layer.share is not None else None
    role = layer.role if layer.role != "compute" else None
    row = rows_from_layers([layer])[0]
    known = [f"{title_of_key(key)}: {value_text(key, row[key])}" for key in row if row[key]]
    lines = [layer.name, *(each for each in known if not each.startswith("name:"))]
    facts = clean_text("\n".join(lines), keep="\n")
    red, green, blue = (int(colours[0][place : place + 2], 16) for place in (1, 3, 5))
    light = ' class="light"' if 0.3 * red + 0.59 * green + 0.11 * blue < 140 else ""
    words = " · ".join(filter(None, (time, share, layer.precision or role)))
    return (
        f'<g class="layer" id="L{layer.index}" data-colours="{" ".join(colours)}">'
        f"<title>{escape(facts)}</title>"
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{BOX_W:g}" height="{BOX_H:g}" fill="{colours[0]}"/>'
        f'<text x="{x + 6:.1f}" y="{y + 14:.1f}"{light}>{escape(label)}</text>'
        f'<text x="{x + 6:.1f}" y="{y + 28:.1f}"{light}>{escape(words)}</text></g>'
    )


def _edge(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Draw a connection between two boxes, given by their upper left corners.

    It goes down to the next row, around boxes in between, or sideways to another column.
    """
    (x1, y1), (x2, y2) = start, end
    beside, top, bottom = abs(x2 - x1) < BOX_W, y1 + BOX_H / 2, y2 + BOX_H / 2
    if beside and 0 < y2 - y1 < 2 * BOX_H:
        a, b = x1 + BOX_W / 2, x2 + BOX_W / 2
        points = ((a, y1 + BOX_H), (a, y1 + BOX_H + 12), (b, y2 - 12), (b, y2))
    elif beside and y2 > y1:
        right = max(x1, x2) + BOX_W + min(COLUMN_GAP * 0.45, 14 + (y2 - y1) / 12)
        points = ((x1 + BOX_W, top), (right, top), (right, bottom), (x2 + BOX_W, bottom))
    else:
        a, b, way = (x1 + BOX_W, x2, 40.0) if x2 > x1 else (x1, x2 + BOX_W, -40.0)
        points = ((a, top), (a + way, top), (b - way, bottom), (b, bottom))
    first, *others = (f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path class="edge" d="M{first}C{" ".join(others)}"/>'


def _heat(part: float) -> str:
    """Return a colour between pale (0) and red (1)."""
    part = max(0.0, min(1.0, part)) ** 0.5
    ends = zip((0xF4, 0xF6, 0xF8), (0xD5, 0x5E, 0x00), strict=True)
    return "#" + "".join(f"{round(pale + (hot - pale) * part):02X}" for pale, hot in ends)
