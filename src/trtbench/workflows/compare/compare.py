"""Compare models, engines and stored runs, with a verdict that knows how sure it is."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from trtbench.analysis.bursts import burst_verdict
from trtbench.analysis.comparability import blocking_reasons, differences
from trtbench.analysis.deltas import COMPARISON_HEADER, comparison_rows
from trtbench.analysis.shared_metrics import GPU, metric_of_both, refused_headline, shared_columns
from trtbench.analysis.stored_comparison import Drift, compare_apart, drift_from_history, too_coarse
from trtbench.analysis.turns import alone_effects, hold_to_alone, interference
from trtbench.analysis.verdict import (
    MARGIN,
    correct_for_many,
    duet_comparison,
    pair_effect,
    verdict_from_effects,
)
from trtbench.domain.codec import json_from_value
from trtbench.domain.comparison import Comparison, Verdict
from trtbench.domain.result import Run, RunRecord
from trtbench.domain.spec import RunSpec
from trtbench.errors import UsageError
from trtbench.host.files import write_output
from trtbench.models.torch_models import is_named
from trtbench.report.csv_lines import csv_from_lines
from trtbench.store.directory import demand_finished
from trtbench.store.entries import Entry, entry_from_record
from trtbench.store.store import Store
from trtbench.units import instant_from_text
from trtbench.workflows.compare.duet import Duet
from trtbench.workflows.compare.findings import further_findings, with_findings
from trtbench.workflows.compare.sides import WARMUP, Sides, paired, pairs_of
from trtbench.workflows.compare.until_clear import make_duet, play_until_clear, settle
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.request.comparing import LAUNCHES, CompareRequest, PairFields, TurnFields
from trtbench.workflows.request.conduct import Conduct, is_elsewhere
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.spec import pick, side_spec

MOST_STEM_BYTES = 100

_UNSAFE = re.compile(r"[^\w.-]+")


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A comparison with the runs it rests on."""

    baseline: Run
    candidate: Run
    comparison: Comparison
    mode: str = "stored runs"

    @property
    def interference(self) -> tuple[float, float] | None:
        """How much slower each side was in turns than alone."""
        return interference(self.baseline, self.candidate)


def compare(
    request: CompareRequest, *, store: Store, config: Config, conduct: Conduct | None = None
) -> list[Compared]:
    """Compare each candidate with the baseline; many candidates are corrected for.

    A model that is compared with itself shows what is the machine's.
    """
    candidates = [str(each) for each in request.candidates]
    if request.selftest and candidates:
        raise UsageError(
            "--selftest takes one model", fix=f"trtbench compare --selftest {request.baseline}"
        )
    if request.selftest:
        candidates = [str(request.baseline)]
    if not candidates:
        raise UsageError(
            "a comparison needs a candidate", fix="trtbench compare BASELINE CANDIDATE"
        )
    config = config.elsewhere() if is_elsewhere(request) else config
    pairing = _Pairing(request, store, config, conduct or Conduct(), len(candidates) + 1)
    found = _corrected([pairing.compare(each, n) for n, each in enumerate(candidates, start=1)])
    further = partial(further_findings, comparisons=len(found), store=store, accept=request.accept)
    return [
        replace(each, comparison=further(each.comparison, (each.baseline, each.candidate)))
        for each in found
    ]


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
    pairs = pairs_of(baseline, candidate, headline)
    comparison = duet_comparison(
        pairs,
        baseline=baseline.id,
        candidate=candidate.id,
        metric=headline,
        design=design,
        margin=margin,
    )
    further = tuple(
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
    )
    head, *others = comparison.verdicts
    further = (*others, *further)
    if any(each.metric == GPU for each in further):
        further = _with_bursts(further, baseline, candidate, margin=margin)
    if refused is not None:
        further = (refused, *further)
    comparison = comparison.having(verdicts=(head, *further))
    if headline == baseline.times.headline:  # alone, the caller's times were taken
        alone = alone_effects(baseline.record.launches, candidate.record.launches)
        comparison = hold_to_alone(comparison, alone, margin=margin)
    return with_findings(comparison, baseline, candidate, accept)


