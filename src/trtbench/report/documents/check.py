"""A check: how far candidates are from their reference, in which inputs, in which layers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from trtbench.analysis.check import OutputCheck
from trtbench.analysis.check_classes import ClassCheck
from trtbench.analysis.check_worst import WorstItem
from trtbench.analysis.onnx_stamp import words_from_preparation
from trtbench.domain.feed import LayerDrift, LayersChecked
from trtbench.domain.result import Scalar
from trtbench.report.cells import fraction_cell
from trtbench.report.document import (
    Block,
    Cell,
    Code,
    Document,
    Heading,
    Section,
    Table,
    Text,
    table_from_rows,
)
from trtbench.report.headings import MODEL_HEADING
from trtbench.units import text_from_fraction, text_from_seconds

if TYPE_CHECKING:
    from trtbench.workflows.check.values import Candidate, Checked

RankColumns = list[tuple[str, ClassCheck]]
"""Candidates by name, of which several may have the same."""

SHOWN_LAYERS = 12
SHOWN_WORST = 3
SHOWN_UNMATCHED = 8
TOLERANCES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
NUMBERS: dict[str, tuple[str, int]] = {
    "max_abs": ("Max abs", 1),
    "mean_abs": ("Mean abs", 5),
    "max_rel": ("Max rel", 8),
    "mean_rel": ("Mean rel", 9),
    "rmse": ("RMSE", 7),
    "rel_l2": ("Rel. L2", 2),
}
"""Fields of a check as their columns are called, with the rank of each."""
HEADINGS = (
    MODEL_HEADING,
    Heading(key="output", title="Output", fit="shorten", rank=3),
    Heading(key="close", title="Close", align="right"),
    *(
        Heading(key=key, title=title, align="right", rank=rank)
        for key, (title, rank) in NUMBERS.items()
    ),
    Heading(key="sqnr_db", title="SQNR", align="right", rank=1),
    Heading(key="cosine", title="Cosine", align="right", rank=6),
    Heading(key="nan", title="NaN", align="right", rank=2),
    Heading(key="inf", title="Inf", align="right", rank=2),
    Heading(key="argmax_match", title="Same best class", align="right", rank=4),
)
RANKS = (
    Heading(key="rank", title="Rank", align="right"),
    Heading(key="mae", title="MAE", align="right"),
    Heading(key="mae_sorted", title="MAE sorted", align="right", rank=1),
    Heading(key="disagree", title="Disagree", align="right"),
    Heading(key="disagree_clear", title="No ties", align="right"),
)
SWEEP = (
    Heading(key="tolerance", title="Tolerance", align="right"),
    Heading(key="by_atol", title="Close with it as atol", align="right"),
    Heading(key="by_rtol", title="As rtol", align="right"),
)
LAYERS = (
    Heading(key="node", title="Node", fit="shorten"),
    Heading(key="op", title="Op", rank=1),
    Heading(key="position", title="Place", align="right", rank=5),
    Heading(key="rel_l2", title="Rel. L2", align="right"),
    Heading(key="before", title="Before", align="right", rank=2),
    Heading(key="added", title="Added", align="right"),
    Heading(key="sqnr_db", title="SQNR", align="right", rank=3),
    Heading(key="nonfinite", title="Not finite", align="right", rank=4),
)


def document_from_check(checked: Checked, layers: Sequence[LayersChecked] = ()) -> Document:
    """Describe every candidate's outputs, ranks, tolerances and worst inputs."""
    rows = [_row(each, check) for each in checked.candidates for check in each.checks]
    blocks: list[Block] = [
        Text(text=f"{checked.reference.runtime}, on {checked.inputs}."),
        *(
            [Text(text=f"Images: {words_from_preparation(checked.preparation)}.")]
            if checked.preparation
            else []
        ),
        *_floor(checked),
        *_failed(checked),
        table_from_rows("check", headings=HEADINGS, rows=rows, caption=_closeness(checked)),
        *rank_tables(checked),
    ]
    return Document(
        title=f"Check against {checked.reference.model.name}",
        created="",
        sections=(
            Section(id="check", title="", blocks=tuple(blocks)),
            *(_candidate(each, number) for number, each in enumerate(checked.candidates)),
            *(_layers(each, number) for number, each in enumerate(layers)),
        ),
    )


def _row(candidate: Candidate, check: OutputCheck) -> Sequence[Cell | Scalar]:
    match = check.classes.argmax_match if check.classes else None
    return [
        candidate.side.model.name,
        check.output,
        fraction_cell(check.close, digits=3),
        *(_number(getattr(check, name)) for name in NUMBERS),
        _decibels(check.sqnr_db),
        _number(check.cosine, digits=7),
        check.nan,
        check.inf,
        fraction_cell(match),
    ]


