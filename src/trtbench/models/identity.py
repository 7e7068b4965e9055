"""Models as they are on disk: format, time, and the hash and size of all their bytes."""

from __future__ import annotations

import datetime
import hashlib
import mmap
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trtbench.boundary import check_filled, inside
from trtbench.domain.spec import ModelFile, ModelFormat, ModelRef
from trtbench.errors import InputError, near_miss, reading
from trtbench.host.files import utf8_path
from trtbench.models.onnx_bytes import external_names

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
_PLAN_MAGICS = (b"ftrt", b"vtrt")
_ZIP_MAGIC = b"PK\x03\x04"
_CHUNK = 1 << 20
MOST_LINKS = 40
"""On the way to one file; the system itself follows no more."""
TICK_NS = 50_000_000
"""A file that changed less than this ago may change again under the same time of change."""


class Signature(NamedTuple):
    """The state of a file, by which a change of its bytes shows."""

    device: int
    number: int
    size: int
    modified_ns: int
    changed_ns: int


class _State(NamedTuple):
    """A file as it is seen from outside."""

    place: tuple[object, ...]
    rights: tuple[int, int, int, int]
    changed_ns: int


_watched: dict[str, dict[Path, _State | None]] = {}
"""The files of models as they were when the use of a model began, by the model's path."""
_hashes: dict[str, tuple[Signature, str]] = {}
"""Hashes by path, each with the state of the file it is of: unchanged files are not read again."""


def model_ref(path: Path, *, folders: bool = False, whole: bool = True) -> ModelRef:
    """Describe a model by all its bytes; one that is not there is an error with the near miss.

    A folder is a model only where that is asked for. A model that is not whole is an error, unless
    that is allowed: its hash and size are then unknown.
    """
    if not _exists(path):
        raise _missing(path)
    if not path.is_file() and not (folders and path.is_dir()):
        kind = "folder" if path.is_dir() else "device or pipe"  # which would be read forever
        raise InputError(f"{path} is a {kind}, not a model file", fix=_inside(path))
    path = utf8_path(path)
    with reading(path):
        return _folder_ref(path) if path.is_dir() else _file_ref(path, whole=whole)


def with_parts(
    model: ModelRef, names: Sequence[str], *, made_with: tuple[str, ...] = ()
) -> ModelRef:
    """Make files that lie elsewhere, and options, a part of a model: others are another model.

    One that a library has by name is identified by that name and these. A file that is not there
    is left to whoever loads it.
    """
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
    """List the files of a model that do not lie in its own folder."""
    return [each.name for each in model.files if Path(each.name).is_absolute()]


def changed(model: ModelRef) -> str | None:
    """Say what is no longer as it was when a model was described; ``None`` when nothing changed.

    Files that keep their size and times are not read again.
    """
    if model.sha256 is None:
        return None
    try:
        # What a library has by name was never a file with a time of its last change.
        bare = ModelRef(path=model.path, format=model.format)
        own = bare if model.modified is None else model_ref(Path(model.path), folders=True)
        now = with_parts(own, files_elsewhere(model), made_with=model.made_with)
    except InputError as problem:
        return problem.message
    if now.sha256 == model.sha256:
        return None
    gone = {*files_elsewhere(model)} - {*files_elsewhere(now)}
    if gone:
        return f"{min(gone)} is not there"
    before = {each.name: each.sha256 for each in model.files}
    other = [each.name for each in now.files if before.get(each.name) != each.sha256]
    return f"the bytes of {', '.join(other) or model.name} are no longer the same"


def still_there(model: ModelRef) -> bool:
    """Tell whether a model lies where it did, and is what it was when it was described.

    One of the same size and time is not read again.
    """
    own = Path(model.path)
    paths = [own, *(own.parent / each.name for each in model.files)]
    if not all(path.is_file() for path in paths):
        return False
    told = (sum(path.stat().st_size for path in paths), _time_of(own, model.files))
    return told == (model.size_bytes, model.modified) or changed(model) is None


def changed_and_back(model: ModelRef) -> str | None:
    """Say which file was written or moved since ``demand_unchanged``, though it is the same now.

    What was read meanwhile may have been something else. The system itself sets the time by which
    this shows; new rights, owners and links set it too, and are no change.
    """
    for path, before in _watched.get(model.path, {}).items():
        now = _state_of(path)
        if now != before and not (now and before and _other_rights_alone(before, now)):
            return f"{path.name} was replaced or written to meanwhile, and is now as it was"
    return None


def identity_of(path: Path) -> str | None:
    """Hash all bytes of a model; ``None`` when something of it is not there."""
    try:
        return model_ref(path, whole=False).sha256
    except InputError:
        return None


def demand_unchanged(model: ModelRef) -> None:
    """Refuse to go on with a model that is no longer the one that was asked about."""
    problem = changed(model)
    if problem is not None:
        raise InputError(
            f"{model.name} has changed since it was asked about",
            facts={"what": problem},
            fix="wait until whatever writes it is done, and give the command again",
        )
    own = Path(model.path)
    folder = own if own.is_dir() else own.parent
    paths = [own, *(folder / each.name for each in model.files)]
    _watched[model.path] = {path: _state_of(path) for path in paths if path.is_file()}


