"""Which files are meant, those in archives too, what kind each is, and what it holds."""

from __future__ import annotations

import glob
import io
import lzma
import os
import re
import shutil
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeVar

import msgspec

from trtbench.core.errors import InputError, ParseError, reading
from trtbench.core.safety import (
    at_home,
    check_filled,
    check_name,
    clean_line,
    file_name_from_text,
    read_bytes,
)
from trtbench.core.samples import Column
from trtbench.core.spec import Value
from trtbench.core.units import counted
from trtbench.formats.toolkit import (
    EngineMetadata,
    RunConfig,
    ToolkitSummary,
    TorchBenchmark,
    series_from_csv,
    value_from_document,
)
from trtbench.models.identity import sha256_of
from trtbench.store.directory import RECORD
from trtbench.trtexec.conditions import log_from_metadata
from trtbench.trtexec.exports import (
    calibration_from_text,
    documents_from_json,
    graph_from_json,
    profiles_from_json,
)
from trtbench.trtexec.log import read_log
from trtbench.trtexec.log_text import encoding_of, unpacked
from trtbench.trtexec.log_values import LogRun, LogText
from trtbench.trtexec.sniff import is_archive, kind_of, kind_of_stream
from trtbench.trtexec.times import TimesArray, TimesFile, read_times, statistics_as_printed
from trtbench.trtexec.version import HEADER_BYTES, plan_from_bytes

T = TypeVar("T")

MOST_TEXT_BYTES = 512 * 2**20
"""A log or a JSON document above this is refused; times files are read piece by piece."""
_GLOB = re.compile(r"[*?\[]")
_ROLE = "|".join((
    "export",
    "times|timings?|trace",
    "profile|profiling|layer_?latency",
    "graph|layer_?info|layers?|engine_?info|engine_?inspector|inspector",
    "output_?diff|outputs?",
    "build|metadata|engine_?metadata|run_?config",
    "trtexec|stdout|stderr|log|raw|report",
    "summary|percentiles|per_?layer_?times?|(?:latency|enqueue|compute|end_to_end)_?series",
    "latency_?percentiles|bench_?pt_?result|calib|calibration|int8cache",
))  # fmt: skip
_BEFORE = re.compile(rf"(?:{_ROLE})(?:[._-]+|\Z)", re.IGNORECASE)
_AFTER = re.compile(rf"(?:[._-]+|\A)(?:{_ROLE})\Z", re.IGNORECASE)
_RUN_TOGETHER = re.compile(r"[._-]export(?:Times|Profile|LayerInfo|Output)\Z", re.IGNORECASE)
_ENDINGS = re.compile(
    r"\.(?:json|csv|log|txt|md|out|ipynb|html?|cache|int8cache|profile)\Z", re.IGNORECASE
)
_MODEL_ENDINGS = re.compile(r"\.(?:engine|plan|trt|onnx|pt|pth)\Z", re.IGNORECASE)
_KINDS_BY_NAME = {
    "engine_metadata.json": "toolkit-engine-metadata",
    "run_config.json": "toolkit-run-config",
    "output_diff.json": "toolkit-output-diff",
}
_DEVICE = re.compile(rb'\s*\[\s*\{\s*"Name"\s*:.{1,200}"ComputeCapability"', re.DOTALL)
"""Attributes of a device, as TREx keeps them beside an engine."""
KINDS = {
    "unknown": "not recognised as anything of trtexec's or the toolkits'",
    "archive": "an archive within an archive; unpack it, and import the folder",
    "empty": "empty",
    "log": "has words of trtexec's, but no run of it",
    "toolkit-table": "a table of the evaluation toolkit; the JSON files it is made of are read",
}


class Unused(Value, frozen=True, kw_only=True):
    """A file that became no part of a run, and why."""

    path: str
    kind: str
    reason: str
    named: bool = False
    broken: bool = False
    """Whether the file is damaged, as against one that has nothing to import."""


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    """One file that was asked about."""

    path: Path
    kind: str
    named: bool
    inside: str | None = None
    """Of a file that was taken out of an archive: the archive, and its name in there."""

    @property
    def shown(self) -> str:
        """The file as the user knows it."""
        return plain(self.path) if self.inside is None else self.inside

    @property
    def place(self) -> str:
        """The file, whatever the current folder is."""
        return plain(Path(self.inside or self.path).absolute())

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def key(self) -> str:
        """What the file's name says beside the part it plays; empty for ``times.json``."""
        return key_of(plain(self.path.name))

    @cached_property
    def sha256(self) -> str:
        return sha256_of(self.path)


