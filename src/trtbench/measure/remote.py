"""Sends runs and verbs to an executor, with the files that they name, and fetches the results.

``travels`` of a request's field says what kind of file its value names; ``TRAVELS`` of a runtime
says it for the runtime's options.
"""

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
from trtbench.core.codec import prepared_for_decoding
from trtbench.core.errors import InputError, StoreError, TrtbenchError, writing
from trtbench.core.run import AnyRecord, LoadSearch
from trtbench.core.safety import is_inside
from trtbench.core.spec import InputSpec, ModelRef, RunSpec
from trtbench.core.words import Scalar
from trtbench.executors import ANSWER, FILE_MARK, with_local_paths
from trtbench.executors.contract import AGAIN, WAITING, FileGroup, Needs, RemoteJob
from trtbench.host.files import scratch_directory, temporary_folder
from trtbench.host.images import SUFFIXES
from trtbench.models import identity
from trtbench.models.torch_models import factory_code, hub_code_sha256, is_library_model
from trtbench.requests.execution import PATIENCE_S, Event, Execution, expected_s
from trtbench.requests.fields import ExecutorFields, Travels, VerbRequest, fields_of, with_settings
from trtbench.requests.measure import BenchRequest
from trtbench.requests.models import RecipeFields, RunningFields
from trtbench.requests.run_spec import first_choice, value_of_side
from trtbench.requests.settings import Config
from trtbench.runtimes import RUNTIMES, device_of
from trtbench.store.directory import RECORD, new_id, read_record
from trtbench.tasks import TASKS
from trtbench.tasks._feed import settled_task
from trtbench.tasks.contract import calibration_settings

T = TypeVar("T")
WORDS = ("random", "default", "none")
"""Values that never mean a file, even if there is one of this name."""
LABELS = (".txt", ".json")
"""Suffixes of files that are sent, besides images, from other folders that the data refer to."""
_HOOK = re.compile(r"(.+\.py):(\w+)")