def _with_bursts(
    verdicts: Sequence[Verdict], baseline: Run, candidate: Run, *, margin: float
) -> tuple[Verdict, ...]:
    """Judge GPU time by bursts where there were any, and put it first."""
    singly = [pair_effect(a, b, design="bursts") for a, b in pairs_of(baseline, candidate, GPU)]
    launches = (baseline.record.launches, candidate.record.launches)
    found = burst_verdict(*launches, singly=singly, margin=margin)
    if found is None:
        return tuple(verdicts)
    return (found, *(each for each in verdicts if each.metric != GPU))


def compare_csv(baseline: Run, candidate: Run) -> str:
    """Make the table that the trtexec evaluation toolkit wrote."""
    rows = comparison_rows(baseline, candidate)
    return csv_from_lines(COMPARISON_HEADER, (row.cells() for row in rows))


def write_comparison(compared: Compared, table: str, path: Path) -> Path:
    """Write the table, and beside it the comparison with all its verdicts as JSON."""
    write_output(path, table)
    write_output(path.with_suffix(".json"), json_from_value(compared.comparison))
    return path


def csv_name(baseline: Run, candidate: Run) -> str:
    """Name the table of two runs."""
    return csv_name_of(*(run.record.spec.model.name for run in (baseline, candidate)))


def csv_name_of(*models: str) -> str:
    """Join both stems, unsafe characters replaced; a file system takes 255 bytes."""
    safe = (_UNSAFE.sub("_", Path(name).stem).encode()[:MOST_STEM_BYTES] for name in models)
    return "_vs_".join(stem.decode(errors="ignore") for stem in safe) + ".csv"


@dataclass(frozen=True)
class _Pairing:
    """Holds candidates against one baseline, one after the other."""

    request: CompareRequest
    store: Store
    config: Config
    conduct: Conduct
    sides: int

    def compare(self, candidate: str, number: int) -> Compared:
        """Compare one candidate: as measured, or by measuring what is a file."""
        names = (str(self.request.baseline), candidate)
        stored = [stored_run(name, self.store) for name in names]
        if stored[0] is not None and stored[1] is not None:
            return _stored_comparison(stored[0], stored[1], self.request, self.store)
        places = (0, number)
        runtimes = [pick(self.request.runtime, k, self.sides, what="-r") for k in places]
        pythons = [pick(self.request.python, k, self.sides, what="--python") for k in places]
        if stored[0] is not None or stored[1] is not None:
            return self._against_stored(names, stored, runtimes, pythons, places)
        specs = [
            duet_spec(self.request, name, runtime, config=self.config, place=(k, self.sides))
            for name, runtime, k in zip(names, runtimes, places, strict=True)
        ]
        first, second = (
            python or self.config.python_for(spec.runtime)
            for python, spec in zip(pythons, specs, strict=True)
        )
        sides = Sides(baseline=specs[0], candidate=specs[1], pythons=(first, second))
        return play_sides(sides, store=self.store, request=self.request, conduct=self.conduct)

    def _against_stored(
        self,
        names: tuple[str, str],
        stored: list[Run | None],
        runtimes: list[str | None],
        pythons: list[str | None],
        places: tuple[int, int],
    ) -> Compared:
        """Measure the side that is a file as the other one was, then compare runs apart."""
        fresh = 0 if stored[0] is None else 1
        known = stored[1 - fresh]
        assert known is not None
        request = self.request
        if request.batch is None:
            request = replace(request, batch=known.record.spec.batch)
        spec = side_spec(
            request,
            names[fresh],
            runtimes[fresh],
            self.config,
            launches=request.launches or LAUNCHES,
            place=(places[fresh], self.sides),
        )
        python = pythons[fresh] or self.config.python_for(spec.runtime)
        run = run_bench(spec, store=self.store, conduct=replace(self.conduct, python=python))
        runs = (run, known) if fresh == 0 else (known, run)
        return _stored_comparison(runs[0], runs[1], request, self.store)


