"""Compare models, engines and stored runs, with a verdict that knows how sure it is."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from trtbench.analysis import stored_comparison as stored
from trtbench.analysis import verdict as judge
from trtbench.analysis.comparability import CLOCK_TOLERANCE, blocking_reasons, differences
from trtbench.analysis.findings import findings_from_evidence
from trtbench.analysis.findings.evidence import Evidence, PairFacts
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
from trtbench.core.run import Run, RunRecord
from trtbench.core.safety import file_name_from_text
from trtbench.core.spec import RunSpec
from trtbench.core.units import instant_from_text
from trtbench.executors.contract import Turns
from trtbench.host.files import write_output
from trtbench.measure.bench import add_returned_run, run_bench
from trtbench.measure.remote import InputFiles, job_from_spec, send_job
from trtbench.models.identity import demand_unchanged
from trtbench.models.torch_models import is_named
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.requests.execution import Execution
from trtbench.requests.measure import LAUNCHES, CompareRequest, PairFields, TurnFields
from trtbench.requests.run_spec import side_spec, value_of_side
from trtbench.requests.settings import Config
from trtbench.runtimes import device_of
from trtbench.store import directory
from trtbench.store.store import Store, stored_scores

SESSION_S = 1800.0  # runs that are closer together belong to one session
ALIKE = ("sha256", "runtime", "precision", "batch", "protocol", "host", "gpu", "provenance")


def compare(
    request: CompareRequest, *, store: Store, config: Config, execution: Execution | None = None
) -> list[Compared]:
    """Compare each candidate with the baseline; many candidates are corrected for."""
    execution = execution or Execution()
    names = request.models
    if len(names) < 2:
        fix = "trtbench compare BASELINE CANDIDATE"
        raise UsageError("a comparison needs a candidate", fix=fix)
    settings = execution.settings(config)

    def compare_one(number: int) -> Compared:
        places = ((0, len(names)), (number, len(names)))
        first, second = (stored_run(names[place], store) for place, _ in places)
        if first is not None and second is not None:
            return compared_runs(first, second, request, store=store)
        if first is None and second is None:
            one, other = (side_in_turn(request, names[p[0]], settings, place=p) for p in places)
            sides = Sides.of(one, other)
            return play_sides(sides, store=store, request=request, execution=execution)
        # The side that is a file is measured as the other one was, then both are compared apart.
        fresh, known = (0, second) if first is None else (1, first)
        assert known is not None
        batch = known.record.spec.batch if request.batch is None else request.batch
        own, (place, _) = replace(request, batch=batch), places[fresh]
        launches = request.launches or LAUNCHES
        spec, python = side_alone(
            own, names[place], settings, place=places[fresh], launches=launches
        )
        run = run_bench(spec, store=store, execution=replace(execution, python=python))
        return compared_runs(*((run, known) if fresh == 0 else (known, run)), own, store=store)

    found = [compare_one(number) for number in range(1, len(names))]
    heads = [each.comparison.verdicts[0] for each in found]
    if len(found) > 1:  # every headline is held to the stricter bar that several need
        heads = judge.correct_for_many(heads)
    results = []
    for each, head in zip(found, heads, strict=True):
        comparison = each.comparison.having(verdicts=(head, *each.comparison.verdicts[1:]))
        sides, count = (each.baseline, each.candidate), len(found)
        comparison = further_findings(
            comparison, sides, comparisons=count, store=store, accept=request.accept
        )
        results.append(replace(each, comparison=comparison))
    return results


def play_sides(
    sides: Sides,
    *,
    store: Store,
    request: PairFields,
    execution: Execution,
    play: Callable[[Duet], None] | None = None,
) -> Compared:
    """Measure two sides in turn where the executor says; ``play`` adds launches here."""

    def here() -> Compared:
        duet = make_duet(sides, store=store, request=request, execution=execution)
        (play or partial(play_until_clear, request=request))(duet)
        return compared_runs(*duet.keep(), request, mode=duet.mode)

    def keep(source: Path, spec: RunSpec) -> Run:
        record = directory.read_record(source)
        if record.id in store.index.ids():  # its entry would take the other's place
            facts = {"run": record.id}
            raise StoreError("what came back is a run that is here already", facts=facts)
        with store.new_run(record.id) as folder:
            shutil.copytree(source, folder, dirs_exist_ok=True)
            own = spec.having(launches=record.spec.launches)
            directory.write_record(folder, record.having(spec=own))
        return add_returned_run(store, store.directory(record.id))

    def away() -> Compared:
        """Have both sides measured on one other machine, and store both."""
        store.open()  # a store that cannot be used is refused before anything is measured
        mode, own = settle(sides, request)
        files = InputFiles()
        demand_unchanged(own.candidate.model)
        fields = ("launches", "max_launches", "pairs", "margin", "seed")
        asked = {"mode": mode, **{name: getattr(request, name) for name in fields}}
        spec = files.add_spec(own.candidate)
        first_side = replace(execution, python=own.pythons[0])
        job = job_from_spec(own.baseline, directory.new_id(), first_side, files)
        # A hung launch ends by itself; how many there will be is not known before.
        job = job.having(
            turns=Turns(spec=spec, python=own.pythons[1], asked=asked),
            limit_s=None,
            needs=job.needs.having(gpu=job.needs.gpu or device_of(own.candidate) != "cpu"),
        )
        with store.scratch() as folder:
            send_job(job, folder, execution)
            runs = keep(folder / "0", own.baseline), keep(folder / "1", own.candidate)
        return compared_runs(*runs, request, mode=mode)

    return execution.executor.do(here, away)


def side_alone(
    request: PairFields,
    name: str,
    config: Config,
    *,
    place: tuple[int, int],
    launches: int | None = None,
) -> Side:
    runtime = value_of_side(request.runtime, *place, what="-r")
    spec = side_spec(request, name, runtime, config, launches=launches, place=place)
    return spec, interpreter_of(request, spec, config, place=place)


def side_in_turn(request: PairFields, name: str, config: Config, *, place: tuple[int, int]) -> Side:
    """One side with a short, fixed warm-up, unless the request has another."""
    spec, python = side_alone(request, name, config, place=place)
    if request.warmup is None and request.warmup_iterations is None:
        spec = spec.having(warmup=WARMUP)
    return spec, python


def interpreter_of(
    request: PairFields, spec: RunSpec, config: Config, *, place: tuple[int, int]
) -> str | None:
    return value_of_side(request.python, *place, what="--python") or config.python_for(spec.runtime)


def stored_run(name: str, store: Store) -> Run | None:
    """Read a stored run when the name is one; a file of that name comes first."""
    path = Path(name)
    absent = not path.exists() or ("/" in name and not path.is_dir())
    if is_named(name) or path.is_file() or (path.suffix and absent):
        return None
    return directory.demand_finished(store.load(name))


def compared_runs(
    baseline: Run,
    candidate: Run,
    request: TurnFields,
    *,
    store: Store | None = None,
    mode: str = "stored runs",
) -> Compared:
    """Judge two runs as a request says."""
    comparison = comparison_from_runs(
        baseline, candidate, margin=request.margin_part, accept=request.accept, store=store
    )
    moved = judge.interference(baseline, candidate)
    return Compared(
        baseline=baseline, candidate=candidate, comparison=comparison, mode=mode, interference=moved
    )


def comparison_from_runs(
    baseline: Run,
    candidate: Run,
    *,
    margin: float = judge.MARGIN,
    accept: Collection[str] = (),
    store: Store | None = None,
) -> Comparison:
    """Judge two stored runs, measured in turn or apart; a store knows how such runs drift."""
    design = paired(baseline, candidate)
    if design is None:
        records = (baseline.record, candidate.record)
        drift = drift_remembered(store, *records) if store is not None else None
        comparison = stored.compare_apart(
            baseline, candidate, drift=drift, accept=accept, margin=margin
        )
        return with_findings(comparison, baseline, candidate, accept)
    found = differences(baseline.record, candidate.record, accept=accept)
    headline = judge.metric_of_both(baseline.times, candidate.times, found)
    refused = judge.refused_headline(baseline.times, candidate.times, found, design=design)
    one, other = baseline.id, candidate.id
    if refused is not None and refused.metric == headline:
        comparison = Comparison(baseline=one, candidate=other, design=design, verdicts=(refused,))
        return with_findings(comparison, baseline, candidate, accept)
    pairs = pairs_of(baseline, candidate, headline)
    comparison = judge.duet_comparison(
        pairs, baseline=one, candidate=other, metric=headline, design=design, margin=margin
    )
    head, *further = comparison.verdicts
    for name in judge.shared_columns(baseline.times, candidate.times):
        coarse = stored.too_coarse(name, baseline, candidate)
        blocked = blocking_reasons(found, metric=name) or coarse
        if name != headline and blocked is None:
            pairs = pairs_of(baseline, candidate, name)
            effects = [judge.pair_effect(a, b, design=design) for a, b in pairs]
            verdict = judge.verdict_from_effects(effects, metric=name, design=design, margin=margin)
            further.append(verdict)
    launches = (baseline.record.launches, candidate.record.launches)
    if any(each.metric == judge.GPU for each in further):
        # GPU time is judged by bursts where there were any, and comes first.
        pairs = pairs_of(baseline, candidate, judge.GPU)
        singly = [judge.pair_effect(a, b, design="bursts") for a, b in pairs]
        bursts = judge.burst_verdict(*launches, singly=singly, margin=margin)
        if bursts is not None:
            further = [bursts, *(each for each in further if each.metric != judge.GPU)]
    denied = () if refused is None else (refused,)
    comparison = comparison.having(verdicts=(head, *denied, *further))
    if headline == baseline.times.headline:  # alone, the caller's times were taken
        comparison = judge.hold_to_alone(comparison, judge.alone_effects(*launches), margin=margin)
    return with_findings(comparison, baseline, candidate, accept)


def compare_csv(baseline: Run, candidate: Run) -> str:
    """Return the table that the trtexec evaluation toolkit wrote."""
    rows = stored.comparison_rows(baseline, candidate)
    return csv_from_lines(stored.COMPARISON_HEADER, (row.cells() for row in rows))


def write_comparison(compared: Compared, path: Path) -> Path:
    """Write the table, and beside it the comparison with all its verdicts as JSON."""
    write_output(path, compare_csv(compared.baseline, compared.candidate))
    write_output(path.with_suffix(".json"), json_from_value(compared.comparison))
    return path


def csv_name(*models: str) -> str:
    """Join the stems of two models."""
    return "_vs_".join(file_name_from_text(Path(name).stem) for name in models) + ".csv"


def drift_remembered(store: Store, *records: RunRecord) -> stored.Drift | None:
    """Find the larger drift of two models, where enough sessions of either are on record."""
    known = []
    for record in records:
        own = directory.entry_from_record(record, path="")
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
        known.append(stored.drift_from_history([float(np.median(each)) for each in sessions]))
    return max(filter(None, known), key=lambda drift: drift.bound, default=None)


def with_findings(
    comparison: Comparison, baseline: Run, candidate: Run, accept: Collection[str]
) -> Comparison:
    """Add the findings of the rules about a pair."""
    parts = judge.interference(baseline, candidate) or ()
    moved = zip(("baseline", "candidate"), parts, strict=False)
    how = baseline.record.conditions.get("interleaved")
    one, other = _clock(baseline.record), _clock(candidate.record)
    gpu = next((each for each in comparison.verdicts if each.metric == "gpu"), None)
    in_time: VerdictKind | None = None
    in_cycles: VerdictKind | None = None
    if one and other and gpu is not None:  # a verdict on clocks is none on GPU time
        ratio = other / one
        seen = judged = gpu.having(clock_ratio=ratio)
        if abs(ratio - 1) > CLOCK_TOLERANCE:
            judged = judge.confirm_in_cycles(seen, clock_ratio=ratio)
        if judged is not seen:
            in_time, in_cycles = seen.kind, judge.kind_in_cycles(seen, clock_ratio=ratio)
        verdicts = tuple(judged if each is gpu else each for each in comparison.verdicts)
        comparison = comparison.having(verdicts=verdicts)
    pair = PairFacts(
        baseline=baseline.record,
        candidate=candidate.record,
        comparison=comparison,
        baseline_clock_hz=one,
        candidate_clock_hz=other,
        in_time=in_time,
        in_cycles=in_cycles,
        accept=tuple(accept),
        interference={side: 1 + part for side, part in moved},
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
    kept = (stored_scores(run, store) for run in sides)
    known, candidate = (scores.by_metric() if scores else {} for scores in kept)
    lost = [("", 0.0, 0.0)]  # the first one stands for none at all
    for metric, before in known.items():
        after = candidate.get(metric)
        if after is None or before.interval is None or after.interval is None:
            continue
        better = (after.declared.better, before.declared.better)
        if better != (None, None):
            drop = before.value - after.value if "high" in better else after.value - before.value
            both = (before.interval, after.interval)  # their widths add as squares do
            half = math.hypot(*((each.high - each.low) / 2 for each in both))
            lost.append((metric, drop - half, drop + half))
    found = [
        finding
        for each in lost
        for finding in findings_from_evidence(Evidence(pair=pair, lost=each))
        if finding not in comparison.findings
    ]
    unique = {(finding.code, finding.message): finding for finding in found}
    return comparison.having(findings=(*comparison.findings, *unique.values()))
