"""Logs as loggers, servers, word processors and build systems hand them on, whoever they are."""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Callable
from functools import partial

import pytest
from test_log_prefixes import BARE, FIVE, SEVEN, STAMPED, SUMMARY, wrapped
from test_log_wrapped import as_text

import logs
from trtbench.trtexec.log import LogText, read_log
from trtbench.trtexec.reported import reported_from_log
from trtbench.trtexec.sniff import kind_of_stream

TEXTS = {"stamped": STAMPED, "bare": BARE, "7": SEVEN, "5": FIVE, "summary": SUMMARY}

NOBODY_LISTED = {
    "bamboo": lambda s, n: f"build\t04-Mar-2025 05:06:{n % 60:02}\t{s}",
    "log4j": lambda s, n: f"2025-03-04 05:06:{n % 60:02},12 INFO  [main] a.Run (Run.java:1) - {s}",
    "spring": lambda s, n: f"2025-03-04T05:06:{n % 60:02}.1+01:00  INFO 12 --- [  main] a.R : {s}",
    "zerolog": lambda s, n: f"5:{n % 60:02}AM INF {s}",
    "prefect": lambda s, n: f"05:06:{n % 60:02}.123 | INFO    | Task run 'bench' - {s}",
    "git blame": lambda s, n: f"a1b2c3d4 (Jane Doe 2025-03-04 05:06:07 +0100 {n:4}) {s}",
    "git grep": lambda s, n: f"HEAD~3:docs/run.log:{n}:{s}",
    "findstr": lambda s, n: f"C:\\logs\\my run.log:{s}",
    "who said it": lambda s, n: f"Joe> {s}",
    "labels": lambda s, n: f'2025-03-04T05:06:{n % 60:02}Z {{app="trt", pod="b-7f9c"}} {s}',
    "swarm": lambda s, n: f"trt_bench.1.abc123@orin    | {s}",
    "automotive": lambda s, n: f"{n} 2025/03/04 05:06:07.1 99 {n % 255:03} ECU1 TRTX MAIN log {s}",
    "QNX": lambda s, n: f"Mar 04 05:06:{n % 60:02}.123    trtexec.1234     slog      0  {s}",
    "tai64n": lambda s, n: f"@4000000065e5{n * 99991:012x} {s}",
    "other dates": lambda s, n: f"04-03-2025 05:06:{n % 60:02} | {s}",
    "bullet": lambda s, n: f"• {s}",
    "chat": lambda s, n: f"05:{n % 60:02} < jane> {s}",
    "hidden note": lambda s, n: f"\x1b[8mha:////4AAA{n:x}Z+/AAA==\x1b[0m{s}",
    "record behind words": lambda s, n: "2025-03-04 05:06:07 +0000 docker.trt: "
    + json.dumps({"log": s, "container_id": "ab12"}),
    "bytes": lambda s, n: repr(f"{s}\r\n".encode()),
    "end of line shown": lambda s, n: f"{s}^M",
    "colours shown": lambda s, n: f"^[[32m{s}^[[0m",
    "all shown": lambda s, n: f"{s}$",
    "bold": lambda s, n: f"**{s}**" if s else s,
    "blanks of print": lambda s, n: s.replace(" ms", "\u2007ms").replace("= ", "=\u2002"),
    "wide marks": lambda s, n: s.replace("(", "（").replace(")", "）").replace(", ", "，"),
    "joiners": lambda s, n: s.replace("=", "\u200c=").replace(":", "\u200d:"),
    "tabs": lambda s, n: s.replace(" = ", "\t=\t"),
}  # fmt: skip


def numbers(found: LogText) -> list[dict[str, object]]:
    return [dict(reported_from_log(run)) for run in found.runs if run.summary is not None]


def check(data: bytes, lines: list[str]) -> None:
    expected = read_log("\n".join(lines), where="x")
    assert kind_of_stream(io.BytesIO(data), name="notes")[0] == "log"
    found = read_log(data, where="x")
    assert numbers(found) == numbers(expected)
    assert found.summaries == expected.summaries


