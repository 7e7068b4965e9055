"""What kind of file it is, told from its first bytes and, where they leave it open, its name."""

from __future__ import annotations

import io
import re
from typing import BinaryIO, Literal

from trtbench.trtexec._log_packed import is_mail
from trtbench.trtexec._log_packed import unpacked as unpacked
from trtbench.trtexec._time_keys import KNOWN_KEYS, column_of, milliseconds_of
from trtbench.trtexec.log_text import (
    LARGEST_DOCUMENT,
    encoding_of,
    holds_log,
    read_text,
    stream_holds_log,
)
from trtbench.trtexec.plan import is_plan

FileKind = Literal[
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
_ROWS = re.compile(r'\[\s*\{|\{\s*"(?:times|iterations|runs|samples)"\s*:\s*\[\s*\{')
_KEY = re.compile(r'"([^"\\]{1,120})"\s*:')
_SERIES = re.compile(r'\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\[\s*[-\d.]')
_METADATA_KEYS = {"model_options", "build_options", "performance_summary", "device_information"}

_JSON_KINDS: tuple[tuple[FileKind, frozenset[str]], ...] = (
    ("layers", frozenset({"Layers"})),
    ("profile", frozenset({"name", "averageMs"})),
    ("profile", frozenset({"name", "timeMs"})),
    ("profile", frozenset({"name", "avgMs"})),
    ("profile", frozenset({"layerName", "avgMs"})),
    ("profile", frozenset({"layer", "avgMs"})),
    ("profile", frozenset({"name", "minMs", "maxMs"})),
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

_CSV_KINDS: dict[str, FileKind] = {
    "latency_ms": "toolkit-series",
    "enqueue_ms": "toolkit-series",
    "compute_ms": "toolkit-series",
    "end_to_end_ms": "toolkit-series",
    "percentile,latency_ms": "toolkit-percentiles",
    "name,avg_time_ms,min_time_ms,max_time_ms,calls,percent_of_total": "toolkit-layers",
    "metric,min,max,mean,median,p90,p95,p99": "toolkit-torch-bench",
}
_NAME_KINDS: tuple[tuple[str, FileKind], ...] = (
    (r"\.onnx$", "onnx"),
    (r"\.(engine|plan|trt)$", "plan"),
)
_OFFICE = re.compile(rb"<w:document\b|<office:document|^\{\\\\rtf")
"""Documents of word processors, in which a line may be cut into pieces anywhere."""
_NOTEBOOK = frozenset({"cell_type", "nbformat"})


def kind_of(data_head: bytes, *, name: str) -> FileKind:
    """Tell the kind of a file by content first and by name second."""
    if data_head[:4] == _TIMING_CACHE:
        return "timing-cache"
    if is_plan(data_head):
        return "plan"
    if data_head[:1] == b"\x08" and data_head[2:3] and data_head[2:3] in _ONNX_FIELDS:
        return "onnx"
    encoding = encoding_of(data_head)
    if encoding is None:
        return _kind_of_name(name)
    text = data_head.decode(encoding, "replace").lstrip("\ufeff \t\r\n\0")
    kind = _kind_of_text(text, name=name)
    return "log" if kind == "unknown" and holds_log(data_head) else kind


def kind_of_stream(stream: BinaryIO, *, name: str) -> tuple[FileKind, bytes]:
    """Tell the kind of a file and give its first bytes; a log may begin far down in it."""
    packed = unpacked(stream)
    if packed is not None:
        kind, head = kind_of_stream(packed, name=name)  # type: ignore[arg-type]
        return ("log" if kind == "log" else "unknown"), head
    head = stream.read(HEAD_BYTES)
    if is_archive(head):
        return _kind_of_name(name), head
    kind = kind_of(head, name=name)
    if kind == "unknown" and (is_mail(head) or _OFFICE.search(head[:4096])):
        text = read_text(io.BytesIO(head + stream.read(LARGEST_DOCUMENT)))
        said = "\n".join(text.lines).encode("utf-8", "replace")
        return ("log" if holds_log(said) else "unknown"), head
    is_text = head and encoding_of(head) is not None
    if kind == "unknown" and is_text and stream_holds_log(stream):
        return "log", head
    return kind, head


def is_archive(head: bytes) -> bool:
    """Say whether a file holds others, which belong together and are no one text."""
    return head[:4] == b"PK\3\4" or head[257:262] == b"ustar"


def _kind_of_text(text: str, *, name: str) -> FileKind:
    if _CALIBRATION.match(text):
        return "calibration"
    if text[:1] in ("[", "{", '"'):
        found = _kind_of_json(text, name=name)
        if found != "unknown":
            return found
    first_line = text.split("\n", 1)[0].strip().lower()
    if first_line in _CSV_KINDS:
        return _CSV_KINDS[first_line]
    if first_line.startswith("batch,samples,throughput_qps"):
        return "toolkit-summary"
    return "unknown"


def _kind_of_json(text: str, *, name: str) -> FileKind:
    if text.startswith('"'):  # JSON within a string
        text = text.replace('\\"', '"').replace("\\n", "\n").removeprefix('"')
    keys = set(_KEY.findall(text))
    if keys & _NOTEBOOK:
        return "unknown"  # whether it is a log is asked of all that is left
    if {"computeMs", "latencyMs"} & keys or len(keys & KNOWN_KEYS) > 2:
        return "times"
    for kind, wanted in _JSON_KINDS:
        if wanted <= keys:
            return kind
    if keys & _METADATA_KEYS:
        return "metadata"
    if _has_times(text, keys):
        return "times"
    if _SERIES.match(text) and re.search(r"profil|layer", name, re.IGNORECASE):
        return "profile"
    return "unknown"


def _has_times(text: str, keys: set[str]) -> bool:
    """Say whether rows or columns of durations are there, in a unit that their names tell."""
    told = [key for key in keys if column_of(key) is not None and milliseconds_of(key) is not None]
    if not told:
        return False
    in_rows = _ROWS.match(text) is not None
    return in_rows or any(re.search(rf'"{re.escape(key)}"\s*:\s*\[', text) for key in told)


def _kind_of_name(name: str) -> FileKind:
    found = (kind for words, kind in _NAME_KINDS if re.search(words, name, re.IGNORECASE))
    return next(found, "unknown")
