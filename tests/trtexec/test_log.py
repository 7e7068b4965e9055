"""Logs of every version: what they state, verbose builds, and no hang where they are broken."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logs
from trtbench.core.run import Fact
from trtbench.trtexec import conditions
from trtbench.trtexec.conditions import (
    build_metadata_from_log,
    conditions_from_log,
    profile_metadata_from_log,
    tactics_from_trace,
)
from trtbench.trtexec.log import read_log
from trtbench.trtexec.log_values import BuildTrace, LogRun
from trtbench.trtexec.version import version_from_text


def read(text: str | bytes) -> LogRun:
    (run,) = read_log(text, where="test.log").runs
    return run


@pytest.mark.parametrize(
    ("digits", "version"),
    [
        ("8601", "8.6.1"), ("8510", "8.5.10"), ("8001", "8.0.1"), ("100300", "10.3.0"),
        ("101601", "10.16.1"), ("110100", "11.1.0"), ("8.2.5", "8.2.5"), ("12", None),
        ("²²²²", None),
    ],
)  # fmt: skip
def test_versions_are_read_as_trtexec_writes_them(digits: str, version: str | None) -> None:
    assert version_from_text(digits) == version


RUN = read(logs.log_10())


def test_a_complete_log_is_understood_and_percentiles_keep_their_labels() -> None:
    run = RUN
    assert (run.version, run.build, run.outcome) == ("10.3.0", 26, "passed")
    assert run.command == "trtexec --onnx=net.onnx --fp16"
    assert (run.warmup_queries, run.queries, run.trace_s) == (7, 20, 3.5)
    (a,), (y,) = run.inputs, run.outputs
    assert (a.name, y.name, y.shape, y.dtype) == ("a", "y", (4, 10), "float16")
    facts = run.facts
    assert (facts.parse_s, facts.build_s, facts.generate_s) == (0.25, 8.25, 7.5)
    assert facts.deserialize_s == 0.5
    assert facts.engine_bytes == int(12.5 * 2**20)
    assert (facts.peak_cpu_bytes, facts.peak_gpu_bytes) == (3 * 2**20, 13 * 2**20)
    assert (facts.timing_cache, facts.timing_cache_saved_bytes) == ("global", 294419)
    assert facts.onnx == {"Opset version": "17"}
    latency = run.summary.metrics["Latency"]
    assert (latency["50%"], latency["99.9%"]) == (0.81, 0.9)
    assert (latency["min"], latency["mean"]) == (0.7, 0.8)
    assert run.summary.throughput_qps == 1234.5
    assert (run.summary.wall_s, run.summary.gpu_total_s) == (3.5, 2.5)
    assert "(enqueue 0.125 ms)" in run.average_lines[0]


def test_end_to_end_of_8_2() -> None:
    run = read(logs.log_82())
    assert run.summary.metrics["End-to-End Host Latency"]["99%"] == 8.0
    assert "(end to end 4 ms" in run.average_lines[0]
    assert run.version == "8.2.5"


@pytest.mark.parametrize("heading", ["Host Latency", "Host latency"])
def test_blocks_of_7(heading: str) -> None:
    run = read(logs.log_7(host=heading).replace("3 ms", "3ms"))
    metrics = run.summary.metrics
    assert metrics["Latency"]["99%"] == 5.5
    assert metrics["End-to-End Host Latency"]["median"] == 4.25
    assert "mean" not in metrics["Enqueue Time"]
    assert metrics["GPU Compute Time"]["mean"] == 3.0
    assert (run.summary.throughput_qps, run.summary.gpu_total_s) == (250.0, 2.75)
    assert (run.version, run.major) == (None, 7)


def test_averages_of_5() -> None:
    run = read(logs.log_5())
    assert run.summary.derived
    assert run.summary.metrics["GPU Compute Time"]["mean"] == 28.0
    assert run.summary.metrics["GPU Compute Time"]["99%"] == 29.5
    assert run.outcome == "passed"
    assert len(read_log(logs.log_5() * 3, where="x").runs) == 3
    for begin, end in (
        ("## a\n\n", "\n"),
        ("```\n", "\n```\n"),
        ("Trace averages of 9 runs:\n", ""),
    ):
        line = "Average over 9 runs is 3 ms (host walltime is 4 ms)\n"
        assert len(read_log(f"{begin}{line}{line}{end}" * 2, where="x").runs) == 2


@pytest.mark.parametrize("table", [logs.NAME_LAST, logs.NAME_FIRST, logs.NAME_FIRST_WITHOUT_MEDIAN])
def test_profile_table(table: list[str]) -> None:
    run = read(logs.text([logs.banner("RUNNING", version="8601"), *table, logs.banner("PASSED")]))
    assert run.profile.count == 1000
    assert [layer.name for layer in run.profile.layers] == ["conv 1 + relu", "{ForeignNode[a...b]}"]
    assert run.profile.layers[1].total_s == pytest.approx(0.0942)
    assert run.profile.layers[1].share == pytest.approx(0.75)
    median = run.profile.layers[0].median_s
    assert median is None or median == pytest.approx(3.13e-5)


@pytest.mark.parametrize("prefix", [f"{logs.STAMP} [V] ", f"{logs.STAMP} [I] ", ""])
def test_explanations_are_not_numbers(prefix: str) -> None:
    prose = [prefix + line for line in logs.EXPLANATIONS]
    text = logs.log_10().replace("&&&& PASSED", "\n".join(prose) + "\n&&&& PASSED")
    assert read(text).summary == RUN.summary


@pytest.mark.parametrize(
    ("marker", "outcome"),
    [("PASSED", "passed"), ("FAILED", "failed"), ("WAIVED", "waived"), (None, "crashed")],
)
def test_outcomes(marker: str | None, outcome: str) -> None:
    parts = [logs.banner("RUNNING", version="8601"), *logs.options(), "Segmentation fault"]
    run = read(logs.text([*parts, *([logs.banner(marker)] if marker else [])]))
    assert run.outcome == outcome
    assert run.last_lines[-1] == "Segmentation fault"


def test_usage_text_is_not_taken_for_options() -> None:
    run = read(logs.HELP_11)
    assert run.outcome == "help"
    assert run.sections == ()
    error = logs.text(logs.lines("Model missing or format not recognized", level="E"))
    end = logs.banner("FAILED", command="trtexec --help")
    text = json.dumps({"asked": {"stderr": error, "stdout": f"{logs.HELP_11}\n{end}"}})
    assert read(text).outcome == "help"


def test_errors_are_known_whatever_follows_them() -> None:
    text = logs.text(
        [
            *logs.lines("[TRT] While parsing node number 4 [Foo]:", level="E"),
            'op_type: "Foo"',
            "[6] Assertion failed: nope",
            *logs.lines("Unknown option: --bogus 1", level="E"),
            logs.banner("FAILED", version="100001"),
        ]
    )
    run = read(text)
    assert run.message("parse-failed") is not None
    assert run.message("unknown-option") is not None
    assert (run.outcome, run.version) == ("failed", "10.0.1")


def test_warnings_that_overtook_the_banner_belong_to_the_run() -> None:
    early = logs.lines("--plugins flag has been deprecated, use --staticPlugins.", level="W")
    run = read("\n".join(early) + "\n" + logs.log_10())
    assert run.message("deprecated-flag") is not None
    assert run.outcome == "passed"


@pytest.mark.parametrize("data", [b"", b"\n\n", b"hello\nworld", b"\x00\x01" * 500, b"{}", "[1,2]"])
def test_other_texts_have_no_run(data: bytes | str) -> None:
    assert not read_log(data, where="x.log").runs


def test_conditions_are_stated_in_the_options() -> None:
    options = {"Data transfers": "Disabled", "CUDA Graph": "Enabled"}
    conditions = conditions_from_log(read(logs.log_10(**options)))
    assert conditions["transfers"] == Fact(value=False)
    assert conditions["cuda_graph"] == Fact(value=True)
    assert conditions["cuda_graph_fell_back"] == Fact(value=False, source="implied")
    assert conditions["spin_wait"] == Fact(value=False)
    assert conditions["streams"] == Fact(value=1)
    assert conditions["protocol"] == Fact(value="gpu", source="implied")
    assert conditions["typing"] == Fact(value="weak", source="implied")
    assert conditions["batch"] == Fact(value=4, source="implied")
    assert conditions["precision"] == Fact(value="fp32+fp16")


@pytest.mark.parametrize(("digits", "on"), [("101601", False), ("110100", True)])
def test_defaults_are_implied_by_the_version(digits: str, on: bool) -> None:
    run = read(logs.banner("RUNNING", version=digits))
    conditions = conditions_from_log(run)
    assert conditions["cuda_graph"] == Fact(value=on, source="implied")
    assert conditions["spin_wait"] == Fact(value=on, source="implied")
    assert conditions["transfers"] == Fact(value=not on, source="implied")
    assert conditions["protocol"].value == ("gpu" if on else "pipeline")


def test_flags_that_11_ignores_are_not_believed() -> None:
    old = "trtexec --onnx=a --useCudaGraph --noDataTransfers --noSpinWait --includeDataTransfers"
    conditions = conditions_from_log(read(logs.banner("RUNNING", version="110000", command=old)))
    assert conditions["transfers"] == Fact(value=True)
    assert conditions["cuda_graph"] == Fact(value=True, source="implied")
    assert conditions["spin_wait"] == Fact(value=False)
    assert conditions["typing"] == Fact(value="strong", source="implied")


def test_a_loaded_engine_hides_how_it_was_built() -> None:
    run = read(logs.text([logs.banner("RUNNING", version="8601"), *logs.options(), ""]))
    conditions = conditions_from_log(run)
    assert conditions["precision"].source == "unknown"
    assert conditions["typing"].source == "unknown"
    assert conditions["tf32"].source == "unknown"


def test_7_states_an_implicit_batch_and_5_waits_for_every_query() -> None:
    seven, five = conditions_from_log(read(logs.log_7())), conditions_from_log(read(logs.log_5()))
    assert seven["batch"] == Fact(value=4)
    assert seven["streams"] == Fact(value=2)
    assert seven["transfers"] == Fact(value=True, source="implied")
    assert five["protocol"] == Fact(value="serve", source="implied")
    assert five["batch"] == Fact(value=4)
    assert five["precision"] == Fact(value="fp32+fp16")
    three = conditions_from_log(read(logs.log_5().replace("fp16", "half2")))
    assert three["precision"] == five["precision"]


def test_documents_hold_whole_values_repeated_labels_and_summaries_by_place_and_label() -> None:
    assert RUN.option("Dump refittable layers") == "Disabled"
    document = build_metadata_from_log(RUN)
    assert list(document)[:3] == ["model_options", "build_options", "device_information"]
    build = document["build_options"]
    assert build["Memory Pools"] == "workspace: 64 MiB, dlaSRAM: default"
    assert build["Tempfile Controls"] == "{ in_memory: allow, temporary: deny }"
    assert build["Input build shape"] == ["a=1x3+2x3+4x3", "b:0=1+2+4"]
    assert document["device_information"]["Device 0"] == '"Test GPU" UUID: GPU-0:1:2'
    assert document["build_facts"]["engine_bytes"] == int(12.5 * 2**20)
    assert document["trtexec"]["version"] == "10.3.0"
    document = profile_metadata_from_log(RUN)
    assert document["performance_summary"]["Latency"] == [0.7, 0.9, 0.8, 0.81, 0.81, 0.9]
    labels = "min max mean median percentile(50%) percentile(99.9%)"
    assert document["performance_labels"]["Latency"] == labels.split()
    assert document["performance_summary"]["Throughput"] == 1234.5
    assert document["performance_summary"]["Total Host Walltime"] == 3.5


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


WHOLE = (
    logs.log_10() + logs.text(logs.NAME_FIRST) + logs.log_7() + logs.log_5() + logs.HELP_11
).encode()


def survive(data: bytes) -> None:
    for run in read_log(data, where="broken.log").runs:
        conditions.conditions_from_log(run)
        conditions.build_metadata_from_log(run)
        conditions.profile_metadata_from_log(run)


@given(
    st.integers(0, len(WHOLE)),
    st.binary(max_size=40),
    st.integers(0, 200) | st.just(len(WHOLE)),  # truncated
)
@settings(max_examples=350, deadline=None)
def test_mutated_anywhere(at: int, patch: bytes, removed: int) -> None:
    survive(WHOLE[:at] + patch + WHOLE[at + removed :])


@given(st.lists(st.sampled_from(WHOLE.splitlines(keepends=True)), max_size=60))
@settings(max_examples=100, deadline=None)
def test_lines_in_any_order(shuffled: list[bytes]) -> None:
    survive(b"".join(shuffled))


NUMBERS = st.text(alphabet="0123456789.e+-naif x", max_size=30)


@given(NUMBERS, NUMBERS)
@settings(max_examples=200, deadline=None)
def test_any_numbers(first: str, second: str) -> None:
    templates = (
        "Throughput: {} qps",
        "Latency: min = {} ms, max = {} ms",
        "Engine built in {} sec.",
        "Created engine with size: {} MiB",
        "Timing trace has {} queries over {} s",
        "Average on {} runs - GPU latency: {} ms - Host latency: 1 ms (enqueue 1 ms)",
        "Input binding for x with dimensions {} is created.",
        "percentile: {} ms at {}%",
        "TensorRT version: {}",
        "=== Profile ({} iterations ) ===",
    )
    body = logs.lines(*(each.format(first, second) for each in templates))
    survive(logs.text([logs.banner("RUNNING"), *body]).encode("utf-8", "replace"))


@pytest.mark.parametrize(
    "line",
    [
        "a" * 1_000_000,
        " " * 1_000_000,
        "[" * 1_000_000,
        "&&&& RUNNING " + "x" * 1_000_000,
        f"{logs.STAMP} [I] Latency: " + "a" * 1_000_000,
        f"{logs.STAMP} [I] [TRT] [MemUsageChange] " + ": CPU +1, GPU " * 70_000,
        f"{logs.STAMP} [I] Created input binding for " + "with dimensions " * 70_000,
        f"{logs.STAMP} [I] " + "9" * 1_000_000,
        "\x1b[" * 400_000,
        "\r" * 100_000,
        " " * 200_000 + "x`",
        "\\" * 300_000 + "===\\n",
        "===\\n" + "'a" * 300_000,
        "['" + "a', " * 200_000 + "]",
        "| Latency | " + " " * 200_000,
        "=== Performance summary === Throughput: " + "Latency: " * 50_000,
        f"{logs.STAMP} [I] x" * 20_000,
        "<br" * 300_000 + " ms",
    ],
)
def test_no_line_takes_long(line: str) -> None:
    table = logs.text([logs.banner("RUNNING"), *logs.NAME_FIRST[:2], line, line])
    survive(table.encode())  # what takes the square of the length would take hours


def test_time_grows_in_step_with_the_length() -> None:
    verbose = logs.lines(*(f"[TRT] Tactic: {n:#x} Time: 0.1" for n in range(700)), level="V")
    warnings = logs.lines(*(f"  odd {n}" for n in range(700)), level="W")
    piece = logs.text([*verbose, *warnings, *(f"printf {n}" for n in range(700))]).encode()
    head = logs.banner("RUNNING").encode() + b"\n"

    def seconds(times: int) -> float:
        begin = time.process_time()
        read_log(head + piece * times, where="long.log")
        return time.process_time() - begin

    seconds(2)
    short, long = min(seconds(2), seconds(2)), min(seconds(20), seconds(20))
    assert long < 40 * short  # the square would be a hundred
