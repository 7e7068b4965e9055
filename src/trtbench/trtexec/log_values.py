"""The values in a log of trtexec, and the collectors that read them line by line."""

import functools
import math
import operator
import re
import sys
from typing import Any, Literal, NamedTuple

from trtbench.core.samples import LayerProfile, LayerTime
from trtbench.core.spec import TensorSpec, Value
from trtbench.data import data_rows
from trtbench.trtexec.version import number, version_key

Outcome = Literal["passed", "failed", "waived", "crashed", "cut", "help"]
"""How a run ended, as far as its log shows.

crashed  no final banner, and the last lines show errors or a crash
cut      no final banner and no errors: an excerpt, or a truncated log
help     the usage text was printed and nothing was run
"""

_PATH_FLAGS = frozenset((
    "--calib", "--deploy", "--dumpRawBindingsToFile", "--dynamicPlugins", "--exportLayerInfo",
    "--exportOutput", "--exportProfile", "--exportTimes", "--leanDLLPath", "--loadEngine",
    "--loadInputs", "--model", "--onnx", "--plugins", "--saveEngine", "--setPluginsToSerialize",
    "--staticPlugins", "--tempdir", "--timingCacheFile", "--uff",
))  # fmt: skip
_BEFORE_FLAG = re.compile(r"\s+(?=--?[A-Za-z])|\s+(?=[\"']--)")


class Tactic(Value, frozen=True, kw_only=True):
    """One implementation of a layer that the builder timed, in milliseconds."""

    id: str
    name: str | None = None
    time_ms: float | None = None
    runner: str | None = None


class LayerTuning(Value, frozen=True, kw_only=True):
    name: str
    runner: str | None = None
    chosen: Tactic | None = None
    """The tactic in the engine, or the last one chosen if the engine was not listed."""
    tried: int = 0
    tactics: tuple[Tactic, ...] = ()  # tactics with their best times, the fastest first
    spent_s: float | None = None
    timed_ms: float = 0.0  # sum of the times of all tactics that were tried, one call each

    @property
    def tuning_s(self) -> float:
        """The time spent on it or, if unknown, the sum of one call per tactic."""
        return self.timed_ms / 1e3 if self.spent_s is None else self.spent_s


class BuildTrace(Value, frozen=True, kw_only=True):
    """A build as described by a verbose log."""

    layers: tuple[LayerTuning, ...] = ()
    phases_s: dict[str, float] = {}
    """Seconds by phase, summed over the passes of the builder; some contain others."""
    fusions: tuple[tuple[str, str, str], ...] = ()
    tactics_tried: int = 0
    tactics_skipped: int = 0


class LogSection(Value, frozen=True, kw_only=True):
    """One block of printed options; labels keep their order and may repeat."""

    name: str
    entries: tuple[tuple[str, str], ...] = ()

    def get(self, label: str) -> str | None:
        """Return the first value of a label, or ``None``."""
        return next((value for name, value in self.entries if name == label), None)


class PerformanceSummary(Value, frozen=True, kw_only=True):
    """The performance summary of one run, under the labels of TensorRT 8 and later."""

    throughput_qps: float | None = None
    wall_s: float | None = None
    gpu_total_s: float | None = None
    metrics: dict[str, dict[str, float]] = {}
    """Milliseconds by label and statistic: ``{"Latency": {"min": 0.3, "99%": 0.345}}``."""
    derived: bool = False
    generation: int | None = None  # the major version, where the wording identifies it


class BuildFacts(Value, frozen=True, kw_only=True):
    """Times and sizes of building and loading an engine; ``None`` was not printed."""

    parse_s: float | None = None
    optimize_s: float | None = None
    generate_s: float | None = None
    build_s: float | None = None
    load_s: float | None = None
    deserialize_s: float | None = None
    engine_bytes: int | None = None
    loaded_engine_bytes: int | None = None
    context_bytes: int | None = None
    peak_cpu_bytes: int | None = None
    peak_gpu_bytes: int | None = None
    scratch_bytes: int | None = None
    activation_bytes: int | None = None
    weights_bytes: int | None = None
    timing_cache: Literal["local", "global"] | None = None
    timing_cache_loaded_bytes: int | None = None
    timing_cache_saved_bytes: int | None = None
    onnx: dict[str, str] = {}


