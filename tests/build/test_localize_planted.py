"""A fault planted in one layer is named first and repaired, on ONNX Runtime."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from planted_faults import (
    WIDTH,
    convolutions,
    fp8_of,
    int8_of,
    network,
    overflowing,
    plain_weights,
    read_in_int8,
    with_outlier,
)
from planted_kinds import KINDS, Drawing, Fault
from trtbench.accuracy import search
from trtbench.accuracy.search import INLINED, Graph, divide_graphs, localize
from trtbench.analysis.localize import order_by_blocks, precision_problem
from trtbench.convert.cast import cast, stand_in
from trtbench.convert.verify import run_session, session_of
from trtbench.core.errors import InputError
from trtbench.core.jobs import Stage
from trtbench.core.results import Feed, Localization, Localized, LocalizeSpec
from trtbench.core.spec import RunSpec
from trtbench.models.identity import model_ref
from trtbench.models.onnx_model import check_onnx, save_onnx
from trtbench.report.renderers.terminal import text
from trtbench.report.sections.accuracy import answer, document_from_localized

LAYERS = 5
ITEMS = 32


def searched(folder: Path, reference: Path, candidate: Path, **asked: object) -> Localized:
    """Search in this process: a child for each of forty networks would take minutes."""
    run = RunSpec(model=model_ref(reference), runtime="onnxruntime")
    feed = Feed(kind="random", count=ITEMS, distribution="normal")
    spec = LocalizeSpec(
        reference=str(reference), candidate=str(candidate), run=run, feed=feed, **asked
    )
    work = folder / "work"
    work.mkdir(exist_ok=True)
    return localize(spec, folder=work, stage=Stage())


def repaired(folder: Path, reference: Path, candidate: Path, where: str) -> Localized:
    """Search, and repair the candidate as ``c.onnx``."""
    made = folder / "c.onnx"
    found = searched(folder, reference, candidate, repair=str(made), where=where)
    assert found.met
    check_onnx(made)
    return found


def fp16_of(reference: Path, path: Path, *, keep_io: bool = False) -> Path:
    save_onnx(cast(onnx.load(reference), precision="fp16", keep_io=keep_io).model, path)
    return path


@pytest.mark.parametrize("seed", range(2 * LAYERS))
def test_an_overflow_in_fp16_is_named_first_and_repaired(tmp_path: Path, seed: int) -> None:
    layer = seed % LAYERS
    reference = overflowing(tmp_path / "a.onnx", layer=layer, seed=seed, layers=LAYERS + 1)
    candidate = fp16_of(reference, tmp_path / "b.onnx", keep_io=seed % 2 == 0)
    found = repaired(tmp_path, reference, candidate, "nonfinite<=0 and sqnr>=40dB")
    worst = found.groups[0]
    assert worst.node == f"fc{layer}"
    assert worst.first_nonfinite
    assert worst.largest > 65504
    assert precision_problem(worst) == f"overflows FP16: {worst.largest:.6g} > 65504"
    assert found.candidate["nonfinite"] > 0
    assert found.kept == (f"fc{layer}",)
    assert found.repaired["nonfinite"] == 0
    types = {t.name: t.data_type for t in onnx.load(tmp_path / "c.onnx").graph.initializer}
    low = {name for name, kind in types.items() if kind == onnx.TensorProto.FLOAT16}
    assert len(low) == LAYERS + 1 - 2, "all but the layer and the one that brings it back"


@pytest.mark.parametrize("seed", range(2 * LAYERS))
def test_outliers_in_int8_are_named_first_and_repaired(tmp_path: Path, seed: int) -> None:
    layer = 1 + seed % LAYERS
    reference = with_outlier(tmp_path / "a.onnx", layer=layer, seed=seed, layers=LAYERS + 1)
    candidate = int8_of(reference, tmp_path / "b.onnx", per_channel=False)
    found = repaired(tmp_path, reference, candidate, "sqnr>=10dB")
    assert found.groups[0].node == f"fc{layer}"
    assert f"fc{layer}" in found.kept
    assert found.repaired["sqnr_db"] >= 10 > found.candidate["sqnr_db"]
    graph = onnx.load(tmp_path / "c.onnx").graph
    kept = [node for node in graph.node if node.name == f"fc{layer}"]
    stored = {t.name: t for t in graph.initializer}
    assert np.abs(numpy_helper.to_array(stored[kept[0].input[1]])).max() == pytest.approx(150)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["overflow", "outlier"])
def test_networks_of_other_kinds(tmp_path: Path, kind: str, fault: Fault, seed: int) -> None:
    reference, guilty, shape = KINDS[kind](tmp_path / "a.onnx", fault, seed)
    if fault == "overflow":
        candidate = fp16_of(reference, tmp_path / "b.onnx", keep_io=seed % 2 == 0)
        where = "nonfinite<=0 and sqnr>=40dB"
    else:
        candidate = int8_of(reference, tmp_path / "b.onnx", per_channel=False, shape=shape)
        where = "sqnr>=10dB"
    assert repaired(tmp_path, reference, candidate, where).groups[0].node == guilty


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", KINDS)
def test_who_makes_outliers_is_named_where_its_group_gains(tmp_path: Path, kind: str, seed: int):
    """Large values that nobody needs, rounded behind their maker and before their reader.

    Restoring either alone gained nothing, and any other layer was named.
    """
    reference, guilty, shape = KINDS[kind](tmp_path / "a.onnx", "spike", seed)
    candidate = int8_of(reference, tmp_path / "b.onnx", shape=shape)
    first = repaired(tmp_path, reference, candidate, "sqnr>=15dB").groups[0].node
    # Behind a concatenation it is the reader that gains.
    assert first.endswith(".mix") if kind == "branches" else first == guilty


@pytest.mark.parametrize("kind", KINDS)
def test_outliers_that_are_rounded_where_they_are_read(tmp_path: Path, kind: str) -> None:
    """As ModelOpt writes it: the reader gains, is named first and kept alone."""
    reference, guilty, shape = KINDS[kind](tmp_path / "a.onnx", "spike", 4)
    candidate = read_in_int8(reference, tmp_path / "b.onnx", shape=shape)
    found = repaired(tmp_path, reference, candidate, "sqnr>=15dB")
    reader = found.groups[0]
    assert reader.node != guilty
    assert reader.gain is not None
    assert reader.gain > 10
    assert found.kept == (reader.node,)
    result = Localization(
        reference=str(reference), candidate=str(candidate), inputs="32 items", found=found
    )
    said = answer(result)
    assert said.startswith(f"{reader.node} loses most accuracy in INT8 (adds rel. L2 ")
    assert "kept in full precision: SQNR" in said


def test_models_of_two_networks_are_refused(tmp_path: Path) -> None:
    """ONNX Runtime said that the rank of an input is invalid, whoever's it was."""
    images = convolutions(tmp_path / "a.onnx", layers=2, seed=0)
    rows = network(tmp_path / "b.onnx", plain_weights(np.random.default_rng(0), 2))
    with pytest.raises(InputError, match="do not have the same inputs") as said:
        searched(tmp_path, images, fp16_of(rows, tmp_path / "c.onnx"))
    assert said.value.facts == {"reference": "x (4-d)", "candidate": "x (2-d)"}


