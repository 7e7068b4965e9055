"""What the warnings and errors in a log mean, in our words."""

from __future__ import annotations

from typing import NamedTuple

from trtbench.trtexec._log_prefixes import LogLine
from trtbench.trtexec._log_values import LogMessage


class Known(NamedTuple):
    """A message recognised by a piece of its text, or by one of several."""

    code: str
    needles: str | tuple[str, ...]
    meaning: str

    def is_in(self, text: str) -> bool:
        """Tell whether a text has a piece of it."""
        pieces = (self.needles,) if isinstance(self.needles, str) else self.needles
        return any(piece in text for piece in pieces)


KNOWN = (
    Known(
        "enqueue-bound",
        "bound by Enqueue Time",
        "the host needs about as long to launch a query as the GPU needs to compute it, so "
        "throughput measures the host; a CUDA graph removes most of that cost",
    ),
    Known(
        "h2d-bound",
        "bound by host-to-device transfers",
        "copying the inputs takes as long as computing, so throughput measures the bus",
    ),
    Known(
        "d2h-bound",
        "bound by device-to-host transfers",
        "copying the outputs takes as long as computing, so throughput measures the bus",
    ),
    Known(
        "unstable",
        "GPU compute time is unstable",
        "compute times scatter more than trtexec accepts; clocks, another process or too few "
        "queries are the usual causes, and the mean is not a good summary",
    ),
    Known(
        "graph-capture-failed",
        "not permitted under CUDA graph capture mode",
        "the CUDA graph could not be captured and trtexec went on without one: the numbers are "
        "those of plain launches although a graph was asked for",
    ),
    Known(
        "graph-capture-failed",
        "CUDA graph capture on the stream has failed",
        "the CUDA graph could not be captured and trtexec went on without one",
    ),
    Known(
        "profile-in-graph",
        "Skip layer timing collection in CUDA graph capture mode",
        "layers cannot be timed while a CUDA graph is captured; those iterations are not in the "
        "profile",
    ),
    Known(
        "profile-in-graph",
        "Failed to collect layer timing info",
        "some iterations have no layer times, so the profile's count is lower than expected",
    ),
    Known(
        "aux-streams",
        "auxiliary streams, so the",
        "layers ran in parallel on several streams: their times add up to more than the engine "
        "takes",
    ),
    Known(
        "clocks-not-locked",
        "locking GPU clock frequency",
        "clocks were free to move; lock them to compare runs",
    ),
    Known(
        "throttled",
        ("throttl", "Throttl"),
        "the GPU lowered its clocks while it was measured, for heat or power: it can be faster",
    ),
    Known(
        "timing-cache-refused",
        "timing cache will not be used",
        "the timing cache belongs to another TensorRT, GPU or driver and was ignored: tactics "
        "were timed afresh, so the build took longer and may have chosen differently",
    ),
    Known(
        "timing-cache-new",
        ("Could not read timing cache", "Could not read cache from"),
        "there was no readable timing cache; a new one is written",
    ),
    Known(
        "timing-cache-refused",
        "Myelin error from unknown graph",
        "part of the timing cache could not be used by this TensorRT",
    ),
    Known(
        "weak-typing",
        "eakly-typed networks have been deprecated",
        "precision flags let the builder choose types; TensorRT 11 no longer does that, the "
        "types must be in the model",
    ),
    Known(
        "weak-typing",
        "eakly typed networks",
        "precision flags let the builder choose types; TensorRT 11 no longer does that",
    ),
    Known(
        "tf32",
        "TF32 is enabled by default",
        "FP32 layers may compute in TF32 with a 10-bit mantissa on Ampere and later",
    ),
    Known(
        "unknown-option",
        "Unknown option",
        "this version of trtexec does not know a flag it was given, and runs nothing",
    ),
    Known(
        "deprecated-flag",
        "flag has been deprecated",
        "a flag is on its way out; the next major version may refuse it",
    ),
    Known(
        "version-mismatch",
        "incompatible serialization version",
        "the engine was written by another version or flavour of TensorRT; build it again here "
        "or build it version compatible",
    ),
    Known(
        "version-mismatch",
        ("engine plan file is not compatible with this version", "Version tag does not match"),
        "the engine was written by another version of TensorRT; build it again here",
    ),
    Known(
        "device-mismatch",
        "generated on an incompatible device",
        "the engine was built for another GPU architecture; build it on this one",
    ),
    Known(
        "device-mismatch",
        "Using an engine plan file across different models of devices",
        "the engine was built on another GPU model; it may run slower than one built here",
    ),
    Known(
        "engine-damaged", "plan->header.size == blobSize", "the engine file is cut short or damaged"
    ),
    Known("engine-damaged", "kPLAN_MAGIC_TAG", "the file is not an engine this TensorRT can read"),
    Known(
        "deserialize-failed",
        ("Engine deserialization failed", "Got invalid engine"),
        "the engine could not be loaded",
    ),
    Known(
        "plugin-missing",
        ("getPluginCreator could not find plugin", "Plugin not found", "Cannot find plugin"),
        "the model needs a plugin that is not loaded; give its library",
    ),
    Known("parse-failed", "Failed to parse", "the model file could not be read by the parser"),
    Known("parse-failed", "Parsing model failed", "the model file could not be read"),
    Known(
        "parse-failed",
        "While parsing node",
        "the parser stopped at a node it cannot import; the lines that follow name it",
    ),
    Known(
        "shape-mismatch",
        "dimension mismatch",
        "an input was given a shape the engine was not built for",
    ),
    Known(
        "shape-mismatch",
        "does not satisfy any optimization profiles",
        "an input's shape lies outside every profile the engine was built with",
    ),
    Known(
        "out-of-memory", ("out of memory", "OutOfMemory"), "the device has not enough free memory"
    ),
    Known(
        "tactic-memory",
        "due to insufficient memory on requested size",
        "the builder skipped a tactic because the workspace is too small for it",
    ),
    Known(
        "shape-assumed",
        ("no shapes were provided", "Shape missing for input with dynamic shape"),
        "a dynamic input had no shape, so trtexec chose one, usually batch 1",
    ),
    Known(
        "no-calibrator",
        "Calibrator is not being used",
        "INT8 was asked for without calibration: scales are made up, speed counts, results do not",
    ),
    Known(
        "calibrator-ignored",
        "Calibrator won't be used in explicit precision",
        "the model carries its own quantisation, so the calibrator is not used",
    ),
    Known(
        "int64-weights",
        "generated with INT64 weights",
        "64-bit weights were narrowed to 32 bits; harmless for shapes and indices that fit",
    ),
    Known(
        "weights-clamped",
        "outside the range of INT32 was clamped",
        "some 64-bit constants did not fit into 32 bits and were cut; results may differ",
    ),
    Known(
        "weights-converted",
        "issues when converting weights between types",
        "some weights do not fit the lower precision; results may lose accuracy",
    ),
    Known(
        "weights-converted",
        "subnormal FP16 values",
        "some weights are too small for FP16 and lose precision",
    ),
    Known(
        "weights-converted",
        "smallest positive FP16 subnormal",
        "some weights are too small for FP16 and were rounded up to its smallest value",
    ),
    Known(
        "library-mismatch",
        "TensorRT was linked against",
        "a CUDA library of another version than TensorRT was made for is loaded; speed may differ",
    ),
    Known(
        "lazy-loading",
        "CUDA lazy loading is not enabled",
        "all kernels are loaded at start, which costs memory and start-up time",
    ),
    Known(
        "streams-overlap",
        "inference streams",
        "queries of several streams overlap: only throughput has a meaning, latencies do not",
    ),
    Known(
        "set-up-failed",
        ("Inference set up failed", "Engine set up failed"),
        "trtexec stopped before it ran anything",
    ),
    Known("set-up-failed", "Failed to create engine", "no engine could be made or loaded"),
    Known("no-file", ("Could not open", "Error opening"), "a file could not be opened"),
    Known("cuda-error", "Cuda failure", "a CUDA call failed; the driver or the device is at fault"),
    Known("cuda-error", "CUDA initialization failure", "CUDA could not be started on this machine"),
)


