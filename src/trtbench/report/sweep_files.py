"""The rows of a sweep as toolkit 002 prints them, as CSV, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence

from trtbench.analysis.sweep import SweepRow, quantities, quantities_of
from trtbench.domain.codec import json_from_value
from trtbench.domain.result import Score
from trtbench.report.csv_lines import csv_from_lines
from trtbench.report.numbers import text_from_number

MIB = 2**20
HEAD = (
    "Model", "Latency-all (ms)", "Latency-model (ms)", "inf/s", "size (MB)",
    "accuracy (Prec@1) (%)", "accuracy (Prec@5) (%)", "# layers", "# parameters",
)  # fmt: skip
NOTE = (
    "Latency-all is the mean / maximum per batch as the host sees it, Latency-model the same of "
    "GPU time, where a runtime tells it. The mark ★ is for rows that no other one beats in "
    "latency, throughput and accuracy."
)


def markdown_from_rows(rows: Sequence[SweepRow], *, title: str) -> str:
    """Write a table for every model and batch size; a case that failed is a row with its reason."""
    lines = [f"# {title}", "", NOTE, ""]
    for model in dict.fromkeys(row.model for row in rows):
        lines += [f"## {model}", ""]
        mine = [row for row in rows if row.model == model]
        for batch in dict.fromkeys(row.batch for row in mine):
            lines += [f"### Batch Size {batch}" if batch else "### As the model says", ""]
            lines += _table([row for row in mine if row.batch == batch])
            lines.append("")
    return "\n".join(lines)


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
         "on_front": row.on_front, "summary": row.summary, "scores": row.scores}
        for row in rows
    ]  # fmt: skip
    return json_from_value({"title": title, "rows": document}).decode()


def _table(rows: Sequence[SweepRow]) -> list[str]:
    lines = ["| " + " | ".join(HEAD) + " |", "|" + "---|" * len(HEAD)]
    return [*lines, *("| " + " | ".join(_cells(row)) + " |" for row in rows)]


def _cells(row: SweepRow) -> list[str]:
    mark = " ★" if row.on_front else ""
    name = _plain(row.label + mark)
    if row.reason is not None:
        return [name, f"failed: {_plain(row.reason)}", *([""] * (len(HEAD) - 2))]
    items = row.summary.items_per_s if row.summary else None
    return [
        name,
        _pair(row, row.headline),
        _pair(row, "gpu"),
        text_from_number(items) if items is not None else "–",
        f"{row.size_bytes / MIB:.1f}" if row.size_bytes else "–",
        *(_accuracy(row.scores.get(metric)) for metric in ("top1", "top5")),
        str(row.layers) if row.layers is not None else "–",
        str(row.parameters) if row.parameters is not None else "–",
    ]


def _pair(row: SweepRow, column: str | None) -> str:
    found = row.column(column) if column else None
    if found is None:
        return "–"
    digits = 1 if found.mean >= 0.01 else 3
    return f"{found.mean * 1e3:.{digits}f} / {found.max * 1e3:.{digits}f}"


def _accuracy(score: Score | None) -> str:
    return f"{100 * score.value:.2f}" if score is not None else "–"


def _plain(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
