"""Copies of a process that is ready do what new ones do, and are not made where they would not."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from models import tiny_model
from ready_processes import REAL, Source, ready_processes
from trtbench.measure.bench import run_bench
from trtbench.requests.measure import BenchRequest
from trtbench.requests.run_spec import run_spec
from trtbench.requests.settings import Config
from trtbench.store.store import Store

pytestmark = [
    pytest.mark.process,
    pytest.mark.xdist_group("ready"),
    pytest.mark.skipif(sys.platform != "linux", reason="the kernel of another system"),
]

TRTBENCH = [sys.executable, "-m", "trtbench"]


@pytest.fixture(scope="module")
def source() -> Iterator[Source]:
    with ready_processes() as made:
        yield made


def both(source: Source, *words: str, **more: Any) -> list[tuple[int, str, str]]:
    """Run a command as a copy and as a new process; gives status and what each wrote."""
    found = []
    for real in ("0", "1"):
        before, environment = source.started, {**os.environ, REAL: real}
        done = subprocess.run(
            [*TRTBENCH, *words], env=environment, capture_output=True, text=True, **more
        )
        assert source.started - before == (real == "0")
        found.append((done.returncode, done.stdout, done.stderr))
    return found


@pytest.mark.parametrize(
    "words",
    [("--version",), ("bench", "none.onnx"), ("benhc",), ("runs", "--store", "here", "--json")],
)
def test_a_copy_says_what_a_new_process_says(
    source: Source, words: tuple[str, ...], tmp_path: Path
) -> None:
    copy, new = both(source, *words, cwd=tmp_path)
    assert copy == new


def test_a_worker_is_a_copy_and_sees_no_patch(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import onnxruntime

    monkeypatch.setattr(onnxruntime, "InferenceSession", None)
    asked = BenchRequest(model=tiny_model(tmp_path / "m.onnx"), batch=1, iterations=5, warmup=0.0)
    before = source.started
    run = run_bench(run_spec(asked, Config(store="")), store=Store(tmp_path / "store"))
    assert source.started == before + 1
    assert len(run.times) >= 5


def ignore_nothing() -> None:
    """Stand for what a test does between fork and exec."""


@pytest.mark.parametrize(
    "change",
    [
        lambda folder: {"preexec_fn": ignore_nothing},
        lambda folder: {"env": {**os.environ, "PYTHONPATH": str(folder)}},
        lambda folder: {"env": {**os.environ, "PYTHONHASHSEED": "7"}},
        lambda folder: {"umask": 0o077},
    ],
)
def test_what_could_make_a_difference_is_started_anew(
    source: Source, change: Callable[[Path], dict[str, Any]], tmp_path: Path
) -> None:
    (tmp_path / "numpy.py").touch()
    before = source.started
    subprocess.run([*TRTBENCH, "--version"], capture_output=True, **change(tmp_path))
    assert source.started == before


def test_a_folder_to_search_that_hides_nothing_is_searched(source: Source, tmp_path: Path) -> None:
    facts = tmp_path / "added-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: added\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[trtbench.runtimes]\nadded = added_runtime\n")
    (tmp_path / "added_runtime.py").write_text("raise OSError('it was found')\n")
    tiny_model(tmp_path / "m.onnx")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    before = source.started
    words = ["bench", "m.onnx", "-r", "added"]
    done = subprocess.run(
        [*TRTBENCH, *words], env=environment, cwd=tmp_path, capture_output=True, text=True
    )
    assert source.started == before + 1
    assert "it was found" in done.stderr