def _closeness(checked: Checked) -> str | None:
    first = next((check for each in checked.candidates for check in each.checks), None)
    if first is None:
        return None
    limit = f"|t - r| <= {first.atol:g} + {first.rtol:g} |r|"
    return f"Close: share of all elements with {limit}; r is the reference."


def _floor(checked: Checked) -> Iterator[Text]:
    if checked.floor is None:
        yield Text(text=f"The floor was not taken: {checked.floor_reason}.")
    for check in checked.floor or ():
        told = f"differs from itself by max {_text(check.max_abs)}, rel. L2 {_text(check.rel_l2)}"
        same = "gives the same every time"
        yield Text(text=f"Floor: {check.output} {same if check.identical else told}.")


def _failed(checked: Checked) -> Iterator[Text]:
    for each in checked.failed:
        yield Text(text=f"{each.model} could not be run: {each.reason}", tone="bad")


def _candidate(candidate: Candidate, number: int) -> Section:
    side = candidate.side
    blocks: list[Block] = [
        Text(text=f"note: only one side has the output {name}", tone="unclear")
        for name in candidate.unmatched
    ]
    blocks += [Text(text=f"note: {note}") for note in candidate.notes]
    for place, check in enumerate(candidate.checks):
        blocks += _output(check, f"{number}_{place}")
    title = f"{side.model.name} · {side.runtime} · {text_from_seconds(side.seconds, digits=3)}"
    return Section(id=f"candidate-{number}", title=title, blocks=tuple(blocks))


def _output(check: OutputCheck, id: str) -> Iterator[Block]:
    if check.note:
        yield Text(text=f"{check.output}: {check.note}", tone="bad")
    yield from (Text(text=f"{check.output}: {told}", tone="unclear") for told in _oddities(check))
    if check.identical:
        yield Text(text=f"{check.output}: equal to the reference's everywhere")
        return
    if check.classes is not None:
        yield Text(text=f"{check.output}: {_class_words(check.classes)}")
        yield _ranks(check.classes, f"ranks_{id}")
    if tolerances := _tolerances(check, f"tolerances_{id}"):
        yield tolerances
    for worst in check.worst[:SHOWN_WORST]:
        yield Text(text=f"worst of {check.output}: {_worst_words(worst)}")


def _oddities(check: OutputCheck) -> Iterator[str]:
    """Say what numbers alone would hide."""
    if check.reference_nonfinite:
        yield f"{check.reference_nonfinite} values of the reference are not finite"
    if check.misshapen and not check.note:
        yield (
            f"{check.misshapen} of {check.items} inputs give another shape than the reference; "
            "they match nothing and are left out of means"
        )
    classes = check.classes
    if classes is not None and classes.unranked:
        yield f"{classes.unranked} of {classes.items} inputs have no best class: NaN or Inf"
    if classes is not None and classes.mixed:
        yield "one side gives probabilities, the other scores before softmax"


def _class_words(classes: ClassCheck) -> str:
    span = classes.argmax_interval
    ends = f"{text_from_fraction(span.low)} to {text_from_fraction(span.high)}"
    return (
        f"same best class {text_from_fraction(classes.argmax_match)} ({ends}), "
        f"top-5 sets {text_from_fraction(classes.top5_agreement)}, "
        f"KL {_text(classes.kl)} nats (max {_text(classes.kl_max)})"
    )


def _ranks(classes: ClassCheck, id: str) -> Table:
    rows = [
        (row.rank, _number(row.mae), _number(row.mae_sorted), fraction_cell(row.disagree),
         fraction_cell(row.disagree_clear))
        for row in classes.ranks
    ]  # fmt: skip
    return table_from_rows(id, headings=RANKS, rows=rows)


def _tolerances(check: OutputCheck, id: str) -> Table | None:
    points = [point for point in check.sweep if point.tolerance in TOLERANCES]
    rows = [
        (Cell(value=point.tolerance, text=f"{point.tolerance:g}"), fraction_cell(point.by_atol),
         fraction_cell(point.by_rtol))
        for point in points
    ]  # fmt: skip
    return table_from_rows(id, headings=SWEEP, rows=rows) if rows else None


def _worst_words(worst: WorstItem) -> str:
    if worst.shapes is not None:
        return f"{worst.name} (shape {worst.shapes})"
    return (
        f"{worst.name} (rel. L2 {_text(worst.rel_l2)}, max {_text(worst.max_abs)}, "
        f"not finite {worst.nonfinite})"
    )


