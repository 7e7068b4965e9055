"""Two engines against each other: what got slower or faster, layer beside layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from trtbench.analysis.layers.columns import rows_from_diff
from trtbench.analysis.layers.difference import Change, EngineDiff
from trtbench.report.cells import duration_cell
from trtbench.report.charts import Axis, BarGroup, Bars
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Figure,
    Heading,
    KeyValues,
    Section,
    Table,
    Text,
    table_from_rows,
)
from trtbench.report.labels import shortened
from trtbench.report.numbers import (
    UnitScale,
    common_unit,
    text_from_change,
    text_from_difference,
    text_from_duration,
    text_from_share,
    unit_for_seconds,
)
from trtbench.units import counted

STEPS = 12
"""Pieces of a waterfall that stand for themselves; the rest is two bars, slower and faster."""

HEADINGS = (
    Heading(key="name_a", title="Layer of A, or + of B alone", fit="shorten"),
    Heading(key="a_s", title="A", align="right"),
    Heading(key="name_b", title="Layer of B", fit="shorten", rank=3),
    Heading(key="b_s", title="B", align="right"),
    Heading(key="delta_s", title="Change", align="right"),
    Heading(key="types", title="Types", rank=2),
    Heading(key="changed", title="Changed", rank=4),
    Heading(key="aligned_by", title="By", rank=5),
)


def document_from_diff(
    diff: EngineDiff,
    labels: tuple[str, str],
    *,
    top: int | None,
    gpu_s: tuple[float | None, float | None] = (None, None),
    notes: Sequence[str] = (),
) -> Document:
    """Describe the difference of two engines, as a screen and as data."""
    sections = [
        Section(id="totals", title="", blocks=tuple(totals(diff, gpu_s))),
        Section(id="changes", title="", blocks=(changes_table(diff, top=top),)),
        Section(id="fusions", title="", blocks=tuple(_fusions(diff))),
        Section(id="notes", title="", blocks=tuple(Text(text=f"note: {each}") for each in notes)),
    ]
    return Document(
        title=f"A {labels[0]} · B {labels[1]}",
        created="",
        sections=tuple(each for each in sections if each.blocks),
        data={
            "a": labels[0],
            "b": labels[1],
            "a_s": diff.a_s,
            "b_s": diff.b_s,
            "delta_s": diff.delta_s,
            "explained": diff.explained,
            "changes": rows_from_diff(diff)[:top],
            "notes": list(notes),
        },
    )


def totals(
    diff: EngineDiff, gpu_s: tuple[float | None, float | None] = (None, None)
) -> Iterator[Block]:
    """Write both sums, their difference and how much of it is accounted for."""
    pairs = [
        (name, Cell(value=value, text=f"{text_from_duration(value)} in layers{_gpu(gpu)}"))
        for name, value, gpu in zip(("A", "B"), (diff.a_s, diff.b_s), gpu_s, strict=True)
    ]
    if diff.delta_s is not None and diff.a_s:
        change = text_from_change(diff.delta_s / diff.a_s, digits=1)
        words = f"{text_from_difference(diff.delta_s)} ({change})"
        pairs.append(("difference", Cell(value=diff.delta_s, text=words)))
        said = f"{text_from_share(diff.explained)} of what moved is in layers that both have"
        pairs.append(("explained", Cell(value=diff.explained, text=f"{said}, or in conversions")))
    yield KeyValues(id="totals", pairs=tuple(pairs))
    alone = [_alone(diff, side) for side in ("a", "b")]
    if any(alone):
        yield Text(text="; ".join(each for each in alone if each))


def _gpu(seconds: float | None) -> str:
    return f", {text_from_duration(seconds)} of GPU time in all" if seconds is not None else ""


def _alone(diff: EngineDiff, side: str) -> str:
    found = [each for each in diff.only(side) if each.a_s or each.b_s]
    seconds = sum(each.a_s + each.b_s for each in found)
    if not found:
        return ""
    count = counted(len(found), "layer")
    return f"only in {side.upper()}: {count}, {text_from_duration(seconds)}"


def changes_table(diff: EngineDiff, *, top: int | None, id: str = "changes") -> Table:
    """Write aligned layers side by side, those that moved most first."""
    moved = [each for each in diff.changes if each.a_s or each.b_s or diff.delta_s is None]
    shown = moved[:top]
    unit = common_unit(max(each.a_s, each.b_s) for each in shown)
    rows = [
        _cells(each, unit, timed=(diff.a_s is not None, diff.b_s is not None)) for each in shown
    ]
    left = len(moved) - len(shown)
    caption = f"{left} pieces that moved less are not shown" if left else None
    return table_from_rows(id, headings=HEADINGS, rows=rows, caption=caption)


def _cells(change: Change, unit: UnitScale, *, timed: tuple[bool, bool]) -> tuple[Cell, ...]:
    a_s = change.a_s if change.a and timed[0] else None
    b_s = change.b_s if change.b and timed[1] else None
    delta = change.delta_s if all(timed) else None
    tone = "plain" if not delta else "bad" if delta > 0 else "good"
    types = dict.fromkeys(each for each in (change.precision_a, change.precision_b) if each)
    return (
        Cell(value=change.name_a, text=_name_of_a(change)),
        duration_cell(a_s, unit=unit),
        Cell(value=change.name_b, text=_name(change.name_b, len(change.b))),
        duration_cell(b_s, unit=unit),
        Cell(value=delta, text=text_from_difference(delta, unit=unit), tone=tone),  # type: ignore[arg-type]
        Cell(value=" → ".join(types) or None),
        Cell(value=", ".join(change.changed) or None),
        Cell(value=change.by if change.by != "none" else None),
    )


def _name_of_a(change: Change) -> str:
    if change.a:
        return _name(change.name_a, len(change.a))
    return f"+ {_name(change.name_b, len(change.b))}"


def _name(names: str | None, count: int) -> str:
    if names is None:
        return "–"
    first = names.split("\n")[0]
    return first if count == 1 else f"{first} (+{count - 1})"


def _fusions(diff: EngineDiff) -> Iterator[Block]:
    fusions = diff.fusions()
    split = [each for each in fusions if len(each.b) > len(each.a)]
    joined = [each for each in fusions if len(each.b) < len(each.a)]
    if not fusions:
        return
    same = len(fusions) - len(split) - len(joined)
    parts = [f"{len(split)} split" if split else "", f"{len(joined)} joined" if joined else ""]
    parts.append(f"{same} made of other nodes" if same else "")
    words = ", ".join(part for part in parts if part)
    yield Text(text=f"fusions that changed from A to B: {words}")
    for each in sorted(fusions, key=lambda change: -abs(change.delta_s))[:3]:
        sides = [(names or "").replace("\n", " | ") for names in (each.name_a, each.name_b)]
        yield Text(text=f"  {sides[0]}\n  → {sides[1]}")


def waterfall(diff: EngineDiff, labels: tuple[str, str], *, id: str = "waterfall") -> Figure | None:
    """Describe the way from A's sum to B's, the largest changes first."""
    if diff.a_s is None or diff.b_s is None or not max(diff.a_s, diff.b_s):
        return None
    changes = [each for each in diff.changes if each.delta_s]
    shown, rest = changes[:STEPS], changes[STEPS:]
    steps = [(shortened(each.name.replace("\n", " | "), length=40), each.delta_s) for each in shown]
    slower = sum(each.delta_s for each in rest if each.delta_s > 0)
    faster = sum(each.delta_s for each in rest if each.delta_s < 0)
    steps += [(f"the rest, {word}", value)
              for word, value in (("slower", slower), ("faster", faster)) if value]  # fmt: skip
    return _waterfall(diff.a_s, steps, diff.b_s, labels, id)


def _waterfall(
    a_s: float, steps: Sequence[tuple[str, float]], b_s: float, labels: tuple[str, str], id: str
) -> Figure:
    unit, scale = unit_for_seconds(max(a_s, b_s))
    starts, values, words = [0.0], [a_s], [text_from_duration(a_s)]
    at = a_s
    for _, delta in steps:
        starts.append(min(at, at + delta))
        values.append(abs(delta))
        words.append(text_from_difference(delta))
        at += delta
    starts, values, words = [*starts, 0.0], [*values, b_s], [*words, text_from_duration(b_s)]
    signs = [0.0, *(delta for _, delta in steps), 0.0]
    roles = (("total", 0), ("slower", 1), ("faster", -1))
    groups = tuple(
        BarGroup(
            name={"total": "sum of layers"}.get(role, role),
            role=role,
            values=tuple(
                value / scale if _sign(delta) == sign else None
                for value, delta in zip(values, signs, strict=True)
            ),
            labels=tuple(words) if role == "total" else (),
        )
        for role, sign in roles
    )
    chart = Bars(
        value=Axis(title="Sum of layer times", unit=unit, low=0),
        category_title="Piece of work",
        categories=(labels[0], *(name for name, _ in steps), labels[1]),
        groups=groups,
        starts=tuple(start / scale for start in starts),
    )
    title = f"From {shortened(labels[0])} to {shortened(labels[1])}"
    return Figure(id=id, title=title, chart=chart, caption="Changes add up to the difference.")


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)
