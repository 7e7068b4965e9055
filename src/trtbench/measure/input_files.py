"""The files that are sent with a job: all that it names, and what these refer to.

Fields of requests say by ``travels`` what they name; options of runtimes say it in ``TRAVELS``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from trtbench.core.errors import InputError, TrtbenchError
from trtbench.core.safety import at_home, is_inside, read_text
from trtbench.core.spec import InputSpec, ModelRef, RunSpec
from trtbench.core.words import Scalar
from trtbench.executors import FILE_MARK
from trtbench.executors.contract import FileGroup
from trtbench.host.images import SUFFIXES
from trtbench.models.identity import files_elsewhere, model_ref, read_sidecar, record_of_engine
from trtbench.models.torch_models import code_of_factory, code_of_hub, is_named
from trtbench.requests.convert import RecipeFields
from trtbench.requests.fields import Travels, VerbRequest, fields_of
from trtbench.requests.measure import BenchRequest
from trtbench.runtimes import RUNTIMES
from trtbench.tasks import TASKS
from trtbench.tasks.contract import calibrating

WORDS = ("random", "default", "none")
"""What stands for no file, even where there is one of this name."""
LABELS = (".txt", ".json")
"""What is sent, beside images, of a folder that data only name."""
_ROOTED = re.compile(r"(?:^|[\s'\":\[,-])(~?/[^\s'\",\]]+)", re.MULTILINE)
_HOOK = re.compile(r"(.+\.py):(\w+)")


class InputFiles:
    """The files of a job, in groups with the same names on all machines."""

    def __init__(
        self, *, task: str | None = None, settings: Mapping[str, Scalar] | None = None
    ) -> None:
        self.groups: dict[str, FileGroup] = {}
        self.code: list[str] = []
        """Folders that Python has to import from."""
        self._task = task
        self._settings = settings or {}

    def request(self, request: VerbRequest) -> dict[str, object]:
        """Return the fields of a request that differ from their defaults, with files renamed."""
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
        return spec.having(**changes, model=self._reference(spec.model))

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
        if travels == "code":
            return self._factory(name)
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

    def _reference(self, model: ModelRef) -> ModelRef:
        outside = {name: self._known(Path(name)) for name in files_elsewhere(model)}
        files = tuple(each.having(name=outside.get(each.name, each.name)) for each in model.files)
        path = self.model(model.path) if is_named(model.path) else self._files_of(model)
        return model.having(path=path, files=files)

    def _known(self, path: Path) -> str:
        for number, each in self.groups.items():
            if (
                path.is_relative_to(each.folder)
                and str(path.relative_to(each.folder)) in each.names
            ):
                return f"{FILE_MARK}{number}/{path.relative_to(each.folder)}"
        return self.file(path)

    def _factory(self, name: str) -> str:
        """Add the code of ``module:function``, where it is the user's own."""
        root, files = code_of_factory(name)
        if files:
            folder = root.absolute()
            names = [str(each.absolute().relative_to(folder)) for each in files]
            mark = self._group(folder, names)
            self.code += [] if mark in self.code else [mark]
        return name

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
        _refuse_absolute(path, beside)
        root = Path(os.path.commonpath([path.parent, *(each.parent for each in beside)]))
        names = [path, *(each for folder in beside for each in _shared(folder, path.parent))]
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


def _shared(folder: Path, own: Path) -> list[Path]:
    """List what is sent of a folder beside data: all in their own folder, else what they are."""
    if folder.is_relative_to(own) or not folder.is_dir():
        return [folder]
    known = (*SUFFIXES, *LABELS)
    return sorted(each for each in folder.iterdir() if each.suffix.lower() in known)


def _refuse_absolute(path: Path, beside: Sequence[Path]) -> None:
    """Refuse data that say from the root where their images are: no other machine has that."""
    inner = path.iterdir() if path.is_dir() else ()
    for each in (path, *inner, *beside):
        if each.suffix.lower() not in (".yaml", ".yml", ".txt") or not each.is_file():
            continue
        for name in _ROOTED.findall(read_text(each)):
            place = at_home(name)
            if any(o.is_relative_to(place) or place.is_relative_to(o) for o in beside):
                raise InputError(
                    f"{each.name} names data by a path that only this machine has",
                    facts={"file": each, "it names": name},
                    fix="write it as seen from the file's own folder: ../images",
                )
