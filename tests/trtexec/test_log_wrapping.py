"""Whatever is put around a log, every number survives, and no two runs are blended."""

import bz2
import gzip
import html
import io
import json
import lzma
import random
import re
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import logs
from trtbench.core.run import Fact
from trtbench.trtexec.conditions import conditions_from_log, reported_from_log
from trtbench.trtexec.log import holds_log, read_log
from trtbench.trtexec.log_values import LogText
from trtbench.trtexec.sniff import kind_of_stream

Numbers = dict[str, Any]
Made = tuple[list[str], Numbers]
Wrap = Callable[[str, int], str]
Document = Callable[[list[str]], str]

STAMPED = logs.log_10().splitlines()
BARE = [line.partition("] [I] ")[2] if "] [I] " in line else line for line in STAMPED]
SEVEN = [line.removeprefix(f"{logs.STAMP} [I] ") for line in logs.log_7().splitlines()]
FIVE = logs.log_5().splitlines()
SUMMARY = [line.partition("] [I] ")[2] for line in logs.SUMMARY_10 if "] [I] " in line]
TEXTS = {"stamped": STAMPED, "bare": BARE, "7": SEVEN, "5": FIVE, "summary": SUMMARY}
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


def as_text(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"


def numbers(found: LogText) -> list[Numbers]:
    return [dict(reported_from_log(run)) for run in found.runs if run.summary is not None]


def check(data: bytes | str, expected: list[Numbers]) -> LogText:
    """Sniffer and reader agree that it is a log, and every number is there once."""
    data = data.encode() if isinstance(data, str) else data
    assert holds_log(data)
    assert kind_of_stream(io.BytesIO(data), name="notes")[0] == "log"
    found = read_log(data, where="notes")
    assert numbers(found) == expected
    return found


def plain(lines: list[str]) -> list[Numbers]:
    return numbers(read_log(as_text(lines), where="x"))


def wrapped(lines: list[str], wrap: Wrap) -> str:
    return as_text([wrap(line, n) for n, line in enumerate(lines)])


PREFIXES: dict[str, Wrap] = {
    "compose": lambda s, n: f"trt-bench-1  | {s}",
    "kubernetes": lambda s, n: f"[pod/bench-7f9c/trt] 2025-03-04T05:06:{n % 60:02}.{n:09}Z {s}",
    "container file": lambda s, n: f"2025-03-04T05:06:{n % 60:02}.{n:06}Z stdout F {s}",
    "journal": lambda s, n: f"Mar {n % 28 + 1:2d} 05:06:{n % 60:02} orin-7 trtexec[4711]: {s}",
    "build server": lambda s, n: f"2025-03-04T05:06:{n % 60:02}.{n:07}Z {s}",
    "pipeline": lambda s, n: f"[2025-03-04T05:06:{n % 60:02}.123Z] {s}",
    "logging": lambda s, n: (
        f"2025-03-04 05:06:{n % 60:02},{n:03} - b.run - {('INFO', 'WARNING')[n % 2]} - {s}"
    ),
    "basic logging": lambda s, n: f"INFO:bench.run:{s}",
    "mpirun": lambda s, n: f"[1,0]<stdout>:{s}",
    "quoted": lambda s, n: f"> {s}".rstrip(),
    "indented": lambda s, n: f"    {s}",
    "numbered": lambda s, n: f"{n:6d}\t{s}",
    "colour": lambda s, n: f"\x1b[32m{s}\x1b[0m",
    "docker JSON": lambda s, n: json.dumps({"log": s + "\n", "stream": "stdout"}),
    "ais_bench": lambda s, n: f"[INFO] {s}",
    "a build server": lambda s, n: f"bench\tRun trtexec\t2025-03-04T05:06:{n % 60:02}.1Z {s}",
    "compose in colour": lambda s, n: f"\x1b[36;1mtrt_1     |\x1b[0m {s}",
    "pod and container": lambda s, n: f"bench-7f9c-x2 trtexec {s}",
    "runner with streams": lambda s, n: f"2025-03-04T05:06:{n % 60:02}.{n:06}Z 01O {s}",
    "stage": lambda s, n: f"05:06:{n % 60:02}  [orin stage] {s}",
    "bars": lambda s, n: f"2025-03-04 05:06:{n % 60:02}.123 | INFO     | __main__:run:{n} - {s}",
    "glog": lambda s, n: f"{'IW'[n % 2]}0304 05:06:{n % 60:02}.{n:06} 140123 bench.py:{n}] {s}",
    "node of a robot": lambda s, n: f"[INFO] [1700000{n:03}.123456789] [trt_node]: {s}",
    "rank": lambda s, n: f"[rank0]: {s}",
    "stream of a cloud": lambda s, n: f"2025-03-04T05:06:{n % 60:02}.1+00:00 bench/trt/0a1b {s}",
    "blanks of a web page": lambda s, n: s.replace(" ", "\N{NO-BREAK SPACE}"),
}
MARKS = {"quoted", "indented", "colour", "docker JSON", "ais_bench", "blanks of a web page"}
"""What is taken off a line that has no stamp of trtexec's, too."""
LEARNT: dict[str, Wrap] = {
    "bamboo": lambda s, n: f"build\t04-Mar-2025 05:06:{n % 60:02}\t{s}",
    "log4j": lambda s, n: f"2025-03-04 05:06:{n % 60:02},12 INFO  [main] a.Run (Run.java:1) - {s}",
    "swarm": lambda s, n: f"trt_bench.1.abc123@orin    | {s}",
    "bullet": lambda s, n: f"• {s}",
    "bold": lambda s, n: f"**{s}**" if s else s,
    "blanks of print": lambda s, n: s.replace(" ms", "\u2007ms").replace("= ", "=\u2002"),
    "wide marks": lambda s, n: s.replace("(", "（").replace(")", "）").replace(", ", "，"),
    "tabs": lambda s, n: s.replace(" = ", "\t=\t"),
    "airflow": lambda s, n: f"[2025-03-04, 05:06:07 UTC] {{subprocess.py:93}} INFO - {s}",
    "syslog": lambda s, n: f'<165>1 2025-03-04T05:06:07Z host app 12 ID1 [a@1 b="3"] {s}',
    "link": lambda s, n: f"\x1b]8;;http://x\x07{s}\x1b]8;;\x07",
}  # fmt: skip


@pytest.mark.parametrize("name", PREFIXES)
def test_a_prefix_takes_nothing_away(name: str) -> None:
    for lines in TEXTS.values() if name in MARKS else (STAMPED,):
        (told,) = read_log(as_text(lines), where="x").runs
        (run,) = check(wrapped(lines, PREFIXES[name]), plain(lines)).runs
        assert (run.sections, run.facts, run.inputs) == (told.sections, told.facts, told.inputs)
        assert (run.version, run.outcome, run.command) == (told.version, told.outcome, told.command)


@pytest.mark.parametrize("name", LEARNT)
def test_what_stands_before_every_line_is_taken_off(name: str) -> None:
    check(wrapped(STAMPED, LEARNT[name]), plain(STAMPED))


def test_what_loggers_put_behind_a_line_is_taken_off() -> None:
    for wrap in ("[05:06:07] INFO     {}     runner.py:42", "05:06:07 [info     ] {} [bench.run]"):
        lines = list(logs.SUMMARY_10)
        check(wrapped(lines, lambda s, n, wrap=wrap: wrap.format(s)), plain(lines))  # type: ignore[misc]


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be")


@given(summaries(), st.sampled_from(list(PREFIXES.values())), st.sampled_from(ENCODINGS),
       st.sampled_from(("\n", "\r\n")))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_every_number_survives_a_prefix_and_an_encoding(
    made: Made, wrap: Wrap, encoding: str, end: str
) -> None:
    check(wrapped(made[0], wrap).replace("\n", end).encode(encoding), [made[1]])


def hard(width: int) -> Document:
    return lambda lines: as_text(
        [line[at : at + width] for line in lines for at in range(0, len(line) or 1, width)]
    )


def soft(width: int) -> Document:
    return lambda lines: as_text(
        [part for line in lines for part in textwrap.wrap(line, width, break_on_hyphens=False)]
    )


def rows_of_a_table(lines: list[str]) -> str:
    rows = [line.split("] [I] ")[-1].partition(": ") for line in lines[1:]]
    return "| what | value |\n|---|---|\n" + as_text([f"| {a} | {b} |" for a, _, b in rows])


def answer_of_a_log_server(lines: list[str]) -> str:
    hits = [{"_id": n, "_source": {"message": line}} for n, line in enumerate(lines)]
    return json.dumps({"hits": {"hits": hits}})


def bold_names(lines: list[str]) -> str:
    split = [line.split("] [I] ")[-1].partition(": ") for line in lines[1:]]
    return "**=== Performance summary ===**\n" + as_text([f"* **{a}**: {b}" for a, _, b in split])


def firm_colons(lines: list[str]) -> str:
    return as_text(
        [line.split("] [I] ")[-1].replace(": ", "\N{FULLWIDTH COLON}") for line in lines]
    )


def notebook(lines: list[str]) -> str:
    text = [f"{line}\n" for line in lines]
    output = {"output_type": "stream", "name": "stdout", "text": text}
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n"]},
        {"cell_type": "code", "source": ["!trtexec --onnx=a.onnx"], "outputs": [output]},
    ]
    return json.dumps({"cells": cells, "nbformat": 4, "metadata": {}})