def plain(path: Path | str) -> str:
    """Write a path so that it can be printed and kept; bytes that are no text are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def key_of(name: str) -> str:
    """Take words like ``times``, ``profile`` or ``stdout`` off a file's name, and its endings."""
    text = _ENDINGS.sub("", name)
    before = None
    while text != before:
        before = text
        text = _RUN_TOGETHER.sub("", text)
        text = _AFTER.sub("", _BEFORE.sub("", text, count=1) if _BEFORE.match(text) else text)
    for _ in range(2):  # net.onnx.engine
        text = _MODEL_ENDINGS.sub("", text)
    return text.strip("._-")


def files_from_paths(paths: Sequence[str]) -> tuple[list[tuple[Path, bool]], list[Unused]]:
    """List every file once, with whether it was named itself; folders are searched."""
    found: dict[Path, tuple[Path, bool]] = {}
    left: list[Unused] = []
    for text in paths:
        given = at_home(text)
        matches, named = [given], True
        if not given.exists():
            # Path.glob takes no absolute pattern.
            names = glob.glob(str(given), recursive=True) if _GLOB.search(text) else []  # noqa: PTH207
            matches, named = [Path(each) for each in sorted(names)], False
        if not matches:
            raise InputError(f"there is no file or folder {text}", fix="check the spelling")
        for path in matches:
            if path.is_dir():
                for each, real in _below(path, left):
                    found.setdefault(real, (each, False))
            else:
                found[path.resolve()] = (path, named)
    return list(found.values()), left


def _below(folder: Path, left: list[Unused]) -> Iterator[tuple[Path, Path]]:
    """List the files below a folder, each with where it lies when links are followed."""
    for place, folders, names in os.walk(folder):
        here, real = Path(place), Path(place).resolve()
        if RECORD in names:
            reason = "a run of trtbench already; to list it: trtbench runs reindex FOLDER"
            left.append(Unused(path=plain(here), kind="run directory", reason=reason))
            folders.clear()
            continue
        for name in sorted(each for each in folders if each.startswith(".")):
            reason = "a hidden folder, not looked into"
            left.append(Unused(path=plain(here / name), kind="folder", reason=reason))
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            path = here / name
            is_link = path.is_symlink()
            if path.is_file():
                yield path, path.resolve() if is_link else real / name
                continue
            reason = "a link to nothing" if is_link else "no regular file"
            left.append(Unused(path=plain(path), kind="unknown", reason=reason))


def found_from_path(path: Path, *, named: bool, inside: str | None = None) -> FoundFile:
    """Recognise the kind of a file by its first bytes, then by its name."""
    shown = inside or plain(path)
    if not path.is_file():
        raise InputError(f"{shown} is no regular file", fix="write it to a file first")
    check_filled(path)
    with reading(shown), open(path, "rb") as file:
        kind, head = kind_of_stream(file, name=path.name)
        is_packed = kind == "unknown" and not file.seek(0) and unpacked(file) is not None
    found: str = kind
    if kind == "unknown":
        found = _KINDS_BY_NAME.get(path.name.lower(), kind)
        found = "device" if _DEVICE.match(head) else found
        inner = kind_of(head, name=path.stem) if is_packed else "unknown"
        is_inside = inner not in ("unknown", "onnx", "plan")
        found = "archive" if is_archive(head) or is_inside else found
    found = found if head.strip() else "empty"
    return FoundFile(path=path, kind=found, named=named, inside=inside)


@dataclass(frozen=True, eq=False, kw_only=True)
class FilePart:
    """One thing a file states; a file of several exports has several parts."""

    file: FoundFile
    slot: str
    """The place it takes in a run: ``log``, ``times``, ``profile``, ``graph``, ..."""
    index: int = 0
    of: int = 1
    value: Any = None
    """A LogRun, names of layers, a decoded document, or ``None`` for what is read later."""
    text: LogText | None = None
    shelf: TimesShelf | None = None

    def times(self) -> TimesArray:
        """The rows of a times array, warm-up and all."""
        assert self.shelf is not None
        return self.shelf.read(self.file).arrays[self.index]


