"""Two profiled runs in a report: the way from one sum to the other, layer beside layer, and why."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.layers.difference import difference
from trtbench.analysis.layers.facts import facts_from_run
from trtbench.analysis.layers.layer import LayerTable
from trtbench.analysis.layers.why import why
from trtbench.domain.result import Run
from trtbench.report.document import Block, Details, Drawing, Text
from trtbench.report.documents.engine_diff import changes_table, totals, waterfall
from trtbench.report.documents.why import causes_table
from trtbench.report.drawing.engines import svg_from_diff

MOST_PAIRS = 3
"""Runs that are set against the first; a report of many runs has tables enough."""
MOST_DRAWN = 800


def diff_blocks(
    named: Sequence[tuple[str, Run, LayerTable]],
) -> list[Block]:
    """Set each profiled run against the first one, where both know their layers."""
    timed = [each for each in named if each[2].timed]
    blocks: list[Block] = []
    for number, other in enumerate(timed[1 : 1 + MOST_PAIRS], 2):
        blocks += _pair(timed[0], other, suffix="" if len(timed) == 2 else f"_{number}")
    return blocks


def _pair(
    one: tuple[str, Run, LayerTable], other: tuple[str, Run, LayerTable], *, suffix: str
) -> list[Block]:
    (label_a, run_a, a), (label_b, run_b, b) = one, other
    facts = facts_from_run(run_a), facts_from_run(run_b)
    diff = difference(a, b)
    if not any(each.by != "none" for each in diff.changes):
        return []  # another network: nothing stands beside anything
    labels = label_a, label_b
    found = why(a, b, baseline=facts[0], candidate=facts[1])
    figure = waterfall(diff, labels, id=f"layers_waterfall{suffix}")
    blocks: list[Block] = [
        Text(text=f"A is {label_a}, B is {label_b}. Layers are aligned by the ONNX nodes they came "
             "from, then by name, then by their place."),
        *totals(diff, (facts[0].gpu_s, facts[1].gpu_s)),
        *((figure,) if figure else ()),
    ]  # fmt: skip
    if found is not None and found.causes:
        blocks.append(causes_table(found, id=f"layers_why{suffix}"))
    blocks.append(
        Details(
            summary=f"All layers of {label_a} and {label_b} side by side",
            blocks=(changes_table(diff, top=None, id=f"layers_diff{suffix}"),),
        )
    )
    if len(diff.changes) <= MOST_DRAWN:
        svg = svg_from_diff(diff, a, b, labels=labels, in_page=True)
        title = f"{label_a} and {label_b}, layer beside layer"
        drawing = Drawing(id=f"layers_both{suffix}", title=title, svg=svg)
        blocks.append(Details(summary="Both engines in one drawing", blocks=(drawing,)))
    return blocks
