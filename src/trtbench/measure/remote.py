"""Send runs and verbs to an executor, and keep what comes back as if it had been done here."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trtbench.core import safety as boundary
from trtbench.core.codec import learned
from trtbench.core.errors import StoreError, TrtbenchError, writing
from trtbench.core.run import AnyRecord, FailedRun, Run
from trtbench.core.spec import ModelRef, RunSpec
from trtbench.executors import ANSWER, with_own_names
from trtbench.executors.contract import AGAIN, WAITING, Needs, RemoteJob
from trtbench.host.files import remove_abandoned, scratch_directory, temporary_folder
from trtbench.measure.input_files import InputFiles
from trtbench.measure.jobs import device_of, job_error
from trtbench.models.identity import demand_unchanged, model_ref
from trtbench.models.torch_models import is_named
from trtbench.requests.accuracy import RunningFields
from trtbench.requests.execution import PATIENCE_S, Event, Execution, expected_s
from trtbench.requests.fields import fields_of, settled
from trtbench.requests.groups import ExecutorFields
from trtbench.requests.run_spec import first_choice, pick
from trtbench.requests.settings import Config, cached_from_run
from trtbench.store.directory import RECORD, new_id, read_record, read_run, write_record
from trtbench.store.store import Store

T = TypeVar("T")


def run_elsewhere(spec: RunSpec, store: Store, execution: Execution) -> Run:
    """Send a run away and store what comes back; one that failed there is on record here."""
    run_id = execution.run_id or new_id()
    job = job_from_spec(spec, run_id, execution)
    target = store.directory(run_id, output=execution.output)
    with store.new_run(run_id, output=execution.output) as folder:
        send(job, folder, execution)
        # The model is named as it is called here; where it was measured is in the environment.
        write_record(folder, record_of(run_id, folder).having(spec=spec))
    return take_in(store, target)


def send(job: RemoteJob, folder: Path, execution: Execution, *, output: Path | None = None) -> None:
    """Have a job carried out; an error names files as they are called here."""

    def notify(text: str) -> None:  # that it waits or begins again is said also in a log
        if text.startswith(WAITING):
            execution.listen(Event(kind="wait", text=text))
        else:
            execution.listen(Event(kind="note" if text.endswith(AGAIN) else "stage", text=text))

    try:
        execution.executor.run(job, folder=folder, notify=notify)
    except TrtbenchError as problem:
        names = partial(with_own_names, files=job.files, output=output or folder)
        problem.facts = {key: str(names(value)) for key, value in problem.facts.items()}
        problem.message = str(names(problem.message))
        problem.fix = problem.fix and str(names(problem.fix))
        problem.log_tail = tuple(str(names(line)) for line in problem.log_tail)
        raise


def record_of(run_id: str, folder: Path) -> AnyRecord:
    """Read the record of a run that came back; another's would take its place in the index."""
    record = read_record(folder)
    if record.id != run_id:
        (folder / RECORD).unlink()
        raise StoreError(
            "what came back is another run", facts={"asked for": run_id, "came": record.id}
        )
    return record


def take_in(store: Store, target: Path) -> Run:
    """Put a run that came back into the index; one that failed there is raised."""
    kept = read_run(target)
    if isinstance(kept, FailedRun):
        store.add(kept, path=target)
        raise job_error(kept, target)
    store.add(kept.record, path=target, cached=cached_from_run(kept))
    return kept


def job_from_spec(
    spec: RunSpec, run_id: str, execution: Execution, files: InputFiles | None = None
) -> RemoteJob:
    """Put into one value all that a machine must know to measure a run."""
    demand_unchanged(spec.model)
    files = files or InputFiles()
    own = files.spec(spec)
    launch_s = execution.timeout_s or expected_s(spec) + PATIENCE_S
    batch = f", batch {spec.batch}" if spec.batch else ""
    return _job(
        execution,
        files,
        id=run_id,
        title=f"bench {spec.model.name}, {spec.runtime}{batch}",
        spec=own,
        python=execution.python,
        limit_s=(spec.launches + 1) * launch_s + PATIENCE_S,
        needs=(execution.needs or Needs()).having(gpu=device_of(spec) != "cpu"),
    )


def _job(execution: Execution, files: InputFiles, **own: Any) -> RemoteJob:
    return RemoteJob(
        files=files.groups,
        code=tuple(files.code),
        command=execution.command,
        memory_bytes=execution.memory_bytes,
        timeout_s=execution.timeout_s,
        tags=execution.tags,
        **own,
    )


