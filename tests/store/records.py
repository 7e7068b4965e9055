"""Runs made up for the tests of the store, without measuring anything."""

import platform
import subprocess
import sys
from pathlib import Path

import numpy as np

from trtbench.core.run import Environment, FailedRun, RunRecord
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.store.directory import write_record, write_samples
from trtbench.store.store import Store

TIMES = IterationTimes(host=np.linspace(1e-3, 2e-3, 50), start=np.linspace(0, 0.1, 50))


def spec(*, model: str = "net.onnx", runtime: str = "onnxruntime") -> RunSpec:
    return RunSpec(model=ModelRef(path=f"/models/{model}", format="onnx"), runtime=runtime)


def record(run_id: str, *, created: str = "2026-11-15T12:00:00.000+00:00", **kw) -> RunRecord:
    tags = kw.pop("tags", ())
    where = Environment(host=platform.node(), os="Linux")
    return RunRecord(id=run_id, created=created, spec=spec(**kw), environment=where, tags=tags)


def failed(run_id: str, *, created: str = "2026-11-15T13:00:00.000+00:00") -> FailedRun:
    return FailedRun(
        id=run_id,
        created=created,
        spec=spec(),
        environment=Environment(host=platform.node(), os="Linux"),
        stage="measure",
        reason="ended by SIGKILL",
        signal="SIGKILL",
        log_tail=("the last", "lines"),
    )


def add(store: Store, made: RunRecord | FailedRun, *, output: Path | None = None) -> Path:
    """Put a made-up run into a store the way a workflow does."""
    with store.new_run(made.id, output=output) as folder:
        if isinstance(made, RunRecord):
            write_samples(folder, TIMES)
        write_record(folder, made)
    target = store.directory(made.id, output=output)
    store.add(made, path=target)
    return target


def dead_process() -> int:
    """The number of a process that has ended."""
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    return child.pid


def counts(found):
    """What a new index was made of: runs, entries dropped, and what cannot be read."""
    problems = [f"{name}: {reason}" for name, reason in found.damaged.items()]
    return found.runs, len(found.dropped), problems
