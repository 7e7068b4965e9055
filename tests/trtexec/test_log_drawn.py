"""Logs as screens, pages, tickets and tables keep them, of every generation of trtexec."""

from __future__ import annotations

import csv
import html
import io
import itertools
import json
import re
import textwrap
from collections.abc import Callable

import pytest
from test_log_wrapped import as_text

import logs
from trtbench.trtexec.log import read_log
from trtbench.trtexec.reported import reported_from_log
from trtbench.trtexec.sniff import kind_of_stream

Document = Callable[[list[str]], str]
GENERATIONS = (logs.log_10, logs.log_82, logs.log_7, logs.log_5)


def numbers(text: str) -> list[dict[str, object]]:
    """Read the numbers of each run, if sniffer and reader agree that it is a log."""
    assert kind_of_stream(io.BytesIO(text.encode()), name="notes")[0] == "log"
    found = read_log(text, where="notes")
    assert found.summaries == sum(run.summary is not None for run in found.runs)
    return [dict(reported_from_log(run)) for run in found.runs if run.summary]


def hard(width: int) -> Document:
    return lambda lines: as_text(
        [line[at : at + width] for line in lines for at in range(0, len(line) or 1, width)]
    )


def soft(width: int) -> Document:
    return lambda lines: as_text(
        [part for line in lines for part in textwrap.wrap(line, width, break_on_hyphens=False)]
    )


def quoted(width: int) -> Document:
    return lambda lines: as_text([f"> {part}" for part in soft(width)(lines).splitlines()])


def table(lines: list[str], **options: object) -> str:
    out = io.StringIO()
    writer = csv.writer(out, **options)  # type: ignore[arg-type]
    writer.writerow(["time", "host", "message"])
    writer.writerows(
        [f"2025-03-04 05:06:{n % 60:02}.1", "o-1", line] for n, line in enumerate(lines)
    )
    return out.getvalue()


