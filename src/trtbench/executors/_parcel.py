"""The files a request needs, by content: listed here, put in place where it is carried out."""

from __future__ import annotations

from pathlib import Path

import msgspec

from trtbench.domain.codec import json_from_value, value_from_json
from trtbench.domain.spec import InputSpec, ModelRef, Value
from trtbench.errors import InputError
from trtbench.executors._folders import place_blob
from trtbench.executors._request import Request
from trtbench.host.models import sha256_of

MODEL, INPUTS = "model", "inputs"


class Part(Value, frozen=True, kw_only=True):
    """One file on its way: where it comes from, what it holds, and its name there."""

    source: str
    sha256: str
    name: str


class Parcel(Value, frozen=True, kw_only=True):
    """A request and the files it needs."""

    request: Request
    parts: tuple[Part, ...] = ()

    @property
    def contents(self) -> dict[str, Path]:
        """Each content once, with a file here that has it."""
        return {part.sha256: Path(part.source) for part in self.parts}


def parcel_from_request(request: Request) -> Parcel:
    """List the model, what belongs to it, and its inputs; a model of a library has no file."""
    model, inputs = Path(request.spec.model.path), request.spec.inputs.source
    parts = []
    if request.spec.model.sha256 is not None:
        parts.append(_part(model, f"{MODEL}/{model.name}", sha256=request.spec.model.sha256))
        parts += [_part(model.parent / name, f"{MODEL}/{name}") for name in request.files]
    if inputs is not None:
        parts += _input_parts(Path(inputs))
    return Parcel(request=request, parts=tuple(parts))


def bytes_from_parcel(parcel: Parcel) -> bytes:
    return json_from_value(parcel)


def parcel_from_bytes(data: bytes) -> Parcel:
    return value_from_json(data, Parcel, where="the request")


def place_parcel(parcel: Parcel, *, cache: Path, folder: Path) -> Request:
    """Put the files where they are needed; gives the request with their names there."""
    for part in parcel.parts:
        place_blob(cache, part.sha256, folder / part.name)
    request, spec = parcel.request, parcel.request.spec
    names = {part.name for part in parcel.parts}
    model: ModelRef = spec.model
    if any(name.startswith(f"{MODEL}/") for name in names):
        path = folder / MODEL / Path(spec.model.path).name
        model = msgspec.structs.replace(model, path=str(path))
    inputs: InputSpec = spec.inputs
    if inputs.source is not None:
        source = folder / INPUTS / Path(inputs.source).name
        inputs = msgspec.structs.replace(inputs, source=str(source))
    moved = msgspec.structs.replace(spec, model=model, inputs=inputs)
    return msgspec.structs.replace(request, spec=moved)


def _part(path: Path, name: str, *, sha256: str | None = None) -> Part:
    try:
        return Part(source=str(path), sha256=sha256 or sha256_of(path), name=name)
    except OSError as problem:
        raise InputError(f"{path} cannot be sent", facts={"reason": problem.strerror}) from None


def _input_parts(source: Path) -> list[Part]:
    if not source.is_dir():
        return [_part(source, f"{INPUTS}/{source.name}")]
    files = sorted(path for path in source.rglob("*") if path.is_file())
    return [_part(path, f"{INPUTS}/{source.name}/{path.relative_to(source)}") for path in files]