def play_sides(sides: Sides, *, store: Store, request: PairFields, conduct: Conduct) -> Compared:
    """Measure two sides in turn until the answer is clear, here or where an executor says."""
    if conduct.executor is None:
        duet = make_duet(sides, store=store, request=request, conduct=conduct)
        play_until_clear(duet, request)
        return compared_from_duet(duet, request)
    from trtbench.workflows.compare.remote import pair_elsewhere

    mode, sides = settle(sides, request)
    asked = replace(request, mode=mode)
    first, second = pair_elsewhere(sides, store=store, asked=asked, conduct=conduct)
    comparison = comparison_from_runs(
        first, second, margin=request.margin_part, accept=request.accept
    )
    return Compared(baseline=first, candidate=second, comparison=comparison, mode=mode)


def compared_from_duet(duet: Duet, request: TurnFields) -> Compared:
    """Keep both sides as runs and judge them."""
    first, second = duet.keep()
    comparison = comparison_from_runs(
        first, second, margin=request.margin_part, accept=request.accept
    )
    return Compared(baseline=first, candidate=second, comparison=comparison, mode=duet.mode)


def duet_spec(
    request: PairFields, name: str, runtime: str | None, *, config: Config, place: tuple[int, int]
) -> RunSpec:
    """Settle one side; without a word about warm-up it is short and fixed."""
    spec = side_spec(request, name, runtime, config, place=place)
    if request.warmup is None and request.warmup_iterations is None:
        spec = spec.having(warmup=WARMUP)
    return spec


def _stored_comparison(
    baseline: Run, candidate: Run, request: TurnFields, store: Store
) -> Compared:
    comparison = comparison_from_runs(
        baseline, candidate, margin=request.margin_part, accept=request.accept, store=store
    )
    return Compared(baseline=baseline, candidate=candidate, comparison=comparison)


def stored_run(name: str, store: Store) -> Run | None:
    """Read a stored run when the name is one; a file of that name comes first."""
    path = Path(name)
    if is_named(name) or path.is_file() or (path.suffix and not path.is_dir() and "/" in name):
        return None
    if path.suffix and not path.exists():
        return None
    return demand_finished(store.load(name))


def _corrected(found: list[Compared]) -> list[Compared]:
    """Hold every candidate's headline to the stricter bar that several comparisons need."""
    if len(found) < 2:
        return found
    heads = correct_for_many([each.comparison.verdicts[0] for each in found])
    return [
        Compared(
            baseline=each.baseline,
            candidate=each.candidate,
            comparison=each.comparison.having(verdicts=(head, *each.comparison.verdicts[1:])),
            mode=each.mode,
        )
        for each, head in zip(found, heads, strict=True)
    ]


SESSION_S = 1800.0
"""Runs nearer than this to the one before belong to one session: they met the same machine."""
ALIKE = ("sha256", "runtime", "precision", "batch", "protocol", "host", "gpu", "provenance")


def drift_remembered(store: Store, *records: RunRecord) -> Drift | None:
    """Find the larger drift of two things, where enough sessions of either are on record."""
    known = [drift for record in records if (drift := _of(record, store)) is not None]
    return max(known, key=lambda drift: drift.bound, default=None)


def _of(record: RunRecord, store: Store) -> Drift | None:
    own = entry_from_record(record, path="")
    if own.sha256 is None:
        return None
    found = store.index.find(model=own.model, runtime=own.runtime, kind="run")
    alike = [each for each in found if all(getattr(each, k) == getattr(own, k) for k in ALIKE)]
    return drift_from_history(_session_medians(alike))


def _session_medians(entries: list[Entry]) -> list[float]:
    """Compute one number per session, however often it was measured within one."""
    sessions: list[list[float]] = []
    last = -math.inf
    known = [
        (at, entry.median_s)
        for entry in entries
        if entry.median_s is not None and (at := instant_from_text(entry.created)) is not None
    ]
    for at, median_s in sorted(known):
        if at - last > SESSION_S:
            sessions.append([])
        sessions[-1].append(median_s)
        last = at
    return [float(np.median(each)) for each in sessions]
