"""Requests that take little time, and where and when they were measured."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import models
from trtbench.domain.result import Run
from trtbench.domain.spec import RunSpec
from trtbench.executors import Executor, Needs
from trtbench.store.store import Store
from trtbench.workflows.measure.bench import run_bench
from trtbench.workflows.measure.remote import needs_of
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.measuring import BenchRequest
from trtbench.workflows.request.spec import run_spec


def quick_spec(folder: Path, **flags: object) -> RunSpec:
    model = folder / "tiny.onnx"
    if not model.is_file():
        models.tiny_model(model)
    quick = {"batch": 1, "duration": "50ms", "warmup": "10ms", "until_steady": False, "threads": 1}
    return run_spec(BenchRequest(model=model, **{**quick, **flags}), Config(store=""))


def measure_all(
    specs: Sequence[RunSpec],
    *,
    store: Store,
    executor: Executor,
    needs: Needs | None = None,
    done: threading.Semaphore | None = None,
) -> list[Run]:
    """Measure as a sweep does: as many at a time as the executor has places for."""

    def one(spec: RunSpec) -> Run:
        run = run_bench(spec, store=store, conduct=Conduct(executor=executor, needs=needs))
        if done is not None:
            done.release()
        return run

    with ThreadPoolExecutor(executor.width(needs_of(specs[0], needs))) as pool:
        return list(pool.map(one, specs))


def spans(log: Path) -> list[tuple[str, float, float]]:
    """What a node's measuring processes noted: device, begin and end, on one clock."""
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
    return sorted((each["device"], each["begin"], each["end"]) for each in lines)