def test_a_skip_hands_outliers_to_two_readers(tmp_path: Path) -> None:
    net = Drawing(np.random.default_rng(3))
    first = net.node("Relu", net.conv("x", "first", 3, 8), name="relu")
    small = net.node("MaxPool", first, name="pool", kernel_shape=[3, 3], pads=[1] * 4)
    inner = net.node("Relu", net.conv(small, "inner", 8, 8), name="relu2")
    both = net.node("Concat", inner, first, name="both", axis=1)
    net.conv(both, "last", 16, 4)
    net.weights["first.w"][2] *= 3000
    net.weights["inner.w"][:, 2] = net.weights["last.w"][:, 10] = 0
    reference = net.saved(tmp_path / "a.onnx", (3, 8, 8))
    candidate = read_in_int8(reference, tmp_path / "b.onnx", shape=(3, 8, 8))
    found = repaired(tmp_path, reference, candidate, "sqnr>=15dB")
    assert set(found.kept) == {"inner", "last"}
    result = Localization(
        reference=str(reference), candidate=str(candidate), inputs="32 items", found=found
    )
    shown = text(document_from_localized(result), width=80)
    assert "-0.0 dB" not in shown.replace("−", "-")


def test_functions_that_a_quantizer_inlined_can_be_restored(tmp_path: Path) -> None:
    """ONNX Runtime writes HardSwish out in operators, under names that it takes again."""
    net = Drawing(np.random.default_rng(0))
    at = net.node("HardSwish", net.conv("x", "first", 3, 4), name="act")
    net.conv(net.node("HardSwish", net.conv(at, "second", 4, 4), name="act2"), "third", 4, 2)
    reference = net.saved(tmp_path / "a.onnx", (3, 6, 6))
    candidate = int8_of(reference, tmp_path / "b.onnx", shape=(3, 6, 6))
    assert any(
        name.startswith(INLINED) for n in onnx.load(candidate).graph.node for name in n.output
    )
    found = searched(tmp_path, reference, candidate)
    assert {each.op for each in found.groups} >= {"Conv"}
    assert found.all_restored["rel_l2"] < 1e-5


