"""A worker process: ``python -m trtbench.worker job.json outdir [events [descriptors]]``.

Runs one job and writes ``outcome.json`` and ``samples.npz`` (or ``error.json``) to the folder.
Does not know who started it. It writes the name of each stage to the file descriptor ``events``.
"""

import contextlib
import importlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import trtbench.host.early_context  # starts before the slow imports
import trtbench.one_thread  # noqa: F401 - before the first import of numpy

# isort: split
import msgspec
import numpy as np

from trtbench.core import jobs
from trtbench.core.codec import job_from_json, json_from_value
from trtbench.core.errors import FULL, TrtbenchError
from trtbench.core.plugins import missing_package
from trtbench.core.run import LoadSearch
from trtbench.core.samples import IterationTimes
from trtbench.core.spec import Value
from trtbench.runtimes import RUNTIMES, session_opener
from trtbench.runtimes._session import at_end, image_readers

Result = tuple[jobs.BenchOutcome, IterationTimes]
EXIT_REPORTED = 3  # the exit status when `error.json` says what went wrong
_FUNCTIONS: Mapping[type[jobs.Job], tuple[str, str]] = {
    jobs.LocalizeJob: ("accuracy.search", "localize"),
    jobs.ExportJob: ("convert.export", "export"),
    jobs.QuantizeJob: ("convert.quantize", "quantize"),
    jobs.VerifyJob: ("convert.verify", "verify"),
}
# Imported when a run is fed with images, not before.
image_readers.append(lambda *a: importlib.import_module("trtbench.tasks._feed").image_inputs(*a))


class Events(jobs.Stage):
    """Writes the name of each stage to the parent process, if that listens."""

    def __init__(self, descriptor: int | None) -> None:
        super().__init__()
        self.descriptor = descriptor
        self._reported_at = 0.0
        if descriptor is not None:
            os.set_inheritable(descriptor, False)

    def __call__(self, name: str) -> None:
        super().__call__(name)
        self.write(name.encode())

    def progress(self, done: float, text: str) -> None:
        now = time.monotonic()
        # Seconds between two reports of progress in a stage; a builder takes thousands of steps.
        if now - self._reported_at >= 0.2:
            self._reported_at = now
            self.write(f"{jobs.PROGRESS_MARK}{done:.3f} {' '.join(text.split())[:200]}".encode())

    def write(self, line: bytes) -> None:
        if self.descriptor is None:
            return
        try:
            os.write(self.descriptor, line + b"\n")
        except OSError:  # the parent no longer listens; the kernel will end this process
            self.descriptor = None


def main(arguments: list[str]) -> int:
    """Run one job; returns 0, or 3 when ``error.json`` says what went wrong."""
    job_file, folder = Path(arguments[0]), Path(arguments[1])
    events = Events(int(arguments[2]) if len(arguments) > 2 else None)
    try:
        job = job_from_json(job_file.read_bytes(), where=str(job_file))
        if isinstance(job, jobs.BenchJob):
            versions = _versions(job)
            if job.search is not None:
                keep = partial(_save, folder=folder, versions=versions)
                outcome, times = _search(job, keep, folder=folder, events=events)
            else:
                runtime = RUNTIMES.load(job.spec.runtime)
                outcome, times = runtime.bench(job.spec, folder=folder, stage=events)
            events("save")
            _save(outcome, times, folder=folder, versions=versions)
        elif isinstance(job, jobs.DuetJob):
            from trtbench.runtimes._turns import run_duet

            versions = _versions(job)
            results = run_duet(job, events, list(map(int, arguments[3:])))
            events("save")
            for side, (outcome, times) in results.items():
                (folder / f"side-{side}").mkdir()
                _save(outcome, times, folder=folder / f"side-{side}", versions=versions)
        else:
            value = _run_job(job, folder=folder, events=events)
            events("save")
            (folder / "outcome.json").write_bytes(json_from_value(value))
        events(jobs.DONE)
    except (Exception, SystemExit) as problem:
        error = _error_to_report(problem, stage=events.begun[-1] if events.begun else "start")
        with contextlib.suppress(OSError):  # the disk of the log may be full
            sys.stderr.write(f"{error.kind} in stage {error.stage}: {error.message}\n")
        try:
            (folder / "error.json").write_bytes(json_from_value(error))
        except OSError:
            events.write(msgspec.json.encode(error))
        return EXIT_REPORTED
    return 0


