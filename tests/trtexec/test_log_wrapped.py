"""Logs as people and tools pass them on: whatever is put around them, every number survives."""

from __future__ import annotations

import html
import io
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logs
from trtbench.trtexec.log import LogRun, LogText, read_log
from trtbench.trtexec.log_text import holds_log
from trtbench.trtexec.reported import reported_from_log
from trtbench.trtexec.sniff import kind_of_stream

Numbers = dict[str, float]
LABELS = ("Latency", "Enqueue Time", "H2D Latency", "GPU Compute Time", "D2H Latency")

milliseconds = st.floats(1e-6, 1e6, allow_nan=False).map(lambda x: float(f"{x:.6g}"))


@st.composite
def summaries(draw: st.DrawFn, *, stamped: bool = True) -> tuple[list[str], Numbers]:
    """Make a performance summary as TensorRT 8 to 11 print it, and the numbers in it."""
    tails = draw(st.sampled_from((("99",), ("90", "95", "99"), ("50", "99.9"))))
    rate = float(f"{draw(st.floats(0.01, 2e8)):.6g}")
    numbers: Numbers = {"throughput_qps": rate}
    texts = ["=== Performance summary ===", f"Throughput: {rate:g} qps"]
    for label in draw(st.sampled_from((LABELS, LABELS[:1] + LABELS[3:4]))):
        values = [draw(milliseconds) for _ in range(4 + len(tails))]
        names = ["min", "max", "mean", "median", *(f"percentile({p}%)" for p in tails)]
        keys = ["min", "max", "mean", "median", *(f"p{p}" for p in tails)]
        pairs = ", ".join(f"{n} = {v:.6g} ms" for n, v in zip(names, values, strict=True))
        texts.append(f"{label}: {pairs}")
        column = label.lower().replace(" ", "_")
        numbers |= {f"{column}_{k}_ms": v for k, v in zip(keys, values, strict=True)}
    wall = draw(milliseconds)
    numbers["total_host_walltime_s"] = wall
    texts.append(f"Total Host Walltime: {wall:.6g} s")
    return (logs.lines(*texts) if stamped else texts), numbers


def compose(line: str, n: int) -> str:
    return f"trt-bench-1  | {line}"


def kubernetes(line: str, n: int) -> str:
    return f"[pod/bench-7f9c/{'trt'}] 2025-03-04T05:06:{n % 60:02}.{n:09}Z {line}"


def container_file(line: str, n: int) -> str:
    return f"2025-03-04T05:06:{n % 60:02}.{n:06}Z stdout F {line}"


def journal(line: str, n: int) -> str:
    return f"Mar {n % 28 + 1:2d} 05:06:{n % 60:02} orin-7 trtexec[4711]: {line}"


def syslog(line: str, n: int) -> str:
    return f"<13>1 2025-03-04T05:06:{n % 60:02}+01:00 host bench {n} - - {line}"


def build_server(line: str, n: int) -> str:
    return f"2025-03-04T05:06:{n % 60:02}.{n:07}Z {line}"


def pipeline_stage(line: str, n: int) -> str:
    return f"[2025-03-04T05:06:{n % 60:02}.123Z] {line}"


def python_logging(line: str, n: int) -> str:
    level = ("INFO", "WARNING")[n % 2]
    return f"2025-03-04 05:06:{n % 60:02},{n % 1000:03} - bench.run - {level} - {line}"


def basic_logging(line: str, n: int) -> str:
    return f"INFO:bench.run:{line}"


def docker_build(line: str, n: int) -> str:
    return f"#{12} {n / 10:.2f} {line}"


def many_processes(line: str, n: int) -> str:
    return f"[1,{0}]<stdout>:{line}"


def quoted(line: str, n: int) -> str:
    return f"> {line}".rstrip()


def quoted_twice(line: str, n: int) -> str:
    return f"> > {line}"


def indented(line: str, n: int) -> str:
    return f"    {line}"


def tab(line: str, n: int) -> str:
    return f"\t{line}"


def listing_number(line: str, n: int) -> str:
    return f"{n:6d}\t{line}"


def coloured(line: str, n: int) -> str:
    return f"\x1b[32m{line}\x1b[0m"


def colour_without_escape(line: str, n: int) -> str:
    return f"{line}[0m"


