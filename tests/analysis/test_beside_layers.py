"""Layers of engines that others built and timed, against totals added up from the files here."""

import json
import math
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from layer_sets import Holds, share_right

from trtbench.layers.diff import difference, why
from trtbench.layers.join import join_layers
from trtbench.layers.table import EngineFacts, Layer, LayerTable, lint, summarize_precision
from trtbench.trtexec.exports import graph_from_json, profiles_from_json

TREX = "NVIDIA__TensorRT/tools/experimental/trt-engine-explorer/examples/pytorch/resnet/A100"
DEPTH = "julianleeowl__depth-anything-win"
H200 = "h200__trtexec-8.6.0"


class Files:
    """A profile and layer information as plain JSON, for adding up by hand, and joined."""

    def __init__(self, profile: Path, graph: Path) -> None:
        self.rows: list[dict[str, Any]] = [
            row for row in json.loads(profile.read_text()) if "name" in row
        ]
        self.layers: list[dict[str, Any]] = json.loads(graph.read_text(), strict=False)["Layers"]
        self.table: LayerTable = join_layers(
            profiles_from_json(profile.read_bytes(), where=str(profile))[0],
            graph_from_json(graph.read_bytes(), where=str(graph)),
        )

    def sum_s(self, choose: Any = lambda layer: True) -> float:
        """Add up medians by hand; names are unique in these files and in one order."""
        pairs = zip(self.rows, self.layers, strict=True)
        return math.fsum(row["medianMs"] for row, layer in pairs if choose(layer)) / 1e3


def stem_of(folder: Path, kind: str) -> Path:
    return folder / kind / f"resnet{'' if kind[:2] == 'fp' else f'-{kind}'}.onnx.engine"


def engine(stem: Path) -> Files:
    return Files(Path(f"{stem}.profile.json"), Path(f"{stem}.graph.json"))


@pytest.fixture
def trex(beside: Path) -> dict[str, Files]:
    """ResNet of TREx on an A100: FP16, and QAT without quantized residuals."""
    return {kind: engine(stem_of(beside / TREX, kind)) for kind in ("fp16", "fp32", "qat")}


@pytest.fixture
def resnet(beside: Path) -> dict[str, Files]:
    """ResNet-18 of TensorRT 8.6.0 on an H200, FP16 and INT8."""
    return {key: engine(beside / H200 / f"resnet18_{key}_b1") for key in ("fp16", "int8")}


def test_qat_resnet_computes_in_int8_whatever_it_gives_out(trex: dict[str, Files]) -> None:
    qat = trex["qat"]
    by_hand = qat.sum_s(lambda layer: layer["LayerType"] == "CaskConvolution")
    types = {each.name: each for each in summarize_precision(qat.table).types}
    assert types["int8"].seconds == pytest.approx(by_hand)
    assert types["int8"].layers == 21
    given = {layer.precision_out for layer in qat.table.layers if layer.precision == "int8"}
    assert given == {"int8", "fp16", "fp32"}


def test_qat_resnet_is_slower_than_fp16_and_the_causes_are_named(trex: dict[str, Files]) -> None:
    fp16, qat = trex["fp16"], trex["qat"]
    found = why(fp16.table, qat.table, candidate=EngineFacts(asked="int8"))
    assert found.baseline_s == pytest.approx(fp16.sum_s())
    assert found.candidate_s == pytest.approx(qat.sum_s())
    assert found.candidate_s - found.baseline_s == pytest.approx(0.078848e-3)
    causes = {each.code: each for each in found.causes}
    assert "conv1.weight + QuantizeLinear_7 + Conv_9" in causes["kernel"].layers[0]
    interrupted = [each for each in found.causes if each.code == "interruption"]
    assert [each.layers[0] for each in interrupted] == ["MaxPool_12", "GlobalAveragePool_246"]
    conversions = qat.sum_s(lambda layer: layer["LayerType"] == "Reformat")
    before = fp16.sum_s(lambda layer: layer["LayerType"] == "Reformat")
    around = {name for cause in interrupted for name in cause.layers}
    converting = (layer for layer in qat.table.layers if layer.converts)
    own = math.fsum(layer.seconds for layer in converting if layer.name in around)
    assert causes["reformat"].seconds == pytest.approx(conversions - before - own)
    assert math.fsum(x.explains_s for x in found.causes) <= found.shortfall_s * (1 + 1e-9)