def cell(lines: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows([["id", "log", "rc"], [1, as_text(lines), 0]])
    return out.getvalue()


def folded_yaml(lines: list[str]) -> str:
    """Break a quoted text at a width, as writers of YAML do."""
    parts = textwrap.wrap("\\n".join(lines), 76, break_on_hyphens=False, break_long_words=False)
    return 'log: "' + "\\\n  \\ ".join(parts) + '"\nrc: 0\n'


def in_script(lines: list[str]) -> str:
    value = json.dumps({"job": {"log": as_text(lines)}}).replace("&", "\\u0026")
    return f"<!DOCTYPE html><html><body><b>CI</b><script>window.x = {value};</script></body></html>"


def in_attribute(lines: list[str]) -> str:
    return f'<html><body><div data-log="{html.escape(as_text(lines))}"></div></body></html>'


def xml_of_lines(lines: list[str]) -> str:
    rows = "".join(f"<Event><Data>{html.escape(line)}</Data></Event>" for line in lines)
    return f'<?xml version="1.0"?><Events>{rows}</Events>'


def numbered_cells(lines: list[str]) -> str:
    rows = enumerate(map(html.escape, lines))
    return "<table>" + "".join(f"<tr><td>{n}</td><td>{x}</td></tr>" for n, x in rows) + "</table>"


def forward(lines: list[str]) -> str:
    """Have a screen leave blanks out."""
    return as_text([re.sub(" +", lambda gap: f"\x1b[{len(gap[0])}C", line) for line in lines])


def placed(lines: list[str]) -> str:
    return "\x1b[2J" + "".join(f"\x1b[{n};1H{line}\x1b[K" for n, line in enumerate(lines, 1))


def recorded(lines: list[str]) -> str:
    """Cut what a terminal was sent anywhere."""
    sent = "\r\n".join(lines) + "\r\n"
    pieces = [sent[at : at + 97] for at in range(0, len(sent), 97)]
    events = [json.dumps([n / 10, "o", piece]) for n, piece in enumerate(pieces)]
    return as_text([json.dumps({"version": 2, "width": 80, "height": 24}), *events])


def notebook_of_another_kind(lines: list[str]) -> str:
    result = {"type": "ansi", "data": as_text(lines)}
    return json.dumps({"version": "V1", "commands": [{"command": "%sh b", "results": result}]})


def mark(before: str, after: str = "") -> Document:
    return lambda lines: as_text([f"{before}{line}{after}" for line in lines])


DOCUMENTS: dict[str, Document] = {
    **{f"broken at {width}": hard(width) for width in (40, 45, 50, 64, 80, 100)},
    **{f"broken at blanks to {width}": soft(width) for width in (40, 45, 50, 64, 76)},
    "broken and quoted": quoted(48),
    "rows of a table": table,
    "quoted rows of a table": lambda lines: table(lines, quoting=csv.QUOTE_ALL),
    "rows with semicolons": lambda lines: table(lines, delimiter=";"),
    "cell": cell,
    "yaml": folded_yaml,
    "list of yaml": lambda lines: "out:\n" + as_text([f"- '{line}'" for line in lines]),
    "script": in_script,
    "attribute": in_attribute,
    "xml": xml_of_lines,
    "numbered cells": numbered_cells,
    "forward": forward,
    "placed": placed,
    "recording": recorded,
    "another notebook": notebook_of_another_kind,
    "text of Python": lambda lines: repr(as_text(lines)),
    "padded": lambda lines: as_text([f"{line:<200}" for line in lines]),
    "box": lambda lines: as_text([f"| {line:<150} |" for line in lines]),
    "panel": lambda lines: as_text([f"│ {line:<150} │" for line in lines]),
    "narrow blank": lambda lines: as_text([line.replace(" ms", "\u202fms") for line in lines]),
    "marks of a build server": mark("\x1b_bk;t=1714910400123\x07"),
    "seconds": mark("(  1.500s) "),
    "code": mark("`", "`"),
    "semicolons": mark(";; "),
    "percent": mark("% "),
    "tex": mark("\\texttt{", "}\\\\"),
    "jira": lambda lines: "h2. Run\n{noformat}\n" + as_text(lines) + "{noformat}\n",
    "ascii doc": lambda lines: "[source]\n----\n" + as_text(lines) + "----\n",
}


@pytest.mark.parametrize("log", GENERATIONS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_number_survives(name: str, log: Callable[[], str]) -> None:
    assert numbers(DOCUMENTS[name](log().splitlines())) == numbers(log())


@pytest.mark.parametrize("log", GENERATIONS)
@pytest.mark.parametrize("breaking", [hard, soft, quoted])
def test_whatever_the_width_no_number_is_another(
    breaking: Callable[[int], Document], log: Callable[[], str]
) -> None:
    (told,) = numbers(log())
    for width in range(28, 64):
        runs = read_log(breaking(width)(log().splitlines()), where="x").runs
        (found,) = [reported_from_log(run) for run in runs if run.summary]
        assert found.items() <= told.items(), width


def test_a_banner_that_was_broken_tells_version_and_command() -> None:
    lines = logs.log_10().replace("--fp16", "--fp16 --saveEngine=/models/a/long/name.engine")
    (plain,) = read_log(lines, where="x").runs
    for breaking in (hard(50), soft(44), hard(80)):
        (run,) = read_log(breaking(lines.splitlines()), where="x").runs
        assert (run.version, run.build, run.command) == (plain.version, plain.build, plain.command)
        assert run.outcome == "passed"


def test_what_was_typed_and_taken_back_is_no_part_of_a_command() -> None:
    typed = "$ trtexec --onnx=a.onnx --int9\b\x1b[K\b\x1b[K\b\b\x1b[Kfp16\r\n"
    (run,) = read_log(typed + "\r\n".join(logs.log_10().splitlines()[1:-1]), where="x").runs
    assert run.command == "trtexec --onnx=a.onnx --fp16"


def test_a_page_that_shows_a_log_and_holds_it_once_more_has_one() -> None:
    shown = f"<html><body><pre>{html.escape(logs.log_10())}</pre>"
    kept = f"<script>var x = {json.dumps(logs.log_10())}</script></body></html>"
    assert numbers(shown + kept) == numbers(logs.log_10())


LANES = (
    "<{}> ", "({}) ", "node{} 2025-03-04T05:06:07Z ", "rank{}> ", "gpu={} ", "#{} ", "[10{}] ",
    "@job{} ", "gpu{},", "gpu{} >> ", "gpu{}: ",
)  # fmt: skip


@pytest.mark.parametrize("lane", LANES)
@pytest.mark.parametrize("log", GENERATIONS)
def test_whatever_names_who_spoke_two_logs_are_not_blended(
    lane: str, log: Callable[[], str]
) -> None:
    texts = (log(), re.sub(r"\b([2-9])(?=[\d.]* (?:ms|s|qps)\b)", r"1\1", log()))
    sides = [[lane.format(k) + x for x in text.splitlines()] for k, text in enumerate(texts)]
    mixed = as_text(list(itertools.chain.from_iterable(zip(*sides, strict=True))))
    assert numbers(mixed) == [numbers(text)[0] for text in texts]
    assert numbers(texts[0]) != numbers(texts[1])
