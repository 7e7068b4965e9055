"""What an evaluation leaves: its numbers, toolkit 002's table, and scores beside runs."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import msgspec

from trtbench.domain.codec import json_from_value
from trtbench.domain.result import Scalar
from trtbench.errors import StoreError, write_error
from trtbench.report.numbers import text_from_number
from trtbench.store.directory import read_record
from trtbench.store.judged import judged_folder
from trtbench.store.store import Store
from trtbench.workflows.check.evaluate import Evaluated, Evaluation, refuse_other_bytes, scores_of
from trtbench.workflows.measure.infer import write_scores

EVAL_JSON, EVAL_MD = "eval.json", "eval.md"
SHOWN_ROWS = 50
MIB = 2**20


def join(evaluation: Evaluation, store: Store, *, runs: Sequence[str] = ()) -> Evaluation:
    """Keep every model's scores beside all stored runs of the same bytes, and those named.

    They are kept by hash too, for runs that are measured later.
    Runs that are named must be of the same bytes as one of the models; others are refused.
    """
    models = {model.model.sha256: model for model in evaluation.models if model.model.sha256}
    refuse_other_bytes(runs, [model.model for model in evaluation.models], store=store)
    entries = [entry for entry in store.index.find(kind="run") if entry.sha256 in models]
    folders = [store.path(entry) for entry in entries]
    folders += [store.resolve(name) for name in runs]
    joined: dict[str, list[str]] = {}
    for folder in dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()):
        record = read_record(folder)
        model = models[record.spec.model.sha256 or ""]
        write_scores(folder, scores_of(evaluation, model))
        _copy_pictures(evaluation, model, folder)
        store.publish(folder)
        joined.setdefault(model.label, []).append(record.id)
    for sha256, model in models.items():
        folder = judged_folder(store, sha256)
        write_scores(folder, scores_of(evaluation, model))
        _copy_pictures(evaluation, model, folder)
    return msgspec.structs.replace(
        evaluation, joined={label: tuple(ids) for label, ids in joined.items()}
    )


def _copy_pictures(evaluation: Evaluation, model: Evaluated, folder: Path) -> None:
    number = evaluation.models.index(model)
    try:
        for picture in evaluation.pictures:
            if picture.model in (None, number):
                (folder / "pictures").mkdir(exist_ok=True)
                shutil.copyfile(picture.path, folder / "pictures" / Path(picture.path).name)
    except OSError as problem:
        raise StoreError(f"{folder} cannot be written", facts={"reason": problem}) from None


def write_evaluation(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write everything as JSON, and the tables as Markdown."""
    paths = [folder / EVAL_JSON, folder / EVAL_MD]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths[0].write_bytes(json_from_value(evaluation))
        paths[1].write_text("\n".join(markdown(evaluation)) + "\n")
    except OSError as problem:
        raise write_error(folder, problem) from None
    return paths


def markdown(evaluation: Evaluation) -> list[str]:
    """The tables of an evaluation."""
    lines = [f"# {evaluation.task.capitalize()} on {Path(evaluation.data).name}", ""]
    lines += [f"{evaluation.method[:1].upper()}{evaluation.method[1:]}.", ""]
    heads, rows = main_table(evaluation)
    lines += _table(heads, rows)
    lines += ["", _latency_words(evaluation), ""]
    heads, rows = split_table(evaluation)
    lines += _table(heads, rows)
    for table in evaluation.tables:
        lines += ["", f"## {table.title}", ""]
        cells = [[text_from_cell(value) for value in row] for row in table.rows[:SHOWN_ROWS]]
        lines += _table(table.headings, cells)
        if len(table.rows) > SHOWN_ROWS:
            lines += ["", f"{SHOWN_ROWS} of {len(table.rows)} rows; all are in {EVAL_JSON}."]
    for picture in evaluation.pictures:
        lines += ["", f"![{picture.title}]({Path(picture.path).name})"]
    if evaluation.all_notes:
        lines += ["", *(f"- {note}" for note in evaluation.all_notes)]
    return lines


def main_table(evaluation: Evaluation) -> tuple[tuple[str, ...], list[list[str]]]:
    """Toolkit 002's table: latency, size, accuracy, layers and parameters."""
    metrics = list(dict.fromkeys(s.metric for model in evaluation.models for s in model.scores))
    heads = (
        "Model", "Latency-all (ms) avg / max", "Latency-model (ms) avg / max", "Size (MB)",
        *(_metric_title(metric) for metric in metrics), "#layers", "#parameters",
    )  # fmt: skip
    rows = []
    for model in evaluation.models:
        everything, alone = model.split.parts["inference"], model.split.parts["model"]
        size = model.model.size_bytes
        rows.append([
            model.label,
            f"{everything.mean_s * 1e3:.3f} / {everything.max_s * 1e3:.3f}",
            f"{alone.mean_s * 1e3:.3f} / {alone.max_s * 1e3:.3f}",
            "–" if size is None else f"{size / MIB:.2f}",
            *(_score_text(model, metric) for metric in metrics),
            "–" if model.layers is None else str(model.layers),
            "–" if model.parameters is None else str(model.parameters),
        ])  # fmt: skip
    return heads, rows


def split_table(evaluation: Evaluation) -> tuple[tuple[str, ...], list[list[str]]]:
    """Where the time of the pass went, per batch."""
    heads = ("Model", "Load (ms)", "Preprocess (ms)", "Inference (ms)", "Postprocess (ms)",
             "Items/s, inference", "Items/s, all")  # fmt: skip
    rows = []
    for model in evaluation.models:
        parts = [model.split.parts[n] for n in ("load", "preprocess", "inference", "postprocess")]
        rates = (model.split.items_per_s, model.split.items_per_s_all)
        rows.append([
            model.label,
            *(f"{part.mean_s * 1e3:.3f}" for part in parts),
            *("–" if rate is None else f"{rate:.1f}" for rate in rates),
        ])  # fmt: skip
    return heads, rows


def _latency_words(evaluation: Evaluation) -> str:
    first = evaluation.models[0]
    return (
        f"Latencies are per batch of {first.batch}, taken in the same pass as the accuracy, after "
        f"{first.split.warmup_batches} batches of warm-up; `trtbench bench` measures it alone. "
        "Latency-all counts from handing over the inputs to having the outputs, Latency-model the "
        "network alone, synchronised. MB are 2^20 bytes."
    )


def _metric_title(metric: str) -> str:
    return {"top1": "Prec@1 (%)", "top5": "Prec@5 (%)", "agreement": "Agreement (%)"}.get(
        metric, metric
    )


def _score_text(model: Evaluated, metric: str) -> str:
    score = model.score(metric)
    if score is None:
        return "–"
    scale = 100.0 if metric in ("top1", "top5", "agreement") else 1.0
    if score.interval is None:
        return text_from_number(scale * score.value)
    low, high = scale * score.interval.low, scale * score.interval.high
    return f"{scale * score.value:.4g} ({low:.4g} – {high:.4g})"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    cells = [heads, ["---"] * len(heads), *rows]
    return ["| " + " | ".join(c.replace("|", "\\|") for c in row) + " |" for row in cells]


def text_from_cell(value: Scalar) -> str:
    """Write a cell of a task's table."""
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
