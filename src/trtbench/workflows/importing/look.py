"""What a file holds, told briefly: enough to see which files belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trtbench.boundary import read_bytes
from trtbench.domain.samples import Column
from trtbench.errors import ParseError
from trtbench.formats.toolkit_files import (
    EngineMetadata,
    RunConfig,
    ToolkitSummary,
    TorchBenchmark,
    metrics_from_csv,
    series_from_csv,
    summary_from_csv,
    value_from_document,
)
from trtbench.trtexec.calibration import calibration_from_text
from trtbench.trtexec.layers import graph_from_json
from trtbench.trtexec.log import LogRun, LogText, read_log
from trtbench.trtexec.metadata import log_from_metadata
from trtbench.trtexec.outputs import outputs_from_json
from trtbench.trtexec.plan import HEADER_BYTES, plan_from_bytes
from trtbench.trtexec.profile import profiles_from_json
from trtbench.trtexec.statistics import TrtexecMetric, trtexec_statistics
from trtbench.trtexec.times import TimesArray, TimesFile, read_times
from trtbench.workflows.importing.find import FoundFile, plain

MOST_TEXT_BYTES = 512 * 2**20
"""A log or a JSON document above this is refused; times files are read piece by piece."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FilePart:
    """One thing a file tells; a file of several exports has several parts."""

    file: FoundFile
    slot: str
    """The place it takes in a run: ``log``, ``times``, ``profile``, ``graph``, ..."""
    index: int = 0
    of: int = 1
    value: Any = None
    """A LogRun, names of layers, a decoded document, or ``None`` for what is read later."""
    text: LogText | None = None
    """Of a log: all that was found in the file."""

    shelf: TimesShelf | None = None
    """Where the rows of times lie, or are fetched again."""

    def times(self) -> TimesArray:
        """Find the rows of a times array, warm-up and all."""
        assert self.shelf is not None
        return self.shelf.read(self.file).arrays[self.index]

    @property
    def what(self) -> str:
        """Name the file, and the place in it where it holds several."""
        return plain(self.file.path.name) + (
            f" ({self.index + 1} of {self.of})" if self.of > 1 else ""
        )


class TimesShelf:
    """Times files with all their rows, as many as memory allows; others are read again."""

    MOST_BYTES = 256 * 2**20

    def __init__(self) -> None:
        self._files: dict[object, TimesFile] = {}
        self._statistics: dict[object, dict[str, TrtexecMetric]] = {}

    def metrics(self, times: FilePart, *, warmup_ms: float) -> dict[str, TrtexecMetric]:
        """Collect what trtexec would have printed of an array; many logs may ask about the same."""
        key = (times.file.path, times.index, warmup_ms)
        if key not in self._statistics:
            columns = self.read(times.file).arrays[times.index].columns
            self._statistics[key] = trtexec_statistics(columns, warmup_ms=warmup_ms).metrics
        return self._statistics[key]

    def read(self, found: FoundFile) -> TimesFile:
        """Find the file with warm-up rows in place, for the question whose numbers they are."""
        known = self._files.pop(found.path, None)
        if known is None:
            size = found.path.stat().st_size
            while self._files and self._held() + size > self.MOST_BYTES:
                self._files.pop(next(iter(self._files)))  # the one that was asked for longest ago
            with open(found.path, "rb") as stream:
                known = read_times(stream, where=found.shown, warmup_ms=0.0)
        self._files[found.path] = known
        return known

    def _held(self) -> int:
        arrays = (array for file in self._files.values() for array in file.arrays)
        return sum(column.nbytes for array in arrays for column in array.columns.values())

    def clear(self) -> None:
        """Let go of what was read."""
        self._files.clear()


def parts_from_file(found: FoundFile, shelf: TimesShelf) -> list[FilePart]:
    """Look into a file; one that is damaged is a ``ParseError``."""
    if found.kind == "times":
        count = len(shelf.read(found).arrays)
        return [
            FilePart(file=found, slot="times", index=i, of=count, shelf=shelf) for i in range(count)
        ]
    reader = _READERS.get(found.kind)
    return reader(found) if reader else []


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


def _log(found: FoundFile) -> list[FilePart]:
    with open(found.path, "rb") as stream:
        text = read_log(stream, where=found.shown)
    return [
        FilePart(file=found, slot=_log_slot(run), index=i, of=len(text.runs), value=run, text=text)
        for i, run in enumerate(text.runs)
    ]


def _log_slot(run: LogRun) -> str:
    """Tell logs of measurements from logs of builds and from help texts."""
    if run.outcome == "help":
        return "help"
    if run.summary is not None or run.profile is not None:
        return "log"
    built = run.facts.build_s is not None or run.facts.generate_s is not None
    if run.outcome in ("failed", "crashed") or (run.announced and run.outcome == "cut"):
        return "build_log" if run.outcome == "cut" and built else "failed_log"
    return "build_log" if built or run.outcome != "cut" else "excerpt"


def _profile(found: FoundFile) -> list[FilePart]:
    profiles = profiles_from_json(data_of(found), where=found.shown)
    return [
        FilePart(file=found, slot="profile", index=index, of=len(profiles), value=names)
        for index, names in enumerate(tuple(x.name for x in p.layers) for p in profiles)
    ]


