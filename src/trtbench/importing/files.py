"""Finds the files to import, reads them, and groups those of one run."""

from __future__ import annotations

import functools
import glob
import math
import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from trtbench.core.errors import InputError, ParseError, reading
from trtbench.core.safety import check_filled, expand_home, read_bytes
from trtbench.core.samples import Column
from trtbench.core.spec import Value
from trtbench.formats import toolkit
from trtbench.models.identity import sha256_of
from trtbench.store.directory import RECORD
from trtbench.trtexec import exports
from trtbench.trtexec import times as exported_times
from trtbench.trtexec.conditions import log_from_metadata
from trtbench.trtexec.log import is_packed, read_log
from trtbench.trtexec.log_values import LogRun, LogText
from trtbench.trtexec.sniff import is_archive, kind_of_stream
from trtbench.trtexec.version import plan_from_file

T = TypeVar("T")

MAX_TEXT_BYTES = 512 * 2**20
"""Larger logs and JSON documents are refused; files of times are read in pieces."""
MAX_HELD_BYTES = 64 << 20
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
_RUN_TOGETHER = re.compile(r"[._-]export(?:Times|Profile|LayerInfo|Output)\Z", re.I)
_ENDINGS = re.compile(r"\.(?:json|csv|log|txt|md|out|ipynb|html?|cache|int8cache|profile)\Z", re.I)
_MODEL_ENDINGS = re.compile(r"\.(?:engine|plan|trt|onnx|pt|pth)\Z", re.I)
_KINDS_BY_NAME = {
    "engine_metadata.json": "toolkit-engine-metadata",
    "run_config.json": "toolkit-run-config",
    "output_diff.json": "toolkit-output-diff",
}
_DEVICE = re.compile(rb'\s*\[\s*\{\s*"Name"\s*:.{1,200}"ComputeCapability"', re.DOTALL)
"""Attributes of a device, as TREx writes them next to an engine."""
_OWN_TABLE = re.compile(
    rb'\s*\[\s*\{\s*"index":.{1,9999}"precision_basis":|index,name,kind,role,', re.DOTALL
)
KINDS = {
    "unknown": "not recognised as a file of trtexec or a toolkit",
    "own-table": "a table of layers that trtbench profile wrote; its run has the times",
    "archive": "an archive within an archive; unpack it, and import the folder",
    "empty": "empty",
    "log": "mentions trtexec, but has no run of it",
    "toolkit-table": "a table of the evaluation toolkit; the JSON files it is made of are read",
}


class Unused(Value, frozen=True, kw_only=True):
    """A file that is not part of a run, and why."""

    path: str
    kind: str
    reason: str
    named: bool = False
    broken: bool = False


@dataclass(frozen=True, kw_only=True)
class FoundFile:
    """One file to read."""

    path: Path
    kind: str
    named: bool
    inside: Path | None = None
    """For a file extracted from an archive: the path of the archive and the name in it."""

    @property
    def place(self) -> Path:
        """The path that the user knows: for an extracted file, that of the archive."""
        return self.inside or self.path

    @property
    def shown(self) -> str:
        return plain(self.place)

    @functools.cached_property
    def key(self) -> str:
        """The name without words like ``times`` or ``stdout``; empty for ``times.json``."""
        text, before = _ENDINGS.sub("", plain(self.path.name)), None
        while text != before:
            before = text
            text = _RUN_TOGETHER.sub("", text)
            text = _AFTER.sub("", _BEFORE.sub("", text, count=1) if _BEFORE.match(text) else text)
        for _ in range(2):  # net.onnx.engine
            text = _MODEL_ENDINGS.sub("", text)
        return text.strip("._-")

    @functools.cached_property
    def sha256(self) -> str:
        return sha256_of(self.path)


def plain(path: Path | str) -> str:
    """Return a printable path; bytes that are not text are replaced."""
    return os.fsencode(path).decode("utf-8", "replace")


