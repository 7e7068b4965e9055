"""Logs that mails, tickets, code and packers changed: broken, joined, quoted, packed, mixed."""

from __future__ import annotations

import base64
import bz2
import gzip
import html
import io
import itertools
import json
import lzma
import pprint
import quopri
import textwrap
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from test_log_wrapped import Numbers, as_text, check, summaries

import logs
from trtbench.trtexec import _log_packed
from trtbench.trtexec.log import read_log
from trtbench.trtexec.reported import reported_from_log
from trtbench.trtexec.sniff import kind_of_stream

Made = tuple[list[str], Numbers]
Wrap = Callable[[str, int], str]


def broken_at_blanks(lines: list[str]) -> str:
    return as_text([part for line in lines for part in textwrap.wrap(line, 72)])


def broken_and_quoted(lines: list[str]) -> str:
    return as_text([f"> {part}" for line in lines for part in textwrap.wrap(line, 70)])


def broken_anywhere(lines: list[str]) -> str:
    return as_text([line[at : at + 80] for line in lines for at in range(0, len(line), 80)])


def one_line(lines: list[str]) -> str:
    return " ".join(lines) + "\n"


def cell_of_a_table(lines: list[str]) -> str:
    return f"| net | output |\n|---|---|\n| a | {'<br>'.join(lines)} |\n"


def rows_of_a_table(lines: list[str]) -> str:
    rows = [line.split("] [I] ")[-1].partition(": ") for line in lines[1:]]
    return "| what | value |\n|---|---|\n" + as_text([f"| {a} | {b} |" for a, _, b in rows])


def representation(lines: list[str]) -> str:
    return f"CompletedProcess(args=['trtexec'], returncode=0, stdout={as_text(lines)!r}, stderr='')"


def representation_of_bytes(lines: list[str]) -> str:
    return f"stdout: {as_text(lines).encode()!r}\n"


def list_of_lines(lines: list[str]) -> str:
    return f"{lines!r}\n"


def printed_prettily(lines: list[str]) -> str:
    return pprint.pformat(as_text(lines)) + "\n"


def record_in_a_line(lines: list[str]) -> str:
    return "INFO answer: " + json.dumps({"code": 0, "stdout": as_text(lines)}) + "\n"


def records_of_lines(lines: list[str]) -> str:
    return as_text([json.dumps({"seconds": 1.5, "content": line}) for line in lines])


def answer_of_a_log_server(lines: list[str]) -> str:
    hits = [{"_id": n, "_source": {"message": line}} for n, line in enumerate(lines)]
    return json.dumps({"hits": {"hits": hits}})


def quoted_yaml(lines: list[str]) -> str:
    return 'name: a\nout: "' + "\\n".join(lines) + '"\n'


def cdata(lines: list[str]) -> str:
    out = f"<system-out><![CDATA[{as_text(lines)}]]></system-out>"
    return f'<?xml version="1.0"?>\n<testsuites><testcase name="t">{out}</testcase></testsuites>'


def page_of_firm_blanks(lines: list[str]) -> str:
    body = "<br/>".join(html.escape(line).replace(" ", "&nbsp;") for line in lines)
    return f"<html><body><p>{body}</p></body></html>"


def mail(lines: list[str]) -> str:
    body = quopri.encodestring(as_text(lines).encode()).decode()
    head = "From: a@b\nMIME-Version: 1.0\nContent-Type: text/plain; charset=utf-8\n"
    return f"{head}Content-Transfer-Encoding: quoted-printable\n\n{body}"


def mail_with_attachment(lines: list[str]) -> str:
    body = base64.encodebytes(as_text(lines).encode()).decode()
    return (
        "From: a@b\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=XX\n\n--XX\n"
        "Content-Type: text/plain\n\nsee below\n--XX\nContent-Type: text/plain; name=a.log\n"
        f"Content-Transfer-Encoding: base64\n\n{body}\n--XX--\n"
    )


def escaped_markdown(lines: list[str]) -> str:
    return as_text([line.replace("[", "\\[").replace("]", "\\]") for line in lines])


def bold_names(lines: list[str]) -> str:
    split = [line.split("] [I] ")[-1].partition(": ") for line in lines[1:]]
    return "**=== Performance summary ===**\n" + as_text([f"* **{a}**: {b}" for a, _, b in split])


def firm_colons(lines: list[str]) -> str:
    return as_text(
        [line.split("] [I] ")[-1].replace(": ", "\N{FULLWIDTH COLON}") for line in lines]
    )


def narrow(lines: list[str]) -> str:
    return as_text([line.replace(" = ", "=") for line in lines])