@pytest.mark.parametrize(("one", "two"), [("fp16", "qat"), ("fp32", "fp16"), ("fp32", "qat")])
def test_changes_add_up_to_the_difference_of_the_files(trex: dict[str, Files], one: str, two: str):
    found = difference(trex[one].table, trex[two].table)
    by_hand = trex[two].sum_s() - trex[one].sum_s()
    assert found.delta_s == pytest.approx(by_hand)
    assert math.fsum(each.delta_s for each in found.changes) == pytest.approx(by_hand)
    work = [each for each in found.changes if each.role == "compute"]
    assert len(work) == 23  # 21 convolutions and 2 poolings, each with its counterpart
    assert all(each.by != "none" for each in work)


def test_int8_resnet_of_8_6_0_stayed_fp16_but_for_one_layer(resnet: dict[str, Files]) -> None:
    truth = summarize_precision(resnet["int8"].table)
    types = {each.name: each.layers for each in truth.types}
    assert types == {"fp16": 20, "int8": 1, "fp32": 1}
    suspects = lint(resnet["int8"].table, asked="int8")
    assert sum("flags request INT8" in each.what for each in suspects) == 20
    found = why(resnet["fp16"].table, resnet["int8"].table, candidate=EngineFacts(asked="int8"))
    assert found.causes[0].code == "precision"
    assert found.candidate_s == pytest.approx(resnet["int8"].sum_s())


def test_myelin_s_attention_meets_the_kernels_it_replaces(beside: Path) -> None:
    """One fused attention of the FP16 engine stands against three kernels of the other."""
    files = Files(beside / DEPTH / "profile.json", beside / DEPTH / "layers.json")
    other = next((beside / DEPTH).glob("*engine_inspector.json"))
    bare = join_layers(None, graph_from_json(other.read_bytes(), where="graph"))
    found = difference(files.table, bare)
    fused = (each for each in found.changes if "fusion" in each.changed)
    attention = [each for each in fused if "_gemm_mha_v2" in (each.name_a or "")]
    assert len(attention) == 12
    assert all((len(each.a), len(each.b)) == (1, 3) for each in attention)


def keras_node(layer: Layer) -> list[str]:
    """``quant_conv2_block1_0_conv/…`` does what ``conv2_block1_0_conv/…`` does."""
    found = re.findall(r"(conv\d_block\d_\d_conv|avg_pool)/", layer.name)
    return found if layer.role == "compute" else []


def convolutions_in_order(table: LayerTable) -> Holds:
    """An old PyTorch export numbers nodes in the order of the model's code."""

    def numbers(layer: Layer) -> list[int]:
        return [int(x) for x in re.findall(r"\b(?:Conv|Gemm)_(\d+)", layer.name)]

    every = sorted(x for each in table.layers if each.role == "compute" for x in numbers(each))
    return lambda layer: [every.index(x) for x in numbers(layer) if layer.role == "compute"]


KERAS, TORCH = "tensorflow/resnet/RTX-3090", "pytorch/resnet/A100"
KINDS, MORE = ("fp32", "fp16", "qat"), ("qat-residual", "qat-residual-qgap")
PAIRS = [(net, *x) for net, y in ((KERAS, ()), (TORCH, MORE)) for x in combinations(KINDS + y, 2)]


@pytest.mark.parametrize(("network", "one", "two"), PAIRS)
def test_a_resnet_meets_its_own(beside: Path, network: str, one: str, two: str) -> None:
    """By nodes or, if they only have numbers, by place; QAT adds residuals in the other branch."""
    folder = beside / TREX.replace(TORCH, network)
    a, b = (engine(stem_of(folder, each)).table for each in (one, two))
    of_a, of_b = (keras_node if network == KERAS else convolutions_in_order(x) for x in (a, b))
    assert share_right(a, b, of_a, of_b) == 1
    assert not [each for each in difference(a, b).only_in("b") if each.role == "compute"]
