"""How right are models, and how fast on the same data in the same pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from trtbench.analysis.pass_times import Split, split_from_columns, times_in_words
from trtbench.boundary import is_inside, shown
from trtbench.domain.feed import Feed, InferOutcome, Unreadable
from trtbench.domain.result import Finding, Scalar, Score, Scores
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import ModelRef, RunSpec, Value
from trtbench.errors import InputError, StoreError, UsageError
from trtbench.host.chunks import Chunks
from trtbench.models.sidecar import record_of_engine
from trtbench.runtimes._stream import TIMES
from trtbench.store.directory import demand_finished, read_record
from trtbench.store.store import Store
from trtbench.tasks import TASKS
from trtbench.tasks._feed import open_feed_of_pass
from trtbench.tasks.contract import Judgement, Predicted, completed, preparation_from_source
from trtbench.workflows.check.check import sides_of
from trtbench.workflows.check.naming import told_apart, vanilla_name
from trtbench.workflows.check.preparation import preparation_findings, unreadable_findings
from trtbench.workflows.measure.errand import run_errand, sides_need
from trtbench.workflows.measure.failure import Failed, Failures
from trtbench.workflows.measure.infer import stream
from trtbench.workflows.measure.model_notes import precision_of_pass, stamps_of_engine
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.judging import EvalRequest
from trtbench.workflows.request.kinds import fraction
from trtbench.workflows.request.progress import Event


class Evaluated(Value, frozen=True, kw_only=True):
    """One model: how right, how fast, how large."""

    label: str
    place: int = 0
    """Which of the models that were asked about it is, from 0."""
    model: ModelRef
    runtime: str
    scores: tuple[Score, ...]
    split: Split
    items: int
    batch: int
    load_s: float
    timed: str
    """How the times per item in ``split`` were taken."""
    size_bytes: int | None = None
    layers: int | None = None
    parameters: int | None = None
    versions: dict[str, str] = {}
    notes: tuple[str, ...] = ()
    preparation: dict[str, Scalar] = {}
    """How the task prepared every item before this network saw it."""
    precision: str | None = None
    """In which it was run; ``None`` when nobody knows."""

    def score(self, metric: str) -> Score | None:
        return next((each for each in self.scores if each.metric == metric), None)


class TableValue(Value, frozen=True, kw_only=True):
    """A table of a task, as JSON has it."""

    id: str
    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[Scalar, ...], ...]
    in_json_only: bool = False


class PictureValue(Value, frozen=True, kw_only=True):
    """A picture of the worst cases."""

    path: str
    title: str
    model: int | None = None


class Evaluation(ShortView, Value, frozen=True, kw_only=True):
    """What an evaluation found."""

    task: str
    data: str
    method: str
    models: tuple[Evaluated, ...]
    inputs_sha256: str
    tables: tuple[TableValue, ...] = ()
    pictures: tuple[PictureValue, ...] = ()
    notes: tuple[str, ...] = ()
    joined: dict[str, tuple[str, ...]] = {}
    """Runs of the same bytes that now carry the scores, by model."""
    failed: tuple[Failed, ...] = ()
    preparation: dict[str, Scalar] = {}
    """What of that is the same for all models."""
    findings: tuple[Finding, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    """Items that could not be read; no score is about them."""

    @property
    def all_notes(self) -> tuple[str, ...]:
        """Everything worth saying, once: what is true of the data, then what of single models."""
        own = [
            note if note in self.notes or len(self.models) == 1 else f"{model.label}: {note}"
            for model in self.models
            for note in model.notes
        ]
        found = [f"{each.severity} {each.code}: {each.message}" for each in self.findings]
        return tuple(dict.fromkeys([*found, *self.notes, *own]))


@dataclass(frozen=True, kw_only=True)
class EvalSide:
    """A model that is settled already: how it is run, and what pictures say of it."""

    spec: RunSpec
    python: str | None = None
    label: str
    latency_s: float | None = None
    """Per item, measured warm; by default that of the pass itself."""


@dataclass(frozen=True, kw_only=True)
class Passed:
    """One model's pass over the data."""

    spec: RunSpec
    label: str
    place: int
    latency_s: float | None
    outcome: InferOutcome
    chunks: Chunks
    split: Split
    preparation: dict[str, Scalar] = field(default_factory=dict)


