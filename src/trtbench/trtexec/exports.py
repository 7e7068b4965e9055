"""Reads and writes layer profiles, layer information and calibration caches of trtexec.

A JSON file may hold several documents and ``nan``. trtexec does not escape the names of layers:
they are escaped before its profiles are read.
"""

import contextlib
import json
import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec
import numpy as np

from trtbench.core.errors import ParseError
from trtbench.core.samples import EngineGraph, LayerInfo, LayerProfile, LayerTime, TensorInfo
from trtbench.core.spec import Value
from trtbench.trtexec.log import HEAD, encoding_of
from trtbench.trtexec.version import version_from_digits

_STRICT = msgspec.json.Decoder()
_LENIENT = json.JSONDecoder(strict=False)
"""Accepts control characters within strings, which trtexec 8.6 writes into layer metadata."""
_SPACE = re.compile(r"[\s\0\ufeff]*")
_NAN_OR_INF = re.compile(
    r'("(?:[^"\\]|\\.)*")|(?<![\w.])(-?)(nan|inf(?:inity)?)(?:\(ind\))?(?![\w.])', re.I
)
_LONE_SURROGATE = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""Half a character, which cannot be encoded as UTF-8."""


def parse_error(
    where: str,
    *,
    what: str,
    place: str = "the whole file",
    expected: str,
    facts: Mapping[str, object] | None = None,
    fix: str | None = None,
) -> ParseError:
    """Return the error for a file that cannot be parsed: the place, and what was expected."""
    known = {"file": where, "place": place, "expected": expected}
    return ParseError(f"{where} {what}", facts={**known, **(facts or {})}, fix=fix)


def text_from_bytes(data: bytes | str, *, where: str, expected: str) -> str:
    """Return the text of a file; empty and binary files are refused."""
    encoding = "" if isinstance(data, str) else encoding_of(data[:HEAD])
    if encoding is None:
        raise parse_error(where, what="is a binary file", place="byte 0", expected=expected)
    text = data if isinstance(data, str) else data.decode(encoding, "replace")
    if _SPACE.fullmatch(text):
        raise parse_error(where, what="is empty", place="byte 0", expected=expected)
    return text


def documents_from_json(data: bytes | str, *, where: str, expected: str) -> list[object]:
    try:
        return [_STRICT.decode(data)]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        text = text_from_bytes(data, where=where, expected=expected)
    text = _LONE_SURROGATE.sub(r"\\ufffd", text)
    position, documents = after_space(text, 0), []
    try:
        value_from_text(text, where=where, offset=position)
    except ParseError:
        text = with_json_constants(text)  # slow
    while position < len(text):
        value, position = value_from_text(text, where=where, offset=position)
        documents.append(value)
        position = after_space(text, position)
    return documents


def value_from_text(text: str, *, where: str, offset: int = 0) -> tuple[object, int]:
    try:
        return _LENIENT.raw_decode(text, offset)
    except RecursionError:
        problem, at = "is nested too deeply", offset
    except json.JSONDecodeError as found:
        problem, at = "is not valid JSON", found.pos
    except ValueError:
        problem, at = "has a number that cannot be read", offset
    line, column = text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)  # both from 1
    place = f"line {line}, column {column} (character {at})"
    raise parse_error(where, what=problem, place=place, expected="a JSON value")


def with_json_constants(text: str) -> str:
    """Return JSON with ``nan`` and ``inf`` outside strings as Python's JSON reader expects."""

    def json_word(match: re.Match[str]) -> str:
        string, sign, word = match.groups()
        if string is not None:
            return str(string)
        return "NaN" if word.lower() == "nan" else f"{sign}Infinity"

    return _NAN_OR_INF.sub(json_word, text)


