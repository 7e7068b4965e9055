"""Runs models on the same inputs and compares their outputs."""

import contextlib
import io
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from trtbench.analysis import check as checking
from trtbench.analysis.findings.rules import items_left_out, prepared_alike
from trtbench.convert.steps import with_engines
from trtbench.core.codec import json_from_value
from trtbench.core.errors import InputError, UsageError, writing
from trtbench.core.results import Feed, InferOutcome
from trtbench.core.run import Finding, Scalar, may_be_same_precision
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.host.arrays import Chunks, check_inputs_exist
from trtbench.host.files import make_subfolder, write_output, write_whole
from trtbench.host.workers import check_interpreter
from trtbench.measure.bench import Failures, check_runtime_available, stream
from trtbench.measure.model_facts import precision_of_pass
from trtbench.measure.remote import run_verb_remotely, sides_need_gpu
from trtbench.models.identity import index_limits, model_ref
from trtbench.models.inputs import given_values
from trtbench.report.document import Document
from trtbench.report.renderers.md import markdown
from trtbench.requests.execution import Event, Execution, Steps
from trtbench.requests.models import (
    IMAGES_TASK,
    CheckRequest,
    LocalizeRequest,
    RunningFields,
    bounds_from_range,
)
from trtbench.requests.run_spec import default_runtime, side_spec, value_of_side
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES, session_opener
from trtbench.store.store import Store, results_folder
from trtbench.tasks import _feed
from trtbench.tasks.contract import DataSource, preparation_from_source

REPEAT_BELOW_S = 30.0  # a faster reference runs twice by default, to find its own variation
CHECKS_JSON = "checks.json"  # in the directory of a run: the numeric checks of its report
FIRST_COLUMNS = (
    "close", "max_abs", "mean_abs", "rel_l2", "sqnr_db", "cosine", "argmax_match",
    "top5_agreement", "kl", "nan", "inf",
)  # fmt: skip
_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, kw_only=True)
class EvalSide:
    """How a model is run, and its label in tables and pictures."""

    spec: RunSpec
    python: str | None = None
    label: str
    latency_s: float | None = None  # per item, after warm-up; default: that of the evaluation


@dataclass(frozen=True, kw_only=True)
class SideRun:
    """A model that was run, and its outputs on disk."""

    spec: RunSpec
    side: checking.Side
    outcome: InferOutcome
    feed: Feed
    chunks: Chunks

    @cached_property
    def source(self) -> DataSource:
        """The items it was run on; opened once."""
        every = _feed.open_feed(self.feed, self.outcome.inputs, spec=self.spec)
        return _feed.items_of_pass(every, self.outcome)

    @property
    def preparation(self) -> dict[str, Scalar]:
        """How the task prepared the items; empty without a task."""
        task = self.feed.task
        return {} if task is None else preparation_from_source(task, self.source)


def run_check(
    request: CheckRequest, *, store: Store, config: Config, execution: Execution | None = None
) -> checking.Checked:
    """Run every side on the same inputs and compare each candidate with the reference."""
    execution = execution or Execution()
    names = [str(each) for each in (request.reference, *request.candidates)]
    if not request.candidates:
        raise UsageError("a check needs a candidate", fix="trtbench check REFERENCE CANDIDATE")
    return execution.executor.do(
        lambda: _check(request, names, store, config, execution),
        lambda: run_verb_remotely(
            "check", request, checking.Checked, config=config, execution=execution,
            gpu=sides_need_gpu(request, names), output=Path(str(request.output)),
        ),
    )  # fmt: skip


