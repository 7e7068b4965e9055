"""What really computes, how layers add up, how two engines differ, and why."""

from __future__ import annotations

import math

import pytest
from layer_sets import conv, fp16_chain, graph, int8_chain, other, profile, table

from trtbench.analysis.layers.align import common_sequence
from trtbench.analysis.layers.difference import difference
from trtbench.analysis.layers.engine_facts import EngineFacts
from trtbench.analysis.layers.join import join_layers
from trtbench.analysis.layers.precision import narrowest, precision_truth
from trtbench.analysis.layers.reconcile import hint_of, reconcile
from trtbench.analysis.layers.why import why


def test_precision_is_what_computes_not_what_comes_out() -> None:
    truth = precision_truth(int8_chain())
    assert {each.precision: (each.layers, each.seconds) for each in truth.types} == {
        "int8": (3, pytest.approx(25e-6)),
        "fp16": (1, pytest.approx(5e-6)),
    }
    assert truth.conversion_s == pytest.approx(13e-6)
    assert [(each.role, each.layers) for each in truth.conversions] == [("quantize", 2)]


def test_islands_have_the_layers_around_them_and_what_their_borders_cost() -> None:
    first, second = precision_truth(int8_chain()).islands
    assert (first.layers, first.after) == ((1, 2), ("/act/Gelu",))
    assert (second.layers, second.before) == ((5,), ("/act/Gelu",))
    assert (first.conversion_s, second.conversion_s) == (
        pytest.approx(6e-6),
        pytest.approx(7e-6),
    )


def test_layers_asked_to_be_narrower_are_named() -> None:
    truth = precision_truth(fp16_chain(), asked="fp16+int8")
    assert [each.name for each in truth.unmet] == ["/b/Conv", "/c/Conv", "/a/Conv"]
    assert {(each.asked, each.got) for each in truth.unmet} == {("int8", "fp16")}
    assert not precision_truth(int8_chain(), asked="int8").unmet
    assert narrowest("FP32+FP16+INT8") == "int8"
    assert narrowest(None) is None


def test_layers_and_gpu_time_are_reconciled_part_by_part() -> None:
    found = reconcile(int8_chain(), 30e-6, profiled_gpu_s=45e-6, cuda_graph=True)
    assert found is not None
    parts = {each.name: each.seconds for each in found.parts}
    # 43 µs of layers, 30 µs of GPU time: 15 µs more under the profiler, of which 2 no layer has.
    assert parts["profiler overhead"] == pytest.approx(15e-6)
    assert parts["launch gaps"] == pytest.approx(-2e-6)
    assert parts["CUDA graph"] is None
    assert found.gap_s == pytest.approx(13e-6)
    assert found.unexplained_s == pytest.approx(0, abs=1e-12)


def test_what_no_evidence_covers_stays_unexplained() -> None:
    joined = int8_chain()
    found = reconcile(joined, 30e-6)
    assert found is not None
    assert found.unexplained_s == pytest.approx(13e-6)
    assert "6 timed layers" in (hint_of(found, joined) or "")


def test_layers_on_other_streams_explain_at_most_their_own_time() -> None:
    joined = table(
        [
            conv("a", ("input", "fp16"), ("x", "fp16")),
            other("side", "PointWiseV2", ("input", "fp16"), ("y", "fp16"), stream=1),
        ],
        [10, 3],
    )
    found = reconcile(joined, 8e-6)
    assert found is not None
    beside = next(each for each in found.parts if each.name == "auxiliary streams")
    assert (beside.seconds, beside.evidence) == (pytest.approx(3e-6), "at most")
    assert found.unexplained_s == pytest.approx(2e-6)


def test_changes_of_a_diff_add_up_to_the_difference() -> None:
    found = difference(fp16_chain(), int8_chain())
    assert found.delta_s == pytest.approx(43e-6 - 54e-6)
    assert math.fsum(each.delta_s for each in found.changes) == pytest.approx(found.delta_s)
    by = {each.name: each.by for each in found.changes}
    assert by["/a/Conv"] == by["/act/Gelu"] == "origin"
    assert len(found.only("b")) == 2
    assert found.explained == pytest.approx(1)


def test_a_fusion_that_changed_is_one_piece_of_work() -> None:
    apart = table(
        [
            conv("/a/Conv", ("input", "fp16"), ("a", "fp16"), nodes=["/a/Conv"]),
            other("/r/Relu", "PointWiseV2", ("a", "fp16"), ("output", "fp16"), nodes=["/r/Relu"]),
        ],
        [10, 4],
    )
    fused = [
        conv(
            "/a/Conv + /r/Relu", ("input", "fp16"), ("output", "fp16"), nodes=["/a/Conv", "/r/Relu"]
        )
    ]
    found = difference(table(fused, [11]), apart)
    assert len(found.changes) == 1
    assert "fusion" in found.changes[0].changed
    assert found.changes[0].delta_s == pytest.approx(3e-6)
    explained = why(table(fused, [11]), apart)
    assert explained is not None
    assert next(each.cause.code for each in explained.causes) == "fusion"


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
    found = difference(swallowed, kernels)
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
    found = difference(whole, table([before, *kernels], [3] + [1.5] * 20))
    change = next(each for each in found.changes if each.name_a == region)
    assert (len(change.b), change.by) == (20, "place")
    assert change.delta_s == pytest.approx(-10e-6)


