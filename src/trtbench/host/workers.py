"""Worker processes on this machine: their interpreters, their start and their end.

A worker in another interpreter inherits the environment of this one, except PYTHONHOME and folders
of PYTHONPATH with compiled modules: they would keep the other interpreter from starting, or from
importing its own numpy.
"""

import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path

from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import TrtbenchError, UnavailableError, writing
from trtbench.core.jobs import DONE, PROGRESS_MARK, Job, JobEnd, ReportedError
from trtbench.core.safety import mask
from trtbench.host.cache import keep_bytecode
from trtbench.host.files import temporary_folder
from trtbench.host.process import Child, Exit, module_command, run_process, run_together, tail

WORKER_NEEDS = ("msgspec", "numpy")
"""Packages that another interpreter must have; trtbench itself is loaded from here."""
OLDEST = (3, 10)
_PROBE = """
import sys
if sys.path[:1] == ['']: del sys.path[0]
missing = []
for name in {needs!r}:
    try:
        __import__(name)
    except ImportError:
        missing.append(name)
sys.stdout.write('\\n%s %d.%d %s\\n' % ({word!r}, sys.version_info[0], sys.version_info[1],
                 ' '.join(missing)))
"""
_WORD = "trtbench-probe"


def worker_environment(python: str | None = None) -> dict[str, str]:
    """Return the environment of a worker; modules in the working folder do not shadow libraries."""
    # GPUs in the order of NVML; by default CUDA puts the fastest first.
    order = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    inherited = environment_for(python, os.environ)
    # ONNX Runtime would write through a link in the folder for temporary files, and send events.
    own = {"PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1", "ORT_DISABLE_TELEMETRY": "1"}
    keep_bytecode(inherited)
    return {**order, **inherited, **own}


def worker_command(python: str | None) -> list[str]:
    """Return the start of a worker's command line; another interpreter loads this package."""
    # Python 3.10 would import from the working folder first.
    if _is_own(python) and sys.version_info >= (3, 11):
        return [sys.executable, "-m", "trtbench.worker"]
    return module_command("trtbench.worker", python=python)


def check_interpreter(python: str | None) -> None:
    """Raise if workers cannot run in an interpreter; ``None`` is this one."""
    if python is None:
        return
    if shutil.which(python) is None:
        inside = Path(python) / "bin" / "python"
        fix = "--python PATH, or runtimes.<name>.python in trtbench.toml"
        raise UnavailableError(
            f"there is no Python interpreter at {python}",
            fix=f"--python {inside}" if inside.is_file() else fix,
        )
    version, missing = _probe(python)
    here, oldest = ".".join(map(str, version)), ".".join(map(str, OLDEST))
    if version < OLDEST:
        raise UnavailableError(
            "the other interpreter is too old for a worker",
            facts={"interpreter": python, "Python": here, "needed": oldest},
            fix=f"--python PATH of Python {oldest} or later",
        )
    if missing:
        raise UnavailableError(
            "the other interpreter lacks packages that a worker needs",
            facts={"interpreter": python, "missing": " ".join(missing)},
            fix=f"{python} -m pip install {' '.join(missing)}",
        )


def can_import(python: str, module: str) -> bool:
    try:
        return not _probe(python, (module,))[1]
    except UnavailableError:
        return False


def _probe(python: str, needs: tuple[str, ...] = WORKER_NEEDS) -> tuple[tuple[int, ...], list[str]]:
    """Return the version of an interpreter, new or very old, and the packages that it lacks."""
    command = [python, "-c", _PROBE.format(needs=needs, word=_WORD)]
    with temporary_folder() as folder:
        log = folder / "log.txt"
        try:
            # Importing numpy from a cold disk takes seconds; a minute means that it hangs.
            run_process(command, log=log, timeout_s=60.0, env=worker_environment(python))
            lines = tail(log)
        except OSError as problem:
            lines = (str(problem.strerror),)
    for line in lines:
        word, *facts = line.split() or [""]
        if word == _WORD:
            return tuple(int(part) for part in facts[0].split(".")), facts[1:]
    raise UnavailableError(
        f"{python} is not a working Python interpreter",
        facts={"output": next(filter(None, lines), "none")},
        fix="--python PATH of an interpreter, such as ENVIRONMENT/bin/python",
    )


