"""A request describes its fields once: flags, arguments, settings and axes are made from there."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import click
import pytest
from click.testing import CliRunner

from trtbench.analysis.check import ATOL, RTOL
from trtbench.analysis.verdict import MARGIN
from trtbench.cli._flags import flags
from trtbench.errors import UsageError
from trtbench.workflows.request import (
    comparing,
    explaining,
    judging,
    keeping,
    making,
    measuring,
    sweeping,
)
from trtbench.workflows.request.comparing import CompareRequest
from trtbench.workflows.request.fields import (
    Argument,
    Option,
    VerbRequest,
    converted,
    fields_of,
    request_from_arguments,
)
from trtbench.workflows.request.judging import CheckRequest, EvalRequest, LocalizeRequest
from trtbench.workflows.request.kinds import TIME, Duration
from trtbench.workflows.request.measuring import BenchRequest
from trtbench.workflows.request.spec import pick
from trtbench.workflows.sweep.matrix import FLAGS

ROOT = Path(__file__).resolve().parents[2]


def all_requests() -> Iterator[type[VerbRequest]]:
    for module in (comparing, explaining, judging, keeping, making, measuring, sweeping):
        for name, value in vars(module).items():
            if name.endswith("Request") and value.__module__ == module.__name__:
                yield value


@pytest.mark.parametrize("request_type", list(all_requests()), ids=lambda each: each.__name__)
def test_every_field_says_what_it_means(request_type: type[VerbRequest]) -> None:
    flags_seen: set[str] = set()
    for field in fields_of(request_type):
        assert field.about.help.endswith((".", ")", "]")), field.name
        assert (
            field.about.help[0].isupper()
            or not field.about.help[0].isalpha()
            or (" " in field.about.help)
        ), field.name
        if isinstance(field.about, Option):
            own = {part for flag in field.flags for part in flag.split("/")}
            assert not own & flags_seen, f"{field.name}: {own & flags_seen} is taken"
            flags_seen |= own


@pytest.mark.parametrize("request_type", list(all_requests()), ids=lambda each: each.__name__)
def test_what_is_not_typed_is_as_a_python_user_gets_it(request_type: type[VerbRequest]) -> None:
    seen: list[VerbRequest] = []

    @click.command()
    @flags(request_type)
    def command(request: VerbRequest) -> None:
        seen.append(request)

    words: list[str] = []
    for field in fields_of(request_type):
        if field.is_required:
            word = field.choices[0] if field.choices else "x"
            words += [word] if isinstance(field.about, Argument) else [field.flag, word]
    done = CliRunner().invoke(command, words)
    assert done.exception is None, done.output
    for field in fields_of(request_type):
        if not field.is_required:
            value = getattr(seen[0], field.name)
            assert str(value) == str(field.default) or not (value or field.default), field.name


@dataclass(frozen=True, kw_only=True)
class Longer(BenchRequest):
    """As bench, and one line more."""

    patience: Annotated[
        Duration | None, Option("Rest before it begins.", kind=TIME, axis=True, setting=True)
    ] = None
    mood: Annotated[Literal["calm", "hasty"], Option("How it goes about it.")] = "calm"


def test_a_new_field_is_one_line() -> None:
    seen: list[Longer] = []

    @click.command()
    @flags(Longer)
    def command(request: Longer) -> None:
        seen.append(request)

    runner = CliRunner()
    done = runner.invoke(command, ["m.onnx", "--patience", "5ms", "--mood", "hasty", "--batch=2"])
    assert done.exit_code == 0, done.output
    assert (seen[0].patience, seen[0].mood, seen[0].batch) == ("5ms", "hasty", 2)
    shown = runner.invoke(command, ["--help"]).output
    assert "--patience TIME" in shown
    assert "[calm|hasty]" in shown
    with pytest.raises(UsageError, match="'5 parsecs' has the unknown unit"):
        Longer(model="m.onnx", patience="5 parsecs")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": 0}, "--batch must be at least 1, not 0"),
        ({"batch": "8"}, "--batch is a whole number, not '8'"),
        ({"batch": True}, "--batch is a whole number"),
        ({"warmup": -1.0}, "a length of -1.0 s has no meaning"),
        ({"warmup": "5"}, "has no unit"),
        ({"rate": 0.0}, "above zero"),
        ({"rate": float("nan")}, "above zero"),
        ({"rate": float("inf")}, "finite"),
        ({"protocol": "serv"}, "--protocol serv has no meaning"),
        ({"memory_limit": "8 parsecs"}, "unknown unit"),
        ({"shapes": {"x": (0, 3)}}, "holds nothing"),
        ({"timeout": 0}, "lets nothing be measured"),
        ({"address": "head:6379"}, "says nothing without an executor"),
        ({"beside": 2}, "says nothing without an executor"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_said_to_python_users_too(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        BenchRequest(model="m.onnx", **given)  # type: ignore[arg-type]


def test_only_fields_that_mean_the_same_are_handed_on() -> None:
    asked = EvalRequest(models=["m.onnx"], task="depth", data="d", warmup="10%", batch=4)
    one = converted(asked, BenchRequest, model="m.onnx")
    assert one.batch == 4
    assert one.warmup is None, "of eval it is a part of the batches, of bench a time"
    pair = CompareRequest(baseline="a.onnx", launches=7, threads=2, runtime=("x", "y"))
    one = converted(pair, BenchRequest, model="a.onnx")
    assert (one.threads, one.launches, one.runtime) == (2, None, None)


def test_one_value_for_all_sides_or_one_for_each() -> None:
    assert pick("torch", 1, 2, what="-r") == "torch"
    assert pick(("torch", None), 1, 2, what="-r") is None
    assert pick(None, 0, 2, what="-r") is None
    with pytest.raises(UsageError, match="given 3 times for 2 sides"):
        pick(("a", "b", "c"), 0, 2, what="-r")


def test_axes_of_sweeps_are_fields_of_bench() -> None:
    names = {field.name for field in fields_of(BenchRequest)}
    assert set(FLAGS) <= names
    assert {"threads", "duration", "protocol", "streams", "lock_clocks"} <= set(FLAGS)
    assert not {"model", "store", "tags", "timeout"} & set(FLAGS)


def test_defaults_are_those_of_the_analysis() -> None:
    fields = {field.name: field.default for field in fields_of(CheckRequest)}
    assert (fields["rtol"], fields["atol"]) == (RTOL, ATOL)
    assert CompareRequest(baseline="a").margin_part == MARGIN


def test_what_has_its_place_comes_first_and_the_store_last() -> None:
    fields = fields_of(BenchRequest)
    assert isinstance(fields[0].about, Argument)
    assert fields[0].name == "model"
    assert fields[-1].name == "store"


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_python_api_is_as_the_requests_say() -> None:
    made = tool("make_api").api_text()
    assert (ROOT / "src" / "trtbench" / "api.py").read_text() == made, "python tools/make_api.py"


def test_the_reference_is_as_the_requests_say() -> None:
    made = tool("make_reference").pages()
    folder = ROOT / "docs" / "reference"
    assert {path.name for path in folder.glob("*.md")} == set(made), "make reference"
    for name, text in made.items():
        assert (folder / name).read_text() == text, f"make reference ({name})"
    flags_there = made["gate.md"]
    assert "`--max-slowdown PERCENT`" in flags_there
    assert "max_slowdown: Fraction" in flags_there


def test_users_editors_know_the_arguments(tmp_path: Path) -> None:
    """A type checker takes the words of the flags and refuses others."""
    script = tmp_path / "mine.py"
    script.write_text(
        "import trtbench\n"
        'trtbench.bench("m.onnx", batch=8, warmup="500ms", protocol="serve").times\n'
        'trtbench.quantize("m.onnx", precision="int8", calibration="random").difference\n'
        'trtbench.bench("m.onnx", bacth=8)\n'
        'trtbench.quantize("m.onnx", precision="int9")\n'
    )
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--no-site-packages",
         "--ignore-missing-imports", "--follow-imports=silent", str(script)],
        capture_output=True, text=True, check=False,
        cwd=ROOT,
    )  # fmt: skip
    lines = [line for line in done.stdout.splitlines() if "mine.py" in line and "error" in line]
    assert [line.split(":")[1] for line in lines] == ["4", "5"], done.stdout + done.stderr
    assert '"bacth"' in lines[0]


def test_arguments_that_say_nothing_leave_a_field_as_it_is() -> None:
    said = {"reference": "a.onnx", "candidate": "b.onnx", "shapes": None, "limit": None, "seed": 3}
    made = request_from_arguments(LocalizeRequest, said)
    assert made.shapes == {}  # cannot be None
    assert made.limit is None  # can, and means all
    assert (made.seed, made.batch) == (3, LocalizeRequest(reference="a", candidate="b").batch)
    with pytest.raises(TypeError, match="candidate"):
        request_from_arguments(LocalizeRequest, {"reference": "a.onnx"})
