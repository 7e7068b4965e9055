"""Model files as they are on disk: format, size, time and hash."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path

from trtbench.domain.spec import ModelFormat, ModelRef
from trtbench.errors import InputError, near_miss

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


def model_ref(path: Path) -> ModelRef:
    """Describe a model file; one that is not there is an error with the near miss."""
    if not _exists(path):
        raise _missing(path)
    if not path.is_file():  # a pipe or a device would be read forever
        kind = "folder" if path.is_dir() else "device or pipe"
        raise InputError(f"{path} is a {kind}, not a model file", fix=_inside(path))
    try:
        facts = path.stat()
        digest = sha256_of(path)
    except OSError as problem:
        raise InputError(f"{path} cannot be read", facts={"reason": problem.strerror}) from None
    if facts.st_size == 0:
        raise InputError(f"{path} is empty", fix="copy or export the model again")
    changed = datetime.datetime.fromtimestamp(facts.st_mtime).astimezone()
    return ModelRef(
        path=str(path.absolute()),
        format=format_of(path),
        sha256=digest,
        size_bytes=facts.st_size,
        modified=changed.isoformat(timespec="seconds"),
    )


def format_of(path: Path) -> ModelFormat:
    """Tell a model's format by its first bytes, else by its name."""
    with open(path, "rb") as file:
        head = file.read(4)
    if head in _PLAN_MAGICS:
        return "engine"
    if head == _ZIP_MAGIC:
        return "torch"
    return SUFFIXES.get(path.suffix.lower(), "unknown")


def sha256_of(path: Path) -> str:
    """Hash a file of any size in bounded memory."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


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
    return f"did you mean {folder / found[0]}?" if found else None


def _missing(path: Path) -> InputError:
    folder = path.parent
    guess = near_miss(path.name, _names(folder))
    return InputError(
        f"there is no file {path}",
        facts={} if folder.is_dir() else {"folder": f"{folder} does not exist"},
        fix=f"did you mean {folder / guess}?" if guess else None,
    )