class InputFiles:
    """The files of a job, in groups whose names are valid on every machine.

    Each ``add`` method returns its argument with such names in place of paths.
    """

    def __init__(
        self, *, task: str | None = None, settings: Mapping[str, Scalar] | None = None
    ) -> None:
        self.groups: dict[str, FileGroup] = {}
        self.code: list[str] = []
        self._task = task
        self._settings = settings or {}

    def add_request(self, request: VerbRequest) -> dict[str, object]:
        return {
            field.name: self.add_value(field.about.travels, value)
            for field in fields_of(type(request))
            if (value := getattr(request, field.name)) is not None
            if value != field.default and not field.about.stays
        }

    def add_spec(self, spec: RunSpec) -> RunSpec:
        fields = {each.name: each.about.travels for each in fields_of(BenchRequest)}
        fields["inputs"] = fields["data"]  # as a spec calls them
        changes = {
            name: self.add_value(fields[name], getattr(spec, name))
            for name in RunSpec.__struct_fields__
            if fields.get(name) not in (None, "model", "as-is")
        }
        model = spec.model
        known = {  # files that were added already, for example by options
            str(Path(group.folder, inner)): f"{FILE_MARK}{number}/{inner}"
            for number, group in self.groups.items()
            for inner in group.names
        }
        elsewhere = identity.files_elsewhere(model)
        outside = {name: known.get(name) or self.add_file(Path(name)) for name in elsewhere}
        named = is_library_model(model.path)
        path = self.add_model(model.path) if named else self._add_model_files(model)
        files = tuple(each.having(name=outside.get(each.name, each.name)) for each in model.files)
        return spec.having(**changes, model=model.having(path=path, files=files))

    def add_axes(self, values: Mapping[str, object]) -> dict[str, object]:
        """Add the files named by axes of a sweep, ``opt.KEY`` and ``build.KEY``."""
        build = {f"build.{each.name}": each.about.travels for each in fields_of(RecipeFields)}
        known = {**build, **{f"opt.{key}": travels for key, travels in _option_kinds().items()}}
        return {name: self.add_value(known.get(name), value) for name, value in values.items()}

    def add_value(self, travels: Travels | None, value: object) -> object:
        if isinstance(value, InputSpec):
            source, settings = value.source, self._add_settings(value.task, value.settings)
            return value.having(source=self.add_value("file", source), settings=settings)
        if isinstance(value, Mapping):
            kinds = _option_kinds() if travels == "options" else {}
            own = self._add_settings(self._task, value) if travels == "settings" else value
            keyed = ((kinds.get(key.rpartition(":")[2]), key, each) for key, each in own.items())
            return {str(key): self.add_value(kind, each) for kind, key, each in keyed}
        if isinstance(value, list | tuple):
            return [self.add_value(travels, each) for each in value]
        if isinstance(value, Path) or (travels and isinstance(value, str)):
            return self._add_name(travels, str(value))
        return value

    def _add_name(self, travels: Travels | None, name: str) -> str:
        if travels == "model":
            return self.add_model(name)
        if travels == "code":  # the module of ``module:function``, unless it is installed
            root, files = factory_code(name)
            if files:
                folder = root.absolute()
                names = [str(each.absolute().relative_to(folder)) for each in files]
                mark = self._add_group(folder, names)
                if mark not in self.code:
                    self.code.append(mark)
            return name
        if travels == "files":  # each may have a label before it
            words = name.split(",")
            parts = [("", "", each) if _exists(each) else each.rpartition(":") for each in words]
            return ",".join(f"{a}{sep}{self._add_name('file', b.strip())}" for a, sep, b in parts)
        if travels in (None, "as-is") or name in WORDS or not _exists(name):
            return name
        data = travels in ("data", "calibration") and self._task is not None
        return self._add_data(name, travels) if data else self.add_file(Path(name))

    def add_file(self, path: Path) -> str:
        path = _absolute(path)
        return f"{self._add_group(path.parent, [path.name])}/{path.name}"

    def add_model(self, name: str) -> str:
        """Add a model and the files that belong to it; names of library models are unchanged."""
        if is_library_model(name):
            if hub_code_sha256(name) is not None:
                message = "a local torch.hub repository cannot be sent to another machine"
                fix = "send an ONNX file: trtbench export makes one"
                raise InputError(message, facts={"model": name}, fix=fix)
            return name
        return self._add_model_files(identity.model_ref(_absolute(Path(name)), folders=True))

    def _add_model_files(self, model: ModelRef) -> str:
        path = Path(model.path)
        names = [path.name]
        if model.format != "folder":
            names += [each.name for each in model.files if not Path(each.name).is_absolute()]
        known = (
            identity.record_of_engine(model) is not None or identity.read_sidecar(path) is not None
        )
        for record in (f"{path.name}.json", path.with_suffix(".json").name):
            names += [record] if known and (path.parent / record).is_file() else []
        return f"{self._add_group(path.parent, names)}/{path.name}"

    def _add_data(self, name: str, travels: Travels | None) -> str:
        """Add data, and the other files that their task reads with them."""
        path = _absolute(Path(name))
        task = TASKS.load(str(self._task))
        settings = {**self._settings, "data": str(path)}
        if travels == "calibration":
            settings = calibration_settings(task.FLAGS, settings)
        images = path.is_dir() or path.suffix.lower() not in (".npz", ".npy")
        found = task.read_beside(settings) if task.read_beside and images else ()
        others = [
            Path(os.path.normpath(each.absolute()))
            for each in found
            if each.suffix != ".py"
            and not (path.is_dir() and (each.absolute() == path or is_inside(path, each)))
        ]
        if not others:
            return self.add_file(path)
        root = Path(os.path.commonpath([path.parent, *(each.parent for each in others)]))
        names, kinds = [path], (*SUFFIXES, *LABELS)
        for each in others:  # of folders outside the data's own folder, only images and labels
            if each.is_relative_to(path.parent) or not each.is_dir():
                names.append(each)
            else:
                names += sorted(one for one in each.iterdir() if one.suffix.lower() in kinds)
        inner = [str(each.relative_to(root)) for each in dict.fromkeys(names)]
        return f"{self._add_group(root, inner)}/{inner[0]}"

    def _add_settings(self, task: str | None, settings: Mapping[str, Scalar]) -> dict[str, Scalar]:
        flags = TASKS.load(task).FLAGS if task else ()
        words = {flag.key for flag in flags if flag.choices}
        found = dict(settings)
        for key, value in settings.items():
            if not isinstance(value, str) or key in words:
                continue
            hook = _HOOK.fullmatch(value)
            if hook is not None and Path(hook[1]).is_file():
                found[key] = f"{self.add_file(Path(hook[1]))}:{hook[2]}"
            elif _exists(value):
                found[key] = self.add_file(Path(value))
        return found

    def _add_group(self, folder: Path, names: Sequence[str]) -> str:
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
        except TrtbenchError:  # a broken plug-in of another package, reported when it is used
            continue
    return found


