"""Runs a job that another machine sent: ``python -m trtbench.node request.json outdir [events]``.

Measures as ``trtbench bench`` does, with the locks, the environment and the counters of this
machine, and writes the run directory, or ``error.json``, to the folder. If events is ``-``, they go
to standard output, and the process exits when standard input closes, because the sender is gone.
"""

import contextlib
import importlib
import os
import shutil
import sys
import threading
import traceback
from dataclasses import replace
from pathlib import Path

import msgspec

from trtbench.core import safety as boundary
from trtbench.core.codec import json_from_value, value_from_json
from trtbench.core.errors import JobError, TrtbenchError, UnavailableError, UsageError
from trtbench.core.jobs import ReportedError
from trtbench.core.results import Artefact
from trtbench.executors import ANSWER, with_marks
from trtbench.executors.contract import Notify, RemoteJob
from trtbench.measure.bench import run_bench
from trtbench.requests.execution import Execution
from trtbench.requests.fields import StoreFields, fields_of
from trtbench.requests.settings import load_config
from trtbench.store.store import Store
from trtbench.verbs._verb import Caller
from trtbench.version import __version__

RUN, ERROR, OUTPUT = "run", "error.json", "output"
EXIT_REPORTED = 3
CASE = "case"
VERBS = ("build", "check", "evaluate", "quantize")


def main(arguments: list[str]) -> int:
    """Run one job; returns 0 if it left a run, even a failed one, else 3."""
    path, folder = Path(arguments[0]).absolute(), Path(arguments[1]).absolute()
    notify = _notifier(arguments[2] if len(arguments) > 2 else None, folder)
    job = None
    try:
        job = value_from_json(boundary.read_bytes(path), RemoteJob, where=str(path))
        _run_job(job, folder, notify)
    except TrtbenchError as problem:
        if isinstance(problem, JobError) and (folder / RUN / "run.json").is_file():
            return 0  # a failed run is a run
        reported = ReportedError.from_error(problem)
        if job is not None:
            plain = _without_local_paths(reported, job, folder)
            reported = msgspec.convert(plain, type=ReportedError)
    except Exception as problem:
        traceback.print_exc()
        reported = ReportedError(kind="bug", message=repr(problem))
    else:
        return 0
    (folder / ERROR).write_bytes(json_from_value(reported))
    return EXIT_REPORTED


def _run_job(job: RemoteJob, folder: Path, notify: Notify) -> None:
    if job.version != __version__:
        message = "the other machine has a different version of trtbench"
        fix = "install the same version there, or make sure that its Python reads PYTHONPATH"
        raise UnavailableError(message, facts={"there": __version__, "here": job.version}, fix=fix)
    if job.code:
        path = [*job.code, *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
    config = load_config()
    execution = Execution(
        machine=config.machine or (job.machine and boundary.check_tag(job.machine)),
        timeout_s=job.timeout_s,
        memory_bytes=job.memory_bytes,
        command=job.command,
        tags=job.tags,
        listen=lambda event: notify(event.text) if event.kind != "tick" else None,
    )
    if job.spec is None:
        output = folder / RUN / OUTPUT
        output.mkdir(parents=True)
        if job.verb == CASE:
            from trtbench.sweep.run import run_case

            value: object = run_case(
                job.arguments, folder=folder, output=output, config=config, execution=execution
            )
        else:
            value = _run_verb(job, output, folder / "store", execution)
            if isinstance(value, Artefact) and execution.machine:
                value = value.having(host=execution.machine)
        plain = _without_local_paths(value, job, folder)
        # Written last: the sender takes the answer as the sign that all files are complete.
        (folder / RUN / ANSWER).write_bytes(msgspec.msgpack.encode(plain))
        return
    store = Store(folder / "store")
    python = job.python or config.python_for(job.spec.runtime)
    if job.turns is None:
        execution = replace(execution, python=python, output=folder / RUN, run_id=job.id)
        run_bench(job.spec, store=store, execution=execution, search=job.search)
        return
    from trtbench.compare.compare import Asked
    from trtbench.compare.turns import Sides
    from trtbench.requests.measure import CompareRequest

    spec, turns = job.spec, job.turns
    request = CompareRequest(
        baseline=spec.model.path,
        candidates=[turns.spec.model.path],
        cuda_graph=spec.cuda_graph,  # already resolved by the sender
        **turns.asked,  # type: ignore[arg-type]
    )
    other = turns.python or config.python_for(turns.spec.runtime)
    sides = Sides(baseline=spec, candidate=turns.spec, pythons=(python, other))
    asked = Asked(request=request, store=store, config=config, execution=execution)
    pair = asked.measure_in_turn(sides)
    (folder / RUN).mkdir()
    for side, run in enumerate((pair.baseline, pair.candidate)):  # the second is moved last
        assert run.path is not None
        run.path.rename(folder / RUN / str(side))


def _without_local_paths(value: object, job: RemoteJob, folder: Path) -> object:
    """Return a value for the sender, with marks in place of the paths of this machine."""
    files = Path(job.placed) if job.placed else folder / "files"
    return with_marks(msgspec.to_builtins(value), files=files, output=folder / RUN / OUTPUT)


def _run_verb(job: RemoteJob, output: Path, store: Path, execution: Execution) -> object:
    if job.verb not in VERBS:
        raise UsageError(f"{boundary.shown(str(job.verb))} cannot run on another machine")
    module = importlib.import_module(f"trtbench.verbs.{job.verb.replace('evaluate', 'eval')}")
    kind = getattr(module, module.run.__annotations__["request"])
    values = dict(job.arguments)
    if job.output is not None:
        values["output"] = boundary.inside(output, job.output, what="output", where="the request")
    if issubclass(kind, StoreFields):
        values["store"] = store
    for field in fields_of(kind):
        if field.name not in values:
            continue
        if field.about.travels == "cache":  # copied next to the output, so that it is sent back
            copy = f"{values['output']}.{field.name.replace('_', '.')}"
            values[field.name] = shutil.copyfile(str(values[field.name]), copy)
        if isinstance(field.default, tuple):
            values[field.name] = tuple(msgspec.convert(values[field.name], type=list))
    caller = Caller(progress=lambda title: contextlib.nullcontext(execution.listen))
    return module.run(kind(**values), caller)


def _notifier(events: str | None, folder: Path) -> Notify:
    if events is None:
        return lambda text: None

    def exit_when_input_closes() -> None:  # the kernel then ends the worker
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        shutil.rmtree(folder, ignore_errors=True)  # nobody is left to fetch the results
        os._exit(1)

    if events == "-":
        threading.Thread(target=exit_when_input_closes, daemon=True).start()
    descriptor = 1 if events == "-" else int(events)

    def notify(text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(descriptor, " ".join(text.split()).encode() + b"\n")

    return notify


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
