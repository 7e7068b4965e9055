"""What CONTRIBUTING.md says under "To add ..." is enough: a verb, a flag, a rule, a setting.

Runtimes, tasks with their metrics and sections are tried by test_example_plugins.py.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import trtbench

SOURCE = Path(trtbench.__file__).resolve().parent
DIGITS = SOURCE / "data" / "demo" / "digits.onnx"
FEW = ("--iterations", "20", "--duration", "0s", "--warmup", "0s", "--no-until-steady")
Command = Callable[..., str]

VERB = '''"""Count the runs of a store.

Examples:
  trtbench count
"""

from __future__ import annotations

from trtbench.requests.fields import (StoreFields, option)
from trtbench.verbs._screen import write
from trtbench.verbs._verb import Caller, Verb, View, python_function


class CountRequest(StoreFields):
    """Which runs are counted."""

    twice: bool = option(False, "Count every run two times.")


def run(request: CountRequest, caller: Caller) -> int:
    store, _ = caller.store_and_settings(request)
    return len(store.index.find()) * (2 if request.twice else 1)


def show(count: int, request: CountRequest, view: View) -> None:
    write(f"{count} runs")


verb = Verb(CountRequest, run, show, View)
count = python_function(CountRequest, run)
'''
RULE = '''

@rule("H99", "a run of this test", "note")
def of_this_test(e: Evidence, at: Limits) -> Iterator[Hit]:
    """every run. Source: a test."""
    yield Hit("seen by the new rule", {}, "nothing to do")
'''


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package, to be changed."""
    left_out = shutil.ignore_patterns("__pycache__")
    return shutil.copytree(SOURCE, tmp_path / "src" / "trtbench", ignore=left_out)


@pytest.fixture
def command(package: Path, tmp_path: Path) -> Command:
    """Runs the command line of the copy."""
    own = {"PYTHONPATH": str(package.parent), "TRTBENCH_STORE": str(tmp_path / "store")}

    def run(*words: object) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "trtbench", *map(str, words)], cwd=tmp_path,
            env={**os.environ, **own}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == (3 if words[0] == "compare" else 0), done.stderr
        return done.stdout

    return run


def insert(path: Path, before: str, text: str) -> None:
    content = path.read_text()
    assert before in content
    path.write_text(content.replace(before, text + before, 1))


def test_a_verb_with_a_flag_is_one_file(package: Path, command: Command) -> None:
    (package / "verbs" / "count.py").write_text(VERB)
    assert "count" in command("--help")
    assert "Count every run two times." in command("count", "--help")
    command("bench", DIGITS, *FEW)
    assert command("count", "--twice") == "2 runs\n"


def test_a_rule_is_one_function(package: Path, command: Command) -> None:
    rules = package / "analysis" / "findings" / "rules.py"
    rules.write_text(rules.read_text() + RULE)
    assert "seen by the new rule" in command("bench", DIGITS, *FEW, "--explain")


def test_a_setting_of_bench_is_two_fields(package: Path, command: Command) -> None:
    """It is recorded, labels runs, and makes them incomparable, without another line."""
    field = "    colour: str | None = None\n"
    insert(package / "core" / "spec.py", "    streams: int = 1\n", field)
    insert(
        package / "requests" / "measure.py",
        "    separate_profile_run: bool",
        '    colour: str | None = option(None, "Of the machine\'s case.")\n',
    )
    for colour in ("red", "blue"):
        command("bench", DIGITS, *FEW, "--colour", colour, "--tag", colour)
    assert '"colour": "blue"' in command("runs", "show", "last", "--json")
    assert "colour" in command("compare", "tag:red", "tag:blue", "--json")
    command("report", "tag:red", "tag:blue", "-o", "report", "--format", "md")
    shown = Path(package.parents[1], "report", "report.md").read_text()
    assert "colour red" in shown
    assert "colour blue" in shown
