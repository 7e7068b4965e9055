"""How far outputs are from those of a reference, and which layers cost accuracy.

For the screens of ``check`` and ``localize`` and for the section of reports.
``run.extra["checks"]`` is a sequence of mappings (or values), one per output, with ``output`` and
any numbers; ``run.extra["output_comparison"]`` is the content of ``output_diff.json``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
from trtbench.core.units import MISSING, counted, text_from_fraction, text_from_seconds, with_minus
from trtbench.report.document import (
    Block,
    Cell,
    Code,
    Column,
    Document,
    Section,
    Table,
    Text,
    cell_of,
    column,
    document_from_blocks,
    key_values,
    note_lines,
    section_of,
    table,
)
from trtbench.report.run_facts import flat_facts, named

if TYPE_CHECKING:
    from trtbench.analysis.check import Candidate, Checked


ORDER = 82

MOST_COLUMNS = 14
MOST_FACTS = 60
TITLES = {
    "nan": "NaN", "rmse": "RMSE", "rel_l2": "Rel. L2", "sqnr_db": "SQNR (dB)", "kl": "KL (nats)",
    "kl_max": "KL, max", "top5_agreement": "Top-5 sets",
}  # fmt: skip
SHOWN_WORST = 3

SHOWN_GROUPS = 10
SHOWN_NAMES = 8


def make(runs: Sequence[Run]) -> Section | None:
    """Put the checks of all outputs into one table, and list each run's output comparison."""
    rows = []
    blocks: list[Block] = []
    for number, (label, run) in enumerate(named(runs), start=1):
        checks = run.extra.get("checks")
        for each in checks if isinstance(checks, (list, tuple)) else ():
            if facts := dict(flat_facts(msgspec.to_builtins(each))):
                rows.append({"run": label, **facts})
        if pairs := list(flat_facts(run.extra.get("output_comparison")))[:MOST_FACTS]:
            blocks.append(Text(f"Comparison of outputs, {label}:"))
            cells = ((name, _fact_cell(value)) for name, value in pairs)
            blocks.append(key_values(f"output_comparison_{number}", cells))

    def fact(name: str) -> Column:
        numeric = any(type(row.get(name)) in (int, float) for row in rows)
        title = TITLES.get(name, name.replace("_", " ").capitalize())
        kind = "right" if numeric else None
        return column(name, title, lambda row: _fact_cell(row.get(name)), kind)

    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))[:MOST_COLUMNS]
        blocks.insert(0, table("checks", rows, map(fact, names)))
    return section_of("checks", "Numeric checks", blocks)


def _fact_cell(value: Scalar) -> Cell:
    if isinstance(value, bool):
        return Cell(value, "yes" if value else "no")
    return Cell(value, f"{value:.4g}" if isinstance(value, float) else None)


# ---- check


def document_from_check(checked: Checked) -> Document:
    """Describe every candidate's outputs, ranks, tolerances and worst inputs."""
    rows = [(each, check) for each in checked.candidates for check in each.checks]
    blocks: list[Block] = [Text(f"{checked.reference.runtime}, on {checked.inputs}.")]
    if checked.preparation:
        blocks.append(Text(f"Images: {words_from_preparation(checked.preparation)}."))
    if checked.floor is None:
        reason = checked.floor_reason
        blocks.append(Text(f"Repeatability of the reference was not measured: {reason}."))
    for check in checked.floor or ():
        far = f"max {_text(check.max_abs)}, rel. L2 {_text(check.rel_l2)}"
        words = f"differs between runs of the reference by {far}"
        same = "the reference is deterministic"
        blocks.append(Text(f"{check.output}: {same if check.identical else words}."))
    blocks += [
        Text(f"{each.model} could not be run: {each.reason}", "bad") for each in checked.failed
    ]
    caption = None
    if rows:
        limit = f"|t - r| <= {rows[0][1].atol:g} + {rows[0][1].rtol:g} |r|"
        caption = f"Close: share of all elements with {limit}; r is the reference."
    blocks.append(table("check", rows, _check_columns(), caption=caption))
    sections = [
        Section("check", "", (*blocks, *_rank_tables(checked))),
        *(_candidate(each, number) for number, each in enumerate(checked.candidates)),
    ]
    title = f"Check against {checked.reference.model.name}"
    return Document(title=title, sections=tuple(sections))


