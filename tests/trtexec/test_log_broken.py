"""Broken and hostile logs: a value or a ``ParseError``, never anything else, and no hang."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logs
from trtbench.trtexec import conditions
from trtbench.trtexec.log import read_log

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