def docker_json(line: str, n: int) -> str:
    return json.dumps({"log": line + "\n", "stream": "stdout", "time": "2025-03-04T05:06:07Z"})


def ais(line: str, n: int) -> str:
    return f"[INFO] {line}"


STAMPED = (
    compose, kubernetes, container_file, journal, syslog, build_server, pipeline_stage,
    python_logging, basic_logging, docker_build, many_processes, quoted, quoted_twice, indented,
    tab, listing_number, coloured, colour_without_escape, docker_json, ais,
)  # fmt: skip
BARE = tuple(each for each in STAMPED if each is not syslog)


def as_text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def fenced(lines: list[str]) -> str:
    return "# Results\n\n```text\n" + as_text(lines) + "```\n\nThat was it.\n"


def page(lines: list[str]) -> str:
    body = html.escape(as_text(lines))
    return (
        f"<!DOCTYPE html><html><head><title>x</title></head><body><pre>{body}</pre></body></html>"
    )


def page_of_breaks(lines: list[str]) -> str:
    body = "<br>".join(f"<span class='a'>{html.escape(line)}</span>" for line in lines)
    return f"<html><body><div>{body}</div></body></html>"


def pre_in_markdown(lines: list[str]) -> str:
    return "Some words\n<pre>" + html.escape("\n".join(lines)) + "</pre>\nmore\n"


def notebook(lines: list[str]) -> str:
    text = [f"{line}\n" for line in lines]
    output = {"output_type": "stream", "name": "stdout", "text": text}
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n"]},
        {"cell_type": "code", "source": ["!trtexec --onnx=a.onnx"], "outputs": [output]},
    ]
    return json.dumps({"cells": cells, "nbformat": 4, "metadata": {}})


def in_a_json_field(lines: list[str]) -> str:
    return json.dumps({"command": ["trtexec"], "exit": 0, "stdout": as_text(lines)})


DOCUMENTS = (as_text, fenced, page, page_of_breaks, pre_in_markdown, notebook, in_a_json_field)
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be")
LINE_ENDS = ("\n", "\r\n")


def check(data: bytes, expected: list[Numbers], *, name: str = "notes") -> LogText:
    assert holds_log(data)
    kind, _ = kind_of_stream(io.BytesIO(data), name=name)
    assert kind == "log"
    found = read_log(data, where=name)
    assert [numbers(run) for run in found.runs if run.summary] == expected
    assert found.summaries == len(expected)
    return found


def numbers(run: LogRun) -> Numbers:
    return reported_from_log(run)  # type: ignore[return-value]


@given(
    summaries(), st.sampled_from(STAMPED), st.sampled_from(ENCODINGS), st.sampled_from(LINE_ENDS)
)
@settings(max_examples=250, deadline=None)
def test_every_number_survives_a_prefix_and_an_encoding(
    made: tuple[list[str], Numbers], wrap: Any, encoding: str, end: str
) -> None:
    lines, expected = made
    text = end.join(wrap(line, n) for n, line in enumerate(lines)) + end
    check(text.encode(encoding), [expected])


@given(summaries(stamped=False), st.sampled_from(BARE))
@settings(max_examples=150, deadline=None)
def test_lines_without_a_stamp_of_their_own_survive_too(
    made: tuple[list[str], Numbers], wrap: Any
) -> None:
    lines, expected = made
    text = as_text([wrap(line, n) for n, line in enumerate(lines)])
    check(text.encode(), [expected])


@pytest.mark.parametrize("wrap", STAMPED)
def test_each_prefix_alone(wrap: Any) -> None:
    whole = logs.log_10().splitlines()
    (plain,) = read_log(as_text(whole), where="x").runs
    (run,) = read_log(as_text([wrap(line, n) for n, line in enumerate(whole)]), where="x").runs
    assert run.summary == plain.summary
    assert run.facts == plain.facts
    assert run.sections == plain.sections
    assert (run.version, run.outcome, run.command) == (plain.version, "passed", plain.command)
    assert run.bindings == plain.bindings


@pytest.mark.parametrize("wrap", BARE)
@pytest.mark.parametrize("text", [logs.log_5(), logs.log_7().replace(f"{logs.STAMP} ", "")])
def test_each_prefix_before_old_logs(wrap: Any, text: str) -> None:
    (plain,) = read_log(text, where="x").runs
    lines = [wrap(line, n) for n, line in enumerate(text.splitlines())]
    (run,) = read_log(as_text(lines), where="x").runs
    assert run.summary == plain.summary
    assert run.sections == plain.sections


