"""The rows of a sweep for programs: as CSV and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.sweep import SweepRow, quantities, quantities_of
from trtbench.domain.codec import json_from_value
from trtbench.report.csv_lines import csv_from_lines


def csv_from_rows(rows: Sequence[SweepRow]) -> str:
    """Write one line per case, in seconds, bytes and per cent."""
    names = quantities(rows)
    tail = ("interval_low", "interval_high", "launches", "on_front", "reason", "remark", "runs")
    return csv_from_lines([*names, *tail], (_line(row, names) for row in rows))


def _line(row: SweepRow, names: Sequence[str]) -> list[object]:
    values, interval = quantities_of(row), row.interval
    return [
        *(values.get(name) for name in names),
        interval.low if interval else None,
        interval.high if interval else None,
        row.summary.launches if row.summary else None,
        int(row.on_front),
        row.reason,
        row.remark,
        " ".join(row.runs),
    ]


def json_from_rows(rows: Sequence[SweepRow], *, title: str) -> str:
    """Write the rows with all their statistics."""
    document = [
        {**quantities_of(row), "reason": row.reason, "remark": row.remark, "runs": row.runs,
         "on_front": row.on_front, "summary": row.summary, "scores": row.scores,
         "findings": [f"{each.code} {each.message}" for each in row.findings]}
        for row in rows
    ]  # fmt: skip
    return json_from_value({"title": title, "rows": document}).decode()