class TimesShelf:
    """Times files with all their rows: the last few, and none that are large."""

    MOST_FILES, LARGEST_BYTES = 16, 64 << 20

    def __init__(self) -> None:
        self._files: dict[Path, TimesFile] = {}
        self._statistics: dict[object, dict[str, dict[str, float]]] = {}

    def metrics(self, times: FilePart, *, warmup_ms: float) -> dict[str, dict[str, float]]:
        """What trtexec would have printed of an array; many logs may be compared with one."""
        key = (times.file.path, times.index, warmup_ms)
        if key not in self._statistics:
            columns = self.read(times.file).arrays[times.index].columns
            self._statistics[key] = statistics_as_printed(columns, warmup_ms=warmup_ms)
        return self._statistics[key]

    def read(self, found: FoundFile) -> TimesFile:
        """Read a file with its warm-up rows, unless it is still held."""
        known = self._files.pop(found.path, None)
        if known is None:
            with open(found.path, "rb") as stream:
                known = read_times(stream, where=found.shown, warmup_ms=0.0)
        if found.path.stat().st_size <= self.LARGEST_BYTES:
            self._files[found.path] = known
        if len(self._files) > self.MOST_FILES:
            self._files.pop(next(iter(self._files)))  # the one that was used longest ago
        return known


def parts_from_file(found: FoundFile, shelf: TimesShelf) -> list[FilePart]:
    """Look into a file; one that is damaged is a ``ParseError``."""
    kind, where = found.kind, found.shown
    if kind == "log":
        with open(found.path, "rb") as stream:
            text = read_log(stream, where=where)
        return [
            FilePart(file=found, slot=_log_slot(run), index=i, of=len(text.runs), value=run,
                     text=text)
            for i, run in enumerate(text.runs)
        ]  # fmt: skip
    slot, values = kind, list[Any]([None])
    if kind == "times":
        values *= len(shelf.read(found).arrays)
    elif kind == "profile":
        profiles = profiles_from_json(data_of(found), where=where)
        values = [tuple(layer.name for layer in each.layers) for each in profiles]
    elif kind == "layers":
        graph = graph_from_json(data_of(found), where=where)
        slot, values = "graph", [tuple(layer.name for layer in graph.layers)]
    elif kind == "output":
        expected = "the tensors of trtexec --exportOutput"
        values *= len(documents_from_json(data_of(found), where=where, expected=expected))
    elif kind == "metadata":
        document = document_of(found)
        slot, values = "build_metadata", [document]
        if document.keys() & {"performance_summary", "inference_options"}:
            slot, values = "profile_metadata", [log_from_metadata(document, where=where)]
    elif kind == "calibration":
        cache = calibration_from_text(data_of(found), where=where)
        values = [f"{cache.header}, {len(cache.scales)} tensors"]
    elif kind == "plan":
        with open(found.path, "rb") as file:
            values = [plan_from_bytes(file.read(HEADER_BYTES), where=where)]
    elif kind == "device":
        values = [_decoded(found, list[dict[str, Any]])[:1]]
    elif kind.startswith("toolkit-") and kind != "toolkit-table":
        slot, value = _toolkit_part(found, kind.removeprefix("toolkit-"))
        values = [value]
    elif kind == "timing-cache":
        slot = "timing_cache"
    elif kind != "onnx":
        return []
    return [
        FilePart(file=found, slot=slot, index=i, of=len(values), value=value, shelf=shelf)
        for i, value in enumerate(values)
    ]


def _log_slot(run: LogRun) -> str:
    """The place of a log: of a measurement, a build, a failure, or a help text."""
    if run.outcome == "help":
        return "help"
    if run.summary is not None or run.profile is not None:
        return "log"
    built = run.facts.build_s is not None or run.facts.generate_s is not None
    if run.outcome in ("failed", "crashed") or (run.announced and run.outcome == "cut"):
        return "build_log" if run.outcome == "cut" and built else "failed_log"
    return "build_log" if built or run.outcome != "cut" else "excerpt"


