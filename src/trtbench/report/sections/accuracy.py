"""Accuracy: scores, differences from a reference, and layers that reduce accuracy.

For the output of ``eval``, ``check`` and ``localize`` and for reports. ``run_facts`` documents
``run.extra["scores"]``. ``run.extra["pictures"]`` is a list of paths, relative to the run's folder.
``run.extra["checks"]`` is a sequence of mappings (or objects), one per output, with ``output`` and
any numbers; ``run.extra["output_comparison"]`` is the content of ``output_diff.json``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from trtbench.analysis.check import OutputCheck
from trtbench.analysis.localize import precision_problem
from trtbench.analysis.onnx_graph import describe_preparation
from trtbench.analysis.scores import sqnr_from_rel_l2
from trtbench.analysis.sweep import pareto_front
from trtbench.core import units
from trtbench.core.metrics import metric as metric_named
from trtbench.core.properties import network_name
from trtbench.core.results import Localization, Localized, NodeGroup, Numbers
from trtbench.core.run import Run, Scalar, Score
from trtbench.report import document as doc
from trtbench.report.charts import Axis, Line, curves, line
from trtbench.report.run_facts import (
    flatten_facts,
    headline_title,
    labelled,
    score_text,
    scores_of,
    summary_of,
    unique_stem,
)

if TYPE_CHECKING:
    from trtbench.analysis.check import Checked
    from trtbench.analysis.pass_times import Evaluated, Evaluation, TableValue

ORDER = 80

PARTS = (
    ("load", "load_s", "Load", 4),
    ("preprocess", "preprocess_s", "Preprocess", 2),
    ("inference", "inference_s", "Inference", 2),
    ("model", "network_s", "Network", 3),
    ("postprocess", "postprocess_s", "Postprocess", 2),
)
"""Steps of processing one item that are timed during an evaluation."""
PARTS_MEANING = (
    "Load: decoding the file. Preprocess: making the tensor. Inference: the whole call, with "
    "transfers. Network: the network alone. Postprocess: converting outputs to predictions "
    "(with NMS), in numpy on the host."
)
MOST_PICTURES = 12
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".gif")
SHOWN_ROWS = 50


def make(runs: Sequence[Run]) -> list[doc.Section | None]:
    """Show accuracy against latency, all scores, pictures, and numeric checks."""
    return [
        doc.optional_section("pareto", "Accuracy against latency", _pareto(runs)),
        doc.optional_section("accuracy", "Accuracy", _accuracy(runs)),
        doc.optional_section("checks", "Numeric checks", _checks(runs)),
    ]


def _accuracy(runs: Sequence[Run]) -> Iterator[doc.Block]:
    rows = [(label, score) for label, run in labelled(runs) for score in scores_of(run).values()]

    def limit_cell(name: str, row: tuple[str, Score]) -> doc.Cell:
        value = getattr(row[1] if name == "value" else row[1].interval, name, None)
        return doc.Cell(value, score_text(row[1], value))

    def metric(row: tuple[str, Score]) -> doc.Cell:
        return doc.Cell(row[1].metric, doc.score_title(row[1].metric))

    if rows:
        columns = (
            doc.column("run", get=0),
            doc.column("metric", get=metric),
            doc.column("value", "Value", partial(limit_cell, "value"), "right"),
            doc.column("low", "Low", partial(limit_cell, "low"), "right"),
            doc.column("high", "High", partial(limit_cell, "high"), "right"),
            doc.column("count", "Examples", lambda row: row[1].count, "count"),
        )
        caption = "Low and high: the interval of the score."
        yield doc.table("accuracy", rows, columns, caption=caption)
    taken: set[str] = set()
    pictures: dict[Path, doc.Picture] = {}
    for label, run in labelled(runs):
        carried = run.extra.get("pictures")
        for each in carried if isinstance(carried, list) else ():
            path = (run.path or Path()) / str(each)
            if path.suffix.lower() in SUFFIXES and path not in pictures and path.is_file():
                id, title = unique_stem(path.stem, taken=taken), path.stem.replace("_", " ")
                pictures[path] = doc.Picture(id, title, str(path), label)
    yield from list(pictures.values())[:MOST_PICTURES]
    if len(pictures) > MOST_PICTURES:
        yield doc.Text(f"{MOST_PICTURES} of {len(pictures)} pictures are shown.")


def _pareto(runs: Sequence[Run]) -> Iterator[doc.Figure]:
    """Plot the most common metric against the latency per item, with Pareto fronts.

    A front is of runs with equal batch and, where a network has several, equal input shapes.
    """
    counts = Counter(metric for run in runs for metric in scores_of(run))
    metric = counts.most_common(1)[0][0] if counts else ""
    points = [
        (label, f"run:{index}", head.typical / items, score)
        for index, (label, run) in enumerate(labelled(runs))
        if (head := summary_of(run).head)
        and (score := scores_of(run).get(metric))
        and (items := run.record.known_items)
    ]
    if len({(per_item_s, score) for _, _, per_item_s, score in points}) < 2:
        return
    points = points[:40]
    times = [per_item_s for _, _, per_item_s, _ in points]
    unit, scale = units.unit_for_seconds(min(times))
    declared = points[0][-1].declared
    share = declared.is_share and all(score.value <= 1 for *_, score in points)
    whole = 0.01 if share else 1.0
    shapes = {(network_name(x.record), tuple(t.shape[1:] for t in x.record.inputs)) for x in runs}
    groups: dict[str, list[tuple[str, str, float, Score]]] = {}
    for point in points if declared.better else ():
        record = runs[int(point[1].removeprefix("run:"))].record
        dims = [units.text_from_shape(t.shape[1:]) for t in record.inputs]
        own = dims if len(shapes) > len(dict(shapes)) else []  # a network has several
        groups.setdefault(" · ".join([f"batch {record.known_items}", *own]), []).append(point)
    lines: list[Line] = []
    for kind, members in groups.items():
        pairs = [{"time": each, "score": score.value} for _, _, each, score in members]
        chosen = pareto_front(pairs, better={"time": "low", "score": declared.better or "low"})
        best = sorted((members[k] for k in chosen), key=itemgetter(2))
        if len(best) > 1:
            x, y = [each / scale for _, _, each, _ in best], [score.value for *_, score in best]
            texts = [name for name, *_ in best] if len(best) * len(groups) <= 8 else ()
            name = f"Pareto front, {kind}" if len(groups) > 1 else "Pareto front"
            lines.append(line(name, "front", x, y, "dotted", scale=whole, texts=texts))
    for name, role, per_item_s, score in points:
        x, ends = [per_item_s / scale], [score.interval] if score.interval else ()
        lines.append(line(name, role, x, [score.value], "mark", scale=whole, ends=ends))
    far = max(times) > 4 * min(times)  # a linear axis would squeeze the fast ones
    axis = Axis(f"{headline_title(runs)}, median per item", unit, "log" if far else "linear")
    caption = f"The {'lower' if declared.better == 'low' else 'upper'} left is best."
    if not declared.better:
        caption = f"No Pareto front: it is unknown whether a low or a high {metric} is better."
    title = doc.score_title(metric)
    chart = curves(axis, Axis(title, "%" if share else None), lines)
    yield doc.Figure("pareto", f"{title} against latency", chart, caption)


def document_from_evaluation(
    evaluation: Evaluation, *, rows: int = SHOWN_ROWS, brief: bool = False
) -> doc.Document:
    """Describe an evaluation: scores, latencies, sizes, tables; ``brief``: scores and notes."""
    title = f"{evaluation.task.capitalize()} on {Path(evaluation.data).name}"
    blocks: list[doc.Block] = [_score_table(evaluation)]
    if brief:
        blocks += doc.note_lines(evaluation.all_notes)
        return doc.Document(title=title, sections=(doc.Section("scores", "", tuple(blocks)),))
    blocks += [_split_table(evaluation), doc.Text(f"{doc.capitalized(evaluation.method)}.")]
    shared = evaluation.preparation
    if words := describe_preparation(shared):
        blocks.append(doc.Text(f"Images: {words}."))
    for model in evaluation.models:
        own = {key: value for key, value in model.preparation.items() if key not in shared}
        if own:
            blocks.append(doc.Text(f"Images for {model.label}: {describe_preparation(own)}."))
    blocks += doc.note_lines(evaluation.all_notes)
    sections = [doc.Section("scores", "", tuple(blocks))]
    if lost := evaluation.unreadable:
        columns = (
            doc.column("item", "Item", "name", fit="shorten"),
            doc.column("reason", "Reason", fit="wrap"),
        )
        more = f"{rows} of {len(lost)}; all are in eval.json." if len(lost) > rows else None
        listed = doc.table("unreadable", lost[:rows], columns, caption=more)
        sections.append(doc.Section("unreadable", "Items that could not be read", (listed,)))
    sections += [_task_section(each, rows) for each in evaluation.tables if each.rows]
    if found := evaluation.pictures:
        pictures = tuple(doc.Picture(Path(each.path).stem, each.title, each.path) for each in found)
        sections.append(doc.Section("pictures", "Pictures", pictures))
    return doc.Document(title=title, sections=tuple(sections))


def _score_table(evaluation: Evaluation) -> doc.Table:
    def score(metric: str, model: Evaluated) -> doc.Cell:
        found = model.score(metric)
        if found is None:
            return doc.Cell()
        scale, unit = (100.0, " %") if found.declared.is_share else (1.0, "")
        text = units.text_from_number(scale * found.value) + unit
        if found.interval is not None:
            low, high = scale * found.interval.low, scale * found.interval.high
            text = f"{scale * found.value:.4g}{unit} ({low:.4g} to {high:.4g}{unit})"
        examples = "" if found.count == model.items else f", {found.count} examples"
        return doc.Cell(found.value, text + examples)

    unit = units.common_unit(each.split.parts["inference"].mean_s for each in evaluation.models)

    def latency(name: str, model: Evaluated) -> doc.Cell:
        part = model.split.parts[name]
        ends = (units.text_from_duration(each, unit=unit) for each in (part.mean_s, part.max_s))
        return doc.Cell(part.mean_s, " / ".join(ends))

    metrics = dict.fromkeys(s.metric for model in evaluation.models for s in model.scores)
    all_, alone = "Latency-all (mean / max)", "Latency-model (mean / max)"
    columns = (
        doc.column("model", get="label"),
        *(doc.score_column(each, k, partial(score, each)) for k, each in enumerate(metrics)),
        doc.column("items", "Examples", kind="count", rank=4),
        doc.column("latency_all", all_, partial(latency, "inference"), "right", rank=3),
        doc.column("latency_model", alone, partial(latency, "model"), "right", rank=5),
        doc.column("size_bytes", "Size", kind="bytes", rank=2),
        doc.column("layers", "Layers", kind="count", rank=7),
        doc.column("parameters", "Parameters", kind="count", rank=6),
    )
    known = sorted({(each.batch, each.split.warmup_batches) for each in evaluation.models})
    each_kind = (f"of {a}, after {units.counted(b, 'batch', 'batches')} of" for a, b in known)
    caption = (
        f"In brackets, 95 % intervals. Latency per batch {' or '.join(each_kind)} warm-up "
        "(all: from inputs to outputs on the host; model: the network alone); trtbench "
        "bench measures it precisely."
    )
    return doc.table("scores", evaluation.models, columns, caption=caption)


def _split_table(evaluation: Evaluation) -> doc.Table:
    def part(name: str, model: Evaluated) -> float | None:
        return model.split.item_parts_s.get(name)

    columns = (
        doc.column("model", get="label"),
        *(doc.column(key, title, partial(part, k), "time", rank=r) for k, key, title, r in PARTS),
        doc.column("items_per_s", "Items/s inference", "split.items_per_s", "rate"),
        doc.column("items_per_s_all", "Items/s all", "split.items_per_s_all", "rate", rank=1),
    )
    timed = dict.fromkeys(doc.capitalized(each.timed) for each in evaluation.models)
    caption = f"{', or '.join(timed)}. {PARTS_MEANING}"
    return doc.table("split", evaluation.models, columns, caption=caption)


def _task_section(found: TableValue, most: int) -> doc.Section:
    def text(title: str, value: Scalar) -> str | None:
        if not isinstance(value, float):
            return None
        share = found.title.startswith("Top-1") or metric_named(title.split()[-1]).is_share
        return f"{100 * value:.2f} %" if share else f"{value:.4g}"

    columns, count = doc.plain_columns(found.headings, found.rows, text), len(found.rows)
    more = f"{most} of {count} rows; all are in eval.json." if count > most else None
    listed = doc.table(found.id, found.rows[:most], columns, caption=more)
    return doc.Section(found.id, found.title, (listed,))


TITLES = {
    "nan": "NaN", "rmse": "RMSE", "rel_l2": "Rel. L2", "sqnr_db": "SQNR (dB)", "kl": "KL (nats)",
    "kl_max": "KL, max", "top5_agreement": "Top-5 sets",
}  # fmt: skip
SHOWN_GROUPS = 10


def _checks(runs: Sequence[Run]) -> list[doc.Block]:
    """Show the checks of all outputs in one table, and the output comparison of each run."""

    def text(_: str, value: Scalar) -> str | None:
        if isinstance(value, bool):
            return "yes" if value else "no"
        return f"{value:.4g}" if isinstance(value, float) else None

    rows: list[dict[str, Scalar]] = []
    blocks: list[doc.Block] = []
    for number, (label, run) in enumerate(labelled(runs), start=1):
        checks = run.extra.get("checks")
        for each in checks if isinstance(checks, (list, tuple)) else ():
            if facts := dict(flatten_facts(msgspec.to_builtins(each))):
                rows.append({"run": label, **facts})
        if pairs := list(flatten_facts(run.extra.get("output_comparison")))[:60]:
            blocks.append(doc.Text(f"Comparison of outputs, {label}:"))
            cells = ((name, doc.Cell(value, text(name, value))) for name, value in pairs)
            blocks.append(doc.key_values(f"output_comparison_{number}", cells))

    def title(name: str) -> str:
        return TITLES.get(name, name.replace("_", " ").capitalize())

    if rows:
        names = list(dict.fromkeys(name for row in rows for name in row))[:14]
        lines = [[row.get(name) for name in names] for row in rows]
        blocks.insert(0, doc.table("checks", lines, doc.plain_columns(names, lines, text, title)))
    return blocks


def document_from_check(checked: Checked, *, brief: bool = False) -> doc.Document:
    """Say whether the candidates pass, and how their outputs differ from the reference.

    ``brief`` leaves out repeatability and the worst inputs.
    """
    rows = [(each, check) for each in checked.candidates for check in each.checks]
    judged = [(each.side, met) for each in checked.candidates for met in each.judgements]
    blocks: list[doc.Block] = []
    for side, met in judged if len(judged) > 1 else ():
        name = f"{side.model.name}: " if len(checked.candidates) > 1 else ""
        words = f"{'pass' if met.passed else 'FAIL'}  {name}{met.message}"
        blocks.append(doc.Text(words, "good" if met.passed else "bad"))
    blocks.append(doc.Text(f"{checked.reference.runtime}, on {checked.inputs}."))
    if checked.preparation:
        blocks.append(doc.Text(f"Images: {describe_preparation(checked.preparation)}."))
    if checked.floor is None and not brief:
        reason = checked.floor_reason
        blocks.append(doc.Text(f"Repeatability of the reference was not measured: {reason}."))
    for check in () if brief else checked.floor or ():
        far = f"max {_format_number(check.max_abs)}, rel. L2 {_format_number(check.rel_l2)}"
        words = f"differs between runs of the reference by {far}"
        same = "the reference is deterministic"
        blocks.append(doc.Text(f"{check.output}: {same if check.identical else words}."))
    failed = (f"{each.model} could not be run: {each.reason}" for each in checked.failed)
    blocks += [doc.Text(words, "bad") for words in failed]
    caption = None
    if rows:
        limit = f"|t - r| <= {rows[0][1].atol:g} + {rows[0][1].rtol:g} |r|"
        caption = f"Close: share of all elements with {limit}; r is the reference."
    blocks.append(doc.table("check", rows, _check_columns(), caption=caption))
    sections: list[doc.Section] = []
    said: list[doc.Block] = []
    for number, each in enumerate(checked.candidates):
        unmatched = (f"only one side has the output {name}" for name in each.unmatched)
        own: list[doc.Block] = [*doc.note_lines(unmatched, tone="unclear")]
        own += doc.note_lines(each.notes)
        said += [block for block in own if block not in said]
        own += [block for check in each.checks for block in _output_blocks(check)]
        side, took = each.side, units.text_from_seconds(each.side.seconds, digits=3)
        title = f"{side.model.name} · {side.runtime} · {took}"
        sections.append(doc.Section(f"candidate-{number}", title, tuple(own)))
    if brief:
        blocks, sections = [*blocks, *said], []
    sections = [doc.Section("check", "", tuple(blocks)), *sections]
    return doc.Document(title=check_answer(checked), sections=tuple(sections))


def check_answer(checked: Checked) -> str:
    """Return in one line whether the candidates agree with the reference; if not, the reason."""
    reference = checked.reference.model.name
    bad = [(each.side.model.name, each.reasons) for each in checked.candidates if not each.passed]
    bad += [(each.model, (f"could not be run: {each.reason}",)) for each in checked.failed]
    count = len(checked.candidates) + len(checked.failed)
    if count > 1 and bad:
        names = ", ".join(name for name, _ in bad)
        return f"FAIL: {len(bad)} of {count} do not agree with {reference}: {names}"
    if bad:
        name, (why, *others) = bad[0][0], bad[0][1] or ("nothing was compared",)
        more = f" (and {len(others)} more)" if others else ""
        return f"FAIL: {name} against {reference}: {why}{more}"
    if count > 1:
        return f"PASS: {count} of {count} agree with {reference}"
    [only] = checked.candidates
    why = only.judgements[0].message if len(only.judgements) == 1 else "all outputs"
    return f"PASS: {only.side.model.name} agrees with {reference} ({why})"


def _check_columns() -> Iterator[doc.Column]:
    def output_column(key: str, title: str, rank: int, kind: str = ".4g") -> doc.Column:
        return doc.column(key, title, lambda row: getattr(row[1], key), kind, rank=rank)

    def close(row: Any) -> doc.Cell:
        return doc.Cell(row[1].close, units.text_from_fraction(row[1].close, digits=3))

    def match(row: Any) -> float | None:
        return row[1].classes.argmax_match if row[1].classes else None

    yield doc.column("model", get=lambda row: row[0].side.model.name)
    yield doc.column("output", "Output", lambda row: row[1].output, fit="shorten", rank=3)
    yield doc.column("close", "Close", close, "right")
    yield output_column("max_abs", "Max abs", 1)
    yield output_column("mean_abs", "Mean abs", 5)
    yield output_column("max_rel", "Max rel", 8)
    yield output_column("mean_rel", "Mean rel", 9)
    yield output_column("rmse", "RMSE", 7)
    yield output_column("rel_l2", "Rel. L2", 2)
    yield doc.column("sqnr_db", "SQNR", lambda row: _decibels(row[1].sqnr_db), "right", rank=1)
    yield output_column("cosine", "Cosine", 6, ".7g")
    yield output_column("nan", "NaN", 2, "right")
    yield output_column("inf", "Inf", 2, "right")
    yield doc.column("argmax_match", "Same best class", match, "percent", rank=4)


def _output_blocks(check: OutputCheck) -> Iterator[doc.Block]:
    name, classes = check.output, check.classes
    if check.note:
        yield doc.Text(f"{name}: {check.note}", "bad")
    odd = []
    if check.reference_nonfinite:
        odd.append(f"{check.reference_nonfinite} values of the reference are not finite")
    if check.misshapen and not check.note:
        odd.append(
            f"{check.misshapen} of {check.items} inputs give another shape than the reference; "
            "they count as not close and are left out of means"
        )
    if classes is not None and classes.unranked:
        odd.append(f"{classes.unranked} of {classes.items} inputs have no best class: NaN or Inf")
    if classes is not None and classes.mixed:
        odd.append("one side gives probabilities, the other scores before softmax")
    yield from (doc.Text(f"{name}: {words}", "unclear") for words in odd)
    if check.identical:
        yield doc.Text(f"{name}: identical to the reference")
        return
    if classes is not None:
        span, same = classes.argmax_interval, units.text_from_fraction(classes.argmax_match)
        yield doc.Text(
            f"{name}: same best class {same} "
            f"({units.text_from_fraction(span.low)} to {units.text_from_fraction(span.high)}), "
            f"top-5 sets {units.text_from_fraction(classes.top5_agreement)}, "
            f"KL {_format_number(classes.kl)} nats (max {_format_number(classes.kl_max)})"
        )
    for worst in check.worst[:3]:
        words = f"shape {worst.shapes}"
        if worst.shapes is None:
            far = f"rel. L2 {_format_number(worst.rel_l2)}, max {_format_number(worst.max_abs)}"
            words = f"{far}, not finite {worst.nonfinite}"
        yield doc.Text(f"worst of {name}: {worst.name} ({words})")


def _format_number(value: float | None) -> str:
    return doc.format_cell(value, ".4g").shown


def _decibels(value: float | None, *, signed: bool = False) -> doc.Cell:
    rounded = None if value is None else round(value, 1) + 0.0  # no negative zero
    return doc.Cell(value, doc.format_cell(rounded, "+.1f dB" if signed else ".1f dB").text)


def document_from_localized(result: Localization) -> doc.Document:
    """Describe which layers reduce the accuracy of a model, and how to repair it."""
    found = result.found
    way = "each by itself" if found.one_by_one else "in blocks and by themselves"
    types = " and ".join(dict.fromkeys(group.type for group in found.groups))
    groups = f"{units.counted(len(found.groups), 'group')} of nodes in {types}, restored {way}"
    took = units.text_from_seconds(found.seconds, digits=2)
    notes = []
    if (left := len(found.groups) - SHOWN_GROUPS) > 0:
        notes.append(f"{left} more groups are in the files.")
    if found.met and found.kept:
        least = "all of them are needed"
        words = least if found.minimal else f"{_end(found).lower()} before fewer were tried"
        notes.append(f"Kept for {found.where}: {_join_names(found.kept)}; {words}.")
    if found.held_out:
        notes.append(
            f"Models are compared on {found.held_out} items that the search did not see, with 95 % "
            f"intervals; groups were ranked on the other {found.items - found.held_out}, where the "
            f"first is the best of {found.trials} tries."
        )
    if found.interrupted or not found.in_time:
        tried = sum(bool(group.restored) for group in found.groups)
        notes.append(f"{_end(found)}: {tried} of {len(found.groups)} groups were tried alone.")
    if found.stand_in:
        notes.append(
            "FP16 and BF16 are computed in FP32 and rounded after every node, like tensor cores "
            "do; ONNX Runtime on the CPU would skip some of these roundings."
        )
    if found.unmatched:
        names = _join_names(found.unmatched)
        notes.append(f"Not found in the candidate, so counted with the nodes after them: {names}.")
    blocks: list[doc.Block] = [
        doc.Text(answer(result), "bad" if found.met is False else "plain"),
        doc.Text(f"{groups}: {found.trials} models on {result.inputs}, in {took}."),
        _model_table(result),
        _ranking_table(found),
        *(doc.Text(note, "unclear") for note in (*notes, *found.notes)),
        *(
            doc.Code(command, caption=f"To make such a model from the reference, {tool}:")
            for tool, command in result.commands.items()
        ),
    ]
    title = f"{Path(result.candidate).name} against {Path(result.reference).name}"
    return doc.document_from_blocks("localize", blocks, title=title)


def _end(found: Localized) -> str:
    return "Interrupted" if found.interrupted else "Time ran out"


def answer(result: Localization) -> str:
    """Return a sentence on what reduces the accuracy, and the effect of restoring it."""
    found = result.found

    def value(numbers: Numbers) -> str:
        name = "SQNR" if found.metric == "sqnr_db" else found.metric
        return f"{name} {_format_metric(found.metric, numbers)}"

    worst = found.groups[0]
    if found.met and not found.kept:
        return f"Nothing to repair: {value(found.candidate)} meets {found.where}."
    added = "" if worst.added is None else f" (adds rel. L2 {worst.added:.2g})"
    tried, groups = sum(bool(group.restored) for group in found.groups), len(found.groups)
    cut = f" of the {tried} (of {groups}) that were tried" * (tried < groups)
    problem = precision_problem(worst)
    why = f"{worst.node} {problem or f'loses most accuracy in {worst.type}{added}'}"
    if not problem:
        chance = "beyond chance" if found.held_out else "by itself"
        none = f"No group{cut or ' of nodes'} brings accuracy back {chance}"
        why = f"{why}{cut and f', the first{cut}'}" if found.gains else none
        why = why if tried else f"{_end(found)} before any of {groups} groups was restored"
    if found.misfit:
        why = f"The calibration does not fit these inputs: {found.misfit}. Calibrate with such data"
    was = [] if found.metric == "sqnr_db" else [_format_metric(found.metric, found.candidate)]
    if odd := int(found.candidate.get("nonfinite") or 0):
        was.append(f"{odd} values not finite")
    before = f"(was {', '.join(was) or _format_metric(found.metric, found.candidate)})"
    if found.met:
        kept = f"{_join_names(found.kept)} kept in full precision"
        return f"{why}; {kept}: {value(found.repaired)} {before}."
    if found.nothing_left:
        return (
            f"{why}. Only with all {len(found.groups)} groups restored is {found.where} met, and "
            "then nothing is quantized any more: use the reference."
        )
    if found.met is False:
        reason = f"with all groups restored, {value(found.all_restored)}"
        reason = f"on held-out items, {value(found.repaired)}" if found.overfit else reason
        reason = reason if found.in_time else "time ran out"
        return f"{why}. No repair meets {found.where}: {reason}."
    numbers = found.repaired or worst.restored
    what = "restored" if why.startswith(worst.node) else f"with {worst.node} restored"
    restored = f"; {what}: {value(numbers)} {before}" if numbers else ""
    return f"{why}{'' if found.misfit else restored}."


def _format_metric(metric: str, numbers: Numbers) -> str:
    if metric == "sqnr_db" and numbers.get(metric) is None and numbers.get("rel_l2") == 0:
        return "equal"
    ends = [numbers.get(f"{metric}_{end}") for end in ("low", "high")]
    between = " to ".join(_metric_text(metric, end) for end in ends)
    return _metric_text(metric, numbers.get(metric)) + ("" if None in ends else f" ({between})")


def _metric_text(metric: str, value: float | None, *, signed: bool = False) -> str:
    if value is None:
        return units.MISSING
    if metric == "sqnr_db":
        return _decibels(value, signed=signed).shown
    if metric_named(metric).is_share:
        return units.text_from_fraction(value, signed=signed)
    return units.with_minus(f"{value:+.4g}" if signed else f"{value:.4g}")


def _model_table(result: Localization) -> doc.Table:
    found = result.found
    sides: list[tuple[str, Numbers]] = [
        (Path(result.reference).name, found.reference),
        (Path(result.candidate).name, found.candidate),
        ("all groups restored", found.all_restored),
    ]
    if found.kept:
        name = Path(result.repaired).name if result.repaired else "repaired"
        sides.append((name, found.repaired))

    def cell(metric: str, row: tuple[str, Numbers]) -> doc.Cell:
        itself = metric == "sqnr_db" and row[1] is found.reference
        return doc.Cell(row[1].get(metric), "" if itself else _format_metric(metric, row[1]))

    scores = {found.metric: ("metric", found.metric)} | {"sqnr_db": ("sqnr_db", "SQNR")}
    columns = [
        doc.column("model", get=0),
        *(doc.column(*names, partial(cell, metric), "right") for metric, names in scores.items()),
        doc.column(
            "nonfinite", "Not finite", lambda x: int(x[1].get("nonfinite") or 0), "d", rank=1
        ),
    ]
    return doc.table("models", sides, columns)


def _ranking_table(found: Localized) -> doc.Table:
    def sqnr_at_output(group: NodeGroup) -> doc.Cell:
        return _decibels(None if group.rel_l2 is None else sqnr_from_rel_l2(group.rel_l2))

    def gain(group: NodeGroup) -> doc.Cell:
        shown = _metric_text(found.metric, group.gain, signed=True)
        is_equal = group.gain is None and _format_metric(found.metric, group.restored) == "equal"
        return doc.Cell(group.gain, "+∞ dB" if is_equal else shown)

    def restored(group: NodeGroup) -> doc.Cell:
        shown = _format_metric(found.metric, group.restored)
        return doc.Cell(group.restored.get(found.metric), shown)

    columns = [
        doc.column("node", "Node", fit="shorten"),
        doc.column("op", "Op", rank=4),
        doc.column("restored", "Restored", restored, "right"),
        doc.column("gain", "Gain", gain, "right"),
        doc.column("boundary_db", "SQNR there", sqnr_at_output, "right", rank=1),
        doc.column("added", "Adds rel. L2", kind=".3g", rank=5),
        doc.column("nonfinite", "Not finite", kind="right", rank=6),
        doc.column("cause", "Range", lambda x: precision_problem(x) or "", fit="wrap", rank=2),
    ]
    caption = (
        "Restored: the model with only this group in full precision. "
        "SQNR there: at the output of the group in the candidate."
    )
    return doc.table("ranking", found.groups[:SHOWN_GROUPS], columns, caption=caption)


def _join_names(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (" ..." if len(names) > 8 else "")
