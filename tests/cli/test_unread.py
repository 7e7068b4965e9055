"""Output that nobody reads, that has no room, or that has nowhere to go."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from models import tiny_model
from trtbench.cli import run
from trtbench.core.errors import EXIT_FAILED, EXIT_UNREAD

COMMAND = [sys.executable, "-m", "trtbench"]
QUICK = ("--iterations", "5", "--warmup", "1ms", "--no-until-steady")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model and a run of it."""
    made = tmp_path_factory.mktemp("unread")
    model = tiny_model(made / "m.onnx")
    assert run(["bench", str(model), *QUICK, "--store", str(made / "runs")]) == 0
    return made


def status_and_talk(words: list[str], cwd: Path, *, both: bool = False) -> tuple[int, str]:
    """Run a command whose output goes into a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*COMMAND, *words], cwd=cwd, stdout=writer, text=True,
            stderr=writer if both else subprocess.PIPE,
        )  # fmt: skip
    finally:
        os.close(writer)
    return done.returncode, done.stderr or ""


WORDS = {
    "what rich draws": ["runs", "--store", "runs"],
    "what is echoed": ["runs", "--json", "--store", "runs"],
    "help": ["runs", "--help"],
    "a measurement": ["bench", "m.onnx", *QUICK, "--store", "runs"],
    "a check": ["check", "m.onnx", "m.onnx", "--random", "2", "--store", "runs"],
}


@pytest.mark.parametrize("words", WORDS.values(), ids=WORDS)
def test_a_reader_that_left_ends_a_command_quietly(words: list[str], folder: Path) -> None:
    status, talk = status_and_talk(words, folder)
    assert status == EXIT_UNREAD
    assert not {"traceback", "error"} & set(talk.lower().replace(":", " ").split())


def test_an_error_keeps_its_status_unless_its_reader_left(folder: Path) -> None:
    assert status_and_talk(["bench", "nosuch.onnx"], folder, both=True)[0] == EXIT_UNREAD
    status, talk = status_and_talk(["bench", "nosuch.onnx"], folder)
    assert status == EXIT_FAILED
    assert "error: there is no file" in talk


def test_a_full_disk_behind_the_output_is_one_error(folder: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "runs", "--store", "runs"], cwd=folder, stdout=full, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
    assert done.returncode == EXIT_FAILED
    assert done.stderr.startswith("error: the disk is full\n  writing   the output\n")
    assert "Traceback" not in done.stderr


def test_closed_streams_are_no_failure(folder: Path) -> None:
    words = " ".join(["exec", *COMMAND, *WORDS["a measurement"], "<&- >&- 2>&-"])
    assert subprocess.run(["sh", "-c", words], cwd=folder).returncode == 0


@pytest.mark.parametrize("columns", [60, 80, None])
def test_a_pipe_is_as_wide_as_columns_say(columns: int | None, folder: Path) -> None:
    kept = {key: value for key, value in os.environ.items() if key != "COLUMNS"}
    done = subprocess.run(
        [*COMMAND, "runs", "--store", "runs"], cwd=folder, capture_output=True, text=True,
        env={**kept, **({"COLUMNS": str(columns)} if columns else {})},
    )  # fmt: skip
    longest = max(map(len, done.stdout.splitlines()))
    assert longest > 80 if columns is None else longest <= columns
