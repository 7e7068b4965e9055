"""Drawings of engines: every layer once, no box on another, well-formed, searchable."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from layer_sets import conv, fp16_chain, int8_chain, other, table

from trtbench.core.samples import LayerProfile, LayerTime
from trtbench.layers.diff import Lineup
from trtbench.layers.join import join_layers
from trtbench.layers.table import BOX_H, BOX_W, LayerTable, layer_labels, place_layers
from trtbench.report.charts import Bars
from trtbench.report.engine_svg import svg_from_engine
from trtbench.report.sections.layers import lineup_figure

SVG = "{http://www.w3.org/2000/svg}"


def branches(count: int) -> LayerTable:
    """Blocks of two convolutions side by side that are joined again."""
    layers, before = [], "input"
    for number in range(count):
        left, right, joined = (f"{side}{number}" for side in ("l", "r", "j"))
        layers += [
            conv(f"/{number}/left", (before, "fp16"), (left, "fp16")),
            conv(f"/{number}/right", (before, "fp16"), (right, "fp16")),
            conv(f"/{number}/join", (left, "fp16"), (joined, "fp16"), also=[(right, "fp16")]),
        ]
        before = joined
    return table(layers, [1.0] * len(layers))


@pytest.mark.parametrize("engine", [fp16_chain(), int8_chain(), branches(1), branches(120)])
def test_every_layer_has_a_place_of_its_own(engine: LayerTable) -> None:
    placed = place_layers(engine)
    assert sorted(placed.corners) == list(range(len(engine.layers)))
    taken = sorted(placed.corners.values())
    for (x1, y1), (x2, y2) in pairwise(taken):
        assert abs(x1 - x2) >= BOX_W or abs(y1 - y2) >= BOX_H
    assert all(0 <= x <= placed.width - BOX_W + 1 for x, _ in taken)
    assert all(0 <= y <= placed.height - BOX_H + 1 for _, y in taken)


def test_a_long_engine_is_an_area_not_a_line() -> None:
    placed = place_layers(branches(300))
    assert 0.5 < placed.width / placed.height < 4


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("/model/neck/{0}/block2/conv1/Conv_12 + /model/neck/{0}/block2/act/Relu",
         "…/neck/1/block2/conv1/Conv_12 + Relu"),
        ("layer{0}.0.conv2.weight + QuantizeLinear_26 + Conv_28 + Add_36 + Relu_37",
         "layer1.0.conv…Conv_28 + Add_36 + Relu_37"),
        ("Reformatting CopyNode for Input Tensor {0} to /model/neck/{0}/block2/conv1/Conv_12",
         "reformat: …/neck/1/block2/conv1/Conv_12"),
        ("{{ForeignNode[/model/{0}/attention/MatMul.../model/9/mlp/output/Add]}}",
         "Myelin /model/…/MatMul...…/output/Add"),
    ],
)  # fmt: skip
def test_labels_keep_the_operators_and_differ(name: str, short: str) -> None:
    assert layer_labels([name.format(1)]) == [short]
    for length in (27, 40):
        many = layer_labels([name.format(each) for each in range(1, 30)], length=length)
        assert len(set(many)) == len(many)
        assert max(map(len, many)) <= length


def test_layers_that_run_no_kernel_are_bridged() -> None:
    first = conv("a", ("input", "fp16"), ("x", "fp16"))
    last = conv("b", ("y", "fp16"), ("output", "fp16"))
    engine = table([first, other("no-op", "NoOp", ("x", "fp16"), ("y", "fp16")), last], [1, 0, 1])
    placed = place_layers(engine)
    assert list(placed.corners) == [0, 2]
    assert placed.edges == ((0, 2),)


def test_without_layer_information_the_order_of_execution_is_drawn() -> None:
    names = ["Conv_0", "Conv_1", "Conv_2"]
    times = tuple(LayerTime(name=name, total_s=1e-6, average_s=1e-6) for name in names)
    placed = place_layers(join_layers(LayerProfile(count=1, layers=times)))
    assert placed.edges == ((0, 1), (1, 2))


@pytest.mark.parametrize("colour", ["time", "precision", "roofline"])
def test_a_drawing_is_well_formed_and_has_a_row_for_every_layer(colour: str) -> None:
    svg = svg_from_engine(int8_chain(), title="a <b> & c", colour=colour)  # type: ignore[arg-type]
    root = ElementTree.fromstring(svg)
    layers = [each for each in root.iter(f"{SVG}g") if each.get("class") == "layer"]
    assert len(layers) == 6
    title = layers[1].find(f"{SVG}title")
    assert title.text.startswith("/a/Conv\nindex: 1\nkind: Convolution\n")
    assert re.search(r"\nmedian: 5(\.0+)? µs\n", title.text)
    assert "onnx nodes: /a/Conv" in title.text


def test_names_cannot_break_out_of_a_drawing() -> None:
    evil = '</title><script>alert(1)</script>" onload="x\x00\x1b[31m'
    engine = table([conv(evil, ("input", "fp16"), ("output", "fp16"))], [1])
    svg = svg_from_engine(engine, title=evil)
    root = ElementTree.fromstring(svg)
    assert len(list(root.iter(f"{SVG}script"))) == 1  # our own
    assert "alert(1)</script>" not in svg


def test_bars_of_engines_are_named_by_what_differs_in_their_paths() -> None:
    lined = Lineup(names=("A", "B"), sums_s=(1e-3, 2e-3), what=None, rows=(("Conv", (1e-3, 2e-3)),))
    labels = [
        f"/a/long/way/to/{name}/network.onnx.engine.profile.json" for name in ("fp16", "fp32")
    ]
    chart = lineup_figure(lined, labels, by="kind").chart
    assert isinstance(chart, Bars)
    assert [each.split("/")[0] for each in chart.categories] == ["fp16", "fp32"]