def _file_ref(path: Path, *, whole: bool) -> ModelRef:
    facts = path.stat()
    if facts.st_size == 0:
        raise InputError(f"{path} is empty", fix="copy or export the model again")
    check_filled(path)
    kind = format_of(path)
    names = external_files(path) if kind in ("onnx", "unknown") else ()
    missing = [name for name in names if not (path.parent / name).is_file()]
    if missing and whole:
        raise InputError(
            "the model keeps its weights in another file, which is not there",
            facts={"file": path, "missing": path.parent / missing[0]},
            fix=f"put {Path(missing[0]).name} beside the model",
        )
    known = not missing
    files = tuple(_model_file(path.parent, name) for name in sorted(names)) if known else ()
    return ModelRef(
        path=str(path.absolute()),
        format=kind,
        sha256=_combined(sha256_of(path), files) if known else None,
        size_bytes=facts.st_size + sum(each.size_bytes for each in files) if known else None,
        modified=_time_of(path, files),
        files=files,
    )


def _folder_ref(path: Path) -> ModelRef:
    """Describe a folder that is a model: every file in it belongs to it."""
    inside = sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file())
    files = tuple(_model_file(path, name) for name in inside)
    if not files:
        raise InputError(f"{path} is empty", fix="copy or export the model again")
    return ModelRef(
        path=str(path.absolute()),
        format="folder",
        sha256=_combined("", files),
        size_bytes=sum(each.size_bytes for each in files),
        modified=_time_of(path, files),
        files=files,
    )


def external_files(path: Path) -> tuple[str, ...]:
    """Name the files in which an ONNX file keeps tensors; they must lie in its own folder.

    A file that cannot be understood names none: whoever loads it says what is wrong with it.
    """
    try:
        with (
            open(path, "rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
            memoryview(data) as view,
        ):
            names = external_names(view)
    except (ValueError, IndexError, RecursionError, BufferError):
        return ()
    for name in names:
        inside(path.parent, name, what="file of weights", where=path)
    return names


def _model_file(folder: Path, name: str) -> ModelFile:
    path = folder / name
    return ModelFile(name=name, sha256=sha256_of(path), size_bytes=path.stat().st_size)


def _combined(first: str, files: Sequence[ModelFile], *, made_with: Sequence[str] = ()) -> str:
    """Hash all that belongs to a model; a single file has the hash of its bytes.

    Where a file lies that is not in the model's own folder makes no other model.
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
    """Tell a model's format by its first bytes, else by its name."""
    with open(path, "rb") as file:
        head = file.read(4)
    if head in _PLAN_MAGICS:
        return "engine"
    if head == _ZIP_MAGIC and path.suffix.lower() != ".npz":  # numpy's arrays are an archive too
        return "torch"
    return SUFFIXES.get(path.suffix.lower(), "unknown")


def sha256_of(path: Path) -> str:
    """Hash a file of any size in bounded memory; one that is as it was is not read again."""
    before, name = signature_of(path), str(path.absolute())
    known = _hashes.get(name)
    if known is not None and known[0] == before:
        return known[1]
    check_filled(path)
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    found = digest.hexdigest()
    if signature_of(path) == before and time.time_ns() - max(before[-2:]) > TICK_NS:
        _hashes[name] = (before, found)
    return found


def signature_of(path: Path) -> Signature:
    """Look at a file without reading it."""
    facts = path.stat()
    times = (facts.st_mtime_ns, facts.st_ctime_ns)
    return Signature(facts.st_dev, facts.st_ino, facts.st_size, *times)


def _other_rights_alone(before: _State, now: _State) -> bool:
    return before.place == now.place and before.rights != now.rights


def _state_of(path: Path) -> _State | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    place = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, _links_to(path))
    rights = (facts.st_mode, facts.st_nlink, facts.st_uid, facts.st_gid)
    return _State(place, rights, facts.st_ctime_ns)


def _links_to(path: Path) -> tuple[tuple[int, int, int], ...]:
    """Tell the symbolic links that a path goes through: one that is set anew is another."""
    found, rest = [], path.absolute()
    for _ in range(MOST_LINKS):
        way = (*reversed(rest.parents), rest)
        link = next((each for each in way if each.is_symlink()), None)
        if link is None:
            break
        facts = link.lstat()
        found.append((facts.st_dev, facts.st_ino, facts.st_ctime_ns))
        rest = link.parent / link.readlink() / rest.relative_to(link)
    return tuple(found)


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:  # a name no file can have
        return False


def _names(folder: Path) -> list[str]:
    try:
        return [each.name for each in folder.iterdir()]
    except OSError:
        return []


def _inside(folder: Path) -> str | None:
    """Suggest the first model in a folder that was given instead of a file."""
    found = sorted(name for name in _names(folder) if Path(name).suffix.lower() in SUFFIXES)
    return f"did you mean {folder / found[0]}?" if found else "give the path of a model file"


def _missing(path: Path) -> InputError:
    folder = path.parent
    if path.parts and path.parts[0] in ("http:", "https:"):
        return InputError("a model is a file here, not an address", fix="download it first")
    guess = near_miss(path.name, _names(folder))
    return InputError(
        f"there is no file {path}",
        facts={} if folder.is_dir() else {"folder": f"{folder} does not exist"},
        fix=f"did you mean {folder / guess}?" if guess else "give the path of a model file",
    )
