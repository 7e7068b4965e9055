"""What an evaluation leaves: its numbers, its tables, and scores beside runs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from trtbench.domain.result import RunRecord
from trtbench.errors import writing
from trtbench.report.documents.evaluation import document_from_evaluation
from trtbench.store.directory import read_record
from trtbench.store.known_scores import judged_folder
from trtbench.store.store import Store
from trtbench.workflows.check.check_files import write_both
from trtbench.workflows.check.evaluate import Evaluated, Evaluation, refuse_other_bytes, scores_of
from trtbench.workflows.measure.infer import write_scores

EVAL_JSON, EVAL_MD = "eval.json", "eval.md"


def join(evaluation: Evaluation, store: Store, *, runs: Sequence[str] = ()) -> Evaluation:
    """Keep every model's scores beside all stored runs of the same bytes, and those named.

    They are kept by hash too, for runs that are measured later. Runs that are named must be of the
    same bytes as one of the models; others are refused. What ran these bytes in another precision,
    or on images of another size, is left alone.
    """
    models = {model.model.sha256: model for model in evaluation.models if model.model.sha256}
    refuse_other_bytes(runs, [model.model for model in evaluation.models], store=store)
    entries = [entry for entry in store.index.find(kind="run") if entry.sha256 in models]
    folders = [store.path(entry) for entry in entries]
    folders += [store.resolve(name) for name in runs]
    joined: dict[str, list[str]] = {}
    others: dict[str, list[str]] = {}
    for folder in dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()):
        record = read_record(folder)
        model = models[record.spec.model.sha256 or ""]
        scores = scores_of(evaluation, model)
        reason = scores.not_of(record) if isinstance(record, RunRecord) else None
        if reason is not None:
            others.setdefault(reason, []).append(record.id)
            continue
        write_scores(folder, scores)
        _copy_pictures(evaluation, model, folder)
        store.publish(folder)
        joined.setdefault(model.label, []).append(record.id)
    for sha256, model in models.items():
        folder = judged_folder(store, sha256, precision=model.precision)
        write_scores(folder, scores_of(evaluation, model))
        _copy_pictures(evaluation, model, folder)
    return evaluation.having(
        joined={label: tuple(ids) for label, ids in joined.items()},
        notes=(*evaluation.notes, *_not_joined(others)),
    )


def _not_joined(others: Mapping[str, Sequence[str]]) -> Iterator[str]:
    for reason, ids in others.items():
        runs = f"the run {ids[0]}" if len(ids) == 1 else f"{len(ids)} runs"
        yield f"no scores for {runs} of the same bytes: {reason}"


def _copy_pictures(evaluation: Evaluation, model: Evaluated, folder: Path) -> None:
    number = evaluation.models.index(model)
    with writing(folder):
        for picture in evaluation.pictures:
            if picture.model in (None, number):
                (folder / "pictures").mkdir(exist_ok=True)
                shutil.copyfile(picture.path, folder / "pictures" / Path(picture.path).name)


def write_evaluation(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write everything as JSON, and the tables as Markdown."""
    document = document_from_evaluation(evaluation)
    return write_both(folder / EVAL_JSON, folder / EVAL_MD, evaluation, document)
