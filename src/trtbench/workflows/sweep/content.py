"""What the steps of a sweep depend on: data, files and tools, by their content and versions."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from trtbench.boundary import at_home, clean_line, read_bytes
from trtbench.build.builders import BUILDERS
from trtbench.build.quantize_data import RANDOM
from trtbench.domain.result import Scalar
from trtbench.errors import InputError, UsageError
from trtbench.host.environment import read_environment
from trtbench.host.files import cache_folder, write_whole
from trtbench.host.gpu_names import gpu_uuid
from trtbench.host.versions import library_versions
from trtbench.models.identity import TICK_NS, Signature, sha256_of, signature_of
from trtbench.models.torch_models import files_of_factory
from trtbench.tasks import TASKS
from trtbench.tasks.contract import calibrating, completed
from trtbench.workflows.make.calibration_images import are_images
from trtbench.workflows.sweep.matrix import Matrix

ARRAYS = {".npz", ".npy"}


def digest(value: object) -> str:
    """Hash a value by its content."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


def judging_of(matrix: Matrix) -> dict[str, object]:
    """Tell how accuracies are taken: the task, its settings, and what the files they name hold."""
    task = TASKS.load(matrix.task)
    settings = completed(task.FLAGS, matrix.task_settings)
    beside = task.read_beside({**settings, "data": matrix.data}) if task.read_beside else ()
    return {
        "task": matrix.task,
        "settings": settings,
        "files": files_named(settings),
        "beside": [data_digest(str(path)) for path in beside],
        **({"names": matrix.names} if matrix.names != "case" else {}),
    }


def files_named(settings: Mapping[str, Scalar]) -> dict[str, str]:
    """Hash the files that settings name, that of a factory's code too."""
    code = files_of_factory(str(settings.get("factory") or ""))
    named = {**settings, **{f"factory {name}": name for name in code}}
    return {
        key: data_digest(value)
        for key, value in named.items()
        if isinstance(value, str) and Path(value).exists()
    }


def prepares(matrix: Matrix) -> bool:
    """Say whether the task of the sweep prepares the data to calibrate with, as those it judges on.

    It does so to images, and to arrays where it is judged on arrays: bytes become parts of one.
    """
    source = matrix.calibration
    if source is None or source == RANDOM or are_images(source):
        return are_images(source)
    both = {Path(each).suffix.lower() for each in (source, matrix.data or source)}
    return matrix.data is not None and both <= ARRAYS


def preparing_of(matrix: Matrix) -> dict[str, Scalar]:
    """Find the task's settings that matter for inputs, for calibrating as for judging."""
    flags = TASKS.load(matrix.task).FLAGS
    settings = completed(flags, matrix.task_settings)
    return {flag.key: settings[flag.key] for flag in flags if flag.preprocessing}


def calibration_digest(matrix: Matrix) -> str:
    """Hash the data to calibrate with, and what a task reads beside them."""
    source, task = str(matrix.calibration), TASKS.load(matrix.task)
    if not prepares(matrix) or task.read_beside is None:
        return data_digest(source)
    beside = task.read_beside(calibrating(task.FLAGS, {**preparing_of(matrix), "data": source}))
    return digest([data_digest(each) for each in (source, *map(str, beside))])


def data_digest(source: str) -> str:
    """Hash a file of data, or all files of a folder, by their bytes."""
    path = Path(source)
    if source == "random":
        return source
    if path.is_dir():
        return digest([(clean_line(name), each) for name, each in hashes_of_folder(path).items()])
    if not path.is_file():
        raise UsageError(f"there is no file {source}", fix="give a file or a folder that is there")
    return sha256_of(path)


def tools(*names: str) -> dict[str, str]:
    """Find versions of what does a step: another version may make another file."""
    versions = library_versions()
    return {name: versions[name] for name in names if name in versions}


def builder_tools(builder: str, *, device: str, python: str | None) -> dict[str, str]:
    """Name what else an engine depends on: the builder, the GPU it is for, its driver."""
    gpus = read_environment(command=None, folder=Path.cwd()).gpus
    uuid = gpu_uuid(device)
    on = next((each for each in gpus if each.uuid and each.uuid == uuid), gpus[0] if gpus else None)
    gpu = {"gpu": on.name, "driver": on.driver or ""} if on else {}
    return {**gpu, **(packages_of(python) if python else BUILDERS.load(builder).tools())}


def packages_of(python: str) -> dict[str, str]:
    """Tell which TensorRT another interpreter has, by what is installed beside it."""
    path = at_home(python)
    places = path.absolute().parent.parent.glob("lib*/python3*/*-packages")
    names = {each.name for place in places for each in place.glob("[Tt]ensor[Rr][Tt]*-info")}
    return {"python": str(path), "packages": " ".join(sorted(names))}


KEPT_FROM_BYTES = 64 << 20
"""What is smaller is read again each time, which takes a moment."""

_Kept = dict[str, tuple[Signature, str]]


def hashes_of_folder(folder: Path) -> dict[str, str]:
    """Hash every file below a folder by its bytes, by the names they have there.

    A file whose device, number, size and times of change are as they were is not read again. The
    system sets one of these times itself: giving a changed file its old date back hides nothing.
    """
    files = {str(each.relative_to(folder)): each for each in sorted(folder.rglob("*"))
             if each.is_file()}  # fmt: skip
    states = {name: signature_of(path) for name, path in files.items()}
    if sum(state.size for state in states.values()) < KEPT_FROM_BYTES:
        return {name: sha256_of(path) for name, path in files.items()}
    kept = _read(folder)
    found: _Kept = {}
    for name, path in files.items():
        known = kept.get(name)
        same = known is not None and known[0] == states[name]
        found[name] = known if same and known else (states[name], sha256_of(path))
    _keep(folder, {name: each for name, each in found.items() if _is_old(each[0])})
    return {name: digest for name, (_, digest) in found.items()}


def _is_old(state: Signature) -> bool:
    """Say whether a file that changes now would show it: clocks of file systems have ticks."""
    return time.time_ns() - max(state.modified_ns, state.changed_ns) > TICK_NS


def _place(folder: Path) -> Path:
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:24]
    return cache_folder() / "hashes" / f"{name}.json"


def _read(folder: Path) -> _Kept:
    try:
        return msgspec.json.decode(read_bytes(_place(folder)), type=_Kept)
    except (OSError, InputError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


def _keep(folder: Path, kept: _Kept) -> None:
    place = _place(folder)
    with contextlib.suppress(OSError, UnicodeEncodeError):  # the next time takes longer
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(place, msgspec.json.encode(kept))