DOCUMENTS = (
    broken_at_blanks, broken_and_quoted, broken_anywhere, one_line, cell_of_a_table,
    rows_of_a_table, representation, representation_of_bytes, list_of_lines, printed_prettily,
    record_in_a_line, records_of_lines, answer_of_a_log_server, quoted_yaml, cdata,
    page_of_firm_blanks, mail, escaped_markdown, bold_names, firm_colons,
    narrow,
)  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("stamped", [True, False])
def test_every_number_survives(document: Callable[[list[str]], str], stamped: bool) -> None:
    @given(summaries(stamped=stamped))
    @settings(max_examples=12, deadline=None)
    def survives(made: Made) -> None:
        check(document(made[0]).encode(), [made[1]])

    survives()


@given(summaries())
@settings(max_examples=5, deadline=None)
def test_a_log_attached_to_a_mail_is_read(made: Made) -> None:
    data = mail_with_attachment(made[0]).encode()
    assert kind_of_stream(io.BytesIO(data), name="a.eml")[0] == "log"
    assert [reported_from_log(run) for run in read_log(data, where="x").runs] == [made[1]]


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
    monkeypatch.setattr(_log_packed, "MOST_UNPACKED", 1 << 20)
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
    words = "\u6d4b\u8bd5\u7ed3\u679c" * 10 + "\n"  # the result of a test
    check((words * 20 + as_text(first[0])).encode("utf-16-le"), [first[1]])


LANES: tuple[Callable[[str, int, str], str], ...] = (
    lambda who, n, line: f"(bench pid={ord(who)}, ip=10.0.0.1) {line}",
    lambda who, n, line: f"<14>1 2025-03-04T05:06:07Z host trtexec {ord(who)} - - {line}",
    lambda who, n, line: f"2025-03-04 05:06:07,{n:03} - worker-{who} - INFO - {line}",
    lambda who, n, line: f"[10.0.0.{ord(who)}] out: {line}",
    lambda who, n, line: f"node-{who}: {line}",
    lambda who, n, line: f"logs/{who}.log:{n}:{line}",
    lambda who, n, line: f"05:06:07 {who}.1 | {line}",
    lambda who, n, line: f"bench-{who}-0 main {line}",
)


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("stamped", [True, False])
def test_who_spoke_at_once_is_sorted_apart(
    lane: Callable[[str, int, str], str], stamped: bool
) -> None:
    @given(summaries(stamped=stamped), summaries(stamped=stamped))
    @settings(max_examples=8, deadline=None)
    def apart(first: Made, second: Made) -> None:
        sides = [[lane(who, n, line) for n, line in enumerate(made[0])]
                 for who, made in (("a", first), ("b", second))]  # fmt: skip
        mixed = [line for pair in itertools.zip_longest(*sides) for line in pair if line]
        check(as_text(mixed).encode(), [first[1], second[1]])

    apart()


PREFIXES: tuple[Wrap, ...] = (
    lambda line, n: f"03-04 05:06:07.123  1234  5678 I trtexec : {line}",
    lambda line, n: f"[2025-03-04, 05:06:07 UTC] {{subprocess.py:93}} INFO - {line}",
    lambda line, n: f'<165>1 2025-03-04T05:06:07Z host app 12 ID1 [a@1 b="3"] {line}',
    lambda line, n: f"__CURSOR=s=1;i={n}\nMESSAGE={line}\n",
    lambda line, n: f"\x1b]8;;http://x\x07{line}\x1b]8;;\x07",
    lambda line, n: f"[05:06:07] INFO     {line}     runner.py:42",
    lambda line, n: f"2025-03-04T05:06:07Z [info     ] {line} [bench.runner]",
)


@pytest.mark.parametrize("wrap", PREFIXES)
@given(summaries(stamped=False))
@settings(max_examples=10, deadline=None)
def test_more_prefixes(wrap: Wrap, made: Made) -> None:
    check(as_text([wrap(line, n) for n, line in enumerate(made[0])]).encode(), [made[1]])


def test_a_path_is_no_end_of_a_line() -> None:
    command = r"C:\new\trtexec.exe --onnx=C:\nets\net.onnx"
    text = logs.log_10().replace("trtexec --onnx=net.onnx --fp16", command)
    (run,) = read_log(text, where="x").runs
    assert run.command == command


def test_a_command_broken_in_two_is_whole() -> None:
    text = logs.log_10().replace("trtexec --onnx", "trtexec\n--best --onnx")
    (run,) = read_log(text, where="x").runs
    assert run.command == "trtexec --best --onnx=net.onnx --fp16"


def test_words_after_a_number_are_no_part_of_it() -> None:
    head = logs.lines("=== Performance summary ===", "Latency: min = 1 ms, max = 2 ms,")
    found = read_log(as_text([*head, "and that was slow", "trtexec --onnx=b.onnx",
                              *logs.lines("Throughput: 5 qps")]), where="x")  # fmt: skip
    assert [run.command for run in found.runs] == [None, "trtexec --onnx=b.onnx"]
