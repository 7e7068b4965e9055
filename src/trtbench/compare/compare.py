"""Compare models, engines and stored runs, with a verdict that knows how sure it is."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from trtbench.analysis.comparability import CLOCK_TOLERANCE, blocking_reasons, differences
from trtbench.analysis.findings import findings_from_evidence
from trtbench.analysis.findings.evidence import Evidence, PairFacts
from trtbench.analysis.stored_comparison import (
    COMPARISON_HEADER,
    Drift,
    compare_apart,
    comparison_rows,
    drift_from_history,
    too_coarse,
)
from trtbench.analysis.verdict import (
    GPU,
    MARGIN,
    alone_effects,
    burst_verdict,
    confirm_in_cycles,
    correct_for_many,
    duet_comparison,
    hold_to_alone,
    interference,
    kind_in_cycles,
    metric_of_both,
    pair_effect,
    refused_headline,
    shared_columns,
    verdict_from_effects,
)
from trtbench.compare.turns import (
    WARMUP,
    Duet,
    Side,
    Sides,
    make_duet,
    paired,
    pairs_of,
    play_until_clear,
    settle,
)
from trtbench.core.codec import json_from_value
from trtbench.core.errors import StoreError, UsageError
from trtbench.core.results import Compared, Comparison, VerdictKind
from trtbench.core.run import Run, RunRecord, Score
from trtbench.core.spec import RunSpec
from trtbench.core.units import instant_from_text
from trtbench.executors.contract import Turns
from trtbench.host.files import write_output
from trtbench.measure.bench import run_bench
from trtbench.measure.jobs import device_of
from trtbench.measure.remote import InputFiles, job_from_spec, send, take_in
from trtbench.models.identity import demand_unchanged
from trtbench.models.torch_models import is_named
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.requests.execution import Execution
from trtbench.requests.measure import LAUNCHES, CompareRequest, PairFields, TurnFields
from trtbench.requests.run_spec import pick, side_spec
from trtbench.requests.settings import Config
from trtbench.store.directory import (
    demand_finished,
    entry_from_record,
    new_id,
    read_record,
    write_record,
)
from trtbench.store.store import Store, known_scores

MOST_STEM_BYTES = 100
_UNSAFE = re.compile(r"[^\w.-]+")
SESSION_S = 1800.0
"""Runs nearer than this to the one before belong to one session: they met the same machine."""
ALIKE = ("sha256", "runtime", "precision", "batch", "protocol", "host", "gpu", "provenance")


def compare(
    request: CompareRequest, *, store: Store, config: Config, execution: Execution | None = None
) -> list[Compared]:
    """Compare each candidate with the baseline; many candidates are corrected for."""
    execution = execution or Execution()
    names = request.models
    if len(names) < 2:
        raise UsageError(
            "a comparison needs a candidate", fix="trtbench compare BASELINE CANDIDATE"
        )
    settings = execution.settings(config)
    found = [
        _compare(request, names, number, store, settings, execution)
        for number in range(1, len(names))
    ]
    heads = [each.comparison.verdicts[0] for each in found]
    if len(found) > 1:  # every headline is held to the stricter bar that several need
        heads = correct_for_many(heads)
    results = []
    for each, head in zip(found, heads, strict=True):
        comparison = each.comparison.having(verdicts=(head, *each.comparison.verdicts[1:]))
        comparison = further_findings(
            comparison,
            (each.baseline, each.candidate),
            comparisons=len(found),
            store=store,
            accept=request.accept,
        )
        results.append(replace(each, comparison=comparison))
    return results


def _compare(
    request: CompareRequest,
    names: list[str],
    number: int,
    store: Store,
    config: Config,
    execution: Execution,
) -> Compared:
    """Compare one candidate: as measured, or by measuring what is a file."""
    places = ((0, len(names)), (number, len(names)))
    first, second = (stored_run(names[place], store) for place, _ in places)
    if first is not None and second is not None:
        return compared_runs(first, second, request, store=store)
    if first is None and second is None:
        one, other = (side_in_turn(request, names[p[0]], config, place=p) for p in places)
        return play_sides(Sides.of(one, other), store=store, request=request, execution=execution)
    # The side that is a file is measured as the other one was, then both are compared apart.
    fresh, known = (0, second) if first is None else (1, first)
    assert known is not None
    if request.batch is None:
        request = replace(request, batch=known.record.spec.batch)
    launches, place = request.launches or LAUNCHES, places[fresh]
    spec, python = side_alone(request, names[place[0]], config, place=place, launches=launches)
    run = run_bench(spec, store=store, execution=replace(execution, python=python))
    runs = (run, known) if fresh == 0 else (known, run)
    return compared_runs(*runs, request, store=store)


def play_sides(
    sides: Sides,
    *,
    store: Store,
    request: PairFields,
    execution: Execution,
    play: Callable[[Duet], None] | None = None,
) -> Compared:
    """Measure two sides in turn in the executor; by default, until the answer is clear.

    ``play`` adds launches in this process; another machine measures until the answer is clear.
    """

    def here() -> Compared:
        duet = make_duet(sides, store=store, request=request, execution=execution)
        (play or partial(play_until_clear, request=request))(duet)
        return compared_runs(*duet.keep(), request, mode=duet.mode)

    def away() -> Compared:
        store.open()  # one that cannot be used is said before anything is measured
        mode, own = settle(sides, request)
        runs = _pair_elsewhere(own, replace(request, mode=mode), store, execution)
        return compared_runs(*runs, request, mode=mode)

    return execution.executor.do(here, away)


def _pair_elsewhere(
    sides: Sides, asked: PairFields, store: Store, execution: Execution
) -> tuple[Run, Run]:
    """Have two sides measured in turn on one machine, and store both."""
    files = InputFiles()
    demand_unchanged(sides.candidate.model)
    turns = Turns(
        spec=files.spec(sides.candidate),
        python=sides.pythons[1],
        asked={
            name: getattr(asked, name)
            for name in ("launches", "max_launches", "pairs", "mode", "margin", "seed")
        },
    )
    first_side = replace(execution, python=sides.pythons[0])
    job = job_from_spec(sides.baseline, new_id(), first_side, files)
    gpu = job.needs.gpu or device_of(sides.candidate) != "cpu"
    # A hung launch ends by itself; how many there will be is not known before.
    job = job.having(turns=turns, limit_s=None, needs=job.needs.having(gpu=gpu))

    def keep(source: Path, spec: RunSpec) -> Run:
        record = read_record(source)
        if record.id in store.index.ids():  # its entry would take the other's place
            facts = {"run": record.id}
            raise StoreError("what came back is a run that is here already", facts=facts)
        with store.new_run(record.id) as folder:
            shutil.copytree(source, folder, dirs_exist_ok=True)
            write_record(folder, record.having(spec=spec.having(launches=record.spec.launches)))
        return take_in(store, store.directory(record.id))

    with store.scratch() as folder:
        send(job, folder, execution)
        return keep(folder / "0", sides.baseline), keep(folder / "1", sides.candidate)


def side_alone(
    request: PairFields,
    name: str,
    config: Config,
    *,
    place: tuple[int, int],
    launches: int | None = None,
) -> Side:
    """Settle how one side runs, and its interpreter."""
    runtime = pick(request.runtime, *place, what="-r")
    spec = side_spec(request, name, runtime, config, launches=launches, place=place)
    return spec, interpreter_of(request, spec, config, place=place)


def side_in_turn(request: PairFields, name: str, config: Config, *, place: tuple[int, int]) -> Side:
    """Settle one side; unless the request says otherwise, its warm-up is short and fixed."""
    spec, python = side_alone(request, name, config, place=place)
    if request.warmup is None and request.warmup_iterations is None:
        spec = spec.having(warmup=WARMUP)
    return spec, python


def interpreter_of(
    request: PairFields, spec: RunSpec, config: Config, *, place: tuple[int, int]
) -> str | None:
    """Return the interpreter of a side: its own, or the one for its runtime."""
    return pick(request.python, *place, what="--python") or config.python_for(spec.runtime)


def stored_run(name: str, store: Store) -> Run | None:
    """Read a stored run when the name is one; a file of that name comes first."""
    path = Path(name)
    if is_named(name) or path.is_file() or (path.suffix and not path.is_dir() and "/" in name):
        return None
    if path.suffix and not path.exists():
        return None
    return demand_finished(store.load(name))


def compared_runs(
    baseline: Run,
    candidate: Run,
    request: TurnFields,
    *,
    store: Store | None = None,
    mode: str = "stored runs",
) -> Compared:
    """Judge two runs as a request says."""
    return Compared(
        baseline=baseline,
        candidate=candidate,
        comparison=comparison_from_runs(
            baseline, candidate, margin=request.margin_part, accept=request.accept, store=store
        ),
        mode=mode,
        interference=interference(baseline, candidate),
    )


def comparison_from_runs(
    baseline: Run,
    candidate: Run,
    *,
    margin: float = MARGIN,
    accept: Collection[str] = (),
    store: Store | None = None,
) -> Comparison:
    """Judge two stored runs: as a duet when they were measured in turn, else as measured apart.

    A store may remember how far such runs lie apart by themselves.
    """
    design = paired(baseline, candidate)
    if design is None:
        records = (baseline.record, candidate.record)
        drift = drift_remembered(store, *records) if store is not None else None
        comparison = compare_apart(baseline, candidate, drift=drift, accept=accept, margin=margin)
        return with_findings(comparison, baseline, candidate, accept)
    found = differences(baseline.record, candidate.record, accept=accept)
    headline = metric_of_both(baseline.times, candidate.times, found)
    refused = refused_headline(baseline.times, candidate.times, found, design=design)
    if refused is not None and refused.metric == headline:
        comparison = Comparison(
            baseline=baseline.id, candidate=candidate.id, design=design, verdicts=(refused,)
        )
        return with_findings(comparison, baseline, candidate, accept)
    comparison = duet_comparison(
        pairs_of(baseline, candidate, headline),
        baseline=baseline.id,
        candidate=candidate.id,
        metric=headline,
        design=design,
        margin=margin,
    )
    head, *further = comparison.verdicts
    further += [
        verdict_from_effects(
            [pair_effect(a, b, design=design) for a, b in pairs_of(baseline, candidate, name)],
            metric=name,
            design=design,
            margin=margin,
        )
        for name in shared_columns(baseline.times, candidate.times)
        if name != headline
        and blocking_reasons(found, metric=name) is None
        and too_coarse(name, baseline, candidate) is None
    ]
    launches = (baseline.record.launches, candidate.record.launches)
    if any(each.metric == GPU for each in further):
        # GPU time is judged by bursts where there were any, and comes first.
        singly = [pair_effect(a, b, design="bursts") for a, b in pairs_of(baseline, candidate, GPU)]
        bursts = burst_verdict(*launches, singly=singly, margin=margin)
        if bursts is not None:
            further = [bursts, *(each for each in further if each.metric != GPU)]
    if refused is not None:
        further = [refused, *further]
    comparison = comparison.having(verdicts=(head, *further))
    if headline == baseline.times.headline:  # alone, the caller's times were taken
        comparison = hold_to_alone(comparison, alone_effects(*launches), margin=margin)
    return with_findings(comparison, baseline, candidate, accept)


def compare_csv(baseline: Run, candidate: Run) -> str:
    """Return the table that the trtexec evaluation toolkit wrote."""
    rows = comparison_rows(baseline, candidate)
    return csv_from_lines(COMPARISON_HEADER, (row.cells() for row in rows))


def write_comparison(compared: Compared, path: Path) -> Path:
    """Write the table, and beside it the comparison with all its verdicts as JSON."""
    write_output(path, compare_csv(compared.baseline, compared.candidate))
    write_output(path.with_suffix(".json"), json_from_value(compared.comparison))
    return path


def csv_name(*models: str) -> str:
    """Join the stems of two models, unsafe characters replaced; a file system takes 255 bytes."""
    safe = (_UNSAFE.sub("_", Path(name).stem).encode()[:MOST_STEM_BYTES] for name in models)
    return "_vs_".join(stem.decode(errors="ignore") for stem in safe) + ".csv"


def drift_remembered(store: Store, *records: RunRecord) -> Drift | None:
    """Find the larger drift of two models, where enough sessions of either are on record."""
    known = []
    for record in records:
        own = entry_from_record(record, path="")
        if own.sha256 is None:
            continue
        found = store.index.find(model=own.model, runtime=own.runtime, kind="run")
        sessions: list[list[float]] = []  # one number each, however often it was measured in one
        last = -math.inf
        medians = [
            (at, each.median_s)
            for each in found
            if all(getattr(each, key) == getattr(own, key) for key in ALIKE)
            if each.median_s is not None and (at := instant_from_text(each.created)) is not None
        ]
        for at, median_s in sorted(medians):
            if at - last > SESSION_S:
                sessions.append([])
            sessions[-1].append(median_s)
            last = at
        drift = drift_from_history([float(np.median(each)) for each in sessions])
        known += [drift] if drift is not None else []
    return max(known, key=lambda drift: drift.bound, default=None)


def with_findings(
    comparison: Comparison, baseline: Run, candidate: Run, accept: Collection[str]
) -> Comparison:
    """Add the findings of the rules about a pair."""
    parts = interference(baseline, candidate)
    moved = dict(zip(("baseline", "candidate"), parts, strict=True)) if parts else {}
    how = baseline.record.conditions.get("interleaved")
    clocks = _clock(baseline.record), _clock(candidate.record)
    comparison, in_time, in_cycles = _by_clocks(comparison, clocks)
    pair = PairFacts(
        baseline=baseline.record,
        candidate=candidate.record,
        comparison=comparison,
        baseline_clock_hz=clocks[0],
        candidate_clock_hz=clocks[1],
        in_time=in_time,
        in_cycles=in_cycles,
        accept=tuple(accept),
        interference={side: 1 + part for side, part in moved.items()},
        one_process=how is not None and how.value == "one process",
        position_effects=_position_effects(baseline, candidate),
    )
    return comparison.having(findings=findings_from_evidence(Evidence(pair=pair)))


def _clock(record: RunRecord) -> float | None:
    """Return the SM clock while it was measured: after bursts, else at both ends."""
    ends = [record.facts.get(f"sm_clock_{end}_hz") for end in ("before", "after")]
    bursts = [each.burst_clock_hz for each in record.launches if each.burst_clock_hz]
    known = bursts or [float(each) for each in ends if isinstance(each, (int, float)) and each]
    return sum(known) / len(known) if known else None


def _by_clocks(
    comparison: Comparison, clocks: tuple[float | None, float | None]
) -> tuple[Comparison, VerdictKind | None, VerdictKind | None]:
    """Withdraw a verdict on GPU time that is one on clocks; returns it in time and in cycles."""
    one, other = clocks
    gpu = next((each for each in comparison.verdicts if each.metric == "gpu"), None)
    if not one or not other or gpu is None:
        return comparison, None, None
    ratio = other / one
    seen = gpu.having(clock_ratio=ratio)
    differ = abs(ratio - 1) > CLOCK_TOLERANCE
    judged = confirm_in_cycles(seen, clock_ratio=ratio) if differ else seen
    verdicts = tuple(judged if each is gpu else each for each in comparison.verdicts)
    comparison = comparison.having(verdicts=verdicts)
    if judged is seen:
        return comparison, None, None
    return comparison, seen.kind, kind_in_cycles(seen, clock_ratio=ratio)


def _position_effects(baseline: Run, candidate: Run) -> tuple[float, ...]:
    """Compute per launch, ln of the time in second over first place of a pair, over both sides."""
    found: list[list[float]] = []
    for run in (baseline, candidate):
        effects: list[float] = []
        second, host, launch = run.times.stamps.get("second"), run.times.host, run.times.launch
        if second is not None and host is not None and launch is not None:
            for number in np.unique(launch):
                logs, late = np.log(host[launch == number]), second[launch == number] > 0
                if late.any() and not late.all():
                    effects.append(float(np.median(logs[late]) - np.median(logs[~late])))
        found.append(effects)
    return tuple(sum(both) / 2 for both in zip(*found, strict=False))


def further_findings(
    comparison: Comparison,
    sides: tuple[Run, Run],
    *,
    comparisons: int,
    store: Store,
    accept: Collection[str],
) -> Comparison:
    """Add what only shows beside the pair: other comparisons, and accuracies that were taken."""
    first, second = (run.record for run in sides)
    pair = PairFacts(
        baseline=first, candidate=second, comparisons=comparisons, accept=tuple(accept)
    )
    kept = (known_scores(run, store) for run in sides)
    known = [scores.by_metric() if scores else {} for scores in kept]
    found = [
        finding
        for lost in _accuracy_lost(*known)
        for finding in findings_from_evidence(Evidence(pair=pair, lost=lost))
        if finding not in comparison.findings
    ]
    unique = {(finding.code, finding.message): finding for finding in found}
    return comparison.having(findings=(*comparison.findings, *unique.values()))


def _accuracy_lost(
    baseline: Mapping[str, Score], candidate: Mapping[str, Score]
) -> list[tuple[str, float, float]]:
    """Compare the scores that both sides have; the widths of two intervals add as squares do.

    The first one stands for none at all.
    """
    lost = [("", 0.0, 0.0)]
    for metric, before in baseline.items():
        after = candidate.get(metric)
        if after is None or before.interval is None or after.interval is None:
            continue
        better = (after.declared.better, before.declared.better)
        if better == (None, None):
            continue
        drop = before.value - after.value if "high" in better else after.value - before.value
        intervals = (before.interval, after.interval)
        half = math.hypot(*((each.high - each.low) / 2 for each in intervals))
        lost.append((metric, drop - half, drop + half))
    return lost
