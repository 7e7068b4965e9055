"""Models on disk: format, time, hash and size of all their files, and the records next to them."""

import datetime
import hashlib
import mmap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from trtbench.core.codec import value_from_json
from trtbench.core.errors import InputError, near_miss, reading
from trtbench.core.results import Artefact, Sidecar
from trtbench.core.run import known_value
from trtbench.core.safety import check_filled, inside, read_bytes
from trtbench.core.spec import ModelFile, ModelFormat, ModelRef
from trtbench.host.files import utf8_path
from trtbench.models.onnx_outline import MOST_EXPANDED, ModelOutline, external_names, outline_of

T = TypeVar("T")

SUFFIXES: dict[str, ModelFormat] = {
    ".onnx": "onnx",
    ".engine": "engine",
    ".plan": "engine",
    ".trt": "engine",
    ".pt": "torch",
    ".pth": "torch",
    ".ts": "torch",
    ".pt2": "torch",
}
Signature = tuple[int, int, int, int, int]
"""Device, inode, size and change times of a file: if they differ, its bytes may differ."""
_hashes: dict[str, tuple[Signature, str]] = {}
"""Hashes by path, each with the signature of its file: unchanged files are not read again."""


def model_ref(path: Path, *, folders: bool = False, whole: bool = True) -> ModelRef:
    """Return the description of a model file; the error for a missing one suggests a name.

    A folder is accepted only with ``folders``. A model with missing files, or functions that expand
    without end, is an error, unless ``whole`` is false: its hash and size are then unknown.
    """
    try:
        exists = path.exists()
    except PermissionError as problem:
        raise InputError(f"{path} cannot be read", facts={"reason": problem.strerror}) from None
    except OSError:  # a name no file can have
        exists = False
    if not exists:
        raise _missing_file(path)
    if not path.is_file() and not (folders and path.is_dir()):
        what = "folder" if path.is_dir() else "device or pipe"  # which would be read forever
        found = sorted(name for name in _names(path) if Path(name).suffix.lower() in SUFFIXES)
        fix = f"did you mean {path / found[0]}?" if found else "give the path of a model file"
        raise InputError(f"{path} is a {what}, not a model file", fix=fix)
    path = utf8_path(path)
    kind: ModelFormat = "folder"
    with reading(path):
        if path.is_dir():
            folder, own_bytes = path, 0
            names = [str(each.relative_to(path)) for each in path.rglob("*") if each.is_file()]
        else:
            folder, own_bytes = path.parent, path.stat().st_size
            if own_bytes:
                check_filled(path)
            kind = format_of(path)
            is_onnx = own_bytes and kind in ("onnx", "unknown")
            names = [*external_files(path, runs=whole)] if is_onnx else []
        if not own_bytes and not names:
            raise InputError(f"{path} is empty", fix="copy or export the model again")
        missing = [name for name in sorted(names) if not (folder / name).is_file()]
        if missing and whole:
            message = "the file with the weights of the model is missing"
            fix = f"put {Path(missing[0]).name} next to the model"
            raise InputError(message, facts={"file": path, "missing": folder / missing[0]}, fix=fix)
        own = ModelRef(path=str(path.absolute()), format=kind)
        if missing:
            return own.having(modified=_time_of(path, ()))
        files = tuple(_model_file(folder, name) for name in sorted(names))
        return own.having(
            sha256=_combined("" if path.is_dir() else sha256_of(path), files),
            size_bytes=own_bytes + sum(each.size_bytes for each in files),
            modified=_time_of(path, files),
            files=files,
        )


