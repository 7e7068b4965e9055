"""Layers with the ONNX model they came from: FLOPs, asked types, operators, another network."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from layer_files import write_engine
from onnx import TensorProto, helper, numpy_helper

from models import save_graph
from trtbench.cli import run as trtbench

FLOPS = 2 * 64 * 64 * 9 * 56 * 56
"""Of one 3x3 convolution with 64 channels on 56x56."""


@pytest.fixture(autouse=True)
def own_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def write_model(path: Path, *, prefix: str = "", quantized: bool = False) -> Path:
    """Three convolutions and a Gelu of the names that the engines know."""
    nodes, weights = [], []
    if quantized:
        weights += [
            numpy_helper.from_array(np.float32(0.1), "scale"),
            numpy_helper.from_array(np.int8(0), "zero"),
        ]

    def wrapped(tensor: str) -> str:
        if not quantized:
            return tensor
        names = [tensor, "scale", "zero"]
        nodes.append(helper.make_node("QuantizeLinear", names, [f"{tensor}_q"]))
        names[0] = f"{tensor}_q"
        nodes.append(helper.make_node("DequantizeLinear", names, [f"{tensor}_dq"]))
        return f"{tensor}_dq"

    tensor = "input"
    for letter in "abc":
        kernel = np.zeros((64, 64, 3, 3), np.float32)
        weights.append(numpy_helper.from_array(kernel, f"w_{letter}"))
        inputs = [wrapped(tensor), wrapped(f"w_{letter}")]
        nodes.append(
            helper.make_node("Conv", inputs, [letter], name=f"{prefix}/{letter}/Conv",
                             kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        )  # fmt: skip
        tensor = letter
        if letter == "b":
            nodes.append(helper.make_node("Erf", ["b"], ["act"], name=f"{prefix}/act/Gelu"))
            tensor = "act"
    shape = [1, 64, 56, 56]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("c", TensorProto.FLOAT, shape)],
        weights,
    )
    return save_graph(graph, path)


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, dict[str, object]]:
    assert trtbench(["layers", *words, "--all", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    return {row["name"]: row for row in document["layers"]}


def test_flops_and_operators_come_from_the_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model(tmp_path / "net.onnx")
    found = rows(capsys, str(write_engine(tmp_path, "fp16")), str(model))
    assert found["/a/Conv"]["flops"] == FLOPS
    assert found["/act/Gelu"]["operators"] == "Erf", "as the model says, not as the name does"
    assert found["/a/Conv"]["flops_per_s"] == pytest.approx(FLOPS / 10e-6)


def test_layers_that_q_dq_asks_to_be_int8_and_are_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model(tmp_path / "net.onnx", quantized=True)
    profile = str(write_engine(tmp_path, "fp16"))
    found = rows(capsys, profile, str(model))
    assert found["/b/Conv"]["precision_asked"] == "int8"
    assert found["/act/Gelu"]["precision_asked"] is None
    assert trtbench(["layers", profile, str(model)]) == 0
    shown = capsys.readouterr().out
    assert "3 layers do not compute in INT8, asked for by the model's Q/DQ or types" in shown


def test_a_model_of_another_network_is_said_to_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = write_model(tmp_path / "net.onnx", prefix="/other")
    assert trtbench(["layers", str(write_engine(tmp_path, "fp16")), "--onnx", str(model)]) == 0
    assert "it is of another network" in capsys.readouterr().out


def test_a_roofline_is_asked_for_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = str(write_engine(tmp_path, "fp16"))
    found = rows(capsys, profile, "--gpu", "NVIDIA H200")
    share = found["/a/Conv"]["roofline_share"]
    assert isinstance(share, float)
    assert 0 < share < 1
    assert trtbench(["layers", profile, "--gpu", "Voodoo 2"]) == 2
    assert "table of GPUs" in capsys.readouterr().err