def _graph(found: FoundFile) -> list[FilePart]:
    graph = graph_from_json(data_of(found), where=found.shown)
    names = tuple(layer.name for layer in graph.layers)
    return [FilePart(file=found, slot="graph", value=names)]


def _outputs(found: FoundFile) -> list[FilePart]:
    sets = outputs_from_json(data_of(found), where=found.shown)
    return [FilePart(file=found, slot="output", index=i, of=len(sets)) for i in range(len(sets))]


def _metadata(found: FoundFile) -> list[FilePart]:
    document = document_of(found)
    runs = "performance_summary" in document or "inference_options" in document
    if not runs:
        return [FilePart(file=found, slot="build_metadata", value=document)]
    log = log_from_metadata(document, where=found.shown)
    return [FilePart(file=found, slot="profile_metadata", value=log)]


def _calibration(found: FoundFile) -> list[FilePart]:
    cache = calibration_from_text(data_of(found), where=found.shown)
    told = f"{cache.header}, {len(cache.scales)} tensors"
    return [FilePart(file=found, slot="calibration", value=told)]


def _plan(found: FoundFile) -> list[FilePart]:
    with open(found.path, "rb") as file:
        header = plan_from_bytes(file.read(HEADER_BYTES), where=found.shown)
    return [FilePart(file=found, slot="plan", value=header)]


def _series(found: FoundFile) -> list[FilePart]:
    name, column = series_of(found)
    return [FilePart(file=found, slot=f"{name}_series", value=len(column))]


def series_of(found: FoundFile) -> tuple[str, Column]:
    """Read a ``*_series.csv`` of the trtexec evaluation toolkit: its name and seconds."""
    try:
        name, column = series_from_csv(text_of(found))
    except ValueError:
        raise _broken(found, "one column of numbers under its name") from None
    if not len(column):
        raise _broken(found, "at least one row")
    return name, column


def _summary(found: FoundFile) -> list[FilePart]:
    if found.path.suffix.lower() == ".csv":
        return [FilePart(file=found, slot="summary_csv", value=summary_from_csv(text_of(found)))]
    document = document_of(found)
    inner = document.get("summary")  # report.json holds the summary
    slot = "report" if isinstance(inner, Mapping) else "summary"
    value = value_from_document(ToolkitSummary, inner if slot == "report" else document)
    return [FilePart(file=found, slot=slot, value=value)]


def _torch(found: FoundFile) -> list[FilePart]:
    if found.path.suffix.lower() != ".csv":
        value = value_from_document(TorchBenchmark, document_of(found))
        return [FilePart(file=found, slot="torch", value=value)]
    try:
        metrics = metrics_from_csv(text_of(found))
    except ValueError:
        raise _broken(found, "rows of metric, min, max, mean, ...") from None
    return [FilePart(file=found, slot="torch_csv", value=TorchBenchmark(metrics=metrics))]


def document_of(found: FoundFile) -> dict[str, Any]:
    """Read a JSON object."""
    try:
        value = msgspec.json.decode(data_of(found))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise _broken(found, "a JSON object", str(problem)) from None
    if not isinstance(value, dict):
        raise _broken(found, "a JSON object", f"a {type(value).__name__}")
    return value


def _typed(slot: str, kind: type[msgspec.Struct]) -> Callable[[FoundFile], list[FilePart]]:
    return lambda found: [
        FilePart(file=found, slot=slot, value=value_from_document(kind, document_of(found)))
    ]


def _output_diff(found: FoundFile) -> list[FilePart]:
    return [FilePart(file=found, slot="output_diff", value=document_of(found))]


def _device(found: FoundFile) -> list[FilePart]:
    try:
        value = msgspec.json.decode(data_of(found))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as problem:
        raise _broken(found, "a list of devices", str(problem)) from None
    devices = [each for each in value if isinstance(each, Mapping)]
    return [FilePart(file=found, slot="device", value=devices)]


def _bare(slot: str) -> Callable[[FoundFile], list[FilePart]]:
    return lambda found: [FilePart(file=found, slot=slot)]


def _broken(found: FoundFile, expected: str, reason: str | None = None) -> ParseError:
    facts = {"expected": expected, **({"found": reason} if reason else {})}
    return ParseError(f"{found.shown} is not what it was taken for ({found.kind})", facts=facts)


_READERS: dict[str, Callable[[FoundFile], list[FilePart]]] = {
    "log": _log,
    "profile": _profile,
    "layers": _graph,
    "output": _outputs,
    "metadata": _metadata,
    "calibration": _calibration,
    "plan": _plan,
    "onnx": _bare("onnx"),
    "timing-cache": _bare("timing_cache"),
    "device": _device,
    "toolkit-summary": _summary,
    "toolkit-series": _series,
    "toolkit-percentiles": _bare("percentiles"),
    "toolkit-layers": _bare("layer_csv"),
    "toolkit-torch-bench": _torch,
    "toolkit-engine-metadata": _typed("engine_metadata", EngineMetadata),
    "toolkit-run-config": _typed("run_config", RunConfig),
    "toolkit-output-diff": _output_diff,
}
