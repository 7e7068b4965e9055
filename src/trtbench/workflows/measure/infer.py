"""Run a model over a file of items in a child process, and judge what comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.codec import json_from_value, value_from_json
from trtbench.domain.feed import Feed, InferOutcome
from trtbench.domain.job import InferJob, progress_from_line
from trtbench.domain.result import Scores
from trtbench.domain.spec import RunSpec
from trtbench.errors import writing
from trtbench.executors.local import run_job
from trtbench.host.environment import read_environment
from trtbench.host.files import write_whole
from trtbench.models.identity import demand_unchanged
from trtbench.store.directory import SCORES
from trtbench.store.store import Store
from trtbench.workflows.measure.failure import end_with_same_bytes, fail_job
from trtbench.workflows.measure.launches import hold_device
from trtbench.workflows.request.conduct import PATIENCE_S, Conduct

STREAM_PATIENCE_S = 24 * 3600.0
"""A whole data set takes as long as it takes; a hang is found by whoever watches the bar."""


def infer(
    spec: RunSpec, *, store: Store, conduct: Conduct | None = None
) -> dict[str, NDArray[np.generic]]:
    """Compute a model's outputs for every item of its inputs file."""
    conduct = conduct or Conduct()
    demand_unchanged(spec.model)
    with hold_device(spec, conduct), store.scratch() as folder:
        end = run_job(
            InferJob(spec=spec),
            folder=folder,
            python=conduct.python,
            timeout_s=conduct.timeout_s or PATIENCE_S,
            memory_bytes=conduct.memory_bytes,
        )
        end = end_with_same_bytes(end, spec.model)
        if not end.ok:
            environment = read_environment(
                command=conduct.command, folder=Path.cwd(), label=conduct.machine
            )
            log = folder / "log.txt"
            fail_job(end, spec, environment, store=store, conduct=conduct, log=log)
        with np.load(folder / "outputs.npz", allow_pickle=False) as outputs:
            return {name: outputs[name] for name in outputs.files}


def stream(
    spec: RunSpec,
    feed: Feed,
    *,
    folder: Path,
    store: Store,
    decode: bool = False,
    conduct: Conduct | None = None,
    on_progress: Callable[[float, str], None] | None = None,
) -> InferOutcome:
    """Run a model over all items of a feed; chunks of outputs and the times are in the folder."""
    conduct = conduct or Conduct()

    def hear(line: str) -> None:
        if on_progress is None:
            return
        told = progress_from_line(line)
        if told is not None:
            on_progress(*told)
        elif line == "load":
            on_progress(0.0, "loading")

    demand_unchanged(spec.model)
    with hold_device(spec, conduct):
        end = run_job(
            InferJob(spec=spec, feed=feed, decode=decode),
            folder=folder,
            python=conduct.python,
            timeout_s=conduct.timeout_s or STREAM_PATIENCE_S,
            memory_bytes=conduct.memory_bytes,
            on_stage=hear,
        )
    end = end_with_same_bytes(end, spec.model)
    if not end.ok:
        environment = read_environment(
            command=conduct.command, folder=Path.cwd(), label=conduct.machine
        )
        fail_job(end, spec, environment, store=store, conduct=conduct, log=folder / "log.txt")
    path = folder / "outcome.json"
    return value_from_json(path.read_bytes(), InferOutcome, where=str(path))


def write_scores(folder: Path, scores: Scores) -> None:
    """Keep scores in a run directory, with the hash of the artefact they belong to."""
    path = folder / SCORES
    with writing(path):
        write_whole(path, json_from_value(scores))
