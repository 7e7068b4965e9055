"""How far outputs are from those of a reference, and which layers cost accuracy.

For the screens of ``check`` and ``localize`` and for the section of reports.
``run.extra["checks"]`` is a sequence of mappings (or values), one per output, with ``output`` and
any numbers; ``run.extra["output_comparison"]`` is the content of ``output_diff.json``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trtbench.analysis.check import ClassCheck, OutputCheck
from trtbench.analysis.localize import MANY_BEYOND, telling_range
from trtbench.analysis.onnx_graph import words_from_preparation
from trtbench.analysis.scores import sqnr_from_rel_l2
from trtbench.core.metrics import is_share
from trtbench.core.results import (
    Localization,
    Localized,
    NodeGroup,
    Numbers,
    TypeRange,
)
from trtbench.core.run import Run, Scalar
from trtbench.core.units import (
    MISSING,
    counted,
    text_from_fraction,
    text_from_seconds,
    with_minus,
)
from trtbench.report.document import (
    MODEL_HEADING,
    Block,
    Cell,
    Code,
    Column,
    Document,
    Section,
    Table,
    Text,
    column,
    document_from_blocks,
    form_cell,
    fraction_cell,
    key_values,
    note_lines,
    section_of,
    table,
)
from trtbench.report.run_facts import interval_text, named

if TYPE_CHECKING:
    from trtbench.analysis.check import Candidate, Checked


ORDER = 82

MOST_COLUMNS = 14
MOST_FACTS = 60
TITLES = {
    "nan": "NaN", "rmse": "RMSE", "rel_l2": "Rel. L2", "sqnr_db": "SQNR (dB)", "kl": "KL (nats)",
    "kl_max": "KL, max", "js": "JS (nats)", "top5_agreement": "Top-5 sets",
}  # fmt: skip
SHOWN_WORST = 3
TOLERANCES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
SHOWN_GROUPS = 10
SHOWN_NAMES = 8
FEW = 1.0
"""Decibels below which the gain of a group is not worth mentioning."""


def make(runs: Sequence[Run]) -> Section | None:
    """Put the checks of all outputs into one table, and list each run's output comparison."""
    rows = [
        {"run": label, **facts}
        for label, run in named(runs)
        for facts in _checks(run.extra.get("checks"))
    ]
    blocks: list[Block] = []
    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))[:MOST_COLUMNS]
        blocks.append(table("checks", rows, [_fact_column(name, rows) for name in names]))
    for number, (label, run) in enumerate(named(runs), start=1):
        carried = run.extra.get("output_comparison")
        pairs = list(_flat(carried))[:MOST_FACTS] if isinstance(carried, (Mapping, list)) else []
        if pairs:
            blocks.append(Text(text=f"Comparison of outputs, {label}:"))
            facts = ((name, _fact_cell(value)) for name, value in pairs)
            blocks.append(key_values(f"output_comparison_{number}", facts))
    return section_of("checks", "Numeric checks", blocks)


def _checks(carried: object) -> Iterator[dict[str, Scalar]]:
    """Read checks from a list of outputs, or from a mapping of outputs to numbers."""
    if isinstance(carried, Mapping):
        carried = [
            {"output": name, **(facts if isinstance(facts, Mapping) else {"value": facts})}
            for name, facts in carried.items()
        ]
    for each in carried if isinstance(carried, (list, tuple)) else ():
        plain = msgspec.to_builtins(each)
        if isinstance(plain, Mapping) and (facts := dict(_flat(plain))):
            yield facts


def _flat(value: object, prefix: str = "") -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, (str, int, float, bool)):
        yield prefix, value
    pairs: Iterable[tuple[object, object]] = ()
    if isinstance(value, Mapping):
        pairs = value.items()
    elif isinstance(value, list):
        pairs = enumerate(value)
    for key, each in pairs:
        yield from _flat(each, f"{prefix}.{key}" if prefix else str(key))


