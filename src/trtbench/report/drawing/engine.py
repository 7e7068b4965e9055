"""One engine as a picture: its layers as boxes, coloured by time, precision or roofline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from trtbench.analysis.layers.layer import Layer, LayerTable
from trtbench.analysis.layers.placement import Placement, place
from trtbench.report.drawing.svg import box, edge, frame, heat, precision_colour
from trtbench.report.numbers import text_from_duration, text_from_share
from trtbench.report.style import OTHER, PAPER

Colour = Literal["time", "precision", "roofline"]
COLOURS: tuple[Colour, ...] = ("time", "precision", "roofline")


def svg_from_engine(
    table: LayerTable,
    *,
    title: str,
    colour: Colour = "time",
    placement: Placement | None = None,
    prefix: str = "L",
    in_page: bool = False,
) -> str:
    """Draw an engine; ``placement`` is where another program put the boxes."""
    placed = placement or place(table)
    at = {each.layer: (each.x, each.y) for each in placed.boxes}
    hottest = max((layer.share or 0.0 for layer in table.layers), default=0.0)
    order = [colour, *(each for each in COLOURS if each != colour)]
    lines = [edge(at[begin], at[end]) for begin, end in placed.edges]
    boxes = [
        box(
            table.layers[each.layer],
            each.x,
            each.y,
            fill=_fill(table.layers[each.layer], colour, hottest),
            words=_words(table.layers[each.layer]),
            key=f"{prefix}{each.layer}",
            colours=[_fill(table.layers[each.layer], one, hottest) for one in order],
        )
        for each in placed.boxes
    ]
    return frame(
        [*lines, *boxes],
        width=placed.width,
        height=placed.height,
        title=title,
        legend=_legend(table, colour, hottest),
        choices=[f"colour: {each}" for each in order],
        in_page=in_page,
    )


def _fill(layer: Layer, colour: Colour, hottest: float) -> str:
    if colour == "precision":
        return precision_colour(layer.precision)
    if colour == "roofline":
        return OTHER if layer.roofline is None else heat(1 - min(1.0, layer.roofline))
    if layer.share is None:
        return PAPER
    return heat(layer.share / hottest if hottest else 0.0)


def _words(layer: Layer) -> str:
    time = text_from_duration(layer.time_s) if layer.time_s is not None else None
    share = text_from_share(layer.share) if layer.share is not None else None
    what = layer.precision or (layer.role if layer.role != "compute" else None)
    return " · ".join(part for part in (time, share, what) if part)


def _legend(table: LayerTable, colour: Colour, hottest: float) -> Sequence[tuple[str, str]]:
    if colour == "precision":
        seen = dict.fromkeys(layer.precision for layer in table.layers if layer.precision)
        return [*((each, precision_colour(each)) for each in seen), ("converts, or unknown", OTHER)]
    if colour == "roofline":
        return [("at the roof", heat(0)), ("far from it", heat(1)), ("not known", OTHER)]
    return [("no time", heat(0)), (f"{text_from_share(hottest)} of all", heat(1))]
