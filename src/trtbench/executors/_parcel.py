"""The files a request needs, by content: listed here, put in place where it is carried out."""

from __future__ import annotations

from pathlib import Path

from trtbench import boundary
from trtbench.domain.codec import json_from_value, value_from_json
from trtbench.domain.spec import RunSpec, Value
from trtbench.errors import InputError
from trtbench.executors._errand import with_files_in
from trtbench.executors._folders import place_blob
from trtbench.executors._request import Request
from trtbench.models.identity import sha256_of
from trtbench.models.torch_models import is_named

MODEL, OTHER, INPUTS, FILES = "model", "other", "inputs", "files"


class ParcelPart(Value, frozen=True, kw_only=True):
    """One file on its way: where it comes from, what it holds, and its name there."""

    source: str
    sha256: str
    name: str


class Parcel(Value, frozen=True, kw_only=True):
    """A request and the files it needs."""

    request: Request
    parts: tuple[ParcelPart, ...] = ()

    @property
    def contents(self) -> dict[str, Path]:
        """Each content once, with a file here that has it."""
        return {part.sha256: Path(part.source) for part in self.parts}


def parcel_from_request(request: Request) -> Parcel:
    """List the models, what belongs to them, and their inputs."""
    for each in (request, request.partner):
        if each is not None and each.spec is not None:
            _check_companions(Path(each.spec.model.path), each.files)
    parts = _spec_parts(request.spec, request.files, MODEL) if request.spec is not None else []
    for name, source in request.errand.files.items() if request.errand is not None else ():
        parts += _input_parts(Path(source), f"{FILES}/{name}")
    if request.partner is not None:
        parts += _spec_parts(request.partner.spec, request.partner.files, OTHER)
    return Parcel(request=request, parts=tuple(dict.fromkeys(parts)))


def bytes_from_parcel(parcel: Parcel) -> bytes:
    return json_from_value(parcel)


def parcel_from_bytes(data: bytes) -> Parcel:
    return value_from_json(data, Parcel, where="the request")


def place_parcel(parcel: Parcel, *, cache: Path, folder: Path) -> Request:
    """Put the files where they are needed; gives the request with their names there."""
    folder.mkdir(parents=True, exist_ok=True)
    for part in parcel.parts:
        target = boundary.inside(folder, part.name, what="name of a file", where="the request")
        place_blob(cache, part.sha256, target)
    request = parcel.request
    if request.errand is not None:
        asked = with_files_in(request.errand.asked, folder / FILES)
        errand = request.errand.having(asked=asked, files={}, placed=str(folder / FILES))
        return request.having(errand=errand)
    assert request.spec is not None
    moved = request.having(spec=_moved(request.spec, folder, MODEL))
    if request.partner is None:
        return moved
    spec = _moved(request.partner.spec, folder, OTHER)
    return moved.having(partner=request.partner.having(spec=spec))


def _moved(spec: RunSpec, folder: Path, kind: str) -> RunSpec:
    """Name the files of a spec as they are called where it is carried out."""
    if _is_sent(spec):
        path = str(folder / kind / Path(spec.model.path).name)
        spec = spec.having(model=spec.model.having(path=path))
    if spec.inputs.source is None:
        return spec
    source = str(folder / INPUTS / Path(spec.inputs.source).name)
    inputs = spec.inputs.having(source=source)
    return spec.having(inputs=inputs)


def _is_sent(spec: RunSpec) -> bool:
    """Whether the model is a file; one that a library has by name is looked up where it runs."""
    return spec.model.sha256 is not None and not is_named(spec.model.path)


def _check_companions(model: Path, names: tuple[str, ...]) -> None:
    """Refuse files of weights outside the model's folder, before any of them is read."""
    folder = model if model.is_dir() else model.parent
    for name in names:
        boundary.inside(folder, name, what="file of weights", where=model)


def _spec_parts(spec: RunSpec, files: tuple[str, ...], kind: str) -> list[ParcelPart]:
    """The files of one spec; a model that a library has by name needs none."""
    model, inputs = Path(spec.model.path), spec.inputs.source
    parts = []
    if _is_sent(spec):
        folder = spec.model.format == "folder"
        parts += [] if folder else [_part(model, f"{kind}/{model.name}")]
        root, place = (model, f"{kind}/{model.name}") if folder else (model.parent, kind)
        parts += [_part(root / name, f"{place}/{name}") for name in files]
    return [*parts, *(_all_inputs(Path(inputs)) if inputs is not None else [])]


def _part(path: Path, name: str) -> ParcelPart:
    try:
        return ParcelPart(source=str(path), sha256=sha256_of(path), name=name)
    except OSError as problem:
        raise InputError(f"{path} cannot be sent", facts={"reason": problem.strerror}) from None


def _all_inputs(source: Path) -> list[ParcelPart]:
    return _input_parts(source, f"{INPUTS}/{source.name}")


def _input_parts(source: Path, name: str) -> list[ParcelPart]:
    """List a file, or all files of a folder, under a name."""
    if not source.is_dir():
        return [_part(source, name)]
    files = sorted(path for path in source.rglob("*") if path.is_file())
    for path in files:
        if not boundary.is_inside(source, path):
            raise InputError(
                f"{path} is a link that leads out of the folder of inputs",
                fix="put the file itself there: cp -L copies what a link points to",
            )
    return [_part(path, f"{name}/{path.relative_to(source)}") for path in files]