def _layers(layers: LayersChecked, number: int) -> Section:
    """List the nodes that add most drift, and the flags to keep them."""
    outcome = layers.outcome
    ranked = sorted(outcome.drifts, key=lambda each: -(each.added or 0.0))[:SHOWN_LAYERS]
    counts = (
        f"{len(outcome.drifts)} tensors compared, {len(outcome.unmatched)} of the reference have "
        f"no match, {outcome.only_candidate} are only in the candidate."
    )
    blocks: list[Block] = [
        Text(text=counts),
        table_from_rows(f"layers_{number}", headings=LAYERS, rows=map(_drift, ranked)),
    ]
    if outcome.unmatched:
        more = len(outcome.unmatched) - SHOWN_UNMATCHED
        shown = ", ".join(outcome.unmatched[:SHOWN_UNMATCHED])
        blocks.append(Text(text=f"no match: {shown}{f' and {more} more' if more > 0 else ''}"))
    if layers.keep:
        caption = "Worth keeping in FP32, to paste into trtbench quantize:"
        blocks.append(Code(text=layers.keep_flags, caption=caption))
    blocks.append(Text(text=f"drawn in {', '.join(layers.files)}"))
    title = f"Layers of {layers.candidate}"
    return Section(id=f"layers-{number}", title=title, blocks=tuple(blocks))


def _drift(each: LayerDrift) -> Sequence[Cell | Scalar]:
    return (
        each.node,
        each.op,
        each.position,
        _number(each.diff.rel_l2),
        _number(each.before),
        _number(each.added),
        _decibels(each.diff.sqnr_db),
        each.diff.nonfinite,
    )


def _number(value: float | None, *, digits: int = 4) -> Cell:
    return Cell(value=value, text=_text(value, digits=digits))


def _decibels(value: float | None) -> Cell:
    return Cell(value=value, text=None if value is None else f"{value:.1f} dB")


def _text(value: float | None, *, digits: int = 4) -> str:
    return "–" if value is None else f"{value:.{digits}g}"


def rank_tables(checked: Checked) -> Iterator[Table]:
    """Hold candidates beside each other, rank by rank; one alone has its table already."""
    outputs: dict[str, RankColumns] = {}
    for each in checked.candidates:
        for check in each.checks:
            if check.classes is not None:
                column = (each.side.model.name, check.classes)
                outputs.setdefault(check.output, []).append(column)
    for number, (output, columns) in enumerate(outputs.items()):
        if len(columns) < 2:
            continue
        if not any(each.unranked for _, each in columns):  # else not all are of the same input
            yield _best_classes(checked.reference.model.name, columns, f"top_{number}", output)
        yield _rank_differences(columns, f"ranks_{number}", output)


def _best_classes(reference: str, columns: RankColumns, id: str, output: str) -> Table:
    """List score and class at every rank of one input, the reference's first."""
    first = columns[0][1]
    sides = [(reference, first.top_reference), *((name, each.top) for name, each in columns)]
    rows: list[list[Cell | Scalar]] = [[place + 1] for place in range(len(first.top_reference))]
    for _, top in sides:
        for place, row in enumerate(rows):
            best = top[place] if place < len(top) else None
            if best is None:
                row += [None, None]
            else:
                row += [Cell(value=best.score, text=f"{best.score:.4g}"), best.label]
    return table_from_rows(
        id, headings=_rank_headings([name for name, _ in sides], ("score", "class")), rows=rows,
        caption=f"Best classes of {output} of the first input: score and class side by side.",
    )  # fmt: skip


def _rank_differences(columns: RankColumns, id: str, output: str) -> Table:
    """List the error of every candidate's score at each rank, and how often the class differs."""
    rows: list[list[Cell | Scalar]] = []
    for place in range(min(len(each.ranks) for _, each in columns)):
        rows.append([place + 1])
        for _, each in columns:
            rank = each.ranks[place]
            shown = "–" if rank.mae is None else f"{rank.mae:.3g}"
            rows[-1] += [Cell(value=rank.mae, text=shown), fraction_cell(rank.disagree)]
    return table_from_rows(
        id, headings=_rank_headings([name for name, _ in columns], ("MAE", "disagree")), rows=rows,
        caption=f"Ranks of {output} over all inputs: error of the score, and other class.",
    )  # fmt: skip


def _rank_headings(names: Iterable[str], what: tuple[str, str]) -> tuple[Heading, ...]:
    pairs = [
        Heading(key=f"{word}_{number}", title=f"{name} {word}", align="right", fit="wrap")
        for number, name in enumerate(names)
        for word in what
    ]
    return (Heading(key="rank", title="Rank", align="right"), *pairs)
