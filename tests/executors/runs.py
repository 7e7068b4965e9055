"""Requests that take little time, and where and when they were measured."""

import json
import threading
from collections.abc import Sequence
from pathlib import Path

import models
import quick
from trtbench.core.run import Run
from trtbench.core.spec import RunSpec
from trtbench.executors._transfer import Upload, upload_from_job
from trtbench.executors.contract import Executor, Needs, RemoteJob
from trtbench.measure.bench import run_bench
from trtbench.requests.execution import Execution
from trtbench.store.store import Store
from waiting import wait_for


def quick_spec(folder: Path, **flags: object) -> RunSpec:
    model = folder / "tiny.onnx"
    if not model.is_file():
        models.tiny_model(model)
    return quick.spec_of(model, **{"batch": 1, "threads": 1, **flags})


def measure_all(
    specs: Sequence[RunSpec],
    *,
    store: Store,
    executor: Executor,
    needs: Needs | None = None,
    done: threading.Semaphore | None = None,
) -> list[Run]:
    """Measure as a sweep does: as many at a time as the executor has places for."""
    measured: dict[int, Run] = {}

    def one(number: int) -> None:
        execution = Execution(executor=executor, needs=needs)
        measured[number] = run_bench(specs[number], store=store, execution=execution)
        if done is not None:
            done.release()

    executor.each(range(len(specs)), one, needs)
    return [measured[number] for number in range(len(specs))]


def spans(log: Path) -> list[tuple[str, float, float]]:
    """What a node's measuring processes noted: device, begin and end, on one clock."""
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
    return sorted((each["device"], each["begin"], each["end"]) for each in lines)


def evil_upload(request: RemoteJob) -> Upload:
    """Pack as a careless sender would: a file of the request is named outside its folder."""
    upload = upload_from_job(request)
    part = upload.files[0].having(name="model/../../../../.bash_profile")
    return upload.having(files=(*upload.files, part))


def closed_while_it_measures(
    executor: Executor, spec: RunSpec, store: Store, *, begun: Path
) -> BaseException:
    """Close an executor once the run on it has begun; gives what the run ended with."""
    ended: list[BaseException] = []

    def ask() -> None:
        try:
            run_bench(spec, store=store, execution=Execution(executor=executor))
        except BaseException as problem:
            ended.append(problem)

    thread = threading.Thread(target=ask)
    thread.start()
    wait_for(begun.is_file)
    executor.close()
    thread.join()
    return ended[0]