def after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def number_from_value(value: object) -> float:
    """Return a number as a float; anything else is nan."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


_STATISTIC_KEYS: dict[str, tuple[str, ...]] = {
    "total": ("timeMs", "time_ms", "totalMs", "total_ms", "total_time_ms"),
    "average": ("averageMs", "avgMs", "average_ms", "avg_ms", "avg_time_ms", "mean_ms", "meanMs"),
    "median": ("medianMs", "median_ms"),
    "min": ("minMs", "min_ms", "min_time_ms"),
    "max": ("maxMs", "max_ms", "max_time_ms"),
    "percent": ("percentage", "percent_of_total", "percent"),
    "dram_bytes": ("dramBytes",),
    "sm_active": ("smActive",),
}
_NAME_KEYS = ("name", "layerName", "layer_name", "layer")
_NESTED_KEYS = ("layers", "profile", "layer_times", "per_layer", "perLayer")
_MAX_DEPTH = 6

_Record = tuple[str, dict[str, float]]  # the name of a layer, and its statistics in milliseconds
_LayerTable = tuple["int | None", list[_Record]]  # the number of iterations, and the layers


def _layer_tables(value: object, *, depth: int = 0, every: bool = False) -> Iterator[_LayerTable]:
    """Yield the tables of layer times in a JSON value, at any depth; ``every``: all rows are."""
    if depth > _MAX_DEPTH:
        return
    found = _records_in_series(value)
    if isinstance(value, list):
        found = _records_in_list(value, every=every)
    if found[1]:
        yield found
    if isinstance(value, dict):
        for each in [value[name] for name in _NESTED_KEYS if name in value] + list(value.values()):
            for count, records in _layer_tables(each, depth=depth + 1):
                yield count or _count(value), records


def _count(value: dict[str, object]) -> int | None:
    count = value.get("count", value.get("iterations"))
    return count if isinstance(count, int) and not isinstance(count, bool) and count > 0 else None


def _records_in_list(values: list[object], *, every: bool) -> _LayerTable:
    headers: list[int | None] = []
    records: list[_Record] = []
    for value in values:
        row = value if isinstance(value, dict) else {}
        name = next((str(row[key]) for key in _NAME_KEYS if isinstance(row.get(key), str)), None)
        if name is None and "count" in row:
            headers.append(_count(row))
            continue
        found = {
            field: next((number_from_value(row[key]) for key in keys if key in row), math.nan)
            for field, keys in _STATISTIC_KEYS.items()
        }
        timed = not (math.isnan(found["total"]) and math.isnan(found["average"]))
        if every or (name is not None and timed):
            records.append((name, found) if name is not None else ("without a name", {}))
    return next(iter(headers), None), records


def _records_in_series(value: object) -> _LayerTable:
    """Return the layers in ``{layer: [ms per iteration]}``; layers of one name share a list."""
    series: dict[str, list[float]] = {}
    for name, each in value.items() if isinstance(value, dict) else ():
        numbers = [number_from_value(number) for number in each] if isinstance(each, list) else []
        if not numbers or not all(map(math.isfinite, numbers)):
            return None, []
        series[str(name)] = numbers
    count = min(map(len, series.values()), default=0)
    records = []
    for name, times in series.items():
        total = math.fsum(times)
        found = {"total": total, "average": total / count, "median": float(np.median(times))}
        records.append((name, found | {"min": min(times), "max": max(times)}))
    return count or None, records


EXPECTED = "the layers of trtexec --exportProfile"
_TRTEXEC_LAYOUT = re.compile(r'\s*\[\s*\{ "(?:count|name)" : ')
_UNESCAPED = re.compile(
    r'(\{\s*"name" : ")((?:(?!\{\s*"name" : ").)*?)("\s*,\s*"timeMs" : )', re.DOTALL
)


def profiles_from_json(data: bytes | str, *, where: str) -> tuple[LayerProfile, ...]:
    """Return every profile in a file, which may hold several exports."""
    text = text_from_bytes(data, where=where, expected=EXPECTED)
    printed = _TRTEXEC_LAYOUT.match(text) is not None
    try:
        if printed and not _is_plain_json(text):
            text = _UNESCAPED.sub(lambda row: row[1] + json.dumps(row[2])[1:-1] + row[3], text)
        documents = documents_from_json(text, where=where, expected=EXPECTED)
    except ParseError as problem:
        if printed and text.rstrip("\0 \t\r\n")[-1:] != "]":
            problem.message = f"{where} is cut off"
            problem.fix = "let trtexec write it again with --exportProfile"
        raise
    tables = [next(_layer_tables(each, every=printed), (None, [])) for each in documents]
    found = [_profile(count, records, where=where) for count, records in tables]
    profiles = tuple(profile for profile in found if profile.layers)
    if not profiles:
        raise parse_error(where, what="has no layer times", expected=EXPECTED)
    return profiles


def _is_plain_json(text: str) -> bool:
    """Whether text is JSON in which nothing is escaped; trtexec does not escape names."""
    with contextlib.suppress(msgspec.MsgspecError, UnicodeEncodeError, RecursionError):
        _STRICT.decode(text)
        return "\\" not in text
    return False


def _profile(count: int | None, records: list[_Record], *, where: str) -> LayerProfile:
    """Return a profile; a missing total or average is computed from the other."""
    calls, layers = count or 1, []
    for name, times in records:
        ms = {field: value for field, value in times.items() if math.isfinite(value)}
        average = ms.get("average", ms.get("total", math.nan) / calls)
        total = ms.get("total", average * calls)
        if not math.isfinite(total):
            what, expected = "has a layer without a time", "timeMs or averageMs"
            raise parse_error(where, what=what, place=f"layer {name!r}", expected=expected)
        share = ms["percent"] / 100 if "percent" in ms else None
        known = {f"{key}_s": ms[key] / 1e3 for key in ("median", "min", "max") if key in ms}
        known |= {key: ms[key] for key in ("dram_bytes", "sm_active") if key in ms}
        average_s = average / 1e3
        layers.append(
            LayerTime(name=name, total_s=total / 1e3, average_s=average_s, share=share, **known)
        )
    total_s = math.fsum(layer.total_s for layer in layers)
    for place, layer in enumerate(layers):
        if layer.share is None and total_s > 0:
            layers[place] = layer.having(share=layer.total_s / total_s)
    return LayerProfile(count=count, layers=tuple(layers))


EXPECTED_LAYERS = (
    'layer information of trtexec --exportLayerInfo: {"Layers": [...], "Bindings": [...]}'
)
_FIELDS = {"Name", "LayerType", "Inputs", "Outputs", "TacticName", "StreamId", "Metadata"}
_TYPE_PATTERNS = [
    (re.compile(rf"(?<![a-z0-9])k?(?:{words})(?![a-z0-9])"), name)
    for words, name in (
        (r"bfloat16|bf16", "bf16"),
        (r"fp16|float16|half", "fp16"),
        (r"fp8\w*|float8\w*|e4m3\w*|e5m2\w*", "fp8"),
        (r"fp4\w*|float4\w*|e2m1\w*", "fp4"),
        (r"fp32|float32|float", "fp32"),
        *((each, each) for each in ("uint8", "int8", "int4", "int64", "int32", "bool")),
        (r"fp64|float64|double", "fp64"),
    )
]
_METADATA_SEPARATORS = re.compile("[\x1e\x1f]")


def graph_from_json(data: bytes | str, *, where: str) -> EngineGraph:
    """Return the layers of an engine, and the names of its inputs and outputs."""
    documents = documents_from_json(data, where=where, expected=EXPECTED_LAYERS)
    graph = documents[0]
    if not isinstance(graph, dict) or "Layers" not in graph or len(documents) > 1:
        what = "is not layer information of one engine"
        raise parse_error(where, what=what, expected=EXPECTED_LAYERS)
    layers, io_tensors = graph["Layers"], graph.get("I/O Tensors")
    if not isinstance(layers, list) or not layers:
        raise parse_error(where, what="has no layers", place="Layers", expected=EXPECTED_LAYERS)
    bindings = graph.get("Bindings", io_tensors)
    names = [
        each.get("Name") if isinstance(each, dict) else each
        for each in (bindings if isinstance(bindings, list) else ())
    ]
    known = {"Layers", "Bindings"}
    if not isinstance(io_tensors, list) or not any(isinstance(each, dict) for each in io_tensors):
        known.add("I/O Tensors")
    return EngineGraph(
        layers=tuple(_layer(each, index, where=where) for index, each in enumerate(layers)),
        io_tensors=tuple(str(name) for name in names if name is not None),
        detailed=any(isinstance(each, dict) for each in layers),
        extra={str(key): each for key, each in graph.items() if key not in known},
    )


_WIDTHS = {"two": "2", "four": "4", "sixteen": "16", "thirty-two": "32"}
_VECTOR = re.compile(r"channel % (\d+)|(two|four|sixteen|thirty-two) wide")


@lru_cache(maxsize=1024)
def layout_from_format(wording: str | None) -> str | None:
    """Return the layout in a format as trtexec's options call it: ``chw``, ``chw32``, ``hwc8``."""
    text = (wording or "").lower()
    if "column stride" in text:
        return "dla_hwc4" if "channel" in text else "dla_linear"
    found = _VECTOR.search(text)
    step = (found[1] or _WIDTHS[found[2]]) if found else ""
    orders = {"row major": f"chw{step}", "channel major": f"hwc{step}"}
    return next((layout for words, layout in orders.items() if words in text), None)