def _exists(name: str) -> bool:
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):  # no file can have this name
        return False


def _absolute(path: Path) -> Path:
    """Return an absolute path without ``..``; a link keeps its own name."""
    if path.name in ("", ".."):
        return path.resolve()
    return path.parent.resolve() / path.name if ".." in path.parts else path.absolute()


def send_job(
    job: RemoteJob, folder: Path, execution: Execution, *, output: Path | None = None
) -> None:
    """Run a job with the executor, results in the folder; paths in errors are the local ones."""

    def notify(text: str) -> None:  # waits and retries are shown in a log too
        if text.startswith(WAITING):
            execution.listen(Event(kind="wait", text=text))
        else:
            execution.listen(Event(kind="note" if text.endswith(AGAIN) else "stage", text=text))

    try:
        execution.executor.run(job, folder=folder, notify=notify)
    except TrtbenchError as problem:
        local = partial(with_local_paths, files=job.files, output=output or folder)
        problem.facts = {key: str(local(value)) for key, value in problem.facts.items()}
        problem.message = str(local(problem.message))
        problem.fix = problem.fix and str(local(problem.fix))
        problem.log_tail = tuple(str(local(line)) for line in problem.log_tail)
        raise


def read_returned_record(run_id: str, folder: Path) -> AnyRecord:
    """Read the record of a run that a machine sent back; raises if it is another run."""
    try:
        record = read_record(folder)
        if record.id == run_id:
            return record
        facts = {"requested": run_id, "received": record.id}
        raise StoreError("the machine sent back another run", facts=facts)
    except TrtbenchError:
        (folder / RECORD).unlink(missing_ok=True)  # with it, the folder would be kept as a run
        raise


def job_from_spec(
    spec: RunSpec,
    run_id: str,
    execution: Execution,
    files: InputFiles | None = None,
    search: LoadSearch | None = None,
) -> RemoteJob:
    """Return a job with everything that a machine needs to measure a run."""
    identity.raise_if_changed(spec.model)
    files = files or InputFiles()
    own = files.add_spec(spec)
    expected = search.budget_s if search else expected_s(spec)
    launch_s = execution.timeout_s or expected + PATIENCE_S
    batch = f", batch {spec.batch}" if spec.batch else ""
    return _make_job(
        execution, files, id=run_id, title=f"bench {spec.model.name}, {spec.runtime}{batch}",
        spec=own, search=search, python=execution.python,
        limit_s=(spec.launches + 1) * launch_s + PATIENCE_S,
        needs=(execution.needs or Needs()).having(gpu=device_of(spec) != "cpu"),
    )  # fmt: skip


def _make_job(execution: Execution, files: InputFiles, **fields: Any) -> RemoteJob:
    return RemoteJob(
        files=files.groups, code=tuple(files.code), command=execution.command,
        memory_bytes=execution.memory_bytes, timeout_s=execution.timeout_s, tags=execution.tags,
        **fields,
    )  # fmt: skip


