"""The plug-ins that the how-to page shows work as they stand, added by another package."""

import sys
from pathlib import Path

import numpy as np
import pytest

from trtbench.cli import run

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "plugins"
DIGITS = Path(__file__).resolve().parents[2] / "src" / "trtbench" / "data" / "demo" / "digits.onnx"


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install the example for this process and its children, as its pyproject.toml says."""
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]
    facts = tmp_path / "site" / f"our_trtbench-{project['version']}.dist-info"
    facts.mkdir(parents=True)
    name = f"Name: {project['name']}\nVersion: {project['version']}\n"
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\n{name}")
    groups = project["entry-points"]
    lines = [f"[{group}]\n{k} = {v}\n" for group in groups for k, v in groups[group].items()]
    (facts / "entry_points.txt").write_text("".join(lines))
    for folder in (EXAMPLE, facts.parent):
        monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("PYTHONPATH", f"{EXAMPLE}:{facts.parent}")
    monkeypatch.setenv("TRTBENCH_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)


def test_the_runtime_measures_and_agrees_with_onnx_runtime(capsys: pytest.CaptureFixture[str]):
    few = ["--iterations", "3", "--duration", "0s", "--warmup", "0s", "--no-until-steady"]
    assert run(["bench", str(DIGITS), "-r", "onnx-reference", *few]) == 0
    assert "onnx-reference" in capsys.readouterr().out
    sides = ["-r", "onnxruntime", "-r", "onnx-reference"]
    expected = ["--random", "4", "--expect", "max_abs<=0.001"]
    assert run(["check", str(DIGITS), str(DIGITS), *sides, *expected]) == 0


CLOSING = """
from pathlib import Path
from our_runtime import *
from our_runtime import ReferenceSession, bench_session
def bench(spec, *, folder, stage):
    return bench_session(open_session, spec, stage=stage)
def open_session(spec):
    session = ReferenceSession(spec)
    session.close = lambda: Path("kept.txt").write_text(" ".join(
        sorted(path.name for path in Path.cwd().glob("store/**/launch-0/*"))))
    return session
"""


def test_what_a_session_has_opened_is_closed_after_its_results_are_kept(tmp_path: Path) -> None:
    (tmp_path / "site" / "closing.py").write_text(CLOSING)
    [names] = (tmp_path / "site").glob("*/entry_points.txt")
    names.write_text(
        names.read_text().replace("[trtbench.runtimes]", "[trtbench.runtimes]\nclosing = closing")
    )
    assert (
        run(["bench", str(DIGITS), "-r", "closing", "--iterations", "3", "--duration", "0s"]) == 0
    )
    assert {"outcome.json", "samples.npz"} <= {*Path("kept.txt").read_text().split()}


def test_the_task_judges_and_its_flag_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    images = np.random.default_rng(0).random((6, 1, 32, 32), np.float32)
    np.savez("data.npz", image=images, target=np.zeros(6))
    asked = ["--task", "regression", "--data", "data.npz", "--batch", "2", "--within", "1e6"]
    assert run(["eval", str(DIGITS), *asked, "-v"]) == 0
    printed = capsys.readouterr().out
    assert "mae" in printed.lower()
    assert "hits within 1e+06" in printed


def test_the_section_stands_in_reports() -> None:
    assert run(["bench", str(DIGITS), "--iterations", "20", "--duration", "0s"]) == 0
    assert run(["report", "last", "-o", "report", "--format", "md"]) == 0
    assert "Middle half / median" in Path("report/report.md").read_text()
