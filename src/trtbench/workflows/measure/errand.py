"""Have a verb carried out on another machine: files go there by content, its answer comes back."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from trtbench import boundary
from trtbench.domain.codec import learned
from trtbench.domain.spec import ModelRef, RunSpec
from trtbench.errors import StoreError, TrtbenchError, writing
from trtbench.executors import ANSWER, Errand, Request, with_own_names
from trtbench.host.unfinished import remove_abandoned, scratch_directory, temporary_folder
from trtbench.models.identity import format_of, model_ref
from trtbench.models.torch_models import is_named
from trtbench.runtimes import RUNTIMES
from trtbench.store.directory import new_id
from trtbench.workflows.measure.luggage import Luggage, in_python
from trtbench.workflows.measure.remote import executor_for, send
from trtbench.workflows.request.choice import first_choice
from trtbench.workflows.request.conduct import Conduct
from trtbench.workflows.request.config import Config
from trtbench.workflows.request.fields import fields_of, settled
from trtbench.workflows.request.groups import ExecutorFields
from trtbench.workflows.request.judging import RunningFields
from trtbench.workflows.request.spec import pick

T = TypeVar("T")


def run_errand(
    verb: str,
    request: ExecutorFields,
    kind: type[T],
    *,
    config: Config,
    conduct: Conduct,
    gpu: bool,
    libraries: Sequence[str],
    output: Path | None = None,
    take: Callable[[T, Path], T] = lambda value, folder: value,
) -> T:
    """Have a request carried out where its executor says; what it wrote is written here.

    ``take`` sees the answer and the folder of what came before it is put in place.
    """
    luggage = Luggage(
        task=getattr(request, "task", None), settings=getattr(request, "settings", None)
    )
    luggage.python = getattr(request, "python", None)
    luggage.need(*libraries)
    here = {field.name for field in fields_of(ExecutorFields)}
    said = luggage.request(settled(request, config.defaults))
    asked = {name: value for name, value in said.items() if name not in here}
    errand = Errand(verb=verb, asked=asked, output=output.name if output else None)
    with executor_for(request, conduct) as conduct, temporary_folder() as folder:
        place = output.absolute().parent if output else folder
        try:
            answer = send_errand(
                errand, folder, luggage=luggage, conduct=conduct, gpu=gpu, output=place,
                title=f"{verb} {_models_of(request)}",
            )  # fmt: skip
        except TrtbenchError:
            if output is not None:  # the log of what failed, which the error names
                with contextlib.suppress(StoreError):
                    _put(folder / "output", output.absolute())
            raise
        value = value_of_answer(answer, kind, luggage=luggage, output=place)
        value = take(value, folder / "output")
        if output is not None:
            _put(folder / "output", output.absolute())
        return value


def _models_of(request: ExecutorFields) -> str:
    """Name the models of a request as people know them."""
    named = [
        getattr(request, f.name) for f in fields_of(type(request)) if f.about.travels == "model"
    ]
    models = [
        each for one in named for each in ([one] if isinstance(one, str | Path) else one or ())
    ]
    return ", ".join(Path(str(each)).name for each in models)


def send_errand(
    errand: Errand,
    folder: Path,
    *,
    luggage: Luggage,
    conduct: Conduct,
    gpu: bool,
    title: str | None = None,
    machine: str | None = None,
    output: Path | None = None,
) -> object:
    """Have an errand carried out; its files are in the folder then, and its answer is given."""
    assert conduct.executor is not None
    needs = luggage.needs(conduct.needs, gpu=gpu, machine=machine)
    request = Request(
        id=new_id(),
        title=title or errand.verb,
        errand=errand,
        bags=luggage.bags,
        code=tuple(luggage.code),
        command=conduct.command,
        memory_bytes=conduct.memory_bytes,
        timeout_s=conduct.timeout_s,
        tags=conduct.tags,
        needs=needs,
    )
    send(request, conduct.executor, folder, conduct.listen, output=output)
    data = boundary.read_bytes(folder / ANSWER)
    try:
        answer = msgspec.msgpack.decode(data)
        boundary.check_parts(answer, where="what came back")
        return answer
    except (msgspec.DecodeError, RecursionError, ValueError) as problem:
        raise StoreError("what came back is damaged", facts={"reason": problem}) from None


def value_of_answer(answer: object, kind: type[T], *, luggage: Luggage, output: Path) -> T:
    """Read an answer, with the names that files have here."""
    own = with_own_names(answer, bags=luggage.bags, output=output)
    try:
        return msgspec.convert(own, type=learned(kind))
    except msgspec.ValidationError as problem:
        raise StoreError("what came back is no answer", facts={"reason": problem}) from None


def sides_need(request: RunningFields, models: Sequence[str]) -> tuple[bool, list[str]]:
    """Tell whether one of several models needs a GPU, and what has to be installed for them."""
    count = len(models)
    runtimes = [pick(request.runtime, place, count, what="-r") for place in range(count)]
    pythons = [pick(request.python, place, count, what="--python") for place in range(count)]
    gpu = any(
        needs_gpu(model, runtime, device=request.device, options=request.options)
        for model, runtime in zip(models, runtimes, strict=True)
    )
    words = map(library_of, models, runtimes)
    return gpu, list(map(in_python, words, pythons))


def library_of(model: str, runtime: str | None) -> str:
    """Name what has to be installed for a model: the runtime, or one that executes its kind."""
    return f"runtime:{runtime}" if runtime else f"format:{format_of_model(model)}"


def format_of_model(model: str) -> str:
    """Tell the format of a file, or of a model that a library has by name."""
    return "torch" if is_named(model) else format_of(Path(model))


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


def _put(source: Path, output: Path) -> None:
    """Put what an errand wrote where it was asked for, each file whole, what was named last.

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