def test_batch_norms_that_a_quantizer_folded_stand_in_the_part_of_their_convolution(tmp_path: Path):
    reference = convolutions(tmp_path / "a.onnx", layers=3, seed=0)
    candidate = int8_of(reference, tmp_path / "b.onnx", shape=(3, 6, 6))
    assert not any(n.op_type == "BatchNormalization" for n in onnx.load(candidate).graph.node)
    pair = divide_graphs(*(Graph(onnx.load(path)) for path in (reference, candidate)))
    assert [part.node for part in pair.parts] == ["conv0", "conv1", "conv2"]
    assert all(part.type == "INT8" for part in pair.parts)
    found = searched(tmp_path, reference, candidate)
    assert found.all_restored["rel_l2"] < 1e-5, "everything restored is the reference again"


def test_a_long_network_is_searched_in_blocks_first(tmp_path: Path) -> None:
    reference = with_outlier(tmp_path / "a.onnx", layer=20, seed=1, layers=40)
    candidate = int8_of(reference, tmp_path / "b.onnx", per_channel=False)
    found = searched(tmp_path, reference, candidate, max_time_s=1e-6)
    assert not found.one_by_one
    assert found.trials <= 2 + 1, "time was up at once"
    tried: list[frozenset[int]] = []

    def loss(chosen: frozenset[int]) -> tuple[float, ...] | None:
        tried.append(chosen)
        return None if len(tried) > 5 else (0.0 if 20 in chosen else 1.0, -len(chosen))

    first = order_by_blocks(range(40, -1, -1), loss)[:6]
    assert first == [23, 22, 21, 20, 19, 18], "though time ran out before the last block"
    assert sum(map(len, tried[:6])) == 36


@pytest.mark.parametrize("low", [fp16_of, int8_of])
def test_switches_give_the_outputs_of_restored_models(tmp_path: Path, low: Any) -> None:
    reference = with_outlier(tmp_path / "a.onnx", layer=1, seed=0, layers=4)
    both = (Graph(onnx.load(path)) for path in (reference, low(reference, tmp_path / "b.onnx")))
    pair = divide_graphs(*both)
    groups = [[part] for part in pair.parts]
    feed = {"x": np.random.default_rng(0).normal(size=(2, WIDTH)).astype(np.float32)}
    session = session_of(search.switched_model(pair, groups), ["y"])
    for chosen in ({0}, {1, 2}, {0, 1, 2, 3}):
        switches = {f"{search.SWITCH}{n}": np.array(n in chosen) for n in range(4)}
        made = search.restore_parts(pair, [pair.parts[n] for n in sorted(chosen)])
        wanted = run_session(session_of(stand_in(made), ["y"]), ["y"], feed)
        found = run_session(session, ["y"], {**feed, **switches})
        np.testing.assert_array_equal(found["y"], wanted["y"])


def test_nothing_low_is_said_so(tmp_path: Path) -> None:
    reference = network(tmp_path / "a.onnx", plain_weights(np.random.default_rng(0), 3))
    with pytest.raises(InputError, match="no part of the candidate"):
        searched(tmp_path, reference, reference)


def test_bf16_and_fp8_run_too(tmp_path: Path) -> None:
    reference = network(tmp_path / "a.onnx", plain_weights(np.random.default_rng(0), 3))
    save_onnx(cast(onnx.load(reference), precision="bf16").model, tmp_path / "b.onnx")
    found = searched(tmp_path, reference, tmp_path / "b.onnx")
    assert {group.type for group in found.groups} == {"BF16"}
    assert found.stand_in
    assert 20 < found.candidate["sqnr_db"] < 60
    eight = fp8_of(reference, tmp_path / "c.onnx")
    found = searched(tmp_path, reference, eight)
    assert {group.type for group in found.groups} == {"FP8"}
    assert found.all_restored["rel_l2"] < found.candidate["rel_l2"]
