"""The words by which trtexec's lines are told apart: what opens, ends, and belongs to nothing."""

from __future__ import annotations

import re

HEADER = re.compile(r"=== (.{1,80}) ===\s*$")
WARMED = re.compile(r"Warmup completed (\d{1,15}) queries over")
TRACED = re.compile(r"Timing trace has (\d{1,15}) queries over ([\d.]{1,40}) s")
OMITTED = re.compile(r"\.\.\. Omitting (\d{1,15}) lines")
LEGACY = frozenset(
    [
        "avgRuns",
        "batch",
        "calib",
        "deploy",
        "device",
        "engine",
        "iterations",
        "loadEngine",
        "model",
        "onnx",
        "output",
        "percentile",
        "saveEngine",
        "uff",
        "uffInput",
        "useDLACore",
        "workspace",
        "fp16",
        "int8",
        "verbose",
        "useSpinWait",
        "hostTime",
        "safe",
        "allowGPUFallback",
    ]
)
"""Options as TensorRT 5 and 6 list them, without a heading."""
TALK = (
    "Building and running a GPU inference engine",
    "Created ",
    "Detected ",
    "Explanations of the performance metrics",
    "FP32 and INT8 precisions have been specified",
    "Finish parsing",
    "Layer Information:",
    "Layers:",
    "Loading ",
    "Note: The application clock rates",
    "Output Tensors:",
    "Run inference...",
    "Set shape of input tensor",
    "Setting persistentCacheLimit",
    "Skipped inference phase",
    "Start parsing",
    "Starting inference",
    "TF32 is enabled by default",
    "The e2e network timing is not reported",
    "To show e2e network timing report",
    "Trace averages of",
    "Using random values for",
    "Using values loaded from",
)
"""Lines that are understood and tell nothing that is kept."""

LIBRARY_TALK = ("---", "[BlockAssignment]", "[GpuLayer]", "[DlaLayer]", "[MS]", "Detected ")
LISTING = ("Name: ", "Layer(", "Bindings:")
"""Layer information, which is read from its JSON export; the log's tells types only."""
TYPES = {
    "Float": "fp32",
    "FP32": "fp32",
    "Half": "fp16",
    "FP16": "fp16",
    "BFloat16": "bf16",
    "BF16": "bf16",
    "Int8": "int8",
    "INT8": "int8",
    "FP8": "fp8",
    "Int4": "int4",
}
TYPE = re.compile(rf"(?:Datatype: |[\[(]|format |linear )({'|'.join(TYPES)})\b")

LEGACY_FIRST = frozenset({"deploy", "onnx", "uff", "engine", "loadEngine"})
"""The first of those options."""
BEFORE_SUMMARY = (
    "Average on ",
    "Trace averages of",
    "Warmup completed",
    "Timing trace has",
    "Start parsing",
    "Finished parsing",
    "Engine built",
    "Engine loaded",
    "Engine deserialized",
)
"""What trtexec says before it sums up, and not again after."""
AFTER_OPTIONS = (
    *BEFORE_SUMMARY,
    "Starting inference",
    "Throughput: ",
    "TensorRT version: ",
    "Latency: min",
    "Host Latency",
    "Host latency",
    "host latency",
    "GPU Compute",
    "GPU compute",
    "Enqueue Time",
)
FIRST_AFTER_OPTIONS = frozenset(each[0] for each in AFTER_OPTIONS)
DECIDING = frozenset(
    [
        "===",
        "Average",
        "Trace",
        "Warmup",
        "Timing",
        "Start",
        "Finished",
        "Engine",
        "Throughput:",
        "throughput:",
        "walltime:",
        "Latency:",
        "Host",
        "host",
        "End-to-End",
        "Enqueue",
        "H2D",
        "GPU",
        "gpu",
        "D2H",
        "Total",
        "total",
    ]
)
"""First words of lines that may show that another run has begun: the cheap test."""
CRASH = re.compile(
    r"\[[EF]\] |[Ss]egmentation fault|core dumped|Aborted|\bKilled\b|terminate called|[Aa]ssert"
    r"|Bus error|Traceback|SIG[A-Z]{3,5}|exit(?:ed with)? (?:code|status) [1-9]"
)
"""Last words of a process that did not end by itself."""