def _check(
    request: CheckRequest, names: Sequence[str], store: Store, config: Config, execution: Execution
) -> checking.Checked:
    sides = eval_sides(request, names, store, config, execution)
    if len(sides) == 2:  # of several candidates, the others are checked
        check_runtime_available(sides[1].spec, sides[1].python, on_gpu=True)
    output = Path(str(request.output))
    feed = feed_from_request(request, [side.spec.model for side in sides])
    steps = Steps(execution, len(sides) + 1)
    with store.scratch() as folder:
        first = _run_side(sides[0], feed, folder / "reference", store, steps)
        floor, reason, took_s = None, None, first.side.seconds
        if request.floor == "off":
            reason = "not requested"
        elif request.floor == "auto" and took_s > REPEAT_BELOW_S:
            reason = f"the reference takes {took_s:.0f} s; --floor on runs it twice"
        else:
            again = _run_side(sides[0], feed, folder / "again", store, steps)
            own = {tensor.name: tensor.name for tensor in first.outcome.outputs}
            floor = _compare_outputs(first, again, request, own)
        feed = feed.having(names=tuple(tensor.name for tensor in first.outcome.inputs))
        candidates, files, failed = [], [], Failures(len(names) - 1)
        for number, side in enumerate(sides[1:]):
            with failed.collecting(names[1 + number]):
                other = _run_side(side, feed, folder / f"side-{number}", store, steps)
                candidate = _check_candidate(first, other, request, floor or ())
                candidates.append(candidate)
                with execution.writing_result():
                    files += _write_worst(first, other, candidate, output, number=number)
    items = first.outcome.items
    return checking.Checked(
        passed=not failed.found and all(each.passed for each in candidates),
        reference=first.side, candidates=tuple(candidates), items=items,
        inputs=describe_feed(request, feed, items), inputs_sha256=first.outcome.inputs_sha256,
        preparation=first.preparation, floor=floor, floor_reason=reason,
        files=tuple(map(str, files)), failed=tuple(failed.found),
    )  # fmt: skip


def eval_sides(
    request: RunningFields, names: Sequence[str], store: Store, config: Config, execution: Execution
) -> list[EvalSide]:
    """Return the spec, the interpreter and the label of every model."""
    sides = []
    for index, name in enumerate(names):
        runtime = value_of_side(request.runtime, index, len(names), what="-r")
        if not runtime and "runtime" not in config.defaults and Path(name).is_file():
            runtime = default_runtime(model_ref(Path(name)), config, with_outputs=True)
        spec = side_spec(request, name, runtime, config)
        session_opener(spec.runtime)  # a program is refused before anything is built
        python = value_of_side(request.python, index, len(names), what="--python")
        python = python or config.python_for(spec.runtime)
        check_interpreter(python)
        sides.append((spec, python))
    engines = with_engines(sides, {}, store=store, config=config, execution=execution)
    return [EvalSide(spec=spec, python=own, label=spec.model.name) for spec, own in engines]


def feed_from_request(request: CheckRequest | LocalizeRequest, models: Sequence[ModelRef]) -> Feed:
    """Return the inputs of all sides: images, arrays of a file, or random ones."""
    data = request.data
    given_values(request.values, data=data)
    task, settings = _feed.task_of_data(data, request.task, request.settings, models, IMAGES_TASK)
    if task is not None:
        settings |= {"data": str(data)}
        settings |= {"unlabelled": True} if isinstance(request, CheckRequest) else {}
        return _feed.task_feed(task, settings, count=request.limit, seed=request.seed)
    if data not in (None, "random"):
        given = Path(str(data)).absolute()
        check_inputs_exist(given)
        return Feed(kind="arrays", count=request.limit, settings={"data": str(given)})
    limits: dict[str, int] = {}  # by input: integers must be smaller than the smallest table
    for own in map(index_limits, models):
        limits |= {name: min(rows, limits.get(name, rows)) for name, rows in own.items()}
    return Feed(
        kind="random", count=request.random, seed=request.seed, limits=limits,
        distribution=request.distribution,
        bounds=None if request.range is None else bounds_from_range(request.range),
    )  # fmt: skip


def describe_feed(request: CheckRequest | LocalizeRequest, feed: Feed, items: int) -> str:
    if feed.kind == "task":
        return f"{items} items of {feed.settings['data']}, task {feed.task}"
    if feed.kind == "arrays":
        return f"{items} items of {request.data}"
    between = " from {:g} to {:g}".format(*feed.bounds) if feed.bounds else ""
    return f"{items} random inputs, {feed.distribution}{between}, seed {feed.seed}"


def _run_side(side: EvalSide, feed: Feed, folder: Path, store: Store, steps: Steps) -> SideRun:
    spec = side.spec
    execution = steps.next(spec.model.name)
    began = time.monotonic()
    outcome = stream(
        spec, feed, folder=folder, store=store, execution=replace(execution, python=side.python),
        on_progress=lambda done, text: execution.listen(Event(kind="stage", text=text, done=done)),
    )  # fmt: skip
    ran = checking.Side(
        model=spec.model, runtime=spec.runtime, python=outcome.python, versions=outcome.versions,
        precision=precision_of_pass(spec, outcome.conditions), seconds=time.monotonic() - began,
    )  # fmt: skip
    return SideRun(spec=spec, side=ran, outcome=outcome, feed=feed, chunks=Chunks(folder))