def run_verb_remotely(
    verb: str,
    request: ExecutorFields,
    kind: type[T],
    *,
    gpu: bool,
    config: Config,
    execution: Execution,
    output: Path,
    take: Callable[[T, Path], T] = lambda value, folder: value,
) -> T:
    """Run a verb with an executor and write its output files here; returns its answer.

    ``take`` gets the answer and the folder of received files, before they are moved to the output.
    """
    models: list[object] = []
    for field in fields_of(type(request)):
        if field.about.travels == "model":
            given = getattr(request, field.name) or ()
            models += [given] if isinstance(given, str | Path) else given
    stated = (identity.model_ref(path) for path in map(Path, map(str, models)) if path.is_file())
    settings = getattr(request, "settings", None)
    task, _ = settled_task(getattr(request, "task", None), settings or {}, stated)
    files = InputFiles(task=task, settings=settings)
    stays = {field.name for field in fields_of(ExecutorFields)}
    arguments = files.add_request(with_settings(request, config.defaults))
    output = output.absolute()
    with temporary_folder() as folder:
        made = folder / "output"
        try:
            answer = send_verb(
                verb, {name: value for name, value in arguments.items() if name not in stays},
                folder, files=files, execution=execution, gpu=gpu, output=output,
                title=f"{verb} {', '.join(Path(str(each)).name for each in models)}",
            )  # fmt: skip
        except TrtbenchError:
            with contextlib.suppress(StoreError):  # the log, which the error names
                _copy_output(made, output)
            raise
        value = take(value_from_answer(answer, kind, files=files, output=output.parent), made)
        _copy_output(made, output)
        return value


def send_verb(
    verb: str,
    arguments: dict[str, object],
    folder: Path,
    *,
    files: InputFiles,
    execution: Execution,
    gpu: bool,
    title: str,
    machine: str | None = None,
    output: Path | None = None,
) -> object:
    """Run a verb with the executor; returns its answer, and puts its files into the folder.

    ``output`` is the local path of what it writes.
    """
    job = _make_job(
        execution, files, id=new_id(), title=title, verb=verb, arguments=arguments,
        output=output.name if output else None,
        needs=(execution.needs or Needs()).having(gpu=gpu, machine=machine),
    )  # fmt: skip
    send_job(job, folder, execution, output=output.parent if output else None)
    data = boundary.read_bytes(folder / ANSWER)
    try:
        answer = msgspec.msgpack.decode(data)
        boundary.check_parts(answer, where="the answer")
        return answer
    except (msgspec.DecodeError, RecursionError, ValueError) as problem:
        raise StoreError("the answer is damaged", facts={"reason": problem}) from None


def value_from_answer(answer: object, kind: type[T], *, files: InputFiles, output: Path) -> T:
    own = with_local_paths(answer, files=files.groups, output=output)
    try:
        return msgspec.convert(own, type=prepared_for_decoding(kind))
    except msgspec.ValidationError as problem:
        raise StoreError("the answer is not valid", facts={"reason": problem}) from None


def sides_need_gpu(request: RunningFields, models: Sequence[str]) -> bool:
    count = len(models)
    runtimes = (value_of_side(request.runtime, n, count, what="-r") for n in range(count))
    needs = partial(needs_gpu, device=request.device, options=request.options)
    return any(needs(model, runtime) for model, runtime in zip(models, runtimes, strict=True))


def needs_gpu(
    model: str, runtime: str | None, *, device: str | None, options: Mapping[str, str]
) -> bool:
    """Return whether a runtime, or the first choice for a model, computes on a GPU."""
    named = is_library_model(model)
    reference = ModelRef(path=model, format="torch") if named else identity.model_ref(Path(model))
    name = runtime or first_choice(reference.format)
    if not name:
        return False
    spec = RunSpec(model=reference, runtime=name, device=device, options=dict(options))
    return device_of(spec) != "cpu"


def _copy_output(source: Path, output: Path) -> None:
    """Copy the files that a verb wrote to the requested path, each file whole, the named one last.

    Files of other names are refused, because they could overwrite files of the user. The record of
    a model is left out: it is written on this machine, where its name may be taken.
    """
    record = output.with_suffix(".json").name
    found = [str(each.relative_to(source)) for each in source.rglob("*") if each.is_file()]
    names = [name for name in found if name != record or name == output.name]
    for name in names:
        first = Path(name).parts[0]
        if first != output.name and not first.startswith(f"{output.name}."):
            facts = {"requested": output.name, "received": boundary.shown(name)}
            raise StoreError("the machine sent back files that were not requested", facts=facts)
    if not names:
        return
    with writing(output), scratch_directory(output.parent) as folder:
        for name in sorted(names, reverse=True):
            first, *rest = Path(name).parts
            target = output.with_name(first)
            if rest:
                target = boundary.inside(target, str(Path(*rest)), what="file", where=output)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / name, folder / "file")
            (folder / "file").replace(target)
