"""Layers of engines built and profiled on a real GPU: INT8 with a layer that is not quantized.

Whatever the times are, ``why`` must name that layer, and sums must add up.
"""

import io
import json
import math
import os
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from models import save_graph
from trtbench.cli import run

BATCH, CHANNELS, SIZE, CONVS = 8, 64, 112, 4
INSERTED = "/inserted/Softmax"
"""A softmax over channels has no INT8 kernel and is fused into no convolution."""
QUICK = ("-r", "tensorrt", "--warmup", "200ms", "--no-until-steady", "--duration", "200ms")


def write_model(path: Path, *, quantized: bool, inserted: bool = True) -> Path:
    """Write convolutions, with Q/DQ around each and a softmax in their middle where asked."""
    draw = np.random.default_rng(0)
    nodes, weights = [], []
    if quantized:
        weights += [
            numpy_helper.from_array(np.float32(0.05), "scale"),
            numpy_helper.from_array(np.float32(0.0002), "softmax_scale"),
            numpy_helper.from_array(np.float32(0.002), "weight_scale"),
            numpy_helper.from_array(np.int8(0), "zero"),
        ]

    def wrapped(tensor: str, scale: str, name: str) -> str:
        if not quantized:
            return tensor
        nodes.extend(
            [
                helper.make_node("QuantizeLinear", [tensor, scale, "zero"], [f"{name}_q"],
                                 name=f"{name}/QuantizeLinear"),
                helper.make_node("DequantizeLinear", [f"{name}_q", scale, "zero"], [f"{name}_dq"],
                                 name=f"{name}/DequantizeLinear"),
            ]
        )  # fmt: skip
        return f"{name}_dq"

    tensor = "x"
    for number in range(CONVS):
        kernel = draw.normal(0, 0.04, (CHANNELS, CHANNELS, 3, 3)).astype(np.float32)
        weights.append(numpy_helper.from_array(kernel, f"w{number}"))
        scale = "softmax_scale" if tensor == "s" else "scale"
        data = wrapped(tensor, scale, f"/conv{number}/input")
        weight = wrapped(f"w{number}", "weight_scale", f"/conv{number}/weight")
        nodes += [
            helper.make_node("Conv", [data, weight], [f"c{number}"], name=f"/conv{number}/Conv",
                             kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", [f"c{number}"], [f"r{number}"], name=f"/conv{number}/Relu"),
        ]  # fmt: skip
        tensor = f"r{number}"
        if inserted and number == CONVS // 2 - 1:
            nodes.append(helper.make_node("Softmax", [tensor], ["s"], name=INSERTED, axis=1))
            tensor = "s"
    nodes.append(helper.make_node("Identity", [tensor], ["y"], name="/output/Identity"))
    shape = [BATCH, CHANNELS, SIZE, SIZE]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        initializer=weights,
    )
    return save_graph(graph, path)


def trtbench(*words: str, folder: Path, status: int = 0) -> str:
    """Run one command to its end in this process; gives what it printed.

    What is built and measured has processes of its own; what only looks needs none.
    """
    out, told = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    before = Path.cwd()
    os.chdir(folder)
    try:
        with redirect_stdout(out), redirect_stderr(told):
            ended = run([*words, "--store", str(folder / "store")])
    finally:
        os.chdir(before)
    texts = [each.buffer.getvalue().decode() for each in (out, told)]
    assert ended == status, f"{' '.join(words)}: {texts[1][-3000:]}"
    return texts[0]


