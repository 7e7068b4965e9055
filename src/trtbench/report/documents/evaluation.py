"""An evaluation: how right models are at their task, and how fast on the same data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trtbench.analysis.onnx_stamp import words_from_preparation
from trtbench.analysis.scores import is_share
from trtbench.domain.result import Scalar, Score
from trtbench.report.cells import bytes_cell, count_cell, rate_cell, seconds_cell
from trtbench.report.document import (
    Block,
    Cell,
    Document,
    Heading,
    Picture,
    Section,
    Table,
    Text,
    table_from_rows,
)
from trtbench.report.headings import (
    MODEL_HEADING,
    PART_HEADINGS,
    PARTS_MEANING,
    capitalized,
    score_heading,
)
from trtbench.report.numbers import text_from_number
from trtbench.units import text_from_seconds

if TYPE_CHECKING:
    from trtbench.workflows.check.evaluate import Evaluated, Evaluation, TableValue

SHOWN_ROWS = 50


def document_from_evaluation(evaluation: Evaluation, *, rows: int = SHOWN_ROWS) -> Document:
    """Describe scores, latencies and sizes of every model, and the tables of the task."""
    blocks: list[Block] = [
        Text(text=f"{capitalized(evaluation.method)}."),
        _main(evaluation),
        _split(evaluation),
        *_preparations(evaluation),
        *(Text(text=f"note: {note}") for note in evaluation.all_notes),
    ]
    sections = [Section(id="scores", title="", blocks=tuple(blocks))]
    if evaluation.unreadable:
        sections.append(_unreadable(evaluation, rows))
    shown = (table for table in evaluation.tables if table.rows and not table.in_json_only)
    sections += [_section(table, rows) for table in shown]
    if pictures := tuple(_pictures(evaluation)):
        sections.append(Section(id="pictures", title="Worst cases", blocks=pictures))
    title = f"{evaluation.task.capitalize()} on {Path(evaluation.data).name}"
    return Document(title=title, created="", sections=tuple(sections))


def _preparations(evaluation: Evaluation) -> Iterator[Text]:
    """Say how images were prepared: for all models alike, then where one differs."""
    shared = evaluation.preparation
    if words := words_from_preparation(shared):
        yield Text(text=f"Images: {words}.")
    for model in evaluation.models:
        own = {key: value for key, value in model.preparation.items() if key not in shared}
        if own:
            yield Text(text=f"Images for {model.label}: {words_from_preparation(own)}.")


def _main(evaluation: Evaluation) -> Table:
    metrics = list(dict.fromkeys(s.metric for model in evaluation.models for s in model.scores))
    headings = (
        MODEL_HEADING,
        *(score_heading(metric, place) for place, metric in enumerate(metrics)),
        Heading(key="items", title="Examples", align="right", rank=4),
        Heading(
            key="latency_all", title="Latency-all (mean / max)", align="right", stack=True, rank=3
        ),
        Heading(
            key="latency_model",
            title="Latency-model (mean / max)",
            align="right",
            stack=True,
            rank=5,
        ),
        Heading(key="size_bytes", title="Size", align="right", rank=2),
        Heading(key="layers", title="Layers", align="right", rank=7),
        Heading(key="parameters", title="Parameters", align="right", rank=6),
    )
    rows = [_row(model, metrics) for model in evaluation.models]
    first = evaluation.models[0]
    caption = (
        f"Latencies are per batch of {first.batch}, taken in the same pass as the accuracy, after "
        f"{_batches(first.split.warmup_batches)} of warm-up; trtbench bench measures it alone. "
        "All counts from handing over the inputs to having the outputs, model the network alone, "
        "synchronised. In brackets, 95 % intervals."
    )
    return table_from_rows("scores", headings=headings, rows=rows, caption=caption)


def _row(model: Evaluated, metrics: Sequence[str]) -> Sequence[Cell | Scalar]:
    return (
        model.label,
        *(_score(model, metric) for metric in metrics),
        count_cell(model.items),
        *(_latency(model, part) for part in ("inference", "model")),
        bytes_cell(model.size_bytes),
        count_cell(model.layers),
        count_cell(model.parameters),
    )


def _latency(model: Evaluated, name: str) -> Cell:
    part = model.split.parts[name]
    text = f"{text_from_seconds(part.mean_s)} / {text_from_seconds(part.max_s)}"
    return Cell(value=part.mean_s, text=text)


def _batches(count: int) -> str:
    return f"{count} batch" if count == 1 else f"{count} batches"


def _score(model: Evaluated, metric: str) -> Cell:
    score = model.score(metric)
    if score is None:
        return Cell()
    examples = "" if score.count == model.items else f", {score.count} examples"
    return Cell(value=score.value, text=text_from_score(score) + examples)


def text_from_score(score: Score) -> str:
    """Write a score with its interval, shares in per cent."""
    scale, unit = (100.0, " %") if is_share(score.metric) else (1.0, "")
    if score.interval is None:
        return text_from_number(scale * score.value) + unit
    low, high = scale * score.interval.low, scale * score.interval.high
    return f"{scale * score.value:.4g}{unit} ({low:.4g} to {high:.4g}{unit})"


def _split(evaluation: Evaluation) -> Table:
    """List where the time of an item went, in the pass that took the scores."""
    headings = (
        MODEL_HEADING,
        *PART_HEADINGS.values(),
        Heading(key="items_per_s", title="Items/s inference", align="right", stack=True),
        Heading(key="items_per_s_all", title="Items/s all", align="right", rank=1, stack=True),
    )
    rows: list[list[Cell | Scalar]] = []
    for model in evaluation.models:
        times = [model.split.item_parts_s.get(name) for name in PART_HEADINGS]
        rates = (model.split.items_per_s, model.split.items_per_s_all)
        rows.append([
            model.label,
            *(seconds_cell(each) for each in times),
            *(rate_cell(each) for each in rates),
        ])  # fmt: skip
    caption = f"{capitalized(evaluation.models[0].timed)}. {PARTS_MEANING}"
    return table_from_rows("split", headings=headings, rows=rows, caption=caption)


def _unreadable(evaluation: Evaluation, most: int) -> Section:
    headings = (
        Heading(key="item", title="Item", fit="shorten"),
        Heading(key="reason", title="Reason", fit="wrap"),
    )
    lost = evaluation.unreadable
    more = f"{most} of {len(lost)}; all are in eval.json." if len(lost) > most else None
    rows = [(each.name, each.reason) for each in lost[:most]]
    table = table_from_rows("unreadable", headings=headings, rows=rows, caption=more)
    return Section(id="unreadable", title="Items that could not be read", blocks=(table,))


def _section(table: TableValue, most: int) -> Section:
    headings = tuple(
        Heading(
            key=title,
            title=title,
            align="left" if any(map(_is_word, (row[place] for row in table.rows))) else "right",
            rank=max(0, place - 2),
            fit="shorten" if place == 0 else "whole",
            stack=True,
        )
        for place, title in enumerate(table.headings)
    )
    whole = table.title.startswith("Top-1")
    shares = [whole or is_share(title.split()[-1]) for title in table.headings]
    rows = [list(map(_cell, row, shares)) for row in table.rows[:most]]
    count = len(table.rows)
    more = f"{most} of {count} rows; all are in eval.json." if count > most else None
    made = table_from_rows(table.id, headings=headings, rows=rows, caption=more)
    return Section(id=table.id, title=table.title, blocks=(made,))


def _is_word(value: Scalar) -> bool:
    return isinstance(value, str) and not value.endswith(" %")


def _cell(value: Scalar, share: bool) -> Cell:
    if not isinstance(value, float):
        return Cell(value=value)
    return Cell(value=value, text=f"{100 * value:.2f} %" if share else f"{value:.4g}")


def _pictures(evaluation: Evaluation) -> Iterator[Picture]:
    for picture in evaluation.pictures:
        path = Path(picture.path)
        yield Picture(id=path.stem, title=picture.title, path=picture.path)
