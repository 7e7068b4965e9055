"""Measure several models launch by launch in rounds, so that whatever drifts hits all alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from trtbench.analysis.findings import findings_from_run
from trtbench.domain.job import BenchJob, BenchOutcome
from trtbench.domain.result import DuetRef, Environment, Run, Scalar
from trtbench.domain.samples import join_launches
from trtbench.domain.spec import RunSpec
from trtbench.host.contention import counters_between, read_counters
from trtbench.models.identity import demand_unchanged
from trtbench.store.directory import new_id, read_samples, write_record, write_samples
from trtbench.store.store import Store
from trtbench.workflows.measure.failure import end_with_same_bytes, fail_job
from trtbench.workflows.measure.job import carry_out_job, environment_of, read_outcome
from trtbench.workflows.measure.launches import Launch, hold_device, record_from_launches
from trtbench.workflows.measure.run_files import write_run_files
from trtbench.workflows.measure.watch import Watch
from trtbench.workflows.request.cached import cached_from_run
from trtbench.workflows.request.conduct import PATIENCE_S, Conduct, expected_s
from trtbench.workflows.request.progress import Event


def measure_in_rounds(
    sides: Sequence[tuple[RunSpec, str | None]], *, rounds: int, store: Store, conduct: Conduct
) -> list[Run]:
    """Launch every side once a round, there and back; each is kept as one run of all its launches.

    A side is a spec and the interpreter it runs in. One that fails ends it all: the others would
    be compared with nothing.
    """
    environment = environment_of(conduct)
    launches: list[list[Launch]] = [[] for _ in sides]
    before = read_counters()
    for number in range(rounds):
        places = list(range(len(sides)))
        for turn, place in enumerate(places if number % 2 == 0 else reversed(places)):
            spec, python = sides[place]
            text = f"round {number + 1}/{rounds}: measuring {spec.model.name}"
            done = (number + turn / len(sides)) / rounds
            conduct.listen(Event(kind="stage", text=text, done=done))
            here = replace(conduct, python=python or conduct.python)
            launches[place].append(_launch(spec, number, environment, store=store, conduct=here))
    contention = counters_between(before, read_counters())
    return [
        keep_run(spec, mine, environment, contention, store=store, conduct=conduct)
        for (spec, _), mine in zip(sides, launches, strict=True)
    ]


def _launch(
    spec: RunSpec, number: int, environment: Environment, *, store: Store, conduct: Conduct
) -> Launch:
    with hold_device(spec, conduct), store.scratch() as folder:
        demand_unchanged(spec.model)
        end = carry_out_job(
            BenchJob(spec=spec, launch=number),
            folder=folder,
            conduct=conduct,
            patience_s=expected_s(spec) + PATIENCE_S,
            python=conduct.python,
        )
        end = end_with_same_bytes(end, spec.model)
        if not end.ok:
            log = folder / "log.txt"
            fail_job(end, spec, environment, store=store, conduct=conduct, log=log)
        return Launch(outcome=read_outcome(folder, BenchOutcome), times=read_samples(folder))


def keep_run(
    spec: RunSpec,
    launches: list[Launch],
    environment: Environment,
    contention: dict[str, Scalar],
    *,
    store: Store,
    conduct: Conduct,
    duet: DuetRef | None = None,
    watch: Watch | None = None,
) -> Run:
    """Store what launches of one side left as an ordinary run."""
    run_id = new_id()
    spec = spec.having(launches=len(launches))
    record = record_from_launches(spec, run_id, environment, contention, conduct, launches)
    record = record.having(duet=duet)
    record = record if watch is None else watch.noted(record)
    times = join_launches([each.times for each in launches])
    findings = findings_from_run(Run(record=record, times=times))
    run = Run(record=record.having(findings=findings), times=times)
    with store.new_run(run_id) as folder:
        write_samples(folder, times)
        write_run_files(run, folder)
        write_record(folder, run.record)
    target = store.directory(run_id)
    store.add(run.record, path=target, cached=cached_from_run(run))
    return replace(run, path=target)