def run_verb_elsewhere(
    verb: str,
    request: ExecutorFields,
    kind: type[T],
    *,
    gpu: bool,
    config: Config,
    execution: Execution,
    output: Path | None = None,
    take: Callable[[T, Path], T] = lambda value, folder: value,
) -> T:
    """Have a verb carried out by an executor; what it wrote is written here.

    ``take`` gets the answer and the folder of what came before it is put in place.
    """
    files = InputFiles(
        task=getattr(request, "task", None), settings=getattr(request, "settings", None)
    )
    stays = {field.name for field in fields_of(ExecutorFields)}
    said = files.request(settled(request, config.defaults))
    named = [f.name for f in fields_of(type(request)) if f.about.travels == "model"]
    given = [getattr(request, name) for name in named]
    models = [
        Path(str(each)).name
        for one in given
        for each in ([one] if isinstance(one, str | Path) else one or ())
    ]
    with temporary_folder() as folder:
        place = output.absolute().parent if output else folder
        try:
            answer = send_verb(
                verb,
                {name: value for name, value in said.items() if name not in stays},
                folder,
                files=files,
                execution=execution,
                gpu=gpu,
                result=output.name if output else None,
                output=place,
                title=f"{verb} {', '.join(models)}",
            )
        except TrtbenchError:
            if output is not None:  # the log of what failed, which the error names
                with contextlib.suppress(StoreError):
                    _put(folder / "output", output.absolute())
            raise
        value = take(value_of_answer(answer, kind, files=files, output=place), folder / "output")
        if output is not None:
            _put(folder / "output", output.absolute())
        return value


def send_verb(
    verb: str,
    arguments: dict[str, object],
    folder: Path,
    *,
    files: InputFiles,
    execution: Execution,
    gpu: bool,
    title: str | None = None,
    machine: str | None = None,
    result: str | None = None,
    output: Path | None = None,
) -> object:
    """Have a verb carried out; returns its answer, with its files in the folder.

    ``result`` is the name of what it writes, ``output`` the folder where that will be here.
    """
    job = _job(
        execution,
        files,
        id=new_id(),
        title=title or verb,
        verb=verb,
        arguments=arguments,
        output=result,
        needs=(execution.needs or Needs()).having(gpu=gpu, machine=machine),
    )
    send(job, folder, execution, output=output)
    data = boundary.read_bytes(folder / ANSWER)
    try:
        answer = msgspec.msgpack.decode(data)
        boundary.check_parts(answer, where="what came back")
        return answer
    except (msgspec.DecodeError, RecursionError, ValueError) as problem:
        raise StoreError("what came back is damaged", facts={"reason": problem}) from None


def value_of_answer(answer: object, kind: type[T], *, files: InputFiles, output: Path) -> T:
    """Read an answer, with the names that files have here."""
    own = with_own_names(answer, files=files.groups, output=output)
    try:
        return msgspec.convert(own, type=learned(kind))
    except msgspec.ValidationError as problem:
        raise StoreError("what came back is no answer", facts={"reason": problem}) from None


def sides_need_gpu(request: RunningFields, models: Sequence[str]) -> bool:
    """Return whether one of several models needs a GPU."""
    runtimes = (pick(request.runtime, n, len(models), what="-r") for n in range(len(models)))
    return any(
        needs_gpu(model, runtime, device=request.device, options=request.options)
        for model, runtime in zip(models, runtimes, strict=True)
    )


def needs_gpu(
    model: str,
    runtime: str | None,
    *,
    device: str | None = None,
    options: Mapping[str, str] | None = None,
) -> bool:
    """Return whether a runtime, or the first choice for a model, computes on a GPU."""
    reference = ModelRef(path=model, format="torch") if is_named(model) else model_ref(Path(model))
    name = runtime or first_choice(reference.format)
    if not name:
        return False
    spec = RunSpec(model=reference, runtime=name, device=device, options=dict(options or {}))
    return device_of(spec) != "cpu"


def _put(source: Path, output: Path) -> None:
    """Put what a verb wrote where it was asked for, each file whole, what was named last.

    A machine that sends files of other names would write into the folder of whoever asked. A record
    beside a model is left out: it is written here, where another's may have its name.
    """
    record = output.with_suffix(".json").name
    found = [str(each.relative_to(source)) for each in source.rglob("*") if each.is_file()]
    names = [name for name in found if name != record or name == output.name]
    for name in names:
        first = Path(name).parts[0]
        if first != output.name and not first.startswith(f"{output.name}."):
            raise StoreError(
                "more came back than was asked for",
                facts={"asked for": output.name, "came": boundary.shown(name)},
            )
    if not names:
        return
    with writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(output.parent)
        with scratch_directory(output.parent) as folder:
            for name in sorted(names, reverse=True):
                first, *rest = Path(name).parts
                target = output.with_name(first)
                if rest:
                    target = boundary.inside(target, str(Path(*rest)), what="file", where=output)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source / name, folder / "file")
                (folder / "file").replace(target)