class LogMessage(Value, frozen=True, kw_only=True):
    """A warning or an error, its number of occurrences, and its meaning if known."""

    level: str  # `W`, `E` or `F`, for fatal
    text: str
    code: str | None = None
    meaning: str | None = None
    count: int = 1


class LogRun(Value, frozen=True, kw_only=True):
    """One run of trtexec as its log describes it."""

    where: str
    line: int
    outcome: Outcome
    tool: str = "trtexec"
    version: str | None = None
    build: int | None = None
    command: str | None = None
    announced: bool = False  # whether the log has a `RUNNING` banner, so that it is not an excerpt
    pasted_command: bool = False
    title: str | None = None
    device: str | None = None  # the device that the text above names; a printed one has priority
    last_line: int | None = None
    first_stamp: str | None = None  # `03/04/2025-05:06:07`, in the local time of the machine
    last_stamp: str | None = None
    sections: tuple[LogSection, ...] = ()
    facts: BuildFacts = BuildFacts()
    trace: BuildTrace | None = None
    inputs: tuple[TensorSpec, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    warmup_queries: int | None = None
    queries: int | None = None
    trace_s: float | None = None
    average_lines: tuple[str, ...] = ()
    summary: PerformanceSummary | None = None
    tf32_stated: bool = False
    profile: LayerProfile | None = None
    messages: tuple[LogMessage, ...] = ()
    layer_types: dict[str, int] = {}
    last_lines: tuple[str, ...] = ()

    @property
    def major(self) -> int | None:
        """The major version; without a banner, the wording identifies 7 and 6."""
        key = version_key(self.version)
        if key:
            return key[0]
        if self.summary is not None and self.summary.generation is not None:
            return self.summary.generation
        known = self.tool == "trtexec" and self.command and not self.pasted_command
        return 7 if known and self.sections else None

    def section(self, name: str) -> LogSection | None:
        return next((each for each in self.sections if each.name == name), None)

    def option(self, label: str) -> str | None:
        """Return the value of an option from the first block that has it, or ``None``."""
        for section in self.sections:  # called often; twice as fast as a generator
            for name, value in section.entries:
                if name == label:
                    return value
        return None

    def message(self, code: str) -> LogMessage | None:
        """Return the first warning or error with a code, or ``None``."""
        return next((each for each in self.messages if each.code == code), None)

    @property
    def arguments(self) -> tuple[str, ...]:
        """The arguments of the command; trtexec prints it without quotes, even around spaces."""
        return _arguments(self.command or "")

    @property
    def flags(self) -> dict[str, str]:
        """The values of the flags of the command; empty for a flag without one."""
        return dict(word.partition("=")[::2] for word in self.arguments)


class LogText(NamedTuple):
    runs: tuple[LogRun, ...]
    lines: int
    as_in_file: bool = True
    """Whether line numbers are those of the file; not in notebooks and interleaved logs."""
    masked: bool = True  # whether some lines, but for verbose ones, may hold secrets


@functools.lru_cache(maxsize=4096)
def _arguments(command: str) -> tuple[str, ...]:
    """Split a command line at spaces, but not at those in values of path flags."""
    words: list[str] = []
    for chunk in _BEFORE_FLAG.split(command.strip()):
        bare = chunk.strip("\"'")
        flag, equals, value = bare.partition("=")
        if flag in _PATH_FLAGS and equals:
            words.append(f"{flag}={value.strip().strip(chr(34)).strip(chr(39))}")
        elif not words and not bare.startswith("-"):
            words.append(bare)  # the program, whose path may contain spaces
        else:
            words += (word.replace('"', "").replace("'", "") for word in bare.split())
    return tuple(word for word in words if word)


LONGEST_KEPT = 4000
TAIL = 20
MOST_TENSORS = 10_000
MOST_AVERAGES = 200_000
MOST_LAYERS, MOST_FUSIONS = 20_000, 20_000
MOST_TACTICS = 200_000
"""Maximum number of tactics kept per build, others are counted; some thousands are usual."""
MIB = 1 << 20

_N = r"([-+]?[\d.]{1,40}(?:e[-+]?\d{1,4})?)"
_SIZE, _SIZE_OR_NONE = rf"{_N} (\w{{1,5}})", rf"{_N} ?(\w{{0,5}})"
_UNITS = {"B": 1, "bytes": 1, "": 1, "KiB": 1 << 10, "MiB": MIB, "MB": MIB, "GiB": 1 << 30}
"""trtexec before 8.2 prints MB for MiB."""
_SHAPE = r"(.{1,2000}?) with dimensions ([\dx]{0,400})(?: and type (\w{1,20}))?"
_FACT_LINES = (
    ("parse_s", rf"Finished parsing network model\. Parse time: {_N}"),
    ("optimize_s", rf"Graph optimization time: {_N} seconds"),
    ("generate_s", rf"Engine generation completed in {_N} seconds"),
    ("build_s", rf"Engine built in {_N} sec"),
    ("load_s", rf"Engine loaded in {_N} sec"),
    ("deserialize_s", rf"Engine deserialized in {_N} sec"),
    ("engine_bytes", rf"Created engine with size: {_SIZE}"),
    ("loaded_engine_bytes", rf"Loaded engine size: {_SIZE}"),
    ("context_bytes", rf"Created execution context with device memory size: {_SIZE}"),
    ("scratch_bytes", rf"Total Scratch Memory: {_SIZE_OR_NONE}"),
    ("scratch_bytes", rf"Max Scratch Memory: {_SIZE_OR_NONE}"),
    ("activation_bytes", rf"Total Activation Memory: {_SIZE_OR_NONE}"),
    ("weights_bytes", rf"Total Weights Memory: {_SIZE_OR_NONE}"),
    ("timing_cache_loaded_bytes", rf"Loaded {_N} (bytes) of timing cache from"),
    ("timing_cache_saved_bytes", rf"Saved {_N} (bytes) of timing cache to"),
    (
        "peak",
        r"\[MemUsageStats\] Peak memory usage of TRT CPU/GPU memory allocators: "
        rf"CPU {_N} MiB, GPU {_N} MiB",
    ),
    ("binding", rf"Created (input|output) binding for {_SHAPE}"),
    ("binding", rf"(Input) binding for {_SHAPE}"),
    ("binding", rf"(Output) binding for {_SHAPE}"),
    ("timing_cache", r"(Local) timing cache in use"),
    ("timing_cache", r"(Global) timing cache in use"),
    *(
        ("onnx", rf"({label}): *(.{{0,2000}})$")
        for label in (
            "Input filename", "ONNX IR version", "Opset version", "Producer name",
            "Producer version", "Domain", "Model version", "Doc string",
        )
    ),
)  # fmt: skip
_FACTS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
for _field, _text in _FACT_LINES:
    _word = re.sub(r"[\\()]", "", _text.split(" ", 1)[0])
    _FACTS.setdefault(_word, []).append((_field, re.compile(_text)))
DTYPES = {"fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp8": "float8_e4m3fn"}
_PRINTED_BY_LIBRARY = {"onnx": True, "timing_cache": True, "binding": False}


class FactCollector:
    """Collects facts about building, loading and running that are printed on one line."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.tensors: dict[str, list[TensorSpec]] = {"input": [], "output": []}

    def add(self, text: str, *, library: bool) -> bool:
        """Add a line; return whether it was a fact."""
        for field, pattern in _FACTS.get(text.split(" ", 1)[0], ()):
            match = pattern.match(text)
            if match is None or _PRINTED_BY_LIBRARY.get(field, library) is not library:
                continue
            if field.endswith("_s"):
                seconds = number(match[1])
                # Times that TensorRT 10 prints once per pass over the network; they are summed.
                if field in ("optimize_s", "generate_s") and seconds is not None:
                    seconds += self.values.get(field) or 0.0
                self.values[field] = seconds
            elif field.endswith("_bytes"):
                self.values[field] = _bytes(match[1], match[2])
            elif field == "peak":
                self.values["peak_cpu_bytes"] = _bytes(match[1], "MiB")
                self.values["peak_gpu_bytes"] = _bytes(match[2], "MiB")
            elif field == "timing_cache":
                self.values[field] = match[1].lower()
            elif field == "onnx":
                self.values.setdefault(field, {})[match[1]] = match[2].strip()
            elif len(side := self.tensors[match[1].lower()]) < MOST_TENSORS:
                shape = tuple(int(part) for part in match[3].split("x") if 0 < len(part) < 19)
                # TensorRT up to 10.14 does not print the type of a binding.
                dtype = (match[4] or "unknown").lower()
                dtype = DTYPES.get(dtype, dtype)
                side.append(TensorSpec(name=match[2], dtype=dtype, shape=shape))
            return True
        return False


def _bytes(amount: str, unit: str) -> int | None:
    value = number(amount)
    if value is None or not abs(value) < 2**62:  # also refuses nan
        return None
    return int(value * _UNITS.get(unit, 1))


class ProfileCollector:
    """Collects a printed table of layer times; since TensorRT 8.6.1 the name is last."""

    def __init__(self, *, iterations: int) -> None:
        self.iterations = iterations
        self.rows: list[LayerTime] = []
        self.columns = 0
        self.name_last = False

    def add(self, text: str) -> bool:
        """Add a line; return whether it was part of the table."""
        words = text.split()
        if not self.columns:
            if "Layer" not in (words[:1] + words[-1:]):
                return False
            self.name_last = words[-1] == "Layer"
            self.columns = 4 if any(word.startswith("Median") for word in words) else 3
            return True
        if not words:
            return False
        if self.name_last:
            *cells, name = text.split(None, self.columns)
        else:
            name, *cells = text.rsplit(None, self.columns)
        values = [value for cell in cells if (value := number(cell)) is not None]
        if not len(values) == len(cells) == self.columns:
            return False
        total, average, *middle, percent = values
        self.rows.append(
            LayerTime(
                name=name.strip(),
                total_s=total * 1e-3,
                average_s=average * 1e-3,
                median_s=middle[0] * 1e-3 if middle else None,
                share=None if math.isnan(percent) else percent / 100,
            )
        )
        return True

    def profile(self) -> LayerProfile | None:
        """Return the table without its last row ``Total``; ``None`` if it has no rows."""
        ends = bool(self.rows) and self.rows[-1].name == "Total"
        rows = tuple(self.rows[:-1] if ends else self.rows)
        return LayerProfile(count=self.iterations, layers=rows) if rows else None


@functools.lru_cache(maxsize=256)
def _code_and_meaning(text: str) -> tuple[str | None, str | None]:
    for code, parts, meaning in data_rows("messages.txt"):
        if any(part in text for part in parts.split("; ")):
            return code, meaning
    return None, None


class MessageCollector:
    """Collects warnings and errors in order of appearance, and counts repeated ones."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], LogMessage] = {}
        self.last_key: tuple[str, str] | None = None

    def add(self, level: str, line: str) -> None:
        """Add a warning or an error; an indented line continues the last one."""
        text = line.strip()[:LONGEST_KEPT]
        before = self.found.get(self.last_key) if self.last_key is not None else None
        if line.startswith("  ") and before is not None and self.last_key is not None:
            if len(before.text) < LONGEST_KEPT and text not in before.text:
                self.found[self.last_key] = before.having(text=f"{before.text} {text}")
            return
        self.last_key = (level, text)
        same = self.found.get(self.last_key)
        if same is not None:
            self.found[self.last_key] = same.having(count=same.count + 1)
        # Maximum number of different messages; repeated ones are still counted.
        elif len(self.found) < 1000:
            code, meaning = _code_and_meaning(text)
            self.found[level, text] = LogMessage(level=level, text=text, code=code, meaning=meaning)


METRICS = (
    "Latency", "End-to-End Host Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time",
    "D2H Latency",
)  # fmt: skip
"""Labels of TensorRT 8 and later, which are also used for older versions."""
_BLOCKS = {
    "host latency": "Latency",
    "enqueue time": "Enqueue Time",
    "gpu compute": "GPU Compute Time",
}
"""Headings of TensorRT 7, in lower case; the numbers follow on separate lines."""
_TOTALS = {
    "Throughput": ("throughput_qps", "qps"),
    "throughput": ("throughput_qps", "qps"),
    "Total Host Walltime": ("wall_s", "s"),
    "walltime": ("wall_s", "s"),
    "Total GPU Compute Time": ("gpu_total_s", "s"),
    "total compute time": ("gpu_total_s", "s"),
}
_V = r"([-+\w.]{1,40})"
_TOTAL = re.compile(
    rf"\s*{_V} ?(qps|s)(?![\w.])(?:\W*$|\s{{2,}}\S{{1,80}}$| \[[^\]]{{1,80}}\]$|\s*\||[,;\"<]\S)"
)
"""A total, with a suffix that loggers may add: a file and line, or a name."""
_STATISTIC = r"min|max|mean|median|percentile\([ \t]{0,8}[\d.]{1,20}[ \t]{0,8}%\)"
_MS = r"([-+\w.]{1,40}?)[ \t]{0,8}ms(?!\w)"
_PAIR = re.compile(rf"({_STATISTIC})[ \t]{{0,8}}(?:=[ \t]{{0,8}}|[ \t]){_MS}")
_BLOCK_LINE = re.compile(
    rf"(min|max|mean|median|percentile): {_MS}(?: at ([\d.]{{1,20}})%)?"
    rf"(?: \(end to end {_V} ms(?: at [\d.]{{1,20}}%)?\))?(?:\W*$|\s{{2,}}\S{{1,80}}$)"
)
_TRACE = re.compile(
    rf"Average on (\d{{1,12}}) runs - GPU latency: {_V} ms(?: - Host latency: {_V} ms)?"
    rf"(?: \((?:end to end {_V} ms)?(?:, )?(?:enqueue {_V} ms)?\))?"
)
_AVERAGE = re.compile(
    rf"Average over (\d{{1,12}}) runs? is {_V} ms(?: \(host walltime is {_V} ms"
    rf"(?:, ([\d.]{{1,20}})% percentile time is {_V}(?: ms)?)?\))?"
)

_WRAPPED = re.compile(rf"\s*(?:(?:{_STATISTIC})\s*(?:=|$)|=\s|[\d.]{{1,40}} ?ms\b|ms\b)")
"""How a line goes on with the statistics of the line above."""
_TEMPLATE = re.compile(r"=\s{0,8}(?:[{$<]|%[.\d]{0,9}[a-z])")  # of a program, not of a log


class SummaryCollector:
    """Collects the performance summary and the trace averages of one run."""

    def __init__(self) -> None:
        self.totals: dict[str, float] = {}
        self.metrics: dict[str, dict[str, float]] = {}
        self.averages: list[str] = []  # their lines, read only if there is no summary
        self.block: str | None = None
        self.above: tuple[str, str] | None = None  # label and text of statistics that may go on

    @property
    def printed(self) -> bool:
        """Whether a performance summary was printed, not only averages."""
        return bool(self.metrics or self.totals)

    @property
    def is_legacy(self) -> bool:
        """Whether its averages are those of TensorRT 3 to 6."""
        return bool(self.averages) and self.averages[0].startswith("Average over")

    def takes(self, text: str) -> bool:
        """Whether a line is part of a summary, here or on its own."""
        if alone(text)[1] or (self.block is None and self.above is None):
            return alone(text)[1]
        other = SummaryCollector()
        other.block, other.above = self.block, self.above
        other.metrics = {k: dict(v) for k, v in self.metrics.items()}
        return other.add(text)

    def repeats(self, text: str) -> bool:
        """Whether a line has a number that is already here, so that it is of another run."""
        heading = _block_of(text)
        if heading is not None:
            return heading in self.metrics
        other, _ = alone(text)
        has_metric = not self.metrics.keys().isdisjoint(other.metrics)
        return has_metric or not self.totals.keys().isdisjoint(other.totals)

    def add(self, text: str) -> bool:
        """Add a line; return whether it was part of a summary."""
        above, self.above = self.above, None
        if above is not None and _WRAPPED.match(text):
            label, before = above
            if self.metrics[label].keys().isdisjoint(_statistics(text)) and len(before) < 20_000:
                self.above = (label, f"{before} {text[:20_000]}")
                self.metrics[label] |= _statistics(self.above[1])
                return True
        if text.startswith("Average o"):
            match = _TRACE.match(text) or _AVERAGE.match(text)
            if match is None or number(match[2]) is None:
                return False
            if len(self.averages) < MOST_AVERAGES:
                self.averages.append(text)
            return True
        block = _block_of(text)
        if block is not None:
            self.block = block
            return True
        label, colon, rest = text.partition(":")
        if not colon or len(label) > 40:
            return False
        if label in METRICS:
            if found := _statistics(rest):
                self.metrics[label], self.above = dict(found), (label, rest[:20_000])
            return bool(found)
        if label in _TOTALS:
            field, unit = _TOTALS[label]
            match = _TOTAL.match(rest)
            value = number(match[1]) if match and match[2] == unit else None
            if value is not None:
                self.totals[field] = value
            return value is not None
        match = _BLOCK_LINE.match(text) if self.block is not None else None
        value = number(match[2]) if match else None
        if match is None or value is None or self.block is None:
            return False
        if match[1] == "percentile" and match[3] is None:
            return False  # truncated before the percentage
        key = f"{match[3]}%" if match[1] == "percentile" else match[1]
        if key in self.metrics.get(self.block, {}):
            self.block = None  # the heading of this block is missing
            return False
        self.metrics.setdefault(self.block, {})[key] = value
        whole = number(match[4]) if match[4] else None
        if whole is not None:
            self.metrics.setdefault("End-to-End Host Latency", {})[key] = whole
        return True

    def summary(self) -> PerformanceSummary | None:
        """Return the summary, or means of the averages if only those were printed."""
        if self.printed:
            # TensorRT 7 multiplies by the batch, which is 0 for an explicit batch.
            return PerformanceSummary(
                throughput_qps=self.totals.get("throughput_qps") or None,
                wall_s=self.totals.get("wall_s"),
                gpu_total_s=self.totals.get("gpu_total_s"),
                metrics=self.metrics,
            )
        if not self.averages:
            return None
        every = [x for x in (_TRACE.match(y) or _AVERAGE.match(y) for y in self.averages) if x]
        legacy = [match for match in every if match.re is _AVERAGE]
        lines = legacy or every
        labels = ["GPU Compute Time", "Latency", "End-to-End Host Latency", "Enqueue Time"]
        if legacy:  # the wall time of a call without copies
            labels = ["GPU Compute Time", "Host"]
        counts = [int(match[1]) for match in lines]
        metrics: dict[str, dict[str, float]] = {}
        for group, label in enumerate(labels, start=2):
            values = [number(match[group]) for match in lines]
            known = [value for value in values if value is not None]
            if len(known) < len(lines):
                continue
            mean_ms = known[0]  # a single average exactly as printed
            if len(lines) > 1:
                mean_ms = sum(map(operator.mul, known, counts)) / (sum(counts) or 1)
            metrics[label] = {"mean": mean_ms}
        # The largest of several groups is an upper bound for all calls.
        metrics["GPU Compute Time"] |= {
            f"{percent}%": max(number(x[5]) or 0.0 for x in legacy if x[4] == percent)
            for percent in dict.fromkeys(match[4] for match in legacy)
            if percent
        }
        generation = (6 if "Host" in metrics else 4) if legacy else None
        return PerformanceSummary(metrics=metrics, derived=True, generation=generation)


@functools.lru_cache(maxsize=16)
def alone(text: str) -> tuple[SummaryCollector, bool]:
    """Return what a line says whatever stands above it, and whether it is part of a summary."""
    collector = SummaryCollector()
    return collector, collector.add(text)


@functools.lru_cache(maxsize=16)
def _statistics(text: str) -> dict[str, float]:
    """Return the statistics in a line by name; cached, as a line is tried before it is added."""
    text = "" if _TEMPLATE.search(text) else text[:20_000]
    pairs = ((name, number(value)) for name, value in _PAIR.findall(text))
    return {k.removeprefix("percentile(").strip(" \t)"): v for k, v in pairs if v is not None}


def _block_of(text: str) -> str | None:
    return _BLOCKS.get(text.rstrip(" \t\"'$\\`*+").lower()) if len(text) < 40 else None


_NUMBER = r"([\d.eE+-]{1,30})"
_KIND = r"\(([\w-]{1,80})(?:\[\w{1,30}\])?\)"
_ID = r"(0x[0-9a-fA-F]{1,16}|-?\d{1,20})"
_RUNNER = re.compile(rf"-{{5,}} Timing (?:Runner: )?(.{{1,2000}}?) ?{_KIND}\s*$")
_SET_NAME = re.compile(r"Set Tactic Name: (\S{1,400}) Tactic: (\S{1,40})")
_TACTIC = re.compile(rf"Tactic(?: Name: (\S{{1,400}}) Tactic)?:? ?{_ID},? [Tt]ime:? {_NUMBER}")
_SKIPPED = re.compile(rf"Tactic:? ?{_ID},? skipped|Skipping tactic")
_SPENT = re.compile(rf"(.{{1,2000}}?) {_KIND} profiling completed in {_NUMBER} s")
_CHOSE = re.compile(r">{5,} Chose Runner Type: (\S{1,80}) Tactic: (\S{1,40})")
_FUSION = re.compile(r"(\w{3,80}): [Ff]using (.{1,1000}) (?:with|into) (.{1,1000})")
_PHASES = {
    "Graph construction completed in": "Graph construction",
    "Graph optimization time:": "Graph optimization",
    "Formats and tactics selection completed in": "Tactic selection",
    "Subgraph compilation completed in": "Subgraph compilation",
    "[MS] Multi stream splitting completed in": "Stream splitting",
}
_PHASE = re.compile(rf"({'|'.join(map(re.escape, _PHASES))}) {_NUMBER} s")
_ENGINE_LAYER = re.compile(rf"Layer\((\w{{1,80}})\): (.{{1,4000}}?), Tactic: {_ID},")


class _Layer:
    def __init__(self, runner: str) -> None:
        self.runner = runner
        self.chosen: str | None = None
        self.tried = 0
        self.timed_ms = 0.0
        self.spent_s: float | None = None
        self.tactics: dict[tuple[str, str], tuple[str | None, float]] = {}


class TraceCollector:
    """Collects the verbose lines of TensorRT, in bounded memory."""

    def __init__(self) -> None:
        self.layers: dict[str, _Layer] = {}
        self.current: _Layer | None = None
        self.final: dict[str, tuple[str, str]] = {}
        self.phases: dict[str, float] = {}
        self.fusions: dict[tuple[str, str, str], None] = {}
        self.names: dict[str, str] = {}
        """Names of tactics, which TensorRT 8.0 to 8.5 print on separate lines."""
        self.tried = self.skipped = self.kept = 0
        self.runner = ""

    def add(self, text: str) -> None:
        """Add one verbose line."""
        begin = text[:5]
        if begin in ("Tacti", "Skipp"):
            match = _TACTIC.match(text)
            self.tried += match is not None
            self.skipped += match is None and _SKIPPED.match(text) is not None
            time_ms = number(match[3]) if match else None
            if self.current is not None and match is not None and time_ms is not None:
                self.current.tried += 1
                self.current.timed_ms += time_ms
                key, name = (self.runner, match[2]), match[1] or self.names.get(match[2])
                known = self.current.tactics.get(key)
                if (known is None and self.kept < MOST_TACTICS) or (known and time_ms < known[1]):
                    # Names repeat often; equal ones share one string.
                    shared = sys.intern(name) if name else known and known[0]
                    self.current.tactics[key] = (shared, time_ms)
                    self.kept += known is None
        elif begin == "-----":
            if match := _RUNNER.match(text):
                self.current, self.runner = self._layer(match[1], match[2]), match[2]
        elif begin == ">>>>>":
            match = _CHOSE.match(text)
            if match and self.current is not None:
                self.current.runner, self.current.chosen = match[1], match[2]
        elif " Set Tactic Name: " in text:
            match = _SET_NAME.search(text)
            if match and len(self.names) < MOST_TACTICS:
                self.names[match[2]] = match[1]
        elif "profiling completed" in text:
            match = _SPENT.match(text)
            layer = self._layer(match[1], match[2]) if match else None
            seconds = number(match[3]) if match else None
            if layer is not None and seconds is not None:
                layer.spent_s = (layer.spent_s or 0.0) + seconds
        elif "using " in text:
            match = _FUSION.match(text)
            if match and len(self.fusions) < MOST_FUSIONS:
                self.fusions.setdefault((match[1], match[2], match[3]))
        else:
            self.add_phase(text)

    def add_phase(self, text: str) -> None:
        """Add the time of a phase, which a build prints once per pass."""
        match = _PHASE.match(text)
        seconds = number(match[2]) if match else None
        if match is not None and seconds is not None:
            name = _PHASES[match[1]]
            self.phases[name] = self.phases.get(name, 0.0) + seconds

    def add_engine_layer(self, text: str) -> None:
        """Add a line that lists a layer of the built engine."""
        match = _ENGINE_LAYER.match(text)
        if match and len(self.final) < MOST_LAYERS:
            self.final[match[2]] = (match[1], match[3])

    def _layer(self, name: str, runner: str) -> _Layer | None:
        found = self.layers.get(name)
        if found is None and len(self.layers) < MOST_LAYERS:
            found = self.layers[name] = _Layer(runner)
        return found

    def trace(self) -> BuildTrace | None:
        """Return the collected build; ``None`` if the log was not verbose."""
        if not (self.layers or self.final or self.fusions or self.phases):
            return None
        return BuildTrace(
            layers=tuple(map(self._layer_tuning, dict.fromkeys((*self.final, *self.layers)))),
            phases_s=dict(self.phases),
            fusions=tuple(self.fusions),
            tactics_tried=self.tried,
            tactics_skipped=self.skipped,
        )

    def _layer_tuning(self, name: str) -> LayerTuning:
        found = self.layers.get(name, _Layer(""))
        runner, id = self.final.get(name, (found.runner, found.chosen))
        tactics = [
            Tactic(id=each, name=name, time_ms=ms, runner=kind)
            for (kind, each), (name, ms) in sorted(found.tactics.items(), key=lambda x: x[1][1])
        ]
        same = [each for each in tactics if each.id == id]
        named = [each for each in same if each.runner == runner]  # two runners may use the same id
        return LayerTuning(
            name=name,
            runner=runner,
            chosen=None if id is None else next(iter(named or same), Tactic(id=id)),
            tried=found.tried,
            tactics=tuple(tactics),
            spent_s=found.spent_s,
            timed_ms=found.timed_ms,
        )