def files_from_paths(paths: Sequence[str]) -> tuple[list[tuple[Path, bool]], list[Unused]]:
    """Return every file once, with whether the user named it, and the unused; searches folders."""
    found: dict[Path, tuple[Path, bool]] = {}
    left: list[Unused] = []
    for text in paths:
        given = expand_home(text)
        matches, named = [given], True
        if not given.exists():
            # Path.glob takes no absolute pattern.
            names = glob.glob(str(given), recursive=True) if glob.has_magic(text) else []  # noqa: PTH207
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
    """Iterate over the files below a folder, each with its path with links resolved."""
    for place, folders, names in os.walk(folder):
        here, real = Path(place), Path(place).resolve()
        if RECORD in names:
            reason = "already a run of trtbench; to list it: trtbench runs reindex FOLDER"
            left.append(Unused(path=plain(here), kind="run directory", reason=reason))
            folders.clear()
            continue
        for name in sorted(each for each in folders if each.startswith(".")):
            reason = "a hidden folder, not searched"
            left.append(Unused(path=plain(here / name), kind="folder", reason=reason))
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for name in sorted(names):
            path = here / name
            is_link = path.is_symlink()
            if path.is_file():
                yield path, path.resolve() if is_link else real / name
                continue
            reason = "a broken link" if is_link else "not a regular file"
            left.append(Unused(path=plain(path), kind="unknown", reason=reason))


def found_from_path(path: Path, *, named: bool, inside: Path | None = None) -> FoundFile:
    """Recognise the kind of a file by its first bytes, then by its name."""
    if not path.is_file():
        raise InputError(f"{plain(path)} is not a regular file", fix="write it to a file first")
    check_filled(path)
    with reading(plain(path)), open(path, "rb") as file:
        kind, head = kind_of_stream(file, name=path.name)
        packed = kind == "unknown" and not file.seek(0) and is_packed(file)
    found: str = kind
    if packed or (kind == "unknown" and is_archive(head)):
        found = "archive"
    elif kind == "unknown":
        found = "device" if _DEVICE.match(head) else _KINDS_BY_NAME.get(path.name.lower(), kind)
        found = "own-table" if _OWN_TABLE.match(head) else found
    found = found if head.strip() else "empty"
    return FoundFile(path=path, kind=found, named=named, inside=inside)


TimesReader = Callable[[FoundFile], tuple[exported_times.TimesArray, ...]]


@dataclass(frozen=True, eq=False, kw_only=True)
class FilePart:
    """One part of a file, such as a log or times; a file of several exports has several."""

    file: FoundFile
    slot: str  # its role in a run: `log`, `times`, `profile`, `graph`, ...
    index: int = 0
    of: int = 1
    value: Any = None
    """A LogRun, a profile, names of layers, a document, or ``None`` for what is read later."""
    text: LogText | None = None
    rows: TimesReader | None = None
    statistics: dict[float, dict[str, dict[str, float]]] = field(default_factory=dict)
    """Statistics of times by warm-up: many logs may be compared with one array."""

    @functools.cached_property
    def layer_names(self) -> list[str]:
        """The sorted names of the layers of a profile or of layer information."""
        kept = self.value
        return sorted(kept if isinstance(kept, list) else (each.name for each in kept.layers))

    def times(self) -> exported_times.TimesArray:
        """The rows of a times array, including the warm-up."""
        assert self.rows is not None
        return self.rows(self.file)[self.index]

    def reproduces(self, run: LogRun) -> bool | None:
        """Whether these times reproduce the numbers of a log; ``None`` if it has none."""
        if run.summary is None:
            # trtexec exports times only after it has printed a summary, so these are another run's.
            return False
        printed, warmup_ms = run.summary.metrics, warmup_ms_of(run)
        if run.summary.derived or not printed:
            return None
        warmup_ms = exported_times.DEFAULT_WARMUP_MS if warmup_ms is None else warmup_ms
        if warmup_ms not in self.statistics:
            self.statistics[warmup_ms] = exported_times.statistics_as_printed(
                self.times().columns, warmup_ms=warmup_ms
            )
        pairs = [
            (value, other)
            for label, statistics in self.statistics[warmup_ms].items()
            for name, value in statistics.items()
            if (other := printed.get(label, {}).get(name)) is not None
        ]
        # Relative; trtexec prints six digits of what it computed in single precision.
        same = all(math.isclose(*pair, rel_tol=1e-3, abs_tol=1e-5) for pair in pairs)
        return same if pairs else None


