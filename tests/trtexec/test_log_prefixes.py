"""What tools of every kind put before lines, and lines of several programs at once."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable

import pytest

import logs
from trtbench.trtexec.log import read_log
from trtbench.trtexec.reported import reported_from_log
from trtbench.trtexec.sniff import kind_of_stream

Wrap = Callable[[str, int], str]

STAMPED = logs.log_10().splitlines()
BARE = [line.partition("] [I] ")[2] if "] [I] " in line else line for line in STAMPED]
SEVEN = [line.removeprefix(f"{logs.STAMP} [I] ") for line in logs.log_7().splitlines()]
FIVE = logs.log_5().splitlines()
SUMMARY = [line.partition("] [I] ")[2] for line in logs.SUMMARY_10 if "] [I] " in line]

PREFIXES: dict[str, Wrap] = {
    "run of a build server": lambda s, n: (
        f"bench\tRun trtexec\t2025-03-04T05:06:{n % 60:02}.1Z {s}"
    ),
    "compose in colour": lambda s, n: f"\x1b[36;1mtrt_1     |\x1b[0m {s}",
    "compose with times": lambda s, n: f"trt-1  | 2025-03-04T05:06:{n % 60:02}.{n:09}Z {s}",
    "pod and container": lambda s, n: f"bench-7f9c-x2 trtexec {s}",
    "journal short-iso": lambda s, n: f"2025-03-04T05:06:{n % 60:02}+0100 orin trtexec[123]: {s}",
    "journal short-full": lambda s, n: (
        f"Tue 2025-03-04 05:06:{n % 60:02} CET orin trtexec[12]: {s}"
    ),
    "runner with streams": lambda s, n: f"2025-03-04T05:06:{n % 60:02}.{n:06}Z 01O {s}",
    "stage": lambda s, n: f"05:06:{n % 60:02}  [orin stage] {s}",
    "bars": lambda s, n: f"2025-03-04 05:06:{n % 60:02}.123 | INFO     | __main__:run:{n} - {s}",
    "glog": lambda s, n: f"{'IW'[n % 2]}0304 05:06:{n % 60:02}.{n:06} 140123 bench.py:{n}] {s}",
    "node of a robot": lambda s, n: f"[INFO] [1700000{n:03}.123456789] [trt_node]: {s}",
    "rank": lambda s, n: f"[rank0]: {s}",
    "month": lambda s, n: f"Mar 04 05:06:{n % 60:02} {s}",
    "seconds": lambda s, n: f"{1700000000 + n}.{n:06} {s}",
    "stream of a cloud": lambda s, n: f"2025-03-04T05:06:{n % 60:02}.1+00:00 bench/trt/0a1b {s}",
    "dyno": lambda s, n: f"2025-03-04T05:06:{n % 60:02}.1+00:00 app[worker.1]: {s}",
    "nested JSON": lambda s, n: json.dumps({"_source": {"message": s}}),
    "payload": lambda s, n: json.dumps({"textPayload": s, "insertId": str(n)}),
    "pairs": lambda s, n: f"time=2025-03-04T05:06:07Z level=info msg={json.dumps(s)}",
    "short year": lambda s, n: f"25/03/04 05:06:{n % 60:02} INFO Bench: {s}",
    "clock in brackets": lambda s, n: f"(05:06:{n % 60:02}) INFO: {s}",
    "failed test": lambda s, n: f"E   {s}",
    "found by grep": lambda s, n: f"results/orin.log:{n}:{s}",
    "around a match": lambda s, n: f"results/orin.log-{n}-{s}",
    "blanks of a web page": lambda s, n: s.replace(" ", "\N{NO-BREAK SPACE}"),
    "marks": lambda s, n: f"\ufeff{s}",
    "drawn line": lambda s, n: f"│ {s}",
    "list of texts": lambda s, n: f"        {json.dumps(s)},",
    "diff": lambda s, n: f"+{s}",
}


def wrapped(lines: list[str], wrap: Wrap) -> bytes:
    return "".join(f"{wrap(line, n)}\n" for n, line in enumerate(lines)).encode()


@pytest.mark.parametrize(
    "lines", [STAMPED, BARE, SEVEN, FIVE, SUMMARY], ids=["stamped", "bare", "7", "5", "summary"]
)
@pytest.mark.parametrize("name", PREFIXES)
def test_a_prefix_takes_nothing_away(name: str, lines: list[str]) -> None:
    (plain,) = read_log("\n".join(lines), where="x").runs
    data = wrapped(lines, PREFIXES[name])
    assert kind_of_stream(io.BytesIO(data), name="x")[0] == "log"
    found = read_log(data, where="x")
    (run,) = found.runs
    assert found.summaries == 1
    assert (run.summary, run.sections, run.facts) == (plain.summary, plain.sections, plain.facts)
    assert (run.version, run.outcome, run.command) == (plain.version, plain.outcome, plain.command)
    assert [each.text for each in run.messages] == [each.text for each in plain.messages]


SIDES: dict[str, tuple[str, str]] = {
    "compose": ("orin-1    | ", "xavier-1  | "),
    "compose in colour": ("\x1b[36morin-1   |\x1b[0m ", "\x1b[33mxavier-1 |\x1b[0m "),
    "pods": ("[pod/a-1/trt] 2025-03-04T05:06:07Z ", "[pod/a-2/trt] 2025-03-04T05:06:07Z "),
    "pod and container": ("a-1 trt ", "a-2 trt "),
    "journal": ("Mar  4 05:06:07 orin trtexec[12]: ", "Mar  4 05:06:07 orin trtexec[13]: "),
    "processes": ("[1,0]<stdout>:", "[1,1]<stdout>:"),
    "tasks": ("0: ", "1: "),
    "stages": ("[2025-03-04T05:06:07.1Z] [orin] ", "[2025-03-04T05:06:07.1Z] [xavier nx] "),
    "ranks": ("[rank0]: ", "[rank1]: "),
    "tags": ("a.onnx\t", "b.onnx\t"),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", SIDES)
def test_programs_that_spoke_at_once_are_sorted_apart(kind: str, seed: int) -> None:
    other = logs.log_10().replace("1234.5", "777.5").replace("0.81", "0.62").splitlines()
    expected = [
        reported_from_log(read_log("\n".join(lines), where="x").runs[0])
        for lines in (STAMPED, other)
    ]
    draw = random.Random(seed)
    waiting = [
        [f"{prefix}{line}" for line in lines]
        for prefix, lines in zip(SIDES[kind], (STAMPED, other), strict=True)
    ]
    mixed = []
    while any(waiting):
        mixed.append(draw.choice([each for each in waiting if each]).pop(0))
    found = read_log("\n".join(mixed), where="x")
    assert found.summaries == len(found.runs) == 2
    assert sorted(map(str, map(reported_from_log, found.runs))) == sorted(map(str, expected))
    assert not found.as_in_file


@pytest.mark.parametrize(
    "text",
    [
        "| model | Throughput: 5 qps |\n|---|---|\n| a | 5 |\n",
        "| Throughput | Latency |\n|---|---|\n| 500 qps | 2 ms |\n",
        "We measured Throughput: 500 qps on Orin.\n",
        "The mixed-precision model Throughput: 500 qps\n",
    ],
)
def test_tables_and_sentences_are_no_summaries(text: str) -> None:
    assert read_log(text, where="x").summaries == 0


def test_a_comma_for_the_point() -> None:
    text = logs.log_10()
    for number in ("0.7", "0.9", "0.81", "0.8", "1234.5", "3.5", "2.5", "0.4", "0.6", "0.5"):
        text = text.replace(f" {number} ", f" {number.replace('.', ',')} ")
    assert "0,81" in text
    (plain,) = read_log(logs.log_10(), where="x").runs
    (run,) = read_log(text, where="x").runs
    assert run.summary == plain.summary


def test_numbers_of_version_7_without_prefixes_follow_the_options() -> None:
    (run,) = read_log("\n".join(SEVEN), where="x").runs
    assert run.summary is not None
    assert run.summary.throughput_qps == 250