def _fact_column(name: str, rows: Sequence[Mapping[str, Scalar]]) -> Column:
    values = [row.get(name) for row in rows]
    numeric = any(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
    title = TITLES.get(name, name.replace("_", " ").capitalize())
    return column(name, title, lambda row: _fact_cell(row.get(name)), "cell" if numeric else "")


def _fact_cell(value: Scalar) -> Cell:
    if isinstance(value, bool):
        return Cell(value=value, text="yes" if value else "no")
    if isinstance(value, float):
        return Cell(value=value, text=f"{value:.4g}")
    return Cell(value=value, text=MISSING if value is None else str(value))


# ---- check


def document_from_check(checked: Checked) -> Document:
    """Describe every candidate's outputs, ranks, tolerances and worst inputs."""
    rows = [(each, check) for each in checked.candidates for check in each.checks]
    blocks: list[Block] = [Text(text=f"{checked.reference.runtime}, on {checked.inputs}.")]
    if checked.preparation:
        blocks.append(Text(text=f"Images: {words_from_preparation(checked.preparation)}."))
    if checked.floor is None:
        reason = checked.floor_reason
        blocks.append(Text(text=f"Repeatability of the reference was not measured: {reason}."))
    for check in checked.floor or ():
        far, rel = _text(check.max_abs), _text(check.rel_l2)
        words = f"differs between runs of the reference by max {far}, rel. L2 {rel}"
        same = "the reference is deterministic"
        blocks.append(Text(text=f"{check.output}: {same if check.identical else words}."))
    blocks += [
        Text(text=f"{each.model} could not be run: {each.reason}", tone="bad")
        for each in checked.failed
    ]
    caption = None
    if rows:
        limit = f"|t - r| <= {rows[0][1].atol:g} + {rows[0][1].rtol:g} |r|"
        caption = f"Close: share of all elements with {limit}; r is the reference."
    blocks.append(table("check", rows, _check_columns(), caption=caption))
    sections = [
        Section(id="check", title="", blocks=(*blocks, *_rank_tables(checked))),
        *(_candidate(each, number) for number, each in enumerate(checked.candidates)),
    ]
    title = f"Check against {checked.reference.model.name}"
    return Document(title=title, created="", sections=tuple(sections))


def _check_columns() -> Iterator[Column]:
    def number(key: str, title: str, rank: int) -> Column:
        def get(row: Any) -> Cell:
            return form_cell(getattr(row[1], key), ".4g")

        return column(key, title, get, "cell", rank=rank)

    def match(row: Any) -> float | None:
        return row[1].classes.argmax_match if row[1].classes else None

    yield MODEL_HEADING, lambda row: row[0].side.model.name
    yield column("output", "Output", lambda row: row[1].output, fit="shorten", rank=3)
    yield column("close", "Close", lambda row: fraction_cell(row[1].close, digits=3), "cell")
    yield number("max_abs", "Max abs", 1)
    yield number("mean_abs", "Mean abs", 5)
    yield number("max_rel", "Max rel", 8)
    yield number("mean_rel", "Mean rel", 9)
    yield number("rmse", "RMSE", 7)
    yield number("rel_l2", "Rel. L2", 2)
    yield column("sqnr_db", "SQNR", lambda row: _decibels(row[1].sqnr_db), "cell", rank=1)
    yield column("cosine", "Cosine", lambda row: form_cell(row[1].cosine, ".7g"), "cell", rank=6)
    yield column("nan", "NaN", lambda row: row[1].nan, "cell", rank=2)
    yield column("inf", "Inf", lambda row: row[1].inf, "cell", rank=2)
    yield column("argmax_match", "Same best class", match, "percent", rank=4)


def _candidate(candidate: Candidate, number: int) -> Section:
    side = candidate.side
    blocks: list[Block] = [
        Text(text=f"note: only one side has the output {name}", tone="unclear")
        for name in candidate.unmatched
    ]
    blocks += note_lines(candidate.notes)
    for place, check in enumerate(candidate.checks):
        blocks += _output(check, f"{number}_{place}")
    title = f"{side.model.name} · {side.runtime} · {text_from_seconds(side.seconds, digits=3)}"
    return Section(id=f"candidate-{number}", title=title, blocks=tuple(blocks))


def _output(check: OutputCheck, id: str) -> Iterator[Block]:
    name, classes = check.output, check.classes
    if check.note:
        yield Text(text=f"{name}: {check.note}", tone="bad")
    odd = []
    if check.reference_nonfinite:
        odd.append(f"{check.reference_nonfinite} values of the reference are not finite")
    if check.misshapen and not check.note:
        odd.append(
            f"{check.misshapen} of {check.items} inputs give another shape than the reference; "
            "they match nothing and are left out of means"
        )
    if classes is not None and classes.unranked:
        odd.append(f"{classes.unranked} of {classes.items} inputs have no best class: NaN or Inf")
    if classes is not None and classes.mixed:
        odd.append("one side gives probabilities, the other scores before softmax")
    yield from (Text(text=f"{name}: {words}", tone="unclear") for words in odd)
    if check.identical:
        yield Text(text=f"{name}: equal to the reference's everywhere")
        return
    if classes is not None:
        span = classes.argmax_interval
        ends = f"{text_from_fraction(span.low)} to {text_from_fraction(span.high)}"
        yield Text(
            text=f"{name}: same best class {text_from_fraction(classes.argmax_match)} ({ends}), "
            f"top-5 sets {text_from_fraction(classes.top5_agreement)}, "
            f"KL {_text(classes.kl)} nats (max {_text(classes.kl_max)})"
        )
        columns = (
            column("rank", "Rank", lambda row: row.rank, "cell"),
            column("mae", "MAE", lambda row: form_cell(row.mae, ".4g"), "cell"),
            column("disagree", "Disagree", lambda row: row.disagree, "percent"),
        )
        yield table(f"ranks_{id}", classes.ranks, columns)
    points = [point for point in check.sweep if point.tolerance in TOLERANCES]
    if points:
        limits = (
            column("tolerance", "Tolerance", lambda p: form_cell(p.tolerance, "g"), "cell"),
            column("by_atol", "Within atol", lambda point: point.by_atol, "percent"),
            column("by_rtol", "Within rtol", lambda point: point.by_rtol, "percent"),
        )
        yield table(f"tolerances_{id}", points, limits)
    for worst in check.worst[:SHOWN_WORST]:
        far = f"rel. L2 {_text(worst.rel_l2)}, max {_text(worst.max_abs)}"
        words = f"shape {worst.shapes}" if worst.shapes is not None else None
        words = words or f"{far}, not finite {worst.nonfinite}"
        yield Text(text=f"worst of {name}: {worst.name} ({words})")


def _rank_tables(checked: Checked) -> Iterator[Table]:
    """Compare candidates rank by rank; one alone has its table already."""
    outputs: dict[str, list[tuple[str, ClassCheck]]] = {}
    for each in checked.candidates:
        for check in each.checks:
            if check.classes is not None:
                side = (each.side.model.name, check.classes)
                outputs.setdefault(check.output, []).append(side)
    rank = column("rank", "Rank", lambda place: place + 1, "cell")
    for number, (output, sides) in enumerate(outputs.items()):
        if len(sides) < 2:
            continue
        first = sides[0][1]
        if not any(each.unranked for _, each in sides):  # else not all are of the same input
            reference = (checked.reference.model.name, first.top_reference)
            tops = [reference, *((name, each.top) for name, each in sides)]
            columns = [
                each
                for place, (name, top) in enumerate(tops)
                for each in (
                    _rank_column(f"score_{place}", f"{name} score", partial(_score_at, top)),
                    _rank_column(f"class_{place}", f"{name} class", partial(_class_at, top)),
                )
            ]
            caption = f"Best classes of {output} of the first input: score and class side by side."
            count = len(first.top_reference)
            yield table(f"top_{number}", range(count), (rank, *columns), caption=caption)
        columns = [
            each
            for place, (name, classes) in enumerate(sides)
            for each in (
                _rank_column(f"MAE_{place}", f"{name} MAE", partial(_mae_at, classes)),
                _rank_column(f"disagree_{place}", f"{name} disagree", partial(_other_at, classes)),
            )
        ]
        caption = f"Ranks of {output} over all inputs: error of the score, and other class."
        count = min(len(each.ranks) for _, each in sides)
        yield table(f"ranks_{number}", range(count), (rank, *columns), caption=caption)


def _rank_column(key: str, title: str, get: Callable[[int], Cell | Scalar]) -> Column:
    return column(key, title, get, "cell", fit="wrap")


def _score_at(top: Sequence[Any], place: int) -> Cell:
    return form_cell(top[place].score, ".4g") if place < len(top) else Cell()


def _class_at(top: Sequence[Any], place: int) -> Scalar:
    return top[place].label if place < len(top) else None


def _mae_at(classes: ClassCheck, place: int) -> Cell:
    return form_cell(classes.ranks[place].mae, ".3g")


def _other_at(classes: ClassCheck, place: int) -> Cell:
    return fraction_cell(classes.ranks[place].disagree)


def _text(value: float | None) -> str:
    return "–" if value is None else f"{value:.4g}"


def _decibels(value: float | None, *, signed: bool = False) -> Cell:
    rounded = None if value is None else round(value, 1) + 0.0  # no minus before a zero
    text = form_cell(rounded, "+.1f" if signed else ".1f", " dB").text
    return Cell(value=value, text=text if value is not None or signed else None)


# ---- localize


def document_from_localized(result: Localization) -> Document:
    """Describe which layers cost a model its accuracy: the answer, the ranking, the repair."""
    found = result.found
    blocks: list[Block] = [
        Text(text=answer(result), tone="bad" if found.met is False else "plain"),
        Text(text=_how(result)),
        _models(result),
        _ranking(found),
        *(Text(text=note, tone="unclear") for note in _notes(result)),
        *(
            Code(text=command, caption=f"To make such a model from the reference, {tool}:")
            for tool, command in result.commands.items()
        ),
    ]
    title = f"{Path(result.candidate).name} against {Path(result.reference).name}"
    return document_from_blocks("localize", blocks, title=title)


def answer(result: Localization) -> str:
    """Say in a sentence what breaks the model, and what keeping it out of that type gives."""
    found = result.found
    worst = found.groups[0]
    if found.met and not found.kept:
        return f"Nothing to repair: {_value(found, found.candidate)} meets {found.where}."
    seen = telling_range(worst)
    if seen is None:
        added = "" if worst.added is None else f" (adds rel. L2 {worst.added:.2g})"
        cause = f"{worst.node} loses most in {worst.type}{added}"
    else:
        cause = f"{worst.node} {range_words(seen, named=seen.node != worst.node)}"
    if found.met:
        return f"{cause}; {_kept_words(result)}."
    if found.met is False:
        restored = _value(found, found.all_restored)
        reason = f"all groups restored give {restored}" if found.in_time else "time was up"
        return f"{cause}. No repair meets {found.where}: {reason}."
    gains = max(found.groups[:2], key=lambda group: group.gain or 0.0)
    if not gains.restored:
        return f"{cause}."
    what = "restored" if gains is worst else f"{gains.node}, which reads it, restored"
    return f"{cause}; {what}: {_value(found, gains.restored)} ({_was(found)})."


def _share(part: float) -> str:
    """Write a part that may be one value of a million: it is not zero."""
    return "< 0.01 %" if 0 < part < 1e-4 else text_from_fraction(part)


def range_words(seen: TypeRange, *, named: bool = False) -> str:
    """Describe a range that explains a loss."""
    of = f"{seen.what} of {seen.node}" if named and seen.what != "weights" else seen.what
    if seen.type in ("FP16", "BF16"):
        where = f" in {seen.node}" if named else ""
        if not seen.beyond:
            zero = f", {_share(seen.zeroed)} of values become 0" if seen.zeroed else ""
            return f"is too small for {seen.type}{where}: largest {seen.largest:.2g}{zero}"
        return (
            f"overflows {seen.type}{where}: {seen.largest:.6g} > {seen.limit:.6g} "
            f"({_share(seen.beyond)} of values)"
        )
    if seen.beyond >= MANY_BEYOND and seen.beyond * 10 >= seen.zeroed:
        return (
            f"is clipped by {seen.type}: {_share(seen.beyond)} of its {of} beyond "
            f"±{seen.limit:.4g}, largest {seen.largest:.4g}"
        )
    return (
        f"has outliers that {seen.type} cannot represent: {text_from_fraction(seen.zeroed)} of its "
        f"{of} become 0, the largest is {seen.largest:.4g}"
    )


def _kept_words(result: Localization) -> str:
    found = result.found
    kept = [group for group in found.groups if group.node in found.kept]
    count = len({name for group in kept for name in group.nodes})
    own = found.groups[0].node in found.kept
    alone = "kept" if own else f"{found.kept[0]}, which reads it, kept"
    what = alone if count == 1 else f"{count} nodes kept"
    verdict = next((s.verdict for s in result.speeds if s.against == result.candidate), None)
    speed = ""
    if verdict is not None and (
        verdict.ratio is None or verdict.kind in ("unclear", "incomparable")
    ):
        ends = f" ({interval_text(verdict)})" if verdict.interval else ""
        speed = f", speed {verdict.kind}{ends}"
    elif verdict is not None and verdict.ratio is not None:
        change = f"{text_from_fraction(abs(verdict.ratio - 1), digits=2)} {verdict.kind}"
        speed = ", the same speed" if verdict.kind == "same" else f", {change}"
    return f"{what} in full precision: {_value(found, found.repaired)} ({_was(found)}){speed}"


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
        return _decibels(value, signed=signed).shown
    if is_share(metric):
        return text_from_fraction(value, digits=2, signed=signed)
    return with_minus(f"{value:+.4g}" if signed else f"{value:.4g}")


def _sqnr(numbers: Numbers) -> str:
    value = numbers.get("sqnr_db")
    return "equal" if value is None and numbers.get("rel_l2") == 0 else _decibels(value).shown


def _how(result: Localization) -> str:
    found = result.found
    way = "each by itself" if found.one_by_one else "by bisection"
    count = len(found.groups)
    if not found.trials:
        return f"{count} boundaries compared, on {result.inputs}."
    types = " and ".join(dict.fromkeys(group.type for group in found.groups))
    took = text_from_seconds(found.seconds, digits=2)
    groups = f"{counted(count, 'group')} of nodes in {types}"
    return f"{groups}, restored {way}: {found.trials} models on {result.inputs}, in {took}."


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

    def metric(row: tuple[str, str, Numbers]) -> Cell:
        value = row[2].get(found.metric)
        return Cell(value=value, text=_metric_text(found.metric, value))

    def sqnr(row: tuple[str, str, Numbers]) -> Cell:
        shown = "" if row[1] == result.reference else _sqnr(row[2])
        return Cell(value=row[2].get("sqnr_db"), text=shown)

    def speed(row: tuple[str, str, Numbers]) -> Cell:
        verdict = speeds.get(row[1])
        if verdict is None:
            return Cell(text="")
        ends = f", {interval_text(verdict)}" if verdict.interval else ""
        return Cell(text=f"{verdict.kind}{ends}")

    columns = [column("model", "Model", lambda row: row[0], fit="shorten")]
    if found.metric != "sqnr_db":
        columns.append(column("metric", found.metric, metric, "cell"))
    columns.append(column("sqnr_db", "SQNR", sqnr, "cell"))
    columns.append(
        column(
            "nonfinite", "Not finite", lambda row: int(row[2].get("nonfinite") or 0), "cell", rank=1
        )
    )
    if speeds:
        columns.append(column("speed", "Repaired against it", speed, rank=2))
    return table("models", sides, columns)


def _ranking(found: Localized) -> Table:
    def there(group: NodeGroup) -> Cell:
        return _decibels(None if group.rel_l2 is None else sqnr_from_rel_l2(group.rel_l2))

    def gain(group: NodeGroup) -> Cell:
        return Cell(value=group.gain, text=_metric_text(found.metric, group.gain, signed=True))

    def cause(group: NodeGroup) -> str:
        seen = telling_range(group)
        if seen is None:
            return ""
        if seen.type in ("FP16", "BF16"):
            over = f"{seen.largest:.6g} > {seen.limit:.6g}"
            return over if seen.beyond else f"{_share(seen.zeroed)} of {seen.what} 0"
        share = seen.beyond if seen.beyond * 10 >= seen.zeroed else seen.zeroed
        word = "clipped" if share == seen.beyond else "0"
        return f"{text_from_fraction(share)} of {seen.what} {word}"

    def restored(group: NodeGroup) -> Cell:
        return Cell(value=group.restored.get(found.metric), text=_shown(found, group.restored))

    columns = [
        column("node", "Node", lambda group: group.node, fit="shorten"),
        column("op", "Op", lambda group: group.op, rank=4),
        column("restored", "Restored", restored, "cell"),
        column("gain", "Gain", gain, "cell"),
        column(
            "sqnr_gain_db", "SQNR gain",
            lambda group: _decibels(group.sqnr_gain_db, signed=True), "cell", rank=1,
        ),
        column("boundary_db", "SQNR there", there, "cell", rank=1),
        column("added", "Adds rel. L2", lambda x: form_cell(x.added, ".3g"), "cell", rank=5),
        column("nonfinite", "Not finite", lambda group: group.nonfinite, "cell", rank=6),
        column("nodes", "Nodes", lambda group: len(group.nodes), "cell", rank=7),
        column("cause", "Range", cause, fit="wrap", rank=2),
    ]  # fmt: skip
    unknown = {"sqnr_gain_db"} if found.metric == "sqnr_db" else set()
    unknown |= set() if found.trials else {"restored", "gain"}
    whole = "Restored: the whole model with this group alone in full precision. "
    caption = f"{whole if found.trials else ''}SQNR there: behind the group, as it is."
    shown = [each for each in columns if each[0].key not in unknown]
    return table("ranking", found.groups[:SHOWN_GROUPS], shown, caption=caption)


def _notes(result: Localization) -> Iterator[str]:
    found = result.found
    left = len(found.groups) - SHOWN_GROUPS
    if left > 0:
        yield f"{left} more groups are in the files."
    untried = sum(1 for group in found.groups if not group.restored)
    gains = [g.sqnr_gain_db for g in found.groups if g.sqnr_gain_db is not None]
    spread = gains and max(gains) < FEW and not untried
    if spread and not found.groups[0].first_nonfinite and found.metric == "sqnr_db":
        yield f"The loss is spread: no group by itself gains {FEW:g} dB."
    if found.met and found.kept:
        words = "none of them can be left out"
        if not found.minimal:
            words = "time was up before it was tried with fewer"
        yield f"Kept for {found.where}: {_some(found.kept)}; {words}."
    if untried and found.trials:
        why = "time was up" if found.one_by_one else "bisection left them aside, or time was up"
        yield f"{untried} groups were not restored by themselves: {why}."
    if found.marks_changed_outputs:
        yield "Reading intermediate outputs changed the final outputs: their numbers are doubtful."
    if found.stand_in:
        yield (
            "FP16 and BF16 are computed in FP32 here and rounded after every node, as tensor "
            "cores do; ONNX Runtime's CPU by itself leaves roundings out."
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