def times_reader() -> TimesReader:
    """Return a function that reads times with warm-up; it keeps the last few files in memory."""

    def read(found: FoundFile) -> tuple[exported_times.TimesArray, ...]:
        with open(found.path, "rb") as stream:
            return exported_times.read_times(stream, where=found.shown, warmup_ms=0.0)

    held = functools.lru_cache(maxsize=16)(read)
    return lambda found: (held if found.path.stat().st_size <= MAX_HELD_BYTES else read)(found)


def parts_from_file(found: FoundFile, rows: TimesReader) -> list[FilePart]:
    """Read the parts of a file; a damaged one raises a ``ParseError``."""
    kind, where = found.kind, found.shown
    if kind == "log":
        with open(found.path, "rb") as stream:
            text = read_log(stream, where=where)
        common: dict[str, Any] = {"file": found, "of": len(text.runs), "text": text}
        runs = enumerate(text.runs)
        return [FilePart(slot=_log_slot(run), index=i, value=run, **common) for i, run in runs]
    slot, values = kind, list[Any]([None])
    if kind == "times":
        values *= len(rows(found))
    elif kind == "profile":
        values = [*exports.profiles_from_json(data_of(found), where=where)]
    elif kind == "layers":
        graph = exports.graph_from_json(data_of(found), where=where)
        slot, values = "graph", [[layer.name for layer in graph.layers]]
    elif kind == "output":
        expected = "the tensors of trtexec --exportOutput"
        values *= len(exports.documents_from_json(data_of(found), where=where, expected=expected))
    elif kind == "metadata":
        document = _decoded(found, dict[str, Any])
        slot, values = "build_metadata", [document]
        if document.keys() & {"performance_summary", "inference_options"}:
            slot, values = "profile_metadata", [log_from_metadata(document, where=where)]
    elif kind == "plan":
        values = [plan_from_file(found.path, where=where)]
    elif kind == "device":
        values = [_decoded(found, list[dict[str, Any]])[:1]]
    elif kind == "toolkit-layers":
        slot = "layer_csv"
    elif kind == "toolkit-series":
        name, column = series_of(found)
        slot, values = f"{name}_series", [len(column)]
    elif kind == "toolkit-summary":
        document = _decoded(found, dict[str, Any])
        inner = document.get("summary")  # report.json holds the summary
        slot = "report" if isinstance(inner, Mapping) else "summary"
        summary = inner if slot == "report" else document
        values = [toolkit.value_from_document(toolkit.ToolkitSummary, summary)]
    elif kind == "toolkit-output-diff":
        slot, values = "output_diff", [_decoded(found, dict[str, Any])]
    elif kind in _TYPED:
        slot, struct = _TYPED[kind]
        values = [toolkit.value_from_document(struct, _decoded(found, dict[str, Any]))]
    elif kind == "timing-cache":
        slot = "timing_cache"
    elif kind not in ("onnx", "calibration"):
        return []
    return [
        FilePart(file=found, slot=slot, index=i, of=len(values), value=value, rows=rows)
        for i, value in enumerate(values)
    ]


_TYPED: dict[str, tuple[str, type[msgspec.Struct]]] = {
    "toolkit-torch-bench": ("torch", toolkit.TorchBenchmark),
    "toolkit-engine-metadata": ("engine_metadata", toolkit.EngineMetadata),
    "toolkit-run-config": ("run_config", toolkit.RunConfig),
}


