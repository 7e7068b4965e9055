"""Compare models, engines and stored runs; each verdict has a confidence interval."""

import math
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from trtbench.analysis import comparability
from trtbench.analysis import stored_comparison as stored
from trtbench.analysis import verdict as judge
from trtbench.analysis.findings import findings_from_evidence
from trtbench.analysis.findings.evidence import PairFacts
from trtbench.analysis.findings.rules import less_accurate, many_comparisons
from trtbench.compare import turns
from trtbench.convert.steps import with_engines
from trtbench.core.codec import json_from_value
from trtbench.core.errors import IncomparableError, StoreError, UsageError
from trtbench.core.results import Compared, Comparison, VerdictKind
from trtbench.core.run import Run, RunRecord
from trtbench.core.safety import file_name_from_text
from trtbench.core.spec import RunSpec
from trtbench.core.units import instant_from_text
from trtbench.executors.contract import Turns
from trtbench.host.files import write_output
from trtbench.measure.bench import add_returned_run, run_bench
from trtbench.measure.model_facts import planned_inputs
from trtbench.measure.remote import InputFiles, job_from_spec, send_job
from trtbench.models.identity import raise_if_changed
from trtbench.models.torch_models import is_library_model
from trtbench.report.renderers.csv import csv_from_lines
from trtbench.requests.execution import Event, Execution
from trtbench.requests.measure import LAUNCHES, CompareRequest, PairFields
from trtbench.requests.run_spec import side_spec, value_of_side
from trtbench.requests.settings import Config
from trtbench.runtimes import device_of
from trtbench.store import directory
from trtbench.store.store import Store, stored_scores

SESSION_S = 1800.0  # a longer pause between two runs begins a new session
# Runs that agree in these fields are repetitions of one measurement.
SAME_SERIES = ("sha256", "runtime", "precision", "batch", "protocol", "host", "gpu", "provenance")


def compare(
    request: CompareRequest, *, store: Store, config: Config, execution: Execution | None = None
) -> list[Compared]:
    """Compare each candidate with the baseline; verdicts are corrected for several candidates."""
    execution = execution or Execution()
    names = request.models
    if len(names) < 2:
        fix = "trtbench compare BASELINE CANDIDATE"
        raise UsageError("a comparison needs a candidate", fix=fix)
    settings, count = execution.settings(config), len(names)
    asked = Asked(request=request, store=store, config=settings, execution=execution)
    others = range(1, count)
    pairs = [asked.plan_pair((names[0], names[n]), places=((0, count), (n, count))) for n in others]
    for pair in pairs:
        if reason := asked.refused_pair(pair):
            specs = (s.record.spec if isinstance(s, Run) else s[0] for s in pair)
            named = (spec.model.name for spec in specs)
            facts = dict(zip(("baseline", "candidate"), named, strict=True))
            fix = "--shape or --batch for both sides; --accept inputs compares anyway"
            raise IncomparableError(f"not comparable: {reason}", facts=facts, fix=fix)
    found = []
    for number, pair in enumerate(pairs):
        name = f"candidate {number + 1}/{len(pairs)}" if len(pairs) > 1 else ""
        part = execution.part(number / len(pairs), (number + 1) / len(pairs), name=name)
        found.append(replace(asked, execution=part).compare_pair(pair))
    heads = [each.comparison.verdicts[0] for each in found]
    if len(found) > 1:  # several comparisons need a stricter level each
        heads = judge.correct_for_many(heads)
    results = []
    for each, head in zip(found, heads, strict=True):
        comparison = each.comparison.having(verdicts=(head, *each.comparison.verdicts[1:]))
        sides = (each.baseline, each.candidate)
        comparison = with_further_findings(comparison, sides, comparisons=len(found), store=store)
        results.append(replace(each, comparison=comparison))
    return results


