"""How far outputs are from those of a reference, where runs carry numeric checks.

``run.extra["checks"]`` is a sequence of mappings (or values), one per output, with ``output`` and
any numbers; ``run.extra["output_comparison"]`` is the content of ``output_diff.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from trtbench.domain.result import Run, Scalar
from trtbench.report.document import Block, Cell, Heading, KeyValues, Section, Text, table_from_rows
from trtbench.report.labels import labels_from_runs
from trtbench.report.numbers import MISSING

ORDER = 82

MOST_COLUMNS = 14
MOST_FACTS = 60
TITLES = {
    "nan": "NaN", "rmse": "RMSE", "rel_l2": "Rel. L2", "sqnr_db": "SQNR (dB)", "kl": "KL (nats)",
    "kl_max": "KL, most", "js": "JS (nats)", "top5_agreement": "Top-5 sets",
}  # fmt: skip


def make(runs: Sequence[Run]) -> Section | None:
    """Put the checks of all outputs into one table, and list each run's output comparison."""
    named = list(zip(labels_from_runs(runs), runs, strict=True))
    rows = [
        {"run": label, **facts}
        for label, run in named
        for facts in _checks(run.extra.get("checks"))
    ]
    blocks: list[Block] = [_table(rows)] if rows else []
    for number, (label, run) in enumerate(named, start=1):
        told = run.extra.get("output_comparison")
        pairs = list(_flat(told))[:MOST_FACTS] if isinstance(told, (Mapping, list)) else []
        if pairs:
            facts = tuple((name, Cell(value=value, text=_text(value))) for name, value in pairs)
            blocks.append(Text(text=f"Comparison of outputs, {label}:"))
            blocks.append(KeyValues(id=f"output_comparison_{number}", pairs=facts))
    return Section(id="checks", title="Numeric checks", blocks=tuple(blocks)) if blocks else None


def _checks(carried: object) -> Iterator[dict[str, Scalar]]:
    """Read checks from a list of outputs, or from a mapping of outputs to numbers."""
    if isinstance(carried, Mapping):
        carried = [
            {"output": name, **(facts if isinstance(facts, Mapping) else {"value": facts})}
            for name, facts in carried.items()
        ]
    for each in carried if isinstance(carried, (list, tuple)) else ():
        told = msgspec.to_builtins(each)
        facts = dict(_flat(told)) if isinstance(told, Mapping) else {}
        if facts:
            yield facts


def _flat(value: object, prefix: str = "") -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _flat(each, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from _flat(each, f"{prefix}.{place}" if prefix else str(place))
    elif isinstance(value, (str, int, float, bool)):
        yield prefix, value


def _table(rows: Sequence[Mapping[str, Scalar]]) -> Block:
    names = list(dict.fromkeys(name for row in rows for name in row))[:MOST_COLUMNS]
    numeric = {n for n in names if any(_is_number(row.get(n)) for row in rows)}
    headings = tuple(
        Heading(
            key=name,
            title=TITLES.get(name, name.replace("_", " ").capitalize()),
            align="right" if name in numeric else "left",
        )
        for name in names
    )
    cells = [[Cell(value=row.get(n), text=_text(row.get(n))) for n in names] for row in rows]
    return table_from_rows("checks", headings=headings, rows=cells)


def _is_number(value: Scalar) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _text(value: Scalar) -> str:
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
