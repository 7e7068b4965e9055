"""Single lines of a log that state a fact about building, loading or running."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from trtbench.trtexec._log_lines import number
from trtbench.trtexec._log_values import Binding, BuildFacts, MemoryLine

MIB = 1 << 20
MOST_LINES = 10_000
"""Memory lines and bindings kept of one run; a sane log has a few dozen."""

_N = r"([-+]?[\d.]{1,40}(?:e[-+]?\d{1,4})?)"
_UNITS = {"B": 1, "bytes": 1, "": 1, "KiB": 1 << 10, "MiB": MIB, "MB": MIB, "GiB": 1 << 30}
"""trtexec before 8.2 wrote MB and meant MiB."""


def _bytes(amount: str, unit: str) -> int | None:
    value = number(amount)
    if value is None or not abs(value) < 2**62:  # also refuses nan
        return None
    return int(value * _UNITS.get(unit, 1))


_SECONDS = {
    "parse_s": re.compile(rf"Finished parsing network model\. Parse time: {_N}"),
    "optimize_s": re.compile(rf"Graph optimization time: {_N} seconds"),
    "generate_s": re.compile(rf"Engine generation completed in {_N} seconds"),
    "build_s": re.compile(rf"Engine built in {_N} sec"),
    "load_s": re.compile(rf"Engine loaded in {_N} sec"),
    "deserialize_s": re.compile(rf"Engine deserialized in {_N} sec"),
    "calibration_s": re.compile(rf"Calibration completed in {_N} seconds"),
}
_PASSES = ("optimize_s", "generate_s")
"""The builder of TensorRT 10 goes over the network several times: what it took in all."""
_SIZES = {
    "engine_bytes": re.compile(rf"Created engine with size: {_N} (\w{{1,5}})"),
    "loaded_engine_bytes": re.compile(rf"Loaded engine size: {_N} (\w{{1,5}})"),
    "context_bytes": re.compile(
        rf"Created execution context with device memory size: {_N} (\w{{1,5}})"
    ),
    "host_persistent_bytes": re.compile(rf"Total Host Persistent Memory: {_N} ?(\w{{0,5}})"),
    "device_persistent_bytes": re.compile(rf"Total Device Persistent Memory: {_N} ?(\w{{0,5}})"),
    "scratch_bytes": re.compile(rf"(?:Total|Max) Scratch Memory: {_N} ?(\w{{0,5}})"),
    "activation_bytes": re.compile(rf"Total Activation Memory: {_N} ?(\w{{0,5}})"),
    "weights_bytes": re.compile(rf"Total Weights Memory: {_N} ?(\w{{0,5}})"),
    "timing_cache_loaded_bytes": re.compile(rf"Loaded {_N} (bytes) of timing cache from"),
    "timing_cache_saved_bytes": re.compile(rf"Saved {_N} (bytes) of timing cache to"),
    "peak_build_cpu_bytes": re.compile(
        rf"\[MemUsageStats\] Peak memory usage during Engine building and serialization: "
        rf"CPU: {_N} (\w{{1,5}})"
    ),
}
_PEAK = re.compile(
    rf"\[MemUsageStats\] Peak memory usage of TRT CPU/GPU memory allocators: "
    rf"CPU {_N} MiB, GPU {_N} MiB"
)
_CHANGE = re.compile(
    r"\[MemUsageChange\] (.{0,200}?): CPU ([-+]?\d{1,12}), GPU ([-+]?\d{1,12}), "
    r"now: CPU (\d{1,12}), GPU (\d{1,12}) \(MiB\)"
)
_SNAPSHOT = re.compile(r"\[MemUsageSnapshot\] (.{0,200}?): CPU (\d{1,12}) MiB, GPU (\d{1,12}) MiB")
_BINDING = re.compile(
    r"(?:Created (input|output) binding for|(Input|Output) binding for) (.{1,2000}?) "
    r"with dimensions ([\dx]{0,400})(?: and type (\w{1,20}))?"
)
_ONNX = re.compile(
    r"(Input filename|ONNX IR version|Opset version|Producer name|Producer version|Domain"
    r"|Model version|Doc string): *(.{0,2000})$"
)
_STARTS = frozenset(
    [
        "Finished",
        "Graph",
        "Engine",
        "Calibration",
        "Created",
        "Loaded",
        "Total",
        "Max",
        "Saved",
        "[MemUsageStats]",
        "[MemUsageChange]",
        "[MemUsageSnapshot]",
        "Input",
        "Output",
        "ONNX",
        "Opset",
        "Producer",
        "Domain:",
        "Model",
        "Doc",
        "Local",
        "Global",
    ]
)
"""First words of the lines that state a fact: the cheap test before any pattern."""


class FactCollector:
    """Gathers the facts of one run, line by line."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.memory: list[MemoryLine] = []
        self.onnx: dict[str, str] = {}
        self.bindings: list[Binding] = []

    def take(self, text: str, *, library: bool) -> bool:
        """Take a line in; say whether it stated a fact."""
        if text.split(" ", 1)[0] not in _STARTS:
            return False
        steps: tuple[Callable[[str], bool], ...] = (self._seconds, self._sizes, self._memory)
        if any(step(text) for step in steps):
            return True
        return self._parser(text) if library else self._binding(text)

    def _seconds(self, text: str) -> bool:
        for field, pattern in _SECONDS.items():
            match = pattern.match(text)
            if match:
                seconds = number(match[1])
                if field in _PASSES and seconds is not None:
                    seconds += self.values.get(field) or 0.0
                self.values[field] = seconds
                return True
        return False

    def _sizes(self, text: str) -> bool:
        for field, pattern in _SIZES.items():
            match = pattern.match(text)
            if match:
                self.values[field] = _bytes(match[1], match[2])
                return True
        return False

    def _memory(self, text: str) -> bool:
        peak = _PEAK.match(text)
        if peak:
            self.values["peak_cpu_bytes"] = _bytes(peak[1], "MiB")
            self.values["peak_gpu_bytes"] = _bytes(peak[2], "MiB")
            return True
        line = _memory_line(text)
        if line is not None and len(self.memory) < MOST_LINES:
            self.memory.append(line)
        return line is not None

    def _parser(self, text: str) -> bool:
        for word in ("Local", "Global"):
            if text.startswith(f"{word} timing cache in use"):
                self.values["timing_cache"] = word.lower()
                return True
        match = _ONNX.match(text)
        if match:
            self.onnx[match[1]] = match[2].strip()
        return match is not None

    def _binding(self, text: str) -> bool:
        match = _BINDING.match(text)
        if match and len(self.bindings) < MOST_LINES:
            dims = tuple(int(part) for part in match[4].split("x") if 0 < len(part) < 19)
            output = (match[1] or match[2]).lower() == "output"
            self.bindings.append(Binding(name=match[3], output=output, shape=dims, dtype=match[5]))
        return match is not None

    def facts(self, *, codes: frozenset[str]) -> BuildFacts:
        """Find all that was gathered; some facts are told by warnings only."""
        return BuildFacts(
            **self.values,
            memory=tuple(self.memory),
            onnx=self.onnx,
            timing_cache_refused="timing-cache-refused" in codes,
            weak_typing_deprecated="weak-typing" in codes,
        )


def _memory_line(text: str) -> MemoryLine | None:
    change = _CHANGE.match(text)
    if change:
        cpu_change, gpu_change, cpu, gpu = (int(part) * MIB for part in change.groups()[1:])
        return MemoryLine(
            what=change[1],
            cpu_bytes=cpu,
            gpu_bytes=gpu,
            cpu_change_bytes=cpu_change,
            gpu_change_bytes=gpu_change,
        )
    snapshot = _SNAPSHOT.match(text)
    if snapshot:
        cpu, gpu = int(snapshot[2]) * MIB, int(snapshot[3]) * MIB
        return MemoryLine(what=snapshot[1], cpu_bytes=cpu, gpu_bytes=gpu)
    return None