def _check_candidate(
    first: SideRun, other: SideRun, request: CheckRequest, floor: Sequence[checking.OutputCheck]
) -> checking.Candidate:
    name = other.side.model.name
    findings = preparation_findings(name, other.side.model, other.preparation)
    passes = [(ran.side.model.name, ran.outcome) for ran in (first, other)]
    findings += unreadable_findings(passes)[1:]
    notes = [f"{each.severity} {each.code}: {each.message}" for each in findings]
    notes += other.outcome.notes
    ran = other.outcome.facts.get("computes_in")
    if ran and other.side.precision in ("fp16", "bf16"):
        text = f"{name} was computed in {ran}, not in its own types: rounding and overflow on a "
        notes.append(text + "GPU are not in these numbers; trtbench localize emulates them")
    same = first.outcome.inputs_sha256 == other.outcome.inputs_sha256
    if not same and first.feed.kind == "task":
        notes.append("the sides saw different inputs: their preprocessing or its libraries differ")
    ours, theirs = ({x.name: x for x in ran.outcome.outputs} for ran in (first, other))
    pairs = checking.pair_outputs(ours, theirs)
    # PyTorch has no names of outputs, so those of its sides mean nothing.
    named = not any("torch" in RUNTIMES.load(ran.side.runtime).FORMATS for ran in (first, other))
    differ = []
    if any(own != its for own, its in pairs.items()):
        notes.append("the outputs have different names; they were matched by position")
        names = (", ".join(each) for each in (pairs, pairs.values()))
        differ = [f"output names differ: {' against '.join(names)}"] if named else []
    alone = [name for name in ours if name not in pairs]
    alone += [name for name in theirs if name not in pairs.values()]
    differ += [f"only one side has the output {name}" for name in alone]
    checks = _compare_outputs(first, other, request, pairs)
    judgements = checking.judge_rules(map(checking.rule_from_text, request.expect), checks)
    if not request.expect:
        judgements = checking.judge_outputs(
            checks, precisions=(first.side.precision, other.side.precision),
            random=first.feed.kind == "random", floor=floor, outputs=differ,
        )  # fmt: skip
    return checking.Candidate(
        side=other.side, checks=checks, unmatched=tuple(alone), notes=tuple(dict.fromkeys(notes)),
        judgements=judgements, passed=all(each.passed for each in judgements),
    )  # fmt: skip


def _compare_outputs(
    first: SideRun, other: SideRun, request: CheckRequest, pairs: Mapping[str, str]
) -> tuple[checking.OutputCheck, ...]:
    """Compare outputs chunk by chunk, so that memory does not grow with the number of inputs."""
    rtol, atol, classes = request.rtol, request.atol, request.classes
    tallies = {x: checking.OutputTally(x, rtol=rtol, atol=atol, classes=classes) for x in pairs}
    for start, wanted in first.chunks:
        found = other.chunks.rows(start, start + len(next(iter(wanted.values()))))
        for name, tally in tallies.items():
            tally.add(wanted[name], found[pairs[name]], start=start)
    return tuple(tally.result(first.source.names) for tally in tallies.values())


def preparation_findings(
    label: str, model: ModelRef, judged: Mapping[str, Scalar]
) -> tuple[Finding, ...]:
    """Return a finding if images were prepared differently for calibration than here."""
    return prepared_alike.findings(label, _feed.preparation_of_model(model), judged)


def unreadable_findings(passes: Sequence[tuple[str, InferOutcome]]) -> tuple[Finding, ...]:
    """Return findings about items that no model could read; refuse if models differ in them."""
    if len({tuple(each.place for each in outcome.unreadable) for _, outcome in passes}) > 1:
        raise InputError(
            "the models could not all read the same items",
            facts={
                label: ", ".join(each.name for each in outcome.unreadable[:3]) or "read all"
                for label, outcome in passes
            },
            fix="repair these items, or remove them from the folder",
        )
    found: list[Finding] = []
    for label, outcome in passes:
        lost = outcome.unreadable
        found += items_left_out.findings(label, lost, outcome.items + len(lost))
    return tuple(found)


