"""Profile, layer information and ONNX of one engine in one table; what does not fit is said."""

from __future__ import annotations

import math

import pytest
from layer_sets import conv, fp16_chain, graph, int8_chain, other, profile, table

from trtbench.analysis.layers.computing import type_from_tactic
from trtbench.analysis.layers.gpus import gpu_peaks, peak_of
from trtbench.analysis.layers.grouping import groups_of, matching
from trtbench.analysis.layers.join import join_layers
from trtbench.analysis.layers.naming import block_of, nodes_of
from trtbench.analysis.layers.roofline import with_rates
from trtbench.errors import UsageError


def test_a_row_tells_what_profile_and_inspector_tell() -> None:
    first, second = int8_chain().layers[1:3]
    assert (first.kind, first.role, first.nodes) == ("Convolution", "compute", ("/a/Conv",))
    assert (first.precision, first.precision_basis) == ("int8", "tactic")
    assert (second.precision_in, second.precision, second.precision_out) == ("int8", "int8", "fp16")
    assert first.share == pytest.approx(5 / 43)
    assert first.flops == 2 * 64 * 64 * 9 * 56 * 56
    assert first.traffic_bytes == 2 * 64 * 56 * 56 + 64 * 64 * 9


def test_layers_that_share_a_name_stay_apart_and_keep_their_order() -> None:
    twice = [
        other("copy", "Reformat", ("input", "fp16"), ("a", "fp16")),
        other("copy", "Shuffle", ("a", "fp16"), ("output", "fp16")),
    ]
    joined = table(twice, [1, 3])
    assert [(each.kind, each.time_s) for each in joined.layers] == [
        ("Reformat", pytest.approx(1e-6)),
        ("Shuffle", pytest.approx(3e-6)),
    ]
    assert any("share their name" in note for note in joined.notes)


def test_profile_and_graph_of_different_engines_are_not_joined() -> None:
    mine = graph([conv("x", ("input", "fp16"), ("y", "fp16"))])
    joined = join_layers(profile(["a", "b", "c"], [1, 2, 3]), mine)
    assert [each.kind for each in joined.layers] == [None, None, None]
    assert "different engines" in joined.notes[0]
    assert joined.total_s == pytest.approx(6e-6)


def test_a_graph_without_a_profile_has_no_times_and_says_so() -> None:
    joined = join_layers(None, graph([conv("x", ("input", "fp16"), ("y", "fp16"))]))
    assert joined.total_s is None
    assert joined.layers[0].time_s is None
    assert any("nothing was timed" in note for note in joined.notes)


def test_a_profile_without_a_graph_knows_names_and_times() -> None:
    joined = join_layers(profile(["Conv_0 + Relu_1", "data to nvm"], [2, 1]))
    assert joined.layers[0].nodes == ("Conv_0", "Relu_1")
    assert joined.layers[1].role == "copy"
    assert joined.layers[0].precision is None


def test_a_layer_that_was_not_timed_keeps_its_place() -> None:
    layers = [
        conv(f"c{index}", (f"t{index}", "fp16"), (f"t{index + 1}", "fp16")) for index in range(20)
    ]
    timed = [each["Name"] for each in layers if each["Name"] != "c7"]
    joined = join_layers(profile(timed, [1.0] * 19), graph(layers))
    assert [each.name for each in joined.layers] == [each["Name"] for each in layers]
    assert joined.layers[7].time_s is None
    assert any("not in the profile" in note for note in joined.notes)


def test_zero_times_are_kept_and_their_sum_is_no_division() -> None:
    joined = join_layers(profile(["a", "b"], [0, 0]))
    assert joined.total_s == 0
    assert [each.share for each in joined.layers] == [None, None]


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
    assert nodes_of("conv1.weight + QuantizeLinear_7 + Conv_9") == ("QuantizeLinear_7", "Conv_9")
    assert nodes_of("PWN(/act/Erf, /act/Mul)") == ("/act/Erf", "/act/Mul")
    assert nodes_of("{ForeignNode[/a/MatMul.../z/Add]}") == ("/a/MatMul", "/z/Add")
    assert nodes_of("Reformatting CopyNode for Input Tensor 0 to /a/Conv") == ()
    assert nodes_of("/b/MatMul_myl2_3") == ("/b/MatMul",)
    torch = "[CONVOLUTION]-[aten_ops.convolution.default]-[/conv1/convolution]"
    assert nodes_of(f"{torch} + [SCALE]-[aten_ops.norm]-[/bn1/norm]") == (
        "/conv1/convolution",
        "/bn1/norm",
    )


def test_reformats_are_known_by_their_names_in_every_version() -> None:
    names = ["Reformatting CopyNode for Input Tensor 0 to x", "prob input reformatter 0", "conv1"]
    joined = join_layers(profile(names, [1, 2, 3]))
    assert [each.role for each in joined.layers] == ["reformat", "reformat", "compute"]


def test_blocks_are_prefixes_of_names() -> None:
    assert block_of("/layer3/layer3.1/conv1/Conv") == "/layer3"
    assert block_of("/layer3/layer3.1/conv1/Conv", depth=2) == "/layer3/layer3.1"
    assert block_of("layer3.1.conv1", depth=1) == "layer3"


@pytest.mark.parametrize("by", ["kind", "precision", "role", "node", "block", "/a/*,/b/*"])
def test_groups_count_every_second_once(by: str) -> None:
    joined = int8_chain()
    groups = groups_of(joined, by)
    assert math.fsum(each.seconds or 0 for each in groups) == pytest.approx(joined.total_s)
    assert math.fsum(each.share or 0 for each in groups) == pytest.approx(1)


def test_groups_by_pattern_and_top() -> None:
    joined = int8_chain()
    found = {each.name: each.seconds for each in groups_of(joined, "/a/*,/c/*")}
    # Both conversions belong to no node; they fit no pattern.
    assert found == {
        "/a/*": pytest.approx(5e-6),
        "/c/*": pytest.approx(10e-6),
        "the rest": pytest.approx(28e-6),
    }
    assert len(groups_of(joined, "node", top=2)) == 2
    assert [each.name for each in matching(joined.layers, "Gelu")] == ["/act/Gelu"]
    with pytest.raises(UsageError, match="grouped by"):
        groups_of(joined, "colour")


def test_gpus_are_found_by_the_driver_s_names_and_never_by_a_cousin_s() -> None:
    found = {name: peak and peak.name for name in _NAMES if (peak := peak_of(name)) or True}
    assert found == _NAMES
    assert peak_of("Orin", sm_count=16).name == "Jetson AGX Orin"  # type: ignore[union-attr]
    for peak in gpu_peaks():
        assert peak.bytes_per_s > 1e10
        assert peak.source.startswith("NVIDIA ")
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
