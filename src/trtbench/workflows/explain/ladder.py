"""Why two numbers of one model differ: a ladder of what is stated, or measured step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from trtbench.analysis.ladder import (
    TITLES,
    Ladder,
    Rung,
    headline_of,
    ladder_from_runs,
    steps_between,
)
from trtbench.analysis.layers.engine_facts import facts_from_run
from trtbench.analysis.summary import summary_from_run
from trtbench.domain.result import Run
from trtbench.domain.short_view import ShortView
from trtbench.domain.spec import RunSpec
from trtbench.errors import InputError, UsageError
from trtbench.models.identity import changed
from trtbench.store.directory import RECORD, demand_finished, read_run
from trtbench.store.store import Store
from trtbench.units import text_from_seconds
from trtbench.workflows.explain.source import run_from_files
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.progress import Event

LAUNCHES = 3
"""Fresh processes for each step: their spread says which steps are real."""


@dataclass(frozen=True, kw_only=True)
class LadderStep:
    """One measured run of a ladder."""

    key: str
    run: Run
    metric: str
    seconds: float | None
    spread_s: float | None
    """Half the width of the interval over launches."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation(ShortView):
    """Two runs, and the ladder between them."""

    a: Run
    b: Run
    ladder: Ladder
    measured: bool = False
    steps: tuple[LadderStep, ...] = ()


def named_run(name: str, store: Store | None) -> Run:
    """Read a run by its name or folder, or make one of trtexec's files, joined by commas."""
    words = [part for part in name.split(",") if part]
    if words and all(Path(word).is_file() for word in words):
        return run_from_files(words)
    if (Path(name) / RECORD).is_file():
        found = read_run(Path(name))
    elif store is not None:
        found = store.load(name)
    else:
        raise InputError(f"there is no run {name}", fix="trtbench runs lists them")
    return demand_finished(found)


def explain_stated(a: Run, b: Run) -> Explanation:
    """Explain by what both runs state."""
    return Explanation(a=a, b=b, ladder=ladder_from_runs(a, b))


def explain_measured(
    a: Run, b: Run, *, store: Store, conduct: Conduct, launches: int = LAUNCHES
) -> Explanation:
    """Measure the ladder: the first run again, then one thing changed at a time."""
    spec = _measurable(a)
    target = _aimed(b, spec)
    wanted = [("again", spec), *steps_between(spec, target)]
    steps: list[LadderStep] = []
    for number, (key, each) in enumerate(wanted):
        words = f"step {number + 1} of {len(wanted)}: {TITLES.get(key, key)}"
        conduct.listen(Event(kind="note", text=words))
        run = run_bench(
            each.having(launches=launches, profile=False),
            store=store,
            conduct=replace(conduct, tags=(*conduct.tags, "explain"), run_id=None, output=None),
        )
        steps.append(_step(key, run))
    return Explanation(a=a, b=b, ladder=_ladder(a, b, steps), measured=True, steps=tuple(steps))


def _measurable(run: Run) -> RunSpec:
    """Find the run as it can be measured again: its model must be the same file."""
    spec = run.record.spec
    path = Path(spec.model.path)
    if not path.is_file():
        raise UsageError(
            f"{spec.model.name} is not there to be measured again",
            facts={"path": spec.model.path},
            fix="leave --measure out, and the ladder is made of what both runs state",
        )
    if changed(spec.model):
        raise UsageError(
            f"{spec.model.name} has changed since the run {run.id}",
            fix=f"trtbench bench {path}, then explain that run",
        )
    return spec


def _aimed(b: Run, spec: RunSpec) -> RunSpec:
    """Tell what the ladder leads to: the other run's conditions on the first run's model."""
    other = b.record.spec
    return other.having(
        model=spec.model,
        shapes=spec.shapes,
        inputs=spec.inputs,
        device=spec.device,
        batch=other.batch if other.batch is not None else spec.batch,
        options=spec.options,
    )


def _step(key: str, run: Run) -> LadderStep:
    metric, seconds = headline_of(facts_from_run(run))
    interval = summary_from_run(run).interval
    spread = (interval.high - interval.low) / 2 if interval else None
    return LadderStep(key=key, run=run, metric=metric, seconds=seconds, spread_s=spread)


def _ladder(a: Run, b: Run, steps: list[LadderStep]) -> Ladder:
    """Make rungs of measured steps; before the first and behind the last stand the runs' own."""
    metric_b, b_s = headline_of(facts_from_run(b))
    metric_a, a_s = headline_of(facts_from_run(a))
    rungs = [_again(a_s, steps[0])] if steps else []
    rungs += [_measured(before, after) for before, after in pairwise(steps)]
    last = steps[-1].seconds if steps else a_s
    return Ladder(
        metric_a=metric_a,
        metric_b=metric_b,
        a_s=a_s,
        b_s=b_s,
        rungs=tuple(rungs),
        unexplained_s=None if b_s is None or last is None else b_s - last,
    )


def _again(a_s: float | None, step: LadderStep) -> Rung:
    seconds = None if a_s is None or step.seconds is None else step.seconds - a_s
    return Rung(
        key="again",
        title="the same, measured again",
        a="then",
        b="now",
        seconds=seconds,
        evidence="measured",
        because="what machine and moment change; no condition did",
    )


def _measured(before: LadderStep, after: LadderStep) -> Rung:
    known = before.seconds is not None and after.seconds is not None
    seconds = (after.seconds or 0.0) - (before.seconds or 0.0) if known else None
    left, right = (getattr(each.run.record.spec, after.key) for each in (before, after))
    return Rung(
        key=after.key,
        title=TITLES.get(after.key, after.key),
        a=_word(left),
        b=_word(right),
        seconds=seconds,
        evidence="measured",
        because=_sure(seconds, before, after),
    )


def _word(value: object) -> str:
    return (
        {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)
    )


def _sure(seconds: float | None, before: LadderStep, after: LadderStep) -> str:
    metric = f"{before.metric} to {after.metric}" if before.metric != after.metric else after.metric
    spreads = [each.spread_s for each in (before, after) if each.spread_s is not None]
    if seconds is None or not spreads:
        return f"median {metric}"
    spread = max(spreads)
    said = "within" if abs(seconds) <= spread else "beyond"
    return f"median {metric}; {said} the spread over launches, ± {text_from_seconds(spread)}"
