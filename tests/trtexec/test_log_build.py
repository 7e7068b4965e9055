"""Builds as verbose logs tell them: tactics, fusions, phases, whatever the wording."""

import pytest

import logs
from trtbench.trtexec.conditions import tactics_from_trace
from trtbench.trtexec.log import read_log
from trtbench.trtexec.log_values import BuildTrace


def verbose(*texts: str) -> list[str]:
    return logs.lines(*(f"[TRT] {text}" for text in texts), level="V")


TUNING_10 = verbose(
    "Original: 24 layers",
    "ConvReluFusion: Fusing conv1 with relu1",
    "After vertical fusions: 13 layers",
    "Graph construction completed in 0.25 seconds.",
    "*************** Autotuning format combination: Float(1,2) -> Float(1,2) ***************",
    "--------------- Timing Runner: conv1 + relu1 (CaskConvolution[0x80000009])",
    "Tactic Name: kernel_a Tactic: 0x00000000000000aa Time: 0.5",
    "Tactic Name: kernel_b Tactic: 0x00000000000000bb Time: 0.25",
    "Tactic: 0x00000000000000cc skipped. Scratch requested: 9, available: 1",
    "conv1 + relu1 (CaskConvolution[0x80000009]) profiling completed in 1.5 seconds. "
    "Fastest Tactic: 0x00000000000000bb Time: 0.25",
    ">>>>>>>>>>>>>>> Chose Runner Type: CaskConvolution Tactic: 0x00000000000000bb",
    "Formats and tactics selection completed in 2.5 seconds.",
    "Engine Layer Information:",
)
FINAL = [
    "Layer(CaskConvolution): conv1 + relu1, Tactic: 0x00000000000000aa, x (Float[1]) -> y (Half[1])"
]
TUNING_85 = verbose(
    "--------------- Timing Runner: conv1 (CaskConvolution)",
    "conv1 Set Tactic Name: kernel_a Tactic: 0x00000000000000aa",
    "Tactic: 0x00000000000000aa Time: 0.5",
    "Fastest Tactic: 0x00000000000000aa Time: 0.5",
    ">>>>>>>>>>>>>>> Chose Runner Type: CaskConvolution Tactic: 0x00000000000000aa",
)
TUNING_7 = verbose("--------------- Timing conv1(3)", "Tactic 1 time 0.5", "Tactic 12 time 0.125")


def trace_of(lines: list[str]) -> BuildTrace:
    text = logs.text([logs.banner("RUNNING", version="8601"), *lines])
    (run,) = read_log(text, where="x").runs
    assert run.trace is not None
    return run.trace


def test_tactics_tried_and_chosen_with_their_times() -> None:
    trace = trace_of([*TUNING_10, *FINAL])
    (layer,) = trace.layers
    assert (layer.name, layer.runner, layer.tried) == ("conv1 + relu1", "CaskConvolution", 2)
    assert layer.spent_s == 1.5
    assert (layer.chosen.name, layer.chosen.time_ms) == ("kernel_a", 0.5)  # what the engine has
    assert [each.time_ms for each in layer.tactics] == [0.25, 0.5]
    assert (trace.tactics_tried, trace.tactics_skipped) == (2, 1)
    assert trace.fusions == (("ConvReluFusion", "conv1", "relu1"),)
    assert trace.phases_s == {"Graph construction": 0.25, "Tactic selection": 2.5}
    (layer,) = trace_of(TUNING_10).layers  # without a list of layers, the last choice counts
    assert layer.chosen.name == "kernel_b"


@pytest.mark.parametrize(("lines", "best_ms"), [(TUNING_85, 0.5), (TUNING_7, 0.125)])
def test_older_wordings(lines: list[str], best_ms: float) -> None:
    (layer,) = trace_of(lines).layers
    assert layer.name == "conv1"
    assert layer.tactics[0].time_ms == best_ms


def test_nodes_fused_into_another() -> None:
    line = "QuantizeDoubleInputNodes: fusing (Dequantize_1 and Dequantize_2) into Conv_3"
    fused = ("QuantizeDoubleInputNodes", "(Dequantize_1 and Dequantize_2)", "Conv_3")
    assert trace_of(verbose(line)).fusions == (fused,)


def test_runners_may_share_the_id_of_a_tactic() -> None:
    lines = [
        *verbose("--------------- Timing Runner: view (Shuffle[0x1])", "Tactic: 0x0 Time: 0.5"),
        *verbose("--------------- Timing Runner: view (NoOp[0x2])", "Tactic: 0x0 Time: 0.25"),
        *verbose(">>>>>>>>>>>>>>> Chose Runner Type: Shuffle Tactic: 0x0"),
    ]
    (layer,) = trace_of(lines).layers
    assert (layer.chosen.runner, layer.chosen.time_ms) == ("Shuffle", 0.5)
    rows = list(tactics_from_trace(trace_of(lines)))
    assert rows == [
        ("view", "NoOp", "0x0", None, 0.25, False),
        ("view", "Shuffle", "0x0", None, 0.5, True),
    ]


def test_passes_of_the_builder_add_up() -> None:
    passes = logs.lines("[TRT] Engine generation completed in 2 seconds.") * 3
    text = logs.text([*passes, *logs.lines("Engine built in 7 sec.")])
    (run,) = read_log(text, where="x").runs
    assert run.facts.generate_s == 6.0