def lines_twice(lines: list[str]) -> str:
    """Ansible keeps what was said as a text and once more as lines."""
    return json.dumps({"hosts": {"a": {"stdout": "\n".join(lines), "stdout_lines": lines}}})


DOCUMENTS: dict[str, Document] = {
    "padded": lambda lines: as_text([f"{line:<200}" for line in lines]),
    "code": lambda lines: as_text([f"`{line}`" for line in lines]),
    "fenced": lambda lines: "# Results\n\n```text\n" + as_text(lines) + "```\n\nThat was it.\n",
    "notebook": notebook,
    "field of JSON": lambda lines: json.dumps({"exit": 0, "stdout": as_text(lines)}),
    "log server": answer_of_a_log_server,
    "narrow": lambda lines: as_text([line.replace(" = ", "=") for line in lines]),
    "Ansible": lines_twice,
    "decimal commas": lambda lines: re.sub(r"(?<=\d)\.(?=\d)", ",", as_text(lines)),
}
GENERATIONS = (logs.log_10, logs.log_82, logs.log_7, logs.log_5)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_number_survives_a_document(name: str) -> None:
    for log in GENERATIONS:
        lines = log().splitlines()
        check(DOCUMENTS[name](lines), plain(lines))


OF_SUMMARIES = (rows_of_a_table, bold_names, firm_colons)


