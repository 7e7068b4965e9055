"""Have a verb carried out on another machine: files go there by content, its answer comes back."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar, get_args

import msgspec

from trtbench import boundary
from trtbench.domain.spec import ModelRef, RunSpec
from trtbench.domain.words import Scalar
from trtbench.errors import InputError, StoreError, writing
from trtbench.executors import ANSWER, FILE_MARK, Errand, Needs, Request, with_own_names
from trtbench.host.unfinished import remove_abandoned, scratch_directory, temporary_folder
from trtbench.models.identity import files_elsewhere, model_ref
from trtbench.models.sidecar import read_sidecar, record_of_engine
from trtbench.models.torch_models import is_named
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import new_id
from trtbench.tasks import TASKS
from trtbench.workflows.measure.remote import executor_for, teller
from trtbench.workflows.request.choice import first_choice
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.fields import Argument, RequestField, fields_of, settled
from trtbench.workflows.request.groups import ExecutorFields, TaskFields
from trtbench.workflows.request.judging import RunningFields

T = TypeVar("T")

STAYS = {"output", "store", "python", "join", "layers", "expect"}
"""Fields that mean something on the machine that asks only, or are no file where they run."""


class Luggage:
    """Files that an errand needs, each under a name that is the same on all machines."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self._marks: dict[str, str] = {}

    def file(self, path: Path) -> str:
        """Take a file or a folder along; gives the text that stands for it."""
        source = str(path.absolute())
        if source not in self._marks:
            name = f"{len(self._marks)}/{path.name}"
            self._marks[source] = FILE_MARK + name
            self.files[name] = source
        return self._marks[source]

    def model(self, name: str) -> str:
        """Take a model along, with what belongs to it; one that a library has by name stays."""
        if is_named(name):
            return name
        path = Path(name)
        reference = model_ref(path)
        if outside := files_elsewhere(reference):
            raise InputError(
                "weights outside of the model's folder do not travel",
                facts={"model": path, "file": outside[0]},
                fix="put them beside the model",
            )
        mark = self.file(path)
        if reference.format != "folder":
            for each in reference.files:
                self._beside(path, boundary.inside(path.parent, each.name, what="file of weights"))
        known = record_of_engine(reference) is not None or read_sidecar(path) is not None
        for beside in (path.with_name(f"{path.name}.json"), path.with_suffix(".json")):
            if known and beside.is_file():
                self._beside(path, beside)
        return mark

    def data(self, name: str, task: str | None, settings: Mapping[str, Scalar]) -> str:
        """Take data along, and what their task reads beside them."""
        mark, path = self.file(Path(name)), Path(name).absolute()
        reads = TASKS.load(task).read_beside if task else None
        for each in reads({**settings, "data": name}) if reads else ():
            if boundary.is_inside(path, Path(each)) and path.is_dir():
                continue
            if not boundary.is_inside(path.parent, Path(each)):
                raise InputError(
                    f"{path.name} names data outside of its own folder, which do not travel",
                    facts={"data": each},
                    fix="put them beside it",
                )
            self._beside(path, Path(each))
        return mark

    def settings(self, task: str | None, settings: Mapping[str, Scalar]) -> dict[str, object]:
        """Take the files along that settings of a task name."""
        flags = TASKS.load(task).FLAGS if task else ()
        words = {flag.key for flag in flags if flag.choices}
        return {
            key: self.file(Path(value))
            if isinstance(value, str) and value and key not in words and Path(value).exists()
            else value
            for key, value in settings.items()
        }

    def _beside(self, path: Path, other: Path) -> None:
        name = self._marks[str(path.absolute())].removeprefix(FILE_MARK)
        inner = other.absolute().relative_to(path.parent.absolute())
        self.files[f"{name.partition('/')[0]}/{inner}"] = str(other.absolute())


def run_errand(
    verb: str,
    request: ExecutorFields,
    kind: type[T],
    *,
    config: Config,
    conduct: Conduct,
    gpu: bool,
    output: Path | None = None,
) -> T:
    """Have a request carried out where its executor says; what it wrote is written here."""
    luggage = Luggage()
    asked = _asked(settled(request, config.defaults), luggage)
    errand = Errand(
        verb=verb, asked=asked, files=luggage.files, output=output.name if output else None
    )
    with executor_for(request, conduct) as conduct, temporary_folder() as folder:
        answer = send_errand(errand, folder, conduct=conduct, gpu=gpu)
        place = output.absolute().parent if output else folder
        if output is not None:
            _put(folder / "output", output.absolute())
        return value_of_answer(answer, kind, errand=errand, output=place)