_TYPED: dict[str, type[msgspec.Struct]] = {
    "torch-bench": TorchBenchmark,
    "engine-metadata": EngineMetadata,
    "run-config": RunConfig,
}


def _toolkit_part(found: FoundFile, kind: str) -> tuple[str, object]:
    """The place and the value of a file of the trtexec evaluation toolkit."""
    slot = {"layers": "layer_csv", "torch-bench": "torch"}.get(kind, kind.replace("-", "_"))
    if kind == "series":
        name, column = series_of(found)
        return f"{name}_series", len(column)
    if kind == "summary":
        document = document_of(found)
        inner = document.get("summary")  # report.json holds the summary
        if isinstance(inner, Mapping):
            return "report", value_from_document(ToolkitSummary, inner)
        return slot, value_from_document(ToolkitSummary, document)
    if kind == "output-diff":
        return slot, document_of(found)
    return slot, value_from_document(_TYPED[kind], document_of(found)) if kind in _TYPED else None


def data_of(found: FoundFile) -> bytes:
    """Read a file that is taken as a whole."""
    try:
        if found.path.stat().st_size > MOST_TEXT_BYTES:
            raise _broken(found, f"at most {MOST_TEXT_BYTES >> 20} MiB of {found.kind}")
        return read_bytes(found.path)
    except OSError as problem:
        raise _broken(found, "a file that can be read", problem.strerror) from None


def text_of(found: FoundFile) -> str:
    """Read a file of text, whatever bytes are in it."""
    return data_of(found).decode("utf-8", "replace")


def series_of(found: FoundFile) -> tuple[str, Column]:
    """Read a ``*_series.csv`` of the trtexec evaluation toolkit: its name and seconds."""
    try:
        name, column = series_from_csv(text_of(found))
    except ValueError:
        raise _broken(found, "one column of numbers under its name") from None
    if not len(column):
        raise _broken(found, "at least one row")
    return name, column


def document_of(found: FoundFile) -> dict[str, Any]:
    """Read a JSON object."""
    return _decoded(found, dict[str, Any])


def _decoded(found: FoundFile, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data_of(found), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise _broken(found, "a JSON object", str(problem)) from None


def _broken(found: FoundFile, expected: str, reason: str | None = None) -> ParseError:
    facts = {"expected": expected, **({"found": reason} if reason else {})}
    return ParseError(f"{found.shown} is not what it was taken for ({found.kind})", facts=facts)


def broken_file(
    shown: str, kind: str, problem: InputError | OSError, *, named: bool = False
) -> Unused:
    """A file that cannot be used, with what is wrong with it."""
    reason = str(problem) if isinstance(problem, InputError) else f"{problem.strerror or problem}"
    lines = [" ".join(line.split()) for line in reason.splitlines()]
    said = "; ".join(line for line in lines if line != f"file {shown}").removeprefix(f"{shown} ")
    return Unused(path=shown, kind=kind, reason=said, named=named, broken=True)


MOST_MEMBERS, MOST_BYTES = 10_000, 2 << 30
"""What all archives of one command may hold together."""
MOST_RATIO, RATIO_FROM_BYTES = 300, 16 << 20
"""Logs are a tenth to a hundredth of their size when packed; what swells more is none."""
_MOST_DIRECTORY_BYTES, _MOST_HEADER_BYTES = 64 << 20, 16 << 20
_TAIL_BYTES = (1 << 16) + 98
"""Where the end of a zip file's directory is: behind it comes a comment of 64 KiB at most."""
_CHUNK, _HEAD_BYTES = 1 << 20, 64 << 10
_PACKED_ENDINGS = (".zip", ".tar", ".tgz", ".tbz2", ".txz", ".gz", ".bz2", ".xz")
_DAMAGE = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, ValueError, NotImplementedError,
    RuntimeError, OverflowError, MemoryError, lzma.LZMAError,
)  # fmt: skip
_FIRST_TIME_S, _LAST_TIME_S = 11 * 365 * 86400.0, 2.0**33
"""Zip files say 1980 where the time is not known."""


class TooMuchError(InputError):
    """An archive holds more than is taken out of one."""


