"""What the launches of a run left, put together: the record, the index entry, the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trtbench.analysis.memory import METERED, memory_of_launches
from trtbench.domain.job import BenchOutcome
from trtbench.domain.result import AnyRecord, Environment, Fact, RunRecord, Scalar
from trtbench.domain.samples import IterationTimes
from trtbench.domain.spec import RunSpec, TensorSpec
from trtbench.domain.variables import variables_from_text, without_tf32
from trtbench.errors import StoreError, UnavailableError
from trtbench.host.locks import hold
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import now
from trtbench.store.entries import Cached
from trtbench.store.store import Store
from trtbench.workflows.measure.model_notes import (
    claims_of_model,
    conditions_of_model,
    joined_conditions,
    stamps_of_engine,
    work_of_model,
)
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.progress import Event

_LESS_IS_WORSE = {
    "achieved_hz", "outputs_finite", "outputs_vary", "outputs_repeat", "inputs_constant",
}  # fmt: skip


def add_to_index(
    store: Store, record: AnyRecord, path: Path, *, cached: Cached | None = None
) -> None:
    """Put a run that is on disk into the index; it is not lost when that cannot be done."""
    try:
        store.add(record, path=path, cached=cached)
    except StoreError as problem:
        raise StoreError(
            "the run is on disk, but the index could not be written",
            facts={"run": path, **problem.facts},
            fix="trtbench runs reindex",
        ) from None


@dataclass(frozen=True, kw_only=True)
class Launch:
    """What one finished launch left."""

    outcome: BenchOutcome
    times: IterationTimes


def refuse_without_library(spec: RunSpec, conduct: Conduct) -> None:
    """Refuse what this interpreter cannot execute before a processor is waited for.

    Of runtimes on other devices, and in other interpreters, the worker knows better.
    """
    module = RUNTIMES.load(spec.runtime)
    if conduct.python is not None or module.open_session is None or module.device(spec) != "cpu":
        return
    reason = module.available()
    if reason is not None:
        raise UnavailableError(
            f"the runtime {spec.runtime} does not work here",
            facts={"reason": reason},
            fix=module.fix(),
        )


def device_of(spec: RunSpec) -> str:
    """Name the device that the runtime measures on."""
    return RUNTIMES.load(spec.runtime).device(spec)


@contextmanager
def hold_device(spec: RunSpec, conduct: Conduct) -> Iterator[None]:
    """Hold the device the runtime measures on, and say so when it has to be waited for."""
    device = device_of(spec)

    def tell(holder: str) -> None:
        conduct.listen(Event(kind="wait", text=f"waiting for {device}, held by {holder}"))

    what = conduct.command or f"trtbench bench {spec.model.name}"
    with hold(device, what=what, wait=conduct.wait, on_wait=tell):
        yield


def record_from_launches(
    spec: RunSpec,
    run_id: str,
    environment: Environment,
    contention: dict[str, Scalar],
    conduct: Conduct,
    launches: list[Launch],
) -> RunRecord:
    """Put together what a run's launches told."""
    first = launches[0].outcome
    told = [note for each in launches for note in each.outcome.notes]
    return RunRecord(
        id=run_id,
        created=now(),
        spec=spec,
        environment=environment.having(
            python=first.python, versions=first.versions, extra={**environment.extra, **contention}
        ),
        tags=conduct.tags,
        inputs=first.inputs,
        outputs=first.outputs,
        launches=tuple(each.outcome.facts for each in launches),
        conditions=_conditions(spec, first, environment),
        reported=first.reported,
        notes=tuple(dict.fromkeys([*told, *stamps_of_engine(spec.model)])),
        facts={
            **evidence_of_launches([each.outcome.evidence for each in launches]),
            **_facts_of_runtime(spec, first.inputs),
            **claims_of_model(spec.model),
        },
    )


def _conditions(spec: RunSpec, told: BenchOutcome, environment: Environment) -> dict[str, Fact]:
    """Put together what is known of the model, what its session tells and the environment."""
    found = joined_conditions(conditions_of_model(spec.model), told.conditions)
    if spec.model.format == "engine":  # whose kernels were chosen when it was built
        return found
    return without_tf32(found, variables_from_text(environment.extra.get("variables")))


def _facts_of_runtime(spec: RunSpec, inputs: tuple[TensorSpec, ...]) -> dict[str, Scalar]:
    """Tell what executed, and on a GPU how much work one query is: its peaks are known."""
    runtime = RUNTIMES.load(spec.runtime)
    work = {} if runtime.device(spec) == "cpu" else work_of_model(spec.model, inputs)
    return {"executes_engine": runtime.EXECUTES_ENGINES, **work}


def evidence_of_launches(told: list[dict[str, Scalar]]) -> dict[str, Scalar]:
    """Put together what launches tell the findings: of several answers, the one that counts most.

    Text stays as first told; of numbers the largest counts, but for those where less is worse.
    What was seen of memory is that of one launch: parts of several would not add up.
    """
    merged: dict[str, Scalar] = {}
    for key in dict.fromkeys(key for each in told for key in each):
        values = [each[key] for each in told if each.get(key) is not None]
        numbers = [value for value in values if isinstance(value, (bool, int, float))]
        worst = min if key in _LESS_IS_WORSE else max
        merged[key] = worst(numbers) if numbers else next(iter(values), None)
    return {name: each for name, each in merged.items() if not name.startswith(METERED)} | (
        memory_of_launches(told)
    )
