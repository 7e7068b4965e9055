"""The child's entry point: ``python -m trtbench.worker job.json outdir [events [descriptors]]``.

Reads a job, does it, leaves ``outcome.json`` and ``samples.npz`` (or ``error.json``) in the folder.
Does not know who started it; ``events`` is a descriptor on which it names each stage as it begins.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
import traceback
from functools import partial
from pathlib import Path
from typing import NoReturn

import trtbench.host.early_context  # begins before what takes long to import
import trtbench.one_thread  # noqa: F401 - before the first import of numpy

# isort: split
import msgspec
import numpy as np

from trtbench.domain.codec import job_from_json, json_from_value
from trtbench.domain.conversion import ExportOutcome, QuantOutcome, VerifyOutcome
from trtbench.domain.feed import Feed
from trtbench.domain.job import (
    DONE,
    PROGRESS_MARK,
    BenchJob,
    BenchOutcome,
    BuildJob,
    ConversionJob,
    DuetJob,
    ExportJob,
    InferJob,
    LayersJob,
    LocalizeJob,
    QuantizeJob,
    Stage,
    VerifyJob,
    WorkerError,
)
from trtbench.domain.samples import IterationTimes
from trtbench.errors import FULL, ProgramError, TrtbenchError
from trtbench.extras import missing_package
from trtbench.runtimes import RUNTIMES, session_opener

PROGRESS_S = 0.2
"""How often progress within a stage is told; a builder takes thousands of steps."""

EXIT_TOLD = 3
"""The worker put what went wrong into ``error.json``."""


class Events(Stage):
    """Tells the parent, if it listens, which stage has begun."""

    def __init__(self, descriptor: int | None) -> None:
        super().__init__()
        self.descriptor = descriptor
        self._told_at = 0.0
        if descriptor is not None:
            os.set_inheritable(descriptor, False)

    @property
    def stage(self) -> str:
        """Name what is being done."""
        return self.begun[-1] if self.begun else "start"

    def __call__(self, name: str) -> None:
        super().__call__(name)
        self._write(name.encode())

    def progress(self, done: float, text: str) -> None:
        """Say how far the stage has come, not more often than anybody looks."""
        now = time.monotonic()
        if now - self._told_at < PROGRESS_S:
            return
        self._told_at = now
        self._write(f"{PROGRESS_MARK}{done:.3f} {' '.join(text.split())[:200]}".encode())

    def tell(self, error: WorkerError) -> None:
        """Say what went wrong where no file could be written."""
        self._write(msgspec.json.encode(error))

    def _write(self, line: bytes) -> None:
        if self.descriptor is None:
            return
        try:
            os.write(self.descriptor, line + b"\n")
        except OSError:  # the parent no longer listens; the kernel will end this process
            self.descriptor = None


def main(arguments: list[str]) -> int:
    """Do one job; the exit status is 0, or 3 when ``error.json`` says what went wrong."""
    job_file, folder = Path(arguments[0]), Path(arguments[1])
    events = Events(int(arguments[2]) if len(arguments) > 2 else None)
    try:
        job = job_from_json(job_file.read_bytes(), where=str(job_file))
        if isinstance(job, DuetJob):
            _duet(job, folder=folder, events=events, descriptors=list(map(int, arguments[3:])))
        elif isinstance(job, InferJob):
            _infer(job, folder=folder, events=events)
        elif isinstance(job, LayersJob):
            _layers(job, folder=folder, events=events)
        elif isinstance(job, LocalizeJob):
            _localize(job, folder=folder, events=events)
        elif isinstance(job, BuildJob):
            _build(job, folder=folder, events=events)
        elif isinstance(job, (ExportJob, QuantizeJob, VerifyJob)):
            _convert(job, folder=folder, events=events)
        else:
            _bench(job, folder=folder, events=events)
    except TrtbenchError as problem:
        _tell(folder, _worker_error(problem, stage=events.stage), events)
        return EXIT_TOLD
    except (Exception, SystemExit) as problem:
        if isinstance(problem, ModuleNotFoundError) and (told := missing_package(problem)):
            _tell(folder, _worker_error(told, stage=events.stage), events)
            return EXIT_TOLD
        with contextlib.suppress(OSError):
            _log(problem)
        _tell(folder, _failure(problem, stage=events.stage), events)
        return EXIT_TOLD
    return 0


def _bench(job: BenchJob, *, folder: Path, events: Events) -> None:
    runtime = RUNTIMES.load(job.spec.runtime)
    if job.spec.inputs.task is not None:
        from trtbench.runtimes._session import prepare_images_with
        from trtbench.tasks._feed import image_inputs

        prepare_images_with(image_inputs)
    outcome, times = runtime.bench(job.spec, folder=folder, stage=events)
    events("save")
    _save(outcome, times, folder, launch=job.launch)


def _duet(job: DuetJob, *, folder: Path, events: Events, descriptors: list[int]) -> None:
    from trtbench.runtimes._duet import play

    results = play(job, events, descriptors)
    events("save")
    for side, (outcome, times) in results.items():
        (folder / f"side-{side}").mkdir()
        _save(outcome, times, folder / f"side-{side}", launch=job.launch)
    events(DONE)


def _infer(job: InferJob, *, folder: Path, events: Events) -> None:
    from trtbench.runtimes._infer import infer

    if job.feed is not None:
        _stream(job, job.feed, folder=folder, events=events)
        return
    outputs = infer(session_opener(job.spec.runtime), job.spec, stage=events)
    events("save")
    np.savez(folder / "outputs.npz", **outputs)  # type: ignore[arg-type]


def _stream(job: InferJob, feed: Feed, *, folder: Path, events: Events) -> None:
    from trtbench.host.versions import library_versions
    from trtbench.runtimes._stream import stream
    from trtbench.tasks import TASKS
    from trtbench.tasks._feed import open_feed

    task = TASKS.load(feed.task) if job.decode and feed.task else None
    outcome = stream(
        session_opener(job.spec.runtime),
        job.spec,
        open_source=lambda tensors: open_feed(feed, tensors, spec=job.spec),
        decode=None if task is None else partial(task.decode, settings=feed.settings),
        folder=folder,
        stage=events,
        open_batch=feed.open_batch,
    )
    events("save")
    signed = outcome.having(versions=library_versions(), python=sys.version.split()[0])
    (folder / "outcome.json").write_bytes(json_from_value(signed))


def _layers(job: LayersJob, *, folder: Path, events: Events) -> None:
    from trtbench.build.onnx_layers import compare_layers

    outcome = compare_layers(job.spec, stage=events)
    events("save")
    (folder / "outcome.json").write_bytes(json_from_value(outcome))


def _localize(job: LocalizeJob, *, folder: Path, events: Events) -> None:
    from trtbench.build.localize import localize
    from trtbench.tasks._feed import TaskJudge, open_feed

    spec = job.spec
    has_answers = spec.feed.kind == "task" and not spec.feed.settings.get("unlabelled")
    outcome = localize(
        spec,
        open_source=lambda tensors: open_feed(spec.feed, tensors, spec=spec.run),
        judge=partial(TaskJudge, spec.feed, folder=folder / "judged") if has_answers else None,
        folder=folder,
        stage=events,
    )
    events("save")
    (folder / "outcome.json").write_bytes(json_from_value(outcome))


def _build(job: BuildJob, *, folder: Path, events: Events) -> None:
    from trtbench.build.builders import BUILDERS

    builder = BUILDERS.load(job.spec.runtime)
    outcome = builder.build(job.spec, folder=folder, stage=events)
    events("save")
    (folder / "outcome.json").write_bytes(json_from_value(outcome))


def _convert(job: ConversionJob, *, folder: Path, events: Events) -> None:
    outcome = _converted(job, folder=folder, stage=events)
    events("save")
    (folder / "outcome.json").write_bytes(json_from_value(outcome))


def _converted(
    job: ConversionJob, *, folder: Path, stage: Stage
) -> ExportOutcome | QuantOutcome | VerifyOutcome:
    """Import what one conversion needs alone: PyTorch may be there without ONNX Runtime."""
    if isinstance(job, ExportJob):
        from trtbench.build.export import export

        return export(job.spec, folder=folder, stage=stage)
    if isinstance(job, QuantizeJob):
        from trtbench.build.quantize import quantize

        return quantize(job.spec, folder=folder, stage=stage)
    from trtbench.build.onnx_verify import verify

    return verify(job.spec, folder=folder, stage=stage)


def _save(outcome: BenchOutcome, times: IterationTimes, folder: Path, *, launch: int) -> None:
    """Keep a launch; only the first of a run is asked for the versions of its libraries."""
    np.savez(folder / "samples.npz", **dict(times.columns()))  # type: ignore[arg-type]
    signed = _signed(outcome) if launch == 0 else outcome
    (folder / "outcome.json").write_bytes(json_from_value(signed))


def _signed(outcome: BenchOutcome) -> BenchOutcome:
    from trtbench.host.versions import library_versions

    # What the runtime says of itself counts: trtexec may belong to another TensorRT than Python.
    versions = {**library_versions(), **outcome.versions}
    return outcome.having(versions=versions, python=sys.version.split()[0])


def _worker_error(problem: TrtbenchError, *, stage: str) -> WorkerError:
    return WorkerError(
        kind=type(problem).__name__,
        message=problem.message,
        facts=problem.facts,
        fix=problem.fix,
        stage=stage,
        program_status=problem.program_status if isinstance(problem, ProgramError) else None,
        log_tail=problem.log_tail if isinstance(problem, ProgramError) else (),
    )


def _log(problem: BaseException) -> None:
    """Write where it happened; of memory that ran out, only how much was wanted."""
    if isinstance(problem, MemoryError):
        sys.stderr.write(f"{problem}\n" if str(problem) else "")
    else:
        traceback.print_exc()


def _failure(problem: Exception | SystemExit, *, stage: str) -> WorkerError:
    """Put into words what is nobody's wrong input: memory, disk, or a bug of ours."""
    if isinstance(problem, MemoryError):
        return WorkerError(kind="memory", message="out of memory", stage=stage)
    if isinstance(problem, OSError) and problem.errno in FULL:
        return WorkerError(kind="StoreError", message="the disk is full", stage=stage)
    return WorkerError(kind="bug", message=repr(problem), stage=stage)


def _tell(folder: Path, error: WorkerError, events: Events) -> None:
    with contextlib.suppress(OSError):  # a full disk keeps one or the other from being written
        sys.stderr.write(f"{error.kind} in stage {error.stage}: {error.message}\n")
    try:
        (folder / "error.json").write_bytes(json_from_value(error))
    except OSError:
        events.tell(error)


def leave(status: int) -> NoReturn:
    """End at once: all is on disk, and taking native libraries apart costs time and can crash."""
    with contextlib.suppress(OSError):  # the log may lie on a full disk
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    leave(main(sys.argv[1:]))