def _too_much(shown: str, what: str, first: str) -> TooMuchError:
    return TooMuchError(
        f"{shown} holds more {what} than are taken out",
        facts={"not read": f"from {clean_line(first)} on"},
        fix="unpack it, and import the folder",
    )


class Member(NamedTuple):
    """A file of an archive: how it is shown, and where it is now or why it was not taken out."""

    shown: str
    path: Path | None
    reason: str = ""


class _Packed(NamedTuple):
    name: str
    modified_s: float
    open: Callable[[], IO[bytes] | None]
    reason: str | None = None


class Unpacking:
    """Takes files out of archives into a folder; its bounds hold for all of them together."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._left_bytes, self._left_members = MOST_BYTES, MOST_MEMBERS
        self._archives = 0

    def members(self, path: Path) -> Iterator[Member]:
        """Take out the files of an archive, or the one that is packed, one at a time.

        An archive that is damaged, or holds more than may be taken out, is an ``InputError`` after
        what came before.
        """
        archive, shown = path, plain(path)
        self._archives += 1
        stem = path.name
        while stem.lower().endswith(_PACKED_ENDINGS):
            stem = stem.rpartition(".")[0]
        place = self._folder / str(self._archives) / file_name_from_text(stem or "archive")
        self._allowed = max(RATIO_FROM_BYTES, MOST_RATIO * path.stat().st_size)
        with open(path, "rb") as file:
            packed = unpacked(file, most=MOST_BYTES)
            if packed is not None:
                archive = place / path.name.rpartition(".")[0]
                self._write(archive, iter(partial(packed.read, _CHUNK), b""), shown, path.name)
        with open(archive, "rb") as file:
            head = file.read(512)
        if packed is not None and not is_archive(head):
            shutil.copystat(path, archive)
            yield Member(shown, archive)
            if packed.is_damaged:
                raise _damaged(shown, "it is cut off")
            return
        try:
            for each in _in_zip(archive) if head[:2] == b"PK" else _in_tar(archive):
                self._left_members -= 1
                if self._left_members < 0:
                    raise _too_much(shown, "files", each.name)
                yield self._member(each, place / "files", shown, path.stat().st_mtime)
        except _DAMAGE as problem:
            raise _damaged(shown, str(problem) or type(problem).__name__) from None

    def _member(self, each: _Packed, place: Path, shown: str, usual_s: float) -> Member:
        name, reason = f"{shown}/{clean_line(each.name).removeprefix('./')}", each.reason
        try:
            target = place / check_name(each.name.replace("\\", "/"))
            while target.exists():  # a name that comes again
                target = target.parent / "again" / target.name
            stream = each.open() if reason is None else None
            if stream is None:
                return Member(name, None, reason or "")
            with stream:
                head = stream.read(_HEAD_BYTES)
                reason = unwanted(each.name, head)
                if reason is None:
                    pieces = chain([head], iter(partial(stream.read, _CHUNK), b""))
                    self._write(target, pieces, shown, each.name)
                    is_known = _FIRST_TIME_S < each.modified_s < _LAST_TIME_S
                    modified_s = each.modified_s if is_known else usual_s
                    os.utime(target, (modified_s, modified_s))
                    return Member(name, target)
        except TooMuchError:
            raise
        except InputError as problem:
            reason = problem.message
        except _DAMAGE as problem:
            reason = f"damaged: {clean_line(str(problem))}"
        except (FileExistsError, IsADirectoryError, NotADirectoryError):
            reason = "its name is that of a folder, too"
        return Member(name, None, reason)

    def _write(self, target: Path, pieces: Iterable[bytes], shown: str, name: str) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        with open(target, "xb") as file:
            for piece in pieces:
                self._left_bytes -= len(piece)
                self._allowed -= len(piece)
                if min(self._allowed, self._left_bytes) < 0:
                    raise _too_much(shown, "bytes", name)
                file.write(piece)


def _damaged(shown: str, reason: str) -> InputError:
    return InputError(
        f"{shown} is damaged",
        facts={"reason": clean_line(reason)},
        fix="copy it again, or make it anew",
    )


def _in_zip(path: Path) -> Iterator[_Packed]:
    # A directory of members that would fill the memory is refused before it is read.
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        tail = file.read(_TAIL_BYTES)
    at, large = tail.rfind(b"PK\5\6"), tail.rfind(b"PK\6\6")
    size = int.from_bytes(tail[at + 12 : at + 16], "little")
    if large >= 0:
        size = int.from_bytes(tail[large + 40 : large + 48], "little")
    if size > _MOST_DIRECTORY_BYTES:
        raise _too_much(clean_line(str(path)), "files", "the first")
    with zipfile.ZipFile(path) as archive:
        for each in archive.infolist():
            if each.is_dir():
                continue
            reason = "encrypted; unpack it with its password" if each.flag_bits & 1 else None
            try:
                modified_s = time.mktime((*each.date_time, 0, 0, -1))
            except (ValueError, OverflowError):
                modified_s = 0.0
            yield _Packed(each.filename, modified_s, partial(archive.open, each), reason)


class _Careful:
    """A tar file of which no header may ask for more than is sensible at once."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.seek, self.tell = file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _MOST_HEADER_BYTES:
            raise tarfile.ReadError("a header that is too long")
        return self._file.read(size)


