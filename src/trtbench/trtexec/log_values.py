"""What a log of trtexec states, as values; numbers are kept as they were printed."""

from __future__ import annotations

import functools
import itertools
import re
from typing import Literal, NamedTuple

from trtbench.core.samples import LayerProfile
from trtbench.core.spec import Value
from trtbench.trtexec.version import version_key

FASTEST = 3
"""Tactics listed of each layer beside the one that was chosen."""

Outcome = Literal["passed", "failed", "waived", "crashed", "cut", "help"]
"""How a run ended, as far as its log shows.

crashed  no end marker, and errors or a crash as the last words
cut      no end marker and no sign of trouble: an excerpt, or a log cut short
help     the usage text was printed and nothing was run
"""

_PATH_FLAGS = frozenset((
    "--calib", "--deploy", "--dumpRawBindingsToFile", "--dynamicPlugins", "--exportLayerInfo",
    "--exportOutput", "--exportProfile", "--exportTimes", "--leanDLLPath", "--loadEngine",
    "--loadInputs", "--model", "--onnx", "--plugins", "--saveEngine", "--setPluginsToSerialize",
    "--staticPlugins", "--tempdir", "--timingCacheFile", "--uff",
))  # fmt: skip
"""Flags whose values are paths, which may hold blanks."""
_BEFORE_FLAG = re.compile(r"\s+(?=--?[A-Za-z])|\s+(?=[\"']--)")


class Tactic(Value, frozen=True, kw_only=True):
    """One implementation of a layer that the builder timed, in milliseconds."""

    id: str
    name: str | None = None
    time_ms: float | None = None
    runner: str | None = None
    operation: str | None = None
    """Within a subgraph that is compiled as a whole: the operation that was tuned."""


class LayerTuning(Value, frozen=True, kw_only=True):
    """How the implementation of one layer was found."""

    name: str
    runner: str | None = None
    chosen: Tactic | None = None
    """The one in the engine or, where its layers were not listed, the last one chosen."""
    tried: int = 0
    tried_within: int = 0
    """Tactics of the operations inside, where the layer is a subgraph."""
    tactics: tuple[Tactic, ...] = ()
    """Each with the best of its times, the fastest first."""
    spent_s: float | None = None
    """Time spent on tuning, where the log states it (from TensorRT 8.6 on)."""
    timed_ms: float = 0.0
    """Sum of the times of all tactics that were tried: one call of each."""

    @property
    def fastest(self) -> tuple[Tactic, ...]:
        """The few fastest tactics of the layer as a whole."""
        whole = (each for each in self.tactics if each.operation is None)
        return tuple(itertools.islice(whole, FASTEST))


class BuildTrace(Value, frozen=True, kw_only=True):
    """What a verbose log states about a build."""

    layers: tuple[LayerTuning, ...] = ()
    phases_s: dict[str, float] = {}
    """Seconds by phase, summed over the passes of the builder; some contain others."""
    fusions: tuple[tuple[str, str, str], ...] = ()
    tactics_tried: int = 0
    tactics_within: int = 0
    """Those of operations inside subgraphs, as their compiler lists them."""
    tactics_skipped: int = 0
    """For want of workspace."""


class LogSection(Value, frozen=True, kw_only=True):
    """One block of options; labels keep their order and may repeat, values are whole."""

    name: str
    entries: tuple[tuple[str, str], ...] = ()

    def get(self, label: str) -> str | None:
        """The first value of a label, or ``None``."""
        for name, value in self.entries:  # asked for often: half the time of a generator
            if name == label:
                return value
        return None


class PerformanceSummary(Value, frozen=True, kw_only=True):
    """The performance summary of one run, under the labels of TensorRT 8 and later."""

    throughput_qps: float | None = None
    wall_s: float | None = None
    gpu_total_s: float | None = None
    metrics: dict[str, dict[str, float]] = {}
    """Milliseconds by label and statistic: ``{"Latency": {"min": 0.3, "99%": 0.345}}``."""
    derived: bool = False
    """True where only averages were printed: the means are taken over those."""
    generation: int | None = None
    """The major version whose wording this is, where no other prints like it."""


class TraceAverage(Value, frozen=True, kw_only=True):
    """One ``Average on N runs`` line, or ``Average over N runs`` of TensorRT 3 to 6."""

    runs: int
    gpu_ms: float
    host_ms: float | None = None
    end_to_end_ms: float | None = None
    enqueue_ms: float | None = None
    percentile: str | None = None
    percentile_ms: float | None = None
    legacy: bool = False
    """In the wording of TensorRT 3 to 6, which times the call alone and copies nothing in it."""


class MemoryLine(Value, frozen=True, kw_only=True):
    """One line about memory in use, in bytes; a snapshot has no change."""

    what: str
    cpu_bytes: int | None = None
    gpu_bytes: int | None = None
    cpu_change_bytes: int | None = None
    gpu_change_bytes: int | None = None


