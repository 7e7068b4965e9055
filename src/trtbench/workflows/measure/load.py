"""Find the highest rate of arrivals that keeps a bound, window by window, each an ordinary run."""

from __future__ import annotations

from dataclasses import dataclass

from trtbench.analysis.column_summary import nearest_rank
from trtbench.analysis.load import (
    LOOKS,
    LoadSearch,
    RatePoint,
    Slo,
    next_rate,
    point_from_windows,
    queries_needed,
    slo_from_text,
    window_from_run,
    with_point,
)
from trtbench.analysis.summary import summary_from_run
from trtbench.domain.result import Run
from trtbench.domain.spec import Length, RunSpec
from trtbench.errors import UsageError
from trtbench.store.store import Store
from trtbench.units import text_from_rate
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.conduct import Conduct

RATES = 12
"""Rates that a search measures, as a rule; for the bar of progress alone."""


@dataclass(frozen=True, kw_only=True)
class LoadFound:
    """What a search found, and the run that stands for its answer."""

    search: LoadSearch
    run: Run
    """At the highest rate that keeps the bound; where none does, the lowest, or without load."""


def measured(
    spec: RunSpec, *, store: Store, conduct: Conduct, slo: str | None = None
) -> tuple[Run, LoadSearch | None]:
    """Measure a run or, where a bound is given, search for the rate that keeps it."""
    if slo is None:
        return run_bench(spec, store=store, conduct=conduct), None
    found = search_rate(
        spec, check_search(spec, slo, output=conduct.output), store=store, conduct=conduct
    )
    return found.run, found.search


def check_search(spec: RunSpec, slo: str, *, output: object = None) -> Slo:
    """Refuse, before anything is measured, what a search cannot be asked for."""
    if spec.protocol != "server":
        raise UsageError("--slo bounds latency under load", fix=f"--protocol server --slo {slo!r}")
    if output is not None:
        raise UsageError("a search for a rate has many runs", fix="leave -o out; --tag finds them")
    return slo_from_text(slo)


def search_rate(spec: RunSpec, slo: Slo, *, store: Store, conduct: Conduct) -> LoadFound:
    """Measure the capacity, then rates by halves until both sides of the bound are close."""
    bare = spec.having(launches=1, profile=False, telemetry_s=None)
    closed = bare.having(protocol="serve", rate_hz=None, arrivals="poisson", arrival_times_s=())
    heard = _named(conduct, "one after the other", 0)
    alone = run_bench(closed, store=store, conduct=heard)
    capacity = summary_from_run(alone).queries_per_s
    if not capacity or alone.times.host is None:
        raise UsageError("the runtime tells no times of single queries", fix="leave --slo out")
    most = min(capacity, spec.rate_hz or capacity)
    lone = nearest_rank(alone.times.host, slo.q)
    search = LoadSearch(slo=slo, capacity_hz=capacity, lone_s=lone, highest_hz=None, next_hz=None)
    if nearest_rank(alone.times.host, 0.5) > slo.limit_s:
        return LoadFound(search=search, run=alone)  # what no load breaks already, load cannot keep
    first_runs: dict[float, Run] = {}
    while (rate := next_rate(search, most_hz=most)) is not None:
        name = f"{text_from_rate(rate, digits=3)}"
        heard = _named(conduct, name, len(search.points))
        point, run = _at_rate(bare, rate, slo, least=spec.launches, store=store, conduct=heard)
        first_runs[rate] = run
        search = with_point(search, point, most_hz=most)
    shown = search.highest_hz if search.highest_hz is not None else search.points[0].rate_hz
    return LoadFound(search=search, run=first_runs[shown])


def _at_rate(
    spec: RunSpec, rate: float, slo: Slo, *, least: int, store: Store, conduct: Conduct
) -> tuple[RatePoint, Run]:
    """Measure windows at a rate until they decide; each has a schedule of its own."""
    looks = (max(LOOKS[0], least), *(each for each in LOOKS if each > max(LOOKS[0], least)))
    queries = max(spec.stop.iterations or 0, queries_needed(slo))
    runs: list[Run] = []
    for count in looks:
        while len(runs) < count:
            window = spec.having(
                rate_hz=rate,
                inputs=spec.inputs.having(seed=spec.inputs.seed + len(runs)),
                stop=Length(seconds=spec.stop.seconds, iterations=queries),
            )
            runs.append(run_bench(window, store=store, conduct=conduct))
        columns = [run.times.host for run in runs if run.times.host is not None]
        point = point_from_windows(rate, list(map(window_from_run, runs)), columns, slo)
        if point.decision != "unclear":
            break
    return point, runs[0]


def _named(conduct: Conduct, name: str, place: int) -> Conduct:
    """Say which rate is measured; how many there will be is a guess."""
    return conduct.part(*(min(0.99, each / RATES) for each in (place, place + 1)), name=name)
