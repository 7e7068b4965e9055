"""Box plots of runs side by side, and the table that belongs to them: ``speed_benchmark``."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from trtbench.domain.result import Run
from trtbench.domain.samples import Column
from trtbench.report.cells import number_cell
from trtbench.report.charts import Box, Boxes
from trtbench.report.document import Block, Cell, Figure, Heading, table_from_rows
from trtbench.report.headings import RUN_HEADING
from trtbench.report.numbers import UnitScale, text_from_duration
from trtbench.report.picture_runs import Drawn, words_beyond
from trtbench.report.run_facts import headline_summary, overlapping, words_on_protocols
from trtbench.report.sampling import View, view_of

MOST_BOXES = 40
BOXES_WITH_TABLE = 4
"""More columns than this do not fit below a picture."""
MOST_OUTLIERS = 60
BOX_CAPTION = "Box: quartiles and median. Whiskers: last sample within 1.5 box lengths."

HEADINGS = (
    RUN_HEADING,
    *(
        Heading(key=f"{key}_s", title=title, align="right")
        for key, title in (
            ("mean", "Mean"), ("std", "Std"), ("median", "Median"), ("p95", "p95"), ("p99", "p99"),
            ("min", "Min"), ("max", "Max"),
        )
    ),
    Heading(key="fps", title="FPS", align="right"),
)  # fmt: skip


def speed_blocks(drawn: Drawn) -> list[Block]:
    """Draw runs as boxes, and list the numbers of all runs below them."""
    unit = (drawn.unit, drawn.scale)
    rows: list[tuple[Cell | str, ...]] = [
        (name, *_numbers(run, unit)) for name, run in zip(drawn.names, drawn.runs, strict=True)
    ]
    caption = (
        "FPS is the batch over the mean latency: items per second, one query at a time. It is not "
        "told where queries overlap: see the items per second of the summary."
    )
    table = table_from_rows("speed_benchmark", headings=HEADINGS, rows=rows, caption=caption)
    return [_figure(drawn.part(0, MOST_BOXES), rows), table]


def _figure(part: Drawn, rows: Sequence[tuple[Cell | str, ...]]) -> Figure:
    view = view_of(part.columns)
    boxes = tuple(
        _box(name, role, column, view, part)
        for name, role, column in zip(part.names, part.roles, part.columns, strict=True)
    )
    return Figure(
        id="speed_benchmark",
        title="Runs side by side" if len(boxes) > 1 else "Latency as a box",
        chart=Boxes(
            value=part.axis(view),
            boxes=boxes,
            statistics=_statistics(rows) if len(rows) <= BOXES_WITH_TABLE else (),
        ),
        caption=" ".join(filter(None, (BOX_CAPTION, words_on_protocols(part.runs)))),
    )


def _statistics(rows: Sequence[tuple[Cell | str, ...]]) -> tuple[tuple[str, ...], ...]:
    """Turn the table on its side: a row per statistic, a column per box."""
    return tuple(
        (heading.title, *(_shown(row[place]) for row in rows))
        for place, heading in enumerate(HEADINGS)
        if place
    )


def _shown(cell: Cell | str) -> str:
    return cell if isinstance(cell, str) else cell.shown


def _numbers(run: Run, unit: UnitScale) -> list[Cell]:
    head = headline_summary(run)
    if head is None:
        return [Cell()] * (len(HEADINGS) - 1)
    tails = [head.quantile(q) for q in (0.95, 0.99)]
    values = [
        (head.mean, None),
        (head.std, None),
        (head.median, head.median_interval),
        *((tail.value, tail.interval) for tail in tails),
        (head.min, None),
        (head.max, None),
    ]
    items = run.record.known_items
    fps = items / head.mean if items and head.mean and not overlapping(run) else None
    return [
        *(
            Cell(
                value=value if value is None or np.isfinite(value) else None,
                text=text_from_duration(value, bounds=bounds, unit=unit),
            )
            for value, bounds in values
        ),
        number_cell(fps),
    ]


def _box(name: str, role: str, column: Column, view: View, drawn: Drawn) -> Box:
    q1, median, q3 = (float(q) for q in np.quantile(column, (0.25, 0.5, 0.75)))
    reach = 1.5 * (q3 - q1)
    inside = column[(column >= q1 - reach) & (column <= q3 + reach)]
    low, high = float(inside.min()), float(inside.max())
    outside = np.sort(column[((column < low) | (column > high)) & (column <= view.high)])
    most = min(MOST_OUTLIERS, len(outside))
    shown = outside[np.linspace(0, len(outside) - 1, most).astype(int)]
    return Box(
        name=name,
        role=role,
        low=low,
        q1=q1,
        median=median,
        q3=q3,
        high=high,
        outliers=tuple(shown.tolist()),
        beyond=words_beyond(column, view, drawn),
    )