def _missing_file(path: Path) -> InputError:
    if path.parts and path.parts[0] in ("http:", "https:"):
        return InputError("a model must be a file, not a URL", fix="download it first")
    folder = path.parent
    guess = near_miss(path.name, _names(folder))
    facts = {} if folder.is_dir() else {"folder": f"{folder} does not exist"}
    fix = f"did you mean {folder / guess}?" if guess else "give the path of a model file"
    if path.name.isdecimal():  # not a name: the second number in ``m.onnx --batch 1 8``
        fix = "values of one flag are joined by commas: --batch 1,8"
    elif guess == path.name:  # a link, which leads nowhere or to itself
        facts, fix = {"links to": str(path.readlink())}, "let the link point to a model file"
    return InputError(f"there is no file {path}", facts=facts, fix=fix)


def _names(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError:
        return []


def with_parts(
    model: ModelRef, names: Sequence[str], *, made_with: tuple[str, ...] = ()
) -> ModelRef:
    """Return a model with further files and options, which are part of its identity."""
    paths = [path.absolute() for path in map(Path, names) if path.is_file()]
    if not paths and not made_with:
        return model
    files = tuple(_model_file(path.parent, str(path)) for path in paths)
    known = model.size_bytes or (0 if files else None)
    return model.having(
        sha256=_combined(model.identity, files, made_with=made_with),
        size_bytes=None if known is None else known + sum(each.size_bytes for each in files),
        files=(*model.files, *files),
        made_with=made_with,
    )


def files_elsewhere(model: ModelRef) -> list[str]:
    return [each.name for each in model.files if Path(each.name).is_absolute()]


def changed(model: ModelRef) -> InputError | None:
    """Return why a model is not the one described: "what" changed, or why it cannot be read."""
    if model.sha256 is None:
        return None
    try:
        # A library's model has no file with a change time.
        bare = ModelRef(path=model.path, format=model.format)
        own = bare if model.modified is None else model_ref(Path(model.path), folders=True)
        now = with_parts(own, files_elsewhere(model), made_with=model.made_with)
    except InputError as problem:
        if "reason" in problem.facts:
            return problem
        what = problem.message
    else:
        if now.sha256 == model.sha256:
            return None
        other = [each.name for each in now.files if each not in model.files]
        what = f"the bytes of {', '.join(other) or model.name} are no longer the same"
        if gone := {*files_elsewhere(model)} - {*files_elsewhere(now)}:
            what = f"{min(gone)} is missing"
    message = f"{model.name} has changed since the command was started"
    fix = "wait until the file is complete, and run the command again"
    return InputError(message, facts={"what": what}, fix=fix)


def is_unchanged(model: ModelRef) -> bool:
    """Whether a model still exists with the same size and change time."""
    own = Path(model.path)
    paths = [own, *(own.parent / each.name for each in model.files)]
    if not all(path.is_file() for path in paths):
        return False
    known = (sum(path.stat().st_size for path in paths), _time_of(own, model.files))
    return known == (model.size_bytes, model.modified) or changed(model) is None


def raise_if_changed(model: ModelRef) -> None:
    """Raise an error if a model has changed since the command was started."""
    problem = changed(model)
    if problem is not None:
        raise problem


def identity_of(path: Path) -> str | None:
    """Return the hash of all files of a model; ``None`` if one is missing."""
    try:
        return model_ref(path, whole=False).sha256
    except InputError:
        return None


def external_files(path: Path, *, runs: bool = False) -> tuple[str, ...]:
    """Return the external data files of an ONNX file; they must be in its folder.

    A model that ``runs`` is refused if its functions expand to too many nodes.
    """
    try:
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
            memoryview(data) as view,
        ):
            names, endless = external_names(view)
    except (ValueError, IndexError, RecursionError, BufferError):
        return ()
    if runs and endless:
        raise InputError(
            f"the functions of {path.name} expand to more nodes than can be loaded",
            facts={"nodes": f"more than {MOST_EXPANDED}, and ten times what is written"},
            fix="export it again, with fewer functions inside functions",
        )
    for name in names:
        inside(path.parent, name, what="file of weights", where=path)
    return names


def _model_file(folder: Path, name: str) -> ModelFile:
    path = folder / name
    return ModelFile(name=name, sha256=sha256_of(path), size_bytes=path.stat().st_size)


