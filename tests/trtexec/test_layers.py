from __future__ import annotations

import json
from pathlib import Path

import pytest

import samples
from trtbench.domain.codec import json_from_value, value_from_json
from trtbench.domain.samples import EngineGraph
from trtbench.errors import ParseError
from trtbench.trtexec.layers import dtype_from_wording, graph_from_json, origin_from_metadata


def read(value: object) -> EngineGraph:
    text = value if isinstance(value, str) else json.dumps(value)
    return graph_from_json(text.encode(), where="graph.json")


def test_names_only() -> None:
    graph = read(samples.graph("names"))
    assert not graph.detailed
    assert [layer.name for layer in graph.layers] == ["conv1", "relu1"]
    assert graph.io_tensors == ("x", "y")


@pytest.mark.parametrize("version", ["8.4", "8.6", "10", "11"])
def test_detailed_layers_of_every_version(version: str) -> None:
    graph = read(samples.graph(version))
    conv = graph.layers[0]
    assert graph.detailed
    assert graph.io_tensors == ("x", "y")
    assert (conv.name, conv.type) == ("conv1 + relu1", "CaskConvolution")
    assert conv.inputs[0].dimensions == (1, 3, 8, 8)
    assert conv.inputs[0].dtype == ("bf16" if version == "11" else "fp16")
    assert conv.outputs[0].dtype == "fp16"
    assert conv.tactic == "sm80_something"
    assert conv.weights_count == 224
    assert conv.extra["ParameterType"] == "Convolution"
    assert conv.extra["TacticValue"] == "0x01"
    assert conv.stream == (None if version == "8.4" else 0)
    assert conv.origin == (() if version == "8.4" else ("/conv1", "/relu1"))


def test_flattened_myelin_layers() -> None:
    gemm = read(samples.graph("10")).layers[1]
    assert (gemm.type, gemm.stream, gemm.weights_count) == ("gemm", 1, None)
    assert (gemm.inputs[0].dtype, gemm.outputs[0].dtype) == ("fp16", "fp32")
    assert gemm.inputs[0].location is None
    assert gemm.origin == ("/fc", "/add")


def test_tensorrt_11_keeps_what_it_says_of_inputs_and_outputs() -> None:
    graph = read(samples.graph("11"))
    assert graph.extra["ProfilingVerbosity"] == "DETAILED"
    assert graph.extra["I/O Tensors"]
    assert graph.layers[0].inputs[0].format == "Linear"


def test_json_within_json_and_raw_control_characters() -> None:
    value = samples.graph("8.6")
    for text in (
        json.dumps(json.dumps(value)),
        json.dumps(value).replace("\\u001e", "\x1e"),
        json.dumps([value]),
        json.dumps({"engine": value, "name": "x"}),
    ):
        assert read(text).layers[0].origin == ("/conv1", "/relu1")


@pytest.mark.parametrize(
    ("wording", "dtype"),
    [
        ("Row major linear FP32", "fp32"),
        ("Row major linear FP16 format", "fp16"),
        ("Channel major FP16 format where channel % 8 == 0", "fp16"),
        ("Thirty-two wide channel vectorized row major Int8 format", "int8"),
        ("Row major linear BF16 format", "bf16"),
        ("Row major linear INT8 format", "int8"),
        ("Row major linear UInt8 format", "uint8"),
        ("Four wide channel vectorized row major FP32 format", "fp32"),
        ("Half", "fp16"),
        ("Float", "fp32"),
        ("BFloat16", "bf16"),
        ("FP8", "fp8"),
        ("E4M3", "fp8"),
        ("Float8E4M3FN", "fp8"),
        ("Int32", "int32"),
        ("Int64", "int64"),
        ("Bool", "bool"),
        ("kHALF", "fp16"),
        ("Int4", "int4"),
        ("FP4E2M1", "fp4"),
        ("N/A due to dynamic shapes", None),
        ("", None),
        (None, None),
    ],
)
def test_types_in_every_wording(wording: str | None, dtype: str | None) -> None:
    assert dtype_from_wording(wording) == dtype


def test_metadata_names_each_node_once_and_keeps_brackets() -> None:
    text = "[ONNX Layer: a[0]]\x1e[ONNX Layer: b]\x1f[ONNX Layer: a[0]]\x1f\x1e"
    assert origin_from_metadata(text) == ("a[0]", "b")
    assert origin_from_metadata("") == ()
    assert origin_from_metadata("something else") == ()


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"Bindings": []}, "the whole document"),
        ({"Layers": []}, "Layers"),
        ({"Layers": {"a": 1}}, "Layers"),
        ({"Layers": [{"LayerType": "x"}]}, "Layers[0]"),
        ({"Layers": ["a", 3]}, "Layers[1]"),
        ([1, 2], "the whole document"),
    ],
)
def test_what_is_no_layer_information_is_refused(value: object, place: str) -> None:
    with pytest.raises(ParseError) as caught:
        read(value)
    assert caught.value.facts["place"] == place


def test_a_graph_survives_being_stored() -> None:
    graph = read(samples.graph("11"))
    assert value_from_json(json_from_value(graph), EngineGraph, where="x") == graph


# Whole folders


def test_every_graph_of_a_folder_is_read(artefacts: Path) -> None:
    paths = list(samples.artefact_files(artefacts, "layers"))
    assert len(paths) >= 8
    for path in paths:
        graph = graph_from_json(path.read_bytes(), where=path.name)
        assert len(graph.io_tensors) >= 2
        assert all(layer.name for layer in graph.layers)
        assert value_from_json(json_from_value(graph), EngineGraph, where="x") == graph
        if graph.detailed:
            tensors = [t for layer in graph.layers for t in layer.inputs + layer.outputs]
            assert all(tensor.dtype for tensor in tensors), path.name