def test_numbered_names_of_another_export_are_aligned_by_place() -> None:
    """Conv_3 of one file is not Conv_3 of another; kind, shape and order decide."""
    wide, narrow = (1, 64, 56, 56), (1, 128, 28, 28)
    one = table(
        [
            conv("Conv_0", ("input", "fp16"), ("a", "fp16"), dims=wide),
            conv("Conv_1", ("a", "fp16"), ("b", "fp16"), dims=narrow),
            conv("Conv_2", ("b", "fp16"), ("output", "fp16"), dims=wide),
        ],
        [1, 2, 3],
    )
    other_export = table(
        [
            conv("Conv_2", ("input", "fp16"), ("a", "fp16"), dims=wide),
            conv("Conv_7", ("a", "fp16"), ("b", "fp16"), dims=narrow),
            conv("Conv_12", ("b", "fp16"), ("output", "fp16"), dims=wide),
        ],
        [1, 2, 3],
    )
    found = difference(one, other_export)
    assert {(each.name_a, each.name_b) for each in found.changes} == {
        ("Conv_0", "Conv_2"), ("Conv_1", "Conv_7"), ("Conv_2", "Conv_12")
    }  # fmt: skip
    assert {each.by for each in found.changes} == {"place"}


def test_engines_of_different_networks_are_said_to_be() -> None:
    strange = table([other("x", "Resize", ("input", "fp16"), ("output", "fp16"))], [9])
    found = difference(fp16_chain(), strange)
    assert found.explained == 0
    assert "one network" in found.notes[0]


def test_common_sequences_keep_order_and_are_as_long_as_can_be() -> None:
    assert common_sequence("abcde", "xbxdexx") == [(1, 1), (3, 3), (4, 4)]
    assert common_sequence("", "abc") == []
    assert common_sequence("aaa", "aa") == [(0, 0), (1, 1)]


def test_why_names_the_layer_that_interrupts_int8() -> None:
    found = why(fp16_chain(), int8_chain(), candidate=EngineFacts(asked="int8"))
    assert found is not None
    # The convolutions got twice as fast, so 25 + 4 µs could be expected; it takes 43.
    assert found.gain == pytest.approx(2)
    assert found.expected_s == pytest.approx(29e-6)
    assert found.shortfall_s == pytest.approx(14e-6)
    first = found.causes[0].cause
    assert first.code == "interruption"
    assert "/act/Gelu" in first.title
    assert first.seconds == pytest.approx(8e-6)  # 1 of its own, 7 of the conversion behind it
    assert first.command is not None
    assert {each.cause.code: each.explains_s for each in found.causes}["reformat"] == (
        pytest.approx(6e-6)
    )


def test_causes_never_explain_more_than_there_is() -> None:
    for a, b in ((fp16_chain(), int8_chain()), (int8_chain(), fp16_chain())):
        found = why(a, b)
        assert found is not None
        explained = math.fsum(each.explains_s for each in found.causes)
        assert explained <= max(0.0, found.shortfall_s) + 1e-12
        assert explained + found.unexplained_s == pytest.approx(max(0.0, found.shortfall_s))
        shown = [each.explains_s for each in found.causes]
        assert shown == sorted(shown, reverse=True)


def test_layers_left_in_a_wider_type_are_a_cause_in_seconds() -> None:
    half = table(
        [
            conv("/a/Conv", ("input", "int8"), ("a", "int8"), nodes=["/a/Conv"]),
            conv("/b/Conv", ("a", "int8"), ("b", "fp16"), tactic="int8 to fp16",
                 nodes=["/b/Conv"]),
            other("/act/Gelu", "PointWiseV2", ("b", "fp16"), ("act", "fp16"), nodes=["/act/Gelu"]),
            conv("/c/Conv", ("act", "fp16"), ("output", "fp16"), nodes=["/c/Conv"]),
        ],
        [5, 10, 4, 20],
    )  # fmt: skip
    found = why(fp16_chain(), half, candidate=EngineFacts(asked="int8"))
    assert found is not None
    cause = found.causes[0].cause
    assert (cause.code, cause.layers) == ("precision", ("/c/Conv",))
    assert cause.seconds == pytest.approx(10e-6)  # 20 µs, and 10 if it had gained as the others


def test_clocks_copies_and_a_slow_host_are_causes_too() -> None:
    a = EngineFacts(gpu="G", sm_clock_hz=2e9, gpu_s=54e-6, h2d_s=1e-6, d2h_s=0.0, enqueue_s=1e-6)
    b = EngineFacts(gpu="G", sm_clock_hz=1e9, gpu_s=108e-6, h2d_s=5e-6, d2h_s=0.0, enqueue_s=99e-6)
    slow = table_at(fp16_chain(), 2.0)
    found = why(fp16_chain(), slow, baseline=a, candidate=b)
    assert found is not None
    causes = {each.cause.code: each.cause.seconds for each in found.causes}
    assert causes["clocks"] == pytest.approx(54e-6)
    assert causes["transfers"] == pytest.approx(4e-6)
    assert "enqueue" in causes
    assert "kernel" not in causes  # at one clock the layers are alike


def table_at(joined, factor):  # type: ignore[no-untyped-def]
    from trtbench.analysis.layers.why import at_clock

    return at_clock(joined, 1 / factor)


def test_without_a_profile_there_is_no_why() -> None:
    bare = join_layers(None, graph([conv("x", ("input", "fp16"), ("y", "fp16"))]))
    assert why(bare, fp16_chain()) is None


def test_a_label_is_held_against_what_computes() -> None:
    """INT8 convolutions that give out FP16 are INT8; conversions are nobody's label."""
    from trtbench.analysis.layers.computing import layer_types

    layers = [
        other("q", "Reformat", ("input", "fp32"), ("a", "int8"), origin="QDQ"),
        conv("b", ("a", "int8"), ("b", "fp16"), tactic="int8 to fp16"),
    ]
    assert layer_types(graph(layers)) == {"int8": 1}
