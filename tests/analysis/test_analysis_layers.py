"""The layers of an engine: joined, rated, added up, compared, explained, and expected to be so."""

import math
import random
from collections.abc import Callable

import pytest
from layer_sets import (
    FP16,
    INT8,
    Op,
    bottlenecks,
    conv,
    fp16_chain,
    graph,
    int8_chain,
    made_engine,
    other,
    profile,
    share_right,
    table,
    transformer,
)

from analysis_values import run
from trtbench.analysis.gate import judge_expectations
from trtbench.core.errors import UsageError
from trtbench.core.run import Fact, FactSource
from trtbench.core.samples import IterationTimes
from trtbench.layers import diff
from trtbench.layers import table as tables
from trtbench.layers.cost import gpu_peaks, peak_of, with_rates
from trtbench.layers.join import count_layer_types, join_layers, type_from_tactic
from trtbench.workflows.engines import EngineSource, select_layers


def convs(*names: str, dims: tuple[tuple[int, ...], ...]) -> tables.LayerTable:
    """A chain of convolutions in FP16 with these outputs."""
    layers = [
        conv(name, (f"t{place}", "fp16"), (f"t{place + 1}", "fp16"), dims=shape)
        for place, (name, shape) in enumerate(zip(names, dims, strict=True))
    ]
    return table(layers, range(1, len(names) + 1))


def bare(whole: tables.LayerTable) -> tables.LayerTable:
    """The same without layer information."""
    times = [each.seconds * 1e6 for each in whole.layers]
    return join_layers(profile([each.name for each in whole.layers], times))


def test_a_row_tells_what_profile_and_inspector_tell() -> None:
    first, second = int8_chain().layers[1:3]
    assert (first.kind, first.role, first.nodes) == ("Convolution", "compute", ("/a/Conv",))
    assert (first.precision, first.precision_basis) == ("int8", "tactic")
    assert (second.precision_in, second.precision, second.precision_out) == ("int8", "int8", "fp16")
    assert first.share == pytest.approx(5 / 43)
    assert first.flops == 2 * 64 * 64 * 9 * 56 * 56
    assert first.traffic_bytes == 2 * 64 * 56 * 56 + 64 * 64 * 9
    view = ("qkv", "fp16")  # of one tensor, of which attention reads three parts
    attention = conv("mha", view, ("y", "fp16"), also=[view, view])
    assert table([attention], [1]).layers[0].traffic_bytes == 2 * (4 * 64 * 56 * 56 + 64 * 64 * 9)


def test_layers_that_share_a_name_stay_apart_and_keep_their_order() -> None:
    kinds = ("Reformat", "Shuffle")
    twice = [
        other("copy", kind, (f"{n}", "fp16"), (f"{n + 1}", "fp16")) for n, kind in enumerate(kinds)
    ]
    joined = table(twice, [1, 3])
    assert tuple(each.kind for each in joined.layers) == kinds
    assert [each.time_s for each in joined.layers] == pytest.approx([1e-6, 3e-6])
    assert any("share their name" in note for note in joined.notes)


def test_another_engine_is_not_joined_and_a_layer_that_was_not_timed_keeps_its_place() -> None:
    mine = graph([conv("x", ("input", "fp16"), ("y", "fp16"))])
    joined = join_layers(profile(["a", "b", "c"], [1, 2, 3]), mine)
    assert [each.kind for each in joined.layers] == [None, None, None]
    assert "different engines" in joined.notes[0]
    assert joined.total_s == pytest.approx(6e-6)
    names = [f"c{index}" for index in range(20)]
    layers = [conv(each, (each, "fp16"), (f"{each}_out", "fp16")) for each in names]
    timed = [each for each in names if each != "c7"]
    joined = join_layers(profile(timed, [1.0] * 19), graph(layers))
    assert [each.name for each in joined.layers] == names
    assert joined.layers[7].time_s is None
    assert any("not in the profile" in note for note in joined.notes)


def test_a_profile_without_a_graph_knows_names_and_times() -> None:
    names = ["Conv_0 + PWN(Clip_1)", "data to nvm", "QuantizeLinear_2", "onnx::Conv_194 + Conv_3"]
    joined = join_layers(profile(names, [2, 1, 1, 1]))
    assert joined.layers[0].nodes == ("Conv_0", "Clip_1")
    assert [x.operators for x in joined.layers[::3]] == [("Conv", "Clip"), ("Conv",)]
    assert [x.role for x in joined.layers] == ["compute", "copy", "quantize", "compute"]
    assert joined.layers[0].precision is None
    zero = join_layers(profile(["a", "b"], [0, 0]))
    assert (zero.total_s, [each.share for each in zero.layers]) == (0, [None, None])


