"""Accuracy: scores of evaluations and runs, against latency, with pictures of the worst cases.

``run.extra["scores"]`` as ``run_facts`` says; ``run.extra["pictures"]`` is a sequence of paths, or
of mappings with ``path`` and optionally ``title`` and ``caption``, relative to the run's folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trtbench.analysis.onnx_graph import words_from_preparation
from trtbench.core.metrics import is_share
from trtbench.core.run import Run, Scalar, Score
from trtbench.core.units import (
    MISSING,
    common_unit,
    counted,
    text_from_bytes,
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
    joules_per_item,
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
MOST_METRICS = 5
"""More columns than this are wider than a page; the table before has all."""
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
        blocks += [*_same_bytes(runs), *_item_parts(runs)]
    pictures = list(_run_pictures(runs))
    blocks += pictures[:MOST_PICTURES]
    if len(pictures) > MOST_PICTURES:
        blocks.append(Text(f"{MOST_PICTURES} of {len(pictures)} pictures are shown."))
    return section_of("accuracy", "Accuracy", blocks)


def _same_bytes(runs: Sequence[Run]) -> Iterator[Block]:
    """List scores, latency, memory, energy and size of the same model file side by side."""
    judged = [
        (label, run, scores, head)
        for label, run in named(runs)
        if (scores := scores_of(run)) and (head := headline_summary(run))
    ]
    if not judged:
        return

    def score(metric: str, row: Any) -> Cell:
        found = row[2].get(metric)
        return Cell(found.value, score_text(found, found.value)) if found else Cell()

    def host(row: Any) -> float | None:
        found = (each.peak_memory_bytes for each in row[1].record.launches)
        return max((each for each in found if each), default=None)

    def device(row: Any) -> float | None:
        own = [e.process_memory_bytes for e in row[1].telemetry if e.process_memory_bytes]
        used = [e.memory_used_bytes for e in row[1].telemetry if e.memory_used_bytes]
        return max(own or used, default=None)

    metrics = list(dict.fromkeys(metric for row in judged for metric in row[2]))[:MOST_METRICS]
    columns = (
        column("run", get=0),
        column("sha256", "SHA-256", lambda x: (x[1].record.spec.model.sha256 or MISSING)[:12]),
        *(column(metric, metric, partial(score, metric), "right") for metric in metrics),
        column("median_s", get=lambda row: row[3].typical),
        column("host_memory_bytes", "Host memory", host, "bytes"),
        column("device_memory_bytes", "Device memory", device, "bytes"),
        column("energy_per_item_j", "J per item", lambda row: joules_per_item(row[1]), "number"),
        column("size_bytes", get=lambda row: row[1].record.spec.model.size_bytes),
    )
    caption = (
        "Scores are those of the very file whose latency was measured. Memory is the peak of a "
        "measuring process; where a device does not report it by process, the peak on the device."
    )
    unit = common_unit(head.typical for *_, head in judged)
    yield table("same_bytes", judged, columns, caption=caption, unit=unit)


def _item_parts(runs: Sequence[Run]) -> Iterator[Block]:
    """List where the time of one item went in the pass that took the scores."""
    carried = ((label, run.extra.get("item_parts")) for label, run in named(runs))
    rows = [
        (label, found)
        for label, found in carried
        if isinstance(found, Mapping) and isinstance(found.get("seconds"), Mapping)
    ]
    if rows:
        timed = dict.fromkeys(str(found["timed"]) for _, found in rows if found.get("timed"))
        columns = (column("run", get=0), *_part_columns(lambda row: row[1]["seconds"]))
        caption = f"{capitalized('; '.join(timed))}. {PARTS_MEANING}"
        yield table("item_parts", rows, columns, caption=caption)


def _part_columns(seconds: Callable[[Any], Mapping[str, float]]) -> Iterator[Column]:
    def time(name: str, row: Any) -> float | None:
        return seconds(row).get(name)

    for name, key, title, rank in PARTS:
        yield column(key, title, partial(time, name), "seconds", rank=rank)


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
        _Point(label, f"run:{index}", head.typical / items, score, run.record.spec.model.size_bytes)
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
    size_bytes: int | None


def front(points: Sequence[tuple[float, float]], *, less: bool) -> list[int]:
    """Choose the points that no other beats: faster first, each more accurate than the last."""
    chosen: list[int] = []
    sign = 1 if less else -1
    best = float("inf")
    for place in sorted(range(len(points)), key=lambda i: (points[i][0], sign * points[i][1])):
        if sign * points[place][1] < best:
            chosen.append(place)
            best = sign * points[place][1]
    return chosen


def _pareto_figure(points: Sequence[_Point], metric: str, runs: Sequence[Run]) -> Figure:
    times = [point.per_item_s for point in points]
    unit, scale = unit_for_seconds(min(times))
    declared = points[0].score.declared
    share = declared.is_share and all(point.score.value <= 1 for point in points)
    whole = 100.0 if share else 1.0
    less = declared.better == "low"
    pairs = [(point.per_item_s, point.score.value) for point in points]
    best = front(pairs, less=less) if declared.better else []
    largest = max((each.size_bytes or 0 for each in points), default=0)
    few = len(points) <= MOST_TEXTS  # many large marks would cover each other
    lines: list[Line] = []
    if len(best) > 1:
        x = [points[i].per_item_s / scale for i in best]
        y = [whole * points[i].score.value for i in best]
        texts = [points[i].name for i in best] if len(best) <= MOST_TEXTS else ()
        lines.append(line("Pareto front", "front", x, y, "dotted", texts=texts))
    for point in points:
        size = point.size_bytes / largest if point.size_bytes and largest else 0.5
        name = f"{point.name} ({text_from_bytes(point.size_bytes)})"
        x, y = [point.per_item_s / scale], [point.score.value]
        ends = [point.score.interval] if point.score.interval else ()
        drawn = line(name, point.role, x, y, "points", scale=1 / whole, ends=ends)
        lines.append(drawn.having(sizes=(size if few else 0.4 * size,)))
    title = f"{headline_title(runs)}, median per item"
    far = max(times) > FAR * min(times)
    axis = Axis(title, unit, "log" if far else "linear")
    words = f"Best is the {'lower' if less else 'upper'} left."
    if not best:
        words = f"No front: the task does not declare whether a low or a high {metric} is better."
    alone = f" {points[best[0]].name} is best in both." if len(best) == 1 else ""
    chart = curves(axis, Axis(metric, "%" if share else None), lines)
    caption = f"{words}{alone} The area of a mark is the size of the model's file."
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
    columns = (
        column("model", get="label"),
        *_part_columns(lambda model: model.split.item_parts_s),
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