def _log_slot(run: LogRun) -> str:
    """Return the role of a log: of a measurement, a build, a failure, or a help text."""
    if run.outcome == "help":
        return "help"
    if run.summary is not None or run.profile is not None:
        return "log"
    built = run.facts.build_s is not None or run.facts.generate_s is not None
    if run.outcome in ("failed", "crashed") or (run.announced and run.outcome == "cut"):
        return "build_log" if run.outcome == "cut" and built else "failed_log"
    return "build_log" if built or run.outcome != "cut" else "excerpt"


def data_of(found: FoundFile) -> bytes:
    """Read a whole file; too large or unreadable ones raise a ``ParseError``."""
    try:
        if found.path.stat().st_size > MAX_TEXT_BYTES:
            raise _broken(found, f"at most {MAX_TEXT_BYTES >> 20} MiB of {found.kind}")
        return read_bytes(found.path)
    except OSError as problem:
        raise _broken(found, "a file that can be read", problem.strerror) from None


def series_of(found: FoundFile) -> tuple[str, Column]:
    """Read a ``*_series.csv`` of the trtexec evaluation toolkit: its name and seconds."""
    try:
        name, column = toolkit.series_from_csv(data_of(found).decode("utf-8", "replace"))
    except ValueError:
        raise _broken(found, "one column of numbers under its name") from None
    if not len(column):
        raise _broken(found, "at least one row")
    return name, column