def send_errand(
    errand: Errand,
    folder: Path,
    *,
    conduct: Conduct,
    gpu: bool,
    title: str | None = None,
    machine: str | None = None,
) -> object:
    """Have an errand carried out; its files are in the folder then, and its answer is given."""
    assert conduct.executor is not None
    needs = (conduct.needs or Needs()).having(gpu=gpu, machine=machine)
    request = Request(
        id=new_id(),
        title=title or errand.verb,
        errand=errand,
        command=conduct.command,
        memory_bytes=conduct.memory_bytes,
        timeout_s=conduct.timeout_s,
        tags=conduct.tags,
        needs=needs,
    )
    conduct.executor.run(request, folder=folder, tell=teller(conduct.listen))
    data = boundary.read_bytes(folder / ANSWER)
    try:
        answer = msgspec.msgpack.decode(data)
        boundary.check_parts(answer, where="what came back")
        return answer
    except (msgspec.DecodeError, RecursionError, ValueError) as problem:
        raise StoreError("what came back is damaged", facts={"reason": problem}) from None


def value_of_answer(answer: object, kind: type[T], *, errand: Errand, output: Path) -> T:
    """Read an answer, with the names that files have here."""
    own = with_own_names(answer, files=errand.files, output=output)
    try:
        return msgspec.convert(own, type=kind)
    except msgspec.ValidationError as problem:
        raise StoreError("what came back is no answer", facts={"reason": problem}) from None


def sides_on_gpu(request: RunningFields, models: Sequence[str]) -> bool:
    """Tell whether one of several models needs a GPU, by the runtimes they are run in."""
    given = [request.runtime] if isinstance(request.runtime, str) else list(request.runtime or [])
    named = given * len(models) if len(given) == 1 else given
    for number, model in enumerate(models):
        runtime = named[number] if number < len(named) else None
        if needs_gpu(model, runtime, device=request.device, options=request.options):
            return True
    return False


def needs_gpu(
    model: str,
    runtime: str | None,
    *,
    device: str | None = None,
    options: Mapping[str, str] | None = None,
) -> bool:
    """Tell whether a runtime, or the first choice for a model, computes on a GPU."""
    named = is_named(model)
    reference = None if named else model_ref(Path(model))
    name = runtime or first_choice(reference.format if reference else "torch")
    if not name:
        return False
    spec = RunSpec(
        model=reference or ModelRef(path=model, format="torch"),
        runtime=name,
        device=device,
        options=dict(options or {}),
    )
    return RUNTIMES.load(name).device(spec) != "cpu"


def _asked(request: ExecutorFields, luggage: Luggage) -> dict[str, object]:
    """Write down what differs from what a request says by itself, files by their names there."""
    executors = {field.name for field in fields_of(ExecutorFields)}
    task = getattr(request, "task", None)
    settings = dict(request.settings) if isinstance(request, TaskFields) else {}
    return {
        field.name: _travelling(field, value, luggage, task=task, settings=settings)
        for field, value in _said(request)
        if field.name not in executors and field.name not in STAYS
    } | ({"python": _plain(python)} if (python := getattr(request, "python", None)) else {})


def _said(request: ExecutorFields) -> Iterator[tuple[RequestField, object]]:
    for field in fields_of(type(request)):
        value = getattr(request, field.name)
        if value != field.default and value is not None:
            yield field, value


def _travelling(
    field: RequestField,
    value: object,
    luggage: Luggage,
    *,
    task: str | None,
    settings: Mapping[str, Scalar],
) -> object:
    plain = _plain(value)
    if field.name == "settings":
        return luggage.settings(task, settings)
    if not (Path in get_args(field.type) or Path in get_args(field.item)):
        return plain

    def taken(name: str) -> str:
        if isinstance(field.about, Argument):
            return luggage.model(name)
        if name == "random" or not Path(name).exists():
            return name
        return luggage.data(name, task, settings) if task else luggage.file(Path(name))

    return [taken(each) for each in plain] if isinstance(plain, list) else taken(str(plain))


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _put(source: Path, output: Path) -> None:
    """Put what an errand wrote where it was asked for, each file whole, what was named last.

    A machine that sends files of other names would write into the folder of whoever asked.
    """
    names = [str(each.relative_to(source)) for each in source.rglob("*") if each.is_file()]
    for name in names:
        first = Path(name).parts[0]
        if first != output.name and not first.startswith(f"{output.name}."):
            raise StoreError(
                "more came back than was asked for",
                facts={"asked for": output.name, "came": boundary.shown(name)},
            )
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
