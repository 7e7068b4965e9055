"""Accuracy: scores of evaluations and runs, against latency, with pictures of the worst cases.

``run.extra["scores"]`` as ``run_facts`` says; ``run.extra["pictures"]`` is a sequence of paths, or
of mappings with ``path`` and optionally ``title`` and ``caption``, relative to the run's folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from trtbench.analysis.onnx_graph import words_from_preparation
from trtbench.analysis.sweep import pareto_front
from trtbench.core.metrics import is_share
from trtbench.core.run import Run, Scalar, Score
from trtbench.core.units import (
    counted,
    text_from_seconds,
    unit_for_seconds,
)
from trtbench.report.charts import Axis, Line, curves, line
from trtbench.report.document import (
    Block,
    Cell,
    Column,
    Document,
    Figure,
    Fit,
    Picture,
    Section,
    Table,
    Text,
    capitalized,
    column,
    note_lines,
    score_column,
    section_of,
    table,
)
from trtbench.report.run_facts import (
    file_stem,
    headline_summary,
    headline_title,
    named,
    score_text,
    scores_of,
    text_from_score,
)

if TYPE_CHECKING:
    from trtbench.analysis.pass_times import Evaluated, Evaluation, TableValue


ORDER = 80

PARTS = (
    ("load", "load_s", "Load", 4),
    ("preprocess", "preprocess_s", "Preprocess", 2),
    ("inference", "inference_s", "Inference", 2),
    ("model", "network_s", "Network", 3),
    ("postprocess", "postprocess_s", "Postprocess", 2),
)
"""Parts of the work on one item, as a pass over data times them."""
PARTS_MEANING = (
    "Load: decoding the file. Preprocess: making the tensor. Inference: what a caller waits for, "
    "transfers included. Network: the network alone. Postprocess: making predictions of the "
    "outputs (NMS included), in numpy on the host."
)
MOST_PICTURES = 12
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")
SHOWN_ROWS = 50
MOST_MARKS = 40
MOST_TEXTS = 8
"""Names that fit beside the marks of the front."""
FAR = 4
"""Latencies further apart than this have a logarithmic axis, or the fast ones would be one blot."""


def make(runs: Sequence[Run]) -> list[Section]:
    """Make every section of this file that has something to say."""
    return [section for section in (make_pareto(runs), make_accuracy(runs)) if section]


def make_accuracy(runs: Sequence[Run]) -> Section | None:
    """List every score of every run with its interval, and show the pictures runs carry."""
    rows = [(label, score) for label, run in named(runs) for score in scores_of(run).values()]

    def end(name: str, row: tuple[str, Score]) -> Cell:
        value = getattr(row[1] if name == "value" else row[1].interval, name, None)
        return Cell(value, score_text(row[1], value))

    blocks: list[Block] = []
    if rows:
        columns = (
            column("run", get=0),
            column("metric", get=lambda row: row[1].metric),
            column("value", "Value", partial(end, "value"), "right"),
            column("low", "Low", partial(end, "low"), "right"),
            column("high", "High", partial(end, "high"), "right"),
            column("count", "Examples", lambda row: row[1].count, "count"),
        )
        caption = "Low and high: the interval of the score, as the evaluation states it."
        blocks.append(table("accuracy", rows, columns, caption=caption))
    pictures = list(_run_pictures(runs))
    blocks += pictures[:MOST_PICTURES]
    if len(pictures) > MOST_PICTURES:
        blocks.append(Text(f"{MOST_PICTURES} of {len(pictures)} pictures are shown."))
    return section_of("accuracy", "Accuracy", blocks)


def _run_pictures(runs: Sequence[Run]) -> Iterator[Picture]:
    taken: set[str] = set()
    seen: set[Path] = set()
    for label, run in named(runs):
        carried = run.extra.get("pictures", ())
        for each in carried if isinstance(carried, (list, tuple)) else ():
            facts = each if isinstance(each, Mapping) else {"path": each}
            path = (run.path or Path()) / str(facts.get("path", ""))
            if path.suffix.lower() not in SUFFIXES or path in seen or not path.is_file():
                continue
            seen.add(path)
            yield Picture(
                id=file_stem(path.stem, taken=taken),
                title=str(facts.get("title") or path.stem.replace("_", " ")),
                path=str(path),
                caption=str(facts.get("caption") or label),
            )


# ---- accuracy against latency


def make_pareto(runs: Sequence[Run]) -> Section | None:
    """Draw the metric most runs have against the latency per item, and the front."""
    counts = Counter(metric for run in runs for metric in scores_of(run))
    if not counts:
        return None
    metric = counts.most_common(1)[0][0]
    points = [
        _Point(label, f"run:{index}", head.typical / items, score)
        for index, (label, run) in enumerate(named(runs))
        if (head := headline_summary(run))
        and (score := scores_of(run).get(metric))
        and (items := run.record.known_items)
    ]
    if len(points) < 2 or len({(point.per_item_s, point.score) for point in points}) < 2:
        return None
    figure = _pareto_figure(points[:MOST_MARKS], metric, runs)
    return section_of("pareto", "Accuracy against latency", (figure,))


class _Point(NamedTuple):
    name: str
    role: str
    per_item_s: float
    score: Score


def _pareto_figure(points: Sequence[_Point], metric: str, runs: Sequence[Run]) -> Figure:
    times = [point.per_item_s for point in points]
    unit, scale = unit_for_seconds(min(times))
    declared = points[0].score.declared
    share = declared.is_share and all(point.score.value <= 1 for point in points)
    whole = 100.0 if share else 1.0
    best: list[_Point] = []
    if declared.better:
        pairs = [{"time": point.per_item_s, "score": point.score.value} for point in points]
        chosen = pareto_front(pairs, better={"time": "low", "score": declared.better})
        best = sorted((points[k] for k in chosen), key=lambda point: point.per_item_s)
    lines: list[Line] = []
    if len(best) > 1:
        x, y = [each.per_item_s / scale for each in best], [each.score.value for each in best]
        texts = [each.name for each in best] if len(best) <= MOST_TEXTS else ()
        lines.append(line("Pareto front", "front", x, y, "dotted", scale=1 / whole, texts=texts))
    for point in points:
        x, y = [point.per_item_s / scale], [point.score.value]
        ends = [point.score.interval] if point.score.interval else ()
        lines.append(line(point.name, point.role, x, y, "mark", scale=1 / whole, ends=ends))
    far = max(times) > FAR * min(times)
    axis = Axis(f"{headline_title(runs)}, median per item", unit, "log" if far else "linear")
    caption = f"Best is the {'lower' if declared.better == 'low' else 'upper'} left."
    if not best:
        caption = f"No front: it is not declared whether a low or a high {metric} is better."
    chart = curves(axis, Axis(metric, "%" if share else None), lines)
    return Figure("pareto", f"{metric} against latency", chart, caption)


# ---- evaluations


def document_from_evaluation(evaluation: Evaluation, *, rows: int = SHOWN_ROWS) -> Document:
    """Describe scores, latencies and sizes of every model, and the tables of the task."""
    blocks: list[Block] = [
        Text(f"{capitalized(evaluation.method)}."),
        _score_table(evaluation),
        _split_table(evaluation),
    ]
    shared = evaluation.preparation
    if words := words_from_preparation(shared):
        blocks.append(Text(f"Images: {words}."))
    for model in evaluation.models:
        own = {key: value for key, value in model.preparation.items() if key not in shared}
        if own:
            blocks.append(Text(f"Images for {model.label}: {words_from_preparation(own)}."))
    blocks += note_lines(evaluation.all_notes)
    sections = [Section("scores", "", tuple(blocks))]
    if lost := evaluation.unreadable:
        columns = (
            column("item", "Item", "name", fit="shorten"),
            column("reason", "Reason", fit="wrap"),
        )
        more = f"{rows} of {len(lost)}; all are in eval.json." if len(lost) > rows else None
        listed = table("unreadable", lost[:rows], columns, caption=more)
        title = "Items that could not be read"
        sections.append(Section("unreadable", title, (listed,)))
    shown = (each for each in evaluation.tables if each.rows)
    sections += [_task_section(each, rows) for each in shown]
    pictures = tuple(
        Picture(Path(each.path).stem, each.title, each.path) for each in evaluation.pictures
    )
    if pictures:
        sections.append(Section("pictures", "Worst cases", pictures))
    title = f"{evaluation.task.capitalize()} on {Path(evaluation.data).name}"
    return Document(title=title, sections=tuple(sections))


def _score_table(evaluation: Evaluation) -> Table:
    def score(metric: str, model: Evaluated) -> Cell:
        found = model.score(metric)
        if found is None:
            return Cell()
        examples = "" if found.count == model.items else f", {found.count} examples"
        return Cell(found.value, text_from_score(found) + examples)

    def latency(name: str, model: Evaluated) -> Cell:
        part = model.split.parts[name]
        text = f"{text_from_seconds(part.mean_s)} / {text_from_seconds(part.max_s)}"
        return Cell(part.mean_s, text)

    metrics = dict.fromkeys(s.metric for model in evaluation.models for s in model.scores)
    all_, alone = "Latency-all (mean / max)", "Latency-model (mean / max)"
    columns = (
        column("model", get="label"),
        *(score_column(each, k, partial(score, each)) for k, each in enumerate(metrics)),
        column("items", "Examples", kind="count", rank=4),
        column("latency_all", all_, partial(latency, "inference"), "right", rank=3),
        column("latency_model", alone, partial(latency, "model"), "right", rank=5),
        column("size_bytes", "Size", kind="bytes", rank=2),
        column("layers", "Layers", kind="count", rank=7),
        column("parameters", "Parameters", kind="count", rank=6),
    )
    first = evaluation.models[0]
    warmup = counted(first.split.warmup_batches, "batch", "batches")
    caption = (
        f"Latencies are per batch of {first.batch}, taken in the same pass as the accuracy, after "
        f"{warmup} of warm-up; trtbench bench measures latency alone. All: from the inputs on the "
        "host to the outputs on the host; model: the network alone, synchronised. In brackets, "
        "95 % intervals."
    )
    return table("scores", evaluation.models, columns, caption=caption)


def _split_table(evaluation: Evaluation) -> Table:
    """List where the time of an item went, in the pass that took the scores."""

    def part(name: str, model: Evaluated) -> float | None:
        return model.split.item_parts_s.get(name)

    columns = (
        column("model", get="label"),
        *(column(key, title, partial(part, k), "seconds", rank=r) for k, key, title, r in PARTS),
        column("items_per_s", "Items/s inference", "split.items_per_s", "rate"),
        column("items_per_s_all", "Items/s all", "split.items_per_s_all", "rate", rank=1),
    )
    caption = f"{capitalized(evaluation.models[0].timed)}. {PARTS_MEANING}"
    return table("split", evaluation.models, columns, caption=caption)


def _task_section(found: TableValue, most: int) -> Section:
    whole = found.title.startswith("Top-1")

    def task_column(place: int, title: str) -> Column:
        share = whole or is_share(title.split()[-1])
        values = [row[place] for row in found.rows]
        words = any(isinstance(each, str) and not each.endswith(" %") for each in values)

        def cell(row: Sequence[Scalar]) -> Cell:
            value = row[place]
            if not isinstance(value, float):
                return Cell(value)
            return Cell(value, f"{100 * value:.2f} %" if share else f"{value:.4g}")

        rank = max(0, place - 2)
        fit: Fit = "shorten" if place == 0 else "whole"
        return column(title, title, cell, "" if words else "right", rank=rank, fit=fit)

    columns = [task_column(place, title) for place, title in enumerate(found.headings)]
    count = len(found.rows)
    more = f"{most} of {count} rows; all are in eval.json." if count > most else None
    listed = table(found.id, found.rows[:most], columns, caption=more)
    return Section(found.id, found.title, (listed,))