def run_evaluation(
    request: EvalRequest,
    *,
    store: Store,
    config: Config,
    conduct: Conduct | None = None,
    open_batch: int | None = None,
    sides: Sequence[EvalSide] = (),
) -> Evaluation:
    """Run every model over the data and judge them all.

    ``open_batch`` is for models that leave theirs open, where none is asked for. ``sides`` are
    models whose runs are settled already, in place of those of the request. A run that is to be
    joined by name is looked at first.
    """
    conduct = conduct or Conduct()
    names = [side.label for side in sides] or [str(model) for model in request.models]
    if not names:
        raise UsageError("an evaluation needs a model", fix="trtbench eval MODEL --task NAME")
    if request.executor is not None:
        gpu, libraries = sides_need(request, names)
        found = run_errand(
            "evaluate",
            request,
            Evaluation,
            config=config,
            conduct=conduct,
            gpu=gpu,
            libraries=libraries,
            output=Path(request.output),
        )
        for picture in found.pictures:  # they are copied beside runs, and into reports
            if not is_inside(Path(request.output), Path(picture.path)):
                raise StoreError(
                    "what came back names a picture that did not come with it",
                    facts={"picture": shown(picture.path)},
                )
        return found
    task = TASKS.load(request.task)
    settings = completed(task.FLAGS, request.judging)
    feed = Feed(
        kind="task",
        task=request.task,
        settings=settings,
        count=request.limit,
        open_batch=open_batch,
    )
    sides = sides or [
        EvalSide(spec=spec, python=python, label=spec.model.name)
        for spec, python in sides_of(request, names, config=config)
    ]
    refuse_other_bytes(request.join, [side.spec.model for side in sides], store=store)
    warmup = fraction(request.warmup)
    with store.scratch() as folder:
        passes, failed = [], Failures(len(sides))
        for number, side in enumerate(sides):
            part = conduct.part(number / len(sides), (number + 1) / len(sides))
            with failed.collecting(names[number]):
                work = folder / f"model-{number}"
                passed = _pass(side, feed, work, store=store, conduct=part, warmup=warmup)
                passes.append(replace(passed, place=number))
        passes = _labelled(passes, vanilla=request.names == "vanilla")
        lost = unreadable_findings([(each.label, each.outcome) for each in passes])
        source = open_feed_of_pass(feed, passes[0].outcome, spec=passes[0].spec)
        models = [
            Predicted(label=each.label, chunks=each.chunks, latency_s=each.latency_s)
            for each in passes
        ]
        judgement: Judgement = task.judge(source, models, settings, folder=Path(request.output))
        passes = [_prepared(each, feed, request.task) for each in passes]
    evaluation = _evaluation(passes, judgement, request)
    prepared = [
        finding
        for each in passes
        for finding in preparation_findings(each.label, each.spec.model, each.preparation)
    ]
    return evaluation.having(failed=tuple(failed.told), findings=(*lost, *prepared))


def _prepared(passed: Passed, feed: Feed, task: str) -> Passed:
    """Have a pass say how its own items were prepared: networks differ in what they take."""
    source = open_feed_of_pass(feed, passed.outcome, spec=passed.spec)
    return replace(passed, preparation=preparation_from_source(task, source))


def scores_of(evaluation: Evaluation, model: Evaluated) -> Scores:
    """Find the scores of one model as runs keep them, with the hash of its bytes."""
    count = f"{model.items} items of {Path(evaluation.data).name}, {evaluation.task}"
    findings = tuple(each for each in evaluation.findings if each.concerns == model.label)
    return Scores(
        sha256=model.model.sha256,
        scores=model.scores,
        data=count,
        preparation=model.preparation,
        precision=model.precision,
        findings=findings,
        item_parts_s=model.split.item_parts_s,
        timed=model.timed,
    )


def refuse_other_bytes(runs: Sequence[str], models: Sequence[ModelRef], *, store: Store) -> None:
    """Refuse to join runs that measured other bytes than are evaluated."""
    known = {model.identity for model in models}
    for name in runs:
        record = demand_finished(read_record(store.resolve(name)))
        if record.spec.model.identity not in known:
            raise InputError(
                "the run measured other bytes than are evaluated: they are not joined",
                facts={
                    "run": f"{record.spec.model.name}, {record.spec.model.identity}",
                    **{f"model {model.name}": model.identity for model in models},
                },
                fix="evaluate the file that was measured; a rebuilt engine is another one",
            )