def _check_columns() -> Iterator[Column]:
    def of_output(key: str, title: str, rank: int, kind: str = ".4g") -> Column:
        return column(key, title, lambda row: getattr(row[1], key), kind, rank=rank)

    def match(row: Any) -> float | None:
        return row[1].classes.argmax_match if row[1].classes else None

    yield column("model", get=lambda row: row[0].side.model.name)
    yield column("output", "Output", lambda row: row[1].output, fit="shorten", rank=3)
    yield column("close", "Close", lambda x: Cell(x[1].close, _percent(x[1].close, 3)), "right")
    yield of_output("max_abs", "Max abs", 1)
    yield of_output("mean_abs", "Mean abs", 5)
    yield of_output("max_rel", "Max rel", 8)
    yield of_output("mean_rel", "Mean rel", 9)
    yield of_output("rmse", "RMSE", 7)
    yield of_output("rel_l2", "Rel. L2", 2)
    yield column("sqnr_db", "SQNR", lambda row: _decibels(row[1].sqnr_db), "right", rank=1)
    yield of_output("cosine", "Cosine", 6, ".7g")
    yield of_output("nan", "NaN", 2, "right")
    yield of_output("inf", "Inf", 2, "right")
    yield column("argmax_match", "Same best class", match, "percent", rank=4)


def _candidate(candidate: Candidate, number: int) -> Section:
    side = candidate.side
    unmatched = (f"only one side has the output {name}" for name in candidate.unmatched)
    blocks: list[Block] = [*note_lines(unmatched, tone="unclear"), *note_lines(candidate.notes)]
    for place, check in enumerate(candidate.checks):
        blocks += _output(check, f"{number}_{place}")
    title = f"{side.model.name} · {side.runtime} · {text_from_seconds(side.seconds, digits=3)}"
    return Section(f"candidate-{number}", title, tuple(blocks))


def _output(check: OutputCheck, id: str) -> Iterator[Block]:
    name, classes = check.output, check.classes
    if check.note:
        yield Text(f"{name}: {check.note}", "bad")
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
    yield from (Text(f"{name}: {words}", "unclear") for words in odd)
    if check.identical:
        yield Text(f"{name}: equal to the reference's everywhere")
        return
    if classes is not None:
        span = classes.argmax_interval
        yield Text(
            f"{name}: same best class {_percent(classes.argmax_match)} "
            f"({_percent(span.low)} to {_percent(span.high)}), "
            f"top-5 sets {_percent(classes.top5_agreement)}, "
            f"KL {_text(classes.kl)} nats (max {_text(classes.kl_max)})"
        )
    for worst in check.worst[:SHOWN_WORST]:
        words = f"shape {worst.shapes}"
        if worst.shapes is None:
            far = f"rel. L2 {_text(worst.rel_l2)}, max {_text(worst.max_abs)}"
            words = f"{far}, not finite {worst.nonfinite}"
        yield Text(f"worst of {name}: {worst.name} ({words})")


def _rank_tables(checked: Checked) -> Iterator[Table]:
    """Compare candidates rank by rank: the best classes of the first input, and all inputs."""
    outputs: dict[str, list[tuple[str, ClassCheck]]] = {}
    for each in checked.candidates:
        for check in each.checks:
            if check.classes is not None:
                side = (each.side.model.name, check.classes)
                outputs.setdefault(check.output, []).append(side)

    def at(rows: Sequence[Any], key: str, title: str, field: str, kind: str) -> Column:
        def read(place: int) -> Any:
            return getattr(rows[place], field) if place < len(rows) else None

        return column(key, title, read, kind, fit="wrap")

    rank = column("rank", "Rank", lambda place: place + 1, "right")
    for number, (output, sides) in enumerate(outputs.items()):
        first = sides[0][1]
        # Where some input has no best class, not all are of the same input.
        if len(sides) > 1 and not any(each.unranked for _, each in sides):
            reference = (checked.reference.model.name, first.top_reference)
            columns = [rank]
            for k, (name, top) in enumerate((reference, *((n, each.top) for n, each in sides))):
                columns.append(at(top, f"score_{k}", f"{name} score", "score", ".4g"))
                columns.append(at(top, f"class_{k}", f"{name} class", "label", "right"))
            caption = f"Best classes of {output} of the first input: score and class side by side."
            count = len(first.top_reference)
            yield table(f"top_{number}", range(count), columns, caption=caption)
        columns = [rank]
        for k, (name, classes) in enumerate(sides):
            of = f"{name} " if len(sides) > 1 else ""
            columns.append(at(classes.ranks, f"mae_{k}", f"{of}MAE", "mae", ".3g"))
            columns.append(at(classes.ranks, f"other_{k}", f"{of}disagree", "disagree", "percent"))
        caption = f"Ranks of {output} over all inputs: error of the score, and other class."
        count = min(len(each.ranks) for _, each in sides)
        yield table(f"ranks_{number}", range(count), columns, caption=caption)