@pytest.fixture(scope="module")
def profiled(built: Callable[..., str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose store has profiles: FP16, INT8, and INT8 without the inserted layer."""
    import tensorrt

    weak = hasattr(tensorrt.BuilderFlag, "FP16")
    folder = tmp_path_factory.mktemp("layers")
    for name, quantized in (("fp16", False), ("int8", True), ("clean", True)):
        model = write_model(folder / f"{name}.onnx", quantized=quantized, inserted=name != "clean")
        # Where networks are typed, Q/DQ alone asks for INT8; else the builder has to be allowed.
        precision = "fp16" if not quantized else "best" if weak else None
        asked = ("--precision", precision) if precision else ()
        built(model, folder / f"{name}.engine", *asked)
        trtbench("profile", f"{name}.engine", *QUICK, "--tag", name, folder=folder)
    graph = ("--cuda-graph", "on", "--tag", "graph")
    trtbench("profile", "int8.engine", *QUICK, *graph, folder=folder)
    return folder


def document(*words: str, folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(trtbench(*words, "--json", folder=folder))
    return found


def test_layers_tell_the_type_that_computes(profiled: Path) -> None:
    found = document("profile", "tag:int8", "--all", folder=profiled)
    convolutions = [row for row in found["layers"] if "/Conv" in (row["onnx_nodes"] or "")]
    computing = {row["precision"] for row in convolutions if row["role"] == "compute"}
    assert "int8" in computing, computing
    named = [row for row in found["layers"] if INSERTED in (row["onnx_nodes"] or row["name"])]
    softmax = [row for row in named if row["role"] == "compute"]  # the reformat before it is none
    assert softmax, [row["name"] for row in found["layers"]]
    assert all(row["precision"] in ("fp16", "fp32", "tf32") for row in softmax)
    assert sum(row["share"] for row in found["layers"] if row["share"]) == pytest.approx(1)


@pytest.mark.parametrize("tag", ["int8", "graph"])
def test_layers_are_reconciled_with_the_gpu_time_to_the_last_part(profiled: Path, tag: str) -> None:
    """By kernels, or the profiled pass as a whole: every part is measured and nothing is left."""
    found = document("profile", f"tag:{tag}", folder=profiled)
    sums, by_kernels = found["reconciliation"], found["facts"]["kernel_busy_s"] is not None
    parts = {part["name"]: part["seconds"] for part in sums["parts"]}
    assert by_kernels == (find_spec("cupti") is not None)
    assert sums["gpu_s"] + math.fsum(parts.values()) == pytest.approx(sums["layers_s"])
    if by_kernels:
        assert [*parts] == ["overlaps", "gaps"]  # the latter is negative where no kernel ran
        assert 0 <= parts["overlaps"] < 0.5 * sums["layers_s"]
        assert parts["gaps"] < 0.03 * sums["gpu_s"], "medians of layers and of queries differ a bit"
        moved = [row["dram_bytes"] for row in found["layers"]]
        told = found["facts"]["counters"]
        assert all(each is None for each in moved) if told else max(moved) > 1e6, (moved, told)


def test_a_diff_finds_the_counterpart_of_every_convolution(profiled: Path) -> None:
    found = document("diff", "tag:fp16", "tag:int8", "--all", folder=profiled)
    assert math.fsum(row["delta_s"] for row in found["changes"]) == pytest.approx(found["delta_s"])
    for row in found["changes"]:
        if any(f"/conv{number}/Conv" in (row["name_b"] or "") for number in range(CONVS)):
            assert row["aligned_by"] == "origin", row


def test_why_names_the_inserted_layer(profiled: Path) -> None:
    """Against the same engine without it, it is what costs most, with its conversions."""
    found = document("diff", "--why", "tag:clean", "tag:int8", folder=profiled)
    told = json.dumps(found["causes"], indent=1)
    naming = [each for each in found["causes"] if named_in(each)]
    assert naming, told
    assert naming[0]["code"] == "interruption", told
    assert naming[0] == found["causes"][0], told
    assert naming[0]["explains_s"] > 0, told
    assert naming[0]["command"], told
    shown = trtbench("diff", "--why", "tag:clean", "tag:int8", folder=profiled)
    assert INSERTED in shown, shown


def named_in(cause: dict[str, Any]) -> bool:
    return any(INSERTED in name for name in (*cause["nodes"], *cause["layers"], cause["title"]))


@pytest.mark.parametrize("pair", [("fp16", "int8"), ("clean", "int8"), ("int8", "clean")])
def test_causes_never_explain_more_than_there_is(profiled: Path, pair: tuple[str, str]) -> None:
    found = document("diff", "--why", *(f"tag:{name}" for name in pair), folder=profiled)
    explained = math.fsum(each["explains_s"] for each in found["causes"])
    whole = max(0.0, found["shortfall_s"])
    assert explained <= whole * (1 + 1e-9)
    assert explained + found["unexplained_s"] == pytest.approx(whole)
