"""Two engines in one picture: aligned layers beside one another, tied by what they became."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtbench.analysis.layers.difference import Change, EngineDiff
from trtbench.analysis.layers.layer import Layer, LayerTable
from trtbench.analysis.layers.placement import BOX_H, BOX_W, GAP_Y, HIDDEN
from trtbench.report.drawing.svg import box, change_colour, frame
from trtbench.report.numbers import text_from_difference, text_from_duration

BETWEEN = 120.0
STEP = BOX_H + GAP_Y / 2


def svg_from_diff(
    diff: EngineDiff,
    a: LayerTable,
    b: LayerTable,
    *,
    labels: tuple[str, str],
    in_page: bool = False,
) -> str:
    """Draw both engines from top to bottom as they run; colours say what got slower or faster."""
    rows = in_order(diff)
    most = max((abs(each.delta_s) for each in rows), default=0.0)
    timed = diff.delta_s is not None
    parts: list[str] = []
    y = 0.0
    for change in rows:
        fill = change_colour(change.delta_s / most if most and timed else 0.0)
        parts += _row(change, a, b, y, fill, timed=timed)
        y += STEP * max(len(change.a), len(change.b), 1)
    legend = [
        ("faster in B", change_colour(-1)), ("slower in B", change_colour(1)),
    ]  # fmt: skip
    return frame(
        parts,
        width=max(2 * BOX_W + BETWEEN, 560.0),
        height=y,
        title=f"{labels[0]} and {labels[1]}",
        legend=legend,
        heads=[(0.0, f"A {labels[0]}"), (BOX_W + BETWEEN, f"B {labels[1]}")],
        in_page=in_page,
    )


def in_order(diff: EngineDiff) -> list[Change]:
    """Put changes in one order that both engines run in as nearly as can be."""
    shown = [each for each in diff.changes if each.role not in HIDDEN]
    both = sorted((each for each in shown if each.a), key=lambda each: min(each.a))
    alone = sorted((each for each in shown if not each.a), key=lambda each: min(each.b))
    placed: list[Change] = []
    for change in both:
        while alone and change.b and min(alone[0].b) < min(change.b):
            placed.append(alone.pop(0))
        placed.append(change)
    return [*placed, *alone]


def _row(
    change: Change, a: LayerTable, b: LayerTable, y: float, fill: str, *, timed: bool
) -> Iterator[str]:
    for number, index in enumerate(change.a):
        yield box(a.layers[index], 0.0, y + number * STEP, fill=fill,
                  words=_words(a.layers[index], None), key=f"A{index}")  # fmt: skip
    delta = change.delta_s if timed else None
    for number, index in enumerate(change.b):
        words = _words(b.layers[index], delta if number == 0 else None)
        yield box(b.layers[index], BOX_W + BETWEEN, y + number * STEP, fill=fill, words=words,
                  key=f"B{index}")  # fmt: skip
    for one in range(len(change.a)):
        for other in range(len(change.b)):
            yield _tie(y, one, other)


def _tie(y: float, one: int, other: int) -> str:
    top, bottom = (y + number * STEP + BOX_H / 2 for number in (one, other))
    middle = BOX_W + BETWEEN / 2
    return (
        f'<path class="edge" d="M{BOX_W:g} {top:.1f}C{middle:g} {top:.1f} {middle:g} '
        f'{bottom:.1f} {BOX_W + BETWEEN:g} {bottom:.1f}"/>'
    )


def _words(layer: Layer, delta: float | None) -> str:
    parts: Sequence[str | None] = (
        text_from_duration(layer.time_s) if layer.time_s is not None else None,
        text_from_difference(delta) if delta else None,
        layer.precision or (layer.role if layer.role != "compute" else None),
    )
    return " · ".join(part for part in parts if part)
