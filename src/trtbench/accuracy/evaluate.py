"""Evaluates models on labelled data: scores, and the latency of the same pass."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import util
from pathlib import Path

import numpy as np

from trtbench.accuracy import check
from trtbench.analysis.pass_times import Evaluated, Evaluation, describe_times, split_from_columns
from trtbench.core.errors import StoreError, TrtbenchError, UsageError, writing
from trtbench.core.results import Feed, InferOutcome
from trtbench.core.run import RunRecord, Scalar, Scores
from trtbench.core.safety import is_inside, read_bytes, shown
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.host.arrays import Chunks
from trtbench.host.files import make_subfolder, write_output
from trtbench.measure.bench import Failures, stream, write_scores
from trtbench.measure.model_facts import build_of_engine, precision_of_pass
from trtbench.measure.remote import run_verb_remotely, sides_need_gpu
from trtbench.models.identity import is_unchanged, model_ref, record_of_engine
from trtbench.models.onnx_model import input_specs, load_onnx, read_onnx, spec_from_value
from trtbench.report.sections.accuracy import document_from_evaluation
from trtbench.requests.execution import Event, Execution
from trtbench.requests.fields import fraction
from trtbench.requests.models import EvalRequest
from trtbench.requests.settings import Config
from trtbench.runtimes._stream import TIMES
from trtbench.store.directory import read_record
from trtbench.store.store import Store, results_folder
from trtbench.tasks import TASKS
from trtbench.tasks._feed import items_of_pass, open_feed, settled_task, task_feed
from trtbench.tasks.contract import DataSource, Predicted, Tensors, preparation_from_source

EVAL_JSON, EVAL_MD = "eval.json", "eval.md"


def run_evaluation(
    request: EvalRequest,
    *,
    store: Store,
    config: Config,
    execution: Execution | None = None,
    open_batch: int | None = None,
    sides: Sequence[check.EvalSide] = (),
) -> Evaluation:
    """Run every model over the data and score it.

    ``open_batch`` is that of dynamic models if the request sets none; ``sides`` replace its models.
    """
    execution = execution or Execution()
    output = Path(str(request.output))
    names = [side.label for side in sides] or [str(model) for model in request.models]
    if not names:
        raise UsageError("an evaluation needs a model", fix="trtbench eval MODEL --task NAME")

    def checked(found: Evaluation, _: Path) -> Evaluation:
        for picture in found.pictures:  # they are copied to runs and into reports
            if not is_inside(output, Path(picture.path)):
                message = "the result names a picture that did not come with it"
                raise StoreError(message, facts={"picture": shown(picture.path)})
        return found

    return execution.executor.do(
        lambda: _evaluate(request, names, sides, open_batch, store, config, execution),
        lambda: run_verb_remotely(
            "evaluate", request, Evaluation, config=config, execution=execution,
            gpu=sides_need_gpu(request, names), output=output, take=checked,
        ),
    )  # fmt: skip


def _evaluate(
    request: EvalRequest,
    names: Sequence[str],
    sides: Sequence[check.EvalSide],
    open_batch: int | None,
    store: Store,
    config: Config,
    execution: Execution,
) -> Evaluation:
    files = [model_ref(path) for path in map(Path, names) if path.is_file()]
    given = {**request.settings, "data": str(request.data)}
    name, settings = settled_task(request.task, given, [side.spec.model for side in sides] or files)
    if name is None:
        fix = f"--task {' or --task '.join(TASKS.names())}"
        raise UsageError("the models do not state their task", fix=fix)
    feed = task_feed(name, settings, count=request.limit, open_batch=open_batch)
    task, sources = TASKS.load(name), dict[object, DataSource]()

    def opened(tensors: Tensors, spec: RunSpec) -> DataSource:
        """Open the data once for all models with the same inputs."""
        sizes = tuple(tuple(d if isinstance(d, int) else None for d in t.shape) for t in tensors)
        key = (*((t.name, t.dtype) for t in tensors), sizes, *spec.shapes.items())
        if key not in sources:
            sources[key] = open_feed(feed, tensors, spec=spec)
        return sources[key]

    if not sides:  # what a file tells is refused before any model is run
        sides = check.eval_sides(request, names, store, config, execution)
        for spec in (side.spec for side in sides if side.spec.model.format == "onnx"):
            try:
                model = load_onnx(Path(spec.model.path), weights=False)
            except TrtbenchError:  # told when it is run
                continue
            source = opened(input_specs(model), spec)
            if task.check_outputs is not None:
                outputs = tuple(map(spec_from_value, model.graph.output))
                task.check_outputs(source, outputs, feed.settings, spec.model.name)
    with store.scratch() as folder:
        passes, failed = [], Failures(len(sides))
        for number, side in enumerate(sides):
            part = execution.part(number / len(sides), (number + 1) / len(sides))
            with failed.collecting(names[number]):
                work = folder / f"model-{number}"
                ended = _run_pass(side, feed, work, number, request, store, part, opened)
                passes.append((side, *ended))
        ran, outcomes, kept, found, predicted = map(list, zip(*passes, strict=True))
        labels = [model.label for model in found]
        if request.names == "vanilla":
            labels = [check.vanilla_name(model.runtime, model.precision) for model in found]
        labels = check.unique_names(labels, [side.spec for side in ran])
        findings = [*check.unreadable_findings(list(zip(labels, outcomes, strict=True)))]
        named = [replace(each, label=label) for each, label in zip(predicted, labels, strict=True)]
        try:
            judgement = task.judge(kept[0], named, feed.settings, folder=Path(str(request.output)))
        except StoreError as problem:  # the scores need no pictures
            execution.on_unwritten(problem)
            judgement = task.judge(kept[0], named, feed.settings, folder=folder / "pictures")
            judgement = replace(judgement, pictures=())
    models = []
    for model, label, scores in zip(found, labels, judgement.scores, strict=True):
        # Stored with the scores, for readers without the task's plug-in.
        own = (each.having(better=each.declared.better, kind=each.declared.kind) for each in scores)
        models.append(model.having(label=label, scores=tuple(own)))
        findings += check.preparation_findings(label, model.model, model.preparation)
    notes = list(judgement.notes)
    if util.find_spec("matplotlib") is None:
        notes.append("pictures are left out, they need matplotlib: pip install 'trtbench[plots]'")
    if len({each.inputs_sha256 for each in outcomes}) > 1:
        notes.append(
            "the models saw different tensors: their input sizes, or the libraries that prepare "
            "images, differ"
        )
    if len({model.batch for model in models}) > 1:
        sizes = ", ".join(f"{model.label} {model.batch}" for model in models)
        notes.append(f"batches differ, so latencies per batch do not compare: {sizes}")
    return Evaluation(
        task=name, data=str(request.data), method=judgement.method, models=tuple(models),
        inputs_sha256=outcomes[0].inputs_sha256, unreadable=outcomes[0].unreadable,
        preparation={
            key: value
            for key, value in models[0].preparation.items()
            if all(each.preparation.get(key) == value for each in models)
        },
        tables=judgement.tables, pictures=judgement.pictures, notes=tuple(dict.fromkeys(notes)),
        failed=tuple(failed.found), findings=tuple(findings),
    )  # fmt: skip


def _run_pass(
    side: check.EvalSide,
    feed: Feed,
    work: Path,
    place: int,
    request: EvalRequest,
    store: Store,
    execution: Execution,
    opened: Callable[[Tensors, RunSpec], DataSource],
) -> tuple[InferOutcome, DataSource, Evaluated, Predicted]:
    spec = side.spec

    def report(done: float, text: str) -> None:
        execution.listen(Event(kind="stage", text=f"{side.label}: {text}", done=done))

    outcome = stream(
        spec, feed, folder=work, store=store, decode=True,
        execution=replace(execution, python=side.python), on_progress=report,
    )  # fmt: skip
    with np.load(work / TIMES) as times:
        columns = {name: times[name] for name in times.files}
    split = split_from_columns(columns, warmup=fraction(request.warmup))
    size, layers, parameters = size_of_model(spec.model, outcome.facts)
    # Input sizes differ between networks, so each has its own preparation.
    source = items_of_pass(opened(outcome.inputs, spec), outcome)
    task = str(feed.task)
    if (check_outputs := TASKS.load(task).check_outputs) is not None:
        check_outputs(source, outcome.outputs, feed.settings, spec.model.name)
    model = Evaluated(
        label=side.label, place=place, model=spec.model, runtime=spec.runtime, scores=(),
        split=split, items=outcome.items, batch=outcome.batch, load_s=outcome.load_s,
        timed=describe_times(split), size_bytes=size, layers=layers, parameters=parameters,
        versions=outcome.versions, notes=(*outcome.notes, *build_of_engine(spec.model)[0]),
        preparation=preparation_from_source(task, source),
        precision=precision_of_pass(spec, outcome.conditions),
    )  # fmt: skip
    latency_s = side.latency_s or (1 / split.items_per_s if split.items_per_s else None)
    predicted = Predicted(label=side.label, chunks=Chunks(work), latency_s=latency_s)
    return outcome, source, model, predicted


def size_of_model(
    model: ModelRef, facts: Mapping[str, Scalar]
) -> tuple[int | None, int | None, int | None]:
    """Return bytes, layers and parameters, from the ONNX file, engine record or session facts."""
    if model.format == "onnx":
        try:
            known = read_onnx(Path(model.path)) if is_unchanged(model) else None
        except TrtbenchError:
            known = None
        layers, parameters = (len(known.nodes), known.parameters) if known else (None, None)
        return model.size_bytes, layers, parameters
    record = record_of_engine(model)
    facts = {**facts, **(record.facts if record else {})}
    found = (facts.get(key) for key in ("parameter_bytes", "modules", "layers", "parameters"))
    held, modules, layers, parameters = (v if isinstance(v, int) else None for v in found)
    return model.size_bytes or held, layers or modules, parameters


def scores_of(evaluation: Evaluation, model: Evaluated) -> Scores:
    """Return the scores of one model in the form stored with runs, with the hash of its file."""
    return Scores(
        sha256=model.model.sha256, scores=model.scores,
        data=f"{model.items} items of {Path(evaluation.data).name}, {evaluation.task}",
        preparation=model.preparation, precision=model.precision,
        findings=tuple(each for each in evaluation.findings if each.concerns == model.label),
        item_parts_s=model.split.item_parts_s, timed=model.timed,
    )  # fmt: skip


def attach_scores(evaluation: Evaluation, store: Store) -> Evaluation:
    """Write every model's scores to all stored runs of the same file.

    They are also stored by hash, for later runs. Runs in another precision, or on images of
    another size, are not changed. Returns the evaluation with the ids of the runs.
    """
    models = {model.model.sha256: model for model in evaluation.models if model.model.sha256}
    entries = [entry for entry in store.index.find(kind="run") if entry.sha256 in models]
    folders = [store.path(entry) for entry in entries]
    joined: dict[str, tuple[str, ...]] = {}
    others: dict[str, list[str]] = {}
    for folder in dict.fromkeys(folder.resolve() for folder in folders if folder.is_dir()):
        record = read_record(folder)
        model = models[record.spec.model.sha256 or ""]
        scores = scores_of(evaluation, model)
        reason = scores.why_not_for(record) if isinstance(record, RunRecord) else None
        if reason is not None:
            others.setdefault(reason, []).append(record.id)
            continue
        _write_scores(evaluation, model, folder)
        store.publish(folder)
        joined[model.label] = (*joined.get(model.label, ()), record.id)
    for sha256, model in models.items():
        _write_scores(evaluation, model, results_folder(store, sha256, precision=model.precision))
    notes = list(evaluation.notes)
    for reason, ids in others.items():
        named = f"the run {ids[0]}" if len(ids) == 1 else f"{len(ids)} runs"
        notes.append(f"no scores added to {named} of the same file: {reason}")
    return evaluation.having(joined=joined, notes=tuple(notes))


def _write_scores(evaluation: Evaluation, model: Evaluated, folder: Path) -> None:
    write_scores(folder, scores_of(evaluation, model))
    number = evaluation.models.index(model)
    with writing(folder):
        for picture in evaluation.pictures:
            if picture.model in (None, number):
                source, pictures = Path(picture.path), make_subfolder(folder / "pictures")
                write_output(pictures / source.name, read_bytes(source))


def write_evaluation(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write ``eval.json`` and ``eval.md``."""
    return check.write_files(folder / "eval", evaluation, document_from_evaluation(evaluation))
