"""Have a run measured by an executor, and keep it as if it had been measured here."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from trtbench.domain.result import AnyRecord, FailedRun, Run
from trtbench.domain.spec import RunSpec
from trtbench.errors import StoreError, TrtbenchError, UnavailableError, UsageError
from trtbench.executors import (
    AGAIN,
    EXECUTORS,
    WAITING,
    Executor,
    ExecutorSettings,
    Needs,
    Request,
    Tell,
    with_own_names,
)
from trtbench.executors.contract import ExecutorModule
from trtbench.models.identity import demand_unchanged
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import RECORD, new_id, read_record, read_run, write_record
from trtbench.store.store import Store
from trtbench.workflows.measure.failure import job_error
from trtbench.workflows.measure.luggage import Luggage
from trtbench.workflows.request.cached import cached_from_run
from trtbench.workflows.request.conduct import PATIENCE_S, Conduct, expected_s
from trtbench.workflows.request.groups import ExecutorFields
from trtbench.workflows.request.kinds import seconds
from trtbench.workflows.request.progress import Event, Listener

T = TypeVar("T")
LOOK_S = 2.0
"""How often it is looked whether machines came, while there is work for more."""


def open_executor(name: str, settings: ExecutorSettings) -> Executor:
    """Open an executor by the name a user types."""
    executor: Executor = EXECUTORS.load(name).open_executor(settings)
    return executor


@contextlib.contextmanager
def executor_for(request: ExecutorFields, conduct: Conduct) -> Iterator[Conduct]:
    """Open the executor a request names, if any, for the length of the block."""
    if request.executor is None:
        yield conduct
        return
    takes = EXECUTORS.load(request.executor).TAKES
    for name in ExecutorModule.TAKES:
        if getattr(request, name) is not None and name not in takes:
            raise UsageError(
                f"--{name.replace('_', '-')} says nothing to the executor {request.executor}",
                fix=f"leave it out, or another executor: {', '.join(EXECUTORS.names())}",
            )
    hosts = Path(request.hosts) if request.hosts else None
    settings = ExecutorSettings(
        address=request.address,
        hosts=hosts,
        beside=request.beside,
        patience_s=seconds(request.wait_node) if request.wait_node is not None else 0.0,
    )
    executor = open_executor(request.executor, settings)
    try:
        yield replace(conduct, executor=executor)
    finally:
        executor.close()


def width_of(executor: Executor, needs: Needs | None = None) -> int:
    """Count runs of any kind that an executor can measure at the same time, at least one."""
    count = 0
    for gpu in (False, True):
        with contextlib.suppress(UnavailableError):
            count += executor.width((needs or Needs()).having(gpu=gpu))
    return max(1, count)


def each_at_once(
    items: Iterable[T], work: Callable[[T], object], *, executor: Executor, needs: Needs | None
) -> None:
    """Do something with each item, as many at a time as an executor has places for.

    Machines may come and go meanwhile. What the first to fail raises is raised, and the others
    are ended.
    """
    left = deque(items)
    running: set[Future[object]] = set()
    with ThreadPoolExecutor(max(1, len(left)), thread_name_prefix="executor") as pool:
        try:
            while left or running:
                free = width_of(executor, needs) - len(running) if left else 0
                running |= {pool.submit(work, left.popleft()) for _ in range(min(free, len(left)))}
                done, running = wait(running, LOOK_S if left else None, FIRST_COMPLETED)
                for each in done:
                    each.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            executor.close()
            raise


def run_elsewhere(spec: RunSpec, *, store: Store, conduct: Conduct, executor: Executor) -> Run:
    """Send a run away and store what comes back; one that failed there is on record here."""
    run_id = conduct.run_id or new_id()
    request = request_from_spec(spec, run_id, conduct)
    target = store.directory(run_id, output=conduct.output)
    with store.new_run(run_id, output=conduct.output) as folder:
        send(request, executor, folder, conduct.listen)
        write_record(folder, with_spec(record_of(run_id, folder), spec))
    return take_in(store, target)


def send(
    request: Request,
    executor: Executor,
    folder: Path,
    listen: Listener,
    *,
    output: Path | None = None,
) -> None:
    """Have a request carried out; an error names files as they are called here."""
    try:
        executor.run(request, folder=folder, tell=teller(listen))
    except TrtbenchError as problem:
        names = partial(with_own_names, bags=request.bags, output=output or folder)
        problem.facts = {key: str(names(value)) for key, value in problem.facts.items()}
        problem.message = str(names(problem.message))
        problem.fix = problem.fix and str(names(problem.fix))
        raise


def record_of(run_id: str, folder: Path) -> AnyRecord:
    """Read the record of a run that came back; another's would take its place in the index."""
    record = read_record(folder)
    if record.id != run_id:
        (folder / RECORD).unlink()
        raise StoreError(
            "what came back is another run", facts={"asked for": run_id, "came": record.id}
        )
    return record


def take_in(store: Store, target: Path) -> Run:
    """Put a run that came back into the index; one that failed there is raised."""
    kept = read_run(target)
    if isinstance(kept, FailedRun):
        store.add(kept, path=target)
        raise job_error(kept, target)
    store.add(kept.record, path=target, cached=cached_from_run(kept))
    return kept


def teller(listen: Listener) -> Tell:
    """Pass on what an executor tells: that it waits or begins again is said also in a log."""

    def tell(text: str) -> None:
        if text.startswith(WAITING):
            listen(Event(kind="wait", text=text))
        else:
            listen(Event(kind="note" if text.endswith(AGAIN) else "stage", text=text))

    return tell


def request_from_spec(
    spec: RunSpec, run_id: str, conduct: Conduct, luggage: Luggage | None = None
) -> Request:
    """Put into one value all that a machine must know to measure a run."""
    demand_unchanged(spec.model)
    luggage = luggage or Luggage()
    luggage.python = conduct.python
    own = luggage.spec(spec)
    launch_s = conduct.timeout_s or expected_s(spec) + PATIENCE_S
    batch = f", batch {spec.batch}" if spec.batch else ""
    return Request(
        id=run_id,
        title=f"bench {spec.model.name}, {spec.runtime}{batch}",
        spec=own,
        bags=luggage.bags,
        code=tuple(luggage.code),
        python=conduct.python,
        timeout_s=conduct.timeout_s,
        limit_s=(spec.launches + 1) * launch_s + PATIENCE_S,
        memory_bytes=conduct.memory_bytes,
        command=conduct.command,
        tags=conduct.tags,
        needs=luggage.needs(needs_of(spec, conduct.needs)),
    )


def needs_of(spec: RunSpec, asked: Needs | None = None) -> Needs:
    """List what a run needs: a GPU or not by its runtime, and what the user asks for."""
    gpu = RUNTIMES.load(spec.runtime).device(spec) != "cpu"
    return (asked or Needs()).having(gpu=gpu)


def with_spec(record: AnyRecord, spec: RunSpec) -> AnyRecord:
    """Name the model as it is called here; where it was measured is in the environment."""
    return record.having(spec=spec)
