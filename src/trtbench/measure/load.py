"""Find the highest rate of arrivals that keeps a bound, window by window, each an ordinary run."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace

from trtbench.analysis.load import (
    LOOKS,
    next_rate,
    point_from_windows,
    queries_needed,
    slo_from_text,
    window_from_run,
    with_point,
)
from trtbench.analysis.summary import nearest_rank, summary_from_run
from trtbench.core.errors import TrtbenchError, UsageError
from trtbench.core.run import LoadSearch, RatePoint, Run, Slo
from trtbench.core.spec import Length, RunSpec
from trtbench.core.units import text_from_rate
from trtbench.measure.bench import run_bench
from trtbench.requests.execution import Event, Execution
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import write_load
from trtbench.store.store import Store

RATES = 12
"""Rates that a search measures, as a rule; for the bar of progress alone."""
LONGEST_S = 600.0
"""Seconds after which no other rate is begun, nor one looked at longer."""


def measured(spec: RunSpec, *, store: Store, execution: Execution, slo: str | None = None) -> Run:
    """Measure a run or, where a bound is given, search for the rate that keeps it.

    The search is kept beside the run at its answer.
    """
    if slo is None:
        return run_bench(spec, store=store, execution=execution)
    bound = check_search(spec, slo, output=execution.output)
    return _kept(search_rate(spec, bound, store=store, execution=execution), store)


def _kept(run: Run, store: Store) -> Run:
    if run.load is not None and run.path is not None:
        write_load(run.path, run.load)
        store.publish(run.path)
    return run


def check_search(spec: RunSpec, slo: str, *, output: object = None) -> Slo:
    """Refuse, before anything is measured, what a search cannot be asked for."""
    if spec.protocol != "server":
        raise UsageError("--slo bounds latency under load", fix=f"--protocol server --slo {slo!r}")
    if output is not None:
        raise UsageError("a search for a rate has many runs", fix="leave -o out; --tag finds them")
    if spec.gap_s:
        raise UsageError("queries of a search come by a schedule", fix="leave --gap out")
    if (check := RUNTIMES.load(spec.runtime).check) is not None:
        check(spec.having(rate_hz=spec.rate_hz or 1.0, stop=Length(iterations=1)))
    return slo_from_text(slo)


def search_rate(spec: RunSpec, slo: Slo, *, store: Store, execution: Execution) -> Run:
    """Measure the capacity, then rates by halves until both sides of the bound are close.

    Gives the run at the highest rate that keeps it; where none does, the lowest, or without load.
    """
    once = spec.having(launches=1)
    bare = once.having(profile=False, telemetry_s=None)
    if bare != once:
        text = "a search leaves out --profile and --telemetry: bench its answer so"
        execution.listen(Event(kind="note", text=text))
    closed = bare.having(protocol="serve", rate_hz=None, arrivals="poisson")
    heard = _named(execution, "one after the other", 0)
    alone = run_bench(closed, store=store, execution=heard)
    capacity = summary_from_run(alone).queries_per_s
    if not capacity or alone.times.host is None:
        raise UsageError("the runtime does not time single queries", fix="leave --slo out")
    most = min(capacity, spec.rate_hz or capacity)
    lone = nearest_rank(alone.times.host, slo.q)
    search = LoadSearch(slo=slo, capacity_hz=capacity, lone_s=lone, highest_hz=None, next_hz=None)
    if nearest_rank(alone.times.host, 0.5) > slo.limit_s:
        return replace(alone, load=search)  # what no load breaks already, load cannot keep
    first_runs: dict[float, Run] = {}
    until = time.monotonic() + LONGEST_S
    while (rate := next_rate(search, most_hz=most)) is not None:
        if search.points and time.monotonic() > until:
            return _answered(search.having(complete=False), first_runs)
        heard = _named(execution, text_from_rate(rate, digits=3), len(search.points))
        window = bare.having(rate_hz=rate)
        try:
            point, run = _at_rate(
                window, slo, least=spec.launches, until=until, store=store, execution=heard
            )
        except (KeyboardInterrupt, TrtbenchError):
            if search.points:
                run = _kept(_answered(search.having(complete=False), first_runs), store)
                text = f"what was found so far is kept: trtbench runs show {run.id}"
                execution.listen(Event(kind="note", text=text))
            raise
        first_runs[rate] = run
        search = with_point(search, point, most_hz=most)
    return _answered(search, first_runs)


def _answered(search: LoadSearch, first_runs: Mapping[float, Run]) -> Run:
    shown = search.highest_hz if search.highest_hz is not None else search.points[0].rate_hz
    return replace(first_runs[shown], load=search)


def _at_rate(
    spec: RunSpec, slo: Slo, *, least: int, until: float, store: Store, execution: Execution
) -> tuple[RatePoint, Run]:
    """Measure windows until they decide or it is too late; each has a schedule of its own."""
    looks = (max(LOOKS[0], least), *(each for each in LOOKS if each > max(LOOKS[0], least)))
    queries = max(spec.stop.iterations or 0, queries_needed(slo))
    runs: list[Run] = []
    for count in looks:
        while len(runs) < count:
            window = spec.having(
                inputs=spec.inputs.having(seed=spec.inputs.seed + len(runs)),
                stop=Length(seconds=spec.stop.seconds, iterations=queries),
            )
            runs.append(run_bench(window, store=store, execution=execution))
        columns = [run.times.host for run in runs if run.times.host is not None]
        windows = list(map(window_from_run, runs))
        point = point_from_windows(spec.rate_hz or 0.0, windows, columns, slo)
        if point.decision != "unclear" or time.monotonic() > until:
            break
    return point, runs[0]


def _named(execution: Execution, name: str, place: int) -> Execution:
    return execution.part(*(min(0.99, each / RATES) for each in (place, place + 1)), name=name)