Planned = Run | turns.Side  # a stored run, or a model that is going to be measured
Place = tuple[int, int]  # the index of a side, and the number of sides


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What is asked of two sides, and where it is done."""

    request: PairFields
    store: Store
    config: Config
    execution: Execution

    def engines(self, sides: Sequence[turns.Side]) -> list[turns.Side]:
        """Return the sides with engines in place of the ONNX files that have to be built."""
        build, store, config = self.request.build, self.store, self.config
        return with_engines(sides, build, store=store, config=config, execution=self.execution)

    def side_alone(self, name: str, place: Place, launches: int | None = None) -> turns.Side:
        runtime = value_of_side(self.request.runtime, *place, what="-r")
        spec = side_spec(self.request, name, runtime, self.config, launches=launches, place=place)
        return spec, self.interpreter_of(spec, place)

    def side_in_turn(self, name: str, place: Place) -> turns.Side:
        """Return one side with a short, fixed warm-up, unless the request sets another."""
        spec, python = self.side_alone(name, place)
        if self.request.warmup is None and self.request.warmup_iterations is None:
            spec = spec.having(warmup=turns.WARMUP)
        return spec, python

    def interpreter_of(self, spec: RunSpec, place: Place) -> str | None:
        given = value_of_side(self.request.python, *place, what="--python")
        return given or self.config.python_for(spec.runtime)

    def plan_pair(
        self, names: tuple[str, str], *, places: tuple[Place, Place] = ((0, 2), (1, 2))
    ) -> tuple[Planned, Planned]:
        """Load the sides that are stored runs; the others are measured, in turn if both are models.

        Beside a stored run, a model is measured with the batch of that run.
        """
        runs = [stored_run(name, self.store) for name in names]
        known = next((run for run in runs if run is not None), None)
        own = self
        if known is not None and self.request.batch is None:
            own = replace(self, request=self.request.having(batch=known.record.spec.batch))

        def planned(side: int) -> Planned:
            if (run := runs[side]) is not None:
                return run
            if known is None:
                return own.side_in_turn(names[side], places[side])
            return own.side_alone(names[side], places[side], self.request.launches or LAUNCHES)

        return planned(0), planned(1)

    def refused_pair(self, pair: tuple[Planned, Planned]) -> str | None:
        """Return why two sides cannot be compared, as far as it is known before one is measured."""
        if all(isinstance(side, Run) for side in pair):
            return None
        one, other = (x.record.inputs if isinstance(x, Run) else planned_inputs(x[0]) for x in pair)
        return comparability.inputs_reason(one, other, accept=self.request.accept)

    def compare_pair(self, pair: tuple[Planned, Planned]) -> Compared:
        """Measure what is not stored, and compare."""
        first, second = pair
        if not isinstance(first, Run) and not isinstance(second, Run):
            return self.measure_in_turn(turns.Sides.of(*self.engines([first, second])))
        runs = [side if isinstance(side, Run) else self.measure_alone(side) for side in pair]
        return self.compare_runs(runs[0], runs[1])

    def measure_alone(self, side: turns.Side, *, profile: bool = False) -> Run:
        [(spec, python)] = self.engines([side])
        own = replace(self.execution, python=python)
        return run_bench(spec.having(profile=profile), store=self.store, execution=own)

    def compare_runs(self, first: Run, second: Run, mode: str = "stored runs") -> Compared:
        """Compare two runs with the margin and the accepted differences of the request."""
        margin, accept = self.request.margin_part, self.request.accept
        found = comparison_from_runs(first, second, margin=margin, accept=accept, store=self.store)
        moved = judge.interference(first, second)
        return Compared(
            baseline=first, candidate=second, comparison=found, mode=mode, interference=moved
        )

    def measure_in_turn(
        self, sides: turns.Sides, measure: Callable[[turns.Duet], None] | None = None
    ) -> Compared:
        """Measure two sides in turn on the executor's machine; ``measure`` does it here."""
        request, store, execution = self.request, self.store, self.execution

        def measure_here() -> Compared:
            duet = turns.Duet(sides, request, store=store, execution=execution)
            try:
                (measure or turns.measure_until_clear)(duet)
            except (KeyboardInterrupt, StoreError) as problem:
                if not all(duet.launch_facts):
                    raise
                runs = duet.store_runs(interrupted=True)
                kept = " and ".join(run.id for run in runs if run.path is not None)
                text = f"the launches so far are kept: runs {kept}" if kept else ""
                if not isinstance(problem, StoreError):
                    raise KeyboardInterrupt(text) from None
                if text:
                    execution.listen(Event(kind="note", text=text))
                execution.on_unwritten(problem)
                return self.compare_runs(*runs, duet.mode)
            return self.compare_runs(*duet.store_runs(), duet.mode)

        return execution.executor.do(measure_here, partial(self._measure_remotely, sides))

    def _measure_remotely(self, sides: turns.Sides) -> Compared:
        """Measure both sides on another machine, and store both runs."""
        self.store.open()  # fail before measuring if the store cannot be used
        mode, own = turns.resolve_turns(sides, self.request)
        files = InputFiles()
        raise_if_changed(own.candidate.model)
        fields = ("launches", "max_launches", "pairs", "margin", "seed")
        asked = {"mode": mode, **{name: getattr(self.request, name) for name in fields}}
        asked["accept"] = [*self.request.accept]
        spec = files.add_spec(own.candidate)
        first_side = replace(self.execution, python=own.pythons[0])
        job = job_from_spec(own.baseline, directory.new_id(), first_side, files)
        # Every launch has its own timeout; their number is not known in advance.
        job = job.having(
            turns=Turns(spec=spec, python=own.pythons[1], asked=asked),
            limit_s=None,
            needs=job.needs.having(gpu=job.needs.gpu or device_of(own.candidate) != "cpu"),
        )
        with self.store.scratch() as folder:
            send_job(job, folder, self.execution)
            runs = [self._store_run(folder / str(n), spec) for n, spec in enumerate(own.both)]
        return self.compare_runs(runs[0], runs[1], mode)

    def _store_run(self, source: Path, spec: RunSpec) -> Run:
        record = directory.read_record(source)
        if record.id in self.store.index.ids():  # it would replace the other run's entry
            facts = {"run": record.id}
            raise StoreError("the executor returned a run that is already stored", facts=facts)
        with self.store.new_run(record.id) as folder:
            shutil.copytree(source, folder, dirs_exist_ok=True)
            own = spec.having(launches=record.spec.launches)
            directory.write_record(folder, record.having(spec=own))
        return add_returned_run(self.store, self.store.directory(record.id))