@pytest.mark.parametrize(
    ("tactic", "expected"),
    [
        ("sm80_xmma_fprop_implicit_gemm_interleaved_i8f32_i8i32_f32_nchw_vect_c_32", "int8"),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize64x64x64", "tf32"),
        ("sm86_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize64x64x8_stage3_ffma", "fp32"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64", "bf16"),
        ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize128x128x64", "fp8"),
        ("sm50_xmma_cublas_gemvx_f16f16_f32_f32_tn_n_int32_unit_n", "fp16"),
        ("ampere_h16816cudnn_128x64_ldg8_relu_exp_small_nhwc_tn_v1", "fp16"),
        ("turing_fp32_i8816cudnn_int8_256x64_ldg16_relu_small_nt_v1", "int8"),
        ("ampere_scudnn_128x64_relu_medium_nn_v1", "fp32"),
        ("0x00000000000003ea", None),
        ("__myl_MulSumAdd_0x8622c45a2ac50005b4481bcb604814ec", None),
        (None, None),
    ],
)
def test_the_name_of_a_kernel_tells_the_type_that_computes(
    tactic: str | None, expected: str | None
) -> None:
    assert type_from_tactic(tactic) == expected


def test_names_of_fused_layers_tell_their_nodes() -> None:
    folded = tables.nodes_from_name("conv1.weight + QuantizeLinear_7 + Conv_9")
    assert folded == ("QuantizeLinear_7", "Conv_9")
    assert tables.nodes_from_name("PWN(/act/Erf, /act/Mul)") == ("/act/Erf", "/act/Mul")
    assert tables.nodes_from_name("{ForeignNode[/a/MatMul.../z/Add]}") == ("/a/MatMul", "/z/Add")
    assert tables.nodes_from_name("Reformatting CopyNode for Input Tensor 0 to /a/Conv") == ()
    assert tables.nodes_from_name("/b/MatMul_myl2_3") == ("/b/MatMul",)
    torch = "[CONVOLUTION]-[aten_ops.convolution.default]-[/conv1/convolution]"
    of_torch = tables.nodes_from_name(f"{torch} + [SCALE]-[aten_ops.norm]-[/bn1/norm]")
    assert of_torch == ("/conv1/convolution", "/bn1/norm")


def test_blocks_are_prefixes_of_names() -> None:
    assert tables.block_of("/layer3/layer3.1/conv1/Conv") == "/layer3"
    assert tables.block_of("/layer3/layer3.1/conv1/Conv", depth=2) == "/layer3/layer3.1"
    assert tables.block_of("layer3.1.conv1", depth=1) == "layer3"


def test_groups_count_every_second_once_and_patterns_find_theirs() -> None:
    joined = int8_chain()
    for by in ("kind", "operator", "precision", "role", "node", "block", "/a/*,/b/*"):
        groups = tables.groups_of(joined, by)
        assert math.fsum(each.seconds or 0 for each in groups) == pytest.approx(joined.total_s), by
        assert math.fsum(each.share or 0 for each in groups) == pytest.approx(1), by
    found = {each.name: each.seconds for each in tables.groups_of(joined, "/a/*,/c/*")}
    # Both conversions belong to no node; they fit no pattern.
    assert found == pytest.approx({"/a/*": 5e-6, "/c/*": 10e-6, "the rest": 28e-6})
    assert [each.name for each in joined.layers if tables.matches(each, "Gelu")] == ["/act/Gelu"]
    engine = EngineSource(label="", table=joined, facts=tables.EngineFacts())
    for pattern, count in (("convolution", 3), ("GELU", 1), ("/a/*", 1)):
        assert len(select_layers(engine, pattern=pattern, sort="order")) == count
    folded = bare(table([conv("QuantizeLinear_1 + Conv_2", ("in", "int8"), ("t0", "int8"))], [1]))
    for whole, own in ((joined, {"Conv": 3, "Gelu": 1, "(quantize)": 2}), (folded, {"Conv": 1})):
        assert {x.name: x.layers for x in tables.groups_of(whole, "operator")} == own
    with pytest.raises(UsageError, match="grouped by"):
        tables.groups_of(joined, "colour")


def test_gpus_are_found_by_the_driver_s_names_and_never_by_a_cousin_s() -> None:
    found = {name: peak and peak.name for name in _NAMES if (peak := peak_of(name)) or True}
    assert found == _NAMES
    assert peak_of("Orin", sm_count=16).name == "Jetson AGX Orin"  # type: ignore[union-attr]
    for peak in gpu_peaks():
        assert peak.bytes_per_s > 1e10
        assert peak.flops_per_s["fp16"] > peak.flops_per_s["fp32"] > 1e11


_NAMES = {
    "NVIDIA A100 80GB PCIe": "A100 80GB PCIe",
    "NVIDIA H200": "H200",
    "Tesla T4": "Tesla T4",
    "NVIDIA GeForce RTX 4070 Ti SUPER": None,
    "NVIDIA GeForce RTX 3080 Laptop GPU": None,
    "NVIDIA A100-SXM4-80GB MIG 1g.10gb": None,
    "Xavier of an unknown kind": None,
}


def test_shares_of_the_roofline_follow_from_flops_bytes_and_time() -> None:
    peak = peak_of("NVIDIA H200")
    assert peak is not None
    layer = with_rates(fp16_chain(), peak).layers[0]
    flops, moved, seconds = 2 * 64 * 64 * 9 * 56 * 56, 2 * 2 * 64 * 56 * 56 + 2 * 64 * 64 * 9, 10e-6
    least = max(flops / 989.4e12, moved / 4800e9)
    assert layer.flops_per_s == pytest.approx(flops / seconds)
    assert layer.roofline == pytest.approx(least / seconds)
    assert layer.bound == ("compute" if flops / 989.4e12 > moved / 4800e9 else "memory")
    assert with_rates(fp16_chain(), None).layers[0].roofline is None


def test_precision_is_what_computes_not_what_comes_out() -> None:
    truth = tables.summarize_precision(int8_chain())
    assert {each.name: each.layers for each in truth.types} == {"int8": 3, "fp16": 1}
    assert [each.seconds for each in truth.types] == pytest.approx([25e-6, 5e-6])
    (quantize,) = truth.conversions
    assert (quantize.name, quantize.layers) == ("quantize", 2)
    assert quantize.seconds == pytest.approx(13e-6)


def test_layers_asked_to_be_narrower_are_named() -> None:
    found = tables.lint(fp16_chain(), asked="fp16+int8")
    asked = [each.name for each in found if each.what.endswith("the build's flags request INT8")]
    assert asked == ["/b/Conv", "/c/Conv", "/a/Conv"]
    assert not [x for x in tables.lint(int8_chain(), asked="int8") if "request" in x.what]
    sources: dict[FactSource, str | None] = {"stated": "int8", "implied": None}
    for source, wanted in sources.items():  # what was read off the layers was not asked for
        made = run(IterationTimes(), conditions={"precision": Fact(value="int8", source=source)})
        assert tables.facts_from_run(made).asked == wanted
    assert [*map(tables.narrowest, ("FP32+FP16+INT8", None))] == ["int8", None]


def test_one_engine_alone_is_linted() -> None:
    dp4a = conv("/a/Conv", ("in", "int8"), ("t0", "int8"), tactic="int8x4_icudnn", dims=(1, 30, 8))
    tensors = [(f"t{n}", "fp16") for n in range(3)]
    copies = [other(f"r{n}", "Reformat", tensors[n], tensors[n + 1]) for n in (0, 1)]
    simt = (conv(f"s{n}", (f"s{n}", "fp32"), ("s1", "fp32"), tactic=kernel)
            for n, kernel in enumerate(("ampere_scudnn_128x64_relu", "tf32")))  # fmt: skip
    engines = int8_chain(), table([dp4a, *copies], [4, 2, 1]), table([*simt], [2, 1])
    assert "; ".join(each.what for made in engines for each in tables.lint(made)) == (
        "computes in INT8, but writes FP16; computes in INT8, but writes FP16; Q/DQ that was not "
        "fused; Q/DQ that was not fused; not fused with the layer before it; its kernel uses no "
        "Tensor Cores; 30 channels: no multiple of 16; reformat; reformat of what was converted"
        "; computes in FP32; other layers compute in TF32; its kernel uses no Tensor Cores"
    )


def test_layers_and_gpu_time_are_reconciled_part_by_part() -> None:
    """43 µs of layers: more than the GPU time, less, or 3 µs of them at the same time."""
    for gpu_us, busy_us, expected in (
        (30, None, {"profiler overhead": 13}),
        (50, None, {"gaps": -7}),
        (45, 40, {"overlaps": 3, "gaps": -5}),
    ):
        busy_s = None if busy_us is None else busy_us * 1e-6
        seen = tables.EngineFacts(gpu_s=gpu_us * 1e-6, kernel_busy_s=busy_s)
        found = diff.reconcile(int8_chain(), seen)
        parts = {each.name: each.seconds * 1e6 for each in found.parts}
        assert parts == pytest.approx(expected, abs=1e-6)


def test_changes_of_a_diff_add_up_to_the_difference() -> None:
    found = diff.difference(fp16_chain(), int8_chain())
    assert found.delta_s == pytest.approx(43e-6 - 54e-6)
    assert math.fsum(each.delta_s for each in found.changes) == pytest.approx(found.delta_s)
    by = {each.name_a or each.name_b: each.by for each in found.changes}
    assert by["/a/Conv"] == by["/act/Gelu"] == "origin"
    assert len(found.only_in("b")) == 2


def test_a_fusion_that_changed_is_one_piece_of_work() -> None:
    begin, end, nodes = ("input", "fp16"), ("output", "fp16"), ["/a/Conv", "/r/Relu"]
    first = conv(nodes[0], begin, ("a", "fp16"), nodes=nodes[:1])
    relu = other(nodes[1], "PointWiseV2", ("a", "fp16"), end, nodes=nodes[1:])
    apart, fused = table([first, relu], [10, 4]), [conv(" + ".join(nodes), begin, end, nodes=nodes)]
    found = diff.difference(table(fused, [11]), apart)
    assert len(found.changes) == 1
    assert "fusion" in found.changes[0].changed
    assert found.changes[0].delta_s == pytest.approx(3e-6)
    assert diff.why(table(fused, [11]), apart).causes[0].code == "fusion"
    assert diff.why(bare(table(fused, [11])), bare(apart)).causes[0].code == "unknown"


def test_a_foreign_node_is_aligned_by_the_nodes_it_swallowed() -> None:
    swallowed = join_layers(
        profile(["/p/Conv", "{ForeignNode[/m/MatMul.../m/Softmax]}"], [3, 20]),
        graph(
            [
                conv("/p/Conv", ("input", "fp16"), ("p", "fp16"), nodes=["/p/Conv"]),
                other("{ForeignNode[/m/MatMul.../m/Softmax]}", "Myelin", ("p", "fp16"),
                      ("output", "fp16")),
            ]
        ),
    )  # fmt: skip
    kernels = table(
        [
            conv("/p/Conv", ("input", "fp16"), ("p", "fp16"), nodes=["/p/Conv"]),
            other("/m/MatMul_myl1_0", "gemm", ("p", "half"), ("s", "half"), nodes=["/m/MatMul"]),
            other("__myl_Add_myl1_1", "kgen", ("s", "half"), ("t", "half"), nodes=["/m/Add"]),
            other("__myl_Soft_myl1_2", "kgen", ("t", "half"), ("output", "half"),
                  nodes=["/m/Softmax"]),
        ],
        [3, 8, 4, 5],
    )  # fmt: skip
    found = diff.difference(swallowed, kernels)
    region = next(each for each in found.changes if "ForeignNode" in (each.name_a or ""))
    assert (len(region.a), len(region.b), region.by) == (1, 3, "origin")
    assert region.delta_s == pytest.approx(-3e-6)


def test_a_region_whose_ends_are_weights_is_aligned_with_all_in_its_place() -> None:
    """TensorRT 8.6 names a region by weights and helpers, which are no nodes."""
    region = "{ForeignNode[encoder.ln.weight...(Unnamed Layer* 24) [ElementWise]]}"
    before = conv("/p/Conv", ("input", "fp16"), ("p", "fp16"), nodes=["/p/Conv"])
    whole = table([before, other(region, "Myelin", ("p", "fp16"), ("output", "fp16"))], [3, 40])
    kernels = [
        other(f"__myl_{n}_myl1_{n}", "kgen", (f"k{n}" if n else "p", "half"), (f"k{n + 1}", "half"),
              nodes=[f"/n{n}/MatMul"])
        for n in range(20)
    ]  # fmt: skip
    found = diff.difference(whole, table([before, *kernels], [3] + [1.5] * 20))
    change = next(each for each in found.changes if each.name_a == region)
    assert (len(change.b), change.by) == (20, "place")
    assert change.delta_s == pytest.approx(-10e-6)


def test_numbered_names_of_another_export_are_aligned_by_place() -> None:
    """Conv_3 of one file is not Conv_3 of another; kind, shape and order decide."""
    dims = ((1, 64, 56, 56), (1, 128, 28, 28), (1, 64, 56, 56))
    one = convs("Conv_0", "Conv_1", "Conv_2", dims=dims)
    other_export = convs("Conv_2", "Conv_7", "Conv_12", dims=dims)
    for its in (other_export, bare(other_export)):  # layer information of both, or of one
        found = diff.difference(one, its)
        assert {(each.name_a, each.name_b) for each in found.changes} == {
            ("Conv_0", "Conv_2"), ("Conv_1", "Conv_7"), ("Conv_2", "Conv_12")
        }  # fmt: skip
        assert {each.by for each in found.changes} == {"place"}


def test_layers_of_one_build_meet_by_their_names() -> None:
    """Myelin's kernels, with the ONNX nodes on one side only."""
    names = [f"/blocks.{block}/{part}/MatMul" for block in range(9) for part in ("proj", "fc1")]
    every = [
        [
            other(name.replace(".", "_"), "kgen", (f"k{x}", "half"), (f"k{x + 1}", "half"), nodes=y)
            for x, (name, y) in enumerate(zip(names, nodes, strict=True))
        ]
        for nodes in ([[name] if "fc1" in name else [] for name in names], [()] * 18)
    ]
    found = diff.difference(*(table(layers, range(1, 19)) for layers in every))
    assert all(each.name_a == each.name_b and not each.changed for each in found.changes)


@pytest.mark.parametrize("naming", [("same", "same"), ("number", "number"), ("plain", "quant_")])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("network", [bottlenecks, transformer])
def test_layers_meet_their_own_however_fused_and_named(
    network: Callable[[int], list[Op]], seed: int, naming: tuple[str, str]
) -> None:
    """Bottlenecks and attention: Adds in either branch or alone, in another order."""
    draw = random.Random(seed)
    (a, of_a), (b, of_b) = (made_engine(network(12), draw, each) for each in naming)
    assert share_right(a, b, of_a, of_b) >= 0.99
    assert share_right(b, a, of_b, of_a) >= 0.99


def test_why_names_the_layer_that_interrupts_int8() -> None:
    found = diff.why(fp16_chain(), int8_chain(), candidate=tables.EngineFacts(asked="int8"))
    # The convolutions got twice as fast, so 25 + 4 µs could be expected; it takes 43.
    assert found.gain == pytest.approx(2)
    assert found.expected_s == pytest.approx(29e-6)
    assert found.shortfall_s == pytest.approx(14e-6)
    first = found.causes[0]
    assert first.code == "interruption"
    assert "/act/Gelu" in first.title
    assert first.seconds == pytest.approx(8e-6)  # 1 of its own, 7 of the conversion behind it
    assert first.command is not None
    explained = {each.code: each.explains_s for each in found.causes}
    assert explained["reformat"] == pytest.approx(6e-6)


def test_causes_never_explain_more_than_there_is() -> None:
    for a, b in ((fp16_chain(), int8_chain()), (int8_chain(), fp16_chain())):
        found = diff.why(a, b)
        explained = math.fsum(each.explains_s for each in found.causes)
        assert explained <= max(0.0, found.shortfall_s) + 1e-12
        assert explained + found.unexplained_s == pytest.approx(max(0.0, found.shortfall_s))
        shown = [each.explains_s for each in found.causes]
        assert shown == sorted(shown, reverse=True)
    same = (tables.EngineFacts(gpu_s=each) for each in (0.3, 0.1 + 0.2))  # but for rounding
    found = diff.why(int8_chain(), int8_chain(), baseline=next(same), candidate=next(same))
    assert (found.shortfall_s, found.causes) == (0, ())
    took = (43e-6, 46e-6)  # layers take 11 µs more, 8 of them while others run
    sides = (tables.EngineFacts(gpu_s=each, kernel_busy_s=each) for each in took)
    found = diff.why(int8_chain(), fp16_chain(), baseline=next(sides), candidate=next(sides))
    assert math.fsum(each.explains_s for each in found.causes) == pytest.approx(3e-6)
    assert (found.shortfall_s, found.unexplained_s) == pytest.approx((3e-6, 0))


def test_layers_left_in_a_wider_type_are_a_cause_in_seconds() -> None:
    first = conv("/a/Conv", ("input", "int8"), ("a", "int8"), nodes=["/a/Conv"])
    half = table([first, INT8[2][0], FP16[2][0], FP16[3][0]], [5, 10, 4, 20])
    found = diff.why(fp16_chain(), half, candidate=tables.EngineFacts(asked="int8"))
    cause = found.causes[0]
    assert (cause.code, cause.layers) == ("precision", ("/c/Conv",))
    assert cause.seconds == pytest.approx(10e-6)  # 20 µs, and 10 if it had gained as the others


def test_a_slow_host_is_a_cause_too() -> None:
    a = tables.EngineFacts(gpu="G", gpu_s=54e-6, enqueue_s=1e-6)
    b = tables.EngineFacts(gpu="G", gpu_s=108e-6, enqueue_s=99e-6)
    (cause,) = diff.why(fp16_chain(), fp16_chain(), baseline=a, candidate=b).causes
    assert (cause.code, cause.seconds) == ("enqueue", pytest.approx(54e-6))


def test_a_label_is_held_against_what_computes() -> None:
    """INT8 convolutions that give out FP16 are INT8; conversions are nobody's label."""
    layers = [
        other("q", "Reformat", ("input", "fp32"), ("a", "int8"), origin="QDQ"),
        conv("b", ("a", "int8"), ("b", "fp16"), tactic="int8 to fp16"),
    ]
    assert count_layer_types(graph(layers)) == {"int8": 1}


FACTS = tables.EngineFacts(gpu_s=30e-6, jitter=0.02)


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("count(Conv)==3", "pass"),
        ("count(Convolution)>=4", "fail"),
        ("count(operator=Gelu)==1", "pass"),
        ("count(Einsum)>=1", "fail"),
        ("count(/a/*)==1 and count(name=Gelu)==1", "pass"),
        ("share(precision=int8)>=58%", "pass"),  # 25 of 43 µs
        ("share(precision=int8)>=59%", "fail"),
        ("share(role=quantize, name=*c*)<20%", "pass"),
        ("time(precision=int8)<=25us", "pass"),
        ("conversions<10us", "fail"),
        ("not conversions<10us", "pass"),
        ("jitter<5%", "pass"),
        ("jitter<1%", "fail"),
        ("layers==6", "pass"),
        ("gpu<40us or latency<1us", "pass"),
        ("latency<1us", "unclear"),
        ("time(Conv)/count(Conv)<9us", "pass"),  # 25 µs of 3
        ("time(Einsum)/count(Einsum)<9us", "unclear"),
        ("share(bound=memory)<50%", "pass"),
        ("not(count(kind=Convolution,k>=576)!=3)", "pass"),
    ],
)
def test_expectations_are_judged(text: str, outcome: str) -> None:
    assert [each.outcome for each in judge_expectations([text], int8_chain(), FACTS)] == [outcome]


def test_what_is_not_known_is_unclear_and_said() -> None:
    bare = join_layers(profile(["Conv_0", "Conv_1"], [1, 2]))
    texts = ["share(precision=int8)>=80%", "jitter<5%", "count(Conv)==2", "conversions<50us",
             "count(MatMul)==0", "share(role=quantize)<1%"]  # fmt: skip
    kind, jitter, *counts = judge_expectations(texts, bare, tables.EngineFacts())
    assert {each.outcome for each in (kind, jitter, *counts)} == {"unclear"}
    (named,) = judge_expectations(["count(name=Conv_*)==2"], bare, tables.EngineFacts())
    assert named.outcome == "pass"
    region = other("{ForeignNode[/m/MatMul.../m/Softmax]}", "Myelin", ("x", "fp16"), ("y", "fp16"))
    (inside,) = judge_expectations(["count(Einsum)==0"], table([region], [9]), tables.EngineFacts())
    assert (inside.outcome, "--onnx" in inside.message) == ("unclear", True)
    assert "detailed layer information" in kind.message
    assert jitter.message.startswith("jitter is unknown: it needs the times")