@given(summaries(), st.sampled_from([*DOCUMENTS.values(), *OF_SUMMARIES]))
@settings(max_examples=150, deadline=None)
def test_every_generated_number_survives_a_document(made: Made, document: Document) -> None:
    check(document(made[0]), [made[1]])


def test_blanks_of_older_encodings() -> None:
    for lines in TEXTS.values():
        text = as_text(lines).replace(" = ", "\xa0=\xa0").replace(" ms", "\xa0ms")
        check(text.encode("latin-1"), plain(lines))


@pytest.mark.parametrize("log", GENERATIONS)
@pytest.mark.parametrize("breaking", [hard, soft])
def test_whatever_the_width_no_number_is_another(
    breaking: Callable[[int], Document], log: Callable[[], str]
) -> None:
    (told,) = plain(log().splitlines())
    for width in range(28, 64):
        for run in read_log(breaking(width)(log().splitlines()), where="x").runs:
            assert reported_from_log(run).items() <= told.items(), width


LANES = (
    "node{} 2025-03-04T05:06:07Z ", "rank{}> ", "gpu{}: ", "orin-{}    | ",
    "\x1b[36morin-{}   |\x1b[0m ",
    "[pod/a-{}/trt] 2025-03-04T05:06:07Z ", "a-{} trt ", "Mar  4 05:06:07 orin trtexec[{}]: ",
    "[1,{}]<stdout>:", "{}: ", "[2025-03-04T05:06:07.1Z] [xavier {}] ", "[rank{}]: ", "n{}.onnx\t",
    "(bench pid={}, ip=10.0.0.1) ", "<14>1 2025-03-04T05:06:07Z host trtexec {} - - ",
    "2025-03-04 05:06:07,123 - worker-{} - INFO - ", "[10.0.0.{}] out: ",
    "logs/{}.log:7:", "bench-{}-0 main ",
)  # fmt: skip


@pytest.mark.parametrize("lane", LANES)
def test_programs_that_spoke_at_once_are_sorted_apart(lane: str) -> None:
    for seed, log in enumerate(GENERATIONS):
        texts = (log(), re.sub(r"\b([2-9])(?=[\d.]* (?:ms|s|qps)\b)", r"1\1", log()))
        expected = [plain(text.splitlines())[0] for text in texts]
        assert expected[0] != expected[1]
        waiting = [[lane.format(k) + x for x in t.splitlines()] for k, t in enumerate(texts)]
        draw = random.Random(seed)
        mixed = [line for pair in zip(*waiting, strict=True) for line in pair] if seed else []
        while not seed and any(waiting):
            mixed.append(draw.choice([each for each in waiting if each]).pop(0))
        found = read_log(as_text(mixed), where="x")
        assert sorted(map(str, numbers(found))) == sorted(map(str, expected))
        assert not found.as_in_file


@given(
    st.lists(summaries(), min_size=2, max_size=5),
    st.integers(0, 2**32),
    st.sampled_from(list(PREFIXES.values())),
)
@settings(max_examples=150, deadline=None)
def test_summaries_are_never_blended(made: list[Made], seed: int, wrap: Any) -> None:
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
    check(wrapped(lines, wrap), [expected for _, expected in made])