def _is_own(python: str | None) -> bool:
    return python is None or Path(python).absolute() == Path(sys.executable).absolute()


def environment_for(python: str | None, given: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a process in an interpreter should inherit."""
    if _is_own(python):
        return dict(given)

    def is_plain(folder: str) -> bool:
        found = (Path(folder).glob(f"{way}.cpython-*.so") for way in ("*/*", "*/*/*"))
        try:
            return not any(True for _ in chain.from_iterable(found))
        except OSError:
            return True

    kept = {name: value for name, value in given.items() if name != "PYTHONHOME"}
    if "PYTHONPATH" in kept:
        folders = filter(is_plain, kept["PYTHONPATH"].split(os.pathsep))
        kept["PYTHONPATH"] = os.pathsep.join(folders)
    return kept


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """One job with its folder and the interpreter it runs in."""

    job: Job
    folder: Path
    python: str | None = None
    descriptors: tuple[int, ...] = ()
    """Shared with other jobs, to take turns and to wait for each other."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """More environment variables of its process."""


def run_jobs(
    assignments: Sequence[Assignment],
    *,
    timeout_s: float | None = None,
    memory_bytes: int | None = None,
    on_stage: Callable[[str], None] | None = None,
    on_started: Callable[[], None] | None = None,
    on_done: Callable[[], None] | None = None,
    tick_s: float | None = None,
    on_tick: Callable[[], None] | None = None,
) -> list[JobEnd]:
    """Run jobs at once, each in a fresh process; ``on_done``: the results of all are complete."""
    stages = ["start"] * len(assignments)
    errors: list[ReportedError | None] = [None] * len(assignments)

    def handle_line(mine: int, line: str) -> None:
        if line.startswith("{"):  # an error that does not fit on a full disk
            errors[mine] = value_from_json(line, ReportedError, where="the worker's pipe")
            return
        if not line.startswith(PROGRESS_MARK):
            stages[mine] = line
        if on_stage is not None and line != DONE:
            on_stage(line)
        if line == DONE and on_done is not None and all(each == DONE for each in stages):
            on_done()

    def start(mine: int) -> Child:
        each = assignments[mine]
        folder, numbers = each.folder, each.descriptors
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "job.json").write_bytes(json_from_value(each.job))
            (folder / "log.txt").touch()
        arguments = [str(folder / "job.json"), str(folder), "{events}", *map(str, numbers)]
        try:
            return Child(
                [*worker_command(each.python), *arguments],
                log=folder / "log.txt",
                env={**worker_environment(each.python), **each.variables},
                memory_bytes=memory_bytes,
                pass_fds=numbers,
                on_line=partial(handle_line, mine),
                last_line=DONE,
            )
        except OSError as problem:
            raise UnavailableError(
                "no process can be started for the measurement", facts={"reason": problem}
            ) from None

    starts = [partial(start, mine) for mine in range(len(assignments))]
    exits = run_together(
        starts, timeout_s=timeout_s, on_started=on_started, tick_s=tick_s, on_tick=on_tick
    )
    ends = zip(exits, assignments, stages, errors, strict=True)
    return [_job_end(ended, each.folder, stage, error) for ended, each, stage, error in ends]


def _job_end(ended: Exit, folder: Path, stage: str, error: ReportedError | None) -> JobEnd:
    try:
        data = (folder / "error.json").read_bytes()
        error = value_from_json(data, ReportedError, where=str(folder / "error.json"))
    except (OSError, TrtbenchError):  # no file, or a partial one on a full disk
        pass
    results = ("outcome.json", "*/outcome.json", "outputs.npz")
    left = any(True for pattern in results for _ in folder.glob(pattern))
    if error is None and (ended.status == 0 or stage == DONE) and not left:
        error = ReportedError(kind="bug", message="it ended without a result", stage=stage)
    # The last lines of the worker, or of the program that it had started.
    logs = [folder / "log.txt", *sorted(folder.glob("*.log"))]
    lines = (error.log_tail if error else ()) or next(filter(None, map(tail, logs)), ())
    return JobEnd(
        seconds=ended.seconds,
        stage=error.stage if error else stage,
        exit_status=ended.status,
        signal=ended.signal,
        timed_out=ended.timed_out,
        error=error,
        log_tail=tuple(map(mask, lines)),
    )
