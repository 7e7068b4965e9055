"""How long a sweep will take, from what the same work took before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from statistics import median

from trtbench.domain.result import RunRecord
from trtbench.domain.spec import Length, Value, Warmup
from trtbench.errors import TrtbenchError
from trtbench.store.directory import read_record
from trtbench.store.entries import Entry
from trtbench.store.store import Store
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.kinds import seconds
from trtbench.workflows.sweep.cache import Cache, Made
from trtbench.workflows.sweep.graph import AFTER, BEFORE, SweepStep
from trtbench.workflows.sweep.matrix import Case
from trtbench.workflows.sweep.plan import SweepPlan

START_S = 1.0
"""Starting a worker and importing its libraries, where no run tells better."""


class KindEstimate(Value, frozen=True, kw_only=True):
    """One kind of work of a sweep: how much there is, and how long it will take."""

    kind: str
    count: int
    cached: int = 0
    """Done before, and kept."""
    seconds: float | None = None
    """Of what is left to do; ``None`` when nothing is known about some of it."""
    guessed: int = 0
    """Jobs whose length comes from the settings, because nothing like them was done before."""


def estimate(plan: SweepPlan, *, store: Store, config: Config) -> tuple[KindEstimate, ...]:
    """Estimate every kind of work in the order in which it is done; what judges is last."""
    cache = Cache(store)
    before = list(cache.history())
    kinds = [_steps(plan, kind, cache, before) for kind in BEFORE]
    kinds.append(_benches(plan, store, config))
    kinds += [_steps(plan, kind, cache, before) for kind in AFTER]
    return tuple(each for each in kinds if each.count)


def _steps(plan: SweepPlan, kind: str, cache: Cache, before: list[Made]) -> KindEstimate:
    steps = [step for step in plan.steps.values() if step.kind == kind]
    left = [step for step in steps if cache.find(step) is None]
    told = [_step_s(step, before) for step in left]
    known = [each for each in told if each is not None]
    return KindEstimate(
        kind=kind,
        count=len(steps),
        cached=len(steps) - len(left),
        seconds=sum(known) if len(known) == len(told) else None,
    )


def _step_s(step: SweepStep, before: list[Made]) -> float | None:
    """Take the nearest thing that was ever done: same network and precision, network, kind."""
    same = [made for made in before if made.kind == step.kind]
    network = [made for made in same if made.network == step.network]
    exact = [made for made in network if made.precision == step.settings.get("precision")]
    nearest = exact or network or same
    return median(made.seconds for made in nearest) if nearest else None


def _benches(plan: SweepPlan, store: Store, config: Config) -> KindEstimate:
    places = [k for k in range(len(plan.cases)) if k not in plan.refused]
    rounds = plan.matrix.rounds
    entries = store.index.find(kind="run")
    total, guessed = 0.0, Counter[bool]()
    for place in places:
        case = plan.cases[place]
        record = _like(case, entries, store)
        total += rounds * bench_s(case, config=config, like=record)
        guessed[record is None] += rounds
    return KindEstimate(
        kind="bench", count=rounds * len(places), seconds=total, guessed=guessed[True]
    )


def bench_s(case: Case, *, config: Config, like: RunRecord | None) -> float:
    """Add up a run's launches: start, load, warm-up and the measured part."""
    stop, warmup = _stop(case, config), Warmup().floor.seconds or 0.0
    if isinstance(given := case.settings.get("warmup"), str | int | float):
        warmup = seconds(given)
    before, each = START_S, 0.0
    if like is not None and like.launches:
        facts = like.launches[0]
        before += (facts.load_s or 0.0) + (facts.first_s or 0.0)
        warmup = max(warmup, facts.warmup_s or 0.0)
        each = (like.launches[0].solo_median_s or 0.0) or _median_s(like)
    measured = max(stop.seconds or 0.0, (stop.iterations or 0) * each)
    launches = case.settings.get("launches") or config.defaults.get("launches") or 1
    return int(launches) * (before + warmup + measured)


def _median_s(record: RunRecord) -> float:
    facts = record.launches[0]
    count = record.spec.stop.iterations
    return facts.wall_s / count if facts.wall_s and count and not record.spec.stop.seconds else 0.0


def _stop(case: Case, config: Config) -> Length:
    duration = case.settings.get("duration", config.defaults.get("duration"))
    iterations = case.settings.get("iterations", config.defaults.get("iterations"))
    if duration is None and iterations is None:
        return Length(seconds=3.0)
    length = seconds(duration) if isinstance(duration, str | int | float) else None
    return Length(seconds=length, iterations=int(iterations) if iterations else None)


def _like(case: Case, entries: Iterable[Entry], store: Store) -> RunRecord | None:
    """Find the newest run of the same network on the same runtime, of the same batch if any is."""
    same = [e for e in entries if e.runtime == case.runtime and e.model.startswith(case.network)]
    same.sort(key=lambda entry: entry.batch != (case.batch or 1))
    for entry in same[:1]:
        try:
            record = read_record(store.path(entry))
        except TrtbenchError:
            return None
        return record if isinstance(record, RunRecord) else None
    return None