@given(st.lists(summaries(), min_size=1, max_size=4))
@settings(max_examples=30, deadline=None)
def test_cells_of_a_notebook_are_runs_of_their_own(made: list[Made]) -> None:
    cells = [{"cell_type": "markdown", "source": as_text(lines)} for lines, _ in made]
    check(json.dumps({"cells": cells, "nbformat": 4}), [expected for _, expected in made])


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
        "| model | Throughput: 5 qps |\n|---|---|\n| a | 5 |\n",
        "| Throughput | Latency |\n|---|---|\n| 500 qps | 2 ms |\n",
        "We measured Throughput: 500 qps on Orin.\n",
        "The mixed-precision model Throughput: 500 qps\n",
        "".join(f"The engine of batch {n} has Throughput: {40 + n} qps\n" for n in range(9)),
        "We saw Throughput: 40 qps at first.\nWe saw Throughput: 60 qps later.\n",
        "&&&& RUNNING TensorRT.sample_uff_mnist # ./sample_uff_mnist\n"
        "Average over 10 runs is 0.08 ms.\n&&&& PASSED TensorRT.sample_uff_mnist\n",
        "Our server\nThroughput: 120 qps\np99 12 ms\n",
        "trtexec --onnx=a.onnx\n\n# Search\n\nThroughput: 590 qps\nLatency: 3 ms\n",
        "`trtexec --onnx=a --saveEngine=b`\n\nThen our server reached:\n\n- Throughput: 59 qps\n",
        "Average over 10 runs is 12.5 ms\n",
    ],
)
def test_words_about_a_summary_are_no_run(text: str) -> None:
    assert not read_log(text, where="x").runs


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


def test_the_percentile_of_versions_5_and_6_is_kept_and_nothing_was_copied() -> None:
    line = "Average over 50 runs is 6.25 ms (host walltime is 8.5 ms, 99% percentile time is 6.75)."
    (run,) = read_log(f"[I] {line}\n", where="x").runs
    assert reported_from_log(run) == {
        "gpu_compute_time_mean_ms": 6.25, "gpu_compute_time_p99_ms": 6.75, "host_mean_ms": 8.5,
    }  # fmt: skip
    assert conditions_from_log(run)["transfers"] == Fact(value=False, source="implied")


@pytest.mark.parametrize(("printed", "rate"), [("0", None), ("1.24304e+08", 124304000.0)])
def test_no_rate_is_unknown_and_a_huge_one_is_read(printed: str, rate: float | None) -> None:
    lines = logs.lines(f"Throughput: {printed} qps", "Total Host Walltime: 3 s")
    (run,) = read_log(logs.text(lines), where="x").runs
    assert run.summary.throughput_qps == rate


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_packed_logs_are_read(pack: Callable[[bytes], bytes]) -> None:
    text = (logs.log_10() * 2).encode()
    plain = read_log(text, where="x")
    found = read_log(pack(text), where="x.gz")
    assert [run.summary for run in found.runs] == [run.summary for run in plain.runs]
    assert len(found.runs) == 2
    assert not found.as_in_file
    cut = read_log(pack(text)[:-40], where="x.gz")  # what is damaged is read up to there
    assert len(cut.runs) <= 2


def test_a_packed_bomb_is_read_no_further_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trtbench.trtexec.log.MOST_UNPACKED", 1 << 20)
    packed = gzip.compress(
        logs.log_10().encode() + (b"x" * 99 + b"\n") * 40_000 + logs.log_10().encode()
    )
    found = read_log(packed, where="x.gz")
    assert len(found.runs) == 1
    assert found.lines < 20_000


@given(summaries(), summaries())
@settings(max_examples=10, deadline=None)
def test_two_encodings_and_a_hole_in_one_file(first: Made, second: Made) -> None:
    appended = as_text(first[0]).encode() + as_text(second[0]).encode("utf-16-le")
    check(appended, [first[1], second[1]])
    check(as_text(first[0][:3]).encode() + b"\0" * 5000 + as_text(first[0][3:]).encode(),
          [first[1]])  # fmt: skip


def test_words_after_a_number_are_no_part_of_it() -> None:
    head = logs.lines("=== Performance summary ===", "Latency: min = 1 ms, max = 2 ms,")
    found = read_log(as_text([*head, "and that was slow", "trtexec --onnx=b.onnx",
                              *logs.lines("Throughput: 5 qps")]), where="x")  # fmt: skip
    assert [run.command for run in found.runs] == [None, "trtexec --onnx=b.onnx"]
