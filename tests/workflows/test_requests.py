"""A request describes its fields once: flags, arguments, settings and axes are made from there."""

import importlib
import importlib.util
import pkgutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

import trtbench
from trtbench import cli, verbs
from trtbench.cli import OLD_VERBS, command_from_verb
from trtbench.core.errors import BrokenRuleError, UsageError
from trtbench.data import demo_file
from trtbench.requests import fields, measure, models, stored
from trtbench.requests.measure import BenchRequest, CompareRequest
from trtbench.requests.models import CheckRequest, EvalRequest
from trtbench.verbs._verb import Verb, View, request_from_arguments

ROOT = Path(__file__).resolve().parents[2]


def all_requests() -> Iterator[type[fields.VerbRequest]]:
    own = [
        importlib.import_module(f"{verbs.__name__}.{each.name}")
        for each in pkgutil.iter_modules(verbs.__path__)
    ]
    for module in (models, measure, stored, *own):
        for name, value in vars(module).items():
            if name.endswith("Request") and value.__module__ == module.__name__:
                yield value


def command_of(request: type[fields.VerbRequest], see: Callable[[Any], None]) -> click.Command:
    verb = Verb(request, lambda asked, caller: see(asked), lambda *shown: None, View, doc="Try.")
    return command_from_verb("try", verb)


@pytest.mark.parametrize("request_type", list(all_requests()), ids=lambda each: each.__name__)
def test_what_is_not_typed_is_as_a_python_user_gets_it(
    request_type: type[fields.VerbRequest],
) -> None:
    seen: list[fields.VerbRequest] = []

    command = command_of(request_type, seen.append)

    words: list[str] = []
    for field in fields.fields_of(request_type):
        if field.is_required:
            word = field.choices[0] if field.choices else "x"
            words += [word] if isinstance(field.about, fields.Argument) else [field.flag, word]
    done = CliRunner().invoke(command, words)
    assert done.exception is None, done.output
    for field in fields.fields_of(request_type):
        if not field.is_required:
            value = getattr(seen[0], field.name)
            assert str(value) == str(field.default) or not (value or field.default), field.name


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"batch": "8"}, "--batch must be an integer, not '8'"),
        ({"warmup": -1.0}, "-1.0 s is not a valid duration"),
        ({"rate": 0.0}, "above zero"),
        ({"rate": float("nan")}, "above zero"),
        ({"rate": float("inf")}, "finite"),
        ({"protocol": "serv"}, "--protocol serv is not valid"),
        ({"address": "head:6379"}, "needs an executor"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_said_to_python_users_too(
    given: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        BenchRequest(model="m.onnx", **given)  # type: ignore[arg-type]


def test_only_fields_that_mean_the_same_are_handed_on() -> None:
    asked = EvalRequest(models=["m.onnx"], task="depth", data="d", warmup="10%", batch=4)
    one = fields.converted(asked, BenchRequest, model="m.onnx")
    assert one.batch == 4
    assert one.warmup is None, "of eval it is a part of the batches, of bench a time"
    pair = CompareRequest(baseline="a.onnx", launches=7, threads=2, runtime=("x", "y"))
    one = fields.converted(pair, BenchRequest, model="a.onnx")
    assert (one.threads, one.launches, one.runtime) == (2, None, None)


def test_users_editors_know_the_arguments(tmp_path: Path) -> None:
    """A type checker takes the words of the flags and refuses others."""
    script = tmp_path / "mine.py"
    script.write_text(
        "import trtbench\n"
        'trtbench.bench("m.onnx", batch=8, warmup="500ms", protocol="serve").times\n'
        'trtbench.quantize("m.onnx", precision="int8", data="random").difference\n'
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


def test_a_series_is_a_list_or_one_or_the_rest_of_the_arguments() -> None:
    for arguments in ((["a", "b"],), ("a", "b")):
        made = request_from_arguments(EvalRequest, arguments, {"task": "depth", "data": "d"})
        assert list(made.models) == ["a", "b"]
    assert CheckRequest("a", Path("b")).candidates == (Path("b"),)


def test_verbs_that_are_now_part_of_others_are_understood() -> None:
    for verb, (now, *_) in OLD_VERBS.items():
        said = CliRunner().invoke(cli.trtbench, [verb, "--help"], prog_name="trtbench")
        assert said.output.startswith(f"Usage: trtbench {now}")


def test_a_check_from_python_judges_its_rules_and_refuses_nonsense(place: Path) -> None:
    sides = demo_file("digits.onnx"), demo_file("digits.int8.onnx")
    with pytest.raises(UsageError):
        trtbench.check(*sides, random=4, floor="off", expect=["no rule at all"])
    assert not (place / "store").exists(), "refused before anything is run"
    with pytest.raises(BrokenRuleError, match="expectation failed"):
        trtbench.check(*sides, random=4, floor="off", expect=["max_abs<=1e-7"])
    assert list(place.glob("store/results/check-*/check.json")), "what was found is kept"
    assert [path.name for path in place.iterdir()] == ["store"], "and nothing else is written"