def _run_job(job: jobs.Job, *, folder: Path, events: Events) -> Value:
    """Run a job, importing only what it needs: PyTorch may be installed without ONNX Runtime."""
    if isinstance(job, jobs.InferJob):
        from trtbench.host.machine import library_versions
        from trtbench.runtimes._stream import stream
        from trtbench.tasks import TASKS
        from trtbench.tasks._feed import open_feed

        spec, feed = job.spec, job.feed
        task = TASKS.load(feed.task) if job.decode and feed.task else None
        outcome = stream(
            session_opener(spec.runtime),
            spec,
            open_source=lambda tensors: open_feed(feed, tensors, spec=spec),
            decode=None if task is None else partial(task.decode, settings=feed.settings),
            folder=folder,
            stage=events,
            open_batch=feed.open_batch,
        )
        return outcome.having(versions=library_versions(), python=sys.version.split()[0])
    if isinstance(job, jobs.BuildJob):
        from trtbench.convert.builders import BUILDERS

        return BUILDERS.load(job.spec.runtime).build(job.spec, folder=folder, stage=events)
    module, name = _FUNCTIONS[type(job)]
    function: Callable[..., Value] = getattr(importlib.import_module(f"trtbench.{module}"), name)
    assert not isinstance(job, jobs.DuetJob)
    return function(job.spec, folder=folder, stage=events)


def _search(
    job: jobs.BenchJob, save: Callable[..., None], *, folder: Path, events: Events
) -> Result:
    """Search for a rate; after every probe, what is known so far is in the folder."""
    from trtbench.runtimes.contract import bench_session

    def keep(search: LoadSearch, result: Result) -> None:
        ends = {signal.SIGTERM}
        signal.pthread_sigmask(signal.SIG_BLOCK, ends)  # an interrupt leaves whole files
        save(*result)
        (folder / "load.json").write_bytes(json_from_value(search))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ends)

    opener = session_opener(job.spec.runtime)
    return bench_session(
        opener, job.spec, stage=events, folder=folder, search=job.search, keep=keep
    )


def _versions(job: jobs.BenchJob | jobs.DuetJob) -> dict[str, str]:
    """Return the versions of libraries, which the first launch of a run records."""
    if job.launch:
        return {}
    from trtbench.host.machine import library_versions

    return library_versions()


def _save(
    outcome: jobs.BenchOutcome, times: IterationTimes, *, folder: Path, versions: dict[str, str]
) -> None:
    """Write the two files of a result, one right after the other: a process may crash here."""
    if versions:
        # Versions that the runtime reports come first: trtexec may belong to another TensorRT.
        known = {**versions, **outcome.versions}
        outcome = outcome.having(versions=known, python=sys.version.split()[0])
    text = json_from_value(outcome)
    np.savez(folder / "samples.npz", **dict(times.columns()))  # type: ignore[arg-type]
    (folder / "outcome.json").write_bytes(text)


def _error_to_report(problem: Exception | SystemExit, *, stage: str) -> jobs.ReportedError:
    """Classify an exception: one of our errors, out of memory, a full disk, or a bug."""
    missing = missing_package(problem) if isinstance(problem, ModuleNotFoundError) else None
    known = missing or problem
    if isinstance(known, TrtbenchError):
        return jobs.ReportedError.from_error(known, stage=stage)
    memory = isinstance(problem, MemoryError)
    with contextlib.suppress(OSError):
        if not memory:
            traceback.print_exc()
        elif str(problem):  # how much memory was requested
            sys.stderr.write(f"{problem}\n")
    if memory:
        return jobs.ReportedError(kind=jobs.NO_MEMORY, message="out of memory", stage=stage)
    if isinstance(problem, OSError) and problem.errno in FULL:
        return jobs.ReportedError(kind="StoreError", message="the disk is full", stage=stage)
    return jobs.ReportedError(kind="bug", message=repr(problem), stage=stage)


if __name__ == "__main__":
    measured: list[Any] = []  # a library that crashes as it is taken apart would lose results
    at_end[0] = measured.append
    status = main(sys.argv[1:])
    for each in measured:
        with contextlib.suppress(Exception):
            each.close_at_exit()
    with contextlib.suppress(OSError):  # the disk of the log may be full
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)  # all is on disk; unloading native libraries is slow and may crash