@pytest.mark.parametrize("lines", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("name", NOBODY_LISTED)
def test_what_stands_before_every_line_is_taken_off(name: str, lines: list[str]) -> None:
    check(wrapped(lines, NOBODY_LISTED[name]), lines)


@pytest.mark.parametrize(
    "text",
    [
        "".join(f"The engine of batch {n} has Throughput: {40 + n} qps\n" for n in range(9)),
        "We saw Throughput: 40 qps at first.\nWe saw Throughput: 60 qps later.\n",
    ],
)
def test_a_list_of_one_number_each_is_no_log(text: str) -> None:
    assert not read_log(text, where="x").runs


def cut(text: str, size: int) -> list[str]:
    return re.findall(rf"(?s).{{1,{size}}}", text)


def recording(lines: list[str], *, head: str) -> bytes:
    pieces = cut("\r\n".join(lines) + "\r\n", 41)
    return (head + "".join(json.dumps([0.5, "o", piece]) + "\n" for piece in pieces)).encode()


def first_recording(lines: list[str]) -> bytes:
    pieces = [[0.1, piece] for piece in cut("\r\n".join(lines) + "\r\n", 37)]
    return json.dumps({"version": 1, "width": 80, "stdout": pieces}).encode()


def latest_first(lines: list[str]) -> bytes:
    values = [[str(1_700_000_000_000_000_000 + n), line] for n, line in enumerate(lines)]
    return json.dumps({"data": {"result": [{"stream": {}, "values": values[::-1]}]}}).encode()


def hits_latest_first(lines: list[str]) -> bytes:
    hits = [{"_source": {"@timestamp": f"2025-03-04T05:{n // 60:02}:{n % 60:02}Z", "message": line}}
            for n, line in enumerate(lines)]  # fmt: skip
    return json.dumps({"hits": {"hits": hits[::-1]}}).encode()


def rows(lines: list[str]) -> bytes:
    return json.dumps({"tables": [{"rows": [["2025", "orin", line] for line in lines]}]}).encode()


def rich_text(lines: list[str]) -> bytes:
    said = "".join(line.replace("{", "\\{").replace("}", "\\}") + "\\par\r\n" for line in lines)
    fonts = "{\\fonttbl{\\f0\\fnil Consolas;}}{\\*\\generator Riched20 10.0}"
    return ("{\\rtf1\\ansi\\deff0" + fonts + "\\f0\\fs22 " + said + "}").encode()


def rich_text_with_firm_blanks(lines: list[str]) -> bytes:
    text = "\\\n".join(line.replace("{", "\\{").replace("}", "\\}") for line in lines)
    text = text.replace(" = ", "\\'a0=\\u160  ").replace(" ms", "\\~ms")
    return ("{\\rtf1\\ansi\\cocoartf2639\n\\f0\\fs24 \\cf0 " + text + "}").encode()


def word_document(lines: list[str]) -> bytes:
    runs = ("".join(f"<w:r><w:rPr/><w:t>{html.escape(each)}</w:t></w:r>" for each in cut(line, 17))
            for line in lines)  # fmt: skip
    body = "".join(f"<w:p><w:pPr/>{run}</w:p>" for run in runs)
    head = '<?xml version="1.0"?>\n<w:document xmlns:w="x"><w:body>'
    return f"{head}{body}</w:body></w:document>".encode()


def lines_twice(lines: list[str]) -> bytes:
    """Ansible keeps what was said as a text and once more as lines."""
    return json.dumps(
        {"hosts": {"a": {"stdout": "\n".join(lines), "stdout_lines": lines}}}
    ).encode()


def old_blanks(lines: list[str]) -> bytes:
    return as_text(lines).replace(" = ", "\xa0=\xa0").replace(" ms", "\xa0ms").encode("latin-1")


def commas(lines: list[str]) -> bytes:
    return re.sub(r"(?<=\d)\.(?=\d)", ",", as_text(lines)).encode()


def ended_by(lines: list[str], *, mark: str) -> bytes:
    return "".join(f"{line}{mark}" for line in lines).encode()


DOCUMENTS: dict[str, Callable[[list[str]], bytes]] = {
    "asciinema 1": first_recording,
    "asciinema 2": partial(recording, head='{"width": 80, "height": 24, "version": 2}\n'),
    "asciinema 3": partial(recording, head='{"version":3,"term":{"cols":80}}\n# words\n'),
    "Loki": latest_first,
    "Elasticsearch": hits_latest_first,
    "rows of three": rows,
    "RTF": rich_text,
    "Word": word_document,
    "RTF of a Mac": rich_text_with_firm_blanks,
    "Ansible": lines_twice,
    "Latin-1": old_blanks,
    "decimal commas": commas,
    "line separators": partial(ended_by, mark="\u2028"),
    "vertical tabs": partial(ended_by, mark="\v"),
}


@pytest.mark.parametrize("lines", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_number_survives_a_document(name: str, lines: list[str]) -> None:
    check(DOCUMENTS[name](lines), lines)


def test_two_runs_stay_two_behind_a_prefix_nobody_listed() -> None:
    both = [*BARE, "and", *(line.replace("1234.5", "77.25") for line in BARE)]
    found = read_log(wrapped(both, NOBODY_LISTED["spring"]), where="x")
    assert [run.summary.throughput_qps for run in found.runs if run.summary] == [1234.5, 77.25]


def test_a_secret_in_what_is_not_shown_of_a_line_is_known() -> None:
    """Whoever copies the file must not take it for one without secrets."""
    link = "\x1b]8;;https://jane:hunter2@host/\x07see\x1b]8;;\x07"
    text = logs.log_82().replace("Throughput", f"{link} Throughput", 1)
    assert read_log(text, where="x").has_secrets
    assert not read_log(logs.log_82(), where="x").has_secrets