@lru_cache(maxsize=1024)
def dtype_from_format(wording: str | None) -> str | None:
    """Return the type in a format of any version: ``Half``, ``Row major linear FP16 format``."""
    text = (wording or "").lower()
    return next((name for pattern, name in _TYPE_PATTERNS if pattern.search(text)), None)


def _layer(value: object, index: int, *, where: str) -> LayerInfo:
    if isinstance(value, str):
        return LayerInfo(name=value)
    if not isinstance(value, dict) or not isinstance(value.get("Name"), str):
        what, expected = "has a layer without a name", "a name, or an object with Name"
        raise parse_error(where, what=what, place=f"Layers[{index}]", expected=expected)
    stream, metadata = value.get("StreamId"), value.get("Metadata")
    parts = _METADATA_SEPARATORS.split(metadata) if isinstance(metadata, str) else []
    # The ONNX nodes of a layer, in order and without duplicates.
    named = (part.partition("[ONNX Layer: ")[2].rstrip() for part in parts)
    origin = tuple(dict.fromkeys(each[:-1] for each in named if each.endswith("]")))
    counts = [each.get("Count") for each in value.values() if isinstance(each, dict)]
    weights = [count for count in counts if isinstance(count, int)]  # and biases
    read = _FIELDS if origin else _FIELDS - {"Metadata"}
    return LayerInfo(
        name=value["Name"],
        type=_text(value.get("LayerType")),
        inputs=_tensors(value.get("Inputs")),
        outputs=_tensors(value.get("Outputs")),
        tactic=_text(value.get("TacticName") or value.get("TacticValue")),
        stream=stream if isinstance(stream, int) else None,
        origin=origin,
        weights_count=sum(weights) if weights else None,
        extra={str(key): each for key, each in value.items() if key not in read},
    )


