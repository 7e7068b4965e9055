"""Send runs and verbs to an executor with the files that they name, and keep what comes back.

Fields of requests say by ``travels`` what they name; options of runtimes say it in ``TRAVELS``.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from trtbench.core import safety as boundary
from trtbench.core.codec import learned
from trtbench.core.errors import InputError, StoreError, TrtbenchError, writing
from trtbench.core.run import AnyRecord
from trtbench.core.safety import is_inside
from trtbench.core.spec import InputSpec, ModelRef, RunSpec
from trtbench.core.words import Scalar
from trtbench.executors import ANSWER, FILE_MARK, with_own_names
from trtbench.executors.contract import AGAIN, WAITING, FileGroup, Needs, RemoteJob
from trtbench.host.files import remove_abandoned, scratch_directory, temporary_folder
from trtbench.host.images import SUFFIXES
from trtbench.models.identity import (
    demand_unchanged,
    files_elsewhere,
    model_ref,
    read_sidecar,
    record_of_engine,
)
from trtbench.models.torch_models import code_of_factory, code_of_hub, is_named
from trtbench.requests.execution import PATIENCE_S, Event, Execution, expected_s
from trtbench.requests.fields import ExecutorFields, Travels, VerbRequest, fields_of, settled
from trtbench.requests.measure import BenchRequest
from trtbench.requests.models import RecipeFields, RunningFields
from trtbench.requests.run_spec import first_choice, pick
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES, device_of
from trtbench.store.directory import RECORD, new_id, read_record
from trtbench.tasks import TASKS
from trtbench.tasks.contract import calibrating

T = TypeVar("T")
WORDS = ("random", "default", "none")
"""What stands for no file, even where there is one of this name."""
LABELS = (".txt", ".json")
"""What is sent, besides images, of a folder that data only name."""
_HOOK = re.compile(r"(.+\.py):(\w+)")


class InputFiles:
    """The files of a job, in groups with the same names on all machines."""

    def __init__(
        self, *, task: str | None = None, settings: Mapping[str, Scalar] | None = None
    ) -> None:
        self.groups: dict[str, FileGroup] = {}
        self.code: list[str] = []
        self._task = task
        self._settings = settings or {}

    def request(self, request: VerbRequest) -> dict[str, object]:
        return {
            field.name: self.take(field.about.travels, value)
            for field in fields_of(type(request))
            if (value := getattr(request, field.name)) is not None
            if value != field.default and not field.about.stays
        }

    def spec(self, spec: RunSpec) -> RunSpec:
        """Return a spec with its files as they are called on all machines."""
        fields = {each.name: each.about.travels for each in fields_of(BenchRequest)}
        changes = {
            name: self.take(fields[name], getattr(spec, name))
            for name in RunSpec.__struct_fields__
            if fields.get(name) not in (None, "model", "as-is")
        }
        model = spec.model
        known = {  # by options, for one
            str(Path(group.folder, inner)): f"{FILE_MARK}{number}/{inner}"
            for number, group in self.groups.items()
            for inner in group.names
        }
        outside = {
            name: known.get(name) or self.file(Path(name)) for name in files_elsewhere(model)
        }
        path = self.model(model.path) if is_named(model.path) else self._files_of(model)
        files = tuple(each.having(name=outside.get(each.name, each.name)) for each in model.files)
        return spec.having(**changes, model=model.having(path=path, files=files))

    def axes(self, values: Mapping[str, object]) -> dict[str, object]:
        """Add what axes of a sweep name: ``opt.KEY`` and ``build.KEY``."""
        build = {f"build.{each.name}": each.about.travels for each in fields_of(RecipeFields)}
        known = {**build, **{f"opt.{key}": travels for key, travels in _option_kinds().items()}}
        return {name: self.take(known.get(name), value) for name, value in values.items()}

    def take(self, travels: Travels | None, value: object) -> object:
        """Add the files a value names; returns the value that means the same everywhere."""
        if isinstance(value, InputSpec):
            source, settings = value.source, self._of_task(value.task, value.settings)
            return value.having(source=self.take("file", source), settings=settings)
        if isinstance(value, Mapping):
            kinds = _option_kinds() if travels == "options" else {}
            own = self._of_task(self._task, value) if travels == "settings" else value
            return {str(k): self.take(kinds.get(k.rpartition(":")[2]), v) for k, v in own.items()}
        if isinstance(value, list | tuple):
            return [self.take(travels, each) for each in value]
        if isinstance(value, Path) or (travels and isinstance(value, str)):
            return self._named(travels, str(value))
        return value

    def _named(self, travels: Travels | None, name: str) -> str:
        if travels == "model":
            return self.model(name)
        if travels == "code":  # of ``module:function``, where it is the user's own
            root, files = code_of_factory(name)
            if files:
                folder = root.absolute()
                names = [str(each.absolute().relative_to(folder)) for each in files]
                mark = self._group(folder, names)
                self.code += [] if mark in self.code else [mark]
            return name
        if travels == "files":  # each may have a label before it
            parts = [
                each.rpartition(":") if not _is_there(each) else ("", "", each)
                for each in name.split(",")
            ]
            return ",".join(f"{a}{colon}{self._named('file', b.strip())}" for a, colon, b in parts)
        if travels in (None, "as-is") or name in WORDS or not _is_there(name):
            return name
        data = travels in ("data", "calibration") and self._task is not None
        return self._data(name, travels) if data else self.file(Path(name))

    def file(self, path: Path) -> str:
        """Add a file or a folder; returns the text that stands for it."""
        path = _absolute(path)
        return f"{self._group(path.parent, [path.name])}/{path.name}"

    def model(self, name: str) -> str:
        """Add a model with what belongs to it; one that a library has by name stays."""
        if is_named(name):
            if code_of_hub(name) is not None:
                raise InputError(
                    "a repository of torch.hub in a folder of this machine does not travel",
                    facts={"model": name},
                    fix="trtbench export makes an ONNX file of it, which does",
                )
            return name
        return self._files_of(model_ref(_absolute(Path(name)), folders=True))

    def _files_of(self, model: ModelRef) -> str:
        path = Path(model.path)
        names = [path.name]
        if model.format != "folder":
            names += [each.name for each in model.files if not Path(each.name).is_absolute()]
        known = record_of_engine(model) is not None or read_sidecar(path) is not None
        for beside in (f"{path.name}.json", path.with_suffix(".json").name):
            names += [beside] if known and (path.parent / beside).is_file() else []
        return f"{self._group(path.parent, names)}/{path.name}"

    def _data(self, name: str, travels: Travels | None) -> str:
        """Add data, and what their task reads beside them."""
        path = _absolute(Path(name))
        task = TASKS.load(str(self._task))
        settings = {**self._settings, "data": str(path)}
        if travels == "calibration":
            settings = calibrating(task.FLAGS, settings)
        images = path.is_dir() or path.suffix.lower() not in (".npz", ".npy")
        found = task.read_beside(settings) if task.read_beside and images else ()
        beside = [
            Path(os.path.normpath(each.absolute()))
            for each in found
            if each.suffix != ".py"
            and not (path.is_dir() and (each.absolute() == path or is_inside(path, each)))
        ]
        if not beside:
            return self.file(path)
        root = Path(os.path.commonpath([path.parent, *(each.parent for each in beside)]))
        names = [path]
        for each in beside:  # of folders outside of the data's own, only images and labels
            if each.is_relative_to(path.parent) or not each.is_dir():
                names.append(each)
            else:
                names += sorted(
                    one for one in each.iterdir() if one.suffix.lower() in (*SUFFIXES, *LABELS)
                )
        inner = [str(each.relative_to(root)) for each in dict.fromkeys(names)]
        return f"{self._group(root, inner)}/{inner[0]}"

    def _of_task(self, task: str | None, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        flags = TASKS.load(task).FLAGS if task else ()
        words = {flag.key for flag in flags if flag.choices}
        found = dict(settings)
        for key, value in settings.items():
            if not isinstance(value, str) or key in words:
                continue
            hook = _HOOK.fullmatch(value)
            if hook is not None and Path(hook[1]).is_file():
                found[key] = f"{self.file(Path(hook[1]))}:{hook[2]}"
            elif _is_there(value):
                found[key] = self.file(Path(value))
        return found

    def _group(self, folder: Path, names: Sequence[str]) -> str:
        group = FileGroup(folder=str(folder), names=tuple(names))
        same = (number for number, each in self.groups.items() if each == group)
        known = next(same, str(len(self.groups)))
        self.groups[known] = group
        return f"{FILE_MARK}{known}"


def _option_kinds() -> dict[str, Travels]:
    found: dict[str, Travels] = {}
    for name in RUNTIMES.names():
        try:
            found |= cast("dict[str, Travels]", RUNTIMES.load(name).TRAVELS)
        except TrtbenchError:  # another package's broken one, reported where it is used
            continue
    return found


def _is_there(name: str) -> bool:
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # a name no file can have
        return False


def _absolute(path: Path) -> Path:
    """Name a file without ``..``, by its own name though it may be a link."""
    if path.name in ("", ".."):
        return path.resolve()
    return path.parent.resolve() / path.name if ".." in path.parts else path.absolute()


def send(job: RemoteJob, folder: Path, execution: Execution, *, output: Path | None = None) -> None:
    """Have a job carried out; an error names files as they are called here."""

    def notify(text: str) -> None:  # waiting and beginning again are shown in a log too
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
        facts = {"requested": run_id, "came": record.id}
        raise StoreError("what came back is another run", facts=facts)
    return record


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
    models: list[object] = []
    for field in fields_of(type(request)):
        if field.about.travels == "model":
            given = getattr(request, field.name) or ()
            models += [given] if isinstance(given, str | Path) else given
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
                title=f"{verb} {', '.join(Path(str(each)).name for each in models)}",
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
    own = with_own_names(answer, files=files.groups, output=output)
    try:
        return msgspec.convert(own, type=learned(kind))
    except msgspec.ValidationError as problem:
        raise StoreError("what came back is no answer", facts={"reason": problem}) from None


def sides_need_gpu(request: RunningFields, models: Sequence[str]) -> bool:
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
    """Put what a verb wrote where it was requested, each file whole, what was named last.

    A machine that sends files of other names would write into other files of the user. A record
    beside a model is left out: it is written here, where another's may have its name.
    """
    record = output.with_suffix(".json").name
    found = [str(each.relative_to(source)) for each in source.rglob("*") if each.is_file()]
    names = [name for name in found if name != record or name == output.name]
    for name in names:
        first = Path(name).parts[0]
        if first != output.name and not first.startswith(f"{output.name}."):
            raise StoreError(
                "more came back than was requested",
                facts={"requested": output.name, "came": boundary.shown(name)},
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