def _write_worst(
    first: SideRun, other: SideRun, candidate: checking.Candidate, folder: Path, *, number: int
) -> list[Path]:
    """Save the inputs with the largest errors, with the outputs of both models."""
    items = {worst.item: worst.name for check in candidate.checks for worst in check.worst}
    if not items:
        return []
    source, paths = first.source, []
    stem = _UNSAFE.sub("_", Path(candidate.side.model.name).stem)
    target = folder / "worst"
    with writing(target):
        make_subfolder(target)
        for item, name in items.items():
            path = target / f"{stem}-{number}-{_UNSAFE.sub('_', name)[-80:]}.npz"
            arrays = {f"input/{k}": v for k, v in source.prepare(source.load(item)).items()}
            for side, ran in (("reference", first), ("candidate", other)):
                rows = ran.chunks.rows(item, item + 1)
                arrays |= {f"{side}/{key}": value[0] for key, value in rows.items()}
            np.savez(content := io.BytesIO(), **arrays)  # type: ignore[arg-type]
            paths.append(write_output(path, content.getvalue()))
    return paths


def write_files(stem: Path, value: object, document: Document) -> list[Path]:
    """Write a value as JSON, and its document as Markdown."""
    return [
        write_output(stem.with_suffix(".json"), json_from_value(value)),
        write_output(stem.with_suffix(".md"), markdown(document)),
    ]


def attach_checks(checked: checking.Checked, store: Store) -> list[str]:
    """Write each candidate's checks to every stored run of the same file; return the run ids.

    They are also stored by hash, for later runs. Runs in another precision are not changed.
    """
    joined = []
    for candidate in checked.candidates:
        sha256, precision = candidate.side.model.sha256, candidate.side.precision
        if sha256 is None:
            continue
        rows = []  # one per output, the usual metrics first
        for check in candidate.checks:
            numbers = {**dict.fromkeys(FIRST_COLUMNS), **check.numbers()}
            about = {"output": check.output, "reference": checked.reference.model.name}
            row = {**about, **numbers, "equality": None, "nonfinite": None, "note": check.note}
            rows.append({name: value for name, value in row.items() if value not in (None, "")})
        folder = results_folder(store, sha256, precision=precision)
        with contextlib.suppress(OSError):
            write_whole(folder / CHECKS_JSON, json_from_value(rows))
        for entry in store.index.find(kind="run"):
            if entry.sha256 != sha256 or not may_be_same_precision(entry.precision, precision):
                continue
            with contextlib.suppress(OSError):  # the disk of a run may be unavailable
                write_whole(store.path(entry) / CHECKS_JSON, json_from_value(rows))
                joined.append(entry.id)
    return joined


def vanilla_name(
    runtime: str, precision: str | None, *, engine: str | None = None,
    options: Mapping[str, Scalar] | None = None,
) -> str:  # fmt: skip
    """Return a model's name as in ArtTRT: ``Vanilla`` is PyTorch, ``TRT`` an engine."""
    formats = RUNTIMES.load(runtime).FORMATS if runtime in RUNTIMES.names() else ()
    if "torch" in formats:
        plain = precision in (None, "fp32", "tf32")
        parts = ["Vanilla", *([] if plain else [str(precision)])]
    elif "engine" in formats:
        parts = ["TRT", f"{precision or 'as it is'}{f'-{engine}' if engine else ''}"]
    else:
        parts = [runtime, *([precision] if precision else [])]
    return " ".join([*parts, *(f"{key}={value}" for key, value in (options or {}).items())])


def unique_names(names: Sequence[str], specs: Sequence[RunSpec]) -> list[str]:
    """Return the names, made unique by runtime, file or number."""
    pairs = list(zip(names, specs, strict=True))
    by_runtime = [f"{name} ({spec.runtime})" for name, spec in pairs]
    by_file = [f"{spec.model.name} {name}" for name, spec in pairs]
    numbered = [f"{name} {place}" for place, name in enumerate(by_runtime, start=1)]
    ways = (list(names), by_runtime, by_file, numbered)
    return next(way for way in ways if len(set(way)) == len(names))