def _tensors(values: object) -> tuple[TensorInfo, ...]:
    found = []
    for each in values if isinstance(values, list) else ():
        value = each if isinstance(each, dict) else {"Name": each}
        layout = _text(value.get("Format/Datatype")) or _text(value.get("Format"))
        dtype = _text(value.get("DataType") or value.get("Datatype"))
        sizes = value.get("Dimensions")
        if not isinstance(sizes, list) or not all(isinstance(each, int) for each in sizes):
            sizes = []
        found.append(
            TensorInfo(
                name=str(value.get("Name", "")),
                dimensions=tuple(sizes),
                format=layout or dtype,
                layout=layout_from_format(layout or dtype),
                dtype=dtype_from_format(dtype) or dtype_from_format(layout),
                location=_text(value.get("Location")),
            )
        )
    return tuple(found)


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


EXPECTED_CALIBRATION = "a calibration cache: TRT-<version>-<algorithm>, then lines of 'tensor: hex'"
INT8_STEPS = 127
_HEADER = re.compile(r"TRT-(\d{1,9})-(\S.*)")
_HEX = re.compile(r"[0-9a-fA-F]{1,8}\Z")


class TensorScale(Value, frozen=True, kw_only=True):
    """The INT8 scale of one tensor; it may be inf, nan or zero."""

    name: str
    scale: float

    @property
    def usable(self) -> bool:
        """Whether the scale can be used to quantize."""
        return math.isfinite(self.scale) and self.scale > 0

    @property
    def dynamic_range(self) -> float:
        return self.scale * INT8_STEPS