def _in_tar(path: Path) -> Iterator[_Packed]:
    with open(path, "rb") as file, tarfile.open(fileobj=_Careful(file), mode="r:") as archive:  # type: ignore[call-overload]
        for each in archive:
            if not each.isdir():
                # A sparse member says that it is large, and brings nothing.
                is_file = each.isreg() and not each.issparse()
                reason = None if is_file else "a link, or no regular file"
                content = partial(archive.extractfile, each)
                yield _Packed(each.name, float(each.mtime), content, reason)


def unwanted(name: str, head: bytes) -> str | None:
    """Why a file of an archive is not looked into: a model is large, and other data no text."""
    if unpacked(io.BytesIO(head)) is not None:
        return None
    kind = kind_of(head, name=name)
    if kind in ("onnx", "plan"):
        return "a model; unpack the archive to have it beside its runs"
    if is_archive(head):
        return KINDS["archive"]
    return "" if kind == "unknown" and encoding_of(head) is None else None


def parts_from_archive(
    found: FoundFile, unpacking: Unpacking, shelf: TimesShelf
) -> tuple[list[FilePart], list[Unused]]:
    """Look into an archive; files in it that hold nothing of use are counted, others named."""
    parts: list[FilePart] = []
    unused: list[Unused] = []
    others = 0
    try:
        for shown, path, reason in unpacking.members(found.path):
            inside, kind = list[FilePart](), "archive" if reason else "unknown"
            try:
                if path is not None:
                    each = found_from_path(path, named=False, inside=shown)
                    kind = each.kind
                    inside = parts_from_file(each, shelf)
            except (InputError, OSError) as problem:
                unused.append(broken_file(shown, kind, problem))
                continue
            parts += inside
            if not inside and kind in ("unknown", "empty"):
                others += 1
            elif not inside:
                reason = reason or KINDS.get(kind, KINDS["unknown"])
                unused.append(Unused(path=shown, kind=kind, reason=reason))
    except (InputError, OSError) as problem:
        unused.append(broken_file(found.shown, "archive", problem, named=found.named))
    kept, again = _without_repeated(parts)
    is_empty = not parts and not unused
    if others or is_empty:
        what = f"{counted(others, 'other file')} in it: {KINDS['unknown']}"
        named = found.named and is_empty
        unused.append(Unused(path=found.shown, kind="archive", reason=what, named=named))
    return kept, unused + again


def _without_repeated(parts: Iterable[FilePart]) -> tuple[list[FilePart], list[Unused]]:
    """Leave out logs that stand in an archive twice: build servers keep jobs whole and by step."""
    kept: list[FilePart] = []
    again: list[Unused] = []
    known: dict[object, str] = {}
    for part in parts:
        run, shown = part.value, part.file.shown
        first = shown
        if isinstance(run, LogRun) and run.first_stamp is not None and run.summary is not None:
            stamps = (run.first_stamp, run.last_stamp)
            identity = (run.command, *stamps, repr(run.summary), repr(run.averages))
            first = known.setdefault(identity, shown)
        if first == shown:
            kept.append(part)
            continue
        reason = f"the same run stands in {first.rsplit('/', 1)[-1]}"
        again.append(Unused(path=shown, kind=part.file.kind, reason=reason))
    return kept, again