def _decoded(found: FoundFile, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(data_of(found), type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise _broken(found, "a JSON object", str(problem)) from None


def _broken(found: FoundFile, expected: str, reason: str | None = None) -> ParseError:
    facts = {"expected": expected, **({"found": reason} if reason else {})}
    return ParseError(f"{found.shown} does not have the content of a {found.kind}", facts=facts)


def broken_file(shown: str, kind: str, problem: InputError | OSError, *, named: bool) -> Unused:
    """Return the entry of a file that cannot be used, with the reason."""
    reason = str(problem) if isinstance(problem, InputError) else f"{problem.strerror or problem}"
    lines = [" ".join(line.split()) for line in reason.splitlines()]
    said = "; ".join(line for line in lines if line != f"file {shown}").removeprefix(f"{shown} ")
    return Unused(path=shown, kind=kind, reason=said, named=named, broken=True)


_REPRODUCED = "the times reproduce the numbers that were printed"

SHARED = ("plan", "onnx", "calibration", "timing_cache", "device", "graph", "build_log")
"""Roles that several runs may share, such as the engine they loaded."""
MEASURED = ("log", "times", "profile", "summary", "report", "torch", "layer_csv")
_NAMED_BY = {
    "--exportTimes": "times",
    "--exportProfile": "profile",
    "--exportLayerInfo": "graph",
    "--exportOutput": "output",
    "--loadEngine": "plan",
    "--saveEngine": "plan",
    "--onnx": "onnx",
    "--calib": "calibration",
    "--timingCacheFile": "timing_cache",
}


def warmup_ms_of(run: LogRun) -> float | None:
    """Return the requested warm-up of a run, from its options or its command."""
    match = re.search(r"\+ *([\d.]+) *ms warm", run.option("Duration") or "")
    if match:
        return float(match[1])
    given = run.flags.get("--warmUp", "")
    return float(given) if given.replace(".", "", 1).isdecimal() else None


@dataclass(eq=False, kw_only=True)
class Draft:
    """The parts of one run, at most one for each role."""

    folder: Path
    key: str
    parts: dict[str, FilePart] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def value(self, slot: str) -> Any:
        """Return the content of the part with a role; ``None`` if there is none."""
        part = self.parts.get(slot)
        return part.value if part else None

    @property
    def log(self) -> LogRun | None:
        """What trtexec printed, from a log or from the metadata of one."""
        log: LogRun | None = self.value("log")
        return log

    @property
    def measured(self) -> bool:
        return any(slot in MEASURED or slot.endswith("_series") for slot in self.parts)

    @property
    def failed(self) -> bool:
        return "failed_log" in self.parts and not self.measured

    @property
    def built(self) -> bool:
        """Whether the log shows only a build."""
        log: LogRun | None = self.value("build_log")
        built = log is not None and (log.facts.build_s or log.facts.generate_s)
        return bool(built) and not self.measured and not self.failed

    def take(self, part: FilePart) -> bool:
        """Add a part if its role is free and nothing contradicts it; returns whether it was."""
        if not self.fits(part):
            return False
        self.parts[part.slot] = part
        return True

    def fits(self, part: FilePart) -> bool:
        if part.slot in self.parts:
            return False
        other = self.parts.get({"graph": "profile", "profile": "graph"}.get(part.slot, ""))
        if other is not None and part.layer_names != other.layer_names:
            return False
        if part.slot != "profile" or self.log is None or self.log.profile is None:
            return True
        # The printed table leaves out layers that took no time.
        printed = {" ".join(layer.name.split()) for layer in self.log.profile.layers}
        return printed <= {" ".join(name.split()) for name in part.layer_names}

    def give(self, target: Draft) -> None:
        """Move all parts to another draft that it can accept."""
        for slot, part in list(self.parts.items()):
            if target.take(part):
                del self.parts[slot]

    def move(self, part: FilePart, target: Draft) -> None:
        """Move a part to another draft; parts that runs may share are kept here too."""
        if target.take(part) and part.slot not in SHARED:
            del self.parts[part.slot]
            if self.log is None and not self.failed:
                self.give(target)


def drafts_from_parts(parts: Iterable[FilePart]) -> list[Draft]:
    bags: dict[tuple[Path, str], list[FilePart]] = {}
    for part in parts:
        bags.setdefault((part.file.path.parent, part.file.key), []).append(part)
    drafts = [draft for place, bag in bags.items() for draft in _from_bag(*place, bag)]
    _join_named(drafts)
    _join_builds(drafts)
    by_folder: dict[Path, list[Draft]] = {}
    for draft in drafts:
        by_folder.setdefault(draft.folder, []).append(draft)
    for members in by_folder.values():
        _join_folder(members)
    return [draft for draft in drafts if draft.parts]


def _from_bag(folder: Path, key: str, bag: list[FilePart]) -> list[Draft]:
    def of(slot: str) -> list[FilePart]:
        return [part for part in bag if part.slot == slot]

    if not of("log"):  # the metadata of a log replaces a log that is missing
        bag = [replace(p, slot="log") if p.slot == "profile_metadata" else p for p in bag]
    heads = of("log") or of("times") or of("profile")
    firsts = (*heads, *of("failed_log"))
    drafts = [Draft(folder=folder, key=key, parts={part.slot: part}) for part in firsts]
    logs = [draft for draft in drafts if "log" in draft.parts]
    times = of("times") if logs else []
    left = [part for part in bag if part not in (*heads, *times) and part.slot != "failed_log"]
    for number, part in enumerate(times):
        # The run whose printed numbers the times reproduce, else by order.
        free = [draft for draft in logs if "times" not in draft.parts]
        same = {draft: part.reproduces(draft.parts["log"].value) for draft in free}
        target = next((draft for draft in free if same[draft]), None)
        in_order = len(times) == len(logs) and same.get(logs[number], False) is None
        if target is None and in_order:
            target = logs[number]
        if target is None:
            left.append(part)
            continue
        target.take(part)
        if same[target]:
            target.notes.append(_REPRODUCED)
    targets = [draft for draft in drafts if not draft.failed] or drafts
    for part in left:
        if not _place(part, targets):
            drafts.append(Draft(folder=folder, key=key, parts={part.slot: part}))
    # Remaining parts without a measurement are put together, so that a folder has one such draft.
    odd = [draft for draft in drafts if not draft.measured and not draft.failed]
    for draft in odd[1:]:
        draft.give(odd[0])
    return [draft for draft in drafts if draft.parts]


def _place(part: FilePart, drafts: list[Draft]) -> bool:
    """Add a part to the only run of its name, or by order if the counts agree."""
    if part.slot == "times" and any("log" in draft.parts for draft in drafts):
        return False  # no log here has its numbers
    if len(drafts) == 1:
        return drafts[0].take(part)
    if part.of == len(drafts) > 1:
        return drafts[part.index].take(part)
    if part.slot != "graph":
        return False
    taken = [draft.take(part) for draft in drafts if "profile" in draft.parts]
    return any(taken)


def _join_named(drafts: list[Draft]) -> None:
    """Join a log with the files that its command names, at that path or next to the log."""
    owners: dict[tuple[str, str], list[Draft]] = {}
    for draft in drafts:
        for slot, each in draft.parts.items():
            owners.setdefault((slot, each.file.path.name), []).append(draft)
    for draft in drafts:
        log = draft.log
        for flag, named in log.flags.items() if log is not None else ():
            slot, name = _NAMED_BY.get(flag, ""), named.replace("\\", "/").rsplit("/", 1)[-1]
            for owner in owners.get((slot, name), ()):
                part = owner.parts.get(slot)
                is_free = owner is not draft and (owner.log is None or slot in SHARED)
                if log is None or part is None or part.of > 1 or not is_free:
                    continue
                path = part.file.path
                beside = path == draft.folder / name
                named_there = beside or path.absolute() == (draft.folder / named).absolute()
                if named_there and (slot != "times" or part.reproduces(log) is not False):
                    owner.move(part, draft)


def _join_builds(drafts: list[Draft]) -> None:
    """Add the log that built an engine to the runs that load it from the path it was saved to."""

    def made(run: LogRun, verb: str) -> tuple[str | None, ...]:
        named = run.flags.get(f"--{verb}Engine") or run.option(f"{verb.title()} engine")
        path = posixpath.normpath(named.replace("\\", "/")) if named else None
        return path, run.version, run.option("Selected Device") or run.device

    saved: dict[str | None, list[FilePart]] = {}
    for part in (part for draft in drafts for part in draft.parts.values()):
        if part.slot in ("log", "build_log"):
            saved.setdefault(made(part.value, "save")[0], []).append(part)
    for draft in (draft for draft in drafts if draft.log is not None):
        log = draft.parts["log"]
        mine = made(log.value, "load")
        found = [each for each in saved.get(mine[0], ()) if mine[0] and each is not log]
        near = [each for each in found if each.file.path.parent == draft.folder] or found
        # An engine belongs to one version and one device; several logs may have saved that path.
        pairs = zip(made(near[0].value, "save"), mine, strict=True) if len(near) == 1 else ()
        if near and pairs and all(one == other or not (one and other) for one, other in pairs):
            of_build = near[0].slot == "build_log"
            draft.take(near[0] if of_build else replace(near[0], slot="build_log"))


def _join_folder(drafts: list[Draft]) -> None:
    """Join the parts of one run in a folder, whatever the names of the files."""
    for owner in drafts:  # times without a log, and the log whose numbers they reproduce
        part = owner.parts.get("times")
        if part is None or owner.log is not None:
            continue
        for target in drafts:
            free = target.log is not None and "times" not in target.parts
            if free and target.log is not None and part.reproduces(target.log):
                target.notes.append(_REPRODUCED)
                owner.move(part, target)
                break
    for owner in drafts:  # profiles and layer information of the same layers
        graph = owner.parts.get("graph")
        if graph is not None and not owner.measured:
            for target in drafts:
                if target is not owner and "profile" in target.parts:
                    target.take(graph)
    runs = [draft for draft in drafts if draft.measured or draft.failed]
    if len(runs) != 1 or runs[0].failed:
        return
    for draft in drafts:  # plain names (profile.json) and the only run
        is_plain = draft.key == "" or runs[0].key == ""
        if draft is runs[0] or not is_plain or draft.measured or draft.failed:
            continue
        if all(map(runs[0].fits, draft.parts.values())):  # else all belong to another run
            draft.give(runs[0])