def _text(value: float | None) -> str:
    return cell_of(value, ".4g").shown


def _percent(part: float | None, digits: int = 2) -> str:
    return text_from_fraction(part, digits=digits)


def _decibels(value: float | None, *, signed: bool = False) -> Cell:
    rounded = None if value is None else round(value, 1) + 0.0  # no minus before a zero
    return Cell(value, cell_of(rounded, "+.1f dB" if signed else ".1f dB").text)


# ---- localize


def document_from_localized(result: Localization) -> Document:
    """Describe which layers cost a model its accuracy: the answer, the ranking, the repair."""
    found = result.found
    blocks: list[Block] = [
        Text(answer(result), "bad" if found.met is False else "plain"),
        Text(_how(result)),
        _models(result),
        _ranking(found),
        *(Text(note, "unclear") for note in _notes(result)),
        *(
            Code(command, caption=f"To make such a model from the reference, {tool}:")
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
        kept = f"{_some(found.kept)} kept in full precision"
        return f"{cause}; {kept}: {_value(found, found.repaired)} ({_was(found)})."
    if found.met is False:
        restored = _value(found, found.all_restored)
        reason = f"all groups restored give {restored}" if found.in_time else "time was up"
        return f"{cause}. No repair meets {found.where}: {reason}."
    if not worst.restored:
        return f"{cause}."
    return f"{cause}; restored: {_value(found, worst.restored)} ({_was(found)})."


def range_words(seen: TypeRange, *, named: bool = False) -> str:
    """Describe a range that explains a loss."""

    def share(part: float) -> str:
        return "< 0.01 %" if 0 < part < 1e-4 else _percent(part)  # one of a million is not zero

    of = f"{seen.what} of {seen.node}" if named and seen.what != "weights" else seen.what
    if seen.type in ("FP16", "BF16"):
        where = f" in {seen.node}" if named else ""
        if not seen.beyond:
            zero = f", {share(seen.zeroed)} of values become 0" if seen.zeroed else ""
            return f"is too small for {seen.type}{where}: largest {seen.largest:.2g}{zero}"
        return (
            f"overflows {seen.type}{where}: {seen.largest:.6g} > {seen.limit:.6g} "
            f"({share(seen.beyond)} of values)"
        )
    if seen.beyond >= MANY_BEYOND and seen.beyond * 10 >= seen.zeroed:
        return (
            f"is clipped by {seen.type}: {share(seen.beyond)} of its {of} beyond "
            f"±{seen.limit:.4g}, largest {seen.largest:.4g}"
        )
    return (
        f"has outliers that {seen.type} cannot represent: {_percent(seen.zeroed)} of its "
        f"{of} become 0, the largest is {seen.largest:.4g}"
    )


def _was(found: Localized) -> str:
    odd = int(found.candidate.get("nonfinite") or 0)
    value = _shown(found.metric, found.candidate)
    if not odd:
        return f"was {value}"
    lost = f"{odd} values not finite"
    return f"was {lost}" if found.metric == "sqnr_db" else f"was {value}, {lost}"


def _value(found: Localized, numbers: Numbers) -> str:
    name = "SQNR" if found.metric == "sqnr_db" else found.metric
    return f"{name} {_shown(found.metric, numbers)}"


def _shown(metric: str, numbers: Numbers) -> str:
    if metric == "sqnr_db" and numbers.get(metric) is None and numbers.get("rel_l2") == 0:
        return "equal"
    return _metric_text(metric, numbers.get(metric))


def _metric_text(metric: str, value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return MISSING
    if metric == "sqnr_db":
        return _decibels(value, signed=signed).shown
    if is_share(metric):
        return text_from_fraction(value, signed=signed)
    return with_minus(f"{value:+.4g}" if signed else f"{value:.4g}")


def _how(result: Localization) -> str:
    found = result.found
    way = "each by itself" if found.one_by_one else "by bisection"
    count = len(found.groups)
    types = " and ".join(dict.fromkeys(group.type for group in found.groups))
    took = text_from_seconds(found.seconds, digits=2)
    groups = f"{counted(count, 'group')} of nodes in {types}"
    return f"{groups}, restored {way}: {found.trials} models on {result.inputs}, in {took}."


def _models(result: Localization) -> Table:
    found = result.found
    sides: list[tuple[str, str, Numbers]] = [
        (Path(result.reference).name, result.reference, found.reference),
        (Path(result.candidate).name, result.candidate, found.candidate),
        ("all groups restored", "", found.all_restored),
    ]
    if found.kept:
        name = Path(result.repaired).name if result.repaired else "repaired"
        sides.append((name, "", found.repaired))

    def value_of(metric: str, row: tuple[str, str, Numbers]) -> Cell:
        itself = metric == "sqnr_db" and row[1] == result.reference
        return Cell(row[2].get(metric), "" if itself else _shown(metric, row[2]))

    columns = [
        column("model", get=0),
        column("metric", found.metric, lambda row: value_of(found.metric, row), "right"),
        column("sqnr_db", "SQNR", lambda row: value_of("sqnr_db", row), "right"),
        column("nonfinite", "Not finite", lambda x: int(x[2].get("nonfinite") or 0), "d", rank=1),
    ]
    unknown = {"metric"} if found.metric == "sqnr_db" else set()
    return table("models", sides, [each for each in columns if each[0].key not in unknown])


def _ranking(found: Localized) -> Table:
    def there(group: NodeGroup) -> Cell:
        return _decibels(None if group.rel_l2 is None else sqnr_from_rel_l2(group.rel_l2))

    def gain(group: NodeGroup) -> Cell:
        return Cell(group.gain, _metric_text(found.metric, group.gain, signed=True))

    def cause(group: NodeGroup) -> str:
        seen = telling_range(group)
        return "" if seen is None else range_words(seen, named=seen.node != group.node)

    def restored(group: NodeGroup) -> Cell:
        return Cell(group.restored.get(found.metric), _shown(found.metric, group.restored))

    columns = [
        column("node", "Node", fit="shorten"),
        column("op", "Op", rank=4),
        column("restored", "Restored", restored, "right"),
        column("gain", "Gain", gain, "right"),
        column("boundary_db", "SQNR there", there, "right", rank=1),
        column("added", "Adds rel. L2", kind=".3g", rank=5),
        column("nonfinite", "Not finite", kind="right", rank=6),
        column("cause", "Range", cause, fit="wrap", rank=2),
    ]
    caption = (
        "Restored: the whole model with this group alone in full precision. "
        "SQNR there: behind the group, as it is."
    )
    return table("ranking", found.groups[:SHOWN_GROUPS], columns, caption=caption)


def _notes(result: Localization) -> Iterator[str]:
    found = result.found
    if (left := len(found.groups) - SHOWN_GROUPS) > 0:
        yield f"{left} more groups are in the files."
    if found.met and found.kept:
        words = "none of them can be left out"
        if not found.minimal:
            words = "time was up before it was tried with fewer"
        yield f"Kept for {found.where}: {_some(found.kept)}; {words}."
    if found.stand_in:
        yield (
            "FP16 and BF16 are computed in FP32 here and rounded after every node, as tensor "
            "cores do; ONNX Runtime's CPU by itself leaves roundings out."
        )
    if found.unmatched:
        names = _some(found.unmatched)
        yield f"Not found in the candidate, so part of what follows them: {names}."
    yield from found.notes


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:SHOWN_NAMES]) + (" ..." if len(names) > SHOWN_NAMES else "")
