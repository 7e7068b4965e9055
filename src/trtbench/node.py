"""The far end of an executor: ``python -m trtbench.node request.json outdir [events]``.

Measures one run as ``trtbench bench`` does, with the locks, the environment and the counters of the
machine it is on, and leaves the run's directory, or ``error.json``, in the folder. With ``-`` for
events it writes them to standard output, and ends when standard input does: the sender is gone.
"""

from __future__ import annotations

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
    """Carry out one job; the status is 0 when there is a run, failed ones included."""
    path, folder = Path(arguments[0]).absolute(), Path(arguments[1]).absolute()
    notify = _notifier(arguments[2] if len(arguments) > 2 else None, folder)
    job = None
    try:
        job = value_from_json(boundary.read_bytes(path), RemoteJob, where=str(path))
        _carry_out(job, folder, notify)
    except TrtbenchError as problem:
        if isinstance(problem, JobError) and (folder / RUN / "run.json").is_file():
            return 0  # a failed run is a run
        reported = ReportedError.of(problem)
        if job is not None:
            reported = msgspec.convert(_hidden(reported, job, folder), type=ReportedError)
    except Exception as problem:
        traceback.print_exc()
        reported = ReportedError(kind="bug", message=repr(problem))
    else:
        return 0
    (folder / ERROR).write_bytes(json_from_value(reported))
    return EXIT_REPORTED


def _carry_out(job: RemoteJob, folder: Path, notify: Notify) -> None:
    if job.version != __version__:
        raise UnavailableError(
            "a machine has another trtbench than the one that sends",
            facts={"there": __version__, "here": job.version},
            fix="let its Python heed PYTHONPATH, or install the same version there",
        )
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
            from trtbench.sweep.run import carry_out_case

            value: object = carry_out_case(
                job.arguments, folder=folder, output=output, config=config, execution=execution
            )
        else:
            value = _verb(job, output, folder / "store", execution)
            if isinstance(value, Artefact) and execution.machine:
                value = value.having(host=execution.machine)
        plain = _hidden(value, job, folder)
        (folder / RUN / ANSWER).write_bytes(msgspec.msgpack.encode(plain))  # last: it is complete
        return
    store = Store(folder / "store")
    python = job.python or config.python_for(job.spec.runtime)
    if job.turns is None:
        alone = replace(execution, python=python, output=folder / RUN, run_id=job.id)
        run_bench(job.spec, store=store, execution=alone)
        return
    from trtbench.compare.compare import play_sides
    from trtbench.compare.turns import Sides
    from trtbench.requests.measure import CompareRequest

    spec, turns = job.spec, job.turns
    request = CompareRequest(
        baseline=spec.model.path,
        candidates=[turns.spec.model.path],
        cuda_graph=spec.cuda_graph,  # settled where it was requested
        **turns.asked,  # type: ignore[arg-type]
    )
    other = turns.python or config.python_for(turns.spec.runtime)
    sides = Sides(baseline=spec, candidate=turns.spec, pythons=(python, other))
    pair = play_sides(sides, store=store, request=request, execution=execution)
    (folder / RUN).mkdir()
    for side, run in enumerate((pair.baseline, pair.candidate)):  # the second is moved last
        assert run.path is not None
        run.path.rename(folder / RUN / str(side))


def _hidden(value: object, job: RemoteJob, folder: Path) -> object:
    """Leave the places of this machine out of a value, for the way back."""
    files = Path(job.placed) if job.placed else folder / "files"
    return with_marks(msgspec.to_builtins(value), files=files, output=folder / RUN / OUTPUT)


def _verb(job: RemoteJob, output: Path, store: Path, execution: Execution) -> object:
    if job.verb not in VERBS:
        raise UsageError(f"no machine does {boundary.shown(str(job.verb))} for another")
    module = importlib.import_module(f"trtbench.verbs.{job.verb.replace('evaluate', 'eval')}")
    kind = getattr(module, module.run.__annotations__["request"])
    asked = dict(job.arguments)
    if job.output is not None:
        asked["output"] = boundary.inside(output, job.output, what="output", where="the request")
    if issubclass(kind, StoreFields):
        asked["store"] = store
    for field in fields_of(kind):
        if field.name not in asked:
            continue
        if field.about.travels == "cache":  # beside the output, it comes back
            beside = f"{asked['output']}.{field.name.replace('_', '.')}"
            asked[field.name] = shutil.copyfile(str(asked[field.name]), beside)
        if isinstance(field.default, tuple):
            asked[field.name] = tuple(msgspec.convert(asked[field.name], type=list))
    caller = Caller(progress=lambda title: contextlib.nullcontext(execution.listen))
    return module.run(kind(**asked), caller)


def _notifier(events: str | None, folder: Path) -> Notify:
    if events is None:
        return lambda text: None

    def end_with_input() -> None:  # the kernel then ends the worker
        with contextlib.suppress(OSError):
            while os.read(0, 4096):
                pass
        shutil.rmtree(folder, ignore_errors=True)  # what was measured is not wanted any more
        os._exit(1)

    if events == "-":
        threading.Thread(target=end_with_input, daemon=True).start()
    descriptor = 1 if events == "-" else int(events)

    def notify(text: str) -> None:
        with contextlib.suppress(OSError):
            os.write(descriptor, " ".join(text.split()).encode() + b"\n")

    return notify


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