def _pass(
    side: EvalSide, feed: Feed, work: Path, *, store: Store, conduct: Conduct, warmup: float
) -> Passed:
    """Run one model over the data; ``warmup`` is the part of the batches whose times are out."""
    spec = side.spec

    def tell(done: float, text: str) -> None:
        conduct.listen(Event(kind="stage", text=f"{side.label}: {text}", done=done))

    outcome = stream(
        spec, feed, folder=work, store=store, decode=True,
        conduct=replace(conduct, python=side.python), on_progress=tell,
    )  # fmt: skip
    with np.load(work / TIMES) as times:
        columns = {name: times[name] for name in times.files}
    split = split_from_columns(columns, warmup=warmup)
    return Passed(
        spec=spec,
        label=side.label,
        place=0,
        latency_s=side.latency_s or (1 / split.items_per_s if split.items_per_s else None),
        outcome=outcome,
        chunks=Chunks(work),
        split=split,
    )


def _labelled(passes: list[Passed], *, vanilla: bool) -> list[Passed]:
    """Call every model as no other is, by its file or by what ran."""
    names = [
        vanilla_name(each.spec.runtime, precision_of_pass(each.spec, each.outcome.conditions))
        if vanilla
        else each.label
        for each in passes
    ]
    apart = told_apart(names, [each.spec for each in passes])
    return [replace(each, label=name) for each, name in zip(passes, apart, strict=True)]


def _evaluation(passes: Sequence[Passed], judgement: Judgement, request: EvalRequest) -> Evaluation:
    hashes = {each.outcome.inputs_sha256 for each in passes}
    notes = list(judgement.notes)
    if len(hashes) > 1:
        notes.append(
            "the models saw different tensors: their input sizes, or the libraries that prepare "
            "images, differ"
        )
    sizes = {each.label: each.outcome.batch for each in passes}
    if len(set(sizes.values())) > 1:
        told = ", ".join(f"{label} {size}" for label, size in sizes.items())
        notes.append(f"batches differ, so latencies per batch do not compare: {told}")
    return Evaluation(
        task=request.task,
        data=str(request.data),
        method=judgement.method,
        models=tuple(
            _evaluated(each, scores) for each, scores in zip(passes, judgement.scores, strict=True)
        ),
        inputs_sha256=passes[0].outcome.inputs_sha256,
        preparation={
            key: value
            for key, value in passes[0].preparation.items()
            if all(each.preparation.get(key) == value for each in passes)
        },
        unreadable=passes[0].outcome.unreadable,
        tables=tuple(
            TableValue(
                id=each.id,
                title=each.title,
                headings=each.headings,
                rows=each.rows,
                in_json_only=each.in_json_only,
            )
            for each in judgement.tables
        ),
        pictures=tuple(
            PictureValue(path=str(each.path), title=each.title, model=each.model)
            for each in judgement.pictures
        ),
        notes=tuple(dict.fromkeys(notes)),
    )


def _evaluated(each: Passed, scores: tuple[Score, ...]) -> Evaluated:
    size, layers, parameters = size_of(each.spec.model, each.outcome.facts)
    return Evaluated(
        label=each.label,
        place=each.place,
        model=each.spec.model,
        runtime=each.spec.runtime,
        scores=scores,
        split=each.split,
        items=each.outcome.items,
        batch=each.outcome.batch,
        load_s=each.outcome.load_s,
        timed=times_in_words(each.split),
        size_bytes=size,
        layers=layers,
        parameters=parameters,
        versions=each.outcome.versions,
        notes=(*each.outcome.notes, *stamps_of_engine(each.spec.model)),
        preparation=each.preparation,
        precision=precision_of_pass(each.spec, each.outcome.conditions),
    )


def size_of(
    model: ModelRef, told: Mapping[str, Scalar]
) -> tuple[int | None, int | None, int | None]:
    """Count bytes, layers and parameters, by an ONNX file, an engine's record or a session."""
    if model.format == "onnx":
        from trtbench.build.onnx_read import read_onnx

        try:
            known = read_onnx(Path(model.path))
        except InputError:
            return model.size_bytes, None, None
        return model.size_bytes, len(known.nodes), known.parameters
    record = record_of_engine(model)
    facts = {**told, **(record.facts if record else {})}
    found = (facts.get(key) for key in ("parameter_bytes", "modules", "layers", "parameters"))
    held, modules, layers, parameters = (v if isinstance(v, int) else None for v in found)
    return model.size_bytes or held, layers or modules, parameters
