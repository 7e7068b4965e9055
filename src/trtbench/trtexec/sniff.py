"""What kind of file it is, told from its first bytes and, where they leave it open, its name."""

from __future__ import annotations

import re
from typing import Literal

from trtbench.trtexec._time_keys import KNOWN_KEYS
from trtbench.trtexec.plan import is_plan

Kind = Literal[
    "times",
    "profile",
    "layers",
    "output",
    "log",
    "metadata",
    "calibration",
    "plan",
    "timing-cache",
    "onnx",
    "toolkit-summary",
    "toolkit-series",
    "toolkit-percentiles",
    "toolkit-layers",
    "toolkit-torch-bench",
    "toolkit-engine-metadata",
    "toolkit-run-config",
    "unknown",
]

HEAD_BYTES = 64 * 1024
"""How much of a file to give; less works too, but long layer names may hide the keys."""

_TIMING_CACHE = b"ptrt"
_ONNX_FIELDS = b"\x12\x1a\x22\x2a\x32\x3a\x42"
"""What follows the IR version in a model: producer, domain, version, documentation, graph."""
_CALIBRATION = re.compile(r"TRT-\d+-\S+\s*(?:[\r\n]|\Z)")
_LOG = re.compile(
    r"^(?:\[\w+\] )?&&&& \w+ TensorRT\.|^(?:\[\w+\] )?\[[\d/: -]+\] \[[VIWEF]\] "
    r"|^(?:\[[^\]\n]*\] ?)*(?:Average over \d+ runs is|=== (?:Model|Build) Options ===)",
    re.MULTILINE,
)
_KEY = re.compile(r'"([^"\\]{1,120})"\s*:')
_SERIES = re.compile(r'\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\[\s*[-\d.]')
_METADATA_KEYS = {"model_options", "build_options", "performance_summary", "device_information"}

_JSON_KINDS: tuple[tuple[Kind, frozenset[str]], ...] = (
    ("layers", frozenset({"Layers"})),
    ("profile", frozenset({"name", "averageMs"})),
    ("profile", frozenset({"name", "timeMs"})),
    ("toolkit-summary", frozenset({"throughput_qps", "latency"})),
    ("toolkit-torch-bench", frozenset({"throughput_qps", "metrics"})),
    ("toolkit-engine-metadata", frozenset({"size_bytes", "modified_iso"})),
    ("toolkit-run-config", frozenset({"avg_runs", "command"})),
    ("output", frozenset({"name", "dimensions", "values"})),
    ("times", frozenset({"perIteration"})),
    ("times", frozenset({"per_iteration"})),
    ("times", frozenset({"iteration_times"})),
)
"""The first row whose keys are all there decides."""

_CSV_KINDS: dict[str, Kind] = {
    "latency_ms": "toolkit-series",
    "enqueue_ms": "toolkit-series",
    "compute_ms": "toolkit-series",
    "end_to_end_ms": "toolkit-series",
    "percentile,latency_ms": "toolkit-percentiles",
    "name,avg_time_ms,min_time_ms,max_time_ms,calls,percent_of_total": "toolkit-layers",
    "metric,min,max,mean,median,p90,p95,p99": "toolkit-torch-bench",
}
_NAME_KINDS: tuple[tuple[str, Kind], ...] = (
    (r"\.onnx$", "onnx"),
    (r"\.(engine|plan|trt)$", "plan"),
    (r"\.log$|stdout", "log"),
)
_TEXT_KINDS = frozenset({"log"})


def kind_of(data_head: bytes, *, name: str) -> Kind:
    """Tell the kind of a file by content first and by name second."""
    if data_head[:4] == _TIMING_CACHE:
        return "timing-cache"
    if is_plan(data_head):
        return "plan"
    if data_head[:1] == b"\x08" and data_head[2:3] and data_head[2:3] in _ONNX_FIELDS:
        return "onnx"
    if data_head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = data_head.decode("utf-16", "replace")
    elif b"\0" in data_head[:1024].rstrip(b"\0"):
        return _kind_of_name(name, binary=True)
    else:
        text = data_head.decode("utf-8", "replace")
    return _kind_of_text(text.lstrip("\ufeff \t\r\n\0"), name=name)


def _kind_of_text(text: str, *, name: str) -> Kind:
    if _CALIBRATION.match(text):
        return "calibration"
    if text[:1] in ("[", "{", '"'):
        found = _kind_of_json(text, name=name)
        if found != "unknown":
            return found
    if _LOG.search(text):
        return "log"
    first_line = text.split("\n", 1)[0].strip().lower()
    if first_line in _CSV_KINDS:
        return _CSV_KINDS[first_line]
    if first_line.startswith("batch,samples,throughput_qps"):
        return "toolkit-summary"
    return _kind_of_name(name, binary=False) if text else "unknown"


def _kind_of_json(text: str, *, name: str) -> Kind:
    if text.startswith('"'):  # JSON within a string
        text = text.replace('\\"', '"').replace("\\n", "\n").removeprefix('"')
    keys = set(_KEY.findall(text))
    if {"computeMs", "latencyMs"} & keys or len(keys & KNOWN_KEYS) > 2:
        return "times"
    for kind, wanted in _JSON_KINDS:
        if wanted <= keys:
            return kind
    if keys & _METADATA_KEYS:
        return "metadata"
    if _SERIES.match(text) and re.search(r"profil|layer", name, re.IGNORECASE):
        return "profile"
    return "unknown"


def _kind_of_name(name: str, *, binary: bool) -> Kind:
    found = next((kind for words, kind in _NAME_KINDS if re.search(words, name, re.I)), None)
    if found is None or binary == (found in _TEXT_KINDS):
        return "unknown"
    return found