@given(summaries(), st.sampled_from(DOCUMENTS), st.booleans())
@settings(max_examples=150, deadline=None)
def test_every_number_survives_a_document(
    made: tuple[list[str], Numbers], document: Any, stamped: bool
) -> None:
    lines, expected = made
    if not stamped:
        lines = [line.partition("] [I] ")[2] for line in lines]
    check(document(lines).encode(), [expected])


@given(
    st.lists(summaries(), min_size=2, max_size=5), st.integers(0, 2**32), st.sampled_from(STAMPED)
)
@settings(max_examples=150, deadline=None)
def test_summaries_are_never_blended(
    made: list[tuple[list[str], Numbers]], seed: int, wrap: Any
) -> None:
    draw = random.Random(seed)
    between: tuple[list[str], ...] = (
        [],
        [""],
        ["2. another board:"],
        ["```", "words", "```"],
        ["$ trtexec --loadEngine=b.engine --streams=2"],
        [logs.banner("PASSED", version="8601")],
        [logs.banner("PASSED"), "", logs.banner("RUNNING", version="100300 b26")],
        logs.lines("=== Trace details ===", "Trace averages of 10 runs:"),
        logs.lines("* GPU compute time is unstable.", level="W"),
    )
    lines = [line for part, _ in made for line in (*part, *draw.choice(between))]
    text = as_text([wrap(line, n) for n, line in enumerate(lines)])
    check(text.encode(), [expected for _, expected in made])


def cell(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "source": text.splitlines(keepends=True)}


@given(st.lists(summaries(), min_size=1, max_size=4))
@settings(max_examples=50, deadline=None)
def test_cells_of_a_notebook_are_runs_of_their_own(
    made: list[tuple[list[str], Numbers]],
) -> None:
    cells = [cell(as_text(lines)) for lines, _ in made]
    data = json.dumps({"cells": cells, "nbformat": 4}).encode()
    check(data, [expected for _, expected in made], name="a.ipynb")


def test_a_result_in_two_forms_is_one_run() -> None:
    text = logs.text(logs.SUMMARY_10)
    data = {"text/plain": text, "text/html": f"<pre>{html.escape(text)}</pre>"}
    output = {"output_type": "display_data", "data": data}
    document = {"cells": [{"cell_type": "code", "source": "", "outputs": [output]}]}
    assert len(read_log(json.dumps(document), where="x").runs) == 1


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_log_may_begin_far_down(encoding: str) -> None:
    words = "These are notes about something else entirely.\n" * 5000
    data = (words + logs.text(logs.SUMMARY_10)).encode(encoding)
    assert kind_of_stream(io.BytesIO(data), name="notes")[0] == "log"
    assert len(read_log(data, where="x").runs) == 1


@pytest.mark.parametrize(
    "text",
    [
        "We reached a Throughput of 12 qps in the end.\n",
        'if "=== Performance summary ===" in line:\n    parse(line)\n',
        "Throughput: the observed throughput computed by dividing queries by walltime.\n",
    ],
)
def test_words_about_a_summary_are_none(text: str) -> None:
    found = read_log(text, where="x")
    assert not found.runs
    assert found.summaries == 0


def test_a_heading_without_numbers_is_counted_and_named() -> None:
    text = logs.text([*logs.lines("=== Performance summary ==="), "", *logs.SUMMARY_10])
    found = read_log(text, where="x")
    assert found.summaries == 2
    assert found.empty_headings == (1,)
    assert sum(run.summary is not None for run in found.runs) == 1