class CalibrationCache(Value, frozen=True, kw_only=True):
    """A calibration cache; scales are in the order of the file, and names may repeat."""

    version: str | None  # the TensorRT that wrote it; `None` if the header cannot be parsed
    algorithm: str
    scales: tuple[TensorScale, ...]


def calibration_from_text(data: bytes | str, *, where: str) -> CalibrationCache:
    """Return a calibration cache; a name ends at the last colon followed by a space."""
    text = text_from_bytes(data, where=where, expected=EXPECTED_CALIBRATION)

    def broken(line: int, expected: str) -> ParseError:
        what = "is not a calibration cache"
        return parse_error(where, what=what, place=f"line {line}", expected=expected)

    lines = re.split(r"\r?\n", text.rstrip("\0\r\n\t "))
    header = _HEADER.fullmatch(lines[0].rstrip())
    if not header:
        raise broken(1, "TRT-<version>-<algorithm>")
    scales = []
    for at, line in enumerate(lines[1:], start=2):
        name, colon, digits = line.rstrip().rpartition(": ")
        if not line.strip():
            continue
        if not colon or not _HEX.match(digits):
            raise broken(at, "'tensor: hex', up to eight hexadecimal digits")
        (scale,) = struct.unpack(">f", int(digits, 16).to_bytes(4, "big"))
        scales.append(TensorScale(name=name, scale=scale))
    version = version_from_digits(header[1])
    return CalibrationCache(version=version, algorithm=header[2], scales=tuple(scales))


DECIMALS = 9  # decimal places of milliseconds: finer than any clock


def profile_json(profile: LayerProfile) -> bytes:
    """Return the content of ``profile.json``, with minimum, maximum and counters if known."""

    def ms(value_s: float | None) -> float | None:
        return None if value_s is None else round(value_s * 1e3, DECIMALS)

    rows: list[dict[str, object]] = [{"count": profile.count}]
    for layer in profile.layers:
        row: dict[str, object] = {
            "name": layer.name,
            "timeMs": ms(layer.total_s),
            "averageMs": ms(layer.average_s),
            "medianMs": ms(layer.median_s),
            "percentage": None if layer.share is None else round(layer.share * 100, 6),
        }
        if layer.min_s is not None and layer.max_s is not None:
            row |= {"minMs": ms(layer.min_s), "maxMs": ms(layer.max_s)}
        if layer.dram_bytes is not None:
            row |= {"dramBytes": layer.dram_bytes, "smActive": layer.sm_active}
        rows.append(row)
    return json_from_rows(rows)


def json_from_rows(rows: Iterable[dict[str, object]]) -> bytes:
    """Return a JSON array with one object per line, as trtexec writes it."""
    encode = msgspec.json.Encoder().encode
    lines = b"\n, ".join(encode(row) for row in rows)
    return b"[\n  " + lines + b"\n]\n" if lines else b"[\n]\n"
