"""Run a model over a file of items in a child process, and judge what comes out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trtbench.domain.codec import json_from_value
from trtbench.domain.feed import Feed, InferOutcome
from trtbench.domain.job import InferJob, progress_from_line
from trtbench.domain.result import Scores
from trtbench.domain.spec import RunSpec
from trtbench.errors import writing
from trtbench.host.files import write_whole
from trtbench.models.identity import demand_unchanged
from trtbench.store.directory import SCORES
from trtbench.store.store import Store
from trtbench.workflows.measure.failure import end_with_same_bytes, fail_job
from trtbench.workflows.measure.job import carry_out_job, environment_of, read_outcome
from trtbench.workflows.measure.launches import hold_device, refuse_without_library
from trtbench.workflows.request.conduct import PATIENCE_S, Conduct

STREAM_PATIENCE_S = 24 * 3600.0
"""A whole data set takes as long as it takes; a hang is found by whoever watches the bar."""


def infer(
    spec: RunSpec, *, store: Store, conduct: Conduct | None = None
) -> dict[str, NDArray[np.generic]]:
    """Compute a model's outputs for every item of its inputs file."""
    conduct = conduct or Conduct()
    with store.scratch() as folder:
        _carry_out(
            InferJob(spec=spec), folder=folder, store=store, conduct=conduct, patience_s=PATIENCE_S
        )
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

    _carry_out(
        InferJob(spec=spec, feed=feed, decode=decode),
        folder=folder,
        store=store,
        conduct=conduct,
        patience_s=STREAM_PATIENCE_S,
        on_stage=hear,
    )
    return read_outcome(folder, InferOutcome)


def _carry_out(
    job: InferJob,
    *,
    folder: Path,
    store: Store,
    conduct: Conduct,
    patience_s: float,
    on_stage: Callable[[str], None] | None = None,
) -> None:
    """Run a model on its device; an end that is no good is recorded and raised."""
    spec = job.spec
    refuse_without_library(spec, conduct)
    demand_unchanged(spec.model)
    with hold_device(spec, conduct):
        end = carry_out_job(
            job,
            folder=folder,
            conduct=conduct,
            patience_s=patience_s,
            python=conduct.python,
            on_stage=on_stage,
        )
    end = end_with_same_bytes(end, spec.model)
    if not end.ok:
        log = folder / "log.txt"
        fail_job(end, spec, environment_of(conduct), store=store, conduct=conduct, log=log)


def write_scores(folder: Path, scores: Scores) -> None:
    """Keep scores in a run directory, with the hash of the artefact they belong to."""
    path = folder / SCORES
    with writing(path):
        write_whole(path, json_from_value(scores))
