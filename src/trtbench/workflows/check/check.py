"""Is a candidate still right? The same inputs through every side, and the outputs compared."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from trtbench.analysis.check import OutputCheck, OutputTally, pair_outputs
from trtbench.domain.feed import Distribution, Feed, InferOutcome
from trtbench.domain.spec import RunSpec
from trtbench.errors import InputError, UsageError
from trtbench.executors.local import check_interpreter
from trtbench.host.arrays import refuse_missing
from trtbench.host.chunks import Chunks
from trtbench.models.identity import model_ref
from trtbench.store.store import Store
from trtbench.tasks import TASKS
from trtbench.tasks._feed import open_feed
from trtbench.tasks.contract import completed
from trtbench.workflows.check.values import Asked, Candidate, Checked, Inputs, Ran, Side
from trtbench.workflows.measure.failure import Failures
from trtbench.workflows.measure.infer import stream
from trtbench.workflows.request.choice import default_runtime
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.progress import Event
from trtbench.workflows.request.spec import pick, run_spec

CHEAP_S = 30.0
"""A reference that takes less runs twice unasked: what it differs from itself is the floor."""
DIFFERENT = "the sides saw different inputs: their preprocessing or its libraries differ"


def run_check(
    reference: str,
    candidates: Sequence[str],
    *,
    store: Store,
    config: Config,
    output: Path,
    asked: Asked | None = None,
    conduct: Conduct | None = None,
) -> Checked:
    """Run every side on the same inputs and compare each candidate with the reference."""
    from trtbench.workflows.check.check_files import write_worst

    asked, conduct = asked or Asked(), conduct or Conduct()
    if not candidates:
        raise UsageError("a check needs a candidate", fix="trtbench check REFERENCE CANDIDATE")
    sides = [*_sides([reference, *candidates], config=config, asked=asked)]
    feed = _feed(asked.inputs, [Path(spec.model.path) for spec, _ in sides])
    steps = _Steps(conduct, len(sides) + 1)
    with store.scratch() as folder:
        first = _run(sides[0], feed, folder / "reference", store, steps)
        floor, reason = _floor(first, sides[0], folder / "again", store, steps, asked)
        found, failed = [], Failures(len(candidates))
        for number, side in enumerate(sides[1:]):
            with failed.collecting(candidates[number]):
                other = _run(side, _known(feed, first), folder / f"side-{number}", store, steps)
                candidate = _compare(first, other, asked)
                files = write_worst(first, other, candidate, output, number=number)
                found.append((candidate, files))
    return Checked(
        reference=first.side,
        candidates=tuple(candidate for candidate, _ in found),
        inputs=_words(asked.inputs, first.outcome),
        items=first.outcome.items,
        inputs_sha256=first.outcome.inputs_sha256,
        floor=floor,
        floor_reason=reason,
        files=tuple(str(path) for _, files in found for path in files),
        failed=tuple(failed.told),
    )


def _sides(
    names: Sequence[str], *, config: Config, asked: Asked
) -> list[tuple[RunSpec, str | None]]:
    specs = []
    for index, name in enumerate(names):
        runtime = pick(asked.runtimes, index, len(names), what="-r")
        spec = side_spec(name, runtime, config=config, flags=asked.flags)
        spec = _with_source(spec, asked.inputs)
        python = pick(asked.pythons, index, len(names), what="--python")
        python = python or config.python_for(spec.runtime)
        if python is not None:
            check_interpreter(python)
        specs.append((spec, python))
    return specs


def side_spec(
    name: str, runtime: str | None, *, config: Config, flags: Mapping[str, Any]
) -> RunSpec:
    """Settle one side; when nobody says, on a runtime that hands out outputs."""
    path = Path(name)
    if runtime is None and config.defaults.runtime is None and path.is_file():
        runtime = default_runtime(model_ref(path), config, with_outputs=True)
    return run_spec(name, config=config, runtime=runtime, profile=False, **flags)


def _feed(inputs: Inputs, models: Sequence[Path]) -> Feed:
    if inputs.task is not None:
        return Feed(
            kind="task",
            task=inputs.task,
            settings=completed(TASKS.load(inputs.task).FLAGS, inputs.settings),
            count=inputs.limit,
            seed=inputs.seed,
        )
    if inputs.source is not None:
        return Feed(kind="arrays", count=inputs.limit)
    if inputs.random < 1:
        raise UsageError("--random needs at least one input", fix="--random 1000")
    ranges = _recorded(models) if inputs.distribution == "recorded" else {}
    kind: Distribution = "normal" if inputs.distribution == "normal" else "uniform"
    feed = Feed(
        kind="random", count=inputs.random, seed=inputs.seed, distribution=kind, ranges=ranges
    )
    if inputs.range is not None:
        # Names are not known before a model is loaded: the empty one stands for all.
        return msgspec.structs.replace(feed, ranges={"": inputs.range})
    return feed


def feed_of(asked: Asked, models: Sequence[Path], spec: RunSpec) -> tuple[Feed, RunSpec]:
    """The feed of a check, and the spec of a side that is fed by it."""
    return _feed(asked.inputs, models), _with_source(spec, asked.inputs)


def _with_source(spec: RunSpec, inputs: Inputs) -> RunSpec:
    if inputs.source is None or inputs.task is not None:
        return spec
    given = Path(inputs.source).absolute()
    refuse_missing(given)
    changed = msgspec.structs.replace(spec.inputs, source=str(given))
    return msgspec.structs.replace(spec, inputs=changed)


def _recorded(models: Sequence[Path]) -> dict[str, tuple[float, float]]:
    """Find the range an ONNX file among the sides was quantized for at its inputs."""
    from trtbench.build.onnx_ranges import input_ranges

    for path in models:
        if path.suffix == ".onnx" and (found := input_ranges(path)):
            return found
    raise InputError(
        "no side has a recorded range of its inputs: none is an ONNX file quantized there",
        fix="--range 0:1, or --inputs data.npz",
    )


def _known(feed: Feed, first: Ran) -> Feed:
    names = tuple(tensor.name for tensor in first.outcome.inputs)
    return msgspec.structs.replace(feed, names=names)


def _run(
    side: tuple[RunSpec, str | None], feed: Feed, folder: Path, store: Store, steps: _Steps
) -> Ran:
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
        python=outcome.python,
        versions=outcome.versions,
        seconds=time.monotonic() - began,
    )
    return Ran(spec=spec, side=told, outcome=outcome, feed=feed, chunks=Chunks(folder))


def _floor(
    first: Ran,
    side: tuple[RunSpec, str | None],
    folder: Path,
    store: Store,
    steps: _Steps,
    asked: Asked,
) -> tuple[tuple[OutputCheck, ...] | None, str | None]:
    """Run the reference again: what it differs from itself, nobody else can be better than."""
    if asked.floor == "off":
        return None, "not asked for"
    if asked.floor == "auto" and first.side.seconds > CHEAP_S:
        return None, f"the reference takes {first.side.seconds:.0f} s; --floor on runs it twice"
    again = _run(side, first.feed, folder, store, steps)
    return _checks(first, again, asked), None


def _compare(first: Ran, other: Ran, asked: Asked) -> Candidate:
    notes = list(other.outcome.notes)
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
        checks=_checks(first, other, asked, pairs=pairs),
        unmatched=tuple(alone),
        notes=tuple(dict.fromkeys(notes)),
    )


def _checks(
    first: Ran, other: Ran, asked: Asked, *, pairs: Mapping[str, str] | None = None
) -> tuple[OutputCheck, ...]:
    """Compare chunk by chunk: what is in memory does not grow with the inputs."""
    pairs = pairs or {tensor.name: tensor.name for tensor in first.outcome.outputs}
    tallies = {
        name: OutputTally(name, rtol=asked.rtol, atol=asked.atol, classes=asked.classes)
        for name in pairs
    }
    for start, wanted in first.chunks:
        rows = len(next(iter(wanted.values())))
        found = other.chunks.rows(start, start + rows)
        for name, tally in tallies.items():
            tally.add(wanted[name], found[pairs[name]], start=start)
    names = item_names(first)
    return tuple(tally.result(names) for tally in tallies.values())


def item_names(ran: Ran) -> tuple[str, ...]:
    """The names of the items: files, rows, or numbers of random draws."""
    return open_feed(ran.feed, ran.outcome.inputs, spec=ran.spec).names


def _words(inputs: Inputs, outcome: InferOutcome) -> str:
    if inputs.task is not None:
        return f"{outcome.items} items of {inputs.settings.get('data')}, task {inputs.task}"
    if inputs.source is not None:
        return f"{outcome.items} items of {inputs.source}"
    span = f" from {inputs.range[0]:g} to {inputs.range[1]:g}" if inputs.range else ""
    return f"{outcome.items} random inputs, {inputs.distribution}{span}, seed {inputs.seed}"


class _Steps:
    """Tells how far the whole check is, and passes on what each side says in between."""

    def __init__(self, conduct: Conduct, count: int) -> None:
        self._conduct, self._count, self._done = conduct, count, -1

    def next(self, text: str) -> Conduct:
        self._done = min(self._done + 1, self._count - 1)
        done = self._done

        def listen(event: Event) -> None:
            part = (done + (event.done or 0.0)) / self._count
            self._conduct.listen(
                msgspec.structs.replace(event, text=f"{text}: {event.text}", done=part)
            )

        return replace(self._conduct, listen=listen)
