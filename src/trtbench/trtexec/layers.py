"""Layer information: ``--exportLayerInfo`` and the engine inspector's JSON, TensorRT 8.4 to 11.

An engine built with layer names only gives a list of names; a detailed one gives objects whose
keys differ by version and by kind of layer. Facts that every version has become fields; all
others stay in ``extra`` as the inspector wrote them.
"""

from __future__ import annotations

import re
from functools import lru_cache

from trtbench.domain.samples import EngineGraph, LayerInfo, TensorInfo
from trtbench.trtexec._json import documents_from_json, parse_error, quoted

EXPECTED = 'layer information of trtexec --exportLayerInfo: {"Layers": [...], "Bindings": [...]}'

_FIELDS = {"Name", "LayerType", "Inputs", "Outputs", "TacticName", "StreamId", "Metadata"}
_BINDINGS = ("Bindings", "I/O Tensors")
_DTYPES = (
    (r"bfloat16|bf16", "bf16"),
    (r"fp16|float16|half", "fp16"),
    (r"fp8\w*|float8\w*|e4m3\w*|e5m2\w*", "fp8"),
    (r"fp4\w*|float4\w*|e2m1\w*", "fp4"),
    (r"fp32|float32|float", "fp32"),
    (r"uint8", "uint8"),
    (r"int8", "int8"),
    (r"int4", "int4"),
    (r"int64", "int64"),
    (r"int32", "int32"),
    (r"bool", "bool"),
    (r"fp64|float64|double", "fp64"),
)
_WORDINGS = [
    (re.compile(rf"(?<![a-z0-9])k?(?:{words})(?![a-z0-9])"), name) for words, name in _DTYPES
]
_METADATA_SEPARATORS = re.compile("[\x1e\x1f]")
"""Between layers, and between the parts of a Myelin fusion."""
_ORIGIN = re.compile(r"\[ONNX Layer: (.*)\]\s*\Z", re.DOTALL)


def graph_from_json(data: bytes | str, *, where: str) -> EngineGraph:
    """Read the layers of an engine, and the names of its inputs and outputs."""
    documents = documents_from_json(data, where=where, expected=EXPECTED)
    graph = _layers_object(documents[0])
    if graph is None or len(documents) > 1:
        raise parse_error(
            where,
            what="is not layer information" if graph is None else "holds several documents",
            place="the whole document" if graph is None else "document 2",
            expected=EXPECTED,
            found=_shape(documents[0]),
        )
    layers = graph["Layers"]
    if not isinstance(layers, list) or not layers:
        raise parse_error(where, what="has no layers", place="Layers", expected=EXPECTED)
    bindings = next((graph[key] for key in _BINDINGS if key in graph), None)
    return EngineGraph(
        layers=tuple(_layer(each, index, where=where) for index, each in enumerate(layers)),
        io_tensors=_names(bindings),
        detailed=any(isinstance(each, dict) for each in layers),
        extra={
            str(key): each
            for key, each in graph.items()
            if key not in ("Layers", "Bindings") and (key != "I/O Tensors" or _has_objects(each))
        },
    )


@lru_cache(maxsize=1024)
def dtype_from_wording(wording: str | None) -> str | None:
    """Tell the type from any version's words: ``Half``, ``Row major linear FP16 format``, ..."""
    if not wording:
        return None
    text = wording.lower()
    return next((name for pattern, name in _WORDINGS if pattern.search(text)), None)


def origin_from_metadata(metadata: str) -> tuple[str, ...]:
    """Name the ONNX nodes a layer came from, in order, each once."""
    parts = (_ORIGIN.search(part) for part in _METADATA_SEPARATORS.split(metadata))
    return tuple(dict.fromkeys(match.group(1) for match in parts if match))


def _layers_object(value: object) -> dict[str, object] | None:
    """Find the object with the layers, also when another tool has wrapped it."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, dict):
        return None
    if "Layers" in value:
        return value
    inner = [each for each in value.values() if isinstance(each, dict) and "Layers" in each]
    return inner[0] if len(inner) == 1 else None


def _layer(value: object, index: int, *, where: str) -> LayerInfo:
    if isinstance(value, str):
        return LayerInfo(name=value)
    if not isinstance(value, dict) or not isinstance(value.get("Name"), str):
        raise parse_error(
            where,
            what="has a layer without a name",
            place=f"Layers[{index}]",
            expected="a name, or an object with Name",
            found=_shape(value),
        )
    metadata = value.get("Metadata")
    tactic = value.get("TacticName") or value.get("TacticValue")
    stream = value.get("StreamId")
    return LayerInfo(
        name=value["Name"],
        type=_text(value.get("LayerType")),
        inputs=_tensors(value.get("Inputs")),
        outputs=_tensors(value.get("Outputs")),
        tactic=_text(tactic),
        stream=stream if isinstance(stream, int) else None,
        origin=origin_from_metadata(metadata) if isinstance(metadata, str) else (),
        weights_count=_weights(value),
        extra={
            str(key): each
            for key, each in value.items()
            if key not in _FIELDS or (key == "Metadata" and not origin_from_metadata(str(each)))
        },
    )


def _tensors(value: object) -> tuple[TensorInfo, ...]:
    """Read tensors as objects or, in some re-dumped files, as bare names."""
    if not isinstance(value, list):
        return ()
    return tuple(
        _tensor(each) if isinstance(each, dict) else TensorInfo(name=str(each)) for each in value
    )


def _tensor(value: dict[str, object]) -> TensorInfo:
    joined, layout = _text(value.get("Format/Datatype")), _text(value.get("Format"))
    dtype = _text(value.get("DataType") or value.get("Datatype"))
    dimensions = value.get("Dimensions")
    return TensorInfo(
        name=str(value.get("Name", "")),
        dimensions=_dimensions(dimensions),
        format=joined or layout or dtype,
        dtype=dtype_from_wording(dtype) or dtype_from_wording(joined or layout),
        location=_text(value.get("Location")),
    )


def _dimensions(value: object) -> tuple[int, ...]:
    if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
        return ()
    return tuple(value)


def _weights(layer: dict[str, object]) -> int | None:
    """Count all parameters of a layer: weights and biases, whatever their keys are called."""
    counts = [
        each["Count"]
        for each in layer.values()
        if isinstance(each, dict) and isinstance(each.get("Count"), int)
    ]
    return sum(counts) if counts else None


def _names(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    names = (each.get("Name") if isinstance(each, dict) else each for each in value)
    return tuple(str(name) for name in names if name is not None)


def _has_objects(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(each, dict) for each in value)


def _text(value: object) -> str | None:
    return None if value is None or value == "" else str(value)


def _shape(value: object) -> str:
    if isinstance(value, dict):
        return "an object with " + (", ".join(map(str, list(value)[:6])) or "nothing in it")
    if isinstance(value, list):
        return f"a list of {len(value)}"
    return quoted(str(value))
