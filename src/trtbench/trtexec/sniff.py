"""Recognises the kind of a file by its first bytes, else by its name."""

import re
from typing import BinaryIO, Literal

from trtbench.trtexec.log import encoding_of, holds_log, is_packed, unpacked
from trtbench.trtexec.times import KNOWN_KEYS, column_and_unit
from trtbench.trtexec.version import flavour_of

FileKind = Literal[
    "times", "profile", "layers", "output", "log", "metadata", "calibration", "plan",
    "timing-cache", "onnx", "toolkit-summary", "toolkit-series", "toolkit-table",
    "toolkit-layers", "toolkit-torch-bench", "toolkit-engine-metadata", "toolkit-run-config",
    "unknown",
]  # fmt: skip

HEAD_BYTES = 64 * 1024
"""Bytes to read from the start of a file; with fewer, long layer names may hide the keys."""
_PIECE_BYTES, _OVERLAP_BYTES = 1 << 20, 512
_ONNX_FIELDS = b"\x12\x1a\x22\x2a\x32\x3a\x42"
"""Tags of the protobuf fields that may follow the IR version of an ONNX model."""
_CALIBRATION = re.compile(r"TRT-\d+-\S+\s*(?:[\r\n]|\Z)")
_ROWS = re.compile(r'(?:\A|"(?:times|iterations|runs|samples)"\s*:)\s*\[\s*([{"\d.-])')
_TIMED = re.compile(r'"\s*[\d.]+ ?(?:[mun]s|µs|s|(?:milli|micro|nano)?seconds)\s*"', re.I)
_KEY = re.compile(r'"([^"\\]{1,120})"\s*:')
_SERIES = re.compile(r'\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\[\s*[-\d.]')
_METADATA_KEYS = {"model_options", "build_options", "performance_summary", "device_information"}
_JSON_KINDS: tuple[tuple[FileKind, str], ...] = (
    ("layers", "Layers"),
    ("profile", "name averageMs"),
    ("profile", "name timeMs"),
    ("profile", "name avgMs"),
    ("profile", "layerName avgMs"),
    ("profile", "layer avgMs"),
    ("profile", "name minMs maxMs"),
    ("toolkit-summary", "throughput_qps latency"),
    ("toolkit-torch-bench", "throughput_qps metrics"),
    ("toolkit-engine-metadata", "size_bytes modified_iso"),
    ("toolkit-run-config", "avg_runs command"),
    ("output", "name dimensions values"),
    ("times", "perIteration"),
    ("times", "per_iteration"),
    ("times", "iteration_times"),
)
"""Kinds and their keys; the first row whose keys are all present wins."""
_BEGIN = r'\A\{(?:\s*"summary"\s*:\s*\{)?[^{}]*'
_SHAPES = {
    "profile": r'\[\s*\{\s*"count"\s*:\s*\d+\s*\}|"(?:percentage|layer|layerName)"\s*:',
    "toolkit-summary": _BEGIN + r'"latency"\s*:\s*(?:null|\{\s*"(?:count|\w+_ms)"\s*:)',
    "toolkit-torch-bench": _BEGIN + r'"metrics"\s*:\s*\{\s*"(?:host|h2d|gpu|d2h)"\s*:',
}
"""What documents of some kinds have besides their keys."""
_CSV_KINDS: dict[str, FileKind] = {
    **dict.fromkeys(("latency_ms", "enqueue_ms", "compute_ms", "end_to_end_ms"), "toolkit-series"),
    "percentile,latency_ms": "toolkit-table",
    "name,avg_time_ms,min_time_ms,max_time_ms,calls,percent_of_total": "toolkit-layers",
    "metric,min,max,mean,median,p90,p95,p99": "toolkit-table",
}


def kind_of(data_head: bytes, *, name: str) -> FileKind:
    """Return the kind of a file, by its content or else by its name."""
    if data_head[:4] == b"ptrt":
        return "timing-cache"
    if flavour_of(data_head) is not None:
        return "plan"
    if data_head[:1] == b"\x08" and data_head[2:3] and data_head[2:3] in _ONNX_FIELDS:
        return "onnx"
    encoding = encoding_of(data_head)
    if encoding is None:
        return _kind_of_name(name)
    text = data_head.decode(encoding, "replace").lstrip("\ufeff \t\r\n\0")
    if _CALIBRATION.match(text):
        return "calibration"
    kind = _kind_of_json(text, name=name) if text[:1] in ("[", "{") else "unknown"
    if kind == "unknown":
        first_line = text.split("\n", 1)[0].strip().lower()
        kind = _CSV_KINDS.get(first_line, kind)
        if first_line.startswith("batch,samples,throughput_qps"):
            kind = "toolkit-table"
    return "log" if kind == "unknown" and holds_log(data_head) else kind


def kind_of_stream(stream: BinaryIO, *, name: str) -> tuple[FileKind, bytes]:
    """Return the kind of a file and its first bytes; a log may start anywhere in it."""
    if is_packed(stream):
        with unpacked(stream) as plain:
            if is_packed(plain):
                return "unknown", plain.read(HEAD_BYTES)
            kind, head = kind_of_stream(plain, name=name)  # type: ignore[arg-type]
        return ("log" if kind == "log" else "unknown"), head
    head = stream.read(HEAD_BYTES)
    if is_archive(head):
        return _kind_of_name(name), head
    kind = kind_of(head, name=name)
    rest = b""
    is_text = kind == "unknown" and head and encoding_of(head) is not None
    while is_text and (piece := stream.read(_PIECE_BYTES)):
        if holds_log(rest + piece):
            return "log", head
        rest = piece[-_OVERLAP_BYTES:]
    return kind, head


def is_archive(head: bytes) -> bool:
    return head[:4] == b"PK\3\4" or head[257:262] == b"ustar"


def _kind_of_json(text: str, *, name: str) -> FileKind:
    keys = set(_KEY.findall(text))
    if keys & {"cell_type", "nbformat"}:  # a notebook
        return "unknown"  # the caller checks whether it holds a log
    if {"computeMs", "latencyMs"} & keys or len(keys & KNOWN_KEYS) > 2:
        return "times"
    of_layers = re.search(r"profil|layer", name, re.IGNORECASE)
    for kind, wanted in _JSON_KINDS:
        is_sure = kind == "profile" and of_layers is not None
        if keys.issuperset(wanted.split()) and (is_sure or re.search(_SHAPES.get(kind, ""), text)):
            return kind
    if keys & _METADATA_KEYS:
        return "metadata"
    # Rows, columns or a list of durations: keys, values or the file's name say that they are.
    named = re.search(r"times|timing|latenc", name, re.IGNORECASE)
    said = named or _TIMED.search(text)
    timed = [key for key in keys if column_and_unit(key)[0] and (said or column_and_unit(key)[1])]
    listed = (re.search(rf'"{re.escape(key)}"\s*:\s*\[', text) for key in timed)
    rows = _ROWS.search(text)
    bare = rows and rows[1] != "{" and (named or _TIMED.match(text, rows.start(1)))
    if bare or (timed and (rows or any(listed))):
        return "times"
    if of_layers and _SERIES.match(text):
        return "profile"
    return "unknown"


def _kind_of_name(name: str) -> FileKind:
    kinds: dict[str, FileKind] = {"onnx": "onnx", "engine": "plan", "plan": "plan", "trt": "plan"}
    return kinds.get(name.lower().rpartition(".")[2], "unknown")
