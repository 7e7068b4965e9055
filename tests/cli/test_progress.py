"""Progress: a total that does not move, the time left, and the same in Python."""

import io
import re
import sys
from pathlib import Path
from typing import Any

import pytest

import trtbench
from command import QUICK, Say
from models import conv_model, tiny_model
from trtbench.requests.execution import Event
from trtbench.verbs import _screen, _verb
from trtbench.verbs._screen import ProgressDisplay


class Notebook(io.StringIO):
    """stderr as a notebook has it."""

    __module__ = "ipykernel.iostream"


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((_screen, "PLAIN_LINE_S"), (_screen, "LEAST_ELAPSED_S")):
        monkeypatch.setattr(module, name, 0.0)
    monkeypatch.setattr(_verb, "PATIENCE_S", 0.0)


def test_launches_and_candidates_count_towards_one_total(say: Say) -> None:
    for name in ("a.onnx", "b.onnx", "c.onnx"):
        tiny_model(Path(name))
    said = say("bench", "a.onnx", "--launches", "3", *QUICK).err
    assert re.search(r"about [\d.]+ s left · launch 2/3: measuring", said)
    turns = ("--launches", "2", "--pairs", "10", "--max-launches", "6")
    said = say("compare", "a.onnx", "b.onnx", "c.onnx", *turns).err
    launches = re.findall(r"candidate (\d)/2: launch (\d) of at most (\d+), both", said)
    assert {most for _, _, most in launches} == {"6"}
    assert {number for number, _, _ in launches} == {"1", "2"}
    assert "at most" in said.rpartition("left")[0]


def test_the_time_that_builds_take_is_known_from_earlier_ones(
    say: Say, trtexec: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what follows them; the progress of a sweep is switched off as any other."""
    conv_model(Path("net.onnx"))
    build = ("build", "net.onnx", "-r", "trtexec")
    assert re.search(r"building \(\d+ s, no estimate yet\)", say(*build).err)
    assert re.search(r"net.engine: about [\d.]+ m?s left · building", said := say(*build).err)
    assert "no estimate yet" not in said
    alone = ("--store", "other", *QUICK[:-1])
    said = say("bench", "net.onnx", "-r", "trtexec", "--batch", "3", *alone).err
    assert re.search(r"build: building \(\d+ s, no estimate yet\)", said)
    sweep = ("sweep", "net.onnx", "-r", "trtexec", "--axis", "iterations=20", "--format", "none")
    said = say(*sweep, "--batch", "1,2").err
    steps = re.findall(r"sweep: (?:about ([\d.]+) s left · )?\[(\d/\d)\] (build|net)", said)
    known = [bool(left) for left, _, what in steps if what == "build"]
    assert known[-1], known  # the first is known where the model was built before
    assert {count for _, count, what in steps if what == "build"} == {"0/2"}
    assert re.search(r"build net, as-is, batch 2 \(\d+ s of about \d+ s\)", said)
    assert all(left for left, _, what in steps if what == "net")
    said = say("bench", "net.onnx", "-r", "trtexec", "--batch", "4", *QUICK[:-1]).err
    assert re.search(r"about [\d.]+ s left · build: building", said)
    monkeypatch.setenv("TRTBENCH_PROGRESS", "0")
    said = say(*sweep, "--batch", "8,16", "-o", "out").err
    assert "build" not in said
    assert said.count("done: net") == 2


def test_no_time_follows_from_stages_that_measure_nothing(say: Say) -> None:
    conv_model(Path("net.onnx"))
    said = say("quantize", "net.onnx", "--precision", "int8", "--random", "64").err
    assert re.search(r"net.onnx: (loading|saving|comparing)", said), said
    assert re.search(r"left · calibrating, batch", said), said
    assert not re.search(r"left · (loading|saving|comparing)", said), said


@pytest.mark.parametrize(
    ("events", "shown"),
    [
        (  # a build of a minute before does not make it ten minutes because 10 % are done
            {
                0: Event(kind="stage", text="build", rest_s=20.0),
                20: Event(kind="stage", text="build", seconds=40.0, rest_s=20.0),
                40: Event(kind="tick", text=""),
                61: Event(kind="stage", text="measure", done=0.0),
                63: Event(kind="stage", text="measure", done=0.1),
            },
            [("0", ""), ("25", "60"), ("50", "40"), ("75", ""), ("78", "18")],
        ),
        (  # a stage of known length moves it, waiting is no work, and it never goes back
            {
                0: Event(kind="wait", text="waiting for cpu"),
                100: Event(kind="stage", text="measure", done=0.2, seconds=8.0, until=0.8),
                104: Event(kind="tick", text=""),
                105: Event(kind="stage", text="again", done=0.1),
            },
            [("20", "8"), ("50", "4"), ("58", "4")],
        ),
    ],
)
def test_what_is_done_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch, events: dict[int, Event], shown: list[tuple[str, str]]
) -> None:
    seen, now = Notebook(), [0.0]
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setattr(_screen.time, "monotonic", lambda: now[0])
    with ProgressDisplay("x") as listen:
        for at_s, event in events.items():
            now[0] = float(at_s)
            listen(event)
    assert re.findall(r"x: (\d+)% · (?:about (\d+) s left)?", seen.getvalue()) == shown


@pytest.mark.parametrize(("wanted", "shown"), [("1", True), ("0", False)])
def test_python_shows_progress_in_a_notebook_as_one_line(
    wanted: str, shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Notebook()
    monkeypatch.setattr(sys, "stderr", seen)
    monkeypatch.setenv("TRTBENCH_PROGRESS", wanted)
    trtbench.bench(
        tiny_model(tmp_path / "a.onnx"), launches=2, duration="20ms", warmup="1ms",
        until_steady=False, threads=1, store=tmp_path / "store",
    )  # fmt: skip
    lines = seen.getvalue().split("\r")
    assert (len(lines) > 4) == shown
    assert any(re.search(r"a.onnx: \d+% · about .* left · launch 2/2", x) for x in lines) == shown
    assert "\n" not in seen.getvalue()
    assert not lines[-1], "the line is left standing"