def stored_run(name: str, store: Store) -> Run | None:
    """Load the stored run of this name; ``None`` if the name is a file or a model."""
    path = Path(name)
    absent = not path.exists() or ("/" in name and not path.is_dir())
    if is_library_model(name) or path.is_file() or (path.suffix and absent):
        return None
    return directory.demand_finished(store.load(name))


def comparison_from_runs(
    baseline: Run,
    candidate: Run,
    *,
    margin: float = judge.MARGIN,
    accept: Collection[str] = (),
    store: Store | None = None,
) -> Comparison:
    """Compare two runs, measured in turn or apart; the drift of runs apart is read from a store."""
    design = turns.pair_design(baseline, candidate)
    if design is None:
        records = (baseline.record, candidate.record)
        drift = drift_from_store(store, *records) if store is not None else None
        comparison = stored.compare_apart(
            baseline, candidate, drift=drift, accept=accept, margin=margin
        )
        return with_findings(comparison, baseline, candidate, accept)
    found = comparability.differences(baseline.record, candidate.record, accept=accept)
    headline = judge.metric_of_both(baseline.times, candidate.times, found)
    refused = judge.refused_headline(baseline.times, candidate.times, found, design=design)
    one, other = baseline.id, candidate.id
    if refused is not None and refused.metric == headline:
        comparison = Comparison(baseline=one, candidate=other, design=design, verdicts=(refused,))
        return with_findings(comparison, baseline, candidate, accept)
    pairs = turns.paired_columns(baseline, candidate, headline)
    comparison = judge.duet_comparison(
        pairs, baseline=one, candidate=other, metric=headline, design=design, margin=margin
    )
    head, *further = comparison.verdicts
    for name in judge.shared_columns(baseline.times, candidate.times):
        coarse = stored.coarse_reason(name, baseline, candidate)
        blocked = comparability.blocking_reasons(found, metric=name) or coarse
        if name != headline and blocked is None:
            pairs = turns.paired_columns(baseline, candidate, name)
            effects = [judge.pair_effect(a, b, design=design) for a, b in pairs]
            verdict = judge.verdict_from_effects(effects, metric=name, design=design, margin=margin)
            further.append(verdict)
    launches = (baseline.record.launches, candidate.record.launches)
    if any(each.metric == judge.GPU for each in further):
        # GPU time is judged by bursts if there were any, and comes first.
        pairs = turns.paired_columns(baseline, candidate, judge.GPU)
        single_effects = [judge.pair_effect(a, b, design="bursts") for a, b in pairs]
        bursts = judge.burst_verdict(*launches, single_effects=single_effects, margin=margin)
        if bursts is not None:
            further = [bursts, *(each for each in further if each.metric != judge.GPU)]
    denied = () if refused is None else (refused,)
    comparison = comparison.having(verdicts=(head, *denied, *further))
    if headline == baseline.times.headline:  # queries of one side alone only have the host's time
        comparison = judge.check_alone(comparison, judge.alone_effects(*launches), margin=margin)
    return with_findings(comparison, baseline, candidate, accept)


