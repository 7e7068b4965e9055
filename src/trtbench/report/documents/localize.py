"""Which layers cost a model its accuracy: the answer first, then the ranking, then the repair."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from trtbench.analysis.localize import MANY_BEYOND, telling_range
from trtbench.analysis.numeric import sqnr_from_rel_l2
from trtbench.analysis.scores import is_share
from trtbench.domain.comparison import Verdict
from trtbench.domain.localize import Localization, Localized, NodeGroup, Numbers, TypeRange
from trtbench.domain.result import Scalar
from trtbench.report.document import (
    Block,
    Cell,
    Code,
    Document,
    Heading,
    Table,
    Text,
    document_from_blocks,
    table_from_rows,
)
from trtbench.report.documents.comparison import interval_text
from trtbench.units import counted, text_from_fraction, text_from_seconds, with_minus

SHOWN = 10
SHOWN_NAMES = 8
FEW = 1.0
"""Decibels below which a group gains nothing worth speaking of."""

RANKING = (
    Heading(key="node", title="Node", fit="shorten"),
    Heading(key="op", title="Op", rank=4),
    Heading(key="restored", title="Restored", align="right"),
    Heading(key="gain", title="Gain", align="right"),
    Heading(key="sqnr_gain_db", title="SQNR gain", align="right", rank=1),
    Heading(key="boundary_db", title="SQNR there", align="right", rank=1),
    Heading(key="added", title="Adds rel. L2", align="right", rank=5),
    Heading(key="nonfinite", title="Not finite", align="right", rank=6),
    Heading(key="nodes", title="Nodes", align="right", rank=7),
    Heading(key="cause", title="Range", fit="wrap", rank=2),
)
MODELS = (
    Heading(key="model", title="Model", fit="shorten"),
    Heading(key="metric", title="", align="right"),
    Heading(key="sqnr_db", title="SQNR", align="right"),
    Heading(key="nonfinite", title="Not finite", align="right", rank=1),
    Heading(key="speed", title="Repaired against it", rank=2),
)


def document_from_localized(result: Localization) -> Document:
    """Describe what was found."""
    found = result.found
    blocks: list[Block] = [
        Text(text=answer(result), tone="bad" if found.met is False else "plain"),
        Text(text=_how(result)),
        _models(result),
        _ranking(found),
        *(Text(text=note, tone="unclear") for note in _notes(result)),
        *_commands(result),
    ]
    title = f"{Path(result.candidate).name} against {Path(result.reference).name}"
    return document_from_blocks("localize", blocks, title=title)


def answer(result: Localization) -> str:
    """Say in a sentence what breaks the model, and what keeping it out of that type gives."""
    found = result.found
    worst = found.groups[0]
    if found.met and not found.kept:
        return f"Nothing to repair: {_value(found, found.candidate)} meets {found.where}."
    cause = f"{worst.node} {cause_of(worst)}"
    if found.met:
        return f"{cause}; {_kept_words(result)}."
    if found.met is False:
        all_of_them = _value(found, found.all_restored)
        reason = f"all groups restored give {all_of_them}" if found.in_time else "time was up"
        return f"{cause}. No repair meets {found.where}: {reason}."
    gains = max(found.groups[:2], key=lambda group: group.gain or 0.0)
    if not gains.restored:
        return f"{cause}."
    what = "restored" if gains is worst else f"{gains.node}, which reads it, restored"
    return f"{cause}; {what}: {_value(found, gains.restored)} ({_was(found)})."


def cause_of(group: NodeGroup) -> str:
    """Say what the low type does to a node, by its range where that explains it."""
    told = telling_range(group)
    if told is None:
        added = "" if group.added is None else f" (adds rel. L2 {group.added:.2g})"
        return f"loses most in {group.type}{added}"
    return range_words(told, named=told.node != group.node)


def _share(part: float) -> str:
    """Write a part that may be one value of a million: it is not none."""
    return "< 0.01 %" if 0 < part < 1e-4 else text_from_fraction(part)


def range_words(told: TypeRange, *, named: bool = False) -> str:
    """Describe a range that explains a loss."""
    of = f"{told.what} of {told.node}" if named and told.what != "weights" else told.what
    if told.type in ("FP16", "BF16"):
        where = f" in {told.node}" if named else ""
        if not told.beyond:
            zero = f", {_share(told.zeroed)} of values become 0" if told.zeroed else ""
            return f"is too small for {told.type}{where}: largest {told.largest:.2g}{zero}"
        return (
            f"overflows {told.type}{where}: {told.largest:.6g} > {told.limit:.6g} "
            f"({_share(told.beyond)} of values)"
        )
    if told.beyond >= MANY_BEYOND and told.beyond * 10 >= told.zeroed:
        share = _share(told.beyond)
        return (
            f"is clipped by {told.type}: {share} of its {of} beyond ±{told.limit:.4g}, "
            f"largest {told.largest:.4g}"
        )
    share = text_from_fraction(told.zeroed)
    return (
        f"has outliers that {told.type} cannot bear: {share} of its {of} become 0, "
        f"the largest is {told.largest:.4g}"
    )


def _kept_words(result: Localization) -> str:
    found = result.found
    kept = [group for group in found.groups if group.node in found.kept]
    count = len({name for group in kept for name in group.nodes})
    own = found.groups[0].node in found.kept
    alone = "kept" if own else f"{found.kept[0]}, which reads it, kept"
    what = alone if count == 1 else f"{count} nodes kept"
    faster = next((s.verdict for s in result.speeds if s.against == result.candidate), None)
    speed = "" if faster is None else f", {speed_words(faster)}"
    return f"{what} in full precision: {_value(found, found.repaired)} ({_was(found)}){speed}"


def speed_words(verdict: Verdict) -> str:
    """Say how much slower or faster, or that it is the same or cannot be told."""
    if verdict.ratio is None or verdict.kind in ("unclear", "incomparable"):
        ends = f" ({interval_text(verdict)})" if verdict.interval else ""
        return f"speed {verdict.kind}{ends}"
    if verdict.kind == "same":
        return "the same speed"
    return f"{text_from_fraction(abs(verdict.ratio - 1), digits=2)} {verdict.kind}"


def _was(found: Localized) -> str:
    odd = int(found.candidate.get("nonfinite") or 0)
    lost = f"{odd} values not finite" if odd else ""
    if found.metric == "sqnr_db":
        return f"was {lost or _sqnr(found.candidate)}"
    value = _metric_text(found.metric, found.candidate.get(found.metric))
    return f"was {value}{f', {lost}' if lost else ''}"


def _value(found: Localized, numbers: Numbers) -> str:
    return f"{'SQNR' if found.metric == 'sqnr_db' else found.metric} {_shown(found, numbers)}"


def _shown(found: Localized, numbers: Numbers) -> str:
    if found.metric == "sqnr_db":
        return _sqnr(numbers)
    return _metric_text(found.metric, numbers.get(found.metric))


def _metric_text(metric: str, value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "–"
    if metric == "sqnr_db":
        return _decibels(value, signed=signed)
    if is_share(metric):
        return text_from_fraction(value, digits=2, signed=signed)
    return with_minus(f"{value:+.4g}" if signed else f"{value:.4g}")


def _decibels(value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return "–"
    rounded = round(value, 1) + 0.0  # no minus before a zero
    return with_minus(f"{rounded:+.1f} dB" if signed else f"{rounded:.1f} dB")


def _sqnr(numbers: Numbers) -> str:
    value = numbers.get("sqnr_db")
    return "equal" if value is None and numbers.get("rel_l2") == 0 else _decibels(value)


def _how(result: Localization) -> str:
    found = result.found
    way = "each by itself" if found.one_by_one else "by bisection"
    count = len(found.groups)
    if not found.trials:
        return f"{count} boundaries compared, on {result.inputs}."
    groups = f"{counted(count, 'group')} of nodes in {_types(found)}"
    took = text_from_seconds(found.seconds, digits=2)
    return f"{groups}, restored {way}: {found.trials} models on {result.inputs}, in {took}."


def _types(found: Localized) -> str:
    return " and ".join(dict.fromkeys(group.type for group in found.groups))


def _models(result: Localization) -> Table:
    found = result.found
    sides: list[tuple[str, str, Numbers]] = [
        (Path(result.reference).name, result.reference, found.reference),
        (Path(result.candidate).name, result.candidate, found.candidate),
    ]
    if found.all_restored:
        sides.append(("all groups restored", "", found.all_restored))
    if found.kept:
        name = Path(result.repaired).name if result.repaired else "repaired"
        sides.append((name, "", found.repaired))
    speeds = {each.against: each.verdict for each in result.speeds}
    by_task = found.metric != "sqnr_db"
    headings = [h for h in MODELS if (h.key != "metric" or by_task)
                and (h.key != "speed" or speeds)]  # fmt: skip
    rows = []
    for name, path, numbers in sides:
        verdict = speeds.get(path)
        row: list[Cell | Scalar] = [name]
        if by_task:
            value = numbers.get(found.metric)
            row.append(Cell(value=value, text=_metric_text(found.metric, value)))
        shown = "" if path == result.reference else _sqnr(numbers)
        row.append(Cell(value=numbers.get("sqnr_db"), text=shown))
        row.append(int(numbers.get("nonfinite") or 0))
        if speeds:
            row.append(Cell(text="" if verdict is None else _against(verdict)))
        rows.append(row)
    named = [
        Heading(key=h.key, title=found.metric if h.key == "metric" else h.title, align=h.align,
                rank=h.rank, fit=h.fit)
        for h in headings
    ]  # fmt: skip
    return table_from_rows("models", headings=tuple(named), rows=rows)


def _against(verdict: Verdict) -> str:
    ends = f", {interval_text(verdict)}" if verdict.interval else ""
    return f"{verdict.kind}{ends}"


def _ranking(found: Localized) -> Table:
    whole = "Restored: the whole model with this group alone in full precision. "
    caption = f"{whole if found.trials else ''}SQNR there: behind the group, as it is."
    rows = [_row(found, group) for group in found.groups[:SHOWN]]
    unknown: set[str] = set() if found.metric != "sqnr_db" else {"sqnr_gain_db"}
    unknown |= set() if found.trials else {"restored", "gain"}
    keys = [h.key for h in RANKING if h.key not in unknown]
    places = [place for place, h in enumerate(RANKING) if h.key in keys]
    return table_from_rows(
        "ranking",
        headings=tuple(RANKING[place] for place in places),
        rows=[[row[place] for place in places] for row in rows],
        caption=caption,
    )


def _row(found: Localized, group: NodeGroup) -> Sequence[Cell | Scalar]:
    value = group.restored.get(found.metric)
    there = None if group.rel_l2 is None else sqnr_from_rel_l2(group.rel_l2)
    told = telling_range(group)
    return (
        group.node,
        group.op,
        Cell(value=value, text=_shown(found, group.restored)),
        Cell(value=group.gain, text=_metric_text(found.metric, group.gain, signed=True)),
        Cell(value=group.sqnr_gain_db, text=_decibels(group.sqnr_gain_db, signed=True)),
        Cell(value=there, text=_decibels(there)),
        Cell(value=group.added, text="–" if group.added is None else f"{group.added:.3g}"),
        group.nonfinite,
        len(group.nodes),
        "" if told is None else _short(told),
    )


def _short(told: TypeRange) -> str:
    if told.type in ("FP16", "BF16"):
        over = f"{told.largest:.6g} > {told.limit:.6g}"
        return over if told.beyond else f"{_share(told.zeroed)} of {told.what} 0"
    share = told.beyond if told.beyond * 10 >= told.zeroed else told.zeroed
    word = "clipped" if share == told.beyond else "0"
    return f"{text_from_fraction(share)} of {told.what} {word}"


def _notes(result: Localization) -> Iterator[str]:
    found = result.found
    left = len(found.groups) - SHOWN
    if left > 0:
        yield f"{left} more groups are in the files."
    untried = sum(1 for group in found.groups if not group.restored)
    gains = [g.sqnr_gain_db for g in found.groups if g.sqnr_gain_db is not None]
    spread = gains and max(gains) < FEW and not untried
    if spread and not found.groups[0].first_nonfinite and found.metric == "sqnr_db":
        yield f"The loss is spread: no group by itself gains {FEW:g} dB."
    if found.met and found.kept:
        words = (
            "none of them can be left out"
            if found.minimal
            else "time was up before it was tried with fewer"
        )
        kept = ", ".join(found.kept[:SHOWN_NAMES]) + (
            " ..." if len(found.kept) > SHOWN_NAMES else ""
        )
        yield f"Kept for {found.where}: {kept}; {words}."
    if untried and found.trials:
        why = "time was up" if found.one_by_one else "bisection left them aside, or time was up"
        yield f"{untried} groups were not restored by themselves: {why}."
    if found.marks_changed_outputs:
        yield "Looking at boundaries changed the final outputs: what is said of them is in doubt."
    if found.stand_in:
        own = f"leaves roundings out, and would give {_decibels(found.file_sqnr_db)}"
        own = own if found.file_sqnr_db is not None else "does not run the file"
        yield (
            "FP16 and BF16 are computed in FP32 here and rounded behind every node, as tensor "
            f"cores do. ONNX Runtime's CPU by itself {own}."
        )
    if found.unmatched:
        names = _some(found.unmatched)
        yield f"Not found in the candidate, so part of what follows them: {names}."
    runtimes = ", ".join(dict.fromkeys(each.runtime for each in result.speeds))
    if runtimes:
        yield f"Speeds are those of {runtimes} on this machine; -r measures with another runtime."
    yield from result.notes
    yield from found.notes


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN_NAMES]) + (" ..." if len(names) > SHOWN_NAMES else "")


def _commands(result: Localization) -> Iterator[Block]:
    for tool, command in result.commands.items():
        yield Code(text=command, caption=f"To make such a model from the reference, {tool}:")