def known_message(text: str) -> Known | None:
    """Recognise a message by a piece of its text."""
    return next((each for each in KNOWN if each.is_in(text)), None)


MOST_KEPT = 1000
"""Lines kept of each kind that nobody understood, and different messages; counts go on."""
LONGEST_KEPT = 4000
"""Characters kept of a single line or message."""
TAIL = 20


class MessageCollector:
    """Warnings and errors in order of appearance, repeated ones counted."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], LogMessage] = {}
        self.open: tuple[str, str] | None = None
        """The message that lines without a prefix, or indented ones, belong to."""

    def take(self, line: LogLine) -> None:
        """Take a warning or an error in; an indented one continues the one before."""
        text = line.text.strip()[:LONGEST_KEPT]
        before = self._opened()
        if line.text.startswith("  ") and before is not None:
            if len(before.text) < LONGEST_KEPT and text not in before.text:
                self._change(before, text=f"{before.text} {text}")
            return
        self.open = (line.level, text)
        same = self._opened()
        if same is not None:
            self._change(same, count=same.count + 1)
        elif len(self.found) < MOST_KEPT:
            self.found[self.open] = _message(line, text)

    def take_detail(self, text: str) -> bool:
        """Take in a line without a prefix that follows an error; say whether it was one."""
        message = self._opened()
        if message is None or message.level == "W" or message.count > 1:
            return False
        if len(message.detail) >= TAIL:
            return False
        self._change(message, detail=(*message.detail, text[:LONGEST_KEPT]))
        return True

    def messages(self) -> tuple[LogMessage, ...]:
        """List all of them."""
        return tuple(self.found.values())

    def _opened(self) -> LogMessage | None:
        return self.found.get(self.open) if self.open is not None else None

    def _change(self, message: LogMessage, **changes: object) -> None:
        if self.open is not None:
            self.found[self.open] = message.having(**changes)


def _message(line: LogLine, text: str) -> LogMessage:
    known = known_message(text)
    return LogMessage(
        level="W" if line.level == "W" else "F" if line.level == "F" else "E",
        text=text,
        code=known.code if known else None,
        meaning=known.meaning if known else None,
        library=line.library,
    )