def write_comparison(compared: Compared, path: Path) -> Path:
    """Write the toolkit's table as CSV, and the comparison with all verdicts as JSON beside it."""
    rows = stored.comparison_rows(compared.baseline, compared.candidate)
    write_output(path, csv_from_lines(stored.COMPARISON_HEADER, (row.cells() for row in rows)))
    write_output(path.with_suffix(".json"), json_from_value(compared.comparison))
    return path


def csv_name(*models: str) -> str:
    """Return the name of a CSV file, from the stems of two models."""
    return "_vs_".join(file_name_from_text(Path(name).stem) for name in models) + ".csv"


def drift_from_store(store: Store, *records: RunRecord) -> stored.Drift | None:
    """Return the larger drift of two models; ``None`` if the store has too few sessions."""
    known = []
    for record in records:
        own = directory.entry_from_record(record, path="")
        if own.sha256 is None:
            continue
        found = store.index.find(model=own.model, runtime=own.runtime, kind="run")
        sessions: list[list[float]] = []  # median times by session
        last = -math.inf
        medians = [
            (at, each.median_s)
            for each in found
            if all(getattr(each, key) == getattr(own, key) for key in SAME_SERIES)
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
    parts = judge.interference(baseline, candidate) or ()
    moved = zip(("baseline", "candidate"), parts, strict=False)
    how = baseline.record.conditions.get("interleaved")
    one, other = _clock(baseline.record), _clock(candidate.record)
    gpu = next((each for each in comparison.verdicts if each.metric == "gpu"), None)
    in_time: VerdictKind | None = None
    in_cycles: VerdictKind | None = None
    if one and other and gpu is not None:  # a difference in clocks is not one of the engines
        seen = judged = gpu.having(clock_ratio=other / one)
        if abs(other / one - 1) > comparability.CLOCK_TOLERANCE:
            judged = judge.confirm_in_cycles(seen)
        if judged is not seen and (cycles := judge.in_cycles(seen)):
            in_time, in_cycles = seen.kind, cycles.kind
        verdicts = tuple(judged if each is gpu else each for each in comparison.verdicts)
        comparison = comparison.having(verdicts=verdicts)
    pair = PairFacts(
        baseline=baseline.record, candidate=candidate.record, comparison=comparison,
        baseline_clock_hz=one, candidate_clock_hz=other, in_time=in_time, in_cycles=in_cycles,
        accept=tuple(accept), interference={side: 1 + part for side, part in moved},
        one_process=how is not None and how.value == "one process",
        position_effects=_position_effects(baseline, candidate),
    )  # fmt: skip
    return comparison.having(findings=findings_from_evidence(pair))


def _clock(record: RunRecord) -> float | None:
    """Return the mean SM clock of a run: after bursts, else before and after the run."""
    ends = [record.facts.get(f"sm_clock_{end}_hz") for end in ("before", "after")]
    bursts = [each.burst_clock_hz for each in record.launches if each.burst_clock_hz]
    known = bursts or [float(each) for each in ends if isinstance(each, (int, float)) and each]
    return sum(known) / len(known) if known else None


def _position_effects(baseline: Run, candidate: Run) -> tuple[float, ...]:
    """Return per launch ln(time when run second / time when run first), averaged over sides."""
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


def with_further_findings(
    comparison: Comparison, sides: tuple[Run, Run], *, comparisons: int, store: Store
) -> Comparison:
    """Add findings about the number of comparisons and about accuracy that was lost."""
    kept = (stored_scores(run, store) for run in sides)
    known, candidate = (scores.by_metric() if scores else {} for scores in kept)
    found = [*comparison.findings, *many_comparisons.findings(comparisons)]
    for metric, before in known.items():
        after = candidate.get(metric)
        if after is None or before.interval is None or after.interval is None:
            continue
        better = (after.declared.better, before.declared.better)
        if better != (None, None):
            drop = before.value - after.value if "high" in better else after.value - before.value
            both = (before.interval, after.interval)  # half-widths add in quadrature
            half = math.hypot(*((each.high - each.low) / 2 for each in both))
            found += less_accurate.findings(metric, drop - half, drop + half)
    return comparison.having(findings=tuple(found))