@pytest.mark.parametrize(
    "above",
    [
        "trtexec --loadEngine=/a/b.engine --streams=2",
        "me@box:~$ /usr/bin/trtexec --loadEngine=/a/b.engine --streams=2 2>&1 | tee x",
        "I ran `trtexec --loadEngine=/a/b.engine --streams=2` and got:",
        "!trtexec --loadEngine=/a/b.engine --streams=2 > log.txt",
        "trtexec \\\n>   --loadEngine=/a/b.engine \\\n>   --streams=2",
        "```bash\ntrtexec --loadEngine=/a/b.engine --streams=2\n```\n\n```",
    ],
)
def test_a_command_above_counts_for_the_numbers_below_it_and_no_others(above: str) -> None:
    more = logs.text([*logs.SUMMARY_10, "", "another one:", *logs.SUMMARY_10])
    first, second = read_log(f"{above}\n{more}", where="x").runs
    assert first.pasted_command
    assert first.arguments[1:] == ("--loadEngine=/a/b.engine", "--streams=2")
    assert second.command is None


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("trtexec --loadEngine=C:\\My Models\\a net.engine --fp16", "C:\\My Models\\a net.engine"),
        ('trtexec "--loadEngine=C:\\My Models\\x.engine" --fp16', "C:\\My Models\\x.engine"),
        ("C:\\Program Files\\trt\\trtexec.exe --loadEngine=a.engine --fp16", "a.engine"),
    ],
)
def test_paths_with_blanks_are_whole(command: str, path: str) -> None:
    text = logs.text([logs.banner("RUNNING", version="8601", command=command), *logs.SUMMARY_10])
    (run,) = read_log(text, where="x").runs
    assert dict(word.split("=", 1) for word in run.arguments[1:2]) == {"--loadEngine": path}
    assert run.arguments[-1] == "--fp16"


@pytest.mark.parametrize("copies", [1, 3])
def test_averages_of_the_first_versions_are_read(copies: int) -> None:
    lines = ["deploy: a.prototxt", "batch: 8", *["Average over 10 runs is 4.5 ms."] * copies]
    (run,) = read_log(logs.text(lines), where="x").runs
    assert run.summary is not None
    assert run.summary.metrics["GPU Compute Time"].mean_ms == 4.5
    assert run.major == 4
    assert len(read_log(logs.text(lines) * 2, where="x").runs) == 2


def test_the_percentile_of_versions_5_and_6_is_kept_and_nothing_was_copied() -> None:
    from trtbench.domain.result import Fact
    from trtbench.trtexec.log import conditions_from_log

    line = (
        "Average over 500 runs is 6.25 ms (host walltime is 8.5 ms, 99% percentile time is 6.75)."
    )
    (run,) = read_log(f"[I] {line}\n", where="x").runs
    assert reported_from_log(run) == {
        "gpu_compute_time_mean_ms": 6.25, "gpu_compute_time_p99_ms": 6.75, "host_mean_ms": 8.5,
    }  # fmt: skip
    assert conditions_from_log(run)["transfers"] == Fact(value=False, source="implied")


def test_an_excerpt_is_not_a_crash_and_help_is_no_failure() -> None:
    (run,) = read_log(logs.text(logs.SUMMARY_10), where="x").runs
    assert run.outcome == "cut"
    ended = logs.HELP_11 + logs.banner("PASSED", version="110100 b7") + "\n"
    (run,) = read_log(ended, where="x").runs
    assert run.outcome == "help"
    (run,) = read_log(
        logs.banner("RUNNING") + "\nSegmentation fault (core dumped)\n", where="x"
    ).runs
    assert run.outcome == "crashed"


def test_no_rate_is_unknown_and_a_huge_one_is_read() -> None:
    (run,) = read_log(
        logs.text(logs.lines("Throughput: 0 qps", "Total Host Walltime: 3 s")), where="x"
    ).runs
    assert run.summary is not None
    assert run.summary.throughput_qps is None
    (run,) = read_log(logs.text(logs.lines("Throughput: 1.24304e+08 qps")), where="x").runs
    assert run.summary is not None
    assert run.summary.throughput_qps == 124304000.0


@settings(max_examples=25)
@given(summaries(), summaries(), st.randoms(use_true_random=False))
def test_containers_that_spoke_side_by_side_are_never_blended(
    first: tuple[list[str], Numbers], second: tuple[list[str], Numbers], shuffle: random.Random
) -> None:
    sides = [[f"{name:<12}| {line}" for line in lines]
             for name, (lines, _) in (("trtexec-1", first), ("trtexec-2", second))]  # fmt: skip
    mixed: list[str] = []
    while any(sides):
        side = shuffle.choice([each for each in sides if each])
        mixed.append(side.pop(0))
    found = read_log("\n".join(mixed), where="compose.log")
    told = [reported_from_log(run) for run in found.runs if run.summary is not None]
    assert len(told) == 2
    for _, numbers in (first, second):
        assert any(all(each.get(k) == v for k, v in numbers.items()) for each in told)