def _combined(first: str, files: Sequence[ModelFile], *, made_with: Sequence[str] = ()) -> str:
    """Return the hash of all files and options of a model; for one file, its SHA-256.

    The folder of a file outside the model's folder does not change the hash.
    """
    if not files and not made_with:
        return first
    digest = hashlib.sha256(first.encode())
    for each in files:
        name = Path(each.name).name if Path(each.name).is_absolute() else each.name
        digest.update(f"\n{name}\0{each.sha256}".encode())
    for option in made_with:
        digest.update(f"\n{option}".encode())
    return digest.hexdigest()


def _time_of(path: Path, files: tuple[ModelFile, ...]) -> str:
    folder = path if path.is_dir() else path.parent
    times = [(folder / each.name).stat().st_mtime for each in files]
    newest = max([*times, *([] if path.is_dir() else [path.stat().st_mtime])])
    return datetime.datetime.fromtimestamp(newest).astimezone().isoformat(timespec="seconds")


def format_of(path: Path) -> ModelFormat:
    """Return a model's format by its first bytes, else by its name."""
    with open(path, "rb") as file:
        head = file.read(4)
    if head in (b"ftrt", b"vtrt"):
        return "engine"
    if head == b"PK\x03\x04" and path.suffix.lower() != ".npz":  # numpy's arrays are an archive too
        return "torch"
    return SUFFIXES.get(path.suffix.lower(), "unknown")


def sha256_of(path: Path) -> str:
    """Return the hash of a file of any size; an unchanged file is not read again."""
    before, name = signature_of(path), str(path.absolute())
    known = _hashes.get(name)
    if known is not None and known[0] == before:
        return known[1]
    check_filled(path)
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    found = digest.hexdigest()
    # A file that has just changed may change again without a new change time.
    if signature_of(path) == before and time.time_ns() - max(before[-2:]) > 50_000_000:
        _hashes[name] = (before, found)
    return found


def signature_of(path: Path) -> Signature:
    facts = path.stat()
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns


def kept_value(path: Path, kind: type[T]) -> T | None:
    """Return the value of this type that a file holds; ``None`` if it holds none."""
    try:
        return value_from_json(read_bytes(path), kind, where=str(path))
    except (OSError, InputError):
        return None


def read_sidecar(model: Path) -> Sidecar | None:
    """Return the record next to a converted model, if it names this file."""
    for path in (model.with_suffix(".json"), model.with_name(model.name + ".json")):
        found = kept_value(path, Sidecar)
        if found is not None and found.file == model.name:
            return found
    return None


def record_of_engine(model: ModelRef) -> Artefact | None:
    """Return the record next to an engine, if its hash matches."""
    if model.format != "engine":
        return None
    record = kept_value(Path(f"{model.path}.json"), Artefact)
    return record if record and model.sha256 in (None, record.sha256) else None


def source_of(model: ModelRef) -> ModelRef | None:
    """Return the model if it is ONNX, or the unchanged ONNX file an engine was built from."""
    record = record_of_engine(model)
    source = record.spec.model if record is not None else model
    return source if source.format == "onnx" and is_unchanged(source) else None


def precision_of_engine(model: ModelRef) -> str | None:
    """Return the precision an engine was built in, by the record next to it."""
    record = record_of_engine(model)
    value = known_value(record.conditions.get("precision")) if record is not None else None
    return None if value is None else str(value)


def known_outline(model: ModelRef) -> ModelOutline | None:
    """Return the outline of an ONNX file, or of the unchanged one an engine was built from."""
    source = source_of(model)
    try:
        return outline_of(Path(source.path)) if source is not None else None
    except InputError:  # reported when the file is loaded
        return None


def index_limits(model: ModelRef) -> Mapping[str, int]:
    """Return the number of rows that inputs index, such as a vocabulary, by name."""
    outline = known_outline(model)
    return outline.index_limits if outline else {}
