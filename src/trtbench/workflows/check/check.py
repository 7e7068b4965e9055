"""Is a candidate still right? The same inputs through every side, and the outputs compared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from trtbench.analysis.check import OutputCheck, OutputTally, pair_outputs
from trtbench.domain.feed import Distribution, Feed, InferOutcome
from trtbench.domain.result import Scalar
from trtbench.domain.spec import ModelFormat, ModelRef, RunSpec
from trtbench.errors import InputError, UsageError
from trtbench.executors import check_interpreter
from trtbench.host.arrays import refuse_missing
from trtbench.host.chunks import Chunks
from trtbench.models.identity import model_ref
from trtbench.models.index_limits import index_limits
from trtbench.store.store import Store
from trtbench.tasks import TASKS
from trtbench.tasks._feed import open_feed, open_feed_of_pass
from trtbench.tasks.contract import completed, preparation_from_source
from trtbench.workflows.check.preparation import preparation_findings, unreadable_findings
from trtbench.workflows.check.values import Candidate, Checked, Ran, Side
from trtbench.workflows.measure.errand import run_errand, sides_need
from trtbench.workflows.measure.failure import Failures
from trtbench.workflows.measure.infer import stream
from trtbench.workflows.measure.model_notes import precision_of_pass
from trtbench.workflows.request.choice import default_runtime
from trtbench.workflows.request.conduct import Conduct, Steps
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.judging import CheckRequest, RunningFields, span
from trtbench.workflows.request.progress import Event
from trtbench.workflows.request.spec import pick, side_spec

CHEAP_S = 30.0
"""A reference that takes less runs twice unasked: what it differs from itself is the floor."""
DIFFERENT = "the sides saw different inputs: their preprocessing or its libraries differ"


SettledSide = tuple[RunSpec, str | None]
"""How a side is run, and the interpreter it runs in."""


def run_check(
    request: CheckRequest,
    *,
    store: Store,
    config: Config,
    conduct: Conduct | None = None,
    sides: Sequence[SettledSide] = (),
) -> Checked:
    """Run every side on the same inputs and compare each candidate with the reference.

    ``sides`` are settled already, the reference first, in place of what the request says of them.
    """
    from trtbench.workflows.check.check_files import write_worst

    conduct, output = conduct or Conduct(), Path(request.output)
    names = [str(each) for each in (request.reference, *request.candidates)]
    if not request.candidates:
        raise UsageError("a check needs a candidate", fix="trtbench check REFERENCE CANDIDATE")
    if request.executor is not None:
        gpu, libraries = sides_need(request, names)
        return run_errand(
            "check", request, Checked, config=config, conduct=conduct, gpu=gpu,
            libraries=libraries, output=output,
        )  # fmt: skip
    sides = [
        (with_source(spec, request), python)
        for spec, python in sides or sides_of(request, names, config=config)
    ]
    feed = feed_of(request, [Path(spec.model.path) for spec, _ in sides])
    steps = Steps(conduct, len(sides) + 1)
    with store.scratch() as folder:
        first = _run(sides[0], feed, folder / "reference", store, steps)
        floor, reason = _floor(first, sides[0], folder / "again", store, steps, request)
        found, failed = [], Failures(len(names) - 1)
        for number, side in enumerate(sides[1:]):
            with failed.collecting(names[1 + number]):
                other = _run(side, _known(feed, first), folder / f"side-{number}", store, steps)
                candidate = _compare(first, other, request)
                files = write_worst(first, other, candidate, output, number=number)
                found.append((candidate, files))
    return Checked(
        reference=first.side,
        candidates=tuple(candidate for candidate, _ in found),
        inputs=_words(request, first.outcome),
        items=first.outcome.items,
        inputs_sha256=first.outcome.inputs_sha256,
        preparation=prepared_by(first),
        floor=floor,
        floor_reason=reason,
        files=tuple(str(path) for _, files in found for path in files),
        failed=tuple(failed.told),
    )


def sides_of(request: RunningFields, names: Sequence[str], *, config: Config) -> list[SettledSide]:
    """Settle every side, with the interpreter it runs in."""
    specs = []
    for index, name in enumerate(names):
        runtime = pick(request.runtime, index, len(names), what="-r")
        spec = side_spec(request, name, runtime or _gives_outputs(name, config), config)
        python = pick(request.python, index, len(names), what="--python")
        python = python or config.python_for(spec.runtime)
        if python is not None:
            check_interpreter(python)
        specs.append((spec, python))
    return specs


def _gives_outputs(name: str, config: Config) -> str | None:
    """Choose a runtime that hands out outputs, where nobody says."""
    path = Path(name)
    if "runtime" in config.defaults or not path.is_file():
        return None
    return default_runtime(model_ref(path), config, with_outputs=True)


def feed_of(request: CheckRequest, models: Sequence[Path]) -> Feed:
    """Describe what all sides are fed with."""
    task = request.preparing_task
    if task is not None:
        return Feed(
            kind="task",
            task=task,
            settings=completed(TASKS.load(task).FLAGS, request.preparing),
            count=request.limit,
            seed=request.seed,
        )
    if request.inputs is not None:
        return Feed(kind="arrays", count=request.limit)
    ranges = _recorded(models) if request.distribution == "recorded" else {}
    kind: Distribution = "normal" if request.distribution == "normal" else "uniform"
    feed = Feed(
        kind="random", count=request.random, seed=request.seed, distribution=kind, ranges=ranges,
        limits=_limits(models),
    )  # fmt: skip
    if request.range is not None:
        # Names are not known before a model is loaded: the empty one stands for all.
        return feed.having(ranges={"": span(request.range)})
    return feed


def with_source(spec: RunSpec, request: CheckRequest) -> RunSpec:
    """Have a side read its inputs from the file that was asked for."""
    if request.inputs is None:
        return spec
    given = Path(request.inputs).absolute()
    refuse_missing(given)
    changed = spec.inputs.having(source=str(given))
    return spec.having(inputs=changed)


def _recorded(models: Sequence[Path]) -> dict[str, tuple[float, float]]:
    """Find the range an ONNX file among the sides was quantized for at its inputs."""
    from trtbench.build.onnx_read import input_ranges

    for path in models:
        if path.suffix == ".onnx" and (found := input_ranges(path)):
            return found
    raise InputError(
        "no side has a recorded range of its inputs: none is an ONNX file quantized there",
        fix="--range 0:1, or --inputs data.npz",
    )


def _limits(models: Sequence[Path]) -> dict[str, int]:
    """Count the rows that all sides have for the integers of an input: they get the same ones."""
    found: dict[str, int] = {}
    for path in models:
        kind: ModelFormat = "onnx" if path.suffix == ".onnx" else "engine"
        told = index_limits(ModelRef(path=str(path.absolute()), format=kind))
        found |= {name: min(rows, found.get(name, rows)) for name, rows in told.items()}
    return found


def _known(feed: Feed, first: Ran) -> Feed:
    names = tuple(tensor.name for tensor in first.outcome.inputs)
    return feed.having(names=names)


def _run(side: SettledSide, feed: Feed, folder: Path, store: Store, steps: Steps) -> Ran:
    spec, python = side
    conduct = steps.next(spec.model.name)
    began = time.monotonic()
    outcome = stream(
        spec,
        feed,
        folder=folder,
        store=store,
        conduct=replace(conduct, python=python),
        on_progress=lambda done, text: conduct.listen(Event(kind="stage", text=text, done=done)),
    )
    told = Side(
        model=spec.model,
        runtime=spec.runtime,
        precision=precision_of_pass(spec, outcome.conditions),
        python=outcome.python,
        versions=outcome.versions,
        seconds=time.monotonic() - began,
    )
    return Ran(spec=spec, side=told, outcome=outcome, feed=feed, chunks=Chunks(folder))


def _floor(
    first: Ran, side: SettledSide, folder: Path, store: Store, steps: Steps, request: CheckRequest
) -> tuple[tuple[OutputCheck, ...] | None, str | None]:
    """Run the reference again: what it differs from itself, nobody else can be better than."""
    if request.floor == "off":
        return None, "not asked for"
    if request.floor == "auto" and first.side.seconds > CHEAP_S:
        return None, f"the reference takes {first.side.seconds:.0f} s; --floor on runs it twice"
    again = _run(side, first.feed, folder, store, steps)
    return _checks(first, again, request), None


def _compare(first: Ran, other: Ran, request: CheckRequest) -> Candidate:
    found = preparation_findings(other.side.model.name, other.side.model, prepared_by(other))
    found += unreadable_findings([
        (ran.side.model.name, ran.outcome) for ran in (first, other)
    ])[1:]  # fmt: skip
    notes = [f"{each.severity} {each.code}: {each.message}" for each in found]
    notes += other.outcome.notes
    same = first.outcome.inputs_sha256 == other.outcome.inputs_sha256
    if not same and first.feed.kind == "task":
        notes.append(DIFFERENT)
    ours, theirs = (
        {tensor.name: tensor for tensor in ran.outcome.outputs} for ran in (first, other)
    )
    pairs = pair_outputs(ours, theirs)
    if not pairs:
        raise InputError(
            "the sides have no output in common",
            facts={"reference": ", ".join(ours), "candidate": ", ".join(theirs)},
        )
    if any(own != its for own, its in pairs.items()):
        notes.append("outputs have other names; they were matched by their place")
    alone = [name for name in ours if name not in pairs]
    alone += [name for name in theirs if name not in pairs.values()]
    return Candidate(
        side=other.side,
        checks=_checks(first, other, request, pairs=pairs),
        unmatched=tuple(alone),
        notes=tuple(dict.fromkeys(notes)),
    )


def _checks(
    first: Ran, other: Ran, request: CheckRequest, *, pairs: Mapping[str, str] | None = None
) -> tuple[OutputCheck, ...]:
    """Compare chunk by chunk: what is in memory does not grow with the inputs."""
    pairs = pairs or {tensor.name: tensor.name for tensor in first.outcome.outputs}
    tallies = {
        name: OutputTally(name, rtol=request.rtol, atol=request.atol, classes=request.classes)
        for name in pairs
    }
    for start, wanted in first.chunks:
        rows = len(next(iter(wanted.values())))
        found = other.chunks.rows(start, start + rows)
        for name, tally in tallies.items():
            tally.add(wanted[name], found[pairs[name]], start=start)
    names = open_feed_of_pass(first.feed, first.outcome, spec=first.spec).names
    return tuple(tally.result(names) for tally in tallies.values())


def prepared_by(ran: Ran) -> dict[str, Scalar]:
    """Tell how the task prepared the items of a side; empty where none did."""
    if ran.feed.task is None:
        return {}
    source = open_feed(ran.feed, ran.outcome.inputs, spec=ran.spec)
    return preparation_from_source(ran.feed.task, source)


def _words(request: CheckRequest, outcome: InferOutcome) -> str:
    if request.preparing_task is not None:
        return f"{outcome.items} items of {request.images}, task {request.preparing_task}"
    if request.inputs is not None:
        return f"{outcome.items} items of {request.inputs}"
    ends = span(request.range) if request.range is not None else None
    between = f" from {ends[0]:g} to {ends[1]:g}" if ends else ""
    return f"{outcome.items} random inputs, {request.distribution}{between}, seed {request.seed}"