class Binding(Value, frozen=True, kw_only=True):
    """One input or output as the log announces it."""

    name: str
    output: bool
    shape: tuple[int, ...] = ()
    dtype: str | None = None


class BuildFacts(Value, frozen=True, kw_only=True):
    """What a log states about building and loading the engine; ``None`` was not printed."""

    parse_s: float | None = None
    optimize_s: float | None = None
    generate_s: float | None = None
    """The builder's own time, without serialization."""
    build_s: float | None = None
    load_s: float | None = None
    deserialize_s: float | None = None
    engine_bytes: int | None = None
    loaded_engine_bytes: int | None = None
    context_bytes: int | None = None
    peak_cpu_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    peak_build_cpu_bytes: int | None = None
    host_persistent_bytes: int | None = None
    device_persistent_bytes: int | None = None
    scratch_bytes: int | None = None
    activation_bytes: int | None = None
    weights_bytes: int | None = None
    calibration_s: float | None = None
    timing_cache: Literal["local", "global"] | None = None
    timing_cache_loaded_bytes: int | None = None
    timing_cache_saved_bytes: int | None = None
    timing_cache_refused: bool = False
    weak_typing_deprecated: bool = False
    memory: tuple[MemoryLine, ...] = ()
    onnx: dict[str, str] = {}
    """What the parser prints about the file: ``Opset version``, ``Producer name``, ..."""


class LogMessage(Value, frozen=True, kw_only=True):
    """A warning or an error, how often it came, and what it means where that is known."""

    level: str
    """``W``, ``E`` or ``F``, for fatal."""
    text: str
    code: str | None = None
    meaning: str | None = None
    count: int = 1


class LogRun(Value, frozen=True, kw_only=True):
    """One run of trtexec as its log describes it."""

    where: str
    line: int
    """Line of the log the run begins at, from 1."""
    outcome: Outcome
    tool: str = "trtexec"
    version: str | None = None
    build: int | None = None
    """Build number of banners from TensorRT 10.4 on (``[b26]``)."""
    command: str | None = None
    announced: bool = False
    """A ``RUNNING`` line was there, so the log is not an excerpt."""
    pasted_command: bool = False
    """The command stood above the text and was not printed by trtexec."""
    title: str | None = None
    """What somebody wrote above an excerpt."""
    last_line: int | None = None
    first_stamp: str | None = None
    """``03/04/2025-05:06:07``, in the local time of the machine."""
    last_stamp: str | None = None
    sections: tuple[LogSection, ...] = ()
    facts: BuildFacts = BuildFacts()
    trace: BuildTrace | None = None
    bindings: tuple[Binding, ...] = ()
    warmup_queries: int | None = None
    queries: int | None = None
    trace_s: float | None = None
    averages: tuple[TraceAverage, ...] = ()
    summary: PerformanceSummary | None = None
    tf32_stated: bool = False
    profile: LayerProfile | None = None
    messages: tuple[LogMessage, ...] = ()
    layer_types: dict[str, int] = {}
    """How often layer information in the log names a type: ``{"fp16": 40, "fp32": 2}``."""
    last_lines: tuple[str, ...] = ()

    @property
    def major(self) -> int | None:
        """The major version; 7 and 6 are known by their wording where no banner states it."""
        key = version_key(self.version)
        if key:
            return key[0]
        if self.summary is not None and self.summary.generation is not None:
            return self.summary.generation
        known = self.tool == "trtexec" and self.command and not self.pasted_command
        return 7 if known and self.sections else None

    def section(self, name: str) -> LogSection | None:
        """One block of options by its heading."""
        return next((each for each in self.sections if each.name == name), None)

    def option(self, label: str) -> str | None:
        """An option's value from whichever block has it."""
        found = (each.get(label) for each in self.sections)
        return next((value for value in found if value is not None), None)

    def message(self, code: str) -> LogMessage | None:
        """The first warning or error of a known kind."""
        return next((each for each in self.messages if each.code == code), None)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The command line in words; trtexec prints it without quotes, paths may hold blanks."""
        return arguments_from_command(self.command or "")


class LogText(NamedTuple):
    """Everything of trtexec's that a text holds."""

    runs: tuple[LogRun, ...]
    lines: int
    as_in_file: bool = True
    """Whether lines are counted as in the file: not in a notebook, nor when sorted apart."""


@functools.lru_cache(maxsize=4096)
def arguments_from_command(command: str) -> tuple[str, ...]:
    """Cut a command line into words: at blanks before a flag, and within what is no path."""
    words: list[str] = []
    for chunk in _BEFORE_FLAG.split(command.strip()):
        bare = chunk.strip("\"'")
        flag, equals, value = bare.partition("=")
        if flag in _PATH_FLAGS and equals:
            words.append(f"{flag}={value.strip().strip(chr(34)).strip(chr(39))}")
        elif not words and not bare.startswith("-"):
            words.append(bare)  # the program, which may lie in a folder with blanks
        else:
            words += (word.replace('"', "").replace("'", "") for word in bare.split())
    return tuple(word for word in words if word)
